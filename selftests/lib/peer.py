# SPDX-License-Identifier: GPL-2.0
"""A TCP implementation behind a TUN device, which sends any segments for a test, and simulated links."""

import contextlib
import ctypes
import fcntl
import math
import os
import select
import struct
import time

from .kernel import virtual_time, watches_itself
from .ktap import defer, expect, expect_in
from .net import Netns
from .packet import (ACK, ECE, ECHO, RST, SYN, Segment, addresses, ip, ipv4, option, qlen_code, qlen_value,
                     record, syn_option, tcp, with_csum)
from .tcp import get_cc, let_go, set_cc, tcp_info
from .tracepoint import Tracepoint

# The kernel's values for Peer's parameters. In real time the peer itself needs time: T is longer by
# this power of two, and the rate is lower.
SLOWER = 0 if virtual_time() else 4
T_NS = 1000000 << SLOWER
SCALE = 7 + SLOWER      # for T = 1 ms: units of 128 ns
HOST_MBPS = 1000 >> SLOWER
# The rate of a link between two kernels that a test fills.
LINK_MBPS = HOST_MBPS >> (3 if SLOWER and watches_itself() else 0)
UNIT_NS = 1 << SCALE
T_UNITS = T_NS / UNIT_NS
W_INIT = HOST_MBPS * T_NS // 8000       # 1 Gb/s x 1 ms: 125,000
W_AI = W_INIT * 0.05 / 100
ETA = 0.95


class Peer:
    """The far end of a TUN device. The kernel's address is 10.9.0.1 or fd09::1; the peer's address ends in 2. The peer
    sends and receives only when the test calls its methods. W_init is W_INIT unless a test sets other parameters.
    Unless patient is false, a slow peer does not cause retransmissions by the kernel in real time.
    """

    SYSCTLS = {"host_mbps": HOST_MBPS, "base_rtt_ns": T_NS, "sample": 0}
    FLAGS = 0x1001          # IFF_TUN, IFF_NO_PI
    HEAD = 0                # bytes before each packet
    isn = 0x10000000
    mss = 1460              # in our SYN

    @classmethod
    def new_isn(cls):
        """Return another initial sequence number for each connection."""
        Peer.isn += 0x100000
        return Peer.isn & 0xffffffff

    def __init__(self, version=4, mtu=1500, timestamps=True, sack=True, cc="hpcc",
                 ecn=False, initcwnd=0, patient=True, **sysctls):
        self.ns = Netns(**(self.SYSCTLS | sysctls))
        self.version = version
        self.fd = None
        defer(self.close)
        with self.ns:
            self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self.fd, 0x400454ca,                    # TUNSETIFF
                        struct.pack("16sH22x", b"tun0", self.FLAGS))
        self.kernel, self.addr = (("10.9.0.1", "10.9.0.2") if version == 4 else ("fd09::1", "fd09::2"))
        self.ns.ip(f"addr add {self.kernel}/{24 if version == 4 else 64} dev tun0", f"link set tun0 up mtu {mtu}")
        self.ns.sysctl("net.ipv4.tcp_congestion_control", cc)
        patient = patient and not virtual_time()
        if patient:
            self.ns.sysctl("net.ipv4.tcp_early_retrans", 0)
        if initcwnd or patient:
            self.route((f"initcwnd {initcwnd} " if initcwnd else "") + ("rto_min 5s" if patient else ""))
        self.timestamps, self.sack, self.ecn = timestamps, sack, ecn
        self.lport = 0          # the kernel's port
        self.port = 7000        # ours
        self.seq = self.acked = 0
        self.tsval, self.tsecr = 1000, 0
        self.window = 65535
        self.syn = self.sock = None

    def route(self, what):
        """Set attributes of the kernel's route to the peer."""
        net = "10.9.0.0/24" if self.version == 4 else "fd09::/64"
        self.ns.ip(f"route replace {net} dev tun0 proto kernel src {self.kernel} {what}")

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
        self.fd = None

    # -- bytes

    def packet(self, flags, seq, ack, options=b"", payload=b"", bad_csum=False, ecn=0):
        ends = addresses(self.addr, self.kernel)
        return ip(ends, tcp(ends, options, payload, flags, (self.port, self.lport), seq, ack, self.window,
                            wrong=0x5555 if bad_csum else 0), tos=ecn)

    def raw(self, *what, **how):
        os.write(self.fd, self.packet(*what, **how))

    def icmp_frag_needed(self, mtu, seq):
        """Report by ICMP that a link behind the peer has a smaller MTU, for an IPv4 segment of the kernel."""
        old = ipv4(addresses(self.kernel, self.addr), struct.pack("!HHI", self.lport, self.port, seq), total=1500)
        icmp = with_csum(struct.pack("!BBHHH", 3, 4, 0, 0, mtu) + old, 2)
        os.write(self.fd, ipv4(addresses(self.addr, self.kernel), icmp, proto=1, frag=0))

    def read(self, timeout_s=0.0):
        """Return the next segment that the kernel sends, or None."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                packet = os.read(self.fd, 1 << 16)[self.HEAD:]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                select.select([self.fd], [], [], left)
                continue
            try:
                seg = Segment(packet)
            except ValueError:
                continue
            if not seg.csum_ok or not seg.ip_csum_ok or seg.header > 60:
                raise AssertionError(f"bad segment {seg}")
            stamp = seg.option(8)
            if stamp:
                self.tsecr = struct.unpack("!I", stamp[2:6])[0]
            return seg

    def read_all(self, timeout_s=0.0):
        """Return segments until none arrives for this time."""
        found = []
        while (seg := self.read(timeout_s)):
            found.append(seg)
        return found

    def echoes(self, timeout_s=0.1):
        """Return the echoes of the segments until none arrives for this time."""
        return [opt for seg in self.read_all(timeout_s) if (opt := seg.telemetry(ECHO))]

    # -- connection

    def stamp(self):
        """Return the timestamp option, if negotiated."""
        self.tsval += 1
        return struct.pack("!BBBBII", 1, 1, 8, 10, self.tsval, self.tsecr) if self.timestamps else b""

    def syn_options(self, ours):
        """Return the options of our SYN or SYN-ACK."""
        opts = struct.pack("!BBH", 2, 4, self.mss)
        opts += b"\x04\x02\x01\x01" if self.sack else b""
        return opts + self.stamp() + b"\x01\x03\x03\x07" + ours

    def start_connect(self, cc=None, port=7000, lport=0):
        """Let the kernel send a SYN."""
        self.port = port
        self.sock = self.ns.socket(self.version)
        if cc:
            set_cc(self.sock, cc)
        if lport:
            self.sock.bind((self.kernel, lport))
        self.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.sock.connect((self.addr, port))
        self.syn = self.read(0.1)
        self.got_syn(self.syn)

    def got_syn(self, syn):
        """Use this SYN for the next answer."""
        self.lport = syn.sport
        self.acked = syn.seq + 1
        self.seq = self.new_isn()

    def answer(self, ours=syn_option()):
        """Send the SYN-ACK, and read the ACK."""
        flags = SYN | ACK | (ECE if self.ecn else 0)
        self.raw(flags, self.seq, self.acked, self.syn_options(ours))
        self.seq += 1
        last = self.read(0.1)
        expect("handshake's ACK", (last.flags & (SYN | ACK), last.ack), (ACK, self.seq))
        return last

    def connect(self, ours=syn_option(), **how):
        self.start_connect(**how)
        self.answer(ours)
        return self.sock

    def connected(self, *what, **how):
        self.connect(*what, **how)
        return self

    def listening(self, **how):
        self.listen(**how)
        return self

    def listen(self, port=5000, cc=None):
        """Let the kernel listen."""
        self.listener = self.ns.socket(self.version)
        if cc:
            set_cc(self.listener, cc)
        self.listener.bind((self.kernel, port))
        self.listener.listen(16)
        self.lport = port

    def start_accept(self, ours=syn_option(), flags=SYN, **how):
        """Send a SYN. Return the SYN-ACK."""
        self.seq = self.new_isn()
        self.raw(flags, self.seq, 0, self.syn_options(ours), **how)
        self.seq += 1
        synack = self.read(0.1)
        if synack:
            self.acked = synack.seq + 1
        return synack

    def accept(self, ours=syn_option()):
        """Connect to the kernel's listener. Return (SYN-ACK, socket)."""
        synack = self.start_accept(ours)
        expect("SYN-ACK", synack.flags & (SYN | ACK | RST), SYN | ACK)
        return synack, self.accepted()

    def accepted(self):
        """Send the handshake's ACK. Return the socket of the connection that the kernel accepts."""
        self.send()
        self.sock = self.listener.accept()[0]
        defer(let_go, self.sock)
        return self.sock

    def send(self, options=b"", payload=b"", ack=None, seq=None, flags=ACK, **how):
        """Send a segment in sequence; options follow the timestamp."""
        self.raw(flags, self.seq if seq is None else seq, self.acked if ack is None else ack,
                 self.stamp() + options, payload, **how)
        if seq is None:
            self.seq += len(payload)

    def take(self, timeout_s=0.1):
        """Read a data segment, and advance our ACK number beyond it. Return None if none arrives."""
        while (seg := self.read(timeout_s)):
            if not seg.payload:
                continue
            self.advance(seg)
            return seg
        return None

    def advance(self, seg):
        """Advance our ACK number beyond a segment."""
        end = (seg.seq + len(seg.payload)) & 0xffffffff
        if seg.payload and 0 < (end - self.acked) & 0xffffffff < 1 << 31:
            self.acked = end

    def fill(self):
        """Fill the socket's buffer."""
        with contextlib.suppress(BlockingIOError):
            self.sock.send(bytes(1 << 20))

    def cc(self):
        return get_cc(self.sock)

    def flow(self):
        return self.ns.flow()

    def rate(self):
        """Return the rate at which TCP paces, in bytes/s."""
        return tcp_info(self.sock)["pacing_rate"]


class Link:
    """The records of one switch port."""

    def __init__(self, hop=1, tag=1, ts=5000, tx=700):
        self.hop, self.tag, self.ts, self.tx = hop, tag, ts, tx
        self.code = 0

    def step(self, units, utilization=0.0, queue_T=0.0):
        """Advance the time by `units` at a utilization of the link, and set the queue (queue_T is in units of T)."""
        self.ts += units
        self.tx += round(units * utilization)
        self.code = qlen_code(round(queue_T * T_UNITS))
        return self

    @property
    def u(self):
        """The part of u' that the queue contributes, after encoding."""
        return qlen_value(self.code) / T_UNITS

    def raw(self):
        return record(self.hop, self.ts, self.tx, self.code, self.tag)


class Flow(Peer):
    """A peer whose kernel always has more data to send."""

    def __init__(self, **how):
        super().__init__(**how)
        self.connect()
        self.sock.setblocking(False)
        self.fill()

    def run(self, timeout_s=2e-9 * T_NS, for_s=math.inf):
        """Read all segments that the kernel sends now, or for at most `for_s`. Return them."""
        found = []
        self.fill()
        end_s = time.monotonic() + for_s
        while time.monotonic() < end_s and (seg := self.read(timeout_s)):
            found.append(seg)
            self.advance(seg)
        return found

    def time_out(self):
        """Drop all data in flight, until the retransmission timer has fired."""
        while not self.ns.snmp("TcpExtTCPTimeouts"):    # a tail loss probe is first
            expect("something sent", self.read(1.0) is not None, True)

    def round(self, *links, timeout_s=2e-9 * T_NS, hops=None, scale=SCALE):
        """Read all data that the kernel sends, and acknowledge them with these records. Return the flow."""
        self.run(timeout_s)
        self.echo(*links, hops=hops, scale=scale)
        return self.flow()

    def echo(self, *links, hops=None, scale=SCALE, **how):
        """Send an ACK with records."""
        self.send(option(ECHO, [link.raw() for link in links], scale, hops or max(link.hop for link in links)), **how)


def near(what, got, want, relative=0.002):
    """Fail unless got equals want, apart from rounding."""
    expect_in(what, got, want * (1 - relative) - 1, want * (1 + relative) + 1)


def timed_out():
    """Return a flow whose last window was lost, after its RTO; its link; and the acknowledged sequence number."""
    flow = Flow()
    # otherwise TCP would detect that data arrived without a retransmission, and undo the timeout
    flow.ns.sysctl("net.ipv4.tcp_frto", 0)
    link = Link()
    flow.round(link.step(9000, 0.8))
    flow.round(link.step(9000, 0.8))
    unacked = flow.acked
    flow.run()
    flow.time_out()
    return flow, link, unacked


def settle(flow, link, until, turns=50):
    """Reduce W below a value by reporting a queue."""
    for _ in range(turns):
        link.step(9000, 1.0, 1.0)
        if flow.round(link)["W"] < until:
            return flow.flow()
    raise AssertionError(f"W stays above {until}: {flow.flow()}")


# ---- LDCP ------------------------------------------------------------------------

SACK_BLOCKS = 3         # with timestamps


class Window:
    """cw in segments, as in the draft (section 2.2)."""

    def __init__(self, cw, alpha=0.25, beta=0.5, gamma=0.25):
        self.cw, self.alpha, self.beta, self.gamma = cw, alpha, beta, gamma

    def ack(self, n, marked=False):
        """Apply an ACK of n segments. Return cw."""
        if marked:
            self.cw = (max(1, self.cw - n * self.beta) if self.cw > 1 else max(self.gamma, self.cw / 2))
        else:
            self.cw += self.gamma if self.cw < 1 else n * self.alpha / self.cw
        return self.cw


def exact_sleep():
    """Set the timer slack to zero, so that a sleep ends on time."""
    libc = ctypes.CDLL(None)
    before = libc.prctl(30, 0, 0, 0, 0)     # PR_GET_TIMERSLACK, PR_SET_TIMERSLACK
    libc.prctl(29, 1, 0, 0, 0)
    defer(libc.prctl, 29, before, 0, 0, 0)


class LdcpFlow(Peer):
    """A peer of an ldcp connection, which acknowledges any segments for a test, with or without marks. The flow is
    in the stable stage from its first packet, with TCP's window of 10, unless a test enables a fast start.
    """

    LDCP = {"alpha_permille": 250, "beta_permille": 500, "gamma_permille": 250,
            "cw_min_permille": 1000, "fast_start": 0, "iw": 10, "base_rtt_ns": T_NS}
    MSS = 1448

    def __init__(self, ldcp=None, ecn=True, **how):
        exact_sleep()
        super().__init__(cc="ldcp", ecn=ecn, ldcp=self.LDCP | (ldcp or {}), **how)
        self.tracepoint = Tracepoint("ldcp:ldcp_ack")
        self.start = self.high = 0
        self.blocks = []        # received data after a gap, newest first
        self.always = False     # the kernel always has more data to send

    def connect(self, **how):
        super().connect(b"", **how)
        self.sock.setblocking(False)
        self.start = self.high = self.acked
        return self.sock

    def busy(self):
        """Connect, and keep the kernel supplied with data. Return the flow."""
        self.connect()
        self.always = True
        self.fill()
        return self

    def got(self, timeout_s=0.0):
        """Return the data segments that the kernel sends, until none arrives for this time."""
        if self.always:
            self.fill()
        segments = [seg for seg in self.read_all(timeout_s) if seg.payload]
        self.high = max([self.high, *(seg.seq + len(seg.payload) for seg in segments)])
        return segments

    def ack(self, n=1, marked=False, **how):
        """Acknowledge n more segments."""
        if self.always:
            self.fill()
        self.acked += n * self.MSS
        self.send(flags=ACK | (ECE if marked else 0), **how)

    def traced(self):
        """Return (cw, fields of the tracepoint's line) for each ACK since the last call."""
        ends = str(self.lport), str(self.port)
        return [(int(line["cw_milli"]) / 1000, line) for line in self.tracepoint.lines()
                if (line["sport"], line["dport"]) == ends]

    def cw(self):
        """Return cw after the last ACK."""
        return self.traced()[-1][0]

    def below(self, cw):
        """Reduce cw to one of 1, 1/2, 1/4 by marks. Afterwards one packet is in flight."""
        self.got()
        self.ack((self.high - self.acked) // self.MSS, marked=True)
        for _ in range(100):
            self.got(1e-8 * T_NS)
            now = self.cw()
            if now <= cw and self.high - self.acked == self.MSS:
                expect("cw", now, cw)
                return
            self.ack(1, marked=now > cw)
        raise AssertionError(f"cw stays above {cw}")

    def counters(self):
        return self.ns.counters("ldcp")

    # -- a receiver

    def take_in(self, seg):
        """Receive a segment: advance acked, or record it after the gap. Return the options of its ACK."""
        left, right = seg.seq, seg.seq + len(seg.payload)
        if right <= self.acked or any(a <= left and right <= b for a, b in self.blocks):
            return struct.pack("!BBBBII", 1, 1, 5, 10, left, right) + self.sack_option(2)
        if left <= self.acked:
            self.acked = right
        else:
            for block in [b for b in self.blocks if b[0] <= right and left <= b[1]]:
                left, right = min(left, block[0]), max(right, block[1])
                self.blocks.remove(block)
            self.blocks.insert(0, (left, right))
        for block in sorted(self.blocks):
            if block[0] <= self.acked:
                self.acked = max(self.acked, block[1])
                self.blocks.remove(block)
        return self.sack_option(SACK_BLOCKS)

    def sack_option(self, most):
        """Return the SACK option for data after a gap."""
        blocks = self.blocks[:most] if self.sack else []
        if not blocks:
            return b""
        return (struct.pack("!BBBB", 1, 1, 5, 2 + 8 * len(blocks)) +
                b"".join(struct.pack("!II", *block) for block in blocks))

    def receive(self, nbytes, lost=lambda seg: False, marked=lambda seg: False, rtt_s=1e-9 * T_NS, patience_s=5):
        """Act as a receiver that is one RTT away and acknowledges each packet, until nbytes bytes have arrived. lost()
        and marked() decide what happens to a segment. Return (time, segment) of all segments that the kernel sent.
        """
        began, sent, answers = time.monotonic(), [], []
        while self.acked - self.start < nbytes or answers:
            if self.always:
                self.fill()
            now = time.monotonic()
            while answers and answers[0][0] <= now:
                _, flags, ack, options = answers.pop(0)
                self.send(options, ack=ack, flags=flags)
            if self.acked - self.start >= nbytes:
                time.sleep(max(0, answers[0][0] - now) if answers else 0)
                continue
            seg = self.read((answers[0][0] - now if answers else patience_s) + 1e-9)
            if not seg:
                if answers:
                    continue
                raise AssertionError(f"no segment arrives: {self.acked - self.start} of {nbytes} bytes")
            if not seg.payload:
                continue
            now = time.monotonic()
            sent.append((now - began, seg))
            self.high = max(self.high, seg.seq + len(seg.payload))
            if not lost(seg):
                options = self.take_in(seg)
                answers.append((now + rtt_s, ACK | (ECE if marked(seg) else 0), self.acked, options))
        return sent


# ---- Round trips ------------------------------------------------------------------

def rounds(count, flow, link, *load):
    """Run round trips in which the link has this utilization and queue. Return the flow after the last round trip."""
    for _ in range(count):
        now = flow.round(link.step(9000, *load))
    return now


def measured(count, *load, **how):
    """Return a flow after rounds(), its link, and the result of rounds()."""
    flow, link = Flow(**how), Link()
    return flow, link, rounds(count, flow, link, *load)


def narrowed(below, **how):
    """Reduce W of a flow below a value by a queue. Return the flow, its link, and the flow's state."""
    flow, link, _ = measured(1, 1.0, 1.0, **how)
    return flow, link, settle(flow, link, below)


def fall_back(flow):
    """Run round trips without telemetry until the flow is in classic mode."""
    for _ in range(200):
        flow.run()
        flow.send()
        if flow.cc() != "hpcc":
            return
    raise AssertionError("the flow does not fall back")
