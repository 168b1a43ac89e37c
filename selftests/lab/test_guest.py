#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpcc-lab: short runs in a guest."""

import json
import os
import subprocess
from pathlib import Path

from lab.run import runner
from lab.study import bench
from lib import unittests
from lib.scenarios import SMALL
from lib.unittests import LAB, TOP

RUN = str(TOP / "scripts/uml/run.sh")
setUpModule = unittests.allow_interrupts


class Guest(unittests.SharedCase):
    """Short runs in User Mode Linux."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = Path(cls.directory, "small.toml")
        cls.file.write_text(SMALL, encoding="utf-8")

    def lab(self, out, *args, command="run", status=0):
        return unittests.ran(self, LAB, command, str(self.file), "--out", f"{self.directory}/{out}", *args,
                             status=status)

    def results(self, out):
        data = json.loads(Path(self.directory, out, "results.json").read_text(encoding="utf-8"))
        del data["wall"]
        return json.dumps(data)

    # Simulates a different machine: other mounts, uptime and limits.
    ELSEWHERE = """set -e
        if [ -e /run/mount ]; then mount -t tmpfs run /run; else mkdir /run/mount; fi
        mount --bind "$1" "$2/cache"
        cd "$2/very/long path"
        exec setpriv --reuid=65534 --regid=65534 --clear-groups prlimit --nofile=400:400 \
            taskset -c 0 env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$2" HPCC_CACHE="$2/cache" \
            TMPDIR="$2/tmp" LANG=de_DE.UTF-8 LD_BIND_NOW=1 "WORDS=$(seq -s ' ' 1000)" "${@:3}"
    """

    def elsewhere(self, *args):
        """Run another user's copy of the tree; as root also in the environment of ELSEWHERE."""
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
        unittests.ran(self, *command, cwd=home)
        return "elsewhere/out"

    def test_repeatable(self):
        # With loss, the results depend on the seed.
        lossy = ("--set", "impair.data_loss=1%", "--seed")
        for out, seed in (("a", "7"), ("c", "8")):
            self.lab(out, *lossy, seed)
        elsewhere = self.elsewhere(*lossy, "7")
        self.assertEqual(self.results("a"), self.results(elsewhere))
        self.assertNotEqual(self.results("a"), self.results("c").replace('"seed": 8', '"seed": 7'))
        series = [Path(self.directory, out, "series.json").read_bytes() for out in ("a", elsewhere)]
        self.assertEqual(*series)

    def test_repeatable_side_by_side(self):
        """A busy host interrupts guests at different points; their random numbers must not depend on this."""
        runs = [subprocess.Popen([LAB, "run", bench.SCENARIOS / "fb-hadoop-star16.toml", "--out",
                                  f"{self.directory}/side-{i}", "--set", "impair.data_loss=0.5%",
                                  "--set", "workload.duration=100us", "--seed", "2"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(4)]
        self.assertEqual([run.wait() for run in runs], [0] * len(runs))
        self.assertEqual(len({self.results(f"side-{i}") for i in range(len(runs))}), 1)

    def test_many_flows(self):
        """More sockets than the default limit of open files."""
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
            # Two times 300 KB, plus 118 bytes of headers and overhead for each segment
            self.assertTrue(600000 * 1538 // 1448 < port["wire_bytes"] < 600000 * 1.2, port)

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
        """Only the port of the slow link is full."""
        done = self.lab("sf", "--set", "topology.kind=dumbbell", "--set", "topology.hosts=4", "--set",
                        "flow.to=h3", "--set", "link.fabric.rate=1Gbit", "--set", "link.s0-s1.delay=9us")
        self.assertIn("port s0 to s1,", done.stdout)
        ports = {(p["node"], p["peer"]): p for p in json.loads(self.results("sf"))["ports"]}
        self.assertEqual(ports["s0", "s1"]["rate_bps"], 10**9)
        self.assertTrue(0.9 < ports["s0", "s1"]["utilization"] <= 1)
        self.assertTrue(0.09 < ports["s1", "h3"]["utilization"] <= 0.1)

    def test_endless(self):
        done = self.lab("e", "--set", "flow.bytes=endless", "--set", "measure.until=3ms", "--set", "measure.from=1ms",
                        "--set", "measure.interval=100us", "--set", "flow.0.cc=ldcp", "--set", "flow.0.count=2")
        self.assertRegex(done.stdout, r"(?m)^ldcp .* - .* - ")
        got = json.loads(self.results("e"))
        self.assertEqual(got["jain_1ms"]["spans"], 2)
        self.assertEqual([round(us) for us in got["window_us"]], [1000, 3000])
        total = sum(flow["goodput_bps"] for flow in got["flows"])
        self.assertTrue(8.5 * 10**9 < total < 10**10, total)
        self.assertGreater(got["hosts"]["ldcp"]["flows"], 0)

    def test_marking(self):
        """Given and derived thresholds, and drops and marks by cause."""
        marking = ("--set", "qdisc.marking=ldcp", "--set", "flow.bytes=1MB", "--set")

        def port(*args):
            self.lab("m", *marking, *args)
            return json.loads(self.results("m"))["ports"][2]
        given = ("qdisc.kmin=10KB", "--set", "qdisc.kmax=20KB", "--set", "qdisc.pmax=0.5",
                 "--set", "qdisc.knonect=30KB")
        got = port(*given, "--cc", "dctcp")
        self.assertEqual(got["marking"], {"kmin": 10000, "kmax": 20000, "knonect": 30000, "pmax": 0.5})
        self.assertTrue(got["marks"] > got["marks_kmax"] > 0, got)
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
        """If the last packets of a flow are lost, no later packet shows the loss: a timeout is needed."""
        self.lab("t", "--set", "impair.data_loss=30%", "--set", "flow.bytes=100KB", "--cc", "cubic")
        got = json.loads(self.results("t"))
        self.assertGreater(got["hosts"]["timeouts"], 0)

    def test_unfinished(self):
        done = self.lab("u", "--set", "measure.deadline=30us", status=1)
        self.assertIn("deadline", done.stderr)

    def test_one_fails(self):
        """If one run fails, the results of the others are written."""
        done = self.lab("f", "--set", "measure.deadline=530us", "--cc", "hpcc,cubic", command="compare", status=1)
        self.assertIn("hpcc-lab: hpcc: the measurement window is empty", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^cubic ")
        self.assertEqual([run["cc"] for run in json.loads(self.results("f"))["runs"]], ["cubic"])

    def test_repeat(self):
        """Each run has a different seed, and equal seeds give equal results."""
        for out in "r1", "r2":
            done = self.lab(out, "--repeat", "3", "--seed", "7", "--set", "flow.spread=50us")
            self.assertRegex(done.stdout, r"(?m)^hpcc .*\u00b1 ")
        self.assertEqual(self.results("r1"), self.results("r2"))
        runs = json.loads(self.results("r1"))["runs"]
        self.assertEqual([run["seed"] for run in runs], [7, 8, 9])
        self.assertEqual(len({run["flows"][0]["fct_us"] for run in runs}), 3)

    def test_unsupported_queue(self):
        self.lab("has")
        version = json.loads(self.results("has"))["kernel"].split()[1]
        if tuple(map(int, version.split(".")[:2])) >= (6, 17):
            self.skipTest("this kernel has dualpi2")
        done = self.lab("lacks", "--set", "qdisc.queue=dualpi2", status=2)
        self.assertRegex(done.stderr, r'\Ahpcc-lab: qdisc.queue = "dualpi2": Linux .* has no such queue discipline; .*\n\Z')

    def test_terminated(self):
        """SIGTERM also ends the guest, and no temporary files remain."""
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
        """stdout may have no reader any more, and may have any encoding."""
        argv = [LAB, "run", str(self.file), "--out", f"{self.directory}/pipe", "--repeat", "2"]
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writer)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("Traceback", done.stderr)
        self.assertTrue(Path(self.directory, "pipe/results.json").exists())
        done = unittests.ran(self, *argv, env=os.environ | {"PYTHONIOENCODING": "ascii"})
        self.assertIn(r"\xb1", done.stdout)

    def test_responses(self):
        """Responses reduce the peak and the p99 of the first 100 us of 64-to-1 by at least 30 %."""
        figures = []
        for out, more in ("n", []), ("r", ["--set", "qdisc.respond=50KB"]):
            unittests.ran(self, LAB, "run", TOP / "scripts/scenarios/incast64-100g.toml", "--set", "measure.from=0",
                          "--set", "measure.until=100us", *more, "--out", f"{self.directory}/{out}")
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
        """A results.json contains all settings on which it depends."""
        self.lab("a", "--set", "flow.spread=50us", "--set", "link.h0-s0.rate=5Gbit", "--seed", "3")
        made = Path(self.directory, "a/results.json")

        def again(path):
            return unittests.run(LAB, "rerun", str(path), "--out", f"{self.directory}/b")
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
        for wrong in ('{"runs": []}', "[" * 100000, *(json.dumps(data | change) for change in (
                {"scenario": "../x"}, {"scenario": "\0"}, {"scenario": "\ud800"}, {"seed": -1}, {"seed": "1"},
                {"kernel": "mars 6.1"}, {"settings": {"link": {"rate": 1}}}, {"settings": None}))):
            other.write_text(wrong, encoding="utf-8")
            done = again(other)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1),
                             f"{wrong[:900]}: {done.stderr}")

    def test_workload(self):
        """A workload from a list. Each flow is alone in the network, so its slowdown is little more than 1."""
        Path(self.directory, "one.csv").write_text("start_ns,from,to,bytes\n0,0,1,1000\n"
                                                   "100000,1,0,400000\n", encoding="ascii")
        Path(self.directory, "w.toml").write_text(
            '[link]\nrate = "10Gbit"\n[workload]\nflows = "one.csv"\n', encoding="utf-8")
        unittests.ran(self, LAB, "run", f"{self.directory}/w.toml", "--out", f"{self.directory}/w")
        for flow, most in zip(json.loads(self.results("w"))["flows"], (1.05, 1.2)):
            self.assertTrue(1 <= flow["slowdown"] < most, flow)

    def test_output_directories(self):
        """run and compare do not overwrite each other's results."""
        for command, path in ("run", "out/small-reno"), ("compare", "out/small"):
            done = unittests.run(LAB, command, str(self.file), "--cc", "reno", cwd=self.directory)
            self.assertIn(f"\n{path}/report.html\n", done.stdout, done.stderr)

    def test_build_date(self):
        """The build date is fixed, because the kernel mixes it into its random numbers and so into the results."""
        done = unittests.run(RUN, "uname", "-v")
        self.assertIn("#1 Mon Nov 23 11:46:14 UTC 2026\n", done.stdout, done.stderr)

    def test_on_the_host(self):
        """--kernel host: the host is a guest with our modules loaded."""
        tree = runner._output([str(runner.UML / "build.sh")], "kernel")
        tools = runner._output([str(runner.UML / "modules.sh"), tree], "modules")
        unittests.ran(self, RUN, "--tree", tree, "--rw", self.directory, "--ro", tools, "--module",
                             f"{tools}/sch_hpcc.ko", "--module", f"{tools}/tcp_hpcc.ko", "--env",
                             f"TC_LIB_DIR={tools}", "--env", f"HPCC_TRAFFIC={tools}/hpcc-traffic", "--env",
                             f"HPCC_NETWORK={tools}/hpcc-network", "python3", LAB, "run", str(self.file),
                             "--kernel", "host", "--out", f"{self.directory}/host")
        got = json.loads(self.results("host"))
        self.assertRegex(got["kernel"], r"^host \d")
        self.assertGreater(got["ports"][2]["stamped"], 0)


if __name__ == "__main__":
    unittests.main()
