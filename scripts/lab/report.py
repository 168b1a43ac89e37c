# SPDX-License-Identifier: GPL-2.0
"""Results for people: a table on the terminal, and a page with plots."""

import bisect
import math
import statistics
from html import escape

from . import chart, plan, results, units

STYLE = """
:root { color-scheme: light dark; --fg: #1d2430; --bg: #fff; --dim: #667085; --rule: #d7dce3;
        --shade: #8aa0b81c; --row: #f4f6f9; }
@media (prefers-color-scheme: dark) {
 :root { --fg: #e6e9ee; --bg: #14181f; --dim: #98a2b3; --rule: #343c49; --shade: #8aa0b822;
         --row: #1b212b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg);
       margin: 2rem auto; padding: 0 1.5rem; max-width: 1560px; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 0 0 .2rem; }
p, footer { color: var(--dim); max-width: 62rem; margin: .3rem 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .35rem .55rem; text-align: right; border-bottom: 1px solid var(--rule);
         white-space: nowrap; font-variant-numeric: tabular-nums; }
th { font-weight: 600; color: var(--dim); vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child { text-align: left; font-weight: 600; }
tbody tr:nth-child(odd) { background: var(--row); }
.grid-of { display: grid; gap: 1.2rem; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr)); }
.grid-of.one { max-width: 520px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--dim); font-size: 11px; }
svg polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
svg .axis { fill: none; stroke: var(--dim); } svg .grid { stroke: var(--rule); }
svg .window { fill: var(--shade); } svg .limit { stroke: var(--fg); stroke-dasharray: 4 4; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem .9rem; font-size: .82rem;
          color: var(--dim); padding-left: 3.8rem; }
.legend i { display: inline-block; width: .8rem; height: .22rem; margin-right: .35rem;
            vertical-align: middle; border-radius: 2px; }
footer { margin-top: 2.5rem; font-size: .85rem; }
"""

# Points of a line: more than that is noise at the width of a chart.
QUEUE_POINTS = 260
RATE_POINTS = 90


def _us(value):
    return units.show_time(value * 1000)


def _count(value):
    return f"{value:.4g}" if value % 1 and value < 1000 else f"{value:.0f}"


def _three(value):
    return f"{value:.3f}"


# Heading, value of a run, how a value is shown.
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
# Student's t for 95 % by degrees of freedom, from 1 on, and what it tends to.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
           2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
           2.052, 2.048, 2.045, 2.042)
NORMAL = 1.959964


def student(degrees):
    """Student's t for 95 %; above the table by its expansion in 1 / degrees."""
    if degrees <= len(STUDENT):
        return STUDENT[degrees - 1]
    z = NORMAL
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def confidence(values):
    """Half of the 95 % confidence interval of the mean of 2 values or more."""
    return student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def _cell(summaries, heading, value, show):
    values = [value(s) for s in summaries]
    if None in values:
        late = heading.startswith("FCT") and any(s["unfinished"] for s in summaries)
        return "unfinished" if late else "-"
    if len(values) == 1:
        return show(values[0])
    return f"{show(statistics.mean(values))} \u00b1 {show(confidence(values))}"


def groups(runs):
    """Runs of the same name, which differ by their seed; in order."""
    found = {}
    for run in runs:
        found.setdefault(run.summary["cc"], []).append(run)
    return list(found.values())


def _rows(runs):
    return [[group[0].summary["cc"]] + [_cell([run.summary for run in group], name, value, show)
                                        for name, _, value, show in COLUMNS]
            for group in groups(runs)]


# Windows of compared runs may differ by this part of the shortest before a note says so.
WINDOWS_DIFFER = 0.1
# So many flows that end, and a table of slowdown by size is shown.
SLOWDOWN_FLOWS = 100
WITHOUT_ECN = ("cubic", "bbr", "reno")
NOT_TELEMETRY = ("not_agreed", "fallbacks", "unseen_loss")


def _port_note(summaries):
    """Which port the table is about."""
    ports = {s["port"] for s in summaries}
    if len(ports) == 1:
        return f"Utilization and queue are those of the port {ports.pop()}, which sent most."
    return ("Utilization and queue are those of the port that sent most: "
            + "; ".join(f"{s['who']}: {s['port']}" for s in summaries) + ".")


def _marking_notes(runs):
    """A smaller buffer for who is not ECN-capable."""
    for run in runs:
        names = [cc for cc in run.scenario.cc_names() if cc in WITHOUT_ECN]
        marking = run.summary["marking"]
        size = run.scenario.link_of(*run.summary["port"].split(" to "))["buffer"]
        if names and marking and marking["knonect"] < size:
            yield (f"{' and '.join(names)}: not ECN-capable, so the ports drop its packets from "
                   f"{units.show_bytes(marking['knonect'])} (knonect) on; the buffer has "
                   f"{units.show_bytes(size)}.")


def _classic_notes(summaries):
    """hpcc without telemetry is Reno."""
    for s in summaries:
        counted = [f"{name} {s['hpcc'][name]}" for name in NOT_TELEMETRY if s["hpcc"].get(name)]
        if counted:
            yield (f"{s['who']}: connections ran the classic response, for a while or all the "
                   f"time: {', '.join(counted)}, of {s['hpcc'].get('agreed', 0)} that agreed.")


def _unseeded(run):
    return run.result | {"seed": None}


def notes(runs):
    """What a reader has to know to judge the figures."""
    made = groups(runs)
    repeated = len(runs) > len(made)
    summaries = [run.summary | {"who": run.summary["cc"] + (
        f", seed {run.summary['seed']}" if repeated else "")} for run in runs]
    lines = [_port_note(summaries), *_marking_notes(runs), *_classic_notes(summaries)]
    windows = [s["window_us"] for s in summaries]
    if max(windows) > (1 + WINDOWS_DIFFER) * min(windows):
        lines.append("The measurement windows differ in length, as each ends with its first flow: "
                     "measure.until gives all the same.")
    if any(cc in ("dctcp", "ldcp") for run in runs for cc in run.scenario.cc_names()) and \
            all(run.scenario.qdisc["marking"] == "off" for run in runs):
        lines.append('The switches do not mark ECN, as the scenario does not say marking = "ldcp" '
                     "in [qdisc]: without marks dctcp behaves like reno, and ldcp reacts to "
                     "losses only.")
    for s in summaries:
        if s["unfinished"]:
            lines.append(f"{s['who']}: {s['unfinished']} of the flows did not finish before "
                         "measure.deadline.")
    if repeated:
        seeds = ", ".join(f"{group[0].summary['cc']} {len(group)}" for group in made)
        lines.append(f"Means over seeds ({seeds}), with half the 95 % confidence interval of the "
                     "mean; plots are of the first.")
    if any(len(group) > 1 and all(_unseeded(run) == _unseeded(group[0]) for run in group)
           for group in made):
        lines.append("Nothing in this scenario is random, so its runs are equal: flow.spread varies "
                     "when flows start.")
    return list(dict.fromkeys(lines))


def _slowdown_rows(runs):
    """FCT slowdown by size, where there are enough flows to tell percentiles of."""
    if max(sum(flow["slowdown"] is not None for flow in run.result["flows"]) for run in runs) < \
            SLOWDOWN_FLOWS:
        return []
    found = {group[0].summary["cc"]: results.slowdowns(run.result for run in group)
             for group in groups(runs)}
    ends = [end for end in (*results.SIZES, math.inf, "all")
            if any(end in sizes for sizes in found.values())]
    rows = [["FCT slowdown p50/p95/p99"] + [
        end if end == "all" else f"> {units.show_bytes(results.SIZES[-1])}" if end == math.inf else
        f"to {units.show_bytes(end)}" for end in ends]]
    for name, sizes in found.items():
        rows.append([name] + ["/".join(f"{value:.2f}" for value in sizes[end][1:])
                              if end in sizes else "-" for end in ends])

    def counted(end):
        counts = [sizes[end][0] if end in sizes else 0 for sizes in found.values()]
        return "/".join(map(str, counts if len(set(counts)) > 1 else counts[:1]))
    return rows + [["flows"] + [counted(end) for end in ends]]


def _aligned(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) if i else cell.ljust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))) for row in rows]


def text(runs):
    """A table of the runs, one per line."""
    rows = [["cc"] + [f"{name} {more}".strip() for name, more, _, _ in COLUMNS], *_rows(runs)]
    out = [plan.describe(runs[0].scenario, runs[0].topology), *_aligned(rows)]
    slow = _slowdown_rows(runs)
    out += ["", *_aligned(slow)] if slow else []
    return "\n".join(out + ["note: " + note for note in notes(runs)])


def _html_table(head, rows):
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
                   for row in rows)
    return (f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>")


def _table(runs):
    head = "<th>cc</th>" + "".join(
        f"<th>{escape(name)}{'<br>' if more else ''}{escape(more)}</th>" for name, more, _, _ in COLUMNS)
    return _html_table(head, _rows(runs))


def _slowdown_table(runs):
    rows = _slowdown_rows(runs)
    if not rows:
        return ""
    return ("<h2>FCT slowdown</h2><p>Completion time by that of the flow alone on the idle network: "
            "p50, p95, p99 by size.</p>"
            + _html_table("".join(f"<th>{escape(cell)}</th>" for cell in ["cc", *rows[0][1:]]), rows[1:]))


def _flow_label(flow):
    return f"flow {flow['id']}: {flow['from']} to {flow['to']}"


def _port_label(port):
    return f"{port['node']} to {port['peer']}"


def _thin_lines(run, kind, value, label, points, how, scale, x_top):
    result = []
    shown = bisect.bisect_right(run.series["t_us"], x_top)
    for item in run.series[kind]:
        xs, ys = chart.thin(run.series["t_us"][:shown], item[value][:shown], points, how)
        result.append((label(item), xs, [y / scale for y in ys]))
    return result


def _end_us(run):
    done = [flow["fct_us"] + flow["start_us"] for flow in run.result["flows"]
            if flow["fct_us"] is not None]
    return max(done or run.series["t_us"][-1:])


def _x_top_us(runs):
    """A run that takes far longer than the others is cut, not shown as a dot."""
    ends = sorted(_end_us(run) for run in runs)
    return chart.ceiling(min(ends[-1], 1.5 * ends[(len(ends) - 1) // 2]))


def _charts(runs, heading, about, lines_of, scale_title, y_most=math.inf):
    """One row of charts with a scale in common, one for each run."""
    x_top = _x_top_us(runs)
    unit, factor = ("ms", 1000) if x_top >= 10000 else ("us", 1)
    data = [lines_of(run, x_top) for run in runs]
    y_top = min(chart.ceiling(max(max(ys, default=0) for d in data for _, _, ys in d)), y_most)
    parts = [f"<h2>{escape(heading)}</h2><p>{escape(about)}</p>",
             f'<div class="grid-of{" one" if len(runs) == 1 else ""}">']
    for run, series in zip(runs, data):
        scaled = [(label, [x / factor for x in xs], ys) for label, xs, ys in series]
        window = [w / factor for w in run.result["window_us"]]
        parts.append(f"<section><h3>{escape(run.result['cc'])}</h3>" +
                     chart.lines(scaled, x_top / factor, y_top, f"time, {unit}", scale_title,
                                 window) +
                     chart.legend([label for label, _, _ in series]) + "</section>")
    return "".join(parts) + "</div>"


def _queue_charts(runs):
    top = max(max(port["queue_bytes"]) for run in runs for port in run.series["ports"])
    unit, scale = ("MB", 10**6) if top >= 10**6 else ("KB", 10**3)
    return _charts(runs, "Queue", "Bytes waiting at the switch ports that data leave through, "
                   "at regular instants; the highest of each group of samples. The shaded part "
                   "is the measurement window.",
                   lambda run, x_top: _thin_lines(run, "ports", "queue_bytes", _port_label,
                                                  QUEUE_POINTS, max, scale, x_top),
                   f"queue, {unit}")


def _rate_charts(runs):
    most = max(link["rate"] for link in runs[0].topology.all_links())
    unit, scale = ("Gb/s", 10**9) if most >= 10**9 else ("Mb/s", 10**6)
    return _charts(runs, "Rate of each flow", "Payload that reached the receiver in order, "
                   "averaged over short intervals. Data behind a lost packet count when "
                   "it has come, so a rate may exceed the link's for a moment.",
                   lambda run, x_top: _thin_lines(run, "flows", "rate_bps", _flow_label,
                                                  RATE_POINTS, chart.mean, scale, x_top),
                   f"rate, {unit}", y_most=most / scale)


def html(runs, wall):
    """A page that needs no other file."""
    result = runs[0].result
    plotted = [group[0] for group in groups(runs)]
    title = f"{result['scenario']}: " + ", ".join(run.result["cc"] for run in plotted)
    about = plan.describe(runs[0].scenario, runs[0].topology)
    extra = "".join(f"<p>{escape(note)}</p>" for note in notes(runs))
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
            f"<style>{STYLE}</style></head><body><h1>{escape(title)}</h1>"
            f"<p>{escape(about)}.</p>{_table(runs)}{extra}{_slowdown_table(runs)}"
            f"{_queue_charts(plotted)}{_rate_charts(plotted)}"
            "<footer>Utilization and queue (p50, p99, max) cover the measurement window at the "
            "port that sent most; queue lengths are what departing packets left behind, link "
            "overhead included. FCT: flow completion time, from the scheduled start until the "
            f"receiver has all bytes. Kernel {escape(result['kernel'])}, seed {result['seed']}, "
            f"{escape(wall['finished'])}, {wall['seconds']} s of real time."
            "</footer></body></html>\n")
