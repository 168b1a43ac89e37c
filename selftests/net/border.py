#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""qdisc/border.c: what leaves a domain does not show its links, and the window law still works across the border."""

import contextlib
import random
import statistics
import struct
import time

from class_leaf import PARENTS, Cable
from ifa import hop as ifa_hop
from ifa import wrapped
from int import hop as int_hop
from int import stack
from ioam import incremental, node, trace
from lib.frameport import ENDS, FramePort, ethernet, ip_packet
from lib.kernel import unload, users
from lib.ktap import each, expect, expect_in, main, need_virtual_time
from lib.modprobe import modprobe
from lib.net import Netns, Pair
from lib.packet import (ANSWERED, ECHO, FORWARD, FREE, IDENTIFY, IDENTIFY_ECHO, REPORT, RESPONSE, Segment, Sniffer,
                        addresses, ip, ipv6, option, packet_socket, qlen_code, qlen_value, quiet, record, sane_segments,
                        tcp)
from lib.path import CARRIERS, MBPS, Path, carrier_path, falls_back, mode_hops, uses_telemetry
from lib.star import percentile
from lib.tcp import pattern, send_for, transfer

INSIDE = 200            # Mbit/s of the inside link
DELAY = "250us"         # of each link of a switch: T is the time of about 20 packets
DSCP = 23 << 2 | 1      # of INT, and ECT(1)
SOL_PACKET, PACKET_VNET_HDR = 263, 15
WIRE = 38               # bytes on the link besides the IP packet
ETA = 0.95
STEPS = 16
T_UNITS = 6144          # T at the border
STEP = 0.0005           # s between two writes: the send buffer of a small W does not get empty


def border(how=f"quantize {STEPS} strip all", back=False, delay=DELAY, **sysctls):
    """Return a path from host a inside a domain to host b outside. Switch 1 has a slow link towards b, or a link of
    the same rate towards a (back); switch 2 is the border.
    """
    path = Path(switches=2, **sysctls)
    for number in 1, 2:
        for dev in "left", "right":
            path.change(number, f"hpcc delay {delay}", dev)
    path.change(1, f"hpcc rate {INSIDE}mbit", "left" if back else "right")
    if how:
        path.change(2, f"hpcc {how}")
    return path


def load(path, *flows, seconds=0.15, dev="right"):
    """Send on flows. Return the utilization of the inside link, p99 of its queue in packets, and the flows' shares."""
    send_for(seconds, *flows, step=STEP)
    before, start = path.port(1, dev)["hpcc"], time.monotonic()
    # The flows pause while we read the port. The burst after the pause is less than 1 % of the packets.
    arrived = send_for(4 * seconds, *flows, step=STEP)
    after, passed = path.port(1, dev)["hpcc"], time.monotonic() - start
    return ((after["tx_bytes"] - before["tx_bytes"]) * 8e-6 / passed / INSIDE, percentile(before, after, 0.99) / 1538,
            [round(one / sum(arrived), 3) for one in arrived])


@each("forward", "echo", "forward_short", "echo_short")
def law(way):
    """The inside link is used as without a border, by one flow and by two; the records leave in FORWARDs or ECHOs."""
    need_virtual_time()
    back, delay, wrong = "echo" in way, "20us" if "short" in way else DELAY, []
    dev = "left" if back else "right"
    for steps in 0, 4, 8, 16:
        for count in 1, 2:
            path = border(f"quantize {steps or 'off'}", back, delay)
            ends = [path.connect(5000 + number) for number in range(count)]
            flows = [(server, client) for client, server in ends] if back else ends
            used, queue, shares = load(path, *flows, dev=dev)
            sender = path.b if back else path.a
            counters, port, hpcc = sender.counters(), path.port(2)["hpcc"], sender.flows()
            bad = {name: counters[name] for name in ("fallbacks", "unseen_loss", "tx_excess_ignored") if counters[name]}
            print(f"# {steps} steps, {count} flows: {used / ETA:.3f} of eta, p99 queue {queue:.1f} packets, {shares}",
                  {name: counters[name] for name in ("ts_back_ignored", "path_changes")}, bad)
            # With a T of four packets, a step of W is a quarter of W. Four steps of U cost more than 16.
            if not (0.9 if not steps else 0.8 if delay != DELAY else 0.87 if steps == 4 else 0.9) <= used / ETA <= 1.06 or queue > 12 or \
                    min(shares) < (0.4 if count == 2 else 1) or bad or port["border_failed"] or \
                    {(flow["mode"], flow["hops"]) for flow in hpcc} != {("telemetry", 2)} or \
                    path.port(1, dev)["drops"] or (port["quantized"] < 100) != (not steps):
                wrong.append((steps, count))
    expect("wrong", wrong, [])


# ---- Estimates from a capture ----

def samples(segments, port, hop=1):
    """Return (bytes before the packet, tag, unit in ns, ts, tx, qlen, time of capture) of the records of a hop in a
    flow's requests.
    """
    found, sent = [], 0
    for seg in segments:
        if seg.dport != port:
            continue
        opt = seg.telemetry(FORWARD)
        for slot in range(len(opt.records) if opt else 0):
            number, tag, ts, tx, qlen = opt.load(slot)
            if number == hop:
                found.append((sent, tag, 2 ** opt.scale, ts, tx, qlen, seg.time_ns))
        sent += seg.total + WIRE
    return found


def differences(found):
    """Yield bytes, ns of ts, of tx and of the capture between records of the same link; repeated records count once."""
    last = None
    for one in found:
        if last and one[1:3] == last[1:3]:
            dts, dtx = ((one[i] - last[i]) % (1 << 20) for i in (3, 4))
            if not dts:
                continue
            if dts < 1 << 19 and 0 < dtx < 1 << 19:
                yield one[0] - last[0], dts * one[2], dtx * one[2], one[6] - last[6]
        last = one


def estimates(segments, port):
    """Return {method: Mbit/s} of the inside link, from a capture of one flow."""
    found = samples(segments, port)
    steps = list(differences(found))
    result = {}
    if steps:
        result["median of bytes / d(tx)"] = statistics.median(n * 8e3 / dtx for n, _, dtx, _ in steps)
        result["largest bytes / d(tx)"] = max(n * 8e3 / dtx for n, _, dtx, _ in steps)
        result["bytes / tx of all"] = sum(n for n, *_ in steps) * 8e3 / sum(dtx for _, _, dtx, _ in steps)
        result["packet pair on ts"] = max(n * 8e3 / dts for n, dts, *_ in steps)
    queues = sorted({qlen * unit for _, _, unit, _, _, qlen, _ in found if qlen})
    gaps = [b - a for a, b in zip([0] + queues, queues)]
    if queues:
        result["smallest queue"] = 1538 * 8e3 / queues[0]
        result["smallest step of the queue"] = 1538 * 8e3 / min(gaps)
    for seg in segments:
        opt = seg.telemetry(IDENTIFY) if seg.dport == port else None
        for slot in range(len(opt.words) if opt else 0):
            number, _, _, bps = opt.identity(slot)
            if number == 1:
                result["identity"] = bps / 1e6
    return result


def flows_seen(segments, port, mbps):
    """Return how many equal flows share the link: the load of all over that of this flow, if B is mbps."""
    return statistics.median(dtx * mbps / 8e3 / n for n, _, dtx, _ in differences(samples(segments, port)) if n)


def packet_pair(segments, port):
    """Return Mbit/s from the smallest time between two packets of a flow, without telemetry."""
    packets = [(seg.time_ns, seg.total + WIRE) for seg in segments if seg.dport == port and seg.payload]
    return max(size * 8e3 / (after - before) for (before, _), (after, size) in zip(packets, packets[1:])
               if size > 1000 and after > before)


def factor(estimate):
    return max(estimate / INSIDE, INSIDE / max(estimate, 1e-9))


def capture(busy, full=False, cc="hpcc"):
    """Return segments before and behind the border of a flow to port 5000: it sends a packet per ms, or all it can.
    `busy` more flows send all that they can.
    """
    path = border(max_flows=100)
    path.a.ask()
    ends = path.connect(cc=cc)
    others = [path.connect(5001 + number, cc=cc) for number in range(busy)]
    sniffers = Sniffer(path.switches[1], "left"), Sniffer(path.b, "left")
    data = 0
    for _ in range(150):
        if full:
            send_for(0.001, ends, *others)
            continue
        ends[0].send(bytes(1380))
        data += 1380
        if others:
            send_for(0.001, *others)
        else:
            time.sleep(0.001)
        ends[1].setblocking(True)
        data -= len(ends[1].recv(1 << 20))
    return path, *(sane_segments(sniffer, 70000) for sniffer in sniffers)


def compare(*segments):
    before, behind = (estimates(part, 5000) for part in segments)
    for method in sorted(before | behind):
        print(f"# {method}:", ", ".join(
            f"{where} {found[method]:.1f} Mbit/s ({factor(found[method]):.2f})"
            for where, found in (("before", before), ("behind", behind)) if method in found))
    return before, behind


@each("alone", "beside")
def capacity(how):
    """A capture of a light flow shows the inside link's rate before the border, and nothing like it behind."""
    need_virtual_time()
    _, *segments = capture(2 if how == "beside" else 0)
    before, behind = compare(*segments)
    expect_in("before, without identities", min(factor(v) for name, v in before.items() if name != "identity"), 1, 1.1)
    expect("identity before", before["identity"], INSIDE)
    expect("identity behind", behind.get("identity"), None)
    expect_in("behind, the best of all", min(map(factor, behind.values())), 4, 10 ** 9)


def test_full():
    """A flow that fills the link shows its own throughput, as without telemetry; no method is exact behind."""
    need_virtual_time()
    path, *segments = capture(0, True)
    before, behind = compare(*segments)
    expect_in("before", factor(before["median of bytes / d(tx)"]), 1, 1.1)
    expect_in("behind: its own throughput", behind["bytes / tx of all"], 0.8 * INSIDE, 1.1 * INSIDE)
    expect("identity behind", behind.get("identity"), None)
    expect("links", path.a.links(), {})


def test_flows():
    """A capture of one of eight flows shows their number before the border only. Behind it, the records show less than
    the times of the flow's packets, which show the capacity without telemetry, too.
    """
    need_virtual_time()
    _, *segments = capture(7, True)
    before, behind = (flows_seen(part, 5000, rate) for part, rate in
                      zip(segments, (INSIDE, estimates(segments[1], 5000)["bytes / tx of all"])))
    print(f"# flows: before {before:.2f}, behind {behind:.2f}")
    _, records = compare(*segments)
    expect_in("flows before", before, 6, 10)
    expect_in("flows behind", behind, 0, 2)
    plain = capture(7, True, "cubic")[2]
    expect("telemetry of cubic", [seg for seg in plain if seg.telemetry(FORWARD)], [])
    times = [factor(packet_pair(part, 5000)) for part in (segments[1], plain)]
    print(f"# packet pair by the time of capture: hpcc {times[0]:.2f}, cubic {times[1]:.2f}")
    expect_in("times of packets of cubic", times[1], 1, 1.1)
    expect_in("times of packets of hpcc", times[0], 1, 3)     # its flows may take turns
    expect_in("the best of all records", min(map(factor, records.values())), 2.5, 10 ** 9)
    # bytes / d(tx) is the flow's own throughput / u': ts are times of packets of the host, and u' is 3/4 to 1.
    steps = list(differences(samples(segments[1], 5000)))
    expect_in("1 / u'", sum(step[3] for step in steps) / sum(step[2] for step in steps), 1, 4 / 3)


# ---- Frames ----

def options_of(port, *options):
    """Send a segment with options through a port. Return its options behind it."""
    raw = b"".join(options)
    sent = ethernet(ip_packet(port.pair.version, options=raw + b"\1" * (-len(raw) % 4)))
    seg = Segment(port.through(sent)[14:])
    expect("checksum", seg.csum_ok, True)
    return seg.options[:len(raw)]


def test_options():
    """What becomes of each type of option."""
    load_record, name = record(1, 1000, 2000, 300, 7), struct.pack("!Q", 1 << 60 | 5)
    for version in 4, 6:
        port = FramePort("stamp quantize 16", version=version)

        def through(*options):
            return options_of(port, *options)

        for kind in ECHO, FORWARD, ANSWERED:
            got = through(option(kind, [load_record], 3, hops=1))
            expect("head", got[:4], option(kind, [load_record], 3, hops=1 if kind == ECHO else 2)[:4])
            hop, *_, code = struct.unpack("!Q", got[4:])[0] >> 60, struct.unpack("!Q", got[4:])[0] & 0xfff
            expect("hop, queue of the first record", (hop, qlen_value(code)), (1, 0))
            expect("record changed", got[4:] != load_record, True)
        # a quiet map and a record beyond the hops stay
        for slot in quiet(1, 3), record(9, 1, 2, 3, 4):
            expect("stays", through(option(ECHO, [slot], 3, hops=3)), option(ECHO, [slot], 3, hops=3))
        got = through(option(IDENTIFY, [name, FREE], 3, hops=1))
        expect("names", got, option(IDENTIFY, [FREE, FREE], 3, hops=2))
        expect("names in an echo", through(option(IDENTIFY_ECHO, [name], 3, hops=1)), b"\1" * 12)
        for kind, stays in ((1, True), (2, False), (3, True), (4, False)):
            sent = option(REPORT, [struct.pack("!Q", kind << 60 | 9)], 0, hops=0)
            expect(f"report {kind}", through(sent), sent if stays else b"\1" * 12)
        units = 100
        got = through(option(RESPONSE, [record(1, 1000, 2000, qlen_code(units), 7)], 3, hops=1))
        expect("response", got[4:], record(1, 0, 0, qlen_code(T_UNITS // 2), 0))
        before = port.stats()
        expect("failed until now", before["border_failed"], 0)
        signed = option(ECHO, [load_record], 3, hops=1, length=16) + b"sign"
        expect("signed", through(signed), signed)
        expect("counted", [port.stats()[name] - before[name] for name in ("quantized", "border_failed")], [0, 1])
        expect("two options", through(option(ECHO, [load_record], 3), option(IDENTIFY_ECHO, [], 3, hops=1))[12:],
               b"\1" * 4)


def test_link():
    """A record's tx grows by u' in steps, at least by 3/4 of the time, and u' above 1 becomes a queue."""
    need_virtual_time()
    port, scale = FramePort("nostamp stamp quantize 16", shape="rate 10gbit"), 5
    for tag, (what, busy, queue, want) in enumerate((
            ("idle", 0, 0, 0.75), ("0.8", 0.8, 0, 13 / 16), ("full", 1, 0, 1), ("with a queue", 1, T_UNITS // 2, 1),
            ("queue of a link that pauses", 0.8, 614, 15 / 16))):
        found = []
        start = time.monotonic()
        for _ in range(20):
            time.sleep(0.0001)
            units = (time.monotonic() - start) * 1e9 / 2 ** scale
            got = options_of(port, option(ECHO, [record(3, int(units) & 0xfffff, int(units * busy) & 0xfffff,
                                                        qlen_code(queue), tag)], scale, hops=3))
            word = struct.unpack("!Q", got[4:])[0]
            found.append((word >> 32 & 0xfffff, word >> 12 & 0xfffff, qlen_value(word & 0xfff), word >> 52 & 0xff))
        expect(f"{what}: tags", len({one[3] for one in found}), 1)
        dts, dtx = ((found[-1][i] - found[4][i]) & 0xfffff for i in (0, 1))
        expect_in(f"{what}: d(tx) / d(ts)", dtx / dts, want - 0.002, want + 0.002)
        expect_in(f"{what}: queue", found[-1][2] / T_UNITS, 0.49 if queue > 1000 else 0, 0.6 if queue > 1000 else 0)


def test_tags():
    """A link has one tag for all scales and for both types that receivers echo alike, until another link replaces it."""
    port = FramePort("stamp quantize 16")

    def tag(scale, kind=ECHO):
        return struct.unpack_from("!H", options_of(port, option(kind, [record(1, 1, 2)], scale, hops=1)), 4)[0] >> 4 & 0xff

    expect("types", len({tag(3, kind) for kind in (FORWARD, ANSWERED)}), 1)
    first = tag(1)
    # A set has four links: the fifth one replaces the first one.
    expect("scales", [tag(scale) for scale in (2, 3, 4, 5)], [first] * 4)
    expect("the first one again", tag(1) != first, True)


def strip_cases(version):
    """Return {carrier: [(packet with the carrier, packet behind the border)]}."""
    plain = ip_packet(version, payload=b"data")
    hops = ifa_hop(1), ifa_hop(2)
    cases = {"ifa": [(wrapped(plain, hops), plain), (wrapped(plain), plain)],
             "int": [(ip_packet(version, tos=23 << 2 | 1, payload=stack(part, dscp=dscp, behind=b"data")),
                      ip_packet(version, tos=dscp << 2 | 1, payload=b"data"))
                     for part in ((), (int_hop(1), int_hop(2))) for dscp in (0, 9)]}
    if version == 6:
        ends = addresses("fd00::1", "fd00::2")
        for head in trace([node(1), node(2)]), trace([node(1)], room=4):
            at = head.index(bytes([0x31]), 2) + 4
            zero = head[:at] + bytes(head[at - 3] - 2) + head[at + head[at - 3] - 2:]
            cases.setdefault("ioam", []).append(tuple(ipv6(ends, part + tcp(ends, payload=b"data"), proto=0)
                                                      for part in (head, zero)))
    return cases


def test_strip_frames():
    """The packet behind the border equals the packet without the carrier; IOAM is overwritten with zeros."""
    for version in 4, 6:
        for carrier, pairs in strip_cases(version).items():
            port = FramePort(f"nostamp strip {carrier}", version=version)
            for sent, want in pairs:
                expect(carrier, port.through(ethernet(sent)).hex(), ethernet(want).hex())
            stats = port.stats()
            expect("counted", (stats["stripped"], stats["border_failed"]), (len(pairs), 0))
            others = FramePort("nostamp strip csig", version=version)
            for sent, _ in pairs:
                expect(f"{carrier} without strip", others.through(ethernet(sent)).hex(), ethernet(sent).hex())


def test_strip_dscp():
    """INT is found by the port's DSCP."""
    for version in 4, 6:
        packets = [ip_packet(version, tos=dscp << 2, payload=stack([int_hop(1)], behind=b"data")) for dscp in (30, 23)]
        plain = ethernet(ip_packet(version, tos=0, payload=b"data"))
        port = FramePort("nostamp strip int int_dscp 30", version=version)
        expect("this DSCP", port.through(ethernet(packets[0])).hex(), plain.hex())
        expect("another DSCP", port.through(ethernet(packets[1])).hex(), ethernet(packets[1]).hex())


def test_strip_csig():
    """The tag is removed, also behind a VLAN tag, and for another EtherType if the port has it."""
    for version in 4, 6:
        for how, tpid in ("nostamp", 0x88b5), ("nostamp csig_tpid 0x9999", 0x9999):
            port = FramePort(f"{how} strip csig", version=version)
            for vlan in b"", struct.pack("!HH", 0x8100, 5), struct.pack("!HHHH", 0x88a8, 5, 0x8100, 6):
                want = ethernet(ip_packet(version, payload=b"data"), vlan)
                sent = want[:12 + len(vlan)] + struct.pack("!HH", tpid, 1 << 13 | 5 << 7 | 9) + want[12 + len(vlan):]
                if vlan[:2] == b"\x88\xa8":
                    port.send(sent)
                    expect("two tags", want[16:] in port.ends[1].recv(4096), True)
                else:
                    expect("tag", port.through(sent).hex(), want.hex())
            expect("stripped", port.stats()["stripped"], 3)


def test_strip_partial():
    """A checksum that the device computes is right behind the border. A checksum in the removed bytes, or one that
    starts there, is ignored.
    """
    tag = struct.pack("!HH", 0x88b5, 1 << 13 | 9)
    for version in 4, 6:
        at = 34 if version == 4 else 54
        plain, half = ip_packet(version, payload=b"data"), ip_packet(version, payload=b"data", partial=True)
        port = FramePort("nostamp strip all", version=version)
        port.pair.c.run("ethtool", "-K", "eth0", "tx", "off")
        port.ends[0].setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)

        def through(frame, start, offset, port=port):
            port.send(struct.pack("=BBHHHH", 1, 0, 0, 0, start, offset) + frame)
            return port.recv(frame[:12])

        for what, sent, start, want in (
                ("csig", ethernet(half, tag), at + 4, plain),
                ("ifa", ethernet(wrapped(half, [ifa_hop(1)])), at + 4, plain),
                ("int", ethernet(ip_packet(version, tos=DSCP, partial=True,
                                           payload=stack([int_hop(1)], behind=b"data"))),
                 at, ip_packet(version, tos=1, payload=b"data"))):
            expect(what, through(sent, start, 16).hex(), ethernet(want).hex())
        for frame in (ethernet(b"E", tag)[:16] + b"\x12\x34", ethernet(wrapped(ip_packet(version), [ifa_hop(1)])),
                      ethernet(ip_packet(version, tos=DSCP, payload=stack([int_hop(1)])))):
            for start in range(12, len(frame) - 1):
                for offset in {0, len(frame) - 2 - start}:
                    # New kernels reject a start in the first 20 bytes.
                    with contextlib.suppress(OSError) if start < 20 else contextlib.nullcontext():
                        through(frame, start, offset)
        expect("failed", port.stats()["border_failed"], 0)


@each("drr", "htb", "tbf")
def parent(name):
    """Below a parent that looks at a packet before it takes it, a packet is changed once; its old length counts."""
    lines = [line.format(link=10 ** 9, one=10 ** 8, other=10 ** 8).replace("dev out", "dev v0")
             for line in PARENTS.get(name, ("tbf rate 1gbit burst 9k limit 1m",))]
    for shape in ("", "rate 100mbit ", "delay 10us ") if name == "tbf" else ("",):
        cable = Cable(f"qdisc add dev v0 root handle 10: {lines[0]}", *lines[1:],
                      f"qdisc add dev v0 parent 10:1 handle 2: hpcc {shape}node 1 quantize 16 strip csig")
        frame = cable.frame[:12] + struct.pack("!HH", 0x88b5, 1 << 13 | 9) + cable.frame[12:]
        for sent, kind in (cable.frame, "quantized"), (frame, "stripped"):
            for _ in range(5):
                cable.send(1, sent)
                expect("length", len(cable.receive()), len(cable.frame))
            port = cable.ns.port("v0")["hpcc"]
            expect_in(kind, port[kind], 5, 10 if kind == "quantized" else 5)
            expect("failed", port["border_failed"], 0)
        expect("backlog", {qdisc["backlog"] for qdisc in cable.ns.qdiscs("v0")}, {0})


def test_gso():
    """A border that does not split GSO packets changes them, and each segment has a right checksum."""
    pair = Pair(qdisc="hpcc quantize 16 strip all")
    client, server = pair.connect()
    transfer((client, server, pattern(3000000)), (server, client, pattern(300000)))
    port = pair.c.port("eth0")["hpcc"]
    expect_in("quantized", port["quantized"], 50, 10 ** 6)
    expect("failed", port["border_failed"], 0)
    expect("checksums", [ns.snmp("InCsumErrors") for ns in (pair.c, pair.s)], [0, 0])


def test_left():
    """Malformed carriers, and what strip does not support, leave unchanged."""
    plain = ip_packet(4, payload=b"data")
    for what, sent, failed in (
            ("IFA, other version", wrapped(plain, version=1), 0), ("IFA, other name space", wrapped(plain, gns=1), 0),
            ("IFA, at the tail", wrapped(plain, flags=8), 0), ("IFA, too long", wrapped(plain, words=200), 1),
            ("INT, other version", ip_packet(4, tos=23 << 2, payload=stack(version=1) + b"data"), 0),
            ("INT, too long", ip_packet(4, tos=23 << 2, payload=stack(length=200)), 1),
            ("INT, no room for it", ip_packet(4, tos=23 << 2, payload=b"data"), 1)):
        port = FramePort("nostamp strip all")
        expect(what, port.through(ethernet(sent)).hex(), ethernet(sent).hex())
        expect(f"{what}: counted", [port.stats()[name] for name in ("stripped", "border_failed")], [0, failed])
    port = FramePort("stamp quantize 16")
    load_option = option(ECHO, [record(1, 5, 6, 7, 8)], 3, hops=1)
    sent = ethernet(ip(ENDS[4], tcp(ENDS[4], load_option, ports=(1, 2)), frag=0x2000))
    expect("fragment", port.through(sent).hex(), sent.hex())
    stats = port.stats()
    expect("fragment: counted", (stats["unstamped"]["fragment"], stats["border_failed"]), (1, 0))
    ends = addresses("fd00::1", "fd00::2")
    port = FramePort("nostamp strip all", version=6)
    sent = ethernet(ipv6(ends, incremental([node(1)]) + tcp(ends, payload=b"data"), proto=0))
    expect("incremental trace", port.through(sent).hex(), sent.hex())


@each(*CARRIERS)
def strip(carrier):
    """Behind the border a carrier is gone, and its sender continues with the TCP option."""
    need_virtual_time()
    path = carrier_path(carrier)
    path.change(2, f"hpcc strip {carrier}")
    raw = packet_socket(path.b, "left")
    raw.setblocking(False)
    if carrier == "int":
        # Without INT a probe is a segment of old data, whose option the receiver ignores.
        ends = path.connect()
        transfer((*ends, pattern(2000000)))
        expect("stopped, mode", (path.a.counters()["int_stopped"], *mode_hops(path.a)), (1, "telemetry", 2))
        expect("checksums", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])
    else:
        falls_back(path, carrier)
    port = path.port(2)["hpcc"]
    expect_in("stripped", port["stripped"], 1, 10 ** 6)
    expect("failed", port["border_failed"], 0)
    count = 0
    try:
        while True:
            frame = raw.recv(1 << 18)
            count += 1
            expect("tag or IFA", frame[12:14] == b"\x88\xb5" or (frame[12:14], frame[23]) == (b"\x08\0", 131), False)
    except BlockingIOError:
        expect_in("frames", count, 100, 10 ** 6)


# ---- Configuration ----

def test_module():
    """The module is loaded for the first border and is in use until the port is deleted."""
    ns = Netns()
    ns.ip("link add d0 type dummy", "link set d0 up")
    ns.tc("qdisc add dev d0 root handle 1: hpcc")
    if users("sch_hpcc_border") is not None:
        expect("users", users("sch_hpcc_border"), 0)
        expect("unload", unload(ns, name="sch_hpcc_border"), True)
    modprobe("exit 1")
    got = ns.run(*"tc qdisc change dev d0 root handle 1: hpcc quantize 8".split(), check=False)
    expect("message", "Error: quantize, strip: module sch_hpcc_border not loaded." in got, True)
    expect("port", "quantize" in ns.run(*"tc qdisc show dev d0".split()), False)


def test_show():
    ns = Netns()
    ns.ip("link add d0 type dummy", "link set d0 up")
    ns.tc("qdisc add dev d0 root handle 1: hpcc")
    for how, want in (("quantize 16 strip ioam,ifa", {"quantize": 16, "strip": ["ioam", "ifa"]}),
                      ("quantize off", {"strip": ["ioam", "ifa"]}),
                      ("strip all", {"strip": ["ioam", "int", "ifa", "csig"]}),
                      ("strip off quantize 16", {"quantize": 16}), ("quantize off", {})):
        ns.tc(f"qdisc change dev d0 root handle 1: hpcc {how}")
        shown = ns.port("d0")["options"]
        expect(how, {name: shown[name] for name in ("quantize", "strip") if name in shown}, want)


def test_traffic():
    """A border is added, changed, replaced and removed under traffic: no data are lost, and telemetry returns."""
    path = border("quantize off")
    client, server = path.connect()
    for how in ("quantize 4", "strip all quantize 16", "nostamp quantize off", "stamp quantize 8", "strip off"):
        transfer((client, server, pattern(300000)), (server, client, pattern(100000, 1)))
        path.change(2, f"hpcc {how}")
    for verb in "replace", "change":
        for how in "quantize 16 strip all", "quantize off strip off":
            transfer((client, server, pattern(300000)), each=lambda verb=verb, how=how: path.change(
                2, f"hpcc rate {MBPS}mbit delay 20us {how}", verb=verb))
    path.switches[1].tc("qdisc del dev right root",
                        f"qdisc add dev right root handle 1: hpcc rate {MBPS}mbit quantize 16")
    transfer((client, server, pattern(2000000)))
    expect("mode, hops", mode_hops(path.a), ("telemetry", 2))
    expect("errors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])
    expect("telemetry", uses_telemetry(path.a, 2), True)


def hostile(version, how):
    """Send packets with random errors through a port. Return its statistics."""
    rng = random.Random(1)
    port = FramePort(f"stamp {how}", version=version, shape="rate 10gbit limit 16mb")
    packets = [sent for pairs in strip_cases(version).values() for sent, _ in pairs] + \
        [ip_packet(version, options=option(kind, [record(1, 5, 6, 7, 8)] * nr, 3, hops=nr) + b"\1" * 4)
         for kind in range(8) for nr in range(4)]
    for number in range(3000):
        frame = bytearray(ethernet(rng.choice(packets)))
        for _ in range(rng.choice((1, 1, 2, 4, 8))):
            frame[rng.randrange(12, len(frame))] = rng.choice((0, 1, 0xff, 253, rng.randrange(256)))
        port.send(bytes(frame[:rng.choice((len(frame), len(frame), rng.randrange(15, len(frame))))]))
        if number % 50 == 49:
            port.through(ethernet(ip_packet(version)))
    stats = port.pair.c.port("eth0")
    print(f"# version {version}, {how}:",
          {name: stats["hpcc"][name] for name in ("tx_packets", "quantized", "stripped", "border_failed")})
    return stats


def test_hostile():
    """Packets with random errors leave a border as they leave another port."""
    for version in 4, 6:
        plain, found = hostile(version, ""), hostile(version, "quantize 16 strip all")
        for name in "packets", "drops":
            expect_in(name, found[name], plain[name] - 3, plain[name] + 3)
        expect_in("failed", found["hpcc"]["border_failed"], 100, 3000)


if __name__ == "__main__":
    main(modules=("sch_hpcc",))
