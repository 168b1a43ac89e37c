#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Each allocation of our modules fails once. The operation then fails as a whole and
leaves nothing behind, or continues without the memory; connections continue.
kmemleak checks for leaks when the guest ends.

If one system call makes all allocations, /proc/self/fail-nth counts all allocations of
this call. Otherwise failslab searches the call trace for our code, and counts bytes:
the first allocation beyond a number of bytes fails.
"""

import ctypes
import errno
import os
import re
import socket
import struct
import sys
import time

from lib.genl import Refused
from lib.kernel import KernelLog, allow, allowed, module_file, modules, users
from lib.ktap import defer, expect, expect_in, main, skip_all
from lib.net import Netns, Pair
from lib.packet import Sniffer
from lib.path import Path, get_links, get_routes, set_links, set_routes
from lib.qdisc import (NLA_F_NESTED, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST,
                       RTM_NEWQDISC, TCA_KIND, TCA_OPTIONS, TC_H_ROOT, attr)
from lib.tcp import get_cc, pattern, set_cc, transfer

MODULES = modules()      # in the order of loading
DEBUGFS = "/sys/kernel/debug/"
# the files that modules show in a namespace
FILES = {f"tcp_{name}": [f"/proc/net/{name}", f"/proc/sys/net/{name}"] for name in ("hpcc", "ldcp")}
FINIT_MODULE, DELETE_MODULE = 313, 176      # x86-64
# The most allocations that one step may need
STEPS_MAX = 2000
TCA_HPCC_LIMIT, TCA_HPCC_RESPOND = 3, 20

_libc = ctypes.CDLL(None, use_errno=True)

# The kernel prints this with a stack when it cannot create a slab.
KernelLog.EXPLAINED = re.compile(r"kmem_cache_create\w*\(hpcc_flow\) failed with error -\d+")


def write(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


# ---- Faults ------------------------------------------------------------------------

class Faults:
    """Make allocations with a module's code in their call stack fail, beyond a number of bytes, or each interval-th."""

    DEFAULT = {"interval": 1, "times": -1, "space": 0, "verbose": 0, "task-filter": "N", "stacktrace-depth": 32,
               "require-start": 0, "require-end": (1 << 64) - 1, "ignore-gfp-wait": "N"}

    def __init__(self, module=None, kind="failslab", probability=100, **how):
        self.dir = DEBUGFS + kind + "/"
        where = dict(zip(("require-start", "require-end"), text_of(module))) if module else {}
        self.stop()
        defer(self.stop)
        for name, value in (self.DEFAULT | where | how).items():
            if os.path.exists(self.dir + name):
                write(self.dir + name, value)
        write(self.dir + "probability", probability)

    def left(self):
        """Return the number of allocations that may still fail."""
        return int(read(self.dir + "times"))

    def stop(self):
        """Turn fault injection off. For fail-nth only the address range is checked; it needs no other setting."""
        write(self.dir + "probability", 0)
        for name in "require-start", "require-end":
            write(self.dir + name, self.DEFAULT[name])


def text_of(module):
    """Return the address range of a module's code."""
    start = int(read(f"/sys/module/{module}/sections/.text"), 16)
    ours = [int(line.split()[0], 16) for line in read("/proc/kallsyms").splitlines()
            if line.endswith(f"[{module}]") and line.split()[1] in "tT"]
    return start, max(ours) + 4096


def range_of(symbol):
    """Return the address range of a kernel function."""
    symbols = sorted((int(line.split()[0], 16), line.split()[2])
                     for line in read("/proc/kallsyms").splitlines() if line.split()[1] in "tT")
    at = [name for _, name in symbols].index(symbol)
    return symbols[at][0], next(addr for addr, _ in symbols[at:] if addr > symbols[at][0])


class Nth:
    """Let one allocation of this process fail, in calls that have a range of code in their stack."""

    def __init__(self, where):
        for kind in "failslab", "fail_page_alloc":
            Faults(kind=kind, probability=0, **{"min-order": 0, "ignore-gfp-highmem": "N", "require-start": where[0],
                                                "require-end": where[1]})
        # allocations for moving packets are no failures, and are not counted
        Faults(kind="fail_skb_realloc", probability=0, **{"require-start": 1, "require-end": 1})
        self.fd = os.open("/proc/self/fail-nth", os.O_RDWR)
        defer(os.close, self.fd)

    def each(self, what, call, undo):
        """Repeat the call, each time with another failing allocation, then call undo(error). Print the numbers."""
        errors = 0
        for number in range(1, STEPS_MAX):
            os.pwrite(self.fd, b"%d" % number, 0)
            error = call()
            reached = os.pread(self.fd, 20, 0).strip() == b"0"
            os.pwrite(self.fd, b"0", 0)
            undo(error)
            if not reached:
                expect("error without a fault", error, 0)
                print(f"# {what}: failed with {errors} faults, succeeded with {number - 1 - errors}")
                return
            errors += error != 0
        raise AssertionError(f"more than {STEPS_MAX} allocations")


def syscall(*args):
    """Make a system call. Return 0 or the error."""
    return ctypes.get_errno() if _libc.syscall(*args) < 0 else 0


# ---- Modules and namespaces ------------------------------------------------------------

def insert(module):
    """Load a module. Return 0 or the error."""
    with open(module_file(module), "rb") as file:
        error = syscall(FINIT_MODULE, file.fileno(), b"", 0)
    if not error and module.startswith("tcp_"):
        allow(f"{allowed()} {module.removeprefix('tcp_')}")
    return error


def remove(module):
    return syscall(DELETE_MODULE, module.encode(), os.O_NONBLOCK)


def files(ns, module):
    """Return the files that a module shows in a namespace."""
    with ns:
        return [path for path in FILES.get(module, []) if os.path.exists(path)]


def loaded_again():
    """Load all modules again for the next test."""
    for module in MODULES:
        if users(module) is None:
            expect(f"insmod {module}", insert(module), 0)


def test_modules():
    """Each of our allocations in insmod fails once, in each of three namespaces."""
    defer(loaded_again)
    spaces = [Netns() for _ in range(3)]
    for ns in spaces:
        ns.ip("link add d0 type dummy", "link add v0 type veth peer name v1")
    for module in reversed(MODULES):
        expect(f"rmmod {module}", remove(module), 0)
    nth = Nth(range_of("do_one_initcall"))
    for module in MODULES:
        def check(error, module=module):
            if error:
                expect(f"insmod {module}", error, errno.ENOMEM)
                expect(f"{module} is there", users(module), None)
            else:
                expect("files", [files(ns, module) for ns in spaces], [FILES.get(module, [])] * 3)
                expect(f"rmmod {module}", remove(module), 0)
            expect("left", [files(ns, module) for ns in spaces], [[]] * 3)

        nth.each(module, lambda: insert(module), check)
        expect(f"insmod {module}", insert(module), 0)


def test_work_item():
    """The work item that registers a module's parts undoes its steps and tries again if any allocation fails."""
    defer(loaded_again)
    spaces = [Netns() for _ in range(3)]
    for module in "tcp_hpcc", "tcp_ldcp":
        space, reached = 0, True
        while reached:
            if users(module) is not None:
                expect(f"rmmod {module}", remove(module), 0)
            faults = Faults("hpcc_common", times=1, space=space)
            expect(f"insmod {module}", insert(module), 0)
            reached = not faults.left()
            faults.stop()
            deadline = time.monotonic() + 10
            while files(spaces[-1], module) != FILES[module] and time.monotonic() < deadline:
                time.sleep(0.1)
            expect("files", [files(ns, module) for ns in spaces], [FILES[module]] * 3)
            space += 256
        print(f"# {module}: {space} bytes")


def test_unload():
    """rmmod needs no memory."""
    defer(loaded_again)
    Netns()
    for module in reversed(MODULES):
        def check(error, module=module):
            expect(f"rmmod {module}", (error, users(module)), (0, None))
            expect(f"insmod {module}", insert(module), 0)

        Nth(text_of(module)).each(module, lambda: remove(module), check)
        expect(f"rmmod {module}", remove(module), 0)


def test_namespaces():
    """When a namespace is created it has all of our parts, or the creation fails."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    defer(os.close, home)
    inode = os.stat("/proc/self/ns/net").st_ino

    def check(error):
        if error:
            expect("unshare", error, errno.ENOMEM)
            expect("still here", os.stat("/proc/self/ns/net").st_ino, inode)
            return
        expect("parameters", os.path.exists("/proc/sys/net/hpcc") and os.path.exists("/proc/sys/net/ldcp"), True)
        _libc.setns(home, 0)

    for module in "hpcc_common", "tcp_hpcc", "tcp_ldcp":
        Nth(text_of(module)).each(module, lambda: ctypes.get_errno() if _libc.unshare(0x40000000) else 0, check)


def test_tables():
    """A request sets all entries of a table or none. DEBUG_ATOMIC_SLEEP checks that its allocation may sleep."""
    ns = Netns()
    for name, set_some, get in (
            ("links", lambda i: set_links(ns, *[(1 << i % 24, n, 10**9) for n in range(3 * i, 3 * i + 3)]), get_links),
            ("routes", lambda i: set_routes(ns, f"10.{i}.0.0/16 1 0", f"11.{i}.0.0/16 - 1"), get_routes)):
        turn, before = 0, get(ns)

        def store():
            try:
                set_some(turn)
            except (OSError, Refused) as error:
                return error.errno if isinstance(error, OSError) else error.number
            return 0

        def check(error):
            nonlocal turn, before
            expect(f"request for {name}", error, errno.ENOMEM if error else 0)
            now = get(ns)
            expect(f"{name} more", len(now) - len(before), 0 if error else 2 + (name == "links"))
            if not error:
                turn, before = turn + 1, now

        nth = Nth(text_of("tcp_hpcc"))
        for _ in range(4):
            nth.each(name, store, check)


# ---- Connections -------------------------------------------------------------------------------

def both_ways(client, server, there, back):
    """Send bytes to the server, and bytes back."""
    transfer((client, server, pattern(there)), (server, client, pattern(back, 1)))


def no_memory(*spaces):
    """Return how often an allocation failed."""
    return sum(ns.counters()["no_memory"] for ns in spaces)


def test_return_to_hpcc():
    """A connection that agreed returns to hpcc without memory, runs classic, and gets the memory later."""
    path = Path(switches=1)
    client, server = path.connect()
    set_cc(client, "cubic")
    faults = Faults("tcp_hpcc", times=1)
    set_cc(client, "hpcc")
    expect("faults left", faults.left(), 0)
    expect("runs", (get_cc(client), no_memory(path.a)), ("hpcc-classic", 1))
    both_ways(client, server, 100000, 100000)
    faults.stop()
    set_cc(client, "cubic")
    set_cc(client, "hpcc")
    both_ways(client, server, 100000, 100000)
    expect("runs", (get_cc(client), path.a.flow(client)["hops"]), ("hpcc", 1))


def test_handshake():
    """Each allocation between the SYN and the first data fails once, selected by its bytes."""
    for version in 4, 6:
        path = Path(version, switches=1)
        seen, space = set(), 0
        while True:
            faults = Faults("tcp_hpcc", times=1, space=space)
            client, server = path.connect(5000 + space // 256)
            reached = not faults.left()
            faults.stop()
            seen.add((get_cc(client), get_cc(server)))
            both_ways(client, server, 50000, 50000)
            client.close()
            server.close()
            if not reached:
                break
            space += 256
        print(f"# IPv{version}: {no_memory(path.a, path.b)} faults, {space} bytes")
        expect("congestion controls of both ends", seen, {("hpcc", "hpcc"), ("hpcc-classic", "hpcc"), ("hpcc", "hpcc-classic")})


def test_ldcp_needs_nothing():
    """ldcp allocates no memory for a connection or a packet."""
    path = Path(switches=1, cc=("ldcp", "ldcp"))
    for module in "tcp_ldcp", "hpcc_common":
        faults = Faults(module, times=1000)
        client, server = path.connect(5000 + len(module))
        both_ways(client, server, 300000, 100000)
        expect(f"allocations of {module}", faults.left(), 1000)
        faults.stop()


def test_no_headroom():
    """After IPv6 extension headers our option needs an allocation; if it fails the segment has no option."""
    pair = Pair(6)
    listener = pair.listen()
    missed = 0
    for length in range(8, 256, 8):
        client, server = pair.connect(listener)
        header = bytes([0, length // 8 - 1, 0x1e, length - 4]) + bytes(length - 4)
        client.setsockopt(41, 54, header)           # IPPROTO_IPV6, IPV6_HOPOPTS
        before = no_memory(pair.c)
        faults = Faults("tcp_hpcc")
        both_ways(client, server, 30000, 10000)
        faults.stop()
        missed += no_memory(pair.c) - before
        client.close()
        server.close()
    print(f"# {missed} segments without the option")
    expect_in("segments without", missed, 1, 100000)


# ---- Ports ---------------------------------------------------------------------------------------

def watched(*args, **how):
    """Return a path with sniffers at its first switch: packets that are cloned for them must not be changed."""
    path = Path(*args, **how)
    path.change(1, "hpcc rate 500mbit marking ldcp knonect 1mb")
    for dev in "left", "right":
        Sniffer(path.switches[0], dev)
    return path


def test_port():
    """One in several allocations of a port fails, for segmentation, stamping and marking."""
    for cc in "hpcc", "ldcp":
        total = 0
        for interval in 1, 2, 3, 5, 7, 11:
            path = watched(switches=1, cc=(cc, cc))
            client, server = path.connect()
            before = path.port(1)["hpcc"]["stamped"]
            faults = Faults("sch_hpcc", interval=interval)
            both_ways(client, server, 200000, 50000)
            faults.stop()
            stats = path.port(1)["hpcc"]
            failed = stats["unstamped"]["no_memory"] if cc == "hpcc" else stats["mark_failed"]
            done = stats["stamped"] - before if cc == "hpcc" else stats["marked"]
            cut = path.a.port("right")["hpcc"]["drop_gso"]
            print(f"# {cc}, each {interval}.: {failed} packets not changed, {done} changed, {cut} not segmented")
            expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])
            total += failed
            if interval == 1:
                expect("changed packets", done, 0)
                expect("not segmented", cut > 0, cc == "hpcc")    # segments of ldcp's first round trip are not GSO packets
        expect_in(f"faults with {cc}", total, 100, 10000)


def request(sock, index, kind, options=b""):
    """Request a qdisc, or a change of it. Return 0 or the error; None if there was no memory for the answer."""
    body = struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, 0x10000, TC_H_ROOT, 0) + \
        attr(TCA_KIND, kind + b"\0") + (attr(TCA_OPTIONS | NLA_F_NESTED, options) if options else b"")
    try:
        sock.send(struct.pack("=IHHII", 16 + len(body), RTM_NEWQDISC, NLM_F_REQUEST | NLM_F_ACK |
                              NLM_F_CREATE | NLM_F_REPLACE, 1, 0) + body)
    except OSError as error:
        return error.errno
    try:
        return -struct.unpack_from("=i", sock.recv(8192), 16)[0]
    except OSError:     # ENOBUFS, EAGAIN
        return None


def responding():
    """Load the module for responses. Return its name."""
    if users("sch_hpcc_respond") is None:
        expect("insmod", insert("sch_hpcc_respond"), 0)
    return "sch_hpcc_respond"


def test_create_port():
    """Each allocation of a request fails once: the port has its old configuration or the requested one."""
    ns = Netns()
    ns.ip("link add eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up")
    with ns:
        index = socket.if_nametoindex("eth0")
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    defer(sock.close)
    limits = []

    def made(error):
        expect_error(error)
        there = ns.port("eth0") is not None
        if error is not None:
            expect("port", there, not error)
        if there:
            ns.tc("qdisc del dev eth0 root")
        expect("users of sch_hpcc_respond", users("sch_hpcc_respond"), 0)

    def changed(error):
        expect_error(error)
        limit = ns.port("eth0")["options"]["limit"]
        if error is not None:
            expect("limit", limit, limits[-2] if error else limits[-1])
        limits.append(limit)

    def change():
        limits.append(1000000 + len(limits))
        return request(sock, index, b"hpcc", attr(TCA_HPCC_LIMIT, struct.pack("=I", limits[-1])))

    responding()
    for options in b"", attr(TCA_HPCC_RESPOND, struct.pack("=I", 1000)):
        Nth(range_of("__sys_sendto")).each("add", lambda options=options: request(sock, index, b"hpcc", options), made)
    ns.tc("qdisc add dev eth0 root hpcc limit 1mb")
    limits.append(ns.port("eth0")["options"]["limit"])
    Nth(range_of("__sys_sendto")).each("change", change, changed)


def test_create_responder():
    """Without memory for its responder a port is not created, or keeps its configuration, and holds no module."""
    ns, module = Netns(), responding()
    ns.ip("link add d0 type dummy", "link add d1 type dummy")
    ns.tc("qdisc add dev d0 root handle 1: hpcc")
    shown = ns.run("tc", "qdisc", "show")
    for kind, how in ("failslab", {}), ("fail_page_alloc", {"min-order": 0, "ignore-gfp-highmem": "N"}):
        Faults(module, kind, **how)
    for how in "change dev d0", "add dev d1":
        output = ns.run("tc", "qdisc", *f"{how} root handle 1: hpcc respond 1kb".split(), check=False)
        expect(how, ("Cannot allocate memory" in output, users(module), ns.run("tc", "qdisc", "show")), (True, 0, shown))
    for kind in "failslab", "fail_page_alloc":
        Faults(kind=kind, probability=0)
    ns.tc("qdisc change dev d0 root handle 1: hpcc respond 1kb")
    expect("users", users(module), 1)


def test_create_class():
    """Without memory a queue does not become a class, keeps its configuration, and holds no module."""
    ns, module = Netns(), "sch_hpcc_class"
    if users(module) is None:
        expect("insmod", insert(module), 0)
    ns.ip("link add d0 type dummy")
    ns.tc("qdisc add dev d0 root handle 1: prio", "qdisc add dev d0 parent 1:1 handle 2: hpcc limit 2mb")
    shown = ns.run("tc", "qdisc", "show", "dev", "d0")
    Faults("sch_hpcc")
    for how in "change parent 1:1 handle 2:", "add parent 1:2 handle 3:":
        verb, where = how.split(" ", 1)
        output = ns.run("tc", *f"qdisc {verb} dev d0 {where} hpcc class 1mbit bandwidth 1gbit limit 3mb".split(),
                        check=False)
        expect(how, ("Cannot allocate memory" in output, users(module), ns.run("tc", "qdisc", "show", "dev", "d0")),
               (True, 0, shown))
    Faults(probability=0)
    ns.tc("qdisc change dev d0 parent 1:1 handle 2: hpcc class 1mbit bandwidth 1gbit")
    expect("users", users(module), 1)


def expect_error(error):
    """Fail unless an error reports a lack of memory."""
    if error not in (None, 0, errno.ENOMEM, errno.ENOBUFS):
        raise AssertionError(f"error {errno.errorcode[error]}")


def test_devices():
    """A device whose speed could not be stored counts as a device without a speed."""
    pair = Pair()
    faults = Faults("hpcc_common", times=2)
    pair.c.ip(f"link add far index 5000 type veth peer name far index 5000 netns {pair.s.path}")
    expect("faults left", faults.left(), 0)
    pair.addr = ("10.1.0.1", "10.1.0.2")
    for ns, addr in zip((pair.c, pair.s), pair.addr):
        ns.ip(f"addr add {addr}/24 dev far", "link set far up")
        ns.tc("qdisc add dev far root hpcc rate 1gbit")
    client, server = pair.connect()
    both_ways(client, server, 100000, 100000)
    expect("runs", (get_cc(client), pair.c.flow(client)["hops"]), ("hpcc", 1))


# ---- All modules -----------------------------------------------------------------------------------

def test_packets_move():
    """Each access to a packet's header may move it: no code keeps an old pointer."""
    Faults(kind="fail_skb_realloc")
    for version in 4, 6:
        for cc in "hpcc", "ldcp":
            path = watched(version, switches=2, cc=(cc, cc))
            client, server = path.connect()
            both_ways(client, server, 200000, 50000)
            expect("runs", get_cc(client), cc)
            if cc == "hpcc":
                expect("hops", path.a.flow(client)["hops"], 2)
            path.no_errors()


def test_short_of_memory():
    """One in fifty allocations that cannot sleep fails, in all kernel code."""
    for cc in "hpcc", "ldcp":
        path = Path(switches=1, cc=(cc, cc))
        ends = [path.connect(5000 + i) for i in range(4)]
        faults = Faults(probability=2, **{"ignore-gfp-wait": "Y"})
        transfer(*[(*both, pattern(200000, i)) for i, both in enumerate(ends)], timeout_s=600)
        faults.stop()
        expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])


if __name__ == "__main__":
    if not os.path.isdir(DEBUGFS + "failslab"):
        skip_all("needs FAILSLAB")
    main(sys.modules[__name__], modules=["sch_hpcc", "tcp_ldcp"])
