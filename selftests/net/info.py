#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""ss and getsockopt(TCP_CC_INFO) show the state of hpcc and ldcp."""

import errno
import re
import socket
import struct
import threading
import time

from lib.genl import NLM_F_DUMP, NLMSG_DONE, attrs_of
from lib.ktap import expect, expect_in, main
from lib.net import Netns, Pair
from lib.peer import T_NS, Flow, LdcpFlow, measured, settle, timed_out
from lib.plumbing import Netlink
from lib.tcp import pattern, set_cc, transfer

TCP_INFO, TCP_CC_INFO, PACING_RATE_AT = 11, 26, 104
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
DIAG_INFO, DIAG_VEGASINFO, DIAG_CONG, DIAG_BBRINFO = 2, 3, 4, 16
BBR = re.compile(r"bbr:\(bw:(\d+)bps,mrtt:([\d.]+),pacing_gain:([\d.]+),cwnd_gain:([\d.]+)\)")


def cc_info(sock):
    """Return bw in bytes/s, min_rtt in ns, and both gains; or None if the kernel gives none."""
    raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_CC_INFO, 64)
    if not raw:
        return None
    low, high, rtt_us, pacing_gain, cwnd_gain = struct.unpack("=5I", raw)
    return high << 32 | low, rtt_us * 1000, pacing_gain / 256, cwnd_gain / 256


def shown(ns, what="-n"):
    """Return the same four values as ss shows them, or None."""
    found = BBR.search(ns.run("ss", "-tiH", what))
    if not found:
        return None
    bw, rtt_ms, *gains = found.groups()
    return int(bw) / 8, float(rtt_ms) * 1e6, *[float(gain) for gain in gains]


def expect_info(what, got, want):
    """Fail unless all four values are as expected, to 1/256 and the rounding of ss."""
    for name, value, right in zip(("bw", "min_rtt", "pacing_gain", "cwnd_gain"), got, want):
        expect_in(f"{what}, {name}", value, right * 0.995 - 1 / 256, right * 1.005 + 1 / 256)


def test_hpcc():
    """bw is R, min_rtt is T, and the gains are U and eta, over IPv4 and IPv6."""
    for version in 4, 6:
        flow, link, _ = measured(1, 0.8, version=version, eta_permille=900)
        attrs = flow.round(link.step(9000, 0.8, 0.5))
        want = attrs["R"], attrs["T_ns"], attrs["U_permille"] / 1000, 0.9
        expect_in("U", attrs["U_permille"], 100, 5000)
        expect_info("getsockopt", cc_info(flow.sock), want)
        expect_info("ss", shown(flow.ns), want)


def test_unpaced():
    """bw is W/T also if ACKs clock the segments."""
    flow, link, _ = measured(8, 0.8, pace=0)
    first = flow.acked
    flow.run()
    flow.acked = first + 20 * 1420          # more segments are still in flight
    flow.echo(link.step(9000, 0.8))
    expect("pacing rate", flow.rate(), (1 << 64) - 1)
    expect_in("bw", cc_info(flow.sock)[0], *[flow.flow()["W"] * 1e9 / T_NS * part for part in (0.99, 1.01)])


def test_follows_U():
    """With a queue U grows, and R falls."""
    flow, link, _ = measured(2, 0.5)
    before = cc_info(flow.sock)
    settle(flow, link, 10000)
    after = cc_info(flow.sock)
    expect_in("U", after[2], 1.5, 2.5)
    expect_in("U before", before[2], 0.1, 1)
    expect_in("R", after[0], 1, before[0] / 5)


def test_classic_shows_nothing():
    """Neither hpcc-classic, which is Reno, nor an end with Reno has such information."""
    pair = Pair()
    pair.s.sysctl("net.ipv4.tcp_congestion_control", "reno")
    client, server = pair.connect()
    transfer((client, server, pattern(10000)))
    expect("flows of hpcc-classic", pair.c.run("ss", "-tinH").count("hpcc-classic"), 1)
    expect("getsockopt, ss", (cc_info(client), cc_info(server), shown(pair.c)), (None, None, None))


def test_after_a_timeout():
    """After an RTO bw is one segment in T, although TCP still has the older rate."""
    flow, _, _ = timed_out()
    attrs = flow.flow()
    expect_in("W", attrs["W"], 1400, 1460)
    expect_info("getsockopt", cc_info(flow.sock),
                (attrs["W"] * 1e9 / T_NS, attrs["T_ns"], attrs["U_permille"] / 1000, 0.95))


def test_ldcp():
    """bw is cw per RTT, pacing_gain is cw, and cwnd_gain is cw_min."""
    flow = LdcpFlow(ldcp={"cw_min_permille": 100}).busy()
    flow.below(1)
    for cw in 1, 1 / 2, 1 / 4, 1 / 8:
        if cw < 1:
            flow.ack(1, marked=True)
            expect("segment sent", any(flow.got(2e-9 * T_NS) for _ in range(200)), True)
        bw, rtt_ns, *gains = cc_info(flow.sock)
        expect("cw, cw_min", gains, [cw, 25 / 256])
        expect_in("RTT", rtt_ns, T_NS, 8 * T_NS)
        # the RTT is rounded up, by 1 us at most
        expect_in("bw", bw * rtt_ns / 1e9, cw * flow.MSS - 1, cw * flow.MSS * 1.002 + 1)
        expect_info("ss", shown(flow.ns), (bw, rtt_ns, *gains))


def test_only_who_asks():
    """ss without -i does not print the information; unconnected sockets and UDP sockets have no such information."""
    flow = Flow()
    expect("ss without -i", BBR.search(flow.ns.run("ss", "-tnH")), None)
    ns = Netns()
    with ns, socket.socket() as sock:
        for cc in "hpcc", "ldcp":
            set_cc(sock, cc)
            expect(f"{cc}, not connected", cc_info(sock), None)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            try:
                cc_info(udp)
                raise AssertionError("UDP has a TCP_CC_INFO")
            except OSError as error:
                expect("UDP", error.errno in (errno.EOPNOTSUPP, errno.ENOPROTOOPT), True)


class SockDiag(Netlink):
    """A sock_diag socket of a namespace."""

    def __init__(self, ns):
        super().__init__(ns, NETLINK_SOCK_DIAG)

    def attributes(self, *extensions):
        """Return the attributes of the IPv4 TCP connections for a request of these extensions."""
        bits = sum(1 << number - 1 for number in extensions)
        self.send(SOCK_DIAG_BY_FAMILY, struct.pack("=BBBxI48x", socket.AF_INET, socket.IPPROTO_TCP, bits, 1 << 1), NLM_F_DUMP)
        found = {}
        while True:
            for what, message in self.messages():
                if what == NLMSG_DONE:
                    return found
                found |= dict(attrs_of(message[16 + 72:]))


def test_only_with_the_name():
    """A program that does not request the congestion control's name gets no attribute of bbr."""
    for cc, flow in ("hpcc", Flow()), ("ldcp", LdcpFlow().busy()):
        diag = SockDiag(flow.ns)
        found = diag.attributes(DIAG_INFO, DIAG_VEGASINFO, DIAG_CONG)
        expect("name", found[DIAG_CONG].rstrip(b"\0").decode(), cc)
        expect("bytes with the name", len(found.get(DIAG_BBRINFO, b"")), 20)
        for extensions in (DIAG_INFO, DIAG_VEGASINFO), (DIAG_INFO, DIAG_CONG):
            found = diag.attributes(*extensions)
            expect(f"attributes for {extensions}", (DIAG_INFO in found, DIAG_BBRINFO in found), (True, False))


def test_while_it_changes():
    """While sockets change their congestion control and end, ss and getsockopt() return either all values or none."""
    pair = Pair()
    listener = pair.listen()
    done = threading.Event()
    found = []          # for each run of ss the number of flows with values

    def run_ss():
        while not done.is_set():
            found.append(len(BBR.findall(pair.c.run("ss", "-tinH"))))

    thread = threading.Thread(target=run_ss)
    thread.start()
    try:
        while sum(found) < 20:
            client, server = pair.connect(listener)
            transfer((client, server, pattern(5000)))
            for cc in "reno", "hpcc", "ldcp", "hpcc":
                set_cc(client, cc)
                info = cc_info(client)
                expect_in(f"fields, {cc}", len(info or ()), 0, 0 if cc == "reno" else 4)
            time.sleep(0.001)
            client.close()
            server.close()
    finally:
        done.set()
        thread.join()
    print(f"# ss ran {len(found)} times and showed {sum(found)} flows with values")


main(modules=["sch_hpcc", "tcp_ldcp"])
