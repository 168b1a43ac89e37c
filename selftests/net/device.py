#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/common/device.c: B of the host, measured by W_init = B x T."""

import subprocess
import time

from lib.kernel import allow, allowed, load, unload, users
from lib.ktap import cases, expect, expect_in, main
from lib.modprobe import insmod, modprobe
from lib.net import Netns, Pair
from lib.peer import Peer

T_NS = 1000000


def expect_window(ns, mbps, sock=None):
    """Fail unless W of a flow is B x T."""
    expect(f"W at {mbps} Mb/s", ns.flow(sock)["W"], mbps * T_NS // 8000)


def with_speed(peer, mbps):
    """Let a peer's device report a speed."""
    peer.ns.run("ethtool", "-s", "tun0", "speed", str(mbps), "duplex", "full")
    peer.ns.ip("link set tun0 down", "link set tun0 up")
    return peer


def leave():
    """Unload all modules, also hpcc_common, which stores the devices' speeds."""
    ns = Netns()
    for name in "tcp_ldcp", "tcp_hpcc", "hpcc_common":
        if users(name) is not None:
            expect(f"unload {name}", unload(ns, wait_s=100, name=name), True)


def test_loaded_by_a_route():
    """The route requests the module under RTNL: if the module's setup waited for RTNL, both would wait forever."""
    ns = Netns()
    leave()
    modprobe(insmod("hpcc_common"), insmod("tcp_hpcc"))
    with ns:
        route = subprocess.Popen(["ip", "route", "add", "10.9.0.0/16", "dev", "lo", "congctl", "hpcc"])
    for _ in range(3000):
        if route.poll() is not None:
            break
        time.sleep(0.01)
    expect("status of ip route, module is loaded", (route.poll(), users() is not None), (0, True))
    # All users may use hpcc in the tests that follow, as after load().
    allow(f"{allowed()} hpcc")
    ns.ip("route del 10.9.0.0/16 dev lo")


def test_loaded_behind_devices():
    """The module gets the speed of a device that was created before the module was loaded."""
    peer = with_speed(Peer(host_mbps=0, base_rtt_ns=T_NS), 1000)
    peer.ns.sysctl("net.ipv4.tcp_congestion_control", "cubic")
    leave()
    for name in "hpcc_common", "tcp_hpcc":
        load(peer.ns, name)
    time.sleep(0.1)
    for name, value in (("base_rtt_ns", T_NS), ("host_mbps", 0)):
        peer.ns.sysctl(f"net.hpcc.{name}", value)
    peer.ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
    peer.connect()
    expect_window(peer.ns, 1000)


# B is 10 Gb/s, as veth reports; host_mbps overrides the device.
@cases(veth=((4, 10000, {}), (6, 10000, {})),
       configured=tuple((4, mbps, {"host_mbps": mbps}) for mbps in (1000, 40000, 1000000)))
def veths(*pairs):
    """Both ends of a veth use this B."""
    for version, mbps, how in pairs:
        pair = Pair(version, base_rtt_ns=T_NS, **how)
        pair.connect()
        for ns in pair.c, pair.s:
            expect_window(ns, mbps)


def test_no_speed():
    """B is 10 Gb/s if a device reports no speed, like loopback and dummy devices."""
    ns = Netns(base_rtt_ns=T_NS)
    ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
    ns.listen("127.0.0.1")
    client = ns.socket()
    client.connect(("127.0.0.1", 5000))
    expect_window(ns, 10000, client)


def test_slow_device():
    """10 Mb/s x 1 ms is less than one segment: W is one segment."""
    peer = with_speed(Peer(host_mbps=0, base_rtt_ns=T_NS), 10).connected()
    expect_in("W", peer.flow()["W"], 1400, 1448)


def test_speed_changes():
    """A connection uses the speed that the device reports when the connection begins."""
    peer = Peer(host_mbps=0, base_rtt_ns=T_NS)
    for number, mbps in enumerate((25000, 100000, 1000)):
        with_speed(peer, mbps).connect(port=7000 + number)
        expect_window(peer.ns, mbps, peer.sock)


def test_moved_device():
    """A device keeps its speed in another namespace, with another ifindex."""
    pair = Pair(base_rtt_ns=T_NS, host_mbps=0)
    other = Netns(base_rtt_ns=T_NS)
    other.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
    pair.c.ip(f"link set eth0 netns {other.path}")
    other.ip("addr add 10.0.0.1/24 dev eth0", "link set eth0 up")
    pair.c = other
    pair.connect()
    expect_window(other, 10000)


def test_vlan():
    """B of a VLAN device is B of the device below it."""
    pair = Pair(base_rtt_ns=T_NS)
    pair.addr = ("10.5.0.1", "10.5.0.2")
    for ns, addr in zip((pair.c, pair.s), pair.addr):
        ns.ip("link add link eth0 name eth0.5 type vlan id 5", f"addr add {addr}/24 dev eth0.5", "link set eth0.5 up")
    pair.connect()
    expect_window(pair.c, 10000)


main()
