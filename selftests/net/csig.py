#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""CSIG tags: qdisc/stamp/csig.c, kmod/hpcc/carrier/csig.c."""

import fcntl
import itertools
import json
import os
import struct
import time

from lib import tshark
from lib.frameport import BROADCAST, FramePort, ethernet, ip_packet, leave_unchanged
from lib.ktap import defer, expect, expect_in, main
from lib.net import Netns, Pair, joined
from lib.packet import ACK, FIN, FORWARD, IDENTIFY, PSH, RST, SYN, URG, Segment, option, packet_socket
from lib.path import MBPS as PATH_MBPS
from lib.path import carrier_path, falls_back
from lib.tcp import pattern, transfer

MBPS = 100
TPID = 0x88b5
ABW, ABW_C, PD, QLEN = range(4)
SHAPE = f"rate {MBPS}mbit delay 20us"
VLAN = struct.pack("!HH", 0x8100, 5)
GROUPS = BROADCAST[:6], b"\1\0\x5e\0\0\1"


def tag(kind, bucket, locator, tpid=TPID):
    return struct.pack("!HH", tpid, kind << 13 | bucket << 7 | locator)


def request(kind):
    """Return the option of a segment that requests a signal."""
    head = option(FORWARD, (), 3)
    return bytes([head[0], 12]) + head[2:4] + struct.pack("!HIH", 0xf400, 0, kind << 13)


def frame(tags=b"", version=4, **how):
    return ethernet(ip_packet(version, **how), tags)


def parts(data, at=12):
    """Return type, bucket and locator of a tag."""
    tpid, word = struct.unpack_from("!HH", data, at)
    expect("TPID", tpid, TPID)
    return word >> 13, word >> 7 & 31, word & 127


def test_batches():
    """On a link without a rate a probe does not count as late if later data arrive in the same batch."""
    path = carrier_path("csig", switches=1)
    for dev in "left", "right":
        path.change(1, "hpcc rate 0 delay 0", dev)
    for ns, dev in (path.a, "right"), (path.b, "left"):
        ns.tc(f"qdisc replace dev {dev} root handle 1: hpcc stamp csig_push",
              f"qdisc replace dev {dev} parent 1:1 fq nopacing")
    ends = path.connect()
    for i in range(6):
        transfer((*ends, pattern(1000000, i)))
    expect("stopped", path.a.counters()["csig_stopped"], 0)
    expect_in("received", path.b.counters()["csig_received"], 100, 100000)
    path.no_errors()


def test_nobody_pushes():
    """The TCP option replaces CSIG if the host's port pushes no tags, or if no switch writes."""
    falls_back(carrier_path("csig", push="int"), "csig", "ignored")
    falls_back(carrier_path("csig", stamp="tcp"), "csig", "ignored")


def test_early_loss():
    """A flow falls back for losses before it detects that CSIG returns no signals: it returns by the TCP option."""
    # The large start_rtt_ns makes the flow start with W_init also after a long handshake, so its first burst loses
    # packets. Then the TCP option transports telemetry, which stops at most once more: CSIG may be silent before the
    # first record of the TCP option arrives.
    port = f"hpcc rate {PATH_MBPS // 10}mbit delay 200us node 2 port 2 stamp tcp,csig"
    for limit in "10kb", "15kb", "20kb", "25kb":
        path = carrier_path("csig", push="int", start_rtt_ns=10**9, max_stage=5)
        path.change(2, f"{port} limit {limit}")
        ends = path.connect()
        transfer((*ends, pattern(400000)))
        path.change(2, f"{port} limit 1mb")
        for i in range(20):
            transfer((*ends, pattern(400000, i)))
        a = path.a.counters()
        expect("losses", a["unseen_loss"], 1)
        expect_in("fallbacks for silence", a["fallbacks"], 0, 1)
        expect("returns", a["returns"], 1 + a["fallbacks"])
        expect_in("echoes", a["echo_received"], 1000, 100000)
        expect("mode", path.a.flow()["mode"], "telemetry")


def test_classic_tags_no_data():
    """After losses without a signal, requests use the TCP option, because the receiver would drop data with a tag."""
    for version in 4, 6:
        path, *ends = joined(carrier_path("csig", version=version))
        transfer((*ends, pattern(400000)))
        expect("mode", path.a.flow()["mode"], "telemetry")
        path.change(2, f"hpcc rate {PATH_MBPS // 10}mbit delay 200us limit 20kb nostamp")
        for i in range(40):
            transfer((*ends, pattern(100000, i)))
            if path.a.counters()["unseen_loss"]:
                break
        path.change(2, f"hpcc rate {PATH_MBPS}mbit delay 200us node 2 port 2 stamp tcp")
        expect("losses", path.a.counters()["unseen_loss"] > 0, True)
        timeouts = path.a.snmp("TcpExtTCPTimeouts")
        # Each of these segments is a request, so with tags all segments would be lost.
        for i in range(20):
            transfer((*ends, pattern(1000, i)))
            time.sleep(0.01)
        transfer((*ends, pattern(400000)))
        expect("csig_ignored, timeouts",
               (path.b.counters()["csig_ignored"], path.a.snmp("TcpExtTCPTimeouts")), (0, timeouts))


def test_kind_changes():
    """A connection keeps the option kind that it agreed on, and its tags."""
    path, *ends = joined(carrier_path("csig"))
    transfer((*ends, pattern(400000)))
    for ns in path.hosts:
        ns.sysctl("net.hpcc.option_kind", 254)
    before = path.b.counters()
    transfer((*ends, pattern(400000)))
    found = path.b.counters() - before
    expect("received, ignored", (found.get("csig_received", 0) > 10, found.get("csig_ignored", 0)), (True, 0))


def test_only_probes_come_in():
    """Only a pure ACK is accepted with a tag: filters that match the EtherType do not see TCP in a tagged frame."""
    hows = [({}, True), ({"flags": ACK | PSH}, True), ({"flags": ACK, "payload": b"hidden"}, False),
            *(({"flags": flags}, False) for flags in (RST, ACK | RST, ACK | FIN, ACK | URG, ACK | SYN, 0))]
    for version in 4, 6:
        pair = Pair(version, carrier=4)
        mac = bytes.fromhex(json.loads(pair.s.run("ip", "-j", "link", "show", "eth0"))[0]["address"].replace(":", ""))
        sock = packet_socket(pair.c, "eth0", 0)
        for dst, how, taken in (*((mac, *one) for one in hows), *((group, {}, False) for group in GROUPS)):
            ignored, segs = pair.s.counters()["csig_ignored"], pair.s.snmp("InSegs")
            sock.send(dst + frame(tag(QLEN, 3, 9), version, options=request(QLEN), **how)[6:])
            time.sleep(0.02)
            got = pair.s.snmp("InSegs") - segs, pair.s.counters()["csig_ignored"] - ignored
            expect(f"IPv{version} {dst.hex()} {how}: segments, ignored", got, (taken, not taken))


def test_port_writes():
    """The first port writes, a worse value replaces a better value, and no other byte of the frame changes."""
    for version in 4, 6:
        for tags in b"", VLAN, VLAN * 4:
            port = FramePort("stamp csig csig_time 1us int_window 1ms", SHAPE)
            at = 12 + len(tags)
            sent = frame(tags + tag(ABW_C, 3, 0), version, payload=b"data")
            got = port.through(sent)
            kind, bucket, locator = parts(got, at)
            expect("tag of an idle port", (kind, bucket, locator > 0), (ABW_C, 31, True))
            expect("other bytes", got[:at + 2] + got[at + 4:], sent[:at + 2] + sent[at + 4:])
            for kind, bucket in (ABW_C, 30), (PD, 31), (QLEN, 31), (QLEN, 0):
                sent = frame(tags + tag(kind, bucket, 99), version)
                expect(f"frame with the worse value {bucket} of type {kind}", port.through(sent), sent)
            expect("stamped, quiet", (port.stats()["stamped"], port.stats()["unstamped"]["quiet"]), (1, 4))


def test_port_queue():
    """QLEN shows the queue behind a packet, PD how long the packet waited, and ABW that no bandwidth is available."""
    port = FramePort("stamp csig csig_time 8us int_window 1us limit 1mb", SHAPE)
    took = 1538 * 8 / MBPS          # us
    full = frame(payload=bytes(1500 - 52))
    for kind in QLEN, PD, ABW_C:
        tagged = frame(tag(kind, 0 if kind != ABW_C else 31, 0))
        for data in full, tagged, full, full, full, tagged:
            port.send(data)
        got = [parts(data) for data in (port.recv(BROADCAST) for _ in range(6)) if data[12:14] == b"\x88\xb5"]
        first, last = (bucket for _, bucket, _ in got)
        value = [b if b < 4 else (4 + b % 4) << (b >> 2) - 1 for b in range(32)]
        if kind == QLEN:
            expect_in("queue behind the first, us", 3 * took + 10, value[first] * 8, value[first + 1] * 8)
            expect("queue behind the last, us", last, 0)
        elif kind == PD:
            expect_in("the first waited, us", took, value[first] * 8 - 8, value[first + 1] * 8)
            expect_in("the last waited, us", 4 * took + 8, value[last] * 8 - 8, value[last + 1] * 8)
        else:
            expect("available bandwidth", last, 0)


def test_port_leaves():
    """A frame that the port must not write to leaves unchanged, and is counted by reason."""
    qlen = tag(QLEN, 3, 0)
    leave_unchanged((
        ("stamp csig", frame(tag(ABW, 3, 0)), "no_option"), ("stamp csig", frame(tag(7, 3, 0)), "no_option"),
        ("stamp csig csig_tpid 0x1234", frame(qlen), "not_tcp"), ("stamp tcp", frame(qlen), "not_tcp"),
        ("stamp csig", frame(VLAN * 5 + qlen), "not_tcp"), ("stamp csig", frame(qlen)[:17], "not_tcp"),
        ("stamp csig", frame(), "off"), ("stamp csig", frame(options=request(QLEN)), "off"),
        ("nostamp", frame(qlen), "off"), ("stamp csig_push", frame(options=option(IDENTIFY, (), 3)), "off")), SHAPE)
    # A port without a rate or with a child cannot compute PD.
    sent = frame(tag(PD, 3, 0))
    expect("PD without rate", FramePort("stamp csig", "").through(sent), sent)
    port = FramePort("stamp csig", SHAPE)
    port.child("pfifo")
    expect("PD with a child", port.through(sent), sent)
    expect("no_option", port.stats()["unstamped"]["no_option"], 1)


def test_push():
    """Only a segment with a request gets a tag, in front of its IP header and behind its VLAN tag."""
    for version, tags, stamp in itertools.product((4, 6), (b"", VLAN), ("csig_push", "csig,csig_push")):
        port, at = FramePort(f"stamp {stamp}", SHAPE), 12 + len(tags)
        for kind in ABW_C, PD, QLEN:
            sent = frame(tags, version, options=request(kind))
            got = port.through(sent)
            expect("other bytes", got[:at] + got[at + 4:], sent)
            requested, bucket, locator = parts(got, at)
            expect("tag, checksum is right", (requested, bucket, locator > 0, Segment(got[at + 6:]).csum_ok),
                   (kind, 31 if kind == ABW_C else 0, "csig," in stamp, True))
        for data in (frame(tags, version), frame(tags, version, options=option(FORWARD, (), 3))):
            expect("frame without a request", port.through(data), data)
        expect("stamped", port.stats()["stamped"], 3)
    port = FramePort("stamp csig_push", SHAPE)
    for fill, grows in (1500 - 20 - 32 - 4, 4), (1500 - 20 - 32 - 3, 0):
        sent = frame(options=request(QLEN), payload=bytes(fill))
        expect("length near the MTU", len(port.through(sent)), len(sent) + grows)
    expect("counter full", port.stats()["unstamped"]["full"], 1)


def test_not_ethernet_any_more():
    """After a device has stopped being an Ethernet device, its port neither searches for tags nor pushes tags."""
    ns = Netns()
    with ns:
        tap = os.open("/dev/net/tun", os.O_RDWR)
        defer(os.close, tap)
        fcntl.ioctl(tap, 0x400454ca, struct.pack("16sH22x", b"t0", 0x1002))         # TUNSETIFF: IFF_TAP, IFF_NO_PI
    ns.tc("qdisc add dev t0 root hpcc stamp csig,csig_push")
    fcntl.ioctl(tap, 0x400454cd, 0xfffe)         # TUNSETLINK: ARPHRD_NONE
    ns.ip("link set t0 up")
    sock = packet_socket(ns, "t0", 0)
    ours = frame(options=request(QLEN))[14:]
    # The bytes of this source address look like a tag.
    like = ours[:12] + struct.pack("!HH", TPID, QLEN << 13) + ours[16:]
    for sent in ours, like:
        sock.sendto(sent, ("t0", 0x0800))
        while (got := os.read(tap, 4096))[:1] != b"\x45":
            pass
        expect("packet", got, sent)
    stats = ns.port("t0")["hpcc"]
    expect("no_memory, stamped", (stats["unstamped"]["no_memory"], stats["stamped"]), (0, 0))


def test_captures():
    """hpcc-carriers.lua reads captures/csig.pcap of unit/test_captures.c.

    The third port does not change the tag, because its own value is not worse than that in the tag.
    """
    tags = ["csig.type", "csig.bucket", "csig.locator"]
    record = ["hpcc.signal", "hpcc.signal.popped", "hpcc.signal.bucket", "hpcc.signal.locator"]
    packets = tshark.capture("csig", tags + record + ["tcp.checksum.status", "hpcc.bad_hop"])
    want = []
    # ABW: 5000 and 625 of 10000 are free, in units of 50. QLEN: 20 and 90 us in units of 64 ns.
    for kind, empty, buckets in (ABW_C, 31, (31, 12)), (QLEN, 0, (28, 31)):
        asked = [[str(kind)], ["0"], [str(empty)], ["0"]]
        for bucket, locator in (empty, 0), (buckets[0], 1), (buckets[1], 2):
            want.append([[str(kind)], [str(bucket)], [str(locator)], *asked, ["1"], []])
        want.append([[], [], [], [str(kind)], ["1"], [str(buckets[1])], ["2"], ["1"], []])
    expect("packets", [list(packet.values()) for packet in packets], want)


main(modules=["sch_hpcc", "tcp_hpcc"])
