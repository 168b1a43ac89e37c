# SPDX-License-Identifier: GPL-2.0
"""Hosts around a switch whose port has classes, for the qdisc "hpcc" as a leaf of a classful qdisc."""

import ctypes
import socket
import time

from .ktap import need_virtual_time
from .net import Netns, meet
from .tcp import set_cc

PACKET = 1538           # bytes on the link
# Parents with two classes, 10:1 and 10:2, for rates of 1:3. {one}, {other}: these rates; {link}: the link's.
DRR = ("drr", "class add dev out parent 10: classid 10:1 drr quantum 1514",
       "class add dev out parent 10: classid 10:2 drr quantum 4542")
ETS = "ets bands 2 quanta 1514 4542",
HFSC = ("hfsc", "class add dev out parent 10: classid 10:1 hfsc sc rate {one}bit ul rate {link}bit",
        "class add dev out parent 10: classid 10:2 hfsc sc rate {other}bit ul rate {link}bit")
HTB = ("htb", "class add dev out parent 10: classid 10:9 htb rate {link}bit burst 10k cburst 10k quantum 1514",
       "class add dev out parent 10:9 classid 10:1 htb rate {one}bit ceil {link}bit burst 2k cburst 2k quantum 1514",
       "class add dev out parent 10:9 classid 10:2 htb rate {other}bit ceil {link}bit burst 5k cburst 5k quantum 4542")
PRIO = "prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
TIMERSLACK, SO_SNDBUFFORCE, SO_RCVBUFFORCE = 29, 32, 33


class Star:
    """Hosts a, c (senders) and b (receiver) around a bridge. Class 10:1 has the packets of a, 10:2 those of c."""

    # The T that a handshake measures is up to 1 us below the RTT of an idle path, and so is W_init.
    def __init__(self, parent, first="class {one}bit", second="class {other}bit", mbps=10000, delay="5us",
                 base_rtt_ns=22500, **sysctls):
        if mbps > 1000:
            need_virtual_time()
        self.bps, self.link = mbps * 10 ** 6, f"rate {mbps}mbit delay {delay} nostamp"
        self.rates = {"link": self.bps, "one": self.bps // 4, "other": self.bps * 3 // 4}
        self.sysctls = {"base_rtt_ns": base_rtt_ns, **sysctls}
        self.switch = Netns()
        self.switch.ip("link add br0 type bridge", "link set br0 up")
        self.hosts = [self.host(number) for number in range(3)]
        self.a, self.c, self.b = self.hosts
        self.switch.tc(f"qdisc add dev out root handle 1: hpcc {self.link} limit 8mb",
                       f"qdisc add dev out parent 1:1 handle 10: {parent[0]}",
                       *(line.format(**self.rates) for line in parent[1:]))
        for number, options in enumerate((first, second), 1):
            self.leaf(number, options)
        for number in 1, 2:
            self.switch.tc(f"filter add dev out parent 10: protocol ip prio {number} flower "
                           f"src_ip 10.0.0.{number} classid 10:{number}")
        self.switch.tc("filter add dev out parent 10: protocol all prio 3 matchall classid 10:2")

    def host(self, number):
        ns, dev = Netns(**self.sysctls), "out" if number == 2 else f"in{number}"
        self.switch.ip(f"link add {dev} type veth peer name eth0 netns {ns.path}", f"link set {dev} master br0 up")
        ns.ip(f"addr add 10.0.0.{number + 1}/24 dev eth0", "link set eth0 up")
        ns.sysctl("net.ipv4.tcp_congestion_control", "hpcc")
        ns.tc(f"qdisc add dev eth0 root hpcc {self.link}")
        if number < 2:
            self.switch.tc(f"qdisc add dev {dev} root hpcc {self.link.replace('nostamp', 'node 2')}")
        return ns

    def leaf(self, number, options, verb="add", handle=""):
        """Add or change the qdisc of a class."""
        self.switch.tc(f"qdisc {verb} dev out parent 10:{number} handle {handle or 2 * number + 18}: hpcc "
                       f"node 1 {options.format(**self.rates)}")

    def leaves(self):
        """Return the statistics of the leaves by parent."""
        return {qdisc["parent"]: qdisc for qdisc in self.switch.qdiscs("out")
                if qdisc.get("parent", "").startswith("10:") and qdisc["kind"] == "hpcc"}

    def connect(self, host, cc="hpcc", port=5000):
        client, listener = host.socket(), self.b.socket()
        set_cc(client, cc)
        for sock in client, listener:
            sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)
            sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        ends = meet(client, self.b.listen("10.0.0.3", port, listener))
        ends[0].send(b"x")
        ends[1].recv(1)
        for sock in ends:
            sock.setblocking(False)
        time.sleep(0.01)
        return ends


def pump(seconds, *flows, step=0.0001, each=None):
    """Send as much as possible on connections, and call each() in each step."""
    ctypes.CDLL(None).prctl(TIMERSLACK, 1)
    chunk, end = bytes(1 << 20), time.monotonic() + seconds
    while time.monotonic() < end:
        if each:
            each()
        for client, server in flows:
            try:
                client.send(chunk)
            except BlockingIOError:
                pass
            try:
                server.recv(4 << 20)
            except BlockingIOError:
                pass
        time.sleep(step)


def percentile(before, after, share):
    """Return the queue that this share of the packets between two statistics did not exceed, bytes."""
    was = {bucket["bytes"]: bucket["packets"] for bucket in before["hist"]}
    found = [(bucket["bytes"], bucket["packets"] - was.get(bucket["bytes"], 0)) for bucket in after["hist"]]
    rank = sum(packets for _, packets in found) * share
    for length, packets in found:
        rank -= packets
        if rank <= 0:
            return length
    return 0


def shares(star, *flows, warm=0.02, seconds=0.02, step=0.0001, each=None):
    """Return by class: its share of the link in `seconds`, and p99 of its queue in packets."""
    pump(warm, *flows, step=step, each=each)
    before, start = star.leaves(), time.monotonic()
    pump(seconds, *flows, step=step, each=each)
    after, passed = star.leaves(), time.monotonic() - start
    found = {name: ((after[name]["hpcc"]["tx_bytes"] - before[name]["hpcc"]["tx_bytes"]) * 8 / passed / star.bps,
                    percentile(before[name]["hpcc"], after[name]["hpcc"], 0.99) / PACKET) for name in after}
    for name, (share, queue) in found.items():
        print(f"# {name}: {share:.3f} of the link, p99 queue {queue:.1f} packets")
    return found
