#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Inside a guest: what scripts/bench-kernel measures there, as lines of JSON.

    guestbench.py paths         goodput of an unshaped path, each variant in turn
    guestbench.py shaped        utilization and queue of a slow port
    guestbench.py reloads       slab before and after modules came and went

Variants take turns, A B C A B C, so that what else the machine does meets all of
them. Both ends of a connection are threads of one process: one sends from the same
buffer, the other discards below a large SO_RCVLOWAT.
"""

import argparse
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "selftests"))

# pylint: disable=wrong-import-position
from lib.kernel import module_file, need, users  # noqa: E402
from lib.net import Netns  # noqa: E402
from lib.tcp import set_cc  # noqa: E402

CHUNK = 1 << 20
LOWAT = 1 << 19
MSG_TRUNC = 0x20
# tcpi_bytes_received in struct tcp_info: what has come in order, also what no
# receiver has read yet, who does so in pieces of LOWAT.
TCP_INFO_RECEIVED = 128
# What a path without propagation has to be told: how long a packet takes under load.
# A veth says that it has 10 Gb/s, which hpcc keeps to, and some guests exceed.
FAST = "hpcc limit 10mb bandwidth 100gbit"
BASE_RTT = {"net.hpcc.base_rtt_ns": 1000000, "net.hpcc.host_mbps": 100000}
SHORT_RTT = {"net.hpcc.base_rtt_ns": 50000, "net.hpcc.host_mbps": 10000}
LONG_BURSTS = SHORT_RTT | {"net.hpcc.burst_shift": 3}
LDCP_RTT = {"net.ldcp.base_rtt_ns": 1000000, "net.ldcp.host_mbps": 100000}
# Congestion control, qdisc of the ports, whether the ports cut GSO packets behind the
# qdisc, sysctls of the hosts.
VARIANTS = {
    "cubic, no qdisc": ("cubic", None, False, {}),
    "cubic, fq_codel": ("cubic", "fq_codel", False, {}),
    "cubic, fq_codel, split": ("cubic", "fq_codel", True, {}),
    "cubic, sch_hpcc, nostamp": ("cubic", "hpcc limit 10mb nostamp", False, {}),
    "cubic, sch_hpcc": ("cubic", "hpcc limit 10mb", False, {}),
    "bbr, sch_hpcc": ("bbr", "hpcc limit 10mb", False, {}),
    "hpcc, sch_hpcc": ("hpcc", FAST, False, BASE_RTT),
    "hpcc, sch_hpcc, 50 us": ("hpcc", "hpcc limit 10mb", False, SHORT_RTT),
    "hpcc, sch_hpcc, 50 us, W / 8": ("hpcc", "hpcc limit 10mb", False, LONG_BURSTS),
    "ldcp, sch_hpcc, marking": ("ldcp", FAST + " marking ldcp", False, LDCP_RTT),
}


def say(**what):
    """A line for bench-kernel."""
    print(json.dumps(what), flush=True)


class Hosts:
    """Two of them; with "bridge" a switch of two ports in between. Ports of both
    directions get a variant's qdisc."""

    def __init__(self, kind):
        self.h1, self.h2 = Netns(), Netns()
        if kind == "bridge":
            switch = Netns()
            for port, host in (("p1", self.h1), ("p2", self.h2)):
                switch.ip(f"link add {port} type veth peer name eth0 netns {host.path}")
            switch.ip("link add br0 type bridge", "link set br0 up",
                      *[line for port in ("p1", "p2") for line in
                        (f"link set {port} master br0", f"link set {port} up")])
            self.ports = [(switch, "p2"), (switch, "p1")]
        else:
            self.h1.ip(f"link add eth0 type veth peer name eth0 netns {self.h2.path}")
            self.ports = [(self.h1, "eth0"), (self.h2, "eth0")]
        for host, addr in ((self.h1, 1), (self.h2, 2)):
            host.ip(f"addr add 10.0.0.{addr}/24 dev eth0", "link set eth0 up")
        self.before = {}

    def use(self, qdisc, split, sysctls):
        """The ports' qdisc, new; sysctls of a variant before are taken back."""
        for ns, dev in self.ports:
            ns.run("tc", "qdisc", "del", "dev", dev, "root", check=False)
            if qdisc:
                ns.tc(f"qdisc add dev {dev} root handle 1: {qdisc}")
            ns.run("ethtool", "-K", dev, "tso", "off" if split else "on")
        for name in {**self.before, **sysctls}:
            self.before.setdefault(name, self.h1.sysctl(name))
            for host in (self.h1, self.h2):
                host.sysctl(name, sysctls.get(name, self.before[name]))

    def qdisc(self):
        """Statistics of the one that data leave through."""
        ns, dev = self.ports[0]
        return json.loads(ns.run("tc", "-s", "-j", "qdisc", "show", "dev", dev))[0]

    def connect(self, cc, nr):
        """Connections from h1 to h2."""
        listener = self.h2.socket()
        set_cc(listener, cc)
        listener.bind(("10.0.0.2", 0))
        listener.listen(nr)
        pairs = []
        for _ in range(nr):
            client = self.h1.socket()
            set_cc(client, cc)
            client.connect(listener.getsockname())
            pairs.append((client, listener.accept()[0]))
        listener.close()
        return pairs

    def packets(self):
        """That h2 received (data), and h1 (acknowledgments)."""
        return [int(host.read("/proc/net/dev").split("eth0:")[1].split()[1])
                for host in (self.h2, self.h1)]


class Load:
    """Connections that send as fast as they can, and the bytes that arrive."""

    def __init__(self, pairs):
        self.pairs = pairs
        self.got = [0] * len(pairs)
        self.threads = []
        for number, (client, server) in enumerate(pairs):
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, LOWAT)
            for work in ((self._send, client), (self._receive, server, number)):
                self.threads.append(threading.Thread(target=work[0], args=work[1:], daemon=True))
        for thread in self.threads:
            thread.start()

    def received(self):
        """Bytes that have come, of all connections."""
        return sum(struct.unpack_from("<Q", server.getsockopt(
            socket.IPPROTO_TCP, socket.TCP_INFO, 256), TCP_INFO_RECEIVED)[0]
                   for _, server in self.pairs)

    @staticmethod
    def _send(sock):
        data = bytes(CHUNK)
        try:
            while True:
                sock.sendall(data)
        except OSError:
            pass

    def _receive(self, sock, number):
        buffer = bytearray(CHUNK)
        try:
            while got := sock.recv_into(buffer, CHUNK, MSG_TRUNC):
                self.got[number] += got
        except OSError:
            pass

    def stop(self):
        """End them all."""
        for pair in self.pairs:
            for sock in pair:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        for thread in self.threads:
            thread.join(5)
        for pair in self.pairs:
            for sock in pair:
                sock.close()


def busy_s():
    """CPU time spent on anything, all CPUs."""
    with open("/proc/stat", encoding="ascii") as file:
        words = [int(word) for word in file.readline().split()[1:9]]
    return (sum(words) - words[3] - words[4]) / os.sysconf("SC_CLK_TCK")


class Snapshot:
    """All counters at one moment, and what they grew by since an earlier one."""

    def __init__(self, hosts, load):
        self.t, self.got, self.busy = time.monotonic(), load.received(), busy_s()
        self.data, self.acks = hosts.packets()

    def since(self, before):
        """What a sample consists of."""
        return {"seconds": self.t - before.t, "bytes": self.got - before.got,
                "busy_s": self.busy - before.busy, "data": self.data - before.data,
                "acks": self.acks - before.acks}


def one_path(hosts, variant, args):
    """A sample of one variant; begin and end are for who measures outside."""
    cc, qdisc, split, sysctls = VARIANTS[variant]
    hosts.use(qdisc, split, sysctls)
    load = Load(hosts.connect(cc, args.flows))
    time.sleep(args.warm)
    say(event="begin")
    before = Snapshot(hosts, load)
    time.sleep(args.seconds)
    after = Snapshot(hosts, load)
    say(event="end")
    stats = hosts.qdisc().get("hpcc", {}) if qdisc else {}
    load.stop()
    stats.pop("hist", None)
    say(event="path", path=args.path, variant=variant, **after.since(before), qdisc=stats)


def paths(args):
    """Each variant, and again."""
    hosts = Hosts(args.path)
    wanted = args.variants.split(";") if args.variants else VARIANTS
    for _ in range(args.rounds):
        for variant in wanted:
            one_path(hosts, variant, args)


def histogram(stats):
    """{upper end of a bucket in bytes: packets}"""
    return {item["bytes"]: item["packets"] for item in stats["hist"]}


def percentile(counts, part):
    """The value that so many are at or below."""
    rank, total = part * sum(counts.values()), 0
    for value in sorted(counts):
        total += counts[value]
        if total >= rank:
            break
    return value


def shaped(args):
    """The same port, with hpcc and with cubic; no marking, no fq_codel."""
    hosts = Hosts("bridge")
    rate = f"hpcc rate {args.rate}mbit delay {args.delay} limit 1mb"
    # A veth says that it has 10 Gb/s; W_init and W_ai follow from the host's speed.
    sysctls = {"net.hpcc.base_rtt_ns": args.base_rtt_ns, "net.hpcc.n_flows": args.flows,
               "net.hpcc.host_mbps": args.rate}
    for _ in range(args.rounds):
        for cc in ("hpcc", "cubic"):
            hosts.use(rate, False, sysctls)
            load = Load(hosts.connect(cc, args.flows))
            time.sleep(args.warm)
            before, began = hosts.qdisc()["hpcc"], time.monotonic()
            got = load.received()
            time.sleep(args.seconds)
            after, ended = hosts.qdisc()["hpcc"], time.monotonic()
            got = load.received() - got
            load.stop()
            old = histogram(before)
            counts = {value: packets - old.get(value, 0)
                      for value, packets in histogram(after).items()}
            sent = after["tx_bytes"] - before["tx_bytes"]
            say(event="shaped", cc=cc, bytes=got, seconds=ended - began,
                utilization=sent / (ended - began) / after["bandwidth"],
                p50=percentile(counts, 0.5), p99=percentile(counts, 0.99),
                drops=after["drop_limit"] - before["drop_limit"])


# ---- modules that come and go

MODULES = ("hpcc_common", "tcp_hpcc", "tcp_ldcp", "sch_hpcc")
# x86-64
SYS_FINIT_MODULE, SYS_DELETE_MODULE = 313, 176
_libc = ctypes.CDLL(None, use_errno=True)


def syscall(*args):
    """One that has to succeed."""
    if _libc.syscall(*args):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def load_all():
    """All modules, in their order."""
    for name in MODULES:
        fd = os.open(module_file(name), os.O_RDONLY)
        syscall(SYS_FINIT_MODULE, fd, b"", 0)
        os.close(fd)


def unload_all():
    """The other way round."""
    for name in reversed(MODULES):
        syscall(SYS_DELETE_MODULE, name.encode(), os.O_NONBLOCK)


def use_all():
    """What modules allocate when they are used; waits until nobody does any more."""
    hosts = Hosts("veth")
    for cc in ("hpcc", "ldcp"):
        hosts.use("hpcc rate 1gbit marking ldcp", False, {})
        load = Load(hosts.connect(cc, 1))
        while not sum(load.got):
            time.sleep(0.01)
        load.stop()
    for host in (hosts.h1, hosts.h2):
        host.delete()
    deadline = time.monotonic() + 100
    while any(users(name) for name in MODULES[1:]) and time.monotonic() < deadline:
        time.sleep(0.1)


def slab_kb():
    """What cannot be reclaimed, once the rest has been."""
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")
    time.sleep(1)
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":") for line in file)
    return int(fields["SUnreclaim"].split()[0])


def reloads(args):
    """Slab is compared between a tenth of the reloads and all of them: the first ones
    fill caches of the kernel's own."""
    found = {}
    for number in range(args.count + 1):
        if number in (args.count // 10, args.count):
            found[number] = slab_kb()
            say(event="slab", reloads=number, kb=found[number])
        if number % 20 == 0:
            use_all()
            say(event="reloaded", reloads=number)
        unload_all()
        load_all()
    say(event="reloads", count=args.count, kb=found[args.count] - found[args.count // 10])


def main():
    """Take the command line apart."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("paths", "shaped", "reloads"))
    parser.add_argument("--path", choices=("bridge", "veth"), default="bridge")
    parser.add_argument("--variants", help="names, with ; between them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--warm", type=float, default=0.3)
    parser.add_argument("--flows", type=int, default=1)
    parser.add_argument("--rate", type=int, default=50, help="Mbit/s")
    parser.add_argument("--delay", default="5ms")
    parser.add_argument("--base-rtt-ns", type=int, default=10500000)
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    for module in "tcp_hpcc", "tcp_ldcp", "sch_hpcc":
        if not need(module):
            sys.exit(f"needs module {module}")
    say(event="kernel", release=os.uname().release)
    {"paths": paths, "shaped": shaped, "reloads": reloads}[args.what](args)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}: {error.stderr}")
