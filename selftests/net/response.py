#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/switch_response.c: how a sender, and TCP without hpcc, react to a switch's direct responses."""

import socket

from lib.held import HeldRead
from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main, need_virtual_time
from lib.net import expect_counters
from lib.packet import (ACK, ANSWERED, ECHO, FIN, FORWARD, IDENTIFY, IDENTIFY_ECHO, PSH, REPORT, RESPONSE,
                        RST, SYN, URG, option, record, syn_option)
from lib.peer import (ETA, SCALE, T_UNITS, W_INIT, Flow, Link, Peer, near, qlen_code, qlen_value, settle)

MSS = 1448 - 28         # with space for timestamps and three records


def response(queue_T=3, hop=1, hops=None, scale=SCALE, nr=1, kind=RESPONSE):
    """Return an option that reports a queue of this many T."""
    one = record(hop, 77, 88, qlen_code(round(queue_T * T_UNITS)))
    return option(kind, [one] * nr, scale, hop if hops is None else hops)


def u_of(queue_T):
    return 1 + qlen_value(qlen_code(round(queue_T * T_UNITS))) / T_UNITS


class Sending(Flow):
    """A flow with a window in flight, whose first segment is not acknowledged."""

    def __init__(self, **how):
        super().__init__(**how)
        self.first = self.acked
        self.run()
        self.acked, self.end = self.first, self.acked
        self.before = self.ns.counters()

    def respond(self, options=None, data=None, seq=None, flags=0, payload=b"", **how):
        """Send a switch's response to the data at a sequence number."""
        self.raw(flags, self.seq if seq is None else seq, self.first if data is None else data,
                 response() if options is None else options, payload, **how)

    def next(self, **how):
        """Acknowledge a segment, so that the kernel may send. Return the flow."""
        self.first += MSS
        self.acked = self.first
        self.send(**how)
        return self.flow()

    def moved(self):
        """Return the counters that changed since the last call, except counters of options that the kernel sends."""
        before, self.before = self.before, self.ns.counters()
        return {name: value for name, value in (self.before - before).items()
                if name not in ("forward_sent", "identify_sent")}

    def give(self, nbytes):
        """Send data, which the kernel acknowledges."""
        self.send(payload=b"x" * nbytes)
        self.run()
        self.acked = self.first
        self.moved()
        return self


def test_W_follows():
    """W becomes Wc eta / (1 + qlen/T) before any ACK arrives; Wc does not change."""
    for version in 4, 6:
        for queue_T in 0.5, 3, 40:
            flow = Sending(version=version)
            expect("W", flow.flow()["W"], W_INIT)
            flow.respond(response(queue_T))
            got = flow.next()
            expect("counters", flow.moved(), {"response_received": 1})
            near("W", got["W"], W_INIT * ETA / u_of(queue_T))
            near("U", got["U_permille"], 1000 * u_of(queue_T))
            expect("Wc, hops", (got["Wc"], got["hops"]), (W_INIT, 0))
            expect_in("R T / W", flow.rate() * got["T_ns"] / 1e9 / got["W"], 0.98, 1.02)


def test_within_the_first_round_trip():
    """After a response the rest of the first window is not sent."""
    need_virtual_time()
    flow = Flow()
    first = flow.acked
    for _ in range(20):
        flow.take()
    flow.raw(0, flow.seq, first, response(3))
    flow.run()
    sent = (flow.acked - first) / W_INIT
    expect("W", flow.flow()["W"] < W_INIT / 4, True)
    expect_in("sent part of W_init", sent, 20 * MSS / W_INIT, 26 * MSS / W_INIT)


def test_ends_with_the_round_trip():
    """Wc is divided once, by the U from the response and the ACKs."""
    flow = Sending()
    flow.respond(response(3))
    link = Link()
    flow.acked = flow.end
    flow.echo(link.step(9000, 1.0, 3))
    flow.run()
    flow.echo(link.step(200, 1.0, 3))
    near("Wc", flow.flow()["Wc"], W_INIT * ETA / 4, 0.05)
    flow.run()
    # These data left before Wc was divided: a response to them is too old.
    before = flow.flow()
    flow.before = flow.ns.counters()
    flow.respond(response(9), data=flow.end - MSS)
    flow.run()
    expect_in("W", flow.flow()["W"], before["W"], before["W"] * 1.05)
    expect("counters", flow.moved(), {"window_ignored": 1})


def test_never_raises_W():
    flow = Flow()
    low = settle(flow, Link(), W_INIT // 8)["W"]
    flow.run()
    before = flow.flow()
    flow.raw(0, flow.seq, flow.acked, response(0))
    flow.send()
    flow.run()
    expect_in("W", flow.flow()["W"], 1, max(before["W"], low))
    expect("response_ignored", flow.ns.counters()["response_ignored"], 1)


def test_W_min():
    flow = Sending()
    flow.respond(option(RESPONSE, [record(1, 0, 0, 0xfff)], SCALE, 1))
    near("W", flow.next()["W"], W_INIT / 1024)


def test_repeated():
    """A repeated response, and another response whose queue is not longer, change nothing."""
    flow = Sending()
    flow.respond(response(3), data=flow.first + 2 * MSS)
    window = flow.next()["W"]
    flow.moved()
    for _ in range(3):
        flow.respond(response(3), data=flow.first + MSS)
        expect("counters", flow.moved(), {"response_received": 1, "response_ignored": 1})
    expect("W", flow.next()["W"], window)
    flow.respond(response(2), data=flow.first)
    expect("counters of an older response", flow.moved(), {"response_received": 1, "response_ignored": 1})
    # A newer response has a shorter queue: W already reflects a longer queue.
    flow.respond(response(2), data=flow.first + 3 * MSS)
    expect("W", flow.next()["W"], window)
    expect("counters of a newer response", flow.moved(), {"response_received": 1, "response_ignored": 1})
    flow.respond(response(5), data=flow.first + MSS)
    near("W after a longer queue", flow.next()["W"], W_INIT * ETA / u_of(5))


def held():
    """Return a flow whose socket a reader owns until the second value's release()."""
    flow = Sending().give(4)
    return flow, HeldRead(flow.sock)


def test_owned():
    """A response that arrives while a process owns the socket counts when the process releases the socket."""
    flow, read = held()
    flow.respond(response(3), data=flow.first + MSS)
    expect("W while the socket is owned", flow.flow()["W"], W_INIT)
    read.release()
    near("W", flow.next()["W"], W_INIT * ETA / u_of(3))
    expect("counters", flow.moved(), {"response_received": 1})


def test_late():
    """A pending response is ignored if an ACK acknowledges the data that it refers to."""
    flow, read = held()
    flow.respond(response(3), data=flow.first + MSS)
    flow.first += MSS
    flow.next()
    read.release()
    flow.next()
    expect("counters", flow.moved(), {"response_received": 1, "response_ignored": 1})
    expect("W", flow.flow()["W"], W_INIT)


def ignored(flow, what, counter, *args, **how):
    flow.moved()
    flow.respond(*args, **how)
    expect(f"{what}: counters", flow.moved(), {counter: 1})
    expect(f"{what}: W", flow.next()["W"], W_INIT)


def test_outside_the_window():
    """A response counts only if its data are in flight, and if its ACK number is recent."""
    for version in 4, 6:
        flow = Sending(version=version)
        room = flow.end - flow.first
        for what, seq, data in (("acknowledged", 0, -1), ("half a turn", 0, 1 << 31), ("not sent", 0, room + 1 + MSS),
                                ("far beyond", 0, 1 << 30), ("old ACK number", -1, 0), ("far behind", -(1 << 20), 0),
                                ("far ahead", 1 << 25, 0), ("half a turn", 1 << 31, 0)):
            if what == "acknowledged":
                flow.next()
            ignored(flow, what, "window_ignored", seq=flow.seq + seq, data=flow.first + data)


def test_at_the_edges():
    """A response counts for the first and the last data in flight, and with an older ACK number."""
    for at in 0, -1:
        flow = Sending()
        flow.next()
        flow.respond(data=flow.end if at else flow.first)
        expect("counters", flow.moved(), {"response_received": 1})
    flow = Sending().give(1000)
    flow.respond(seq=flow.seq - 1000)
    expect("counters with an older ACK number", flow.moved(), {"response_received": 1})
    flow = Sending().give(1000)
    ignored(flow, "an even older ACK number", "window_ignored", seq=flow.seq - 1002)


def test_checksum():
    flow = Sending()
    ignored(flow, "checksum", "checksum_ignored", bad_csum=True)
    expect("InCsumErrors", flow.ns.snmp("InCsumErrors"), 1)


def test_from_afar():
    """A response is ignored if its TTL or hop limit is below IP_MINTTL or IPV6_MINHOPCOUNT."""
    for version, how in (4, (socket.IPPROTO_IP, 21)), (6, (socket.IPPROTO_IPV6, 73)):
        flow = Sending(version=version)
        flow.sock.setsockopt(*how, 255)
        flow.moved()
        flow.respond()
        expect("counters", flow.moved(), {"window_ignored": 1})
        flow.sock.setsockopt(*how, 64)
        flow.respond()
        expect("counters", flow.moved(), {"response_received": 1})


def test_malformed():
    flow = Sending()
    one = record(1, 5, 5, 0xfff)
    for kind in FORWARD, ECHO, IDENTIFY, IDENTIFY_ECHO, REPORT, ANSWERED, 0:
        ignored(flow, f"type {kind}", "malformed_ignored", response(kind=kind))
    for scale in set(range(32)) - {SCALE}:
        ignored(flow, f"scale {scale}", "malformed_ignored", response(scale=scale))
    for what, options in (("no record", option(RESPONSE, [], SCALE, 1)),
                          ("two records", option(RESPONSE, [one, record(2, 5, 5, 9)], SCALE, 2)),
                          ("two options", response() + response()),
                          ("with an echo", option(ECHO, [one], SCALE) + response()),
                          ("a response, then a request", response() + option(FORWARD, [bytes(8)], SCALE, 0)),
                          ("another length", b"\xfd\x0b" + response()[2:11] + b"\1"),
                          ("another kind", b"\xfe" + response()[1:]),
                          ("options that end beyond", response() + b"\x08\x20\0\0")):
        ignored(flow, what, "malformed_ignored", options)
    for hop, hops in (0, 1), (1, 2), (2, 1), (15, 0):
        ignored(flow, f"hop {hop} of {hops}", "bad_hop_ignored", response(hop=hop, hops=hops))
    ignored(flow, "with data", "malformed_ignored", payload=b"data")


def test_with_flags():
    """A response has no flags. With the ACK flag its type is invalid; with other flags the numbers of the segment
    are wrong.
    """
    flow = Sending()
    ignored(flow, "ACK", "malformed_ignored", flags=ACK)
    for flags in PSH, URG, FIN, PSH | FIN:
        ignored(flow, f"flags {flags}", "window_ignored", flags=flags)
    flow.moved()
    for flags in SYN, RST:
        flow.respond(flags=flags, seq=flow.seq - 5000)
        expect("W", flow.next()["W"], W_INIT)
    expect("counters", flow.moved(), {})


def test_not_agreed():
    """A response is ignored on a connection that did not agree, and under another congestion control."""
    for cc, ours in ("hpcc", b""), ("cubic", syn_option()):
        peer = Peer().connected(ours, cc=cc)
        peer.sock.send(bytes(3000))
        first = peer.acked
        peer.take()
        peer.read_all(0.01)
        peer.raw(0, peer.seq, first, response())
        expect_counters(peer.ns, unagreed_ignored=1, response_received=0)
        expect("answer", [seg for seg in peer.read_all(0.01) if not seg.payload], [])


def test_while_classic():
    """A response in classic mode does not change W, then or after telemetry returns."""
    flow = Sending()
    for _ in range(40):
        flow.run()
        flow.send()
        if flow.cc() != "hpcc":
            break
    expect("cc", flow.cc(), "hpcc-classic")
    flow.run()
    window = flow.flow()["W"]
    flow.moved()
    flow.respond(data=flow.acked - MSS)
    expect("counters", flow.moved(), {"response_received": 1, "response_ignored": 1})
    flow.send()
    flow.run()
    expect_in("W", flow.flow()["W"], window, W_INIT)


def answers(peer, data):
    """Send a response. Return the segments that the kernel sends in reply."""
    peer.read_all(0.01)
    peer.raw(0, peer.seq, data, response())
    return [(seg.flags, seg.payload) for seg in peer.read_all(0.05 if virtual_time() else 0.2)]


def test_no_answer():
    """Neither an ACK nor a RST replies to a response, in any state of a connection and from a closed port."""
    for version in 4, 6:
        for cc in "hpcc", "cubic":
            peer = Peer(version, cc=cc).connected(syn_option() if cc == "hpcc" else b"")
            peer.sock.send(b"x" * 100)
            first = peer.acked
            peer.take()
            expect(f"{cc}, data on their way", answers(peer, first), [])
            peer.send()
            expect(f"{cc}, idle", answers(peer, first), [])
            expect(f"{cc}, outside", answers(peer, first + 5000000), [])
            peer.sock.shutdown(socket.SHUT_WR)
            peer.acked = peer.read(0.1).seq + 1
            expect(f"{cc}, FIN_WAIT1", answers(peer, first), [])
            peer.send()
            expect(f"{cc}, FIN_WAIT2", answers(peer, first), [])
            peer.send(flags=FIN | ACK)
            peer.seq += 1
            peer.sock.close()
            expect(f"{cc}, TIME_WAIT", answers(peer, first), [])
            peer.seq += 5000
            expect(f"{cc}, TIME_WAIT, outside", answers(peer, first), [])
            peer.seq -= 5000
            lport, peer.lport = peer.lport, 4
            before = peer.ns.counters()
            expect(f"{cc}, closed port", answers(peer, first), [])
            expect(f"{cc}, counters", dict(peer.ns.counters() - before), {"response_ignored": 1})
            peer.raw(0, peer.seq, first, option(FORWARD, [bytes(8)], SCALE))
            expect(f"{cc}, closed port, another option", [seg.flags for seg in peer.read_all(0.01)], [RST | ACK])
            peer.listen(5000)
            expect(f"{cc}, listener", answers(peer, first), [])
            peer.lport = lport


def test_while_it_opens():
    """A socket that has no flow yet does not reply to a response, and the handshake continues."""
    for version in 4, 6:
        peer = Peer(version)
        peer.start_connect()
        expect("SYN_SENT", answers(peer, peer.acked), [])
        expect("SYN_SENT, our SYN", answers(peer, peer.acked - 1), [])
        peer.answer()
        expect("congestion control", peer.cc(), "hpcc")
        peer = Peer(version).listening()
        peer.start_accept()
        expect("SYN_RECV", answers(peer, peer.acked), [])
        peer.accepted()
        expect("congestion control", peer.cc(), "hpcc")


def test_while_it_closes():
    """The peer has sent its FIN: a response to data in flight still counts."""
    for version in 4, 6:
        flow = Sending(version=version)
        flow.send(flags=FIN | ACK)
        flow.seq += 1
        flow.run()
        flow.acked = flow.first
        flow.moved()
        expect("CLOSE_WAIT", [flags for flags, payload in answers(flow, flow.first + MSS) if not payload], [])
        expect("counters", flow.moved(), {"response_received": 1})
        near("W", flow.flow()["W"], W_INIT * ETA / u_of(3))
        flow.sock.close()
        expect("LAST_ACK", [flags for flags, payload in answers(flow, flow.first + 2 * MSS) if not payload], [])
        expect("counters", flow.moved()["response_received"], 1)


def test_two_way():
    """Responses count although the peer also sends data, so that the ACK numbers of responses are old."""
    flow = Sending()
    taken = 0
    for turn in range(20):
        old = flow.seq
        flow.send(payload=b"x" * 500)
        flow.run(0)
        flow.acked = flow.first
        flow.moved()
        flow.respond(response(0.1 + turn / 10), seq=old, data=flow.first + turn)
        taken += flow.moved().get("response_received", 0)
    expect("response_received", taken, 20)


main()
