#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""A host with the modules delivers packets to its sockets as a host without the modules does."""

import difflib
import fcntl
import itertools
import os
import re
import select
import socket
import struct
import subprocess
import tempfile

from lib.kernel import load, release, unload, virtual_time
from lib.ktap import compiled, defer, expect, expect_in, main
from lib.net import Netns, Pair, loaded_again
from lib.packet import ACK, FORWARD, SYN, addresses, option, pseudo, with_csum
from lib.path import set_links
from lib.peer import SCALE, T_NS, Link, Peer
from lib.routed import nft, sysfs
from lib.tcp import pattern, transfer

PACKETS = int(os.environ.get("HPCC_FUZZ_PACKETS") or (40000 if virtual_time() else 4000))
SEED = int(os.environ.get("HPCC_FUZZ_SEED") or 1)
PROGRAM = compiled("packets")
# The modules are unloaded for this many packets, and loaded for the same packets.
TURN = 40000

IPV6_DSTOPTS = 59
UDP, TCP, FRAGMENT, ICMP6, DSTOPTS = 17, 6, 44, 58, 60

# The input chain drops packets to these ports, which have a listener and a socket.
FILTERED = 6001
FIREWALL = f"""table inet wall {{ chain input {{
    type filter hook input priority 0
    tcp dport {FILTERED} drop
    udp dport {FILTERED} drop
}}; }}"""

# ---- Single cases ----

def dstopts(nexthdr):
    return struct.pack("!BBBB", nexthdr, 0, 1, 4) + bytes(4)


def behind(packet, nexthdr, headers):
    """Return an IPv6 packet with extension headers in front of its payload."""
    return (packet[:4] + struct.pack("!H", len(packet) - 40 + len(headers)) +
            bytes([nexthdr, packet[7]]) + packet[8:40] + headers + packet[40:])


def sled(end, header):
    """Return payload from the end of a TCP header of `header` bytes up to the offset `end` from the header's start."""
    # If the header is parsed as an IPv6 extension header, each word of the payload is an option that reaches to `end`.
    return b"".join(struct.pack("!BBBB", 0x1e, end - at - 2, 0, 0) for at in range(header, end, 4))


def hidden(peer, nexthdr, dport):
    """Return a packet without its IP header, with a correct checksum."""
    if nexthdr == UDP:
        raw, at = struct.pack("!HHHH", 4000, dport, 14, 0) + b"hidden", 6
    elif nexthdr == ICMP6:
        raw, at = struct.pack("!BBHHH", 128, 0, 0, 1, 1) + b"echo", 2
    else:
        raw, at = struct.pack("!HHIIBBHHH", 4000, dport, 1, 0, 5 << 4, SYN, 1000, 0, 0), 16
    return with_csum(raw, at, pseudo(addresses(peer.addr, peer.kernel), len(raw), nexthdr))


def test_firewall_bypass():
    """A packet that is hidden in the payload of a segment behind destination options is not delivered."""
    # If the TCP header were parsed as a second extension header, the port would mean this protocol after 264 bytes.
    for nexthdr, port in (UDP, 0x1120), (TCP, 0x620):
        peer = Peer(6)
        nft(peer.ns, FIREWALL)
        with peer.ns:
            udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            udp.bind(("::", FILTERED))
        wall = peer.ns.socket(6)
        wall.bind(("::", FILTERED))
        wall.listen()
        peer.port = port
        # If the TCP header is parsed as an extension header, the destination port is an option with 0x40 bytes of data.
        peer.listen(0x1e40)
        _, sock = peer.accept()
        sock.settimeout(1)
        options = option(FORWARD, [Link(1).raw()], peer.flow().get("scale", 7))
        for dport in FILTERED, FILTERED + 1:
            for far in 0, 1 << 30:
                data = sled(264, 20 + 12) + hidden(peer, nexthdr, dport)
                packet = peer.packet(ACK, peer.seq + far, peer.acked, peer.stamp() + options, data)
                os.write(peer.fd, behind(packet, DSTOPTS, dstopts(packet[6])))
                expect("filtered socket", select.select([udp], [], [], 0)[0], [])
                while select.select([peer.fd], [], [], 0.1)[0]:
                    answer = os.read(peer.fd, 1 << 16)
                    expect("ICMPv6 answer", (answer[6], answer[40:42]), (TCP, struct.pack("!H", 0x1e40)))
                if not far:
                    peer.seq += len(data)
                    expect("payload", sock.recv(4096), data)
        udp.close()


def test_checksum_of_another():
    """The correct checksum of a segment proves nothing about a packet that another parser finds in the segment."""
    # conntrack of 6.1 removes an atomic fragment header from behind destination options, and the kernel then parses the
    # TCP header as another extension header: source port 0x3a20 means ICMPv6 after 264 bytes.
    peer = Peer(6)
    nft(peer.ns, "table inet track { chain input { type filter hook input priority 0; ct state invalid counter; }; }")
    peer.port = 0x3a20
    peer.listen(0x1e40)
    peer.accept()
    flow = peer.flow()
    headers = dstopts(FRAGMENT) + struct.pack("!BBHI", TCP, 0, 0, 1)
    answers = []
    for wrong in False, True:
        options = peer.stamp() + option(FORWARD, [Link(1).raw()], flow.get("scale", 7))
        echo = bytearray(hidden(peer, ICMP6, 0))
        echo[-1] ^= wrong
        packet = peer.packet(ACK, peer.seq, peer.acked, options, sled(264, 20 + len(options)) + echo)
        os.write(peer.fd, behind(packet, DSTOPTS, headers))
        found = []
        while select.select([peer.fd], [], [], 0.1)[0]:
            found.append(os.read(peer.fd, 1 << 16)[6])
        answers.append(found.count(ICMP6))
    print("# answers to echo requests with a right and a wrong checksum:", answers)
    # The missing answer to the wrong packet is a proof only if the kernel answers the right packet.
    if release() == (6, 1):
        expect("answers to the right packet", answers[0], 1)
    expect("answers to the wrong packet", answers[1], 0)


def losses(ns):
    """Return counters that increase if a segment is lost, or in real time is late, which causes loss probes."""
    names = ["RetransSegs", "TcpExtTCPLossProbes"] if virtual_time() else []
    return {name: ns.snmp(name) for name in ("TcpExtTCPTimeouts", *names)}


def test_dstopts_between_hosts():
    """Two hosts send with IPV6_DSTOPTS, and lose no segment. The server sets this option before or after accept()."""
    # After accept() the kernel does not reduce the MSS (ipv6_update_options()), so full segments of Reno would exceed
    # the MTU by these 8 bytes. Segments of hpcc fit, because hpcc reserves more than 8 bytes for its own options.
    # No sniffer runs, because the module does not remove our options from a packet that a sniffer also holds.
    for cc, late in ("reno", False), ("hpcc", False), ("hpcc", True):
        pair = Pair(6, delay="50us", cc=(cc, cc))
        listener = pair.listen()
        # The first SYN waits for neighbour discovery, maybe until its timer expires.
        pair.connect(listener, cc="reno")
        before = [losses(ns) for ns in (pair.c, pair.s)]
        if not late:
            listener.setsockopt(socket.IPPROTO_IPV6, IPV6_DSTOPTS, dstopts(0))
        client, server = pair.connect(listener)
        for sock in client, server:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_DSTOPTS, dstopts(0))
        transfer((client, server, pattern(2000000)), (server, client, pattern(100000, 1)))
        for ns, counts in zip((pair.c, pair.s), before):
            expect(f"losses with {cc}", losses(ns), counts)
            if cc == "hpcc":
                expect("telemetry", ns.counters()["forward_received"] > 0, True)


# ---- A host with the modules and one without them ----

CALM = {
    # Results that depend on the arrival time of packets, or on earlier packets.
    "net.ipv4.tcp_challenge_ack_limit": 0x7fffffff, "net.ipv4.tcp_invalid_ratelimit": 0,
    "net.ipv4.icmp_ratemask": 0, "net.ipv6.icmp.ratelimit": 0,
    "net.ipv4.tcp_no_metrics_save": 1, "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.tcp_comp_sack_nr": 0,
    # The memory of segments in the receive buffer: the memory is smaller if TCP copies a shared segment.
    "net.ipv4.tcp_rmem": "4096 16777216 16777216",
    # hpcc requests ECN with any value of this sysctl.
    "net.ipv4.tcp_ecn": 1,
    "net.ipv4.tcp_max_syn_backlog": 100000, "net.core.somaxconn": 100000,
    "net.ipv4.tcp_synack_retries": 1, "net.ipv4.tcp_fin_timeout": 5}

# Each state has a different timeout, so that "ct expiration" shows the state.
STATES = {name: 1000 * number for number, name in enumerate(
    ("syn_sent", "syn_recv", "established", "fin_wait", "close_wait", "last_ack", "time_wait",
     "close", "unacknowledged", "max_retrans"), 1)}


COUNTERS = "".join(f"{rule} counter\n" for rule in (
    *(f"meta l4proto {proto}" for proto in (1, 6, 17, 58, 253)),
    *(f"tcp dport {port}" for port in (0x1e40, 0x1e41, FILTERED)),
    *(f"udp dport {port}" for port in (6000, FILTERED)),
    *(f"tcp flags {flag}" for flag in ("syn", "ack", "fin", "rst", "psh")),
    *(f"exthdr {name} exists" for name in ("hbh", "rt", "frag", "dst")),
    *(f"ct state {state}" for state in ("new", "established", "related", "invalid")),
    *(f"ct direction {way}" for way in ("original", "reply")),
    # A new connection does not have its timeout yet.
    *(f"meta l4proto tcp ct state established ct expiration {s - 500}s-{s + 400}s" for s in STATES.values())))
RULES = "\ntable inet count {\n" + "".join(
    f"chain {hook} {{ type filter hook {hook} priority 200;\n{COUNTERS}}}\n"
    for hook in ("prerouting", "input", "output", "postrouting")) + "}\n"


class Host:
    """A namespace with two TUN devices; on the second device GRO may merge packets."""

    def __init__(self, ours, joins):
        # W_init fits into TCP's own first window. Otherwise a receiver would enlarge that window (receive.py).
        self.ns = Netns(**({"host_mbps": 400, "base_rtt_ns": T_NS, "n_flows": 0, "where": 1} if ours else {}))
        self.cc = "hpcc" if ours else "reno"
        if ours:
            set_links(self.ns, *[(node, port, 400000000) for node in (1, 2, 3) for port in (1, 2)])
        self.tuns = [self.tun("tun0", 9, 0), self.tun("tun1", 8, 0x10 if joins else 0)]
        if joins and virtual_time():
            sysfs(self.ns, "tun1/gro_flush_timeout", 1000000)
        for name, value in CALM.items():
            self.ns.sysctl(name, value)
        nft(self.ns, FIREWALL + RULES)
        for name, value in STATES.items():
            self.ns.sysctl(f"net.netfilter.nf_conntrack_tcp_timeout_{name}", value)

    def tun(self, dev, net, flags):
        """Return a TUN device with IFF_NO_PI, IFF_VNET_HDR, and maybe IFF_NAPI."""
        with self.ns:
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(fd, 0x400454ca, struct.pack("16sH22x", dev.encode(), 0x5001 | flags))
        defer(os.close, fd)
        self.ns.sysctl(f"net.ipv6.conf.{dev}.accept_ra", 0)
        self.ns.ip(f"link set {dev} txqueuelen 10000 up",
                   f"addr add 10.{net}.0.1/24 dev {dev}", f"addr add fd0{net}::1/64 dev {dev}")
        # PROMPT requests an immediate ACK: with quickack PROMPT makes no difference.
        self.ns.ip(f"route replace 10.{net}.0.0/24 dev {dev} proto kernel src 10.{net}.0.1 quickack 1",
                   f"route replace fd0{net}::/64 dev {dev} proto kernel metric 256 quickack 1")
        return fd

    def run(self, count, seed, path, *options):
        """Send the packets, and write the transcript to a file."""
        with self.ns, open(path, "wb") as out:
            done = subprocess.run(
                [PROGRAM, "deliver", f"--count={count}", f"--seed={seed}", f"--cc={self.cc}",
                 f"--settle={250 if virtual_time() else 5}", f"--scale={SCALE}", "--tun={},{}".format(*self.tuns),
                 *options], pass_fds=self.tuns, stdout=out, check=False)
        with open(path, encoding="ascii") as file:
            expect(f"status of a run with seed {seed}: {file.read()[-200:]}", done.returncode, 0)

    def counts(self):
        """Return all counters: {name: number}."""
        found = {}
        for name in "snmp", "netstat":
            lines = self.ns.read(f"/proc/net/{name}").splitlines()
            for heads, values in zip(lines[::2], lines[1::2]):
                group, *heads = heads.split()
                found |= {group + head: int(value) for head, value in zip(heads, values.split()[1:])}
        for line in self.ns.read("/proc/net/snmp6").splitlines():
            found[line.split()[0]] = int(line.split()[1])
        chain = ""
        for line in self.ns.run("nft", "list", "table", "inet", "count").splitlines():
            if "chain" in line:
                chain = line.split()[1]
            rule = re.match(r"\s*(.*) counter packets (\d+) bytes (\d+)", line)
            if rule:
                found[f"{chain}: {rule[1]}: packets"] = int(rule[2])
                found[f"{chain}: {rule[1]}: bytes"] = int(rule[3])
        return found


# The differences that testing.rst allows: our options make sent packets longer, and quotes of received packets
# shorter; TCP uses its fast path for segments without options; a header that is already linear is not copied, so a raw
# socket's copy shares the data.
MAY_DIFFER = re.compile(r"TcpExt:TCPHPHits|TcpExt:TCPHPAcks|TcpExt:TCPPureAcks|TcpExt:TCPRcvCoalesce|"
                        r"IpExt:OutOctets|Ip6OutOctets|(output|postrouting): .*: bytes")


# hpcc paces and Reno does not: sometimes a loss probe replaces a timeout, or a segment leaves
# after the last count.
TIMERS = re.compile(r"TcpExt:TCPTimeouts|TcpExt:TCPLossProbes|TcpExt:TcpTimeoutRehash|"
                    r"Tcp:OutSegs|Tcp:RetransSegs|Ip:OutRequests|Ip6OutRequests")
TIMERS_PART = 1000

# Since 6.6 TCP derives its largest window from the memory that segments have taken, which depends
# on how its fast path coalesces them.
WINDOW = re.compile(r" win (\d+)")
WINDOW_PART = 64
MEASURES = release() >= (6, 6)

# A listener that runs hpcc agrees to ECN if the SYN itself is ECN-capable, as a dctcp listener does.
SYN_ACK_ECE = re.compile(r"(>\d+) 52 seq isn")

# Beside our option, a segment may have fewer SACK blocks.
SACK = re.compile(r" 5((:[0-9a-f]{8})+)")

# The transcript writes " either" if a checksum could be complete or partial. When the module removes
# our options the checksum changes, so the other host's line may lack the mark.
EITHER = " either"


def may_differ(name, without, with_ours):
    """Return whether a counter may differ this much."""
    return MAY_DIFFER.match(name) or (TIMERS.match(name) and abs(without - with_ours) <= 1 + without / TIMERS_PART)


def alike(one, two):
    """Return whether two lines, or two lists of lines, have the same content; two: with our option."""
    if isinstance(one, list):
        return len(one) == len(two) and all(map(alike, one, two))
    two = SYN_ACK_ECE.sub(r"\1 12 seq isn", two)
    one = SYN_ACK_ECE.sub(r"\1 12 seq isn", one)
    blocks = SACK.search(one), SACK.search(two)
    if all(blocks) and blocks[0][1].startswith(blocks[1][1]):
        one = SACK.sub(blocks[1][0], one, count=1)
    windows = WINDOW.search(one), WINDOW.search(two)
    if one.endswith(EITHER) or two.endswith(EITHER):
        one, two = (line.removesuffix(EITHER).removesuffix(" partial") for line in (one, two))
    if one == two or not all(windows) or not MEASURES:
        return one == two
    wide, narrow = sorted((int(match[1]) for match in windows), reverse=True)
    return WINDOW.sub("", one) == WINDOW.sub("", two) and wide - narrow <= wide / WINDOW_PART


def batches(path):
    """Return the lines of a transcript, batch by batch."""
    with open(path, encoding="ascii") as file:
        return [batch.splitlines() for batch in re.split("^(?=b )", file.read(), flags=re.MULTILINE)]


def first_difference(*paths):
    """Return the number of the first batch that differs between the files, and its differences; or None."""
    for number, (one, two) in enumerate(itertools.zip_longest(*map(batches, paths), fillvalue=[])):
        if not alike(one, two):
            return number, list(difflib.unified_diff(one, two, "without", "with", lineterm=""))
    return None


def show(cc, joins, count, seed, batch, *options):
    path = f"{tempfile.gettempdir()}/delivery-show"
    host = Host(cc == "hpcc", joins)
    host.run(count, seed, path, f"--show={batch}", *options)
    with open(path, encoding="ascii") as file:
        print("".join(line for line in file if line.startswith("# ")), end="")


def compare(count, seed, *options, joins=True):
    """Send the same packets to both hosts. Return the counts of both, and the counters of the modules."""
    paths, counts = [], []
    for ours in False, True:
        if ours:
            load(Netns())
        else:
            expect("unload", unload(Netns(), wait_s=1000 if virtual_time() else 100), True)
            defer(loaded_again)
        host = Host(ours, joins)
        paths.append(f"{tempfile.gettempdir()}/delivery-{int(ours)}")
        host.run(count, seed, paths[-1], *options)
        counts.append(host.counts())
    counters = host.ns.counters()
    print("#", counters)
    found = first_difference(*paths)
    if found:
        print("\n".join("# " + line for line in found[1]))
        show(host.cc, joins, count, seed, found[0], *options)
    expect(f"seed {seed}: the first batch that differs", found and found[0], None)
    return counts, counters


def test_random():
    """Both hosts get the same packets: their sockets receive the same data, and their counters agree."""
    for begin in range(0, PACKETS, TURN):
        seed = SEED * 1000 + begin // TURN
        count = min(TURN, PACKETS - begin)
        counts, counters = compare(count, seed)
        for name in "report_sent", "report_received":
            expect_in(name, counters[name], count // 1000, count)
        for name in "ioam_received", "ioam_ignored", "ioam_unknown_link":
            expect_in(name, counters[name], count // 5000, count)
        differ = [f"{name}: {value} without, {counts[1][name]} with" for name, value in counts[0].items()
                  if counts[1][name] != value and not may_differ(name, value, counts[1][name])]
        expect(f"seed {seed}: counters that differ", differ, [])


def test_carriers():
    """Some packets are probes with INT and IFA: the sockets of both hosts receive the same data."""
    # The host without the modules gets no valid probes, and TCP of the other host does not see them. So the counters of
    # the hosts differ, and this test does not compare them. GRO is off, because GRO would delay INT like data.
    # CSIG is in Ethernet frames, which a TUN device does not have (csig.py).
    count = PACKETS // 4
    _, counters = compare(count, SEED, "--carriers", joins=False)
    for name in "int_received", "int_ignored", "int_unknown_link", "ifa_received", "ifa_ignored", "ifa_unknown_link":
        expect_in(name, counters[name], count // 5000, count)


main(commands=["nft"])
