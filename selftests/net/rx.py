#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/receiver.c: the receiver computes W (net.hpcc.where = 1)."""

import copy
import fcntl
import math
import struct
import time

from lib.kernel import unload
from lib.ktap import cases, defer, expect, expect_in, main, need_virtual_time
from lib.net import expect_none, joined, loaded_again, meet
from lib.packet import (ACK, CAP_QUIET, CAP_TELEMETRY, CAP_WINDOW, ECHO, FORWARD, PROMPT, REPORT,
                        RESPONSE, Sniffer, option, record, syn_option)
from lib.path import MBPS, Path
from lib.peer import ETA, SCALE, T_NS, T_UNITS, W_AI, W_INIT, Flow, Link, Peer, exact_sleep, near, qlen_code
from lib.tcp import pattern, set_cc, tcp_info, transfer

WINDOW, PARAMETERS = 1, 3
ONE = 1 << 30
COMPUTES = syn_option(caps=CAP_TELEMETRY | CAP_QUIET | CAP_WINDOW)
PSH, CE, ECT = 8, 3, 2
STEP = round(T_UNITS / 16)
BY_RECEIVER = {"where": 1, "host_mbps": MBPS, "base_rtt_ns": 200000}


def words(*numbers):
    return option(REPORT, [struct.pack("!Q", number) for number in numbers], 0, 0)


def window(part, seq, set_id=1):
    """Return a window record: W as a fraction of W_init."""
    return words(WINDOW << 60 | set_id << 56 | (seq & 0xffff) << 32 | round(part * ONE))


def parameters(set_id=1, T=T_NS, eta=950, stage=5, settle=3, per_rtt=0, W_min=16, W=1.0, W_ai=0.0005, alone=0):
    """Return the two words of a sender's parameters."""
    head = PARAMETERS << 60 | set_id << 56
    return (head | stage << 48 | settle << 41 | per_rtt << 40 | eta << 30 | T,
            head | alone << 55 | W_min << 44 | (round(W * 65536) - 1) << 28 | round(W_ai * (1 << 28)))


def reports(segments, kind):
    """Return the records of all reports whose first record is of this kind."""
    found = [opt for seg in segments for opt in seg.ours() if opt.type == REPORT]
    expect("heads", {(opt.scale, opt.hops, opt.flags) for opt in found} - {(0, 0, 0)}, set())
    return [opt.words for opt in found if opt.words[0] >> 60 == kind]


def parts(segments):
    return [(sent[0] >> 56 & 15, (sent[0] & 0xffffffff) / ONE) for sent in reports(segments, WINDOW)]


# This test is the first because connections of other tests would still use the module.

def test_receiver_unloads():
    """A receiver that computes W uses the modules only while its connections run hpcc: later they unload."""
    path = Path(**BY_RECEIVER)
    listener = path.b.listen(path.addr[1])
    client, server = meet(path.a.socket(), listener)
    listener.close()
    used = []
    transfer((client, server, pattern(1000000)), each=lambda: used.append(path.a.flow()["receiver"]))
    expect("receiver", max(used), 1)
    for sock in server, client:
        set_cc(sock, "cubic")
    for ns in path.hosts:
        ns.sysctl("net.ipv4.tcp_congestion_control", "cubic")
        ns.expect_no_flows()
    defer(loaded_again)
    expect("unload", unload(path.a, 60), True)
    transfer((client, server, pattern(1000000)))


# ---- Which end computes W (routes.py test_offer tests what SYN and SYN-ACK offer) ----

def test_who_asks():
    """A sender requests windows unless it has where 0, the peer did not offer, there is no ECN, or requests are on
    probes.
    """
    for where, caps, ecn, carry, asks in (
            (1, COMPUTES, True, 0, True), (0, COMPUTES, True, 0, False), (1, syn_option(), True, 0, False),
            (1, COMPUTES, False, 0, False), (1, COMPUTES, True, 1, False)):
        peer = Peer(ecn=ecn, where=where, carry=carry).connected(caps)
        peer.sock.send(bytes(10000))
        found = reports(peer.read_all(0.001), PARAMETERS)
        expect(f"where {where} ecn {ecn} carry {carry} caps {caps}", bool(found), asks)


# ---- Sender ----

class Sender(Flow):
    """A flow whose sender is a kernel; the peer computes W."""

    def __init__(self, report=True, **how):
        self.seqs, self.set_id = 0, 1
        Peer.__init__(self, ecn=True, **({"where": 1} | how))
        self.connect(COMPUTES)
        self.sock.setblocking(False)
        self.fill()
        self.segments = self.run()
        if report:
            self.report(1.0)

    def report(self, part, **how):
        """Send a window, and an ACK of all data received."""
        self.seqs += 1
        self.send(window(part, self.seqs, self.set_id), **how)
        return self.flow()

    def next_reports(self, kind):
        """Return the reports of a kind on the next segments that have any. With a small W these segments are far apart.
        """
        for _ in range(100):
            if found := reports(self.run(), kind):
                return found
        return []


def expect_parameters(sent, W_ai, **how):
    """Fail unless these parameters are sent, with W_min = W_init / 1024, and W_ai apart from rounding."""
    expect_in("W_ai", sent[1] & 0xfffffff, W_ai * (1 << 28) - 2, W_ai * (1 << 28) + 1)
    expect("parameters", tuple(sent), parameters(W_ai=(sent[1] & 0xfffffff) / (1 << 28), **how))


def test_parameters():
    flow = Sender(report=False)
    sent = reports(flow.segments, PARAMETERS)
    expect("sets", len(set(map(tuple, sent))), 1)
    expect_parameters(sent[0], stage=0, W_ai=W_AI / W_INIT)
    expect("receiver", flow.flow()["receiver"], 0)
    time.sleep(T_NS / 1e9)
    flow.send()
    expect("parameters after T", reports(flow.run(), PARAMETERS)[0], sent[0])
    expect("receiver", flow.report(1.0)["receiver"], 1)
    time.sleep(T_NS / 1e9)
    flow.send()
    segments = flow.run()
    expect("parameters after an answer", reports(segments, PARAMETERS), [])
    expect_in("requests", sum(opt.type == FORWARD for seg in segments for opt in seg.ours()), 1, 10000)


def test_configured_parameters():
    flow = Sender(report=False, eta_permille=900, max_stage=7, settle=9, per_rtt=1, n_flows=10)
    expect_parameters(reports(flow.segments, PARAMETERS)[0], eta=900, stage=7, settle=9, per_rtt=1, W_ai=0.01)


def test_repeated_parameters():
    """Repeated parameters contain the current W and not the W of the first parameters, because the answer sets W."""
    need_virtual_time()
    flow, link = Sender(report=False), Link()
    for _ in range(4):
        flow.round(link.step(9000, 1.0, 3.0))
    W = flow.flow()["W"]
    expect_in("W", W, W_INIT >> 10, W_INIT // 4)
    time.sleep(T_NS / 1e9)
    flow.echo(link.step(9000, 1.0, 0.0))
    sent = flow.next_reports(PARAMETERS)[0]
    expect_in("W sent, in W_init / 65536", 1 + (sent[1] >> 28 & 0xffff), 64, 65536 * 5 // 4 * W // W_INIT)


class Distant(Sender):
    def answer(self, *what):
        time.sleep(4e-9 * T_NS)
        return super().answer(*what)


def test_N_is_not_told():
    """The parameters contain W_ai of a single flow, whatever N was reported before: the receiver divides it by N."""
    need_virtual_time()
    flow, link = Distant(report=False, n_flows=0, max_stage=255), Link()
    flow.round(link.step(9000, 1.0, 1.0))
    for at in range(6):
        flow.send(words(2 << 60 | 10))      # N is 10
        now = flow.round(link.step(9000, 0.9, 0.0), timeout_s=T_NS * (1.9 - 0.1 * at) * 1e-9)
    expect("mode, receiver", (now["mode"], now["receiver"]), ("telemetry", 0))
    time.sleep(T_NS / 1e9)
    flow.echo(link.step(9000, 0.9, 0.0))
    word = flow.next_reports(PARAMETERS)[0][1]
    expect("alone", word >> 55 & 1, 1)
    expect_in("W_ai", word & 0xfffffff, *[0.05 * (1 << 28) * part for part in (0.99, 1.01)])


def test_W():
    """W and Wc equal the received window, but at least W_min; R is W/T, or nearly (window.py test_gaps_differ)."""
    flow = Sender()
    for part in 1.0, 0.5, 0.123, 0.01, 1 / 1024, 0.00001, 0.7:
        now = flow.report(part)
        near("W", now["W"], max(W_INIT * part, W_INIT >> 10, 1448 / 16), 0.002)
        expect("Wc", now["Wc"], now["W"])
        near("R", flow.rate(), now["W"] * 1e9 / T_NS, 0.01 if now["W"] > 724 else 0.13)
        segs = math.ceil(now["W"] / 1420)
        expect_in(f"cwnd of {segs} segments", tcp_info(flow.sock)["cwnd"] - segs, 2 + (segs > 8), 2 + (segs >= 8))


def test_audit():
    """Records that are echoed beside windows change U, but not W."""
    flow, link = Sender(), Link()
    flow.report(0.5)
    for _ in range(9):
        flow.run()
        flow.echo(link.step(9000, 1.0, 2.0))
    expect("W", flow.flow()["W"], W_INIT // 2)
    expect_in("U", flow.flow()["U_permille"], 2900, 3100)


def test_reordered_and_repeated():
    flow = Sender()
    for flow.seqs in 0x5000, 0xa000, 0xfffe:
        flow.report(0.9)
    for seq, part, want in ((0x10001, 0.4, 0.4), (0x10000, 0.8, 0.4), (0xfffe, 0.7, 0.4), (0x10001, 0.6, 0.4),
                            (0x10002, 0.3, 0.3)):
        flow.send(window(part, seq))
        near(f"W after {seq:x}", flow.flow()["W"], W_INIT * want)
    expect("window_old_ignored", flow.ns.counters()["window_old_ignored"], 3)


def test_lost():
    """However many windows were lost, the next one counts."""
    flow = Sender()
    for lost in 1, 5, 300, 30000:
        flow.seqs += lost
        flow.run()
        near("W", flow.report(1 / (2 + lost % 7))["W"], W_INIT / (2 + lost % 7))


def test_bad_windows():
    """A window with W of 0 or above W_init, for other parameters, or with a second record is ignored and counted."""
    flow = Sender()
    flow.report(0.5)
    good = WINDOW << 60 | 1 << 56 | 10 << 32 | ONE
    for bad in window(0, 10), window(1.001, 10), window(3.9, 10), words(good | 1 << 48), words(good, good):
        flow.send(bad)
    expect("malformed_ignored", flow.ns.counters()["malformed_ignored"], 5)
    for set_id in 0, 2, 15:
        flow.send(window(1.0, 10, set_id))
    expect("window_old_ignored", flow.ns.counters()["window_old_ignored"], 3)
    near("W", flow.flow()["W"], W_INIT / 2)


def test_not_agreed():
    for how in {"where": 0}, {"where": 1, "carry": 1}:
        peer = Peer(ecn=True, **how).connected(COMPUTES)
        peer.sock.send(b"x")
        peer.take()
        before = peer.flow()["W"]
        peer.send(window(0.1, 1))
        expect("unagreed_ignored", peer.ns.counters()["unagreed_ignored"], 1)
        expect("W", peer.flow()["W"], before)
    peer = Peer(ecn=True, where=1).connected(syn_option())
    for sent in window(0.1, 1), words(*parameters()):
        peer.send(sent, b"x", ecn=ECT)
    expect("unagreed_ignored", peer.ns.counters()["unagreed_ignored"], 2)


def test_silence():
    """Without a window for some round trips the sender computes W, reports that, and requests windows again later."""
    need_virtual_time()
    flow, link = Sender(), Link()
    flow.report(0.5)
    for _ in range(60):
        time.sleep(T_NS / 1e9)
        flow.run(0)
        flow.send()
        if flow.ns.counters()["windows_stopped"]:
            break
    expect("windows_stopped", flow.ns.counters()["windows_stopped"], 1)
    near("W", flow.flow()["W"], W_INIT / 2)
    expect("receiver", flow.flow()["receiver"], 0)
    expect("T", {sent[0] & 0x3fffffff for sent in reports(flow.run(), PARAMETERS)}, {0})
    for _ in range(9):
        now = flow.round(link.step(9000, 1.0, 1.0))
    expect_in("W follows records", now["W"], W_INIT >> 10, W_INIT // 4)
    expect("parameters after the first report of T = 0", reports(flow.run(), PARAMETERS), [])
    flow.send(window(1.0, 99))
    expect_in("W follows no window", flow.flow()["W"], W_INIT >> 10, W_INIT // 4)
    time.sleep(T_NS / 1e9)
    flow.echo(link.step(9000, 1.0, 1.0))
    expect("T of the answer to a window", {sent[0] & 0x3fffffff for sent in flow.next_reports(PARAMETERS)}, {0})
    began, requests = time.monotonic(), []
    while not requests and time.monotonic() - began < 0.4 * T_NS / 1e6:
        time.sleep(T_NS / 1e9)
        flow.round(link.step(9000, 0.9, 0.0))
        requests = [sent for sent in reports(flow.run(0), PARAMETERS) if sent[0] & 0x3fffffff]
    expect_in("T until windows are requested again", (time.monotonic() - began) * 1e9 / T_NS, 200, 270)
    flow.set_id = requests[0][0] >> 56 & 15
    near("W", flow.report(0.25)["W"], W_INIT / 4)


def test_unanswered():
    """The sender sends unanswered parameters at most 32 times, waits 256 T, and sends them again."""
    need_virtual_time()
    flow, link = Sender(report=False), Link()
    sent, began = [], time.monotonic()
    for _ in range(400):
        time.sleep(T_NS / 1e9)
        flow.echo(link.step(9000, 0.5, 0.0))
        if any(words[0] & 0x3fffffff for words in reports(flow.run(0), PARAMETERS)):
            sent.append((time.monotonic() - began) * 1e9 / T_NS)
    first = [at for at in sent if at < 100]
    expect_in("T in which they were sent", len(first), 16, 32)
    expect_in("T until they were sent again", sent[len(first)] - first[-1], 256, 262)
    expect("mode", flow.flow()["mode"], "telemetry")


def test_T_changes():
    """When T changes new parameters are sent, and windows for the old parameters are ignored."""
    need_virtual_time()
    peer = Peer(ecn=True, where=1, base_rtt_ns=0, start_rtt_ns=10**9)
    peer.start_connect()
    time.sleep(0.004)
    peer.answer(COMPUTES)
    seen = []
    for rtt_s in 0.002, 0.001:
        peer.sock.send(bytes(3000))
        segments = peer.read_all(0)
        sent = reports(segments, PARAMETERS)
        time.sleep(rtt_s)
        peer.acked = segments[-1].seq + len(segments[-1].payload)
        old = sent[0][0] >> 56 & 15
        peer.send(window(0.5, len(seen), old))
        seen.append((old, sent[0][0] & 0x3fffffff))
    expect("ids", seen[1][0], seen[0][0] + 1)
    expect("T", [round(T / 1e6) for _, T in seen], [4, 2])
    # The last ACK reduced T again.
    before = peer.ns.counters()["window_old_ignored"]
    peer.send(window(0.125, 5, seen[1][0]))
    expect("window_old_ignored", peer.ns.counters()["window_old_ignored"], before + 1)
    peer.sock.send(bytes(1000))
    peer.take()
    peer.send(window(0.25, 6, seen[1][0] + 1))
    flow = peer.flow()
    near("W", flow["W"], max(125000 * flow["T_ns"] // 1000000 / 4, 1), 0.01)


def test_timeout():
    """After an RTO the sender's own limits apply until slow start is over; parameters keep the connection's eta."""
    need_virtual_time()
    flow = Sender()
    flow.ns.sysctl("net.hpcc.eta_permille", 800)
    flow.ns.sysctl("net.ipv4.tcp_frto", 0)
    unacked = flow.acked
    flow.run()
    flow.time_out()
    segments = flow.read_all(0.001)
    expect("receiver", flow.flow()["receiver"], 0)
    near("W", flow.flow()["W"], 1420, 0.03)
    flow.send(window(1.0, 9), ack=unacked)
    near("W after a window", flow.flow()["W"], 1420, 0.03)
    segments += flow.read_all(T_NS / 1e9)
    flow.send(ack=unacked + 1420)
    segments += flow.read_all(0.001)
    expect("T, eta", {(sent[0] & 0x3fffffff, sent[0] >> 30 & 0x3ff) for sent in reports(segments, PARAMETERS)}, {(0, 950)})


def test_sender_comes_back():
    """A sender that returns to hpcc has no parameters, and reports this when windows arrive, with each `where`."""
    need_virtual_time()
    for where in 1, 0:
        flow = Sender()
        flow.report(0.5)
        flow.ns.sysctl("net.hpcc.where", where)
        for name in "cubic", "hpcc":
            set_cc(flow.sock, name)
        flow.run()
        time.sleep(T_NS / 1e9)
        before = flow.flow()["W"]
        flow.send(window(0.5, 9))
        sent = [opt.words for seg in flow.run(0) for opt in seg.ours() if opt.type == REPORT]
        expect(f"records, where {where}", [len(records) for records in sent], [2])
        expect("kind, T", (sent[0][0] >> 60, sent[0][0] & 0x3fffffff), (PARAMETERS, 0))
        expect_in("W", flow.flow()["W"], before, W_INIT)


def test_response():
    """A switch's response limits W until the data to which it refers are acknowledged, also if windows arrive."""
    need_virtual_time()
    flow, link = Sender(), Link()
    for queue_T in 3, 1, 9:
        flow.report(1.0)
        first = flow.acked
        flow.run()
        end, flow.acked = flow.acked, first
        response = option(RESPONSE, [record(1, 77, 88, qlen_code(round(queue_T * T_UNITS)))], SCALE, 1)
        flow.raw(0, flow.seq, first + 10 * 1420, response)
        want = W_INIT * ETA / (1 + queue_T)
        near(f"W after a queue of {queue_T} T", flow.flow()["W"], want, 0.01)
        flow.acked = first + 5 * 1420
        near("W after a window that was computed before the response", flow.report(0.99)["W"], want, 0.01)
        flow.acked = end
        near("W after a window for data that followed the response", flow.report(0.9)["W"], 0.9 * W_INIT, 0.01)
        flow.run()
        flow.echo(link.step(9000, 0.9, 0.0))
    # These data were in flight when W fell: a response to them is too late.
    first = flow.acked
    flow.run()
    end, flow.acked = flow.acked, first
    flow.report(0.4)
    flow.raw(0, flow.seq, first + 10 * 1420, response)
    near("W", flow.flow()["W"], 0.4 * W_INIT, 0.01)


# ---- Receiver ----

class Receiver(Peer):
    """A peer that sends data to a kernel, which computes W for it."""

    def __init__(self, sent=None, **how):
        super().__init__(ecn=True, **({"where": 1} | how))
        self.connect(COMPUTES)
        self.links = [Link()]
        self.send(words(*(sent or parameters())), bytes(1000), ecn=ECT)
        self.first = self.read_all()

    def data(self, *links, options=b"", nbytes=1420, ecn=ECT, flags=ACK, prompt=0):
        """Send a data segment. Return the immediate answers of the kernel."""
        if links:
            options += option(FORWARD, [link.raw() for link in links], SCALE, max(link.hop for link in links), prompt)
        self.send(options, bytes(nbytes), ecn=ecn, flags=flags)
        return self.read_all()

    def train(self, link, rounds, load):
        """Send segments with a record each for some T. Return all answers."""
        need_virtual_time()
        found = []
        exact_sleep()
        for _ in range(rounds * 16):
            time.sleep(T_NS / 16e9)
            self.sock.recv(1 << 20)
            found += self.data(link.step(STEP, load))
        return found


def trained(rounds):
    """Return a Receiver that has got records of a busy link for some T, and this link."""
    peer, link = Receiver(), Link()
    peer.train(link, rounds, 0.95)
    return peer, link


@cases(answer=(7, ({"set_id": 7, "W": 0.25}, 0.5), ({"set_id": 8, "W": 0.25}, 0.25), ({"set_id": 9, "T": 0}, None)),
       # different parameters with the same id: the sender may have restarted
       same_id=(1, ({"T": 2 * T_NS, "W": 0.25}, 0.25), ({"T": 2 * T_NS, "W": 0.75, "W_ai": 0.001}, 0.75),
                    ({"T": 0}, None)))
def answers(set_id, *turns):
    """Parameters are answered at once, each time; parameters that switch the receiver off (T = 0) are not answered."""
    peer = Receiver(parameters(set_id=set_id, W=0.5))
    expect("W", parts(peer.first), [(set_id, 0.5)])
    for how, W in turns:
        found = parts(peer.data(options=words(*parameters(**how))))
        expect(f"answer to {how}", found, [(how.get("set_id", set_id), W)] if W else [])
    segments = peer.data(Link().step(9000, 0.5, 0.0), prompt=PROMPT)
    expect("echo", [opt.type for seg in segments for opt in seg.ours()], [ECHO])


def test_rcv_mss():
    """When the receiver stops computing W, TCP uses its own estimate of the segment size again."""
    for ends in (lambda peer: set_cc(peer.sock, "cubic"),
                 lambda peer: peer.data(options=words(*parameters(set_id=2, T=0)), nbytes=900)):
        peer, _ = trained(8)
        expect_in("rcv_mss while the receiver computes W", tcp_info(peer.sock)["rcv_mss"], 2 * 1420, 4 * 1448)
        ends(peer)
        expect_in("rcv_mss after that", tcp_info(peer.sock)["rcv_mss"], 900, 1448)


def test_off_answered():
    """Parameters with T = 0 are acknowledged at once, because the request that they replace may have had PROMPT."""
    peer, _ = trained(8)
    for set_id in 2, 3:
        peer.data(options=words(*parameters(set_id=set_id)))
        peer.sock.recv(1 << 20)
        expect("ACKs", len(peer.data(options=words(*parameters(set_id=set_id, T=0)))), 1)


def test_first_segments():
    """ACKs are delayed no longer than usual until a T has shown how many segments arrive."""
    need_virtual_time()
    peer, link = Receiver(), Link()
    expect_in("ACKs of two", sum(len(peer.data(link.step(9, 0.5))) for _ in range(2)), 1, 2)


def test_bad_parameters():
    peer = Receiver()
    good = parameters(set_id=2, W=0.5)
    for bad in (parameters(2, T=999), parameters(2, T=1000000001), parameters(2, eta=0), parameters(2, eta=1001),
                parameters(2, settle=65), parameters(2, W_min=0),
                (good[0], parameters(3)[1]), good[:1], (good[0], WINDOW << 60 | 2 << 56), (*good, good[0])):
        expect(f"answer to {bad}", parts(peer.data(options=words(*bad))), [])
    expect("malformed_ignored", peer.ns.counters()["malformed_ignored"], 10)
    expect("good", parts(peer.data(options=words(*good))), [(2, 0.5)])


def growth(peer, links, rounds=24):
    """Send data over links for `rounds` T. Return the growth of W per T in the last third of this time.

    The other flows send once in 4 T.
    Two intervals of T/15 suffice for a record that counts on a path of two hops.
    """
    need_virtual_time()
    found = []
    exact_sleep()
    for at in range(rounds * 15):
        time.sleep(T_NS / 15e9)
        peer.sock.recv(1 << 20)
        found += [(at, W) for _, W in parts(seg for seg in peer.data(*[
            link.step(round(T_UNITS / 15), load) for link, load in links]) if seg.dport == peer.port)]
        if at % 60 == 0:
            for other in peer.others:
                other.data(other.link.step(STEP * 64, 0.5))
                other.sock.recv(1 << 20)
    last = [(at, W) for at, W in found if at >= rounds * 10]
    return (last[-1][1] - last[0][1]) * 15 / (last[-1][0] - last[0][0])


def test_counts_N():
    """A receiver divides W_ai of one flow by the number of flows; by 100 if another hop is busier than the last."""
    for alone, nr_others, loads, N in ((0.01, 0, (0.95,), 1), (0.01, 1, (0.95,), 2), (0.01, 3, (0.95,), 4),
                                       (0.01, 1, (0.5, 0.95), 2), (0.2, 1, (0.95, 0.5), 100)):
        sent = parameters(W=0.1, W_ai=alone, alone=1)
        peer = Receiver(sent)
        peer.others = [copy.copy(peer) for _ in range(nr_others)]
        for port, other in enumerate(peer.others, 7001):
            other.link = Link()
            other.connect(COMPUTES, port=port)
            other.send(words(*sent), bytes(1000), ecn=ECT)
            other.read_all()
        links = [(Link(hop), load) for hop, load in enumerate(loads, 1)]
        near(f"W_ai with {nr_others} others and {loads}", 1e6 * growth(peer, links), 1e6 * alone / N, 0.1)
    # Without the flag "alone" the receiver uses W_ai unchanged.
    peer = Receiver(parameters(W=0.1, W_ai=0.001))
    peer.others = []
    near("W_ai as sent", 1e6 * growth(peer, [(Link(), 0.95)]), 1000, 0.1)


def test_reports_once_in_T():
    """While W changes there is one window per T at most, one ACK per four segments, and one audit per 4 T."""
    peer, link = trained(4)
    answers = peer.train(link, 40, 0.95)
    expect_in("windows in 40 T", len(parts(answers)), 9, 41)
    expect_in("ACKs of 640 segments", len(answers), 150, 200)
    echoes = [opt for seg in answers for opt in seg.ours() if opt.type == ECHO]
    expect_in("audits", len(echoes), 7, 11)
    expect("delayed ACKs", peer.ns.snmp("TcpExtDelayedACKs"), 0)


def test_falls_at_once():
    """If W falls by more than 1/8, the receiver sends it before the end of T, as in NewINT."""
    peer, link = trained(4)
    last = parts(peer.train(link, 8, 0.95))[-1][1]
    U, seen = 0.95, []
    for at in range(16):
        time.sleep(T_NS / 16e9)
        seen += [(at, W) for _, W in parts(peer.data(link.step(STEP, 1.0, 3.0)))]
        U += ((4.0 if at else 1.0) - U) / 16
        if seen:
            break
    expect_in("segments before the window", seen[0][0], 1, 4)
    expect_in("W", seen[0][1], last * 0.5, last * 0.875)
    near("W of NewINT", 1000 * seen[0][1], 1000 * last / (U / ETA), 0.1)


def test_ce():
    """A CE mark makes the receiver reduce W by 1/8."""
    peer, link = Receiver(parameters(W=0.5, W_ai=0.0)), Link()
    last = parts(peer.train(link, 8, 0.95))[-1][1]
    for _ in range(3):
        peer.data(ecn=CE)
    near("W", 1000 * parts(peer.train(link, 3, 0.95))[0][1], 1000 * last * 7 / 8, 0.02)


def test_prompt():
    """Segments with PROMPT or PSH are acknowledged at once, as without receiver mode."""
    peer, link = trained(8)
    peer.sock.recv(1 << 20)
    for _ in range(8):
        time.sleep(T_NS / 16e9)
        expect("ACKs", len(peer.data(link.step(STEP, 0.95), prompt=PROMPT)), 1)
    for _ in range(6):
        time.sleep(T_NS / 16e9)
        answers = peer.data(link.step(STEP, 0.95), flags=ACK | PSH)
        peer.sock.recv(1 << 20)
        expect("ACKs of PSH", len(answers) + len(peer.read_all()), 1)


def test_stopped_records():
    """When records stop, TCP alone decides when it sends ACKs, and no windows are sent."""
    peer, _ = trained(8)
    answers = []
    for _ in range(160):
        time.sleep(T_NS / 16e9)
        peer.sock.recv(1 << 20)
        answers += peer.data()
    expect_in("windows", len(parts(answers)), 0, 2)
    expect_in("ACKs of the last 80", len([seg for seg in answers if seg.ack > peer.seq - 80 * 1420]), 39, 81)


# ---- Two kernels ----

def test_transfer():
    """The receiver computes W, and the data arrive; there are fewer ACKs, with fewer option bytes."""
    need_virtual_time()
    seen = {}
    for where in 0, 1:
        path, client, server = joined(Path(**BY_RECEIVER | {"where": where}))
        sniffer = Sniffer(path.a, "right")
        used = []
        transfer((client, server, pattern(3000000)), each=lambda: used.append(path.a.flow()["receiver"]))
        segments = [seg for seg in sniffer.segments() if seg.sport == 5000 or seg.dport == 5000]
        acks = [seg for seg in segments if seg.sport == 5000]
        data = [seg for seg in segments if seg.payload]
        seen[where] = (len(acks) / sum(len(seg.payload) for seg in data),
                       sum(4 + 8 * len(opt.words) for seg in acks for opt in seg.ours()))
        path.no_errors()
        expect("receiver", max(used), where)
        expect_none(path.a, "windows_stopped", "fallbacks", "malformed_ignored")
    print(f"# ACKs per byte, option bytes on ACKs: {seen}")
    expect_in("option bytes", seen[1][1] / seen[0][1], 0, 0.25)
    expect_in("ACKs", seen[1][0] / seen[0][0], 0, 1)


def test_both_directions():
    for version in 4, 6:
        path, client, server = joined(Path(version, **BY_RECEIVER))
        server.send(b"x")
        client.recv(1)
        used = []
        transfer((client, server, pattern(1500000)), (server, client, pattern(1500000, 1)),
                 each=lambda: used.append((path.a.flow()["receiver"], path.b.flow()["receiver"])))
        expect("both", (1, 1) in used, True)
        path.no_errors()
        for ns in path.hosts:
            expect_none(ns, "windows_stopped", "fallbacks", "malformed_ignored", "timeouts")


def outstanding(sock):
    return struct.unpack("=i", fcntl.ioctl(sock, 0x5411, bytes(4)))[0]      # SIOCOUTQ


def test_no_wait():
    """Data of any size are acknowledged without waiting for a delayed ACK."""
    need_virtual_time()
    for rate in 1000, 10:
        path = Path(switches=1, **BY_RECEIVER)
        path.change(1, f"hpcc rate {rate}mbit delay 20us")
        client, server = path.connect()
        client.setsockopt(6, 1, 1)
        for size in [*range(1, 20000, 1420), *range(1420, 14200, 1420), 100, 99999]:
            before = path.b.snmp("TcpExtDelayedACKs")
            began = time.monotonic()
            transfer((client, server, pattern(size)))
            while tcp_info(client)["state"] == 1 and outstanding(client):
                time.sleep(0.0002)
                expect_in(f"seconds for {size} bytes at {rate} Mbit/s", time.monotonic() - began, 0,
                          0.012 + 10 * size * 8 / rate / 1e6)
            expect("delayed ACKs", path.b.snmp("TcpExtDelayedACKs") - before, 0)


def test_receiver_leaves():
    """The receiver changes to another congestion control and returns: the sender continues to compute W itself."""
    path, client, server = joined(Path(**BY_RECEIVER))
    transfer((client, server, pattern(2000000)))
    set_cc(server, "cubic")
    began = time.monotonic()
    transfer((client, server, pattern(5000000)))
    print(f"# 5 MB in {time.monotonic() - began:.3f} s")
    expect("windows_stopped", path.a.counters()["windows_stopped"], 1)
    expect("receiver", path.a.flow()["receiver"], 0)
    expect_in("fallbacks", path.a.counters()["fallbacks"], 1, 9)
    set_cc(server, "hpcc")
    transfer((client, server, pattern(5000000)))
    expect("mode", path.a.flow()["mode"], "telemetry")


def test_hidden_drops():
    """Losses that no audit explains lead to classic mode, as they do if the sender computes W."""
    need_virtual_time()
    path = Path(**BY_RECEIVER)
    path.change(2, "hpcc rate 100mbit delay 20us limit 12000 nostamp")
    client, server = path.connect()
    transfer((client, server, pattern(3000000)))
    expect_in("unseen_loss", path.a.counters()["unseen_loss"], 1, 100)


main(modules=["sch_hpcc"])
