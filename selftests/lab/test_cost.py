#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""scripts/lab/study/cost.py: values that it reads, counts and rejects. scripts/vm/count.c: it can be built."""

import subprocess
import unittest

from lab.study import cost
from lib import unittests
from lib.unittests import TOP

FILE = """\
function __dev_queue_xmit - sender_out 900 10
function __dev_queue_xmit - switch 500 5
function memset_erms - sender_out 2000 4
function hpcc_local_in tcp_hpcc sender_in 300 10
function hpcc_enqueue sch_hpcc qdisc 200 15
function prio_enqueue sch_prio qdisc 50 15
function tcp_ack.cold - sender_in 7 1
function tcp_ack.isra.0 - sender_in 43 10
function user - user 1000 0
ack 20 6
ack 100 4
"""


def sample(**more):
    """Return the output of a guest for one variant, with FILE as its profile."""
    return {"event": "path", "part": "count", "hops": 1, "flows": 1, "variant": "v", "bytes": 14480, "seconds": 1e-5,
            "segments": 10, "data": 10, "acks": 5, "data_bytes": 14480 + 10 * (cost.PLAIN_BYTES + 28),
            "acks_bytes": 5 * 78, "hpcc_echo_received": 2, "hpcc_forward_received": 10,
            "cost": cost.Profile(FILE.splitlines()).summary()} | more


class profile(unittest.TestCase):      # pylint: disable=invalid-name
    def test_totals(self):
        """User space does not count in the kernel's total, and copying is counted separately."""
        found = cost.Profile(FILE.splitlines()).summary()
        self.assertEqual(found["instructions"], 4000, "kernel")
        self.assertEqual(found["roles"]["user"], 1000, "user")
        self.assertEqual(found["bytewise"], 2000, "bytewise")
        self.assertEqual(found["ours"], 500, "ours")
        self.assertEqual(found["qdisc"], 200, "qdisc without its parent")

    def test_calls(self):
        """The cold part of a function counts for the function, but not as a call of the function."""
        found = cost.Profile(FILE.splitlines())
        self.assertEqual(found.insns["tcp_ack", "-", "sender_in"], 50, "tcp_ack")
        self.assertEqual(found.called("tcp_ack"), 10, "calls of tcp_ack")
        self.assertEqual(found.summary()["traversals"], 10, "traversals")

    def test_refuses(self):
        """A line that count.c does not write is rejected."""
        for line in ("junk 1 2", "function a b", "ack x 1"):
            self.assertRaises(ValueError, cost.Profile, [line])


class samples(unittest.TestCase):      # pylint: disable=invalid-name
    def test_least_by_ack(self):
        """Of all samples the smallest is used, for the requested roles only."""
        found = cost.Samples([sample(), sample(acks=10)])
        self.assertEqual(found.least_by_ack("sender_out", "sender_in"), 325, "sender")
        self.assertEqual(found.least_by_ack("sender_out", "sender_in", copies=False), 125, "without copying")
        self.assertEqual(found.least_by_ack("user", "timer"), 100, "user")
        self.assertEqual(cost.Samples([]).least_by_ack("user"), None, "none")

    def test_by_segment(self):
        """The values of a sample are computed."""
        found = cost.Results([sample()]).of("count", 1, 1, "v")
        self.assertEqual(found.cost("instructions"), 400, "instructions")
        self.assertEqual(found.role("sender_out", "sender_in"), 325, "sender")
        self.assertEqual(found.option_bytes("data"), 28, "options on data")
        self.assertEqual(found.option_bytes("acks"), 6, "options on ACKs")
        self.assertEqual(found.per_packet(), 200 / 15, "qdisc")
        shared = cost.Results([sample(shared=True)]).of("count", 1, 1, "v")
        self.assertEqual(shared.option_bytes("data"), None, "options of payload not read")
        self.assertEqual(found.plain_ack(), 20, "ACKs without echo")
        self.assertEqual(found.functions()["hpcc_local_in tcp_hpcc sender_in"], 30, "function")

    def test_missing(self):
        """A value that was not measured is None, and shown as a dash; the median omits it."""
        none = cost.Results([]).of("count", 1, 1, "v")
        self.assertEqual(none.gbps(), None, "nothing")
        self.assertEqual(cost.Samples([sample()]).counter("hpcc_x"), None, "a counter of no host")
        self.assertEqual(cost.Samples([sample(segments=0)]).counter("acks"), None, "no segments")
        self.assertEqual(cost.Samples([sample(acks=n) for n in (2, 6)] + [{}]).counter("acks"), 0.4, "two of three")
        self.assertEqual(cost.spell(None), "-", "a dash")
        self.assertEqual(cost.comparison(0.5, None, True), "- > 0.50", "beside")


class plain_ack(unittest.TestCase):      # pylint: disable=invalid-name
    def test_cheapest(self):
        """The mean covers as many ACKs as arrive without telemetry."""
        acks = [(100, 4), (20, 6)]
        self.assertEqual(cost.plain_ack(acks, 1), 52, "all")
        self.assertEqual(cost.plain_ack(acks, 0.6), 20, "six of ten")
        self.assertEqual(cost.plain_ack(acks, 0.8), 40, "eight of ten")
        self.assertEqual(cost.plain_ack(acks, 0), None, "none")
        self.assertEqual(cost.plain_ack([], 1), None, "no ACKs")


class count_c(unittests.Case):      # pylint: disable=invalid-name
    def test_builds(self):
        """count.c compiles for each version of QEMU's plugin API, without a warning."""
        for version in (1, 2):
            subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared",
                            "-fPIC", "-fvisibility=hidden", f"-DPLUGIN_VERSION={version}", "-o",
                            self.directory / "count.so", TOP / "scripts/vm/count.c"], check=True)


if __name__ == "__main__":
    unittests.main()
