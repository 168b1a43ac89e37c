#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Receivers that lie in what they echo: W stays within its bounds, data arrive,
the counters tell, and what was a lie is forgotten.
"""

import os
import random
import socket
import struct
import sys
import time

from box import BoxPath, expect_half, send_until
from hpcc_net import (ECHO, Telemetry, expect, expect_in, get_cc, main, need_virtual_time, option,
                      record, virtual_time)
from hpcc_peer import SCALE, T_NS, W_INIT, Flow, Link, qlen_code
from path import MBPS, goodput_mbps

NBYTES = 600000
COUNTER = 1 << 20       # where ts and tx wrap
W_MIN = W_INIT // 1024
MOST = 100000


def watched():
    """Does the kernel watch itself? That takes 20 times as long."""
    return os.path.exists("/sys/kernel/debug/kmemleak")


# ---- lies: functions that change records, or return bytes to stand in for them

def each(**values):
    """Replace what each record says by a value, or by what a function of it says."""
    def told(records):
        for rec in records:
            for name, value in values.items():
                rec[name] = value(rec[name]) if callable(value) else value
    return told


def counting(step):
    """A counter that goes its own way."""
    now = [0]

    def count(_value):
        now[0] = (now[0] + step) % COUNTER
        return now[0]
    return count


def random_field(bits, rng=random.Random(3)):
    """Anything."""
    return lambda _value: rng.getrandbits(bits)


def replay(pick):
    """What was said once before: pick(n) says which."""
    past = []

    def told(records):
        past.append([dict(rec) for rec in records])
        records[:] = [dict(rec) for rec in past[pick(len(past))]]
    return told


def raw(records):
    """The bytes of records."""
    return b"".join(record(rec["hop"], rec["ts"], rec["tx"], rec["qlen"], rec["tag"])
                    for rec in records)


def full(qlen, times=1):
    """The link sends without a pause, or faster, and has a queue, as time passes."""
    passed, last = [0], [None]

    def told(records):
        for rec in records:
            passed[0] += 0 if last[0] is None else (rec["ts"] - last[0]) % COUNTER
            last[0] = rec["ts"]
            rec["tx"] = passed[0] * times % COUNTER
            rec["qlen"] = qlen
    return told


class Liar:
    """Stands before b and tells a instead what lie() makes of b's echoes."""

    def __init__(self, lie):
        self.lie = lie

    def __call__(self, packet):
        if not packet.to_b and not packet.syn:
            packet.each(self.echo)
        return [packet]

    def echo(self, opt):
        """An echo with other records."""
        said = Telemetry(opt)
        records = [rec for rec in said.records if rec["hop"]]
        if said.type != ECHO or not records:
            return opt
        lied = self.lie(records)
        if lied is None:
            lied = raw(records)
        return opt[:4] + lied.ljust(len(opt), b"\0")[:len(opt) - 4]


def lied_to(name, lie, version=4, nbytes=NBYTES):
    """A path to such a receiver. Return goodput, path and client."""
    path = BoxPath(version, change=Liar(lie), host_mbps=2 * MBPS)
    client, path.server = path.connect()
    flows = []
    goodput = goodput_mbps(client, path.server, nbytes, lambda: flows.append(path.a.flow(client)))
    for flow in flows:
        w_init = 2 * MBPS * flow["T_ns"] // 8000
        for what in "W", "Wc":
            expect_in(f"{name}: {what}", flow[what], w_init // 1024, w_init)
    for ns in path.hosts:
        expect("InCsumErrors", ns.snmp("InCsumErrors"), 0)
    return goodput, path, client


# Lies that contradict themselves or tell nothing: name, lie, counter that tells
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
    ("hops that are none", each(hop=9), "bad_hop_ignored"),
    # the next two try to gain: W is at W_init, the queue is where it overflows
    ("no queue, ever", each(qlen=0), "agreed"),
    ("no load, ever", each(qlen=0, tx=5), "agreed"),
)


def test_empty_lies():
    for number, (name, lie, counter) in enumerate(EMPTY):
        goodput, path, client = lied_to(name, lie, 4 + number % 2 * 2)
        expect_half(name, path.version, NBYTES, goodput)
        send_until(lambda: path.a.counters()[counter], client, path.server, NBYTES // 4)
        expect_in(f"{name}: {counter}", path.a.counters()[counter], 1, MOST)


def count_rounds(flow, link, step, until, most=1000):
    """Round trips until the socket runs this."""
    for number in range(most):
        if flow.cc() == until:
            return number
        flow.round(step(link))
    raise AssertionError(f"not {until} after {most} round trips: {flow.flow()}")


# Lies that agree with each other, and say that the link is loaded; the sender's clock
# says that it is not, or a link cannot do what they say it does. Many bytes: it takes
# some round trips, at W_min and then at a segment each, until that is certain, which
# is the last column: others leave their sender more than half.
LOADED = (
    ("a queue, ever", each(qlen=qlen_code(6000)), 1),
    ("half a queue, ever", each(qlen=qlen_code(3000)), 0),
    ("longest queue", each(qlen=0xfff), 1),
    ("longest queue on a full link", full(0xfff), 1),
    ("queues at random", each(qlen=random_field(12)), 1),
    ("txBytes fast", each(tx=counting(5000)), 1),
    ("txBytes twice as fast as B", full(0, 2), 1),
    ("txBytes at random", each(tx=random_field(20)), 0),
    ("txBytes stand still", each(tx=5), 0),
)
DOUBTED = 4000000 if virtual_time() else NBYTES // 10


def test_lies_of_load():
    """Half of cubic's speed, from the beginning and when the lies end."""
    for number, (name, lie, certain) in enumerate(LOADED[::3 if watched() else 1]):
        goodput, path, client = lied_to(name, lie, 4 + number % 2 * 2, DOUBTED)
        expect_half(name, path.version, NBYTES, goodput)
        if virtual_time():
            expect_in(f"{name}: implausible", path.a.counters()["implausible"], certain,
                      3 * certain)
        path.change_packet = lambda packet: [packet]
        goodput_mbps(client, path.server, NBYTES // 4)
        expect_half(f"{name} no more", path.version, NBYTES,
                    goodput_mbps(client, path.server, NBYTES))


# Others may well fill a link, and nothing of it can be seen. A receiver can slow its
# sender down as well by a window or by late ACKs.
FULL = (
    ("a full link", full(0)),
    ("a full link and a queue of T/2, ever", full(qlen_code(3000))),
)


def test_full_link():
    """Believed: W is what the law makes of it, and data arrive; full speed at the end."""
    for name, lie in FULL:
        goodput, path, client = lied_to(name, lie, nbytes=NBYTES // 4)
        print(f"# {name}: {goodput:.0f} Mbit/s")
        expect("mode", (get_cc(client), path.a.counters()["implausible"]), ("hpcc", 0))
        path.change_packet = lambda packet: [packet]
        goodput_mbps(client, path.server, NBYTES // 4)
        expect_half(f"{name} no more", path.version, NBYTES,
                    goodput_mbps(client, path.server, NBYTES))


def test_trust_comes_back():
    """8 round trips that cannot be true; 64 that can, twice as many the next time."""
    flow = Flow()
    link = Link()

    def lie(link):
        """A long queue, on a link that is idle."""
        return link.step(9000, 0.1, 10.0)

    def truth(link):
        return link.step(9000, 0.5)

    flow.window = 100
    slack = 4 if virtual_time() else 500
    for turn in range(3 if virtual_time() else 1):
        expect_in("rounds of lies", count_rounds(flow, link, lie, "hpcc-classic"), 8, 8 + slack)
        expect("implausible", flow.ns.counters()["implausible"], turn + 1)
        for _ in range(5):
            flow.round(lie(link))
        back = count_rounds(flow, link, truth, "hpcc")
        expect_in("rounds of truth", back, 64 << turn, (64 << turn) + slack)
        expect("returns", flow.ns.counters()["returns"], turn + 1)
        expect("mode", flow.flow()["mode"], "telemetry")


def test_doubt_keeps_a_segment():
    """From the first round that cannot be true W stays at a segment or more."""
    need_virtual_time()
    flow = Flow()
    link = Link()
    seen = [flow.round(link.step(9000, 0.1, 60.0))["W"] for _ in range(8)]
    expect_in("W at first", min(seen[:4]), W_MIN, 2 * W_MIN)
    expect_in("W in doubt", seen[-1], 1400, 3000)


def test_same_record_for_long():
    """A record that comes again and again tells nothing, even when the baseline that
    it was is void by its age: round trips take far longer than T.
    """
    for change in {}, {"tx": 9}:
        flow = Flow()
        link = Link()
        for _ in range(16):
            flow.run()
            time.sleep(20e-9 * T_NS)
            flow.echo(link)
            link.tx += change.get("tx", 0)
        expect("mode, fallbacks", (flow.cc(), flow.ns.counters()["fallbacks"]), ("hpcc-classic", 1))


# ---- seeds

class Lies:
    """Some ACKs' worth of everything that a liar can think of."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.link = Link()
        self.past = [option(ECHO, [self.link.raw()], SCALE, 1)]
        self.kinds = self.rng.sample((self.honest, self.zeros, self.noise, self.fields, self.again,
                                      self.huge, self.back, self.head, self.hops), 3)

    def honest(self):
        self.link.step(self.rng.randrange(1, 20000), self.rng.random(), self.rng.random())
        return option(ECHO, [self.link.raw()], SCALE, 1)

    def zeros(self):
        value = self.rng.choice((b"\0", b"\xff"))
        return option(ECHO, [value * 8] * self.rng.randrange(1, 4), SCALE, self.rng.randrange(16))

    def noise(self):
        return option(ECHO, [self.rng.randbytes(8) for _ in range(self.rng.randrange(4))], SCALE,
                      self.rng.randrange(16))

    def fields(self):
        rng = self.rng
        return option(ECHO, [record(1, rng.getrandbits(20), rng.getrandbits(20),
                                    rng.getrandbits(12))], SCALE, 1)

    def again(self):
        return self.rng.choice(self.past)

    def huge(self):
        self.link.step(self.rng.randrange(1, 20000), 4 * self.rng.random())
        self.link.code = self.rng.choice((0, 0xfff))
        return option(ECHO, [self.link.raw()], SCALE, 1)

    def back(self):
        self.link.ts -= self.rng.randrange(20000)
        self.link.tx -= self.rng.randrange(20000)
        return option(ECHO, [self.link.raw()], SCALE, 1)

    def head(self):
        opt = bytearray(self.rng.choice(self.past))
        opt[self.rng.randrange(1, 4)] = self.rng.getrandbits(8)
        return bytes(opt)

    def hops(self):
        rng = self.rng
        return option(ECHO, [Link(hop, ts=rng.getrandbits(20), tx=rng.getrandbits(20)).raw()
                             for hop in rng.sample(range(1, 16), 3)], SCALE, 15)

    def next(self):
        """An option."""
        opt = self.rng.choice(self.kinds)()
        self.past.append(opt)
        return opt


def tell_lies(flow, seed):
    """Some round trips full of lies."""
    lies = Lies(seed)
    for _ in range(12):
        flow.run(1e-5)
        flow.send(lies.next())
        now = flow.flow()
        for name in "W", "Wc":
            expect_in(f"seed {seed}: {name}", now[name], W_MIN, W_INIT)
        if now["mode"] == "telemetry":
            expect_in(f"seed {seed}: R", now["R"], 1, W_INIT * 10 ** 9 // T_NS + 1)
        expect_in(f"seed {seed}: hops", now["hops"], 0, 15)


def repent(flow, seed):
    """The truth about an idle link: lies are forgotten."""
    # baselines are good for 64 T
    time.sleep(64e-9 * T_NS)
    link = Link(tag=77)
    flow.window = 100
    count_rounds(flow, link, lambda link: link.step(9000, 0.01), "hpcc")
    flow.window = 65535
    # a multiplicative increase each six round trips; a packet each 12 T at W_min
    for _ in range(14):
        now = flow.round(link.step(9000, 0.01), timeout_s=13e-9 * T_NS)
    expect(f"seed {seed}: mode, W", (flow.cc(), now["W"]), ("hpcc", W_INIT))


def test_seeds():
    """Three kinds of lies each, in any mix; six liars on one connection."""
    flow = Flow()
    # real time passes in each repent()
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
    for name in ("malformed_ignored", "bad_hop_ignored", "ts_back_ignored", "tx_excess_ignored",
                 "path_changes"):
        expect_in(name, moved[name], seeds // 12, MOST)


if __name__ == "__main__":
    main(sys.modules[__name__])
