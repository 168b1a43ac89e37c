# SPDX-License-Identifier: GPL-2.0
"""FCT slowdown as the HPCC authors published it, and ours for the same sizes in their way.

published/fct_slowdown.csv was read off the plots on the authors' result site, to within 0.5 %. Its
sizes are the deciles of the flows. As their analysis does it, a point is of the 5 % of flows whose
sizes end there; a flow ends when the sender has the last ACK; what comes out below 1 counts as 1.
"""

import bisect
import csv
from pathlib import Path

FILE = Path(__file__).resolve().parent / "published/fct_slowdown.csv"
# Percent of the flows that a point is of.
STEP = 5
DECILES = range(10, 100, 10)
# Their names of what we have.
ALGORITHMS = {"hpcc": "HPCC", "dctcp": "DCTCP"}


def read():
    """{(workload, load as a fraction, percentile, algorithm): {bytes: slowdown}}"""
    found = {}
    with FILE.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = row["workload"], int(row["load_percent"]) / 100, int(row["percentile"]), row["algorithm"]
            found.setdefault(key, {})[int(row["bytes"])] = float(row["slowdown"])
    return found


def quantile(sizes, percent):
    """The size that so many percent of the flows do not exceed."""
    at = bisect.bisect_left(sizes.percent, percent)
    if not at:
        return sizes.bytes[0] * percent / sizes.percent[0]
    low, high = sizes.percent[at - 1], sizes.percent[at]
    return sizes.bytes[at - 1] + (percent - low) / (high - low) * (sizes.bytes[at] - sizes.bytes[at - 1])


def classes(sizes):
    """(more than, at most) bytes of each point."""
    return [(quantile(sizes, percent - STEP), quantile(sizes, percent)) for percent in DECILES]


def slowdown(flow, back_us):
    """Of a finished flow of results.json, until its sender has the last ACK, which takes back_us
    on an idle network.
    """
    alone_us = flow["fct_us"] / flow["slowdown"]
    return max((flow["fct_us"] + back_us) / (alone_us + back_us), 1)
