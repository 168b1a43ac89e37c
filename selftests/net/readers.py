#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Values are read, and parameters written, while traffic changes or uses them: for kernels that detect data races."""

import os
import signal
import time

from lib.kernel import virtual_time
from lib.ktap import defer, expect, expect_in, main
from lib.net import Pair
from lib.tcp import pattern, transfer

PORT = "hpcc rate 1gbit delay 20us marking ldcp"
NBYTES = 300000


def beside(function):
    """Run function() repeatedly in a separate process. Return its pid."""
    pid = os.fork()
    if not pid:
        # Do not leave through the test's own exit, which cleans up.
        try:
            while True:
                function()
                # Virtual time passes only in sleep.
                time.sleep(0.0002)
        finally:
            os._exit(1)
    defer(end, pid)
    return pid


def end(pid):
    """End the process. If it failed before, the failure has already been reported."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def under_traffic(function):
    """Transfer data in both directions while function(pair) runs repeatedly, in real time for two seconds at least."""
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
    expect("the reading process still runs", os.waitpid(pid, os.WNOHANG), (0, 0))


def test_flows():
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
    under_traffic(lambda pair: pair.c.run("tc", "-s", "qdisc", "show"))


def test_parameters():
    def write(pair):
        for value in (10, 100):
            pair.c.sysctl("net.hpcc.n_flows", value)
            pair.s.sysctl("net.hpcc.eta_permille", 900 + value // 2)

    under_traffic(write)


main(modules=["sch_hpcc", "tcp_ldcp"])
