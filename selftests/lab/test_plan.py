#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpcc-lab: the files that execute a scenario: network, sysctls, flows."""

import re
import unittest

from lab.model import topology
from lab.setup import plan
from lib import unittests
from lib.scenarios import build


class Plan(unittest.TestCase):
    @staticmethod
    def made(**sections):
        made = build(**sections)
        return plan.Plan(made, topology.Topology(made))

    def test_parameters(self):
        text = self.made(cc={"eta": 0.98, "max_stage": 3, "w_ai": "50Mbit"}).files["network"]
        for line in ("h0 net/hpcc/eta_permille 980", "h0 net/hpcc/max_stage 3", "h0 net/hpcc/base_rtt_ns 4266",
                     "h0 net/hpcc/host_mbps 100000", "h0 net/hpcc/w_ai 26"):
            self.assertIn(f"sysctl {line}\n", text)
        self.assertNotIn("h1 net/hpcc/base_rtt_ns", text)

    def test_base_rtt_is_each_host_s(self):
        text = self.made(topology={"kind": "chain", "switches": 5}, flow=[
            {"from": "h0", "to": "h1", "bytes": 1}, {"from": "h2", "to": "h3", "bytes": 1}]
        ).files["network"]
        self.assertIn("sysctl h0 net/hpcc/base_rtt_ns 12798\n", text)
        self.assertIn("sysctl h2 net/hpcc/base_rtt_ns 6399\n", text)
        self.assertIn("base_rtt_ns 0\n", self.made(cc={"base_rtt": 0}).files["network"])

    def test_settings_of_single_links(self):
        made = self.made(topology={"kind": "chain"}, link={
            "h0-s0": {"rate": "25Gbit"}, "fabric": {"rate": "1Gbit", "delay": "5us", "buffer": "90KB"}})
        for line in ("qdisc s1 s0 root 10: hpcc rate 1000000000 limit 90000 overhead 24 delay 5000 ",
                     "qdisc s0 h0 root 10: hpcc rate 25000000000 limit 32000000 ",
                     "qdisc h0 eth0 root 10: hpcc rate 25000000000 ",
                     "qdisc h1 eth0 root 10: hpcc rate 100000000000 ",
                     "sysctl h0 net/hpcc/host_mbps 25000\n"):
            self.assertIn(line, made.files["network"])
        self.assertIn("1 Gb/s to 100 Gb/s, 1 us to 5 us per link", plan.describe(made.scenario, made.topology))

    def test_other_cc_has_no_telemetry(self):
        made = self.made(cc={"name": "cubic"})
        self.assertNotIn("net/hpcc", made.files["network"])
        self.assertNotIn(" stamp 1", made.files["network"])
        self.assertIn(" stamp 1", self.made().files["network"])

    def test_cc_of_a_flow(self):
        """Receivers of ldcp flows have a route with quickack to each sender, and acknowledge each packet."""
        flows = [{"from": "h0", "to": "h2", "bytes": 1, "cc": "ldcp"}, {"from": "h1", "to": "h2", "bytes": 1}]
        made = self.made(flow=flows, topology={"hosts": 3}, cc={"alpha": 0.25, "eta": 0.9})
        text = "".join(made.lines())
        self.assertRegex(text, r"(?m)^flow 0 .* ldcp before$")
        self.assertRegex(text, r"(?m)^flow 1 .* hpcc before$")
        self.assertIn("sysctl h2 net/ldcp/alpha_permille 250\n", made.files["network"])
        self.assertIn("sysctl h2 net/hpcc/eta_permille 900\n", made.files["network"])
        self.assertIn(" stamp 1", made.files["network"])
        self.assertEqual(made.scenario.cc_label(), "ldcp+hpcc")
        self.assertEqual(re.findall("(?m)^route .*$", made.files["network"]), ["route h2 eth0 10.0.0.1 - 1"])

    def test_ldcp(self):
        made = self.made(cc={"name": "ldcp", "alpha": 1, "beta": 0.5, "gamma": 0.125, "cw_min": 0.05, "iw": 7,
                             "fast_start": False, "burst": 2, "slots": 2})
        lines = re.findall(r"sysctl h0 net/(\S+ \d+)\n", made.files["network"])
        self.assertEqual(sorted(line for line in lines if not line.startswith("ip")), sorted([
            "ldcp/alpha_permille 1000", "ldcp/beta_permille 500", "ldcp/gamma_permille 125", "ldcp/cw_min_permille 50",
            "ldcp/iw 7", "ldcp/fast_start 0", "ldcp/burst 2", "ldcp/base_rtt_ns 4266", "ldcp/host_mbps 100000"]))
        self.assertNotIn("net/ldcp/alpha", self.made(cc={"name": "ldcp"}).files["network"])

    def test_marking(self):
        self.assertNotIn("marking", self.made().files["network"])
        made = self.made(qdisc={"marking": "ldcp"})
        self.assertEqual(re.findall(r"(?m)^qdisc (\S+) .* marking 1$", made.files["network"]), ["s0"] * 3)
        made = self.made(qdisc={"marking": "ldcp", "kmin": "10KB", "kmax": "20KB", "pmax": 0.25, "knonect": "1MB"})
        self.assertIn(" marking 1 kmin 10000 kmax 20000 knonect 1000000 pmax 250000\n", made.files["network"])

    def thresholds(self, options, shown):
        """Each port has the options of [qdisc], unless nothing requests records."""
        self.assertEqual(self.made(qdisc=options).files["network"].count(shown), 3)
        for other in self.made(), self.made(qdisc=options, cc={"name": "dctcp"}):
            for name in options:
                self.assertNotIn(name, other.files["network"])

    def test_above_and_respond(self):
        self.thresholds({"above": "10KB"}, " stamp 1 above 10000\n")
        self.thresholds({"respond": "10KB", "every": "5us"}, " stamp 1 respond 10000 every 5000\n")
        self.thresholds({"respond": "10KB", "above": "5KB"}, " stamp 1 above 5000 respond 10000\n")
        self.thresholds({"respond": "10KB"}, " stamp 1 respond 10000\n")

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
        for number, options, stamped in ((2, {"cc": {"carrier": "int"}, "qdisc": {"int_window": "3us"}},
                                          " stamp 4 int_window 3000"),
                                         (3, {"cc": {"carrier": "ifa"}}, " stamp 8")):
            network = self.made(**options).files["network"]
            self.assertIn(f"sysctl h0 net/hpcc/carrier {number}\n", network)
            self.assertIn("know h0 1 1 100000000000 1 2 100000000000 1 3 100000000000\n", network)
            self.assertEqual(network.count(stamped), 3)
        for stamps in "tcp,ioam,int", "tcp,int,ifa", "tcp,ioam,int,ifa":
            made = self.made(qdisc={"stamp": stamps, "int_window": "3us"}, impair={"data_loss": 0.01})
            self.assertIn(f" stamp {stamps} int_window 3000", made.files["s0.tc"])
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
        self.assertRegex("".join(made.lines()), r"(?m)^flow 298 h298 h299 0 0 hpcc before$")

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


if __name__ == "__main__":
    unittests.main()
