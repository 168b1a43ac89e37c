#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/proc.c: /proc/net/hpcc, hpcc_flows and hpcc_paths."""

import os
import sys
import time

sys.path[0] += "/.."
from lib.kernel import virtual_time
from lib.ktap import defer, expect, expect_in, main
from lib.net import Counters, Netns, Pair
from lib.packet import IDENTIFY_ECHO, identity, option
from lib.peer import SCALE, Flow, Link, Peer
from lib.tcp import pattern, transfer

COUNTERS = """
    syn_sent syn_no_room syn_invalid agreed not_agreed no_memory
    forward_sent identify_sent echo_sent no_room forward_received echo_received
    report_sent report_received windows_stopped window_old_ignored
    response_received response_ignored unagreed_ignored malformed_ignored checksum_ignored policy_ignored window_ignored
    bad_hop_ignored ts_back_ignored tx_excess_ignored path_changes
    probes_stopped fallbacks unseen_loss returns ecn_responses timeouts
    ioam_sent ioam_received ioam_ignored ioam_unknown_link ioam_stopped
    int_sent int_received int_ignored int_unknown_link int_stopped
    ifa_sent ifa_received ifa_ignored ifa_unknown_link ifa_stopped
    csig_sent csig_received csig_ignored csig_stopped
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
    expect("sender", sorted(c), sorted(["syn_sent", "agreed", "forward_sent", "echo_received"]))
    expect("receiver", sorted(s), sorted(["syn_sent", "agreed", "forward_received", "echo_sent"]))
    # a burst's segments carry one option each
    expect_in("FORWARD", s["forward_received"], c["forward_sent"], 200)
    expect("ECHO", c["echo_received"], s["echo_sent"])


def test_flow():
    """A line says who, how, and how fast."""
    for version, qdisc in (4, "hpcc rate 1gbit delay 20us"), (6, "hpcc rate 2500mbit delay 20us"):
        pair = Pair(version, qdisc=qdisc)
        client, server = pair.connect()
        transfer((client, server, pattern(300000)))
        flow = pair.c.flow(client)
        prefix = "::ffff:" if version == 4 else ""
        expect("who", (flow["laddr"], flow["lport"], flow["raddr"], flow["rport"]),
               (prefix + pair.addr[0], client.getsockname()[1], prefix + pair.addr[1], 5000))
        expect("mode", flow["mode"], "telemetry")
        expect("hops", flow["hops"], 1)
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


def asked(ns):
    """How many segments of a namespace asked links who they are."""
    return ns.counters()["identify_sent"]


def test_paths():
    """A line says who, and by which links, which are asked while the file is open."""
    for version, qdisc, link in (
            (4, "hpcc rate 1gbit delay 20us node 7 port 2", (7, 2, 1000000000)),
            (6, "hpcc rate 2500mbit delay 20us node 1048575 port 65535",
             (1048575, 65535, 2500000000))):
        pair, other = Pair(version, qdisc=qdisc), Pair(version, qdisc=qdisc)
        client, server = pair.connect()
        ends = other.connect()

        def send():
            transfer((client, server, pattern(100000)))
            transfer((*ends, pattern(100000)))

        send()
        expect("nobody has asked", (asked(pair.c), asked(other.c)), (0, 0))
        line = pair.c.read("/proc/net/hpcc_paths").split()
        side = "::ffff:%s.%u" if version == 4 else "%s.%u"
        expect("who", line, [side % (pair.addr[0], client.getsockname()[1]),
                             side % (pair.addr[1], 5000)])
        send()
        expect("nobody asks", asked(pair.c), 0)
        pair.c.ask()
        send()
        expect("links", pair.c.links(client), {1: link})
        expect("peer, who sends no data", pair.s.links(server), {})
        expect_in("IDENTIFY", asked(pair.c), 1, 2)
        expect("another namespace", asked(other.c), 0)


def test_paths_that_change():
    """A link that is new is asked, one behind the path's end is forgotten, and the names of
    the others stay.
    """
    flow = Flow()
    a, b = Link(hop=1, tag=1), Link(hop=2, tag=2)

    def rounds(turns, *links):
        before = asked(flow.ns)
        for _ in range(turns):
            flow.round(*(link.step(9000, 0.9) for link in links))
        return asked(flow.ns) - before

    rounds(3, a)
    flow.ns.ask()
    rounds(3, a)
    flow.send(option(IDENTIFY_ECHO, [identity(1, 7, 2, 10, 1)], SCALE, 1))
    expect("links", sorted(flow.ns.links()), [1])
    rounds(20, a)
    expect("all have told", rounds(20, a), 0)
    expect_in("a new link: IDENTIFY", rounds(3, a, b), 1, 4)
    expect("links", sorted(flow.ns.links()), [1])
    flow.send(option(IDENTIFY_ECHO, [identity(2, 8, 3, 10, 1)], SCALE, 2))
    expect("links", sorted(flow.ns.links()), [1, 2])
    rounds(2, a)
    expect("links of the shorter path", sorted(flow.ns.links()), [1])


def test_paths_sampled():
    """Names come as soon where a connection asks for load once in a T."""
    flow = Flow(sample=1)
    link = Link()
    for _ in range(12):
        flow.round(link.step(9000, 0.9))
    flow.ns.ask()
    flow.round(link.step(9000, 0.9))
    expect_in("IDENTIFY within a round trip", asked(flow.ns), 1, 4)


def test_paths_of_flows_to_come():
    """Flows that are born, and flows that end, while somebody reads."""
    pair = Pair(qdisc="hpcc rate 1gbit delay 20us node 7 port 2")
    pair.c.ask()
    expect("none", pair.c.paths(), {})
    listener = pair.listen()
    for _ in range(5):
        client, server = pair.connect(listener)
        transfer((client, server, pattern(100000)))
        expect("links", pair.c.links(client), {1: (7, 2, 1000000000)})
        client.close()
        server.close()
        pair.c.expect_no_flows()
    expect("none", pair.c.paths(), {})


def test_paths_wait():
    """For answers that come; not for connections that send nothing, nor for a signal."""
    pair = Pair(qdisc="hpcc rate 1gbit delay 20us node 7 port 2")
    client, server = pair.connect()
    transfer((client, server, pattern(100000)))

    def read(busy):
        """Links, and how long that took."""
        pid = os.fork()
        if not pid:
            until = time.monotonic() + 1
            while busy and time.monotonic() < until:
                transfer((client, server, pattern(2000)))
                time.sleep(0.01)
            os._exit(0)
        began = time.monotonic()
        links = pair.c.links(client)
        took = time.monotonic() - began
        os.waitpid(pid, 0)
        return links, took

    links, took = read(True)
    expect("links", links, {1: (7, 2, 1000000000)})
    if virtual_time():
        expect_in("seconds", took, 0, 0.19)
    links, took = read(False)
    expect("links of an idle one", links, {})
    expect_in("seconds", took, 0.19, 0.3 if virtual_time() else 5)


def test_modes():
    """Counters for all, connections for root; nothing to write."""
    peer = Peer()
    peer.connect()
    with peer.ns:
        expect("modes", [os.stat(f"/proc/net/{name}").st_mode & 0o777
                         for name in ("hpcc", "hpcc_flows", "hpcc_paths")],
               [0o444, 0o440, 0o440])
        for name in "hpcc", "hpcc_flows", "hpcc_paths":
            try:
                fd = os.open(f"/proc/net/{name}", os.O_WRONLY)
                os.write(fd, b"0\n")
            except OSError:
                continue
            raise AssertionError(f"{name} was written to")


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc"])
