#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Other features on a path or a socket: data arrive unchanged, and the connection shows whether it gets telemetry."""

import itertools
import os
import select
import socket
import struct
import time

from lib.box import send_until
from lib.ktap import defer, expect, expect_in, main
from lib.net import Netns, meet
from lib.packet import SYN, Sniffer, addresses, ipv4, ours_in, sane, syn_option, tcp
from lib.routed import (CCS, CONNTRACK, Routed, add_md5, both_ways, expect_works, marked, nft, sockaddr, sysfs)
from lib.tcp import get_cc, pattern, transfer

IPPROTO_MPTCP = 262
TCP_FASTOPEN, TCP_AO_ADD_KEY = 23, 38
MSG_FASTOPEN = 0x20000000


# ---- Netfilter -----------------------------------------------------------------

MASQUERADE = """
table inet nat {
	chain post {
		type nat hook postrouting priority 100;
		oifname "right" meta l4proto tcp masquerade to :40000-50000
	}
}
"""


BOTH = list(itertools.product((4, 6), CCS))


def test_nat():
    """A router masquerades, and all nodes track connections."""
    for version, cc in BOTH:
        path = Routed(version, cc=cc)
        for ns in path.nodes:
            nft(ns, CONNTRACK)
        nft(path.switches[0], MASQUERADE)
        client, server = path.connect()
        expect("address of the peer", server.getpeername()[0], path.at(1, 1))
        expect_in("port of the peer", server.getpeername()[1], 40000, 50000)
        both_ways(client, server)
        expect_works(path, cc, client)
        for ns in path.nodes:
            expect("no invalid packets", "packets 0" in ns.run("nft", "list", "chain", "inet", "track", "o"), True)


def test_nat_on_the_hosts():
    """Addresses and ports change between the socket and the wire."""
    for (version, cc), demux in itertools.product(BOTH, (1, 0)):
        family = "ip" if version == 4 else "ip6"
        path = Routed(version, cc=cc)
        for ns in path.hosts:
            ns.sysctl("net.ipv4.ip_early_demux", demux)
        other = path.at(1, 9)
        to = f"[{path.addr[1]}]" if version == 6 else path.addr[1]
        nft(path.a, f"""table {family} nat {{
            chain out {{
                type nat hook output priority -100;
                {family} daddr {other} tcp dport 80 dnat to {to}:81
            }}
            chain post {{ type nat hook postrouting priority 100; tcp dport 81 masquerade to :40000-50000; }}
        }}""")
        nft(path.b, f"""table {family} nat {{
            chain pre {{ type nat hook prerouting priority -100; tcp dport 81 dnat to {to}:5000; }}
        }}""")
        client, server = meet(path.a.socket(version), path.b.listen(path.addr[1]), (other, 80))
        both_ways(client, server)
        expect_works(path, cc, client)


# ---- IPsec ---------------------------------------------------------------------------

def esp(path, mode):
    key = "0x" + "11" * 20
    ends = path.addr
    for ns, mine in zip(path.hosts, ends):
        for src, dst, spi in ((*ends, 1), (*ends[::-1], 2)):
            way = "out" if src == mine else "in"
            ns.ip(f"xfrm state add src {src} dst {dst} proto esp spi {spi} reqid 1 mode {mode} "
                  f"aead rfc4106(gcm(aes)) {key} 128",
                  f"xfrm policy add src {src} dst {dst} dir {way} tmpl src {src} dst {dst} "
                  f"proto esp reqid 1 mode {mode}")


def test_ipsec():
    """Switches cannot read the option in ESP, so hpcc gets no records and falls back. ldcp still gets marks."""
    for (version, cc), mode in itertools.product(BOTH, ("transport", "tunnel")):
        path = Routed(version, cc=cc)
        esp(path, mode)
        sniffer = Sniffer(path.switches[0], "right")
        client, server = path.connect()
        both_ways(client, server)
        expect("TCP segments on the link", sniffer.segments(), [])
        port = path.port(1)
        expect("stamped, drops", (port["hpcc"]["stamped"], port["drops"]), (0, 0))
        expect_in("not TCP", port["hpcc"]["unstamped"]["not_tcp"], 200, 2000)
        if cc == "ldcp":
            expect_works(path, cc, client)
            continue
        send_until(lambda: get_cc(client) != "hpcc", client, server, 50000)
        counters = path.a.counters()
        expect("congestion control, mode, agreed, fallbacks", (
            get_cc(client), path.a.flow(client)["mode"], counters["agreed"], counters["fallbacks"]),
               ("hpcc-classic", "classic", 1, 1))
        path.no_errors()


# ---- TCP Fast Open ------------------------------------------------------------------------

def test_fast_open():
    """A SYN that requests a cookie agrees, and its receiver computes W; a SYN with data does not carry our option."""
    for version, cc in BOTH:
        path = Routed(version, cc=cc, where=1)
        for ns in path.hosts:
            ns.sysctl("net.ipv4.tcp_fastopen", 3)
        listener = path.b.socket(version)
        listener.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN, 16)
        path.b.listen(path.addr[1], sock=listener)
        for attempt in "asks", "has":
            sniffer = Sniffer(path.b, "left")
            client = path.a.socket(version)
            client.setblocking(False)
            first = pattern(1000, 9)
            try:
                client.sendto(first, MSG_FASTOPEN, (path.addr[1], 5000))
            except BlockingIOError:
                select.select([], [client], [], 10)
                client.send(first)
            server = listener.accept()[0]
            defer(server.close)
            server.send(b"early")           # with a cookie this is during the handshake
            expect("first data", server.recv(2000), first)
            select.select([client], [], [], 10)
            expect("answer", client.recv(100), b"early")
            port, seen = client.getsockname()[1], [0]
            for nbytes in 150000, 1000000:
                transfer((client, server, pattern(nbytes)), (server, client, pattern(nbytes // 4, 3)),
                         each=lambda port=port, seen=seen: seen.extend(
                             flow["receiver"] for flow in path.a.flows() if flow["lport"] == port))
            segments = sniffer.segments()
            sane(segments)
            of_this = [seg for seg in segments if port in (seg.sport, seg.dport)]
            expect("receiver computed W", max(seen), int(cc == "hpcc" and attempt == "asks"))
            expect("agreed", [ns.counters()["agreed"] for ns in path.hosts], [int(cc == "hpcc")] * 2)
            expect(f"bytes in a SYN that {attempt} a cookie", len(of_this[0].payload), 1000 if attempt == "has" else 0)
            if cc == "ldcp" or attempt == "asks":
                expect_works(path, cc, client)
                continue
            found = ours_in(of_this), get_cc(client), get_cc(server)
            expect("our options, congestion controls", found, ([], "hpcc-classic", "hpcc-classic"))
            path.no_errors()


# ---- Other owners of the option space ------------------------------------------------------

def test_mptcp():
    """Neither of two subflows uses telemetry; ldcp needs no telemetry."""
    for cc in CCS:
        path = Routed(cc=cc)
        path.a.ip("addr add 10.0.0.7/24 dev right")
        path.a.run("ip", "mptcp", "endpoint", "add", "10.0.0.7", "dev", "right", "subflow")
        for ns in path.hosts:
            ns.run("ip", "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")
        sniffer = Sniffer(path.b, "left")
        listener = path.b.listen(path.addr[1], sock=path.b.socket(4, IPPROTO_MPTCP))
        client, server = meet(path.a.socket(4, IPPROTO_MPTCP), listener)
        transfer((client, server, pattern(10000)))
        time.sleep(0.1)
        both_ways(client, server)
        segments = sniffer.segments()
        sane(segments)
        expect("subflows", len({seg.sport for seg in segments if seg.dport == 5000}), 2)
        joins = [seg for seg in segments if seg.flags & SYN and seg.option(30) and seg.option(30)[2] >> 4 == 1]
        expect("joins, our options", (len(joins) > 0, ours_in(segments)), (True, []))
        expect("subflows in ss", path.a.run("ss", "-tinH").count("hpcc-classic" if cc == "hpcc" else " ldcp"), 2)
        if cc == "hpcc":
            expect("not agreed", path.a.counters()["not_agreed"], 2)
        else:
            expect("marks", marked(path, client), True)


def add_ao(sock, version, addr):
    """Set a key for a peer, which is used at once (TCP_AO_ADD_KEY)."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_AO_ADD_KEY, sockaddr(version, addr) +
                    struct.pack("=64siIHBBBBBB80s", b"hmac(sha1)", 0, 3, 0,
                                32 if version == 4 else 128, 100, 100, 12, 0, 6, b"secret"))


def signatures(of_md5, of_ao):
    """Return (a function that sets a key, a value) for TCP-MD5, and for TCP-AO if the kernel has it (6.7 and later)."""
    try:
        add_ao(Netns().socket(), 4, "10.0.0.1")
    except OSError:
        return [(add_md5, of_md5)]
    return [(add_md5, of_md5), (add_ao, of_ao)]


def signed(path, sign):
    """Connect two hosts that have the same key. Return both sockets."""
    listener, client = (ns.socket(path.version) for ns in (path.b, path.a))
    sign(listener, path.version, path.addr[0])
    sign(client, path.version, path.addr[1])
    return meet(client, path.b.listen(path.addr[1], sock=listener))


def test_signatures():
    """A signature covers the header, so hpcc does not agree: TCP-MD5, and TCP-AO if the kernel has it."""
    for (sign, kind), (version, cc) in itertools.product(signatures(19, 29), BOTH):
        path = Routed(version, cc=cc)
        sniffer = Sniffer(path.b, "left")
        client, server = signed(path, sign)
        both_ways(client, server)
        segments = sniffer.segments()
        sane(segments)
        expect(f"{sign.__name__}: unsigned", [seg for seg in segments if not seg.option(kind)], [])
        expect("our options", ours_in(segments), [])
        if cc == "ldcp":
            expect_works(path, cc, client)
            continue
        expect("congestion controls, syn_no_room", (get_cc(client), get_cc(server), path.a.counters()["syn_no_room"]),
               ("hpcc-classic", "hpcc-classic", 1))


def test_signatures_of_small_windows():
    """ldcp requests a prompt ACK by a flag of the header, except if a signature covers the header."""
    for (sign, bad), ecn in itertools.product(signatures("MD5Failure", "AOBad"), (1, 0)):
        path = Routed(cc="ldcp", ldcp={"iw": 2})
        for ns in path.hosts:
            ns.sysctl("net.ipv4.tcp_ecn", ecn)
        ends = signed(path, sign)
        sniffer = Sniffer(path.b, "left")
        transfer((*ends, pattern(150000)))
        sane(sniffer.segments())
        expect(f"{sign.__name__}, ECN {ecn}: discarded", path.b.snmp("TcpExtTCP" + bad), 0)


# ---- How packets find their socket and its CPU ------------------------------------------------


def test_no_early_demux():
    """Without early demux LOCAL_IN looks up the socket itself."""
    for version, cc in BOTH:
        path = Routed(version, cc=cc)
        for ns in path.hosts:
            for name in "ip_early_demux", "tcp_early_demux":
                ns.sysctl(f"net.ipv4.{name}", 0)
        client, server = path.connect()
        both_ways(client, server)
        expect_works(path, cc, client)


def received(ns):
    """Return for each CPU the number of packets from devices, and of packets from other CPUs."""
    rows = [line.split() for line in ns.read("/proc/net/softnet_stat").splitlines()]
    return [(int(row[0], 16), int(row[9], 16)) for row in rows]


def test_cpus():
    """The program moves from one CPU to the next, and RPS spreads packets over all CPUs."""
    cpus = sorted(os.sched_getaffinity(0))
    defer(os.sched_setaffinity, 0, cpus)
    for cc in CCS:
        path = Routed(cc=cc)
        before = received(path.a)
        for ns in path.nodes:
            for dev in "left", "right":
                sysfs(ns, f"{dev}/queues/rx-0/rps_cpus", f"{(1 << len(cpus)) - 1:x}")
        ends = [path.connect(5000 + i) for i in range(4)]
        turns = itertools.cycle(cpus[1:] + cpus[:1])
        transfer(*[(*sockets, pattern(200000, i)) for i, sockets in enumerate(ends)],
                 each=lambda turns=turns: os.sched_setaffinity(0, {next(turns)}))
        for client, _ in ends:
            expect_works(path, cc, client)
        if len(cpus) > 1:
            for cpu, old, new in zip(cpus, before, received(path.a)):
                expect_in(f"packets of CPU {cpu}", new[0] - old[0], 100, 1000000)
                expect_in(f"packets of CPU {cpu} from another CPU", new[1] - old[1], 1, 1000000)


# ---- Floods ------------------------------------------------------------------------------------

def flood(path, nr):
    """Send SYNs with our option from hosts that do not exist."""
    with path.a:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    defer(raw.close)
    options = struct.pack("!BBH", 2, 4, 1460) + syn_option() + b"\1\1"
    for i in range(nr):
        ends = addresses(f"10.66.{i >> 8 & 255}.{i & 255}", path.addr[1])
        syn = tcp(ends, options, b"", SYN, (1024 + i % 50000, 5000), i, 0, 65535)
        raw.sendto(ipv4(ends, syn, frag=0), (path.addr[1], 0))


def test_syn_cookies():
    """A flooded listener answers with SYN cookies: new connections run classic, older connections keep telemetry."""
    for cc in CCS:
        path = Routed(cc=cc)
        path.switches[0].ip("route add blackhole 10.66.0.0/16")
        path.b.sysctl("net.ipv4.tcp_syncookies", 1)
        path.b.sysctl("net.ipv4.tcp_max_syn_backlog", 16)
        path.b.ip(f"route add 10.66.0.0/16 via {path.at(1, 1)}")
        old = path.connect(4000)
        listener = path.b.listen(path.addr[1], backlog=16)
        for i in range(4):
            flood(path, 200)
            client, server = meet(path.a.socket(), listener)
            transfer((client, server, pattern(50000, i)), (server, client, pattern(50000, i + 9)),
                     (*old, pattern(50000)))
            expect("modes", (get_cc(client), get_cc(server)), ("hpcc-classic" if cc == "hpcc" else "ldcp",) * 2)
        expect_works(path, cc, old[0])
        expect_in("valid cookies received", path.b.snmp("TcpExtSyncookiesRecv"), 4, 4)


main(modules=["sch_hpcc", "tcp_ldcp"], commands=["nft"])
