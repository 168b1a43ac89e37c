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

from . import units, workload
from .topology import ETHERNET_BYTES, Topology

CC_NAMES = ("hpcc", "ldcp", "cubic", "dctcp", "bbr", "reno")
KINDS = ("star", "chain", "dumbbell")
HOSTS_MAX = 300
SWITCHES_MAX = 30
FLOWS_MAX = 1000
# net.hpcc.w_ai, in bytes.
W_AI_MAX = 1 << 30


class ScenarioError(Exception):
    """One line for the user."""

    def __str__(self):
        return re.sub(r"[\x00-\x1f\x7f]", " ", super().__str__())


def _short(text):
    return text if len(text) <= 80 else text[:77] + "..."


def _shown(value):
    try:
        return _short(repr(value))
    except ValueError:      # an integer with too many digits for repr()
        return "a very long number"


def _integer(low, high):
    def parse(value):
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise ValueError(f"an integer from {low} to {high}")
    return parse


def _choice(*allowed):
    def parse(value):
        if any(value == choice and type(value) is type(choice) for choice in allowed):
            return value
        raise ValueError("one of " + ", ".join(str(a) for a in allowed))
    return parse


def _boolean(value):
    if isinstance(value, bool):
        return value
    raise ValueError("true or false")


def _permille(value):
    """What the kernel takes in thousandths, and not as 0."""
    value = units.fraction(value)
    if not 0.001 <= value <= 1:
        raise ValueError("a fraction from 0.001 to 1")
    return value


def _w_ai(value):
    """("bytes", n) or ("rate", bps): a rate is multiplied by T."""
    try:
        return ("rate", units.rate(value))
    except ValueError:
        pass
    try:
        n = units.size(value)
    except ValueError:
        n = 0
    if not 1 <= n <= W_AI_MAX:
        raise ValueError('1 byte to 1GiB per update such as "26B", or a rate such as "50Mbit" '
                         "(times base_rtt)")
    return ("bytes", n)


def _base_rtt(value):
    if value == "auto":
        return value
    try:
        ns = units.time(value)
    except ValueError:
        ns = None
    if ns == 0 or (ns is not None and 1000 <= ns <= 10**9):
        return ns
    raise ValueError('"auto", 0 (the connection\'s minimum RTT), or a time from 1us to 1s')


def _host(value):
    if isinstance(value, str) and re.fullmatch(r"h[0-9]{1,4}(\.\.h[0-9]{1,4})?", value):
        return value
    raise ValueError('a host such as "h0", or several such as "h0..h15"')


def _bytes(value):
    n = units.size(value)
    if n < 1:
        raise ValueError("at least 1B")
    return n


def _queue(value):
    """What the qdisc holds in 32 bits."""
    n = _bytes(value)
    if n >= 1 << 32:
        raise ValueError("less than 4GiB")
    return n


def _delay(value):
    ns = units.time(value)
    if ns > 10**9:
        raise ValueError("a time of at most 1s")
    return ns


def _flow_bytes(value):
    """None: the flow lasts until the measurement window ends."""
    if value == "endless":
        return None
    try:
        return _bytes(value)
    except ValueError as err:
        raise ValueError(f'{err}, or "endless"') from None


def _path(value):
    if isinstance(value, str) and value and "\0" not in value:
        return value
    raise ValueError("a file's name")


def _load(value):
    value = units.fraction(value)
    if not 0.001 <= value < 1:
        raise ValueError("a fraction from 0.001 to less than 1")
    return value


# section -> key -> (parser, default); a default of ... must be given.
KEYS = {
    "": {
        "ip": (_choice(4, 6), 4),
        "verify": (_boolean, False),
    },
    "topology": {
        "kind": (_choice(*KINDS), "star"),
        "hosts": (_integer(2, HOSTS_MAX), None),
        "switches": (_integer(1, SWITCHES_MAX), None),
    },
    "link": {
        "rate": (units.rate, 100 * 10**9),
        "delay": (_delay, 1000),
        "overhead": (_integer(0, 256), 24),
        "buffer": (_queue, 32 * 10**6),
        "mtu": (_integer(576, 9000), 1500),
    },
    "cc": {
        "name": (_choice(*CC_NAMES), "hpcc"),
        "eta": (_permille, 0.95),
        "max_stage": (_integer(0, 255), 5),
        "n_flows": (_integer(1, 10**6), 100),
        "w_ai": (_w_ai, None),
        "base_rtt": (_base_rtt, "auto"),
        "burst": (_integer(1, 64), None),
        "burst_shift": (_integer(1, 10), None),
        "burst_ns": (_integer(0, 10**6), None),
        "pace": (_integer(0, 1), None),
        "slots": (_integer(1, 3), None),
        "sample": (_integer(0, 64), None),
        "carry": (_integer(0, 1), None),
        "alpha": (_permille, None),
        "beta": (_permille, None),
        "gamma": (_permille, None),
        "iw": (_integer(2, 1 << 20), None),
        "fast_start": (_boolean, None),
    },
    "qdisc": {
        "marking": (_choice("off", "ldcp"), "off"),
        "kmin": (_queue, None),
        "kmax": (_queue, None),
        "pmax": (units.fraction, None),
        "knonect": (_queue, None),
        "above": (_queue, None),
    },
    "flow": {
        "from": (_host, ...),
        "to": (_host, ...),
        "bytes": (_flow_bytes, ...),
        "cc": (_choice(*CC_NAMES), None),
        "start": (units.time, 0),
        "count": (_integer(1, FLOWS_MAX), 1),
        "spacing": (units.time, 0),
        "spread": (units.time, 0),
    },
    "workload": {
        "cdf": (_path, None),
        "load": (_load, None),
        "duration": (units.time, None),
        "flows": (_path, None),
    },
    "measure": {
        "from": (units.time, 0),
        "until": (units.time, 0),
        "interval": (units.time, 0),
        "deadline": (units.time, 60 * 10**9),
    },
    "impair": {
        "data_loss": (units.fraction, 0.0),
        "ack_loss": (units.fraction, 0.0),
        "reorder": (units.fraction, 0.0),
        "reorder_delay": (_delay, 1000),
    },
}

# What [link.access] (between a host and a switch), [link.fabric] (between switches) and a
# [link.s0-s1] of its own may say: otherwise than [link].
CLASSES = ("access", "fabric")
OF_ONE_LINK = {key: (KEYS["link"][key][0], None) for key in ("rate", "delay", "buffer")}


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
        parts = {name: _settings(KEYS[name], getattr(self, name)) for name in KEYS
                 if name not in ("", "flow", "workload")}
        parts["link"] |= {name: _settings(OF_ONE_LINK, table) for name, table in self.links.items()}
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


def _settings(known, values):
    """A section as it could be in a file, without what is left to the module."""
    def text(parse, value):
        if parse is _w_ai:
            return f"{value[1]}" + {"bytes": "B", "rate": "bit"}[value[0]]
        if parse is units.rate:
            return f"{value}bit"
        return f"{value}ns" if parse in (units.time, _delay) or parse is _base_rtt and value != "auto" \
            else value
    return {key: text(known[key][0], value) for key, value in values.items() if value is not None}


def _section(known, given, where):
    """Every key of a section with its parsed or default value."""
    if not isinstance(given, dict):
        raise ScenarioError(f"{where}: has to be a table with the keys {', '.join(known)}")
    prefix = f"{where}." if where else ""
    for key in given:
        if key not in known:
            raise ScenarioError(f"{prefix}{_short(key)}: unknown key; allowed: {', '.join(known)}")
    values = {}
    for key, (parse, default) in known.items():
        if key not in given:
            if default is ...:
                raise ScenarioError(f"{prefix}{key}: missing")
            values[key] = default
            continue
        try:
            values[key] = parse(given[key])
        except ValueError as err:
            raise ScenarioError(
                f"{prefix}{key} = {_shown(given[key])}: has to be {err}") from None
    return values


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
        raise ScenarioError(f"--set {_short(assignment)}: has to be section.key=value")
    path, text = match[1].split("."), match[2]
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (ValueError, RecursionError):
        value = text
    *section, key = path
    flows = data.get("flow", [])
    if section[:1] == ["flow"] and not flows:
        raise ScenarioError(f"--set {_short(assignment)}: there is no [[flow]] table")
    if not section and key not in KEYS[""]:
        raise ScenarioError(f"--set {_short(assignment)}: has to be section.key=value, or one of "
                            + ", ".join(f"{name}=value" for name in KEYS[""]))
    if not section:
        data[key] = value
    elif section == ["flow"]:
        for flow in flows:
            flow[key] = value
    elif section[0] == "flow" and len(section) == 2 and section[1].isdigit():
        if int(section[1]) >= len(flows):
            raise ScenarioError(f"--set {_short(assignment)}: there are {len(flows)} [[flow]] tables")
        flows[int(section[1])][key] = value
    elif len(section) == 1 and section[0] in KEYS and section[0]:
        data.setdefault(section[0], {})[key] = value
    elif len(section) == 2 and section[0] == "link" and \
            isinstance(data.setdefault("link", {}).setdefault(section[1], {}), dict):
        data["link"][section[1]][key] = value
    else:
        raise ScenarioError(f"--set {_short(assignment)}: has to be section.key=value; sections: "
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
        values = _section(KEYS["flow"], table, where)
        sinks = _host_list(values["to"], hosts, f"{where}.to")
        if len(sinks) != 1:
            raise ScenarioError(f"{where}.to = {_shown(values['to'])}: has to be one host")
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
        raise ScenarioError(f"workload.{key} = {_shown(values[key])}: {err}{more}") from None
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
            raise ScenarioError(f"link.{_short(name)}: is the same link as link.{_short(twin)}")
        if name not in CLASSES and name not in there:
            raise ScenarioError(f"link.{_short(name)}: there is no such link; allowed: "
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
            raise ScenarioError(f"{_short(key)}: unknown key; allowed: {allowed}")
    top = _section(KEYS[""], {k: v for k, v in data.items() if k in KEYS[""]}, "")
    links = {one: table for one, table in data.get("link", {}).items()
             if isinstance(table, dict) or one in CLASSES}
    given = data | {"link": {k: v for k, v in data.get("link", {}).items() if k not in links}}
    parts = {t: _section(KEYS[t], given.get(t, {}), t) for t in tables if t != "flow"}
    links = {one: {key: value for key, value in
                   _section(OF_ONE_LINK, table, f"link.{one}").items() if value is not None}
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
