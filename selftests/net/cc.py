#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""kmod/hpcc/control/ack.c and law.c: W, cwnd and pacing as echoes arrive or stop, and when segments are lost."""

import time

from lib.kernel import virtual_time
from lib.ktap import cases, expect, expect_in, main, need_virtual_time
from lib.packet import (ACK, CWR, ECE, ECHO, FORWARD, IDENTIFY, IDENTIFY_ECHO, PROMPT, SYN, data_segments, identity,
                        option)
from lib.peer import (ETA, HOST_MBPS, SCALE, T_NS, T_UNITS, W_AI, W_INIT, Flow, Link, Peer, measured, narrowed, near,
                      rounds, settle, timed_out)
from lib.tcp import set_cc, tcp_info
from lib.tracepoint import Tracepoint


def test_one_reduction_a_round():
    """All ACKs of one round trip compute W from the same Wc."""
    flow, link, now = measured(2, 1.0, 0.9)
    reference, base = now["Wc"], flow.acked
    # flow.run() sends data after the last update of Wc; the ACKs below acknowledge only their first bytes.
    segments = flow.run()
    for part in range(1, 6):
        flow.echo(link.step(9000, 1.0, 0.9), ack=base + part)
        expect("Wc", flow.flow()["Wc"], reference if part > 1 else flow.flow()["Wc"])
        reference = flow.flow()["Wc"]
    expect("data in flight", len(segments) > 5, True)


def test_once_in_a_round_trip():
    """With per_rtt=1, W changes only when Wc changes. With per_rtt=0, W follows each record."""
    for per_rtt in 1, 0:
        flow, link, _ = measured(3, 1.0, 0.9, per_rtt=per_rtt)
        base, differ = flow.acked, False
        flow.run()
        for part in range(1, 6):
            flow.echo(link.step(9000, 1.0, 0.9), ack=base + part)
            now = flow.flow()
            differ |= now["W"] != now["Wc"]
        expect("W differed from Wc", differ, not per_rtt)


def test_T_from_rtt():
    """With base_rtt_ns 0, T is the smallest RTT, and W_init is computed from it."""
    need_virtual_time()
    peer = Peer(base_rtt_ns=0, start_rtt_ns=5000000)
    peer.start_connect()
    time.sleep(0.002)
    peer.answer()
    expect_in("T", peer.flow()["T_ns"], 2000000, 2100000)
    expect_in("W", peer.flow()["W"], 250000, 262500)
    one_way(peer, 1000, 0.001)
    now = peer.flow()
    expect_in("T", now["T_ns"], 1000000, 1100000)
    expect_in("W", now["W"], 125000, 137500)
    near("R", peer.rate(), 125000000)
    one_way(peer, 1000, 0.003)
    expect("T", peer.flow()["T_ns"], now["T_ns"])


def test_parameters():
    """n_flows, w_ai, eta_permille and host_mbps change W as specified."""
    for how, growth in (({"n_flows": 10}, W_INIT * 0.05 / 10), ({"w_ai": 777}, 777),
                        ({"eta_permille": 900}, W_INIT * 0.1 / 100)):
        _, link, now = measured(2, 1.0, 0.9, **how)
        eta = how.get("eta_permille", 950) / 1000
        near(f"W with {how}", now["W"], W_INIT / ((1.0 + link.u) / eta) + growth, 0.0005)
    expect("W with twice the rate", Flow(host_mbps=2 * HOST_MBPS).flow()["W"], 2 * W_INIT)


def test_parameters_read_once():
    """A connection keeps the parameters that it was established with."""
    flow, link, _ = measured(1, 1.0, 0.9)
    for name, value in (("n_flows", 1), ("slots", 1), ("host_mbps", 10)):
        flow.ns.sysctl("net.hpcc." + name, value)
    now = flow.round(link.step(9000, 1.0, 0.9))
    near("W", now["W"], W_INIT / ((1.0 + link.u) / ETA) + W_AI, 0.0005)


def hops_of(count):
    """Return a flow, and the links of its path."""
    return Flow(), [Link(hop, tag=hop) for hop in range(1, count + 1)]


def load(flow, links, *shares, units=9000, **how):
    """Run a round trip in which each link has a given utilization. Return the flow."""
    return flow.round(*[link.step(units, share) for link, share in zip(links, shares)], **how)


def test_not_too_soon():
    """On a path of several hops, a record less than T/8 after the last used one is skipped: two packets are no load."""
    flow, links = hops_of(2)
    for _ in range(2):
        load(flow, links, 0.5, 0.5)
    for _ in range(3):
        expect_in("U", load(flow, links, 3.0, 3.0, units=300)["U_permille"], 499, 501)
    now = load(flow, links, 0.1, 0.1)               # the interval includes the skipped records
    expect_in("U", now["U_permille"], 361, 366)     # (900 x 3 + 9000 x 0.1) / 9900
    single, link, _ = measured(2, 0.5)
    now = single.round(link.step(300, 3.0))
    expect_in("U", now["U_permille"], 590, 602)     # 0.5 + (3 - 0.5) x 300 / T


def test_shorter_path():
    """Hops beyond the end of a path that became shorter do not count any more."""
    flow, links = hops_of(2)
    load(flow, links, 0.2, 0.2)
    load(flow, links, 0.3, 0.9)
    now = load(flow, links[:1], 0.3, hops=1)
    expect_in("U", now["U_permille"], 299, 301)
    expect("hops", now["hops"], 1)


@cases(path_change=(2, 0), path_change_in_a_pause=(10, 100e-9 * T_NS))
def path_changes(turns, pause_s):
    """A different tag at a hop means another link: a new baseline is set, and the identity of the link is requested."""
    flow = Flow()
    flow.ns.ask()
    before = rounds(turns, flow, Link(), 0.5)
    sent, other = flow.ns.counters()["identify_sent"], Link(tag=2, ts=99, tx=500000)
    flow.run()
    time.sleep(pause_s)
    flow.echo(other)
    now = flow.flow()
    expect("W, U", (now["W"], now["U_permille"]), (before["W"], before["U_permille"]))
    expect("path_changes", flow.ns.counters()["path_changes"], 1)
    expect_in("U", flow.round(other.step(9000, 0.7))["U_permille"], 699, 701)
    rounds(8, flow, other, 0.7)
    expect("the identity is requested again", flow.ns.counters()["identify_sent"] > sent, True)


def one_way(peer, nbytes, delay_s=0):
    """Let the kernel send these bytes, and acknowledge them after a time."""
    peer.sock.send(bytes(nbytes))
    peer.take()
    time.sleep(delay_s)
    peer.send()


def test_reordered_echoes():
    """Echoes that arrive while nothing is in flight are stored, and the newest record of each link is kept."""
    peer, link = Peer().connected(), Link()
    echoes = [option(ECHO, [link.step(9000, share).raw()], SCALE) for share in (0, 0.5, 0.9)]
    for number, raw in enumerate(echoes[:1] + echoes[:0:-1]):
        peer.send(raw)
        if not number:      # the baseline is taken at once
            one_way(peer, 100)
    one_way(peer, 100)
    expect_in("U", peer.flow()["U_permille"], 699, 701)     # over both steps
    expect("ts_back_ignored", peer.ns.counters()["ts_back_ignored"], 0)


def test_counters_wrap():
    """The 20-bit counters ts and tx wrap: U stays correct, and no record is ignored."""
    flow, link = Flow(), Link(ts=(1 << 20) - 20000, tx=(1 << 20) - 13000)
    flow.round(link.step(9000, 0.6))
    for _ in range(6):
        now = flow.round(link.step(9000, 0.6))
        expect_in("U", now["U_permille"], 599, 601)
    counters = flow.ns.counters()
    expect("ts_back_ignored, tx_excess_ignored", (counters["ts_back_ignored"], counters["tx_excess_ignored"]), (0, 0))


def test_old_baseline():
    """After 64 T without a record, the next record is only a new baseline."""
    flow, link, before = measured(2, 0.5)
    flow.run()
    time.sleep(100e-9 * T_NS)
    link.ts += 781250 + 300000      # beyond a wrap
    flow.echo(link)
    now = flow.flow()
    expect("W, U", (now["W"], now["U_permille"]), (before["W"], before["U_permille"]))
    expect_in("U", flow.round(link.step(9000, 0.7))["U_permille"], 699, 701)


def test_stood_still():
    """A record that is stamped after records were delayed for 100 T becomes a new baseline."""
    # It looks older than the delayed records, because 64 T are half the range of a 20-bit counter.
    flow, link, _ = measured(2, 0.5)
    flow.run()
    waiting = link.step(9000, 0.5).raw()
    time.sleep(100e-9 * T_NS)
    flow.send(option(ECHO, [waiting], SCALE, 1))
    flow.round(link.step(9000 + int(100 * T_UNITS), 0.005))
    expect_in("U", flow.round(link.step(9000, 0.9))["U_permille"], 899, 901)
    counters = flow.ns.counters()
    expect("ts_back_ignored, tx_excess_ignored", (counters["ts_back_ignored"], counters["tx_excess_ignored"]), (0, 0))
    expect("congestion control, fallbacks", (flow.cc(), counters["fallbacks"]), ("hpcc", 0))


def forwards(segments):
    """Return the FORWARD and IDENTIFY options of segments."""
    return [opt for seg in segments for opt in seg.ours() if opt.type in (FORWARD, IDENTIFY)]


def test_prompt_flag():
    """PROMPT is set while the window is small, and clear while it is large."""
    flow, link, _ = measured(1, 1.0, 0.0)
    expect("flags", {opt.flags for opt in forwards(flow.run())}, {0})
    settle(flow, link, 5000)
    expect_in("cwnd", tcp_info(flow.sock)["cwnd"], 1, 7)
    flow.round(link.step(9000, 1.0, 1.0))
    segments = flow.run()
    expect("segments, flags", (len(segments) > 0, {opt.flags for opt in forwards(segments)}), (True, {PROMPT}))


def test_phases():
    """With seven hops and three slots, three phases are requested in turn, each equally often."""
    flow, links = hops_of(3)
    load(flow, links, 0.9, 0.9, 0.9, hops=7)
    phases = []
    for _ in range(4):
        phases += [opt.flags & 7 for opt in forwards(flow.run()) if opt.type == FORWARD]
        flow.echo(*[link.step(9000, 0.9) for link in links], hops=7)
    expect("phases", set(phases), {0, 1, 2})
    for phase in range(3):
        expect_in(f"share of phase {phase}", phases.count(phase) / len(phases), 0.28, 0.39)


def test_identify():
    """IDENTIFY is sent after the first echo, while a program requests identities; the answers are shown."""
    flow, links = hops_of(3)
    flow.ns.ask()
    expect("types of options before the first echo", {opt.type for opt in forwards(flow.run())}, {FORWARD})
    flow.echo(*[link.step(9000, 0.9) for link in links], hops=7)
    phases = []
    for _ in range(4):
        phases += [opt.flags & 7 for opt in forwards(flow.run()) if opt.type == IDENTIFY]
        flow.echo(*[link.step(9000, 0.9) for link in links], hops=7)
    # One GSO packet is segmented into segments with one option each.
    expect("phases, different shares", (set(phases), len({phases.count(phase) for phase in range(3)})), ({0, 1, 2}, 1))
    expect("identify_sent", flow.ns.counters()["identify_sent"], 6)
    flow.run()
    flow.send(option(IDENTIFY_ECHO, [identity(1, 7, 2, 10000, 1), identity(2, 0xfffff, 0xffff, 40, 2),
                                     identity(7, 1, 0, 5, 0)], SCALE, 7))
    expect("links", flow.ns.links(), {1: (7, 2, 10000000000), 2: (0xfffff, 0xffff, 40000000000), 7: (1, 0, 5000)})


def test_identify_on_demand():
    """A flow sends IDENTIFY after a program's request until the request expires; a later request works again."""
    flow, link = Flow(), Link()

    def sent():
        before = flow.ns.counters()["identify_sent"]
        rounds(12, flow, link, 0.9)
        return flow.ns.counters()["identify_sent"] - before

    def named():
        return flow.ns.dump()[0]["hop"][0].get("node")

    expect("requests before a program asks", sent(), 0)
    # An unrequested IDENTIFY_ECHO: its identities are not kept.
    flow.send(option(IDENTIFY_ECHO, [identity(1, 9, 9, 10, 1)], SCALE, 1))
    flow.ns.ask()
    # At least two: unanswered requests become less frequent.
    expect_in("requests", sent(), 2, 10)
    flow.send(option(IDENTIFY_ECHO, [identity(1, 7, 2, 10, 1)], SCALE, 1))
    expect("requests after the answer, links", (sent(), flow.ns.links()), (0, {1: (7, 2, 10000000)}))
    time.sleep(6)
    flow.ns.ask()
    time.sleep(6)
    expect("node, 6 s after the second request of a program", named(), 7)
    time.sleep(5)
    expect("node and requests after the program's request expired", (named(), sent()), (None, 0))
    flow.ns.ask()
    expect_in("requests after a later request of a program", sent(), 2, 10)
    expect("links after the identities expired", flow.ns.links(), {})


def silence(flow, turns=12):
    """Run round trips without telemetry."""
    for _ in range(turns):
        if not flow.run():
            break
        flow.send()


def runs(flow):
    """Return the congestion control and the mode."""
    return flow.cc(), flow.flow()["mode"]


TELEMETRY, CLASSIC = ("hpcc", "telemetry"), ("hpcc-classic", "classic")


def test_fallback_and_return():
    flow = Flow()
    flow.ns.ask()
    link = Link()
    flow.round(link.step(9000, 1.0, 1.0))
    settle(flow, link, 60000)
    expect("mode", runs(flow), TELEMETRY)
    silence(flow, 6)
    expect("congestion control after six ACKs without telemetry", flow.cc(), "hpcc")
    silence(flow)
    expect("mode, fallbacks", (runs(flow), flow.ns.counters()["fallbacks"]), (CLASSIC, 1))
    cwnd = tcp_info(flow.sock)["cwnd"]
    silence(flow, 5)
    expect_in("cwnd", tcp_info(flow.sock)["cwnd"], cwnd, cwnd + 8)
    expect("requests in classic mode", FORWARD in {opt.type for opt in forwards(flow.run())}, True)
    identify_sent = flow.ns.counters()["identify_sent"]
    flow.echo(link.step(9000, 0.9))
    expect("mode, returns", (runs(flow), flow.ns.counters()["returns"]), (TELEMETRY, 1))
    now = rounds(2, flow, link, 1.0, 1.0)
    expect("W follows again", now["W"] < cwnd * 1448, True)
    expect("identities requested", flow.ns.counters()["identify_sent"] > identify_sent, True)
    silence(flow, 14)
    expect("fallbacks", flow.ns.counters()["fallbacks"], 2)


def test_set_again():
    """If a socket in classic mode selects hpcc again, it stays in classic mode, with the same cwnd."""
    for names in (["hpcc"], ["cubic", "hpcc"]):
        flow, link, _ = narrowed(60000)
        silence(flow)
        expect("congestion control before", flow.cc(), "hpcc-classic")
        cwnd = tcp_info(flow.sock)["cwnd"]
        flow.run()
        for name in names:
            set_cc(flow.sock, name)
        expect("mode, cwnd after hpcc is selected again", (runs(flow), tcp_info(flow.sock)["cwnd"]), (CLASSIC, cwnd))
        expect("segments sent at once", data_segments(flow.run()), [])
        rounds(2, flow, link, 0.9)
        expect("mode after a round trip", runs(flow), TELEMETRY)
        expect_in("W", flow.flow()["W"], 1, (cwnd + 8) * 1448)


def test_set_again_without_fallback():
    """A socket that leaves hpcc and returns continues with telemetry and with its window."""
    flow, _, before = narrowed(60000)
    flow.run()
    for name in "cubic", "hpcc":
        set_cc(flow.sock, name)
    expect("mode", flow.cc(), "hpcc")
    expect_in("W", flow.flow()["W"], 1, before["W"] + 2 * 1448)


def test_ignored_is_silence():
    """If all records are ignored, W is not kept: the flow falls back, and returns after a usable record."""
    flow, link, _ = narrowed(60000)
    for bad, counter in ("ts", "ts_back_ignored"), ("tx", "tx_excess_ignored"), ("link", "path_changes"):
        first_w, before, turn = flow.flow()["W"], flow.ns.counters(), 0
        # In real time some round trips may be long, so more round trips are needed.
        while turn < (14 if virtual_time() or flow.cc() != "hpcc" else 100):
            if bad == "link":
                link.tag = 100 + turn
            flow.round(link.step(*{"ts": (-10,), "tx": (100, 400), "link": (9000, 0.5)}[bad]))
            if turn < 6:
                expect(f"{bad}: W, mode", (flow.flow()["W"], flow.cc()), (first_w, "hpcc"))
            turn += 1
        moved = flow.ns.counters() - before
        expect(f"{bad}: mode, fallbacks, returns", (flow.cc(), moved.get("fallbacks"), moved.get("returns")),
               ("hpcc-classic", 1, None))
        # In classic mode the flow ignores all records for some round trips.
        expect_in(f"{bad}: {counter}", moved[counter], 9, turn)
        link = Link(ts=link.ts + 9000)
        flow.echo(link.step(9000, 0.9))
        expect(f"{bad}: congestion control after one record", flow.cc(), "hpcc-classic")
        flow.round(link.step(9000, 0.9))
        # In real time two records may be too far apart to be measured.
        for _ in range(0 if virtual_time() else 50):
            if flow.cc() == "hpcc":
                break
            flow.round(link.step(9000, 0.9))
        expect(f"{bad}: congestion control after two records", flow.cc(), "hpcc")
        now = rounds(2, flow, link, 1.0, 1.0)["W"]
        expect(f"{bad}: W follows", flow.round(link.step(9000, 1.0, 1.0))["W"] < now, True)


def test_ignored_on_a_long_path():
    """A record that only becomes a new baseline, after 64 T, does not count as telemetry either."""
    flow, link, _ = narrowed(60000)
    for _ in range(30):
        flow.run()
        time.sleep(20e-9 * T_NS)
        flow.echo(link.step(-10))
        if flow.cc() != "hpcc":
            break
    counters = flow.ns.counters()
    expect("mode, fallbacks", (flow.cc(), counters["fallbacks"]), ("hpcc-classic", 1))
    expect_in("new baselines", counters["echo_received"] - counters["ts_back_ignored"], 3, 20)
    rounds(2, flow, link, 0.9)
    expect("congestion control after a measurement", flow.cc(), "hpcc")


def test_never_any_telemetry():
    """Both ends agreed, but no switch on the path stamps: the flow falls back after a few round trips."""
    flow = Flow()
    silence(flow, 14)
    expect("mode, fallbacks", (flow.cc(), flow.ns.counters()["fallbacks"]), ("hpcc-classic", 1))


def test_timeout():
    """An RTO sets W to one segment; telemetry then restores W_init."""
    need_virtual_time()
    flow, link, _ = timed_out()
    mss = tcp_info(flow.sock)["snd_mss"]
    expect("timeouts, W, cwnd", (flow.ns.counters()["timeouts"], flow.flow()["W"], tcp_info(flow.sock)["cwnd"]),
           (1, mss, 1))
    flow.echo(link.step(9000, 0.1))     # the old baseline was void: this record is the new one
    now = flow.round(link.step(9000, 0.1))
    near("W after the first measurement", now["W"], mss * ETA / 0.1 + W_AI, 0.01)
    now = rounds(2 * 6, flow, link, 0.1)
    expect("W, mode", (now["W"], flow.cc()), (W_INIT, "hpcc"))


def test_spurious_timeout():
    """Segments that were considered lost arrive: W returns from one segment to its value before the RTO."""
    need_virtual_time()
    flow, _, before = measured(2, 0.95)
    first = flow.acked
    late = data_segments(flow.run())
    stamp, flow.acked = flow.tsecr, first
    flow.time_out()
    expect_in("W after the timeout", flow.flow()["W"], 1400, 1500)
    # The receiver has received the first transmission, and its ACKs carry the timestamp of that transmission.
    for seg in late[:4]:
        flow.tsecr, flow.acked = stamp, (seg.seq + len(seg.payload)) & 0xffffffff
        flow.send()
    expect("TCP undid the RTO", flow.ns.snmp("TcpExtTCPLossUndo") + flow.ns.snmp("TcpExtTCPSpuriousRTOs") > 0, True)
    near("W", flow.flow()["W"], before["W"])
    expect("cwnd", tcp_info(flow.sock)["cwnd"], -(-before["W"] // tcp_info(flow.sock)["snd_mss"]))
    expect("mode", flow.cc(), "hpcc")


def test_ecn():
    """Data are ECN-capable; ECE reduces Wc by 1/8, once per round trip."""
    peer, _, before = measured(2, 0.9, ecn=True)
    expect("SYN", peer.syn.flags & (SYN | ECE | CWR), SYN | ECE | CWR)
    segments = data_segments(peer.run())
    expect("ECT", {seg.ecn for seg in segments} <= {1, 2}, True)
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
    flow, link, before = measured(3, 0.9)
    for _ in range(20):
        flow.run(for_s=5e-11 * T_NS)
        flow.echo(link.step(450, 1.0, 1.0))
    after = flow.flow()
    expect_in("U", after["U_permille"], 1300, 1700)
    expect_in("W", after["W"], before["W"] // 4, before["W"] * 3 // 4)


def test_ecn_beside_an_idle_link():
    """Another link marks and does not stamp: W falls in each round trip, and returns to W_init afterwards."""
    need_virtual_time()
    flow, link, before = measured(2, 0.01, ecn=True)
    expect("W", before["W"], W_INIT)
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
    peer = Peer().connected()
    before = peer.flow()
    peer.sock.send(bytes(5000))
    last = peer.read_all(0.001)[-1]             # is lost
    peer.acked = last.seq
    peer.send()
    expect("probe", peer.read(0.3).seq, last.seq)
    peer.acked += len(last.payload)
    peer.send()
    one_way(peer, 1000)
    expect("repaired, ecn_responses", (peer.ns.snmp("TcpExtTCPLossProbeRecovery"),
                                       peer.ns.counters()["ecn_responses"]), (1, 0))
    expect("W, Wc", (peer.flow()["W"], peer.flow()["Wc"]), (before["W"], before["Wc"]))


def test_recovery():
    """For one round trip after a loss the flow sends no more segments than have arrived, although W grows."""
    flow, link, before = measured(2, 1.0, 0.9, max_stage=0)
    lost = flow.acked
    segments = data_segments(flow.run())
    expect("segments in flight", len(segments) > 20, True)
    left, out, lost_again = segments[0].seq + len(segments[0].payload), 0, False
    # The first ACK acknowledges three segments behind the gap at once: TCP detects the loss before
    # W grows, and needs no timer for that.
    for seg in segments[3:12]:
        right = (seg.seq + len(seg.payload)) & 0xffffffff
        sack = b"\1\1\5\12" + left.to_bytes(4, "big") + right.to_bytes(4, "big")
        flow.send(sack + option(ECHO, [link.step(1500, 0.1).raw()], SCALE), ack=lost)
        while (new := flow.read(0.5e-9 * T_NS)):
            out += 1
            lost_again |= new.seq == lost
    expect("lost segment sent again", lost_again, True)
    expect_in("segments sent for 11 that arrived", out, 1, 12)
    info = tcp_info(flow.sock)
    expect("state, W grew", (info["ca_state"], flow.flow()["W"] > 1.5 * before["W"]), (3, True))
    flow.acked = (segments[-1].seq + len(segments[-1].payload)) & 0xffffffff
    flow.run()
    flow.echo(link.step(9000, 0.9))
    expect("state", tcp_info(flow.sock)["ca_state"], 0)
    now = flow.round(link.step(9000, 0.9))
    expect("cwnd after recovery", tcp_info(flow.sock)["cwnd"], -(-now["W"] // info["snd_mss"]))


def test_tracepoint():
    """The tracepoint hpcc:hpcc_ack shows the values that netlink shows, for each ACK."""
    flow, link = Flow(), Link()
    tracepoint = Tracepoint("hpcc:hpcc_ack")
    now = rounds(2, flow, link, 1.0, 0.9)
    flow.run()
    flow.send()         # an ACK without a record causes no event
    lines = tracepoint.lines()
    expect("lines of the tracepoint", len(lines), 2)
    fields = lines[1]
    for name in "W", "Wc", "U_permille", "T_ns", "hops":
        expect(name, int(fields[name]), now[name])
    expect("ports", (int(fields["sport"]), int(fields["dport"])), (flow.lport, flow.port))


main()
