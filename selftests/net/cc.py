#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/ack.c and law.c: from telemetry to the window: how W, cwnd and pacing change when echoes
arrive, when echoes stop, and when segments are lost.
"""

import sys
import time

from lib.kernel import virtual_time
from lib.ktap import expect, expect_in, main, need_virtual_time
from lib.packet import (ACK, CWR, ECE, ECHO, FORWARD, IDENTIFY, IDENTIFY_ECHO, PROMPT, SYN,
                        data_segments, identity, option)
from lib.peer import (ETA, HOST_MBPS, SCALE, T_NS, T_UNITS, W_AI, W_INIT, Flow, Link, Peer, near,
                      settle, timed_out)
from lib.tcp import set_cc, tcp_info
from lib.tracepoint import Tracepoint


def test_first_telemetry_is_stored():
    flow = Flow()
    link = Link().step(1, 1.0, 5.0)
    now = flow.round(link)
    expect("W", now["W"], W_INIT)
    expect("U", now["U_permille"], 1000)


def test_one_reduction_a_round():
    """All ACKs of one round trip compute W from the same Wc."""
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 1.0, 0.9))
    now = flow.round(link.step(9000, 1.0, 0.9))
    reference = now["Wc"]
    base = flow.acked
    # flow.run() sends data after the last update of Wc; the ACKs below acknowledge only their first bytes.
    segments = flow.run()
    for part in range(1, 6):
        flow.echo(link.step(9000, 1.0, 0.9), ack=base + part)
        expect("Wc", flow.flow()["Wc"], reference if part > 1 else flow.flow()["Wc"])
        reference = flow.flow()["Wc"]
    expect("data in flight", len(segments) > 5, True)


def test_once_in_a_round_trip():
    """With per_rtt 1 W changes only when Wc does; with per_rtt 0 W follows each record."""
    for per_rtt in 1, 0:
        flow = Flow(per_rtt=per_rtt)
        link = Link()
        for _ in range(3):
            flow.round(link.step(9000, 1.0, 0.9))
        base, differ = flow.acked, False
        flow.run()
        for part in range(1, 6):
            flow.echo(link.step(9000, 1.0, 0.9), ack=base + part)
            now = flow.flow()
            differ |= now["W"] != now["Wc"]
        expect("W was other than Wc", differ, not per_rtt)


def test_queue_is_the_smaller_of_two():
    """A queue that is in only one of two consecutive records does not count."""
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 0.5, 0.0))
    now = flow.round(link.step(9000, 0.5, 3.0))
    expect("U", now["U_permille"], 500)
    now = flow.round(link.step(9000, 0.5, 0.0))
    expect("U", now["U_permille"], 500)


def test_increases_step_by_step():
    """Below eta, W grows max_stage times by W_ai, then by the factor eta/U."""
    flow = Flow(max_stage=3)
    link = Link()
    flow.round(link.step(9000, 1.0, 1.0))
    want = settle(flow, link, 40000)["W"]
    flow.round(link.step(9000, 0.5, 0.0))   # min() of both queues is 0 from now on
    now = flow.round(link.step(9000, 0.5, 0.0))
    grown = []
    for _ in range(8):
        before = now["Wc"]
        now = flow.round(link.step(9000, 0.5, 0.0))
        grown.append("add" if abs(now["Wc"] - before - W_AI) < 2 else
                     "multiply" if abs(now["Wc"] / before - 1.9) < 0.02 else now["Wc"] / before)
        if now["Wc"] > W_INIT / 2:
            break
    text = "".join(str(word)[0] for word in grown)
    expect("adds between multiplications, in " + text, "aaam" in text, True)
    expect("unknown steps", set(grown) - {"add", "multiply"}, set())
    expect("start", want < 40000, True)


def test_T_from_rtt():
    """With base_rtt_ns 0, T is the smallest RTT, and W_init is computed from it."""
    need_virtual_time()
    peer = Peer(base_rtt_ns=0, start_rtt_ns=5000000)
    peer.start_connect()
    time.sleep(0.002)
    peer.answer()
    expect_in("T", peer.flow()["T_ns"], 2000000, 2100000)
    expect_in("W", peer.flow()["W"], 250000, 262500)
    peer.sock.send(bytes(1000))
    peer.take()
    time.sleep(0.001)
    peer.send()
    now = peer.flow()
    expect_in("T", now["T_ns"], 1000000, 1100000)
    expect_in("W", now["W"], 125000, 137500)
    near("R", peer.rate(), 125000000)
    peer.sock.send(bytes(1000))
    peer.take()
    time.sleep(0.003)
    peer.send()
    expect("T", peer.flow()["T_ns"], now["T_ns"])


def test_parameters():
    """n_flows, w_ai, eta_permille and host_mbps have their effect on W."""
    for how, growth in (({"n_flows": 10}, W_INIT * 0.05 / 10), ({"w_ai": 777}, 777),
                        ({"eta_permille": 900}, W_INIT * 0.1 / 100)):
        flow = Flow(**how)
        eta = how.get("eta_permille", 950) / 1000
        link = Link()
        flow.round(link.step(9000, 1.0, 0.9))
        now = flow.round(link.step(9000, 1.0, 0.9))
        near(f"W with {how}", now["W"], W_INIT / ((1.0 + link.u) / eta) + growth, 0.0005)
    flow = Flow(host_mbps=2 * HOST_MBPS)
    expect("W with twice the rate", flow.flow()["W"], 2 * W_INIT)


def test_parameters_read_once():
    """A connection keeps the parameters that it was established with."""
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 1.0, 0.9))
    for name, value in (("n_flows", 1), ("slots", 1), ("host_mbps", 10)):
        flow.ns.sysctl("net.hpcc." + name, value)
    now = flow.round(link.step(9000, 1.0, 0.9))
    near("W", now["W"], W_INIT / ((1.0 + link.u) / ETA) + W_AI, 0.0005)


def test_maximum_over_hops():
    """U is that of the most loaded of three links."""
    flow = Flow()
    links = [Link(hop, tag=hop) for hop in (1, 2, 3)]
    flow.round(*[link.step(9000, 0.2) for link in links])
    links[0].step(9000, 0.2)
    links[1].step(9000, 0.8)
    links[2].step(9000, 0.4)
    now = flow.round(*links)
    expect_in("U", now["U_permille"], 799, 801)
    expect("hops", now["hops"], 3)


def test_not_too_soon():
    """On a path of several hops the interval between two used records is at least T/8, so that a pair of
    back-to-back packets does not count as load. The next interval includes a skipped record.
    """
    flow = Flow()
    links = [Link(hop, tag=hop) for hop in (1, 2)]
    flow.round(*[link.step(9000, 0.5) for link in links])
    flow.round(*[link.step(9000, 0.5) for link in links])
    for _ in range(3):
        now = flow.round(*[link.step(300, 3.0) for link in links])
        expect_in("U", now["U_permille"], 499, 501)
    now = flow.round(*[link.step(9000, 0.1) for link in links])
    expect_in("U", now["U_permille"], 361, 366)     # (900 x 3 + 9000 x 0.1) / 9900
    single = Flow()
    link = Link()
    single.round(link.step(9000, 0.5))
    single.round(link.step(9000, 0.5))
    now = single.round(link.step(300, 3.0))
    expect_in("U", now["U_permille"], 590, 602)     # 0.5 + (3 - 0.5) x 300 / T


def test_records_in_turns():
    """A hop keeps its last load while ACKs carry no record of it."""
    flow = Flow()
    links = [Link(hop, tag=hop) for hop in (1, 2)]
    for link in links:
        flow.round(link.step(9000, 0.2), hops=2)
    flow.round(links[0].step(9000, 0.9), hops=2)
    now = flow.round(links[1].step(9000, 0.3), hops=2)
    expect_in("U", now["U_permille"], 899, 901)


def test_shorter_path():
    """Hops beyond the end of a path that became shorter do not count any more."""
    flow = Flow()
    links = [Link(hop, tag=hop) for hop in (1, 2)]
    flow.round(*[link.step(9000, 0.2) for link in links])
    flow.round(links[0].step(9000, 0.3), links[1].step(9000, 0.9))
    now = flow.round(links[0].step(9000, 0.3), hops=1)
    expect_in("U", now["U_permille"], 299, 301)
    expect("hops", now["hops"], 1)


def test_path_change():
    """A different tag at a hop is another link: the flow takes a new baseline and requests the
    link's identity again.
    """
    flow = Flow()
    flow.ns.ask()
    link = Link()
    flow.round(link.step(9000, 0.5))
    before = flow.round(link.step(9000, 0.5))
    sent = flow.ns.counters()["identify_sent"]
    other = Link(tag=2, ts=99, tx=500000)
    now = flow.round(other)
    expect("W, U", (now["W"], now["U_permille"]), (before["W"], before["U_permille"]))
    expect("path_changes", flow.ns.counters()["path_changes"], 1)
    now = flow.round(other.step(9000, 0.7))
    expect_in("U", now["U_permille"], 699, 701)
    for _ in range(8):
        flow.round(other.step(9000, 0.7))
    expect("asked again who the links are", flow.ns.counters()["identify_sent"] > sent, True)


def test_path_change_in_a_pause():
    """A link changes after such a long pause that the old link's baseline is void: the flow
    requests the identity of the new link nevertheless.
    """
    flow = Flow()
    flow.ns.ask()
    link = Link()
    flow.round(link.step(9000, 0.5))
    flow.round(link.step(9000, 0.5))
    for _ in range(8):
        flow.round(link.step(9000, 0.5))
    sent = flow.ns.counters()["identify_sent"]
    flow.run()
    time.sleep(100e-9 * T_NS)
    other = Link(tag=2, ts=99, tx=500000)
    flow.echo(other)
    expect("path_changes", flow.ns.counters()["path_changes"], 1)
    for _ in range(8):
        flow.round(other.step(9000, 0.7))
    expect("asked again who the links are", flow.ns.counters()["identify_sent"] > sent, True)


def test_reordered_echoes():
    """Echoes that arrive while nothing is in flight are held back, and the newest record of each
    link is kept.
    """
    peer = Peer()
    peer.connect()
    link = Link()
    echoes = [option(ECHO, [link.step(9000, share).raw()], SCALE) for share in (0, 0.5, 0.9)]
    for number, raw in enumerate(echoes[:1] + echoes[:0:-1]):
        peer.send(raw)
        if not number:      # the baseline is taken at once
            peer.sock.send(bytes(100))
            peer.take()
            peer.send()
    peer.sock.send(bytes(100))
    peer.take()
    peer.send()
    expect_in("U", peer.flow()["U_permille"], 699, 701)     # over both steps
    expect("ts_back", peer.ns.counters()["ts_back_ignored"], 0)


def test_counters_wrap():
    """The 20-bit counters ts and tx wrap: U stays right, and no record is ignored."""
    flow = Flow()
    link = Link(ts=(1 << 20) - 20000, tx=(1 << 20) - 13000)
    flow.round(link.step(9000, 0.6))
    for _ in range(6):
        now = flow.round(link.step(9000, 0.6))
        expect_in("U", now["U_permille"], 599, 601)
    counters = flow.ns.counters()
    expect("ignored", (counters["ts_back_ignored"], counters["tx_excess_ignored"]), (0, 0))


def test_old_baseline():
    """After 64 T without a record, the next record is only a new baseline."""
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 0.5))
    before = flow.round(link.step(9000, 0.5))
    flow.run()
    time.sleep(100e-9 * T_NS)
    link.ts += 781250 + 300000      # beyond a wrap
    flow.echo(link)
    now = flow.flow()
    expect("W, U", (now["W"], now["U_permille"]), (before["W"], before["U_permille"]))
    now = flow.round(link.step(9000, 0.7))
    expect_in("U", now["U_permille"], 699, 701)


def test_stood_still():
    """Records are delayed for 100 T on the return path. A record that is stamped after the delay looks older
    than the delayed records, because 64 T are half the range of a 20-bit counter: it becomes a new
    baseline.
    """
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 0.5))
    flow.round(link.step(9000, 0.5))
    flow.run()
    waiting = link.step(9000, 0.5).raw()
    time.sleep(100e-9 * T_NS)
    flow.send(option(ECHO, [waiting], SCALE, 1))
    flow.round(link.step(9000 + int(100 * T_UNITS), 0.005))
    expect_in("U", flow.round(link.step(9000, 0.9))["U_permille"], 899, 901)
    counters = flow.ns.counters()
    expect("ignored", (counters["ts_back_ignored"], counters["tx_excess_ignored"]), (0, 0))
    expect("runs", (flow.cc(), counters["fallbacks"]), ("hpcc", 0))


def forwards(segments):
    """Return the FORWARD and IDENTIFY options of segments."""
    return [opt for seg in segments for opt in seg.ours() if opt.type in (FORWARD, IDENTIFY)]


def test_prompt_flag():
    """PROMPT is set while the window is small, and clear while it is large."""
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 1.0, 0.0))
    expect("flags", {opt.flags for opt in forwards(flow.run())}, {0})
    settle(flow, link, 5000)
    expect_in("cwnd", tcp_info(flow.sock)["cwnd"], 1, 7)
    flow.round(link.step(9000, 1.0, 1.0))
    segments = flow.run()
    expect("segments", len(segments) > 0, True)
    expect("flags", {opt.flags for opt in forwards(segments)}, {PROMPT})


def test_phases():
    """With seven hops and three slots, three phases are requested in turn, each equally often."""
    flow = Flow()
    links = [Link(hop, tag=hop) for hop in range(1, 4)]
    flow.round(*[link.step(9000, 0.9) for link in links], hops=7)
    phases = []
    for _ in range(4):
        segments = flow.run()
        phases += [opt.flags & 7 for opt in forwards(segments) if opt.type == FORWARD]
        flow.echo(*[link.step(9000, 0.9) for link in links], hops=7)
    expect("phases", set(phases), {0, 1, 2})
    for phase in range(3):
        expect_in(f"share of phase {phase}", phases.count(phase) / len(phases), 0.28, 0.39)


def test_identify():
    """While a program requests identities, IDENTIFY is sent after the first echo; the links are
    shown when the answers have arrived.
    """
    flow = Flow()
    flow.ns.ask()
    links = [Link(hop, tag=hop) for hop in range(1, 4)]
    expect("before the first echo", {opt.type for opt in forwards(flow.run())}, {FORWARD})
    flow.echo(*[link.step(9000, 0.9) for link in links], hops=7)
    asked = []
    for _ in range(4):
        asked += [opt.flags & 7 for opt in forwards(flow.run()) if opt.type == IDENTIFY]
        flow.echo(*[link.step(9000, 0.9) for link in links], hops=7)
    # One super-packet is segmented into segments with one option each.
    expect("phases", set(asked), {0, 1, 2})
    expect("in equal shares", len({asked.count(phase) for phase in range(3)}), 1)
    expect("identify_sent", flow.ns.counters()["identify_sent"], 6)
    flow.run()
    flow.send(option(IDENTIFY_ECHO, [identity(1, 7, 2, 10000, 1), identity(2, 0xfffff, 0xffff, 40, 2),
                                     identity(7, 1, 0, 5, 0)], SCALE, 7))
    expect("links", flow.ns.links(), {1: (7, 2, 10000000000), 2: (0xfffff, 0xffff, 40000000000),
                                      7: (1, 0, 5000)})


def test_identify_on_demand():
    """A flow sends IDENTIFY only from a program's request for identities until the request expires. A
    later request also works, although telemetry began before it.
    """
    flow = Flow()
    link = Link()

    def sent(rounds=12):
        before = flow.ns.counters()["identify_sent"]
        for _ in range(rounds):
            flow.round(link.step(9000, 0.9))
        return flow.ns.counters()["identify_sent"] - before

    expect("nobody asks", sent(), 0)
    # An unrequested IDENTIFY_ECHO: its identities are not kept.
    flow.send(option(IDENTIFY_ECHO, [identity(1, 9, 9, 10, 1)], SCALE, 1))
    flow.ns.ask()
    # At least twice: unanswered requests become less frequent.
    expect_in("asked", sent(), 2, 10)
    flow.send(option(IDENTIFY_ECHO, [identity(1, 7, 2, 10, 1)], SCALE, 1))
    expect("answered", sent(), 0)
    expect("links", flow.ns.links(), {1: (7, 2, 10000000)})
    time.sleep(6)
    flow.ns.ask()
    time.sleep(6)
    expect("still known, as somebody asked again", flow.ns.dump()[0]["hop"][0]["node"], 7)
    time.sleep(5)
    expect("nobody asks any more", "node" in flow.ns.dump()[0]["hop"][0], False)
    expect("nobody is asked any more", sent(), 0)
    flow.ns.ask()
    expect_in("asked anew", sent(), 2, 10)
    expect("forgotten", flow.ns.links(), {})


def silence(flow, rounds=12):
    """Run round trips without telemetry."""
    for _ in range(rounds):
        if not flow.run():
            break
        flow.send()


def test_fallback_and_return():
    flow = Flow()
    flow.ns.ask()
    link = Link()
    flow.round(link.step(9000, 1.0, 1.0))
    settle(flow, link, 60000)
    expect("mode", (flow.cc(), flow.flow()["mode"]), ("hpcc", "telemetry"))
    silence(flow, 6)
    expect("after six silent ACKs", flow.cc(), "hpcc")
    silence(flow)
    expect("mode", (flow.cc(), flow.flow()["mode"]), ("hpcc-classic", "classic"))
    expect("fallbacks", flow.ns.counters()["fallbacks"], 1)
    cwnd = tcp_info(flow.sock)["cwnd"]
    silence(flow, 5)
    expect_in("cwnd", tcp_info(flow.sock)["cwnd"], cwnd, cwnd + 8)
    segments = flow.run()
    expect("still asked", FORWARD in {opt.type for opt in forwards(segments)}, True)
    asked = flow.ns.counters()["identify_sent"]
    flow.echo(link.step(9000, 0.9))
    expect("mode", (flow.cc(), flow.flow()["mode"]), ("hpcc", "telemetry"))
    expect("returns", flow.ns.counters()["returns"], 1)
    now = flow.round(link.step(9000, 1.0, 1.0))
    now = flow.round(link.step(9000, 1.0, 1.0))
    expect("W follows again", now["W"] < cwnd * 1448, True)
    expect("asked who the links are", flow.ns.counters()["identify_sent"] > asked, True)
    silence(flow, 14)
    expect("fallbacks", flow.ns.counters()["fallbacks"], 2)


def test_set_again():
    """If a socket in classic mode selects hpcc again, it stays in classic mode, with the same cwnd."""
    for names in (["hpcc"], ["cubic", "hpcc"]):
        flow = Flow()
        link = Link()
        flow.round(link.step(9000, 1.0, 1.0))
        settle(flow, link, 60000)
        silence(flow)
        expect("before", flow.cc(), "hpcc-classic")
        cwnd = tcp_info(flow.sock)["cwnd"]
        flow.run()
        for name in names:
            set_cc(flow.sock, name)
        expect("after", (flow.cc(), flow.flow()["mode"]), ("hpcc-classic", "classic"))
        expect("cwnd", tcp_info(flow.sock)["cwnd"], cwnd)
        expect("segments let go", data_segments(flow.run()), [])
        flow.round(link.step(9000, 0.9))
        flow.round(link.step(9000, 0.9))
        expect("after a round trip", (flow.cc(), flow.flow()["mode"]), ("hpcc", "telemetry"))
        expect_in("W", flow.flow()["W"], 1, (cwnd + 8) * 1448)


def test_set_again_without_fallback():
    """A socket that leaves hpcc and returns continues with telemetry and with its window."""
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 1.0, 1.0))
    W = settle(flow, link, 60000)["W"]
    flow.run()
    for name in "cubic", "hpcc":
        set_cc(flow.sock, name)
    expect("mode", flow.cc(), "hpcc")
    expect_in("W", flow.flow()["W"], 1, W + 2 * 1448)


def test_ignored_is_silence():
    """Records that are all ignored do not hold W: the flow falls back after as many ACKs as it does
    without records, and returns only after a record that can be measured.
    """
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 1.0, 1.0))
    settle(flow, link, 60000)
    for bad in "ts", "tx", "link":
        held = flow.flow()["W"]
        before = flow.ns.counters()
        turn = 0
        # In real time some round trips may be long, so that more of them are needed.
        while turn < (14 if virtual_time() or flow.cc() != "hpcc" else 100):
            if bad == "ts":
                flow.round(link.step(-10))
            elif bad == "tx":
                flow.round(link.step(100, 400))
            else:
                link.tag = 100 + turn
                flow.round(link.step(9000, 0.5))
            if turn < 6:
                expect(f"{bad}: W, mode", (flow.flow()["W"], flow.cc()), (held, "hpcc"))
            turn += 1
        moved = flow.ns.counters() - before
        expect(f"{bad}: mode", flow.cc(), "hpcc-classic")
        expect(f"{bad}: fallbacks, returns", (moved.get("fallbacks"), moved.get("returns")),
               (1, None))
        counter = {"ts": "ts_back_ignored", "tx": "tx_excess_ignored", "link": "path_changes"}[bad]
        # In classic mode the flow ignores all records for some round trips.
        expect_in(f"{bad}: {counter}", moved[counter], 9, turn)
        link = Link(ts=link.ts + 9000)
        flow.echo(link.step(9000, 0.9))
        expect(f"{bad}: after one record", flow.cc(), "hpcc-classic")
        flow.round(link.step(9000, 0.9))
        # In real time two records may be too far apart to be measured.
        for _ in range(0 if virtual_time() else 50):
            if flow.cc() == "hpcc":
                break
            flow.round(link.step(9000, 0.9))
        expect(f"{bad}: after two", flow.cc(), "hpcc")
        flow.round(link.step(9000, 1.0, 1.0))
        now = flow.round(link.step(9000, 1.0, 1.0))["W"]
        flow.round(link.step(9000, 1.0, 1.0))
        expect(f"{bad}: W follows", flow.flow()["W"] < now, True)


def test_ignored_on_a_long_path():
    """A record that only becomes a new baseline, after 64 T, does not count as telemetry either."""
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 1.0, 1.0))
    settle(flow, link, 60000)
    for _ in range(30):
        flow.run()
        time.sleep(20e-9 * T_NS)
        flow.echo(link.step(-10))
        if flow.cc() != "hpcc":
            break
    counters = flow.ns.counters()
    expect("mode, fallbacks", (flow.cc(), counters["fallbacks"]), ("hpcc-classic", 1))
    expect_in("baselines taken anew", flow.ns.counters()["echo_received"] -
              counters["ts_back_ignored"], 3, 20)
    for _ in range(2):
        flow.round(link.step(9000, 0.9))
    expect("measured", flow.cc(), "hpcc")


def test_never_any_telemetry():
    """Both ends agreed, but no switch on the path stamps: the flow falls back after a few round
    trips.
    """
    flow = Flow()
    silence(flow, 14)
    expect("mode", flow.cc(), "hpcc-classic")
    expect("fallbacks", flow.ns.counters()["fallbacks"], 1)


def test_timeout():
    """An RTO sets W to one segment; telemetry brings W back to W_init."""
    need_virtual_time()
    flow, link, _ = timed_out()
    mss = tcp_info(flow.sock)["snd_mss"]
    expect("timeouts", flow.ns.counters()["timeouts"], 1)
    now = flow.flow()
    expect("W", now["W"], mss)
    expect("cwnd", tcp_info(flow.sock)["cwnd"], 1)
    flow.echo(link.step(9000, 0.1))     # the old baseline was void: this is the new one
    now = flow.round(link.step(9000, 0.1))
    near("W after the first measurement", now["W"], mss * ETA / 0.1 + W_AI, 0.01)
    for _ in range(2 * 6):
        now = flow.round(link.step(9000, 0.1))
    expect("W", now["W"], W_INIT)
    expect("mode", flow.cc(), "hpcc")


def test_spurious_timeout():
    """Segments that were taken for lost arrive: W returns from one segment to its value before the
    RTO.
    """
    need_virtual_time()
    flow = Flow()
    link = Link()
    flow.round(link.step(9000, 0.95))
    before = flow.round(link.step(9000, 0.95))
    first = flow.acked
    late = [seg for seg in flow.run() if seg.payload]
    stamp = flow.tsecr
    flow.acked = first
    flow.time_out()
    expect_in("W after the timeout", flow.flow()["W"], 1400, 1500)
    # The receiver has received the first transmission, and its ACKs carry the timestamp of that transmission.
    for seg in late[:4]:
        flow.tsecr = stamp
        flow.acked = (seg.seq + len(seg.payload)) & 0xffffffff
        flow.send()
    expect("undone", flow.ns.snmp("TcpExtTCPLossUndo") +
           flow.ns.snmp("TcpExtTCPSpuriousRTOs") > 0, True)
    near("W", flow.flow()["W"], before["W"])
    expect("cwnd", tcp_info(flow.sock)["cwnd"], -(-before["W"] // tcp_info(flow.sock)["snd_mss"]))
    expect("mode", flow.cc(), "hpcc")


def test_ecn():
    """Data are ECN-capable; ECE reduces Wc by 1/8, once per round trip."""
    peer = Flow(ecn=True)
    expect("SYN", peer.syn.flags & (SYN | ECE | CWR), SYN | ECE | CWR)
    link = Link()
    peer.round(link.step(9000, 0.9))
    before = peer.round(link.step(9000, 0.9))
    segments = peer.run()
    expect("ECT", {seg.ecn for seg in segments if seg.payload} <= {1, 2}, True)
    half = peer.acked - sum(len(seg.payload) for seg in segments) // 2
    peer.send(flags=ACK | ECE, ack=half)
    now = peer.flow()
    near("Wc", now["Wc"], before["Wc"] * 7 / 8)
    peer.send(flags=ACK | ECE, ack=half + 2000)
    expect("Wc after a second ECE", peer.flow()["Wc"], now["Wc"])
    expect("ecn_responses", peer.ns.counters()["ecn_responses"], 1)


def test_T_of_many_round_trips():
    """A queue that is reported in 20 round trips within one T causes two reductions of W, not 20."""
    need_virtual_time()
    flow = Flow()
    link = Link()
    for _ in range(3):
        flow.round(link.step(9000, 0.9))
    before = flow.flow()["W"]
    for _ in range(20):
        flow.run(for_s=5e-11 * T_NS)
        flow.echo(link.step(450, 1.0, 1.0))
    after = flow.flow()
    expect_in("U", after["U_permille"], 1300, 1700)
    expect_in("W", after["W"], before // 4, before * 3 // 4)


def test_ecn_beside_an_idle_link():
    """Another link marks and does not stamp: W falls in each round trip, although the stamped link
    is idle, and returns to W_init when the marks end.
    """
    need_virtual_time()
    flow = Flow(ecn=True)
    link = Link()
    flow.round(link.step(9000, 0.01))
    expect("W", flow.round(link.step(9000, 0.01))["W"], W_INIT)
    for _ in range(10):
        flow.run()
        flow.echo(link.step(9000, 0.01), flags=ACK | ECE)
    answers = flow.ns.counters()["ecn_responses"]
    expect_in("ecn_responses", answers, 5, 10)
    near("W", flow.flow()["W"], W_INIT * (7 / 8) ** answers, 0.02)
    found = [flow.round(link.step(9000, 0.01))["W"] for _ in range(7)]
    expect(f"W, of {found}", found[-1], W_INIT)


def test_loss_probe():
    """The repair of a loss by a tail loss probe does not count as ECE."""
    need_virtual_time()
    peer = Peer()
    peer.connect()
    before = peer.flow()
    peer.sock.send(bytes(5000))
    segments = peer.read_all(0.001)
    peer.acked = segments[-1].seq               # the last one is lost
    peer.send()
    expect("probe", peer.read(0.3).seq, segments[-1].seq)
    peer.acked += len(segments[-1].payload)
    peer.send()
    peer.sock.send(bytes(1000))
    peer.take()
    peer.send()
    expect("repaired", peer.ns.snmp("TcpExtTCPLossProbeRecovery"), 1)
    expect("ecn_responses", peer.ns.counters()["ecn_responses"], 0)
    expect("W, Wc", (peer.flow()["W"], peer.flow()["Wc"]), (before["W"], before["Wc"]))


def test_recovery():
    """For one round trip after a loss the flow sends at most as many segments as have left the network,
    although telemetry increases W; after recovery cwnd follows W again.
    """
    flow = Flow(max_stage=0)
    link = Link()
    flow.round(link.step(9000, 1.0, 0.9))
    flow.round(link.step(9000, 1.0, 0.9))
    before = flow.flow()
    lost = flow.acked
    segments = [seg for seg in flow.run() if seg.payload]
    in_flight = len(segments)
    expect("segments in flight", in_flight > 20, True)
    left, right = segments[0].seq + len(segments[0].payload), None
    out = 0
    # The first ACK acknowledges three segments behind the gap at once: TCP detects the loss before
    # W grows, and needs no timer for that.
    for seg in segments[3:12]:
        right = (seg.seq + len(seg.payload)) & 0xffffffff
        sack = b"\1\1\5\12" + left.to_bytes(4, "big") + right.to_bytes(4, "big")
        flow.send(sack + option(ECHO, [link.step(9000, 0.1).raw()], SCALE), ack=lost)
        while (new := flow.read(0.5e-9 * T_NS)):
            out += 1
            if new.seq == lost:
                lost_again = True
    expect("lost segment sent again", lost_again, True)
    expect_in("segments sent for 11 that arrived", out, 1, 12)
    info = tcp_info(flow.sock)
    expect("state", info["ca_state"], 3)
    expect("W grew", flow.flow()["W"] > 1.5 * before["W"], True)
    flow.acked = (segments[-1].seq + len(segments[-1].payload)) & 0xffffffff
    flow.run()
    flow.echo(link.step(9000, 0.9))
    expect("state", tcp_info(flow.sock)["ca_state"], 0)
    flow.round(link.step(9000, 0.9))
    now = flow.flow()
    expect("cwnd", tcp_info(flow.sock)["cwnd"], -(-now["W"] // info["snd_mss"]))


def test_tracepoint():
    """The tracepoint hpcc:hpcc_ack shows the values that netlink shows, for each ACK."""
    flow = Flow()
    link = Link()
    tracepoint = Tracepoint("hpcc:hpcc_ack")
    flow.round(link.step(9000, 1.0, 0.9))
    now = flow.round(link.step(9000, 1.0, 0.9))
    flow.run()
    flow.send()         # an ACK without a record causes no event
    lines = tracepoint.lines()
    expect("lines", len(lines), 2)
    fields = lines[1]
    for name in "W", "Wc", "U_permille", "T_ns", "hops":
        expect(name, int(fields[name]), now[name])
    expect("ports", (int(fields["sport"]), int(fields["dport"])), (flow.lport, flow.port))


if __name__ == "__main__":
    main(sys.modules[__name__])
