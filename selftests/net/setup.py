#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/common/setup.c: loading a module waits for no lock that the loading process may hold."""

import os
import subprocess
import tempfile
import time

from lib.kernel import allow, allowed, insert, load, unload, users
from lib.ktap import defer, expect, main
from lib.modprobe import insmod, modprobe, write
from lib.net import Netns, Pair, loaded_again
from lib.tcp import get_cc, pattern, set_cc, transfer

# Each congestion control, its classic response, and a file of its module in each namespace
MODULES = (("hpcc", "hpcc-classic", "/proc/sys/net/hpcc/eta_permille"),
           ("ldcp", "ldcp-classic", "/proc/sys/net/ldcp/alpha_permille"))


def remove():
    """Unload all modules; load them again when the test ends."""
    for name in "tcp_ldcp", "tcp_hpcc", "hpcc_common":      # in reverse order
        defer(loaded_again, name)
    ns = Netns()
    for name in "tcp_ldcp", "tcp_hpcc", "hpcc_common":
        if users(name) is not None:
            expect(f"unload {name}", unload(ns, wait_s=100, name=name), True)


def wait(what, done, limit_s=30):
    deadline = time.monotonic() + limit_s
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)
    expect(what, bool(done()), True)


def is_asleep(process):
    """Return whether a process waits for a lock, for longer than a moment."""
    for _ in range(5):
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            if file.read().rsplit(")", 1)[1].split()[0] != "D":
                return False
        time.sleep(0.01)
    return True


class Blocked:
    """Until release() a process holds RTNL, and another process waits for RTNL while it holds pernet_ops_rwsem."""

    def __init__(self, ns):
        self.flag = tempfile.mkdtemp() + "/held"
        write(self.flag, "")
        defer(self.release)
        modprobe(f"touch {self.flag}.seen", f"while [ -e {self.flag} ]; do sleep 0.01; done", "exit 1")
        with ns:
            self.route = subprocess.Popen("ip route add 10.8.0.0/16 dev lo congctl nosuch".split(),
                                          stderr=subprocess.DEVNULL)
        wait("RTNL is held", lambda: os.path.exists(self.flag + ".seen"))
        self.space = subprocess.Popen(["unshare", "-n", "true"])
        wait("a namespace waits", lambda: is_asleep(self.space))

    def release(self):
        if os.path.exists(self.flag):
            os.unlink(self.flag)
            self.route.wait()
            expect("namespace", self.space.wait(), 0)


def held_up(ns=None):
    """Unload all modules except the common module. Return a namespace, and a Blocked that delays the next setup."""
    ns = ns or Netns()
    remove()
    insert(ns, "hpcc_common")
    return ns, Blocked(ns)


def test_loaded_by_a_route_beside_namespaces():
    """ip route loads the module while it holds RTNL, and namespaces are created and deleted."""
    for cc, _, path in MODULES:
        ns = Netns()
        remove()
        modprobe("sleep 0.05", insmod("hpcc_common"), insmod("tcp_" + cc))
        spaces = subprocess.Popen(["sh", "-c", "while :; do unshare -n true || exit; done"])
        with ns:
            route = subprocess.Popen(["ip", "route", "add", "10.9.0.0/16", "dev", "lo", "congctl", cc])
        try:
            wait("ip route ends", lambda: route.poll() is not None)
        finally:
            route.kill()
            spaces.kill()
            spaces.wait()
        expect("status of ip route", route.wait(), 0)
        with ns:
            wait("parameters", lambda: os.path.exists(path))
        allow(f"{allowed()} {cc}")
        ns.ip("route del 10.9.0.0/16 dev lo")


def test_before_setup():
    """Connections that begin before a module is set up run classic until they end; later connections do not."""
    for cc, classic, path in MODULES:
        pair = Pair(cc=("reno", "reno"))
        pair.c.sysctl("net.ipv4.tcp_ecn", 1)
        listener = pair.listen()
        _, blocked = held_up(pair.c)
        load(pair.c, "tcp_" + cc)
        with pair.c:
            expect("parameters while it is not set up", os.path.exists(path), False)
        set_cc(listener, cc)
        ends = pair.connect(listener, cc=cc)
        transfer((*ends, pattern(100000)), (*ends[::-1], pattern(50000, 1)))
        expect("before setup", [get_cc(sock) for sock in ends], [classic] * 2)
        expect("ss shows it", classic in pair.c.run("ss", "-tin"), True)
        set_cc(ends[0], "reno")
        set_cc(ends[0], cc)
        expect("selected again", get_cc(ends[0]), classic)
        blocked.release()
        with pair.c:
            wait("parameters", lambda: os.path.exists(path))
        transfer((*ends, pattern(100000)), (*ends[::-1], pattern(50000, 1)))
        expect("after setup", [get_cc(sock) for sock in ends], [classic] * 2)
        later = pair.connect(listener, cc=cc)
        # The names are read before data pass, because the path has no telemetry.
        expect("new connections", [get_cc(sock) for sock in later], [cc] * 2)
        transfer((*later, pattern(100000)), (*later[::-1], pattern(50000, 1)))
        for sock in (*ends, *later, listener):
            set_cc(sock, "reno")


def test_modprobe_waits():
    """When insmod ends the parameters exist, although RTNL was held for a while."""
    for cc, _, path in MODULES:
        _, blocked = held_up()
        loading = subprocess.Popen(f"{insmod('tcp_' + cc)} && cat {path} >/dev/null", shell=True)
        time.sleep(0.5)
        expect("insmod waits", loading.poll(), None)
        blocked.release()
        expect("status", loading.wait(), 0)
        allow(f"{allowed()} {cc}")


def test_unload_before_setup():
    """rmmod waits until setup is over, and then undoes the setup."""
    for cc, _, path in MODULES:
        ns, blocked = held_up()
        insert(ns, "tcp_" + cc)
        removal = subprocess.Popen(["rmmod", "tcp_" + cc])
        time.sleep(0.5)
        blocked.release()
        expect("status of rmmod", removal.wait(), 0)
        expect("module", users("tcp_" + cc), None)
        with ns:
            expect("parameters", os.path.exists(path), False)
        load(ns, "tcp_" + cc)
        with ns:
            expect("parameters again", os.path.exists(path), True)


main(modules=["tcp_ldcp"], commands=["unshare", "ss"])
