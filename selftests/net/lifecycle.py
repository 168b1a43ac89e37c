#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/main.c, kmod/ldcp/main.c: modules are loaded and unloaded, and connections begin, change and end."""

import os
import socket
import struct
import time

from lib.kernel import load, unload, users, virtual_time
from lib.ktap import defer, each, expect, main
from lib.net import Netns, Pair, crowd, joined, loaded_again
from lib.packet import Sniffer, ours_in
from lib.parameters import ALL
from lib.peer import Peer
from lib.tcp import disconnect, get_cc, pattern, set_cc, transfer, until

CCS = "hpcc", "ldcp"
# A port that writes telemetry and marks.
PORT = "hpcc rate 1gbit delay 20us marking ldcp"


def all_loaded_again():
    """Load each module that is not loaded, for the next test."""
    for name in "hpcc_common", "tcp_hpcc", "tcp_ldcp":
        loaded_again(name)


def expect_flows(cc, pair, want):
    """Fail unless both ends show these numbers of flows. ldcp shows no flows."""
    if cc == "hpcc":
        expect("flows", (len(pair.c.flows()), len(pair.s.flows())), want)


def unloads(ns, cc, wait_s=0):
    """Unload the module of a congestion control. Return whether it was unloaded."""
    return unload(ns, wait_s, f"tcp_{cc}")


# ---- The module ----

@each(*CCS)
def unload_and_load(cc):
    """Unloading removes the module's files in each namespace, and loading creates them; the other module stays."""
    defer(all_loaded_again)
    old = Netns()
    old.counters(cc)
    with old:
        held = os.open(f"/proc/net/{cc}", os.O_RDONLY)
    defer(os.close, held)
    # in real time connections of other scripts may still be closing
    expect("unload", unload(old, 0 if virtual_time() else 300, f"tcp_{cc}"), True)
    try:
        raise AssertionError(f"read {os.read(held, 100)} from a file of a module that is unloaded")
    except OSError:
        pass
    between = Netns()
    for ns in old, between:
        with ns:
            expect("files exist", [os.path.exists(path + cc) for path in ("/proc/net/", "/proc/sys/net/")], [False] * 2)
        for other in set(CCS) - {cc}:
            ns.counters(other)
    load(old, f"tcp_{cc}")
    for ns in old, between, Netns():
        expect("counters", set(ns.counters(cc).values()), {0})
        expect("parameters", {name: int(ns.sysctl(f"net.{cc}.{name}")) for name in ALL[cc]},
               {name: limits[0] for name, limits in ALL[cc].items()})
        if cc == "hpcc":
            ns.flows()
            ns.ask()


@each(*CCS)
def refused_while_in_use(cc):
    """The module cannot be unloaded while a connection in either mode, a listener or a namespace's default uses it."""
    defer(all_loaded_again)
    pair = Pair(cc=("cubic", "cubic"))
    listener = pair.listen(cc=cc)
    expect("unload with a listener", unloads(pair.c, cc), False)
    client, server = pair.connect(listener, cc=cc)
    listener.close()
    expect("congestion controls", (get_cc(client), get_cc(server)), (cc, cc))
    expect("unload while both ends use it", unloads(pair.c, cc), False)
    set_cc(client, "cubic")
    expect("unload while one end uses it", unloads(pair.c, cc), False)
    transfer((client, server, pattern(10000)), (server, client, pattern(10000)))
    set_cc(server, "cubic")
    pair.c.sysctl("net.ipv4.tcp_congestion_control", cc)
    expect("unload while a namespace has it as default", unloads(pair.c, cc), False)
    pair.c.sysctl("net.ipv4.tcp_congestion_control", "cubic")
    for leave in True, False:
        peer = Peer(cc="cubic").connected(b"", cc=cc)
        expect("congestion control, unload", (peer.cc(), unloads(pair.c, cc)), (f"{cc}-classic", False))
        if leave:
            set_cc(peer.sock, "reno")
        else:
            peer.sock.close()
            peer.take(0.1)
            peer.acked += 1
            peer.send(flags=0x11)
        expect("unload without users", unloads(pair.c, cc, 60), True)
        all_loaded_again()
    transfer((client, server, pattern(10000)), (server, client, pattern(10000)))


@each(*CCS)
def loop_under_other_traffic(cc):
    """Unloading and loading do not affect connections of another congestion control."""
    defer(all_loaded_again)
    for version in 4, 6:
        pair = Pair(version, cc=("cubic", "reno"), delay="50us")
        sniffer = Sniffer(pair.s)
        client, server = pair.connect()
        turn = 0

        def reload():
            nonlocal turn
            turn += 1
            if turn % 2 == 0 and turn < 40:
                if users(f"tcp_{cc}") is None:
                    load(pair.c, f"tcp_{cc}")
                else:
                    expect("unload", unloads(pair.c, cc), True)

        while turn < 20:
            transfer((client, server, pattern(1500000)), (server, client, pattern(700000, 1)), each=reload)
        expect("options", ours_in(sniffer.segments()), [])
        all_loaded_again()


@each(*CCS)
def left_by_all_its_connections(cc):
    """A connection that has left for another congestion control continues after the module is unloaded."""
    defer(all_loaded_again)
    pair = Pair(cc=(cc, cc), delay="100us", ldcp={"iw": 20})
    listener = pair.listen()
    client, server = pair.connect(listener)
    listener.close()
    client.setblocking(False)
    sent = client.send(bytes(100000))       # these data are in flight during the start
    for sock in client, server:
        set_cc(sock, "cubic")
    for ns in pair.c, pair.s:
        ns.sysctl("net.ipv4.tcp_congestion_control", "cubic")
    expect("unload", unload(pair.c, 300, f"tcp_{cc}"), True)
    client.setblocking(True)
    got = 0
    while got < sent:
        got += len(server.recv(1 << 20))
    transfer((server, client, pattern(50000)))


def test_common_is_in_use():
    """hpcc_common stays while one of the two modules is loaded, and can be unloaded after both."""
    defer(all_loaded_again)
    ns = Netns()
    for name, want in (("hpcc_common", False), ("tcp_hpcc", True), ("hpcc_common", False), ("tcp_ldcp", True),
                       ("hpcc_common", True)):
        expect(f"unload {name}", unload(ns, 60 if name.startswith("tcp") else 0, name), want)
    load(ns, "hpcc_common")
    load(ns, "tcp_ldcp")
    transfer((*Pair(cc=("ldcp", "ldcp")).connect(), pattern(10000)))


def test_agreement_does_not_outlive_the_module():
    """An agreement ends when the module is unloaded: a connection that selects hpcc after a reload runs classic."""
    defer(all_loaded_again)
    peer = Peer(cc="cubic").connected(cc="hpcc")
    expect("congestion control", peer.cc(), "hpcc")
    set_cc(peer.sock, "cubic")
    expect("unload", unload(peer.ns), True)
    load(peer.ns)
    set_cc(peer.sock, "hpcc")
    expect("congestion control", peer.cc(), "hpcc-classic")


# ---- Connections ----

@each(*CCS)
def switch_under_traffic(cc):
    """setsockopt(TCP_CONGESTION) switches back and forth, at both ends, while data flow."""
    names = ("cubic", cc, "reno", cc, cc, "cubic", cc, "bbr")
    for version in 4, 6:
        pair = Pair(version, cc=(cc, cc), qdisc=PORT)
        ends = client, server = pair.connect()
        turn = 0

        def switch():
            nonlocal turn
            turn += 1
            set_cc(ends[turn & 1], names[turn // 2 % len(names)])

        def send(nbytes, meanwhile=None):
            transfer((client, server, pattern(nbytes)), (server, client, pattern(nbytes, 9)), each=meanwhile)

        while turn < 50:
            send(1500000, switch)
        for sock in ends:
            set_cc(sock, cc)
        send(50000)
        # A flow may have fallen back while its peer ran another congestion control. It then stays
        # in classic mode for a number of round trips: for at least 64 if the reason was a loss.
        until(lambda: (get_cc(client), get_cc(server)) == (cc, cc), lambda: send(1500000))
        expect("congestion control", (get_cc(client), get_cc(server)), (cc, cc))
        expect_flows(cc, pair, (1, 1))
        for sock in ends:
            set_cc(sock, "cubic")
        expect_flows(cc, pair, (0, 0))


@each(*CCS)
def short_connections(cc):
    """Connections begin, send and end, some by a reset. Each connection is counted, and none remains."""
    for version in 4, 6:
        pair = Pair(version, cc=(cc, cc), qdisc=PORT)
        listener = pair.listen()
        for i in range(100):
            client, server = pair.connect(listener)
            transfer((client, server, pattern(i * 100 + 1)))
            if i % 3 == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            server.close()
        listener.close()
        for ns in pair.c, pair.s:
            expect("connections counted", ns.counters(cc)["agreed" if cc == "hpcc" else "flows"], 100)
            ns.expect_no_flows()
            ns.sysctl("net.ipv4.tcp_congestion_control", "cubic")
    expect_unused(cc, 120)


def expect_unused(cc, wait_s):
    """Fail unless the module has no users after a time."""
    for _ in range(wait_s):
        if not users(f"tcp_{cc}"):
            break
        time.sleep(1)
    expect("users", users(f"tcp_{cc}"), 0)


@each(*CCS)
def connect_again(cc):
    """After connect(AF_UNSPEC) the socket's next connection negotiates again, whatever the first peer ran."""
    for first in cc, "cubic":
        pair = Pair(cc=(cc, cc))
        listeners = pair.listen(5001, cc=first), pair.listen(5002)
        client, server = pair.connect(listeners[0])
        expect("congestion control of the first connection", get_cc(client), cc if first == cc else f"{cc}-classic")
        disconnect(client)
        server.close()
        expect("flows", len(pair.c.flows()), 0)
        client, server = pair.connect(listeners[first != cc], client=client)
        expect("congestion controls of the second connection", (get_cc(client), get_cc(server)), (cc, cc))
        expect_flows(cc, pair, (1, 1))
        transfer((client, server, pattern(20000)))
        expect("unagreed_ignored", pair.c.counters()["unagreed_ignored"], 0)


@each(*CCS)
def device_deleted_under_traffic(cc):
    """The device is deleted while data are in flight, then both ends are closed."""
    pair = Pair(cc=(cc, cc), qdisc=PORT)
    ends = client, server = pair.connect()
    transfer((client, server, pattern(200000)), (server, client, pattern(100000)))
    for sock in ends:
        sock.send(bytes(1 << 20))
    pair.c.ip("link del eth0")
    expect_flows(cc, pair, (1, 1))
    for sock in ends:
        sock.close()


@each(*CCS)
def namespace_deleted_under_traffic(cc):
    """Both namespaces are deleted while data are in flight."""
    for version in 4, 6:
        pair, listener, ends = crowd(5, version, cc=(cc, cc), qdisc=PORT)
        for client, _ in ends:
            client.setblocking(False)
            client.send(bytes(1 << 20))
        pair.c.delete()
        pair.s.delete()
        for sock in *sum(ends, ()), listener:
            sock.close()


@each(*CCS)
def nobody_is_left(cc):
    """After all previous tests the module has no users, and a new connection works."""
    expect_unused(cc, 300)
    pair, client, server = joined(Pair(cc=(cc, cc), qdisc=PORT))
    transfer((client, server, pattern(300000)))
    expect("congestion control", get_cc(client), cc)
    if cc == "hpcc":
        expect("hops", pair.c.flow()["hops"], 1)


main(modules=["tcp_ldcp", "sch_hpcc"])
