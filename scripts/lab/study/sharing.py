# SPDX-License-Identifier: GPL-2.0
"""Ideal sharing of ports: the slowdown of flows if each port divided its rate at once, without queues.

slowdowns(): a flow is at the last port of its path from its start to its end. The port divides its rate equally among
its flows, or first among the classes of these flows, by weight, and then equally among the flows of each class. All
other ports have any rate.

fair(): the rates of the flows are max-min fair on the links from and to the hosts.
"""

import math
from collections import Counter, defaultdict

from ..model.topology import ETHERNET_BYTES, HEADERS


def _ends(flows, rates):
    """Return {id: end} of flows. rates: function of the active flows, {id: flow}, that returns {id: payload in bytes per us}."""
    active, left, ends, now = {}, {}, {}, 0
    for flow in [*sorted(flows, key=lambda one: one["start_us"]), {"id": None, "start_us": math.inf, "bytes": 0}]:
        while active:
            speed = rates(active)
            step, first = min((left[key] / speed[key], key) for key in active)
            step = min(step, flow["start_us"] - now)
            left = {key: left[key] - speed[key] * step for key in active}
            now += step
            if now >= flow["start_us"]:
                break
            del active[first]
            ends[first] = now
        now = flow["start_us"]
        active[flow["id"]], left[flow["id"]] = flow, flow["bytes"]
    return ends


def _shares(rate, weights):
    """Return a function that divides a port's rate among active flows. weights: {class: weight}, or None for equal shares."""
    def rates(active):
        count = Counter(flow["class"] for flow in active.values())
        total = sum(weights[one] for one in count) if weights else 0
        return {key: rate * weights[flow["class"]] / total / count[flow["class"]] if weights else rate / len(active)
                for key, flow in active.items()}
    return rates


def _max_min(paths, free):
    """Return the max-min fair rates {flow: rate}. paths: {flow: its links} and free: {link: rate} change."""
    rates = {}
    while paths:
        count = Counter(link for links in paths.values() for link in links)
        rate, full = min((free[link] / n, link) for link, n in count.items())
        for flow in [flow for flow, links in paths.items() if full in links]:
            rates[flow] = rate
            for link in paths.pop(flow):
                free[link] -= rate
    return rates


def _ports(result):
    """The rates of ports in bytes of payload per us, by the device behind the port."""
    link = result["settings"]["link"]
    most = link["mtu"] - HEADERS[result["settings"]["ip"]]
    share = most / (link["mtu"] + ETHERNET_BYTES + link["overhead"])
    return {port["peer"]: port["rate_bps"] * share / 8e6 for port in result["ports"]}


def _slowdowns(flows, ends, ports):
    return [1 + max(ends[flow["id"]] - flow["start_us"] - flow["bytes"] / ports[flow["to"]], 0) / flow["alone_us"]
            for flow in flows]


def fair(result, fraction):
    """Return the slowdown of each flow if flows get their max-min fair rates of this fraction of the hosts' links."""
    ports = _ports(result)
    free = {(way, host): rate * fraction for host, rate in ports.items() for way in ("from", "to")}
    ends = _ends(result["flows"], lambda active: _max_min(
        {key: [(way, flow[way]) for way in ("from", "to")] for key, flow in active.items()}, free.copy()))
    return _slowdowns(result["flows"], ends, ports)


def slowdowns(result, by_class):
    """Return the slowdown of each flow of a result, by classes or not."""
    ports = _ports(result)
    weights = {one["name"]: one["weight"] for one in result["settings"]["class"]} if by_class else None
    at = defaultdict(list)
    for flow in result["flows"]:
        at[flow["to"]].append(flow)
    ends = {}
    for host, flows in at.items():
        ends |= _ends(flows, _shares(ports[host], weights))
    return _slowdowns(result["flows"], ends, ports)


def has_model(result):
    """Whether the model applies: classes with weights, a class and a size for each flow, one switch."""
    classes = result["settings"].get("class", [])
    return len(classes) > 1 and all(one.get("weight") for one in classes) and \
        result["settings"]["topology"]["kind"] == "star" and \
        all(flow["bytes"] and flow.get("class") for flow in result["flows"])
