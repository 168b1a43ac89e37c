#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Modules of carriers and responses (qdisc/core/module.c): tc loads the modules that a port needs, and the port
holds them.
"""

import itertools
import os
import pathlib
import shutil
import subprocess
import time

from lib.kernel import carriers, insert, load, unload, users
from lib.ktap import each, expect, expect_in, main
from lib.modprobe import insmod, modprobe
from lib.net import Netns
from lib.path import CARRIERS, MBPS, Path, carrier_path
from lib.tcp import pattern, transfer

# A carrier or "respond", and its module
MODULES = {"csig": "sch_hpcc_csig", "csig_push": "sch_hpcc_csig", "ifa": "sch_hpcc_ifa", "int": "sch_hpcc_int",
           "inner": "sch_hpcc_inner", "ioam": "sch_hpcc_ioam", "respond": "sch_hpcc_respond"}


def needs(name, stamp=""):
    """Return options of a port that needs a module and stamps these carriers."""
    more = {"respond": "respond 1kb", "inner": "inner on"}.get(name)
    return f"stamp {stamp or 'tcp'} {more}" if more else f"stamp {stamp and stamp + ','}{name}"


def message(name):
    return "Error: " + (f"{name}: module sch_hpcc_{name} not loaded." if name in ("respond", "inner") else
                        f"{name}: carrier not loaded.")


def held():
    return {name: users(name) for name in carriers("sch_hpcc")}


def fresh():
    """Return a namespace with two devices; sch_hpcc was just loaded, and no module that needs it."""
    ns = Netns()
    expect("unload", unload(ns, 60, "sch_hpcc"), True)
    load(ns, "sch_hpcc")
    ns.ip("link add d0 mtu 9000 type dummy", "link add d1 type dummy", "link set d0 up", "link set d1 up")
    return ns


@each(*MODULES)
def on_demand(name):
    """A port holds the module of a carrier, or of tunnels, while it stamps this carrier, and the module of responses until the port is
    deleted.
    """
    ns, module, stays = fresh(), MODULES[name], name == "respond"
    ns.tc("qdisc add dev d0 root handle 1: hpcc", "qdisc change dev d0 root handle 1: hpcc rate 1gbit")
    expect("of a port without it", held(), {})
    ns.tc(f"qdisc change dev d0 root handle 1: hpcc {needs(name, 'tcp')}")
    expect("of a port with it", held(), {module: 1})
    ns.tc(f"qdisc add dev d1 root hpcc {needs(name)}", "qdisc change dev d0 root handle 1: hpcc rate 2gbit")
    expect("of two ports", held(), {module: 2})
    ns.ip("link set d1 mtu 1400", "link set d1 down", "link set d1 up")
    expect("after events of the device", held(), {module: 2})
    ns.tc(f"qdisc change dev d0 root handle 1: hpcc {'respond 0' if stays else 'stamp tcp inner off'}")
    expect("of the other one", held(), {module: 1 + stays})
    expect("unload while it is in use", unload(ns, name=module), False)
    ns.tc("qdisc del dev d1 root")
    if stays:
        expect("unload after responses", (held(), unload(ns, name=module)), ({module: 1}, False))
        ns.tc("qdisc del dev d0 root", "qdisc add dev d0 root handle 1: hpcc")
    expect("of none", held(), {module: 0})
    expect("unload", unload(ns, name=module), True)
    ns.tc(f"qdisc change dev d0 root handle 1: hpcc {needs(name)}")
    expect("again", held(), {module: 1})
    ns.tc("qdisc replace dev d0 root pfifo")
    expect("unload sch_hpcc", unload(ns, name="sch_hpcc"), True)
    load(ns, "sch_hpcc")


def test_refused_change():
    """A change that fails, before or after the modules were loaded, changes nothing."""
    ns = fresh()
    ns.tc("qdisc add dev d0 root handle 1: hpcc stamp tcp,ioam,csig,csig_push")
    want, shown = {"sch_hpcc_ioam": 1, "sch_hpcc_csig": 2}, ns.run("tc", "qdisc", "show", "dev", "d0")
    expect("at first", held(), want)
    for how in "stamp int,ifa,csig limit 1kb", "stamp ifa,ioam identify off", "stamp csig csig_tpid 0x8100", \
               "stamp ifa respond 2mb":
        output = ns.run("tc", "qdisc", "change", "dev", "d0", "root", "handle", "1:", "hpcc", *how.split(), check=False)
        expect(f"{how} is refused", "Error: " in output, True)
        expect("users", {name: n for name, n in held().items() if n}, want)
        expect("port", ns.run("tc", "qdisc", "show", "dev", "d0"), shown)
    expect("loaded for responses", users("sch_hpcc_respond"), None)
    ns.tc("qdisc change dev d0 root handle 1: hpcc stamp tcp,ioam,int,ifa,csig inner on respond 1mb")
    expect("all", held(), dict.fromkeys(MODULES.values(), 1))


@each(*MODULES)
def missing(name):
    """If a module is missing, tc reports this, and the old configuration stays in force."""
    ns = fresh()
    other = "sch_hpcc_ioam" if name != "ioam" else "sch_hpcc_csig"
    insert(ns, other)
    keeps = "tcp," + ("ioam" if name != "ioam" else "csig_push")
    ns.tc(f"qdisc add dev d0 root handle 1: hpcc stamp {keeps}")
    modprobe("exit 1")
    shown = ns.run("tc", "qdisc", "show")
    for verb, how in itertools.product(("change dev d0", "add dev d1"), (needs(name), needs(name, keeps))):
        output = ns.run("tc", "qdisc", *f"{verb} root handle 1: hpcc {how}".split(), check=False)
        expect("message", output.strip(), message(name))
        expect("users", held(), {other: 1})
        expect("ports", ns.run("tc", "qdisc", "show"), shown)


def transfer_during(path, port, *steps):
    """Run these steps, one after the other, while data arrive."""
    turns, left = itertools.count(1), list(steps)

    def step():
        if left and next(turns) % 10 == 0:
            left.pop(0)()

    transfer((*path.connect(port), pattern(3000000, port)), each=step)
    expect("steps left", left, [])


@each(*CARRIERS)
def under_traffic(name):
    """A port stops stamping while packets wait, its module is unloaded and loaded again: all data arrive."""
    path, module = carrier_path(name, switches=1), MODULES[name]
    push = CARRIERS[name].get("push")

    def hosts(stamp):
        for ns, dev in (path.a, "right"), (path.b, "left"):
            ns.tc(f"qdisc change dev {dev} root hpcc {stamp}")

    def stop():
        path.change(1, "hpcc rate 1mbit")
        time.sleep(0.005)
        expect_in("waiting", path.port(1)["backlog"], 1, 1 << 30)
        for dev in "left", "right":
            path.change(1, "hpcc stamp tcp", dev)
        if push:
            hosts("nostamp")
        expect("unload", (users(module), unload(path.a, name=module)), (0, True))
        path.change(1, f"hpcc rate {MBPS}mbit")

    def start():
        for dev in "left", "right":
            path.change(1, f"hpcc stamp {CARRIERS[name]['stamp']}", dev)
        expect("users", users(module), 2)
        if push:
            hosts(f"stamp {push}")

    for port in 5000, 5001, 5002:
        transfer_during(path, port, stop, start)
    # Only probes carry INT and IFA, and maybe no probe waits.
    if name in ("ioam", "csig"):
        expect_in("left without a record", path.port(1)["hpcc"]["unstamped"]["off"], 1, 1 << 30)
    expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])


def test_respond_under_traffic():
    """A port responds, stops, is deleted while responses may be pending, and releases the module. All data arrive."""
    fresh()
    path, module = Path(switches=1), MODULES["respond"]

    def start():
        path.change(1, "hpcc rate 100mbit limit 1mb respond 1b every 1us")

    def stop():
        expect_in("responses", path.port(1)["hpcc"]["responses"], 1, 1 << 30)
        path.change(1, "hpcc respond 0")
        expect("unload with the port", (users(module), unload(path.a, name=module)), (1, False))
        start()

    def remove():
        path.switches[0].tc("qdisc del dev right root", f"qdisc add dev right root handle 1: hpcc rate {MBPS}mbit")
        expect("unload", (users(module), unload(path.a, name=module)), (0, True))

    for port in 5000, 5001, 5002:
        transfer_during(path, port, start, stop, remove)
    path.no_errors()


def test_containers():
    """Root of a container loads no module, because the host's RTNL is held meanwhile, but can use a loaded module."""
    fresh()
    # The tenant may not read the directory of the user who runs the tests.
    plugins = pathlib.Path("/run/tc")
    plugins.mkdir(exist_ok=True)
    shutil.copy(os.environ["TC_LIB_DIR"] + "/q_hpcc.so", plugins)
    for name in "ioam", "respond":
        tenant = ["env", f"TC_LIB_DIR={plugins}", "unshare", "-rn", "tc", "qdisc", "add", "dev", "lo", "root", "hpcc", *needs(name).split()]
        ran = subprocess.run(tenant, capture_output=True, text=True, check=False)
        expect("message", (ran.stderr.strip(), users(MODULES[name])), (message(name), None))
        with Netns() as ns:
            insert(ns, MODULES[name])
        subprocess.run(tenant, check=True)


def test_beside_namespaces():
    """tc loads the module while it holds RTNL, and namespaces are created and deleted."""
    ns = fresh()
    for name, module in MODULES.items():
        expect("unload", users(module) is None or unload(ns, name=module), True)
        modprobe("sleep 0.05", insmod(module))
        spaces = subprocess.Popen(["sh", "-c", "while :; do unshare -n true || exit; done"])
        with ns:
            change = subprocess.Popen(["tc", "qdisc", "replace", "dev", "d0", "root", "handle", "1:", "hpcc",
                                       *needs(name).split()])
        deadline = time.monotonic() + 30
        while change.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        for process in change, spaces:
            process.kill()
        spaces.wait()
        expect(f"status of tc, {needs(name)}", change.wait(), 0)
        expect("users", users(module), 1)
        ns.tc("qdisc del dev d0 root")


main(modules=["sch_hpcc"], commands=["unshare"])
