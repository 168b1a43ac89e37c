#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""PowerTCP in exact fractions, as in the paper: writes the vectors of test_power.c to stdout.

A line "law" has T in ns, W_init, W_min and W_ai in bytes, and eta in permille. Each other line is an ACK: its number,
the sender's next number, its time in us; ts, tx and qlen in ns of two hops, where a ts of 0 means no record, and 1 a
quiet link; U in 10^-9, W and Wc in 10^-3 bytes.
"""

import random
from fractions import Fraction

KEEP = Fraction(13, 128)        # 1 - gamma


class Law:
    """One connection. A link is [ts, tx, qlen, u', RTTs of quiet, time of its last report]."""

    def __init__(self, T, W_init, W_min, W_ai, eta):
        self.T, self.W_init, self.W_min, self.W_ai, self.eta = T, W_init, W_min, W_ai, Fraction(eta, 1000)
        self.U, self.W, self.Wc, self.links = Fraction(1), Fraction(W_init), Fraction(W_init), {}
        self.last, self.moved = None, False

    def _report(self, hop, report, now):
        """Update a link. Return the time that its u' covers, or None if it has no u' yet."""
        old = self.links.get(hop)
        if report is None:
            quiet = max(old[4], 1) if old else 1
            self.links[hop] = [None, None, None, self.eta * (1 - Fraction(quiet - 1, 64)), quiet, now]
            return (now - old[5]) * 1000 if old else None
        ts, tx, qlen = report
        arrived = 1
        if old and old[0] is not None:
            arrived = max(Fraction(tx - old[1] + qlen - old[2], ts - old[0]), 0)
        power = arrived * (1 + Fraction(qlen, self.T))
        u = self.eta * max(power, 1 if qlen > self.T // 8 else 0) if old else Fraction(0)
        self.links[hop] = [ts, tx, qlen, u, 0, now]
        return old and (ts - old[0] if old[0] is not None else self.T)

    def ack(self, number, snd_nxt, now, reports):
        """Process the reports of an ACK, {hop: (ts, tx, qlen) or None}."""
        spans = {hop: span for hop, report in sorted(reports.items())
                 if (span := self._report(hop, report, now)) is not None}
        if not spans:
            self.last = snd_nxt if self.last is None else self.last
            return
        most = max(sorted(self.links), key=lambda hop: self.links[hop][3])
        if most in spans:
            self.U += (self.links[most][3] - self.U) * min(spans[most], self.T) / self.T
            self.moved = True
        if self.moved:
            goal = min(max(self.Wc * self.eta / self.U + self.W_ai, self.W_min), self.W_init)
            self.W = goal + (self.W - goal) * KEEP
        if number > self.last:
            self.Wc = self.W if self.moved else self.Wc
            self.last, self.moved = snd_nxt, False
            top = max((link[3] for link in self.links.values() if not link[4]), default=0)
            for link in self.links.values():
                if link[4]:
                    link[4] = 1 if link[3] < top else min(link[4] + 1, 33)


class Path:
    """Links that this flow shares with others; their load in permille of each link changes every 12 ACKs."""

    def __init__(self, law, loads, rng):
        self.law, self.loads, self.rng = law, loads, rng
        self.state = {hop: [1000000, 500000, 0] for hop in range(1, len(loads) + 1)}

    def step(self, n):
        """Return the duration, and the reports of the next ACK."""
        ns, reports = self.rng.randrange(300, 2500), {}
        for hop, (ts, tx, qlen) in self.state.items():
            load = self.loads[hop - 1][n // 12 % len(self.loads[hop - 1])]
            arrives = int(ns * (self.law.W / self.law.W_init + Fraction(load, 1000)))
            sent = min(qlen + arrives, ns)
            self.state[hop] = [ts + ns, tx + sent, qlen + arrives - sent]
            if self.rng.random() < 0.9:
                reports[hop] = None if load == 0 and n > 12 else tuple(self.state[hop])
        return ns, reports


def main():
    """Print a flow that others join and leave, a flow with a second bottleneck, and a link that becomes quiet."""
    rng = random.Random(1)
    for T, W_init, loads in ((10000, 125000, [(100, 1500, 300, 50)]), (20000, 25000, [(200, 700), (300, 100, 900)]),
                             (10000, 12500, [(150, 0, 0, 900)])):
        law = Law(T, W_init, W_init // 1000, W_init // 40, 950)
        path, now, number = Path(law, loads, rng), 1000, 1000
        print("law", T, W_init, W_init // 1000, W_init // 40, 950)
        for n in range(48):
            ns, reports = path.step(n)
            number += 1 + int(law.W * ns / T)
            now += 1 + ns // 1000
            snd_nxt = number + int(law.W)
            law.ack(number, snd_nxt, now, reports)
            shown = (value for hop in (1, 2) for value in reports.get(hop, (0, 0, 0)) or (1, 0, 0))
            print(number, snd_nxt, now, *shown,
                  round(law.U * 10**9), round(law.W * 1000), round(law.Wc * 1000))


if __name__ == "__main__":
    main()
