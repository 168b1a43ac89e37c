#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/ldcp/cc.c: the window law in TCP: cw, cwnd and departures after each ACK, and the reaction to losses."""

import random
import socket
import time

from lib.kernel import virtual_time
from lib.ktap import cases, expect, expect_in, expect_rate, main, need_virtual_time
from lib.net import Netns, Pair, joined
from lib.packet import ACK, CWR, ECE, Sniffer, data_segments
from lib.peer import LINK_MBPS, T_NS, LdcpFlow, Window
from lib.tcp import get_cc, goodput_mbps, pattern, set_cc, tcp_info, transfer

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
        expect("delivered, marked, stage", (int(line["delivered"]), int(line["marked"]), line["stage"]),
               (n, n if marked else 0, "stable"))
        expect("cwnd", (int(line["cwnd"]), tcp_info(flow.sock)["cwnd"]), (max(1, int(cw + 0.0005)),) * 2)
        flow.got()


def expect_cw(what, flow, low, high=None):
    """Fail unless cw is within these bounds, or equals one value."""
    expect_in(what, flow.cw(), low - FINE, low + FINE if high is None else high)


def to_half(**ldcp):
    """Return a flow whose cw is at one half, and whose next segment waits for its tick."""
    flow = LdcpFlow(ldcp=ldcp).busy()
    flow.below(1)
    flow.ack(1, True)
    return flow


def test_mixed_acks():
    """Marked and unmarked ACKs arrive in random order, for one or two segments each."""
    for version in 4, 6:
        flow = LdcpFlow(version=version)
        flow.MSS = MSS if version == 4 else MSS - 20
        rng, window, acks = random.Random(1), Window(10), []
        flow.busy()
        for _ in range(300):
            # two segments are always in flight
            marked = rng.random() < 0.08
            acks.append((rng.choice((1, 2)) if window.cw > 4 else 1, marked and window.cw > 3))
            window.ack(*acks[-1])
        expect_in("marks", sum(marked for _, marked in acks), 6, 59)
        follows(flow, Window(10), acks)


def test_parameters():
    """A flow keeps the alpha, beta and gamma that its namespace had when it began."""
    names = "alpha_permille", "beta_permille", "gamma_permille"
    for values in (1000, 1000, 1000), (1, 1, 1), (500, 125, 125):
        flow = LdcpFlow(ldcp=dict(zip(names, values))).busy()
        for name in names:
            flow.ns.sysctl(f"net.ldcp.{name}", 777)
        follows(flow, Window(10, *[value / 1000 for value in values]), [(1, False), (1, True), (2, True), (2, False)])


def next_tick(flow):
    """Return the segments of the next tick, which lasts for at most 6 x 8 T / cw."""
    return next(filter(None, (flow.got(LONG_S) for _ in range(100))), [])


def test_below_one():
    """Below one a mark halves cw, down to gamma, and an unmarked ACK adds gamma; cwnd stays at one segment."""
    flow = LdcpFlow().busy()
    flow.below(1)
    before = flow.counters()["below_one"]
    want = []
    for marked, cw in ((True, 0.5), (True, 0.25), (True, 0.25), (False, 0.5), (False, 0.75), (True, 0.375),
                       (False, 0.625), (False, 0.875), (False, 1.125), (False, 1.125 + 0.25 / 1.125),
                       (True, 1.0), (True, 0.5)):
        flow.ack(1, marked)
        got, line = flow.traced()[-1]
        want.append(cw)
        expect_in(f"cw after {want}", got, cw - FINE, cw + FINE)
        expect("cwnd, one segment", (int(line["cwnd"]), len(next_tick(flow))), (1, 1))
    expect("below_one", flow.counters()["below_one"], before + 2)
    flow = LdcpFlow(ldcp={"gamma_permille": 63}).busy()
    flow.below(1)
    for cw in 0.5, 0.25, 0.125, 0.063, 0.063:
        flow.ack(1, True)
        expect_cw("cw with gamma 0.063", flow, cw)
        expect("segment sent", bool(next_tick(flow)), True)


def test_below_one_counts_acks():
    """Below one, an ACK of several segments counts as one step."""
    flow = to_half()
    next_tick(flow)
    flow.ack(1, True)       # 0.25
    next_tick(flow)
    expect("in flight", flow.high - flow.acked, MSS)
    flow.ack(1)
    expect_cw("cw", flow, 0.5)


def test_least_window():
    """cw falls below gamma if cw_min allows it, and the floor is never above gamma."""
    for gamma, least, floor in (250, 100, 0.1), (250, 10, 0.01), (63, 100, 0.063):
        flow = LdcpFlow(ldcp={"gamma_permille": gamma, "cw_min_permille": least, "base_rtt_ns": T_NS // 100}).busy()
        flow.below(1)
        cw, at_floor = 1, 0
        while at_floor < 2:
            cw = max(floor, cw / 2)
            at_floor += cw == floor
            flow.ack(1, True)
            expect_cw(f"cw of at least {floor}", flow, cw)
            next_tick(flow)
        flow.ack(1)
        expect_cw("cw", flow, floor + gamma / 1000)


def gaps(flow, marks, rtt_s=0.0002, patience_s=0.5):
    """Return the times between departures of single segments, each of which is acknowledged after an RTT."""
    found = []
    for marked in marks:
        left = time.monotonic()
        time.sleep(rtt_s)
        flow.ack(1, marked)
        seg = flow.read(patience_s)
        found.append(time.monotonic() - left)
        expect("segment sent", bool(seg and seg.payload), True)
        flow.high = seg.seq + len(seg.payload)
        expect("segments at once", flow.read(0), None)
    return found


def at_gamma(**ldcp):
    """Return a flow whose cw stays at 1/4 while the flow is marked. This needs virtual time."""
    need_virtual_time()
    flow = LdcpFlow(ldcp=ldcp).busy()
    flow.below(1)
    for _ in range(2):
        flow.ack(1, True)
        expect("segment sent", bool(next_tick(flow)), True)
    expect("cw", flow.cw(), 0.25)
    return flow


# If cw is below 1, segments leave at random times: on average one in T / cw, or one in RTT / cw if the RTT exceeds T.
@cases(departures_below_one=(0.0002, T_S / 0.25), ticks_follow_the_rtt=(3 * T_S, 3 * T_S / 0.25))
def ticks(rtt_s, tick_s):
    """Gaps between departures are distributed as ticks: random, at most 6 mean ticks, and one tick on average."""
    found = gaps(at_gamma(), [True] * 300, rtt_s)[1:]
    expect_in("shortest", min(found), rtt_s, rtt_s + tick_s / 20)
    expect_in("longest", max(found), 3 * tick_s, 6 * tick_s + 1e-4)
    # a tick that is shorter than the RTT ends when the ACK arrives
    mean = tick_s * (1 + (rtt_s / tick_s) ** 2 / 2)
    expect_in("mean", sum(found) / len(found), mean * 0.8, mean * 1.2)


def test_ticks_of_a_late_ack():
    """A tick uses an RTT of at most 8 T, because a queue that marks causes no longer RTT."""
    flow = at_gamma(base_rtt_ns=T_NS // 10)
    for _ in range(40):
        time.sleep(0.01)
        flow.ack(1, True)
        expect("segments", len(flow.got(0.02)), 1)
    expect("rtt_us", int(flow.traced()[-1][1]["rtt_us"]) >= 10000, True)


def test_rtt_of_what_is_sent_again():
    """The RTT of a retransmission is the time in us since it was sent, not a difference of timestamps."""
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
    expect_in("rtt_us", int(flow.traced()[-1][1]["rtt_us"]), 300, 320 + 1e6 * (time.monotonic() - left - 0.0003))


def test_rtt_of_no_delivery():
    """An ACK that delivers nothing does not change the RTT."""
    flow = at_gamma()
    gaps(flow, [True] * 3)
    flow.traced()
    time.sleep(0.02)
    flow.send()                     # a duplicate of the last ACK
    expect_in("rtt_us", max((int(line["rtt_us"]) for _, line in flow.traced()), default=200), 200, 210)


def test_long_ticks():
    """Ticks that are longer than an RTO are kept: no timer of TCP shortens them."""
    need_virtual_time()
    flow = to_half(base_rtt_ns=200000000)
    next_tick(flow)
    flow.ack(1, True)
    next_tick(flow)
    expect("cw", flow.cw(), 0.25)
    found = gaps(flow, [True] * 100, patience_s=6)
    expect_in("mean", sum(found) / len(found), 0.8 * 0.7, 0.8 * 1.3)
    expect_in("longest", max(found), 2.0, 4.801)


def test_departure_moves():
    """An ACK that changes cw also changes the departure time of the next segment at once."""
    flow = at_gamma()
    gaps(flow, [True])
    for cw, marked in (0.5, False), (0.75, False), (0.375, True):
        expect_in(f"gap at {cw}", gaps(flow, [marked])[0], 0.0002, T_S / cw * 6 + 5e-6)
    gaps(flow, [False, False])
    expect_cw("cw", flow, 0.875)
    # with cw of one or more the ACK clocks the next segment
    for cw in 1.125, 1.347:
        expect_in(f"gap at {cw}", gaps(flow, [False])[0], 0.0002, 0.000205)


def test_max_pacing_rate_below_one():
    """No tick lets a segment leave earlier than SO_MAX_PACING_RATE allows."""
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
    for gap in gaps(at_gamma(), [True] * 3, 0.2):
        expect_in("gap", gap, 0.2, 0.200005)


def test_idle_application():
    """A window that the application does not use does not grow, even after a mark."""
    def send(segments, marked=False):
        flow.sock.send(bytes(segments * MSS))
        expect("segments", len(flow.got(0.01)), segments)
        flow.ack(segments, marked)

    flow = LdcpFlow()
    flow.connect()
    for _ in range(20):
        send(2)
        time.sleep(0.001)
    expect("cw", flow.cw(), 10.0)
    send(2, True)
    expect("cw after a mark", flow.cw(), 9.0)
    for _ in range(6):
        send(5)
    expect("cw", flow.cw(), 9.0)


def test_bursts():
    """A burst has at most 1/32 of cwnd, and at most the parameter burst."""
    for cwnd, burst, want in (10, 4, 1), (70, 4, 2), (200, 4, 4), (200, 2, 2), (200, 1, 1), (200, 20, 6):
        pair = Pair(cc=("ldcp", "ldcp"), delay="200us", ldcp={"fast_start": 0, "burst": burst})
        pair.c.ip(f"route change 10.0.0.0/24 dev eth0 initcwnd {cwnd} src 10.0.0.1")
        sniffer = Sniffer(pair.c)
        transfer((*pair.connect(), pattern(40000)))
        largest = max(len(seg.payload) for seg in data_segments(sniffer.segments()))
        expect(f"burst of {burst}, window {cwnd}", -(-largest // MSS), want)


# ---- CWR: a prompt ACK ---------------------------------------------------------

def test_cwr_while_small():
    """Below a cw of four each new segment carries CWR, which prevents a delayed ACK; above four no segment does."""
    def cwr_of(segments):
        return [seg.flags & CWR for seg in segments]

    def ack_all():
        segments = flow.got(LONG_S)
        flow.ack((flow.high - flow.acked) // MSS)
        return segments

    flow = LdcpFlow().busy()
    expect("CWR at 10", cwr_of(flow.got()), [0] * 10)
    flow.ack(1)
    expect("CWR", set(cwr_of(flow.got())) <= {0}, True)
    flow.below(1)
    for marked in False, False, True, True, False, False:
        flow.ack(1, marked)
        segments = next_tick(flow)
        expect("CWR, segments", (cwr_of(segments), len(segments) > 0), ([CWR] * len(segments), True))
    seen = []
    while flow.cw() < 3.6:
        flow.ack(1)
        seen += ack_all() + flow.got(LONG_S)
    expect("CWR below four", (len(seen) > 5, set(cwr_of(seen))), (True, {CWR}))
    flow.ack(1)
    while flow.cw() < 4.2:
        ack_all()
        flow.got(LONG_S)
        flow.ack(1)
    flow.got(LONG_S)
    seen = []
    for _ in range(10):
        flow.ack(1)
        seen += flow.got(0.01)
    expect("CWR above four", (len(seen) > 5, set(cwr_of(seen))), (True, {0}))


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
        expect_in(f"delayed ACKs, {receiver}", pair.s.snmp("TcpExtDelayedACKs"), 0, 1)
        if virtual_time():
            expect_in(f"time with {receiver} at the receiver", took, 0.0095, 0.0115)


# ---- Loss ----------------------------------------------------------------------

def lose(flow, segments, sacked):
    """Send ACKs with SACK for `sacked` segments behind a gap at the first one."""
    for seg in segments[1:1 + sacked]:
        flow.send(flow.take_in(seg))


def repair(flow, flags=ACK):
    """Acknowledge all data."""
    flow.blocks, flow.acked = [], flow.high
    flow.send(flags=flags)


def state(flow):
    """Return the state of TCP's recovery: 0 is open, 3 is recovery."""
    return tcp_info(flow.sock)["ca_state"]


def first_again(flow):
    """Return the first retransmission. In real time, new data may leave before it."""
    high = flow.high
    return next(seg for seg in flow.got(0.01) if virtual_time() or seg.seq < high)


def test_loss_halves_once():
    """All losses of one round trip halve cw once; then the window law applies again."""
    flow = LdcpFlow().busy()
    segments = flow.got()
    flow.traced()
    lose(flow, segments, 3)
    expect("state", state(flow), 3)
    expect_cw("cw", flow, 5, 5.5)
    lose(flow, segments[3:], 6)
    expect("losses", flow.counters()["losses"], 1)
    expect_in("cw", flow.cw(), 5, 5.5)
    again = first_again(flow)
    expect("sequence number, ECN field of the retransmission", (again.seq, again.ecn), (segments[0].seq, 2))
    repair(flow)
    expect("state, RTOs, mode", (state(flow), flow.ns.snmp("TcpExtTCPTimeouts"), flow.cc()), (0, 0, "ldcp"))


def test_loss_floor():
    """A loss does not reduce cw below gamma."""
    flow = LdcpFlow(patient=False).busy()
    flow.below(1)
    for _ in range(2):
        flow.ack(1, True)
        expect("segment sent", bool(next_tick(flow)), True)
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
        expect("segment sent", flow.read(2) is not None, True)
    expect("timeouts", flow.counters()["timeouts"], 1)
    flow.got(LONG_S)
    flow.traced()
    flow.ack(1)
    expect_in("cw", flow.cw(), 1, 1.26)
    expect("cwnd", tcp_info(flow.sock)["cwnd"] <= 2, True)


def test_spurious_loss_eifel():
    """A segment was late and not lost: the ACK's timestamp is older than the retransmission, so the loss is undone."""
    flow = LdcpFlow().busy()
    segments = flow.got()
    secr = flow.tsecr
    flow.traced()
    time.sleep(0.05)
    lose(flow, segments, 4)
    expect_cw("cw", flow, 5, 5.5)
    flow.got(0.01)
    flow.tsecr, flow.blocks = secr, []
    flow.acked = segments[-1].seq + len(segments[-1].payload)
    flow.send()
    expect_in("cw", flow.cw(), 10, 10.5)
    expect("state", state(flow), 0)


def test_spurious_loss_dsack():
    """The receiver reports the retransmission as a duplicate by DSACK, so the loss is undone."""
    flow = LdcpFlow(timestamps=False)
    flow.MSS = 1460
    segments = flow.busy().got()
    flow.traced()
    lose(flow, segments, 4)
    expect_cw("cw", flow, 5, 5.6)
    again = first_again(flow)
    expect("sequence number of the retransmission", again.seq, segments[0].seq)
    repair(flow)
    expect_in("cw", flow.cw(), 5, 6.5)
    flow.got(0.001)
    flow.send(flow.take_in(again))
    expect_in("cw", flow.cw(), 10, 10.5)
    expect("state", state(flow), 0)


def probed():
    """Return a flow whose last segment is not acknowledged, and its tail loss probe."""
    flow = LdcpFlow(patient=False)
    flow.connect()
    flow.sock.send(bytes(5 * MSS))
    last = flow.got()[-1]
    flow.traced()
    flow.ack(4)
    probe = flow.read(0.3)         # the ACK of a single packet may be delayed
    expect("probe", (probe.seq, flow.ns.snmp("TcpExtTCPLossProbes")), (last.seq, 1))
    return flow, probe


def two_more(flow, marked=False):
    """Let the kernel send two more segments, and acknowledge them."""
    flow.sock.send(bytes(2 * MSS))
    flow.got()
    flow.ack(2, marked)


def test_loss_probe():
    """A loss that a tail loss probe repaired halves cw once; a mark on the next ACKs also reduces cw."""
    flow, _ = probed()
    flow.ack(1)
    before = flow.cw()
    two_more(flow)
    expect("losses of TCP, of ldcp", (flow.ns.snmp("TcpExtTCPLossProbeRecovery"), flow.counters()["losses"]), (1, 1))
    expect_cw("cw", flow, before / 2)
    two_more(flow, True)
    expect("losses", flow.counters()["losses"], 1)
    expect_cw("cw", flow, before / 2 - 1)
    expect("congestion control", flow.cc(), "ldcp")


def test_loss_probe_of_nothing():
    """Only the ACK was late, as the probe's DSACK shows: cw is not halved; a mark beside the DSACK has no effect."""
    flow, probe = probed()
    before = flow.cw()
    flow.acked += MSS
    flow.send(flow.take_in(probe), flags=ACK | ECE)
    two_more(flow)
    expect("losses", flow.counters()["losses"], 0)
    expect_cw("cw", flow, before - 1, before - 0.5)


# ---- Classic -------------------------------------------------------------------

def round_of_loss(flow, marked=False):
    """Lose the first segment of a window, acknowledge the others, then repair the loss."""
    segments = flow.got(0.01)
    expect("window", len(segments) > 3, True)
    lose(flow, segments, len(segments) - 1)
    flow.got(0.01)
    repair(flow, ACK | (ECE if marked else 0))
    flow.got(0.01)
    repair(flow)


def test_fallback():
    """Two round trips with losses and without marks lead to classic, which halves the window; a mark ends it."""
    flow = LdcpFlow(timestamps=True, initcwnd=40).busy()
    round_of_loss(flow)
    before = tcp_info(flow.sock)["cwnd"]
    expect("congestion control after one loss", flow.cc(), "ldcp")
    expect_in("cwnd", before, 20, 22)
    round_of_loss(flow)
    expect("mode after two losses, fallbacks", (flow.cc(), flow.counters()["fallbacks"]), ("ldcp-classic", 1))
    expect_in("cwnd", tcp_info(flow.sock)["cwnd"], before // 2 - 1, before // 2 + 4)
    for _ in range(5):
        expect("ECN fields in classic mode", {seg.ecn for seg in flow.got(0.01)}, {2})
        repair(flow)
    cwnd = tcp_info(flow.sock)["cwnd"]
    expect_in("cwnd, to which Reno adds one per round trip", cwnd, before // 2, before // 2 + 12)
    flow.got(0.01)
    flow.traced()
    flow.ack(1, True)
    expect("congestion control after a mark, returns", (flow.cc(), flow.counters()["returns"]), ("ldcp", 1))
    flow.got(0.01)
    flow.ack(1, True)
    expect_in("cw", flow.cw(), cwnd - 1.1, cwnd - 0.4)


def until_it_waits(flow):
    """Acknowledge segments until none follows for 50 ms. Ticks have a mean of 2 s; 1 in 50 is shorter than 50 ms."""
    for _ in range(10):
        if not flow.got(0.05):
            return
        flow.ack(1, True)
    raise AssertionError("a segment leaves at once after each ACK")


def test_reno_is_not_paced():
    """After a fallback, or after the socket left ldcp for reno, a whole window leaves at once, as Reno sends it."""
    need_virtual_time()
    for leave in False, True:
        flow = LdcpFlow(initcwnd=40).busy()
        round_of_loss(flow)
        if leave:
            set_cc(flow.sock, "reno")
        else:
            round_of_loss(flow)
        expect("congestion control", flow.cc(), "reno" if leave else "ldcp-classic")
        for _ in range(3):
            flow.got(0.01)
            repair(flow)
        flow.got()
        expect("segments later", len(flow.got(0.01)), 0)
    flow = LdcpFlow(ldcp={"base_rtt_ns": 1000000000}, initcwnd=40).busy()
    for _ in range(2):
        round_of_loss(flow)
    flow.got(0.01)
    flow.ack(1, True)
    expect("congestion control after a mark", flow.cc(), "ldcp")
    flow.below(1)
    flow.ack(1, True)
    expect("cw", flow.cw(), 0.5)
    until_it_waits(flow)


def test_echo_after_fallback():
    """A connection that fell back because of its own losses continues to echo CE per packet."""
    flow = LdcpFlow(initcwnd=60).busy()
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
    flow = LdcpFlow(initcwnd=60).busy()
    for _ in range(3):
        round_of_loss(flow, True)
    expect("congestion control, fallbacks", (flow.cc(), flow.counters()["fallbacks"]), ("ldcp", 0))


def test_peer_without_ecn():
    """Without ECN no mark can arrive: the flow is classic until it ends, and is shown and counted as no_ecn."""
    flow = LdcpFlow(ecn=False)
    flow.connect()
    counters = flow.counters()
    expect("mode, no_ecn, flows", (flow.cc(), counters["no_ecn"], counters["flows"]), ("ldcp-classic", 1, 0))
    flow.always = True
    segments = flow.got()
    expect("ECN fields, initial window", ({seg.ecn for seg in segments}, len(segments)), ({0}, 10))
    flow.ack(2, True)
    expect("congestion control", flow.cc(), "ldcp-classic")
    flow.receive(200000)


def test_listener_without_ldcp():
    """If one end does not run ldcp, no ECN is negotiated: ldcp runs classic, and data arrive in both directions."""
    for cc in ("ldcp", "cubic"), ("cubic", "ldcp"):
        pair, client, server = joined(Pair(cc=cc, delay="50us"))
        expect(f"{cc}", (get_cc(client), get_cc(server)), tuple(name.replace("ldcp", "ldcp-classic") for name in cc))
        expect("no_ecn", [ns.counters("ldcp")["no_ecn"] for ns in (pair.c, pair.s)], [int(name == "ldcp") for name in cc])
        transfer((client, server, pattern(200000)), (server, client, pattern(100000, 1)))


def test_set_while_connecting():
    """setsockopt() between SYN and SYN-ACK is too early: the flow is classic. A later one uses the negotiated ECN."""
    for ecn, tcp_ecn in (True, 1), (False, 1), (False, 2):
        flow = LdcpFlow(ecn=ecn)
        flow.ns.sysctl("net.ipv4.tcp_ecn", tcp_ecn)
        flow.start_connect(cc="cubic")
        set_cc(flow.sock, "ldcp")
        flow.answer(b"")
        flow.start = flow.high = flow.acked
        flow.fill()
        expect("ECN fields, mode", ({seg.ecn for seg in flow.got()}, flow.cc()), ({2 if ecn else 0}, "ldcp-classic"))
        flow.ack(1)
        flow.ack(2, marked=ecn)
        expect("congestion control", flow.cc(), "ldcp-classic")
        set_cc(flow.sock, "ldcp")
        expect("congestion control", flow.cc(), "ldcp" if ecn else "ldcp-classic")


# ---- Other congestion controls ---------------------------------------------------

def test_leaving():
    """After ldcp another congestion control sends bursts of its usual size, and has the default reordering."""
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
    """The departure time of a long tick does not delay the next congestion control."""
    flow = to_half(base_rtt_ns=1000000000)
    expect("cw", flow.cw(), 0.5)
    until_it_waits(flow)
    expect("segments before the change", flow.got(0.001), [])
    set_cc(flow.sock, "cubic")
    expect("number of segments after the change", len(flow.got(0.001)), 1)


def test_leaving_below_one_paced():
    """If TCP still paces because of SO_MAX_PACING_RATE, the next segment waits only as long as this rate requires."""
    need_virtual_time()
    for rate in 1000000, 10000:
        flow = LdcpFlow(ldcp={"base_rtt_ns": 1000000000}).busy()
        flow.below(1)
        flow.sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
        flow.ack(1, True)
        until_it_waits(flow)
        set_cc(flow.sock, "reno")
        left = time.monotonic()
        expect("segment sent", flow.read(5) is not None, True)
        expect_in("time", time.monotonic() - left, 0, MSS / rate + 0.001)


def test_side_by_side():
    """Flows of both modules share one link that marks and stamps."""
    pair = Pair(cc=("ldcp", "ldcp"), qdisc=f"hpcc rate {LINK_MBPS}mbit delay 20us marking ldcp")
    ends = [pair.connect(pair.listen(port, cc=cc), cc=cc) for port, cc in ((5001, "ldcp"), (5002, "hpcc"))]
    for _ in range(2):
        expect("congestion controls", [get_cc(sock) for flow in ends for sock in flow], ["ldcp"] * 2 + ["hpcc"] * 2)
        transfer(*((*flow, pattern(1000000, number)) for number, flow in enumerate(ends)))
    expect("congestion controls", [get_cc(sock) for flow in ends for sock in flow], ["ldcp"] * 2 + ["hpcc"] * 2)
    expect("marks, RTOs", (pair.c.counters("ldcp")["marked"] > 10, pair.c.snmp("TcpExtTCPTimeouts")), (True, 0))


def test_bulk_on_a_marking_link():
    """The link is used, no packet is lost, and there is no RTO."""
    for version in 4, 6:
        # Because of start_rtt_ns, the large T of a slow machine does not make the flow start slowly.
        pair = Pair(version, cc=("ldcp", "ldcp"), ldcp={"start_rtt_ns": 10 ** 9},
                    qdisc=f"hpcc rate {LINK_MBPS}mbit delay 20us marking ldcp kmin 8000 kmax 40000")
        ends = pair.connect()
        before = {name: pair.c.snmp(name) for name in ("TcpExtTCPTimeouts", "RetransSegs")}
        share = goodput_mbps(*ends, 5000000 if virtual_time() else 2000000) / LINK_MBPS
        expect_rate("share of the link", share, 0.85, 0.96)
        if virtual_time():
            for name, count in before.items():  # there may be some from a SYN that waited for neighbour discovery
                expect(name, pair.c.snmp(name), count)
        expect("marked", pair.c.counters("ldcp")["marked"] > 50, True)


def test_counters_per_namespace():
    """The counters of one namespace do not change with events in another namespace."""
    flow, other = LdcpFlow(ldcp={"fast_start": 1}), Netns()
    flow.busy().got()
    flow.ack(2, True)
    counters = flow.counters()
    names = "flows", "low_priority_sent", "marked", "start_marked"
    expect(f"{names}", [counters[name] for name in names], [1, 9, 2, 1])
    expect("counters of another namespace", set(other.counters("ldcp").values()), {0})


def test_tracepoint():
    """The tracepoint shows the ports and the stage of a flow."""
    flow = LdcpFlow(ldcp={"fast_start": 1}).busy()
    flow.got()
    flow.ack(1)
    cw, line = flow.traced()[-1]
    expect("line", (int(line["sport"]), int(line["dport"]), line["stage"], cw), (flow.lport, flow.port, "start", 10.0))


main(modules=["tcp_ldcp", "sch_hpcc"])
