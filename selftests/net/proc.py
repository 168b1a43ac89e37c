#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/proc.c: /proc/net/hpcc and /proc/net/hpcc_flows."""

import os
import sys
import time

sys.path[0] += "/.."
from lib.kernel import virtual_time
from lib.ktap import defer, expect, expect_in, main
from lib.net import Counters, Netns, Pair
from lib.peer import Peer
from lib.tcp import pattern, transfer

COUNTERS = """
    syn_sent syn_no_room syn_invalid agreed not_agreed no_memory
    forward_sent identify_sent echo_sent no_room forward_received echo_received
    unagreed_ignored malformed_ignored checksum_ignored window_ignored
    bad_hop_ignored ts_back_ignored tx_excess_ignored path_changes
    fallbacks unseen_loss returns ecn_responses timeouts
""".split()


def test_names():
    """Complete, each once, zero in a new namespace."""
    lines = Netns().read("/proc/net/hpcc").splitlines()
    expect("lines", lines, [f"{name} 0" for name in COUNTERS])


def test_per_namespace():
    """What one namespace counts, no other does."""
    idle = Netns()
    pair = Pair(qdisc="hpcc rate 1gbit delay 20us")
    client, server = pair.connect()
    transfer((client, server, pattern(200000)))
    time.sleep(0.1)
    zero = Counters.fromkeys(COUNTERS, 0)
    c, s = pair.c.counters() - zero, pair.s.counters() - zero
    expect("nobody else", idle.counters() - zero, {})
    if not virtual_time():
        c.pop("ts_back_ignored", None)      # two CPUs may let echoes overtake each other
    expect("sender", sorted(c),
           sorted(["syn_sent", "agreed", "forward_sent", "identify_sent", "echo_received"]))
    expect("receiver", sorted(s), sorted(["syn_sent", "agreed", "forward_received", "echo_sent"]))
    # a burst's segments carry one option each
    expect_in("FORWARD", s["forward_received"], c["forward_sent"] + c["identify_sent"], 200)
    expect("ECHO", c["echo_received"], s["echo_sent"])


def test_flow():
    """A line says who, how, and by which links."""
    for version, qdisc in ((4, "hpcc rate 1gbit delay 20us node 7 port 2"),
                           (6, "hpcc rate 2500mbit delay 20us node 1048575 port 65535")):
        pair = Pair(version, qdisc=qdisc)
        client, server = pair.connect()
        transfer((client, server, pattern(300000)))
        flow = pair.c.flow(client)
        prefix = "::ffff:" if version == 4 else ""
        expect("who", (flow["laddr"], flow["lport"], flow["raddr"], flow["rport"]),
               (prefix + pair.addr[0], client.getsockname()[1], prefix + pair.addr[1], 5000))
        expect("mode", flow["mode"], "telemetry")
        expect("hops", flow["hops"], 1)
        expect("links", flow["links"], {1: (7, 2, 1000000000) if version == 4 else
                                        (1048575, 65535, 2500000000)})
        expect_in("T", flow["T_ns"], 40000, 100000 if virtual_time() else 1000000000)
        expect_in("R T / W", flow["R"] * flow["T_ns"] / 1e9 / flow["W"], 0.99, 1.01)
        expect_in("W", flow["W"], flow["T_ns"] * 10 / 8 / 1024, flow["T_ns"] * 10 / 8 + 1)
        # A slow host loads a link by less than a thousandth.
        expect_in("U", flow["U_permille"], 1 if virtual_time() else 0, 65536000)


def test_more_than_a_page():
    """Many flows: every line is whole."""
    pair = Pair(6)
    listener = pair.listen()
    ends = [pair.connect(listener) for _ in range(120)]
    text = pair.c.read("/proc/net/hpcc_flows")
    expect("lines", len(text.splitlines()), len(ends))
    expect_in("size", len(text), 8192, 1 << 20)
    expect("ports", {flow["lport"] for flow in pair.c.flows()},
           {client.getsockname()[1] for client, _ in ends})


def test_flows_as_they_are_read():
    """A reader gets each flow once, by pages, which tell what there is when they are read,
    and nothing of other namespaces.
    """
    pair, other = Pair(6), Pair(6)
    listener = pair.listen()
    other.connect()
    ends = [pair.connect(listener) for _ in range(120)]
    with pair.c:
        fd = os.open("/proc/net/hpcc_flows", os.O_RDONLY)
    defer(os.close, fd)
    text = b""
    while (part := os.read(fd, 100)):
        text += part
    ports = [int(line.split()[0].rpartition(b".")[2]) for line in text.splitlines()]
    expect("ports", sorted(ports), sorted(client.getsockname()[1] for client, _ in ends))
    os.lseek(fd, 0, os.SEEK_SET)
    text = os.read(fd, 100)
    for client, server in ends:
        client.close()
        server.close()
    pair.c.expect_no_flows()
    while (part := os.read(fd, 100)):
        text += part
    # what had been made for the first page
    expect_in("lines of flows that are gone", len(text.splitlines()), 1, 40)


def test_modes():
    """Counters for all, connections for root; nothing to write."""
    peer = Peer()
    peer.connect()
    with peer.ns:
        expect("modes", [os.stat(f"/proc/net/{name}").st_mode & 0o777
                         for name in ("hpcc", "hpcc_flows")], [0o444, 0o440])
        for name in "hpcc", "hpcc_flows":
            try:
                fd = os.open(f"/proc/net/{name}", os.O_WRONLY)
                os.write(fd, b"0\n")
            except OSError:
                continue
            raise AssertionError(f"{name} was written to")


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc"])
