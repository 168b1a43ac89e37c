#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Receivers that compute W (kmod/hpcc/control/receiver.c) with sysctls that change, MPTCP, and many connections."""

import os
import random
import resource
import sys
import time

from lib.ktap import Skip, defer, expect, expect_in, main
from lib.kernel import virtual_time
from lib.net import IPPROTO_MPTCP, Pair, expect_none, meet
from lib.packet import SYN, Sniffer, ours_in
from lib.path import MBPS, Path, carrier_path, set_routes
from lib.tcp import pattern, set_cc, transfer

T_NS = 200000
W_INIT = MBPS * T_NS // 8000
RX = {"where": 1, "host_mbps": MBPS, "base_rtt_ns": T_NS}
# All sysctls that determine a receiver's parameters, or which end computes W.
CHANGES = {"where": (0, 1), "base_rtt_ns": (0, 1000, 50000, 200000, 10000000, 1000000000), "carrier": (0, 1),
           "host_mbps": (0, 1, 100, 1000, 1000000), "eta_permille": (1, 500, 950, 1000), "max_stage": (0, 5, 255),
           "settle": (0, 3, 64), "per_rtt": (0, 1), "n_flows": (0, 1, 100, 1000000), "w_ai": (0, 1, 100, 1 << 30),
           "sample": (0, 8, 64), "carry": (0, 1)}
DEFAULTS = {"carrier": 0, "eta_permille": 950, "max_stage": 0, "settle": 3, "per_rtt": 0, "n_flows": 100, "w_ai": 0,
            "sample": 8, "carry": 0} | RX


# This test is the first: otherwise the kernel would free memory of earlier tests during the measurement.

CONNECTIONS = 2000 if virtual_time() else 200


def slab_bytes():
    """Return the bytes of kernel objects in use, after a grace period and the end of TIME-WAIT states."""
    time.sleep(70 if virtual_time() else 1)
    with open("/proc/slabinfo", encoding="ascii") as file:
        lines = [line.split() for line in file][2:]
    return sum(int(words[1]) * int(words[3]) for words in lines)


def connected(pair, listener, where):
    """Open many connections, and send and receive at each end."""
    for ns in pair.c, pair.s:
        ns.sysctl("net.hpcc.where", where)
    ends = []
    for i in range(CONNECTIONS):
        client, server = pair.connect(listener)
        for _ in range(3):
            transfer((client, server, pattern(3000, i)), (server, client, pattern(3000, i + 1)))
        ends.append((client, server))
    for ns in pair.c, pair.s:
        flows = ns.flows()
        expect("flows", len(flows), CONNECTIONS)
        expect("W by the receiver", sum(flow["receiver"] for flow in flows), CONNECTIONS * where)
    return ends


def test_many():
    """The state kept by thousands of receivers is small, and is freed with their connections."""
    if not os.path.exists("/proc/slabinfo"):
        raise Skip("needs SLUB_DEBUG")
    defer(resource.setrlimit, resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * CONNECTIONS + 100,) * 2)
    pair = Pair(qdisc=f"hpcc rate {MBPS}mbit delay 20us node 1 port 1", sample=0, **RX)
    listener = pair.listen()
    took, left = [], []
    for where in 0, 1, 1:
        ends = connected(pair, listener, where)
        used = slab_bytes()
        for sock in sum(ends, ()):
            set_cc(sock, "reno")
        for ns in pair.c, pair.s:
            ns.expect_no_flows()
        took.append((used - slab_bytes()) / CONNECTIONS / 2)
        for sock in sum(ends, ()):
            sock.close()
        left.append(slab_bytes())
    print(f"# bytes of an end: {took[0]:.0f} if the sender computes W, {took[1]:.0f} if the receiver does")
    print(f"# slab: {left}")
    # A debug kernel keeps freed memory. In a guest in real time other processes also free memory.
    if virtual_time() and not os.path.exists("/sys/kernel/debug/kmemleak"):
        expect_in("bytes of an end if the sender computes W", took[0], 500, 1024)
        expect_in("additional bytes if the receiver does", took[1] - took[0], 256, 448)
        expect_in("bytes that stay allocated", left[2] - left[1], -8192, 8192)


def route(path, ns, line):
    """Set or delete a route to the other end."""
    bits = 32 if path.version == 4 else 128
    set_routes(ns, *[f"{path.addr[ns is path.a]}/{bits}{line}"] if line else [], replace=True)


class Storm:
    """Changes sysctls and routes at random; with leave sockets also leave hpcc and return."""

    def __init__(self, path, ends, leave, seed):
        self.path, self.ends, self.leave, self.rng = path, ends, leave, random.Random(seed)
        self.changes = 0
        self.modes = set()

    def __call__(self):
        rng = self.rng
        ns = rng.choice(self.path.hosts)
        name = rng.choice(list(CHANGES))
        ns.sysctl(f"net.hpcc.{name}", rng.choice(CHANGES[name]))
        if not rng.randrange(4):
            route(self.path, ns, rng.choice(("", " - -", " 0 1", " 1 0", " 1 1", " 1 -", " - 1")))
        if self.leave and not rng.randrange(8):
            set_cc(rng.choice(rng.choice(self.ends)), rng.choice(("cubic", "hpcc", "hpcc")))
        self.changes += 1
        if not self.changes % 16:
            self.modes |= {(flow["mode"], flow["receiver"]) for ns in self.path.hosts for flow in ns.flows()}


def test_storm():
    """Sysctls change while data flow and connections begin: the data arrive, and at the end the receiver computes W."""
    for version, leave in (4, False), (6, False), (6, True):
        path = carrier_path("ioam", **RX | {"version": version, "carrier": 0})
        ends = [path.connect(5000 + i) for i in range(3)]
        storm = Storm(path, ends, leave, version)
        for round_nr in range(4):
            ends.append(path.connect(6000 + round_nr))
            transfer(*[way for i, (client, server) in enumerate(ends) for way in (
                (client, server, pattern(150000, i)), (server, client, pattern(150000, i + 100)))],
                each=storm, timeout_s=600)
        expect_in("changes", storm.changes, 500, 1 << 30)
        expect("sender and receiver computed W", {("telemetry", 0), ("telemetry", 1)} - storm.modes, set())
        for ns in path.hosts:
            route(path, ns, "")
            for name, value in DEFAULTS.items():
                ns.sysctl(f"net.hpcc.{name}", value)
        for client, server in ends:
            transfer((client, server, pattern(20000, 1)), (server, client, pattern(20000, 2)))
            client.close()
            server.close()
        for ns in path.hosts:
            expect_none(ns, "checksum_ignored", "bad_hop_ignored", "no_memory")
            # A socket that returns with another T gets echoes in units that it has not used.
            if not leave:
                expect_none(ns, "malformed_ignored")
            ns.expect_no_flows()
        client, server = path.connect(7000)
        seen = []
        transfer((client, server, pattern(1000000)), (server, client, pattern(1000000, 1)),
                 each=lambda: seen.append((path.a.flow()["receiver"], path.b.flow()["receiver"])))
        expect("receivers", (1, 1) in seen, True)
        for ns in path.hosts:
            flow = ns.flow()
            expect("mode, hops, T", (flow["mode"], flow["hops"], flow["T_ns"]), ("telemetry", 2, T_NS))
            expect_in("W", flow["W"], 1, W_INIT)


def test_mptcp():
    """MPTCP uses the option space: its subflows make no agreement, and no receiver computes W for them."""
    path = Path(**RX)
    sniffer = Sniffer(path.b, "left")
    listener = path.b.listen(path.addr[1], sock=path.b.socket(4, IPPROTO_MPTCP))
    client, server = meet(path.a.socket(4, IPPROTO_MPTCP), listener)
    transfer((client, server, pattern(500000)), (server, client, pattern(500000, 1)))
    segments = sniffer.segments()
    expect("MPTCP", bool(segments[0].flags & SYN and segments[0].option(30)), True)
    expect("our options", ours_in(segments), [])
    for ns in path.hosts:
        counters = ns.counters()
        expect("agreed, not agreed", (counters["agreed"], counters["not_agreed"]), (0, 1))
    # A TCP connection beside the MPTCP connection:
    plain, peer = path.connect(5001)
    seen = []
    transfer((plain, peer, pattern(500000)), (client, server, pattern(100000)),
             each=lambda: seen.append(path.a.flow(plain)["receiver"]))
    expect("receiver computed W", max(seen), 1)


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc"])
