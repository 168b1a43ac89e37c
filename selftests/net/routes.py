#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/netns/policy.c: which end computes W, the carrier of requests, T, eta, N and sample, by the peer's address."""

import errno
import time

from lib.genl import Refused
from lib.kernel import load, unload
from lib.ktap import defer, expect, expect_in, main
from lib.net import Netns, Pair, loaded_again, meet
from lib.packet import CAP_QUIET, CAP_REPORT, CAP_TELEMETRY, CAP_WINDOW, KIND, SYN, Sniffer, syn_option
from lib.path import MBPS, Path, carrier_path, get_routes, route, set_routes
from lib.tcp import pattern, transfer

MAX = 200
CAPS = {0: CAP_TELEMETRY | CAP_QUIET, 1: CAP_TELEMETRY | CAP_QUIET | CAP_WINDOW}
OTHER = {4: "10.0.0.3", 6: "fd00::3"}


def refused(ns, what, number, message, how="set", **values):
    """Fail unless the kernel refuses a request with this error and message, and changes nothing."""
    before = get_routes(ns)
    try:
        ns.hpcc().set(f"route-{how}", **values)
    except Refused as error:
        expect(what, (errno.errorcode[error.number], error.message), (errno.errorcode[number], message))
        expect(f"routes after {what}", get_routes(ns), before)
        return
    raise AssertionError(f"taken: {what}")


# This test is the first because connections of other tests would still use the module.

def test_namespace_ends():
    """A table ends with its namespace and with the module; a new table is empty."""
    full = [f"10.{i}.0.0/16 1 1" for i in range(100)]
    for _ in range(50):
        ns = Netns()
        expect("routes", get_routes(ns), [])
        set_routes(ns, *full)
        expect("routes", len(get_routes(ns)), 100)
        ns.delete()
    ns = Netns()
    set_routes(ns, *full)
    defer(loaded_again)
    expect("unload", unload(ns, 60), True)
    ns.forget()
    load(ns)
    expect("routes", get_routes(ns), [])


# ---- The table ----

def test_table():
    """The table returns prefixes, the longest first, then by address, with the values that were set last."""
    pair = Pair()
    set_routes(pair.c, "10.0.0.0/8 1 -", "::/0 0 0", "10.1.2.3/32 - 1", "fd00:0:0::/48 - -", "0.0.0.0/0 0 -")
    want = ["10.1.2.3/32 - 1", "10.0.0.0/8 1 -", "0.0.0.0/0 0 -", "fd00::/48 - -", "::/0 0 0"]
    expect("routes", get_routes(pair.c), want)
    set_routes(pair.c, "::ffff:10.0.0.0/104 0 1", "2001:db8::1/128 1 1", "fd01::/48 1 1", "11.0.0.0/8 - 4")
    want = ["10.1.2.3/32 - 1", "2001:db8::1/128 1 1", "10.0.0.0/8 0 1", "11.0.0.0/8 - 4", "0.0.0.0/0 0 -",
            "fd00::/48 - -", "fd01::/48 1 1", "::/0 0 0"]
    expect("routes", get_routes(pair.c), want)
    gone = "fd00::/48", "10.1.2.3/32", "2001:db8::1/128", "::ffff:11.0.0.0/104"
    set_routes(pair.c, *gone, how="del")
    left = [line for line in want if line.split()[0] not in (*gone, "11.0.0.0/8")]
    expect("routes", get_routes(pair.c), left)
    set_routes(pair.c)
    expect("a request without routes", get_routes(pair.c), left)
    set_routes(pair.c, "::/1 1 1", replace=True)
    expect("replaced", get_routes(pair.c), ["::/1 1 1"])
    set_routes(pair.c, "::/1", how="del")
    expect("routes", get_routes(pair.c), [])
    edges = ["10.1.0.0/16 - - 1000 1 1 0", "10.2.0.0/16 1 4 0 - 0 64", "10.3.0.0/16 - - 1000000000 1000 1000000 -",
             "10.4.0.0/16 - - - - - 1"]
    set_routes(pair.c, *edges)
    expect("routes", get_routes(pair.c), edges)
    set_routes(pair.c, replace=True)
    # more than one message of a dump
    many = [f"10.0.{i}.0/24 1 0 {1000 + i} {1 + i} {i} {i % 65}" for i in range(MAX)]
    set_routes(pair.c, *reversed(many))
    expect("routes", get_routes(pair.c), many)
    set_routes(pair.c, replace=True)
    expect("another namespace", get_routes(pair.s), [])


def test_refused():
    """A request with a wrong route is refused as a whole, with the reason."""
    ns = Pair().c
    set_routes(ns, "10.0.0.0/8 1 -", "fd00::/48 0 1")
    out, behind, long = "integer out of range", "the address has bits set after the prefix", "the prefix is longer than an address"
    lacks, size = "an entry needs a prefix and its length", "an address has 4 or 16 bytes"
    for what, number, message, bad in (
            ("33 bits", errno.EINVAL, long, route("10.0.0.0/33 1 1")), ("129 bits", errno.ERANGE, out, route("fd00::/129 1 1")),
            ("2^32 - 1 bits", errno.ERANGE, out, route(f"fd00::/{(1 << 32) - 1} 1 1")),
            ("bits behind it", errno.EINVAL, behind, route("10.0.0.1/8 1 1")), ("one bit", errno.EINVAL, behind, route("10.128.0.0/8 1 1")),
            ("bits of IPv6", errno.EINVAL, behind, route("fd00::1/64 1 1")), ("mapped", errno.EINVAL, behind, route("::ffff:0:0/95 1 1")),
            ("where", errno.ERANGE, out, route("11.0.0.0/8 2 1")), ("carrier", errno.ERANGE, out, route("11.0.0.0/8 1 5")),
            ("where of 32 bits", errno.ERANGE, out, route(f"11.0.0.0/8 {(1 << 32) - 1} 1")),
            *[(f"T {T}", errno.ERANGE, "base_rtt_ns is 0, or 1000 to 1000000000", route(f"11.0.0.0/8 1 1 {T}")) for T in (1, 999)],
            *[(bad, errno.ERANGE, out, route(f"11.0.0.0/8 - - {bad}")) for bad in (
                "1000000001", f"{(1 << 32) - 1}", "- 0", "- 1001", f"- {(1 << 32) - 1}", "- - 1000001", f"- - {(1 << 32) - 1}",
                "- - - 65", f"- - - {(1 << 32) - 1}")],
            ("5 bytes", errno.EINVAL, size, {"prefix": bytes(5), "len": 0}), ("no bytes", errno.EINVAL, size, {"prefix": b"", "len": 0}),
            ("no length", errno.EINVAL, lacks, {"prefix": bytes(4)}), ("no prefix", errno.EINVAL, lacks, {"len": 0}),
            ("twice", errno.EINVAL, "the request contains an entry twice", route("::ffff:11.1.0.0/112 0 0"))):
        for more in {}, {"replace": True}:
            refused(ns, what, number, message, route=[route("10.0.0.0/8 0 0"), bad, route("11.1.0.0/16 1 1")], **more)
    for what, number, message, bad in (
            ("not there", errno.ENOENT, "the table has no such entry", route("10.0.0.0/9")),
            ("with a value", errno.EINVAL, "Unknown attribute type", route("fd00::/48 0 1"))):
        refused(ns, what, number, message, "del", route=[route("10.0.0.0/8"), bad])


def test_table_full():
    """A full table accepts no further prefixes, but new values for its prefixes."""
    ns = Pair().c
    lines = [f"10.0.{i}.0/24 {i % 2} -" for i in range(MAX)]
    set_routes(ns, *lines)
    refused(ns, "one more", errno.ENOSPC, "the table is full", route=[route("10.0.7.0/24 - 2"), route("fd00::/48 1 1")])
    expect("routes", get_routes(ns), lines)
    set_routes(ns, "10.0.8.0/24", how="del")
    set_routes(ns, "10.0.7.0/24 - 1", "fd00::/48 1 1")
    found = get_routes(ns)
    expect("routes", (len(found), found[7], found[-1]), (MAX, "10.0.7.0/24 - 1", "fd00::/48 1 1"))


# ---- Which end computes W ----

def offers(pair, to, version=None):
    """Return whether the SYN to an address, and the SYN-ACK from there, offer that the receiver computes W."""
    sniffer = Sniffer(pair.c)
    listener = pair.s.listen(to, sock=pair.s.socket(version or pair.version))
    pair.connect(listener, client=pair.c.socket(version or pair.version))
    listener.close()
    found = [seg.option(KIND) for seg in sniffer.segments()[:2]]
    return tuple(next(where for where, caps in CAPS.items() if option == syn_option(caps=caps)) for option in found)


def two_addresses(version=4, **sysctls):
    pair = Pair(version, **sysctls)
    pair.s.ip(f"addr add {OTHER[version]}/{24 if version == 4 else 64} dev eth0 nodad")
    return pair


def test_offer():
    """SYN and SYN-ACK offer the table's value for the peer's address, or else the sysctl's value."""
    for version, all_bits in (4, 32), (6, 128):
        for where in 0, 1:
            pair = two_addresses(version, where=where)
            expect("no route", offers(pair, pair.addr[1]), (where, where))
            set_routes(pair.c, f"{OTHER[version]}/{all_bits} {1 - where} -")
            expect("route to this address", offers(pair, OTHER[version]), (1 - where, where))
            expect("route to another address", offers(pair, pair.addr[1]), (where, where))
            set_routes(pair.s, f"{pair.addr[0]}/{all_bits} {1 - where} 1")
            expect("routes of both ends", offers(pair, OTHER[version]), (1 - where, 1 - where))
            set_routes(pair.c, f"{OTHER[version]}/{all_bits}", how="del")
            expect("route removed", offers(pair, OTHER[version]), (where, 1 - where))
            set_routes(pair.s, f"{pair.addr[0]}/{all_bits} - 1")
            expect("route without where", offers(pair, OTHER[version]), (where, where))


def test_longest_prefix():
    """The longest prefix counts in any order of lines, even if this prefix has no value."""
    for where, lines in ((1, ("10.0.0.3/32 1 -", "10.0.0.0/24 0 -")), (1, ("10.0.0.0/24 0 -", "10.0.0.2/31 1 -")),
                         (0, ("10.0.0.3/32 - -", "10.0.0.0/24 1 -")), (1, ("0.0.0.0/0 1 -", "10.0.0.2/32 0 -")),
                         (0, ("::/0 1 -", "0.0.0.0/0 0 -")), (1, ("::/0 1 -", "fd00::/16 0 -")),
                         (0, ("10.0.0.4/30 1 -", "10.0.0.2/32 1 -")), (1, ("::ffff:10.0.0.2/127 1 -",))):
        pair = two_addresses()
        set_routes(pair.c, *lines)
        expect(f"where by {lines}", offers(pair, OTHER[4]), (where, 0))


def test_mapped():
    """An AF_INET6 socket that uses IPv4 has the route of the IPv4 address."""
    pair = two_addresses()
    for ns in pair.c, pair.s:
        set_routes(ns, "10.0.0.0/24 1 -", "fd00::/8 0 -")
    expect("mapped", offers(pair, "::ffff:10.0.0.3", 6), (1, 1))


# ---- The effect of routes ----

def used(path, to, **ends):
    """Send to an address. Return whether the receiver computed W at any time, and whether it did at the end."""
    listener = path.b.listen(to)
    client, server = meet(path.a.socket(path.version), listener)
    listener.close()
    found = []
    transfer((client, server, pattern(1000000)), each=lambda: found.append(path.a.flow(client)["receiver"]))
    for then in ends.get("then", ()):
        then()
        transfer((client, server, pattern(1000000)), each=lambda: found.append(path.a.flow(client)["receiver"]))
    last = found[-1]
    path.no_errors()
    for sock in client, server:
        sock.close()
    return max(found), last


def test_who_computes():
    """The routes of both ends select for each address which end computes W. A connection keeps the choice
    made when it began.
    """
    path = Path(host_mbps=MBPS, base_rtt_ns=200000)
    path.b.ip("addr add 10.0.0.3/24 dev left")
    set_routes(path.a, "10.0.0.3/32 1 -", "10.0.0.2/32 0 -")
    expect("route of one end", used(path, "10.0.0.3"), (0, 0))
    set_routes(path.b, "10.0.0.1/32 1 -")
    expect("routes of both ends", used(path, "10.0.0.3")[0], 1)
    expect("another prefix", used(path, "10.0.0.2"), (0, 0))
    expect("routes change during the connection", used(path, "10.0.0.3", then=[
        lambda: set_routes(path.a, "10.0.0.3/32 0 -"), lambda: set_routes(path.b, "10.0.0.1/32 0 -")]), (1, 1))
    expect("routes changed before the connection", used(path, "10.0.0.3"), (0, 0))


def test_law():
    """T, eta and N of a connection are those of the route to the peer, and the sysctls apply to other peers."""
    path = Path(host_mbps=MBPS, base_rtt_ns=200000)
    path.b.ip("addr add 10.0.0.3/24 dev left")
    for values, T_ns, eta in (("400000 - - -", 400000, 950), ("- 800 - -", 200000, 800), ("- - 0 -", 200000, 950),
                              ("1000000 500 7 0", 1000000, 500)):
        set_routes(path.a, f"10.0.0.3/32 - - {values}")
        for to, T, permille in (OTHER[4], T_ns, eta), (path.addr[1], 200000, 950):
            sniffer = Sniffer(path.a, "right")
            listener = path.b.listen(to)
            client, server = meet(path.a.socket(path.version), listener)
            flow = path.a.flow(client)
            expect(f"T, eta and W_init to {to} with {values}", (flow["T_ns"], flow["eta_permille"], flow["W_init"]),
                   (T, permille, T * MBPS // 8000))
            caps = CAPS[0] | (CAP_REPORT if to == OTHER[4] and values.split()[2] == "0" else 0)
            syn = next(seg for seg in sniffer.segments() if seg.flags & SYN)
            expect("SYN", syn.option(KIND), syn_option(caps=caps))
            for sock in client, server, listener:
                sock.close()


def test_sample():
    """Each segment to one prefix has a request, and few segments to another prefix have one."""
    path = Path(host_mbps=MBPS, base_rtt_ns=200000)
    path.b.ip("addr add 10.0.0.3/24 dev left")
    set_routes(path.a, "10.0.0.3/32 - - - - - 0")
    for to, low, high in (OTHER[4], 0.9, 1.1), (path.addr[1], 0.2, 0.7):
        before = path.a.counters()
        used(path, to)
        moved = path.a.counters() - before
        expect_in(f"requests in a segment to {to}", moved["forward_sent"] * 1448 / 1000000, low, high)


def test_eta_of_both_ends():
    """The sender's eta applies, whichever end computes W, and the receiver's route does not change it."""
    for where in 0, 1:
        path = Path(host_mbps=MBPS, base_rtt_ns=200000, where=where)
        set_routes(path.a, "10.0.0.2/32 - - - 500")
        set_routes(path.b, "10.0.0.1/32 - - - 900")
        client, server = path.connect()
        transfer((client, server, pattern(1000000)))
        began, before = time.monotonic(), path.port(1)["bytes"]
        transfer((client, server, pattern(3000000)))
        share = (path.port(1)["bytes"] - before) * 8e-6 / (time.monotonic() - began) / MBPS
        expect("receiver computes W", path.a.flow(client)["receiver"], where)
        expect_in(f"share of the link with where {where}", share, 0.4, 0.55)


def test_carrier():
    """Requests to one prefix use IOAM, and requests to another prefix use the TCP option."""
    path = carrier_path("ioam", carrier=0, host_mbps=MBPS, base_rtt_ns=200000)
    path.b.ip("addr add fd00::3/64 dev left nodad")
    for carrier in 0, 1:
        path.a.sysctl("net.hpcc.carrier", carrier)
        set_routes(path.a, f"fd00::3/128 - {1 - carrier}")
        for to, traces in (OTHER[6], 1 - carrier), (path.addr[1], carrier):
            before = path.a.counters(), path.b.counters()
            used(path, to)
            moved = [ns.counters() - then for ns, then in zip(path.hosts, before)]
            for ns, name in (0, "ioam_sent"), (1, "ioam_received"):
                expect_in(f"{name} to {to} with carrier {carrier}", moved[ns].get(name, 0),
                          50 * traces, 100000 * traces)
            expect("requests", moved[0].get("forward_sent", 0) > 50, True)


main(modules=["sch_hpcc"])
