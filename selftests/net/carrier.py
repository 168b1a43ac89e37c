#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Carriers of requests between two hosts: kmod/hpcc/carrier/, qdisc/stamp/. Test X_NAME runs X with one carrier."""

import time

from lib.kernel import virtual_time
from lib.ktap import each, expect, expect_in, main
from lib.path import (CARRIERS, MBPS, carrier_path, delete_links, falls_back, mode_hops, set_links,
                      set_routes, utilization)
from lib.routed import nft
from lib.tcp import pattern, set_cc, transfer

# IOAM needs IPv6.
VERSIONS = {name: (6,) if name == "ioam" else (4, 6) for name in CARRIERS}


def hops(name):
    """Return the number of hops of a flow on a path of two switches: CSIG transports the signal of one switch."""
    return 1 if name == "csig" else 2


def trouble(name, ns):
    """Return the counters of a carrier that increase only after an error."""
    return {key: n for key, n in ns.counters().items()
            if n and key.startswith(name + "_") and key not in (name + "_sent", name + "_received")}


def withdraw(name, path, server=None):
    """Make the receiver stop accepting a carrier."""
    if name == "ioam":
        path.b.sysctl("net.ipv6.max_hbh_length", 8)     # drops packets with such headers
    elif name == "ifa":
        nft(path.b, "table inet f { chain in { type filter hook input priority 0; meta l4proto 131 drop; }; }")
    elif name == "csig":
        path.b.sysctl("net.hpcc.carrier", 0)
    else:
        set_cc(server, "reno")


@each(*CARRIERS)
def end_to_end(name):
    """The carrier transports the load of each hop, and W follows the load as with the TCP option."""
    long = {"delay": "200us"} | ({"stamp": "tcp,int int_window 200us"} if name == "int" else {})
    for version in VERSIONS[name]:
        took = []
        for carrier in 0, CARRIERS[name]["carrier"]:
            path = carrier_path(name, **long, version=version, carrier=carrier)
            # A port that stamps limits the rate, not the host.
            path.change(2, f"hpcc rate {MBPS // 2}mbit")
            for ns in path.hosts if name != "csig" else ():
                set_links(ns, (2, 2, MBPS * 500000))
            ends = path.connect()
            transfer((*ends, pattern(3000000)))
            took.append(2 * utilization(path, ends, 24000000, 2))
            expect("mode, hops", mode_hops(path.a), ("telemetry", hops(name) if carrier else 2))
            path.no_errors()
            a, b = path.a.counters(), path.b.counters()
            expect("sent, received", (a[name + "_sent"] > 100, b[name + "_received"] > 100), (bool(carrier),) * 2)
            for ns in path.hosts:
                expect("ignored, stopped", (trouble(name, ns), ns.counters()["probes_stopped"]), ({}, 0))
            expect("DSACKs", path.a.snmp("TcpExtTCPDSACKRecv"), 0)
            expect("requests not filled", {reason: n for reason, n in path.port(1)["hpcc"]["unstamped"].items()
                                           if n and reason in ("malformed", "full", "no_memory")}, {})
        print(f"# IPv{version}: utilization {took[0]:.3f} by TCP, {took[1]:.3f} by {name}")
        if virtual_time():
            slack = {"ioam": 0.01, "csig": 0.05}.get(name, 0.02)
            expect_in("utilization", took[1], took[0] - slack, took[0] + slack)


@each(*CARRIERS)
def with_the_rest(name):
    """The carrier works with data in both directions at once, with receiver mode, and with other settings."""
    more = {"ioam": [{"carry": 1}], "int": [{"int_dscp": 46, "stamp": "tcp,int int_dscp 46"}]}
    for how in {}, {"where": 1}, *more.get(name, []):
        path = carrier_path(name, **how)
        client, server = path.connect()
        for i in range(4):
            transfer((client, server, pattern(400000)), (server, client, pattern(400000, i)))
        for ns in path.hosts:
            counters = ns.counters()
            expect("mode, hops, stopped", (mode_hops(ns), counters[name + "_stopped"]), (("telemetry", hops(name)), 0))
            expect_in("received", counters[name + "_received"], 10, 100000)
            if virtual_time():
                expect("RTOs", ns.snmp("TcpExtTCPTimeouts"), 0)
        path.no_errors()


@each(*CARRIERS)
def by_routes(name):
    """A route enables a carrier as the sysctl does, but only for the prefix of the route."""
    number = CARRIERS[name]["carrier"]
    for version in VERSIONS[name]:
        for carrier, brings in (0, True), (number, False):
            path = carrier_path(name, version=version, carrier=carrier)
            for ns in path.hosts:
                set_routes(ns, f"{'10.0.0.0/24' if version == 4 else 'fd00::/64'} - {number - carrier}")
            transfer((*path.connect(), pattern(400000)))
            a, b = path.a.counters(), path.b.counters()
            expect(f"IPv{version}, net.hpcc.carrier {carrier}: sent, received",
                   (a[name + "_sent"] > 10, b[name + "_received"] > 10), (brings,) * 2)
            expect("ignored, stopped", (trouble(name, path.a), trouble(name, path.b)), ({}, {}))
            path.no_errors()


@each(*CARRIERS)
def not_agreed(name):
    """A sender does not use a carrier that the receiver does not support: no links, IPv6, SACK, or removal of tags."""
    for lacks in {"ioam": ("links", "IPv6"), "csig": ("carrier",)}.get(name, ("links", "SACK")):
        path = carrier_path(name, **({"version": 4} if lacks == "IPv6" else {}))
        if lacks == "links":
            delete_links(path.b, *[(node, port) for node in (1, 2) for port in (1, 2)])
        elif lacks == "SACK":
            path.b.sysctl("net.ipv4.tcp_sack", 0)
        elif lacks == "carrier":
            withdraw(name, path)
        transfer((*path.connect(), pattern(300000)))
        expect(f"without {lacks}: sent, hops", (path.a.counters()[name + "_sent"], path.a.flow()["hops"]), (0, 2))


@each("ioam", "int", "ifa")
def unknown_link(name):
    """The TCP option replaces the carrier if one of the links is not in the receiver's table."""
    falls_back(carrier_path(name, known=[1]), name, "unknown_link")


@each("ioam", "int", "ifa")
def no_room(name):
    """The TCP option replaces a carrier without space for all hops: records never describe only a part of the path."""
    path = carrier_path(name, ioam_nodes=1)
    falls_back(path, name, "ignored")
    if name != "ifa":       # IFA has space for one hop more, which shows that the path is too long
        expect_in("full", path.port(2)["hpcc"]["unstamped"]["full"], 1, 1 << 30)


@each("ioam", "ifa")
def dropped(name):
    """The TCP option replaces the carrier if the receiver's filter drops the carrier; with IOAM this costs an RTO."""
    path = carrier_path(name)
    withdraw(name, path)
    falls_back(path, name)
    if name == "ioam":
        expect_in("timeouts", path.a.counters()["timeouts"], 1, 3)


@each(*CARRIERS)
def dropped_later(name):
    """If the receiver stops accepting the carrier, the sender stops it. No byte of the carrier is delivered as data."""
    for how in {"version": VERSIONS[name][0]}, {"version": 6} | ({"stamp": "tcp"} if name == "ioam" else {}):
        path = carrier_path(name, **how)
        client, server = path.connect()
        transfer((client, server, pattern(400000)))
        expect("mode", path.a.flow()["mode"], "telemetry")
        withdraw(name, path, server)
        for i in range(8):
            transfer((client, server, pattern(400000, i)), *[(server, client, pattern(100000, i))] * (name == "int"))
        a, b = path.a.counters(), path.b.counters()
        expect("stopped", a[name + "_stopped"], 1)
        if name == "int":
            expect_in("discarded as old data", path.b.snmp("TcpExtTCPDSACKOldSent"), 1, 100000)
            continue
        # Probes and packets with traces are lost; other data are not lost.
        expect_in("timeouts", a["timeouts"], 0, 2 * (name == "ioam"))
        expect("mode, hops", mode_hops(path.a), ("telemetry", 2))
        if name == "csig":
            expect_in("ignored", b["csig_ignored"], 1, 100000)
        if name != "ioam":
            expect("retransmissions", path.a.snmp("RetransSegs"), 0)
            path.no_errors()


@each(*CARRIERS)
def tried_again(name):
    """In classic the sender tries a stopped carrier again, after longer and longer pauses; then telemetry returns."""
    path = carrier_path(name, carry=int(name == "int"))
    client, server = path.connect()
    transfer((client, server, pattern(400000)))
    expect("mode", path.a.flow()["mode"], "telemetry")

    def stamp(how):
        for node, port, dev in ((node, *at) for node in (1, 2) for at in ((1, "left"), (2, "right"))):
            path.change(node, f"hpcc rate {MBPS}mbit node {node} port {port} {how}", dev)

    def send_until(done, times):
        for i in range(times):
            transfer((client, server, pattern(100000, i)))
            if done():
                return
        raise AssertionError(f"{name}: {path.a.flow()}, {path.a.counters()}")

    stamp("nostamp")
    send_until(lambda: path.a.flow()["mode"] == "classic" and path.a.counters()[name + "_stopped"], 200)
    # no try within a second after the last one
    for _ in range(6):
        time.sleep(0.6)
        send_until(lambda: True, 1)
    expect_in("stopped", path.a.counters()[name + "_stopped"], 2, 3)
    # Also with net.hpcc.carry, data carry requests again if probes bring nothing.
    send_until(lambda: not path.a.flow()["probes"], 20)
    expect("mode", path.a.flow()["mode"], "classic")
    stamp("stamp " + CARRIERS[name]["stamp"].removeprefix("tcp,"))
    sent = path.a.counters()[name + "_sent"]
    time.sleep(5)
    send_until(lambda: path.a.flow()["mode"] == "telemetry", 20)
    transfer((client, server, pattern(400000)))
    expect_in("sent", path.a.counters()[name + "_sent"] - sent, 10, 1 << 20)
    expect("mode", path.a.flow()["mode"], "telemetry")
    path.no_errors()


main(modules=["sch_hpcc"], commands=["nft"])
