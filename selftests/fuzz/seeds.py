#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""seeds.py DIR: write the first inputs of the fuzz targets, DIR/TARGET/NAME.

Each input is valid, or has a single error. The head of fuzz_TARGET.c describes the input.
"""

import struct
import sys
from functools import partial
from pathlib import Path

from lib import packet
from lib.packet import (ANSWERED, ECHO, EOL, FORWARD, FREE, IDENTIFY, IDENTIFY_ECHO, KIND, NOP, REPORT,
                        RESPONSE, identity, option, record, syn_option)

ETH_VLAN, ETH_QINQ, ETH_ARP = 0x8100, 0x88a8, 0x0806
UDP, HOPOPTS, ROUTING, FRAGMENT, DSTOPTS = 17, 0, 43, 44, 60
TIMESTAMPS = b"\1\1\x08\x0a\x12\x34\x56\x78\x9a\xbc\xde\xf0"
SACK = b"\1\1\x05\x0a\0\0\0\1\0\0\0\2"
TAKEN = [record(1, 100, 50, 0x123, 7), record(2, 200, 60, 0xfff, 8), record(3, 300, 70, 1, 9)]

def number(value):
    """Encode values as fuzz_take_any() reads them."""
    size = max(1, (value.bit_length() + 7) // 8)
    return bytes([size - 1]) + value.to_bytes(size, "little")

def numbers(*values):
    return b"".join(map(number, values))

def telemetry(kind_of, *records, hops=0, **how):
    """Return one of our options."""
    return option(kind_of, records, hops=hops, **how)

# ---- packets

ipv4 = partial(packet.ipv4, bytes(8), ident=1)

def tcp(options=b"", payload=b"payload", flags=0x10):
    """Return a segment with the right checksum, for addresses of zeros."""
    return packet.tcp(bytes(8), options + NOP * (-len(options) % 4), payload, flags, (5001, 40000))

def ipv6(body, *extensions, **how):
    """Return an IPv6 packet; extension headers are (type, bytes after the first two)."""
    ext = []
    for kind, content in extensions:
        content += bytes(-(len(content) + 2) % 8)
        ext.append((kind, bytes([(len(content) + 2) // 8 - 1]) + content))
    return packet.ipv6(bytes(32), body, ext, **how)

def eth(body, *vlans, proto=None):
    """Return a frame with tags of these types."""
    return packet.eth(body, proto, [(kind, 5) for kind in vlans], bytes(range(12)))

def stamp(frame, switches=1, have=0xffff, fix_check=True, other_kind=False, no_eth=False,
          bps=25_000_000_000, qlen_ns=3000):
    flags = fix_check | other_kind << 1 | no_eth << 2 | (switches - 1) << 3
    return (struct.pack("<BH", flags, have) + (4711).to_bytes(3, "little") +
            struct.pack("<HQQQQ", 3, bps, 1 << 40, 1 << 39, qlen_ns) + frame)

def stamp_seeds():
    free3 = telemetry(FORWARD, FREE, FREE, FREE, scale=3)
    plain = eth(ipv4(tcp(TIMESTAMPS + free3[:20])))
    yield "ipv4", stamp(plain)
    yield "five-switches", stamp(eth(ipv4(tcp(free3))), switches=5)
    yield "every-switch", stamp(eth(ipv4(tcp(free3))), switches=20)
    yield "bytes-at-a-time", stamp(plain, have=0)
    yield "checksum-later", stamp(plain, fix_check=False)
    yield "other-kind", stamp(eth(ipv4(tcp(telemetry(FORWARD, FREE, kind=254)))), other_kind=True)
    yield "from-ip", stamp(ipv4(tcp(free3)), no_eth=True)
    yield "from-ipv6", stamp(ipv6(tcp(free3)), no_eth=True)
    yield "ip-options", stamp(eth(ipv4(tcp(free3), options=NOP * 8)))
    yield "ipv6", stamp(eth(ipv6(tcp(free3))))
    yield "ipv6-extensions", stamp(eth(ipv6(
        tcp(free3), (HOPOPTS, b"\5\2\0\0"), (ROUTING, bytes(22)), (DSTOPTS, b"\1\4"))), have=60)
    yield "ipv6-fragment", stamp(eth(ipv6(tcp(free3), (FRAGMENT, bytes(6)))))
    yield "vlan", stamp(eth(ipv4(tcp(free3)), ETH_VLAN))
    yield "four-tags", stamp(eth(ipv6(tcp(free3)), ETH_QINQ, *[ETH_VLAN] * 3))
    yield "five-tags", stamp(eth(ipv4(tcp(free3)), *[ETH_VLAN] * 5))
    yield "identify", stamp(eth(ipv4(tcp(telemetry(IDENTIFY, FREE, FREE)))), switches=3)
    yield "answered", stamp(eth(ipv4(tcp(telemetry(ANSWERED, FREE, FREE)))), switches=3)
    yield "echo-first", stamp(eth(ipv4(tcp(telemetry(ECHO, TAKEN[0]) + telemetry(FORWARD, FREE, FREE)))))
    yield "at-an-odd-byte", stamp(eth(ipv4(tcp(NOP + free3))))
    yield "taken-stays", stamp(eth(ipv4(tcp(telemetry(FORWARD, *TAKEN, hops=3)))))
    yield "quiet", stamp(eth(ipv4(tcp(free3))), switches=5, qlen_ns=0x1234567)
    yield "no-slot", stamp(eth(ipv4(tcp(telemetry(FORWARD)))), switches=16)
    yield "later-hops-only", stamp(eth(ipv4(tcp(telemetry(FORWARD, FREE, FREE, FREE, flags=9)))), switches=5)
    yield "all-hops", stamp(eth(ipv4(tcp(telemetry(FORWARD, *TAKEN, hops=15)))))
    yield "identified", stamp(eth(ipv4(tcp(telemetry(IDENTIFY, identity(1, 9, 9, 9, 1))))))
    yield "scale-31", stamp(eth(ipv4(tcp(telemetry(FORWARD, FREE, scale=31)))), qlen_ns=1 << 63)
    yield "no-option", stamp(eth(ipv4(tcp(TIMESTAMPS))))
    yield "syn", stamp(eth(ipv4(tcp(syn_option() + b"\1\1", flags=2))))
    yield "padded-frame", stamp(eth(ipv4(tcp(free3)) + bytes(20)))
    yield "fragment", stamp(eth(ipv4(tcp(free3), frag=0x2000)))
    yield "udp", stamp(eth(ipv4(tcp(free3), proto=UDP)))
    yield "arp", stamp(eth(bytes(28), proto=ETH_ARP))
    yield "total-too-long", stamp(eth(ipv4(tcp(free3), total=1000)))
    yield "payload-too-long", stamp(eth(ipv6(tcp(free3), length=1000)))
    yield "total-too-short", stamp(eth(ipv4(tcp(free3), total=45)))
    yield "wrong-version", stamp(eth(b"\x55" + ipv4(tcp(free3))[1:], proto=0x0800))
    yield "length-beyond-header", stamp(eth(ipv4(tcp(bytes([KIND, 28, 0x20, 0])))))
    yield "odd-length", stamp(eth(ipv4(tcp(bytes([KIND, 7, 0x20, 0, 0, 0, 0])))))
    yield "cut-off", stamp(plain[:60])
    yield "beyond-512", stamp(eth(ipv6(tcp(free3), (DSTOPTS, bytes(470)))))
    # not a packet: an option alone
    yield "bare", stamp(telemetry(FORWARD, FREE, TAKEN[1]))
    yield "bare-echo", stamp(telemetry(ECHO, *TAKEN))
    yield "bare-response", stamp(telemetry(RESPONSE, TAKEN[0], hops=1))
    yield "response", stamp(eth(ipv4(tcp(telemetry(RESPONSE, TAKEN[0], hops=1), b"", flags=0))))
    yield "from-a-group", stamp(plain[:6] + b"\1" + plain[7:])
    yield "reset-with-request", stamp(eth(ipv4(tcp(free3, flags=0x14))))
    yield "bare-reserved", stamp(telemetry(REPORT, FREE))

# ---- the other targets

def option_seeds():
    head = bytes([KIND]) + struct.pack("<H", 0x4843)
    yield "syn", head + b"\2\4\5\xb4\1\3\3\7" + syn_option() + b"\1\1"
    yield "other-version", head + syn_option()[:4] + b"\x20\1"
    yield "other-exid", head + bytes([KIND, 6, 0x48, 0x42, 0x10, 1])
    yield "forward", head + TIMESTAMPS + telemetry(FORWARD, FREE, FREE, scale=5, hops=2)
    yield "two", head + telemetry(ECHO, TAKEN[0], flags=8) + NOP + telemetry(FORWARD, FREE)
    yield "signed", head + TIMESTAMPS + telemetry(FORWARD, FREE) + telemetry(ECHO, TAKEN[0], length=16) + b"\x12\x34\x56\x78"
    yield "largest", head + NOP * 4 + telemetry(IDENTIFY_ECHO, *[identity(1)] * 4, hops=15)
    yield "end-of-list", head + SACK + EOL + telemetry(FORWARD)
    yield "type-0", head + telemetry(0, FREE)
    yield "odd-length", head + bytes([KIND, 9, 0x20, 0, 0, 0, 0, 0, 0])
    yield "too-short", head + bytes([KIND, 1, 0, 0])
    yield "too-long", head + bytes([KIND, 12, 0x20, 0])
    yield "one-too-many", head + telemetry(FORWARD, *[FREE] * 5)
    yield "kind-only", head + NOP * 3 + bytes([KIND])
    yield "looking-for-nop", b"\1\0\0" + TIMESTAMPS

def record_seeds():
    for name, first in (("load", record(3, 0xfffff, 0x12345, 0x7ff, 0xab)),
                        ("identity", identity(15, 0xfffff, 0xffff, 0x3fffff, 3)),
                        ("other-code", identity(1, 1, 1, 1, 2)), ("free", FREE)):
        for bps in (0, 25_000_000_000, 4_194_303_500, 1 << 63):
            yield f"{name}-{bps}", (first[::-1] + struct.pack("<BBII", 5, 200, 1 << 20, 9) +
                                    number(511 << 14) + struct.pack("<BII", 9, 77, 5) +
                                    numbers(bps, 8192 << 10, 64 << 20))

def ack(*records, ack_seq, snd_nxt):
    return (bytes([0x80 | len(records)]) + numbers(ack_seq, snd_nxt, 10_000, ack_seq // 20) +
            struct.pack("<H", 1000) + b"".join(records))

def since(hop, dts, dtx, qlen, tag=0):
    """Return a record, with times relative to the link's last record."""
    return bytes([0x20 | tag << 7 | hop]) + numbers(dts, dtx, qlen)

def algo_seeds():
    # 100 Gbit/s, 10 us: W_init 125 kB, W_ai 62.5 B, eta 95 %, maxStage 5
    params = numbers(10_000, 125_000 << 16, 125 << 16, 125 << 15) + struct.pack("<IB", 15938355, 5)

    def series(dtx, qlen, hops=1, acks=12):
        return b"".join(
            ack(*[since(hop + 1, 10_000, dtx, qlen) for hop in range(hops)],
                ack_seq=1000 * i, snd_nxt=1000 * i + 3000) for i in range(acks))

    yield "half-load", params + series(5_000, 0)
    yield "overload", params + series(10_000, 20_000)
    yield "idle", params + series(0, 0)
    yield "eight-links", params + series(9_000, 500, hops=8, acks=4)
    yield "excess", params + series(100_000, 500)
    yield "other-path", params + series(9_000, 0, acks=2) + ack(
        since(1, 1, 1, 0, tag=1), since(2, 5, 5, 5), ack_seq=9000, snd_nxt=9999)
    yield "back", params + series(9_000, 0, acks=2) + ack(b"\x01" + numbers(5, 5, 5), ack_seq=9000, snd_nxt=9999)
    yield "tx-back", params + series(9_000, 0, acks=2) + ack(
        since(1, 100, (1 << 64) - 50, 0), ack_seq=9000, snd_nxt=9999)
    yield "repeated", params + ack(since(1, 9, 9, 9), since(1, 8, 8, 8), ack_seq=1, snd_nxt=2)
    yield "bad-hop", params + ack(b"\x10\x10" + numbers(1, 1, 1), ack_seq=1, snd_nxt=2)
    yield "lost-and-trimmed", params + series(9_000, 0, hops=3, acks=3) + b"\0" + \
        number(1000 << 16) + series(9_000, 0, acks=2) + b"\x20\2\x40\1\x60" + series(1_000, 0)
    quiet = b"".join(b"\x82" + numbers(1000 * i, 1000 * i + 3000, 10_000) + b"\0" for i in range(1, 20))
    yield "quiet", params + quiet + series(10_000, 5_000) + quiet + b"\x81" + bytes(4) + number(9) + quiet
    yield "responses", params + series(9_000, 0, acks=2) + b"".join(
        b"\x84" + numbers(seq, qlen) for seq, qlen in ((4000, 20_000), (4000, 20_000), (4001, 90_000),
                                                      (3, 1 << 40), (5000, (1 << 64) - 1))) + series(9_000, 0)
    yield "longest-T", numbers(1 << 40, 1 << 56, 1, 1 << 56) + b"\xff\xff\xff\xff\0" + series(1 << 38, 1 << 39)
    yield "largest-numbers", params + series((1 << 62), (1 << 64) - 1)

def ldcp_seeds():
    def law(*acks, alpha=1 << 24, beta=1 << 23, gamma=1 << 22, cw_min=1 << 20, cw=10 << 24,
            q=20_000, curve=(7_500, 60_000), pmax=1_000_000):
        return (numbers(3_000, 15_000, *curve) + pmax.to_bytes(3, "little") + number(q) +
                b"".join((constant - 1).to_bytes(3, "little")
                         for constant in (alpha, beta, gamma, cw_min)) + number(cw) +
                b"".join(bytes([mark]) + number(n) for mark, n in acks))

    yield "grants", law(*[(0, 1)] * 20)
    yield "marks", law(*[(1, 2)] * 20)
    yield "both", law(*[(0, 1)] * 9, (1, 1), *[(0, 2)] * 9, (1, 2))
    yield "below-one", law((1, 1), (1, 1), (0, 1), (0, 1), (1, 1), cw=1 << 24, gamma=1 << 20)
    yield "largest", law((0, 1 << 20), (1, 0xffffffff), cw=1 << 48)
    yield "smallest", law((0, 1), (1, 1), alpha=1, beta=1, gamma=1, cw_min=1, cw=1)
    yield "at-kmin", law(q=7_500)
    yield "at-kmax", law(q=60_000)
    yield "widest-curve", law(q=1 << 31, curve=(0, 0xffffffff))
    yield "step", law(q=5, curve=(5, 5))
    yield "no-marks-below-kmax", law(q=59_999, pmax=0)

def fallback_seeds():
    def ack(span, dtx, delivered, lost, hop=1):
        """Return a round trip in which the link has transmitted for dtx."""
        return bytes([64 | 16 | (hop - 1)]) + numbers(span, dtx) + \
            delivered.to_bytes(2, "little") + lost.to_bytes(2, "little")

    fine = ack(8_000, 4_000, 20, 0)
    yield "fine", 200 * fine
    yield "much-lost", ack(8_000, 4_000, 100, 115)
    yield "little-lost", 20 * ack(8_000, 4_000, 10, 2)
    yield "busy", fine + 5 * ack(8_000, 7_500, 10, 10)
    yield "busy-second-link", fine + 5 * ack(8_000, 7_500, 10, 10, hop=2)
    yield "timeouts", fine + 4 * (bytes([0x10]) + numbers(8_000, 0) + b"\1\0\x63\0" + b"\xc0" + fine)
    yield "undone", fine + (bytes([0x10]) + numbers(8_000, 0) + b"\1\0\x63\0" + b"\xd0" + fine)
    yield "back-off", b"\xe1\xe0" + 300 * fine
    yield "longest", 20 * b"\xe1"

def receiver_seeds():
    def words(*values):
        return b"".join(value.to_bytes(8, "big") for value in values)

    def parameters(T=10_000, stage=5, settle=3, eta=950):
        head = 3 << 60 | 5 << 56
        return words(head | stage << 48 | settle << 41 | eta << 30 | T, head | 16 << 44 | 0xffff << 28 | 134_218)

    def sample(how, dnow, dts, dtx, qlen):
        return bytes([how]) + numbers(dnow, dts, dtx, qlen)

    window = words(0x19_00_1234_3fff_ffff)
    start = bytes(4)
    steady = 30 * sample(8, 1_250, 1_250, 1_200, 0)
    yield "steady", parameters() + window + start + steady
    yield "queue", parameters(stage=0) + window + start + steady + 30 * sample(8, 1_250, 1_250, 1_250, 90_000)
    yield "longest-queue", parameters() + window + start + steady + 9 * sample(9, 12_500, 12_500, 12_500, 1 << 60)
    yield "ce", parameters() + window + start + 9 * sample(12, 12_500, 12_500, 11_000, 0)
    yield "off", parameters(T=0) + window + start + steady
    for name, bad in (("T", parameters(T=999)), ("long-T", parameters(T=1_000_000_001)), ("settle", parameters(settle=65)),
                      ("eta", parameters(eta=0)), ("eta-1001", parameters(eta=1001)), ("zeroes", words(0, 0)),
                      ("ids", words(0x35 << 56, 0x36 << 56)), ("bit", words(0x35 << 56, 0x358 << 52)),
                      ("W_min", words(0x35 << 56 | 950 << 30, 0x35 << 56))):
        yield f"bad-{name}", bad + window + start + steady
    for name, bad in (("kind", 2 << 60), ("zero", 1 << 60), ("large", 1 << 60 | 1 << 31),
                      ("byte", 1 << 60 | 1 << 48 | 1)):
        yield f"bad-window-{name}", parameters() + words(bad) + start + steady

def ioam_seeds():
    fields = bytes.fromhex("00174876e800003f") + bytes.fromhex("00012345 3b9ac618 000030d4 fffffff0")

    def header(trace_type, words, left, nodes=2, flags=0, ns=0, data=b""):
        trace = ns.to_bytes(2, "big") + (words << 11 | flags << 7 | left).to_bytes(2, "big") + \
            (trace_type << 8).to_bytes(4, "big") + data.ljust(nodes * words * 4, b"\0")
        return b"\x06\x07\x01\0\x31" + bytes([len(trace) + 2, 0, 0]) + trace

    for name, bad in (("left", header(0xd20800, 5, 11)), ("words", header(0xd20800, 4, 8)),
                      ("namespace", header(0xd20800, 5, 10, ns=1)), ("opaque", header(0xd20802, 5, 10)),
                      ("flag", header(0xd20800, 5, 5, flags=8)), ("full", header(0xd20800, 5, 0)),
                      ("odd", header(0xd20800, 5, 4)), ("short", b"\x06\0\x31\x04\0\0\0\0"),
                      ("none", b"\x06\0\0\0\x05\x02\0\0"), ("cut", b"\x06\0\0\0\0\0\0\x31")):
        yield f"bad-{name}", fields + bad
    yield "empty", fields + header(0xd20800, 5, 10)
    yield "wide", fields + header(0xfffffc, 25, 25, nodes=1)
    node = bytes.fromhex("3f000001 ffff0001 3b9ac618 00000000 00000000")
    later = bytes.fromhex("3f000001 ffff0001 00000010 ffffffff 00000000")
    again = bytes.fromhex("3f000001 ffff0001 000003e8 000030d4 00003000")
    yield "nodes", fields + header(0xd20800, 5, 0, data=again + node)
    yield "back", fields + header(0xd20800, 5, 0, data=node + again)
    yield "half", fields + header(0xd20800, 5, 5, data=bytes(20) + later)

def int_seeds():
    fields = bytes.fromhex("00174876e80000ff") + bytes.fromhex("01234567 0007 0000 000030d4 0123456789abcdef 20000000")

    def header(shim=0x10, words=None, flags=0x20, hop_words=6, left=5, bitmap=0xd500, domain=0, data=b""):
        return bytes([shim, 3 + len(data) // 4 if words is None else words, 0, 0, flags, 0, hop_words,
                      left]) + bitmap.to_bytes(2, "big") + domain.to_bytes(2, "big") + bytes(4) + data

    hops = [bytes.fromhex("00000001 ffff0001 000003e8") + ts.to_bytes(8, "big") +
            util.to_bytes(4, "big") for ts, util in
            ((1000, 1 << 29), (3000, 1 << 30), (2000, 1 << 28), (1 << 40, 0), (1 << 40, 0xffffffff))]
    for name, bad in (("type", header(0x20)), ("version", header(flags=0x10)), ("domain", header(domain=1)),
                      ("words", header(words=2)), ("long", header(words=9)), ("odd", header(data=bytes(20))),
                      ("hop", header(hop_words=5)), ("none", header(left=0)), ("short", header()[:15]),
                      ("flag", header(flags=0x24, data=hops[0])), ("full", header(data=bytes(24 * 42)))):
        yield f"bad-{name}", fields + bad
    yield "no-room", fields[:7] + b"\x08" + fields[8:] + header()
    yield "empty", fields + header()
    yield "wide", fields + header(hop_words=19, bitmap=0xffff)
    yield "hops", fields + header(data=b"".join(reversed(hops)))
    yield "many", fields + header(data=bytes(24 * 13))
    yield "util", bytes(8) + fields[8:] + header(data=hops[0])

def ifa_seeds():
    fields = bytes.fromhex("00174876e80000ff") + bytes.fromhex("10012345 0007 00c8 000abcde 3b9ac618 000009c4 fedcba98")

    def header(head=0x2f, proto=6, flags=4, most=48, doff=0x80, limit=6, words=None, data=b""):
        tcp = bytearray(bytes((doff >> 4) * 4) if doff >= 0x50 else bytes(20))
        tcp[12] = doff
        return bytes([head, proto, flags, most]) + bytes(tcp) + \
            bytes([0, 0, limit, len(data) // 4 if words is None else words]) + data

    hops = [bytes.fromhex("10123450 400abcde 00070000") + ns.to_bytes(4, "big") + bytes.fromhex("000009c4") +
            tx.to_bytes(4, "big") + bytes.fromhex("000000c8 00000000")
            for ns, tx in ((999999000, 0xfffffff0), (1000, 5000), (2000, 0), (10 ** 9, 0))]
    for name, bad in (("version", header(0x1f)), ("gns", header(0x21)), ("udp", header(proto=17)),
                      ("tail", header(flags=8)), ("max", header(most=7, data=hops[0])), ("doff", header(doff=0x40)),
                      ("long", header(words=9)), ("odd", header(data=bytes(20))), ("none", header(limit=0)),
                      ("short", header()[:-1]), ("head", header()[:20]), ("half", header()[:3]),
                      ("many", header(most=255, data=hops[1] * 13))):
        yield f"bad-{name}", fields + bad
    yield "no-room", fields[:7] + b"\x08" + fields[8:] + header()
    yield "empty", fields + header()
    yield "unlimited", fields + header(limit=255)
    yield "hops", fields + header(data=b"".join(reversed(hops)))
    yield "back", fields + header(data=hops[0] + hops[1])
    yield "speed", bytes.fromhex("002540be40000000") + fields[8:] + header(data=hops[1].replace(b"\x40", b"\xf0", 1))

def csig_seeds():
    macs = bytes(12)

    def fields(flags=1):
        return bytes.fromhex("0031 0003f000 03500000 000000c8 0000000000000258") + bytes([flags, 7])

    for kind in range(8):
        for bucket, locator in ((31, 0), (1, 5), (12, 5), (31, 127)):
            tag = (kind << 13 | bucket << 7 | locator).to_bytes(2, "big")
            for flags in 0, 1:
                yield f"tag-{kind}-{bucket}-{locator}-{flags}", fields(flags) + macs + b"\x88\xb5" + tag + b"\x08\0"
            yield f"vlan-{kind}-{bucket}-{locator}", fields() + macs + bytes.fromhex("81000005 88a80006") + \
                b"\x88\xb5" + tag + b"\x08\0"
    yield "vlans", fields() + macs + bytes.fromhex("81000005") * 5 + b"\x88\xb5\0\0\x08\0"
    yield "cut", fields() + macs + b"\x88\xb5\0\0\x08"
    yield "busy", bytes.fromhex("0031 0003f000 ffffffff 000000c8 ffffffffffffffff 0107") + macs + b"\x88\xb5\x3f\x80\x08\0"
    for name, first, popped, kind in (("ask", 0xf4, 0, 1), ("popped", 0xf4, 1, 1), ("load", 0x14, 0, 1), ("echo", 0xf4, 0, 2)):
        option = bytes([253, 12, kind << 5, 0, first]) + bytes(4) + bytes([popped]) + bytes(2)
        yield f"packet-{name}", fields() + \
            bytes.fromhex("45000034000040004006000000000000 00000000") + bytes(12) + b"\x80\x10" + bytes(6) + option
    signals = ((3, 0, 5), (1, 9, 5), (1, 0, 6), (3, 8, 6), (3, 9, 7), (3, 9, 8), (3, 9, 8), (3, 0, 6), (1, 31, 6),
               (1, 9, 0), (2, 9, 1))
    yield "signals", fields() + b"".join((t << 13 | s << 7 | lm).to_bytes(2, "big") + b"\x09\x09"
                                         for t, s, lm in signals)

def border_seeds():
    def series(busy, queue, units=2500, count=6):
        """Return records of a link with this part of busy time, and of a queue."""
        return b"".join(b"\0" + record(3, at * units, int(at * units * busy), queue)[::-1] + number(units)
                        for at in range(1, count))

    def run(events, steps=16):
        return bytes([steps - 4]) + b"\1\2\3\4" + events

    for name, busy, queue in ("idle", 0, 0), ("busy", 0.7, 0), ("full", 1, 0), ("queue", 1, 0x4ff), ("more", 1.5, 0xfff):
        yield name, run(series(busy, queue))
        yield name + "-in-4", run(series(busy, queue), 4)
    yield "within-a-window", run(series(0.5, 0, 100))
    yield "old", run(series(0.5, 0, 1 << 19))
    yield "back", run(series(0.5, 0) + b"\0" + record(3, 1, 1)[::-1] + number(10))
    yield "responses", run(b"".join(b"\x80" + record(2, 5, 6, code, 7)[::-1] for code in (0, 1, 0xff, 0x5ab, 0xfff)))
    yield "options", run(b"".join(b"\x40" + bytes([kind, nr, 0, 0, what << 4]) + bytes(7)
                                  for kind in range(8) for nr in (0, 1) for what in range(5)))

def tunnel_seeds():
    def run(frame, have=0xffff, no_eth=False):
        return struct.pack("<BH", no_eth, have) + frame

    def over_udp(port, body, length=None, outer=ipv4):
        length = 8 + len(body) if length is None else length
        return outer(struct.pack("!HHHH", 1, port, length, 0) + body, proto=UDP)

    def vxlan(packet, first=0x08, second=0, port=4789, **how):
        return over_udp(port, bytes([first, second]) + bytes(6) + packet, **how)

    def geneve(body, proto, first=0, second=0, options=b""):
        return over_udp(6081, struct.pack("!BBHI", first, second, proto, 0) + options + body)

    def gre(body, proto, flags=0, words=0):
        return ipv4(struct.pack("!HH", flags, proto) + bytes(4 * words) + body, proto=47)

    free3 = telemetry(FORWARD, FREE, FREE, FREE)
    four, six = ipv4(tcp(free3)), ipv6(tcp(free3))
    for name, sent in (
            ("none", four), ("vxlan", vxlan(eth(four))), ("vxlan6", vxlan(eth(six, ETH_VLAN), port=8472, outer=ipv6)),
            ("vxlan-gpe", vxlan(eth(four), 0x0c)), ("vxlan-rco", vxlan(eth(four), second=0x20)), ("vxlan-cut", over_udp(4789, b"\x08")),
            ("vxlan-arp", vxlan(eth(bytes(28), proto=ETH_ARP))), ("vxlan-cut-eth", vxlan(bytes(9))),
            ("geneve", geneve(eth(six), 0x6558, 1, options=bytes(4))), ("geneve-ip", geneve(four, 0x0800)),
            ("geneve-version", geneve(four, 0x0800, 0x40)), ("geneve-control", geneve(four, 0x0800, 0, 0x80)),
            ("geneve-long", geneve(b"", 0x0800, 63)), ("geneve-cut", over_udp(6081, bytes(7))),
            ("udp-long", vxlan(eth(four), length=999)), ("udp-short", vxlan(eth(four), length=7)), ("udp-cut", ipv4(bytes(7), proto=UDP)),
            ("udp", over_udp(53, bytes(99))), ("esp-udp", over_udp(4500, b"\1" * 20)), ("ike", over_udp(4500, bytes(20))),
            ("keepalive", over_udp(4500, b"\xff")), ("gre", gre(four, 0x0800)), ("gre-all", gre(eth(six), 0x6558, 0xb000, 3)),
            ("gre-pptp", gre(four, 0x880b, 0x2001, 1)), ("gre-long", gre(b"", 0x0800, 0xb000, 2)), ("gre-cut", ipv4(b"\0\0", proto=47)),
            ("ipip", ipv4(four, proto=4)), ("sit", ipv4(six, proto=41)), ("esp", ipv4(bytes(50), proto=50)),
            ("ah", ipv4(bytes(50), proto=51)), ("fragment", ipv4(ipv4(tcp(free3), frag=0x2000), proto=4)),
            ("no-option", ipv4(ipv4(tcp()), proto=4))):
        yield name, run(eth(sent))
    yield "pieces", run(eth(vxlan(eth(six))), 0)
    yield "macsec", run(eth(bytes(40), proto=0x88e5))
    yield "cut-eth", run(bytes(9))
    nested = four
    for levels in range(1, 6):
        nested = ipv4(nested, proto=4)
        yield f"nested-{levels}", run(nested, no_eth=True)
    yield "nested-kinds", run(ipv6(ipv6(gre(eth(vxlan(eth(six))), 0x6558), (DSTOPTS, bytes(4)), proto=4), proto=41), 0, True)

def main():
    if len(sys.argv) != 2:
        sys.exit("usage: seeds.py DIR")
    for target in [name for name in globals() if name.endswith("_seeds")]:
        folder = Path(sys.argv[1]) / target.removesuffix("_seeds")
        folder.mkdir(parents=True)
        for name, data in globals()[target]():
            (folder / name).write_bytes(data)

main()
