#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""hpcc-lab: scenarios, topologies, results, reports, and short runs in a guest.

Prints KTAP. test_lab.py NAME... runs only tests whose names contain a NAME.
"""

import contextlib
import datetime
import importlib.machinery
import importlib.util
import fcntl
import json
import lzma
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = str(TOP / "scripts"), str(TOP / "selftests")

# pylint: disable=wrong-import-position,missing-function-docstring,missing-class-docstring
from lab.model import scenario, topology, units, workload  # noqa: E402
from lab.setup import plan  # noqa: E402
from lab.run import results, runner  # noqa: E402
from lab.show import report  # noqa: E402
from lab.study import bench, ns3, sweep  # noqa: E402
from lib import unittests  # noqa: E402

LAB = str(TOP / "scripts/hpcc-lab")
RUN = str(TOP / "scripts/uml/run.sh")
SMALL = """
[topology]
kind = "star"
hosts = 3
[link]
rate = "10Gbit"
delay = "2us"
[[flow]]
from = "h0..h1"
to = "h2"
bytes = "300KB"
"""


def build(**sections):
    """A scenario of one flow unless told otherwise."""
    data = {"flow": [{"from": "h0", "to": "h1", "bytes": "1MB"}]}
    data.update(sections)
    return scenario.build(data, "test")


def setUpModule():
    """Ctrl-C works in what the tests start, also where a shell has it ignored for all of them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Units(unittest.TestCase):
    def test_rate(self):
        for text, bps in (("100Gbit", 10**11), ("10gbit", 10**10), ("2.5 Gbit/s", 25 * 10**8),
                          ("50Mbit", 5 * 10**7), ("25Gb/s", 25 * 10**9), ("1Tbit", 10**12)):
            self.assertEqual(units.rate(text), bps, text)

    def test_time(self):
        for text, ns in (("1us", 1000), ("2.43us", 2430), ("0.5 ms", 500000), ("1s", 10**9),
                         ("17ns", 17), (0, 0)):
            self.assertEqual(units.time(text), ns, text)

    def test_size(self):
        for text, n in (("8MB", 8000000), ("1500", None), (1500, 1500), ("64KiB", 65536),
                        ("26B", 26)):
            if n is None:
                self.assertRaises(ValueError, units.size, text)
            else:
                self.assertEqual(units.size(text), n, text)

    def test_fraction(self):
        for text, value in (("1%", 0.01), (0.5, 0.5), (1, 1.0), ("0.1 %", 0.001)):
            self.assertAlmostEqual(units.fraction(text), value)

    def test_wrong_unit(self):
        for parse, wrong in ((units.rate, ("100", "5us", "-1Gbit", "", 7, True, "99Tbit", "1 bit")),
                             (units.time, ("5", "1m", "5MB", 3, "-1us", True)),
                             (units.size, ("5us", "-1B", -1, 1.5, True)),
                             (units.fraction, ("101%", 1.01, -0.1, "x", True))):
            for text in wrong:
                with self.assertRaises(ValueError, msg=f"{parse.__name__} {text!r}"):
                    parse(text)

    def test_for_people(self):
        self.assertEqual(units.show_bytes(0), "0 B")
        self.assertEqual(units.show_bytes(10239), "10.2 KB")
        self.assertEqual(units.show_bytes(32 * 10**6), "32 MB")
        self.assertEqual(units.show_rate(10**11), "100 Gb/s")
        self.assertEqual(units.show_time(9060), "9.06 us")


class Scenario(unittest.TestCase):
    FLOW = [{"from": "h0", "to": "h1", "bytes": "1MB"}]
    RPC = {"from": "h0", "to": "h1", "request": 1, "response": 1, "count": 1}
    PROGRAM = {"host": "h0", "command": "true"}

    def refused(self, wanted, **sections):
        data = {"flow": self.FLOW} | sections
        with self.assertRaises(scenario.ScenarioError) as caught:
            scenario.build(data, "test")
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        for word in wanted:
            self.assertIn(word, message)

    def test_unknown_key(self):
        self.refused(["links", "[link]"], links={})
        for section, keys in scenario.KEYS.items():
            if section in ("", "flow"):
                continue
            table = {"nonsense": 1}
            self.refused([f"{section}{'.0' * (section in scenario.LISTS)}.nonsense", "unknown", *keys],
                         **{section: [table] if section in scenario.LISTS else table})
        self.refused(["flow.0.form", "from"], flow=[{"form": "h0", "to": "h1", "bytes": 1}])

    def test_every_key_refuses(self):
        wrong = {"topology": {"kind": "ring", "hosts": 1, "switches": 999, "pods": 0, "tors": 0,
                              "hosts_per_tor": 251, "spines": "x", "aggs": 0, "cores": -1, "reroute": "2s"},
                 "host": {"delay": "2s", "delay_out": "x", "delay_in": -1, "queue": "lifo", "stamp": 1},
                 "link": {"rate": "fast", "delay": "1m", "overhead": 257, "buffer": "1x",
                          "mtu": 500},
                 "cc": {"name": "vegas", "eta": 1.2, "max_stage": 256, "settle": 65, "per_rtt": 2,
                        "hop_records": 256, "n_flows": -1, "w_ai": "much", "base_rtt": "2s", "burst": 65,
                        "burst_shift": 11, "burst_ns": -1, "pace": 2, "slots": 4, "sample": 65,
                        "carry": 2, "where": 2, "carrier": "csog", "csig_abw": 1001, "csig_time": 0, "ioam_nodes": 13,
                        "alpha": 0, "beta": 1.1, "gamma": "x", "cw_min": 1.1, "iw": 1, "fast_start": 1},
                 "qdisc": {"queue": "red", "marking": "red", "kmin": 0, "kmax": "x", "pmax": 1.01,
                           "knonect": -1, "above": 0, "respond": 0, "every": "999ns",
                           "int_window": "999ns", "stamp": "ioam,itn"},
                 "flow": {"from": "x0", "to": "h", "bytes": 0, "cc": "vegas", "start": "soon",
                          "count": 0,
                          "spacing": -1, "spread": "x", "reverse": -1},
                 "rpc": {"from": "x", "to": "h0..h1", "request": 0, "response": "x", "count": 0, "until": "x",
                         "think": -1, "start": "x", "cc": "vegas"},
                 "run": {"host": "s0", "command": "a\nb", "package": "../x", "may_fail": 1, "start": "x", "stop": "never"},
                 "workload": {"cdf": 1, "load": 1.0, "duration": "x", "flows": "", "list": [1], "from": "x",
                              "to": 1, "incast": {"from": 0}, "connect": "late", "pool": 0},
                 "measure": {"from": "x", "until": "x", "interval": "x", "deadline": "x",
                             "ports": ["", 1], "pcap": []},
                 "impair": {"data_loss": 2, "ack_loss": "2", "reorder": -1,
                            "reorder_delay": "x"},
                 "event": {"at": "-1us", "link": "s0", "down": False, "up": 1, "rate": "x"},
                 "": {"ip": 5, "verify": 1}}
        for section, keys in scenario.KEYS.items():
            self.assertEqual(set(keys), set(wrong[section]), section)
            for key, value in wrong[section].items():
                with self.subTest(key=f"{section}.{key}"):
                    if section in scenario.LISTS:
                        table = {"flow": self.FLOW[0], "rpc": self.RPC, "run": self.PROGRAM,
                                 "event": {"at": 0, "link": "h0-s0", "down": True}}[section]
                        self.refused([f"{section}.0.{key}"], **{section: [table | {key: value}]})
                    elif section:
                        self.refused([f"{section}.{key}", "has to be"], **{section: {key: value}})
                    else:
                        self.refused([key, "has to be"], **{key: value})

    def test_ldcp_iw(self):
        """What the module takes."""
        text = (TOP / "kmod/ldcp/conn.h").read_text(encoding="utf-8")
        most = int(re.search(r"#define LDCP_IW_MAX_SEGS\s+(\d+)U", text)[1])
        self.assertEqual(build(cc={"name": "ldcp", "iw": most}).cc["iw"], most)
        self.refused(["cc.iw", str(most)], cc={"iw": most + 1})

    def test_choices_are_listed(self):
        self.refused(["star", "chain", "dumbbell"], topology={"kind": "ring"})
        self.refused(["hpcc", "cubic", "dctcp", "bbr"], cc={"name": "vegas"})

    def test_missing_node(self):
        self.refused(["flow.0.to", "h7", "h0 to h2"],
                     flow=[{"from": "h0", "to": "h7", "bytes": 1}])
        self.refused(["flow.0.from", "h3"], flow=[{"from": "h0..h3", "to": "h1", "bytes": 1}])
        self.refused(["from and to"], flow=[{"from": "h1", "to": "h1", "bytes": 1}])
        self.refused(["flow.0.to: missing"], flow=[{"from": "h0", "bytes": 1}])
        self.refused(["at least one"], flow=[])

    def test_shapes(self):
        self.refused(["chain", "at most 6"], topology={"kind": "chain", "hosts": 8})
        self.refused(["dumbbell"], topology={"kind": "dumbbell", "hosts": 5})
        self.refused(["star has 1"], topology={"kind": "star", "switches": 2})
        self.assertEqual(build(topology={"kind": "chain", "switches": 4}).topology["hosts"], 8)

    def test_ipv6_mtu(self):
        self.refused(["link.mtu", "1280"], ip=6, link={"mtu": 1279})
        self.assertEqual(build(link={"mtu": 576}).link["mtu"], 576)

    def test_measure(self):
        self.refused(["measure.until"], measure={"from": "2ms", "until": "1ms"})
        self.refused(["measure.deadline"], measure={"deadline": "1ms", "from": "2ms"})

    def test_endless(self):
        endless = [self.FLOW[0] | {"bytes": "endless"}]
        self.refused(["measure.until", "endless"], flow=endless)
        self.refused(["flow.0.bytes", "endless"], flow=[self.FLOW[0] | {"bytes": "eternal"}])
        self.assertIsNone(build(flow=endless, measure={"until": "1ms"}).flows[0].bytes)

    def test_marking(self):
        for key, value in (("kmin", 1), ("kmax", 1), ("pmax", 0.5), ("knonect", 1)):
            self.refused([f"qdisc.{key}", 'marking = "ldcp"'], qdisc={key: value})
        on = {"marking": "ldcp"}
        self.refused(["qdisc.kmin = 2001", "qdisc.kmax, 2000 bytes"],
                     qdisc=on | {"kmin": 2001, "kmax": "2KB"})
        # K_max of a port at 100 Gb/s that is not told any.
        self.refused(["qdisc.kmin = 62501", "qdisc.kmax, 62500 bytes unless given"],
                     qdisc=on | {"kmin": 62501})
        build(qdisc=on | {"kmin": 62500})
        for key in ("kmin", "kmax", "knonect"):
            self.refused([f"qdisc.{key} = 2001", "link.buffer, 2000 bytes"],
                         link={"buffer": 2000}, qdisc=on | {key: 2001})
        self.refused(["qdisc.above = 2001", "link.buffer, 2000 bytes"],
                     link={"buffer": 2000}, qdisc={"above": 2001})
        self.refused(["qdisc.respond = 2001", "link.buffer, 2000 bytes"],
                     link={"buffer": 2000}, qdisc={"respond": 2001})
        self.refused(["qdisc.every", "qdisc.respond"], qdisc={"every": "5us"})
        self.refused(["cc.carrier", "ip = 6"], cc={"carrier": "ioam"})
        self.refused(["cc.carrier", "event.rate"], ip=6, cc={"carrier": "ioam"},
                     event=[{"at": "1us", "link": "s0-h0", "rate": "10Gbit"}])
        self.refused(["cc.carrier", "event.rate"], cc={"carrier": "ifa"},
                     event=[{"at": "1us", "link": "s0-h0", "rate": "10Gbit"}])
        self.refused(["cc.carrier", "event.rate"], cc={"carrier": "int"},
                     event=[{"at": "1us", "link": "s0-h0", "rate": "10Gbit"}])
        self.refused(["cc.csig_abw", "cc.carrier"], cc={"csig_abw": 5})
        self.refused(["cc.carrier", "bridges"], cc={"carrier": "csig"}, topology={"kind": "leaf-spine"})
        self.refused(["cc.carrier", "bridges"], cc={"carrier": "csig"}, qdisc={"stamp": "tcp"})
        for stamp in "csig", "tcp,csig", "tcp,", "mixed,tcp", "", 4:
            self.refused(["qdisc.stamp", "tcp, ioam, int, ifa", "cc.carrier"], qdisc={"stamp": stamp})
        self.assertEqual(build(qdisc={"stamp": "ifa,int,tcp"}).qdisc["stamp"], "tcp,int,ifa")
        self.refused(["qdisc.int_window", "qdisc.stamp"], qdisc={"int_window": "5us"})
        made = build(link={"buffer": 2000},
                     qdisc=on | {"kmin": 2000, "kmax": 2000, "knonect": 2000, "pmax": "100%"})
        self.assertEqual(made.qdisc["pmax"], 1.0)

    def test_queues(self):
        self.refused(["fifo", "fq"], host={"queue": "lifo"})
        self.refused(["fq_codel", "dualpi2"], qdisc={"queue": "red"})
        self.refused(['qdisc.marking = "ldcp"', "qdisc.queue", "fq_codel"],
                     qdisc={"queue": "fq_codel", "marking": "ldcp"})

    def test_flows(self):
        made = build(topology={"hosts": 5}, flow=[
            {"from": "h0..h2", "to": "h4", "bytes": 5, "count": 2, "spacing": "1ms",
             "start": "3us"}, {"from": "h4", "to": "h0", "bytes": "1KB"}])
        self.assertEqual([(f.id, f.src, f.dst, f.start_ns) for f in made.flows],
                         [(0, "h0", "h4", 3000), (1, "h0", "h4", 1003000),
                          (2, "h1", "h4", 2003000), (3, "h1", "h4", 3003000),
                          (4, "h2", "h4", 4003000), (5, "h2", "h4", 5003000), (6, "h4", "h0", 0)])
        # A single flow from each of many hosts.
        made = build(topology={"hosts": 5}, flow=[
            {"from": "h0..h3", "to": "h4", "bytes": 5, "spacing": "1us"}])
        self.assertEqual([f.start_ns for f in made.flows], [0, 1000, 2000, 3000])

    def test_settings(self):
        """They make the same scenario again."""
        for sections in ({}, {"ip": 6, "verify": True, "topology": {"kind": "chain", "hosts": 4},
                              "link": {"rate": "1.5Gbit", "s1-s0": {"delay": "3us"}},
                              "qdisc": {"marking": "ldcp", "pmax": "1%", "kmin": "2KB"}},
                         {"cc": {"name": "ldcp", "w_ai": "50Mbit", "base_rtt": "7us", "beta": 0.5,
                                 "fast_start": False}, "impair": {"reorder": "2%"}},
                         {"cc": {"w_ai": "26B", "base_rtt": 0}, "measure": {"until": "1ms"},
                          "flow": [{"from": "h0..h1", "to": "h2", "bytes": "endless", "count": 3,
                                    "spread": "9us"}]}):
            made = build(**sections)
            again = scenario.build(json.loads(json.dumps(made.settings())), "test", 5)
            self.assertEqual(again, made)

    def test_spread(self):
        """Starts are drawn from the seed, the same for each congestion control."""
        flow = [self.FLOW[0] | {"count": 100, "spacing": "1ms", "spread": "10us"}]

        def late(seed, cc="hpcc"):
            made = scenario.build({"flow": flow, "cc": {"name": cc}}, "test", seed)
            return [f.start_ns - 10**6 * f.id for f in made.flows]
        self.assertEqual(late(1), late(1, "cubic"))
        self.assertNotEqual(late(1), late(2))
        self.assertTrue(0 <= min(late(1)) < 1000 < 9000 < max(late(1)) <= 10000)

    def test_buffer(self):
        """The qdisc takes none that cannot hold a packet."""
        self.refused(["link.buffer", "at least 1B"], link={"buffer": 0})
        self.refused(["link.buffer = 1537", "1538 bytes"], link={"buffer": 1537})
        self.refused(["link.buffer", "4GiB"], link={"buffer": "4GiB"})
        self.assertEqual(build(link={"buffer": 1538}).link["buffer"], 1538)

    def test_links_of_their_own(self):
        """Of a class, or one; what they do not say is as [link] has it."""
        chain = {"kind": "chain", "switches": 3}
        made = build(topology=chain, link={"rate": "100Gbit", "buffer": "1MB", "fabric": {
            "rate": "40Gbit"}, "s2-s1": {"delay": "1ms", "rate": "1Gbit"}, "access": {"buffer": "9KB"}})
        self.assertEqual(made.name, "test")
        for nodes, rate, delay, size in (("h0 s0", 10**11, 1000, 9000), ("s0 s1", 4 * 10**10, 1000, 10**6),
                                         ("s1 s2", 10**9, 10**6, 10**6), ("s2 h1", 10**11, 1000, 9000)):
            link = made.link_of(*nodes.split())
            self.assertEqual((link["rate"], link["delay"], link["buffer"], link["mtu"]),
                             (rate, delay, size, 1500), nodes)
        self.refused(["link.s0-s2", "no such link", "access, fabric"], topology=chain,
                     link={"s0-s2": {"rate": "1Gbit"}})
        self.refused(["link.h9-s0", "no such link"], link={"h9-s0": {}})
        self.refused(["link.fabric.mtu", "rate, delay, buffer"], link={"fabric": {"mtu": 576}})
        self.refused(["link.access.rate", "Gbit"], link={"access": {"rate": 0}})
        self.refused(["link.access.buffer = 1537", "1538 bytes"], link={"access": {"buffer": 1537}})
        self.refused(["qdisc.kmax = 2001", "link.fabric.buffer, 2000 bytes"],
                     link={"fabric": {"buffer": 2000}}, qdisc={"marking": "ldcp", "kmax": 2001})
        self.refused(["impair.reorder", "link.access.delay"], link={"access": {"delay": 0}},
                     impair={"reorder": "1%"})
        self.refused(["link", "rate"], link={"rate": {"rate": "1Gbit"}})

    def test_base_rtt(self):
        """The modules take one from 1 us to 1 s."""
        self.refused(["link.delay", "2000000266 ns", "1us to 1s"], link={"delay": "500ms"})
        self.refused(["link.delay", "1us to 1s"], link={"delay": 0, "rate": "1Tbit"})
        build(link={"delay": "500ms"}, cc={"name": "cubic"})
        build(link={"delay": "500ms"}, cc={"base_rtt": "1s"})

    # One of each type, and what is hard about some.
    VALUES = (0, -1, 1, 2, 1 << 31, 1 << 64, 10**5000, True, False, 0.5, -0.5, 1e300, float("nan"),
              float("inf"), "", " ", "0", "1B", "0B", "1us", "1s", "99999999s", "1bit", "1Tbit", "99%",
              "9" * 5000 + "B", "h0", "h1..h0", "h0..h99999999", "h" + "9" * 5000, "hpcc", "endless",
              "a\nb", "\x00", "\u0663us", "h\u0663", None, [], [[]], [1, "a"], [{}], {}, {"a": 1},
              {"from": "h0", "to": "h1", "bytes": 1}, [{"from": "h0", "to": "h1", "bytes": 1}] * 2,
              datetime.date(2026, 1, 1))

    def judged(self, data, settings=(), cc=None):
        """A plan, or an error in one line; nothing else. Return if it is a plan."""
        try:
            made = scenario.load_data(data, "test", settings, cc)
            plan.Plan(made, topology.Topology(made))
        except scenario.ScenarioError as err:
            self.assertNotRegex(str(err), r"[\x00-\x1f]")
            self.assertLess(len(str(err)), 500)
            return False
        return True

    def test_any_value_of_any_key(self):
        """Wrong types and values, also where a table has to be: never a traceback."""
        verdicts = []
        for section, keys in scenario.KEYS.items():
            for key in [*keys, "", "a\nb"]:
                for value in self.VALUES:
                    data = {"flow": [dict(self.FLOW[0])]}
                    {"": data, "flow": data["flow"][0]}.get(
                        section, data.setdefault(section, {}) if section else data)[key] = value
                    with self.subTest(section=section, key=key, value=scenario.shown(value)):
                        verdicts.append(self.judged(data))
        for section in scenario.KEYS:
            for value in self.VALUES:
                with self.subTest(section=section, value=scenario.shown(value)):
                    for settings in ((), ("flow.bytes=1", "flow.0.bytes=1", "cc.eta=0.9", "link.mtu=1500")):
                        data = {"flow": self.FLOW} | {section: value}
                        verdicts.append(self.judged(data, settings, "cubic"))
        self.assertGreater(verdicts.count(True), 50)
        self.assertGreater(verdicts.count(False), 1000)

    def test_any_setting(self):
        words = ("", "=", "a", "ip", "cc", "flow", "link", "cc.", ".cc", "flow.", "flow.0", "flow.7.to",
                 "flow.0.to.x", "link.rate", "link.rate.x", "nonsense.rate", "verify", "ip.x", "a\nb")
        texts = ("", "1", "-1", "x", "[", "[" * 3000, "9" * 5000, "{}", "[1]", "true", "1\n[x]", "1979-13-99",
                 "'", "{from='h0'}", "\ud800")
        for word in words:
            for text in texts:
                for setting in (word, f"{word}={text}"):
                    with self.subTest(setting=setting[:60]):
                        self.judged({"flow": [dict(self.FLOW[0])]}, [setting])

    def test_set_and_cc(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "name.toml")
            path.write_text(SMALL, encoding="utf-8")
            got = scenario.load(path, ["link.rate=40Gbit", "ip=6", "flow.bytes=7", "cc.eta=0.9"],
                                "bbr")
            self.assertEqual((got.name, got.link["rate"], got.ip, got.flows[1].bytes,
                              got.cc["eta"], got.cc["name"]),
                             ("name", 4 * 10**10, 6, 7, 0.9, "bbr"))
            self.assertEqual(scenario.load(path, ["flow.0.to=h1", "flow.0.from=h2"]).flows[0].dst,
                             "h1")
            mixed = scenario.load(path, ["flow.0.cc=ldcp", "cc.name=hpcc"])
            self.assertEqual(([f.cc for f in mixed.flows], mixed.cc_label()),
                             (["ldcp", "ldcp"], "ldcp"))
            with self.assertRaisesRegex(scenario.ScenarioError, "--cc bbr: every"):
                scenario.load(path, ["flow.cc=ldcp"], "bbr")
            for wrong in ("link.rate", "link.nonsense=1", "a.b.c=1", "flow.3.to=h1"):
                with self.assertRaises(scenario.ScenarioError, msg=wrong):
                    scenario.load(path, [wrong])

    def test_shipped_scenarios(self):
        files = sorted((TOP / "scripts/scenarios").glob("*.toml"))
        self.assertGreater(len(files), 10)
        for path in files:
            made = scenario.load(path)
            plan.Plan(made, topology.Topology(made))


class Topology(unittest.TestCase):
    def test_star(self):
        net = topology.Topology(build(topology={"hosts": 3}))
        self.assertEqual(net.path("h0", "h2"), ["h0", "s0", "h2"])
        self.assertEqual([(p.node, p.peer) for p in net.ports],
                         [("s0", "h0"), ("s0", "h1"), ("s0", "h2")])

    def test_chain(self):
        net = topology.Topology(build(topology={"kind": "chain", "switches": 4}))
        self.assertEqual(net.path("h0", "h1"), ["h0", "s0", "s1", "s2", "s3", "h1"])
        for k in range(3):
            self.assertEqual(net.path(f"h{2 + 2 * k}", f"h{3 + 2 * k}"),
                             [f"h{2 + 2 * k}", f"s{k}", f"s{k + 1}", f"h{3 + 2 * k}"])

    def test_dumbbell(self):
        net = topology.Topology(build(topology={"kind": "dumbbell", "hosts": 6}))
        self.assertEqual(net.path("h2", "h3"), ["h2", "s0", "s1", "h3"])
        self.assertEqual(net.path("h0", "h1"), ["h0", "s0", "h1"])

    def test_class_is_a_table(self):
        with self.assertRaisesRegex(scenario.ScenarioError, "link.access: has to be a table .* rate, delay"):
            build(link={"access": "1Gbit"})

    def test_one_link_once(self):
        with self.assertRaisesRegex(scenario.ScenarioError, "link.s0-h0: is the same link as link.h0-s0"):
            build(link={"s0-h0": {"rate": "1Gbit"}, "h0-s0": {"rate": "2Gbit"}})

    def test_base_rtt(self):
        # 2 links x (2 x 1 us + (1538 + 118) x 8 / 100 Gb/s) = 4 + 2 x 0.13248 us
        net = topology.Topology(build())
        self.assertEqual(net.base_rtt_ns("h0", "h1"), 4266)
        # IPv6: 20 bytes more on the acknowledgment
        self.assertEqual(topology.Topology(build(ip=6)).base_rtt_ns("h0", "h1"), 4270)
        # 6 links of a chain of 5
        chain = topology.Topology(build(topology={"kind": "chain", "switches": 5}))
        self.assertEqual(chain.base_rtt_ns("h0", "h1"), 6 * 2133)
        # 1 Gb/s, 243 us: 2 x (486 + 13.248)
        slow = topology.Topology(build(link={"rate": "1Gbit", "delay": "243us"}))
        self.assertEqual(slow.base_rtt_ns("h0", "h1"), 998496)
        # 1448 bytes in one packet of 1538 on each of 2 links of 1 us; one byte more in a second of 91
        self.assertEqual([net.alone_ns("h0", "h1", n) for n in (1448, 1449)], [2246, 2253])
        # 10 Gb/s, then 100 Gb/s, where the last packet, of 190 bytes, waits for none: 2 us of delay,
        # 10 x 1230.4 + 152 ns, and 15.2 ns
        wider = topology.Topology(build(link={"rate": "10Gbit", "s0-h1": {"rate": "100Gbit"}}))
        self.assertEqual(wider.alone_ns("h0", "h1", 10 * 1448 + 100),
                         14471)
        # 4 links of 2 us, the two of the middle with (1538 + 118) x 8 bits at 1 Gb/s
        mixed = topology.Topology(build(topology={"kind": "chain"}, link={"fabric": {"rate": "1Gbit"}}))
        self.assertEqual(mixed.base_rtt_ns("h0", "h1"), 4 * 2000 + 2 * 133 + 2 * 13248)
        self.assertEqual(mixed.rate("h0", "h1"), 10**9)


class Workload(unittest.TestCase):
    DRAWN = {"cdf": "fb_hadoop", "load": "50%", "duration": "700us"}
    STAR = {"kind": "star", "hosts": 16}

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def made(self, seed=1, **how):
        return scenario.build({"workload": self.DRAWN | how, "topology": self.STAR}, "test", seed,
                              self.directory.name)

    def write(self, name, text):
        Path(self.directory.name, name).write_text(text, encoding="ascii")
        return name

    def test_published(self):
        """Means as the distributions' rows give them, by hand for FB_Hadoop's first ones."""
        self.assertEqual(workload.names(), ["fb_hadoop", "websearch"])
        self.assertEqual(round(workload.Sizes("fb_hadoop").mean()), 120421)
        self.assertEqual(round(workload.Sizes("websearch").mean()), 1711250)
        two = workload.Sizes(self.write("two.csv", "cdf_percent,bytes\n20,10\n100,30\n"),
                             self.directory.name)
        self.assertEqual(two.mean(), 0.2 * 5 + 0.8 * 20)

    def test_draw(self):
        """10,000 flows have the mean and the rate that were asked for."""
        sizes = workload.Sizes("fb_hadoop")
        drawn = list(workload.arrivals(sizes, 0.5, workload.Groups(range(16), range(16), 16 * 10**11), 15 * 10**6, 3))
        self.assertAlmostEqual(len(drawn) / (0.5 * 16e11 * 15e-3 / 8 / sizes.mean()), 1, delta=0.05)
        self.assertAlmostEqual(sum(flow[3] for flow in drawn) / len(drawn) / sizes.mean(), 1, delta=0.1)
        self.assertEqual({flow[1] for flow in drawn}, set(range(16)))
        self.assertFalse([flow for flow in drawn if flow[1] == flow[2] or flow[3] < 1])
        small = sum(flow[3] <= 700 for flow in drawn) / len(drawn)
        self.assertAlmostEqual(small, 0.5, delta=0.02)

    def test_flows(self):
        made = self.made()
        self.assertEqual(made, self.made())
        self.assertNotEqual(made.flows, self.made(seed=2).flows)
        self.assertEqual(made.measure["until"], 700000)
        self.assertEqual(scenario.build(json.loads(json.dumps(made.settings())), "test"), made)
        path = Path(self.directory.name, "list.csv.xz")
        path.write_bytes(lzma.compress(
            "\ufeffstart_ns,from,to,bytes,more\n7,15,1,324,\xfc\n9,0,2,5,y\n".encode()))
        made = scenario.build({"workload": {"flows": path.name}, "topology": self.STAR,
                               "flow": [{"from": "h3", "to": "h4", "bytes": 1}]}, "test", 1,
                              self.directory.name)
        self.assertEqual([(f.id, f.src, f.dst, f.bytes, f.start_ns, f.cc) for f in made.flows],
                         [(0, "h3", "h4", 1, 0, "hpcc"), (1, "h15", "h1", 324, 7, "hpcc"),
                          (2, "h0", "h2", 5, 9, "hpcc")])
        self.assertEqual(made.measure["until"], 9)
        self.assertEqual(scenario.build(json.loads(json.dumps(made.settings())), "test"), made)

    def test_load_of_unlike_links(self):
        """Load is of all hosts' links, also where one has a rate of its own."""
        def starts(link):
            made = scenario.build({"workload": self.DRAWN | {"duration": "350us"},
                                   "topology": {"hosts": 2}, "link": link}, "test", 1, self.directory.name)
            return [flow.start_ns for flow in made.flows]
        self.assertEqual(starts({"s0-h0": {"rate": "300Gbit"}}), starts({"rate": "200Gbit"}))
        self.assertNotEqual(starts({}), starts({"rate": "200Gbit"}))

    def test_set_and_cc(self):
        """[workload] has no flow.key, and flows that --cc is for."""
        data = {"workload": self.DRAWN, "topology": self.STAR}
        for assignment in "flow.cc=dctcp", "flow.0.cc=dctcp", "flow.nonsense=1":
            with self.assertRaisesRegex(scenario.ScenarioError, r"no \[\[flow\]\] table"):
                scenario.load_data(dict(data), "test", [assignment])
        data["flow"] = [{"from": "h0", "to": "h1", "bytes": 1, "cc": "ldcp"}]
        self.assertEqual(scenario.load_data(data, "test", cc="dctcp").cc_names(), ["ldcp", "dctcp"])

    def refused(self, wanted, how):
        with self.assertRaises(scenario.ScenarioError) as caught:
            scenario.build({"workload": how, "topology": self.STAR}, "test", 1, self.directory.name)
        for word in wanted:
            self.assertIn(word, str(caught.exception))

    def test_wrong(self):
        self.refused(["flows, or cdf"], {})
        self.refused(["workload.load", "missing"], {"cdf": "websearch", "duration": "1ms"})
        self.refused(["workload.duration", "missing"], self.DRAWN | {"duration": 0})
        self.refused(["workload.load", "less than 1"], self.DRAWN | {"load": "100%"})
        self.refused(["either flows"], self.DRAWN | {"flows": "x"})
        self.refused(["nothere", "No such file", "fb_hadoop, websearch"], self.DRAWN | {"cdf": "nothere"})
        self.refused(["more than 100000 flows"], self.DRAWN | {"duration": "200ms"})
        self.refused(["0 flows"], self.DRAWN | {"duration": "1ns"})
        for text, why in (("", "columns"), ("bytes,cdf_percent\n", "empty"), ("bytes\n1\n", "columns"),
                          ("bytes,cdf_percent\n5,50\n4,100\n", "rise"),
                          ("bytes,cdf_percent\n4,60\n5,50\n", "rise"),
                          ("bytes,cdf_percent\n4,60\n5,99\n", "100 %"),
                          ("bytes,cdf_percent\n0,100\n", "1 byte"),
                          ("bytes,cdf_percent\nx,100\n", "numbers"),
                          ("bytes,cdf_percent\n1\n", "numbers"),
                          ("bytes,cdf_percent\n1,nan\n", "numbers"),
                          ("bytes,cdf_percent\n1,nan\n2,100\n", "numbers"),
                          ("bytes,cdf_percent\n1,50\n2,inf\n", "numbers"),
                          ("bytes,cdf_percent\n0,100\n5,100\n", "1 byte"),
                          (f"bytes,cdf_percent\n{'9' * 400},100\n", "at most")):
            self.refused(["wrong.csv", why], self.DRAWN | {"cdf": self.write("wrong.csv", text)})
        for row, why in (("0,0,16,1", "0 to 15"), ("0,1,1,1", "to another"), ("-1,0,1,1", "0 or later"),
                         ("0,0,1,0", "1 byte"), (f"0,0,1,{10**15 + 1}", "at most"),
                         (f"{10**14 + 1},0,1,1", "at most")):
            self.refused(["wrong.csv", why, row], {"flows": self.write(
                "wrong.csv", f"start_ns,from,to,bytes\n{row}\n")})
        Path(self.directory.name, "wrong.xz").write_bytes(b"not compressed")
        self.refused(["wrong.xz", "numbers"], {"flows": "wrong.xz"})


class Plan(unittest.TestCase):
    @staticmethod
    def made(**sections):
        made = build(**sections)
        return plan.Plan(made, topology.Topology(made))

    def test_parameters(self):
        text = self.made(cc={"eta": 0.98, "max_stage": 3, "w_ai": "50Mbit"}).files["network"]
        for line in ("h0 net/hpcc/eta_permille 980", "h0 net/hpcc/max_stage 3",
                     "h0 net/hpcc/base_rtt_ns 4266", "h0 net/hpcc/host_mbps 100000",
                     "h0 net/hpcc/w_ai 26"):
            self.assertIn(f"sysctl {line}\n", text)
        self.assertNotIn("h1 net/hpcc/base_rtt_ns", text)

    def test_base_rtt_is_each_host_s(self):
        text = self.made(topology={"kind": "chain", "switches": 5}, flow=[
            {"from": "h0", "to": "h1", "bytes": 1}, {"from": "h2", "to": "h3", "bytes": 1}]
        ).files["network"]
        self.assertIn("sysctl h0 net/hpcc/base_rtt_ns 12798\n", text)
        self.assertIn("sysctl h2 net/hpcc/base_rtt_ns 6399\n", text)
        self.assertIn("base_rtt_ns 0\n", self.made(cc={"base_rtt": 0}).files["network"])

    def test_links_of_their_own(self):
        made = self.made(topology={"kind": "chain"}, link={
            "h0-s0": {"rate": "25Gbit"}, "fabric": {"rate": "1Gbit", "delay": "5us", "buffer": "90KB"}})
        for line in ("qdisc s1 s0 root 10: hpcc rate 1000000000 limit 90000 overhead 24 delay 5000 ",
                     "qdisc s0 h0 root 10: hpcc rate 25000000000 limit 32000000 ",
                     "qdisc h0 eth0 root 10: hpcc rate 25000000000 ",
                     "qdisc h1 eth0 root 10: hpcc rate 100000000000 ",
                     "sysctl h0 net/hpcc/host_mbps 25000\n"):
            self.assertIn(line, made.files["network"])
        self.assertIn("1 Gb/s to 100 Gb/s, 1 us to 5 us per link",
                      plan.describe(made.scenario, made.topology))

    def test_other_cc_has_no_telemetry(self):
        made = self.made(cc={"name": "cubic"})
        self.assertNotIn("net/hpcc", made.files["network"])
        self.assertNotIn(" stamp 1", made.files["network"])
        self.assertIn(" stamp 1", self.made().files["network"])

    FLOWS = [{"from": "h0", "to": "h2", "bytes": 1, "cc": "ldcp"},
             {"from": "h1", "to": "h2", "bytes": 1}]

    def test_cc_of_a_flow(self):
        made = self.made(flow=self.FLOWS, topology={"hosts": 3}, cc={"alpha": 0.25, "eta": 0.9})
        text = made.files["plan"]
        self.assertRegex(text, r"(?m)^flow 0 .* ldcp before$")
        self.assertRegex(text, r"(?m)^flow 1 .* hpcc before$")
        self.assertIn("sysctl h2 net/ldcp/alpha_permille 250\n", made.files["network"])
        self.assertIn("sysctl h2 net/hpcc/eta_permille 900\n", made.files["network"])
        self.assertIn(" stamp 1", made.files["network"])
        self.assertEqual(made.scenario.cc_label(), "ldcp+hpcc")

    def test_ldcp(self):
        made = self.made(cc={"name": "ldcp", "alpha": 1, "beta": 0.5, "gamma": 0.125, "cw_min": 0.05, "iw": 7,
                             "fast_start": False, "burst": 2, "burst_shift": 3,
                             "slots": 2})
        lines = re.findall(r"sysctl h0 net/(\S+ \d+)\n", made.files["network"])
        self.assertEqual(sorted(line for line in lines if not line.startswith("ip")), sorted([
            "ldcp/alpha_permille 1000", "ldcp/beta_permille 500", "ldcp/gamma_permille 125",
            "ldcp/cw_min_permille 50", "ldcp/iw 7", "ldcp/fast_start 0", "ldcp/burst 2", "ldcp/burst_shift 3",
            "ldcp/base_rtt_ns 4266", "ldcp/host_mbps 100000"]))
        self.assertNotIn("net/ldcp/alpha", self.made(cc={"name": "ldcp"}).files["network"])

    def test_per_packet_acks(self):
        """Receivers of ldcp flows have a route to each sender that asks for them."""
        made = self.made(flow=self.FLOWS, topology={"hosts": 3})
        self.assertEqual(re.findall("(?m)^route .*$", made.files["network"]), ["route h2 eth0 10.0.0.1 - 1"])

    def test_marking(self):
        self.assertNotIn("marking", self.made().files["network"])
        made = self.made(qdisc={"marking": "ldcp"})
        self.assertEqual(re.findall(r"(?m)^qdisc (\S+) .* marking 1$", made.files["network"]), ["s0"] * 3)
        made = self.made(qdisc={"marking": "ldcp", "kmin": "10KB", "kmax": "20KB", "pmax": 0.25,
                                "knonect": "1MB"})
        self.assertIn(" marking 1 kmin 10000 kmax 20000 knonect 1000000 pmax 250000\n",
                      made.files["network"])

    def test_above(self):
        made = self.made(qdisc={"above": "10KB"})
        self.assertEqual(made.files["network"].count(" stamp 1 above 10000\n"), 3)
        self.assertNotIn("above", self.made().files["network"])
        made = self.made(qdisc={"above": "10KB"}, cc={"name": "dctcp"})
        self.assertNotIn("above", made.files["network"])

    def test_respond(self):
        made = self.made(qdisc={"respond": "10KB", "every": "5us"})
        self.assertEqual(made.files["network"].count(" stamp 1 respond 10000 every 5000\n"), 3)
        made = self.made(qdisc={"respond": "10KB", "above": "5KB"})
        self.assertEqual(made.files["network"].count(" stamp 1 above 5000 respond 10000\n"), 3)
        self.assertNotIn("respond", self.made().files["network"])
        made = self.made(qdisc={"respond": "10KB"}, cc={"name": "dctcp"})
        self.assertNotIn("respond", made.files["network"])

    def test_carrier(self):
        made = self.made(ip=6, cc={"carrier": "ioam", "ioam_nodes": 3}, host={"stamp": True})
        lines = made.files["network"].splitlines()
        for host in "h0", "h1":
            for key, value in (("carrier", 1), ("ioam_nodes", 3)):
                self.assertIn(f"sysctl {host} net/hpcc/{key} {value}", lines)
            self.assertIn(f"know {host} " + " ".join(f"{link} 100000000000" for link in (
                "1 1", "1 2", "1 3", "1000 0", "1001 0", "1002 0")), lines)
        self.assertNotIn(" stamp 1", made.files["network"])
        self.assertEqual(made.files["network"].count(" stamp 2"), 6)
        made = self.made(topology={"kind": "chain", "switches": 3}, ip=6, qdisc={"stamp": "mixed"},
                         cc={"carrier": "ioam"}, host={"stamp": True})
        for switch, stamp in ("s0", 1), ("s1", 2), ("s2", 1):
            self.assertRegex(made.files["network"], rf"(?m)^qdisc {switch} .* stamp {stamp}$")
            self.assertNotRegex(made.files["network"], rf"(?m)^qdisc {switch} .* stamp [^{stamp}]$")
        self.assertRegex(made.files["network"], r"(?m)^qdisc h1 .* stamp 3$")
        made = self.made(ip=6, qdisc={"stamp": "tcp,ioam"}, impair={"data_loss": 0.01})
        self.assertIn(" stamp 3", made.files["network"])
        self.assertIn(" stamp tcp,ioam", made.files["s0.tc"])
        for name in "know ", "carrier":
            self.assertNotIn(name, made.files["network"])
        made = self.made(cc={"carrier": "int"}, qdisc={"int_window": "3us"})
        lines = made.files["network"].splitlines()
        self.assertIn("sysctl h0 net/hpcc/carrier 2", lines)
        self.assertIn("know h0 1 1 100000000000 1 2 100000000000 1 3 100000000000", lines)
        self.assertEqual(made.files["network"].count(" stamp 4 int_window 3000"), 3)
        for stamps in "tcp,ioam,int", "tcp,int,ifa", "tcp,ioam,int,ifa":
            made = self.made(qdisc={"stamp": stamps, "int_window": "3us"}, impair={"data_loss": 0.01})
            self.assertIn(f" stamp {stamps} int_window 3000", made.files["s0.tc"])
        made = self.made(cc={"carrier": "ifa"})
        lines = made.files["network"].splitlines()
        self.assertIn("sysctl h0 net/hpcc/carrier 3", lines)
        self.assertIn("know h0 1 1 100000000000 1 2 100000000000 1 3 100000000000", lines)
        self.assertEqual(made.files["network"].count(" stamp 8"), 3)
        made = self.made(cc={"carrier": "csig", "csig_abw": 9}, qdisc={"int_window": "3us"})
        lines = made.files["network"].splitlines()
        self.assertIn("sysctl h0 net/hpcc/carrier 4", lines)
        self.assertIn("sysctl h0 net/hpcc/csig_abw 9", lines)
        self.assertEqual(made.files["network"].count(" stamp 16 int_window 3000 csig_abw 9"), 3)
        self.assertEqual(made.files["network"].count(" stamp 32"), 3)

    def test_queues(self):
        made = self.made(host={"queue": "fq", "stamp": True}, qdisc={"queue": "fq_codel"})
        lines = made.files["network"]
        self.assertRegex(lines, r"(?m)^qdisc h1 eth0 root 10: hpcc rate .* node 1001 stamp 1$")
        self.assertRegex(lines, r"(?m)^qdisc h1 eth0 10:1 20: fq limit .* pacing 0$")
        self.assertEqual(lines.count(" 10:1 20: fq_codel limit "), 3)
        made = self.made(host={"queue": "fifo"})
        self.assertNotIn("10:1", made.files["network"])
        self.assertRegex(made.files["network"], r"(?m)^qdisc h1 eth0 root 10: .* stamp 0$")
        made = self.made(host={"stamp": True}, cc={"name": "dctcp"})
        self.assertNotIn("stamp 1", made.files["network"])

    def test_many_hosts(self):
        made = self.made(topology={"hosts": 300}, flow=[
            {"from": "h0..h298", "to": "h299", "bytes": "endless"}], measure={"until": "1ms"})
        self.assertIn("address h299 eth0 10.0.1.44/16\n", made.files["network"])
        self.assertIn("neigh h299 eth0 10.0.1.0 02:00:00:00:00:ff\n", made.files["network"])
        self.assertRegex(made.files["plan"], r"(?m)^flow 298 h298 h299 0 0 hpcc before$")

    def test_impairments(self):
        made = self.made(impair={"data_loss": "1%", "ack_loss": "2%"})
        self.assertRegex(made.files["s0.tc"], r"dev h1 root handle 1: netem .*loss 1%\n")
        self.assertRegex(made.files["s0.tc"], r"dev h0 root handle 1: netem .*loss 2%\n")
        self.assertIn("dev h1 parent 1:1 handle 10: hpcc", made.files["s0.tc"])
        self.assertIn("tc -n hpcc-s0 -batch s0.tc\n", made.files["main.sh"])
        self.assertEqual(re.findall(r"(?m)^qdisc s0 (\S+)", made.files["network"]), ["h2"])
        made = self.made(impair={"reorder": "1%", "reorder_delay": "5us"})
        self.assertIn("delay 1us 5us distribution late", made.files["s0.tc"])
        table = [int(line) for line in made.files["late.dist"].split()]
        self.assertEqual((len(table), sum(table)), (10000, 100 * 8192))

    def test_ipv6(self):
        made = self.made(ip=6)
        self.assertIn("address h0 eth0 fd00::1/64\n", made.files["network"])
        self.assertNotIn("sysctl h0 net/ipv6/conf/default/disable_ipv6", made.files["network"])
        self.assertIn("sysctl s0 net/ipv6/conf/default/disable_ipv6 1\n", made.files["network"])


class Results(unittest.TestCase):
    def test_buckets(self):
        self.assertEqual([results.bucket_low(b) for b in (0, 1, 7, 8, 15, 16, 17, 24)],
                         [0, 64, 448, 512, 960, 1024, 1152, 2048])

    def test_percentiles(self):
        hist = {"0": 50, "1": 45, "16": 4, "24": 1}
        self.assertEqual(results.queue_figures(hist, 2100),
                         {"p50": 0, "p95": 127, "p99": 1151, "max": 2100})
        self.assertEqual(results.queue_figures({}, 0), {"p50": 0, "p95": 0, "p99": 0, "max": 0})
        self.assertEqual(results.queue_figures({str(results.BUCKETS - 1): 1}, 10**8)["p50"], 10**8)

    @staticmethod
    def lines(until_ns=2000):
        port = {"kind": "port", "tx_packets": 10, "stamped": 9, "drops": 3, "drops_ect": 1,
                "drops_knonect": 2, "marks": 7, "marks_kmax": 5, "queue_max": 1000, "resyncs": 0,
                "kmin": 10, "kmax": 20, "knonect": 30, "pmax_ppm": 250000}
        records = [{"kind": "kernel", "backlog_drops": 9},
                   {"kind": "flow", "id": 0, "done": True, "done_ns": 4000, "received": 10**6,
                    "retrans": 3, "min_rtt_us": 5},
                   {"kind": "host", "name": "h0", "timeouts": 2, "ldcp": {"marked": 3},
                    "hpcc": {"agreed": 2, "fallbacks": 1}},
                   {"kind": "host", "name": "h1", "timeouts": 1, "ldcp": {"marked": 4}}]
        for number in range(3):
            for when, t_ns, tx, hist in (("from", 1000, 1000, {"0": 5, "3": 1}),
                                         ("until", until_ns, 11000, {"0": 15, "3": 1}),
                                         ("end", 4000, 20000, {"0": 15, "3": 2})):
                records.append(port | {"when": when, "t_ns": t_ns, "id": number, "tx_bytes": tx,
                                       "hist": hist})
        records += [{"kind": "sample", "t_ns": t, "values": [t, t, t]} for t in (0, 1000, 2000)]
        return "\n".join(json.dumps(r) for r in records)

    def result(self, **kwargs):
        made = build()
        net = topology.Topology(made)
        return results.build(made, net, results.Records(self.lines(**kwargs)), "uml 6.1", 1)

    def test_schema(self):
        got = self.result()
        self.assertLessEqual({"scenario", "cc", "kernel", "seed", "flows", "ports"}, set(got))
        self.assertEqual(set(got["flows"][0]), {"id", "from", "to", "bytes", "cc", "start_us",
                                                "fct_us", "alone_us", "slowdown", "goodput_bps", "retrans"})
        self.assertEqual(got["hosts"], {"timeouts": 3, "backlog_drops": 9, "ldcp": {"marked": 7},
                                        "hpcc": {"agreed": 2, "fallbacks": 1}})
        self.assertRegex(got["version"], r"^\d+\.\d+")
        self.assertEqual(got["settings"]["link"]["rate"], "100000000000bit")
        self.assertEqual(set(got["settings"]) | {""}, (set(scenario.KEYS) | {"ip", "verify"}) -
                         {"workload", "rpc", "run", "event"})
        self.assertIsNone(got["jain_1ms"])
        self.assertEqual(set(got["ports"][0]), {
            "node", "peer", "rate_bps", "data", "packets", "wire_bytes", "drops", "drops_ect",
            "drops_knonect", "marks", "marks_kmax", "stamped", "marking", "utilization",
            "queue_bytes", "queue_bytes_whole_run", "queue_hist"})
        self.assertEqual([(port["peer"], port["data"]) for port in got["ports"]],
                         [("h0", False), ("h1", True), ("h2", False)])
        self.assertEqual([got["ports"][0][key] for key in
                          ("drops", "drops_ect", "drops_knonect", "marks", "marks_kmax")],
                         [3, 1, 2, 7, 5])
        self.assertEqual(got["ports"][0]["marking"],
                         {"kmin": 10, "kmax": 20, "knonect": 30, "pmax": 0.25})
        for key in ("queue_bytes", "queue_bytes_whole_run"):
            self.assertEqual(set(got["ports"][0][key]), {"p50", "p95", "p99", "max"})

    def test_window(self):
        got = self.result()["ports"][0]
        # 10,000 bytes in 1 us at 100 Gb/s
        self.assertEqual(got["utilization"], 0.8)
        self.assertEqual(got["queue_bytes"]["max"], 0)
        self.assertEqual(got["queue_bytes_whole_run"]["max"], 255)
        self.assertEqual(self.result()["flows"][0]["goodput_bps"], 10**6 * 8 * 10**9 // 4000)
        with self.assertRaises(results.EmptyWindow):
            self.result(until_ns=1000)

    def test_jain(self):
        for rates, index in (([5, 5, 5], 1), ([7, 0, 0, 0], 0.25), ([1, 3], 0.8),
                             ([1, 2, 3], 36 / 42), ([0, 0], None)):
            self.assertEqual(results.jain(rates), index)

    @staticmethod
    def records(done, samples):
        """Of flows that ended at done (None: not), and samples {us: values}."""
        records = results.Records("")
        records.flows = {i: {"done": ns is not None, "done_ns": ns or 0, "retrans": 0}
                         for i, ns in enumerate(done)}
        records.samples = [{"t_ns": us * 1000, "values": values}
                           for us, values in samples.items()]
        return records

    def test_fairness(self):
        made = build(topology={"hosts": 4}, measure={"until": "4ms"}, flow=[
            {"from": "h0", "to": "h3", "bytes": "endless"},
            {"from": "h1", "to": "h3", "bytes": "endless"},
            {"from": "h2", "to": "h3", "bytes": 100, "start": "1.5ms"}])
        # One port of series in front; flow 2 ends after 3.5 ms.
        records = self.records([None, None, 3500000], {
            0: [0, 0, 0, 0, 0], 500: [9, 9, 5, 1, 0], 1000: [9, 9, 10, 10, 0],
            1500: [9, 9, 30, 11, 0], 2000: [9, 9, 20, 40, 9], 3000: [9, 9, 30, 50, 39],
            4000: [9, 9, 30, 60, 100]})
        # 10:10, then 10:30 = 0.8, then 10:10:30 = 25/33, then 0:10 without flow 2
        self.assertEqual(results.fairness(made, records, 0, 4000000), {
            "min": 0.5, "mean": round((1 + 0.8 + 2500 / 3300 + 0.5) / 4, 6), "spans": 4})
        # Only whole spans count, from the first sample in the window on.
        self.assertEqual(results.fairness(made, records, 900000, 2999999),
                         {"min": 0.8, "mean": 0.8, "spans": 1})
        self.assertIsNone(results.fairness(made, records, 3500000, 4000000))
        # Samples 2 ms apart do not tell of 1 ms.
        coarse = self.records([None, None, None], {0: [0, 0, 0], 2000: [1, 2, 0]})
        self.assertIsNone(results.fairness(made, coarse, 0, 4000000))

    def test_endless_goodput(self):
        made = build(flow=[{"from": "h0", "to": "h1", "bytes": "endless"}],
                     measure={"until": "3ms"})
        records = self.records([None], {})
        records.flows[0]["window"] = [1000, 7000]
        got = results._flow(made.flows[0], topology.Topology(made), records, 500000, 2500000)
        self.assertEqual((got["bytes"], got["fct_us"], got["goodput_bps"]),
                         (None, None, 24 * 10**6))

    def test_series(self):
        made = build()
        net = topology.Topology(made)
        got = results.series(made, net, plan.Plan(made, net), results.Records(self.lines()))
        self.assertEqual(got["flows"][0]["rate_bps"], [0.0, 8 * 10**9, 8 * 10**9])
        self.assertEqual((got["ports"][0]["node"], got["ports"][0]["peer"]), ("s0", "h1"))


    def test_slowdowns(self):
        def result(*flows):
            return {"flows": [{"bytes": size, "slowdown": slow} for size, slow in flows]}
        got = results.slowdowns([result(*((1000, n) for n in range(1, 101))),
                                 result((1001, 7), (2 * 10**6, 3), (5, None), (None, None))])
        self.assertEqual(got, {1000: (100, 50, 95, 99), 3000: (1, 7, 7, 7), math.inf: (1, 3, 3, 3),
                               "all": (102, 49, 95, 99)})


class Ns3(unittest.TestCase):
    """The same flows in ns-3 and here."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.list = Path(made.name, "flows.csv")
        self.list.write_text("start_ns,from,to,bytes,ns3_fct_ns,ns3_alone_ns\n"
                             "100,0,1,500,4000,4000\n100,0,1,500,5000,4000\n"
                             "200,1,2,2000000,9000,3000\n", encoding="utf-8")
        self.results = Path(made.name, "results.json")
        self.flows = [self.flow(0, 0.1, "h0", "h1", 500, 5.0, 1.0),
                      self.flow(1, 0.1, "h0", "h1", 500, 6.0, 1.2),
                      self.flow(2, 0.2, "h1", "h2", 2000000, 8.0, 2.0)]
        self.run_ = {"scenario": "star", "cc": "hpcc", "seed": 1, "flows": self.flows,
                     "settings": build(topology={"hosts": 3}).settings()}
        # 91 bytes on the wire, over two links.
        self.ack_ns = 2000 + int(2 * 91 * 8 / 100)

    @staticmethod
    def flow(number, start_us, src, dst, size, fct_us, slowdown):
        return {"id": number, "start_us": start_us, "from": src, "to": dst, "bytes": size,
                "fct_us": fct_us, "slowdown": slowdown}

    def compare(self, text, status):
        self.results.write_text(text, encoding="utf-8")
        done = subprocess.run([str(TOP / "scripts/compare-ns3"), str(self.results), str(self.list)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_pairs(self):
        found = ns3.pairs(self.run_, ns3.read(self.list))
        self.assertEqual([f["ns3"] for f in found], [(4000, 4000), (5000, 4000), (9000, 3000)])
        table = ns3.by_size(found)
        late = (6000 + self.ack_ns) / (5000 + self.ack_ns)
        self.assertEqual(table[1000], (2, [1.0, 1.25, 1.25], [1.0, late, late]))
        self.assertEqual(table[math.inf], (1, [3.0] * 3, [(8000 + self.ack_ns) / (4000 + self.ack_ns)] * 3))
        self.assertEqual(table["all"][0], 3)
        self.assertEqual(ns3.waits_us(found), [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
        self.assertEqual(ns3.misses(table), [])

    def test_misses(self):
        """By 10 % in one size, by 5 % in all; percentiles that few flows decide are not judged."""
        theirs = [1.0, 1.0, 1.0]
        got = ns3.misses({1000: (50, theirs, [1.2] * 3), 3000: (300, theirs, [1.09] * 3),
                          math.inf: (300, theirs, [1.11] * 3), "all": (650, theirs, [1.06] * 3)})
        self.assertEqual([(size, percent) for size, percent, _ in got],
                         [(1000, 50), *((math.inf, p) for p in (50, 95, 99)), *(("all", p) for p in (50, 95, 99))])

    def test_unfinished(self):
        self.flows[0] |= {"fct_us": None, "slowdown": None}
        self.assertEqual(len(ns3.pairs(self.run_, ns3.read(self.list))), 2)

    def test_command(self):
        done = self.compare(json.dumps(self.run_), 0)
        self.assertIn("star, hpcc: 3 of 3 flows ended\n", done.stdout)
        self.assertIn("within the goal", done.stdout)
        done = self.compare(json.dumps({"runs": [self.run_, self.run_ | {"cc": "ldcp"}]}), 0)
        self.assertIn("star, ldcp: 3 of 3 flows ended\n", done.stdout)

    def test_wrong(self):
        self.assertIn("not a results.json", self.compare("{}", 2).stderr)
        self.assertIn("is not JSON", self.compare("x", 2).stderr)
        self.flows[0]["bytes"] = 501
        run = json.dumps(self.run_)
        self.assertIn("flow 0: ns-3 has none", self.compare(run, 2).stderr)
        self.list.write_text("start_ns,from\n", encoding="utf-8")
        self.assertIn("has to have the columns", self.compare(run, 2).stderr)
        self.list.unlink()
        self.assertIn("No such file", self.compare(run, 2).stderr)

    def test_odd_values(self):
        """One line and no table, whatever is in the files."""
        text = self.list.read_text(encoding="utf-8")
        for times in "4000,0", "0,4000", "-1,4000", "nan,1", "4000":
            self.list.write_text(text.replace("4000,4000", times), encoding="utf-8")
            done = self.compare(json.dumps(self.run_), 2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
            self.assertIn("whole numbers", done.stderr)
        self.list.write_text(text, encoding="utf-8")
        for key, value in (("start_us", math.inf), ("start_us", 10**400), ("fct_us", 10**400),
                           ("bytes", 10**400), ("slowdown", "x")):
            wrong = self.run_ | {"flows": [self.flows[0] | {key: value}]}
            done = self.compare(json.dumps(wrong), 2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
            self.assertLess(len(done.stderr), 300)
        self.assertIn("is not JSON", self.compare("[" * 100000, 2).stderr)

    def test_help(self):
        for args, status in (["--help"], 0), ([], 2), (["x"], 2), (["--nonsense"], 2):
            done = subprocess.run([str(TOP / "scripts/compare-ns3"), *args], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (status, int(status > 0)))
            self.assertEqual("FLOWS.csv" in done.stdout, not status)


class Report(unittest.TestCase):
    def run_of(self):
        made = build(cc={"name": "dctcp"})
        net = topology.Topology(made)
        planned = plan.Plan(made, net)
        records = results.Records(Results.lines())
        result = results.build(made, net, records, "uml 6.1 <b>", 1)
        return runner.Run(made, net, planned, result,
                          results.series(made, net, planned, records),
                          results.summary(result))

    def test_page(self):
        page = report.html([self.run_of()], {"finished": "now", "seconds": 1})
        self.assertNotRegex(re.sub("(?s)<script.*?</script>", "", page), r"(src|href)=|@import|url\(")
        self.assertIn("&lt;b&gt;", page)
        self.assertEqual(page.count('<div class="chart"'), 3)

    def test_table(self):
        self.assertRegex(report.text([self.run_of()]), r"(?m)^dctcp +0\.800 ")
        self.assertIn("do not mark ECN", report.text([self.run_of()]))
        marking = self.run_of()
        marking.scenario.qdisc["marking"] = "ldcp"
        self.assertNotIn("do not mark ECN", report.text([marking]))

    def test_notes(self):
        runs = [self.run_of(), self.run_of()]
        runs[1].summary["cc"] = "other"
        said = report.text(runs)
        self.assertIn("those of the port s0 to h1,", said)
        self.assertIn("fallbacks 1, of 2 that agreed", said)
        self.assertIn("dropped 9 packets between interfaces", said)
        self.assertNotIn("windows", said)
        self.assertNotIn("knonect", said)
        runs[0].summary["port"], runs[0].summary["window_us"] = "s0 to h0", 1.2
        runs[1].scenario.flows[0].cc = "cubic"
        said = report.text(runs)
        self.assertIn("dctcp: s0 to h0; other: s0 to h1.", said)
        self.assertIn("windows differ in length", said)
        self.assertIn("cubic: not ECN-capable, so the ports drop its packets from 30 B", said)

    def test_seeds(self):
        """Runs of one name are one row."""
        runs = [self.run_of() for _ in range(4)]
        said = report.text(runs)
        self.assertRegex(said, r"(?m)^dctcp +0\.800 \u00b1 0\.000 ")
        self.assertIn("Means over seeds (dctcp 4)", said)
        self.assertIn("Nothing in this scenario is random", said)
        for n, run in enumerate(runs):
            run.result["seed"] = run.summary["seed"] = n
            run.summary["drops"] = 10 + n
        self.assertIn("Nothing in this scenario is random", report.text(runs))
        runs[3].result["window_us"] = [1, 3]
        runs[3].summary["unfinished"] = 1
        said = report.text(runs)
        self.assertNotIn("Nothing in this scenario is random", said)
        # 10, 11, 12, 13: a deviation of 1.291, of which 3.182 / 2 are 2.054
        self.assertRegex(said, r" 11\.5 \u00b1 2\.054 ")
        self.assertIn("dctcp, seed 3: 1 of the flows", said)
        self.assertEqual(report.html(runs, {"finished": "", "seconds": 1}).count('<div class="chart"'), 3)
        runs[0].summary["drops"] = 10**6
        self.assertRegex(report.text(runs), r" 250009 \u00b1 795490 ")

    def test_slowdown(self):
        """A table where there are enough flows."""
        run = self.run_of()
        self.assertNotIn("slowdown", report.text([run]))
        run.result["flows"] = [{
            "bytes": 10**7 if n else 1, "slowdown": 1 + n / 100, "fct_us": 1, "start_us": 0}
            for n in range(100)]
        said = report.text([run]).split("\n\n")[1].splitlines()
        self.assertEqual([re.split("  +", line) for line in said[:3]],
                         [["FCT slowdown p50/p95/p99", "to 1 KB", "> 1 MB", "all"],
                          ["dctcp", "1.00/1.00/1.00", "1.50/1.95/1.99", "1.49/1.94/1.98"],
                          ["flows", "1", "99", "100"]])
        other = self.run_of()
        other.summary["cc"] = "other"
        other.result["flows"] = run.result["flows"][1:51]
        said = report.text([run, other]).split("\n\n")[1].splitlines()
        self.assertEqual(re.split("  +", said[3]), ["flows", "1/0", "99/50", "100/50"])
        self.assertIn("1.50/1.95/1.99", report.html([run], {"finished": "", "seconds": 1}))


def load_script(name):
    """A script of scripts/ as a module."""
    path = str(TOP / "scripts" / name)
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), path)
    spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module       # dataclasses look it up
    loader.exec_module(module)
    return module


class Bench(unittest.TestCase):
    def test_verdicts(self):
        least = bench.Figure("f", None, bench.ratio, least=0.97)
        most = bench.Figure("f", None, bench.number, most=lambda run: 10 * run)
        self.assertEqual([least.verdict(v) for v in (0.97, 0.969, None)],
                         ["met", "missed", "missed"])
        self.assertEqual([most.verdict(v, 2) for v in (0, 20, 21, None)],
                         ["met", "met", "missed", "missed"])
        self.assertEqual((most.target(2), least.target()), ("<= 20", ">= 0.970"))
        self.assertEqual(bench.Figure("f", None, bench.us).verdict(None), "")
        self.assertEqual(least.show(None), "unfinished")

    def test_report(self):
        made = bench.Report("name", "about <b>", ["a", "verdict"], [["x", "met"], ["x", "<i>"]],
                            "notes", ["one"])
        self.assertIn("| x | met |\n|  | <i> |\n", made.markdown())
        self.assertIn("&lt;i&gt;", made.html())
        self.assertNotIn("<b>", made.html())

    def test_pair(self):
        more = bench.Comparison("queue", lambda run: run, str, most=lambda other: 2 * other)
        less = bench.Comparison("used", lambda run: run, str, least=lambda other: other - 1)
        pair = bench.Pair("one", "file", ["a=1"], ["b=1"], ["b=2"], [more, less],
                          [bench.Figure("alone", lambda run: run, str, most=5)])
        this, other = (case.title for case in pair.cases())
        self.assertEqual([case.settings for case in pair.cases()], [["a=1", "b=1"], ["a=1", "b=2"]])
        self.assertEqual(pair.rows({this: 7, other: 3}), [
            ["one", "queue", "<= 6 (beside 3)", "7", "missed"],
            ["one", "used", ">= 2 (beside 3)", "7", "met"],
            ["one", "alone", "<= 5", "7", "missed"]])
        self.assertEqual(pair.rows({this: "broken", other: 3})[0][-1], "missed")

    def test_pair_of_seeds(self):
        """The median of each side counts; every run has a seed of its own."""
        pair = bench.Pair("one", "file", [], ["b=1"], ["b=2"], [
            bench.Comparison("queue", lambda run: run, str, most=lambda other: 2 * other)],
            [bench.Figure("alone", lambda run: run, str, most=5)], seeds=3)
        self.assertEqual([case.more_seed for case in pair.cases()], [0, 1, 2, 0, 1, 2])
        done = dict(zip((case.title for case in pair.cases()), (9, 2, 4, 1, 3, 30)))
        self.assertEqual(pair.rows(done), [["one", "queue", "<= 6 (beside 3)", "4", "met"],
                                           ["one", "alone", "<= 5", "4", "met"]])

    def test_random_phases(self):
        """The limits of the N D/D/1 queue at 0.95, in packets, as its formula gives them."""
        core = load_script("bench-core")
        for flows, packets in (16, 5.7), (24, 6.9), (64, 10.6):
            self.assertAlmostEqual(core.random_phases(flows, 0.95) / 1538, packets, delta=0.05)

    def test_lab_slope(self):
        self.assertEqual(load_script("bench-lab").slope([(10, 1), (18, 5)]), 2)

    def test_lab_watches_the_flow(self):
        watch = load_script("bench-lab").Watch()
        for text in "network 50 %", "network 100 %", "5 %", "100 %", "done":
            watch.update("hpcc", text)
        self.assertEqual([done for _, done in watch.points], [0.05, 1])

    def test_lab_counts_grandchildren(self):
        lab = load_script("bench-lab")
        with subprocess.Popen(["sh", "-c", "(while :; do :; done) & echo; wait"],
                              stdout=subprocess.PIPE, start_new_session=True) as process:
            process.stdout.read(1)
            before = lab.descendants_cpu()
            until = time.monotonic() + 30
            while lab.descendants_cpu() < before + 0.05 and time.monotonic() < until:
                time.sleep(0.05)
            after = lab.descendants_cpu()
            os.killpg(process.pid, signal.SIGKILL)
        self.assertGreaterEqual(after, before + 0.05)

    def test_cases_load(self):
        ldcp, core = load_script("bench-ldcp"), load_script("bench-core")
        cases = [ldcp.MIXED, *core.CASES, *sweep.cases(10**11)]
        cases += [case for pair in core.PAIRS for case in pair.cases()]
        cases += [case for contest in ldcp.CONTESTS for case in contest.cases()]
        for case in cases:
            scenario.load(bench.SCENARIOS / f"{case.file}.toml", case.settings, case.cc)

    def test_ideal(self):
        """45 packets with 90 bytes of headers each, at 100 Gb/s; T = 9986 ns."""
        ldcp = load_script("bench-ldcp")
        made = scenario.load(bench.SCENARIOS / "message-100g.toml")
        run = types.SimpleNamespace(scenario=made, topology=topology.Topology(made))
        self.assertAlmostEqual(ldcp.ideal_us(run), 9.986 + (64000 + 45 * 90) * 8 / 1e5)

    def test_queue_bound(self):
        ldcp = load_script("bench-ldcp")
        made = scenario.load(bench.SCENARIOS / "messages32-100g.toml")
        run = types.SimpleNamespace(
            scenario=made, topology=topology.Topology(made),
            result={"ports": [{"wire_bytes": 1, "marking": {"kmax": 60000, "knonect": 90000}}]})
        self.assertEqual(ldcp.queue_bound(run), 90000 + 9986 * 100 // 8 + 60000 + 32 * 1538)

    def test_share(self):
        ldcp = load_script("bench-ldcp")
        run = types.SimpleNamespace(result={"flows": [
            {"cc": cc, "goodput_bps": n} for cc, n in
            (("hpcc", 1), ("hpcc", 3), ("ldcp", 6), ("ldcp", 10))]})
        self.assertEqual([ldcp.share(cc, which)(run, {}) for cc in ("hpcc", "ldcp")
                          for which in (min, max)], [0.2, 0.6, 1.2, 2.0])

    def test_message_p99(self):
        def run(times):
            return types.SimpleNamespace(result={"flows": [
                {"bytes": 1, "fct_us": t} for t in times] + [{"bytes": None, "fct_us": None}]})
        self.assertEqual(sweep.message_p99(run(range(1, 201))), 198)
        self.assertEqual(sweep.message_p99(run([5, 3])), 5)
        self.assertIsNone(sweep.message_p99(run([5, None])))

    def test_sweep_is_around_the_defaults(self):
        """The module's and the qdisc's; and what is stored was measured there."""
        knobs = (TOP / "kmod/ldcp/main.c").read_text(encoding="utf-8")
        for name in ("alpha", "beta", "gamma"):
            default = re.search(rf'"{name}_permille",\s*LDCP_SYSCTL\(\w+\),\s*(\d+)', knobs)[1]
            self.assertEqual(sweep.BASE[name] * 1000, int(default), name)
        mark = (TOP / "qdisc/core/mark.c").read_text(encoding="utf-8")
        for name in sweep.TIMES:
            self.assertEqual(sweep.BASE[name],
                             int(re.search(rf"hpcc_{name}_ns = (\d+);", mark)[1]), name)
        stored = json.loads(sweep.STORED.read_text(encoding="utf-8"))
        self.assertEqual(stored["defaults"], sweep.BASE)
        self.assertEqual(set(stored["figures"]), {metric.title for metric in sweep.METRICS})
        self.assertEqual(sweep.pictures().count('<div class="chart"'), len(sweep.METRICS))

    def test_sweep_points(self):
        settings = sweep.point("kmin", 2, 10**11)
        self.assertIn("qdisc.kmin=25000", settings)
        self.assertIn("qdisc.knonect=100000", settings)
        self.assertIn("cc.alpha=0.25", settings)
        self.assertIn("cc.alpha=0.125", sweep.point("alpha", 0.5, 10**11))


class CommandLine(unittest.TestCase):
    """What is refused before anything boots: one line, exit status 2."""

    def refused(self, text, *args):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "wrong.toml")
            path.write_text(text, encoding="utf-8")
            done = subprocess.run([LAB, args[0] if args else "run", str(path), *args[1:]],
                                  capture_output=True, text=True, check=False,
                                  env=os.environ | {"HPCC_CACHE": f"{directory}/cache",
                                                    "PYTHONDONTWRITEBYTECODE": "1"})
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertFalse(Path(directory, "cache").exists())
            return done.stderr

    def test_errors(self):
        self.assertIn("h9", self.refused(SMALL.replace('"h2"', '"h9"')))
        self.assertIn("link.rat", self.refused(SMALL.replace("rate", "rat")))
        self.assertIn("wrong.toml", self.refused("[topology"))
        self.assertIn("vegas", self.refused(SMALL, "compare", "--cc", "hpcc,vegas"))
        self.assertIn("twice", self.refused(SMALL, "compare", "--cc", "hpcc,hpcc"))
        one = '[[flow]]\nfrom = "h0"\nto = "h1"\nbytes = 1\n'
        self.assertIn("names are ldcp+hpcc", self.refused(
            f'{one}cc = "ldcp"\n{one}cc = "hpcc"\n{one}', "compare", "--cc", "hpcc,ldcp"))
        self.assertIn("compare several", self.refused(SMALL, "run", "--cc", "hpcc,cubic"))
        for names in "", ",", "hpcc,":
            self.assertIn("missing", self.refused(SMALL, "compare", "--cc", names))
        self.assertIn("link.delay", self.refused(SMALL, "run", "--set", "link.delay=1"))
        self.assertIn("[cc]", self.refused('cc = "hpcc"\n' + SMALL, "run", "--cc", "cubic"))
        self.assertIn("[[flow]]", self.refused(SMALL.replace("[[flow]]", "[flow]"), "run",
                                               "--set", "flow.bytes=1"))
        self.assertIn("link.buffer", self.refused(SMALL, "run", "--set", "link.buffer=0"))
        self.assertIn("--out", self.refused(SMALL, "run", "--out", "/proc/x"))
        with tempfile.TemporaryDirectory() as out:
            Path(out, "series.json").mkdir()
            self.assertIn("series.json is a directory", self.refused(SMALL, "run", "--out", out))

    def test_two_runs_with_one_out(self):
        with tempfile.TemporaryDirectory() as out:
            held = os.open(out, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertIn("another run writes its results there",
                          self.refused(SMALL, "run", "--out", out))
            os.close(held)
        self.assertIn("--out", self.refused(SMALL, "run", "--out", "/proc"))
        with self.assertRaisesRegex(scenario.ScenarioError, "printable"):
            scenario.build({}, "\udcff")
        self.assertIn("2^64", self.refused(SMALL, "run", "--seed", str(2**64 - 1), "--repeat", "2"))
        for args in (["--seed", "x"], ["--repeat", "0"], ["--kernel", "a\nb"], ["more"], ["--nonsense"]):
            self.assertIn(args[0], self.refused(SMALL, "run", *args))
        self.assertIn("wrong.toml", self.refused("x = " + "[" * 5000))
        self.assertIn("wrong.toml", self.refused("x = " + "9" * 5000))


class Commands(unittest.TestCase):
    """What all commands do alike."""
    NAMES = ("hpcc-lab", "hpcc-paper", "compare-ns3")

    def test_interrupted_while_it_starts(self):
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "tomllib.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n",
                                                     encoding="utf-8")
            for name in self.NAMES:
                done = subprocess.run([str(TOP / "scripts" / name), "--help"], capture_output=True, check=False,
                                      env=os.environ | {"PYTHONPATH": directory, "HPCC_CACHE": directory})
                self.assertEqual((done.returncode, done.stderr), (-signal.SIGINT, b""), name)

    def test_usage_is_one_line(self):
        for name in self.NAMES:
            done = subprocess.run([str(TOP / "scripts" / name), "--nonsense"], capture_output=True, text=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)

    def test_no_stdout(self):
        for name in self.NAMES:
            done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", str(TOP / "scripts" / name), "nothere", "nothere"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)


class Modules(unittest.TestCase):
    """scripts/uml/modules.sh"""

    def test_stopped_build_leaves_nothing(self):
        """Ctrl-C and SIGTERM while it compiles, also by hpcc-lab."""
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "tree").mkdir()
            Path(directory, "tree/Module.symvers").touch()
            Path(directory, "tree/.config").write_text("CONFIG_UML=y\n", encoding="ascii")
            # Compiling takes long, and does not end by Ctrl-C at once.
            Path(directory, "tree/Makefile").write_text(
                f"modules:\n\techo $$$$ > {directory}/pid; trap '' INT; sleep 100; touch $(M)/late; sleep 100\n",
                encoding="ascii")
            cache = Path(directory, "cache")
            code = ("import sys; sys.path.insert(0, sys.argv[1]); from lab.run import runner; import signal\n"
                    "def end(*_):\n runner.stop_all(); raise KeyboardInterrupt\n"
                    "signal.signal(signal.SIGTERM, end)\n"
                    "try: runner._output(sys.argv[2:], 'x')\nexcept KeyboardInterrupt: sys.exit(130)\n")
            script = [str(TOP / "scripts/uml/modules.sh"), f"{directory}/tree"]
            for command in script, [sys.executable, "-c", code, str(TOP / "scripts"), *script]:
                for send in os.killpg, os.kill:
                    for number in signal.SIGINT, signal.SIGTERM:
                        if send == os.kill and number == signal.SIGINT:
                            continue
                        Path(directory, "pid").unlink(missing_ok=True)
                        with subprocess.Popen(command, env=os.environ | {"HPCC_CACHE": str(cache)},
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                              start_new_session=True) as process:
                            while not Path(directory, "pid").exists() or \
                                    not Path(directory, "pid").read_text(encoding="ascii"):
                                time.sleep(0.05)
                            send(process.pid, number)
                            process.wait(20)
                        with self.subTest(command=command[0], send=send.__name__, number=number):
                            self.assertEqual(process.returncode, 130)
                            self.assertEqual(list(cache.iterdir()), [])


class Guest(unittest.TestCase):
    """Short runs in User Mode Linux."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="hpcc-test-lab-")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.file = Path(cls.directory, "small.toml")
        cls.file.write_text(SMALL, encoding="utf-8")

    def lab(self, out, *args, command="run", status=0):
        done = subprocess.run([LAB, command, str(self.file), "--out", f"{self.directory}/{out}",
                               *args], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def results(self, out):
        data = json.loads(Path(self.directory, out, "results.json").read_text(encoding="utf-8"))
        del data["wall"]
        return json.dumps(data)

    # Another machine, as far as one can be pretended: mounts, uptime, limits.
    ELSEWHERE = """set -e
        if [ -e /run/mount ]; then mount -t tmpfs run /run; else mkdir /run/mount; fi
        mount --bind "$1" "$2/cache"
        cd "$2/very/long path"
        exec setpriv --reuid=65534 --regid=65534 --clear-groups prlimit --nofile=400:400 \
            taskset -c 0 env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$2" HPCC_CACHE="$2/cache" \
            TMPDIR="$2/tmp" LANG=de_DE.UTF-8 LD_BIND_NOW=1 "WORDS=$(seq -s ' ' 1000)" "${@:3}"
    """

    def elsewhere(self, *args):
        """Another user's copy of the tree, and as root all of ELSEWHERE."""
        home = Path(self.directory, "elsewhere")
        tree = home / "very/long path/to the/tree"
        for path in (tree, home / "cache", home / "tmp", home / "out"):
            path.mkdir(parents=True, mode=0o777)
            path.chmod(0o777)
        Path(self.directory).chmod(0o755)
        for name in ("Kbuild", "dkms.conf", "include", "kmod", "qdisc", "scripts", "tools"):
            subprocess.run(["cp", "-a", TOP / name, tree / name], check=True)
        command = [tree / "scripts/hpcc-lab", "run", self.file, "--out", home / "out", *args]
        if os.geteuid() == 0:
            cache = os.environ.get("HPCC_CACHE") or Path(
                os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "hpcc")
            command = ["unshare", "--mount", "--time", "--fork", "--boottime", "500000", "--monotonic", "500000",
                       "bash", "-c", self.ELSEWHERE, "elsewhere", cache, home, *command]
        else:
            command = ["env", f"TMPDIR={home}/tmp", "LANG=de_DE.UTF-8", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=home)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return "elsewhere/out"

    def test_repeatable(self):
        # Loss makes the seed matter.
        lossy = ("--set", "impair.data_loss=1%", "--seed")
        for out, seed in (("a", "7"), ("c", "8")):
            self.lab(out, *lossy, seed)
        elsewhere = self.elsewhere(*lossy, "7")
        self.assertEqual(self.results("a"), self.results(elsewhere))
        self.assertNotEqual(self.results("a"), self.results("c").replace('"seed": 8', '"seed": 7'))
        series = [Path(self.directory, out, "series.json").read_bytes() for out in ("a", elsewhere)]
        self.assertEqual(*series)

    def test_repeatable_side_by_side(self):
        """A busy host interrupts guests elsewhere in each run; their random numbers must not follow."""
        runs = [subprocess.Popen([LAB, "run", bench.SCENARIOS / "fb-hadoop-star16.toml", "--out",
                                  f"{self.directory}/side-{i}", "--set", "impair.data_loss=0.5%",
                                  "--set", "workload.duration=100us", "--seed", "2"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(4)]
        self.assertEqual([run.wait() for run in runs], [0] * len(runs))
        self.assertEqual(len({self.results(f"side-{i}") for i in range(len(runs))}), 1)

    def test_many_flows(self):
        """More sockets than a process may have files at first."""
        self.lab("many", "--set", "flow.count=260", "--set", "flow.bytes=1", "--cc", "cubic")
        flows = json.loads(self.results("many"))["flows"]
        self.assertEqual(len(flows), 520)
        self.assertNotIn(None, [flow["fct_us"] for flow in flows])

    def test_compare(self):
        done = self.lab("cmp", "--cc", "hpcc,cubic", command="compare")
        self.assertRegex(done.stdout, r"(?m)^hpcc .*\n^cubic ")
        runs = json.loads(self.results("cmp"))["runs"]
        self.assertEqual([run["cc"] for run in runs], ["hpcc", "cubic"])
        for run in runs:
            for flow in run["flows"]:
                self.assertEqual(flow["retrans"], 0)
                self.assertLess(flow["goodput_bps"], 10**10)
            port = run["ports"][2]
            self.assertGreater(port["utilization"], 0.5)
            self.assertEqual(port["stamped"] > 0, run["cc"] == "hpcc")
            # Two times 300 KB, plus 118 of headers and overhead for each segment
            self.assertGreater(port["wire_bytes"], 600000 * 1538 // 1448)
            self.assertLess(port["wire_bytes"], 600000 * 1.2)

    def test_verify_ipv6_impaired(self):
        for impairment in ("impair.data_loss=1%", "impair.reorder=1%", "impair.ack_loss=1%"):
            self.lab("v", "--set", "verify=true", "--set", "ip=6", "--set", impairment)
            for flow in json.loads(self.results("v"))["flows"]:
                self.assertIsNotNone(flow["fct_us"], impairment)

    def test_drops(self):
        self.lab("d", "--set", "link.buffer=30KB", "--cc", "cubic")
        port = json.loads(self.results("d"))["ports"][2]
        self.assertGreater(port["drops"], 0)
        self.assertLessEqual(port["queue_bytes_whole_run"]["max"], 30000)

    def test_chain(self):
        self.lab("ch", "--set", "topology.kind=chain", "--set", "topology.hosts=6",
                 "--set", "flow.from=h0", "--set", "flow.to=h1")
        ports = json.loads(self.results("ch"))["ports"]
        sent = {(p["node"], p["peer"]): p["packets"] for p in ports}
        self.assertEqual(sent["s0", "s1"], sent["s2", "h1"])
        self.assertEqual(sent["s0", "h2"], 0)

    def test_slow_fabric(self):
        """The port in front of the slow link is the one that is full."""
        done = self.lab("sf", "--set", "topology.kind=dumbbell", "--set", "topology.hosts=4", "--set",
                        "flow.to=h3", "--set", "link.fabric.rate=1Gbit", "--set", "link.s0-s1.delay=9us")
        self.assertIn("port s0 to s1,", done.stdout)
        ports = {(p["node"], p["peer"]): p for p in json.loads(self.results("sf"))["ports"]}
        self.assertEqual(ports["s0", "s1"]["rate_bps"], 10**9)
        self.assertTrue(0.9 < ports["s0", "s1"]["utilization"] <= 1)
        self.assertTrue(0.09 < ports["s1", "h3"]["utilization"] <= 0.1)

    def test_endless(self):
        done = self.lab("e", "--set", "flow.bytes=endless", "--set", "measure.until=3ms", "--set",
                        "measure.from=1ms", "--set", "measure.interval=100us", "--set", "flow.0.cc=ldcp",
                        "--set", "flow.0.count=2")
        self.assertRegex(done.stdout, r"(?m)^ldcp .* - .* - ")
        got = json.loads(self.results("e"))
        self.assertEqual(got["jain_1ms"]["spans"], 2)
        self.assertEqual([round(us) for us in got["window_us"]], [1000, 3000])
        total = sum(flow["goodput_bps"] for flow in got["flows"])
        self.assertTrue(8.5 * 10**9 < total < 10**10, total)
        self.assertGreater(got["hosts"]["ldcp"]["flows"], 0)

    def test_marking(self):
        """Thresholds as given and as derived, drops and marks by cause."""
        marking = ("--set", "qdisc.marking=ldcp", "--set", "flow.bytes=1MB", "--set")

        def port(*args):
            self.lab("m", *marking, *args)
            return json.loads(self.results("m"))["ports"][2]
        given = ("qdisc.kmin=10KB", "--set", "qdisc.kmax=20KB", "--set", "qdisc.pmax=0.5",
                 "--set", "qdisc.knonect=30KB")
        got = port(*given, "--cc", "dctcp")
        self.assertEqual(got["marking"], {"kmin": 10000, "kmax": 20000, "knonect": 30000,
                                          "pmax": 0.5})
        self.assertGreater(got["marks"], got["marks_kmax"])
        self.assertGreater(got["marks_kmax"], 0)
        self.assertEqual(got["drops"], 0)
        got = port(*given, "--cc", "cubic")
        self.assertEqual(got["marks"], 0)
        self.assertGreater(got["drops_knonect"], 0)
        self.assertEqual((got["drops"], got["drops_ect"]), (got["drops_knonect"], 0))
        # No threshold is above the buffer.
        got = port("link.buffer=20KB", "--set", "qdisc.kmin=20KB", "--cc", "dctcp")
        self.assertEqual((got["marking"]["kmax"], got["marking"]["knonect"]), (20000, 20000))
        self.assertEqual(got["drops"], got["drops_ect"])
        self.assertGreater(got["drops_ect"], 0)

    def test_timeouts(self):
        """Of a flow whose last packets are lost, nobody tells."""
        self.lab("t", "--set", "impair.data_loss=30%", "--set", "flow.bytes=100KB", "--cc", "cubic")
        got = json.loads(self.results("t"))
        self.assertGreater(got["hosts"]["timeouts"], 0)

    def test_unfinished(self):
        done = self.lab("u", "--set", "measure.deadline=30us", status=1)
        self.assertIn("deadline", done.stderr)

    def test_one_fails(self):
        """The others' results are written."""
        done = self.lab("f", "--set", "measure.deadline=530us", "--cc", "hpcc,cubic",
                        command="compare", status=1)
        self.assertIn("hpcc-lab: hpcc: the measurement window is empty", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^cubic ")
        self.assertEqual([run["cc"] for run in json.loads(self.results("f"))["runs"]], ["cubic"])

    def test_repeat(self):
        """Seeds differ, and the same ones give the same results."""
        for out in "r1", "r2":
            done = self.lab(out, "--repeat", "3", "--seed", "7", "--set", "flow.spread=50us")
            self.assertRegex(done.stdout, r"(?m)^hpcc .*\u00b1 ")
        self.assertEqual(self.results("r1"), self.results("r2"))
        runs = json.loads(self.results("r1"))["runs"]
        self.assertEqual([run["seed"] for run in runs], [7, 8, 9])
        self.assertEqual(len({run["flows"][0]["fct_us"] for run in runs}), 3)

    def test_queue_that_the_kernel_lacks(self):
        version = tuple(map(int, json.loads(subprocess.run(
            [LAB, "run", self.file, "--out", f"{self.directory}/has"], capture_output=True, check=True) and
            Path(self.directory, "has/results.json").read_text(encoding="utf-8"))["kernel"].split()[1].split(".")[:2]))
        if version >= (6, 17):
            self.skipTest("this kernel has dualpi2")
        done = self.lab("lacks", "--set", "qdisc.queue=dualpi2", status=2)
        self.assertRegex(done.stderr, r'\Ahpcc-lab: qdisc.queue = "dualpi2": needs Linux 6.17 or later.*\n\Z')

    def test_terminated(self):
        """SIGTERM ends the guest, too, and nothing is left."""
        there = Path(self.directory, "tmp")
        there.mkdir()
        with subprocess.Popen([LAB, "run", self.file, "--out", f"{self.directory}/ended", "--set",
                               "flow.bytes=10GB"], env=os.environ | {"TMPDIR": str(there)},
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if "%" in line:
                    break
            self.assertTrue(list(there.iterdir()))
            process.terminate()
            process.stderr.read()
        self.assertEqual(process.returncode, 130)
        self.assertEqual(list(there.iterdir()), [])

    def test_stdout(self):
        """Its reader may be gone, and its encoding any."""
        argv = [LAB, "run", str(self.file), "--out", f"{self.directory}/pipe", "--repeat", "2"]
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("Traceback", done.stderr)
        self.assertTrue(Path(self.directory, "pipe/results.json").exists())
        done = subprocess.run(argv, capture_output=True, text=True, check=False,
                              env=os.environ | {"PYTHONIOENCODING": "ascii"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(r"\xb1", done.stdout)

    def test_responses(self):
        """Of 64 to 1 the peak is at most 70 % of that without, as is p99 of the first 100 us."""
        figures = []
        for out, more in ("n", []), ("r", ["--set", "qdisc.respond=50KB"]):
            done = subprocess.run([LAB, "run", str(TOP / "scripts/scenarios/incast64-100g.toml"), "--set",
                                   "measure.from=0", "--set", "measure.until=100us", *more, "--out",
                                   f"{self.directory}/{out}"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(self.results(out))
            port = max(result["ports"], key=lambda port: port["queue_bytes_whole_run"]["max"])
            figures.append((port["queue_bytes_whole_run"]["max"], port["queue_bytes"]["p99"],
                            max(flow["fct_us"] for flow in result["flows"]),
                            result["hosts"]["hpcc"]["response_received"]))
        (peak, p99, slowest, none), (peak_r, p99_r, slowest_r, some) = figures
        self.assertLessEqual(peak_r, 0.7 * peak)
        self.assertLessEqual(p99_r, 0.7 * p99)
        self.assertLessEqual(slowest_r, 1.002 * slowest)
        self.assertEqual(none, 0)
        self.assertGreaterEqual(some, 64)

    def test_rerun(self):
        """A results.json tells all that it depends on."""
        self.lab("a", "--set", "flow.spread=50us", "--set", "link.h0-s0.rate=5Gbit", "--seed", "3")
        made = Path(self.directory, "a/results.json")

        def again(path):
            return subprocess.run([LAB, "rerun", str(path), "--out", f"{self.directory}/b"],
                                  capture_output=True, text=True, check=False)
        done = again(made)
        self.assertEqual(done.stdout.splitlines()[-1], "hpcc, seed 3: the same", done.stderr)
        self.assertEqual((done.returncode, self.results("a")), (0, self.results("b")))
        other = Path(self.directory, "other.json")
        data = json.loads(made.read_text(encoding="utf-8"))
        data["settings"]["link"]["h0-s0"]["rate"] = "4Gbit"
        other.write_text(json.dumps(data), encoding="utf-8")
        done = again(other)
        self.assertRegex(done.stdout.splitlines()[-1], "^hpcc, seed 3: differs in .*flows")
        self.assertEqual(done.returncode, 1)
        for wrong in ({"runs": []}, *(data | change for change in (
                {"scenario": "../x"}, {"scenario": "\0"}, {"scenario": "\ud800"}, {"seed": -1}, {"seed": "1"},
                {"kernel": "mars 6.1"}, {"settings": {"link": {"rate": 1}}}, {"settings": None}))):
            other.write_text(json.dumps(wrong), encoding="utf-8")
            done = again(other)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1),
                             f"{wrong}: {done.stderr}")
        other.write_text("[" * 100000, encoding="utf-8")
        done = again(other)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)

    def test_workload(self):
        """As a list, and alone: a slowdown is 1 or more, and little more for who is alone."""
        Path(self.directory, "one.csv").write_text("start_ns,from,to,bytes\n0,0,1,1000\n"
                                                   "100000,1,0,400000\n", encoding="ascii")
        Path(self.directory, "w.toml").write_text(
            '[link]\nrate = "10Gbit"\n[workload]\nflows = "one.csv"\n', encoding="utf-8")
        done = subprocess.run([LAB, "run", f"{self.directory}/w.toml", "--out", f"{self.directory}/w"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for flow, most in zip(json.loads(self.results("w"))["flows"], (1.05, 1.2)):
            self.assertTrue(1 <= flow["slowdown"] < most, flow)

    def test_places(self):
        """run and compare do not overwrite each other."""
        for command, path in ("run", "out/small-reno"), ("compare", "out/small"):
            done = subprocess.run([LAB, command, str(self.file), "--cc", "reno"], check=False,
                                  capture_output=True, text=True, cwd=self.directory)
            self.assertIn(f"\n{path}/report.html\n", done.stdout, done.stderr)

    def test_build_date(self):
        """It is mixed into the kernel's random numbers: another one, other results."""
        done = subprocess.run([RUN, "uname", "-v"], capture_output=True, text=True, check=False)
        self.assertIn("#1 Mon Nov 23 11:46:14 UTC 2026\n", done.stdout, done.stderr)

    def test_on_the_host(self):
        """--kernel host, where the host is a guest with our modules loaded."""
        tree = runner._output([str(runner.UML / "build.sh")], "kernel")
        tools = runner._output([str(runner.UML / "modules.sh"), tree], "modules")
        done = subprocess.run(
            [RUN, "--tree", tree, "--rw", self.directory, "--ro", tools,
             "--module", f"{tools}/sch_hpcc.ko", "--module", f"{tools}/tcp_hpcc.ko",
             "--env", f"TC_LIB_DIR={tools}", "--env", f"HPCC_TRAFFIC={tools}/hpcc-traffic",
             "--env", f"HPCC_NETWORK={tools}/hpcc-network",
             "python3", LAB, "run", str(self.file), "--kernel", "host",
             "--out", f"{self.directory}/host"],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        got = json.loads(self.results("host"))
        self.assertRegex(got["kernel"], r"^host \d")
        self.assertGreater(got["ports"][2]["stamped"], 0)

    def test_iperf3(self):
        if not shutil.which("iperf3"):
            self.skipTest("needs iperf3")
        script = """ip netns add a; ip link add v0 type veth peer name v1 netns a
            ip addr add 10.0.0.1/24 dev v0; ip link set v0 up; ip -n a link set v1 up
            ip -n a addr add 10.0.0.2/24 dev v1; ip link set lo up
            ip netns exec a iperf3 -s -1 -D
            until ip netns exec a ss -lnt | grep -q 5201; do sleep 0.01; done
            iperf3 -c 10.0.0.2 -n 5M -J"""
        done = subprocess.run([RUN, "sh", "-c", script], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('"sum_received"', done.stdout)


class Boot(unittest.TestCase):
    """scripts/uml/run.sh"""

    @staticmethod
    def guest(*args, **kwargs):
        return subprocess.run([RUN, *args], capture_output=True, text=True, check=False, **kwargs)

    def test_status(self):
        done = self.guest("sh", "-c", "echo out; exit 41")
        self.assertEqual((done.returncode, done.stdout), (41, "out\n"))

    def test_host_is_read_only(self):
        with tempfile.TemporaryDirectory() as directory:
            done = self.guest("--rw", directory, "--env", "WORD=two words", "sh", "-c",
                              f"touch {TOP}/x /etc/x 2>/dev/null && exit 1; touch /tmp/x /run/x &&"
                              f' echo "$WORD" > {directory}/y')
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(Path(directory, "y").read_text(encoding="ascii"), "two words\n")

    def test_virtual_time(self):
        done = self.guest("sh", "-c", "date +%s; sleep 1000; date +%s")
        start, end = (int(line) for line in done.stdout.split())
        self.assertEqual((start, end - start), (1767225600, 1000))

    def test_timeout(self):
        done = self.guest("--timeout", "1", "sh", "-c", "while :; do :; done")
        self.assertEqual(done.returncode, 124, done.stdout)
        self.assertIn("timed out", done.stderr)

    def test_nothing_is_left(self):
        """A guest that is interrupted takes its processes with it."""
        with subprocess.Popen([RUN, "sh", "-c", "echo up; while :; do :; done"],
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "up\n")
            job = self.jobs(process.pid)
            self.assertEqual(len(job), 1)
            process.terminate()
            self.assertEqual(process.wait(10), 130)
        patience = time.monotonic() + 5
        while self.running(job[0]) and time.monotonic() < patience:
            time.sleep(0.01)
        self.assertEqual(self.running(job[0]), [])
        self.assertFalse(Path(job[0]).exists())

    @staticmethod
    def jobs(pid):
        """The working directories of a process's children."""
        found = set()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, IndexError):
                if int(stat.read_text(encoding="ascii").rsplit(")", 1)[1].split()[1]) == pid:
                    found.add(os.readlink(stat.parent / "cwd"))
        return list(found)

    @staticmethod
    def running(directory):
        """Processes that work in a directory."""
        found = []
        for cwd in Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if os.readlink(cwd).split(" ")[0] == directory:
                    found.append(cwd.parent.name)
        return found

    def test_interactive(self):
        """A shell for a terminal's user."""
        master, terminal = os.openpty()
        self.addCleanup(os.close, master)
        with subprocess.Popen(["setsid", "--ctty", RUN, "--interactive", "bash"], stdin=terminal,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            os.close(terminal)
            os.write(master, b"echo $((6 * 7))\nexit 9\n")
            self.assertIn("42\n", process.stdout.read())
        self.assertEqual(process.returncode, 9)
        done = self.guest("--interactive", "true", stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 125)
        self.assertIn("no terminal", done.stderr)

    def test_panic(self):
        done = self.guest("--kernel", "init=/nonexistent", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("panic", done.stdout)

    def test_bad_module(self):
        done = self.guest("--module", "/nonexistent.ko", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("nonexistent.ko", done.stdout)


if __name__ == "__main__":
    unittests.main(sys.modules[__name__], sys.argv[1:])
