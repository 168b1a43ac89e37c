#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""For mark.sh: IP packets that find a queue of a chosen length in the qdisc "hpcc"."""
# The link is so slow that no frame leaves the queue while a test sends. Frames of other protocols than IP fill the
# queue to exactly the chosen length, because the qdisc neither marks nor drops them. Then the test makes the link fast.

import struct
import subprocess
import sys

from lib.frames import (DSTOPTS, HOPOPTS, OVERHEAD, ROUTING, THREE, WRONG, check_stamped, expect, gso_frame,
                        ip4, ip6, main, receive_all, seg4, seg6, tcp_is_right, tcp_offset)
from lib.packet import csum, eth, ip_offset, with_csum
from lib.tracepoint import Tracepoint

NOT_ECT, ECT1, ECT0, CE = range(4)
SLOW, FAST = "1kbit", "10tbit"
FILLER_MAX = 60000		# the devices' MTU is larger
FILLER_PROTO = 46		# a length: 802.3
PRIMER = eth(bytes(46), FILLER_PROTO)
PRIMER_WIRE = len(PRIMER) + OVERHEAD

KMIN, KMAX, LIMIT = 1000000, 3000000, 8000000
PROBES = 4000			# at each length
TRIES = 3			# a result exceeds 3 sigma once in 370 times


def with_ecn(frame, ecn):
    """Return the frame with another ECN field and a recomputed header checksum."""
    at = ip_offset(frame)
    if frame[at] >> 4 == 6:
        return frame[:at + 1] + bytes([frame[at + 1] & 0xcf | ecn << 4]) + frame[at + 2:]
    end = at + (frame[at] & 15) * 4
    head = frame[at:at + 1] + bytes([frame[at + 1] & 0xfc | ecn]) + frame[at + 2:end]
    return frame[:at] + with_csum(head, 10) + frame[end:]


def ecn_of(frame):
    at = ip_offset(frame)
    return frame[at + 1] >> 4 & 3 if frame[at] >> 4 == 6 else frame[at + 1] & 3


def udp4(number, size=50):
    """Return a numbered UDP packet; each has another header checksum."""
    packet = ip4(struct.pack(">I", number).ljust(size, b"u"), proto=17)
    return eth(packet[:4] + struct.pack(">H", number & 0xffff) + packet[6:])


def udp6(number, size=30):
    """Return a numbered UDP packet over IPv6."""
    return eth(ip6(struct.pack(">I", number).ljust(size, b"u"), proto=17))


def change(wire, *options):
    subprocess.run(["tc", "qdisc", "change", "dev", wire.tx_dev, "root", "hpcc",
                    *(str(o) for o in options)], check=True)


def mark_above(wire, kmax, *options):
    """Let the qdisc mark all ECN-capable packets from this queue length on, and drop no other packets."""
    change(wire, "marking", "ldcp", "limit", LIMIT, "kmin", 0, "kmax", kmax, "knonect", LIMIT, *options)


def hold(wire, length):
    """Fill the queue with this many bytes."""
    change(wire, "rate", SLOW)
    wire.send(PRIMER)
    while length:
        size = min(length, FILLER_MAX)
        if 0 < length - size < PRIMER_WIRE:
            size -= PRIMER_WIRE
        wire.send(eth(bytes(size - OVERHEAD - 14), FILLER_PROTO))
        length -= size


def arrivals(wire):
    """Release the queue. Return all frames that waited, except the frames that filled the queue."""
    change(wire, "rate", FAST)
    got = []
    while answer := wire.receive(2):
        frame = answer[1]
        if frame[12:14] != struct.pack(">H", FILLER_PROTO) and frame[12:13] != b"\0":
            got.append(frame)
    return got


def behind(wire, length, sent):
    """Send frames while the queue has this length. Return the frames that arrive."""
    hold(wire, length)
    expect("queue", wire.stats()["qlen"], length)
    for frame in sent:
        wire.send(frame)
    return arrivals(wire)


def counted(wire, before, **want):
    """Compare the change of counters with the expected one."""
    now = wire.stats()
    for name, value in want.items():
        expect(name, now[name] - before[name], value)


# ---- groups ----

def chance(queue, pmax):
    if queue < KMIN:
        return 0
    if queue >= KMAX:
        return 1
    return (queue - KMIN) / (KMAX - KMIN) * pmax


def share(wire, length, pmax):
    """Return the number of marks at a queue length, the expected number, and the bound of 3 sigma."""
    ect = [with_ecn((udp4, udp6)[i & 1](i), (ECT0, ECT1)[i >> 1 & 1]) for i in range(PROBES)]
    size = len(ect[0]) + OVERHEAD
    before = wire.stats()
    got = behind(wire, length, ect)
    p = [chance(length + i * size, pmax) for i in range(PROBES)]
    marks = sum(ecn_of(frame) == CE for frame in got)
    for sent, frame in zip(ect, got):
        if frame not in (sent, with_ecn(sent, CE)):
            WRONG.append(f"at {length}: sent {sent.hex()}, got {frame.hex()}")
            break
    expect(f"at {length}: arrived", len(got), PROBES)
    at_kmax = p.count(1)
    counted(wire, before, marked=marks, marked_kmax=at_kmax,
            marked_p=marks - at_kmax, drop_limit=0, drop_knonect=0, mark_failed=0)
    return marks, sum(p), 3 * sum(v * (1 - v) for v in p) ** .5


def group_chance(wire, pmax):
    """The share of marks at several queue lengths agrees with the formula."""
    change(wire, "marking", "ldcp", "limit", LIMIT, "kmin", KMIN, "kmax", KMAX, "pmax", pmax)
    for length in (0, KMIN // 2, KMIN, 1500000, 2000000, 2500000, KMAX, 5000000):
        for attempt in range(TRIES):
            marks, mean, bound = share(wire, length, float(pmax))
            what = f"queue {length}: {marks} marks of {PROBES}, formula {mean:.1f} +- {bound:.1f}"
            print(what, file=sys.stderr)
            if abs(marks - mean) <= bound + 1e-6:
                break
            if attempt == TRIES - 1:
                WRONG.append(f"{what}, {TRIES} times in a row")


def group_edges(wire):
    """Thresholds are exact to the byte. With pmax 0 no mark depends on chance."""
    ect, other = with_ecn(udp4(1), ECT0), udp4(2)
    size = len(ect) + OVERHEAD
    kmax, knonect, limit = 300000, 200000, 400000
    change(wire, "marking", "ldcp", "limit", limit, "kmin", 0, "kmax", kmax, "pmax", 0, "knonect", knonect)
    for length, sent, want in (
            (0, ect, [ect]), (0, other, [other]),
            (knonect - 1, other, [other]), (knonect, other, []),
            (knonect, ect, [ect]), (kmax, other, []),
            (kmax - 1, ect, [ect]), (kmax, ect, [with_ecn(ect, CE)]),
            (limit - size, ect, [with_ecn(ect, CE)]),
            (limit - size + 1, ect, []), (limit, other, [])):
        before = wire.stats()
        expect(f"ECN {ecn_of(sent)} at {length}", behind(wire, length, [sent]), want)
        is_ect, fits = sent is ect, length + size <= limit
        counted(wire, before, drop_limit=not fits, drop_limit_ect=is_ect and not fits,
                drop_knonect=not want and fits, marked_p=0, marked_kmax=bool(want) and want[0] != sent)
    # With kmin = kmax and pmax 1 marking is a step.
    change(wire, "kmin", 300000, "kmax", 300000, "pmax", 1, "knonect", 0)
    for length, want in ((299999, ect), (300000, with_ecn(ect, CE))):
        expect(f"step at {length}", behind(wire, length, [ect]), [want])


def ip_cases():
    """Yield (name, frame) of frames with an ECN field."""
    for tags in [], [(0x8100, 5)], [(0x88a8, 9), (0x8100, 5)], [(0x8100, 5)] * 4:
        yield f"IPv4, {len(tags)} tags", eth(ip4(seg4()), tags=tags)
        yield f"IPv6, {len(tags)} tags", eth(ip6(seg6()), tags=tags)
    yield from (
        ("IPv4 padded", eth(ip4(seg4(payload=b""))) + bytes(20)), ("only a header", eth(ip4(b""))),
        ("IPv4 options", eth(ip4(seg4(), options=bytes([1] * 12)))), ("only a header 6", eth(ip6(b"", proto=59))),
        ("IPv6 headers", eth(ip6(seg6(), ext=[HOPOPTS, DSTOPTS, ROUTING]))), ("UDP", udp4(7)), ("UDP6", udp6(7)),
        ("fragment", eth(ip4(bytes(64), proto=17, frag=0x2010))), ("fragment 6", eth(ip6(bytes(64), proto=44))),
        ("later lengths wrong", eth(ip4(bytes(20), total=500))),
        # The other bits of the field stay unchanged: here all of these bits are 1.
        ("IPv4 DSCP", eth(ip4(seg4(), tos=0xfc))), ("IPv6 class and label", eth(ip6(seg6(), tos=0xfc, label=0xfffff))))


def group_headers(wire):
    """Every kind of IP packet is sent with every ECN field through a queue that marks all ECN-capable packets."""
    mark_above(wire, 1000)
    sent = [(f"{name}, ECN {ecn}", with_ecn(frame, ecn))
            for name, frame in ip_cases() for ecn in (NOT_ECT, ECT1, ECT0, CE)]
    before = wire.stats()
    got = behind(wire, 1000, [frame for _, frame in sent])
    expect("arrived", len(got), len(sent))
    for (name, frame), there in zip(sent, got):
        want = with_ecn(frame, CE) if ecn_of(frame) in (ECT0, ECT1) else frame
        expect(name, there.hex(), want.hex())
    counted(wire, before, marked=len(sent) // 2, marked_kmax=len(sent) // 2, mark_failed=0, drop_knonect=0)
    # A wrong checksum stays wrong by the same difference.
    frame, want = (frame[:24] + bytes([frame[24] ^ 1]) + frame[25:]
                   for frame in (with_ecn(udp4(1), ECT0), with_ecn(udp4(1), CE)))
    expect("wrong checksum", behind(wire, 1000, [frame]), [want])


def group_odd(wire):
    """For frames without an ECN field only the limit applies, and unreadable frames stay unchanged."""
    mark_above(wire, 1000, "knonect", 1000)
    ect4, ect6 = with_ecn(udp4(1), ECT0), with_ecn(udp6(1), ECT0)
    none = [eth(bytes(28), 0x0806), eth(ip4(seg4()), 0x88b5), eth(ip4(seg4()), tags=[(0x8100, 5)] * 5)]
    bad = [eth(b"\x52" + ect4[15:], 0x0800), eth(b"\x44" + ect4[15:], 0x0800),
           eth(b"\x40" + ect4[15:], 0x0800), eth(ect6[14:], 0x0800),
           eth(ect4[14:], 0x86dd), eth(b"\x50" + ect6[15:], 0x86dd)]
    bad += [ect4[:length] for length in range(14, 34)]
    bad += [ect6[:length] for length in range(14, 54)]
    tagged = [eth(ect4[14:], 0x0800, tags=[(0x8100, 5)])[:length] for length in range(14, 38)]
    before = wire.stats()
    got = behind(wire, 1000, none + bad + tagged)
    # A receiver drops frames with no space for a tag and the type behind it.
    expect("odd packets", [there.hex() for there in got], [sent.hex() for sent in none + bad + tagged[6:]])
    counted(wire, before, mark_failed=len(bad + tagged), marked=0, drop_knonect=0, drop_limit=0)


def group_stamped(wire):
    """A packet gets both a mark and a record."""
    mark_above(wire, 1000)
    for what, frame in (("IPv4", eth(ip4(seg4()))), ("IPv6", eth(ip6(seg6()))),
                        ("QinQ", eth(ip4(seg4()), tags=[(0x88a8, 9), (0x8100, 5)]))):
        for length, ecn in ((0, ECT0), (1000, CE)):
            for got in behind(wire, length, [with_ecn(frame, ECT0)]) or [None]:
                check_stamped(f"{what} at {length}", with_ecn(frame, ecn), got, THREE)


def group_gso(wire, split):
    """Each segment of a GSO packet is marked by the queue that it finds; an unsplit GSO packet is marked once."""
    wire.checksum_offload(split != "split")
    for version in (4, 6):
        opt, frame = gso_frame(version, 4700)
        frame = with_ecn(frame, ECT0)
        pos = tcp_offset(frame)
        head = pos + (frame[pos + 12] >> 4) * 4
        # The bytes of two segments in front are below kmax, the bytes of three segments are above kmax.
        mark_above(wire, 1000 + 2 * (1000 + head + OVERHEAD) if split == "split" else 1000, "pmax", 0)
        hold(wire, 1000)
        wire.send_gso(frame, 1000)
        got = arrivals(wire)
        expect(f"IPv{version}: ECN", [ecn_of(f) for f in got],
               [ECT0, ECT0, CE, CE, CE] if split == "split" else [CE])
        expect(f"IPv{version}: payload", b"".join(f[head:] for f in got), bytes(4700))
        for there in got:
            if split == "split":
                expect(f"IPv{version}: TCP checksum", tcp_is_right(there), True)
            if version == 4:
                expect("header checksum", csum(there[14:34]), 0)
        expect("option in each packet", all(opt[:3] in f for f in got), True)
    wire.checksum_offload(True)


def group_clones(wire):
    """Below a qdisc that duplicates packets, only the second copy is marked."""
    sent = with_ecn(udp4(1), ECT0)
    wire.send(PRIMER)
    wire.send(sent)
    got = [f for _, f in receive_all(wire, 4)]
    expect("ECN", [ecn_of(f) for f in got if f[12:14] == b"\x08\x00"], [ECT0, CE])


def group_change(wire):
    """Marking options change while packets are queued: no packet is lost."""
    sent = [with_ecn(udp4(i), i % 4) for i in range(700)]
    hold(wire, 1000)
    for i, frame in enumerate(sent):
        if i % 50 == 0:
            change(wire, *[
                ("marking", "ldcp", "knonect", LIMIT), ("pmax", 0.5),
                ("kmin", 10, "kmax", 2000), ("kmax", 100000), ("kmin", 0),
                ("nostamp",), ("stamp",), ("kmax", 0), ("pmax", 0),
                ("kmin", 1, "kmax", 1), ("overhead", 40), ("limit", LIMIT + 1),
                ("marking", "off"),
                ("marking", "ldcp", "knonect", LIMIT)][i // 50])
        wire.send(frame)
    got = arrivals(wire)
    expect("arrived", len(got), len(sent))
    for frame, there in zip(sent, got):
        if there not in (frame, with_ecn(frame, CE)):
            WRONG.append(f"sent {frame.hex()}, got {there.hex()}")
    stats = wire.stats()
    expect("drops", stats["drop_limit"] + stats["drop_knonect"], 0)
    # With kmin = kmax = 1, and then off, the results are certain.
    ect = [i for i in range(450, 500) if sent[i][15] & 3 in (ECT0, ECT1)]
    expect("all marked", {ecn_of(got[i]) for i in ect}, {CE})
    expect("none marked while off", got[600:650], sent[600:650])


def group_off(wire):
    """Without marking no packet is examined at any queue length."""
    sent = [with_ecn(udp4(i), i % 4) for i in range(8)]
    before = wire.stats()
    expect("arrived", behind(wire, LIMIT // 2, sent), sent)
    counted(wire, before, marked=0, mark_failed=0, drop_knonect=0)


def group_traced(wire):
    """The tracepoint hpcc:hpcc_mark shows each packet that is marked or dropped, and no other."""
    tracepoint = Tracepoint("hpcc:hpcc_mark")
    change(wire, "marking", "ldcp", "kmin", 0, "kmax", 2000, "knonect", 3000, "pmax", 1, "limit", 70000)
    for found, ecn, verdict in ((2000, ECT0, "mark"), (2000, NOT_ECT, None), (2000, CE, None),
                                (3000, NOT_ECT, "drop_knonect"), (70000, ECT1, "drop_limit")):
        behind(wire, found, [with_ecn(udp4(1), ecn)])
        expect(f"{ecn} at {found}", [(line["verdict"], int(line["qlen_bytes"]), int(line["node"]))
                                     for line in tracepoint.lines()],
               [(verdict, found, 7)] if verdict else [])


main()
