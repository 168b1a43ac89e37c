#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Only one end, or only one direction, uses telemetry: data arrive in both directions, in virtual
time each at no less than half of cubic's goodput, and each end reports the mode in which it runs.
"""


from lib.box import send_until
from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, expect_rate, main
from lib.path import MBPS, Path
from lib.tcp import get_cc, goodput_mbps, set_cc

NBYTES = 600000
HOST = {"host_mbps": 2 * MBPS}


def both_ways(path, client, server):
    """Return the goodput in Mbit/s to b and back from b."""
    return (goodput_mbps(client, server, NBYTES), goodput_mbps(server, client, NBYTES))


class Cubic:
    """The goodput of cubic on the path, by IP version."""

    known = {}

    @classmethod
    def mbps(cls, version):
        """Return the goodput to b and back from b."""
        if version not in cls.known:
            path = Path(version, cc=("cubic", "cubic"))
            cls.known[version] = both_ways(path, *path.connect())
        return cls.known[version]


def check(name, path, sockets, modes, agreed):
    """Check the goodputs, the modes (client, server), and the counter agreed (a, b)."""
    goodputs = both_ways(path, *sockets)
    for cubic, goodput in zip(Cubic.mbps(path.version), goodputs):
        print(f"# {name}, IPv{path.version}: {goodput:.0f} Mbit/s, cubic {cubic:.0f}")
        expect_rate(f"{name}: goodput", goodput, cubic / 2, MBPS)
    for ways in sockets, sockets[::-1]:
        send_until(lambda: tuple(map(get_cc, sockets)) == modes, *ways, NBYTES // 4)
    expect(f"{name}: modes", tuple(map(get_cc, sockets)), modes)
    for ns, want in zip(path.hosts, agreed):
        counters = ns.counters()
        expect(f"{name}: agreed", counters["agreed"], want)
        for ignored in "malformed_ignored", "checksum_ignored", "bad_hop_ignored":
            expect(f"{name}: {ignored}", counters[ignored], 0)


def test_one_end():
    """Only the client runs hpcc, or only the server does."""
    for version in 4, 6:
        path = Path(version, cc=("hpcc", "cubic"), **HOST)
        check("only the client", path, path.connect(), ("hpcc-classic", "cubic"), (0, 0))
        path = Path(version, cc=("cubic", "hpcc"), **HOST)
        check("only the server", path, path.connect(), ("cubic", "hpcc-classic"), (0, 0))


def test_listener():
    """A route of the listener's host that names a congestion control overrides the host's default."""
    for version in 4, 6:
        path = Path(version, **HOST)
        path.b.sysctl("net.ipv4.tcp_congestion_control", "cubic")
        check("listener with cubic", path, path.connect(), ("hpcc-classic", "cubic"), (0, 0))

        path = Path(version, **HOST)
        net = "10.0.0.0/24 dev left" if version == 4 else "fd00::/64 dev left metric 256"
        path.b.ip(f"route replace {net} congctl cubic")
        check("route with cubic", path, path.connect(), ("hpcc-classic", "cubic"), (0, 0))

        path = Path(version, cc=("hpcc", "cubic"), **HOST)
        path.b.ip(f"route replace {net} congctl hpcc")
        check("route with hpcc", path, path.connect(), ("hpcc", "hpcc"), (1, 1))


def test_socket_changes():
    """The server leaves hpcc after the handshake and echoes nothing more: the client falls back."""
    path = Path(**HOST)
    client, server = path.connect()
    set_cc(server, "cubic")
    check("server left", path, (client, server), ("hpcc-classic", "cubic"), (1, 1))
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
        check("stamped to b", path, path.connect(), ("hpcc", "hpcc-classic"), (1, 1))
        expect("links", (len(path.a.links()), len(path.b.links())), (2, 0))
        # If the guest stands still for 64 T, host a falls back as well, and has returned by now.
        counters = [ns.counters() for ns in path.hosts]
        expect("fallbacks", [each["fallbacks"] - each["returns"] for each in counters], [0, 1])
        if virtual_time():
            expect("returns", [each["returns"] for each in counters], [0, 0])


main(modules=["sch_hpcc"])
