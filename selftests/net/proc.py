#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/observe/info.c and identify.c: counters, flows, and the identities of the links on their paths."""

import os
import time

from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main
from lib.net import Counters, Netns, Pair, joined
from lib.packet import IDENTIFY_ECHO, identity, option
from lib.peer import SCALE, Flow, Link
from lib.tcp import pattern, transfer

COUNTERS = """
    syn_sent syn_no_room syn_invalid agreed not_agreed key_required no_memory flow_limit
    forward_sent identify_sent echo_sent no_room forward_received echo_received
    report_sent report_received windows_stopped window_old_ignored
    response_received response_ignored unagreed_ignored malformed_ignored checksum_ignored policy_ignored window_ignored
    bad_hop_ignored ts_back_ignored tx_excess_ignored unsigned_ignored wrong_tag_ignored replayed_ignored path_changes
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
    idle = Netns()
    pair, client, server = joined(Pair(qdisc="hpcc rate 1gbit delay 20us"))
    transfer((client, server, pattern(200000)))
    time.sleep(0.1)
    zero = Counters.fromkeys(COUNTERS, 0)
    c, s = pair.c.counters() - zero, pair.s.counters() - zero
    expect("counters of another namespace", idle.counters() - zero, {})
    if not virtual_time():
        c.pop("ts_back_ignored", None)      # on two CPUs echoes may overtake each other
    expect("sender", set(c), {"syn_sent", "agreed", "forward_sent", "echo_received"})
    expect("receiver", set(s), {"syn_sent", "agreed", "forward_received", "echo_sent"})
    # Each segment of a burst carries an option.
    expect_in("FORWARD", s["forward_received"], c["forward_sent"], 200)
    expect("ECHO", c["echo_received"], s["echo_sent"])


def asked(ns):
    return ns.counters()["identify_sent"]


def test_paths():
    """Flows request identities of links only while a program requests them, and only in its namespace."""
    for version, link in (4, (7, 2, 1000000000)), (6, (1048575, 65535, 2500000000)):
        qdisc = "hpcc node {} port {} rate {}bit delay 20us".format(*link)
        pair, other = Pair(version, qdisc=qdisc), Pair(version, qdisc=qdisc)
        client, server = pair.connect()
        ends = other.connect()

        def send():
            transfer((client, server, pattern(100000)))
            transfer((*ends, pattern(100000)))

        send()
        expect("requests before a program asks", (asked(pair.c), asked(other.c)), (0, 0))
        pair.c.flows()
        send()
        expect("requests after a dump of flows", asked(pair.c), 0)
        pair.c.ask()
        send()
        expect("links", pair.c.links(client), {1: link})
        expect("links of the peer, which sends no data", pair.s.links(server), {})
        expect_in("IDENTIFY", asked(pair.c), 1, 2)
        expect("requests in another namespace", asked(other.c), 0)


def test_paths_that_change():
    """The identity of a new link is requested, the identity of a hop beyond the path's end is deleted."""
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
    expect("requests after all links have reported", rounds(20, a), 0)
    expect_in("requests to a new link", rounds(3, a, b), 1, 4)
    expect("links", sorted(flow.ns.links()), [1])
    flow.send(option(IDENTIFY_ECHO, [identity(2, 8, 3, 10, 1)], SCALE, 2))
    expect("links", sorted(flow.ns.links()), [1, 2])
    rounds(2, a)
    expect("links of the shorter path", sorted(flow.ns.links()), [1])


def test_paths_sampled():
    """Identities arrive as early if a connection requests load only once per T."""
    flow, link = Flow(sample=1), Link()
    for _ in range(12):
        flow.round(link.step(9000, 0.9))
    flow.ns.ask()
    flow.round(link.step(9000, 0.9))
    expect_in("IDENTIFY within a round trip", asked(flow.ns), 1, 4)


def test_paths_of_flows_to_come():
    pair = Pair(qdisc="hpcc rate 1gbit delay 20us node 7 port 2")
    pair.c.ask()
    expect("paths before the first flow", pair.c.paths(), {})
    listener = pair.listen()
    for _ in range(5):
        client, server = pair.connect(listener)
        transfer((client, server, pattern(100000)))
        expect("links", pair.c.links(client), {1: (7, 2, 1000000000)})
        client.close()
        server.close()
        pair.c.expect_no_flows()
    expect("paths after the last flow", pair.c.paths(), {})


def test_modes():
    ns = Netns()
    with ns:
        expect("mode", os.stat("/proc/net/hpcc").st_mode & 0o777, 0o444)
        try:
            os.write(os.open("/proc/net/hpcc", os.O_WRONLY), b"0\n")
        except OSError:
            return
    raise AssertionError("counters were written to")


main(modules=["tcp_ldcp", "sch_hpcc"])
