#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/common/pace.c: the size of bursts, the departure times of segments, and limits set by applications or devices.
"""

import itertools
import socket
import time

from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main, need_virtual_time
from lib.net import Pair, joined
from lib.packet import Sniffer, data_segments
from lib.path import Path
from lib.peer import T_NS, W_INIT, Flow, LdcpFlow, Link, Peer, settle
from lib.tcp import pattern, set_cc, tcp_info, transfer

SO_MAX_PACING_RATE = 47
MSS = LdcpFlow.MSS


def largest(sniffer, pair, ends):
    """Return the number of segments in the longest packet of a transfer."""
    sniffer.segments()
    transfer((*ends, pattern(200000)))
    return max(-(-len(seg.payload) // MSS) for seg in data_segments(sniffer.segments()))


def test_device_bound():
    """A packet keeps to the device's limit even if bursts may be longer: under ldcp, cubic, and ldcp again."""
    pair = Pair(cc=("ldcp", "ldcp"), delay="200us", ldcp={"fast_start": 0, "burst": 8})
    pair.c.ip("link set eth0 gso_max_segs 3", "route change 10.0.0.0/24 dev eth0 initcwnd 400 src 10.0.0.1")
    sniffer, ends = Sniffer(pair.c), pair.connect()
    for name in "ldcp", "cubic", "ldcp":
        set_cc(ends[0], name)
        expect(f"under {name}", largest(sniffer, pair, ends), 3)


def test_bound_is_given_back():
    """Each module removes its limit on bursts when the socket changes to another congestion control."""
    for cc, most in ("hpcc", 2), ("ldcp", 4):
        pair = Pair(cc=(cc, cc), delay="200us", burst=2, ldcp={"fast_start": 0, "burst": 4})
        pair.c.ip("route change 10.0.0.0/24 dev eth0 initcwnd 400 src 10.0.0.1")
        sniffer, ends = Sniffer(pair.c), pair.connect()
        found = {}
        for name in cc, "cubic", cc, "reno":
            set_cc(ends[0], name)
            found[name] = largest(sniffer, pair, ends)
        expect(cc, found[cc], most)
        expect_in("segments under cubic and reno", min(found["cubic"], found["reno"]), 5, 64)


def test_first_segments():
    """hpcc paces from the first segment on, and not only from the eleventh as TCP does."""
    need_virtual_time()
    flow = Flow()
    sent, at = 0, []
    while len(at) < 30:
        seg = flow.read(0.01)
        at.append((time.monotonic(), sent))
        sent += len(seg.payload)
    began = at[0][0]
    for now, before in at[4::5]:
        expect_in(f"bytes before the segment at {now - began:.6f} s", before,
                  0.7 * (now - began) * W_INIT * 1e9 / T_NS, 4 * MSS + (now - began) * W_INIT * 1e9 / T_NS)


def test_slow_handshake():
    """The large T of a slow handshake does not delay data after the first ACK. But if the kernel has sent an ACK
    meanwhile, the TSval of this ACK is the old departure time, and the data must not leave before this time.
    """
    need_virtual_time()
    for answers in False, True:
        peer = Peer(base_rtt_ns=0)
        peer.start_connect()
        time.sleep(1)
        peer.answer()
        peer.sock.send(bytes(10000))
        segments = [peer.read(1)]
        time.sleep(0.0001)
        if answers:
            peer.send(b"", b"x")
            segments += peer.read_all(0.001)
        peer.acked = segments[0].seq + len(segments[0].payload)
        peer.send()
        segments += peer.read_all(0.005)
        expect("bytes within 5 ms", sum(len(seg.payload) for seg in segments), 1420 if answers else 10000)
        segments += peer.read_all(0.1)
        expect("bytes", sum(len(seg.payload) for seg in segments), 10000)
        times = [int.from_bytes(seg.option(8)[2:6], "big") for seg in segments]
        # A TSval may be one tick before the previous one.
        expect_in("largest decrease of TSval", max(a - b for a, b in zip(times, times[1:])), -1 << 32, 1)


def test_first_segments_of_a_vrf():
    """The first segments of a VRF pass LOCAL_OUT twice, and are delayed once."""
    need_virtual_time()
    for vrf in False, True:
        pair = Pair(base_rtt_ns=1000000, host_mbps=200)
        client = pair.c.socket()
        if vrf:
            pair.c.ip("link add vrf0 type vrf table 10", "link set vrf0 up", "link set eth0 master vrf0")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"vrf0\0")
        ends = pair.connect(client=client)
        rate = tcp_info(client)["pacing_rate"]
        began = time.monotonic()
        transfer((*ends, pattern(10 * MSS)))
        expect_in(f"gaps, VRF: {vrf}", (time.monotonic() - began) * rate / MSS, 7, 11)


def test_rate_of_the_application():
    """The rate never exceeds SO_MAX_PACING_RATE: in the start, and with windows above and below one segment."""
    _, client, server = joined(Pair(cc=("ldcp", "ldcp"), delay="100us", ldcp={"iw": 20}))
    client.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 1000000)
    transfer((client, server, pattern(20 * MSS)))      # TCP does not pace the first ten segments
    began = time.monotonic()
    transfer((client, server, pattern(100000)))
    expect_in("time", time.monotonic() - began, 0.09, 0.12 if virtual_time() else 60)
    flow = LdcpFlow().busy()
    flow.below(1)
    flow.sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 100000)
    for marked in (True, False, False, False):
        flow.ack(1, marked)
        expect("a segment", len(flow.got(0.1 if virtual_time() else 0.3)), 1)
    expect_in("cw", flow.cw(), 1.2, 1.3)
    left, patience_s = time.monotonic(), 0.1 if virtual_time() else 2
    flow.ack(1)
    first = flow.read(patience_s)
    flow.acked = first.seq + MSS
    flow.send()
    second = flow.read(patience_s)
    expect("segments", (bool(first), bool(second)), (True, True))
    expect_in("gap", time.monotonic() - left, MSS / 100000 * 0.5, MSS / 100000 * 1.2 if virtual_time() else 2)


def test_rate_of_the_application_while_W_grows():
    """If the application has set the rate, the growth of W does not advance the departure time of the next segment."""
    need_virtual_time()
    flow, link = Flow(max_stage=5), Link()
    flow.round(link.step(9000, 1.0, 1.0))
    settle(flow, link, 10000)
    rate = 100000
    flow.sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
    flow.run()
    flow.round(link.step(9000, 1.0, 1.0))
    left, found = time.monotonic(), []
    for load in 0.9, 0.4, 0.9, 0.3, 0.9, 0.2, 0.9, 0.1:
        expect("a segment", flow.take(0.1) is not None, True)
        now = time.monotonic()
        found.append(now - left)
        left = now
        time.sleep(0.001)
        flow.echo(link.step(9000, load, 0.0))
    expect_in(f"shortest gap of {found}", min(found[1:]), MSS / rate * 0.95, MSS / rate * 1.05)


def test_leaving_a_small_window():
    """A delay because of W below one segment ends with hpcc, even if the application requests pacing."""
    need_virtual_time()
    for rate in None, 1 << 30, 1000000:
        flow, link = Flow(max_stage=5), Link()
        flow.round(link.step(9000, 1.0, 1.0))
        settle(flow, link, 4000)
        for _ in range(8):
            flow.take(0.1)
            flow.echo(link.step(9000, 1.0, 1.0))
        expect_in("W", flow.flow()["W"], 100, 300)
        if rate:
            flow.sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
        flow.take(0.1)
        flow.echo(link.step(9000, 1.0, 1.0))
        expect("a segment within 2 ms", flow.take(0.002), None)
        set_cc(flow.sock, "reno")
        left = time.monotonic()
        expect("a segment", flow.take(0.1) is not None, True)
        expect_in("time", time.monotonic() - left, 0, MSS / (rate or 1 << 30) + 0.0005)


def fq_path(cc, port, connections=2, **sysctls):
    """Return a path whose sender has a root fq that paces, and connections on it."""
    path = Path(switches=1, cc=(cc, cc), **sysctls)
    path.a.tc("qdisc replace dev right root fq")
    path.change(1, port)
    return path, [path.connect(5000 + i) for i in range(connections)]


def expect_order(path):
    """Fail unless fq delayed segments until their departure times, and all segments arrived in order."""
    expect("throttled", path.a.qdiscs("right")[0]["throttled"] > 0, True)
    expect("TCPOFOQueue", path.b.snmp("TcpExtTCPOFOQueue"), 0)


def set_all(ends, *names):
    for name in names:
        for client, _ in ends:
            set_cc(client, name)


def send_all(ends, nbytes, names=()):
    """Send on all connections at once, and change their congestion control during the transfer."""
    names = itertools.cycle(names)
    transfer(*((client, server, pattern(nbytes)) for client, server in ends),
             each=lambda: set_all(ends, *itertools.islice(names, 1)))


def test_fq_sorts_by_departure_time():
    """No segment overtakes another when W changes, when the socket leaves hpcc and returns, or when telemetry stops."""
    for T_us in 150, 300:
        path, ends = fq_path("hpcc", "hpcc rate 1gbit delay 20us node 1 port 2",
                             base_rtt_ns=T_us * 1000, host_mbps=1000)
        send_all(ends, 3000000)
        expect("mode", {flow["mode"] for flow in path.a.flows()}, {"telemetry"})
        expect_order(path)
        send_all(ends, 600000, ("reno", "hpcc"))
        set_all(ends, "hpcc")
        for stamp in "nostamp", "stamp tcp":
            path.change(1, f"hpcc rate 1gbit delay 20us node 1 port 2 {stamp}")
            send_all(ends, 2000000)
        expect_in("fallbacks", path.a.counters()["fallbacks"], 1, 100)
        expect_order(path)


def test_fq_sorts_by_departure_time_ldcp():
    """ldcp also keeps the departure times in order, while its windows fall below one segment and grow again."""
    path, ends = fq_path("ldcp", "hpcc rate 20mbit delay 20us marking ldcp", 8, ldcp={"base_rtt_ns": 300000})
    send_all(ends, 100000)
    send_all(ends, 100000, ("reno", "ldcp"))
    expect_in("below_one", path.a.counters("ldcp")["below_one"], 1, 100000)
    expect_order(path)


main(modules=["tcp_ldcp", "sch_hpcc"])
