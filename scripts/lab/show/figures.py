# SPDX-License-Identifier: GPL-2.0
"""The data of the figures, from results.json and series.json.

page.py draws a Figure with dygraphs, draw.py with matplotlib. The panels of a figure
share their axes. FCT and queue have a line for each congestion control, plots over
time have a panel for each.
"""

import bisect
import math
from collections import Counter
from dataclasses import dataclass

from ..model import units
from ..run import results as measured

# Least number of finished flows for a figure of their percentiles, and of their distribution.
SLOWDOWN_FLOWS = 100
CDF_FLOWS = 10
# With more flows than this, the rates of ports are shown instead.
RATE_FLOWS = 32
# An axis is logarithmic if the highest value is more than this number of times the lowest.
LOG_FROM = 20
# Maximum number of points of a line over time, and of all lines of a figure (but at least 50 for each line).
# This keeps a page small, and is enough to zoom in a little.
POINTS, FIGURE_POINTS = 800, 24000
# Maximum number of points of a line of rates: rates over shorter intervals are noise.
RATE_POINTS = 250
# A panel gets its own scale if its highest value is below this fraction of the highest value of all panels.
OWN_SCALE = 1 / 8
# Maximum number of steps of a distribution.
STEPS = 250


@dataclass
class Line:
    """errors: half the confidence interval of each y. color: an index; the default is the line's position."""
    label: str
    xs: list
    ys: list
    errors: list = None
    color: int = None


@dataclass
class Panel:
    """shade: start and end on the x axis. y_range: overrides that of the figure."""
    title: str
    lines: list
    shade: tuple = None
    y_range: tuple = None


@dataclass
class Figure:
    """ticks: names for x = 0, 1, 2, ...; limit: a dashed line at that y."""
    name: str
    title: str
    about: str
    x_title: str
    y_title: str
    panels: list
    y_range: tuple
    x_range: tuple = None
    x_log: bool = False
    y_log: bool = False
    steps: bool = False
    dots: bool = False
    ticks: list = None
    limit: float = None
    over_time: bool = False


def ceiling(value):
    """Round up to a small multiple of 1, 2, 2.5 or 5 times 10^n."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value / 4))
    step = next((f * power for f in (5, 2.5, 2) if f * power * 4 <= value), power)
    return math.ceil(value / step * 0.999) * step


def thin(xs, ys, points, how):
    """Reduce a line to at most @points points: @how (max or mean) of each group of values."""
    group = -(-len(xs) // points) or 1
    starts = range(0, len(xs), group)
    return [xs[min(i + group, len(xs)) - 1] for i in starts], [how(ys[i:i + group]) for i in starts]


def mean(values):
    """Arithmetic mean."""
    return sum(values) / len(values)


def groups(runs, name=lambda result: result["cc"]):
    """Runs or their results by name: {name: [result, ...]}, in order. Runs with the same name differ only in their seed."""
    found = {}
    for run in runs:
        found.setdefault(name(run), []).append(run)
    return found


# ---- FCT

def _size_name(end):
    """The short form of a size: 3K for 3 KB."""
    if end == math.inf:
        return f"> {_size_name(measured.SIZES[-1])}"
    return units.show_bytes(end).replace(" ", "").rstrip("B")


def slowdown(results):
    """FCT slowdown by size, a panel for each percentile."""
    ended = [sum(flow["slowdown"] is not None for flow in result["flows"]) for result in results]
    if max(ended) < SLOWDOWN_FLOWS:
        return None
    found = {name: measured.seeds_slowdown(group) for name, group in groups(results).items()}
    ends = [end for end in (*measured.SIZES, math.inf) if any(end in sizes for sizes in found.values())]
    repeated = any(half is not None for sizes in found.values() for _, values in sizes.values()
                   for _, half in values)
    panels = []
    for i, percent in enumerate(measured.PERCENTILES):
        lines = []
        for name, sizes in found.items():
            at = [x for x, end in enumerate(ends) if end in sizes]
            values = [sizes[ends[x]][1][i] for x in at]
            lines.append(Line(name, at, [value for value, _ in values],
                              [half or 0 for _, half in values] if repeated else None))
        panels.append(Panel(f"p{percent}", lines))
    highest = max(y for panel in panels for line in panel.lines for y in line.ys)
    log = highest > LOG_FROM
    return Figure(
        "slowdown", "FCT slowdown by size",
        "Completion time divided by the completion time on the idle network: percentiles for each class "
        "of sizes."
        + (" Mean over the seeds, with its 95 % confidence interval." if repeated else ""),
        "flow size up to, bytes", "FCT slowdown", panels, ticks=[_size_name(end) for end in ends], dots=True,
        y_log=log, y_range=(0.9 if log else 0, highest * 1.2 if log else ceiling(highest)))


def _quantiles(values):
    """The set of values at evenly spaced ranks, with the first and the last value."""
    last = len(values) - 1
    return {values[round(i * last / STEPS)] for i in range(STEPS + 1)} if values else set()


def fct(results):
    """The distribution of completion times; unfinished flows count as longer than all finished ones."""
    found, counts = {}, {}
    for name, group in groups(results).items():
        times = [flow["fct_us"] for result in group for flow in result["flows"] if flow["bytes"] is not None]
        found[name] = sorted(time for time in times if time is not None)
        counts[name] = len(times)
    if max(map(len, found.values())) < CDF_FLOWS:
        return None
    xs = sorted(set().union(*map(_quantiles, found.values())))
    log = xs[-1] > LOG_FROM * xs[0]
    lines = [Line(name, xs, [bisect.bisect_right(values, x) / counts[name] for x in xs])
             for name, values in found.items() if counts[name]]
    return Figure("fct", "Flow completion times",
                  "The fraction of the flows that took at most this time. Unfinished flows count as longer than all "
                  "finished ones.",
                  "FCT, us", "CDF", [Panel("", lines)], x_log=log, steps=True, y_range=(0, 1.02),
                  x_range=(xs[0] if log else 0, xs[-1]))


# ---- queue

def queue_cdf(results):
    """The distribution of the bytes that departing packets left in the queue."""
    found = {}
    for name, group in groups(results).items():
        hist = Counter()
        for result in group:
            for port in result["ports"]:
                if port["data"]:
                    hist.update({int(size): n for size, n in port["queue_hist"].items()})
        found[name] = sorted(hist.items())
    # The lowest bucket ends below the unit of the histogram's buckets, so a log axis starts at the unit.
    low = measured.UNIT
    sizes = sorted({max(size, low) for hist in found.values() for size, _ in hist})
    if not sizes:
        return None
    lines = []
    for name, hist in found.items():
        total, seen, rest, ys = sum(n for _, n in hist), 0, list(hist), []
        for size in sizes:
            while rest and rest[0][0] <= size:
                seen += rest.pop(0)[1]
            ys.append(seen / total if total else 0)
        lines.append(Line(name, [size / 1000 for size in sizes], ys))
    ports = {f"{port['node']} to {port['peer']}" for result in results for port in result["ports"]
             if port["data"]}
    where = f"the port {ports.pop()}" if len(ports) == 1 else \
        f"the {len(ports)} switch ports that send data"
    return Figure("queue-cdf", "Queue lengths",
                  f"The fraction of the packets sent by {where} in the measurement window that left at most this "
                  "number of bytes in the queue.", "queue, KB", "CDF", [Panel("", lines)], x_log=True, steps=True,
                  x_range=(low / 1000, max(sizes[-1], 10 * low) / 1000), y_range=(0, 1.02))


# ---- over time

def _end_us(result, series):
    done = [flow["fct_us"] + flow["start_us"] for flow in result["flows"] if flow["fct_us"] is not None]
    return max(done or series["t_us"][-1:] or [0])


def _highest(panel):
    return max((max(line.ys, default=0) for line in panel.lines), default=0)


def _own_scales(panels, highest):
    """Give a scale of its own to each panel whose lines would be flat on the common scale."""
    for panel in panels:
        if 0 < _highest(panel) < OWN_SCALE * highest:
            panel.y_range = 0, ceiling(_highest(panel))
            panel.title += " (scale of its own)"


def _over_time(firsts, series, name, title, about, key, value, label, how, unit, scale, most=math.inf):
    """A panel for each congestion control. The time axis ends early if one congestion control takes far longer than the others."""
    ends = sorted(_end_us(result, series[result["cc"]]) for result in firsts)
    x_top = ceiling(min(ends[-1], 1.5 * ends[(len(ends) - 1) // 2]))
    x_unit, factor = ("ms", 1000) if x_top >= 10000 else ("us", 1)
    count = max(1, sum(len(series[result["cc"]][key]) for result in firsts))
    points = max(50, min(RATE_POINTS if how is mean else POINTS, FIGURE_POINTS // count))
    panels = []
    for result in firsts:
        one = series[result["cc"]]
        shown = bisect.bisect_right(one["t_us"], x_top)
        lines = []
        for item in one[key]:
            xs, ys = thin(one["t_us"][:shown], item[value][:shown], points, how)
            lines.append(Line(label(item), [x / factor for x in xs], [y / scale for y in ys]))
        panels.append(Panel(result["cc"], lines, tuple(w / factor for w in result["window_us"])))
    if not any(line.ys for panel in panels for line in panel.lines):
        return None
    highest = max(map(_highest, panels))
    _own_scales(panels, highest)
    if ends[-1] > x_top:
        about += f" The axis ends at {units.show_time(x_top * 1000)}, the last flow at " \
                 f"{units.show_time(ends[-1] * 1000)}."
    return Figure(name, title, about, f"time, {x_unit}", f"{title.lower().split(' of ')[0]}, {unit}", panels,
                  x_range=(0, x_top / factor), y_range=(0, min(ceiling(highest), most / scale)),
                  over_time=True)


def _port_name(port):
    return f"{port['node']} to {port['peer']}"


def queue(firsts, series):
    """Queues of ports over time."""
    top = max((max(port["queue_bytes"], default=0) for result in firsts
               for port in series[result["cc"]]["ports"]), default=0)
    unit, scale = ("MB", 10**6) if top >= 10**6 else ("KB", 10**3)
    return _over_time(
        firsts, series, "queue", "Queue", "Bytes in the queues of switch ports that send data, sampled at "
        "regular intervals; the maximum of each group of samples. The shaded part is the measurement window.",
        "ports", "queue_bytes", _port_name, max, unit, scale)


def rate(firsts, series):
    """Rates over time: the rates of flows if there are few flows, else the rates of ports."""
    most = max(port["rate_bps"] for result in firsts for port in result["ports"])
    unit, scale = ("Gb/s", 10**9) if most >= 10**9 else ("Mb/s", 10**6)
    few = [series[result["cc"]]["flows"] for result in firsts]
    if all(0 < len(flows) <= RATE_FLOWS for flows in few):
        return _over_time(
            firsts, series, "rate", "Rate of each flow", "Payload that reached the receiver in order, "
            "averaged over short intervals. Data behind a lost packet count when its retransmission arrives, so a "
            "rate may exceed that of the link for a moment.", "flows", "rate_bps",
            lambda flow: f"flow {flow['id']}: {flow['from']} to {flow['to']}", mean, unit, scale, most)
    return _over_time(
        firsts, series, "rate", "Rate of each port", "Bytes sent by the ports of the previous figure, "
        "averaged over short intervals.", "ports", "tx_bps", _port_name, mean, unit, scale, most)


def of(results, series):
    """Return all figures for which the results have data. series: {name of the congestion control: samples of
    its first seed}.
    """
    firsts = [group[0] for group in groups(results).values()]
    made = (slowdown(results), fct(results), queue_cdf(results), queue(firsts, series), rate(firsts, series))
    return [figure for figure in made if figure]
