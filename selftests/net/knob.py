#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Every parameter of both modules: limits, refusals, and to whom they belong."""

import sys
import time

from hpcc_net import KernelLog, Netns, expect, main
import ldcp_main
import sysctl

# directory: {name: (default, smallest, largest, 0 means automatic)}
DIRS = {"hpcc": sysctl.KNOBS, "ldcp": ldcp_main.KNOBS}


def each():
    """Yield (path of sysctl, directory, name, default, low, high, zero)."""
    for folder, knobs in DIRS.items():
        for name, knob in knobs.items():
            yield (f"net.{folder}.{name}", folder, name, *knob)


def refused(ns, path, value):
    """Whether writing a value fails."""
    try:
        ns.sysctl(path, value)
    except OSError:
        return True
    return False


def test_accepted():
    ns = Netns()
    for path, _, _, _, low, high, zero in each():
        for value in [low, high, (low + high) // 2] + [0] * zero:
            ns.sysctl(path, value)
            expect(path, ns.sysctl(path), str(value))


def test_refused():
    """Beyond the limits, not a number, more than one: refused, nothing changed."""
    ns = Netns()
    for path, _, _, default, low, high, zero in each():
        bad = [high + 1, -1, 1 << 32, (1 << 32) + default, "x", "1x", "0x", "1.5", "-"]
        if low > 1 or low == 1 and not zero:
            bad.append(low - 1 if low > 1 else 0)
        for value in bad:
            expect(f"{path} = {value!r} refused", refused(ns, path, value), True)
            expect(path, ns.sysctl(path), str(default))


def test_message():
    """The kernel log says what was refused, and what is allowed."""
    ns = Netns()
    for number, (path, folder, name, _, low, high, zero) in enumerate(each()):
        if number % 9 == 0:
            time.sleep(6)       # messages are limited to 10 in 5 s
        log = KernelLog()
        refused(ns, path, high + 1)
        expect("message", [line for line in log.lines() if "suppressed" not in line],
               [f"net/{folder}/{name} = {high + 1} refused, allowed: "
                f"{'0 (automatic), ' if zero else ''}{low} to {high}"])


def test_per_namespace():
    """One namespace's value is nobody else's, born before or after."""
    before, ns = Netns(), Netns()
    for path, _, _, default, low, high, _ in each():
        ns.sysctl(path, high if high != default else low)
    after = Netns()
    for path, _, _, default, *_ in each():
        for other in before, after:
            expect(path, other.sysctl(path), str(default))
        expect(f"{path} differs", ns.sysctl(path) != str(default), True)


def test_modes():
    """All may read, root may write."""
    ns = Netns()
    for folder, knobs in DIRS.items():
        modes = ns.run("stat", "-c", "%a", *(f"/proc/sys/net/{folder}/{name}" for name in knobs))
        expect("modes", set(modes.split()), {"644"})


if __name__ == "__main__":
    main(sys.modules[__name__])
