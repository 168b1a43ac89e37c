# SPDX-License-Identifier: GPL-2.0
"""Scenario files: what may stand in them, and what it means.

Everything is checked before anything boots. An error is one line that names
the key and says what is allowed.
"""

import random
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from . import workload
from .keys import (CLASSES, FLOWS_MAX, KEYS, OF_ONE_LINK, ScenarioError, parse_section, short,
                   show_section, shown)
from .topology import ETHERNET_BYTES, Topology


@dataclass
class Flow:
    """One connection: bytes from one host to another; None: endless."""
    id: int
    src: str
    dst: str
    bytes: int
    start_ns: int
    cc: str


@dataclass
class Scenario:
    """A checked scenario: one attribute per section, flows expanded."""
    name: str
    ip: int
    verify: bool
    topology: dict
    link: dict
    cc: dict
    qdisc: dict
    measure: dict
    impair: dict
    links: dict = field(default_factory=dict)
    flows: list = field(default_factory=list)

    def cc_names(self):
        """The flows' congestion controls, each once."""
        return list(dict.fromkeys(flow.cc for flow in self.flows))

    def settings(self):
        """What build() makes this scenario of again: all that is in force, --set and --cc included,
        and each flow on its own, those of a workload as well.
        """
        parts = {name: show_section(KEYS[name], getattr(self, name)) for name in KEYS
                 if name not in ("", "flow", "workload")}
        parts["link"] |= {name: show_section(OF_ONE_LINK, table) for name, table in self.links.items()}
        return parts | {"ip": self.ip, "verify": self.verify, "flow": [
            {"from": flow.src, "to": flow.dst, "bytes": flow.bytes or "endless", "cc": flow.cc,
             "start": f"{flow.start_ns}ns"} for flow in self.flows]}

    def link_of(self, a, b):
        """What the link between two nodes is like."""
        names = (CLASSES[a.startswith("s") and b.startswith("s")], f"{a}-{b}", f"{b}-{a}")
        return self.link | {key: value for name in names
                            for key, value in self.links.get(name, {}).items()}

    def cc_label(self):
        """What a run is called: "ldcp", or "hpcc+ldcp" where flows differ."""
        return "+".join(self.cc_names())


def _check_tables(data):
    """What --set and --cc change: tables are tables, and flow a list of some."""
    for key in KEYS:
        if key and key != "flow" and not isinstance(data.get(key, {}), dict):
            raise ScenarioError(f"{key}: has to be a table, [{key}], with the keys "
                                + ", ".join(KEYS[key]))
    flows = data.get("flow", [])
    if not isinstance(flows, list) or not all(isinstance(flow, dict) for flow in flows):
        raise ScenarioError("flow: has to be tables, [[flow]], with the keys "
                            + ", ".join(KEYS["flow"]))


def _set(data, assignment):
    """One --set section.key=value; flow.key sets all flows, flow.N.key one."""
    match = re.fullmatch(r"([-A-Za-z_0-9.]+)=(.*)", assignment, re.S)
    if not match:
        raise ScenarioError(f"--set {short(assignment)}: has to be section.key=value")
    path, text = match[1].split("."), match[2]
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        value = text
    *section, key = path
    flows = data.get("flow", [])
    if section[:1] == ["flow"] and not flows:
        raise ScenarioError(f"--set {short(assignment)}: there is no [[flow]] table")
    if not section and key not in KEYS[""]:
        raise ScenarioError(f"--set {short(assignment)}: has to be section.key=value, or one of "
                            + ", ".join(f"{name}=value" for name in KEYS[""]))
    if not section:
        data[key] = value
    elif section == ["flow"]:
        for flow in flows:
            flow[key] = value
    elif section[0] == "flow" and len(section) == 2 and section[1].isdigit():
        if int(section[1]) >= len(flows):
            raise ScenarioError(f"--set {short(assignment)}: there are {len(flows)} [[flow]] tables")
        flows[int(section[1])][key] = value
    elif len(section) == 1 and section[0] in KEYS and section[0]:
        data.setdefault(section[0], {})[key] = value
    elif len(section) == 2 and section[0] == "link" and \
            isinstance(data.setdefault("link", {}).setdefault(section[1], {}), dict):
        data["link"][section[1]][key] = value
    else:
        raise ScenarioError(f"--set {short(assignment)}: has to be section.key=value; sections: "
                            + ", ".join(name for name in KEYS if name))


def _set_cc(data, cc):
    """--cc: of all flows that name none themselves."""
    flows = data.get("flow", [])
    if flows and "workload" not in data and all("cc" in flow for flow in flows):
        raise ScenarioError(f"--cc {cc}: every [[flow]] has a cc of its own; "
                            "--set flow.cc=NAME changes them")
    data.setdefault("cc", {})["name"] = cc


def _shape(topology):
    """Fill in and check the numbers of hosts and switches."""
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
        raise ScenarioError(f"topology.hosts = {hosts}: a dumbbell has as many hosts on the "
                            "left as on the right")
    topology["hosts"] = hosts


def _host_list(text, hosts, where):
    first, _, last = text.replace("h", "").partition("..")
    numbers = range(int(first), int(last or first) + 1)
    for n in (numbers or [int(first)]):
        if n >= hosts:
            raise ScenarioError(f"{where} = {text!r}: there is no h{n}; hosts are h0 to "
                                f"h{hosts - 1}")
    if not numbers:
        raise ScenarioError(f"{where} = {text!r}: the first host is behind the last")
    return [f"h{n}" for n in numbers]


def _expand(given, hosts, cc, seed, drawn_flows):
    """[[flow]] tables into flows: every source, times every copy. Each starts later by what is
    drawn from the seed, up to its table's spread.
    """
    drawn = random.Random(seed)
    if not isinstance(given, list) or not (given or drawn_flows):
        raise ScenarioError("flow: at least one [[flow]] with from, to and bytes is needed, "
                            "or a [workload]")
    flows = []
    for i, table in enumerate(given):
        where = f"flow.{i}"
        values = parse_section(KEYS["flow"], table, where)
        sinks = _host_list(values["to"], hosts, f"{where}.to")
        if len(sinks) != 1:
            raise ScenarioError(f"{where}.to = {shown(values['to'])}: has to be one host")
        start = values["start"]
        for src in _host_list(values["from"], hosts, f"{where}.from"):
            if src == sinks[0]:
                raise ScenarioError(f"{where}: from and to are both {src}")
            for _ in range(values["count"]):
                flows.append(Flow(len(flows), src, sinks[0], values["bytes"],
                                  start + drawn.randrange(values["spread"] + 1),
                                  values["cc"] or cc))
                start += values["spacing"]
    flows += [Flow(len(flows) + i, f"h{src}", f"h{dst}", size, start_ns, cc)
              for i, (start_ns, src, dst, size) in enumerate(drawn_flows)]
    if len(flows) > FLOWS_MAX:
        raise ScenarioError(f"flow: {len(flows)} flows; at most {FLOWS_MAX} are possible")
    return flows


def _workload(values, shape, seed, directory):
    """What [workload] asks for as (start_ns, from, to, bytes)."""
    drawn, hosts = ("cdf", "load", "duration"), len(shape.hosts)
    if values["flows"] is not None:
        key = "flows"
        if any(values[k] is not None for k in drawn):
            raise ScenarioError("workload: has either flows, or cdf, load and duration")
    elif values["cdf"] is not None:
        key = "cdf"
        missing = [k for k in drawn if not values[k]]
        if missing:
            raise ScenarioError(f"workload.{missing[0]}: missing, or 0")
    else:
        raise ScenarioError("workload: has to have flows, or cdf, load and duration")
    try:
        if key == "flows":
            found = workload.read_flows(values["flows"], directory, hosts)
        else:
            total_bps = sum(shape.access(host)["rate"] for host in shape.hosts)
            made = workload.arrivals(workload.Sizes(values["cdf"], directory), values["load"],
                                     total_bps, hosts, values["duration"], seed)
            found = [flow for flow, _ in zip(made, range(FLOWS_MAX + 1))]
    except workload.WorkloadError as err:
        more = f" (or one of {', '.join(workload.names())})" if key == "cdf" else ""
        raise ScenarioError(f"workload.{key} = {shown(values[key])}: {err}{more}") from None
    if not 1 <= len(found) <= FLOWS_MAX:
        raise ScenarioError(f"workload: {'more than ' if found else ''}"
                            f"{min(len(found), FLOWS_MAX)} flows; from 1 to {FLOWS_MAX} are possible")
    return found


def _check_measure(measure, flows):
    last = max(flow.start_ns for flow in flows)
    if measure["until"] and measure["until"] <= measure["from"]:
        raise ScenarioError("measure.until: has to be later than measure.from")
    if not measure["until"] and any(flow.bytes is None for flow in flows):
        raise ScenarioError("measure.until: endless flows need it")
    if measure["deadline"] <= max(last, measure["from"], measure["until"]):
        raise ScenarioError("measure.deadline: has to be later than the last flow's start and "
                            "than the measurement window")


def _check_links(scenario):
    """Links of their own have to be there."""
    there = {name for a, b in Topology(scenario).links for name in (f"{a}-{b}", f"{b}-{a}")}
    for name in scenario.links:
        twin = "-".join(reversed(name.split("-")))
        if twin != name and twin in scenario.links:
            raise ScenarioError(f"link.{short(name)}: is the same link as link.{short(twin)}")
        if name not in CLASSES and name not in there:
            raise ScenarioError(f"link.{short(name)}: there is no such link; allowed: "
                                + ", ".join(CLASSES) + ", or two neighbours such as s0-h0")


def _check_qdisc(qdisc, link, where):
    """What tc would refuse, as far as the scenario itself gives it."""
    packet = link["mtu"] + ETHERNET_BYTES + link["overhead"]
    if link["buffer"] < packet:
        raise ScenarioError(f"{where}.buffer = {link['buffer']}: has to hold a packet of link.mtu, "
                            f"{packet} bytes with its header and link.overhead")
    for key in ("kmin", "kmax", "pmax", "knonect"):
        value = qdisc[key]
        if value is None:
            continue
        if qdisc["marking"] == "off":
            raise ScenarioError(f'qdisc.{key}: has a meaning only with qdisc.marking = "ldcp"')
        if key != "pmax" and value > link["buffer"]:
            raise ScenarioError(f"qdisc.{key} = {value}: has to be at most {where}.buffer, "
                                f"{link['buffer']} bytes")
    if qdisc["above"] and qdisc["above"] > link["buffer"]:
        raise ScenarioError(f"qdisc.above = {qdisc['above']}: has to be at most {where}.buffer, "
                            f"{link['buffer']} bytes")
    if qdisc["kmin"] and qdisc["kmax"] and qdisc["kmin"] > qdisc["kmax"]:
        raise ScenarioError(f"qdisc.kmin = {qdisc['kmin']}: has to be at most qdisc.kmax, "
                            f"{qdisc['kmax']} bytes")


def _check_impair(impair, link, where):
    """netem counts in microseconds, and needs one to begin with."""
    if impair["reorder"] and (link["delay"] < 1000 or impair["reorder_delay"] < 1000):
        raise ScenarioError(f"impair.reorder: {where}.delay and impair.reorder_delay have to be "
                            "at least 1us")


def _check_base_rtt(scenario):
    """What a module would refuse as base_rtt_ns; only these two ask for one."""
    if scenario.cc["base_rtt"] != "auto" or not {"hpcc", "ldcp"} & set(scenario.cc_names()):
        return
    shape = Topology(scenario)
    for src, dst in dict.fromkeys((flow.src, flow.dst) for flow in scenario.flows):
        ns = shape.base_rtt_ns(src, dst)
        if not 1000 <= ns <= 10**9:
            raise ScenarioError(f"link.delay = {scenario.link['delay']} ns: the base RTT from {src} "
                                f"to {dst} is {ns} ns; has to be from 1us to 1s, or give cc.base_rtt")


def build(data, name, seed=1, directory="."):
    """Check parsed TOML and return a Scenario; files that it names are in directory."""
    if not name.isprintable():
        raise ScenarioError("the file's name has to be printable")
    _check_tables(data)
    tables = [key for key in KEYS if key]
    for key in data:
        if key not in KEYS[""] and key not in tables:
            allowed = ", ".join([*KEYS[""], *(f"[{t}]" for t in tables)])
            raise ScenarioError(f"{short(key)}: unknown key; allowed: {allowed}")
    top = parse_section(KEYS[""], {k: v for k, v in data.items() if k in KEYS[""]}, "")
    links = {one: table for one, table in data.get("link", {}).items()
             if isinstance(table, dict) or one in CLASSES}
    given = data | {"link": {k: v for k, v in data.get("link", {}).items() if k not in links}}
    parts = {t: parse_section(KEYS[t], given.get(t, {}), t) for t in tables if t != "flow"}
    links = {one: {key: value for key, value in
                   parse_section(OF_ONE_LINK, table, f"link.{one}").items() if value is not None}
             for one, table in links.items()}
    _shape(parts["topology"])
    wanted = parts.pop("workload")
    scenario = Scenario(name=name, links=links, **top, **parts)
    _check_links(scenario)
    scenario.flows = _expand(data.get("flow", []), parts["topology"]["hosts"], parts["cc"]["name"], seed,
                             _workload(wanted, Topology(scenario), seed, directory)
                             if "workload" in data else [])
    if wanted["duration"] and not parts["measure"]["until"]:
        parts["measure"]["until"] = wanted["duration"]
    _check_measure(parts["measure"], scenario.flows)
    for where, table in [("link", {}), *((f"link.{one}", table) for one, table in links.items())]:
        _check_qdisc(parts["qdisc"], parts["link"] | table, where)
        _check_impair(parts["impair"], parts["link"] | table, where)
    if top["ip"] == 6 and parts["link"]["mtu"] < 1280:
        raise ScenarioError(f"link.mtu = {parts['link']['mtu']}: IPv6 needs 1280 or more")
    _check_base_rtt(scenario)
    return scenario


def load_data(data, name, settings=(), cc=None, seed=1, directory="."):
    """Apply --set and --cc to parsed TOML, check."""
    _check_tables(data)
    for assignment in settings:
        _set(data, assignment)
    if cc is not None:
        _set_cc(data, cc)
    return build(data, name, seed, directory)


def load(path, settings=(), cc=None, seed=1):
    """Read a scenario file, apply --set and --cc, check."""
    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except OSError as err:
        raise ScenarioError(f"{path}: {err.strerror}") from None
    except (ValueError, RecursionError) as err:
        raise ScenarioError(f"{path}: {err}") from None
    try:
        return load_data(data, re.sub(r"\.toml$", "", str(path).rsplit("/", 1)[-1]), settings, cc,
                         seed, Path(path).parent)
    except ScenarioError as err:
        raise ScenarioError(f"{path}: {err}") from None
