# SPDX-License-Identifier: GPL-2.0
"""A strict parser of Prometheus' text format, and the expressions of a Grafana dashboard."""

import json
import re
import subprocess

from .kernel import TOP
from .ktap import expect

SAMPLE = re.compile(r"([a-z_][a-z0-9_]*)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-z_][a-z0-9_]*)="([^"\\\n]*)"(?:,|$)')
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}


def _labels(text):
    found = LABEL.findall(text)
    expect("labels", ",".join(f'{name}="{value}"' for name, value in found), text)
    expect("each once", len(dict(found)), len(found))
    return frozenset(found)


class Metrics(dict):
    """{name: {labels: value}}; self.type and self.help describe the metrics. Invalid text fails: samples without HELP
    and TYPE before them, repeated samples, and samples of another metric between samples of one metric.
    """

    def __init__(self, text):
        super().__init__()
        self.type, self.help = {}, {}
        expect("end", text[-1:], "\n")
        now = None
        for line in text[:-1].split("\n"):
            kind, _, rest = line.partition(" ")[2].partition(" ") if line[0] == "#" else ("", "", "")
            if kind in ("HELP", "TYPE"):
                now, _, what = rest.partition(" ")
                known = self.help if kind == "HELP" else self.type
                expect(f"{kind} of {now}, before", known.get(now), None)
                known[now] = what
                continue
            name, labels, value = SAMPLE.fullmatch(line).groups()
            expect(f"{line} below its head", name in [now + suffix for suffix in
                                                      SUFFIXES.get(self.type[now], ("",))], True)
            samples = self.setdefault(name, {})
            key = _labels(labels or "")
            expect(f"{line}, before", samples.get(key), None)
            samples[key] = float(value)
        expect("heads", set(self.type), set(self.help))
        for name, kind in self.type.items():
            expect(f"{name} is a counter", kind == "counter", name.endswith("_total"))
            if kind == "histogram":
                self.check_histogram(name)

    def check_histogram(self, name):
        """Fail unless the buckets increase up to the total count."""
        buckets = sorted((float(dict(labels)["le"]), nr) for labels, nr in self[name + "_bucket"].items())
        numbers = [nr for _, nr in buckets]
        expect(name, numbers, sorted(numbers))
        expect(f"{name}, all", buckets[-1], (float("inf"), self.one(name + "_count")))

    def one(self, name, **labels):
        """Return the only sample of a metric with these labels."""
        found = [value for key, value in self.get(name, {}).items() if labels.items() <= dict(key).items()]
        expect(f"samples of {name} {labels}", len(found), 1)
        return found[0]

    def labels(self, name):
        return [dict(key) for key in self.get(name, {})]


def dashboard():
    """Return the content of grafana/hpcc.json."""
    return json.loads(subprocess.run([f"{TOP}/tools/grafana/dashboard.py"], check=True, capture_output=True).stdout)


def expressions():
    """Return (panel's title, PromQL) of each panel, with values for Grafana's variables."""
    found = []
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            expr = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m")
            expect("variables", "$" in expr, False)
            found.append((panel["title"], expr))
    return found


def rules():
    """Return the expressions as a file of rules for promtool; JSON is YAML."""
    return json.dumps({"groups": [{"name": "hpcc", "rules": [
        {"record": f"panel_{i}", "expr": expr} for i, (_, expr) in enumerate(expressions())]}]})
