#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/ack.c, kmod/ldcp/cc.c: who may choose hpcc and ldcp; who may write tables."""

import ctypes
import errno
import os
import socket
import struct
import sys
from pathlib import Path

sys.path[0] += "/.."
from lib.genl import Family, Refused
from lib.kernel import allow, allowed, insert, unload
from lib.ktap import defer, expect, main, need_virtual_time
from lib.net import Netns
from lib.tcp import set_cc

NAMES = ("hpcc", "ldcp")


def as_other(function, uid=1000):
    """Call a function in a process of another user. Return its result, a str."""
    ends = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            said = function()
        except BaseException as error:      # nothing of the parent's may run here
            said = repr(error)
        os.write(ends[1], said.encode())
        os._exit(0)
    os.close(ends[1])
    os.waitpid(pid, 0)
    with open(ends[0], encoding="ascii") as file:
        return file.read()


def chosen(name):
    """setsockopt() by whoever runs this. Return the error, or nothing."""
    with socket.socket() as sock:
        try:
            set_cc(sock, name)
        except OSError as error:
            return errno.errorcode[error.errno]
    return ""


def default_of_a_container(name):
    """The default congestion control of a new user and network namespace, set by its
    root. Return the error, or nothing.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(0x50000000):  # CLONE_NEWUSER, CLONE_NEWNET
        return f"unshare: {errno.errorcode[ctypes.get_errno()]}"
    fd = os.open("/proc/sys/net/ipv4/tcp_congestion_control", os.O_WRONLY)
    try:
        os.write(fd, name.encode())
    except OSError as error:
        return errno.errorcode[error.errno]
    return ""


TABLES = (("link", {"link": [{"node": 1, "port": 2, "rate": 10**9}]}),
          ("route", {"route": [{"prefix": bytes(4), "len": 0, "where": 1}]}))


class Here:
    """The network namespace that whoever runs this is in, for Family."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def entries(name):
    """How many entries a table has here."""
    return sum(len(part[name]) for part in Family(Here(), "hpcc").dump(f"{name}-get"))


def changed():
    """Change both tables, and empty them. Return what each request says, or nothing."""
    said = []
    for name, values in TABLES:
        for what, how in ((f"{name}-set", values), (f"{name}-set", {"replace": True}), (f"{name}-del", {})):
            try:
                Family(Here(), "hpcc").set(what, **how)
                said.append(str(entries(name)))
            except Refused as error:
                said.append(errno.errorcode[error.number])
    return " ".join(said)


def without_cap_net_admin():
    """Drop this capability, as a container has root without it."""
    head, sets = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    libc = ctypes.CDLL(None)
    expect("capget", libc.capget(head, sets), 0)
    words = list(struct.unpack("=6I", sets.raw))
    words[:3] = [word & ~(1 << 12) for word in words[:3]]
    expect("capset", libc.capset(head, struct.pack("=6I", *words)), 0)


def weak_root():
    """changed() by uid 0 without CAP_NET_ADMIN."""
    without_cap_net_admin()
    return changed()


def changed_by_a_container(flags):
    """The same by root of a new user namespace, and maybe a new network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(4, 1, 0, 0, 0)               # PR_SET_DUMPABLE: /proc/self is ours
    if libc.unshare(0x10000000):            # CLONE_NEWUSER
        return f"unshare: {errno.errorcode[ctypes.get_errno()]}"
    Path("/proc/self/uid_map").write_text("0 1000 1", encoding="ascii")
    if flags and libc.unshare(flags):
        return f"unshare: {errno.errorcode[ctypes.get_errno()]}"
    return changed()


def test_when_loaded():
    """Nobody was asked yet."""
    ns = Netns()
    for name in NAMES:
        module = "tcp_" + name
        expect(f"unload {name}", unload(ns, 60, module), True)
        insert(ns, module)
        defer(allow, f"{allowed()} {name}")
        expect(f"{name}: allowed", name in allowed().split(), False)
        expect(f"{name}: an ordinary user", as_other(lambda: chosen(name)), "EPERM")


def test_users():
    """Flows that start at line rate are for those whom the administrator lets have them."""
    defer(allow, allowed())
    allow("reno cubic")
    for name in NAMES:
        expect(f"{name}: an ordinary user", as_other(lambda: chosen(name)), "EPERM")
        expect(f"{name}: root", chosen(name), "")
    allow("reno cubic hpcc ldcp")
    for name in NAMES:
        expect(f"{name}, allowed: an ordinary user", as_other(lambda: chosen(name)), "")


def test_containers():
    """Their root cannot make it the default. (By setsockopt() he can choose it, as the kernel
    asks for CAP_NET_ADMIN in the namespace that the socket is in.)
    """
    # 6.1 and later forget to let go of the module where they refuse
    need_virtual_time()
    defer(allow, allowed())
    allow("reno cubic")
    for name in NAMES:
        expect(f"{name}: default", as_other(lambda: default_of_a_container(name)), "EPERM")
    allow("reno cubic hpcc ldcp")
    for name in NAMES:
        expect(f"{name}, allowed: default", as_other(lambda: default_of_a_container(name)), "")


def test_tables():
    """Tables are changed by CAP_NET_ADMIN in their own namespace: not by uid 0 without it, not by users, and
    not by a container that shares the namespace. A container with a namespace of its own changes that one.
    Everybody may read.
    """
    no, yes = " ".join(["EPERM"] * 6), "1 0 0 1 0 0"
    expect("a container", as_other(lambda: changed_by_a_container(0x40000000)), yes)    # CLONE_NEWNET
    expect("here", (entries("link"), entries("route")), (0, 0))
    expect("root", as_other(changed, 0), yes)
    for name, values in TABLES:
        Family(Here(), "hpcc").set(f"{name}-set", **values)
        defer(lambda name=name: Family(Here(), "hpcc").set(f"{name}-set", replace=True))
    expect("uid 0 without CAP_NET_ADMIN", as_other(weak_root, 0), no)
    expect("an ordinary user", as_other(changed), no)
    expect("a container in this namespace", as_other(lambda: changed_by_a_container(0)), no)
    expect("here", (entries("link"), entries("route")), (1, 1))
    expect("a reader", as_other(lambda: f"{entries('link')} {entries('route')}"), "1 1")
    for name in "links", "routes":
        expect(f"/proc/net/hpcc_{name}", os.path.exists(f"/proc/net/hpcc_{name}"), False)


def test_default_of_the_first_namespace():
    """Who makes it the machine's default allows it to all."""
    before = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="ascii")
    defer(allow, allowed())
    allow("reno cubic")
    for name in before.strip(), *NAMES, before.strip():
        Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text(name, encoding="ascii")
    expect("allowed", [name for name in NAMES if name in allowed().split()], list(NAMES))


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["tcp_ldcp"])
