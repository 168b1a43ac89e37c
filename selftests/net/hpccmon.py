#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""tools/hpccmon, under UBSan and, in a virtual machine, ASan."""

import json
import os
import re
import resource
import signal
import tempfile
import termios
import time
import pathlib

from lib.genl import cookie
from lib.kernel import TOP, load, unload, users
from lib.ktap import Skip, defer, expect, expect_in, main, need_virtual_time
from lib.monitor import (HEAD, Screen, end, interrupt, listen, program, recorded, run, run_json, show, start)
from lib.net import Netns, Pair, crowd, joined, meet
from lib.packet import ECHO, option
from lib.path import MBPS, Path, get_links, get_routes, look_while_sending, slow_hop
from lib.peer import Flow, Link, fall_back, measured, rounds
from lib.tcp import pattern, transfer

USAGE, NOTHING = 2, 1
NO_RECORD = "no record has arrived yet: this end only receives, or no switch writes telemetry; W has its initial value"
NO_HPCC = "tcp_hpcc is not loaded; load it with: modprobe tcp_hpcc"


def test_unload():
    """Without the module, hpccmon prints how to load it.

    This test is the first, because the module cannot be unloaded until connections of other tests end, minutes later.
    """
    program()
    ns = Netns()
    expect("unload", unload(ns, 100), True)
    output = run(ns, "flow", status=NOTHING)
    load(ns)
    expect("output", output, f"hpccmon flow: {NO_HPCC}\n")


def test_module_goes():
    """The command "events" ends with a message when the module is removed."""
    ns = Netns()
    listener = listen(ns)
    expect("unload", unload(ns, 100), True)
    output, wrong = listener.communicate(timeout=60)
    load(ns)
    expect("output", (listener.returncode, output, wrong), (NOTHING, "", "hpccmon events: tcp_hpcc was removed\n"))


def test_top_while_the_module_goes():
    """The command "top" reports that the module is missing, and continues after it is loaded again."""
    ns = Netns()
    screen = Screen(ns, 80, 10, "top", "--delay=0.2")
    screen.until(lambda lines: lines[0].startswith("0 flows, 0 classic"))
    expect("unload", unload(ns, 100), True)
    screen.until(lambda lines: lines[0].startswith("tcp_hpcc is not loaded"))
    load(ns)
    screen.until(lambda lines: lines[0].startswith("0 flows, 0 classic"))
    screen.keys("C-c")
    expect("status", screen.ended(), 0)


def test_record_while_the_module_goes():
    """When the module is removed a recording ends, and its file is complete."""
    ns = Netns()
    name = tempfile.mkdtemp() + "/a"
    recorder = start(ns, "record", "-n", "-o", name, "--delay=0.01")
    time.sleep(0.5)
    expect("unload", unload(ns, 100), True)
    output = end(recorder, "record", NOTHING)
    load(ns)
    expect("output, lines", (output, recorded(name)),
           (f"hpccmon record: {NO_HPCC}; the recording is complete up to this time\n", []))


def test_without_requests():
    """If the kernel cannot load the module that handles requests, hpccmon prints this, but "events" works."""
    ns = Netns()
    listener = listen(ns)
    expect("unload", users("hpcc_netlink") is None or unload(ns, 60, "hpcc_netlink"), True)
    defer(time.sleep, 1)
    defer(ns.sysctl, "kernel.modprobe", ns.sysctl("kernel.modprobe"))
    ns.sysctl("kernel.modprobe", "/bin/false")
    for words in ("flow",), ("link", "show"), ("route", "set", "prefix", "10.0.0.0/8", "where", "sender"):
        expect("output", run(ns, *words, status=NOTHING).split(": ", 1)[1], "the module hpcc_netlink is not loaded\n")
    expect("events", interrupt(listener)[0], "")


def test_usage():
    """A wrong command line is rejected with one line, which lists what is allowed."""
    ns = Netns()
    bad = "is not an end of a flow: write ADDR, ADDR:PORT, [ADDR]:PORT, :PORT, or a cookie; names are not looked up"
    for line, output in (("", ': no command given; "hpccmon --help" lists the commands'),
                       ("flows", ": no command flows; use one of events, export, flow, key, link, observe, path, plot, record, route, top"),
                       ("flow --not", " flow: --not: use one of --json, --names"),
                       ("flow -x", " flow: -x: use one of --json, --names"),
                       ("flow -xj", " flow: -x: use one of --json, --names"),
                       ("flow --json=1", " flow: --json takes no value"),
                       ("flow -:", " flow: -:: use one of --json, --names"),
                       ("flow a b", f" flow: a {bad}"),
                       ("flow :1 :2 :3", " flow: :3: too many arguments: a flow has one local end and one peer"),
                       ("events -c", " events: -c needs a value"),
                       ("events -c 0", " events: --count 0: it has to be from 1 to 1000000000"),
                       ("events -c 1.5", " events: --count 1.5: it has to be a whole number"),
                       ("events --count=5x", " events: --count 5x: it has to be from 1 to 1000000000"),
                       ("plot", ' plot: no file given; "hpccmon record" writes such files'),
                       ("plot x.svg", " plot: x.svg is the recording itself; select another file with --output=FILE"),
                       ("record", " record: no output file given; --output=FILE, or - for standard output"),
                       ("record -o x -b 3", " record: --buffer 3: it has to be from 4 to 1048576"),
                       ("record -o x -b 4.5", " record: --buffer 4.5: it has to be a whole number"),
                       ("record -o x -d 0", " record: --delay 0: it has to be from 0.001 to 3600"),
                       ("top --sort=Q --once", " top: --sort Q: use one of LOCAL, PEER, MODE, W, R, T, U, "
                        "HOP, u', QUEUE, STAGE, WHY"),
                       ("top --delay=0", " top: --delay 0: it has to be from 0.1 to 60"),
                       ("top --filter=" + "x" * 64, f" top: --filter {'x' * 64}: the maximum length is 63 characters"),
                       ("path", " path: write one host, a name or an address"),
                       ("path a b", " path: write one host, a name or an address"),
                       ("path --port 0 a", " path: --port 0: it has to be from 1 to 65535"),
                       ("path --port=65536 a", " path: --port 65536: it has to be from 1 to 65535"),
                       ("path --port=-5 a", " path: --port -5: it has to be from 1 to 65535"),
                       ("path --port= a", " path: --port : it has to be from 1 to 65535"),
                       ("top", " top: needs a terminal, except with --once and --json")):
        expect(line, run(ns, *line.split(), status=USAGE), f"hpccmon{output}\n")
    for word in ("1.2.3", "1.2.3.4.5", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536", "1.2.3.4:5x", ":",
                 "[::1", "[::1]x", "[::1]:", "[]:1", ":::", "", "-5", "0x", "99999999999999999999",
                 "g::1", "a" * 100, "[" + "1:" * 60):
        expect(word, run(ns, "flow", "--", word, status=USAGE), f"hpccmon flow: {word} {bad}\n")
    with open(f"{TOP}/dkms.conf", encoding="ascii") as file:
        version, = re.findall('^PACKAGE_VERSION="(.*)"$', file.read(), re.MULTILINE)
    for word in "--version", "-V":
        expect(word, run(ns, word), f"hpccmon {version}\n")
    head = run(ns, "--help")
    expect("start of --help", head.startswith("usage: hpccmon COMMAND"), True)
    for command in "events", "export", "flow", "key", "link", "observe", "path", "plot", "record", "route", "top":
        usage, what, *options = run(ns, command, "--help").split("\n")
        expect(f"{command} in the list", f"\n{usage}\n{what}\n" in head, True)
        expect(f"{command} x --help", run(ns, command, "x", "--help"), "\n".join([usage, what, *options]))
        for word in re.findall(r"--[a-z-]+", usage):
            explained = sum(bool(re.match(rf"\t(-., )?{word}[ =\[]", line)) for line in options)
            expect(f"lines of {command} that explain {word}", explained, 1)


def test_slow_hop():
    """The hop with the largest u' limits W: "holds" is the number of this hop, and "why" names this hop."""
    need_virtual_time()
    path, ends = slow_hop()
    path.a.ask()
    for _ in range(3):
        transfer((*ends, pattern(1000000)))
        path.a.paths()
    found = look_while_sending(ends, 3000000, 60, lambda: run_json(path.a, "flow")[0])
    print("#", *(f"{one['U']:.2f}" for one in found))
    for one in found:
        u = [hop["u"] for hop in one["hops"]]
        expect(f"holds, with u' {u}", one["holds"], u.index(max(u)) + 1)
    # A record of a burst has u' 1 at hop 1, too, and the first of equal hops limits W.
    holding = [one for one in found if one["holds"] == 2]
    expect_in("records that hop 2 limits", len(holding), len(found) * 3 // 4, len(found))
    # U oscillates around eta.
    expect_in("why", sum(one["why"].startswith("hop 2 (u' ") for one in holding), len(holding) // 2, len(holding))
    expect_in("u'", holding[-1]["hops"][1]["u"], 0.8, 1.3)
    flow = run_json(path.a, "flow")[0]
    expect("names", links_of(flow), [(i, i, 2, MBPS * 1000000 // (4 if i == 2 else 1)) for i in (1, 2, 3)])
    lines = run(path.a, "flow").splitlines()
    show(lines)
    expect("marked", [line[:8].split() for line in lines if line.startswith("  *")],
           [["*", f"{flow['holds']}"]])
    names = [["1.2", "1", "Gbit/s"], ["2.2", "250", "Mbit/s"], ["3.2", "1", "Gbit/s"]]
    expect("names in the table", [line.split()[-3:] for line in lines[-3:]], names)
    lines = run(path.a, "path", path.addr[1]).splitlines()
    show(lines)
    expect("path", [line.split()[-3:] for line in lines[-3:]], names)


CAME = "received", "malformed", "bad_hop", "ts_back", "tx_excess"


def test_what_came():
    """hpccmon shows the numbers of received options, and of ignored options by reason."""
    flow, link = Flow(), Link()

    def line():
        found, = (line for line in run(flow.ns, "flow").splitlines() if " options" in line)
        return found

    expect("line at first", line(), "  telemetry: 0 options")
    rounds(3, flow, link, 0.5)
    expect("line after three options", line(), "  telemetry: 3 options")
    flow.send(option(ECHO)[:1] + b"\x05\x20\x10\0")
    link.hop = 2
    flow.round(link.step(9000, 0.5), hops=1)
    link.hop = 1
    expect("two reasons", line().partition("; ")[2], "ignored: 1 malformed, 1 of no hop")
    flow.round(link.step(-9100))
    flow.round(link.step(9000, 40.0))
    print("#", line())
    expect("four reasons", line().partition("; ")[2],
           "ignored: 1 malformed, 1 of no hop, 1 with old ts, 1 with too much tx")
    (want,), (got,) = flow.ns.dump(), run_json(flow.ns, "flow")
    expect("json", [got[name] for name in CAME], [want[name.replace("_", "-")] for name in CAME])
    expect("ignored", [got[name] for name in CAME[1:]], [1] * 4)


def test_same_as_netlink():
    """The values of "hpccmon flow" equal the values of netlink."""
    for version in 4, 6:
        flow, _, _ = measured(3, 0.8, 0.25, version=version)
        (want,), (got,) = flow.ns.dump(), run_json(flow.ns, "flow")
        names = {name: name for name in ("laddr", "lport", "raddr", "rport", "cookie", "mode")} | {
            "W": "w", "Wc": "wc", "W_init": "w-init", "T_ns": "t", "incStage": "inc-stage"}
        expect(f"{list(names)}", [got[name] for name in names], [want[name] for name in names.values()])
        expect("U, eta, R", [*(round(got[name] * 2**24) for name in ("U", "eta")), got["R_bps"]],
               [want["u"], want["eta"], 8 * want["r"]])
        (hop,), (hop_want,) = got["hops"], want["hop"]
        expect("hop", (hop["hop"], round(hop["u"] * 2**24), hop["qlen_ns"]), (1, hop_want["u"], hop_want["qlen"]))


def test_other_users():
    """A user without CAP_NET_ADMIN gets no identities of links, but a message about this, and all other values."""
    pair = Pair()
    pair.connect()
    process = start(pair.c, "flow", "--names", user=1000)
    output, wrong = process.communicate(timeout=60)
    expect("status, message, a flow is shown", (process.returncode, wrong, output.startswith(f"{pair.addr[0]}:")),
           (0, "without names of links: the names of links require CAP_NET_ADMIN\n", True))


def test_which_flows():
    """Addresses, ports and cookies select flows; if no flow matches, the exit status is 1."""
    pair, _, ends = crowd(5, 6)
    ports = [client.getsockname()[1] for client, _ in ends]
    here, there = pair.addr

    def found(*words):
        return sorted(flow["lport"] for flow in run_json(pair.c, "flow", *words))

    for words in [], [":5000"], [f"[{there}]:5000"], [here], [here, there]:
        expect(f"ports, {words}", found(*words), sorted(ports))
    number = cookie(ends[1][0])
    for words in ([f":{ports[1]}"], [f"[{here}]:{ports[1]}"], [f"[{here}]:{ports[1]}", there],
                  [str(number)], [hex(number)], [f":{ports[1]}", ":5000"]):
        expect(f"{words}", found(*words), [ports[1]])
    for words, name in (([there, here], f"{there} to {here}"), ([":5000", there], f":5000 to {there}"),
                        (["10.0.0.1"], "10.0.0.1"), (["99999999"], "cookie 99999999")):
        output = run(pair.c, "flow", *words, status=NOTHING)
        expect(f"{words}", output, f"hpccmon flow: no flow of {name} runs hpcc or is observed here\n")
    expect("other namespace", run(Netns(), "flow", status=NOTHING),
           "hpccmon flow: no flow runs hpcc or is observed here\n")
    with open("/dev/full", "w", encoding="ascii") as full:
        expect("full disk", run(pair.c, "flow", stdout=full, status=NOTHING),
               "hpccmon flow: cannot write: No space left on device\n")


def test_flows_come_and_go():
    """If flows end during a dump, each of the other flows is still shown once."""
    pair, listener, ends = crowd(100, 6)
    staying, fleeting = sorted(client.getsockname()[1] for client, _ in ends), []
    for _ in range(6):
        running = [start(pair.c, *line.split()) for line in ("flow --json :5000", "top --json", "top --once")]
        for _ in range(10):
            for sock in sum(fleeting, ()):
                sock.close()
            fleeting = [pair.connect(listener) for _ in range(5)]
        for process in running[:2]:
            ports = [flow["lport"] for flow in json.loads(end(process, "flow"))]
            expect("number of ports, flows that stay", (len(set(ports)), sorted(set(ports) & set(staying))),
                   (len(ports), staying))
        rows = end(running[2], "top").splitlines()
        expect("column MODE", {row.split()[2] for row in rows}, {"MODE", "telemetry"})
    ends = pair.connect(listener)
    port = ends[0].getsockname()[1]
    for sock in ends:
        sock.close()
    time.sleep(0.1)
    output = run(pair.c, "flow", f":{port}", status=NOTHING)
    expect("flow that ended", output, f"hpccmon flow: no flow of :{port} runs hpcc or is observed here\n")


def test_namespace_goes():
    """If hpccmon is the last process in its network namespace, it continues, and ends as usual."""
    pair, *ends = joined(Pair())
    listener = listen(pair.c)
    recorder = start(pair.c, "record", "-n", "-o", "-", "-d", "0.05")
    time.sleep(0.2)
    for sock in ends:
        sock.close()
    pair.c.delete()
    pair.s.delete()
    time.sleep(0.5)
    for process, lines in (listener, 0), (recorder, 3):
        process.send_signal(signal.SIGTERM)
        rows = end(process, "after the namespace").splitlines()
        expect_in("lines", len(rows), lines, 1000 * lines)
        expect("columns", {len(row.split(",")) for row in rows} - {len(HEAD)}, set())


def test_to_itself():
    """Both ends of a connection within one host are shown as flows, each end once."""
    pair = Pair()
    listener = pair.listen()
    want = sorted(end.getsockname()[1] for end in meet(pair.s.socket(), listener))
    for words in [], [":5000"], [pair.addr[1]]:
        expect(f"{words}", sorted(flow["lport"] for flow in run_json(pair.s, "flow", *words)), want)


def any_time(why):
    """Remove from a line "why" the time for which the hop has limited W."""
    return re.sub(r"has limited W for [0-9.]+ \S?s\b", "limits W", why)


def test_why():
    """The line "why" shows what limits W."""
    flow, link = Flow(), Link()
    why = lambda: run_json(flow.ns, "flow")[0]["why"]
    expect("why at first", why(), NO_RECORD)
    rounds(11, flow, link, 0.3)
    expect("why at W_init", why(), "U 0.30 is below eta 0.95 and W is W_init: the application, the receiver's "
           "window or a link that does not stamp limits the flow")
    rounds(10, flow, link, 1, 0.5)
    expect("why with a queue", re.sub(r"queue \S+ \S+s\)", "", any_time(why())),
           "hop 1 (u' 1.50,  limits W: U 1.50 is above eta 0.95: W = Wc / (U/eta)")
    fall_back(flow)
    expect("why in classic mode", why(),
           "classic: telemetry stopped (silence); Reno sets the window, not W, until a record arrives")


def test_why_unmeasured():
    """A hop with only one record has no u': it does not limit W, although U is 1."""
    program()
    flow, _, _ = measured(1, 0.3)
    got, = run_json(flow.ns, "flow")
    expect("U, u'", (got["U"], [hop["u"] for hop in got["hops"]]), (1, [0]))
    expect("why", got["why"], "no link has been measured since the flow began or its path changed: W is unchanged")


def test_why_receiver():
    """If the receiver computes W, the audits of the sender show which hop limits W."""
    need_virtual_time()
    program()
    # With maxStage 0 a W of a few segments oscillates, and hop 1 is sometimes busier than hop 2.
    path, ends = slow_hop(2, where=1, max_stage=5)
    found = look_while_sending(ends, 3000000, 100, lambda: run_json(path.a, "flow")[0])
    print("#", [(one["receiver"], one["why"]) for one in found])
    shown = [one for one in found if one["receiver"]]
    expect_in("looks", len(shown), 1, len(found))
    for one in shown:
        expect("why", re.sub(r"u' \d+\.\d+(, queue [^)]*)?", "u' X", any_time(one["why"])),
               "the receiver computes W; according to the last echoes hop 2 (u' X) limits W")


def test_why_law():
    """The line "why" shows the form of the window law that W follows."""
    program()
    for max_stage, below in (5, "W grows by W_ai"), (0, "W = Wc / (U/eta)"):
        flow, link, _ = measured(6, 1, 0.02, max_stage=max_stage)
        for _ in range(20):
            flow.round(link.step(9000, 0.9))
            got, = run_json(flow.ns, "flow")
            if got["incStage"] < max(max_stage, 1):
                break
        expect("U, maxStage", (round(got["U"], 2), got["maxStage"]), (0.9, max_stage))
        expect("below eta", any_time(got["why"]), f"hop 1 (u' 0.90) limits W: U 0.90 is just below eta 0.95: {below}")
        rounds(4, flow, link, 1, 1000)
        # at W_min segments are rare
        flow.echo(link.step(9000, 1, 1000))
        got, = run_json(flow.ns, "flow")
        expect("W, W_min", (got["W"], got["why"].split(": ")[-1]), (got["W_min"], "W is W_min, the least"))


def test_events():
    """Path changes, fallbacks and returns are printed as they happen, for the selected flows only."""
    flow = Flow()
    listener, other = listen(flow.ns, "--json", "--count=3"), listen(flow.ns, ":1")
    text = listen(flow.ns, f":{flow.lport}")
    for tag in 1, 2:
        flow.round(Link(tag=tag).step(9000, 0.8))
    fall_back(flow)
    link = Link(tag=2)
    for _ in range(100):
        flow.round(link.step(9000, 0.5))
        if flow.cc() == "hpcc":
            break
    shown = [json.loads(line) for line in end(listener, "events").splitlines()]
    names = "event", "fell_back", "cookie", "missed"
    expect(f"{names}", [[one[name] for name in names] for one in shown],
           [[*what, cookie(flow.sock), 0] for what in (("path", "none"), ("fallback", "silence"), ("return", "silence"))])
    time.sleep(0.1)
    for process, nr in (other, 0), (text, 3):
        output, wrong = interrupt(process)
        show(output)
        expect("status, message at the end, events",
               (process.returncode, wrong, [line.split()[1] for line in output.splitlines()]),
               (0, f"{nr} events shown, 0 not reported by the kernel, 0 lost\n", ["path", "fallback", "return"][:nr]))


def test_lost_events():
    """Events that the kernel did not send, and events for which the socket had no room, are counted."""
    need_virtual_time()
    flow = Flow()
    # The socket buffer has room for about twenty events.
    room = pathlib.Path("/proc/sys/net/core/rmem_default")
    defer(room.write_bytes, room.read_bytes())
    room.write_bytes(b"20000")
    listener, unread = (listen(flow.ns, "--json") for _ in range(2))
    for process in listener, unread:
        process.send_signal(signal.SIGSTOP)
    links = [Link(tag=tag) for tag in (1, 2)]
    before = flow.ns.counters()["path_changes"]
    for turn in range(200):
        if turn % 20 == 0:
            time.sleep(1.1)
        flow.round(links[turn % 2].step(9000, 0.5))
    changes = flow.ns.counters()["path_changes"] - before
    listener.send_signal(signal.SIGCONT)
    # The next event that arrives contains the number of events missed before it.
    time.sleep(1.2)
    flow.round(links[0].step(9000, 0.5))
    time.sleep(0.1)
    output, wrong = interrupt(listener)
    shown = [json.loads(line) for line in output.splitlines()]
    events, lost = [one for one in shown if "event" in one], sum(one.get("lost", 0) for one in shown)
    missed = sum(one["missed"] for one in events)
    print(f"# {changes} changes: {len(events)} shown, {wrong.strip()};", *(one["event"] for one in events[-4:]))
    expect_in("lost", lost, 40, 79)
    # The missed events that lost messages reported are not counted.
    expect_in("events, shown or not", len(events) + missed + lost, 100, changes + 1)
    expect("message at the end", wrong, f"{len(events)} events shown, {missed} not reported by the kernel, {lost} lost\n")
    # hpccmon reports the number of lost events even if it is interrupted before it has read an event.
    unread.send_signal(signal.SIGINT)
    output, wrong = interrupt(unread, signal.SIGCONT)
    # Only the first listener had room for the last change, and for an RTO before this change.
    unread = json.loads(output)["lost"]
    expect_in("unread events", unread - lost, 0, 1 + len([one for one in events if one["event"] != "path"]))
    expect("message at the end", wrong, f"0 events shown, 0 not reported by the kernel, {unread} lost\n")


def table(ns, width, *words):
    """Return the head and the rows that "hpccmon top --once" prints."""
    return run(ns, "top", "--once", *words, env=os.environ | {"COLUMNS": str(width)}).splitlines()


def test_top_widths():
    """At each width of the terminal no line is longer, columns are aligned, and truncated texts are marked."""
    pair, _, ends = crowd(3, 6)
    for width in range(1, 220):
        lines = table(pair.c, width)
        expect("lines", len(lines), 4)
        expect_in(f"width {width}", max(map(len, lines)), 1, width)
    head, *rows = table(pair.c, 20)
    expect("table of 20 columns", (head.split(), rows), (["PEER", "U"], ["[fd00::2]:5000  1.00"] * 3))
    for width, row in (18, "~00::2]:5000  1.00"), (5, "~5000"):
        expect(f"{width} columns", table(pair.c, width)[1:], [row] * 3)
    head, *rows = table(pair.c, 219)
    show([head, *rows])
    expect("head", head.split(), ["LOCAL", "PEER", "MODE", "W", "Rv", "T", "U", "HOP", "u'", "QUEUE", "STAGE", "WHY"])
    expect("column LOCAL", sorted(row.split()[0] for row in rows),
           sorted(f"[{pair.addr[0]}]:{client.getsockname()[1]}" for client, _ in ends))
    expect("why", {row[head.index("WHY"):] for row in rows}, {NO_RECORD})


def test_top_without_its_terminal():
    """The command "top" ends after its terminal is closed, even if it gets no signal."""
    Screen.need_terminals()
    ours, its = os.openpty()
    process = start(Netns(), "top", "--delay=0.1", stdin=its, stdout=its, start_new_session=True,
                    env=os.environ | {"TERM": "screen"})
    os.close(its)
    shown = b""
    while b"0 flows" not in shown:
        shown += os.read(ours, 4096)
    os.close(ours)
    expect_in("status", process.wait(timeout=60), 0, 1)


def test_top_leaves_the_terminal_as_it_was():
    """After each way of ending top, the terminal echoes again, and an error message replaces the screen of top."""
    def is_usual(screen):
        with open(screen.pane("tty"), "rb") as tty:
            flags = termios.tcgetattr(tty)[3]
        return flags & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO

    def begin(ns):
        screen = Screen(ns, 80, 10, "top", "--delay=0.2")
        screen.until(lambda lines: " flows, 0 classic" in lines[0])
        expect("the terminal is as before", is_usual(screen), False)
        stats = [path.read_text().split() for path in pathlib.Path("/proc").glob("[0-9]*/stat")]
        pid, = (int(stat[0]) for stat in stats if stat[3] == screen.pane("pid"))
        return screen, pid

    for number in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM:
        screen, pid = begin(Netns())
        os.kill(pid, number)
        expect(f"status after {number}, terminal is as before", (screen.ended(), is_usual(screen)), (0, True))
    pair, listener, _ = crowd(0)
    screen, pid = begin(pair.c)
    resource.prlimit(pid, resource.RLIMIT_DATA, (1, 1))
    for _ in range(300):
        pair.connect(listener)
    expect("status, terminal is as before, message",
           (screen.ended(), is_usual(screen), "hpccmon top: out of memory" in screen.lines()), (NOTHING, True, True))


def test_top_sort_and_filter():
    """Rows can be sorted by column and filtered by text, and --json prints the same flows."""
    pair, _, ends = crowd(5)
    ports = sorted(client.getsockname()[1] for client, _ in ends)
    for words, want in (["--sort=LOCAL"], ports[::-1]), (["--sort=local", "--reverse"], ports), \
            ([f"--filter=:{ports[2]}"], [ports[2]]), (["--filter=ITS INITIAL VALUE", "--sort=LOCAL"], ports[::-1]), \
            (["--filter=classic"], []), ([f":{ports[1]}"], [ports[1]]):
        expect(f"{words}", [int(row.split()[0].split(":")[1]) for row in table(pair.c, 200, *words)[1:]], want)
        expect(f"{words}, json", [flow["lport"] for flow in run_json(pair.c, "top", *words)], want)
    head = table(pair.c, 200, "--sort=u'", "--reverse")[0]
    expect("marked", [name for name in head.split() if name[-1] in "v^"], ["u'^"])


def test_top_on_a_screen():
    """On a terminal of any size top shows the same table as --once; keys change the order and the filter."""
    pair, _, ends = crowd(5)
    ports = [client.getsockname()[1] for client, _ in ends]
    up, first = sorted(ports), f":{ports[0]}"
    screen = Screen(pair.c, 100, 12, "top", "--delay=0.2")
    for width, height in (100, 12), (20, 8), (60, 5), (11, 9), (5, 4), (219, 30), (1, 1), (9, 1), (20, 2), (80, 24):
        screen.resize(width, height)
        want = table(pair.c, width)[:max(height - 2, 0)]

        def whole(lines):
            rows = [line.rstrip() for line in want]
            return (height < 3 or lines[1:1 + len(rows)] == rows) and \
                not any(lines[1 + len(rows):height - 1]) and max(map(len, lines)) <= width and \
                lines[0].startswith("5 flows, 0 classic"[:width - 1].rstrip()) and \
                (height < 2 or lines[-1].startswith("q quit"[:width].rstrip()))

        lines = screen.until(whole)
    show(lines)

    def press(keys, shows, size=None):
        if size:
            screen.resize(*size)
        if keys:
            screen.keys(*keys)
        screen.until(lambda lines: shows(lines, [int(line.split()[0].split(":")[1]) for line in lines[2:-1] if line]))

    press(["Left"] * 4, lambda lines, rows: "LOCALv" in lines[1] and rows == up[::-1])
    press(["r"], lambda lines, rows: "LOCAL^" in lines[1] and rows == up)
    press(["/", f"{first}x", "BSpace"], lambda lines, rows: rows == ports[:1] and lines[-1] == f"filter: {first}_")
    press(["Enter"], lambda lines, rows: lines[0].endswith(f'with "{first}"') and lines[-1][:1] == "q")
    press(["/", "Escape"], lambda lines, rows: rows == up)
    press([], lambda lines, rows: rows == up[:3], (80, 6))
    press(["Down", "Down"], lambda lines, rows: rows == up[2:5])
    press(["Down", "NPage", "Up", "Home"], lambda lines, rows: rows == up[:3])
    for sock in ends[ports.index(max(ports))]:
        sock.close()
    screen.until(lambda lines: lines[0].startswith("4 flows"))
    screen.keys("q")
    expect("status", screen.ended(), 0)


def links_of(answer):
    return [(hop["hop"], hop["node"], hop["port"], hop["B_bps"]) for hop in answer["hops"]]


def test_path_by_a_flow():
    """For a flow that sends, "hpccmon path" requests the links; for an idle flow it prints the links found before."""
    need_virtual_time()
    for version in 4, 6:
        path = Path(version, switches=4)
        found = []
        look_while_sending(path.connect(), 3000000, 200, lambda: found or found.append(
            start(path.a, "path", path.addr[1], "--json")))
        answer = json.loads(end(found[0], "path"))
        expect("links", links_of(answer), [(i, i, 2, MBPS * 1000000) for i in (1, 2, 3, 4)])
        expect("peer, bytes", (answer["raddr"], answer["sent"]), (path.addr[1], 0))
        expect("hops with u' or quiet", {"u" in hop or "quiet" in hop for hop in answer["hops"]}, {True})
        time.sleep(12)
        began = time.monotonic()
        run(path.a, "flow", "--names")
        expect_in("seconds that hpccmon waits for an idle flow", time.monotonic() - began, 0, 0.1)
        output = run(path.a, "path", path.addr[1]).splitlines()
        show(output)
        expect("hops of a flow that sends nothing", [line.split()[-1] for line in output[2:]], ["-"] * 4)
        expect("path to another host", run(path.a, "path", path.addr[0], status=NOTHING),
               f"hpccmon path: no flow to {path.addr[0]} runs hpcc or is observed here; --port opens a connection\n")


def test_path_by_a_connection():
    """Without a flow "hpccmon path" opens its own connection, and sends some bytes over this connection."""
    for version in 4, 6:
        path = Path(version, switches=5)
        listener = path.b.listen(path.addr[1])
        answer = run_json(path.a, "path", "-p", "5000", path.addr[1])
        expect("links", links_of(answer), [(i, i, 2, MBPS * 1000000) for i in (1, 2, 3, 4, 5)])
        expect_in("bytes", answer["sent"], 4, 20)
        got, _ = listener.accept()
        expect("received", len(got.recv(100)), answer["sent"])
        listener.close()
        got.close()
        path.a.expect_no_flows()
        expect("path without a listener", run(path.a, "path", "--port=5000", path.addr[1], status=NOTHING),
               f"hpccmon path: {path.addr[1]}, port 5000: Connection refused\n")


def test_path_without_hpcc():
    """hpccmon reports a peer that did not agree, and a path without switches."""
    for cc, what in ("hpcc", "no switch on the path to 10.0.0.2 answered"), \
            ("reno", "the peer does not agree to hpcc: it needs tcp_hpcc, and a listener that uses it"):
        pair = Pair(cc=("hpcc", cc))
        pair.listen()
        expect(cc, run(pair.c, "path", "--port=5000", pair.addr[1], status=NOTHING), f"hpccmon path: {what}\n")
    output = run(pair.c, "path", "10.0.0.300", status=NOTHING)
    expect(output, output.startswith("hpccmon path: 10.0.0.300: "), True)


def load_lines(ns, table, *lines, status=0):
    """Pass lines to "hpccmon link load -" or "hpccmon route load -". Return the output."""
    with tempfile.TemporaryFile("w+", encoding="ascii") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.seek(0)
        return run(ns, table, "load", "-", status=status, stdin=file)


def test_keys():
    """"hpccmon key" reads keys from files or standard input, and shows none. A wrong key changes nothing."""
    ns = Netns()
    old, new = "00112233445566778899aabbccddeeff", "FFEEDDCCBBAA99887766554433221100"

    def set_key(*words, given="", status=0):
        with tempfile.TemporaryFile("w+", encoding="ascii") as file:
            file.write(given)
            file.seek(0)
            return run(ns, "key", "set", "prefix", "10.0.0.0/8", *words, status=status, stdin=file)

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/key"
        pathlib.Path(path).write_text(old + "\n", encoding="utf-8")
        set_key("send", path)
        want = "prefix 10.0.0.0/8"
        expect("show", run(ns, "key"), want + "\n")
        for words, given, wrong in (
                (("send", "-"), old[:31], "send -: a key has 32 hexadecimal digits"),
                (("send", "-"), old + "0", "send -: a key has 32 hexadecimal digits"),
                (("send", "-"), "", "send -: a key has 32 hexadecimal digits"),
                (("send", "-"), "0x" + old[2:], "send -: a key has 32 hexadecimal digits"),
                (("send", "-"), old[:30] + " 1", "send -: a key has 32 hexadecimal digits"),
                (("send", path + "x"), "", f"send {path}x: No such file or directory"),
                (("send", folder), "", f"send {folder}: Is a directory"),
                (("send", path, "accept", "-"), "x", "accept -: a key has 32 hexadecimal digits"),
                (("send", path, "require", "maybe"), "", "require maybe: use one of no, yes"),
                ((), "", "which send?")):
            output = set_key(*words, given=given, status=USAGE)
            expect(f"{words}, {given}", output, f"hpccmon key: {wrong}\n")
        expect("show after errors", run(ns, "key"), want + "\n")
        set_key("send", "-", "accept", path, "require", "yes", given=new)
        expect("show", run(ns, "key"), want + " accept yes require yes\n")
        expect("JSON", run_json(ns, "key", "show"), [{"prefix": "10.0.0.0/8", "accept": True, "require": True}])
        run(ns, "key", "del", "prefix", "10.0.0.0/8")
        expect("show after del", run(ns, "key"), "")


def test_tables():
    """A new entry is shown; the output of show can be loaded; the reason of a refusal is reported."""
    ns, other = Netns(), Netns()
    want = {"link": {}, "route": {}}
    for table, key, given, shown in (
            ("link", "node 17 port 2", "rate 100gbit unit 80", None),
            ("link", "node 17 port 2", "rate 1000000001", "rate 1000000001bit unit 1"),
            ("link", "node 3 port 0", "rate 25000Mbit", "rate 25gbit unit 1"), ("link", "node 17 port 2", None, None),
            ("link", "node 16777214 port 65534", "unit 65535 rate 10tbit", "rate 10tbit unit 65535"),
            ("route", "prefix 10.2.0.0/16", "where receiver", None), ("route", "prefix 10.2.7.1/32", "", None),
            ("route", "prefix 2001:db8::/32", "carrier 1 where 0", "where sender carrier ioam"),
            ("route", "prefix 10.2.7.1/32", "carrier csig", None), ("route", "prefix 10.2.0.0/16", None, None),
            ("route", "prefix 10.3.0.0/16", "sample 0 n_flows 0 eta_permille 1000 base_rtt_ns 0",
             "base_rtt_ns 0 eta_permille 1000 n_flows 0 sample 0"), ("route", "prefix 10.3.0.0/16", None, None)):
        if given is None:
            del want[table][key]
        else:
            want[table][key] = f"{key} {given if shown is None else shown}".strip()
        expect(key, run(ns, table, "del" if given is None else "set", *key.split(), *(given or "").split()), "")
        expect(f"{key}: shown", sorted(run(ns, table).splitlines()), sorted(want[table].values()))
    expect("links", get_links(ns), [(3, 0, 25 * 10**9, 1), ((1 << 24) - 2, 65534, 10**13, 65535)])
    expect("routes", get_routes(ns), ["10.2.7.1/32 - 4", "2001:db8::/32 0 1"])
    expect("JSON", run_json(ns, "link")[0], {"node": 3, "port": 0, "rate_bps": 25 * 10**9, "unit_bytes": 1})
    expect("JSON", run_json(ns, "route", "show"), [{"prefix": "10.2.7.1/32", "carrier": "csig"},
                                                  {"prefix": "2001:db8::/32", "where": "sender", "carrier": "ioam"}])
    # the command of the systemd service that loads a table at boot
    service = pathlib.Path(f"{TOP}/Documentation/boot/systemd/hpcc-table@.service").read_text(encoding="ascii")
    command, = re.findall("^ExecStart=hpccmon (.*)$", service, re.MULTILINE)
    for table in "link", "route":
        lines = run(ns, table, "show").splitlines()
        load_lines(other, table, "# a comment", "", *lines)
        expect(f"{table}, loaded", run(other, table).splitlines(), lines)
        name = tempfile.mkdtemp() + "/table"
        pathlib.Path(name).write_text(lines[0] + "\n", encoding="ascii")
        run(other, *command.replace("/etc/hpcc/%i", name).replace("%i", table).split())
        expect(f"{table}, at boot", run(other, table).splitlines(), lines[:1])
        run(ns, table, "flush")
        expect(f"{table}, flushed", (run(ns, table), run_json(ns, table)), ("", []))
    many = [f"node {node} port {port} rate 1gbit unit 1" for node in range(500) for port in range(100)]
    load_lines(ns, "link", *reversed(many))
    expect("many links", run(ns, "link").splitlines(), many)
    for lines, what in ((many[:1] * 2, "the request contains an entry twice"),
                        ([f"node 1 port {port % 60000} rate {1 + port // 60000}gbit" for port in range(65001)],
                         "the request has more entries than a table may have")):
        expect(what, load_lines(ns, "link", *lines, status=NOTHING), f"hpccmon link: {what}\n")
    expect("missing entry", run(ns, *"link del node 500 port 1".split(), status=NOTHING),
           "hpccmon link: the table has no such entry\n")
    output = run(ns, "link", "flush", status=NOTHING, user=65534)
    expect("flush by a user", output, "hpccmon link: Operation not permitted\n")
    expect("show by a user", run(ns, "link", user=65534).splitlines(), many)


def test_wrong_entries():
    """A wrong entry gives status 2 and the reason; nothing changes, even if other lines of the file are valid."""
    ns = Netns()
    verbs = "use one of show, set, del, flush, load; load needs a file"
    for line, what in (("link x", f"x: {verbs}"), ("link show 1", f"show ...: {verbs}"), ("link flush 1", f"flush ...: {verbs}"),
                       ("link load", f"load: {verbs}"), ("link flush --json", "only show accepts --json"),
                       ("link del node 1 port 2 rate 1gbit", "rate is not allowed here"), ("link del node 1", "which port?")):
        expect(line, run(ns, *line.split(), status=USAGE), f"hpccmon {line.split()[0]}: {what}\n")
    output = run(ns, "link", "load", "/none", status=NOTHING)
    expect("missing file", output, "hpccmon link: /none: No such file or directory\n")
    right = {"link": "node 5 port 5 rate 1gbit", "route": "prefix fd01::/16 where sender"}
    wrong = [*[("link", f"node 1 port 1 rate {bad}", f"rate {bad}: it has to be from 1kbit to 10tbit") for bad in (
                 "999", "0", "-1", "x", "1gb", "1gbitx", "1.5gbit", "11tbit", "99999999999999tbit", "18446744073709551616", "0x10")],
             *[("link", f"node 1 port 1 rate 1gbit unit {bad}", f"unit {bad}: it has to be from 1 to 65535") for bad in ("0", "65536", "1kbit")],
             ("link", "node 16777215", "node 16777215: it has to be from 0 to 16777214"), ("link", "port 65535", "port 65535: it has to be from 0 to 65534"),
             ("link", "node 1 port 2", "which rate?"), ("link", "rate 1gbit port 1", "which node?"), ("link", "node", "node needs a value"),
             ("link", "node 1 node 2", "node is given twice"), ("link", "node 1 rat 5", "rat is not allowed here"),
             ("link", "node 1 port 1 rate 1gbit unit 1 node 1", "node is given twice"),
             *[("route", f"prefix {bad}", f"prefix {bad}: it has to be ADDRESS/BITS") for bad in (
                 "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "10.0.0/8", "fd00::/129", "fd00:::/3", "/8", "f" * 80, "::/-1")],
             ("route", "where x", "where x: use one of sender, receiver"), ("route", "where 2", "where 2: use one of sender, receiver"),
             ("route", "carrier 5", "carrier 5: use one of tcp, ioam, int, ifa, csig"),
             *[("route", f"base_rtt_ns {bad}", f"base_rtt_ns {bad}: it has to be 0, or from 1000 to 1000000000") for bad in ("1", "5us")],
             ("route", "eta_permille 0", "eta_permille 0: it has to be from 1 to 1000"),
             ("route", "n_flows 1000001", "n_flows 1000001: it has to be 0, or from 1 to 1000000"),
             ("route", "sample 65", "sample 65: it has to be from 0 to 64")]
    for table, line, what in wrong:
        expect(line, run(ns, table, "set", "--", *line.split(), status=USAGE), f"hpccmon {table}: {what}\n")
        output = load_lines(ns, table, right[table], "# x", line, status=USAGE)
        expect(f"{line} of a file", output, f"hpccmon {table}: -:3: {what}\n")
    expect("tables", (get_links(ns), get_routes(ns)), ([], []))


COMPLETE = """
. /usr/share/bash-completion/bash_completion
. "$1/tools/completion/hpccmon"
. "$1/tools/completion/hpcc-lab"
compopt() { :; }
COMP_LINE=$2
COMP_POINT=${#COMP_LINE}
read -ra COMP_WORDS <<< "$COMP_LINE"
[[ $COMP_LINE != *" " ]] || COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
"_${COMP_WORDS[0]//-/_}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_completion():
    """bash completes commands, options, their values, and the ends of existing flows."""
    def completed(line):
        return sorted(pair.c.run("env", f"PATH={path}", "bash", "--norc", "-c", COMPLETE, "bash", TOP, line).split())

    if not os.path.exists("/usr/share/bash-completion/bash_completion"):
        raise Skip("needs bash-completion")
    if not os.path.exists("/dev/fd"):
        os.symlink("/proc/self/fd", "/dev/fd")
    pair, client, _ = joined(Pair(6))
    path = os.path.dirname(program()) + ":" + os.environ["PATH"]
    for line, want in (("hpccmon ", "--help --version events export flow key link observe path plot record route top"), ("hpccmon re", "record"),
                       ("hpccmon link ", "del flush load set show"), ("hpccmon link del ", "node port"),
                       ("hpccmon route set prefix ::/0 carrier i", "ifa int ioam"), ("hpccmon link set node 5 ", "node port rate unit"),
                       ("hpccmon top --s", "--sort="), ("hpccmon top --sort Q", "QUEUE"),
                       ("hpccmon events --", "--count= --json"), ("hpccmon record --ti", "--time="),
                       ("hpccmon flow ", f"[fd00::1]:{client.getsockname()[1]} [fd00::2]:5000"),
                       ("hpcc-lab ", "--help compare evaluate figures new rerun run"), ("hpcc-lab compare --ke", "--kernel --kernel-version"),
                       ("hpcc-lab run --kernel ", "host uml vm"), ("hpcc-lab figures --", "--help --out"),
                       ("hpcc-lab evaluate --", "--cc --help --kernel-version --out --seed --set --test"), ("hpcc-lab evaluate --test ", "")):
        expect(line, completed(line), want.split())
    # Completion offers all options of a command, and no others.
    head = run(pair.c, "--help")
    for command in re.findall(r"\thpccmon (\S+)", head):
        usage, = (line for line in head.splitlines() if line.startswith(f"\thpccmon {command} "))
        expect(command, completed(f"hpccmon {command} --"), sorted(re.findall(r"--[a-z-]+=?", usage)))


main(modules=["sch_hpcc"])
