# SPDX-License-Identifier: GPL-2.0
"""What the tests in Python share: KTAP, namespaces, sockets, a sniffer, and the
bytes of our options. hpcc_peer.py has a TCP of our own.

One process holds both ends of a connection and all namespaces: a socket stays
in the namespace that it was made in, and starting a program costs more in User
Mode Linux than a test does. Nothing here waits for real time.
"""

import ctypes
import errno
import os
import re
import select
import socket
import struct
import subprocess
import sys
import time
import traceback

# include/uapi/linux/hpcc.h
KIND = 253
EXID = 0x4843
VERSION = 1
CAP_TELEMETRY = 1
FORWARD, ECHO, IDENTIFY, IDENTIFY_ECHO, WINDOW, PROBE, RESPONSE = range(1, 8)
PHASE = 0x07
PROMPT = 0x08
HOPS_MAX = 15

TCP_CONGESTION = 13
TCP_INFO = 11
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << i for i in range(8))

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


# ---- KTAP ------------------------------------------------------------------

class Skip(Exception):
    """A test that cannot run here."""


def expect(what, got, want):
    """Fail unless got is want."""
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, wanted {want!r}")


def expect_in(what, got, low, high):
    """Fail unless low <= got <= high."""
    if not low <= got <= high:
        raise AssertionError(f"{what}: got {got!r}, wanted {low!r} to {high!r}")


def expect_rate(what, got, low, high):
    """Links allow no more; less is a fault where programs take no time."""
    expect_in(what, got, low if virtual_time() else 0, high)


def virtual_time():
    """Does time stand still while programs run? Only then are times exact."""
    with open("/proc/cmdline", encoding="ascii") as file:
        return "time-travel=inf-cpu" in file.read()


def watches_itself():
    """Does the kernel look for its own faults? Emulated, it is several times slower."""
    return os.path.exists("/proc/lockdep") or os.path.exists("/sys/kernel/debug/kcsan")


def until(known, send):
    """Send on, in real time, until that is known. A machine that is too busy acknowledges
    much at once and hears little; where it stood still, a flow falls back and returns.
    In virtual time nobody is late, and nothing more is sent.
    """
    for _ in range(0 if virtual_time() else 40):
        if known():
            break
        send()


def need_virtual_time():
    """Skip a test that is about nothing but exact times."""
    if not virtual_time():
        raise Skip("times are exact in virtual time only")


_deferred = []


def defer(function, *args):
    """Call a function when the test ends, last one first."""
    _deferred.append((function, args))


def let_go(sock):
    """Close a socket when the test ends. In real time without a word to the peer:
    a connection that nobody has any more, and whose peer is gone, would hold its
    module for a minute.
    """
    if not virtual_time() and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    sock.close()


def _run_deferred():
    while _deferred:
        function, args = _deferred.pop()
        try:
            function(*args)
        except OSError as error:
            print(f"# at the end: {error}")


class KernelLog:
    """What the kernel logs from now on."""

    # Of what KCSAN says most is about the kernel's own code: scripts/vm/races.awk
    # tells which is not.
    SPLAT = re.compile(r"BUG:(?! KCSAN)|WARNING:|Oops|Call Trace|refcount_t:|UBSAN|KASAN|"
                       r"unregister_netdevice|scheduling while atomic")
    # A line behind which the kernel shows a stack without complaining. A script sets it.
    EXPLAINED = None

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        """Lines since the last call."""
        lines = []
        while True:
            try:
                lines.append(os.read(self.fd, 8192).decode("utf-8", "replace")
                             .split(";", 1)[-1].split("\n")[0])
            except BlockingIOError:
                return lines
            except OSError as error:    # overwritten before it was read
                if error.errno != errno.EPIPE:
                    raise

    def complaints(self):
        """Of the lines since the last call, those that nobody should see."""
        found = []
        explained = 0
        for line in self.lines():
            if self.EXPLAINED and self.EXPLAINED.search(line):
                explained += 1
            elif explained and "Call Trace" in line:
                explained -= 1
            elif self.SPLAT.search(line):
                found.append(line)
        return found


def ktap(tests):
    """Run test functions; exit with the status of a KTAP program."""
    log = KernelLog()
    failed = False
    # As ktap_main() of lib.sh: the first tick makes timers exact.
    time.sleep(0.05)
    print("KTAP version 1")
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        name = test.__name__.removeprefix("test_")
        try:
            try:
                test()
            finally:
                _run_deferred()
            expect("kernel log", log.complaints(), [])
            print(f"ok {number} - {name}", flush=True)
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
        except Exception:
            failed = True
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            print(f"not ok {number} - {name}", flush=True)
    sys.exit(failed)


def main(module):
    """Run all test_* of a script, in their order, or those that it or KTAP_ONLY
    names, as often as they are named.
    """
    tests = {name.removeprefix("test_"): value for name, value in vars(module).items()
             if name.startswith("test_")}
    only = [name.removeprefix("test_") for name in
            sys.argv[1:] or os.environ.get("KTAP_ONLY", "").split()]
    for name in only:
        if name not in tests:
            print(f"KTAP version 1\nBail out! no test {name}; there are {' '.join(tests)}")
            sys.exit(2)
    ktap([tests[name] for name in only or tests])


# ---- Namespaces --------------------------------------------------------------

def _setns(fd):
    if _libc.setns(fd, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Netns:
    """A network namespace of its own; gone when the test ends."""

    def __init__(self, ldcp=None, **sysctls):
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        if _libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        self.fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        _setns(home)
        os.close(home)
        self.homes = []
        self.asking = None
        # ip takes this where it wants a name
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"
        self.ip("link set lo up")
        self.sysctl("net.ipv6.conf.default.accept_dad", 0)
        self.sysctl("net.ipv6.conf.default.addr_gen_mode", 1)
        for name, value in sysctls.items():
            self.sysctl("net.hpcc." + name, value)
        for name, value in (ldcp or {}).items():
            self.sysctl("net.ldcp." + name, value)
        defer(self.delete)

    def delete(self):
        """Let go of it: the kernel takes it down once no socket is left."""
        if self.fd is not None:
            os.close(self.fd)
        self.fd = None

    def __enter__(self):
        self.homes.append(os.open("/proc/self/ns/net", os.O_RDONLY))
        _setns(self.fd)
        return self

    def __exit__(self, *_):
        home = self.homes.pop()
        _setns(home)
        os.close(home)

    def run(self, *command, stdin=None, check=True):
        """Run a program in it. Return what it printed."""
        with self:
            done = subprocess.run(command, input=stdin, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stdout.strip()} {stdin or ''}")
        return done.stdout

    def ip(self, *lines):
        """Run lines of ip(8)."""
        return self.run("ip", "-batch", "-", stdin="\n".join(lines) + "\n")

    def tc(self, *lines):
        """Run lines of tc(8)."""
        return self.run("tc", "-batch", "-", stdin="\n".join(lines) + "\n")

    def read(self, path):
        """Read a file of /proc as it looks from here."""
        with self, open(path, encoding="ascii") as file:
            return file.read()

    def sysctl(self, name, value=None):
        """Read or write a parameter."""
        path = "/proc/sys/" + name.replace(".", "/")
        if value is None:
            return self.read(path).strip()
        with self:
            fd = os.open(path, os.O_WRONLY)
            try:
                os.write(fd, str(value).encode())
            finally:
                os.close(fd)
        return None

    def counters(self, name="hpcc"):
        """/proc/net/hpcc, or another such file, as a Counters."""
        return Counters((name, int(value)) for name, value in
                        map(str.split, self.read(f"/proc/net/{name}").splitlines()))

    def flows(self):
        """/proc/net/hpcc_flows as a list of dicts."""
        return [_flow(line) for line in
                self.read("/proc/net/hpcc_flows").splitlines()]

    def ask(self):
        """Ask who the links of paths are, until the test ends."""
        with self:
            self.asking = os.open("/proc/net/hpcc_paths", os.O_RDONLY)
        defer(os.close, self.asking)

    def paths(self):
        """/proc/net/hpcc_paths: links by local port, as {hop: (node, port, bit/s)}."""
        if self.asking is None:
            text = self.read("/proc/net/hpcc_paths")
        else:
            os.lseek(self.asking, 0, os.SEEK_SET)
            text = "".join(iter(lambda: os.read(self.asking, 4096).decode(), ""))
        return dict(map(_path, text.splitlines()))

    def links(self, sock=None):
        """Links of the path of a socket, or of the only flow."""
        paths = self.paths()
        if sock is not None:
            return paths[sock.getsockname()[1]]
        expect("number of paths", len(paths), 1)
        return next(iter(paths.values()))

    def expect_no_flows(self):
        """Both ends are closed; their last acknowledgments may be under way."""
        for _ in range(100):
            if not self.flows():
                break
            time.sleep(0.1)
        expect("flows", self.flows(), [])

    def flow(self, sock=None, port=None):
        """The flow of a socket, or of a local port, or the only one."""
        if sock is not None:
            port = sock.getsockname()[1]
        found = [flow for flow in self.flows() if port in (None, flow["lport"])]
        expect("number of flows", len(found), 1)
        return found[0]

    def snmp(self, name):
        """A counter of TCP, such as InCsumErrors or TcpExtTCPTimeouts."""
        for path, prefix in (("/proc/net/snmp", ""), ("/proc/net/netstat", "TcpExt")):
            lines = self.read(path).splitlines()
            for heads, values in zip(lines[::2], lines[1::2]):
                for head, value in zip(heads.split(), values.split()):
                    if heads.startswith(("Tcp:", "TcpExt:")) and name == prefix + head:
                        return int(value)
        raise KeyError(name)

    def socket(self, version=4, proto=0):
        """A TCP socket."""
        with self:
            sock = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6,
                                 socket.SOCK_STREAM, proto)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        defer(let_go, sock)
        return sock


class Counters(dict):
    """Counters at one moment; now - before are those that changed."""

    def __sub__(self, before):
        return Counters((name, value - before[name]) for name, value in self.items()
                        if value != before[name])


def _flow(line):
    words = line.split()
    flow = {"mode": words[2]}
    for word, side in zip(words, "lr"):
        address, port = word.rsplit(".", 1)
        flow[side + "addr"] = address
        flow[side + "port"] = int(port)
    for name, value in zip(words[3::2], words[4::2]):
        flow[name] = int(value)
    return flow


def _path(line):
    """Local port and links of a line of /proc/net/hpcc_paths."""
    return int(line.split()[0].rpartition(".")[2]), {
        int(hop): (int(node), int(port), int(bps)) for hop, node, port, bps in
        re.findall(r" (\d+):(\d+)\.(\d+)@(\d+)", line)}


# ---- Two hosts -----------------------------------------------------------------

class Pair:
    """Two hosts, c and s, with a cable between them."""

    def __init__(self, version=4, mtu=1500, cc=("hpcc", "hpcc"), offload=True,
                 delay=None, qdisc=None, **sysctls):
        self.version = version
        if delay:
            qdisc = f"netem delay {delay} limit 100000"
        self.c = Netns(**sysctls)
        self.s = Netns(**sysctls)
        self.addr = ("10.0.0.1", "10.0.0.2") if version == 4 else ("fd00::1", "fd00::2")
        bits = 24 if version == 4 else 64
        self.c.ip(f"link add eth0 mtu {mtu} type veth peer name eth0 mtu {mtu} "
                  f"netns {self.s.path}")
        for ns, addr, name in zip((self.c, self.s), self.addr, cc):
            ns.ip(f"addr add {addr}/{bits} dev eth0", "link set eth0 up")
            ns.sysctl("net.ipv4.tcp_congestion_control", name)
            if not offload:
                ns.run("ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off")
            if qdisc:
                ns.tc(f"qdisc add dev eth0 root {qdisc}")

    def listen(self, port=5000, cc=None, proto=0):
        """A listening socket on s."""
        sock = self.s.socket(self.version, proto)
        if cc:
            set_cc(sock, cc)
        sock.bind((self.addr[1], port))
        sock.listen(1000)
        return sock

    def connect(self, listener=None, cc=None, lport=0, client=None):
        """Connect c to s. Return both sockets."""
        listener = listener or self.listen()
        client = client or self.c.socket(self.version)
        if cc:
            set_cc(client, cc)
        if lport:
            client.bind((self.addr[0], lport))
        client.connect(listener.getsockname()[:2])
        server = listener.accept()[0]
        defer(let_go, server)
        return client, server


def disconnect(sock):
    """connect(AF_UNSPEC)"""
    if _libc.connect(sock.fileno(), bytes(16), 16):
        raise OSError(ctypes.get_errno(), "disconnect")


def module_file(name):
    """NAME.ko, where lib.sh looks for it as well; None: it is installed."""
    top = os.environ.get("HPCC_TOP", ".")
    folders = os.environ.get("HPCC_MODDIR"), top + "/kmod", top + "/qdisc"
    return next((f"{folder}/{name}.ko" for folder in folders
                 if folder and os.path.exists(f"{folder}/{name}.ko")), None)


def insert(ns, name="tcp_hpcc"):
    """insmod, or modprobe where the module is installed."""
    file = module_file(name)
    ns.run(*(["insmod", file] if file else ["modprobe", name]))


def load(ns, name="tcp_hpcc"):
    """The same, and let anybody choose it, as need_module() of lib.sh does."""
    insert(ns, name)
    if name.startswith("tcp_"):
        allow(f"{allowed()} {name.removeprefix('tcp_')}")


ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"


def allowed():
    """Congestion controls that anybody may choose."""
    with open(ALLOWED, encoding="ascii") as file:
        return file.read().strip()


def allow(names):
    """Let anybody choose these, and nobody others."""
    fd = os.open(ALLOWED, os.O_WRONLY)
    try:
        os.write(fd, names.encode())
    finally:
        os.close(fd)


def unload(ns, wait_s=0, name="tcp_hpcc"):
    """rmmod; it may have to wait for connections that are closing. Return
    whether it worked.
    """
    for _ in range(wait_s):
        if not users(name):
            break
        time.sleep(1)
    said = ns.run("rmmod", name, check=False)
    if said and "in use" not in said:
        raise AssertionError(said)
    return not said


def users(module="tcp_hpcc"):
    """Who holds a module, by /proc/modules."""
    with open("/proc/modules", encoding="ascii") as file:
        return next((int(line.split()[2]) for line in file if line.split()[0] == module), None)


def set_cc(sock, name):
    """setsockopt(TCP_CONGESTION)"""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, name.encode())


def get_cc(sock):
    """getsockopt(TCP_CONGESTION)"""
    return sock.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).split(b"\0")[0].decode()


def tcp_info(sock):
    """Some of struct tcp_info."""
    raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 192).ljust(192, b"\0")
    words = struct.unpack_from("=24I", raw, 8)
    return {"state": raw[0], "ca_state": raw[1], "snd_mss": words[2],
            "ssthresh": words[17], "rtt_us": words[15], "cwnd": words[18],
            "reordering": words[20], "retrans": words[23],
            "pacing_rate": struct.unpack_from("=Q", raw, 104)[0]}


def pattern(nbytes, salt=0):
    """Bytes that do not repeat within a segment, nor look the same elsewhere."""
    words = (nbytes + 3) // 4
    return struct.pack(f"={words}I", *((i * 2654435761 + salt) & 0xffffffff
                                       for i in range(words)))[:nbytes]


def transfer(*ways, timeout_s=60, each=None):
    """Send data; each way is (from, to, bytes). Fail unless they arrive intact.
    Call each() every now and then.
    """
    sent, got, want = {}, {}, {}
    poll = select.poll()
    events = {}
    for source, sink, data in ways:
        sent[source.fileno()] = (source, memoryview(data))
        got[sink.fileno()] = (sink, bytearray())
        want[sink.fileno()] = data
        for sock, event in ((source, select.POLLOUT), (sink, select.POLLIN)):
            sock.setblocking(False)
            events[sock.fileno()] = events.get(sock.fileno(), 0) | event
    for fd, event in events.items():
        poll.register(fd, event)
    deadline = time.monotonic() + timeout_s
    while any(len(got[fd][1]) < len(want[fd]) for fd in got):
        left = deadline - time.monotonic()
        ready = poll.poll(max(left, 0) * 1000)
        if not ready:
            raise AssertionError("transfer stalls: " + ", ".join(
                f"{len(got[fd][1])} of {len(want[fd])} bytes" for fd in got))
        if each:
            each()
        for fd, event in ready:
            if event & select.POLLOUT:
                sock, data = sent[fd]
                data = data[sock.send(data[:1 << 18]):]
                sent[fd] = (sock, data)
                if not data:
                    events[fd] &= ~select.POLLOUT
                    poll.modify(fd, events[fd])
            if event & (select.POLLIN | select.POLLHUP):
                sock, data = got[fd]
                chunk = sock.recv(1 << 20)
                if not chunk:
                    raise AssertionError("connection closed early")
                data += chunk
            if event & select.POLLERR:
                raise AssertionError("connection failed")
    for fd, data in want.items():
        if got[fd][1] != data:
            raise AssertionError("data differ")


class Tracepoint:
    """A tracepoint of ours, on until the test ends. All read from the one pipe
    that there is: what it told is gone for the others.
    """

    pipe = None

    def __init__(self, name):
        self.name = name.rpartition(":")[2]
        folder = "events/" + name.replace(":", "/")
        self.top = next((top for top in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
                         if os.path.exists(f"{top}/{folder}")), None)
        if not self.top:
            raise Skip("no tracefs")
        # To empty "trace" takes the kernel 20 ms; this is empty once it was read.
        if Tracepoint.pipe is None:
            Tracepoint.pipe = os.open(self.top + "/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.lines()
        # Else the kernel patches its scheduler for each: see testing.rst, of QEMU.
        self.write("options/record-cmd", "0")
        self.write(folder + "/enable", "1")
        defer(self.write, folder + "/enable", "0")

    def write(self, name, text):
        """Write a file of tracefs."""
        with open(f"{self.top}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    def lines(self):
        """What it told since the last call, as dicts of words."""
        text = b""
        try:
            while (some := os.read(self.pipe, 1 << 16)):
                text += some
        except BlockingIOError:
            pass
        found = [line.split(self.name + ":")[1] for line in text.decode("ascii").splitlines()
                 if self.name + ":" in line]
        return [dict(word.split("=") for word in line.split()) for line in found]


# ---- Bytes of packets -------------------------------------------------------------

def csum(data):
    """Ones' complement sum, folded, not complemented."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def syn_option(exid=EXID, version=VERSION, caps=CAP_TELEMETRY, kind=KIND, length=6):
    """Our option of a SYN, padded as the kernel does it."""
    body = struct.pack("!BBHBB", kind, length, exid, version << 4, caps)
    return body.ljust(length, b"\0")[:max(length, 2)]


def record(hop, ts, tx, qlen=0, tag=1):
    """A load record; qlen is the encoded float, below 256 the value itself."""
    return struct.pack("!Q", (hop & 0xf) << 60 | (tag & 0xff) << 52 |
                       (ts & 0xfffff) << 32 | (tx & 0xfffff) << 12 | (qlen & 0xfff))


def identity(hop, node, port, mant, exp):
    """An identity record."""
    return struct.pack("!Q", hop << 60 | node << 40 | port << 24 | exp << 22 | mant)


def option(kind_of, records=(), scale=0, hops=None, flags=0, kind=KIND):
    """A telemetry option; hops default to the number of records."""
    records = list(records)
    hops = len(records) if hops is None else hops
    return struct.pack("!BBBB", kind, 4 + 8 * len(records), kind_of << 5 | scale,
                       hops << 4 | flags) + b"".join(records)


class Telemetry:
    """One of our options, as found in a segment."""

    def __init__(self, raw):
        self.raw = raw
        self.type, self.scale = raw[2] >> 5, raw[2] & 0x1f
        self.hops, self.flags = raw[3] >> 4, raw[3] & 0xf
        self.words = [int.from_bytes(raw[i:i + 8], "big") for i in range(4, len(raw), 8)]
        self.records = [{"hop": word >> 60, "tag": word >> 52 & 0xff,
                         "ts": word >> 32 & 0xfffff, "tx": word >> 12 & 0xfffff,
                         "qlen": word & 0xfff} for word in self.words]

    def __repr__(self):
        return f"<type {self.type} scale {self.scale} hops {self.hops} {self.records}>"


class Segment:
    """A TCP segment with its IP header; raises ValueError on anything else."""

    def __init__(self, packet, partial=False):
        self.packet = packet
        self.version = packet[0] >> 4
        if self.version == 4:
            at = (packet[0] & 0xf) * 4
            proto = packet[9]
            self.total = struct.unpack_from("!H", packet, 2)[0]
            pseudo = packet[12:20] + struct.pack("!BBH", 0, 6, self.total - at)
            self.ip_csum_ok = csum(packet[:at]) == 0xffff
            self.ecn = packet[1] & 3
        elif self.version == 6:
            at, proto = 40, packet[6]
            self.total = 40 + struct.unpack_from("!H", packet, 4)[0]
            while proto in (0, 43, 60):
                if packet[4:6] == b"\0\0" and packet[at + 2] == 0xc2:   # jumbo
                    self.total = 40 + struct.unpack_from("!I", packet, at + 4)[0]
                proto, at = packet[at], at + 8 * (packet[at + 1] + 1)
            if self.total == 40:            # BIG TCP of 7.2: jumbo, and no header that says so
                self.total = len(packet)
            pseudo = packet[8:40] + struct.pack("!II", self.total - at, 6)
            self.ip_csum_ok = True
            self.ecn = packet[1] >> 4 & 3
        else:
            raise ValueError
        if proto != 6:
            raise ValueError
        self.sport, self.dport, self.seq, self.ack, off, self.flags, self.win = \
            struct.unpack_from("!HHIIBBH", packet, at)
        self.header = (off >> 4) * 4
        self.at = at
        tcp = packet[at:self.total]
        self.complete = len(packet) >= self.total
        self.options = tcp[20:self.header]
        self.payload = tcp[self.header:]
        self.partial = partial
        if partial:
            self.csum_ok = struct.unpack_from("!H", tcp, 16)[0] == csum(pseudo)
        else:
            self.csum_ok = csum(pseudo + tcp) == 0xffff

    def walk(self):
        """Yield (kind, bytes of the option)."""
        at = 0
        while at < len(self.options) and self.options[at]:
            if self.options[at] == 1:
                at += 1
                continue
            length = self.options[at + 1]
            if length < 2 or at + length > len(self.options):
                raise AssertionError(f"malformed options {self.options.hex()}")
            yield self.options[at], self.options[at:at + length]
            at += length

    def option(self, kind):
        """The first option of a kind, or None."""
        return next((raw for found, raw in self.walk() if found == kind), None)

    def ours(self, kind=KIND):
        """All of our telemetry options."""
        return [Telemetry(raw) for found, raw in self.walk() if found == kind]

    def telemetry(self, kind_of):
        """Our option of a type, or None."""
        return next((opt for opt in self.ours() if opt.type == kind_of), None)

    def __repr__(self):
        names = "".join(name for bit, name in enumerate("FSRPAUEC") if self.flags >> bit & 1)
        return (f"<{self.sport}>{self.dport} {names} seq {self.seq} ack {self.ack} "
                f"len {len(self.payload)} options {self.options.hex()}>")


class Sniffer:
    """All TCP segments that a device sends or gets, from now on. Fragments are
    an error: nothing here may exceed the MTU.
    """

    SOL_PACKET, PACKET_AUXDATA, CSUM_NOT_READY = 263, 8, 1 << 3

    def __init__(self, ns, dev="eth0"):
        with ns:
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 27)    # SO_RCVBUFFORCE
        self.sock.setsockopt(self.SOL_PACKET, self.PACKET_AUXDATA, 1)
        self.sock.bind((dev, 3))
        self.sock.setblocking(False)
        self.vlan = 0           # tagged frames seen
        defer(self.sock.close)

    def segments(self):
        """Those since the last call, in order."""
        found = []
        while True:
            try:
                frame, extra, _, _ = self.sock.recvmsg(1 << 18, 64)
            except BlockingIOError:
                return found
            status = struct.unpack_from("=I", extra[0][2])[0] if extra else 0
            at = 14
            while frame[at - 2:at] in (b"\x81\x00", b"\x88\xa8"):
                self.vlan += 1
                at += 4
            if frame[at - 2:at] not in (b"\x08\x00", b"\x86\xdd"):
                continue
            if frame[at] >> 4 == 4 and struct.unpack_from("!H", frame, at + 6)[0] & 0x3fff or \
                    frame[at] >> 4 == 6 and frame[at + 6] == 44:
                raise AssertionError(f"an IP fragment: {frame[at:at + 80].hex()}")
            try:
                found.append(Segment(frame[at:], bool(status & self.CSUM_NOT_READY)))
            except ValueError:
                pass


def sane(segments, mtu=1500):
    """Fail unless every segment is well-formed and none exceeds the MTU; those
    that a device is to cut (GSO) may be longer, then their checksum is open.
    """
    for seg in segments:
        if not seg.csum_ok or not seg.ip_csum_ok:
            raise AssertionError(f"checksum of {seg}, partial: {seg.partial}")
        if seg.header > 60 or not seg.complete:
            raise AssertionError(f"length of {seg}")
        if seg.total > mtu and not seg.partial:
            raise AssertionError(f"{seg.total} bytes exceed the MTU: {seg}")
        list(seg.walk())


def ours_in(segments, kind=KIND):
    """Segments that carry an option of our kind."""
    return [seg for seg in segments if seg.option(kind)]


def data_segments(segments):
    """Those with data."""
    return [seg for seg in segments if seg.payload]


def no_errors(pair):
    """Neither TCP nor we have met a wrong checksum."""
    for ns in (pair.c, pair.s):
        expect("InCsumErrors", ns.snmp("InCsumErrors"), 0)
        expect("checksum_ignored", ns.counters()["checksum_ignored"], 0)
        expect("malformed_ignored", ns.counters()["malformed_ignored"], 0)
