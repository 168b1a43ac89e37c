# SPDX-License-Identifier: GPL-2.0
"""A sweep of LDCP's parameters, one at a time around the defaults, and its effect on the
figures. The draft does not specify alpha, beta and the thresholds, so our defaults are
the result of this sweep. Here a threshold is a time, which is multiplied by B.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from ..model import units
from ..run import results
from ..show import figures, page
from . import bench

# The results of the last --sweep, which each report plots.
STORED = Path(__file__).resolve().parent / "sweep.json"

# The defaults of tcp_ldcp and of the qdisc, on links that are so fast that no threshold is
# given in packets.
BASE = {"alpha": 0.25, "beta": 0.5, "gamma": 0.25, "kmin": 1000, "kmax": 5000, "pmax": 1.0,
        "knonect": 8000}
TIMES = ("kmin", "kmax", "knonect")
FACTORS = {name: (0.5, 1, 2) for name in BASE} | {"pmax": (0.25, 0.5, 1)}
# Short runs, because each scenario runs dozens of times.
SHORT = {"long2-100g": ["measure.until=5ms"], "long16-100g": ["measure.until=5ms"],
         "incast256-100g": ["measure.until=6ms"], "messages32-100g": ["measure.until=2500us"]}
# Scenarios of parameters that affect only some scenarios. The other parameters use all scenarios.
ONLY = {"gamma": ("incast256-100g", "messages32-100g"), "knonect": ("messages32-100g",)}


@dataclass
class Metric:
    """One chart: the worst value of a figure in some scenarios."""
    title: str
    unit: str
    files: tuple
    value: object
    worst: object
    scale: float = 1
    limit: float = None
    low: float = 0              # lower end of the axis


LONG, INCAST, MESSAGES = ("long2-100g", "long16-100g"), ("incast256-100g",), ("messages32-100g",)


def message_p99(run):
    """The time in us within which 99 % of the flows with a size complete; None if more than 1 % did not complete."""
    times = sorted(flow["fct_us"] or float("inf") for flow in run.result["flows"]
                   if flow["bytes"] is not None)
    worst = results.percentile(times, 99)
    return worst if worst != float("inf") else None


METRICS = (
    Metric("Lower utilization of 2 and 16 long flows", "", LONG, bench.utilization, min,
           limit=0.97, low=0.9),
    Metric("Longer queue p99 of 2 and 16 long flows", "KB", LONG, bench.p99, max, 1000),
    Metric("Worst Jain's index in 1 ms of 2 and 16 long flows", "", LONG, bench.jain_1ms, min,
           limit=0.95, low=0.9),
    Metric("Queue p99, 256-to-1", "KB", INCAST, bench.p99, max, 1000),
    Metric("Completion p99, 32 messages into a long flow", "us", MESSAGES, message_p99, max),
)


def point(name, factor, rate):
    """The settings of one point, with all parameters."""
    values = dict(BASE)
    values[name] *= factor
    for key in TIMES:
        values[key] = int(values[key] * rate / (8 * 10**9))
    return [f"{'cc' if key in ('alpha', 'beta', 'gamma') else 'qdisc'}.{key}={value}"
            for key, value in values.items()]


def _title(file, settings):
    return f"sweep {file} {' '.join(settings)}"


def cases(rate):
    """Return each run once. Every parameter has a point with the defaults: these points are the same run."""
    found = {}
    for name, factors in FACTORS.items():
        for factor in factors:
            settings = point(name, factor, rate)
            for file in ONLY.get(name, SHORT) if factor != 1 else SHORT:
                title = _title(file, settings)
                found[title] = bench.Case(title, file, settings + SHORT[file], "ldcp")
    return list(found.values())


def measured(done, rate):
    """Return {metric title: {parameter: [(factor, value), ...]}} of the successful runs."""
    table = {}
    for metric in METRICS:
        lines = table[metric.title] = {}
        for name, factors in FACTORS.items():
            if not set(metric.files) & set(ONLY.get(name, SHORT)):
                continue
            for factor in factors:
                runs = [done.get(_title(file, point(name, factor, rate)))
                        for file in metric.files]
                values = [metric.value(run) for run in runs
                          if run is not None and not isinstance(run, str)]
                if len(values) == len(runs) and None not in values:
                    lines.setdefault(name, []).append((factor, metric.worst(values)))
    return table


def store(table, kernel):
    """Store the table for later reports: one line describes the runs, and one line has the points of each curve."""
    rows = [{"kernel": kernel, "defaults": BASE}, *({"figure": title, "parameter": name, "points": points}
                                                    for title, lines in table.items() for name, points in lines.items())]
    STORED.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


def stored():
    """Return the kernel of the stored runs, their defaults, and their table."""
    about, *rows = json.loads(STORED.read_text(encoding="utf-8"))
    table = {}
    for row in rows:
        table.setdefault(row["figure"], {})[row["parameter"]] = row["points"]
    return about["kernel"], about["defaults"], table


def _label(name):
    value = BASE[name]
    return f"{name} ({units.show_time(value) + ' x B' if name in TIMES else f'{value:g}'})"


def _figure(metric, lines):
    """A chart. A parameter has the same colour in all charts."""
    drawn = [figures.Line(_label(name), [x for x, _ in lines[name]],
                          [y / metric.scale for _, y in lines[name]], color=color)
             for color, name in enumerate(BASE) if name in lines]
    top = figures.ceiling(max(y for line in drawn for y in line.ys))
    return figures.Figure(
        "", "", "", "multiple of the default", metric.unit, [figures.Panel(metric.title, drawn)],
        x_range=(0, 2), y_range=(metric.low, 1 if metric.low else top), limit=metric.limit, dots=True)


def pictures():
    """Charts of the stored results: one for each metric, with a line for each parameter."""
    kernel, _, table = stored()
    return ("<h2>Sweep</h2><p>One parameter at half and at twice its default, and all others at their "
            "defaults (pmax: at a quarter and at half, because the default is the maximum). Measured by "
            f"bench-ldcp --sweep, {kernel}, with shorter runs than the table above. A dashed "
            "line is a limit of that table.</p>"
            + page.panels([_figure(metric, table[metric.title]) for metric in METRICS]))
