#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""IOAM as the carrier of requests: kmod/hpcc/carrier/ioam.c, qdisc/stamp/ioam.c."""

import errno
import os
import socket
import struct
import time

from lib import tshark
from lib.frameport import ENDS, FramePort, ethernet, leave_unchanged
from lib.genl import Family, Refused
from lib.kernel import meminfo_kb, virtual_time
from lib.ktap import Skip, expect, expect_in, main
from lib.net import Pair, joined
from lib.packet import (ACK, CAP_REPORT, CAP_TELEMETRY, ECHO, FORWARD, REPORT, data_segments, option, syn_option)
from lib.path import (MBPS, carrier_path, delete_links, get_links, link, mode_hops, moved, set_links,
                      take_carrier, utilization)
from lib.peer import SCALE, SLOWER, Link, Peer, qlen_code
from lib.qdisc import NLA_F_NESTED, NLM_F_ACK, attr
from lib.routed import Routed
from lib.tcp import pattern, transfer

CAP_IOAM = 0x20
TRACE_TYPE = 0xd20800
BPS = MBPS * 1000000
DST_OPTS = bytes((0, 0, 1, 4, 0, 0, 0, 0))
DST_OPTS_HOP = b"\x06\0\x01\x04\0\0\0\0"      # the same in a hop-by-hop header


def header(head, body, kind, length=None):
    """Return a hop-by-hop header in front of TCP with an IOAM option of this kind."""
    opt = head + bytes([0x31, len(body) + 2 if length is None else length, 0, kind]) + body
    opt += b"\x01\x02\0\0" if -(len(opt) + 2) % 8 else b""
    return bytes([6, (len(opt) + 2) // 8 - 1]) + opt


def trace(nodes=(), room=2, namespace=0, kind=TRACE_TYPE, words=5, flags=0, left=None, head=b"\x01\0", length=None):
    """Return a hop-by-hop header in front of TCP, with the data of nodes in the order of the path."""
    left = words * (room - len(nodes)) if left is None else left
    body = struct.pack("!HHI", namespace, words << 11 | flags << 7 | left, kind << 8) + \
        bytes(4 * words * (room - len(nodes))) + b"".join(reversed(nodes))
    return header(head, body, 0, length)


def incremental(nodes=()):
    """Return a hop-by-hop header with an incremental trace, which our ports leave unchanged."""
    return header(b"\x01\0", struct.pack("!HHI", 0, 5 << 11 | 100, TRACE_TYPE << 8) + b"".join(reversed(nodes)), 1)


def node(number, port=1, ts=1000, qlen=0, tx=0):
    return struct.pack("!IHHIII", 63 << 24 | number, 0xffff, port, ts, qlen, tx)


class Switched(Peer):
    """A peer whose segments have passed switches."""

    header = b""

    def packet(self, *what, **how):
        packet = super().packet(*what, **how)
        if not self.header:
            return packet
        length = struct.unpack_from("!H", packet, 4)[0] + len(self.header)
        return packet[:4] + struct.pack("!HB", length, 0) + packet[7:40] + self.header + packet[40:]


def receiver(unit=1, caps=0):
    """Return a peer whose kernel has a table of two links, and has agreed to IOAM."""
    return take_carrier(Switched(version=6), CAP_IOAM, (1, 1, BPS), (2, 1, BPS, unit), caps=caps)


def refused(ns, what, number, says, command="link-set", **values):
    """Fail unless the kernel refuses a request with this error and message, and changes nothing."""
    before = get_links(ns)
    try:
        ns.hpcc().set(command, **values)
    except Refused as error:
        expect(what, (errno.errorcode[error.number], error.message), (errno.errorcode[number], says))
        expect(f"links after {what}", get_links(ns), before)
        return
    raise AssertionError(f"{what}: accepted")


def test_links_table():
    """The table returns the links that were set, sorted, with the values that were set last."""
    pair = Pair(6)
    fast, far = (1, 2, 10000000000000, 65535), ((1 << 24) - 2, 65534, BPS)
    set_links(pair.c, (7, 3, 25000000000), (1, 2, 1000), far)
    set_links(pair.c, fast, (0, 0, BPS))
    expect("links", get_links(pair.c), [(0, 0, BPS, 1), fast, (7, 3, 25000000000, 1), (*far, 1)])
    delete_links(pair.c, (7, 3), (0, 0))
    expect("links", get_links(pair.c), [fast, (*far, 1)])
    pair.c.hpcc().set("link-set", replace=True, link=[link(9, 9, BPS), link(8, 8, BPS)])
    expect("replaced", get_links(pair.c), [(8, 8, BPS, 1), (9, 9, BPS, 1)])
    set_links(pair.c)
    expect("a request without links, another namespace", (len(get_links(pair.c)), get_links(pair.s)), (2, []))
    pair.c.hpcc().set("link-set", replace=True)
    expect("replaced by none", get_links(pair.c), [])


def test_links_refused():
    """A request with a wrong link is refused as a whole, with the reason."""
    ns = Pair(6).c
    set_links(ns, (1, 2, BPS), (3, 4, BPS, 5))
    out, lacks = "integer out of range", "a link needs node, port and, unless it is deleted, rate"
    for what, number, says, bad in (
            *((f"out of range: {bad}", errno.ERANGE, out, link(*bad)) for bad in (
                ((1 << 24) - 1, 1, BPS), (1, 65535, BPS), (1, (1 << 32) - 1, BPS), (1, 1, 999), (1, 1, 10**13 + 1),
                (1, 1, 0), (1, 1, BPS, 0), (1, 1, BPS, 65536))),
            ("without a rate", errno.EINVAL, lacks, link(1, 1)), ("nothing", errno.EINVAL, lacks, {}),
            ("without a port", errno.EINVAL, lacks, {"node": 1, "rate": BPS}),
            ("a short rate", errno.EINVAL, "invalid attribute length", link(1, 1, bytes(4))),
            ("twice", errno.EINVAL, "the request contains an entry twice", link(9, 9, 2 * BPS))):
        for links in [link(8, 1, BPS), link(9, 9, BPS), bad], [bad, link(9, 9, BPS)]:
            for replace in {}, {"replace": True}:
                refused(ns, what, number, says, link=links, **replace)
    for what, number, says, links in (
            ("unknown", errno.ENOENT, "the table has no such entry", [link(1, 2), link(1, 3)]),
            ("with a rate", errno.EINVAL, "Unknown attribute type", [link(1, 2, BPS)]),
            ("twice", errno.EINVAL, "the request contains an entry twice", [link(1, 2), link(1, 2)]),
            ("without a port", errno.EINVAL, lacks, [{"node": 1}])):
        refused(ns, f"deleted: {what}", number, says, "link-del", link=links)
    refused(ns, "deleted: replace", errno.EINVAL, "a request cannot both delete and replace entries", "link-del",
            replace=True, link=[link(1, 2)])
    refused(ns, "a route", errno.EINVAL, "the entry belongs to another table", route=[{"len": 0}])
    refused(ns, "links among routes", errno.EINVAL, "the entry belongs to another table", "route-set", link=[link(5, 5, BPS)])
    family = ns.hpcc()
    for body in (attr(2, family.encode("link", link(5, 5, BPS))), attr(2 | NLA_F_NESTED, b"x" * 5),
                 attr(2 | NLA_F_NESTED, attr(5, bytes(4))), attr(99, bytes(4))):
        try:
            family.request("link-set", family.encode("table", {"link": [link(5, 5, BPS)]}) + body, NLM_F_ACK)
        except Refused as error:
            expect(f"{body.hex()}: error, reason", (error.number in (errno.EINVAL, errno.ERANGE), error.message != ""),
                   (True, True))
            continue
        raise AssertionError(f"accepted: {body.hex()}")
    expect("links", get_links(ns), [(1, 2, BPS, 1), (3, 4, BPS, 5)])


def test_links_full():
    """A full table accepts only new values for its links. Its memory depends on the number of links only."""
    ns = Pair(6).c
    ns.hpcc().sock.setsockopt(socket.SOL_SOCKET, 32, 1 << 24)       # SO_SNDBUFFORCE
    links = [(node << 8, 7 * node % 65535, BPS) for node in range(65000)]
    kinds = "Slab", "VmallocUsed"
    before = meminfo_kb(*kinds)
    set_links(ns, *links)
    used = meminfo_kb(*kinds) - before
    print(f"# {used} KB of memory")
    if not os.path.exists("/sys/kernel/debug/kmemleak"):
        expect_in("KB of memory", used, 900, 1200)
    for one in [link(1, 1, BPS)], [link(1, 0, BPS), link(5 << 8, 35, 10 * BPS)]:
        refused(ns, "another link", errno.ENOSPC, "the table is full", link=one)
    refused(ns, "too many links", errno.ENOSPC, "the request has more entries than a table may have", replace=True,
            link=[link(*one) for one in [*links, (1, 1, BPS)]])
    set_links(ns, (5 << 8, 35, 25000000000))
    delete_links(ns, (6 << 8, 42))
    set_links(ns, (1, 1, BPS))
    expect("links", get_links(ns), [(0, 0, BPS, 1), (1, 1, BPS, 1), *[(*one, 1) for one in links[1:5]],
                                (5 << 8, 35, 25000000000, 1), *[(*one, 1) for one in links[7:]]])


def test_links_read_while_they_change():
    """Links that stay are returned once, although other links are added and deleted between the parts of an answer."""
    ns = Pair(6).c
    staying = [(2 * node, 1, BPS, 1) for node in range(3000)]
    set_links(ns, *staying)
    others, family = [(2 * node + 1, 1, BPS) for node in range(3000)], Family(ns, "hpcc")
    found, parts = [], 0
    for part in ns.hpcc().dump_in_parts("link-get"):
        found += [tuple(one.values()) for message in part for one in message["link"]]
        how = {"link-set": others} if parts % 2 == 0 else {"link-del": [one[:2] for one in others]}
        for command, links in how.items():
            family.set(command, link=[link(*one) for one in links])
        parts += 1
    expect_in("parts of the answer", parts, 3, 1000)
    expect("links without repetition, in order", found, sorted(set(found)))
    expect("links that stay", [one for one in found if not one[0] % 2], staying)


def test_no_trace_without_request():
    """A segment without space for a request in its TCP header gets no trace. Beside three SACK blocks these
    are the first three segments, and then every second one: the other ones leave with one block.
    """
    for blocks in 0, 1, 3:
        peer = Peer(version=6, carrier=1).connected(syn_option(caps=CAP_TELEMETRY | CAP_IOAM))
        for block in range(blocks):
            peer.send(b"", b"x" * 100, seq=peer.seq + 1000 * (block + 1))
        peer.read_all(0.01)
        segs = []
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(6):
            peer.sock.send(bytes(100))
            segs += data_segments(peer.read_all(0.01))
        has = [blocks < 2 or i in (3, 5) for i in range(6)]
        expect(f"header, request with {blocks} SACK blocks",
               [(seg.at > 40, bool(seg.telemetry(FORWARD))) for seg in segs], [(one, one) for one in has])
        expect("ioam_sent", peer.ns.counters()["ioam_sent"], sum(has))


def test_names():
    """Links report their identities: an IDENTIFY has its own slots, and gets no trace."""
    path, client, server = joined(carrier_path("ioam"))
    path.a.ask()
    for i in range(3):
        transfer((client, server, pattern(400000, i)))
    expect("links", path.a.links(client), {hop: (hop, 2, BPS) for hop in (1, 2)})
    path.no_errors()


def test_carriers_in_turn():
    """While a socket has extension headers requests use TCP; counters of traces and options are not compared."""
    path, client, server = joined(carrier_path("ioam"))
    transfer((client, server, pattern(400000)))
    for i in range(10):
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, DST_OPTS if i % 2 else b"")
        transfer((client, server, pattern(40000, i)))
    counters = path.a.counters()
    expect_in("requests in the TCP option", counters["forward_sent"] - counters["ioam_sent"], 5, 1000)
    expect("stopped, mode, hops", (counters["ioam_stopped"], mode_hops(path.a)), (0, ("telemetry", 2)))
    path.no_errors()


def test_mtu_shrinks():
    """The MTU shrinks during the connection: requests keep their traces, and no packet is too long."""
    path, client, server = joined(carrier_path("ioam"))
    transfer((client, server, pattern(400000)))
    for ns, dev in (path.a, "right"), (path.b, "left"):
        ns.ip(f"link set {dev} mtu 1400")
    before = path.a.counters()
    transfer((client, server, pattern(400000)), (server, client, pattern(50000, 3)))
    moved = path.a.counters() - before
    expect_in("traces", moved["ioam_sent"], 10, 1000)
    expect("requests without a trace", moved["forward_sent"] - moved["ioam_sent"], 0)
    path.no_errors()


def test_mixed_path():
    """Some hops write into the trace, others into the TCP option: W follows the slowest link, of either kind."""
    for stamps in ("tcp", "ioam"), ("ioam", "tcp"), ("tcp", "ioam", "tcp,ioam", "tcp"), (*("tcp",) * 4, "ioam"):
        for slow in range(len(stamps)):
            path = carrier_path("ioam", switches=len(stamps))
            for number, stamp in enumerate(stamps, 1):
                rate = MBPS // 2 if number == slow + 1 else MBPS
                for port, dev in enumerate(("left", "right"), 1):
                    path.change(number, f"hpcc rate {rate}mbit delay 20us node {number} port {port} stamp {stamp}", dev)
            for ns in path.hosts:
                set_links(ns, (slow + 1, 1, BPS // 2), (slow + 1, 2, BPS // 2))
            ends = path.connect()
            transfer((*ends, pattern(500000)))
            took = 2 * utilization(path, ends, 3000000)
            found, a, b = mode_hops(path.a), path.a.counters(), path.b.counters()
            expect_in("traces", b["ioam_received"], 10, 100000)
            for name in "ioam_ignored", "ioam_unknown_link":
                expect(name, (a[name], b[name]), (0, 0))
            path.no_errors()
            # On a busy machine many packets are late, and connections fall back.
            if not virtual_time():
                continue
            expect(f"mode, hops by {stamps}", found, ("telemetry", len(stamps)))
            for name in "ioam_stopped", "timeouts", "fallbacks":
                expect(name, (a[name], b[name]), (0, 0))
            expect_in(f"utilization of link {slow + 1} of {stamps}", took, 0.88, 0.97)


def lose(path, client, server, for_s):
    """Take a link down for a time, and send data: the data in flight are lost and retransmitted."""
    path.switches[0].ip("link set right down")
    client.send(pattern(20000))
    time.sleep(for_s)
    path.switches[0].ip("link set right up")
    server.settimeout(30)
    got = b""
    while len(got) < 20000:
        got += server.recv(20000)
    expect("data", got, pattern(20000))


def test_one_timeout():
    """After a short or long loss of all packets traces are sent again, also if switches write only traces."""
    for stamp, for_s, timeouts in ("tcp,ioam", 0.1, 1), ("ioam", 0.1, 1), ("tcp,ioam", 1, 2):
        path, *ends = joined(carrier_path("ioam", stamp=stamp))
        for i in range(3):
            transfer((*ends, pattern(400000, i)))
            lose(path, *ends, for_s)
            before = path.a.counters()["ioam_sent"]
            transfer((*ends, pattern(400000)))
            if virtual_time():
                expect_in("traces", path.a.counters()["ioam_sent"] - before, 10, 1000)
        if virtual_time():
            expect_in("timeouts", path.a.counters()["timeouts"], 3 * timeouts, 3 * timeouts + 3)
            expect("stopped, mode, hops", (path.a.counters()["ioam_stopped"], mode_hops(path.a)), (0, ("telemetry", 2)))


def test_traces_in():
    """A receiver reads a trace as records, and ignores and counts a trace that it cannot use."""
    good = node(1), node(2, qlen=25000)
    cases = {
        "ioam_received": (
            trace(good), trace(good, room=5), trace(good, head=b"\x05\x02\0\0\x01\0"),
            trace()),                                   # no node wrote
        "ioam_ignored": (
            incremental(good), trace(good, namespace=1), trace(good, kind=0xd20000, words=4, left=0),
            trace(good, kind=0xd20802), trace(good, words=5, left=11), trace(good, left=3), trace(good, flags=8),
            trace((node(1), node(2, ts=1000000000))), trace((node(1), node(2, qlen=0xffffffff))),
            trace((node(1), node(2, tx=0xffffffff))), trace((node(1), node(0xffffff))),
            b"\x06\0\x01\x04\0\0\0\0"),                 # not a trace
        "ioam_unknown_link": (trace((node(1), node(3))),)}
    peer = receiver(unit=5)                             # the second link counts cells of 5 bytes
    for counter, headers in cases.items():
        for peer.header in headers:
            before = peer.ns.counters()
            peer.send(option(FORWARD, (), SCALE), b"x" * 10)
            what = f"{counter} of {peer.header.hex()}"
            expect(what, moved(peer.ns, before, "ioam_"), {counter: 1})
            echo = peer.echoes()
            expect(f"{what}: echoes", len(echo), int(counter == "ioam_received" and peer.header != trace()))
            if echo:
                expect("hops, queue", ([r["hop"] for r in echo[0].records], echo[0].records[1]["qlen"]),
                       ([1, 2], qlen_code((1000000 >> SLOWER) // 128)))
    expect("data", peer.sock.recv(1000), b"x" * 10 * sum(map(len, cases.values())))


def test_mixed_in():
    """A packet has a trace and records: the hops of the option are first, then the nodes of the trace."""
    # A trace of another namespace or type belongs to another user, so the receiver uses the records. If a trace of our
    # namespace and type cannot be used, the receiver also ignores the records.
    peer = receiver()
    links = [Link(hop, tag=hop) for hop in (1, 2)]
    both = trace((node(1), node(2)))
    # header, number of records, hops of the option, counter, hops echoed
    cases = (
        (both, 2, 2, "ioam_received", [1, 2, 3, 4]),
        (both, 1, 1, "ioam_received", [1, 2, 3]),
        (both, 1, 2, "ioam_received", [1, 3, 4]),               # the second hop is quiet, or was not requested
        (both, 2, 13, "ioam_received", None),
        (both, 2, 14, "ioam_ignored", []),
        (trace((node(1), node(3))), 2, 2, "ioam_unknown_link", []),
        (trace((node(1), node(2)), flags=8), 2, 2, "ioam_ignored", []),
        (trace((node(1), node(2)), left=11), 2, 2, "ioam_ignored", []),
        (trace(), 2, 2, "ioam_received", []),
        (trace(namespace=1), 2, 2, "ioam_ignored", [1, 2]),
        (trace(kind=0xd20000, words=4), 2, 2, "ioam_ignored", [1, 2]),
        (b"\x06\x01\x01\0\x31\x04\0\0\0\0\x01\x04\0\0\0\0", 2, 2, "ioam_ignored", [1, 2]),      # too short for a trace
        (DST_OPTS_HOP, 2, 2, None, [1, 2]))
    for peer.header, records, hops, counter, echoed in cases:
        before = peer.ns.counters()
        peer.send(option(FORWARD, [link.step(5000).raw() for link in links[:records]], SCALE, hops=hops), b"x")
        what = f"{peer.header.hex()} beside {records} of {hops}"
        expect(f"{counter} of {what}", moved(peer.ns, before, "ioam_"), {counter: 1} if counter else {})
        found = set()
        for turn in range(5):           # an echo has at most 3 records, or 1 beside a request
            if turn:
                peer.sock.send(b"y")
            segs = peer.read_all(0.05)
            peer.acked = ([seg.seq + len(seg.payload) for seg in segs if seg.payload] or [peer.acked])[-1] & 0xffffffff
            peer.send(b"")
            for echo in filter(None, (seg.telemetry(ECHO) for seg in segs + peer.read_all(0.05))):
                expect("hops of the path", echo.hops, hops + 2 * (counter == "ioam_received"))
                found |= {record["hop"] for record in echo.records}
        if echoed is not None:
            expect(f"hops echoed of {what}", sorted(found), echoed)
    expect("data", peer.sock.recv(1000), b"x" * len(cases))


def test_mixed_without_N():
    """With hops in an IOAM trace and in the TCP option, the receiver does not know which is last, and reports no N."""
    peer, link = receiver(caps=CAP_REPORT), Link()
    for with_trace, hops, echoed in (1, 0, True), (1, 1, False), (0, 1, False), (1, 0, True), (0, 1, True):
        peer.header = trace((node(1), node(2))) * with_trace
        found = []
        for _ in range(4):
            peer.send(option(FORWARD, [link.step(5000).raw()] if hops else (), SCALE, hops=hops), b"x")
            found += [ours.type for seg in peer.read_all(0.05) for ours in seg.ours()]
        expect(f"{peer.header.hex()} beside {hops}: echoes, N echoed", (ECHO in found, REPORT in found), (True, echoed))


def test_link_away():
    """A link that was missing in traces for too long gets a new tag; links in each trace keep their tags."""
    peer = receiver()

    def tags(*nodes):
        peer.header = trace(nodes)
        peer.send(option(FORWARD, (), SCALE), b"x")
        return {record["hop"]: record["tag"] for record in peer.echoes()[-1].records}

    first = tags(node(1), node(2))
    expect("tags a moment later", tags(node(1), node(2)), first)
    for _ in range(4):
        expect("tag of a shorter path", tags(node(1)), {1: first[1]})
    last = tags(node(1), node(2))
    expect("tag of the first link, the second link has a new tag", (last[1], last[2] != first[2]), (first[1], True))


def frame(header, hop_limit=64, tcp=None):
    """Return an Ethernet frame with IPv6, the header, and TCP or 8 other bytes."""
    payload = header + tcp if tcp else bytes([59]) + header[1:] + b"payload."
    return ethernet(struct.pack("!IHBB", 6 << 28, len(payload), 0, hop_limit) + ENDS[6] + payload)


def test_port_writes():
    """A port writes each field at the end of the free space, and changes nothing else."""
    port = FramePort("stamp ioam", version=6)
    sent = frame(trace(room=3), 17)
    first = port.through(sent)
    second = port.through(first)
    at = 14 + 40 + 4 + 4
    expect("RemainingLen", [struct.unpack_from("!H", data, at + 2)[0] & 0x7f for data in (first, second)], [10, 5])
    written = first[at + 48:at + 68]
    hop, interfaces, fraction, qlen, _ = struct.unpack("!IIIII", written)
    expect("node", (hop, interfaces, qlen), (17 << 24 | 5, 0xffff0009, 0))
    expect_in("fraction", fraction, 0, 999999999)
    expect("data of the first node", second[at + 48:at + 68], written)
    expect("other bytes", *(data[:at + 3] + data[at + 4:at + 48] + data[at + 68:] for data in (first, sent)))
    (ts, tx), (ts_2, tx_2) = (struct.unpack_from("!I4xI", second, where + 8) for where in (at + 48, at + 28))
    # one packet of this length with 24 bytes of overhead, apart from rounding
    expect_in("tx_bytes", (tx_2 - tx) % (1 << 32), len(first) + 23, len(first) + 25)
    expect_in("time", (ts_2 - ts) % 1000000000, (len(first) + 24) * 8, 500000000)


def test_port_leaves():
    """A trace that the port must not fill leaves unchanged, and is counted by reason."""
    for how, why, *headers in (
            ("stamp ioam", "no_option", trace(namespace=5), trace(kind=0xd20802)),
            ("stamp ioam", "malformed", trace(left=11), trace(words=4, left=8)),
            ("stamp ioam", "full", trace(flags=8)), ("stamp ioam", "off", trace(length=200), trace(length=3)),
            ("stamp ioam identify off", "off", trace(namespace=5), trace(kind=0xd20000, words=4)),
            ("stamp tcp", "not_tcp", trace()), ("nostamp", "off", trace())):
        leave_unchanged([(how, frame(header), why) for header in headers], version=6)
    port = FramePort("stamp ioam", version=6)
    full = port.through(frame(trace(room=1)))
    again = port.through(full)
    expect("overflow flag only", again, full[:64] + bytes([full[64] | 4]) + full[65:])


def segment(*slots, hops=0):
    opts = option(FORWARD, slots, SCALE, hops)
    return struct.pack("!HHIIBBHHH", 1, 2, 3, 4, (5 + len(opts) // 4) << 4, ACK, 100, 0, 0) + opts


def test_port_without_name():
    """A port with identify off writes into the TCP option, or without an option sets the overflow flag of the trace."""
    tcp = 14 + 40 + len(trace())
    port = FramePort("stamp tcp,ioam identify off", version=6)
    sent = frame(trace(), tcp=segment(bytes(8)))
    got = port.through(sent)
    expect("trace", got[:tcp], sent[:tcp])
    expect("hops of the option, hop of its record, stamped",
           (got[tcp + 23] >> 4, got[tcp + 24] >> 4, port.stats()["stamped"]), (1, 1, 1))
    for how, header, rest in (("ioam", trace(), segment(bytes(8))), ("tcp,ioam", trace(), None)):
        port = FramePort(f"stamp {how} identify off", version=6)
        sent = frame(header, tcp=rest)
        expect(f"{how}: overflow flag only", port.through(sent), sent[:64] + bytes([sent[64] | 4]) + sent[65:])
        expect_in(f"{how}: off", port.stats()["unstamped"]["off"], 1, 100)
        expect("stamped", port.stats()["stamped"], 0)


def test_path_without_name():
    """W follows a port with identify off through the TCP option; without the option its traces are ignored."""
    path = carrier_path("ioam")
    path.change(1, f"hpcc rate {MBPS // 2}mbit identify off")
    ends = path.connect()
    transfer((*ends, pattern(500000)))
    took = 2 * utilization(path, ends, 3000000)
    expect_in("traces", path.b.counters()["ioam_received"], 10, 100000)
    path.no_errors()
    if virtual_time():
        expect("mode, hops, drops", (mode_hops(path.a), path.port(1)["drops"]), (("telemetry", 2), 0))
        expect_in("utilization", took, 0.88, 0.97)
    path = carrier_path("ioam")
    path.change(1, "hpcc stamp ioam identify off")
    transfer((*path.connect(), pattern(500000)))
    expect_in("traces ignored", path.b.counters()["ioam_ignored"], 1, 100000)


def test_port_foreign():
    """A port writes into the option if the trace is incremental, of another namespace, or lacks fields."""
    port, tcp = FramePort("stamp tcp,ioam", version=6), segment(bytes(8))
    for header, foreign in ((trace(), False), (incremental(), True), (trace(namespace=5), True),
                            (trace(kind=0xd20000, words=4), True), (trace(kind=0xfffffc, words=25, room=1), True)):
        sent = frame(header, tcp=tcp)
        got = port.through(sent)
        found = got[:-len(tcp)] == sent[:-len(tcp)], got[-9] >> 4, got[-8:] != bytes(8)
        expect(f"{header.hex()}: trace unchanged, hops of the option, record", found, (foreign, int(foreign), foreign))


def test_kernel_node():
    """A router's kernel also writes node data into traces: the receiver ignores them, and TCP options replace them."""
    # This data has no tx_bytes, and its timestamp is the time of receipt.
    path = Routed(6, 1, carrier=1)
    router = path.switches[0]
    for port, dev in enumerate(("left", "right"), 1):
        path.change(1, f"hpcc rate 500mbit delay 20us node 1 port {port} stamp tcp,ioam", dev)
    for ns in path.hosts:
        set_links(ns, (1, 1, 500000000), (1, 2, 500000000))
    client, server = path.connect()
    transfer((client, server, pattern(300000)))
    expect("hops, ioam_ignored", (path.a.flow()["hops"], path.b.counters()["ioam_ignored"]), (1, 0))
    try:
        router.run("ip", "ioam", "namespace", "add", "0")
    except AssertionError as error:
        raise Skip(f"ip ioam: {error}") from error
    for dev in "left", "right":
        router.sysctl(f"net.ipv6.conf.{dev}.ioam6_enabled", 1)
    for i in range(6):
        transfer((client, server, pattern(400000, i)))
    expect_in("ioam_ignored", path.b.counters()["ioam_ignored"], 1, 100000)
    expect("stopped, mode, hops", (path.a.counters()["ioam_stopped"], mode_hops(path.a)), (1, ("telemetry", 1)))


def test_captures():
    """Wireshark's dissector reads captures/ioam.pcap, which unit/test_captures.c makes."""
    one, both, none = [[1], [64], [2], [999999000], [0]], \
        [[2, 1], [64, 64], [1, 2], [500, 999999000], [12500, 0]], [[]] * 5
    # RemainingLen, flags, nodes
    want = [(15, 0, none), (10, 0, one), (5, 0, both), (0, 8, one)]
    trace_of = "ipv6.opt.ioam.trace."
    fields = ["ipv6.opt.ioam.opt_type", *(trace_of + field for field in ("ns", "nodelen", "type", "remlen", "flags")),
              *(trace_of + "node." + field for field in ("id", "hlim", "eif", "tsf", "qdepth")),
              "tcp.checksum.status", "hpcc.type", "hpcc.malformed", "tcp.len"]
    packets = [[[int(value, 0) for value in values] for values in packet.values()]
               for packet in tshark.capture("ioam", fields)]
    expect("packets", len(packets), len(want))
    for number, (packet, (left, flags, nodes)) in enumerate(zip(packets, want), 1):
        expect(f"trace of packet {number}", packet[:6], [[0], [0], [5], [TRACE_TYPE], [left], [flags]])
        expect(f"nodes of packet {number}", packet[6:11], nodes)
        expect(f"TCP of packet {number}: checksum, option, data", packet[11:], [[1], [FORWARD], [], [8]])


if __name__ == "__main__":
    main(modules=["sch_hpcc"])
