#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/report.c: receivers count flows and tell N; W_ai follows it."""

import struct
import sys

sys.path[0] += "/.."
from lib.ktap import expect, expect_in, main
from lib.net import Pair
from lib.packet import (CAP_QUIET, CAP_REPORT, CAP_TELEMETRY, ECHO, FORWARD, KIND, PROMPT, REPORT,
                        Sniffer, option, record, syn_option)
from lib.path import MBPS, Path
from lib.peer import W_AI, W_INIT, Flow, Link, Peer, near, settle
from lib.tcp import pattern, transfer

FLOWS = 2               # the kind of record that states N
WANTS = syn_option(caps=CAP_TELEMETRY | CAP_REPORT)


def report(n, kind=FLOWS, kind_of=REPORT):
    """An option with one record."""
    return option(kind_of, [struct.pack("!Q", kind << 60 | n)], 0, 0)


def reports(segments):
    """N of all reports."""
    found = [opt for seg in segments for opt in seg.ours() if opt.type == REPORT]
    expect("heads", {(opt.scale, opt.hops, opt.flags, len(opt.words)) for opt in found} - {(0, 0, 0, 1)},
           set())
    expect("kinds", {word >> 16 for opt in found for word in opt.words} - {FLOWS << 44}, set())
    return [opt.words[0] & 0xffff for opt in found]


def ask(peer, ts):
    """A request that wants an ACK at once. Return the options of that ACK."""
    peer.send(option(FORWARD, [record(1, ts, ts)], 12, 1, PROMPT), b"x" * 100)
    segments = peer.read_all(0.01)
    return [opt.type for seg in segments for opt in seg.ours()], reports(segments)


def test_who_asks():
    """Only who has n_flows 0 wants reports."""
    for n_flows, caps in (0, CAP_TELEMETRY | CAP_QUIET | CAP_REPORT), (100, CAP_TELEMETRY | CAP_QUIET):
        pair = Pair(n_flows=n_flows)
        sniffer = Sniffer(pair.c)
        pair.connect()
        syn, synack = sniffer.segments()[:2]
        for seg in syn, synack:
            expect("option", seg.option(KIND), syn_option(caps=caps))


def test_told_beside_an_echo():
    peer = Peer(base_rtt_ns=100000000)
    peer.connect(WANTS)
    expect("first", ask(peer, 1000), ([ECHO, REPORT], [1]))
    expect("within T", ask(peer, 2000), ([ECHO], []))
    peer.ns.run("sleep", "0.2")
    expect("later", ask(peer, 3000), ([ECHO, REPORT], [1]))


def test_not_told():
    """Who does not ask is not told."""
    peer = Peer(n_flows=0)
    peer.connect(syn_option(caps=CAP_TELEMETRY))
    expect("answer", ask(peer, 1000), ([ECHO], []))
    expect("report_sent", peer.ns.counters()["report_sent"], 0)


def test_counts():
    """Flows that come and go."""
    path = Path(switches=1, n_flows=0, base_rtt_ns=1000000, host_mbps=MBPS)
    ends = [path.connect(port) for port in range(5000, 5007)]
    sniffer = Sniffer(path.a, "right")
    transfer(*[(client, server, pattern(300000)) for client, server in ends])
    found = reports(seg for seg in sniffer.segments() if seg.sport >= 5000 and seg.sport < 5007)
    expect("seven", max(found), 7)
    path.a.run("sleep", "0.05")     # more than two periods
    transfer((*ends[0], pattern(300000)), (*ends[1], pattern(300000)))
    found = reports(seg for seg in sniffer.segments() if seg.sport >= 5000 and seg.sport < 5007)
    expect("two of them later", found[-1], 2)
    path.no_errors()
    expect("malformed", path.a.counters()["malformed_ignored"], 0)
    expect_in("report_received", path.a.counters()["report_received"], 1, 10000)


def growth(flow, link, told=None, rounds=9):
    """By how much W grows in each round trip below eta, additively."""
    flow.round(link.step(9000, 1.0, 1.0))
    settle(flow, link, 20000)
    flow.round(link.step(9000, 0.9, 0.0))
    last, grown = flow.round(link.step(9000, 0.9, 0.0))["Wc"], []
    for _ in range(rounds):
        if told is not None:
            flow.send(told)
        now = flow.round(link.step(9000, 0.9, 0.0))["Wc"]
        grown.append(now - last)
        last = now
    return grown


def test_W_ai_follows():
    """At most twice in a round trip, down to N as told, and back to the default when it is old."""
    one = W_INIT * 0.05
    flow = Flow(n_flows=0, max_stage=255)
    grown = growth(flow, Link(), report(4))
    for at, want in enumerate(min(W_AI * 2 ** i, one / 4) for i in range(len(grown))):
        near(f"growth {at}", grown[at], want, 0.02)
    flow = Flow(n_flows=0, max_stage=255)
    for grown in growth(flow, Link()):
        near("growth without reports", grown, W_AI, 0.02)
    flow = Flow(n_flows=0, max_stage=255, host_mbps=10000)
    near("of many", growth(flow, Link(), report(1000))[-1], 10 * W_INIT * 0.05 / 1000, 0.2)


def test_old_report():
    link = Link()
    flow = Flow(n_flows=0, max_stage=255)
    grown = growth(flow, link, report(1))
    near("growth", grown[-1], W_INIT * 0.05, 0.02)
    for _ in range(50):
        flow.round(link.step(9000, 0.5, 0.4))
    settle(flow, link, 20000)
    flow.round(link.step(9000, 0.9, 0.0))
    last = flow.round(link.step(9000, 0.9, 0.0))["Wc"]
    now = flow.round(link.step(9000, 0.9, 0.0))["Wc"]
    near("growth when it is old", now - last, W_AI, 0.02)


def test_another_bottleneck():
    """N counts while no hop has a larger u' than the last one."""
    for loads, want in ((0.5, 0.9), W_INIT * 0.05), ((0.9, 0.5), W_AI):
        flow = Flow(n_flows=0, max_stage=255)
        links = [Link(hop, tag=hop) for hop in (1, 2)]
        flow.round(*[link.step(9000, 1.0, 1.0) for link in links])
        for _ in range(5):
            flow.round(*[link.step(9000, 1.0, 1.0) for link in links])
        for _ in range(2):
            flow.round(*[link.step(9000, load, 0.0) for link, load in zip(links, loads)])
        last = 0
        for _ in range(9):
            flow.send(report(1))
            now = flow.round(*[link.step(9000, load, 0.0) for link, load in zip(links, loads)])["Wc"]
            grown, last = now - last, now
        near(f"growth with loads {loads}", grown, want, 0.02)


def test_bad_reports():
    """N of 0 or 65535, other kinds, more than one option: ignored and counted."""
    flow = Flow(n_flows=0, max_stage=255)
    link = Link()
    for told in (report(0), report(65535), report(1 << 20), report(1, 4), report(1, 0), report(1, 15),
                 report(1 << 59)):
        flow.send(told)
    expect("malformed_ignored", flow.ns.counters()["malformed_ignored"], 7)
    flow.send(report(1) + report(2))
    expect("twice", flow.ns.counters()["malformed_ignored"], 8)
    for kind in 1, 3:
        flow.send(report(1, kind))
    expect("receiver.c's", flow.ns.counters()["unagreed_ignored"], 2)
    flow = Flow(n_flows=0, max_stage=255)
    for grown in growth(flow, link, report(65535)):
        near("growth", grown, W_AI, 0.02)


def test_not_asked():
    """A REPORT that nobody asked for changes nothing."""
    for how in {}, {"n_flows": 0, "w_ai": 62}:
        flow = Flow(max_stage=255, **how)
        for grown in growth(flow, Link(), report(1)):
            near("growth", grown, W_AI, 0.03)
        expect_in("unagreed_ignored", flow.ns.counters()["unagreed_ignored"], 9, 9)


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc"])
