# SPDX-License-Identifier: GPL-2.0
"""The sysctls of the nodes of a scenario."""

from ..model.keys import CARRIERS, W_AI_MAX
from ..model.topology import is_host

TCP_MEMORY = "4096 1048576 134217728"
# Sysctls that are 0, to disable duplicate address detection, router solicitations and advertisements.
IPV6_QUIET = ("accept_ra", "accept_dad", "dad_transmits", "router_solicitations")
# Fields that a router hashes to choose one of several next hops: addresses 1 and 2, protocol 4, ports 16
# and 32. All namespaces of a kernel hash with the same secret. So the routers of the second stage use other
# fields than those of the first; otherwise all flows that arrive on one link would leave on one link.
HASH_FIELDS = {"t": 1 + 2 + 4 + 16 + 32, "a": 1 + 2 + 16 + 32}


def w_ai_bytes(scenario, base_rtt_ns):
    """W_ai in bytes per update; with 0 the kernel derives it from n_flows."""
    if scenario.cc["w_ai"] is None:
        return 0
    kind, value = scenario.cc["w_ai"]
    if kind == "rate":
        value = value * base_rtt_ns // (8 * 10**9)
    return min(max(value, 1), W_AI_MAX)


def base_rtt_ns(scenario, topology):
    """The longest T of all sending hosts."""
    return max((topology.base_rtt_ns(*pair) for pair in scenario.pairs()), default=1000)


def _given(module, values):
    """The sysctls of a module whose values are not None; all others keep the module's default."""
    return {f"net/{module}/{key}": value for key, value in values.items() if value is not None}


class Sysctls:
    """The sysctls of every node of a scenario."""

    def __init__(self, scenario, topology):
        self.scenario = scenario
        self.topology = topology
        self.names = scenario.cc_names()
        self.base_rtt = {}
        for src, dst in scenario.pairs():
            self.base_rtt[src] = max(self.base_rtt.get(src, 0), topology.base_rtt_ns(src, dst))

    def of(self, node):
        """{path below /proc/sys: value} of a node, before it has interfaces."""
        values = self._router(node[0]) if self.topology.routed and not is_host(node) else {}
        if self.scenario.ip == 6 and (self.topology.routed or is_host(node)):
            values |= {f"net/ipv6/conf/default/{key}": 0 for key in IPV6_QUIET}
            if self.topology.routed:        # no link-local addresses
                values["net/ipv6/conf/default/addr_gen_mode"] = 1
        else:
            values["net/ipv6/conf/default/disable_ipv6"] = 1
        return values | self._host(node) if is_host(node) else values

    def _router(self, tier):
        """Forwarding, and hash policy 3: hash the fields in HASH_FIELDS."""
        ip = f"net/ipv{self.scenario.ip}"
        values = {"net/ipv4/ip_forward": 1} if self.scenario.ip == 4 else \
            {f"{ip}/conf/all/forwarding": 1}
        if tier in HASH_FIELDS:
            values |= {f"{ip}/fib_multipath_hash_policy": 3,
                       f"{ip}/fib_multipath_hash_fields": HASH_FIELDS[tier]}
        return values

    def _host(self, node):
        values = {
            "net/ipv4/tcp_rmem": TCP_MEMORY,
            "net/ipv4/tcp_wmem": TCP_MEMORY,
            "net/ipv4/tcp_no_metrics_save": 1,
        }
        if self.scenario.runs:          # programs use the default
            values["net/ipv4/tcp_congestion_control"] = self.scenario.cc["name"]
        for cc in dict.fromkeys([self.scenario.cc["name"], *self.names]):
            values |= {key.replace(".", "/"): value for key, value in self.scenario.parameters(cc, True).items()}
        if {"hpcc", "powertcp"} & set(self.names):
            values |= self._hpcc_sysctls(node)
        if "ldcp" in self.names:
            values |= self._ldcp_sysctls(node)
        return values

    def _path_sysctls(self, host):
        """Sysctls that both modules have; T only for hosts that send."""
        cc = self.scenario.cc
        values = {"host_mbps": max(self.topology.access(host)["rate"] // 10**6, 1),
                  "burst": cc["burst"]}
        if host in self.base_rtt:
            values["base_rtt_ns"] = self.base_rtt[host] if cc["base_rtt"] == "auto" else cc["base_rtt"]
        return values

    def _hpcc_sysctls(self, host):
        cc = self.scenario.cc
        values = self._path_sysctls(host) | {
            "eta_permille": round(cc["eta"] * 1000), "carrier": CARRIERS.index(cc["carrier"] or "tcp") or None,
            **{key: cc[key] for key in ("max_stage", "settle", "per_rtt", "n_flows", "pace", "slots", "sample",
                                        "carry", "where", "ioam_nodes", "csig_abw", "csig_time")}}
        if "base_rtt_ns" in values:
            values["w_ai"] = w_ai_bytes(self.scenario, values["base_rtt_ns"] or self.base_rtt[host])
        return _given("hpcc", values)

    def _ldcp_sysctls(self, host):
        cc = self.scenario.cc
        values = self._path_sysctls(host) | {
            f"{key}_permille": round(cc[key] * 1000)
            for key in ("alpha", "beta", "gamma", "cw_min") if cc[key] is not None}
        values["iw"] = cc["iw"]
        if cc["fast_start"] is not None:
            values["fast_start"] = int(cc["fast_start"])
        return _given("ldcp", values)
