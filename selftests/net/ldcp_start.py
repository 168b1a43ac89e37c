#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/ldcp/start.c: the first RTT: IW, which segments leave as Not-ECT, and how a start ends."""

import itertools
import socket
import time

from lib.kernel import virtual_time
from lib.ktap import cases, expect, expect_in, main, need_virtual_time
from lib.net import Netns, Pair, joined, meet
from lib.packet import FIN, PSH, SYN, Sniffer, data_segments, sane
from lib.peer import T_NS, LdcpFlow
from lib.tcp import TCP_CONGESTION, get_cc, pattern, set_cc, tcp_info, transfer

MSS = LdcpFlow.MSS
NOT_ECT, ECT0, CE = 0, 2, 3
FAST = {"fast_start": 1}
# The one-way delay. It is long enough that no ACK returns before a test has examined the first RTT.
DELAY_S = 0.001 if virtual_time() else 0.2
DELAY = f"{DELAY_S * 1000:.0f}ms"
# The rate is so low that 40 packets are queued even on a slow machine.
PORT_MBPS = 1000 if virtual_time() else 10


def start(iw=10, **how):
    """Return a connection that has sent nothing, with an IW of `iw` segments."""
    flow = LdcpFlow(ldcp=FAST | {"iw": iw}, **how)
    flow.connect()
    return flow


def sent(flow, segments):
    """Let the kernel send this number of segments. Return their ECN fields."""
    flow.sock.send(bytes(segments * MSS))
    return fields(flow.got())


def stage(flow):
    """Return the stage at the last ACK."""
    return flow.traced()[-1][1]["stage"]


def fields(segments):
    return [seg.ecn for seg in segments]


# ---- IW ------------------------------------------------------------------------

def test_iw_configured():
    for iw in 2, 7, 40:
        flow = start(iw)
        flow.fill()
        expect("segments, cwnd", (len(flow.got()), tcp_info(flow.sock)["cwnd"]), (iw, iw))


def test_iw_is_bdp():
    """IW is B of the host x T, in whole segments, at least two."""
    for mbps, T_ns, want in ((1000, 100000, 8), (1000, 240000, 20), (10000, 40000, 34), (100, 10000, 2),
                             (100000, 10000, 86), (1000000, 1000000000, 131072)):
        flow = LdcpFlow(ldcp=FAST | {"iw": 0, "host_mbps": mbps, "base_rtt_ns": T_ns})
        flow.connect()
        expect(f"IW of {mbps} Mb/s x {T_ns} ns", tcp_info(flow.sock)["cwnd"], want)


def late_answer(mbps, late_s):
    """Return a flow whose T is the RTT of its handshake."""
    flow = LdcpFlow(ldcp=FAST | {"iw": 0, "host_mbps": mbps, "base_rtt_ns": 0, "start_rtt_ns": 10**9})
    flow.start_connect()
    time.sleep(late_s)
    flow.answer(b"")
    flow.start = flow.high = flow.acked
    return flow


def test_iw_of_the_device():
    """B is 10 Gb/s, as veth reports; T may be the RTT of the handshake."""
    ends = Pair(cc=("ldcp", "ldcp"), ldcp={"base_rtt_ns": 100000}).connect()
    expect("IW", [tcp_info(sock)["cwnd"] for sock in ends], [125000 // MSS] * 2)
    expect_in("IW", tcp_info(late_answer(1000, 0.0005).sock)["cwnd"], 62500 // MSS,
              64000 // MSS if virtual_time() else 1 << 17)


def test_bounded_by_the_receiver():
    """The window in a SYN is not scaled: at most 64 KB leave in the first RTT. The last segment stays ECT."""
    ecn = sent(start(1000), 1000)
    expect("segments, last", (len(ecn), ecn[-1:]), (65535 // MSS, [ECT0]))


def test_send_buffer_follows():
    """The send buffer grows with IW, so that it does not limit the first RTT."""
    pair = Pair(cc=("ldcp", "ldcp"), delay=DELAY, ldcp={"iw": 40})
    sniffer = Sniffer(pair.s)
    client, _ = pair.connect()
    client.setblocking(False)
    expect_in("bytes sent to the socket", client.send(bytes(1 << 20)), 40 * MSS, 1 << 20)
    expect("segments in the first RTT", len(first_rtt_of(sniffer)), 40)


def first_rtt_of(sniffer):
    """Return the data segments of the first RTT."""
    time.sleep(1.5 * DELAY_S)
    return data_segments(sniffer.segments())


# ---- Packets sent as Not-ECT --------------------------------------------------------

@cases(first_rtt_ipv4=(4,), first_rtt_ipv6=(6,))
def first_rtt(version, offload=True):
    """Check the ECN fields of all segments of a connection, from the handshake to the FIN."""
    pair = Pair(version, cc=("ldcp", "ldcp"), offload=offload, delay=DELAY, ldcp={"iw": 10})
    sniffer = Sniffer(pair.c)
    client, server = pair.connect()
    client.setblocking(False)
    data = pattern(40 * pair_mss(version))
    data = data[:client.send(data)]
    time.sleep(1.5 * DELAY_S)
    segments = sniffer.segments()
    sane(segments)
    expect("SYN, SYN-ACK, ACK", [(seg.ecn, bool(seg.flags & SYN)) for seg in segments[:3]],
           [(ECT0, True), (ECT0, True), (ECT0, False)])
    expect("first RTT", fields(data_segments(segments)), [NOT_ECT] * 9 + [ECT0])
    got = b""
    while len(got) < len(data):
        got += server.recv(1 << 20)
    expect("data", got == data, True)
    client.close()
    server.close()
    time.sleep(max(0.1, 4 * DELAY_S))
    segments = sniffer.segments()
    sane(segments)
    fins = sum(bool(seg.flags & FIN) for seg in segments)
    expect("later ECN fields, FINs", (set(fields(segments)), fins), ({ECT0}, 2))
    expect("low_priority_sent", [ns.counters("ldcp")["low_priority_sent"] for ns in (pair.c, pair.s)], [9, 0])


def pair_mss(version):
    """Return the MSS for an MTU of 1500, with timestamps."""
    return MSS if version == 4 else MSS - 20


def test_first_rtt_without_offload():
    """Without offload TCP and IP compute the checksums."""
    for version in 4, 6:
        first_rtt(version, False)


def test_ends_with_the_first_ack():
    """Segments after the first ACK are ECT, although part of IW is unused."""
    flow = start()
    expect("ECN fields before the ACK", sent(flow, 5), [NOT_ECT] * 4 + [ECT0])
    flow.ack(1)
    expect("ECN fields after the ACK", sent(flow, 12), [ECT0] * 6)
    expect("low_priority_sent", flow.counters()["low_priority_sent"], 4)


def test_messages():
    """The last packet of each message stays ECT, for messages of any length."""
    for sizes, want in (((1,), [ECT0]), ((MSS,), [ECT0]), ((MSS + 1,), [NOT_ECT, ECT0]),
                        ((3 * MSS,), [NOT_ECT] * 2 + [ECT0]), ((3 * MSS + 7,), [NOT_ECT] * 3 + [ECT0]),
                        ((2 * MSS, 3 * MSS), [NOT_ECT, ECT0, NOT_ECT, NOT_ECT, ECT0]), ((MSS, MSS, MSS), [ECT0] * 3),
                        ((9 * MSS,), [NOT_ECT] * 8 + [ECT0]), ((10 * MSS,), [NOT_ECT] * 9 + [ECT0]),
                        ((25 * MSS,), [NOT_ECT] * 9 + [ECT0])):
        flow = start()
        for size in sizes:
            flow.sock.send(bytes(size))
        expect(f"messages of {sizes}", fields(flow.got()), want)


def test_small_segments():
    """IW is counted in bytes: small segments do not use it up early."""
    flow = start(3)
    flow.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(3):
        flow.sock.send(bytes(100))
    expect("ECN fields", fields(flow.got()), [ECT0] * 3)


def test_msg_more():
    """A message that is written in several pieces ends with the last piece."""
    flow = start()
    for _ in range(2):
        flow.sock.send(bytes(2 * MSS), socket.MSG_MORE)
    flow.sock.send(bytes(MSS + 5))
    expect("with MSG_MORE", fields(flow.got()), [NOT_ECT] * 5 + [ECT0])
    flow = start()
    flow.sock.sendmsg([bytes(MSS), bytes(MSS), bytes(MSS - 1)])
    expect("with iovec", fields(flow.got()), [NOT_ECT] * 2 + [ECT0])
    flow = start()
    flow.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    flow.sock.send(bytes(2 * MSS + 5))
    expect("with TCP_CORK", fields(flow.got()), [NOT_ECT] * 2)
    flow.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    expect("tail after TCP_CORK", fields(flow.got()), [ECT0])


def test_fin_ends_a_message():
    """MSG_MORE announces data, but no data follow: the last packet has the FIN, and is ECT."""
    for how in "shutdown", "close":
        flow = start()
        flow.sock.send(bytes(2 * MSS + 50), socket.MSG_MORE)
        expect("ECN fields before the FIN", fields(flow.got()), [NOT_ECT] * 2)
        getattr(flow.sock, how)(*[socket.SHUT_WR] * (how == "shutdown"))
        last = flow.got()
        expect(f"after {how}", [(seg.ecn, seg.flags & (FIN | PSH)) for seg in last],
               [(ECT0, last[0].flags & PSH | FIN)])


def test_server_answers():
    """The child of a listener has a fast start as well; received data do not count for the fast start."""
    pair = Pair(cc=("ldcp", "ldcp"), delay=DELAY, ldcp={"iw": 20})
    sniffer = Sniffer(pair.s)
    client, server = pair.connect()
    client.send(b"x" * 100)
    expect("bytes of the request", len(server.recv(200)), 100)
    server.send(pattern(16 * MSS))
    data = [seg for seg in first_rtt_of(sniffer) if seg.sport == 5000]
    expect("ECN fields of the answer", fields(data), [NOT_ECT] * 15 + [ECT0])


def test_setsockopt_in_the_first_rtt():
    """setsockopt() does not end the start, even if it selects ldcp again."""
    for what, *option in (("no option",), ("ldcp again", socket.IPPROTO_TCP, TCP_CONGESTION, b"ldcp"),
                          ("IP_TOS", socket.IPPROTO_IP, 1, 0x10), ("TCP_NODELAY", socket.IPPROTO_TCP, 1, 1),
                          ("SO_SNDBUF", socket.SOL_SOCKET, 7, 1 << 20)):
        flow = start()
        expect(f"{what}: before", sent(flow, 4), [NOT_ECT] * 3 + [ECT0])
        if option:
            flow.sock.setsockopt(*option)
        expect(f"{what}: rest of IW", sent(flow, 8), [NOT_ECT] * 5 + [ECT0])
        flow.ack(1)
        expect(f"{what}: stage", stage(flow), "start")
    flow = start()
    for name in "cubic", "ldcp":
        set_cc(flow.sock, name)
    expect("cubic and ldcp again before the first packet", sent(flow, 4), [NOT_ECT] * 3 + [ECT0])


def test_off():
    """With fast_start 0 all segments are ECT, and the initial window is TCP's."""
    flow = LdcpFlow(ldcp={"fast_start": 0, "iw": 30})
    flow.connect()
    expect("ECN fields", sent(flow, 100), [ECT0] * 10)
    flow.ack(1)
    expect("low_priority_sent, stage", (flow.counters()["low_priority_sent"], stage(flow)), (0, "stable"))


def test_no_start_in_mid_connection():
    """A connection that changes to ldcp has no fast start, because its first RTT is over."""
    pair = Pair(cc=("cubic", "cubic"), delay=DELAY, ldcp={"iw": 40})
    for ns in pair.c, pair.s:
        ns.sysctl("net.ipv4.tcp_ecn", 1)
    sniffer = Sniffer(pair.c)
    client, server = pair.connect()
    transfer((client, server, pattern(10000)))
    time.sleep(5 * DELAY_S)
    sniffer.segments()
    set_cc(client, "ldcp")
    expect("congestion control, cwnd is cubic's", (get_cc(client), tcp_info(client)["cwnd"] < 40), ("ldcp", True))
    client.setblocking(False)
    client.send(bytes(60000))
    expect("ECN fields, reordering", (set(fields(first_rtt_of(sniffer))), tcp_info(client)["reordering"]), ({ECT0}, 3))


def test_pure_acks_stay():
    """The pure ACKs of a receiver stay ECT during its start."""
    flow = start()
    for _ in range(5):
        flow.send(payload=bytes(1000), ecn=ECT0)
        ack = flow.read(0.1)
        expect("ACK", (len(ack.payload), ack.ecn), (0, ECT0))
    expect("low_priority_sent", flow.counters()["low_priority_sent"], 0)


# ---- End of the start -----------------------------------------------------------------

def end_of(ns):
    """Return a namespace's counters of ended starts, by reason."""
    counters = ns.counters("ldcp")
    return tuple(counters["start_" + how] for how in ("full", "lost", "marked"))


def test_full():
    """When all of IW is acknowledged, the stage is stable, with cw = IW, which then grows."""
    flow = start().busy()
    flow.got()
    for number in range(9):
        flow.ack(1)
        cw, line = flow.traced()[-1]
        expect(f"ACK {number}", (cw, line["stage"]), (10.0, "start"))
        flow.got()
    expect("in flight", flow.high - flow.acked, 10 * MSS)
    flow.ack(1)
    cw, line = flow.traced()[-1]
    expect("stage, ends, reordering", (line["stage"], end_of(flow.ns), tcp_info(flow.sock)["reordering"]),
           ("stable", (1, 0, 0), 3))
    expect_in("cw", cw, 10.0, 10.025)
    flow.got()
    flow.ack(1)
    expect_in("cw after the next ACK", flow.cw(), cw + 0.02, cw + 0.03)


def test_short_message_stays():
    """With less data than IW the start continues, without Not-ECT, until IW is acknowledged."""
    flow = start()
    for _ in range(3):
        sent(flow, 3)
        flow.ack(3)
        info = tcp_info(flow.sock)
        expect("stage, cwnd, reordering", (stage(flow), info["cwnd"], info["reordering"]), ("start", 10, 3))
    expect("low_priority_sent", flow.counters()["low_priority_sent"], 2)
    sent(flow, 3)
    flow.ack(3)
    expect("stage, ends", (stage(flow), end_of(flow.ns)), ("stable", (1, 0, 0)))


def test_marked():
    """A mark on the tail, the only packet that can have one, ends the start."""
    flow = start()
    sent(flow, 5)
    flow.ack(4)
    flow.traced()
    flow.ack(1, True)
    cw, line = flow.traced()[-1]
    # Five segments were in flight.
    expect("stage, cw, ends, reordering", (line["stage"], cw, end_of(flow.ns), tcp_info(flow.sock)["reordering"]),
           ("stable", 4.5, (0, 0, 1), 3))
    flow = start().busy()
    flow.got()
    flow.ack(1)
    flow.got()
    flow.ack(2, True)
    expect("cw after a mark with IW in flight", flow.cw(), 9.0)


def test_late_handshake():
    """A delayed handshake makes IW far too large: at the first mark cw becomes the packets in flight."""
    flow = late_answer(10000, 0.5)
    found = tcp_info(flow.sock)["cwnd"], flow.sock.send(bytes(60 * MSS)), len(flow.got())
    expect("IW, bytes sent to the socket, segments", found, (131072, 60 * MSS, 65535 // MSS))
    flow.ack(4)
    flow.got()
    flow.ack(2, True)
    expect_in("cw", flow.cw(), 40, 56)


def lossy(lost, want_cw, message=20, iw=20, rtt_s=1e-9 * T_NS, within=None, twice=0, **how):
    """Send a message that loses packets in the first RTT: no RTO, loss probe or needless retransmission happens."""
    # cw becomes the number of packets that arrived in order.
    flow = start(iw, **how)
    size = flow.MSS = pair_mss(flow.version)
    if not flow.timestamps:
        size += 12
    # The memory of a packet in the send buffer depends on the kernel's configuration.
    flow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * message * size)
    expect("bytes queued", flow.sock.send(bytes(message * size)), message * size)
    what = f"lost {sorted(lost)} of {message}"
    sent_segs = flow.receive(message * size, once([flow.start + size * number for number in lost]), rtt_s=rtt_s)
    expect(f"RTOs, {what}", flow.ns.snmp("TcpExtTCPTimeouts"), 0)
    expect_in(f"segments, {what}", len(sent_segs), message + len(lost) + (twice if virtual_time() else 0),
              message + len(lost) + twice)
    expect(f"ECN fields of retransmissions, {what}", set(fields(seg for _, seg in sent_segs[-len(lost):])), {ECT0})
    expect(f"ends, {what}", end_of(flow.ns), (0, 1, 0))
    first = next(cw for cw, line in flow.traced() if line["stage"] == "stable")
    expect_in(f"cw, {what}", first, want_cw, want_cw + 0.3 * (message - len(lost)) / want_cw)
    if virtual_time():
        expect_in(f"round trips, {what}", sent_segs[-1][0] / rtt_s, 0, within)
    expect(f"congestion control, {what}", flow.cc(), "ldcp")
    return flow


def once(numbers=None):
    """Return a function that returns whether a segment is lost: the first segment of each (given) sequence number."""
    seen = set()

    def is_lost(seg):
        again = seg.seq in seen
        seen.add(seg.seq)
        return not again and (numbers is None or seg.seq in numbers)

    return is_lost


MIDDLE, END = {8}, set(range(10, 19))
NO_STAMPS = {"timestamps": False}


# Each tuple has the lost packets of a message, the expected cw, and the maximum number of round trips. cw becomes the
# number of packets before the first lost packet, at least one. If only the tail arrives, its ACK shows the loss, and
# the retransmission starts with one segment. If a loss is detected before later packets leave, these packets do not
# count as in flight for long.
@cases(loss_in_the_middle=((MIDDLE, 8, 1.1), (MIDDLE, 8, 1.1, {"version": 6}), ({5, 6, 7}, 5, 2.1)),
       loss_of_the_first=(({0}, 1, 1.1),),
       loss_of_all_but_the_tail=((set(range(19)), 1, 20), (set(range(4)), 1, 8, {"message": 5})),
       loss_of_all_but_the_ends=((set(range(1, 19)), 1, 20), (END, 10, 3)),
       loss_of_every_second=((set(range(1, 19, 2)), 1, 12),),
       loss_without_timestamps=((MIDDLE, 8, 1.1, NO_STAMPS), (END, 10, 3, NO_STAMPS)),
       loss_behind_what_came=(({3} | set(range(8, 19)), 3, 8),))
def losses(*messages):
    for lost, cw, within, *how in messages:
        lossy(lost, cw, within=within, **(how[0] if how else {}))


def test_everything_lost():
    """The tail is lost as well: TCP's tail loss probe shows the loss."""
    flow = start(patient=False)
    flow.sock.send(bytes(10 * MSS))
    flow.receive(10 * MSS, once())
    expect("congestion control, ends", (flow.cc(), end_of(flow.ns)[1]), ("ldcp", 1))


def test_loss_of_a_longer_message():
    """The message is longer than IW: the flow continues in the stable stage, and all data arrive."""
    # RACK assumes that new segments and retransmissions of the same microsecond were sent in order.
    flow = lossy({4, 5}, 4, message=60, iw=20, within=40, twice=1)
    expect("losses in the stable stage", flow.counters()["losses"], 0)


def test_without_sack():
    """Without SACK one duplicate ACK shows a loss, and the message arrives without an RTO."""
    flow = start(20, sack=False)
    flow.sock.send(bytes(20 * MSS))
    flow.receive(20 * MSS, once([flow.start + 8 * MSS]))
    expect("RTOs, ends", (flow.ns.snmp("TcpExtTCPTimeouts"), end_of(flow.ns)), (0, (0, 1, 0)))


def test_late_packet():
    """A packet was late and not lost: cw returns to IW."""
    flow = start()
    flow.sock.send(bytes(10 * MSS))
    segments, secr = flow.got(), flow.tsecr
    time.sleep(0.01)
    flow.send(flow.take_in(segments[1]))
    expect("ends", end_of(flow.ns), (0, 1, 0))
    flow.got(0.001)
    flow.tsecr = secr
    flow.take_in(segments[0])
    flow.send()
    expect_in("cw", flow.cw(), 10, 10.3)


# ---- Two kernels ------------------------------------------------------------------

class Path:
    """Hosts c and s with a switch r between them, whose port to s has the rate PORT_MBPS."""

    def __init__(self, version, marking, **ldcp):
        self.version = version
        self.c, self.r, self.s = (Netns(ldcp=ldcp) for _ in range(3))
        for name in "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding":
            self.r.sysctl(name, 1)
        net, bits = ("10.0.%d.%d", 24) if version == 4 else ("fd00:%d::%d", 64)
        for number, host in enumerate((self.c, self.s)):
            host.ip(f"link add eth0 type veth peer name eth{number} netns {self.r.path}",
                    f"addr add {net % (number, 1)}/{bits} dev eth0", "link set eth0 up")
            # a router uses its link-local address for neighbour discovery
            self.r.ip(f"addr add fe80::{number + 1}/64 dev eth{number}",
                      f"addr add {net % (number, 2)}/{bits} dev eth{number}", f"link set eth{number} up")
            host.ip(f"route add default via {net % (number, 2)}")
            host.sysctl("net.ipv4.tcp_congestion_control", "ldcp")
        self.r.tc(f"qdisc add dev eth1 root hpcc rate {PORT_MBPS}mbit delay 100us marking ldcp {marking}",
                  "qdisc add dev eth0 root netem delay 100us")
        self.server = net % (1, 1)

    def connect(self):
        return meet(self.c.socket(self.version), self.s.listen(self.server))


def test_switch_drops_first():
    """A port with a queue beyond K drops Not-ECT packets only, which are retransmitted without an RTO."""
    for version in 4, 6:
        path, *ends = joined(Path(version, "kmin 30000 kmax 60000 knonect 20000", iw=40))
        timeouts = path.c.snmp("TcpExtTCPTimeouts")     # a SYN may have waited for neighbour discovery
        began = time.monotonic()
        transfer((*ends, pattern(40 * pair_mss(version))))
        took = time.monotonic() - began
        time.sleep(0.001)
        # In real time an ACK may arrive before all of IW has left, and the last ACK later.
        if not virtual_time():
            while not sum(end_of(path.c)) and time.monotonic() < began + 10:
                time.sleep(0.01)
            expect("ends", sum(end_of(path.c)), 1)
            continue
        expect("ends, RTOs", (end_of(path.c), path.c.snmp("TcpExtTCPTimeouts")), ((0, 1, 0), timeouts))
        lost = path.c.snmp("RetransSegs")
        expect_in("retransmissions", lost, 15, 30)
        expect("dropped", path.r.qdiscs("eth1")[0]["drops"], lost)
        # the time for the data after 13 packets in order, at first with one segment per round trip
        expect_in("time", took, 0.0004, 0.002)


def test_switch_takes_all():
    """A port with enough buffer drops nothing, and cw becomes IW."""
    path, client, server = joined(Path(4, "kmin 500000 kmax 600000 knonect 500000", iw=40))
    transfer((client, server, pattern(60 * MSS)))
    time.sleep(0.001)
    expect("ends, retransmissions, cwnd", (end_of(path.c), path.c.snmp("RetransSegs"), tcp_info(client)["cwnd"]),
           ((1, 0, 0), 0, 40))


def test_message_on_an_idle_path():
    """A message on an idle path takes one RTT and its serialisation time, and at most 20 % more."""
    need_virtual_time()
    pair = Pair(cc=("ldcp", "ldcp"), qdisc="hpcc rate 10gbit delay 20us marking ldcp", ldcp={"iw": 44})
    ends, size = pair.connect(), 44 * MSS
    began = time.monotonic()
    transfer((*ends, pattern(size)))
    took = time.monotonic() - began
    expect_in("time", took, 20e-6 + size * 8 / 1e10, 1.2 * (40e-6 + size * 8 / 1e10))


# ---- After a connection ------------------------------------------------------------

def test_next_connection():
    """The values that a start assumes for the path are not saved as metrics of the destination."""
    pair = Pair(cc=("ldcp", "ldcp"), delay="50us")
    listener = pair.listen()
    for size, step in itertools.product((0, 1000, 20000), (1, -1)):
        client, server = pair.connect(listener)
        if size:
            transfer((client, server, pattern(size)), (server, client, pattern(size)))
        for sock in (client, server)[::step]:
            sock.close()
            time.sleep(0.01)
        client, server = pair.connect(listener, cc="cubic")
        expect(f"reordering after {size} bytes, {'client' if step > 0 else 'server'} first",
               tcp_info(client)["reordering"], 3)
        client.close()
        server.close()
        time.sleep(0.01)


main(modules=["tcp_ldcp", "sch_hpcc"])
