#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Request a qdisc "hpcc" with attributes that tc would not send.

qdisc.py DEV CASE...  where CASE is ATTR=TYPE:VALUE[,ATTR=TYPE:VALUE...],
ATTR a number and TYPE one of u8, u16, u32, u64 or raw (hexadecimal bytes).

Each case is an RTM_NEWQDISC that creates or changes the root qdisc of DEV.
Prints for each one line: "ok", or the error's name, the attribute that the
kernel names (0: none), and its message.
"""
import errno
import socket
import struct
import sys

NLM_F_REQUEST, NLM_F_ACK, NLM_F_REPLACE, NLM_F_CREATE = 1, 4, 0x100, 0x400
NLM_F_ACK_TLVS = 0x200
NLMSG_ERROR = 2
RTM_NEWQDISC = 36
TCA_KIND, TCA_OPTIONS = 1, 2
TC_H_ROOT = 0xffffffff
SOL_NETLINK, NETLINK_CAP_ACK, NETLINK_EXT_ACK = 270, 10, 11
NLMSGERR_ATTR_MSG, NLMSGERR_ATTR_OFFS = 1, 2
NLA_F_NESTED = 0x8000
HEADERS_LEN = 16 + 20		# nlmsghdr, tcmsg


def attr(kind, data):
    """Return an attribute, padded."""
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


def attrs_of(data):
    """Yield (type, bytes) of each attribute."""
    at = 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        yield kind & 0x3fff, data[at + 4:at + size]
        at += max(size + 3 & ~3, 4)


def parse_case(text):
    """Return the attributes of a case as [(number, bytes)]."""
    result = []
    for item in text.split(","):
        number, _, value = item.partition("=")
        kind, _, value = value.partition(":")
        form = {"u8": "=B", "u16": "=H", "u32": "=I", "u64": "=Q"}.get(kind)
        data = struct.pack(form, int(value, 0)) if form else bytes.fromhex(value)
        result.append((int(number), data))
    return result


def named_attr(attrs, offset):
    """Return the attribute that begins at an offset in the message."""
    at = HEADERS_LEN + len(attr(TCA_KIND, b"hpcc\0")) + 4
    for number, data in attrs:
        if at == offset:
            return number
        at += len(attr(number, data))
    return 0


def explain(answer, attrs):
    """Return one line for an NLMSG_ERROR with extended acknowledgement."""
    length, _, flags = struct.unpack_from("=IHH", answer)
    code = -struct.unpack_from("=i", answer, 16)[0]
    if not code:
        return "ok"
    found = dict(attrs_of(answer[HEADERS_LEN:length])) if flags & NLM_F_ACK_TLVS else {}
    offset = found.get(NLMSGERR_ATTR_OFFS)
    named = named_attr(attrs, struct.unpack("=I", offset)[0]) if offset else 0
    message = found.get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode()
    return f"{errno.errorcode[code]} {named} {message}"


def main():
    index = socket.if_nametoindex(sys.argv[1])
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    sock.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
    sock.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
    for text in sys.argv[2:]:
        attrs = parse_case(text)
        nest = b"".join(attr(number, data) for number, data in attrs)
        body = (struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, 0x10000, TC_H_ROOT, 0) +
                attr(TCA_KIND, b"hpcc\0") + attr(TCA_OPTIONS | NLA_F_NESTED, nest))
        flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
        sock.send(struct.pack("=IHHII", 16 + len(body), RTM_NEWQDISC, flags, 1, 0) + body)
        print(explain(sock.recv(8192), attrs))


if __name__ == "__main__":
    main()
