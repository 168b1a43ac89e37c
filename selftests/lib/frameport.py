# SPDX-License-Identifier: GPL-2.0
"""A qdisc of ours between two packet sockets, to see how frames leave its port."""

import json
import socket
import struct

from .ktap import defer, expect, expect_in
from .net import Pair
from .path import MBPS


class FramePort:
    """Port 9 of switch 5, and the sockets in front of it and behind it."""

    def __init__(self, how, shape=f"rate {MBPS}mbit delay 20us", version=4):
        self.pair = Pair(version, qdisc=f"hpcc {shape} node 5 port 9 {how}")
        self.ends = []
        for ns in self.pair.c, self.pair.s:
            with ns:
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            sock.bind(("eth0", 3))
            sock.settimeout(2)
            self.ends.append(sock)
            defer(sock.close)

    def child(self, kind):
        """Replace the port's own queue by another qdisc."""
        handle = json.loads(self.pair.c.run("tc", "-j", "qdisc", "show", "dev", "eth0"))[0]["handle"]
        self.pair.c.tc(f"qdisc add dev eth0 parent {handle}1 {kind}")

    def send(self, frame):
        """Send a frame through the port."""
        self.ends[0].send(frame)

    def recv(self, addresses):
        """Return the next frame with these addresses, whose first VLAN tag the kernel has removed."""
        while True:
            got = self.ends[1].recv(4096)
            if got[:12] == addresses:
                return got

    def through(self, frame):
        """Send a frame through the port. Return it as it left."""
        self.send(frame)
        got = self.recv(frame[:12])
        tag = frame[12:16] if struct.unpack_from("!H", frame, 12)[0] == 0x8100 else b""
        return got[:12] + tag + got[12:]

    def stats(self):
        """Return the statistics of the port."""
        return json.loads(self.pair.c.run("tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))[0]["hpcc"]


def leave_unchanged(cases, *shape, **how):
    """Fail unless each frame of (options of the port, frame, reason) leaves unchanged and is counted by reason."""
    for options, sent, why in cases:
        port = FramePort(options, *shape, **how)
        what = f"{options} {sent[12:].hex()}"
        expect(what, port.through(sent), sent)
        stats = port.stats()
        expect_in(f"{what}: {why} of {stats['unstamped']}", stats["unstamped"][why], 1, 100)
        expect("stamped", stats["stamped"], 0)
