#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""What the qdisc hpcc counts of a packet: its bytes on the link, and its memory."""

import subprocess
import sys
from pathlib import Path

sys.path[0] += "/.."
from lib.frames import THREE, cable, eth, ip4, seg4
from lib.ktap import defer, expect, expect_in, main

MSS, HEAD, OVERHEAD, VLAN = 1000, 54 + len(THREE), 24, 4
MEMORY_MAX = Path("/sys/module/sch_hpcc/parameters/memory_max_mb")


def run(*lines):
    """Run commands, where the device has no qdisc."""
    subprocess.run("tc qdisc del dev v0 root 2>/dev/null", shell=True, check=False)
    for line in lines:
        subprocess.run(line.split(), check=True)


def frame(size, tags=(), partial=False):
    """A TCP segment with so much data."""
    return eth(ip4(seg4(payload=bytes(size), partial=partial)), tags=tags)


def charged(wire, send):
    """The bytes on the link that the port counts for what is sent, and the frames that arrive."""
    before = wire.stats()["tx_bytes"]
    send()
    frames = []
    while got := wire.receive(0.2):
        frames.append(got[1])
    return wire.stats()["tx_bytes"] - before, frames


def test_size_table_of_segments():
    """Segments of a GSO packet take what the size table says, as packets of their length do."""
    wire = cable()
    for table in "overhead 40", "overhead -14", "mpu 1500", "linklayer atm overhead 8":
        for above in False, True:
            if above:
                run(f"tc qdisc add dev v0 root handle 9: stab {table} prio",
                    "tc qdisc add dev v0 parent 9:1 handle 1: hpcc rate 1gbit",
                    "tc filter add dev v0 parent 9: protocol all prio 1 matchall classid 9:1")
            else:
                run(f"tc qdisc add dev v0 root handle 1: stab {table} hpcc rate 1gbit")
            sizes = [MSS, MSS, 200]
            single, _ = charged(wire, lambda: [wire.send(frame(size)) for size in sizes])
            whole, frames = charged(wire, lambda: wire.send_gso(frame(sum(sizes), partial=True), MSS))
            expect("segments", sorted(len(one) for one in frames), sorted(HEAD + size for size in sizes))
            expect(f"stab {table}, {'above' if above else 'own'}", whole, single)


def test_tag_beside_the_packet():
    """A VLAN tag that the device or the kernel is yet to insert takes its bytes on the link."""
    wire = cable()
    run("ip link add link v0 name v0.5 type vlan id 5", "ip link set v0.5 up arp off")
    tagged, gso = wire.open_tx("v0.5"), wire.open_tx("v0.5", gso=True)
    for how in "rate 1gbit", "":
        for child in [], ["tc qdisc add dev v0 parent 1:1 pfifo"]:
            run(f"tc qdisc add dev v0 root handle 1: hpcc {how}", *child)
            taken, frames = charged(wire, lambda: tagged.send(frame(18)))
            expect("arrives with the tag", [one[12:16] for one in frames], [b"\x81\0\0\5"])
            expect(f"{how} {child}", taken, HEAD + 18 + VLAN + OVERHEAD)
            taken, _ = charged(wire, lambda: wire.send(frame(18, [(0x8100, 5)])))
            expect("in the packet", taken, HEAD + 18 + VLAN + OVERHEAD)
            taken, _ = charged(wire, lambda: wire.send_gso(frame(2500, partial=True), MSS, gso))
            expect("GSO", taken, 2500 + 3 * (HEAD + VLAN + OVERHEAD))


def test_memory_of_a_child():
    """A size table that makes packets short saves no memory."""
    defer(MEMORY_MAX.write_text, MEMORY_MAX.read_text("ascii"))
    MEMORY_MAX.write_text("2", "ascii")
    wire = cable()
    run("tc qdisc add dev v0 root handle 1: stab overhead -1400 hpcc rate 1kbit limit 100mb",
        "tc qdisc add dev v0 parent 1:1 handle 2: pfifo limit 100000")
    for _ in range(3000):
        wire.send(frame(1400 - HEAD))
    # A packet of 1400 bytes takes 1800 to 4096.
    expect_in("packets in 2 MB", 3000 - wire.stats()["drop_limit"], (2 << 20) // 4096, (2 << 20) // 1800)
    subprocess.run("tc qdisc change dev v0 root handle 1: hpcc rate 0".split(), check=True)
    charged(wire, lambda: None)
    _, frames = charged(wire, lambda: [wire.send(frame(1400 - HEAD)) for _ in range(400)])
    expect("after those have left", len(frames), 400)


def test_memory_of_a_child_that_drops():
    """What a child drops as it gets another packet is free again at once."""
    defer(MEMORY_MAX.write_text, MEMORY_MAX.read_text("ascii"))
    MEMORY_MAX.write_text("1", "ascii")
    wire = cable()
    for child in "pfifo_head_drop limit 100", "sfq limit 100 headdrop", "fq_codel limit 100":
        run("tc qdisc add dev v0 root handle 1: hpcc rate 1kbit limit 100mb",
            f"tc qdisc add dev v0 parent 1:1 handle 2: {child}")
        for number in range(3000):
            wire.send(frame((1400 - HEAD, 60)[number % 2]))
        expect(f"{child}: refused for memory", wire.stats()["drop_limit"], 0)


def test_longer_than_the_limit():
    """A GSO packet that the limit never has room for is split, as it would never leave."""
    wire = cable()
    run("tc qdisc add dev v0 root handle 1: hpcc no-split-gso limit 66000b")
    for size, mss, whole in (50000, MSS, True), (60000, 100, False):
        _, frames = charged(wire, lambda size=size, mss=mss: wire.send_gso(frame(size, partial=True), mss))
        expect(f"segments of {mss} bytes: left whole", [len(one) for one in frames] == [HEAD + size], whole)
        expect("something leaves", bool(frames), True)


if __name__ == "__main__":
    main(sys.modules[__name__], ["sch_hpcc"])
