#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""A port stamps the TCP option of packets in tunnels: include/hpcc/wire/tunnel.h, qdisc/stamp/inner.c."""

import socket
import struct
import time

from lib.frameport import BROADCAST, FramePort, leave_unchanged
from lib.ktap import each, expect, expect_in, main, need_virtual_time
from lib.net import Pair
from lib.packet import (FORWARD, FREE, Sniffer, addresses, csum, eth, ip, option, packet_socket, pseudo, record, tcp,
                        with_csum)
from lib.path import MBPS, Path, look_while_sending
from lib.tcp import pattern, set_cc, transfer

VXLAN, VXLAN_LINUX, GENEVE, ESP_UDP = 4789, 8472, 6081, 4500
TEB, IPV4, IPV6, MACSEC = 0x6558, 0x0800, 0x86dd, 0x88e5
UDP_SEGMENT = 103
ENDS = {4: addresses("10.0.0.1", "10.0.0.2"), 6: addresses("fd00::1", "fd00::2")}
REQUEST = option(FORWARD, [FREE] * 3, hops=0)


# ---- Frames ----

def udp(ends, payload, port=VXLAN, check=True, length=None):
    length = 8 + len(payload) if length is None else length
    raw = struct.pack("!HHHH", 50000, port, length, 0) + payload
    return with_csum(raw, 6, pseudo(ends, len(raw), 17)) if check else raw


def inner(version=4, opts=REQUEST, **how):
    """Return an IP packet with a TCP segment that requests records."""
    return ip(ENDS[version], tcp(ENDS[version], opts, b"data" * 9, **how))


def over_udp(header, payload, port, version=4, **how):
    return ip(ENDS[version], udp(ENDS[version], header + payload, port, **how), proto=17)


def vxlan(packet, version=4, flags=b"\x08\0\0\0", port=VXLAN, tags=(), **how):
    return over_udp(flags + b"\0\0\7\0", eth(packet, tags=tags), port, version, **how)


def geneve(payload, version=4, proto=TEB, options=b"", first=None, second=0):
    first = len(options) // 4 if first is None else first
    return over_udp(struct.pack("!BBHI", first, second, proto, 7 << 8) + options, payload, GENEVE, version)


def gre(payload, version=4, flags=0, proto=None, words=None):
    proto = proto or (IPV4 if payload[0] >> 4 == 4 else IPV6)
    words = bin(flags & 0xb000).count("1") if words is None else words
    raw = struct.pack("!HH", flags, proto) + bytes(4 * words) + payload
    return ip(ENDS[version], with_csum(raw, 4) if flags & 0x8000 else raw, proto=47)


def ipip(packet, version=4, **how):
    return ip(ENDS[version], packet, proto=4 if packet[0] >> 4 == 4 else 41, **how)


def wrong_sums(packet):
    """Return the names of wrong checksums in an IP packet, also inside tunnels."""
    if packet[0] >> 4 == 4:
        at, proto, ends = (packet[0] & 15) * 4, packet[9], packet[12:20]
        found = ["IPv4"] * bool(csum(packet[:at]))
        raw = packet[at:struct.unpack_from("!H", packet, 2)[0]]
    else:
        at, proto, ends, found = 40, packet[6], packet[8:40], []
        end = at + struct.unpack_from("!H", packet, 4)[0]
        while proto in (0, 43, 60):
            proto, at = packet[at], at + 8 * (packet[at + 1] + 1)
        raw = packet[at:end]
    if proto == 6:
        return found + ["TCP"] * bool(csum(pseudo(ends, len(raw)) + raw))
    inside, kind = b"", IPV4
    if proto == 17:
        found += ["UDP"] * bool(raw[6:8] != b"\0\0" and csum(pseudo(ends, len(raw), 17) + raw))
        port = struct.unpack_from("!H", raw, 2)[0]
        if port in (VXLAN, VXLAN_LINUX):
            inside, kind = raw[16:], TEB
        elif port == GENEVE:
            inside, kind = raw[16 + (raw[8] & 63) * 4:], struct.unpack_from("!H", raw, 10)[0]
    elif proto == 47:
        flags, kind = struct.unpack_from("!HH", raw)
        found += ["GRE"] * bool(flags & 0x8000 and csum(raw))
        inside = raw[4 + 4 * bin(flags & 0xb000).count("1"):]
    elif proto in (4, 41):
        inside = raw
    if kind == TEB and inside:
        at = 18 if inside[12:14] == b"\x81\0" else 14
        inside = inside[at:] if inside[at - 2:at] in (b"\x08\0", b"\x86\xdd") else b""
    return found + (wrong_sums(inside) if inside else [])


def frame(packet):
    return eth(packet, macs=BROADCAST)


FRAME_KINDS = {
    "vxlan": vxlan(inner()), "vxlan6": vxlan(inner(6), 6), "vxlan_no_csum": vxlan(inner(), check=False),
    "vxlan_tag": vxlan(inner(), tags=[(0x8100, 5)]), "vxlan_linux": vxlan(inner(6), port=VXLAN_LINUX),
    "vxlan_gbp": vxlan(inner(), flags=b"\x88\x48\1\2"), "geneve": geneve(eth(inner())),
    "geneve_options": geneve(eth(inner(6)), 6, options=bytes(252), second=0x40),
    "geneve_ip": geneve(inner(), proto=IPV4), "geneve_ip6": geneve(inner(6), proto=IPV6),
    "gre": gre(inner()), "gre6": gre(inner(6), 6), "gre_all": gre(inner(), flags=0xb000), "gre_key": gre(inner(), flags=0x2000),
    "gretap": gre(eth(inner()), proto=TEB, flags=0x1000), "ipip": ipip(inner()), "sit": ipip(inner(6)),
    "ip4ip6": ipip(inner(), 6, ext=[(60, bytes([0, 4, 1, 4, 1, 0, 0]))]), "ip6ip6": ipip(inner(6), 6),
    "nested": ipip(gre(vxlan(geneve(inner(), proto=IPV4)), 6)), "nested_vxlan": vxlan(vxlan(vxlan(vxlan(inner(6), 6), 6), 6), 6),
}


def stamped(sent, got):
    """Fail unless only the option and the TCP checksum of a packet changed, and all checksums are right."""
    at = sent.index(REQUEST)
    for number, (old, new) in enumerate(zip(sent, got)):
        if old != new and not at + 3 <= number < at + len(REQUEST) and not at - 4 <= number < at - 2:
            raise AssertionError(f"byte {number} changed: {sent.hex()} {got.hex()}")
    expect("hops and records", (got[at + 3] >> 4, got[at + 4] >> 4), (1, 1))
    expect("length", len(got), len(sent))
    expect("wrong checksums", (wrong_sums(sent[14:]), wrong_sums(got[14:])), ([], []))


@each(*FRAME_KINDS)
def kind(name):
    """A frame in each kind of tunnel leaves with a record, on a slow and on a fast port, and without inner unchanged."""
    sent = frame(FRAME_KINDS[name])
    for shape in f"rate {MBPS}mbit delay 20us", "":
        port = FramePort("inner on", shape)
        stamped(sent, port.through(sent))
        stats = port.stats()
        expect("stamped", stats["stamped"], 1)
    port = FramePort("")
    expect("without inner", port.through(sent), sent)
    expect("counted", port.stats()["stamped"], 0)


def leaves(why, *packets):
    leave_unchanged([("inner on", frame(packet), why) for packet in packets])


def test_nested():
    """A port looks into 4 tunnels, and counts packets in 5 or 6."""
    four = vxlan(vxlan(vxlan(vxlan(inner(6), 6), 6), 6), 6)
    leaves("nested", ipip(four), ipip(ipip(four)), vxlan(ipip(FRAME_KINDS["nested"])))
    # The headers are longer than 512 bytes.
    leaves("not_tcp", geneve(geneve(inner(), proto=IPV4, options=bytes(252)), proto=IPV4, options=bytes(252)))


def test_encrypted():
    """ESP, also in UDP, and MACsec are counted, also inside a tunnel; IKE, keepalives and AH are not."""
    esp = struct.pack("!II", 0x1234, 1) + bytes(32)
    leaves("encrypted", ip(ENDS[4], esp, proto=50), ip(ENDS[6], esp, proto=50), over_udp(b"", esp, ESP_UDP),
           over_udp(b"", esp, ESP_UDP, 6), vxlan(ip(ENDS[4], esp, proto=50)), ipip(over_udp(b"", esp, ESP_UDP, 6)))
    leave_unchanged([("inner on", eth(bytes(40), MACSEC, macs=BROADCAST, tags=tags), "encrypted")
                     for tags in ((), [(0x8100, 5)])])
    leaves("encrypted", over_udp(b"\x08\0\0\0\0\0\7\0", eth(bytes(40), MACSEC), VXLAN))
    leaves("not_tcp", over_udp(b"", bytes(8), ESP_UDP), over_udp(b"", b"\xff", ESP_UDP), ip(ENDS[4], esp, proto=51))
    # Packets without an IP header are not marked, and this is no failure.
    port = FramePort("inner on marking ldcp kmin 0 kmax 1b")
    port.through(eth(bytes(40), MACSEC, macs=BROADCAST))
    expect("failed marks", port.stats()["mark_failed"], 0)


def test_malformed():
    """What is not exactly a tunnel, or ends too early, leaves unchanged; the port counts why."""
    other = [vxlan(inner(), flags=flags) for flags in
             (b"\0\0\0\0", b"\x0c\0\0\1", b"\x09\0\0\0", b"\x18\0\0\0", b"\x48\0\0\0", b"\x08\x20\0\0")]
    other += [geneve(eth(inner()), first=0x40), geneve(eth(inner()), second=0x80), geneve(inner(), proto=0x0806),
              over_udp(b"\x08\0\0\0\0\0\7\0", eth(bytes(40), 0x0806), VXLAN), vxlan(inner(), port=4788),
              vxlan(ip(ENDS[4], b"\0" * 30, proto=1)), gre(inner(), proto=0x880b), geneve(eth(inner(), 0x88b5))]
    # GRE: version 1, routing, reserved bits
    other += [gre(inner(), flags=flags, words=0) for flags in (0x0001, 0x2081, 0x4000, 0x0800, 0x0400, 0x0008)]
    leaves("not_tcp", *other)
    leaves("no_option", vxlan(inner(opts=b"")), gre(inner(6, option(2, [record(1, 2, 3)]))), ipip(inner(flags=2)))
    leaves("fragment", vxlan(ip(ENDS[4], b"\0" * 64, frag=0x2000)), ipip(ip(ENDS[4], inner(), proto=4, frag=5)),
           gre(ip(ENDS[6], bytes(64), proto=44)))
    leaves("malformed", over_udp(b"", b"\x08\0\0", VXLAN), over_udp(b"", bytes(7), GENEVE),
           over_udp(b"\x08\0\0\0\0\0\7\0", bytes(13), VXLAN), geneve(b"", first=63), vxlan(inner(), length=7),
           vxlan(inner(), length=1000, check=False), ip(ENDS[4], b"\0\0\x08", proto=47), gre(b"", flags=0xb000, proto=IPV4, words=2),
           ipip(inner()[:19]), ipip(inner()[:39]), ipip(ip(ENDS[4], tcp(ENDS[4], REQUEST, doff=4))), ip(ENDS[6], b"", proto=41),
           gre(inner(6)[:39], 6), vxlan(ip(ENDS[4], inner(), total=1000)), gre(b"\x55" + inner()[1:], proto=IPV4))
    leaves("full", vxlan(inner(opts=option(FORWARD, [record(n, n, n) for n in (1, 2, 3)], hops=15))))


def test_truncated():
    """A datagram of any length, cut anywhere: no byte of it changes unless the port stamps it."""
    port = FramePort("inner on")
    for packet in FRAME_KINDS["nested"], FRAME_KINDS["geneve_options"]:
        for end in range(20, len(packet), 3):
            sent = frame(packet[:end]).ljust(60, b"\0")
            expect(f"{end} bytes", port.through(sent), sent)
    expect("stamped", port.stats()["stamped"], 0)


def test_other_parts():
    """Carriers of the outer headers are used first; responses and borders do not look into tunnels."""
    trace = bytes([6, 1, 0, 0x31, 50, 0, 0]) + struct.pack("!HHI", 0, 5 << 11 | 10, 0xd20800 << 8) + bytes(40)
    sent = frame(ip(ENDS[6], vxlan(inner(), 6)[40:], proto=17, ext=[(0, trace)]))
    got = FramePort("stamp tcp,ioam inner on").through(sent)
    expect("trace and option", (got[54:110] != sent[54:110], got[110:]), (True, sent[110:]))
    stamped(sent, FramePort("stamp tcp inner on").through(sent))
    stamped(sent, FramePort("stamp tcp,ioam inner on identify off").through(sent))
    sent = frame(FRAME_KINDS["vxlan"])
    port = FramePort("inner on respond 1b every 1us", "rate 1mbit limit 1mb")
    for _ in range(5):
        port.send(sent)
    for _ in range(5):
        stamped(sent, port.recv(sent[:12]))
    expect("responses", port.stats()["responses"], 0)


# ---- GSO ----

@each("rate", "direct", "length")
def udp_gso(how):
    """The payload of datagrams that the kernel splits is never changed, although each looks like a tunnel. Nor is it changed
    if the packet has a wrong length, which the kernel corrects when it splits the packet.
    """
    pair = Pair(qdisc="hpcc inner on" + f" rate {MBPS}mbit" * (how == "rate"))
    if how == "length":
        pair.c.tc("qdisc add dev eth0 clsact",
                  "filter add dev eth0 egress protocol ip matchall action pedit munge offset 2 u16 set 65000")
    with pair.s:
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with pair.c:
        source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind((pair.addr[1], VXLAN))
    sink.settimeout(5)
    one = b"\x08\0\0\0\0\0\7\0" + eth(inner())
    # Other headers at the offsets of the first datagram's option
    two = b"\x08\0\0\0\0\0\7\0" + eth(inner(6))[:len(one) - 8]
    for size, data in ((len(one), one * 5), (len(one), one + two.ljust(len(one), b"\xfd")[:len(one)] + one), (len(one) // 2, one * 3)):
        source.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size)
        source.sendto(data, sink.getsockname())
        got = b"".join(sink.recv(2000) for _ in range(-(-len(data) // size)))
        expect(f"datagrams of {size} bytes", got, data)
    expect("stamped", pair.c.port("eth0")["hpcc"]["stamped"], 0)
    if how == "length":
        expect_in("split", pair.c.port("eth0")["hpcc"]["tx_packets"], 14, 1000)
    else:
        # A datagram that leaves as it is looks like a tunnel.
        source.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
        source.sendto(one, sink.getsockname())
        expect("alone", sink.recv(2000) != one, True)
    for sock in source, sink:
        sock.close()


# ---- Connections ----

# Version of the outer and of the inner headers, and the arguments of ip link for host a; the addresses follow.
TUNNELS = {
    "vxlan": (4, 6, "vxlan id 7 dstport 4789 udpcsum"), "vxlan_nocsum": (4, 4, "vxlan id 7 dstport 4789 noudpcsum"),
    "vxlan_linux": (4, 4, "vxlan id 7 dstport 8472 gbp"), "vxlan6": (6, 4, "vxlan id 7 dstport 4789"),
    "vxlan6_zero": (6, 6, "vxlan id 7 dstport 4789 udp6zerocsumtx udp6zerocsumrx"),
    "geneve": (4, 4, "geneve id 7"), "geneve6": (6, 6, "geneve id 7"), "gre": (4, 4, "gre"), "gre_sit": (4, 6, "gre csum key 7"),
    "gretap": (4, 6, "gretap csum"), "gretap_seq": (4, 4, "gretap seq"), "ip6gre": (6, 4, "ip6gre"), "ip6gretap": (6, 6, "ip6gretap"),
    "ipip": (4, 4, "ipip"), "ip4ip6": (6, 4, "ip6tnl mode any"), "ip6ip6": (6, 6, "ip6tnl mode any"),
}


class Overlay(Path):
    """Hosts with a tunnel between them, whose devices are ports, too."""

    SWITCH = Path.SWITCH + " inner on"

    def __init__(self, name, switches=2, host=Path.HOST, mtu=1400, port=f"rate {MBPS}mbit", **how):
        version, inside, args = TUNNELS[name]
        super().__init__(version, switches, mtu=mtu + 150, **how)
        outer, self.addr = self.addr, ("10.9.0.1", "10.9.0.2") if inside == 4 else ("fd09::1", "fd09::2")
        self.version = inside
        for ns, dev, end in (self.a, "right", 0), (self.b, "left", 1):
            local = "" if "geneve" in args else f"local {outer[end]} "
            local += f"dev {dev} " * ("vxlan" in args)
            add = f"link add t0 mtu {mtu} type {args} {local}remote {outer[1 - end]}"
            ns.ip(add, f"addr add {self.addr[end]}/{24 if inside == 4 else 64} dev t0", "link set t0 up")
            ns.tc(f"qdisc change dev {dev} root hpcc {host}")
            if port is not None:
                ns.tc(f"qdisc add dev t0 root hpcc node 9 port {end} {port}")


def frames(sock):
    """Return the complete IP packets that a socket has seen, without those whose checksum is computed later."""
    found = []
    while True:
        try:
            got, extra, *_ = sock.recvmsg(1 << 17, 128)
        except BlockingIOError:
            return found
        status = struct.unpack_from("=I", extra[0][2])[0]
        if got[12:14] in (b"\x08\0", b"\x86\xdd") and not status & Sniffer.CSUM_NOT_READY:
            found.append(got[14:])


def sniff(ns, dev):
    sock = packet_socket(ns, dev)
    sock.setsockopt(Sniffer.SOL_PACKET, Sniffer.PACKET_AUXDATA, 1)
    sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 27)     # SO_RCVBUFFORCE
    sock.setblocking(False)
    return sock


@each(*TUNNELS)
def through(name):
    """Requests in a tunnel get records of each outer port, and of the port inside, which count once each."""
    path = Overlay(name)
    client, server = path.connect()
    path.a.ask()
    transfer((client, server, pattern(400000)), (server, client, pattern(50000, 3)))
    transfer((client, server, pattern(200000, 1)))
    expect("hops", path.a.flow(client)["hops"], 3)
    expect("links", {hop: link[:2] for hop, link in path.a.links(client).items()}, {1: (9, 0), 2: (1, 2), 3: (2, 2)})
    asked = path.a.port("t0")["hpcc"]["stamped"]
    for node in 1, 2:
        stats = path.port(node)["hpcc"]
        expect_in(f"of {asked} requests, {stats['unstamped']}", stats["stamped"], asked * 0.99, asked * 1.01)
        expect("wrong", (stats["unstamped"]["malformed"], stats["unstamped"]["nested"]), (0, 0))
    path.no_errors()


# How host a sends, and the devices that complete checksums because they do not offload it. Inside the tunnel, the checksum
# of TCP is complete, and that of UDP or GRE is computed later.
CHECKERS = (("split", "a:t0 2:right"), ("split", "2:right"), ("whole", "a:right"), ("whole", "2:right"), ("whole", ""),
            ("gso_off", "a:t0 2:right"))


@each("vxlan", "vxlan_nocsum", "vxlan6_zero", "geneve6", "gre_sit", "gretap", "ip4ip6")
def checksums(name):
    """All checksums stay right, wherever they are computed: before, between and behind the ports that stamp."""
    for how, checkers in CHECKERS:
        path = Overlay(name, host=Path.HOST if how == "split" else "stamp inner on node 8", port="")
        for ns, dev in (word.split(":") for word in checkers.split()):
            (path.a if ns == "a" else path.switches[int(ns) - 1]).run(
                "ethtool", "-K", dev, "tx", "off", "tso", "off", "gso", "off")
        if how == "gso_off":
            path.a.run("ethtool", "-K", "right", "tso", "off", "gso", "off")
        client, server = path.connect()
        seen = sniff(path.b, "left")
        transfer((client, server, pattern(300000)))
        expect("hops", path.a.flow(client)["hops"], 3 + (how != "split"))
        got = frames(seen)
        expect_in(f"complete packets, {checkers}", len(got), 100 if checkers else 0, 100000)
        expect("wrong checksums", {word for packet in got for word in wrong_sums(packet)}, set())
        path.no_errors()


def test_esp():
    """Packets that IPsec encrypts below a tunnel are counted, and the flow falls back."""
    path = Overlay("ipip")
    for ns, dev in (path.a, "right"), (path.b, "left"):
        for src, dst, spi in (("10.0.0.1", "10.0.0.2", 1), ("10.0.0.2", "10.0.0.1", 2)):
            way = "out" if (src == "10.0.0.1") == (ns is path.a) else "in"
            ns.ip(f"xfrm state add src {src} dst {dst} proto esp spi {spi} reqid 1 mode transport "
                  f"aead rfc4106(gcm(aes)) 0x{'12' * 20} 128",
                  f"xfrm policy add src {src} dst {dst} proto 4 dir {way} tmpl src {src} dst {dst} proto esp reqid 1 mode transport")
    client, server = path.connect()
    transfer((client, server, pattern(200000)))
    stats = path.port(1)["hpcc"]
    expect_in("encrypted", stats["unstamped"]["encrypted"], 100, 100000)
    expect("stamped", stats["stamped"], 0)
    path.no_errors()


@each("vxlan", "geneve6", "gre", "ip4ip6")
def ecn(name):
    """A port marks the outer header; the end of the tunnel copies the mark inwards (RFC 6040)."""
    path = Overlay(name)
    path.change(1, f"hpcc rate {MBPS // 4}mbit marking ldcp kmin 0 kmax 5kb knonect 1mb")
    for ns in path.hosts:
        ns.sysctl("net.ipv4.tcp_congestion_control", "ldcp")
    client, server = path.connect(cc="ldcp")
    set_cc(server, "ldcp")
    transfer((client, server, pattern(1000000)))
    expect_in("marked by the port", path.port(1)["hpcc"]["marked"], 1, 10000)
    expect_in("marks that the sender got", path.a.counters("ldcp")["marked"], 1, 10000)
    path.no_errors()


def measured(path, size):
    """Send over a path with a slow link. Return, for the last three quarters of the transfer, the link's utilization, the 99th
    percentile of its queue in packets of this size, and the share of requests that it stamped.
    """
    path.change(2, f"hpcc rate {MBPS // 4}mbit delay 20us node 2 port 2")
    looks = look_while_sending(path.connect(), 15000000, 1000, lambda: (
        path.port(2)["hpcc"], time.monotonic(), path.a.counters()["forward_sent"]))
    (before, start, asked), (after, end, asked_last) = looks[len(looks) // 4], looks[-1]
    left, queue = (after["tx_packets"] - before["tx_packets"]) * 0.01, 0
    old, new = ({bucket["bytes"]: bucket["packets"] for bucket in stats["hist"]} for stats in (before, after))
    for queue in sorted(new, reverse=True):
        left -= new[queue] - old.get(queue, 0)
        if left < 0:
            break
    return ((after["tx_bytes"] - before["tx_bytes"]) * 8 / (end - start) / (MBPS // 4 * 1e6), queue / size,
            (after["stamped"] - before["stamped"]) / (asked_last - asked))


def test_figures():
    """Over three switches, a flow in VXLAN uses the slow link as well as a flow without a tunnel."""
    need_virtual_time()
    plain = measured(Path(switches=3), 1538)
    for name in "vxlan", "vxlan_nocsum":
        tunnel = measured(Overlay(name, 3, mtu=1500, port=None), 1588)
        print("# utilization, p99 queue in packets, stamped per request, without and with a tunnel: "
              + "; ".join(" ".join(f"{value:.4f}" for value in one) for one in (plain, tunnel)))
        expect_in("utilization", tunnel[0], plain[0] - 0.005, plain[0] + 0.005)
        expect_in("p99 queue, packets", tunnel[1], plain[1] - 2, plain[1] + 2)
        expect_in("stamped", tunnel[2], 0.99, 100)


main(modules=["tcp_hpcc", "tcp_ldcp", "sch_hpcc"], commands=["ethtool"])
