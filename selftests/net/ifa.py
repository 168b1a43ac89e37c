#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""IFA 2.0 as the carrier of requests: kmod/hpcc/carrier/ifa.c, qdisc/stamp/ifa.c."""

import contextlib
import os
import struct

from lib import tshark
from lib.frameport import FramePort, ethernet, ip_packet, leave_unchanged
from lib.ktap import expect, expect_in, main
from lib.packet import ACK, CAP_PROBES, FIN, FORWARD, RST, SYN, csum, option, record, with_csum
from lib.path import MBPS, moved, take_carrier
from lib.peer import SCALE, Peer, qlen_code
from lib.routed import nft
from lib.tcp import set_cc

PROTO = 131
CAP_IFA = 0x80
HOP = struct.Struct("!IIHHIIIII")


def hop(node, port=1, ns=1000, residence=0, tx=0, qlen=0, lns=1, speed=15, sec=0):
    return HOP.pack(lns << 28 | node << 8, speed << 28 | sec, port, 0, ns, residence, tx, qlen, 0)


def wrapped(packet, hops=(), version=2, gns=15, proto=6, flags=4, most=56, limit=7, words=None, behind=b""):
    """Return an IP packet whose TCP segment is in IFA; its IP header is valid."""
    at = 20 if packet[0] >> 4 == 4 else 40
    stack = b"".join(reversed(hops))
    doff = (packet[at + 12] >> 4) * 4
    data = bytes([version << 4 | gns, proto, flags, most]) + packet[at:at + doff] + \
        bytes([0, 0, limit, len(stack) // 4 if words is None else words]) + stack + behind + packet[at + doff:]
    if at == 20:
        head = packet[:2] + struct.pack("!H", 20 + len(data)) + packet[4:9] + bytes([PROTO]) + packet[10:20]
        return with_csum(head, 10) + data
    return packet[:4] + struct.pack("!HB", len(data), PROTO) + packet[7:40] + data


class Switched(Peer):
    """A peer whose probes have passed switches."""

    # pylint: disable=too-many-arguments
    def ifa(self, hops=(), flags=ACK, seq=0, ack=0, opts=option(FORWARD, (), SCALE), tsval=None, payload=b"",
            bad_csum=False, **how):
        """Send a probe in IFA, with the metadata of hops."""
        stamp = self.stamp()
        if tsval is not None:
            stamp = stamp[:4] + struct.pack("!I", tsval) + stamp[8:]
        self.send_raw(wrapped(self.packet(flags, self.seq + seq, self.acked + ack, stamp + opts, payload,
                                          bad_csum), hops, **how))

    def send_raw(self, packet):
        os.write(self.fd, packet)


GOOD = hop(1, tx=1000), hop(2, tx=5000, qlen=1000, speed=4)


def receiver(version=4, **sysctls):
    """Return a peer whose kernel has a link in its table, and has agreed to IFA."""
    return take_carrier(Switched(version=version, **sysctls), CAP_IFA, (1, 1, MBPS * 1000000), caps=CAP_PROBES)


def test_stacks_in():
    """A receiver reads a stack as records and sends an echo; it ignores and counts a stack that it cannot use."""
    def good(*hows):
        return [(GOOD, how) for how in hows]

    cases = {
        "ifa_received": (*good({}), ((), {}), ((hop(1, lns=2), hop(2, speed=4)), {})),      # The second stack is empty.
        # B is in no table, and has no code; the unit of the queue is unknown
        "ifa_unknown_link": (((hop(1), hop(3)), {}), ((hop(1), hop(2, speed=4, lns=2)), {})),
        # A hop may be missing at limit 0; the stack is longer than `most`.
        "ifa_ignored": (*good({"limit": 0}, {"most": 16}, {"most": 8}, {"words": 8}, {"words": 24}, {"behind": b"data"},
                              {"opts": b""}),
                        ((hop(1, ns=10 ** 9),), {}), ([hop(1)] * 13, {"most": 255, "limit": 9})),
        "window_ignored": good({"flags": ACK | SYN}, {"flags": ACK | FIN}, {"flags": ACK | RST}, {"flags": 0},
                               {"seq": -100}, {"seq": 1 << 24}, {"ack": 1 << 24}, {"ack": -(1 << 24)}, {"tsval": 1}),
        "checksum_ignored": good({"payload": b"data"}, {"bad_csum": True})}     # the checksum covers only the header
    for version in 4, 6:
        peer = receiver(version)
        for counter, (hops, how) in [(counter, case) for counter, group in cases.items() for case in group]:
            peer.read_all()
            before, segs = peer.ns.counters(), peer.ns.snmp("InSegs")
            peer.ifa(hops, **how)
            echo = peer.echoes(0.05)
            got = (peer.ns.counters() - before).get(counter), peer.ns.snmp("InSegs")
            expect(f"{counter} of {how}, segments", got, (1, segs))
            taken = counter == "ifa_received" and bool(hops)
            expect(f"hops echoed of {how}", [[r["hop"] for r in one.records] for one in echo], [[1, 2]] * taken)
            if taken and hops is GOOD:
                # 64,000 bytes at 100 Gb/s
                expect("queue", echo[0].records[1]["qlen"], qlen_code(5120 >> SCALE))
        peer.send(b"", b"data")
        expect("data", peer.sock.recv(100), b"data")


def test_not_taken():
    """A packet of another IFA variant, or of no hpcc connection, is ignored, and TCP does not receive this packet."""
    peer = receiver()
    before, segs = peer.ns.counters(), peer.ns.snmp("InSegs")
    for how in {"version": 1}, {"gns": 1}, {"proto": 17}, {"flags_": 8}, {"flags_": 0x10}, {"flags_": 1}:
        how = {key.rstrip("_"): value for key, value in how.items()}
        packet = peer.packet(ACK, peer.seq, peer.acked, peer.stamp() + option(FORWARD, (), SCALE))
        peer.send_raw(wrapped(packet, GOOD, **how))
    set_cc(peer.sock, "reno")
    peer.ifa(GOOD)
    peer.port += 1
    peer.ifa(GOOD)
    peer.ifa(flags=SYN)
    peer.read_all(0.05)
    expect("IFA", moved(peer.ns, before, "ifa_"), {})
    expect("segments", peer.ns.snmp("InSegs"), segs)


WALL = "table inet f { chain in { type filter hook input priority 0; %s drop; }; }"


def test_filter():
    """IFA does not bypass a filter that drops TCP ports; a filter that drops IFA drops the telemetry as well."""
    for version in 4, 6:
        peer = receiver(version)
        nft(peer.ns, WALL % "tcp dport 1-65535")
        segs, accepted = peer.ns.snmp("InSegs"), peer.ns.snmp("PassiveOpens")
        for how in ({"flags": SYN, "opts": b""}, {"flags": ACK, "payload": b"hidden"}, {"flags": RST | ACK},
                    {"flags": FIN | ACK}, {}):
            peer.ifa(GOOD, **how)
        peer.read_all(0.05)
        expect("segments, connections", (peer.ns.snmp("InSegs"), peer.ns.snmp("PassiveOpens")), (segs, accepted))
        peer.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            expect("data", peer.sock.recv(100), None)
        nft(peer.ns, f"delete table inet f\n{WALL % f'meta l4proto {PROTO}'}")
        before = peer.ns.counters()
        peer.ifa(GOOD)
        expect("IFA", moved(peer.ns, before, "ifa_"), {})


def test_ipsec():
    """If a policy requires IPsec for the peer, telemetry in unprotected packets is ignored, in IFA and in TCP."""
    for version in 4, 6:
        peer = receiver(version)
        peer.ifa(GOOD)
        expect("ifa_received before the policy", peer.ns.counters()["ifa_received"], 1)
        for proto in "", "proto tcp":
            policy = f"xfrm policy {{}} src {peer.addr} dst {peer.kernel} {proto} dir in "
            peer.ns.ip(policy.format("add") + f"tmpl src {peer.addr} dst {peer.kernel} proto ah mode transport")
            before = peer.ns.counters()
            peer.ifa(GOOD)
            peer.send(option(FORWARD, [record(1, 100, 100)], SCALE))
            peer.read_all(0.05)
            moved = peer.ns.counters() - before
            names = "ifa_received", "forward_received", "policy_ignored"
            expect(f"IPv{version} {proto}: {names}", [moved.get(name, 0) for name in names], [0, 0, 2])
            peer.ns.ip(policy.format("delete"))
            peer.ifa(GOOD)
            expect("ifa_received without the policy", (peer.ns.counters() - before).get("ifa_received"), 1)


def frame(ip=4, padding=b"", **how):
    return ethernet(wrapped(ip_packet(ip), **how), padding=padding)


def test_port_writes():
    """A port inserts its metadata before other hops' metadata and updates lengths; other bytes do not change."""
    for version in 4, 6:
        for rate, code, tick in ("1000mbit", 15, 1), ("10gbit", 0, 2), ("100gbit", 4, 13):
            port = FramePort("stamp ifa", f"rate {rate} delay 20us")
            ip = 20 if version == 4 else 40
            at = 14 + ip + 4 + 32
            sent = frame(version, padding=b"pad")
            first = port.through(sent)
            second = port.through(first)
            expect("lengths", (len(first), len(second)), (len(sent) + 32, len(sent) + 64))
            expect("metadata header", (first[at:at + 4], second[at:at + 4]), (b"\0\0\6\10", b"\0\0\5\20"))
            lns, speed, out, into, ns, residence, tx, qlen, zero = HOP.unpack_from(first, at + 4)
            expect("hop", (lns, speed >> 28, out, into, qlen, zero), (1 << 28 | 5 << 8, code, 9, 0, 0, 0))
            expect_in("ns", ns, 0, 10 ** 9 - 1)
            expect_in("residence", residence, 0, 10 ** 9)
            expect("metadata of the first hop", second[at + 36:at + 68], first[at + 4:at + 36])
            # the bytes of the first frame with its own metadata and the overhead
            grown, on_link = (HOP.unpack_from(second, at + 4)[6] - tx) % (1 << 32), len(first) + 24
            expect_in("txBytes", grown, on_link - tick, on_link + tick)
            for data in first, second:
                expect("IFA header and TCP, padding", (data[14 + ip:at], data[-3:]), (sent[14 + ip:at], b"pad"))
                length, = struct.unpack_from("!H", data, 16 if version == 4 else 18)
                expect("IP length", length, len(data) - 3 - (14 if version == 4 else 54))
                if version == 4:
                    expect("IP checksum", csum(data[14:34]), 0)
            expect("stamped", port.stats()["stamped"], 2)


def test_port_counts_for_long():
    """txBytes of a port with several queues does not jump after 2^51 ns, or 26 days: at 1 kbit/s a byte needs 8 ms."""
    port = FramePort("")
    for ns in port.pair.c, port.pair.s:
        ns.ip("link set eth0 mtu 65535")
    port.pair.c.tc("qdisc replace dev eth0 root handle 1: prio")
    for band in 1, 2, 3:
        port.pair.c.tc(f"qdisc add dev eth0 parent 1:{band} hpcc bandwidth 1kbit node 5 port 9 stamp ifa")
    sent = frame(padding=bytes(65000))
    found = [HOP.unpack_from(port.through(sent), 14 + 20 + 4 + 32 + 4)[6]
             for _ in range(2 ** 51 // (8 * 10 ** 6) // len(sent) + 100)]
    steps = [(b - a) % (1 << 32) for a, b in zip(found, found[1:])]
    # The kernel sends other packets between our frames.
    expect_in("longest step", max(steps), 65000, 67000)
    expect_in("time in ns", sum(steps) * 8 * 10 ** 6, 2 ** 51, 2 ** 52)


def test_port_child():
    """The residence time is the wait in hpcc's own queue, and 0 with a child, because the arrival is unknown."""
    for child, waits in (None, True), ("pfifo", False):
        port, sent = FramePort("stamp ifa", "rate 10mbit delay 20us"), frame()
        if child:
            port.child(child)
        for data in sent + bytes(1400), sent:
            port.send(data)
        port.recv(sent[:12])
        residence = HOP.unpack_from(port.recv(sent[:12]), 14 + 20 + 4 + 32 + 4)[5]
        expect(f"child {child}: residence time", residence > 0, waits)


def test_port_leaves():
    """A frame that the port must not write to leaves unchanged, and is counted by reason."""
    longer = {"behind": bytes(1500 - 20 - 40 - 31)}         # more than the MTU
    cases = {"no_option": ({"version": 1}, {"gns": 2}, {"proto": 17}, {"flags": 8}),
             "full": ({"limit": 0}, {"most": 7}, {"most": 23, "hops": GOOD}, longer),
             "malformed": ({"most": 15, "hops": GOOD}, {"words": 1})}
    leave_unchanged([("stamp ifa", frame(**how), why) for why, hows in cases.items() for how in hows] +
                    [("stamp tcp,int", frame(), "not_tcp"), ("nostamp", frame(), "off")])
    fits = frame(behind=bytes(1500 - 20 - 40 - 32))
    expect("length of a packet that grows to the MTU", len(FramePort("stamp ifa").through(fits)), 1514)
    got = FramePort("stamp ifa").through(frame(limit=255))
    expect("hop limit 255, which means no limit", got[14 + 20 + 36 + 2], 255)


def test_captures():
    """hpcc-carriers.lua reads captures/ifa.pcap of unit/test_captures.c; the hop at the limit changes nothing."""
    heads = ["ifa.version", "ifa.gns", "ifa.proto", "ifa.flags", "ifa.max_length", "tcp.checksum.status", "hpcc.type",
             "ifa.malformed"]
    stack = ["ifa.hop_limit", "ifa.length"]
    hops = ["ifa.device_id", "ifa.lns", "ifa.speed", "ifa.egress_port", "ifa.rx_sec", "ifa.rx_ns", "ifa.residence",
            "ifa.tx_bytes", "ifa.qlen"]
    of_hop = [["1", "2"], ["1", "3"], ["4", "15"], ["2", "1"], ["7", "7"], ["1000", "999999999"], ["0", "2000"],
              [str(0xfffffff0), "1000000"], ["0", "195"]]
    packets = tshark.capture("ifa", heads + stack + hops)
    expect("packets", len(packets), 4)
    for nr, packet in zip((0, 1, 2, 2), packets):
        expect("heads", [packet[name] for name in heads], [["2"], ["15"], ["6"], ["0x04"], ["16"], ["1"], ["1"], []])
        expect("stack", [packet[name] for name in stack], [[str(2 - nr)], [str(8 * nr)]])
        expect("hops", [packet[name] for name in hops], [field[:nr][::-1] for field in of_hop])


if __name__ == "__main__":
    main(modules=["sch_hpcc"], commands=["nft"])
