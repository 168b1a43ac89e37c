# SPDX-License-Identifier: GPL-2.0
"""A scenario as the files that carry it out: batches for ip, bridge and tc, the
plan of hpcc-traffic, and the shell script that runs them in order.

The same files serve a guest and the host itself. Nothing is left to chance:
hardware addresses, neighbours and forwarding entries are static.
"""

import shlex

from . import units
from .scenario import W_AI_MAX

PREFIX = "hpcc-"
PORT_BASE = 5001
# The host's own queue: TCP's small queues keep it short.
HOST_LIMIT = 64 * 10**6
TCP_MEMORY = "4096 1048576 134217728"
# Samples until the first flow can have ended, at the least.
SAMPLES = 400
# netem's queue is no part of the model; it must not drop.
NETEM_LIMIT = 1000000
# Entries in a table of delays (16384 at most), and the value that is one jitter.
NETEM_TABLE = 10000
NETEM_SCALE = 8192
# tc accepts a table with no less; it is taken from the link's own delay.
NETEM_DELAY_NS = 1000


def w_ai_bytes(scenario, base_rtt_ns):
    """W_ai in bytes per update; 0 lets the kernel derive it from n_flows."""
    if scenario.cc["w_ai"] is None:
        return 0
    kind, value = scenario.cc["w_ai"]
    if kind == "rate":
        value = value * base_rtt_ns // (8 * 10**9)
    return min(max(value, 1), W_AI_MAX)


def base_rtt_ns(scenario, topology, host=None):
    """T of a sending host, the longest of its paths; of all without host."""
    times = [topology.base_rtt_ns(flow.src, flow.dst) for flow in scenario.flows
             if host in (None, flow.src)]
    return max(times)


def _sysctls(module, values):
    """Those that the scenario does not give keep the module's default."""
    return {f"net/{module}/{key}": value for key, value in values.items() if value is not None}


class Plan:
    """Text of every file, by name, for one scenario and congestion control."""

    def __init__(self, scenario, topology):
        self.scenario = scenario
        self.topology = topology
        self.series = self._series_ports()
        self.files = {"links.ip": self._links(), "plan": self._plan(), "clean.ip": "".join(
            f"netns del {PREFIX}{node}\n" for node in topology.peers)}
        for node in topology.peers:
            self.files[f"{node}.ip"] = self._addresses(node)
            self.files[f"{node}.tc"] = self._qdiscs(node)
        for switch in topology.switches:
            self.files[f"{switch}.bridge"] = self._forwarding(switch)
        if scenario.impair["reorder"]:
            self.files["late.dist"] = self._late()
        self.files["main.sh"] = self._script()

    def _series_ports(self):
        """Ports that data leave through are drawn over time."""
        ids = {port.id for flow in self.scenario.flows
               for port in self.topology.switch_ports(flow.src, flow.dst)}
        return sorted(ids)

    def _links(self):
        mtu = self.scenario.link["mtu"]
        lines = [f"netns add {PREFIX}{node}" for node in self.topology.peers]
        for a, b in self.topology.links:
            name_a = "eth0" if a.startswith("h") else b
            mac = f" address {self.topology.mac(a)}" if a.startswith("h") else ""
            lines.append(f"link add name {name_a} netns {PREFIX}{a} mtu {mtu}{mac} type veth "
                         f"peer name {a} netns {PREFIX}{b} mtu {mtu}")
        return "\n".join(lines) + "\n"

    def _addresses(self, node):
        if node.startswith("s"):
            lines = ["link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0"]
            for peer in self.topology.peers[node]:
                lines += [f"link set {peer} master br0", f"link set {peer} up"]
            lines.append("link set br0 up")
            return "\n".join(lines) + "\n"
        plen = 64 if self.scenario.ip == 6 else 16
        flags = " nodad" if self.scenario.ip == 6 else ""
        lines = [f"addr add {self.topology.address(node)}/{plen} dev eth0{flags}",
                 "link set eth0 up"]
        for peer in self._partners(node):
            lines.append(f"neigh add {self.topology.address(peer)} "
                         f"lladdr {self.topology.mac(peer)} dev eth0 nud permanent")
        lines += [f"route add {self.topology.address(peer)} dev eth0 quickack 1"
                  for peer in self._ldcp_senders(node)]
        return "\n".join(lines) + "\n"

    def _partners(self, host):
        """Hosts that it exchanges packets with."""
        partners = {}
        for flow in self.scenario.flows:
            if flow.src == host:
                partners[flow.dst] = True
            elif flow.dst == host:
                partners[flow.src] = True
        return list(partners)

    def _ldcp_senders(self, host):
        """Hosts whose packets it acknowledges one by one."""
        return list(dict.fromkeys(flow.src for flow in self.scenario.flows
                                  if flow.dst == host and flow.cc == "ldcp"))

    def _forwarding(self, switch):
        hosts = {h: True for flow in self.scenario.flows for h in (flow.src, flow.dst)}
        return "".join(
            f"fdb add {self.topology.mac(host)} "
            f"dev {self.topology.path(switch, host)[1]} master static\n" for host in hosts)

    # ---- qdiscs

    def _qdiscs(self, node):
        if node.startswith("h"):
            link = self.topology.access(node)
            return self._qdisc("eth0", "root", link | {"buffer": HOST_LIMIT}, "nostamp")
        lines = []
        for index, port in enumerate(p for p in self.topology.ports if p.node == node):
            parent = "root"
            netem = self._netem(port)
            link = self.topology.link_of(port.node, port.peer)
            if " delay " in netem:
                link |= {"delay": link["delay"] - NETEM_DELAY_NS}
            if netem:
                lines.append(f"qdisc add dev {port.ifname} root handle 1: netem "
                             f"limit {NETEM_LIMIT}{netem}\n")
                parent = "parent 1:1"
            above = self.scenario.qdisc["above"]
            stamp = "stamp" + (f" above {above}b" if above else "")
            if "hpcc" not in self.scenario.cc_names():
                stamp = "nostamp"
            names = f"node {int(node[1:]) + 1} port {index + 1} {stamp}{self._marking()}"
            lines.append(self._qdisc(port.ifname, parent, link, names))
        return "".join(lines)

    def _marking(self):
        """Thresholds that are not given are derived from the rate."""
        qdisc = self.scenario.qdisc
        if qdisc["marking"] == "off":
            return ""
        text = f" marking {qdisc['marking']}"
        for key in ("kmin", "kmax", "knonect"):
            if qdisc[key] is not None:
                text += f" {key} {qdisc[key]}b"
        return text + (f" pmax {qdisc['pmax']:g}" if qdisc["pmax"] is not None else "")

    @staticmethod
    def _qdisc(ifname, parent, link, more):
        return (f"qdisc add dev {ifname} {parent} handle 10: hpcc rate {link['rate']}bit "
                f"limit {link['buffer']}b overhead {link['overhead']} delay {link['delay']}ns "
                f"{more}\n")

    def _netem(self, port):
        """Impairments: data at their last switch port, ACKs at theirs."""
        impair, text = self.scenario.impair, ""
        sinks = {flow.dst for flow in self.scenario.flows}
        sources = {flow.src for flow in self.scenario.flows}
        loss = max(impair["data_loss"] if port.peer in sinks else 0,
                   impair["ack_loss"] if port.peer in sources else 0)
        if loss:
            text += f" loss {100 * loss:g}%"
        if impair["reorder"] and port.peer in sinks:
            text += (f" delay {NETEM_DELAY_NS // 1000}us {impair['reorder_delay'] // 1000}us "
                     "distribution late")
        return text

    def _late(self):
        """netem's table of delays: one jitter for a few packets, else nothing.

        Its option "reorder" would send the others past the child qdisc.
        """
        late = round(self.scenario.impair["reorder"] * NETEM_TABLE)
        return "\n".join([str(NETEM_SCALE)] * late + ["0"] * (NETEM_TABLE - late)) + "\n"

    # ---- hpcc-traffic's plan

    def _sysctls(self, node):
        if node.startswith("s"):
            return {"net/ipv6/conf/all/disable_ipv6": 1}
        values = {
            "net/ipv4/tcp_rmem": TCP_MEMORY,
            "net/ipv4/tcp_wmem": TCP_MEMORY,
            "net/ipv4/tcp_no_metrics_save": 1,
            "net/ipv6/conf/all/disable_ipv6": int(self.scenario.ip != 6),
        }
        if self.scenario.ip == 6:
            values |= {f"net/ipv6/conf/eth0/{key}": 0 for key in
                       ("accept_ra", "accept_dad", "dad_transmits", "router_solicitations")}
        names = self.scenario.cc_names()
        if "hpcc" in names:
            values |= self._hpcc_sysctls(node)
        if "ldcp" in names:
            values |= self._ldcp_sysctls(node)
        return values

    def _path_sysctls(self, host):
        """What both modules want to know; T of hosts that send."""
        cc = self.scenario.cc
        values = {"host_mbps": max(self.topology.access(host)["rate"] // 10**6, 1),
                  "burst": cc["burst"], "burst_shift": cc["burst_shift"]}
        if any(flow.src == host for flow in self.scenario.flows):
            values["base_rtt_ns"] = cc["base_rtt"] if cc["base_rtt"] != "auto" else \
                base_rtt_ns(self.scenario, self.topology, host)
        return values

    def _hpcc_sysctls(self, host):
        cc = self.scenario.cc
        values = self._path_sysctls(host) | {
            "eta_permille": round(cc["eta"] * 1000),
            "max_stage": cc["max_stage"],
            "n_flows": cc["n_flows"],
            "burst_ns": cc["burst_ns"], "pace": cc["pace"], "slots": cc["slots"],
            "sample": cc["sample"], "carry": cc["carry"],
        }
        if "base_rtt_ns" in values:
            rtt_ns = values["base_rtt_ns"] or base_rtt_ns(self.scenario, self.topology, host)
            values["w_ai"] = w_ai_bytes(self.scenario, rtt_ns)
        return _sysctls("hpcc", values)

    def _ldcp_sysctls(self, host):
        cc = self.scenario.cc
        values = self._path_sysctls(host) | {
            f"{key}_permille": round(cc[key] * 1000)
            for key in ("alpha", "beta", "gamma") if cc[key] is not None}
        values["iw"] = cc["iw"]
        if cc["fast_start"] is not None:
            values["fast_start"] = int(cc["fast_start"])
        return _sysctls("ldcp", values)

    def _interval_ns(self):
        """At least SAMPLES until the shortest flow ends on an idle link."""
        if self.scenario.measure["interval"]:
            return self.scenario.measure["interval"]
        least = min(self.scenario.measure["until"] if flow.bytes is None else
                    flow.start_ns + flow.bytes * 8 * 10**9 // self.topology.rate(flow.src, flow.dst)
                    for flow in self.scenario.flows)
        return max(least // SAMPLES // 100 * 100, 1000)

    def _plan(self):
        scenario, topology = self.scenario, self.topology
        lines = [f"ns {node} /run/netns/{PREFIX}{node}" for node in topology.peers]
        lines += [f"sysctl {node} {path} {value}" for node in topology.peers
                  for path, value in self._sysctls(node).items()]
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

    # ---- the script

    def _script(self):
        """Runs in the directory of the files, with HPCC_TRAFFIC set."""
        lines = ["# SPDX-License-Identifier: GPL-2.0", "set -eu",
                 "clean() { ip -force -batch clean.ip 2>/dev/null || :; }",
                 "trap clean EXIT", "trap 'exit 130' INT TERM", "clean",
                 ': "${TC_LIB_DIR:=$(dirname "$(find /usr/lib -name q_hpcc.so | head -n 1)")}"',
                 'ln -s "$TC_LIB_DIR/q_hpcc.so" .', 'export TC_LIB_DIR=$PWD',
                 "ip -batch links.ip", '"$HPCC_TRAFFIC" prepare plan']
        for node in self.topology.peers:
            ns = shlex.quote(PREFIX + node)
            lines.append(f"ip -n {ns} -batch {node}.ip")
            if node.startswith("s"):
                lines.append(f"bridge -n {ns} -batch {node}.bridge")
            lines.append(f"tc -n {ns} -batch {node}.tc")
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
