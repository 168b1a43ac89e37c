# SPDX-License-Identifier: GPL-2.0
"""The bytes of packets and of our options, and a sniffer."""

import contextlib
import socket
import struct

from .ktap import defer

# include/uapi/linux/hpcc.h
KIND = 253
EXID = 0x4843
VERSION = 1
CAP_TELEMETRY, CAP_QUIET, CAP_PROBES, CAP_REPORT, CAP_WINDOW = (1 << i for i in range(5))
FORWARD, ECHO, IDENTIFY, IDENTIFY_ECHO, REPORT, ANSWERED, RESPONSE = range(1, 8)
PROMPT = 0x08
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << i for i in range(8))
EOL, NOP = b"\0", b"\1"
FREE = bytes(8)         # a slot
MACS = bytes.fromhex("020000000002020000000001")


def ones_sum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def csum(data):
    """Return the Internet checksum, the complement of the sum."""
    return ones_sum(data) ^ 0xffff


def with_csum(data, at, covered=b"", wrong=0):
    """Return the data with a checksum at an offset that also covers other bytes; the bits in wrong are inverted."""
    data = data[:at] + bytes(2) + data[at + 2:]
    return data[:at] + struct.pack("!H", csum(covered + data) ^ wrong) + data[at + 2:]


def addresses(*names):
    """Return the bytes of addresses, of the source and the destination."""
    return b"".join(socket.inet_pton(socket.AF_INET6 if ":" in name else socket.AF_INET, name) for name in names)


def pseudo(ends, length, proto=6):
    """Return bytes with the sum of the pseudo-header between two addresses."""
    return ends + struct.pack("!II", length, proto)


def tcp(ends, options=b"", payload=b"", flags=ACK, ports=(1000, 2000), seq=1, ack=2, window=500,
        doff=None, partial=False, wrong=0):
    """Return a TCP segment between two addresses; partial: its checksum covers only the pseudo-header."""
    options += EOL * (-len(options) % 4)
    words = 5 + len(options) // 4 if doff is None else doff
    raw = struct.pack("!HHIIBBHI", *ports, seq & 0xffffffff, ack & 0xffffffff, words << 4, flags,
                      window, 0) + options + payload
    covered = pseudo(ends, len(raw))
    if partial:
        return raw[:16] + struct.pack("!H", ones_sum(covered)) + raw[18:]
    return with_csum(raw, 16, covered, wrong)


def ipv4(ends, payload, options=b"", proto=6, frag=0x4000, tos=0, ident=0, ihl=None, total=None):
    """Return an IPv4 packet; without `total` and `ihl` the lengths are right."""
    size = 20 + len(options)
    head = struct.pack("!BBHHHBBH", 0x40 | (size // 4 if ihl is None else ihl), tos,
                       size + len(payload) if total is None else total, ident, frag, 64, proto, 0)
    return with_csum(head + ends + options, 10) + payload


def ipv6(ends, payload, ext=(), proto=6, tos=0, label=0, length=None):
    """Return an IPv6 packet; ext: (protocol number, bytes after the next header)."""
    for number, data in reversed(ext):
        payload, proto = bytes([proto]) + data + payload, number
    return struct.pack("!IHBB", 6 << 28 | tos << 20 | label, len(payload) if length is None else length,
                       proto, 64) + ends + payload


def ip(ends, payload, **how):
    """Return a packet of the version that the addresses have."""
    return (ipv4 if len(ends) == 8 else ipv6)(ends, payload, **how)


def eth(packet, proto=None, tags=(), macs=MACS):
    """Return an Ethernet frame; tags: (TPID, VLAN)."""
    if proto is None:
        proto = 0x0800 if packet[0] >> 4 == 4 else 0x86dd
    return macs + b"".join(struct.pack("!HH", *tag) for tag in tags) + struct.pack("!H", proto) + packet


def ip_offset(frame):
    """Return the offset of the header after VLAN tags."""
    at = 14
    while frame[at - 2:at] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    return at


def packet_socket(ns, dev, proto=3):
    """Return a packet socket on a device, which is closed when the test ends; proto 0: it only sends."""
    with ns:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.bind((dev, proto))
    defer(sock.close)
    return sock


def syn_option(exid=EXID, version=VERSION, caps=CAP_TELEMETRY, kind=KIND, length=6):
    """Return our option of a SYN, padded as the kernel does it."""
    body = struct.pack("!BBHH", kind, length, exid, version << 12 | caps)
    return body.ljust(length, b"\0")[:max(length, 2)]


def record(hop, ts, tx, qlen=0, tag=1):
    """Return a load record; qlen is the encoded float, below 256 the value itself."""
    return struct.pack("!Q", (hop & 0xf) << 60 | (tag & 0xff) << 52 |
                       (ts & 0xfffff) << 32 | (tx & 0xfffff) << 12 | (qlen & 0xfff))


def identity(hop, node=0, port=0, mant=0, exp=0):
    return struct.pack("!Q", hop << 60 | node << 40 | port << 24 | exp << 22 | mant)


def quiet(*hops):
    """Return the record of an echo that lists quiet hops."""
    return struct.pack("!Q", sum(1 << 44 + hop for hop in hops))


def option(kind_of, records=(), scale=0, hops=None, flags=0, kind=KIND, length=None):
    """Return a telemetry option; hops defaults to the number of records."""
    records = list(records)
    hops = len(records) if hops is None else hops
    length = 4 + 8 * len(records) if length is None else length
    return struct.pack("!BBBB", kind, length, kind_of << 5 | scale, hops << 4 | flags) + b"".join(records)


def sack(left, right):
    """Return a SACK option with one block."""
    return struct.pack("!BBBBII", 1, 1, 5, 10, left & 0xffffffff, right & 0xffffffff)


def qlen_code(units):
    """Encode units as the 12-bit float."""
    exp = 0
    if units >= 256:
        exp = units.bit_length() - 8
        units >>= exp - 1
    return exp << 8 | units & 0xff


def qlen_value(code):
    """Decode the 12-bit float."""
    exp, mant = code >> 8, code & 0xff
    return (mant | 256) << (exp - 1) if exp else mant


class Telemetry:
    """One of our options in a segment."""

    def __init__(self, raw):
        self.raw = raw
        self.type, self.scale = raw[2] >> 5, raw[2] & 0x1f
        self.hops, self.flags = raw[3] >> 4, raw[3] & 0xf
        self.words = [int.from_bytes(raw[i:i + 8], "big") for i in range(4, len(raw), 8)]
        self.records = [{"hop": word >> 60, "tag": word >> 52 & 0xff, "ts": word >> 32 & 0xfffff,
                         "tx": word >> 12 & 0xfffff, "qlen": word & 0xfff} for word in self.words]

    def load(self, slot=0):
        """Return hop, tag, ts, tx of a slot, and the queue that it encodes."""
        *fields, code = self.records[slot].values()
        return (*fields, qlen_value(code))

    def identity(self, slot=0):
        """Return hop, node, port, B of a slot."""
        word = self.words[slot]
        return (word >> 60, word >> 40 & 0xfffff, word >> 24 & 0xffff,
                (word & 0x3fffff) * 1000 ** (1 + (word >> 22 & 3)))

    def __repr__(self):
        return f"<type {self.type} scale {self.scale} hops {self.hops} {self.records}>"


class Segment:
    """A TCP segment with its IP header; raises ValueError for other packets."""

    def __init__(self, packet, partial=False):
        self.packet = packet
        self.version = packet[0] >> 4
        if self.version == 4:
            at = (packet[0] & 0xf) * 4
            proto = packet[9]
            self.total = struct.unpack_from("!H", packet, 2)[0]
            ends = packet[12:20]
            self.ip_csum_ok = csum(packet[:at]) == 0
            self.ecn = packet[1] & 3
        elif self.version == 6:
            at, proto = 40, packet[6]
            self.total = 40 + struct.unpack_from("!H", packet, 4)[0]
            while proto in (0, 43, 60):
                if packet[4:6] == b"\0\0" and packet[at + 2] == 0xc2:   # jumbo
                    self.total = 40 + struct.unpack_from("!I", packet, at + 4)[0]
                proto, at = packet[at], at + 8 * (packet[at + 1] + 1)
            if self.total == 40:            # BIG TCP of 7.2: longer than 64 KB, and without a jumbo header
                self.total = len(packet)
            ends = packet[8:40]
            self.ip_csum_ok = True
            self.ecn = packet[1] >> 4 & 3
        else:
            raise ValueError
        if proto != 6:
            raise ValueError
        self.sport, self.dport, self.seq, self.ack, off, self.flags, self.win = \
            struct.unpack_from("!HHIIBBH", packet, at)
        self.header = (off >> 4) * 4
        self.at = at
        raw = packet[at:self.total]
        self.complete = len(packet) >= self.total
        self.options = raw[20:self.header]
        self.payload = raw[self.header:]
        self.partial = partial
        covered = pseudo(ends, self.total - at)
        self.csum_ok = struct.unpack_from("!H", raw, 16)[0] == ones_sum(covered) if partial else \
            csum(covered + raw) == 0

    def walk(self):
        """Yield (kind, bytes of the option) of each TCP option."""
        at = 0
        while at < len(self.options) and self.options[at]:
            if self.options[at] == 1:
                at += 1
                continue
            length = self.options[at + 1]
            if length < 2 or at + length > len(self.options):
                raise AssertionError(f"malformed options {self.options.hex()}")
            yield self.options[at], self.options[at:at + length]
            at += length

    def option(self, kind):
        """Return the first option of a kind, or None."""
        return next((raw for found, raw in self.walk() if found == kind), None)

    def ours(self, kind=KIND):
        """Return all of our telemetry options."""
        return [Telemetry(raw) for found, raw in self.walk() if found == kind]

    def telemetry(self, kind_of):
        """Return our option of a type, or None."""
        return next((opt for opt in self.ours() if opt.type == kind_of), None)

    def __repr__(self):
        names = "".join(name for bit, name in enumerate("FSRPAUEC") if self.flags >> bit & 1)
        return (f"<{self.sport}>{self.dport} {names} seq {self.seq} ack {self.ack} "
                f"len {len(self.payload)} options {self.options.hex()}>")


class Sniffer:
    """Records the TCP segments on a device from now on. A fragment is an error: no packet may exceed the MTU."""

    SOL_PACKET, PACKET_AUXDATA, CSUM_NOT_READY, TIMESTAMPNS = 263, 8, 1 << 3, 35

    def __init__(self, ns, dev="eth0"):
        self.sock = packet_socket(ns, dev)
        self.sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 27)    # SO_RCVBUFFORCE
        self.sock.setsockopt(self.SOL_PACKET, self.PACKET_AUXDATA, 1)
        self.sock.setsockopt(socket.SOL_SOCKET, self.TIMESTAMPNS, 1)
        self.sock.setblocking(False)
        self.vlan = 0           # number of tagged frames seen

    def segments(self):
        """Return the segments since the last call, in order."""
        found = []
        while True:
            try:
                frame, extra, *_ = self.sock.recvmsg(1 << 18, 128)
            except BlockingIOError:
                return found
            extra = {kind: data for _, kind, data in extra}
            status = struct.unpack_from("=I", extra.get(self.PACKET_AUXDATA, bytes(4)))[0]
            at = ip_offset(frame)
            self.vlan += (at - 14) // 4
            if frame[at - 2:at] not in (b"\x08\x00", b"\x86\xdd"):
                continue
            if frame[at] >> 4 == 4 and struct.unpack_from("!H", frame, at + 6)[0] & 0x3fff or \
                    frame[at] >> 4 == 6 and frame[at + 6] == 44:
                raise AssertionError(f"an IP fragment: {frame[at:at + 80].hex()}")
            with contextlib.suppress(ValueError):
                found.append(Segment(frame[at:], bool(status & self.CSUM_NOT_READY)))
                sec, nsec = struct.unpack_from("=qq", extra[self.TIMESTAMPNS])
                found[-1].time_ns = sec * 10 ** 9 + nsec


def sane(segments, mtu=1500):
    """Fail unless segments are well-formed and within the MTU, or GSO segments with a partial checksum."""
    for seg in segments:
        if not seg.csum_ok or not seg.ip_csum_ok:
            raise AssertionError(f"checksum of {seg}, partial: {seg.partial}")
        if seg.header > 60 or not seg.complete:
            raise AssertionError(f"length of {seg}")
        if seg.total > mtu and not seg.partial:
            raise AssertionError(f"{seg.total} bytes exceed the MTU: {seg}")
        list(seg.walk())


def ours_in(segments, kind=KIND):
    return [seg for seg in segments if seg.option(kind)]


def data_segments(segments):
    return [seg for seg in segments if seg.payload]


def sane_segments(sniffer, mtu=1500):
    """Return the segments that a sniffer has recorded. Fail unless they are sane()."""
    segments = sniffer.segments()
    sane(segments, mtu)
    return segments
