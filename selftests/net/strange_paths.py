#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Paths on which LOCAL_OUT or LOCAL_IN runs twice, without the socket lock, on copies, or behind extension headers:
the transfer completes, both ends have the same state, and a segment has each of our options at most once.

HPCC_STRANGE_S=N: the test "flips" lasts N seconds.
"""

import itertools
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time

from lib.kernel import KernelLog, virtual_time
from lib.ktap import cases, defer, expect, expect_in, main
from lib.net import Netns, expect_none, meet
from lib.packet import (ECHO, FORWARD, IDENTIFY, IDENTIFY_ECHO, KIND, SYN, Sniffer, addresses, data_segments, sane)
from lib.plumbing import (EGRESS, FAIL_OPEN, GSO, INGRESS, REDIRECT_NEIGH, REDIRECT_PEER, Queue,
                          assign, attach_bpf, balance, redirect, redirect_once)
from lib.routed import CONNTRACK, Routed, add_md5, nft
from lib.tcp import TCP_CONGESTION, get_cc, goodput_mbps, let_go, pattern, set_cc, tcp_info, transfer, until

STRANGE_S = os.environ.get("HPCC_STRANGE_S") or "1"
if not re.fullmatch("[1-9][0-9]{0,5}", STRANGE_S):
    print(f"HPCC_STRANGE_S is {STRANGE_S}; it may be 1 to 999999", file=sys.stderr)
    sys.exit(2)
STRANGE_S = int(STRANGE_S)
OTHERS = (b"ldcp", b"cubic", b"reno", b"dctcp")
# INT_MIN, as for our hooks. Of hooks with equal priority the last registered hook is called first.
FIRST = -2147483648
PACKET_IGNORE_OUTGOING = 23
TCP_CLOSE = 7


class Wire(Sniffer):
    """Sniffs at a router's device: the kernel copies the header before it forwards, so no host gets a clone."""

    def __init__(self, ns, dev):
        super().__init__(ns, dev)
        self.sock.setsockopt(self.SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)


class Strange(Routed):
    """Hosts a and b with a router between them. A subclass adds what is special about the path."""

    versions = 4, 6
    routers = 1
    agrees = True       # both ends agree
    records = True      # a gets the router's records
    in_order = True     # packets stay in order
    plain = True        # TCP is readable on the wire,
    exact = True        # and segments are as LOCAL_OUT saw them
    checksums = True    # and checksums fit the addresses of the IP header
    unlocked = False    # LOCAL_OUT or LOCAL_IN run outside TCP's own context

    def __init__(self, version):
        # each segment shows whether the hook has seen it
        super().__init__(version, routers=self.routers, sample=0)
        for ns, dev in zip(self.hosts, ("right", "left")):
            ns.sysctl("net.ipv4.tcp_no_metrics_save", 1)
            if self.exact:
                ns.tc(f"qdisc change dev {dev} root hpcc no-split-gso")
        self.bits = 24 if version == 4 else 64
        self.family = "ip" if version == 4 else "ip6"
        self.target = (self.addr[1], 5000)      # the address that a connects to
        self.place = (self.addr[1], 5000)       # and the address that b listens on
        self.setup()

    def setup(self):
        """Set up what is special about the path."""

    def look(self):
        """Fail unless packets took the special path."""

    def dress(self, sock, i):
        """Set options of a socket of host i before it is bound or connected."""

    def new_socket(self, i, cc=None):
        """Return a socket of host i with its options."""
        sock = self.hosts[i].socket(self.version)
        self.dress(sock, i)
        if cc:
            set_cc(sock, cc)
        return sock

    def listener(self, cc):
        return self.hosts[1].listen(*self.place, sock=self.new_socket(1, cc))

    def open(self, cc, number=1, before=None):
        """Open connections. Return pairs of client and server."""
        listener = self.listener(cc)
        clients = [self.new_socket(0, cc) for _ in range(number)]
        if before:
            before(clients)
        pairs = []
        for client in clients:
            client.settimeout(60)
            pairs.append(meet(client, listener, self.target))
            # T without the time for neighbour discovery
            transfer((*pairs[-1], b"x"))
            time.sleep(0.01)
        listener.close()
        return pairs

    def counters(self):
        return [ns.counters() for ns in self.hosts]

    def far(self, i):
        """Return the network that host i reaches through the router."""
        return f"{self.at((1 - i) * self.routers, 0)}/{self.bits}"

    def gateway(self, i):
        """Return the router's address on the link to host i."""
        return self.at(0, 2) if i == 0 else self.at(self.routers, 1)


class Vrf(Strange):
    """vrf_l3_out() runs LOCAL_OUT for the VRF device, and ip_local_out() runs it for the other device."""

    def setup(self):
        for i, (ns, dev) in enumerate(zip(self.hosts, ("right", "left"))):
            ns.ip(f"addr flush dev {dev}")
            ns.ip("link add vrf0 type vrf table 10", "link set vrf0 up", f"link set {dev} master vrf0")
            self.plug(ns, dev, self.addr[i])
            ns.ip(f"route add {self.far(i)} via {self.gateway(i)} vrf vrf0")

    def dress(self, sock, i):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"vrf0\0")


class VrfQdisc(Vrf):
    """vrf_xmit() runs LOCAL_OUT, in softirq and without the socket lock."""

    unlocked = True

    def setup(self):
        super().setup()
        for ns in self.hosts:
            # This delay is long enough for the sender to release the socket.
            ns.tc("qdisc add dev vrf0 root netem delay 1ms limit 10000")


class Ipvs(Strange):
    """IPVS at one of the nodes forwards connections to b."""

    service, balancer = (1, 9), 0

    def setup(self):
        self.target = (self.at(*self.service), 80)
        balance(self.nodes[self.balancer], self.version, self.target, self.place)


class Queued(Strange):
    """NFQUEUE: TCP packets wait for a program in front of our hooks, which then run in that program's context."""

    hook, priority = "output", FIRST
    flags, maxlen = GSO, 100000
    unlocked = True

    def setup(self):
        self.queues = []
        for ns in self.hosts:
            nft(ns, f"""table inet wait {{ chain c {{
                type filter hook {self.hook} priority {self.priority};
                tcp dport != 22 counter queue flags bypass to 1;
            }}; }}""")
            self.queues.append(Queue(ns, self.flags, self.maxlen))

    def look(self):
        overtook = 0
        for ns, queue in zip(self.hosts, self.queues):
            expect_in("packets that waited", queue.taken, 200, 1000000)
            overtook += int(ns.run("nft", "list", "table", "inet", "wait")
                            .split("packets ")[1].split()[0]) - queue.taken
        print(f"# {overtook} packets did not wait", flush=True)
        # In virtual time the program runs before the next packet arrives.
        if not self.in_order and self.hook == "output":
            expect_in("packets that did not wait", overtook, 1, 1000000)


class Tee(Strange):
    """Other namespaces get copies of packets: of those that a sends, before our hook, and of those that b receives."""

    def setup(self):
        self.onlookers = []
        for ns, hook, priority in zip(self.hosts, ("output", "input"), (FIRST, 0)):
            other = Netns()
            ns.ip(f"link add mirror type veth peer name mirror netns {other.path}")
            mine, its = (("10.7.0.1", "10.7.0.2") if self.version == 4 else ("fd07::1", "fd07::2"))
            for end, addr in (ns, mine), (other, its):
                # the source address of neighbour discovery
                end.ip("link set mirror addrgenmode eui64")
                self.plug(end, "mirror", addr)
            nft(ns, f"""table {self.family} tee {{ chain c {{
                type filter hook {hook} priority {priority};
                tcp dport 5000 dup to {its} device "mirror";
            }}; }}""")
            self.onlookers.append(Sniffer(other, "mirror"))

    def look(self):
        for onlooker in self.onlookers:
            copies = onlooker.segments()
            expect_in("copies", len(copies), 200, 1000000)
            expect_once("copies", [seg for seg in copies if not seg.flags & SYN], True)


class Xfrm(Strange):
    """IPsec: transport and tunnel mode run LOCAL_OUT again, with the same socket."""

    plain = exact = records = False
    proto, mode = "esp", "transport"

    def setup(self):
        how = ("aead rfc4106(gcm(aes)) 0x" + "11" * 20 + " 128" if self.proto == "esp" else
               "auth hmac(sha256) 0x" + "11" * 32)
        for ns, mine in zip(self.hosts, self.addr):
            for src, dst, spi in ((*self.addr, 1), (*self.addr[::-1], 2)):
                ns.ip(f"xfrm state add src {src} dst {dst} proto {self.proto} spi {spi} reqid 1 "
                      f"mode {self.mode} {how}",
                      f"xfrm policy add src {src} dst {dst} dir {'out' if src == mine else 'in'} "
                      f"tmpl src {src} dst {dst} proto {self.proto} reqid 1 mode {self.mode}")


class Tproxy(Strange):
    """The second router answers with b's address: its prerouting hook assigns a socket to packets."""

    routers = 2

    def setup(self):
        proxy = self.switches[1]
        proxy.tc("qdisc change dev left root handle 1: hpcc no-split-gso")
        nft(proxy, f"""table {self.family} proxy {{ chain c {{
            type filter hook prerouting priority -150;
            {self.family} daddr {self.addr[1]} tcp dport 5000 tproxy to :6000 meta mark set 1 accept;
        }}; }}""")
        rule = "" if self.version == 4 else "-6 "
        proxy.run(*f"ip {rule}rule add fwmark 1 lookup 100".split())
        proxy.run(*f"ip {rule}route add local default dev lo table 100".split())
        self.hosts = [self.a, proxy]
        self.place = ("" if self.version == 4 else "::", 6000)

    def dress(self, sock, i):
        # IP_TRANSPARENT, IPV6_TRANSPARENT
        sock.setsockopt(*((socket.SOL_IP, 19) if self.version == 4 else (socket.IPPROTO_IPV6, 75)), 1)


class BpfAssign(Strange):
    """bpf_sk_assign() assigns the socket before TCP looks it up."""

    def setup(self):
        attach_bpf(self.a, "right", INGRESS, assign(self.version))
        attach_bpf(self.b, "left", INGRESS, assign(self.version), action=True)


def index(ns, dev):
    with ns:
        return socket.if_nametoindex(dev)


class BpfRedirect(Strange):
    """The router uses bpf_redirect_neigh() instead of forwarding, in a filter and in an action."""

    def setup(self):
        router = self.switches[0]
        for dev, other, action in (("left", "right", False), ("right", "left", True)):
            attach_bpf(router, dev, INGRESS, redirect(self.version, REDIRECT_NEIGH, index(router, other)), action)


class BpfPeer(Strange):
    """With bpf_redirect_peer() the packets of host "a" reach the namespace of host "b" without passing a qdisc."""

    records = False

    def setup(self):
        router = self.switches[0]
        attach_bpf(router, "left", INGRESS, redirect(self.version, REDIRECT_PEER, index(router, "right")))


class BpfVrf(Strange):
    """bpf_redirect() at egress sends packets into a VRF's qdisc: LOCAL_OUT runs again, in softirq."""

    unlocked = True

    def setup(self):
        for i, (ns, dev) in enumerate(zip(self.hosts, ("right", "left"))):
            ns.ip("link add vrf0 type vrf table 10", "link set vrf0 up",
                  f"route add {self.gateway(i)} dev {dev} table 10",
                  f"route add {self.far(i)} via {self.gateway(i)} dev {dev} table 10")
            ns.tc("qdisc add dev vrf0 root netem delay 10us limit 10000")
            attach_bpf(ns, dev, EGRESS, redirect_once(self.version, index(ns, "vrf0")))


class BrNetfilter(Strange):
    """All devices are ports of bridges that call the IP hooks."""

    def setup(self):
        for node, (ns, devs) in enumerate(zip(self.nodes, (("right",), ("left", "right"), ("left",)))):
            for dev in devs:
                link = node if dev == "right" else node - 1
                ns.ip(f"addr flush dev {dev}", f"link add br-{dev} type bridge", f"link set {dev} master br-{dev}")
                self.plug(ns, f"br-{dev}", self.at(link, 1 if dev == "right" else 2))
            for name in "iptables", "ip6tables":
                ns.sysctl(f"net.bridge.bridge-nf-call-{name}", 1)
            nft(ns, CONNTRACK)
        for i, ns in enumerate(self.hosts):
            ns.ip(f"route replace {self.far(i)} via {self.gateway(i)}")


IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR, IPV6_DSTOPTS = 54, 55, 57, 59
PADDING = b"\0\0\1\4" + bytes(4)


class Extended(Strange):
    """The socket adds extension headers. Hosts segment their GSO packets themselves: when Linux 6.1 forwards a GSO
    packet with destination options, it reads the TCP header's length from the sequence number, and may drop the packet.
    """

    versions = (6,)
    exact = False
    headers = ()

    def setup(self):
        for ns in self.nodes if IPV6_RTHDR in self.headers else ():
            for dev in "all", "left", "right":
                if dev == "all" or dev in ns.run("ip", "-o", "link"):
                    ns.sysctl(f"net.ipv6.conf.{dev}.seg6_enabled", 1)

    def dress(self, sock, i):
        for header in self.headers:
            data = PADDING
            if header == IPV6_RTHDR:            # segment routing through the router
                data = struct.pack("!BBBBBBH16x", 0, 4, 4, 1, 1, 0, 0) + addresses(self.gateway(i))
            sock.setsockopt(socket.IPPROTO_IPV6, header, data)


def variant(name, base, **members):
    """Return a subclass of a path."""
    return type(name, (base,), members)


IpvsClient = variant("IpvsClient", Ipvs)        # runs LOCAL_OUT again, with the server's address
BYPASS = {"flags": GSO | FAIL_OPEN, "maxlen": 2, "in_order": False}     # if the queue is full
QUEUED_IN = {"hook": "input", "priority": 0}
CASES = [
    Vrf, VrfQdisc, IpvsClient,
    # LOCAL_IN and LOCAL_OUT see segments of other hosts; the ports change between LOCAL_IN and the socket.
    variant("IpvsDirector", Ipvs, service=(0, 2), balancer=1), variant("IpvsServer", Ipvs, service=(1, 2), balancer=2),
    # Checksums are not computed yet; or checksums are computed and packets are segmented: our hook does not change
    # such packets.
    variant("QueuedOutGso", Queued), variant("QueuedOut", Queued, flags=0, agrees=False),
    variant("QueuedOutFailOpen", Queued, **BYPASS),     # under the socket lock
    variant("QueuedInGso", Queued, **QUEUED_IN), variant("QueuedIn", Queued, flags=0, **QUEUED_IN),
    variant("QueuedInFailOpen", Queued, **QUEUED_IN, **BYPASS), Tee,
    # Over IPv6 AH is an extension header in front of TCP.
    variant("EspTransport", Xfrm), variant("EspTunnel", Xfrm, mode="tunnel"),
    variant("AhTransport", Xfrm, proto="ah"), variant("AhTunnel", Xfrm, proto="ah", mode="tunnel"),
    Tproxy, BpfAssign, BpfRedirect, BpfPeer, BpfVrf,
    variant("DstOpts", Extended, headers=(IPV6_DSTOPTS,)), variant("HopOpts", Extended, headers=(IPV6_HOPOPTS,)),
    variant("RtHdr", Extended, headers=(IPV6_RTHDR,), checksums=False),
    variant("RtHdrDstOpts", Extended, headers=(IPV6_RTHDRDSTOPTS, IPV6_RTHDR), checksums=False),
    variant("AllHeaders", Extended, headers=(IPV6_HOPOPTS, IPV6_RTHDRDSTOPTS, IPV6_RTHDR, IPV6_DSTOPTS),
            checksums=False)]
subprocess.run(["modprobe", "-q", "br_netfilter"], check=False)
if os.path.exists("/proc/sys/net/bridge"):
    CASES.append(BrNetfilter)


# ---- What must hold on each path ------------------------------------------------------------------

def both_ways(client, server, nbytes, salt=0):
    """Send data to the server, a quarter of it back, then messages of one segment each."""
    transfer((client, server, pattern(nbytes, salt)), (server, client, pattern(nbytes // 4, 3)))
    for i in range(10):
        transfer((client, server, pattern(100, i)))
        transfer((server, client, pattern(100, i)))


def finish(pair):
    """Close both ends after all of their segments have arrived. A pause without segments does not show this: packets that
    wait in a qdisc, as in VrfQdisc, or for NFQUEUE's program continue only when a busy machine has time for them.
    """
    for sock in pair:
        sock.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + 60
    while (states := [tcp_info(sock)["state"] for sock in pair]) != [TCP_CLOSE] * 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    expect("states of TCP after both ends have sent FIN and got its ACK", states, [TCP_CLOSE] * 2)
    for sock in pair:
        sock.close()


def speed_mbps(path, cc):
    """Return the goodput of a congestion control on a path, and the connection."""
    client, server = path.open(cc)[0]
    both_ways(client, server, 200000)
    return goodput_mbps(client, server, 600000), client, server


def expect_state(path, client, server):
    """Fail unless both ends show whether they agreed, and a flow without telemetry runs classic."""
    expect("agreed", [end["agreed"] for end in path.counters()], [int(path.agrees)] * 2)
    if not path.agrees:
        expect("congestion controls", (get_cc(client), get_cc(server)), ("hpcc-classic",) * 2)
        return
    until(lambda: (get_cc(client) == "hpcc") == path.records, lambda: both_ways(client, server, 50000))
    expect("congestion control", get_cc(client), "hpcc" if path.records else "hpcc-classic")
    if path.records:
        expect("mode", path.a.flow(client)["mode"], "telemetry")


def expect_intact(path, timeouts):
    """Fail if a host has seen a wrong checksum, an option that should not exist, or in virtual time a timeout."""
    for ns, before in zip(path.hosts, timeouts):
        expect("InCsumErrors", ns.snmp("InCsumErrors"), 0)
        expect_none(ns, "checksum_ignored", "malformed_ignored", "unagreed_ignored", "bad_hop_ignored",
                    "syn_invalid", "syn_no_room")
        if virtual_time() and path.in_order:
            expect("timeouts", ns.snmp("TcpExtTCPTimeouts"), before)
            expect_none(ns, "window_ignored")


def expect_once(what, segments, agrees):
    """Fail unless each segment has each of our options at most once, and each SYN once, or never if not agreed."""
    for seg in segments:
        ours = [raw for kind, raw in seg.walk() if kind == KIND]
        if seg.flags & SYN:
            expect(f"options in {what}, {seg}", len(ours), int(agrees))
            continue
        types = [raw[2] >> 5 for raw in ours]
        for one, other in (FORWARD, IDENTIFY), (ECHO, IDENTIFY_ECHO):
            expect_in(f"options {one} or {other} in {what}, {seg}", types.count(one) + types.count(other), 0, 1)


def without_request(segments):
    return [seg for seg in data_segments(segments) if not seg.telemetry(FORWARD) and not seg.telemetry(IDENTIFY)]


def expect_counted(what, segments, changed):
    """Fail unless the counters match the options in the segments."""
    for name, kinds in (("forward_sent", (FORWARD,)), ("identify_sent", (IDENTIFY,)),
                        ("echo_sent", (ECHO, IDENTIFY_ECHO))):
        expect(f"{what}: {name}", changed.get(name, 0), sum(
            any(seg.telemetry(kind) for kind in kinds) for seg in segments if not seg.flags & SYN))
    if changed.get("agreed"):
        expect_in(f"{what}: no_room", changed.get("no_room", 0), len(without_request(segments)),
                  len([seg for seg in segments if seg.option(5)]))


def expect_on_the_wire(path):
    """Send over a connection, and check its segments as they arrive at the router."""
    wires = [Wire(path.switches[0], dev) for dev in ("left", "right")]
    before = path.counters()
    pair = path.open("hpcc")[0]
    both_ways(*pair, 100000)
    finish(pair)
    expect("agreed", [now["agreed"] - then["agreed"] for now, then in
                      zip(path.counters(), before)], [int(path.agrees)] * 2)
    for what, wire, now, then in zip("ab", wires, path.counters(), before):
        segments = wire.segments()
        what += "'s segments"
        if not path.plain:
            expect(what, segments, [])
            continue
        expect_in(f"number of {what}", len(segments), 30, 2000)
        if path.checksums:
            sane(segments)
        expect_once(what, segments, path.agrees)
        if path.exact:
            expect_counted(what, segments, now - then)


def check(case, version):
    path = case(version)
    cubic, *pair = speed_mbps(path, "cubic")
    finish(pair)
    timeouts = [ns.snmp("TcpExtTCPTimeouts") for ns in path.hosts]      # neighbour discovery may have caused some
    ours, *pair = speed_mbps(path, "hpcc")
    print(f"# IPv{version}: hpcc {ours:.0f} Mbit/s, cubic {cubic:.0f}", flush=True)
    expect_state(path, *pair)
    finish(pair)
    if virtual_time() and path.in_order:
        expect_in("Mbit/s", ours, 0.8 * cubic, 1000)
    expect_on_the_wire(path)
    path.look()
    expect_intact(path, timeouts)


@cases(**{"".join("_" * c.isupper() + c.lower() for c in case.__name__)[1:]: (case,) for case in CASES})
def each_version(case):
    for version in case.versions:
        check(case, version)


# ---- Segments that pass LOCAL_OUT twice, because of VRF or IPVS ------------------------------------------

def test_vrf_route():
    """The congestion control that the route to the peer names is used, also if a VRF delays packets in a qdisc."""
    for case, version, (chosen, named) in itertools.product(
            (Vrf, VrfQdisc), (4, 6), (("cubic", "hpcc"), ("hpcc", "cubic"))):
        path = case(version)
        path.a.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
        path.b.ip(f"route replace {path.far(1)} via {path.gateway(1)} vrf vrf0 congctl {named}")
        _, server = meet(path.new_socket(0), path.listener(chosen), path.target)
        what = f"{case.__name__}, IPv{version}, listener {chosen}, route {named}"
        expect(f"{what}: server", get_cc(server), named)
        expect(f"{what}: SYN-ACKs", path.b.counters()["syn_sent"], int(named == "hpcc"))
        expect(f"{what}: agreed", [ns.counters()["agreed"] for ns in path.hosts], [int(named == "hpcc")] * 2)


def no_room_once(case, version):
    """Send a signed SYN, and data whose options have no space because the socket has set longer headers."""
    path = case(version)
    what = f"{case.__name__}, IPv{version}"
    path.a.sysctl("net.hpcc.burst", 1)         # so that the hook runs for each segment
    client, server = path.open("hpcc")[0]
    if version == 6:
        wire = Wire(path.switches[0], "left")
        before = path.a.counters()
        client.setsockopt(socket.IPPROTO_IPV6, IPV6_DSTOPTS, b"\0\1\x1e\14" + bytes(12))
        transfer((client, server, pattern(100000)))
        without = without_request(wire.segments())
        expect_in(f"{what}: segments without a request", len(without), 1, 1000)
        expect(f"{what}: no_room", (path.a.counters() - before).get("no_room", 0), len(without))
    if isinstance(path, Vrf):
        signed = path.new_socket(0, "hpcc")
        add_md5(signed, version, path.addr[1])
        signed.setblocking(False)
        signed.connect_ex((path.addr[1], 5001))
        time.sleep(0.1)
        expect(f"{what}: syn_no_room", path.a.counters()["syn_no_room"], 1)


def test_no_room_once():
    """A segment without space is counted once. IPv4 data always have space; IPVS has no signed SYN."""
    for case, version in (Vrf, 4), (Vrf, 6), (VrfQdisc, 4), (VrfQdisc, 6), (IpvsClient, 6):
        no_room_once(case, version)


# ---- Congestion controls that change during a transfer ---------------------------------------------------

def flip(socks, cpu):
    """Fork a child that changes the sockets' congestion control until it is killed. Return its pid."""
    child = os.fork()
    if child:
        return child
    os.nice(5)                                  # otherwise the transfer would hardly run
    rng = random.Random(cpu)
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[cpu % len(cpus)]})
    while True:
        sock, other = rng.choice(socks), rng.choice(OTHERS)
        for _ in range(1 if virtual_time() else 200):
            for name in b"hpcc", other:
                try:
                    sock.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, name)
                except OSError:
                    break                       # the peer has closed it
        if virtual_time():
            time.sleep(50e-6)


def end(children):
    while children:
        child = children.pop()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def flips(case, version, seconds):
    """Send data while a program for each host changes the congestion control of its sockets. Return the bytes sent."""
    path = case(version)
    for ns in path.hosts:
        for dev in "left", "right", "vrf0":     # so that the hook runs for each segment, not for 40 segments
            ns.run("ethtool", "-K", dev, "tso", "off", "gso", "off", check=False)
    children = []
    defer(end, children)
    size = 30000 if virtual_time() else 200000
    until_when = time.monotonic() + seconds
    sent = 0
    while not sent or time.monotonic() < until_when:
        pairs = path.open("hpcc", 4, lambda clients: children.append(flip(clients, 0)))
        children.append(flip([server for _, server in pairs], 1))
        for _ in range(4):
            # Two connections carry data in both directions; on two other connections one end sends only ACKs.
            transfer(*[(client, server, pattern(size, i)) for i, (client, server) in enumerate(pairs[:3])],
                     *[(server, client, pattern(size, 9 + i)) for i, (client, server) in enumerate(pairs[1:])],
                     timeout_s=300)
            sent += 6 * size
            if time.monotonic() >= until_when:
                break
        end(children)
        for sock in sum(pairs, ()):
            let_go(sock)
    expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])
    return sent


def test_flips():
    """Data arrive, and the kernel log has no complaints. Hooks without the socket lock are tested for longer."""
    log = KernelLog()
    todo = [(case, version, 4 if case.unlocked else 1) for case in CASES for version in case.versions]
    share = STRANGE_S / sum(weight for _, _, weight in todo)
    for case, version, weight in todo:
        sent = flips(case, version, share * weight)
        print(f"# {case.__name__}, IPv{version}: {sent} bytes", flush=True)
        expect(f"kernel log after {case.__name__}", log.complaints(), [])


main(modules=["sch_hpcc", "tcp_ldcp"], commands=["nft"])
