#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/ldcp/main.c: parameters and counters of ldcp, and loading and unloading the module while it
and other congestion controls have connections.
"""

import os
import sys
import time

sys.path[0] += "/.."
from lib.kernel import load, unload, users
from lib.ktap import defer, expect, main
from lib.net import Netns, Pair
from lib.parameters import LDCP
from lib.peer import LdcpFlow
from lib.tcp import get_cc, pattern, set_cc, transfer

COUNTERS = ["flows", "no_ecn", "low_priority_sent", "start_full", "start_lost", "start_marked",
            "marked", "below_one", "losses", "timeouts", "fallbacks", "returns"]
MODULE = "tcp_ldcp"


def loaded_again():
    """Load all modules again for the next test, whatever this one has done."""
    ns = Netns()
    for name in "hpcc_common", "tcp_hpcc", MODULE:
        if users(name) is None:
            load(ns, name)


def test_all_there():
    ns = Netns()
    expect("parameters", sorted(ns.run("ls", "/proc/sys/net/ldcp").split()), sorted(LDCP))
    expect("counters", list(ns.counters("ldcp")), COUNTERS)
    expect("at first", set(ns.counters("ldcp").values()), {0})


def test_defaults():
    ns = Netns()
    expect("defaults", {name: int(ns.sysctl("net.ldcp." + name)) for name in LDCP},
           {name: limits[0] for name, limits in LDCP.items()})


def test_counters_per_namespace():
    flow, other = LdcpFlow(ldcp={"fast_start": 1}), Netns()
    flow.busy()
    flow.got()
    flow.ack(2, True)
    counters = flow.counters()
    expect("counted", [counters[name] for name in ("flows", "low_priority_sent", "marked",
                                                   "start_marked")], [1, 9, 2, 1])
    expect("elsewhere", set(other.counters("ldcp").values()), {0})


def test_unload_and_load():
    """Unloading removes the module's files in each namespace, and loading creates them, in old and
    new ones; the other module stays.
    """
    defer(loaded_again)
    old = Netns()
    old.counters("ldcp")
    expect("unload", unload(old, 300, MODULE), True)
    between = Netns()
    for ns in old, between:
        with ns:
            expect("files", [os.path.exists(path) for path in
                             ("/proc/net/ldcp", "/proc/sys/net/ldcp")], [False] * 2)
        ns.counters("hpcc")
    load(old, MODULE)
    for ns in old, between, Netns():
        expect("counters", list(ns.counters("ldcp")), COUNTERS)
        expect("parameter", ns.sysctl("net.ldcp.burst"), "4")


def test_common_is_in_use():
    """hpcc_common stays while one of the two modules is loaded, and can be unloaded after both."""
    defer(loaded_again)
    ns = Netns()
    expect("under both", unload(ns, 0, "hpcc_common"), False)
    expect("tcp_hpcc", unload(ns, 60, "tcp_hpcc"), True)
    expect("under tcp_ldcp", unload(ns, 0, "hpcc_common"), False)
    expect("tcp_ldcp", unload(ns, 60, MODULE), True)
    expect("under none", unload(ns, 0, "hpcc_common"), True)
    load(ns, "hpcc_common")
    load(ns, MODULE)
    pair = Pair(cc=("ldcp", "ldcp"))
    transfer((*pair.connect(), pattern(10000)))


def test_refused_while_in_use():
    """The module cannot be unloaded while a connection in either mode, a listener or a namespace's
    default uses it.
    """
    defer(loaded_again)
    pair = Pair(cc=("cubic", "cubic"))
    listener = pair.listen(cc="ldcp")
    expect("unload with a listener", unload(pair.c, 0, MODULE), False)
    client, server = pair.connect(listener, cc="ldcp")
    listener.close()
    expect("congestion controls", (get_cc(client), get_cc(server)), ("ldcp", "ldcp"))
    set_cc(client, "cubic")
    expect("unload with one", unload(pair.c, 0, MODULE), False)
    transfer((client, server, pattern(10000)), (server, client, pattern(10000)))
    set_cc(server, "cubic")
    pair.c.sysctl("net.ipv4.tcp_congestion_control", "ldcp")
    expect("unload with a default", unload(pair.c, 0, MODULE), False)
    pair.c.sysctl("net.ipv4.tcp_congestion_control", "cubic")
    flow = LdcpFlow(ecn=False)
    flow.connect()
    flow.ns.sysctl("net.ipv4.tcp_congestion_control", "cubic")
    expect("congestion control", flow.cc(), "ldcp-classic")
    expect("unload with a classic one", unload(pair.c, 0, MODULE), False)
    set_cc(flow.sock, "reno")
    expect("unload with none", unload(pair.c, 60, MODULE), True)
    transfer((client, server, pattern(10000)), (server, client, pattern(10000)))


def test_loop_under_other_traffic():
    """Unloading and loading do not affect connections of another congestion control."""
    defer(loaded_again)
    for version in 4, 6:
        pair = Pair(version, cc=("cubic", "reno"), delay="50us")
        client, server = pair.connect()
        turn = 0

        def reload():
            nonlocal turn
            turn += 1
            if turn % 2 == 0 and turn < 40:
                if users(MODULE) is None:
                    load(pair.c, MODULE)
                else:
                    expect("unload", unload(pair.c, 60, MODULE), True)

        while turn < 20:
            transfer((client, server, pattern(1500000)), (server, client, pattern(700000, 1)),
                     each=reload)
        loaded_again()


def test_left_by_all_its_connections():
    """A connection that has left for another congestion control continues after the module is
    unloaded.
    """
    defer(loaded_again)
    pair = Pair(cc=("ldcp", "ldcp"), delay="100us", ldcp={"iw": 20})
    listener = pair.listen()
    client, server = pair.connect(listener)
    listener.close()
    client.setblocking(False)
    sent = client.send(bytes(100000))       # these data are in flight during the start
    for sock in client, server:
        set_cc(sock, "cubic")
    for ns in pair.c, pair.s:
        ns.sysctl("net.ipv4.tcp_congestion_control", "cubic")
    expect("unload", unload(pair.c, 300, MODULE), True)
    client.setblocking(True)
    got = 0
    while got < sent:
        got += len(server.recv(1 << 20))
    transfer((server, client, pattern(50000)))


def test_namespace_deleted_under_traffic():
    """Both namespaces are deleted with data in flight."""
    for version in 4, 6:
        pair = Pair(version, cc=("ldcp", "ldcp"),
                    qdisc="hpcc rate 1gbit delay 20us marking ldcp")
        listener = pair.listen()
        ends = [pair.connect(listener) for _ in range(5)]
        for client, server in ends:
            client.setblocking(False)
            client.send(bytes(1 << 20))
        pair.c.delete()
        pair.s.delete()
        for client, server in ends:
            client.close()
            server.close()
        listener.close()
    time.sleep(1)


def test_many_short_connections():
    """Each of many short connections is counted, and none remains."""
    pair = Pair(cc=("ldcp", "ldcp"))
    listener = pair.listen()
    for number in range(100):
        client, server = pair.connect(listener)
        client.send(b"x" * (number * 100 + 1))
        expect("data", len(server.recv(1 << 16)), number * 100 + 1)
        client.close()
        server.close()
    expect("flows", (pair.c.counters("ldcp")["flows"], pair.s.counters("ldcp")["flows"]),
           (100, 100))
    listener.close()
    for ns in pair.c, pair.s:
        ns.sysctl("net.ipv4.tcp_congestion_control", "cubic")
    for _ in range(120):
        if not users(MODULE):
            break
        time.sleep(1)
    expect("users", users(MODULE), 0)


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["tcp_ldcp", "sch_hpcc"])
