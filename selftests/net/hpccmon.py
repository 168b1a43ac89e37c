#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""tools/hpccmon, under UBSan and, in a virtual machine, ASan."""

import sys

sys.path[0] += "/.."
from lib.genl import Family, cookie
from lib.kernel import load, unload
from lib.ktap import expect, expect_in, main
from lib.monitor import program, run, run_json
from lib.net import Netns, Pair
from lib.path import MBPS, Path
from lib.peer import Flow, Link
from lib.tcp import pattern, transfer

USAGE, NOTHING = 2, 1


def test_unload():
    """Without the module it says what to do. Before other tests: their connections take minutes
    to end.
    """
    program()
    ns = Netns()
    expect("unload", unload(ns, 100), True)
    said = run(ns, "flow", status=NOTHING)
    load(ns)
    expect("said", said, "hpccmon flow: the kernel does not know hpcc here: modprobe tcp_hpcc "
           "(tcp_hpcc(7))\n")


def test_usage():
    """What is wrong on a command line is told in a line, with what is allowed."""
    ns = Netns()
    end = "is no end of a flow: write ADDR, ADDR:PORT, [ADDR]:PORT, :PORT, or a cookie"
    for words, said in (([], ': what? "hpccmon --help" lists the commands'),
                        (["flows"], ": no command flows; there are flow"),
                        (["flow", "--jso"], None),
                        (["flow", "--no"], " flow: --no: there is --json"),
                        (["flow", "-x"], " flow: -x: there is --json"),
                        (["flow", "a", "b"], f" flow: a {end}"),
                        (["flow", ":1", ":2", ":3"],
                         " flow: :3: one flow too many: write its own end and its peer's")):
        if said:
            got = run(ns, *words, status=USAGE)
            expect(f"{words}", got.startswith("hpccmon" + said) and got.count("\n") == 1, True)
    for word in ("1.2.3", "1.2.3.4.5", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536", "1.2.3.4:5x", ":",
                 "[::1", "[::1]x", "[::1]:", "[]:1", ":::", "", "-5", "0x", "99999999999999999999",
                 "g::1", "a" * 100, "[" + "1:" * 60):
        expect(word, run(ns, "flow", "--", word, status=USAGE), f"hpccmon flow: {word} {end}\n")
    expect("help", run(ns, "--help").startswith("usage: hpccmon COMMAND"), True)


def test_slow_hop():
    """The hop with the largest u' holds the flow, and the line that says why names it."""
    path = Path(switches=3)
    path.change(2, f"hpcc rate {MBPS // 4}mbit delay 20us node 2 port 2")
    ends = path.connect()
    path.a.ask()
    for _ in range(3):
        transfer((*ends, pattern(1000000)))
        path.a.paths()
    holds = []
    transfer((*ends, pattern(3000000)), each=lambda: holds.append(
        run_json(path.a, "flow")[0]) if len(holds) < 8 else None)
    flow = holds[-1]
    print("#", flow["why"])
    expect("holds", [one["holds"] for one in holds], [2] * len(holds))
    expect("why", flow["why"].startswith("hop 2 is at "), True)
    expect_in("u'", flow["hops"][1]["u"], 0.8, 1.3)
    expect("names", [(hop["hop"], hop["node"], hop["port"], hop["B_bps"]) for hop in flow["hops"]],
           [(i, i, 2, MBPS * 1000000 // (4 if i == 2 else 1)) for i in (1, 2, 3)])
    text = run(path.a, "flow")
    print("".join(f"# {line}\n" for line in text.splitlines()))
    lines = text.splitlines()
    expect("marked", [line[:8].split() for line in lines if line.startswith("  *")], [["*", "2"]])
    expect("named", [line.split()[-3:] for line in lines[-3:]],
           [["1.2", "1", "Gbit/s"], ["2.2", "250", "Mbit/s"], ["3.2", "1", "Gbit/s"]])


def test_same_as_netlink():
    """What it says is what netlink says."""
    for version in 4, 6:
        flow = Flow(version=version)
        link = Link()
        for _ in range(3):
            flow.round(link.step(9000, 0.8, 0.25))
        want, = Family(flow.ns, "hpcc").dump("flow-get")
        got, = run_json(flow.ns, "flow")
        expect("who", [got[name] for name in ("laddr", "lport", "raddr", "rport", "cookie")],
               [want[name] for name in ("laddr", "lport", "raddr", "rport", "cookie")])
        expect("W", [got[name] for name in ("W", "Wc", "W_init", "T_ns", "incStage", "mode")],
               [want[name] for name in ("w", "wc", "w-init", "t", "inc-stage", "mode")])
        expect("U", [round(got[name] * 2**24) for name in ("U", "eta")], [want["u"], want["eta"]])
        expect("R", got["R_bps"], 8 * want["r"])
        hop, = got["hops"]
        expect("hop", (hop["hop"], round(hop["u"] * 2**24), hop["qlen_ns"]),
               (1, want["hop"][0]["u"], want["hop"][0]["qlen"]))


def test_which_flows():
    """Ends and cookies select; none: exit status 1."""
    pair = Pair(6)
    listener = pair.listen()
    ends = [pair.connect(listener) for _ in range(5)]
    ports = [client.getsockname()[1] for client, _ in ends]
    here, there = pair.addr

    def found(*words):
        return sorted(flow["lport"] for flow in run_json(pair.c, "flow", *words))

    expect("all", found(), sorted(ports))
    expect("all to a port", found(":5000"), sorted(ports))
    expect("all to an end", found(f"[{there}]:5000"), sorted(ports))
    expect("from a host", found(here), sorted(ports))
    expect("from a host to it", found(here, there), sorted(ports))
    number = cookie(ends[1][0])
    for words in ([f":{ports[1]}"], [f"[{here}]:{ports[1]}"], [f"[{here}]:{ports[1]}", there],
                  [str(number)], [hex(number)], [f":{ports[1]}", ":5000"]):
        expect(f"{words}", found(*words), [ports[1]])
    for words, name in (([there, here], f"{there} to {here}"), ([":5000", there], f":5000 to {there}"),
                        (["10.0.0.1"], "10.0.0.1"), (["99999999"], "cookie 99999999")):
        expect(f"{words}", run(pair.c, "flow", *words, status=NOTHING),
               f"hpccmon flow: no flow of {name} runs hpcc here\n")
    expect("elsewhere", run(Netns(), "flow", status=NOTHING), "hpccmon flow: no flow runs hpcc here\n")
    with open("/dev/full", "w", encoding="ascii") as full:
        expect("full disk", run(pair.c, "flow", stdout=full, status=NOTHING),
               "hpccmon flow: cannot write: No space left on device\n")


def test_to_itself():
    """Both ends of a connection of a host to itself are flows, each of them once."""
    pair = Pair()
    listener = pair.listen()
    client = pair.s.socket()
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    want = sorted(end.getsockname()[1] for end in (client, server))
    for words in [], [":5000"], [pair.addr[1]]:
        expect(f"{words}", sorted(flow["lport"] for flow in run_json(pair.s, "flow", *words)), want)


def test_why():
    """What rules W, in a line."""
    flow = Flow()
    why = lambda: run_json(flow.ns, "flow")[0]["why"]
    expect("at first", why(), "no record has come yet: W is as the flow began")
    link = Link()
    flow.round(link.step(9000, 0.3))
    for _ in range(10):
        flow.round(link.step(9000, 0.3))
    expect("room", why(), "U 0.30 is below eta 0.95 and W is W_init: the sender, the receiver's "
           "window or a link that does not stamp limits the flow")
    for _ in range(10):
        flow.round(link.step(9000, 1, 0.5))
    expect("full", why().startswith("hop 1 is at 1.50 of eta 0.95, with a queue of "), True)
    for _ in range(200):
        flow.run()
        flow.send()
        if flow.flow()["mode"] == "classic":
            break
    expect("silence", why(), "classic: telemetry stopped (silence); Reno rules, not W, until a record comes")


if __name__ == "__main__":
    main(sys.modules[__name__], modules=["sch_hpcc"])
