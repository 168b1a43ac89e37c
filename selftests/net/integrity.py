#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/integrity.c: keys, agreement on signed feedback, tags that count, and tags that do not."""

import errno
import random
import struct
import time

from lib.genl import Refused, as_nobody
from lib.kernel import load, unload
from lib.ktap import defer, expect, expect_in, main, need_virtual_time
from lib.net import Netns, Pair, expect_counters, loaded_again
from lib.packet import (ACK, CAP_PROBES, CAP_QUIET, CAP_REPORT, CAP_TELEMETRY, ECHO, FORWARD, IDENTIFY, KIND, REPORT, RESPONSE,
                        identity, option, record, syn_option)
from lib.path import MBPS, Path, carrier_path
from lib.peer import SCALE, Flow, Link, Peer
from lib.sign import CAP_SIGNED, TAG_LEN, connection_key, entry, is_feedback, set_keys, signed, tag
from lib.tcp import pattern, set_cc, transfer

OLD, NEW, WRONG = (bytes([first]) + bytes(range(15)) for first in (1, 2, 3))
CAPS = CAP_TELEMETRY | CAP_QUIET | CAP_SIGNED
TAGS = ("unsigned_ignored", "wrong_tag_ignored", "replayed_ignored")


def get_keys(ns):
    """Return PREFIX/LEN of each entry, and its flags."""
    return [(f"{one['prefix']}/{one['len']}", *(name for name in ("has-accept", "require") if name in one))
            for part in ns.hpcc().dump("key-get") for one in part["key"]]


def tags(ns, before=None):
    """Return the counters of ignored feedback that are not 0, or that changed."""
    now = ns.counters()
    return {name: now[name] - (before or {}).get(name, 0) for name in TAGS if now[name] != (before or {}).get(name, 0)}


def state(ns, **which):
    """Return (mode, signed, reason) of the only flow."""
    flow, = ns.dump(**which)
    return flow["mode"], "signed" in flow, flow["why"]


class Signed(Flow):
    """A flow of the kernel, the client, whose feedback this peer signs."""

    def __init__(self, keys=(OLD,), key=OLD, caps=CAPS, **how):
        Peer.__init__(self, **how)
        set_keys(self.ns, *keys)
        self.shared = key
        self.connect(syn_option(caps=caps))
        self.isns = self.seq - 1, self.syn.seq
        self.base = self.acked                  # the first byte of the kernel's data
        self.sock.setblocking(False)

    def key(self, shared=None, ours=True):
        return connection_key(shared or self.shared, *self.isns[::1 if ours else -1], active=not ours)

    def next_tsval(self):
        return self.tsval + 1 if self.timestamps else 0

    def sign(self, *options, ack=None, shared=None, **how):
        """Return feedback for the next segment, with a tag."""
        ack = self.acked if ack is None else ack
        return signed(self.key(shared), ack - self.base, self.next_tsval(), *options, **how)

    def echo(self, *links, hops=None, scale=SCALE, **how):
        what = option(ECHO, [link.raw() for link in links], scale, hops or max(link.hop for link in links))
        self.send(self.sign(what, **{name: how.pop(name) for name in ("shared", "count", "wrong") if name in how}), **how)

    def received(self):
        return self.ns.flow() and self.ns.dump()[0]["received"]

    def started(self):
        """Send data, and one echo, so that W controls the window. Return the flow's link."""
        link = Link()
        self.fill()
        self.round(link.step(9000, 0.8))
        expect("received after the first echo, ignored", (self.received(), tags(self.ns)), (1, {}))
        return link

    def check(self, seg):
        """Fail unless all feedback of a segment of the kernel has the right tag. Return the types of our options."""
        found = [raw for kind, raw in seg.walk() if kind == KIND]
        feedback = b"".join(raw for raw in found if is_feedback(raw))
        if feedback:
            tsval = struct.unpack("!I", seg.option(8)[2:6])[0] if seg.option(8) else 0
            pos = seg.ack - (self.isns[0] + 1)
            expect("tag", feedback[-TAG_LEN:], tag(self.key(ours=False), pos, tsval, feedback[:-TAG_LEN]))
            expect("last option is feedback", is_feedback(found[-1]), True)
        return [raw[2] >> 5 for raw in found]


# These tests are the first because connections of other tests would still use the module.

def test_namespace_ends():
    """A table of keys ends with its namespace, also under connections; the module unloads."""
    for _ in range(20):
        pair = Pair()
        for ns in pair.c, pair.s:
            set_keys(ns, OLD, NEW)
        listener = pair.listen()
        ends = pair.connect(listener)
        transfer((*ends, pattern(10000)))
        for end in *ends, listener:
            end.close()
        pair.c.run("sleep", "0.1")
        pair.c.delete()
        pair.s.delete()
    ns = Netns()
    set_keys(ns, OLD)
    defer(loaded_again)
    expect("unload", unload(ns, 200), True)
    ns.forget()
    load(ns)
    expect("keys", get_keys(ns), [])


def test_module_held():
    """A flow that signs holds the module."""
    path = Path(host_mbps=MBPS)
    for ns in path.hosts:
        set_keys(ns, OLD)
    ends = path.connect()
    transfer((*ends, pattern(100000)))
    expect("unload under a flow", unload(path.a, name="hpcc_integrity"), False)
    for end in ends:
        end.close()
    expect("unload", unload(path.a, 60, "hpcc_integrity"), True)
    # Keys without their module: no telemetry.
    transfer((*path.connect(5001), pattern(100000)))
    for ns in path.hosts:
        expect_counters(ns, key_required=1)
    set_keys(path.a, OLD)
    set_keys(path.b, OLD)
    transfer((*path.connect(5002), pattern(100000)))
    expect("the next key loads the module", state(path.a)[:2], ("telemetry", True))


def test_table():
    """The table has the longest prefix first. Answers contain no key. A request that is wrong changes nothing."""
    ns = Netns()
    ns.hpcc().set("key-set", key=[entry(OLD), entry(OLD, NEW, True, "10.1.0.0", 16), entry(OLD, None, True, "fd00::", 8)])
    want = [("10.1.0.0/16", "has-accept", "require"), ("0.0.0.0/0",), ("fd00::/8", "require")]
    expect("keys", get_keys(ns), want)
    for what, number, message, values in (
            ("short", errno.EINVAL, "a key has 16 bytes", entry(OLD[:15])),
            ("long", errno.EINVAL, "a key has 16 bytes", entry(OLD + b"x")),
            ("short accept", errno.EINVAL, "a key has 16 bytes", entry(OLD, b"x")),
            ("no key", errno.EINVAL, "an entry needs a key to send", {"prefix": bytes(4), "len": 0}),
            ("no prefix", errno.EINVAL, "an entry needs a prefix and its length", {"send": OLD}),
            ("bits", errno.EINVAL, "the address has bits set after the prefix", entry(OLD, None, False, "10.1.0.1", 16)),
            ("length", errno.EINVAL, "the prefix is longer than an address", entry(OLD, None, False, "10.0.0.0", 33))):
        try:
            ns.hpcc().set("key-set", key=[entry(NEW, None, False, "11.0.0.0", 8), values])
        except Refused as error:
            expect(what, (error.number, error.message), (number, message))
        else:
            raise AssertionError(f"taken: {what}")
    expect("keys after errors", get_keys(ns), want)
    for how in "set", "del":
        try:
            as_nobody(lambda how=how: ns.hpcc().set(f"key-{how}", key=[entry(OLD)]))
        except Refused as error:
            expect("other user", error.number, errno.EPERM)
        else:
            raise AssertionError("taken from another user")
    ns.hpcc().set("key-del", key=[{"prefix": bytes(4), "len": 0}])
    expect("keys after del", get_keys(ns), [want[0], want[2]])
    many = [entry(OLD, None, False, f"10.{i}.0.0", 16) for i in range(201)]
    try:
        ns.hpcc().set("key-set", replace=True, key=many)
    except Refused as error:
        expect("201 entries", error.number, errno.ENOSPC)
    ns.hpcc().set("key-set", replace=True, key=many[:200])
    expect("200 entries", len(get_keys(ns)), 200)


# ---- Agreement ----

def test_agreement():
    """Feedback is signed if both ends have a key. With `require` there is no telemetry otherwise."""
    for version in 4, 6:
        for client, server in [(c, s) for c in (None, "key", "require") for s in (None, "key", "require")]:
            pair = Pair(version)
            for ns, how in (pair.c, client), (pair.s, server):
                if how:
                    set_keys(ns, OLD, None, how == "require")
            transfer((*pair.connect(), pattern(200000)))
            both = client and server
            refused = not both and "require" in (client, server)
            if refused:
                found = [ns.counters()["key_required"] for ns in (pair.c, pair.s)]
                expect(f"{client}, {server}: key_required", found, [int(client == "require"), int(server == "require")])
                continue
            for ns in pair.c, pair.s:
                expect(f"{client}, {server}", (state(ns)[1], tags(ns)), (bool(both), {}))


def test_stranger():
    """A SYN-ACK with the bit that this end did not announce does not make it sign; other unknown bits change nothing."""
    peer = Peer()
    peer.connect(syn_option(caps=CAPS | 0xc00))
    expect("signed", state(peer.ns)[1], False)
    expect("bit of the SYN", struct.unpack("!H", peer.syn.option(KIND)[4:6])[0] & 0xe00, 0)


def test_listener():
    """The kernel as the server signs with its own role."""
    peer = Peer()
    set_keys(peer.ns, OLD)
    peer.listen()
    synack, _ = peer.accept(syn_option(caps=CAPS))
    expect("bit of the SYN-ACK", struct.unpack("!H", synack.option(KIND)[4:6])[0] & CAP_SIGNED, CAP_SIGNED)
    peer.send(option(FORWARD, [record(1, 5, 6)], SCALE), b"x")
    seg = next(seg for seg in peer.read_all(0.3) if seg.option(KIND))
    raw = seg.option(KIND)
    key = connection_key(OLD, synack.seq, peer.seq - 2, active=False)
    tsval = struct.unpack("!I", seg.option(8)[2:6])[0]
    expect("tag", raw[-TAG_LEN:], tag(key, 1, tsval, raw[:-TAG_LEN]))


# ---- What the kernel signs ----

def test_signs():
    """Echoes, identities, N and their combinations carry one tag, in the last option. Requests carry none."""
    for how in {"timestamps": True}, {"timestamps": False}:
        flow = Signed(caps=CAPS | CAP_REPORT, n_flows=0, **how)
        sizes = set()
        for ask, records in ((FORWARD, 1), (FORWARD, 2), (FORWARD, 3), (IDENTIFY, 1), (FORWARD, 3)):
            slots = [record(i, 1000 * (len(sizes) + 1) + i, 7) if ask == FORWARD else identity(i, 1, 2, 3)
                     for i in range(1, records + 1)]
            flow.send(option(ask, slots, SCALE), b"x" * 10)
            for seg in flow.read_all(0.1):
                types = flow.check(seg)
                expect("one way", types.count(ECHO) < 2 and types.count(REPORT) < 2, True)
                sizes |= {tuple(types)} if types else set()
        expect("an echo alone, an echo and N", ((ECHO,) in sizes or (ECHO, REPORT) in sizes, bool(sizes)), (True, True))
        flow.fill()
        for _ in range(4):
            flow.send(option(FORWARD, [record(1, 90000 + flow.tsval, 7)], SCALE), b"y")
            for seg in flow.run():
                sizes.add(tuple(flow.check(seg)))
        expect("a request alone, a request and an echo", {(FORWARD,), (FORWARD, ECHO)} <= sizes, True)


def test_full_header():
    """One record and the tag fit beside timestamps and one SACK block."""
    flow = Signed()
    flow.send(b"", b"z" * 100, seq=flow.seq + 100)      # a gap: ACKs carry a SACK block
    flow.read_all(0.05)
    flow.send(option(FORWARD, [record(1, 1, 1), record(2, 1, 1)], SCALE), b"z" * 100, seq=flow.seq + 200)
    seg = next(seg for seg in flow.read_all(0.1) if seg.option(KIND))
    expect("types, header, records", (flow.check(seg), seg.header, len(seg.option(KIND))), ([ECHO], 60, 16))
    # A request alone needs no tag: it fits beside three SACK blocks.
    flow = Signed(timestamps=False)
    for gap in 100, 300, 500:
        flow.send(b"", b"z" * 100, seq=flow.seq + gap)
    flow.read_all(0.05)
    flow.fill()
    seg = flow.run()[0]
    expect("types, header", (flow.check(seg), seg.header), ([FORWARD], 60))


def test_sixteen():
    """Without timestamps at most 16 tags have the same ACK number; then feedback waits for data."""
    flow = Signed(timestamps=False, caps=CAPS | CAP_PROBES)
    seen = []
    for i in range(40):
        flow.send(option(FORWARD, [record(1, 1000 + i, 1)], SCALE))
        seen += [seg for seg in flow.read_all(0.02) if seg.option(KIND)]
    expect("tags", (len(seen), [flow.check(seg) for seg in seen]), (len(seen), [[ECHO]] * len(seen)))
    expect_in("tags", len(seen), 1, 16)
    flow.send(option(FORWARD, [record(1, 5000, 1)], SCALE), b"x")
    expect("a tag after data", [flow.check(seg) for seg in flow.read_all(0.1) if seg.option(KIND)], [[ECHO]])


# ---- What counts ----

def test_believes():
    """An echo with a right tag counts. Without a tag, or with a wrong one, W does not move."""
    flow = Signed()
    link = flow.started()
    full = link.step(9000, 1.0, 3.0)
    plain = option(ECHO, [full.raw()], SCALE, 1)
    sent = flow.ns.flow()["W"], flow.received()
    for what, options, want in (
            ("no tag", plain, "unsigned_ignored"),
            ("wrong tag", flow.sign(plain, wrong=1), "wrong_tag_ignored"),
            ("other key", flow.sign(plain, shared=WRONG), "wrong_tag_ignored"),
            ("tag of the other direction", signed(flow.key(ours=False), flow.acked - flow.base, flow.tsval + 1, plain),
             "wrong_tag_ignored"),
            ("tag of another ACK number", flow.sign(plain, ack=flow.acked - 1), "wrong_tag_ignored"),
            ("tag, then an echo", flow.sign(option(REPORT, [bytes(8)], 0, 0)) + plain, "unsigned_ignored"),
            ("RESPONSE", None, "unsigned_ignored")):
        before = flow.ns.counters()
        if options is None:
            flow.raw(0, flow.seq, flow.acked, option(RESPONSE, [full.raw()], SCALE, 1))
        else:
            flow.send(options)
        expect(what, (tags(flow.ns, before), flow.ns.flow()["W"], flow.received()), ({want: 1}, *sent))
        # The options of this test were made for the first TSval.
        flow.tsval -= options is not None
    flow.tsval += 1
    flow.echo(full)
    expect("received", flow.received(), sent[1] + 1)
    expect_in("W", flow.ns.flow()["W"], 1, sent[0] - 1)


def test_replay():
    """No feedback counts twice: copies are silent, older ones are counted, also after TSval has wrapped."""
    for timestamps in True, False:
        flow = Signed(timestamps=timestamps)
        link = flow.started()
        stored = []
        for _ in range(3):
            flow.run()
            now = flow.stamp(), flow.acked
            link.step(9000, 0.7)
            tsval = flow.tsval if timestamps else 0
            options = signed(flow.key(), flow.acked - flow.base, tsval, option(ECHO, [link.raw()], SCALE, 1))
            stored.append((now[0] + options, now[1]))
            flow.raw(ACK, flow.seq, now[1], stored[-1][0])
        got = flow.received()
        flow.raw(ACK, flow.seq, stored[-1][1], stored[-1][0])
        expect("copy", (tags(flow.ns), flow.received()), ({}, got))
        for options, ack in stored[:2]:
            flow.raw(ACK, flow.seq, ack, options)
        expect("older", (tags(flow.ns), flow.received()), ({"replayed_ignored": 2}, got))
        if timestamps:
            # TSval jumps back by almost half of its range: the next data end the wait.
            flow.tsval = (flow.tsval + (1 << 31) + 5) & 0xffffffff
            flow.echo(link.step(9000, 0.7))
            expect("jump at the same ACK number", tags(flow.ns), {"replayed_ignored": 3})
            flow.run()
            flow.echo(link.step(9000, 0.7))
            expect("jump after data", (tags(flow.ns), flow.received()), ({"replayed_ignored": 3}, got + 1))


def test_wrap():
    """At one position TSval advances by less than 2^31: a stored echo does not count after TSval has wrapped."""
    flow = Signed()
    link = flow.started()
    flow.run()
    options = []

    def echo(ahead):
        """Send an echo with a TSval that is `ahead` of the first one. Return how often feedback counted."""
        now = flow.tsval
        flow.tsval = (flow.tsval + ahead) & 0xffffffff
        tsval = flow.stamp(), flow.tsval
        options.append(tsval[0] + signed(flow.key(), flow.acked - flow.base, tsval[1],
                                         option(ECHO, [link.step(9000, 0.7).raw()], SCALE, 1)))
        flow.tsval = now
        flow.raw(ACK, flow.seq, flow.acked, options[-1])
        return flow.received() - got

    got = flow.received()
    for ahead, want in (0, 1), (1 << 30, 2), ((1 << 31) - 1, 3), ((1 << 31) + 5, 3), ((1 << 31) + (1 << 30), 3):
        expect(f"ahead {ahead}", echo(ahead), want)
    for stored in options[:2]:
        flow.raw(ACK, flow.seq, flow.acked, stored)
    expect("stored, replayed", (flow.received() - got, tags(flow.ns)), (3, {"replayed_ignored": 4}))
    flow.run()
    flow.echo(link.step(9000, 0.7))
    expect("after data", flow.received() - got, 4)


def test_count():
    """With equal numbers a higher count is newer."""
    flow = Signed(timestamps=False)
    link = flow.started()
    got = flow.received()
    for count, want in (3, 1), (2, 1), (9, 2), (15, 3), (15, 3), (0, 3):
        flow.echo(link.step(9000, 0.8), count=count)
        expect(f"count {count}", flow.received() - got, want)
    expect("replayed", tags(flow.ns), {"replayed_ignored": 2})


def test_spliced():
    """Feedback of another connection with the same key is wrong."""
    flow = Signed()
    other = Signed()
    link = flow.started()
    other.started()
    before = flow.ns.counters()
    flow.send(other.sign(option(ECHO, [link.step(9000, 1.0, 3.0).raw()], SCALE, 1)))
    expect("spliced", tags(flow.ns, before), {"wrong_tag_ignored": 1})


def test_forged():
    """Random tags: none of 20,000 counts, and W does not move. The unit test tries 10^6."""
    flow = Signed()
    link = flow.started()
    before, W, got = flow.ns.counters(), flow.ns.flow()["W"], flow.received()
    rng = random.Random(1)
    plain = option(ECHO, [link.step(9000, 1.0, 3.0).raw()], SCALE, 1)
    head = bytearray(plain)
    head[1] += TAG_LEN
    for _ in range(20000):
        flow.send(bytes(head) + struct.pack("!I", rng.getrandbits(32)))
    expect("forged", (tags(flow.ns, before), flow.ns.flow()["W"], flow.received()), ({"wrong_tag_ignored": 20000}, W, got))


def test_limit():
    """After 16 wrong tags no tag counts until a second after the first of them, or until the keys change."""
    flow = Signed()
    link = flow.started()
    got = flow.received()
    for wrong, wait, want in ((15, None, 1), (1, None, 1), (0, lambda: time.sleep(1.1), 2), (17, None, 2),
                              (0, lambda: set_keys(flow.ns, OLD), 3)):
        for _ in range(wrong):
            flow.echo(link, wrong=1)
        if wait:
            wait()
        flow.run()
        flow.echo(link.step(9000, 0.8))
        expect(f"{wrong} more wrong tags: received", flow.received() - got, want)
    # Two right tags arrived while the flow verified none.
    expect("ignored", tags(flow.ns), {"wrong_tag_ignored": 33 + 2})


def test_two_keys():
    """Both keys verify, and only the first one signs."""
    flow = Signed(keys=(OLD, NEW))
    link = flow.started()
    got = flow.received()
    for shared, want in (NEW, 1), (OLD, 2), (WRONG, 2):
        flow.run()
        flow.echo(link.step(9000, 0.8), shared=shared)
        expect("received", flow.received() - got, want)
    set_keys(flow.ns, NEW)
    for shared, want in (OLD, 2), (NEW, 3):
        flow.run()
        flow.echo(link.step(9000, 0.8), shared=shared)
        expect("received after a change", flow.received() - got, want)
    flow.ns.hpcc().set("key-set", replace=True)
    flow.run()
    flow.echo(link.step(9000, 0.8), shared=NEW)
    expect("received without an entry", flow.received() - got, 4)


def test_away_and_back():
    """A socket that leaves hpcc and returns still signs, and believes nothing from before."""
    flow = Signed()
    link = flow.started()
    stored = flow.stamp() + signed(flow.key(), flow.acked - flow.base, flow.tsval, option(ECHO, [link.step(9000, 1).raw()], SCALE, 1))
    set_cc(flow.sock, "reno")
    set_cc(flow.sock, "hpcc")
    expect("signed", state(flow.ns)[1], True)
    flow.raw(ACK, flow.seq, flow.acked, stored)
    expect("stored", (tags(flow.ns), flow.received()), ({"replayed_ignored": 1}, 0))
    flow.run()
    flow.echo(link.step(9000, 0.8))
    expect("after new data", flow.received(), 1)


# ---- Between kernels ----

def test_roll_over():
    """Each step of a roll-over under traffic loses no telemetry."""
    path = Path(host_mbps=MBPS)
    for ns in path.hosts:
        set_keys(ns, OLD)
    ends = path.connect()
    for step in (OLD, NEW), (NEW, OLD), (NEW, None):
        for ns in path.hosts:
            set_keys(ns, *step)
            transfer((*ends, pattern(300000)), (*ends[::-1], pattern(300000)))
    for ns in path.hosts:
        expect("mode, signed, reason", state(ns), ("telemetry", True, "none"))
        expect("ignored", tags(ns), {})
    path.no_errors()


def test_missed_roll_over():
    """With different keys feedback is ignored, and the sender runs classic with the reason. Equal keys end that."""
    path = Path(host_mbps=MBPS)
    set_keys(path.a, OLD)
    set_keys(path.b, WRONG)
    ends = path.connect()
    transfer((*ends, pattern(2000000)))
    mode, is_signed, why = state(path.a)
    expect("mode, signed, reason", (mode in ("classic", "doubting"), is_signed, why), (True, True, "untrusted"))
    expect_in("wrong tags", tags(path.a)["wrong_tag_ignored"], 1, 100000)
    expect("believed", path.a.dump()[0]["received"], 0)
    set_keys(path.b, OLD)
    time.sleep(1)           # after 16 wrong tags, see test_limit()
    transfer((*ends, pattern(2000000)))
    expect("mode with equal keys", state(path.a)[0], "telemetry")


def test_traffic():
    """Data in both directions, TSO and GRO, several hops, probes, receiver mode: every tag is right."""
    for how in {}, {"carry": 1}, {"where": 1}, {"n_flows": 0}:
        path = Path(6, switches=3, host_mbps=MBPS, base_rtt_ns=1000000, **how)
        for ns in path.hosts:
            set_keys(ns, OLD, NEW, True)
        ends = path.connect()
        transfer((*ends, pattern(1500000)), (*ends[::-1], pattern(1500000)))
        for ns in path.hosts:
            expect(f"{how}: mode, signed, ignored", (*state(ns)[:2], tags(ns)), ("telemetry", True, {}))
        path.no_errors()


def test_long_one_way():
    """The sender's ACK number never changes if only it sends data, but its parameters count, also an hour later."""
    need_virtual_time()
    path = Path(6, switches=1, host_mbps=MBPS, where=1, start_rtt_ns=10**9)
    for ns in path.hosts:
        set_keys(ns, OLD)
    ends = path.connect()
    transfer((*ends, pattern(1000000)))
    expect("receiver mode", "receiver" in path.a.dump()[0], True)
    for delay in "15us", "10us", "5us":
        time.sleep(1200)
        path.change(1, f"hpcc rate {MBPS}mbit delay {delay}")       # a shorter T: new parameters
        for _ in range(20):
            transfer((*ends, pattern(1000000)))
            if "receiver" in path.a.dump()[0]:
                break
        expect(f"delay {delay}: receiver mode, ignored", ("receiver" in path.a.dump()[0], tags(path.b)), (True, {}))
    # Without timestamps, 16 parameters would be the last ones: the sender computes W.
    path = Path(4, switches=1, host_mbps=MBPS, where=1, start_rtt_ns=10**9)
    for ns in path.hosts:
        set_keys(ns, OLD)
        ns.sysctl("net.ipv4.tcp_timestamps", 0)
    ends = path.connect()
    transfer((*ends, pattern(1000000)))
    expect("mode, receiver mode", (state(path.a)[0], "receiver" in path.a.dump()[0]), ("telemetry", False))


def test_carriers():
    """Each carrier's receiver signs what it converts."""
    for name in "ioam", "int", "ifa", "csig":
        path = carrier_path(name)
        for ns in path.hosts:
            set_keys(ns, OLD)
        ends = path.connect()
        transfer((*ends, pattern(1000000)))
        expect(f"{name}: mode, signed, ignored", (*state(path.a)[:2], tags(path.a)), ("telemetry", True, {}))
        expect_in(f"{name}: received", path.a.counters()[f"{name}_sent"], 1, 100000)


main(modules=["sch_hpcc"])
