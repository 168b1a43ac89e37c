#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""No transfer waits for a delayed ACK, over combinations of MTU, rate, RTT, sample and carry, compared with cubic.
HPCC_STALL=all tries all combinations.
"""

import itertools
import os
import time

from lib.ktap import expect, expect_in, main, need_virtual_time
from lib.net import Netns, Pair, meet
from lib.tcp import get_cc, goodput_mbps, set_cc

MTUS = 576, 1500, 9000, 16384, 65535
MBPS = 1, 10, 100, 1000, 10000, 100000
DELAYS = "0us", "10us", "100us", "5ms"
KNOBS = tuple({"sample": sample, "carry": carry} for sample, carry in itertools.product((1, 2, 8), (0, 1)))
# The window law uses 95 % of a link. Options take a part of each segment, and probes a part of the
# link: at most one probe per 8 segments.
ETA = 0.95
OPTION_BYTES = 28
PROBE_BYTES = 140
PROBE_SEGMENTS = 8
# The least part of the allowed goodput in the complete grid, with requests on data and on probes: a window has only
# 1 to 4 segments of 64 KB, and probes make slow start one round trip longer. A delayed ACK would cost far more.
LEAST = {65535: (0.6, 0.5)}
LEAST_ELSE = (0.9, 0.8)
# The least part of cubic's goodput in the small grid.
FLOOR = {65535: 0.6}
FLOOR_ELSE = 0.85
DELAYED = "TcpExtDelayedACKs"
DELAYED_US = 40000

# An RTT below TCP's clock tick, windows of three segments, more probes than the link has space for, and one record
# per T, with the least part of cubic's goodput. Early versions of hpcc reached 0.08, 0.83, 0.82, 0.83 and 0.65.
HARD = ((1500, 100000, "0us", KNOBS[0], 0.9), (9000, 1000, "100us", KNOBS[0], 0.9),
        (9000, 1000, "100us", KNOBS[3], 0.84), (576, 1000, "0us", KNOBS[3], 0.9),
        (576, 1000, "100us", KNOBS[1], 0.88))


def modest():
    """Yield some combinations; most of them have windows of a few segments."""
    yield from HARD
    for number, (mtu, mbps) in enumerate(itertools.product(MTUS[1:], (100, 1000, 10000))):
        for knobs in KNOBS[number % len(KNOBS)], KNOBS[(number + 3) % len(KNOBS)]:
            yield mtu, mbps, DELAYS[number % 3], knobs, FLOOR.get(mtu, FLOOR_ELSE)


def complete():
    for mtu, mbps, delay, knobs in itertools.product(MTUS, MBPS, DELAYS, KNOBS):
        carry = knobs["carry"]
        yield mtu, mbps, delay, knobs, LEAST.get(mtu, LEAST_ELSE)[carry] * allowed(mtu, carry)


def allowed(mtu, carry):
    """Return the part of cubic's goodput that the law, options and probes allow."""
    return ETA * (1 - PROBE_BYTES / (PROBE_SEGMENTS * mtu) if carry else 1 - OPTION_BYTES / mtu)


def transferred(pair, port, cc, nbytes):
    """Send. Return the goodput in Mb/s, and how many ACKs the receiver delayed."""
    client, server = pair.connect(pair.listen(port, cc), cc)
    before = pair.s.snmp(DELAYED)
    mbps = goodput_mbps(client, server, nbytes)
    delayed = pair.s.snmp(DELAYED) - before
    client.close()
    server.close()
    return mbps, delayed


def test_transfers():
    need_virtual_time()
    grid = complete() if os.environ.get("HPCC_STALL") == "all" else modest()
    slow, pairs, cubic = [], {}, {}
    for port, (mtu, mbps, delay, knobs, least) in enumerate(grid, 5000):
        pair = pairs.get(mtu) or pairs.setdefault(mtu, Pair(mtu=mtu))
        nbytes = min(max(mbps * 6250, 40 * mtu), max(600 * mtu, 1000000), 4000000)
        for ns in pair.c, pair.s:
            ns.tc(f"qdisc replace dev eth0 root handle 1: hpcc rate {mbps}mbit limit 10mb delay {delay}")
            # Keep start_rtt_ns far from the delay. Otherwise small differences in the RTT of the
            # handshake would decide whether a flow starts at line rate.
            for name, value in {"host_mbps": mbps, "start_rtt_ns": 300000 if delay == "100us" else 200000, **knobs}.items():
                ns.sysctl("net.hpcc." + name, value)
        case = mtu, mbps, delay
        if case not in cubic:
            cubic[case] = transferred(pair, port, "cubic", nbytes)
        got = transferred(pair, 20000 + port, "hpcc", nbytes)
        print(f"# {mtu} bytes, {mbps} Mb/s, {delay}, {knobs}: {got[0]:.1f} of {cubic[case][0]:.1f} Mb/s, "
              f"{got[1]} ACKs delayed, with cubic {cubic[case][1]}")
        # If the transmission of a segment is longer than the timeout of a delayed ACK, the link stays busy.
        delays = mtu * 8 / mbps < DELAYED_US and got[1] > cubic[case][1]
        if got[0] < least * cubic[case][0] or delays:
            slow.append((*case, knobs, f"{got[0] / cubic[case][0]:.3f}", got[1] - cubic[case][1]))
    expect("too slow, or delayed", slow, [])


def test_timestamps():
    """Segments leave in the order of their timestamps, also with probes or W below a segment: PAWS drops none."""
    need_virtual_time()
    for sample in 1, 2, 8:
        pair = Pair(mtu=576, qdisc="hpcc rate 1mbit delay 0us", host_mbps=1, sample=sample, carry=1)
        before = pair.c.snmp("RetransSegs")
        transferred(pair, 5000, "hpcc", 100000)
        expect("drops by PAWS, retransmissions", (pair.s.snmp("TcpExtPAWSEstab"),
                                               pair.c.snmp("RetransSegs") - before), (0, 0))


def test_loopback():
    """T is a fraction of the time for one full segment: goodput is high, and no ACK is delayed."""
    need_virtual_time()
    for mtu, carry in itertools.product((9000, 16384, 65536), (0, 1)):
        ns = Netns(carry=carry)
        ns.ip(f"link set lo mtu {mtu} up")
        ns.tc("qdisc replace dev lo root handle 1: hpcc rate 1gbit")
        listener, client = ns.socket(), ns.socket()
        for sock in listener, client:
            set_cc(sock, "hpcc")
        client, server = meet(client, ns.listen("127.0.0.1", sock=listener))
        got = goodput_mbps(client, server, 4000000)
        print(f"# {mtu} bytes, carry {carry}: {got:.0f} Mb/s by {get_cc(client)}")
        expect_in(f"MTU {mtu}, carry {carry}: Mb/s", got, 850, 1000)
        expect("delayed ACKs", ns.snmp(DELAYED), 0)


def test_tunnel():
    """Transfers over ipip at 50 Mb/s have no pauses."""
    need_virtual_time()
    pair = Pair(qdisc="hpcc rate 50mbit delay 100us")
    for ns, here, there, addr in ((pair.c, 0, 1, "10.1.0.1"), (pair.s, 1, 0, "10.1.0.2")):
        ns.ip(f"link add tun0 type ipip local {pair.addr[here]} remote {pair.addr[there]}",
              f"addr add {addr}/24 dev tun0", "link set tun0 up")
    listener = pair.s.listen("10.1.0.2")
    for number in range(3):
        client, server = meet(pair.c.socket(), listener)
        longest, last = 0, time.monotonic()

        def gap():
            nonlocal longest, last
            now = time.monotonic()
            longest, last = max(longest, now - last), now

        got = goodput_mbps(client, server, 600000, each=gap)
        print(f"# transfer {number}: {got:.1f} Mb/s, longest pause {longest * 1e3:.1f} ms")
        expect_in(f"transfer {number}: longest pause, s", longest, 0, 0.02)


main(modules=["sch_hpcc"])
