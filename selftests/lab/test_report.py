#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Contents of reports and figures, the files beside them, and hpcc-lab figures."""

import csv
import json
import math
import re
import subprocess
import types
import unittest
from pathlib import Path

from lab.model import workload
from lab.run import interval, results
from lab.show import figures, page, report, tables
from lib import unittests
from lib.unittests import LAB

PYTHON = "/usr/bin/python3"     # the interpreter of Debian's packages


def flow(number, size, fct_us, alone_us=10.0):
    return {"id": number, "from": f"h{number % 3}", "to": "h3", "bytes": size, "cc": "dctcp",
            "start_us": number / 1000, "fct_us": fct_us, "alone_us": alone_us,
            "slowdown": fct_us and round(fct_us / alone_us, 4), "goodput_bps": None, "retrans": 0}


def port(peer, data, hist):
    queue = {"p50": 1, "p95": 2, "p99": 3, "max": 4}
    return {"node": "s0", "peer": peer, "rate_bps": 10**10, "data": data, "packets": 9, "wire_bytes": 99, "drops": 0,
            "drops_ect": 0, "drops_knonect": 0, "marks": 0, "marks_kmax": 0, "stamped": 0, "marking": None,
            "utilization": 0.5, "queue_bytes": queue, "queue_bytes_whole_run": queue, "queue_hist": hist}


def result(name="hpcc", seed=1, flows=(), ports=()):
    return {"scenario": "test", "cc": name, "seed": seed, "kernel": "uml 6.1", "window_us": [1.0, 3.0],
            "flows": list(flows) or [flow(0, 1000, 20.0)],
            "ports": list(ports) or [port("h3", True, {"0": 6, "127": 3, "255": 1}),
                                     port("h0", False, {"0": 1000})]}


def hundred(factor):
    """Flows with slowdowns of factor x 1, 2, ... 100, half of them short; and a flow that did not end."""
    return [flow(n, 1000 if n <= 50 else 10**7, 10.0 * n * factor) for n in range(1, 101)] + [flow(101, 1000, None)]


def series(flows=1, ports=1):
    """Return samples with one value per us."""
    return {"t_us": [0.0, 1.0, 2.0, 3.0],
            "ports": [{"node": "s0", "peer": f"h{3 + n}", "queue_bytes": [0, 5000, 1000, 0],
                       "tx_bps": [0.0, 4e9, 6e9, 0.0]} for n in range(ports)],
            "flows": [{"id": n, "from": "h0", "to": "h3", "rate_bps": [0, 10**9, 2 * 10**9, 0]} for n in range(flows)]}


def data_of(text):
    return [json.loads(found) for found in re.findall(r'<script type="application/json">(.*?)</script>', text, re.S)]


class Interval(unittest.TestCase):
    def test_student(self):
        for degrees, t in (1, 12.706), (30, 2.042), (31, 2.0395), (60, 2.0003), (99, 1.9842):
            self.assertAlmostEqual(interval.student(degrees), t, 3)

    def test_half(self):
        self.assertAlmostEqual(interval.half(list(range(100))), 1.9842 * 2.9011, 3)
        self.assertIsNone(interval.half([7]))


class Slowdown(unittest.TestCase):
    def test_seeds(self):
        """Percentiles are computed per seed and then averaged; a size that a seed does not have is omitted."""
        got = results.seeds_slowdown([result(flows=hundred(1)), result(flows=hundred(3)),
                                      result(flows=[flow(0, 500, 20.0)])])
        count, percentiles = got[math.inf]
        self.assertEqual((count, [mean for mean, _ in percentiles]), (100, [150, 196, 200]))
        # 75 and 225: a deviation of 106.07
        self.assertAlmostEqual(percentiles[0][1], 12.706 * 106.066 / math.sqrt(2), 1)
        self.assertEqual(got[1000][0], 101)
        self.assertAlmostEqual(got[1000][1][0][0], (25 + 75 + 2) / 3)

    def test_figure(self):
        made = figures.slowdown([result(flows=hundred(1)), result("dctcp", flows=hundred(2))])
        self.assertEqual(made.ticks, ["1K", "> 1M"])
        self.assertEqual([panel.title for panel in made.panels], ["p50", "p95", "p99"])
        self.assertEqual([(line.label, line.xs, line.ys, line.errors) for line in made.panels[1].lines],
                         [("hpcc", [0, 1], [48, 98], None), ("dctcp", [0, 1], [96, 196], None)])
        self.assertTrue(made.y_log)
        self.assertIsNone(figures.slowdown([result(flows=hundred(1)[:99])]))

    def test_seeds_have_errors(self):
        line, = figures.slowdown([result(seed=n, flows=hundred(n)) for n in (1, 2)]).panels[0].lines
        self.assertEqual(line.ys, [37.5, 112.5])
        self.assertAlmostEqual(line.errors[0], 12.706 * 17.678 / math.sqrt(2), 1)

    def test_table(self):
        """With seeds there is a line for each percentile; a single value has no interval."""
        runs = [types.SimpleNamespace(summary={"cc": "hpcc"}, result=one) for one in (
            result(flows=hundred(1)), result(seed=2, flows=hundred(3)[:50]))]
        rows = report._slowdown_rows(runs)
        self.assertEqual(rows[0], ["FCT slowdown", "to 1 KB", "> 1 MB", "all"])
        # 25 and 75, 48 and 144, 50 and 150: deviations of 35.36, 67.88, 70.71
        self.assertEqual([row[:3] for row in rows[1:]], [
            ["hpcc p50", "50.00 \u00b1 317.65", "75.00"], ["hpcc p95", "96.00 \u00b1 609.89", "98.00"],
            ["hpcc p99", "100.00 \u00b1 635.30", "100.00"], ["flows", "100", "50"]])
        self.assertEqual(report._slowdown_rows(runs[:1])[1], ["hpcc", "25.00/48.00/50.00",
                                                              "75.00/98.00/100.00", "50.00/95.00/99.00"])


class Distribution(unittest.TestCase):
    def test_fct(self):
        """The distribution contains unfinished flows, and the flows of all seeds."""
        flows = [flow(n, 100, 10.0 * (1 + n)) for n in range(9)] + [flow(9, 100, None)]
        self.assertIsNone(figures.fct([result(flows=flows)]))
        made = figures.fct([result(flows=flows), result(seed=2, flows=flows),
                            result("bbr", flows=[flow(n, 100, 45.0) for n in range(10)])])
        hpcc, bbr = made.panels[0].lines
        self.assertEqual(dict(zip(hpcc.xs, hpcc.ys))[45.0], 0.4)
        self.assertEqual(hpcc.ys[-1], 0.9)
        self.assertEqual([y for x, y in zip(bbr.xs, bbr.ys) if x in (40.0, 45.0, 90.0)], [0, 1, 1])

    def test_endless(self):
        endless = [flow(n, None, None) for n in range(20)]
        self.assertIsNone(figures.fct([result(flows=endless)]))
        self.assertEqual(figures.fct([result(flows=endless), result("bbr", flows=[
            flow(n, 100, 45.0) for n in range(10)])]).panels[0].lines[0].label, "bbr")

    def test_queue(self):
        """Ports that send only ACKs do not count."""
        line, = figures.queue_cdf([result()]).panels[0].lines
        self.assertEqual((line.xs, line.ys), ([0.064, 0.127, 0.255], [0.6, 0.9, 1.0]))
        line, other = figures.queue_cdf([result(), result(seed=2), result("ldcp", ports=[
            port("h3", True, {"0": 1, "511": 1})])]).panels[0].lines
        self.assertEqual(line.ys, [0.6, 0.9, 1.0, 1.0])
        self.assertEqual((other.xs, other.ys), ([0.064, 0.127, 0.255, 0.511], [0.5, 0.5, 0.5, 1]))
        self.assertIsNone(figures.queue_cdf([result(ports=[port("h3", True, {})])]))

    def test_histogram(self):
        """Buckets are shown by their largest value, and the last one by the longest queue."""
        hist = {"2": 7, "0": 5, str(results.BUCKETS - 1): 1, "3": 0}
        self.assertEqual(results.queue_hist(hist, 10**9), {"0": 5, "191": 7, str(10**9): 1})


class OverTime(unittest.TestCase):
    def test_rate(self):
        """Charts are scaled to the values shown, and not to the link's rate."""
        made = figures.rate([result()], {"hpcc": series()})
        self.assertEqual(made.title, "Rate of each flow")
        self.assertEqual(made.panels[0].lines[0].ys, [0, 1, 2, 0])
        self.assertEqual(made.y_range, (0, 2))
        self.assertEqual(made.panels[0].shade, (1.0, 3.0))

    def test_own_scale(self):
        """A short queue is visible beside a long queue."""
        long = series()
        long["ports"][0]["queue_bytes"] = [0, 50000, 60000, 0]
        hpcc, dctcp = figures.queue([result(), result("dctcp")], {"hpcc": series(), "dctcp": long}).panels
        self.assertEqual((hpcc.title, hpcc.y_range), ("hpcc (scale of its own)", (0, 5)))
        self.assertEqual((dctcp.title, dctcp.y_range), ("dctcp", None))
        long["ports"][0]["queue_bytes"] = [0, 40000, 40000, 0]
        hpcc, _ = figures.queue([result(), result("dctcp")], {"hpcc": series(), "dctcp": long}).panels
        self.assertIsNone(hpcc.y_range)

    def test_many_flows(self):
        for flows in 0, figures.RATE_FLOWS + 1:
            made = figures.rate([result()], {"hpcc": series(flows)})
            self.assertEqual((made.title, made.panels[0].lines[0].label), ("Rate of each port", "s0 to h3"))
            self.assertEqual(made.panels[0].lines[0].ys, [0, 4, 6, 0])

    def test_nothing(self):
        self.assertEqual([figure.name for figure in figures.of([result()], {"hpcc": series(0, 0)})], ["queue-cdf"])

    def test_cut(self):
        """One very long run does not reduce the other runs to dots."""
        made = figures.queue([result(), result("dctcp", flows=[flow(0, 1000, 900.0)])],
                             {"hpcc": series(), "dctcp": series()})
        self.assertEqual(made.x_range, (0, 30))
        self.assertIn("The axis ends at 30 us, the last flow at 900 us.", made.about)

    def test_ceiling(self):
        for value, end in ((0.95, 1.0), (1473, 1500), (223, 250), (1000, 1000), (7, 7), (0, 1)):
            self.assertAlmostEqual(figures.ceiling(value), end)

    def test_thin(self):
        xs, ys = figures.thin(list(range(1000)), [0] * 999 + [9], 100, max)
        self.assertEqual((len(xs), xs[-1], len(ys), max(ys)), (100, 999, 100, 9))


class Page(unittest.TestCase):
    @staticmethod
    def figure(*lines, **more):
        return figures.Figure("name", "title", "about", "x", "y", [figures.Panel("", list(lines))],
                              **{"y_range": (0, 1)} | more)

    def document(self, name="a"):
        return page.document(name, page.chart(self.figure(figures.Line(name, [1, 2], [3, 4]))))

    def test_hostile_names(self):
        """Text cannot end the element that contains the text."""
        name = "</script><script>alert(1)</script><!--"
        text = self.document(name)
        self.assertEqual(text.count("alert(1)"), text.count("&lt;script&gt;alert(1)")
                         + text.count("\\u003cscript\\u003ealert(1)"))
        self.assertEqual(data_of(text)[0]["labels"], [name])

    def test_alone(self):
        """The page loads no other files."""
        text = self.document()
        self.assertNotIn("sourceMappingURL", text)
        self.assertNotRegex(re.sub("(?s)<script.*?</script>", "", text), r"(src|href)=|@import|url\(")
        self.assertIn("Permission is hereby granted", text)
        self.assertNotIn("<script", page.document("t", "<p>text</p>"))

    def test_without_dygraphs(self):
        installed, page.DYGRAPHS = page.DYGRAPHS, Path("/nowhere")
        try:
            text = self.document()
        finally:
            page.DYGRAPHS = installed
        self.assertIn("libjs-dygraphs", text)
        self.assertNotIn("new Dygraph", text)

    def test_columns(self):
        """Lines with different x have null in between."""
        got, = data_of(page.chart(self.figure(figures.Line("a", [1, 3], [5, 6]),
                                              figures.Line("b", [2], [7]), x_range=(0, 4))))
        self.assertEqual((got["x"], got["y"]), ([0, 1, 2, 3, 4], [
            [None, 5, None, 6, None], [None, None, 7, None, None]]))

    def test_errors(self):
        """An axis has a low, a middle and a high label; a log axis has nothing below its lowest value."""
        got, = data_of(page.chart(self.figure(figures.Line("a", [1], [5], [7]), y_range=(0.9, 10))))
        self.assertEqual(got["y"], [[[0.9, 5, 12]]])

    def test_colors(self):
        for count in 3, 8, 9, 32:
            self.assertEqual(len(set(page.colors(count))), count)

    def test_size(self):
        """A page with many ports and long runs stays small."""
        many = series(0, 16)
        many["t_us"] = [float(n) for n in range(20000)]
        for one in many["ports"]:
            one["queue_bytes"] = one["tx_bps"] = list(range(20000))
        names = ["hpcc", "ldcp", "dctcp", "cubic"]
        made = figures.of([result(name) for name in names], {name: many for name in names})
        self.assertLess(sum(len(page.chart(figure)) for figure in made), 10**6)


class Csv(unittests.Case):
    def read(self, name):
        with open(self.directory / name, encoding="ascii", newline="") as file:
            return list(csv.DictReader(file))

    def test_files(self):
        tables.write(self.directory, [result(), result(seed=2), result("ldcp", flows=[
            flow(0, None, None)])], {"hpcc": series(), "ldcp": series(0, 1)})
        first, second, endless = self.read("flows.csv")
        self.assertEqual([first[key] for key in ("start_ns", "from", "to", "bytes", "fct_ns", "alone_ns",
                                                 "slowdown", "cc", "seed")],
                         ["0", "0", "3", "1000", "20000", "10000", "2.0", "hpcc", "1"])
        self.assertEqual((second["seed"], endless["bytes"], endless["fct_ns"]), ("2", "", ""))
        rows = self.read("ports.csv")
        self.assertEqual(len(rows), 6)
        self.assertEqual([rows[1][key] for key in ("peer", "data", "queue_p99_bytes", "cc")], ["h0", "0", "3", "hpcc"])
        rows = self.read("series.csv")
        self.assertEqual(len(rows), 4 + 4 + 4)      # a port and a flow, a port
        self.assertEqual([rows[1][key] for key in ("t_us", "kind", "name", "queue_bytes", "bps", "seed")],
                         ["1.0", "port", "s0 to h3", "5000", "4000000000", "1"])
        self.assertEqual([rows[5][key] for key in ("kind", "name", "queue_bytes", "bps")],
                         ["flow", "0", "", "1000000000"])

    def test_workload_reads_it(self):
        tables.write(self.directory, [result(flows=hundred(1))], {})
        rows = list(workload.read_flows("flows.csv", self.directory, 4, 0))
        self.assertEqual([list(row) for row in rows[:2]], [[1, 1, 3, 1000], [2, 2, 3, 1000]])


needs_matplotlib = unittest.skipIf(unittests.run(PYTHON, "-c", "import matplotlib").returncode,
                                   "needs python3-matplotlib")


class Figures(unittests.Case):
    def setUp(self):
        super().setUp()
        self.file = self.directory / "results.json"

    def write(self, data, series_of=None):
        self.file.write_text(json.dumps(data), encoding="utf-8")
        if series_of is not None:
            (self.directory / "series.json").write_text(json.dumps(series_of), encoding="utf-8")

    def figures(self, *more):
        return unittests.ran(self, PYTHON, LAB, "figures", self.file, *more)

    def refused(self, says, *more, before=()):
        done = unittests.ran(self, *before, PYTHON, LAB, "figures", self.file, *more, status=2)
        self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
        self.assertIn(says, done.stderr)

    @needs_matplotlib
    def test_files(self):
        """compare with seeds gives equal bytes for equal input."""
        self.write({"runs": [result(name, n, hundred(n)) for name in ("hpcc", "dctcp") for n in (1, 2)]},
                   {"hpcc": series(), "dctcp": series()})
        names = sorted(f"{name}.{kind}" for kind in ("svg", "pdf")
                       for name in ("slowdown", "fct", "queue-cdf", "queue", "rate"))
        for out in "a", "b":
            done = self.figures("--out", str(self.directory / out))
            self.assertEqual(sorted(path.name for path in (self.directory / out).iterdir()), names)
            self.assertEqual(sorted(Path(line).name for line in done.stdout.split()), names)
        for name in names:
            self.assertEqual(*((self.directory / out / name).read_bytes() for out in "ab"), name)
        text = (self.directory / "a/slowdown.svg").read_text(encoding="utf-8")
        self.assertNotIn("<dc:date>", text)
        self.assertNotIn(b"CreationDate", (self.directory / "a/fct.pdf").read_bytes())

    @needs_matplotlib
    def test_one_run(self):
        """Without --out the figures are written beside results.json."""
        self.write(result(), series())
        self.figures()
        self.assertTrue((self.directory / "queue-cdf.svg").exists())
        self.assertFalse((self.directory / "slowdown.svg").exists())

    def test_missing_files(self):
        self.refused(f"{self.file}: No such file")
        self.write(result())
        self.refused(f"{self.directory}/series.json: No such file")

    def test_wrong(self):
        for text in "", "{", "[" * 100000, "\0":
            self.file.write_text(text, encoding="utf-8")
            self.refused("results.json: is not JSON")
        for data in ([], 7, {}, {"runs": 1}, {"runs": []}, {"runs": [{}]}, result() | {"flows": [{}]},
                     result() | {"flows": [flow(0, 1, 5.0) | {"fct_us": "x"}]}, result() | {"ports": None},
                     result() | {"cc": []}, result(ports=[port("h3", True, {"x": 1})]),
                     {"runs": [result(), result("ldcp")]}):
            self.write(data, {"hpcc": series()} if isinstance(data, dict) and "runs" in data else series())
            self.refused("not of this version")
        self.write(result(), {"t_us": 1})
        self.refused("not of this version")
        (self.directory / "series.json").write_text("{", encoding="utf-8")
        self.refused("series.json: is not JSON")

    @needs_matplotlib
    def test_out(self):
        self.write(result(), series())
        self.refused("", "--out", f"{self.file}/x")

    @needs_matplotlib
    def test_keeps_old_files(self):
        """If one figure cannot be written, no figure is written."""
        self.write(result(), series())
        (self.directory / "queue-cdf.svg").write_text("old", encoding="utf-8")
        (self.directory / "rate.pdf").mkdir()
        self.refused("rate.pdf is a directory")
        self.assertEqual((self.directory / "queue-cdf.svg").read_text(encoding="utf-8"), "old")
        (self.directory / "rate.pdf").rmdir()
        self.refused("", before=("prlimit", "--fsize=9000"))
        self.assertEqual((self.directory / "queue-cdf.svg").read_text(encoding="utf-8"), "old")
        self.assertEqual([path.name for path in self.directory.glob(".new*")], [])

    @needs_matplotlib
    def test_full_stdout(self):
        self.write(result(), series())
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([PYTHON, LAB, "figures", self.file], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("standard output: No space left", done.stderr)


if __name__ == "__main__":
    unittests.main()
