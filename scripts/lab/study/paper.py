# SPDX-License-Identifier: GPL-2.0
"""The results of a grid: results.rst with its tables, and figures as SVG and PDF.

A percentile is that of the flows of all seeds; a flow that did not end took longer than all that
did. Half of a 95 % confidence interval is of its values for each seed, and is given where each seed
has flows enough for them. Runs that are missing are in no figure, and are named.
"""

import array
import bisect
import itertools
import json
import math
import statistics
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

from ..model import units, workload
from ..model import scenario as scenarios
from ..model.topology import Topology
from ..run import interval, results
from ..show import draw, figures
from . import published
from .grid import TOP

PERCENTILES = results.PERCENTILES
# Upper ends of classes of sizes; the last has the longest flows.
SIZES = (*results.SIZES, math.inf)
# Flows that a percentile needs: one of them lies above it.
FLOWS_MIN = {p: math.ceil(100 / (100 - p)) for p in PERCENTILES}
# Of a commit's name.
COMMIT = 12
# "Where we lose" leaves out what is within this of a peer, or within both intervals.
SAME = 1.02
LOSSES = 25
# Flows above so many bytes are long.
LONG = 300000
# In a cell without a value: no docutils markup.
NONE = "–"
# What a flow that did not end has as its slowdown, and how it is shown.
NEVER = math.inf
NOT_ENDED = "not ended"
# Parts of a scenario that a network is built from.
NETWORK = ("ip", "topology", "link", "host", "qdisc")
# Counters of hpcc: connections without telemetry, for a while or all the time.
CLASSIC = ("not_agreed", "fallbacks", "unseen_loss")
CLASSES = {True: "to hosts", False: "fabric"}


def write_guest(path, kernels):
    """What the runs of a grid run in: kernels and modules."""
    Path(path).write_text("".join(f"{kernel.tree} {kernel.tools}\n" for kernel in kernels), encoding="utf-8")


# ---- what was measured

class Ports:
    """Switch ports of one class in the runs of a cell."""

    def __init__(self):
        self.utilization, self.hist = [], Counter()
        self.longest = self.marks = self.drops = 0

    def add(self, port):
        """One of results.json."""
        self.utilization.append(port["utilization"])
        self.hist.update({int(size): n for size, n in port["queue_hist"].items()})
        self.longest = max(self.longest, port["queue_bytes"]["max"])
        self.marks += port["marks"]
        self.drops += port["drops"]

    def queue(self, percent):
        """A percentile of what packets left behind at all of them, bytes."""
        total, seen = sum(self.hist.values()), 0
        for size, n in sorted(self.hist.items()):
            seen += n
            if seen * 100 >= percent * total:
                return size
        return 0


class Runs:
    """The results of one workload, load and variant."""

    def __init__(self):
        # For each seed, by size: bytes of its flows, slowdown, slowdown as it was published.
        self.seeds = []
        self.ports = defaultdict(Ports)
        self.sums = Counter()
        self.seconds = []
        self.kernels, self.commits = set(), set()

    def add(self, result):
        """One results.json."""
        back = _way_back(result)
        flows = sorted((flow["bytes"], flow["slowdown"],
                        published.slowdown(flow, back(flow["from"], flow["to"])))
                       if flow["slowdown"] else (flow["bytes"], NEVER, NEVER)
                       for flow in result["flows"] if flow["bytes"])
        self.seeds.append([array.array("d", column) for column in zip(*flows)] or [array.array("d")] * 3)
        for port in result["ports"]:
            if port["data"]:
                self.ports[port["peer"].startswith("h")].add(port)
        hpcc = result["hosts"].get("hpcc", {})
        self.sums.update({
            "flows": len(result["flows"]), "unfinished": sum(flow[1] == NEVER for flow in flows),
            "retrans": sum(flow["retrans"] for flow in result["flows"]),
            "timeouts": result["hosts"]["timeouts"],
            "classic": sum(hpcc.get(name, 0) for name in CLASSIC)})
        self.seconds.append(result["wall"]["seconds"])
        self.kernels.add(result["kernel"])
        self.commits.add(result["wall"].get("commit", "unknown")[:COMMIT])

    def value(self, low, high, percent, column=1):
        """(percentile, half of its interval or None) of flows above low, up to high bytes; None
        where there are too few flows.
        """
        each = [sorted(seed[column][bisect.bisect_right(seed[0], low):bisect.bisect_right(seed[0], high)])
                for seed in self.seeds]
        pooled = sorted(itertools.chain(*each))
        if len(pooled) < FLOWS_MIN[percent]:
            return None
        half = None
        if len(each) > 1 and min(map(len, each)) >= FLOWS_MIN[percent]:
            values = [_percentile(seed, percent) for seed in each]
            half = interval.half(values) if NEVER not in values else None
        return _percentile(pooled, percent), half


def _percentile(values, percent):
    """The nearest rank's, of values that rise."""
    return values[-(-len(values) * percent // 100) - 1]


def _way_back(result):
    """What an ACK takes from a flow's receiver to its sender on an idle network, in us."""
    settings = {key: result["settings"][key] for key in NETWORK if key in result["settings"]}
    one = {"from": "h0", "to": "h1", "bytes": 1}
    shape = Topology(scenarios.build(settings | {"flow": [one]}, "network"))
    full = shape.link["mtu"] - (72 if shape.ip == 6 else 52)
    found = {}

    def back_us(src, dst):
        if (src, dst) not in found:
            found[src, dst] = (shape.base_rtt_ns(src, dst) - shape.alone_ns(src, dst, full)) / 1000
        return found[src, dst]
    return back_us


def read(grid):
    """({(workload, load, variant): Runs}, the cells that failed)."""
    found, failed = defaultdict(Runs), []
    for cell in grid.cells():
        try:
            result = json.loads(Path(cell.results).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            failed.append(cell)
            continue
        found[cell.workload, cell.load, cell.variant].add(result)
    return dict(found), failed


def why(cell):
    """The last line that a failed run printed."""
    try:
        lines = Path(cell.log).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return "did not start"
    return next((line.strip() for line in reversed(lines) if line.strip()), "said nothing")


# ---- reStructuredText

def title(text, line="="):
    """A heading."""
    return ["", text, line * len(text), ""]


def prose(text, bullet=""):
    """A paragraph, or an item of a list."""
    return textwrap.wrap(bullet + text, 100, subsequent_indent=" " * len(bullet), break_long_words=False,
                         break_on_hyphens=False) + ([] if bullet else [""])


def table(head, rows):
    """A simple table; cells of the first column are not empty."""
    rows = [[str(cell) for cell in row] for row in [head, *rows]]
    # docutils takes no rule of less than four.
    widths = [max(4, *(len(row[i]) for row in rows)) for i in range(len(head))]
    rule = "  ".join("=" * width for width in widths)
    body = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return [rule, body[0], rule, *body[1:], rule, ""]


def shown(value):
    """A percentile with its interval."""
    if value is None:
        return NONE
    if value[0] == NEVER:
        return NOT_ENDED
    return f"{value[0]:.2f}" + ("" if value[1] is None else f" ± {value[1]:.2f}")


def size_name(low, high):
    """A class of sizes."""
    if high == math.inf:
        return f"> {units.show_bytes(low)}"
    return f"to {units.show_bytes(high)}"


def _classes(runs):
    """(low, high) of the classes that have flows."""
    pairs = list(zip((0, *SIZES), SIZES))
    return [pair for pair in pairs if any(run.value(*pair, 50) for run in runs.values())]


def _part(grid, found, work, load):
    """{variant: Runs} of one workload and load, in the grid's order."""
    return {name: found[work, load, name] for name in grid.variants if (work, load, name) in found}


def _label(grid, name, run):
    """A variant, and how many of its seeds are there where one failed."""
    there, all_of_them = len(run.seeds), len(grid.seeds)
    return name if there == all_of_them else f"{name} ({there} of {all_of_them} seeds)"


def _missing(grid, found, work, load):
    """Variants of which no run is there."""
    wanted = {cell.variant for cell in grid.cells() if (cell.workload, cell.load) == (work, load)}
    return [name for name in grid.variants if name in wanted and (work, load, name) not in found]


def slowdown_tables(grid, found):
    """FCT slowdown by size, for each workload and load."""
    lines = title("FCT slowdown by size")
    lines += prose("Completion time by that of the flow alone on the idle network: 50th, 95th and 99th "
                   "percentile of the flows of each class of sizes. A flow that did not end before "
                   "measure.deadline counts as slower than all that did.")
    for work, load in _pairs(grid):
        runs = _part(grid, found, work, load)
        ends = _classes(runs)
        rows = [[_label(grid, name, run), f"p{percent}",
                 *(shown(run.value(*pair, percent)) for pair in (*ends, (0, math.inf)))]
                for name, run in runs.items() for percent in PERCENTILES]
        rows += [[name, "", *["failed"] * (len(ends) + 1)] for name in _missing(grid, found, work, load)]
        lines += title(f"{work}, {load:.0%}", "-")
        lines += table(["variant", "", *(size_name(*pair) for pair in ends), "all"], rows)
    return lines


def _pairs(grid):
    return [(work, load) for work in grid.workloads for load in grid.loads]


# ---- ports

def _port_cells(ports):
    return [f"{statistics.mean(ports.utilization):.3f}", f"{max(ports.utilization):.3f}",
            *(units.show_bytes(ports.queue(percent)) for percent in PERCENTILES),
            units.show_bytes(ports.longest), ports.marks, ports.drops]


def port_tables(grid, found):
    """Utilization, queues, marks and drops by class of ports; retransmissions and timeouts."""
    lines = title("Ports and losses")
    lines += prose("Switch ports that data leave through, all seeds together: utilization as the mean and "
                   "the highest of the ports, queues as percentiles of what packets left behind at all of "
                   "them, marks and drops as sums. Retransmissions, timeouts, unfinished flows and connections "
                   "of hpcc that ran the classic response are sums, too.")
    head = ["variant", "ports", "util. mean", "highest", *(f"queue p{p}" for p in PERCENTILES), "max",
            "marks", "drops", "retrans", "RTOs", "unfinished", "classic"]
    for work, load in _pairs(grid):
        rows = []
        for name, run in _part(grid, found, work, load).items():
            label = _label(grid, name, run)
            sums = [run.sums[key] for key in ("retrans", "timeouts", "unfinished", "classic")]
            for to_hosts, what in CLASSES.items():
                if to_hosts in run.ports:
                    rows.append([label, what, *_port_cells(run.ports[to_hosts]), *sums])
                    sums = [""] * len(sums)
        rows += [[name, *["failed"] * (len(head) - 1)] for name in _missing(grid, found, work, load)]
        lines += title(f"Ports: {work}, {load:.0%}", "-") + table(head, rows)
    return lines


# ---- against peers

def _apart(ours, theirs):
    """Is the first worse, by more than SAME and than both intervals?"""
    reach = (ours[1] or 0) + (theirs[1] or 0)
    return ours[0] > theirs[0] * SAME and ours[0] - theirs[0] > reach


def _ratio(ours, theirs):
    """Of two percentiles; 1 where neither ended."""
    return 1 if ours[0] == theirs[0] else ours[0] / theirs[0]


def losses(grid, found, name="hpcc"):
    """(ratio, workload, load, class, percentile, ours, peer, theirs), the worst first: where the
    variant is worse than another congestion control, the best of those that it is worse than.
    """
    lost, compared = [], 0
    for work, load in _pairs(grid):
        runs = _part(grid, found, work, load)
        if name not in runs:
            continue
        mine = grid.variants[name]["cc"]
        for pair in _classes(runs):
            for percent in PERCENTILES:
                ours = runs[name].value(*pair, percent)
                theirs = [(run.value(*pair, percent), peer) for peer, run in runs.items()
                          if grid.variants[peer]["cc"] != mine]
                theirs = [(value, peer) for value, peer in theirs if value]
                if not ours or not theirs:
                    continue
                compared += 1
                better = [(value[0], peer, value) for value, peer in theirs if _apart(ours, value)]
                if better:
                    _, peer, value = min(better, key=lambda one: one[:2])
                    lost.append((_ratio(ours, value), work, load, pair, percent, ours, peer, value))
    return sorted(lost, key=lambda row: -row[0]), compared


def _times(ratio):
    return NOT_ENDED if ratio == NEVER else f"{ratio:.2f}"


def losing_tables(grid, found):
    """Where hpcc loses, worst first."""
    name = next((name for name, values in grid.variants.items() if values["cc"] == "hpcc"), None)
    if name is None:
        return []
    lost, compared = losses(grid, found, name)
    lines = title("Where we lose")
    lines += prose(f"Classes of sizes and percentiles in which {name} is slower than one of the other "
                   f"congestion controls by more than {SAME - 1:.0%} and than both intervals together, which few "
                   f"seeds make wide: {len(lost)} of {compared}."
                   + (f" The worst {LOSSES}:" if len(lost) > LOSSES else ""))
    rows = [[work, f"{load:.0%}", size_name(*pair), f"p{percent}", shown(ours),
             _label(grid, peer, found[work, load, peer]), shown(theirs), _times(ratio)]
            for ratio, work, load, pair, percent, ours, peer, theirs in lost[:LOSSES]]
    head = ["workload", "load", "size", "", name, "best peer", "its", "ratio"]
    return lines + (table(head, rows) if rows else [])


def long_tables(grid, found):
    """Long flows against dctcp, for every variant."""
    peers = [name for name, values in grid.variants.items() if values["cc"] == "dctcp"]
    if not peers:
        return []
    lines = title("Long flows against dctcp")
    lines += prose(f"Slowdown of flows above {units.show_bytes(LONG)}, where the published HPCC loses to "
                   f"DCTCP at 50 and 70 % of load, and in parentheses by that of {peers[0]}.")
    rows = []
    for work, load in _pairs(grid):
        runs = _part(grid, found, work, load)
        base = runs.get(peers[0])
        for name, run in runs.items():
            cells = []
            for percent in PERCENTILES:
                value, other = (r and r.value(LONG, math.inf, percent) for r in (run, base))
                ratio = f" ({_times(_ratio(value, other))})" if value and other else ""
                cells.append(shown(value) + ratio)
            rows.append([work, f"{load:.0%}", _label(grid, name, run), *cells])
        rows += [[work, f"{load:.0%}", name, *["failed"] * len(PERCENTILES)]
                 for name in _missing(grid, found, work, load)]
    return lines + table(["workload", "load", "variant", *(f"p{p}" for p in PERCENTILES)], rows)


# ---- beside the published

METHODS = (
    "Network: theirs is a fat tree of 320 hosts at 100 Gb/s; ours is that of the scenario.",
    "Stack: theirs is an RDMA NIC's model in ns-3, with a fixed window of one BDP at the start, 1000 "
    "bytes of payload in a packet and PFC; ours is Linux TCP, with up to 1448 bytes, drops, and options.",
    "Load: both count payload only.",
    "Duration: their arrivals go on for 100 ms and more, ours for the time said above, so that long flows "
    "meet fewer others.",
    "Completion: theirs ends when the sender has the last ACK. Here the ACK's way back on an idle network "
    "is added to ours, to the completion time and to that of the flow alone; queues on the way back are "
    "not in it.",
    "The flow alone: theirs omits the bytes of telemetry, and so does ours.",
    "HPCC's parameters: theirs are maxStage 0 (5 in the paper is a typo, they say), eta 0.95, W_ai of 50 "
    "Mb/s x T (the line's name has eta .95 and .99, as they recommend a larger one where load is high); "
    "ours are the variant's.",
    "DCTCP: theirs marks from 30 KB per 10 Gb/s on, and starts with a window of one BDP, as their HPCC; "
    "Linux's starts with ten segments.",
    "Losses: theirs has none, by PFC. Linux waits 200 ms at least before a timeout, which is longer than all "
    "arrivals here, and other timers of TCP (the tail loss probe, RACK) go by the kernel's tick, 10 ms in a "
    "guest: a flow of which the last packets are lost is far behind all others.",
    "Connections: theirs are new, each starts with a window of one BDP. With workload.connect = pool a flow "
    "may have the connection of one before it, and goes on with its window.",
    "Each point is of the 5 % of flows whose sizes end there; below 1 it counts as 1. Theirs were read "
    "off plots, to within 0.5 %.",
)


class Beside:
    """Published and our values of a workload and load, at the published sizes and in their way."""

    def __init__(self, grid, found, work, load):
        self.work, self.load, self.runs = work, load, _part(grid, found, work, load)
        self.labels = {name: _label(grid, name, run) for name, run in self.runs.items()}
        self.cc = {name: values["cc"] for name, values in grid.variants.items()}
        self.failed = _missing(grid, found, work, load)
        cdf = grid.workloads[work]["cdf"]
        self.theirs = {key[2:]: points for key, points in published.read().items() if key[:2] == (cdf, load)}
        self.sizes = sorted({size for points in self.theirs.values() for size in points})
        self.ends = dict(zip(self.sizes, published.classes(workload.Sizes(cdf)))) if self.theirs else {}

    def values(self, percent):
        """{label: [(value, half of its interval or None) or None, ...]}, one for each size."""
        found = {}
        for cc, algorithm in published.ALGORITHMS.items():
            points = self.theirs.get((percent, algorithm), {})
            found[f"{algorithm} published"] = [(points[size], None) if size in points else None
                                               for size in self.sizes]
            for name, run in self.runs.items():
                if self.cc[name] == cc:
                    found[self.labels[name]] = [run.value(*self.ends[size], percent, 2) for size in self.sizes]
        return found


def besides(grid, found, work, load):
    """One, or none where nothing was published."""
    one = Beside(grid, found, work, load)
    return [one] if one.theirs and one.runs else []


def beside_tables(grid, found):
    """Ours in the published way, at the published sizes."""
    blocks = []
    for one in (one for pair in _pairs(grid) for one in besides(grid, found, *pair)):
        rows = [[f"p{percent}", label, *map(shown, values)] for percent in PERCENTILES
                for label, values in one.values(percent).items()]
        rows += [[name, "", *["failed"] * len(one.sizes)] for name in one.failed
                 if one.cc[name] in published.ALGORITHMS]
        blocks += title(f"Beside the published: {one.work}, {one.load:.0%}", "-")
        blocks += table(["of flows", "", *map(units.show_bytes, one.sizes)], rows)
    if not blocks:
        return []
    lines = title("Beside the published results")
    lines += prose("The HPCC authors' plots show slowdown at sizes that are the deciles of a workload's flows. "
                   "What differs in method:")
    return [*lines, *(line for item in METHODS for line in prose(item, "- ")), "", *blocks]


# ---- figures

def _figure(name, heading, ticks, lines_of):
    """A panel for each percentile. lines_of: the function of a percentile that returns its lines as
    {label: [(value, half of its interval or None) or None, ...]}, one for each tick.
    """
    panels = []
    for percent in PERCENTILES:
        lines = []
        for i, (label, values) in enumerate(lines_of(percent).items()):
            points = [(x, *value) for x, value in enumerate(values) if value and value[0] != NEVER]
            lines.append(figures.Line(label, [x for x, _, _ in points], [y for _, y, _ in points],
                                      [half or 0 for _, _, half in points], i))
        panels.append(figures.Panel(f"p{percent}", lines))
    values = [y for panel in panels for line in panel.lines for y in line.ys]
    if not values:
        return []
    return [figures.Figure(name, heading, "", "flow size", "FCT slowdown", panels, y_log=True, dots=True,
                           y_range=(0.9, max(values) * 1.2), ticks=[tick.replace(" ", "") for tick in ticks])]


def _plot(grid, found, work, load):
    """By classes of sizes."""
    runs = _part(grid, found, work, load)
    ends = _classes(runs)
    return _figure(f"{work}-{load * 100:g}", f"{work}, {load:.0%}",
                   [size_name(*pair).removeprefix("to ") for pair in ends],
                   lambda percent: {name: [run.value(*pair, percent) for pair in ends]
                                    for name, run in runs.items()})


def _plot_beside(beside):
    """Ours and the published."""
    return _figure(f"{beside.work}-{beside.load * 100:g}-published", f"{beside.work}, {beside.load:.0%}",
                   [units.show_bytes(size) for size in beside.sizes], beside.values)


def plots(grid, found):
    """p50, p95 and p99 by size for each workload and load."""
    made = []
    for pair in _pairs(grid):
        made += _plot(grid, found, *pair)
        for one in besides(grid, found, *pair):
            made += _plot_beside(one)
    return made


# ---- all of it

def _variant_rows(grid):
    return [[name, values["cc"] + (f", Linux {values['kernel']}" if values["kernel"] else ""),
             " ".join(f"``{text}``" for text in values["set"]) or NONE]
            for name, values in grid.variants.items()]


def about(grid, found, failed):
    """How the runs were made."""
    cells = grid.cells()
    seconds = [one for run in found.values() for one in run.seconds]
    kernels = sorted({kernel for run in found.values() for kernel in run.kernels})
    commits = sorted({commit for run in found.values() for commit in run.commits})
    flows = sum(run.sums["flows"] for run in found.values())
    took = f"they took {sum(seconds):.0f} s of real time one by one, the longest {max(seconds):.0f} s" \
        if seconds else "none ran"
    durations = ", ".join(f"{name} {units.show_time(work['duration'])}"
                          for name, work in grid.workloads.items())
    return [
        f"``scripts/hpcc-paper`` made this file of the grid ``{_shown_path(grid)}``. To make it again::", "",
        f"    make paper CONFIG={_shown_path(grid)}", "",
        f"- sources: commit {' and '.join(f'``{commit}``' for commit in commits) or 'unknown'}",
        f"- kernel: {', '.join(kernels) or 'no run succeeded'}",
        f"- scenario: ``{grid.scenario.name}``; arrivals last: {durations}",
        f"- seeds: {min(grid.seeds)} to {max(grid.seeds)}",
        f"- runs: {len(cells)}, of which {len(failed)} failed; {flows} flows; {took}", "",
        *prose("A percentile is that of the flows of all seeds. Behind ± is half of the 95 % confidence "
               "interval of its mean over seeds (Student's t). \"–\" stands for fewer flows than the percentile "
               f"needs ({', '.join(f'p{p}: {n}' for p, n in FLOWS_MIN.items())}), and no ± for fewer in a seed."),
        *table(["variant", "congestion control", "settings"], _variant_rows(grid))]


def _shown_path(grid):
    return grid.path.relative_to(TOP) if grid.path.is_relative_to(TOP) else grid.path.name


def failed_table(failed):
    """Runs that are missing."""
    if not failed:
        return []
    rows = [[cell.workload, f"{cell.load:.0%}", cell.variant, cell.seed, f"``{why(cell)}``"]
            for cell in failed]
    return title("Failed runs") + ["No figure here has anything of them.", ""] + \
        table(["workload", "load", "variant", "seed", "why"], rows)


def text(grid, found, failed):
    """results.rst"""
    head = ".. SPDX-License-Identifier: GPL-2.0"
    name = f"Results: {grid.name}"
    lines = [head, "", "=" * len(name), name, "=" * len(name), "", *about(grid, found, failed)]
    for part in (failed_table(failed), losing_tables(grid, found), slowdown_tables(grid, found),
                 long_tables(grid, found), port_tables(grid, found), beside_tables(grid, found)):
        lines += part
    return "\n".join(lines).rstrip() + "\n"


def write(grid, path):
    """results.rst at path, figures in the current directory."""
    found, failed = read(grid)
    Path(path).write_text(text(grid, found, failed), encoding="utf-8")
    pictures = Path("figures")
    pictures.mkdir(exist_ok=True)
    draw.write(plots(grid, found), pictures)
