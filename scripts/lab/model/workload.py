# SPDX-License-Identifier: GPL-2.0
"""Flows of a workload: drawn from a distribution of sizes, read from a list, or incasts.

Files are CSV, also compressed (.xz). A distribution has the columns bytes and
cdf_percent; sizes between two rows are distributed uniformly. A list of flows has
the columns start_ns, from, to (numbers of hosts) and bytes; other columns are ignored.
"""

import bisect
import csv
import io
import lzma
import math
import random
from dataclasses import dataclass
from pathlib import Path

from . import files, units

# In bytes. A list of 100,000 flows, the largest number allowed, has 5 MB.
FILE_MAX = 16 << 20
PUBLISHED = Path(__file__).resolve().parent / "workloads"


class WorkloadError(Exception):
    """The reason why a file is refused; the text does not contain the name of the file."""


def names():
    """The names of the distributions of the testbed."""
    return sorted(path.stem for path in PUBLISHED.glob("*.csv"))


def _rows(path, columns):
    """The rows of a file, each as a list of integers, with a float for cdf_percent."""
    try:
        with files.open_regular(path, follow=True) as file:
            text = files.limited(lzma.open(file) if path.suffix == ".xz" else file, FILE_MAX)
        reader = csv.DictReader(io.StringIO(text.decode("utf-8-sig")))
        if not set(columns) <= set(reader.fieldnames or ()):
            raise WorkloadError(f"has to have the columns {', '.join(columns)}")
        rows = [[float(row[c]) if c == "cdf_percent" else int(row[c]) for c in columns]
                for row in reader]
        if any(isinstance(n, float) and not math.isfinite(n) for row in rows for n in row):
            raise ValueError
    except OSError as err:
        raise WorkloadError(err.strerror) from None
    except (ValueError, TypeError, csv.Error, lzma.LZMAError, EOFError):
        raise WorkloadError(f"has to have numbers in the columns {', '.join(columns)}") from None
    if not rows:
        raise WorkloadError("is empty")
    return rows


class Sizes:
    """A distribution of flow sizes; name is one of names(), or the name of a file."""

    def __init__(self, name, directory="."):
        path = PUBLISHED / f"{name}.csv" if name in names() else Path(directory, name)
        self.bytes, self.percent = zip(*_rows(path, ("bytes", "cdf_percent")))
        for column in self.bytes, self.percent:
            if column[0] < 0 or any(b < a for a, b in zip(column, column[1:])):
                raise WorkloadError("has to rise from row to row, from 0 on")
        if self.bytes[-1] > units.SIZE_MAX:
            raise WorkloadError(f"has to have sizes of at most {units.SIZE_MAX} bytes")
        if self.percent[-1] != 100 or not all(p <= 100 for p in self.percent) or not self.mean():
            raise WorkloadError("has to end at 100 %, with sizes of 1 byte or more")

    def mean(self):
        """The mean flow size in bytes."""
        low = [0, *self.bytes], [0, *self.percent]
        return sum((b + a) / 2 * (q - p) / 100 for a, b, p, q in
                   zip(low[0], self.bytes, low[1], self.percent))

    def draw(self, drawn):
        """Draw one flow size, at least 1 byte."""
        percent = 100 * drawn.random()
        i = bisect.bisect_left(self.percent, percent)
        low = (self.bytes[i - 1], self.percent[i - 1]) if i else (0, 0)
        span = self.percent[i] - low[1]
        part = (percent - low[1]) / span if span else 1
        return max(round(low[0] + part * (self.bytes[i] - low[0])), 1)


@dataclass
class Groups:
    """Senders and receivers as numbers of hosts, and the rate of payload in bit/s at a load of 1."""
    senders: list
    receivers: list
    total_bps: int


def _poisson(drawn, gap_ns, duration_ns):
    now_ns = drawn.expovariate(1 / gap_ns)
    while now_ns < duration_ns:
        yield round(now_ns)
        now_ns += drawn.expovariate(1 / gap_ns)


def arrivals(sizes, load, groups, duration_ns, seed):
    """Yield Poisson arrivals between random hosts of the groups, as (start_ns, from, to, bytes)."""
    drawn = random.Random(f"arrivals {seed}")       # another sequence than that of flow.spread
    gap_ns = sizes.mean() * 8 * 10**9 / (load * groups.total_bps)
    senders, receivers = groups.senders, groups.receivers
    for start_ns in _poisson(drawn, gap_ns, duration_ns):
        src = dst = drawn.choice(senders)
        while dst == src:
            dst = drawn.choice(receivers)
        yield start_ns, src, dst, sizes.draw(drawn)


def incasts(incast, groups, duration_ns, seed):
    """Yield the flows of incasts: at each Poisson arrival, incast["from"] hosts send to one host at once."""
    drawn = random.Random(f"incasts {seed}")
    gap_ns = incast["from"] * incast["bytes"] * 8 * 10**9 / (incast["load"] * groups.total_bps)
    for start_ns in _poisson(drawn, gap_ns, duration_ns):
        dst = drawn.choice(groups.receivers)
        for src in drawn.sample([n for n in groups.senders if n != dst], incast["from"]):
            yield start_ns, src, dst, incast["bytes"]


def read_flows(name, directory, hosts):
    """Return the flows of a file as (start_ns, from, to, bytes)."""
    return checked(_rows(Path(directory, name), ("start_ns", "from", "to", "bytes")), hosts)


def listed(texts, hosts):
    """Like read_flows(), but from a list of texts "START_NS FROM TO BYTES", the form of results.json."""
    try:
        rows = [[int(word) for word in text.split()] for text in texts]
        if any(len(row) != 4 for row in rows):
            raise ValueError
    except ValueError:
        raise WorkloadError('has to have texts of four numbers, "start_ns from to bytes"') from None
    return checked(rows, hosts)


def checked(rows, hosts):
    """Return the rows if all are possible flows, else raise WorkloadError."""
    for start_ns, src, dst, size in rows:
        if not 0 <= start_ns <= units.TIME_MAX or not 1 <= size <= units.SIZE_MAX or src == dst or \
                not (0 <= src < hosts and 0 <= dst < hosts):
            raise WorkloadError(f"{start_ns},{src},{dst},{size}: has to start at 0 or later (at most "
                                f"{units.TIME_MAX}), from one of hosts 0 to {hosts - 1} to another, "
                                f"with 1 byte or more (at most {units.SIZE_MAX})")
    return rows
