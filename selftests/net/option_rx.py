#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/hook/local_in.c: how the kernel processes valid and invalid options."""

import contextlib
import ctypes
import os
import random
import socket
import struct
import time

from lib.kernel import release, virtual_time
from lib.ktap import cases, defer, expect, expect_in, main, need_virtual_time
from lib.net import Pair, joined
from lib.packet import (ACK, ANSWERED, ECHO, FIN, FORWARD, IDENTIFY, IDENTIFY_ECHO, KIND, PROMPT, RST,
                        Segment, addresses, identity, option, ours_in, record, syn_option, with_csum)
from lib.peer import SCALE, T_NS, T_UNITS, W_INIT, Peer
from lib.tcp import get_cc, pattern, set_cc, transfer

W_MIN = W_INIT // 1024


class Guest(Peer):
    """A peer that acts as a virtual machine: each packet's header contains the position of a checksum that the
    host has to write.
    """

    FLAGS = 0x5001          # and IFF_VNET_HDR
    HEAD = 10               # struct virtio_net_hdr
    start = None            # from the start of the packet, or if negative from its end
    offset = 0

    def packet(self, *what, **how):
        packet = super().packet(*what, **how)
        if self.start is None:
            return bytes(self.HEAD) + packet
        return struct.pack("=BBHHHH", 1, 0, 0, 0,       # VIRTIO_NET_HDR_F_NEEDS_CSUM
                           self.start % len(packet), self.offset) + packet


def connected(nbytes=200000, **how):
    peer = Peer(**how).connected()
    send(peer, nbytes)
    return peer


def send(peer, nbytes):
    """Let the kernel send, and read its segments."""
    peer.sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        peer.sock.send(bytes(nbytes))
    while peer.take(2e-9 * T_NS):
        pass


def whole_filter(peer, payload):
    """Attach a socket filter that accepts only segments with `payload` bytes, timestamps and a correct checksum."""
    def insn(code, k, jt=0, jf=0):
        return struct.pack("=HBBI", code, jt, jf, k)

    ends = addresses(peer.addr, peer.kernel)
    length = 32 + payload
    pseudo = sum(struct.unpack(f"!{len(ends) // 2}H", ends)) + 6 + length
    code = [insn(0x80, 0), insn(0x15, length, 0, 0)]            # A = length; checked below
    code += [insn(0x30, 12), insn(0x54, 0xf0), insn(0x15, 0x80, 0, 0)]      # data offset
    code += [insn(0x01, pseudo)]                                            # X = pseudo
    for at in range(0, length, 2):
        code += [insn(0x28, at), insn(0x0c, 0), insn(0x07, 0)]              # X += word
    code += [insn(0x87, 0)]                                                 # A = X
    code += 2 * [insn(0x02, 1), insn(0x54, 0xffff), insn(0x02, 0),
                 insn(0x60, 1), insn(0x74, 16), insn(0x61, 0), insn(0x0c, 0)]   # fold
    code += [insn(0x15, 0xffff, 0, 1), insn(0x06, 0xffff), insn(0x06, 0)]
    end = len(code) - 1
    for at in 1, 4:
        what = struct.unpack("=HBBI", code[at])
        code[at] = insn(what[0], what[3], 0, end - at - 1)
    kept = ctypes.create_string_buffer(b"".join(code))
    peer.sock.setsockopt(socket.SOL_SOCKET, 26,                 # SO_ATTACH_FILTER
                         struct.pack("HL", len(code), ctypes.addressof(kept)))


class Watch:
    """Shows the counters that change from here on."""

    def __init__(self, peer):
        self.peer = peer
        self.before = peer.ns.counters()

    def moved(self):
        before, self.before = self.before, self.peer.ns.counters()
        sent = "forward_sent", "identify_sent", "echo_sent"
        return {name: value for name, value in (self.before - before).items() if name not in sent}

    def expect(self, what, **counters):
        expect(f"{what}: counters", self.moved(), counters)

    def sent(self, what, counters, *segment, **how):
        """Send a segment. Fail unless it changes only these counters."""
        self.peer.send(*segment, **how)
        self.expect(what, **counters)


def watched(peer):
    return peer, Watch(peer)


def echo(hop_ts, hops=None, scale=SCALE, tx=0):
    return option(ECHO, [record(hop, ts, tx) for hop, ts in hop_ts], scale, hops)


def ignored(peer, watch, what, options, **counters):
    """Send options on an ACK, and fail unless only these counters change."""
    window = peer.flow()["W"]
    watch.sent(what, counters, options)
    expect(f"{what}: window", peer.flow()["W"], window)


def test_echo_taken():
    for version in 4, 6:
        peer, watch = watched(connected(version=version))
        watch.sent("counters", {"echo_received": 1}, echo([(1, 100), (2, 100)]))
        expect("hops", peer.flow()["hops"], 2)


def predicted(peer, options, payload):
    """Send a segment. Return whether TCP used its fast path, which requires that no process reads meanwhile."""
    before = peer.ns.snmp("TcpExtTCPHPHits")
    peer.send(options, payload)
    return peer.ns.snmp("TcpExtTCPHPHits") - before


def test_taken_out():
    """TCP gets segments without the options that were read, and with correct checksums."""
    forward = [record(1, 5, 6), bytes(8), bytes(8)]
    for version in 4, 6:
        peer = Peer(version=version).connected()
        peer.send(option(FORWARD, forward, SCALE), b"begin...")
        whole_filter(peer, 8)
        data = b"begin..."
        for records in 3, 1, 0:
            payload = b"%d of 3: " % records
            expect(f"IPv{version}, {records} records: header predictions", predicted(
                peer, option(FORWARD, forward[:records], SCALE), payload), 1)
            data += payload
        peer.sock.settimeout(2)
        expect("data", peer.sock.recv(100), data)


def test_left_in():
    """An option with PROMPT, an unknown or malformed option, and an option beside another option stay in the segment.
    """
    one = [record(1, 5, 6)]
    for what, options in (
            ("prompt", option(FORWARD, one, SCALE, flags=PROMPT)),
            ("unknown type", bytes((KIND, 4, 0, 0))),
            ("something behind", option(FORWARD, one, SCALE) + bytes((200, 4, 0, 0))),
            ("no multiple of 4", b"\1" + option(FORWARD, one, SCALE) + b"\1\1\1")):
        peer = Peer().connected()
        peer.send(b"", b"begin...")
        expect(f"{what}: header predictions", predicted(peer, options, b"1 of 2: "), 0)
        expect("no option: header predictions", predicted(peer, b"", b"2 of 2: "), 1)
        peer.sock.settimeout(2)
        expect("data", peer.sock.recv(100), b"begin...1 of 2: 2 of 2: ")


def expect_echoed(peer, watch, kind, on_hops, hops, flags):
    """Send a request with records of some hops. Fail unless the kernel echoes them."""
    records = [record(hop, 1000 + hop, 77 * hop, 5 * hop, 0xa0 + hop) for hop in on_hops]
    peer.send(option(kind, records, 12, hops, flags), b"x" * 100)
    watch.expect("request", forward_received=1)
    ours = peer.read(0.1).ours()
    expect("options", [(opt.type, opt.scale, opt.hops, opt.flags) for opt in ours], [(ECHO, 12, hops, 0)])
    expect("records", sorted(ours[0].words), [int.from_bytes(raw, "big") for raw in records])


def test_forward_echoed():
    for version in 4, 6:
        expect_echoed(*watched(Peer(version=version).connected()), FORWARD, (4, 5, 6), 7, PROMPT | 1)


def test_answered_is_echoed():
    peer, watch = watched(Peer().connected())
    for kind in ANSWERED, FORWARD, ANSWERED:
        expect_echoed(peer, watch, kind, (1, 2), 2, PROMPT)


def test_identify_echoed():
    peer = Peer().connected()
    ids = [identity(1, 7, 2, 10000, 1), identity(2, 0xfffff, 0xffff, 1, 3)]
    peer.send(option(IDENTIFY, ids + [bytes(8)], 0, 2, PROMPT), b"x" * 100)
    ours = peer.read(0.1).ours()
    expect("types", [opt.type for opt in ours], [IDENTIFY_ECHO])
    expect("records", sorted(ours[0].words), [int.from_bytes(raw, "big") for raw in ids])


def test_nothing_to_echo():
    """Free slots are not echoed; without a record no echo is sent."""
    peer = Peer().connected()
    peer.send(option(FORWARD, [bytes(8)] * 3, SCALE, 0, PROMPT), b"x" * 100)
    expect("options", ours_in(peer.read_all(0.1)), [])
    peer.send(option(FORWARD, [record(1, 5, 5)] + [bytes(8)] * 2, SCALE, 1, PROMPT), b"x" * 100)
    expect("records", len(peer.read(0.1).ours()[0].records), 1)


def test_newest_is_echoed():
    """If two FORWARDs arrive before an ACK is sent, the second is echoed; no FORWARD is echoed twice."""
    peer = Peer().connected()
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    for ts in 10, 20:
        peer.send(option(FORWARD, [record(1, ts, 5)], SCALE, 1), b"x" * 100)
    found = [opt.records[0]["ts"] for seg in peer.read_all(0.3) for opt in seg.ours()]
    expect("ts of the last echo", found[-1], 20)
    expect("echoes", len(found), len(set(found)))


def test_prompt():
    """With PROMPT the ACK is sent at once; without it TCP may delay the ACK."""
    peer = Peer().connected()
    for flags, soon in ((0, False), (PROMPT, True), (0, False), (PROMPT, True)):
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        peer.send(option(FORWARD, [record(1, 5, 5)], SCALE, 1, flags), b"x" * 100)
        expect(f"ACK at once, flags {flags}", peer.read(0.001) is not None, soon)
        if not soon:
            expect("ACK later", peer.read(0.3).ack, peer.seq)


def test_not_agreed():
    """Options are ignored on a connection that did not agree, and on a connection that has left hpcc."""
    peer = Peer().listening()
    sock = peer.accept(b"")[1]
    watch = Watch(peer)
    for ours in (option(FORWARD, [record(1, 5, 5)], SCALE), echo([(1, 100)]),
                 option(IDENTIFY, [identity(1, 1, 1, 1, 1)]), syn_option()):
        watch.sent("counters", {"unagreed_ignored": 1}, ours, b"x" * 10)
    sock.send(bytes(5000))
    expect("options sent", ours_in(peer.read_all(0.3)), [])
    expect("congestion control", get_cc(sock), "hpcc-classic")

    peer = connected()
    set_cc(peer.sock, "cubic")
    watch = Watch(peer)
    watch.sent("counters", {"unagreed_ignored": 1}, echo([(1, 100)]))


def test_lengths():
    """Only four of the lengths 0 to 40 are valid: the lengths of an ECHO with 1 to 4 records."""
    peer, watch = watched(connected(timestamps=False))
    right = {}
    body = echo([(hop, 100) for hop in range(1, 5)], 4)
    for length in range(41):
        raw = bytes([KIND, length]) + (body[2:length] if length > 1 else body)
        peer.send(raw[:40].ljust(40, b"\1"))
        counter = "echo_received" if length in (12, 20, 28, 36) else "malformed_ignored"
        right[length] = watch.moved() == {counter: 1}
    expect("lengths with a false counter", [n for n, ok in right.items() if not ok], [])


def test_beyond_the_header():
    peer, watch = watched(connected())
    for length, have in ((28, 4), (28, 24), (36, 28), (255, 28), (5, 4)):
        raw = bytes([KIND, length]) + echo([(1, 5), (2, 5), (3, 5)])[2:]
        ignored(peer, watch, f"length {length} in {have} bytes", raw[:have], malformed_ignored=1)
    ignored(peer, watch, "kind without length", b"\1\1\1" + bytes([KIND]), malformed_ignored=1)
    ignored(peer, watch, "after a malformed option", bytes([77, 0]) + echo([(1, 5)]) + b"\1\1", malformed_ignored=1)
    ignored(peer, watch, "after the end of options", b"\0\1\1\1" + echo([(1, 5)]))


def test_types():
    peer, watch = watched(connected())
    for unknown in 0, 7:
        ignored(peer, watch, f"type {unknown}", option(unknown, [record(1, 5, 5)], SCALE), malformed_ignored=1)
    for kind in 1, 3, 4:
        ignored(peer, watch, "a report without a request", option(5, [record(kind, 5, 5)], 0, 0), unagreed_ignored=1)


def raw_socket(ns, family):
    """Return a raw socket, which gets packets after our hook."""
    with ns:
        sock = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_TCP)
    defer(sock.close)
    return sock


def test_other_experiments():
    """Other experiments' options with our kind stay, are counted, and have no effect; our options beside them
    are processed.
    """
    word = struct.pack("!Q", 0x0123456789abcdef)
    others = (("AccECN, order 0", b"\xfd\x04\xac\xc0", "unagreed_ignored"),
              ("AccECN, order 1, counters", b"\xfd\x0d\xac\xc1" + bytes(9) + b"\1\1\1", "malformed_ignored"),
              ("Fast Open", b"\xfd\x0c\xf9\x89" + word, "malformed_ignored"),
              ("SMC", b"\xfd\x06\xe2\xd4\xc3\xd9\1\1", "malformed_ignored"),
              ("as our ECHO", b"\xfd\x0c\x48\x43" + word, "malformed_ignored"),
              ("as our ECHO, in our unit", bytes((253, 12, ECHO << 5 | SCALE, 0x10)) + b"\x90" + word[1:], "bad_hop_ignored"),
              ("as our FORWARD", b"\xfd\x0c\x2f\x10" + b"\x90" + word[1:], "bad_hop_ignored"),
              ("the same, twice a hop", b"\xfd\x14\x2f\x20" + 2 * (b"\x20" + word[1:]), "bad_hop_ignored"),
              ("the same, PROMPT", b"\xfd\x0c\x2f\x18" + b"\x90" + word[1:], "bad_hop_ignored"),
              ("no free slot", b"\xfd\x0c\x2f\x10" + word, "bad_hop_ignored"),
              ("as our REPORT", b"\xfd\x0c\xa0\x00" + b"\x10" + word[1:], "unagreed_ignored"),
              ("as our RESPONSE", b"\xfd\x0c\xe0\x10" + b"\x10" + word[1:], "malformed_ignored"))
    for version in 4, 6:
        peer = connected(4000, version=version)
        raw = raw_socket(peer.ns, socket.AF_INET if version == 4 else socket.AF_INET6)
        watch = Watch(peer)
        for what, other, counter in others:
            for beside in b"", echo([(1, 100)]):
                if len(other) + len(beside) > 28:
                    continue
                before = peer.flow()
                peer.send(other + beside, b"x" * 8)
                expect(f"{what}: counters", watch.moved(), {counter: 1} | ({"echo_received": 1} if beside else {}))
                found = raw.recv(1 << 16)[20 if version == 4 else 0:]
                expect(f"{what}: options that TCP gets", found[32:(found[12] >> 4) * 4], other + beside)
                after = peer.flow()
                if not beside:
                    expect(f"{what}: flow", (after["W"], after["hops"]), (before["W"], before["hops"]))
        expect("echoes", ours_in(peer.read_all(0.1)), [])


def test_scale():
    peer, watch = watched(connected())
    for scale in set(range(32)) - {SCALE}:
        ignored(peer, watch, f"scale {scale}", echo([(1, 5)], scale=scale), malformed_ignored=1)


def test_scales_on_their_way():
    """T falls more than once while an echo is in flight: the echo is still valid."""
    need_virtual_time()
    peer = Peer(base_rtt_ns=0)
    peer.start_connect()
    time.sleep(0.016)
    peer.answer()
    scales = []
    for rtt_s in 0.008, 0.004, 0.002:
        peer.sock.send(bytes(1000))
        scales.append(peer.take().ours()[0].scale)
        time.sleep(rtt_s)
        peer.send()
    expect("scales of the requests", scales, [11, 10, 9])
    watch = Watch(peer)
    watch.sent("the first scale", {"echo_received": 1}, echo([(1, 5)], scale=11))
    ignored(peer, watch, "a scale that no request had", echo([(1, 5)], scale=5), malformed_ignored=1)


def test_twice():
    """A segment may have one option for each direction; a second option for the same direction is malformed."""
    peer, watch = watched(connected())
    peer.send(echo([(1, 100)]) + echo([(1, 900)]))
    expect("two echoes", watch.moved(), {"echo_received": 1, "malformed_ignored": 1})
    peer.send(echo([(1, 200)]) + option(FORWARD, [record(1, 5, 5)], 3), b"x")
    expect("one option for each direction", watch.moved(), {"echo_received": 1, "forward_received": 1})
    peer.send(option(FORWARD, [record(1, 5, 5)]) + option(IDENTIFY, [record(1, 5, 5)]), b"x")
    expect("two options for one direction", watch.moved(), {"forward_received": 1, "malformed_ignored": 1})


def test_hops():
    peer = connected()
    peer.ns.ask()
    watch = Watch(peer)
    for what, ours in (("hop 0", echo([(0, 5)], 1)), ("hop beyond hops", echo([(3, 5)], 2)),
                       ("hops 0", echo([(1, 5)], 0)),
                       ("free slot", option(ECHO, [bytes(8)], SCALE, 1))):
        ignored(peer, watch, what, ours, bad_hop_ignored=1)
    # One wrong record makes the whole ECHO an option of another experiment.
    ignored(peer, watch, "repeated", echo([(1, 100), (1, 200)], 2), bad_hop_ignored=1)
    ignored(peer, watch, "identities", option(IDENTIFY_ECHO, [identity(0, 1, 1, 1, 1), identity(4, 1, 1, 1, 1)], SCALE, 2),
            bad_hop_ignored=2)
    expect("links", peer.ns.links(), {})


def test_ts_back():
    peer = connected()
    peer.send(echo([(1, 1000)]))
    watch = Watch(peer)
    for back in 1, 500, 0x7fff0:
        ignored(peer, watch, f"{back} units back", echo([(1, 1000 - back)]), echo_received=1, ts_back_ignored=1)
    ignored(peer, watch, "a copy", echo([(1, 1000)]), echo_received=1)


def test_not_deaf():
    """Records that are ignored do not change the baseline: the next valid record counts."""
    peer = connected()
    peer.send(echo([(1, 1000)], tx=1000))
    watch = Watch(peer)
    ignored(peer, watch, "half a turn back", echo([(1, 1000 + (1 << 19))], tx=1000), echo_received=1, ts_back_ignored=1)
    watch.sent("true value", {"echo_received": 1}, echo([(1, 1100)], tx=1100))
    ignored(peer, watch, "excess", echo([(1, 1200)], tx=1100 + (1 << 18)), echo_received=1, tx_excess_ignored=1)
    watch.sent("same ts, true value", {"echo_received": 1}, echo([(1, 1200)], tx=1200))


def test_kind_changed():
    peer = connected()
    peer.ns.sysctl("net.hpcc.option_kind", 254)
    watch = Watch(peer)
    watch.sent("counters", {"echo_received": 1}, echo([(1, 100)]))
    watch.sent("counters", {}, option(ECHO, [record(1, 200, 5)], SCALE, kind=254))


def test_tx_excess():
    """A record with more bytes than the link can have sent is ignored: d(tx) > 4 d(ts) + T."""
    peer = connected()
    peer.send(echo([(1, 1000)], tx=1000))
    watch = Watch(peer)
    limit = int(4 * 100 + T_UNITS)
    for step, tx in enumerate((limit + 12, limit + 10000, 0x7ffff)):
        ignored(peer, watch, f"{tx} units", echo([(1, 1100 + step)], tx=1000 + tx),
                echo_received=1, tx_excess_ignored=1)
    # The baseline is unchanged: the true value is still valid.
    watch.sent("true value", {"echo_received": 1}, echo([(1, 1200)], tx=1100))
    ignored(peer, watch, "tx back", echo([(1, 1300)], tx=900), echo_received=1, tx_excess_ignored=1)


def test_echo_while_sending():
    """On a cable without delay an ACK arrives while its segment is still in the sender's own stack: its echo counts."""
    for version in 4, 6:
        pair, client, server = joined(Pair(version, qdisc="hpcc"))
        for salt in range(20):
            transfer((client, server, pattern(1000, salt)))
        counters = pair.c.counters()
        expect("window_ignored", counters["window_ignored"], 0)
        expect_in("echo_received", counters["echo_received"], 10, 20)


def test_checksum():
    peer, watch = watched(connected())
    window = peer.flow()["W"]
    peer.send(echo([(1, 5)]), bad_csum=True)
    peer.send(option(FORWARD, [record(1, 5, 5)]), b"x" * 10, seq=peer.seq, bad_csum=True)
    expect("counters", watch.moved(), {"checksum_ignored": 2})
    expect("window", peer.flow()["W"], window)
    expect("InCsumErrors", peer.ns.snmp("InCsumErrors"), 2)
    expect("answer", [seg for seg in peer.read_all(0.1) if seg.telemetry(ECHO)], [])


def advertised(peer):
    """Return the window that the kernel advertises with an ACK of all our data."""
    peer.send(b"", b"x")
    acks = peer.read_all(0.1)
    expect("last ACK", acks[-1].ack, peer.seq)
    return acks[-1].win << peer.syn.option(3)[2]


def test_outside_the_window():
    """An option counts only if TCP would accept the numbers of its segment (protocol.rst, "What a stranger must know")."""
    for version in 4, 6:
        peer = connected(20000, version=version)
        reach = 20000 + 1       # the bytes acknowledged, with the SYN: less than max_window
        room = advertised(peer)
        watch = Watch(peer)
        numbers = (("ACK of data that were not sent", 0, 1), ("far beyond", 0, 1 << 30),
                   ("ACK older than max_window allows", 0, -reach - 1), ("half a turn", 0, 1 << 31),
                   ("sequence number after the window", room + 1, 0), ("far beyond", 1 << 24, 0),
                   ("before the window", -11, 0), ("half a turn", 1 << 31, 0), ("both", 1 << 24, 1 << 30))
        for kind in FORWARD, ECHO, IDENTIFY, IDENTIFY_ECHO:
            ours = option(kind, [record(1, 5, 5)], SCALE)
            for what, seq, ack in numbers:
                before = peer.flow()
                peer.send(ours, b"x" * 10, seq=peer.seq + seq, ack=peer.acked + ack)
                expect(f"type {kind}: {what}", watch.moved(), {"window_ignored": 1})
                after = peer.flow()
                expect("W, hops", (after["W"], after["hops"]), (before["W"], before["hops"]))
        expect("echoes", [seg for seg in peer.read_all(0.1) if ours_in([seg])], [])


def test_at_the_edges_of_the_window():
    """An option counts with the first and the last numbers that TCP accepts."""
    for version in 4, 6:
        peer = connected(20000, version=version)
        room = advertised(peer)
        watch = Watch(peer)
        for seq, ack in ((-10, 0), (0, -20001), (room, 0)):
            peer.send(echo([(1, 5)]), seq=peer.seq + max(seq, 0), ack=peer.acked + ack)
            expect(f"{seq} {ack}", watch.moved(), {"echo_received": 1})
            peer.send(option(FORWARD, [record(1, 5, 5)], SCALE), b"x" * 10, seq=peer.seq + seq, ack=peer.acked + ack)
            expect(f"{seq} {ack}", watch.moved(), {"forward_received": 1})


def test_tcp_takes_no_more():
    """Options are not read if TCP rejects the ACK number as too old, or the packet because of its TTL."""
    for version in 4, 6:
        peer = Peer(version).connected()
        peer.sock.setblocking(False)
        peer.sock.send(b"x" * 100)
        peer.take(0.1)
        peer.send()
        ours = option(FORWARD, [record(1, 5, 5)], SCALE)
        for back in 0, 101, 200, 50000, 8000000:
            watch = Watch(peer)
            peer.send(ours, b"data", seq=peer.seq, ack=peer.acked - back)
            got = b""
            with contextlib.suppress(BlockingIOError):
                got = peer.sock.recv(100)
            peer.seq += len(got)
            expect(f"ACK number {back} back: option", bool(watch.moved().get("forward_received")), bool(got))
            expect(f"ACK number {back} back: data", bool(got), back <= 101)
        peer.sock.setsockopt(*((socket.IPPROTO_IP, 21) if version == 4 else (socket.IPPROTO_IPV6, 73)), 255)
        watch = Watch(peer)
        window = peer.flow()["W"]
        peer.send(option(ECHO, [record(1, 5, 5, 0xfff)], SCALE, 1), b"data", seq=peer.seq)
        expect("counters with a low TTL", watch.moved(), {"window_ignored": 1})
        expect("W", peer.flow()["W"], window)


def test_one_blind_echo_in_a_round_trip():
    """An attacker who guesses only the ACK number cannot keep W low."""
    peer = connected(400000)
    for turn in range(100):
        window = peer.flow()["W"]
        # A link with a queue of 1,000 T, as a blind attacker would claim.
        peer.send(option(ECHO, [record(1, 5000 * turn, 5000 * turn, 0xfff)], SCALE, 1),
                  seq=peer.seq + (1 << 25) * (turn + 8))
        expect("W", peer.flow()["W"], window)
        send(peer, 4000)
        peer.send()
    expect("window_ignored", peer.ns.counters()["window_ignored"], 100)


def test_reset_with_options():
    peer, watch = watched(connected())
    peer.raw(RST, peer.seq - 5000, peer.acked, echo([(1, 5)]))
    expect("counters", watch.moved(), {})
    peer.raw(RST, peer.seq, peer.acked, echo([(1, 5)]))
    peer.sock.close()
    expect("flows", peer.ns.flows(), [])
    watch.sent("counters", {}, echo([(1, 5)]))


def test_after_the_end():
    """Options that reach a connection in TIME_WAIT or a closed port are not read."""
    peer = Peer().connected()
    peer.sock.close()
    peer.take(0.1)
    peer.acked += 1
    peer.send(echo([(1, 5)]), flags=ACK | FIN)
    expect("flows", peer.ns.flows(), [])
    watch = Watch(peer)
    peer.send(echo([(1, 5)]))
    peer.lport = 9
    watch.sent("counters", {}, echo([(1, 5)]))


def replay():
    """Repeat ACKs in and out of order. Return the time in T, their number, the flow before and after, and ts_back."""
    peer = connected()
    acks = [echo([(1, 1000 + 2000 * i), (2, 3000 + 2000 * i)], tx=900 * i) for i in range(20)]
    for ours in acks:
        began_ns = time.monotonic_ns()
        peer.send(ours)
    before = peer.flow()
    rng, count = random.Random(1), 0
    while count < 1000 and (virtual_time() or time.monotonic_ns() - began_ns < 56 * T_NS):
        peer.send(rng.choice(acks))
        count += 1
    after, took_T = peer.flow(), (time.monotonic_ns() - began_ns) / T_NS
    return took_T, count, before, after, peer.ns.counters()["ts_back_ignored"]


def test_replay():
    """Repeated ACKs change nothing for 64 T; after that their records would become new baselines."""
    for _ in range(1 if virtual_time() else 10):
        took_T, count, before, after, ts_back = replay()
        if took_T < 64:
            break
    print(f"# {count} ACKs in {took_T:.0f} T")
    expect_in("T", took_T, 0, 64)
    expect_in("ACKs", count, 1000 if virtual_time() else 40, 1000)
    expect("W, U", (after["W"], after["U_permille"]), (before["W"], before["U_permille"]))
    expect_in("ts_back", ts_back, 0.9 * count, 2 * count)


def random_option(rng):
    shape = rng.randrange(6)
    if shape == 0:
        return rng.randbytes(4 * rng.randrange(1, 8))
    if shape == 1:
        return bytes([KIND]) + rng.randbytes(4 * rng.randrange(1, 8) - 1)
    count = rng.randrange(4)
    records = [struct.pack("!Q", rng.getrandbits(64)) for _ in range(count)]
    if shape > 3:
        records = [record(hop + 1, rng.getrandbits(20), rng.getrandbits(20), rng.getrandbits(12),
                          rng.randrange(3)) for hop in range(count)]
    raw = bytearray(option(ECHO, records, SCALE, rng.randrange(count, 16)) if shape == 5 else
                    option(rng.randrange(8), records, SCALE if shape > 2 else rng.randrange(32), rng.randrange(16),
                           rng.randrange(16)))
    if shape == 2:
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(raw)


@cases(random_ipv4=(4, 4), random_ipv4_again=(4, 5), random_ipv6=(6, 6), random_ipv6_again=(6, 7))
def storm(version, seed):
    """Many segments carry random options: the window stays within its bounds, and the data arrive. After more of them the
    connection would be classic.
    """
    rng = random.Random(seed)
    peer = connected(version=version, nbytes=0)
    data = pattern(2000000)
    sent = looks = 0
    got = bytearray()
    peer.sock.setblocking(False)
    first = peer.acked
    for turn in range(1500):
        if sent < len(data) and turn % 8 == 0:
            with contextlib.suppress(BlockingIOError):
                sent += peer.sock.send(data[sent:sent + 20000])
        peer.send(random_option(rng), b"y" * rng.choice((0, 0, 1, 50)))
        while (seg := peer.read(0.0001)):
            start = (seg.seq - first) & 0xffffffff
            if seg.payload and start <= len(got):
                got[start:start + len(seg.payload)] = seg.payload
                peer.acked = first + len(got)
        if turn % 50 == 0:
            flow = peer.flow()
            for name in "W", "Wc":
                expect_in(name, flow[name], W_MIN, W_INIT)
            # Ignored records lead to classic mode after some round trips: then TCP sets the rate.
            if flow["mode"] == "telemetry":
                expect_in("R", peer.rate(), 1, W_INIT / T_NS * 1.01e9)
                looks += 1
    print(f"# telemetry at {looks} looks of 30")
    expect_in("looks at telemetry", looks, 20 if virtual_time() else 5, 30)
    expect_in("bytes", len(got), 10000, len(data))
    expect("data are as sent", got == data[:len(got)], True)
    counters = peer.ns.counters()
    names = "malformed_ignored bad_hop_ignored ts_back_ignored tx_excess_ignored echo_received forward_received"
    expect("counters of 0", [name for name in (*names.split(), "path_changes") if not counters[name]], [])


def test_fragments():
    peer, watch = watched(connected())
    whole = peer.packet(ACK, peer.seq, peer.acked, peer.stamp() + echo([(1, 50)]), b"x" * 64)
    for fragment in 0x2000, 0x0001:     # the first of several fragments, and a later one
        head = whole[:6] + struct.pack("!H", fragment) + whole[8:20]
        os.write(peer.fd, with_csum(head, 10) + whole[20:])
        watch.expect(f"fragment {fragment:#x}")
    os.write(peer.fd, whole)
    watch.expect("not fragmented", echo_received=1)


def test_partial_elsewhere():
    """If the position for the checksum is not the field in the TCP header, our option and this position stay."""
    peer = Guest().connected()
    raw, sent = raw_socket(peer.ns, socket.AF_INET), 0
    for start, offset, kept in (20, 16, 0), (-4, 0, 1), (0, 10, 1), (24, 12, 1):
        peer.start, peer.offset = start, offset
        try:
            peer.send(option(FORWARD, [record(1, 5, 6)]), payload=bytes(40))
        except OSError:
            # From 6.11 on the kernel refuses a packet if its network stack could not compute the
            # checksum at this position.
            expect(f"checksum at {start}: refused", (kept, release() >= (6, 11)), (1, True))
            continue
        found = Segment(raw.recv(1 << 16))
        expect(f"checksum at {start}: our options", len(found.ours()), kept)
        expect(f"checksum at {start}: data", len(found.payload), 40)
        sent += 1
    expect("forward_received", peer.ns.counters()["forward_received"], sent)


main(modules=["sch_hpcc"])
