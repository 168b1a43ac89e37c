#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""cc.observe: hpccmon observes flows of any congestion control in a guest."""

import json
import sys
from pathlib import Path
from unittest import mock

from lib import unittests
from lib.unittests import LAB, TOP

sys.path.insert(0, str(TOP / "scripts"))

from lab.run import runner  # noqa: E402 pylint: disable=wrong-import-position

TEXT = """ip = {ip}
topology = {{kind = "{kind}"{more}}}
cc = {{name = "cubic", observe = true}}
link = {{rate = "1Gbit", delay = "20us", buffer = "200KB"{slow}}}
measure = {{until = "1s"}}
flow = [{{from = "h0", to = "h1", bytes = "endless"}}, {{from = "h1", to = "h0", bytes = "1KB"{cc}}}]
"""
CHAIN = {"kind": "chain", "more": ", switches = 3", "slow": ', s1-s2 = {rate = "250Mbit"}'}


class Observe(unittests.SharedCase):
    def run_of(self, name, *options, status=0, **keys):
        path = self.directory / f"{name}.toml"
        path.write_text(TEXT.format(**{"ip": 4, "cc": ""} | CHAIN | keys), encoding="ascii")
        done = unittests.ran(self, LAB, "run", path, "--out", self.directory / name, *options, status=status)
        return done.stderr if status else (done.stdout, json.loads(
            (self.directory / name / "results.json").read_text(encoding="utf-8")))

    def test_slow_hop(self):
        """After one second of CUBIC, observe names the slow hop. A flow of hpcc is not observed."""
        text, result = self.run_of("slow")
        flow, = result["observed"]["measured"]
        self.assertEqual((flow["from"], flow["to"], flow["hop"], flow["port"]), ("h0", "h1", 2, "s1-s2"))
        self.assertGreater(flow["U"], 0.95)
        self.assertEqual(result["observed"]["flows"], 2)
        self.assertIn("2 connections observed, 1 with the load of hops; hop 2 (s1-s2) is the busiest of h0 to h1, U ",
                      text)
        again = unittests.ran(self, LAB, "rerun", self.directory / "slow/results.json", "--out",
                              self.directory / "again")
        self.assertIn("cubic, seed 1: the same", again.stdout)
        self.assertEqual(self.run_of("hpcc", cc=', cc = "hpcc"')[1]["observed"]["flows"], 1)

    def test_tree(self):
        """Over IPv6 in a tree, the names of hops tell the ports."""
        flow, = self.run_of("tree", ip=6, kind="leaf-spine", more=", hosts = 2, tors = 2, spines = 1",
                            slow=', s0-t1 = {rate = "250Mbit"}')[1]["observed"]["measured"]
        self.assertEqual((flow["hop"], flow["port"]), (2, "s0-t1"))

    def test_bad(self):
        for kernel in "vm", "host":
            self.assertEqual(self.run_of("bad", "--kernel", kernel, status=2), "hpcc-lab: cc.observe: needs --kernel uml\n")
        with mock.patch.object(runner, "UML", Path("/none/scripts/uml")), \
                mock.patch.object(runner, "GUEST_PATH", str(self.directory)):
            with self.assertRaisesRegex(runner.RunError, "^cc.observe: there is no hpccmon; make tools builds it$"):
                runner.monitor()
            (self.directory / "hpccmon").write_text("#!/bin/sh\necho 'hpccmon observe: without BPF' >&2; exit 1\n",
                                                    encoding="ascii")
            (self.directory / "hpccmon").chmod(0o755)
            with self.assertRaisesRegex(runner.RunError, "^cc.observe: hpccmon observe: without BPF$"):
                runner.monitor()


if __name__ == "__main__":
    unittests.main()
