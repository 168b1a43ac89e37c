#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpccmon record writes a file; hpccmon plot draws the content of this file."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

from lib.genl import cookie
from lib.kernel import virtual_time
from lib.ktap import Skip, defer, expect, expect_in, main
from lib.monitor import HEAD, interrupt, recorded, run, show, start
from lib.net import Netns, crowd
from lib.peer import Flow, Link, rounds
from lib.path import slow_hop
from lib.tcp import pattern, transfer

NOTHING = 1


def record_slow_hop(folder):
    """Record a transfer over a path with a slow hop. Return the name of the file, and the messages of hpccmon."""
    path, ends = slow_hop()
    name = f"{folder}/a.csv"
    recorder = start(path.a, "record", "-o", name, "--delay=0.002")
    transfer((*ends, pattern(4000000)))
    output, wrong = interrupt(recorder)
    expect("status", (recorder.returncode, output), (0, ""))
    return name, wrong


def test_record():
    """hpccmon record writes a whole line for each sample of a flow, until it is interrupted or its time is up."""
    name, output = record_slow_hop(tempfile.mkdtemp())
    lines = recorded(name)
    show([*output.splitlines(), *(",".join(line.values()) for line in lines[:5])])
    looks = int(re.search(r"(\d+) lines of \1 scans", output)[1])
    acks = re.search(r"(\d+) lines of ACKs; 0 ACKs lost, 0 of other flows", output)
    expect("lines", len(lines), looks + (int(acks[1]) if acks else 0))
    expect("message", re.findall("^without ACKs: .*", output, re.M), [] if acks else
           ["without ACKs: the kernel does not support BPF programs at tracepoints"])
    expect_in("looks", looks, 50 if virtual_time() else 5, 100 if virtual_time() else 1e9)
    if acks:
        # At most 8 segments per round trip carry requests, and a round trip is long on a slow machine.
        expect_in("ACKs", int(acks[1]), 10, 4000)
    times = [float(line["time"]) for line in lines if line["u"]]
    expect("times", times, sorted(times))
    most = [max((float(u), hop) for hop, u in enumerate(line["u"].split(), 1) if u != "-")[1]
            for line in lines if line["u"].strip("- ")]
    least = len(most) * 0.9 if virtual_time() else 1
    expect_in("lines in which hop 2 has the largest u'", most.count(2), least, len(most))
    expect("hops", {len(line["qlen_ns"].split()) for line in lines[5:] if line["u"]}, {3})

    pair, _, ends = crowd(1, 6)
    began = time.monotonic()
    output = run(pair.c, *"record --json --output=- --time=0.55 --no-acks".split())
    objects = [json.loads(line) for line in output.splitlines()]
    expect_in("seconds", time.monotonic() - began, 0.55, 0.65 if virtual_time() else 60)
    expect_in("looks", len(objects), 5 if virtual_time() else 1, 6)
    expect("flow", {one["cookie"] for one in objects}, {cookie(ends[0][0])})
    expect("missing directory", run(pair.c, "record", "-n", "-o", "/none/x", status=NOTHING),
           "hpccmon record: /none/x: No such file or directory\n")
    run(pair.c, "record", "-o", name, "-t", "0.3", ":1")
    expect("lines if no flow is selected", recorded(name), [])


def record_acks(flow, *words):
    """Start a recording of ACKs. Return the process, and the name of the file."""
    name = tempfile.mkdtemp() + "/a"
    recorder = start(flow.ns, "record", "-o", name, *words)
    time.sleep(3)
    return recorder, name


def end_of_acks(recorder):
    """End a recording of ACKs after a second. Return the messages of hpccmon."""
    time.sleep(1)
    _, output = interrupt(recorder)
    if "without ACKs" in output:
        raise Skip("needs BPF programs at tracepoints")
    print("#", output.splitlines()[-1])
    return output


def test_lost_acks():
    """Each ACK is either recorded or counted as lost, if the buffer has no room."""
    flow, link = Flow(), Link()
    recorder, name = record_acks(flow, "--buffer=4", "--delay=0.5")
    before = flow.ns.counters()["echo_received"]
    rounds(100, flow, link, 0.5)
    recorder.send_signal(signal.SIGSTOP)
    rounds(200, flow, link, 0.5)
    recorder.send_signal(signal.SIGCONT)
    acks = flow.ns.counters()["echo_received"] - before
    output = end_of_acks(recorder)
    shown, lost, others = map(int, re.search(r"(\d+) lines of ACKs; (\d+) ACKs lost, (\d+) of", output).groups())
    expect("ACKs recorded or lost, of other flows", (shown + lost, others), (acks, 0))
    expect_in("lost", lost, 150, 200)
    expect("recorded", len(recorded(name)), shown + int(re.search(r"(\d+) lines of \d+ scans", output)[1]))


def test_acks_of_others():
    """ACKs of other flows are counted, but only selected flows have lines, at the configured interval."""
    flow, other, link = Flow(), Flow(), Link()
    recorder, _ = record_acks(flow, "--delay=60")
    for _ in range(100):
        other.round(link.step(9000, 0.5))
        time.sleep(0.02)
    output = end_of_acks(recorder)
    expect("looks", re.findall(r"(\d+) lines of (\d+) scans", output), [("1", "1")])
    expect_in("ACKs of others", int(re.search(r"(\d+) of other flows", output)[1]), 90, 200)


def test_rate_of_acks():
    """R in the line of an ACK is W/T, as in the line of a sample, although without pacing the socket has no rate."""
    flow = Flow(pace=0)
    recorder, name = record_acks(flow, "--delay=1")
    rounds(30, flow, Link(), 0.5)
    end_of_acks(recorder)
    acks = [line for line in recorded(name) if not line["u"]]
    expect_in("lines of ACKs", len(acks), 20, 200)
    for line in acks:
        want = 8e9 * float(line["W"]) / float(line["T_ns"])
        expect_in("R", float(line["R_bps"]), want * 0.999 - 8, want * 1.001 + 8)


if virtual_time():
    # User Mode Linux has no perf events, which these BPF programs need.
    del test_lost_acks, test_acks_of_others, test_rate_of_acks


def small_disk(size):
    """Return a directory on a separate file system, which exists until the test ends."""
    folder = tempfile.mkdtemp()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    defer(subprocess.run, ["umount", folder])
    return folder


def test_nobody_reads():
    """Ctrl-C ends a recording into a full pipe."""
    pair, _, _ = crowd(20)
    process = start(pair.c, "record", "-n", "-o", "-", "-d", "0.001")
    # Each sample is about 2000 bytes, and a pipe holds 64 KB.
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    expect("status", process.wait(timeout=60), NOTHING)
    expect("output", process.stderr.read(), "hpccmon record: standard output: nobody reads\n")
    expect_in("lines", len(process.stdout.read().splitlines()), 300, 5000)


def test_full_disk():
    """On a full disk a recording ends with an error message, and the file ends with a complete line."""
    folder = small_disk("64k")
    pair, _, _ = crowd(20)
    for words in [], ["--json"]:
        name = f"{folder}/a{len(words)}"
        output = run(pair.c, "record", "-n", "-o", name, "-d", "0.01", *words, status=NOTHING)
        expect("output", output, f"hpccmon record: {name}: No space left on device; the file ends with the last complete line\n")
        if words:
            expect_in("objects", len(list(map(json.loads, Path(name).read_text("ascii").splitlines()))), 50, 200)
        else:
            expect_in("lines", len(recorded(name)), 300, 600)
        os.unlink(name)
    output = run(pair.c, "record", "-n", "-o", f"{folder}/b", "-d", "0.01", status=NOTHING,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000)))
    expect("limit", output, f"hpccmon record: {folder}/b: File too large; the file ends with the last complete line\n")
    recorded(f"{folder}/b")


def need_gnuplot():
    """Skip a test of drawings if gnuplot is missing."""
    if not shutil.which("gnuplot"):
        raise Skip("needs gnuplot")


def write(name, *lines):
    """Write a recording."""
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def test_plot():
    """hpccmon plot turns a recording into an SVG file with a line for each hop, and refuses other files."""
    need_gnuplot()
    folder, ns, head = tempfile.mkdtemp(), Netns(), ",".join(HEAD)
    name, _ = record_slow_hop(folder)
    lines = len(recorded(name))
    expect("output", run(ns, "plot", name), f"{folder}/a.svg: {lines} samples, flows: 1\n")
    tree = xml.etree.ElementTree.parse(f"{folder}/a.svg")
    print("#", [text.text.strip() for text in tree.iter("{http://www.w3.org/2000/svg}title")])
    svg = Path(f"{folder}/a.svg").read_text("utf-8")
    for word in "W, KB", "Wc", "eta", "hop 1", "hop 2", "hop 3", "queue, us":
        expect(word, f">{word}<" in svg, True)
    expect("json", json.loads(run(ns, "plot", "--json", name, "-o", f"{folder}/it's.svg", ":5000")),
           {"output": f"{folder}/it's.svg", "samples": lines, "flows": 1})
    expect("no flow", run(ns, "plot", name, ":1", status=NOTHING), f"hpccmon plot: {name} contains no sample of :1\n")
    ends = "10.0.0.1:1,10.0.0.2:2,1,telemetry,1420,1420,1420,0,0.95,1000,1000,0,0,0"
    write(f"{folder}/empty.csv", head, f"1.0,{ends}", f"2.0,{ends}")
    expect("no load, no queue", start(ns, "plot", f"{folder}/empty.csv").communicate(timeout=60),
           (f"{folder}/empty.svg: 2 samples, flows: 1\n", ""))
    since = time.strftime(">s since %Y-%m-%d %H:%M:%S<", time.localtime(1))
    expect("label of the time axis", since in Path(f"{folder}/empty.svg").read_text("utf-8"), True)
    for lines, wrong in (([], " contains no sample"),
                         (["x"], f" is not a recording of hpccmon: its first line is not {head}"),
                         *(([head, line], ", line 2: this is not a line of a recording") for line in
                           ("1,2", *(f"{when},{ends}" for when in ("nan", "inf", "-1", "1e18", "1e300"))))):
        write(f"{folder}/bad", *lines)
        expect(f"{lines}", run(ns, "plot", f"{folder}/bad", status=NOTHING), f"hpccmon plot: {folder}/bad{wrong}\n")
    text = Path(name).read_text("ascii")
    for length in range(len(text) - 300, len(text) - 1, 7):
        Path(f"{folder}/cut").write_text(text[:length], encoding="ascii")
        run(ns, "plot", f"{folder}/cut", ":1", status=NOTHING)
    expect("no gnuplot", run(ns, "plot", name, status=NOTHING, env={"PATH": "/none"}),
           "sh: 1: exec: gnuplot: not found\nhpccmon plot: gnuplot is not installed; install gnuplot-nox\n")
    full = small_disk("4k")
    output = run(ns, "plot", name, "-o", f"{full}/x.svg", status=NOTHING)
    expect("full disk", output.splitlines()[-1],
           f"hpccmon plot: {full}/x.svg could not be drawn: gnuplot failed, or the disk is full")
    expect("files on the full disk", os.listdir(full), [])


def test_plot_long():
    """For a recording of any length the SVG file is small, and shows even a peak of a single line."""
    need_gnuplot()
    name = f"{tempfile.mkdtemp()}/long.csv"
    write(name, ",".join(HEAD), *(
        f"{1e9 + i / 1e4:.6f},10.0.0.1:1,10.0.0.2:2,{7 + i % 3},telemetry,{91234 if i == 33333 else 10000 + i % 1000},"
        f"9000,9000,0.5,0.95,8000,10000,0,0.5,{640000 if i == 77778 else i % 100}" for i in range(100000)))
    expect("output", run(Netns(), "plot", name), f"{name[:-4]}.svg: 100000 samples, flows: 3\n")
    expect_in("bytes", os.stat(f"{name[:-4]}.svg").st_size, 1, 1 << 20)
    drawn = re.findall(r"<text> ?([0-9.]+)</text>", Path(f"{name[:-4]}.svg").read_text("utf-8"))
    expect("KB, us", (drawn.count("90"), drawn.count("700")), (1, 1))


def test_plot_by_odd_names():
    """For any name of a recording, hpccmon plot runs no command, and overwrites only regular files."""
    need_gnuplot()
    folder, ns = tempfile.mkdtemp(), Netns()
    names = "|touch ran;.csv", "a\nsystem 'touch ran'\n#.csv", "`touch ran`.csv", "~.csv", "it's.csv"
    for name in names:
        write(f"{folder}/{name}", ",".join(HEAD), "1.5,10.0.0.1:1,10.0.0.2:2,7,telemetry,9000,9000,9000,0.5,0.95,"
              "8000,10000,0,0.5,10")
        run(ns, "plot", name, cwd=folder)
    expect("files", sorted(os.listdir(folder)),
           sorted(name.replace("csv", end) for name in names for end in ("csv", "svg")))
    expect("mode", oct(os.stat(f"{folder}/~.svg").st_mode & 0o777), "0o644")
    os.mkfifo(f"{folder}/fifo")
    os.symlink("~.svg", f"{folder}/link")
    for what in "fifo", "link":
        before = os.lstat(f"{folder}/{what}")
        expect(what, run(ns, "plot", f"{folder}/~.csv", "-o", f"{folder}/{what}", status=NOTHING),
               f"hpccmon plot: {folder}/{what}: it exists, and is not a regular file\n")
        expect("lstat", os.lstat(f"{folder}/{what}"), before)


main(modules=["sch_hpcc"])
