#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Modules of carriers (qdisc/stamp/carrier.c): tc loads what a port stamps, and a port holds it."""

import subprocess
import sys
import time

from lib.kernel import carriers, insert, load, unload, users
from lib.ktap import each, expect, expect_in, main
from lib.modprobe import insmod, modprobe
from lib.net import Netns
from lib.path import CARRIERS, MBPS, carrier_path
from lib.tcp import pattern, transfer

# What stamp takes, and the module that has it
MODULES = {"csig": "sch_hpcc_csig", "csig_push": "sch_hpcc_csig", "ifa": "sch_hpcc_ifa", "int": "sch_hpcc_int",
           "ioam": "sch_hpcc_ioam"}


def held():
    """Return the users of each loaded module of a carrier."""
    return {name: users(name) for name in carriers("sch_hpcc")}


def fresh():
    """Return a namespace with two devices and no module of a carrier; sch_hpcc was just loaded."""
    ns = Netns()
    expect("unload", unload(ns, 60, "sch_hpcc"), True)
    load(ns, "sch_hpcc")
    ns.ip("link add d0 mtu 9000 type dummy", "link add d1 type dummy", "link set d0 up", "link set d1 up")
    return ns


@each(*MODULES)
def on_demand(name):
    """A port loads the module when it is to stamp the carrier, and holds it until it does not."""
    ns, module = fresh(), MODULES[name]
    ns.tc("qdisc add dev d0 root handle 1: hpcc", "qdisc change dev d0 root handle 1: hpcc rate 1gbit")
    expect("of a port without it", held(), {})
    ns.tc(f"qdisc change dev d0 root handle 1: hpcc stamp tcp,{name}")
    expect("of a port with it", held(), {module: 1})
    ns.tc(f"qdisc add dev d1 root hpcc stamp {name}", "qdisc change dev d0 root handle 1: hpcc rate 2gbit")
    expect("of two ports", held(), {module: 2})
    ns.ip("link set d1 mtu 1400", "link set d1 down", "link set d1 up")
    expect("after events of the device", held(), {module: 2})
    ns.tc("qdisc change dev d0 root handle 1: hpcc stamp tcp")
    expect("of the other one", held(), {module: 1})
    expect("unload while it is in use", unload(ns, name=module), False)
    ns.tc("qdisc del dev d1 root")
    expect("of none", held(), {module: 0})
    expect("unload", unload(ns, name=module), True)
    ns.tc(f"qdisc change dev d0 root handle 1: hpcc stamp {name}")
    expect("again", held(), {module: 1})
    ns.tc("qdisc replace dev d0 root pfifo")
    expect("unload sch_hpcc", unload(ns, name="sch_hpcc"), True)
    load(ns, "sch_hpcc")


def test_refused_change():
    """A change that fails, before or after the modules were loaded, leaves all as it was."""
    ns = fresh()
    ns.tc("qdisc add dev d0 root handle 1: hpcc stamp tcp,ioam,csig,csig_push")
    want, shown = {"sch_hpcc_ioam": 1, "sch_hpcc_csig": 2}, ns.run("tc", "qdisc", "show", "dev", "d0")
    expect("at first", held(), want)
    for how in "stamp int,ifa,csig limit 1kb", "stamp ifa,ioam identify off", "stamp csig csig_tpid 0x8100":
        output = ns.run("tc", "qdisc", "change", "dev", "d0", "root", "handle", "1:", "hpcc", *how.split(), check=False)
        expect(f"{how} is refused", "Error: " in output, True)
        expect("users", {name: n for name, n in held().items() if n}, want)
        expect("port", ns.run("tc", "qdisc", "show", "dev", "d0"), shown)
    ns.tc("qdisc change dev d0 root handle 1: hpcc stamp ioam,int,ifa,csig")
    expect("all", held(), dict.fromkeys(MODULES.values(), 1))


@each(*MODULES)
def missing(name):
    """Without its module tc says so, and the old configuration stays in force."""
    ns, module = fresh(), MODULES[name]
    other = "sch_hpcc_ioam" if name != "ioam" else "sch_hpcc_csig"
    insert(ns, other)
    keeps = "tcp," + ("ioam" if name != "ioam" else "csig_push")
    ns.tc(f"qdisc add dev d0 root handle 1: hpcc stamp {keeps}")
    modprobe("exit 1")
    shown = ns.run("tc", "qdisc", "show")
    for verb, dev, stamp in ("change", "d0", name), ("change", "d0", f"{keeps},{name}"), ("add", "d1", name), \
                            ("add", "d1", f"{keeps},{name}"):
        output = ns.run("tc", "qdisc", verb, "dev", dev, "root", "handle", "1:", "hpcc", "stamp", stamp, check=False)
        expect("message", output.strip(), f"Error: stamp {name}: carrier not loaded.")
        expect("users", held(), {other: 1})
        expect("ports", ns.run("tc", "qdisc", "show"), shown)


@each(*CARRIERS)
def under_traffic(name):
    """Packets with the carrier wait in a port that stops stamping it. Then its module is unloaded, and loaded again.
    All data arrive.
    """
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

    for i in range(3):
        steps, turns = [stop, start], 0

        def step(steps=steps):
            nonlocal turns
            turns += 1
            if steps and turns % 10 == 0:
                steps.pop(0)()

        transfer((*path.connect(5000 + i), pattern(3000000, i)), each=step)
        expect("steps left", len(steps), 0)
    # INT and IFA travel in probes, of which none need wait.
    if name in ("ioam", "csig"):
        expect_in("left without a record", path.port(1)["hpcc"]["unstamped"]["off"], 1, 1 << 30)
    expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])


def test_containers():
    """Root of a container loads no module, because the host's RTNL is held meanwhile, but uses one that is loaded."""
    fresh()
    tenant = ["unshare", "-rn", "tc", "qdisc", "add", "dev", "lo", "root", "hpcc", "stamp", "ioam"]
    ran = subprocess.run(tenant, capture_output=True, text=True, check=False)
    expect("message", ran.stderr.strip(), "Error: stamp ioam: carrier not loaded.")
    expect("loaded", held(), {})
    with Netns() as ns:
        insert(ns, "sch_hpcc_ioam")
    subprocess.run(tenant, check=True)


def test_beside_namespaces():
    """tc holds RTNL while modprobe runs for 50 ms, and namespaces are created and deleted meanwhile: the module is
    loaded.
    """
    ns = fresh()
    for name, module in MODULES.items():
        expect("unload", users(module) is None or unload(ns, name=module), True)
        modprobe("sleep 0.05", insmod(module))
        spaces = subprocess.Popen(["sh", "-c", "while :; do unshare -n true || exit; done"])
        with ns:
            change = subprocess.Popen(["tc", "qdisc", "replace", "dev", "d0", "root", "handle", "1:", "hpcc", "stamp", name])
        deadline = time.monotonic() + 30
        while change.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        for process in change, spaces:
            process.kill()
        spaces.wait()
        expect(f"status of tc, stamp {name}", change.wait(), 0)
        expect("users", users(module), 1)
        ns.tc("qdisc del dev d0 root")


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc"], commands=["unshare"])
