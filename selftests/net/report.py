#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/census.c: receivers count flows and report N; W_ai follows N."""

import fcntl
import itertools
import os
import socket
import struct
import time

from lib.box import BoxPath
from lib.ktap import defer, expect, expect_in, main, need_virtual_time
from lib.net import Pair, expect_none
from lib.packet import (ACK, CAP_QUIET, CAP_REPORT, CAP_TELEMETRY, ECHO, FORWARD, KIND, PROMPT, PSH,
                        REPORT, Sniffer, option, record, syn_option)
from lib.path import MBPS, Path
from lib.peer import T_NS, W_AI, W_INIT, Flow, Link, Peer, near, settle
from lib.tcp import pattern, send_for, transfer

FLOWS = 2               # the kind of record that states N
ONE = W_INIT * 0.05     # W_ai of a single flow
WANTS = syn_option(caps=CAP_TELEMETRY | CAP_REPORT)


def report(n, kind=FLOWS, kind_of=REPORT):
    """Return an option with one record."""
    return option(kind_of, [struct.pack("!Q", kind << 60 | n)], 0, 0)


def reports(segments):
    """Return N of all reports."""
    found = [opt for seg in segments for opt in seg.ours() if opt.type == REPORT]
    expect("heads", {(opt.scale, opt.hops, opt.flags, len(opt.words)) for opt in found} - {(0, 0, 0, 1)}, set())
    expect("kinds", {word >> 16 for opt in found for word in opt.words} - {FLOWS << 44}, set())
    return [opt.words[0] & 0xffff for opt in found]


def ask(peer, ts, wait_s=0.01):
    """Send a request with PROMPT. Return the options of its ACK, and N of its reports."""
    peer.send(option(FORWARD, [record(1, ts, ts)], 12, 1, PROMPT), b"x" * 100)
    segments = peer.read_all(wait_s)
    return [opt.type for seg in segments for opt in seg.ours()], reports(segments)


def test_who_asks():
    """SYN and SYN-ACK ask for reports of N only if n_flows is 0."""
    for n_flows, caps in (0, CAP_TELEMETRY | CAP_QUIET | CAP_REPORT), (100, CAP_TELEMETRY | CAP_QUIET):
        pair = Pair(n_flows=n_flows)
        sniffer = Sniffer(pair.c)
        pair.connect()
        syn, synack = sniffer.segments()[:2]
        for seg in syn, synack:
            expect("option", seg.option(KIND), syn_option(caps=caps))


def test_told_beside_an_echo():
    """A report is sent beside an echo, at most once per T."""
    peer = Peer(base_rtt_ns=100000000).connected(WANTS)
    expect("options, N of the first answer", ask(peer, 1000), ([ECHO, REPORT], [1]))
    expect("options, N within T", ask(peer, 2000), ([ECHO], []))
    peer.ns.run("sleep", "0.2")
    expect("options, N after T", ask(peer, 3000), ([ECHO, REPORT], [1]))


def test_not_told():
    peer = Peer(n_flows=0).connected(syn_option(caps=CAP_TELEMETRY))
    expect("answer", ask(peer, 1000), ([ECHO], []))
    expect("report_sent", peer.ns.counters()["report_sent"], 0)


def test_counts():
    path = Path(switches=1, n_flows=0, base_rtt_ns=1000000, host_mbps=MBPS)
    ends = [path.connect(port) for port in range(5000, 5007)]
    sniffer = Sniffer(path.a, "right")
    transfer(*[(client, server, pattern(300000)) for client, server in ends])
    expect("N of seven flows", max(reports(seg for seg in sniffer.segments() if 5000 <= seg.sport < 5007)), 7)
    path.a.run("sleep", "0.05")     # more than two counting periods
    transfer((*ends[0], pattern(300000)), (*ends[1], pattern(300000)))
    expect("N when two continue", reports(seg for seg in sniffer.segments() if 5000 <= seg.sport < 5007)[-1], 2)
    path.no_errors()
    expect_none(path.a, "malformed_ignored")
    expect_in("report_received", path.a.counters()["report_received"], 1, 10000)


def test_counts_both_ways():
    """Connections with data in both directions count, though most echoes share segments with requests."""
    need_virtual_time()
    for sample in 8, 0:
        path = Path(switches=1, n_flows=0, base_rtt_ns=1000000, host_mbps=MBPS, sample=sample)
        ends = [path.connect(port) for port in (5000, 5001, 5002)]
        sniffer = Sniffer(path.a, "right")
        transfer(*[(client, server, pattern(1000000)) for client, server in ends],
                 *[(server, client, pattern(1000000)) for client, server in ends])
        segments = sniffer.segments()
        found = reports(seg for seg in segments if 5000 <= seg.sport <= 5002)
        print(f"# sample {sample}: {len(found)} reports of {len(segments)} segments: "
              f"{[found.count(n) for n in range(1, 5)]}")
        late = found[len(found) // 2:]
        expect_in(f"sample {sample}: share of reports with N = 3, in {late}", late.count(3) / len(late), 0.9, 1)


class Receiver(Peer):
    """A peer with several connections to a kernel that counts flows."""

    def __init__(self, **how):
        super().__init__(**how)
        self.listen()
        self.saved = {}

    def new(self, port):
        self.port = port
        self.accept(WANTS)
        self.save()

    def save(self):
        self.saved[self.port] = self.seq, self.acked, self.sock

    def use(self, port):
        self.save()
        self.port = port
        self.seq, self.acked, self.sock = self.saved[port]
        return self

    def reported(self, *ports, ts=1000):
        """Send a request on each of these connections. Return N of the reports."""
        return [ask(self.use(port), ts + port, 0.0015)[1] for port in ports]


def test_late_ack():
    """An ACK with an old arrival time, which TCP_QUICKACK may release, does not end a counting period."""
    need_virtual_time()
    peer = Receiver()
    for port in 7001, 7002, 7003:
        peer.new(port)
    for _ in range(20):                     # more than one period per round
        reported = peer.reported(7001, 7002, 7003)
    expect("N", reported, [[3]] * 3)
    sock = peer.use(7001).sock
    sock.recv(1 << 20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    peer.send(option(FORWARD, [record(1, 5000, 5000)], 12, 1), b"x" * 10, flags=ACK | PSH)
    expect("data, segments", (sock.recv(100), peer.read_all()), (b"x" * 10, []))
    for _ in range(11):                     # shorter than the timeout of a delayed ACK
        reported = peer.reported(7002, 7003)
    expect("N of the others", reported, [[2]] * 2)
    peer.use(7001)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    found = reports(peer.read_all()) + sum(peer.reported(7002, 7003), [])
    expect_in(f"smallest N of {found}, with the late ACK", min(found), 2, 3)
    expect("reports", len(found), 3)


def test_slow_stranger():
    """If a peer completes the handshake after a second, the receiver does not count flows that ended long ago."""
    need_virtual_time()
    peer = Receiver(base_rtt_ns=0)
    ports = [7001, 7002, 7003, 7004]
    for port in ports[:3]:
        peer.new(port)
    peer.port = ports[3]
    peer.start_accept(WANTS)
    time.sleep(0.9)
    peer.accepted()
    peer.save()
    for _ in range(200):
        reported = peer.reported(*ports[:3]) + peer.reported(ports[3])
    expect("N", reported[0], [4])
    for _ in range(200):
        reported = peer.reported(*ports[2:])
    expect("N, 0.6 s after two flows stopped", reported[0], [2])


class TwoWays(Receiver):
    """A peer that reaches the kernel through two devices."""

    def __init__(self):
        super().__init__()
        with self.ns:
            second = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            defer(os.close, second)
            fcntl.ioctl(second, 0x400454ca, struct.pack("16sH22x", b"tun1", self.FLAGS))   # TUNSETIFF
        self.ns.ip("link set tun1 up")
        self.fds = self.fd, second
        self.by(0)

    def by(self, way):
        self.way = way
        return self

    def raw(self, *what, **how):
        os.write(self.fds[self.way], self.packet(*what, **how))


def test_two_devices():
    """A connection whose packets arrive through two devices in turn counts as at most one flow on each."""
    peer = TwoWays()
    for port in 7001, 7002:
        peer.new(port)
    for _ in range(40):                     # some periods on one device only
        peer.reported(7002)
    for at in range(100):
        ask(peer.by(at % 2).use(7001), 1000 + at, 0)
    expect("N on one device", peer.by(0).reported(7002), [[2]])
    found = []
    for at in range(40):
        found += sum(peer.by(at % 2).reported(7001) + peer.by(0).reported(7002), [])
    expect_in(f"largest N of {found}", max(found), 1, 2)
    for _ in range(40):
        alone, left = peer.by(1).reported(7001), peer.by(0).reported(7002)
    expect("N of each device", (alone, left), ([[1]], [[1]]))


def growth(flow, link, reported=None, rounds=9, rtts=itertools.repeat(2e-9 * T_NS), hops=None):
    flow.round(link.step(9000, 1.0, 1.0), hops=hops)
    settle(flow, link, 20000)
    flow.round(link.step(9000, 0.9, 0.0))
    last, grown = flow.round(link.step(9000, 0.9, 0.0))["Wc"], []
    for _ in range(rounds):
        if reported is not None:
            flow.send(reported)
        now = flow.round(link.step(9000, 0.9, 0.0), timeout_s=next(rtts), hops=hops)["Wc"]
        grown.append(now - last)
        last = now
    return grown


def counting(**how):
    """Return a flow that uses N and is always in a stage of growth."""
    return Flow(n_flows=0, max_stage=255, **how)


def expect_doubling(grown):
    """Fail unless W_ai doubles per round trip, up to the share for four flows."""
    for at, now in enumerate(grown):
        near(f"growth {at} of {grown}", now, min(W_AI * 2 ** at, ONE / 4), 0.02)


def test_W_ai_follows():
    """W_ai at most doubles per round trip, up to the share for N, and returns to the default without reports."""
    expect_doubling(growth(counting(), Link(), report(4)))
    for grown in growth(counting(), Link()):
        near("growth without reports", grown, W_AI, 0.02)
    near("growth with N = 1000", growth(counting(host_mbps=10000), Link(), report(1000))[-1], 10 * ONE / 1000, 0.2)


class Distant(Flow):
    def answer(self, *what):
        time.sleep(4e-9 * T_NS)
        return super().answer(*what)


def test_W_ai_while_the_rtt_falls():
    """W_ai at most doubles per round trip, even while T and the parameters that depend on T decrease."""
    need_virtual_time()
    flow = Distant(n_flows=0, max_stage=255)
    rtts = (T_NS * (1.9 - 0.1 * at) * 1e-9 for at in range(9))
    expect_doubling(growth(flow, Link(), report(4), rtts=rtts))


def test_old_report():
    flow, link = counting(), Link()
    near("growth", growth(flow, link, report(1))[-1], ONE, 0.02)
    for _ in range(50):
        flow.round(link.step(9000, 0.5, 0.4))
    near("growth after an old report", growth(flow, link, rounds=1)[0], W_AI, 0.02)


def test_another_bottleneck():
    """The sender uses N only while no hop has a larger u' than the last hop."""
    for loads, want in ((0.5, 0.9), ONE), ((0.9, 0.5), W_AI):
        flow, links = counting(), [Link(hop, tag=hop) for hop in (1, 2)]
        for _ in range(6):
            flow.round(*[link.step(9000, 1.0, 1.0) for link in links])
        for _ in range(2):
            flow.round(*[link.step(9000, load, 0.0) for link, load in zip(links, loads)])
        last = 0
        for _ in range(9):
            flow.send(report(1))
            now = flow.round(*[link.step(9000, load, 0.0) for link, load in zip(links, loads)])["Wc"]
            grown, last = now - last, now
        near(f"growth with loads {loads}", grown, want, 0.02)


def test_unheard_last_hop():
    """The sender does not use N without a record of the last hop, for example with slots 1 and more than eight hops."""
    near("growth", growth(counting(), Link(), report(1), hops=2)[-1], W_AI, 0.02)


def test_bad_reports():
    """Reports with N of 0 or 65535, other kinds or several records are ignored and counted."""
    flow = counting()
    for n, kind in (0, 2), (65535, 2), (1 << 20, 2), (1, 4), (1, 0), (1, 15), (1 << 59, 2):
        flow.send(report(n, kind))
    expect("malformed_ignored", flow.ns.counters()["malformed_ignored"], 7)
    flow.send(report(1) + report(2))
    expect("malformed_ignored after two reports", flow.ns.counters()["malformed_ignored"], 8)
    right = struct.pack("!Q", 2 << 60 | 1)
    for head in ([right], 9), ([right], 0, 1), ([right], 0, 0, 1), ([right] * 2, 0, 0), ((), 0, 0):
        flow.send(option(5, *head))
    expect("malformed_ignored after false heads", flow.ns.counters()["malformed_ignored"], 13)
    for kind in 1, 3:       # windows and parameters
        flow.send(report(1, kind))
    expect("unagreed_ignored", flow.ns.counters()["unagreed_ignored"], 2)
    for grown in growth(counting(), Link(), report(65535)):
        near("growth", grown, W_AI, 0.02)


def test_not_asked():
    for how in {}, {"n_flows": 0, "w_ai": 62}:
        flow = Flow(max_stage=255, **how)
        for grown in growth(flow, Link(), report(1)):
            near("growth", grown, W_AI, 0.03)
        expect_in("unagreed_ignored", flow.ns.counters()["unagreed_ignored"], 9, 9)


class Lie:
    """A box in front of a receiver that changes N on one connection."""

    def __init__(self, *lies):
        self.lies = itertools.cycle(lies)
        self.reported = set()

    def __call__(self, packet):
        if not packet.to_b and not packet.syn:
            packet.each(lambda opt: self.change(opt, packet.sport))
        return [packet]

    def change(self, opt, port):
        if opt[2] >> 5 != REPORT:
            return opt
        if port == 5000:
            return opt[:10] + struct.pack("!H", next(self.lies))
        self.reported.add(int.from_bytes(opt[10:12], "big"))
        return opt


def test_lies():
    """The receiver of the first of three flows lies about N. With N = 1 this flow has three times the W_ai and three
    times the share of the others. It has less than the others with N = 65534, and also if N alternates between both
    values, with the draft's maxStage. The link stays busy, and W stays within its bounds.
    """
    need_virtual_time()
    for lies, low, high in ((3,), 0.30, 0.37), ((1,), 0.5, 0.6), ((65534,), 0, 0.1), ((1, 65534), 0, 0.2):
        lie = Lie(*lies)
        path = BoxPath(change=lie, n_flows=0, base_rtt_ns=300000, host_mbps=MBPS, max_stage=5)
        path.change(1, f"hpcc rate {MBPS // 2}mbit delay 200us")
        flows = [path.connect(port) for port in (5000, 5001, 5002)]
        send_for(0.05, *flows)
        lie.reported.clear()
        arrived = send_for(0.3, *flows)
        share = [round(part / sum(arrived), 2) for part in arrived]
        port = path.port(1)
        print(f"# reported N = {lies}: shares {share}, {sum(arrived) * 8 / 0.3e6:.0f} Mbit/s, "
              f"p99 of the queue {port['hpcc']['qlen_p99']}")
        expect_in(f"reported {lies}: share", share[0], low, high)
        expect_in("Mbit/s", sum(arrived) * 8 / 0.3e6, MBPS / 2 * 0.88, MBPS / 2)
        expect("drops", port["drops"], 0)
        expect("N reported to the others", lie.reported, {3})
        w_init = MBPS * 300000 // 8000
        expect_in("W", path.a.flow(flows[0][0])["W"], w_init // 1024, w_init)


main(modules=["sch_hpcc"])
