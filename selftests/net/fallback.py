#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The bottleneck does not stamp, an idle link in front of it does: loss is what
tells, hpcc runs its classic response, and tries telemetry again ever more rarely.
"""

import socket
import sys
import time

from hpcc_net import (Pair, Sniffer, data_segments, expect, expect_in, get_cc, main,
                      need_virtual_time, pattern, tcp_info, transfer)
from hpcc_peer import Flow, Link, settle
from path import Path, goodput_mbps

IPV6_DSTOPTS = 59

SLOW_MBPS = 10
PACKET = 1500


def send_for(seconds, *flows):
    """Send on connections. Return the bytes that arrived by each."""
    end = time.monotonic() + seconds
    arrived = [0] * len(flows)
    for ends in flows:
        for sock in ends:
            sock.setblocking(False)
    while time.monotonic() < end:
        for number, (client, server) in enumerate(flows):
            try:
                client.send(bytes(1 << 20))
            except BlockingIOError:
                pass
            try:
                arrived[number] += len(server.recv(1 << 20))
            except BlockingIOError:
                pass
        time.sleep(0.002)
    return arrived


def dropped(path, node):
    """Share of the packets that a switch's port sent."""
    port = path.port(node)
    return port["drops"] / port["packets"]


class Hidden(Path):
    """The first switch stamps, the second one is slow and does not."""

    def __init__(self, packets, **how):
        super().__init__(**how)
        self.switches[1].tc(f"qdisc replace dev right root handle 1: hpcc rate {SLOW_MBPS}mbit "
                            f"limit {packets * PACKET} delay 20us nostamp")

    def shown(self, what):
        """Say what happened."""
        port, counters = self.port(2), self.a.counters()
        print(f"# {what}: {port['packets']} sent, {port['drops']} dropped, "
              f"{counters['fallbacks']} fallbacks, {counters['unseen_loss']} for loss, "
              f"{counters['returns']} returns")
        return counters


def test_alone():
    """Whatever the slow link's buffer holds: few drops, and the link is used."""
    need_virtual_time()
    for packets in 5, 10, 20, 50, 100, 200:
        path = Hidden(packets)
        arrived = send_for(4, path.connect())
        counters = path.shown(f"{packets} packets")
        expect_in(f"{packets} packets: dropped", dropped(path, 2), 0, 0.2)
        expect_in(f"{packets} packets: goodput", arrived[0] * 8 / 4e6, 0.8 * SLOW_MBPS, SLOW_MBPS)
        # 64, 128, 256 ... round trips of some 10 ms and more
        expect_in(f"{packets} packets: returns", counters["returns"], 0, 4)


def test_beside_cubic():
    """Neither has more than 1.5 times what the other has."""
    need_virtual_time()
    for packets in 50, 100:
        path = Hidden(packets)
        arrived = send_for(20, path.connect(5001), path.connect(5002, cc="cubic"))
        path.shown(f"beside cubic, {packets} packets: {arrived}")
        expect_in(f"{packets} packets: share", arrived[0] / sum(arrived), 0.4, 0.6)
        expect_in(f"{packets} packets: dropped", dropped(path, 2), 0, 0.2)


def test_returns_back_off():
    """Each fallback for silence doubles the round trips until a record counts again."""
    need_virtual_time()
    flow = Flow()
    link = Link()
    classic = []
    for turn in range(5):
        flow.round(link.step(9000, 1.0, 0.1))
        settle(flow, link, 60000)
        while flow.cc() == "hpcc":
            flow.run()
            flow.send()
        expect("fallbacks", flow.ns.counters()["fallbacks"], turn + 1)
        rounds = 0
        while flow.cc() != "hpcc":
            flow.round(link.step(9000, 1.0))
            rounds += 1
        classic.append(rounds)
    for turn, rounds in enumerate(classic):
        expect_in(f"round trips, of {classic}", rounds, 1 << turn, (1 << turn) + 2)


def test_good_time_forgives():
    """64 round trips of telemetry halve what was doubled."""
    need_virtual_time()
    flow = Flow()
    link = Link()
    classic = []
    for good in 0, 0, 0, 0, 300:
        for _ in range(good):
            flow.round(link.step(9000, 0.95))
        settle(flow, link, 60000)
        while flow.cc() == "hpcc":
            flow.run()
            flow.send()
        rounds = 0
        while flow.cc() != "hpcc":
            flow.round(link.step(9000, 1.0))
            rounds += 1
        classic.append(rounds)
    expect_in(f"round trips, of {classic}", classic[-1], 1, 3)


if __name__ == "__main__":
    main(sys.modules[__name__])
