#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Congestion controls, qdiscs, namespaces and modules change under traffic. The data have to arrive
unchanged, and no memory may remain allocated.

HPCC_STRESS=N multiplies all repetitions by N, HPCC_STRESS_ROUNDS=N makes N rounds of
congestion_controls, qdisc_changes, qdisc_replaced and reloads.
"""

import itertools
import os
import random
import threading
import time

from lib.kernel import load, unload, users, virtual_time
from lib.ktap import expect, expect_in, main
from lib.net import Pair
from lib.tcp import pattern, set_cc, transfer

SCALE = int(os.environ.get("HPCC_STRESS") or 1)
ROUNDS = int(os.environ.get("HPCC_STRESS_ROUNDS") or 0)
PORT = "hpcc rate 1gbit delay 20us marking ldcp"
NAMES = ("hpcc", "powertcp", "ldcp", "cubic", "reno")
MODULES = ("tcp_hpcc", "tcp_powertcp", "tcp_ldcp", "sch_hpcc")
# Changes to a port that are allowed while packets are queued.
CHANGES = ("marking off", "marking ldcp", "marking ldcp kmin 3kb kmax 9kb pmax 0.3 knonect 30kb", "nostamp", "stamp",
           "stamp above 2kb", "rate 300mbit", "rate 1gbit", "delay 50us", "delay 0us", "limit 200kb", "limit 1mb",
           "no-split-gso", "split-gso", "stats off", "stats on", "overhead 0", "overhead 24")
PORTS = ("pfifo", "hpcc rate 1gbit delay 20us", None, "hpcc", PORT)


def rounds(few):
    return ROUNDS or few * SCALE


class Traffic:
    """Connections that send until the with block ends. Two threads on different CPUs transfer data,
    and call `each` in every turn.
    """

    # Seconds between turns. Virtual time stops while programs run: without this pause nothing else
    # would run if the link has no rate.
    PAUSE_S = 20e-6 if virtual_time() else 0

    def __init__(self, ways, each=None):
        self.each = each
        self.turns = 0
        self.moved = threading.Condition()
        self.stop = False
        self.failed = None
        self.threads = [threading.Thread(target=self.drive, args=(half, sum(ways[half::2], ()))) for half in range(2)]

    def drive(self, half, ways):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[half % os.cpu_count()]})
        try:
            while not self.stop:
                transfer(*ways, timeout_s=600, each=self.turn)
        except Exception as why:
            self.failed = why
        with self.moved:
            self.stop = True
            self.moved.notify_all()

    def turn(self):
        """Count a turn: data can be sent or have arrived."""
        if self.each:
            self.each()
        if self.PAUSE_S:
            time.sleep(self.PAUSE_S)
        with self.moved:
            self.turns += 1
            self.moved.notify_all()

    def goes_on(self, turns):
        """Wait until this many turns have passed."""
        with self.moved:
            target = self.turns + turns
            self.moved.wait_for(lambda: self.turns >= target or self.stop)
        if self.failed:
            raise self.failed

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        for thread in self.threads:
            thread.join()
        if self.failed:
            raise self.failed


def several(pair, nr, nbytes):
    listener = pair.listen()
    ends = [pair.connect(listener, cc=NAMES[i % len(NAMES)]) for i in range(nr)]
    return ends, [((client, server, pattern(nbytes, i)), (server, client, pattern(nbytes // 4, i)))
                  for i, (client, server) in enumerate(ends)]


def slab_kb():
    """Return the KB of kernel objects, after a grace period and the end of FIN and TIME-WAIT states."""
    before, now = 1 << 30, 1 << 29
    while now < before - 8:
        time.sleep(70 if virtual_time() else 1)
        with open("/proc/meminfo", encoding="ascii") as file:
            before, now = now, next(int(line.split()[1]) for line in file if line.startswith("SUnreclaim"))
    return now


def expect_no_growth(some, few, times):
    """Call some(few), and then some(times). Fail if the second call increases the memory of kernel objects by as much
    as a leak of one object per round. A debug kernel keeps freed objects, and in real time other processes use memory
    as well: then few rounds show nothing.
    """
    some(few)
    before_kb = slab_kb()
    some(times)
    grown = slab_kb() - before_kb
    print(f"# slab: {before_kb} KB, after {times} more {grown:+} KB", flush=True)
    watched = os.path.exists("/sys/kernel/debug/kmemleak") or "kasan" in os.uname().release
    if not watched and (virtual_time() or ROUNDS):
        expect_in("KB more", grown, -1000000, (64 if virtual_time() else 512) + times // 8)


def test_congestion_controls():
    """Of eight connections one changes its congestion control at a time, on both CPUs."""
    ends, ways = several(Pair(qdisc=PORT), 8, 250000)
    rng = random.Random(1)

    def switch():
        set_cc(rng.choice(rng.choice(ends)), rng.choice(NAMES))

    def some(turns):
        with Traffic(ways, each=switch) as traffic:
            traffic.goes_on(turns)

    expect_no_growth(some, 20, rounds(100))


def storm(change, few):
    """Call change(ns, number) for the hosts in turn, each time after a few turns of the traffic."""
    pair, numbers = Pair(qdisc=PORT), itertools.count(1)
    _, ways = several(pair, 8, 100000)

    def some(nr):
        with Traffic(ways) as traffic:
            for number in itertools.islice(numbers, nr):
                traffic.goes_on(8)
                change((pair.c, pair.s)[number % 2], number)
            traffic.goes_on(8)

    expect_no_growth(some, 2, rounds(few))


def test_qdisc_changes():
    rng = random.Random(2)
    storm(lambda ns, _: ns.tc(f"qdisc change dev eth0 root hpcc {rng.choice(CHANGES)}"), 10)


def test_qdisc_replaced():
    """The whole qdisc is replaced, with the packets that are queued in it."""
    def replace(ns, number):
        how = PORTS[number // 2 % len(PORTS)]
        ns.tc(f"qdisc replace dev eth0 root handle {number}: {how}" if how else "qdisc del dev eth0 root")

    storm(replace, 10)


def test_namespace_goes():
    """A namespace is deleted with connections and queued packets in it."""
    for i in range(6 * SCALE):
        pair = Pair(4 if i % 2 else 6, qdisc=PORT)
        ends, _ = several(pair, 4, 1)
        for client, server in ends:
            client.setblocking(False)
            client.send(pattern(200000))
            server.close()
        (pair.s if i % 3 else pair.c).delete()
        for client, _ in ends:
            client.close()


def test_connections():
    pair = Pair(qdisc=PORT)
    listener = pair.listen()

    def some(nr):
        for i in range(nr):
            client, server = pair.connect(listener, cc=NAMES[i % 2])
            transfer((client, server, pattern(3000, i)))
            client.close()
            server.close()

    expect_no_growth(some, 300, 700 * SCALE)


def test_nothing_is_left():
    """Within 300 s the modules have no users."""
    for _ in range(300):
        if not (left := [module for module in ("tcp_hpcc", "tcp_ldcp") if users(module)]):
            break
        time.sleep(1)
    expect("modules in use", left, [])


def test_reloads():
    """Modules are loaded and unloaded under eight connections, which use the modules between reloads."""
    pair = Pair(cc=("cubic", "cubic"), qdisc=PORT)
    listener = pair.listen()
    ends = [pair.connect(listener) for _ in range(8)]
    ways = [((client, server, pattern(30000, i)),) for i, (client, server) in enumerate(ends)]

    def choose(names):
        for i, (client, server) in enumerate(ends):
            set_cc(client, names[i % len(names)])
            set_cc(server, names[i % len(names)])

    def plug(qdisc):
        for ns in pair.c, pair.s:
            ns.tc(f"qdisc replace dev eth0 root {qdisc}")

    steps = (lambda: choose(NAMES), lambda: choose(("cubic", "reno")), lambda: plug("pfifo"),
             lambda: expect("unload", [unload(pair.c, name=module) for module in reversed(MODULES)], [True] * len(MODULES)),
             lambda: [load(pair.c, module) for module in MODULES], lambda: plug(PORT))

    def at_once(nr):
        with Traffic(ways) as traffic:
            for _ in range(nr):
                for step in steps:
                    traffic.goes_on(4)
                    step()

    def in_turn(nr):
        left = list(steps) * nr
        while left:
            transfer(*sum(ways, ()), timeout_s=600, each=lambda: left and left.pop(0)())

    # Each time the kernel patches the code of netfilter's hooks, while the other CPU runs it: QEMU before 8.1
    # may stop at the breakpoint that is there for a moment (testing.rst). With few rounds, one process sends and
    # changes in turn, so this cannot happen.
    expect_no_growth(at_once if ROUNDS or virtual_time() else in_turn, 2, rounds(5))


main(modules=["sch_hpcc", "tcp_powertcp", "tcp_ldcp"])
