#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""[[run]]: programs of Debian without support for the lab, and programs that fail."""

import json

from lib import unittests
from lib.unittests import LAB, TOP

HEAD = 'topology = {kind = "star", hosts = 2}\nmeasure = {until = "1ms"}\n'


class Programs(unittests.SharedCase):
    def lab(self, path, name, *args, status=0):
        return unittests.ran(self, LAB, "run", path, "--cc", "hpcc", "--out", self.directory / name, *args,
                             status=status).stderr

    def run_text(self, name, text, *args, status=0):
        path = self.directory / f"{name}.toml"
        path.write_text(HEAD + text, encoding="utf-8")
        return self.lab(path, name, *args, status=status)

    def output(self, name, number):
        return (self.directory / name / f"run-{number}.txt").read_text(encoding="utf-8")

    def shipped(self, name, *expected):
        """Run a scenario of the gallery: its second program prints the expected output, and the data use hpcc."""
        self.lab(TOP / f"scripts/scenarios/{name}.toml", name)
        for text in expected:
            self.assertIn(text, self.output(name, 1))
        got = json.loads((self.directory / name / "results.json").read_text(encoding="utf-8"))
        self.assertGreater(got["hosts"]["hpcc"]["agreed"], 0)
        self.assertTrue(got["runs"][0]["stopped"])

    def test_nginx(self):
        self.shipped("nginx-10g", "Complete requests:      200\n", "Failed requests:        0\n",
                     "HTML transferred:       20000000 bytes")

    def test_others(self):
        for name, expected in (("redis", "requests per second"), ("iperf3", "iperf Done"), ("ssh", "2000000\n"),
                               ("rsync", "Total transferred file size: 2,000,000 bytes")):
            with self.subTest(name):
                self.shipped(f"{name}-10g", expected)

    def test_users(self):
        """A guest has the system users and groups of every Debian; the rest of /etc is not from the host."""
        self.run_text("users", """[[run]]
host = "h0"
command = "getent passwd nobody www-data; getent group adm nogroup; ls /etc; id -un; echo x > /var/log/x"
""")
        text = self.output("users", 0)
        for name in "nobody:x:65534:65534:", "www-data:x:33:33:", "adm:x:4:", "nogroup:x:65534:", "\nroot\n":
            self.assertIn(name, text)
        self.assertNotIn("shadow", text)

    def test_failures(self):
        """The run fails and names the failed programs, except programs that may fail or that were stopped."""
        why = self.run_text("failures", """run = [
{host = "h0", command = "echo first; printf 'no \\\\033[31mred\\\\n\\\\n'; exit 111"},
{host = "h1", command = "sleep 0.01; exit 3", may_fail = true},
{host = "h1", command = "sleep 100", stop = "end"},
{host = "h1", command = "exit 2", stop = "end"}]""", status=1)
        lines = why.rstrip("\n").split("\n")[-2:]
        self.assertRegex(lines[0], r"^hpcc-lab: hpcc: run\.0 \(echo first; .*\) on h0 failed: exit status 111: no \[31mred$")
        self.assertEqual(lines[1], "hpcc-lab: hpcc: run.3 (exit 2) on h1 failed: exit status 2")
        self.assertTrue((self.directory / "failures/results.json").exists())

    def test_package(self):
        """A package that cannot be obtained ends the run with one line about it."""
        program = '[[run]]\nhost = "h0"\ncommand = "true"\n'
        why = self.run_text("absent", program + 'package = "hpcc-no-such-package"\n', status=1)
        self.assertIn("hpcc-no-such-package", why.rstrip("\n").split("\n")[-1])
        why = self.run_text("wrong", program + 'package = "../x"\n', status=2)
        self.assertIn("run.0.package", why)


if __name__ == "__main__":
    unittests.main()
