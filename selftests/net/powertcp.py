#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/power.c: powertcp uses the handshake, the telemetry, the carriers and the fallback of hpcc."""

from lib.kernel import need, unload, users
from lib.ktap import defer, each, expect, expect_in, expect_rate, main, need_virtual_time
from lib.net import Netns, Pair, expect_counters, joined
from lib.path import CARRIERS, MBPS, Path, carrier_path, mode_hops
from lib.star import percentile
from lib.tcp import disconnect, get_cc, goodput_mbps, pattern, send_for, set_cc, transfer

POWER = "powertcp", "powertcp"
STEP = 0.0002


def bandwidth(path, *flows, warm=0.2, seconds=0.5, node=1):
    """Send on connections. Return the Mb/s of each, and of a port: its utilization, p99 of its queue, and its drops."""
    send_for(warm, *flows, step=STEP)
    before = path.port(node)
    rates = [arrived * 8e-6 / seconds for arrived in send_for(seconds, *flows, step=STEP)]
    after = path.port(node)
    found = (after["bytes"] - before["bytes"]) * 8e-6 / seconds / MBPS, percentile(before["hpcc"], after["hpcc"], 0.99)
    print(f"# {[round(rate) for rate in rates]} Mb/s, utilization {found[0]:.3f}, p99 queue {found[1]} bytes")
    return rates, *found, after["drops"]


def set_default(name):
    """Set the default of the first network namespace. Return the one before."""
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as file:
        before = file.read().strip()
    with open(file.name, "w", encoding="ascii") as file:
        file.write(name)
    return before


# This test is the first because connections of other tests would still use the module.

def test_module():
    """The sysctl loads the module. Connections and listeners hold it; later connections run hpcc."""
    ns = Netns()
    expect("unload", unload(ns, name="tcp_powertcp"), True)
    before = set_default("powertcp")
    defer(set_default, before)
    expect("users after the sysctl", users("tcp_powertcp"), 1)
    need("tcp_powertcp")
    pair = Pair(cc=POWER)
    listener = pair.listen()
    ends = pair.connect(listener)
    expect("congestion control", [get_cc(sock) for sock in ends], list(POWER))
    set_default(before)
    for other in pair.c, pair.s:
        other.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
    listener.close()
    expect("unload under a connection", unload(ns, name="tcp_powertcp"), False)
    for sock in ends:
        set_cc(sock, "hpcc")
    expect("unload", unload(ns, 60, "tcp_powertcp"), True)
    transfer((*ends, pattern(300000)))
    expect("agreement with hpcc", pair.c.flow(ends[0])["hops"], 0)
    need("tcp_powertcp")


@each(4, 6)
def converges(version):
    """A flow uses a link with a short queue; two flows share the link, whichever law the other has."""
    need_virtual_time()
    path = Path(version, cc=POWER, host_mbps=MBPS, n_flows=2)
    first = path.connect()
    _, used, queue, drops = bandwidth(path, first)
    # A packet has 1514 of its 1538 bytes here, and W_init, which T limits, is a little below the RTT of full segments.
    expect_in("utilization", used, 0.88, 0.985)
    expect_in("p99 of the queue", queue, 0, 15 * 1538)
    for port, cc in (5001, "powertcp"), (5002, "hpcc"):
        second = path.connect(port, cc)
        rates, used, queue, drops = bandwidth(path, first, second)
        expect_in(f"beside {cc}: share", rates[0] / sum(rates), *(0.45, 0.55) if cc == "powertcp" else (0.3, 0.7))
        expect_in("utilization", used, 0.93, 0.985)
        second[0].close()
    flows = {flow["lport"]: "powertcp" in flow for flow in path.a.dump()}
    expect("flag of the first flow", flows[first[0].getsockname()[1]], True)
    expect("drops, fallbacks", (drops, path.a.counters()["fallbacks"]), (0, 0))
    path.no_errors()


def test_incast():
    """16 flows begin at the same time: the port drops nothing, and then has a short queue and full use."""
    need_virtual_time()
    path = Path(switches=1, cc=POWER, host_mbps=MBPS, n_flows=16)
    path.a.tc("qdisc change dev right root hpcc rate 16gbit delay 20us nostamp")
    flows = [path.connect(5000 + number) for number in range(16)]
    rates, used, queue, drops = bandwidth(path, *flows)
    expect("drops", drops, 0)
    expect_in("utilization", used, 0.88, 0.985)
    expect_in("p99 of the queue", queue, 0, 30 * 1538)
    expect_in("least share", min(rates) * 16 / sum(rates), 0.4, 1)


@each(*CARRIERS)
def carrier(name):
    """All carriers of requests bring records; that of CSIG has one hop."""
    path, *ends = joined(carrier_path(name, cc=POWER))
    transfer((*ends, pattern(500000)))
    expect("mode, hops", mode_hops(path.a), ("telemetry", 1 if name == "csig" else 2))
    expect_in("sent", path.a.counters()[f"{name}_sent"], 10, 100000)
    path.no_errors()


def test_fallback():
    """If telemetry stops, the connection runs Reno until it returns; a peer without the option leaves it Reno."""
    path, *ends = joined(Path(cc=POWER))
    transfer((*ends, pattern(300000)))
    for node in 1, 2:
        for dev in "left", "right":
            path.change(node, f"hpcc rate {MBPS}mbit delay 20us nostamp", dev)
    for salt in range(8):
        transfer((*ends, pattern(300000, salt)))
    expect("congestion control, mode", (get_cc(ends[0]), path.a.flow()["mode"]), ("power-classic", "classic"))
    for node in 1, 2:
        path.change(node, f"hpcc rate {MBPS}mbit delay 20us node {node} port 2 stamp")
    for salt in range(8):
        transfer((*ends, pattern(300000, salt)))
    expect("congestion control, mode", (get_cc(ends[0]), path.a.flow()["mode"]), ("powertcp", "telemetry"))
    pair, client, server = joined(Pair(cc=("powertcp", "reno")))
    transfer((client, server, pattern(300000)))
    expect("the peer runs reno", get_cc(client), "power-classic")
    expect_counters(pair.c, not_agreed=1)


def test_peers_and_changes():
    """Each end chooses its law, also by a route, and a socket may change it, or connect again."""
    for cc in ("powertcp", "hpcc"), ("hpcc", "powertcp"):
        path, client, server = joined(Path(cc=cc, where=1))
        transfer((client, server, pattern(300000)), (server, client, pattern(300000, 1)))
        for ns in path.hosts:
            expect("mode, hops", mode_hops(ns), ("telemetry", 2))
        path.no_errors()
    path, client, server = joined(Path(cc=POWER))
    for name in "reno", "powertcp", "hpcc", "powertcp":
        set_cc(client, name)
        transfer((client, server, pattern(100000)))
        expect("congestion control", get_cc(client), name)
    expect("mode", path.a.flow()["mode"], "telemetry")
    path.no_errors()
    pair = Pair(cc=("powertcp", "cubic"))
    pair.s.ip("route replace 10.0.0.0/24 dev eth0 congctl powertcp")
    client, server = pair.connect()
    transfer((client, server, pattern(100000)))
    expect("by a route", get_cc(server), "powertcp")
    expect_counters(pair.s, agreed=1)
    disconnect(client)
    expect("disconnected", get_cc(client), "powertcp")


def test_receiver_mode_is_hpcc():
    """A receiver does not compute W of powertcp; a connection whose peer computes W runs classic when it changes."""
    path, client, server = joined(Path(cc=POWER, where=1, host_mbps=MBPS))
    transfer((client, server, pattern(1000000)))
    expect("receiver", (path.a.flow()["receiver"], path.a.flow()["mode"]), (0, "telemetry"))
    path, client, server = joined(Path(where=1, host_mbps=MBPS))
    transfer((client, server, pattern(1000000)))
    expect("receiver of hpcc", path.a.flow()["receiver"], 1)
    set_cc(client, "powertcp")
    goodput = goodput_mbps(client, server, 1000000)
    expect("congestion control", get_cc(client), "power-classic")
    expect_rate("goodput", goodput, 0.3 * MBPS, MBPS)
    set_cc(client, "hpcc")
    transfer((client, server, pattern(1000000)))
    expect("after the return", (get_cc(client), path.a.flow()["receiver"]), ("hpcc", 1))


main(modules=["sch_hpcc", "tcp_powertcp"])
