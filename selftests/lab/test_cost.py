#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""scripts/lab/study/cost.py: what it reads, counts and refuses; and that scripts/vm/count.c
builds. Prints KTAP."""

import subprocess
import sys
import tempfile
import traceback

from lab.study import cost
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


def expect(what, got, want):
    """Fail unless got equals want."""
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, wanted {want!r}")


def sample(**more):
    """Return the output of a guest for one variant, with FILE as its profile."""
    return {"event": "path", "part": "count", "hops": 1, "flows": 1, "variant": "v",
            "bytes": 14480, "seconds": 1e-5, "segments": 10, "data": 10, "acks": 5,
            "data_bytes": 14480 + 10 * (cost.PLAIN_BYTES + 28), "acks_bytes": 5 * 78,
            "hpcc_echo_received": 2, "hpcc_forward_received": 10,
            "cost": cost.Profile(FILE.splitlines()).summary()} | more


def profile__totals():
    """User space does not count in the kernel's total, and copying is counted separately."""
    found = cost.Profile(FILE.splitlines()).summary()
    expect("kernel", found["instructions"], 4000)
    expect("user", found["roles"]["user"], 1000)
    expect("bytewise", found["bytewise"], 2000)
    expect("ours", found["ours"], 500)
    expect("qdisc without its parent", found["qdisc"], 200)


def samples__least_by_ack():
    """Of all samples the smallest is used, for the requested roles only."""
    found = cost.Samples([sample(), sample(acks=10)])
    expect("sender", found.least_by_ack("sender_out", "sender_in"), 325)
    expect("without copying", found.least_by_ack("sender_out", "sender_in", copies=False), 125)
    expect("user", found.least_by_ack("user", "timer"), 100)
    expect("none", cost.Samples([]).least_by_ack("user"), None)


def profile__calls():
    """The cold part of a function counts for it, but not as a call of it."""
    found = cost.Profile(FILE.splitlines())
    expect("tcp_ack", found.insns["tcp_ack", "-", "sender_in"], 50)
    expect("calls of tcp_ack", found.called("tcp_ack"), 10)
    expect("traversals", found.summary()["traversals"], 10)


def profile__refuses():
    """A line that count.c does not write is refused."""
    for line in ("junk 1 2", "function a b", "ack x 1"):
        try:
            cost.Profile([line])
        except ValueError:
            continue
        raise AssertionError(f"{line!r} was taken")


def plain_ack__cheapest():
    """The mean is taken over as many ACKs as arrive without telemetry."""
    acks = [(100, 4), (20, 6)]
    expect("all", cost.plain_ack(acks, 1), 52)
    expect("six of ten", cost.plain_ack(acks, 0.6), 20)
    expect("eight of ten", cost.plain_ack(acks, 0.8), 40)
    expect("none", cost.plain_ack(acks, 0), None)
    expect("no ACKs", cost.plain_ack([], 1), None)


def samples__by_segment():
    """The values of a sample are computed."""
    found = cost.Results([sample()]).of("count", 1, 1, "v")
    expect("instructions", found.cost("instructions"), 400)
    expect("sender", found.role("sender_out", "sender_in"), 325)
    expect("options on data", found.option_bytes("data"), 28)
    expect("options on ACKs", found.option_bytes("acks"), 6)
    expect("qdisc", found.per_packet(), 200 / 15)
    shared = cost.Results([sample(shared=True)]).of("count", 1, 1, "v")
    expect("options of payload not read", shared.option_bytes("data"), None)
    expect("ACKs without echo", found.plain_ack(), 20)
    expect("function", found.functions()["hpcc_local_in tcp_hpcc sender_in"], 30)


def samples__missing():
    """A value that was not measured is None, and shown as a dash; the median omits it."""
    none = cost.Results([]).of("count", 1, 1, "v")
    expect("nothing", none.gbps(), None)
    expect("a counter of no host", cost.Samples([sample()]).counter("hpcc_x"), None)
    expect("no segments", cost.Samples([sample(segments=0)]).counter("acks"), None)
    expect("two of three", cost.Samples([sample(acks=n) for n in (2, 6)] + [{}]).counter("acks"), 0.4)
    expect("a dash", cost.spell(None), "-")
    expect("beside", cost.comparison(0.5, None, True), "- > 0.50")


def count_c__builds():
    """As any version of QEMU wants it, without a warning."""
    with tempfile.TemporaryDirectory() as scratch:
        for version in (1, 2):
            subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror",
                            "-shared", "-fPIC", "-fvisibility=hidden",
                            f"-DPLUGIN_VERSION={version}", "-o", f"{scratch}/count.so",
                            TOP / "scripts/vm/count.c"], check=True)


TESTS = (profile__totals, samples__least_by_ack, profile__calls, profile__refuses, plain_ack__cheapest,
         samples__by_segment, samples__missing, count_c__builds)


def main():
    """Run all tests."""
    failed = 0
    print(f"KTAP version 1\n1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        word = "ok"
        try:
            test()
        except Exception:   # pylint: disable=broad-exception-caught
            print("# " + traceback.format_exc().rstrip().replace("\n", "\n# "))
            word, failed = "not ok", 1
        print(f"{word} {number} - {test.__name__}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
