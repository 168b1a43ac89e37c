# SPDX-License-Identifier: GPL-2.0
"""Flows of a workload: drawn from a distribution of sizes, read from a list, or incasts.

Files are CSV, also compressed (.xz). A distribution has the columns bytes and
cdf_percent; sizes between two rows are distributed uniformly. A list of flows has
the columns start_ns, from, to (numbers of hosts) and bytes; other columns are ignored.
"""

import bisect
import csv
import itertools
import lzma
import math
import random
from dataclasses import dataclass
from pathlib import Path

from . import files, units

# Bytes of a file with a distribution, and of a line of any file.
FILE_MAX, LINE_MAX = 16 << 20, 1 << 16
# Wrong lines of a file that an error names.
WRONG_MAX = 10
COLUMNS = ("start_ns", "from", "to", "bytes")
PUBLISHED = Path(__file__).resolve().parent / "workloads"


class WorkloadError(Exception):
    """The reason why a file is refused; the text does not contain the name of the file."""


def names():
    """The names of the distributions of the testbed."""
    return sorted(path.stem for path in PUBLISHED.glob("*.csv"))


def _right(numbered, parse, kind):
    """Yield parse(item) of numbered items. After the last one, or after WRONG_MAX wrong ones, raise an error that
    names these.
    """
    wrong = []
    for number, item in numbered:
        try:
            yield parse(item)
        except WorkloadError as err:
            wrong.append(f"{kind} {number}: {err}")
        if len(wrong) == WRONG_MAX:
            break
    if wrong:
        raise WorkloadError("; ".join(wrong) + ("; there may be more" if len(wrong) == WRONG_MAX else ""))


def rows(path, columns, parse, most=FILE_MAX, skip=0):
    """Yield parse(texts in these columns) for each row of a file of at most @most bytes, without the first @skip rows."""
    why = f"has to have numbers in the columns {', '.join(columns)}"

    def parsed(row):
        try:
            return parse([row[i] for i in at])
        except (ValueError, TypeError, IndexError):
            raise WorkloadError(why) from None
    try:
        with files.open_regular(path, follow=True) as file:
            reader = csv.reader(files.lines(lzma.open(file) if path.suffix == ".xz" else file, most, LINE_MAX))
            head = [name.removeprefix("\ufeff") for name in next(reader, [])]
            if not set(columns) <= set(head):
                raise WorkloadError(f"has to have the columns {', '.join(columns)}")
            at, empty = [head.index(column) for column in columns], True
            for one in _right(itertools.islice(((reader.line_num, row) for row in reader if row), skip, None), parsed, "line"):
                empty = False
                yield one
    except OSError as err:
        raise WorkloadError(err.strerror) from None
    except csv.Error:
        raise WorkloadError(why) from None
    except (lzma.LZMAError, EOFError):
        raise WorkloadError("is no complete .xz file") from None
    if empty:
        raise WorkloadError("is empty")


def _size(texts):
    size, percent = int(texts[0]), float(texts[1])
    if not math.isfinite(percent):
        raise ValueError
    return size, percent


class Sizes:
    """A distribution of flow sizes; name is one of names(), or the name of a file."""

    def __init__(self, name, directory="."):
        path = PUBLISHED / f"{name}.csv" if name in names() else Path(directory, name)
        self.bytes, self.percent = zip(*rows(path, ("bytes", "cdf_percent"), _size))
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

    def quantile(self, percent):
        """The size that this percentage of the flows does not exceed."""
        i = bisect.bisect_left(self.percent, percent)
        low = (self.bytes[i - 1], self.percent[i - 1]) if i else (0, 0)
        span = self.percent[i] - low[1]
        part = (percent - low[1]) / span if span else 1
        return low[0] + part * (self.bytes[i] - low[0])

    def draw(self, drawn):
        """Draw one flow size, at least 1 byte."""
        return max(round(self.quantile(100 * drawn.random())), 1)


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


def read_flows(name, directory, hosts, skip):
    """Yield the flows of a file as (start_ns, from, to, bytes), without the first @skip rows, which may have no size."""
    return rows(Path(directory, name), COLUMNS, lambda texts: _flow(texts, hosts), files.SIZE_MAX, skip)


def listed(texts, hosts):
    """Like read_flows(), but from a list of texts "START_NS FROM TO BYTES", the form of results.json."""
    def parsed(text):
        try:
            start_ns, src, dst, size = text.split()
            return _flow((start_ns, src, dst, size), hosts)
        except ValueError:
            raise WorkloadError('has to have texts of four numbers, "start_ns from to bytes"') from None
    return _right(enumerate(texts), parsed, "text")


def _flow(texts, hosts):
    """The numbers of a flow; WorkloadError if they are impossible, ValueError if they are no numbers."""
    start_ns, src, dst, size = flow = tuple(map(int, texts))
    for name, value, low, high in zip(COLUMNS, flow, (0, 0, 0, 1), (units.TIME_MAX, hosts - 1, hosts - 1, units.SIZE_MAX)):
        if not low <= value <= high:
            raise WorkloadError(f"{name} is {value}, but has to be from {low} to {high}")
    if src == dst:
        raise WorkloadError(f"from and to are both {src}")
    return start_ns, src, dst, size
