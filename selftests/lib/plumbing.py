# SPDX-License-Identifier: GPL-2.0
"""NFQUEUE, IPVS and BPF by netlink and bpf(2), because the guest has no programs that set them up."""

import contextlib
import ctypes
import os
import select
import socket
import struct
import threading

from .ktap import defer
from .qdisc import (NLA_F_NESTED, NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NLMSG_ERROR, TCA_KIND,
                    TCA_OPTIONS, attr, attrs_of)

NETLINK_ROUTE, NETLINK_NETFILTER, NETLINK_GENERIC = 0, 12, 16

_libc = ctypes.CDLL(None, use_errno=True)


def nest(kind, *attrs):
    """Return an attribute that contains others."""
    return attr(kind | NLA_F_NESTED, b"".join(attrs))


class Netlink:
    """A netlink socket in a namespace."""

    def __init__(self, ns, proto):
        with ns:
            self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, proto)
        self.sock.bind((0, 0))
        defer(self.sock.close)
        self.sequence = 0

    def send(self, kind, body, flags=0):
        self.sequence += 1
        self.sock.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags, self.sequence, 0) + body)

    def messages(self):
        """Yield (type, message) for each message of the next packet."""
        data, at = self.sock.recv(1 << 18), 0
        while at < len(data):
            length, kind = struct.unpack_from("=IH", data, at)
            yield kind, data[at:at + length]
            at += length + 3 & ~3

    def ask(self, kind, body, flags=0):
        """Send a message. Return the answer without its header; b"" if the answer is only success."""
        self.send(kind, body, flags | NLM_F_ACK)
        answer = self.sock.recv(1 << 16)
        if struct.unpack_from("=H", answer, 4)[0] != NLMSG_ERROR:
            self.sock.recv(1 << 16)         # the acknowledgement
            return answer[16:]
        error = -struct.unpack_from("=i", answer, 16)[0]
        if error:
            raise OSError(error, f"netlink message {kind}: {os.strerror(error)}")
        return b""


class Worker:
    """A thread that calls work() with the sockets that have packets, until the test ends."""

    def start(self, *socks):
        """Start the thread."""
        self.stop = os.pipe()
        self.thread = threading.Thread(target=self.loop, args=socks, daemon=True)
        self.thread.start()
        defer(self.close)

    def close(self):
        """Stop the thread."""
        os.close(self.stop[1])
        self.thread.join()
        os.close(self.stop[0])

    def loop(self, *socks):
        """Wait for packets until close()."""
        while True:
            ready = select.select([*socks, self.stop[0]], [], [])[0]
            if self.stop[0] in ready:
                return
            self.work(ready)


# ---- NFQUEUE -------------------------------------------------------------------

NFQNL_MSG_VERDICT, NFQNL_MSG_CONFIG = 0x301, 0x302
NFQA_VERDICT_HDR = 2
NFQA_CFG_CMD, NFQA_CFG_PARAMS, NFQA_CFG_QUEUE_MAXLEN, NFQA_CFG_MASK, NFQA_CFG_FLAGS = range(1, 6)
FAIL_OPEN, GSO = 1, 4
COPY_PACKET, NF_ACCEPT = 2, 1


class Queue(Worker, Netlink):
    """Receives all packets of queue 1 of a namespace, and returns each one unchanged."""

    def __init__(self, ns, flags, maxlen=100000):
        Netlink.__init__(self, ns, NETLINK_NETFILTER)
        self.sock.setsockopt(socket.SOL_SOCKET, 33, 1 << 27)        # SO_RCVBUFFORCE
        self.taken = 0
        for what in (attr(NFQA_CFG_CMD, struct.pack("!BxH", 1, 0)),     # bind
                     attr(NFQA_CFG_PARAMS, struct.pack("!IB", 0xffff, COPY_PACKET)),
                     attr(NFQA_CFG_QUEUE_MAXLEN, struct.pack("!I", maxlen)),
                     attr(NFQA_CFG_FLAGS, struct.pack("!I", flags)) +
                     attr(NFQA_CFG_MASK, struct.pack("!I", FAIL_OPEN | GSO))):
            self.ask(NFQNL_MSG_CONFIG, struct.pack("!BBH", 0, 0, 1) + what)
        self.start(self.sock)

    def work(self, _):
        """Accept a packet."""
        with contextlib.suppress(OSError):      # ENOBUFS: some packets were dropped
            packet = self.sock.recv(256)
            self.taken += 1
            # The first attribute after nlmsghdr and nfgenmsg has the packet's number.
            self.send(NFQNL_MSG_VERDICT, struct.pack("!BBH", 0, 0, 1) +
                      attr(NFQA_VERDICT_HDR, struct.pack("!I", NF_ACCEPT) + packet[24:28]))


# ---- IPVS ------------------------------------------------------------------------

GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 0x10, 3, 1, 2
IPVS_CMD_NEW_SERVICE, IPVS_CMD_NEW_DEST = 1, 5
IPVS_SERVICE, IPVS_DEST = 1, 2


def family_of(netlink, name):
    """Return the number and the attributes of a generic netlink family."""
    found = dict(attrs_of(netlink.ask(GENL_ID_CTRL, struct.pack("=BBH", CTRL_CMD_GETFAMILY, 1, 0) +
                                      attr(CTRL_ATTR_FAMILY_NAME, name.encode() + b"\0"))[4:]))
    return struct.unpack("=H", found[CTRL_ATTR_FAMILY_ID])[0], found


def balance(ns, version, service, server):
    """Let IPVS in a namespace forward connections to service, (address, port), to a server by NAT ("masquerading")."""
    netlink = Netlink(ns, NETLINK_GENERIC)
    family = family_of(netlink, "IPVS")[0]
    af = socket.AF_INET if version == 4 else socket.AF_INET6

    def place(addr, port, first):
        return (attr(first, socket.inet_pton(af, addr).ljust(16, b"\0")) + attr(first + 1, struct.pack("!H", port)))

    virtual = nest(IPVS_SERVICE, attr(1, struct.pack("=H", af)), attr(2, struct.pack("=H", socket.IPPROTO_TCP)),
                   place(*service, 3), attr(6, b"rr\0"), attr(7, bytes(8)), attr(8, bytes(4)),
                   attr(9, b"\xff" * 4 if version == 4 else struct.pack("=I", 128)))
    real = nest(IPVS_DEST, place(*server, 1), *(attr(kind, struct.pack("=I", value)) for
                                               kind, value in ((3, 0), (4, 1), (5, 0), (6, 0))))
    netlink.ask(family, struct.pack("=BBH", IPVS_CMD_NEW_SERVICE, 1, 0) + virtual)
    netlink.ask(family, struct.pack("=BBH", IPVS_CMD_NEW_DEST, 1, 0) + virtual + real)


# ---- BPF -------------------------------------------------------------------------

SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
BPF_PROG_LOAD, SCHED_CLS, SCHED_ACT = 5, 3, 4
TC_ACT_OK = 0
INGRESS, EGRESS = 0xfffffff2, 0xfffffff3
RTM_NEWTFILTER = 44
# Helpers
SKB_LOAD_BYTES, REDIRECT, SK_RELEASE = 26, 23, 86
SKC_LOOKUP_TCP, SK_ASSIGN, REDIRECT_NEIGH, REDIRECT_PEER = 99, 124, 152, 155
# Members of struct __sk_buff
MARK, PROTOCOL = 8, 16


def insn(code, dst=0, src=0, off=0, imm=0):
    """struct bpf_insn"""
    return struct.pack("=BBhi", code, src << 4 | dst, off, imm)


def mov(dst, imm):
    return insn(0xb7, dst, imm=imm)


def copy(dst, src):
    return insn(0xbf, dst, src)


def call(helper):
    """r0 = helper(r1, ..., r5)"""
    return insn(0x85, imm=helper)


EXIT = insn(0x95)


def only_tcp(version, then):
    """Return a program that runs "then" for TCP packets without IP options (in r6), and passes all others."""
    then_pass = mov(0, TC_ACT_OK) + EXIT
    return (copy(6, 1) +
            insn(0x61, 7, 6, PROTOCOL) +                        # r7 = skb->protocol
            insn(0x15, 7, off=2, imm=socket.htons(0x0800 if version == 4 else 0x86dd)) + then_pass +
            copy(1, 6) + mov(2, 23 if version == 4 else 20) + copy(3, 10) + insn(0x07, 3, imm=-8) +
            mov(4, 1) + call(SKB_LOAD_BYTES) +
            insn(0x55, 0, off=2, imm=0) +                       # the packet has no such byte
            insn(0x71, 7, 10, -8) + insn(0x15, 7, off=2, imm=6) + then_pass + then)


def redirect(version, helper, ifindex):
    """Return a program that sends TCP out of another device."""
    more = mov(3, 0) + mov(4, 0) if helper == REDIRECT_NEIGH else b""
    return only_tcp(version, mov(1, ifindex) + mov(2, 0) + more + call(helper) + EXIT)


def redirect_once(version, ifindex):
    """Return a program that marks TCP packets without a mark, and sends them out of another device."""
    return only_tcp(version, insn(0x61, 7, 6, MARK) + insn(0x15, 7, off=2, imm=0) +
                    mov(0, TC_ACT_OK) + EXIT + mov(7, 1) + insn(0x63, 6, 7, MARK) +
                    mov(1, ifindex) + mov(2, 0) + call(REDIRECT) + EXIT)


def assign(version):
    """Return a program that assigns a packet the socket of its addresses and ports, before the stack looks it up."""
    at, length = (26, 12) if version == 4 else (22, 36)
    return only_tcp(version, copy(1, 6) + mov(2, at) + copy(3, 10) + insn(0x07, 3, imm=-48) +
                    mov(4, length) + call(SKB_LOAD_BYTES) + insn(0x15, 0, off=2, imm=0) + mov(0, TC_ACT_OK) + EXIT +
                    copy(1, 6) + copy(2, 10) + insn(0x07, 2, imm=-48) + mov(3, length) +
                    mov(4, -1) + mov(5, 0) + call(SKC_LOOKUP_TCP) +
                    insn(0x55, 0, off=2, imm=0) + mov(0, TC_ACT_OK) + EXIT + copy(7, 0) +
                    copy(1, 6) + copy(2, 7) + mov(3, 0) + call(SK_ASSIGN) +
                    copy(1, 7) + call(SK_RELEASE) + mov(0, TC_ACT_OK) + EXIT)


def load_bpf(program, kind, attach=0):
    """Load a program with bpf(BPF_PROG_LOAD), for this type of attachment. Return its file descriptor."""
    number = SYS_BPF[os.uname().machine]
    code = ctypes.create_string_buffer(program, len(program))
    log = ctypes.create_string_buffer(1 << 16)
    name = ctypes.create_string_buffer(b"GPL")
    how = ctypes.create_string_buffer(
        struct.pack("=IIQQIIQ28xI", kind, len(program) // 8, ctypes.addressof(code), ctypes.addressof(name),
                    1, len(log), ctypes.addressof(log), attach).ljust(128, b"\0"))
    fd = _libc.syscall(number, BPF_PROG_LOAD, how, 128)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "bpf: " + log.value.decode()[-600:])
    return fd


def attach_bpf(ns, dev, place, program, action=False):
    """Attach a program to a device's ingress or egress: as a filter (cls_bpf), or as its action (act_bpf)."""
    fd = load_bpf(program, SCHED_ACT if action else SCHED_CLS)
    netlink = Netlink(ns, NETLINK_ROUTE)
    with ns:
        index = socket.if_nametoindex(dev)
    if action:
        kind = b"matchall\0"
        options = nest(TCA_OPTIONS, nest(2, nest(1, attr(1, b"bpf\0"), nest(
            2, attr(2, struct.pack("=IIiii", 0, 0, TC_ACT_OK, 0, 0)),
            attr(5, struct.pack("=I", fd)), attr(6, b"test\0")))))
    else:
        kind = b"bpf\0"
        options = nest(TCA_OPTIONS, attr(6, struct.pack("=I", fd)), attr(7, b"test\0"),
                       attr(8, struct.pack("=I", 1)))           # direct action
    if "clsact" not in ns.run("tc", "qdisc", "show", "dev", dev):
        ns.tc(f"qdisc add dev {dev} clsact")
    netlink.ask(RTM_NEWTFILTER, struct.pack("=BxxxiIII", 0, index, 0, place, 1 << 16 | socket.htons(3)) +
                attr(TCA_KIND, kind) + options, NLM_F_CREATE)
    os.close(fd)


# ---- XDP and team ------------------------------------------------------------------

XDP, RTM_SETLINK, IFLA_XDP, XDP_FLAGS_DRV_MODE = 6, 19, 43, 4
TEAM_CMD_OPTIONS_SET = 1


def attach_xdp_redirect(ns, dev, other):
    """Let the driver of a device redirect each packet to another device."""
    with ns:
        index, to = socket.if_nametoindex(dev), socket.if_nametoindex(other)
    fd = load_bpf(mov(1, to) + mov(2, 0) + call(REDIRECT) + EXIT, XDP)
    Netlink(ns, NETLINK_ROUTE).ask(RTM_SETLINK, struct.pack("=BxHiII", 0, 0, index, 0, 0) + nest(
        IFLA_XDP, attr(1, struct.pack("=i", fd)), attr(3, struct.pack("=I", XDP_FLAGS_DRV_MODE))))
    os.close(fd)


def set_team(ns, dev, option, value):
    """Set an option of a team device: a string or a number."""
    netlink = Netlink(ns, NETLINK_GENERIC)
    with ns:
        index = socket.if_nametoindex(dev)
    kind, data = (5, value.encode() + b"\0") if isinstance(value, str) else (3, struct.pack("=I", value))
    family = family_of(netlink, "team")[0]
    with contextlib.suppress(ProcessLookupError):       # set, but no process receives the kernel's event
        netlink.ask(family, struct.pack("=BBH", TEAM_CMD_OPTIONS_SET, 1, 0) +
                    attr(1, struct.pack("=I", index)) + nest(2, nest(
                        1, attr(1, option.encode() + b"\0"), attr(3, struct.pack("=B", kind)), attr(4, data))))
