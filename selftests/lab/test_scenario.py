#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Scenarios, topologies and workloads of hpcc-lab: units, keys, and values that are rejected."""

import contextlib
import datetime
import json
import lzma
import os
import re
import tempfile
import unittest
from pathlib import Path

from lab.model import scenario, topology, units, workload
from lab.setup import plan
from lib import unittests
from lib.scenarios import SMALL, build, refused
from lib.unittests import TOP


class Units(unittest.TestCase):
    def test_values(self):
        for parse, values in (
                (units.rate, {"100Gbit": 10**11, "10gbit": 10**10, "2.5 Gbit/s": 25 * 10**8, "50Mbit": 5 * 10**7,
                              "25Gb/s": 25 * 10**9, "1Tbit": 10**12}),
                (units.time, {"1us": 1000, "2.43us": 2430, "0.5 ms": 500000, "1s": 10**9, "17ns": 17, 0: 0}),
                (units.size, {"8MB": 8000000, 1500: 1500, "64KiB": 65536, "26B": 26})):
            for text, value in values.items():
                self.assertEqual(parse(text), value, text)
        for text, value in (("1%", 0.01), (0.5, 0.5), (1, 1.0), ("0.1 %", 0.001)):
            self.assertAlmostEqual(units.fraction(text), value)

    def test_wrong_unit(self):
        for parse, wrong in ((units.rate, ("100", "5us", "-1Gbit", "", 7, True, "99Tbit", "1 bit")),
                             (units.time, ("5", "1m", "5MB", 3, "-1us", True)),
                             (units.size, ("1500", "5us", "-1B", -1, 1.5, True)),
                             (units.fraction, ("101%", 1.01, -0.1, "x", True))):
            for text in wrong:
                with self.assertRaises(ValueError, msg=f"{parse.__name__} {text!r}"):
                    parse(text)

    def test_printed_values(self):
        self.assertEqual([units.show_bytes(n) for n in (0, 10239, 32 * 10**6)], ["0 B", "10.2 KB", "32 MB"])
        self.assertEqual(units.show_rate(10**11), "100 Gb/s")
        self.assertEqual(units.show_time(9060), "9.06 us")


class Scenario(unittest.TestCase):
    FLOW = [{"from": "h0", "to": "h1", "bytes": "1MB"}]
    RPC = {"from": "h0", "to": "h1", "request": 1, "response": 1, "count": 1}
    PROGRAM = {"host": "h0", "command": "true"}

    def refused(self, wanted, **sections):
        refused(self, wanted, build, **sections)

    def test_unknown_key(self):
        self.refused(["links", "[link]"], links={})
        for section, keys in scenario.KEYS.items():
            if section in ("", "flow"):
                continue
            table = {"nonsense": 1}
            self.refused([f"{section}{'.0' * (section in scenario.LISTS)}.nonsense", "unknown", *keys],
                         **{section: [table] if section in scenario.LISTS else table})
        self.refused(["flow.0.form", "from"], flow=[{"form": "h0", "to": "h1", "bytes": 1}])

    def test_nearest(self):
        """An error suggests the key or the value that is most similar."""
        for name, sections in (("link", {"lnik": {}}), ("delay", {"link": {"dealy": "1us"}}),
                               ("fat-tree", {"topology": {"kind": "fattree"}})):
            self.refused([f"did you mean {name}?"], **sections)
        with self.assertRaisesRegex(scenario.ScenarioError, "did you mean link[?]"):
            scenario.load("demo", ["lnk.rate=1Gbit"])
        with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
            os.mkdir("demo")
            self.assertEqual(scenario.load("demo").name, "demo")
            with self.assertRaisesRegex(scenario.ScenarioError, "^[.]: Is a directory$"):
                scenario.load(".")
        for sections in {"cc": {"name": 10**5000}}, {"cc": {"zzzzz": 1}}, {"\n" * 10**6: 1}, {"ip": 5}:
            with self.assertRaises(scenario.ScenarioError) as caught:
                build(**sections)
            self.assertNotIn("did you mean", str(caught.exception))

    def test_every_key_refuses(self):
        wrong = {"topology": {"kind": "ring", "hosts": 1, "switches": 999, "pods": 0, "tors": 0,
                              "hosts_per_tor": 251, "spines": "x", "aggs": 0, "cores": -1, "reroute": "2s"},
                 "host": {"delay": "2s", "delay_out": "x", "delay_in": -1, "queue": "lifo", "stamp": 1},
                 "link": {"rate": "fast", "delay": "1m", "overhead": 257, "buffer": "1x", "mtu": 500},
                 "cc": {"name": "a b", "parameters": 3, "eta": 1.2, "max_stage": 256, "settle": 65, "per_rtt": 2,
                        "n_flows": -1, "w_ai": "much", "base_rtt": "2s", "burst": 65,
                        "pace": 2, "slots": 4, "sample": 65,
                        "carry": 2, "where": 2, "carrier": "csog", "csig_abw": 1001, "csig_time": 0, "ioam_nodes": 13,
                        "alpha": 0, "beta": 1.1, "gamma": "x", "cw_min": 1.1, "iw": 1, "fast_start": 1,
                        "observe": 1},
                 "qdisc": {"queue": "red", "kind": "", "marking": "red", "kmin": 0, "kmax": "x", "pmax": 1.01, "knonect": -1,
                           "above": 0, "respond": 0, "every": "999ns", "int_window": "999ns", "stamp": "ioam,itn", "class_ports": 1},
                 "class": {"name": "a b", "weight": 0, "priority": 9, "share": 1.1},
                 "flow": {"from": "x0", "to": "h", "bytes": 0, "cc": "a b", "class": "", "start": "soon", "count": 0,
                          "spacing": -1, "spread": "x", "reverse": -1},
                 "rpc": {"from": "x", "to": "h0..h1", "request": 0, "response": "x", "count": 0, "until": "x",
                         "think": -1, "start": "x", "cc": "a b", "class": 1},
                 "collective": {"kind": "x", "ranks": ["h0", "x"], "bytes": 0, "steps": 0, "start": "x", "cc": "a b"},
                 "run": {"host": "s0", "command": "a\nb", "package": "../x", "may_fail": 1, "start": "x", "stop": "never"},
                 "workload": {"cdf": 1, "load": 1.0, "duration": "x", "flows": "", "list": [1], "skip": -1, "from": "x",
                              "to": 1, "incast": {"from": 0}, "connect": "late", "pool": 0, "class": []},
                 "measure": {"from": "x", "until": "x", "interval": "x", "deadline": "x", "ports": ["", 1], "pcap": [], "qlog": []},
                 "impair": {"data_loss": 2, "ack_loss": "2", "reorder": -1, "reorder_delay": "x"},
                 "event": {"at": "-1us", "link": "s0", "down": False, "up": 1, "rate": "x"},
                 "": {"ip": 5, "verify": 1}}
        for section, keys in scenario.KEYS.items():
            self.assertEqual(set(keys), set(wrong[section]), section)
            for key, value in wrong[section].items():
                with self.subTest(key=f"{section}.{key}"):
                    if section in scenario.LISTS:
                        table = {"flow": self.FLOW[0], "rpc": self.RPC, "run": self.PROGRAM,
                                 "collective": {"kind": "all-to-all", "ranks": "h0..h1", "bytes": 2},
                                 "class": {"name": "a", "weight": 1},
                                 "event": {"at": 0, "link": "h0-s0", "down": True}}[section]
                        self.refused([f"{section}.0.{key}"], **{section: [table | {key: value}]})
                    elif section:
                        self.refused([f"{section}.{key}", "has to be"], **{section: {key: value}})
                    else:
                        self.refused([key, "has to be"], **{key: value})

    def test_ldcp_iw(self):
        """The limits of the module."""
        text = (TOP / "kmod/ldcp/conn.h").read_text(encoding="utf-8")
        most = int(re.search(r"#define LDCP_IW_MAX_SEGS\s+(\d+)U", text)[1])
        self.assertEqual(build(cc={"name": "ldcp", "iw": most}).cc["iw"], most)
        self.refused(["cc.iw", str(most)], cc={"iw": most + 1})

    def test_missing_node(self):
        self.refused(["flow.0.to", "h7", "h0 to h2"], flow=[{"from": "h0", "to": "h7", "bytes": 1}])
        self.refused(["flow.0.from", "h3"], flow=[{"from": "h0..h3", "to": "h1", "bytes": 1}])
        self.refused(["from and to"], flow=[{"from": "h1", "to": "h1", "bytes": 1}])
        self.refused(["flow.0.to: missing"], flow=[{"from": "h0", "bytes": 1}])
        self.refused(["at least one"], flow=[])

    def test_shapes(self):
        self.refused(["chain", "at most 6"], topology={"kind": "chain", "hosts": 8})
        self.refused(["dumbbell"], topology={"kind": "dumbbell", "hosts": 5})
        self.refused(["star has 1"], topology={"kind": "star", "switches": 2})
        self.assertEqual(build(topology={"kind": "chain", "switches": 4}).topology["hosts"], 8)

    def test_mtu_and_measure(self):
        self.refused(["link.mtu", "1280"], ip=6, link={"mtu": 1279})
        self.assertEqual(build(link={"mtu": 576}).link["mtu"], 576)
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
        self.refused(["qdisc.kmin = 2001", "qdisc.kmax, 2000 bytes"], qdisc=on | {"kmin": 2001, "kmax": "2KB"})
        # The default of K_max at a port of 100 Gb/s.
        self.refused(["qdisc.kmin = 62501", "qdisc.kmax, 62500 bytes unless given"], qdisc=on | {"kmin": 62501})
        build(qdisc=on | {"kmin": 62500})
        for key in ("kmin", "kmax", "knonect"):
            self.refused([f"qdisc.{key} = 2001", "link.buffer, 2000 bytes"],
                         link={"buffer": 2000}, qdisc=on | {key: 2001})
        for key in "above", "respond":
            self.refused([f"qdisc.{key} = 2001", "link.buffer, 2000 bytes"], link={"buffer": 2000}, qdisc={key: 2001})
        self.refused(["qdisc.every", "qdisc.respond"], qdisc={"every": "5us"})
        self.refused(["cc.carrier", "ip = 6"], cc={"carrier": "ioam"})
        for carrier, version in ("ioam", 6), ("ifa", 4), ("int", 4):
            self.refused(["cc.carrier", "event.rate"], ip=version, cc={"carrier": carrier},
                         event=[{"at": "1us", "link": "s0-h0", "rate": "10Gbit"}])
        self.refused(["cc.csig_abw", "cc.carrier"], cc={"csig_abw": 5})
        for more in {"topology": {"kind": "leaf-spine"}}, {"qdisc": {"stamp": "tcp"}}:
            self.refused(["cc.carrier", "bridges"], cc={"carrier": "csig"}, **more)
        for stamp in "csig", "tcp,csig", "tcp,", "mixed,tcp", "", 4:
            self.refused(["qdisc.stamp", "tcp, ioam, int, ifa", "cc.carrier"], qdisc={"stamp": stamp})
        self.assertEqual(build(qdisc={"stamp": "ifa,int,tcp"}).qdisc["stamp"], "tcp,int,ifa")
        self.refused(["qdisc.int_window", "qdisc.stamp"], qdisc={"int_window": "5us"})
        made = build(link={"buffer": 2000}, qdisc=on | {"kmin": 2000, "kmax": 2000, "knonect": 2000, "pmax": "100%"})
        self.assertEqual(made.qdisc["pmax"], 1.0)

    def test_observe(self):
        on = {"observe": True, "name": "cubic"}
        for names in ("hpcc", "powertcp"), ("powertcp", "hpcc"):
            self.refused(["cc.observe", "hpcc", "powertcp", "telemetry itself"], cc=on | {"name": names[0]},
                         flow=[self.FLOW[0], self.FLOW[0] | {"cc": names[1]}])
        self.refused(["cc.observe", "needs tcp"], cc=on, qdisc={"stamp": "int"})
        self.refused(["cc.observe", "at most 8192"], cc=on, flow=[self.FLOW[0] | {"count": 8193}])
        build(cc=on, flow=[self.FLOW[0] | {"cc": "hpcc"}, self.FLOW[0]], qdisc={"stamp": "mixed"})

    def test_choices_are_listed(self):
        self.refused(["star", "chain", "dumbbell"], topology={"kind": "ring"})
        self.refused(["hpcc", "cubic", "dctcp", "bbr"], cc={"name": "a b"})
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
        made = build(topology={"hosts": 5}, flow=[{"from": "h0..h3", "to": "h4", "bytes": 5, "spacing": "1us"}])
        self.assertEqual([f.start_ns for f in made.flows], [0, 1000, 2000, 3000])

    def test_settings(self):
        """The settings of a scenario create the same scenario."""
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
        self.assertEqual(build(cc={"w_ai": 0}), build())

    def test_spread(self):
        """The seed determines the starts, independent of the congestion control."""
        flow = [self.FLOW[0] | {"count": 100, "spacing": "1ms", "spread": "10us"}]

        def late(seed, cc="hpcc"):
            made = scenario.build({"flow": flow, "cc": {"name": cc}}, "test", seed)
            return [f.start_ns - 10**6 * f.id for f in made.flows]
        self.assertEqual(late(1), late(1, "cubic"))
        self.assertNotEqual(late(1), late(2))
        self.assertTrue(0 <= min(late(1)) < 1000 < 9000 < max(late(1)) <= 10000)

    def test_buffer(self):
        """The qdisc refuses a buffer that cannot hold a packet."""
        self.refused(["link.buffer", "at least 1B"], link={"buffer": 0})
        self.refused(["link.buffer = 1537", "1538 bytes"], link={"buffer": 1537})
        self.refused(["link.buffer", "4GiB"], link={"buffer": "4GiB"})
        self.assertEqual(build(link={"buffer": 1538}).link["buffer"], 1538)

    def test_settings_of_single_links(self):
        """Sections of a class of links or of one link; missing keys have the values of [link]."""
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
        self.refused(["impair.reorder", "link.access.delay"], link={"access": {"delay": 0}}, impair={"reorder": "1%"})
        self.refused(["link", "rate"], link={"rate": {"rate": "1Gbit"}})

    def test_base_rtt(self):
        """The modules accept a base RTT from 1 us to 1 s."""
        self.refused(["link.delay", "2000000266 ns", "1us to 1s"], link={"delay": "500ms"})
        self.refused(["link.delay", "1us to 1s"], link={"delay": 0, "rate": "1Tbit"})
        build(link={"delay": "500ms"}, cc={"name": "cubic"})
        build(link={"delay": "500ms"}, cc={"base_rtt": "1s"})

    # Values of each type, and difficult values of some types.
    VALUES = (0, -1, 1, 2, 1 << 31, 1 << 64, 10**5000, True, False, 0.5, -0.5, 1e300, float("nan"), float("inf"), "",
              " ", "0", "1B", "0B", "1us", "1s", "99999999s", "1bit", "1Tbit", "99%", "9" * 5000 + "B", "h0", "h1..h0",
              "h0..h99999999", "h" + "9" * 5000, "hpcc", "endless", "a\nb", "\x00", "\u0663us", "h\u0663", None, [],
              [[]], [1, "a"], [{}], {}, {"a": 1}, {"from": "h0", "to": "h1", "bytes": 1},
              [{"from": "h0", "to": "h1", "bytes": 1}] * 2, datetime.date(2026, 1, 1))

    def has_plan(self, data, settings=(), cc=None):
        """Check that data result in a plan or in a one-line error. Return whether there is a plan."""
        try:
            made = scenario.load_data(data, "test", settings, cc)
            plan.Plan(made, topology.Topology(made))
        except scenario.ScenarioError as err:
            self.assertNotRegex(str(err), r"[\x00-\x1f]")
            self.assertLess(len(str(err)), 500)
            return False
        return True

    def test_all_values_of_all_keys(self):
        """Wrong types and values, also in place of a table, never cause a traceback."""
        verdicts = []
        for section, keys in scenario.KEYS.items():
            for key in [*keys, "", "a\nb"]:
                for value in self.VALUES:
                    data = {"flow": [dict(self.FLOW[0])]}
                    {"": data, "flow": data["flow"][0]}.get(
                        section, data.setdefault(section, {}) if section else data)[key] = value
                    with self.subTest(section=section, key=key, value=scenario.shown(value)):
                        verdicts.append(self.has_plan(data))
        for section in scenario.KEYS:
            for value in self.VALUES:
                with self.subTest(section=section, value=scenario.shown(value)):
                    for settings in ((), ("flow.bytes=1", "flow.0.bytes=1", "cc.eta=0.9", "link.mtu=1500")):
                        data = {"flow": self.FLOW} | {section: value}
                        verdicts.append(self.has_plan(data, settings, "cubic"))
        self.assertGreater(verdicts.count(True), 50)
        self.assertGreater(verdicts.count(False), 1000)

    def test_all_settings(self):
        words = ("", "=", "a", "ip", "cc", "flow", "link", "cc.", ".cc", "flow.", "flow.0", "flow.7.to",
                 "flow.0.to.x", "link.rate", "link.rate.x", "nonsense.rate", "verify", "ip.x", "a\nb")
        texts = ("", "1", "-1", "x", "[", "[" * 3000, "9" * 5000, "{}", "[1]", "true", "1\n[x]", "1979-13-99",
                 "'", "{from='h0'}", "\ud800")
        for setting in (*words, *(f"{word}={text}" for word in words for text in texts)):
            with self.subTest(setting=setting[:60]):
                self.has_plan({"flow": [dict(self.FLOW[0])]}, [setting])

    def test_set_and_cc(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "name.toml")
            path.write_text(SMALL, encoding="utf-8")
            got = scenario.load(path, ["link.rate=40Gbit", "ip=6", "flow.bytes=7", "cc.eta=0.9"], "bbr")
            self.assertEqual((got.name, got.link["rate"], got.ip, got.flows[1].bytes, got.cc["eta"], got.cc["name"]),
                             ("name", 4 * 10**10, 6, 7, 0.9, "bbr"))
            self.assertEqual(scenario.load(path, ["flow.0.to=h1", "flow.0.from=h2"]).flows[0].dst, "h1")
            mixed = scenario.load(path, ["flow.0.cc=ldcp", "cc.name=hpcc"])
            self.assertEqual(([f.cc for f in mixed.flows], mixed.cc_label()), (["ldcp", "ldcp"], "ldcp"))
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
        rows = re.findall(r"^([a-z0-9-]+)  +\S", (TOP / "Documentation/gallery.rst").read_text(encoding="utf-8"), re.M)
        self.assertEqual(sorted(name for name in rows if name != "scenario"), sorted(path.stem for path in files))


class Topology(unittest.TestCase):
    def test_star(self):
        net = topology.Topology(build(topology={"hosts": 3}))
        self.assertEqual(net.path("h0", "h2"), ["h0", "s0", "h2"])
        self.assertEqual([(p.node, p.peer) for p in net.ports], [("s0", "h0"), ("s0", "h1"), ("s0", "h2")])

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

    def test_links_are_refused(self):
        for why, link in (("link.access: has to be a table .* rate, delay", {"access": "1Gbit"}),
                          ("link.s0-h0: is the same link as link.h0-s0",
                           {"s0-h0": {"rate": "1Gbit"}, "h0-s0": {"rate": "2Gbit"}})):
            with self.assertRaisesRegex(scenario.ScenarioError, why):
                build(link=link)

    def test_base_rtt(self):
        for base_rtt_ns, sections in (
                # 2 links x (2 x 1 us + (1538 + 118) x 8 / 100 Gb/s) = 4 + 2 x 0.13248 us
                (4266, {}),
                # 20 bytes more on the acknowledgment
                (4270, {"ip": 6}),
                # 6 links
                (6 * 2133, {"topology": {"kind": "chain", "switches": 5}}),
                # 2 x (486 + 13.248)
                (998496, {"link": {"rate": "1Gbit", "delay": "243us"}})):
            self.assertEqual(topology.Topology(build(**sections)).base_rtt_ns("h0", "h1"), base_rtt_ns, sections)
        # 1448 bytes in one packet of 1538 on each of 2 links of 1 us; one byte more in a second packet of 91
        net = topology.Topology(build())
        self.assertEqual([net.alone_ns("h0", "h1", n) for n in (1448, 1449)], [2246, 2253])
        # 10 Gb/s, then 100 Gb/s, so that the last packet of 190 bytes does not wait: 2 us of delay,
        # 10 x 1230.4 + 152 ns, and 15.2 ns
        wider = topology.Topology(build(link={"rate": "10Gbit", "s0-h1": {"rate": "100Gbit"}}))
        self.assertEqual(wider.alone_ns("h0", "h1", 10 * 1448 + 100), 14471)
        # 4 links of 2 us. The two middle links have 1 Gb/s, for (1538 + 118) x 8 bits.
        mixed = topology.Topology(build(topology={"kind": "chain"}, link={"fabric": {"rate": "1Gbit"}}))
        self.assertEqual(mixed.base_rtt_ns("h0", "h1"), 4 * 2000 + 2 * 133 + 2 * 13248)
        self.assertEqual(mixed.rate("h0", "h1"), 10**9)


class Workload(unittests.Case):
    DRAWN = {"cdf": "fb_hadoop", "load": "50%", "duration": "700us"}
    STAR = {"kind": "star", "hosts": 16}

    def made(self, seed=1, **how):
        return scenario.build({"workload": self.DRAWN | how, "topology": self.STAR}, "test", seed, self.directory)

    def write(self, name, text):
        Path(self.directory, name).write_text(text, encoding="ascii")
        return name

    def test_published(self):
        """The means follow from the rows of the distributions; the first rows of FB_Hadoop are computed by hand."""
        self.assertEqual(workload.names(), ["fb_hadoop", "websearch"])
        self.assertEqual(round(workload.Sizes("fb_hadoop").mean()), 120421)
        self.assertEqual(round(workload.Sizes("websearch").mean()), 1711250)
        two = workload.Sizes(self.write("two.csv", "cdf_percent,bytes\n20,10\n100,30\n"), self.directory)
        self.assertEqual(two.mean(), 0.2 * 5 + 0.8 * 20)

    def test_draw(self):
        """10,000 flows have the requested mean size and rate."""
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
        path = Path(self.directory, "list.csv.xz")
        path.write_bytes(lzma.compress("\ufeffstart_ns,from,to,bytes,more\n7,15,1,324,\xfc\n9,0,2,5,y\n".encode()))
        made = scenario.build({"workload": {"flows": path.name}, "topology": self.STAR,
                               "flow": [{"from": "h3", "to": "h4", "bytes": 1}]}, "test", 1,
                              self.directory)
        self.assertEqual([(f.id, f.src, f.dst, f.bytes, f.start_ns, f.cc) for f in made.flows],
                         [(0, "h3", "h4", 1, 0, "hpcc"), (1, "h15", "h1", 324, 7, "hpcc"),
                          (2, "h0", "h2", 5, 9, "hpcc")])
        self.assertEqual(made.measure["until"], 9)
        self.assertEqual(scenario.build(json.loads(json.dumps(made.settings())), "test"), made)

    def test_load_of_different_links(self):
        """The load refers to the links of all hosts, also if one link has a different rate."""
        def starts(link):
            made = scenario.build({"workload": self.DRAWN | {"duration": "350us"},
                                   "topology": {"hosts": 2}, "link": link}, "test", 1, self.directory)
            return [flow.start_ns for flow in made.flows]
        self.assertEqual(starts({"s0-h0": {"rate": "300Gbit"}}), starts({"rate": "200Gbit"}))
        self.assertNotEqual(starts({}), starts({"rate": "200Gbit"}))

    def test_set_and_cc(self):
        """flow.key does not apply to [workload], but --cc applies to its flows."""
        data = {"workload": self.DRAWN, "topology": self.STAR}
        for assignment in "flow.cc=dctcp", "flow.0.cc=dctcp", "flow.nonsense=1":
            with self.assertRaisesRegex(scenario.ScenarioError, r"no \[\[flow\]\] table"):
                scenario.load_data(dict(data), "test", [assignment])
        data["flow"] = [{"from": "h0", "to": "h1", "bytes": 1, "cc": "ldcp"}]
        self.assertEqual(scenario.load_data(data, "test", cc="dctcp").cc_names(), ["ldcp", "dctcp"])

    def refused(self, wanted, how):
        refused(self, wanted, scenario.build, {"workload": how, "topology": self.STAR}, "test", 1, self.directory)

    def test_wrong(self):
        self.refused(["flows, or cdf"], {})
        self.refused(["workload.load", "missing"], {"cdf": "websearch", "duration": "1ms"})
        self.refused(["workload.duration", "missing"], self.DRAWN | {"duration": 0})
        self.refused(["workload.load", "less than 1"], self.DRAWN | {"load": "100%"})
        self.refused(["either flows"], self.DRAWN | {"flows": "x"})
        self.refused(["nothere", "No such file", "fb_hadoop, websearch"], self.DRAWN | {"cdf": "nothere"})
        self.refused(["more than 250000 flows", '3000000 with connect = "start" or "pool"'], self.DRAWN | {"duration": "400ms"})
        self.refused(["0 flows"], self.DRAWN | {"duration": "1ns"})
        head = "bytes,cdf_percent\n"
        for text, why in (("", "columns"), (head, "empty"), ("bytes\n1\n", "columns"), (head + "5,50\n4,100\n", "rise"),
                          (head + "4,60\n5,50\n", "rise"), (head + "4,60\n5,99\n", "100 %"),
                          (head + "0,100\n", "1 byte"), (head + "x,100\n", "numbers"), (head + "1\n", "numbers"),
                          (head + "1,nan\n", "numbers"), (head + "1,nan\n2,100\n", "numbers"),
                          (head + "1,50\n2,inf\n", "numbers"), (head + "0,100\n5,100\n", "1 byte"),
                          (head + "9" * 400 + ",100\n", "at most")):
            self.refused(["wrong.csv", why], self.DRAWN | {"cdf": self.write("wrong.csv", text)})
        wrong = [("0,0,16,1", "to is 16, but has to be from 0 to 15"), ("0,1,1,1", "from and to are both 1"),
                 ("-1,0,1,1", "start_ns is -1"), ("0,0,1,0", "bytes is 0, but has to be from 1"), ("0,0,1,", "numbers"),
                 (f"0,0,1,{10**15 + 1}", f"to {10**15}"), (f"{10**14 + 1},0,1,1", "start_ns is"), ("0,0", "numbers")]
        for row, why in wrong:
            self.refused(["wrong.csv", "line 3: ", why], {"flows": self.write(
                "wrong.csv", f"start_ns,from,to,bytes\n0,0,1,1\n{row}\n")})
        # The first ten, with their lines, and no more.
        name = self.write("wrong.csv", "start_ns,from,to,bytes\n" + "0,0,1,1\n".join(f"{row}\n" for row, _ in 2 * wrong))
        self.refused([f"line {2 + 2 * i}: " for i in range(10)] + ["line 20: from and to are both 1; there may be more"],
                     {"flows": name})
        Path(self.directory, "wrong.xz").write_bytes(b"not compressed")
        self.refused(["wrong.xz", "no complete .xz file"], {"flows": "wrong.xz"})


if __name__ == "__main__":
    unittests.main()
