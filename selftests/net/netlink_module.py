#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The module hpcc_netlink, kmod/hpcc/observe/netlink.c: what loads it, what holds it, and what works without it."""

import errno
import subprocess
import threading
import time

from lib.genl import Family, Refused, as_nobody
from lib.kernel import need, unload, users
from lib.ktap import defer, expect, expect_in, main
from lib.modprobe import modprobe
from lib.net import Netns
from lib.path import get_links, set_links
from lib.peer import Flow, Link

NAME = "hpcc_netlink"
NOT_LOADED = "the module hpcc_netlink is not loaded"
# More links than one message of an answer holds.
LINKS = [(node, 1, 10**9) for node in range(1, 3001)]


def fresh():
    """Return a namespace; the module is not loaded."""
    ns = Netns()
    if users(NAME) is not None:
        expect("unload", unload(ns, 60, NAME), True)
    return ns


def no_modprobe(ns):
    """Let the kernel load no module until the test ends."""
    # After a failure the next attempt may begin only a second later.
    defer(time.sleep, 1)
    defer(ns.sysctl, "kernel.modprobe", ns.sysctl("kernel.modprobe"))
    ns.sysctl("kernel.modprobe", "/bin/false")


def error(call, *args, **values):
    """Return the error and the message of a request that has to fail."""
    try:
        call(*args, **values)
    except Refused as found:
        return found.number, found.message
    return None


# Each kind of request, and its error in a namespace without flows.
REQUESTS = {
    "a flow": (lambda family: error(family.get, "flow-get", cookie=1),
               (errno.ENOENT, "no connection with these ends runs hpcc in this namespace")),
    "flows": (lambda family: error(family.dump, "flow-get"), None),
    "counters": (lambda family: error(family.dump, "counters-get"), None),
    "links": (lambda family: error(family.dump, "link-get"), None),
    "routes": (lambda family: error(family.dump, "route-get"), None),
    "set": (lambda family: error(family.set, "link-set", replace=True), None),
    "delete": (lambda family: error(family.set, "route-del"), None),
}


def test_loaded_by_requests():
    """Each kind of request loads the module, in a namespace without other requests, and holds it only until it ends."""
    for what, (call, want) in REQUESTS.items():
        ns = fresh()
        family = Family(ns, "hpcc")
        expect(f"{what}: loaded by the look-up of the family", users(NAME), None)
        expect(f"{what}: error", call(family), want)
        expect(f"{what}: users", users(NAME), 0)
        expect(f"{what}: unload", unload(ns, name=NAME), True)
        expect(f"{what}: error without the module before", call(family), want)


def test_ordinary_user():
    """A request of an ordinary user loads the module."""
    family = Family(fresh(), "hpcc")
    expect("counters", len(as_nobody(lambda: family.dump("counters-get"))) > 40, True)
    expect("users", users(NAME), 0)


def test_not_installed():
    """If modprobe fails, requests fail with a message that names the module, and hold nothing."""
    ns = fresh()
    no_modprobe(ns)
    family = Family(ns, "hpcc")
    for what, (call, _) in REQUESTS.items():
        expect(what, call(family), (errno.ENOENT, NOT_LOADED))
    need(NAME)
    for what, (call, want) in REQUESTS.items():
        expect(f"{what}, loaded", call(family), want)
    expect("users", users(NAME), 0)


def test_dump_holds():
    """A dump holds the module until its last part was read, or its socket is closed."""
    ns = fresh()
    set_links(ns, *LINKS)
    family = Family(ns, "hpcc")
    parts = family.dump_in_parts("link-get")
    found = next(parts)
    expect("during the dump: users, unload", (users(NAME), unload(ns, name=NAME)), (1, False))
    found += sum(parts, [])
    expect("links", sum(len(part["link"]) for part in found), len(LINKS))
    expect("after the dump: users, unload", (users(NAME), unload(ns, name=NAME)), (0, True))
    next(family.dump_in_parts("link-get"))
    expect("during the second dump", users(NAME), 1)
    family.sock.close()
    expect("its socket is closed: users, unload", (users(NAME), unload(ns, 60, NAME)), (0, True))
    expect("links stay", len(get_links(ns)), len(LINKS))


def test_events_without_it():
    """A listener that has sent no request gets events without the module."""
    flow = Flow()
    expect("unload", users(NAME) is None or unload(flow.ns, 60, NAME), True)
    no_modprobe(flow.ns)
    family = Family(flow.ns, "hpcc")
    family.listen("events")
    for tag in 1, 2:
        flow.run()
        flow.echo(Link(tag=tag).step(9000, 0.8))
    flow.run()
    expect("events", [(name, got["event"], got["mode"]) for name, got in family.received()],
           [("flow-ntf", "path", "telemetry")])
    expect("loaded", users(NAME), None)


def test_unload_waits_for_messages():
    """genetlink reads an error message, which is part of the module, after the request: rmmod waits for genetlink."""
    ns = fresh()
    ns.ip("link add d0 type dummy")
    expect("loaded", (need("sch_hpcc"), need(NAME), users("sch_hpcc_respond")), (True, True, None))
    modprobe("sleep 3", "exit 1")
    with ns:
        # The kernel holds RTNL while modprobe runs, and a request of ethtool waits for RTNL within genetlink.
        holds = subprocess.Popen("tc qdisc add dev d0 root hpcc respond 1kb".split(), stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        waits = subprocess.Popen("ethtool d0".split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
    start = time.monotonic()
    expect("unload", unload(ns, name=NAME), True)
    expect_in("rmmod took, s", time.monotonic() - start, 1, 60)
    expect("tc", (holds.wait() != 0, waits.wait() in range(256)), (True, True))


def test_unload_while_requested():
    """Requests and dumps succeed while the module is unloaded again and again."""
    ns = fresh()
    set_links(ns, *LINKS)
    family, unloaded, end = Family(ns, "hpcc"), [], threading.Event()

    def unloads():
        while not end.is_set():
            if users(NAME) is not None:
                unloaded.append(unload(ns, name=NAME))
            time.sleep(0.001)

    thread = threading.Thread(target=unloads)
    thread.start()
    try:
        for _ in range(30):
            expect("links", sum(len(part["link"]) for part in family.dump("link-get")), len(LINKS))
            for call, want in REQUESTS["a flow"], REQUESTS["counters"]:
                expect("error", call(family), want)
            time.sleep(0.01)
    finally:
        end.set()
        thread.join()
    print(f"# unloaded {sum(unloaded)} times, refused {len(unloaded) - sum(unloaded)} times")
    expect("unloaded", any(unloaded), True)


main()
