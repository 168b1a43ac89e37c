#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/hook/local_out.c: which outgoing segments get our options, and that each packet stays valid."""

import itertools
import socket
import struct
import time

from lib.kernel import virtual_time
from lib.ktap import Skip, cases, expect, expect_in, main, need_virtual_time
from lib.net import IPPROTO_MPTCP, Netns, Pair, meet, no_errors
from lib.packet import (ACK, CAP_TELEMETRY, ECHO, FORWARD, IDENTIFY, IDENTIFY_ECHO, KIND, PROMPT, RST, SYN, Sniffer,
                        data_segments, identity, option, ours_in, record, sane_segments, syn_option)
from lib.peer import SCALE, Flow, Link, Peer
from lib.routed import add_md5
from lib.tcp import get_cc, pattern, tcp_info, transfer

MPTCP_KIND, MD5_KIND, SACK_KIND = 30, 19, 5
CAP_PROBES, CAP_INT, CAP_IFA = 0x04, 0x40, 0x80


def whole_connection(version, offload, timestamps, mtu=1500, cut=True):
    """Send data in both directions, and check all segments from SYN to FIN."""
    what = f"IPv{version}, offload {offload}, timestamps {timestamps}, MTU {mtu}"
    pair = Pair(version, mtu=mtu, offload=offload, delay="50us", sample=0)
    for ns in (pair.c, pair.s):
        ns.sysctl("net.ipv4.tcp_timestamps", int(timestamps))
    sniffers = Sniffer(pair.c), Sniffer(pair.s)
    client, server = pair.connect()
    transfer((client, server, pattern(60000)))
    transfer((client, server, pattern(20000, 1)), (server, client, pattern(20000, 2)))
    client.close()
    server.close()
    for sniffer in sniffers:
        segments = sane_segments(sniffer, mtu)
        expect(f"timestamps in {what}", any(seg.option(8) for seg in segments), timestamps)
        expect(f"checksums left to the device in {what}", any(seg.partial for seg in segments), offload)
        # The size of a burst depends on W and on the time between ACKs.
        if cut or not offload or virtual_time():
            expect(f"segmented by the device in {what}", any(seg.total > mtu for seg in segments), offload and cut)
        # A slow machine retransmits data that have arrived; only a DSACK reports this.
        data = [seg for seg in data_segments(segments) if virtual_time() or not seg.option(5)]
        expect(f"data without FORWARD in {what}", without_request(data), [])
        expect(f"slots in {what}", {len(seg.telemetry(FORWARD).words) for seg in data}, {3})
        expect(f"other segments with options in {what}",
               [seg for seg in ours_in(segments) if not seg.payload and not seg.flags & SYN], [])
    no_errors(pair)


@cases(ipv4=(4,), ipv6=(6,))
def whole_connections(version):
    for offload, timestamps in itertools.product((True, False), repeat=2):
        whole_connection(version, offload, timestamps)


def test_mtu():
    whole_connection(6, False, True, 1280)
    whole_connection(4, False, True, 576)
    whole_connection(4, True, False, 9000, cut=False)


def test_slots():
    """A request has as many slots as the sysctl, a head as in the header file, and free slots."""
    for slots in 1, 2, 3:
        peer = Peer(slots=slots).connected()
        peer.sock.send(bytes(3000))
        raw = peer.take().option(KIND)
        expect("option", raw, struct.pack("!BBBB", KIND, 4 + 8 * slots, FORWARD << 5 | SCALE, 0) + bytes(8 * slots))


def test_scale_of_T():
    """T is 4096 to 8191 units, unless a unit would be below 1 ns."""
    for base_rtt_ns, scale in ((1000, 0), (8191, 0), (8192, 1), (10000, 1), (1000000, 7),
                               (100000000, 14), (1000000000, 17)):
        peer = Peer(base_rtt_ns=base_rtt_ns, host_mbps=100000).connected()
        peer.sock.send(bytes(1000))
        expect(f"scale for T = {base_rtt_ns} ns", peer.take().ours()[0].scale, scale)


def without_request(segments):
    return [seg for seg in data_segments(segments) if not seg.telemetry(FORWARD)]


def test_both_ways():
    """A segment with both a request and an echo has one record for each, and echoes the hops in turn."""
    for version in 4, 6:
        peer = Peer(version=version).connected()
        peer.sock.send(bytes(100))
        peer.take()
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        records = [record(hop, 100 * hop, hop, 10 * hop, hop) for hop in (1, 2, 3)]
        for turn in 0, 1, 2, 0, 1:
            # this request replaces the rest of the previous request
            peer.send(option(FORWARD, records, 5, 3), b"x" * 100)
            peer.sock.send(bytes(100))
            seg = peer.take()
            expect("types", [opt.type for opt in seg.ours()], [FORWARD, ECHO])
            forward, echo = seg.ours()
            expect("FORWARD", (forward.words, forward.hops, forward.scale), ([0], 0, SCALE))
            expect("ECHO", (echo.words, echo.hops, echo.scale), ([int.from_bytes(records[turn], "big")], 3, 5))
            expect("TCP header, bytes", seg.header, 20 + 12 + 12 + 12)


def test_lost_ack():
    """If acknowledged data arrive again, 64 ACKs have no option, and twice as many if this repeats within 10 s."""
    need_virtual_time()
    peer = Peer().connected()
    ts = itertools.count(100, 100)

    def exchange():
        """Receive two segments, one with a record. Return for each ACK whether it has an option."""
        peer.send(payload=bytes(1000))
        peer.send(option(FORWARD, [record(1, next(ts), 1)], 5, 1), bytes(1000))
        found = [bool(seg.ours()) for seg in peer.read_all(0.05)]
        peer.sock.recv(4000)
        return found

    # A duplicate that arrives soon after the ACK of its data does not count: reordering may have caused it.
    for _ in range(3):
        peer.send(payload=bytes(1000))
        for seq in None, peer.seq - 1000:
            peer.send(option(FORWARD, [record(1, next(ts), 1)], 5, 1), bytes(1000), seq=seq)
        expect("an option although a duplicate arrives soon", any(seg.ours() for seg in peer.read_all(0.05)), True)
        peer.sock.recv(4000)
    expect("muted", peer.ns.counters()["muted"], 0)
    for wait_s, pause in (0, 64), (1, 128), (1, 256), (11, 64), (1, 128):
        time.sleep(wait_s)
        expect("an ACK with an option", any(exchange()), True)
        peer.send(option(FORWARD, [record(1, next(ts), 1)], 5, 1), bytes(1000), seq=peer.seq - 1000)
        expect("options of the ACK of a duplicate", peer.read(0.1).ours(), [])
        found = exchange()
        peer.sock.send(bytes(1000))
        expect("data", [opt.type for opt in peer.take().ours()][:1], [FORWARD])
        peer.send()
        while True not in found:
            found += exchange()
        expect_in("ACKs without option", found.index(True), pause, pause + 1)
    expect("muted", peer.ns.counters()["muted"], 5)


def test_lost_ack_beside_probes():
    """A retransmission after a probe of INT or IFA pauses the option in ACKs only if the previous ACK carried an
    option.
    """
    need_virtual_time()
    for (carrier, cap), has_option in itertools.product(((2, CAP_INT), (3, CAP_IFA)), (False, True)):
        peer = Peer(carrier=carrier).connected(syn_option(caps=CAP_TELEMETRY | CAP_PROBES | cap))
        peer.send(option(FORWARD, [record(1, 100, 1)], 5, 1) if has_option else b"", bytes(1000))
        expect("option in the ACK", any(seg.ours() for seg in peer.read_all(0.05)), has_option)
        peer.sock.send(bytes(1000))
        for seg in peer.read_all(0.01):
            if len(seg.payload) == 1000:
                peer.acked = seg.seq + 1000
        peer.send()
        time.sleep(0.05)
        counters = peer.ns.counters()
        expect("probes", counters["int_sent"] + counters["ifa_sent"], 1)
        peer.send(option(FORWARD, [record(1, 200, 1)], 5, 1), bytes(1000), seq=peer.seq - 1000)
        answers = [bool(seg.ours()) for seg in peer.read_all(0.05) if seg.option(SACK_KIND)]
        expect(f"carrier {carrier}: option in the answer", answers, [not has_option])
        expect(f"carrier {carrier}: muted", peer.ns.counters()["muted"], int(has_option))


def test_duplicate_of_a_stranger():
    """A segment with a sequence number far from the window is not the peer's, and pauses nothing."""
    peer = Peer().connected()
    for turn in range(1, 5):
        peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        for phase in 0, 1:
            records = [record(3 * phase + slot, 100 * turn, 1) for slot in (1, 2, 3)]
            peer.send(option(FORWARD, records, 5, 6, phase), bytes(1000))
        # After the last ACK, some records are not echoed yet.
        ack = peer.read_all(0.05)[-1]
        expect("ACK", (ack.ack, [opt.type for opt in ack.ours()]), (peer.seq, [ECHO]))
        peer.raw(ACK, peer.seq - (turn << 28), 0, payload=bytes(1))
        expect("ACK of the answer", peer.read(0.1).ack, peer.seq)
        expect("muted", peer.ns.counters()["muted"], 0)


def test_both_ways_on_a_long_path():
    """With echoes, the 3 bits of phase select only 8 of 15 hops, but each hop is requested often enough."""
    peer = Peer().connected()
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.sock.send(bytes(100))
    peer.take()
    peer.send(option(ECHO, [record(1, 500, 100)], SCALE, 15))
    asked = dict.fromkeys(range(1, 16), 0)
    echoes = requests = 0
    for _ in range(120):
        peer.send(option(FORWARD, [record(1, 100, 1)], 5, 1), b"x" * 10)
        peer.sock.send(bytes(100))
        seg = peer.take()
        echoes += seg.telemetry(ECHO) is not None
        if not (forward := seg.telemetry(FORWARD)):
            continue
        requests += 1
        n, first = len(forward.words), (forward.flags & 7) * len(forward.words) + 1
        for hop in range(first, min(first + n, 16)):
            expect_in(f"requests since hop {hop} was last requested", requests - asked[hop], 1, 11)
            asked[hop] = requests
    expect_in("last request of the hop that waits longest", min(asked.values()), requests - 11, requests)
    expect_in("echoes", echoes, 80, 100)


def test_identify_until_all_answer():
    """Only links that have not answered are requested again: a delayed ACK echoes one of several IDENTIFYs."""
    flow = Flow(slots=1)
    flow.ns.ask()
    links = [Link(hop, tag=hop) for hop in (1, 2, 3)]

    def asked(want, *answers, rounds=200):
        """Send answers. Return the phases of the IDENTIFYs that follow, until all in `want` were seen."""
        flow.run()
        if answers:
            flow.send(option(IDENTIFY_ECHO, answers, SCALE, 3))
        found = set()
        while rounds and found != want:
            flow.ns.ask()
            flow.echo(links[0].step(9000, 0.9), hops=3)
            found |= {seg.ours()[0].flags & 7 for seg in data_segments(flow.run()) if seg.telemetry(IDENTIFY)}
            rounds -= 1
        return found

    for turn in "first", "second", "third":
        expect(f"{turn} turn", asked({0, 1, 2}), {0, 1, 2})
    asked(None, rounds=8)       # skip the rest of the first two turns, which request all links
    expect("phase of one link", asked(None, identity(1, 7, 2, 10, 1), identity(3, 9, 2, 10, 1), rounds=40), {1})
    expect("phases after all answers", asked(None, identity(2, 8, 2, 10, 1), rounds=40), set())
    expect("links", sorted(flow.ns.links()), [1, 2, 3])


def test_sack_blocks():
    """An echo has the records for which SACK leaves space; the other records follow in the next echo. SACK leaves space
    for one record: older blocks leave after three ACKs that reported them.
    """
    records = [record(1, 10, 1, 5), record(2, 20, 1, 90), record(3, 30, 1, 40)]
    for timestamps, blocks, stay, room in ((True, 1, 1, 1), (True, 2, 1, 1), (True, 3, 1, 1), (False, 1, 1, 3),
                                           (False, 2, 2, 2), (False, 3, 3, 1), (False, 4, 3, 1)):
        what = f"{blocks} blocks, timestamps {timestamps}"
        peer = Peer(timestamps=timestamps).connected()
        for block in range(1, blocks + 1):
            peer.send(option(FORWARD, records, 5, 3, PROMPT) if block == blocks else b"", b"x" * 1000,
                      seq=peer.seq + 2000 * block)
        seg = peer.read_all(0.01)[-1]
        again = 3 * (stay < min(blocks, 4 - timestamps))
        for more in range(again):
            peer.send(b"", b"x" * 100, seq=peer.seq + 2000 * blocks + 1000 + 100 * more)
            seg, = peer.read_all(0.01)
        expect(f"blocks with {what}", len(seg.option(SACK_KIND)), 2 + 8 * stay)
        echo = seg.telemetry(ECHO)
        words = [int.from_bytes(raw, "big") for raw in records]
        expect(f"records with {what}", echo.words if echo else [], words[:room])
        expect(f"no_room with {what}", peer.ns.counters()["no_room"], again)
        # filling the gaps makes space again
        peer.send(b"", b"x" * 2000)
        for block in range(blocks - 1):
            peer.seq += 1000
            peer.send(b"", b"x" * 1000)
        acks = peer.read_all(0.01)
        expect("SACK", acks[-1].option(5), None)
        echoes = [echo.words for ack in acks if (echo := ack.telemetry(ECHO))]
        expect(f"records after {what}", sum(echoes, []), words[room:])


def sack_blocks(seg):
    """Return the (left, right) of each SACK block of a segment."""
    raw = seg.option(SACK_KIND)[2:]
    return [struct.unpack("!II", raw[at:at + 8]) for at in range(0, len(raw), 8)]


def in_vrf(peer):
    """Let the kernel's address belong to a VRF: segments pass LOCAL_OUT twice."""
    peer.ns.ip("link add vrf0 type vrf table 10", "link set vrf0 up", "link set tun0 master vrf0")
    peer.ns.sysctl("net.ipv4.tcp_l3mdev_accept", 1)
    peer.ns.sysctl("net.ipv4.ip_nonlocal_bind", 1)


@cases(sack_turns_ipv4=(4,), sack_turns_ipv6=(6,), sack_turns_vrf=(4, in_vrf))
def sack_turns(version, where=lambda peer: None):
    """SACK blocks and echoes take turns. The first three ACKs after a gap report all blocks: if the peer got the end of
    a block only after later data, because ACKs are lost, it would take this for reordering.
    """
    peer = Peer(version=version)
    where(peer)
    peer.listen()
    peer.accept()
    ranges, got = [], []
    for at in 1, 3, 4, 5, 6, 7, 9, 10, 11, 12:
        at = peer.seq + 1000 * at
        ranges.insert(0, (ranges.pop(0)[0] if ranges and ranges[0][1] == at else at, at + 1000))
        peer.send(option(FORWARD, [record(1, at & 0xfff, 1)], 5, 1), b"x" * 1000, seq=at)
        seg, = peer.read_all(0.01)
        got.append((len(sack_blocks(seg)), bool(seg.telemetry(ECHO))))
        expect("blocks", sack_blocks(seg), ranges[:got[-1][0]])
    expect("blocks and echoes", got, [(1, True), *[(2, False)] * 3, (1, True), (2, False), *[(3, False)] * 3, (1, True)])
    expect("no_room", peer.ns.counters()["no_room"], 7)


def test_sack_of_several():
    """An ACK for several segments reports all blocks that changed: TCP compresses ACKs for two blocks."""
    need_virtual_time()
    peer = Peer().connected()
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    first = peer.seq
    for at in 2000, 3000, 4000:      # TCP does not compress the first three
        peer.send(b"", b"x" * 1000, seq=first + at)
        peer.read_all(0.01)
    for at in 5000, 10000:
        peer.send(option(FORWARD, [record(1, at, 1)], 5, 1), b"x" * 1000, seq=first + at)
    seg, = peer.read_all(0.01)
    expect("blocks", sack_blocks(seg), [(first + 10000, first + 11000), (first + 2000, first + 6000)])


def test_sack_of_a_duplicate():
    """An ACK that reports a duplicate above the gap has two blocks, and both stay: the first is a D-SACK."""
    peer = Peer().connected()
    start = peer.seq + 2000
    peer.send(b"", b"x" * 2000, seq=start)
    peer.read_all(0.01)
    peer.send(option(FORWARD, [record(1, 10, 1)], 5, 1), b"x" * 1000, seq=start)
    seg, = peer.read_all(0.01)
    expect("blocks, echo", (sack_blocks(seg), seg.telemetry(ECHO)), ([(start, start + 1000), (start, start + 2000)], None))
    expect("no_room", peer.ns.counters()["no_room"], 1)


def test_loss_and_reordering():
    """With losses and SACKs, which compete for the option space, all data arrive unchanged."""
    for version in 4, 6:
        pair = Pair(version, offload=False)
        listener = pair.listen()
        pair.connect(listener)      # resolve the neighbour: the kernel sends only three solicitations
        for ns in (pair.c, pair.s):
            ns.tc("qdisc add dev eth0 root netem delay 100us loss 3% reorder 98% gap 5 limit 9999")
        sniffer, (client, server) = Sniffer(pair.s), pair.connect(listener)
        seen = False
        # In real time it is random which packets are lost: about 7 in all.
        for _ in range(10):
            transfer((client, server, pattern(300000)), (server, client, pattern(200000, 5)))
            seen |= any(seg.option(5) for seg in sane_segments(sniffer) if not seg.flags & SYN)
            if seen and tcp_info(client)["retrans"]:
                break
        expect("SACK seen", seen, True)
        expect("retransmitted", tcp_info(client)["retrans"] > 0, True)
        no_errors(pair)


def exchanged(client, server, sniffer):
    """Send data both ways. Return all segments of the connection."""
    transfer((client, server, pattern(50000)), (server, client, pattern(50000, 3)))
    return sane_segments(sniffer)


def test_md5():
    pair = Pair()
    sniffer = Sniffer(pair.s)
    listener, client = pair.listen(), pair.c.socket()
    try:
        add_md5(listener, 4, pair.addr[0])
        add_md5(client, 4, pair.addr[1])
    except OSError as error:
        raise Skip(f"no TCP-MD5: {error}") from error
    client, server = pair.connect(listener, client=client)
    segments = exchanged(client, server, sniffer)
    expect("segments without a signature", [seg for seg in segments if not seg.option(MD5_KIND)], [])
    expect("our options", ours_in(segments), [])
    expect("syn_no_room", pair.c.counters()["syn_no_room"], 1)
    expect("congestion control", (get_cc(client), get_cc(server)), ("hpcc-classic", "hpcc-classic"))


def test_mptcp():
    """MPTCP uses the option space of its subflows: hpcc adds no options."""
    pair = Pair()
    sniffer = Sniffer(pair.s)
    client = pair.c.socket(4, IPPROTO_MPTCP)
    segments = exchanged(*pair.connect(pair.listen(proto=IPPROTO_MPTCP), client=client), sniffer)
    expect("MPTCP", all(seg.option(MPTCP_KIND) for seg in segments if seg.flags & SYN), True)
    expect("our options", ours_in(segments), [])


def test_mptcp_meets_tcp():
    """If only one end uses MPTCP, plain TCP works, with telemetry only if both agreed."""
    for mptcp_at_client in True, False:
        pair = Pair()
        sniffer = Sniffer(pair.s)
        client = pair.c.socket(4, IPPROTO_MPTCP if mptcp_at_client else 0)
        listener = pair.listen(proto=0 if mptcp_at_client else IPPROTO_MPTCP)
        segments = exchanged(*pair.connect(listener, client=client), sniffer)
        synack = [seg for seg in segments if seg.flags & SYN][-1]
        expect("MPTCP", synack.option(MPTCP_KIND), None)
        carried = bool(ours_in([seg for seg in segments if not seg.flags & SYN]))
        agreed = bool(ours_in([segments[0]]) and ours_in([synack]))
        expect("telemetry without an agreement", carried and not agreed, False)


def test_vlan():
    """Options work through VLAN devices, with the tag in the frame and beside it."""
    for offload in True, False:
        pair = Pair(delay="50us", sample=0)
        for ns, addr in ((pair.c, "10.5.0.1"), (pair.s, "10.5.0.2")):
            if not offload:
                ns.run("ethtool", "-K", "eth0", "txvlan", "off", "tx", "off", "tso", "off", "gso", "off")
            ns.ip("link add link eth0 name eth0.5 type vlan id 5",
                  f"addr add {addr}/24 dev eth0.5", "link set eth0.5 up")
        pair.addr = ("10.5.0.1", "10.5.0.2")
        inner, outer = Sniffer(pair.s, "eth0.5"), Sniffer(pair.s)
        client, server = pair.connect()
        transfer((client, server, pattern(100000)), (server, client, pattern(50000, 3)))
        for sniffer in inner, outer:
            expect("data without FORWARD", without_request(sane_segments(sniffer)), [])
        expect("tags in frames", outer.vlan > 0, not offload)
        no_errors(pair)


def test_mtu_shrinks():
    pair = Pair(offload=False, delay="50us", sample=0)
    sniffer, (client, server) = Sniffer(pair.s), pair.connect()
    transfer((client, server, pattern(50000)))
    sniffer.segments()
    for ns in (pair.c, pair.s):
        ns.ip("link set eth0 mtu 1300")
    segments = exchanged(client, server, sniffer)
    expect("largest packet", max(seg.total for seg in segments), 1300)
    expect("data without FORWARD", without_request(segments), [])
    no_errors(pair)


def test_loopback():
    """With an MTU of 64 KB the length of a packet fits into 16 bits, or is not stated."""
    for version, host in ((4, "127.0.0.1"), (6, "::1")):
        ns = Netns(base_rtt_ns=1000000, host_mbps=100000, sample=0)
        ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
        sniffer = Sniffer(ns, "lo")
        client, server = meet(ns.socket(version), ns.listen(host))
        transfer((client, server, pattern(1000000)), (server, client, pattern(300000, 4)))
        segments = sane_segments(sniffer, 2 * 65535)
        expect_in("largest packet", max(seg.total for seg in segments), 30000, 2 * 65535)
        expect("data without FORWARD", without_request(segments), [])
        expect("InCsumErrors", ns.snmp("InCsumErrors"), 0)
        server.close()


@cases(big_tcp=(b"",), big_tcp_with_options=(bytes((0, 0, 1, 4, 0, 0, 0, 0)),))      # PadN
def big_tcp(own):
    """GSO packets beyond 64 KB carry telemetry, and a socket's own hop-by-hop options unchanged."""
    pair = Pair(6, delay="200us", burst=64, host_mbps=100000, sample=0)
    for ns in (pair.c, pair.s):
        error = ns.run("ip", "link", "set", "eth0", "gso_max_size", "200000", check=False)
        if error.strip():
            raise Skip(f"no BIG TCP: {error.strip()}")
    sniffer, (client, server) = Sniffer(pair.s), pair.connect()
    if own:
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, own)
    transfer((client, server, pattern(3000000)))
    segments = sniffer.segments() if own else sane_segments(sniffer)
    no_errors(pair)
    if max(seg.total for seg in segments) < 1 << 16:
        raise Skip("no packet was longer than 64 KB")
    if own:
        first = (seg.packet[48 if seg.packet[42] == 0xc2 else 40:][1:8] for seg in data_segments(segments))
        expect("options", set(first), {own[1:]})
    else:
        expect("data without FORWARD", without_request(segments), [])


def test_reset():
    peer = Peer().connected()
    peer.send(option(FORWARD, [record(1, 5, 5)], 5, 1), b"x" * 100)
    peer.read_all(0.1)
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    peer.send(option(FORWARD, [record(1, 9, 9)], 5, 1), b"x" * 100)
    peer.sock.close()       # with data unread
    resets = [seg for seg in peer.read_all(0.1) if seg.flags & RST]
    expect("RST", len(resets), 1)
    expect("options", ours_in(resets), [])


def test_idle_segments():
    """Keepalives and window updates get no option if there is nothing to send in it."""
    peer = Peer().connected()
    peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    probe = peer.read(3)
    expect("keepalive", (probe.payload, probe.seq), (b"", (peer.acked - 1) & 0xffffffff))
    expect("options", ours_in([probe]), [])


def test_zero_window_probe():
    peer = Peer(patient=False).connected()
    peer.window = 0
    peer.send()
    peer.sock.send(bytes(5000))
    probes = [peer.read(60) for _ in range(3)]
    expect("probes", [len(seg.payload) for seg in probes], [0, 0, 0])
    expect("options", ours_in(probes), [])
    peer.window = 65535
    peer.send()
    got = 0
    while (seg := peer.take(0.5)) and got < 5000:
        got += len(seg.payload)
        peer.send()
    expect("bytes", got, 5000)


def asked(segments):
    return [bool({opt.type for opt in seg.ours()} & {FORWARD, IDENTIFY}) for seg in segments if seg.payload]


def expect_all_ask(what, flow):
    """Fail unless all data segments that the kernel sends now carry a request."""
    found = asked(flow.run())
    expect(f"{what}: a request on all of {len(found)} segments", all(found) and bool(found), True)


def requests(ns):
    """Return how many requests were sent. A TSO packet counts as one, though each of its segments has the option."""
    counters = ns.counters()
    return counters["forward_sent"] + counters["identify_sent"]


def test_sample():
    """A flow sends `sample` requests per T; at first, while U is above 1, and after an RTO each segment has a request.
    """
    need_virtual_time()
    for sample in 8, 1:
        flow, link = Flow(sample=sample), Link()
        for turn in range(2):
            expect_all_ask(f"round {turn}", flow)
            flow.echo(link.step(9000, 0.9))
        for _ in range(8):
            flow.round(link.step(9000, 0.9))
        flow.run()
        before = requests(flow.ns)
        flow.echo(link.step(9000, 0.9))
        some = asked(flow.run())
        # The kernel sends W bytes within T, so at the end of T another request may be due.
        expect_in(f"{len(some)} segments, requests", requests(flow.ns) - before, sample, sample + 1)
        expect("all segments have requests", all(some), False)
        for _ in range(3):
            flow.echo(link.step(9000, 1.0, 0.5))
            flow.run()
        flow.echo(link.step(9000, 1.0, 0.5))
        expect_all_ask("while U is above 1", flow)
        expect_in("U", flow.flow()["U_permille"], 1001, 3000)


def test_sample_of_classic():
    """Classic sends as many requests as hpcc does; after the return each segment carries a request."""
    need_virtual_time()
    flow = Flow(sample=4)
    flow.run()
    while flow.cc() == "hpcc":
        flow.send()
        flow.run()
    for _ in range(4):
        before = requests(flow.ns)
        flow.send()
        some = asked(flow.run())
    expect_in(f"{len(some)} segments, requests", requests(flow.ns) - before, 1, 4)
    expect("all segments have requests", all(some), False)
    link = Link()
    flow.echo(link.step(9000, 0.5))
    flow.echo(link.step(9000, 0.5))
    expect("congestion control", flow.cc(), "hpcc")
    expect_all_ask("after the return", flow)


main()
