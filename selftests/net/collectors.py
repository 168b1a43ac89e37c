#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Programs that collect statistics of any qdisc also read those of hpcc: Flent by tc, node_exporter by netlink."""

import contextlib
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import urllib.request

from lib.genl import attrs_of
from lib.ktap import Skip, cases, expect, expect_in, main
from lib.net import Netns
from lib.packet import packet_socket
from lib.qdisc import TC_H_ROOT, TCA_KIND
from lib.requests import Netlink

# A port of 1 kbit/s: a frame with its overhead of 24 bytes occupies the link for 0.7 s.
PORT = "hpcc rate 1kbit limit 1538"
FRAMES, SIZE = 30, 60
# The limit has space for this many frames; another frame is on the link.
HELD = 1538 // (SIZE + 24) + 1
FLENT = "/usr/share/flent"
EXPORTER = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
TCA_STATS2, TCA_STATS_BASIC, TCA_STATS_QUEUE = 7, 1, 3


def busy_port(*commands):
    """Return a namespace whose v0 has just been sent more frames than its port holds."""
    ns, peer = Netns(), Netns()
    for one in ns, peer:
        one.sysctl("net.ipv6.conf.default.disable_ipv6", 1)
    ns.ip(f"link add v0 type veth peer name v0 netns {peer.path}", "link set v0 up")
    peer.ip("link set v0 up")
    ns.tc(*commands or [f"qdisc add dev v0 root handle 1: {PORT}"])
    sock = packet_socket(ns, "v0", 0)
    for _ in range(FRAMES):
        # send() fails for a frame that is dropped.
        with contextlib.suppress(OSError):
            sock.send(bytes(12) + b"\x88\xb6" + bytes(SIZE - 14))
    return ns


def check(what, found):
    """At any time, frames that found no space were dropped, and all other frames have left or are queued."""
    found = {name: int(value) for name, value in found.items()}
    expect(f"{what}: dropped", found["dropped"], FRAMES - HELD)
    expect(f"{what}: sent or queued", found["sent_pkts"] + found["backlog_pkts"], HELD)
    expect_in(f"{what}: queued", found["backlog_pkts"], 1, HELD)
    expect(f"{what}: bytes sent", found["sent_bytes"], SIZE * found["sent_pkts"])
    expect(f"{what}: bytes queued", found["backlog_bytes"], SIZE * found["backlog_pkts"])
    expect(f"{what}: requeues, overlimits", (found["requeues"], "overlimits" in found), (0, True))


def test_lines():
    """Both lines follow the line of the options, and begin as for any qdisc."""
    ns = busy_port()
    lines = ns.run("tc", "-s", "qdisc", "show", "dev", "v0").splitlines()
    sent = re.fullmatch(r" Sent (?P<sent_bytes>\d+) bytes (?P<sent_pkts>\d+) pkt \(dropped (?P<dropped>\d+), "
                        r"overlimits (?P<overlimits>\d+) requeues (?P<requeues>\d+)\) ?", lines[1])
    waits = re.fullmatch(r" backlog (?P<backlog_bytes>\d+)b (?P<backlog_pkts>\d+)p requeues \d+ ?", lines[2])
    expect(f"lines {lines}", bool(sent and waits), True)
    check("tc", sent.groupdict() | waits.groupdict())
    expect("other lines that look like these two lines",
           [line for line in lines[3:] if re.match(r" ?(Sent|backlog|qdisc|rate)\b", line)], [])


# Flent omits the root qdisc if there are several qdiscs, and adds up the others.
@cases(flent=(), flent_below_another=(
    "qdisc add dev v0 root handle 9: prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
    f"qdisc add dev v0 parent 9:1 {PORT}", f"qdisc add dev v0 parent 9:2 {PORT}"))
def flent(*commands):
    """Flent's tc_iterate.sh and its parser read the statistics of hpcc."""
    if not os.path.isdir(FLENT):
        raise Skip("needs Flent")
    sys.path.append(FLENT)
    from flent.runners import TcRunner
    output = busy_port(*commands).run("bash", FLENT + "/flent/scripts/tc_iterate.sh",
                                      *"-i v0 -I 0.6 -l 1 -c 2 -H localhost".split())
    runner = TcRunner(interface="v0", interval=0.1, length=1, name="tc", settings=None)
    found = runner.parse(io.StringIO(output), "")[0]
    # Flent shows the drops since its last sample, so the first sample has no drops.
    expect("drops", {value for _, value in found.pop("dropped")}, {0})
    expect("names", set(found), {"sent_bytes", "sent_pkts", "overlimits", "requeues", "backlog_bytes", "backlog_pkts",
                                 "backlog_requeues"})
    check(output, {name: values[0][1] for name, values in found.items()} | {"dropped": FRAMES - HELD})


class Dump(Netlink):
    """The attributes of the root qdisc."""

    def parse(self, body):
        index, parent = struct.unpack_from("=4xi4xI", body)
        return dict(attrs_of(body[20:])) if (index, parent) == (self.index, TC_H_ROOT) else None


def test_netlink():
    """The dump has the attributes that node_exporter reads: kind, and in stats2 basic and queue."""
    found = Dump(busy_port(), "v0").dump()
    expect("kind", found[TCA_KIND], b"hpcc\0")
    stats = dict(attrs_of(found[TCA_STATS2]))
    names = ("sent_bytes", "sent_pkts", "backlog_pkts", "backlog_bytes", "dropped", "requeues", "overlimits")
    check("netlink", dict(zip(names, struct.unpack_from("=QI", stats[TCA_STATS_BASIC]) +
                              struct.unpack_from("=5I", stats[TCA_STATS_QUEUE]))))


# Debian's package would start a service when it is installed, so the test runs only if the program exists.
if EXPORTER:
    def test_node_exporter():
        ns = busy_port()
        with ns, subprocess.Popen([EXPORTER, "--collector.disable-defaults", "--collector.qdisc",
                                   "--web.listen-address=127.0.0.1:9100"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as exporter:
            try:
                for _ in range(100):
                    try:
                        with urllib.request.urlopen("http://127.0.0.1:9100/metrics", timeout=10) as answer:
                            text = answer.read().decode()
                        break
                    except OSError:
                        time.sleep(0.1)
            finally:
                exporter.kill()
        found = {name: float(value) for name, value in
                 re.findall(r'^node_qdisc_(\w+)\{device="v0",kind="hpcc"\} (\S+)$', text, re.M)}
        check(text, {ours: found[name] for ours, name in
                     (("sent_bytes", "bytes_total"), ("sent_pkts", "packets_total"), ("dropped", "drops_total"),
                      ("requeues", "requeues_total"), ("overlimits", "overlimits_total"),
                      ("backlog_pkts", "current_queue_length"), ("backlog_bytes", "backlog"))})


main(modules=["sch_hpcc"])
