#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""A big-endian host and a little-endian one. With every carrier and every type of option, both ends of a connection
have the state that the path has.

scripts/check-arch runs this program in two guests. Two cables connect them: the packets of the tests, on eth0, and
the control of the other guest. The big-endian guest runs the tests, the other one does what it asks. Each has half of
a path: host - switch - cable - switch - host.
"""

import contextlib
import functools
import random
import select
import subprocess
import sys
import time
import traceback
from multiprocessing.connection import Client, Listener

from lib.ktap import run_deferred, cases, defer, expect, expect_in, main, prepare
from lib.net import Netns
from lib.path import CARRIERS, set_links
from lib.sign import set_keys
from lib.tcp import let_go

HERE, THERE = 1, 2
CONTROL = ("192.0.2.2", 6000)
RATES = {(1, 1): 600, (1, 2): 900, (2, 1): 800, (2, 2): 700}      # Mbit/s of each node's ports
LINKS = {at: (*at, mbps * 1000000) for at, mbps in RATES.items()}
# The hops of the data that a host sends
HOPS = {HERE: {1: LINKS[1, 2], 2: LINKS[2, 2]}, THERE: {1: LINKS[2, 1], 2: LINKS[1, 1]}}
KEY = bytes(range(16))
NBYTES = 300000
IMPOSSIBLE = "ts_back_ignored", "tx_excess_ignored"
PROBES = "int", "ifa", "csig"   # carriers of probes: TSO copies the header of IOAM
# Counters of bytes that one end wrote and the other one did not understand. Others also grow on a slow machine.
BAD = ("syn_invalid", "unagreed_ignored", "malformed_ignored", "checksum_ignored", "policy_ignored", "bad_hop_ignored",
       "unsigned_ignored", "wrong_tag_ignored", "replayed_ignored", *(f"{name}_ignored" for name in CARRIERS),
       *(f"{name}_unknown_link" for name in ("ioam", "int", "ifa")))


class Half:
    """A host and its switch, whose ports are 1 towards the big-endian host and 2 towards the other."""

    def __init__(self, node, version=4, stamp="tcp", far="", push=None, known=None, key=False, delay="0", **sysctls):
        """Both ports stamp; the port towards the host, whose data come from the other host, also has options `far`."""
        self.node, self.sock, self.before = node, None, {}
        self.host, self.switch = Netns(start_rtt_ns=10**9, **sysctls), Netns()
        self.addr = [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")][version == 6]
        self.host.ip(f"link add dev0 type veth peer name dev0 netns {self.switch.path}",
                     f"addr add {self.addr[node - 1]}/{24 if version == 4 else 64} dev dev0", "link set dev0 up")
        subprocess.run(["ip", "link", "set", "eth0", "netns", self.switch.path], check=True)
        defer(self.switch.ip, "link set eth0 netns 1")
        self.switch.ip("link add br0 type bridge", "link set br0 up",
                       "link set dev0 master br0 up", "link set eth0 master br0 up")
        for port, dev in enumerate(("dev0", "eth0") if node == HERE else ("eth0", "dev0"), 1):
            how = f"delay {delay} stamp {stamp} {far if dev == 'dev0' else ''}"
            self.switch.tc(f"qdisc add dev {dev} root hpcc rate {RATES[node, port]}mbit node {node} port {port} {how}")
        self.host.tc(f"qdisc add dev dev0 root hpcc rate 1000mbit {f'stamp {push}' if push else 'nostamp'}")
        self.host.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
        set_links(self.host, *(LINKS.values() if known is None else known))
        if key:
            set_keys(self.host, KEY)
        self.host.ask()
        self.listener = self.host.listen(self.addr[node - 1])

    def connect(self):
        self.sock = self.host.socket(6 if ":" in self.addr[0] else 4)
        self.sock.settimeout(20)
        self.sock.connect((self.addr[2 - self.node], 5000))
        self.before = self.host.counters()

    def accept(self):
        self.sock = self.listener.accept()[0]
        self.before = self.host.counters()

    def close(self):
        let_go(self.sock)

    def exchange(self, seed):
        """Send data and receive the other host's."""
        mine, want = (random.Random(seed + node).randbytes(NBYTES) for node in (self.node, 3 - self.node))
        left, got = memoryview(mine), bytearray()
        self.sock.setblocking(False)
        while left or len(got) < NBYTES:
            readable, writable, _ = select.select([self.sock], [self.sock] if left else [], [], 60)
            if writable:
                left = left[self.sock.send(left):]
            elif not readable:
                raise AssertionError(f"stalls: {len(left)} to send, {len(got)} received")
            if readable:
                chunk = self.sock.recv(1 << 18)
                expect("closed early", not chunk, False)
                got += chunk
        expect("data", bytes(got) == want, True)

    def state(self):
        """Return what the path and both ends determine, and the counters that changed since connect() or accept()."""
        self.host.ask()
        time.sleep(0.1)     # until the last probes have arrived
        port = self.sock.getsockname()[1]
        flow, attrs = self.host.flow(self.sock), next(one for one in self.host.dump() if one["lport"] == port)
        counters = self.host.counters()
        return ({name: flow[name] for name in ("mode", "hops", "receiver", "probes")} |
                {"signed": "signed" in attrs, "records": [hop["hop"] for hop in attrs.get("hop", []) if "u" in hop],
                 "links": self.host.links(self.sock), "InCsumErrors": self.host.snmp("InCsumErrors"),
                 "errors": {name: counters[name] for name in BAD if counters[name]}}, counters - self.before)

    def stamped(self):
        """Return the statistics of the switch's port towards the other guest."""
        return self.switch.port("eth0")["hpcc"]


class Far:
    """The half in the other guest."""

    def __init__(self, node, how):
        defer(self.call, "end")
        self.call("Half", node, how)

    def start(self, *request):
        control().send(request)

    def finish(self):
        good, result = control().recv()
        if not good:
            raise AssertionError(f"in the other guest: {result}")
        return result

    def call(self, *request):
        self.start(*request)
        return self.finish()


def up(node):
    """Configure the cable for control."""
    subprocess.run(["ip", "-batch", "-"], input=f"addr add 192.0.2.{node}/24 dev eth1\nlink set eth1 up\n", text=True,
                   check=True)


@functools.cache
def control():
    """Return the connection to the other guest, once that one has booted."""
    up(HERE)
    for _ in range(300):
        with contextlib.suppress(OSError):
            return Client(CONTROL, authkey=KEY)
        time.sleep(1)
    raise AssertionError("no other guest")


def obey():
    """Do what the other guest asks, until it leaves."""
    up(THERE)
    half = None
    with Listener(CONTROL, authkey=KEY) as listener, listener.accept() as link, contextlib.suppress(EOFError):
        while True:
            name, *args = link.recv()
            try:
                result = None
                if name == "Half":
                    half = Half(args[0], **args[1])
                elif name == "end":
                    run_deferred()
                else:
                    result = getattr(half, name)(*args)
                link.send((True, result))
            except Exception:
                link.send((False, traceback.format_exc()))


def probes(way, *counters):
    return [[one.get(f"{name}_{way}", 0) for name in PROBES] for one in counters]


def one(here, there, active, wanted, seed):
    """Connect, and send data both ways until both ends have the wanted state. Return the counters of both."""
    for again in range(30):
        if again % 5 == 0:      # A slow machine may look like a path that drops packets: another connection.
            if active == "here":
                here.connect()
                there.call("accept")
            else:
                there.call("connect")
                here.accept()
        there.start("exchange", seed + 10 * again)
        here.exchange(seed + 10 * again)
        there.finish()
        states, counters = zip(here.state(), there.call("state"))
        sent, received = probes("sent", *counters), probes("received", *reversed(counters))
        good = list(states) == wanted and sent == received
        if good or again % 5 == 4:
            here.close()
            there.call("close")
        if good:
            break
    print(f"# {again + 1} exchanges, {states}, {counters}")
    for node, (state, changed) in enumerate(zip(states, counters)):
        expect(f"state of {node + 1}", state, wanted[node])
        # Of random numbers a half is impossible.
        expect_in(f"impossible records at {node + 1}", sum(changed.get(name, 0) for name in IMPOSSIBLE), 0,
                  changed.get("echo_received", 0) // 4)
    expect("probes that arrived", received, sent)
    return counters


def run(name, **how):
    """Connect in each direction, and check both ends."""
    here, there = Half(HERE, **how), Far(THERE, how)
    hops = [1] if name == "csig" else [1, 2]      # CSIG transports the signal of one switch.
    want = {"mode": "telemetry", "hops": len(hops), "receiver": how.get("where", 0), "probes": int(name in PROBES),
            "signed": "key" in how, "records": hops, "InCsumErrors": 0, "errors": {}}
    wanted = [want | {"links": {hop: HOPS[node][hop] for hop in hops if name != "border"}} for node in (HERE, THERE)]
    some = {f"{carrier}_{way}": carrier == name for carrier in CARRIERS for way in ("sent", "received")} | \
        {f"report_{way}": name in ("csig", "receiver", "report") for way in ("sent", "received")} | \
        {"response_received": name == "respond"}
    for seed, active in (100, "here"), (1000, "there"):
        for node, counters in enumerate(one(here, there, active, wanted, seed), 1):
            expect(f"{node}: counters", {what: counters.get(what, 0) > 0 for what in some}, some)
    for node, port in enumerate((here.stamped(), there.call("stamped")), 1):
        print(f"# port of {node}: stamped {port['stamped']}, unstamped {port['unstamped']}")
        expect(f"{node}: stamped", port["stamped"] > 0, True)
        expect(f"{node}: quiet, malformed", (port["unstamped"]["quiet"] > 0, port["unstamped"]["malformed"]),
               (name == "quiet", 0))


MODES = {"option": {}, "ipv6": {"version": 6}, "receiver": {"where": 1}, "report": {"n_flows": 0},
         "quiet": {"stamp": "tcp above 20kb"}, "signed": {"key": True}, "respond": {"far": "respond 2kb every 1ms"},
         "border": {"far": "quantize 16"},
         **{name: how | {"base_rtt_ns": 200000000} for name, how in CARRIERS.items()}}
cases(**{name: (name, how) for name, how in MODES.items()})(lambda name, how: run(name, **how))

if sys.byteorder == "big":
    main(modules=["sch_hpcc"])
prepare(["sch_hpcc"], [])
obey()
