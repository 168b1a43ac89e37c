#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/routes.c: who computes W, and what carries requests, by the peer's address."""

import errno
import os
import sys

sys.path[0] += "/.."
from lib.kernel import load, unload, users
from lib.ktap import defer, expect, expect_in, main
from lib.net import Netns, Pair
from lib.packet import CAP_QUIET, CAP_TELEMETRY, CAP_WINDOW, KIND, Sniffer, syn_option
from lib.path import MBPS, Path
from lib.tcp import pattern, transfer

TABLE = "/proc/net/hpcc_routes"
MAX = 200
CAPS = {0: CAP_TELEMETRY | CAP_QUIET, 1: CAP_TELEMETRY | CAP_QUIET | CAP_WINDOW}
OTHER = {4: "10.0.0.3", 6: "fd00::3"}


def say(ns, *lines):
    """Write lines at once."""
    with ns:
        fd = os.open(TABLE, os.O_WRONLY)
    try:
        os.write(fd, "".join(line + "\n" for line in lines).encode())
    finally:
        os.close(fd)


def refused(ns, *lines):
    """The error of a write."""
    try:
        say(ns, *lines)
    except OSError as error:
        return error.errno
    raise AssertionError(f"taken: {lines}")


def said(ns):
    """The lines of the table."""
    return ns.read(TABLE).splitlines()


# First, as connections of other tests would still hold the module.

def test_namespace_ends():
    """A table goes with its namespace, and with the module; each begins without lines."""
    full = [f"10.{i}.0.0/16 1 1" for i in range(100)]
    for _ in range(50):
        ns = Netns()
        expect("lines", said(ns), [])
        say(ns, *full)
        expect("lines", len(said(ns)), 100)
        ns.delete()
    ns = Netns()
    say(ns, *full)
    defer(loaded_again)
    expect("unload", unload(ns, 60), True)
    expect("file", os.path.exists(TABLE), False)
    load(ns)
    expect("lines", said(ns), [])


def loaded_again():
    """For the tests behind this one."""
    if users() is None:
        load(Netns())


# ---- The table ----

def test_table():
    """What is written is read, the longest prefixes first, and of one length the oldest; a line again replaces it; a prefix alone
    removes it.
    """
    pair = Pair()
    say(pair.c, "10.0.0.0/8 1 -", "::/0 0 0", "10.1.2.3/32 - 1", "fd00:0:0::/48\t-  -", "0.0.0.0/0 0 -")
    want = ["10.1.2.3/32 - 1", "10.0.0.0/8 1 -", "0.0.0.0/0 0 -", "fd00::/48 - -", "::/0 0 0"]
    expect("lines", said(pair.c), want)
    say(pair.c, "::ffff:10.0.0.0/104 0 1", "2001:db8::1/128 1 1", "", "fd01::/48 1 1")
    want = ["10.1.2.3/32 - 1", "2001:db8::1/128 1 1", "10.0.0.0/8 0 1", "0.0.0.0/0 0 -", "fd00::/48 - -",
            "fd01::/48 1 1", "::/0 0 0"]
    expect("lines", said(pair.c), want)
    say(pair.c, "fd00::/48", "10.1.2.3/32", "10.1.2.0/24", "2001:db8::1/128")
    expect("lines", said(pair.c), [line for line in want if line.split()[0] not in (
        "fd00::/48", "10.1.2.3/32", "2001:db8::1/128")])
    say(pair.c, "10.0.0.0/8", "10.0.0.0/8 1 1", "10.0.0.0/8", "fd01::/48", "::/0", "0.0.0.0/0")
    expect("lines", said(pair.c), [])
    expect("another namespace", said(pair.s), [])


def test_bad_lines():
    """What is wrong is refused, and so is all that is written with it; nothing is lost."""
    ns = Pair().c
    say(ns, "10.0.0.0/8 1 -", "fd00::/48 0 1")
    want = said(ns)
    for bad in ("10.0.0.0 1 1", "10.0.0.0/ 1 1", "/8 1 1", "10.0.0/8 1 1", "10.0.0.0/33 1 1", "10.0.0.0/-1 1 1",
                "10.0.0.0/x 1 1", "10.0.0.0/264 1 1", "10.0.0.1/8 1 1", "10.128.0.0/8 1 1", "256.0.0.0/8 1 1",
                "10.0.0.0/8/8 1 1", "fd00::/129 1 1", "fd00::1/64 1 1", "fd00:::/48 1 1", "fd00/48 1 1", "::ffff:0:0/95 1 1",
                "10.0.0.0/8 1", "10.0.0.0/8 2 1", "10.0.0.0/8 1 5", "10.0.0.0/8 -1 1", "10.0.0.0/8 1 -1",
                "10.0.0.0/8 257 1", "10.0.0.0/8 x 1", "10.0.0.0/8 1 tcp", "10.0.0.0/8 -- 1", "10.0.0.0/8 1 1 1", " ",
                "1 1", "10.0.0.0/8, 1, 1", "x" * 4000):
        expect(f"errno of {bad!r}", refused(ns, bad), errno.EINVAL)
        expect(f"errno of others and {bad!r}", refused(ns, "10.0.0.0/8", "11.0.0.0/8 1 1", bad), errno.EINVAL)
        expect(f"lines after {bad!r}", said(ns), want)


def test_table_full():
    """A full table takes no more prefixes, but other values of those that it has."""
    ns = Pair().c
    lines = [f"10.0.{i}.0/24 {i % 2} -" for i in range(MAX)]
    say(ns, *lines)
    expect("errno", refused(ns, "fd00::/48 1 1"), errno.ENOSPC)
    expect("lines", said(ns), lines)
    say(ns, "10.0.7.0/24 - 1", "10.0.8.0/24", "fd00::/48 1 1")
    found = said(ns)
    expect("lines", (len(found), found[7], found[-1]), (MAX, "10.0.7.0/24 - 1", "fd00::/48 1 1"))


# ---- Who agrees ----

def offers(pair, to, version=None):
    """Whether the SYN to an address, and the SYN-ACK from there, offer to compute W."""
    sniffer = Sniffer(pair.c)
    listener = pair.s.socket(version or pair.version)
    listener.bind((to, 5000))
    listener.listen()
    pair.connect(listener, client=pair.c.socket(version or pair.version))
    listener.close()
    found = [seg.option(KIND) for seg in sniffer.segments()[:2]]
    return tuple(next(where for where, caps in CAPS.items() if option == syn_option(caps=caps))
                 for option in found)


def two_addresses(version=4, **sysctls):
    """A pair whose server has another address as well."""
    pair = Pair(version, **sysctls)
    pair.s.ip(f"addr add {OTHER[version]}/{24 if version == 4 else 64} dev eth0 nodad")
    return pair


def test_offer():
    """SYN and SYN-ACK offer what the table says of the other end, and the sysctl where it says nothing."""
    for version, all_bits in (4, 32), (6, 128):
        for where in 0, 1:
            pair = two_addresses(version, where=where)
            expect("no line", offers(pair, pair.addr[1]), (where, where))
            say(pair.c, f"{OTHER[version]}/{all_bits} {1 - where} -")
            expect("its line", offers(pair, OTHER[version]), (1 - where, where))
            expect("another's", offers(pair, pair.addr[1]), (where, where))
            say(pair.s, f"{pair.addr[0]}/{all_bits} {1 - where} 1")
            expect("both ends' lines", offers(pair, OTHER[version]), (1 - where, 1 - where))
            say(pair.c, f"{OTHER[version]}/{all_bits}")
            expect("removed", offers(pair, OTHER[version]), (where, 1 - where))
            say(pair.s, f"{pair.addr[0]}/{all_bits} - 1")
            expect("left open", offers(pair, OTHER[version]), (where, where))


def test_longest_prefix():
    """The longest prefix counts, whatever the order of lines, also where it leaves the value open."""
    for where, lines in ((1, ("10.0.0.3/32 1 -", "10.0.0.0/24 0 -")), (1, ("10.0.0.0/24 0 -", "10.0.0.2/31 1 -")),
                         (0, ("10.0.0.3/32 - -", "10.0.0.0/24 1 -")), (1, ("0.0.0.0/0 1 -", "10.0.0.2/32 0 -")),
                         (0, ("::/0 1 -", "0.0.0.0/0 0 -")), (1, ("::/0 1 -", "fd00::/16 0 -")),
                         (0, ("10.0.0.4/30 1 -", "10.0.0.2/32 1 -")), (1, ("::ffff:10.0.0.2/127 1 -",))):
        pair = two_addresses()
        say(pair.c, *lines)
        expect(f"where by {lines}", offers(pair, OTHER[4]), (where, 0))


def test_mapped():
    """An AF_INET6 socket that talks IPv4 has the line of IPv4."""
    pair = two_addresses()
    for ns in pair.c, pair.s:
        say(ns, "10.0.0.0/24 1 -", "fd00::/8 0 -")
    expect("mapped", offers(pair, "::ffff:10.0.0.3", 6), (1, 1))


# ---- What they do ----

def used(path, to, **ends):
    """Send to an address. Return whether the receiver computed W."""
    listener = path.b.socket(path.version)
    listener.bind((to, 5000))
    listener.listen()
    client = path.a.socket(path.version)
    client.connect((to, 5000))
    server = listener.accept()[0]
    listener.close()
    found = []
    transfer((client, server, pattern(1000000)),
             each=lambda: found.append(path.a.flow(client)["receiver"]))
    for then in ends.get("then", ()):
        then()
        transfer((client, server, pattern(1000000)),
                 each=lambda: found.append(path.a.flow(client)["receiver"]))
    last = found[-1]
    path.no_errors()
    for sock in client, server:
        sock.close()
    return max(found), last


def test_who_computes():
    """Two prefixes of one host: one has W from the receiver, one from the sender. Both ends' lines count,
    when a connection begins.
    """
    path = Path(host_mbps=MBPS, base_rtt_ns=200000)
    path.b.ip("addr add 10.0.0.3/24 dev left")
    say(path.a, "10.0.0.3/32 1 -", "10.0.0.2/32 0 -")
    expect("one end", used(path, "10.0.0.3"), (0, 0))
    say(path.b, "10.0.0.1/32 1 -")
    expect("both ends", used(path, "10.0.0.3")[0], 1)
    expect("the other prefix", used(path, "10.0.0.2"), (0, 0))
    expect("lines that change", used(path, "10.0.0.3", then=[
        lambda: say(path.a, "10.0.0.3/32 0 -"), lambda: say(path.b, "10.0.0.1/32 0 -")]), (1, 1))
    expect("afterwards", used(path, "10.0.0.3"), (0, 0))


def test_carrier():
    """IOAM to one prefix, the TCP option to another."""
    path = Path(6, host_mbps=MBPS, base_rtt_ns=200000)
    path.b.ip("addr add fd00::3/64 dev left nodad")
    for node in 1, 2:
        for port, dev in enumerate(("left", "right"), 1):
            path.change(node, f"hpcc rate {MBPS}mbit delay 20us node {node} port {port} stamp tcp,ioam", dev)
    for ns in path.hosts:
        with ns, open("/proc/net/hpcc_links", "w", encoding="ascii") as file:
            file.write("".join(f"{node} {port} {MBPS}000000\n" for node in (1, 2) for port in (1, 2)))
    for carrier in 0, 1:
        path.a.sysctl("net.hpcc.carrier", carrier)
        say(path.a, f"fd00::3/128 - {1 - carrier}")
        for to, traces in (OTHER[6], 1 - carrier), (path.addr[1], carrier):
            before = path.a.counters(), path.b.counters()
            used(path, to)
            moved = [ns.counters() - then for ns, then in zip(path.hosts, before)]
            for ns, name in (0, "ioam_sent"), (1, "ioam_received"):
                expect_in(f"{name} to {to} with carrier {carrier}", moved[ns].get(name, 0),
                          50 * traces, 100000 * traces)
            expect("requests", moved[0].get("forward_sent", 0) > 50, True)


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc"])
