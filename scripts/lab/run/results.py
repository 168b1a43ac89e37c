# SPDX-License-Identifier: GPL-2.0
"""Makes results.json from the JSON lines of hpcc-traffic.

Queue lengths come from the qdisc's histogram of the bytes that each departing packet
left in the queue. A bucket stands for its largest value, so a figure may be too
large, but not too small. The lowest bucket stands for 0: it is narrower than the shortest
packet, so the queue was empty. All bucket sizes are read from the uapi header.
"""

import bisect
import contextlib
import ipaddress
import json
import math
import re
import statistics
import subprocess
from array import array
from pathlib import Path

from ..model.keys import CLASS_PORTS
from ..setup.traffic import FLOWS_DRAWN
from . import command, flows as flow_files, interval

TOP = Path(__file__).resolve().parents[3]
HEADER = TOP / "include/uapi/linux/hpcc.h"
VERSION = re.search('^PACKAGE_VERSION="(.*)"$', (TOP / "dkms.conf").read_text(encoding="utf-8"),
                    re.M)[1]
PERCENTILES = (50, 95, 99)
# Upper ends of the classes of flow sizes in bytes, as in the published results of HPCC.
SIZES = (1000, 3000, 10000, 30000, 100000, 300000, 1000000)
# Fairness is computed over spans of this length. A span is ignored if the sampling makes
# it longer by more than the tolerance.
JAIN_NS = 10**6
JAIN_TOLERANCE_NS = JAIN_NS // 10


def commit(digits):
    """The commit of these sources; "" if they are installed and not a checkout."""
    if not (TOP / ".git").exists():
        return ""
    try:
        done = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty", f"--abbrev={digits}", "--exclude=*"],
                              capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return "" if done.returncode else done.stdout.strip()


class EmptyWindow(Exception):
    """The measurement window is empty."""


def _histogram_shape():
    text = HEADER.read_text(encoding="utf-8")

    def value(name):
        return int(re.search(rf"^#define\s+{name}\s+(\d+)", text, re.M)[1])
    return value("HPCC_HIST_UNIT"), value("HPCC_HIST_SUB"), value("HPCC_HIST_BUCKETS")


UNIT, SUB, BUCKETS = _histogram_shape()


def bucket_low(bucket):
    """Smallest length in bytes that belongs to the bucket."""
    if bucket < 2 * SUB:
        return bucket * UNIT
    octave, part = divmod(bucket, SUB)
    return ((SUB + part) << (octave - 1)) * UNIT


def bucket_value(bucket, ceiling):
    """The length in bytes that the bucket stands for; the last bucket has no upper end."""
    if bucket == BUCKETS - 1:
        return ceiling
    return min(bucket_low(bucket + 1) - 1, ceiling) if bucket else 0


def percentile(values, percent):
    """The nearest-rank percentile of sorted values."""
    return values[-(-len(values) * percent // 100) - 1]


def counted_percentile(counts, percent):
    """The nearest-rank percentile of {value: number}; 0 without values."""
    total, seen = sum(counts.values()), 0
    for value, n in sorted(counts.items()):
        seen += n
        if seen * 100 >= percent * total:
            return value
    return 0


def queue_figures(hist, ceiling):
    """Percentiles and the maximum of a {bucket: packets} histogram."""
    counts = {int(b): n for b, n in hist.items() if n}
    return {f"p{p}": bucket_value(counted_percentile(counts, p), ceiling) for p in PERCENTILES} | {
        "max": bucket_value(max(counts, default=0), ceiling)}


def queue_hist(hist, ceiling):
    """Return {value of a bucket: packets}, sorted by value."""
    counts = {}
    for bucket, n in sorted((int(b), n) for b, n in hist.items() if n):
        value = str(bucket_value(bucket, ceiling))
        counts[value] = counts.get(value, 0) + n
    return counts


def _difference(late, early):
    return {b: n - early.get(b, 0) for b, n in late.items()}


class Records:
    """hpcc-traffic's output: the lines, sorted by kind, and the numbers of each flow by its id."""

    def __init__(self, lines, scenario):
        self.samples, self.hosts, self.runs, self.rpcs, self.collectives, self.observed = [], [], [], [], [], []
        self.count = len(scenario.flows)
        self.done_ns, self.received, self.retrans = (array(code, [0]) * self.count for code in "qQI")
        self.windows = {}       # of endless flows: bytes at start and end of the measurement window
        missing = self.count
        endless = {flow.id for flow in scenario.flows.given if flow.bytes is None}
        self.zero_ns = self.backlog_drops = 0
        self.ports = {"from": {}, "until": {}, "end": {}}
        for line in lines:
            if line.startswith("flow "):
                flow, done_ns, received, retrans, *window = map(int, line.split()[1:])
                missing -= 1
                self.done_ns[flow], self.received[flow], self.retrans[flow] = done_ns, received, retrans
                if flow in endless:
                    self.windows[flow] = window
                continue
            record = json.loads(line)
            if record["kind"] == "port":
                self.ports[record["when"]][record["id"]] = record
            elif record["kind"] == "zero":
                self.zero_ns = record["clock_ns"]
            elif record["kind"] == "kernel":
                self.backlog_drops = record["backlog_drops"]
            elif record["kind"] in ("host", "run", "rpc", "collective"):
                getattr(self, record["kind"] + "s").append(record)
            else:
                self.samples.append(record)
        if missing:
            raise ValueError(f"{missing} of {self.count} flows are missing")

    def has_flows(self):
        """Whether the last columns of the samples are the bytes that each flow received."""
        return self.count <= FLOWS_DRAWN

    def at(self, flow, index):
        """Bytes of a flow that had arrived at the time of a sample; the last columns of a sample belong to the flows."""
        values = self.samples[index]["values"]
        return values[len(values) - self.count + flow.id]

    def sample_at(self, t_ns):
        """Index of the first sample at or after t_ns; the number of samples if there is none."""
        return bisect.bisect_left(self.samples, t_ns, key=lambda sample: sample["t_ns"])


def jain(rates):
    """Jain's index: 1 if all rates are equal, 1/n if all but one are 0."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else None


def _active(flow, done_ns, begin_ns, end_ns):
    return flow.start_ns <= begin_ns and not 0 <= done_ns < end_ns


def fairness(scenario, records, early, late):
    """Jain's index of successive spans of 1 ms between early and late. Each span counts the
    flows that were active during the whole span. None if no span has two such flows, or if
    flows were not sampled.
    """
    if not records.has_flows():
        return None
    found, begin = [], records.sample_at(early)
    while begin < len(records.samples):
        begin_ns = records.samples[begin]["t_ns"]
        end = records.sample_at(begin_ns + JAIN_NS)
        if end == len(records.samples) or records.samples[end]["t_ns"] > late:
            break
        end_ns = records.samples[end]["t_ns"]
        rates = [records.at(flow, end) - records.at(flow, begin) for flow in scenario.flows
                 if _active(flow, records.done_ns[flow.id], begin_ns, end_ns)]
        if len(rates) > 1 and any(rates) and end_ns - begin_ns <= JAIN_NS + JAIN_TOLERANCE_NS:
            found.append(jain(rates))
        begin = end
    if not found:
        return None
    return {"min": round(min(found), 6), "mean": round(sum(found) / len(found), 6),
            "spans": len(found)}


def _rpc(rpc, record):
    """Latency is the time from the scheduled start of a request until its response has arrived."""
    times = record["latency_ns"]
    return {
        "id": rpc.id, "from": rpc.src, "to": rpc.dst, "request": rpc.request, "response": rpc.response,
        "cc": rpc.cc, "calls": len(times), "done": record["done"],
        "latency_us": _percentiles_us(times),
    }


def _percentiles_us(times):
    times = sorted(times)
    return {f"p{p}": percentile(times, p) / 1000 for p in PERCENTILES} | {
        "mean": round(sum(times) / len(times) / 1000, 3), "max": times[-1] / 1000} if times else None


def _collective(one, record, topology):
    """The time of a step is that from its beginning until its last message has arrived."""
    times = record["step_ns"]
    return {
        "kind": one.kind, "ranks": one.ranks, "bytes": one.bytes, "cc": one.cc, "steps": len(times),
        "done": len(times) == one.steps, "retrans": record["retrans"],
        "bound_us": one.bound_ns(topology) / 1000, "step_us": _percentiles_us(times),
        "steps_us": [ns / 1000 for ns in times],
    }


def _run(run, record):
    """status: exit status of the shell, or null if it was still running. stopped: the testbed ended it."""
    return {
        "host": run.host, "command": run.command,
        "started_us": record["started_ns"] / 1000 if record["started"] else None,
        "ended_us": record["ended_ns"] / 1000 if record["ended"] else None,
        "stopped": record["stopped"], "status": record["status"] if record["ended"] else None,
    }


def _observed(topology, ends):
    """The connections that hpccmon observed, and the busiest hop of each end that measured one. Only its name tells
    the port of a hop.
    """
    hosts = {ipaddress.ip_address(topology.address(host)): host for host in topology.hosts}
    ends = [end for end in ends if end["mode"] == "observed"]
    numbers = {(i + 1, n + 1): f"{node}-{peer}" for i, node in enumerate(topology.switches)
               for n, peer in enumerate(topology.peers[node])}
    flows = [{"from": hosts[ipaddress.ip_address(end["laddr"])], "to": hosts[ipaddress.ip_address(end["raddr"])],
              "hop": int(hop["hop"]), "port": numbers.get((hop.get("node"), hop.get("port", 0) % CLASS_PORTS)),
              "u": float(hop["u"]), "queue_us": hop.get("qlen_ns", 0) / 1000, "U": float(end["U"])}
             for end in ends for hop in end["hops"] if hop["hop"] == end.get("holds")]
    return {"flows": len({frozenset([(end["laddr"], end["lport"]), (end["raddr"], end["rport"])]) for end in ends}),
            "measured": sorted(flows, key=lambda flow: -flow["U"])}


def _more(scenario, topology, records):
    """Results that only some scenarios have."""
    more = {"sources": {part.name: part.digest for part in scenario.parts or () if part.digest}}
    more = more if more["sources"] else {}
    if scenario.rpcs:
        more["rpcs"] = [_rpc(*pair) for pair in zip(scenario.rpcs, records.rpcs)]
    if scenario.collectives:
        more["collectives"] = [_collective(*pair, topology)
                               for pair in zip(scenario.collectives, records.collectives)]
    if scenario.runs:
        more["runs"] = [_run(*pair) for pair in zip(scenario.runs, records.runs)]
    if scenario.cc["observe"]:
        more["observed"] = _observed(topology, records.observed)
    if scenario.measure["pcap"]:
        more["time_zero"] = f"{records.zero_ns // 10**9}.{records.zero_ns % 10**9:09}"
    return more


def _hosts(records):
    """Sums over all hosts of RTOs and of the counters in /proc/net/hpcc and /proc/net/ldcp."""
    total = {"timeouts": sum(host["timeouts"] for host in records.hosts),
             "backlog_drops": records.backlog_drops}
    for host in records.hosts:
        for module in "hpcc", "ldcp":
            for name, value in host.get(module, {}).items():
                total.setdefault(module, {}).setdefault(name, 0)
                total[module][name] += value
    return total


def _port(port, rate_bps, data, marks, records):
    early, late, end = (records.ports[when][port.id] for when in ("from", "until", "end"))
    span_ns = late["t_ns"] - early["t_ns"]
    bits = (late["tx_bytes"] - early["tx_bytes"]) * 8
    hist = _difference(late["hist"], early["hist"])
    return {
        "node": port.node, "peer": port.peer, "rate_bps": rate_bps, "data": data,
        "packets": end["tx_packets"], "wire_bytes": end["tx_bytes"], "drops": end["drops"],
        "drops_ect": end["drops_ect"], "drops_knonect": end["drops_knonect"],
        "marks": end["marks"] if marks else None, "marks_kmax": end["marks_kmax"] if marks else None,
        "stamped": end["stamped"],
        "marking": _marking(end),
        "utilization": round(bits * 10**9 / (rate_bps * span_ns), 6),
        "queue_bytes": queue_figures(hist, late["queue_max"]),
        "queue_bytes_whole_run": queue_figures(end["hist"], end["queue_max"]),
        "queue_hist": queue_hist(hist, late["queue_max"]),
    }


def _marking(record):
    """The thresholds in force, also those that are derived from the rate."""
    if "kmax" not in record:
        return None
    return {"kmin": record["kmin"], "kmax": record["kmax"], "knonect": record["knonect"],
            "pmax": record["pmax_ppm"] / 10**6}


def window(records):
    """The measurement window as (from, until) in ns."""
    def when(name):
        for record in records.ports[name].values():
            return record["t_ns"]
        return None
    early, late = when("from"), when("until")
    if early is None or late is None or late <= early:
        raise EmptyWindow("the measurement window is empty: the first flow "
                          "ended before measure.from, or none ended before "
                          "measure.deadline")
    return early, late


def build(scenario, topology, records, kernel, seed):
    """results.json without its wall-clock part."""
    early, late = window(records)
    # The time of a sample is its scheduled time, like measure.from.
    due = scenario.measure["from"]
    data = {port.id for pair in scenario.pairs() for port in topology.switch_ports(*pair)}
    flows = flow_files.Measured(scenario, topology, records, (early, late))
    many = len(flows) > flow_files.LISTED
    return {
        "scenario": scenario.name, "cc": scenario.cc_label(), "kernel": kernel, "seed": seed,
        "version": VERSION, "settings": scenario.settings(flow_files.NAME if many else None),
        "window_us": [early / 1000, late / 1000],
        "jain_1ms": fairness(scenario, records, due, late),
        "hosts": _hosts(records),
        "flows": flows if many else list(flows),
        "ports": [_port(port, scenario.link_of(port.node, port.peer)["rate"], port.id in data,
                        scenario.queue() == "fifo", records)
                  for port in topology.ports],
    } | _more(scenario, topology, records)


def series(scenario, topology, plan, records):
    """The data of the plots over time: queue and throughput per port, rate per flow."""
    ports = [topology.ports[i] for i in plan.series]
    times = [sample["t_ns"] / 1000 for sample in records.samples]
    columns = list(zip(*(sample["values"] for sample in records.samples)))

    def rates(counts):
        result = [0.0]
        for i in range(1, len(counts)):
            span_us = times[i] - times[i - 1]
            result.append(round((counts[i] - counts[i - 1]) * 8e6 / span_us) if span_us else 0.0)
        return result
    return {
        "t_us": times,
        "ports": [{"node": port.node, "peer": port.peer, "queue_bytes": columns[2 * i],
                   "tx_bps": rates(columns[2 * i + 1])} for i, port in enumerate(ports)],
        "flows": [{"id": flow.id, "from": flow.src, "to": flow.dst,
                   "rate_bps": rates(columns[2 * len(ports) + i])}
                  for i, flow in enumerate(scenario.flows if plan.draws_flows else ())],
    }


def runs_of(data):
    """The runs of a results.json. If it has flows it is a single run, and its "runs" are programs."""
    return data["runs"] if "runs" in data and "flows" not in data else [data]


def read(path):
    """The contents of a results.json; raises ScenarioError. Flows that are in another file are read from there each
    time that a reader iterates over "flows", so that they take no memory.
    """
    data = command.read_json(path)
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):      # who uses the contents reports the error
        for run in runs_of(data):
            if isinstance(run.get("flows"), dict):
                run["flows"] = flow_files.Stored(Path(path).with_name(run["flows"]["file"]), run["flows"])
    return data


def text(data):
    """The text of a results.json."""
    return json.dumps(data, indent=1, default=lambda flows: flows.written) + "\n"


def slowdowns(results_of):
    """Percentiles of slowdown by size over the flows of several runs: {size: (flows, p50, p95,
    p99)}. size is the upper end of a class, or "all".
    """
    found = {size: array("d") for size in (*SIZES, math.inf, "all")}
    for result in results_of:
        for flow in result["flows"]:
            if flow["slowdown"]:
                found["all"].append(flow["slowdown"])
                found[(*SIZES, math.inf)[bisect.bisect_left(SIZES, flow["bytes"])]].append(flow["slowdown"])
    parts = {size: sorted(part) for size, part in found.items() if part}
    return {size: (len(part), *(percentile(part, p) for p in PERCENTILES)) for size, part in parts.items()}


def seeds_slowdown(results_of):
    """Like slowdowns(), but compute each percentile for each run separately. Return the mean over
    the runs and half of its 95 % confidence interval: {size: (flows, [(mean, half), ...])}. A run
    without flows of a size does not count for that size; half is None for a single run.
    """
    each = [slowdowns([result]) for result in results_of]
    found = {}
    for size in *SIZES, math.inf, "all":
        rows = [row[size] for row in each if size in row]
        if rows:
            columns = list(zip(*rows))
            found[size] = (sum(columns[0]), [(statistics.mean(column), interval.half(column))
                                             for column in columns[1:]])
    return found


def summary(result):
    """The figures of one run for one line of a table."""
    fcts, goodputs = array("d"), array("Q")
    endless, retrans = 0, sum(one["retrans"] for one in result.get("collectives", ()))
    for flow in result["flows"]:
        if flow["fct_us"] is not None:
            fcts.append(flow["fct_us"])
        if flow["goodput_bps"]:
            goodputs.append(flow["goodput_bps"])
        endless += flow["bytes"] is None
        retrans += flow["retrans"]
    data_ports = [port for port in result["ports"] if port["data"]]
    busiest = max(data_ports or result["ports"], key=lambda port: port["wire_bytes"])
    return {
        "cc": result["cc"], "seed": result["seed"],
        "utilization": busiest["utilization"],
        "queue": busiest["queue_bytes"],
        "queue_whole_run": busiest["queue_bytes_whole_run"],
        "drops": sum(port["drops"] for port in result["ports"]),
        # Those of other qdiscs are not known.
        "marks": None if result["ports"][0]["marks"] is None else sum(port["marks"] for port in result["ports"]),
        "retrans": retrans,
        "fct_median_us": sorted(fcts)[len(fcts) // 2] if fcts else None,
        "fct_max_us": max(fcts) if fcts and len(fcts) + endless == len(result["flows"]) else None,
        "unfinished": len(result["flows"]) - len(fcts) - endless,
        "unfinished_collectives": [i for i, one in enumerate(result.get("collectives", ())) if not one["done"]],
        "endless": endless,
        "fairness": jain(goodputs) if goodputs else None,
        "fairness_1ms": result["jain_1ms"]["min"] if result["jain_1ms"] else None,
        "timeouts": result["hosts"]["timeouts"],
        "backlog_drops": result["hosts"].get("backlog_drops", 0),
        "port": f"{busiest['node']} to {busiest['peer']}",
        "marking": busiest["marking"],
        "window_us": result["window_us"][1] - result["window_us"][0],
        "hpcc": result["hosts"].get("hpcc", {}),
    }
