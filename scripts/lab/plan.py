# SPDX-License-Identifier: GPL-2.0
"""A scenario as the files that carry it out: those of its network, the plan of
hpcc-traffic, and the shell script that runs them in order.

The same files serve a guest and the host itself. Nothing is left to chance.
"""

import shlex

from . import units
from .network import PREFIX, Network
from .sysctls import base_rtt_ns
from .traffic import Traffic

# Packets that a guest's CPU may have to receive at one instant: of 300 hosts more than Linux's 1000.
BACKLOG = 10**6


class Plan:
    """Text of every file, by name, for one scenario and congestion control."""

    def __init__(self, scenario, topology):
        self.scenario = scenario
        self.topology = topology
        network = Network(scenario, topology)
        traffic = Traffic(scenario, topology, network.changes)
        self.series = traffic.series
        self.draws_flows = traffic.draws_flows
        self.network = network.files
        self.files = self.network | {"plan": traffic.text(), "main.sh": self._script()}

    def _script(self):
        """Runs in the directory of the files, with HPCC_NETWORK and HPCC_TRAFFIC set; "keep" leaves
        the network to the guest's end.
        """
        lines = ["# SPDX-License-Identifier: GPL-2.0", "set -eu",
                 'if [ "${1:-}" != keep ]; then',
                 "\ttrap '\"$HPCC_NETWORK\" down network' EXIT",
                 "\ttrap 'exit 130' INT TERM",
                 '\t"$HPCC_NETWORK" down network', "else",
                 f"\techo {BACKLOG} > /proc/sys/net/core/netdev_max_backlog", "fi",
                 '"$HPCC_NETWORK" up network']
        batches = [name.removesuffix(".tc") for name in self.network if name.endswith(".tc")]
        if batches:
            lines += [': "${TC_LIB_DIR:=$(dirname "$(find /usr/lib -name q_hpcc.so | head -n 1)")}"',
                      'ln -s "$TC_LIB_DIR/q_hpcc.so" .', 'export TC_LIB_DIR=$PWD']
        lines += [f"tc -n {shlex.quote(PREFIX + node)} -batch {node}.tc" for node in batches]
        lines += ["uname -r > kernel", '"$HPCC_TRAFFIC" run plan result']
        return "\n".join(lines) + "\n"


def describe(scenario, topology):
    """One line about the scenario, for reports."""
    shape = scenario.topology

    def span(show, key):
        values = sorted({link[key] for link in topology.all_links()})
        return " to ".join(show(value) for value in dict.fromkeys((values[0], values[-1])))
    rtt = base_rtt_ns(scenario, topology)
    return (f"{shape['kind']} of {shape['hosts']} hosts, {span(units.show_rate, 'rate')}, "
            f"{span(units.show_time, 'delay')} per link, base RTT {units.show_time(rtt)}, "
            f"buffer {span(units.show_bytes, 'buffer')}, IPv{scenario.ip}")
