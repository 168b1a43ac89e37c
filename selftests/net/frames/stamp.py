#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""For stamp.sh: which frames get telemetry, and how telemetry changes these frames."""

import socket
import time

from lib.frames import (DSTOPTS, FRAGMENT6, FRAGMENT6_LATER, HOPOPTS, NODE, OVERHEAD, PORT, ROUTING, THREE,
                        TIMESTAMPS, WRONG, check_stamped, expect, gso_frame, ip4, ip6, link_tag, main,
                        receive_all, request, seg4, seg6, tcp_is_right, tcp_offset, warm_up)
from lib.packet import ECHO, FREE, IDENTIFY, KIND, Telemetry, eth, record
from lib.tracepoint import Tracepoint


def untouched_cases():
    """Yield (name, frame, reason counted for it)."""
    def ext(head, size):
        return eth(ip6(seg6(), ext=[(60, bytes(head) + bytes(size))]))

    def opt(**how):
        return eth(ip4(seg4(options=request(**{"slots": [FREE]} | how))))

    cases = {
        "not_tcp": (
            ("ARP", eth(bytes(28), 0x0806)), ("802.3", eth(bytes(46), 46)), ("UDP", eth(ip4(bytes(50), proto=17))),
            ("UDP6", eth(ip6(bytes(50), proto=17))), ("ESP6", eth(ip6(bytes(50), proto=50))),
            ("five tags", eth(ip4(seg4()), tags=[(0x8100, 5)] * 5)), ("far TCP", ext([80], 646))),
        "no_option": (
            ("no option", eth(ip4(seg4(options=b"")))), ("timestamps", eth(ip4(seg4(options=TIMESTAMPS)))),
            ("other kind", opt(kind=254)), ("behind EOL", eth(ip4(seg4(options=bytes(4) + THREE)))),
            ("SYN", eth(ip4(seg4(flags=0x02)))), ("echo", opt(kind_of=ECHO)), ("reserved type", opt(kind_of=7))),
        "fragment": (
            ("first fragment", eth(ip4(seg4(), frag=0x2000))), ("later fragment", eth(ip4(seg4(), frag=0x0010))),
            ("first fragment 6", eth(ip6(seg6(), ext=[FRAGMENT6]))),
            ("later fragment 6", eth(ip6(seg6(), ext=[HOPOPTS, FRAGMENT6_LATER])))),
        "malformed": (
            ("type 0", opt(kind_of=0)), ("version 5", eth(b"\x55" + ip4(seg4())[1:], 0x0800)),
            ("IHL 4", eth(ip4(seg4(), ihl=4))), ("IHL 15", eth(ip4(bytes(10), ihl=15))),
            *((f"total length {total}", eth(ip4(seg4(), total=total))) for total in (0, 19, 39, 50, 500)),
            *((f"payload length {length}", eth(ip6(seg6(), length=length))) for length in (0, 500)),
            ("header length beyond", ext([60, 1, 0], 4)), ("data offset 4", eth(ip4(seg4(doff=4)))),
            ("data offset beyond", eth(ip4(seg4(payload=b"", doff=15)))),
            *((f"option length {length}", opt(slots=[FREE] * 3, length=length))
              for length in (0, 1, 2, 3, 5, 11, 13, 27, 29, 44, 255)),
            ("cut option", eth(ip4(seg4(options=bytes([1, 1, 1, KIND])))))),
        "full": (("15 hops", opt(hops=15)),)}
    for reason, frames in cases.items():
        for what, frame in frames:
            yield what, frame, reason
    head = eth(ip4(seg4()))[:-100]
    for length in range(14, len(head)):
        yield f"frame cut at {length}", head[:length], "malformed"
        if length >= 34:
            yield f"packet cut at {length}", eth(ip4(seg4(), total=length - 14)[:length - 14]), "malformed"


def all_untouched(wire, cases):
    """Each frame must come out of the port unchanged, and be counted under its reason."""
    want = wire.stats()["unstamped"]
    for what, frame, reason in cases:
        want[reason] += 1
        got = wire.through(frame)
        expect(what, got and got.hex(), frame.hex())
    expect("counters", wire.stats()["unstamped"], want)


def group_untouched(wire):
    """Frames without an option to fill in, and malformed frames, leave unchanged."""
    all_untouched(wire, untouched_cases())


def group_ignored(wire, reason):
    """Frames that could be stamped leave unchanged because of the qdisc's configuration."""
    all_untouched(wire, [(what, frame, reason) for what, frame, _ in stamped_cases()])


def stamped_cases():
    """Yield (name, frame, its option)."""
    sack, one = bytes([1, 1, 5, 10]) + bytes(8), request([FREE])
    for what, frame in (
            ("IPv4", eth(ip4(seg4()))), ("IPv4 padded", eth(ip4(seg4(payload=b""))) + bytes(20)),
            ("IPv4 options", eth(ip4(seg4(), options=bytes([1] * 12)))), ("IPv6", eth(ip6(seg6()))),
            ("IPv6 headers", eth(ip6(seg6(), ext=[HOPOPTS, DSTOPTS, ROUTING, DSTOPTS]))),
            ("VLAN", eth(ip4(seg4()), tags=[(0x8100, 5)])), ("QinQ", eth(ip6(seg6()), tags=[(0x88a8, 9), (0x8100, 5)])),
            *((f"{nops} NOPs", eth(ip4(seg4(options=bytes([1] * nops) + THREE)))) for nops in range(12)),
            ("timestamps", eth(ip4(seg4(options=TIMESTAMPS + THREE)))),
            ("behind an echo", eth(ip4(seg4(options=request(kind_of=ECHO) + THREE)))),
            ("odd payload", eth(ip4(seg4(payload=b"y" * 1399))))):
        yield what, frame, THREE
    yield "SACK", eth(ip6(seg6(options=TIMESTAMPS + sack + one))), one
    prompt = request(flags=8, hops=3, scale=4, slots=[record(2, 123, 456), FREE])
    for what in "later hop", "later hop again":
        yield what, eth(ip4(seg4(options=prompt))), prompt


def group_stamped(wire):
    """Frames get the right record in the right place, and no other change."""
    # The start values of ts and tx are random and known only to the port: only differences matter, in each unit.
    spent = 0
    stats = wire.stats()
    bps = stats["bandwidth"] * 8
    first = {}
    for what, frame, opt in stamped_cases():
        scale = opt[2] & 31
        before = time.monotonic_ns()
        got = check_stamped(what, frame, wire.through(frame), opt)
        after = time.monotonic_ns()
        if not got:
            continue
        slot = next(i for i in range(len(got.words)) if opt[4 + 8 * i] >> 4 == 0)
        hop, tag, ts, tx, qlen = got.load(slot)
        expect(f"{what}: hop", hop, (opt[3] >> 4) + 1)
        expect(f"{what}: tag", tag, link_tag())
        expect(f"{what}: qlen", qlen, 0)
        ts_0, tx_0, spent_0, before_0, after_0 = first.setdefault(scale, (ts, tx, spent, before, after))
        least, most = (before - after_0 >> scale) - 1, (after - before_0 >> scale) + 1
        if (ts - ts_0 - least) % 2 ** 20 > most - least:
            WRONG.append(f"{what}: ts grew by {ts - ts_0}, not by {least} to {most}")
        # The counter has fractions: it may be one less than the difference.
        ahead = (tx - tx_0 - ((spent - spent_0) * 8 * 10 ** 9 // bps >> scale)) % 2 ** 20
        if ahead > 1 and ahead != 2 ** 20 - 1:
            WRONG.append(f"{what}: tx {tx} is {ahead} ahead")
        spent += len(frame) + OVERHEAD
        for i, raw in enumerate(got.words):
            if i != slot:
                expect(f"{what}: slot {i}", raw.to_bytes(8, "big"), opt[4 + 8 * i:12 + 8 * i])
    expect("stamped", wire.stats()["stamped"] - stats["stamped"], len(list(stamped_cases())))


def group_wrong_checksum(wire):
    frame = bytearray(eth(ip4(seg4())))
    frame[-1] ^= 1
    check_stamped("wrong", bytes(frame), wire.through(bytes(frame)), THREE, False)


def group_slots(wire):
    """The port writes an identity. With another phase, no slots, or used slots, the slots stay unchanged."""
    before = wire.stats()
    full = [record(1, 123, 456, 0), record(2, 123, 456, 4), record(3, 123, 456, 9)]
    for what, how in (("identify", {"kind_of": IDENTIFY, "hops": 1, "slots": [FREE]}),
                      ("phase", {"hops": 2, "flags": 1, "slots": [FREE] * 3}), ("no slot", {"hops": 3}),
                      ("full", {"hops": 3, "slots": full})):
        opt = request(**how)
        frame = eth(ip4(seg4(options=opt)))
        got = check_stamped(what, frame, wire.through(frame), opt)
        if what == "identify":
            expect("identity", got and got.identity(), (2, NODE, PORT, before["bandwidth"] * 8))
        else:
            expect(f"{what}: slots", got and got.raw[4:], opt[4:])
    now = wire.stats()
    expect("phase counted", now["unstamped"]["phase"] - before["unstamped"]["phase"], 1)
    expect("full counted", now["unstamped"]["full"] - before["unstamped"]["full"], 2)


def group_backlog(wire):
    """While packets are queued d(tx) = d(ts), and qlen is the queue behind the packet."""
    warm_up(wire)
    count = 20
    opt = request([FREE, FREE])
    frame = eth(ip4(seg4(options=opt, payload=b"z" * 900)))
    wire_ns = (len(frame) + OVERHEAD) * 10 ** 9 // wire.stats()["bandwidth"]
    for _ in range(count):
        wire.send(frame)
    loads = [check_stamped("burst", frame, got, opt).load() for _, got in receive_all(wire, count)]
    for i in range(1, len(loads)):
        expect(f"{i}: d(ts)", (loads[i][2] - loads[i - 1][2]) % 2 ** 20, wire_ns)
        expect(f"{i}: d(tx)", (loads[i][3] - loads[i - 1][3]) % 2 ** 20, wire_ns)
        want = (count - 1 - i) * wire_ns
        if abs(loads[i][4] - want) > want / 256:
            WRONG.append(f"{i}: qlen {loads[i][4]}, wanted {want}")
    # All slots contain records. The port must not overwrite these records with its own, longer queue.
    opt = request(hops=2, slots=[record(1, 123, 456, 200), record(2, 123, 456, 100)])
    frame = eth(ip4(seg4(options=opt, payload=b"z" * 900)))
    for _ in range(3):
        wire.send(frame)
    frames = receive_all(wire, 3)
    if len(frames) == 3:
        got = check_stamped("slots taken", frame, frames[1][1], opt)
        expect("slots taken", got.raw[4:], opt[4:])


def group_late(wire):
    """Packets that start late, at the arrival of another packet, do not count as queued in front of this packet."""
    opt = request(scale=4, slots=[FREE])
    frame = eth(ip4(seg4(options=opt, payload=b"l" * 934)))
    wire_ns = (len(frame) + OVERHEAD) * 10 ** 9 // wire.stats()["bandwidth"]
    for _ in range(5):
        wire.send(frame)
    time.sleep(0.0005)
    wire.send(frame)
    qlens = [check_stamped("late", frame, got, opt).load()[4] << 4 for _, got in receive_all(wire, 6)]
    expect("packets behind", [round(qlen / wire_ns, 1) for qlen in qlens], [0, 3, 2, 1, 0, 0])


def group_partial(wire):
    """Checksums that are computed after our qdisc are correct, for packets and for segments."""
    seg = dict(partial=True, payload=b"p" * 400)
    wire.checksum_offload(False)
    for what, ip, tcp in ("IPv4", ip4, seg4), ("IPv6", ip6, seg6):
        wire.send_gso(eth(ip(tcp(**seg))), 0)
        got = wire.receive()
        check_stamped(f"{what} software", eth(ip(tcp(payload=b"p" * 400))), got and got[1], THREE)
    wire.checksum_offload(True)
    frame = eth(ip4(seg4(**seg)))
    wire.send_gso(frame, 0)
    got = wire.receive()
    pos = tcp_offset(frame)
    expect("offloaded: checksum", got and got[1][pos + 16:pos + 18], frame[pos + 16:pos + 18])
    expect("offloaded: stamped", got and got[1] != frame, True)


def group_gso(wire, split):
    """A GSO packet gets one record per segment if it is split, and one record if it is not split."""
    count = 5
    for version in (4, 6):
        wire.checksum_offload(split != "split")
        opt, frame = gso_frame(version, count * 1000 - 300)
        pos = tcp_offset(frame)
        head = pos + (frame[pos + 12] >> 4) * 4
        before = wire.stats()
        wire.send_gso(frame, 1000)
        frames = [f for _, f in receive_all(wire, count if split == "split" else 1)]
        now = wire.stats()
        expect(f"IPv{version}: stamped", now["stamped"] - before["stamped"], len(frames))
        expect(f"IPv{version}: payload", b"".join(f[head:] for f in frames), bytes(count * 1000 - 300))
        tx = []
        for got in frames:
            at = got.index(opt[:3], pos + 20)
            tx.append(Telemetry(got[at:at + len(opt)]).load()[3])
            if split == "split":
                expect(f"IPv{version}: checksum is right", tcp_is_right(got), True)
        if len(set(tx)) != len(frames):
            WRONG.append(f"IPv{version}: tx {tx}")
    wire.checksum_offload(True)


def group_gso_plain(wire, arrive):
    """A GSO packet of 5 segments without a request arrives with unchanged bytes, split or unsplit."""
    for version in (4, 6):
        for what, opt in (("without option", TIMESTAMPS), ("echo", request(kind_of=ECHO, slots=[record(1, 123, 456)]))):
            _, frame = gso_frame(version, 4700, opt)
            pos = tcp_offset(frame)
            head = pos + (frame[pos + 12] >> 4) * 4
            before = wire.stats()
            wire.send_gso(frame, 1000)
            got = [f for _, f in receive_all(wire, int(arrive))]
            now = wire.stats()
            what = f"IPv{version}, {what}"
            expect(f"{what}: packets", now["tx_packets"] - before["tx_packets"], int(arrive))
            dropped = now["drop_limit"] - before["drop_limit"]
            expect(f"{what}: dropped", dropped, 0 if int(arrive) in (1, 5) else 5 - int(arrive))
            if not dropped:
                expect(f"{what}: payload", b"".join(f[head:] for f in got), bytes(4700))
                expect(f"{what}: bytes", now["tx_bytes"] - before["tx_bytes"], 4700 + 5 * (head + OVERHEAD))


def group_clones(wire):
    """Below a qdisc that duplicates packets two clones share their bytes until a record is written."""
    frame = eth(ip4(seg4()))
    for _ in range(5):
        wire.send(frame)
        for _, got in receive_all(wire, 2):
            stamped = check_stamped("clone", frame, got, THREE)
            expect("records", [slot >> 60 for slot in stamped.words], [1, 0, 0])


def group_vlan(wire):
    """A packet from a VLAN device has its tag beside the packet's bytes, not in these bytes."""
    wire.open_tx(wire.tx_dev + ".5").send(eth(ip4(seg4())))
    got = wire.receive()
    check_stamped("accelerated VLAN", eth(ip4(seg4()), tags=[(0x8100, 5)]), got and got[1], THREE)


def group_offset(wire):
    """Print the offsets that a port adds to ts and tx before it has sent any packet."""
    opt = request([FREE])
    frame = eth(ip4(seg4(options=opt)))
    now = time.monotonic_ns()
    got = check_stamped("offset", frame, wire.through(frame), opt).load()
    print((got[2] - now) % 2 ** 20, got[3])


def group_traced(wire):
    """The tracepoint hpcc:hpcc_stamp shows each packet with a request, with its record or the reason for no record."""
    tracepoint = Tracepoint("hpcc:hpcc_stamp")
    opt = request([FREE])
    frame = eth(ip4(seg4(options=opt)))
    got = check_stamped("traced", frame, wire.through(frame), opt).load()
    wire.through(eth(ip4(seg4(options=request([record(1, 123, 456)], hops=1)))))
    wire.through(eth(ip4(b"u" * 60, proto=17)))
    lines = tracepoint.lines()
    expect("results", [line["result"] for line in lines], ["written", "full"])
    now = lines[0]
    names = "node", "port", "len", "ifindex", "qlen_bytes"
    expect(f"{names}", [int(now[name]) for name in names], [7, 2, len(frame), socket.if_nametoindex(wire.tx_dev), 0])
    expect("ts, tx", [int(now[name]) % 2 ** 20 for name in ("ts_ns", "tx_ns")], [got[2], got[3]])


main()
