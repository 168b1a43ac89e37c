#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""hpccmon export, under UBSan and, in a virtual machine, ASan; tools/grafana."""

import contextlib
import ctypes
import http.client
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from lib.genl import cookie
from lib.kernel import load, unload, virtual_time
from lib.ktap import defer, expect, expect_in, main, need_virtual_time
from lib.monitor import end, program, run, start
from lib.net import Netns, crowd, same_ends
from lib.path import look_while_sending, slow_hop
from lib.peer import T_NS, Flow, Link, fall_back, measured
from lib.prometheus import Metrics, dashboard, expressions, rules
from lib.tcp import pattern, transfer

USAGE, NOTHING = 2, 1
PORT = 4722
CLOSED = None
NOT_LOADED = "hpccmon export: tcp_hpcc is not loaded; load it with: modprobe tcp_hpcc\n"


def mode(name):
    return oct(os.stat(name).st_mode & 0o777)


def textfile(ns, *words, status=0):
    """Return the output of "hpccmon export --textfile"."""
    folder = tempfile.mkdtemp()
    output = run(ns, "export", f"--textfile={folder}/hpcc.prom", *words, status=status)
    expect("output", output, NOT_LOADED if status else "")
    expect("files, mode", (os.listdir(folder), mode(f"{folder}/hpcc.prom")), (["hpcc.prom"], "0o644"))
    return Path(f"{folder}/hpcc.prom").read_text("ascii")


def serve(ns, *words):
    """Start the server, and wait until it listens."""
    # By default AddressSanitizer keeps 256 MB of freed memory, which would count as the server's.
    process = start(ns, "export", *words, env=os.environ | {"ASAN_OPTIONS": "quarantine_size_mb=1"})
    output = process.stderr.readline()
    expect(f"listens: {output}", re.fullmatch(r"http://\S+/metrics; Ctrl-C ends\n", output) is not None, True)
    return process


def stop(process):
    process.send_signal(signal.SIGINT)
    end(process, "export")


def client(ns, addr="127.0.0.1", room=0):
    """Return a connection to the server, with a receive buffer of `room` bytes."""
    with ns:
        sock = socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET)
    defer(sock.close)
    sock.settimeout(60)
    if room:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    sock.connect((addr, PORT))
    return sock


def answer(sock):
    """Read a response. Return its status, headers and text; the status is CLOSED if there is none."""
    response = http.client.HTTPResponse(sock)
    try:
        response.begin()
    except http.client.RemoteDisconnected:
        return CLOSED, {}, ""
    return response.status, response.headers, response.read().decode()


GET = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"


def ask(ns, request=GET + "\r\n", addr="127.0.0.1"):
    sock = client(ns, addr)
    sock.sendall(request.encode("latin-1"))
    found = answer(sock)
    sock.close()
    return found


def test_without_the_module():
    """A file and HTTP show hpcc_up 0. This test is the first: connections of other tests take minutes to end."""
    program()
    ns = Netns()
    server = serve(ns)
    expect("up", Metrics(ask(ns)[2]).one("hpcc_up"), 1)
    expect("unload", unload(ns, 100), True)
    text = textfile(ns, status=NOTHING)
    expect("metrics", dict(Metrics(text)), {"hpcc_up": {frozenset(): 0}})
    time.sleep(0.6)
    expect("text by HTTP", ask(ns)[2], text)
    load(ns)
    time.sleep(0.6)
    expect("up", Metrics(ask(ns)[2]).one("hpcc_up"), 1)
    stop(server)


def test_usage():
    """A wrong command line is rejected with one line, which lists what is allowed."""
    ns = Netns()
    for line, output in (("x", "x: export shows all flows, and has no filter"),
                       ("--flows=0", "--flows 0: it has to be from 1 to 1000"),
                       ("--flows=1001", "--flows 1001: it has to be from 1 to 1000"),
                       ("--flows=1.5", "--flows 1.5: it has to be a whole number"),
                       ("--names", "--names: needs --flows"),
                       ("-t x -l 127.0.0.1:1", "--textfile and --listen: choose one"),
                       ("-t x --host=h", "--host: needs --listen"),
                       ("--not", "--not: use one of --flows, --host=VALUE, --listen=VALUE, --names, --textfile=VALUE"),
                       *((f"--listen={word}", f"--listen {word}: write ADDR:PORT or [ADDR]:PORT") for word in
                         (":80", "127.0.0.1", "[::1]", "::1", "localhost:80", "127.0.0.1:0", "127.0.0.1:65536"))):
        expect(line, run(ns, "export", *line.split(), status=USAGE), f"hpccmon export: {output}\n")
    server = serve(ns)
    expect("in use", run(ns, "export", status=NOTHING), f"hpccmon export: 127.0.0.1:{PORT}: Address already in use\n")
    stop(server)
    expect("address of another host", run(ns, "export", "-l", "192.0.2.1:80", status=NOTHING),
           "hpccmon export: 192.0.2.1:80: Cannot assign requested address\n")


def test_textfile_is_whole():
    """A reader of the file gets one complete export; a file that cannot be written stays unchanged."""
    pair, listener, _ = crowd(20)
    folder = tempfile.mkdtemp()
    name = f"{folder}/hpcc.prom"
    run(pair.c, "export", "--flows", "-t", name)
    with open(name, encoding="ascii") as file:
        pair.connect(listener)
        run(pair.c, "export", "--flows", "-t", name)
        expect("flows for a reader of the old file", len(Metrics(file.read())["hpcc_flow_window_bytes"]), 20)
    expect("flows in the new file", len(Metrics(Path(name).read_text("ascii"))["hpcc_flow_window_bytes"]), 21)
    before = os.stat(name)
    output = run(pair.c, "export", "--flows", "-t", name, status=NOTHING,
                 preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                                     resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))))
    expect("file too long", output, f"hpccmon export: {name}: File too large\n")
    expect("file, folder after the error", (os.stat(name), os.listdir(folder)), (before, ["hpcc.prom"]))
    output = run(pair.c, "export", "-t", "-", cwd=folder)
    expect("standard output", (Metrics(output).one("hpcc_up"), os.listdir(folder)), (1, ["hpcc.prom"]))
    with open("/dev/full", "w", encoding="ascii") as full:
        expect("full disk", run(pair.c, "export", "-t", "-", stdout=full, status=NOTHING),
               "hpccmon export: cannot write: No space left on device\n")
    os.mkdir(f"{folder}/dir")
    os.symlink("/dev/null", f"{folder}/link")
    irregular = "it exists, and is not a regular file"
    for what, wrong in ("none/x", "No such file or directory"), ("dir", irregular), ("link", irregular):
        expect(what, run(pair.c, "export", "-t", f"{folder}/{what}", status=NOTHING),
               f"hpccmon export: {folder}/{what}: {wrong}\n")
    found = sorted(os.listdir(folder)), os.path.islink(f"{folder}/link")
    expect("folder, link is a link", found, (["dir", "hpcc.prom", "link"], True))
    mask = os.umask(0o077)
    run(pair.c, "export", "-t", name)
    os.umask(mask)
    expect("umask", mode(name), "0o600")


def test_same_as_netlink():
    """The exported values equal the values of netlink."""
    program()
    for version in 4, 6:
        flow, link, _ = measured(3, 0.8, 0.25, version=version)
        flow.round(link.step(-9100))
        before = flow.ns.counters()
        metrics = Metrics(textfile(flow.ns, "--flows"))
        want, = flow.ns.dump()
        here, there = (f"{want[addr]}" if version == 4 else f"[{want[addr]}]" for addr in ("laddr", "raddr"))
        who = {"local": f"{here}:{want['lport']}", "peer": f"{there}:{want['rport']}"}
        for name, value in flow.ns.counters().items():
            expect_in(name, metrics.one(f"hpcc_{name}_total"), before[name], value)
        for name, value in (("window_bytes", want["w"]), ("rate_bytes_per_second", want["r"]),
                            ("utilization_ratio", want["u"] / 2**24), ("eta_ratio", want["eta"] / 2**24),
                            ("base_rtt_seconds", want["t"] / 1e9), ("telemetry_received_total", 4),
                            ("hop_utilization_ratio", want["hop"][0]["u"] / 2**24),
                            ("hop_queue_seconds", want["hop"][0]["qlen"] / 1e9), ("hop_bottleneck", 1)):
            expect(name, round(metrics.one(f"hpcc_flow_{name}", **who), 8), round(value, 8))
        expect("hop", metrics.labels("hpcc_flow_hop_bottleneck"), [who | {"hop": "1"}])
        expect("info", metrics.labels("hpcc_flow_info"), [who | {"mode": want["mode"], "fell_back": "none"}])
        name = "hpcc_flow_telemetry_ignored_total"
        expect("ignored", {labels["reason"]: metrics.one(name, **labels) for labels in metrics.labels(name)},
               {"malformed": 0, "bad_hop": 0, "ts_back": 1, "tx_excess": 0, "unsigned": 0, "wrong_tag": 0, "replayed": 0})
        for name in "telemetry", "ignoring", "classic", "doubting":
            expect(name, metrics.one("hpcc_flows", mode=name), want["mode"] == name)
        # In real time hpccmon may start so late that the flow is idle by then.
        if virtual_time():
            expect("sums", [metrics.one(f"hpcc_flows_{name}_sum") for name in ("window_bytes", "rate_bytes_per_second")],
                   [want["w"], want["r"]])
            name = "hpcc_flows_utilization_ratio_bucket"
            least = min(float(labels["le"]) for labels in metrics.labels(name) if metrics.one(name, **labels))
            expect_in("U's bucket", want["u"] / 2**24, least / 2, least)
        time.sleep(0.2 + 80e-9 * T_NS)
        metrics = Metrics(textfile(flow.ns))
        expect("windows of an idle flow", metrics.one("hpcc_flows_window_bytes_count"), 0)
        expect("without --flows", [name for name in metrics if name.startswith("hpcc_flow_")], ["hpcc_flow_limit_total"])


def test_same_ends():
    """A label for the interface distinguishes flows with the same ends on two links."""
    ns, ends = same_ends()
    found = Metrics(textfile(ns, "--flows")).labels("hpcc_flow_window_bytes")
    expect("ends", {(labels["local"], labels["peer"]) for labels in found}, {("[fe80::1]:4000", "[fe80::2]:5000")})
    expect("interfaces", {int(labels["ifindex"]) for labels in found}, {here for _, here, _ in ends})


def test_many_flows():
    """--flows limits the number of flows with series: first flows that fell back, then always the same other flows."""
    pair, listener, _ = crowd(300, 6)
    few, all_of_them = (Metrics(textfile(pair.c, f"--flows={nr}")) for nr in (10, 1000))
    for metrics, nr in (few, 10), (all_of_them, 300):
        expect("flows, omitted", (metrics.one("hpcc_flows", mode="telemetry"), metrics.one("hpcc_flows_omitted")),
               (300, 300 - nr))
        expect("U of idle flows", metrics.one("hpcc_flows_utilization_ratio_count"), 0)
        expect("series", {len(samples) for name, samples in metrics.items() if name.startswith("hpcc_flow_")
                          and name not in ("hpcc_flow_telemetry_ignored_total", "hpcc_flow_limit_total")}, {nr})
    expect("omitted without --flows", Metrics(textfile(pair.c)).one("hpcc_flows_omitted"), 300)
    known = few.labels("hpcc_flow_window_bytes")
    first = {flow["lport"] for flow in sorted(pair.c.dump(), key=lambda flow: flow["cookie"])[:10]}
    expect("flows with series", {int(labels["local"].rpartition(":")[2]) for labels in known}, first)
    for _ in range(20):
        pair.connect(listener)
    expect("series later", Metrics(textfile(pair.c, "--flows=10")).labels("hpcc_flow_window_bytes"), known)


def fallen_back(flow):
    """Let a flow fall back. Return it."""
    flow.run()
    flow.echo(Link().step(9000, 0.8))
    fall_back(flow)
    return flow


def test_fallback():
    """A flow that fell back is exported before older flows."""
    flow = Flow()
    flow.ns.listen("127.0.0.1")
    flow.ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
    for _ in range(30):
        sock = flow.ns.socket()
        sock.connect(("127.0.0.1", 5000))
        cookie(sock)
    fallen_back(flow)
    expect("mode of the oldest flow", min(flow.ns.dump(), key=lambda flow: flow["cookie"])["mode"], "telemetry")
    metrics = Metrics(textfile(flow.ns, "--flows=1"))
    expect("flow", [(labels["mode"], labels["fell_back"]) for labels in metrics.labels("hpcc_flow_info")],
           [("classic", "silence")])
    expect("counters", [metrics.one("hpcc_fallbacks_total"), metrics.one("hpcc_flows", mode="classic"),
                        metrics.one("hpcc_flows_fell_back", reason="silence")], [1, 1, 1])


def test_http():
    """The server answers GET /metrics over IPv4 and IPv6; it refuses all other requests."""
    flow, _, _ = measured(1, 0.8)
    # Since 1.0 libmicrohttpd closes a connection without an answer if a request is not HTTP.
    library = ctypes.CDLL("libmicrohttpd.so.12").MHD_get_version
    library.restype = ctypes.c_char_p
    old, local = library().startswith(b"0."), " HTTP/1.1\r\nHost: localhost\r\n"
    for addr, words in ("127.0.0.1", ()), ("::1", ("--listen", f"[::1]:{PORT}")), ("127.0.0.1", ("-l", f"0.0.0.0:{PORT}")):
        server = serve(flow.ns, "--flows", *words)
        status, headers, text = ask(flow.ns, addr=addr)
        expect("status", (status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        expect("flows, without the server's own", len(Metrics(text)["hpcc_flow_window_bytes"]), 1)
        for request, want in ((f"GET /{local}", 404), (f"GET /metrics/{local}", 404), (f"GET /metrics?x=1{local}", 200),
                              ("GET /metrics HTTP/1.0\r\n", 200), ("GET /metrics HTTP/1.1\r\n", 400),
                              ("GET /../metrics HTTP/1.0\r\n", 404), ("\1\2 \3\r\n", 400 if old else CLOSED),
                              (f"POST /metrics{local}Content-Length: 1\r\n\r\nx", 405), (f"DELETE /metrics{local}", 405),
                              ("POST /x HTTP/1.0\r\n", 404), ("GET /metrics\r\n", 400),
                              ("GET /metrics HTTP/1.1\r\nHost x\r\n", 400), (f"{GET}Content-Length: x\r\n", 400)):
            request += "" if request.endswith("x") else "\r\n"
            status, headers, _ = ask(flow.ns, request, addr)
            expect(request, (status, headers.get("Connection"), headers.get("Allow")),
                   (want, want and "close", "GET" if want == 405 else None))
        stop(server)
    with flow.ns, socket.socket() as sock:
        server = serve(flow.ns)
        expect("only loopback accepts connections", sock.connect_ex((flow.kernel, PORT)) != 0, True)
    stop(server)


def memory_kb(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])


def test_host():
    """The server refuses requests whose Host is not a name of this host: web pages can invent such names."""
    flow = Flow()

    def check(words, addr, names, wanted):
        server = serve(flow.ns, *words)
        for hosts, want in zip(names, wanted):
            for host in hosts:
                expect(host, ask(flow.ns, f"GET /metrics HTTP/1.1\r\nHost:{host}\r\n\r\n", addr)[0], want)
                if want == 403 and not words:
                    expect(f"{host}, /", ask(flow.ns, f"GET / HTTP/1.1\r\nHost:{host}\r\n\r\n", addr)[0], want)
        stop(server)

    ours = " localhost", "localhost:4722", " LocalHost:80", " 127.0.0.1", " 127.0.0.1:4722", " 127.9.9.9", " [::1]:4722"
    more = " 192.0.2.1", " 192.0.2.1:4722"
    foreign = (" evil.example", " evil.example:4722", " localhost.evil.example", " localhos", " localhost:1:2.evil",
               " [2001:db8::1]", " 127.0.0.1.evil.example", " [::1].evil.example", " :4722", "", " h", " ,")
    check((), "127.0.0.1", (ours, more + foreign), (200, 403))
    words = "-l", f"0.0.0.0:{PORT}", "--host", "h1,h1.example,192.0.2.1"
    check(words, flow.kernel, ((*ours, *more, " h1", " H1.Example:4722", " 192.0.2.1:80", f" {flow.kernel}:1"),
                               (*foreign, " h1,h1.example", " h1.exampl", " example")), (200, 403))
    # The server has this address, too, but was not given its name.
    check(words, "127.0.0.1", ([f" {flow.kernel}"],), (403,))
    check(("-l", f"[::1]:{PORT}", "--host", "2001:db8::7"), "::1",
          ([" [2001:db8::7]:80", " [::1]"], [" [2001:db8::8]:80"]), (200, 403))


def test_held_clients():
    """Clients that occupy all slots do not block other clients: the server disconnects the oldest idle client."""
    ns = Netns()
    server = serve(ns)
    held = [client(ns) for _ in range(8)]
    served = 0
    for _ in range(40):
        with contextlib.suppress(OSError):
            served += ask(ns)[0] == 200
    expect("clients served", served, 40)
    # One slot is enough for clients that connect one at a time.
    expect("connections that ended", [bool(ended(sock)) for sock in held], [True] + [False] * 7)
    # A client that has sent a request is disconnected only after all clients without a request.
    held[7].sendall(f"{GET}\r\n".encode())
    for _ in range(100):
        idle = client(ns)
    expect("status of the answer", answer(held[7])[0], 200)
    expect("connections that ended", ([ended(sock) for sock in held[:7]], ended(idle)), ([True] * 7, False))
    stop(server)


def ended(sock):
    sock.settimeout(0.2)
    try:
        return not sock.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True


def until_ended(others, payload):
    """Return the time until the server has closed all these connections, which send `payload` each second."""
    began = time.monotonic()
    while time.monotonic() - began < 60:
        for sock in others:
            try:
                sock.send(payload)
            except OSError:
                others = [other for other in others if other is not sock]
        if not others:
            return time.monotonic() - began
        time.sleep(1)
    raise AssertionError(f"{len(others)} have not ended")


def test_hostile_clients():
    """Clients that send slowly or too much, or do not read, use little memory, and are disconnected after 10 s."""
    need_virtual_time()
    ns = crowd(300)[0].c
    # A small MTU limits the size of segments, and thus the memory of socket buffers.
    ns.ip("link set lo mtu 1500")
    server = serve(ns, "--flows=1000")
    expect("size", len(ask(ns)[2]) > 300000, True)
    before = memory_kb(server)
    # These clients send a byte each second.
    expect_in("time", until_ended([client(ns) for _ in range(8)], b"G"), 9, 13)
    # This client sends too much.
    expect("long header", ask(ns, f"{GET}X: {'x' * 100000}\r\n\r\n")[0] in (413, 431), True)
    # These clients send a request and do not read the answer.
    silent = [client(ns, room=4096) for _ in range(8)]
    for sock in silent:
        sock.sendall(f"{GET}\r\n".encode())
    expect("status", ask(ns)[0], 200)
    expect_in("time", until_ended(silent, b"x"), 9, 14)
    for _ in range(300):
        sock = client(ns)
        sock.sendall(GET[:-12].encode())
        sock.close()
        expect("status", ask(ns)[0], 200)
    print(f"# {before} KB of memory, then {memory_kb(server)}")
    expect_in("memory", memory_kb(server), 0, before + 8000)
    stop(server)


def scenario():
    """Return the export of a busy path with a slow second hop, and the export of a flow that fell back."""
    path, ends = slow_hop()
    transfer((*ends, pattern(500000)))
    found = look_while_sending(ends, 2000000, 60, lambda: textfile(path.a, "--flows", "--names"))
    return found[-1], textfile(fallen_back(Flow()).ns, "--flows")


def test_dashboard():
    """Each metric and label of the dashboard is in the export."""
    need_virtual_time()
    busy, fell_back = map(Metrics, scenario())
    hops = busy.labels("hpcc_flow_hop_utilization_ratio")
    expect("links", sorted((labels["hop"], labels["node"], labels["port"]) for labels in hops),
           [("1", "1", "2"), ("2", "2", "2"), ("3", "3", "2")])
    name = "hpcc_flow_hop_bottleneck"
    expect("bottleneck", [labels["node"] for key, labels in zip(busy[name].values(), busy.labels(name)) if key], ["2"])
    expect("info, whether U of a flow that fell back is exported", (
        fell_back.one("hpcc_flow_info", mode="classic"), "hpcc_flow_utilization_ratio" in fell_back), (1, False))
    names = set()
    for title, expr in expressions():
        of_panel = set(re.findall(r"hpcc_\w+", expr))
        expect(f"{title}: unknown metrics", of_panel - set(busy), set())
        names |= of_panel
        known = {"instance"}.union(*(labels for name in of_panel for labels in busy.labels(name)))
        used = re.findall(r"by \((.*?)\)", expr) + re.findall(r'(\w+)(?:=~|!=|=)"', expr)
        expect(f"{title}: unknown labels", {label for group in used for label in group.split(", ")} - known, set())
    print(f"# {len(names)} metrics in {len(expressions())} expressions")
    panels = dashboard()["panels"]
    expect("ids", len({panel["id"] for panel in panels}), len(panels))
    taken = [(x, y) for panel in panels for at in [panel["gridPos"]]
             for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    expect("grid cells without overlap", len(taken), len(set(taken)))
    expect_in("columns", max(x for x, _ in taken), 0, 23)


def test_promtool():
    """promtool reports no error in the metrics, and parses the dashboard's expressions."""
    need_virtual_time()
    for text in scenario():
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
        expect("check metrics", (done.returncode, done.stdout, done.stderr), (0, "", ""))
    name = tempfile.mkdtemp() + "/rules.json"
    with open(name, "w", encoding="ascii") as file:
        file.write(rules())
    done = subprocess.run(["promtool", "check", "rules", name], text=True, capture_output=True, check=False)
    print(done.stdout)
    expect("check rules", (done.returncode, f"SUCCESS: {len(expressions())} rules" in done.stdout), (0, True))


if not shutil.which("promtool"):
    del test_promtool       # Debian's package of promtool starts a server


def test_names():
    """--names requests the identities of links; a user without the right gets one message, and all other metrics."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o777)
    process = start(Netns(), "export", "--flows", "--names", "-t", f"{folder}/x.prom", user=65534)
    _, wrong = process.communicate(timeout=60)
    expect("output", (process.returncode, wrong), (0, "without names of links: the names of links require CAP_NET_ADMIN\n"))
    expect("up", Metrics(Path(f"{folder}/x.prom").read_text("ascii")).one("hpcc_up"), 1)


main(modules=["sch_hpcc"])
