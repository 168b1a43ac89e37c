# SPDX-License-Identifier: GPL-2.0
"""The plan of hpcc-traffic: flows, what is measured, when. tools/traffic/main.c says what its
lines mean.
"""

from .network import PREFIX
from .sysctls import Sysctls

PORT_BASE = 5001
# Samples until the first flow can have ended, at the least.
SAMPLES = 400


class Traffic:
    """The plan of one scenario."""

    def __init__(self, scenario, topology):
        self.scenario = scenario
        self.topology = topology
        self.series = self._series_ports()

    def _series_ports(self):
        """Ports that data leave through are drawn over time."""
        ids = {port.id for flow in self.scenario.flows
               for port in self.topology.switch_ports(flow.src, flow.dst)}
        return sorted(ids)

    def _interval_ns(self):
        """At least SAMPLES until the shortest flow ends on an idle link."""
        if self.scenario.measure["interval"]:
            return self.scenario.measure["interval"]
        least = min(self.scenario.measure["until"] if flow.bytes is None else
                    flow.start_ns + flow.bytes * 8 * 10**9 // self.topology.rate(flow.src, flow.dst)
                    for flow in self.scenario.flows)
        return max(least // SAMPLES // 100 * 100, 1000)

    def text(self):
        """The plan's lines."""
        scenario, topology = self.scenario, self.topology
        sysctls = Sysctls(scenario, topology)
        lines = [f"ns {node} /run/netns/{PREFIX}{node}" for node in topology.peers]
        lines += [f"sysctl {node} {path} {value}" for node in topology.peers
                  for path, value in sysctls.of(node).items()]
        lines += [f"wait {p.node} {p.ifname}" for p in topology.ports]
        lines += [f"wait {host} eth0" for host in topology.hosts]
        lines += [f"port {p.id} {p.node} {p.ifname} {int(p.id in self.series)}"
                  for p in topology.ports]
        lines += [f"flow {f.id} {f.src} {f.dst} {topology.address(f.src)} "
                  f"{topology.address(f.dst)} {PORT_BASE + f.id} {f.bytes or 0} {f.start_ns} "
                  f"{f.cc}" for f in scenario.flows]
        lines += [f"interval {self._interval_ns()}", f"from {scenario.measure['from']}",
                  f"until {scenario.measure['until']}",
                  f"deadline {scenario.measure['deadline']}",
                  f"verify {int(scenario.verify)}"]
        return "\n".join(lines) + "\n"
