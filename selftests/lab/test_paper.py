#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""hpcc-paper: grids, their results, and a small grid that is killed and resumed."""

import contextlib
import fcntl
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
SYSTEM_PYTHON = "/usr/bin/python3"      # Debian's Snakemake and matplotlib need this interpreter
if os.path.exists(SYSTEM_PYTHON) and not os.path.samefile(sys.executable, SYSTEM_PYTHON):
    os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])

from lab.model import keys, workload  # noqa: E402
from lab.study import grid, published  # noqa: E402
from lib import unittests  # noqa: E402
from lib.unittests import TOP  # noqa: E402

PAPER = str(TOP / "scripts/hpcc-paper")
SNAKEMAKE = "/usr/bin/snakemake"
# The second seed of "rare" generates no flow, so that run fails.
GRID = """
scenario = "small.toml"
loads = [0.3]
seeds = 2
[[workload]]
name = "own"
cdf = "own.csv"
duration = "100us"
[[workload]]
name = "rare"
cdf = "own.csv"
duration = "500ns"
[[variant]]
name = "hpcc"
cc = "hpcc"
[[variant]]
name = "dctcp-20KB"
cc = "dctcp"
set = ["qdisc.kmin=20KB", "qdisc.kmax=20KB"]
workloads = ["own"]
"""
SMALL = """
[topology]
hosts = 4
[link]
rate = "10Gbit"
[qdisc]
marking = "ldcp"
"""
CDF = "bytes,cdf_percent\n0,0\n2000,100\n"


@contextlib.contextmanager
def files(text=GRID):
    """A directory with a grid and the files that the grid names."""
    with tempfile.TemporaryDirectory(prefix="hpcc-paper-") as directory:
        for name, content in (("tiny.toml", text), ("small.toml", SMALL), ("own.csv", CDF)):
            Path(directory, name).write_text(content, encoding="utf-8")
        yield Path(directory)


@contextlib.contextmanager
def open_grid(text=GRID):
    """A grid, whose directory is the current directory."""
    with files(text) as directory, contextlib.chdir(directory):
        yield grid.load("tiny.toml")


class Grid(unittest.TestCase):
    def refused(self, text, why):
        with files(text) as directory, self.assertRaises(keys.ScenarioError) as caught:
            grid.load(directory / "tiny.toml")
        self.assertRegex(str(caught.exception), why)
        self.assertNotIn("\n", str(caught.exception))

    def test_cells(self):
        with open_grid() as found:
            cells = found.cells()
        self.assertEqual([str(cell) for cell in cells], [
            "own 30%, hpcc, seed 1", "own 30%, dctcp-20KB, seed 1", "rare 30%, hpcc, seed 1",
            "own 30%, hpcc, seed 2", "own 30%, dctcp-20KB, seed 2", "rare 30%, hpcc, seed 2"])

    def test_extends(self):
        """A grid that names another one replaces its keys. A workload has its own duration and loads."""
        with open_grid(GRID.replace("[0.3]", '[0.3, 0.5]\nduration = "1us"').replace('"500ns"', '"500ns"\nloads = [0.5]')
                       .replace('duration = "100us"', "")):
            Path("more.toml").write_text('extends = "tiny.toml"\nseeds = 1\nduration = "100us"\n', encoding="utf-8")
            found = grid.load("more.toml")
        self.assertEqual([str(cell) for cell in found.cells()], [
            "own 30%, hpcc, seed 1", "own 30%, dctcp-20KB, seed 1", "own 50%, hpcc, seed 1", "own 50%, dctcp-20KB, seed 1",
            "rare 50%, hpcc, seed 1"])
        self.assertEqual([work["duration"] for work in found.workloads.values()], [100000, 500])

    def test_command(self):
        with files() as directory:
            found = grid.load(directory / "tiny.toml")
            command = found.command(found.cells()[1])
            self.assertIn(f"--set 'workload.cdf=\"{directory.resolve()}/own.csv\"'", command)
        self.assertRegex(command, "--cc dctcp --seed 1 --out runs/own/0.3/dctcp-20KB/1 "
                                  ".*--set qdisc.kmin=20KB --set qdisc.kmax=20KB$")

    def test_sources(self):
        """The digest covers all sources of congestion controls, with the names of files, and no build products."""
        with open_grid() as found:
            found.settings = ["rpc.cc=mine/b.c"]
            Path("mine/dir/.git").mkdir(parents=True)
            Path("shared").mkdir()
            Path("mine/dir/linked").symlink_to("../../shared")
            Path("mine/dir/self").symlink_to(".")
            Path("small.toml").write_text(SMALL + '[[flow]]\nfrom = "h0"\nto = "h1"\nbytes = 1\ncc = "mine/dir"\n'
                                          '[[rpc]]\nfrom = "h0"\nto = "h1"\nrequest = 1\nresponse = 1\n', encoding="utf-8")
            for name, changes in (("a.c", True), ("b.c", False), ("../b.c", True), ("linked/l.h", True), (".git/x", False), ("x.ko", False),
                                  ("x.mod.c", False), ("Module.symvers", False), ("h.h", True)):
                before = grid.sources(found)
                Path("mine/dir", name).write_text("x", encoding="ascii")
                self.assertEqual(grid.sources(found) != before, changes or name == "b.c", name)
            before = grid.sources(found)
            Path("mine/dir/h.h").rename("mine/dir/i.h")
            self.assertNotEqual(grid.sources(found), before)
            for name in "small.toml", "own.csv":
                before = grid.sources(found)
                Path(name).write_text(Path(name).read_text(encoding="utf-8") + "\n", encoding="utf-8")
                self.assertNotEqual(grid.sources(found), before, name)

    def test_common(self):
        text = GRID.replace("seeds = 2", 'seeds = 1\nset = ["qdisc.pmax=0.5"]\nkernel = "6.1"')
        with open_grid(text + 'common = false\nkernel = "7.2"\n') as found:
            commands = [found.command(cell) for cell in found.cells()[:2]]
            self.assertEqual(found.kernels(), ["6.1", "7.2"])
        self.assertEqual(["qdisc.pmax" in command for command in commands], [True, False])
        self.assertEqual(["--kernel-version 6.1" in command for command in commands], [True, False])

    def test_refused(self):
        for old, new, why in (
                ("seeds = 2", "seeds = 0", "seeds = 0: has to be a number of seeds from 1"),
                ("[0.3]", "[0.3, 1]", r"loads = .*: has to be a list of fractions from 0.001"),
                ("[0.3]", "[0.3, 0.3]", "loads = .*each once"),
                ("[0.3]", "0.3", "loads = 0.3: has to be a list"),
                ('"small.toml"', '"none.toml"', "none.toml: No such file"),
                ('cc = "hpcc"', 'cc = "a b"', r"variant.0.cc = 'a b': has to be hpcc, "),
                ('name = "hpcc"', 'name = "a/b"', "variant.0.name = 'a/b': has to be a name"),
                ('name = "rare"', 'name = "own"', "workload.1.name = 'own': is given twice"),
                ('workloads = ["own"]', 'workloads = ["web"]', "'web' is not in the grid, which has own, rare"),
                ('workloads = ["own"]', "loads = [0.5]", "0.5 is not in the grid, which has 0.3"),
                ('"qdisc.kmin=20KB"', '"qdisc.kmin=x"', "dctcp-20KB, seed 1: .*qdisc.kmin = 'x': has to be"),
                ('"qdisc.kmin=20KB"', '"kmin"', "variant.1.set = .*: has to be a list of"),
                ('cdf = "own.csv"', 'cdf = "none.csv"', "workload.cdf = .*none.csv.*: No such file"),
                ('duration = "100us"', "", "workload.0.duration: missing"),
                ('duration = "500ns"', 'duration = "500ns"\nloads = [0.5]', "workload rare: loads: 0.5 is not in the grid"),
                ("seeds = 2", "extends = 1", "extends = 1: has to be a file's name"),
                ("seeds = 2", 'extends = "none.toml"', "none.toml: No such file"),
                ("seeds = 2", "ideal = [2]", "ideal = .*: has to be a list of fractions from more than 0 to 1"),
                ('cc = "hpcc"', 'cc = "hpcc"\npeer = 1', "variant.0.peer = 1: has to be"),
                ("seeds = 2", "kernel = 6.1", "kernel = 6.1: has to be a version"),
                ("seeds = 2", "memory = 1", "memory = 1: has to be a size from 100MB"),
                ("seeds = 2", "sets = 2", "sets: unknown key; allowed: extends, scenario, .*[[]{2}variant"),
                ('workloads = ["own"]', 'base = "queue"', "dctcp-20KB: base = 'queue': is not in .* hpcc, dctcp-20KB"),
                ('workloads = ["own"]', "base = 1", "variant.1.base = 1: has to be a name"),
                ("seeds = 2", "seeds =", "Invalid value")):
            with self.subTest(new):
                self.assertIn(old, GRID)
                self.refused(GRID.replace(old, new, 1), why)

    def test_no_variant(self):
        self.refused(GRID[:GRID.index("[[variant]]")], "variant: at least one .*variant.* is needed")

    def test_exit_status(self):
        with files(GRID.replace("seeds = 2", "seeds = 0")) as directory:
            done = unittests.ran(self, PAPER, "tiny.toml", cwd=directory, status=2)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"^hpcc-paper: .*/tiny.toml: seeds = 0: [^\n]*\n$")
            self.assertFalse((directory / "out").exists())

    def test_shipped(self):
        for path in sorted((TOP / "scripts/paper").glob("*.toml")):
            with self.subTest(path.name):
                self.assertGreater(len(grid.load(path).cells()), 1)


class Published(unittest.TestCase):
    def test_sizes_are_deciles(self):
        for cdf in "websearch", "fb_hadoop":
            sizes = workload.Sizes(cdf)
            shown = {size for key, points in published.read().items() if key[0] == cdf for size in points}
            for size, (_, high) in zip(sorted(shown), published.classes(sizes), strict=True):
                self.assertLess(abs(size / high - 1), 0.05, (cdf, size, high))

    def test_values(self):
        self.assertEqual(published.read()["websearch", 0.7, 99, "HPCC"][5000000], 44.58)

    def test_slowdown(self):
        flow = {"fct_us": 12.0, "slowdown": 2.0}
        self.assertAlmostEqual(published.slowdown(flow, 4), 1.6)
        self.assertEqual(published.slowdown({"fct_us": 1.0, "slowdown": 0.9}, 4), 1)


def result(low, port_bytes="0"):
    """A results.json of 200 flows of 1 KB, with slowdowns from low to low + 1."""
    settings = tomllib.loads(SMALL)
    return {"settings": settings, "kernel": "uml 6.1", "hosts": {"timeouts": 1}, "wall": {"seconds": 2.0, "commit": "0123456789abcdef"},
            "flows": [{"from": "h0", "to": "h1", "bytes": 1000, "fct_us": 10.0 * (low + i / 200),
                       "slowdown": low + i / 200, "retrans": 0} for i in range(200)]
            + [{"from": "h0", "to": "h1", "bytes": 1000, "fct_us": None, "slowdown": None, "retrans": 3}],
            "ports": [{"data": True, "peer": "h1", "utilization": 0.5, "queue_hist": {"0": 90, port_bytes: 10},
                       "queue_bytes": {"max": int(port_bytes)}, "marks": 4, "drops": 5}]}


def written(found, results):
    """Return the text of results.rst and the names of the figures. Cells without a result have failed."""
    from lab.study import paper       # pylint: disable=import-outside-toplevel
    for cell, one in results.items():
        Path(cell.directory).mkdir(parents=True)
        Path(cell.results).write_text(json.dumps(one), encoding="utf-8")
    paper.write(found, "results.rst")
    return Path("results.rst").read_text(encoding="utf-8"), {path.name for path in Path("figures").iterdir()}


needs_matplotlib = unittest.skipUnless(importlib.util.find_spec("matplotlib"),
                                       "needs matplotlib; scripts/install-deps paper installs it")


@needs_matplotlib
class Results(unittest.TestCase):
    """The text that hpcc-paper writes from results.json files."""

    @classmethod
    def setUpClass(cls):
        with open_grid() as found:
            cells = {(cell.workload, cell.variant, cell.seed): cell for cell in found.cells()}
            cls.text, cls.figures = written(found, {
                cells["own", "hpcc", 1]: result(2), cells["own", "hpcc", 2]: result(2.03, "5000"),
                cells["own", "dctcp-20KB", 1]: result(1.505)})

    def line(self, *words):
        """Return the words of the only line that contains all given words."""
        found = [line for line in self.text.split("\n") if all(word in line.split() for word in words)]
        self.assertEqual(len(found), 1, found)
        return found[0].split()

    def test_unknown_marks(self):
        from lab.study import paper       # pylint: disable=import-outside-toplevel
        ports = paper.Ports()
        for marks in 4, None, 4:
            ports.add(result(2)["ports"][0] | {"marks": marks})
        self.assertEqual(paper._port_cells(ports)[-2:], [paper.NONE, 15])

    def test_pooled_percentile_and_interval(self):
        # The median is 2.5 for seed 1, 2.53 for seed 2, and 2.51 for the flows of both seeds.
        self.assertEqual(self.line("hpcc", "p50")[2:5], ["2.51", "±", "0.19"])

    def test_one_seed_has_no_interval(self):
        found = [line.split() for line in self.text.split("\n") if line.startswith("dctcp-20KB (1 of 2 seeds)  p50")]
        self.assertEqual(found, [["dctcp-20KB", "(1", "of", "2", "seeds)", "p50", "2.00", "2.00"]])

    def test_failed_is_named(self):
        self.assertEqual(self.line("own", "dctcp-20KB", "start``")[-4:], ["2", "``did", "not", "start``"])
        self.assertIn("6, of which 3 failed", self.text)

    def test_names_its_sources(self):
        self.assertIn("- sources: commit ``0123456789ab``\n- kernel: uml 6.1\n", self.text)

    def test_failed_cell_is_no_number(self):
        failed = [line.split() for line in self.text.split("\n") if line.startswith("hpcc") and "failed" in line]
        self.assertEqual(failed[0], ["hpcc", "failed"])
        self.assertNotRegex(self.text, r" 0\.0+ ")

    def test_losses(self):
        self.assertEqual(self.line("own", "p99", "dctcp-20KB")[-1], "1.21")

    def test_ports(self):
        cells = self.line("hpcc", "hosts")
        self.assertEqual(cells[1:5] + cells[-6:], ["to", "hosts", "0.500", "0.500", "8", "10", "6", "2", "2", "0"])

    def test_base(self):
        """A variant with a base has a table of ratios. The slowdowns of seed 1 are 2 to 3, and 1.505 to 2.505."""
        with open_grid(GRID.replace("seeds = 2", "seeds = 1").replace('name = "hpcc"', 'name = "hpcc"\nbase = "dctcp-20KB"')) \
                as found:
            cells = {(cell.workload, cell.variant): cell for cell in found.cells()}
            text, _ = written(found, {cells["own", "hpcc"]: result(2), cells["own", "dctcp-20KB"]: result(1.505)})
        part = text[text.index("Slowdown relative to another variant"):text.index("FCT slowdown by size")]
        self.assertIn("6 of 6 values are above 1.1.", part)
        self.assertEqual([line.split()[2:] for line in part.split("\n") if line.startswith("hpcc ")],
                         [["1.25"] * 2, ["1.20"] * 2, ["1.20"] * 2])

    def test_ideal(self):
        """Variants, peers and ideal sharing are compared with the best peer: here that is a variant of hpcc, 0.5 faster."""
        one, two = result(2), result(1.5)
        one["flows"] = [flow | {"id": i, "start_us": 99 * i, "alone_us": 1} for i, flow in enumerate(one["flows"])]
        one["settings"] |= {"ip": 4, "link": one["settings"]["link"] | {"mtu": 1500, "overhead": 24}}
        one["ports"] = [one["ports"][0] | {"rate_bps": 10**10, "peer": peer} for peer in ("h0", "h1")]
        with open_grid(GRID.replace("seeds = 2", "seeds = 1\nideal = [0.5]").replace('"dctcp"', '"hpcc"\npeer = true')) as found:
            cells = {(cell.workload, cell.variant): cell for cell in found.cells()}
            text, _ = written(found, {cells["own", "hpcc"]: one, cells["own", "dctcp-20KB"]: two})
        rows = [line.split() for line in text.split("\n")]
        self.assertIn(["hpcc", "3", "3", "3", "1.25"], rows)
        self.assertIn(["dctcp-20KB", "3", "0", "0", "–"], rows)
        self.assertIn(["ideal,", "50%", "p50", "1.85", "1.85"], rows)

    def test_published_values_beside_ours(self):
        with open_grid(GRID.replace('cdf = "own.csv"', 'cdf = "websearch"', 1).replace('"100us"', '"1ms"')
                       .replace("seeds = 2", "seeds = 1")) as found:
            cells = {(cell.workload, cell.variant): cell for cell in found.cells()}
            one = result(2)
            for i, flow in enumerate(one["flows"]):
                flow["bytes"] = 1000000 if i % 2 else 20000
            one["flows"][-1]["bytes"] = 20000
            text, names = written(found, {cells["own", "hpcc"]: one})
        # Flows with an even index, and the unfinished flow, have 20 KB and a median slowdown of 2.5. Flows
        # with an odd index have 1 MB and a median of 2.495. Alone in the network each flow takes 10 us; its
        # ACK takes two times 1 us, plus the time of 118 bytes at 10 Gb/s.
        line = next(line for line in text.split("\n") if re.match("p50 +hpcc ", line))
        self.assertEqual(line.split()[2:], ["–", "2.23", "(2.01)", "–", "–", "–", "–", "2.23", "(1.13)", "–", "–"])
        self.assertRegex(text, "p99 +HPCC published +1.68 +1.87 .* 6.37\n")
        self.assertEqual(names, {f"own-30{more}.{kind}" for more in ("", "-published") for kind in ("svg", "pdf")})

    def test_figures(self):
        self.assertEqual(self.figures, {"own-30.svg", "own-30.pdf"})

    def test_is_restructured_text(self):
        from docutils.core import publish_string    # pylint: disable=import-outside-toplevel
        with tempfile.TemporaryFile("w+", encoding="utf-8") as warnings:
            publish_string(self.text, writer_name="null", settings_overrides={
                "report_level": 1, "halt_level": 5, "warning_stream": warnings})
            warnings.seek(0)
            self.assertEqual(warnings.read(), "")


@needs_matplotlib
class Losses(unittest.TestCase):
    """Figures of a cell, and the figures that are losses."""

    @staticmethod
    def paper():
        from lab.study import paper   # pylint: disable=import-outside-toplevel
        return paper

    def runs(self, *results):
        runs = self.paper().Runs()
        for one in results:
            runs.add(one)
        return runs

    def lost(self, **variants):
        """Return {percentile: peer} for percentiles at which hpcc loses; a variant is a list of results."""
        with open_grid(GRID.replace('[[variant]]\nname = "dctcp-20KB"', '[[variant]]\nname = "bbr"\ncc = "bbr"\n'
                                    '[[variant]]\nname = "dctcp-20KB"')) as found:
            lost, _ = self.paper().losses(found, {
                ("own", 0.3, name.replace("dctcp", "dctcp-20KB")): self.runs(*results)
                for name, results in variants.items()})
            return {row[4]: row[6] for row in lost}

    @staticmethod
    def ended_150():
        """Return result(1) with the times of only 150 flows."""
        one = result(1)
        for flow in one["flows"][150:]:
            flow |= {"fct_us": None, "slowdown": None}
        return one

    def test_unfinished_flows(self):
        one = self.ended_150()
        runs = self.runs(one, result(1))
        self.assertEqual([self.paper().shown(runs.value(0, 1000, percent)) for percent in (50, 99)],
                         ["1.50 ± 0.00", "not ended"])
        self.assertEqual(runs.sums["unfinished"], 52)
        self.assertIsNone(self.runs(result(1), one).value(0, 1000, 95)[1])

    def test_unfinished_flows_lose(self):
        one = self.ended_150()
        self.assertEqual(self.lost(hpcc=[one], bbr=[result(1)]), {95: "bbr", 99: "bbr"})
        self.assertEqual(self.lost(hpcc=[one], bbr=[one]), {})

    def test_better_peer_behind_a_wide_interval(self):
        # bbr is the best on average, but its interval is too wide; dctcp is significantly better than hpcc.
        self.assertEqual(self.lost(hpcc=[result(3), result(3)], bbr=[result(1), result(2)],
                                   dctcp=[result(2), result(2)])[50], "dctcp-20KB")

    def test_equal_peers_one_without_interval(self):
        self.assertEqual(self.lost(hpcc=[result(3), result(3)], bbr=[result(2)],
                                   dctcp=[result(2), result(2)])[50], "bbr")

    def test_failed_seeds_are_named_everywhere(self):
        with open_grid(GRID.replace('cdf = "own.csv"', 'cdf = "websearch"', 1).replace('"100us"', '"1ms"')) as found:
            cells = {(cell.workload, cell.variant, cell.seed): cell for cell in found.cells()}
            one = result(2)
            for flow in one["flows"]:
                flow["bytes"] = 1000000
            text, _ = written(found, {cells["own", "hpcc", 1]: one})
        for part in ("Long flows against dctcp", "Published and ours: own", "FCT slowdown by size"):
            lines = text[text.index(part):].split("\n")
            self.assertTrue(any("hpcc (1 of 2 seeds)" in line for line in lines[:40]), part)
            self.assertTrue(any("dctcp-20KB" in line and "failed" in line for line in lines[:40]), part)


@unittest.skipUnless(os.path.exists(SNAKEMAKE), "needs snakemake; scripts/install-deps paper installs it")
class Workflow(unittest.TestCase):
    def test_locked(self):
        with files() as directory:
            (directory / "o").mkdir()
            with open(directory / "o/lock", "w", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                done = unittests.ran(self, PAPER, "tiny.toml", "--out", "o", cwd=directory, status=1)
        self.assertIn("another hpcc-paper is running", done.stderr)

    def start(self, directory):
        with open(directory / "output", "a", encoding="utf-8") as output:
            return subprocess.Popen([PAPER, "tiny.toml", "--out", "o", "--jobs", "2"], cwd=directory,
                                    stdout=output, stderr=output, start_new_session=True)

    def test_waits(self):
        """A run waits for the end of an earlier instance of itself."""
        with files(GRID[:GRID.rindex("[[variant]]")].replace("[0.3]\nseeds = 2", "[0.3]\nseeds = 1")) as directory:
            path, results = (directory / f"o/runs/own/0.3/hpcc/1/{name}" for name in ("log.lock", "results.json"))
            path.parent.mkdir(parents=True)
            with open(path, "w", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                process = self.start(directory)
                while "Finished job 3" not in (directory / "output").read_text(encoding="utf-8"):
                    time.sleep(0.1)
                time.sleep(1)
                self.assertFalse(results.exists())
            self.assertEqual(process.wait(), 0, (directory / "output").read_text(encoding="utf-8"))
            self.assertTrue(results.exists())

    def test_killed_and_resumed(self):
        with files(GRID[:GRID.rindex("[[variant]]")]) as directory:
            first = self.start(directory)
            runs, output = directory / "o/runs", directory / "output"
            # The first step builds the guest; the second step is a run.
            while first.poll() is None and "\n2 of 6 steps" not in output.read_text(encoding="utf-8"):
                time.sleep(0.05)
            os.killpg(first.pid, signal.SIGKILL)
            self.assertEqual(first.wait(), -signal.SIGKILL)
            before = {path: path.stat().st_mtime_ns for path in runs.glob("*/*/*/*/results.json")}
            again = self.start(directory)
            self.assertEqual(again.wait(), 1, output.read_text(encoding="utf-8"))
            printed = output.read_text(encoding="utf-8")
            text = (directory / "o/results.rst").read_text(encoding="utf-8")
            after = {path: path.stat().st_mtime_ns for path in runs.glob("*/*/*/*/results.json")}
            figures = sorted(path.name for path in (directory / "o/figures").iterdir())
        self.assertEqual(len(after), 3)
        kept = [path for path, when in before.items() if after[path] == when]
        self.assertTrue(1 <= len(kept) < 3, (before, after))
        self.assertRegex(printed, "(?s)tiny: 4 runs, 0 of them .*tiny: 4 runs, [12] of them have finished")
        self.assertRegex(printed, "hpcc-paper: failed: rare 30%, hpcc, seed 2: .*workload: 0 flows")
        self.assertRegex(text, r"rare +30% +hpcc +2 +``.*workload: 0 flows")
        self.assertIn("4, of which 1 failed", text)
        self.assertRegex(text, r"(?m)^hpcc +p50 +[1-9][0-9.]+ ± ")
        self.assertIn("hpcc (1 of 2 seeds)", text)
        self.assertEqual(figures[:2], ["own-30.pdf", "own-30.svg"])


if __name__ == "__main__":
    unittests.main()
