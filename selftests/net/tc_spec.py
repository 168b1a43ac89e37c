#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Documentation/netlink/specs/tc-hpcc.yaml agrees with include/uapi/linux/hpcc.h and with the kernel."""

import json
import os
import re
import struct
import sys
from pathlib import Path

from lib.genl import attrs_of, spec_of
from lib.kernel import TOP
from lib.ktap import expect, main
from lib.net import Netns
from lib.packet import packet_socket
from lib.qdisc import (NLA_F_NESTED, NLM_F_CREATE, NLM_F_REPLACE, RTM_NEWQDISC, TC_H_ROOT, TCA_KIND, attr)
from lib.requests import HANDLE, Netlink

SPEC = spec_of("tc-hpcc")
HEADER = Path(TOP, "include/uapi/linux/hpcc.h").read_text(encoding="utf-8")
SIZES = {"u8": "B", "u32": "I", "u64": "Q", "s32": "i"}
# All attributes; the kernel returns derived thresholds with their derived values.
EVERYTHING = {
    "rate64": 125000000, "bandwidth64": 250000000, "limit": 200000, "node": 7, "port": 2, "overhead": 38,
    "delay": 1500, "kind": 254, "stamp": ["tcp", "ioam", "int", "csig", "csig-push"], "split": 0,
    "marking": "ldcp", "kmin": 30000, "kmax": 40000, "pmax": 250000, "knonect": 50000, "stats": 0,
    "above": 3000, "identify": 0, "respond": 5000, "every": 7000, "int-dscp": 9, "int-window": 20000,
    "csig-tpid": 0x9999, "csig-abw": 100, "csig-time": 1000,
    "quantize": 16, "strip": ["ioam", "ifa"]}
# Attributes of a class, which the root qdisc cannot be.
CLASS = {"class64": 125000000, "qlen": "sojourn"}
# Tunnels, which quantize excludes.
INNER = {name: value for name, value in EVERYTHING.items() if name != "quantize"} | {"inner": 1}
# cli.py of the guest's kernel; cli.py of 6.1 does not support rtnetlink.
CLI = Path(os.environ.get("HPCC_TREE") or "/nonexistent", "tools/net/ynl/pyynl/cli.py")


def definition(name):
    return next(one for one in SPEC["definitions"] if one["name"] == name)


def entries(name):
    return [entry["name"] for entry in definition(name)["entries"]]


def attributes(name):
    """Return {number: attribute} of a set."""
    found, number = {}, 0
    for one in next(one for one in SPEC["attribute-sets"] if one["name"] == name)["attributes"]:
        number = one.get("value", number + 1)
        found[number] = one
    return found


def members(name):
    return [(member["name"], SIZES[member["type"]]) for member in definition(name)["members"]]


def record(name, data):
    """Return a structure's bytes as {member: value}."""
    return dict(zip((member for member, _ in members(name)),
                    struct.unpack_from("=" + "".join(form for _, form in members(name)), data)))


def encode(options):
    body = b""
    for number, one in attributes("hpcc-attrs").items():
        value = options.get(one["name"])
        if value is None:
            continue
        if one.get("enum-as-flags"):
            value = sum(1 << entries(one["enum"]).index(name) for name in value)
        elif "enum" in one:
            value = entries(one["enum"]).index(value)
        body += attr(number, struct.pack("=" + SIZES[one["type"]], value))
    return body


def decode(data):
    found, known = {}, attributes("hpcc-attrs")
    for number, raw in attrs_of(data):
        one = known[number]
        if one["type"] == "pad":
            continue
        value, = struct.unpack("=" + SIZES[one["type"]], raw)
        if one.get("enum-as-flags"):
            value = [name for bit, name in enumerate(entries(one["enum"])) if value >> bit & 1]
        elif "enum" in one:
            value = entries(one["enum"])[value]
        found[one["name"]] = value
    return found


class Port(Netlink):
    """The root qdisc of a veth, by the specification."""

    def __init__(self, place=TC_H_ROOT):
        self.place = place
        self.ns, peer = Netns(), Netns()
        self.ns.ip(f"link add v0 type veth peer name v0 netns {peer.path}", "link set v0 up")
        peer.ip("link set v0 up")
        super().__init__(self.ns, "v0")

    def parse(self, body):
        index, _, parent = struct.unpack_from("=4xiII", body)
        known = attributes("attrs")
        return {known[number]["name"]: raw for number, raw in attrs_of(body[20:])} \
            if (index, parent) == (self.index, self.place) else None

    def set(self, nest):
        """Create or change the qdisc. Return (error, message)."""
        return self.ask(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, struct.pack(
            "=BxxxiIII", 0, self.index, HANDLE, self.place, 0) + attr(TCA_KIND, b"hpcc\0") +
            attr(2 | NLA_F_NESTED, nest))


def c_name(text):
    return text.lower().replace("_", "-")


def test_header_attributes():
    block = re.search(r"enum \{\s*TCA_HPCC_UNSPEC,(.*?)__TCA_HPCC_MAX", HEADER, re.S)[1]
    want = {number: (c_name(name), kind or "pad") for number, (name, kind) in
            enumerate(re.findall(r"^\tTCA_HPCC_(\w+),(?:\s*/\* (u\d+),)?", block, re.M), 1)}
    expect("attributes", {number: (one["name"], one["type"]) for number, one in
                          attributes("hpcc-attrs").items()}, want)


def test_header_values():
    """The specification has the same flags, enums and structures of statistics as the header."""
    flags = [(c_name(name), int(value, 16)) for name, value in
             re.findall(r"^#define HPCC_STAMP_(\w+)\s+(0x\w+)", HEADER, re.M)]
    expect("stamp", [(name, 1 << bit) for bit, name in enumerate(entries("hpcc-stamp"))], flags)
    for prefix, names in (("MARKING", entries("hpcc-marking")),
                          ("QLEN", entries("hpcc-qlen")),
                          ("UNSTAMPED", [name for name, _ in members("hpcc-unstamped")])):
        block = re.search(rf"enum hpcc_{prefix.lower()} \{{(.*?)\}}", HEADER, re.S)[1]
        expect(prefix, names, [c_name(name) for name in re.findall(rf"^\tHPCC_{prefix}_(\w+),", block, re.M)])
    block = re.search(r"struct tc_hpcc_xstats \{(.*?)\}", HEADER, re.S)[1]
    want = [(c_name(name), f"u{bits}") for bits, name in re.findall(r"^\t__u(\d+)\s+(\w+);", block, re.M)]
    expect("statistics", [(one["name"], one["type"]) for one in definition("tc-hpcc-xstats")["members"]], want)
    expect("members without an array", len(want), len(re.findall(";", block)))
    block = re.search(r"enum \{\s*TCA_HPCC_XSTATS_UNSPEC,(.*?)__TCA_HPCC_XSTATS_MAX", HEADER, re.S)[1]
    expect("attributes of statistics", [one["name"] for one in attributes("hpcc-xstats-attrs").values()],
           [c_name(name) for name in re.findall(r"^\tTCA_HPCC_XSTATS_(\w+),", block, re.M)])


def limits(one):
    """Return the (smallest, largest) value of an attribute."""
    top = (1 << 8 * struct.calcsize(SIZES[one["type"]])) - 1
    checks = one.get("checks", {})
    if "enum" in one:
        count = len(entries(one["enum"]))
        return 0, (1 << count) - 1 if one.get("enum-as-flags") else count - 1
    return checks.get("min", 0), checks.get("max", top)


def test_policy():
    """The kernel's policy has the same types and ranges: a value within the range is refused only because of other
    rules.
    """
    port = Port()
    out_of_range = "integer out of range", "reserved bit set"
    for number, one in attributes("hpcc-attrs").items():
        name = one["name"]
        if one["type"] == "pad":
            expect(name, port.set(attr(number, bytes(4)))[0], "EINVAL")
            continue
        size = struct.calcsize(SIZES[one["type"]])
        for wrong in {0, 1, 2, 4, 8, size + 1} - {size}:
            expect(f"{name} of {wrong} bytes",
                   port.set(attr(number, bytes(wrong)))[1], "invalid attribute length")
        least, greatest = limits(one)
        for value in {least, greatest, least - 1, greatest + 1}:
            if value < 0 or value >> 8 * size:
                continue
            error, message = port.set(attr(number, value.to_bytes(size, "little")))
            expect(f"{name} {value}: {error} {message!r}", message in out_of_range,
                   not least <= value <= greatest)
            expect(f"{name} {value}: length", message != "invalid attribute length", True)
    error, message = port.set(attr(max(attributes("hpcc-attrs")) + 1, bytes(4)))
    expect("one more", (error, message), ("EINVAL", "Unknown attribute type"))


def test_round_trip():
    """Each attribute that is set by the specification is returned with the same value."""
    port = Port()
    expect("all", set(EVERYTHING | CLASS | INNER) | {"pad"}, {one["name"] for one in attributes("hpcc-attrs").values()})
    # IFA requires identify on
    for what in EVERYTHING, EVERYTHING | {"stamp": entries("hpcc-stamp"), "identify": 1}:
        expect("set", port.set(encode(what)), ("", ""))
        expect("got", decode(port.dump()["options"]), what)
    some = {"stamp": [], "marking": "off", "rate64": 0}
    expect("a border needs tcp", port.set(encode(some)), ("EINVAL", "quantize: needs stamp tcp"))
    expect("set", port.set(encode(some | {"quantize": 0})), ("", ""))
    got = decode(port.dump()["options"])
    expect("got", {name: got[name] for name in some}, some)
    expect("set", port.set(encode(INNER)), ("", ""))
    expect("got", decode(port.dump()["options"]), INNER)
    expect("a border", port.set(encode({"quantize": 8})),
           ("EINVAL", "quantize: does not reach into tunnels, so not with inner on"))


def test_round_trip_of_a_class():
    """A class is a leaf of another qdisc; without class64 a dump contains neither of its attributes."""
    port = Port(0x90001)
    port.ns.tc("qdisc add dev v0 root handle 9: prio")
    what = EVERYTHING | CLASS | {"rate64": 0, "delay": 0}
    expect("set", port.set(encode(what)), ("", ""))
    expect("got", decode(port.dump()["options"]), what)
    expect("set", port.set(encode({"class64": 0})), ("", ""))
    expect("got", set(decode(port.dump()["options"])), set(EVERYTHING))
    expect("default below prio", (port.set(encode({"class64": 1000})), decode(port.dump()["options"])["qlen"]),
           (("", ""), "sojourn"))


def test_statistics():
    port = Port()
    expect("set", port.set(b""), ("", ""))
    sock = packet_socket(port.ns, "v0", 0)
    for size in 60, 200, 1000:
        sock.send(bytes(12) + b"\x88\xb6" + bytes(size - 14))
    shown = port.ns.port("v0")
    stats = {attributes("tca-stats-attrs")[number]["name"]: raw
             for number, raw in attrs_of(port.dump()["stats2"])}
    basic, queue = record("gnet-stats-basic", stats["basic"]), record("gnet-stats-queue", stats["queue"])
    expect("basic", basic, {name: shown[name] for name in basic})
    expect("queue", queue, {name: shown[name] for name in queue})
    attrs = {attributes("hpcc-xstats-attrs")[number]["name"]: raw for number, raw in attrs_of(stats["app"])}
    app, ours = {}, shown["hpcc"]
    for name, form in ("port", "tc-hpcc-xstats"), ("unstamped", "hpcc-unstamped"):
        expect(f"length of {name}", len(attrs[name]), struct.calcsize("=" + "".join(
            one for _, one in members(form))))
        app |= record(form, attrs[name])
    hist = struct.unpack(f"={len(attrs['hist']) // 8}Q", attrs["hist"])
    expect("histogram", sum(hist), sum(bucket["packets"] for bucket in ours["hist"]))
    expect("histogram ends with a packet", hist[-1] > 0, True)
    flat = {c_name(name): value for name, value in (ours | ours["unstamped"]).items()}
    flat |= {"qlen-bytes": ours["qlen"], "qlen-max-bytes": ours["qlen_max"], "port-queues": 1,
             "port-qlen-bytes": ours["qlen"]}
    expect("statistics", app, {name: flat[name] for name in app})
    expect("sent", app["tx-packets"] >= 3, True)


if CLI.exists():
    def test_kernels_own_ynl():
        """cli.py of the kernel accepts the specification, and sets and shows options with it."""
        port = Port()

        def cli(*words):
            return port.ns.run(sys.executable, "-B", str(CLI), "--spec",
                               TOP + "/Documentation/netlink/specs/tc-hpcc.yaml", "--no-schema",
                               "--output-json", *words)

        cli("--do", "newqdisc", "--create", "--json", json.dumps(
            {"ifindex": port.index, "handle": HANDLE, "parent": TC_H_ROOT, "kind": "hpcc",
             "options": EVERYTHING}))
        shown, = [one for one in json.loads(cli("--dump", "getqdisc")) if one.get("kind") == "hpcc"]
        # cli.py returns flags as a set.
        for name in "stamp", "strip":
            shown["options"][name] = sorted(shown["options"][name], key=entries("hpcc-stamp").index)
        expect("options", {name: value for name, value in shown["options"].items() if name != "pad"},
               EVERYTHING)
        expect("statistics", shown["stats2"]["app"]["port"]["bandwidth"], EVERYTHING["rate64"])


main(modules=["sch_hpcc"])
