#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The networks of hpcc-lab: trees, routes, links with their own settings, events; and hpcc-network."""

import json
import re
import unittest
from pathlib import Path

from lab.model import scenario, topology
from lab.setup import plan
from lab.run import runner
from lib import unittests
from lib.scenarios import build, refused
from lib.unittests import LAB, TOP

RUN = str(TOP / "scripts/uml/run.sh")
PUBLISHED = {"kind": "fat-tree", "pods": 5, "tors": 4, "hosts_per_tor": 16, "aggs": 4, "cores": 16}


def tree(**sections):
    return topology.Topology(build(**sections))


def files(**sections):
    made = build(**sections)
    made = plan.Plan(made, topology.Topology(made))
    return made.files | {"plan": "".join(made.lines())}


class Shapes(unittest.TestCase):
    def refused(self, wanted, **sections):
        refused(self, wanted, build, **sections)

    def test_published(self):
        """320 hosts, 20 ToR, 20 aggregation, 16 core switches, 160 links between switches."""
        net = tree(topology=PUBLISHED)
        self.assertEqual((len(net.hosts), len(net.switches), len(net.links)), (320, 56, 320 + 160))
        self.assertEqual({node[0]: len(peers) for node, peers in net.peers.items()},
                         {"h": 1, "t": 16 + 4, "a": 4 + 4, "c": 5})
        self.assertEqual(net.path("h0", "h1"), ["h0", "t0", "h1"])
        self.assertEqual(net.path("h0", "h319"), ["h0", "t0", "a0", "c0", "a16", "t19", "h319"])
        # A path goes up by one of 4 x 4 ways, and down by the only way below its core switch.
        self.assertEqual(len(net.switch_ports("h0", "h319")), 4 + 16 + 16 + 4 + 1)
        self.assertEqual(len(net.switch_ports("h0", "h16")), 4 + 4 + 1)

    def test_published_base_rtt(self):
        """6 links of 1 us both ways; 1090 + 118 bytes at 100 Gb/s twice, at 400 Gb/s four times."""
        net = tree(topology=PUBLISHED, link={"mtu": 1052, "fabric": {"rate": "400Gbit"}})
        self.assertEqual(net.base_rtt_ns("h0", "h319"), 12000 + 2 * 97 + 4 * 25)

    def test_derived(self):
        for shape, *numbers in (({"kind": "fat-tree"}, 16, 8 + 8 + 4, 16 + 16 + 16),
                                ({"kind": "leaf-spine", "hosts": 32}, 32, 4 + 2, 32 + 8)):
            net = tree(topology=shape)
            self.assertEqual([len(net.hosts), len(net.switches), len(net.links)], numbers)

    def test_shapes_are_refused(self):
        self.refused(["topology.hosts = 17", "8 ToR"], topology={"kind": "fat-tree", "hosts": 17})
        self.refused(["topology.cores = 5", "multiple", "topology.aggs, 2"], topology={"kind": "fat-tree", "cores": 5})
        self.refused(["topology.hosts = 16", "have 12"],
                     topology={"kind": "leaf-spine", "hosts": 16, "hosts_per_tor": 3})
        self.refused(["1000 hosts", "600"], topology={"kind": "leaf-spine", "hosts_per_tor": 250})
        self.refused(["topology.spines = 2", "fat-tree", "pods"], topology={"kind": "fat-tree", "spines": 2})
        self.refused(["topology.pods = 2", "star"], topology={"pods": 2})

    def test_addresses(self):
        net = tree(topology=PUBLISHED)
        self.assertEqual(net.address("h319"), "10.4.3.16")
        self.assertEqual(len({net.address(host) for host in net.hosts}), 320)
        self.assertEqual(tree(topology=PUBLISHED, ip=6).address("h319"), "fd00:4:3::10")

    def test_classes(self):
        link = {"fabric": {"rate": "400Gbit"}, "core": {"delay": "5us"}, "t0-a0": {"buffer": "1MB"}}
        made = build(topology={"kind": "fat-tree"}, link=link)
        for ends, wanted in ((("h0", "t0"), (10**11, 1000, 32 * 10**6)),
                             (("t0", "a1"), (4 * 10**11, 1000, 32 * 10**6)),
                             (("a0", "t0"), (4 * 10**11, 1000, 10**6)),
                             (("a0", "c0"), (4 * 10**11, 5000, 32 * 10**6))):
            got = made.link_of(*ends)
            self.assertEqual((got["rate"], got["delay"], got["buffer"]), wanted, ends)
        self.refused(["link.t0-a2", "no such link"], topology={"kind": "fat-tree"}, link={"t0-a2": {"rate": "1Gbit"}})

    def test_different_paths(self):
        """T follows from the slowest of the shortest paths, the time of a flow alone from the fastest path."""
        shape = {"kind": "leaf-spine", "tors": 2, "spines": 2, "hosts_per_tor": 1}
        net = tree(topology=shape, link={"t0-s1": {"delay": "10us"}})
        even = tree(topology=shape)
        self.assertEqual(net.base_rtt_ns("h0", "h1"), even.base_rtt_ns("h0", "h1") + 2 * 9000)
        self.assertEqual(net.alone_ns("h0", "h1", 1000), even.alone_ns("h0", "h1", 1000))

    def test_host_delay(self):
        delays = {"delay": "3us", "delay_in": "1us"}
        even, late = tree(), tree(host=delays)
        self.assertEqual(late.base_rtt_ns("h0", "h1"), even.base_rtt_ns("h0", "h1") + 2 * 4000)
        self.assertEqual(late.alone_ns("h0", "h1", 1), even.alone_ns("h0", "h1", 1) + 4000)
        for port, limit, delay in ("h0 eth0", 64000000, 4000), ("s0 h0", 32000000, 2000):
            self.assertIn(f"qdisc {port} root 10: hpcc rate 100000000000 limit {limit} overhead 24 delay {delay} ",
                          files(host=delays)["network"])

    def test_marking_of_a_link(self):
        text = files(link={"s0-h1": {"marking": "ldcp", "kmin": "10KB"}})["network"]
        self.assertEqual(re.findall(r"(?m)^qdisc (\S+ \S+) .* marking 1 kmin 10000$", text), ["s0 h1"])
        self.refused(["link.access.kmin", "link.access.marking"],
                     link={"access": {"marking": "off", "kmin": 1}}, qdisc={"marking": "ldcp"})
        self.refused(["link.access.kmin = 5000", "link.access.buffer, 4000"],
                     link={"access": {"kmin": 5000, "buffer": 4000}}, qdisc={"marking": "ldcp"})


class Routes(unittest.TestCase):
    def test_router(self):
        text = files(topology={"kind": "fat-tree"})["network"]
        routes = re.findall(r"(?m)^route (\S+) (\S+) (\S+) 169\.254\.0\.1 0$", text)
        self.assertEqual([route[1:] for route in routes if route[0] == "h0"], [("eth0", "0.0.0.0/0")])
        self.assertEqual([route[1:] for route in routes if route[0] == "t0"],
                         [("h0", "10.0.0.1"), ("h1", "10.0.0.2")]
                         + [("a0,a1", f"10.{pod}.{tor}.0/24") for pod in range(4) for tor in range(2)][1:])
        self.assertEqual([route[1] for route in routes if route[0] == "a0"], ["t0", "t1"] + ["c0,c1"] * 6)
        self.assertEqual([route[1] for route in routes if route[0] == "c3"],
                         ["a1", "a1", "a3", "a3", "a5", "a5", "a7", "a7"])

    def test_hash(self):
        """The stages hash different fields."""
        text = files(topology={"kind": "fat-tree"})["network"]
        fields = dict(re.findall(r"(?m)^sysctl ([ta]0) net/ipv4/fib_multipath_hash_fields (\d+)$", text))
        self.assertEqual(len(set(fields.values())), 2)
        self.assertTrue(all(int(value) & 0x33 == 0x33 for value in fields.values()), fields)

    def test_few_routes(self):
        """A host needs only a few routes, although it sends to all others."""
        pairs = [{"from": "h0..h318", "to": "h319", "bytes": 1}]
        text = files(topology=PUBLISHED, flow=pairs)["network"]
        self.assertLess(text.count("\nneigh "), 1400)
        self.assertLess(text.count("\nroute "), 2000)

    def test_planning_time(self):
        """Planning a list of 33,000 flows takes about a second, because equal searches are not repeated."""
        made = scenario.load(TOP / "scripts/scenarios/fat-tree-320.toml")
        self.assertGreater(len(made.flows), 30000)
        net = topology.Topology(made)
        plan.Plan(made, net)
        self.assertLess(len(net._found), 30000)         # pylint: disable=protected-access


class Events(unittest.TestCase):
    SPINES = {"kind": "leaf-spine", "tors": 2, "spines": 2, "hosts_per_tor": 1}
    DOWN = {"at": "1ms", "link": "t0-s0", "down": True}

    def refused(self, wanted, **event):
        refused(self, wanted, build, topology=self.SPINES, event=[self.DOWN | event])

    def test_refused(self):
        self.refused(["event.0.link", "t0-s7", "no such link"], link="t0-s7")
        self.refused(["event.0.at", "-1us"], at="-1us")
        self.refused(["event.0.at", "measure.deadline"], at="100s")
        self.refused(["event.0:", "one of down, up and rate"], up=True)
        self.refused(["event.0.rate", "a rate"], rate="fast")
        self.refused(["event.0.speed", "unknown"], speed=1)
        refused(self, ["at least one"], build, flow=[], event=[self.DOWN])

    def test_plan(self):
        made = files(topology=self.SPINES, event=[
            {"at": "2ms", "link": "t0-s0", "up": True}, self.DOWN, {"at": "3ms", "link": "h0-t0", "rate": "10Gbit"}])
        self.assertEqual(re.findall(r'(?m)^run t0 (\d+) end - exec "\$HPCC_NETWORK" change network (\S+)$',
                                    made["plan"]),
                         [("1000000", "event-0"), ("1100000", "reroute-0"), ("2000000", "event-1"),
                          ("2100000", "reroute-1"), ("3000000", "event-2")])
        self.assertEqual(made["event-0"], "down s0 t0\ndown t0 s0\n")
        self.assertIn("route t1 s1 10.0.0.0/24 169.254.0.1 0\n", made["reroute-0"])
        self.assertRegex(made["event-1"], r"up t0 s0\nneigh t0 s0 169\.254\.0\.1 02:\S+\n")
        self.assertIn("route t1 s0,s1 10.0.0.0/24 169.254.0.1 0\n", made["reroute-1"])
        self.assertIn("change t0 h0 root 10: hpcc rate 10000000000\n", made["event-2"])

    def test_settings(self):
        made = build(topology=self.SPINES, event=[self.DOWN])
        self.assertEqual(scenario.build(made.settings(), "test").events, made.events)


class Guest(unittests.Case):
    def run_lab(self, text, *options):
        file = Path(self.directory, "net.toml")
        file.write_text(text, encoding="ascii")
        unittests.ran(self, LAB, "run", file, "--out", self.directory, *options)
        result = json.loads(Path(self.directory, "results.json").read_text(encoding="ascii"))
        return result, {(port["node"], port["peer"]): port for port in result["ports"]}

    ALL = ('verify = true\n[topology]\nkind = "fat-tree"\n'
           '[workload]\ncdf = "fb_hadoop"\nload = "50%"\nduration = "200us"\n')

    def spread(self, *options):
        """Flows between all hosts finish, on all links of the fabric."""
        result, ports = self.run_lab(self.ALL, *options)
        self.assertTrue(all(flow["fct_us"] for flow in result["flows"]))
        self.assertEqual(result["hosts"]["hpcc"]["path_changes"], 0)
        for tier in "ta":
            up = [port["wire_bytes"] for (node, peer), port in ports.items()
                  if node[0] == tier and peer[0] in "ac" and (node[0], peer[0]) in (("t", "a"), ("a", "c"))]
            self.assertEqual(len(up), 16)
            self.assertGreater(min(up), 0)

    def test_fat_tree(self):
        for version in 4, 6:
            self.spread("--set", f"ip={version}")

    def test_one_path_per_connection(self):
        """All data of a connection take one path, which the seed determines."""
        used = set()
        for seed in "1", "2", "3", "4":
            result, ports = self.run_lab('[topology]\nkind = "fat-tree"\n[[flow]]\nfrom = "h0"\n'
                                         'to = "h15"\nbytes = "300KB"\n', "--seed", seed)
            busy = [(node, peer) for (node, peer), port in ports.items() if port["wire_bytes"] > 300000]
            self.assertEqual([node[0] for node, _ in sorted(busy, key=lambda hop: "taca".index(hop[0][0]))],
                             ["t", "t", "a", "a", "c"], busy)
            self.assertEqual(result["hosts"]["hpcc"]["path_changes"], 0)
            used.add(tuple(sorted(busy)))
        self.assertGreater(len(used), 1)

    def test_link_fails(self):
        """Flows continue over the other spine. The kernel's hash may send a few flows over one spine, but not 16."""
        result, ports = self.run_lab(
            'verify = true\n[topology]\nkind = "leaf-spine"\ntors = 2\nspines = 2\nhosts_per_tor = 2\n'
            '[link]\nrate = "10Gbit"\n[[flow]]\nfrom = "h0..h1"\nto = "h2"\nbytes = "500KB"\ncount = 8\n'
            '[[event]]\nat = "1ms"\nlink = "t0-s0"\ndown = true\n')
        self.assertTrue(all(flow["fct_us"] for flow in result["flows"]))
        self.assertTrue(0 < ports["t0", "s0"]["wire_bytes"] < 10**10 / 8 * 0.00101, ports["t0", "s0"])
        self.assertGreater(result["hosts"]["hpcc"]["path_changes"], 0)

    def test_rate_changes(self):
        """A flow of 2 MB runs at 10 Gb/s for 1 ms, and then at 1 Gb/s."""
        result, _ = self.run_lab('[link]\nrate = "10Gbit"\n[[flow]]\nfrom = "h0"\nto = "h1"\n'
                                 'bytes = "2MB"\n[[event]]\nat = "1ms"\nlink = "s0-h1"\nrate = "1Gbit"\n')
        self.assertTrue(7000 < result["flows"][0]["fct_us"] < 11000, result["flows"])

    def test_host_delay(self):
        text = '[[flow]]\nfrom = "h0"\nto = "h1"\nbytes = 1000\n'
        before = self.run_lab(text)[0]["flows"][0]
        after = self.run_lab(text + '[host]\ndelay_out = "3us"\ndelay_in = "1us"\n')[0]["flows"][0]
        self.assertAlmostEqual(after["fct_us"] - before["fct_us"], 4, delta=0.02)
        self.assertLess(after["slowdown"], 1.05)

    LINK = "node a\nnode b\nlink a x 02:00:00:00:00:01 b y 02:00:00:00:00:02 1500\n"

    def write_plan(self, text):
        Path(self.directory, "plan").write_text(text, encoding="ascii")

    def test_refused_by_the_kernel(self):
        """The error is one line with the node, the interface and the kernel's message."""
        tree_of, tools = self.kernel()
        self.write_plan(self.LINK + "qdisc a x root 10: hpcc limit 100000 marking 1 kmin 200000\n")
        done = unittests.ran(self, RUN, "--tree", tree_of, "--rw", self.directory, "--ro", tools, "--module",
                             f"{tools}/sch_hpcc.ko", f"{tools}/hpcc-network", "up", f"{self.directory}/plan", status=1)
        self.assertRegex(done.stdout, r"(?m)^hpcc-network: node a, interface x: qdisc: .*kmin")

    def test_invalid_plan(self):
        """The error is one line, and no namespace remains."""
        tree_of, tools = self.kernel()
        for text, message in (
                ("node ../a\n", "node ../a: a name has"),
                ("node " + 32 * "a" + "\n", "a name has 1 to 31"),
                ("node a\nbridge a " + 16 * "b" + "\n", "a name has 1 to 15"),
                ("node a\nsysctl a ../../tmp/x 1\n", "plan: node a: sysctl"),
                ("node a\nsysctl a net/ipv4/ip_forward\n", "plan: node a: sysctl"),
                ("node a\nsysctl a net/ipv4/none 1\n", "cannot set 1"),
                ("node a\nknow a 1 1 1000000000\n", "node a: tcp_hpcc is not loaded"),
                (self.LINK + "address a x 10.0.0.1/33\n", "plan: node a: address"),
                (self.LINK + "address a x 10.0.0.1/2x\n", "plan: node a: address"),
                (self.LINK + "qdisc a x root 10: fq limit 4294967296\n", "plan: node a: qdisc"),
                (self.LINK + "route a " + 600 * "x," + "x 10.0.0.0/8 10.0.0.1 0\n", "plan: node a: route")):
            self.write_plan(text)
            done = unittests.run(RUN, "--tree", tree_of, "--rw", self.directory, "--ro", tools, "--", "sh", "-c",
                                 f"{tools}/hpcc-network up {self.directory}/plan; echo status $?; ls -A /run/netns")
            self.assertIn(message, done.stdout)
            self.assertRegex(done.stdout, r"status 1\s*(ls: .*\s*)?$")

    def test_600_namespaces(self):
        self.run_lab('[topology]\nkind = "star"\nhosts = 599\n[[flow]]\nfrom = "h0"\nto = "h598"\nbytes = "1KB"\n')

    @staticmethod
    def kernel():
        # pylint: disable=protected-access
        tree_of = runner._output([str(runner.UML / "build.sh")], "kernel")
        return tree_of, runner._output([str(runner.UML / "modules.sh"), tree_of], "modules")


if __name__ == "__main__":
    unittests.main()
