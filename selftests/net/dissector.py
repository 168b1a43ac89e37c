#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""tools/wireshark/hpcc.lua: tshark reads our options as lib/packet.py does."""

import struct
from itertools import chain

from lib.ktap import expect, expect_in, main
from lib.packet import (ANSWERED, ECHO, FORWARD, IDENTIFY, IDENTIFY_ECHO, REPORT, RESPONSE, SYN, Sniffer,
                        identity, option, quiet, record, syn_option)
from lib.path import Path
from lib.peer import Peer, qlen_value
from lib.tcp import pattern, transfer
from lib.tshark import ETHERNET, OURS, capture, read, read_ours

EXPERTS = ["hpcc.malformed", "hpcc.bad_hop", "hpcc.bad_value", "hpcc.ts_back", "hpcc.tx_excess", "hpcc.path_change"]
OF_HEAD = ["hpcc.type", "hpcc.scale", "hpcc.hops", "hpcc.phase"]
OF_LOAD = ["hpcc.tag", "hpcc.ts", "hpcc.tx", "hpcc.qlen"]
OF_IDENTITY = ["hpcc.hop", "hpcc.switch_id", "hpcc.port_id", "hpcc.rate"]
OF_RECORD = ["hpcc.hop", *OF_LOAD, "hpcc.quiet", *OF_IDENTITY[1:], "hpcc.N", "hpcc.W"]


def fields_of(ours, word):
    """Return (name, value) of each field that the dissector has to show for a record."""
    hop = word >> 60
    if ours.type == REPORT:
        return {1: [("hpcc.W", (word & 0xffffffff) / 2**30)], 2: [("hpcc.N", word & 0xffff)]}.get(hop, [])
    if not hop:
        return [("hpcc.quiet", at) for at in range(1, 16) if ours.type == ECHO and word >> 44 + at & 1]
    if ours.type in (FORWARD, ECHO, RESPONSE):
        qlen = qlen_value(word & 0xfff) << ours.scale
        return zip(["hpcc.hop", *OF_LOAD], (hop, word >> 52 & 0xff, word >> 32 & 0xfffff, word >> 12 & 0xfffff, qlen))
    rate = (word & 0x3fffff) * 10**(3 + 3 * (word >> 22 & 3))
    return zip(OF_IDENTITY, (hop, word >> 40 & 0xfffff, word >> 24 & 0xffff, rate))


def of_segment(seg):
    """Return the fields that the dissector has to show for a segment."""
    found = {name: [] for name in OF_HEAD + OF_RECORD}
    if seg.flags & SYN:
        return found
    for ours in seg.ours():
        for name, value in zip(OF_HEAD, (ours.type, ours.scale, ours.hops, ours.flags & 7)):
            found[name].append(value)
        words = [word for word in ours.words if word or ours.type == REPORT]
        for name, value in chain.from_iterable(fields_of(ours, word) for word in words):
            found[name].append(value)
    return found


def numbers(values):
    """Convert tshark's texts to numbers."""
    return [float(value) if "." in value or "e" in value else int(value, 0) for value in values]


def test_what_hosts_and_switches_write():
    """tshark shows each field of each option of connections in both modes, with identities, over IPv4 and IPv6."""
    types, segments = set(), []
    for version, where in (4, 0), (6, 1):
        path = Path(version, where=where, n_flows=0)
        path.change(1, "hpcc rate 100mbit delay 20us node 1 port 2 stamp above 3000b")
        ends = path.connect()
        sniffer = Sniffer(path.a, "right")
        for i in range(4):
            path.a.ask()
            transfer((*ends, pattern(200000, i)))
        segments += sniffer.segments()
    expect_in("segments", len(segments), 100, 10000)
    lines = read_ours([seg.packet for seg in segments], EXPERTS + OF_HEAD + OF_RECORD)
    for number, (seg, got) in enumerate(zip(segments, lines), 1):
        want = of_segment(seg)
        types.update(want["hpcc.type"])
        for name, values in want.items():
            got_values = numbers(got[name])
            if name == "hpcc.W":        # a window in parameters is in units of 2^-16
                got_values = got_values if want["hpcc.W"] else []
            expect(f"packet {number}, {name}", [round(value, 6) for value in got_values],
                   [round(value, 6) for value in values])
        for name in EXPERTS[:3]:
            expect(f"packet {number}, {name}", got[name], [])
    expect("types", sorted(types), [FORWARD, ECHO, IDENTIFY, IDENTIFY_ECHO, REPORT])


def segments_of(*options, dport=5000):
    """Return one of our SYNs, and a segment with each of the options."""
    peer = Peer()
    peer.lport = dport
    return [peer.packet(SYN, 0, 0, syn_option()), *(peer.packet(16, 1, 1, raw) for raw in options)]


def test_utilization():
    """tshark computes d(tx)/d(ts) from two records of the same link and scale; it also shows u' if T is known."""
    options = [option(FORWARD, [record(1, ts, tx, qlen, tag)], 10)
               for ts, tx, qlen, tag in ((0xfff00, 0xffff0, 100, 1), (100, 50, 200, 1), (100, 50, 200, 1),
                                         (300, 60, 0, 2), (500, 260, 1000, 2))]
    options.append(option(FORWARD, [record(1, 900, 400, 0, 2)], 11))
    names = ["hpcc.utilization", "hpcc.u", "hpcc.path_change", "hpcc.ts_back"]
    lines = read_ours(segments_of(*options), names, "-o", "hpcc.base_rtt:4096000")[1:]
    for name, want in ("hpcc.utilization", (50 + 16) / (100 + 256)), ("hpcc.u", 100 / 4000 + 66 / 356):
        expect(name, [[round(value, 4) for value in numbers(line[name])] for line in lines],
               [[], [round(want, 4)], [], [], [1.0], []])
    expect("path_change", [len(line["hpcc.path_change"]) for line in lines], [0, 0, 0, 1, 0, 0])
    expect("ts_back", [len(line["hpcc.ts_back"]) for line in lines], [0] * 6)
    lines = read_ours(segments_of(*options), names)[1:]
    expect("u' without T", [line["hpcc.u"] for line in lines], [[]] * 6)


def test_malformed():
    """Malformed options are reported, after the fields that could be read; Lua raises no error."""
    window = struct.pack("!II", 1 << 28, (1 << 30) + 1)
    cases = {
        "length": (option(FORWARD)[:1] + b"\x05\x20\x10\0", "hpcc.malformed"),
        "no record": (option(0, [record(1, 1, 1)]), "hpcc.malformed"),
        "hop beyond, answered": (option(ANSWERED, [record(2, 1, 1)]), "hpcc.bad_hop"),
        "kind of report": (option(REPORT, [record(9, 1, 1)]), "hpcc.malformed"),
        "hop beyond": (option(FORWARD, [record(2, 1, 1)]), "hpcc.bad_hop"),
        "hop repeated": (option(ECHO, [record(1, 1, 1), record(1, 2, 2)]), "hpcc.bad_hop"),
        "no hop": (option(FORWARD, [quiet(1)]), "hpcc.bad_hop"),
        "N of 0": (option(REPORT, [struct.pack("!Q", 2 << 60)]), "hpcc.bad_value"),
        "N of 65535": (option(REPORT, [struct.pack("!Q", 2 << 60 | 65535)]), "hpcc.bad_value"),
        "W above 1": (option(REPORT, [window]), "hpcc.bad_value"),
        "head only": (b"\xfd\x03\x20", "tcp.options.experimental.data")}
    lines = read_ours(segments_of(*(raw for raw, _ in cases.values())), EXPERTS + ["tcp.options.experimental.data"])[1:]
    for (what, (_, field)), line in zip(cases.items(), lines):
        if what != "head only":
            expect_in(what, len(line[field]), 1, 2)
        expect(f"other faults in {what}", [name for name in EXPERTS if line[name] and name != field], [])


def test_other_experiments():
    """Wireshark's own dissector parses the options of other experiments, as shown by the SYN or the connection."""
    names = ["hpcc.type", "hpcc.exid", "tcp.options.experimental.exid"]
    ours = option(FORWARD, [record(1, 1, 1)])
    peer = Peer()
    peer.lport = 5000
    packets = [peer.packet(SYN, 0, 0, syn_option(exid=0x1234)), peer.packet(16, 1, 1, ours)]
    peer.port += 1
    packets += [peer.packet(SYN, 0, 0, syn_option(exid=0x1234) + b"\1\1" + syn_option()), peer.packet(16, 1, 1, ours)]
    peer.port += 1
    packets += [peer.packet(16, 1, 1, ours), peer.packet(16, 1, 1, option(0, [record(1, 1, 1)]))]
    lines = read_ours(packets, names)
    expect("type", [line["hpcc.type"] for line in lines], [[], [], [], ["1"], ["1"], []])
    expect("ExID of ours", [line["hpcc.exid"] for line in lines], [[], [], ["0x4843"], [], [], []])
    expect("ExID of others", [bool(line["tcp.options.experimental.exid"]) for line in lines],
           [True, True, True, False, False, True])
    lines = read(packets, names[2:])
    expect("without the script", [bool(line[names[2]]) for line in lines], [True] * 6)


def test_identity():
    """switch_ID, port_ID and B are shown for each exponent."""
    for exp, rate in enumerate((4194303 * 10**3, 4194303 * 10**6, 10**9, 10**12)):
        mantissa = rate // 10**(3 + 3 * exp)
        raw = option(IDENTIFY, [identity(15, 1048575, 65535, mantissa, exp)], hops=15)
        line = read_ours(segments_of(raw), ["hpcc.switch_id", "hpcc.port_id", "hpcc.rate"])[1]
        expect(f"10^{3 + 3 * exp}", [numbers(line[name])[0] for name in line], [1048575, 65535, rate])


def test_tags_in_tags():
    """The dissector terminates for any number of CSIG tags in a row, with or without VLAN tags between them."""
    tag, vlan = b"\x88\xb5\0\0", b"\x81\0\0\5"
    fields = ["csig.type", "_ws.expert.message"]
    for tags in tag, tag * 2, tag * 300, (vlan + tag) * 300:
        for behind in b"\x88\xb6", b"\x88\xb6" + bytes(20), b"\x88":
            got, = read([bytes(12) + tags + behind], fields, *OURS, link=ETHERNET)
            errors = [one for one in got["_ws.expert.message"] if "Lua" in one]
            expect(f"{len(tags)} bytes: a tag, errors", (bool(got["csig.type"]), errors), (len(tags + behind) > 5, []))


def test_captures():
    """tshark shows each field of captures/tcp.pcap, which unit/test_captures.c writes."""
    loads = [[1, 0x0b, 8192, 4096, 1024], [2, 0x84, 8192, 4096, 2048]]
    fields = [*OF_HEAD, "hpcc.hop", *OF_LOAD, "hpcc.switch_id", "hpcc.port_id", "hpcc.rate", "tcp.checksum.status"]

    def packet(head=(), records=(), names=()):
        return [[one] for one in head] or [[]] * 4, [[load[i] for load in records] for i in range(5)], \
            [list(name) for name in names] or [[]] * 3

    want = [
        packet(), packet(),                                         # SYN, SYN-ACK
        packet((FORWARD, 7, 0, 0)), packet((FORWARD, 7, 1, 0), loads[:1]), packet((FORWARD, 7, 2, 0), loads),
        packet((ECHO, 7, 2, 0), loads), packet((IDENTIFY, 7, 2, 0), (), ((3, 4), (1, 1), (100 * 10**9,) * 2)),
        packet((ANSWERED, 7, 2, 0), loads)]
    want[-2][1][0] = [1, 2]
    for number, (got, (head, records, names)) in enumerate(zip(capture("tcp", fields + EXPERTS), want, strict=True), 1):
        values = [numbers(got[name]) for name in fields]
        expect(f"head of packet {number}", values[:4], head)
        expect(f"records of packet {number}", values[4:9], records)
        expect(f"names of packet {number}", values[9:12], names)
        expect(f"checksum of packet {number}", values[12], [1])
        expect(f"faults of packet {number}", [got[name] for name in EXPERTS], [[]] * len(EXPERTS))


main(modules=["sch_hpcc"])
