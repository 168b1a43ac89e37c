# SPDX-License-Identifier: GPL-2.0
"""Today's modules ("hpcc") and the modules of an earlier commit, which test_interop.sh builds as "hpc1", run at the
ends of a path with one switch of each commit. Both ends send at once, so that each end sends data and echoes.
"""

import sys
import time

from lib.ktap import expect, expect_in, main
from lib.path import DELAY, MBPS, Path
from lib.tcp import get_cc, pattern, transfer

# The maxStage of the earlier commit, so that all flows on the link use the same law.
LAW = {"max_stage": 5}
# A host's link is faster than a switch's: no telemetry reports the queue of the host's own port, so
# W would not fall while the packets wait there.
HOST_MBPS = 2 * MBPS
# Parameters of today's host that change its packets.
SETTINGS = {"sample": 0}, {"sample": 8}, {"sample": 64}, {"carry": 1}
NBYTES = 1500000
TRANSFERS = 8
BAD = ("syn_invalid", "unagreed_ignored", "malformed_ignored", "checksum_ignored", "window_ignored", "bad_hop_ignored",
       "ts_back_ignored", "tx_excess_ignored", "path_changes", "fallbacks", "unseen_loss", "timeouts")


def mode_and_hops(ns, name):
    """Return mode and hops of the only flow of a module. The old module lists flows in a file."""
    if name == "hpcc":
        flow = ns.flow()
        return flow["mode"], flow["hops"]
    words = ns.read(f"/proc/net/{name}_flows").split()
    return words[2], int(words[words.index("hops") + 1])


def between(client, server, version=4, stamp="stamp", **setting):
    """Each end sends over one switch of each commit, and uses the telemetry of both switches."""
    path = Path(version, cc=(client, server), **LAW, **setting)
    for dev in "left", "right":
        path.change(1, f"hpcc {stamp}", dev)
    for port, dev in enumerate(("left", "right"), 1):
        path.switches[1].tc(f"qdisc replace dev {dev} root handle 2: "
                            f"hpc1 rate {MBPS}mbit delay {DELAY} node 2 port {port}")
    for ns, dev, name in zip(path.hosts, ("right", "left"), (client, server)):
        ns.tc(f"qdisc change dev {dev} root hpcc rate {HOST_MBPS}mbit delay {DELAY} nostamp")
        ns.sysctl(f"net.{name}.host_mbps", HOST_MBPS)
    ends = path.connect()
    ways = [(*ends, pattern(NBYTES)), (*ends[::-1], pattern(NBYTES, 1))]
    transfer(*ways)
    began = time.monotonic()
    for _ in range(TRANSFERS):
        transfer(*ways)
    goodput = 8 * NBYTES * TRANSFERS / (time.monotonic() - began) / 1e6
    for sock, ns, name in zip(ends, path.hosts, (client, server)):
        what = f"{name}, {client} to {server}, {setting}, {stamp}"
        # The other module is loaded, but this end does not use it.
        counters = ns.counters(name)
        print(f"# {what}: {goodput:.0f} Mbit/s, {counters['forward_sent']} requests, "
              f"{counters['echo_received']} echoes")
        expect(what, (get_cc(sock), *mode_and_hops(ns, name)), (name, "telemetry", 2))
        expect(f"{what}: errors", {key: counters[key] for key in BAD if counters[key]}, {})
    # Data of one direction and ACKs of the other share 0.95 of a link, or the whole link if the link
    # is quiet. Of 1538 bytes on the link 1420 are payload, or 1448 if data carry no requests.
    payload = 1448 if setting.get("carry") else 1420
    expect_in(f"goodput, {client} to {server}, {setting}", goodput, (0.75 if client == server else 0.7) * MBPS,
              (0.95 * payload / 1538 if stamp == "stamp" else 0.93) * MBPS)


def test_before_connects():
    for setting in SETTINGS:
        between("hpc1", "hpcc", **setting)


def test_before_listens():
    for setting in SETTINGS:
        between("hpcc", "hpc1", version=6, **setting)


def test_before_at_both_ends():
    between("hpc1", "hpc1")


def test_quiet_switch():
    """A switch that writes only on congestion sends no reports to earlier hosts; the other switch does."""
    for client, server in ("hpc1", "hpcc"), ("hpcc", "hpc1"), ("hpc1", "hpc1"):
        between(client, server, stamp="stamp above 10kb")


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc", "tcp_hpc1", "sch_hpc1"])
