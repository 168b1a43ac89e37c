#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""When modules of carriers and receiver mode are loaded and unloaded (kmod/hpcc/netns/load.c, carrier/carrier.c)."""

import errno
import itertools
import os

from ifa import GOOD as IFA_HOPS
from ifa import receiver as ifa_receiver
from int import GOOD as INT_HOPS
from int import receiver as int_receiver
from int import stack
from ioam import node, trace
from ioam import receiver as ioam_receiver
from lib.genl import Refused
from lib.kernel import need, unload, users, virtual_time
from lib.ktap import defer, each, expect, main
from lib.net import Netns, joined
from lib.packet import FORWARD, option
from lib.path import CARRIERS, MBPS, Path, carrier_path, get_links, get_routes, mode_hops, moved, set_links, set_routes
from lib.peer import SCALE
from lib.tcp import pattern, set_cc, transfer

LINK = 1, 1, 10**9
MODULES = *CARRIERS, "receiver"


def loaded():
    return [name for name in MODULES if users(f"hpcc_{name}") is not None]


def fresh():
    """Unload these modules. Return a namespace."""
    ns = Netns()
    for name in loaded():
        expect(f"unload {name}", unload(ns, 60, f"hpcc_{name}"), True)
    return ns


def triggers(name):
    """Return each way to load a module, as {name: (a function of a namespace, the modules that it loads)}."""
    if name == "receiver":
        return {"sysctl": (lambda ns: ns.sysctl("net.hpcc.where", 1), [name]),
                "route": (lambda ns: set_routes(ns, "10.0.0.0/8 1 -"), [name])}
    number = CARRIERS[name]["carrier"]
    return {"sysctl": (lambda ns: ns.sysctl("net.hpcc.carrier", number), [name]),
            "route": (lambda ns: set_routes(ns, f"10.0.0.0/8 - {number}"), [name])} | \
        ({} if name == "csig" else {"link": (lambda ns: set_links(ns, LINK), ["ioam", "int", "ifa"])})


@each(*MODULES)
def asked_for(name):
    """A sysctl, route or link loads the modules that it selects or needs. Settings that select none load none."""
    for what, (trigger, found) in triggers(name).items():
        ns = fresh()
        ns.sysctl("net.hpcc.carrier", 0)
        ns.sysctl("net.hpcc.where", 0)
        set_routes(ns, "10.0.0.0/8 0 0")
        ns.hpcc().set("link-set", replace=True)
        expect(f"loaded before {what}", loaded(), [])
        trigger(ns)
        expect(f"loaded by {what}", loaded(), found)


@each(*MODULES)
def not_installed(name):
    """If modprobe fails, a request for a module fails with ENOENT and changes nothing."""
    ns = fresh()
    need("hpcc_netlink")
    defer(ns.sysctl, "kernel.modprobe", ns.sysctl("kernel.modprobe"))
    ns.sysctl("kernel.modprobe", "/bin/false")
    messages = {"sysctl": None, "route": f"the module hpcc_{name} is not loaded",
                "link": "no module of a carrier that uses links is loaded"}
    for what, (trigger, _) in triggers(name).items():
        got = None
        try:
            trigger(ns)
        except Refused as error:
            got = error.number, error.message
        except OSError as error:
            got = error.errno, None
        expect(f"error and message of {what}", got, (errno.ENOENT, messages[what]))
    expect("modules, sysctls, routes, links", (loaded(), ns.sysctl("net.hpcc.carrier"), ns.sysctl("net.hpcc.where"),
                                               get_routes(ns), get_links(ns)), ([], "0", "0", [], []))


@each(*CARRIERS)
def held_by_flow(name):
    """A flow holds the module of its carrier; a configured carrier without flows does not."""
    fresh()
    path, *ends = joined(carrier_path(name))
    transfer((*ends, pattern(300000)))
    expect("unload under a flow", unload(path.a, name=f"hpcc_{name}"), False)
    for end in ends:
        end.close()
    expect("unload", unload(path.a, 60, f"hpcc_{name}"), True)
    before = path.a.counters()
    transfer((*path.connect(5001), pattern(300000)))
    expect("sent since, mode, hops", (moved(path.a, before, name + "_sent"), mode_hops(path.a)), ({}, ("telemetry", 2)))
    path.no_errors()


def test_receiver_mode_held():
    """A flow that agreed on receiver mode holds the module; without it new connections do not offer receiver mode."""
    fresh()
    path, *ends = joined(Path(6, host_mbps=MBPS, where=1))
    transfer((*ends, pattern(1000000)))
    expect("the receiver computes W", path.a.flow(ends[0])["receiver"], 1)
    expect("unload under a flow", unload(path.a, name="hpcc_receiver"), False)
    for sock in ends:
        set_cc(sock, "reno")
    expect("unload", unload(path.a, 60, "hpcc_receiver"), True)
    for sock in ends:
        set_cc(sock, "hpcc")
    other = path.connect(5001)
    for pair in ends, other:
        transfer((*pair, pattern(1000000)))
    expect("flows of the host", [path.a.flow()[key] for key in ("lport", "mode", "receiver")],
           [other[0].getsockname()[1], "telemetry", 0])
    path.a.sysctl("net.hpcc.where", 1)
    # A socket that returned to hpcc without the module runs classic until it returns again: its peer may compute W.
    for sock in *ends, *other:
        for cc in "reno", "hpcc":
            set_cc(sock, cc)
    for pair, receiver in (ends, 1), (other, 0):
        transfer((*pair, pattern(1000000)))
        expect("loaded again: mode, receiver", [path.a.flow(pair[0])[key] for key in ("mode", "receiver")],
               ["telemetry", receiver])
    path.no_errors()
    for sock in *ends, *other:
        sock.close()
    expect("unload after the flows", unload(path.a, 60, "hpcc_receiver"), True)


def send_ioam(peer):
    peer.header = trace((node(1), node(2)))
    peer.send(option(FORWARD, (), SCALE), b"x")


# A host that receives a carrier, and how its peer sends telemetry.
RECEIVERS = {"ioam": (ioam_receiver, send_ioam),
             "int": (int_receiver, lambda peer: peer.int(stack(INT_HOPS))),
             "ifa": (ifa_receiver, lambda peer: peer.ifa(IFA_HOPS))}


@each(*RECEIVERS)
def receiver_unloads(name):
    """If a receiver unloads a carrier that its peer uses, it ignores this telemetry, and data still arrive."""
    fresh()
    receiver, send = RECEIVERS[name]
    peer = receiver()
    for there in True, False, True:
        if there:
            set_links(peer.ns, LINK)
        else:
            expect("unload", unload(peer.ns, name=f"hpcc_{name}"), True)
        peer.read_all()
        before = peer.ns.counters()
        send(peer)
        echoes = [len(echo.records) for echo in peer.echoes()]
        received = (peer.ns.counters() - before).get(name + "_received", 0)
        expect(f"echoed records, received, module loaded: {there}", (echoes, received), ([2], 1) if there else ([], 0))
    peer.header = b""
    peer.send(b"", b"data")
    expect("data", peer.sock.recv(100)[-4:], b"data")


def test_orders():
    """All modules of carriers, of hosts and ports, and of receiver mode are loaded, used and unloaded while connections
    send. HPCC_STRESS=2 loads and unloads them in every order, the default in three.
    """
    path, ends, number = Path(6, host_mbps=MBPS), {}, itertools.count(5001)
    client, server = path.connect()
    in_use = set()

    def stamp():
        names = ",".join(["tcp", *sorted(in_use - {"receiver"})])
        for switch, (port, dev) in itertools.product((1, 2), enumerate(("left", "right"), 1)):
            path.change(switch, f"hpcc rate {MBPS}mbit delay 20us node {switch} port {port} stamp {names}", dev)

    def add(name):
        in_use.add(name)
        stamp()
        for ns in path.hosts:
            ns.sysctl("net.hpcc.where", int(name == "receiver"))
            ns.sysctl("net.hpcc.carrier", CARRIERS[name]["carrier"] if name in CARRIERS else 0)
            set_links(ns, *[(switch, port, MBPS * 10**6) for switch in (1, 2) for port in (1, 2)] if name != "csig" else ())
        ends[name] = path.connect(next(number))

    def remove(name):
        in_use.remove(name)
        stamp()
        for end in ends.pop(name):
            end.close()
        for module in [f"hpcc_{name}"] + [f"sch_hpcc_{name}"] * (name != "receiver"):
            expect(f"unload {module}", unload(path.a, 60, module), True)

    every = list(itertools.permutations(MODULES))
    shift = len(every) // 3
    orders = every if int(os.environ.get("HPCC_STRESS") or 1) > 1 else every[::shift]
    for first, last in zip(orders, orders[1:] + orders[:1]):
        for name in first:
            add(name)
            transfer((client, server, pattern(100000)), *[(*pair, pattern(60000)) for pair in ends.values()])
        for name in last:
            remove(name)
            transfer((client, server, pattern(100000)), *[(*pair, pattern(60000)) for pair in ends.values()])
        expect("loaded", loaded(), [])
    for name in "ioam", "int", "ifa":
        expect(f"{name} was used", path.a.counters()[name + "_sent"] > 0, True)
    expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])
    if virtual_time():
        expect("mode, hops", mode_hops(path.a), ("telemetry", 2))
        path.no_errors()


main(modules=["sch_hpcc"])
