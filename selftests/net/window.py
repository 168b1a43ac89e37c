#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/window.c: from W to TCP: cwnd, pacing, bursts, and space for our options."""

import itertools
import random
import socket
import sys
import time

from lib.box import BoxPath
from lib.ktap import cases, expect, expect_in, main, need_virtual_time
from lib.net import Pair, joined, no_errors
from lib.packet import ECHO, FORWARD, Sniffer, data_segments, option, ours_in, sack, sane_segments
from lib.peer import ETA, SCALE, T_NS, T_UNITS, W_AI, W_INIT, Flow, Link, measured, near, settle, timed_out
from lib.path import MBPS, Path
from lib.star import percentile
from lib.tcp import get_cc, goodput_mbps, pattern, set_cc, tcp_info, transfer

IPV6_HOPOPTS, IPV6_DSTOPTS = 54, 59


def ext_header(nbytes):
    return bytes([0, nbytes // 8 - 1, 0x1e, nbytes - 4]) + bytes(nbytes - 4)


def test_starts_at_line_rate():
    flow = Flow()
    now = flow.flow()
    expect("W, Wc, T", (now["W"], now["Wc"], now["T_ns"]), (W_INIT, W_INIT, T_NS))
    near("R", flow.rate(), W_INIT / T_NS * 1e9)
    info = tcp_info(flow.sock)
    mss = info["snd_mss"]
    # cwnd counts segments of an MSS that is not yet reduced by the space for our options
    expect_in("cwnd", info["cwnd"], W_INIT // (mss + 28), -(-W_INIT // mss))


@cases(halves_ipv4=(4,), halves_ipv6=(6,))
def halves(version):
    """With U = 1.9 at eta = 0.95 W is halved, and W_ai added."""
    flow, link = Flow(version=version), Link()
    flow.round(link.step(9000, 1.0, 0.9))
    want = W_INIT
    for _ in range(4):
        now = flow.round(link.step(9000, 1.0, 0.9))
        want = want / ((1.0 + link.u) / ETA) + W_AI
        near("W", now["W"], want)
        expect("Wc", now["Wc"], now["W"])
        near("U", now["U_permille"], 1000 * (1 + link.u))
        near("R", flow.rate(), want / T_NS * 1e9, 0.01)
        info = tcp_info(flow.sock)
        expect("cwnd", info["cwnd"], -(-now["W"] // info["snd_mss"]))
        near("pacing rate", info["pacing_rate"], now["R"])


def test_swings():
    """A peer that alternately reports "idle" and "full" on ACKs of no data cannot delay the next packet for longer than
    W_min requires. (In an earlier version each report multiplied the delay, until it exceeded 64 bits.)
    """
    flow, link = Flow(), Link()
    flow.run(0.3)
    una = flow.acked
    flow.acked = flow.syn.seq + 1       # nothing is acknowledged
    swing = (0.0, 0), (1.0, 500), (1.0, 500)
    for load in swing:
        flow.echo(link.step(9000, *load))
    flow.acked = una
    for _ in range(3):                  # ACKs of all data, without telemetry
        flow.send()
        flow.take(1)
    for load in swing * 8:
        flow.echo(link.step(9000, *load))
    began = time.monotonic()
    for _ in range(20):                 # from now on the peer reports the true state: the path is idle
        flow.echo(link.step(9000, 0.5))
        if flow.take(0.1):
            break
    expect_in("time to the next segment", time.monotonic() - began, 0, 64e-9 * T_NS)


def test_window_of_a_few_segments_returns():
    """W recovers from W_min even if W_min is so small that records are too far apart to be compared."""
    flow = Flow(host_mbps=64)           # W_init: 8,000 bytes
    link = Link()
    for _ in range(8):
        flow.round(link.step(9000, 1.0, 1000.0))
    for _ in range(60):                 # the link is idle from now on
        link.step(9000 * 8, 0.01)
        flow.round(link, timeout_s=60e-9 * T_NS)
        if flow.flow()["W"] > 7000:
            break
    expect_in("W", flow.flow()["W"], 7000, 8000)


def test_stays_within_bounds():
    """On a link that is always full W is W_min, and on a link that is always idle W is W_max."""
    flow, link = Flow(), Link()
    for _ in range(7):
        now = flow.round(link.step(9000, 1.0, 500.0))
    expect_in("W", now["W"], W_INIT >> 10, (W_INIT >> 10) + W_AI + 1)
    for _ in range(40):
        now = flow.round(link.step(9000, 0.01, 0))
    expect("W", now["W"], W_INIT)


def test_below_one_segment():
    """With W below one segment cwnd is 1, and segments leave at the rate R."""
    need_virtual_time()
    flow, link = Flow(w_ai=1), Link()
    flow.round(link.step(9000, 1.0, 50.0))
    settle(flow, link, 1000)
    info = tcp_info(flow.sock)
    expect("cwnd", info["cwnd"], 1)
    near("pacing rate", info["pacing_rate"], flow.flow()["R"], 0.13)
    flow.run(0.1)
    flow.fill()
    start = time.monotonic()
    credit = 0.0
    # W stays there because U is eta
    for _ in range(20):
        flow.echo(link.step(int(T_UNITS) + 1, ETA))
        credit += flow.rate()
        seg = flow.read(0.1)
        flow.acked = seg.seq + len(seg.payload)
        expect("a second segment at once", flow.read(0), None)
    expect("cwnd", tcp_info(flow.sock)["cwnd"], 1)
    rate = credit / 20
    expect_in("rate / R", 20 * len(seg.payload) / (time.monotonic() - start) / rate, 0.9, 1.1)


def test_gaps_differ():
    """With W below half a segment each R differs from W / T by up to 1/8; the average of R is W / T."""
    flow, link = Flow(w_ai=1), Link()
    flow.round(link.step(9000, 1.0, 50.0))
    settle(flow, link, 2000)
    for _ in range(20):
        if flow.round(link.step(9000, 1.0, 0.1))["W"] < 1400:
            break
    expect_in("W", flow.flow()["W"], 725, 1400)
    expect_in("R / (W / T)", flow.rate() / (flow.flow()["W"] / T_NS * 1e9), 0.99, 1.01)
    settle(flow, link, 500)
    ratios = []
    for _ in range(64):
        flow.round(link.step(int(T_UNITS) + 1, ETA))
        ratios.append(flow.rate() / (flow.flow()["W"] / T_NS * 1e9))
    expect_in("smallest ratio", min(ratios), 0.87, 0.95)
    expect_in("largest ratio", max(ratios), 1.05, 1.13)
    expect_in("average ratio", sum(ratios) / len(ratios), 0.95, 1.05)


class Watched:
    """A connection whose segments a sniffer records."""

    def __init__(self, version=4, delay="50us", **how):
        self.pair = Pair(version, delay=delay, **how)
        self.sniffer = Sniffer(self.pair.s)
        self.client, self.server = self.pair.connect()

    def send(self, nbytes):
        """Send data. Return their segments."""
        transfer((self.client, self.server, pattern(nbytes)))
        return data_segments([seg for seg in sane_segments(self.sniffer) if seg.dport == 5000])


def longest(data):
    return max(len(seg.payload) for seg in data)


def test_ipv4_options():
    """IP options that are set during the connection take their own space."""
    ends = Watched(offload=False)
    before = longest(ends.send(50000))
    ends.client.setsockopt(socket.IPPROTO_IP, 4, b"\1" * 20)
    data = ends.send(50000)
    expect("IP header", {seg.at for seg in data}, {40})
    expect("payload", longest(data), before - 20)
    expect("slots", {len(seg.telemetry(FORWARD).words) for seg in data}, {3})
    ends.client.setsockopt(socket.IPPROTO_IP, 4, b"")
    expect("payload", longest(ends.send(50000)), before)
    no_errors(ends.pair)


def test_ipv6_extension_headers():
    """setsockopt() removes the space that was reserved for our options: hpcc reserves it again."""
    for name in IPV6_DSTOPTS, IPV6_HOPOPTS:
        ends = Watched(6, offload=False)
        before = longest(ends.send(50000))
        ends.client.setsockopt(socket.IPPROTO_IPV6, name, ext_header(16))
        data = ends.send(200000)
        expect("headers", {seg.at for seg in data}, {56})
        expect("no_room", ends.pair.c.counters()["no_room"] > 0, True)
        last = data[len(data) // 2:]
        expect("payload", longest(last), before - 16)
        # classic requests telemetry once in T/8
        expect("slots", {len(request.words) for seg in last if (request := seg.telemetry(FORWARD))}, {3})
        ends.client.setsockopt(socket.IPPROTO_IPV6, name, b"")
        last = ends.send(200000)[-20:]
        # TCP itself does not return that space
        expect("headers", {seg.at for seg in last}, {40})
        expect("payload", longest(last), before - 16)
        no_errors(ends.pair)


def test_leaving_after_extension_headers():
    """If setsockopt() has removed the reserved space, a change from hpcc to cubic does not return the space again."""
    ends = Watched(6, offload=False)
    ends.send(50000)
    # no ACK arrives between the two calls
    ends.client.setsockopt(socket.IPPROTO_IPV6, IPV6_DSTOPTS, ext_header(16))
    set_cc(ends.client, "cubic")
    # MTU without IPv6, TCP, timestamps and the extension header
    expect("payload", longest(ends.send(200000)[-20:]), 1500 - 40 - 32 - 16)
    no_errors(ends.pair)


def test_path_mtu_is_reported():
    """tcpi_pmtu is the path MTU: before the first data segment, with data, and under cubic."""
    for version in 4, 6:
        ends = Pair(version, delay="50us").connect()
        for turn in "hpcc", "data", "cubic", "hpcc", "data":
            if turn == "data":
                transfer((*ends, pattern(50000)))
            else:
                set_cc(ends[0], turn)
            expect(f"IPv{version}, {turn}", [tcp_info(end)["pmtu"] for end in ends], [1500, 1500])


def test_ip_options_after_accept():
    """If IP options are set before a socket sends, its MSS is derived from the path MTU."""
    _, _, server = joined(Pair(delay="50us"))
    before = tcp_info(server)["snd_mss"]
    server.setsockopt(socket.IPPROTO_IP, 4, b"\1" * 20)
    expect("MSS", tcp_info(server)["snd_mss"], before - 20)


def test_frag_needed_after_leaving():
    """A router reports a smaller MTU to a socket that has left hpcc: TCP at once retransmits longer segments."""
    flow = Flow()
    sent = flow.run()
    expect("segments", len(sent) > 1, True)
    set_cc(flow.sock, "reno")
    flow.icmp_frag_needed(1000, sent[-1].seq)
    expect("path MTU", tcp_info(flow.sock)["pmtu"], 1000)
    expect("retransmitted", flow.take(0.05) is not None, True)


def test_mtu_probing():
    """TCP's search for the path MTU (RFC 4821) starts low and finds the path MTU, under hpcc as under cubic."""
    found = {}
    for name in "cubic", "hpcc":
        pair = Pair(cc=(name, name), delay="50us", host_mbps=1000)
        pair.c.sysctl("net.ipv4.tcp_mtu_probing", 2)
        pair.c.sysctl("net.ipv4.tcp_base_mss", 700)
        ends = pair.connect()
        # This makes TCP derive the MSS from the path MTU again.
        ends[0].setsockopt(socket.IPPROTO_IP, 4, b"\1" * 4)
        ends[0].setsockopt(socket.IPPROTO_IP, 4, b"")
        for _ in range(8):
            transfer((*ends, pattern(500000)))
        info = tcp_info(ends[0])
        found[name] = info["snd_mss"] + (28 if name == "hpcc" else 0)
        expect(f"{name}: path MTU", info["pmtu"], 1500)
        expect(f"{name}: failed probes", pair.c.snmp("TcpExtTCPMTUPFail"), 0)
        expect_in(f"{name}: probes", pair.c.snmp("TcpExtTCPMTUPSuccess"), 1, 20)
    expect_in("MSS", found["hpcc"], found["cubic"] - 16, found["cubic"] + 16)


# name: (level, option, value) of options that take space in each packet, or release it
ROOM = {
    "dst8": (socket.IPPROTO_IPV6, IPV6_DSTOPTS, ext_header(8)),
    "dst24": (socket.IPPROTO_IPV6, IPV6_DSTOPTS, ext_header(24)),
    "hop16": (socket.IPPROTO_IPV6, IPV6_HOPOPTS, ext_header(16)),
    "no dst": (socket.IPPROTO_IPV6, IPV6_DSTOPTS, b""),
    "ip4": (socket.IPPROTO_IP, socket.IP_OPTIONS, b"\1" * 4),
    "ip20": (socket.IPPROTO_IP, socket.IP_OPTIONS, b"\1" * 20),
    "no ip": (socket.IPPROTO_IP, socket.IP_OPTIONS, b""),
    "maxseg": (socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1300),
}


def room_left(pair, address, version, slots, turns):
    """Apply the turns to two connections, one of which runs hpcc at first: both end with one MSS."""
    pair.c.sysctl("net.hpcc.slots", slots)
    listener = pair.s.socket(version)
    listener.bind(("" if version == 4 else "::", 0))
    listener.listen()
    sizes = []
    for ours in True, False:
        client = pair.c.socket(version)
        set_cc(client, "hpcc" if ours else "cubic")
        client.connect((address, listener.getsockname()[1]))
        server = listener.accept()[0]
        for turn in turns:
            if turn == "data":
                transfer((client, server, pattern(5000)))
            elif turn in ROOM:
                client.setsockopt(*ROOM[turn])
            elif ours:
                set_cc(client, turn)
        if ours:
            set_cc(client, "cubic")
        # setsockopt() removes the route: one segment leaves with the old MSS.
        for _ in range(2):
            transfer((client, server, pattern(5000)))
        sizes.append(tcp_info(client)["snd_mss"])
        client.close()
        server.close()
    listener.close()
    expect(f"{address}, {slots} slots, {turns}: MSS", sizes[0], sizes[1])


def test_room_in_any_order():
    """Options and congestion controls change in random order, with and without an ACK between: the MSS is correct."""
    rng = random.Random(5)
    for address in "10.0.0.2", "::ffff:10.0.0.2", "fd00::2":
        version = 6 if ":" in address else 4
        pair = Pair(6 if address[0] == "f" else 4, delay="50us")
        pair.s.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
        names = [name for name in ROOM if version == 6 or ROOM[name][0] != socket.IPPROTO_IPV6]
        for first in names:
            for slots in 1, 3:
                room_left(pair, address, version, slots, ["data", first])
                room_left(pair, address, version, slots, ["data", first, "cubic", "hpcc", "data"])
        for _ in range(20):
            # If a socket has IPv4 and IPv6 options, TCP itself counts too few or too many of their bytes.
            left_out = rng.choice((socket.IPPROTO_IP, socket.IPPROTO_IPV6))
            some = [name for name in names if ROOM[name][0] != left_out]
            turns = [rng.choice((*some, "cubic", "hpcc", "data")) for _ in range(6)]
            room_left(pair, address, version, rng.randrange(1, 4), ["data", *turns])


def test_leaving_gives_the_room_back():
    ends, sizes = Watched(offload=False), []
    for name in "hpcc", "cubic", "hpcc", "reno":
        set_cc(ends.client, name)
        data = ends.send(80000)
        sizes.append(longest(data))
        expect(f"options under {name}", bool(ours_in(data)), name == "hpcc")
    expect("sizes", sizes, [1420, 1448, 1420, 1448])


def segments_in(data, sock):
    return -(-longest(data) // tcp_info(sock)["snd_mss"])


def test_bursts():
    """A burst has at most as many segments as the sysctl burst."""
    for burst in 1, 2, 4:
        ends = Watched(delay="200us", burst=burst, start_rtt_ns=10**9)
        expect_in(f"burst of {burst}", segments_in(ends.send(150000), ends.client), 1, burst)


def test_bursts_by_the_window():
    """A burst has 1/32 of the window W, at least one segment and at most 16."""
    # W of 10 Gb/s and 100 us is 89 segments, or a few less
    for mbps, least, most in (1000, 1, 1), (10000, 2, 2), (40000, 10, 11), (80000, 16, 16):
        ends = Watched(base_rtt_ns=100000, host_mbps=mbps)
        # W: until now each ACK has a record
        expect_in(f"burst at {mbps} Mb/s", segments_in(ends.send(12 * mbps), ends.client), least, most)


def test_bursts_by_time():
    """A burst may have the bytes of 8 us at the host's rate, with a window W that has settled."""
    need_virtual_time()
    # 8 us are 7 segments at 10 Gb/s, and 17 at 25 Gb/s; W is about 170
    for mbps, delay_us, least, most in (1000, 1000, 4, 5), (10000, 100, 7, 7), (25000, 40, 16, 16):
        path = Path(host_mbps=mbps)
        path.a.tc("qdisc del dev right root")
        for node in 1, 2:
            path.change(node, f"hpcc rate {mbps}mbit delay {delay_us}us")
        client, server = path.connect()
        goodput_mbps(client, server, 2000000)
        sniffer = Sniffer(path.a, "right")
        goodput_mbps(client, server, 2000000)
        expect("congestion control", get_cc(client), "hpcc")
        expect_in(f"bursts at {mbps} Mb/s", segments_in(sniffer.segments(), client), least, most)


def test_slow_bottleneck():
    """The bottleneck has a tenth of the host's rate, a base RTT of 20 ms and a buffer of one BDP. Slow start may lose
    packets, but the records after the recovery do not raise W to the BDP of the host's rate.
    """
    need_virtual_time()
    path = Path(switches=1, host_mbps=MBPS)
    path.change(1, "hpcc rate 100mbit delay 5ms limit 250000")
    for ns, dev in (path.switches[0], "left"), (path.a, "right"), (path.b, "left"):
        ns.tc(f"qdisc change dev {dev} root hpcc rate {MBPS}mbit delay 5ms")
    client, server = path.connect()
    goodput_mbps(client, server, 4000000)
    expect_in("goodput", goodput_mbps(client, server, 10000000), 85, 95)
    expect_in("retransmissions of 10000 segments", tcp_info(client)["retrans"], 0, 200)
    expect("mode", path.a.flow(client)["mode"], "telemetry")


@cases(pauses_short=(0.002,), pauses_long=(0.02,))
def pauses(pause_s):
    """An application that pauses leaves its link idle. W still grows only to what the link carries, not to B_host T."""
    need_virtual_time()
    path = Path(switches=1)
    path.change(1, "hpcc rate 200mbit delay 250us")
    path.change(1, "hpcc delay 250us", "left")
    client, server = path.connect()
    for half in 0.2, 0.6:
        before, most = path.port(1)["hpcc"], 0
        end = time.monotonic() + half
        while time.monotonic() < end:
            transfer((client, server, pattern(random.randrange(20000, 200000))))
            most = max(most, path.a.flow(client)["W"])
            time.sleep(pause_s)
    bdp = 200e6 / 8 * path.a.flow(client)["T_ns"] * 1e-9
    print(f"# W at most {most / bdp:.2f} BDP")
    expect_in("W / BDP", most / bdp, 0.7, 2)
    expect_in("p99 of the queue", percentile(before, path.port(1)["hpcc"], 0.99) / 1538, 0, 20)


def test_silence():
    """A queue reduces W below the bytes in flight. After 7/8 of a round trip without a packet one packet leaves; its
    ACK shows whether the end of the burst was lost.
    """
    flow, link, _ = measured(2, 1.0, 0.9)
    segments = data_segments(flow.run())
    expect_in("segments in flight", len(segments), 20, 200)
    sent = []
    for seg, wait_T in zip(segments, (0, 0, 4, 20, 0.1)):
        time.sleep(wait_T * 1e-9 * T_NS)
        flow.acked = (seg.seq + len(seg.payload)) & 0xffffffff
        flow.send(option(ECHO, [link.step(9000, 1, 10).raw()], SCALE))
        sent.append(len(data_segments(flow.run(0.05e-9 * T_NS))))
    expect("segments per ACK", sent[1:], [0, 0, 1, 0])


def test_one_loss_keeps_W():
    """T is three times the RTT. A single loss changes nothing: telemetry measures the load."""
    need_virtual_time()
    left, W = itertools.count(-1000), []
    path = BoxPath(host_mbps=MBPS, change=lambda packet: [packet] if not packet.to_b or next(left) else [])
    path.a.sysctl("net.hpcc.base_rtt_ns", 3 * path.a.flow(path.connect()[0])["T_ns"])
    client, server = path.connect(5001)
    goodput_mbps(client, server, 3000000, lambda: W.append(path.a.flow(client)["W"]))
    expect("retransmissions", tcp_info(client)["retrans"], 1)
    print(f"# W: {W}")
    expect_in("least W / largest W", min(W) / max(W), 0.8, 1)


def test_losses_after_a_timeout():
    """An RTO has set W to one segment. The losses of the large window before it do not count when a recovery ends."""
    need_virtual_time()
    flow, link, una = timed_out()
    mss = tcp_info(flow.sock)["snd_mss"]

    def ack(segs, sacked=0):
        nonlocal una
        una = una + segs * mss & 0xffffffff
        flow.send((sack(una + mss, una + sacked * mss) if sacked else b"") +
                  option(ECHO, [link.step(1000, 0.1).raw()], SCALE, 1), ack=una)

    for segs in 1, 2, 4:
        ack(segs)
        flow.read_all(2e-9 * T_NS)
    before = flow.flow()["W"]
    for sacked in range(2, 9):      # of eight retransmissions the first is lost
        ack(0, sacked)
    flow.read_all(2e-9 * T_NS)
    ack(8)
    expect_in("W", flow.flow()["W"], 7 * before / 8, before)


def test_pacing_by_acks():
    """With pace 0 ACKs clock a stable window. After a pause packets leave at the rate R."""
    need_virtual_time()
    for pace in 0, 1:
        path = Path(host_mbps=MBPS, pace=pace)
        for node in 1, 2:
            path.change(node, f"hpcc rate {MBPS}mbit delay 1ms")
        client, server = path.connect()
        rates = []
        goodput_mbps(client, server, 4000000, lambda: rates.append((path.a.flow(client)["R"],
                                                                    tcp_info(client)["pacing_rate"])))
        expect("congestion control", get_cc(client), "hpcc")
        R, rate = rates[-1]
        if pace:
            near("rate", rate, R)
        else:
            expect("rate", rate, (1 << 64) - 1)
        time.sleep(1)
        client.send(bytes(1000))
        near("rate after a pause", tcp_info(client)["pacing_rate"], path.a.flow(client)["R"])


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc"])
