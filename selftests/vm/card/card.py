#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""A port with the driver of a NIC. A GSO packet gets one record, and is segmented after the qdisc. Each record
describes the packets on the wire, even if packets wait in the rings of the driver or for interrupts.
"""

import json
import os
import subprocess
import sys
import time

from lib.ktap import Skip, expect, expect_in, main
from lib.packet import FORWARD, Sniffer
from lib.path import Path
from lib.peer import qlen_value
from lib.tcp import get_cc, pattern, transfer

NBYTES = 2000000
BANDWIDTH_MBPS = 1000
ETHERNET = 14 + 24      # header, FCS, preamble and gap
COUNTER = 1 << 20
# Counters are ambiguous after 64 T. With this T, 64 T are one second, because a busy host may stop
# a guest for a tenth of a second. The port's queue has room for W_init.
T_NS = 16000000
HOST_MBPS = 500
SYS = "/sys/class/net"


def tx_queues(dev):
    return len([name for name in os.listdir(f"{SYS}/{dev}/queues") if "tx" in name])


def cards(driver, queues):
    """Return the names of both NICs of a driver with one or several queues, when they are back in this namespace."""
    for _ in range(100):
        found = [dev for dev in sorted(os.listdir(SYS))
                 if os.path.basename(os.path.realpath(f"{SYS}/{dev}/device/driver")) == driver
                 and (tx_queues(dev) > 1) == (queues > 1)]
        if len(found) == 2:
            return found
        time.sleep(0.1)
    raise AssertionError(f"cards of {driver}, {queues} queues: {found}")


class CardPath(Path):
    """Host a, a switch, and host b. The port of the switch towards b, and the port of b, are NICs."""

    def __init__(self, driver, mtu=1500, limit=0, queues=1):
        near, far = cards(driver, queues)
        self.queues = tx_queues(near)
        super().__init__(switches=1, mtu=mtu, base_rtt_ns=T_NS, host_mbps=HOST_MBPS, sample=0)
        self.switch = self.switches[0]
        self.switch.ip("link del right")
        for dev, name, ns in (near, "right", self.switch), (far, "left", self.b):
            os.system(f"ip link set {dev} down; ip link set {dev} netns {ns.path} name {name}")
            ns.ip(f"link set {name} mtu {mtu}")
            # TSO of QEMU sets "more fragments" in its segments, so the stack segments packets.
            ns.run("ethtool", "-K", name, "gro", "off", "lro", "off", "tso", "off", check=False)
        if limit:
            self.byte_limit("limit_max", limit)
        self.switch.ip("link set right master br0 up")
        self.b.ip(f"addr add {self.addr[1]}/24 dev left", "link set left up")
        # Without a qdisc on host a, GSO packets reach the switch unchanged.
        self.a.tc("qdisc del dev right root")
        self.qdiscs()
        self.wait_for_carrier()

    def qdiscs(self):
        """Create a qdisc for each transmit queue."""
        how = f"hpcc bandwidth {BANDWIDTH_MBPS}mbit node 7 port 2"
        if self.queues == 1:
            self.switch.tc(f"qdisc replace dev right root handle 1: {how}")
            return
        self.switch.tc("qdisc replace dev right root handle 1: mq",
                       *(f"qdisc replace dev right parent 1:{i:x} {how}" for i in range(1, self.queues + 1)))

    def wait_for_carrier(self):
        for _ in range(100):
            if all("LOWER_UP" in ns.run("ip", "link", "show", dev) for ns, dev in
                   ((self.switch, "right"), (self.b, "left"))):
                return
            time.sleep(0.1)
        raise AssertionError("no carrier")

    def byte_limit(self, name, value=None):
        """Read or write a file of the port's byte_queue_limits."""
        path = f"/run/sys/class/net/right/queues/tx-0/byte_queue_limits/{name}"
        what = f"echo {value} > {path}" if value else f"cat {path}"
        return self.switch.run("unshare", "-m", "sh", "-c", "mkdir -p /run/sys && "
                               f"mount -t sysfs sysfs /run/sys && {what}")

    def sums(self):
        """Return the sums of the statistics of the port's qdiscs."""
        qdiscs = json.loads(self.switch.run("tc", "-s", "-j", "qdisc", "show", "dev", "right"))
        found = [qdisc["hpcc"] for qdisc in qdiscs if qdisc["kind"] == "hpcc"]
        expect("qdiscs", len(found), self.queues)
        return {name: sum(qdisc[name] for qdisc in found) for name in ("stamped", "tx_packets", "drop_gso")}


def wire_ns(seg):
    """Return the transmission time of a segment at the rate B, ns."""
    return (seg.total + ETHERNET) * 8000 // BANDWIDTH_MBPS


def loads(segments):
    """Yield (tx, transmission time of all earlier segments, queue, modulus of tx, segment) for each
    record; all times are in ns. The segments of a GSO packet have copies of the same record.
    """
    seen = 0
    last = None
    for seg in segments:
        opt = seg.telemetry(FORWARD)
        if opt and opt.records[0]["hop"] and opt.records[0] != last:
            rec = last = opt.records[0]
            yield (rec["tx"] << opt.scale, seen, qlen_value(rec["qlen"]) << opt.scale, COUNTER << opt.scale, seg)
        seen += wire_ns(seg)


def check_tx(segments, in_order):
    """Between two records tx grows by the transmission time of the packets sent between these records. The growth is
    never less than the transmission time of the packets that arrived. The growth is larger if packets were lost: QEMU
    drops packets if it does not process them in time. If packets overtake each other, only the sum is checked.
    """
    records = list(loads(segments))
    less = more = sent = seen = 0
    for one, two in zip(records, records[1:]):
        if one[3] != two[3]:            # T was measured again, and the unit changed
            continue
        dtx = (two[0] - one[0] + one[3] // 2) % one[3] - one[3] // 2
        sent += dtx
        seen += two[1] - one[1]
        unit = one[3] // COUNTER
        less += dtx < two[1] - one[1] - 2 * unit
        more += dtx > two[1] - one[1] + 2 * unit
    print(f"# {len(records)} records; tx grew by less than the packets that arrived {less} times, by more {more} times; "
          f"ratio of the sums {sent / seen:.4f}; longest queue {max(rec[2] for rec in records)} ns")
    expect_in("ratio of the sums", sent / seen, 0.999, 1.1)
    if in_order:
        expect("steps of tx that are too small", less, 0)
    return records


def through(driver, mtu=1500, limit=0, queues=1):
    """Send data through such a port. Return the path and the records."""
    path = CardPath(driver, mtu, limit, queues)
    sniffer = Sniffer(path.b, "left")
    client, server = path.connect()
    transfer((client, server, pattern(NBYTES)), timeout_s=100)
    segments = [seg for seg in sniffer.segments() if seg.dport == 5000]
    expect("segments beyond the MTU", [seg.total for seg in segments if seg.total > mtu], [])
    expect("hops, mode", (path.a.flow()["hops"], get_cc(client)), (1, "hpcc"))
    # Packets of two queues overtake each other while the host does not run one of the CPUs.
    # Some packets that arrive through virtio also overtake other packets.
    in_order = path.queues == 1 and driver != "virtio_net"
    records = check_tx(segments, in_order)
    counters, sums = path.a.counters(), path.sums()
    data = [seg for seg in segments if seg.payload]
    asked = counters["forward_sent"] + counters["identify_sent"]
    expect_in("stamped", sums["stamped"], asked, asked + 20)
    expect_in("records", len(records), 0.95 * asked - 2, asked)
    expect("drop_gso", sums["drop_gso"], 0)
    print(f"# {driver}: {path.queues} queues, {asked} GSO packets, {len(data)} segments, {sums['stamped']} stamped")
    if mtu == 1500:
        expect("packets segmented after the qdisc", len(data) > asked, True)
    for name in ("malformed_ignored", "checksum_ignored", "bad_hop_ignored", "tx_excess_ignored", "unseen_loss"):
        expect(name, counters[name], 0)
    if path.queues == 1:
        expect_in("ts_back_ignored", counters["ts_back_ignored"], 0, 0 if in_order else len(records) // 50)
    for ns in path.hosts:
        expect("InCsumErrors", ns.snmp("InCsumErrors"), 0)
    return path, records


def test_one_queue():
    through("e1000e")


def test_byte_queue_limits():
    """The driver takes at most two packets: all other packets wait in the qdisc, and qlen counts these packets."""
    path, records = through("e1000e", limit=3000)
    expect_in("limit", int(path.byte_limit("limit")), 1, 3000)
    expect_in("longest queue", max(rec[2] for rec in records), 1514 * 8, 10 ** 9)
    expect("queue of the last record", records[-1][2], 0)


def test_queue_for_each_cpu():
    through("vmxnet3", queues=2)


def test_virtio():
    through("virtio_net")


def by_taps(mtu=1500):
    """Send data through a virtio NIC that uses TAP devices of the host."""
    if os.environ.get("HPCC_TAPS") != "1":
        raise Skip("the host gives no TAP devices to this user")
    return through("virtio_net", mtu=mtu, queues=2)


def test_virtio_with_queues():
    by_taps()


# Jumbo frames. vmxnet3 is not tested: in QEMU it delivers no jumbo frame, with any qdisc.

def expect_jumbo(records):
    """Check that the records of through() include jumbo frames."""
    expect_in("longest packet", max(rec[4].total for rec in records), 8000, 9000)


def test_jumbo_frames():
    expect_jumbo(through("e1000e", mtu=9000)[1])


def test_jumbo_frames_virtio():
    expect_jumbo(through("virtio_net", mtu=9000)[1])


def test_jumbo_frames_with_queues():
    expect_jumbo(by_taps(mtu=9000)[1])


if __name__ == "__main__":
    for driver in "e1000e", "vmxnet3", "virtio_net":
        subprocess.run(["modprobe", "-q", driver], check=False)
    main(sys.modules[__name__], modules=["sch_hpcc"])
