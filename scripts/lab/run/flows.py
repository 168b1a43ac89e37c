# SPDX-License-Identifier: GPL-2.0
"""Flows of results. results.json has at most LISTED flows of a run; more are in a compressed file beside it, in the
form of flows.csv. In memory each flow has some numbers, and is a dict only while it is read.
"""

import csv
import hashlib
import io
import lzma
from array import array

from ..model import files, workload
from ..model.keys import ScenarioError

# Maximum number of flows of a run in results.json.
LISTED = 100000
COLUMNS = ("start_ns", "from", "to", "bytes", "fct_ns", "alone_ns", "slowdown", "goodput_bps", "retrans", "id",
           "flow_cc", "cc", "seed", "class")
NAME = "flows.csv.xz"
# Fast: an eighth of the size, 5 us for a flow.
PRESET = 0


def ns(us):
    return None if us is None else round(us * 1000)


def row(flow, result):
    """The columns of a flow. The first ones have the form that workload.flows reads; hosts are numbers."""
    return (ns(flow["start_us"]), int(flow["from"][1:]), int(flow["to"][1:]), flow["bytes"], ns(flow["fct_us"]),
            ns(flow["alone_us"]), flow["slowdown"], flow["goodput_bps"], flow["retrans"], flow["id"], flow["cc"],
            result["cc"], result["seed"], flow.get("class"))


class Measured:
    """The flows of a run, from the numbers of hpcc-traffic."""

    def __init__(self, scenario, topology, records, window):
        self.flows, self.records, self.window = scenario.flows, records, window
        self.alone = array("q", (topology.alone_ns(flow.src, flow.dst, flow.bytes) if flow.bytes else 0
                                 for flow in self.flows))
        self.written = None     # what results.json has in place of the flows

    def __len__(self):
        return len(self.flows)

    def __iter__(self):
        return map(self._shown, self.flows)

    def _shown(self, flow):
        done_ns, alone_ns = self.records.done_ns[flow.id], self.alone[flow.id]
        fct_ns = done_ns - flow.start_ns if done_ns >= 0 else None
        if flow.bytes is None:
            # data that arrived in order within the measurement window
            begin, end = self.records.windows[flow.id]
            goodput = round((end - begin) * 8 * 10**9 / (self.window[1] - self.window[0]))
        else:
            goodput = round(flow.bytes * 8 * 10**9 / fct_ns) if fct_ns else None
        return {
            "id": flow.id, "from": flow.src, "to": flow.dst, "bytes": flow.bytes, "cc": flow.cc,
            **({"class": flow.class_name} if flow.class_name else {}),
            "start_us": flow.start_ns / 1000,
            "fct_us": fct_ns / 1000 if fct_ns else None,
            "alone_us": alone_ns / 1000 if alone_ns else None,
            "slowdown": round(fct_ns / alone_ns, 4) if fct_ns and alone_ns else None,
            "goodput_bps": goodput,
            "retrans": self.records.retrans[flow.id],
        }

    def write(self, path, result):
        """Write the flows to a file."""
        digest = hashlib.sha256()
        with lzma.open(path, "wb", preset=PRESET) as out:
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(COLUMNS)
            for i, flow in enumerate(self, 1):
                writer.writerow(row(flow, result))
                if i % LISTED and i < len(self):
                    continue
                data = text.getvalue().encode("ascii")
                digest.update(data)
                out.write(data)
                text.seek(0)
                text.truncate()
        self.written = {"file": path.name, "count": len(self), "sha256": digest.hexdigest()}


class Stored:
    """The flows of a run that are in a file."""

    def __init__(self, path, written):
        self.path, self.written = path, written

    def __len__(self):
        return self.written["count"]

    def __iter__(self):
        count = 0
        try:
            for flow in workload.rows(self.path, COLUMNS, self._parse, files.SIZE_MAX):
                count += 1
                yield flow
        except workload.WorkloadError as err:
            raise ScenarioError(f"{self.path}: {err}") from None
        if count != len(self):
            raise ScenarioError(f"{self.path}: has {count} flows, and results.json says {len(self)}")

    @staticmethod
    def _parse(texts):
        start, src, dst, size, fct, alone = (int(text) if text else None for text in texts[:6])
        return {"id": int(texts[9]), "from": f"h{src}", "to": f"h{dst}", "bytes": size, "cc": texts[10],
                "start_us": start / 1000, "fct_us": fct and fct / 1000, "alone_us": alone and alone / 1000,
                "slowdown": float(texts[6]) if texts[6] else None, "goodput_bps": int(texts[7]) if texts[7] else None,
                "retrans": int(texts[8])} | ({"class": texts[13]} if texts[13] else {})
