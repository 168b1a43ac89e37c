#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Traffic of a scenario: workloads, RPCs, both directions of a connection, programs, captures."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

from lab.model import scenario, topology, workload
from lab.setup import plan
from lib import unittests
from lib.scenarios import refused
from lib.unittests import LAB, TOP

STAR = {"kind": "star", "hosts": 4}
RPC = {"from": "h0", "to": "h1", "request": 100, "response": "20KB", "count": 3}


def made(seed=1, **data):
    return scenario.build({"topology": STAR} | data, "test", seed)


def plan_of(scene):
    return "".join(plan.Plan(scene, topology.Topology(scene)).lines())


def again(scene, seed=1):
    """Return a scenario from the settings of another scenario, encoded to JSON and decoded again."""
    return scenario.build(json.loads(json.dumps(scene.settings())), "test", seed)


class Refused(unittest.TestCase):
    def refused(self, *words, **data):
        refused(self, words, made, **data)

    def test_rpc(self):
        self.refused("rpc.0", "count or until", rpc=[{k: v for k, v in RPC.items() if k != "count"}])
        self.refused("rpc.0.to", "no h9", rpc=[RPC | {"to": "h9"}])
        self.refused("rpc.0", "both h1", rpc=[RPC | {"from": "h0..h1"}])
        self.refused("rpc.0.response", "missing", rpc=[{"from": "h0", "to": "h1", "request": 1, "count": 1}])
        self.refused("[[rpc]]", rpc={"from": "h0"})

    def test_run(self):
        program = {"host": "h0", "command": "true"}
        until = {"until": "1ms"}
        self.refused("run.0.command", "no program", "nonsense-x", measure=until,
                     run=[program | {"command": "A=1 nonsense-x -v"}])
        self.refused("run.0.command", "quotation", measure=until, run=[program | {"command": "echo 'a"}])
        self.refused("run.0.command", "no h7", measure=until, run=[program | {"command": "echo {h7}"}])
        self.refused("run.0.host", "no h4", measure=until, run=[program | {"host": "h4"}])
        self.refused("run.0.stop", "later", measure=until, run=[program | {"start": "2us", "stop": "1us"}])
        self.refused("measure.until", "only programs", run=[program])
        self.refused("one line", measure=until, run=[program | {"command": "a\nb"}])

    def test_ports(self):
        flow = [{"from": "h0", "to": "h1", "bytes": 1}]
        for key in "ports", "pcap":
            self.refused(f"measure.{key}", "no port h0-s0", "s0-h0", flow=flow, measure={key: ["h0-s0"]})
            self.refused(f"measure.{key}", "list of ports", flow=flow, measure={key: "s0-h0"})

    def test_workload(self):
        drawn = {"cdf": "fb_hadoop", "load": "50%", "duration": "100us"}
        incast = {"from": 3, "bytes": "500KB", "load": "2%"}
        self.refused("workload.pool", "pool", workload=drawn | {"connect": "pool"})
        self.refused("workload.pool", "must be given if", workload=drawn | {"pool": 1})
        with unittest.mock.patch.object(scenario, "FLOWS_BEFORE_MAX", 2):
            self.refused("workload.pool = 3: 3 connections", "at most 2 are", workload={
                "list": ["0 0 1 1"] * 4, "connect": "pool", "pool": 3})
        self.refused("workload.incast.from", "too few other hosts", workload=drawn | {"incast": incast | {"from": 4}})
        self.refused("workload.incast.load", "less than 1",
                     workload=drawn | {"incast": incast | {"load": "50%"}})
        self.refused("workload.incast", "incast.bytes", workload=drawn | {"incast": {"from": 1}})
        self.refused("workload.duration", "missing", workload={"incast": incast})
        self.refused("workload.from", "no h4", workload=drawn | {"from": "h4"})
        self.refused("same host", workload=drawn | {"from": "h1", "to": "h1"})
        self.refused("either flows", workload=drawn | {"list": ["0 0 1 1"]})
        self.refused("workload.list", "text 1: ", "four numbers", workload={"list": ["0 0 1 5", "0 0 1"]})
        self.refused("workload.list", "both 1", workload={"list": ["0 1 1 5"]})


class Workload(unittest.TestCase):
    DRAWN = {"cdf": "fb_hadoop", "load": "40%", "duration": "1ms"}

    def test_equal_seeds(self):
        mix = self.DRAWN | {"incast": {"from": 3, "bytes": "50KB", "load": "10%"}}
        one, two, other = (plan_of(made(seed, workload=mix)) for seed in (1, 1, 2))
        self.assertEqual(one, two)
        self.assertNotEqual(one, other)

    def test_incast(self):
        """Each event has this number of different senders, and the bytes of all events add up to the load."""
        mix = {"incast": {"from": 3, "bytes": "50KB", "load": "10%"}, "duration": "50ms"}
        flows = made(workload=mix).flows
        events = {}
        for flow in flows:
            self.assertEqual(flow.bytes, 50000)
            events.setdefault(flow.start_ns, []).append(flow)
        for group in events.values():
            self.assertEqual(len({flow.dst for flow in group}), 1)
            self.assertEqual(len({flow.src for flow in group}), 3)
        load = sum(flow.bytes for flow in flows) * 8 / (4 * 100e9 * 50e-3)
        self.assertAlmostEqual(load, 0.1, delta=0.01)
        self.assertEqual([f.start_ns for f in flows], sorted(f.start_ns for f in flows))

    def test_mix(self):
        """An incast adds flows, and does not change the other flows."""
        incast = {"from": 2, "bytes": 777, "load": "1%"}
        mixed, alone = ([(f.start_ns, f.src, f.dst, f.bytes) for f in made(workload=mix).flows if f.bytes != 777]
                        for mix in (self.DRAWN | {"incast": incast}, self.DRAWN))
        self.assertEqual(mixed, alone)

    def test_groups(self):
        flows = made(workload=self.DRAWN | {"from": "h0..h1", "to": "h1..h3"}).flows
        self.assertEqual({flow.src for flow in flows}, {"h0", "h1"})
        self.assertEqual({flow.dst for flow in flows}, {"h1", "h2", "h3"})
        # Half of the senders send half of the bytes.
        whole, half = (len(list(workload.arrivals(
            workload.Sizes("fb_hadoop"), 0.4, workload.Groups(range(n), range(4), n * 10**11), 10**7, 1)))
            for n in (4, 2))
        self.assertAlmostEqual(half / whole, 0.5, delta=0.05)

    def test_many(self):
        """Tens of thousands of flows are kept in the settings and in the plan, each in one line."""
        rows = [f"{n} {n % 4} {(n + 1) % 4} {n + 1}" for n in range(33000)]
        scene = made(workload={"list": rows, "connect": "start"})
        self.assertEqual(len(scene.flows), 33000)
        self.assertEqual(scene.settings()["workload"]["list"], rows)
        self.assertEqual(plan_of(again(scene)), plan_of(scene))
        self.assertIn("\nseries_flows 0\n", plan_of(scene))
        backwards = plan_of(made(workload={"list": rows[::-1], "connect": "start"}))
        starts = [int(line.split()[5]) for line in backwards.splitlines() if line.startswith("flow")]
        self.assertEqual(starts, list(range(33000)))

    def test_settings(self):
        """A scenario is created again from results.json, also with another seed."""
        data = {"flow": [{"from": "h0", "to": "h1", "bytes": "1MB", "reverse": "2KB", "start": "3us",
                          "spread": "1us", "count": 2}],
                "workload": self.DRAWN | {"connect": "pool", "pool": 2}, "rpc": [RPC | {"think": "1us"}],
                "run": [{"host": "h2", "command": "echo {h3}", "stop": "end"},
                        {"host": "h2", "command": "true", "start": "1us", "stop": "1ms"}],
                "measure": {"ports": ["s0-h1"], "until": "2ms"}}
        scene = made(**data)
        self.assertEqual(plan_of(again(scene, 7)), plan_of(scene))


class Plan(unittest.TestCase):
    def test_reverse(self):
        text = plan_of(made(flow=[{"from": "h0..h1", "to": "h2", "bytes": 5, "reverse": 7}]))
        self.assertEqual(re.findall(r"(?m)^flow .*", text), [
            "flow 0 h0 h2 5 0 hpcc before", "flow 1 h2 h0 7 0 hpcc 0",
            "flow 2 h1 h2 5 0 hpcc before", "flow 3 h2 h1 7 0 hpcc 2"])

    def test_run(self):
        scene = made(run=[{"host": "h0", "command": "echo {h1} {x}", "start": "5ns", "stop": "7ns"},
                          {"host": "h1", "command": "true", "stop": "end"}], measure={"until": "1ms"})
        self.assertEqual(re.findall(r"(?m)^run .*", plan_of(scene)), [
            "run h0 5 7 files/run-0.txt echo 10.0.0.2 {x}", "run h1 0 end files/run-1.txt true"])
        self.assertEqual(scene.pairs(), {("h0", "h1"): ["hpcc"], ("h1", "h0"): ["hpcc"]})

    def test_series(self):
        """The busiest ports are sampled, or the named ports. Flows are not sampled if there are many."""
        flows = [{"from": "h0", "to": f"h{n}", "bytes": n} for n in range(1, 40)]
        shape = {"kind": "star", "hosts": 40}
        scene = scenario.build({"topology": shape, "flow": flows}, "test")
        drawn = re.findall(r"(?m)^port \d+ s0 h(\d+) 1 0$", plan_of(scene))
        self.assertEqual([int(n) for n in drawn], list(range(24, 40)))
        self.assertIn("series_flows 0", plan_of(scene))
        scene = scenario.build({"topology": shape, "flow": flows[:3], "measure": {"ports": ["s0-h7"]}}, "test")
        self.assertEqual(re.findall(r"(?m)^port \d+ s0 (h\d+) 1 0$", plan_of(scene)), ["h7"])
        self.assertIn("series_flows 1", plan_of(scene))


class Guest(unittests.SharedCase):
    """Short runs in User Mode Linux."""

    HEAD = '\n[topology]\nkind = "star"\nhosts = 4\n[link]\nrate = "10Gbit"\ndelay = "2us"\n'

    def run_of(self, name, text, *args):
        """Run a scenario. Return its results.json."""
        path = Path(self.directory, f"{name}.toml")
        path.write_text(text + self.HEAD, encoding="utf-8")
        unittests.ran(self, LAB, "run", path, "--out", f"{self.directory}/{name}", *args)
        return json.loads(Path(self.directory, name, "results.json").read_text(encoding="utf-8"))

    def test_rpc(self):
        got = self.run_of("rpc", """rpc = [
{from = "h0", to = "h1", request = "100B", response = "20KB", count = 20, think = "5us"},
{from = "h2..h3", to = "h1", request = "1B", response = "1B", until = "300us"}]""")
        first, *others = got["rpcs"]
        self.assertEqual((first["calls"], first["done"]), (20, True))
        # Two one-way delays of 4 us, and the time of 20 KB at 10 Gb/s.
        self.assertTrue(8 + 16 < first["latency_us"]["p50"] < 60, first)
        for rpc in others:
            self.assertTrue(rpc["done"])
            self.assertGreater(rpc["latency_us"]["p50"], 8)
            # Closed loop: each call starts after the previous one, until the time is over.
            self.assertAlmostEqual(rpc["calls"] * rpc["latency_us"]["mean"], 300, delta=2 * rpc["latency_us"]["max"])
        self.assertEqual(got["flows"], [])

    def test_reverse(self):
        """Both directions of a connection; every byte is compared."""
        got = self.run_of("reverse", 'flow = [{from = "h0..h1", to = "h2", bytes = "300KB", reverse = "150KB"}]',
                          "--set", "verify=true")
        self.assertEqual([(f["from"], f["bytes"]) for f in got["flows"]],
                         [("h0", 300000), ("h2", 150000), ("h1", 300000), ("h2", 150000)])
        self.assertNotIn(None, [flow["fct_us"] for flow in got["flows"]])

    MIX = """[workload]
cdf = "fb_hadoop"
load = "20%"
duration = "2ms"
incast = {from = 3, bytes = "20KB", load = "5%"}
"""

    def test_connect(self):
        """With handshakes, small flows take one round trip more. A pool has fewer connections than flows."""
        found = {}
        for how in ("before", "start", "pool"):
            more = f'connect = "{how}"\n' + "pool = 1\n" * (how == "pool")
            found[how] = self.run_of(how, self.MIX + more)
            self.assertNotIn(None, [flow["fct_us"] for flow in found[how]["flows"]])
        small = [i for i, flow in enumerate(found["before"]["flows"]) if flow["bytes"] < 1000]
        self.assertGreater(len(small), 10)

        def median(how):
            times = sorted(found[how]["flows"][i]["fct_us"] for i in small)
            return times[len(times) // 2]
        self.assertAlmostEqual(median("start") - median("before"), 8.5, delta=2)
        self.assertAlmostEqual(median("pool"), median("before"), delta=2)
        agreed = {how: got["hosts"]["hpcc"]["agreed"] for how, got in found.items()}
        self.assertEqual(agreed["before"], agreed["start"])
        self.assertLess(agreed["pool"], agreed["before"])

    def failed(self, text, *command, **more):
        """Return the errors of a run that fails, without results."""
        path, out = Path(self.directory, "failed.toml"), Path(self.directory, "failed")
        path.write_text(text + self.HEAD, encoding="utf-8")
        done = unittests.ran(self, *command, "run", path, "--out", out, status=1, **more)
        self.assertFalse((out / "results.json").exists())
        return done.stderr

    def test_no_path(self):
        """Flows whose connections time out are unfinished. An event, in which samples are missing, does not stop the sampling."""
        got = self.run_of("down", """
measure = {until = "1ms", deadline = "150s"}
event = [{at = "1us", link = "s0-h2", down = true}]
workload = {connect = "start", list = ["0 0 1 1000", "5000 1 2 1000", "9000 0 1 2000"]}""")
        self.assertEqual([flow["fct_us"] is None for flow in got["flows"]], [False, True, False])
        series = json.loads((self.directory / "down/series.json").read_text(encoding="utf-8"))
        self.assertGreater(series["t_us"][-1], 149e6)

    @unittest.skipIf(os.geteuid(), "mounts a file system")
    def test_full_disk(self):
        """A program fills the disk before the results are written: the run fails, and no flow counts as unfinished."""
        disk = Path(self.directory, "disk")
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        fill = "dd if=/dev/zero of=/tmp/lab/fill bs=1M count=32 conv=fsync"
        text = f"""[workload]\ncdf = "fb_hadoop"\nload = "20%"\nduration = "2ms"\nconnect = "start"
[[run]]\nhost = "h0"\ncommand = "{fill}"\nmay_fail = true"""
        self.assertRegex(self.failed(text, LAB, env=os.environ | {"TMPDIR": str(disk)}),
                         "hpcc-traffic: result: No space left on device")

    def test_memory(self):
        """A guest that runs out of memory: the error says so."""
        code = ("import sys; from importlib.machinery import SourceFileLoader; "
                f"lab = SourceFileLoader('hpcc_lab', {str(LAB)!r}).load_module(); "
                "lab.runner.memory_mb = lambda _: 40; sys.exit(lab.main(sys.argv[1:]))")
        printed = self.failed('[[flow]]\nfrom = "h0..h2"\nto = "h3"\nbytes = 1000\ncount = 2000', sys.executable, "-c", code)
        self.assertIn("the guest ran out of memory, it has 40 MB", printed)

    def test_iperf3(self):
        """A program uses the scenario's congestion control; its output, its status and a capture are kept."""
        if not shutil.which("iperf3") or not shutil.which("tcpdump"):
            self.skipTest("needs iperf3 and tcpdump")
        got = self.run_of("iperf3", """measure = {until = "20ms", pcap = ["s0-h1"]}
run = [{host = "h1", command = "iperf3 -s", stop = "end"},
{host = "h0", command = "iperf3 -c {h1} -b 8M -t 1", start = "2ms"},
{host = "h0", command = "cat /proc/sys/net/ipv4/tcp_congestion_control; exit 3", may_fail = true}]""",
                          "--cc", "dctcp")
        server, client, other = got["runs"]
        self.assertEqual((client["status"], client["stopped"]), (0, False))
        self.assertTrue(server["stopped"])
        self.assertEqual(other["status"], 3)
        self.assertEqual(round(client["started_us"]), 2000)
        out = Path(self.directory, "iperf3")
        self.assertIn("iperf Done", (out / "run-1.txt").read_text(encoding="utf-8"))
        self.assertEqual((out / "run-2.txt").read_text(encoding="utf-8"), "dctcp\n")
        lines = subprocess.run(["tcpdump", "-ttnr", out / "pcap/s0-h1.pcap", "--nano", "tcp[13] & 2 != 0"],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        # Both SYNs, after 2 ms of virtual time.
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"^\d+\.\d{9} IP 10\.0\.0\.1\.\d+ > 10\.0\.0\.2\.5201")
        self.assertGreater(float(lines[0].split()[0]) - float(got["time_zero"]), 0.002)

    def test_programs_congestion_control(self):
        """Programs use the default congestion control of their namespace. The results contain their counters."""
        got = self.run_of("default", """measure = {until = "1ms"}
run = [{host = "h0", command = "cat /proc/sys/net/ipv4/tcp_congestion_control; sleep 0.005", start = "500us"}]""",
                          "--cc", "hpcc")
        self.assertEqual(round(got["runs"][0]["started_us"]), 500)
        self.assertEqual(Path(self.directory, "default/run-0.txt").read_text(encoding="utf-8"), "hpcc\n")
        self.assertEqual(got["hosts"]["hpcc"]["not_agreed"], 0)
        self.assertEqual(got["hosts"]["backlog_drops"], 0)

    def test_stop(self):
        """A program gets SIGTERM at its stop time, and the run does not wait for the end of "sleep 100"."""
        got = self.run_of("stop", """measure = {until = "3ms"}
run = [{host = "h0", command = "sleep 100", start = "1ms", stop = "2ms"}]""", "--cc", "cubic")
        run, = got["runs"]
        self.assertEqual((run["status"], run["stopped"]), (128 + 15, True))
        self.assertAlmostEqual(run["ended_us"], 2000, delta=50)


class Calls(unittests.Case):
    """Counts the system calls of hpcc-traffic, which determine the cost of a small flow, over the loopback."""

    PROGRAM = TOP / "tools/hpcc-traffic"
    # In real time the number of waits of hpcc-traffic varies.
    WAITS = ("epoll_wait", "timerfd_settime")

    def setUp(self):
        super().setUp()
        if not shutil.which("strace") or subprocess.run(["unshare", "--net", "true"], check=False).returncode:
            self.skipTest("needs strace and root")

    def run_flows(self, program, connect, flows, gap_ns=10**6):
        lines = ["ns a /proc/self/ns/net 127.0.0.1", "interval 1000000000", "deadline 60000000000", "pool 1",
                 *(f"flow {i} a a 30000 {i * gap_ns} cubic {connect}" for i in range(flows))]
        (self.directory / "plan").write_text("\n".join(lines) + "\n", encoding="ascii")
        return unittests.run("unshare", "--net", "sh", "-ec", f"ip link set lo up; exec {program} run plan out",
                             cwd=self.directory)

    def counted(self, connect, flows):
        done = self.run_flows(f"strace -c -o calls {self.PROGRAM}", connect, flows)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = (self.directory / "calls").read_text(encoding="ascii")
        rows = [line.split() for line in text.splitlines()]
        return {row[-1]: int(row[3]) for row in rows if len(row) > 4 and row[3].isdigit()
                and row[-1] not in ("total", *self.WAITS)}

    def test_numbers(self):
        """Source ports are used again when their connections are closed. Too many connections at once are an error."""
        program = self.directory / "few"
        subprocess.run(["cc", "-DSPORTS=10", "-DROUNDS=8", "-o", program, *(TOP / "tools/traffic").glob("*.c")], check=True)
        for connect in "start", "pool":
            done = self.run_flows(program, connect, 200, 2 * 10**6)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = re.findall(r"(?m)^flow (\d+) (\d+) 30000 0 0 0$", (self.directory / "out").read_text(encoding="ascii"))
            self.assertEqual({int(row[0]) for row in rows}, set(range(200)))
            self.assertTrue(all(int(done_ns) > int(flow) * 2 * 10**6 for flow, done_ns in rows))
        self.assertIn("a has 80 connections at once, more are not possible", self.run_flows(program, "before", 81).stderr)

    def test_per_flow(self):
        """Check the number of system calls per flow, from the difference of 60 and 10 flows."""
        subprocess.run(["make", "-s", "-C", TOP / "tools", "hpcc-traffic"], check=True)
        # System calls of a flow: socket, setsockopt (congestion control), setsockopt (time-out), bind, connect,
        # accept, epoll_ctl for both ends, setsockopt (SO_RCVLOWAT), send, recv, close, getsockopt (TCP_INFO), close.
        for connect in "before", "start":
            few, many = (sum(self.counted(connect, flows).values()) for flows in (10, 60))
            self.assertTrue(8 < (many - few) / 50 <= 14.5, (connect, few, many))


if __name__ == "__main__":
    unittests.main()
