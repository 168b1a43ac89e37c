#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/hook/syn.c: which ends agree, and what a handshake looks like on the wire."""

import itertools
import os
import socket
import struct
import time

from lib.kernel import meminfo_kb
from lib.ktap import Skip, cases, each, expect, expect_in, main, need_virtual_time
from lib.net import Netns, Pair, meet
from lib.packet import (ACK, CAP_QUIET, CAP_TELEMETRY, CWR, ECE, EXID, KIND, RST, SYN, Sniffer,
                        ours_in, sane, syn_option)
from lib.peer import Peer
from lib.tcp import disconnect, get_cc, pattern, set_cc, transfer

MSS_OPTION = struct.pack("!BBH", 2, 4, 1460)
SYN_BYTES = bytes([253, 6, 0x48, 0x43, 0x10, 0x03])
# Which segments have the option: SYN, SYN-ACK, others
NONE, OFFER, ALL = (False, False, False), (True, False, False), (True, True, True)


def outcome(pair, client, server, sniffer, nbytes=30000):
    """Exchange data, and close. Return which segments had our option, the counters agreed, the congestion controls."""
    # No switch stamps: if its data took more than four round trips, a flow would fall back and change its name.
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
    sniffer = Sniffer(pair.s)
    compare(pair, pair.connect(**how), sniffer, carried, names)


@cases(both_ipv4=(4,), both_ipv6=(6,), both_without_checksum_offload=(4, False))
def both(version, offload=True):
    """Both ends run hpcc: they agree."""
    pair = Pair(version, offload=offload)
    sniffer = Sniffer(pair.s)
    client, server = pair.connect()
    segments = sniffer.segments()
    for seg in segments[:2]:
        expect(f"option in {seg}, padding", (seg.option(KIND), seg.options[-8:]), (SYN_BYTES, SYN_BYTES + b"\1\1"))
        expect("checksum is partial", seg.partial, offload)
    expect("flags", [seg.flags & (SYN | ACK) for seg in segments[:2]], [SYN, SYN | ACK])
    sane(segments)
    expect("modes", (get_cc(client), get_cc(server)), ("hpcc", "hpcc"))
    carried, agreed, _ = outcome(pair, client, server, sniffer)
    expect("agreed, telemetry", (agreed, carried[2]), ((1, 1), True))
    for ns in (pair.c, pair.s):
        expect("syn_sent, not_agreed", (ns.counters()["syn_sent"], ns.counters()["not_agreed"]), (1, 0))


HPCC, CLASSIC = ("hpcc", "hpcc"), ("hpcc-classic", "hpcc-classic")


# The hosts' congestion controls, a route of the client (IPv6) or of the server, the segments with the option, and the
# ends' congestion controls. The route overrides the server's listener, for hpcc and for cubic. The counter syn_invalid
# does not count another experiment's ExID.
@cases(only_client=(("hpcc", "cubic"), OFFER, ("hpcc-classic", "cubic")),
       only_server=(("cubic", "hpcc"), NONE, ("cubic", "hpcc-classic")),
       neither=(("cubic", "cubic"), NONE, ("cubic", "cubic")),
       route_of_server=(("hpcc", "cubic"), ALL, HPCC, {"route": "hpcc"}),
       route_of_server_against_listener=(HPCC, OFFER, ("hpcc-classic", "cubic"), {"route": "cubic"}),
       exid_mismatch=(HPCC, OFFER, CLASSIC, {"option_exid": EXID + 1}),
       kind_mismatch=(HPCC, OFFER, CLASSIC, {"option_kind": 254}))
def ends(names, carried, become, server=()):
    """Connect two hosts. Only the server has this route or sysctl."""
    pair = Pair(cc=names)
    for name, value in dict(server).items():
        if name == "route":
            pair.s.ip(f"route replace 10.0.0.0/24 dev eth0 congctl {value}")
        else:
            pair.s.sysctl(f"net.hpcc.{name}", value)
    handshake(pair, carried, become)
    expect("not_agreed, syn_invalid", (pair.c.counters()["not_agreed"], pair.s.counters()["syn_invalid"]),
           (int(carried == OFFER), 0))


def test_route_of_client():
    pair = Pair(6, cc=("cubic", "hpcc"))
    pair.c.ip("route del fd00::/64 dev eth0", "route add fd00::/64 dev eth0 congctl hpcc")
    handshake(pair, ALL, ("hpcc", "hpcc"))


def test_sockets():
    """Listener and client select hpcc by setsockopt() before the handshake: they agree."""
    pair = Pair(cc=("cubic", "cubic"))
    handshake(pair, ALL, HPCC, listener=pair.listen(cc="hpcc"), cc="hpcc")


def test_set_after_handshake():
    """A socket that selects hpcc after the handshake has not agreed."""
    pair = Pair(cc=("cubic", "hpcc"))
    sniffer = Sniffer(pair.s)
    both_ends = pair.connect()
    set_cc(both_ends[0], "hpcc")
    compare(pair, both_ends, sniffer, NONE, CLASSIC)


def test_loopback():
    """Both ends are in one namespace: the handshake table has an entry for each end."""
    ns = Netns()
    ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
    listener = ns.listen("127.0.0.1")
    socks = sum((meet(ns.socket(), listener) for _ in range(100)), ())
    expect("agreed, flows", (ns.counters()["agreed"], len(ns.flows())), (200, 200))
    for sock in socks:
        sock.close()
    ns.expect_no_flows()


def test_mapped_addresses():
    """Both ends are IPv6 sockets that use IPv4: they agree."""
    pair = Pair()
    sniffer = Sniffer(pair.s)
    both_ends = meet(pair.c.socket(6), pair.s.listen("::"), ("::ffff:10.0.0.2", 5000))
    compare(pair, both_ends, sniffer, ALL, HPCC)


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
    expect("data sent, options, congestion control", (bool(segments), ours_in(segments), peer.cc()),
           (True, [], "hpcc-classic"))


def test_exid_and_kind_configured():
    pair = Pair(option_exid=0xbeef, option_kind=254)
    sniffer = Sniffer(pair.s)
    client, server = pair.connect()
    wanted = syn_option(exid=0xbeef, kind=254, caps=CAP_TELEMETRY | CAP_QUIET)
    expect("options", [seg.option(254) for seg in sniffer.segments()[:2]], [wanted] * 2)
    transfer((client, server, pattern(30000)))
    segments = sniffer.segments()
    expect("telemetry, default kind", (bool(ours_in(segments, 254)), ours_in(segments)), (True, []))


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
    expect("after cubic and hpcc again", kinds(peer), [253])
    for answer, agreed in (253, [253]), (254, []):
        peer = Peer()
        peer.start_connect()
        peer.ns.sysctl("net.hpcc.option_kind", 254)
        peer.answer(syn_option(kind=answer))
        expect(f"connected, answered by {answer}", kinds(peer), agreed)
        expect("congestion control", peer.cc(), "hpcc" if agreed else "hpcc-classic")


# Options of other experiments: TCP Fast Open (RFC 6994), SMC, and an option that is too short for an ExID.
OTHERS = b"\xfd\x04\xf9\x89" + b"\xfd\x06\xe2\xd4\xc3\xd9" + b"\xfd\x02"


def test_other_experiments():
    """Options of the same kind with another ExID have no effect, before our option, after it, or alone."""
    peer = Peer().listening()
    peer.timestamps = False
    for number, (ours, mode) in enumerate(((OTHERS + syn_option(), "hpcc"), (syn_option() + OTHERS, "hpcc"),
                                           (OTHERS, "hpcc-classic")), 1):
        ours += b"\1" * (-len(ours) % 4)
        peer.port, peer.lport = 7000 + number, 5000
        expect(f"{number}: server", get_cc(peer.accept(ours)[1]), mode)
        peer.start_connect(port=8000 + number)
        peer.answer(ours)
        expect(f"{number}: client", peer.cc(), mode)
    expect("syn_invalid", peer.ns.counters()["syn_invalid"], 0)


@each("syn", "synack")
def bad_option_in(where):
    """An invalid option makes no agreement, and is counted."""
    peer = Peer().listening() if where == "syn" else Peer()
    for number, what in enumerate(({"version": 0}, {"version": 2}, {"caps": 0}, {"caps": 0x80},
                                   {"length": 4}, {"length": 5}, {"length": 7}, {"length": 12}), 1):
        if where == "syn":
            peer.port = 7000 + number
            answer = peer.accept(syn_option(**what))[0]
        else:
            peer.start_connect(port=7000 + number)
            answer = peer.answer(syn_option(**what))
        expect(f"{what}: option in the answer, congestion control, syn_invalid",
               (answer.option(KIND), peer.cc(), peer.ns.counters()["syn_invalid"]), (None, "hpcc-classic", number))
    expect("agreed", peer.ns.counters()["agreed"], 0)


def test_more_capabilities():
    """A peer that offers additional, unknown capabilities is accepted."""
    expect("congestion control", Peer().connected(syn_option(caps=0xff)).cc(), "hpcc")


@each("syn", "synack")
def bad_checksum_in(where):
    """A SYN or SYN-ACK with a wrong checksum, which TCP discards, makes no agreement."""
    if where == "syn":
        peer = Peer().listening()
        expect("answer", peer.start_accept(bad_csum=True), None)
        answer = peer.accept(b"")[0]
    else:
        peer = Peer()
        peer.start_connect()
        peer.raw(SYN | ACK, peer.seq, peer.acked, peer.syn_options(syn_option()), bad_csum=True)
        expect("answer", peer.read(0.05), None)
        answer = peer.answer(b"")
    expect("option in the answer, congestion control, agreed",
           (answer.option(KIND), peer.cc(), peer.ns.counters()["agreed"]), (None, "hpcc-classic", 0))


def options_of(peer, nbytes=5000):
    """Let the kernel send these bytes. Return our options in their segments."""
    peer.sock.send(bytes(nbytes))
    return ours_in(peer.read_all(0.01))


# Our SYN made no offer: a SYN-ACK that accepts an offer makes no agreement, if the socket selects hpcc before or
# after the SYN-ACK.
@cases(synack_not_asked_for=(False,), hpcc_after_the_syn=(True,))
def no_offer(before):
    peer = Peer(cc="cubic")
    peer.start_connect()
    expect("option in SYN", peer.syn.option(KIND), None)
    if before:
        set_cc(peer.sock, "hpcc")
    peer.answer()
    for name in "cubic", "hpcc":
        set_cc(peer.sock, name)
    expect("congestion control, options, agreed", (peer.cc(), options_of(peer), peer.ns.counters()["agreed"]),
           ("hpcc-classic", [], 0))


@cases(lost_syns=([SYN_BYTES] * 2 + [None] * 2, "hpcc-classic"), second_syn_agrees=([SYN_BYTES] * 2, "hpcc"))
def kernel_syns(options, mode):
    """The third SYN has no option: a SYN-ACK with the option that answers an earlier SYN makes no agreement."""
    peer = Peer()
    peer.start_connect()
    syns = [peer.syn, *(peer.read(3 << number) for number in range(len(options) - 1))]
    expect("SYNs", [(seg.flags & (SYN | ACK), seg.option(KIND)) for seg in syns], [(SYN, one) for one in options])
    peer.answer()
    expect("congestion control", peer.cc(), mode)


def test_lost_synack():
    """A retransmitted SYN-ACK also carries the option."""
    peer = Peer().listening()
    synacks = [peer.start_accept(), peer.read(3)]
    expect("SYN-ACKs", [(seg.flags & (SYN | ACK), seg.option(KIND)) for seg in synacks], [(SYN | ACK, SYN_BYTES)] * 2)
    peer.accepted()
    expect("congestion control", peer.cc(), "hpcc")


def test_duplicate_syns():
    """Copies of a SYN, some of which TCP answers, do not undo the agreement."""
    peer = Peer().listening()
    expect("option in SYN-ACK", peer.start_accept().option(KIND), SYN_BYTES)
    syns_at(peer, [0] * 4, syn_option())
    peer.accepted()
    expect("congestion control", peer.cc(), "hpcc")


def test_listener_from_before():
    """A child runs the default at the time of its handshake, unless the listener selected another by setsockopt()."""
    for before, after, chosen, mode in (("cubic", "hpcc", None, "hpcc"), ("hpcc", "cubic", None, "cubic"),
                                        ("hpcc", "cubic", "hpcc", "hpcc"), ("cubic", "hpcc", "cubic", "cubic")):
        peer = Peer(cc=before).listening(cc=chosen)
        peer.ns.sysctl("net.ipv4.tcp_congestion_control", after)
        synack, _ = peer.accept()
        expect(f"{before}, then {after}, listener {chosen}: option in SYN-ACK, child, agreed",
               (bool(synack.option(KIND)), peer.cc(), peer.ns.counters()["agreed"]),
               (mode == "hpcc", mode, int(mode == "hpcc")))


def test_forged_synack():
    """A SYN-ACK needs the right ACK number to agree: an attacker has not seen our SYN."""
    for version in 4, 6:
        peer = Peer(version)
        peer.start_connect()
        for number, off in enumerate((1, 2, 1000, 1 << 31, -1, -2), 1):
            peer.raw(SYN | ACK, peer.seq + number, peer.acked + off, peer.syn_options(syn_option()))
            expect("window_ignored", peer.ns.counters()["window_ignored"], number)
            peer.read_all(0.001)
        peer.answer(b"")
        expect("congestion control, options", (peer.cc(), options_of(peer)), ("hpcc-classic", []))


def syns_at(peer, offsets, ours):
    """Send SYNs with other sequence numbers than the first SYN, and discard the answers."""
    for off in offsets:
        peer.raw(SYN, peer.seq - 1 + off, 0, peer.syn_options(ours))
    peer.read_all(0.001)


def test_forged_syn():
    """A SYN outside the window neither makes an agreement nor undoes one, before and after the SYN-ACK."""
    for offered, forged, mode in ((syn_option(), b"", "hpcc"), (b"", syn_option(), "hpcc-classic")):
        peer = Peer().listening()
        peer.start_accept(offered)
        # A SYN within the window would make TCP reset the request.
        syns_at(peer, (-1, -1000, 1 << 20, 1 << 31), forged)
        peer.listener.settimeout(10)
        sock = peer.accepted()
        expect(f"SYN with {offered}, forged with {forged}", peer.cc(), mode)
        # Later forged SYNs change nothing either, also not after a change to another congestion control and back.
        set_cc(sock, "cubic")
        syns_at(peer, (1, -1, 1000), forged)
        set_cc(sock, "hpcc")
        expect("congestion control after cubic and hpcc again", get_cc(sock), mode)


def test_other_namespace_flooded():
    """New connections of a namespace use telemetry while SYNs flood another namespace."""
    flooded = Peer()
    flooded.ns.sysctl("net.ipv4.tcp_synack_retries", 0)
    flooded.listen()
    peer = Peer().listening()
    for turn in range(10):
        peer.port = 7000 + turn
        expect("option in SYN-ACK", peer.start_accept().option(KIND), SYN_BYTES)
        for number in range(800):
            flooded.port = 10000 + turn * 800 + number
            flooded.raw(SYN, 1, 0, MSS_OPTION + syn_option() + b"\1\1")
        flooded.read_all()
        sock = peer.accepted()
        expect(f"handshake {turn}", peer.cc(), "hpcc")
        sock.close()
        peer.read_all()


def test_strange_syns_allocate_only_if_hpcc_listens():
    """A SYN allocates the handshake table, of 64 KB, only if a listener or a route names hpcc."""
    # In real time other processes allocate and free memory during the test.
    need_virtual_time()
    peers = [Peer(cc="cubic", patient=False).listening() for _ in range(24)]

    def cost_kb(port, ours=syn_option()):
        """Return the KB that each namespace allocates for one SYN."""
        before = meminfo_kb("MemFree")
        for peer in peers:
            peer.lport = port
            peer.port += 1
            peer.start_accept(ours)
        return (before - meminfo_kb("MemFree")) / len(peers)

    for port in 5000, 5001:                 # let a SYN allocate all other memory that a first SYN needs
        cost_kb(port, b"")
    expect_in("KB for a closed port", cost_kb(5001), -32, 32)
    expect_in("KB for a listener with cubic", cost_kb(5000), -32, 32)
    for peer in peers[::2]:
        set_cc(peer.listener, "hpcc")
    for peer in peers[1::2]:
        peer.route("congctl hpcc")
    expect_in("KB for a listener or a route with hpcc", cost_kb(5000), 48, 100)


def accept_agrees(peer):
    """Let the peer connect: the kernel agrees."""
    synack, _ = peer.accept()
    expect(f"IPv{peer.version}: SYN-ACK with the option, congestion control",
           (bool(synack.option(KIND)), peer.cc()), (True, "hpcc"))


def test_link_local_route():
    """The first SYN with the option arrives on a link whose route names hpcc; the prefix's other routes do not."""
    peer = Peer(6, cc="cubic")
    peer.kernel, peer.addr = "fe80::1", "fe80::2"
    peer.ns.ip("addr add fe80::1/64 dev tun0 nodad", "link add other type dummy", "link set other up",
               "route add fe80::/64 dev other metric 200",
               "route replace fe80::/64 dev tun0 proto kernel metric 256 congctl hpcc")
    peer.listener = peer.ns.listen("::")
    peer.lport = 5000
    accept_agrees(peer)


def test_route_of_a_user():
    """The first SYN with the option is for a listener whose user has a separate routing table, which names hpcc."""
    for version, net in (4, "10.9.0.0/24"), (6, "fd09::/64"):
        peer = Peer(version, cc="cubic")
        peer.ns.run(*f"ip -{version} rule add uidrange 1000-1000 lookup 100 pref 50".split())
        peer.ns.ip(f"route add {net} dev tun0 table 100 congctl hpcc")
        peer.listen()
        os.fchown(peer.listener.fileno(), 1000, -1)
        accept_agrees(peer)


# The peer's second SYN lacks our option, like our own third SYN, or has no TCP options at all: no agreement. A SYN
# without the option whose checksum is wrong does not undo the offer.
@cases(syn_again_without_option=("hpcc-classic",), syn_again_bare=("hpcc-classic", True),
       syn_again_damaged=("hpcc", False, True))
def syn_again(mode, bare=False, bad_csum=False):
    """The peer sends a second SYN before it acknowledges our SYN-ACK."""
    for version in 4, 6:
        peer = Peer(version).listening()
        expect("option in SYN-ACK", peer.start_accept().option(KIND), SYN_BYTES)
        peer.raw(SYN, peer.seq - 1, 0, b"" if bare else peer.syn_options(b""), bad_csum=bad_csum)
        peer.read_all(0.01)
        peer.accepted()
        expect(f"IPv{version}: congestion control", peer.cc(), mode)


def test_without_ecn():
    """A connection without ECN sends no ECN-capable packets; the next SYN of its socket requests ECN again."""
    for version, ecn, (ours, cc) in itertools.product((4, 6), (False, True),
                                                      ((b"", "hpcc-classic"), (syn_option(), "hpcc"))):
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
    for version, passive in itertools.product((4, 6), (False, True)):
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
    """If the peer opens a connection without ECN, no packet is ECN-capable, although the connection has telemetry."""
    peer = Peer().listening()
    peer.accept()
    expect("congestion control", peer.cc(), "hpcc")
    peer.sock.send(bytes(4000))
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


def test_port_used_again():
    """An agreement ends with its connection: the next connection with the same ports has no agreement."""
    peer = Peer().connected(lport=6000)
    set_cc(peer.sock, "cubic")
    peer.raw(RST, peer.seq, peer.acked)
    peer.sock.close()
    peer.connect(b"", cc="cubic", lport=6000)
    expect("option in SYN", peer.syn.option(KIND), None)
    set_cc(peer.sock, "hpcc")
    expect("congestion control, options", (peer.cc(), options_of(peer)), ("hpcc-classic", []))


def test_there_and_back():
    """An agreement survives a change from hpcc to cubic and back."""
    peer = Peer().connected()
    peer.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(3):
        set_cc(peer.sock, "cubic")
        peer.sock.send(bytes(100))
        expect("options with cubic", ours_in(peer.read_all(0.001)), [])
        set_cc(peer.sock, "hpcc")
        expect("congestion control", peer.cc(), "hpcc")
        peer.sock.send(bytes(100))
        expect("options with hpcc", len(ours_in(peer.read_all(0.001))), 1)
        peer.acked += 200
        peer.send()


def test_back_too_late():
    """The agreement ends 180 s after the socket left hpcc: after that hpcc means its classic response."""
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
    handshake(pair, OFFER, CLASSIC)


def test_syn_flood():
    """The handshake table has a fixed size: in a flood of SYNs, connections may lose telemetry, but do not fail."""
    peer = Peer()
    for name in "net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog":
        peer.ns.sysctl(name, 100000)
    # On a slow machine retransmitted SYN-ACKs would fill the device's queue.
    peer.ns.sysctl("net.ipv4.tcp_synack_retries", 0)
    peer.listen()
    peer.listener.listen(100000)
    for number in range(6000):
        peer.port = 10000 + number
        peer.raw(SYN, 1, 0, MSS_OPTION + syn_option() + b"\1\1")
        # This empties the device's queue before it is full.
        if number % 400 == 0:
            peer.read_all()
    # A busy machine may answer late.
    while (seg := peer.read(10)) and seg.dport != peer.port:
        pass
    expect("option in the SYN-ACK for the last SYN", seg and seg.option(KIND), SYN_BYTES)
    peer.port = 7000
    expect("congestion control", get_cc(peer.accept()[1])[:4], "hpcc")


main()
