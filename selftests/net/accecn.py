#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The AccECN option of TCP (Linux 6.18 and later) and our option share the space of the TCP header: AccECN's option leaves
room for one record, so some segments leave without it. On older kernels the tests check that nothing changes: all
segments have room for three records.
"""

import os
import struct
import time

from lib.kernel import release
from lib.ktap import cases, expect, expect_in, main, need_virtual_time
from lib.packet import ACK, CWR, ECE, ECHO, FORWARD, SYN, Sniffer, data_segments, option, record, sane_segments
from lib.path import Path
from lib.peer import Peer
from lib.star import PACKET, percentile
from lib.tcp import pattern, transfer

ACCECN1, SACK, MSS = 174, 5, 1000
ECT1, ECT0, CE = 1, 2, 3
AE = 0x100


def negotiate(*hosts):
    """Let hosts negotiate AccECN. Return whether this kernel can."""
    try:
        for ns in hosts:
            ns.sysctl("net.ipv4.tcp_ecn", 3)
    except OSError:
        expect_in("kernel without AccECN", release(), (6, 1), (6, 17))
        for ns in hosts:
            ns.sysctl("net.ipv4.tcp_ecn", 1)
        return False
    return True


def ace(seg):
    """Return the counter of CE packets in the flags of a segment."""
    return (seg.packet[seg.at + 12] & 1) << 2 | bool(seg.flags & CWR) << 1 | bool(seg.flags & ECE)


def counters(seg):
    """Return the bytes of (ECT(1), CE, ECT(0)) in the AccECN option of a segment, or None."""
    raw = seg.option(ACCECN1)
    return raw and tuple(int.from_bytes(raw[at:at + 3], "big") for at in range(2, len(raw), 3))


class Accurate(Peer):
    """A peer that connects to a listener of the kernel, sends data, and reads the ACKs. The handshake takes rtt_s, so that all
    ACKs of a test belong to one RTT.
    """

    def __init__(self, rtt_s=0.7, **how):
        super().__init__(**how)
        self.can = negotiate(self.ns)
        self.listen()
        # ACE and the option of a SYN are 111 and none; the ACK of a SYN-ACK that was Not-ECT has ACE 010.
        synack = self.start_accept(flags=SYN | CWR | ECE | (AE if self.can else 0))
        expect("ACE, option of the SYN-ACK", (ace(synack), bool(synack.option(ACCECN1))), (2 if self.can else 1, self.can))
        self.opt = struct.pack("!BB3s3s3sB", ACCECN1, 11, b"\0\0\1", bytes(3), b"\0\0\1", 1) if self.can else b""
        time.sleep(rtt_s)
        self.send(self.opt, flags=ACK | (CWR if self.can else 0))
        self.sock = self.listener.accept()[0]
        self.ts = 0

    def raw(self, flags, *what, **how):
        """Send a segment; flags may contain AE, which is in the byte of the header length."""
        packet = bytearray(self.packet(flags & 0xff, *what, **how))
        if flags & AE:
            at = 20 if self.version == 4 else 40
            packet[at + 12] |= 1
            total = struct.unpack_from("!H", packet, at + 16)[0] ^ 0xffff
            total += 0x100
            struct.pack_into("!H", packet, at + 16, ((total & 0xffff) + (total >> 16)) ^ 0xffff)
        os.write(self.fd, packet)

    def data(self, hops=3, ecn=ECT0, gap=0):
        """Send data with the records of some hops. Return the ACK."""
        self.ts += 100
        request = option(FORWARD, [record(hop, self.ts + hop, hop) for hop in range(1, hops + 1)], 5, hops) if hops else b""
        self.send(request, bytes(MSS), seq=self.seq + gap * MSS, ecn=ecn)
        if not gap:
            self.seq += MSS
        ack = self.read(0.5)
        expect("ACE bits without AccECN", self.can or ace(ack) in (0, 1), True)
        return ack

    def shares(self, *what, **how):
        """Send data. Return the ACK's (AccECN option, number of records); three records without AccECN."""
        ack = self.data(*what, **how)
        echo = ack.telemetry(ECHO)
        return bool(ack.option(ACCECN1)), len(echo.words) if echo else 0

    def turn(self):
        """Send data without telemetry, so that the next ACK may leave without the option."""
        expect("ACK without telemetry", self.shares(hops=0), (self.can, 0))

    def expect_shares(self, what, want, *args, **how):
        """Check the shares of an ACK; without AccECN there is always room for three records."""
        expect(what, self.shares(*args, **how), want if self.can else FREE)


# With the option there is room for one record, without it for three.
KEPT, LEFT_OUT, FREE = (True, 1), (False, 3), (False, 3)


@cases(turns_ipv4=(4,), turns_ipv6=(6,))
def turns(version):
    """The first three ACKs with telemetry have the option. Then every second one leaves without it."""
    peer = Accurate(version=version)
    for want in KEPT, KEPT, KEPT, LEFT_OUT, KEPT, LEFT_OUT, KEPT, LEFT_OUT:
        peer.expect_shares("ACK", want)
    # An ACK without telemetry has the option. So the next one needs none.
    for _ in range(3):
        peer.turn()
        peer.expect_shares("ACK after one without telemetry", LEFT_OUT)
    expect("no_room", peer.ns.counters()["no_room"], 0)


def test_three_in_each_rtt():
    """In each RTT three ACKs have the option, or all if there are fewer (RFC 9768, section 3.2.3.3)."""
    need_virtual_time()
    peer = Accurate(rtt_s=0.1)
    for _ in range(5):
        peer.expect_shares("ACK", KEPT)
        time.sleep(0.04)
    time.sleep(0.1)
    for want in KEPT, KEPT, KEPT, LEFT_OUT, KEPT, LEFT_OUT:
        peer.expect_shares("ACK of several in an RTT", want)


def test_enough_room():
    """If one record is enough, no ACK leaves without the option."""
    peer = Accurate()
    for _ in range(6):
        expect("ACK", peer.shares(hops=1), (peer.can, 1))


@cases(ce=(CE, 1), ect1=(ECT1, 0))
def changes(ecn, which):
    """A changed counter of CE or ECT(1) leaves at once, and in the next ACK."""
    peer = Accurate()
    if not peer.can:
        # Classic ECN has no option.
        expect("ACKs", [peer.shares(ecn=ecn) for _ in range(3)], [FREE] * 3)
        return
    for _ in range(4):
        peer.shares()
    before = counters(peer.data(hops=0))
    for _ in range(3):
        peer.turn()
        for _ in range(2):
            ack = peer.data(ecn=ecn)
            expect("counter", counters(ack)[which] - before[which], MSS)
            before = counters(ack)
        peer.expect_shares("ACK after the last change", KEPT)
        peer.expect_shares("second ACK after the last change", LEFT_OUT)
    expect("no_room", peer.ns.counters()["no_room"], 0)


def test_sparse():
    """If TCP writes few options (tcp_ecn_option=1), all of them leave: the counter of ECT(0) would not advance."""
    peer = Accurate()
    if peer.can:
        peer.ns.sysctl("net.ipv4.tcp_ecn_option", 1)
        peer.ns.sysctl("net.ipv4.tcp_ecn_option_beacon", 0)
    for _ in range(4):
        peer.data(hops=0)
    for ecn in (0, ECT0) * 3:
        for want in KEPT, KEPT, FREE:
            peer.expect_shares(f"ACK after a change to ECN field {ecn}", want, ecn=ecn)


@cases(beside_sack=(True, 0, 1), beside_sack_without_timestamps=(False, 1, 3))
def beside_sack(timestamps, beside, without):
    """Beside a SACK block, too, every second ACK leaves without the option. A segment may have no room for a record."""
    peer = Accurate(timestamps=timestamps)
    for _ in range(4 if timestamps else 0):
        peer.shares()
    peer.turn()
    wants = [(False, without), (True, beside), (False, without)]
    for gap, want in enumerate(wants if timestamps else wants[1:2] * 3 + wants, 1):
        ack = peer.data(gap=gap)
        echo = ack.telemetry(ECHO)
        expect("SACK", len(ack.option(SACK)), 10)
        expect("option, records", (bool(ack.option(ACCECN1)), len(echo.words) if echo else 0),
               want if peer.can else (False, without))
    expect("no_room", peer.ns.counters()["no_room"], int(peer.can and timestamps))


def test_duplicate():
    """An ACK with a D-SACK keeps the option: TCP uses such ACKs to detect that the path drops the option."""
    peer = Accurate()
    for _ in range(4):
        peer.shares()
    peer.turn()
    ack = peer.data(gap=-1)
    expect("SACK, option", (len(ack.option(SACK)), bool(ack.option(ACCECN1))), (10, peer.can))
    expect("echo", bool(ack.telemetry(ECHO)), not peer.can)


def left_out(segments, can, split):
    """Check the segments of one end; split: some are parts of one packet. Return how many left without the option."""
    if not can:
        expect("options of AccECN", [seg for seg in segments if counters(seg)], [])
        return 0
    expect("SYN or SYN-ACK, and the option of the first three segments after it",
           [bool(seg.flags & SYN) or bool(counters(seg)) for seg in segments[:4]], [True] * 4)
    without = [not counters(seg) for seg in segments[1:]]
    if not split:
        expect("two segments without the option", [1 for pair in zip(without, without[1:]) if all(pair)], [])
    for last, seg, then in zip(segments[1:], segments[2:], segments[3:]):
        if not last.flags & SYN and ace(last) != ace(seg):
            expect(f"option of {seg}, {then}", (bool(counters(seg)), bool(counters(then))), (True, True))
    return sum(without)


def room(seg):
    """Return the space for our option: the space beside other options of a segment."""
    return 40 - len(seg.options) + sum(len(opt.raw) for opt in seg.ours())


@cases(ipv4=(4, False), ipv6=(6, False), bursts=(4, True), marks=(4, False, " marking ldcp kmin 1000 kmax 8000"))
def connections(version, bursts, marks=""):
    """All segments of a connection are valid, and requests use the space that they have."""
    path = Path(version, sample=0)
    can = negotiate(*path.hosts)
    if not bursts:
        for ns, dev in zip(path.hosts, ("right", "left")):
            ns.ip(f"link set {dev} gso_max_segs 1")
    path.change(2, "hpcc rate 500mbit delay 20us" + marks)
    sniffers = Sniffer(path.a, "right"), Sniffer(path.b, "left")
    client, server = path.connect()
    # With marks only data pass the port: a mark of an ACK without data changes ACE, but not the counters of bytes.
    transfer((client, server, pattern(400000)), *[] if marks else [(server, client, pattern(400000, 1))])
    for sniffer, sock in zip(sniffers, (client, server)):
        segments = [seg for seg in sane_segments(sniffer) if seg.sport == sock.getsockname()[1]]
        count = left_out(segments, can, bursts)
        # On a path of several hops, requests and echoes need the space of the option.
        expect_in("segments without the option", count, 10 if can and not marks else 0, len(segments) // 2 if can else 0)
        requests = [seg for seg in data_segments(segments) if seg.telemetry(FORWARD)]
        expect_in("requests", len(requests), 0 if marks else 20, 10000)
        expect("space that neither AccECN nor a record used",
               [seg for seg in requests if room(seg) < 28 and not counters(seg) and not seg.option(SACK)], [])
    path.no_errors()
    expect("no_room", [ns.counters()["no_room"] for ns in path.hosts], [0, 0])


def figures(ecn):
    """Send on a path of five switches, the fourth of which has the slowest link. Return the time in s and the p99 queue in
    bytes, both after the first round trips.
    """
    path = Path(switches=5)
    if ecn == 1 or not negotiate(*path.hosts):
        for ns in path.hosts:
            ns.sysctl("net.ipv4.tcp_ecn", 1)
    path.change(4, "hpcc rate 500mbit delay 20us")
    client, server = path.connect()
    transfer((client, server, pattern(1000000)))
    before, began = path.port(4)["hpcc"], time.monotonic()
    transfer((client, server, pattern(16000000)))
    took, queue = time.monotonic() - began, percentile(before, path.port(4)["hpcc"], 0.99)
    print(f"# tcp_ecn {ecn}: {took * 1e3:.2f} ms, p99 queue {queue} bytes")
    expect("no_room", [ns.counters()["no_room"] for ns in path.hosts], [0, 0])
    return took, queue


def test_five_switches():
    """With AccECN a flow takes as long as without it, and the p99 queue is nearly empty with both."""
    need_virtual_time()
    (took, queue), (took_accurate, queue_accurate) = figures(1), figures(3)
    expect_in("time with AccECN, s", took_accurate, took * 0.98, took * 1.02)
    for what, nbytes in ("without", queue), ("with", queue_accurate):
        expect_in(f"p99 queue {what} AccECN, bytes", nbytes, 0, 4 * PACKET)


main(modules=["sch_hpcc"])
