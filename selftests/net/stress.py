#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Changes under traffic: of congestion controls, qdiscs, namespaces, modules. The
data have to arrive as they were, and nothing may be left behind.
"""

import os
import random
import sys
import time

from hpcc_net import (Pair, expect, expect_in, load, main, pattern, set_cc, transfer, users,
                      virtual_time)

SCALE = int(os.environ.get("HPCC_STRESS", "1"))
PORT = "hpcc rate 1gbit delay 20us marking ldcp"
NAMES = ("hpcc", "ldcp", "cubic", "reno")
MODULES = ("tcp_hpcc", "tcp_ldcp", "sch_hpcc")
# What may be said of a port while packets wait there.
CHANGES = ("marking off", "marking ldcp", "marking ldcp kmin 3kb kmax 9kb pmax 0.3 knonect 30kb",
           "nostamp", "stamp", "rate 300mbit", "rate 1gbit", "delay 50us", "delay 0us",
           "limit 200kb", "limit 1mb", "no-split-gso", "split-gso", "overhead 0", "overhead 24")


def several(pair, nr, nbytes):
    """Connections of all kinds, with data for both ways."""
    listener = pair.listen()
    ends = [pair.connect(listener, cc=NAMES[i % len(NAMES)]) for i in range(nr)]
    ways = []
    for i, (client, server) in enumerate(ends):
        ways += [(client, server, pattern(nbytes, i)), (server, client, pattern(nbytes // 4, i))]
    return ends, ways


def gone(modules):
    """Wait until nobody uses these modules. Return who still does."""
    for _ in range(300):
        left = [module for module in modules if users(module)]
        if not left:
            return left
        time.sleep(1)
    return left


def test_congestion_controls():
    """Eight connections of which one changes at a time."""
    pair = Pair(qdisc=PORT)
    ends, ways = several(pair, 8, 250000 * SCALE)
    rng = random.Random(1)
    turns = 0

    def switch():
        nonlocal turns
        turns += 1
        set_cc(rng.choice(rng.choice(ends)), rng.choice(NAMES))

    # Where time is real a transfer is over in a few turns.
    while turns < 100 * SCALE:
        transfer(*ways, each=switch)


def test_qdisc_changes():
    """One attribute after the other."""
    pair = Pair(qdisc=PORT)
    _, ways = several(pair, 4, 400000 * SCALE)
    rng = random.Random(2)
    turns = 0

    def change():
        nonlocal turns
        turns += 1
        if turns % 8 == 0:
            pair.c.tc(f"qdisc change dev eth0 root {'hpcc ' + rng.choice(CHANGES)}")

    while turns < 80 * SCALE:
        transfer(*ways, each=change)


def test_qdisc_replaced():
    """The whole queue goes, with what waits in it."""
    pair = Pair(qdisc=PORT)
    _, ways = several(pair, 4, 200000 * SCALE)
    others = ("pfifo", "hpcc rate 1gbit delay 20us", "hpcc", PORT)
    turns = 0

    def replace():
        nonlocal turns
        turns += 1
        if turns % 16 == 0:
            how = others[turns // 16 % len(others)]
            pair.c.tc(f"qdisc replace dev eth0 root handle {turns % 1000 + 1}: {how}")

    transfer(*ways, each=replace, timeout_s=600)
    pair.c.tc("qdisc del dev eth0 root")


def test_namespace_goes():
    """A namespace ends with connections and packets in it."""
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


def slab_kb():
    """What the kernel holds in objects, once those are gone that wait for a
    grace period, for a FIN or in TIME-WAIT.
    """
    before, now = 1 << 30, 1 << 29
    while now < before - 8:
        time.sleep(70 if virtual_time() else 1)
        with open("/proc/meminfo", encoding="ascii") as file:
            before, now = now, next(int(line.split()[1]) for line in file
                                    if line.startswith("SUnreclaim"))
    return now


def expect_no_growth(before_kb, times):
    """A leak of an object each time would show. Not where an object that was freed
    is kept to see who still uses it, nor where others use the kernel as well.
    """
    grown = slab_kb() - before_kb
    print(f"# slab after {times} more: {grown:+} KB")
    if virtual_time() and not os.path.exists("/sys/kernel/debug/kmemleak"):
        expect_in("KB more", grown, -1000000, 64 + times // 8)


def test_connections():
    """Born, used, closed."""
    pair = Pair(qdisc=PORT)
    listener = pair.listen()

    def some(nr):
        for i in range(nr):
            client, server = pair.connect(listener, cc=NAMES[i % 2])
            transfer((client, server, pattern(3000, i)))
            client.close()
            server.close()

    some(300)
    before = slab_kb()
    some(700 * SCALE)
    expect_no_growth(before, 700 * SCALE)


def test_nothing_is_left():
    """Of all that the tests before this one made."""
    expect("modules in use", gone(("tcp_hpcc", "tcp_ldcp")), [])


def test_reloads():
    """Modules come and go under eight connections, which are theirs in between."""
    pair = Pair(cc=("cubic", "cubic"), qdisc=PORT)
    listener = pair.listen()
    ends = [pair.connect(listener) for _ in range(8)]
    ways = [(client, server, pattern(30000, i)) for i, (client, server) in enumerate(ends)]
    steps = (lambda: choose(NAMES), lambda: choose(("cubic", "reno")), lambda: plug("pfifo"),
             lambda: [pair.c.run("rmmod", module) for module in reversed(MODULES)],
             lambda: [load(pair.c, module) for module in MODULES], lambda: plug(PORT))
    done = 0

    def choose(names):
        for i, (client, server) in enumerate(ends):
            set_cc(client, names[i % len(names)])
            set_cc(server, names[i % len(names)])

    def plug(qdisc):
        for ns in pair.c, pair.s:
            ns.tc(f"qdisc replace dev eth0 root {qdisc}")

    def step():
        nonlocal done
        steps[done % len(steps)]()
        done += 1

    def some(nr):
        target = done + nr * len(steps)
        while done < target:
            transfer(*ways, each=step, timeout_s=600)

    some(2)
    before = slab_kb()
    some(5 * SCALE)
    expect_no_growth(before, 5 * SCALE)
    while done % len(steps):
        step()


if __name__ == "__main__":
    main(sys.modules[__name__])
