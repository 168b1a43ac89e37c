#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Every parameter: default, limits, refusals, and to whom they belong."""

import sys
import time

from hpcc_net import KernelLog, Netns, expect, main

# name: (default, smallest, largest, 0 means automatic)
KNOBS = {
    "eta_permille": (950, 1, 1000, False),
    "max_stage": (5, 0, 255, False),
    "n_flows": (100, 1, 1000000, False),
    "w_ai": (0, 1, 1 << 30, True),
    "base_rtt_ns": (0, 1000, 1000000000, True),
    "host_mbps": (0, 1, 1000000, True),
    "burst": (4, 1, 64, False),
    "slots": (3, 1, 3, False),
    "option_kind": (253, 253, 254, False),
    "option_exid": (0x4843, 0, 0xffff, False),
}


def refused(ns, name, value):
    """Whether writing a value fails with EINVAL."""
    try:
        ns.sysctl("net.hpcc." + name, value)
    except OSError:
        return True
    return False


def test_all_there():
    ns = Netns()
    expect("parameters", sorted(ns.run("ls", "/proc/sys/net/hpcc").split()), sorted(KNOBS))


def test_defaults():
    ns = Netns()
    expect("defaults", {name: int(ns.sysctl("net.hpcc." + name)) for name in KNOBS},
           {name: knob[0] for name, knob in KNOBS.items()})


def test_accepted():
    ns = Netns()
    for name, (_, low, high, zero) in KNOBS.items():
        for value in [low, high, (low + high) // 2] + [0] * zero:
            ns.sysctl("net.hpcc." + name, value)
            expect(name, ns.sysctl("net.hpcc." + name), str(value))


def test_refused():
    """Beyond the limits, not a number, more than one: refused, nothing changed."""
    ns = Netns()
    for name, (default, low, high, zero) in KNOBS.items():
        bad = [high + 1, -1, 1 << 32, (1 << 32) + default, "x", "1x", "0x", "1.5", "-"]
        if low > 1 or low == 1 and not zero:
            bad.append(low - 1 if low > 1 else 0)
        for value in bad:
            expect(f"{name} = {value!r} refused", refused(ns, name, value), True)
            expect(name, ns.sysctl("net.hpcc." + name), str(default))


def test_message():
    """The kernel log says what was refused, and what is allowed."""
    ns = Netns()
    for name, (_, low, high, zero) in KNOBS.items():
        time.sleep(6)       # messages are limited to 10 in 5 s
        log = KernelLog()
        refused(ns, name, high + 1)
        expect("message", [line for line in log.lines() if "suppressed" not in line],
               [f"net/hpcc/{name} = {high + 1} refused, allowed: "
                f"{'0 (automatic), ' if zero else ''}{low} to {high}"])


def test_per_namespace():
    """One namespace's value is nobody else's, born before or after."""
    before, ns = Netns(), Netns()
    for name, (_, low, high, _) in KNOBS.items():
        ns.sysctl("net.hpcc." + name, high if high != KNOBS[name][0] else low)
    after = Netns()
    for name, knob in KNOBS.items():
        for other in before, after:
            expect(name, other.sysctl("net.hpcc." + name), str(knob[0]))
        expect(f"{name} differs", ns.sysctl("net.hpcc." + name) != str(knob[0]), True)


def test_modes():
    """All may read, root may write."""
    ns = Netns()
    modes = ns.run("stat", "-c", "%a", *(f"/proc/sys/net/hpcc/{name}" for name in KNOBS))
    expect("modes", set(modes.split()), {"644"})


if __name__ == "__main__":
    main(sys.modules[__name__])
