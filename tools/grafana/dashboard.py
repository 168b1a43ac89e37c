#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print a dashboard for Grafana, with the metrics of hpccmon export, as JSON."""

import json
import sys

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
HOST = 'instance=~"$instance"'
# An idle flow keeps its last records.
RECENT = f"and hpcc_flow_hop_record_age_seconds{{{HOST}}} < 10"
LINK, FLOW = "switch {{node}} port {{port}}", "{{local}} to {{peer}}"
# Columns of the tables, and labels that are no columns.
COLUMNS = ("instance", "local", "peer", "mode", "fell_back", "hop", "node", "port")
HIDDEN = ("Time", "Value", "__name__", "job")
# Drawn as a line; the target utilization eta is 0.95.
ETA = {"custom": {"thresholdsStyle": {"mode": "line"}}, "orange": 0.95}


def row(title, y):
    """The title of a row of panels."""
    return {"type": "row", "title": title, "collapsed": False, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
            "panels": []}


def panel(kind, title, about, at, targets, defaults, **more):
    """A panel. at: x, y, width, height. targets: its queries without refId. defaults: how to show values; a color's
    value is the threshold above which values have this color.
    """
    defaults = {"unit": "short", **defaults}
    colors = {color: defaults.pop(color) for color in ("green", "orange", "red") if color in defaults}
    if colors:
        defaults["thresholds"] = {"mode": "absolute", "steps": [
            {"color": color, "value": value} for color, value in {"green": None, **colors}.items()]}
    return {"type": kind, "title": title, "description": about, "datasource": SOURCE,
            "gridPos": dict(zip("xywh", at)),
            "targets": [{"refId": "ABCD"[i], "datasource": SOURCE, **target} for i, target in enumerate(targets)],
            "fieldConfig": {"defaults": defaults, "overrides": []}, "options": {}, **more}


def series(expr, legend=""):
    """A query whose results are drawn over time."""
    return {"expr": expr, "range": True, "legendFormat": legend}


def stat(title, about, y, expr, **defaults):
    """A panel with one number."""
    return panel("stat", title, about, (0, y, 4, 4), [series(expr)], {"green": None, **defaults}, options={
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value", "graphMode": "area"})


def graph(title, about, at, *targets, **defaults):
    """A panel with values over time."""
    return panel("timeseries", title, about, at, targets, {"min": 0, **defaults})


def rates(title, about, at, **counters):
    """A graph with the rate of each of these counters, by host. counters: {name of the counter: legend}"""
    return graph(title, about, at, *(
        series(f"sum by (instance) (rate(hpcc_{name}_total{{{HOST}}}[$__rate_interval]))",
               f"{{{{instance}}}}: {legend}")
        for name, legend in counters.items()), unit="ops")


def table(title, about, at, expr, *hidden):
    """A table of the current series. hidden: columns that this table does not have."""
    return panel("table", title, about, at, [{"expr": expr, "instant": True, "range": False, "format": "table"}], {},
                 transformations=[{"id": "organize", "options": {
                     "excludeByName": dict.fromkeys((*HIDDEN, *hidden), True),
                     "indexByName": {name: i for i, name in enumerate(COLUMNS)}, "renameByName": {}}}])


def quantile(part, metric):
    """A quantile of a histogram over all flows."""
    return f"histogram_quantile({part}, sum by (le) (hpcc_flows_{metric}_bucket{{{HOST}}}))"


def by_link(function, metric):
    """A value of each link with a name, from the flows on its path."""
    return series(f'{function} by (node, port) (hpcc_flow_hop_{metric}{{{HOST},node!=""}} {RECENT})', LINK)


PANELS = (
    row("Which flows fall back?", 0),
    stat("Hosts with data", "Hosts on which hpccmon export runs and tcp_hpcc is loaded.", 1, f"sum(hpcc_up{{{HOST}}})"),
    stat("Flows with the classic response", "Fraction of the flows that use the response of Reno, because telemetry "
         "stopped, or because no link with telemetry explains their losses.", 5,
         f'sum(hpcc_flows{{{HOST},mode=~"classic|doubting"}}) / sum(hpcc_flows{{{HOST}}})',
         unit="percentunit", orange=0.01, red=0.1),
    graph("Flows by response", "telemetry: W is the window. ignoring: no link could be measured from the last records. "
          "classic: Reno sets the window until a record arrives. doubting: Reno sets the window until a link is "
          "measured.", (4, 1, 7, 8), series(f"sum by (mode) (hpcc_flows{{{HOST}}})", "{{mode}}"),
          custom={"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 20}),
    rates("Fallbacks and returns", "silence: telemetry stopped. unseen loss: a link that does not stamp drops packets. "
          "muted: the path may drop segments with the option.", (11, 1, 7, 8),
          fallbacks="silence", unseen_loss="unseen loss", muted="muted", returns="returns"),
    rates("Ignored telemetry", "Ignored options and records, by reason. tcp_hpcc(7) describes the reasons under "
          "/proc/net/hpcc.", (18, 1, 6, 8), malformed_ignored="malformed", bad_hop_ignored="bad hop",
          ts_back_ignored="ts back", tx_excess_ignored="tx excess"),
    table("Flows that use the classic response now", "Needs --flows. Flows that fell back come first.", (0, 9, 24, 6),
          f'hpcc_flow_info{{{HOST},mode=~"classic|doubting"}}'),

    row("How loaded is each hop?", 15),
    graph("u' of each link", "Queue divided by T, plus load: the largest value that a flow has measured. Needs --flows "
          "--names. The target is eta (0.95).", (0, 16, 12, 8), by_link("max", "utilization_ratio"),
          unit="percentunit", **ETA),
    graph("Queue of each link", "The time that the link needs to send the queue.", (12, 16, 12, 8),
          by_link("max", "queue_seconds"), unit="s"),
    graph("u' by position on the path", "The largest u' of all flows at the first hop, at the second hop, and so on. "
          "Does not need names of links.", (0, 24, 12, 8),
          series(f"max by (hop) (hpcc_flow_hop_utilization_ratio{{{HOST}}} {RECENT})", "hop {{hop}}"),
          unit="percentunit", **ETA),
    graph("U of all flows", "The measured inflight of all flows that use telemetry. Does not need --flows.",
          (12, 24, 12, 8), *(series(quantile(part, "utilization_ratio"), legend)
                             for part, legend in ((0.5, "median"), (0.9, "90 %"), (0.99, "99 %"))),
          unit="percentunit", **ETA),

    row("Which hop limits a flow?", 32),
    graph("Flows that each link limits", "The link with the largest u' on a flow's path limits the flow.",
          (0, 33, 12, 8), by_link("sum", "bottleneck")),
    table("Flows and the hop that limits them now", "Names of links need --names.", (12, 33, 12, 8),
          f"(hpcc_flow_hop_bottleneck{{{HOST}}} == 1) {RECENT}", "mode", "fell_back"),
    graph("U of each flow", "The window shrinks if U is above eta, and grows if U is below eta.", (0, 41, 8, 8),
          series(f"hpcc_flow_utilization_ratio{{{HOST}}}", FLOW), unit="percentunit", **ETA),
    graph("R of each flow", "W/T: the rate that the window allows.", (8, 41, 8, 8),
          series(f"hpcc_flow_rate_bytes_per_second{{{HOST}}} * 8", FLOW), unit="bps"),
    graph("W of each flow", "The window.", (16, 41, 8, 8), series(f"hpcc_flow_window_bytes{{{HOST}}}", FLOW),
          unit="decbytes"),

    row("How many flows?", 49),
    rates("Started flows", "Flows with telemetry, and flows without it because the peer does not run hpcc.",
          (0, 50, 8, 8), agreed="with telemetry", not_agreed="without"),
    graph("R of all flows", "Median and sum of the rates that the windows allow.", (8, 50, 8, 8),
          series(f"8 * {quantile(0.5, 'rate_bytes_per_second')}", "median"),
          series(f"8 * sum(hpcc_flows_rate_bytes_per_second_sum{{{HOST}}})", "sum"), unit="bps"),
    graph("Flows without series of their own", "Flows above the limit --flows=N of a host. Panels of single flows do "
          "not show them.", (16, 50, 8, 8),
          series(f"sum by (instance) (hpcc_flows_omitted{{{HOST}}})", "{{instance}}")),
)

DASHBOARD = {
    "title": "HPCC++",
    "uid": "hpcc",
    "description": "Fallbacks of flows, load of hops, and the hop that limits each flow. hpccmon export (hpccmon(8)) "
                   "provides the data.",
    "tags": ["hpcc"],
    "schemaVersion": 37,
    "version": 1,
    "editable": True,
    "refresh": "10s",
    "time": {"from": "now-30m", "to": "now"},
    "timezone": "",
    "templating": {"list": [
        {"name": "datasource", "type": "datasource", "label": "Prometheus", "query": "prometheus"},
        {"name": "instance", "type": "query", "label": "Host", "datasource": SOURCE,
         "query": {"query": "label_values(hpcc_up, instance)", "refId": "instance"}, "refresh": 2, "sort": 1,
         "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}}]},
    "annotations": {"list": []},
    "panels": [{"id": i, **one} for i, one in enumerate(PANELS, 1)],
}

if __name__ == "__main__":
    json.dump(DASHBOARD, sys.stdout, indent=1)
    print()
