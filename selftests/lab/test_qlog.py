#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""measure.qlog: files that a strict reader of qlog accepts, and whose figures are those of results.json."""

import json

import sys

from lib import unittests
from lib.unittests import LAB, TOP

sys.path.insert(0, str(TOP / "scripts"))

from lab.setup import qlog  # noqa: E402 pylint: disable=wrong-import-position

TEXT = """measure = {{qlog = {qlog}}}
ip = {ip}
topology = {{hosts = 3}}
link = {{rate = "1Gbit", buffer = "30KB"}}
[[flow]]
from = "h0..h1"
to = "h2"
bytes = "1MB"
reverse = "100KB"
"""
RTT = {"min_rtt": float, "smoothed_rtt": float, "rtt_variance": float}
FIELDS = {
    "recovery:metrics_updated": (RTT | dict.fromkeys(
        ("congestion_window", "bytes_in_flight", "packets_in_flight", "pacing_rate"), int), {"ssthresh": int}),
    "recovery:packet_lost": ({"header": dict, "packets": int}, {}),
    "hpcc:telemetry_updated": ({"U": float, "eta": float, "W": int, "T_ns": int, "inc_stage": int, "max_stage": int},
                               {"hop": int, "hop_U": float, "hop_queue_ns": int})}


class Qlog(unittests.SharedCase):
    def run_of(self, name, *options, status=0, **keys):
        path = self.directory / f"{name}.toml"
        path.write_text(TEXT.format(**{"qlog": [0], "ip": 4} | keys), encoding="ascii")
        return unittests.ran(self, LAB, "run", path, "--out", self.directory / name, *options, status=status).stderr

    def read(self, path):
        """The events of a file; fails if the file is not JSON-SEQ, or if a field is unknown, is missing, or has a wrong type."""
        text = path.read_text(encoding="utf-8")
        self.assertRegex(text, "^(\x1e[^\x1e\n]+\n)+$")
        head, *events = (json.loads(line[1:], parse_constant=self.fail) for line in text.split("\n")[:-1])
        self.assertEqual((head["file_schema"], head["serialization_format"]),
                         ("urn:ietf:params:qlog:file:sequential", "application/qlog+json-seq"))
        self.assertEqual(head["trace"]["common_fields"]["time_format"], "relative")
        for event in events:
            self.assertEqual(set(event), {"time", "name", "data"})
            needed, more = FIELDS[event["name"]]
            self.assertLessEqual(set(needed), set(event["data"]), event)
            for name, value in event["data"].items():
                self.assertIs(type(value), (needed | more)[name], event)
        times = [event["time"] for event in events]
        self.assertEqual(times, sorted(times))
        return events

    def test_cubic(self):
        self.run_of("cubic", "--cc", "cubic", "--set", "link.buffer=60KB", "--set", "measure.interval=10us", qlog=[0, 1, 2])
        flows = json.loads((self.directory / "cubic/results.json").read_text(encoding="utf-8"))["flows"]
        for flow in flows[:3]:
            events = self.read(self.directory / f"cubic/qlog/{flow['id']}.sqlog")
            self.assertEqual({event["name"] for event in events} - {"recovery:packet_lost"}, {"recovery:metrics_updated"})
            self.assertEqual(sum(event["data"].get("packets", 0) for event in events), flow["retrans"])
            self.assertLessEqual(events[-1]["time"], (flow["start_us"] + max(one["fct_us"] for one in flows)) / 1000 + 1)

    def test_hpcc(self):
        """Two congestion controls with telemetry, over IPv4 and IPv6."""
        for cc, ip in ("hpcc", 6), ("powertcp", 4):
            self.run_of(cc, "--cc", cc, ip=ip)
            events = self.read(self.directory / f"{cc}/qlog/0.sqlog")
            last = [event["data"] for event in events if event["name"] == "hpcc:telemetry_updated"][-1]
            self.assertTrue(0.5 < last["U"] < 1.5 and last["hop"] == 1, last)

    def test_reverse(self):
        """Connections of different hosts have the same ports. Samples begin at time zero, and the program does not delay flows."""
        path = self.directory / "reverse.toml"
        path.write_text("""measure = {qlog = [1, 3], interval = "50us"}
            topology = {hosts = 3}
            cc = {name = "cubic"}
            flow = [{from = "h1", to = "h0", bytes = "1KB", reverse = "10MB"},
                    {from = "h2", to = "h0", bytes = "1KB", reverse = "1KB"}]
            """, encoding="ascii")
        unittests.ran(self, LAB, "run", path, "--out", self.directory / "reverse")
        flows = json.loads((self.directory / "reverse/results.json").read_text(encoding="utf-8"))["flows"]
        self.assertLess(flows[2]["fct_us"], 10)
        long, short = ([event["time"] * 1000 for event in self.read(self.directory / f"reverse/qlog/{i}.sqlog")] for i in (1, 3))
        self.assertLess(max(long[0], short[0]), 1)
        self.assertLess(flows[1]["fct_us"] - long[-1], 100)
        # Timers of UML have a resolution of 1 ns.
        self.assertLess(max(b - a for a, b in zip(long, long[1:5])), 55)
        self.assertLess(len(short), 5)

    def test_number(self):
        """After 22768 ports of a host, its connections use the next listener."""
        wanted = qlog.chosen(0, 22768 + 5, "fd00::2")
        address = bytes([0xfd] + [0] * 14 + [2])
        self.assertTrue(wanted((10005, 5002), address) and wanted((10005, 5010), address))
        self.assertFalse(wanted((10005, 5001), address) or wanted((10006, 5002), address) or wanted((10005, 5002), bytes(16)))

    def test_bad(self):
        for flows, why in ([9], "no flow 9 that is connected before time zero"), ([], "list of flows"), ([0.5], "list of flows"), \
                (1, "list of flows"), ([True], "list of flows"):
            self.assertRegex(self.run_of("bad", qlog=json.dumps(flows), status=2), f"^hpcc-lab: .*measure.qlog.*{why}.*\n$")


if __name__ == "__main__":
    unittests.main()
