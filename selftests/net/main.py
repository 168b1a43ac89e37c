#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/main.c: loading and unloading, with connections of ours and of others."""

import os
import sys

sys.path[0] += "/.."
from lib.kernel import load, unload, users
from lib.ktap import defer, expect, main
from lib.net import Netns, Pair
from lib.packet import Sniffer, ours_in
from lib.peer import Peer
from lib.tcp import get_cc, pattern, set_cc, transfer


def loaded_again():
    """Load the module again for the next test, whatever this one has done."""
    if users() is None:
        load(Netns())


def test_unload_and_load():
    """Unloading removes the module's files in each namespace, and loading creates them, in old and
    new ones.
    """
    defer(loaded_again)
    old = Netns()
    old.counters()
    with old:
        held = os.open("/proc/net/hpcc", os.O_RDONLY)
    defer(os.close, held)
    expect("unload", unload(old), True)
    try:
        os.read(held, 100)
    except OSError:
        pass
    else:
        raise AssertionError("a file was read whose module is gone")
    between = Netns()
    for ns in old, between:
        with ns:
            expect("files", [os.path.exists(path) for path in
                             ("/proc/net/hpcc", "/proc/sys/net/hpcc")], [False] * 2)
    load(old)
    for ns in old, between, Netns():
        ns.counters()
        ns.flows()
        ns.ask()
        expect("parameter", ns.sysctl("net.hpcc.slots"), "3")


def test_refused_while_in_use():
    """The module cannot be unloaded while a connection in either mode, a listener or a namespace's
    default uses it.
    """
    defer(loaded_again)
    pair = Pair(cc=("cubic", "cubic"))
    listener = pair.listen(cc="hpcc")
    expect("unload with a listener", unload(pair.c), False)
    client, server = pair.connect(listener, cc="hpcc")
    listener.close()
    expect("modes", (get_cc(client), get_cc(server)), ("hpcc", "hpcc"))
    expect("unload with two ends", unload(pair.c), False)
    set_cc(client, "cubic")
    expect("unload with one", unload(pair.c), False)
    transfer((client, server, pattern(10000)), (server, client, pattern(10000)))
    set_cc(server, "cubic")
    pair.c.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
    expect("unload with a default", unload(pair.c), False)
    pair.c.sysctl("net.ipv4.tcp_congestion_control", "cubic")
    peer = Peer(cc="cubic")
    peer.connect(b"", cc="hpcc")
    expect("mode", peer.cc(), "hpcc-classic")
    expect("unload with a classic one", unload(pair.c), False)
    peer.sock.close()
    peer.take(0.1)
    peer.acked += 1
    peer.send(flags=0x11)
    expect("unload with none", unload(pair.c, 60), True)
    transfer((client, server, pattern(10000)), (server, client, pattern(10000)))


def test_loop_under_other_traffic():
    """Unloading and loading do not affect connections of another congestion control."""
    defer(loaded_again)
    for version in 4, 6:
        pair = Pair(version, cc=("cubic", "reno"), delay="50us")
        sniffer = Sniffer(pair.s)
        client, server = pair.connect()
        turn = 0

        def reload():
            nonlocal turn
            turn += 1
            if turn % 2 == 0 and turn < 40:
                if users() is None:
                    load(pair.c)
                else:
                    expect("unload", unload(pair.c), True)

        while turn < 20:
            transfer((client, server, pattern(1500000)), (server, client, pattern(700000, 1)),
                     each=reload)
        expect("options", ours_in(sniffer.segments()), [])
        loaded_again()


def test_agreement_does_not_outlive_the_module():
    """An agreement ends when the module is unloaded: a connection that selects hpcc after a reload
    runs classic.
    """
    defer(loaded_again)
    peer = Peer(cc="cubic")
    peer.connect(cc="hpcc")
    expect("congestion control", peer.cc(), "hpcc")
    set_cc(peer.sock, "cubic")
    expect("unload", unload(peer.ns), True)
    load(peer.ns)
    set_cc(peer.sock, "hpcc")
    expect("congestion control", peer.cc(), "hpcc-classic")


def test_use_after_reload():
    """After all these tests a connection has telemetry."""
    pair = Pair(qdisc="hpcc rate 1gbit delay 20us")
    client, server = pair.connect()
    transfer((client, server, pattern(300000)))
    expect("mode", (get_cc(client), pair.c.flow()["hops"]), ("hpcc", 1))


def test_devices_before_the_module():
    """The module knows the speeds of devices that are older than itself."""
    defer(loaded_again)
    pair = Pair(cc=("cubic", "cubic"))
    expect("unload", unload(pair.c, 300), True)
    load(pair.c)
    for ns in pair.c, pair.s:
        ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
        ns.sysctl("net.hpcc.base_rtt_ns", 1000000)
    pair.connect()
    expect("W", pair.c.flow()["W"], 1250000)


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc"])
