#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpccmon observe: telemetry of flows of any congestion control."""

import collections
import ctypes
import os
from pathlib import Path as File
import random
import socket
import struct
import subprocess
import tempfile
import time

from lib.kernel import load, unload
from lib.ktap import cases, defer, expect, expect_in, main, need_virtual_time
from lib.monitor import end, interrupt, recorded, run, run_json, show, start
from lib.net import meet
from lib.packet import (CAP_QUIET, CAP_TELEMETRY, ECHO, FORWARD, IDENTIFY, IDENTIFY_ECHO, KIND, identity, option, quiet, record,
                        Sniffer, syn_option)
from lib.path import MBPS, Path
from lib.peer import Peer
from lib.plumbing import EXIT, load_bpf, mov, SYS_BPF
from lib.tcp import pattern, tcp_info, transfer

CUBIC = "cubic", "cubic"
USAGE, NOTHING = 2, 1
# Virtual time of test_slow.
SLOW_S = int(os.environ.get("HPCC_OBSERVE_S") or 60)
TCP_SAVE_SYN, SO_NETNS_COOKIE = 27, 71
BPF_MAP_CREATE, BPF_MAP_UPDATE_ELEM, BPF_MAP_GET_FD_BY_ID, BPF_MAP_TYPE_HASH = 0, 2, 14, 1
BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS = 13, 3
LIBC = ctypes.CDLL(None)


def cgroups(*names, top=None):
    """Mount the hierarchy of cgroups, and create these. Return its directory."""
    top = top or tempfile.mkdtemp()
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", top], check=True)
    defer(subprocess.run, ["umount", top])
    for name in names:
        os.mkdir(f"{top}/{name}")
        defer(remove, f"{top}/{name}")
    defer(enter, top)
    return top


def remove(cgroup):
    """Remove a cgroup, unless the test did."""
    if os.path.exists(cgroup):
        os.rmdir(cgroup)


def enter(cgroup):
    """Let this process create sockets in a cgroup from now on."""
    with open(f"{cgroup}/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))


def observe(ns, cgroup, *words):
    """Start "hpccmon observe", and wait until it observes. It ends with the test."""
    return started(start(ns, "observe", f"--cgroup={cgroup}", *words), cgroup)


def started(process, cgroup):
    """Wait until an observer observes. It ends with the test."""
    line = process.stderr.readline()
    if not line.startswith("observing"):
        line += process.stderr.read()
    expect("output", line, f"observing new connections of {cgroup}; Ctrl-C ends\n")
    defer(interrupt, process)
    return process


def slow_path(slow, **how):
    """Return a path of CUBIC hosts and three switches. The second switch has a slow link of this many Mbit/s."""
    path = Path(switches=3, **({"cc": CUBIC} | how))
    path.change(2, f"hpcc rate {slow}mbit delay 20us node 2 port 2")
    return path


def send_until(ends, deadline, look, every=1000000):
    """Send data, and call look() after each part, until look() returns true. Return the time that is left."""
    while not look():
        left = deadline - time.monotonic()
        expect_in("time left", left, 0, 1e9)
        transfer((*ends, pattern(every)))
    return deadline - time.monotonic()


def test_without_module():
    """Without tcp_hpcc, a command that needs it does not recommend to load it for observed flows."""
    path = Path(switches=0, cc=CUBIC)
    expect("unload", unload(path.a, 100), True)
    defer(load, path.a)
    advice = "tcp_hpcc is not loaded; load it with: modprobe tcp_hpcc"
    expect("no observer", run(path.a, "flow", status=NOTHING), f"hpccmon flow: {advice}\n")
    observe(path.a, cgroups())
    ends = path.connect()
    transfer((*ends, pattern(1000)))
    expect("mode", only(path.a)["mode"], "observed")
    expect("events", run(path.a, "events", status=NOTHING),
           "hpccmon events: tcp_hpcc is not loaded; for observed flows there are only flow, top, path, record and export\n")
    expect("other user", run(path.a, "flow", status=NOTHING, user=65534),
           f"hpccmon flow: {advice}, or see flows of hpccmon observe with CAP_SYS_ADMIN\n")


def test_no_record():
    """An observed flow without records has no U."""
    path = Path(switches=0, cc=CUBIC)
    observe(path.a, cgroups())
    ends = path.connect()
    transfer((*ends, pattern(3000000)))
    flow = only(path.a)
    expect("received, U", (flow["received"], flow.get("U")), (0, None))
    expect_in("text", "\n  U -  eta 0.950  incStage 0\n" in run(path.a, "flow"), 1, 1)
    title, row = run(path.a, "top", "--once").splitlines()[:2]
    expect("column U of top", row[:title.index(" U ") + 2].split()[-1], "-")
    text = run(path.a, "export", "--flows", "--textfile=-")
    expect("series", "hpcc_flow_utilization_ratio{" in text, False)


def links_of(flow):
    return [(hop.get("node"), hop.get("port"), hop.get("B_bps")) for hop in flow["hops"]]


def only(ns):
    """Return the only flow, as hpccmon shows it."""
    flow, = run_json(ns, "flow")
    return flow


@cases(fast=(MBPS // 4, 5, 1000000), slow=(20, SLOW_S, 2000000))
def slow_hop(slow, seconds, part):
    """hpccmon names the slow hop of a CUBIC flow within a second, and no other hop later."""
    need_virtual_time()
    path = slow_path(slow)
    observe(path.a, cgroups())
    begin = time.monotonic()
    ends = path.connect()
    send_until(ends, begin + 1, lambda: (only(path.a)["hops"] or [{}])[-1].get("B_bps") and
               only(path.a).get("holds") == 2, slow * 3000)
    flow = only(path.a)
    show(run(path.a, "flow"))
    show(run(path.a, "path", path.addr[1]))
    want = [(i, 2, (slow if i == 2 else MBPS) * 1000000) for i in (1, 2, 3)]
    expect("links", links_of(flow), want)
    expect("cc, mode", (flow["cc"], flow["mode"]), ("cubic", "observed"))
    expect("path", links_of(run_json(path.a, "path", path.addr[1])), want)
    holds = []
    while time.monotonic() < begin + seconds:
        transfer((*ends, pattern(part)))
        flow = only(path.a)
        holds.append(flow["holds"])
    print("#", len(holds), flow["hops"], flow["U"])
    expect("false hops", [hop for hop in holds if hop != 2], [])
    expect_in("looks", len(holds), 10, 1000000)
    expect("malformed", flow["malformed"], 0)


def test_rare():
    """With a message each 1.2 s, the loads of 7 hops are known, though a request has the records of three hops."""
    need_virtual_time()
    path = Path(switches=7, cc=CUBIC)
    observe(path.a, cgroups())
    ends = path.connect()
    for _ in range(20):
        time.sleep(1.2)
        transfer((*ends, pattern(1000)))
    show(run(path.a, "flow"))
    expect("hops with a load", [hop["hop"] for hop in only(path.a)["hops"] if "u" in hop], [1, 2, 3, 4, 5, 6, 7])


def test_commands():
    """top, record and export show observed flows."""
    path = slow_path(MBPS // 4)
    observe(path.a, cgroups())
    ends = path.connect()
    name = tempfile.mkdtemp() + "/a"
    recorder = start(path.a, "record", "-o", name, "--delay=0.01")
    send_until(ends, time.monotonic() + 2, lambda: only(path.a).get("holds") == 2)
    time.sleep(0.05)
    show(interrupt(recorder)[1])
    lines = recorded(name)
    expect("modes of the recording", {line["mode"] for line in lines}, {"observed"})
    expect_in("u' of hop 2", float(lines[-1]["u"].split()[1]), 0.9, 65536)
    row = run(path.a, "top", "--once").splitlines()[1].split()
    show(" ".join(row))
    expect("row", (row[2], "cubic" in " ".join(row)), ("observed", True))
    text = run(path.a, "export", "--flows", "--names", "--textfile=-")
    expect("metrics", [line for line in text.splitlines() if line.startswith('hpcc_flows{mode="observed"}')],
           ['hpcc_flows{mode="observed"} 1'])
    expect("hops", sum(line.startswith("hpcc_flow_hop_utilization_ratio{") for line in text.splitlines()), 3)
    expect("flows of another namespace", run(path.b, "flow", f"{path.addr[0]}:1", status=NOTHING).split(":")[0], "hpccmon flow")


@cases(module_receives=("cubic", "hpcc", 4), module_receives_ipv6=("bbr", "hpcc", 6), module_sends=("hpcc", "cubic", 4),
       module_sends_ipv6=("hpcc", "reno", 6))
def with_module(client_cc, server_cc, version):
    """An observed flow and tcp_hpcc answer each other's requests."""
    path = Path(version, switches=5, cc=(client_cc, server_cc))
    observe(path.a, cgroups())
    ends = path.connect()
    path.a.ask()
    send_until(ends, time.monotonic() + 5, lambda: len(only(path.a)["hops"]) == 5 and all(hop.get("node") and "u" in hop
                                                                                           for hop in only(path.a)["hops"]))
    a, b = only(path.a), only(path.b)
    show(run(path.a, "flow"))
    for flow, cc in (a, client_cc), (b, server_cc):
        expect("mode", flow["mode"], "telemetry" if cc == "hpcc" else "observed")
        expect("malformed", flow["malformed"], 0)
    transfer((*ends[::-1], pattern(300000)))
    for ns in path.hosts:
        counters = ns.counters()
        expect("errors", [counters[name] for name in ("malformed_ignored", "bad_hop_ignored", "syn_invalid")], [0] * 3)


def test_hpcc_stays():
    """Sockets of hpcc in an observed cgroup stay with the module."""
    path = Path(switches=3)
    observe(path.a, cgroups())
    ends = path.connect()
    transfer((*ends, pattern(1000000)))
    for ns in path.hosts:
        expect("mode", only(ns)["mode"], "telemetry")
    expect("hops", len(only(path.a)["hops"]), 3)
    path.no_errors()


def test_route_selects_hpcc():
    """If a route selects hpcc for the child of a listener with CUBIC, the module serves it, though the program answered."""
    path = slow_path(MBPS // 4)
    path.b.ip("route replace 10.0.0.0/24 dev left congctl hpcc")
    observe(path.a, cgroups())
    ends = path.connect()
    send_until(ends, time.monotonic() + 2, lambda: only(path.a).get("holds") == 2)
    send_until(ends[::-1], time.monotonic() + 2, lambda: len(only(path.b)["hops"]) == 3)
    expect("modes", (only(path.a)["mode"], only(path.b)["mode"]), ("observed", "telemetry"))
    for ns in path.hosts:
        counters = ns.counters()
        expect("ignored", [counters[name] for name in ("malformed_ignored", "bad_hop_ignored", "syn_invalid")], [0] * 3)


def test_bytes():
    """An observed receiver echoes valid requests, byte by byte, and ignores and counts other options."""
    peer = Peer(cc="cubic")
    observe(peer.ns, cgroups())
    peer.listen()
    synack, _ = peer.accept(syn_option(caps=CAP_TELEMETRY | CAP_QUIET))
    expect("SYN-ACK", synack.option(KIND), syn_option(caps=CAP_TELEMETRY | CAP_QUIET))

    def echoes(options, **how):
        peer.send(options.ljust(-len(options) % 4 + len(options), b"\1"), b"x", **how)
        return [(opt.type, opt.scale, opt.hops, opt.raw[4:]) for seg in peer.read_all(0.1) for opt in seg.ours()]

    one, two, free = record(1, 1000, 500, 3, 7), record(2, 2000, 600, 4, 8), bytes(8)
    expect("load", echoes(option(FORWARD, [one, two], 5)), [(ECHO, 5, 2, one + two)])
    expect("names", echoes(option(IDENTIFY, [identity(1, 5, 6), free], 5)), [(IDENTIFY_ECHO, 5, 2, identity(1, 5, 6))])
    expect("quiet", echoes(option(FORWARD, [two, free], 5, hops=3)), [(ECHO, 5, 3, quiet(1, 3) + two)])
    expect("phase 1", echoes(option(FORWARD, [record(3, 1, 1), free], 5, hops=4, flags=1)), [(ECHO, 5, 4, quiet(4) + record(3, 1, 1))])
    expect("all quiet", echoes(option(FORWARD, [free], 5, hops=2)), [(ECHO, 5, 2, quiet(1, 2))])
    bad = [option(kind, [one]) for kind in (0, 5, 7)] + [option(ECHO, [one], 9), option(IDENTIFY_ECHO, [one], 9)] + \
        [option(FORWARD, [one], length=length) for length in (5, 11)] + \
        [option(FORWARD, [two], hops=1), option(FORWARD, [one, one]), option(FORWARD, [one, record(0, 5, 5)])]
    for number, options in enumerate(bad, 1):
        expect(f"echoes of {options.hex()}", echoes(options), [])
        expect("malformed", only(peer.ns)["malformed"], number)
    for what, options, how in (("ACK number", option(FORWARD, [one]), {"ack": peer.acked + 100000}), ("no length", b"\xfd", {}),
                               ("length 1", b"\xfd\1", {}), ("beyond the header", option(FORWARD, [one], length=40), {}),
                               ("no data", option(FORWARD), {}),
                               ("truncated", b"\xc8\2" + option(FORWARD, [one], length=20), {})):
        expect(what, echoes(options, seq=peer.seq, **how), [])
        # Linux 7.2 discards some of these. SACK blocks of several gaps would leave no room for an echo.
        peer.send(payload=b"x")
    expect("load again", echoes(option(FORWARD, [one], 5)), [(ECHO, 5, 1, one)])


@cases(small_mss=(True,), small_mss_without_timestamps=(False,))
def small_mss(timestamps):
    """With an MSS of 48, the least that TCP accepts, requests and echoes fit, and all data arrive."""
    peer = Peer(cc="cubic", timestamps=timestamps)
    peer.mss = 48
    observe(peer.ns, cgroups())
    peer.listen()
    peer.accept(syn_option(caps=CAP_TELEMETRY | CAP_QUIET))
    got, want, requests = b"", b"", 0
    for number in range(20):
        time.sleep(0.25)
        want += pattern(400, number)
        peer.sock.sendall(want[-400:])
        while (seg := peer.take(0.02)):
            got += seg.payload
            requests += sum(opt.type in (FORWARD, IDENTIFY) for opt in seg.ours())
            expect_in("bytes of options and data", len(seg.payload) + len(seg.options), 1, 48)
            peer.send()
    expect("data", got == want, True)
    expect_in("requests", requests, 5, 8000)
    one = record(1, 1000, 500, 3, 7)
    peer.send(option(FORWARD, [one], 5), b"1234")
    expect("echo", [opt.raw[4:] for seg in peer.read_all(0.1) for opt in seg.ours()], [one])


def test_full():
    """Real connections fill the map: hpccmon reports it when it happens, and connections that end make room."""
    path = Path(switches=1, cc=CUBIC)
    process = observe(path.a, cgroups(), "--flows=4")
    for number in range(10):
        ends = path.connect(5001 + number)
        transfer((*ends, pattern(1000)))
        for end_ in ends:
            end_.close()
        time.sleep(0.01)
    kept = [path.connect(6001 + number) for number in range(2)]
    expect("observed", len(run_json(path.a, "flow")), 2)
    kept += [path.connect(7001 + number) for number in range(3)]
    time.sleep(0.5)
    os.set_blocking(process.stderr.fileno(), False)
    expect("message", process.stderr.readline(), "4 flows are observed, and there is no space for more (--flows)\n")
    expect("observed of many", len(run_json(path.a, "flow")), 2)
    expect("sockets", len(kept), 5)


def test_ended():
    """With --ended a flow that has ended stays, with its hops."""
    path = slow_path(MBPS // 4)
    observe(path.a, cgroups(), "--ended")
    ends = path.connect()
    transfer((*ends, pattern(3000000)))
    before = only(path.a)
    for end_ in ends:
        end_.close()
    time.sleep(0.5)
    after = only(path.a)
    expect("holds", (before["holds"], after["holds"]), (2, 2))
    expect("U", after["U"], before["U"])


def port_bytes(path):
    return [(path.port(node)["packets"], path.port(node)["bytes"]) for node in (1, 2, 3)]


def test_off():
    """Before an observer starts and after it has ended, the bytes on the wire are the same."""
    need_virtual_time()
    sent = []
    for on in False, True:
        path = slow_path(MBPS // 4)
        if on:
            interrupt(observe(path.a, cgroups()))
        ends = path.connect()
        transfer((*ends, pattern(3000000)))
        time.sleep(0.5)
        sent.append(port_bytes(path))
    expect("packets and bytes", sent[1], sent[0])


def test_other_peer():
    """A peer that is not observed and has no module gets one option, in the SYN."""
    path = slow_path(MBPS // 4)
    top = cgroups("a", "b")
    observe(path.a, f"{top}/a")
    enter(f"{top}/b")
    listener = path.b.listen(path.addr[1], 5000)
    enter(f"{top}/a")
    client, server = meet(path.a.socket(), listener)
    transfer((client, server, pattern(1000000)), (server, client, pattern(1000000)))
    expect("stamped", [path.port(node)["hpcc"]["stamped"] for node in (1, 2, 3)], [0] * 3)
    expect("MSS", tcp_info(client)["snd_mss"], 1448)
    for ns in path.hosts:
        run(ns, "flow", status=NOTHING)


def test_full_segments():
    """Requests in segments that fill the MSS replace bytes of data: no packet exceeds the MTU."""
    path = slow_path(MBPS // 4)
    observe(path.a, cgroups())
    ends = path.connect()
    sniffer = Sniffer(path.b, "left")
    transfer((*ends, pattern(6000000)))
    segments = [seg for seg in sniffer.segments() if seg.payload]
    lengths = [len(seg.payload) for seg in segments if seg.telemetry(FORWARD) or seg.telemetry(IDENTIFY)]
    print("#", len(segments), sorted(set(lengths)), sorted({len(seg.payload) for seg in segments}))
    expect_in("requests in full segments", lengths.count(1420), 1, len(segments))
    expect_in("longest with a request", max(lengths), 1, 1420)
    expect("retransmissions", path.a.snmp("RetransSegs"), 0)


@cases(goodput=("cubic", (10000, 100000, 400000, 900000, 3000000)),
       goodput_bbr=("bbr", (10000, 100000, 400000, 900000, 3000000)))
def goodput(cc, sizes):
    """Observed flows of all sizes take as long as others, and no packet exceeds the MTU."""
    need_virtual_time()
    took = {}
    for on in False, True:
        path = slow_path(MBPS // 4, cc=(cc, cc))
        if on:
            observe(path.a, cgroups())
        for size in sizes:
            ends = path.connect(port=5000 + size % 997)
            begin = time.monotonic()
            transfer((*ends, pattern(size)))
            took[on, size] = time.monotonic() - begin
        expect("fragments", [int(path.a.read("/proc/net/snmp").splitlines()[1].split()[i]) for i in (17, 18)], [0, 0])
    for size in sizes:
        print(f"# {size} bytes: {took[False, size] * 1e3:.3f} ms, observed {took[True, size] * 1e3:.3f} ms")
        expect_in(f"time of {size} bytes", took[True, size] / took[False, size], 0.9, 1.005 if size > 1000000 else 1.001)


def test_two_observers():
    """An observer that has no space for a flow, and runs last, leaves the flow to the other one."""
    path, top = slow_path(MBPS // 4), cgroups("a")
    observe(path.a, top, "--flows=1")
    observe(path.a, f"{top}/a")
    enter(f"{top}/a")
    ends = path.connect()
    send_until(ends, time.monotonic() + 3, lambda: [flow for flow in run_json(path.a, "flow") if len(flow["hops"]) == 3])


def test_save_syn():
    """A listener whose application saves MAC headers, too (TCP_SAVE_SYN=2), keeps this value."""
    path = Path(switches=0, cc=CUBIC)
    observe(path.a, cgroups())
    for value, want in (2, 2), (0, 1):
        sock = path.b.socket()
        sock.setsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN, value)
        path.b.listen(path.addr[1], 5000 + value, sock)
        expect("TCP_SAVE_SYN", sock.getsockopt(socket.IPPROTO_TCP, TCP_SAVE_SYN), want)


def bpf(command, how):
    """Call bpf(2). Return its result."""
    result = LIBC.syscall(SYS_BPF[os.uname().machine], command, ctypes.create_string_buffer(how, 128), 128)
    expect_in(f"result of bpf({command})", result, 0, 1 << 20)
    return result


def files_of(process):
    """Return the state of all files of an observer, as /proc has it."""
    return [dict(line.split(":\t") for line in file.read_text(encoding="ascii").splitlines() if ":\t" in line)
            for file in File(f"/proc/{process.pid}/fdinfo").iterdir()]


def runs(process):
    """Return how often the program of an observer has run."""
    number, = (int(info["run_cnt"]) for info in files_of(process) if "run_cnt" in info)
    return number


def test_calls():
    """The program runs once per RTT, and for segments with options. While another program may want its callbacks, it runs for
    each packet, also in connections that exist."""
    File("/proc/sys/kernel/bpf_stats_enabled").write_text("1", encoding="ascii")
    path = slow_path(MBPS // 4)
    observer = observe(path.a, cgroups())
    ends = path.connect()
    send_until(ends, time.monotonic() + 2, lambda: only(path.a).get("holds") == 2)

    def runs_per_ack():
        before, received, acks = runs(observer), only(path.a)["received"], path.b.snmp("OutSegs")
        transfer((*ends, pattern(10000000)))
        expect_in("echoes", only(path.a)["received"] - received, 10, 1000)
        return (runs(observer) - before) / (path.b.snmp("OutSegs") - acks)

    alone = runs_per_ack()
    foreign = load_bpf(mov(0, 1) + EXIT, BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS)
    time.sleep(1.5)
    beside = runs_per_ack()
    os.close(foreign)
    time.sleep(1.5)
    again = runs_per_ack()
    print("# runs per ACK:", alone, beside, again)
    expect_in("alone", alone, 0, 1)
    expect_in("beside another program", beside, 2, 100)
    expect_in("alone again", again, 0, 1)


def own_map(process):
    """Return the number of the map of an observer's flows, and the size of its values."""
    (number, size), = ((int(info["map_id"]), int(info["value_size"])) for info in files_of(process)
                       if info.get("map_type") == "1")
    return number, size


def forge(path, fd, size, values, key_bytes=8):
    """Write values into a map, after the cookie of host a's namespace. @values: by key."""
    with path.a:
        cookie = socket.socket().getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)
    for number, value in values.items():
        key = ctypes.create_string_buffer(struct.pack("=Q", number), key_bytes)
        value = ctypes.create_string_buffer((cookie + value)[:size], size)
        bpf(BPF_MAP_UPDATE_ELEM, struct.pack("=IxxxxQQ", fd, ctypes.addressof(key), ctypes.addressof(value)))


def test_foreign_map():
    """A map with the name and the layout of an observer's, but without its program, neither shows nor hides flows."""
    path = Path(switches=0, cc=CUBIC)
    size = own_map(observe(path.a, cgroups()))[1]
    transfer((*path.connect(), pattern(1000)))
    before = {flow["cookie"]: flow for flow in run_json(path.a, "flow")}
    for key_bytes in 8, 16:
        fd = bpf(BPF_MAP_CREATE, struct.pack("=7I16s", BPF_MAP_TYPE_HASH, key_bytes, size, 8, 0, 0, 0, b"hpcc_observed"))
        defer(os.close, fd)
        # An echo more than any other map has.
        value = bytes(36) + b"forged".ljust(16, b"\0") + struct.pack("=II4xQI", 1, 1, 1, 0xffffffff)
        forge(path, fd, size, dict.fromkeys([*before, 1, 2], value), key_bytes)
    expect("flows", {flow["cookie"]: flow["cc"] for flow in run_json(path.a, "flow")}, dict.fromkeys(before, "cubic"))
    expect("number of flows", len(before), 1)


def test_flow_of_two_observers():
    """A flow that two observers report is shown once, with its hops."""
    path, top = slow_path(MBPS // 4), cgroups("a")
    enter(f"{top}/a")
    for cgroup in top, f"{top}/a":
        observe(path.a, cgroup)
    transfer((*path.connect(), pattern(2000000)))
    flow, = run_json(path.a, "flow")
    expect("congestion control, hops", (flow["cc"], len(flow["hops"])), ("cubic", 3))


def forged_values():
    """Yield values of a map with any state. Half of them have a scale and W as of an observer."""
    chance = random.Random(1)
    for name in b"cubic", b"\x1b[2J\x9b\r\n", 16 * b"c":
        for number in range(100):
            state = bytearray(chance.randbytes(2000) if number else 2000 * b"\xff")
            if number % 2:
                state[17:20], state[68] = bytes(3), number % 32
            yield bytes(36) + name.ljust(16, b"\0") + state


def test_forged_map():
    """hpccmon shows any values of a map as text, or not at all: it neither fails nor prints escapes."""
    path = Path(switches=0, cc=CUBIC)
    number, size = own_map(observe(path.a, cgroups()))
    fd = bpf(BPF_MAP_GET_FD_BY_ID, struct.pack("=I", number))
    defer(os.close, fd)
    forge(path, fd, size, dict(enumerate(forged_values())))
    for words in ["flow"], ["flow", "--json"], ["top", "--once"], ["export", "--flows", "--names", "--textfile=-"]:
        output = run(path.a, *words)
        expect(f"control characters of {words}",
               {char for char in output if char != "\n" and not char.isprintable()}, set())
    names = [flow["cc"] for flow in run_json(path.a, "flow")]
    expect("flows", collections.Counter(names), {"cubic": 50, 15 * "c": 50})


def without_perfmon():
    """Drop CAP_PERFMON and CAP_SYS_ADMIN from the bounding set."""
    for cap in 38, 21:
        LIBC.prctl(24, cap, 0, 0, 0)


def test_errors():
    """A cgroup that is wrong or goes, missing privileges, and a wrong command line give one line."""
    path, top = Path(switches=0), cgroups("gone")
    for words, status, output in (
            (["--cgroup=/tmp"], USAGE, "--cgroup /tmp: it has to be a directory of a cgroup v2 file system"),
            (["--cgroup=/none"], USAGE, "--cgroup /none: it has to be a directory of a cgroup v2 file system"),
            (["--cgroup=/etc/passwd"], USAGE, "--cgroup /etc/passwd: it has to be a directory of a cgroup v2 file system"),
            (["--kind=252"], USAGE, "--kind 252: it has to be from 253 to 254"),
            (["--flows=0"], USAGE, "--flows 0: it has to be from 1 to 1048576"),
            (["--exid=65536"], USAGE, "--exid 65536: it has to be from 0 to 65535"),
            (["x"], USAGE, "x: too many arguments: use one of --cgroup, --flows, --kind, --exid, --ended"),
            ([], NOTHING, "no cgroup v2 file system is mounted at /sys/fs/cgroup; --cgroup names another place")):
        expect(" ".join(words), run(path.a, "observe", *words, status=status), f"hpccmon observe: {output}\n")
    os.chmod(top, 0o755)
    expect("other user", run(path.a, "observe", f"--cgroup={top}", status=NOTHING, user=65534),
           "hpccmon observe: the kernel refuses the BPF program: root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, is needed\n")
    *log, last = run(path.a, "observe", f"--cgroup={top}", status=NOTHING, preexec_fn=without_perfmon).splitlines()
    show(log)
    expect("without CAP_PERFMON", last, "hpccmon observe: the kernel refuses the BPF program: "
           "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are needed")
    process = observe(path.a, f"{top}/gone")
    os.rmdir(f"{top}/gone")
    expect("removed", end(process, "observe", NOTHING), f"hpccmon observe: the cgroup {top}/gone was removed\n")
    top = cgroups(top="/sys/fs/cgroup")
    started(start(path.a, "observe"), f"{top}, which has all processes (--cgroup selects another one)")


main(modules=["sch_hpcc"])
