# SPDX-License-Identifier: GPL-2.0
"""Flows, ports and samples of runs as CSV: a line for each, with the cc and seed of the run."""

import csv

from ..run import flows as flow_files

PORT = ("node", "peer", "rate_bps", "data", "packets", "wire_bytes", "drops", "drops_ect", "drops_knonect",
        "marks", "marks_kmax", "stamped", "utilization")
QUEUE = ("p50", "p95", "p99", "max")
PORTS = (*PORT, *(f"queue_{name}_bytes" for name in QUEUE), "queue_whole_run_max_bytes", "cc", "seed")
SERIES = ("t_us", "kind", "name", "queue_bytes", "bps", "cc", "seed")
COLLECTIVES = ("collective", "kind", "ranks", "bytes", "step", "step_ns", "bound_ns", "collective_cc", "cc", "seed")
# The first file exists only if a run has at most flows.LISTED flows, the last one only if the scenario has collectives.
NAMES = ("flows.csv", "ports.csv", "series.csv", "collectives.csv")


def ports(results):
    """All egress ports of switches."""
    for result in results:
        for port in result["ports"]:
            yield (*(int(port[name]) if name == "data" else port[name] for name in PORT),
                   *(port["queue_bytes"][name] for name in QUEUE), port["queue_bytes_whole_run"]["max"],
                   result["cc"], result["seed"])


def series(results, series_of):
    """The samples of the first run of each congestion control."""
    for result in results:
        if result["cc"] not in series_of:
            continue
        one = series_of.pop(result["cc"])
        run = result["cc"], result["seed"]
        for port in one["ports"]:
            for t_us, size, bps in zip(one["t_us"], port["queue_bytes"], port["tx_bps"]):
                yield (t_us, "port", f"{port['node']} to {port['peer']}", size, round(bps), *run)
        for flow in one["flows"]:
            for t_us, bps in zip(one["t_us"], flow["rate_bps"]):
                yield (t_us, "flow", flow["id"], None, round(bps), *run)


def collectives(results):
    """All steps of collectives."""
    for result in results:
        for i, one in enumerate(result.get("collectives", ())):
            for step, us in enumerate(one["steps_us"]):
                yield (i, one["kind"], len(one["ranks"]), one["bytes"], step, flow_files.ns(us), flow_files.ns(one["bound_us"]),
                       one["cc"], result["cc"], result["seed"])


def write(directory, results, series_of):
    """Write flows, ports, samples and steps of collectives to CSV files in a directory."""
    listed = [result for result in results if isinstance(result["flows"], list)]
    rows = [(flow_files.row(flow, result) for result in listed for flow in result["flows"]), ports(results), series(results, dict(series_of))]
    if any("collectives" in result for result in results):
        rows.append(collectives(results))
    for name, head, body in list(zip(NAMES, (flow_files.COLUMNS, PORTS, SERIES, COLLECTIVES), rows))[not listed:]:
        with open(directory / name, "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(head)
            out.writerows(body)
