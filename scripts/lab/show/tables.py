# SPDX-License-Identifier: GPL-2.0
"""Flows, ports and samples of runs as CSV: a line for each, with the cc and seed of the run."""

import csv

FLOWS = ("start_ns", "from", "to", "bytes", "fct_ns", "alone_ns", "slowdown", "goodput_bps", "retrans", "id",
         "flow_cc", "cc", "seed")
PORT = ("node", "peer", "rate_bps", "data", "packets", "wire_bytes", "drops", "drops_ect", "drops_knonect",
        "marks", "marks_kmax", "stamped", "utilization")
QUEUE = ("p50", "p95", "p99", "max")
PORTS = (*PORT, *(f"queue_{name}_bytes" for name in QUEUE), "queue_whole_run_max_bytes", "cc", "seed")
SERIES = ("t_us", "kind", "name", "queue_bytes", "bps", "cc", "seed")
COLLECTIVES = ("collective", "kind", "ranks", "bytes", "step", "step_ns", "bound_ns", "collective_cc", "cc", "seed")
# The last file exists only if the scenario has collectives.
NAMES = ("flows.csv", "ports.csv", "series.csv", "collectives.csv")


def _ns(us):
    return None if us is None else round(us * 1000)


def flows(results):
    """All flows. The first columns have the form that workload.flows reads; hosts are numbers."""
    for result in results:
        for flow in result["flows"]:
            yield (_ns(flow["start_us"]), int(flow["from"][1:]), int(flow["to"][1:]), flow["bytes"],
                   _ns(flow["fct_us"]), _ns(flow["alone_us"]), flow["slowdown"], flow["goodput_bps"],
                   flow["retrans"], flow["id"], flow["cc"], result["cc"], result["seed"])


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
                yield (i, one["kind"], len(one["ranks"]), one["bytes"], step, _ns(us), _ns(one["bound_us"]),
                       one["cc"], result["cc"], result["seed"])


def write(directory, results, series_of):
    """Write flows, ports, samples and steps of collectives to CSV files in a directory."""
    rows = [flows(results), ports(results), series(results, dict(series_of))]
    if any("collectives" in result for result in results):
        rows.append(collectives(results))
    for name, head, body in zip(NAMES, (FLOWS, PORTS, SERIES, COLLECTIVES), rows):
        with open(directory / name, "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(head)
            out.writerows(body)
