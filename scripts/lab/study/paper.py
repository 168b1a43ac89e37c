# SPDX-License-Identifier: GPL-2.0
"""The results of a grid: results.rst with its tables, and figures as SVG and PDF.

A percentile covers the flows of all seeds; a flow that did not end counts as slower than all finished
flows. The 95 % confidence interval of a percentile comes from its values for each seed, and is given if
each seed has enough flows. Missing runs are listed, and no figure includes them.
"""

import array
import bisect
import itertools
import math
import statistics
from collections import Counter, defaultdict
from pathlib import Path

from ..model import units, workload
from ..model import scenario as scenarios
from ..model.topology import HEADERS, Topology
from ..run import interval, results
from ..show import draw, figures
from ..show.rst import page, prose, table, title
from . import published, sharing
from .grid import TOP

PERCENTILES = results.PERCENTILES
# Upper ends of the classes of flow sizes; the class of the longest flows is last.
SIZES = (*results.SIZES, math.inf)
# Minimum number of flows for a percentile: at least one flow is above the percentile.
FLOWS_MIN = {p: math.ceil(100 / (100 - p)) for p in PERCENTILES}
# Number of digits of a commit's hash in the report.
COMMIT = 12
# "Where we lose" omits a slowdown of ours if it exceeds the slowdown of a peer by less than this factor, or by
# less than the sum of both intervals.
SAME = 1.03
# Largest ratio of a slowdown to that of the variant's base that counts as equal.
LIKE = 1.1
# Maximum number of rows in the table "Where we lose".
LOSSES = 25
# Flows with more bytes than this are long.
LONG = 300000
# End of the label of published values.
PUBLISHED = " published"
# Text of a cell without a value; docutils must not interpret it as markup.
NONE = "–"
# Slowdown of a flow that did not end, and the text for this slowdown.
NEVER = math.inf
NOT_ENDED = "not ended"
# Parts of a scenario that describe its network.
NETWORK = ("ip", "topology", "link", "host", "qdisc")
# Counters of hpcc for connections that had no telemetry for a time, or during their whole life.
CLASSIC = ("not_agreed", "fallbacks", "unseen_loss")
CLASSES = {True: "to hosts", False: "fabric"}


def write_guest(path, kernels):
    """Write the paths of the kernels and modules of a grid."""
    Path(path).write_text("".join(f"{kernel.tree}\n{kernel.tools}\n" for kernel in kernels), encoding="utf-8")


# ---- measurements

class Ports:
    """Switch ports of one class in the runs of a cell."""

    def __init__(self):
        self.utilization, self.hist = [], Counter()
        self.longest = self.marks = self.drops = 0

    def add(self, port):
        """Add the figures of a port from results.json."""
        self.utilization.append(port["utilization"])
        self.hist.update({int(size): n for size, n in port["queue_hist"].items()})
        self.longest = max(self.longest, port["queue_bytes"]["max"])
        self.marks = None if None in (self.marks, port["marks"]) else self.marks + port["marks"]    # None: unknown
        self.drops += port["drops"]

    def queue(self, percent):
        """A percentile of the bytes that packets left in the queue, over all ports."""
        return results.counted_percentile(self.hist, percent)


class Runs:
    """The results of one workload, load and variant."""

    def __init__(self):
        # For each seed five columns, sorted by size: bytes of the flows, slowdown, slowdown by the published method,
        # slowdowns if all flows and if all classes shared each port ideally (NEVER if the model does not apply).
        self.seeds = []
        self.ports = defaultdict(Ports)
        self.sums = Counter()
        self.seconds = []
        self.kernels, self.commits = set(), set()

    def add(self, result):
        """Add the results of a run (its results.json)."""
        back = _return_path(result)
        ideal = [sharing.slowdowns(result, by_class) if sharing.has_model(result) else itertools.repeat(NEVER)
                 for by_class in (False, True)]
        flows = sorted((flow["bytes"], flow["slowdown"],
                        published.slowdown(flow, back(flow["from"], flow["to"])), *both)
                       if flow["slowdown"] else (flow["bytes"], NEVER, NEVER, *both)
                       for flow, *both in zip(result["flows"], *ideal) if flow["bytes"])
        self.seeds.append([array.array("d", column) for column in zip(*flows)] or [array.array("d")] * 5)
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
        """Return (percentile, half of its interval or None) of the flows with more than low and at
        most high bytes, or None if there are too few flows.
        """
        each = [sorted(seed[column][bisect.bisect_right(seed[0], low):bisect.bisect_right(seed[0], high)])
                for seed in self.seeds]
        pooled = sorted(itertools.chain(*each))
        if len(pooled) < FLOWS_MIN[percent]:
            return None
        half = None
        if len(each) > 1 and min(map(len, each)) >= FLOWS_MIN[percent]:
            values = [results.percentile(seed, percent) for seed in each]
            half = interval.half(values) if NEVER not in values else None
        return results.percentile(pooled, percent), half


def _return_path(result):
    """A function that returns the time in us of an ACK from dst to src on an idle network."""
    settings = {key: result["settings"][key] for key in NETWORK if key in result["settings"]}
    one = {"from": "h0", "to": "h1", "bytes": 1}
    shape = Topology(scenarios.build(settings | {"flow": [one]}, "network"))
    full = shape.link["mtu"] - HEADERS[shape.ip]
    found = {}

    def back_us(src, dst):
        if (src, dst) not in found:
            found[src, dst] = (shape.base_rtt_ns(src, dst) - shape.alone_ns(src, dst, full)) / 1000
        return found[src, dst]
    return back_us


def _ideal(fraction):
    """The row of flows that share this fraction of the links ideally."""
    return f"ideal, {fraction:.0%}"


def read(grid):
    """Return ({(workload, load, variant): Runs}, the list of failed cells). Ideal sharing counts as a variant."""
    found, failed = defaultdict(Runs), []
    for cell in grid.cells():
        try:
            result = results.read(cell.results)
        except scenarios.ScenarioError:
            failed.append(cell)
            continue
        found[cell.workload, cell.load, cell.variant].add(result)
        if cell.variant == next(iter(grid.variants)) and all(flow["bytes"] for flow in result["flows"]):
            for fraction in grid.ideal:
                flows = zip((flow["bytes"] for flow in result["flows"]), sharing.fair(result, fraction))
                found[cell.workload, cell.load, _ideal(fraction)].seeds.append(
                    [array.array("d", column) for column in zip(*sorted(flows))])
    return dict(found), failed


def why(cell):
    """The last line of the output of a failed run."""
    try:
        lines = Path(cell.log).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return "did not start"
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")


# ---- reStructuredText

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


def _part(grid, found, work, load, ideal=False):
    """Return {variant: Runs} of one workload and load, in the order of the grid; ideal: with the rows of ideal sharing."""
    names = (*grid.variants, *map(_ideal, grid.ideal if ideal else ()))
    return {name: found[work, load, name] for name in names if (work, load, name) in found}


def _label(grid, name, run):
    """The name of a variant, with the number of successful seeds if some failed."""
    there, all_of_them = len(run.seeds), len(grid.seeds)
    return name if there == all_of_them else f"{name} ({there} of {all_of_them} seeds)"


def _missing(grid, found, work, load):
    """Variants without a successful run."""
    wanted = {cell.variant for cell in grid.cells() if (cell.workload, cell.load) == (work, load)}
    return [name for name in grid.variants if name in wanted and (work, load, name) not in found]


def slowdown_tables(grid, found):
    """FCT slowdown by size, for each workload and load."""
    lines = title("FCT slowdown by size")
    lines += prose("Slowdown is the completion time of a flow divided by its completion time on the idle network. "
                   "The tables show the 50th, 95th and 99th percentile for each class of sizes. A flow that "
                   "did not end before measure.deadline counts as slower than all finished flows."
                   + (" \"ideal\" is a model without queues: the flows get at once the max-min fair shares of this "
                      "fraction of the links from and to the hosts." if grid.ideal else ""))
    for work, load in _pairs(grid):
        runs = _part(grid, found, work, load, True)
        ends = _classes(runs)
        rows = [[_label(grid, name, run), f"p{percent}",
                 *(shown(run.value(*pair, percent)) for pair in (*ends, (0, math.inf)))]
                for name, run in runs.items() for percent in PERCENTILES]
        rows += [[name, "", *["failed"] * (len(ends) + 1)] for name in _missing(grid, found, work, load)]
        lines += title(f"{work}, {load:.0%}", "-")
        lines += table(["variant", "", *(size_name(*pair) for pair in ends), "all"], rows)
    return lines


def _pairs(grid):
    return list(dict.fromkeys((cell.workload, cell.load) for cell in grid.cells()))


# ---- ports

def _port_cells(ports):
    return [f"{statistics.mean(ports.utilization):.3f}", f"{max(ports.utilization):.3f}",
            *(units.show_bytes(ports.queue(percent)) for percent in PERCENTILES),
            units.show_bytes(ports.longest), NONE if ports.marks is None else ports.marks, ports.drops]


def port_tables(grid, found):
    """Utilization, queues, marks and drops by class of ports; retransmissions and timeouts."""
    lines = title("Ports and losses")
    lines += prose("The tables describe the switch ports that send data, over all seeds. Utilization is the mean "
                   "and the maximum of the ports. The queue is the number of bytes that a departing packet leaves "
                   "behind; the tables show its percentiles over all departures and ports. These columns are sums "
                   "over all seeds: marks, drops, retransmissions, timeouts, unfinished flows, and hpcc "
                   "connections that ran the classic response.")
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


# ---- comparison with peers

def _apart(ours, theirs, certain):
    """Whether the first value exceeds the second by more than the factor SAME; certain: also by more than the sum of both intervals."""
    reach = (ours[1] or 0) + (theirs[1] or 0) if certain else 0
    return ours[0] > theirs[0] * SAME and ours[0] - theirs[0] > reach


def _ratio(ours, theirs):
    """The ratio of two percentiles; 1 if both are 'not ended'."""
    return 1 if ours[0] == theirs[0] else ours[0] / theirs[0]


def losses(grid, found, name="hpcc", certain=True):
    """Return ([(ratio, workload, load, class, percentile, ours, peer, theirs), ...], number of comparisons).
    The list has a row for each slowdown that is worse than that of a peer, the largest ratio first. If it is worse than
    several, peer is the best of them.
    """
    lost, compared = [], 0
    for work, load in _pairs(grid):
        runs = _part(grid, found, work, load, True)
        peers = {peer: run for peer, run in runs.items() if peer in grid.variants and grid.variants[peer]["peer"]}
        for pair in _classes(runs) if name in runs else ():
            for percent in PERCENTILES:
                ours = runs[name].value(*pair, percent)
                theirs = [(run.value(*pair, percent), peer) for peer, run in peers.items()]
                theirs = [(value, peer) for value, peer in theirs if value]
                if not ours or not theirs:
                    continue
                compared += 1
                better = [(value[0], peer, value) for value, peer in theirs if _apart(ours, value, certain)]
                if better:
                    _, peer, value = min(better, key=lambda one: one[:2])
                    lost.append((_ratio(ours, value), work, load, pair, percent, ours, peer, value))
    return sorted(lost, key=lambda row: -row[0]), compared


def _times(ratio):
    return NOT_ENDED if ratio == NEVER else f"{ratio:.2f}"


def losing_tables(grid, found):
    """The cases in which our first variant loses, the worst first, and their number for all variants."""
    peers = [name for name, values in grid.variants.items() if values["peer"]]
    ours = [name for name in grid.variants if name not in peers and losses(grid, found, name)[1]]
    if not ours:
        return []
    lost, compared = losses(grid, found, ours[0])
    lines = title("Where we lose")
    lines += prose(f"The table lists classes of sizes and percentiles in which {ours[0]} is slower than a peer "
                   f"({', '.join(peers)}) by more than {SAME - 1:.0%} and by more than the sum of both confidence "
                   f"intervals. This is the case in {len(lost)} of {compared} comparisons. With few seeds the "
                   "intervals are wide."
                   + (f" The table contains the worst {LOSSES}." if len(lost) > LOSSES else ""))
    rows = [[work, f"{load:.0%}", size_name(*pair), f"p{percent}", shown(ours),
             _label(grid, peer, found[work, load, peer]), shown(theirs), _times(ratio)]
            for ratio, work, load, pair, percent, ours, peer, theirs in lost[:LOSSES]]
    head = ["workload", "load", "size", "", ours[0], "best peer", "its slowdown", "ratio"]
    lines += table(head, rows) if rows else []
    if grid.ideal or len(ours) > 1:
        lines += prose("The next table compares each variant, also a peer, with the best peer in each class and percentile. It "
                       "counts the values that are slower by more than the given part, also within the intervals.")
        rows = []
        for name in (*grid.variants, *map(_ideal, grid.ideal)):
            lost, compared = losses(grid, found, name, False)
            rows.append([name, compared, len(lost), sum(row[0] > LIKE for row in lost), _times(lost[0][0]) if lost else NONE])
        lines += table(["variant", "comparisons", f"{SAME - 1:.0%}", f"{LIKE - 1:.0%}", "largest ratio"], rows)
    return lines


def _relative(name, percent, pairs):
    """A row of base_tables(), and whether each value is above LIKE."""
    ratios = [_ratio(*pair) if all(pair) else None for pair in pairs]
    return [name, f"p{percent}", *(NONE if ratio is None else _times(ratio) for ratio in ratios)], \
        [ratio > LIKE for ratio in ratios if ratio]


def _ideal_rows(name, run, ends):
    """Rows of base_tables() for ideal sharing, if the model applies to all flows."""
    middle = run.value(0, math.inf, 50, 4)
    if not middle or middle[0] == NEVER:
        return []
    return [_relative(f"{name}, ideal", percent, [[run.value(*pair, percent, column) for column in (4, 3)]
                                                  for pair in ends])[0] for percent in PERCENTILES]


def base_tables(grid, found):
    """Slowdowns of the variants that have a base, relative to the base."""
    if not any(values["base"] for values in grid.variants.values()):
        return []
    lines = title("Slowdown relative to another variant")
    lines += prose("The tables show the slowdown of a variant divided by the slowdown of its base: " + ", ".join(
        f"{name} / {values['base']}" for name, values in grid.variants.items() if values["base"])
        + ". For a star whose flows are in classes with weights, the rows \"ideal\" contain the same ratio for a model of "
        "the ports to hosts: in the base such a port always serves its flows at equal rates, and in the variant its "
        "classes by weight, and the flows of a class at equal rates. So these rows show the part of the "
        "difference that is due to the sharing by classes itself.")
    for work, load in _pairs(grid):
        runs = _part(grid, found, work, load)
        ends = [*_classes(runs), (0, math.inf)]
        rows, above = [], []
        for name, run in runs.items():
            base = runs.get(grid.variants[name]["base"])
            for percent in PERCENTILES if base else ():
                pairs = [(run.value(*pair, percent), base.value(*pair, percent)) for pair in ends]
                row, worse = _relative(_label(grid, name, run), percent, pairs)
                rows.append(row)
                above += worse
            rows += _ideal_rows(name, run, ends) if base else []
        lines += title(f"Relative: {work}, {load:.0%}", "-")
        lines += prose(f"{sum(above)} of {len(above)} values are above {LIKE}.")
        lines += table(["variant", "", *(size_name(*pair) for pair in ends[:-1]), "all"], rows) if rows else []
    return lines


def long_tables(grid, found):
    """Long flows against dctcp, for every variant."""
    peers = [name for name, values in grid.variants.items() if values["cc"] == "dctcp"]
    if not peers:
        return []
    lines = title("Long flows against dctcp")
    lines += prose(f"The table shows the slowdown of flows above {units.show_bytes(LONG)}, and in parentheses the "
                   f"ratio of this slowdown to that of {peers[0]}. In the published results HPCC is slower than DCTCP "
                   "for such flows at a load of 50 and 70 %.")
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


# ---- comparison with the published results

METHODS = (
    "Network: the authors use a fat tree of 320 hosts at 100 Gb/s. We use the network of the scenario above.",
    "Stack: the authors use a model of an RDMA NIC in ns-3, with a fixed initial window of one BDP, 1000 "
    "bytes of payload in a packet, and PFC. We use Linux TCP, with up to 1448 bytes of payload in a packet, "
    "TCP options, and switches that drop packets.",
    "Load: both count only payload.",
    "Duration: flows of the authors arrive for 100 ms and more. Our flows arrive for the time stated above, so "
    "long flows compete with fewer others.",
    "Completion: a flow of the authors ends when the sender receives the last ACK, our flow when the receiver has "
    "the last byte. So we add the time of an ACK on an idle return path to our completion time, on the loaded and on "
    "the idle network. We do not add the time in queues of the return path.",
    "Idle network: neither completion time on the idle network includes the bytes of telemetry.",
    "HPCC's parameters: the authors use maxStage 0 (they call the 5 in their paper a typo), eta 0.95, and W_ai = "
    "50 Mb/s x T. (The name of their curve contains eta .95 and .99, because they recommend a larger eta for high "
    "load.) We use the parameters of the variant.",
    "DCTCP: the switches of the authors mark at queues above 30 KB per 10 Gb/s of link rate. Their DCTCP starts "
    "with a window of one BDP, like their HPCC. DCTCP in Linux starts with ten segments.",
    "Losses: PFC avoids all losses in the network of the authors. In Linux a retransmission timeout takes at "
    "least 200 ms, which is longer than all arrivals here. Other timers of TCP (tail loss probe, RACK) have the "
    "resolution of the kernel's tick, 10 ms in a guest. So a flow that loses its last packets ends much later than "
    "all others.",
    "Connections: each flow of the authors has a new connection, which starts with a window of one BDP. With "
    "workload.connect = pool a flow of ours may reuse an earlier connection and its window.",
    "Points: each point stands for one decile (10 %, 20 %, ...) of the flow sizes. Its value is that of 5 % of the "
    "flows: those with this size or sizes just below it. A value below 1 counts as 1. We read the values of the authors from their plots, with an error "
    "of at most 0.5 %.",
)


class Comparison:
    """Published values and ours of a workload and load, for the published sizes and by the published method."""

    def __init__(self, grid, found, work, load):
        self.work, self.load, self.runs = work, load, _part(grid, found, work, load)
        self.labels = {name: _label(grid, name, run) for name, run in self.runs.items()}
        self.cc = {name: values["cc"] for name, values in grid.variants.items()}
        self.failed = _missing(grid, found, work, load)
        cdf = grid.workloads[work]["cdf"]
        # A workload with settings of its own, such as incast, is not the published one.
        self.theirs = {key[2:]: points for key, points in published.read().items()
                       if key[:2] == (cdf, load) and not grid.workloads[work]["set"]}
        self.sizes = sorted({size for points in self.theirs.values() for size in points})
        self.ends = dict(zip(self.sizes, published.classes(workload.Sizes(cdf)))) if self.theirs else {}

    def values(self, percent):
        """Return {label: [(value, half of its interval or None) or None, ...]}, with a value for each size."""
        found = {}
        for cc, algorithm in published.ALGORITHMS.items():
            points = self.theirs.get((percent, algorithm), {})
            found[algorithm + PUBLISHED] = [(points[size], None) if size in points else None
                                               for size in self.sizes]
            for name, run in self.runs.items():
                if self.cc[name] == cc:
                    found[self.labels[name]] = [run.value(*self.ends[size], percent, 2) for size in self.sizes]
        return found


def comparisons(grid, found, work, load):
    """A list of one Comparison, empty if no values were published."""
    one = Comparison(grid, found, work, load)
    return [one] if one.theirs and one.runs else []


def _beside(ours, theirs):
    """A percentile, and in parentheses its ratio to the published one."""
    return shown(ours) + (f" ({_times(ours[0] / theirs[0])})" if ours and theirs else "")


def comparison_tables(grid, found):
    """Our values by the published method for the published sizes, and their ratios to the published values."""
    blocks = []
    for one in (one for pair in _pairs(grid) for one in comparisons(grid, found, *pair)):
        rows = []
        for percent in PERCENTILES:
            for label, values in one.values(percent).items():
                if label.endswith(PUBLISHED):
                    theirs = [None] * len(values)
                rows.append([f"p{percent}", label, *map(_beside, values, theirs)])
                theirs = values if label.endswith(PUBLISHED) else theirs
        rows += [[name, "", *["failed"] * len(one.sizes)] for name in one.failed
                 if one.cc[name] in published.ALGORITHMS]
        blocks += title(f"Published and ours: {one.work}, {one.load:.0%}", "-")
        blocks += table(["percentile", "", *map(units.show_bytes, one.sizes)], rows)
    if not blocks:
        return []
    lines = title("Comparison with the published results")
    lines += prose("The plots of the HPCC authors show the slowdown at the deciles of a workload's flow sizes. Their "
                   "methods and ours differ as follows. Numbers in parentheses are ratios of our values to the published ones.")
    return [*lines, *(line for item in METHODS for line in prose(item, "- ")), "", *blocks]


# ---- figures

def _figure(name, heading, ticks, lines_of):
    """A panel for each percentile. lines_of: function of a percentile that returns its lines as
    {label: [(value, half of its interval or None) or None, ...]}, with a value for each tick.
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
    """The figure by classes of sizes."""
    runs = _part(grid, found, work, load)
    ends = _classes(runs)
    return _figure(f"{work}-{load * 100:g}", f"{work}, {load:.0%}",
                   [size_name(*pair).removeprefix("to ") for pair in ends],
                   lambda percent: {name: [run.value(*pair, percent) for pair in ends]
                                    for name, run in runs.items()})


def _plot_comparison(one):
    """The figure of published values and ours."""
    return _figure(f"{one.work}-{one.load * 100:g}-published", f"{one.work}, {one.load:.0%}",
                   [units.show_bytes(size) for size in one.sizes], one.values)


def plots(grid, found):
    """p50, p95 and p99 by size for each workload and load."""
    made = []
    for pair in _pairs(grid):
        made += _plot(grid, found, *pair)
        for one in comparisons(grid, found, *pair):
            made += _plot_comparison(one)
    return made


# ---- the whole page

def _variant_rows(grid):
    return [[name, values["cc"] + (f", Linux {values['kernel']}" if values["kernel"] else ""),
             " ".join(f"``{text}``" for text in values["set"]) or NONE]
            for name, values in grid.variants.items()]


def about(grid, found, failed):
    """The sources, kernel, scenario and seeds of the runs."""
    cells = grid.cells()
    seconds = [one for run in found.values() for one in run.seconds]
    kernels = sorted({kernel for run in found.values() for kernel in run.kernels})
    commits = sorted({commit for run in found.values() for commit in run.commits})
    flows = sum(run.sums["flows"] for run in found.values())
    took = f"all runs together took {sum(seconds):.0f} s of real time, the longest run {max(seconds):.0f} s" \
        if seconds else "no run finished"
    durations = ", ".join(f"{name} {units.show_time(work['duration'])}"
                          for name, work in grid.workloads.items())
    return [
        f"``scripts/hpcc-paper`` wrote this file for the grid ``{_shown_path(grid)}``. To write it again::", "",
        f"    make paper CONFIG={_shown_path(grid)}", "",
        f"- sources: commit {' and '.join(f'``{commit}``' for commit in commits) or 'unknown'}",
        f"- kernel: {', '.join(kernels) or 'no run succeeded'}",
        f"- scenario: ``{grid.scenario.name}``; arrivals last: {durations}",
        f"- seeds: {min(grid.seeds)} to {max(grid.seeds)}",
        f"- runs: {len(cells)}, of which {len(failed)} failed; {flows} flows; {took}", "",
        *prose("A percentile covers the flows of all seeds. The number after ± is half of the 95 % confidence "
               "interval of the mean of the percentiles of each seed (Student's t). \"–\" means that there are "
               f"fewer flows than the percentile needs ({', '.join(f'p{p}: {n}' for p, n in FLOWS_MIN.items())}). "
               "A value has no ± if any seed has fewer flows than that."),
        *table(["variant", "congestion control", "settings"], _variant_rows(grid))]


def _shown_path(grid):
    return grid.path.relative_to(TOP) if grid.path.is_relative_to(TOP) else grid.path.name


def failed_table(failed):
    """The failed runs."""
    if not failed:
        return []
    rows = [[cell.workload, f"{cell.load:.0%}", cell.variant, cell.seed, f"``{why(cell)}``"]
            for cell in failed]
    return title("Failed runs") + ["The figures on this page do not include these runs.", ""] + \
        table(["workload", "load", "variant", "seed", "last line of the log"], rows)


def text(grid, found, failed):
    """The text of results.rst."""
    lines = page(grid.name) + about(grid, found, failed)
    for part in (failed_table(failed), losing_tables(grid, found), base_tables(grid, found),
                 slowdown_tables(grid, found), long_tables(grid, found), port_tables(grid, found), comparison_tables(grid, found)):
        lines += part
    return "\n".join(lines).rstrip() + "\n"


def write(grid, path):
    """Write results.rst to path, and figures to the current directory."""
    found, failed = read(grid)
    Path(path).write_text(text(grid, found, failed), encoding="utf-8")
    pictures = Path("figures")
    pictures.mkdir(exist_ok=True)
    draw.write(plots(grid, found), pictures)
