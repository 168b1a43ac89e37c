# SPDX-License-Identifier: GPL-2.0
"""Load the modules that are named, if any; then send data over a connection of
cubic and print each segment of it, with its time. What is drawn at random
for a connection is taken off: initial sequence numbers and timestamps, and the
checksums with them.
"""

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "net"))

# pylint: disable=wrong-import-position
from hpcc_net import Pair, Sniffer, pattern, transfer  # noqa: E402

TIMESTAMPS = 8


def option_words(segment):
    """Its options; timestamps as numbers."""
    words = []
    for kind, body in segment.walk():
        if kind == TIMESTAMPS:
            words.append((int.from_bytes(body[2:6], "big"), int.from_bytes(body[6:10], "big")))
        else:
            words.append(body.hex())
    return words


def relative(segments):
    """Lines that say all of a segment but what is random."""
    first_seq, first_stamp = {}, {}
    for seg in segments:
        mine, peer = seg.sport, seg.dport
        options = []
        first_seq.setdefault(mine, seg.seq)
        for word in option_words(seg):
            if isinstance(word, tuple):
                first_stamp.setdefault(mine, word[0])
                word = (f"ts:{(word[0] - first_stamp[mine]) % 2**32}:"
                        f"{(word[1] - first_stamp.get(peer, word[1])) % 2**32}")
            options.append(word)
        ack = (seg.ack - first_seq.get(peer, seg.ack)) % 2**32
        yield (f"{mine} {peer} flags {seg.flags:#x} ecn {seg.ecn} win {seg.win} "
               f"seq {(seg.seq - first_seq[mine]) % 2**32} ack {ack} {' '.join(options)} "
               f"len {len(seg.payload)} sum {sum(seg.payload)}")


def run(modules):
    """Print the segments of one connection."""
    for module in modules:
        subprocess.run(["insmod", module], check=True)
    pair = Pair(cc=("cubic", "cubic"), delay="500us")
    time.sleep(2 - time.monotonic() % 1)
    sniffer = Sniffer(pair.s)
    client, server = pair.connect(lport=40000)
    transfer((client, server, pattern(1000000)), (server, client, pattern(100000, 2)))
    print(f"took {time.monotonic() % 1:.9f}")
    for line in relative(sniffer.segments()):
        print(line)


if __name__ == "__main__":
    run(sys.argv[1:])
