#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/common/receive.c: the window that a receiver opens for the first round trip."""

import socket
import struct

from lib.ktap import expect, expect_in, main
from lib.net import Pair
from lib.packet import Sniffer
from lib.tcp import TCP_INFO, tcp_info

# B = 100 Gb/s, T = 12 us.
MBPS, T_NS = 100000, 12000
W_INIT = MBPS * T_NS // 8000
RMEM = 4 * W_INIT
SYN_WINDOW = 1 << 16        # 65535, scaled by the window's unit
SND_WND = 228       # in struct tcp_info


def send_window(sock):
    raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, SND_WND + 4)
    return struct.unpack_from("=I", raw, SND_WND)[0]


def connected(cc, version=4, rmem=RMEM):
    """Connect two hosts with this W_init and receive buffers of `rmem` bytes. Return both sockets and the segments."""
    sysctls = {"host_mbps": MBPS, "base_rtt_ns": T_NS}
    pair = Pair(version, cc=cc, delay="100us", ldcp=sysctls, **sysctls)
    for ns in pair.c, pair.s:
        ns.sysctl("net.ipv4.tcp_rmem", f"4096 {rmem} 16777216")
    sniffer, ends = Sniffer(pair.c), pair.connect()
    pair.c.run("sleep", "0.01")
    return ends, sniffer.segments()


def most(version=4):
    """Return the largest window that may be advertised: twice W_init, or TCP's own window."""
    return max(2 * W_INIT, *map(send_window, connected(("cubic", "cubic"), version)[0])) + 4096


def test_first_window():
    """Client and server both open their receive window to W_init at the handshake."""
    for cc in "hpcc", "ldcp":
        for version in 4, 6:
            for who, sock in zip(("client", "server"), connected((cc, cc), version)[0]):
                expect_in(f"{who} may send, {cc}", send_window(sock), W_INIT - 4096, most())


def test_before_data():
    """The server sends one more ACK, with the larger window (test_first_window), before any data."""
    expect("segments", len(connected(("hpcc", "hpcc"))[1]), 4)


def test_small_buffer():
    """If the receive buffer is too small the window is not opened, and no extra segment is sent."""
    (client, _), segments = connected(("hpcc", "hpcc"), rmem=131072)
    expect_in("client may send", send_window(client), 1, SYN_WINDOW)
    expect("segments", len(segments), 3)


def test_peer_that_does_not_agree():
    """A connection in classic mode has TCP's own window."""
    windows = []
    for cc in ("cubic", "cubic"), ("cubic", "hpcc"), ("hpcc", "cubic"):
        (client, server), segments = connected(cc)
        windows.append((send_window(client), send_window(server)))
        # The window in a SYN-ACK is not scaled.
        expect_in(f"client may send, {cc}", windows[-1][0], 1, SYN_WINDOW)
        expect("segments", len(segments), 3)
        expect("established", tcp_info(client)["state"], 1)
    # On Linux 7.2 an active (connecting) socket starts with a receive window of more than 64 KB.
    expect("windows with hpcc at one end", windows[1:], windows[:1] * 2)


main(modules=["sch_hpcc", "tcp_ldcp"])
