#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/ldcp/cc.c: the window law in TCP: cw, cwnd and departures after each ACK, and the reaction
to losses.
"""

import random
import socket
import sys
import time

from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, expect_rate, main, need_virtual_time
from lib.net import Netns, Pair
from lib.packet import ACK, CWR, ECE, Sniffer, data_segments
from lib.peer import LINK_MBPS, T_NS, LdcpFlow, Window
from lib.tcp import get_cc, pattern, set_cc, tcp_info, transfer

MSS = LdcpFlow.MSS
T_S = 0.001
LONG_S = 0.1 if virtual_time() else 1e-8 * T_NS     # longer than most ticks
SO_MAX_PACING_RATE = 47
FINE = 0.002            # cw is shown in units of 1/1000, rounded down


def follows(flow, window, acks):
    """Fail unless each ACK of (segments, marked) changes cw as it changes the model window."""
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
    """An unmarked ACK of n segments adds n alpha / cw to cw."""
    flow = LdcpFlow().busy()
    follows(flow, Window(10), [(1, False), (2, False), (3, False), (1, False), (4, False)])


def test_marked_acks():
    """A marked ACK of n segments subtracts n beta from cw, which stays at 1 or more."""
    flow = LdcpFlow().busy()
    follows(flow, Window(10), [(1, True), (2, True), (4, True)])


def test_mixed_acks():
    """Marked and unmarked ACKs arrive in random order, for one or two segments each."""
    for version in 4, 6:
        flow = LdcpFlow(version=version)
        flow.MSS = MSS if version == 4 else MSS - 20
        rng = random.Random(1)
        flow.busy()
        window = Window(10)
        acks = []
        for _ in range(300):
            # two segments are always in flight
            marked = rng.random() < 0.08
            acks.append((rng.choice((1, 2)) if window.cw > 4 else 1, marked and window.cw > 3))
            window.ack(*acks[-1])
        expect("marks among them", 5 < sum(marked for _, marked in acks) < 60, True)
        follows(flow, Window(10), acks)


def test_parameters():
    """A flow keeps the alpha, beta and gamma that its namespace had when it began."""
    for alpha, beta, gamma in ((1000, 1000, 1000), (1, 1, 1), (500, 125, 125)):
        flow = LdcpFlow(ldcp={"alpha_permille": alpha, "beta_permille": beta,
                              "gamma_permille": gamma}).busy()
        for name in "alpha", "beta", "gamma":
            flow.ns.sysctl(f"net.ldcp.{name}_permille", 777)
        window = Window(10, alpha / 1000, beta / 1000, gamma / 1000)
        follows(flow, window, [(1, False), (1, True), (2, True), (2, False)])


def next_tick(flow):
    """Return the segments of the next tick, which lasts for at most 6 x 8 T / cw."""
    return next(filter(None, (flow.got(LONG_S) for _ in range(100))), [])


def test_below_one():
    """Below one a mark halves cw, down to gamma, and an unmarked ACK adds gamma; cwnd stays at one
    segment.
    """
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
    """Below one, an ACK of several segments counts as one step."""
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
    """cw falls below gamma if cw_min allows it, and the floor is never above gamma."""
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
    """Return the times between departures of single segments, each of which is acknowledged after
    an RTT.
    """
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
    """Return a flow whose cw stays at 1/4 while it is marked."""
    flow = LdcpFlow(ldcp=ldcp).busy()
    flow.below(1)
    for _ in range(2):
        flow.ack(1, True)
        expect("a segment", bool(next_tick(flow)), True)
    expect("cw", flow.cw(), 0.25)
    return flow


def ticks(flow, rtt_s, tick_s, count=300):
    """The gaps between departures have the distribution of ticks: random, at most 6 mean ticks, and
    one tick on average.
    """
    found = gaps(flow, [True] * count, rtt_s)[1:]
    expect_in("shortest", min(found), rtt_s, rtt_s + tick_s / 20)
    expect_in("longest", max(found), 3 * tick_s, 6 * tick_s + 1e-4)
    # a tick that is shorter than the RTT ends when the ACK arrives
    rtt = rtt_s / tick_s
    mean = tick_s * (1 + rtt * rtt / 2)
    expect_in("mean", sum(found) / len(found), mean * 0.8, mean * 1.2)


def test_departures_below_one():
    """Without a queue one segment leaves per T / cw, at random times."""
    need_virtual_time()
    ticks(at_gamma(), 0.0002, T_S / 0.25)


def test_ticks_follow_the_rtt():
    """If a queue makes the RTT longer than T, one segment leaves per RTT / cw."""
    need_virtual_time()
    ticks(at_gamma(), 3 * T_S, 3 * T_S / 0.25)


def test_ticks_of_a_late_ack():
    """A tick uses an RTT of at most 8 T: a longer RTT is not caused by a queue that marks. So a
    late ACK does not make the ticks longer.
    """
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
    """The RTT of a retransmission is the time since it was retransmitted, in us, and not the
    difference of timestamps.
    """
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
    """An ACK that delivers nothing does not change the RTT."""
    need_virtual_time()
    flow = at_gamma()
    gaps(flow, [True] * 3)
    flow.traced()
    time.sleep(0.02)
    flow.send()                     # a duplicate of the last ACK
    lines = flow.traced()
    expect_in("rtt_us", max((int(line["rtt_us"]) for _, line in lines), default=200), 200, 210)


def test_long_ticks():
    """Ticks that are longer than an RTO are kept: no timer of TCP shortens them."""
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
    """An ACK that changes cw also changes the departure time of the next segment at once."""
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
    # with cw of one or more the ACK clocks the next segment
    expect_in("gap at 1.125", gaps(flow, [False])[0], 0.0002, 0.000205)
    expect_in("gap at 1.347", gaps(flow, [False])[0], 0.0002, 0.000205)


def test_max_pacing_rate_below_one():
    """No tick lets a segment leave earlier than SO_MAX_PACING_RATE allows."""
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
    """If the longest tick, of 8 T, is over when the ACK arrives, the segment leaves with the ACK."""
    need_virtual_time()
    flow = at_gamma()
    for _ in range(3):
        expect_in("gap", gaps(flow, [True], 0.2)[0], 0.2, 0.200005)


def test_idle_application():
    """A window that the application does not use does not grow, even after a mark."""
    flow = LdcpFlow()
    flow.connect()
    for _ in range(20):
        flow.sock.send(bytes(2 * MSS))
        expect("segments", len(flow.got(0.01)), 2)
        flow.ack(2)
        time.sleep(0.001)
    expect("cw", flow.cw(), 10.0)
    # a mark reduces it
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
    """A burst has at most 1/32 of cwnd, and at most the parameter burst."""
    for cwnd, burst, want in (10, 4, 1), (70, 4, 2), (200, 4, 4), (200, 2, 2), (200, 1, 1), (200, 20, 6):
        pair = Pair(cc=("ldcp", "ldcp"), delay="200us",
                    ldcp={"fast_start": 0, "burst": burst})
        pair.c.ip(f"route change 10.0.0.0/24 dev eth0 initcwnd {cwnd} src 10.0.0.1")
        sniffer = Sniffer(pair.c)
        client, server = pair.connect()
        transfer((client, server, pattern(40000)))
        data = data_segments(sniffer.segments())
        largest = max(len(seg.payload) for seg in data)
        expect(f"burst of {burst}, window {cwnd}", -(-largest // MSS), want)


# ---- CWR: a prompt ACK ---------------------------------------------------------

def test_cwr_while_small():
    """Below a cw of four each new segment carries CWR, so that the receiver does not delay its ACK;
    above four none does.
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
    """Above a cw of two a mark causes one CWR per round trip, as in any TCP."""
    flow = LdcpFlow().busy()
    first = flow.got()
    seen = []
    for number in range(10):
        flow.ack(1, number % 3 == 0)
        seen += flow.got(0.0001)
    expect("segments", len(first) + len(seen) > 12, True)
    expect("CWR in the first round", sum(bool(seg.flags & CWR) for seg in seen), 1)


def test_cwr_opens_a_delayed_ack_receiver():
    """Between two kernels, with cw below two, no ACK is delayed for 40 ms."""
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
    """Send ACKs with SACK for `sacked` segments behind a gap at the first one."""
    for seg in segments[1:1 + sacked]:
        options = flow.take_in(seg)
        flow.send(options)


def first_again(flow):
    """Return the first retransmission. In virtual time it leaves before new data. In real time, new
    data may leave first.
    """
    high = flow.high
    return next(seg for seg in flow.got(0.01) if virtual_time() or seg.seq < high)


def test_loss_halves_once():
    """All losses of one round trip halve cw once; then the window law applies again."""
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
    """A loss does not reduce cw below gamma."""
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
    """After an RTO cw is one segment or less, and follows the window law from there."""
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
    """A segment was late and not lost: the ACK's timestamp is older than the retransmission, so the
    loss is undone.
    """
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
    """The receiver reports the retransmission as a duplicate by DSACK, so the loss is undone."""
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
    """A loss that a tail loss probe repaired halves cw once; a mark on the next ACKs reduces cw,
    too.
    """
    flow = LdcpFlow(patient=False)
    flow.connect()
    flow.sock.send(bytes(5 * MSS))
    last = flow.got()[-1]
    flow.traced()
    flow.ack(4)
    probe = flow.read(0.3)         # the ACK of a single packet may be delayed
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
    """Only the ACK was late, as the DSACK for the probe shows: cw is not halved, and a mark beside
    it has no further effect.
    """
    flow = LdcpFlow(patient=False)
    flow.connect()
    flow.sock.send(bytes(5 * MSS))
    last = flow.got()[-1]
    flow.traced()
    flow.ack(4)
    before = flow.cw()
    probe = flow.read(0.3)         # the ACK of a single packet may be delayed
    expect("probe", probe.seq, last.seq)
    flow.acked += MSS
    flow.send(flow.take_in(probe), flags=ACK | ECE)
    flow.sock.send(bytes(2 * MSS))
    flow.got()
    flow.ack(2)
    expect("losses", flow.counters()["losses"], 0)
    expect_in("cw", flow.cw(), before - 1 - FINE, before - 0.5)      # cw is not halved


# ---- Classic -------------------------------------------------------------------

def round_of_loss(flow, marked=False):
    """Lose the first segment of a window, acknowledge the others, then repair the loss."""
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
    """Two round trips with a loss and without a mark lead to classic, which halves the window for
    the second loss as well; the next mark brings ldcp back.
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
    """Acknowledge segments until none follows for 50 ms. Ticks with a mean of 2 s are random: one
    in 50 is shorter than that.
    """
    for _ in range(10):
        if not flow.got(0.05):
            return
        flow.ack(1, True)
    raise AssertionError("each ACK lets a segment go at once")


def test_reno_is_not_paced():
    """After a fallback, or after the socket left ldcp for reno, a whole window leaves at once, as
    Reno sends it.
    """
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
    """A connection that fell back for its own losses continues to echo CE per packet, and not for a
    whole round trip.
    """
    flow = LdcpFlow(initcwnd=60)
    flow.busy()
    for _ in range(2):
        round_of_loss(flow)
    expect("congestion control", flow.cc(), "ldcp-classic")
    flow.got(0.01)
    echoed = []
    for ecn in 2, 3, 2, 2, 3, 2, 2:
        for _ in range(2):                  # one of two segments is acknowledged at once
            flow.send(payload=bytes(1000), ecn=ecn)
        seen = [bool(seg.flags & ECE) for seg in flow.read_all(0.05) if seg.ack == flow.seq]
        echoed.append(seen[-1] if seen else None)
    expect("ECE", echoed, [False, True, False, False, True, False, False])


def test_no_fallback_with_marks():
    """Marks between losses show that the path marks: the flow does not fall back."""
    flow = LdcpFlow(initcwnd=60)
    flow.busy()
    for _ in range(3):
        round_of_loss(flow, True)
    expect("congestion control", flow.cc(), "ldcp")
    expect("fallbacks", flow.counters()["fallbacks"], 0)


def test_peer_without_ecn():
    """Without ECN no mark can arrive: the flow is classic until it ends, and is shown and counted
    as no_ecn.
    """
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
    """If one end does not run ldcp, no ECN is negotiated: ldcp runs classic, and data arrive in
    both directions.
    """
    for cc in ("ldcp", "cubic"), ("cubic", "ldcp"):
        pair = Pair(cc=cc, delay="50us")
        client, server = pair.connect()
        expect(f"{cc}", (get_cc(client), get_cc(server)),
               tuple("ldcp-classic" if name == "ldcp" else name for name in cc))
        expect("no_ecn", [ns.counters("ldcp")["no_ecn"] for ns in (pair.c, pair.s)],
               [int(name == "ldcp") for name in cc])
        transfer((client, server, pattern(200000)), (server, client, pattern(100000, 1)))


def test_set_while_connecting():
    """setsockopt() between SYN and SYN-ACK is too early: the flow runs classic. A later
    setsockopt() uses what was negotiated.
    """
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
    """After ldcp another congestion control sends bursts of its own size, and has the default
    reordering.
    """
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
    """The departure time of a long tick does not hold back the next congestion control."""
    flow = LdcpFlow(ldcp={"base_rtt_ns": 1000000000}).busy()
    flow.below(1)
    flow.ack(1, True)
    expect("cw", flow.cw(), 0.5)
    until_it_waits(flow)
    expect("segments", flow.got(0.001), [])
    set_cc(flow.sock, "cubic")
    expect("segments", len(flow.got(0.001)), 1)


def test_leaving_below_one_paced():
    """If SO_MAX_PACING_RATE makes TCP pace on, the next segment waits as long as that rate
    requires, and no longer.
    """
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
    """Flows of both modules share one link that marks and stamps."""
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
    """The link is used, no packet is lost, and there is no RTO."""
    nbytes = 5000000 if virtual_time() else 2000000
    for version in 4, 6:
        # start_rtt_ns keeps the flow from starting slowly because of a slow machine's T.
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
            for name, count in before.items():  # there may be some from a SYN that waited for neighbour discovery
                expect(name, pair.c.snmp(name), count)
        expect("marked", pair.c.counters("ldcp")["marked"] > 50, True)


def test_counters_per_namespace():
    """The counters of one namespace do not change with events in another one."""
    flow, other = LdcpFlow(ldcp={"fast_start": 1}), Netns()
    flow.busy()
    flow.got()
    flow.ack(2, True)
    counters = flow.counters()
    expect("counted", [counters[name] for name in ("flows", "low_priority_sent", "marked", "start_marked")], [1, 9, 2, 1])
    expect("elsewhere", set(other.counters("ldcp").values()), {0})


def test_tracepoint():
    """The tracepoint shows the ports and the stage of a flow."""
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
