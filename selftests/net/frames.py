#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Ethernet frames through a port with the qdisc "hpcc".

frames.py [--pcap FILE] TX RX GROUP [ARG...]   TX and RX are NAMESPACE:DEVICE

Sends the frames of a group out of TX through its qdisc, takes what arrives at
RX, and compares. Exit status 1 and a line for each difference. What a frame
has to become is worked out here, from the layout in Documentation/protocol.rst
and with checksums computed in full.
"""
import argparse
import array
import ctypes
import errno
import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA, PACKET_VNET_HDR = 263, 8, 15
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 32, 33, 35
PACKET_OUTGOING = 4
VLAN_VALID = 0x10
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
CLONE_NEWNET = 0x40000000

MAC = bytes.fromhex("020000000002020000000001")
NODE, PORT, OVERHEAD = 7, 2, 24
FORWARD, ECHO, IDENTIFY = 1, 2, 3
KIND = 253
PATIENCE_S = 2		# for a frame that does not come


# ---- frames ----

def csum(data):
    """Internet checksum."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def option(kind=KIND, opt_type=FORWARD, scale=0, hops=0, flags=0, slots=(),
           length=None):
    """A telemetry option; slots are 8 bytes each."""
    body = b"".join(slots)
    if length is None:
        length = 4 + len(body)
    return bytes([kind, length, opt_type << 5 | scale, hops << 4 | flags]) + body


def record(hop, qlen=0, tag=9):
    """A load record with a queue under 256 units."""
    return (hop << 60 | tag << 52 | 123 << 32 | 456 << 12 | qlen).to_bytes(8, "big")


FREE = bytes(8)
THREE = option(slots=[FREE] * 3)
TIMESTAMPS = bytes([1, 1, 8, 10]) + bytes(8)


def tcp(src, dst, options=THREE, payload=b"x" * 100, flags=0x10, doff=None,
        partial=False):
    """A TCP segment; partial: its checksum covers the pseudo-header only."""
    options += bytes(-len(options) % 4)
    if doff is None:
        doff = 5 + len(options) // 4
    head = struct.pack(">HHIIBBH", 1000, 2000, 1, 2, doff << 4, flags, 500)
    length = len(head) + 4 + len(options) + len(payload)
    pseudo = src + dst + struct.pack(">II", length, 6)
    seg = head + bytes(4) + options + payload
    check = ~csum(pseudo) & 0xffff if partial else csum(pseudo + seg)
    return head + struct.pack(">HH", check, 0) + options + payload


SRC4, DST4 = socket.inet_aton("192.0.2.1"), socket.inet_aton("192.0.2.2")
SRC6 = socket.inet_pton(socket.AF_INET6, "2001:db8::1")
DST6 = socket.inet_pton(socket.AF_INET6, "2001:db8::2")


def seg4(**kw):
    """A TCP segment to go into an IPv4 packet."""
    return tcp(SRC4, DST4, **kw)


def seg6(**kw):
    """A TCP segment to go into an IPv6 packet."""
    return tcp(SRC6, DST6, **kw)


def ip4(payload, options=b"", proto=6, frag=0x4000, ihl=None, total=None):
    """An IPv4 packet."""
    if ihl is None:
        ihl = 5 + len(options) // 4
    if total is None:
        total = 20 + len(options) + len(payload)
    head = struct.pack(">BBHHHBBH", 0x40 | ihl, 0, total, 7, frag, 64, proto, 0)
    check = csum(head + SRC4 + DST4 + options)
    return head[:10] + struct.pack(">H", check) + SRC4 + DST4 + options + payload


def ip6(payload, ext=(), proto=6, length=None):
    """An IPv6 packet; ext: (protocol number, bytes without next header)."""
    body, nexthdr = payload, proto
    for number, data in reversed(ext):
        body = bytes([nexthdr]) + data + body
        nexthdr = number
    if length is None:
        length = len(body)
    return struct.pack(">IHBB", 6 << 28, length, nexthdr, 64) + SRC6 + DST6 + body


def eth(packet, proto=None, tags=()):
    """An Ethernet frame; tags: (TPID, VLAN)."""
    if proto is None:
        proto = 0x0800 if packet[0] >> 4 == 4 else 0x86dd
    vlan = b"".join(struct.pack(">HH", tpid, vid) for tpid, vid in tags)
    return MAC + vlan + struct.pack(">H", proto) + packet


HOPOPTS = (0, bytes([0, 1, 4]) + bytes(4))
ROUTING = (43, bytes([0, 4, 0]) + bytes(4))
DSTOPTS = (60, bytes([1, 1, 12]) + bytes(12))
FRAGMENT6 = (44, struct.pack(">BHI", 0, 1, 99))
FRAGMENT6_LATER = (44, struct.pack(">BHI", 0, 8 << 3, 99))


# ---- what a switch makes of them ----

def tcp_offset(frame):
    """Offsets of the IP and the TCP header of a well-formed frame."""
    at = 14
    while frame[at - 2:at] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    if frame[at] >> 4 == 4:
        return at, at + (frame[at] & 15) * 4
    pos, nexthdr = at + 40, frame[at + 6]
    while nexthdr != 6:
        nexthdr, pos = frame[pos], pos + (frame[pos + 1] + 1) * 8
    return at, pos


def tcp_is_right(frame):
    """Is the TCP checksum right?"""
    at, pos = tcp_offset(frame)
    if frame[at] >> 4 == 4:
        end = at + int.from_bytes(frame[at + 2:at + 4], "big")
        pseudo = frame[at + 12:at + 20]
    else:
        end = at + 40 + int.from_bytes(frame[at + 4:at + 6], "big")
        pseudo = frame[at + 8:at + 40]
    return csum(pseudo + struct.pack(">II", end - pos, 6) + frame[pos:end]) == 0


def link_tag():
    """The 8 bits that name NODE and PORT."""
    return ((NODE << 16 ^ NODE >> 4 ^ PORT) * 0x9e3779b1 & 0xffffffff) >> 24


def float_decode(code):
    """Value of the queue's 12-bit float."""
    exp, mant = code >> 8, code & 0xff
    return (mant | 0x100) << exp - 1 if exp else mant


class Stamped:
    """The option of a frame, by its place in the frame that was sent."""

    def __init__(self, frame, opt, at):
        self.opt = frame[at:at + len(opt)]
        self.slots = [int.from_bytes(self.opt[i:i + 8], "big")
                      for i in range(4, len(opt), 8)]
        self.hops = self.opt[3] >> 4

    def load(self, slot=0):
        """hop, tag, ts, tx, qlen of a slot."""
        v = self.slots[slot]
        return (v >> 60, v >> 52 & 0xff, v >> 32 & 0xfffff, v >> 12 & 0xfffff,
                float_decode(v & 0xfff))

    def identity(self, slot=0):
        """hop, node, port, B of a slot."""
        v = self.slots[slot]
        return (v >> 60, v >> 40 & 0xfffff, v >> 24 & 0xffff,
                (v & 0x3fffff) * 1000 ** (1 + (v >> 22 & 3)))


# ---- sockets ----

def enter(namespace):
    """Make a network namespace the one of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", "rb") as ns:
        if libc.setns(ns.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


class Wire:
    """A transmitting and a receiving device."""

    def __init__(self, tx, rx):
        self.tx_ns, self.tx_dev = tx.split(":")
        rx_ns, rx_dev = rx.split(":")
        enter(rx_ns)
        self.rx = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                socket.htons(ETH_P_ALL))
        self.rx.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        self.rx.bind((rx_dev, ETH_P_ALL))
        enter(self.tx_ns)
        self.tx = self.open_tx()
        self.tx_gso = self.open_tx()
        self.tx_gso.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        self.pcap = []

    def open_tx(self):
        """A socket that sends out of the transmitting device."""
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
        sock.bind((self.tx_dev, 0))
        return sock

    def checksum_offload(self, on):
        """Who computes CHECKSUM_PARTIAL: the device, or software before it."""
        value = array.array("I", [ETHTOOL_STXCSUM, on])
        request = struct.pack("16sP", self.tx_dev.encode(),
                              value.buffer_info()[0]).ljust(40, b"\0")
        fcntl.ioctl(self.tx, SIOCETHTOOL, request)

    def send(self, frame):
        """Through the qdisc, out of the device."""
        try:
            self.tx.send(frame)
        except OSError as error:
            # The qdisc dropped it, which is for the receiver to notice.
            if error.errno not in (errno.ENOBUFS, errno.ENETDOWN):
                raise

    def send_gso(self, frame, gso_size):
        """As one packet that is to be split into TCP segments."""
        _, pos = tcp_offset(frame)
        head_len = pos + (frame[pos + 12] >> 4) * 4
        gso_type = (1 if frame[14] >> 4 == 4 else 4) if gso_size else 0
        head = struct.pack("=BBHHHH", 1, gso_type, head_len, gso_size, pos, 16)
        self.tx_gso.send(head + frame)

    def receive(self, patience_s=PATIENCE_S):
        """The next frame as (time in ns, bytes), or None."""
        while select.select([self.rx], [], [], patience_s)[0]:
            frame, aux, _, address = self.rx.recvmsg(1 << 17, 256)
            if address[2] == PACKET_OUTGOING:
                continue
            when = 0
            for level, kind, data in aux:
                if level == SOL_PACKET and kind == PACKET_AUXDATA:
                    status, tci, tpid = struct.unpack_from("=I12xHH", data)
                    if status & VLAN_VALID:
                        frame = (frame[:12] + struct.pack(">HH", tpid, tci) +
                                 frame[12:])
                elif level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                    sec, nsec = struct.unpack("=qq", data)
                    when = sec * 10 ** 9 + nsec
            self.pcap.append(frame)
            return when, frame
        return None

    def through(self, frame):
        """Send a frame and return what arrives."""
        self.send(frame)
        got = self.receive()
        return got and got[1]

    def stats(self):
        """The qdisc's own statistics."""
        out = subprocess.run(["tc", "-s", "-j", "qdisc", "show", "dev",
                              self.tx_dev], check=True,
                             capture_output=True).stdout
        return next(q["hpcc"] for q in json.loads(out) if q["kind"] == "hpcc")

    def write_pcap(self, path):
        """What arrived, for other judges."""
        with open(path, "wb") as file:
            file.write(struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
            for frame in self.pcap:
                file.write(struct.pack("=IIII", 0, 0, len(frame), len(frame)))
                file.write(frame)


WRONG = []


def expect(what, got, want):
    """Note a difference."""
    if got != want:
        WRONG.append(f"{what}: got {got}, wanted {want}")


def check_stamped(what, sent, got, opt, right=True):
    """What a stamped frame has in common with the one sent; its option."""
    if got is None:
        WRONG.append(f"{what}: lost")
        return None
    _, pos = tcp_offset(sent)
    at = sent.index(opt, pos + 20)
    expect(f"{what}: length", len(got), len(sent))
    for i, (a, b) in enumerate(zip(sent, got)):
        if a != b and i not in (pos + 16, pos + 17) and \
                not at + 3 <= i < at + len(opt):
            WRONG.append(f"{what}: byte {i} changed")
    expect(f"{what}: checksum is right", tcp_is_right(got), right)
    stamped = Stamped(got, opt, at)
    expect(f"{what}: hops", stamped.hops, (opt[3] >> 4) + 1)
    expect(f"{what}: flags", stamped.opt[3] & 15, opt[3] & 15)
    return stamped


# ---- groups ----

def untouched_cases():
    """(name, frame, reason it is counted under)."""
    full = eth(ip4(seg4()))
    head = full[:-100]
    yield "ARP", eth(bytes(28), 0x0806), "not_tcp"
    yield "802.3", eth(bytes(46), 46), "not_tcp"
    yield "UDP", eth(ip4(bytes(50), proto=17)), "not_tcp"
    yield "UDP6", eth(ip6(bytes(50), proto=17)), "not_tcp"
    yield "ESP6", eth(ip6(bytes(50), proto=50)), "not_tcp"
    yield "five tags", eth(ip4(seg4()), tags=[(0x8100, 5)] * 5), "not_tcp"
    yield "far TCP", eth(ip6(seg6(), ext=[(60, bytes([80]) + bytes(646))])), "not_tcp"
    yield "no option", eth(ip4(seg4(options=b""))), "no_option"
    yield "timestamps", eth(ip4(seg4(options=TIMESTAMPS))), "no_option"
    yield "other kind", eth(ip4(seg4(options=option(kind=254, slots=[FREE])))), "no_option"
    yield "behind EOL", eth(ip4(seg4(options=bytes(4) + THREE))), "no_option"
    yield "SYN", eth(ip4(seg4(flags=0x02))), "no_option"
    yield "echo", eth(ip4(seg4(options=option(opt_type=ECHO, slots=[FREE])))), "no_option"
    yield "reserved type", eth(ip4(seg4(options=option(opt_type=6, slots=[FREE])))), "no_option"
    yield "type 0", eth(ip4(seg4(options=option(opt_type=0, slots=[FREE])))), "malformed"
    yield "first fragment", eth(ip4(seg4(), frag=0x2000)), "fragment"
    yield "later fragment", eth(ip4(seg4(), frag=0x0010)), "fragment"
    yield "first fragment 6", eth(ip6(seg6(), ext=[FRAGMENT6])), "fragment"
    yield "later fragment 6", eth(ip6(seg6(), ext=[HOPOPTS, FRAGMENT6_LATER])), "fragment"
    yield "version 5", eth(b"\x55" + ip4(seg4())[1:], 0x0800), "malformed"
    yield "IHL 4", eth(ip4(seg4(), ihl=4)), "malformed"
    yield "IHL 15", eth(ip4(bytes(10), ihl=15)), "malformed"
    yield "total length under IHL", eth(ip4(seg4(), total=19)), "malformed"
    yield "total length 0", eth(ip4(seg4(), total=0)), "malformed"
    yield "total length beyond", eth(ip4(seg4(), total=500)), "malformed"
    yield "total length cuts TCP", eth(ip4(seg4(), total=39)), "malformed"
    yield "total length cuts options", eth(ip4(seg4(), total=50)), "malformed"
    yield "payload length beyond", eth(ip6(seg6(), length=500)), "malformed"
    yield "payload length 0", eth(ip6(seg6(), length=0)), "malformed"
    yield "header length beyond", eth(ip6(seg6(), ext=[(60, bytes([60, 1, 0]) + bytes(4))])), "malformed"
    yield "data offset 4", eth(ip4(seg4(doff=4))), "malformed"
    yield "data offset beyond", eth(ip4(seg4(payload=b"", doff=15))), "malformed"
    for length in (0, 1, 2, 3, 5, 11, 13, 27, 29, 44, 255):
        yield (f"option length {length}",
               eth(ip4(seg4(options=option(slots=[FREE] * 3, length=length)))),
               "malformed")
    yield "cut option", eth(ip4(seg4(options=bytes([1, 1, 1, KIND])))), "malformed"
    yield "15 hops", eth(ip4(seg4(options=option(hops=15, slots=[FREE])))), "full"
    for length in range(14, len(head)):
        yield f"frame cut at {length}", head[:length], "malformed"
        if length >= 34:
            cut = ip4(seg4(), total=length - 14)[:length - 14]
            yield f"packet cut at {length}", eth(cut), "malformed"


def all_untouched(wire, cases):
    """Frames that have to leave as they came, and be counted."""
    want = wire.stats()["unstamped"]
    for what, frame, reason in cases:
        want[reason] += 1
        got = wire.through(frame)
        expect(what, got and got.hex(), frame.hex())
    expect("counted", wire.stats()["unstamped"], want)


def group_untouched(wire):
    """What has no option to fill in, or is odd."""
    all_untouched(wire, untouched_cases())


def group_ignored(wire, reason):
    """What would be stamped, were it not for the qdisc's configuration."""
    all_untouched(wire, [(what, frame, reason)
                         for what, frame, _ in stamped_cases()])


def stamped_cases():
    """(name, frame, its option)."""
    sack = bytes([1, 1, 5, 10]) + bytes(8)
    one = option(slots=[FREE])
    two_tags = [(0x88a8, 9), (0x8100, 5)]
    yield "IPv4", eth(ip4(seg4())), THREE
    yield "IPv4 padded", eth(ip4(seg4(payload=b""))) + bytes(20), THREE
    yield "IPv4 options", eth(ip4(seg4(), options=bytes([1] * 12))), THREE
    yield "IPv6", eth(ip6(seg6())), THREE
    yield ("IPv6 headers", eth(ip6(seg6(), ext=[HOPOPTS, DSTOPTS, ROUTING, DSTOPTS])),
           THREE)
    yield "VLAN", eth(ip4(seg4()), tags=[(0x8100, 5)]), THREE
    yield "QinQ", eth(ip6(seg6()), tags=two_tags), THREE
    for nops in range(12):
        yield f"{nops} NOPs", eth(ip4(seg4(options=bytes([1] * nops) + THREE))), THREE
    yield "timestamps", eth(ip4(seg4(options=TIMESTAMPS + THREE))), THREE
    yield "SACK", eth(ip6(seg6(options=TIMESTAMPS + sack + one))), one
    yield "behind an echo", eth(ip4(seg4(options=option(opt_type=ECHO) + THREE))), THREE
    yield "odd payload", eth(ip4(seg4(payload=b"y" * 1399))), THREE
    prompt = option(flags=8, hops=3, scale=4, slots=[record(2), FREE])
    yield "later hop", eth(ip4(seg4(options=prompt))), prompt
    yield "later hop again", eth(ip4(seg4(options=prompt))), prompt


def group_stamped(wire):
    """Frames that get a record: where, which, and nothing else. What ts and tx begin
    with is the port's secret: what counts are differences, in each unit."""
    spent = 0
    stats = wire.stats()
    bps = stats["bandwidth"] * 8
    first = {}
    for what, frame, opt in stamped_cases():
        scale = opt[2] & 31
        before = time.monotonic_ns()
        got = check_stamped(what, frame, wire.through(frame), opt)
        after = time.monotonic_ns()
        if not got:
            continue
        slot = next(i for i in range(len(got.slots))
                    if opt[4 + 8 * i] >> 4 == 0)
        hop, tag, ts, tx, qlen = got.load(slot)
        expect(f"{what}: hop", hop, (opt[3] >> 4) + 1)
        expect(f"{what}: tag", tag, link_tag())
        expect(f"{what}: qlen", qlen, 0)
        ts_0, tx_0, spent_0, before_0, after_0 = \
            first.setdefault(scale, (ts, tx, spent, before, after))
        least, most = (before - after_0 >> scale) - 1, (after - before_0 >> scale) + 1
        if (ts - ts_0 - least) % 2 ** 20 > most - least:
            WRONG.append(f"{what}: ts grew by {ts - ts_0}, not by {least} to {most}")
        # The counter keeps fractions: it may be one short of the difference.
        ahead = (tx - tx_0 - ((spent - spent_0) * 8 * 10 ** 9 // bps >> scale)) % 2 ** 20
        if ahead > 1 and ahead != 2 ** 20 - 1:
            WRONG.append(f"{what}: tx {tx} is {ahead} ahead")
        spent += len(frame) + OVERHEAD
        for i, raw in enumerate(got.slots):
            if i != slot:
                expect(f"{what}: slot {i}", raw.to_bytes(8, "big"),
                       opt[4 + 8 * i:12 + 8 * i])
    now = wire.stats()
    count = len(list(stamped_cases()))
    expect("stamped", now["stamped"] - stats["stamped"], count)


def group_wrong_checksum(wire):
    """A checksum that was wrong has to stay wrong."""
    frame = bytearray(eth(ip4(seg4())))
    frame[-1] ^= 1
    check_stamped("wrong", bytes(frame), wire.through(bytes(frame)), THREE, False)


def group_slots(wire):
    """Identity, phase, no slot, slots taken."""
    opt = option(opt_type=IDENTIFY, hops=1, slots=[FREE])
    frame = eth(ip4(seg4(options=opt)))
    got = check_stamped("identify", frame, wire.through(frame), opt)
    bps = wire.stats()["bandwidth"] * 8
    expect("identity", got and got.identity(), (2, NODE, PORT, bps))
    before = wire.stats()
    opt = option(hops=2, flags=1, slots=[FREE] * 3)
    frame = eth(ip4(seg4(options=opt)))
    got = check_stamped("phase", frame, wire.through(frame), opt)
    expect("phase: slots", got and got.slots, [0, 0, 0])
    opt = option(hops=3)
    frame = eth(ip4(seg4(options=opt)))
    check_stamped("no slot", frame, wire.through(frame), opt)
    opt = option(hops=3, slots=[record(1, 0), record(2, 4), record(3, 9)])
    frame = eth(ip4(seg4(options=opt)))
    got = check_stamped("full", frame, wire.through(frame), opt)
    expect("full: slots", got and got.opt[4:], opt[4:])
    now = wire.stats()
    expect("phase counted", now["unstamped"]["phase"] - before["unstamped"]["phase"], 1)
    expect("full counted", now["unstamped"]["full"] - before["unstamped"]["full"], 2)


def receive_all(wire, count):
    """Up to count frames."""
    frames = []
    while len(frames) < count:
        got = wire.receive()
        if not got:
            WRONG.append(f"{len(frames)} of {count} arrived")
            break
        frames.append(got)
    return frames


def warm_up(wire):
    """The kernel switches timestamps on some time after a socket asks."""
    for _ in range(100):
        wire.send(eth(bytes(46), 46))
        got = wire.receive()
        if got and abs(got[0] - time.time_ns()) < 10 ** 8:
            time.sleep(0.01)
            return
        time.sleep(0.001)
    WRONG.append("no timestamps")


def group_backlog(wire):
    """While packets wait d(tx) = d(ts), and qlen is what waits behind."""
    warm_up(wire)
    count = 20
    opt = option(slots=[FREE, FREE])
    frame = eth(ip4(seg4(options=opt, payload=b"z" * 900)))
    wire_ns = (len(frame) + OVERHEAD) * 10 ** 9 // wire.stats()["bandwidth"]
    for _ in range(count):
        wire.send(frame)
    loads = []
    for _, got in receive_all(wire, count):
        loads.append(check_stamped("burst", frame, got, opt).load())
    for i in range(1, len(loads)):
        expect(f"{i}: d(ts)", (loads[i][2] - loads[i - 1][2]) % 2 ** 20, wire_ns)
        expect(f"{i}: d(tx)", (loads[i][3] - loads[i - 1][3]) % 2 ** 20, wire_ns)
        want = (count - 1 - i) * wire_ns
        if abs(loads[i][4] - want) > want / 256:
            WRONG.append(f"{i}: qlen {loads[i][4]}, wanted {want}")
    # The queue is longer than what the slots say: they stay.
    opt = option(hops=2, slots=[record(1, 200), record(2, 100)])
    frame = eth(ip4(seg4(options=opt, payload=b"z" * 900)))
    for _ in range(3):
        wire.send(frame)
    frames = receive_all(wire, 3)
    if len(frames) == 3:
        got = check_stamped("slots taken", frame, frames[1][1], opt)
        expect("slots taken", got.opt[4:], opt[4:])


def group_late(wire):
    """A parent that does not ask: packets start when something arrives, and
    what arrives is not behind those that were to start before."""
    opt = option(scale=4, slots=[FREE])
    frame = eth(ip4(seg4(options=opt, payload=b"l" * 934)))
    wire_ns = (len(frame) + OVERHEAD) * 10 ** 9 // wire.stats()["bandwidth"]
    for _ in range(5):
        wire.send(frame)
    time.sleep(0.0005)
    wire.send(frame)
    behind = []
    for _, got in receive_all(wire, 6):
        qlen = check_stamped("late", frame, got, opt).load()[4] << 4
        behind.append(round(qlen / wire_ns, 1))
    expect("packets behind", behind, [0, 3, 2, 1, 0, 0])


def group_partial(wire):
    """Checksums that are computed after us, of packets and of segments."""
    seg = dict(partial=True, payload=b"p" * 400)
    wire.checksum_offload(False)
    for what, frame in (("IPv4", eth(ip4(seg4(**seg)))), ("IPv6", eth(ip6(seg6(**seg))))):
        wire.send_gso(frame, 0)
        got = wire.receive()
        sent = eth(ip4(seg4(payload=b"p" * 400))) if what == "IPv4" else \
            eth(ip6(seg6(payload=b"p" * 400)))
        check_stamped(f"{what} software", sent, got and got[1], THREE)
    wire.checksum_offload(True)
    frame = eth(ip4(seg4(**seg)))
    wire.send_gso(frame, 0)
    got = wire.receive()
    _, pos = tcp_offset(frame)
    expect("offloaded: checksum", got and got[1][pos + 16:pos + 18],
           frame[pos + 16:pos + 18])
    expect("offloaded: stamped", got and got[1] != frame, True)


def gso_frame(version, size, opt=None):
    """A super-packet with an option, by default one for two records."""
    opt = option(slots=[FREE, FREE]) if opt is None else opt
    seg = dict(options=opt, partial=True, payload=bytes(size))
    return opt, eth(ip4(seg4(**seg)) if version == 4 else ip6(seg6(**seg)))


def group_gso(wire, split):
    """A super-packet: a record for each segment, or one record."""
    count = 5
    for version in (4, 6):
        wire.checksum_offload(split != "split")
        opt, frame = gso_frame(version, count * 1000 - 300)
        _, pos = tcp_offset(frame)
        head = pos + (frame[pos + 12] >> 4) * 4
        before = wire.stats()
        wire.send_gso(frame, 1000)
        frames = [f for _, f in receive_all(wire, count if split == "split" else 1)]
        now = wire.stats()
        expect(f"IPv{version}: stamped", now["stamped"] - before["stamped"],
               len(frames))
        expect(f"IPv{version}: payload", b"".join(f[head:] for f in frames),
               bytes(count * 1000 - 300))
        tx = []
        for got in frames:
            at = got.index(opt[:3], pos + 20)
            tx.append(Stamped(got, opt, at).load()[3])
            if split == "split":
                expect(f"IPv{version}: checksum is right", tcp_is_right(got), True)
        if len(set(tx)) != len(frames):
            WRONG.append(f"IPv{version}: tx {tx}")
    wire.checksum_offload(True)


def group_gso_plain(wire, arrive):
    """A super-packet without a request of 5 segments: so many packets arrive. What the
    link spends on them is the same, split or whole.
    """
    for version in (4, 6):
        for what, opt in (("without option", TIMESTAMPS), ("echo", option(
                opt_type=ECHO, slots=[record(1)]))):
            _, frame = gso_frame(version, 4700, opt)
            _, pos = tcp_offset(frame)
            head = pos + (frame[pos + 12] >> 4) * 4
            before = wire.stats()
            wire.send_gso(frame, 1000)
            got = [f for _, f in receive_all(wire, int(arrive))]
            now = wire.stats()
            what = f"IPv{version}, {what}"
            expect(f"{what}: packets", now["tx_packets"] - before["tx_packets"], int(arrive))
            dropped = now["drop_limit"] - before["drop_limit"]
            expect(f"{what}: dropped", dropped, 0 if int(arrive) in (1, 5) else 5 - int(arrive))
            if not dropped:
                expect(f"{what}: payload", b"".join(f[head:] for f in got), bytes(4700))
                expect(f"{what}: bytes", now["tx_bytes"] - before["tx_bytes"],
                       4700 + 5 * (head + OVERHEAD))


def group_clones(wire):
    """Below a qdisc that duplicates: both share their bytes, until we write."""
    frame = eth(ip4(seg4()))
    for _ in range(5):
        wire.send(frame)
        for _, got in receive_all(wire, 2):
            stamped = check_stamped("clone", frame, got, THREE)
            expect("records", [slot >> 60 for slot in stamped.slots], [1, 0, 0])


def group_vlan(wire):
    """Sent on a VLAN device: the tag is beside the packet, not in it."""
    sent = eth(ip4(seg4()), tags=[(0x8100, 5)])
    upper = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    upper.bind((wire.tx_dev + ".5", 0))
    upper.send(eth(ip4(seg4())))
    got = wire.receive()
    check_stamped("accelerated VLAN", sent, got and got[1], THREE)


def numbered(count, size):
    """Frames of a protocol that nobody knows, each with its number."""
    return [eth(struct.pack(">I", i).ljust(int(size) - 14, b"."), 46)
            for i in range(int(count))]


def print_arrivals(wire, frames):
    """When which frame arrived, until none does."""
    sent = {frame: i for i, frame in enumerate(frames)}
    while got := wire.receive(0.5):
        print(got[0], sent.get(got[1], -1))


def group_burst(wire, count, size):
    """Frames sent back to back: print when which of them arrived."""
    warm_up(wire)
    frames = numbered(count, size)
    for frame in frames:
        wire.send(frame)
    print_arrivals(wire, frames)


def group_during(wire, count, size, *command):
    """Send frames, run a command, print which of them arrived."""
    frames = numbered(count, size)
    for frame in frames:
        wire.send(frame)
    subprocess.run(command, check=True)
    sent = {frame: i for i, frame in enumerate(frames)}
    while got := wire.receive(0.5):
        print(sent.get(got[1], -1))


def group_offset(wire):
    """Of a port that is idle, and has sent nothing: print what it adds to ts and tx."""
    opt = option(slots=[FREE])
    frame = eth(ip4(seg4(options=opt)))
    now = time.monotonic_ns()
    got = check_stamped("offset", frame, wire.through(frame), opt).load()
    print((got[2] - now) % 2 ** 20, got[3])


def group_latency(wire):
    """Two frames of 1000 bytes: print how long after the first one's ts each
    arrived, in ns, modulo 2^20 and less what the port adds to ts."""
    warm_up(wire)
    opt = option(slots=[FREE])
    frame = eth(ip4(seg4(options=opt, payload=bytes(934))))
    assert len(frame) == 1000
    wire.send(frame)
    wire.send(frame)
    # Between two readings of one clock that of the other is in the middle.
    before = time.monotonic_ns()
    offset = time.time_ns() - before
    (first, got), (second, _) = receive_all(wire, 2)
    ts = check_stamped("latency", frame, got, opt).load()[2]
    print(*[(t - offset - ts) % 2 ** 20 for t in (first, second)])


def main():
    """Run a group."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pcap")
    parser.add_argument("tx")
    parser.add_argument("rx")
    parser.add_argument("group")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    wire = Wire(args.tx, args.rx)
    globals()["group_" + args.group](wire, *args.args)
    if args.pcap:
        wire.write_pcap(args.pcap)
    for line in WRONG:
        print(line)
    sys.exit(bool(WRONG))


if __name__ == "__main__":
    os.environ.setdefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    main()
