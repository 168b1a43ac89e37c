#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""hpcc-paper on a cluster: Debian's Slurm, not installed, with a controller and two nodes on this machine. And a full disk."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from test_paper import GRID, PAPER, SNAKEMAKE, files  # noqa: E402
from lib import unittests  # noqa: E402
from lib.unittests import TOP  # noqa: E402

SMALL = GRID[:GRID.index("workloads =")].replace("500ns", "200us")
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
# The profile in testbed.rst, for the partition of this cluster.
PROFILE = re.search(r"(?<=Debian 12\)::\n\n)(    .*\n)+", (TOP / "Documentation/testbed.rst").read_text(encoding="utf-8"))[0] \
    .replace("    ", "")
CONFIG = """ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={at}/munge.socket,cred_expire=5
PluginDir={plugins}
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/%n
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/%n.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdTimeout=5
MpiDefault=none
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=localhost Port={ports[1]} RealMemory=1500
NodeName=n2 NodeHostname=localhost Port={ports[2]} RealMemory=1500
PartitionName=short Default=YES Nodes=ALL MaxTime=60
"""


def free_ports(number):
    """Ports that nobody uses."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait(test, what, good, seconds=120):
    """Return the first true value of good()."""
    end = time.monotonic() + seconds
    while not (value := good()):
        test.assertLess(time.monotonic(), end, what)
        time.sleep(0.1)
    return value


def report(out):
    """results.rst, without the only line with times."""
    return re.sub(r"all runs together took .*", "", (out / "results.rst").read_text(encoding="utf-8"))


setUpModule = unittests.allow_interrupts


@unittest.skipUnless(os.path.exists(SNAKEMAKE), "needs snakemake; scripts/install-deps paper installs it")
class Slurm(unittests.SharedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        done = unittests.run(TOP / "scripts/uml/programs.sh", *PACKAGES)
        if done.returncode:
            raise unittest.SkipTest(f"needs the packages of Slurm: {done.stdout + done.stderr}".strip().splitlines()[-1])
        top, at = done.stdout.strip(), cls.directory
        libraries = f"{top}/usr/lib/x86_64-linux-gnu"
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        cls.env = os.environ | {
            "PATH": f"{top}/usr/bin:{top}/usr/sbin:/usr/sbin:{os.environ['PATH']}", "USER": user, "SLURM_CONF": f"{at}/slurm.conf",
            "LD_LIBRARY_PATH": f"{libraries}:{libraries}/slurm-wlm", "XDG_CONFIG_HOME": str(at / "config")}
        (at / "slurm.conf").write_text(CONFIG.format(at=at, user=user, ports=free_ports(3), plugins=f"{libraries}/slurm-wlm"),
                                       encoding="ascii")
        profile = at / "config/snakemake/slurm"
        profile.mkdir(parents=True)
        (profile / "config.yaml").write_text(PROFILE.replace("slurm_account=mine, ", "").replace("=120", "=30"), encoding="ascii")
        (at / "state").mkdir()
        key = os.open(at / "key", os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(key, os.urandom(128))
        os.close(key)
        cls.daemon("munged", "--foreground", "--force", f"--socket={at}/munge.socket", f"--key-file={at}/key",
                   f"--pid-file={at}/munged.pid", f"--log-file={at}/munged.log", f"--seed-file={at}/seed")
        cls.daemon("slurmctld-wlm", "-D")
        cls.nodes = {name: cls.daemon("slurmd-wlm", "-D", "-N", name, "-d", f"{top}/usr/sbin/slurmstepd-wlm")
                     for name in ("n1", "n2")}

    @classmethod
    def daemon(cls, *argv):
        """Start a daemon in its own PID namespace: if it is killed, all processes that it started die."""
        more = ["--cap-add", "ALL"] if os.geteuid() == 0 else []
        with open(cls.directory / "daemons", "a", encoding="ascii") as log:
            process = subprocess.Popen(["bwrap", "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent",
                                        *more, "--", *argv], env=cls.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)
        return process

    def slurm(self, *argv):
        return unittests.ran(self, *argv, env=self.env).stdout

    def start(self, directory, *more):
        with open(directory / "output", "a", encoding="utf-8") as output:
            return subprocess.Popen([PAPER, "tiny.toml", "--out", "o", *more], cwd=directory, env=self.env,
                                    stdout=output, stderr=output, start_new_session=True)

    def runs_on(self, node):
        """Whether a run is active on a node."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if b"hpcc-lab" in (path / "cmdline").read_bytes() and \
                        f"SLURMD_NODENAME={node}".encode() in (path / "environ").read_bytes():
                    return True
            except OSError:
                pass
        return False

    def test_node_dies(self):
        """hpcc-paper is killed, and resumed while its jobs still are in Slurm's queue; then a node dies. The results are
        those of runs on this machine.
        """
        wait(self, "nodes", lambda: self.slurm("sinfo", "-h", "-o", "%T %D") == "idle 2\n")
        with files(SMALL) as directory, files(SMALL) as alone:
            first = self.start(directory, "--profile", "slurm")
            results = directory / "o/runs"
            wait(self, "first run", lambda: list(results.glob("*/*/*/*/results.json")))
            first.kill()
            first.wait()
            self.assertIn(" PD\n", self.slurm("squeue", "-h", "-o", " %t"))
            again = self.start(directory, "--profile", "slurm")
            wait(self, "second session", lambda: (directory / "output").read_text(encoding="utf-8").count("SLURM jobid") > 8)
            wait(self, "run on n2", lambda: self.runs_on("n2"))
            self.nodes["n2"].kill()
            self.assertEqual(again.wait(), 0, (directory / "output").read_text(encoding="utf-8"))
            logs = "".join(path.read_text(encoding="utf-8") for path in directory.glob("o/.snakemake/slurm_logs/*/*.log"))
            self.assertIn("an earlier hpcc-paper, which has ended, submitted this job", logs)
            self.assertRegex((self.directory / "slurmctld.log").read_text(encoding="utf-8"), "requeue job .* due to failure of node")
            self.assertEqual(self.start(alone, "--jobs", "2").wait(), 0)
            self.assertEqual(report(directory / "o"), report(alone / "o"))

    def test_stopped(self):
        """A run on a node without the guest names it. After Ctrl-C, jobs that are still in the queue end before they run."""
        with files(SMALL) as directory:
            first = self.start(directory, "--profile", "slurm")
            wait(self, "jobs", lambda: self.slurm("squeue", "-h"))
            with open(directory / "o/guest", "a", encoding="ascii") as guest:
                guest.write("/gone\n")
            wait(self, "log", lambda: any("has no /gone: all nodes must see the same HPCC_CACHE" in path.read_text(encoding="utf-8")
                                          for path in directory.glob("o/runs/*/*/*/*/log")))
            os.killpg(first.pid, signal.SIGINT)
            self.assertEqual(first.wait(), 130)
            wait(self, "jobs cancelled", lambda: not self.slurm("squeue", "-h"))


@unittest.skipUnless(os.path.exists(SNAKEMAKE), "needs snakemake; scripts/install-deps paper installs it")
class Disk(unittest.TestCase):
    def test_full(self):
        """A run whose results do not fit the disk has failed, is named, and is repeated once there is space. If the other
        run has filled the disk, there may be no space for the error.
        """
        with files(SMALL[:SMALL.rindex("[[variant]]")].replace("seeds = 2", "seeds = 1")) as directory:
            (directory / "o").mkdir()
            done = unittests.ran(
                self, "bwrap", "--dev-bind", "/", "/", "--size", "2000000", "--tmpfs", directory / "o", "--", "sh", "-c",
                f"head -c 1500000 /dev/zero > o/full; {PAPER} tiny.toml --out o; echo status $?; cat o/results.rst; rm o/full\n"
                f"{PAPER} tiny.toml --out o; echo status $?; cat o/results.rst", cwd=directory)
        self.assertEqual(re.findall("status .*", done.stdout), ["status 1", "status 0"], done.stdout + done.stderr)
        why = "hpcc-lab: --out .*: No space left on device"
        failed = re.findall(f"failed: (own|rare) 30%, hpcc, seed 1: ({why}|no output) ", done.stderr)
        self.assertEqual(re.findall(r"2, of which (\d) failed", done.stdout), [str(len(failed)), "0"], done.stdout + done.stderr)
        for name, text in failed:
            self.assertIn(" ".join([name, "30%", "hpcc", "1", f"``{text}``"]), " ".join(done.stdout.split()))
        self.assertRegex(str(failed), why)


if __name__ == "__main__":
    unittests.main()
