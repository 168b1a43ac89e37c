# SPDX-License-Identifier: GPL-2.0
"""Nodes, links and paths of a scenario, and the times that packets need on them.

Every node is a network namespace. A link is a veth pair. The hpcc qdisc at the egress of
each end emulates the link in that direction: queue, rate and propagation delay. The qdisc of a
host does not stamp, because telemetry does not count a host's NIC as a hop.

The switches of a star, a dumbbell and a chain are bridges. The switches of trees are
routers: top-of-rack switches t0, t1, ..., aggregation switches a0, ... and core
switches c0, ..., or the spine switches s0, ... of a leaf-spine. They spread
flows over all shortest paths.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

# Headers of a packet without payload, in bytes: an acknowledgment with
# timestamps and telemetry (Ethernet 14, TCP 20 + 12 + 4 + 3 x 8).
ETHERNET_BYTES = 14
ACK_BYTES = {4: ETHERNET_BYTES + 20 + 60, 6: ETHERNET_BYTES + 40 + 60}
# Headers of a data packet from IP on, with timestamps.
HEADERS = {4: 20 + 32, 6: 40 + 32}

TREES = ("leaf-spine", "fat-tree")


@dataclass(frozen=True)
class Port:
    """One direction of a link: node's egress towards peer."""
    id: int
    node: str
    peer: str

    @property
    def ifname(self):
        """An interface of a switch has the name of the neighbour."""
        return ifname(self.node, self.peer)


def is_host(node):
    """Hosts are h0, h1, ...; all other nodes are switches."""
    return node.startswith("h")


def ifname(node, peer):
    """The interface of a node towards a neighbour."""
    return "eth0" if is_host(node) else peer


@lru_cache(maxsize=None)
def _base_rtt_ns(links, bits):
    return sum(2 * delay - (-bits * 10**9 // rate) for rate, delay in links)


def _alone_ns(links, packets, full_bits, last_bits):
    """Count times in fractions of a nanosecond, so small that the time of a bit is an integer on each link."""
    parts = math.lcm(*(rate for rate, _ in links))
    bit_times = [10**9 * (parts // rate) for rate, _ in links]
    last = [last_bits * time for time in bit_times]
    busy = sum(last)
    if packets > 1:
        # The last packet waits for earlier packets at the links up to some link i, and at no later link.
        full = [full_bits * time for time in bit_times]
        busy = max(sum(full[:i + 1]) + (packets - 2) * max(full[:i + 1]) + sum(last[i:])
                   for i in range(len(links)))
    return sum(delay for _, delay in links) + busy // parts


class Topology:
    """Links as {node: [peer, ...]}, in a fixed order."""

    def __init__(self, scenario):
        self.link = scenario.link
        self.link_of = scenario.link_of
        self.ip = scenario.ip
        self.host_delay = scenario.host_delay()
        self.shape = scenario.topology
        self.routed = self.shape["kind"] in TREES
        self.hosts = [f"h{n}" for n in range(self.shape["hosts"])]
        self.switches, self.links = getattr(self, "_" + self.shape["kind"].replace("-", "_"))()
        self.peers = {node: [] for node in self.hosts + self.switches}
        for a, b in self.links:
            self.peers[a].append(b)
            self.peers[b].append(a)
        self.near = {node: self.peers[node][0] if is_host(node) else node for node in self.peers}
        ports = [(node, peer) for node in self.switches for peer in self.peers[node]]
        self.ports = [Port(i, node, peer) for i, (node, peer) in enumerate(ports)]
        self._port_of = {(port.node, port.peer): port for port in self.ports}
        self._found = {}

    # ---- kinds of topologies: each returns its switches, and its links as pairs of nodes

    def _names(self, letter, count):
        return [f"{letter}{n}" for n in range(count)]

    def _line(self, switches, switch_of):
        links = [(host, switches[switch_of(n)]) for n, host in enumerate(self.hosts)]
        return switches, links + list(zip(switches, switches[1:]))

    def _star(self):
        return self._line(["s0"], lambda n: 0)

    def _dumbbell(self):
        return self._line(["s0", "s1"], lambda n: int(n >= len(self.hosts) // 2))

    def _chain(self):
        return self._line(self._names("s", self.shape["switches"]),
                          lambda n: -n if n < 2 else n // 2 - 1 + n % 2)

    def _racks(self, tors):
        return [(host, tors[n // self.shape["hosts_per_tor"]]) for n, host in enumerate(self.hosts)]

    def _leaf_spine(self):
        tors, spines = self._names("t", self.shape["tors"]), self._names("s", self.shape["spines"])
        return tors + spines, self._racks(tors) + [(tor, spine) for tor in tors for spine in spines]

    def _fat_tree(self):
        """Within a pod each ToR has a link to each aggregation switch. There are as many groups of core
        switches as a pod has aggregation switches; aggregation switch i of each pod has a link to each core
        switch of group i.
        """
        pods, per_pod, aggs_per_pod = (self.shape[key] for key in ("pods", "tors", "aggs"))
        tors, aggs = self._names("t", pods * per_pod), self._names("a", pods * aggs_per_pod)
        cores = self._names("c", self.shape["cores"])
        links = self._racks(tors)
        links += [(tor, agg) for n, tor in enumerate(tors) for m, agg in enumerate(aggs)
                  if n // per_pod == m // aggs_per_pod]
        links += [(agg, core) for m, agg in enumerate(aggs) for k, core in enumerate(cores)
                  if m % aggs_per_pod == k // (len(cores) // aggs_per_pod)]
        return tors + aggs + cores, links

    # ---- paths

    def toward(self, target, dead=frozenset()):
        """Return {switch: its neighbours on shortest paths to the switch target}. dead: links that are
        not used, each as a pair in both orders.
        """
        key = target, dead
        if key not in self._found:
            distance, order = {target: 0}, [target]
            for switch in order:
                for peer in self.peers[switch]:
                    if peer not in distance and not is_host(peer) and (switch, peer) not in dead:
                        distance[peer] = distance[switch] + 1
                        order.append(peer)
            self._found[key] = {
                switch: [peer for peer in self.peers[switch] if (switch, peer) not in dead and
                         distance.get(peer, math.inf) < distance[switch]] for switch in order}
        return self._found[key]

    def _ways(self, first, last):
        """All shortest paths between two switches."""
        key = "ways", first, last
        if key not in self._found:
            toward, ways = self.toward(last), [[first]]
            while ways and ways[0][-1] != last:
                ways = [way + [peer] for way in ways for peer in toward[way[-1]]]
            self._found[key] = ways
        return self._found[key]

    def path(self, src, dst):
        """Nodes from src to dst; in a tree there may be other paths of the same length."""
        way = self._ways(self.near[src], self.near[dst])[0]
        return [src] * is_host(src) + way + [dst] * is_host(dst)

    def _fabric_ports(self, first, last):
        key = "ports", first, last
        if key not in self._found:
            hops = {hop for way in self._ways(first, last) for hop in zip(way, way[1:])}
            self._found[key] = [self._port_of[hop] for hop in hops]
        return self._found[key]

    def switch_ports(self, src, dst):
        """The ports of switches that may send packets from src to dst."""
        last = self.near[dst]
        ports = [*self._fabric_ports(self.near[src], last), self._port_of[last, dst]]
        return sorted(ports, key=lambda port: port.id)

    # ---- rates and times

    def _access_of(self, node, peer):
        key = "access", node, peer
        if key not in self._found:
            link = self.link_of(node, peer)
            self._found[key] = link["rate"], link["delay"]
        return self._found[key]

    def _profiles(self, src, dst):
        """The paths from src to dst, each as the (rate, delay) of its links, without duplicates."""
        first, last = self.near[src], self.near[dst]
        (rate_out, delay_out), (rate_in, delay_in) = self._access_of(src, first), self._access_of(last, dst)
        key = "profiles", first, last, rate_out, delay_out, rate_in, delay_in
        if key not in self._found:
            ways = [[self.link_of(*hop) for hop in zip(way, way[1:])] for way in self._ways(first, last)]
            out, into = self.host_delay
            self._found[key] = list(dict.fromkeys(
                ((rate_out, delay_out + out), *((link["rate"], link["delay"]) for link in way),
                 (rate_in, delay_in + into)) for way in ways))
        return self._found[key]

    def base_rtt_ns(self, src, dst):
        """Round-trip time of a full packet and its acknowledgment on the longest idle path."""
        packet = self.link["mtu"] + ETHERNET_BYTES + self.link["overhead"]
        bits = (packet + ACK_BYTES[self.ip] + self.link["overhead"]) * 8
        return max(_base_rtt_ns(links, bits) for links in self._profiles(src, dst))

    def alone_ns(self, src, dst, size):
        """The shortest time in which size bytes can arrive at dst. Packets are full, contain the timestamp
        option and no other, and each is sent as soon as the link is free.
        """
        headers = HEADERS[self.ip]
        most = self.link["mtu"] - headers
        extra = headers + ETHERNET_BYTES + self.link["overhead"]
        packets = -(-size // most)
        last = size - (packets - 1) * most
        return min(_alone_ns(links, packets, 8 * (most + extra), 8 * (last + extra))
                   for links in self._profiles(src, dst))

    def wire_bits(self, size):
        """The bits on a link of size bytes, in packets as in alone_ns()."""
        headers = HEADERS[self.ip]
        packets = -(-size // (self.link["mtu"] - headers))
        return 8 * (size + packets * (headers + ETHERNET_BYTES + self.link["overhead"]))

    def only_hops(self, src, dst):
        """The links that all shortest paths from src to dst have in common, as pairs of nodes; of a fabric with
        several paths only the links of the hosts.
        """
        path = self.path(src, dst)
        hops = list(zip(path, path[1:]))
        return hops if len(self.switch_ports(src, dst)) == len(hops) - 1 else [hops[0], hops[-1]]

    def access(self, host):
        """The properties of a host's own link."""
        return self.link_of(host, self.near[host])

    def rate(self, src, dst):
        """The rate of the slowest link between src and dst, bit/s."""
        return min(rate for links in self._profiles(src, dst) for rate, _ in links)

    def all_links(self):
        """The properties of all links, in the order of self.links."""
        return [self.link_of(*pair) for pair in self.links]

    # ---- addresses

    def _place(self, host):
        """The place of a host in a tree: (pod, ToR within the pod, host below the ToR)."""
        tor, n = divmod(int(host[1:]), self.shape["hosts_per_tor"])
        pod, tor = divmod(tor, self.shape["tors"])
        return pod, tor, n

    def address(self, host):
        """IP address of a host."""
        if self.routed:
            pod, tor, n = self._place(host)
            return f"fd00:{pod:x}:{tor:x}::{n + 1:x}" if self.ip == 6 else f"10.{pod}.{tor}.{n + 1}"
        n = int(host[1:]) + 1
        return f"fd00::{n:x}" if self.ip == 6 else f"10.0.{n >> 8}.{n & 255}"

    def rack(self, tor):
        """The prefix of a ToR's hosts."""
        pod, n = divmod(int(tor[1:]), self.shape["tors"])
        return f"fd00:{pod:x}:{n:x}::/48" if self.ip == 6 else f"10.{pod}.{n}.0/24"

    @property
    def tors(self):
        """The switches to which hosts are connected."""
        return list(dict.fromkeys(self.near[host] for host in self.hosts))

    @staticmethod
    def mac(host):
        """Hardware address of a host's interface."""
        return f"02:00:00:00:{int(host[1:]) >> 8:02x}:{int(host[1:]) & 255:02x}"
