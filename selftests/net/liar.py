#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Receivers send false echoes: W keeps its bounds, data arrive, counters show the lie, and it has no later effect."""

import itertools
import os
import random
import socket
import struct
import time

from lib.box import BoxPath, expect_half, nothing, send_until
from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main, need_virtual_time
from lib.packet import (CAP_QUIET, CAP_TELEMETRY, CAP_WINDOW, ECHO, REPORT, Telemetry, data_segments,
                        option, qlen_value, record, sack, syn_option)
from lib.path import MBPS, dropped
from lib.peer import SCALE, T_NS, W_INIT, Flow, LdcpFlow, Link, Peer, measured, qlen_code, rounds
from lib.tcp import goodput_mbps, send_for, set_cc

NBYTES = 600000
COUNTER = 1 << 20       # ts and tx wrap at this value
W_MIN = W_INIT // 1024
MOST = 100000


def watched():
    """Return whether this is a debug kernel, on which a test takes 20 times as long."""
    return os.path.exists("/sys/kernel/debug/kmemleak")


# ---- lies: functions that change records, or return other bytes in their place

def each(**values):
    """Return a lie that sets fields of each record to a value, or to a function of the true value."""
    def lie(records):
        for rec in records:
            for name, value in values.items():
                rec[name] = value(rec[name]) if callable(value) else value
    return lie


def counting(step):
    """Return a counter that advances by `step` for any true value."""
    now = [0]

    def count(_value):
        now[0] = (now[0] + step) % COUNTER
        return now[0]
    return count


def random_field(bits, rng=random.Random(3)):
    return lambda _value: rng.getrandbits(bits)


def replay(pick):
    """Return a lie that repeats earlier records; pick(n) chooses one of n records."""
    past = []

    def lie(records):
        past.append([dict(rec) for rec in records])
        records[:] = [dict(rec) for rec in past[pick(len(past))]]
    return lie


def full(qlen, times=1):
    """Return a lie about a link that transmits all the time, or faster, and has a queue."""
    passed, last = [0], [None]

    def lie(records):
        for rec in records:
            passed[0] += 0 if last[0] is None else (rec["ts"] - last[0]) % COUNTER
            last[0] = rec["ts"]
            rec["tx"] = passed[0] * times % COUNTER
            rec["qlen"] = qlen
    return lie


class Liar:
    """A box in front of b that replaces the records of b's echoes by the records from lie()."""

    def __init__(self, lie, port=None):
        self.lie, self.port = lie, port

    def __call__(self, packet):
        if not packet.to_b and not packet.syn and self.port in (None, packet.sport):
            packet.each(self.echo)
        return [packet]

    def echo(self, opt):
        """Return an echo with the records of the lie."""
        telemetry = Telemetry(opt)
        records = [rec for rec in telemetry.records if rec["hop"]]
        if telemetry.type != ECHO or not records:
            return opt
        lied = self.lie(records)
        if lied is None:
            lied = b"".join(record(rec["hop"], rec["ts"], rec["tx"], rec["qlen"], rec["tag"]) for rec in records)
        return opt[:4] + lied.ljust(len(opt), b"\0")[:len(opt) - 4]


def lied_to(name, lie, version=4, nbytes=NBYTES):
    """Send to a lying receiver. Return goodput, path and client."""
    # With random lies each segment carries a request, because the mean of few samples varies much; with maxStage 0 each
    # short queue among random queues would multiply W.
    path = BoxPath(version, change=Liar(lie), host_mbps=2 * MBPS,
                   **({"sample": 0, "max_stage": 5} if "random" in name else {}))
    client, path.server = path.connect()
    flows = []
    goodput = goodput_mbps(client, path.server, nbytes, lambda: flows.append(path.a.flow(client)))
    for flow in flows:
        for what in "W", "Wc":
            expect_in(f"{name}: {what}", flow[what], w_init(flow) // 1024, w_init(flow))
    expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])
    return goodput, path, client


def w_init(flow):
    """Return W_init of a flow of lied_to()."""
    return 2 * MBPS * flow["T_ns"] // 8000


# Lies that contradict themselves or give no information: name, lie, counter that shows the lie
EMPTY = (
    ("zeros", lambda records: bytes(8), "bad_hop_ignored"),
    ("all bits set", lambda records: b"\xff" * 8, "bad_hop_ignored"),
    ("random bytes", lambda records, rng=random.Random(1): rng.randbytes(8), "bad_hop_ignored"),
    ("the first record again", replay(lambda n: 0), "fallbacks"),
    ("any record again", replay(random.Random(2).randrange), "ts_back_ignored"),
    ("time runs backwards", each(ts=counting(-100)), "ts_back_ignored"),
    ("time stands still", each(ts=5), "fallbacks"),
    ("time at random", each(ts=random_field(20)), "ts_back_ignored"),
    ("txBytes run backwards", each(tx=counting(-100)), "tx_excess_ignored"),
    ("links at random", each(tag=random_field(8)), "path_changes"),
    ("a hop beyond the path", each(hop=9), "bad_hop_ignored"),
    # The next two lies try to keep W high: W stays at W_init, and the queue overflows.
    ("always no queue", each(qlen=0), "agreed"),
    ("always no load", each(qlen=0, tx=5), "agreed"))


def test_empty_lies():
    for number, (name, lie, counter) in enumerate(EMPTY):
        goodput, path, client = lied_to(name, lie, 4 + number % 2 * 2)
        expect_half(name, path.version, NBYTES, goodput)
        send_until(lambda: path.a.counters()[counter], client, path.server, NBYTES // 4)
        expect_in(f"{name}: {counter}", path.a.counters()[counter], 1, MOST)


# Consistent lies about a loaded link. The sender follows these lies, because a receiver can also slow down its sender
# by its receive window or by late ACKs. The number is the minimum of W_init / W.
LOADED = (
    ("always a queue", each(qlen=qlen_code(6000)), 5), ("always half a queue", each(qlen=qlen_code(3000)), 2),
    ("longest queue", each(qlen=0xfff), 100), ("longest queue on a full link", full(0xfff), 100),
    ("random queues", each(qlen=random_field(12)), 100), ("txBytes fast", each(tx=counting(5000)), 5),
    ("txBytes twice as fast as B", full(0, 2), 100), ("random txBytes", each(tx=random_field(20)), 1),
    ("txBytes stand still", each(tx=5), 1), ("a full link", full(0), 1),
    ("always a full link and a queue of T/2", full(qlen_code(3000)), 5))


def test_lies_of_load():
    """W keeps its bounds, and after the lie the flow is back at full speed within a quarter of a megabyte."""
    for number, (name, lie, share) in enumerate(LOADED[::3 if watched() else 1]):
        goodput, path, client = lied_to(name, lie, 4 + number % 2 * 2, NBYTES // 6)
        flow = path.a.flow(client)
        most = w_init(flow)
        print(f"# {name}: {goodput:.0f} Mbit/s, W is W_init / {most / flow['W']:.1f}")
        expect_in(f"{name}: W", flow["W"], most // 1024, most // share if virtual_time() else most)
        expect("unseen_loss", path.a.counters()["unseen_loss"], 0)
        path.change_packet = nothing
        goodput_mbps(client, path.server, NBYTES // 3)
        expect_half(f"after {name}", path.version, NBYTES, goodput_mbps(client, path.server, NBYTES))


def test_lies_slow_the_liar_only():
    """A lie does not slow down another connection to the same host."""
    path = BoxPath(change=Liar(full(0xfff), port=5000), host_mbps=2 * MBPS)
    slow, honest = path.connect(5000), path.connect(5001)
    goodput_mbps(*slow, NBYTES // 20)
    slow[0].setblocking(False)
    slow[0].send(bytes(1 << 20))
    expect_half("an honest receiver", path.version, NBYTES, goodput_mbps(*honest, NBYTES))
    flow = path.a.flow(slow[0])
    expect_in("the liar's W", flow["W"], w_init(flow) // 1024, w_init(flow) // 64)


def overload(what, change, limit, seconds, losses, beside=True):
    """Send to a slow port behind a box. Check drops and losses. Return (path, bytes that arrived by flow)."""
    need_virtual_time()
    path = BoxPath(change=change)
    path.change(1, f"hpcc rate 10mbit limit {limit}")
    arrived = send_for(seconds, path.connect(5001), *([path.connect(5002, cc="cubic")] if beside else []))
    counters = path.a.counters()
    print(f"# {what}: {arrived[0] / sum(arrived):.2f} of the link, {dropped(path, 1):.3f} dropped, "
          f"{counters['unseen_loss']} for loss")
    expect_in("dropped", dropped(path, 1), 0, 0.2)
    expect_in("unseen_loss", counters["unseen_loss"], 1, losses)
    return path, arrived


def test_lies_of_no_load():
    """The receiver reports a slow port that drops packets as idle: losses show the overload."""
    _, arrived = overload("alone", Liar(each(qlen=0, tx=5)), "30kb", 4, 5, beside=False)
    expect_in("goodput", arrived[0] * 8 / 4e6, 8, 10)


def shortly(every):
    """Return a lie: echoes report the link as idle, but two of `every` echoes report a queue of 4 T."""
    # An echo with the long queue explains the losses of its round trip by a busy link. W is low only until the next
    # record.
    count = itertools.count(1)

    def lie(records):
        qlen = qlen_code(4 * 6000) if next(count) % every < 2 else 0    # T: 4096 to 8191
        for rec in records:
            rec |= {"tx": 5, "qlen": qlen}
    return lie


def test_lies_of_a_busy_link():
    """A slow port drops packets. The receiver reports this port as idle, and from time to time as overloaded."""
    # A busy link excuses four windows of losses, and no more.
    for every in 15, 40:
        _, arrived = overload(f"2 of {every}", Liar(shortly(every), port=5001), "150kb", 10, 5)
        expect_in("share", arrived[0] / sum(arrived), 0, 0.75)


def slowly(part):
    """Return a lie: tx advances by only a part of its true advance."""
    true, claimed = [None], [0]

    def lie(records):
        for rec in records:
            claimed[0] += 0 if true[0] is None else (rec["tx"] - true[0]) % COUNTER * part
            true[0] = rec["tx"]
            rec["tx"] = int(claimed[0]) % COUNTER
    return lie


class Alone(Liar):
    """A liar that reports N = 1, the number of flows that share the link."""

    def echo(self, opt):
        return opt[:4] + struct.pack("!Q", 2 << 60 | 1) if opt[2] >> 5 == REPORT else opt


# Lies for more than the fair share: name, function that returns a lie (None: Alone), and the maximum of the share.
GREEDY = (
    ("honest", lambda: lambda records: None, 1.2),
    ("no record", lambda: lambda records: bytes(8), 3.9),
    ("the first record again", lambda: replay(lambda n: 0), 3.9),
    ("any record again", lambda: replay(random.Random(2).randrange), 1.6),
    ("half of qlen", lambda: each(qlen=lambda code: qlen_code(qlen_value(code) // 2)), 1.5),
    ("always no queue", lambda: each(qlen=0), 1.9),
    ("a quarter of tx", lambda: slowly(0.25), 3.5),
    ("always no load", lambda: each(qlen=0, tx=5), 3.5),
    ("N is 1", None, 2.4))


def test_greedy_lies():
    """One of four receivers behind a port lies, and gets more than its fair share, up to these limits."""
    need_virtual_time()
    for name, lie, most in GREEDY[::4 if watched() else 1]:
        for how in "", "marking ldcp kmin 10kb kmax 30kb":
            path = BoxPath(change=Liar(lie(), 5001) if lie else Alone(None, 5001), host_mbps=20, base_rtt_ns=10800000,
                           n_flows=4 if lie else 0)
            path.change(1, f"hpcc rate 20mbit delay 10ms limit 1mb {how}")
            arrived = send_for(4, *[path.connect(port) for port in range(5001, 5005)])
            share = 4 * arrived[0] / sum(arrived)
            mode, = [flow["mode"] for flow in path.a.dump() if flow["rport"] == 5001]
            print(f"# {name}, {how or 'no marking'}: {share:.2f} of the fair share, {mode}")
            expect_in(f"{name}, {how}", share, 0.9, most)


class Denier(Liar):
    """A liar that also reports each retransmission as a duplicate, if a DSACK fits beside the echo."""

    def __init__(self, lie, port):
        super().__init__(lie, port)
        self.end, self.twice = None, []

    def __call__(self, packet):
        seq, ack = (int.from_bytes(packet.tcp[at:at + 4], "big") for at in (4, 8))
        if packet.to_b and int.from_bytes(packet.tcp[2:4], "big") == self.port and packet.payload:
            end = seq + len(packet.payload)
            if self.end is None or (end - self.end) & 0xffffffff < 1 << 31:
                self.end = end
            else:
                self.twice.append((seq, end))
        packets = super().__call__(packet)
        if not packet.to_b and packet.sport == self.port and self.twice:
            old = self.twice[0]
            if (ack - old[1]) & 0xffffffff < 1 << 31 and len(b"".join(packet.options)) <= 28:
                packet.options += list(packet.split(sack(*self.twice.pop(0))))
        return packets


def test_denied_losses():
    """Beside a cubic flow, the receiver reports a port that drops as idle, and retransmissions as duplicates."""
    # Late packets excuse few losses beyond 1/32.
    for packets in 20, 100:
        path, _ = overload(f"{packets} packets", Denier(each(qlen=0, tx=5), 5001), 1500 * packets, 10, 9)
        expect_in("DSACKs", path.a.snmp("TcpExtTCPDSACKRecv"), 100, 10000)


def lose(flow, link, number):
    """Run a round trip whose first segments are lost, and arrive when they are retransmitted."""
    began, segments = flow.acked, data_segments(flow.run())
    expect_in("segments", len(segments), 20, 200)
    flow.send(sack(segments[number].seq, flow.acked), ack=began)
    flow.run()
    flow.echo(link.step(9000, 0.1))
    return began, segments[number].seq


def fell_back(what, flow):
    """Fail unless the flow has fallen back, once."""
    expect(f"{what}: mode, fallbacks", (flow.cc(), flow.ns.counters()["fallbacks"]), ("hpcc-classic", 1))


def test_duplicates_that_were_not():
    """Losses on an unstamped link count, even if the peer reports duplicates before any retransmission."""
    for forged in 0, 1, 3:                  # DSACKs, of 40 segments each
        flow, link, _ = measured(4, 0.1)
        for _ in range(forged):
            flow.send(sack(flow.acked - 60000, flow.acked - 2000))
        for _ in range(6):
            lose(flow, link, 8)
            if flow.cc() != "hpcc":
                break
        expect(f"mode, unseen_loss after {forged} forged DSACKs", (flow.cc(), flow.ns.counters()["unseen_loss"]),
               ("hpcc-classic", 1))


def test_duplicates_of_before():
    """Duplicates that are reported before the socket selects hpcc again do not hide later losses."""
    turns = []
    for reported in False, True:
        flow, link, _ = measured(4, 0.1)
        began, end = lose(flow, link, 9)
        rounds(8, flow, link, 0.1)      # until these losses do not count any more
        if reported:
            flow.send(sack(began, end))
        for name in "cubic", "hpcc":
            set_cc(flow.sock, name)
        expect("mode", flow.cc(), "hpcc")
        turns.append(0)
        while flow.cc() == "hpcc" and turns[-1] < 9:
            lose(flow, link, 12)
            turns[-1] += 1
    expect_in("round trips to the fallback", turns[0], 1, 3)
    expect("round trips to the fallback after earlier DSACKs", turns[1], turns[0])


def test_same_record_for_long():
    """A record that is repeated forever gives no information, even if it has become void as a baseline."""
    for tx in 0, 9:
        flow, link = Flow(), Link()
        for _ in range(16):
            flow.run()
            time.sleep(20e-9 * T_NS)
            flow.echo(link)
            link.tx += tx
        fell_back(f"tx + {tx}", flow)


def another_tag(flow, link, turn):
    """Send a record of another link each time."""
    link.tag = 100 + turn % 100
    flow.echo(link.step(9000, 0.1))


def ever_longer(flow, link, _turn):
    """Send each valid record for hop 2 of two hops. The next echo has only one hop, and acknowledges no data."""
    flow.echo(Link(2, ts=link.step(9000, 0.1).ts))
    flow.echo(Link())


def after_a_pause(flow, link, _turn):
    """Send a record after 64 T, so that the counters may have wrapped."""
    time.sleep(70e-9 * T_NS)
    flow.echo(link.step(9000, 0.1))


def test_always_a_first_record():
    """If each record is the first record of a link, none can be measured: the flow falls back."""
    for attack in another_tag, ever_longer, after_a_pause:
        flow, link, _ = measured(4, 0.1)
        turns = 0
        while flow.cc() == "hpcc" and turns < 40:
            flow.run()
            attack(flow, link, turns)
            turns += 1
        print(f"# {attack.__name__}: {flow.cc()} after {turns}")
        fell_back(attack.__name__, flow)
        expect_in(f"{attack.__name__}: turns", turns, 8, 20 if virtual_time() else 40)


def test_many_first_records():
    """The hops of a long path report in turn: the flow does not fall back before each hop has reported once."""
    flow, link = Flow(), Link(15)
    for hop in range(1, 16):
        flow.run()
        flow.echo(Link(hop, ts=link.step(9000, 0.1).ts), hops=15)
        expect(f"congestion control after hop {hop}", flow.cc(), "hpcc")
    for _ in range(4):
        flow.round(link.step(9000, 0.1), hops=15)
    expect("mode, fallbacks", (flow.cc(), flow.ns.counters()["fallbacks"]), ("hpcc", 0))


# ---- random lies

def lies(seed):
    """Yield random options with three kinds of lies."""
    rng, link = random.Random(seed), Link()

    def of_link(*step):
        if step:
            link.step(*step)
        return option(ECHO, [link.raw()], SCALE, 1)

    def huge():
        link.step(rng.randrange(1, 20000), 4 * rng.random())
        link.code = rng.choice((0, 0xfff))
        return of_link()

    def back():
        link.ts -= rng.randrange(20000)
        link.tx -= rng.randrange(20000)
        return of_link()

    def head():
        opt = bytearray(rng.choice(past))
        opt[rng.randrange(1, 4)] = rng.getrandbits(8)
        return bytes(opt)

    def hops():
        return option(ECHO, [Link(hop, ts=rng.getrandbits(20), tx=rng.getrandbits(20)).raw()
                             for hop in rng.sample(range(1, 16), 3)], SCALE, 15)

    past = [of_link()]
    kinds = rng.sample((
        lambda: of_link(rng.randrange(1, 20000), rng.random(), rng.random()),       # the truth
        lambda: option(ECHO, [rng.choice((b"\0", b"\xff")) * 8] * rng.randrange(1, 4), SCALE, rng.randrange(16)),
        lambda: option(ECHO, [rng.randbytes(8) for _ in range(rng.randrange(4))], SCALE, rng.randrange(16)),
        lambda: option(ECHO, [record(1, *[rng.getrandbits(bits) for bits in (20, 20, 12)])], SCALE, 1),
        lambda: rng.choice(past), huge, back, head, hops), 3)
    while True:
        past.append(rng.choice(kinds)())
        yield past[-1]


def tell_lies(flow, seed):
    """Run some round trips with lies only."""
    for lie in itertools.islice(lies(seed), 12):
        flow.run(1e-5)
        flow.send(lie)
        now = flow.flow()
        for name in "W", "Wc":
            expect_in(f"seed {seed}: {name}", now[name], W_MIN, W_INIT)
        if now["mode"] == "telemetry":
            expect_in(f"seed {seed}: R", flow.rate(), 1, W_INIT * 10 ** 9 // T_NS + 1)
        expect_in(f"seed {seed}: hops", now["hops"], 0, 15)


def repent(flow, seed):
    """Send correct records of an idle link: W returns to W_init."""
    time.sleep(64e-9 * T_NS)            # makes baselines void
    link, turns = Link(tag=77), 0
    flow.window = 100
    while flow.cc() != "hpcc":
        flow.round(link.step(9000, 0.01))
        turns += 1
        expect_in("round trips in classic mode", turns, 1, 1000)
    flow.window = 65535
    # one multiplicative increase in six round trips; at W_min one packet per 12 T
    for _ in range(14):
        now = flow.round(link.step(9000, 0.01), timeout_s=13e-9 * T_NS)
    expect(f"seed {seed}: mode, W", (flow.cc(), now["W"]), ("hpcc", W_INIT))


def test_seeds():
    """Random mixtures of three kinds of lies; six mixtures on each connection."""
    flow = Flow()
    # each repent() takes real time
    seeds = 12 if watched() else 300 if virtual_time() else 60
    for seed in range(seeds):
        tell_lies(flow, seed)
        if seed % 6 < 5:
            continue
        repent(flow, seed)
        flow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        flow.sock.close()
        flow.read_all()
        flow.connect(port=7001 + seed)
        flow.sock.setblocking(False)
    moved = flow.ns.counters()
    for name in "malformed_ignored", "bad_hop_ignored", "ts_back_ignored", "tx_excess_ignored", "path_changes":
        expect_in(name, moved[name], seeds // 12, MOST)


# ---- lies about T: a peer determines how long the handshake takes

def first_flight(peer):
    """Return how many segments the kernel sends before the first ACK."""
    peer.sock.setblocking(False)
    peer.sock.setsockopt(socket.SOL_SOCKET, 32, 1 << 23)        # SO_SNDBUFFORCE
    peer.sock.send(bytes(1 << 21))
    return len(data_segments(peer.read_all(max(0.002, peer.rtt_s / 2))))


OFFERED = syn_option(caps=CAP_TELEMETRY | CAP_QUIET | CAP_WINDOW)


def connected(peer, delay_s):
    """Let the kernel connect with a late SYN-ACK. Return the number of segments of its first window."""
    peer.rtt_s = delay_s
    peer.start_connect()
    time.sleep(delay_s)
    peer.answer(b"" if isinstance(peer, LdcpFlow) else OFFERED)
    return first_flight(peer)


def accepted(peer, delay_s):
    """Let the kernel accept with a late last ACK. Return the number of segments of its first window."""
    peer.rtt_s = delay_s
    peer.listen()
    peer.start_accept(OFFERED)
    time.sleep(delay_s)
    peer.accepted()
    return first_flight(peer)


def test_late_handshake():
    """If the handshake takes longer than in a data center, a flow starts with TCP's first window, or the route's."""
    need_virtual_time()
    line_rate = 5000 * 100 // 8 // 1448         # 5 Gbit/s, 100 us
    for delay_s, how, want in ((0.9, {}, 10), (0.0003, {}, 10), (0.0001, {}, line_rate),
                               (0.9, {"start_rtt_ns": 10**9}, line_rate), (0.9, {"base_rtt_ns": 100000}, line_rate),
                               (0.0001, {"start_rtt_ns": 50000}, 10)):
        how = {"base_rtt_ns": 0, "host_mbps": 5000} | how
        bounds = (want, want) if want == 10 else (want * 0.9, 10000)
        for version, where, connect in (4, 0, connected), (6, 1, connected), (4, 1, accepted), (6, 0, accepted):
            got = connect(Peer(version, ecn=connect == connected, where=where, **how), delay_s)
            expect_in(f"{connect.__name__}, {delay_s} s, {how}, where {where}: segments", got, *bounds)
        got = connected(LdcpFlow(ldcp={"fast_start": 1, "iw": 0} | how), delay_s)
        expect_in(f"ldcp, {delay_s} s, {how}: segments", got, *bounds)
    expect("segments with the window of the route", connected(Peer(initcwnd=3, base_rtt_ns=0), 0.9), 3)


def test_late_handshake_then_honest():
    """T follows shorter round trips; W stays within the limit of slow start before and after."""
    need_virtual_time()
    peer = Peer(base_rtt_ns=0, host_mbps=10000)
    peer.start_connect()
    time.sleep(0.9)
    peer.answer()
    flow = peer.flow()
    # The MSS leaves space for options.
    expect("W, T", (-(-flow["W"] // 1448), flow["T_ns"] > 800000000), (10, True))
    peer.sock.send(bytes(10000))
    peer.take()
    time.sleep(0.0005)
    peer.send()
    flow = peer.flow()
    expect_in("T", flow["T_ns"], 500000, 1000000)
    expect_in("W", flow["W"], 10000, 11 * 1460)
    link = Link()
    for _ in range(4):
        peer.send(option(ECHO, [link.step(9000, 0.1).raw()], SCALE, 1))
        expect_in("W of an idle link", peer.flow()["W"], 10000, 11 * 1460)


main(modules=["sch_hpcc", "tcp_ldcp"])
