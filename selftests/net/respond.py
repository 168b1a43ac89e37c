#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""qdisc/respond.c: packets that cause a response, bytes and number of responses, and their way to the sender."""

import errno
import json
import random
import socket
import struct
import time

from lib import tshark
from lib.kernel import virtual_time
from lib.ktap import defer, expect, expect_in, main, need_virtual_time
from lib.modprobe import write
from lib.net import Netns
from lib.packet import (ACK, ANSWERED, ECHO, FORWARD, FREE, IDENTIFY, KIND, MACS, NOP, PSH, RESPONSE, RST, SYN, Segment,
                        Sniffer, addresses, eth, ip, ip_offset, option, packet_socket, qlen_value, record, tcp)
from lib.path import Path
from lib.peer import W_INIT, Flow
from lib.routed import CONNTRACK, Routed, nft
from lib.tcp import get_cc, pattern, transfer

ENDS = {4: ("10.0.0.1", "10.0.0.2"), 6: ("fd00::1", "fd00::2")}


def frame(version=4, options=None, sport=1000, seq=1 << 20, flags=ACK | PSH, tags=(), size=1000, macs=MACS,
          dscp=0, ends=None):
    options = option(FORWARD, [FREE, FREE], 3, 1) if options is None else options
    options += NOP * (-len(options) % 4)
    ends = addresses(*ends or ENDS[version])
    return eth(ip(ends, tcp(ends, options, bytes(size), flags, (sport, 5000), seq, 77, 100), tos=dscp << 2 | 1,
                  **({"label": 0xbeef} if version == 6 else {})), tags=[(0x8100, tag) for tag in tags], macs=macs)


class Port:
    """A device whose qdisc has a queue. Frames that it sends are lost; frames that it receives are recorded."""

    def __init__(self, how="respond 1b", rate="1mbit", queued=0):
        self.ns = Netns()
        self.ns.ip("link add v0 type veth peer name v1", "link set v1 up", "link set v0 up")
        self.ns.tc(f"qdisc add dev v0 root hpcc rate {rate} limit 10mb node 7 port 2 {how}")
        self.sock = packet_socket(self.ns, "v0")
        self.sock.setsockopt(263, 8, 1)         # PACKET_AUXDATA
        for buffer in 32, 33:                   # SO_SNDBUFFORCE, SO_RCVBUFFORCE
            self.sock.setsockopt(socket.SOL_SOCKET, buffer, 1 << 27)
        self.sock.setblocking(False)
        self.send(*[frame(sport=1, options=b"")] * queued)

    def source(self):
        """Return the source address of responses: the port's address with the local bit inverted."""
        links = json.loads(self.ns.run("ip", "-j", "link", "show", "dev", "v0"))
        own = bytes.fromhex(links[0]["address"].replace(":", ""))
        return bytes([own[0] ^ 2]) + own[1:]

    def change(self, how):
        self.ns.tc(f"qdisc change dev v0 root hpcc {how}")

    def send(self, *frames):
        """Put frames into the queue; it may drop them."""
        for one in frames:
            try:
                self.sock.send(one)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise

    def responses(self):
        """Return the frames received, as a bridge or a router would get them."""
        found = []
        while True:
            try:
                got, aux, _, address = self.sock.recvmsg(1 << 17, 256)
            except BlockingIOError:
                return found
            if address[2] == socket.PACKET_OUTGOING or got[12:14] == b"\x86\xdd" and got[20] != 6:
                continue
            status, _, _, _, _, tci, tpid = struct.unpack_from("=IIIHHHH", aux[0][2])
            if status & 0x10:                   # TP_STATUS_VLAN_VALID
                got = got[:12] + struct.pack("!HH", tpid, tci) + got[12:]
            found.append(got)

    def stats(self, dev="v0"):
        return self.ns.port(dev)["hpcc"]

    def counts(self):
        """Return the numbers of responses: sent, held, lost, failed."""
        stats = self.stats()
        return [stats["responses" + name] for name in ("", "_held", "_lost", "_failed")]

    def learn(self, vlan="", dev="v0"):
        """Let the bridge learn that the frames' destination is behind the port."""
        self.ns.run("bridge", "fdb", "replace", MACS[:6].hex(":"), "dev", dev, "master", "static", *vlan.split())

    def bridge(self, *more):
        """Make the device a port of a bridge, whose other port is v2. Return a socket on v3, the peer of v2."""
        self.ns.ip("link add br0 type bridge " + " ".join(more), "link set br0 up", "link set v0 master br0",
                   "link add v2 type veth peer name v3", "link set v3 up", "link set v2 up", "link set v2 master br0")
        sender = packet_socket(self.ns, "v3")
        sender.setsockopt(socket.SOL_SOCKET, 32, 1 << 27)
        return sender


def host(number):
    return f"10.1.{number >> 8}.{number & 255}", ENDS[4][1]


def expected(version, source, tags, dscp):
    """Return the expected response of the second hop without checksums and record."""
    head = MACS[6:] + source + b"".join(b"\x81\0" + struct.pack("!H", tag) for tag in tags)
    ends = addresses(*reversed(ENDS[version]))
    if version == 4:
        head += b"\x08\0" + struct.pack("!BBHIBBH", 0x45, dscp << 2, 52, 0x4000, 64, 6, 0) + ends
    else:
        head += b"\x86\xdd" + struct.pack("!IHBB", 6 << 28 | dscp << 22, 32, 6, 64) + ends
    return head + struct.pack("!HHIIBBHHH", 5000, 1000, 77, 1 << 20, 8 << 4, 0, 0, 0, 0) + \
        bytes([KIND, 12, RESPONSE << 5 | 3, 2 << 4])


def without_checksums(got, version):
    """Return a response without checksums and record, to compare with expected()."""
    at = len(got) - 32
    got = got[:at + 16] + bytes(2) + got[at + 18:-8]
    return got[:at - 10] + bytes(2) + got[at - 8:] if version == 4 else got


def test_bytes():
    """Every byte of a response is as expected, over IPv4 and IPv6, with and without VLAN tags."""
    for version in 4, 6:
        for tags, dscp in ((), 0), ((5,), 46), ((0x6005, 7), 0):
            port, request = Port(queued=1), frame(version, tags=tags, dscp=dscp)
            others = [frame(sport=2, options=b"", size=978)] * 3
            port.send(request, *others)
            expect("responses", port.responses(), [])       # the first packet is on the link, and not queued
            port.send(request)
            got = port.responses()
            expect("responses", len(got), 1)
            expect("bytes", without_checksums(got[0], version).hex(), expected(version, port.source(), tags, dscp).hex())
            seg = Segment(got[0][14 + 4 * len(tags):])
            expect("checksums", (seg.csum_ok, seg.ip_csum_ok), (True, True))
            rec = seg.ours()[0].records[0]
            expect("hop", rec["hop"], 2)
            # The queue holds four packets; a bit takes 1000 ns, and a unit of qlen is 8 ns.
            wire = sum(len(one) + 24 for one in (request, *others))
            expect_in("queue", qlen_value(rec["qlen"]) * 8 / (wire * 8000), 0.99, 1.01)
            expect("statistics", port.counts(), [1, 0, 0, 0])
            # the request is forwarded, and its record has the time of departure
            expect("drop_limit", port.stats()["drop_limit"], 0)


REQUEST, SOME_ECHO = option(FORWARD, [FREE], 3, 0), option(ECHO, [record(1, 1, 1)], 3)
# Frames that cause a response, and frames that do not, by their difference from frame().
LOADED = {"FORWARD": {}, "no slots": {"options": option(FORWARD, [], 3, 1)}, "without data": {"size": 0, "flags": ACK},
          "after 14 hops": {"options": option(FORWARD, [FREE], 3, 14)}, "after ECHO": {"options": SOME_ECHO + REQUEST}}
OTHERS = {
    "after 15 hops": {"options": option(FORWARD, [FREE], 3, 15)}, "no option": {"options": b""},
    "IDENTIFY": {"options": option(IDENTIFY, [FREE], 3, 0)}, "ECHO": {"options": SOME_ECHO},
    "answered": {"options": option(ANSWERED, [FREE], 3, 1)}, "malformed": {"options": b"\xfd\x0b" + bytes(9)},
    "a response": {"options": option(RESPONSE, [record(1, 1, 1)], 3), "flags": 0},
    "another kind": {"options": option(FORWARD, [FREE], 3, 0, kind=254)},
    "no ACK": {"flags": 0}, "RST": {"flags": RST | ACK}, "SYN": {"flags": SYN | ACK},
    "from a group": {"macs": MACS[:6] + b"\x01" + MACS[7:]}, "to a group": {"macs": b"\x01" + MACS[1:]},
    "broadcast": {"macs": b"\xff" * 6 + MACS[6:]}, "to an IPv4 group": {"ends": ("10.0.0.1", "224.0.0.5")},
    "to all of IPv4": {"ends": ("10.0.0.1", "255.255.255.255")},
    "from an IPv4 group": {"ends": ("239.0.0.1", "10.0.0.2")}, "from 0.0.0.0": {"ends": ("0.0.0.0", "10.0.0.2")},
    "from ::": {"version": 6, "ends": ("::", "fd00::2")},
    "to an IPv6 group": {"version": 6, "ends": ("fd00::1", "ff02::1")},
    "from an IPv6 group": {"version": 6, "ends": ("ff05::1", "fd00::2")}}


def test_which():
    """A port responds to load requests on segments with an ACK, and to no other packets."""
    for what, how in (LOADED | OTHERS).items():
        port = Port(queued=2)
        port.send(frame(**how))
        expect(f"responses, {what}", len(port.responses()), int(what in LOADED))


def test_carriers():
    """Data with an IOAM trace get a response to their FORWARD, and the port still fills in the trace. A FORWARD without
    slots beside INT gets none: the sequence number is not one of data. A request for a CSIG tag gets none.
    """
    # two free nodes, in a hop-by-hop header
    trace = bytes((6, 6, 1, 0, 0x31, 50, 0, 0)) + struct.pack("!HHI", 0, 5 << 11 | 10, 0xd20800 << 8) + bytes(40)
    plain = frame(6)
    ipv6 = plain[14:54]
    data = plain[:14] + ipv6[:4] + struct.pack("!HB", len(plain) - 54 + len(trace), 0) + ipv6[7:] + trace + plain[54:]
    # shim, header, no hops
    stack = struct.pack("!BBBBBBBBHHHH", 0x10, 3, 0, 0, 0x20, 0, 6, 5, 0xd500, 0, 0, 0)
    ends = addresses(*ENDS[4])
    probe = eth(ip(ends, tcp(ends, option(FORWARD, [], 3, 1), stack, ACK, (1000, 5000), 1 << 20, 77, 100), tos=23 << 2))
    signal = frame(4, option(FORWARD, [struct.pack("!Q", 0xf4 << 56 | 3 << 13)], 3, 1))
    for carrier, sent, responses in ("ioam", data, 1), ("int", probe, 0), ("csig_push", signal, 0):
        port = Port(f"respond 1b stamp tcp,{carrier}", rate="10mbit", queued=2)
        port.send(sent)
        got = port.responses()
        expect(f"{carrier}: responses", len(got), responses)
        if responses:
            expect("bytes", without_checksums(got[0], 6).hex(), expected(6, port.source(), (), 0).hex())
            expect("checksum", Segment(got[0][14:]).csum_ok, True)
        time.sleep(0.05)
        expect(f"{carrier}: stamped", port.stats()["stamped"], 1)


def test_above_the_threshold_only():
    """The queue is compared with the threshold without the packet itself."""
    port = Port("respond 5000b")
    port.send(*[frame(sport=1, options=b"", size=926)] * 6)      # 1004 and 24 bytes each
    waits = port.stats()["qlen"]
    expect("queue", waits % 5, 0)
    above = f"respond {waits}b"
    for sport, what, how, want in ((1000, "at the threshold", above, 0), (2, "above it", above, 1),
                                   (3, "switched off", "respond 0", 0), (4, "stamp alone", "stamp", 0)):
        port.change(how)
        port.send(frame(sport=sport))
        expect(what, len(port.responses()), want)


def test_dropped_packet():
    """A packet that is dropped because the queue is full causes a response as well."""
    port = Port("respond 1b")
    port.change("limit 3000b")
    port.send(*[frame(sport=1, options=b"")] * 4)
    before = port.stats()["drop_limit"]
    port.send(frame(seq=1 << 21))
    expect("dropped", port.stats()["drop_limit"], before + 1)
    expect("responses", len(port.responses()), 1)


def test_how_often():
    """Each flow gets its own responses: after TIME at the earliest, and after twice TIME at the latest."""
    need_virtual_time()
    port = Port("respond 1b every 1ms", queued=3)
    times = {1000: [], 1001: [], 1002: []}
    for _ in range(400):
        for sport in times:
            port.send(frame(sport=sport))
        now = time.monotonic()
        for got in port.responses():
            times[Segment(got[14:]).dport].append(now)
        time.sleep(0.0001)
    for sport, at in times.items():
        gaps = [b - a for a, b in zip(at, at[1:])]
        expect_in(f"shortest time between responses to {sport}", min(gaps), 0.00099, 0.0021)
        expect_in(f"longest time between responses to {sport}", max(gaps), 0.00099, 0.0023)
    sent, held, lost, failed = port.counts()
    expect("sent, lost, failed", (sent, lost, failed), (sum(map(len, times.values())), 0, 0))
    expect("held", sent + held, 1200)


def test_many_flows():
    """Almost all of a thousand flows get a response, and no flow gets two."""
    port = Port("respond 1b every 1s", queued=3)
    for _ in range(2):
        for sport in range(1000, 2000):
            port.send(frame(sport=sport, size=0, ends=host(sport)))
    got = [Segment(one[14:]).dport for one in port.responses()]
    expect("flows with a response", len(set(got)), len(got))
    expect_in("responses", len(got), 850, 1000)
    expect("sent, lost, failed", [port.counts()[i] for i in (0, 2, 3)], [len(got), 0, 0])


def test_more_than_the_ring():
    """If one softirq delivers 600 requests, 256 get a response; a flow without a response gets one for its next
    request.
    """
    need_virtual_time()
    for name, value in ("dev_weight", 2000), ("netdev_budget", 5000):
        path = f"/proc/sys/net/core/{name}"
        with open(path, encoding="ascii") as file:
            defer(write, path, file.read())
        write(path, str(value))
    port = Port("respond 1b every 1s")
    sender = port.bridge()
    port.learn()
    port.ns.tc("qdisc add dev v3 root hpcc delay 10ms limit 10mb nostamp")
    port.send(*[frame(sport=1, options=b"")] * 20)
    for sport in range(1000, 1600):
        sender.send(frame(sport=sport, size=0, ends=host(sport)))
    time.sleep(0.1)
    sent, held, lost, failed = port.counts()
    expect("sent, failed", (sent, failed), (256, 0))
    expect("sent, held or lost", sent + held + lost, 600)
    expect_in("held", held, 0, 30)
    # The last requests got no response. A few of these flows may share a table entry with another flow.
    port.send(*[frame(sport=sport, size=0, ends=host(sport)) for sport in range(1580, 1600)])
    again, held_now, lost_now, failed = port.counts()
    expect("sent or held, lost, failed later", (again + held_now, lost_now, failed), (256 + held + 20, lost, 0))
    expect_in("responses", again, 256 + 15, 256 + 20)


def broken(rng):
    """Return a frame with some changed bytes, or another length."""
    tags = tuple(rng.randrange(4096) for _ in range(rng.choice((0, 0, 1, 4, 5))))
    options = rng.choice((None, option(FORWARD, [FREE], rng.randrange(32), rng.randrange(16)),
                          b"\1" + option(FORWARD, [], 3, 0), rng.randbytes(rng.randrange(41))))
    one = bytearray(frame(rng.choice((4, 6)), options, rng.randrange(1 << 16), rng.getrandbits(32),
                          rng.choice((ACK, ACK | PSH, rng.randrange(256))), tags, rng.randrange(100)))
    for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
        one[rng.randrange(12, len(one))] = rng.randrange(256)
    return bytes(one[:rng.randrange(14, len(one) + 1)] if rng.random() < 0.2 else one)


def test_random_frames():
    """Each response to a random frame is well-formed, and goes to the frame's source."""
    rng = random.Random(5)
    port = Port("respond 1b every 1us")
    found = 0
    for _ in range(60):
        port.send(*[broken(rng) for _ in range(50)])
        for got in port.responses():
            seg = Segment(got[ip_offset(got):])
            expect("checksums, flags, length", (seg.csum_ok, seg.ip_csum_ok, seg.flags, seg.payload, seg.header),
                   (True, True, 0, b"", 32))
            opt = seg.ours()[0]
            expect("option", (opt.type, len(opt.records), opt.records[0]["hop"]), (RESPONSE, 1, opt.hops))
            expect("destination", got[:6], MACS[6:])
            found += 1
    expect_in("responses", found, 300, 3000)
    expect("sent, lost, failed", [port.counts()[i] for i in (0, 2, 3)], [found, 0, 0])


def test_who_judges():
    port = Port(queued=2)
    for number, how in enumerate(({}, {"version": 6}, {"tags": (5,)}, {"version": 6, "tags": (5, 6)})):
        port.send(frame(sport=1000 + number, **how))
    got = port.responses()
    expect("responses", len(got), 4)
    names = ["tcp.checksum.status", "ip.checksum.status", "tcp.flags", "tcp.hdr_len", "tcp.len"]
    output = tshark.read(got, names, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
                       link=tshark.ETHERNET)
    expect("tshark", [list(line.values()) for line in output],
           [[["1"], ip, ["0x0000"], ["32"], ["0"]] for ip in (["1"], [], ["1"], [])])


# ---- the whole path -----------------------------------------------------------------

def slow(path):
    need_virtual_time()
    path.change(1, "hpcc rate 50mbit limit 1mb stamp respond 6kb every 500us")


def bare(segments):
    return [seg for seg in segments if not seg.flags]


def first_of(segments):
    """Return whether a response arrived before the first ACK of data with our option."""
    return next((not seg.flags for seg in segments if not seg.flags or
                 seg.flags == ACK and seg.dport != 5000 and seg.option(KIND)), False)


def sent(path):
    return path.port(1)["hpcc"]["responses"]


def expect_responses(path, ends, what):
    """Fail unless a gets a response before the first queued ACK, b gets none, and all data arrive."""
    at_a, at_b, before = Sniffer(path.a, "right"), Sniffer(path.b, "left"), sent(path)
    transfer((*ends, pattern(150000)))
    segments = at_a.segments()
    got = bare(segments)
    expect_in(f"{what}: responses", len(got), 1, 1000)
    expect(f"{what}: responses that the port sent", sent(path) - before, len(got))
    expect(f"{what}: a response arrives first", first_of(segments), True)
    for seg in got:
        expect(f"{what}: checksums", (seg.csum_ok, seg.ip_csum_ok), (True, True))
        expect(f"{what}: ports", (seg.sport, seg.dport), (5000, ends[0].getsockname()[1]))
        expect(f"{what}: option", [(opt.type, opt.hops, len(opt.records)) for opt in seg.ours()], [(RESPONSE, 1, 1)])
    counters = path.a.counters()
    expect(f"{what}: received", counters["response_received"], len(got))
    expect_in(f"{what}: ignored", counters["response_ignored"], 0, len(got) - 1)
    expect(f"{what}: at b", bare(at_b.segments()), [])
    expect(f"{what}: cc", get_cc(ends[0]), "hpcc")
    path.no_errors()


def test_bridge():
    for version in 4, 6:
        path = Path(version, switches=2)
        slow(path)
        expect_responses(path, path.connect(), f"bridge, IPv{version}")


def from_port(sender):
    """Return the responses that the bridge has forwarded."""
    time.sleep(0.01)
    sender.setblocking(False)
    found = []
    while True:
        try:
            got, address = sender.recvfrom(1 << 16)
        except BlockingIOError:
            return found
        if address[2] != socket.PACKET_OUTGOING and got[:6] == MACS[6:]:
            found.append(got)


def test_bridge_learns_nothing():
    """A bridge does not learn the location of the data's destination from a response."""
    port = Port()
    sender = port.bridge()
    port.learn()
    port.send(*[frame(sport=1, options=b"", macs=MACS[:6] + MACS[6:11] + b"\3")] * 2)
    sender.send(frame())
    expect("responses", port.counts(), [1, 0, 0, 0])
    expect("responses at the sender", len(from_port(sender)), 1)
    port.ns.run("bridge", "fdb", "del", MACS[:6].hex(":"), "dev", "v0", "master", "static")
    output = port.ns.run("bridge", "fdb", "show", "br", "br0")
    expect("sender learned", "02:00:00:00:00:01 dev v2" in output, True)
    expect("destination learned", "02:00:00:00:00:02 dev" in output, False)


def test_flooded():
    """A frame that a bridge floods gets no response, and uses no budget; only the way to its destination counts."""
    port = Port("respond 1b every 1s")
    sender = port.bridge()
    others = [f"p{number}" for number in range(8)]
    for name in others:
        port.ns.ip(f"link add {name} type veth peer name {name}e", f"link set {name} up", f"link set {name}e up",
                   f"link set {name} master br0")
        port.ns.tc(f"qdisc add dev {name} root hpcc rate 1mbit limit 10mb respond 1b every 1us")
    for name in others:                         # linkwatch may delay the carrier
        while "state forwarding" not in port.ns.run("bridge", "link", "show", "dev", name):
            time.sleep(0.05)
    for sport in range(1000, 1100):
        sender.send(frame(sport=sport, seq=sport << 10))
    expect("responses to flooded frames", from_port(sender), [])
    expect("statistics", port.counts(), [0, 0, 0, 0])
    for name in "v0", *others:
        expect(f"{name} holds flooded frames", port.stats(name)["qlen"] > 50000, True)
    port.learn(dev=others[0])                   # the destination is behind another port
    port.send(frame())
    expect("responses of another port", port.counts(), [0, 0, 0, 0])
    sender.send(frame())
    expect("responses of the port of the destination", len(from_port(sender)), 1)
    port.learn()
    sender.send(frame())
    expect("responses after the destination moved", (port.counts(), len(from_port(sender))), ([1, 0, 0, 0], 1))


def test_flooded_in_a_vlan():
    """The bridge looks up addresses per VLAN: it floods a frame to an address that it has learned only in another VLAN.
    """
    port = Port()
    sender = port.bridge("vlan_filtering", "1", "vlan_default_pvid", "9")
    for vlan in 5, 6:
        for dev in "v0", "v2":
            port.ns.run("bridge", "vlan", "add", "dev", dev, "vid", str(vlan))
    port.send(*[frame(sport=1, options=b"")] * 2)
    for learned, responds in ("vlan 5", (5,)), ("vlan 9", (5, 0)), ("vlan 6", (5, 0, 6)):
        port.learn(learned)
        for vlan in 0, 5, 6:
            before = port.counts()[0]
            sender.send(frame(sport=2000 + 10 * len(responds) + vlan, tags=(vlan,) if vlan else ()))
            expect(f"{learned} known: VLAN {vlan}", port.counts()[0] - before, int(vlan in responds))


def test_answered():
    """A request that was answered is marked as answered, with a correct checksum, and no other port responds to it."""
    for version in 4, 6:
        for options in None, b"\1" + option(FORWARD, [FREE], 7, 14, 9):
            port, other = Port(rate="1gbit"), Port()
            behind = packet_socket(port.ns, "v1")
            behind.settimeout(2)
            request = frame(version, options)
            port.send(*[frame(sport=1, options=b"")] * 3, request)
            got = behind.recv(4096)
            while Segment(got[14:]).sport == 1:
                got = behind.recv(4096)
            expect("responses", len(port.responses()), 1)
            seg, was = Segment(got[14:]), Segment(request[14:])
            expect("checksum", seg.csum_ok, True)
            opt, old = seg.ours()[0], was.ours()[0]
            expect("type, scale, hops, flags, slots", (opt.type, opt.scale, opt.hops, opt.flags, len(opt.words)),
                   (ANSWERED, old.scale, old.hops + 1, old.flags, len(old.words)))
            expect("record", opt.hops > 8 * (opt.flags & 1) and opt.records[0]["hop"] or 0, opt.hops)
            expect("MACs, payload, seq", (got[:14], seg.payload, seg.seq), (request[:14], was.payload, was.seq))
            other.send(*[frame(sport=1, options=b"")] * 3, got)
            expect("responses of the next port", (other.responses(), other.counts()), ([], [0, 0, 0, 0]))
            expect("malformed options of the next port", other.stats()["unstamped"]["malformed"], 0)


def test_forged_numbers():
    """Forged requests with random sequence numbers do not use up the responses of the flow."""
    need_virtual_time()
    took = []
    for attack in False, True:
        rng = random.Random(3)
        port = Port("respond 1b every 1ms", queued=3)
        for step in range(400):
            if attack:
                port.send(*[frame(seq=rng.getrandbits(32), size=0) for _ in range(2)])
            port.send(frame(seq=(0xffff0000 + 500 * step) & 0xffffffff, size=0))
            time.sleep(0.0001)
        got = [(Segment(one[14:]).ack - 0xffff0000) & 0xffffffff for one in port.responses()]
        took.append(sum(1 for number in got if number <= 200000))
        if attack:
            expect_in("responses to 800 forged requests", len(got) - took[-1], 0, 150)
    print(f"# {took} responses to the flow")
    expect_in("responses to the flow", took[0], 30, 80)
    expect_in("responses beside forged requests", took[1], took[0] * 3 // 4, 80)


def test_numbers_that_jump():
    """A retransmission gets a response after twice the time; sequence numbers far away are limited separately."""
    need_virtual_time()
    port = Port("respond 1b every 1ms", queued=3)
    sent = []
    for wait, seq in ((0, 1000), (0.0011, 1000), (0.0011, 999), (0.0011, 999), (0.0011, 999 + (1 << 22) - 1),
                      (0.0001, 999 + (1 << 22)), (0.0001, 999 + (1 << 23)), (0.0001, 999 + (1 << 23))):
        time.sleep(wait)
        port.send(frame(seq=seq, size=0))
        sent.append(len(port.responses()))
    expect("responses", sent, [1, 1, 0, 1, 1, 0, 1, 0])


def test_vlans_apart():
    """Flows with the same ends in different VLANs are limited separately; VLAN priorities do not matter."""
    for ours, other in ((5,), (6,)), ((5, 7), (5, 8)), ((), (5,)):
        port = Port("respond 1b every 1s", queued=3)
        port.send(frame(tags=ours), frame(tags=other), frame(tags=ours), frame(tags=other))
        expect(f"responses in {ours} and {other}", port.counts(), [2, 2, 0, 0])
        if ours:
            port.send(frame(tags=(ours[0] | 0x6000, *ours[1:])))
            expect("another priority", port.counts(), [2, 3, 0, 0])


def test_budget():
    """The number of responses is limited per sender and per port. Continuing flows still get responses
    beside new flows.
    """
    need_virtual_time()
    port = Port("respond 1b every 100ms", queued=3)
    for sport in range(1000, 1400):
        port.send(frame(sport=sport, size=0))
    sent = len(port.responses())
    expect("responses to flows of one sender", sent, 32)
    port.send(frame(sport=1400, size=0, ends=host(1)))
    expect("responses to another sender", len(port.responses()), 1)
    # four flows continue beside many new flows
    seen = set()
    for turn in range(1, 11):
        time.sleep(0.1)
        port.send(*[frame(sport=sport, size=0) for sport in range(3000, 3100)])
        port.responses()
        for sport in range(1000, 1004):
            port.send(frame(sport=sport, size=0, seq=(1 << 20) + turn * 1000))
        seen |= {(turn, Segment(one[14:]).dport) for one in port.responses()}
    expect_in("responses to continuing flows", len(seen), 30, 40)
    port = Port("respond 1b every 1s", queued=3)
    for number in range(4000):
        port.send(frame(sport=1000 + number, size=0, ends=host(number)))
    expect("responses of a port", port.counts()[0], 1024)


def test_router():
    for version in 4, 6:
        path = Routed(version, routers=2)
        slow(path)
        expect_responses(path, path.connect(), f"router, IPv{version}")


def test_vlan():
    """Tagged packets get tagged responses, with the tag in the packet and beside it."""
    path = Path(switches=1)
    path.addr = "10.5.0.1", "10.5.0.2"
    for ns, dev, addr in zip(path.hosts, ("right", "left"), path.addr):
        ns.ip(f"link add link {dev} name v5 type vlan id 5", f"addr add {addr}/24 dev v5", "link set v5 up")
    slow(path)
    expect_responses(path, path.connect(), "VLAN")
    path = Path(switches=1)
    path.switches[0].ip("link set br0 type bridge vlan_filtering 1 vlan_default_pvid 9")
    slow(path)
    expect_responses(path, path.connect(), "a bridge's VLAN")


def test_two_congested_ports():
    path = Path(switches=2)
    slow(path)
    path.change(2, "hpcc rate 25mbit limit 1mb stamp respond 6kb every 500us")
    ends, sniffer = path.connect(), Sniffer(path.a, "right")
    transfer((*ends, pattern(150000)))
    got = bare(sniffer.segments())
    expect("hops", {seg.ours()[0].hops for seg in got}, {1, 2})
    expect("received", path.a.counters()["response_received"], len(got))
    path.no_errors()


def test_own_port():
    """If the queue is in the sender's own port, its host gets the response."""
    need_virtual_time()
    path = Path(switches=1)
    path.a.tc("qdisc replace dev right root hpcc rate 20mbit limit 1mb stamp node 9 respond 6kb every 500us")
    transfer((*path.connect(), pattern(100000)))
    expect_in("received", path.a.counters()["response_received"], 1, 1000)
    path.no_errors()


def test_without_ethernet():
    """On a device without Ethernet headers a response has no Ethernet header."""
    need_virtual_time()
    for version in 4, 6:
        flow = Flow(version=version)
        flow.ns.tc("qdisc add dev tun0 root hpcc rate 10mbit limit 1mb respond 3kb every 500us")
        flow.run()
        expect_in("received", flow.ns.counters()["response_received"], 1, 1000)
        expect_in("W", flow.flow()["W"], 1, W_INIT / 2)


def test_vrf():
    """Both the queue of a VRF device and the queue of a device in the VRF cause responses."""
    need_virtual_time()
    for version in 4, 6:
        for dev in "right", "vrf0":
            path = Path(version, switches=1)
            path.a.ip("link add vrf0 type vrf table 10", "link set vrf0 up", "addr flush dev right",
                      "link set right master vrf0", f"addr add {path.addr[0]}/64 dev right nodad" if
                      version == 6 else f"addr add {path.addr[0]}/24 dev right")
            client = path.a.socket(version)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"vrf0\0")
            ends = path.connect(client=client)
            path.a.tc(f"qdisc replace dev {dev} root hpcc rate 20mbit limit 1mb stamp node 9 respond 6kb "
                      "every 500us")
            transfer((*ends, pattern(100000)))
            expect_in(f"{dev}: received", path.a.counters()["response_received"], 1, 1000)
            path.no_errors()


def test_firewall():
    """A firewall that drops packets of invalid state drops responses; all other packets pass, and the
    flow still uses telemetry.
    """
    for drops in "router", "sender":
        path = Routed(routers=1)
        nft(path.switches[0] if drops == "router" else path.a, CONNTRACK)
        slow(path)
        ends = path.connect()
        transfer((*ends, pattern(150000)))
        expect_in("sent", sent(path), 1, 1000)
        expect("received", path.a.counters()["response_received"], 0)
        expect("cc", get_cc(ends[0]), "hpcc")
        path.no_errors()


def test_others():
    """A port sends no responses to flows that do not run hpcc."""
    path = Path(switches=1, cc=("cubic", "cubic"))
    path.change(1, "hpcc rate 50mbit limit 1mb stamp respond 6kb every 500us")
    transfer((*path.connect(), pattern(150000)))
    expect("sent", sent(path), 0)


def test_comes_and_goes():
    """Qdiscs, bridges and devices are deleted while responses are pending."""
    path = Path(switches=1)
    ends = path.connect()
    switch = path.switches[0]
    how = "qdisc replace dev right root handle 1: hpcc rate 50mbit limit 1mb respond 1b every 1us"
    turns = 0

    def disturb():
        nonlocal turns
        turns += 1
        if turns % 3 == 0:
            switch.tc(how, "qdisc replace dev right root handle 2: pfifo", how)
        if turns % 7 == 0:
            switch.ip("link set left nomaster", "link set left master br0")

    path.change(1, "hpcc rate 50mbit limit 1mb stamp respond 6kb every 500us")
    transfer((*ends, pattern(400000)), each=disturb)
    expect_in("turns", turns, 7, 1 << 20)
    ends[0].setblocking(False)
    ends[0].send(bytes(60000))
    switch.ip("link del right")
    time.sleep(0.01 if virtual_time() else 0.1)


main(modules=["sch_hpcc"])
