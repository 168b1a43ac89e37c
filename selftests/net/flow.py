#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/flow/flow.c: the state of connections is created and freed in time; lifecycle.py tests both modules."""

import contextlib
import glob
import os
import random
import time

from lib.kernel import meminfo_kb, virtual_time
from lib.ktap import expect, expect_in, main
from lib.net import Netns, Pair, crowd
from lib.packet import ACK, ECHO, FORWARD, RST, option, ours_in, record
from lib.peer import Peer
from lib.tcp import pattern, set_cc, transfer

# A port that writes telemetry, at both ends of the cable.
PORT = "hpcc rate 1gbit delay 20us"


def test_switch_under_fire():
    """setsockopt(TCP_CONGESTION) switches while a peer sends random options."""
    peer = Peer().connected()
    rng = random.Random(3)
    peer.sock.setblocking(False)
    for turn in range(1000):
        if turn % 10 == 0:
            with contextlib.suppress(BlockingIOError):
                peer.sock.send(bytes(3000))
        if turn % 7 == 0:
            set_cc(peer.sock, rng.choice(("hpcc", "cubic", "reno", "hpcc")))
        records = [record(hop + 1, rng.getrandbits(20), rng.getrandbits(20), rng.getrandbits(12))
                   for hop in range(rng.randrange(4))]
        peer.send(option(rng.choice((FORWARD, ECHO)), records, 7), rng.choice((b"", b"x" * 30)))
        if turn % 5 == 0:
            while peer.take(0.0001):
                pass
    set_cc(peer.sock, "hpcc")
    expect("congestion control, flows", (peer.cc(), len(peer.ns.flows())), ("hpcc", 1))


def test_many():
    """150 connections exist at once, each with telemetry, and all their flows are freed afterwards."""
    pair, _, ends = crowd(150, qdisc=PORT)
    transfer(*[(*sockets, pattern(4000, i)) for i, sockets in enumerate(ends)])
    for ns in (pair.c, pair.s):
        flows = ns.flows()
        expect("flows, port pairs", (len(flows), len({(flow["lport"], flow["rport"]) for flow in flows})), (150, 150))
    for sock in sum(ends, ()):
        sock.close()
    for ns in (pair.c, pair.s):
        ns.expect_no_flows()


def unreclaimable_kb():
    """Return the KB of the kernel's unreclaimable objects, after a grace period in which some were freed. New kernels also
    keep freed objects for each CPU.
    """
    time.sleep(3)
    for cache in glob.glob("/sys/kernel/slab/*/shrink"):
        with open(cache, "w", encoding="ascii") as file:
            file.write("1")
    return meminfo_kb("SUnreclaim")


def test_memory():
    """A flow of one hop uses only the memory that it needs, and not the next power of two."""
    pair, _, ends = crowd(200, qdisc=PORT)
    for client, server in ends * 3:
        transfer((client, server, b"x" * 100), (server, client, b"x" * 100))
    expect("hops", {flow["hops"] for ns in (pair.c, pair.s) for flow in ns.flows()}, {1})
    used = unreclaimable_kb()
    for sock in sum(ends, ()):
        set_cc(sock, "reno")
    used = 1024 * (used - unreclaimable_kb()) / 400
    print(f"# {used:.0f} bytes for a flow")
    # A debug kernel keeps freed memory. In real time other processes also free memory.
    if virtual_time() and not os.path.exists("/sys/kernel/debug/kmemleak"):
        # 910 bytes of a slab, and 64 for the link and its index: 1024 on 6.1. A flow of 1024 bytes would need 1138.
        expect_in("bytes for a flow", used, 500, 1100)


def test_namespaces_apart():
    """Each namespace shows only its own connections, also if two namespaces use the same addresses."""
    pairs = [Pair(), Pair()]
    ends = [pair.connect(lport=6000) for pair in pairs]
    for pair in pairs:
        expect("flows", [(flow["lport"], flow["rport"]) for flow in pair.c.flows()], [(6000, 5000)])
    for sock in ends[0]:
        sock.close()
    pairs[0].c.expect_no_flows()
    expect("flows of the other pair, of a new namespace", (len(pairs[1].c.flows()), Netns().flows()), (1, []))


def test_reset_under_traffic():
    peer = Peer().connected()
    peer.sock.setblocking(False)
    peer.sock.send(bytes(100000))
    peer.take()
    peer.raw(RST | ACK, peer.seq, peer.acked)
    peer.sock.close()
    expect("flows", peer.ns.flows(), [])


def test_listener_and_half_open():
    """Connections that end at the SYN-ACK have no flow; connections that are never accepted leave no flow behind."""
    peer = Peer().listening()
    for first, send, flows in (8000, False, 0), (9000, True, 6):
        for peer.port in range(first, first + 6):
            peer.start_accept()
            if send:
                peer.send()
        expect("flows", len(peer.ns.flows()), flows)
    peer.listener.close()
    expect("flows", peer.ns.flows(), [])
    expect("options", ours_in([seg for seg in peer.read_all() if seg.flags & RST]), [])


main(modules=["sch_hpcc"])
