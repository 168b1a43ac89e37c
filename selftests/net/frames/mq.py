#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""For mq.sh: frames through a port of several queues with the qdisc "hpcc"."""

import itertools
import os
import socket
import time

from lib.frames import OVERHEAD, THREE, check_stamped, expect, from_host, main
from lib.kernel import virtual_time

FRAME = 256 - OVERHEAD          # on the wire 256 bytes: 2048 ns at 1 Gb/s
NS = 2048
SO_PRIORITY = 12
CPUS = itertools.cycle(sorted(os.sched_getaffinity(0)))


def frame_from(host, ecn=0):
    """Return a segment with an option from one of many hosts, whose hashes select all queues."""
    return from_host(host, tos=ecn, payload=bytes(FRAME - 54 - len(THREE)))


def sent_by(wire):
    """Return {handle: packets that its qdisc sent}."""
    return {q["handle"]: q["hpcc"]["tx_packets"] for q in wire.qdiscs()}


def loads(wire, what, count):
    """Return (hop, tag, ts, tx, qlen) of the next `count` frames."""
    found = []
    for number in range(count):
        got = wire.receive()
        frame = got and got[1]
        sent = frame_from(frame[29] if frame else 1)
        stamped = check_stamped(f"{what} {number}", sent, frame, THREE)
        if stamped:
            found.append(stamped.load())
    return found


def one_by_one(wire, hosts):
    """Send one frame per host. Return the queue and the record of each frame."""
    found = []
    before = sent_by(wire)
    for host in hosts:
        wire.send(frame_from(host))
        load = loads(wire, f"host {host}", 1)
        after = sent_by(wire)
        queue = [handle for handle in after if after[handle] != before[handle]]
        expect(f"host {host}: queues", len(queue), 1)
        found.append((queue[0], load[0]))
        before = after
    expect("more than two queues", len({queue for queue, _ in found}) > 2, True)
    return found


def group_tx_of_all(wire):
    """All queues share one tx counter and one clock."""
    found = one_by_one(wire, range(1, 25))
    expect("tx", [(load[3] - found[0][1][3]) % (1 << 20) for _, load in found], [i * NS for i in range(len(found))])
    if virtual_time():
        steps = [(b[2] - a[2]) % (1 << 20) for (_, a), (_, b) in zip(found, found[1:])]
        expect("ts increases", all(step < 1 << 19 for step in steps), True)


def group_tx_goes_on(wire):
    """tx advances by one frame's time for each frame, from any first value."""
    found = one_by_one(wire, range(1, 25))
    expect("steps of tx", {(b[1][3] - a[1][3]) % (1 << 20) for a, b in zip(found, found[1:])}, {NS})


def group_tx_of_each(wire):
    due = {}
    for queue, load in one_by_one(wire, range(1, 25)):
        expect(f"tx of {queue}", load[3], due.get(queue, load[3]))
        due[queue] = (load[3] + NS) % (1 << 20)


def send_to(wire, minor, ecn=0):
    """Send a frame to a class of HTB, each time from another CPU."""
    os.sched_setaffinity(0, {next(CPUS)})
    wire.tx.setsockopt(socket.SOL_SOCKET, SO_PRIORITY, 0x10000 | minor)
    wire.send(frame_from(minor, ecn))


def fill(wire, count, ecn=0):
    """Send `count` frames to each class: the first leaves at once, and the others are queued."""
    for minor in [1] * count + [2] * count:
        send_to(wire, minor, ecn)


def group_fill(wire):
    """Queue one frame in each class, which the shell script examines."""
    fill(wire, 2)


def group_qlen_of_all(wire, *want):
    """qlen includes the frames that wait in the other class."""
    fill(wire, 3)
    expect("queue", [load[4] / NS for load in loads(wire, "frame", 6)], list(want) or [0, 2, 3, 2, 1, 0])


def group_qlen_of_each(wire):
    """qlen does not include the frames that wait in the other class."""
    group_qlen_of_all(wire, 0, 0, 1, 1, 0, 0)


def marks_of(wire, count, marks):
    """Add {class: [ECN fields]} for the next `count` frames. Return the class of the last frame."""
    source = None
    for _ in range(count):
        got = wire.receive()
        if got:
            source = got[1][29]
            marks.setdefault(source, []).append(got[1][15] & 3)
    return source


def group_marks_by_all(wire):
    """With K_min = K_max = 600 bytes the fourth queued frame finds a longer queue, in any class, in each turn."""
    for turn in range(4):
        fill(wire, 3, ecn=2)
        marks = {}
        marks_of(wire, 6, marks)
        # Class 1 finds 0, 0 and 1 frames, class 2 finds 2, 2 and 3.
        expect(f"turn {turn}, class 1", marks.get(1), [2, 2, 2])
        expect(f"turn {turn}, class 2", marks.get(2), [2, 2, 3])
        # Wait until the first frame of each class leaves at once again.
        time.sleep(1)


def group_marks_by_each(wire):
    """With K_min = K_max = 600 bytes the fifth frame finds three waiting frames of its own class, and is marked."""
    fill(wire, 5, ecn=2)
    marks = {}
    marks_of(wire, 10, marks)
    # Each class finds 0, 0, 1, 2 and 3 frames.
    expect("marks", marks, {1: [2, 2, 2, 2, 3], 2: [2, 2, 2, 2, 3]})


def group_marks_less_as_packets_leave(wire):
    """With K_min = K_max = 600 bytes frames of class 2 find a queue of three frames of class 1, and later of two."""
    for minor in (1, 1, 1, 1, 2):
        send_to(wire, minor, ecn=2)
    marks = {}
    while len(marks.get(1, [])) < 2 and marks_of(wire, 1, marks):
        pass
    send_to(wire, 2, ecn=2)
    marks_of(wire, 3, marks)
    expect("class 1", marks.get(1), [2, 2, 2, 2])
    expect("class 2", marks.get(2), [3, 2])


main()
