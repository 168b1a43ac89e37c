#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpcc-lab: congestion controls and queue disciplines that are not ours, in User Mode Linux."""

import json
import tempfile
import unittest
from pathlib import Path

from lab.model import scenario, topology
from lab.run import foreign, runner
from lab.setup import plan
from lib import unittests
from lib.scenarios import SMALL, build, refused
from lib.unittests import LAB, TOP

EXAMPLE = TOP / "scripts/examples/tcp_example.c"
setUpModule = unittests.allow_interrupts


class Names(unittest.TestCase):
    """Scenarios, without a guest."""

    def refused(self, wanted, **sections):
        refused(self, wanted, build, **sections)

    def test_bad_values(self):
        for name in "", "a name", "sixteen_letters__", "vegas,reno", 3:
            self.refused(["cc.name", ".bpf.o"], cc={"name": name})
        for path in "/none/tcp_x.c", "./none/", "/dev/null/x.bpf.o", "/etc/passwd", "/dev/null":
            self.refused([path.rstrip("/"), "no such"], cc={"name": path})
        self.refused(["no Kbuild"], cc={"name": str(TOP / "Documentation")})
        for value in (3, {"a b": 1}, {"net.": 1}, {"net.ipv4/../x": 1}, {"a": [1]}, {"a": "x y"}, {"a": {"b": {}}}, {"kernel.panic": 1},
                      {"net.ipv4.tcp_rmem": "1  2"}, {"net.ipv4.tcp_rmem": "1\n2"}):
            self.refused(["cc.parameters"], cc={"parameters": value})
        for value in {"net.hpcc.eta_permille": 900}, {"mine": {"net.ldcp.iw": 9}}, {"net.hpcc.host_mbps": 1}:
            self.refused(["cc.parameters", "is a key of [cc], or"], cc={"parameters": value})
        with self.assertRaisesRegex(scenario.ScenarioError, "cc.parameters: .*--kernel host"):
            runner.Host.check(build(cc={"name": "vegas", "parameters": {"alpha": 1}}))
        for kind in "", "Cake", "cake\nqdisc", 3, "pfifo \\", 'pfifo "', "pfifo '", "pfifo # x":
            self.refused(["qdisc.kind", "cake bandwidth"], qdisc={"kind": kind})
        for more in {"queue": "fq"}, {"marking": "ldcp"}:
            self.refused(["qdisc."], qdisc={"kind": "cake"} | more)

    def test_parameters(self):
        made = build(cc={"name": "vegas", "parameters": {
            "alpha": 3, "net.ipv4.tcp_sack": False, "vegas": {"alpha": 4}, "mine": {"x": 1, "net.ipv4.tcp_ecn": 2},
            "net.ipv4.tcp_rmem": "4096 131072 6291456"}})
        self.assertEqual(made.parameters("vegas"), {"alpha": 4})
        self.assertEqual(made.parameters("mine"), {"x": 1})
        network = plan.Plan(made, topology.Topology(made)).files["network"]
        self.assertIn("sysctl h0 net/ipv4/tcp_sack 0\n", network)
        self.assertIn("sysctl h0 net/ipv4/tcp_rmem 4096 131072 6291456\n", network)
        self.assertNotIn("tcp_ecn", network)
        self.assertEqual(build(cc={"name": "vegas", "parameters": {"vegas": 1}}).parameters("vegas"), {"vegas": 1})
        self.assertEqual(scenario.build(made.settings(), "test").settings(), made.settings())

    def test_name_of_the_kernel(self):
        """A source needs a name that neither a module nor a source of the kernel has."""
        with tempfile.TemporaryDirectory() as tree:
            for name, text in ("lib/modules/6.1/modules.builtin", "kernel/net/ipv4/tcp_cubic.ko\n"), (
                    "net/ipv4/tcp_vegas.c", "tcp_register_congestion_control("):
                Path(tree, name).parent.mkdir(parents=True)
                Path(tree, name).write_text(text, encoding="ascii")
            finder = foreign.Finder(tree, "uml", None, lambda *_: ["reno", "cubic", finder.registers])
            for finder.registers in "mine", "vegas":
                part = foreign.Part("", "tcp_x", Path(tree), ["tcp_x.ko"])
                if finder.registers == "mine":
                    self.assertEqual(finder._name(finder.kernel, None, "x.c", part), "mine")
                else:
                    with self.assertRaisesRegex(foreign.RunError, 'x.c: .* of this name already, "vegas"; give'):
                        finder._name(finder.kernel, None, "x.c", part)

    def test_what_a_kernel_lacks(self):
        line = foreign.missing("x.c:1:2: error: 'struct tcp_congestion_ops' has no member named 'skb_marked_lost'\n"
                               "x.c:2:2: error: 'struct mine' has no member named 'typo'\n"
                               "x.c:3: error: implicit declaration of function 'tcp_plb_check'; did you mean 'x'?\n"
                               'ERROR: modpost: "tcp_x" [/y/x.ko] undefined!\n', "Linux 6.1")
        for name in "skb_marked_lost of struct tcp_congestion_ops", "tcp_plb_check()", "tcp_x", "Linux 6.1", "BBRv3":
            self.assertIn(name, line)
        self.assertNotIn("typo", line)
        self.assertEqual(foreign.missing("x.c:1: error: expected ';'", "Linux 6.1"), "")


class Guest(unittests.SharedCase):
    """Short runs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("small.toml", SMALL)

    @classmethod
    def write(cls, name, text):
        path = cls.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    @classmethod
    def change(cls, name, *changes):
        """Write a copy of the example."""
        text = EXAMPLE.read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        cls.write(name, text)

    def lab(self, out, *args, command="compare", status=0):
        return unittests.ran(self, LAB, command, "small.toml", "--out", out, *args, status=status, cwd=self.directory)

    def runs(self, out):
        data = json.loads(Path(self.directory, out, "results.json").read_text(encoding="utf-8"))
        return {run["cc"]: run for run in data.get("runs", [data])}

    def test_names_sources_directories(self):
        """Six of them in one command, in which each flow ends. Equal seeds give equal results."""
        self.change("here/core.c", ('"example"', '"in-dir"'))
        self.write("here/Kbuild", "obj-m := tcp_indir.o\ntcp_indir-y := core.o\n")
        self.write("here/.hidden", "")
        before = sorted(path.name for path in (self.directory / "here").iterdir())
        names = ["reno", "vegas", "yeah", "westwood", str(EXAMPLE), "./here/"]
        self.lab("a", "--cc", ",".join(names), "--set", "link.buffer=40KB", "--set", "flow.bytes=3MB")
        runs = self.runs("a")
        self.assertEqual(list(runs), ["reno", "vegas", "yeah", "westwood", "example", "in-dir"])
        for run in runs.values():
            self.assertNotIn(None, [flow["fct_us"] for flow in run["flows"]])
        # The last two are the same code.
        self.assertEqual(len({str(run["flows"]).replace(name, "") for name, run in runs.items()}), 5)
        self.assertEqual(sorted(path.name for path in (self.directory / "here").iterdir()), before)
        self.assertEqual(runs["in-dir"]["settings"]["cc"]["name"], "./here")
        self.assertEqual(len(runs["example"]["sources"]["example"]), 64)
        self.assertNotIn("sources", runs["vegas"])
        done = unittests.ran(self, LAB, "rerun", "a/results.json", cwd=self.directory)
        self.assertEqual(done.stdout.count(": the same"), 6)

    def test_sources_of_flows_and_parameters(self):
        """A scenario's path is relative to its file; parameters of modules and of what is built in."""
        self.change("mine/tcp_mine.c", ('"example"', '"mine"'))
        self.write("mine/mixed.toml", SMALL + 'cc = "tcp_mine.c"\n[[flow]]\nfrom = "h0"\nto = "h2"\nbytes = "30KB"\n'
                   '[cc]\nname = "cubic"\nparameters = {initial_ssthresh = 5, mine = {target_us = 50}}\n')
        unittests.ran(self, LAB, "run", "mine/mixed.toml", "--out", "b", cwd=self.directory)
        self.assertEqual(list(self.runs("b")), ["mine+cubic"])
        self.assertEqual([flow["cc"] for flow in self.runs("b")["mine+cubic"]["flows"]], ["mine", "mine", "cubic"])
        times = []
        for us in 1, 500:
            self.lab("c", "--cc", "./mine/tcp_mine.c", "--set", "flow.bytes=3MB", "--set",
                     f"cc.parameters={{mine={{target_us={us}}}}}", command="run")
            times.append(max(port["queue_bytes"]["p95"] for port in self.runs("c")["mine"]["ports"]))
        self.assertLess(2 * times[0], times[1])
        for name, parameter in (("cubic", "betta"), ("vegas", "alpa"), ("./mine/tcp_mine.c", "tagret_us"), ("hpcc", "x")):
            done = self.lab("d", "--cc", name, "--set", f"cc.parameters={{{parameter}=1}}", command="run",
                            status=2 if name == "hpcc" else 1)
            self.assertIn(f"cc.parameters{'' if name == 'hpcc' else '.' + parameter}: ", done.stderr)

    def test_bad_sources(self):
        """Each bad source is named, and the other runs have results."""
        self.change("tcp_typo.c", ("cwnd + 1;", "cwnd + one;"), (".undo_cwnd\t", ".tso_segments\t"))
        self.change("tcp_crash.c", ('"example"', '"crash"'), ("e->base_rtt_us = U32_MAX;", "*(volatile int *)8 = 1;"))
        self.change("tcp_early.c", ('"example"', '"early"'), ("return tcp_reg", "BUG();\n\treturn tcp_reg"))
        self.change("tcp_mute.c", ('"example"', '"mute"'), ("e->rtt_us = U32_MAX;", "tcp_sk(sk)->snd_cwnd = 0;"),
                    ("clamp(cwnd, 2U, tp->snd_cwnd_clamp)", "0"))
        self.change("tcp_mycubic.c", ('"example"', '"cubic"'))
        self.change("tcp_myvegas.c", ('"example"', '"vegas"'))
        self.change("tcp_ours.c", ('"example"', '"hpcc"'))
        # Not UTF-8: the source, and what it prints.
        self.change("tcp_latin.c")
        with open(self.directory / "tcp_latin.c", "ab") as file:
            file.write(b'#error "\xe4\xf6"\n')
        self.change("tcp_rude.c", ('"example"', '"rude"'), ("e->base_rtt_us = U32_MAX;", 'panic("\\xff");'))
        self.change("tcp_none.c", ("return tcp_register_congestion_control(&example)", "return 0"))
        self.change("tcp_twin.c")
        names = ("typo", "crash", "early", "mute", "mycubic", "myvegas", "ours", "none", "twin", "latin", "rude")
        done = self.lab("e", "--cc", ",".join([str(EXAMPLE), *(f"./tcp_{name}.c" for name in names)]),
                        "--set", "flow.bytes=10MB", "--set", "measure.deadline=5s", status=1)
        self.assertEqual(list(self.runs("e")), ["example"])
        for wanted in ("./tcp_typo.c: does not compile for Linux ", "./tcp_typo.c:56:", "has no tso_segments of struct",
                       "error: #error", "the run with rude failed",
                       "the run with crash failed", "Kernel panic", "./tcp_early.c: a guest does not load it",
                       "run with mute failed: mute hardly sends until measure.deadline, 5 s", '"hpcc", as that of this',
                       "./tcp_mycubic.c: the kernel has a congestion control of this name",
                       './tcp_myvegas.c: the kernel has a congestion control of this name already, "vegas"',
                       "./tcp_none.c: has to register one congestion control",
                       f'./tcp_twin.c: its congestion control has the name "example", as that of {EXAMPLE}'):
            self.assertIn(wanted, done.stderr)
        self.assertEqual(done.stderr.count("hpcc-lab: "), len(names))
        self.assertNotIn("\nmute ", done.stdout)
        unittests.ran(self, LAB, "run", "small.toml", "--cc", "./tcp_typo.c", "--out", "f", status=1, cwd=self.directory)
        self.assertFalse(Path(self.directory, "f/results.json").exists())

    def test_macros_before_includes(self):
        """Headers see the macros that a source defines."""
        self.change("tcp_debug.c", ("#include <linux/module.h>", "#define DEBUG\n#include <linux/module.h>"),
                    ("return tcp_reg", 'pr_debug("only with DEBUG\\n");\n\treturn tcp_reg'))
        tree = unittests.ran(self, TOP / "scripts/uml/build.sh", "--lab").stdout.strip()
        built = unittests.ran(self, TOP / "scripts/uml/modules.sh", tree, self.directory / "tcp_debug.c").stdout.strip()
        self.assertTrue(b"only with DEBUG" in Path(built, "tcp_debug.ko").read_bytes())

    def test_what_the_kernel_does_not_have(self):
        self.write("mine.bpf.o", "")
        for args, wanted in ((["--cc", "reno,vega"], ['cc = "vega": Linux ', ", vegas, "]),
                             (["--cc", "reno,./mine.bpf.o"], ["JIT", "--kernel vm"]),
                             (["--set", "qdisc.kind=cacke"], ["qdisc.kind", " cake, "])):
            done = self.lab("g", *args, status=2)
            for word in wanted:
                self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.splitlines()[-1].count("hpcc-lab: "), 1)

    def test_queue_disciplines(self):
        """cake shapes below the link; its queue is measured as that of hpcc's own queue. The drops of a child count."""
        for kind, low, high in (("cake bandwidth 5gbit", 0.4, 0.51), ("bfifo limit 60000", 0.8, 1),
                                ("fq_pie limit 1000", 0.8, 1)):
            self.lab("h", "--cc", "cubic", "--set", f"qdisc.kind={kind}", "--set", "flow.bytes=3MB", command="run")
            port = max(self.runs("h")["cubic"]["ports"], key=lambda port: port["utilization"])
            self.assertTrue(low < port["utilization"] <= high, port["utilization"])
            self.assertGreater(port["queue_bytes"]["max"], 10000)
            self.assertEqual(port["drops"] > 0, kind.startswith("bfifo"), kind)
            self.assertIsNone(port["marks"])
        for kind, why in ("cake cacke", 'What is "cacke"'), ("red limit 10", "RED: Required parameter .limit, avpkt. is missing"), \
                ("sfb max 10 target 20 increment 2 decrement 1", ".*"):
            self.assertRegex(self.lab("h", "--set", f"qdisc.kind={kind}", command="run", status=2).stderr,
                             f'(?m)^hpcc-lab: qdisc.kind = "{kind}": tc: {why}.*\n$')


if __name__ == "__main__":
    unittests.main()
