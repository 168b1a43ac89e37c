#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""bench-core, bench-kernel, bench-ldcp, bench-lab: figures, verdicts and cases."""

import importlib.machinery
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path
from unittest import mock

from lab.model import scenario, topology
from lab.study import bench, cost, sweep
from lib import unittests
from lib.unittests import TOP

setUpModule = unittests.allow_interrupts


def load_script(name):
    path = str(TOP / "scripts" / name)
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), path)
    spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module       # dataclasses look up the module here
    loader.exec_module(module)
    return module


class Bench(unittest.TestCase):
    def test_verdicts(self):
        least = bench.Figure("f", None, bench.ratio, least=0.97)
        most = bench.Figure("f", None, bench.number, most=lambda run: 10 * run)
        self.assertEqual([least.verdict(v) for v in (0.97, 0.969, None)], ["met", "missed", "missed"])
        self.assertEqual([most.verdict(v, 2) for v in (0, 20, 21, None)], ["met", "met", "missed", "missed"])
        self.assertEqual((most.target(2), least.target()), ("<= 20", ">= 0.970"))
        self.assertEqual(bench.Figure("f", None, bench.us).verdict(None), "")
        self.assertEqual(least.show(None), "unfinished")

    def test_report(self):
        made = bench.Report("name", "about <b>", ["a", "verdict"], [["x", "met"], ["x", "<i>"]], "notes", ["one"])
        self.assertIn("| x | met |\n|  | <i> |\n", made.markdown())
        self.assertIn("&lt;i&gt;", made.html())
        self.assertNotIn("<b>", made.html())

    def test_pair(self):
        more = bench.Comparison("queue", lambda run: run, str, most=lambda other: 2 * other)
        less = bench.Comparison("used", lambda run: run, str, least=lambda other: other - 1)
        pair = bench.Pair("one", "file", ["a=1"], ["b=1"], ["b=2"], [more, less],
                          [bench.Figure("alone", lambda run: run, str, most=5)])
        this, other = (case.title for case in pair.cases())
        self.assertEqual([case.settings for case in pair.cases()], [["a=1", "b=1"], ["a=1", "b=2"]])
        self.assertEqual(pair.rows({this: 7, other: 3}), [
            ["one", "queue", "<= 6 (reference 3)", "7", "missed"],
            ["one", "used", ">= 2 (reference 3)", "7", "met"],
            ["one", "alone", "<= 5", "7", "missed"]])
        self.assertEqual(pair.rows({this: "broken", other: 3})[0][-1], "missed")

    def test_pair_of_seeds(self):
        """The medians of both sides are compared; each run has its own seed."""
        pair = bench.Pair("one", "file", [], ["b=1"], ["b=2"], [
            bench.Comparison("queue", lambda run: run, str, most=lambda other: 2 * other)],
            [bench.Figure("alone", lambda run: run, str, most=5)], seeds=3)
        self.assertEqual([case.more_seed for case in pair.cases()], [0, 1, 2, 0, 1, 2])
        done = dict(zip((case.title for case in pair.cases()), (9, 2, 4, 1, 3, 30)))
        self.assertEqual(pair.rows(done), [["one", "queue", "<= 6 (reference 3)", "4", "met"],
                                           ["one", "alone", "<= 5", "4", "met"]])

    def test_random_phases(self):
        """The limits in packets of the N D/D/1 queue at 0.95 follow from its formula."""
        core = load_script("bench-core")
        for flows, packets in (16, 5.7), (24, 6.9), (64, 10.6):
            self.assertAlmostEqual(core.random_phases(flows, 0.95) / 1538, packets, delta=0.05)

    def test_kernel_charts_of_growth(self):
        """A chart for the number of flows and one for the number of switches, with a line for each variant."""
        kernel = load_script("bench-kernel")
        now = cost.Results([{"event": "path", "part": part, "hops": hops, "flows": flows, "variant": name, "segments": 2,
                             "cost": {"instructions": 100}} for part, hops, flows in (("flows", 1, 10), ("hops", 3, 1))
                            for name in (kernel.SHORT, kernel.BASE)])
        html = kernel.growth(now, None)
        self.assertEqual(html.count('class="chart"'), 2)
        self.assertEqual(html.count(f'"labels":["{kernel.SHORT}","{kernel.BASE}"]'), 2)
        self.assertEqual(kernel.growth(cost.Results([]), None), "")

    def test_lab_slope(self):
        self.assertEqual(load_script("bench-lab").slope([(10, 1), (18, 5)]), 2)

    def test_lab_watches_the_flow(self):
        watch = load_script("bench-lab").Watch()
        for text in "network 50 %", "network 100 %", "5 %", "100 %", "done":
            watch.update("hpcc", text)
        self.assertEqual([done for _, done in watch.points], [0.05, 1])

    def test_lab_counts_grandchildren(self):
        lab = load_script("bench-lab")
        with subprocess.Popen(["sh", "-c", "(while :; do :; done) & echo; wait"],
                              stdout=subprocess.PIPE, start_new_session=True) as process:
            process.stdout.read(1)
            before = lab.descendants_cpu()
            until = time.monotonic() + 30
            after = before
            while after < before + 0.05 and time.monotonic() < until:
                time.sleep(0.05)
                after = lab.descendants_cpu()
            os.killpg(process.pid, signal.SIGKILL)
        self.assertGreaterEqual(after, before + 0.05)

    def test_cases_load(self):
        ldcp, core = load_script("bench-ldcp"), load_script("bench-core")
        cases = [ldcp.MIXED, *core.CASES, *sweep.cases(10**11)]
        cases += [case for pair in core.PAIRS for case in pair.cases()]
        cases += [case for contest in ldcp.CONTESTS for case in contest.cases()]
        observe = load_script("bench-observe")
        for case in [*cases, *observe.CASES, *(case for pair in observe.PAIRS for case in pair.cases())]:
            bench.load(case, 1)

    @staticmethod
    def run_of(name, **more):
        made = scenario.load(bench.SCENARIOS / f"{name}.toml")
        return types.SimpleNamespace(scenario=made, topology=topology.Topology(made), **more)

    def test_ideal(self):
        """45 packets with 90 bytes of headers each, at 100 Gb/s; T = 9986 ns."""
        ldcp, run = load_script("bench-ldcp"), self.run_of("message-100g")
        self.assertAlmostEqual(ldcp.ideal_us(run), 9.986 + (64000 + 45 * 90) * 8 / 1e5)

    def test_queue_bound(self):
        ldcp = load_script("bench-ldcp")
        run = self.run_of("messages32-100g", result={
            "ports": [{"wire_bytes": 1, "marking": {"kmax": 60000, "knonect": 90000}}]})
        self.assertEqual(ldcp.queue_bound(run), 90000 + 9986 * 100 // 8 + 60000 + 32 * 1538)

    def test_share(self):
        ldcp = load_script("bench-ldcp")
        run = types.SimpleNamespace(result={"flows": [{"cc": cc, "goodput_bps": n} for cc, n in (
            ("hpcc", 1), ("hpcc", 3), ("ldcp", 6), ("ldcp", 10))]})
        self.assertEqual([ldcp.share(cc, which)(run, {}) for cc in ("hpcc", "ldcp")
                          for which in (min, max)], [0.2, 0.6, 1.2, 2.0])

    def test_message_p99(self):
        def run(times):
            return types.SimpleNamespace(result={"flows": [
                {"bytes": 1, "fct_us": t} for t in times] + [{"bytes": None, "fct_us": None}]})
        self.assertEqual(sweep.message_p99(run(range(1, 201))), 198)
        self.assertEqual(sweep.message_p99(run([5, 3])), 5)
        self.assertIsNone(sweep.message_p99(run([5, None])))

    def test_sweep_is_around_the_defaults(self):
        """BASE has the defaults of the module and of the qdisc, and the stored results were measured with these."""
        knobs = (TOP / "kmod/ldcp/main.c").read_text(encoding="utf-8")
        for name in ("alpha", "beta", "gamma"):
            default = re.search(rf'"{name}_permille",\s*LDCP_SYSCTL\(\w+\),\s*(\d+)', knobs)[1]
            self.assertEqual(sweep.BASE[name] * 1000, int(default), name)
        mark = (TOP / "qdisc/core/mark.c").read_text(encoding="utf-8")
        for name in sweep.TIMES:
            self.assertEqual(sweep.BASE[name], int(re.search(rf"hpcc_{name}_ns = (\d+);", mark)[1]), name)
        kernel, defaults, table = sweep.stored()
        self.assertEqual(defaults, sweep.BASE)
        self.assertEqual(set(table), {metric.title for metric in sweep.METRICS})
        self.assertEqual(sweep.pictures().count('<div class="chart"'), len(sweep.METRICS))
        with tempfile.TemporaryDirectory() as directory, \
                mock.patch.object(sweep, "STORED", Path(directory, "sweep.json")):
            sweep.store(table, kernel)
            self.assertEqual(sweep.stored(), (kernel, defaults, table))

    def test_sweep_points(self):
        settings = sweep.point("kmin", 2, 10**11)
        self.assertIn("qdisc.kmin=25000", settings)
        self.assertIn("qdisc.knonect=100000", settings)
        self.assertIn("cc.alpha=0.25", settings)
        self.assertIn("cc.alpha=0.125", sweep.point("alpha", 0.5, 10**11))


if __name__ == "__main__":
    unittests.main()
