#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/observe/netlink.c: generic netlink family "hpcc", by its YAML spec."""

import errno
import resource
import struct
import time

from lib.genl import Family, Refused, as_nobody, cookie, name_of
from lib.held import HeldRead
from lib.kernel import load, unload, virtual_time
from lib.ktap import expect, expect_in, main
from lib.net import Netns, Pair, joined, same_ends
from lib.packet import ECHO, option
from lib.path import Path
from lib.peer import ETA, SCALE, T_NS, W_INIT, Flow, Link, near
from lib.tcp import pattern, set_cc, transfer
from lib.tracepoint import Tracepoint

ONE = 1 << 24


def refused(what, number, call, **values):
    """Fail unless the kernel refuses a request with this error. Return its message."""
    try:
        found = call("flow-get", **values)
    except Refused as error:
        expect(what, errno.errorcode[error.number], errno.errorcode[number])
        return error.message
    raise AssertionError(f"{what}: answered {found}")


def test_unload_with_listeners():
    """A listener does not keep the module loaded. This test is first: connections of other tests take minutes to
    end.
    """
    ns = Netns()
    family = Family(ns, "hpcc")
    family.listen("events")
    expect("unload", unload(ns, 100), True)
    try:
        expect("family", Family(ns, "hpcc"), None)
    except OSError as error:
        expect("family", error.errno, errno.ENOENT)
    finally:
        load(ns)
    expect("received", family.received(), [])
    expect("again", Family(Netns(), "hpcc").dump("flow-get"), [])


def test_one_flow():
    """netlink shows a flow with the values of /proc/net/hpcc and of the tracepoint, over IPv4 and IPv6."""
    for version in 4, 6:
        tracepoint = Tracepoint("hpcc:hpcc_ack")
        flow, link = Flow(version=version), Link()
        for _ in range(3):
            flow.round(link.step(9000, 0.8, 0.25))
        line, traced = flow.flow(), tracepoint.lines()[-1]
        got = Family(flow.ns, "hpcc").get("flow-get", **name_of(flow.sock))
        expect("who", [got[name] for name in ("laddr", "lport", "raddr", "rport", "cookie")],
               [flow.kernel, line["lport"], flow.addr, line["rport"], cookie(flow.sock)])
        expect("mode", (got["mode"], got["why"]), (line["mode"], "none"))
        expect("W, Wc, T", [got[name] for name in ("w", "wc", "t")],
               [line[name] for name in ("W", "Wc", "T_ns")])
        near("R", got["r"], got["w"] * 1e9 / got["t"])
        expect("U", got["u"] * 1000 >> 24, line["U_permille"])
        expect("U of the tracepoint", got["u"] * 1000 >> 24, int(traced["U_permille"]))
        expect("of the tracepoint", [got["w"], got["wc"], got["inc-stage"], got["hops"]],
               [int(traced[name]) for name in ("W", "Wc", "inc_stage", "hops")])
        expect("its cookie", int(traced["cookie"]), cookie(flow.sock))
        near("eta", got["eta"], ETA * ONE)
        near("W_init", got["w-init"], W_INIT)
        expect("flags", set(got) & {"receiver", "probes", "n"}, set())
        hop, = got["hop"]
        expect("hop", (hop["hop"], "quiet" in hop, "node" in hop), (1, False, False))
        near("u'", hop["u"], (0.8 + 0.25) * ONE, 0.01)
        near("qlen", hop["qlen"], 0.25 * T_NS, 0.01)
        expect_in("age", hop["age"], 0, 1e6)


def test_since_when():
    """The hop with the largest u' shows for how long this is so; another link at this hop restarts the time."""
    flow = Flow()
    a, b = Link(hop=1, tag=1), Link(hop=2, tag=2)
    family = Family(flow.ns, "hpcc")

    def held():
        return [hop.get("held") for hop in family.get("flow-get", **name_of(flow.sock))["hop"]]

    # In virtual time only waiting takes time.
    for what, tag, seconds, of_a, of_b, holder, least, most in (
            ("the first", 2, 0.5, 0.9, 0.3, 0, 300000, 600000), ("the second", 2, 0.2, 0.2, 0.5, 1, 100000, 250000),
            ("another link", 3, 0.1, 0.2, 0.5, 1, 1, 120000)):
        b.tag, begin = tag, time.monotonic()
        while time.monotonic() < begin + seconds:
            flow.round(a.step(9000, of_a), b.step(9000, of_b))
            time.sleep(0.01)
        found = held()
        print(f"# {what} held: {found}")
        expect(f"{what}: the other", found[1 - holder], None)
        expect_in(f"{what}: held", found[holder], least, most)


def test_who_is_asked():
    """Any part of the ends, or the cookie, restricts a dump; a request for one flow needs both ends or the cookie."""
    pair = Pair(6)
    listener = pair.listen()
    ends = [pair.connect(listener) for _ in range(5)]
    family = Family(pair.c, "hpcc")
    everyone = family.dump("flow-get")
    expect("all", sorted(flow["cookie"] for flow in everyone), sorted(cookie(client) for client, _ in ends))
    for client, _ in ends:
        want = [flow for flow in everyone if flow["cookie"] == cookie(client)]
        name = name_of(client)
        expect("by port", [flow["cookie"] for flow in family.dump("flow-get", lport=name["lport"])],
               [cookie(client)])
        for how in name, {"cookie": cookie(client)}, name | {"cookie": cookie(client)}:
            expect("one", family.get("flow-get", **how)["lport"], want[0]["lport"])
    expect("all to a port", len(family.dump("flow-get", rport=5000)), 5)
    expect("none to another", family.dump("flow-get", rport=5001), [])
    expect("IPv4 of that", family.dump("flow-get", raddr=bytes(4)), [])
    name = name_of(ends[0][0])
    for lacks in name:
        what = refused(f"without {lacks}", errno.EINVAL, family.get,
                       **{key: value for key, value in name.items() if key != lacks})
        expect("message", what, "the request needs both ends of a connection, or its cookie")
    expect("message", refused("no such", errno.ENOENT, family.get, cookie=1),
           "no connection with these ends runs hpcc in this namespace")
    refused("other port", errno.ENOENT, family.get, **name | {"rport": 1})


def test_mapped_addresses():
    """An IPv4 connection is found by its IPv4-mapped addresses, as IPv6 sockets have them."""
    pair, client, _ = joined(Pair())
    mapped = {key: b"\0" * 10 + b"\xff" * 2 + value if "addr" in key else value
              for key, value in name_of(client).items()}
    family = Family(pair.c, "hpcc")
    expect("one", family.get("flow-get", **mapped)["cookie"], cookie(client))
    expect("all to it", len(family.dump("flow-get", raddr=mapped["raddr"])), 1)


def test_same_name():
    """Connections over different links may have the same ends: interface or cookie distinguishes them."""
    c, ends = same_ends()
    family = Family(c, "hpcc")
    name = name_of(ends[0][0])
    expect("same ends", name_of(ends[1][0]), name)
    expect("message", refused("both", errno.ENOTUNIQ, family.get, **name),
           "several connections have these ends: add ifindex or cookie")
    for client, index, _ in ends:
        for how in {"ifindex": index}, {"cookie": cookie(client)}:
            found = family.get("flow-get", **name, **how)
            expect(f"{how}", (found["cookie"], found["ifindex"]), (cookie(client), index))


def test_owned():
    """A process that owns a socket delays neither a request for another flow nor a dump."""
    flow = Flow()
    flow.round(Link().step(9000, 0.8))
    flow.send(payload=b"data")
    flow.run()
    owner = HeldRead(flow.sock)
    family = Family(flow.ns, "hpcc")
    refused("another", errno.ENOENT, family.get, cookie=1)
    got, = family.dump("flow-get")
    expect("who", (got["cookie"], got["mode"], got["hops"], "busy" in got),
           (cookie(flow.sock), "telemetry", 1, True))
    expect("what only the owner may touch", got["hop"], [{"hop": 1}])
    near("R", got["r"], got["w"] * 1e9 / got["t"])
    owner.release()
    got, = family.dump("flow-get")
    expect("afterwards", ("busy" in got, sorted(got["hop"][0])), (False, ["age", "hop", "qlen", "u"]))


def test_bad_requests():
    """Unknown attributes, wrong lengths and malformed messages are refused, and later requests still work."""
    pair, client, server = joined(Pair())
    family = Family(pair.c, "hpcc")
    number, _ = family.commands["flow-get"]
    for what, body in (*((f"address of {n} bytes", family.encode("flow", {end: bytes(n)}))
                         for end, n in (("laddr", 3), ("laddr", 5), ("raddr", 15), ("laddr", 17))),
                       ("port of 1 byte", struct.pack("=HHBxxx", 5, 4, 5)),
                       ("cookie of 4 bytes", family.encode("flow", {"cookie": bytes(4)})),
                       ("read-only", family.encode("flow", {"w": 1})),
                       ("unknown", struct.pack("=HHI", 8, 999, 0)),
                       ("cut", struct.pack("=HH", 12, 5)),
                       ("longer than the message", struct.pack("=HHI", 100, 7, 0))):
        for flags in 4, 0x300:
            try:
                found = family.request("flow-get", body, flags)
            except Refused as error:
                expect_in(what, error.number, 1, 133)
                continue
            raise AssertionError(f"{what}: answered {found}")
    for what, body, flags, want in (("reserved bits", struct.pack("=BBH", number, 1, 7), 0x300, errno.EINVAL), *(
            (f"command {command}", family.genl(command), 4, errno.EOPNOTSUPP) for command in (0, 2, 3, 255))):
        family.send(family.id, body, flags)
        kind, message = next(family.messages())
        expect(what, (kind, -struct.unpack_from("=i", message, 16)[0]), (2, want))
    expect("afterwards", len(family.dump("flow-get")), 1)
    transfer((client, server, pattern(10000)))


def test_namespaces():
    """A namespace shows only its own flows, also to users without privileges."""
    pairs = Pair(), Pair()
    ends = [pair.connect() for pair in pairs]
    for pair, (client, _) in zip(pairs, ends):
        expect("flows", [flow["cookie"] for flow in Family(pair.c, "hpcc").dump("flow-get")], [cookie(client)])
        other = ends[1 - pairs.index(pair)][0]
        refused("other namespace", errno.ENOENT, Family(pair.c, "hpcc").get, cookie=cookie(other))
    expect("none", Family(Netns(), "hpcc").dump("flow-get"), [])
    family = Family(pairs[0].c, "hpcc")
    expect("nobody", len(as_nobody(lambda: family.dump("flow-get"))), 1)


def test_names_of_links():
    """With CAP_NET_ADMIN a request may include the identities of links: flows then request identities for 10
    seconds.
    """
    path = Path(switches=3)
    ends = path.connect()
    family = Family(path.a, "hpcc")
    transfer((*ends, pattern(200000)))
    refused("a stranger asks", errno.EPERM,
            lambda command: as_nobody(lambda: family.dump(command, identify=True)))
    transfer((*ends, pattern(200000)))
    expect("IDENTIFY", path.a.counters()["identify_sent"], 0)
    family.get("flow-get", cookie=cookie(ends[0]), identify=True)
    for i in range(3):
        transfer((*ends, pattern(200000, i)))
    hops = family.dump("flow-get")[0]["hop"]
    stranger = as_nobody(lambda: family.dump("flow-get"))[0]["hop"]
    expect("names", [(hop["hop"], hop["node"], hop["port"], hop["rate"]) for hop in hops],
           [(i, i, 2, 10**9) for i in (1, 2, 3)])
    expect("for who has no rights", [sorted(set(hop) & {"node", "port", "rate"}) for hop in stranger], [[]] * 3)
    time.sleep(12)
    expect("afterwards", ["node" in hop for hop in family.dump("flow-get")[0]["hop"]], [False] * 3)


def test_names_for_who_asked():
    """Whether a dump has identities depends on the process that requests the dump, not on the process that reads it."""
    path = Path(switches=1)
    family = Family(path.a, "hpcc")
    # The dump has more parts than the two that the kernel prepares before the first read.
    for i in range(200):
        if not i % 50:
            path.a.ask()
        transfer((*path.connect(5000 + i), pattern(20000)))
    path.a.ask()
    parts = family.dump_in_parts("flow-get")
    found = next(parts) + sum(as_nobody(lambda: list(parts)), [])
    expect("flows", len(found), 200)
    expect("without names", [flow["lport"] for flow in found if "node" not in flow["hop"][0]], [])
    parts = as_nobody(lambda: list(family.dump_in_parts("flow-get")))
    expect("a stranger's", [flow for flow in sum(parts, []) if "node" in flow["hop"][0]], [])


def test_namespace_goes():
    """A namespace is deleted while identities are requested in it, with and without flows."""
    for connected in False, True:
        path = Path(switches=1)
        if connected:
            transfer((*path.connect(), pattern(100000)))
        path.a.ask()
        path.a.delete()
    time.sleep(11)


def test_counters():
    """All users can read the counters of /proc/net/hpcc."""
    path = Path(switches=1)
    transfer((*path.connect(), pattern(200000)))
    time.sleep(0.1)
    family = Family(path.a, "hpcc")
    reply = as_nobody(lambda: family.dump("counters-get"))
    expect("counters", [(one["name"], one["value"]) for one in reply], list(path.a.counters().items()))
    expect("of another namespace", {one["value"] for one in Family(Netns(), "hpcc").dump("counters-get")}, {0})


def test_telemetry_of_a_flow():
    """Each flow has counters of received options, and of ignored options by reason."""
    flow, other = Flow(), Flow()
    family = Family(flow.ns, "hpcc")
    names = "received", "malformed", "bad-hop", "ts-back", "tx-excess"

    def counts(of=family):
        one, = of.dump("flow-get")
        return tuple(one[name] for name in names)

    link = Link()
    for _ in range(3):
        flow.round(link.step(9000, 0.5))
    expect("three echoes", counts(), (3, 0, 0, 0, 0))
    cut = bytearray(option(ECHO, [link.raw()], SCALE, 1))
    cut[1] -= 1
    flow.send(bytes(cut[:-1]) + b"\1")
    expect("an option that is cut", counts()[1], 1)
    link.hop = 2
    flow.round(link.step(9000, 0.5), hops=1)
    expect("a hop beyond the path", counts()[2], 1)
    link.hop = 1
    flow.round(link.step(-9100))
    expect("time goes back", counts()[3], 1)
    flow.round(link.step(9000, 40.0))
    expect("faster than the link", counts()[4], 1)
    counters = flow.ns.counters()
    expect("as the namespace counts", counts(), (counters["echo_received"], *(
        counters[name.replace("-", "_") + "_ignored"] for name in names[1:])))
    expect("the other namespace", counts(Family(other.ns, "hpcc")), (0,) * 5)


def test_dump_while_flows_come_and_go():
    """A dump contains each flow that exists during all of it exactly once; each message is complete."""
    nr = 10000 if virtual_time() else 300
    resource.setrlimit(resource.RLIMIT_NOFILE, (3 * nr + 1000,) * 2)
    pair = Pair(6)
    listener = pair.listen()
    staying = [pair.connect(listener) for _ in range(nr)]
    want = sorted(cookie(client) for client, _ in staying)
    fleeting = []

    def churn():
        for client, server in fleeting:
            client.close()
            server.close()
        fleeting[:] = [pair.connect(listener) for _ in range(4)]
        set_cc(fleeting[0][0], "reno")

    seen = 0
    for _ in range(5):
        parts = []
        for flows in Family(pair.c, "hpcc").dump_in_parts("flow-get"):
            parts.append(flows)
            churn()
        expect_in("parts", len(parts), nr // 150, nr // 3)
        flows = sum(parts, [])
        cookies = [flow["cookie"] for flow in flows]
        expect("each once", len(set(cookies)), len(cookies))
        expect("those that stay", sorted(set(cookies) & set(want)), want)
        for flow in flows:
            expect("whole", (flow["raddr"], flow["rport"], flow["mode"]), (pair.addr[1], 5000, "telemetry"))
        seen += len(cookies) - len(want)
    print(f"# {nr} that stay, {seen} of those that come and go")


def test_events():
    """Fallbacks, returns and path changes go to listeners in the flow's namespace, and to hpcc:hpcc_mode."""
    tracepoint = Tracepoint("hpcc:hpcc_mode")
    quiet = Family(Netns(), "hpcc")
    quiet.listen("events")
    flow = Flow()
    family = Family(flow.ns, "hpcc")
    family.listen("events")
    flow.round(Link().step(9000, 0.8))
    flow.round(Link(tag=2).step(9000, 0.8))
    expect("path", [(name, got["event"], got["cookie"], got["mode"]) for name, got in family.received()],
           [("flow-ntf", "path", cookie(flow.sock), "telemetry")])
    for _ in range(200):
        flow.run()
        flow.send()
        if flow.flow()["mode"] == "classic":
            break
    events = family.received()
    expect("fallback", [(got["event"], got["mode"] in ("classic", "doubting"), got["why"])
                        for _, got in events], [("fallback", True, "silence")])
    reader = Family(flow.ns, "hpcc")
    expect("why", reader.dump("flow-get")[0]["why"], "silence")
    link = Link(tag=2)
    for _ in range(100):
        flow.round(link.step(9000, 0.5))
        if flow.flow()["mode"] == "telemetry":
            break
    expect("return", [got["event"] for _, got in family.received()], ["return"])
    expect("why stays", reader.dump("flow-get")[0]["why"], "silence")
    expect("elsewhere", quiet.received(), [])
    lines = [line for line in tracepoint.lines() if int(line["sport"]) == flow.lport]
    traced = [(line["event"], line["mode"], line["why"]) for line in lines]
    expect("traced of", {line["cookie"] for line in lines}, {str(cookie(flow.sock))})
    expect("traced", traced, [("path", "telemetry", "none"),
                              ("fallback", events[0][1]["mode"], "silence"),
                              ("return", "telemetry", "silence")])


def test_flood():
    """A peer that changes the link with each echo causes a few events per second; other events are counted."""
    flow = Flow()
    family = Family(flow.ns, "hpcc")
    family.listen("events")
    links = [Link(tag=tag) for tag in (1, 2)]

    def happened():
        found = flow.ns.counters()
        return sum(found[name] for name in ("path_changes", "fallbacks", "unseen_loss", "returns"))

    before = happened()
    for turn in range(100):
        flow.round(links[turn % 2].step(9000, 0.5))
    changes = happened() - before
    events = [got for _, got in family.received()]
    expect_in("changes", changes, 90, 100)
    expect_in("events", len(events), 8, 16)
    # these ACKs prevent an RTO, which would be an event
    for _ in range(8):
        time.sleep(0.15)
        flow.round(links[1].step(9000, 0.5))
    flow.round(links[0].step(9000, 0.5))
    (_, last), = family.received()
    expect("all", sum(1 + got.get("missed", 0) for got in events + [last]), happened() - before)


def test_modes():
    for knobs, flags in (({"carry": 1}, {"probes"}), ({"where": 1}, {"receiver"}), ({"n_flows": 0}, {"n"})):
        path = Path(switches=1, **knobs)
        ends = path.connect()
        for i in range(4):
            transfer((*ends, pattern(500000, i)))
        got, = Family(path.a, "hpcc").dump("flow-get")
        expect(f"{knobs}", set(got) & {"receiver", "probes", "n"}, flags)
        if "n" in flags:
            expect("N", got["n"], 1)


main(modules=["sch_hpcc"])
