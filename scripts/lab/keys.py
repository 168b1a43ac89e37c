# SPDX-License-Identifier: GPL-2.0
"""The keys of scenario files: what each may hold, and its default.

A parser raises ValueError saying what is allowed; parse_section() names the key.
"""

import re

from . import units

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


def short(text):
    return text if len(text) <= 80 else text[:77] + "..."


def shown(value):
    try:
        return short(repr(value))
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


def show_section(known, values):
    """A section as it could be in a file, without what is left to the module."""
    def text(parse, value):
        if parse is _w_ai:
            return f"{value[1]}" + {"bytes": "B", "rate": "bit"}[value[0]]
        if parse is units.rate:
            return f"{value}bit"
        return f"{value}ns" if parse in (units.time, _delay) or parse is _base_rtt and value != "auto" \
            else value
    return {key: text(known[key][0], value) for key, value in values.items() if value is not None}


def parse_section(known, given, where):
    """Every key of a section with its parsed or default value."""
    if not isinstance(given, dict):
        raise ScenarioError(f"{where}: has to be a table with the keys {', '.join(known)}")
    prefix = f"{where}." if where else ""
    for key in given:
        if key not in known:
            raise ScenarioError(f"{prefix}{short(key)}: unknown key; allowed: {', '.join(known)}")
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
