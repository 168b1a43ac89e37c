# SPDX-License-Identifier: GPL-2.0
"""The files that execute a scenario: those of its network, the plan of hpcc-traffic,
and the shell script that runs them in order.

A guest and the host itself use the same files, and the same scenario always
results in equal files.
"""

import shlex
from pathlib import Path

from ..model import units
from ..model.keys import OBSERVED_MAX
from . import qlog
from .network import PREFIX, Network
from .sysctls import base_rtt_ns
from .traffic import Traffic

# This list applies to all namespaces of the kernel.
ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"


def _observer(hosts):
    """The lines that start hpccmon observe, and those that write the flows of all hosts to a file at the end."""
    return ["mount -t cgroup2 cgroup2 /sys/fs/cgroup",
            f'"$HPCCMON" observe --ended --flows={4 * OBSERVED_MAX} 2> observer &',
            "tries=0", "until grep -q ^observing observer; do",
            "\t[ $((tries += 1)) -le 100 ] || { cat observer >&2; exit 1; }", "\tsleep 0.01", "done"], \
        [f"for host in {' '.join(hosts)}; do",
         f'\tnsenter --net=/run/netns/{PREFIX}$host "$HPCCMON" flow --json > $host.observed || :', "done"]


class Plan:
    """The files of one scenario and congestion control; files is {name: text}. lines() are those of the file "plan"."""

    def __init__(self, scenario, topology):
        self.scenario = scenario
        self.topology = topology
        network = Network(scenario, topology)
        traffic = Traffic(scenario, topology, network.changes)
        self.series = traffic.series
        self.draws_flows = traffic.draws_flows
        self.network = network.files
        self.lines = traffic.lines
        self.files = self.network | {"main.sh": self._script()}
        if scenario.measure["qlog"]:
            self.files["qlog.py"] = Path(qlog.__file__).read_text(encoding="utf-8")

    def _allowed(self):
        """Allow the congestion control of programs to all users; otherwise a namespace does not accept it as its default.
        Return the lines that add it to the list, and the command that restores the list at the end.
        """
        if not self.scenario.runs:
            return [], ""
        return ([f"allowed=$(cat {ALLOWED})", f'echo "$allowed {self.scenario.cc["name"]}" > {ALLOWED}'],
                f'; [ -z "${{allowed:-}}" ] || echo "$allowed" > {ALLOWED}')

    def _script(self):
        """The script runs in the directory of the files, with HPCC_NETWORK and HPCC_TRAFFIC set. With the
        argument "keep" it does not remove the network at the end.
        """
        allow, restore = self._allowed()
        lines = ["# SPDX-License-Identifier: GPL-2.0", "set -eu",
                 'if [ "${1:-}" != keep ]; then',
                 f"\ttrap '\"$HPCC_NETWORK\" down network{restore}' EXIT",
                 "\ttrap 'exit 130' INT TERM",
                 '\t"$HPCC_NETWORK" down network', "fi", *allow, '"$HPCC_NETWORK" up network']
        batches = [name.removesuffix(".tc") for name in self.network if name.endswith(".tc")]
        if batches:
            lines += [': "${TC_LIB_DIR:=$(dirname "$(find /usr/lib -name q_hpcc.so | head -n 1)")}"',
                      'ln -s "$TC_LIB_DIR/q_hpcc.so" .', 'export TC_LIB_DIR=$PWD']
        lines += [f"tc -n {shlex.quote(PREFIX + node)} -batch {node}.tc" for node in batches]
        observe, seen = _observer(self.topology.hosts) if self.scenario.cc["observe"] else ([], [])
        lines += ["uname -r > kernel", *observe, '"$HPCC_TRAFFIC" run plan result', *seen]
        return "\n".join(lines) + "\n"


def describe(scenario, topology):
    """Describe the scenario in one line, for reports."""
    shape = scenario.topology

    def span(show, key):
        values = sorted({link[key] for link in topology.all_links()})
        return " to ".join(show(value) for value in dict.fromkeys((values[0], values[-1])))
    rtt = base_rtt_ns(scenario, topology)
    return (f"{shape['kind']} of {shape['hosts']} hosts, {span(units.show_rate, 'rate')}, "
            f"{span(units.show_time, 'delay')} per link, base RTT {units.show_time(rtt)}, "
            f"buffer {span(units.show_bytes, 'buffer')}, IPv{scenario.ip}"
            + (f", queue {scenario.queue()}" if scenario.queue() != "fifo" else ""))
