#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""qdisc/class.c: the leaves of a classful qdisc are classes, each of which is a link for its flows."""

import socket
import struct
import time

from lib.kernel import unload, users
from lib.ktap import expect, expect_in, main
from lib.modprobe import modprobe
from lib.net import Netns
from lib.packet import packet_socket
from lib.star import DRR, HTB, PACKET, PRIO, SO_RCVBUFFORCE, SO_SNDBUFFORCE, Star, pump, shares

GBIT = 10 ** 10
SO_TIMESTAMPNS = 35


def only_telemetry(*hosts):
    for ns in hosts:
        counters = ns.counters()
        expect("counters", {name: counters[name] for name in ("fallbacks", "unseen_loss", "tx_excess_ignored",
                                                             "checksum_ignored", "timeouts") if counters.get(name)}, {})


def test_alone():
    """A class whose neighbour is idle has the whole link."""
    for number, name in enumerate(("10:1", "10:2")):
        star = Star(DRR)
        share, queue = shares(star, star.connect(star.hosts[number]))[name]
        expect_in(name, share, 0.93, 1)
        expect_in("queue", queue, 0, 4)
        only_telemetry(star.hosts[number])


def both(parent):
    """Two hpcc classes share the link 1:3."""
    star = Star(parent)
    found = shares(star, star.connect(star.a), star.connect(star.c, port=5001))
    for name, share in ("10:1", 0.25), ("10:2", 0.75):
        expect_in(name, found[name][0], 0.93 * share, 1.2 * share)
        expect_in("queue", found[name][1], 0, 4)
    only_telemetry(star.a, star.c)


def beside_cubic(parent):
    """A class beside a class that is always full."""
    for number, share in enumerate((0.25, 0.75)):
        options = ["class {one}bit", "class {other}bit"]
        options[1 - number] += " nostamp"
        star = Star(parent, *options)
        hosts = star.hosts[:2]
        found = shares(star, star.connect(hosts[number]), star.connect(hosts[1 - number], "cubic", 5001))
        expect_in("share", found[f"10:{number + 1}"][0], 0.93 * share, 1.05 * share)
        expect_in("queue", found[f"10:{number + 1}"][1], 0, 4)
        only_telemetry(hosts[number])


def test_both():
    both(DRR)


def test_beside_cubic():
    beside_cubic(DRR)


def test_both_below_htb():
    both(HTB)


def test_beside_cubic_below_htb():
    beside_cubic(HTB)


class Clock:
    """Records when TCP packets with data pass a device."""

    def __init__(self, ns, dev):
        self.sock = packet_socket(ns, dev)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 28)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.sock.setblocking(False)

    def times(self, source):
        """Return {sequence number: ns of the first time} of a host's packets."""
        return self.all().get(source, {})

    def all(self):
        found = {}
        while True:
            try:
                frame, extra, *_ = self.sock.recvmsg(1 << 17, 64)
            except BlockingIOError:
                return found
            if frame[12:14] == b"\x08\x00" and frame[23] == 6 and len(frame) > 200:
                sec, nsec = struct.unpack_from("=qq", extra[0][2])
                found.setdefault(frame[29], {}).setdefault(struct.unpack_from("!I", frame, 38)[0], sec * 10 ** 9 + nsec)


def rate(times, start, end):
    """Return the share of the link that packets had in an interval."""
    return sum(start <= when < end for when in times.values()) * PACKET * 8e9 / GBIT / (end - start)


def test_share_back():
    """A class whose neighbour was idle has the whole link, and gives back the neighbour's share in 2 round trips. Then
    it sends little until its queue has left, which takes three round trips, but the link never lacks its packets.
    """
    star = Star(DRR)
    one, other = star.connect(star.a), star.connect(star.c, port=5001)
    pump(0.01, one)
    clocks = Clock(star.switch, "in0"), Clock(star.switch, "in1"), Clock(star.b, "eth0")
    pump(0.0005, one, step=0.00001)
    pump(0.001, one, other, step=0.00001)
    sent, start, got = clocks[0].times(1), min(clocks[1].times(2).values()), clocks[2].all()
    own, got = got[1], got[2]
    rtt = star.a.flow()["T_ns"]
    for turn in range(-2, 8):
        print(f"# T {turn}: sent {rate(sent, start + turn * rtt, start + turn * rtt + rtt):.2f}, "
              f"neighbour gets {rate(got, start + turn * rtt, start + turn * rtt + rtt):.2f}"
              f" own {rate(own, start + turn * rtt, start + turn * rtt + rtt):.2f}")
    expect_in("before", rate(sent, start - 10 * rtt, start), 0.93, 1)
    expect_in("after 2 round trips", rate(sent, start + 2 * rtt, start + 6 * rtt), 0, 0.4)
    for turn in range(2, 18, 4):
        share = rate(got, start + turn * rtt, start + (turn + 4) * rtt)
        expect_in("neighbour after 2 round trips", share, 0.93 * 0.75, 1)
    expect_in("the class after 2 round trips", rate(own, start + 2 * rtt, start + 18 * rtt), 0.93 * 0.25, 1)


def test_new_weights():
    """The parent changes its weights under traffic, and later the port is told of the new rates."""
    star = Star(DRR)
    flows = star.connect(star.a), star.connect(star.c, port=5001)
    pump(0.01, *flows)
    star.switch.tc("class change dev out parent 10: classid 10:1 drr quantum 4542",
                   "class change dev out parent 10: classid 10:2 drr quantum 1514")
    found = shares(star, *flows)
    expect_in("sum with the old rates", found["10:1"][0] + found["10:2"][0], 0.93, 1)
    star.leaf(2, "class {one}bit", "change")
    star.leaf(1, "class {other}bit", "change")
    found = shares(star, *flows)
    for name, share in ("10:1", 0.75), ("10:2", 0.25):
        expect_in(name, found[name][0], 0.93 * share, 1.2 * share)
        expect_in("queue", found[name][1], 0, 4)
    only_telemetry(star.a, star.c)


def test_long_pause():
    """After a pause in which no counter of a class may overflow, the class has its share again."""
    star = Star(DRR)
    flows = star.connect(star.a), star.connect(star.c, port=5001)
    pump(0.005, *flows)
    time.sleep(18)
    both_again = shares(star, *flows)
    for name, share in ("10:1", 0.25), ("10:2", 0.75):
        expect_in(name, both_again[name][0], 0.93 * share, 1.2 * share)
    time.sleep(18)
    expect_in("alone", shares(star, flows[0])["10:1"][0], 0.93, 1)
    only_telemetry(star.a, star.c)


def bursts(star, packets):
    """Return a function that sends 30 % of the link in bursts from a, if it is called often enough."""
    with star.a:
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with star.b:
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("10.0.0.3", 9))
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)
    star.a.tc("qdisc replace dev eth0 root pfifo limit 10000")
    period = packets * PACKET * 8 / GBIT / 0.3
    state = {"next": time.monotonic()}

    def each():
        if time.monotonic() < state["next"]:
            return
        state["next"] += period
        for _ in range(packets):
            out.sendto(bytes(1472), ("10.0.0.3", 9))

    return each


def test_strict_priority():
    """Bursts of a class above take 30 %; hpcc below takes the rest without long queues."""
    for packets in 16, 64, 256:
        star = Star(PRIO, "class 3gbit nostamp limit 4mb", "class 7gbit")
        expect("qlen", [qdisc["options"]["qlen"] for qdisc in star.leaves().values()], ["sojourn"] * 2)
        each, flow = bursts(star, packets), star.connect(star.c)
        pump(0.02, flow, step=0.00002, each=each)
        clocks = Clock(star.switch, "in1"), Clock(star.b, "eth0")
        found = shares(star, flow, warm=0, each=each)
        here, there = (clock.times(2) for clock in clocks)
        waits = sorted(there[seq] - here[seq] for seq in here if seq in there)
        burst_ns = packets * PACKET * 8e9 / GBIT
        p99 = (waits[len(waits) * 99 // 100] - waits[0]) / burst_ns
        total = sum(share for share, _ in found.values())
        print(f"# bursts of {packets} packets: total {total:.3f}, p99 sojourn {p99:.2f} bursts")
        expect_in("total", total, 0.9, 1)
        expect_in("p99 of the sojourn time, bursts", p99, 0, 3)
        only_telemetry(star.c)


def test_responses_below_bursts():
    """A class below strict priorities responds when its own queue is long, with qlen less the time of the burst."""
    star = Star(PRIO, "class 3gbit nostamp limit 4mb", "class 7gbit respond 12kb every 10us")
    each, flow = bursts(star, 64), star.connect(star.c)
    found = shares(star, flow, each=each)
    leaf = star.leaves()["10:2"]["hpcc"]
    expect_in("responses", leaf["responses"], 1, 10000)
    expect_in("total", sum(share for share, _ in found.values()), 0.9, 1)
    only_telemetry(star.c)


def test_child_below_bursts():
    """Below strict priorities a class with a child does not know arrival times: qlen is the child's queue."""
    star = Star(PRIO, "class 3gbit nostamp limit 4mb", "class 7gbit")
    star.switch.tc("qdisc add dev out parent 22:1 handle 30: pfifo limit 1000")
    each, flow = bursts(star, 16), star.connect(star.c)
    found = shares(star, flow, each=each)
    expect("qlen", star.leaves()["10:2"]["options"]["qlen"], "sojourn")
    # With arrival times (test_strict_priority) it is more than 0.93.
    expect_in("total", sum(share for share, _ in found.values()), 0.8, 1)
    only_telemetry(star.c)


# ---- Configuration ----

def leaf_device(parent="drr", classes=2, mbps=10000):
    """Return a namespace and a function that runs tc for leaf N of its device, and returns the error message."""
    # The namespaces of earlier tests end later than the tests.
    for _ in range(300):
        if not users("sch_hpcc_class"):
            break
        time.sleep(0.1)
    ns = Netns()
    ns.ip("tuntap add v0 mode tap")
    ns.run("ethtool", "-s", "v0", "speed", str(mbps), "duplex", "full", "autoneg", "off")
    ns.ip("link set v0 up")
    ns.tc(f"qdisc add dev v0 root handle 10: {parent}",
          *(f"class add dev v0 parent 10: classid 10:{number:x} drr" for number in range(1, classes + 1)
            if parent == "drr"))

    def leaf(verb, number, options, handle=None):
        words = f"qdisc {verb} dev v0 parent 10:{number:x} handle {handle or number + 16:x}: hpcc {options}".split()
        return ns.run("tc", *words, check=False).strip()

    return ns, leaf


def options_of(ns, parent):
    return next(qdisc["options"] for qdisc in ns.qdiscs("v0") if qdisc.get("parent") == parent)


def test_sum_of_classes():
    """The classes of a port are at most the link together; a qdisc that replaces another takes its place."""
    ns, leaf = leaf_device()
    more = "Error: class: 1 kbit/s .. bandwidth less the port's other classes."
    expect("alone too much", leaf("add", 1, "bandwidth 10gbit class 10001mbit"), more)
    expect("first", leaf("add", 1, "bandwidth 10gbit class 4gbit"), "")
    expect("together too much", leaf("add", 2, "bandwidth 10gbit class 6001mbit"), more)
    expect("second", leaf("add", 2, "bandwidth 10gbit class 6gbit"), "")
    for handle in 40, 50:
        expect("replaced", leaf("replace", 2, "bandwidth 10gbit class 6gbit", handle), "")
    expect("more by a change", leaf("change", 2, "class 7gbit", 50), more)
    expect("another port", leaf("change", 2, "port 3 class 7gbit", 50), "")
    expect("which comes back", leaf("change", 2, "port 0", 50), more)
    expect("another link", leaf("change", 2, "port 0 class 1gbit bandwidth 9gbit", 50),
           "Error: class: all classes of a port need the same bandwidth.")
    expect("shown", {name: options_of(ns, "10:2")[name] for name in ("class", "port", "bandwidth", "qlen")},
           {"class": 875000000, "port": 3, "bandwidth": 1250000000, "qlen": "class"})


def test_slower_device():
    """A device that becomes slower than its classes: requests that do not concern the classes succeed."""
    ns, leaf = leaf_device()
    for number in 1, 2:
        expect("add", leaf("add", number, f"class {4 * number - 2}gbit"), "")
    ns.run("ethtool", "-s", "v0", "speed", "100", "duplex", "full", "autoneg", "off")
    ns.ip("link set v0 mtu 1400", "link set v0 down", "link set v0 up")
    expect("limit, marking", leaf("change", 1, "limit 2mb marking ldcp qlen port"), "")
    expect("the same class", leaf("change", 1, "class 2gbit"), "")
    expect("another class", leaf("change", 1, "class 1gbit").startswith("Error: class:"), True)
    expect("shown", options_of(ns, "10:1")["class"], 250000000)


def test_changes_keep_the_rest():
    """A change of the rate keeps qlen and other options; class 0 resets qlen. The default of qlen is the parent's."""
    for parent, default in ("drr", "class"), ("prio", "sojourn"):
        ns, leaf = leaf_device(parent)
        expect("add", leaf("add", 1, "class 1gbit bandwidth 10gbit limit 2mb"), "")
        expect("default", options_of(ns, "10:1")["qlen"], default)
        expect("qlen", leaf("change", 1, "qlen port"), "")
        expect("rate", leaf("change", 1, "class 2gbit"), "")
        shown = options_of(ns, "10:1")
        expect("kept", (shown["qlen"], shown["limit"], shown["class"]), ("port", 2 << 20, 250000000))
        expect("off", leaf("change", 1, "class 0"), "")
        expect("shown", {"class", "qlen"} & set(options_of(ns, "10:1")), set())
        expect("users", users("sch_hpcc_class"), 0)
        expect("on", leaf("change", 1, "class 1gbit"), "")
        expect("default again", options_of(ns, "10:1")["qlen"], default)
        ns.tc("qdisc del dev v0 root")


def test_refused():
    """A refused request says why, changes nothing, and does not hold the module."""
    ns, leaf = leaf_device()
    expect("add", leaf("add", 1, "bandwidth 10gbit"), "")
    shown = options_of(ns, "10:1")
    for options, why in (("class 1gbit rate 1gbit", "needs a classful parent, and neither rate nor delay"),
                         ("class 1gbit delay 1us", "needs a classful parent, and neither rate nor delay"),
                         ("class 11gbit", "1 kbit/s .. bandwidth less the port's other classes"),
                         ("class 1gbit limit 1kb", None), ("class 1gbit marking ldcp kmin 2mb", None),
                         ("qlen port", "qlen: needs class")):
        error = leaf("change", 1, options)
        expect(f"{options}: {error}", error.startswith("Error: ") and (why or "") in error, True)
        expect("options", options_of(ns, "10:1"), shown)
        expect("users", users("sch_hpcc_class") or 0, 0)
    expect("root", ns.run("tc", "qdisc", "add", "dev", "lo", "root", "hpcc", "class", "1gbit", check=False).strip(),
           "Error: class: needs a classful parent, and neither rate nor delay.")
    expect("rate of a class", (leaf("change", 1, "class 1gbit"), leaf("change", 1, "rate 1gbit")[:13]),
           ("", "Error: class:"))
    ns.tc("qdisc del dev v0 root")
    expect("unload", unload(ns, name="sch_hpcc_class"), True)
    modprobe("exit 1")
    ns.tc("qdisc add dev v0 root handle 10: prio")
    expect("missing", (leaf("add", 1, "class 1gbit"), leaf("add", 1, "")),
           ("Error: class: module sch_hpcc_class not loaded.", ""))


def test_most_classes():
    """A port has 255 classes, and not one more."""
    ns, leaf = leaf_device(classes=256)
    ns.tc(*(f"qdisc add dev v0 parent 10:{number:x} handle {number + 16:x}: hpcc class 1mbit"
            for number in range(1, 256)))
    expect("one more", leaf("add", 256, "class 1mbit"), "Error: class: at most 255 for a port.")
    expect("another port", leaf("add", 256, "class 1mbit port 7"), "")
    ns.tc("qdisc del dev v0 root")
    expect("users", users("sch_hpcc_class"), 0)


def test_changes_under_traffic():
    """The class ends, begins and changes while its packets wait: flows keep telemetry, and nothing is lost."""
    star = Star(DRR)
    flows = star.connect(star.a), star.connect(star.c, port=5001)
    pump(0.005, *flows)
    for options in ("class 0", "class 1gbit", "class 2500mbit qlen sojourn", "qlen port", "class 1kbit qlen class",
                    "class 0 port 9", "class 2500mbit port 0"):
        star.leaf(1, options, "change")
        pump(0.005, *flows)
    star.leaf(2, "class 7500mbit", "replace", "77:")
    found = shares(star, *flows, warm=0.01)
    expect_in("10:1", found["10:1"][0], 0.2, 0.35)
    expect_in("sum", sum(share for share, _ in found.values()), 0.93, 1)
    for ns in star.a, star.c:
        counters = ns.counters()
        expect("fallbacks", (counters["fallbacks"], counters["checksum_ignored"]), (0, 0))


main(modules=["sch_hpcc"])
