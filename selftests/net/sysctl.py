#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Every parameter of hpcc, and its default; knob.py has its limits."""

import sys

from hpcc_net import Netns, expect, main

# name: (default, smallest, largest, 0 means automatic)
KNOBS = {
    "eta_permille": (950, 1, 1000, False),
    "max_stage": (5, 0, 255, False),
    "n_flows": (100, 1, 1000000, False),
    "w_ai": (0, 1, 1 << 30, True),
    "base_rtt_ns": (0, 1000, 1000000000, True),
    "host_mbps": (0, 1, 1000000, True),
    "burst": (16, 1, 64, False),
    "burst_shift": (5, 1, 10, False),
    "burst_ns": (0, 1, 1000000, True),
    "slots": (3, 1, 3, False),
    "sample": (8, 0, 64, False),
    "option_kind": (253, 253, 254, False),
    "option_exid": (0x4843, 0, 0xffff, False),
}


def test_all_there():
    ns = Netns()
    expect("parameters", sorted(ns.run("ls", "/proc/sys/net/hpcc").split()), sorted(KNOBS))


def test_defaults():
    ns = Netns()
    expect("defaults", {name: int(ns.sysctl("net.hpcc." + name)) for name in KNOBS},
           {name: knob[0] for name, knob in KNOBS.items()})


if __name__ == "__main__":
    main(sys.modules[__name__])
