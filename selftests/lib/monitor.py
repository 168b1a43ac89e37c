# SPDX-License-Identifier: GPL-2.0
"""hpccmon, built with sanitizers, in a namespace."""

import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from functools import lru_cache

from .kernel import TOP
from .ktap import defer, expect, need_commands, skip_all

TOOLS = f"{TOP}/tools"


@lru_cache
def program():
    """Build hpccmon with all sanitizers that work here. Return its path. User Mode Linux has no space for ASan's shadow,
    except in large guests, and only for small tables.
    """
    need_commands("cc", "make")
    with open("/proc/cpuinfo", encoding="ascii") as file:
        user_mode = "User Mode Linux" in file.read()
    for sanitize in ("address,undefined", "undefined")[user_mode:]:
        folder = tempfile.mkdtemp()
        os.chmod(folder, 0o755)     # so that other users can run it
        built = subprocess.run(["make", "-s", "-C", TOOLS, "hpccmon", f"MON_DIR={folder}",
                                f"SANITIZE={sanitize}", "CFLAGS=-std=gnu11 -O1 -g -fno-sanitize-recover=all"],
                               check=False, capture_output=True, text=True)
        if built.returncode:
            skip_all(f"cannot build hpccmon: {built.stderr.strip().splitlines()[-1:]}")
        ran = subprocess.run([f"{folder}/hpccmon", "--help"], check=False, capture_output=True)
        if not ran.returncode:
            print(f"# hpccmon with {sanitize}")
            return f"{folder}/hpccmon"
    raise AssertionError(f"hpccmon does not start: {ran.stderr}")


# The columns of a recording.
HEAD = "time local peer cookie mode W Wc W_init U eta R_bps T_ns incStage u qlen_ns".split()


def recorded(name):
    """Return the lines of a recording. Fail unless all lines are complete."""
    with open(name, encoding="ascii") as file:
        text = file.read()
    expect("end", text[-1:], "\n")
    head, *lines = [line.split(",") for line in text.splitlines()]
    expect("head", head, HEAD)
    expect("columns", {len(line) for line in lines} - {len(HEAD)}, set())
    return [dict(zip(HEAD, line)) for line in lines]


def start(ns, *words, **how):
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | how
    with ns:
        return subprocess.Popen([program(), *words], text=True, **how)


def end(process, what, status=0):
    """Wait until hpccmon ends. Return its output, or its error message if it is expected to fail."""
    output, wrong = process.communicate(timeout=60)
    if "Sanitizer" in wrong or "runtime error" in wrong:
        raise AssertionError(wrong)
    expect(f"{what}: {wrong.strip()}", process.returncode, status)
    return wrong if status else output


def run(ns, *words, status=0, **how):
    """Run hpccmon. Leaks are not reported if hpccmon is expected to fail."""
    how["env"] = how.get("env", os.environ) | {"ASAN_OPTIONS": f"detect_leaks={int(not status)}"}
    return end(start(ns, *words, **how), f"hpccmon {' '.join(words)}", status)


def listen(ns, *words):
    """Start "hpccmon events", and wait until it listens."""
    process = start(ns, "events", *words)
    expect("output", process.stderr.readline(), "listening; Ctrl-C ends\n")
    return process


def run_json(ns, *words):
    return json.loads(run(ns, *words, "--json"))


class Screen:
    """hpccmon in a terminal of tmux."""

    def __init__(self, ns, width, height, *words):
        need_commands("tmux")
        self.need_terminals()
        self.size = width, height
        self.command = ["tmux", "-f", "/dev/null", "-S", tempfile.mkdtemp() + "/tmux"]
        shell = shlex.join([program(), *words]) + "; echo status $?; sleep 1000"
        with ns:
            self.tmux("new-session", "-d", "-x", width, "-y", height, shell, ";", "set", "-g", "status", "off")
        defer(self.tmux, "kill-server")

    @staticmethod
    def need_terminals():
        """Mount the pseudo-terminals, which a guest does not have at first."""
        if not os.path.exists("/dev/pts/ptmx"):
            os.makedirs("/dev/pts", exist_ok=True)
            subprocess.run(["mount", "-t", "devpts", "-o", "ptmxmode=666", "devpts", "/dev/pts"], check=True)

    def tmux(self, *words):
        done = subprocess.run([*self.command, *map(str, words)], check=False, capture_output=True,
                              text=True, env=os.environ | {"TERM": "screen", "LC_ALL": "C.UTF-8"})
        if done.returncode:
            raise AssertionError(f"tmux {words}: {done.stderr.strip()}")
        return done.stdout

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, width, height):
        self.size = width, height
        self.tmux("resize-window", "-x", width, "-y", height)

    def lines(self):
        """Return the lines of the screen, without spaces at their ends."""
        return [line.rstrip() for line in self.tmux("capture-pane", "-p").split("\n")[:self.size[1]]]

    def until(self, shows):
        """Wait until shows(lines) is true. Return the lines."""
        for _ in range(100):
            lines = self.lines()
            if shows(lines):
                return lines
            time.sleep(0.1)
        raise AssertionError("the screen shows:\n" + "\n".join(lines))

    def pane(self, what):
        return self.tmux("display", "-p", f"#{{pane_{what}}}").strip()

    def ended(self):
        """Wait until hpccmon ends. Return its exit status."""
        lines = self.until(lambda lines: any(line.startswith("status ") for line in lines))
        return next(int(line.split()[1]) for line in lines if line.startswith("status "))


# ---- Output, and the end of hpccmon ----

def show(text):
    """Print a text, or lines, as comments of KTAP."""
    print("".join(f"# {line}\n" for line in (text.splitlines() if isinstance(text, str) else text)), end="")


def interrupt(process, number=signal.SIGINT):
    """Send a signal to hpccmon. Return its output and its messages when it has ended."""
    process.send_signal(number)
    return process.communicate(timeout=60)
