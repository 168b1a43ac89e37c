#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The whole path: hosts and switches whose ports are sch_hpcc; the ports of switches write telemetry."""

import socket
import statistics
import threading
import time

from lib.kernel import virtual_time
from lib.ktap import cases, expect, expect_in, expect_rate, main, need_virtual_time
from lib.net import expect_counters, joined
from lib.packet import ECHO, FORWARD, Sniffer, ours_in, sane_segments
from lib.path import MBPS, Path, uses_telemetry
from lib.tcp import get_cc, goodput_mbps, pattern, tcp_info, transfer, until


@cases(whole_way_ipv4=(4,), whole_way_ipv6=(6,))
def whole_way(version):
    """W follows the slower of two links; the identities of both links arrive, and no packet is dropped."""
    path = Path(version, sample=0, max_stage=5)
    path.a.ask()
    path.change(1, "hpcc rate 500mbit")
    sniffer, (client, server) = Sniffer(path.b, "left"), path.connect()
    transfer((client, server, pattern(300000)))
    flows = []
    goodput = goodput_mbps(client, server, 1000000, lambda: flows.append(path.a.flow(client)))
    stamped = {node: path.port(node)["hpcc"]["stamped"] for node in (1, 2)}
    until(lambda: uses_telemetry(path.a, links=2), lambda: goodput_mbps(client, server, 300000))
    flow = path.a.flow(client)
    expect("mode", (get_cc(client), flow["mode"], flow["hops"]), ("hpcc", "telemetry", 2))
    expect("links", path.a.links(client), {1: (1, 2, 500000000), 2: (2, 2, 1000000000)})
    # 1420 or 1400 of 1538 bytes on the wire are payload
    expect_rate("goodput", goodput, 0.85 * 0.95 * 500, 0.925 * 0.99 * 500)
    # W is a few packets, and U varies by the share of one packet
    if virtual_time():
        expect_in("U", statistics.median(flow["U_permille"] for flow in flows), 850, 1000)
        expect_in("W / BT", statistics.median(flow["W"] for flow in flows) / (500e6 / 8e9 * flow["T_ns"]), 0.9, 1.2)
    for node in 1, 2:
        expect(f"drops at {node}", path.port(node)["drops"], 0)
        expect_in(f"stamped at {node}", stamped[node], 900, 2000)
    filled = [opt for seg in sane_segments(sniffer) if (opt := seg.telemetry(FORWARD))]
    expect("hops", {opt.hops for opt in filled}, {2})
    expect("records", {tuple(rec["hop"] for rec in opt.records) for opt in filled}, {(1, 2, 0)})
    path.no_errors()


def test_both_ways():
    """Data move in both directions at once, and each direction has its own telemetry."""
    for version in 4, 6:
        path = Path(version, sample=0)
        path.b.ask()
        sniffer, (client, server) = Sniffer(path.b, "left"), path.connect()
        both = []

        def send():
            transfer((client, server, pattern(500000)), (server, client, pattern(500000, 1)))
            both.extend(seg for seg in sane_segments(sniffer) if seg.telemetry(FORWARD) and seg.telemetry(ECHO))

        send()
        until(lambda: len(both) >= 30 and uses_telemetry(path.a, 2) and uses_telemetry(path.b, links=2), send)
        for ns in path.hosts:
            flow = ns.flow()
            expect("mode, hops", (flow["mode"], flow["hops"]), ("telemetry", 2))
        expect("links from b", path.b.links(), {1: (2, 1, 1000000000), 2: (1, 1, 1000000000)})
        expect_in("segments with FORWARD and ECHO", len(both), 30, 10000)
        expect("TCP header, bytes", {seg.header for seg in both}, {56})
        path.no_errors()


def test_bottleneck_moves():
    path, client, server = joined(Path())
    goodput_mbps(client, server, 300000)
    for node, mbps in ((2, 250), (1, 125)):
        path.change(node, f"hpcc rate {mbps}mbit")
        goodput_mbps(client, server, 300000)
        expect_rate(f"goodput at {mbps} Mb/s", goodput_mbps(client, server, 300000), 0.8 * 0.95 * mbps, 0.93 * mbps)
    for node in 1, 2:
        path.change(node, f"hpcc rate {MBPS}mbit")
    goodput_mbps(client, server, 800000)
    expect_rate("goodput after", goodput_mbps(client, server, 500000), 0.8 * 0.95 * MBPS, 0.93 * MBPS)
    expect("drops", (path.port(1)["drops"], path.port(2)["drops"]), (0, 0))


def test_path_changes():
    """Another switch replaces a hop: the flow detects this, requests the new identity, and continues."""
    path = Path()
    path.a.ask()
    client, server = path.connect()
    goodput_mbps(client, server, 500000)
    until(lambda: 1 in path.a.links(), lambda: goodput_mbps(client, server, 300000))
    expect("link", path.a.links()[1], (1, 2, 1000000000))
    path.change(1, "hpcc node 77 port 9")
    goodput_mbps(client, server, 500000)
    expect("path_changes", path.a.counters()["path_changes"], 1)
    until(lambda: uses_telemetry(path.a) and 1 in path.a.links(), lambda: goodput_mbps(client, server, 300000))
    expect("link", path.a.links()[1], (77, 9, 1000000000))
    expect("mode", get_cc(client), "hpcc")


def test_T_far_from_the_rtt():
    """A T that is too long costs no goodput; a T that is too short limits the window to W_init = B T."""
    need_virtual_time()
    for switches, rtt_ns in (1, 106000), (2, 142000):
        for times in 1 / 4, 1 / 2, 1, 4, 16, 64, 128:
            path = Path(switches=switches, host_mbps=MBPS, base_rtt_ns=round(times * rtt_ns))
            client, server = path.connect()
            goodput_mbps(client, server, 1000000 + round(100000 * times))
            goodput = goodput_mbps(client, server, 2000000 + round(100000 * times))
            print(f"# {switches} switches, T of {times} RTT: {goodput:.0f} Mbit/s")
            expect(f"T of {times} RTT: mode", (get_cc(client), path.a.counters()["fallbacks"]), ("hpcc", 0))
            least = min(0.95, times) * 0.925 * MBPS
            most = min(0.95, times + 1500 * 8000 / MBPS / rtt_ns) * 0.925 * MBPS
            expect_in(f"T of {times} RTT: goodput", goodput, 0.93 * least, 1.07 * most)


def test_longer_than_an_option():
    """With five switches and two slots the identities of all links are known, and W follows the slowest link."""
    path = Path(switches=5, slots=2)
    path.a.ask()
    path.change(4, "hpcc rate 400mbit")
    client, server = path.connect()
    goodput_mbps(client, server, 300000)
    goodput = goodput_mbps(client, server, 400000)
    expect("hops", path.a.flow(client)["hops"], 5)
    until(lambda: len(path.a.links(client)) == 5, lambda: goodput_mbps(client, server, 300000))
    expect("links", path.a.links(client), {hop: (hop, 2, 400000000 if hop == 4 else 1000000000) for hop in range(1, 6)})
    expect_rate("goodput", goodput, 0.8 * 0.95 * 400, 0.93 * 400)
    expect("drops", [path.port(node)["drops"] for node in range(1, 6)], [0] * 5)
    path.no_errors()


def test_both_ways_in_turns():
    """With data in both directions an option has one record, which is newer than the previous record of its hop."""
    path = Path(switches=5)
    for dev in "left", "right":
        path.change(3, "hpcc rate 400mbit", dev)
    client, server = path.connect()

    def send():
        transfer((client, server, pattern(700000)), (server, client, pattern(700000, 1)))

    send()
    until(lambda: uses_telemetry(path.a) and uses_telemetry(path.b), send)
    for ns in path.hosts:
        expect("mode, hops", (ns.flow()["mode"], ns.flow()["hops"]), ("telemetry", 5))
    path.no_errors()


def test_two_flows():
    path = Path()
    path.change(1, "hpcc rate 500mbit")
    one, two = path.connect(5001), path.connect(5002)
    start = time.monotonic()
    transfer((*one, pattern(600000)), (*two, pattern(600000, 1)))
    mbps = 1200000 * 8 / (time.monotonic() - start) / 1e6
    expect_rate("goodput of both", mbps, 0.8 * 0.95 * 500, 0.93 * 500)
    expect("drops", path.port(1)["drops"], 0)
    if virtual_time():
        expect("retransmissions", [tcp_info(sock)["retrans"] for sock in (one[0], two[0])], [0, 0])


def test_loss():
    """A switch drops and reorders packets: the application data still arrive unchanged."""
    for version in 4, 6:
        path = Path(version)
        path.switches[0].tc("qdisc del dev right root",
                            "qdisc add dev right root handle 1: netem loss 1% delay 20us reorder 99% gap 7",
                            f"qdisc add dev right parent 1:1 hpcc rate {MBPS}mbit node 1 port 2")
        (client, server), sniffer = path.connect(), Sniffer(path.a, "right")
        transfer((client, server, pattern(400000)), (server, client, pattern(200000, 2)))
        sacks = [seg for seg in sane_segments(sniffer) if seg.option(5)]
        expect("retransmissions", tcp_info(client)["retrans"] > 0, True)
        expect("echo beside SACK", any(seg.telemetry(ECHO) for seg in sacks), True)
        expect("InCsumErrors", path.a.snmp("InCsumErrors") + path.b.snmp("InCsumErrors"), 0)
        # packets that netem reorders bypass its child
        expect_in("hops", path.a.flow(client)["hops"], 1, 2)


def test_telemetry_comes_and_goes():
    """When the switches stop stamping, the flow falls back to classic; when they stamp again, it returns."""
    path, client, server = joined(Path())
    for how, cc in ("stamp", "hpcc"), ("nostamp", "hpcc-classic"), ("stamp", "hpcc"):
        for node in 1, 2:
            path.change(node, f"hpcc {how}")
        goodput_mbps(client, server, 1000000)
        until(lambda: uses_telemetry(path.a) == (cc == "hpcc"), lambda: goodput_mbps(client, server, 300000))
        expect("mode", (get_cc(client), path.a.flow()["mode"] == "telemetry"), (cc, cc == "hpcc"))
    counters = path.a.counters()
    expect("returns", counters["returns"], counters["fallbacks"] + counters["unseen_loss"])
    if virtual_time():
        expect("fallbacks", counters["fallbacks"], 1)
    expect_in("unseen_loss", counters["unseen_loss"], 0, 0 if virtual_time() else 10)


def test_nameless():
    """A port with identify off works like other ports, and its identity stays unknown."""
    path = Path(sample=0)
    path.change(1, "hpcc identify off")
    path.a.ask()
    client, server = path.connect()
    transfer((client, server, pattern(500000)))
    until(lambda: uses_telemetry(path.a, 2) and 2 in path.a.links(),
          lambda: transfer((client, server, pattern(300000))))
    expect("links", path.a.links(), {2: (2, 2, 1000000000)})
    expect("hops", path.a.flow()["hops"], 2)
    expect_in("IDENTIFY without a record", path.port(1)["hpcc"]["unstamped"]["off"], 1, 1000)


def test_nameless_tags():
    """With identify off a port's tag is no hash that a sender could test, and the tag does not change."""
    path = Path(switches=1, sample=0)
    sniffer, (client, server) = Sniffer(path.b, "left"), path.connect()
    tags = {}
    for identify in "on", "off":
        for node in 1, 2, 3, 4:
            path.change(1, f"hpcc node {node} identify {identify}")
            sniffer.segments()
            transfer((client, server, pattern(20000)))
            found = {rec["tag"] for seg in sniffer.segments() for opt in seg.ours()
                     if opt.type == FORWARD for rec in opt.records if rec["hop"]}
            expect(f"tags of node {node}, identify {identify}", len(found), 1)
            tags[identify, node] = found.pop()
    expect("different tags of the four nodes, identify on", len({tags["on", node] for node in (1, 2, 3, 4)}), 4)
    # In one of 64 runs one of the four is equal by chance.
    expect_in("tags that do not change", sum(tags["on", node] == tags["off", node] for node in (1, 2, 3, 4)), 0, 1)


def test_now_and_then():
    """Messages are so far apart that no record can be compared with the previous record: the flow does not fall back.
    """
    for sysctls in {}, {"carry": 1}:
        path, client, server = joined(Path(**sysctls))
        transfer((client, server, pattern(300000)))
        gap = 70e-9 * path.a.flow()["T_ns"]
        for _ in range(40):
            transfer((client, server, b"x" * 100))
            time.sleep(gap)
        expect("mode", (get_cc(client), path.a.flow()["mode"]), ("hpcc", "telemetry"))
        expect_counters(path.a, fallbacks=0, probes_stopped=0)


def test_only_one_switch_stamps():
    """One switch on the path does not stamp: the flow uses the records of the other switch."""
    path = Path()
    path.switches[0].tc("qdisc replace dev right root pfifo limit 1000")
    path.a.ask()
    client, server = path.connect()
    goodput_mbps(client, server, 500000)
    until(lambda: uses_telemetry(path.a, links=1), lambda: goodput_mbps(client, server, 300000))
    flow = path.a.flow(client)
    expect("mode, hops, links", (flow["mode"], flow["hops"], path.a.links(client)),
           ("telemetry", 1, {1: (2, 2, 1000000000)}))


def test_peer_without_hpcc():
    """If only one end runs hpcc, no segment but the SYN has an option, and the data arrive."""
    for cc in ("hpcc", "cubic"), ("cubic", "hpcc"):
        path = Path(cc=cc)
        sniffer, (client, server) = Sniffer(path.b, "left"), path.connect()
        transfer((client, server, pattern(300000)), (server, client, pattern(300000, 1)))
        expect("segments with options", len(ours_in(sane_segments(sniffer))), int(cc[0] == "hpcc"))
        expect("stamped", path.port(1)["hpcc"]["stamped"] + path.port(2)["hpcc"]["stamped"], 0)


def test_beside_cubic():
    path = Path()
    sniffer = Sniffer(path.b, "left")
    ours, other = path.connect(5001), path.connect(5002, cc="cubic")
    transfer((*ours, pattern(400000)), (*other, pattern(400000, 1)))
    found = ours_in(sane_segments(sniffer))
    expect("options on segments of cubic", [seg for seg in found if 5002 in (seg.sport, seg.dport)], [])
    expect("mode", get_cc(ours[0]), "hpcc")


def test_behind_a_queue():
    """A queue that existed before the connection, and increases all RTTs, does not make records look false."""
    need_virtual_time()
    path = Path()
    path.a.tc(f"qdisc change dev right root hpcc rate {2 * MBPS}mbit")
    other = path.connect(5001, cc="reno")
    # a window larger than the path's capacity: a part of the window is always queued
    other[1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 200000)
    thread = threading.Thread(target=transfer, args=((*other, pattern(6000000)),))
    thread.start()
    time.sleep(0.01)
    ours = path.connect(5002)
    T_ns = path.a.flow(ours[0])["T_ns"]
    transfer((*ours, pattern(100000)))
    thread.join()
    expect_in("T", T_ns, 300000, 3000000)
    expect("mode", get_cc(ours[0]), "hpcc")
    path.no_errors()


@cases(losses_are_no_reordering=("",), losses_of_every_second_ack=("loss gemodel 100% 100% 100% 0%",))
def losses(of_acks):
    """A path that loses packets, and keeps their order, does not seem to change it: telemetry hides no SACK block."""
    need_virtual_time()
    for number in range(2):
        path = Path(switches=3)
        client, server = path.connect()
        netem = "root netem delay 500us rate 1gbit limit 9999"
        path.switches[1].tc(f"qdisc replace dev right {netem} loss 1%", f"qdisc replace dev left {netem} {of_acks}")
        transfer((client, server, pattern(6000000, number)))
        expect_in("retransmissions", path.a.snmp("RetransSegs"), 10, 1000)
        expect_in("echoes", path.b.counters()["echo_sent"], 1000, 6000)
        expect("reordering, spurious retransmissions",
               [path.a.snmp(f"TcpExt{name}") for name in ("TCPSACKReorder", "TCPDSACKRecv")], [0, 0])


main(modules=["sch_hpcc"])
