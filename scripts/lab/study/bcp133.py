# SPDX-License-Identifier: GPL-2.0
"""The tests of hpcc-lab evaluate: what BCP 133 (RFC 9743) requests for a new congestion control.

TESTS is the table: each test has a scenario, the clause that requests it, and its criteria. RFC 9743 has no numbers,
so the numbers are ours. They are the same for every congestion control.
"""

import math
import re
from dataclasses import dataclass, replace

from ..run import results
from . import bench

MB, MS = 10**6, 10**6
SPAN = 5                # samples of a span
STAY = 3                # number of spans
SAMPLES = 250
PACKET, MSS = 1538, 1448


# ---- figures: functions of a run

def capacity(run):
    """The rate of the bottleneck, after all events."""
    rates = [event["rate"] for event in run.scenario.events if event["rate"]]
    return rates[-1] if rates else min(run.scenario.link["rate"], *(
        link["rate"] for link in run.scenario.links.values() if "rate" in link))


def endless(run):
    return [flow["goodput_bps"] for flow in run.result["flows"] if flow["bytes"] is None]


def goodput(run):
    """Without endless flows: the bytes of all flows, divided by the time until the last of them has ended."""
    flows, rates = run.result["flows"], endless(run)
    if not rates and flows and slowest(run):
        begin = min(flow["start_us"] for flow in flows)
        rates = [8e6 * sum(flow["bytes"] for flow in flows) / max(flow["start_us"] + flow["fct_us"] - begin for flow in flows)]
    return round(sum(rates) / capacity(run), 4) if rates else None


def delay(percent):
    """A percentile of the queueing delay in ms, at the worst port that sends data."""
    def value(run):
        ports = [port for port in run.result["ports"] if port["data"]]
        lowest = min(port["rate_bps"] for port in ports)
        return round(max(port["queue_bytes"][percent] * 8000 / (capacity(run) if port["rate_bps"] == lowest
                                                               else port["rate_bps"]) for port in ports), 4)
    return value


def loss(run):
    ports = [port for port in run.result["ports"] if port["data"]]
    drops = sum(port["drops"] for port in ports)
    return round(drops / (drops + max(port["packets"] for port in ports)), 6)


def jain(run):
    return round(results.jain(endless(run)) or 0, 4) if len(endless(run)) > 1 else None


def _stays(run, begin_us, good):
    """Time in ms from begin_us until good(rates of all flows) holds for STAY successive spans; None if it never does."""
    times, flows = run.series["t_us"], run.series["flows"]
    held = []
    for i in range(0, len(times) - SPAN + 1, SPAN):
        if times[i] >= begin_us:
            rates = [sum(flow["rate_bps"][i:i + SPAN]) / SPAN for flow in flows]
            held = [*held, times[i]] if flows and good(rates) else []
            if len(held) == STAY:
                return round((held[0] - begin_us) / 1000, 3)
    return None


def convergence(run):
    return _stays(run, max((flow["start_us"] for flow in run.result["flows"]), default=0),
                  lambda rates: any(rates) and results.jain(rates) >= 0.9)


def recovery(run):
    return _stays(run, run.scenario.events[-1]["at"] / 1000, lambda rates: sum(rates) >= 0.7 * capacity(run))


def share(theirs):
    """Goodput per flow of one half of the flows, relative to an equal share."""
    def value(run):
        rates = endless(run)
        half = rates[len(rates) // 2:] if theirs else rates[:len(rates) // 2]
        return round(2 * sum(half) / (sum(rates) or 1), 4)
    return value


def evenness(run):
    return round(min(endless(run)) / (max(endless(run)) or 1), 4)


def short_p95(run):
    """p95 of the completion times in ms of flows with an end; None if it did not end."""
    times = sorted(flow["fct_us"] or math.inf for flow in run.result["flows"] if flow["bytes"])
    value = results.percentile(times, 95) / 1000
    return value if value < math.inf else None


def slowest(run):
    times = [flow["fct_us"] for flow in run.result["flows"]]
    return None if None in times else max(times) / 1000


def rpc_p95(run):
    latency = run.result["rpcs"][0]["latency_us"]
    return latency and latency["p95"] / 1000


def timeouts(run):
    return run.result["hosts"]["timeouts"] / len(run.result["flows"])


@dataclass
class Criterion(bench.Figure):
    """A figure, and its limit."""

    def show(self, value):
        return "never" if value is None else self.unit(value)


def ms(value):
    return f"{value:.3g} ms" if value < 100 else f"{value:.0f} ms"


def percent(value):
    return f"{100 * value:.2f} %"


GOODPUT, LOSS = Criterion("goodput", goodput, bench.ratio), Criterion("loss", loss, percent)
DELAY = {p: Criterion(f"queueing delay {p}", delay(p), ms) for p in ("p50", "p95", "p99")}
JAIN, CONVERGENCE = Criterion("Jain", jain, bench.ratio), Criterion("convergence time", convergence, ms)
RECOVERY = Criterion("recovery time", recovery, ms)
# The figures of each test, with or without a limit.
METRICS = (GOODPUT, *DELAY.values(), LOSS, JAIN, CONVERGENCE)


def least(figure, limit):
    return replace(figure, least=limit)


def most(figure, limit):
    return replace(figure, most=limit)


def waits(limit_ms):
    return most(DELAY["p95"], limit_ms)


USED = least(GOODPUT, 0.8)
HARM = [Criterion("share of their flows", share(True), bench.ratio, least=0.5),
        Criterion("share of own flows", share(False), bench.ratio, least=0.1)]
FCT = Criterion("p95 of short flows", short_p95, ms, most=100)
RECOVERS = most(RECOVERY, 2000)


# ---- scenarios

def long(hosts=1, first=0, **more):
    """Endless flows, one from each host."""
    return {"from": f"h{first}..h{first + hosts - 1}", "bytes": "endless"} | more


def measure(seconds, begin=0.2):
    return {"from": f"{round(begin * seconds * 10**9)}ns", "until": f"{round(seconds * 10**9)}ns",
            "interval": f"{round(seconds * 10**9 / SAMPLES)}ns", "deadline": f"{round(seconds + 5)}s"}


def star(*flows, rate=100, rtt=20.0, buffer=1.0, seconds=10, begin=0.2, access=10, slow=(), back=None,
         **more):
    """Flows from hosts of a switch to its last host, whose link is the bottleneck. rate: Mb/s. rtt: ms. buffer: BDPs.
    slow: hosts with four times the RTT. back: rate of the last host's link for ACKs.
    """
    hosts = 1 + max(int(host) for flow in flows for host in re.findall(r"\d+", flow["from"])) if flows else 1
    size = max(round(buffer * rate * rtt * 125), 2 * PACKET)
    link = {"rate": f"{access * rate}Mbit", "delay": f"{round(rtt * MS / 4)}ns", "buffer": f"{size}B",
            f"s0-h{hosts}": {"rate": f"{rate}Mbit"} | ({"rate_back": f"{back}Mbit"} if back else {}),
            **{f"s0-h{i}": {"delay": f"{round(rtt * MS * 7 / 4)}ns"} for i in slow}}
    return {"topology": {"kind": "star", "hosts": hosts + 1}, "link": link, "measure": measure(seconds, begin),
            "flow": [{"to": f"h{hosts}"} | flow for flow in flows]} | more


def event(at, **what):
    return {"at": f"{at}s", "link": "s0-h1"} | what


def reroute(before, after):
    """A flow whose path at 4 s changes from one spine switch to another. before, after: base RTT in ms."""
    delays = [f"{round((rtt - 4) * MS / 4)}ns" for rtt in (before, after)]
    spines = {f"t{t}-s{s}": {"delay": delays[s]} for s in (0, 1) for t in (0, 1)}
    return {"topology": {"kind": "leaf-spine", "tors": 2, "hosts_per_tor": 1, "spines": 2},
            "link": {"rate": "1Gbit", "delay": "1ms", "buffer": "250KB", "fabric": {"rate": "100Mbit"}, **spines},
            "event": [{"at": "0s", "link": "t0-s1", "down": True}, {"at": "3.99s", "link": "t0-s1", "up": True},
                      {"at": "4s", "link": "t0-s0", "down": True}],
            "measure": measure(10, 0.6), "flow": [long() | {"to": "h1"}]}


def brief(cc=None):
    """100 flows of 30 KB, 5 % of the load."""
    own = {"cc": cc} if cc else {}
    return {"from": "h1", "bytes": "30KB", "count": 100, "spacing": "50ms", "start": "3s"} | own


def reno(lost):
    """70 % of the goodput that RFC 5348, section 3.1, expects of Reno at this rate of random loss, base RTT 20 ms."""
    return least(GOODPUT, round(0.7 * MSS * 8 * math.sqrt(1.5 / lost) / 0.02 / (100 * MB), 3))


@dataclass
class Test(bench.Case):
    """A row of the table. why: the reason why it does not run."""
    clause: str = ""
    about: str = ""
    why: str = ""


def test(name, clause, about, data=None, *criteria, why=""):
    # A user of such paths does not configure the base RTT.
    data = data and {"cc": {"base_rtt": 0}} | data
    return Test(name, "", figures=list(criteria), data=data, clause=clause, about=about, why=why)


def against(other, buffer):
    return star(long(2), long(2, 2, cc=other), buffer=buffer, seconds=20)


AQM_FLOWS = dict(buffer=4, seconds=10)
# Links of 10 Gb/s, base RTT 40 us, buffer of 1 MB, ports that mark ECN as for DCTCP.
DATA_CENTER = dict(rate=10000, rtt=0.04, buffer=20, access=1, seconds=0.06, cc={"base_rtt": "auto"},
                   qdisc={"marking": "ldcp", "knonect": "1MB"})
TESTS = [
    test("bulk", "6.1, BBR A.1", "1 flow", star(long()), USED, most(LOSS, 0.01)),
    test("collapse", "5.1.1", "32 flows", star(long(8, count=4)), USED, most(LOSS, 0.05)),
    test("rising-load", "5.1.1", "1 to 128 flows, one more every 40 ms; measured from 6 s on",
         star(long(8, count=16, spacing="40ms"), begin=0.6), least(GOODPUT, 0.7), most(LOSS, 0.1)),
    test("outage", "5.1.1, 5.2", "the link is down from 4 to 5 s",
         star(long(), event=[event(4, down=True), event(5, up=True)]),
         Criterion("timeouts per flow", timeouts, bench.number, most=5), RECOVERS),
    test("bufferbloat", "5.1.2", "1 flow, buffer of 10 BDP", star(long(), buffer=10), USED, waits(20)),
    test("own-loss", "5.1.3", "4 flows, buffer of 0.5 BDP", star(long(4), buffer=0.5), USED, most(LOSS, 0.02)),
    test("heavy-loss", "5.1.3", "1 flow, 20 % random loss: it sends less", star(long(), impair={"data_loss": "20%"}),
         most(GOODPUT, 0.5)),
    test("fair-2", "5.1.4", "2 flows", star(long(2), seconds=20, begin=0.5), USED, least(JAIN, 0.9)),
    test("fair-8", "5.1.4", "8 flows", star(long(8), seconds=20, begin=0.5), USED, least(JAIN, 0.9)),
    test("fair-rtt-2", "5.1.4", "2 flows, base RTT 20 and 80 ms: shares differ less than RTTs",
         star(long(2), slow=[0], seconds=20, begin=0.5), USED,
         Criterion("smallest share / largest", evenness, bench.ratio, least=0.25)),
    test("fair-rtt-8", "5.1.4", "8 flows, base RTT 20 and 80 ms: shares differ less than RTTs",
         star(long(8), slow=range(4), seconds=20, begin=0.5), USED,
         Criterion("smallest share / largest", evenness, bench.ratio, least=0.25)),
    test("join", "5.1.4", "a second flow joins at 4 s", star(long(), long(1, 1, start="4s"), seconds=15),
         most(CONVERGENCE, 5000)),
    test("short", "5.1.5", "100 short flows of 30 KB beside 1 flow", star(long(), brief()), FCT, least(GOODPUT, 0.6)),
    test("vs-reno", "5.2.1", "2 flows and 2 of reno", against("reno", 1), *HARM),
    test("vs-cubic", "5.2.1", "2 flows and 2 of cubic", against("cubic", 1), *HARM),
    test("vs-cubic-shallow", "5.2.1", "2 flows and 2 of cubic, buffer of 0.25 BDP", against("cubic", 0.25), *HARM),
    test("vs-cubic-deep", "5.2.1", "2 flows and 2 of cubic, buffer of 4 BDP", against("cubic", 4), *HARM),
    test("vs-bbr", "5.2.1", "2 flows and 2 of the kernel's bbr", against("bbr", 1), *HARM),
    test("real-time", "5.2.2", "beside real-time media", why="the lab has no congestion control for real-time media"),
    test("short-cubic", "5.2.3", "100 short flows of cubic beside 1 flow", star(long(), brief("cubic")), FCT),
    test("cubic-short", "5.2.3", "100 short flows beside 1 flow of cubic", star(long(cc="cubic"), brief()), FCT,
         least(GOODPUT, 0.6)),
    test("shallow", "6.1, BBR A.17", "1 flow, buffer of 10 packets, which stands for a policer",
         star(long(), buffer=0.06), least(GOODPUT, 0.5), most(LOSS, 0.02)),
    test("tunnel", "6.2", "through a tunnel", why="the lab's switches have no tunnels"),
    test("loss-0.1", "6.4", "1 flow, 0.1 % random loss", star(long(), impair={"data_loss": "0.1%"}), reno(0.001)),
    test("loss-1", "6.4", "1 flow, 1 % random loss", star(long(), impair={"data_loss": "1%"}), reno(0.01)),
    test("burst-loss", "6.4", "the link loses all packets for 5 ms at 4 s",
         star(long(), event=[event(4, down=True), event(4.005, up=True)]), RECOVERS, least(GOODPUT, 0.6)),
    test("aggregation", "6.4, BBR A.12, A.13", "ACKs arrive in batches", why="the lab's links do not aggregate packets"),
    test("fq_codel", "7.1", "4 flows, fq_codel", star(long(4), **AQM_FLOWS, qdisc={"queue": "fq_codel"}),
         USED, waits(20), least(JAIN, 0.9)),
    test("red-ecn", "7.1", "4 flows, RED that marks between 2 and 6 ms of queue", star(long(4), **AQM_FLOWS, qdisc={
        "kind": "red limit 1000000 avpkt 1500 min 25000 max 75000 burst 28 bandwidth 100mbit ecn"}), USED, waits(20)),
    test("pie", "7.1", "4 flows, PIE with a target of 15 ms", star(long(4), **AQM_FLOWS, qdisc={"kind": "pie ecn"}), USED,
         waits(30)),
    test("dualpi2", "7.1", "4 flows, DualPI2 (L4S)", star(long(4), **AQM_FLOWS, qdisc={"queue": "dualpi2"}), USED, waits(30)),
    test("circuit-breaker", "7.2", "a circuit breaker stops the flows", why="the lab's networks have no circuit breakers"),
    test("sub-packet", "7.4, BBR A.14", "4 flows, 1 Mb/s, base RTT 2 ms, buffer of 64 packets; the BDP is 1/6 packet",
         star(long(4), rate=1, rtt=2, buffer=64 * 6.15, seconds=30), USED, waits(100)),
    test("rtt-0.1", "7.11", "1 flow, 1 Gb/s, base RTT 100 us", star(long(), rate=1000, rtt=0.1, seconds=1), USED, most(LOSS, 0.01)),
    test("rtt-1", "6.3", "1 flow, 1 Gb/s, base RTT 1 ms", star(long(), rate=1000, rtt=1, seconds=1), USED, most(LOSS, 0.01)),
    test("rtt-100", "6.3", "1 flow, 50 Mb/s, base RTT 100 ms", star(long(), rate=50, rtt=100, seconds=20), USED, most(LOSS, 0.01)),
    test("rtt-600", "7.5", "1 flow, 10 Mb/s, base RTT 600 ms", star(long(), rate=10, rtt=600, seconds=50), USED, most(LOSS, 0.01)),
    test("misbehaving", "7.6", "ACK division, optimistic ACKs", why="the lab's receivers are those of the kernel"),
    test("reorder", "7.7, BBR A.18", "1 flow, 1 % of packets 5 ms late",
         star(long(), impair={"reorder": "1%", "reorder_delay": "5ms"}), USED),
    test("reorder-extreme", "7.7, BBR A.18", "1 flow, 10 % of packets 20 ms late",
         star(long(), impair={"reorder": "10%", "reorder_delay": "20ms"}), least(GOODPUT, 0.5)),
    test("onset", "7.8", "15 flows join 1 flow at 4 s", star(long(), long(15, 1, start="4s"), begin=0.4),
         most(LOSS, 0.05), most(CONVERGENCE, 5000), USED),
    test("rate-up", "7.9, BBR A.15", "the link's rate rises from 10 to 100 Mb/s at 4 s",
         star(long(), rate=10, buffer=10, access=100, begin=0.6, event=[event(4, rate="100Mbit")]), most(RECOVERY, 1000), USED),
    test("rate-down", "7.9, BBR A.16", "the link's rate falls from 100 to 10 Mb/s at 4 s; the buffer then has 10 BDP",
         star(long(), begin=0.6, event=[event(4, rate="10Mbit")]), USED, most(LOSS, 0.02), waits(100)),
    test("path-longer", "7.3, 7.9", "reroute at 4 s: base RTT 20, then 60 ms", reroute(20, 60), RECOVERS, USED),
    test("path-shorter", "7.3, 7.9", "reroute at 4 s: base RTT 60, then 20 ms", reroute(60, 20), RECOVERS, USED),
    test("idle", "7.8, BBR A.11", "1 MB every 0.6 s, the link is idle between them", star(
        rpc=[{"from": "h1", "to": "h0", "request": 100, "response": 1000000, "think": "500ms", "until": "10s"}]),
         Criterion("p95 of 1 MB", rpc_p95, ms, most=400), most(LOSS, 0.02)),
    test("two-way", "RFC 3449", "1 flow in each direction; ACKs wait behind data", {
        "topology": {"kind": "dumbbell", "hosts": 2}, "flow": [long(to="h1", reverse="endless")], "measure": measure(10),
        "link": {"rate": "1Gbit", "delay": "3333us", "buffer": "250KB", "fabric": {"rate": "100Mbit"}}},
         least(GOODPUT, 1.2), least(JAIN, 0.9)),
    test("asymmetric", "RFC 3449", "1 flow, 2 Mb/s back, which carry the ACKs of 60 % of the packets",
         star(long(), back=2), least(GOODPUT, 0.3)),
    test("ack-loss", "RFC 3449", "1 flow, 50 % of the ACKs are lost", star(long(), impair={"ack_loss": "50%"}), USED),
    test("multipath", "7.10", "several paths", why="connections of the lab have one path"),
    test("data-center", "7.11", "4 flows, 10 Gb/s, base RTT 40 us, buffer of 1 MB; ports mark ECN",
         star(long(4), **DATA_CENTER), USED, waits(0.2), least(JAIN, 0.9)),
    test("incast", "7.11", "32 hosts send 64 KB each at once, the link needs 1.7 ms; otherwise as data-center",
         star(long(32, bytes="64KB"), begin=0, **DATA_CENTER),
         Criterion("slowest flow", slowest, ms, most=5), Criterion("timeouts per flow", timeouts, bench.number, most=0)),
]
