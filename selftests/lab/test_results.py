#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpcc-lab and compare-ns3: results.json, the comparison with ns-3, and reports."""

import json
import lzma
import math
import re
import unittest
import unittest.mock

from lab.model import scenario, topology
from lab.setup import plan
from lab.run import flows, results, runner
from lab.show import report
from lab.study import ns3
from lib import unittests
from lib.scenarios import build
from lib.unittests import TOP


class Results(unittests.Case):
    def test_buckets(self):
        self.assertEqual([results.bucket_low(b) for b in (0, 1, 7, 8, 15, 16, 17, 24)],
                         [0, 64, 448, 512, 960, 1024, 1152, 2048])

    def test_percentiles(self):
        hist = {"0": 50, "1": 45, "16": 4, "24": 1}
        self.assertEqual(results.queue_figures(hist, 2100), {"p50": 0, "p95": 127, "p99": 1151, "max": 2100})
        self.assertEqual(results.queue_figures({}, 0), {"p50": 0, "p95": 0, "p99": 0, "max": 0})
        self.assertEqual(results.queue_figures({str(results.BUCKETS - 1): 1}, 10**8)["p50"], 10**8)

    @staticmethod
    def lines(until_ns=2000):
        port = {"kind": "port", "tx_packets": 10, "stamped": 9, "drops": 3, "drops_ect": 1,
                "drops_knonect": 2, "marks": 7, "marks_kmax": 5, "queue_max": 1000, "resyncs": 0,
                "kmin": 10, "kmax": 20, "knonect": 30, "pmax_ppm": 250000}
        records = [{"kind": "kernel", "backlog_drops": 9},
                   {"kind": "host", "name": "h0", "timeouts": 2, "ldcp": {"marked": 3},
                    "hpcc": {"agreed": 2, "fallbacks": 1}},
                   {"kind": "host", "name": "h1", "timeouts": 1, "ldcp": {"marked": 4}}]
        for number in range(3):
            for when, t_ns, tx, hist in (("from", 1000, 1000, {"0": 5, "3": 1}),
                                         ("until", until_ns, 11000, {"0": 15, "3": 1}),
                                         ("end", 4000, 20000, {"0": 15, "3": 2})):
                records.append(port | {"when": when, "t_ns": t_ns, "id": number, "tx_bytes": tx, "hist": hist})
        records += [{"kind": "sample", "t_ns": t, "values": [t, t, t]} for t in (0, 1000, 2000)]
        return ["flow 0 4000 1000000 3 0 0\n", *map(json.dumps, records)]

    def result(self, made=None, more=(), **kwargs):
        made = made or build()
        net = topology.Topology(made)
        return results.build(made, net, results.Records([*self.lines(**kwargs), *more], made), "uml 6.1", 1)

    def test_missing(self):
        """A flow without a line is an error, and does not count as 0."""
        for lines in self.lines()[1:], ["flow 1 4000 1 0 0 0\n"], ["flow 0 x 1 0 0 0\n"]:
            with self.assertRaises((ValueError, IndexError)):
                results.Records(lines, build())

    def test_file_of_flows(self):
        """Many flows are in a file of their own: all readers get the same flows, and rerun the same scenario."""
        made = build(topology={"kind": "star", "hosts": 3}, workload={"list": ["9 0 1 500", "5 2 0 7000"], "connect": "start"})
        more = ["flow 1 -1 20 1 0 0\n", "flow 2 4005 7000 0 0 0\n"]
        small = self.result(made, more)
        with unittest.mock.patch.object(flows, "LISTED", 2):
            large = self.result(made, more)
            large["flows"].write(self.directory / flows.NAME, large)
        path = self.directory / "results.json"
        path.write_text(results.text(large), encoding="utf-8")
        read = results.read(path)
        self.assertEqual((list(read["flows"]), len(read["flows"])), (small["flows"], 3))
        self.assertEqual(results.summary(read), results.summary(small))
        self.assertEqual(results.text(read), results.text(large))
        again = scenario.build(read["settings"], "again", 7, self.directory)
        self.assertEqual(list(again.flows), list(made.flows))
        self.assertEqual([flow.id for flow in again.flows.by_start()], [2, 1])
        # An endless flow of [[flow]] has no size.
        text = lzma.decompress((self.directory / flows.NAME).read_bytes()).decode().replace(",1000000,", ",,", 1)
        (self.directory / flows.NAME).write_bytes(lzma.compress(text.encode()))
        self.assertEqual(list(scenario.build(read["settings"], "again", 7, self.directory).flows), list(made.flows))
        path.write_text(results.text(large).replace('"count": 3', '"count": 4'), encoding="utf-8")
        with self.assertRaisesRegex(scenario.ScenarioError, "has 3 flows, and results.json says 4"):
            results.summary(results.read(path))
        (self.directory / flows.NAME).unlink()
        with self.assertRaisesRegex(scenario.ScenarioError, "flows.csv.xz: No such file"):
            results.summary(results.read(path))

    def test_schema(self):
        got = self.result()
        self.assertLessEqual({"scenario", "cc", "kernel", "seed", "flows", "ports"}, set(got))
        self.assertEqual(set(got["flows"][0]), {"id", "from", "to", "bytes", "cc", "start_us",
                                                "fct_us", "alone_us", "slowdown", "goodput_bps", "retrans"})
        self.assertEqual(got["hosts"], {"timeouts": 3, "backlog_drops": 9, "ldcp": {"marked": 7},
                                        "hpcc": {"agreed": 2, "fallbacks": 1}})
        self.assertRegex(got["version"], r"^\d+\.\d+")
        self.assertEqual(got["settings"]["link"]["rate"], "100000000000bit")
        self.assertEqual(set(got["settings"]) | {""}, (set(scenario.KEYS) | {"ip", "verify"}) -
                         {"class", "workload", "rpc", "collective", "run", "event"})
        self.assertIsNone(got["jain_1ms"])
        self.assertEqual(set(got["ports"][0]), {
            "node", "peer", "rate_bps", "data", "packets", "wire_bytes", "drops", "drops_ect", "drops_knonect", "marks",
            "marks_kmax", "stamped", "marking", "utilization", "queue_bytes", "queue_bytes_whole_run", "queue_hist"})
        self.assertEqual([(port["peer"], port["data"]) for port in got["ports"]],
                         [("h0", False), ("h1", True), ("h2", False)])
        self.assertEqual([got["ports"][0][key] for key in ("drops", "drops_ect", "drops_knonect", "marks",
                                                           "marks_kmax")], [3, 1, 2, 7, 5])
        self.assertEqual(got["ports"][0]["marking"], {"kmin": 10, "kmax": 20, "knonect": 30, "pmax": 0.25})
        for key in ("queue_bytes", "queue_bytes_whole_run"):
            self.assertEqual(set(got["ports"][0][key]), {"p50", "p95", "p99", "max"})

    def test_window(self):
        got = self.result()["ports"][0]
        # 10,000 bytes in 1 us at 100 Gb/s
        self.assertEqual(got["utilization"], 0.8)
        self.assertEqual(got["queue_bytes"]["max"], 0)
        self.assertEqual(got["queue_bytes_whole_run"]["max"], 255)
        self.assertEqual(self.result()["flows"][0]["goodput_bps"], 10**6 * 8 * 10**9 // 4000)
        with self.assertRaises(results.EmptyWindow):
            self.result(until_ns=1000)

    def test_jain(self):
        for rates, index in (([5, 5, 5], 1), ([7, 0, 0, 0], 0.25), ([1, 3], 0.8), ([1, 2, 3], 36 / 42), ([0, 0], None)):
            self.assertEqual(results.jain(rates), index)

    @staticmethod
    def records(made, done, samples):
        """The fairness of flows that ended at done (-1: unfinished), with samples {us: values}."""
        records = results.Records([f"flow {i} {ns} 0 0 1000 7000\n" for i, ns in enumerate(done)], made)
        records.samples = [{"t_ns": us * 1000, "values": values} for us, values in samples.items()]
        return records

    def test_fairness(self):
        made = build(topology={"hosts": 4}, measure={"until": "4ms"}, flow=[
            {"from": "h0", "to": "h3", "bytes": "endless"},
            {"from": "h1", "to": "h3", "bytes": "endless"},
            {"from": "h2", "to": "h3", "bytes": 100, "start": "1.5ms"}])
        # One port of series in front; flow 2 ends after 3.5 ms.
        records = self.records(made, [-1, -1, 3500000], {
            0: [0, 0, 0, 0, 0], 500: [9, 9, 5, 1, 0], 1000: [9, 9, 10, 10, 0], 1500: [9, 9, 30, 11, 0],
            2000: [9, 9, 20, 40, 9], 3000: [9, 9, 30, 50, 39], 4000: [9, 9, 30, 60, 100]})
        # 10:10, then 10:30 = 0.8, then 10:10:30 = 25/33, then 0:10 without flow 2
        self.assertEqual(results.fairness(made, records, 0, 4000000), {
            "min": 0.5, "mean": round((1 + 0.8 + 2500 / 3300 + 0.5) / 4, 6), "spans": 4})
        # Only complete spans count, starting with the first sample in the window.
        self.assertEqual(results.fairness(made, records, 900000, 2999999), {"min": 0.8, "mean": 0.8, "spans": 1})
        self.assertIsNone(results.fairness(made, records, 3500000, 4000000))
        # Samples 2 ms apart are too coarse for spans of 1 ms.
        coarse = self.records(made, [-1, -1, -1], {0: [0, 0, 0], 2000: [1, 2, 0]})
        self.assertIsNone(results.fairness(made, coarse, 0, 4000000))

    def test_endless_goodput(self):
        made = build(flow=[{"from": "h0", "to": "h1", "bytes": "endless"}], measure={"until": "3ms"})
        got, = flows.Measured(made, topology.Topology(made), self.records(made, [-1], {}), (500000, 2500000))
        self.assertEqual((got["bytes"], got["fct_us"], got["goodput_bps"]), (None, None, 24 * 10**6))

    def test_series(self):
        made = build()
        net = topology.Topology(made)
        got = results.series(made, net, plan.Plan(made, net), results.Records(self.lines(), made))
        self.assertEqual(got["flows"][0]["rate_bps"], [0.0, 8 * 10**9, 8 * 10**9])
        self.assertEqual((got["ports"][0]["node"], got["ports"][0]["peer"]), ("s0", "h1"))

    def test_slowdowns(self):
        def result(*flows):
            return {"flows": [{"bytes": size, "slowdown": slow} for size, slow in flows]}
        got = results.slowdowns([result(*((1000, n) for n in range(1, 101))),
                                 result((1001, 7), (2 * 10**6, 3), (5, None), (None, None))])
        self.assertEqual(got, {1000: (100, 50, 95, 99), 3000: (1, 7, 7, 7), math.inf: (1, 3, 3, 3),
                               "all": (102, 49, 95, 99)})


class Ns3(unittests.Case):
    """Comparison of the same flows in ns-3 and here."""

    def setUp(self):
        super().setUp()
        self.list = self.directory / "flows.csv"
        self.list.write_text("start_ns,from,to,bytes,ns3_fct_ns,ns3_alone_ns\n"
                             "100,0,1,500,4000,4000\n100,0,1,500,5000,4000\n"
                             "200,1,2,2000000,9000,3000\n", encoding="utf-8")
        self.results = self.directory / "results.json"
        keys = "id", "start_us", "from", "to", "bytes", "fct_us", "slowdown"
        self.flows = [dict(zip(keys, values)) for values in (
            (0, 0.1, "h0", "h1", 500, 5.0, 1.0), (1, 0.1, "h0", "h1", 500, 6.0, 1.2),
            (2, 0.2, "h1", "h2", 2000000, 8.0, 2.0))]
        self.run_ = {"scenario": "star", "cc": "hpcc", "seed": 1, "flows": self.flows,
                     "settings": build(topology={"hosts": 3}).settings()}
        # 91 bytes on the wire, over two links.
        self.ack_ns = 2000 + int(2 * 91 * 8 / 100)

    def compare(self, text, status):
        self.results.write_text(text, encoding="utf-8")
        return unittests.ran(self, TOP / "scripts/compare-ns3", self.results, self.list, status=status)

    def test_pairs(self):
        found = ns3.pairs(self.run_, ns3.read(self.list))
        self.assertEqual([f["ns3"] for f in found], [(4000, 4000), (5000, 4000), (9000, 3000)])
        table = ns3.by_size(found)
        late = (6000 + self.ack_ns) / (5000 + self.ack_ns)
        self.assertEqual(table[1000], (2, [1.0, 1.25, 1.25], [1.0, late, late]))
        self.assertEqual(table[math.inf], (1, [3.0] * 3, [(8000 + self.ack_ns) / (4000 + self.ack_ns)] * 3))
        self.assertEqual(table["all"][0], 3)
        self.assertEqual(ns3.waits_us(found), [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
        self.assertEqual(ns3.misses(table), [])

    def test_misses(self):
        """The goal is 10 % for one size and 5 % for all. Percentiles that depend on few flows are not judged."""
        theirs = [1.0, 1.0, 1.0]
        got = ns3.misses({1000: (50, theirs, [1.2] * 3), 3000: (300, theirs, [1.09] * 3),
                          math.inf: (300, theirs, [1.11] * 3), "all": (650, theirs, [1.06] * 3)})
        self.assertEqual([(size, percent) for size, percent, _ in got],
                         [(1000, 50), *((math.inf, p) for p in (50, 95, 99)), *(("all", p) for p in (50, 95, 99))])

    def test_unfinished(self):
        self.flows[0] |= {"fct_us": None, "slowdown": None}
        self.assertEqual(len(ns3.pairs(self.run_, ns3.read(self.list))), 2)

    def test_command(self):
        done = self.compare(json.dumps(self.run_), 0)
        self.assertIn("star, hpcc: 3 of 3 flows ended\n", done.stdout)
        self.assertIn("within the goal", done.stdout)
        done = self.compare(json.dumps({"runs": [self.run_, self.run_ | {"cc": "ldcp"}]}), 0)
        self.assertIn("star, ldcp: 3 of 3 flows ended\n", done.stdout)

    def test_wrong(self):
        for text, error in ("{}", "not a results.json"), ("x", "is not JSON"), ("[" * 100000, "is not JSON"):
            self.assertIn(error, self.compare(text, 2).stderr)
        self.flows[0]["bytes"] = 501
        run = json.dumps(self.run_)
        self.assertIn("flow 0: ns-3 has none", self.compare(run, 2).stderr)
        self.list.write_text("start_ns,from\n", encoding="utf-8")
        self.assertIn("has to have the columns", self.compare(run, 2).stderr)
        self.list.unlink()
        self.assertIn("No such file", self.compare(run, 2).stderr)

    def test_invalid_values(self):
        """Invalid files result in a one-line error and no table."""
        text = self.list.read_text(encoding="utf-8")
        for times in "4000,0", "0,4000", "-1,4000", "nan,1", "4000":
            self.list.write_text(text.replace("4000,4000", times), encoding="utf-8")
            done = self.compare(json.dumps(self.run_), 2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
            self.assertRegex(done.stderr, "line 2: .*(numbers in the columns|times have to be from 1 to)")
        self.list.write_text(text, encoding="utf-8")
        for key, value in (("start_us", math.inf), ("start_us", 10**400), ("fct_us", 10**400),
                           ("bytes", 10**400), ("slowdown", "x")):
            wrong = self.run_ | {"flows": [self.flows[0] | {key: value}]}
            done = self.compare(json.dumps(wrong), 2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
            self.assertLess(len(done.stderr), 300)

    def test_help(self):
        for args, status in (["--help"], 0), ([], 2), (["x"], 2), (["--nonsense"], 2):
            done = unittests.run(str(TOP / "scripts/compare-ns3"), *args)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (status, int(status > 0)))
            self.assertEqual("FLOWS.csv" in done.stdout, not status)


class Report(unittest.TestCase):
    def run_of(self):
        made = build(cc={"name": "dctcp"})
        net, records = topology.Topology(made), results.Records(Results.lines(), made)
        planned = plan.Plan(made, net)
        result = results.build(made, net, records, "uml 6.1 <b>", 1)
        return runner.Run(made, net, planned, result, results.series(made, net, planned, records),
                          results.summary(result))

    def test_page(self):
        page = report.html([self.run_of()], {"finished": "now", "seconds": 1})
        self.assertNotRegex(re.sub("(?s)<script.*?</script>", "", page), r"(src|href)=|@import|url\(")
        self.assertIn("&lt;b&gt;", page)
        self.assertEqual(page.count('<div class="chart"'), 3)

    def test_table(self):
        self.assertRegex(report.text([self.run_of()]), r"(?m)^dctcp +0\.800 ")
        self.assertIn("do not mark ECN", report.text([self.run_of()]))
        marking = self.run_of()
        marking.scenario.qdisc["marking"] = "ldcp"
        self.assertNotIn("do not mark ECN", report.text([marking]))
        for w_ai, n_flows in ((None, 2), (("bytes", 9), 100), (("bytes", 9), 2)):
            marking.scenario.cc |= {"w_ai": w_ai, "n_flows": n_flows}
            self.assertEqual("n_flows has no effect" in report.text([marking]), bool(w_ai) and n_flows == 2)

    def test_notes(self):
        runs = [self.run_of(), self.run_of()]
        runs[1].summary["cc"] = "other"
        output = report.text(runs)
        self.assertIn("those of the port s0 to h1,", output)
        self.assertIn("fallbacks 1; 2 connections agreed", output)
        self.assertIn("dropped 9 packets between interfaces", output)
        self.assertNotIn("windows", output)
        self.assertNotIn("knonect", output)
        runs[0].summary["port"], runs[0].summary["window_us"] = "s0 to h0", 1.2
        runs[1].scenario.flows[0].cc = "cubic"
        output = report.text(runs)
        self.assertIn("dctcp: s0 to h0; other: s0 to h1.", output)
        self.assertIn("windows differ in length", output)
        self.assertIn("packets without ECN at a queue of 30 B (knonect) or more", output)

    def test_seeds(self):
        """Runs of one name share one row."""
        runs = [self.run_of() for _ in range(4)]
        output = report.text(runs)
        self.assertRegex(output, r"(?m)^dctcp +0\.800 \u00b1 0\.000 ")
        self.assertIn("Means over seeds (dctcp 4)", output)
        self.assertIn("Nothing in this scenario is random", output)
        for n, run in enumerate(runs):
            run.result["seed"] = run.summary["seed"] = n
            run.summary["drops"] = 10 + n
        self.assertIn("Nothing in this scenario is random", report.text(runs))
        runs[3].result["window_us"] = [1, 3]
        runs[3].summary["unfinished"] = 1
        output = report.text(runs)
        self.assertNotIn("Nothing in this scenario is random", output)
        # 10, 11, 12, 13: a deviation of 1.291, and 1.291 x 3.182 / 2 = 2.054
        self.assertRegex(output, r" 11\.5 \u00b1 2\.054 ")
        self.assertIn("dctcp, seed 3: 1 of the flows", output)
        self.assertEqual(report.html(runs, {"finished": "", "seconds": 1}).count('<div class="chart"'), 3)
        runs[0].summary["drops"] = 10**6
        self.assertRegex(report.text(runs), r" 250009 \u00b1 795490 ")

    def test_slowdown(self):
        """There is a table if there are enough flows."""
        run = self.run_of()
        self.assertNotIn("slowdown", report.text([run]))
        run.result["flows"] = [{"bytes": 10**7 if n else 1, "slowdown": 1 + n / 100, "fct_us": 1, "start_us": 0}
                               for n in range(100)]
        output = report.text([run]).split("\n\n")[1].splitlines()
        self.assertEqual([re.split("  +", line) for line in output[:3]],
                         [["FCT slowdown p50/p95/p99", "to 1 KB", "> 1 MB", "all"],
                          ["dctcp", "1.00/1.00/1.00", "1.50/1.95/1.99", "1.49/1.94/1.98"], ["flows", "1", "99", "100"]])
        other = self.run_of()
        other.summary["cc"] = "other"
        other.result["flows"] = run.result["flows"][1:51]
        output = report.text([run, other]).split("\n\n")[1].splitlines()
        self.assertEqual(re.split("  +", output[3]), ["flows", "1/0", "99/50", "100/50"])
        self.assertIn("1.50/1.95/1.99", report.html([run], {"finished": "", "seconds": 1}))


if __name__ == "__main__":
    unittests.main()
