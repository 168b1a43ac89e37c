#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpcc between parents and children of many kinds (qdisc/core/child.c): each packet leaves or is counted as dropped."""

import errno
import json
import random
import subprocess

from lib.frames import THREE, cable, from_host
from lib.ktap import Skip, cases, expect, main

LINK, DEVICE = "rate 10mbit limit 1mb", "limit 1mb"
SEG_BYTES, HEAD_BYTES = 1000, 54 + len(THREE)

# A child with a low limit may also drop packets that it has queued before.
CHILDREN = ("pfifo limit 10", "pfifo_fast", "sfq limit 8 quantum 1514",
            "sfq limit 8 quantum 1514 headdrop",
            "red limit 20000 min 3000 max 9000 avpkt 1000 burst 4 probability 0.5",
            "netem delay 3ms 1ms", "netem loss 30% limit 20", "netem rate 8mbit limit 30",
            "tbf rate 8mbit burst 2000b limit 20000b", "fq", "fq limit 9 flow_limit 4",
            "fq_codel target 100us interval 1ms noecn", "fq_codel limit 9",
            "fq_codel memory_limit 16000", "codel limit 5", "pie limit 10",
            "cake bandwidth 8mbit", "cake memlimit 20000", "dualpi2", "prio",
            "hpcc node 9 port 9", "blackhole")
FEW = ("sfq limit 8 quantum 1514", "fq_codel limit 9", "netem delay 3ms 1ms", "tbf rate 8mbit burst 2000b limit 20000b")


def tc(line):
    """Run tc for the device. Return its error message if it fails."""
    what, how, *words = line.split()
    done = subprocess.run(["tc", what, how, "dev", "v0", *words], check=False, text=True, capture_output=True)
    return done.stderr if done.returncode else ""


def qdiscs():
    """Return all qdiscs with their statistics, the root first."""
    out = subprocess.run(["tc", "-s", "-j", "qdisc", "show", "dev", "v0"], check=True, capture_output=True).stdout
    return sorted(json.loads(out), key=lambda q: not q.get("root"))


def frame(host, size, **how):
    """Return a frame with a TCP segment from one of 256 hosts."""
    return from_host(host, payload=bytes(size - HEAD_BYTES), **how)


def send(wire, chance, gso):
    """Send 40 packets of three flows; with gso one in 8 is a GSO packet."""
    for i in range(40):
        host = chance.randrange(1, 4)
        try:
            if gso and i % 8 == 7:
                wire.send_gso(frame(host, chance.choice((4, 30)) * SEG_BYTES, partial=True), SEG_BYTES)
            else:
                wire.send(frame(host, chance.choice((200, 1000))))
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise


def arrived(wire):
    """Receive packets until none arrives. Return the bytes that qdiscs count for them: one header for each segment."""
    count = 0
    while got := wire.receive(0.3):
        size = len(got[1])
        segs = -((size - HEAD_BYTES) // -SEG_BYTES) if size > 1514 else 1
        count += size + (segs - 1) * HEAD_BYTES
    return count


def through(wire, what, gso, during=None):
    """Send packets through the tree, and run a command while the packets are queued."""
    chance = random.Random(what)
    before = qdiscs()[0]
    send(wire, chance, gso)
    if during:
        expect(during, tc(during), "")
    count = arrived(wire)
    after = qdiscs()
    root = after[0]
    expect(f"{what}: not empty", [(q["kind"], q["qlen"], q["backlog"]) for q in after if q["qlen"] or q["backlog"]], [])
    expect(f"{what}: qlen of hpcc", [q["hpcc"]["qlen"] for q in after if q["kind"] == "hpcc" and q["hpcc"]["qlen"]], [])
    expect(f"{what}: bytes", root["bytes"] - before["bytes"], count)
    if not gso and not during:
        expect(f"{what}: packets", root["packets"] + root["drops"] - before["packets"] - before["drops"], 40)
    return count


def plant(options, child, above=(), parent="root"):
    """Set up hpcc with a child, below other qdiscs. Return whether the kernel has that child."""
    tc("qdisc del root")
    for line in above:
        if error := tc(line):
            raise Skip(f"needs {line}: {error.strip()}")
    expect("hpcc", tc(f"qdisc add {parent} handle 1: hpcc {options}"), "")
    error = tc(f"qdisc add parent 1:1 handle 2: {child}")
    if error:
        print(f"# without {child}: {error.splitlines()[0]}")
    return not error


def try_children(wire, options, children, above=(), parent="root"):
    """Send packets through children of each kind."""
    for child in children:
        if plant(options, child, above, parent):
            through(wire, f"{child}: packets", gso=False)
            count = through(wire, f"{child}: GSO", gso=True)
            expect(f"{child}: something arrived", count > 0, child != "blackhole")


def test_children_of_a_link():
    """The rate of hpcc's own link makes packets wait."""
    try_children(cable(), LINK, CHILDREN)


def test_children_of_a_device():
    """The tbf above hpcc makes packets wait, and GSO packets are not split."""
    try_children(cable(), DEVICE, CHILDREN,
                 ["qdisc add root handle 9: tbf rate 8mbit burst 70kb limit 1mb"], "parent 9:1")


def test_replaced_while_packets_wait():
    """Each child is replaced by the next child, and the last child by hpcc's own queue."""
    wire = cable()
    for child, following in zip(CHILDREN, CHILDREN[1:] + CHILDREN[:1]):
        if plant(LINK, child):
            through(wire, f"{child}: replaced", True, "qdisc replace parent 1:1 handle 3: pfifo limit 5")
            tc(f"qdisc replace parent 1:1 handle 2: {following}")
            through(wire, f"{following}: deleted", True, "qdisc del parent 1:1")
            through(wire, "hpcc's own queue", False)


# htb deactivates a class when the queue of the class is empty; drr serves a class while the class has packets; netem
# passes a packet to its child only when netem itself is dequeued; tbf peeks at a packet before it dequeues it.
@cases(below_htb=("htb", "default 1", "class add parent 9: classid 9:1 htb rate 8mbit burst 1 cburst 1 quantum 1514"),
       below_drr=("drr", "", "class add parent 9: classid 9:1 drr",
                  "filter add parent 9: protocol all prio 1 matchall classid 9:1"),
       below_prio=("prio", "bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"),
       below_netem=("netem", "delay 1ms limit 1000"), below_tbf=("tbf", "rate 8mbit burst 70kb limit 1mb"))
def below(kind, options, *more):
    """Send packets through a few children below a parent of this kind."""
    above = [f"qdisc add root handle 9: {kind} {options}", *more]
    wire = cable()
    for ours in LINK, DEVICE:
        try_children(wire, ours, FEW, above, "parent 9:1")


main(modules=["sch_hpcc"])
