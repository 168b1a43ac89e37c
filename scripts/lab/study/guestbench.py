#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Run measurements for scripts/bench-kernel in a guest, and print lines of JSON.

    guestbench.py paths         goodput of an unshaped path with each variant
    guestbench.py shaped        utilization and queue of a slow port
    guestbench.py record        cost of the ACKs with and without hpccmon record on the sender
    guestbench.py observe       cost of segments and ACKs without, with and after hpccmon observe
    guestbench.py reloads       slab before and after modules are reloaded

Variants take turns, A B C A B C, so that other load on the machine affects all of them.
Both ends of all connections are threads of one process. The senders share one buffer; the
receivers discard the data, and a large SO_RCVLOWAT makes them wake up rarely.
"""

import argparse
import base64
import collections
import contextlib
import ctypes
import itertools
import json
import mmap
import os
import resource
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "selftests"))

# pylint: disable=wrong-import-position
from lib.kernel import meminfo_kb, module_file, modules, need, users  # noqa: E402
from lib.net import Netns  # noqa: E402
from lib.sign import set_keys  # noqa: E402
from lib.star import percentile  # noqa: E402
from lib.tcp import set_cc  # noqa: E402

CHUNK = 1 << 20
LOWAT = 1 << 19
MSG_TRUNC = 0x20
# Offset of tcpi_bytes_received in struct tcp_info: bytes that arrived in order, also those that
# the receiver, which reads pieces of LOWAT bytes, has not read yet.
TCP_INFO_RECEIVED = 128
# Values that must be configured for a path without propagation delay: the time of a packet under
# load, and the rate. A veth reports 10 Gb/s, which hpcc would not exceed, but some guests do.
FAST = "hpcc limit 10mb bandwidth 100gbit"
BASE_RTT = {"net.hpcc.base_rtt_ns": 1000000, "net.hpcc.host_mbps": 100000}
SHORT_RTT = {"net.hpcc.base_rtt_ns": 50000, "net.hpcc.host_mbps": 10000}
LDCP_RTT = {"net.ldcp.base_rtt_ns": 1000000, "net.ldcp.host_mbps": 100000}

KEY = bytes(range(16))

# A qdisc that puts all packets into its first band; the qdisc of that band follows.
PRIO = "prio bands 2 priomap" + 16 * " 0" + "; "

# cut: where GSO packets are split into segments: at the hosts ("host"), at the ports behind the
# qdisc ("port"), or only in the qdisc (None). key: both hosts sign feedback with it.
Variant = collections.namedtuple("Variant", "cc qdisc cut sysctls key", defaults=(None,))
VARIANTS = {
    "cubic, fq_codel": Variant("cubic", "fq_codel", None, {}),
    "cubic, fq_codel, split": Variant("cubic", "fq_codel", "port", {}),
    "bbr, fq_codel, split": Variant("bbr", "fq_codel", "port", {}),
    "cubic, sch_hpcc": Variant("cubic", "hpcc limit 10mb", None, {}),
    "hpcc, T 1 ms": Variant("hpcc", FAST, None, BASE_RTT),
    "hpcc, T 50 us": Variant("hpcc", "hpcc limit 10mb", None, SHORT_RTT),
    "hpcc, T 50 us, signed": Variant("hpcc", "hpcc limit 10mb", None, SHORT_RTT, KEY),
    "hpcc, T 1 ms, where 1": Variant("hpcc", FAST, None,
                                     BASE_RTT | {"net.hpcc.where": 1, "net.ipv4.tcp_ecn": 1}),
    "ldcp, T 1 ms": Variant("ldcp", FAST + " marking ldcp", None, LDCP_RTT),
    # For the cost of a packet in the qdisc itself. Packets bypass an empty fq_codel unless it is the
    # child of another qdisc.
    "cubic, segments, fq_codel": Variant("cubic", PRIO + "fq_codel", "host", {}),
    "cubic, segments, sch_hpcc": Variant("cubic", PRIO + "hpcc limit 10mb", "host", {}),
}
# SO_SNDBUF and SO_RCVLOWAT if all connections share one thread for each end. The values are small,
# so that memory suffices for ten thousand connections.
SHARED_SNDBUF = 32768
SHARED_LOWAT = 16384
# A guest calls this address to control the plugin scripts/vm/count.c, which uses the same value.
COUNT_AT = 0x7ead00000000
MAP_FIXED = 0x10


def say(**what):
    """Print a line of JSON for bench-kernel."""
    print(json.dumps(what), flush=True)


class Counter:
    """Controls scripts/vm/count.c, which counts between begin() and stop()."""

    def __init__(self):
        size = mmap.PAGESIZE
        mapper = ctypes.CDLL(None).mmap
        mapper.restype = ctypes.c_void_p
        mapper.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                           ctypes.c_int, ctypes.c_long]
        if mapper(COUNT_AT, size, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC,
                  mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED, -1, 0) != COUNT_AT:
            raise OSError("no memory at COUNT_AT")
        ctypes.memset(COUNT_AT, 0xc3, size)     # x86-64: ret
        load, self.begin, self.stop = (ctypes.CFUNCTYPE(None)(COUNT_AT + i) for i in range(3))
        with open("/proc/kallsyms", encoding="ascii") as file:
            text = "".join(line for line in file if line.split(" ", 2)[1] in "tTwW")
        say(event="symbols", text=base64.b64encode(zlib.compress(text.encode(), 1)).decode())
        load()


class Hosts:
    """Two hosts with a chain of switches in between, each a bridge with two ports. The ports of
    both directions get the qdisc of a variant; without switches the interfaces of the hosts get it."""

    def __init__(self, hops):
        self.h1, self.h2 = Netns(), Netns()
        switches = [Netns() for _ in range(hops)]
        chain = [self.h1, *switches, self.h2]
        for left, right in zip(chain, chain[1:]):
            names = ["eth0" if ns in (self.h1, self.h2) else name
                     for ns, name in ((left, "p2"), (right, "p1"))]
            left.ip(f"link add {names[0]} type veth peer name {names[1]} netns {right.path}")
        for switch in switches:
            switch.ip("link add br0 type bridge", "link set br0 up",
                      *[line for port in ("p1", "p2") for line in
                        (f"link set {port} master br0", f"link set {port} up")])
        # The port through which data leave comes first, then the ports behind it.
        self.ports = [(switch, port) for port in ("p2", "p1") for switch in switches] or \
            [(self.h1, "eth0"), (self.h2, "eth0")]
        for host, addr in ((self.h1, 1), (self.h2, 2)):
            host.ip(f"addr add 10.0.0.{addr}/24 dev eth0", "link set eth0 up")
        self.before = {}

    def use(self, variant):
        """Replace the qdisc of the ports, and set keys and sysctls; reset those of the previous variant."""
        _, qdisc, cut, sysctls, key = variant
        for host in (self.h1, self.h2):
            if key:
                set_keys(host, key)
            elif variant.cc == "hpcc":
                host.hpcc().set("key-set", replace=True)
            host.run("ethtool", "-K", "eth0", *(("tso", "off", "gso", "off") if cut == "host"
                                                else ("tso", "on", "gso", "on")))
        for ns, dev in self.ports:
            ns.run("tc", "qdisc", "del", "dev", dev, "root", check=False)
            for place, kind in zip(("root handle 1:", "parent 1:1"), (qdisc or "").split("; ")):
                if kind:
                    ns.tc(f"qdisc add dev {dev} {place} {kind}")
            if cut != "host":
                ns.run("ethtool", "-K", dev, "tso", "off" if cut == "port" else "on")
        for name in {**self.before, **sysctls}:
            self.before.setdefault(name, self.h1.sysctl(name))
            for host in (self.h1, self.h2):
                host.sysctl(name, sysctls.get(name, self.before[name]))

    def port(self):
        """Statistics of the port through which data leave, with the time of the query."""
        ns, dev = self.ports[0]
        return {**ns.qdiscs(dev)[0].get("hpcc", {}), "t": time.monotonic()}

    def connect(self, cc, nr):
        """Open nr connections from h1 to h2."""
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

    def counters(self):
        """Counters of the hosts. data, acks: packets that h2 and h1 received, with their bytes.
        sender_packets, segments: packets and segments that h1 sent. hpcc_: counters of /proc/net/hpcc."""
        found = collections.Counter()
        for host, name in ((self.h2, "data"), (self.h1, "acks")):
            words = host.read("/proc/net/dev").split("eth0:")[1].split()
            found[name], found[name + "_bytes"] = int(words[1]), int(words[0])
        # words of h1, which the loop read last
        found["sender_packets"] = int(words[9])
        found["segments"] = self.h1.snmp("OutSegs")
        for host in (self.h1, self.h2):
            with contextlib.suppress(OSError):      # tcp_hpcc may not be loaded
                found.update({f"hpcc_{name}": value for name, value in host.counters().items()})
        with open("/proc/softirqs", encoding="ascii") as file:
            for line in file:
                # This softirq runs tcp_pace_kick(), but not the watchdog of a qdisc.
                if "HRTIMER:" in line:
                    found["timers"] = sum(int(word) for word in line.split()[1:])
        return found


class Load:
    """Connections that send as fast as possible, and a count of the bytes that arrive."""

    def __init__(self, pairs, shared=False):
        self.pairs = pairs
        self.got = collections.Counter()
        self.stopped, self.shared = False, shared
        for client, server in pairs:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT,
                              SHARED_LOWAT if shared else LOWAT)
            if shared:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SHARED_SNDBUF)
        if shared:
            work = [(self._send_all,), (self._receive_all,)]
        else:
            work = [job for client, server in pairs
                    for job in ((self._send, client), (self._receive, server))]
        self.threads = [threading.Thread(target=job[0], args=job[1:], daemon=True)
                        for job in work]
        for thread in self.threads:
            thread.start()

    def received(self):
        """Bytes that arrived on all connections. If connections share a thread, count only
        bytes that were read: a getsockopt() for each connection would take longer than the rest of a snapshot."""
        if self.shared:
            return self.got.total()
        return sum(struct.unpack_from("<Q", server.getsockopt(
            socket.IPPROTO_TCP, socket.TCP_INFO, 256), TCP_INFO_RECEIVED)[0]
                   for _, server in self.pairs)

    @staticmethod
    def _send(sock):
        data = bytes(CHUNK)
        with contextlib.suppress(OSError):
            while True:
                sock.sendall(data)

    def _receive(self, sock):
        buffer = bytearray(CHUNK)
        with contextlib.suppress(OSError):
            while got := sock.recv_into(buffer, CHUNK, MSG_TRUNC):
                self.got[sock] += got

    def _send_all(self):
        data = bytes(CHUNK)
        socks = {client.fileno(): client for client, _ in self.pairs}
        with select.epoll() as poll:
            for number in socks:
                poll.register(number, select.EPOLLOUT)
            while not self.stopped:
                for number, _ in poll.poll(0.1):
                    try:
                        socks[number].send(data, socket.MSG_DONTWAIT)
                    except OSError:
                        pass

    def _receive_all(self):
        buffer = bytearray(CHUNK)
        socks = {server.fileno(): server for _, server in self.pairs}
        with select.epoll() as poll:
            for number in socks:
                poll.register(number, select.EPOLLIN)
            while not self.stopped:
                for number, _ in poll.poll(0.1):
                    try:
                        self.got[number] += socks[number].recv_into(
                            buffer, CHUNK, MSG_TRUNC | socket.MSG_DONTWAIT)
                    except OSError:
                        pass

    def stop(self):
        """Close all connections, and end all threads."""
        self.stopped = True
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


class Snapshot:
    """The values of all counters at one moment."""

    def __init__(self, hosts, load):
        self.t, self.got = time.monotonic(), load.received()
        self.counters = hosts.counters()

    def since(self, before):
        """Return the increase since an earlier snapshot: the values of a sample."""
        grew = {name: value - before.counters[name] for name, value in self.counters.items()}
        return {"seconds": self.t - before.t, "bytes": self.got - before.got, **grew}


def flow_bytes():
    """Memory in bytes that hpcc uses for a connection; None if this kernel does not show it."""
    try:
        with open("/sys/kernel/slab/hpcc_flow/object_size", encoding="ascii") as file:
            return int(file.read())
    except OSError:
        return None


def sample(hosts, variant, flows, args, counter):
    """Measure one variant. Return the sample, and the statistics of the port before and after."""
    hosts.use(variant)
    load = Load(hosts.connect(variant.cc, flows), args.shared)
    time.sleep(args.warm)
    # Reading the statistics of the port takes much longer than a snapshot.
    port = hosts.port()
    before = Snapshot(hosts, load)
    if counter:
        counter.begin()
    time.sleep(args.seconds)
    if counter:
        counter.stop()
    after = Snapshot(hosts, load)
    ports = port, hosts.port()
    load.stop()
    return after.since(before), ports


def make_counter(hosts, variants, args):
    """A Counter if QEMU has the plugin, else None. Load all modules first: the plugin would not know the names of
    functions in modules that are loaded later.
    """
    if not args.count:
        return None
    for variant in variants:
        hosts.use(variant)
        with hosts.h1.socket() as sock:
            set_cc(sock, variant.cc)
    say(event="memory", flow_bytes=flow_bytes())
    return Counter()


def paths(args):
    """Measure all variants, one round after the other."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
    wanted = args.variants.split(";") if args.variants else VARIANTS
    counter = None
    for hops in args.hops:
        hosts = Hosts(hops)
        counter = counter or make_counter(hosts, [VARIANTS[name] for name in wanted], args)
        for flows, _, name in itertools.product(args.flows, range(args.rounds), wanted):
            # Without a switch the interfaces of the hosts have the qdisc.
            if hops or VARIANTS[name].cut != "host":
                found, _ = sample(hosts, VARIANTS[name], flows, args, counter)
                say(event="path", hops=hops, flows=flows, variant=name, shared=args.shared,
                    **found)


# Arguments of hpccmon for each case; None: hpccmon does not run.
RECORD = ("record", "-o", "/tmp/recorded")
MONITORS = {"record": {"not": None, "looks": (*RECORD, "--no-acks"), "ACKs": RECORD, "ACKs, JSON": (*RECORD, "--json")},
            "observe": {"off": None, "on": ("observe",), "after": None}}
# "8996 lines of ACKs; 0 ACKs lost, 0 of other flows"
RECORDED = re.compile(r"(\d+) lines of ACKs; (\d+) ACKs lost")


def monitoring(hosts, words):
    """Start hpccmon on the sender."""
    program = Path(__file__).resolve().parents[3] / "tools/hpccmon/hpccmon"
    with hosts.h1:
        process = subprocess.Popen([program, *words], stderr=subprocess.PIPE, text=True)
    if words[0] == "observe" and not (line := process.stderr.readline()).startswith("observing"):
        sys.exit(line)
    return process


def record(args):
    """Measure the same load with and without hpccmon."""
    hosts, variant = Hosts(1), VARIANTS[args.variants]
    counter = make_counter(hosts, [variant], args)
    if args.what == "observe":
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], check=True)
    for _, (name, words) in itertools.product(range(args.rounds), MONITORS[args.what].items()):
        recorder = None if words is None else monitoring(hosts, words)
        found, _ = sample(hosts, variant, args.flows[0], args, counter)
        if recorder:
            recorder.send_signal(signal.SIGINT)
            output = recorder.communicate()[1]
            counts = RECORDED.search(output)
            if recorder.returncode or name.startswith("ACKs") and not counts:
                sys.exit(f"hpccmon {words[0]}: {output}")
            if name.startswith("ACKs"):
                found["told"], found["lost"] = map(int, counts.groups())
        say(event="record", recorded=name, **found)


def shaped(args):
    """Measure a slow port with hpcc and with cubic, without marking and without fq_codel."""
    hosts, flows = Hosts(1), args.flows[0]
    # W_init and W_ai depend on the rate of the host, and a veth reports 10 Gb/s.
    variants = [Variant(cc, f"hpcc rate {args.rate}mbit delay {args.delay} limit 1mb", None,
                        {"net.hpcc.base_rtt_ns": args.base_rtt_ns,
                         "net.hpcc.n_flows": flows, "net.hpcc.host_mbps": args.rate}, key)
                for cc, key in (("hpcc", None), ("hpcc", KEY), ("cubic", None))]
    counter = make_counter(hosts, variants, args)
    for variant in variants:
        found, (before, after) = sample(hosts, variant, flows, args, counter)
        sent, drops, seconds = (after[name] - before[name]
                                for name in ("tx_bytes", "drop_limit", "t"))
        say(event="shaped", cc=variant.cc + (", signed" if variant.key else ""), rate=args.rate, drops=drops,
            utilization=sent / seconds / after["bandwidth"],
            p50=percentile(before, after, 0.5), p99=percentile(before, after, 0.99), **found)


# ---- reloads of modules

MODULES = modules()
# x86-64
SYS_FINIT_MODULE, SYS_DELETE_MODULE = 313, 176
_libc = ctypes.CDLL(None, use_errno=True)


def syscall(*args):
    """Make a system call that has to succeed."""
    if _libc.syscall(*args):
        raise OSError(ctypes.get_errno(), f"{os.strerror(ctypes.get_errno())}: {args}")


def load_all():
    """Load all modules, in the order of their dependencies."""
    for name in MODULES:
        fd = os.open(module_file(name), os.O_RDONLY)
        syscall(SYS_FINIT_MODULE, fd, b"", 0)
        os.close(fd)


def unload_all():
    """Unload all modules, in reverse order."""
    for name in reversed(MODULES):
        syscall(SYS_DELETE_MODULE, name.encode(), os.O_NONBLOCK)


def use_all():
    """Use all modules once, so that they allocate memory. Wait until they are unused again."""
    hosts = Hosts(0)
    for cc in ("hpcc", "ldcp"):
        hosts.use(Variant(cc, "hpcc rate 1gbit marking ldcp", None, {}))
        load = Load(hosts.connect(cc, 1))
        while not load.got.total():
            time.sleep(0.01)
        load.stop()
    # If a network is removed before its orphaned sockets end, the sockets hold their module until they time out.
    time.sleep(1)
    for host in (hosts.h1, hosts.h2):
        host.delete()
    deadline = time.monotonic() + 100
    while any(users(name) for name in MODULES[1:]) and time.monotonic() < deadline:
        time.sleep(0.1)


def slab_kb():
    """Size of the slab that cannot be reclaimed, after reclaiming the rest."""
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")
    time.sleep(1)
    return meminfo_kb("SUnreclaim")


def reloads(args):
    """Divide the reloads into ten parts. Compare the smallest slab size after parts 6 to 10 with that after parts
    3 to 5. The first two parts fill caches of the kernel itself. The size varies by 8 KB."""
    found, part = [], max(args.reloads // 10, 1)
    for number in range(1, args.reloads + 1):
        unload_all()
        load_all()
        if number % 20 == 0:
            use_all()
            say(event="reloaded", reloads=number)
        if number % part == 0:
            found.append(slab_kb())
            say(event="slab", reloads=number, kb=found[-1])
    if len(found) >= 10:
        say(event="reloads", count=3 * part, kb=min(found[5:]) - min(found[2:5]))


def main():
    """Parse the command line, and run a measurement."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("paths", "shaped", "record", "observe", "reloads"))
    parser.add_argument("--hops", type=int, nargs="+", default=[1],
                        help="numbers of switches; 0: a veth pair")
    parser.add_argument("--variants", help="names of variants, separated by ;")
    parser.add_argument("--count", action="store_true", help="count instructions with the plugin count.c of QEMU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--warm", type=float, default=0.3)
    parser.add_argument("--flows", type=int, nargs="+", default=[1])
    parser.add_argument("--shared", action="store_true", help="all connections share one thread for each end")
    parser.add_argument("--rate", type=int, default=50, help="Mbit/s")
    parser.add_argument("--delay", default="5ms")
    parser.add_argument("--base-rtt-ns", type=int, default=10500000)
    parser.add_argument("--reloads", type=int, default=1000)
    args = parser.parse_args()
    for module in "tcp_hpcc", "tcp_ldcp", "sch_hpcc":
        if not need(module):
            sys.exit(f"needs module {module}")
    say(event="kernel", release=os.uname().release)
    {"paths": paths, "shaped": shaped, "reloads": reloads, "record": record, "observe": record}[args.what](args)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}: {error.stderr}")
