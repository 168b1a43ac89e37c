#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The modules of carriers and of receiver mode, kmod/hpcc/netns/load.c, carrier/carrier.c and control/receiver_ops.c:
what loads them, and when they can be unloaded. Test X_NAME runs X with one module.
"""

import errno
import itertools

from ifa import GOOD as IFA_HOPS
from ifa import receiver as ifa_receiver
from int import GOOD as INT_HOPS
from int import receiver as int_receiver
from int import stack
from ioam import node, trace
from ioam import receiver as ioam_receiver
from lib.genl import Refused
from lib.kernel import unload, users
from lib.ktap import defer, each, expect, main
from lib.net import Netns
from lib.packet import ECHO, FORWARD, option
from lib.path import (CARRIERS, MBPS, Path, carrier_path, get_links, get_routes, mode_hops, moved,
                      set_links, set_routes)
from lib.peer import SCALE
from lib.tcp import pattern, set_cc, transfer

LINK = 1, 1, 10**9
MODULES = *CARRIERS, "receiver"


def loaded():
    return [name for name in MODULES if users(f"hpcc_{name}") is not None]


def fresh():
    """Return a namespace; none of the modules is loaded."""
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
    """Only sysctls, routes and links load modules: the modules that they select or need."""
    for what, (trigger, found) in triggers(name).items():
        ns = fresh()
        ns.sysctl("net.hpcc.carrier", 0)
        ns.sysctl("net.hpcc.where", 0)
        set_routes(ns, "10.0.0.0/8 0 0")
        ns.hpcc().set("link-set", replace=True)
        expect(f"loaded before {what}", loaded(), [])
        trigger(ns)
        expect(f"loaded by {what}", loaded(), found)


def refused(function, ns):
    """Return the error and the message of a request that has to fail."""
    try:
        function(ns)
    except Refused as error:
        return error.number, error.message
    except OSError as error:
        return error.errno, None
    return None


@each(*MODULES)
def not_installed(name):
    """If modprobe fails, a request for a module fails with ENOENT and changes nothing."""
    ns = fresh()
    defer(ns.sysctl, "kernel.modprobe", ns.sysctl("kernel.modprobe"))
    ns.sysctl("kernel.modprobe", "/bin/false")
    messages = {"sysctl": None, "route": f"the module hpcc_{name} is not loaded",
                "link": "no module of a carrier that uses links is loaded"}
    for what, (trigger, _) in triggers(name).items():
        expect(what, refused(trigger, ns), (errno.ENOENT, messages[what]))
    expect("changed", (loaded(), ns.sysctl("net.hpcc.carrier"), ns.sysctl("net.hpcc.where"), get_routes(ns), get_links(ns)),
           ([], "0", "0", [], []))


@each(*CARRIERS)
def held_by_flow(name):
    """A flow holds the module of its carrier; a configured carrier without flows does not."""
    fresh()
    path = carrier_path(name)
    ends = path.connect()
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
    """A flow of two ends that agreed on receiver mode holds the module. Without the module new connections do not offer
    receiver mode, and a socket that returns to hpcc runs classic until it returns again: its peer may compute W.
    """
    def set_all(ccs, socks):
        for cc in ccs:
            for sock in socks:
                set_cc(sock, cc)

    fresh()
    path = Path(6, host_mbps=MBPS, where=1)
    ends = path.connect()
    transfer((*ends, pattern(1000000)))
    expect("the receiver computes W", path.a.flow(ends[0])["receiver"], 1)
    expect("unload under a flow", unload(path.a, name="hpcc_receiver"), False)
    set_all(["reno"], ends)
    expect("unload", unload(path.a, 60, "hpcc_receiver"), True)
    set_all(["hpcc"], ends)
    other = path.connect(5001)
    for pair in ends, other:
        transfer((*pair, pattern(1000000)))
    expect("flows of the host", [path.a.flow()[key] for key in ("lport", "mode", "receiver")],
           [other[0].getsockname()[1], "telemetry", 0])
    path.a.sysctl("net.hpcc.where", 1)
    for sock in *ends, *other:
        set_all(["reno", "hpcc"], [sock])
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
        echoes = [len(seg.telemetry(ECHO).records) for seg in peer.read_all(0.1) if seg.telemetry(ECHO)]
        moved = (peer.ns.counters() - before).get(name + "_received", 0)
        expect(f"echoed records, received, while loaded is {there}", (echoes, moved), ([2], 1) if there else ([], 0))
    peer.header = b""
    peer.send(b"", b"data")
    expect("data", peer.sock.recv(100)[-4:], b"data")


def test_orders():
    """Modules of carriers are loaded and unloaded in several orders while a connection uses the TCP option."""
    path = Path(6, host_mbps=MBPS)
    for number in 1, 2:
        for port, dev in enumerate(("left", "right"), 1):
            path.change(number, f"hpcc rate {MBPS}mbit delay 20us node {number} port {port} stamp tcp,ioam,int,ifa", dev)
    client, server = path.connect()
    names, ports, ends = list(CARRIERS), itertools.count(5001), {}

    def load(name):
        for ns in path.hosts:
            ns.sysctl("net.hpcc.carrier", CARRIERS[name]["carrier"])
            set_links(ns, *[(number, port, MBPS * 10**6) for number in (1, 2) for port in (1, 2)] if name != "csig" else ())
        ends[name] = path.connect(next(ports))

    def remove(name):
        for end in ends.pop(name):
            end.close()
        expect(f"unload {name}", unload(path.a, 60, f"hpcc_{name}"), True)

    for first, last in (names, names), (names, names[::-1]), (names[::-1], names[2:] + names[:2]):
        fresh()
        steps = [(load, name) for name in first] + [(remove, name) for name in last]
        while steps:
            ways = [(*pair, pattern(100000)) for pair in ends.values()]
            transfer((client, server, pattern(300000)), *ways)
            function, name = steps.pop(0)
            function(name)
    expect("mode, hops", (path.a.flow(client)["mode"], path.a.flow(client)["hops"]), ("telemetry", 2))
    for name in "ioam", "int", "ifa":
        expect(f"{name} was used", path.a.counters()[name + "_sent"] > 0, True)
    path.no_errors()


main(modules=["sch_hpcc"])
