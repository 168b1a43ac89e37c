# SPDX-License-Identifier: GPL-2.0
"""FCT slowdown as the HPCC authors published it, and our slowdown, computed by their method.

published/WORKLOAD.csv has values that we read from the plots on the authors' result site, with an error of at
most 0.5 %. The last columns are flow sizes in bytes, the deciles of the workload. In the authors' analysis a point
covers the 5 % of the flows whose sizes are equal to its size or just below. A flow ends when the sender has the last
ACK. A slowdown below 1 counts as 1.
"""

import csv
from pathlib import Path

FILES = Path(__file__).resolve().parent / "published"
# Percentage of the flows that a point covers.
STEP = 5
DECILES = range(10, 100, 10)
# Names of our congestion controls in the published data.
ALGORITHMS = {"hpcc": "HPCC", "dctcp": "DCTCP"}


def read():
    """{(workload, load as a fraction, percentile, algorithm): {bytes: slowdown}}"""
    found = {}
    for path in sorted(FILES.glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                key = path.stem, int(row["load_percent"]) / 100, int(row["percentile"]), row["algorithm"]
                found[key] = {int(size): float(row[size]) for size in row if size.isdigit() and row[size]}
    return found


def classes(sizes):
    """Return a pair of sizes for each point: it covers flows with more bytes than the first, and at most the second."""
    return [(sizes.quantile(percent - STEP), sizes.quantile(percent)) for percent in DECILES]


def slowdown(flow, back_us):
    """The slowdown of a finished flow of results.json, until its sender has the last ACK. back_us: time of
    the ACK on an idle network.
    """
    alone_us = flow["fct_us"] / flow["slowdown"]
    return max((flow["fct_us"] + back_us) / (alone_us + back_us), 1)
