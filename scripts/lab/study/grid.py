# SPDX-License-Identifier: GPL-2.0
"""The grid of runs of a paper: workload x load x variant x seed, from a TOML file.

A variant is a congestion control and its settings. A cell of the grid is one
run of hpcc-lab, with its own directory.
"""

import hashlib
import json
import os
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ..model import keys, units, workload
from ..model import scenario as scenarios
from ..model.keys import ScenarioError
from ..model.topology import Topology
from ..run import results

TOP = Path(__file__).resolve().parents[3]
SEEDS_MAX = 1000
# The congestion control whose variants are compared with all others.
OURS = "hpcc"
NAME = "[A-Za-z0-9][-A-Za-z0-9_.]*"
# Files on which the results of a run depend: if one changes, all runs are repeated.
SOURCES = ("kmod/**/*.[ch]", "qdisc/**/*.[ch]", "include/**/*.h", "tools/network/*.[ch]", "tools/traffic/*.[ch]",
           "scripts/uml/**/*", "scripts/hpcc-lab", "scripts/lab/*.py", "scripts/lab/model/*.py",
           "scripts/lab/model/*/*.csv", "scripts/lab/setup/*.py", "scripts/lab/run/*.py", "scripts/lab/show/*.py", "dkms.conf")
# Files below a source's directory that are no sources, as in scripts/uml/modules.sh.
BUILT = r"(^|/)\.[^/]|\.(o|ko|so|order|symvers)$|\.mod[^/]*$"
# Modules of these rooms that only show the results of runs.
TELLING = ("command.py", "figures.py", "report.py", "rst.py")
# Real time of a guest, for a first estimate: per packet and port, per flow, and for a run without
# traffic.
PACKET_US, FLOW_MS, RUN_S = 7, 0.5, 3


def _list(parse, what):
    def parse_list(value):
        try:
            found = [parse(item) for item in value] if isinstance(value, list) else []
        except ValueError:
            found = []
        if not found or len({str(item) for item in found}) < len(found):
            raise ValueError(f"a list of {what}, each once")
        return found
    return parse_list


def _fraction(value):
    fraction = units.fraction(value)
    if not fraction:
        raise ValueError
    return fraction


def _seeds(value):
    """Seeds from 1 to N."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= SEEDS_MAX:
        return list(range(1, value + 1))
    raise ValueError(f"a number of seeds from 1 to {SEEDS_MAX}")


_name = keys.matching(NAME, "a name of letters, digits, '-', '_' and '.'")
_kernel = keys.matching(r"[0-9]{1,3}\.[0-9]{1,3}", 'a version such as "6.1"')
_memory = keys.within(units.size, 10**8, 10**13, "a size from 100MB to 10TB")
_LOADS = _list(keys.load, "fractions from 0.001 to less than 1")
_SETTINGS = _list(keys.checked(lambda value: isinstance(value, str) and "=" in value, ""), '"section.key=value"')

KEYS = {
    "": {
        "extends": (keys.file_name, None),
        "scenario": (keys.file_name, ...),
        "loads": (_LOADS, ...),
        "duration": (units.time, None),
        "seeds": (_seeds, 3),
        "set": (_SETTINGS, []),
        "kernel": (_kernel, None),
        "memory": (_memory, 10**9),
        "ideal": (_list(_fraction, "fractions from more than 0 to 1"), []),
    },
    "workload": {
        "name": (_name, ...),
        "cdf": (keys.file_name, None),
        "duration": (units.time, None),
        "set": (_SETTINGS, []),
        "loads": (_LOADS, None),
    },
    "variant": {
        "name": (_name, ...),
        "cc": (keys.KEYS["cc"]["name"][0], ...),
        "set": (_SETTINGS, []),
        "common": (keys.boolean, True),
        "base": (_name, None),
        "peer": (keys.boolean, None),
        "kernel": (_kernel, None),
        "workloads": (_list(_name, "names of workloads"), None),
        "loads": (_LOADS, None),
    },
}


@dataclass(frozen=True)
class Cell:
    """One run."""
    workload: str
    load: float
    variant: str
    seed: int

    @property
    def directory(self):
        """The directory of a run, relative to that of the grid."""
        return f"runs/{self.workload}/{self.load:g}/{self.variant}/{self.seed}"

    @property
    def results(self):
        """The file that a successful run writes."""
        return f"{self.directory}/results.json"

    @property
    def log(self):
        """The output of hpcc-lab."""
        return f"{self.directory}/log"

    def __str__(self):
        return f"{self.workload} {self.load:.0%}, {self.variant}, seed {self.seed}"


@dataclass
class Grid:
    """A checked grid file."""
    path: Path
    scenario: Path
    loads: list
    seeds: list
    settings: list
    kernel: str
    memory: int
    ideal: list
    workloads: dict = field(default_factory=dict)
    variants: dict = field(default_factory=dict)

    @property
    def name(self):
        """The name of the file, and of the directory of its results."""
        return self.path.stem

    def cells(self):
        """All runs, one seed after the other, so that the first results cover all variants."""
        return [Cell(work, load, variant, seed) for seed in self.seeds for work in self.workloads
                for load in self.loads for variant, values in self.variants.items()
                if work in (values["workloads"] or [work])
                and all(load in (part["loads"] or [load]) for part in (values, self.workloads[work]))]

    def assignments(self, cell):
        """The values of --set for a run; a later one overrides an earlier one."""
        work, variant = self.workloads[cell.workload], self.variants[cell.variant]
        drawn = [f"workload.cdf={json.dumps(work['cdf'])}", f"workload.load={cell.load:g}",
                 f"workload.duration={work['duration']}ns"]
        return [*(self.settings if variant["common"] else []), *drawn, *work["set"], *variant["set"]]

    def scenario_of(self, cell):
        """The scenario that hpcc-lab will run."""
        return scenarios.load(self.scenario, self.assignments(cell), self.variants[cell.variant]["cc"],
                              cell.seed)

    def kernels(self):
        """The kernel versions, without duplicates; None is the default of hpcc-lab."""
        return list(dict.fromkeys(variant["kernel"] or self.kernel for variant in self.variants.values()))

    def command(self, cell):
        """The command that runs a cell, in the directory of the grid."""
        variant = self.variants[cell.variant]
        argv = [sys.executable, str(TOP / "scripts/hpcc-lab"), "run", str(self.scenario), "--cc", variant["cc"],
                "--seed", str(cell.seed), "--out", cell.directory]
        if variant["kernel"] or self.kernel:
            argv += ["--kernel-version", variant["kernel"] or self.kernel]
        for assignment in self.assignments(cell):
            argv += ["--set", assignment]
        return shlex.join(argv)

    def check(self):
        """Check each variant once, and each workload at each load once, for values that hpcc-lab would refuse."""
        seen = set()
        for cell in self.cells():
            parts = {("variant", cell.variant), (cell.workload, cell.load)}
            if not parts <= seen:
                seen |= parts
                try:
                    self.scenario_of(cell)
                except ScenarioError as err:
                    raise ScenarioError(f"{cell}: {err}") from None

    def estimate_s(self, cell):
        """Estimate the real time of a run on one core from the mean amount of traffic."""
        settings = scenarios.load(self.scenario, self.assignments(cell), None, cell.seed)
        shape = Topology(settings)
        flow = settings.flows[0]
        ports = len(shape.path(flow.src, flow.dst)) - 1
        payload = cell.load * sum(shape.access(host)["rate"] for host in shape.hosts) / 8 \
            * self.workloads[cell.workload]["duration"] / 10**9
        flows = payload / workload.Sizes(self.workloads[cell.workload]["cdf"]).mean()
        packets = payload / (settings.link["mtu"] - 52) + flows
        return RUN_S + flows * FLOW_MS / 10**3 + packets * ports * PACKET_US / 10**6


def _named(data, kind):
    """Return the tables [[workload]] or [[variant]], by name."""
    tables = data.get(kind, [])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ScenarioError(f"{kind}: at least one [[{kind}]] with the keys "
                            + ", ".join(KEYS[kind]) + " is needed")
    found = {}
    for i, table in enumerate(tables):
        values = keys.parse_section(KEYS[kind], table, f"{kind}.{i}")
        if values["name"] in found:
            raise ScenarioError(f"{kind}.{i}.name = {values['name']!r}: is given twice")
        found[values["name"]] = values
    return found


def _check_part(kind, part, known, what):
    """Check that the grid has the workloads or loads to which a variant or a workload is restricted."""
    for item in part[what] or []:
        if item not in known:
            raise ScenarioError(f"{kind} {part['name']}: {what}: {item!r} is not in the grid, which has "
                                + ", ".join(map(str, known)))


def build(data, path):
    """Make a Grid from parsed TOML. File names in it are relative to the directory of `path`."""
    for key in data:
        if key not in KEYS[""] and key not in KEYS:
            raise ScenarioError(f"{keys.short(key)}: unknown key; allowed: {', '.join(KEYS[''])}, "
                                f"[[workload]], [[variant]]{keys.nearest(key, (*KEYS, *KEYS['']))}")
    top = keys.parse_section(KEYS[""], {k: v for k, v in data.items() if k in KEYS[""]}, "")
    works, variants = _named(data, "workload"), _named(data, "variant")
    for i, work in enumerate(works.values()):
        work["duration"] = work["duration"] or top["duration"]
        if not work["duration"]:
            raise ScenarioError(f"workload.{i}.duration: missing")
        _check_part("workload", work, top["loads"], "loads")
        cdf = work["cdf"] or work["name"]
        work["cdf"] = cdf if cdf in workload.names() else str((path.parent / cdf).resolve())
    for variant in variants.values():
        if keys.is_source(variant["cc"]):
            variant["cc"] = str((path.parent / variant["cc"]).resolve())
        if variant["peer"] is None:
            variant["peer"] = variant["cc"] != OURS
        _check_part("variant", variant, list(works), "workloads")
        _check_part("variant", variant, top["loads"], "loads")
        if variant["base"] not in (None, *variants):
            raise ScenarioError(f"variant {variant['name']}: base = {variant['base']!r}: is not in the grid, which has "
                                + ", ".join(variants))
    return Grid(path, (path.parent / top["scenario"]).resolve(), top["loads"], top["seeds"], top["set"],
                top["kernel"], top["memory"], top["ideal"], works, variants)


def load(path, thorough=True):
    """Read and check a file. thorough: also check for values that hpcc-lab would refuse, which takes
    seconds for a large network.
    """
    path = Path(path).absolute()
    data = scenarios.read_toml(path)
    if isinstance(data.get("extends"), str):
        data = scenarios.read_toml(path.parent / data["extends"]) | data
    try:
        if not re.fullmatch(NAME, path.stem):
            raise ScenarioError("the file's name has to be of letters, digits, '-', '_' and '.'")
        grid = build(data, path)
        if thorough:
            grid.check()
        return grid
    except ScenarioError as err:
        raise ScenarioError(f"{path}: {err}") from None


def _below(top):
    """The files below a directory, also those in linked directories, each of which counts once."""
    seen = set()
    for folder, below, names in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        below[:] = () if real in seen else sorted(below)
        yield from (Path(folder, name) for name in names if real not in seen)
        seen.add(real)


def sources(grid):
    """A digest of the files on which the results of runs depend."""
    digest = hashlib.sha256(results.VERSION.encode())
    for pattern in SOURCES:
        for path in sorted(TOP.glob(pattern)):
            if path.name not in TELLING and path.is_file():
                digest.update(str(path.relative_to(TOP)).encode() + b"\0" + path.read_bytes())
    cdfs = {work["cdf"] for work in grid.workloads.values()} - set(workload.names())
    for path in str(grid.scenario), *sorted(cdfs):
        digest.update(Path(path).read_bytes() + b"\0")
    cells = {(cell.workload, cell.variant): cell for cell in grid.cells()}.values()
    for own in sorted(set().union(*(scenarios.sources(
            grid.scenario, grid.assignments(cell), grid.variants[cell.variant]["cc"]) for cell in cells))):
        for path in sorted((Path(own), *_below(own))):
            name = str(path.relative_to(own))
            if path.is_file() and not re.search(BUILT, name):
                digest.update(f"{Path(own).name}/{name}".encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def cores():
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))
