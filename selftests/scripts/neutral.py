# SPDX-License-Identifier: GPL-2.0
"""Load the named modules, if any. Then send data over connections of cubic, reno,
dctcp and bbr, and print each segment, and the duration of each scenario. Values that
are random for each connection are removed: initial sequence numbers, timestamps,
identifications, flow labels, and checksums over them.

bbr starts to probe for bandwidth in one of seven phases, which it selects at random.
If several bbr connections share a bottleneck, no two runs are equal. If there is only
one bbr connection, seven different outputs are possible. With --like FILE this scenario
is repeated until its output is the same as in FILE, the output of another run: on
average seven times.
"""

import argparse
import contextlib
import hashlib
import io
import socket
import subprocess
import time
from pathlib import Path

from lib.net import Netns, Pair
from lib.packet import Sniffer
from lib.tcp import pattern, transfer

SYN = 2
TIMESTAMPS = 8
# Kind of the SACK option in hexadecimal digits; two digits of its length follow.
SACK = "05"


def option_words(segment):
    words = []
    for kind, body in segment.walk():
        if kind == TIMESTAMPS:
            words.append((int.from_bytes(body[2:6], "big"), int.from_bytes(body[6:10], "big")))
        else:
            words.append(body.hex())
    return words


def ip_header(segment, first_ident):
    """Return the bytes of the IP header, without random values and checksum."""
    header = bytearray(segment.packet[:segment.at])
    if segment.version == 4:
        ident = int.from_bytes(header[4:6], "big")
        if ident or not segment.flags & SYN:        # a SYN-ACK has no identification
            ident -= first_ident.setdefault((segment.sport, segment.dport), ident)
        header[4:6] = (ident % 2**16).to_bytes(2, "big")
        header[10:12] = bytes(2)
    else:
        header[1:4] = bytes((header[1] & 0xf0, 0, 0))
    return header.hex()


def relative(segments):
    """Yield a line for each segment, with all of its fields except random values."""
    first_seq, first_stamp, first_ident = {}, {}, {}
    for seg in segments:
        mine, peer = (seg.sport, seg.dport), (seg.dport, seg.sport)
        first_seq.setdefault(mine, seg.seq)
        options = []
        for word in option_words(seg):
            if isinstance(word, tuple):
                first_stamp.setdefault(mine, word[0])
                word = (f"ts:{(word[0] - first_stamp[mine]) % 2**32}:"
                        f"{(word[1] - first_stamp.get(peer, word[1])) % 2**32}")
            elif word.startswith(SACK):
                edges = bytes.fromhex(word[4:])
                word = "sack:" + ":".join(
                    str((int.from_bytes(edges[at:at + 4], "big") - first_seq.get(peer, 0)) % 2**32)
                    for at in range(0, len(edges), 4))
            options.append(word)
        ack = (seg.ack - first_seq.get(peer, seg.ack)) % 2**32
        yield (f"{ip_header(seg, first_ident)} {seg.sport} {seg.dport} flags {seg.flags:#x} "
               f"win {seg.win} seq {(seg.seq - first_seq[mine]) % 2**32} ack {ack} "
               f"{' '.join(options)} header {seg.header} ecn {seg.ecn} len {len(seg.payload)} "
               f"data {hashlib.sha256(seg.payload).hexdigest()[:16]}")


class Switched(Pair):
    """Hosts c and s with a switch between them. The port of the switch to s has 1 Gb/s and
    a queue of 60 packets. A full queue drops packets, and a queue of 200 us or more marks
    ECN-capable packets. Neither depends on random numbers.
    """

    def __init__(self, version):
        super().__init__(version, cc=("cubic", "cubic"), delay="250us")
        self.switch = Netns()
        self.c.ip(f"link set eth0 netns {self.switch.path} name port0",
                  f"link add eth0 type veth peer name port1 netns {self.switch.path}")
        self.c.ip(f"addr add {self.addr[0]}/{24 if version == 4 else 64} dev eth0", "link set eth0 up")
        self.switch.ip("link add br0 type bridge", "link set br0 up",
                       "link set port0 master br0 up", "link set port1 master br0 up")
        self.switch.tc("qdisc replace dev port0 root handle 1: tbf rate 1gbit burst 10k limit 1mb",
                       "qdisc add dev port0 parent 1: fq_codel flows 1 limit 60 drop_batch 1 ecn "
                       "ce_threshold 200us target 50ms interval 1s")


def one_after_the_other(pair, cc, count, nbytes):
    """Transfer data over connections that start 2 ms apart, while earlier connections send."""
    listener = pair.listen(cc=cc)
    ways = []
    for i in range(count):
        client, server = pair.connect(listener, cc, lport=40000 + i)
        ways += [(client, server, pattern(nbytes, i)), (server, client, pattern(nbytes // 10, i))]
        client.send(ways[-2][2][:60000])
        ways[-2] = (client, server, ways[-2][2][60000:])
        server.recv(60000, socket.MSG_WAITALL)
        time.sleep(0.002)
    transfer(*ways)


def scenario(name, version, cc, count, congested):
    """Run a scenario. Print all segments that the receiver gets and sends."""
    pair = Switched(version) if congested else Pair(version, cc=("cubic", "cubic"), delay="500us")
    sniffer = Sniffer(pair.s)
    # A sleep that ends at a tick may end with the tick, or 50 us later (timer slack). So
    # start between two ticks. The load of the host moves this wake-up by some ns, but no
    # timer of the scenario. So measure the duration from the full second.
    time.sleep(2.0002 - time.monotonic() % 1)
    second_ns = time.monotonic_ns() // 10**9 * 10**9
    one_after_the_other(pair, cc, count, (4 if congested else 1) * 1000000 // count)
    took_ns = time.monotonic_ns() - second_ns
    print(f"scenario {name}\ntook {took_ns} ns")
    for line in relative(sniffer.segments()):
        print(line)


def until_like(lines, name, *args):
    """Run a scenario until its segments are the same as in these lines, and print it. The last attempt is printed in
    any case. Seven traces are equally likely: all attempts fail once in 200,000 times.
    """
    start = lines.index(f"scenario {name}") + 2
    for _ in range(80):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            scenario(name, *args)
        segments = output.getvalue().splitlines()[2:]
        if lines[start:start + len(segments)] == segments:
            break
    print(output.getvalue(), end="")


def run(modules, like):
    """Print the segments of all scenarios."""
    for module in modules:
        subprocess.run(["insmod", module], check=True)
    for version in 4, 6:
        for cc in "cubic", "reno", "dctcp":
            scenario(f"{cc}, IPv{version}, alone", version, cc, 1, False)
            scenario(f"{cc}, IPv{version}, four at a bottleneck", version, cc, 4, True)
        scenario(f"bbr, IPv{version}, alone", version, "bbr", 1, False)
    one = ("bbr, IPv4, one at a bottleneck", 4, "bbr", 1, True)
    if like:
        until_like(Path(like).read_text(encoding="utf-8").splitlines(), *one)
    else:
        scenario(*one)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--like")
    parser.add_argument("module", nargs="*")
    args = parser.parse_args()
    run(args.module, args.like)


if __name__ == "__main__":
    main()
