# SPDX-License-Identifier: GPL-2.0
"""Nodes, links and paths of a scenario, and the time light needs on them.

Every node is a network namespace; a switch is a bridge in one. A link is a
veth pair; each end's egress is an hpcc qdisc that is the whole link in that
direction: queue, rate, propagation delay. Hosts' egress does not stamp, since
a host's NIC is no hop of telemetry.
"""

from dataclasses import dataclass
from fractions import Fraction

# Headers of a packet without payload, in bytes: an acknowledgment with
# timestamps and telemetry (Ethernet 14, TCP 20 + 12 + 4 + 3 x 8).
ETHERNET_BYTES = 14
ACK_BYTES = {4: ETHERNET_BYTES + 20 + 60, 6: ETHERNET_BYTES + 40 + 60}


@dataclass(frozen=True)
class Port:
    """One direction of a link: node's egress towards peer."""
    id: int
    node: str
    peer: str

    @property
    def ifname(self):
        """A switch's interfaces are called after what they lead to."""
        return "eth0" if self.node.startswith("h") else self.peer


class Topology:
    """Links as {node: [peer, ...]}, in a fixed order."""

    def __init__(self, scenario):
        self.link = scenario.link
        self.link_of = scenario.link_of
        self.ip = scenario.ip
        kind = scenario.topology["kind"]
        self.hosts = [f"h{n}" for n in range(scenario.topology["hosts"])]
        self.switches = [f"s{n}" for n in range(scenario.topology["switches"])]
        self.links = [(host, self._switch_of(kind, n)) for n, host in enumerate(self.hosts)]
        self.links += list(zip(self.switches, self.switches[1:]))
        self.peers = {node: [] for node in self.hosts + self.switches}
        for a, b in self.links:
            self.peers[a].append(b)
            self.peers[b].append(a)
        ports = [(node, peer) for node in self.switches for peer in self.peers[node]]
        self.ports = [Port(i, node, peer) for i, (node, peer) in enumerate(ports)]

    def _switch_of(self, kind, n):
        if kind == "star":
            return "s0"
        if kind == "dumbbell":
            return "s0" if n < len(self.hosts) // 2 else "s1"
        if n < 2:
            return self.switches[-n]
        return self.switches[n // 2 - 1 + n % 2]

    def path(self, src, dst):
        """Nodes from src to dst; these graphs are trees, so there is one."""
        stack = [[src]]
        while stack:
            way = stack.pop()
            if way[-1] == dst:
                return way
            stack += [way + [peer] for peer in self.peers[way[-1]] if peer not in way]
        raise ValueError(f"no path from {src} to {dst}")

    def switch_ports(self, src, dst):
        """The switches' ports that packets from src to dst leave through."""
        hops = set(zip(self.path(src, dst), self.path(src, dst)[1:]))
        return [port for port in self.ports if (port.node, port.peer) in hops]

    def base_rtt_ns(self, src, dst):
        """Round trip of a full packet and its acknowledgment on an idle path."""
        packet = self.link["mtu"] + ETHERNET_BYTES + self.link["overhead"]
        bits = (packet + ACK_BYTES[self.ip] + self.link["overhead"]) * 8
        return sum(2 * link["delay"] - (-bits * 10**9 // link["rate"])
                   for link in self.links_between(src, dst))

    def alone_ns(self, src, dst, size):
        """The least time in which size bytes can arrive at dst, full packets with timestamps and no
        other option, and each sent as soon as the link is free.
        """
        links = self.links_between(src, dst)
        headers = (40 if self.ip == 6 else 20) + 32
        most = self.link["mtu"] - headers
        extra = headers + ETHERNET_BYTES + self.link["overhead"]
        packets = -(-size // most)

        def times(payload):
            return [Fraction((payload + extra) * 8 * 10**9, link["rate"]) for link in links]
        last = times(size - (packets - 1) * most)
        if packets == 1:
            busy = sum(last)
        else:
            # Up to some link the last packet waits for those before it, behind that for none.
            full = times(most)
            busy = max(sum(full[:i + 1]) + (packets - 2) * max(full[:i + 1]) + sum(last[i:])
                       for i in range(len(links)))
        return sum(link["delay"] for link in links) + int(busy)

    def links_between(self, src, dst):
        """What the links of a path are like, one by one."""
        way = self.path(src, dst)
        return [self.link_of(*pair) for pair in zip(way, way[1:])]

    def access(self, host):
        """What a host's own link is like."""
        return self.link_of(host, self.peers[host][0])

    def rate(self, src, dst):
        """Of the slowest link of a path, bit/s."""
        return min(link["rate"] for link in self.links_between(src, dst))

    def all_links(self):
        """What all links are like, in the order of self.links."""
        return [self.link_of(*pair) for pair in self.links]

    def address(self, host):
        """IP address of a host."""
        n = int(host[1:]) + 1
        return f"fd00::{n:x}" if self.ip == 6 else f"10.0.{n >> 8}.{n & 255}"

    @staticmethod
    def mac(host):
        """Hardware address of a host's interface."""
        return f"02:00:00:00:{int(host[1:]) >> 8:02x}:{int(host[1:]) & 255:02x}"
