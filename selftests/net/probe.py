#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/probe.c: requests on packets without data (net.hpcc.carry = 1)."""

import contextlib
import errno
import socket
import time

from lib.box import BoxPath
from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main, need_virtual_time
from lib.net import Pair, expect_counters, expect_none, joined
from lib.packet import (CAP_PROBES, CAP_TELEMETRY, ECHO, FORWARD, PROMPT, Sniffer, data_segments,
                        option, ours_in, record, sane, syn_option)
from lib.path import MBPS, Path, uses_telemetry
from lib.peer import SCALE, T_NS, W_INIT, Flow, Link, Peer, settle
from lib.tcp import pattern, send_for, set_cc, transfer, until

DSCP = 0x48
TCP_USER_TIMEOUT = 18
ASKS = syn_option(caps=CAP_TELEMETRY | CAP_PROBES)
NBYTES = 1000000


def of_type(kind, segments):
    return [seg for seg in segments if seg.ours() and seg.ours()[0].type == kind]


def test_on_the_wire():
    """Data use the whole MSS without an option. Probes have the IP header fields of data. Pure ACKs answer probes."""
    need_virtual_time()         # after a pause of the guest, data carry requests
    for version in 4, 6:
        path, client, server = joined(Path(version, carry=1))
        client.setsockopt(*((socket.IPPROTO_IP, socket.IP_TOS) if version == 4 else
                            (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)), DSCP)
        sniffers = Sniffer(path.a, "right"), Sniffer(path.b, "left")
        transfer((client, server, pattern(NBYTES)))
        expect("telemetry", uses_telemetry(path.a, hops=2), True)
        expect("carry", [ns.flow()["probes"] for ns in path.hosts], [1, 1])
        expect_none(path.a, "probes_stopped")
        expect("no room", [ns.counters()["no_room"] for ns in path.hosts], [0, 0])
        path.no_errors()
        sent, got = [sniffer.segments() for sniffer in sniffers]
        sane(got)
        to_b = [seg for seg in sent if seg.dport == 5000]
        data = data_segments(to_b)
        expect("data with an option", ours_in(data), [])
        head = 52 if version == 4 else 72
        expect("full segments", max(len(seg.payload) for seg in data_segments(got)) + head, 1500)
        probes = of_type(FORWARD, to_b)
        expect_in("probes", len(probes), 8, 1000)
        first = slice(0, 2) if version == 4 else slice(0, 4)    # DSCP, ECN, flow label
        expect("IP header of probes", {seg.packet[first] for seg in probes}, {seg.packet[first] for seg in data})
        expect("ECT(0)", {seg.ecn for seg in probes}, {2})
        answers = of_type(ECHO, [seg for seg in got if seg.sport == 5000])
        expect("answers with data", data_segments(answers), [])
        expect_in("answers", len(answers), 0.8 * len(probes), len(probes))


def test_share():
    """On a slow link with a short RTT there is still one probe per 8 segments at most."""
    need_virtual_time()
    pair = Pair(mtu=576, qdisc="hpcc rate 1mbit delay 0us", host_mbps=1, carry=1, sample=8)
    (client, server), sniffer = pair.connect(), Sniffer(pair.s, "eth0")
    transfer((client, server, pattern(50000)))
    to_s = [seg for seg in sniffer.segments() if seg.dport == 5000]
    probes, data = of_type(FORWARD, to_s), data_segments(to_s)
    expect_in(f"probes, of {len(data)} data segments", len(probes), 4, len(data) / 8 + 2)


def test_long_path_of_small_windows():
    """With windows below one segment each hop is requested before its last record is too old."""
    need_virtual_time()
    for switches, slots in (5, 1), (15, 3):
        path = Path(switches=switches, carry=1, slots=slots, host_mbps=2)
        middle = (switches + 1) // 2
        path.change(middle, f"hpcc rate 2mbit delay 20us node {middle} port 2")
        send_for(6, *[path.connect(5000 + number) for number in range(8)])
        expect_counters(path.a, f"counters, {switches} switches", probes_stopped=0, fallbacks=0)


def test_both_ways_under_loss():
    """No end counts a probe or an answer as a duplicate ACK: only lost segments are retransmitted."""
    need_virtual_time()
    again, dropped = {}, {}
    for loss in 0, 1:
        for carry in 0, 1:
            path = Path(carry=carry)
            for port, dev in enumerate(("left", "right"), 1):
                path.switches[0].tc(
                    f"qdisc del dev {dev} root",
                    f"qdisc add dev {dev} root handle 1: netem limit 100000 loss {loss}%",
                    f"qdisc add dev {dev} parent 1:1 hpcc rate {MBPS}mbit node 1 port {port} delay 20us")
            client, server = path.connect()
            transfer((client, server, pattern(2 * NBYTES)), (server, client, pattern(2 * NBYTES, 5)))
            again[loss, carry] = [[ns.snmp(name) for ns in path.hosts] for name in
                                  ("RetransSegs", "TcpExtTCPDSACKRecv", "TcpExtTCPTimeouts")]
            print(f"# loss {loss} %, carry {carry}: retransmissions, needless ones, timeouts:", again[loss, carry])
            dropped[loss, carry] = [path.switches[0].qdiscs(dev)[0]["drops"] for dev in ("right", "left")]
            expect("telemetry", [flow["mode"] for ns in path.hosts for flow in ns.flows()], ["telemetry"] * 2)
            expect("carry", [ns.flow()["probes"] for ns in path.hosts], [carry] * 2)
    expect("without loss: retransmissions, needless retransmissions, timeouts", again[0, 1], [[0, 0]] * 3)
    for end in 0, 1:
        expect_in("needless retransmissions", again[1, 1][1][end], 0, again[1, 0][1][end] + 2)
        # Only lost data are retransmitted: compare with the drops in that direction.
        expect_in("retransmissions", again[1, 1][0][end], 0, 1.5 * dropped[1, 1][end])


def test_without_sack():
    """Without SACK duplicate ACKs are the only sign of losses, so data carry requests."""
    path = Path(carry=1)
    for ns in path.hosts:
        ns.sysctl("net.ipv4.tcp_sack", 0)
    (client, server), sniffer = path.connect(), Sniffer(path.a, "right")
    transfer((client, server, pattern(NBYTES)))
    until(lambda: uses_telemetry(path.a, hops=2), lambda: transfer((client, server, pattern(NBYTES))))
    expect("telemetry", uses_telemetry(path.a, hops=2), True)
    expect("carry", path.a.flow()["probes"], 0)
    requests = of_type(FORWARD, sniffer.segments())
    expect("requests without data", len(requests) - len(data_segments(requests)), 0)


def no_probes(packet):
    """A box that drops packets without data if they carry our option."""
    return [] if packet.to_b and packet.has_ours() and not packet.payload and not packet.syn else [packet]


def test_probes_dropped():
    need_virtual_time()
    path, client, server = joined(BoxPath(carry=1, change=no_probes))
    transfer((client, server, pattern(NBYTES)))
    expect_counters(path.a, probes_stopped=1, fallbacks=0)
    expect("telemetry", uses_telemetry(path.a), True)
    expect("carry", path.a.flow()["probes"], 0)


def test_nothing_stamps():
    """If no switch stamps, data carry requests first, and then the flow falls back."""
    path = Path(carry=1)
    for node in 1, 2:
        path.change(node, "hpcc nostamp")
    client, server = path.connect()
    transfer((client, server, pattern(NBYTES)))
    until(lambda: path.a.flow()["mode"] == "classic", lambda: transfer((client, server, pattern(NBYTES))))
    expect("mode", path.a.flow()["mode"], "classic")
    # During a pause of the guest a packet may be dropped, which also leads to classic mode.
    if virtual_time():
        expect_counters(path.a, probes_stopped=1, fallbacks=1)


def test_first_flight():
    """After a pause one probe leaves in front of the first data, and no second probe."""
    path, client, server = joined(Path(carry=1))
    sniffer = Sniffer(path.a, "right")
    for _ in range(3):
        time.sleep(0.2)
        sniffer.segments()
        client.send(b"x" * 100)
        server.recv(100)
        found = [seg for seg in sniffer.segments() if seg.dport == 5000][:2]
        expect("probe, data", [(len(seg.ours()), len(seg.payload)) for seg in found], [(1, 0), (0, 100)])


def test_syn_again():
    """A connection whose SYN was lost uses probes like any other connection."""
    for version in 4, 6:
        peer = Peer(version, carry=1)
        peer.start_connect()
        peer.got_syn(peer.read(2))
        peer.answer(ASKS)
        peer.sock.send(pattern(100000))
        expect("TCPSynRetrans", peer.ns.snmp("TcpExtTCPSynRetrans"), 1)
        expect("probes", len(of_type(FORWARD, peer.read_all(0.1))) > 0, True)


def test_wakes():
    """A window below a segment per T grows with the answers to probes: five times by W_ai, then to the link."""
    need_virtual_time()
    rounds = []
    for carry in 0, 1:
        flow, link = Flow(carry=carry, max_stage=5), Link()
        settle(flow, link, W_INIT // 1024 + 10)
        if flow.run(1e-9 * T_NS):
            flow.echo(link.step(9000, 1.0, 1.0))
        began, asked = None, 0
        while flow.flow()["W"] < 1500:
            # the round trip of a data segment or probe is T
            seg = flow.read(100e-9 * T_NS)
            began = began or time.monotonic()
            flow.acked = max(flow.acked, seg.seq + len(seg.payload))
            asked += len(of_type(FORWARD, [seg]))
            time.sleep(1e-9 * T_NS)
            flow.echo(link.step(9000))
        rounds.append((time.monotonic() - began) / T_NS * 1e9)
        print(f"# carry {carry}: W is 1500 after {rounds[-1]:.1f} T and {asked} requests")
    expect_in("T with probes", rounds[1], 5, 12)
    expect_in("T without", rounds[0], 2 * rounds[1], 200)


def test_next_data_at_once():
    peer = Peer(carry=1).connected(ASKS)
    for flags, soon in ((0, False), (PROMPT, True)):
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        time.sleep(1e-9 * T_NS)
        peer.send(option(FORWARD, [record(1, 5, 5)], SCALE, 1, flags))
        expect("answer", len(of_type(ECHO, peer.read_all(0.001))), 1)
        peer.send(b"", b"x" * 100)
        expect(f"ACK at once, flags {flags}", peer.read(0.001) is not None, soon)
        peer.read(0.3)


def test_answers_are_limited():
    """At most one probe per T/64 is answered, whatever T it states; the next answer has the records of other probes."""
    need_virtual_time()
    for version in 4, 6:
        peer = Peer(version=version).connected(ASKS)
        time.sleep(1e-9 * T_NS)
        for times, want in (range(1, 101), 1), ((200,), 200):
            for ts in times:
                peer.send(option(FORWARD, [record(1, ts, 5)], 0, 1))
            expect("answers", [seg.ours()[0].records[0]["ts"] for seg in peer.read_all(0.1)], [want])
            time.sleep(1e-9 * T_NS / 64)
        expect("forward_received", peer.ns.counters()["forward_received"], 101)


def test_strangers_get_no_answer():
    """A probe gets no answer if TCP would not accept it, it has no record, or its peer announced no probes."""
    peer = Peer().connected(ASKS)
    ours = option(FORWARD, [record(1, 5, 5)], SCALE, 1, PROMPT)
    for how in {"seq": peer.seq + (1 << 24)}, {"seq": peer.seq - 1}, \
            {"ack": peer.acked + 1}, {"ack": peer.acked - (1 << 30)}, {"bad_csum": True}:
        time.sleep(1e-9 * T_NS)
        peer.send(ours, **how)
        expect(f"answers to {how}", ours_in(peer.read_all(0.01)), [])
    time.sleep(1)
    peer.read_all()
    peer.send(option(FORWARD, [bytes(8)], SCALE, 0, PROMPT))
    expect("answers to a probe without a record", peer.read_all(0.1), [])
    peer.send(ours)
    expect("answers to a valid probe", len(of_type(ECHO, peer.read_all(0.1))), 1)
    peer = Peer().connected()
    peer.send(ours)
    expect("answers to a peer that did not announce probes", peer.read_all(0.1), [])


def test_closed_window():
    """If the receiver does not read, TCP's own window probes continue, and our probes stop."""
    path, client, server = joined(Path(carry=1, base_rtt_ns=100000))
    transfer((client, server, pattern(300000)))
    client.setblocking(False)
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            client.send(bytes(1 << 20))
        time.sleep(0.0005)
    time.sleep(0.1)
    for _ in range(1 if virtual_time() else 20):        # on a slow host the window closes after a while
        before = path.a.counters()["forward_sent"]
        time.sleep(2)
        probes = path.a.counters()["forward_sent"] - before
        if probes <= 4:
            break
    expect_in("probes", probes, 0, 4)
    client.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, 1000)
    time.sleep(3)
    expect("error", client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.ETIMEDOUT)


def test_cork():
    for carry in 0, 1:
        _, client, server = joined(Path(carry=carry, base_rtt_ns=50000))
        transfer((client, server, pattern(300000)))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        began = time.monotonic()
        client.send(bytes(100))
        server.settimeout(5)
        expect("data", len(server.recv(1000)), 100)
        if virtual_time():
            expect_in("seconds", time.monotonic() - began, 0.1, 0.5)


def test_older_peer():
    """Telemetry also works if the peer does not answer probes, and returns the records with its next ACK."""
    flow, link = Flow(carry=1), Link()
    for _ in range(20):
        flow.round(link.step(9000, 0.9))
    expect("mode", (flow.flow()["mode"], flow.flow()["probes"]), ("telemetry", 1))
    expect_in("probes", flow.ns.counters()["forward_sent"], 10, 200)


def test_set_again():
    """A socket that leaves hpcc and returns uses probes again."""
    need_virtual_time()
    path, client, server = joined(Path(carry=1))
    for name in "cubic", "hpcc":
        set_cc(client, name)
        transfer((client, server, pattern(NBYTES // 4)))
    expect("carry", path.a.flow()["probes"], 1)


main(modules=["sch_hpcc"])
