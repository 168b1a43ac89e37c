# SPDX-License-Identifier: GPL-2.0
"""A path: host, switches with sch_hpcc, host."""

import socket
import time

from .kernel import virtual_time
from .ktap import expect, expect_in
from .net import Netns, meet
from .packet import CAP_TELEMETRY, syn_option
from .tcp import pattern, set_cc, transfer

DELAY = "20us"
MBPS = 1000


def link(node, port, *rate_unit):
    """Return a link in the form of the netlink family."""
    return dict(zip(("node", "port", "rate", "unit"), (node, port, *rate_unit)))


def set_links(ns, *links):
    """Add links to a host's table: node, port, bit/s, and optionally the bytes of a unit of queue depth."""
    ns.hpcc().set("link-set", link=[link(*one) for one in links])


def delete_links(ns, *links):
    ns.hpcc().set("link-del", link=[link(*one) for one in links])


def get_links(ns):
    """Return a host's table of links: node, port, bit/s, bytes of a unit."""
    return [tuple(one.values()) for part in ns.hpcc().dump("link-get") for one in part["link"]]


ROUTE_VALUES = "where", "carrier", "base-rtt-ns", "eta-permille", "n-flows", "sample"


def route(line):
    """Return "PREFIX/LEN [WHERE CARRIER ...]" in the form of the netlink family; - leaves a value to the sysctl."""
    prefix, *values = line.split()
    addr, length = prefix.split("/")
    return {"prefix": socket.inet_pton(socket.AF_INET6 if ":" in addr else socket.AF_INET, addr), "len": int(length)} | \
        {name: int(value) for name, value in zip(ROUTE_VALUES, values) if value != "-"}


def set_routes(ns, *lines, how="set", **more):
    ns.hpcc().set(f"route-{how}", route=[route(line) for line in lines], **more)


def get_routes(ns):
    """Return a host's routes in the form of route(). The values after the carrier are left out if all of them are -."""
    def text(one):
        values = [str(one.get(name, "-")) for name in ROUTE_VALUES]
        return " ".join([f"{one['prefix']}/{one['len']}", *(values if set(values[2:]) != {"-"} else values[:2])])

    return [text(one) for part in ns.hpcc().dump("route-get") for one in part["route"]]


# Settings of a path that uses a carrier, for its ports and for both hosts.
CARRIERS = {
    "ioam": {"carrier": 1, "stamp": "tcp,ioam", "version": 6},
    "int": {"carrier": 2, "stamp": "tcp,int int_window 20us"},
    "ifa": {"carrier": 3, "stamp": "tcp,ifa"},
    "csig": {"carrier": 4, "stamp": "tcp,csig csig_time 2us int_window 400us", "push": "csig_push csig_time 2us",
             "delay": "200us", "csig_time": 2000, "known": []},
}


def carrier_path(name, **how):
    """Return a path of switches that use a carrier. `how` overrides the settings in CARRIERS."""
    return _carrier_path(**(CARRIERS[name] | how))


def _carrier_path(carrier, stamp, version=4, switches=2, push=None, known=None, delay=DELAY, **sysctls):
    """Return a path. Hosts know the links of the switches `known` (None: all), and stamp `push` unless it is None."""
    path = Path(version, switches, carrier=carrier, **sysctls)
    for node in range(1, switches + 1):
        for port, dev in enumerate(("left", "right"), 1):
            path.change(node, f"hpcc rate {MBPS}mbit delay {delay} node {node} port {port} stamp {stamp}", dev)
    for ns, dev in (path.a, "right"), (path.b, "left"):
        set_links(ns, *[(node, port, MBPS * 1000000) for node in range(1, switches + 1) if known is None or node in known
                   for port in (1, 2)])
        if push:
            ns.tc(f"qdisc change dev {dev} root hpcc stamp {push}")
    return path


class Path:
    """Hosts a and b with switches between them, each a bridge."""

    # Options of the qdiscs of hosts and switches.
    HOST = f"rate {MBPS}mbit delay {DELAY} nostamp"
    SWITCH = f"rate {MBPS}mbit delay {DELAY}"

    def __init__(self, version=4, switches=2, cc=("hpcc", "hpcc"), mtu=1500, **sysctls):
        self.version = version
        self.hosts = [Netns(**sysctls), Netns(**sysctls)]
        self.a, self.b = self.hosts
        self.switches = [Netns() for _ in range(switches)]
        self.nodes = [self.a, *self.switches, self.b]
        self.connect_nodes(mtu)
        for ns, name, dev in zip(self.hosts, cc, ("right", "left")):
            ns.sysctl("net.ipv4.tcp_congestion_control", name)
            ns.tc(f"qdisc add dev {dev} root hpcc {self.HOST}")
        for node, switch in enumerate(self.switches, 1):
            for port, dev in enumerate(("left", "right"), 1):
                switch.tc(f"qdisc add dev {dev} root handle 1: hpcc {self.SWITCH} node {node} port {port}")

    def add_links(self, mtu):
        """Yield both nodes of each new link."""
        for left, right in zip(self.nodes, self.nodes[1:]):
            left.ip(f"link add right mtu {mtu} type veth peer name left mtu {mtu} netns {right.path}")
            yield left, right

    def connect_nodes(self, mtu):
        """Connect the bridges, and give the hosts their addresses."""
        self.addr = ("10.0.0.1", "10.0.0.2") if self.version == 4 else ("fd00::1", "fd00::2")
        list(self.add_links(mtu))
        for switch in self.switches:
            switch.ip("link add br0 type bridge", "link set br0 up",
                      "link set left master br0 up", "link set right master br0 up")
        for ns, addr, dev in zip(self.hosts, self.addr, ("right", "left")):
            ns.ip(f"addr add {addr}/{24 if self.version == 4 else 64} dev {dev}", f"link set {dev} up")

    def change(self, node, how, dev="right", verb="change"):
        """Change the port of a switch, by default the port towards b."""
        self.switches[node - 1].tc(f"qdisc {verb} dev {dev} root handle 1: {how}")

    def port(self, node, dev="right"):
        """Return the statistics of a switch's port."""
        return self.switches[node - 1].port(dev)

    def connect(self, port=5000, cc=None, client=None):
        client = client or self.a.socket(self.version)
        if cc:
            set_cc(client, cc)
        client, server = meet(client, self.b.listen(self.addr[1], port))
        # T without the time for neighbour discovery
        client.send(b"x")
        server.recv(1)
        time.sleep(0.01)
        return client, server

    def no_errors(self):
        """Fail if a host has seen a wrong checksum or an invalid option."""
        for ns in self.hosts:
            expect("InCsumErrors", ns.snmp("InCsumErrors"), 0)
            counters = ns.counters()
            for name in ("checksum_ignored", "bad_hop_ignored", "unagreed_ignored"):
                expect(name, counters[name], 0)
            # After a guest has paused for 128 T, its clocks seem to have advanced too little, and
            # no link explains the retransmissions of late packets.
            for name in ("tx_excess_ignored", "unseen_loss"):
                expect_in(name, counters[name], 0, 0 if virtual_time() else 10)
            # Retransmissions of packets that were only late arrive outside the window, or late.
            for name in ("window_ignored", "ts_back_ignored"):
                if virtual_time():
                    expect(name, counters[name], 0)


def uses_telemetry(ns, hops=1, links=0):
    """Return whether a flow uses telemetry of at least this many hops, and has at least this many links."""
    flow = ns.flow()
    return (flow["mode"] == "telemetry" and flow["hops"] >= hops and (not links or len(ns.links()) >= links))


def dropped(path, node):
    """Return the drops of a switch's port per packet that it sent."""
    port = path.port(node)
    return port["drops"] / port["packets"]


def falls_back(path, carrier, why=None):
    """Check that the TCP option replaces a carrier, and that the receiver counts the reason."""
    client, server = path.connect()
    # a loaded host needs more transfers for the round trips without telemetry
    for i in range(40):
        transfer((client, server, pattern(400000, i)))
        if i > 6 and path.a.counters()[carrier + "_stopped"]:
            break
    expect("stopped", path.a.counters()[carrier + "_stopped"], 1)
    if why:
        expect_in(why, path.b.counters()[f"{carrier}_{why}"], 1, 100000)
    flow = path.a.flow()
    expect("mode, hops, probes", (flow["mode"], flow["hops"], flow["probes"]), ("telemetry", 2, 0))
    sent = path.a.counters()[carrier + "_sent"]
    transfer((client, server, pattern(100000)))
    expect("sent since", path.a.counters()[carrier + "_sent"], sent)
    path.no_errors()


# ---- A slow hop ----

def slow_hop(switches=3, **how):
    """Return a path whose second switch has a slow link, and the ends of a connection over it."""
    path = Path(switches=switches, **how)
    path.change(2, f"hpcc rate {MBPS // 4}mbit delay 20us node 2 port 2")
    return path, path.connect()


def look_while_sending(ends, nbytes, every, look):
    """Send data, and call look() at each `every`-th step of the transfer. Return the results of look()."""
    found, steps = [], 0

    def each():
        nonlocal steps
        steps += 1
        if steps % every == 0:
            found.append(look())

    transfer((*ends, pattern(nbytes)), each=each)
    return found


# ---- A receiver of a carrier ----

def take_carrier(peer, cap, *links, caps=0):
    """Let a peer and its kernel agree to a carrier. The kernel's table has these links. Return the peer."""
    set_links(peer.ns, *links)
    peer.listen()
    synack, _ = peer.accept(syn_option(caps=CAP_TELEMETRY | cap | caps))
    expect("announced", synack.option(253)[5] & cap, cap)
    return peer


def moved(ns, before, prefix):
    """Return the counters with a name prefix that changed."""
    return {name: n for name, n in (ns.counters() - before).items() if name.startswith(prefix)}


def mode_hops(ns):
    """Return the mode and the hops of the only flow."""
    flow = ns.flow()
    return flow["mode"], flow["hops"]


def utilization(path, ends, nbytes, node=1):
    """Send data. Return the rate of a switch's port during the transfer, as a share of MBPS."""
    before, start = path.port(node)["bytes"], time.monotonic()
    transfer((*ends, pattern(nbytes)))
    return (path.port(node)["bytes"] - before) * 8 / (time.monotonic() - start) / (MBPS * 1000000)
