#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/ack.c, kmod/ldcp/cc.c: which users may select hpcc and ldcp; which may change the tables."""

import contextlib
import ctypes
import errno
import os
import socket
import struct
from pathlib import Path

from lib.genl import Family, Refused
from lib.kernel import allow, allowed, insert, need, unload
from lib.ktap import defer, expect, main, need_virtual_time
from lib.net import Netns
from lib.tcp import set_cc

NAMES = ("hpcc", "ldcp")
DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def as_other(function, uid=1000):
    """Call a function in a process of another user. Return its result, a str."""
    ends = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            result = function()
        except BaseException as error:      # the child must not run the parent's code
            result = repr(error)
        os.write(ends[1], result.encode())
        os._exit(0)
    os.close(ends[1])
    os.waitpid(pid, 0)
    with open(ends[0], encoding="ascii") as file:
        return file.read()


def chosen(name):
    """Select a congestion control as the current user. Return the error or ""."""
    with socket.socket() as sock:
        try:
            set_cc(sock, name)
        except OSError as error:
            return errno.errorcode[error.errno]
    return ""


def default_of_a_container(name):
    """As root of new user and network namespaces, set the default congestion control. Return the error or ""."""
    if ctypes.CDLL(None, use_errno=True).unshare(0x50000000):  # CLONE_NEWUSER, CLONE_NEWNET
        return f"unshare: {errno.errorcode[ctypes.get_errno()]}"
    fd = os.open(DEFAULT, os.O_WRONLY)
    try:
        os.write(fd, name.encode())
    except OSError as error:
        return errno.errorcode[error.errno]
    return ""


TABLES = (("link", {"link": [{"node": 1, "port": 2, "rate": 10**9}]}),
          ("route", {"route": [{"prefix": bytes(4), "len": 0, "where": 1}]}))


def family():
    """Return a socket of the netlink family in the namespace of the process."""
    return Family(contextlib.nullcontext(), "hpcc")


def entries(name):
    return sum(len(part[name]) for part in family().dump(f"{name}-get"))


def changed():
    """Change and empty both tables. Return the number of entries, or the error, after each request."""
    result = []
    for name, values in TABLES:
        for what, how in ((f"{name}-set", values), (f"{name}-set", {"replace": True}), (f"{name}-del", {})):
            try:
                family().set(what, **how)
                result.append(str(entries(name)))
            except Refused as error:
                result.append(errno.errorcode[error.number])
    return " ".join(result)


def changed_without_cap_net_admin():
    head, sets = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    libc = ctypes.CDLL(None)
    expect("capget", libc.capget(head, sets), 0)
    words = list(struct.unpack("=6I", sets.raw))
    words[:3] = [word & ~(1 << 12) for word in words[:3]]
    expect("capset", libc.capset(head, struct.pack("=6I", *words)), 0)
    return changed()


def changed_by_a_container(flags):
    """Call changed() as root of a new user namespace, and of a new network namespace if flags is CLONE_NEWNET."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(4, 1, 0, 0, 0)               # PR_SET_DUMPABLE: makes this user the owner of /proc/self
    if libc.unshare(0x10000000):            # CLONE_NEWUSER
        return f"unshare: {errno.errorcode[ctypes.get_errno()]}"
    Path("/proc/self/uid_map").write_text("0 1000 1", encoding="ascii")
    if flags and libc.unshare(flags):
        return f"unshare: {errno.errorcode[ctypes.get_errno()]}"
    return changed()


def test_when_loaded():
    """When the modules are loaded, ordinary users may not select hpcc or ldcp."""
    ns = Netns()
    for name in NAMES:
        module = "tcp_" + name
        expect(f"unload {name}", unload(ns, 60, module), True)
        insert(ns, module)
        defer(allow, f"{allowed()} {name}")
        expect(f"{name}: allowed", name in allowed().split(), False)
        expect(f"{name}: an ordinary user", as_other(lambda: chosen(name)), "EPERM")


def test_users():
    """Ordinary users may select hpcc and ldcp, whose flows start at line rate, only if the administrator allows it."""
    defer(allow, allowed())
    allow("reno cubic")
    for name in NAMES:
        expect(f"{name}: an ordinary user", as_other(lambda: chosen(name)), "EPERM")
        expect(f"{name}: root", chosen(name), "")
    allow("reno cubic hpcc ldcp")
    for name in NAMES:
        expect(f"{name}, allowed: an ordinary user", as_other(lambda: chosen(name)), "")


def test_containers():
    """Root of a container cannot make hpcc or ldcp its default unless allowed, but can select them by setsockopt()."""
    # Linux 6.1 and later leak a reference to the module when they refuse.
    need_virtual_time()
    defer(allow, allowed())
    allow("reno cubic")
    for name in NAMES:
        expect(f"{name}: default", as_other(lambda: default_of_a_container(name)), "EPERM")
    allow("reno cubic hpcc ldcp")
    for name in NAMES:
        expect(f"{name}, allowed: default", as_other(lambda: default_of_a_container(name)), "")


def test_tables():
    """Only a process with CAP_NET_ADMIN in the tables' namespace can change them; all users can read them. A container
    can change the tables of its own namespace, but cannot load the modules of carriers or of receiver mode.
    """
    no, yes = " ".join(["EPERM"] * 6), "1 0 0 1 0 0"
    expect("a container before the modules", as_other(lambda: changed_by_a_container(0x40000000)), yes.replace("1", "ENOENT"))
    need("hpcc_ioam")
    need("hpcc_receiver")
    expect("a container", as_other(lambda: changed_by_a_container(0x40000000)), yes)    # CLONE_NEWNET
    expect("entries in this namespace", (entries("link"), entries("route")), (0, 0))
    expect("root", as_other(changed, 0), yes)
    for name, values in TABLES:
        family().set(f"{name}-set", **values)
        defer(lambda name=name: family().set(f"{name}-set", replace=True))
    expect("uid 0 without CAP_NET_ADMIN", as_other(changed_without_cap_net_admin, 0), no)
    expect("an ordinary user", as_other(changed), no)
    expect("a container in this namespace", as_other(lambda: changed_by_a_container(0)), no)
    expect("entries in this namespace", (entries("link"), entries("route")), (1, 1))
    expect("a reader", as_other(lambda: f"{entries('link')} {entries('route')}"), "1 1")
    for name in "links", "routes":
        expect(f"/proc/net/hpcc_{name}", os.path.exists(f"/proc/net/hpcc_{name}"), False)


def test_default_of_the_first_namespace():
    before = DEFAULT.read_text(encoding="ascii").strip()
    defer(allow, allowed())
    allow("reno cubic")
    for name in before, *NAMES, before:
        DEFAULT.write_text(name, encoding="ascii")
    expect("allowed", [name for name in NAMES if name in allowed().split()], list(NAMES))


main(modules=["tcp_ldcp"])
