#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpcc-lab evaluate: the table of tests, figures, verdicts, and two tests in a guest."""

import json
import os
import re
import types
from dataclasses import replace
from pathlib import Path

from lab.model import scenario, topology
from lab.study import bcp133, bench, evaluate
from lib import unittests
from lib.scenarios import build, refused
from lib.unittests import LAB, TOP

setUpModule = unittests.allow_interrupts


def run_of(rates, starts=(0, 0), events=(), hist=5000):
    """A run with one sample each ms; rates: for each flow its rate in each ms, in Mb/s."""
    made = build(flow=[{"from": "h0..h1", "to": "h2", "bytes": "endless"}], event=list(events), measure={"until": "1s"},
                 link={"rate": "1Gbit", "s0-h2": {"rate": "100Mbit"}})
    result = {"flows": [{"bytes": None, "goodput_bps": sum(rate) * 10**6 // len(rate), "start_us": start}
                        for rate, start in zip(rates, starts)],
              "ports": [{"data": True, "rate_bps": 10**8, "queue_bytes": {"p50": 0, "p95": hist, "p99": hist},
                         "drops": 1, "packets": 99}]}
    return types.SimpleNamespace(scenario=made, result=result, series={
        "t_us": [1000 * i for i in range(len(rates[0]))],
        "flows": [{"rate_bps": [rate * 10**6 for rate in one]} for one in rates]})


class Table(unittests.Case):
    def test_table(self):
        """Each test has a clause and either criteria with one limit each, or a reason why it does not run."""
        names = [one.title for one in bcp133.TESTS]
        self.assertEqual(len(set(names)), len(names))
        for one in bcp133.TESTS:
            self.assertRegex(one.clause, r"^([5-7]\.|RFC \d)")
            self.assertTrue(one.about)
            self.assertNotEqual(bool(one.figures), bool(one.why), one.title)
            for figure in one.figures:
                self.assertEqual((figure.most is None) + (figure.least is None), 1, one.title)
        sections = {clause for one in bcp133.TESTS for clause in re.findall(r"[5-7]\.[\d.]*\d", one.clause)}
        self.assertLessEqual({"5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2.1", "5.2.2", "5.2.3", "6.1", "6.2", "6.3", "6.4",
                              "7.1", "7.2", "7.3", "7.4", "7.5", "7.6", "7.7", "7.8", "7.9", "7.10", "7.11"}, sections)

    def test_scenarios(self):
        for one in bcp133.TESTS:
            for cc in ("hpcc", "ldcp", "cubic") if not one.why and "kind" not in one.data.get("qdisc", ()) else ():
                made = bench.load(replace(one, cc=cc), 1)
                again = scenario.build(json.loads(json.dumps(made.settings())), "again")
                self.assertEqual(again.settings(), made.settings(), one.title)

    def test_asymmetric(self):
        made = build(link={"rate": "1Gbit", "delay": "1ms", "s0-h1": {"rate": "100Mbit", "rate_back": "2Mbit"}})
        self.assertEqual([made.link_of(*hop)["rate"] for hop in (("s0", "h1"), ("h1", "s0"), ("h0", "s0"))], [10**8, 2 * 10**6, 10**9])
        self.assertLess(topology.Topology(made).base_rtt_ns("h0", "h1"), 4.2 * 10**6)
        refused(self, ["link.access.rate_back"], build, link={"access": {"rate_back": "1Gbit"}})


class Verdicts(unittests.Case):
    def test_times(self):
        """The second flow starts at 10 ms and has its share from 20 ms on; the spans have 5 ms."""
        run = run_of([[90] * 20 + [45] * 30, [0] * 20 + [45] * 30], starts=(0, 10000))
        self.assertEqual(bcp133.convergence(run), 10)
        self.assertIsNone(bcp133.convergence(run_of([[90] * 50, [0] * 50])))
        run = run_of([[90] * 10 + [20] * 20 + [80] * 20, [0] * 50], events=[{"at": "10ms", "link": "s0-h2", "rate": "100Mbit"}])
        self.assertEqual(bcp133.recovery(run), 20)

    def test_figures(self):
        run = run_of([[60] * 50, [20] * 50])
        self.assertEqual([bcp133.goodput(run), bcp133.share(False)(run), bcp133.share(True)(run), bcp133.evenness(run),
                          bcp133.jain(run), bcp133.delay("p95")(run), bcp133.loss(run)],
                         [0.8, 1.5, 0.5, 0.3333, 0.8, 0.4, 0.01])

    def test_verdict(self):
        one = bcp133.test("x", "6.1", "", {}, bcp133.USED, bcp133.waits(0.4))
        run = run_of([[60] * 50, [20] * 50])
        self.assertEqual(evaluate.verdict(one, run), "pass")
        self.assertEqual(evaluate.verdict(one, run_of([[60] * 50, [20] * 50], hist=5001)), "fail")
        self.assertEqual(evaluate.verdict(one, bench.Refused("why")), "not run")
        ends = {"flows": [{"bytes": 125000, "start_us": start, "fct_us": 10000.0} for start in (0, 10000)]}
        run.result |= ends
        self.assertEqual(bcp133.goodput(run), 1)
        run.result["rpcs"] = [{"latency_us": None}]
        self.assertIsNone(bcp133.rpc_p95(run))
        never = bcp133.test("x", "6.1", "", {}, bcp133.most(bcp133.CONVERGENCE, 9))
        self.assertEqual(evaluate.verdict(never, run_of([[90] * 50, [0] * 50])), "fail")


class Command(unittests.SharedCase):
    def refused(self, *args):
        out = Path(self.directory, "none")
        done = unittests.ran(self, LAB, "evaluate", "--out", out, *args, status=2,
                             env=os.environ | {"HPCC_CACHE": f"{self.directory}/cache"})
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse(out.exists() or Path(self.directory, "cache/build.lock").exists())
        return done.stderr

    def test_errors(self):
        self.assertRegex(self.refused("--cc", "hpcc", "--test", "incats"), "incats.*did you mean incast")
        self.assertIn("missing", self.refused("--cc", "hpcc,"))
        self.assertIn("twice", self.refused("--cc", "hpcc,hpcc"))
        self.assertIn("--cc", self.refused())
        self.assertIn("cc.eta", self.refused("--cc", "hpcc", "--set", "cc.eta=2"))
        self.assertIn("no/such.c", self.refused("--cc", "no/such.c"))

    def test_guest(self):
        """Two runs give equal files. A verdict does not change the exit status; a test may not run."""
        files = []
        for out in "one", "two":
            done = unittests.ran(self, LAB, "evaluate", "--cc", "cubic,hpcc", "--out", Path(self.directory, out), *(
                word for name in ("sub-packet", "incast", "dualpi2", "tunnel") for word in ("--test", name)))
            files.append([Path(self.directory, out, name).read_bytes() for name in evaluate.OUTPUTS])
        self.assertEqual(*files)
        data = json.loads(files[0][0])
        self.assertRegex(done.stdout, r"cubic: 1 pass, 1 fail \(sub-packet\), 2 not run\nhpcc: 2 pass, 0 fail")
        self.assertEqual({one["cubic"]["verdict"] for one in data["tests"].values()}, {"pass", "fail", "not run"})
        self.assertRegex("\n".join(data["notes"]), 'dualpi2 not run: qdisc.queue = "dualpi2": .*Linux 6')
        for word in "goodput", "queueing delay p95", "loss", "Jain", "convergence time":
            self.assertIn(word, data["tests"]["sub-packet"]["hpcc"])
        page = Path(self.directory, "page.rst")
        unittests.ran(self, TOP / "scripts/bench-rst", Path(self.directory, "one/evaluate.json"), page)
        self.assertRegex(page.read_text(encoding="utf-8"), r"\nsub-packet +7.4, BBR A.14 +goodput >= 0.800 ")


if __name__ == "__main__":
    unittests.main()
