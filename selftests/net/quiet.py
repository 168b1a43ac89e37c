#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Switches that write telemetry only on congestion: what receivers send, how senders react, and the whole path."""

import socket

from lib.genl import Family
from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main
from lib.packet import (CAP_QUIET, CAP_TELEMETRY, ECHO, FORWARD, FREE, IDENTIFY, PROMPT, identity,
                        option, quiet, record, syn_option)
from lib.path import MBPS, Path, uses_telemetry
from lib.peer import ETA, SCALE, T_NS, T_UNITS, W_AI, W_INIT, Flow, Link, Peer
from lib.tcp import get_cc, goodput_mbps, until

ONE = 1 << 24
BOTH = CAP_TELEMETRY | CAP_QUIET


class Able(Flow):
    def connect(self, ours=syn_option(caps=BOTH), **how):
        return super().connect(ours, **how)


def word(raw):
    return int.from_bytes(raw, "big")


def requester(caps=BOTH):
    """Return a peer that can send requests, with these capabilities."""
    return Peer().connected(syn_option(caps=caps))


def echo_of(peer, *requests):
    """Send requests, the last request with PROMPT. Return the sorted words of the echo."""
    for at, (records, hops, phase) in enumerate(requests, 1):
        flags = phase | (PROMPT if at == len(requests) else 0)
        peer.send(option(FORWARD, records, 12, hops, flags), b"x" * 100)
    found = [opt for seg in peer.read_all(0.1) for opt in seg.ours()]
    if not found:
        return None
    expect("echo", [(opt.type, opt.scale, opt.hops, opt.flags) for opt in found], [(ECHO, 12, requests[-1][1], 0)])
    return sorted(found[0].words)


# ---- the receiver

def test_echo_lists_quiet_hops():
    """An echo has one record for all hops that wrote no record, if the receiver can determine these hops."""
    two, five = record(2, 1000, 7, 5, 0xa2), record(5, 1000, 7, 5, 0xa5)
    for what, request, want in (
            ("one of five", ([two, FREE, FREE], 5, 0), [quiet(1, 3, 4, 5), two]),
            ("none of 15", ([FREE] * 3, 15, 0), [quiet(*range(1, 16))]),
            ("all", ([record(1, 9, 9), two], 2, 0), [record(1, 9, 9), two]),
            ("full, by later hops", ([two, five], 9, 0), [quiet(1, 3, 4), two, five]),
            ("phase 1", ([five, FREE], 6, 1), [quiet(3, 4, 6), five]),
            ("before the phase", ([two, FREE, FREE], 5, 1), [quiet(4, 5), two]),
            ("no slot", ([], 3, 0), None),
            ("phase behind the end", ([FREE] * 2, 2, 1), None),
            ("no switch", ([FREE] * 3, 0, 0), None)):
        expect(what, echo_of(requester(), request), want and sorted(map(word, want)))


def test_echo_has_newest_state():
    """If a quiet hop writes a record again, or a hop becomes quiet, the echo has the newest state."""
    one, two = record(1, 1000, 7, 5), record(2, 1000, 7, 5)
    peer = requester()
    for what, first, second, want in (
            ("now quiet", ([one, two], 2, 0), ([two, FREE], 2, 0), (two, quiet(1))),
            ("now a record", ([FREE, FREE], 2, 0), ([one, FREE], 2, 0), (one, quiet(2))),
            ("other hops: waiting marks are discarded", ([FREE] * 2, 2, 0), ([FREE] * 2, 1, 0), (quiet(1),))):
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        expect(what, echo_of(peer, first, second), sorted(map(word, want)))


def test_peer_that_does_not_understand():
    """A peer that did not announce CAP_QUIET gets records, but no marks of quiet hops."""
    peer = requester(CAP_TELEMETRY)
    one = record(1, 1000, 7, 5)
    expect("echo of a record", echo_of(peer, ([one, FREE], 3, 0)), [word(one)])
    expect("echo without a record", echo_of(peer, ([FREE, FREE], 3, 0)), None)
    expect("congestion control", peer.cc(), "hpcc")


def test_identities_are_no_quiet_hops():
    peer = requester()
    peer.send(option(IDENTIFY, [identity(2, 7, 2, 1, 1), FREE], 0, 3, PROMPT), b"x" * 100)
    expect("records", [opt.words for opt in peer.read(0.1).ours()], [[word(identity(2, 7, 2, 1, 1))]])


def test_all_have_their_turn():
    """The receiver echoes all records and quiet hops in turn, though each echo has one record."""
    flow = Able()
    seen = []
    for turn in range(60):
        flow.fill()
        flow.send(option(FORWARD, [record(1, turn, 1), record(3, turn, 1), FREE], SCALE, 4), b"x")
        for seg in flow.read_all(1e-9 * T_NS):
            flow.acked = max(flow.acked, seg.seq + len(seg.payload))
            seen += [opt.words for opt in seg.ours() if opt.type == ECHO]
    short = [words[0] for words in seen if len(words) == 1]
    expect_in("echoes of one record", len(short), 20, 10000)
    for what, of in (("hop 1", lambda w: w >> 60 == 1), ("hop 3", lambda w: w >> 60 == 3),
                     ("quiet hops", lambda w: w == word(quiet(2, 4)))):
        expect_in(f"echoes of {what}", sum(map(of, short)), len(short) // 5, len(short))


# ---- the sender

def test_quiet_is_telemetry():
    """While all hops are quiet W grows, by W_ai at first, and at most to W_init; the flow does not fall back."""
    flow, link = Flow(), Link()
    for _ in range(8):
        flow.run()
        flow.send(option(ECHO, [link.step(round(T_UNITS), 1, 0.5).raw()], SCALE))
    before = flow.flow()["W"]
    expect_in("W under load", before, 0, W_INIT / 4)
    sizes = []
    for _ in range(40):
        flow.run()
        flow.send(option(ECHO, [quiet(1)], SCALE, 1))
        sizes.append(flow.flow()["W"])
    expect("modes", (flow.cc(), flow.flow()["mode"]), ("hpcc", "telemetry"))
    expect("bad_hop_ignored", flow.ns.counters()["bad_hop_ignored"], 0)
    # W also falls at first, because U falls to eta.
    least = sizes.index(min(sizes))
    expect_in("round trips until W grows", least, 0, 12)
    expect("W", sizes[-1], W_INIT)
    ratio = max(later / max(earlier, 1) for earlier, later in zip(sizes[least:], sizes[least + 1:]))
    expect_in("growth in a round trip", ratio, 1.2, 2.05 + W_AI / before)


def test_quiet_holds():
    """A quiet hop has the u' that the window law assumes, and limits W if no hop has a larger u'."""
    flow = Able()
    family = Family(flow.ns, "hpcc")
    link = Link(hop=1)
    for busy, holder in (0.3, 1), (1.2, 0):
        for _ in range(4):
            flow.run()
            flow.send(option(ECHO, [link.step(9000, busy).raw(), quiet(2)], SCALE, 2))
        attrs, = family.dump("flow-get")
        print("#", attrs["hop"])
        expect("quiet", [hop.get("quiet", False) for hop in attrs["hop"]], [False, True])
        expect_in("u'", attrs["hop"][0]["u"] / ONE, busy - 0.01, busy + 0.01)
        expect_in("u' of the quiet hop", attrs["hop"][1]["u"] / ONE, ETA / 2, ETA)
        expect("hops that limit W", ["held" in hop for hop in attrs["hop"]], [holder == 0, holder == 1])


def test_record_ends_it():
    """A record of a hop replaces its quiet mark at once."""
    flow, link = Flow(), Link()
    for _ in range(4):
        flow.run()
        flow.send(option(ECHO, [quiet(1)], SCALE, 1))
    before = flow.flow()["W"]
    flow.run()
    flow.send(option(ECHO, [link.step(round(T_UNITS), 1, 1).raw()], SCALE))
    expect_in("U", flow.flow()["U_permille"], 1990, 2010)
    expect_in("W", flow.flow()["W"], 0.45 * before, 0.5 * before)


def test_bad_maps():
    flow = Flow()
    flow.run()
    flow.send(option(ECHO, [quiet(1, 2)], SCALE, 2))
    flow.send(option(ECHO, [quiet(1, 2)], SCALE, 2))
    window = flow.flow()["W"]
    for what, records, hops in (("beyond hops", [quiet(3)], 2), ("some beyond", [quiet(1, 3)], 2), ("empty", [FREE], 2),
                                ("no hops", [quiet(1)], 0), ("twice", [quiet(1), quiet(1)], 2),
                                ("with a record", [quiet(1), record(1, 5, 5)], 2),
                                ("behind a record", [record(1, 6, 5), quiet(1, 2)], 2)):
        before = flow.ns.counters()["bad_hop_ignored"]
        flow.send(option(ECHO, records, SCALE, hops))
        expect(what, flow.ns.counters()["bad_hop_ignored"] - before, 1)
    expect_in("W", flow.flow()["W"], 0, window)


# ---- the whole path

def counted(path, node):
    port = path.port(node)["hpcc"]
    return port["stamped"], port["unstamped"]["quiet"]


def whole_way(above):
    """Run a flow over a link of half the rate, with these thresholds. Return goodput, records, and p99 of the queue."""
    path = Path(sample=0, host_mbps=MBPS, start_rtt_ns=10**9)
    path.a.ask()
    path.change(1, "hpcc rate 500mbit stats off")
    for node, how in zip((1, 2), above):
        path.change(node, f"hpcc {how} delay 500us")
    client, server = path.connect()
    goodput_mbps(client, server, 3000000)
    path.change(1, "hpcc stats on")
    before = [counted(path, node) for node in (1, 2)]
    goodput = goodput_mbps(client, server, 6000000)
    records = [tuple(now - then for now, then in zip(counted(path, node), before[node - 1])) for node in (1, 2)]
    until(lambda: uses_telemetry(path.a, links=2), lambda: goodput_mbps(client, server, 300000))
    port = path.port(1)
    print(f"# {above}: {goodput:.0f} Mbit/s, records {records}, p99 {port['hpcc']['qlen_p99']}, "
          f"max {port['hpcc']['qlen_max']}")
    expect("mode", (get_cc(client), path.a.flow()["mode"], path.a.flow()["hops"]), ("hpcc", "telemetry", 2))
    expect("links", path.a.links(client), {1: (1, 2, 500000000), 2: (2, 2, 1000000000)})
    expect("drops", [path.port(node)["drops"] for node in (1, 2)], [0, 0])
    path.no_errors()
    return goodput, records, port["hpcc"]["qlen_p99"]


def test_whole_way():
    """Thresholds cost at most 5 % of the goodput: the loaded link writes records into some packets, the other none."""
    all_stamp, records, _ = whole_way(("stamp", "stamp"))
    expect("records", [quiet for _, quiet in records], [0, 0])
    for above in (("stamp above 10kb", "stamp above 10kb"), ("stamp above 10kb", "stamp"),
                  ("stamp", "stamp above 10kb")):
        goodput, records, p99 = whole_way(above)
        if virtual_time():
            expect_in(f"{above}: goodput", goodput, 0.95 * all_stamp, 1.05 * all_stamp)
            expect_in(f"{above}: p99 of the queue", p99, 0, 40960)
            if "above" in above[0]:
                expect_in(f"{above}: records at 1", records[0][0], 1, records[0][1] // 3)
        for node, (written, quiet_times) in enumerate(records, 1):
            if "above" not in above[node - 1]:
                expect(f"{above}: quiet at {node}", quiet_times, 0)
            elif node == 2 and virtual_time():
                expect(f"{above}: records at 2", written, 0)


def test_changes():
    """Thresholds change during a transfer. The flow stays in mode telemetry, both with records and with quiet hops."""
    path = Path(sample=0, host_mbps=MBPS)
    path.change(1, "hpcc rate 500mbit")
    client, server = path.connect()
    goodput_mbps(client, server, 1000000)
    for how in "stamp above 10kb", "stamp above 1mb", "stamp above 0", "stamp above 1b", "stamp above 0":
        for node in 1, 2:
            path.change(node, f"hpcc {how}")
        before = [counted(path, node) for node in (1, 2)]
        goodput_mbps(client, server, 1000000)
        written, quiet_times = (now - then for now, then in zip(counted(path, 2), before[1]))
        until(lambda: path.a.flow()["mode"] == "telemetry", lambda: goodput_mbps(client, server, 300000))
        expect(f"{how}: mode", (get_cc(client), path.a.flow()["mode"]), ("hpcc", "telemetry"))
        if how == "stamp above 0":
            expect(f"{how}: quiet", quiet_times, 0)
            expect_in(f"{how}: records", written, 500, 2000)
        else:
            expect_in(f"{how}: quiet", quiet_times, 500, 2000)
    if virtual_time():
        expect("fallbacks", path.a.counters()["fallbacks"], 0)
    path.no_errors()


main(modules=["sch_hpcc"])
