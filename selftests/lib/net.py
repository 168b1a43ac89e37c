# SPDX-License-Identifier: GPL-2.0
"""Network namespaces, and two hosts connected by a cable.

One process holds both ends of each connection and all namespaces: a socket stays in the namespace
in which it was created, and in User Mode Linux starting a program takes longer than a test. Nothing
here waits for real time.
"""

import ctypes
import json
import os
import socket
import subprocess
import time

from .genl import Family
from .kernel import load, users
from .ktap import Skip, defer, expect
from .tcp import bind_soon, let_go, set_cc

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
IPPROTO_MPTCP = 262


def _setns(fd):
    if _libc.setns(fd, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Netns:
    """A new network namespace, which is deleted when the test ends."""

    def __init__(self, ldcp=None, **sysctls):
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        if _libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        self.fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        _setns(home)
        os.close(home)
        self.homes = []
        self.family = None
        # ip accepts this path in place of a name
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"
        self.ip("link set lo up")
        self.sysctl("net.ipv6.conf.default.accept_dad", 0)
        self.sysctl("net.ipv6.conf.default.addr_gen_mode", 1)
        for name, value in sysctls.items():
            self.sysctl("net.hpcc." + name, value)
        for name, value in (ldcp or {}).items():
            self.sysctl("net.ldcp." + name, value)
        defer(self.delete)

    def delete(self):
        """Release the namespace: the kernel deletes it after its last socket."""
        if self.fd is not None:
            os.close(self.fd)
        self.fd = None
        self.forget()

    def forget(self):
        """Close the netlink family, because the module or the namespace is about to end."""
        if self.family is not None:
            self.family.sock.close()
        self.family = None

    def hpcc(self):
        if self.family is None:
            self.family = Family(self, "hpcc")
        return self.family

    def __enter__(self):
        self.homes.append(os.open("/proc/self/ns/net", os.O_RDONLY))
        _setns(self.fd)
        return self

    def __exit__(self, *_):
        home = self.homes.pop()
        _setns(home)
        os.close(home)

    def run(self, *command, stdin=None, check=True):
        """Run a program in the namespace. Return its output."""
        with self:
            done = subprocess.run(command, input=stdin, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stdout.strip()} {stdin or ''}")
        return done.stdout

    def ip(self, *lines):
        return self.run("ip", "-batch", "-", stdin="\n".join(lines) + "\n")

    def tc(self, *lines):
        return self.run("tc", "-batch", "-", stdin="\n".join(lines) + "\n")

    def qdiscs(self, dev):
        return json.loads(self.run("tc", "-s", "-j", "qdisc", "show", "dev", dev))

    def port(self, dev):
        """Return the first qdisc "hpcc" of a device, with its statistics, or None."""
        return next((qdisc for qdisc in self.qdiscs(dev) if qdisc["kind"] == "hpcc"), None)

    def read(self, path):
        """Read a file of /proc from within the namespace."""
        with self, open(path, encoding="ascii") as file:
            return file.read()

    def sysctl(self, name, value=None):
        path = "/proc/sys/" + name.replace(".", "/")
        if value is None:
            return self.read(path).strip()
        with self:
            fd = os.open(path, os.O_WRONLY)
            try:
                os.write(fd, str(value).encode())
            finally:
                os.close(fd)
        return None

    def counters(self, name="hpcc"):
        """Return the counters of /proc/net/hpcc or of another file as a Counters."""
        return Counters((name, int(value)) for name, value in
                        map(str.split, self.read(f"/proc/net/{name}").splitlines()))

    def dump(self, **values):
        return self.hpcc().dump("flow-get", **values)

    def flows(self):
        return [_flow(attrs) for attrs in self.dump()]

    def ask(self):
        """Request the identities of links, for 10 s or until the next call of paths()."""
        self.dump(identify=True)

    def paths(self):
        """Return the links by local port, as {hop: (node, port, bit/s)}, and continue to request identities."""
        return {attrs["lport"]: {hop["hop"]: (hop["node"], hop["port"], hop["rate"])
                                for hop in attrs.get("hop", []) if "node" in hop}
                for attrs in self.dump(identify=True)}

    def links(self, sock=None):
        """Return the links on the path of a socket, or of the only flow."""
        paths = self.paths()
        if sock is not None:
            return paths[sock.getsockname()[1]]
        expect("number of paths", len(paths), 1)
        return next(iter(paths.values()))

    def expect_no_flows(self):
        """Fail unless all flows end soon. Both ends are closed, but their last ACKs may be in flight."""
        for _ in range(100):
            if not self.flows():
                break
            time.sleep(0.1)
        expect("flows", self.flows(), [])

    def flow(self, sock=None, port=None):
        """Return the flow of a socket, or of a local port, or the only one."""
        if sock is not None:
            port = sock.getsockname()[1]
        found = [flow for flow in self.flows() if port in (None, flow["lport"])]
        expect("number of flows", len(found), 1)
        return found[0]

    def snmp(self, name):
        """Return a counter of TCP, such as InCsumErrors or TcpExtTCPTimeouts."""
        for path, prefix in (("/proc/net/snmp", ""), ("/proc/net/netstat", "TcpExt")):
            lines = self.read(path).splitlines()
            for heads, values in zip(lines[::2], lines[1::2]):
                for head, value in zip(heads.split(), values.split()):
                    if heads.startswith(("Tcp:", "TcpExt:")) and name == prefix + head:
                        return int(value)
        raise KeyError(name)

    def socket(self, version=4, proto=0):
        """Return a socket. Skip the test if this kernel has no MPTCP."""
        try:
            with self:
                sock = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_STREAM, proto)
        except OSError as error:
            if proto == IPPROTO_MPTCP:
                raise Skip(f"no MPTCP: {error}") from error
            raise
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        defer(let_go, sock)
        return sock

    def listen(self, addr, port=5000, sock=None, backlog=1000):
        sock = sock or self.socket(6 if ":" in addr else 4)
        bind_soon(sock, (addr, port))
        sock.listen(backlog)
        return sock


def meet(client, listener, to=None):
    """Connect a socket to a listener. Return both ends."""
    client.connect(to or listener.getsockname()[:2])
    server = listener.accept()[0]
    defer(let_go, server)
    return client, server


class Counters(dict):
    """Counters at one moment; now - before contains the counters that changed."""

    def __sub__(self, before):
        return Counters((name, value - before[name]) for name, value in self.items() if value != before[name])


def _flow(attrs):
    return {"mode": "telemetry" if attrs["mode"] in ("telemetry", "ignoring") else "classic",
            "W": attrs["w"], "Wc": attrs["wc"], "U_permille": attrs["u"] * 1000 >> 24, "T_ns": attrs["t"], "R": attrs["r"],
            "W_init": attrs["w-init"], "eta_permille": round(attrs["eta"] * 1000 / (1 << 24)),
            "hops": attrs["hops"], "probes": int("probes" in attrs), "receiver": int("receiver" in attrs),
            **{name: attrs[name] for name in ("laddr", "lport", "raddr", "rport")}}


class Pair:
    """Two hosts, c and s, with a cable between them."""

    def __init__(self, version=4, mtu=1500, cc=("hpcc", "hpcc"), offload=True, delay=None, qdisc=None, **sysctls):
        self.version = version
        if delay:
            qdisc = f"netem delay {delay} limit 100000"
        self.c = Netns(**sysctls)
        self.s = Netns(**sysctls)
        self.addr = ("10.0.0.1", "10.0.0.2") if version == 4 else ("fd00::1", "fd00::2")
        bits = 24 if version == 4 else 64
        self.c.ip(f"link add eth0 mtu {mtu} type veth peer name eth0 mtu {mtu} netns {self.s.path}")
        for ns, addr, name in zip((self.c, self.s), self.addr, cc):
            ns.ip(f"addr add {addr}/{bits} dev eth0", "link set eth0 up")
            ns.sysctl("net.ipv4.tcp_congestion_control", name)
            if not offload:
                ns.run("ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off")
            if qdisc:
                ns.tc(f"qdisc add dev eth0 root {qdisc}")

    def listen(self, port=5000, cc=None, proto=0):
        sock = self.s.socket(self.version, proto)
        if cc:
            set_cc(sock, cc)
        return self.s.listen(self.addr[1], port, sock)

    def connect(self, listener=None, cc=None, lport=0, client=None):
        listener = listener or self.listen()
        client = client or self.c.socket(self.version)
        if cc:
            set_cc(client, cc)
        if lport:
            client.bind((self.addr[0], lport))
        return meet(client, listener)


def same_ends():
    """Return a namespace, and (socket, ifindex, listener) of two connections with equal ends on different links."""
    c, ends = Netns(), []
    for dev in "v0", "v1":
        s = Netns()
        c.ip(f"link add {dev} type veth peer name {dev} netns {s.path}",
             f"addr add fe80::1/64 dev {dev} nodad", f"link set {dev} up")
        s.ip(f"addr add fe80::2/64 dev {dev} nodad", f"link set {dev} up")
        with c:
            here = socket.if_nametoindex(dev)
        with s:
            there = socket.if_nametoindex(dev)
        listener, client = s.socket(6), c.socket(6)
        for sock in listener, client:
            set_cc(sock, "hpcc")
        listener.bind(("fe80::2", 5000, 0, there))
        listener.listen()
        client.bind(("fe80::1", 4000, 0, here))
        client.connect(("fe80::2", 5000, 0, here))
        ends.append((client, here, listener))
    return c, ends


def expect_counters(ns, what="counters", **want):
    """Fail unless these counters of a namespace have these values."""
    counters = ns.counters()
    expect(what, {name: counters[name] for name in want}, want)


def joined(hosts, *what, **how):
    """Connect both ends of a Pair or a Path. Return it, and both sockets."""
    return (hosts, *hosts.connect(*what, **how))


def expect_none(ns, *names):
    """Fail unless these counters of a namespace are 0."""
    counters = ns.counters()
    expect("counters", {name: counters[name] for name in names if counters[name]}, {})


def loaded_again(name="tcp_hpcc"):
    if users(name) is None:
        load(Netns(), name)


def no_errors(pair):
    """Fail if TCP or hpcc has seen a wrong checksum or a malformed option."""
    for ns in (pair.c, pair.s):
        expect("InCsumErrors", ns.snmp("InCsumErrors"), 0)
        expect("checksum_ignored", ns.counters()["checksum_ignored"], 0)
        expect("malformed_ignored", ns.counters()["malformed_ignored"], 0)


# ---- Many connections ----

def crowd(count, version=4, **how):
    """Return a Pair, its listener, and the ends of this number of connections."""
    pair = Pair(version, **how)
    listener = pair.listen()
    return pair, listener, [pair.connect(listener) for _ in range(count)]
