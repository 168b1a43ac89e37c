#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/common/receive.c: what a receiver lets its peer send in the first round trip."""

import socket
import struct
import sys

sys.path[0] += "/.."
from lib.ktap import expect, expect_in, main
from lib.net import Pair
from lib.packet import Sniffer
from lib.tcp import TCP_INFO, tcp_info

# B = 100 Gb/s, T = 12 us.
MBPS, T_NS = 100000, 12000
W_INIT = MBPS * T_NS // 8000
RMEM = 4 * W_INIT
SYN_WINDOW = 1 << 16        # 65535, in units of the window's scale
SND_WND = 228       # in struct tcp_info


def send_window(sock):
    """What the peer takes, bytes."""
    raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, SND_WND + 4)
    return struct.unpack_from("=I", raw, SND_WND)[0]


def pair_of(cc, version=4, rmem=RMEM):
    """Two hosts that have that W_init and receive buffers of so many bytes."""
    told = {"host_mbps": MBPS, "base_rtt_ns": T_NS}
    pair = Pair(version, cc=cc, delay="100us", ldcp=told, **told)
    for ns in pair.c, pair.s:
        ns.sysctl("net.ipv4.tcp_rmem", f"4096 {rmem} 16777216")
    return pair


def most(version=4):
    """What a sender may send to whom opens the window: twice W_init, or TCP's own window."""
    pair = pair_of(("cubic", "cubic"), version)
    ends = pair.connect()
    pair.c.run("sleep", "0.01")
    return max(2 * W_INIT, *map(send_window, ends)) + 4096


def test_first_window():
    """Both ways, whoever connects."""
    for cc in "hpcc", "ldcp":
        for version in 4, 6:
            pair = pair_of((cc, cc), version)
            ends = pair.connect()
            pair.c.run("sleep", "0.01")
            for who, sock in zip(("client", "server"), ends):
                expect_in(f"{who} may send, {cc}", send_window(sock), W_INIT - 4096, most())


def test_before_data():
    """The client hears of it without having sent anything."""
    pair = pair_of(("hpcc", "hpcc"))
    sniffer = Sniffer(pair.c)
    client, _ = pair.connect()
    pair.c.run("sleep", "0.01")
    expect_in("client may send", send_window(client), W_INIT - 4096, most())
    segments = sniffer.segments()
    expect("segments", len(segments), 4)        # the fourth is the server's ACK


def test_small_buffer():
    """Where the receive buffer has no room for more, nothing is said and nothing is sent."""
    pair = pair_of(("hpcc", "hpcc"), rmem=131072)
    sniffer = Sniffer(pair.c)
    client, _ = pair.connect()
    pair.c.run("sleep", "0.01")
    expect_in("client may send", send_window(client), 1, SYN_WINDOW)
    expect("segments", len(sniffer.segments()), 3)


def test_peer_that_does_not_agree():
    """TCP's own window where the connection runs classic."""
    windows = []
    for cc in ("cubic", "cubic"), ("cubic", "hpcc"), ("hpcc", "cubic"):
        pair = pair_of(cc)
        sniffer = Sniffer(pair.c)
        client, server = pair.connect()
        pair.c.run("sleep", "0.01")
        windows.append((send_window(client), send_window(server)))
        # A SYN-ACK cannot say more.
        expect_in(f"client may send, {cc}", windows[-1][0], 1, SYN_WINDOW)
        expect("segments", len(sniffer.segments()), 3)
        expect("established", tcp_info(client)["state"], 1)
    # On 7.2 an active socket begins with more than 64 KB.
    expect("windows beside those of cubic alone", windows[1:], windows[:1] * 2)


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc", "tcp_ldcp"])
