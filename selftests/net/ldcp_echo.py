#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/ldcp/echo.c: a receiver echoes CE per packet; without ECN, or with another sender, it behaves as plain TCP."""

import os
import random
import socket
import time

from lib.held import HeldRead
from lib.kernel import release, virtual_time
from lib.ktap import cases, expect, expect_in, expect_rate, main
from lib.net import Pair
from lib.packet import ACK, CWR, ECE, Sniffer
from lib.peer import HOST_MBPS, LINK_MBPS, LdcpFlow
from lib.tcp import get_cc, goodput_mbps, pattern, set_cc, transfer

NOT_ECT, ECT, CE = 0, 2, 3
SIZE = 1448
# A slower link marks at a shorter queue.
MARKS = f"hpcc rate {LINK_MBPS}mbit delay 20us " \
    f"marking ldcp kmin {8000 * LINK_MBPS // HOST_MBPS} kmax {40000 * LINK_MBPS // HOST_MBPS}"
ACK_DEFER = "/proc/sys/net/ipv4/tcp_backlog_ack_defer"


def delay_acks(flow):
    """Let the kernel delay ACKs as in the middle of a connection, although no process reads the data."""
    flow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 20)
    flow.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)


def acks_now(flow):
    """Return the pure ACKs that the kernel has sent: [(segments covered, ECE), ...]."""
    found = []
    while (seg := flow.read(0)):
        expect("pure ACK", (len(seg.payload), seg.flags & ~ECE), (0, ACK))
        covered, flow.prev_ack = (seg.ack - flow.prev_ack) // SIZE, seg.ack
        found.append((covered, bool(seg.flags & ECE)))
    return found


def sends(flow, fields, flags=ACK):
    """Send a segment for each ECN field. Return for each one the ACKs that followed: [(segments covered, ECE), ...]."""
    found = []
    for field in fields:
        flow.send(payload=bytes(SIZE), ecn=field, flags=flags)
        found.append(acks_now(flow))
    return found


def begin(cc=None, route="", **how):
    """Return a flow whose kernel receives from us. Its ACKs are delayed, and counted from here."""
    flow = LdcpFlow(**how)
    if route:
        flow.ns.ip(f"route add {'10.9.0.2/32' if flow.version == 4 else 'fd09::2/128'} dev tun0 {route}")
    flow.connect(**({"cc": cc} if cc else {}))
    delay_acks(flow)
    flow.prev_ack = flow.seq
    return flow


# Without marks two segments get one ACK; each marked segment gets an ACK with ECE at once. When the state changes, a
# held ACK leaves first with the old state, then the ACK of the marked packet. CWR requests an ACK at once, and does not
# clear ECE.
@cases(unmarked=([ECT] * 8, [[], [(2, False)]] * 4), marked=([CE] * 5, [[(1, True)]] * 5),
       change_while_an_ack_is_held=([ECT, ECT, ECT, CE, CE, ECT],
                                    [[], [(2, False)], [], [(1, False), (1, True)], [(1, True)], []]),
       change_while_none_is_held=([ECT, ECT, CE, ECT, CE], [[], [(2, False)], [(1, True)], [], [(1, False), (1, True)]]),
       cwr_from_the_sender=([ECT, ECT, CE, CE, ECT],
                            [[(1, False)], [(1, False)], [(1, True)], [(1, True)], [(1, False)]], ACK | CWR))
def echoes(fields, acks, *flags):
    expect("ACKs", sends(begin(), fields, *flags), acks)


def agrees(flow, fields, acks):
    """Fail unless ACKs cover each packet, each ACK covers one kind, and each marked packet is acknowledged at once."""
    at = 0
    for number, found in enumerate(acks):
        for covered, ece in found:
            kinds = {field == CE for field in fields[at:at + covered]}
            expect(f"packets {at} to {at + covered}", kinds, {ece})
            at += covered
        expect_in("packets without an ACK", number + 1 - at, 0, 1)
        if fields[number] == CE:
            expect(f"packets covered after {number}", at, number + 1)


def test_any_pattern():
    """With marks in any pattern the ACKs show for each packet whether it was marked."""
    for version in 4, 6:
        for share in 0.1, 0.5, 0.9:
            rng = random.Random(share)
            flow = begin(version=version)
            fields = [CE if rng.random() < share else ECT for _ in range(300)]
            agrees(flow, fields, sends(flow, fields))


def test_quickack_route():
    """With "quickack 1" on the route each packet gets an ACK."""
    for version in 4, 6:
        flow = begin(version=version, route="quickack 1")
        fields = [CE if i % 7 in (2, 3, 5) else ECT for i in range(60)]
        expect("ACKs", sends(flow, fields), [[(1, field == CE)] for field in fields])


def test_held_ack_leaves_later():
    """If no packet follows, the delayed ACK has the ECE flag of the packets that it covers."""
    flow = begin()
    for fields, acks in ([CE, ECT], [[(1, True)], []]), ([ECT], [[]]):
        expect("ACKs", sends(flow, fields), acks)
        seg = flow.read(0.3)
        expect("ACK", (seg.ack, bool(seg.flags & ECE)), (flow.seq, False))
        flow.prev_ack = flow.seq
        delay_acks(flow)        # after a late ACK TCP expects few packets, and would send quick ACKs


def test_on_data():
    """ECE on data segments of the receiver has the same meaning."""
    flow = begin()
    flow.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for field in CE, ECT:
        sends(flow, [field])
        flow.sock.send(b"x")
        expect(f"after {field}", bool(flow.take().flags & ECE), field == CE)


def test_while_the_owner_reads():
    """Packets that arrive while a process owns the socket are acknowledged one by one, also since Linux 6.7."""
    for fields in [ECT, CE, ECT], [CE, ECT, CE, CE], [CE, ECT, ECT, CE, CE, ECT, CE, ECT]:
        flow = begin()
        sends(flow, [ECT] * 4)
        owner = HeldRead(flow.sock)
        expect("ACKs before the read ends", sends(flow, fields), [[]] * len(fields))
        expect_in("bytes read", owner.release(), 1, 4 * SIZE)
        at = 0
        for covered, ece in acks_now(flow):
            expect(f"{fields}: ECE of {at} to {at + covered}",
                   {field == CE for field in fields[at:at + covered]} - {ece}, set())
            at += covered
        expect_in("packets acknowledged", at, len(fields) - 1, len(fields))


def test_first_rtt_packets():
    """Not-ECT packets before the tail cause no empty ACK, and CE on the tail is echoed."""
    for tail in ECT, CE:
        flow = begin()
        echoed = [ack for count in (1, 2, 3, 5) for found in sends(flow, [NOT_ECT] * count + [tail]) for ack in found]
        covered = sum(covered for covered, _ in echoed)
        expect("empty ACKs", [covered for covered, _ in echoed if covered <= 0], [])
        expect_in("packets acknowledged", covered, 14, 15)
        expect("ECE for the tail", echoed[-1][1] if covered == 15 else tail == CE, tail == CE)


def test_out_of_order():
    """The ACK for a packet behind a gap echoes its mark as well."""
    flow = begin()
    flow.seq += SIZE
    for field in CE, ECT:
        flow.send(payload=bytes(SIZE), ecn=field)
        ack = flow.read_all()[-1]
        expect("ACK", (ack.ack, bool(ack.flags & ECE)), (flow.prev_ack, field == CE))


def test_without_ecn():
    """Without ECN the receiver ignores CE."""
    flow = begin(ecn=False)
    expect("congestion control", flow.cc(), "ldcp-classic")
    found = sends(flow, [CE, CE, ECT, CE, ECT, CE])
    expect("ECE", {ece for acks in found for _, ece in acks}, {False})
    expect("ACKs", found, [[], [(2, False)]] * 3)


def test_chosen_in_mid_connection():
    """The socket selects ldcp in the middle of a connection: it echoes correctly from the first segment on."""
    flow = begin("dctcp")
    expect("dctcp", sends(flow, [ECT, ECT, CE]), [[], [(2, False)], [(1, True)]])
    set_cc(flow.sock, "ldcp")
    expect("congestion control", flow.cc(), "ldcp")
    fields = [ECT, CE, CE, ECT, ECT, CE, ECT]
    agrees(flow, fields, sends(flow, fields))


def test_tells_what_dctcp_tells():
    """ldcp and dctcp echo the same marks, packet by packet."""
    rng = random.Random(7)
    fields, echoed = [rng.choice((ECT, CE)) for _ in range(200)] + [CE], []
    for cc in "ldcp", "dctcp":
        flow = begin(cc)
        expect("congestion control", flow.cc(), cc)
        echoed.append([ece for found in sends(flow, fields) for covered, ece in found for _ in range(covered)])
        expect(f"packets acknowledged by {cc}", len(echoed[-1]) >= 200, True)
    expect("marks", echoed[0][:200], echoed[1][:200])


def marking(pair_of, **how):
    """Return two kernels with a link between them that marks, and a connection."""
    pair = Pair(cc=("ldcp", "ldcp"), ldcp={"fast_start": 0}, qdisc=MARKS, **how)
    client, server = pair.connect(pair.listen(cc=pair_of[1]), cc=pair_of[0])
    expect("congestion controls", (get_cc(client), get_cc(server)), pair_of)
    return pair, client, server


def share_of(ends, nbytes):
    """Send data. Return the share of the link that the data use."""
    return goodput_mbps(*ends, nbytes) / LINK_MBPS


def test_between_kernels():
    """With ldcp and dctcp at both ends, in each combination with ldcp, the link is used and no packet is lost."""
    for pair_of in ("ldcp", "ldcp"), ("ldcp", "dctcp"), ("dctcp", "ldcp"):
        pair, *ends = marking(pair_of)
        # Since Linux 6.7 dctcp misses marks of packets that wait while a process owns the socket.
        if pair_of[1] == "dctcp" and os.path.exists(ACK_DEFER):
            pair.s.sysctl("net.ipv4.tcp_backlog_ack_defer", 0)
        sniffer = Sniffer(pair.s)
        expect_rate(f"share of the link, {pair_of}", share_of(ends, 3000000), 0.8, 0.96)
        expect(f"RTOs, {pair_of}", pair.c.snmp("TcpExtTCPTimeouts"), 0)
        if virtual_time():
            expect(f"retransmissions, {pair_of}", pair.c.snmp("RetransSegs"), 0)
        segments = sniffer.segments()
        # In bytes: the size of segments depends on the sender and its timers.
        marked = sum(len(seg.payload) for seg in segments if seg.ecn == CE)
        expect_in(f"marked, {pair_of}", marked, 20 * 1448, 3000000)
        # An ACK with ECE that covers n bytes echoes about n marked bytes.
        acks = [seg for seg in segments if seg.sport == 5000 and not seg.payload]
        echoed = sum(seg.ack - last.ack for last, seg in zip(acks, acks[1:]) if seg.flags & ECE)
        expect_in(f"echoed, {pair_of}", echoed, marked - 4 * 1448, marked + 4 * 1448)


def test_plain_receiver():
    """A receiver with cubic echoes ECE until CWR arrives (RFC 3168): the window falls, and the flow continues."""
    pair, client, server = marking(("ldcp", "ldcp"))
    transfer((client, server, pattern(10000)))
    set_cc(server, "cubic")
    share = share_of((client, server), 5000000)
    expect("congestion control", get_cc(client), "ldcp")
    expect_rate("share of the link", share, 0.3, 0.96)
    expect("RTOs", pair.c.snmp("TcpExtTCPTimeouts"), 0)


def accurate(**how):
    """Return a pair that negotiates AccECN, with cubic at the receiver; or None before Linux 6.18."""
    pair = Pair(cc=("ldcp", "cubic"), ldcp={"fast_start": 0}, **how)
    try:
        for ns in pair.c, pair.s:
            ns.sysctl("net.ipv4.tcp_ecn", 3)
    except OSError:
        expect_in("kernel without AccECN", release(), (6, 1), (6, 17))
        return None
    return pair


def test_accurate_receiver():
    """AccECN reports each mark, without our module at the receiver."""
    pair = accurate(qdisc=MARKS)
    if not pair:
        return
    client, server = pair.connect()
    expect("congestion controls", (get_cc(client), get_cc(server)), ("ldcp", "cubic"))
    sniffer = Sniffer(pair.s)
    expect_rate("share of the link", share_of((client, server), 3000000), 0.8, 0.96)
    expect("RTOs", pair.c.snmp("TcpExtTCPTimeouts"), 0)
    # The sniffer records a GSO packet of several marked segments as one packet.
    marked = sum(-(-len(seg.payload) // SIZE) for seg in sniffer.segments() if seg.ecn == CE)
    expect_in("marked", marked, 20, 3000000 // SIZE)
    expect_in("echoed", pair.c.counters("ldcp")["marked"], marked - 8, marked + 8)


SMALL = f"hpcc rate {LINK_MBPS}mbit delay 20us marking ldcp kmin 1000 kmax 3100"


# If the ACK of one of two packets reduces the window to one, the other packet is also acknowledged at once. With AccECN
# a sender cannot request an ACK by CWR.
@cases(small_windows=(Pair, {"cc": ("ldcp", "ldcp"), "ldcp": {"fast_start": 0}}), accurate_small_windows=(accurate, {}))
def small_windows(hosts, how):
    """Eight flows share a link, with less than one packet in flight each: no ACK is delayed."""
    pair = hosts(qdisc=SMALL, **how)
    if not pair:
        return
    listener = pair.listen()
    flows = [pair.connect(listener) for _ in range(8)]
    began = time.monotonic()
    transfer(*[(*ends, pattern(300000, i)) for i, ends in enumerate(flows)])
    took = time.monotonic() - began
    expect_in("below one", pair.c.counters("ldcp")["below_one"], 8, 100000)
    expect_in("delayed ACKs", pair.s.snmp("TcpExtDelayedACKs"), 0, 1)
    expect_rate("share of the link", 8 * 2.4 / LINK_MBPS / took, 0.7, 0.96)


def test_plain_sender():
    """A cubic sender with ECN reacts to the marks that an ldcp receiver echoes."""
    pair = Pair(cc=("cubic", "ldcp"), qdisc=MARKS)
    pair.c.sysctl("net.ipv4.tcp_ecn", 1)
    ends = pair.connect()
    expect("receiver", get_cc(ends[1]), "ldcp")
    expect_rate("share of the link", share_of(ends, 3000000), 0.5, 0.96)
    if virtual_time():
        expect("retransmissions", pair.c.snmp("RetransSegs"), 0)


main(modules=["tcp_ldcp", "sch_hpcc"])
