#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""sch_hpcc on stacks of devices: which packets get records, the hops of a flow, and B, also after changes."""

import fcntl
import os
import socket
import struct
import time

from lib.kernel import release
from lib.ktap import cases, defer, expect, expect_in, main
from lib.net import Netns, meet
from lib.plumbing import Worker, attach_xdp_redirect, set_team
from lib.tcp import get_cc, pattern, transfer, until

GBIT = 10 ** 9
IFF_TAP, IFF_NO_PI, IFF_MULTI_QUEUE = 2, 0x1000, 0x100
LACP_S = 5          # the links are in one aggregate
T_NS = 1000000


def index(ns, dev):
    with ns:
        return socket.if_nametoindex(dev)


# Commands for a link. iproute2 before 6.7 cannot name the peer of a netkit device.
LINK = {
    "veth": ("link add e{i} type veth peer name e{i} netns {b}",),
    "netkit": ("link add e{i} type netkit", "link set nk0 netns {b} name e{i}"),
}


class Stack:
    """Hosts a and b with a router r between them. Links e0, e1, ... connect r and b. Below the device `top` of each they
    are stacked by `lines` of ip(8), and on the router also by `router`.
    """

    def __init__(self, top="top", lines=(), router=(), links=1, team=None, kind="veth"):
        self.a, self.r, self.b = Netns(), Netns(), Netns()
        self.a.ip(f"link add eth0 type veth peer name in0 netns {self.r.path}", "addr add 10.0.0.1/24 dev eth0",
                  "link set eth0 up", "route add 10.1.0.0/24 via 10.0.0.2")
        self.a.tc("qdisc add dev eth0 root hpcc rate 1gbit delay 20us nostamp")
        for i in range(links):
            self.r.ip(*(line.format(i=i, b=self.b.path) for line in LINK[kind]))
        self.r.sysctl("net.ipv4.ip_forward", 1)
        for ns in self.a, self.b:
            ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
        for ns, addr in (self.r, "10.1.0.1"), (self.b, "10.1.0.2"):
            if team:
                mac = "02:00:00:00:00:0" + addr[-1]
                ns.ip("link add top type team", *(f"link set {dev} address {mac}" for dev in ("top", "e0", "e1")))
                set_team(ns, "top", "mode", team)
            ns.ip(*lines, *(router if ns is self.r else ()))
            ns.ip(*(f"link set e{i} up" for i in range(links)), f"link set {top} up", f"addr add {addr}/24 dev {top}")
        self.r.ip("addr add 10.0.0.2/24 dev in0", "link set in0 up")
        self.b.ip("route add 10.0.0.0/24 via 10.1.0.1")

    def connected(self):
        """Return both ends of a connection from a to b."""
        return meet(self.a.socket(), self.b.listen("10.1.0.2"))

    def b_gbit(self, dev="top"):
        """Return B of a port. The port of a stacked device follows the devices below from a work item."""
        time.sleep(0.1)
        return self.r.port(dev)["hpcc"]["bandwidth"] * 8 / GBIT

    def expect_stamps(self, ports, hops):
        """Fail unless all ports have their B, in Gbit/s, and data pass ports of these B, each with one record."""
        for number, dev in enumerate(ports, 1):
            if not self.r.port(dev):
                self.r.tc(f"qdisc add dev {dev} root hpcc node 7 port {number}")
            expect(f"B of {dev}", self.b_gbit(dev), ports[dev])
        ends = self.connected()
        self.a.ask()
        for i in range(4):
            transfer((*ends, pattern(100000, i)))
            time.sleep(0.02)
        until(lambda: get_cc(ends[0]) == "hpcc", lambda: transfer((*ends, pattern(100000))))
        flow = self.a.flow(ends[0])
        expect("congestion control, mode, hops", (get_cc(ends[0]), flow["mode"], flow["hops"]),
               ("hpcc", "telemetry", len(hops)))
        expect("B of the hops", [rate / GBIT for _, _, rate in self.a.links(ends[0]).values()], hops)
        stats = [qdisc["hpcc"] for dev in ports for qdisc in self.r.qdiscs(dev) if qdisc["kind"] == "hpcc"]
        requests = self.a.counters()["forward_sent"]
        expect_in("records", sum(port["stamped"] for port in stats), requests * len(hops), 2 * requests * len(hops))
        for port in stats:
            expect("records that failed", {why: port["unstamped"][why] for why in ("malformed", "no_memory", "full")},
                   {"malformed": 0, "no_memory": 0, "full": 0})


def bond(mode, links=2):
    """Return commands for a bond of links."""
    more = " lacp_rate fast" if mode == "802.3ad" else ""
    return (f"link add top type bond mode {mode} miimon 10{more}",
            *(line for i in range(links) for line in (f"link set e{i} down", f"link set e{i} master top")))


TEAM = "link set e0 master top", "link set e1 master top"
LINKS = {"e0": 10, "e1": 10}
VLAN = "link set top up", "link add link top name top.5 type vlan id 5"
BRIDGE = ("link add top type bridge vlan_filtering 1 vlan_default_pvid 5", "link set e0 master top")
VRF = "link add vrf0 type vrf table 10", "link set vrf0 up", "link set in0 master vrf0", "link set e0 master vrf0"
# The stack, the router's ports with their B in Gbit/s, and B of the hops of a flow.
STACKS = {
    "veth": ({"top": "e0"}, {"e0": 10}, [10]),
    **{"bond_" + mode: ({"lines": bond(mode), "links": 2}, {"top": rate}, [rate]) for mode, rate in (
        ("active-backup", 10), ("balance-rr", 20), ("802.3ad", 20), ("balance-xor", 20), ("broadcast", 10),
        ("balance-tlb", 20), ("balance-alb", 20))},
    **{f"links_of_bond_{mode}": ({"lines": bond(mode), "links": 2}, LINKS, [10]) for mode in (
        "active-backup", "802.3ad", "balance-xor", "balance-tlb", "balance-alb")},
    "bond_and_links": ({"lines": bond("balance-xor"), "links": 2}, {"top": 20} | LINKS, [20, 10]),
    "bond_vlan": ({"lines": bond("balance-rr") + VLAN, "links": 2, "top": "top.5"}, {"top.5": 20}, [20]),
    "bond_macvlan": ({"lines": bond("active-backup") + ("link add link top name mac0 type macvlan mode bridge",
                                                        "link set top up"), "links": 2, "top": "mac0"}, {"mac0": 10}, [10]),
    # The kernel reports the sum for each mode.
    **{f"team_{mode}": ({"lines": TEAM, "links": 2, "team": mode}, {"top": 20}, [20]) for mode in (
        "roundrobin", "loadbalance", "activebackup", "broadcast")},
    "macvlan_and_link": ({"lines": ("link add link e0 name top type macvlan mode bridge",)}, {"top": 10, "e0": 10}, [10, 10]),
    "macvtap": ({"lines": ("link add link e0 name top type macvtap mode bridge",)}, {"top": 10}, [10]),
    "ipvlan": ({"lines": ("link add link e0 name top type ipvlan mode l2",)}, {"top": 10}, [10]),
    "vlan_and_link": ({"lines": ("link add link e0 name top type vlan id 5",)}, {"top": 10, "e0": 10}, [10, 10]),
    "vrf": ({"top": "e0", "router": VRF}, {"e0": 10}, [10]),
    "bridge": ({"lines": BRIDGE}, {"top": 10, "e0": 10}, [10, 10]),
}
if release() >= (6, 7):
    STACKS["netkit"] = {"kind": "netkit", "top": "e0"}, {"e0": 10}, [10]


# ---- Records ----

@cases(**{name.replace("-", "_"): (name,) for name in STACKS})
def stamps(name):
    """The ports of a stack have B of the devices below, and write one record each."""
    how, ports, hops = STACKS[name]
    stack = Stack(**how)
    if name == "team_activebackup":
        for ns in stack.r, stack.b:
            set_team(ns, "top", "activeport", index(ns, "e0"))
    time.sleep(LACP_S if "802" in name else 0.1)
    stack.expect_stamps(ports, hops)


@cases(links_of_bond_balance_rr=("balance-rr", ("hpcc",)),
       links_of_bond_broadcast=("broadcast", ("hpcc", "hpcc-classic")))
def wrong_place(mode, allowed):
    """Data arrive if ports are on the links of a bond that sends one flow over several links, but the names of the links
    change with each packet (balance-rr), or packets arrive twice, so that telemetry may be unusable (broadcast).
    """
    stack = Stack(lines=bond(mode), links=2)
    stack.r.tc(*(f"qdisc add dev e{i} root hpcc node 7 port {i}" for i in (0, 1)))
    time.sleep(0.1)
    ends = stack.connected()
    stack.a.ask()
    for i in range(4):
        transfer((*ends, pattern(100000, i)))
        time.sleep(0.02)
    if mode == "balance-rr":
        expect("names of links", stack.a.links(ends[0]), {})
    expect("congestion control", get_cc(ends[0]) in allowed, True)


def test_ifb():
    """Redirected to an ifb device, packets get its record. It has no speed, so B is 10 Gbit/s."""
    stack = Stack("e0", router=("link add ifb0 type ifb", "link set ifb0 up"))
    stack.r.tc("qdisc add dev in0 clsact",
               "filter add dev in0 ingress matchall action mirred egress redirect dev ifb0")
    stack.expect_stamps({"ifb0": 10, "e0": 10}, [10, 10])


class Cable(Worker):
    """TAP devices of namespaces with several queues each, and a thread that moves frames from one to the other."""

    def __init__(self, *spaces, queues=2):
        self.ends = [[self.open(ns) for _ in range(queues)] for ns in spaces]
        self.start(*self.ends[0], *self.ends[1])

    @staticmethod
    def open(ns, name=b"top", flags=IFF_MULTI_QUEUE):
        """Return a queue of a TAP device."""
        with ns:
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, 0x400454ca, struct.pack("16sH22x", name, IFF_TAP | IFF_NO_PI | flags))    # TUNSETIFF
        defer(os.close, fd)
        return fd

    def work(self, ready):
        """Move a frame from each queue."""
        for fd in ready:
            other = self.ends[fd in self.ends[0]]
            os.write(other[0], os.read(fd, 1 << 16))


def test_tun_queues():
    """The queues of a TAP device below mq are one port. The device reports the speed that a program sets for it."""
    stack = Stack("e0")
    cable = Cable(stack.r, stack.b)
    stack.r.run("ethtool", "-s", "top", "speed", "2500", "duplex", "full")
    stack.r.tc("qdisc add dev top root handle 1: mq",
               *(f"qdisc add dev top parent 1:{i} hpcc node 7 port 1" for i in (1, 2)))
    for ns, addr in (stack.r, "10.1.0.1"), (stack.b, "10.1.0.2"):
        ns.ip("addr flush dev e0", f"addr add {addr}/24 dev top", "link set top up")
    stack.b.ip("route replace 10.0.0.0/24 via 10.1.0.1")
    stack.expect_stamps({"top": 2.5}, [2.5])
    expect("queues of the port", stack.r.port("top")["hpcc"]["port_queues"], 2)
    expect("ends", len(cable.ends), 2)


def test_xdp_redirect():
    """Packets that XDP redirects pass no qdisc: they get no record, and the connection works without telemetry."""
    stack = Stack("e0")
    stack.a.ip("addr flush dev eth0", "addr add 10.1.0.3/24 dev eth0")
    # The driver redirects only to a device with GRO, and loses the request for a checksum.
    for ns, dev in (stack.a, "eth0"), (stack.b, "e0"):
        ns.run("ethtool", "-K", dev, "gro", "on", "tx", "off")
    stack.r.tc("qdisc add dev e0 root hpcc node 7 port 1")
    for dev, other in ("in0", "e0"), ("e0", "in0"):
        attach_xdp_redirect(stack.r, dev, other)
    client, server = stack.connected()
    for i in range(10):
        transfer((client, server, pattern(100000, i)), (server, client, pattern(1000, i)))
    expect("agreed", [ns.counters()["agreed"] for ns in (stack.a, stack.b)], [1, 1])
    expect("congestion control", get_cc(client), "hpcc-classic")
    expect("TCP packets of the port", stack.r.port("e0")["hpcc"]["unstamped"]["no_option"], 0)
    expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in (stack.a, stack.b)], [0, 0])


# ---- Changes of B ----

def taps(ns, *mbps):
    """Create TAP devices t0, t1, ... that report these speeds."""
    for i, speed in enumerate(mbps):
        Cable.open(ns, b"t%d" % i, 0)
        ns.run("ethtool", "-s", f"t{i}", "speed", str(speed), "duplex", "full")
    return ns


def bond_of_taps(mode, *mbps):
    """Return a namespace with a bond of TAP devices with these speeds."""
    ns = taps(Netns(), *mbps)
    ns.ip(*(line.replace(" e", " t") for line in bond(mode, len(mbps))), "link set top up")
    time.sleep(0.1)
    return ns


def test_failover():
    """B is the speed of the active link of a bond, for ports on the bond and on a VLAN above it."""
    ns = bond_of_taps("active-backup", 1000, 25000)
    ns.ip("link add link top name top.5 type vlan id 5", "link set top.5 up")
    ns.tc(*(f"qdisc add dev {dev} root hpcc" for dev in ("top", "top.5")))
    for change, want in ((), 1), (("link set top type bond active_slave t1",), 25), (("link set t1 down",), 1), \
            (("link set t1 up", "link set t0 down"), 25):
        ns.ip(*change)
        time.sleep(0.1)
        expect(f"B after {change}", [ns.port(dev)["hpcc"]["bandwidth"] * 8 / GBIT for dev in ("top", "top.5")], [want] * 2)


@cases(sum_balance_rr=("balance-rr",), sum_802_3ad=("802.3ad",), sum_team=(None,))
def follows(mode):
    """B is the sum of the links that send: also while a link is down, has no carrier, or has left."""
    stack = Stack(lines=bond(mode) if mode else TEAM, links=2, team=None if mode else "roundrobin")
    wait_s = LACP_S if mode == "802.3ad" else 0.1
    time.sleep(wait_s)
    stack.r.tc("qdisc add dev top root hpcc")
    expect("B", stack.b_gbit(), 20)
    for ns, down, up in (stack.r, "e1 down", "e1 up"), (stack.b, "e1 down", "e1 up"), (stack.r, "e1 nomaster", None):
        for change, want in (down, 10), (up, 20):
            if change:
                ns.ip(f"link set {change}")
                time.sleep(wait_s)
                expect(f"B after {change}", stack.b_gbit(), want)


def test_impossible_speed():
    """Any program may set the speed of its TAP device. Above 10 Tbit/s it counts as unknown, also below a VLAN."""
    ns = taps(Netns(), 20000000)
    ns.ip("link set t0 up", "link add link t0 name t0.5 type vlan id 5", "link set t0.5 up")
    for dev in "t0", "t0.5":
        ns.tc(f"qdisc add dev {dev} root hpcc")
        expect(f"B of {dev}, Gbit/s", ns.port(dev)["hpcc"]["bandwidth"] * 8 / GBIT, 10)


def test_hosts():
    """A host whose route leads to a bond, and a container with a macvlan on it, begin with B of the bond: W is B x T."""
    stack = Stack(lines=bond("balance-rr"), links=2)
    pod = Netns()
    stack.r.ip("link add link top name mac0 type macvlan mode bridge", f"link set mac0 netns {pod.path}")
    pod.ip("addr add 10.1.0.3/24 dev mac0", "link set mac0 up")
    for ns in stack.r, pod:
        ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
        ns.sysctl("net.hpcc.base_rtt_ns", T_NS)
    for port, (change, mbps) in enumerate((("e1 up", 20000), ("e1 down", 10000), ("e1 up", 20000)), 5000):
        stack.r.ip("link set " + change)
        time.sleep(0.1)
        listener = stack.b.listen("10.1.0.2", port)
        for name, ns in ("host", stack.r), ("pod", pod):
            client = ns.socket()
            client.connect(("10.1.0.2", port))
            expect(f"W of the {name} after {change}", ns.flow(client)["W"], mbps * T_NS // 8000)
        listener.close()


@cases(unequal=("balance-rr", (1000, 25000), "", True), unequal_bandwidth=("balance-rr", (1000, 25000), "bandwidth 1gbit", False),
       equal=("balance-rr", (25000, 25000), "", False), equal_unknown=("balance-rr", (25000, 0), "", False),
       unequal_backup=("active-backup", (1000, 25000), "", False))
def warns(mode, mbps, options, want):
    """tc shows a warning if B is the sum of different speeds."""
    ns = bond_of_taps(mode, *mbps)
    for verb in "add", "change":
        said = ns.tc(f"qdisc {verb} dev top root hpcc limit 1mb {options}")
        expect(f"warning in {said!r}", "B is the sum of links with different speeds" in said, want)


main(modules=["sch_hpcc"])
