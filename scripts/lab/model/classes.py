# SPDX-License-Identifier: GPL-2.0
"""The classes of a scenario, [[class]]: each switch port has one queue for each class.

Classes have weights (deficit round robin) or priorities. The DSCP of a packet determines its class.
"""

from dataclasses import dataclass

from .keys import CLASS_DSCP, CLASS_PORTS, CLASSES_MAX, KEYS, ScenarioError, parse_section, shown
from .topology import Topology


# HPCC_RATE_MIN of the qdisc, bit/s.
RATE_MIN = 1000


@dataclass
class Class:
    """One class. number: index in the scenario file, from 0; the first class also has the packets of no class."""
    number: int
    name: str
    weight: int             # None: the class has a priority
    priority: int           # 1 is sent first
    share: float            # part of each link that the class has while all classes are busy
    own_port: bool = False  # whether the class has a port number of its own

    @property
    def dscp(self):
        """DSCP of the packets of the class."""
        return self.number * CLASS_DSCP

    def port(self, port):
        """Number of the queue of the class in telemetry. port: number of the switch port."""
        return port + self.number * CLASS_PORTS * self.own_port


def expand(given, own_port):
    """Return the classes of the [[class]] tables. own_port: each has a port number of its own."""
    tables = [parse_section(KEYS["class"], table, f"class.{i}") for i, table in enumerate(given)]
    if len(tables) > CLASSES_MAX:
        raise ScenarioError(f"class: {len(tables)} classes; at most {CLASSES_MAX} are possible")
    for i, table in enumerate(tables):
        _check_keys(tables, i)
        for key in "name", "priority":
            if table[key] is not None and any(table[key] == other[key] for other in tables[:i]):
                raise ScenarioError(f"class.{i}.{key} = {shown(table[key])}: another class has this {key}")
    if tables and tables[0]["weight"]:
        total = sum(table["weight"] for table in tables)
        shares = [table["weight"] / total for table in tables]
    else:
        shares = _shares(tables)
    return [Class(i, table["name"], table["weight"], table["priority"], share, own_port)
            for i, (table, share) in enumerate(zip(tables, shares))]


def _check_keys(tables, i):
    """Check that a class has a weight or a priority, and that all classes have the same of these keys."""
    table = tables[i]
    if (table["weight"] is None) == (table["priority"] is None):
        raise ScenarioError(f"class.{i}: has to have one of weight and priority")
    if (table["weight"] is None) != (tables[0]["weight"] is None):
        raise ScenarioError(f"class.{i}: either all classes have a weight, or all have a priority")
    if table["weight"] and table["share"]:
        raise ScenarioError(f"class.{i}.share: is allowed with priority; weights determine the shares of their classes")


def _shares(tables):
    """Return the shares of classes with priorities. Classes without a share have equal parts of the rest."""
    rest = 1 - sum(table["share"] or 0 for table in tables)
    unset = sum(table["share"] is None for table in tables)
    if rest < -1e-9 or unset and rest < 1e-3:
        raise ScenarioError("class.share: the shares of all classes have to be at most 1 (100 %) together"
                            + (", and less if some classes have no share" if unset else ""))
    return [rest / unset if table["share"] is None else table["share"] for table in tables]


def known(classes, name, where):
    """Return name if there is such a class, or if it is None."""
    if name is not None and name not in (found := [one.name for one in classes]):
        raise ScenarioError(f"{where} = {shown(name)}: there is no such class; "
                            + (f"classes: {', '.join(found)}" if found else "the scenario has no [[class]]"))
    return name


def own_ports(qdisc, carrier):
    """Whether each class has a port number of its own. Without it, the traces of all classes would be one link."""
    return carrier in ("ioam", "ifa") if qdisc["class_ports"] is None else qdisc["class_ports"]


def check(scenario):
    """Refuse what a port with classes does not support."""
    if not scenario.classes:
        return
    if scenario.cc["carrier"] in ("ioam", "ifa") and scenario.qdisc["class_ports"] is False:
        raise ScenarioError(f'qdisc.class_ports: has to be true with cc.carrier = "{scenario.cc["carrier"]}"')
    if scenario.queue() != "fifo":
        raise ScenarioError(f'qdisc.queue = "{scenario.queue()}": has to be "fifo" with [[class]]')
    if scenario.cc["carrier"] in ("int", "csig"):
        raise ScenarioError(f'cc.carrier = "{scenario.cc["carrier"]}": has to be one of tcp, ioam, ifa with [[class]], '
                            "because switches find the class by DSCP")
    if any(event["rate"] is not None for event in scenario.events):
        raise ScenarioError("event.rate: is not possible with [[class]]; allowed: down, up")
    slowest = min(link["rate"] for link in Topology(scenario).all_links())
    if min(one.share for one in scenario.classes) * slowest < RATE_MIN:
        raise ScenarioError(f"class: the share of each class has to be {RATE_MIN} bit/s or more on each link")
