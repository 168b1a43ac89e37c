#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""[[class]]: the queues of switch ports, and the flows in them."""

import json
import re
import unittest

from lab.model import scenario, topology
from lab.setup import plan
from lab.study import sharing
from lib import unittests
from lib.scenarios import build, refused
from lib.unittests import LAB

FLOW = {"from": "h0", "to": "h1", "bytes": 1000}
RPC = {"from": "h0", "to": "h1", "request": 1, "response": 1, "count": 1}
WEIGHTS = [{"name": "gold", "weight": 3}, {"name": "bulk", "weight": 1}]
BANDS = [{"name": "bulk", "priority": 2}, {"name": "gold", "priority": 1, "share": "30%"}]


def files(**sections):
    made = build(**sections)
    planned = plan.Plan(made, topology.Topology(made))
    return planned.files | {"plan": "".join(planned.lines())}


def batch(**sections):
    """Return the lines of tc for the port of s0 towards h1."""
    return [line.replace(" add dev h1", "") for line in files(**sections)["s0.tc"].splitlines() if " dev h1 " in line]


class Refused(unittest.TestCase):
    def refused(self, *words, classes=(), **sections):
        refused(self, words, build, **{"class": list(classes)} | sections)

    def test_classes(self):
        first = WEIGHTS[0]
        self.refused("class.0.weight = 0", "1 to 100", classes=[first | {"weight": 0}])
        self.refused("class.0.weight = -1", "1 to 100", classes=[first | {"weight": -1}])
        self.refused("class.0.weight = 1.5", "an integer", classes=[first | {"weight": 1.5}])
        self.refused("class.0", "one of weight and priority", classes=[{"name": "a"}])
        self.refused("class.0", "one of weight and priority", classes=[first | {"priority": 1}])
        self.refused("class.1", "all classes have a weight, or all have a priority", classes=[first, BANDS[0]])
        self.refused("class.1.name = 'gold'", "another class", classes=[first, first])
        self.refused("class.1.priority = 2", "another class", classes=[BANDS[0], BANDS[0] | {"name": "b"}])
        self.refused("class.0.share", "priority", classes=[first | {"share": "10%"}])
        self.refused("class.0.name", "missing", classes=[{"weight": 1}])
        self.refused("class.0.mq", "name, weight, priority, share", classes=[first | {"mq": True}])
        self.refused("9 classes", "at most 8", classes=[{"name": f"c{n}", "weight": 1} for n in range(9)])

    def test_sum_above_the_link(self):
        def bands(*shares):
            return [{"name": f"c{n}", "priority": n, **({"share": share} if share else {})}
                    for n, share in enumerate(shares, 1)]
        self.refused("class.share", "at most 1 (100 %)", classes=bands("60%", "41%"))
        self.refused("class.share", "less if some classes have no share", classes=bands("60%", "40%", None))
        for shares, want in (("60%", "40%"), [0.6, 0.4]), (("50%", None, None), [0.5, 0.25, 0.25]):
            made = build(**{"class": bands(*shares)})
            self.assertEqual([one.share for one in made.classes], want)
        self.refused("1000 bit/s", classes=[{"name": "a", "weight": 1}, {"name": "b", "weight": 100}],
                     link={"rate": "10kbit"})

    def test_unknown_class(self):
        for sections in ({"flow": [FLOW | {"class": "silver"}]},
                         {"rpc": [RPC | {"class": "silver"}]},
                         {"workload": {"list": ["0 0 1 9"], "class": ["gold", "silver"]}}):
            self.refused(".class = 'silver'", "no such class", "gold, bulk", classes=WEIGHTS, **sections)
            self.refused("has no [[class]]", **sections)

    def test_other_keys(self):
        self.refused("qdisc.queue", '"fifo"', classes=WEIGHTS, qdisc={"queue": "fq_codel"})
        for carrier in "int", "csig":
            self.refused("cc.carrier", "tcp, ioam, ifa", classes=WEIGHTS, cc={"carrier": carrier})
        self.refused("qdisc.class_ports", "true", classes=WEIGHTS, qdisc={"class_ports": False}, cc={"carrier": "ifa"})
        self.refused("event.rate", "down, up", classes=WEIGHTS, event=[{"at": 0, "link": "s0-h0", "rate": "1Gbit"}])
        self.refused("at least one", classes=WEIGHTS, flow=[])


class Plans(unittest.TestCase):
    @staticmethod
    def ports(lines):
        """Return the port numbers of the classes."""
        return [int(line.split(" port ")[1].split()[0]) for line in lines if " port " in line]

    def test_weights(self):
        lines = batch(**{"class": WEIGHTS}, qdisc={"respond": "10KB"})
        leaf = ("hpcc bandwidth 100000000000bit class {}bit limit 32000000b overhead 24 node 1 port {} "
                "stamp respond 10000")
        self.assertEqual(self.ports(lines), [2, 2])
        self.assertEqual(self.ports(batch(**{"class": WEIGHTS}, qdisc={"class_ports": True})), [2, 1002])
        self.assertEqual(self.ports(batch(**{"class": WEIGHTS}, cc={"carrier": "ifa"})), [2, 1002])
        self.assertEqual(lines, [
            "qdisc parent 10:1 handle 20: drr",
            "class parent 20: classid 20:1 drr quantum 4542", "class parent 20: classid 20:2 drr quantum 1514",
            "qdisc parent 20:1 handle 21: " + leaf.format(75000000000, 2),
            "qdisc parent 20:2 handle 22: " + leaf.format(25000000000, 2),
            "filter parent 20: protocol ip prio 1 flower ip_tos 0x20/0xfc classid 20:2",
            "filter parent 20: protocol all prio 2 matchall classid 20:1"])

    def test_priorities(self):
        """The class with priority 1 is the first band. The first class of the file also has packets of no class."""
        lines = batch(**{"class": BANDS}, ip=6, qdisc={"marking": "ldcp", "pmax": 0.25})
        self.assertEqual(lines[0], "qdisc parent 10:1 handle 20: prio bands 2 priomap" + 16 * " 1")
        self.assertRegex(lines[1], r"^qdisc parent 20:2 handle 21: .* class 70000000000bit .* marking ldcp pmax 0.25$")
        self.assertRegex(lines[2], "^qdisc parent 20:1 handle 22: .* class 30000000000bit ")
        self.assertEqual(lines[3:], ["filter parent 20: protocol ipv6 prio 1 flower ip_tos 0x20/0xfc classid 20:1",
                                     "filter parent 20: protocol all prio 2 matchall classid 20:2"])

    def test_link(self):
        """The qdisc of the link neither stamps nor marks, also below netem."""
        made = files(**{"class": WEIGHTS}, qdisc={"marking": "ldcp"}, impair={"data_loss": "1%"})
        self.assertEqual(re.findall("(?m)^qdisc s0 .*(stamp .*)$", made["network"]), ["stamp 0"] * 2)
        self.assertRegex(made["s0.tc"], r"dev h1 parent 1:1 handle 10: hpcc .* nostamp\n"
                                        r".* parent 10:1 handle 20: drr\n")
        self.assertIn("tc -n hpcc-s0 -batch s0.tc\n", made["main.sh"])
        self.assertNotIn("h0.tc", made)

    def test_flows(self):
        """The DSCP of a connection follows its congestion control. Flows of a workload take turns."""
        made = files(**{"class": WEIGHTS}, rpc=[RPC | {"class": "bulk"}],
                     flow=[FLOW, FLOW | {"class": "bulk", "reverse": 5}, FLOW | {"class": "gold"}],
                     workload={"list": [f"{n} 0 1 9" for n in range(3)], "class": ["bulk", "gold"]})["plan"]
        self.assertEqual(re.findall(r"(?m)^(?:flow|rpc) .* (hpcc(?:/\d+)?)(?: \w+)?$", made),
                         ["hpcc/8", "hpcc", "hpcc/8", "hpcc/8", "hpcc", "hpcc/8", "hpcc", "hpcc/8"])
        self.assertEqual(re.findall("(?m)^port .*$", made)[0], "port 0 s0 h0 1 2")

    def test_links(self):
        """Receivers of IOAM and IFA know a link for each class."""
        made = files(**{"class": WEIGHTS}, cc={"carrier": "ifa"})["network"]
        links = " ".join(f"1 {port} 100000000000" for port in (1, 1001, 2, 1002, 3, 1003))
        self.assertIn(f"know h0 {links}\n", made)

    def test_settings(self):
        """The settings of a scenario create the same scenario, also with --set class."""
        for classes in WEIGHTS, BANDS:
            made = build(**{"class": classes}, flow=[FLOW | {"class": "bulk"}, FLOW],
                         workload={"list": ["0 0 1 9", "1 0 1 9"], "class": ["bulk", "gold"]})
            self.assertEqual(scenario.build(json.loads(json.dumps(made.settings())), "test"), made)
        one = scenario.load_data({"flow": [dict(FLOW)]}, "test", ['class=[{name="a", weight=1}]', "flow.class=a",
                                                                    "class.weight=7"])
        self.assertEqual((one.classes[0].weight, one.flows[0].class_name), (7, "a"))
        for wrong in "class=1", "class=[1]":
            with self.assertRaisesRegex(scenario.ScenarioError, r"class: has to be tables, \[\[class\]\]"):
                scenario.load_data({"flow": [dict(FLOW)]}, "test", [wrong, "class.weight=7"])


class Ideal(unittest.TestCase):
    """The model of ports that hpcc-paper compares classes with."""

    @staticmethod
    def slowdowns(weights, by_class, *flows):
        """Return the slowdowns of flows, given as (start in us, bytes, class), to one host. 1448 bytes take 1 us."""
        result = {"settings": {"ip": 4, "link": {"mtu": 1500, "overhead": 24}, "topology": {"kind": "star"},
                               "class": [{"name": name, "weight": weight} for name, weight in weights.items()]},
                  "ports": [{"peer": "h1", "rate_bps": 1538 * 8 * 10**6}],
                  "flows": [{"id": i, "to": "h1", "start_us": start, "bytes": size, "class": name,
                             "alone_us": size / 1448} for i, (start, size, name) in enumerate(flows)]}
        return [round(one, 3) for one in sharing.slowdowns(result, by_class)] if sharing.has_model(result) else None

    def test_sharing(self):
        flows = (0, 14480, "a"), (0, 14480, "b"), (0, 14480, "b")
        even = {"a": 1, "b": 1}
        self.assertEqual(self.slowdowns(even, False, *flows), [3, 3, 3])
        self.assertEqual(self.slowdowns(even, True, *flows), [2, 3, 3])
        self.assertEqual(self.slowdowns({"a": 2, "b": 1}, True, *flows), [1.5, 3, 3])
        # The second flow begins after 5 of 10 us of the first, and both then need 10 us for 5 us of data.
        self.assertEqual(self.slowdowns(even, True, (0, 14480, "a"), (5, 7240, "b"), (50, 1448, "a")), [1.5, 2, 1])

    def test_fair(self):
        """Flows get max-min fair shares of the links from and to hosts."""
        def slowdowns(fraction, *flows):
            ports = [{"peer": f"h{i}", "rate_bps": 1538 * 8 * 10**6} for i in range(4)]
            return [round(one, 3) for one in sharing.fair({
                "settings": {"ip": 4, "link": {"mtu": 1500, "overhead": 24}}, "ports": ports,
                "flows": [{"id": i, "from": src, "to": to, "start_us": start, "bytes": size, "alone_us": size / 1448}
                          for i, (start, size, src, to) in enumerate(flows)]}, fraction)]
        self.assertEqual(slowdowns(0.5, (0, 14480, "h0", "h1"), (50, 1448, "h0", "h1")), [2, 2])
        # h0 sends three flows, so the flow from h3 has two thirds of the link to h1.
        self.assertEqual(slowdowns(1, *[(0, 14480, "h0", to) for to in ("h1", "h2", "h2")], (0, 14480, "h3", "h1")), [3, 3, 3, 1.5])
        self.assertEqual(slowdowns(1, (5, 7240, "h0", "h1"), (0, 14480, "h2", "h1")), [2, 1.5])

    def test_no_model(self):
        self.assertIsNone(self.slowdowns({"a": 1}, True, (0, 1448, "a")))
        self.assertIsNone(self.slowdowns({"a": 1, "b": None}, True, (0, 1448, "a")))
        self.assertIsNone(self.slowdowns({"a": 1, "b": 1}, True, (0, 1448, None)))


class Runs(unittests.SharedCase):
    ENDLESS = ('topology = {hosts = 3}\nlink = {rate = "10Gbit", delay = "5us"}\n'
               'measure = {from = "5ms", until = "15ms"}\n'
               '[[flow]]\nfrom = "h0"\nto = "h2"\nbytes = "endless"\nclass = "gold"\n'
               '[[flow]]\nfrom = "h1"\nto = "h2"\nbytes = "endless"\nclass = "bulk"\n')

    def run_lab(self, classes, *options, status=0):
        path = self.directory / "classes.toml"
        path.write_text(self.ENDLESS + "".join(
            "[[class]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in one.items())
            for one in classes), encoding="utf-8")
        done = unittests.ran(self, LAB, "run", path, "--out", self.directory / "out", *options, status=status)
        if status:
            return done.stderr
        result = json.loads((self.directory / "out/results.json").read_text(encoding="utf-8"))
        port = next(port for port in result["ports"] if port["peer"] == "h2")
        self.assertGreater(port["stamped"], 1000)
        self.assertEqual([flow["class"] for flow in result["flows"]], ["gold", "bulk"])
        self.assertEqual(result["hosts"]["hpcc"]["fallbacks"], 0)
        return [flow["goodput_bps"] / 10**10 for flow in result["flows"]], port

    def test_weights(self):
        """Two classes share a link 3:1. With IOAM over IPv6 headers need more of it, and queues are longer."""
        for options, least, most_queued in ((), 0.9, 3), (("--set", "ip=6", "--set", "cc.carrier=ioam"), 0.8, 15):
            (gold, bulk), port = self.run_lab(WEIGHTS, *options)
            self.assertGreater(gold + bulk, least)
            self.assertTrue(2.3 < gold / bulk < 3.3, (gold, bulk))
            self.assertLess(port["queue_bytes"]["p99"], most_queued * 1538)

    def test_priorities(self):
        """Most of the link belongs to the class with priority 1."""
        (gold, bulk), _ = self.run_lab([one | {"share": "50%"} for one in BANDS])
        self.assertGreater(gold, 0.7)
        self.assertLess(bulk, 0.2)

    def test_refused(self):
        error = self.run_lab([{"name": "gold", "weight": 0}], status=2)
        self.assertRegex(error, r"class.0.weight = 0: has to be an integer from 1 to 100\n$")
        self.assertEqual(error.count("\n"), 1)


if __name__ == "__main__":
    unittests.main()
