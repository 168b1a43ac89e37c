#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Only one end or one direction uses telemetry: data arrive both ways, with at least half of cubic's goodput."""

import functools

from lib.box import send_until
from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, expect_rate, main
from lib.path import MBPS, Path
from lib.tcp import get_cc, goodput_mbps, set_cc

NBYTES = 600000
HOST = {"host_mbps": 2 * MBPS}


def both_ways(path, client, server):
    return (goodput_mbps(client, server, NBYTES), goodput_mbps(server, client, NBYTES))


@functools.cache
def cubic_mbps(version):
    """Return the goodput of cubic on the path, to b and back from b."""
    path = Path(version, cc=("cubic", "cubic"))
    return both_ways(path, *path.connect())


def check(name, path, sockets, modes, agreed):
    """Check the goodputs, the modes (client, server), and the counter agreed (a, b)."""
    for cubic, goodput in zip(cubic_mbps(path.version), both_ways(path, *sockets)):
        print(f"# {name}, IPv{path.version}: {goodput:.0f} Mbit/s, cubic {cubic:.0f}")
        expect_rate(f"{name}: goodput", goodput, cubic / 2, MBPS)
    for ways in sockets, sockets[::-1]:
        send_until(lambda: tuple(map(get_cc, sockets)) == modes, *ways, NBYTES // 4)
    expect(f"{name}: modes", tuple(map(get_cc, sockets)), modes)
    names = "agreed", "malformed_ignored", "checksum_ignored", "bad_hop_ignored"
    for ns, want in zip(path.hosts, agreed):
        expect(f"{name}: {names}", [ns.counters()[counter] for counter in names], [want, 0, 0, 0])


def test_one_end():
    """Only the client runs hpcc, or only the server does."""
    for version in 4, 6:
        for name, cc, modes in (("only the client", ("hpcc", "cubic"), ("hpcc-classic", "cubic")),
                                ("only the server", ("cubic", "hpcc"), ("cubic", "hpcc-classic"))):
            path = Path(version, cc=cc, **HOST)
            check(name, path, path.connect(), modes, (0, 0))


def test_listener():
    """A route of the listener's host that names a congestion control overrides the host's default."""
    for version, net in (4, "10.0.0.0/24 dev left"), (6, "fd00::/64 dev left metric 256"):
        for default, route, modes in ("hpcc", "cubic", ("hpcc-classic", "cubic")), ("cubic", "hpcc", ("hpcc", "hpcc")):
            path = Path(version, **HOST)
            path.b.sysctl("net.ipv4.tcp_congestion_control", default)
            path.b.ip(f"route replace {net} congctl {route}")
            check(f"route with {route}", path, path.connect(), modes, (int(route == "hpcc"),) * 2)


def test_socket_changes():
    """The server leaves hpcc after the handshake, and sends no more echoes: the client falls back."""
    path = Path(**HOST)
    client, server = path.connect()
    set_cc(server, "cubic")
    check("after the server left hpcc", path, (client, server), ("hpcc-classic", "cubic"), (1, 1))
    expect_in("unagreed_ignored", path.b.counters()["unagreed_ignored"], 1, NBYTES)
    set_cc(server, "hpcc")
    goodput_mbps(client, server, NBYTES // 4)
    send_until(lambda: get_cc(client) == "hpcc", client, server, NBYTES // 4)
    expect("mode", (get_cc(client), get_cc(server)), ("hpcc", "hpcc"))


def test_one_direction():
    """Switches write telemetry on the way to b only."""
    for version in 4, 6:
        path = Path(version, **HOST)
        for node in 1, 2:
            path.change(node, "hpcc nostamp", "left")
        for ns in path.hosts:
            ns.ask()
        check("telemetry only towards b", path, path.connect(), ("hpcc", "hpcc-classic"), (1, 1))
        expect("links", (len(path.a.links()), len(path.b.links())), (2, 0))
        # In real time the guest may pause for more than 64 T. Then host a also falls back, and has
        # returned to telemetry by now.
        counters = [ns.counters() for ns in path.hosts]
        expect("fallbacks", [each["fallbacks"] - each["returns"] for each in counters], [0, 1])
        if virtual_time():
            expect("returns", [each["returns"] for each in counters], [0, 0])


main(modules=["sch_hpcc"])
