# SPDX-License-Identifier: GPL-2.0
"""Common parts of the benches: scenarios that run in parallel, figures with limits,
and a report as report.md, report.html and results.json.

A missed limit is not an error: a bench fails only if a run failed.
"""

import argparse
import copy
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from ..model import scenario as scenarios
from ..run import runner
from ..show import page

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


@dataclass
class Figure:
    """One number: its source, its display, and its limits.

    A limit that depends on the run is a function of the run.
    """
    name: str
    value: object               # function of a run
    unit: object                # function that shows it
    most: object = None
    least: object = None

    def limits(self, run):
        """(most, least) as numbers or None."""
        return tuple(limit(run) if callable(limit) else limit
                     for limit in (self.most, self.least))

    def verdict(self, value, run=None):
        """met or missed; empty without a limit."""
        most, least = self.limits(run)
        if most is None and least is None:
            return ""
        good = value is not None and (most is None or value <= most) \
            and (least is None or value >= least)
        return "met" if good else "missed"

    def target(self, run=None):
        """The limit as text."""
        most, least = self.limits(run)
        if most is not None:
            return f"<= {self.unit(most)}"
        return f">= {self.unit(least)}" if least is not None else ""

    def show(self, value):
        """A value as text."""
        return "unfinished" if value is None else self.unit(value)


@dataclass
class Case:
    """A scenario with settings, and the figures taken from its run."""
    title: str
    file: str
    settings: list = field(default_factory=list)
    cc: str = None
    figures: list = field(default_factory=list)
    more_seed: int = 0          # added to the seed of the bench
    data: dict = None           # the scenario itself, in place of a file


@dataclass
class Comparison:
    """A figure of some runs. Its limit depends on the same figure of other runs of the bench. The medians of the runs
    are compared.
    """
    name: str
    value: object               # function of a run
    unit: object                # function that shows it
    most: object = None         # function of the value of the other runs
    least: object = None

    def row(self, runs, others):
        """[figure, target, measured, verdict]"""
        value, other = median(self.value, runs), median(self.value, others)
        own = Figure(self.name, self.value, self.unit, self.most and self.most(other),
                     self.least and self.least(other))
        return [self.name, f"{own.target()} (reference {self.unit(other)})", own.show(value),
                own.verdict(value)]


@dataclass
class Pair:
    """A scenario that runs with two sets of settings. Runs with the first set are compared with runs with the second set."""
    title: str
    file: str
    settings: list              # common to all runs
    this: list
    other: list
    comparisons: list
    figures: list = field(default_factory=list)     # Figures of the runs with the first settings
    seeds: int = 1              # number of runs with each set of settings; the first run has the seed of the bench

    def cases(self):
        """The cases for Bench.run(): first those with the first settings, then the others."""
        return [Case(f"{self.title}: {', '.join(own)}" + (f", seed + {more}" if more else ""),
                     self.file, self.settings + own, more_seed=more)
                for own in (self.this, self.other) for more in range(self.seeds)]

    def rows(self, done):
        """[title, figure, target, measured, verdict]"""
        runs = [done[case.title] for case in self.cases()]
        if any(isinstance(run, str) for run in runs):
            return [[self.title, "run", "", "failed", "missed"]]
        this, other = runs[:self.seeds], runs[self.seeds:]
        rows = [[self.title, *comparison.row(this, other)] for comparison in self.comparisons]
        for figure in self.figures:
            value = median(figure.value, this)
            rows.append([self.title, figure.name, figure.target(), figure.show(value),
                         figure.verdict(value)])
        return rows


@dataclass
class Report:
    """A table, notes that explain it, and pictures for the page."""
    name: str
    about: str
    head: list
    rows: list
    notes_title: str
    notes: list
    pictures: str = ""
    more: list = field(default_factory=list)    # tables: (title, head, rows)

    def markdown(self):
        """The tables, and the notes as a list."""
        lines = ["<!-- SPDX-License-Identifier: GPL-2.0 -->", f"# {self.name}", "", self.about,
                 "", *_markdown_table(self.head, self.rows)]
        for title, head, rows in self.more:
            lines += ["", f"## {title}", "", *_markdown_table(head, rows)]
        lines += ["", f"{self.notes_title}:", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def html(self):
        """A page that needs no other file."""
        return page.document(
            self.name, f"<p>{escape(self.about)}</p>{table(self.head, self.rows)}"
            + "".join(f"<h2>{escape(title)}</h2>{table(head, rows)}" for title, head, rows in self.more)
            + f"{self.pictures}<h2>{escape(self.notes_title)}</h2>"
            + "".join(f"<p>{escape(note)}</p>" for note in self.notes))


def _markdown_table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(row) + " |" for row in _titled_once(rows))]


def _titled_once(rows):
    """Rows with the name of a scenario only in its first row."""
    shown = [None, *(row[0] for row in rows)]
    return [["" if row[0] == previous else row[0], *row[1:]]
            for row, previous in zip(rows, shown)]


def table(head, rows):
    """A table as HTML."""
    return page.table(head, _titled_once(rows))


def median(value, runs):
    """The median of a function over some runs."""
    return statistics.median(value(run) for run in runs)


class Refused(str):
    """The message about a scenario that cannot run here."""


def load(case, seed):
    """The scenario of a case."""
    if case.data is None:
        return scenarios.load(SCENARIOS / f"{case.file}.toml", case.settings, case.cc, seed)
    return scenarios.load_data(copy.deepcopy(case.data), case.title, case.settings, case.cc, seed)


def _run_case(kernel, case, seed, progress):
    """Return a Run, or the message of an error."""
    seed += case.more_seed
    try:
        scenario = load(case, seed)
        kernel.check(scenario)
        return runner.execute(kernel, scenario, seed, progress)
    except scenarios.ScenarioError as err:
        return Refused(err)
    except runner.RunError as err:
        return str(err)


def run_cases(kernel, cases, seed):
    """Run cases, one for each CPU at a time. Return a Run, or the message of an error, for each."""
    return runner.in_parallel(kernel, lambda case, progress: _run_case(
        kernel, case, seed, runner.Part(progress, case.title)), cases)


def write(out, made, results, failures=None, indent=1):
    """Write a report as report.md and report.html, and results.json. Print the tables, and the failures: {what:
    message}. Return the exit status.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(made.markdown(), encoding="utf-8")
    (out / "report.html").write_text(made.html(), encoding="utf-8")
    (out / "results.json").write_text(json.dumps(results, indent=indent) + "\n", encoding="utf-8")
    for what, message in (failures or {}).items():
        print(f"{made.name}: {what}: {message}", file=sys.stderr)
    print(made.markdown().split("\n", 1)[1])
    print(f"{out / 'report.md'}\n{out / 'report.html'}")
    return 1 if failures else 0


class Bench:
    """One bench from its arguments to its exit status."""

    def __init__(self, argv, doc, name, flags=(), observe=False):
        parser = argparse.ArgumentParser(description=doc,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--out", type=Path, default=Path("out") / name)
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--kernel-version", metavar="X.Y")
        for flag, meaning in flags:
            parser.add_argument(flag, action="store_true", help=meaning)
        self.args = parser.parse_args(argv)
        self.name, self.observe = name, observe
        self.started = time.monotonic()
        self.done = {}
        self.unlisted = set()

    def run(self, cases, listed=True):
        """Run cases, one for each CPU at a time. Return {title: Run, or the message of an error} of these cases
        and of earlier ones. results.json omits cases that are not listed."""
        if not listed:
            self.unlisted |= {case.title for case in cases}
        try:
            kernel = runner.Uml(self.args.kernel_version, self.observe)
        except runner.RunError as err:
            sys.exit(f"{self.name}: {err}")
        self.done |= zip((case.title for case in cases), run_cases(kernel, cases, self.args.seed))
        return self.done

    def about(self, rows, verdicts):
        """A summary: targets met and missed, seed, and kernels. verdicts: index of the column of verdicts."""
        met, missed = (sum(row[verdicts] == word for row in rows) for word in ("met", "missed"))
        return (f"{met} targets met, {missed} missed; seed {self.args.seed}; {self.kernels()}. "
                "Figures cover the measurement window, if they do not cover the whole run.")

    def kernels(self):
        """The kernels of all runs."""
        found = {run.result["kernel"] for run in self.runs().values()}
        return ", ".join(sorted(found)) or "nothing ran"

    def runs(self):
        """The successful runs."""
        return {title: run for title, run in self.done.items() if not isinstance(run, str)}

    def write(self, made, more=None):
        """Write the report and the results. Return the exit status."""
        results = {"rows": [dict(zip(made.head, row)) for row in made.rows],
                   "runs": {title: run.result for title, run in self.runs().items()
                            if title not in self.unlisted},
                   **(more or {}),
                   "wall": {"seconds": round(time.monotonic() - self.started, 1)}}
        return write(self.args.out, made, results,
                     {title: run for title, run in self.done.items() if isinstance(run, str)})


# ---- figures and units of several benches


def of_summary(name, part=None):
    """Return a function of a run: a value of its summary, or a part of the value."""
    return lambda run: run.summary[name][part] if part else run.summary[name]


# Of the port that sent the most bytes
utilization = of_summary("utilization")
# Of the bytes that departing packets left in the queue, in the measurement window
p99 = of_summary("queue", "p99")
# In the worst ms of the measurement window
jain_1ms = of_summary("fairness_1ms")
# Of the whole run
whole_max = of_summary("queue_whole_run", "max")

ratio = "{:.3f}".format
tenth = "{:.1f}".format
number = "{:.0f}".format
us = "{:.0f} us".format
