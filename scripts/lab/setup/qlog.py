# SPDX-License-Identifier: GPL-2.0
"""qlog of a flow. This file runs as a program in the sending host of a guest: python3 qlog.py CC INTERVAL_NS END NUMBER
ADDRESS. It samples the socket of connection NUMBER of this host (END: 0), or of the host with this address to this host
(1), and prints events as JSON-SEQ.
"""

import itertools
import json
import os
import socket
import struct
import sys
import time

SPORT_BASE, SPORTS, DPORT_BASE, ROUNDS = 10000, 22768, 5001, 8      # of tools/traffic/traffic.h
INTERVAL_NS = 50000     # without measure.interval at least this, because a sample takes about 1 ms of CPU time
HEAD = {"file_schema": "urn:ietf:params:qlog:file:sequential", "serialization_format": "application/qlog+json-seq",
        "qlog_version": "0.3", "qlog_format": "JSON-SEQ"}
# HPCC_A_FLOW_* and HPCC_A_HOP_* of include/uapi/linux/hpcc_netlink.h. HOP is of the hop with the largest u'.
RADDR, PORTS, HOPS = 3, (4, 5), 25
FLOW = {"U": 15, "eta": 16, "W": 12, "T_ns": 18, "inc_stage": 19, "max_stage": 34}
HOP = {"hop": 2, "hop_U": 3, "hop_queue_ns": 4}
FRACTIONS = ("U", "eta", "hop_U")       # in 2^-24


def lines(scenario, address, interval_ns):
    """The lines of a plan that start the program for each flow of measure.qlog."""
    for flow in (scenario.flows[i] for i in scenario.measure["qlog"] or ()):
        end, first = (1, scenario.flows[int(flow.connect)]) if flow.connect.isdigit() else (0, flow)
        number = sum(one.src == first.src and one.connect == "before" for one in itertools.islice(scenario.flows, first.id))
        yield (f"run {flow.src} before end - mkdir -p files/qlog; exec python3 -ISB qlog.py {flow.cc} {interval_ns} {end} {number} "
               f"{address(flow.dst)} > files/qlog/{flow.id}.sqlog")


def messages(sock, kind, payload):
    """The answers to the request for a dump, whose last message is NLMSG_DONE, or NLMSG_ERROR."""
    sock.send(struct.pack("=IHHII", 16 + len(payload), kind, 0x301, 1, 0) + payload)
    found, kind = [], 0
    while kind not in (2, 3):
        data = sock.recv(1 << 18)
        while data:
            length, kind = struct.unpack_from("=IH", data)
            found.append(data[16:length])
            data = data[length + 3 & ~3:]
    return found[:-1]


def attributes(data):
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3fff, data[4:length]
        data = data[length + 3 & ~3:]


def number(data):
    return int.from_bytes(data, sys.byteorder)


def metrics(sock, wanted):
    """TCP_INFO as the data of recovery:metrics_updated, and the number of retransmissions."""
    for family in socket.AF_INET, socket.AF_INET6:
        for answer in messages(sock, 20, struct.pack("=BBBxI48x", family, 6, 2, 0xbff)):
            info = dict(attributes(answer[72:])).get(2)
            # TIME-WAIT has no TCP_INFO.
            if not info or not wanted(struct.unpack_from("!HH", answer, 4), answer[24:40]):
                continue
            mss, unacked, sacked, lost, again = struct.unpack_from("=I4x4I", info, 16)
            rtt, var, ssthresh, cwnd = struct.unpack_from("=4I", info, 68)
            flight, least = unacked - sacked - lost + again, struct.unpack_from("=I", info, 148)[0]
            return {"min_rtt": least / 1000, "smoothed_rtt": rtt / 1000, "rtt_variance": var / 1000,
                    "congestion_window": cwnd * mss, "bytes_in_flight": flight * mss, "packets_in_flight": flight,
                    **({"ssthresh": ssthresh * mss} if ssthresh < 1 << 30 else {}),
                    "pacing_rate": 8 * struct.unpack_from("=Q", info, 104)[0]}, struct.unpack_from("=I", info, 100)[0]
    return {}, 0


def family_of(sock):
    """The number of the netlink family of hpcc, whose module this request loads; None without the family."""
    for answer in messages(sock, 16, struct.pack("=BBH", 3, 1, 0)):
        found = dict(attributes(answer[4:]))
        if found.get(2) == b"hpcc\0":
            return number(found[1])
    return None


def telemetry(sock, family, wanted):
    """What hpcc measured."""
    for answer in messages(sock, family, struct.pack("=BBH", 1, 1, 0)):
        flow = list(attributes(answer[4:]))
        found = {kind: number(value) for kind, value in flow}
        if not wanted([found[kind] for kind in PORTS], dict(flow)[RADDR]):
            continue
        hops = [{kind: number(value) for kind, value in attributes(hop)} for kind, hop in flow if kind == HOPS]
        hop = max(hops, key=lambda one: one.get(HOP["hop_U"], 0), default={})
        data = {name: found[kind] for name, kind in FLOW.items() if kind in found} | {
            name: hop[kind] for name, kind in HOP.items() if kind in hop}
        return {name: value / (1 << 24) if name in FRACTIONS else value for name, value in data.items()}
    return {}


def put(began_ns, name, data):
    text = json.dumps({"time": (time.clock_gettime_ns(time.CLOCK_REALTIME) - began_ns) / 10**6, "name": name, "data": data})
    os.write(1, f"\x1e{text}\n".encode())


def chosen(end, number, peer):
    """Return the function that finds the connection by its (local, remote) ports and remote address."""
    peer = socket.inet_pton(socket.AF_INET6 if ":" in peer else socket.AF_INET, peer)
    return lambda ports, address: (ports[end], (ports[1 - end] - DPORT_BASE) % ROUNDS, address[:len(peer)]) == (
        SPORT_BASE + number % SPORTS, number // SPORTS, peer)


def main(cc, interval_ns, end, wanted):
    """Print an event if its data have changed since the last sample."""
    with open("/proc/self/timerslack_ns", "w", encoding="ascii") as file:
        file.write("1")
    began_ns = number(os.read(0, 8))
    trace = {"vantage_point": {"type": "client" if end == 0 else "server"}, "common_fields": {
        "time_format": "relative", "reference_time": began_ns / 10**6, "protocol_type": ["TCP"]}}
    os.write(1, f"\x1e{json.dumps(HEAD | {'title': cc, 'trace': trace})}\n".encode())
    diag, generic = (socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, kind) for kind in (4, 16))
    family = family_of(generic) if cc in ("hpcc", "powertcp") else None
    before, shown, lost = {}, {}, 0
    time.sleep(max(began_ns - time.clock_gettime_ns(time.CLOCK_REALTIME), 0) / 10**9)
    while True:
        data, now = metrics(diag, wanted)
        if data and data != before:
            put(began_ns, "recovery:metrics_updated", data)
        if data and now > lost:
            put(began_ns, "recovery:packet_lost", {"header": {"packet_type": "unknown"}, "packets": now - lost})
        before, lost = data, max(lost, now)
        data = telemetry(generic, family, wanted) if family else {}
        if data and data != shown:
            put(began_ns, "hpcc:telemetry_updated", data)
        shown = data
        time.sleep(interval_ns / 10**9)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]), chosen(int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
