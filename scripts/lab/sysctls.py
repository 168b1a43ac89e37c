# SPDX-License-Identifier: GPL-2.0
"""What the nodes of a scenario are told by sysctl."""

from .keys import W_AI_MAX

TCP_MEMORY = "4096 1048576 134217728"


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


def _given(module, values):
    """Those that the scenario does not give keep the module's default."""
    return {f"net/{module}/{key}": value for key, value in values.items() if value is not None}


class Sysctls:
    """The sysctls of every node of a scenario."""

    def __init__(self, scenario, topology):
        self.scenario = scenario
        self.topology = topology

    def of(self, node):
        """{path below /proc/sys: value} of a node."""
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
        return _given("hpcc", values)

    def _ldcp_sysctls(self, host):
        cc = self.scenario.cc
        values = self._path_sysctls(host) | {
            f"{key}_permille": round(cc[key] * 1000)
            for key in ("alpha", "beta", "gamma") if cc[key] is not None}
        values["iw"] = cc["iw"]
        if cc["fast_start"] is not None:
            values["fast_start"] = int(cc["fast_start"])
        return _given("ldcp", values)
