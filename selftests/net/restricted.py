#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/cc.c, kmod/ldcp/cc.c: who may choose hpcc and ldcp; who may write tables."""

import ctypes
import errno
import os
import socket
import sys
from pathlib import Path

sys.path[0] += "/.."
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


def written(name, line):
    """Write a line of a table, and read it. Return the error, or the table."""
    try:
        with open(f"/proc/net/{name}", "w", encoding="ascii") as file:
            file.write(line)
        return Path(f"/proc/net/{name}").read_text(encoding="ascii")
    except OSError as error:
        return errno.errorcode[error.errno]


def written_by_a_container(name, line):
    """The same by root of a new user and network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(4, 1, 0, 0, 0)               # PR_SET_DUMPABLE: /proc/self is ours
    if libc.unshare(0x10000000):            # CLONE_NEWUSER
        return f"unshare: {errno.errorcode[ctypes.get_errno()]}"
    Path("/proc/self/uid_map").write_text("0 1000 1", encoding="ascii")
    if libc.unshare(0x40000000):            # CLONE_NEWNET
        return f"unshare: {errno.errorcode[ctypes.get_errno()]}"
    return written(name, line)


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
    """A container's root writes the tables of its own namespace, and nobody else's; users read them."""
    for name, line in ("hpcc_routes", "10.0.0.0/8 1 -\n"), ("hpcc_links", "1 2 1000 1\n"):
        path = Path(f"/proc/net/{name}")
        before = path.read_text(encoding="ascii")
        expect(f"{name}: an ordinary user", as_other(lambda: written(name, line)), "EACCES")
        expect(f"{name}: a container", as_other(lambda: written_by_a_container(name, line)), line)
        expect(f"{name}: here", as_other(lambda: path.read_text(encoding="ascii")), before)


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
