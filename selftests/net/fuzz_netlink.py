#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Random requests to the qdisc, random values of parameters and socket options, and files read in random pieces."""

import contextlib
import os
import random
import socket
import struct

from lib import parameters
from lib.ktap import defer, expect, main
from lib.net import Netns, Pair, joined
from lib.packet import packet_socket
from lib.qdisc import NLM_F_CREATE, NLM_F_REPLACE, RTM_NEWQDISC, attr
from lib.requests import (ATTRS, CLSACT, DEFAULTS, HANDLE, MARKS, NEEDS, NLM_F_EXCL, RTM_DELQDISC, TCA_EGRESS_BLOCK,
                          TCA_INGRESS_BLOCK, Netlink, Request, allowed, changed, merged, size_table)
from lib.tcp import pattern, set_cc, transfer

MESSAGES = int(os.environ.get("HPCC_FUZZ_MESSAGES") or 3000)
SEED = int(os.environ.get("HPCC_FUZZ_SEED") or 1)
SANE = "rate 1gbit delay 20us limit 1mb marking ldcp kmin 0 kmax 0 knonect 0 pmax 1 kind 253 " \
       "stamp split-gso overhead 24 node 1 port 2"


class Port:
    """A qdisc, and its expected configuration."""

    def __init__(self, ns, dev, rng, gentle=False):
        self.link = Netlink(ns, dev)
        self.rng, self.gentle = rng, gentle
        self.config = None          # the expected configuration; None: no qdisc "hpcc"
        self.accepted = self.refused = 0

    def shown(self):
        """Return the configuration that a dump has to show, apart from derived thresholds."""
        names = [name for name in DEFAULTS if (name not in MARKS or self.config["marking"]) and
                 (name not in ("above", "respond") or self.config[name]) and
                 (name != "every" or self.config["respond"]) and name not in ("class", "qlen") and
                 (name not in NEEDS or self.config["stamp"] & NEEDS[name])]
        return {name: self.config[name] for name in names}

    def check(self, what):
        """Fail unless the qdisc has the expected configuration."""
        kind, _, config = self.link.dump()
        if self.config is None:
            expect(f"{what}: kind", kind == "hpcc", False)
            return
        expect(f"{what}: kind", kind, "hpcc")
        want = self.shown()
        for name in "kmin", "kmax", "knonect":
            if name in want and not want[name]:
                want[name] = config[name]
                expect(f"{what}: {name} {config[name]} within limit", config[name] <= config["limit"], True)
        expect(what, config, want)
        for name, _, low, high in ATTRS.values():
            if name in config:
                expect(f"{what}: {name} {config[name]}", low <= config[name] <= high, True)
        if config["marking"]:
            expect(f"{what}: kmin {config['kmin']} <= kmax {config['kmax']}", config["kmin"] <= config["kmax"], True)

    def step(self):
        """Send one random request."""
        kind = self.rng.random()
        if kind < 0.02 and not self.gentle:
            error, _ = self.link.ask(RTM_DELQDISC, 0, Request(self.rng).body(self.link.index, self.link.dump()[1]))
            expect("delete", error == "", self.config is not None)
            self.config = None
            self.check("deleted")
            return
        request = Request(self.rng, self.gentle)
        flags, handle = NLM_F_CREATE | NLM_F_REPLACE, HANDLE
        base = self.config if self.config is not None else DEFAULTS
        right = request.right
        if kind < 0.1 and not self.gentle:
            # A request with another handle creates another qdisc, which starts with the defaults.
            handle, base = 2 * HANDLE if self.link.dump()[1] == HANDLE else HANDLE, DEFAULTS
        elif kind < 0.13:
            flags = NLM_F_CREATE | NLM_F_EXCL
            right = request.right if self.config is None else False
        elif self.config is not None and self.link.dump()[1]:
            handle = self.link.dump()[1]
            if kind < 0.5:
                flags = 0
        self.ask(request, flags, handle, base, right)

    def ask(self, request, flags, handle, base, right):
        """Send a request. It changes nothing if it is refused. If right is None, the kernel may accept or refuse it."""
        what = f"{request.nest.hex()} flags {flags:#x} after {self.config}"
        error, message = self.link.ask(RTM_NEWQDISC, flags, request.body(self.link.index, handle))
        may = allowed(merged(base, request.given), request.given)
        if right is not None:
            expect(f"{what}: accepted, {error} {message!r}", not error, bool(right and may))
        if error:
            self.refused += 1
            expect(f"{what}: {error}, {message!r}", (error in ("EINVAL", "ERANGE", "EEXIST"),
                                                     5 < len(message) < 100 and "\n" not in message), (True, True))
        else:
            self.accepted += 1
            self.config = changed(base, request.given)
        self.check(what)


def port_pair(**how):
    """Return a namespace with a cable to another namespace, and a Port there."""
    tx, rx = Netns(), Netns()
    tx.ip(f"link add v0 type veth peer name v0 netns {rx.path}", "link set v0 up")
    rx.ip("link set v0 up")
    return tx, Port(tx, "v0", random.Random(SEED), **how)


def test_attributes():
    """The rules of the manual page alone decide which requests are accepted."""
    _, port = port_pair()
    for _ in range(MESSAGES):
        port.step()
    print(f"# {port.accepted} accepted, {port.refused} refused")
    for what in port.accepted, port.refused:
        expect(f"{what} of {MESSAGES}", what >= MESSAGES // 5, True)


def test_under_traffic():
    """The same rules hold while connections send data."""
    pair = Pair(qdisc="hpcc rate 1gbit")
    listener = pair.listen()
    ends = [pair.connect(listener, cc=name) for name in ("hpcc", "ldcp", "cubic")]
    # Delete the qdisc that tc added: Port knows the configuration of a qdisc only if its own request created it.
    pair.c.tc("qdisc del dev eth0 root")
    port = Port(pair.c, "eth0", random.Random(SEED + 1), gentle=True)
    turns = 0

    def each():
        nonlocal turns
        turns += 1
        port.step()

    while turns < MESSAGES // 4:
        transfer(*((*sockets, pattern(30000, i)) for i, sockets in enumerate(ends)), each=each, timeout_s=600)
    print(f"# {port.accepted} accepted, {port.refused} refused")
    pair.c.tc(f"qdisc replace dev eth0 root hpcc {SANE}")
    transfer(*((*sockets, pattern(30000, i)) for i, sockets in enumerate(ends)))


def still_works(ns, link, frames):
    """With ordinary options a port still transmits all frames."""
    ns.tc("qdisc replace dev v0 root pfifo", "qdisc replace dev v0 root hpcc")
    before = ns.port("v0")["hpcc"]
    for _ in range(frames):
        link.send(bytes(60))
    after = ns.port("v0")["hpcc"]
    expect("packets, bytes", [after[name] - before[name] for name in ("tx_packets", "tx_bytes")], [frames, frames * 84])


def cable():
    """Return a namespace with its Port and a socket that sends out of its v0."""
    tx, port = port_pair()
    sock = packet_socket(tx, "v0", 0)
    sock.setblocking(False)
    return tx, port, sock


def send_some(sock, number):
    """Send frames, and ignore frames that the queue refuses."""
    for _ in range(number):
        with contextlib.suppress(OSError):
            sock.send(bytes(200))


def test_size_tables():
    """Size tables change the lengths of packets, also to 0 or 2 GB: options and counters still follow their rules."""
    tx, port, sock = cable()
    rng, taken = random.Random(SEED + 6), 0
    for turn in range(MESSAGES // 3):
        port.config = None
        request = Request(rng, gentle=True)
        body = request.body(port.link.index) + size_table(rng)
        if turn % 5 == 0:
            port.link.ask(RTM_DELQDISC, 0, Request(rng).body(port.link.index))
        error, _ = port.link.ask(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body)
        expect(f"{body.hex()}: {error}", error in ("", "EINVAL", "ERANGE", "EMSGSIZE", "ENOENT", "ENOTSUP"), True)
        taken += not error
        send_some(sock, rng.randrange(6))
        stats = turn % 20 == 0 and tx.port("v0")
        if stats:
            stats = stats["hpcc"]
            sizes = stats["drop_limit"], stats["tx_packets"], stats["tx_bytes"]
            expect(f"counters {sizes}", stats["tx_bytes"] >= stats["tx_packets"], True)
    expect(f"{taken} accepted", taken > MESSAGES // 100, True)
    still_works(tx, sock, 50)


def test_clsact():
    """Requests for hpcc in the place of clsact, beside clsact, and with missing filter blocks, cause no errors."""
    tx, port, sock = cable()
    rng, taken = random.Random(SEED + 7), 0
    for _ in range(MESSAGES // 3):
        parent = rng.choice((0xffffffff, 0xffffffff, *CLSACT, 0x10001, rng.getrandbits(32)))
        kind = rng.choice((b"hpcc\0", b"hpcc\0", b"clsact\0", b"ingress\0"))
        body = Request(rng, gentle=True).body(port.link.index, rng.choice((HANDLE, 0xffff0000, 0)), kind, parent)
        block = rng.random() < 0.3
        if block:
            body += attr(rng.choice((TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK)), struct.pack("=I", rng.choice((0, 1, 77))))
        error, message = port.link.ask(rng.choice((RTM_NEWQDISC, RTM_NEWQDISC, RTM_DELQDISC)),
                                       NLM_F_CREATE | rng.choice((0, NLM_F_REPLACE, NLM_F_EXCL)), body)
        taken += not error
        expect(f"{body.hex()}: {error} {message!r}", error in (
            "", "EINVAL", "ERANGE", "EEXIST", "ENOENT", "ENOTSUP", "EBUSY"), True)
        send_some(sock, rng.randrange(3))
    expect(f"{taken} accepted", taken > MESSAGES // 100, True)
    tx.run("tc", "qdisc", "del", "dev", "v0", "clsact", check=False)
    still_works(tx, sock, 50)


def test_batches():
    """tc -batch with all options, valid and invalid, while packets are queued: the data arrive."""
    pair, client, server = joined(Pair(qdisc="hpcc rate 1gbit delay 20us"))
    rng = random.Random(SEED + 2)
    words = {"rate": ("0", "1gbit", "100mbit", "1kbit", "99gbit", "1bit", "x", ""),
             "delay": ("0", "20us", "1ms", "1s", "2s", "-1"), "limit": ("1mb", "100kb", "1", "4gb"),
             "marking": ("ldcp", "off", "on"), "kmin": ("0", "10kb", "9mb"),
             "kmax": ("0", "30kb", "9mb"), "pmax": ("0", "0.5", "1", "2"),
             "knonect": ("0", "50kb"), "overhead": ("0", "24", "256", "257"),
             "node": ("0", "1048575", "1048576"), "port": ("0", "65535", "65536"),
             "kind": ("253", "254", "255"),
             "stamp": ("", "tcp,ioam", "tcp,int int_dscp 9 int_window 3us", "csig csig_abw 7",
                       "tcp,csig_push csig_tpid 0x800", "ifc", "int", "above 20kb", "respond 1b every 2us"),
             "nostamp": ("",), "above": ("1b", "9mb", "0"), "respond": ("0", "1b", "9mb", "-1"),
             "every": ("1us", "1s", "2s", "0"), "identify": ("on", "off", "0"), "stats": ("on", "off", "1"),
             "class": ("0", "1gbit", "1bit qlen x"), "split-gso": ("",), "no-split-gso": ("",), "bandwidth": ("0", "10gbit", "1bit")}
    for _ in range(max(MESSAGES // 1000, 1)):
        lines = []
        for _ in range(100):
            verb = rng.choice(("change", "change", "change", "replace", "add", "del"))
            how = " ".join(f"{name} {rng.choice(words[name])}" for name in rng.sample(list(words), rng.randrange(4)))
            lines.append(f"qdisc {verb} dev eth0 root hpcc {how if verb != 'del' else ''}")
        client.setblocking(False)
        data = pattern(60000, len(lines))
        sent = client.send(data)
        pair.c.run("tc", "-force", "-batch", "-", stdin="\n".join(lines) + "\n", check=False)
        pair.c.tc(f"qdisc replace dev eth0 root hpcc {SANE}")
        got = bytearray()
        server.settimeout(600)
        while len(got) < sent:
            got += server.recv(1 << 16)
        expect("data", got == data[:sent], True)


def random_text(rng, low, high):
    """Return a random text to write to a parameter."""
    number = rng.choice((low, high, low - 1, high + 1, rng.randint(low, high), 0, 1 << 31,
                         1 << 32, 1 << 64, -1))
    text = str(number).encode()
    kind = rng.random()
    if kind < 0.5:
        return text
    junk = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 40)))
    return rng.choice((text + b"\n", b" " + text + b" ", hex(number).encode(), text + b"\0" + text,
                       text + b" " + text, b"0" * rng.randrange(1, 6000) + text, junk, text + junk,
                       b"\n", b" ", b"-", b"+" + text, text * rng.randrange(1, 2000)))


def test_parameters():
    """After each write a parameter has a value within its range; after a refused write it has the old value."""
    pair, client, server = joined(Pair())
    rng = random.Random(SEED + 3)
    fields = list(parameters.each())
    wrote = 0
    for turn in range(MESSAGES // 2):
        path, _, name, _, low, high, zero = rng.choice(fields)
        file = "/proc/sys/" + path.replace(".", "/")
        with pair.c:
            fd = os.open(file, os.O_RDWR)
        before = os.pread(fd, 100, 0)
        text = random_text(rng, low, high)
        try:
            os.pwrite(fd, text, rng.choice((0, 0, 0, 0, 1, 100)))
            wrote += 1
        except OSError:
            expect(f"{name} after {text[:40]!r} was refused", os.pread(fd, 100, 0), before)
        value = int(os.pread(fd, 100, 0))
        expect(f"{name} {value} after {text[:40]!r}", low <= value <= high or zero and not value, True)
        os.pread(fd, rng.randrange(1, 20), rng.randrange(20))
        os.close(fd)
        if turn % 50 == 0:
            set_cc(client, rng.choice(("hpcc", "ldcp", "hpcc", "reno")))
            transfer((client, server, pattern(5000, turn)))
            fresh, there = pair.connect(pair.listen(6000 + turn), cc=rng.choice(("hpcc", "ldcp")))
            transfer((fresh, there, pattern(3000, turn)))
            fresh.close()
    expect(f"{wrote} accepted", wrote > MESSAGES // 10, True)


# Options that do not end a connection, close its window, or keep its data from being read: level, names.
OPTIONS = ((socket.IPPROTO_TCP, (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 23, 24, 25, 27, 28, 35, 36, 37)),
           (socket.SOL_SOCKET, (5, 7, 10, 12, 20, 36, 46, 47, 60)),
           (socket.IPPROTO_IP, (1, 2, 4, 6, 7, 8, 10, 11, 12, 13, 14, 23)),
           (socket.IPPROTO_IPV6, (23, 24, 25, 49, 51, 54, 59, 66, 67, 70)))


def random_option(rng, sock):
    """Set a random option. Return 1 if the kernel accepts it."""
    level, names = rng.choice(OPTIONS)
    name = rng.choice(names)
    size = rng.choice((4, 4, 4, 4, 0, 1, 2, 3, 8, 16, 24, 40))
    data = bytes(rng.randrange(256) for _ in range(size))
    if size == 4 and rng.random() < 0.8:
        data = struct.pack("=I", rng.choice((0, 1, 2, 10, 1000, 1460, 65535, 1 << 20, 1 << 31)))
    if (level, name) == (socket.IPPROTO_TCP, 13):
        data = rng.choice((b"hpcc", b"ldcp", b"cubic", b"reno", b"hpcc-classic", b"", b"h" * 40))
    if (level, name) in ((socket.IPPROTO_IPV6, 54), (socket.IPPROTO_IPV6, 59)):
        # A packet with unknown options in these headers is dropped, so the connection would end.
        data = rng.choice((b"", data[:4], bytes((0, 0, 1, 4)) + bytes(4)))
    if level == socket.SOL_SOCKET and name in (20, 47):
        data = struct.pack("=Q", rng.randrange(10 ** 7, 10 ** 10))  # timeouts, or a rate at which data still move
    try:
        sock.setsockopt(level, name, data)
        return 1
    except (OSError, ValueError):
        return 0


def test_socket_options():
    """Random options are set on connections that send: all bytes arrive."""
    done = turn = 0
    for version in 4, 6:
        pair = Pair(version, qdisc=f"hpcc {SANE}")
        listener = pair.listen()
        rng = random.Random(SEED + 4)
        ends = [pair.connect(listener, cc=name) for name in ("hpcc", "ldcp", "hpcc")]

        def each():
            nonlocal done, turn
            turn += 1
            sock = rng.choice(rng.choice(ends))
            done += random_option(rng, sock)
            for level, name in ((6, 11), (6, 26), (6, 13)):
                sock.getsockopt(level, name, rng.choice((1, 4, 16, 64, 300)))
            for name in "hpcc", "ldcp":
                pair.c.read("/proc/net/" + name)

        for _ in range(max(MESSAGES // 300, 1)):
            transfer(*((*sockets, pattern(20000, i)) for i, sockets in enumerate(ends)), each=each, timeout_s=3000)
            # Options are set on a closed socket, and on a listener.
            spare = pair.s.socket(version)
            random_option(rng, spare)
            random_option(rng, listener)
            spare.close()
    print(f"# {done} of {turn} set")


def test_files():
    """A file that is read in pieces of any size has the same content as in one piece."""
    pair = Pair(6, qdisc=f"hpcc {SANE}")
    listener = pair.listen()
    ends = [pair.connect(listener, cc=("hpcc", "ldcp")[i % 2]) for i in range(40)]
    rng = random.Random(SEED + 5)
    for name in "hpcc", "ldcp":
        with pair.c:
            fd = os.open("/proc/net/" + name, os.O_RDONLY)
        defer(os.close, fd)
        whole = pair.c.read("/proc/net/" + name).encode()
        for _ in range(MESSAGES // 100):
            got, size = b"", rng.choice((1, 7, 100, 1000, 5000)) if len(whole) < 3000 else 3000
            while piece := os.pread(fd, rng.randint(1, size), len(got)):
                got += piece
            expect(name, got, whole)
            at = rng.choice((0, len(whole) - 1, len(whole), 1 << 20, 1 << 40, 1 << 62))
            expect(f"byte at {at}", os.pread(fd, 1, at), whole[at:at + 1])
            os.lseek(fd, rng.randrange(1 << 30), os.SEEK_SET)
            os.read(fd, 10)
    expect("flows", len(ends), 40)


main(modules=["sch_hpcc", "tcp_ldcp"])
