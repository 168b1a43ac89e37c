#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Names of classes: each class of a port needs a port number of its own, so that its traces are a link of their own."""

import time

from lib.ktap import expect, expect_in, main
from lib.packet import packet_socket
from lib.path import CARRIERS, DELAY, MBPS, Path, carrier_path, set_links
from lib.tcp import pattern, transfer

RATE = MBPS * 1000000
OWN, SAME = (2, 1002), (2, 2)
INT_DSCP, INT_HEADERS = 23, 16


def move(switch, version, number):
    """Put all packets of the port into a class."""
    switch.tc(f"filter replace dev right parent 10: protocol {'ipv6' if version == 6 else 'ip'} prio 1 handle 1 "
              f"flower classid 10:{number}")


def port_of_classes(name, ports):
    """Return a path with one switch, whose port has two classes with these port numbers."""
    path = carrier_path(name, switches=1) if name in CARRIERS else Path(switches=1)
    switch, stamp = path.switches[0], CARRIERS.get(name, {"stamp": "tcp"})["stamp"]
    path.change(1, f"hpcc rate {MBPS}mbit delay {DELAY} nostamp")
    switch.tc("qdisc add dev right parent 1:1 handle 10: drr")
    for number, port in enumerate(ports, 1):
        switch.tc(f"class add dev right parent 10: classid 10:{number} drr quantum 1514",
                  f"qdisc add dev right parent 10:{number} handle {20 + number}: hpcc node 1 port {port} "
                  f"stamp {stamp} bandwidth {MBPS}mbit class {MBPS // 2}mbit")
    switch.tc("filter add dev right parent 10: protocol all prio 2 matchall classid 10:1")
    set_links(path.b, *[(1, port, RATE) for port in {1, *ports}])
    move(switch, path.version, 1)
    return path


def moved_link(name, ports):
    """Move a flow from one class to the other. Return the changes of its path, and the names of its link."""
    path = port_of_classes(name, ports)
    ends, names = path.connect(), []
    for number in 1, 2:
        move(path.switches[0], path.version, number)
        before = path.a.counters()["path_changes"]
        path.a.ask()
        transfer((*ends, pattern(400000)))
        names.append(path.a.links())
    changes = path.a.counters()["path_changes"] - before
    if name != "tcp":
        expect_in(f"traces of {name}", path.b.counters()[f"{name}_received"], 10, 1 << 32)
    flow = path.a.flow()
    expect(f"{name}: mode, hops", (flow["mode"], flow["hops"]), ("telemetry", 1))
    return changes, names


def test_own_ports():
    """With port numbers of their own, two classes are two links to each carrier, and their names tell them apart."""
    for name in "tcp", "ioam", "int", "ifa":
        changes, names = moved_link(name, OWN)
        expect(f"{name}: changes", changes, 1)
        expect(f"{name}: names", names, [{1: (1, port, RATE)} for port in OWN])


def queue_ids(frames):
    """Return the queue IDs in INT packets over IPv4, each with the interface of its hop."""
    found = set()
    while True:
        try:
            frame = frames.recv(2048)
        except BlockingIOError:
            return found
        if frame[12:14] == b"\x08\x00" and frame[15] >> 2 == INT_DSCP:
            at = 34 + (frame[46] >> 4) * 4 + INT_HEADERS
            found.add((int.from_bytes(frame[at + 6:at + 8], "big"), frame[at + 8]))


def test_queue_id():
    """The queue ID of INT is the number of the class; 0 if the queue is no class."""
    for ports in OWN, SAME:
        path = port_of_classes("int", ports)
        frames = packet_socket(path.b, "left")
        frames.setblocking(False)
        ends, found = path.connect(), []
        for change in "", "", "class 0":
            if change:
                path.switches[0].tc(f"qdisc change dev right parent 10:2 handle 22: hpcc {change}")
            else:
                move(path.switches[0], path.version, len(found) + 1)
            time.sleep(0.01)        # the last probes arrive
            queue_ids(frames)
            transfer((*ends, pattern(400000)))
            found.append(queue_ids(frames))
        expect("interfaces", [[port for port, _ in one] for one in found], [[ports[0]], [ports[1]], [ports[1]]])
        first, second, none = [number for one in found for _, number in one]
        expect("IDs", (first > 0, second > 0, first != second, none), (True, True, True, 0))


def test_same_port():
    """With one port number, only records of the TCP option tell the classes apart: their tags differ."""
    for name in "tcp", "ioam", "int", "ifa":
        changes, names = moved_link(name, SAME)
        expect(f"{name}: changes", changes, int(name == "tcp"))
        expect(f"{name}: names", names, [{1: (1, 2, RATE)}] * 2)


main(modules=["sch_hpcc"])
