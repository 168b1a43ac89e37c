# SPDX-License-Identifier: GPL-2.0
"""hpcc-lab evaluate: runs the tests of bcp133.py, and makes evaluate.json and evaluate.html of the verdicts."""

from dataclasses import replace
from html import escape

from ..model.keys import ScenarioError, nearest, short
from ..run import results
from ..show import figures, page
from . import bench
from .bcp133 import CONVERGENCE, GOODPUT, JAIN, METRICS, TESTS, Criterion, endless

OUTPUTS = ("evaluate.json", "evaluate.html")
ABOUT = ("Numbers without a name are clauses of RFC 9743 (BCP 133); BBR A.n are the test cases of draft-ietf-ccwg-bbr-06 "
         "that apply to any congestion control. A test passes if it meets all its criteria, which are the same for every "
         "congestion control. Unless a test states otherwise: one bottleneck of 100 Mb/s, base RTT 20 ms, tail drop, a "
         "buffer of one bandwidth-delay product (BDP), flows without end, access links ten times as fast, a base RTT that "
         "the sender measures (data-center and incast configure it). Goodput is payload in the measurement window, as a "
         "fraction of the bottleneck's rate; at most 0.94, unless data from before the window waited for a retransmission;"
         " for flows with an end it is that of all flows until the last one has ended. Queueing delay is that of departing"
         " packets at the worst port. Loss is the fraction of packets that full queues drop in the whole run. Convergence "
         "time: until Jain's index of the flows' rates stays at 0.9 or more for three spans of 1/50 of the run, from the "
         "last start of a flow; for two flows this is the delta-fair convergence time of RFC 5166, section 2.3, with delta"
         " = 1/3, for a new flow without a share. Recovery time: until the goodput stays at 0.7 or more for three spans, "
         "from the last event.")


def chosen(names):
    """The tests with these names; all tests if there are no names."""
    known = [one.title for one in TESTS]
    for name in names or ():
        if name not in known:
            raise ScenarioError(f"--test {short(name)}: there is no such test; tests: {', '.join(known)}"
                                + nearest(name, known))
    return [one for one in TESTS if not names or one.title in names]


def check(kernel, cc, settings, seed):
    """Raise ScenarioError if the kernel does not have the congestion control, or if settings are wrong."""
    scenario = bench.load(replace(TESTS[0], cc=cc, settings=settings), seed)
    if kernel:
        kernel.check(scenario)


def figures_of(one, run):
    """{name: value} of the common figures and of those with a criterion; without those that the run does not have."""
    if isinstance(run, str):
        return {}
    values = {figure.name: figure.value(run) for figure in (*METRICS, *one.figures)}
    absent = ([] if run.result["flows"] else [GOODPUT.name]) + ([] if len(endless(run)) > 1 else [JAIN.name, CONVERGENCE.name])
    absent += [] if run.series["flows"] else [CONVERGENCE.name]
    return {name: value for name, value in values.items() if name not in absent}


def verdict(one, run):
    """pass, fail, or not run."""
    if isinstance(run, str):
        return "not run"
    return "fail" if any(figure.verdict(figure.value(run), run) == "missed" for figure in one.figures) else "pass"


def _cell(figure, run):
    if isinstance(run, str):
        return "not run"
    value = figure.value(run)
    return f"{figure.show(value)} {'fail' if figure.verdict(value, run) == 'missed' else 'pass'}"


def _rows(tests, done):
    """{column: text} of each criterion."""
    return [{"test": one.title, "clause": one.clause, "criterion": f"{figure.name} {figure.target()}".strip()}
            | {cc: _cell(figure, run) for cc, run in done[one.title].items()}
            for one in tests for figure in one.figures or [Criterion("", None, None)]]


def _metrics(tests, done):
    rows = []
    for one in tests:
        for cc, run in done[one.title].items():
            values = figures_of(one, run)
            rows.append([one.title, cc, verdict(one, run), *(
                figure.show(values[figure.name]) if figure.name in values else "" for figure in METRICS)])
    return rows


def _charts(one, runs):
    """Rates and queues of a test over time."""
    ran = [run for run in runs.values() if not isinstance(run, str)]
    how, series = [run.result for run in ran], {run.result["cc"]: run.series for run in ran}
    made = [figure for draw in (figures.rate, figures.queue) if ran and (figure := draw(how, series))]
    return f"<h3>{escape(one.title)}</h3><p>{escape(f'{one.clause}: {one.about}')}</p>{page.panels(made)}" if made else ""


def evaluate(kernel, ccs, tests, settings, seed):
    """Run the tests. Return evaluate.json, evaluate.html, and the messages of runs that failed."""
    cases = [replace(one, cc=cc, settings=settings) for one in tests for cc in ccs if not one.why]
    runs = dict(zip(((case.title, case.cc) for case in cases), bench.run_cases(kernel, cases, seed)))
    done = {one.title: {cc: bench.Refused(one.why) if one.why else runs[one.title, cc] for cc in ccs} for one in tests}
    kernels = sorted({run.result["kernel"] for run in runs.values() if not isinstance(run, str)})
    verdicts = {cc: [verdict(one, done[one.title][cc]) for one in tests] for cc in ccs}
    names = {cc: ", ".join(one.title for one, word in zip(tests, found) if word == "fail") for cc, found in verdicts.items()}
    summary = [f"{cc}: {found.count('pass')} pass, {found.count('fail')} fail{names[cc] and f' ({names[cc]})'}, "
               f"{found.count('not run')} not run" for cc, found in verdicts.items()]
    notes = [f"{one.title}: {one.about}." for one in tests]
    notes += list(dict.fromkeys(f"{one.title} not run: {run.splitlines()[0]}." for one in tests
                                for run in done[one.title].values() if isinstance(run, str)))
    rows = _rows(tests, done)
    data = {"version": results.VERSION, "kernel": ", ".join(kernels), "seed": seed, "settings": settings,
            "summary": summary, "about": ABOUT, "rows": rows, "notes": notes,
            "tests": {one.title: {cc: {"verdict": verdict(one, run), **figures_of(one, run)}
                                  for cc, run in done[one.title].items()} for one in tests}}
    tables = bench.table(list(rows[0]), [list(row.values()) for row in rows]) + "<h2>Figures</h2>" + bench.table(
        ["test", "cc", "verdict", *(figure.name for figure in METRICS)], _metrics(tests, done))
    html = page.document(
        "Verdicts: " + ", ".join(ccs), f"<p>{escape('; '.join(summary))}. {escape(ABOUT)}</p>{tables}"
        + "<h2>Tests</h2>" + "".join(f"<p>{escape(note)}</p>" for note in notes)
        + "".join(_charts(one, done[one.title]) for one in tests)
        + f"<footer>Kernel {escape(data['kernel'])}, seed {seed}, hpcc-lab {escape(results.VERSION)}.</footer>")
    failed = [f"{name}: {run}" for (name, _), run in runs.items()
              if isinstance(run, str) and not isinstance(run, bench.Refused)]
    return data, html, failed
