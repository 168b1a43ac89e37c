#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/hook/syn.c: which ends agree, and what a handshake looks like on the wire."""

import os
import socket
import struct
import time

from lib.ktap import Skip, cases, expect, expect_in, main, need_virtual_time
from lib.net import Netns, Pair, meet
from lib.packet import (ACK, CAP_QUIET, CAP_TELEMETRY, CWR, ECE, EXID, KIND, RST, SYN, Sniffer,
                        ours_in, sane, syn_option)
from lib.peer import Peer
from lib.tcp import disconnect, get_cc, pattern, set_cc, transfer

SYN_BYTES = bytes([253, 6, 0x48, 0x43, 0x10, 0x03])
# Which segments have the option: SYN, SYN-ACK, others
NONE, OFFER, ALL = (False, False, False), (True, False, False), (True, True, True)


def outcome(pair, client, server, sniffer, nbytes=30000):
    """Exchange data in both directions and close. Return whether our option was in (the SYN, the
    SYN-ACK, any other segment), and the counter agreed of c and s, and both congestion controls.
    """
    # No switch stamps: a flow would fall back if its data took more than four round trips. So the
    # names are read first.
    names = get_cc(client), get_cc(server)
    transfer((client, server, pattern(nbytes)), (server, client, pattern(nbytes, 7)))
    client.close()
    server.close()
    segments = sniffer.segments()
    sane(segments)
    syn = [seg for seg in segments if seg.flags & (SYN | ACK) == SYN]
    synack = [seg for seg in segments if seg.flags & SYN and seg.flags & ACK]
    rest = [seg for seg in segments if not seg.flags & SYN]
    carried = tuple(bool(ours_in(part)) for part in (syn, synack, rest))
    return carried, tuple(ns.counters()["agreed"] for ns in (pair.c, pair.s)), names


def compare(pair, ends, sniffer, carried, names):
    """Fail unless these segments carried the option, and the ends run these congestion controls."""
    agreed = int(carried == ALL)
    expect("option in SYN, SYN-ACK, rest; agreed; congestion controls", outcome(pair, *ends, sniffer),
           (carried, (agreed, agreed), names))


def handshake(pair, carried, names, **how):
    """Connect, and compare()."""
    sniffer = Sniffer(pair.s)
    compare(pair, pair.connect(**how), sniffer, carried, names)


@cases(both_ipv4=(4,), both_ipv6=(6,))
def both(version):
    """Both ends run hpcc: they agree."""
    pair = Pair(version)
    sniffer = Sniffer(pair.s)
    client, server = pair.connect()
    segments = sniffer.segments()
    for seg in segments[:2]:
        expect(f"option in {seg}", seg.option(KIND), SYN_BYTES)
        expect("padding", seg.options[-8:], SYN_BYTES + b"\1\1")
    expect("flags", [seg.flags & (SYN | ACK) for seg in segments[:2]], [SYN, SYN | ACK])
    sane(segments)
    expect("modes", (get_cc(client), get_cc(server)), ("hpcc", "hpcc"))
    carried, agreed, _ = outcome(pair, client, server, sniffer)
    expect("agreed", agreed, (1, 1))
    expect("telemetry", carried[2], True)
    for ns in (pair.c, pair.s):
        expect("syn_sent", ns.counters()["syn_sent"], 1)
        expect("not_agreed", ns.counters()["not_agreed"], 0)


def test_both_without_checksum_offload():
    pair = Pair(offload=False)
    sniffer = Sniffer(pair.s)
    client, server = pair.connect()
    expect("computed by the host", [seg.partial for seg in sniffer.segments()[:2]], [False, False])
    expect("agreed", outcome(pair, client, server, sniffer)[1], (1, 1))


def test_only_client():
    pair = Pair(cc=("hpcc", "cubic"))
    handshake(pair, OFFER, ("hpcc-classic", "cubic"))
    expect("not_agreed", pair.c.counters()["not_agreed"], 1)


def test_only_server():
    handshake(Pair(cc=("cubic", "hpcc")), NONE, ("cubic", "hpcc-classic"))


def test_neither():
    handshake(Pair(cc=("cubic", "cubic")), NONE, ("cubic", "cubic"))


def test_route_of_server():
    """The listener runs cubic, but the route to the client names hpcc: both ends agree."""
    pair = Pair(cc=("hpcc", "cubic"))
    pair.s.ip("route replace 10.0.0.0/24 dev eth0 congctl hpcc")
    handshake(pair, ALL, ("hpcc", "hpcc"))


def test_route_of_server_against_listener():
    """The listener runs hpcc, but the route to the client names cubic: the ends do not agree."""
    pair = Pair()
    pair.s.ip("route replace 10.0.0.0/24 dev eth0 congctl cubic")
    handshake(pair, OFFER, ("hpcc-classic", "cubic"))


def test_route_of_client():
    pair = Pair(6, cc=("cubic", "hpcc"))
    pair.c.ip("route del fd00::/64 dev eth0", "route add fd00::/64 dev eth0 congctl hpcc")
    handshake(pair, ALL, ("hpcc", "hpcc"))


def test_sockets():
    """Listener and client select hpcc by setsockopt() before the handshake: they agree."""
    pair = Pair(cc=("cubic", "cubic"))
    handshake(pair, ALL, ("hpcc", "hpcc"), listener=pair.listen(cc="hpcc"), cc="hpcc")


def test_set_after_handshake():
    """A socket that selects hpcc after the handshake has not agreed."""
    pair = Pair(cc=("cubic", "hpcc"))
    sniffer = Sniffer(pair.s)
    ends = pair.connect()
    set_cc(ends[0], "hpcc")
    compare(pair, ends, sniffer, NONE, ("hpcc-classic", "hpcc-classic"))


def test_loopback():
    """Both ends are in one namespace: the handshake table has an entry for each of them."""
    ns = Netns()
    ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
    listener = ns.listen("127.0.0.1")
    ends = []
    for _ in range(100):
        ends.append(meet(ns.socket(), listener))
    expect("agreed", ns.counters()["agreed"], 200)
    expect("flows", len(ns.flows()), 200)
    for client, server in ends:
        client.close()
        server.close()
    ns.expect_no_flows()


def test_mapped_addresses():
    """Both ends are IPv6 sockets that use IPv4: they agree."""
    pair = Pair()
    sniffer = Sniffer(pair.s)
    ends = meet(pair.c.socket(6), pair.s.listen("::"), ("::ffff:10.0.0.2", 5000))
    compare(pair, ends, sniffer, ALL, ("hpcc", "hpcc"))


def test_simultaneous_open():
    """Two SYNs cross: both ends have offered, and neither has accepted, so they do not agree."""
    peer = Peer()
    peer.start_connect()
    peer.raw(SYN, peer.seq, 0, peer.syn_options(syn_option()))
    synack = peer.read(0.1)
    expect("flags", synack.flags & (SYN | ACK), SYN | ACK)
    expect("option in SYN-ACK", synack.option(KIND), None)
    peer.raw(SYN | ACK, peer.seq, peer.acked, peer.syn_options(b""))
    peer.seq += 1
    peer.send()
    peer.sock.send(bytes(3000))
    segments = [seg for seg in peer.read_all(0.1) if seg.payload]
    expect("data sent", bool(segments), True)
    expect("options", ours_in(segments), [])
    expect("congestion control", peer.cc(), "hpcc-classic")


def test_exid_and_kind_configured():
    pair = Pair(option_exid=0xbeef, option_kind=254)
    sniffer = Sniffer(pair.s)
    client, server = pair.connect()
    wanted = syn_option(exid=0xbeef, kind=254, caps=CAP_TELEMETRY | CAP_QUIET)
    for seg in sniffer.segments()[:2]:
        expect("option", seg.option(254), wanted)
    transfer((client, server, pattern(30000)))
    segments = sniffer.segments()
    expect("telemetry", bool(ours_in(segments, 254)), True)
    expect("default kind", ours_in(segments), [])


def test_exid_mismatch():
    pair = Pair()
    pair.s.sysctl("net.hpcc.option_exid", EXID + 1)
    handshake(pair, OFFER, ("hpcc-classic", "hpcc-classic"))
    # An option with another ExID belongs to another experiment, and is not counted as invalid.
    expect("syn_invalid", pair.s.counters()["syn_invalid"], 0)


def test_kind_mismatch():
    pair = Pair()
    pair.s.sysctl("net.hpcc.option_kind", 254)
    handshake(pair, OFFER, ("hpcc-classic", "hpcc-classic"))


def test_kind_changed():
    """A connection keeps the option kind of its handshake after the sysctl has changed, even before its first data."""
    def kinds(peer):
        peer.sock.send(bytes(100))
        segment = peer.read(0.1)
        peer.acked += 100
        peer.send()
        return [kind for kind in (253, 254) if segment.option(kind)]

    peer = Peer().listening()
    expect("SYN-ACK", peer.start_accept().option(253), SYN_BYTES)
    peer.ns.sysctl("net.hpcc.option_kind", 254)
    synack = peer.read(3)
    expect("SYN-ACK again", (synack.option(253), synack.option(254)), (SYN_BYTES, None))
    peer.accepted()
    expect("accepted", kinds(peer), [253])
    set_cc(peer.sock, "cubic")
    set_cc(peer.sock, "hpcc")
    expect("there and back", kinds(peer), [253])
    for answer, agreed in (253, [253]), (254, []):
        peer = Peer()
        peer.start_connect()
        peer.ns.sysctl("net.hpcc.option_kind", 254)
        peer.answer(syn_option(kind=answer))
        expect(f"connected, answered by {answer}", kinds(peer), agreed)
        expect("congestion control", peer.cc(), "hpcc" if agreed else "hpcc-classic")


BAD_SYN_OPTIONS = {
    "version 0": syn_option(version=0),
    "version 2": syn_option(version=2),
    "no capability": syn_option(caps=0),
    "no capability but one": syn_option(caps=0x80),
    "length 4": syn_option(length=4),
    "length 5": syn_option(length=5),
    "length 7": syn_option(length=7),
    "length 12": syn_option(length=12),
}


# Options of other experiments beside ours: TCP Fast Open as an experiment (RFC 6994), SMC,
# and one that is too short for an ExID.
OTHERS = b"\xfd\x04\xf9\x89" + b"\xfd\x06\xe2\xd4\xc3\xd9" + b"\xfd\x02"


def test_other_experiments():
    """Options of the same kind with another ExID do not matter, before ours, after ours or alone."""
    peer = Peer().listening()
    peer.timestamps = False
    for number, (ours, mode) in enumerate(((OTHERS + syn_option(), "hpcc"),
                                           (syn_option() + OTHERS, "hpcc"),
                                           (OTHERS, "hpcc-classic")), 1):
        ours += b"\1" * (-len(ours) % 4)
        peer.port, peer.lport = 7000 + number, 5000
        sock = peer.accept(ours)[1]
        expect(f"{number}: server", get_cc(sock), mode)
        peer.start_connect(port=8000 + number)
        peer.answer(ours)
        expect(f"{number}: client", peer.cc(), mode)
    expect("syn_invalid", peer.ns.counters()["syn_invalid"], 0)


def test_bad_option_in_syn():
    peer = Peer().listening()
    for number, (what, ours) in enumerate(BAD_SYN_OPTIONS.items(), 1):
        peer.port = 7000 + number
        synack, sock = peer.accept(ours)
        expect(f"{what}: option in SYN-ACK", synack.option(KIND), None)
        expect(f"{what}: congestion control", get_cc(sock), "hpcc-classic")
        expect(f"{what}: syn_invalid", peer.ns.counters()["syn_invalid"], number)
    expect("agreed", peer.ns.counters()["agreed"], 0)


def test_bad_option_in_synack():
    peer = Peer()
    for number, (what, ours) in enumerate(BAD_SYN_OPTIONS.items(), 1):
        peer.start_connect(port=7000 + number)
        last = peer.answer(ours)
        expect(f"{what}: option in ACK", last.option(KIND), None)
        expect(f"{what}: congestion control", peer.cc(), "hpcc-classic")
        expect(f"{what}: syn_invalid", peer.ns.counters()["syn_invalid"], number)
    expect("agreed", peer.ns.counters()["agreed"], 0)


def test_more_capabilities():
    """A peer that offers additional, unknown capabilities is accepted."""
    peer = Peer().connected(syn_option(caps=0xff))
    expect("congestion control", peer.cc(), "hpcc")


def test_bad_checksum_in_synack():
    """A SYN-ACK with a wrong checksum, which TCP discards, makes no agreement."""
    peer = Peer()
    peer.start_connect()
    peer.raw(SYN | ACK, peer.seq, peer.acked, peer.syn_options(syn_option()), bad_csum=True)
    expect("answer", peer.read(0.05), None)
    peer.answer(b"")
    expect("congestion control", peer.cc(), "hpcc-classic")
    expect("agreed", peer.ns.counters()["agreed"], 0)


def test_bad_checksum_in_syn():
    peer = Peer().listening()
    expect("answer", peer.start_accept(bad_csum=True), None)
    synack, sock = peer.accept(b"")
    expect("option in SYN-ACK", synack.option(KIND), None)
    expect("congestion control", get_cc(sock), "hpcc-classic")


def test_synack_not_asked_for():
    """The SYN had no option: a SYN-ACK with one makes no agreement, even if the socket selects hpcc later."""
    peer = Peer(cc="cubic").connected(syn_option())
    expect("option in SYN", peer.syn.option(KIND), None)
    set_cc(peer.sock, "hpcc")
    expect("congestion control", peer.cc(), "hpcc-classic")
    peer.sock.send(bytes(5000))
    expect("options", ours_in(peer.read_all(0.01)), [])
    expect("agreed", peer.ns.counters()["agreed"], 0)


def test_syn_not_offered():
    """The SYN has no option, so the SYN-ACK has none."""
    peer = Peer().listening()
    synack, sock = peer.accept(b"")
    expect("option in SYN-ACK", synack.option(KIND), None)
    sock.send(bytes(5000))
    expect("options", ours_in(peer.read_all(0.01)), [])
    expect("syn_invalid", peer.ns.counters()["syn_invalid"], 0)


def test_lost_syns():
    """The third SYN has no option: a SYN-ACK with the option that answers an earlier one makes no agreement."""
    peer = Peer()
    peer.start_connect()
    syns = [peer.syn, peer.read(3), peer.read(6), peer.read(12)]
    expect("SYNs", [seg.flags & (SYN | ACK) for seg in syns], [SYN] * 4)
    expect("option", [bool(seg.option(KIND)) for seg in syns], [True, True, False, False])
    peer.answer()
    expect("congestion control", peer.cc(), "hpcc-classic")


def test_second_syn_agrees():
    peer = Peer()
    peer.start_connect()
    expect("option in second SYN", peer.read(3).option(KIND), SYN_BYTES)
    peer.answer()
    expect("congestion control", peer.cc(), "hpcc")


def test_lost_synack():
    """A retransmitted SYN-ACK carries the option, too."""
    peer = Peer().listening()
    synacks = [peer.start_accept(), peer.read(3)]
    expect("flags", [seg.flags & (SYN | ACK) for seg in synacks], [SYN | ACK] * 2)
    expect("option", [seg.option(KIND) for seg in synacks], [SYN_BYTES] * 2)
    peer.accepted()
    expect("congestion control", peer.cc(), "hpcc")


def test_duplicate_syns():
    """Copies of a SYN, some of which TCP answers, do not undo the agreement."""
    peer = Peer().listening()
    expect("option in SYN-ACK", peer.start_accept().option(KIND), SYN_BYTES)
    for _ in range(4):
        peer.raw(SYN, peer.seq - 1, 0, peer.syn_options(syn_option()))
    peer.read_all(0.001)
    peer.accepted()
    expect("congestion control", peer.cc(), "hpcc")


def test_listener_from_before():
    """A child runs the default of the time of its handshake, unless the listener selected one by setsockopt()."""
    for before, after, chosen, mode in (("cubic", "hpcc", None, "hpcc"),
                                        ("hpcc", "cubic", None, "cubic"),
                                        ("hpcc", "cubic", "hpcc", "hpcc"),
                                        ("cubic", "hpcc", "cubic", "cubic")):
        peer = Peer(cc=before).listening(cc=chosen)
        peer.ns.sysctl("net.ipv4.tcp_congestion_control", after)
        synack, sock = peer.accept()
        what = f"{before}, then {after}, listener {chosen}"
        expect(f"{what}: option in SYN-ACK", bool(synack.option(KIND)), mode == "hpcc")
        expect(f"{what}: child", get_cc(sock), mode)
        expect(f"{what}: agreed", peer.ns.counters()["agreed"], int(mode == "hpcc"))


def test_forged_synack():
    """A SYN-ACK needs the right ACK number to agree: an attacker has not seen our SYN."""
    for version in 4, 6:
        peer = Peer(version)
        peer.start_connect()
        wrong = 1, 2, 1000, 1 << 31, -1, -2
        for number, off in enumerate(wrong, 1):
            peer.raw(SYN | ACK, peer.seq + number, peer.acked + off, peer.syn_options(syn_option()))
            expect("counted", peer.ns.counters()["window_ignored"], number)
            peer.read_all(0.001)
        peer.answer(b"")
        expect("congestion control", peer.cc(), "hpcc-classic")
        peer.sock.send(bytes(5000))
        expect("options", ours_in(peer.read_all(0.01)), [])


def test_forged_syn():
    """A SYN with another sequence number neither makes an agreement nor undoes one, before and after the server's
    SYN-ACK. The test sends no SYN within the window: TCP would reset the request.
    """
    for offered, forged, mode in ((syn_option(), b"", "hpcc"), (b"", syn_option(), "hpcc-classic")):
        peer = Peer().listening()
        peer.start_accept(offered)
        for off in -1, -1000, 1 << 20, 1 << 31:
            peer.raw(SYN, peer.seq - 1 + off, 0, peer.syn_options(forged))
        peer.read_all(0.001)
        peer.listener.settimeout(10)
        sock = peer.accepted()
        expect(f"SYN with {offered}, forged with {forged}", peer.cc(), mode)
        # The same holds later, and after a change to another congestion control and back.
        set_cc(sock, "cubic")
        for off in 1, -1, 1000:
            peer.raw(SYN, peer.seq - 1 + off, 0, peer.syn_options(forged))
        peer.read_all(0.001)
        set_cc(sock, "hpcc")
        expect("back", get_cc(sock), mode)


def test_other_namespace_flooded():
    """New connections of a namespace use telemetry while SYNs flood another namespace."""
    flooded = Peer()
    flooded.ns.sysctl("net.ipv4.tcp_synack_retries", 0)
    flooded.listen()
    peer = Peer().listening()
    for turn in range(10):
        peer.port = 7000 + turn
        synack = peer.start_accept()
        expect("option in SYN-ACK", synack.option(KIND), SYN_BYTES)
        for number in range(800):
            flooded.port = 10000 + turn * 800 + number
            flooded.raw(SYN, 1, 0, struct.pack("!BBH", 2, 4, 1460) + syn_option() + b"\1\1")
        flooded.read_all()
        sock = peer.accepted()
        expect(f"handshake {turn}", peer.cc(), "hpcc")
        sock.close()
        peer.read_all()


def free_kb():
    """Return the KB of free memory."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemFree:"))


def test_strange_syns_allocate_only_if_hpcc_listens():
    """A SYN with the option makes a namespace allocate its handshake table of 64 KB only if the
    SYN-ACK could agree: if the listener selected hpcc, or if a route names it.
    """
    # in real time other processes allocate and free memory meanwhile
    need_virtual_time()
    peers = [Peer(cc="cubic", patient=False) for _ in range(24)]
    for peer in peers:
        peer.listen()

    def cost_kb(port, ours=syn_option()):
        """Return the KB that each namespace allocates for one SYN."""
        before = free_kb()
        for peer in peers:
            peer.lport = port
            peer.port += 1
            peer.start_accept(ours)
        return (before - free_kb()) / len(peers)

    for port in 5000, 5001:                 # allocates all else that a first SYN needs
        cost_kb(port, b"")
    expect_in("KB for a closed port", cost_kb(5001), -32, 32)
    expect_in("KB for a listener with cubic", cost_kb(5000), -32, 32)
    for peer in peers[::2]:
        set_cc(peer.listener, "hpcc")
    for peer in peers[1::2]:
        peer.route("congctl hpcc")
    expect_in("KB for one with hpcc", cost_kb(5000), 48, 100)


def test_link_local_route():
    """The first SYN with the option comes by a link whose route names hpcc; the same prefix elsewhere does not."""
    peer = Peer(6, cc="cubic")
    peer.kernel, peer.addr = "fe80::1", "fe80::2"
    peer.ns.ip("addr add fe80::1/64 dev tun0 nodad",
               "link add other type dummy", "link set other up",
               "route add fe80::/64 dev other metric 200",
               "route replace fe80::/64 dev tun0 proto kernel metric 256 congctl hpcc")
    peer.listener = peer.ns.listen("::")
    peer.lport = 5000
    synack, _ = peer.accept()
    expect("SYN-ACK with the option", bool(synack.option(KIND)), True)
    expect("congestion control", peer.cc(), "hpcc")


def test_route_of_a_user():
    """The first SYN with the option is for a listener whose user has a routing table of his own, which names hpcc."""
    for version, net in (4, "10.9.0.0/24"), (6, "fd09::/64"):
        peer = Peer(version, cc="cubic")
        peer.ns.run(*f"ip -{version} rule add uidrange 1000-1000 lookup 100 pref 50".split())
        peer.ns.ip(f"route add {net} dev tun0 table 100 congctl hpcc")
        peer.listen()
        os.fchown(peer.listener.fileno(), 1000, -1)
        synack, _ = peer.accept()
        expect(f"IPv{version}: SYN-ACK with the option", bool(synack.option(KIND)), True)
        expect(f"IPv{version}: congestion control", peer.cc(), "hpcc")


def test_syn_again_without_option():
    """The peer's second SYN has no option, as our third would have none: no agreement."""
    peer = Peer().listening()
    expect("option in SYN-ACK", peer.start_accept().option(KIND), SYN_BYTES)
    peer.seq -= 1
    peer.raw(SYN, peer.seq, 0, peer.syn_options(b""))
    peer.seq += 1
    peer.read_all(0.01)
    peer.accepted()
    expect("congestion control", peer.cc(), "hpcc-classic")


def test_syn_again_damaged():
    """A SYN without the option whose checksum is wrong does not undo the offer."""
    for version in 4, 6:
        peer = Peer(version).listening()
        expect("option in SYN-ACK", peer.start_accept().option(KIND), SYN_BYTES)
        peer.raw(SYN, peer.seq - 1, 0, peer.syn_options(b""), bad_csum=True)
        peer.read_all(0.01)
        peer.accepted()
        expect(f"IPv{version}: congestion control", peer.cc(), "hpcc")


def test_without_ecn():
    """A connection without ECN sends no ECN-capable packets; the next SYN of its socket requests ECN again."""
    for version, ecn, ours, cc in ((version, ecn, ours, cc) for version in (4, 6)
                                   for ecn in (False, True)
                                   for ours, cc in ((b"", "hpcc-classic"),
                                                    (syn_option(), "hpcc"))):
        peer = Peer(version, ecn=ecn)
        sock = peer.connect(ours)
        for name in None, "reno", "hpcc":
            if name:
                set_cc(sock, name)
            expect("congestion control", peer.cc(), cc if name != "reno" else name)
            sock.send(bytes(4000))
            # The ACK arrives before a tail loss probe leaves, which would count as a loss.
            segments = peer.read_all(0.002)
            peer.acked += 4000
            peer.send()
            expect(f"IPv{version}, ECN {ecn}, {peer.cc()}: ECN fields",
                   {seg.ecn for seg in segments if seg.payload}, {2 if ecn else 0})
        disconnect(sock)
        peer.read_all(0.01)
        sock.connect_ex((peer.addr, peer.port))
        expect("next SYN", peer.read(0.1).flags & (SYN | ECE | CWR), SYN | ECE | CWR)


def test_classic_sends_as_reno():
    """Without agreement retransmissions and pure ACKs are not ECN-capable (RFC 3168, 6.1.4, 6.1.5); data are."""
    for version in 4, 6:
        for passive in False, True:
            peer = Peer(version, ecn=True, patient=False)
            if passive:
                peer.listen()
                peer.start_accept(b"", flags=SYN | ECE | CWR)
                peer.accepted()
            else:
                peer.connect(b"")
            expect("congestion control", peer.cc(), "hpcc-classic")
            peer.sock.send(bytes(1000))
            fields = [seg.ecn for seg in peer.read_all(1.0) if seg.payload]
            expect("ECN fields, sent again", (fields[0], set(fields[1:])), (2, {0}))
            peer.acked += 1000
            for _ in range(2):
                peer.send(payload=bytes(1000))
            expect("ECN fields of ACKs", {seg.ecn for seg in peer.read_all(0.1)}, {0})


def test_server_without_ecn():
    """A connection without ECN that the peer opened sends no ECN-capable packets, though it has telemetry."""
    peer = Peer().listening()
    _, sock = peer.accept()
    expect("congestion control", get_cc(sock), "hpcc")
    sock.send(bytes(4000))
    expect("ECN fields", {seg.ecn for seg in peer.read_all(0.01)}, {0})


def test_last_syn_decides():
    """The peer sends SYNs with and without the option in any order: the last SYN-ACK decides what both ends run."""
    for order in (1, 0), (0, 1), (1, 0, 1), (0, 1, 0), (1, 1, 0, 0, 1):
        peer = Peer().listening()
        peer.start_accept(syn_option() if order[0] else b"")
        for offered in order[1:]:
            # TCP answers two copies of a SYN per second.
            time.sleep(0.6)
            peer.read_all()
            peer.raw(SYN, peer.seq - 1, 0, peer.syn_options(syn_option() if offered else b""))
            synack = peer.read(0.1)
            expect(f"SYNs {order}: option in SYN-ACK", bool(synack.option(KIND)), bool(offered))
        peer.accepted()
        expect(f"SYNs {order}", peer.cc(), "hpcc" if order[-1] else "hpcc-classic")


def test_syn_again_bare():
    """A second SYN without any TCP option undoes the agreement."""
    peer = Peer().listening()
    expect("option in SYN-ACK", peer.start_accept().option(KIND), SYN_BYTES)
    peer.raw(SYN, peer.seq - 1, 0, b"")
    peer.read_all(0.01)
    peer.accepted()
    expect("congestion control", peer.cc(), "hpcc-classic")


def test_hpcc_after_the_syn():
    """If our SYN made no offer, a SYN-ACK that accepts one makes no agreement."""
    peer = Peer(cc="cubic")
    peer.start_connect()
    expect("option in SYN", peer.syn.option(KIND), None)
    set_cc(peer.sock, "hpcc")
    peer.answer()
    for name in "cubic", "hpcc":
        set_cc(peer.sock, name)
    expect("congestion control", peer.cc(), "hpcc-classic")


def test_port_used_again():
    """An agreement ends with its connection: the next connection with the same ports has none."""
    peer = Peer().connected(lport=6000)
    set_cc(peer.sock, "cubic")
    peer.raw(RST, peer.seq, peer.acked)
    peer.sock.close()
    peer.connect(b"", cc="cubic", lport=6000)
    expect("option in SYN", peer.syn.option(KIND), None)
    set_cc(peer.sock, "hpcc")
    expect("congestion control", peer.cc(), "hpcc-classic")
    peer.sock.send(bytes(5000))
    expect("options", ours_in(peer.read_all(0.01)), [])


def test_there_and_back():
    """An agreement survives a change from hpcc to cubic and back."""
    peer = Peer().connected()
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(3):
        set_cc(peer.sock, "cubic")
        peer.sock.send(bytes(100))
        expect("option under cubic", ours_in(peer.read_all(0.001)), [])
        set_cc(peer.sock, "hpcc")
        expect("congestion control", peer.cc(), "hpcc")
        peer.sock.send(bytes(100))
        expect("option under hpcc", len(ours_in(peer.read_all(0.001))), 1)
        peer.acked += 200
        peer.send()


def test_back_too_late():
    """The agreement is forgotten 180 s after the socket left hpcc: then hpcc means its classic response."""
    need_virtual_time()
    for wait_s, mode in (170, "hpcc"), (181, "hpcc-classic"):
        peer = Peer().connected()
        set_cc(peer.sock, "cubic")
        time.sleep(wait_s)
        set_cc(peer.sock, "hpcc")
        expect(f"after {wait_s} s", peer.cc(), mode)


def test_syn_cookies():
    """With SYN cookies no state is kept between SYN and ACK: no agreement."""
    pair = Pair()
    try:
        pair.s.sysctl("net.ipv4.tcp_syncookies", 2)
    except FileNotFoundError as error:
        raise Skip("this kernel has no SYN cookies") from error
    handshake(pair, OFFER, ("hpcc-classic", "hpcc-classic"))


def test_syn_flood():
    """The handshake table has a fixed size: in a flood of SYNs, connections may lose telemetry, but none fails."""
    peer = Peer()
    for name in "net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog":
        peer.ns.sysctl(name, 100000)
    # On a slow machine retransmitted SYN-ACKs would fill the device's queue.
    peer.ns.sysctl("net.ipv4.tcp_synack_retries", 0)
    peer.listen()
    peer.listener.listen(100000)
    for number in range(6000):
        peer.port = 10000 + number
        peer.raw(SYN, 1, 0, struct.pack("!BBH", 2, 4, 1460) + syn_option() + b"\1\1")
        # This empties the device's queue before it is full.
        if number % 400 == 0:
            peer.read_all()
    # A busy machine may answer late.
    while (seg := peer.read(10)) and seg.dport != peer.port:
        pass
    expect("SYN-ACK of the last", seg and seg.option(KIND), SYN_BYTES)
    peer.port = 7000
    expect("congestion control", get_cc(peer.accept()[1])[:4], "hpcc")


main()
