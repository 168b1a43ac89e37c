# SPDX-License-Identifier: GPL-2.0
"""Signed feedback, as Documentation/protocol.rst describes it: SipHash, keys, and tags of options."""

import socket
import struct

from .packet import ECHO, IDENTIFY_ECHO, KIND, REPORT

CAP_SIGNED = 0x200
TAG_LEN = 4
U64 = (1 << 64) - 1


def siphash(key, data):
    """Return SipHash-2-4 of bytes, with a key of 16 bytes."""
    def rounds(n):
        nonlocal a, b, c, d
        for _ in range(n):
            a, c = (a + b) & U64, (c + d) & U64
            b, d = rotate(b, 13) ^ a, rotate(d, 16) ^ c
            a = rotate(a, 32)
            c, a = (c + b) & U64, (a + d) & U64
            b, d = rotate(b, 17) ^ c, rotate(d, 21) ^ a
            c = rotate(c, 32)

    k0, k1 = struct.unpack("<QQ", key)
    a, b, c, d = (k ^ word for k, word in zip((k0, k1, k0, k1), struct.unpack(">4Q", b"somepseudorandomlygeneratedbytes")))
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xff])
    for word, in struct.iter_unpack("<Q", padded):
        d ^= word
        rounds(2)
        a ^= word
    c ^= 0xff
    rounds(4)
    return a ^ b ^ c ^ d


def rotate(word, n):
    return (word << n | word >> 64 - n) & U64


def connection_key(shared, signer_isn, other_isn, active):
    """Return the key of a direction; active: the signer sent the SYN."""
    words = (siphash(shared, struct.pack("!II7sB", signer_isn, other_isn, b"HPCCtag", 2 * active + half)) for half in (0, 1))
    return struct.pack("<QQ", *words)


def is_feedback(option):
    return option[0] == KIND and len(option) >= 4 and option[2] >> 5 in (ECHO, IDENTIFY_ECHO, REPORT)


def tag(key, pos, tsval, options):
    """Return the tag of feedback options, whose last one has its final length and count."""
    return struct.pack("!I", siphash(key, struct.pack("!QI", pos & U64, tsval) + options) & 0xffffffff)


def signed(key, pos, tsval, *options, count=0, wrong=0):
    """Return feedback options with a tag; the bits in wrong are inverted."""
    last = bytearray(options[-1])
    last[1] += TAG_LEN
    last[3] |= count
    options = b"".join([*options[:-1], last])
    return options + struct.pack("!I", int.from_bytes(tag(key, pos, tsval, options), "big") ^ wrong)


def entry(send, accept=None, require=False, prefix="0.0.0.0", length=0):
    """Return an entry of the table of keys."""
    family = socket.AF_INET6 if ":" in prefix else socket.AF_INET
    return {"prefix": socket.inet_pton(family, prefix), "len": length, "send": send} | \
        ({"accept": accept} if accept else {}) | ({"require": True} if require else {})


def set_keys(ns, send, accept=None, require=False):
    """Set the same keys for all peers."""
    ns.hpcc().set("key-set", replace=True, key=[entry(send, accept, require), entry(send, accept, require, "::")])
