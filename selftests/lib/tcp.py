# SPDX-License-Identifier: GPL-2.0
"""TCP sockets: their options, and data transfers over them."""

import contextlib
import ctypes
import errno
import select
import socket
import struct
import time

from .kernel import virtual_time

_libc = ctypes.CDLL(None, use_errno=True)

TCP_CONGESTION = 13
TCP_INFO = 11


def set_cc(sock, name):
    sock.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, name.encode())


def get_cc(sock):
    return sock.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).split(b"\0")[0].decode()


def tcp_info(sock):
    """Return some members of struct tcp_info."""
    raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 192).ljust(192, b"\0")
    words = struct.unpack_from("=24I", raw, 8)
    return {"state": raw[0], "ca_state": raw[1], "snd_mss": words[2], "rcv_mss": words[3], "pmtu": words[13],
            "ssthresh": words[17], "rtt_us": words[15], "cwnd": words[18], "reordering": words[20],
            "retrans": words[23], "pacing_rate": struct.unpack_from("=Q", raw, 104)[0]}


def let_go(sock):
    """Close a socket at the end of a test; in real time by a RST, because it would use its module for a minute."""
    if not virtual_time() and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    sock.close()


def disconnect(sock):
    """Disconnect a socket by connect(AF_UNSPEC)."""
    if _libc.connect(sock.fileno(), bytes(16), 16):
        raise OSError(ctypes.get_errno(), "disconnect")


def pattern(nbytes, salt=0):
    """Return bytes that neither repeat within a segment nor equal the bytes of other data."""
    words = (nbytes + 3) // 4
    return struct.pack(f"={words}I", *((i * 2654435761 + salt) & 0xffffffff for i in range(words)))[:nbytes]


def transfer(*ways, timeout_s=60, each=None):
    """Send data in each way (from, to, bytes). Fail unless they arrive unchanged. Call each() from time to time."""
    sent, got, want = {}, {}, {}
    poll = select.poll()
    events = {}
    for source, sink, data in ways:
        sent[source.fileno()] = (source, memoryview(data))
        got[sink.fileno()] = (sink, bytearray())
        want[sink.fileno()] = data
        for sock, event in ((source, select.POLLOUT), (sink, select.POLLIN)):
            sock.setblocking(False)
            events[sock.fileno()] = events.get(sock.fileno(), 0) | event
    for fd, event in events.items():
        poll.register(fd, event)
    deadline = time.monotonic() + timeout_s
    while any(len(got[fd][1]) < len(want[fd]) for fd in got):
        left = deadline - time.monotonic()
        ready = poll.poll(max(left, 0) * 1000)
        if not ready:
            raise AssertionError("transfer stalls: " + ", ".join(
                f"{len(got[fd][1])} of {len(want[fd])} bytes" for fd in got))
        if each:
            each()
        for fd, event in ready:
            if event & select.POLLOUT:
                sock, data = sent[fd]
                data = data[sock.send(data[:1 << 18]):]
                sent[fd] = (sock, data)
                if not data:
                    events[fd] &= ~select.POLLOUT
                    poll.modify(fd, events[fd])
            if event & (select.POLLIN | select.POLLHUP):
                sock, data = got[fd]
                chunk = sock.recv(1 << 20)
                if not chunk:
                    raise AssertionError("connection closed early")
                data += chunk
            if event & select.POLLERR:
                raise AssertionError("connection failed")
    for fd, data in want.items():
        if got[fd][1] != data:
            raise AssertionError("data differ")


def until(known, send):
    """In real time, call send() until known() is true: a busy machine acknowledges much data at once and gets few
    records, and after a pause of the machine a flow falls back and returns. In virtual time, send nothing.
    """
    for _ in range(0 if virtual_time() else 40):
        if known():
            break
        send()


def bind_soon(sock, addr):
    """Call bind() until IPv6 has finished duplicate address detection."""
    for _ in range(2000):
        try:
            sock.bind(addr)
            return
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
        time.sleep(0.001)
    sock.bind(addr)


def goodput_mbps(client, server, nbytes, each=None):
    start = time.monotonic()
    transfer((client, server, pattern(nbytes)), each=each)
    return nbytes * 8 / (time.monotonic() - start) / 1e6


def send_for(seconds, *flows, step=0.002):
    """Send on connections for some seconds. Return the bytes that arrived on each."""
    end = time.monotonic() + seconds
    arrived = [0] * len(flows)
    for ends in flows:
        for sock in ends:
            sock.setblocking(False)
    while time.monotonic() < end:
        for number, (client, server) in enumerate(flows):
            with contextlib.suppress(BlockingIOError):
                client.send(bytes(1 << 20))
            with contextlib.suppress(BlockingIOError):
                arrived[number] += len(server.recv(1 << 20))
        time.sleep(step)
    return arrived
