#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Random packets (packets/*.c) pass a port, which changes only records and marks, and arrive at connections' ends."""

import fcntl
import json
import os
import re
import struct
import subprocess
import time

from lib.kernel import virtual_time, watches_itself
from lib.ktap import cases, compiled, defer, expect, expect_in, main
from lib.net import Netns, Pair
from lib.tcp import pattern, transfer

PACKETS = int(os.environ.get("HPCC_FUZZ_PACKETS") or 40000)
SEED = int(os.environ.get("HPCC_FUZZ_SEED") or 1)
PROGRAM = compiled("packets")
MAC = {"tx": "02:00:00:00:00:01", "router": "02:00:00:00:00:03", "rx": "02:00:00:00:00:02"}
NET = {"tx": ("10.1.0.2", "fd01::2"), "rx": ("10.2.0.2", "fd02::2")}
# Packets arrive faster than the link sends them.
SLOW = "1mbit" if watches_itself() and not virtual_time() else "20mbit"
# No packet is dropped, and most ECN-capable packets are marked.
MARKING = f"rate {'10gbit' if virtual_time() else SLOW} delay 10us marking ldcp kmin 1 kmax 20kb knonect 16mb limit 16mb"

# Number of runs of the program. Each run gets an equal share of all packets. host() starts two
# programs, and each program gets half of a share.
SHARES = 12
turn = 0


def seed():
    """Return another seed for each run."""
    global turn
    turn += 1
    return SEED * 1000 + turn


class Ways:
    """Two paths from tx to rx: d0 to d1 through our port, and c0 to c1 without such a port."""

    def __init__(self, kind, how, above=""):
        self.tx, self.rx = Netns(), Netns()
        self.kind, self.tuns = kind, []
        self.port_ns, self.port_dev = self.tx, "d0"
        for ns in self.tx, self.rx:
            ns.sysctl("net.ipv6.conf.default.disable_ipv6", 1)
        for name in "d", "c":
            if kind == "tun":
                self.tuns.append(self.tun(f"{name}0"))
                out = self.tx, f"{name}0"
            elif kind == "wire":
                self.cable(self.tx, f"{name}0", self.rx, f"{name}1")
                out = self.tx, f"{name}0"
            else:
                out = self.node(name), "out0"
            if above:
                out[0].tc(f"qdisc add dev {out[1]} root handle 9: {above}")
            if name == "d":
                self.port_ns, self.port_dev = out
                out[0].tc(f"qdisc add dev {out[1]} {'parent 9:1' if above else 'root'} hpcc node 7 port 2 {how}")
            if kind != "tun" and "no-split" not in how:
                out[0].run("ethtool", "-K", out[1], "tso", "off", "gso", "off", "tx-udp-segmentation", "off")

    def tun(self, dev):
        """Create a device without Ethernet headers. Return the file descriptor that receives its packets."""
        with self.tx:
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(fd, 0x400454ca, struct.pack("16sH22x", dev.encode(), 0x1001))
        defer(os.close, fd)
        self.tx.ip(f"link set {dev} txqueuelen 10000", f"link set {dev} up")
        return fd

    def cable(self, left, left_dev, right, right_dev):
        """Connect two namespaces, without ARP, so that they themselves send no packets."""
        left.ip(f"link add {left_dev} type veth peer name {right_dev} netns {right.path}",
                f"link set {left_dev} arp off up")
        right.ip(f"link set {right_dev} arp off up")

    def node(self, name):
        """Return a bridge or a router between tx and rx."""
        ns = Netns()
        routed = self.kind == "router"
        ns.sysctl("net.ipv6.conf.default.disable_ipv6", int(not routed))
        self.cable(self.tx, name + "0", ns, "in0")
        self.cable(ns, "out0", self.rx, name + "1")
        if not routed:
            ns.ip("link add br0 type bridge mcast_snooping 0", "link set br0 up",
                  "link set in0 master br0", "link set out0 master br0")
            self.wait_for_forwarding(ns)
            return ns
        for dev, side in (("in0", "tx"), ("out0", "rx")):
            ns.ip(f"link set {dev} address {MAC['router']}")
            ns.sysctl(f"net.ipv4.conf.{dev}.rp_filter", 0)
            for addr in NET[side]:
                ns.ip(f"addr add {addr[:-1]}1/{64 if ':' in addr else 24} dev {dev}",
                      f"neigh replace {addr} lladdr {MAC[side]} dev {dev} nud permanent")
        ns.sysctl("net.ipv4.conf.all.rp_filter", 0)
        ns.sysctl("net.ipv4.ip_forward", 1)
        ns.sysctl("net.ipv6.conf.all.forwarding", 1)
        return ns

    @staticmethod
    def wait_for_forwarding(ns):
        """Wait until the ports of the bridge forward: this begins after the bridge has detected their carriers."""
        for _ in range(100):
            ports = json.loads(ns.run("ip", "-j", "-d", "link", "show", "master", "br0"))
            if {port["linkinfo"]["info_slave_data"]["state"] for port in ports} == {"forwarding"}:
                return
            time.sleep(0.05)
        raise AssertionError(f"ports of a bridge: {ports}")

    def stats(self):
        """Return the port's qdisc with its statistics."""
        return self.port_ns.port(self.port_dev)

    def run(self, count, *options):
        """Send packets on both paths and compare the arrivals. Return the counts of the program."""
        routed = self.kind == "router"
        if self.tuns:
            options += "--tun={},{}".format(*self.tuns),
        command = [PROGRAM, "wire", f"--count={count}", f"--seed={seed()}", "--tx=d0,c0", "--rx=d1,c1",
            f"--rx-ns={self.rx.path}", f"--dmac={MAC['router' if routed else 'rx']}",
            f"--smac={MAC['tx']}", *(f"--saddr={addr}" for addr in NET["tx"]),
            *(f"--daddr={addr}" for addr in NET["rx"]), *(["--routed"] if routed else []),
            f"--tags={5 if self.kind == 'bridge' else 4}", *options]
        with self.tx:
            done = subprocess.run(command, check=False, pass_fds=self.tuns, text=True, stdout=subprocess.PIPE)
        output = done.stdout
        print("#", output.strip().replace("\n", "\n# "))
        expect(f"status of {' '.join(command[1:])}", done.returncode, 0)
        return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", output)}


@cases(wire=("wire", "", "--stamp"), wire_that_shapes_and_marks=("wire", MARKING, "--stamp", "--mark"),
       wire_whole_gso=("wire", "no-split-gso", "--stamp"), tun=("tun", MARKING, "--stamp", "--mark"),
       bridge=("bridge", MARKING, "--stamp", "--mark"), router=("router", MARKING, "--stamp", "--mark"))
def through(kind, how, *options, above=""):
    """Send one share of all packets through a port, and check its counters."""
    ways = Ways(kind, how, above)
    # A TUN device leaves checksums and GSO to the receiver behind the port, which may then produce
    # packets that were invalid at the port.
    got = ways.run(PACKETS // SHARES, *([] if kind == "tun" else ["--offload"]), *options)
    stats = ways.stats()
    port = stats["hpcc"]
    sent = port["stamped"] + sum(port["unstamped"].values())
    expect("sent, in packets", port["tx_packets"], sent)
    if kind == "tun" or kind == "wire" and "no-split" in how and not above:
        expect("sent", port["tx_packets"], got["taken"] + got["markers"])
    # Packets that no device can send, for example with a checksum position beyond the packet's end, are dropped behind
    # the qdisc, on both paths. A port that neither shapes nor marks counts one packet, and one record, for a packet
    # that the device segments.
    lost = got["frames"] // 20
    if kind == "tun" or "no-split" in how or "rate" in how:
        lost = port["tx_packets"] - got["arrived"] - got["markers"]
        expect_in("lost behind the port", lost, 0, got["frames"] // 20)
    copies = got["arrived"] + got["markers"] + lost - port["tx_packets"]
    expect_in("stamped", port["stamped"] - got["stamped"], -copies, lost)
    expect_in("marked", port.get("marked", 0) - got["marked"], 0, lost)
    expect("drop_limit, backlog, qlen", (port["drop_limit"], stats["backlog"], stats["qlen"]), (0, 0, 0))
    if "--stamp" in options:
        expect_in("stamped", got["stamped"], got["frames"] // 20, got["arrived"])
    if "--mark" in options:
        expect_in("marked", got["marked"], got["frames"] // 20, got["arrived"])


def test_wire_other_kind():
    through("wire", "kind 254", "--stamp", "--kind=254")
    through("wire", "nostamp")


def test_wire_clones():
    """netem duplicates each packet: two packets share the same bytes in memory."""
    through("wire", "no-split-gso", "--stamp", above="netem duplicate 100% limit 10000")


def test_wire_that_drops():
    """The port sends each packet, or counts it as dropped for the right reason."""
    ways = Ways("wire", f"rate {SLOW} limit 20kb marking ldcp kmin 3kb kmax 9kb knonect 12kb")
    got = ways.run(PACKETS // SHARES, "--lossy")
    stats = ways.stats()
    port = stats["hpcc"]
    print("#", {name: port[name] for name in ("marked", "drop_limit", "drop_knonect")})
    expect("sent", port["tx_packets"], got["taken"])
    expect("sent, stamped or not", port["stamped"] + sum(port["unstamped"].values()), got["taken"])
    expect("dropped", (port["drop_limit"] + port["drop_knonect"], stats["drops"]),
           (got["dropped"], got["dropped"]))
    for name in "marked", "drop_limit", "drop_knonect":
        expect_in(name, port[name], got["frames"] // 1000, got["frames"])
    expect("backlog, qlen", (stats["backlog"], stats["qlen"]), (0, 0))


@cases(host_ipv4=(4,), host_ipv6=(6,))
def host(version):
    """Connections of several kinds transfer data while random packets are sent to both of their ends."""
    pair = Pair(version, qdisc="hpcc rate 1gbit delay 20us marking ldcp")
    for ns in pair.c, pair.s:
        ns.sysctl("net.ipv4.tcp_invalid_ratelimit", 0)
    listener = pair.listen()
    ends = [pair.connect(listener, cc=name) for name in ("hpcc", "ldcp", "hpcc", "cubic")]
    pair.listen(5001, cc="ldcp")
    macs = [json.loads(ns.run("ip", "-j", "link", "show", "eth0"))[0]["address"] for ns in (pair.c, pair.s)]
    before = [ns.counters() for ns in (pair.c, pair.s)]
    running = []
    for side, ns in enumerate((pair.c, pair.s)):
        flows = []
        for client, _ in ends:
            tuples = [(pair.addr[0], client.getsockname()[1]), (pair.addr[1], 5000)]
            (saddr, sport), (daddr, dport) = tuples[side], tuples[1 - side]
            flows.append(f"--flow={version},{saddr},{sport},{daddr},{dport}")
        with ns:
            running.append(subprocess.Popen(
                [PROGRAM, "live", f"--count={PACKETS // SHARES // 2}", f"--seed={seed()}", "--tx=eth0",
                 "--offload", "--quiet", "--port=5001", f"--dmac={macs[1 - side]}",
                 f"--smac={macs[side]}", f"--saddr={pair.addr[side]}",
                 f"--daddr={pair.addr[1 - side]}", *flows], stdout=subprocess.PIPE, text=True))
    defer(lambda: [program.kill() for program in running])
    moved = 0
    while any(program.poll() is None for program in running) or not moved:
        transfer(*[(*sockets, pattern(20000, i)) for i, sockets in enumerate(ends)],
                 *[(*sockets[::-1], pattern(5000, i)) for i, sockets in enumerate(ends)], timeout_s=600)
        moved += 100000
    for program in running:
        print("#", program.communicate()[0].strip())
        expect("status", program.returncode, 0)
    changes = [ns.counters() - old for ns, old in zip((pair.c, pair.s), before)]
    print("#", moved, "bytes;", *changes)
    for counters in changes:
        for name in ("forward_received", "echo_received", "malformed_ignored",
                     "checksum_ignored", "window_ignored", "unagreed_ignored", "bad_hop_ignored"):
            expect_in(name, counters.get(name, 0), 1, 1 << 40)


main(modules=["sch_hpcc", "tcp_ldcp"])
