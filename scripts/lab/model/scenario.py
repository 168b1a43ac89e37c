# SPDX-License-Identifier: GPL-2.0
"""Scenario files: their contents and meaning.

The whole file is checked before a guest boots. An error is one line that names the
key and says which values are allowed.
"""

import heapq
import itertools
import os
import random
import re
import shlex
import subprocess
import tomllib
from array import array
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from . import classes, collective, units, workload
from .keys import (CLASSES, EDGES_MAX, FLOWS_BEFORE_MAX, FLOWS_MAX, HOSTS_MAX, HOSTS_PER_TOR_MAX, KEYS, LISTS, MARKING,
                   OBSERVED_MAX, OF_ONE_LINK, PASSIVE_LISTS, RPCS_MAX, SWITCHES_MAX, TELEMETRY, ScenarioError, is_source,
                   nearest, parse_section, short, show_section, shown)
from .topology import ETHERNET_BYTES, TREES, Topology, is_host

# The directory of the scenarios of this project.
INCLUDED = Path(__file__).resolve().parents[2] / "scenarios"
# K_max of a port for which the scenario gives none.
KMAX_NS, KMAX_PACKETS = 5000, 16
# Stands for a host's address in a command.
ADDRESS = r"\{(h[0-9]{1,4})\}"
# PATH that scripts/uml/init.sh sets.
GUEST_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"


@dataclass
class Flow:
    """One connection, which sends bytes from one host to another; bytes is None for an endless flow."""
    id: int
    src: str
    dst: str
    bytes: int
    start_ns: int
    cc: str
    connect: str = "before"     # "start", "pool", or the id of the flow in the other direction
    class_name: str = None


class Flows:
    """All flows: first those of [[flow]], then those of [workload], whose four numbers are all that is stored."""

    def __init__(self, given=()):
        self.given = list(given)
        self.drawn = [array(code) for code in "QHHQ"]   # start_ns, from, to, bytes
        self.planned = {}       # bytes of the workload, by (from, to)
        self.cc = self.connect = None
        self.classes = [None]

    def draw(self, rows, cc, connect, names):
        """Add the flows of the workload, which use the classes in names in turn."""
        self.cc, self.connect, self.classes = cc, connect, names
        starts, sources, sinks, sizes = self.drawn
        for start_ns, src, dst, size in rows:
            starts.append(start_ns)
            sources.append(src)
            sinks.append(dst)
            sizes.append(size)
            pair = f"h{src}", f"h{dst}"
            self.planned[pair] = self.planned.get(pair, 0) + size

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __len__(self):
        return len(self.given) + len(self.drawn[0])

    def __getitem__(self, i):
        return next(self._from(i)) if i >= len(self.given) else self.given[i]

    def __iter__(self):
        yield from self.given
        yield from self._from(len(self.given))

    def _from(self, first):
        for i in range(first - len(self.given), len(self.drawn[0])):
            start_ns, src, dst, size = (column[i] for column in self.drawn)
            yield Flow(len(self.given) + i, f"h{src}", f"h{dst}", size, start_ns, self.cc, self.connect,
                       self.classes[i % len(self.classes)])

    def last_ns(self):
        """The start of the last flow, 0 without flows."""
        return max(max(self.drawn[0], default=0), max((flow.start_ns for flow in self.given), default=0))

    def by_start(self):
        """Yield the flows of the workload in the order of their starts."""
        starts, first = self.drawn[0], len(self.given)
        if any(a > b for a, b in zip(starts, starts[1:])):
            return (self[first + i] for i in sorted(range(len(starts)), key=starts.__getitem__))
        return self._from(first)


@dataclass
class Rpc:
    """Alternating requests and responses over one connection. count, until_ns: 0 means no limit."""
    id: int
    src: str
    dst: str
    request: int
    response: int
    count: int
    until_ns: int
    think_ns: int
    start_ns: int
    cc: str
    class_name: str = None


@dataclass
class Program:
    """A command in the namespace of a host. stop_ns: a time, "end", or None if it is not stopped."""
    host: str
    command: str
    package: str
    may_fail: bool
    start_ns: int
    stop_ns: object

    def named(self):
        """Hosts whose addresses the command contains."""
        return list(dict.fromkeys(re.findall(ADDRESS, self.command)))


@dataclass
class Scenario:
    """A checked scenario: one attribute per section of the file, with the list of all single flows."""
    name: str
    ip: int
    verify: bool
    topology: dict
    link: dict
    host: dict
    cc: dict
    qdisc: dict
    measure: dict
    impair: dict
    links: dict = field(default_factory=dict)
    classes: list = field(default_factory=list)
    flows: Flows = field(default_factory=Flows)
    rpcs: list = field(default_factory=list)
    runs: list = field(default_factory=list)
    events: list = field(default_factory=list)
    collectives: list = field(default_factory=list)
    workload: dict = field(default_factory=dict)
    sources: dict = field(default_factory=dict)     # paths of congestion controls whose names are known, by name
    parts: list = None      # run/foreign.py: what the guest loads for this scenario

    def cc_names(self):
        """The congestion controls of all connections, without duplicates. Programs use the one in [cc]."""
        drawn = [self.flows.cc] * (self.flows.cc is not None)
        names = [*(flow.cc for flow in self.flows.given), *drawn, *(one.cc for one in (*self.rpcs, *self.collectives))]
        return list(dict.fromkeys(names + ([self.cc["name"]] if self.runs else [])))

    def name_source(self, path, name):
        """Replace the path of a congestion control by its name."""
        self.sources[name] = path
        for one in (*self.flows.given, self.flows, *self.rpcs, *self.collectives):
            one.cc = name if one.cc == path else one.cc
        self.cc["name"] = name if self.cc["name"] == path else self.cc["name"]

    def parameters(self, cc, sysctls=False):
        """The parameters of a congestion control, or its sysctls."""
        given = self.cc["parameters"] or {}
        found, own = given if cc == self.cc["name"] else {}, given.get(cc)
        found = {key: value for key, value in (found | (own if isinstance(own, dict) else {})).items()
                 if not isinstance(value, dict)}
        return {key: int(value) if isinstance(value, bool) else value for key, value in found.items()
                if ("." in key) == sysctls}

    def queue(self):
        """The queue of switch ports: qdisc.queue, or the words of qdisc.kind."""
        return self.qdisc["kind"] or self.qdisc["queue"]

    def pairs(self):
        """Return {(src, dst): congestion controls}, for each pair of hosts in which src sends to dst."""
        found = {}
        for flow in self.flows.given:
            found.setdefault((flow.src, flow.dst), {})[flow.cc] = True
        for pair in self.flows.planned:
            found.setdefault(pair, {})[self.flows.cc] = True
        for one in self.collectives:
            for edge in one.edges:
                found.setdefault((edge.src, edge.dst), {})[one.cc] = True
        both = [(rpc.src, rpc.dst, rpc.cc) for rpc in self.rpcs]
        both += [(run.host, peer, self.cc["name"]) for run in self.runs for peer in run.named()
                 if peer != run.host]
        for a, b, cc in both:
            for pair in (a, b), (b, a):
                found.setdefault(pair, {})[cc] = True
        return {pair: list(names) for pair, names in found.items()}

    def planned_bytes(self):
        """Return {(src, dst): bytes of payload that src sends to dst}."""
        planned = dict(self.flows.planned)
        for flow in self.flows.given:
            pair = flow.src, flow.dst
            planned[pair] = planned.get(pair, 0) + (units.SIZE_MAX if flow.bytes is None else flow.bytes)
        for rpc in self.rpcs:
            for pair, size in ((rpc.src, rpc.dst), rpc.request), ((rpc.dst, rpc.src), rpc.response):
                planned[pair] = planned.get(pair, 0) + size * (rpc.count or 1)
        for one in self.collectives:
            for edge in one.edges:
                pair = edge.src, edge.dst
                planned[pair] = planned.get(pair, 0) + edge.bytes * edge.count * one.steps
        return {pair: planned.get(pair, 0) for pair in self.pairs()}

    def settings(self, name=None):
        """The data from which build() makes this scenario again: all settings, with --set and --cc applied, and
        each single flow, also those of a workload. name: the file in which all flows are.
        """
        parts = {name: show_section(KEYS[name], getattr(self, name)) for name in KEYS
                 if name not in ("", "workload", *LISTS)}
        parts["cc"]["name"] = self.given(self.cc["name"])
        parts["link"] |= {name: show_section(OF_ONE_LINK, table) for name, table in self.links.items()}
        parts |= {"ip": self.ip, "verify": self.verify, "flow": self._flow_tables()}
        if self.flows.planned:
            parts["workload"] = show_section(KEYS["workload"], self.workload | (
                {"flows": name, "skip": len(self.flows.given) or None} if name else
                {"list": [" ".join(map(str, row)) for row in zip(*self.flows.drawn)]}))
        if self.classes:
            parts["class"] = [show_section(KEYS["class"], {
                "name": one.name, "weight": one.weight, "priority": one.priority,
                "share": None if one.weight else one.share}) for one in self.classes]
        if self.rpcs:
            parts["rpc"] = [show_section(KEYS["rpc"], {
                "from": rpc.src, "to": rpc.dst, "request": rpc.request, "response": rpc.response,
                "count": rpc.count or None, "until": rpc.until_ns or None, "think": rpc.think_ns,
                "start": rpc.start_ns, "cc": self.given(rpc.cc), "class": rpc.class_name}) for rpc in self.rpcs]
        if self.collectives:
            parts["collective"] = [show_section(KEYS["collective"], {
                "kind": one.kind, "ranks": one.ranks, "bytes": one.bytes, "steps": one.steps,
                "start": one.start_ns, "cc": self.given(one.cc)}) for one in self.collectives]
        if self.runs:
            parts["run"] = [show_section(KEYS["run"], {
                "host": run.host, "command": run.command, "package": run.package,
                "may_fail": run.may_fail, "start": run.start_ns,
                "stop": run.stop_ns if run.stop_ns in (None, "end") else f"{run.stop_ns}ns"})
                for run in self.runs]
        if self.events:
            parts["event"] = [show_section(KEYS["event"], event) for event in self.events]
        return parts

    def given(self, cc):
        """A congestion control as the user has named it."""
        return self.sources.get(cc, cc)

    def _flow_tables(self):
        tables = []
        for flow in self.flows.given:
            if flow.connect.isdigit():
                tables[-1]["reverse"] = flow.bytes or "endless"
                continue
            tables.append({"from": flow.src, "to": flow.dst, "bytes": flow.bytes or "endless",
                           "cc": self.given(flow.cc), "start": f"{flow.start_ns}ns"}
                          | ({"class": flow.class_name} if flow.class_name else {}))
        return tables

    def link_of(self, a, b):
        """The properties of the link between two nodes, with the marking of its switch ports."""
        names = ["access"] if is_host(a) or is_host(b) else ["fabric"]
        if "c" in (a[0], b[0]):
            names.append("core")
        back = self.links.get(f"{b}-{a}", {})
        return self.link | {key: self.qdisc[key] for key in MARKING} | {
            key: value for name in (*names, f"{a}-{b}", f"{b}-{a}")
            for key, value in self.links.get(name, {}).items()} | (
                {"rate": back["rate_back"]} if "rate_back" in back else {})

    def host_delay(self):
        """Delay in ns that a host adds to packets which it sends, and to packets which it receives."""
        return tuple(self.host["delay"] if self.host[key] is None else self.host[key]
                     for key in ("delay_out", "delay_in"))

    def cc_label(self):
        """The name of a run: "ldcp", or "hpcc+ldcp" if its flows use both; "mine" for tcp_mine.c whose name is not
        known yet.
        """
        return "+".join(re.sub(r"^tcp_|(\.bpf)?\.[co]$", "", os.path.basename(cc)) for cc in self.cc_names())


def _check_tables(data):
    """Check the types that --set and --cc rely on: sections are tables, [[flow]] and the like are lists of tables."""
    for key in KEYS:
        if key and key not in LISTS and not isinstance(data.get(key, {}), dict):
            raise ScenarioError(f"{key}: has to be a table, [{key}], with the keys "
                                + ", ".join(KEYS[key]))
    for key in LISTS:
        tables = data.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ScenarioError(f"{key}: has to be tables, [[{key}]], with the keys "
                                + ", ".join(KEYS[key]))


def _set(data, assignment):
    """Apply one --set section.key=value; flow.key sets the key of all flows, flow.N.key sets the key of flow N. class
    sets all classes.
    """
    match = re.fullmatch(r"([-A-Za-z_0-9.]+)=(.*)", assignment, re.S)
    if not match:
        raise ScenarioError(f"--set {short(assignment)}: has to be section.key=value")
    path, text = match[1].split("."), match[2]
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        value = text
    *section, key = path
    name = section[0] if section and section[0] in LISTS else None
    tables = data.get(name, [])
    if name and not tables:
        raise ScenarioError(f"--set {short(assignment)}: there is no [[{name}]] table")
    if not section and key not in (*KEYS[""], "class"):
        raise ScenarioError(f"--set {short(assignment)}: has to be section.key=value, or one of "
                            + ", ".join(f"{name}=value" for name in KEYS[""]))
    if not section:
        data[key] = value
        _check_tables(data)
    elif name and len(section) == 1:
        for table in tables:
            table[key] = value
    elif name and len(section) == 2 and section[1].isdigit():
        if int(section[1]) >= len(tables):
            raise ScenarioError(f"--set {short(assignment)}: there are {len(tables)} [[{name}]] tables, from "
                                f"{name}.0 on")
        tables[int(section[1])][key] = value
    elif len(section) == 1 and section[0] in KEYS and section[0]:
        data.setdefault(section[0], {})[key] = value
    elif len(section) == 2 and section[0] == "link" and \
            isinstance(data.setdefault("link", {}).setdefault(section[1], {}), dict):
        data["link"][section[1]][key] = value
    else:
        raise ScenarioError(f"--set {short(assignment)}: has to be section.key=value; sections: "
                            + ", ".join(name for name in KEYS if name) + nearest(path[0], KEYS))


def _given_sources(data):
    """The (table, key) whose value is the source of a congestion control."""
    tables = [(data.get("cc", {}), "name"), *((one, "cc") for key in ("flow", "rpc", "collective") for one in data.get(key, []))]
    return [(table, key) for table, key in tables if isinstance(table.get(key), str) and is_source(table[key])]


def _place_sources(data, directory):
    """Sources of congestion controls are relative to the scenario's file."""
    for table, key in _given_sources(data):
        path = os.path.join(directory, table[key])
        table[key] = path if "/" in path else f"./{path}"


def _check_source(path):
    """Check that the source of a congestion control exists."""
    name = os.path.basename(path)
    if os.path.isdir(path):
        if not any(os.path.isfile(f"{path}/{file}") for file in ("Kbuild", "Makefile")):
            raise ScenarioError(f"cc {path}: the directory has no Kbuild, such as \"obj-m := tcp_mine.o\"")
    elif not name.endswith((".c", ".o")) or not os.path.isfile(path):
        raise ScenarioError(f"cc {path}: there is no such directory or .c or .bpf.o file")
    elif not re.fullmatch(r"[\w-]+(\.bpf)?\.[co]", name, re.A):
        raise ScenarioError(f"cc {path}: the file's name has to consist of letters, digits, - and _")


def _set_cc(data, cc):
    """Apply --cc, which sets the cc of all flows without a cc of their own."""
    flows = data.get("flow", [])
    if flows and "workload" not in data and all("cc" in flow for flow in flows):
        raise ScenarioError(f"--cc {cc}: every [[flow]] has a cc of its own; "
                            "--set flow.cc=NAME changes them")
    data.setdefault("cc", {})["name"] = cc


# Keys of each kind of topology, in addition to hosts.
SHAPE_KEYS = {"star": ("switches",), "dumbbell": ("switches",), "chain": ("switches",),
              "leaf-spine": ("tors", "hosts_per_tor", "spines"),
              "fat-tree": ("pods", "tors", "hosts_per_tor", "aggs", "cores")}


def _shape(topology):
    """Complete and check the numbers of hosts and switches."""
    kind = topology["kind"]
    for key, value in topology.items():
        if value is not None and key not in ("kind", "hosts", "reroute", *SHAPE_KEYS[kind]):
            raise ScenarioError(f"topology.{key} = {value}: does not apply to a {kind}; allowed: hosts, "
                                + ", ".join(SHAPE_KEYS[kind]))
    (_tree_shape if kind in TREES else _line_shape)(topology)


def _line_shape(topology):
    kind, hosts, switches = (topology[k] for k in ("kind", "hosts", "switches"))
    fixed = {"star": 1, "dumbbell": 2}.get(kind)
    if fixed and switches not in (None, fixed):
        raise ScenarioError(f"topology.switches = {switches}: a {kind} has {fixed}")
    topology["switches"] = fixed or switches or 3
    if kind == "chain":
        most = 2 * topology["switches"]
        if hosts is None:
            hosts = most
        if hosts > most or hosts % 2:
            raise ScenarioError(
                f"topology.hosts = {hosts}: a chain of {topology['switches']} switches has an "
                f"even number of hosts, at most {most}")
    elif hosts is None:
        hosts = 3 if kind == "star" else 4
    elif kind == "dumbbell" and hosts % 2:
        raise ScenarioError(f"topology.hosts = {hosts}: a dumbbell needs an even number of hosts, "
                            "half of them on each side")
    topology["hosts"] = hosts


def _tree_shape(topology):
    """Complete the numbers of a tree. By default a fat tree has switches with 2 * tors ports, and tors is 2."""
    kind, hosts = topology["kind"], topology["hosts"]

    def default(key, value):
        if topology[key] is None:
            topology[key] = value
    if kind == "fat-tree":
        default("tors", 2)
        default("pods", 2 * topology["tors"])
        default("aggs", topology["tors"])
        default("cores", topology["aggs"] ** 2)
        if topology["cores"] % topology["aggs"]:
            raise ScenarioError(f"topology.cores = {topology['cores']}: has to be a multiple of "
                                f"topology.aggs, {topology['aggs']}")
        racks = topology["pods"] * topology["tors"]
        switches = racks + topology["pods"] * topology["aggs"] + topology["cores"]
    else:
        default("tors", 4)
        default("spines", topology["tors"] // 2 or 1)
        racks = topology["tors"]
        switches = racks + topology["spines"]
    if topology["hosts_per_tor"] is None and hosts is not None:
        if hosts % racks or not 1 <= hosts // racks <= HOSTS_PER_TOR_MAX:
            raise ScenarioError(f"topology.hosts = {hosts}: each of the {racks} ToR switches needs the "
                                f"same number of hosts, 1 to {HOSTS_PER_TOR_MAX}")
        topology["hosts_per_tor"] = hosts // racks
    default("hosts_per_tor", topology["tors"])
    topology["hosts"] = racks * topology["hosts_per_tor"]
    if hosts not in (None, topology["hosts"]):
        raise ScenarioError(f"topology.hosts = {hosts}: {racks} ToR switches with topology.hosts_per_tor = "
                            f"{topology['hosts_per_tor']} have {topology['hosts']}")
    if not 2 <= topology["hosts"] <= HOSTS_MAX or switches > SWITCHES_MAX:
        raise ScenarioError(f"topology: {topology['hosts']} hosts and {switches} switches; a {kind} has 2 to "
                            f"{HOSTS_MAX} hosts and at most {SWITCHES_MAX} switches")


def _host_list(text, hosts, where):
    first, _, last = text.replace("h", "").partition("..")
    numbers = range(int(first), int(last or first) + 1)
    for n in (numbers or [int(first)]):
        if n >= hosts:
            raise ScenarioError(f"{where} = {text!r}: there is no h{n}; the hosts are h0 to "
                                f"h{hosts - 1}")
    if not numbers:
        raise ScenarioError(f"{where} = {text!r}: the first number is larger than the last")
    return [f"h{n}" for n in numbers]


def _tables(kind, given):
    """Yield the name and the values of each table, such as [[flow]]."""
    for i, table in enumerate(given):
        yield f"{kind}.{i}", parse_section(KEYS[kind], table, f"{kind}.{i}")


def _expand(given, hosts, cc, seed, known):
    """Turn [[flow]] tables into flows: for each source, as many flows as the key count gives. The seed determines the
    random delay of each flow's start, which is at most the value of the key spread in the flow's table. known: the
    classes.
    """
    drawn = random.Random(seed)
    flows = []
    for where, values in _tables("flow", given):
        sinks = _host_list(values["to"], hosts, f"{where}.to")
        if len(sinks) != 1:
            raise ScenarioError(f"{where}.to = {shown(values['to'])}: has to be one host")
        start, dst, name = values["start"], sinks[0], values["cc"] or cc
        chosen = classes.known(known, values["class"], f"{where}.class")
        for src in _host_list(values["from"], hosts, f"{where}.from"):
            if src == dst:
                raise ScenarioError(f"{where}: from and to are both {src}")
            for _ in range(values["count"]):
                begin = start + drawn.randrange(values["spread"] + 1)
                flows.append(Flow(len(flows), src, dst, values["bytes"], begin, name, class_name=chosen))
                if values["reverse"] != 0:
                    flows.append(Flow(len(flows), dst, src, values["reverse"], begin, name,
                                      str(len(flows) - 1), chosen))
                start += values["spacing"]
        if len(flows) > FLOWS_BEFORE_MAX:
            raise ScenarioError(f"flow: {len(flows)} flows; at most {FLOWS_BEFORE_MAX} are possible")
    return flows


def _expand_rpcs(given, hosts, cc, known):
    rpcs = []
    for where, values in _tables("rpc", given):
        dst = _host_list(values["to"], hosts, f"{where}.to")[0]
        if values["count"] is None and not values["until"]:
            raise ScenarioError(f"{where}: has to have count or until")
        for src in _host_list(values["from"], hosts, f"{where}.from"):
            if src == dst:
                raise ScenarioError(f"{where}: from and to are both {src}")
            rpcs.append(Rpc(len(rpcs), src, dst, values["request"], values["response"],
                            values["count"] or 0, values["until"] or 0, values["think"],
                            values["start"], values["cc"] or cc,
                            classes.known(known, values["class"], f"{where}.class")))
    if len(rpcs) > RPCS_MAX:
        raise ScenarioError(f"rpc: {len(rpcs)} connections; at most {RPCS_MAX} are possible")
    return rpcs


def _expand_collectives(given, hosts, cc):
    made = []
    for i, table in enumerate(given):
        where = f"collective.{i}"
        values = parse_section(KEYS["collective"], table, where)
        ranks = [host for text in values["ranks"] for host in _host_list(text, hosts, f"{where}.ranks")]
        twice = [host for n, host in enumerate(ranks) if host in ranks[:n]]
        if twice or len(ranks) < 2:
            raise ScenarioError(f"{where}.ranks = {shown(table['ranks'])}: "
                                + (f"{twice[0]} is there twice" if twice else "1 host")
                                + f"; from 2 to {hosts} different hosts are possible")
        if values["bytes"] < len(ranks):
            raise ScenarioError(f"{where}.bytes = {values['bytes']}: has to be at least 1 for each of the "
                                f"{len(ranks)} ranks, {len(ranks)}B to {units.SIZE_MAX // 10**9}GB")
        made.append(collective.Collective(i, values["kind"], ranks, values["bytes"], values["steps"], values["start"],
                                          values["cc"] or cc))
    count = sum(collective.connections(one.kind, len(one.ranks)) for one in made)
    if count > EDGES_MAX:
        raise ScenarioError(f"collective: {count} connections; at most {EDGES_MAX} are possible")
    return made


def _expand_runs(given, hosts):
    runs = []
    for where, values in _tables("run", given):
        run = Program(values["host"], values["command"], values["package"], values["may_fail"],
                      values["start"], values["stop"])
        for host in (run.host, *run.named()):
            _host_list(host, hosts, f"{where}.{'host' if host == run.host else 'command'}")
        if run.stop_ns not in (None, "end") and run.stop_ns <= run.start_ns:
            raise ScenarioError(f"{where}.stop: has to be later than {where}.start")
        if not run.package:
            _check_installed(run.command, where)
        runs.append(run)
    return runs


def _expand_events(given, scenario):
    """Return the events in the order of their times; events of the same time keep the order of the file."""
    events = list(_tables("event", given))
    for where, event in events:
        if sum(event[key] is not None for key in ("down", "up", "rate")) != 1:
            raise ScenarioError(f"{where}: has to have one of down, up and rate")
        if event["link"] not in _link_names(scenario):
            raise ScenarioError(f"{where}.link = {shown(event['link'])}: there is no such link; links "
                                "are two neighbours such as s0-h0")
        if event["at"] >= scenario.measure["deadline"]:
            raise ScenarioError(f"{where}.at: has to be earlier than measure.deadline")
    return sorted((event for _, event in events), key=lambda event: event["at"])


def installed(program):
    """Return whether the shell of a guest, which sees the /usr of this host, finds the program."""
    return subprocess.run(["sh", "-c", 'command -v "$1"', "sh", program], env={"PATH": GUEST_PATH},
                          stdout=subprocess.DEVNULL, check=False).returncode == 0


def _check_installed(command, where):
    try:
        words = shlex.split(command)
    except ValueError as err:
        raise ScenarioError(f"{where}.command: {err}") from None
    words = [word for word in words if not re.match(r"\w+=", word)]
    if not words or not installed(words[0]):
        raise ScenarioError(f"{where}.command = {shown(command)}: there is no program "
                            f"{short(words[0]) if words else ''} in {GUEST_PATH}")


def _groups(values, shape):
    """Return senders and receivers. A load of 1 fills the links of the group with the lower total rate."""
    hosts = len(shape.hosts)
    senders, receivers = (_host_list(values[key], hosts, f"workload.{key}") if values[key] else shape.hosts
                          for key in ("from", "to"))
    if len(set(senders) | set(receivers)) < 2:
        raise ScenarioError("workload: from and to are the same host")
    total_bps = min(sum(shape.access(host)["rate"] for host in group) for group in (senders, receivers))
    return workload.Groups([int(host[1:]) for host in senders], [int(host[1:]) for host in receivers],
                           total_bps)


def _check_workload(values):
    """Check that the given keys may be combined. Return the key that selects the source of the flows."""
    drawn, incast = ("cdf", "load", "duration"), values["incast"]
    sources = [key for key in ("cdf", "flows", "list", "incast") if values[key] is not None]
    if not sources or (len(sources) > 1 and sources != ["cdf", "incast"]) or (
            sources[0] in ("flows", "list") and any(values[k] is not None for k in drawn)):
        raise ScenarioError("workload: has to have either flows, or cdf, load and duration, or incast and "
                            "duration")
    missing = [k for k in (drawn if values["cdf"] is not None else ("duration",) if incast else ())
               if not values[k]]
    if missing:
        raise ScenarioError(f"workload.{missing[0]}: missing or 0")
    if incast and incast["load"] + (values["load"] or 0) >= 1:
        raise ScenarioError("workload.incast.load: together with workload.load it has to be less than 1")
    if (values["connect"] == "pool") != (values["pool"] is not None):
        raise ScenarioError('workload.pool: must be given if workload.connect is "pool", and only then')
    return sources[0]


def _draw(flows, values, shape, seed, directory, cc, names):
    """Add the flows of [workload]."""
    key, groups = _check_workload(values), _groups(values, shape)
    hosts, incast = len(shape.hosts), values["incast"]
    if incast and incast["from"] > len(set(groups.senders) - {groups.receivers[0]}):
        raise ScenarioError(f"workload.incast.from = {incast['from']}: the group has too few other hosts")
    try:
        made = []
        if key in ("flows", "list"):
            made = workload.read_flows(values["flows"], directory, hosts, values["skip"] or 0) if key == "flows" else \
                workload.listed(values["list"], hosts)
        else:
            if key == "cdf":
                made = workload.arrivals(workload.Sizes(values["cdf"], directory), values["load"],
                                         groups, values["duration"], seed)
            if incast:
                made = heapq.merge(made, workload.incasts(incast, groups, values["duration"], seed),
                                   key=lambda flow: flow[0])
        most = (FLOWS_BEFORE_MAX if values["connect"] == "before" else FLOWS_MAX) - len(flows)
        flows.draw(itertools.islice(made, most + 1), cc, values["connect"], names)
    except workload.WorkloadError as err:
        more = f" (or one of {', '.join(workload.names())})" if key == "cdf" else ""
        raise ScenarioError(f"workload.{key} = {shown(values[key])}: {err}{more}") from None
    count = len(flows.drawn[0])
    if not 1 <= count <= most:
        raise ScenarioError(f"workload: {f'more than {most}' if count else 0} flows; from 1 to {most} are possible"
                            + (f', and {FLOWS_MAX} with connect = "start" or "pool"' if most < FLOWS_MAX else ""))
    early = sum(min(values["pool"], n) for n in Counter(zip(*flows.drawn[1:3])).values()) if values["pool"] else 0
    if early > FLOWS_BEFORE_MAX - len(flows.given):
        raise ScenarioError(f"workload.pool = {values['pool']}: {early} connections at time zero; at most "
                            f"{FLOWS_BEFORE_MAX - len(flows.given)} are possible")


def _arrivals_end(values, scenario):
    """Time at which the flows of [workload] stop arriving; 0 if the end of the first flow closes the window."""
    last = scenario.flows.last_ns() if values["flows"] is not None else 0
    return values["duration"] or (last if last > scenario.measure["from"] else 0)


def _check_measure(measure, scenario):
    flows = scenario.flows
    last = max(flows.last_ns(), *(one.start_ns for one in (*scenario.rpcs, *scenario.collectives, *scenario.runs)), 0)
    if measure["until"] and measure["until"] <= measure["from"]:
        raise ScenarioError(f"measure.until = {measure['until']} ns: has to be later than measure.from, "
                            f"{measure['from']} ns")
    if not measure["until"] and any(flow.bytes is None for flow in flows.given):
        raise ScenarioError("measure.until: endless flows need it")
    if not measure["until"] and not (flows or scenario.rpcs or scenario.collectives):
        raise ScenarioError("measure.until: a scenario with only programs ([[run]]) needs it")
    if measure["deadline"] <= max(last, measure["from"], measure["until"]):
        raise ScenarioError("measure.deadline: has to be later than the last flow's start and "
                            "than the measurement window")


def _check_ports(scenario):
    there = [f"{port.node}-{port.peer}" for port in Topology(scenario).ports]
    for key in "ports", "pcap":
        for name in scenario.measure[key] or ():
            if name not in there:
                raise ScenarioError(f"measure.{key}: there is no port {short(name)}; a port is a switch and "
                                    f"its neighbour, such as {there[0]}")
    for flow in scenario.measure["qlog"] or ():
        if flow >= len(scenario.flows) or scenario.flows[flow].connect in ("start", "pool"):
            raise ScenarioError(f"measure.qlog: there is no flow {flow} that is connected before time zero")
    if scenario.measure["qlog"] and not installed("python3"):
        raise ScenarioError(f"measure.qlog: there is no python3 in {GUEST_PATH}")
    if scenario.measure["pcap"] and not installed("tcpdump"):
        raise ScenarioError(f"measure.pcap: there is no tcpdump in {GUEST_PATH}")


def _check_carrier(scenario):
    carrier = scenario.cc["carrier"]
    stamps = (scenario.qdisc["stamp"] or carrier or "tcp").split(",")
    if scenario.qdisc["int_window"] and not {"int", "csig"} & set(stamps):
        raise ScenarioError("qdisc.int_window: needs qdisc.stamp or cc.carrier with int or csig")
    for key in "csig_abw", "csig_time":
        if scenario.cc[key] and carrier != "csig":
            raise ScenarioError(f'cc.{key}: needs cc.carrier = "csig"')
    if carrier == "csig" and (scenario.topology["kind"] in TREES or scenario.qdisc["stamp"]):
        raise ScenarioError('cc.carrier = "csig": needs bridges (no tree), and no qdisc.stamp')
    if carrier not in ("ioam", "int", "ifa"):
        return
    if carrier == "ioam" and scenario.ip != 6:
        raise ScenarioError('cc.carrier = "ioam": needs ip = 6')
    if any(event["rate"] is not None for event in scenario.events):
        raise ScenarioError(f'cc.carrier = "{carrier}": does not support event.rate, because the '
                            'receivers have a fixed table of B')


def _check_observe(scenario):
    names, stamps = set(scenario.cc_names()), (scenario.qdisc["stamp"] or scenario.cc["carrier"] or "tcp").split(",")
    if names <= TELEMETRY:
        raise ScenarioError(f"cc.observe = true: {' and '.join(names)} reads telemetry itself; --cc NAME chooses a "
                            "congestion control to observe")
    if not {"tcp", "mixed"} & set(stamps):
        raise ScenarioError("cc.observe = true: needs tcp in qdisc.stamp or cc.carrier")
    count = len(scenario.flows) + len(scenario.rpcs) + sum(len(one.edges) for one in scenario.collectives)
    if count > OBSERVED_MAX:
        raise ScenarioError(f"cc.observe = true: {count} connections; at most {OBSERVED_MAX} are possible")


def _link_names(scenario):
    return {name for a, b in Topology(scenario).links for name in (f"{a}-{b}", f"{b}-{a}")}


def _check_links(scenario):
    """Check that each link with a section of its own exists."""
    there = _link_names(scenario)
    for name in scenario.links:
        twin = "-".join(reversed(name.split("-")))
        if twin != name and twin in scenario.links:
            raise ScenarioError(f"link.{short(name)}: is the same link as link.{short(twin)}")
        if name in CLASSES and "rate_back" in scenario.links[name]:
            raise ScenarioError(f"link.{name}.rate_back: has to be in the section of one link, such as [link.s0-h0]")
        if name not in CLASSES and name not in there:
            raise ScenarioError(f"link.{short(name)}: there is no such link; allowed: "
                                + ", ".join(CLASSES) + ", or two neighbours such as s0-h0")


def _check_qdisc(qdisc, link, own, where):
    """Refuse the values of the scenario that tc would refuse. own: the keys that the section [where] gives; the
    other keys come from [link] and [qdisc].
    """
    link = link | own

    def named(key):
        return f"{where if key in own else 'qdisc'}.{key}"
    buffer = f"{where}.buffer, {link['buffer']} bytes"
    packet = link["mtu"] + ETHERNET_BYTES + link["overhead"]
    if link["buffer"] < packet:
        raise ScenarioError(f"{where}.buffer = {link['buffer']}: smaller than a packet of link.mtu, "
                            f"which has {packet} bytes with its header and link.overhead")
    for key in MARKING[1:]:
        if link[key] is None:
            continue
        if link["marking"] == "off":
            raise ScenarioError(f'{named(key)}: requires {named("marking")} = "ldcp"')
        if key != "pmax" and link[key] > link["buffer"]:
            raise ScenarioError(f"{named(key)} = {link[key]}: has to be at most {buffer}")
    queue = qdisc["kind"] or qdisc["queue"]
    if queue != "fifo" and link["marking"] != "off":
        raise ScenarioError(f'{named("marking")} = "{link["marking"]}": needs qdisc.queue = "fifo", because '
                            f'{queue} marks packets itself')
    for key in "above", "respond":
        if qdisc[key] and qdisc[key] > link["buffer"]:
            raise ScenarioError(f"qdisc.{key} = {qdisc[key]}: has to be at most {buffer}")
    if qdisc["every"] and not qdisc["respond"]:
        raise ScenarioError("qdisc.every: requires qdisc.respond")
    # The default of kmax is the larger of the bytes that are sent in KMAX_NS and KMAX_PACKETS (qdisc/core/mark.c).
    kmax = link["kmax"] or min(max(link["rate"] * KMAX_NS // (8 * 10**9), KMAX_PACKETS * packet), link["buffer"])
    if link["kmin"] and link["kmin"] > kmax:
        raise ScenarioError(f"{named('kmin')} = {link['kmin']}: has to be at most {named('kmax')}, "
                            f"{kmax} bytes" + ("" if link["kmax"] else " unless given"))


def _check_impair(impair, link, queue, where):
    """Check the values for netem, which counts delays in microseconds and needs at least 1 us."""
    if queue != "fifo" and any(impair[key] for key in ("data_loss", "ack_loss", "reorder")):
        raise ScenarioError(f'qdisc.queue = "{queue}": has to be "fifo" with [impair]')
    if impair["reorder"] and (link["delay"] < 1000 or impair["reorder_delay"] < 1000):
        raise ScenarioError(f"impair.reorder: {where}.delay and impair.reorder_delay have to be "
                            "at least 1us")


def _check_base_rtt(scenario):
    """Refuse a base RTT that hpcc or ldcp would refuse as base_rtt_ns; other congestion controls do not use it."""
    if scenario.cc["base_rtt"] != "auto" or not {"hpcc", "powertcp", "ldcp"} & set(scenario.cc_names()):
        return
    shape = Topology(scenario)
    for src, dst in scenario.pairs():
        ns = shape.base_rtt_ns(src, dst)
        if not 1000 <= ns <= 10**9:
            raise ScenarioError(f"the base RTT from {src} to {dst}, from link.delay and host.delay, is {ns} ns, "
                                "but has to be from 1us to 1s; change the delays, or set cc.base_rtt")


def _fill(scenario, data, wanted, seed, directory):
    """Add flows, RPCs, programs and events to a scenario."""
    hosts, cc = scenario.topology["hosts"], scenario.cc["name"]
    if "workload" not in data and not any(data.get(key) for key in LISTS if key not in PASSIVE_LISTS):
        raise ScenarioError("flow: the scenario needs at least one [[flow]] with from, to and bytes, or a "
                            "[workload], [[rpc]], [[collective]] or [[run]]")
    scenario.classes = classes.expand(data.get("class", []), classes.own_ports(scenario.qdisc, scenario.cc["carrier"]))
    scenario.flows = Flows(_expand(data.get("flow", []), hosts, cc, seed, scenario.classes))
    if "workload" in data:
        scenario.workload = {key: wanted[key] for key in ("connect", "pool", "class")}
        names = [classes.known(scenario.classes, name, "workload.class") for name in wanted["class"] or [None]]
        _draw(scenario.flows, wanted, Topology(scenario), seed, directory, cc, names)
    scenario.rpcs = _expand_rpcs(data.get("rpc", []), hosts, cc, scenario.classes)
    scenario.collectives = _expand_collectives(data.get("collective", []), hosts, cc)
    scenario.runs = _expand_runs(data.get("run", []), hosts)
    scenario.events = _expand_events(data.get("event", []), scenario)


def build(data, name, seed=1, directory="."):
    """Check parsed TOML and return a Scenario. directory: the directory of the files that it names."""
    if not name.isprintable():
        raise ScenarioError("the file's name has to be printable")
    _check_tables(data)
    tables = [key for key in KEYS if key]
    for key in data:
        if key not in KEYS[""] and key not in tables:
            allowed = ", ".join([*KEYS[""], *(f"[{t}]" for t in tables)])
            raise ScenarioError(f"{short(key)}: unknown key; allowed: {allowed}{nearest(key, KEYS)}")
    top = parse_section(KEYS[""], {k: v for k, v in data.items() if k in KEYS[""]}, "")
    links = {one: table for one, table in data.get("link", {}).items()
             if isinstance(table, dict) or one in CLASSES}
    given = data | {"link": {k: v for k, v in data.get("link", {}).items() if k not in links}}
    parts = {t: parse_section(KEYS[t], given.get(t, {}), t) for t in tables if t not in LISTS}
    links = {one: {key: value for key, value in
                   parse_section(OF_ONE_LINK, table, f"link.{one}").items() if value is not None}
             for one, table in links.items()}
    _shape(parts["topology"])
    wanted = parts.pop("workload")
    scenario = Scenario(name=name, links=links, **top, **parts)
    _check_links(scenario)
    _fill(scenario, data, wanted, seed, directory)
    if not parts["measure"]["until"]:
        parts["measure"]["until"] = _arrivals_end(wanted, scenario)
    _check_measure(parts["measure"], scenario)
    _check_ports(scenario)
    for where, table in [("link", {}), *((f"link.{one}", table) for one, table in links.items())]:
        _check_qdisc(parts["qdisc"], parts["link"] | {key: parts["qdisc"][key] for key in MARKING}, table,
                     where)
        _check_impair(parts["impair"], parts["link"] | table, scenario.queue(), where)
    if top["ip"] == 6 and parts["link"]["mtu"] < 1280:
        raise ScenarioError(f"link.mtu = {parts['link']['mtu']}: IPv6 needs 1280 or more")
    _check_carrier(scenario)
    if parts["cc"]["observe"]:
        _check_observe(scenario)
    if parts["qdisc"]["kind"] and parts["qdisc"]["queue"] != "fifo":
        raise ScenarioError("qdisc.kind: has to be given without qdisc.queue")
    for cc in filter(is_source, scenario.cc_names()):
        _check_source(cc)
    classes.check(scenario)
    _check_base_rtt(scenario)
    return scenario


def _apply(data, settings, cc, directory):
    """Apply --set and --cc to parsed TOML."""
    _check_tables(data)
    _place_sources(data, directory)
    for assignment in settings:
        _set(data, assignment)
    if cc is not None:
        _set_cc(data, cc)


def load_data(data, name, settings=(), cc=None, seed=1, directory="."):
    """Apply --set and --cc to parsed TOML, then check it and return a Scenario."""
    _apply(data, settings, cc, directory)
    return build(data, name, seed, directory)


def read_toml(path, names=()):
    """Return parsed TOML. names: words that the user may have meant instead of a file that does not exist."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as err:
        raise ScenarioError(f"{path}: {err.strerror}"
                            + (nearest(path, names) if isinstance(err, FileNotFoundError) else "")) from None
    except (ValueError, RecursionError) as err:
        raise ScenarioError(f"{path}: {err}") from None


def _read(path):
    """Return parsed TOML and the path of a scenario file, or of the included scenario of this name."""
    names = [file.stem for file in INCLUDED.glob("*.toml")]
    if path in names and not Path(path).is_file():
        path = INCLUDED / f"{path}.toml"
    return read_toml(path, names), path


def sources(path, settings, cc):
    """The sources of congestion controls that load() would use."""
    data, path = _read(path)
    _apply(data, settings, cc, Path(path).parent)
    return {table[key] for table, key in _given_sources(data)}


def load(path, settings=(), cc=None, seed=1):
    """Read a scenario. Apply --set and --cc, then check it and return a Scenario."""
    data, path = _read(path)
    try:
        return load_data(data, re.sub(r"\.toml$", "", Path(path).name), settings, cc, seed, Path(path).parent)
    except ScenarioError as err:
        raise ScenarioError(f"{path}: {err}") from None
