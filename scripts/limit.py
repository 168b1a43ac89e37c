#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Limit the CPU time of a command, so that a busy machine does not cut it off.

usage: limit.py SECONDS COMMAND [ARG]...

The processes of COMMAND may use SECONDS of CPU time together, within WALL times as many
seconds of real time. HPCC_HANG_S (600) seconds of which they use less than a 600th, as CPU time, end a
command that hangs earlier. COMMAND's exit status is ours; 124: it took too long.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

# Real time that a command may take, in units of its CPU time.
WALL = 6
# Programs that hang while they wait for each other still wake up from time to time.
HANG_S = float(os.environ.get("HPCC_HANG_S", "600"))
HANG_CPU_S = HANG_S / 600
# Seconds between SIGTERM and SIGKILL, and between looks at /proc.
GRACE_S = 5
LOOK_S = 1
TICKS = os.sysconf("SC_CLK_TCK")
TIMED_OUT = 124


def processes():
    """Yield (pid, parent, session, CPU seconds with those of children that ended) of all there are."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        # The second field is a name in parentheses, which may contain anything.
        fields = stat.rpartition(")")[2].split()
        yield int(path.parent.name), int(fields[1]), int(fields[3]), sum(map(int, fields[11:15])) / TICKS


def cpu_seconds(pid):
    """Return the CPU time of a process, its descendants, and the other processes of its session."""
    found = {entry[0]: entry[1:] for entry in processes()}
    children = {}
    for child, (parent, session, _) in found.items():
        children.setdefault(parent, []).append(child)
        if session == pid:
            children.setdefault(pid, []).append(child)
    mine, waiting = set(), [pid]
    while waiting:
        here = waiting.pop()
        if here not in mine:
            mine.add(here)
            waiting += children.get(here, [])
    return sum(found[here][2] for here in mine if here in found)


class Limit:
    """The CPU and real time that a process may use from now on."""

    def __init__(self, pid, seconds):
        self.pid, self.seconds = pid, seconds
        self.began = self.moved = time.monotonic()
        self.used = 0       # CPU time at the last progress

    def exceeded(self):
        """Return why the process must end, or None."""
        now, used = time.monotonic(), cpu_seconds(self.pid)
        # The sum falls when a process ends whose parent does not wait for it.
        if not self.used <= used < self.used + HANG_CPU_S:
            self.used, self.moved = used, now
        if used >= self.seconds:
            return f"timed out after {self.seconds:g} s of CPU time"
        if now - self.began >= WALL * self.seconds:
            return f"timed out after {WALL * self.seconds:g} s, of which less than {self.seconds:g} s CPU time"
        if now - self.moved >= HANG_S:
            return f"timed out after {HANG_S:g} s with less than {HANG_CPU_S:.2g} s of CPU time: it hangs"
        return None


def watch(process, seconds, reasons):
    """End a process that exceeds its limit, and leave the reason."""
    limit = Limit(process.pid, seconds)
    while process.poll() is None and not reasons:
        time.sleep(LOOK_S)
        reasons += filter(None, [limit.exceeded()])
    process.send_signal(signal.SIGTERM)
    time.sleep(GRACE_S)
    process.kill()


def main(seconds, *command):
    reasons = []
    with subprocess.Popen(command) as process:
        threading.Thread(target=watch, args=(process, float(seconds), reasons), daemon=True).start()
        status = process.wait()
    if reasons:
        print(f"limit: {reasons[0]}", file=sys.stderr)
        return TIMED_OUT
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
