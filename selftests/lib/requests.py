# SPDX-License-Identifier: GPL-2.0
"""Random requests for a qdisc "hpcc", and for each request the result that tc-hpcc(8) requires."""

import errno
import socket
import struct

from . import plumbing
from .qdisc import (HEADERS_LEN, NETLINK_CAP_ACK, NETLINK_EXT_ACK, NLA_F_NESTED, NLM_F_ACK, NLM_F_ACK_TLVS, NLMSG_ERROR,
                    NLMSGERR_ATTR_MSG, RTM_NEWQDISC, SOL_NETLINK, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, attr, attrs_of)

RTM_DELQDISC, RTM_GETQDISC = 37, 38
NLM_F_DUMP, NLM_F_EXCL, NLMSG_DONE = 0x300, 0x200, 3
HANDLE = 0x10000
TCA_STAB, TCA_STAB_BASE, TCA_STAB_DATA = 8, 1, 2
TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK = 13, 14
# The parent of clsact, and the parents of its ingress and egress filters.
CLSACT = 0xfffffff1, 0xfffffff2, 0xfffffff3

HPCC_STAMP_IOAM, HPCC_STAMP_INT, HPCC_STAMP_IFA = 2, 4, 8
HPCC_STAMP_CSIG, HPCC_STAMP_CSIG_PUSH = 0x10, 0x20
HPCC_STAMP_ALL = 0x3f
# Each parameter is allowed only if the parameter stamp has at least one of these flags.
NEEDS = {"int_dscp": HPCC_STAMP_INT, "int_window": HPCC_STAMP_INT | HPCC_STAMP_CSIG} | \
    dict.fromkeys(("csig_tpid", "csig_abw", "csig_time"), HPCC_STAMP_CSIG | HPCC_STAMP_CSIG_PUSH)

# number: (name, bytes, smallest, largest)
ATTRS = {
    1: ("rate", 8, 0, 1250000000000), 2: ("bandwidth", 8, 0, 1250000000000), 3: ("limit", 4, 1, 0xffffffff),
    4: ("node", 4, 0, 0xfffff), 5: ("port", 4, 0, 0xffff), 6: ("overhead", 4, 0, 256), 7: ("delay", 4, 0, 1000000000),
    8: ("kind", 1, 253, 254), 9: ("stamp", 1, 0, HPCC_STAMP_ALL), 10: ("split", 1, 0, 1), 12: ("marking", 1, 0, 1),
    13: ("kmin", 4, 0, 0xffffffff), 14: ("kmax", 4, 0, 0xffffffff), 15: ("pmax", 4, 0, 1000000),
    16: ("knonect", 4, 0, 0xffffffff), 17: ("stats", 1, 0, 1), 18: ("above", 4, 0, 0xffffffff),
    19: ("identify", 1, 0, 1), 20: ("respond", 4, 0, 0xffffffff), 21: ("every", 4, 1000, 1000000000),
    22: ("int_dscp", 1, 1, 63), 23: ("int_window", 4, 1000, 1000000000), 24: ("csig_tpid", 4, 0x600, 0xffff),
    25: ("csig_abw", 4, 1, 1000), 26: ("csig_time", 4, 1, 1000000), 27: ("class", 8, 0, 1250000000000),
    28: ("qlen", 1, 0, 2),
}
NUMBERS = {name: number for number, (name, *_) in ATTRS.items()}
DEFAULTS = {"rate": 0, "bandwidth": 0, "limit": 1 << 20, "node": 0, "port": 0, "overhead": 24,
            "delay": 0, "kind": 253, "stamp": 1, "split": 1, "marking": 0, "kmin": 0, "kmax": 0,
            "pmax": 1000000, "knonect": 0, "stats": 1, "above": 0, "identify": 1, "respond": 0,
            "every": 10000, "int_dscp": 23, "int_window": 10000, "csig_tpid": 0x88b5, "csig_abw": 50, "csig_time": 64,
            "class": 0, "qlen": 0}
MARKS = "kmin", "kmax", "pmax", "knonect"
# The parameters that a derived kmax, or its check against kmin, depends on.
AROUND_KMAX = "kmin", "kmax", "limit", "rate", "bandwidth", "overhead"

MTU = 1500 + 14
GSO_MAX = 65536 + 160
# The speed assumed for a veth, which reports no speed.
DEVICE_BYTES_S = 10 ** 10 // 8


def kmax_derived(config):
    """Return the derived kmax: 5 us of B, but at least 16 packets, and at most the limit."""
    speed = config["rate"] or config["bandwidth"] or DEVICE_BYTES_S
    return min(max(speed * 5 // 10 ** 6, 16 * (MTU + config["overhead"])), config["limit"])


def merged(config, given):
    """Return the configuration after a change, which keeps other values; without stamp there are no thresholds."""
    stamps = given.get("stamp", config["stamp"])
    return config | ({} if stamps else {"above": 0, "respond": 0}) | given


def allowed(config, given):
    """Return whether tc-hpcc(8) allows a configuration. `given` has the parameters of the change."""
    limit, stamp = config["limit"], config["stamp"]
    if (0 < config["rate"] < 125 or 0 < config["bandwidth"] < 125 or
            limit < (MTU if config["split"] else GSO_MAX) + config["overhead"] or
            max(config["above"], config["respond"]) > (limit if stamp else 0) or
            config["port"] == 0xffff and stamp & (HPCC_STAMP_IOAM | HPCC_STAMP_INT) or
            stamp & HPCC_STAMP_IFA and not config["identify"] or
            any(name in given and not stamp & need for name, need in NEEDS.items()) or
            config["csig_tpid"] in (0x800, 0x86dd, 0x8100, 0x88a8) or
            "every" in given and not config["respond"] or
            # A root qdisc is no class.
            config["class"] or "qlen" in given):
        return False
    if not config["marking"]:
        return not set(given) & set(MARKS)
    if max(config["kmax"], config["knonect"]) > limit:
        return False
    if config["kmax"]:
        return config["kmin"] <= config["kmax"]
    return not set(given) & set(AROUND_KMAX) or config["kmin"] <= kmax_derived(config)


def changed(config, given):
    """Return the configuration after an allowed change."""
    config = merged(config, given)
    if not config["marking"]:
        config |= {name: DEFAULTS[name] for name in MARKS}
    if not config["respond"]:
        config |= {"every": DEFAULTS["every"]}
    return config | {name: DEFAULTS[name] for name, need in NEEDS.items() if not config["stamp"] & need}


class Request:
    """A random request."""

    def __init__(self, rng, gentle=False):
        self.rng = rng
        self.gentle = gentle        # traffic must continue
        self.given = {}             # name: value, if well-formed
        self.right = True           # whether each single attribute is valid
        self.nest = b""
        for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4, 6, 10))):
            self.add()
        if rng.random() < 0.02:
            self.nest += bytes(rng.randrange(256) for _ in range(rng.randrange(1, 4)))
            self.right = False
        self.flag = NLA_F_NESTED
        if rng.random() < 0.02:
            self.flag = 0
            self.right = False

    def value(self, size, low, high):
        """Return a value at a limit, near one, or anywhere."""
        rng, top = self.rng, (1 << 8 * size) - 1
        kind = rng.random()
        if kind < 0.5:
            value = rng.choice((low, high, low + 1, high - 1, rng.randint(low, high),
                                rng.randrange(200000), int(2 ** rng.uniform(0, 8 * size))))
        elif kind < 0.7:
            value = rng.choice((low - 1, high + 1, top, top - 1, 1 << 8 * size - 1, 124, 125, 126))
        else:
            value = low + rng.randrange(1 << rng.randrange(1, 8 * size + 1)) % (high - low + 1)
        return value & top

    def soften(self, name, value):
        """Limit a value so that the link still moves packets within a test's time."""
        if name in ("rate", "bandwidth") and value:
            return max(value, 10 ** 6)
        if name == "delay":
            return value % 10 ** 6
        if name in ("limit", "kmin", "kmax", "knonect"):
            return max(value, 100000)
        return value

    def stamp_for(self, name):
        """Add the flags of stamp that a parameter of a carrier needs."""
        stamp = NEEDS[name] | self.rng.randrange(HPCC_STAMP_INT)
        self.nest += struct.pack("=HHBxxx", 5, NUMBERS["stamp"], stamp)
        self.given.pop("stamp", None)
        self.given["stamp"] = stamp

    def add(self):
        rng = self.rng
        number = rng.choice(list(ATTRS)) if rng.random() < 0.97 else rng.choice((0, 11, 29, 30, 100, 0x3fff))
        name, size, low, high = ATTRS.get(number, ("", 4, 0, 10))
        if name in NEEDS and rng.random() < 0.8:
            self.stamp_for(name)
        value = self.value(size, low, high)
        if self.gentle:
            value = self.soften(name, value)
        data = value.to_bytes(size, "little")
        if rng.random() < 0.03:
            data = bytes(rng.randrange(256) for _ in range(rng.randrange(20)))
            value = int.from_bytes(data, "little")
            if self.gentle and len(data) == size:
                data = b""
        length = len(data) + 4
        # All parsers of the kernel skip 0; 11 is padding.
        if number > max(ATTRS) or name and (len(data) != size or not low <= value <= high or
                                          name == "stamp" and value & ~HPCC_STAMP_ALL):
            self.right = False
        elif name:
            self.given.pop(name, None)
            self.given[name] = value
        flags = 0
        if rng.random() < 0.01:
            flags = NLA_F_NESTED | rng.choice((0, 0x4000))
        if rng.random() < 0.01:
            length = rng.choice((0, 1, 2, 3, length + 1, length + 100, 0xffff))
            self.right = False
        if number == 0 or number == 11 or flags:
            self.right = None if self.right else False
        self.nest += struct.pack("=HH", length, number | flags) + data + bytes(-len(data) % 4)

    def body(self, index, handle=HANDLE, kind=b"hpcc\0", parent=TC_H_ROOT):
        """Return the message without its netlink header."""
        return (struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, parent, 0) +
                attr(TCA_KIND, kind) + attr(TCA_OPTIONS | self.flag, self.nest))


def size_table(rng):
    """Return a TCA_STAB that changes the lengths of packets, to 1 byte up to 2 GB; some of them are invalid."""
    slots = rng.choice((0, 0, 1, 2, 16, 512, rng.randrange(2000)))
    spec = struct.pack("=BBhiIIII", rng.choice((0, 3, 10, 30, 31, 255)),
                       rng.choice((0, 1, 8, 15, 30, 31, 255)), rng.choice((0, -1, 1, -32768, 32767)),
                       rng.choice((0, 24, -24, -1500, 1 << 20, -1 << 31, (1 << 31) - 1)),
                       rng.choice((0, 1, 2, 99)), rng.choice((0, 64, 1 << 31)),
                       rng.choice((0, 1500, 1 << 31)), rng.choice((slots, slots, slots + 1)))
    data = b"".join(struct.pack("=H", rng.choice((0, 1, 64, 1500, 65535, rng.randrange(65536)))) for _ in range(slots))
    if rng.random() < 0.1:
        spec = spec[:rng.randrange(len(spec))]
    nest = attr(TCA_STAB_BASE, spec) + (attr(TCA_STAB_DATA, data) if slots else b"")
    if rng.random() < 0.05:
        nest = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 60)))
    return attr(TCA_STAB | rng.choice((0, NLA_F_NESTED)), nest)


class Netlink(plumbing.Netlink):
    """An rtnetlink socket of a namespace."""

    def __init__(self, ns, dev):
        super().__init__(ns, plumbing.NETLINK_ROUTE)
        with ns:
            self.index = socket.if_nametoindex(dev)
        for option in NETLINK_EXT_ACK, NETLINK_CAP_ACK:
            self.sock.setsockopt(SOL_NETLINK, option, 1)
        self.sock.settimeout(10)

    def ask(self, kind, flags, body):
        """Return (name of the error or "", message)."""
        self.send(kind, body, flags | NLM_F_ACK)
        while True:
            answer = self.sock.recv(1 << 16)
            length, what, flags, sequence = struct.unpack_from("=IHHI", answer)
            if what == NLMSG_ERROR and sequence == self.sequence:
                break
        code = -struct.unpack_from("=i", answer, 16)[0]
        found = dict(attrs_of(answer[HEADERS_LEN:length])) if flags & NLM_F_ACK_TLVS else {}
        message = found.get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode()
        return errno.errorcode[code] if code else "", message

    def dump(self):
        """Return the root qdisc as (kind, handle, configuration)."""
        self.send(RTM_GETQDISC, struct.pack("=BxxxiIII", 0, self.index, 0, 0, 0), NLM_F_DUMP)
        found = "", 0, {}
        while True:
            for what, message in self.messages():
                if struct.unpack_from("=I", message, 8)[0] != self.sequence:
                    continue
                if what == NLMSG_DONE:
                    return found
                if what == RTM_NEWQDISC:
                    found = self.parse(message[16:]) or found

    def parse(self, body):
        """Parse a qdisc of the dump; return None unless it is the device's root."""
        index, handle, parent = struct.unpack_from("=4xiII", body)
        if index != self.index or parent != TC_H_ROOT:
            return None
        attrs = dict(attrs_of(body[20:]))
        config = {ATTRS[number][0]: int.from_bytes(data, "little")
                  for number, data in attrs_of(attrs.get(TCA_OPTIONS, b"")) if number in ATTRS}
        return attrs[TCA_KIND].rstrip(b"\0").decode(), handle, config
