#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""INT-MD as the carrier of requests: kmod/hpcc/carrier/int.c, qdisc/stamp/int.c."""

import itertools
import socket
import struct
import time

from lib import tshark
from lib.box import BoxPath
from lib.frameport import FramePort, ethernet, ip_packet, leave_unchanged
from lib.held import HeldRead
from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main
from lib.net import Netns, Pair
from lib.packet import ACK, CAP_PROBES, FORWARD, Segment, option, packet_socket
from lib.path import MBPS, carrier_path, falls_back, moved, set_links, take_carrier
from lib.peer import SCALE, SLOWER, Peer, qlen_code
from lib.routed import sysfs
from lib.tcp import pattern, set_cc, transfer

CAP_INT = 0x40
DSCP = 23
BPS = MBPS * 1000000
BACK = 1028
ONE = 1 << 30
NO_TS = (1 << 64) - 1
STAMP = f"hpcc rate {MBPS}mbit delay"
HOP = struct.Struct("!IHHIQI")


def stack(hops=(), left=5, bitmap=0xd500, words=6, version=2, flags=0, length=None, domain=0, kind=1,
          dscp=0, behind=b""):
    """Return shim, header, and the metadata of hops in the order of the path."""
    body = b"".join(reversed(hops))
    return struct.pack("!BBBBBBBBHHHH", kind << 4, 3 + len(body) // 4 if length is None else length,
                       0, dscp << 2, version << 4 | flags, 0, words, left, bitmap, domain, 0, 0) + body + behind


def hop(node, port=1, ts=1000, qlen=0, util=0):
    return HOP.pack(node, 0xffff, port, qlen, ts, util)


class Switched(Peer):
    """A peer whose segments have passed switches. The kernel has acknowledged all of its data."""

    def int(self, behind, opts=option(FORWARD, (), SCALE), back=BACK, dscp=DSCP, **how):
        """Send a segment with INT, with the metadata of hops."""
        self.raw(ACK, self.seq - back, self.acked, self.stamp() + opts, behind, ecn=dscp << 2, **how)


GOOD = hop(1, util=ONE // 2), hop(2, qlen=25000, util=ONE)


def receiver(version=4, of=Switched, **sysctls):
    """Return a peer whose kernel agreed to INT and knows two links; the second link counts cells of 5 bytes."""
    return take_carrier(of(version=version, **sysctls), CAP_INT, (1, 1, BPS), (2, 1, BPS, 5), caps=CAP_PROBES)


def test_stacks_in():
    """A receiver reads a stack as records, or ignores and counts it. The socket gets no bytes of stacks."""
    # Bytes that are no stack, or contain a wrong length, are old data to TCP, and TCP answers them.
    cases = {
        "int_received": (
            stack(), stack(GOOD), stack(GOOD, left=0), stack(GOOD, dscp=46),        # in stack() no hop wrote
            stack((hop(1, ts=NO_TS), hop(2, qlen=25000, ts=NO_TS)))),
        "old data": (
            stack(GOOD, length=9),                              # more data follow
            stack(GOOD, kind=2), stack(GOOD, version=1), stack(GOOD, domain=1), stack(GOOD, length=16),
            stack(GOOD, length=255), stack(GOOD, length=2), stack(GOOD, words=5), stack(GOOD, words=0),
            stack(GOOD, bitmap=0xd700), stack(GOOD, behind=b"data"), stack()[:15], b"x", bytes(BACK - 1)),
        "int_ignored": (
            stack(GOOD, flags=4), stack(GOOD, flags=2), stack(GOOD, flags=8),
            stack((bytes(20),), bitmap=0xd400, words=5), stack((hop(1), hop(0xffffffff))),
            stack((hop(1), hop(2, port=0xffff))), stack((hop(1), hop(2, util=ONE + 1))), stack([hop(1)] * 13)),
        "int_unknown_link": (stack((hop(1), hop(3))), stack((hop(1), hop(1 << 24 | 2))))}
    for version in 4, 6:
        peer = receiver(version)
        peer.send(b"", b"data that came before" * 100)
        for counter, behind, dscp in [(counter, behind, dscp) for counter, stacks in cases.items()
                                      for behind in stacks for dscp in (DSCP, 0)]:
            peer.read_all()
            before, dup = peer.ns.counters(), peer.ns.snmp("TcpExtTCPDSACKOldSent")
            peer.int(behind, dscp=dscp)
            old = counter == "old data"
            want = "int_ignored" if old else counter
            expect(f"counters after {behind.hex()}", moved(peer.ns, before, "int_"), {want: 1})
            expect(f"DSACKs for {behind.hex()}", peer.ns.snmp("TcpExtTCPDSACKOldSent"), dup + old)
            if counter != "int_received" or len(behind) == 16:
                expect("echo", peer.echoes(0.02), [])
                continue
            echo, = peer.echoes()
            expect("hops, queue", ([r["hop"] for r in echo.records], echo.records[1]["qlen"]),
                   ([1, 2], qlen_code((1000000 >> SLOWER) // 128)))
        peer.send(b"", b"data that come behind")
        got = b""
        while len(got) < 21 * 101:
            got += peer.sock.recv(10000)
        expect("data", got, b"data that came before" * 100 + b"data that come behind")
        expect("checksums", peer.ns.snmp("InCsumErrors"), 0)


def test_not_taken():
    """Bytes that TCP would not discard as old are data and not INT. TCP discards segments outside the window."""
    peer, whole = receiver(), stack(GOOD)
    before = peer.ns.counters()
    peer.int(whole, back=0)                             # in sequence: data
    peer.seq += len(whole)
    expect("data", peer.sock.recv(1000), whole)
    peer.send(b"", bytes(3000))
    expect("data", len(peer.sock.recv(4000)), 3000)
    for how in {"back": BACK + (1 << 28)}, {"back": BACK - 3000}, {"back": BACK, "opts": b""}, {"bad_csum": True}:
        peer.int(whole, **how)
    request = peer.stamp() + option(FORWARD, (), SCALE)
    peer.raw(ACK, peer.seq - BACK, peer.acked - (1 << 30), request, whole, ecn=DSCP << 2)
    counters = peer.ns.counters() - before
    expect("ignored", (counters["window_ignored"] > 0, counters["checksum_ignored"]), (True, 1))
    set_cc(peer.sock, "reno")
    peer.int(whole)
    expect("INT", moved(peer.ns, before, "int_"), {})
    peer.send(b"", b"end")
    peer.sock.settimeout(1)
    expect("data", peer.sock.recv(1000), b"end")


def test_late_window():
    """A probe that other segments have overtaken does not change the window, which the newest segment determines."""
    def sent(wait_s=0.02):
        return [seg.payload for seg in peer.read_all(wait_s) if len(seg.payload) > 1]

    for version in 4, 6:
        peer = receiver(version)
        peer.send(b"", bytes(1000))
        stamp = peer.tsval
        peer.tsval -= 1                                 # both segments are of the same clock tick
        peer.window = 0
        peer.int(stack(GOOD), back=BACK + 1000)
        expect("timestamp, int_received", (peer.tsval, peer.ns.counters()["int_received"]), (stamp, 1))
        peer.read_all()
        peer.sock.send(b"x" * 700)
        expect("data", sent(), [b"x" * 700])
        # a probe does not open the window; a separate ACK does
        peer.acked += 700
        peer.window = 0
        peer.send()
        peer.sock.send(b"y" * 300)
        expect("data", sent(), [])
        peer.window = 100
        peer.int(stack(GOOD))
        expect("data", sent(), [])
        peer.send()
        expect("data", sent(0.1), [b"y" * 300])


def test_behind_the_backlog():
    """If a probe is behind data in a socket's backlog, TCP does not answer the probe as an old segment."""
    for version in 4, 6:
        peer = receiver(version)
        peer.send(b"", bytes(1000))
        peer.read_all(0.1)
        owner = HeldRead(peer.sock)
        known = peer.seq
        for _ in range(4):
            peer.send(b"", bytes(1448))
        for _ in range(3):
            peer.int(stack(GOOD), back=BACK + peer.seq - known)
        peer.read_all()
        got = owner.release()
        acks = [seg.ack for seg in peer.read_all(0.1)]
        expect("INT, last ACK", (peer.ns.counters()["int_received"], acks[-1]), (3, peer.seq))
        expect_in(f"equal ACKs of {acks}", max(map(acks.count, acks)), 1, 1)
        expect("data", got + len(peer.sock.recv(10000)), 1000 + 4 * 1448)


def test_window_clamp():
    """INT is read also if an application sets the largest window clamp."""
    for clamp in 1 << 30, (1 << 31) - 1:
        peer = receiver()
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, clamp)
        peer.send(b"", bytes(5000))
        for back in BACK, BACK + 4000:
            before = peer.ns.counters()
            peer.int(stack(GOOD), back=back)
            expect(f"{clamp}, {back}", moved(peer.ns, before, "int_"), {"int_received": 1})


class Joined(Switched):
    """A peer whose segments arrive through a device that merges them (GRO)."""

    FLAGS = Switched.FLAGS | 0x10                       # IFF_NAPI

    def __init__(self, **how):
        super().__init__(**how)
        sysfs(self.ns, "tun0/gro_flush_timeout", 1000000)


def test_joined():
    """GRO merges probes whose numbers differ by the length of their stacks: they count as one probe, not as data."""
    if not virtual_time():
        print("# SKIP GRO is sure to merge them only if the clock stands still")
        return
    whole = stack(GOOD)
    for version, nr in itertools.product((4, 6), (2, 3, 16)):
        peer = receiver(version, of=Joined)
        peer.send(b"", b"data")
        time.sleep(0.01)
        peer.read_all()
        before, dup = peer.ns.counters(), peer.ns.snmp("TcpExtTCPDSACKOldSent")
        tick = peer.tsval
        for i in range(nr):
            peer.tsval = tick
            peer.int(whole, back=BACK + (nr - i) * len(whole))
        time.sleep(0.01)
        found = moved(peer.ns, before, "int_"), [[r["hop"] for r in echo.records] for echo in peer.echoes()]
        expect(f"counters, echoes of {nr} merged probes", found, ({"int_received": 1}, [[1, 2]]))
        expect("DSACKs", peer.ns.snmp("TcpExtTCPDSACKOldSent"), dup)
        peer.send(b"", b"end")
        time.sleep(0.01)
        expect("data", peer.sock.recv(1000), b"dataend")


def test_without_name():
    """A port with identify off writes no metadata: there are no partial records, and the TCP option replaces INT."""
    path = carrier_path("int")
    path.change(1, "hpcc identify off")
    falls_back(path, "int", "ignored")
    expect_in("off", path.port(1)["hpcc"]["unstamped"]["off"], 1, 1 << 30)


def bleached(packet):
    head = bytearray(packet.head)
    if packet.version == 4:
        head[15] &= 3
    else:
        head[14:16] = struct.pack("!H", struct.unpack_from("!H", head, 14)[0] & 0xf03f)
    packet.head = bytes(head)
    return [packet]


def stripped(packet):
    packet.each(lambda opt: b"\1" * len(opt))
    return bleached(packet)


def garbled(packet):
    """Replace INT with as many other bytes as its length field can express."""
    packet.payload = packet.payload[:1] + b"\xff" * 1023
    return [packet]


def test_middleboxes():
    """A middlebox changes INT: the data arrive, and if no readable INT arrives, the TCP option replaces INT."""
    for what, version, becomes, taken in (
            ("dropped", 4, lambda packet: [], False), ("sent twice", 4, lambda packet: [packet, packet], True),
            ("bleached", 4, bleached, True), ("bleached", 6, bleached, True),
            ("stripped", 4, stripped, False), ("stripped", 6, stripped, False), ("garbled", 6, garbled, False)):
        def change(packet, becomes=becomes):
            marked = (packet.head[15] if packet.version == 4 else
                      struct.unpack_from("!H", packet.head, 14)[0] >> 4 & 0xff) >> 2 == DSCP
            return becomes(packet) if marked else [packet]
        path = BoxPath(version, change=change, carrier=2)
        path.change(1, f"{STAMP} 20us node 1 port 2 stamp tcp,int")
        for ns in path.hosts:
            set_links(ns, (1, 2, BPS))
        client, server = path.connect()
        for i in range(6):
            transfer((client, server, pattern(200000, i)), (server, client, pattern(20000, i)))
        what = f"IPv{version} {what}"
        a, b = path.a.counters(), path.b.counters()
        expect(f"{what}: received, stopped", (b["int_received"] > 0, a["int_stopped"]), (taken, int(not taken)))
        expect_in(f"{what}: sent", a["int_sent"], 1, 100000)
        expect(f"{what}: InCsumErrors, mode", (path.b.snmp("InCsumErrors"), path.a.flow()["mode"]), (0, "telemetry"))


def frame(behind, version=4, dscp=DSCP, padding=b"", mtu_fill=0, **how):
    """Return an Ethernet frame with TCP and the bytes behind its header."""
    return ethernet(ip_packet(version, dscp << 2 | 1, payload=behind + bytes(mtu_fill), **how), padding=padding)


def test_port_writes():
    """A port writes its metadata first, and adapts lengths and checksums; a wrong checksum stays wrong."""
    for version in 4, 6:
        port = FramePort("stamp int int_window 1us")
        at = 14 + (20 if version == 4 else 40) + 32
        for right in True, False:
            sent = frame(stack(left=9, dscp=46), version, right=right, padding=b"pad")
            first = port.through(sent)
            second = port.through(first)
            expect("lengths", (len(first), len(second)), (len(sent) + 24, len(sent) + 48))
            expect("words, hops left", [(data[at + 1], data[at + 7]) for data in (first, second)],
                   [(9, 8), (15, 7)])
            node, into, out, qlen, ts, util = HOP.unpack_from(first, at + 16)
            expect("hop", (node, into, out, qlen), (5, 0xffff, 9, 0))
            expect_in("utilization", util, 0, ONE)
            expect("metadata of the first hop", second[at + 40:at + 64], first[at + 16:at + 40])
            later, busy = HOP.unpack_from(second, at + 16), (len(first) + 24) * 8
            expect_in("time", later[4] - ts, busy, 10 ** 9)
            # the time that the link spent on the first frame, with its metadata, as a share of the time between both
            share = busy * ONE // (later[4] - ts)
            expect_in("utilization", later[5], share - ONE // 10 ** 6 - 2, share + ONE // 10 ** 6 + 2)
            for data in first, second:
                seg = Segment(data[14:-3])
                expect("checksums, padding", (seg.csum_ok, seg.ip_csum_ok, data[-3:]), (right, True, b"pad"))
                for low, high in (-32, -16), (-14, 0), (2, 7), (8, 16):
                    expect(f"bytes {low} to {high} of INT", data[at + low:at + high], sent[at + low:at + high])
        expect("stamped", port.stats()["stamped"], 4)


def test_utilization_outlasts_changes():
    """A change does not restart the utilization window unless it changes the port's number or B."""
    port = FramePort("stamp int int_window 1ms limit 1mb", f"rate {MBPS // 10}mbit")
    data, at = frame(b"", mtu_fill=1400), 14 + 52 + 16

    def busy():
        for one in (data,) * 40 + (frame(stack()),):
            port.send(one)
        while len(got := port.recv(data[:12])) >= 1000:
            pass
        return HOP.unpack_from(got, at)[5] / ONE

    busy()
    for change in ("tc qdisc change dev eth0 root hpcc limit 2mb", "ip link set eth0 mtu 1600", "ip link set eth0 up",
                   f"tc qdisc change dev eth0 root hpcc rate {MBPS // 5}mbit"):
        expect_in("utilization", busy(), 0.1, 1)
        # The utilization of the last whole window stays valid for 1 ms.
        port.pair.c.run(*change.split())
        util = HOP.unpack_from(port.through(frame(stack())), at)[5]
        expect(f"{change}: utilization is known", util > 0, "rate" not in change)


def test_port_other_instructions():
    """A requested field that the port cannot fill is all ones."""
    port = FramePort("stamp int")
    got = port.through(frame(stack(bitmap=0xa0c1, words=5)))[14 + 52:]
    expect("hop", (got[16:20], got[20:]), (b"\0\0\0\x05", b"\xff" * 16))


def full_port(what, sent, flag, at, reason):
    """A port that writes no metadata sets a flag, and changes only the checksum."""
    port = FramePort(f"stamp int{what}")
    got = port.through(sent)
    expect(f"flag{what}", (got[at:at + 4], got[at + 4], got[at + 5:]), (sent[at:at + 4], 0x20 | flag, sent[at + 5:]))
    expect("checksum, stamped", (Segment(got[14:]).csum_ok, port.stats()["stamped"]), (True, 0))
    expect(reason, port.stats()["unstamped"][reason] > 0, True)
    if reason == "full":
        expect(reason, port.stats()["unstamped"][reason], 1)


def test_port_leaves():
    """A packet that the port must not write to leaves unchanged, and is counted by reason."""
    cases = (
        *(("stamp int", frame(stack(**bad)), "no_option") for bad in ({"version": 1}, {"kind": 2}, {"domain": 7})),
        *(("stamp int", frame(stack(**bad)), "malformed") for bad in
          ({"length": 2}, {"length": 4}, {"words": 5}, {"words": 0})),
        *(("stamp int", sent, "malformed") for sent in (frame(stack()[:15]), frame(b""), frame(stack())[:-1])),
        ("stamp int", frame(stack(), dscp=24), "off"),
        ("stamp int int_dscp 24", frame(stack()), "off"),
        ("stamp tcp", frame(stack()), "no_option"),
        ("nostamp", frame(stack()), "off"))
    leave_unchanged(cases)
    # no hop is left; the MTU is too small; the length exceeds the shim's field
    for behind, fill, flag in (stack(left=0), 0, 4), (stack(), 1500 - 52 - 16 - 23, 2), (stack([hop(1)] * 42), 0, 4):
        for version, head in (4, 20), (6, 40):
            sent = frame(behind, version, mtu_fill=fill and fill - (head - 20))
            full_port("", sent, flag, 14 + head + 32, "full")
    # Even if the MTU allows more, a packet does not become longer than its header can state.
    ns = Netns()
    ns.tc(f"qdisc add dev lo root {STAMP} 20us limit 1mb node 5 port 9 stamp int")
    sock = packet_socket(ns, "lo")
    sock.settimeout(2)
    for length, grown in (65511, 24), (65512, 0):
        sent = frame(stack(), mtu_fill=length - 52 - 16)
        sock.send(sent)
        while True:
            got, how = sock.recvfrom(70000)
            if how[2] != socket.PACKET_OUTGOING and got[:12] == sent[:12]:
                break
        expect("length, in the header", (len(got) - 14, struct.unpack_from("!H", got, 16)[0]), (length + grown,) * 2)
        expect("flags, checksum", (got[14 + 52 + 4], Segment(got[14:]).csum_ok), (0x20 if grown else 0x22, True))
    # A port with identify off writes no metadata.
    for behind, flag in (stack(), 2), (stack(left=0), 4):
        full_port(" identify off", frame(behind), flag, 14 + 20 + 32, "off")
    fits = frame(stack(), mtu_fill=1500 - 52 - 16 - 24)
    expect("length of a packet that grows to the MTU", len(FramePort("stamp int").through(fits)), 1514)


def test_port_of_a_vrf():
    """A VRF has no link, so its MTU does not limit the length of packets."""
    for length in 1000, 1490:
        pair = Pair()
        pair.c.ip("link add vrf0 type vrf table 10", "link set vrf0 up", "link set eth0 master vrf0")
        pair.c.tc("qdisc add dev vrf0 root hpcc stamp int")
        ends = packet_socket(pair.c, "vrf0"), packet_socket(pair.s, "eth0")
        ends[1].settimeout(2)
        ends[0].send(frame(stack(), mtu_fill=length - 52 - 16))
        while (got := ends[1].recv(4096))[23:24] != b"\x06":
            pass
        expect(f"packet of {length} bytes", got[34:], frame(stack(flags=2), mtu_fill=length - 52 - 16)[34:])


def test_captures():
    """Each stack in captures/int.pcap of unit/test_captures.c is as expected; the dissector reads each field."""
    hops = hop(1, 2, util=ONE // 2), hop(2, 1, 3000, 12500, ONE)
    want = [stack(hops[:0], 2), stack(hops[:1], 1), stack(hops, 0), stack(hops, 0, flags=4)]
    fields = ["tcp.payload", "tcp.checksum.status", "ipv6.tclass.dscp", "intmd.left", "intmd.exceeded", "intmd.mtu",
              "intmd.node_id", "intmd.egress_port", "intmd.queue_id", "intmd.qlen", "intmd.egress_ts",
              "intmd.utilization", "intmd.malformed"]
    hop_fields = [["1", "2"], ["2", "1"], ["0", "0"], ["0", "12500"], ["1000", "3000"], ["0.5", "1"]]
    packets = [list(packet.values()) for packet in tshark.capture("int", fields)]
    expect("packets", packets,
           [[[one.hex()], ["1"], [str(DSCP)], [str(max(2 - nr, 0))], [str(int(nr == 3))], ["0"],
             *(field[:nr][::-1] for field in hop_fields), []] for nr, one in enumerate(want)])


if __name__ == "__main__":
    main(modules=["sch_hpcc"])
