#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Test Documentation/netlink/specs/hpcc.yaml with ynl, which is part of the sources of newer kernels."""

import ast
import json
import os
import sys

from lib.genl import SPECS, Family, cookie
from lib.ktap import expect, main, skip_all
from lib.path import MBPS, Path
from lib.tcp import pattern, transfer

CLI = f"{os.environ.get('HPCC_TREE')}/tools/net/ynl/pyynl/cli.py"


def ynl(ns, *words):
    """Run ynl. Return its output, a Python object."""
    return ast.literal_eval(ns.run("python3", "-B", CLI, "--spec", f"{SPECS}/hpcc.yaml", "--no-schema", *words))


def test_flows():
    """ynl returns the same values as our own reader, for one flow and for all flows, with identities of links."""
    path = Path(switches=3)
    path.change(2, f"hpcc rate {MBPS // 4}mbit delay 20us node 2 port 2")
    client, server = path.connect()
    transfer((client, server, pattern(200000)))
    ynl(path.a, "--dump", "flow-get", "--json", json.dumps({"identify": True}))
    transfer((client, server, pattern(400000)))
    flow, = ynl(path.a, "--dump", "flow-get")
    one = ynl(path.a, "--do", "flow-get", "--json", json.dumps({"cookie": cookie(client)}))
    ours, = Family(path.a, "hpcc").dump("flow-get")
    for attrs in flow, one, ours:
        for hop in attrs["hop"]:
            for name in {"age", "held"} & set(hop):
                del hop[name]
    expect("dump", flow, ours)
    expect("one", one, ours)
    print("#", json.dumps(flow))
    expect("links", [(hop["node"], hop["port"], hop["rate"]) for hop in flow["hop"]],
           [(i, 2, MBPS * 1000000 // (4 if i == 2 else 1)) for i in (1, 2, 3)])
    expect("the slow hop", max(flow["hop"], key=lambda hop: hop["u"])["hop"], 2)


def test_counters():
    """ynl returns the same counters as our own reader."""
    path = Path(switches=1)
    transfer((*path.connect(), pattern(100000)))
    attrs = ynl(path.a, "--dump", "counters-get")
    expect("counters", {one["name"]: one["value"] for one in attrs}, path.a.counters())


if __name__ == "__main__":
    if not os.path.exists(CLI):
        skip_all("the kernel's sources here have no ynl")
    main(sys.modules[__name__], modules=["sch_hpcc"])
