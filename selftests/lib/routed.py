# SPDX-License-Identifier: GPL-2.0
"""Hosts with routers between them."""

import socket
import struct
import time

from .ktap import expect
from .path import Path
from .tcp import get_cc, pattern, transfer, until

CCS = ("hpcc", "ldcp")
HOST_MBPS, MBPS = 1000, 500
TCP_MD5SIG = 14


class Routed(Path):
    """Host a, routers in a row, host b; the first router's link is the slowest."""

    HOST = f"rate {HOST_MBPS}mbit delay 20us nostamp"
    SWITCH = f"rate {MBPS}mbit delay 20us marking ldcp knonect 1mb"

    def __init__(self, version=4, routers=1, cc="hpcc", mtu=1500, **sysctls):
        super().__init__(version, routers, (cc, cc), mtu, **sysctls)

    def connect_nodes(self, mtu):
        self.addr = (self.at(0, 1), self.at(len(self.switches), 2))
        for switch in self.switches:
            # the source address of a router's neighbour discovery
            switch.sysctl("net.ipv6.conf.default.addr_gen_mode", 0)
        for i, (left, right) in enumerate(self.add_links(mtu)):
            self.plug(left, "right", self.at(i, 1))
            self.plug(right, "left", self.at(i, 2))
        for i, node in enumerate(self.nodes):
            self.route(i, node)

    def at(self, link, end):
        return f"10.0.{link}.{end}" if self.version == 4 else f"fd00:{link}::{end}"

    def plug(self, ns, dev, addr):
        """Give one end of a link its address."""
        ns.ip(f"addr add {addr}/{'24' if self.version == 4 else '64'} dev {dev} "
              + ("nodad" if self.version == 6 else ""), f"link set {dev} up")

    def route(self, i, node):
        """Route networks to the left over the left link, and all others over the right link."""
        if node in self.switches:
            node.sysctl("net.ipv4.ip_forward" if self.version == 4 else "net.ipv6.conf.all.forwarding", 1)
        for link in range(len(self.nodes) - 1):
            net = self.at(link, 0) + ("/24" if self.version == 4 else "/64")
            if link < i - 1:
                node.ip(f"route add {net} via {self.at(i - 1, 1)}")
            elif link > i:
                node.ip(f"route add {net} via {self.at(i, 2)}")


def both_ways(client, server, nbytes=150000):
    """Send data to b and back, with more in the direction in which telemetry is measured."""
    transfer((client, server, pattern(nbytes)), (server, client, pattern(nbytes // 4, 3)))
    transfer((client, server, pattern(nbytes, 1)))


def fill(path, client, known):
    """Make the first link so slow that its port marks packets, until known() is true."""
    path.change(1, "hpcc rate 1mbit")
    client.send(bytes(60000))
    deadline = time.monotonic() + 30
    while not known() and time.monotonic() < deadline:
        time.sleep(0.05)
    path.change(1, f"hpcc rate {MBPS}mbit")


def marked(path, client):
    """Return whether ldcp got marks. Fill the link first if the flow has not filled it."""
    def count():
        return path.a.counters("ldcp")["marked"]

    if not count():
        fill(path, client, count)
    return count() > 0


def expect_works(path, cc, client, twice=False):
    """Check that the client runs cc and gets telemetry or marks; twice: some packets arrive twice."""
    what = f"{cc} over IPv{path.version}"
    until(lambda: get_cc(client) == cc, lambda: (client.send(bytes(3000)), time.sleep(0.1)))
    expect(f"{what} runs", get_cc(client), cc)
    if cc == "hpcc":
        flow = path.a.flow(client)
        expect(f"{what}: mode, hops", (flow["mode"], flow["hops"]), ("telemetry", len(path.switches)))
    else:
        expect(f"{what}: marks", marked(path, client), True)
    if twice:
        expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])
    else:
        path.no_errors()


CONNTRACK = """
table inet track {
	chain i { type filter hook input priority 0; ct state invalid counter drop; }
	chain o { type filter hook output priority 0; ct state invalid counter drop; }
	chain f { type filter hook forward priority 0; ct state invalid counter drop; }
}
"""


def nft(ns, rules):
    ns.run("nft", "-f", "-", stdin=rules)


def sockaddr(version, addr):
    """Return the struct sockaddr_storage of a host."""
    family, flow = (socket.AF_INET, b"") if version == 4 else (socket.AF_INET6, bytes(4))
    return (struct.pack("=HH", family, 0) + flow + socket.inet_pton(family, addr)).ljust(128, b"\0")


def add_md5(sock, version, addr):
    """Set a key for a peer (TCP_MD5SIG)."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_MD5SIG, sockaddr(version, addr) +
                    struct.pack("=BBHi80s", 0, 0, 6, 0, b"secret"))


def sysfs(ns, file, value):
    """Write a file of /sys/class/net, if it exists."""
    ns.run("unshare", "-m", "sh", "-c", "mount -t sysfs sysfs /sys && cd /sys/class/net && "
           f"if [ -e {file} ]; then echo {value} > {file}; fi")
