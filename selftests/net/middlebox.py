#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Middleboxes that remove, rewrite and duplicate our options: the data arrive as they were sent, in virtual time with
at least half of cubic's goodput on the same path, and the counters show what happened.
"""

import copy
import itertools
import random
import time
from pathlib import Path

from lib.box import BoxPath, expect_half, nothing, send_until
from lib.genl import Family
from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main, need_virtual_time
from lib.net import expect_counters, expect_none, joined
from lib.packet import ACK, KIND, NOP, PSH, SYN
from lib.path import set_links
from lib.tcp import get_cc, goodput_mbps, pattern, transfer

NBYTES = 600000
CLASSIC = "hpcc-classic"


# ---- boxes that remove our options ----

def into_nops(packet):
    """Replace our options by NOPs, as nft's "reset tcp option" does."""
    packet.each(lambda opt: NOP * len(opt))


def cut_out(packet):
    """Remove our options, so that the segment becomes shorter."""
    packet.each(lambda opt: b"")


def removed(where, how=into_nops, later=False, version=4):
    """Send data. how() removes our options from packets for which where() is true. Return path, client and server."""
    def change(packet):
        if where(packet):
            how(packet)
        return [packet]

    path, client, server = joined(BoxPath(version, **({} if later else {"change": change})))
    if later:
        goodput_mbps(client, server, NBYTES // 3)
        expect("cc, fallbacks before the change", (get_cc(client), path.a.counters()["fallbacks"]), ("hpcc", 0))
        path.change_packet = change
    name = f"{how.__name__}, {where.__name__}{', later' if later else ''}"
    expect_half(name, version, NBYTES, goodput_mbps(client, server, NBYTES))
    for ns in path.hosts:
        expect("InCsumErrors", ns.snmp("InCsumErrors"), 0)
        expect_none(ns, "malformed_ignored", "checksum_ignored", "bad_hop_ignored")
    return path, client, server


def syns(packet):
    """SYN and SYN-ACK"""
    return packet.syn


def synacks(packet):
    """SYN-ACK"""
    return packet.syn and packet.flags & ACK


def data(packet):
    """data"""
    return packet.payload and not packet.syn


def data_to_b(packet):
    """data to b"""
    return packet.payload and packet.to_b


def acks(packet):
    """pure ACKs"""
    return not packet.payload and not packet.syn


def everything(_packet):
    """all segments"""
    return True


def test_removed_from_syns():
    """If the SYNs lose the option, both ends run classic, and no segment carries our options."""
    for version, where, how in ((4, syns, into_nops), (6, syns, cut_out), (6, everything, into_nops),
                                (4, everything, cut_out)):
        path, client, server = removed(where, how, version=version)
        expect("mode", (get_cc(client), get_cc(server)), (CLASSIC, CLASSIC))
        for ns in path.hosts:
            expect_counters(ns, agreed=0, not_agreed=1, unagreed_ignored=0, forward_sent=0)


def test_removed_from_synacks():
    """Without the option in the SYN-ACK only the server agrees; the client ignores its options."""
    path, client, server = removed(synacks)
    expect("mode", (get_cc(client), get_cc(server)), (CLASSIC, "hpcc"))
    expect_counters(path.a, forward_sent=0, echo_sent=0)
    expect_half("data from b", 4, NBYTES, goodput_mbps(server, client, 2 * NBYTES))
    send_until(lambda: get_cc(server) != "hpcc", server, client, NBYTES // 2)
    expect("mode", get_cc(server), CLASSIC)
    expect_in("unagreed_ignored", path.a.counters()["unagreed_ignored"], NBYTES // 1500, NBYTES)


def falls_back(where, **how):
    """The ends agree, but get no telemetry: the client falls back after a few round trips."""
    for version in 4, 6:
        path, client, server = removed(where, version=version, **how)
        send_until(lambda: get_cc(client) != "hpcc", client, server, NBYTES // 2)
        expect("mode", get_cc(client), CLASSIC)
        expect_counters(path.a, agreed=1, fallbacks=1, returns=0)
        # The counter counts bursts, which in real time may have 16 segments each. T is above start_rtt_ns, so the
        # flow starts with ten segments. Classic mode continues that start with fewer and longer bursts.
        expect_in("forward_sent", path.a.counters()["forward_sent"], 30 if virtual_time() else NBYTES // 30000, NBYTES)
    return path


def test_removed_from_data():
    expect("forward_received", falls_back(data).b.counters()["forward_received"], 0)


def test_removed_from_acks():
    path = falls_back(acks, how=cut_out)
    expect_in("forward_received", path.b.counters()["forward_received"], 300, NBYTES)
    expect("echo_received", path.a.counters()["echo_received"], 0)


def test_removed_later():
    """A box removes the options in the middle of the connection, and later stops: telemetry returns."""
    for version in 4, 6:
        path, client, server = removed(everything, later=True, version=version)
        send_until(lambda: get_cc(client) != "hpcc", client, server, NBYTES // 2)
        expect("mode", get_cc(client), CLASSIC)
        path.change_packet = nothing
        goodput_mbps(client, server, NBYTES // 3)
        send_until(lambda: get_cc(client) == "hpcc", client, server, NBYTES // 3)
        expect("mode", get_cc(client), "hpcc")
        expect_counters(path.a, fallbacks=1, returns=1)


# ---- boxes that change our options ----

def changed(name, change, version=4, both_ways=False, **how):
    """Send data through a box. Return the path and both sockets."""
    path, client, server = joined(BoxPath(version, change=change, **how))
    expect_half(name, version, NBYTES, goodput_mbps(client, server, NBYTES))
    if both_ways:
        transfer((client, server, pattern(NBYTES // 4)), (server, client, pattern(NBYTES // 4, 1)))
    flow = path.a.flow(client)
    w_max = 10 ** 10 // 8 * flow["T_ns"] // 10 ** 9        # HPCC_DEFAULT_MBPS
    for what in "W", "Wc":
        expect_in(what, flow[what], w_max // 1024, w_max + 1)
    return path, client, server


def bytes_at(place, value):
    """Return a change that overwrites bytes of an option."""
    return lambda opt: opt[:place] + bytes(value) + opt[place + len(value):]


def of_ours(change, when=lambda packet: not packet.syn):
    """Return a box that changes our options in the packets for which when(packet) is true."""
    def box(packet):
        if when(packet):
            packet.each(change)
        return [packet]
    return box


def test_bits_flipped():
    rng = random.Random(1)

    def flip(opt):
        raw = bytearray(opt)
        if rng.random() < 0.2:
            raw[rng.randrange(2, len(raw))] ^= 1 << rng.randrange(8)
        return bytes(raw)

    for version in 4, 6:
        path, client, server = changed("bits flipped", of_ours(flip), version, both_ways=True)
        # After eight requests in a row without a valid record the flow is in classic mode for a while.
        for _ in range(3 if virtual_time() else 40):
            if get_cc(client) == "hpcc":
                break
            transfer((client, server, pattern(NBYTES // 3)))
        expect("mode", get_cc(client), "hpcc")
        moved = path.a.counters()
        if virtual_time():
            expect_in("fallbacks", moved["fallbacks"], 0, 1)
            expect("unseen_loss", moved["unseen_loss"], 0)
        expect("returns", moved["returns"], moved["fallbacks"] + moved["unseen_loss"])
        for name in "malformed_ignored", "bad_hop_ignored", "ts_back_ignored", "path_changes":
            expect_in(name, moved[name], 1, NBYTES)
        expect("InCsumErrors", path.a.snmp("InCsumErrors") + path.b.snmp("InCsumErrors"), 0)


def test_checksum_not_corrected():
    """If the checksum is not corrected, neither TCP nor hpcc accepts the segment."""
    rng = random.Random(2)

    def box(packet):
        if packet.has_ours() and not packet.syn and rng.random() < 0.01:
            packet.each(bytes_at(4, rng.randbytes(8)))
            packet.bad_csum = True
        return [packet]

    path, client, _ = changed("checksum not corrected", box)
    expect("mode", get_cc(client), "hpcc")
    for ns in path.hosts:
        expect_in("checksum_ignored", ns.counters()["checksum_ignored"], 1, NBYTES)
        expect("InCsumErrors", ns.snmp("InCsumErrors"), ns.counters()["checksum_ignored"])


def twice(packet):
    """Add the option a second time if there is space."""
    options = b"".join(packet.options)
    ours = [opt for opt in packet.options if opt[0] == KIND]
    if ours and not packet.syn and len(options) + len(ours[0]) <= 40:
        packet.options = [*packet.options, ours[0]]
    return [packet]


# Name of the change, box, expected mode of the data sender, and counters of a and of b with their
# minimum values; 0 means that the counter must stay 0.
HEADS = (
    ("version", of_ours(bytes_at(4, b"\x20"), lambda packet: packet.syn), CLASSIC,
     {"syn_invalid": 0, "agreed": 0}, {"syn_invalid": 1, "agreed": 0}),
    ("length beyond the header", of_ours(bytes_at(1, b"\xff")), CLASSIC, {}, {"malformed_ignored": 100}),
    ("length not 4 + 8 n", of_ours(lambda opt: bytes_at(1, [len(opt) - 1])(opt[:-1]) + NOP), CLASSIC,
     {}, {"malformed_ignored": 100}),
    ("scale of echoes", of_ours(lambda opt: bytes_at(2, [opt[2] ^ 0x1f])(opt), acks), CLASSIC,
     {"malformed_ignored": 100}, {}),
    ("reserved type", of_ours(lambda opt: bytes_at(2, [opt[2] | 0xe0])(opt)), CLASSIC,
     {}, {"malformed_ignored": 100}),
    ("no hops", of_ours(lambda opt: bytes_at(3, [opt[3] & 0x0f])(opt)), CLASSIC, {}, {"bad_hop_ignored": 100}),
    ("15 hops", of_ours(lambda opt: bytes_at(3, [opt[3] | 0xf0])(opt)), "hpcc", {"fallbacks": 0}, {}),
    ("no records", of_ours(lambda opt: bytes_at(1, [4])(opt[:4])), CLASSIC, {}, {}),
    ("other kind", of_ours(bytes_at(0, [254])), CLASSIC, {"echo_received": 0}, {"forward_received": 0}),
    ("twice", twice, "hpcc", {"malformed_ignored": 100}, {"malformed_ignored": 0}),
)


def test_heads_changed():
    for number, (name, box, mode, at_a, at_b) in enumerate(HEADS):
        # Since TCP-AO in 6.7 TCP drops segments with malformed options: no data would arrive.
        if name == "length beyond the header" and "TCPAOBad" in Path("/proc/net/netstat").read_text(encoding="ascii"):
            continue
        path, client, server = joined(BoxPath(4 + number % 2 * 2, change=box))
        expect_half(name, path.version, NBYTES, goodput_mbps(client, server, NBYTES))
        send_until(lambda: get_cc(client) == mode, client, server, NBYTES // 2)
        expect(f"{name}: mode", get_cc(client), mode)
        for counters, want in (path.a.counters(), at_a), (path.b.counters(), at_b):
            for counter, least in want.items():
                # one of five ACKs has a record, and ACKs are irregular in real time
                if counter != "fallbacks" or virtual_time():
                    expect_in(f"{name}: {counter}", counters[counter], least, least and NBYTES)


def reordering():
    """Return a box that swaps one packet in seven with the next one, but no packet that ends a write."""
    held = {}

    def box(packet):
        side = packet.to_b
        if side in held:
            return [packet, held.pop(side)]
        if not packet.flags & (SYN | PSH) and packet.seq // 1400 % 7 == 0 and packet.payload:
            held[side] = packet
            return []
        return [packet]
    return box


def splitting(packet):
    """Split large segments into two with the same options, as TSO does."""
    if len(packet.payload) < 1000:
        return [packet]
    later = copy.deepcopy(packet)
    packet.payload, later.payload = packet.payload[:600], packet.payload[600:]
    later.seq += 600
    return [packet, later]


def old_options():
    """Return a box that replaces each echo by the echo of 40 ACKs earlier, so that new echoes never arrive."""
    past = []

    def box(packet):
        if not packet.to_b and packet.has_ours() and not packet.syn:
            past.append([opt for opt in packet.options if opt[0] == KIND][0])
            old = past[max(0, len(past) - 41)]
            packet.options = [opt for opt in packet.options if opt[0] != KIND]
            if len(b"".join(packet.options)) + len(old) <= 40:
                packet.options.append(old)
        return [packet]
    return box


def test_segments_split():
    path, client, _ = changed("split", splitting, both_ways=True)
    expect("mode", (get_cc(client), path.a.counters()["fallbacks"]), ("hpcc", 0))
    path.no_errors()


def test_segments_reordered():
    path, client, _ = changed("reordered", reordering(), 6)
    expect("mode", get_cc(client), "hpcc")
    expect_none(path.a, "fallbacks", "bad_hop_ignored", "malformed_ignored", "checksum_ignored")


def test_old_options():
    path, client, server = changed("old options", old_options())
    # At first the box repeats the same echo: in real time for more than four round trips.
    send_until(lambda: get_cc(client) == "hpcc", client, server, NBYTES // 2)
    expect("mode", get_cc(client), "hpcc")
    if virtual_time():
        expect_counters(path.a, fallbacks=0)


# ---- boxes that drop, reset or corrupt segments with our options ----

def drop(_packet):
    """Drop the segment, like a firewall that does not support the option."""
    return []


def reset(packet):
    """Let both ends get a RST."""
    return packet.resets()


def spoil(packet):
    """Change a byte but not the checksum: the receiver drops the segment."""
    packet.each(bytes_at(2, b"\xff"))
    packet.bad_csum = True
    return [packet]


def strip(packet):
    """Forward the segment without the option."""
    into_nops(packet)
    return [packet]


def syn(packet):
    """SYN"""
    return packet.syn and not packet.flags & ACK


# which segments, and towards which end
PLACES = ((syn, True), (synacks, False), (data, True), (data, False), (acks, True), (acks, False), (everything, None))
ACTIONS = (drop, reset, spoil, strip)
# The longest time in s until a connection works as without the option, in the handshake (the third
# SYN has no option) and after it.
HANDSHAKE_S, RTO_S = 8, 2


def box_of(action, where, to_b=None):
    """Return a box that acts on segments with our option; to_b limits it to one direction."""
    def box(packet):
        if packet.has_ours() and where(packet) and to_b in (None, packet.to_b):
            return action(packet)
        return [packet]
    return box


def refused(path, what):
    """If a middlebox resets a connection, the connection ends at once, like any TCP connection."""
    start = time.monotonic()
    try:
        client, server = path.connect()
        transfer((client, server, pattern(NBYTES)), (server, client, pattern(NBYTES)))
    except (ConnectionRefusedError, ConnectionResetError):
        expect_in(f"{what}: s", time.monotonic() - start, 0, RTO_S)
    else:
        raise AssertionError(f"{what}: the connection does not end")


def works(path, what, connect_s):
    """Data arrive in both directions within a short time, and then with at least half of cubic's goodput."""
    start = time.monotonic()
    client, server = path.connect()
    expect_in(f"{what}: s to connect", time.monotonic() - start, 0, connect_s)
    for ends in (client, server), (server, client):
        start = time.monotonic()
        transfer((*ends, pattern(NBYTES // 2)))
        expect_in(f"{what}: s for the first data", time.monotonic() - start, 0, RTO_S)
        goodput_mbps(*ends, NBYTES // 2)
        expect_half(f"{what}: later", path.version, NBYTES, goodput_mbps(*ends, NBYTES))


def test_acted_on():
    """Each action is tried on each kind of segment with our option, in each direction."""
    need_virtual_time()
    for number, (action, (where, to_b)) in enumerate(itertools.product(ACTIONS, PLACES)):
        what = f"{action.__name__} {where.__doc__} to {({True: 'b', False: 'a'}).get(to_b, 'both')}"
        path = BoxPath(4 + number % 2 * 2, change=box_of(action, where, to_b))
        if action is reset:
            refused(path, what)
        else:
            works(path, what, RTO_S if where in (data, acks) else HANDSHAKE_S)


def test_each_carrier():
    """A box drops our option, and does not forward other carriers of telemetry."""
    need_virtual_time()
    for carrier, name in enumerate(("tcp", "ioam", "int", "ifa", "csig", "probes")):
        path = BoxPath(6, change=box_of(drop, lambda packet: not packet.syn),
                       **({"carry": 1} if name == "probes" else {"carrier": carrier}))
        # ARP and ICMPv6
        path.lets_by = lambda frame: frame[12:14] == b"\x08\x06" or frame[12:14] == b"\x86\xdd" and frame[20] == 58
        for ns in path.hosts:
            set_links(ns, (1, 2, 1000000000))
        works(path, name, HANDSHAKE_S)


class Firewall:
    """A box that drops segments with our option after the handshake, for a while."""

    def __init__(self, where=everything, for_s=float("inf")):
        self.where = where
        self.for_s = for_s
        self.dropped = []

    def __call__(self, packet):
        if packet.syn or not packet.has_ours() or not self.where(packet) or self.after_s() > self.for_s:
            return [packet]
        self.dropped.append(time.monotonic())
        return []

    def after_s(self):
        return time.monotonic() - self.dropped[0] if self.dropped else 0


def expect_mode(name, path, flow):
    """Compare (muted, mode) of the only flow of a."""
    expect(f"{name}: muted, mode", [("muted" in got, got["mode"]) for got in path.a.dump()], [flow])


# TCP retransmits the first data after 0.2 s by a tail loss probe, and later by an RTO.
PROBED_S = 0.3


def muted(version, firewall, nbytes=20000, **how):
    """Make a connection whose data are dropped because of the option. Return path, Family of a, client, server."""
    need_virtual_time()
    path = BoxPath(version, change=firewall, **how)
    family = Family(path.a, "hpcc")
    family.listen("events")
    client, server = path.connect()
    transfer((client, server, pattern(nbytes)))
    expect("mode, why", [(flow["mode"], flow["why"], "muted" in flow) for flow in path.a.dump()],
           [("classic", "muted", True)])
    expect_counters(path.a, muted=1, fallbacks=0, returns=0)
    expect("events", [got["event"] for _, got in family.received()], ["muted", "fallback"])
    return path, family, client, server


def test_one_trial():
    """One segment carries a request as a trial. Other segments repair its loss, and there is no further trial."""
    for version in 4, 6:
        firewall = Firewall(data)
        path, _, client, server = muted(version, firewall)
        firewall.dropped.clear()
        timeouts = path.a.snmp("TcpExtTCPTimeouts")
        for _ in range(10):
            goodput_mbps(client, server, NBYTES)
        expect("dropped since the RTO", len(firewall.dropped), 1)
        expect("timeouts since", path.a.snmp("TcpExtTCPTimeouts"), timeouts)
        expect_mode("later", path, (True, "classic"))


def test_trial_brings_telemetry_back():
    path, family, client, server = muted(6, Firewall(data, PROBED_S))
    goodput_mbps(client, server, NBYTES)
    expect_mode("later", path, (False, "telemetry"))
    expect("events", [got["event"] for _, got in family.received()], ["return"])


def test_trial_is_a_request():
    """In receiver mode the trial is a request and not parameters: the parameters were sent before the RTO."""
    for version in 4, 6:
        path, _, client, server = muted(version, Firewall(data, PROBED_S), where=1, start_rtt_ns=10**9)
        goodput_mbps(client, server, NBYTES)
        expect_mode("later", path, (False, "telemetry"))


def test_trial_has_room():
    """A segment whose options are full of SACK blocks does not count as a trial."""
    for version in 4, 6:
        path, _, client, server = muted(version, Firewall(data, PROBED_S))
        numbers = itertools.count()
        tried = []

        def half(packet):
            """Drop every second data segment to a."""
            if packet.payload and not packet.to_b:
                return [packet] if next(numbers) % 2 else []
            if packet.payload and packet.has_ours():
                tried.append(packet)
            return [packet]

        path.change_packet = half
        transfer((client, server, pattern(2 * NBYTES)), (server, client, pattern(NBYTES)))
        goodput_mbps(client, server, NBYTES)
        expect_in("segments with a request", len(tried), 1, NBYTES)


def test_parameters_of_the_peer():
    """The peer's parameters for its own data do not show that the path forwards our data."""
    need_virtual_time()
    for version in 4, 6:
        path, client, server = joined(BoxPath(version, change=Firewall(data_to_b), where=1))
        for _ in range(2):
            transfer((client, server, pattern(NBYTES)), (server, client, pattern(NBYTES)))
        expect_counters(path.a, muted=1)


def each_receiver(change=None):
    """For each net.hpcc.where and IP version yield a name, a path, and the client and server of a connection that has
    transferred its first data. Later packets pass `change`, if given.
    """
    need_virtual_time()
    for where, version in itertools.product((0, 1), (4, 6)):
        path, client, server = joined(BoxPath(version, where=where, start_rtt_ns=10**9))
        transfer((client, server, pattern(NBYTES)))
        path.change_packet = change() if change else nothing
        yield f"where {where}, IPv{version}", path, client, server


def test_path_begins_to_drop():
    """If a path begins to drop segments with the option, the flow is muted once, and makes one trial."""
    for name, path, client, server in each_receiver(lambda: Firewall(data_to_b)):
        for _ in range(4):
            transfer((client, server, pattern(NBYTES)))
        expect(f"{name}: muted", path.a.counters()["muted"], 1)
        path.change_packet.dropped.clear()
        for _ in range(20):
            transfer((client, server, pattern(NBYTES)))
        expect(f"{name}: trials, muted", (len(path.change_packet.dropped), path.a.counters()["muted"]), (1, 1))


def outage(path, client, server):
    """Drop all packets for two seconds, with and without the option. Wait until data have arrived."""
    path.change_packet = drop
    client.send(bytes(100))
    time.sleep(2)
    path.change_packet = nothing
    time.sleep(4)
    expect("bytes that arrive", len(server.recv(1000)), 100)
    expect_counters(path.a, muted=1)


def test_outage():
    """After an outage an end that sends little still returns telemetry for the data of the other end."""
    need_virtual_time()
    path, client, server = joined(BoxPath(4))
    transfer((client, server, pattern(NBYTES)))
    outage(path, client, server)
    for _ in range(5):
        goodput_mbps(server, client, NBYTES)
    expect("muted", path.a.counters()["muted"], 1)
    expect("congestion control", get_cc(server), "hpcc")


def test_trial_after_outage():
    """After an outage the trial restores telemetry, for any end that computes W."""
    for name, path, client, server in each_receiver():
        outage(path, client, server)
        for _ in range(4):
            transfer((client, server, pattern(NBYTES)))
        expect_mode(name, path, (False, "telemetry"))


def test_trial_without_carrier():
    """The trial uses the TCP option if the path also drops the carrier of the route, from the start or later."""
    need_virtual_time()
    for later in False, True:
        path = BoxPath(6, carrier=1, start_rtt_ns=10**9)
        path.change(1, "hpcc stamp tcp,ioam")
        for ns in path.hosts:
            set_links(ns, (1, 2, 1000000000))

        def no_traces(frame):
            """ARP and ICMPv6"""
            return frame[12:14] == b"\x08\x06" or frame[12:14] == b"\x86\xdd" and frame[20] == 58

        if not later:
            path.lets_by = no_traces
        path, client, server = joined(path)
        transfer((client, server, pattern(NBYTES)))
        expect("traces stopped", path.a.counters()["ioam_stopped"], int(not later))
        expect_mode("first", path, (False, "telemetry"))
        path.lets_by = no_traces
        outage(path, client, server)
        for _ in range(4):
            transfer((client, server, pattern(NBYTES)))
        if later:       # an RTO stops the traces, and may mute the flow again
            send_little(client, server, 34)
            transfer((client, server, pattern(NBYTES)))
        expect_mode("after the outage", path, (False, "telemetry"))


def send_little(client, server, for_s=12):
    """Send single segments, five per second. Return the longest time of a segment in s."""
    longest_s = 0
    for _ in range(5 * for_s):
        start = time.monotonic()
        transfer((client, server, bytes(100)))
        longest_s = max(longest_s, time.monotonic() - start)
        time.sleep(0.2)
    return longest_s


def test_trial_of_one_segment():
    """A flow of few segments also makes its trial; if the path drops the trial, a tail loss probe repairs the loss."""
    for name, path, client, server in each_receiver():
        outage(path, client, server)
        send_little(client, server)
        expect_mode(name, path, (False, "telemetry"))
    for name, path, client, server in each_receiver(lambda: Firewall(data)):
        transfer((client, server, bytes(100)))
        expect(f"{name}: muted", path.a.counters()["muted"], 1)
        path.change_packet.dropped.clear()
        timeouts = path.a.snmp("TcpExtTCPTimeouts")
        longest_s = send_little(client, server)
        timeouts = path.a.snmp("TcpExtTCPTimeouts") - timeouts
        expect(f"{name}: trials, RTOs", (len(path.change_packet.dropped), timeouts), (1, 0))
        expect_in(f"{name}: longest time of a segment, s", longest_s, 0.1, PROBED_S)
        expect(f"{name}: muted", path.a.counters()["muted"], 1)


def test_trial_lost_by_chance():
    for name, path, client, server in each_receiver():
        outage(path, client, server)
        path.change_packet = Firewall(data_to_b, 0)
        send_little(client, server)
        expect(f"{name}: dropped", len(path.change_packet.dropped), 1)
        expect_mode(name, path, (True, "classic"))
        send_little(client, server, 34)
        expect_mode(name, path, (False, "telemetry"))
        expect(f"{name}: muted", path.a.counters()["muted"], 1)


def test_trial_without_answer():
    """A trial that no port answers ends the muting; telemetry returns when ports stamp again."""
    for name, path, client, server in each_receiver():
        outage(path, client, server)
        path.change(1, "hpcc nostamp")
        send_little(client, server)
        expect_mode(name, path, (False, "classic"))
        path.change(1, "hpcc stamp tcp")
        send_little(client, server)
        expect_mode(name, path, (False, "telemetry"))


def test_trial_with_identify_off():
    for name, path, client, server in each_receiver():
        path.change(1, "hpcc identify off")
        outage(path, client, server)
        send_little(client, server)
        transfer((client, server, pattern(NBYTES)))
        expect_mode(name, path, (False, "telemetry"))


def test_trials_wait():
    """If the path always drops the option, each trial waits twice as long as the previous one, and later ten seconds.
    """
    need_virtual_time()
    path, client, server = joined(BoxPath(4))
    transfer((client, server, pattern(NBYTES)))
    path.change_packet = Firewall(data)
    transfer((client, server, bytes(100)))
    expect("muted", path.a.counters()["muted"], 1)
    began = time.monotonic()
    path.change_packet.dropped.clear()
    send_little(client, server, 200)
    expect("s until each trial", [round((at - began) / 10) * 10 for at in path.change_packet.dropped],
           [10, 40, 90, 180])
    expect("muted", path.a.counters()["muted"], 1)


main(modules=["sch_hpcc"])
