# SPDX-License-Identifier: GPL-2.0
"""A middlebox in user space: it receives each frame of a path, and forwards what a test returns for it."""

import contextlib
import copy
import socket
import struct

from .kernel import virtual_time
from .ktap import defer, expect_in
from .packet import ACK, EOL, KIND, RST, SYN, pseudo, with_csum
from .path import MBPS, Path
from .plumbing import Worker
from .tcp import goodput_mbps, until

PACKET_IGNORE_OUTGOING = 23


class Packet:
    """A frame with TCP but no VLAN tags or extension headers, otherwise ValueError; frame() returns it with changes."""

    def __init__(self, frame, to_b):
        self.to_b = to_b                        # otherwise to a
        self.version = {b"\x08\x00": 4, b"\x86\xdd": 6}.get(frame[12:14])
        if not self.version:
            raise ValueError
        at = 34 if self.version == 4 else 54
        self.ends = slice(26, 34) if self.version == 4 else slice(22, 54)      # the addresses in head
        if frame[23 if self.version == 4 else 20] != 6:
            raise ValueError
        self.head = frame[:at]
        total = int.from_bytes(frame[16:18], "big") if self.version == 4 else 40 + int.from_bytes(frame[18:20], "big")
        tcp = frame[at:14 + total]
        self.tcp = bytearray(tcp[:20])
        length = (tcp[12] >> 4) * 4
        self.options = list(self.split(tcp[20:length]))
        self.payload = tcp[length:]
        self.bad_csum = False

    @staticmethod
    def split(raw):
        """Yield the options one by one; each NOP is a separate option."""
        while raw:
            length = 1 if raw[0] < 2 else raw[1]
            yield bytes(raw[:length])
            raw = raw[length:]

    @property
    def flags(self):
        return self.tcp[13]

    @property
    def sport(self):
        return int.from_bytes(self.tcp[:2], "big")

    @property
    def syn(self):
        """Whether the packet is a SYN or SYN-ACK."""
        return bool(self.flags & SYN)

    @property
    def seq(self):
        return int.from_bytes(self.tcp[4:8], "big")

    @seq.setter
    def seq(self, value):
        self.tcp[4:8] = struct.pack("!I", value & 0xffffffff)

    def each(self, change):
        """Replace each of our options by change(option)."""
        self.options = [change(opt) if opt[0] == KIND else opt for opt in self.options]

    def resets(self):
        """Return the RSTs by which a box ends the connection at both ends."""
        back, on = copy.copy(self), copy.copy(self)
        ends = self.head[self.ends]
        half = len(ends) // 2
        head = bytearray(self.head)
        head[:12] = self.head[6:12] + self.head[:6]
        head[self.ends] = ends[half:] + ends[:half]
        back.head, back.to_b = bytes(head), not self.to_b
        seq, ack = self.tcp[4:8], self.tcp[8:12]
        if self.syn and not self.flags & ACK:
            seq, ack = bytes(4), struct.pack("!I", self.seq + 1 & 0xffffffff)
        else:
            seq, ack = ack, seq
        back.tcp = bytearray(self.tcp[2:4] + self.tcp[:2] + seq + ack + bytes((0, RST | ACK)) + bytes(6))
        on.tcp = self.tcp[:12] + bytes((0, RST | ACK)) + bytes(6)
        for packet in back, on:
            packet.options, packet.payload = [], b""
        return [back, on]

    def has_ours(self):
        return any(opt[0] == KIND for opt in self.options)

    def frame(self):
        """Return the frame, with correct lengths, and with correct checksums unless bad_csum."""
        options = b"".join(self.options)
        options += EOL * (-len(options) % 4)
        self.tcp[12] = (5 + len(options) // 4) << 4
        tcp = bytes(self.tcp) + options + self.payload
        head, ends = self.head, self.head[self.ends]
        if self.version == 4:
            head = head[:14] + with_csum(head[14:16] + struct.pack("!H", 20 + len(tcp)) + head[18:], 10)
        else:
            head = head[:18] + struct.pack("!H", len(tcp)) + head[20:]
        return head + with_csum(tcp, 16, pseudo(ends, len(tcp)), 0x5555 if self.bad_csum else 0)


def nothing(packet):
    """Forward the packet unchanged."""
    return [packet]


class BoxPath(Worker, Path):
    """A path whose second switch is a middlebox that forwards the packets that change(packet) returns."""

    def __init__(self, *args, change=nothing, **how):
        Path.__init__(self, *args, **how)
        self.change_packet = change
        self.lets_by = lambda frame: True       # whether to forward other frames
        self.seen = 0                           # number of TCP packets
        ends = self.switches[-1]
        ends.ip("link set left nomaster", "link set right nomaster", "link del br0")
        for dev in "left", "right":
            self.change(2, "hpcc nostamp", dev)
        # so that packets arrive with checksums, as from a wire
        self.a.run("ethtool", "-K", "right", "tx", "off")
        self.b.run("ethtool", "-K", "left", "tx", "off")
        self.sides = [self.open(ends, dev) for dev in ("left", "right")]
        for sock in self.sides:
            defer(sock.close)
        self.start(*self.sides)

    @staticmethod
    def open(ns, dev):
        """Return a socket that receives all frames that arrive at a device."""
        with ns:
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)         # SO_RCVBUFFORCE
        sock.setsockopt(socket.SOL_SOCKET, 32, 1 << 26)         # SO_SNDBUFFORCE
        sock.setsockopt(263, PACKET_IGNORE_OUTGOING, 1)         # SOL_PACKET
        sock.bind((dev, 3))
        sock.setblocking(False)
        return sock

    def work(self, ready):
        """Forward the frames that have arrived."""
        for side, sock in enumerate(self.sides):
            if sock in ready:
                self.pass_on(sock, self.sides[1 - side], side == 0)

    def pass_on(self, source, sink, to_b):
        """Forward all frames that wait at one side to the other side."""
        while True:
            try:
                frame = source.recv(1 << 17)
            except BlockingIOError:
                return
            try:
                packet = Packet(frame, to_b)
            except ValueError:
                if self.lets_by(frame):
                    self.send(sink, frame)
                continue
            self.seen += 1
            for out in self.change_packet(packet):
                self.send(sink if out.to_b == to_b else source, out.frame())

    @staticmethod
    def send(sock, frame):
        """Send a frame out of a device, or drop it if the queue is full."""
        with contextlib.suppress(OSError):
            sock.send(frame)


_cubic = {}


def cubic_mbps(version, nbytes):
    """Return the goodput of cubic on a path whose middlebox changes nothing."""
    if version not in _cubic:
        path = BoxPath(version, cc=("cubic", "cubic"))
        _cubic[version] = goodput_mbps(*path.connect(), nbytes)
        print(f"# cubic over IPv{version}: {_cubic[version]:.0f} Mbit/s")
    return _cubic[version]


def send_until(done, client, server, nbytes):
    """Send until done(). In virtual time done() is already true, because the number of bytes sets the round trips."""
    until(done, lambda: goodput_mbps(client, server, nbytes))


def expect_half(what, version, nbytes, goodput):
    """Check that the goodput is at most the link's rate, and in virtual time at least half of cubic's goodput."""
    if not virtual_time():
        print(f"# {what}, IPv{version}: {goodput:.0f} Mbit/s")
        expect_in(what, goodput, 0, MBPS)
        return
    cubic = cubic_mbps(version, nbytes)
    print(f"# {what}, IPv{version}: {goodput:.0f} Mbit/s")
    if not cubic / 2 <= goodput <= MBPS:
        raise AssertionError(f"{what}: {goodput:.0f} Mbit/s, cubic {cubic:.0f}")
