#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""run.sh: start, limits and end of guests."""

import contextlib
import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from lib import unittests
from lib.unittests import TOP

RUN = str(TOP / "scripts/uml/run.sh")
setUpModule = unittests.allow_interrupts


class Boot(unittest.TestCase):
    """scripts/uml/run.sh"""

    def guest(self, *args, status=0, **how):
        return unittests.ran(self, RUN, *args, status=status, **how)

    def test_status(self):
        self.assertEqual(self.guest("sh", "-c", "echo out; exit 41", status=41).stdout, "out\n")

    def test_host_is_read_only(self):
        with tempfile.TemporaryDirectory() as directory:
            self.guest("--rw", directory, "--env", "WORD=two words", "sh", "-c",
                       f"touch {TOP}/x /etc/x 2>/dev/null && exit 1; touch /tmp/x /run/x &&"
                       f' echo "$WORD" > {directory}/y')
            self.assertEqual(Path(directory, "y").read_text(encoding="ascii"), "two words\n")

    def test_virtual_time(self):
        done = self.guest("sh", "-c", "date +%s; sleep 1000; date +%s")
        start, end = (int(line) for line in done.stdout.split())
        self.assertEqual((start, end - start), (1767225600, 1000))

    def test_timeout(self):
        done = self.guest("--timeout", "1", "sh", "-c", "while :; do :; done", status=124)
        self.assertIn("timed out", done.stderr)

    def test_standstill(self):
        """Computing without system calls stops virtual time: run.sh ends such a program, and prints its name."""
        environment = os.environ | {"HPCC_STANDSTILL_S": "2"}
        done = self.guest("sh", "-c", "while :; do :; done", env=environment, status=124)
        self.assertRegex(done.stdout, "limit: /.*sh has computed for 2 s without a system call")
        done = self.guest("--timeout", "8", "sh", "-c", "while :; do read x < /dev/null; done", env=environment,
                          status=124)
        self.assertIn("limit: timed out after 8 s", done.stdout)

    def test_nothing_is_left(self):
        """An interrupted guest leaves no processes behind."""
        with subprocess.Popen([RUN, "sh", "-c", "echo up; while :; do :; done"],
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "up\n")
            job = self.jobs(process.pid)
            self.assertEqual(len(job), 1)
            process.terminate()
            self.assertEqual(process.wait(10), 130)
        patience = time.monotonic() + 5
        while self.running(job[0]) and time.monotonic() < patience:
            time.sleep(0.01)
        self.assertEqual(self.running(job[0]), [])
        self.assertFalse(Path(job[0]).exists())

    @staticmethod
    def jobs(pid):
        """The working directories of the children of a process."""
        found = set()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, IndexError):
                if int(stat.read_text(encoding="ascii").rsplit(")", 1)[1].split()[1]) == pid:
                    found.add(os.readlink(stat.parent / "cwd"))
        return list(found)

    @staticmethod
    def running(directory):
        """The processes with this working directory."""
        found = []
        for cwd in Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if os.readlink(cwd).split(" ")[0] == directory:
                    found.append(cwd.parent.name)
        return found

    def test_interactive(self):
        master, terminal = os.openpty()
        self.addCleanup(os.close, master)
        with subprocess.Popen(["setsid", "--ctty", RUN, "--interactive", "bash"], stdin=terminal,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            os.close(terminal)
            os.write(master, b"echo $((6 * 7))\nexit 9\n")
            self.assertIn("42\n", process.stdout.read())
        self.assertEqual(process.returncode, 9)
        done = self.guest("--interactive", "true", stdin=subprocess.DEVNULL, status=125)
        self.assertIn("no terminal", done.stderr)

    def test_panic_or_bad_module(self):
        for why, *how in ("panic", "--kernel", "init=/nonexistent"), ("nonexistent.ko", "--module", "/nonexistent.ko"):
            self.assertIn(why, self.guest(*how, "true", status=125).stdout)


if __name__ == "__main__":
    unittests.main()
