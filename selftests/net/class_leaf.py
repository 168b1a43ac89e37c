#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Leaves of a classful qdisc that are classes: the values in their records below each kind of parent."""

import socket

from lib.kernel import virtual_time
from lib.ktap import Skip, expect, expect_in, main, need_virtual_time
from lib.net import Netns
from lib.packet import FORWARD, FREE, MACS, Segment, addresses, eth, ipv4, option, packet_socket, tcp
from lib.path import CARRIERS, MBPS, carrier_path
from lib.star import DRR, ETS, HFSC, HTB, PRIO, SO_RCVBUFFORCE, SO_SNDBUFFORCE, Star, shares
from lib.tcp import pattern, transfer

ENDS = addresses("10.0.0.1", "10.0.0.2")
SO_PRIORITY = 12
OVERHEAD = 24
PARENTS = {"drr": DRR, "ets": ETS, "hfsc": HFSC, "htb": HTB, "prio": PRIO}


def frame(payload=b"", scale=0):
    """Return a frame with a request."""
    return eth(ipv4(ENDS, tcp(ENDS, option(FORWARD, [FREE] * 3, scale=scale, hops=0), payload)))


class Cable:
    """A device whose classful qdisc 10: has leaves "hpcc", and a socket that gets what leaves it."""

    frame = frame()

    def __init__(self, *lines, mtu=1500):
        self.ns = Netns()
        self.ns.ip(f"link add v0 mtu {mtu} type veth peer name v1 mtu {mtu}", "link set v0 up arp off",
                   "link set v1 up arp off")
        self.ns.tc(*lines)
        self.tx, self.rx = packet_socket(self.ns, "v0", 0), packet_socket(self.ns, "v1")
        self.tx.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        self.rx.settimeout(2)

    def send(self, minor, data):
        """Send a frame through class 10:minor."""
        self.tx.setsockopt(socket.SOL_SOCKET, SO_PRIORITY, 0x100000 | minor)
        self.tx.send(data)

    def receive(self):
        """Return the next of our frames."""
        while (got := self.rx.recv(1 << 17))[:12] != MACS:
            pass
        return got

    def read(self):
        """Return the record of the next of our frames."""
        return Segment(self.receive()[14:]).telemetry(FORWARD).records[0]

    def record(self, minor):
        """Return the record of a frame that class 10:minor sends."""
        self.send(minor, self.frame)
        return self.read()


def drr_classes(count, quantum=1514):
    return ["qdisc add dev v0 root handle 10: drr", *(f"class add dev v0 parent 10: classid 10:{number:x} drr "
                                                      f"quantum {quantum}" for number in range(1, count + 1))]


def test_tags():
    """The records of all classes of a port have different tags, however many classes there were before."""
    def leaf(number, verb="add", options="class 1mbit bandwidth 1gbit"):
        return f"qdisc {verb} dev v0 parent 10:{number:x} handle {number + 16:x}: hpcc node 1 {options}"

    cable = Cable(*drr_classes(256), leaf(256, options=""), *map(leaf, range(1, 256)))
    tags = [cable.record(number)["tag"] for number in range(1, 257)]
    expect("tags of 255 classes and of a queue that is no class", len(set(tags)), 256)
    cable.ns.tc(*(f"qdisc del dev v0 parent 10:{number:x}" for number in range(3, 256)))
    again = []
    for _ in range(300):
        cable.ns.tc(leaf(2, "change", "class 0"), leaf(2, "change"))
        again.append(cable.record(2)["tag"])
    expect("tags of a class that ended and began again", (len(set(again)), tags[0] in again), (254, False))
    expect("the other class", cable.record(1)["tag"], tags[0])
    # A class that moves to a port gets a number that is free there.
    cable.ns.tc(leaf(3, options="class 1mbit bandwidth 1gbit port 9"), leaf(3, "change", "port 0"))
    expect("classes of one port", len({cable.record(number)["tag"] for number in (1, 2, 3, 256)}), 4)


# ---- Parents ----

def below(name, mbps=1000, options=("", "")):
    """Return a cable whose parent of this kind has two classes of 1:3."""
    rates = {"link": mbps * 10 ** 6, "one": mbps * 250000, "other": mbps * 750000}
    lines = [line.format(**rates).replace("dev out", "dev v0") for line in PARENTS[name]]
    try:
        return Cable(f"qdisc add dev v0 root handle 10: {lines[0]}", *lines[1:], *(
            f"qdisc add dev v0 parent 10:{number} handle {number + 1}: hpcc node 1 bandwidth {mbps}mbit "
            f"class {rate}bit {how}" for number, rate, how in zip((1, 2), (rates["one"], rates["other"]), options)))
    except AssertionError as error:
        if "kind is unknown" in str(error):
            raise Skip(f"no {name}") from error
        raise


def test_values_below_parents():
    """Below each kind of parent the records of a class have its own tag, and a tx that only its own packets advance."""
    missing = []
    for name in PARENTS:
        try:
            cable = below(name)
        except Skip as reason:
            missing.append(str(reason))
            continue
        first = cable.record(1)
        others = [cable.record(2) for _ in range(20)]
        last = cable.record(1)
        own_ns = (len(cable.frame) + OVERHEAD) * 8
        grown = (last["tx"] - first["tx"]) % (1 << 20)
        # prio has no limits: a wait counts in full.
        if name != "prio" or virtual_time():
            expect_in(f"{name}: tx of the class", grown, own_ns - 1, 4 * own_ns + 1)
        expect(f"{name}: tags", {len({record["tag"] for record in some}) for some in ([first, last], others)}, {1})
        expect(f"{name}: tags of both classes", len({first["tag"], others[0]["tag"]}), 2)
        leaves = [qdisc for qdisc in cable.ns.qdiscs("v0") if qdisc["kind"] == "hpcc"]
        expect(f"{name}: stamped", sorted(leaf["hpcc"]["stamped"] for leaf in leaves), [2, 20])
        qlen = "sojourn" if name == "prio" else "class"
        expect(f"{name}: qlen", [leaf["options"]["qlen"] for leaf in leaves], [qlen] * 2)
    print(f"# {', '.join(missing) or 'all parents'}")


def shares_below(name):
    """Two classes of 1:3 have their shares of the data on a slow link.

    In real time the machine may pause, and then both classes send less: compare their shares with each other.
    """
    try:
        star = Star(PARENTS[name], mbps=8, delay="20ms", base_rtt_ns=100000000, host_mbps=8)
    except AssertionError as error:
        if "kind is unknown" in str(error):
            raise Skip(f"no {name}") from error
        raise
    found = shares(star, star.connect(star.a), star.connect(star.c, port=5001), warm=4, seconds=4, step=0.001)
    used = sum(found[f"10:{number}"][0] for number in (1, 2))
    if virtual_time():
        expect_in(f"{name}: both classes", used, 0.9, 1)
    for number, share in (1, 0.25), (2, 0.75):
        leaf = star.leaves()[f"10:{number}"]
        expect_in(f"{name}: class {number}", found[f"10:{number}"][0] / used, 0.7 * share, 1.4 * share)
        expect_in(f"{name}: stamped", leaf["hpcc"]["stamped"], 100, 1000000)
    for ns in star.a, star.c:
        expect("mode", ns.flow()["mode"], "telemetry")


def test_shares_below_ets():
    shares_below("ets")


def test_shares_below_hfsc():
    shares_below("hfsc")


def test_shares_below_htb():
    shares_below("htb")


def test_peek():
    """A packet that a parent only looks at has not started: its record has the time at which it leaves."""
    cable = Cable("qdisc add dev v0 root handle 10: tbf rate 8kbit burst 100 limit 100kb",
                  "qdisc add dev v0 parent 10:1 handle 2: hpcc node 1 bandwidth 1gbit class 1gbit")
    for _ in range(3):
        cable.send(1, frame(scale=10))
    records = [cable.read()]
    if virtual_time():
        waiting = cable.ns.port("v0")
        expect("packets that started, packets that wait", (waiting["hpcc"]["tx_packets"], waiting["qlen"]), (1, 2))
    records += [cable.read(), cable.read()]
    # At 1000 bytes/s a packet of 82 bytes leaves each 82 ms. The parent looks at the next packet as soon as one left.
    passed = [(later["ts"] - sooner["ts"]) % (1 << 20) * 1.024e-3 for sooner, later in zip(records, records[1:])]
    for ms in passed[1:]:
        expect_in("time between packets, ms", ms, *((75, 90) if virtual_time() else (60, 1000)))
    expect("stamped", cable.ns.port("v0")["hpcc"]["stamped"], 3)


def test_huge_packets():
    """With the largest MTU, and the lowest and highest rates, records stay valid."""
    for rate, bandwidth in ("1kbit", "1kbit"), ("1kbit", "10tbit"), ("10tbit", "10tbit"):
        for qlen in "class", "sojourn":
            leaf = f"hpcc node 1 limit 1mb bandwidth {bandwidth}"
            cable = Cable(*drr_classes(2, 65535), f"qdisc add dev v0 parent 10:2 handle 3: {leaf}",
                          f"qdisc add dev v0 parent 10:1 handle 2: {leaf} class {rate} qlen {qlen}", mtu=65535)
            huge = frame(bytes(65000))
            for _ in range(3):
                for number in 1, 2:
                    cable.send(number, huge)
                    cable.receive()
            records = [cable.record(1) for _ in range(5)]
            expect(f"class {rate} of {bandwidth}, qlen {qlen}", [record["qlen"] for record in records], [0] * 5)


def test_carriers():
    """Each carrier below a class: flows get its telemetry, and the class has the whole link."""
    # A slow machine acknowledges so late that the carrier counts as silent.
    need_virtual_time()
    for name, how in CARRIERS.items():
        path, delay = carrier_path(name, switches=1), how.get("delay", "20us")
        path.change(1, f"hpcc rate {MBPS}mbit delay {delay} nostamp")
        path.switches[0].tc(
            "qdisc add dev right parent 1:1 handle 10: drr",
            "class add dev right parent 10: classid 10:1 drr quantum 1514",
            f"qdisc add dev right parent 10:1 handle 20: hpcc bandwidth {MBPS}mbit class {MBPS // 2}mbit node 1 port 2 "
            f"stamp {how['stamp']}", "filter add dev right parent 10: protocol all prio 1 matchall classid 10:1")
        client, server = path.connect()
        for number in range(4):
            transfer((client, server, pattern(500000, number)))
        leaf = next(q for q in path.switches[0].qdiscs("right") if q.get("parent") == "10:1")
        counters = path.a.counters()
        expect(f"{name}: mode, stopped", (path.a.flow()["mode"], counters[f"{name}_stopped"]), ("telemetry", 0))
        expect_in(f"{name}: sent", counters[f"{name}_sent"], 10, 100000)
        expect_in(f"{name}: stamped", leaf["hpcc"]["stamped"], 10, 100000)
        path.no_errors()


if __name__ == "__main__":
    main(modules=["sch_hpcc"])
