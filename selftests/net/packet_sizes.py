#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Very large and very small packets: BIG TCP, offloads, MTUs, and an MTU that shrinks during the connection."""

import itertools

from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main
from lib.net import Pair
from lib.packet import (FORWARD, IDENTIFY, Sniffer, data_segments, option, ours_in, record, sane_segments)
from lib.routed import CCS, Routed, both_ways, expect_works, fill, nft, sysfs
from lib.tcp import get_cc, pattern, tcp_info, transfer

OPTIONS_MAX = 40
CLASSIC = "ldcp-classic"
LEAST = len(option(FORWARD, [record(1, 0, 0)]))
DEAF = """
table inet deaf {
	chain i {
		type filter hook input priority 0
		icmp type destination-unreachable drop
		icmpv6 type packet-too-big drop
	}
}
"""


def without(segments):
    """Return data segments without a request, except segments in which two blocks of SACK leave no space."""
    return [seg for seg in data_segments(segments) if not seg.telemetry(FORWARD) and
            not seg.telemetry(IDENTIFY) and len(seg.options) + LEAST <= OPTIONS_MAX]


def test_big_tcp():
    """GSO packets beyond 64 KB, segmented by the port or not, carry telemetry like other packets."""
    for split, cc in itertools.product(("no-split-gso", "split-gso"), CCS):
        pair = Pair(6, cc=(cc, cc), burst=64, host_mbps=100000, ldcp={"burst": 64, "iw": 2500},
                    qdisc=f"hpcc rate 50gbit delay 200us limit 20mb {split}")
        for ns in (pair.c, pair.s):
            ns.ip("link set eth0 gso_max_size 200000")
        sniffer, (client, server) = Sniffer(pair.c), pair.connect()
        transfer((client, server, pattern(8000000)))
        segments = sane_segments(sniffer)
        longest = max(seg.total for seg in segments)
        print(f"# {cc}, {split}: longest packet {longest}")
        expect_in("longest", longest, *((1 << 16, 200000) if split == "no-split-gso" else (1500, 1500)))
        beyond = [seg for seg in segments if seg.total >= 1 << 16]
        expect("our options on packets beyond 64 KB", bool(ours_in(beyond)), cc == "hpcc" and split == "no-split-gso")
        # In real time all packets of a slow host may be beyond 64 KB, without telemetry.
        runs = get_cc(client)
        expect("congestion control", runs if virtual_time() else runs.removesuffix("-classic"), cc)
        for ns in (pair.c, pair.s):
            expect("InCsumErrors", ns.snmp("InCsumErrors"), 0)


def test_offloads():
    """Try each MTU with and without GRO, which must not merge records, and with and without checksum offload."""
    for version, cc in itertools.product((4, 6), CCS):
        path = Routed(version, cc=cc, mtu=9000, sample=0)
        ports = [(ns, dev) for ns, devs in zip(path.nodes, (["right"], *[["left", "right"]] * len(path.switches),
                                                            ["left"])) for dev in devs]
        sysfs(path.b, "left/gro_flush_timeout", 200000)
        ever = False
        for number in range(12):
            mtu = (1280, 1500, 9000)[number % 3]
            gro, tx = (("off", "on")[number >> bit & 1] for bit in (0, 1))
            for ns, dev in ports:
                ns.ip(f"link set {dev} mtu {mtu}")
                ns.run("ethtool", "-K", dev, "gro", gro, "tx", tx, "rx", tx)
            sniffer, (client, server) = Sniffer(path.b, "left"), path.connect(5000 + number)
            both_ways(client, server, 60000)
            segments = sane_segments(sniffer, mtu)
            joined = [seg for seg in segments if seg.total > mtu]
            ever |= bool(joined)
            what = f"{cc} with MTU {mtu}, GRO {gro}, checksums {tx}"
            expect(f"{what}: partial checksums", any(seg.partial for seg in segments), tx == "on" or bool(joined))
            expect(f"{what}: merged segments with a request",
                   [seg for seg in joined if gro == "off" or seg.telemetry(FORWARD)], [])
            if cc == "hpcc":
                expect(f"{what}: data without our option", without(segments), [])
            expect_works(path, cc, client)
            client.close()
            server.close()
        if cc == "ldcp":
            expect("GRO merged segments", ever, True)


def test_pmtu():
    """A link in the middle reduces its MTU, and reports this by ICMP or not, so that TCP has to probe the MTU."""
    for version, cc, reported in itertools.product((4, 6), CCS, (True, False)):
        path = Routed(version, 2, cc, sample=0)
        if not reported:
            path.a.sysctl("net.ipv4.tcp_mtu_probing", 1)
            nft(path.a, DEAF)
        client, server = path.connect()
        transfer((client, server, pattern(100000)))
        before = tcp_info(client)["snd_mss"]
        path.switches[0].ip("link set right mtu 1300")
        path.switches[1].ip("link set left mtu 1300")
        sniffer = Sniffer(path.b, "left")
        both_ways(client, server)
        sent = [seg for seg in data_segments(sane_segments(sniffer)) if seg.dport == 5000]
        expect_in("longest", max(seg.total for seg in sent), 1000 if reported else 500, 1300)
        expect("MSS is reduced", tcp_info(client)["snd_mss"] < before, True)
        # After an RTO the path may drop our option: the flow is muted until a trial succeeds.
        if cc == "hpcc":
            expect("muted", path.a.counters()["muted"], 0 if reported else 1)
            expect("data without our option", bool(without(sent)), not reported)
        if virtual_time():
            expect("congestion control", get_cc(client), cc if cc == "hpcc" or reported else CLASSIC)
        # Two losses in a row without a mark make ldcp fall back; a slow host may have an
        # RTO besides. A mark ends the fallback.
        if get_cc(client) == CLASSIC:
            fill(path, client, lambda: get_cc(client) == cc)
        expect_works(path, cc, client, twice=True)


main(modules=["sch_hpcc", "tcp_ldcp"], commands=["nft"])
