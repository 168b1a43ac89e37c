#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The bytes and the memory that the qdisc hpcc charges for a packet; the cgroups that are charged for connections."""

import os
import subprocess
import time
from pathlib import Path

from lib.frames import THREE, cable, ip4, seg4
from lib.ktap import Skip, defer, expect, expect_in, main
from lib.net import Pair
from lib.packet import eth
from lib.path import set_links
from lib.tcp import get_cc, pattern, set_cc, transfer

MSS, HEAD, OVERHEAD, VLAN = 1000, 54 + len(THREE), 24, 4
MEMORY_MAX = Path("/sys/module/sch_hpcc/parameters/memory_max_mb")
CGROUPS = Path("/tmp/cgroups")
CONNECTIONS = 100


def run(*lines):
    """Remove the root qdisc of the device, then run commands."""
    subprocess.run("tc qdisc del dev v0 root 2>/dev/null", shell=True, check=False)
    for line in lines:
        subprocess.run(line.split(), check=True)


def frame(size, tags=(), partial=False):
    """Return a frame with a TCP segment with this many bytes of data."""
    return eth(ip4(seg4(payload=bytes(size), partial=partial)), tags=tags)


def charged(wire, send):
    """Return the bytes on the link that the port counts for the frames of send(), and the frames that arrive."""
    before = wire.stats()["tx_bytes"]
    send()
    frames = []
    while got := wire.receive(0.2):
        frames.append(got[1])
    return wire.stats()["tx_bytes"] - before, frames


def test_size_table_of_segments():
    """The size table charges segments of a GSO packet as it charges single packets of their lengths."""
    wire, sizes = cable(), [MSS, MSS, 200]
    for table in "overhead 40", "overhead -14", "mpu 1500", "linklayer atm overhead 8":
        for place, lines in (("above", (f"tc qdisc add dev v0 root handle 9: stab {table} prio",
                                        "tc qdisc add dev v0 parent 9:1 handle 1: hpcc rate 1gbit",
                                        "tc filter add dev v0 parent 9: protocol all prio 1 matchall classid 9:1")),
                             ("own", (f"tc qdisc add dev v0 root handle 1: stab {table} hpcc rate 1gbit",))):
            run(*lines)
            single, _ = charged(wire, lambda: [wire.send(frame(size)) for size in sizes])
            whole, frames = charged(wire, lambda: wire.send_gso(frame(sum(sizes), partial=True), MSS))
            expect("segments", sorted(len(one) for one in frames), sorted(HEAD + size for size in sizes))
            expect(f"stab {table}, {place}", whole, single)


def limit_memory(mb):
    """Limit the memory of queues until the test ends."""
    defer(MEMORY_MAX.write_text, MEMORY_MAX.read_text("ascii"))
    MEMORY_MAX.write_text(mb, "ascii")


def test_tag_beside_the_packet():
    """A VLAN tag that the device or the kernel has not inserted yet counts as bytes on the link."""
    wire = cable()
    run("ip link add link v0 name v0.5 type vlan id 5", "ip link set v0.5 up arp off")
    tagged, gso = wire.open_tx("v0.5"), wire.open_tx("v0.5", gso=True)
    for how in "rate 1gbit", "":
        for child in [], ["tc qdisc add dev v0 parent 1:1 pfifo"]:
            run(f"tc qdisc add dev v0 root handle 1: hpcc {how}", *child)
            taken, frames = charged(wire, lambda: tagged.send(frame(18)))
            expect("tags of the frames that arrive", [one[12:16] for one in frames], [b"\x81\0\0\5"])
            of_packet, _ = charged(wire, lambda: wire.send(frame(18, [(0x8100, 5)])))
            expect(f"{how} {child}, in the packet", (taken, of_packet), (HEAD + 18 + VLAN + OVERHEAD,) * 2)
            taken, _ = charged(wire, lambda: wire.send_gso(frame(2500, partial=True), MSS, gso))
            expect("bytes of a GSO packet", taken, 2500 + 3 * (HEAD + VLAN + OVERHEAD))


def test_memory_of_a_child():
    """A size table that makes packets shorter does not change the memory that is charged for them."""
    limit_memory("2")
    wire = cable()
    run("tc qdisc add dev v0 root handle 1: stab overhead -1400 hpcc rate 1kbit limit 100mb",
        "tc qdisc add dev v0 parent 1:1 handle 2: pfifo limit 100000")
    for _ in range(3000):
        wire.send(frame(1400 - HEAD))
    # The kernel's memory for a packet of 1400 bytes is 1800 to 4096 bytes.
    expect_in("packets in 2 MB", 3000 - wire.stats()["drop_limit"], (2 << 20) // 4096, (2 << 20) // 1800)
    subprocess.run("tc qdisc change dev v0 root handle 1: hpcc rate 0".split(), check=True)
    charged(wire, lambda: None)
    _, frames = charged(wire, lambda: [wire.send(frame(1400 - HEAD)) for _ in range(400)])
    expect("packets that arrive after the queue was emptied", len(frames), 400)


def test_memory_of_a_child_that_drops():
    """The memory of packets that a child drops at enqueue is free again at once."""
    limit_memory("1")
    wire = cable()
    for child in "pfifo_head_drop limit 100", "sfq limit 100 headdrop", "fq_codel limit 100":
        run("tc qdisc add dev v0 root handle 1: hpcc rate 1kbit limit 100mb",
            f"tc qdisc add dev v0 parent 1:1 handle 2: {child}")
        for number in range(3000):
            wire.send(frame((1400 - HEAD, 60)[number % 2]))
        expect(f"{child}: packets dropped for lack of memory", wire.stats()["drop_limit"], 0)


def test_longer_than_the_limit():
    """A GSO packet that is larger than the limit is split, because it could never leave whole."""
    wire = cable()
    run("tc qdisc add dev v0 root handle 1: hpcc no-split-gso limit 66000b")
    for size, mss, whole in (50000, MSS, True), (60000, 100, False):
        _, frames = charged(wire, lambda size=size, mss=mss: wire.send_gso(frame(size, partial=True), mss))
        expect(f"segments of {mss} bytes: whole, arrives", ([*map(len, frames)] == [HEAD + size], bool(frames)),
               (whole, True))


def cgroup():
    """Create a cgroup with a memory controller. This process is in it until the test ends."""
    if not os.path.exists("/proc/cgroups") or "memory" not in Path("/proc/cgroups").read_text("ascii"):
        raise Skip("needs memory cgroups")
    CGROUPS.mkdir(exist_ok=True)
    run(f"mount -t cgroup2 none {CGROUPS}")
    defer(run, f"umount {CGROUPS}")
    if "memory" not in (CGROUPS / "cgroup.controllers").read_text("ascii"):
        raise Skip("needs the memory controller of cgroup v2")
    (CGROUPS / "cgroup.subtree_control").write_text("+memory", "ascii")
    group = CGROUPS / "payer"
    group.mkdir()
    defer(group.rmdir)
    defer((CGROUPS / "cgroup.procs").write_text, "0", "ascii")
    (group / "cgroup.procs").write_text("0", "ascii")
    return group


def slab_bytes(group):
    """Return the bytes of kernel objects that a cgroup is charged for, after a grace period."""
    time.sleep(3)
    stat = dict(line.split() for line in (group / "memory.stat").read_text("ascii").splitlines())
    return int(stat["slab_unreclaimable"])


def connected(pair, count=CONNECTIONS, port=5000):
    """Return the ends of `count` connections, each of which has sent both ways."""
    listener = pair.listen(port)
    ends = []
    for number in range(count):
        client, server = pair.connect(listener)
        for _ in range(3):
            transfer((client, server, pattern(3000, number)), (server, client, pattern(3000, number + 1)))
        ends += client, server
    return ends


def test_memory_of_connections():
    """The cgroup of a socket is charged for allocations in softirq, also before accept(), until all are freed."""
    group = cgroup()
    port = "hpcc rate 1gbit delay 20us node 1 port 1"
    # Sender: flow and link. Receiver: its state and its link. IOAM: the links of traces.
    for name, least, how in (("sender", 704, {}), ("receiver", 1024, {"where": 1}),
                             ("IOAM", 1536, {"version": 6, "carrier": 1})):
        stamp = " stamp tcp,ioam" if "carrier" in how else ""
        pair = Pair(qdisc=port + stamp, host_mbps=1000, base_rtt_ns=200000, sample=0, **how)
        for ns in (pair.c, pair.s) if stamp else ():
            set_links(ns, (1, 1, 10 ** 9))
        ends = connected(pair)
        used = slab_bytes(group)
        for sock in ends:
            set_cc(sock, "reno")
        used = (used - slab_bytes(group)) / len(ends)
        print(f"# {name}: {used:.0f} bytes for each end")
        expect_in(f"{name}: bytes for each end", used, least, 4608)
        for sock in ends:
            sock.close()


def test_notes_of_namespaces():
    """The cgroups of both ends are charged for the handshake tables of their namespaces, 64 KB each."""
    group = cgroup()
    pairs = [Pair() for _ in range(10)]
    ends = [(pair, pair.listen()) for pair in pairs]
    used = slab_bytes(group)
    ends += [pair.connect(listener) for pair, listener in ends]
    used = (slab_bytes(group) - used) / len(pairs)
    print(f"# {used:.0f} bytes for each pair")
    expect_in("bytes for two namespaces with a connection", used, 2 * 65000, 2 * 65000 + 65536)


def test_flows_of_a_namespace():
    """A connection beyond the limit runs classic and is counted; a flow that ends makes room for another flow."""
    pair = Pair()
    pair.s.sysctl("net.hpcc.max_flows", 3)
    ends = connected(pair, 5)
    expect("congestion controls", [get_cc(sock) for sock in ends[1::2]], 3 * ["hpcc"] + 2 * ["hpcc-classic"])
    expect("flows of the client", len(pair.c.flows()), 5)
    expect("agreed, beyond the limit", [pair.s.counters()[name] for name in ("agreed", "flow_limit", "no_memory")],
           [3, 2, 0])
    # A socket that could not get a flow gets a flow later, in place of another socket.
    set_cc(ends[1], "reno")
    for sock, mode in (ends[-1], "hpcc"), (ends[1], "hpcc-classic"):
        set_cc(sock, "hpcc")
        expect("congestion control of a socket that returns", get_cc(sock), mode)
    for sock in ends:
        sock.close()
    for ns in pair.c, pair.s:
        ns.expect_no_flows()
    pair.s.sysctl("net.hpcc.max_flows", 0)
    ends = connected(pair, 5, 5001)
    expect("flows without a limit of the namespace", len(pair.s.flows()), 5)


def test_flows_of_the_machine():
    """The limit of the initial namespace, which root of the machine sets, also applies in all other namespaces."""
    limit = "nsenter -t 1 -n sysctl -qw net.hpcc.max_flows="
    defer(run, limit + "0")
    run(limit + "2")
    pair = Pair()
    for ns in pair.c, pair.s:
        ns.sysctl("net.hpcc.max_flows", 1 << 24)
    connected(pair, 4)
    for ns in pair.c, pair.s:
        expect("flows, flow_limit", (len(ns.flows()), ns.counters()["flow_limit"]), (2, 2))


main(modules=["sch_hpcc", "tcp_hpcc"])
