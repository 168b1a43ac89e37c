#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpcc-lab with untrusted scenarios and results: the parts of this host that their programs and files can reach."""

import errno
import json
import lzma
import os
import pty
import socket
import subprocess
from pathlib import Path

from lab.model import files, scenario
from lab.run import foreign, runner
from lib import unittests
from lib.unittests import LAB, TOP

SCENARIO = """topology = {kind = "star", hosts = 2}
measure = {until = "1ms"}
[[run]]
host = "h0"
command = '''sh -c "%s"'''
may_fail = true
"""


class Case(unittests.Case):
    def setUp(self):
        super().setUp()
        self.out = self.directory / "out"

    def lab(self, *args, status=0, env=()):
        return unittests.ran(self, LAB, *args, "--out", self.out, status=status, env=os.environ | dict(env))

    def secret(self, name="secret"):
        """Return a file that no program may read or copy."""
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("my password", encoding="utf-8")
        return path

    def write(self, command):
        path = self.directory / "stranger.toml"
        path.write_text(SCENARIO % command, encoding="utf-8")
        return path

    def run_command(self, command, **more):
        """Return the output of the program."""
        self.lab("run", self.write(command), **more)
        return (self.out / "run-0.txt").read_text(encoding="utf-8")


class Guest(Case):
    """Root in a guest mounts the host's file system, and finds no files there."""

    # Use mount(2): with fsconfig(), hostfs of Linux 6.12 reads the directory from another option.
    HOST = "mkdir /tmp/host && LIBMOUNT_FORCE_MOUNT2=always mount -t hostfs none /tmp/host -o / && cd /tmp/host && "

    def test_reads_nothing(self):
        secret = self.secret()
        printed = self.run_command(self.HOST + f"ls . && cat .{secret} etc/passwd root/.profile")
        self.assertIn("usr", printed)
        self.assertNotIn("password", printed.replace("etc/passwd", ""))
        for name in "home", "etc", "root", "tmp", "var":
            self.assertNotIn(name, printed.split("cat:")[0].split())

    def test_writes_nothing(self):
        """The guest tries to write only to files of this test. So a failure damages no other file."""
        mine = self.directory / "mine"
        mine.write_text("mine", encoding="utf-8")
        before = mine.stat()[:7], mine.stat().st_mtime_ns
        printed = self.run_command(self.HOST + f"cd .{self.directory}; echo evil > .{mine}; echo evil > {mine}; "
                                f"cd /tmp/host; echo evil > .{mine}; chmod 777 .{mine}; rm -f .{mine}; "
                                f"echo evil > .{mine}2; mkdir .{mine}3; mknod .{mine}4 b 8 0; echo done")
        self.assertIn("done", printed)
        self.assertEqual(mine.read_text(encoding="utf-8"), "mine")
        self.assertEqual((mine.stat()[:7], mine.stat().st_mtime_ns), before)
        self.assertEqual({path.name for path in self.directory.iterdir()}, {"mine", "out", "stranger.toml"})

    def test_opens_nothing_to_write(self):
        """The program only opens files of the system, which changes nothing."""
        printed = self.run_command(self.HOST + "; ".join(
            f"test -e {path} && ((true >> {path}) && echo opens || echo refused)"
            for path in ("usr/bin/env", "proc/sys/kernel/print-fatal-signals")))
        self.assertEqual((printed.count("refused"), printed.count("opens")), (2, 0), printed)

    def test_reaches_no_network(self):
        """A program in place of the guest's kernel reaches this host only with HPCC_CONFINE=off."""
        kernel = self.directory / "linux"
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
            name = f"walls-{os.getpid()}"
            unix.bind("\0" + name)
            unix.listen()
            kernel.write_text("#!/usr/bin/python3 -I\nimport os, socket\n"
                              f"for family, where in ((2, ('127.0.0.1', {tcp.getsockname()[1]})), (1, '\\0{name}')):\n"
                              "    print('status', socket.socket(family).connect_ex(where))\n"
                              "print('devices', [name for _, name in socket.if_nameindex()])\n", encoding="ascii")
            kernel.chmod(0o755)

            def tried(**env):
                printed = unittests.run(TOP / "scripts/uml/run.sh", "--tree", self.directory, "--bare",
                                        "--confine", "--", "true", env=os.environ | env).stdout
                return [line for line in printed.splitlines() if line.startswith(("status", "devices"))]

            self.assertEqual(tried(HPCC_CONFINE="off")[:2], ["status 0"] * 2)
            self.assertEqual(tried(), [f"status {errno.ECONNREFUSED}"] * 2 + ["devices ['lo']"])

    def test_sees_no_devices_and_no_processes(self):
        """The program sees only the processes of its namespace, and no socket or device of this host."""
        printed = self.run_command(self.HOST + "ls proc; ls -d dev run var/run tmp")
        self.assertLess(len([line for line in printed.splitlines() if line.isdigit()]), 20)
        self.assertEqual(printed.count("No such file or directory"), 4)

    def test_without_programs(self):
        """Scenarios without programs run confined, too, if the system allows it."""
        made = scenario.build({"flow": [{"from": "h0", "to": "h1", "bytes": "1KB"}]}, "x")
        self.assertIn("--confine-if-possible", runner.Uml.isolated(made, 1))
        made.parts = [foreign.Part("mine", "tcp_mine", digest="1")]
        self.assertIn("--confine", runner.Uml.isolated(made, 1))

    def no_namespaces(self):
        """Return a bwrap that behaves as in a container without user namespaces."""
        program = self.directory / "bwrap"
        program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n",
                           encoding="ascii")
        program.chmod(0o755)
        return {"PATH": f"{self.directory}:{os.environ['PATH']}"}

    def test_refusal(self):
        """Without namespaces a program does not run, unless the user allows this."""
        env = self.no_namespaces()
        done = self.lab("run", self.write("echo ran"), env=env, status=1)
        self.assertIn("No permissions to create new namespace", done.stderr)
        self.assertIn("HPCC_CONFINE=off", done.stderr)
        self.assertFalse((self.out / "run-0.txt").exists())
        self.assertEqual(self.run_command("echo ran", env=env | {"HPCC_CONFINE": "off"}), "ran\n")

    def test_kbuild(self):
        """A Kbuild runs on this host, and writes only to the copy of its directory."""
        mine = self.directory / "mine"
        mine.mkdir()
        (mine / "tcp_mine.c").write_bytes((TOP / "scripts/examples/tcp_example.c").read_bytes())
        (mine / "Kbuild").write_text(f"obj-m := tcp_mine.o\n$(shell touch {self.directory}/touched; "
                                     "ln -s / $(src)/link.ko)\n", encoding="ascii")
        tree = unittests.ran(self, TOP / "scripts/uml/build.sh", "--lab").stdout.strip()

        def made(status=0, **env):
            return unittests.ran(self, TOP / "scripts/uml/modules.sh", tree, mine, status=status,
                                 env=os.environ | {"HPCC_CACHE": str(self.directory / "cache")} | env).stdout
        self.assertIn("HPCC_CONFINE=off", made(1, **self.no_namespaces()))
        found = {path.name for path in Path(made().strip()).glob("*.ko")}
        self.assertEqual(found, {"tcp_mine.ko"})
        self.assertFalse((self.directory / "touched").exists())

    def test_links_of_a_guest(self):
        """Only regular files are copied out of the guest."""
        self.run_command(f"cd files; ln -s {self.secret()} link; ln -s {self.directory} directory; mkfifo pipe; "
                         "mkdir kept; echo kept > kept/file; truncate -s 1T kept/hole")
        self.assertEqual(sorted(str(path.relative_to(self.out)) for path in self.out.rglob("*")
                                if path.suffix not in (".json", ".csv", ".html")),
                         ["kept", "kept/file", "kept/hole", "run-0.txt"])
        self.assertLess((self.out / "kept/hole").stat().st_blocks, 100)

    def test_link_replaces_the_directory(self):
        """The directory "files" itself is a link: no file of its target is copied out of the guest."""
        others = self.secret("others/secret").parent
        done = self.lab("run", self.write(f"rm -r files; ln -s {others} files"), status=1)
        self.assertIn("/files: ", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertFalse((self.out / "secret").exists())

    def test_deep_directories(self):
        """If directories are nested deeper than Python can follow, there is one error message."""
        deep = "d/" * 400
        done = self.lab("run", self.write(f"cd files; for i in 1 2 3; do mkdir -p {deep}; cd {deep}; done"), status=1,
                        env={"TMPDIR": str(self.directory)})
        self.assertIn("too deep", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual({path.name for path in self.directory.iterdir()}, {"out", "stranger.toml"})

    def test_report_of_a_guest(self):
        """A program's file with the name of our results does not replace our results."""
        for made in "echo evil >", "mkdir":
            self.run_command("; ".join(f"{made} files/{name}" for name in ("report.html", "results.json")))
            self.assertIn("<!DOCTYPE html>", (self.out / "report.html").read_text(encoding="utf-8"))
            self.assertEqual(json.loads((self.out / "results.json").read_text(encoding="utf-8"))["scenario"], "stranger")

    def test_results_of_a_guest(self):
        """If the results are replaced by a link, a pipe, a directory or invalid JSON, there is one error message."""
        secret = self.secret()
        kinds = [(f"{what} {name}", f"/{name}: ") for name in ("result", "kernel")
                 for what in (f"ln -s {secret}", "mkfifo", "mkdir")]
        for what, error in kinds + [("echo { > result", "no results")]:
            # The guest's shell reads the appended line after hpcc-traffic, which has written the results before.
            done = self.lab("run", self.write(f"echo 'rm -f {what.split()[-1]}; {what}' >> main.sh"), status=1)
            self.assertIn(error, done.stderr, what)
            self.assertNotIn("password", done.stdout + done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_status_of_a_guest(self):
        """The exit status is a number, also if a program replaces the file of the status."""
        done = self.lab("run", self.write(f"ln -sf {self.secret()} /mnt/status"), status=1)
        self.assertNotIn("password", done.stdout + done.stderr)


class Results(Case):
    """Untrusted results.json and out/."""

    def made(self, **changes):
        self.lab("run", self.write("true"))
        data = json.loads((self.out / "results.json").read_text(encoding="utf-8")) | changes
        path = self.directory / "results.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        return path

    def test_kernel_of_the_file(self):
        """A file cannot cause its commands to run on the host."""
        path = self.made(kernel=f"host {os.uname().release}")
        data = json.loads(path.read_text(encoding="utf-8"))
        data["settings"]["run"][0]["command"] = f"touch {self.directory}/evil"
        path.write_text(json.dumps(data), encoding="utf-8")
        done = self.lab("rerun", str(path), status=2)
        self.assertIn("--kernel host", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertFalse((self.directory / "evil").exists())

    def test_escapes(self):
        """Neither keys of a file nor a guest's output reaches the terminal unfiltered."""
        path = self.made(**{"\x1b]0;evil\x07\x9b2J": 1})
        done = self.lab("rerun", str(path), status=1)
        self.assertIn("differs in", done.stdout)
        self.assertFalse(set("\x1b\x07\x9b") & set(done.stdout + done.stderr))
        self.assertEqual(str(runner.RunError("a\x1b[2J\x9b\nb\tc")), "a\\x1b[2J\\x9b\nb\tc")
        self.assertFalse(set("\x1b\x9b") & set(str(scenario.ScenarioError("a\x1b[2J\x9b"))))

    def test_links_in_out(self):
        """A link in the output directory is replaced, and its target stays unchanged."""
        self.out.mkdir()
        mine = self.directory / "mine"
        mine.write_text("mine", encoding="utf-8")
        (self.directory / "others").mkdir()
        for name in "run-0.txt", "results.json", "report.html":
            (self.out / name).symlink_to(mine)
        (self.out / "kept").symlink_to(self.directory / "others")
        self.run_command("echo said; mkdir files/kept; echo x > files/kept/file")
        self.assertEqual(mine.read_text(encoding="utf-8"), "mine")
        self.assertEqual(list((self.directory / "others").iterdir()), [])
        self.assertEqual((self.out / "kept/file").read_text(encoding="utf-8"), "x\n")


class Bounds(Case):
    """Files that never end."""

    def refused(self, name, printed, key="cdf"):
        values = {"cdf": {"cdf": name, "load": 0.5, "duration": "1ms"}, "flows": {"flows": name}}[key]
        with self.assertRaisesRegex(scenario.ScenarioError, printed):
            scenario.build({"workload": values}, "x", directory=str(self.directory))

    def test_devices(self):
        for name in "/dev/zero", "/dev/full", str(self.directory):
            self.refused(name, "is not a regular file")
        os.mkfifo(self.directory / "pipe")
        self.refused("pipe", "is not a regular file")
        ends = pty.openpty()
        self.refused(os.ttyname(ends[1]), "is not a regular file")
        for end in ends:
            os.close(end)

    def test_bomb(self):
        with lzma.open(self.directory / "bomb.xz", "wb", preset=0) as file:
            for _ in range(64):
                file.write(bytes(1 << 20))
        for key in "cdf", "flows":
            self.refused("bomb.xz", "has a line of more than 65536 bytes", key)

    def test_large(self):
        (self.directory / "large.csv").write_text("bytes,cdf_percent\n" + "1,1\n" * (4 << 20), encoding="ascii")
        self.refused("large.csv", "is larger than 16 MiB")

    def test_output_of_a_guest(self):
        """The end of a run's output is kept, and no line is longer than some KB."""
        with subprocess.Popen(["sh", "-c", "yes | head -n 100000; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end"],
                              stdout=subprocess.PIPE, text=True) as process:
            kept = runner._watch(process, "x", None)    # pylint: disable=protected-access
        self.assertEqual(kept[-1], "end")
        self.assertLess(sum(map(len, kept)), 1000000)

    def test_read_text(self):
        path = self.directory / "file"
        path.write_text("text", encoding="utf-8")
        (self.directory / "link").symlink_to(path)
        self.assertEqual(files.read_text(path), "text")
        self.assertEqual(files.read_text(self.directory / "link", follow=True), "text")
        with self.assertRaises(OSError):
            files.read_text(self.directory / "link")


if __name__ == "__main__":
    unittests.main()
