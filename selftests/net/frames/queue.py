#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""For sch_hpcc.sh and child.sh: print when frames arrive."""

import socket
import struct
import subprocess
import time

from lib.frames import THREE, check_stamped, from_host, ip4, main, receive_all, request, seg4, warm_up
from lib.packet import FREE, eth

SO_PRIORITY = 12


def numbered(count, size):
    """Return numbered frames of an unknown protocol."""
    return [eth(struct.pack(">I", i).ljust(int(size) - 14, b"."), 46) for i in range(int(count))]


def burst(wire, count, size, *command):
    """Send frames back to back, run a command, and return (time of arrival, number) of each frame that arrives."""
    sent = {frame: i for i, frame in enumerate(numbered(count, size))}
    for frame in sent:
        wire.send(frame)
    if command:
        subprocess.run(command, check=True)
    found = []
    while got := wire.receive(0.5):
        found.append((got[0], sent.get(got[1], -1)))
    return found


def group_burst(wire, count, size):
    """Send frames back to back, and print when each frame arrives."""
    warm_up(wire)
    for arrival in burst(wire, count, size):
        print(*arrival)


def group_apart(wire, count, size):
    """Send each frame after the previous frame has arrived, so that no frame is queued."""
    warm_up(wire)
    for frame in numbered(count, size):
        wire.send(frame)
        assert wire.receive(0.5)[1] == frame


def print_sources(wire, sent_frames):
    """Send frames, and print the time of arrival and the source of each, until none arrives."""
    for frame in sent_frames:
        wire.send(frame)
    while got := wire.receive(0.5):
        print(got[0], got[1][29])


def of_source(host, size):
    """Return a frame with a TCP segment from one of 256 hosts."""
    return from_host(host, payload=bytes(int(size) - 54 - len(THREE)))


def group_sources(wire, count, size, *hosts):
    """Send `count` frames from one source after the other, back to back."""
    warm_up(wire)
    print_sources(wire, [of_source(int(host), size) for host in hosts for _ in range(int(count))])


def group_priorities(wire, count, size):
    """Send frames from source 1, then frames with a high priority from source 2."""
    warm_up(wire)
    for host, priority in (1, 0), (2, 6):
        wire.tx.setsockopt(socket.SOL_SOCKET, SO_PRIORITY, priority)
        for _ in range(int(count)):
            wire.send(of_source(host, size))
    print_sources(wire, [])


def group_during(wire, count, size, *command):
    """Send frames, run a command, and print which frames arrive."""
    for _, number in burst(wire, count, size, *command):
        print(number)


def group_latency(wire):
    """Print the times from the first frame's ts to the arrival of each of two frames, minus the port's offset of ts."""
    warm_up(wire)
    opt = request([FREE])
    frame = eth(ip4(seg4(options=opt, payload=bytes(934))))
    assert len(frame) == 1000
    wire.send(frame)
    wire.send(frame)
    # The realtime clock is read right after the monotonic one, to get their difference.
    before = time.monotonic_ns()
    offset = time.time_ns() - before
    (first, got), (second, _) = receive_all(wire, 2)
    ts = check_stamped("latency", frame, got, opt).load()[2]
    print(*[(t - offset - ts) % 2 ** 20 for t in (first, second)])


main()
