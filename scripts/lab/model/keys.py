# SPDX-License-Identifier: GPL-2.0
"""The keys of scenario files: the values that each key allows, and its default.

If a value is not allowed, a parser raises ValueError with a text that lists the allowed values; parse_section() adds
the name of the key.
"""

import difflib
import math
import os
import re

from . import units

CC_NAMES = ("hpcc", "powertcp", "ldcp", "cubic", "dctcp", "bbr", "reno")
KINDS = ("star", "chain", "dumbbell", "leaf-spine", "fat-tree")
HOSTS_MAX = 600
SWITCHES_MAX = 120
# Hosts for which the IPv4 prefix of a rack has addresses.
HOSTS_PER_TOR_MAX = 250
# Qdiscs that can replace hpcc's own queue. HOST_QUEUES: the qdisc at a host's port, which decides in which order
# packets are sent. PORT_QUEUES: the qdisc at a switch's port, which also decides about drops and marks.
HOST_QUEUES = ("fifo", "fq", "fq_codel", "fq_paced")
PORT_QUEUES = ("fifo", "fq", "fq_codel", "dualpi2")
# Flows of a run, and those whose connections exist at time zero.
FLOWS_MAX, FLOWS_BEFORE_MAX = 3000000, 250000
# Class N, counted from 0, has the DSCP N * CLASS_DSCP: CS0 to CS7. With class_ports its port number is the number of
# the port in its switch plus N * CLASS_PORTS.
CLASSES_MAX, CLASS_DSCP, CLASS_PORTS = 8, 8, 1000
WEIGHT_MAX = 100
# The index of a carrier is its value of net.hpcc.carrier and the number of its bit in HPCC_STAMP_*.
CARRIERS = ("tcp", "ioam", "int", "ifa", "csig")
# Combinations of carriers that a port can fill in; the index is the value of HPCC_STAMP_* minus 1.
STAMPS = tuple(",".join(name for i, name in enumerate(CARRIERS[:4]) if bits >> i & 1) for bits in range(1, 16))
RPCS_MAX = 1000
# Names of congestion controls have at most 15 characters in the kernel.
CC_NAME, SYSCTL = "[A-Za-z0-9_][A-Za-z0-9_-]{0,14}", r"net(\.[A-Za-z0-9_-]+)+"
COLLECTIVES = ("all-reduce-ring", "all-reduce-tree", "all-to-all", "parameter-server")
# Connections of all collectives together.
EDGES_MAX = 10000
# Sections that are lists of tables.
LISTS = ("class", "flow", "rpc", "collective", "run", "event")
# Lists without traffic.
PASSIVE_LISTS = ("class", "event")
# Congestion controls that use telemetry themselves, and connections that cc.observe allows.
TELEMETRY, OBSERVED_MAX = {"hpcc", "powertcp"}, 8192
# net.hpcc.w_ai, in bytes.
W_AI_MAX = 1 << 30
# LDCP_IW_MAX_SEGS of kmod/ldcp/conn.h.
LDCP_IW_MAX = 131072


class ScenarioError(Exception):
    """One line for the user."""

    def __str__(self):
        return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", super().__str__())


def short(text):
    return text if len(text) <= 80 else text[:77] + "..."


def shown(value):
    try:
        return short(repr(value))
    except ValueError:      # an integer with too many digits for repr()
        return "a very long number"


def nearest(word, known):
    """The end of an error message: the known word that is most similar to this one, if any is."""
    found = difflib.get_close_matches(word[:80], known, 1) if isinstance(word, str) else []
    return "".join(f"; did you mean {name}?" for name in found)


def checked(test, what):
    """A parser of the values for which test is true. what: the allowed values, as text."""
    def parse(value):
        if test(value):
            return value
        raise ValueError(what)
    return parse


def matching(pattern, what):
    """A parser of texts that match the pattern."""
    return checked(lambda value: _is_text(value) and re.fullmatch(pattern, value), what)


def within(parse_any, low, high, what):
    """A parser of the values that another parser returns, if they are from low to high."""
    def parse(value):
        value = parse_any(value)
        if not low <= value <= high:
            raise ValueError(what)
        return value
    return parse


def _is_text(value):
    return isinstance(value, str)


def _list_of(test):
    return lambda value: isinstance(value, list) and value and all(map(test, value))


def _unique(parse):
    """A parser of lists in which each item counts once."""
    return lambda value: list(dict.fromkeys(parse(value)))


def _some(parse, what):
    """A parser of one value or of a list of values, which it returns as a list."""
    def parse_some(value):
        try:
            return [parse(one) for one in (value if isinstance(value, list) and value else [value])]
        except ValueError:
            raise ValueError(what) from None
    return parse_some


def _or(parse, word, meaning):
    """A parser that also accepts a word, for which it returns its meaning."""
    def parse_either(value):
        if value == word:
            return meaning
        try:
            return parse(value)
        except ValueError as err:
            raise ValueError(f'{err}, or "{word}"') from None
    return parse_either


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
        names = [str(choice) for choice in allowed]
        raise ValueError("one of " + ", ".join(names) + nearest(value, names))
    return parse


def is_source(name):
    """Whether a congestion control is a file or a directory, and not a name."""
    return "/" in name or name.endswith((".c", ".o"))


def cc_name(value):
    """A name of a congestion control, or a normalized path that contains a "/"."""
    if isinstance(value, str) and is_source(value) and value.isprintable():
        path = os.path.normpath(value)
        return path if "/" in path else f"./{path}"
    if isinstance(value, str) and re.fullmatch(CC_NAME, value):
        return value
    raise ValueError(f"{', '.join(CC_NAMES)}, another name that the kernel has, a .c file, a directory with a Kbuild "
                     "(\"./mine/\"), or a .bpf.o file")


def _parameters(value):
    """{parameter or sysctl: value}, and the same as a table for one congestion control, by its name."""
    if not isinstance(value, dict):
        raise ValueError('a table such as {alpha = 3, "net.ipv4.tcp_sack" = 0}')
    for key, one in value.items():
        if isinstance(one, dict) and re.fullmatch(CC_NAME, key) and not any(isinstance(v, dict) for v in one.values()):
            _parameters(one)
        elif not re.fullmatch(rf"\w+|{SYSCTL}", key):
            raise ValueError(f"a table; {shown(key)} is no parameter of a module, and no sysctl such as net.ipv4.tcp_sack")
        elif (own := re.fullmatch(r"net\.(?:hpcc|ldcp)\.(\w+?)(?:_permille|_ns)?", key)) and \
                own[1] in (*KEYS["cc"], "host_mbps"):
            raise ValueError(f"a table; {shown(key)} is a key of [cc], or follows from the links")
        elif not isinstance(one, (bool, int, float, str)) or not re.fullmatch(
                r"[-+.,:\w]+( [-+.,:\w]+)*" if "." in key else r"[-+.,:\w]+", str(one)):
            raise ValueError(f"a table; {shown(key)} needs a number, true, false, or a word"
                             + (" or several, with a space between two" if "." in key else ""))
    return value


def _stamp(value):
    """Carriers, sorted in the order of CARRIERS."""
    names = value.split(",") if isinstance(value, str) else [""]
    if value == "mixed":
        return value
    if not set(names) <= set(CARRIERS[:4]):
        raise ValueError(", ".join(CARRIERS[:4]) + ', several of these separated by commas, or mixed; for csig set cc.carrier')
    return ",".join(name for name in CARRIERS[:4] if name in names)


def _w_ai(value):
    """Return ("bytes", n) or ("rate", bps), which is multiplied by T later; or None for 0: W_ai follows from n_flows."""
    if value in (0, "0"):
        return None
    try:
        return ("rate", units.rate(value))
    except ValueError:
        pass
    try:
        n = units.size(value)
    except ValueError:
        n = 0
    if not 1 <= n <= W_AI_MAX:
        raise ValueError('0 (by n_flows), 1 byte to 1GiB per update such as "26B", or a rate such as "50Mbit" '
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


def _incast(value):
    """A number of hosts that send to one other host at the same time, and the bytes that each sends."""
    if not isinstance(value, dict):
        raise ValueError('a table such as {from = 60, bytes = "500KB", load = "2%"}')
    try:
        return parse_section(INCAST, value, "incast")
    except ScenarioError as err:
        raise ValueError(f"a table of from, bytes and load; {err}") from None


boolean = checked(lambda value: isinstance(value, bool), "true or false")
_true = checked(lambda value: value is True, "true")
# A fraction that the kernel stores in thousandths, where 0 is not allowed.
_permille = within(units.fraction, 0.001, 1, "a fraction from 0.001 to 1")
load = within(units.fraction, 0.001, math.nextafter(1, 0), "a fraction from 0.001 to less than 1")
_bytes = within(units.size, 1, units.SIZE_MAX, "at least 1B")
# A size that the qdisc stores in 32 bits.
_queue = within(_bytes, 1, (1 << 32) - 1, "less than 4GiB")
_delay = within(units.time, 0, 10**9, "a time of at most 1s")
_every = within(units.time, 1000, 10**9, "a time from 1us to 1s")
# None: the flow lasts until the measurement window ends.
_flow_bytes = _or(_bytes, "endless", None)
_stop = _or(units.time, "end", "end")
file_name = checked(lambda value: _is_text(value) and value and "\0" not in value, "a file's name")
_command = checked(lambda value: _is_text(value) and value.strip() and value.isprintable(),
                   "a command of the shell in one line")
# tc joins lines after a backslash, and knows quotes and comments.
_kind = checked(
    lambda value: _is_text(value) and value.isprintable() and re.fullmatch(r"""[a-z][a-z0-9_]*( [^"'\\#]*)?""", value),
    'a queue discipline with its options, as for tc, such as "cake bandwidth 10gbit"')
_package = matching("[a-z0-9][a-z0-9+.-]*", "the name of a Debian package")
_link = matching("[a-z][0-9]{1,4}-[a-z][0-9]{1,4}", 'two neighbours such as "s0-h0"')
_one_host = matching("h[0-9]{1,4}", 'a host such as "h0"')
_host = matching(r"h[0-9]{1,4}(\.\.h[0-9]{1,4})?", 'a host such as "h0", or several such as "h0..h15"')
_hosts = _some(_host, 'hosts such as "h0..h15" or ["h0..h3", "h8"]')
_name = matching("[A-Za-z0-9_-]{1,16}", "a name of 1 to 16 letters, digits, '-' and '_'")
_names = _some(_name, 'the name of a [[class]], or a list of names such as ["gold", "bulk"]')
_texts = checked(_list_of(_is_text), "a list of texts")
_ports = _unique(checked(_list_of(_is_text), 'a list of ports such as ["s0-h3"]'))
_flows = _unique(checked(_list_of(lambda flow: type(flow) is int and 0 <= flow < FLOWS_MAX),
                         "a list of flows such as [0, 3], by their id in results.json"))


# section -> key -> (parser, default); a key whose default is ... must be given.
KEYS = {
    "": {
        "ip": (_choice(4, 6), 4),
        "verify": (boolean, False),
    },
    "topology": {
        "kind": (_choice(*KINDS), "star"),
        "hosts": (_integer(2, HOSTS_MAX), None),
        "switches": (_integer(1, SWITCHES_MAX), None),
        "pods": (_integer(1, SWITCHES_MAX), None),
        "tors": (_integer(1, SWITCHES_MAX), None),
        "hosts_per_tor": (_integer(1, HOSTS_PER_TOR_MAX), None),
        "spines": (_integer(1, SWITCHES_MAX), None),
        "aggs": (_integer(1, SWITCHES_MAX), None),
        "cores": (_integer(1, SWITCHES_MAX), None),
        "reroute": (_delay, 100000),
    },
    "link": {
        "rate": (units.rate, 100 * 10**9),
        "delay": (_delay, 1000),
        "overhead": (_integer(0, 256), 24),
        "buffer": (_queue, 32 * 10**6),
        "mtu": (_integer(576, 9000), 1500),
    },
    "host": {
        "delay": (_delay, 0),
        "delay_out": (_delay, None),
        "delay_in": (_delay, None),
        "queue": (_choice(*HOST_QUEUES), "fq"),
        "stamp": (boolean, False),
    },
    "cc": {
        "name": (cc_name, "hpcc"),
        "parameters": (_parameters, None),
        "eta": (_permille, 0.95),
        "max_stage": (_integer(0, 255), 0),
        "settle": (_integer(0, 64), None),
        "per_rtt": (_integer(0, 1), None),
        "n_flows": (_integer(0, 10**6), 100),
        "w_ai": (_w_ai, None),
        "base_rtt": (_base_rtt, "auto"),
        "burst": (_integer(1, 64), None),
        "pace": (_integer(0, 1), None),
        "slots": (_integer(1, 3), None),
        "sample": (_integer(0, 64), None),
        "carry": (_integer(0, 1), None),
        "where": (_integer(0, 1), None),
        "carrier": (_choice(*CARRIERS), None),
        "ioam_nodes": (_integer(1, 12), None),
        "csig_abw": (_integer(1, 1000), None),
        "csig_time": (_integer(1, 10**6), None),
        "alpha": (_permille, None),
        "beta": (_permille, None),
        "gamma": (_permille, None),
        "cw_min": (_permille, None),
        "iw": (_integer(2, LDCP_IW_MAX), None),
        "fast_start": (boolean, None),
        "observe": (boolean, None),
    },
    "qdisc": {
        "queue": (_choice(*PORT_QUEUES), "fifo"),
        "kind": (_kind, None),
        "marking": (_choice("off", "ldcp"), "off"),
        "kmin": (_queue, None),
        "kmax": (_queue, None),
        "pmax": (units.fraction, None),
        "knonect": (_queue, None),
        "above": (_queue, None),
        "respond": (_queue, None),
        "every": (_every, None),
        "int_window": (_every, None),
        "stamp": (_stamp, None),
        "class_ports": (boolean, None),
    },
    "class": {
        "name": (_name, ...),
        "weight": (_integer(1, WEIGHT_MAX), None),
        "priority": (_integer(1, CLASSES_MAX), None),
        "share": (_permille, None),
    },
    "flow": {
        "from": (_host, ...),
        "to": (_host, ...),
        "bytes": (_flow_bytes, ...),
        "cc": (cc_name, None),
        "class": (_name, None),
        "start": (units.time, 0),
        "count": (_integer(1, FLOWS_BEFORE_MAX), 1),
        "spacing": (units.time, 0),
        "spread": (units.time, 0),
        "reverse": (_flow_bytes, 0),
    },
    "rpc": {
        "from": (_host, ...),
        "to": (_one_host, ...),
        "request": (_bytes, ...),
        "response": (_bytes, ...),
        "count": (_integer(1, 10**6), None),
        "until": (units.time, None),
        "think": (units.time, 0),
        "start": (units.time, 0),
        "cc": (cc_name, None),
        "class": (_name, None),
    },
    "collective": {
        "kind": (_choice(*COLLECTIVES), ...),
        "ranks": (_hosts, ...),
        "bytes": (_bytes, ...),
        "steps": (_integer(1, 10**5), 10),
        "start": (units.time, 0),
        "cc": (cc_name, None),
    },
    "run": {
        "host": (_one_host, ...),
        "command": (_command, ...),
        "package": (_package, None),
        "may_fail": (boolean, False),
        "start": (units.time, 0),
        "stop": (_stop, None),
    },
    "event": {
        "at": (units.time, ...),
        "link": (_link, ...),
        "down": (_true, None),
        "up": (_true, None),
        "rate": (units.rate, None),
    },
    "workload": {
        "cdf": (file_name, None),
        "load": (load, None),
        "duration": (units.time, None),
        "flows": (file_name, None),
        "list": (_texts, None),
        "skip": (_integer(0, FLOWS_MAX), None),
        "from": (_host, None),
        "to": (_host, None),
        "incast": (_incast, None),
        "connect": (_choice("before", "start", "pool"), "before"),
        "pool": (_integer(1, 1000), None),
        "class": (_names, None),
    },
    "measure": {
        "from": (units.time, 0),
        "until": (units.time, 0),
        "interval": (units.time, 0),
        "deadline": (units.time, 60 * 10**9),
        "ports": (_ports, None),
        "pcap": (_ports, None),
        "qlog": (_flows, None),
    },
    "impair": {
        "data_loss": (units.fraction, 0.0),
        "ack_loss": (units.fraction, 0.0),
        "reorder": (units.fraction, 0.0),
        "reorder_delay": (_delay, 1000),
    },
}

INCAST = {"from": (_integer(1, HOSTS_MAX), ...), "bytes": (_bytes, ...), "load": (load, ...)}

# Keys of [link.access] (links between a host and a switch), [link.fabric] (between switches), [link.core] (of core
# switches), and of one link such as [link.s0-s1]. They override those of [link] and [qdisc].
CLASSES = ("access", "fabric", "core")
MARKING = ("marking", "kmin", "kmax", "pmax", "knonect")
OF_ONE_LINK = {key: (KEYS[section][key][0], None) for section, keys in
               (("link", ("rate", "delay", "buffer")), ("qdisc", MARKING)) for key in keys}
# Only in a section such as [link.s0-s1]: the rate from s1 to s0.
OF_ONE_LINK["rate_back"] = (units.rate, None)


def show_section(known, values):
    """Return {key: value} of a section in the form of a scenario file, without the keys whose value is None."""
    def text(parse, value):
        if parse is _w_ai:
            return f"{value[1]}" + {"bytes": "B", "rate": "bit"}[value[0]]
        if parse is units.rate:
            return f"{value}bit"
        return f"{value}ns" if parse in (units.time, _delay, _every) or parse is _base_rtt and value != "auto" \
            else value
    return {key: text(known[key][0], value) for key, value in values.items() if value is not None}


def parse_section(known, given, where):
    """Every key of a section with its parsed or default value."""
    if not isinstance(given, dict):
        raise ScenarioError(f"{where}: has to be a table with the keys {', '.join(known)}")
    prefix = f"{where}." if where else ""
    for key in given:
        if key not in known:
            raise ScenarioError(f"{prefix}{short(key)}: unknown key; allowed: {', '.join(known)}"
                                + nearest(key, known))
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
                f"{prefix}{key} = {shown(given[key])}: has to be {err}") from None
    return values
