#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Paths that lose, duplicate, reorder and corrupt packets: data arrive, in virtual time with half of cubic's rate."""

from lib.kernel import virtual_time
from lib.ktap import cases, expect, expect_in, main
from lib.path import MBPS, Path
from lib.tcp import goodput_mbps, pattern, transfer

NBYTES = 1500000 if virtual_time() else 500000
# The goodput of one connection depends on which packets are hit: the test compares means of several connections.
ROUNDS = 6 if virtual_time() else 1


def impair(path, how):
    """Put netem in front of the first switch's link, in both directions."""
    for port, dev in enumerate(("left", "right"), 1):
        path.switches[0].tc(f"qdisc del dev {dev} root", f"qdisc add dev {dev} root handle 1: netem limit 100000 {how}",
                            f"qdisc add dev {dev} parent 1:1 hpcc rate {MBPS}mbit node 1 "
                            f"port {port} delay 20us marking ldcp knonect 1mb")


def mean_goodput(cc, how, nbytes, rounds):
    """Return the mean goodput of cc in Mbit/s over such a path."""
    total = 0
    for _ in range(rounds):
        path = Path(cc=(cc, cc))
        impair(path, how)
        client, server = path.connect()
        total += goodput_mbps(client, server, nbytes)
        if "corrupt" not in how:
            expect("InCsumErrors", [ns.snmp("InCsumErrors") for ns in path.hosts], [0, 0])
    return total / rounds


# A burst of losses has two packets on average. The bad state lasts for a number of packets and not for a time: a
# longer bad state would cause many timeouts. Checksums detect corruption of the payload and of our option.
# With everything at once goodput varies most, so there are more and longer transfers: in a short transfer cubic has 0.6
# to 0.9 of the link, depending on whether its slow start ends before the first loss, and some transfers have an RTO.
@cases(loss=("loss 1%",), bursts_of_loss=("loss gemodel 0.5% 50%",), duplicates=("duplicate 5%",),
       reordering=("delay 100us reorder 95% 25%",), corruption=("corrupt 0.5%",),
       everything_at_once=("delay 50us 20us loss 0.5% duplicate 1% corrupt 0.2%", 4 * NBYTES))
def no_worse_than_half_of_cubic(how, nbytes=NBYTES, rounds=ROUNDS):
    cubic = mean_goodput("cubic", how, nbytes, rounds)
    for cc in "hpcc", "ldcp":
        goodput = mean_goodput(cc, how, nbytes, rounds)
        print(f"# {how}: {cc} {goodput:.0f} Mbit/s, cubic {cubic:.0f}")
        if virtual_time():
            expect_in(f"{cc} against cubic's {cubic:.0f} Mbit/s", goodput, cubic / 2, MBPS)


def test_both_ways_at_once():
    """Both ends send data and echoes at the same time, and both directions are impaired."""
    for cc in "hpcc", "ldcp":
        path = Path(cc=(cc, cc))
        impair(path, "loss 0.5% duplicate 1% corrupt 0.2%")
        client, server = path.connect()
        transfer((client, server, pattern(NBYTES // 2)), (server, client, pattern(NBYTES // 2, 5)))


main(modules=["sch_hpcc", "tcp_ldcp"])
