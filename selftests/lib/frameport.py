# SPDX-License-Identifier: GPL-2.0
"""A qdisc of ours between two packet sockets: what frames become as they leave its port."""

import json
import socket
import struct

from .ktap import defer
from .net import Pair
from .path import MBPS


class FramePort:
    """A port of switch 5, number 9, and what comes out of it."""

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
        """Put another qdisc in the place of the port's own queue."""
        handle = json.loads(self.pair.c.run("tc", "-j", "qdisc", "show", "dev", "eth0"))[0]["handle"]
        self.pair.c.tc(f"qdisc add dev eth0 parent {handle}1 {kind}")

    def send(self, frame):
        """Let a frame go."""
        self.ends[0].send(frame)

    def recv(self, addresses):
        """The next frame with these addresses, without the kernel's own. The receiving kernel has taken
        its first VLAN tag away.
        """
        while True:
            got = self.ends[1].recv(4096)
            if got[:12] == addresses:
                return got

    def through(self, frame):
        """A frame as it leaves the port."""
        self.send(frame)
        got = self.recv(frame[:12])
        tag = frame[12:16] if struct.unpack_from("!H", frame, 12)[0] == 0x8100 else b""
        return got[:12] + tag + got[12:]

    def stats(self):
        """What the port counted."""
        return json.loads(self.pair.c.run("tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))[0]["hpcc"]
