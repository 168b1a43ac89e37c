#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Limit the CPU time of a command. The CPU time does not depend on other load of the machine.

usage: limit.py [--guest] SECONDS COMMAND [ARG]...

limit.py ends COMMAND when all its processes together have used SECONDS of CPU time, or after 6 * SECONDS of
real time. It ends COMMAND earlier if COMMAND hangs, that is if its processes use less than a 600th of
HPCC_HANG_S seconds (default: 600) as CPU time. The exit status is that of COMMAND, or 124 if limit.py
ended COMMAND.

--guest: COMMAND is User Mode Linux in virtual time. Virtual time stands still while a program computes, so a
program that waits for the clock without a system call never ends. limit.py ends COMMAND after HPCC_STANDSTILL_S
seconds (default: 120) of CPU time without a system call.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

# Maximum real time of a command, as a multiple of its maximum CPU time.
WALL = 6
# A command hangs if it uses less than HANG_CPU_S of CPU time in HANG_S. The limit is not 0, because programs that wait
# for each other forever still wake up from time to time.
HANG_S = float(os.environ.get("HPCC_HANG_S", "600"))
HANG_CPU_S = HANG_S / 600
STANDSTILL_S = float(os.environ.get("HPCC_STANDSTILL_S", "120"))
# Other processes use at most this fraction of the program's CPU time during a standstill. A page fault or a system
# call every 10 ms would use more.
STANDSTILL_OTHERS = 1 / 1000
# The end of the first page of a guest's program: the path with which it was started, and 9 zeros.
GUEST_STACK = re.compile(rb"\0([!-~]+)\0{9}\Z")
# Seconds between SIGTERM and SIGKILL, and between two reads of /proc.
GRACE_S = 5
LOOK_S = 1
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
TIMED_OUT = 124


def processes():
    """Yield (pid, parent, session, CPU seconds including ended children) of all processes."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        # The second field is a name in parentheses, which may contain anything.
        fields = stat.rpartition(")")[2].split()
        yield int(path.parent.name), int(fields[1]), int(fields[3]), sum(map(int, fields[11:15])) / TICKS


def cpu_seconds(pid):
    """Return {pid: CPU seconds} of a process, its descendants, and the other processes of its session."""
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
    return {here: found[here][2] for here in mine if here in found}


def guest_program(pid):
    """Return the path with which the guest started the program that this process runs, or None.
    A guest's kernel traces its processes. A file contains the memory of the guest, and the memory of a process is
    a shared mapping of this file. The highest page that ends with text is the first page of the stack.
    """
    try:
        if "\nTracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text(encoding="utf-8"):
            return None
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
            for line in reversed([line for line in maps if "rwxs" in line or "rw-s" in line]):
                memory.seek(int(line.split("-")[1].split()[0], 16) - PAGE)
                name = GUEST_STACK.search(memory.read(PAGE))
                if name:
                    return name[1].decode()
    except OSError:
        pass
    return "a program"


class Limit:
    """The CPU and real time that a process may use from now on."""

    def __init__(self, pid, seconds, guest=False):
        self.pid, self.seconds, self.guest = pid, seconds, guest
        # For each process: its CPU time, and the CPU time of all others, at the last time when the others used CPU time.
        self.alone = {}
        self.began = self.moved = time.monotonic()
        self.used = 0       # CPU time at the last progress

    def exceeded(self):
        """Return the reason why the process must end, or None."""
        now, times = time.monotonic(), cpu_seconds(self.pid)
        used = sum(times.values())
        # The sum falls when a process ends whose parent does not wait for it.
        if not self.used <= used < self.used + HANG_CPU_S:
            self.used, self.moved = used, now
        program = self.guest and self.standstill(times, used)
        if program:
            return f"{program} has computed for {STANDSTILL_S:g} s without a system call: virtual time stands still"
        if used >= self.seconds:
            return f"timed out after {self.seconds:g} s of CPU time"
        if now - self.began >= WALL * self.seconds:
            return f"timed out after {WALL * self.seconds:g} s, of which less than {self.seconds:g} s CPU time"
        if now - self.moved >= HANG_S:
            return f"timed out after {HANG_S:g} s with less than {HANG_CPU_S:.2g} s of CPU time: it hangs"
        return None

    def standstill(self, times, used):
        """Return the path of a guest's program that has used STANDSTILL_S of CPU time without a system call, or None.
        During a system call the guest's kernel would also use CPU time.
        """
        for pid, own in times.items():
            since, others = self.alone.setdefault(pid, (own, used - own))
            if abs(used - own - others) > 1.5 / TICKS + STANDSTILL_OTHERS * (own - since):
                self.alone[pid] = own, used - own
            elif own - since >= STANDSTILL_S:
                return guest_program(pid)
        return None


def watch(process, seconds, guest, reasons):
    """End a process that exceeds its limit, and append the reason to `reasons`."""
    limit = Limit(process.pid, seconds, guest)
    while process.poll() is None and not reasons:
        time.sleep(LOOK_S)
        reasons += filter(None, [limit.exceeded()])
    process.send_signal(signal.SIGTERM)
    time.sleep(GRACE_S)
    process.kill()


def main(*argv):
    guest = argv[0] == "--guest"
    seconds, *command = argv[guest:]
    reasons = []
    with subprocess.Popen(command) as process:
        threading.Thread(target=watch, args=(process, float(seconds), guest, reasons), daemon=True).start()
        status = process.wait()
    if reasons:
        print(f"limit: {reasons[0]}", file=sys.stderr)
        return TIMED_OUT
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
