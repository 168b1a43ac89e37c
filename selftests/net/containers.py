#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The recipes of Documentation/containers.rst. A container here is a process with new user and network namespaces
(unshare), as those of rootless Docker and Podman, or a new network namespace that root sets up.
selftests/vm/containers/ tests Podman and Docker themselves.
"""

import ctypes
import errno
import os
import socket
import struct
import subprocess
from pathlib import Path

from lib.kernel import allow, allowed, load, unload, users
from lib.ktap import Skip, cases, defer, expect, main, need_virtual_time
from lib.modprobe import insmod, modprobe
from lib.net import Netns, Pair
from lib.plumbing import EXIT, SYS_BPF, call, copy, insn, load_bpf, mov
from lib.tcp import TCP_CONGESTION, get_cc, pattern, transfer

DEFAULT = "net.ipv4.tcp_congestion_control"
SYSTEMD = "/lib/systemd/systemd-sysctl"
HOST = Path("/proc/sys/net/ipv4/tcp_congestion_control")
# BPF: program types, places, the command, the helper, and an operation of sock_ops
SOCK_OPS, SOCK_ADDR, CGROUP_SOCK_OPS, CONNECT4 = 13, 18, 3, 10
BPF_PROG_ATTACH, SETSOCKOPT, TCP_LISTEN_CB = 8, 49, 11


def container(script, ns=None):
    """Run a shell script as root of a new user and network namespace. Return its output."""
    command = ("unshare", "-Urn", "sh", "-c", "ip link set lo up\n" + script)
    if ns:
        return ns.run(*command, check=False)
    return subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def chosen(name):
    """Return a command that selects a congestion control for a socket, and prints the result or the error."""
    return ("python3 -c 'import socket; s = socket.socket()\n"
            f"try: s.setsockopt(6, 13, b\"{name}\")\nexcept OSError as e: print(e.strerror)\n"
            "print(s.getsockopt(6, 13, 16).split(b\"\\0\")[0].decode())'\n")


def host_default(name):
    """Set the default of the first namespace until the test ends."""
    defer(HOST.write_text, HOST.read_text(encoding="ascii"), "ascii")
    defer(allow, allowed())
    HOST.write_text(name, encoding="ascii")


def without_module():
    """Unload tcp_hpcc until the test ends. The kernel cannot load it, as on a host on which it is not installed."""
    before = allowed()
    defer(allow, before)
    defer(lambda: users() is None and load(Netns()))
    expect("unload", unload(Netns(), 100), True)
    modprobe("exit 1")


def test_inherit():
    """A new network namespace copies the default of the host, and an older one keeps its own. Parameters are built-in."""
    old = Netns()
    host_default("hpcc")
    new = Netns()
    expect("defaults", (old.sysctl(DEFAULT), new.sysctl(DEFAULT)), ("cubic", "hpcc"))
    first = Path("/proc/sys/net/hpcc/base_rtt_ns")
    defer(first.write_text, first.read_text(encoding="ascii"), "ascii")
    first.write_text("13000", encoding="ascii")
    expect("default, base_rtt_ns, and its own base_rtt_ns of a container",
           container(f"sysctl -n {DEFAULT} net.hpcc.base_rtt_ns; sysctl -w net.hpcc.base_rtt_ns=14000\n"
                     "sysctl -n net.hpcc.base_rtt_ns").split("\n"),
           ["hpcc", "0", "net.hpcc.base_rtt_ns = 14000", "14000", ""])
    expect("base_rtt_ns of the host", first.read_text(encoding="ascii"), "13000\n")


def test_missing_module():
    """Without the module a container starts with the host's default. What fails there, and what ignores the failure."""
    without_module()
    missing = "No such file or directory"
    result = container(f"sysctl -n {DEFAULT}; {chosen('hpcc')}"
                       f"sysctl -q -w {DEFAULT}=hpcc 2> /dev/null || echo refused\n"
                       "sysctl -q -w net.hpcc.burst=3 2> /dev/null || echo refused\n"
                       "sysctl -q -e -w net.hpcc.burst=3 && echo ignored\n").split("\n")
    expect("default, socket, and sysctl", result, ["cubic", missing, "cubic", "refused", "refused", "ignored", ""])
    # At boot the settings behind a missing one are made.
    Path("/run/hpcc.conf").write_text(f"{DEFAULT} = hpcc\nnet.hpcc.burst = 3\nnet.ipv4.tcp_sack = 0\n", encoding="ascii")
    if os.path.exists(SYSTEMD):
        expect("systemd-sysctl, and tcp_sack", container(f"{SYSTEMD} /run/hpcc.conf 2> /dev/null && "
                                                         "sysctl -n net.ipv4.tcp_sack").strip(), "0")
    expect("tcp_hpcc is loaded", users() is not None, False)


def test_loads_no_module():
    """Root of a container does not load the module, but the host's root does, as Docker for --sysctl."""
    without_module()
    modprobe(insmod("hpcc_common"), insmod("tcp_hpcc"))
    allow("reno cubic")
    expect("a container", container(chosen("hpcc")).split("\n"), ["No such file or directory", "cubic", ""])
    expect("tcp_hpcc is loaded", users() is not None, False)
    need_virtual_time()     # the kernel leaks a reference to the module when it refuses
    for names, want in ("reno cubic", errno.EPERM), ("reno cubic hpcc", 0):
        allow(names)
        try:
            Netns().sysctl(DEFAULT, "hpcc")
            got = 0
        except OSError as error:
            got = error.errno
        expect(f"--sysctl, allowed: {names}", got, want)
        expect("tcp_hpcc is loaded", users() is not None, True)
        if "hpcc" not in allowed():
            allow("reno cubic hpcc")


# Who selects hpcc in a container: root of it by setsockopt(), by a route, and by its default if the host allows this.
@cases(socket=("{socket}", "reno cubic", "hpcc"), sysctl=(f"sysctl -q -w {DEFAULT}=hpcc\n", "reno cubic hpcc", None),
       route=("ip route add 192.0.2.0/24 dev lo congctl hpcc && ip route show\n", "reno cubic", "congctl hpcc"))
def selects(script, names, want):
    before = allowed()
    defer(allow, before)
    allow(names)
    if "socket" in script:
        script = chosen("hpcc")
    got = container(script).strip()
    expect("output", want in got if want else got == "", True)


def test_port_of_a_container():
    """Root of a container may put a port on its own devices, and change the tables of its own namespace."""
    plugin = f"export TC_LIB_DIR={os.environ['TC_LIB_DIR']}\n"
    expect("port", "qdisc hpcc" in container(plugin + "tc qdisc add dev lo root hpcc rate 1gbit && tc qdisc show dev lo"), True)


def attach_to_cgroup(group, program, kind, place):
    """Attach a BPF program of a type to a cgroup."""
    fd, target = load_bpf(program, kind, place), os.open(group, os.O_RDONLY)
    how = ctypes.create_string_buffer(struct.pack("=IIII", target, fd, place, 0).ljust(128, b"\0"))
    if ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF[os.uname().machine], BPF_PROG_ATTACH, how, 128):
        raise OSError(ctypes.get_errno(), "BPF_PROG_ATTACH")
    for one in fd, target:
        os.close(one)


def select_by_bpf(group):
    """Let each socket of a cgroup select hpcc before it connects, or when it listens."""
    select = (insn(0x62, 10, off=-8, imm=struct.unpack("=I", b"hpcc")[0]) + insn(0x62, 10, off=-4) +
              copy(1, 6) + mov(2, socket.IPPROTO_TCP) + mov(3, TCP_CONGESTION) + copy(4, 10) + insn(0x07, 4, imm=-8) +
              mov(5, 5) + call(SETSOCKOPT) + mov(0, 1) + EXIT)
    attach_to_cgroup(group, copy(6, 1) + select, SOCK_ADDR, CONNECT4)
    attach_to_cgroup(group, copy(6, 1) + insn(0x61, 7, 6, 0) +                  # r7 = ctx->op
                     insn(0x15, 7, off=2, imm=TCP_LISTEN_CB) + mov(0, 1) + EXIT + select, SOCK_OPS, CGROUP_SOCK_OPS)


def test_cgroup():
    """A BPF program selects hpcc for all sockets of a service's cgroup, without privileges of the service."""
    top = Path("/run/hpcc-cgroup")
    top.mkdir()
    defer(top.rmdir)
    if subprocess.run(["mount", "-t", "cgroup2", "none", top], check=False).returncode:
        raise Skip("no cgroup2")
    defer(subprocess.call, ["umount", str(top)])
    group = top / "service"
    group.mkdir()
    defer(group.rmdir)
    select_by_bpf(group)
    pair = Pair(cc=("cubic", "cubic"))
    defer(allow, allowed())
    allow("reno cubic")
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    defer((top / "cgroup.procs").write_text, str(os.getpid()), "ascii")
    client, server = pair.connect()
    transfer((client, server, pattern(10000)), (server, client, pattern(10000)))
    expect("agreed", [ns.counters()["agreed"] for ns in (pair.c, pair.s)], [1, 1])
    expect("congestion control", [get_cc(end).split("-")[0] for end in (client, server)], ["hpcc"] * 2)


main(modules=["sch_hpcc"], commands=["unshare", "sysctl"])
