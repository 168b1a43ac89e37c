# SPDX-License-Identifier: GPL-2.0
"""hpccmon, built with sanitizers, in a namespace."""

import json
import subprocess
import tempfile
from functools import lru_cache

from .kernel import TOP
from .ktap import expect, need_commands, skip_all

TOOLS = f"{TOP}/tools"


@lru_cache
def program():
    """hpccmon with as many sanitizers as run here: User Mode Linux has no room for ASan's shadow."""
    need_commands("cc", "make")
    for sanitize in "address,undefined", "undefined":
        folder = tempfile.mkdtemp()
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


def start(ns, *words, **how):
    """Start it. Return the process."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | how
    with ns:
        return subprocess.Popen([program(), *words], text=True, **how)


def end(process, what, status=0):
    """Wait for its end. Return what it printed, or what it said where it is to fail."""
    said, wrong = process.communicate(timeout=60)
    if "Sanitizer" in wrong or "runtime error" in wrong:
        raise AssertionError(wrong)
    expect(f"{what}: {wrong.strip()}", process.returncode, status)
    return wrong if status else said


def run(ns, *words, status=0, **how):
    """Run it to its end."""
    return end(start(ns, *words, **how), f"hpccmon {' '.join(words)}", status)


def listen(ns, *words):
    """Start "hpccmon events", and wait until it listens."""
    process = start(ns, "events", *words)
    expect("said", process.stderr.readline(), "listening; Ctrl-C ends\n")
    return process


def run_json(ns, *words):
    """The same, with what it says as an object."""
    return json.loads(run(ns, *words, "--json"))
