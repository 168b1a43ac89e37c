#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Collectives: connections, the bound of a step, bad input, and short runs in a guest."""

import csv
import json
import unittest
from pathlib import Path

from lab.model import keys, scenario, topology
from lab.setup import plan
from lib import unittests
from lib.scenarios import refused
from lib.unittests import LAB

GIVEN = {"kind": "all-reduce-ring", "ranks": "h0..h3", "bytes": "4MB", "steps": 2}
LINK = {"rate": "100Gbit", "delay": "2us", "mtu": 9000}
# Time of 1 MB, in packets of MTU 9000, on a link; of a full packet; propagation delay of two links.
WIRE_NS, PACKET_NS, DELAY_NS = (10**6 + 112 * 90) * 8 // 100, 9038 * 8 // 100, 4000


def made(hosts=4, shape="star", rate=LINK["rate"], **given):
    return scenario.build({"topology": {"kind": shape, "hosts": hosts}, "link": LINK | {"rate": rate},
                           "collective": [GIVEN | given]}, "test")


def bound_ns(**given):
    scene = made(**given)
    return scene.collectives[0].bound_ns(topology.Topology(scene))


class Model(unittest.TestCase):
    def test_refused(self):
        for words, given in (
                (["collective.0.ranks", "no h4", "h0 to h3"], {"ranks": "h0..h4"}),
                (["collective.0.ranks", "1 host", "2 to 4"], {"ranks": "h0"}),
                (["collective.0.ranks", "h1 is there twice", "2 to 4"], {"ranks": ["h0..h1", "h1"]}),
                (["collective.0.ranks", "h0..h15"], {"ranks": []}),
                (["collective.0.ranks", "h0..h15"], {"ranks": ["h0", 1]}),
                (["collective.0.bytes = 3", "4B to 1000000GB"], {"bytes": 3}),
                (["collective.0.steps", "1 to 100000"], {"steps": 0}),
                (["collective.0.kind", *keys.COLLECTIVES, "did you mean all-to-all?"], {"kind": "alltoall"}),
                (["collective: 14280", "10000"], {"hosts": 120, "ranks": "h0..h119", "kind": "all-to-all"})):
            refused(self, words, made, **given)

    def test_plan(self):
        """Each kind has its connections. Settings of results.json make the same scenario again."""
        for kind, *wanted in (("all-reduce-ring", "h0 h1 2000001 2 1 hpcc 1", "h1 h0 2000001 2 1 hpcc 0"),
                              ("all-reduce-tree", "h1 h0 2000001 2 2 hpcc", "h0 h1 2000001 2 0 hpcc 0"),
                              ("all-to-all", "h0 h1 2000001 1 1 hpcc", "h1 h0 2000001 1 1 hpcc"),
                              ("parameter-server", "h1 h0 4000001 1 1 hpcc", "h0 h1 4000001 1 0 hpcc 0")):
            scene = made(kind=kind, ranks="h0..h1", bytes=4000001, start="3us")
            lines = "".join(plan.Plan(scene, topology.Topology(scene)).lines()).splitlines()
            self.assertEqual([line[5:] for line in lines if line.startswith("edge ")], wanted)
            self.assertIn("collective 0 3000 2", lines)
            again = scenario.build(json.loads(json.dumps(scene.settings())), "test")
            self.assertEqual(again.settings(), scene.settings())
            self.assertEqual(scene.pairs(), {("h0", "h1"): ["hpcc"], ("h1", "h0"): ["hpcc"]})
        tree = made(kind="all-reduce-tree", hosts=5, ranks=["h0..h3", "h4"]).collectives[0].edges
        self.assertEqual([(e.src, e.dst, e.free, e.after) for e in tree], [
            ("h4", "h1", 5, []), ("h3", "h1", 5, []), ("h2", "h0", 5, []), ("h1", "h0", 0, [1, 0]),
            ("h0", "h1", 0, [3, 2]), ("h0", "h2", 0, [3, 2]), ("h1", "h3", 0, [4]), ("h1", "h4", 0, [4])])

    def test_bound(self):
        """Compare with the times that follow by hand, to 2 us: a message of 1 MB, and messages that share a link."""
        one = WIRE_NS + PACKET_NS + DELAY_NS
        for wanted, given in ((6 * one, {}), (3 * WIRE_NS + one - WIRE_NS, {"kind": "all-to-all"}),
                              (6 * 4 * WIRE_NS + 2 * (one - WIRE_NS), {"kind": "parameter-server"}),
                              (2 * one + WIRE_NS, {"kind": "all-reduce-tree", "ranks": "h0..h1", "bytes": "2MB"}),
                              # All 16 connections between the halves of a dumbbell share the link s0-s1.
                              (16 * WIRE_NS + PACKET_NS + one - WIRE_NS + 2000,
                               {"kind": "all-to-all", "hosts": 8, "ranks": "h0..h7", "bytes": "8MB",
                                "shape": "dumbbell"})):
            self.assertAlmostEqual(bound_ns(**given), wanted, delta=2000, msg=given)
        # 64 chunks of 1 B: packets of 91 B over two links and 6 levels, up and down. The other 63 B follow the first.
        self.assertEqual(bound_ns(kind="all-reduce-tree", hosts=64, ranks="h0..h63", bytes=64, rate="1Gbit"),
                         12 * (2 * 91 * 8 + DELAY_NS) + 63 * 8)


class Guest(unittests.SharedCase):
    """Short runs in User Mode Linux."""

    def results(self, text, out, *args):
        path = Path(self.directory, "pair.toml")
        path.write_text('[topology]\nhosts = 4\n[link]\ndelay = "2us"\nmtu = 9000\n' + text, encoding="utf-8")
        done = unittests.ran(self, LAB, "run", path, "--out", f"{self.directory}/{out}", *args)
        got = json.loads(Path(self.directory, out, "results.json").read_text(encoding="utf-8"))
        return got, done.stdout

    def test_pair(self):
        """The steps of a pair take at most 3 % longer than the bound, and are the same in each run."""
        text = '[qdisc]\nmarking = "ldcp"\n[[collective]]\nkind = "all-reduce-ring"\nranks = "h0..h1"\n' \
               'bytes = "8MB"\nsteps = 4\n'
        got, shown = self.results(text, "pair", "--cc", "dctcp")
        one = got["collectives"][0]
        self.assertEqual((one["steps"], one["done"], len(one["steps_us"])), (4, True, 4))
        self.assertTrue(one["bound_us"] < min(one["steps_us"]), one)
        self.assertLess(one["step_us"]["p50"], 1.03 * one["bound_us"], one)
        self.assertIn("p99 / bound", shown)
        with open(f"{self.directory}/pair/collectives.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([int(row["step_ns"]) / 1000 for row in rows], one["steps_us"])
        self.assertIn("Collectives", Path(self.directory, "pair", "report.html").read_text(encoding="utf-8"))
        done = unittests.ran(self, LAB, "rerun", f"{self.directory}/pair/results.json", "--out",
                             f"{self.directory}/again")
        self.assertIn("the same", done.stdout)

    def test_kinds(self):
        """All kinds in one run, whose bytes are compared, and none is faster than its bound."""
        got, _ = self.results("[measure]\nuntil = \"1ms\"\n" + "".join(
            f'[[collective]]\nkind = "{kind}"\nranks = "h0..h3"\nbytes = "100KB"\nsteps = 2\nstart = "{2 * i}ms"\n'
            for i, kind in enumerate(keys.COLLECTIVES)), "kinds", "--set", "verify=true")
        for one in got["collectives"]:
            self.assertTrue(one["done"] and one["bound_us"] < min(one["steps_us"]), one)


if __name__ == "__main__":
    unittests.main()
