# SPDX-License-Identifier: GPL-2.0
"""The same flows in ns-3 and here: slowdown by size, and the waiting time of short flows.

A list of flows that ran in ns-3 has the columns of a workload, and also ns3_fct_ns and ns3_alone_ns.
A flow is identified by its start, source, destination and size.

Times of ns-3 end when the sender has the last ACK, ours when the receiver has the last byte. So we add
the time of an ACK on an idle return path to our times: to the flow's completion time and to its
completion time on an idle network. Otherwise the same waiting time would weigh twice as much in our
slowdown of short flows.
"""

import math
from pathlib import Path

from ..model import files, scenario, units, workload
from ..model.keys import ScenarioError, shown
from ..model.topology import Topology
from ..run import results

COLUMNS = ("start_ns", "from", "to", "bytes", "ns3_fct_ns", "ns3_alone_ns")
# Flows of at most this size in bytes have one or two packets. Their waiting time is the completion
# time minus the completion time on an idle network.
SHORT = 3000
# Largest allowed ratio of our slowdown to that of ns-3: for one size, and for all flows.
GOAL_SIZE, GOAL_ALL = 1.10, 1.05
# A percentile is judged only if at least this many flows are above it.
FEW = 3


class Ns3Error(ScenarioError):
    """An error, in one line."""


def read(path):
    """Return {(start_ns, from, to, bytes): [(fct_ns, alone_ns)]} of the flows in ns-3."""
    def parsed(texts):
        *key, fct, alone = map(int, texts)
        if not (1 <= fct <= units.TIME_MAX and 1 <= alone <= units.TIME_MAX):
            raise workload.WorkloadError(f"the times have to be from 1 to {units.TIME_MAX} ns")
        return tuple(key), (fct, alone)
    flows = {}
    try:
        for key, times in workload.rows(Path(path), COLUMNS, parsed, files.SIZE_MAX):
            flows.setdefault(key, []).append(times)
    except workload.WorkloadError as err:
        raise Ns3Error(f"{path}: {err}") from None
    return flows


def _key(flow):
    return (round(flow["start_us"] * 1000), int(flow["from"][1:]), int(flow["to"][1:]),
            flow["bytes"])


def _acks_ns(run):
    """Return {(from, to): time of an ACK on the return path} of the flows of a run."""
    shape = Topology(scenario.build(run["settings"], run["scenario"], run["seed"]))
    return {(src, dst): shape.alone_ns(dst, src, 1)
            for src, dst in {(flow["from"], flow["to"]) for flow in run["flows"]}}


def pairs(run, ns3):
    """The finished flows of a run, as {bytes, ours, ns3}; ours and ns3 are (fct_ns, alone_ns)."""
    left = {key: list(times) for key, times in ns3.items()}
    acks, found = _acks_ns(run), []
    for flow in run["flows"]:
        times = left.get(_key(flow))
        if not times:
            raise Ns3Error(f"flow {flow['id']}: ns-3 has none from {flow['from']} to {flow['to']} of "
                           f"{shown(flow['bytes'])} bytes at {flow['start_us']:g} us")
        theirs = times.pop(0)
        if flow["slowdown"]:
            fct_ns, ack_ns = flow["fct_us"] * 1000, acks[flow["from"], flow["to"]]
            found.append({"bytes": flow["bytes"], "ns3": theirs,
                          "ours": (fct_ns + ack_ns, fct_ns / flow["slowdown"] + ack_ns)})
    return found


def _percentiles(values):
    values = sorted(values)
    return [results.percentile(values, p) for p in results.PERCENTILES]


def by_size(found):
    """{upper end of sizes, or "all": (flows, ns-3's percentiles of slowdown, ours)}"""
    table, low = {}, 0
    for size in (*results.SIZES, math.inf, "all"):
        part = found if size == "all" else [f for f in found if low < f["bytes"] <= size]
        if size != "all":
            low = size
        if part:
            table[size] = (len(part), *(_percentiles(f[who][0] / f[who][1] for f in part)
                                        for who in ("ns3", "ours")))
    return table


def waits_us(found):
    """Percentiles of the waiting times of short flows, in ns-3 and here."""
    short = [f for f in found if f["bytes"] <= SHORT]
    return [[max(t, 0) / 1000 for t in _percentiles(f[who][0] - f[who][1] for f in short)]
            for who in ("ns3", "ours")] if short else None


def misses(table):
    """Return [(size, percentile, our slowdown / slowdown in ns-3)] for the slowdowns that miss the goal.

    Percentiles that depend on few flows are not judged.
    """
    return [(size, percent, b / a) for size, (count, theirs, ours) in table.items()
            for percent, a, b in zip(results.PERCENTILES, theirs, ours)
            if b > a * (GOAL_ALL if size == "all" else GOAL_SIZE)
            and count * (100 - percent) >= 100 * FEW]


def _size(size):
    if size in ("all", math.inf):
        return "all" if size == "all" else f"> {results.SIZES[-1] // 1000} KB"
    return f"<= {size // 1000} KB"


def text(found):
    """The table that scripts/compare-ns3 prints."""
    def three(values):
        return "/".join(f"{value:.2f}" for value in values)
    lines = [f"{'to the last ACK':<22}{'flows':>6}  {'ns-3':<18}{'here':<18}here / ns-3"]
    table = by_size(found)
    for size, (count, theirs, ours) in table.items():
        lines.append(f"{_size(size):<22}{count:>6}  {three(theirs):<18}{three(ours):<18}"
                     + three(b / a for a, b in zip(theirs, ours)))
    waits = waits_us(found)
    if waits:
        lines.append(f"{'<= 3 KB, us waited':<22}{'':>6}  {three(waits[0]):<18}{three(waits[1]):<18}")
    missed = misses(table)
    lines += ["", f"percentiles with fewer than {FEW} flows above them do not count",
              "within the goal of 10 % for each size and 5 % for all" if not missed else
              "beyond the goal: " + ", ".join(f"{_size(size)} p{percent} x{ratio:.2f}"
                                              for size, percent, ratio in missed)]
    return "\n".join(lines)
