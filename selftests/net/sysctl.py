#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/common/netns.c: each parameter of both modules: its limits, default, refused values, and owner."""

import errno
import os
import time

from lib import parameters
from lib.kernel import KernelLog
from lib.ktap import defer, expect, main
from lib.net import Netns


def test_all_there():
    ns = Netns()
    for folder, names in parameters.ALL.items():
        expect("parameters", sorted(ns.run("ls", f"/proc/sys/net/{folder}").split()), sorted(names))


def test_defaults():
    ns = Netns()
    for path, _, _, default, *_ in parameters.each():
        expect(path, int(ns.sysctl(path)), default)


def refused(ns, path, value):
    try:
        ns.sysctl(path, value)
    except OSError:
        return True
    return False


def test_accepted():
    ns = Netns()
    for path, _, _, _, low, high, zero in parameters.each():
        for value in [low, high, (low + high) // 2] + [0] * zero:
            ns.sysctl(path, value)
            expect(path, ns.sysctl(path), str(value))


def test_refused():
    """Values beyond the limits, texts that are no number, and several values are refused, and change nothing."""
    ns = Netns()
    for path, _, _, default, low, high, zero in parameters.each():
        bad = [high + 1, -1, 1 << 32, (1 << 32) + default, "x", "1x", "0x", "1.5", "-"]
        if low > 1 or low == 1 and not zero:
            bad.append(low - 1 if low > 1 else 0)
        for value in bad:
            expect(f"{path} = {value!r} refused", refused(ns, path, value), True)
            expect(path, ns.sysctl(path), str(default))


def message(writer, path, value):
    """Return the kernel's messages when it refuses a value."""
    log = KernelLog()
    expect(f"{path} = {value} refused", refused(writer, path, value), True)
    return [line for line in log.lines() if "suppressed" not in line]


class Here:
    """The initial namespace, as a Netns."""

    @staticmethod
    def sysctl(name, value):
        with open("/proc/sys/" + name.replace(".", "/"), "wb", 0) as file:
            file.write(str(value).encode())


def test_message():
    """In the initial namespace the kernel logs a refused value; a tenant's namespace cannot fill the log."""
    tenant = Netns()
    for number, (path, folder, name, _, low, high, zero) in enumerate(parameters.each()):
        if number % 9 == 0:
            time.sleep(6)       # messages are limited to 10 in 5 s
        expect("message of a tenant", message(tenant, path, high + 1), [])
        expect("message", message(Here, path, high + 1),
               [f"net/{folder}/{name} = {high + 1} refused, allowed: "
                f"{'0 (automatic), ' if zero else ''}{low} to {high}"])


def test_message_of_a_descriptor():
    """A tenant's parameters written by others neither fill the log nor suppress the administrator's messages."""
    time.sleep(6)
    with Netns():
        fd = os.open("/proc/sys/net/hpcc/burst", os.O_WRONLY)
    defer(os.close, fd)
    log = KernelLog()
    refusals = 0
    for _ in range(30):
        try:
            os.write(fd, b"1000\n")
        except OSError as error:
            refusals += error.errno == errno.EINVAL
    expect("refused", refusals, 30)
    expect("messages of a tenant", [line for line in log.lines() if "refused" in line], [])
    expect("message", message(Here, "net.hpcc.burst", 1000), ["net/hpcc/burst = 1000 refused, allowed: 1 to 64"])


def test_per_namespace():
    """A parameter that is set in one namespace keeps its default in all other namespaces, older and newer."""
    before, ns = Netns(), Netns()
    for path, _, _, default, low, high, _ in parameters.each():
        ns.sysctl(path, high if high != default else low)
    after = Netns()
    for path, _, _, default, *_ in parameters.each():
        for other in before, after:
            expect(path, other.sysctl(path), str(default))
        expect(f"{path} differs", ns.sysctl(path) != str(default), True)


def test_modes():
    ns = Netns()
    for folder, names in parameters.ALL.items():
        modes = ns.run("stat", "-c", "%a", *(f"/proc/sys/net/{folder}/{name}" for name in names))
        expect("modes", set(modes.split()), {"644"})


main(modules=["tcp_ldcp"])
