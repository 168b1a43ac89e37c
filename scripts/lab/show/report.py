# SPDX-License-Identifier: GPL-2.0
"""Results for readers: a table on the terminal, and a page with plots."""

import math
import statistics
from html import escape

from ..model import keys, units
from ..setup import plan
from ..run import interval, results
from . import figures, page

def _us(value):
    return units.show_time(value * 1000)


def _count(value):
    return f"{value:.4g}" if value % 1 and value < 1000 else f"{value:.0f}"


def _three(value):
    return f"{value:.3f}"


# Heading, second line of the heading, value of a run, function that shows a value.
COLUMNS = (
    ("utilization", "of the wire", lambda s: s["utilization"], _three),
    ("queue p50", "", lambda s: s["queue"]["p50"], units.show_bytes),
    ("queue p99", "", lambda s: s["queue"]["p99"], units.show_bytes),
    ("queue max", "", lambda s: s["queue"]["max"], units.show_bytes),
    ("queue max", "whole run", lambda s: s["queue_whole_run"]["max"], units.show_bytes),
    ("FCT median", "", lambda s: s["fct_median_us"], _us),
    ("FCT slowest", "", lambda s: s["fct_max_us"], _us),
    ("fairness", "Jain", lambda s: s["fairness"], _three),
    ("fairness", "worst 1 ms", lambda s: s["fairness_1ms"], _three),
    ("drops", "", lambda s: s["drops"], _count),
    ("marks", "", lambda s: s["marks"], _count),
    ("retrans", "", lambda s: s["retrans"], _count),
    ("RTOs", "", lambda s: s["timeouts"], _count),
    ("window", "", lambda s: s["window_us"], _us),
)


def _cell(summaries, heading, value, show):
    values = [value(s) for s in summaries]
    if None in values:
        late = heading.startswith("FCT") and any(s["unfinished"] for s in summaries)
        return "unfinished" if late else "-"
    if len(values) == 1:
        return show(values[0])
    return f"{show(statistics.mean(values))} \u00b1 {show(interval.half(values))}"


def groups(runs):
    """Lists of runs, one for each name, in order. Runs of one name differ in their seed."""
    return list(figures.groups(runs, lambda run: run.summary["cc"]).values())


def _rows(runs):
    return [[group[0].summary["cc"]] + [_cell([run.summary for run in group], name, value, show)
                                        for name, _, value, show in COLUMNS]
            for group in groups(runs)]


# A note is added if measurement windows differ by more than this fraction of the shortest.
WINDOWS_DIFFER = 0.1
WITHOUT_ECN = ("cubic", "bbr", "reno")
NOT_TELEMETRY = ("not_agreed", "fallbacks", "unseen_loss")


def _port_note(summaries):
    """The note that names the port of the table."""
    ports = {s["port"] for s in summaries}
    if len(ports) == 1:
        return f"Utilization and queue are those of the port {ports.pop()}, which sent the most bytes."
    return ("Utilization and queue are those of the port that sent the most bytes: "
            + "; ".join(f"{s['who']}: {s['port']}" for s in summaries) + ".")


def _marking_notes(runs):
    """Notes on congestion controls without ECN, which have a smaller buffer."""
    for run in runs:
        names = [cc for cc in run.scenario.cc_names() if cc in WITHOUT_ECN]
        marking = run.summary["marking"]
        size = run.scenario.link_of(*run.summary["port"].split(" to "))["buffer"]
        if names and marking and marking["knonect"] < size:
            yield (f"{' and '.join(names)}: not ECN-capable. The ports drop packets without ECN at a queue of "
                   f"{units.show_bytes(marking['knonect'])} (knonect) or more; the buffer has "
                   f"{units.show_bytes(size)}.")


def _classic_notes(summaries):
    """Notes on connections of hpcc without telemetry, which behave like Reno."""
    for s in summaries:
        counted = [f"{name} {s['hpcc'][name]}" for name in NOT_TELEMETRY if s["hpcc"].get(name)]
        if counted:
            yield (f"{s['who']}: connections used the classic response, for a time or always: "
                   f"{', '.join(counted)}; {s['hpcc'].get('agreed', 0)} connections agreed on telemetry.")


def _observed_notes(runs):
    """What hpccmon observed."""
    for run in runs:
        seen = run.result.get("observed")
        if seen is None:
            continue
        busiest = "".join(f"; hop {flow['hop']} ({flow['port'] or 'no name yet'}) is the busiest of {flow['from']} to "
                          f"{flow['to']}, U {flow['U']:.2f}" for flow in seen["measured"][:1])
        yield (f"{run.summary['cc']}: {seen['flows']} connections observed, {len(seen['measured'])} with the load of "
               f"hops{busiest}.")


def _backlog_notes(summaries):
    """Notes on packets that the kernel dropped outside of all ports."""
    for s in summaries:
        if s["backlog_drops"]:
            yield (f"{s['who']}: the kernel itself dropped {s['backlog_drops']} packets between interfaces because its "
                   "queue (net.core.netdev_max_backlog) was full. No port counts these drops, and the figures "
                   "are not those of the simulated network.")


def _unseeded(run):
    return run.result | {"seed": None}


def notes(runs):
    """Facts that a reader needs to interpret the figures."""
    made = groups(runs)
    repeated = len(runs) > len(made)
    summaries = [run.summary | {"who": run.summary["cc"] + (
        f", seed {run.summary['seed']}" if repeated else "")} for run in runs]
    lines = [_port_note(summaries), *_marking_notes(runs), *_observed_notes(runs), *_classic_notes(summaries),
             *_backlog_notes(summaries)]
    windows = [s["window_us"] for s in summaries]
    if max(windows) > (1 + WINDOWS_DIFFER) * min(windows):
        lines.append("The measurement windows differ in length, because measure.until does not end them; "
                     "set measure.until to give all runs the same window.")
    if any(cc in ("dctcp", "ldcp") for run in runs for cc in run.scenario.cc_names()) and \
            all(run.scenario.qdisc["marking"] == "off" and run.scenario.queue() == "fifo" for run in runs):
        lines.append('The switches do not mark ECN, because the scenario does not set marking = "ldcp" '
                     "in [qdisc]. Without marks dctcp behaves like reno, and ldcp reacts only to "
                     "losses.")
    if any(run.scenario.cc["w_ai"] and run.scenario.cc["n_flows"] != keys.KEYS["cc"]["n_flows"][1] for run in runs):
        lines.append("cc.n_flows has no effect, because the scenario sets cc.w_ai; --set cc.w_ai=0 removes it.")
    for s in summaries:
        for i in s["unfinished_collectives"]:
            lines.append(f"{s['who']}: collective.{i} did not finish before measure.deadline.")
        if s["unfinished"]:
            lines.append(f"{s['who']}: {s['unfinished']} of the flows did not finish before "
                         "measure.deadline.")
    if repeated:
        seeds = ", ".join(f"{group[0].summary['cc']} {len(group)}" for group in made)
        lines.append(f"Means over seeds ({seeds}), with half the 95 % confidence interval of the "
                     "mean; plots show the first seed.")
    if any(len(group) > 1 and all(_unseeded(run) == _unseeded(group[0]) for run in group)
           for group in made):
        lines.append("Nothing in this scenario is random, so all its runs are equal; flow.spread makes the "
                     "start times of flows random.")
    return list(dict.fromkeys(lines))


def _percentiles(values, many):
    """p50/p95/p99 in one cell or, with confidence intervals, in a cell for each."""
    if not many:
        return ["/".join(f"{value:.2f}" for value, _ in values)]
    return [f"{value:.2f}" + ("" if half is None else f" \u00b1 {half:.2f}") for value, half in values]


def _slowdown_rows(runs):
    """FCT slowdown by size; empty if there are too few flows for percentiles."""
    if max(sum(flow["slowdown"] is not None for flow in run.result["flows"]) for run in runs) < \
            figures.SLOWDOWN_FLOWS:
        return []
    made = groups(runs)
    many = len(runs) > len(made)
    found = {group[0].summary["cc"]: results.seeds_slowdown([run.result for run in group])
             for group in made}
    ends = [end for end in (*results.SIZES, math.inf, "all")
            if any(end in sizes for sizes in found.values())]
    percents = [f"p{percent}" for percent in results.PERCENTILES]
    rows = [["FCT slowdown" if many else "FCT slowdown " + "/".join(percents)] + [
        end if end == "all" else f"> {units.show_bytes(results.SIZES[-1])}" if end == math.inf else
        f"to {units.show_bytes(end)}" for end in ends]]
    for name, sizes in found.items():
        names = [f"{name} {percent}" for percent in percents] if many else [name]
        columns = [_percentiles(sizes[end][1], many) if end in sizes else ["-"] * len(names)
                   for end in ends]
        rows += [list(row) for row in zip(names, *columns)]

    def counted(end):
        counts = [sizes[end][0] if end in sizes else 0 for sizes in found.values()]
        return "/".join(map(str, counts if len(set(counts)) > 1 else counts[:1]))
    return rows + [["flows"] + [counted(end) for end in ends]]


def _collective_rows(runs):
    """Times of steps over all seeds, and the analytic bound; empty if there are no collectives."""
    rows = []
    for group in groups(runs):
        for i, one in enumerate(group[0].result.get("collectives", ())):
            times = sorted(us for run in group for us in run.result["collectives"][i]["steps_us"])
            figures_us = [results.percentile(times, p) for p in (50, 99)] if times else []
            rows.append([group[0].summary["cc"], one["kind"], str(len(one["ranks"])), units.show_bytes(one["bytes"]),
                         str(len(times)), _us(one["bound_us"]),
                         *([_us(us) for us in figures_us] or ["unfinished"] * 2),
                         *([_three(us / one["bound_us"]) for us in figures_us] or ["-"] * 2)])
    return rows and [["cc", "collective", "ranks", "bytes", "steps", "bound", "step p50", "step p99",
                      "p50 / bound", "p99 / bound"], *rows]


def _aligned(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) if i else cell.ljust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))) for row in rows]


# Characters of a program's last output line that are shown.
OUTPUT_MAX = 200


def _last_line(path):
    """The last non-empty line of a program's output, without control characters."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    printable = ("".join(c for c in line if c.isprintable()).strip() for line in reversed(lines))
    return next((line for line in printable if line), "")[:OUTPUT_MAX]


def program_failures(runs):
    """A line for each program that failed: it ended with a status other than 0 before it was stopped, and
    the scenario does not set may_fail.
    """
    lines = []
    for run in runs:
        for i, (program, got) in enumerate(zip(run.scenario.runs, run.result.get("runs", ()))):
            if program.may_fail or got["stopped"] or got["status"] == 0:
                continue
            how = "never started" if got["started_us"] is None else "never ended" if got["status"] is None \
                else f"exit status {got['status']}"
            last = _last_line(run.files / f"run-{i}.txt") if run.files else ""
            lines.append(f"{run.summary['cc']}: run.{i} ({program.command[:60]}) on {program.host} failed: {how}"
                         + (f": {last}" if last else ""))
    return lines


def text(runs):
    """A table of the runs, one line for each, with notes."""
    rows = [["cc"] + [f"{name} {more}".strip() for name, more, _, _ in COLUMNS], *_rows(runs)]
    out = [plan.describe(runs[0].scenario, runs[0].topology), *_aligned(rows)]
    slow = _slowdown_rows(runs)
    for more in slow, _collective_rows(runs):
        out += ["", *_aligned(more)] if more else []
    return "\n".join(out + ["note: " + note for note in notes(runs)])


def _table(runs):
    return page.table(["cc", *("\n".join(filter(None, (name, more))) for name, more, _, _ in COLUMNS)], _rows(runs))


def _slowdown_table(runs):
    rows = _slowdown_rows(runs)
    if not rows:
        return ""
    seeds = " Means over the seeds, with half the 95 % confidence interval." if \
        len(runs) > len(groups(runs)) else ""
    return ("<h2>FCT slowdown</h2><p>Completion time divided by the completion time on the idle network: "
            f"p50, p95, p99 by size.{seeds}</p>"
            + page.table(["cc", *rows[0][1:]], rows[1:]))


def _collective_table(runs):
    rows = _collective_rows(runs)
    return rows and ("<h2>Collectives</h2><p>Time from the beginning of a step until its last message has arrived."
                     "</p>" + page.table(rows[0], rows[1:])) or ""


def html(runs, wall):
    """A page that needs no other file."""
    result = runs[0].result
    plotted = [group[0] for group in groups(runs)]
    title = f"{result['scenario']}: " + ", ".join(run.result["cc"] for run in plotted)
    about = plan.describe(runs[0].scenario, runs[0].topology)
    extra = "".join(f"<p>{escape(note)}</p>" for note in notes(runs))
    charts = "".join(map(page.chart, figures.of([run.result for run in runs],
                                                {run.result["cc"]: run.series for run in plotted})))
    return page.document(
        title,
        f"<p>{escape(about)}.</p>{_table(runs)}{extra}{_slowdown_table(runs)}{_collective_table(runs)}{charts}"
        "<footer>Utilization and queue (p50, p99, max) cover the measurement window at the "
        "port that sent the most bytes. Queue lengths are the bytes that departing packets left in the queue, "
        "link overhead included. FCT: flow completion time, from the scheduled start until the "
        f"receiver has all bytes. Kernel {escape(result['kernel'])}, seed {result['seed']}, "
        f"hpcc-lab {escape(result['version'])}, {escape(wall['finished'])}, {wall['seconds']} s of real time."
        "</footer>")
