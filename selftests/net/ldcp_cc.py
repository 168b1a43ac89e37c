#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/ldcp/cc.c: the window law as TCP follows it: cw, cwnd and departures after each ACK, and
what losses do.
"""

import random
import socket
import sys
import time

sys.path[0] += "/.."
from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, expect_rate, main, need_virtual_time
from lib.net import Pair
from lib.packet import ACK, CWR, ECE, Sniffer, data_segments
from lib.peer import LINK_MBPS, T_NS, LdcpFlow, Window
from lib.tcp import disconnect, get_cc, pattern, set_cc, tcp_info, transfer

MSS = LdcpFlow.MSS
T_S = 0.001
LONG_S = 0.1 if virtual_time() else 1e-8 * T_NS     # longer than most ticks
SO_MAX_PACING_RATE = 47
FINE = 0.002            # cw is shown in 1/1000, rounded down


def follows(flow, window, acks):
    """Each ACK of (segments, marked) does to cw what it does to the window."""
    flow.got()
    flow.traced()
    for n, marked in acks:
        flow.ack(n, marked)
        cw, line = flow.traced()[-1]
        want = window.ack(n, marked)
        expect_in("cw", cw, want - FINE, want + FINE)
        expect("line", (int(line["delivered"]), int(line["marked"]), line["stage"]),
               (n, n if marked else 0, "stable"))
        expect("cwnd", (int(line["cwnd"]), tcp_info(flow.sock)["cwnd"]),
               (max(1, int(cw + 0.0005)),) * 2)
        flow.got()


def test_clean_acks():
    """cw += n alpha / cw"""
    flow = LdcpFlow().busy()
    follows(flow, Window(10), [(1, False), (2, False), (3, False), (1, False), (4, False)])


def test_marked_acks():
    """cw -= n beta, down to 1"""
    flow = LdcpFlow().busy()
    follows(flow, Window(10), [(1, True), (2, True), (4, True)])


def test_mixed_acks():
    """Any order of both, per packet and delayed."""
    for version in 4, 6:
        flow = LdcpFlow(version=version)
        flow.MSS = MSS if version == 4 else MSS - 20
        rng = random.Random(1)
        flow.busy()
        window = Window(10)
        acks = []
        for _ in range(300):
            # two are always in flight
            marked = rng.random() < 0.08
            acks.append((rng.choice((1, 2)) if window.cw > 4 else 1, marked and window.cw > 3))
            window.ack(*acks[-1])
        expect("marks among them", 5 < sum(marked for _, marked in acks) < 60, True)
        follows(flow, Window(10), acks)


def test_parameters():
    """alpha, beta and gamma are those of the namespace when it began."""
    for alpha, beta, gamma in ((1000, 1000, 1000), (1, 1, 1), (500, 125, 125)):
        flow = LdcpFlow(ldcp={"alpha_permille": alpha, "beta_permille": beta,
                              "gamma_permille": gamma}).busy()
        for name in "alpha", "beta", "gamma":
            flow.ns.sysctl(f"net.ldcp.{name}_permille", 777)
        window = Window(10, alpha / 1000, beta / 1000, gamma / 1000)
        follows(flow, window, [(1, False), (1, True), (2, True), (2, False)])


def next_tick(flow):
    """Segments that the next tick lets go. It takes 6 x 8 T / cw at most."""
    return next(filter(None, (flow.got(LONG_S) for _ in range(100))), [])


def test_below_one():
    """Halved down to gamma; up by gamma; and one segment is the least cwnd."""
    flow = LdcpFlow().busy()
    flow.below(1)
    before = flow.counters()["below_one"]
    want = []
    for marked, cw in ((True, 0.5), (True, 0.25), (True, 0.25), (False, 0.5), (False, 0.75),
                       (True, 0.375), (False, 0.625), (False, 0.875), (False, 1.125),
                       (False, 1.125 + 0.25 / 1.125), (True, 1.0), (True, 0.5)):
        flow.ack(1, marked)
        got, line = flow.traced()[-1]
        want.append(cw)
        expect_in(f"cw after {want}", got, cw - FINE, cw + FINE)
        expect("cwnd", int(line["cwnd"]), 1)
        expect("one segment", len(next_tick(flow)), 1)
    expect("below_one", flow.counters()["below_one"], before + 2)
    flow = LdcpFlow(ldcp={"gamma_permille": 63}).busy()
    flow.below(1)
    for cw in 0.5, 0.25, 0.125, 0.063, 0.063:
        flow.ack(1, True)
        expect_in("cw with gamma 0.063", flow.cw(), cw - FINE, cw + FINE)
        expect("a segment", bool(next_tick(flow)), True)


def test_below_one_counts_acks():
    """There an ACK of several segments is one step."""
    flow = LdcpFlow().busy()
    flow.below(1)
    flow.ack(1, True)       # 0.5
    next_tick(flow)
    flow.ack(1, True)       # 0.25
    next_tick(flow)
    expect("in flight", flow.high - flow.acked, MSS)
    flow.ack(1)
    expect_in("cw", flow.cw(), 0.5 - FINE, 0.5 + FINE)


def test_least_window():
    """Below gamma, if it is to be; never above."""
    for gamma, least, floor in (250, 100, 0.1), (250, 10, 0.01), (63, 100, 0.063):
        flow = LdcpFlow(ldcp={"gamma_permille": gamma, "cw_min_permille": least,
                              "base_rtt_ns": T_NS // 100}).busy()
        flow.below(1)
        cw = 1
        while cw > floor:
            cw = max(floor, cw / 2)
            flow.ack(1, True)
            expect_in(f"cw of at least {floor}", flow.cw(), cw - FINE, cw + FINE)
            next_tick(flow)
        flow.ack(1, True)
        expect_in("cw", flow.cw(), floor - FINE, floor + FINE)
        next_tick(flow)
        flow.ack(1)
        expect_in("cw", flow.cw(), floor + gamma / 1000 - FINE, floor + gamma / 1000 + FINE)


def gaps(flow, marks, rtt_s=0.0002):
    """Time between departures of single segments, acknowledged after an RTT."""
    found = []
    for marked in marks:
        left = time.monotonic()
        time.sleep(rtt_s)
        flow.ack(1, marked)
        seg = flow.read(0.5)
        found.append(time.monotonic() - left)
        expect("a segment", bool(seg and seg.payload), True)
        flow.high = seg.seq + len(seg.payload)
        expect("segments at once", flow.read(0), None)
    return found


def at_gamma(**ldcp):
    """A flow that stays at a window of 1/4 as long as it is marked."""
    flow = LdcpFlow(ldcp=ldcp).busy()
    flow.below(1)
    for _ in range(2):
        flow.ack(1, True)
        expect("a segment", bool(next_tick(flow)), True)
    expect("cw", flow.cw(), 0.25)
    return flow


def ticks(flow, rtt_s, tick_s, count=300):
    """Gaps of an RTT are as those of a tick ought to be: at random, at most 6 ticks, one tick on
    average.
    """
    found = gaps(flow, [True] * count, rtt_s)[1:]
    expect_in("shortest", min(found), rtt_s, rtt_s + tick_s / 20)
    expect_in("longest", max(found), 3 * tick_s, 6 * tick_s + 1e-4)
    # a tick that is shorter than the RTT ends with the ACK
    rtt = rtt_s / tick_s
    mean = tick_s * (1 + rtt * rtt / 2)
    expect_in("mean", sum(found) / len(found), mean * 0.8, mean * 1.2)


def test_departures_below_one():
    """One segment each T / cw, at random, where there is no queue."""
    need_virtual_time()
    ticks(at_gamma(), 0.0002, T_S / 0.25)


def test_ticks_follow_the_rtt():
    """One segment each RTT / cw, where a queue makes it longer than T."""
    need_virtual_time()
    ticks(at_gamma(), 3 * T_S, 3 * T_S / 0.25)


def test_ticks_of_a_late_ack():
    """What takes longer than 8 T is no queue that marks."""
    need_virtual_time()
    flow = at_gamma(base_rtt_ns=T_NS // 10)
    found = []
    for _ in range(40):
        time.sleep(0.01)
        flow.ack(1, True)
        found.append(flow.got(0.02))
    expect("segments", {len(segments) for segments in found}, {1})
    expect("rtt_us", int(flow.traced()[-1][1]["rtt_us"]) >= 10000, True)


def test_rtt_of_what_is_sent_again():
    """It is the time since it was sent again, in us, and not a timestamp's difference."""
    need_virtual_time()
    flow = at_gamma(base_rtt_ns=T_NS // 10)
    flow.got(LONG_S)
    time.sleep(1)                   # an RTO
    flow.got(0.01)
    expect("RTOs", flow.ns.snmp("TcpExtTCPTimeouts") >= 1, True)
    left = time.monotonic()
    while flow.read(2) is None:
        pass
    flow.traced()
    time.sleep(0.0003)
    flow.ack((flow.high - flow.acked) // MSS)
    expect_in("rtt_us", int(flow.traced()[-1][1]["rtt_us"]), 300,
              320 + 1e6 * (time.monotonic() - left - 0.0003))


def test_rtt_of_no_delivery():
    """An ACK that delivers nothing says nothing of the RTT."""
    need_virtual_time()
    flow = at_gamma()
    gaps(flow, [True] * 3)
    flow.traced()
    time.sleep(0.02)
    flow.send()                     # the same ACK once more
    lines = flow.traced()
    expect_in("rtt_us", max((int(line["rtt_us"]) for _, line in lines), default=200), 200, 210)


def test_long_ticks():
    """Ticks that are longer than an RTO are ticks as others: no timer of TCP cuts them."""
    need_virtual_time()
    flow = LdcpFlow(ldcp={"base_rtt_ns": 200000000}).busy()
    flow.below(1)
    for _ in range(2):
        flow.ack(1, True)
        next_tick(flow)
    expect("cw", flow.cw(), 0.25)
    found = []
    for _ in range(100):
        left = time.monotonic()
        time.sleep(0.0002)
        flow.ack(1, True)
        seg = flow.read(6)
        expect("a segment", bool(seg and seg.payload), True)
        found.append(time.monotonic() - left)
        flow.high = seg.seq + len(seg.payload)
        expect("segments at once", flow.read(0), None)
    expect_in("mean", sum(found) / len(found), 0.8 * 0.7, 0.8 * 1.3)
    expect_in("longest", max(found), 2.0, 4.801)


def test_departure_moves():
    """An ACK that changes cw moves the next segment's time at once."""
    need_virtual_time()
    flow = at_gamma()
    gaps(flow, [True])
    for cw in 0.5, 0.75:
        gap = gaps(flow, [False])[0]
        expect_in(f"gap at {cw}", gap, 0.0002, T_S / cw * 6 + 5e-6)
    gap = gaps(flow, [True])[0]
    expect_in("gap at 0.375", gap, 0.0002, T_S / 0.375 * 6 + 5e-6)
    gaps(flow, [False, False])
    expect_in("cw", flow.cw(), 0.875 - FINE, 0.875 + FINE)
    # at one and more the ACK is the clock
    expect_in("gap at 1.125", gaps(flow, [False])[0], 0.0002, 0.000205)
    expect_in("gap at 1.347", gaps(flow, [False])[0], 0.0002, 0.000205)


def test_max_pacing_rate_below_one():
    """No tick has a segment leave before SO_MAX_PACING_RATE lets it."""
    need_virtual_time()
    flow = at_gamma(base_rtt_ns=T_NS // 10)
    for rate in 150000, 1 << 30:
        flow.sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
        gaps(flow, [True] * 2)
        found = gaps(flow, [True] * 30)
        at_least = max(MSS / rate, 0.0002)
        expect_in(f"shortest gap at {rate} B/s", min(found), at_least - 2e-6, at_least + 1e-4)
        expect_in(f"mean at {rate} B/s", sum(found) / len(found), at_least - 2e-6,
                  max(at_least * 1.01, T_S / 10 * 2 / 0.25 * 1.5))


def test_late_ack_below_one():
    """Where the longest tick, of 8 T, is over when the ACK comes, it leaves with the ACK."""
    need_virtual_time()
    flow = at_gamma()
    for _ in range(3):
        expect_in("gap", gaps(flow, [True], 0.2)[0], 0.2, 0.200005)


def test_idle_application():
    """A window that is not used does not grow, whatever came before."""
    flow = LdcpFlow()
    flow.connect()
    for _ in range(20):
        flow.sock.send(bytes(2 * MSS))
        expect("segments", len(flow.got(0.01)), 2)
        flow.ack(2)
        time.sleep(0.001)
    expect("cw", flow.cw(), 10.0)
    # a mark shrinks it
    flow.sock.send(bytes(2 * MSS))
    flow.got(0.01)
    flow.ack(2, True)
    expect("cw", flow.cw(), 9.0)
    for _ in range(6):
        flow.sock.send(bytes(5 * MSS))
        flow.got(0.01)
        flow.ack(5)
    expect("cw", flow.cw(), 9.0)


def test_bursts():
    """A part of the window at once, at most burst segments."""
    for cwnd, burst, shift, want in (
            (10, 4, 5, 1), (70, 4, 5, 2), (200, 4, 5, 4), (200, 2, 5, 2), (200, 1, 5, 1),
            (10, 20, 1, 5), (40, 20, 2, 10), (40, 8, 2, 8), (200, 20, 10, 1)):
        pair = Pair(cc=("ldcp", "ldcp"), delay="200us",
                    ldcp={"fast_start": 0, "burst": burst, "burst_shift": shift})
        pair.c.ip(f"route change 10.0.0.0/24 dev eth0 initcwnd {cwnd} src 10.0.0.1")
        sniffer = Sniffer(pair.c)
        client, server = pair.connect()
        transfer((client, server, pattern(40000)))
        data = data_segments(sniffer.segments())
        largest = max(len(seg.payload) for seg in data)
        expect(f"burst of {burst}, window {cwnd} >> {shift}", -(-largest // MSS), want)


# ---- CWR: a prompt ACK ---------------------------------------------------------

def test_cwr_while_small():
    """On each new segment below four, so that the receiver does not hold its
    ACK back; on none above.
    """
    flow = LdcpFlow().busy()
    expect("CWR at 10", [seg.flags & CWR for seg in flow.got()], [0] * 10)
    flow.ack(1)
    expect("CWR", {seg.flags & CWR for seg in flow.got()} <= {0}, True)
    flow.below(1)
    for marked in (False, False, True, True, False, False):
        flow.ack(1, marked)
        segments = next_tick(flow)
        expect("CWR", [seg.flags & CWR for seg in segments], [CWR] * len(segments))
        expect("segments", len(segments) > 0, True)
    seen = []
    while flow.cw() < 3.6:
        flow.ack(1)
        seen += flow.got(LONG_S)
        flow.ack((flow.high - flow.acked) // MSS)
        seen += flow.got(LONG_S)
    expect("CWR below four", (len(seen) > 5, {seg.flags & CWR for seg in seen}), (True, {CWR}))
    flow.ack(1)
    while flow.cw() < 4.2:
        flow.got(LONG_S)
        flow.ack((flow.high - flow.acked) // MSS)
        flow.got(LONG_S)
        flow.ack(1)
    flow.got(LONG_S)
    seen = []
    for _ in range(10):
        flow.ack(1)
        seen += [seg.flags & CWR for seg in flow.got(0.01)]
    expect("CWR above four", (len(seen) > 5, set(seen)), (True, {0}))


def test_no_cwr_storm():
    """Above two: one CWR a round trip, as for any TCP."""
    flow = LdcpFlow().busy()
    first = flow.got()
    seen = []
    for number in range(10):
        flow.ack(1, number % 3 == 0)
        seen += flow.got(0.0001)
    expect("segments", len(first) + len(seen) > 12, True)
    expect("CWR in the first round", sum(bool(seg.flags & CWR) for seg in seen), 1)


def test_cwr_opens_a_delayed_ack_receiver():
    """Two kernels, cw below two: no ACK waits 40 ms."""
    for receiver in "ldcp", "dctcp":
        pair = Pair(cc=("ldcp", "ldcp"), delay="100us",
                    ldcp={"fast_start": 0, "base_rtt_ns": 200000, "alpha_permille": 1})
        pair.c.ip("route change 10.0.0.0/24 dev eth0 initcwnd 1 src 10.0.0.1")
        client, server = pair.connect(pair.listen(cc=receiver))
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        expect("congestion controls", (get_cc(client), get_cc(server)), ("ldcp", receiver))
        began = time.monotonic()
        transfer((client, server, pattern(1448 * 50)))
        took = time.monotonic() - began
        expect("window", tcp_info(client)["cwnd"], 1)
        expect_in(f"ACKs that waited, {receiver}", pair.s.snmp("TcpExtDelayedACKs"), 0, 1)
        if virtual_time():
            expect_in(f"time with {receiver} at the receiver", took, 0.0095, 0.0115)


# ---- Loss ----------------------------------------------------------------------

def lose(flow, segments, sacked):
    """ACKs that tell of segments behind a gap at the first one."""
    for seg in segments[1:1 + sacked]:
        options = flow.take_in(seg)
        flow.send(options)


def first_again(flow):
    """The first that is sent again: before anything new, unless real time goes by
    from one ACK to the next.
    """
    high = flow.high
    return next(seg for seg in flow.got(0.01) if virtual_time() or seg.seq < high)


def test_loss_halves_once():
    """Once for all that was lost in a round trip; then the law again."""
    flow = LdcpFlow().busy()
    segments = flow.got()
    flow.traced()
    lose(flow, segments, 3)
    lines = flow.traced()
    expect("state", tcp_info(flow.sock)["ca_state"], 3)
    expect_in("cw", lines[-1][0], 5 - FINE, 5.5)
    lose(flow, segments[3:], 6)
    expect("losses", flow.counters()["losses"], 1)
    expect_in("cw", flow.cw(), 5, 5.5)
    again = first_again(flow)
    expect("sent again", again.seq, segments[0].seq)
    expect("sent again as ECT", again.ecn, 2)
    flow.blocks = []
    flow.acked = flow.high
    flow.send()
    expect("state", tcp_info(flow.sock)["ca_state"], 0)
    expect("RTOs", flow.ns.snmp("TcpExtTCPTimeouts"), 0)
    expect("congestion control", flow.cc(), "ldcp")


def test_loss_floor():
    """Not below gamma."""
    flow = LdcpFlow(patient=False).busy()
    flow.below(1)
    for _ in range(2):
        flow.ack(1, True)
        expect("a segment", bool(next_tick(flow)), True)
    for _ in range(1 if virtual_time() else 30):
        time.sleep(1)
        if flow.counters()["timeouts"]:
            break
    flow.got(LONG_S)
    flow.ack((flow.high - flow.acked) // MSS)
    expect("timeouts", flow.counters()["timeouts"] >= 1, True)
    expect_in("cw", flow.cw(), 0.25, 0.55)


def test_timeout():
    """An RTO: one segment or less, and from there by the law."""
    flow = LdcpFlow(patient=False).busy()
    flow.got()
    while not flow.ns.snmp("TcpExtTCPTimeouts"):
        expect("something comes", flow.read(2) is not None, True)
    expect("timeouts", flow.counters()["timeouts"], 1)
    flow.got(LONG_S)
    flow.traced()
    flow.ack(1)
    cw = flow.cw()
    expect_in("cw", cw, 1, 1.26)
    expect("cwnd", tcp_info(flow.sock)["cwnd"] <= 2, True)


def test_spurious_loss_eifel():
    """What was only late: the ACK's timestamp is older than what was sent again."""
    flow = LdcpFlow().busy()
    segments = flow.got()
    secr = flow.tsecr
    flow.traced()
    time.sleep(0.05)
    lose(flow, segments, 4)
    expect_in("cw", flow.cw(), 5 - FINE, 5.5)
    flow.got(0.01)
    flow.tsecr = secr
    flow.blocks = []
    flow.acked = segments[-1].seq + len(segments[-1].payload)
    flow.send()
    expect_in("cw", flow.cw(), 10, 10.5)
    expect("state", tcp_info(flow.sock)["ca_state"], 0)


def test_spurious_loss_dsack():
    """The receiver says that it had it already."""
    flow = LdcpFlow(timestamps=False)
    flow.MSS = 1460
    flow.busy()
    segments = flow.got()
    flow.traced()
    lose(flow, segments, 4)
    expect_in("cw", flow.cw(), 5 - FINE, 5.6)
    again = first_again(flow)
    expect("sent again", again.seq, segments[0].seq)
    flow.blocks = []
    flow.acked = flow.high
    flow.send()
    expect_in("cw", flow.cw(), 5, 6.5)
    flow.got(0.001)
    flow.send(flow.take_in(again))
    expect_in("cw", flow.cw(), 10, 10.5)
    expect("state", tcp_info(flow.sock)["ca_state"], 0)


def test_loss_probe():
    """A loss that a probe repaired is one; and so is what the next ACKs say of
    a mark.
    """
    flow = LdcpFlow(patient=False)
    flow.connect()
    flow.sock.send(bytes(5 * MSS))
    last = flow.got()[-1]
    flow.traced()
    flow.ack(4)
    probe = flow.read(0.3)         # a single packet may wait for a delayed ACK
    expect("probe", (probe.seq, flow.ns.snmp("TcpExtTCPLossProbes")), (last.seq, 1))
    flow.ack(1)
    before = flow.cw()
    flow.sock.send(bytes(2 * MSS))
    flow.got()
    flow.ack(2)
    expect("found", flow.ns.snmp("TcpExtTCPLossProbeRecovery"), 1)
    expect("losses", flow.counters()["losses"], 1)
    expect_in("cw", flow.cw(), before / 2 - FINE, before / 2 + FINE)
    flow.sock.send(bytes(2 * MSS))
    flow.got()
    flow.ack(2, marked=True)
    expect("losses", flow.counters()["losses"], 1)
    expect_in("cw", flow.cw(), before / 2 - 1 - FINE, before / 2 - 1 + FINE)
    expect("congestion control", flow.cc(), "ldcp")


def test_loss_probe_of_nothing():
    """Only the ACK was late: the probe's DSACK says so, a mark beside it is none
    of its business.
    """
    flow = LdcpFlow(patient=False)
    flow.connect()
    flow.sock.send(bytes(5 * MSS))
    last = flow.got()[-1]
    flow.traced()
    flow.ack(4)
    before = flow.cw()
    probe = flow.read(0.3)         # a single packet may wait for a delayed ACK
    expect("probe", probe.seq, last.seq)
    flow.acked += MSS
    flow.send(flow.take_in(probe), flags=ACK | ECE)
    flow.sock.send(bytes(2 * MSS))
    flow.got()
    flow.ack(2)
    expect("losses", flow.counters()["losses"], 0)
    expect_in("cw", flow.cw(), before - 1 - FINE, before - 0.5)      # not half of it


# ---- Classic -------------------------------------------------------------------

def round_of_loss(flow, marked=False):
    """The first of a window is lost, the others arrive; then all is repaired."""
    segments = flow.got(0.01)
    expect("window", len(segments) > 3, True)
    lose(flow, segments, len(segments) - 1)
    flow.got(0.01)
    flow.blocks = []
    flow.acked = flow.high
    flow.send(flags=ACK | (ECE if marked else 0))
    flow.got(0.01)
    flow.acked = flow.high
    flow.send()


def test_fallback():
    """Two losses without a mark: classic, halved for the second as well; the
    next mark returns.
    """
    flow = LdcpFlow(timestamps=True, initcwnd=40)
    flow.busy()
    round_of_loss(flow)
    expect("after one", flow.cc(), "ldcp")
    before = tcp_info(flow.sock)["cwnd"]
    expect_in("cwnd", before, 20, 22)
    round_of_loss(flow)
    expect("after two", flow.cc(), "ldcp-classic")
    expect("fallbacks", flow.counters()["fallbacks"], 1)
    expect_in("cwnd", tcp_info(flow.sock)["cwnd"], before // 2 - 1, before // 2 + 4)
    for _ in range(5):
        segments = flow.got(0.01)
        expect("ECT still", {seg.ecn for seg in segments}, {2})
        flow.acked = flow.high
        flow.send()
    cwnd = tcp_info(flow.sock)["cwnd"]
    expect_in("Reno adds one a round trip", cwnd, before // 2, before // 2 + 12)
    flow.got(0.01)
    flow.traced()
    flow.ack(1, True)
    expect("with a mark", flow.cc(), "ldcp")
    expect("returns", flow.counters()["returns"], 1)
    flow.got(0.01)
    flow.ack(1, True)
    expect_in("cw", flow.cw(), cwnd - 1.1, cwnd - 0.4)


def until_it_waits(flow):
    """Acknowledge segments until none follows for 50 ms. Ticks of a mean of 2 s are random: one in 50 is
    shorter than that.
    """
    for _ in range(10):
        if not flow.got(0.05):
            return
        flow.ack(1, True)
    raise AssertionError("each ACK lets a segment go at once")


def test_reno_is_not_paced():
    """Whether ldcp fell back or was left: a window leaves at once, as Reno's does."""
    need_virtual_time()
    for leave in False, True:
        flow = LdcpFlow(initcwnd=40)
        flow.busy()
        round_of_loss(flow)
        if leave:
            set_cc(flow.sock, "reno")
        else:
            round_of_loss(flow)
        expect("runs", flow.cc(), "reno" if leave else "ldcp-classic")
        for _ in range(3):
            flow.got(0.01)
            flow.acked = flow.high
            flow.send()
        flow.got()
        expect("segments later", len(flow.got(0.01)), 0)
    flow = LdcpFlow(ldcp={"base_rtt_ns": 1000000000}, initcwnd=40)
    flow.busy()
    round_of_loss(flow)
    round_of_loss(flow)
    flow.got(0.01)
    flow.ack(1, True)
    expect("with a mark", flow.cc(), "ldcp")
    flow.below(1)
    flow.ack(1, True)
    expect("cw", flow.cw(), 0.5)
    until_it_waits(flow)


def test_echo_after_fallback():
    """A connection whose own losses made it classic goes on to echo CE per packet: one CE does
    not mark a round trip.
    """
    flow = LdcpFlow(initcwnd=60)
    flow.busy()
    for _ in range(2):
        round_of_loss(flow)
    expect("congestion control", flow.cc(), "ldcp-classic")
    flow.got(0.01)
    echoed = []
    for ecn in 2, 3, 2, 2, 3, 2, 2:
        for _ in range(2):                  # of two segments one is acknowledged at once
            flow.send(payload=bytes(1000), ecn=ecn)
        seen = [bool(seg.flags & ECE) for seg in flow.read_all(0.05) if seg.ack == flow.seq]
        echoed.append(seen[-1] if seen else None)
    expect("ECE", echoed, [False, True, False, False, True, False, False])


def test_no_fallback_with_marks():
    """A mark between two losses: marks come, losses are what they are."""
    flow = LdcpFlow(initcwnd=60)
    flow.busy()
    for _ in range(3):
        round_of_loss(flow, True)
    expect("congestion control", flow.cc(), "ldcp")
    expect("fallbacks", flow.counters()["fallbacks"], 0)


def test_peer_without_ecn():
    """Shown, counted, and for good: no mark can come."""
    flow = LdcpFlow(ecn=False)
    flow.connect()
    expect("congestion control", flow.cc(), "ldcp-classic")
    counters = flow.counters()
    expect("counted", (counters["no_ecn"], counters["flows"]), (1, 0))
    flow.always = True
    flow.fill()
    segments = flow.got()
    expect("not ECT", {seg.ecn for seg in segments}, {0})
    expect("initial window", len(segments), 10)
    flow.ack(2, True)
    expect("congestion control", flow.cc(), "ldcp-classic")
    flow.receive(200000)


def test_listener_without_ldcp():
    """It does not take a SYN that is ECT; data flow all the same."""
    for cc in ("ldcp", "cubic"), ("cubic", "ldcp"):
        pair = Pair(cc=cc, delay="50us")
        client, server = pair.connect()
        expect(f"{cc}", (get_cc(client), get_cc(server)),
               tuple("ldcp-classic" if name == "ldcp" else name for name in cc))
        expect("no_ecn", [ns.counters("ldcp")["no_ecn"] for ns in (pair.c, pair.s)],
               [int(name == "ldcp") for name in cc])
        transfer((client, server, pattern(200000)), (server, client, pattern(100000, 1)))


def test_classic_socket_connects_again():
    """A socket whose first peer had no ECN asks the second one."""
    pair = Pair(cc=("ldcp", "ldcp"))
    stranger, friend = pair.listen(5001, cc="cubic"), pair.listen(5002)
    client, server = pair.connect(stranger)
    expect("first", get_cc(client), "ldcp-classic")
    disconnect(client)
    server.close()
    client, server = pair.connect(friend, client=client)
    expect("second", (get_cc(client), get_cc(server)), ("ldcp", "ldcp"))
    transfer((client, server, pattern(20000)))


def test_set_while_connecting():
    """setsockopt() between SYN and SYN-ACK: too soon. Later what was negotiated counts."""
    for ecn, tcp_ecn in (True, 1), (False, 1), (False, 2):
        flow = LdcpFlow(ecn=ecn)
        flow.ns.sysctl("net.ipv4.tcp_ecn", tcp_ecn)
        flow.start_connect(cc="cubic")
        set_cc(flow.sock, "ldcp")
        flow.answer(b"")
        flow.start = flow.high = flow.acked
        flow.fill()
        expect("ECN", {seg.ecn for seg in flow.got()}, {2 if ecn else 0})
        expect("congestion control", flow.cc(), "ldcp-classic")
        flow.ack(1)
        flow.ack(2, marked=ecn)
        expect("congestion control", flow.cc(), "ldcp-classic")
        set_cc(flow.sock, "ldcp")
        expect("congestion control", flow.cc(), "ldcp" if ecn else "ldcp-classic")


# ---- Other congestion controls ---------------------------------------------------

def test_leaving():
    """Another congestion control finds what it left: bursts, duplicate ACKs."""
    pair = Pair(cc=("ldcp", "ldcp"), delay="50us", ldcp={"burst": 2})
    sniffer = Sniffer(pair.s)
    client, server = pair.connect()
    largest = []
    for name in "ldcp", "cubic", "ldcp", "bbr", "ldcp":
        set_cc(client, name)
        sniffer.segments()
        transfer((client, server, pattern(150000)))
        time.sleep(0.001)
        largest.append(max(len(seg.payload) for seg in sniffer.segments()))
        expect(f"reordering under {name}", tcp_info(client)["reordering"], 3)
    expect_in("ldcp", max(largest[::2][:2]), 1000, 2 * MSS)
    expect_in("cubic", largest[1], 4 * MSS, 1 << 16)


def test_leaving_below_one():
    """A tick that is far ahead does not bind the next congestion control."""
    flow = LdcpFlow(ldcp={"base_rtt_ns": 1000000000}).busy()
    flow.below(1)
    flow.ack(1, True)
    expect("cw", flow.cw(), 0.5)
    until_it_waits(flow)
    expect("segments", flow.got(0.001), [])
    set_cc(flow.sock, "cubic")
    expect("segments", len(flow.got(0.001)), 1)


def test_leaving_below_one_paced():
    """The same where SO_MAX_PACING_RATE has TCP pace on: the next segment waits as it says."""
    need_virtual_time()
    for rate in 1000000, 10000:
        flow = LdcpFlow(ldcp={"base_rtt_ns": 1000000000}).busy()
        flow.below(1)
        flow.sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
        flow.ack(1, True)
        until_it_waits(flow)
        set_cc(flow.sock, "reno")
        left = time.monotonic()
        expect("a segment", flow.read(5) is not None, True)
        expect_in("time", time.monotonic() - left, 0, MSS / rate + 0.001)


def test_side_by_side():
    """Both modules, on one link that marks and stamps."""
    pair = Pair(cc=("ldcp", "ldcp"), qdisc=f"hpcc rate {LINK_MBPS}mbit delay 20us marking ldcp")
    listeners = pair.listen(5001, cc="ldcp"), pair.listen(5002, cc="hpcc")
    ends = [pair.connect(listener, cc=cc) for listener, cc in zip(listeners, ("ldcp", "hpcc"))]
    expect("congestion controls", [get_cc(sock) for pair_ in ends for sock in pair_],
           ["ldcp", "ldcp", "hpcc", "hpcc"])
    transfer(*((client, server, pattern(2000000, number))
               for number, (client, server) in enumerate(ends)))
    expect("congestion controls", [get_cc(sock) for pair_ in ends for sock in pair_],
           ["ldcp", "ldcp", "hpcc", "hpcc"])
    counters = pair.c.counters("ldcp")
    expect("marks", counters["marked"] > 10, True)
    expect("RTOs", pair.c.snmp("TcpExtTCPTimeouts"), 0)


def test_bulk_on_a_marking_link():
    """The queue stays below K_max; no packet is lost; nobody waits for an RTO."""
    nbytes = 5000000 if virtual_time() else 2000000
    for version in 4, 6:
        # A slow machine's T does not make the flow start slowly.
        pair = Pair(version, cc=("ldcp", "ldcp"), ldcp={"start_rtt_ns": 10 ** 9},
                    qdisc=f"hpcc rate {LINK_MBPS}mbit delay 20us marking ldcp "
                          "kmin 8000 kmax 40000")
        client, server = pair.connect()
        before = {name: pair.c.snmp(name) for name in ("TcpExtTCPTimeouts", "RetransSegs")}
        began = time.monotonic()
        transfer((client, server, pattern(nbytes)))
        took = time.monotonic() - began
        expect_rate("share of the link", nbytes * 8e-6 / LINK_MBPS / took, 0.85, 0.96)
        if virtual_time():
            for name, count in before.items():  # of a SYN that waited for neighbours
                expect(name, pair.c.snmp(name), count)
        expect("marked", pair.c.counters("ldcp")["marked"] > 50, True)


def test_tracepoint():
    """Ports, and the stage that a flow is in."""
    flow = LdcpFlow(ldcp={"fast_start": 1})
    flow.connect()
    flow.fill()
    flow.got()
    flow.ack(1)
    cw, line = flow.traced()[-1]
    expect("line", (int(line["sport"]), int(line["dport"]), line["stage"], cw),
           (flow.lport, flow.port, "start", 10.0))


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["tcp_ldcp", "sch_hpcc"])
