#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpcc-lab, hpcc-paper, compare-ns3 and modules.sh: errors, interrupts and usage of commands, without a guest."""

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from lab.model import scenario
from lib import unittests
from lib.scenarios import SMALL
from lib.unittests import LAB, TOP

setUpModule = unittests.allow_interrupts


class CommandLine(unittest.TestCase):
    """Errors that are found before a guest boots: one line, exit status 2."""

    def refused(self, text, *args):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "wrong.toml")
            path.write_text(text, encoding="utf-8")
            done = unittests.ran(self, LAB, args[0] if args else "run", path, *args[1:], status=2, env=os.environ | {
                "HPCC_CACHE": f"{directory}/cache", "PYTHONDONTWRITEBYTECODE": "1"})
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertFalse(Path(directory, "cache").exists())
            return done.stderr

    def test_errors(self):
        self.assertIn("h9", self.refused(SMALL.replace('"h2"', '"h9"')))
        self.assertIn("link.rat", self.refused(SMALL.replace("rate", "rat")))
        self.assertIn("wrong.toml", self.refused("[topology"))
        self.assertIn("no such directory", self.refused(SMALL, "compare", "--cc", "hpcc,./vegas.c"))
        self.assertIn("twice", self.refused(SMALL, "compare", "--cc", "hpcc,hpcc"))
        one = '[[flow]]\nfrom = "h0"\nto = "h1"\nbytes = 1\n'
        self.assertIn("names are ldcp+hpcc", self.refused(
            f'{one}cc = "ldcp"\n{one}cc = "hpcc"\n{one}', "compare", "--cc", "hpcc,ldcp"))
        self.assertIn("compare several", self.refused(SMALL, "run", "--cc", "hpcc,cubic"))
        for names in "", ",", "hpcc,":
            self.assertIn("missing", self.refused(SMALL, "compare", "--cc", names))
        self.assertIn("link.delay", self.refused(SMALL, "run", "--set", "link.delay=1"))
        self.assertIn("[cc]", self.refused('cc = "hpcc"\n' + SMALL, "run", "--cc", "cubic"))
        self.assertIn("[[flow]]", self.refused(SMALL.replace("[[flow]]", "[flow]"), "run", "--set", "flow.bytes=1"))
        self.assertIn("link.buffer", self.refused(SMALL, "run", "--set", "link.buffer=0"))
        self.assertIn("--out", self.refused(SMALL, "run", "--out", "/proc/x"))
        with tempfile.TemporaryDirectory() as out:
            Path(out, "series.json").mkdir()
            self.assertIn("series.json is a directory", self.refused(SMALL, "run", "--out", out))

    def test_two_runs_with_one_out(self):
        with tempfile.TemporaryDirectory() as out:
            held = os.open(out, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertIn("another run writes its results to this directory", self.refused(SMALL, "run", "--out", out))
            os.close(held)
        self.assertIn("--out", self.refused(SMALL, "run", "--out", "/proc"))
        with self.assertRaisesRegex(scenario.ScenarioError, "printable"):
            scenario.build({}, "\udcff")
        self.assertIn("2^64", self.refused(SMALL, "run", "--seed", str(2**64 - 1), "--repeat", "2"))
        for args in (["--seed", "x"], ["--repeat", "0"], ["--kernel", "a\nb"], ["more"], ["--nonsense"]):
            self.assertIn(args[0], self.refused(SMALL, "run", *args))
        self.assertIn("wrong.toml", self.refused("x = " + "[" * 5000))
        self.assertIn("wrong.toml", self.refused("x = " + "9" * 5000))


class New(unittest.TestCase):
    """hpcc-lab new, and the names of included scenarios."""

    def test_new(self):
        with tempfile.TemporaryDirectory() as directory:
            for args, name in ([], "scenario.toml"), (["mine"], "mine.toml"), (["a b.toml"], "a b.toml"):
                done = unittests.ran(self, LAB, "new", *args, cwd=directory)
                self.assertIn(name, done.stdout)
                scenario.load(Path(directory, name))
                Path(directory, name).write_text("mine", encoding="utf-8")
                done = unittests.ran(self, LAB, "new", *args, cwd=directory, status=2)
                self.assertEqual(done.stderr, f"hpcc-lab: {name}: File exists\n")
                self.assertEqual(Path(directory, name).read_text(encoding="utf-8"), "mine")
            os.symlink("nowhere", f"{directory}/link.toml")
            unittests.ran(self, LAB, "new", "link", cwd=directory, status=2)
            # A full disk leaves no part of a file.
            unittests.ran(self, "prlimit", "--fsize=100", LAB, "new", "full", cwd=directory, status=2)
            self.assertFalse(Path(directory, "full.toml").exists())
            self.assertIn("No such file", unittests.ran(self, LAB, "new", "no/x", cwd=directory, status=2).stderr)

    def test_examples_in_comments(self):
        text = (scenario.INCLUDED / "new.toml").read_text(encoding="utf-8")
        found = re.findall(r"^# (?:[a-z_]+ = |\[)", text, re.M)
        self.assertGreater(len(found), 10)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "new.toml")
            path.write_text(re.sub(r"^# (?=[a-z_]+ = |\[)", "", text, flags=re.M), encoding="utf-8")
            scenario.load(path)

    def test_names(self):
        with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
            self.assertEqual(scenario.load("demo").link["rate"], 25 * 10**9)
            with self.assertRaisesRegex(scenario.ScenarioError, "^dmeo: No such file.*; did you mean demo[?]$"):
                scenario.load("dmeo")
            Path("demo").write_text(SMALL, encoding="utf-8")        # a file comes first
            self.assertEqual(scenario.load("demo").link["rate"], 10 * 10**9)


class Commands(unittest.TestCase):
    """Common behaviour of all commands."""
    NAMES = ("hpcc-lab", "hpcc-paper", "compare-ns3")

    def test_interrupted_while_it_starts(self):
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "tomllib.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n",
                                                     encoding="utf-8")
            for name in self.NAMES:
                done = unittests.ran(self, TOP / "scripts" / name, "--help", status=-signal.SIGINT,
                                     env=os.environ | {"PYTHONPATH": directory, "HPCC_CACHE": directory})
                self.assertEqual(done.stderr, "", name)

    def test_error_is_one_line(self):
        """Also without stdout."""
        for name in self.NAMES:
            for words in ["--nonsense"], ["nothere", "nothere"]:
                shell = () if len(words) == 1 else ("sh", "-c", '"$@" >&-', "sh")
                done = unittests.ran(self, *shell, TOP / "scripts" / name, *words, status=2)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Modules(unittest.TestCase):
    """scripts/uml/modules.sh"""

    def test_stopped_build_leaves_nothing(self):
        """Ctrl-C and SIGTERM during compilation, also if hpcc-lab started it."""
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "tree").mkdir()
            Path(directory, "tree/Module.symvers").touch()
            Path(directory, "tree/.config").write_text("CONFIG_UML=y\n", encoding="ascii")
            # A compilation that takes long and does not end immediately after Ctrl-C.
            Path(directory, "tree/Makefile").write_text(
                f"modules:\n\techo $$$$ > {directory}/pid; trap '' INT; sleep 100; touch $(M)/late; sleep 100\n",
                encoding="ascii")
            cache = Path(directory, "cache")
            code = ("import sys; sys.path.insert(0, sys.argv[1]); from lab.run import runner; import signal\n"
                    "def end(*_):\n runner.stop_all(); raise KeyboardInterrupt\n"
                    "signal.signal(signal.SIGTERM, end)\n"
                    "try: runner._output(sys.argv[2:], 'x')\nexcept KeyboardInterrupt: sys.exit(130)\n")
            script = [str(TOP / "scripts/uml/modules.sh"), f"{directory}/tree"]
            pid = Path(directory, "pid")
            for command in script, [sys.executable, "-c", code, str(TOP / "scripts"), *script]:
                for send, number in ((os.killpg, signal.SIGINT), (os.killpg, signal.SIGTERM),
                                     (os.kill, signal.SIGTERM)):
                    pid.unlink(missing_ok=True)
                    with subprocess.Popen(command, env=os.environ | {"HPCC_CACHE": str(cache)},
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                          start_new_session=True) as process:
                        while not pid.exists() or not pid.read_text(encoding="ascii"):
                            time.sleep(0.05)
                        send(process.pid, number)
                        process.wait(20)
                    with self.subTest(command=command[0], send=send.__name__, number=number):
                        self.assertEqual(process.returncode, 130)
                        self.assertEqual(list(cache.iterdir()), [])


if __name__ == "__main__":
    unittests.main()
