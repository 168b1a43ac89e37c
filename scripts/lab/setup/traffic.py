# SPDX-License-Identifier: GPL-2.0
"""The plan of hpcc-traffic: flows, programs, and the times and objects of measurements.
tools/traffic/main.c documents its lines.
"""

import itertools
import re

from ..model.scenario import ADDRESS
from ..model.topology import is_host
from . import qlog
from .network import PREFIX

# Minimum number of samples until the first flow can end or, with many flows, until the last flow starts.
SAMPLES = 400
# If there are more flows than this, no flow is drawn over time, because each flow costs a system call per sample.
FLOWS_DRAWN = 32
# Number of ports that are drawn over time: the ports with the most expected bytes.
PORTS_DRAWN = 16

# Directory of the programs' output, relative to that of the plan.
FILES = "files"
# Captures the headers of outgoing packets. Immediate mode, because the last packets would otherwise be lost at
# the end. tcpdump keeps running as root, because a guest has no other users. The shell opens the output file:
# tcpdump would call chown() on a file that it opens, which root in the guest of an ordinary user cannot do.
TCPDUMP = "tcpdump -q -n -Z root --immediate-mode -Q out -s 192 -B 65536 --time-stamp-precision=nano"


class Traffic:
    """The plan of one scenario."""

    def __init__(self, scenario, topology, changes=()):
        self.changes = changes
        self.scenario = scenario
        self.topology = topology
        self.series = self._series_ports()

    def _series_ports(self):
        """Ports that are drawn over time: those that the scenario names, or else the busiest of the ports
        that send data.
        """
        named = self.scenario.measure["ports"]
        if named:
            return sorted(port.id for port in self.topology.ports if f"{port.node}-{port.peer}" in named)
        planned = {}
        for (src, dst), size in self.scenario.planned_bytes().items():
            for port in self.topology.switch_ports(src, dst):
                planned[port.id] = planned.get(port.id, 0) + size
        return sorted(sorted(planned, key=lambda port: (-planned[port], port))[:PORTS_DRAWN])

    def _interval_ns(self):
        """Interval that gives at least SAMPLES samples. The end of a flow is estimated for idle links."""
        scenario, until = self.scenario, self.scenario.measure["until"]
        if scenario.measure["interval"]:
            return scenario.measure["interval"]
        if len(scenario.flows) > FLOWS_DRAWN:
            span = max(until, scenario.flows.last_ns())
        elif not scenario.flows:
            span = until or max([rpc.start_ns for rpc in scenario.rpcs] + [
                one.start_ns + one.steps * one.bound_ns(self.topology) for one in scenario.collectives])
        else:
            span = min((until if flow.bytes is None else flow.start_ns
                        + flow.bytes * 8 * 10**9 // self.topology.rate(flow.src, flow.dst)
                        for flow in scenario.flows), default=until)
        return max(span // SAMPLES // 100 * 100, 1000)

    @property
    def draws_flows(self):
        """Whether flows are drawn over time."""
        return len(self.scenario.flows) <= FLOWS_DRAWN

    def _programs(self):
        """The lines of programs, which write below FILES. The programs of the scenario come first,
        because results refer to them by number.
        """
        def command(run):
            return re.sub(ADDRESS, lambda match: self.topology.address(match[1]), run.command)
        lines = [f"run {run.host} {run.start_ns} {run.stop_ns or 0} {FILES}/run-{i}.txt {command(run)}"
                 for i, run in enumerate(self.scenario.runs)]
        lines += [f'run {self.topology.switches[0]} {at_ns} end - exec "$HPCC_NETWORK" change network {name}'
                  for at_ns, name in self.changes]
        for port in self.topology.ports:
            name = f"{port.node}-{port.peer}"
            if name in (self.scenario.measure["pcap"] or ()):
                lines.append(f"run {port.node} before end - exec {TCPDUMP} -i {port.ifname} "
                             f"-w - > {FILES}/pcap/{name}.pcap")
        return lines + list(qlog.lines(self.scenario, self.topology.address,
                                       self.scenario.measure["interval"] or max(self._interval_ns(), qlog.INTERVAL_NS)))

    def _cc(self, one):
        """The congestion control of a connection, and the DSCP of its class."""
        dscp = next((known.dscp for known in self.scenario.classes if known.name == one.class_name), 0)
        return f"{one.cc}/{dscp}" if dscp else one.cc

    def lines(self):
        """Yield the plan's lines. hpcc-traffic reads flows as the run goes, unless they have a connection at time zero."""
        scenario, topology = self.scenario, self.topology
        lines = [f"ns {node} /run/netns/{PREFIX}{node}"
                 + (f" {topology.address(node)}" if is_host(node) else "")
                 for node in topology.peers]
        lines += [f"port {p.id} {p.node} {p.ifname} {int(p.id in self.series)} {len(scenario.classes)}"
                  for p in topology.ports]
        lines += [f"rpc {r.id} {r.src} {r.dst} {r.request} {r.response} {r.count} {r.until_ns} "
                  f"{r.think_ns} {r.start_ns} {self._cc(r)}" for r in scenario.rpcs]
        for one in scenario.collectives:
            lines.append(f"collective {one.id} {one.start_ns} {one.steps}")
            lines += [" ".join(map(str, ("edge", edge.src, edge.dst, edge.bytes, edge.count, edge.free, one.cc,
                                         *edge.after))) for edge in one.edges]
        lines += self._programs()
        if scenario.workload.get("pool"):
            lines.append(f"pool {scenario.workload['pool']}")
        lines += [f"interval {self._interval_ns()}", f"from {scenario.measure['from']}",
                  f"until {scenario.measure['until']}",
                  f"deadline {scenario.measure['deadline']}",
                  f"verify {int(scenario.verify)}", f"series_flows {int(self.draws_flows)}"]
        yield from (f"{line}\n" for line in lines)
        flows = scenario.flows
        for f in flows if flows.connect == "before" or self.draws_flows else itertools.chain(flows.given, flows.by_start()):
            yield f"flow {f.id} {f.src} {f.dst} {f.bytes or 0} {f.start_ns} {self._cc(f)} {f.connect}\n"
