# SPDX-License-Identifier: GPL-2.0
"""Ideal sharing of ports: the slowdown of flows if each port divided its rate at once, without queues.

A flow is at the last port of its path from its start to its end. The port divides its rate equally among its flows,
or first among the classes of these flows, by weight, and then equally among the flows of each class. All other ports
have any rate.
"""

import math
from collections import Counter, defaultdict

from ..model.topology import ETHERNET_BYTES

# Headers of a packet over IPv4, and over IPv6, with timestamps.
HEADERS = {4: 52, 6: 72}


def _ends(flows, rate, weights):
    """Return {id: end} of the flows of one port, each given as (start, bytes, id, class). rate: payload in bytes per
    us. weights: {class: weight}, or None for equal shares of all flows.
    """
    active, ends, now = {}, {}, 0
    for start, size, number, name in [*sorted(flows), (math.inf, 0, None, None)]:
        while active:
            count = Counter(one[1] for one in active.values())
            total = sum(weights[one] for one in count) if weights else 0
            speed = {key: rate * weights[one] / total / count[one] if weights else rate / len(active)
                     for key, (_, one) in active.items()}
            first = min(active, key=lambda key: active[key][0] / speed[key])
            step = min(active[first][0] / speed[first], start - now)
            active = {key: (left - speed[key] * step, one) for key, (left, one) in active.items()}
            now += step
            if now >= start:
                break
            del active[first]
            ends[first] = now
        now = start
        active[number] = size, name
    return ends


def slowdowns(result, by_class):
    """Return the slowdown of each flow of a result, by classes or not."""
    link = result["settings"]["link"]
    most = link["mtu"] - HEADERS[result["settings"]["ip"]]
    share = most / (link["mtu"] + ETHERNET_BYTES + link["overhead"])
    rates = {port["peer"]: port["rate_bps"] * share / 8e6 for port in result["ports"]}
    weights = {one["name"]: one["weight"] for one in result["settings"]["class"]}
    at = defaultdict(list)
    for flow in result["flows"]:
        at[flow["to"]].append((flow["start_us"], flow["bytes"], flow["id"], flow["class"]))
    ends = {}
    for host, flows in at.items():
        ends |= _ends(flows, rates[host], weights if by_class else None)
    return [1 + max(ends[flow["id"]] - flow["start_us"] - flow["bytes"] / rates[flow["to"]], 0) / flow["alone_us"]
            for flow in result["flows"]]


def has_model(result):
    """Whether the model applies: classes with weights, a class and a size for each flow, one switch."""
    classes = result["settings"].get("class", [])
    return len(classes) > 1 and all(one.get("weight") for one in classes) and \
        result["settings"]["topology"]["kind"] == "star" and \
        all(flow["bytes"] and flow.get("class") for flow in result["flows"])
