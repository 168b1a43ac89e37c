#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Counters, flows and statistics, read and changed while others write them: what is
read has to make sense, and a kernel that looks for data races has to see none.
"""

import os
import signal
import sys
import time

sys.path[0] += "/.."
from lib.kernel import virtual_time
from lib.ktap import defer, expect_in, main
from lib.net import Pair
from lib.tcp import pattern, transfer

PORT = "hpcc rate 1gbit delay 20us marking ldcp"
NBYTES = 300000


def beside(function):
    """Run function() again and again in a process of its own. Return its pid."""
    pid = os.fork()
    if not pid:
        # Not the tests' way out, which cleans up.
        try:
            while True:
                function()
                # Virtual time passes in sleep only.
                time.sleep(0.0002)
        finally:
            os._exit(1)
    defer(end, pid)
    return pid


def end(pid):
    """It may have ended by itself, which was said then."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def under_traffic(function):
    """Transfers both ways with function(pair) beside them, for two seconds at least
    where it takes that to meet.
    """
    pair = Pair(qdisc=PORT)
    listener = pair.listen()
    ends = [pair.connect(listener, cc=name) for name in ("hpcc", "ldcp", "hpcc")]
    pid = beside(lambda: function(pair))
    rounds = 0
    began = time.monotonic()
    while rounds < 3 or not virtual_time() and time.monotonic() - began < 2:
        transfer(*[way for i, (client, server) in enumerate(ends) for way in
                   ((client, server, pattern(NBYTES, i)), (server, client, pattern(NBYTES, i + 9)))])
        rounds += 1
    assert os.waitpid(pid, os.WNOHANG) == (0, 0), "what read came upon something wrong"


def test_flows():
    """Counters, flows, and links that are asked who they are."""
    def read(pair):
        for ns in (pair.c, pair.s):
            ns.counters()
            for flow in ns.flows():
                expect_in("W", flow["W"], 1, 1 << 40)
                expect_in("U", flow["U_permille"], 0, 1 << 30)
            for links in ns.paths().values():
                expect_in("links", len(links), 0, 1)

    under_traffic(read)


def test_statistics():
    """tc -s qdisc, of a port that sends."""
    under_traffic(lambda pair: pair.c.run("tc", "-s", "qdisc", "show"))


def test_parameters():
    """Written while connections read them."""
    def write(pair):
        for value in (10, 100):
            pair.c.sysctl("net.hpcc.n_flows", value)
            pair.s.sysctl("net.hpcc.eta_permille", 900 + value // 2)

    under_traffic(write)


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc", "tcp_ldcp"])
