# SPDX-License-Identifier: GPL-2.0
"""What a segment costs: the files of scripts/vm/count.c, the samples of guestbench.py,
and the tables that scripts/bench-kernel makes of them."""

from collections import Counter, defaultdict
from statistics import median

# Ethernet, IPv4, TCP and its timestamps: what a packet has without our option.
PLAIN_BYTES = 14 + 20 + 20 + 12
SENDER = ("sender_out", "sender_in")
# Here an instruction is a byte; a CPU does many at a time.
BYTEWISE = ("memset", "memcpy", "memmove", "clear_page", "copy_user", "copy_page",
            "rep_movs", "rep_stos")
# Functions that take less of a sample are left out of results.json.
LEAST_PART = 0.0005


class Profile:
    """One file of count.c: instructions and calls by function, module and role."""

    def __init__(self, lines):
        self.insns, self.calls = Counter(), Counter()
        self.acks = {}
        for line in lines:
            kind, *words = line.split()
            if kind == "function":
                name, module, role, insns, calls = words
                # A function that the compiler cut into parts is one.
                key = name.split(".")[0], module, role
                self.insns[key] += int(insns)
                if "." not in name or name.split(".")[1] in ("isra", "constprop"):
                    self.calls[key] += int(calls)
            elif kind == "ack":
                self.acks[int(words[0])] = int(words[1])
            else:
                raise ValueError(f"count.c never writes {line!r}")

    def total(self, roles=None, wanted=lambda name, module: True):
        """Instructions of the kernel, of these roles and functions."""
        return sum(insns for (name, module, role), insns in self.insns.items()
                   if role != "user" and (not roles or role in roles) and wanted(name, module))

    def called(self, name, roles=None):
        """How often a function was."""
        return sum(calls for (found, _, role), calls in self.calls.items()
                   if found == name and (not roles or role in roles))

    def summary(self):
        """What a sample keeps of it."""
        everything = self.total()
        roles = Counter()
        for (_, _, role), insns in self.insns.items():
            roles[role] += insns
        return {
            "instructions": everything,
            "roles": dict(roles),
            "bytewise": self.total(wanted=is_bytewise),
            "bytewise_roles": {role: self.total((role,), is_bytewise) for role in roles},
            "ours": self.total(wanted=lambda _, module: is_ours(module)),
            # The qdisc that sch_prio, the only other one, has as its child.
            "qdisc": self.total(("qdisc",), lambda _, module: module != "sch_prio"),
            "traversals": self.called("__dev_queue_xmit", SENDER),
            "pace_timers": self.called("tcp_pace_kick"),
            "acks_ours": sorted(self.acks.items()),
            "functions": {" ".join(key): [insns, self.calls[key]]
                          for key, insns in self.insns.most_common()
                          if insns >= LEAST_PART * everything}}


def is_bytewise(name, _):
    """Does it copy or clear?"""
    return name.lstrip("_").startswith(BYTEWISE)


def is_ours(module):
    """Is it one of this project's?"""
    return "hpcc" in module or "ldcp" in module


def plain_ack(acks, part):
    """Mean instructions of ours for the cheapest so many (0 to 1) of all ACKs: those
    without telemetry. None if there is next to none."""
    left = whole = part * sum(count for _, count in acks)
    if part < 0.02 or not whole:
        return None
    total = 0
    for insns, count in sorted(acks):
        count = min(count, left)
        total += insns * count
        left -= count
    return total / whole


class Samples:
    """All samples of one variant; figures are medians. Without samples they are None."""

    def __init__(self, samples):
        self.samples = samples

    def median(self, function):
        """Of what a function says of each; None where it cannot say."""
        values = []
        for sample in self.samples:
            try:
                values.append(function(sample))
            except (KeyError, ZeroDivisionError):
                pass
        values = [value for value in values if value is not None]
        return median(values) if values else None

    def each(self, function):
        """By segment."""
        return self.median(lambda s: function(s) / s["segments"])

    def gbps(self):
        """Goodput."""
        return self.median(lambda s: 8e-9 * s["bytes"] / s["seconds"])

    def role(self, *names):
        """Instructions by segment for these."""
        return self.each(lambda s: sum(s["cost"]["roles"].get(name, 0) for name in names))

    def least_by_ack(self, *roles, copies=True):
        """Instructions by ACK for these, in the sample with the fewest: in some each ACK has its
        route looked up anew. Copying and clearing may be left out."""
        return min((sum(s["cost"]["roles"].get(name, 0) -
                        (0 if copies else s["cost"]["bytewise_roles"].get(name, 0))
                        for name in roles) / s["acks"] for s in self.samples), default=None)

    def cost(self, name):
        """By segment, of what Profile.summary() has."""
        return self.each(lambda s: s["cost"][name])

    def counter(self, name):
        """By segment, of what the hosts count."""
        return self.each(lambda s: s[name])

    def option_bytes(self, kind):
        """Of all headers of data or ACKs but the usual ones, by segment. None where nobody
        asks, as payload that was sent again would be taken for options, and where the
        payload is known only as far as it was read."""
        def of_one(said):
            if not said["hpcc_forward_received"] or said.get("shared"):
                return None
            payload = said["bytes"] if kind == "data" else 0
            return (said[kind + "_bytes"] - PLAIN_BYTES * said[kind] - payload) / said["segments"]
        return self.median(of_one)

    def per_packet(self):
        """Instructions of the qdisc, by packet of both directions."""
        return self.median(lambda s: s["cost"]["qdisc"] / (s["data"] + s["acks"]))

    def plain_ack(self):
        """See plain_ack()."""
        return self.median(lambda s: plain_ack(
            s["cost"]["acks_ours"], 1 - s["hpcc_echo_received"] / s["acks"]))

    def any_ack(self):
        """Instructions of ours by ACK, all ACKs."""
        return self.median(lambda s: plain_ack(s["cost"]["acks_ours"], 1))

    def functions(self):
        """{"function module role": instructions by segment}"""
        names = {name for s in self.samples for name in s.get("cost", {}).get("functions", ())}
        return {name: self.each(lambda s, name=name: s["cost"]["functions"].get(name, [0])[0])
                for name in names}


class Results:
    """All that guests said, by part, path and variant."""

    def __init__(self, said):
        self.said = said
        self.found = defaultdict(list)
        for sample in said:
            if sample["event"] == "path":
                self.found[sample["part"], sample["hops"], sample["flows"],
                           sample["variant"]].append(sample)
            elif sample["event"] in ("shaped", "record"):
                self.found[sample["part"], sample.get("recorded") or sample["cc"]].append(sample)
            else:
                self.found[sample["event"]].append(sample)

    def of(self, *key):
        """Samples, perhaps none."""
        return Samples(self.found.get(key, []))

    def parts(self):
        """Those that were measured."""
        return {sample["part"] for sample in self.said}

    def last(self, event, name):
        """What a guest said last of something."""
        return self.found[event][-1][name] if event in self.found else None

    def keys(self, part):
        """(hops, flows, variant) of a part, in the order measured."""
        return [key[1:] for key in self.found if key[0] == part and len(key) == 4]


def ratio(part, whole):
    """None if either is unknown."""
    return part / whole if part is not None and whole else None


def spell(value, digits=None):
    """A number for people, or a dash."""
    if value is None:
        return "-"
    if digits is None:
        digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}"


def beside(value, before, has_before):
    """A cell of a table: with --before that value first."""
    return f"{spell(before)} > {spell(value)}" if has_before else spell(value)
