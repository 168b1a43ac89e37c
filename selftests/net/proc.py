#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/observe/info.c and identify.c: counters, flows, and the identities of the links on their paths."""

import os
import time

from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main
from lib.net import Counters, Netns, Pair
from lib.packet import IDENTIFY_ECHO, identity, option
from lib.peer import SCALE, Flow, Link
from lib.tcp import pattern, tcp_info, transfer

COUNTERS = """
    syn_sent syn_no_room syn_invalid agreed not_agreed no_memory flow_limit
    forward_sent identify_sent echo_sent no_room forward_received echo_received
    report_sent report_received windows_stopped window_old_ignored
    response_received response_ignored unagreed_ignored malformed_ignored checksum_ignored policy_ignored window_ignored
    bad_hop_ignored ts_back_ignored tx_excess_ignored path_changes
    probes_stopped muted fallbacks unseen_loss returns ecn_responses timeouts
    ioam_sent ioam_received ioam_ignored ioam_unknown_link ioam_stopped
    int_sent int_received int_ignored int_unknown_link int_stopped
    ifa_sent ifa_received ifa_ignored ifa_unknown_link ifa_stopped
    csig_sent csig_received csig_ignored csig_stopped
""".split()
LDCP_COUNTERS = """
    flows no_ecn low_priority_sent start_full start_lost start_marked marked below_one losses timeouts fallbacks returns
""".split()


def test_names():
    """Each module's file has each counter once, and all are zero in a new namespace."""
    for cc, names in ("hpcc", COUNTERS), ("ldcp", LDCP_COUNTERS):
        expect("lines", Netns().read(f"/proc/net/{cc}").splitlines(), [f"{name} 0" for name in names])


def test_per_namespace():
    """The counters of one namespace do not change with events in another one."""
    idle = Netns()
    pair = Pair(qdisc="hpcc rate 1gbit delay 20us")
    client, server = pair.connect()
    transfer((client, server, pattern(200000)))
    time.sleep(0.1)
    zero = Counters.fromkeys(COUNTERS, 0)
    c, s = pair.c.counters() - zero, pair.s.counters() - zero
    expect("nobody else", idle.counters() - zero, {})
    if not virtual_time():
        c.pop("ts_back_ignored", None)      # on two CPUs echoes may overtake each other
    expect("sender", sorted(c), sorted(["syn_sent", "agreed", "forward_sent", "echo_received"]))
    expect("receiver", sorted(s), sorted(["syn_sent", "agreed", "forward_received", "echo_sent"]))
    # Each segment of a burst carries an option.
    expect_in("FORWARD", s["forward_received"], c["forward_sent"], 200)
    expect("ECHO", c["echo_received"], s["echo_sent"])


def test_flow():
    """A flow is shown with its ends, its mode and its rate."""
    for version, qdisc in (4, "hpcc rate 1gbit delay 20us"), (6, "hpcc rate 2500mbit delay 20us"):
        pair = Pair(version, qdisc=qdisc)
        client, server = pair.connect()
        transfer((client, server, pattern(300000)))
        flow = pair.c.flow(client)
        expect("who", (flow["laddr"], flow["lport"], flow["raddr"], flow["rport"]),
               (pair.addr[0], client.getsockname()[1], pair.addr[1], 5000))
        expect("mode", flow["mode"], "telemetry")
        expect("hops", flow["hops"], 1)
        expect_in("T", flow["T_ns"], 40000, 100000 if virtual_time() else 1000000000)
        rate = tcp_info(client)["pacing_rate"]
        expect_in("rate T / W", rate * flow["T_ns"] / 1e9 / flow["W"], 0.99, 1.01)
        expect_in("R", flow["R"], 0.99 * rate, 1.01 * rate)
        expect_in("W", flow["W"], flow["T_ns"] * 10 / 8 / 1024, flow["T_ns"] * 10 / 8 + 1)
        # A slow host may load a link by less than a thousandth.
        expect_in("U", flow["U_permille"], 1 if virtual_time() else 0, 65536000)


def asked(ns):
    """Return how many segments of a namespace requested identities."""
    return ns.counters()["identify_sent"]


def test_paths():
    """The identities of links are requested only while a program asks for them, and only in its namespace."""
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
        pair.c.flows()
        send()
        expect("flows do not ask", asked(pair.c), 0)
        pair.c.ask()
        send()
        expect("links", pair.c.links(client), {1: link})
        expect("peer, who sends no data", pair.s.links(server), {})
        expect_in("IDENTIFY", asked(pair.c), 1, 2)
        expect("another namespace", asked(other.c), 0)


def test_paths_that_change():
    """The identity of a new link is requested, that of a hop beyond the path's end is forgotten."""
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
    expect("all have reported", rounds(20, a), 0)
    expect_in("a new link: IDENTIFY", rounds(3, a, b), 1, 4)
    expect("links", sorted(flow.ns.links()), [1])
    flow.send(option(IDENTIFY_ECHO, [identity(2, 8, 3, 10, 1)], SCALE, 2))
    expect("links", sorted(flow.ns.links()), [1, 2])
    rounds(2, a)
    expect("links of the shorter path", sorted(flow.ns.links()), [1])


def test_paths_sampled():
    """Identities arrive as soon if a connection requests load only once per T."""
    flow = Flow(sample=1)
    link = Link()
    for _ in range(12):
        flow.round(link.step(9000, 0.9))
    flow.ns.ask()
    flow.round(link.step(9000, 0.9))
    expect_in("IDENTIFY within a round trip", asked(flow.ns), 1, 4)


def test_paths_of_flows_to_come():
    """Flows begin and end while a program requests identities."""
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


def test_modes():
    """All users can read the counters, and no user can write them."""
    ns = Netns()
    with ns:
        expect("mode", os.stat("/proc/net/hpcc").st_mode & 0o777, 0o444)
        try:
            fd = os.open("/proc/net/hpcc", os.O_WRONLY)
            os.write(fd, b"0\n")
        except OSError:
            return
    raise AssertionError("counters were written to")


main(modules=["tcp_ldcp", "sch_hpcc"])
