# SPDX-License-Identifier: GPL-2.0
"""One of our qdiscs between two packet sockets, which show how frames leave the port."""

import struct

from .ktap import expect, expect_in
from .net import Pair
from .packet import addresses, eth, ip, packet_socket, tcp
from .path import MBPS

ENDS = {4: addresses("10.0.0.1", "10.0.0.2"), 6: addresses("fd00::1", "fd00::2")}
BROADCAST = b"\xff" * 6 + b"\2\0\0\0\0\1"
NOPS = b"\1" * 12


def ip_packet(version=4, tos=1, right=True, options=NOPS, **how):
    """Return a TCP packet from one end of a Pair to the other."""
    return ip(ENDS[version], tcp(ENDS[version], options, ports=(1, 2), seq=3, ack=4, window=1000,
                                 wrong=0 if right else 0x1234, **how), tos=tos)


def ethernet(packet, tags=b"", padding=b""):
    """Return a frame to all stations."""
    frame = eth(packet, macs=BROADCAST)
    return frame[:12] + tags + frame[12:] + padding


class FramePort:
    """Port 9 of switch 5, and the sockets before and after it."""

    def __init__(self, how, shape=f"rate {MBPS}mbit delay 20us", version=4):
        self.pair = Pair(version, qdisc=f"hpcc {shape} node 5 port 9 {how}")
        self.ends = [packet_socket(ns, "eth0") for ns in (self.pair.c, self.pair.s)]
        self.ends[1].settimeout(2)

    def child(self, kind):
        """Replace the port's own queue by another qdisc."""
        handle = self.pair.c.port("eth0")["handle"]
        self.pair.c.tc(f"qdisc add dev eth0 parent {handle}1 {kind}")

    def send(self, frame):
        self.ends[0].send(frame)

    def recv(self, addresses):
        """Return the next frame with these addresses, whose first VLAN tag the kernel has removed."""
        while True:
            got = self.ends[1].recv(4096)
            if got[:12] == addresses:
                return got

    def through(self, frame):
        self.send(frame)
        got = self.recv(frame[:12])
        tag = frame[12:16] if struct.unpack_from("!H", frame, 12)[0] == 0x8100 else b""
        return got[:12] + tag + got[12:]

    def stats(self):
        return self.pair.c.port("eth0")["hpcc"]


def leave_unchanged(cases, *shape, **how):
    """Fail unless each frame of (options of the port, frame, reason) leaves unchanged and is counted by reason."""
    for options, sent, why in cases:
        port, what = FramePort(options, *shape, **how), f"{options} {sent[12:].hex()}"
        expect(what, port.through(sent), sent)
        stats = port.stats()
        expect_in(f"{what}: {why} of {stats['unstamped']}", stats["unstamped"][why], 1, 100)
        expect("stamped", stats["stamped"], 0)
