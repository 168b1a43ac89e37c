# SPDX-License-Identifier: GPL-2.0
"""Generic netlink by the YAML spec in Documentation/netlink/specs, like the kernel's ynl, but only
with the features that our family needs.
"""

import errno
import functools
import os
import socket
import struct
from pathlib import Path

import yaml

from .plumbing import NETLINK_GENERIC, Netlink, family_of
from .qdisc import (NETLINK_CAP_ACK, NETLINK_EXT_ACK, NLA_F_NESTED, NLM_F_ACK, NLM_F_ACK_TLVS, NLMSG_ERROR,
                    NLMSGERR_ATTR_MSG, SOL_NETLINK, attr, attrs_of)

CTRL_ATTR_MCAST_GROUPS, CTRL_ATTR_MCAST_GRP_NAME, CTRL_ATTR_MCAST_GRP_ID = 7, 1, 2
SO_COOKIE = 57
NETLINK_ADD_MEMBERSHIP, NLMSG_DONE, NLM_F_DUMP = 1, 3, 0x300
SPECS = Path(__file__).resolve().parents[2] / "Documentation/netlink/specs"
FORMS = {"u16": "=H", "u32": "=I", "u64": "=Q"}


@functools.cache
def spec_of(name):
    return yaml.safe_load((SPECS / f"{name}.yaml").read_text(encoding="utf-8"))


def cookie(sock):
    return struct.unpack("=Q", sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0]


def name_of(sock):
    """Return a connection's ends in the form of a request."""
    (laddr, lport, *_), (raddr, rport, *_) = sock.getsockname(), sock.getpeername()
    family = sock.family
    return {"laddr": socket.inet_pton(family, laddr), "raddr": socket.inet_pton(family, raddr),
            "lport": lport, "rport": rport}


def as_nobody(call):
    os.seteuid(65534)
    try:
        return call()
    finally:
        os.seteuid(0)


class Refused(Exception):
    """The error of a refused request, and the kernel's message."""

    def __init__(self, number, message):
        super().__init__(f"{errno.errorcode[number]}: {message}")
        self.number, self.message = number, message


def error_of(message):
    """Return the error in an NLMSG_ERROR or NLMSG_DONE, or None for success."""
    length, _, flags = struct.unpack_from("=IHH", message)
    number = -struct.unpack_from("=i", message, 16)[0]
    if not number:
        return None
    found = ""
    if flags & NLM_F_ACK_TLVS:
        at = 36 if struct.unpack_from("=H", message, 4)[0] == NLMSG_ERROR else 20
        found = dict(attrs_of(message[at:length])).get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode()
    return Refused(number, found)


class Family(Netlink):
    """A netlink socket of a namespace, for one family."""

    def __init__(self, ns, name):
        super().__init__(ns, NETLINK_GENERIC)
        for option in NETLINK_CAP_ACK, NETLINK_EXT_ACK:
            self.sock.setsockopt(SOL_NETLINK, option, 1)
        self.spec = spec_of(name)
        self.sets = {one["name"]: dict(enumerate(one["attributes"], 1)) for one in self.spec["attribute-sets"]}
        self.enums = {one["name"]: [entry["name"] for entry in one["entries"]] for one in self.spec["definitions"]}
        self.commands = {one["name"]: (number, one["attribute-set"])
                         for number, one in enumerate(self.spec["operations"]["list"], 1)}
        self.id, found = family_of(self, name)
        self.groups = {}
        for _, group in attrs_of(found[CTRL_ATTR_MCAST_GROUPS]):
            of = dict(attrs_of(group))
            self.groups[of[CTRL_ATTR_MCAST_GRP_NAME].rstrip(b"\0").decode()] = \
                struct.unpack("=I", of[CTRL_ATTR_MCAST_GRP_ID])[0]

    @staticmethod
    def genl(command):
        """Return the generic netlink header."""
        return struct.pack("=BBH", command, 1, 0)

    def encode(self, of, values):
        """Encode attributes given by name; a nest that may be repeated is a list."""
        numbers = {spec["name"]: (number, spec) for number, spec in self.sets[of].items()}
        body = b""
        for name, value in values.items():
            number, spec = numbers[name]
            if spec["type"] == "nest":
                body += b"".join(attr(number | NLA_F_NESTED, self.encode(spec["nested-attributes"], one)) for one in value)
            else:
                body += attr(number, value if isinstance(value, bytes) else b"" if spec["type"] == "flag" else
                             struct.pack(FORMS[spec["type"]], value))
        return body

    def decode(self, of, data):
        """Decode attributes; attributes that may be repeated are lists."""
        found = {}
        for number, raw in attrs_of(data):
            spec = self.sets[of][number]
            if spec["type"] == "pad":
                continue
            if spec["type"] == "nest":
                value = self.decode(spec["nested-attributes"], raw)
            elif spec["type"] == "flag":
                value = True
            elif spec["type"] == "string":
                value = raw.rstrip(b"\0").decode()
            elif spec["type"] == "binary":
                value = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
            else:
                value = struct.unpack(FORMS[spec["type"]], raw)[0]
                value = self.enums[spec["enum"]][value] if "enum" in spec else value
            if spec.get("multi-attr"):
                found.setdefault(spec["name"], []).append(value)
            elif spec["name"] in found:
                raise AssertionError(f"{spec['name']} comes twice")
            else:
                found[spec["name"]] = value
        return found

    def parts(self, command, body, flags):
        """Send a request. Yield the decoded messages of the answer, packet by packet, or raise Refused."""
        number, of = self.commands[command]
        self.send(self.id, self.genl(number) + body, flags)
        more = True
        while more:
            found = []
            for kind, message in self.messages():
                if kind in (NLMSG_ERROR, NLMSG_DONE) and error_of(message):
                    raise error_of(message)
                more &= kind not in (NLMSG_ERROR, NLMSG_DONE)
                if more:
                    found.append(self.decode(of, message[20:]))
            yield found

    def request(self, command, body, flags=0):
        """Send a request. Return all decoded messages of the answer."""
        return sum(self.parts(command, body, flags), [])

    def dump_in_parts(self, command):
        """Yield all objects, packet by packet."""
        return self.parts(command, b"", NLM_F_DUMP)

    def dump(self, command, **values):
        """Return all objects, or only the objects that the values select."""
        return self.request(command, self.encode(self.commands[command][1], values), NLM_F_DUMP)

    def set(self, command, **values):
        self.request(command, self.encode(self.commands[command][1], values), NLM_F_ACK)

    def get(self, command, **values):
        """Return the only object that the values select."""
        found = self.request(command, self.encode(self.commands[command][1], values), NLM_F_ACK)
        if len(found) != 1:
            raise AssertionError(f"{len(found)} answers")
        return found[0]

    def listen(self, group):
        self.sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, self.groups[group])
        self.sock.setblocking(False)

    def received(self):
        """Return the events since the last call: (operation, attributes)."""
        names = {number: (name, of) for name, (number, of) in self.commands.items()}
        found = []
        while True:
            try:
                for _, message in self.messages():
                    name, of = names[message[16]]
                    found.append((name, self.decode(of, message[20:])))
            except BlockingIOError:
                return found
