# SPDX-License-Identifier: GPL-2.0
"""The cost of a segment: reads files of scripts/vm/count.c and samples of guestbench.py, and
computes the figures in the tables of scripts/bench-kernel."""

from collections import Counter, defaultdict
from statistics import median

# Header bytes of a packet without our option: Ethernet, IPv4, TCP and its timestamps.
PLAIN_BYTES = 14 + 20 + 20 + 12
SENDER = ("sender_out", "sender_in")
# Functions that handle one byte per instruction in the emulation; a real CPU handles many bytes at a time.
BYTEWISE = ("memset", "memcpy", "memmove", "clear_page", "copy_user", "copy_page",
            "rep_movs", "rep_stos")
# Functions with less than this fraction of the instructions of a sample are left out of results.json.
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
                # If the compiler has split a function into parts, count the parts as one function.
                key = name.split(".")[0], module, role
                self.insns[key] += int(insns)
                if "." not in name or name.split(".")[1] in ("isra", "constprop"):
                    self.calls[key] += int(calls)
            elif kind == "ack":
                self.acks[int(words[0])] = int(words[1])
            else:
                raise ValueError(f"count.c never writes {line!r}")

    def total(self, roles=None, wanted=lambda name, module: True):
        """Instructions in the kernel, for these roles and functions."""
        return sum(insns for (name, module, role), insns in self.insns.items()
                   if role != "user" and (not roles or role in roles) and wanted(name, module))

    def called(self, name, roles=None):
        """The number of calls of a function."""
        return sum(calls for (found, _, role), calls in self.calls.items()
                   if found == name and (not roles or role in roles))

    def summary(self):
        """The part of a profile that a sample stores."""
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
            # The only other qdisc is sch_prio, the parent.
            "qdisc": self.total(("qdisc",), lambda _, module: module != "sch_prio"),
            "traversals": self.called("__dev_queue_xmit", SENDER),
            "pace_timers": self.called("tcp_pace_kick"),
            "acks_ours": sorted(self.acks.items()),
            "functions": {" ".join(key): [insns, self.calls[key]]
                          for key, insns in self.insns.most_common()
                          if insns >= LEAST_PART * everything}}


def is_bytewise(name, _):
    """Whether a function copies or clears memory."""
    return name.lstrip("_").startswith(BYTEWISE)


def is_ours(module):
    """Whether a module belongs to this project."""
    return "hpcc" in module or "ldcp" in module


def plain_ack(acks, part):
    """Mean number of our instructions per ACK without telemetry. These are the cheapest ACKs:
    the fraction @part of all ACKs. None if there are almost no such ACKs."""
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
    """All samples of one variant. Figures are medians, or None without samples."""

    def __init__(self, samples):
        self.samples = samples

    def median(self, function):
        """The median of a function over the samples for which it has a value, or None."""
        values = []
        for sample in self.samples:
            try:
                values.append(function(sample))
            except (KeyError, ZeroDivisionError):
                pass
        values = [value for value in values if value is not None]
        return median(values) if values else None

    def each(self, function):
        """The median of a value of the samples, divided by their numbers of segments."""
        return self.median(lambda s: function(s) / s["segments"])

    def gbps(self):
        """Goodput."""
        return self.median(lambda s: 8e-9 * s["bytes"] / s["seconds"])

    def role(self, *names):
        """Instructions per segment for these roles."""
        return self.each(lambda s: sum(s["cost"]["roles"].get(name, 0) for name in names))

    def least_by_ack(self, *roles, copies=True):
        """Instructions per ACK for these roles: the smallest value of all samples, because in some samples the
        kernel looks up the route for each ACK. copies: whether to include functions that copy or clear memory."""
        return min((sum(s["cost"]["roles"].get(name, 0) -
                        (0 if copies else s["cost"]["bytewise_roles"].get(name, 0))
                        for name in roles) / s["acks"] for s in self.samples), default=None)

    def cost(self, name):
        """A value of Profile.summary(), divided by the number of segments."""
        return self.each(lambda s: s["cost"][name])

    def counter(self, name):
        """A counter of the hosts, divided by the number of segments."""
        return self.each(lambda s: s[name])

    def option_bytes(self, kind):
        """Bytes of options on data or ACKs per segment, without the timestamp option. None without
        requests, because retransmitted payload would count as options; and None if connections share
        a thread, because then only the payload that was read is known."""
        def of_one(sample):
            if not sample["hpcc_forward_received"] or sample.get("shared"):
                return None
            payload = sample["bytes"] if kind == "data" else 0
            return (sample[kind + "_bytes"] - PLAIN_BYTES * sample[kind] - payload) / sample["segments"]
        return self.median(of_one)

    def per_packet(self):
        """Instructions of the qdisc per packet, over both directions."""
        return self.median(lambda s: s["cost"]["qdisc"] / (s["data"] + s["acks"]))

    def plain_ack(self):
        """See plain_ack()."""
        return self.median(lambda s: plain_ack(
            s["cost"]["acks_ours"], 1 - s["hpcc_echo_received"] / s["acks"]))

    def any_ack(self):
        """Our instructions per ACK, over all ACKs."""
        return self.median(lambda s: plain_ack(s["cost"]["acks_ours"], 1))

    def functions(self):
        """Return {"function module role": instructions per segment}."""
        names = {name for s in self.samples for name in s.get("cost", {}).get("functions", ())}
        return {name: self.each(lambda s, name=name: s["cost"]["functions"].get(name, [0])[0])
                for name in names}


class Results:
    """The output of all guests, by part, path and variant."""

    def __init__(self, output):
        self.output = output
        self.found = defaultdict(list)
        for sample in output:
            if sample["event"] == "path":
                self.found[sample["part"], sample["hops"], sample["flows"],
                           sample["variant"]].append(sample)
            elif sample["event"] in ("shaped", "record"):
                self.found[sample["part"], sample.get("recorded") or sample["cc"]].append(sample)
            else:
                self.found[sample["event"]].append(sample)

    def of(self, *key):
        """The Samples of a key, which may be empty."""
        return Samples(self.found.get(key, []))

    def parts(self):
        """The parts that were measured."""
        return {sample["part"] for sample in self.output}

    def last(self, event, name):
        """The last value of a kind of event."""
        return self.found[event][-1][name] if event in self.found else None

    def keys(self, part):
        """The (hops, flows, variant) of a part, in the order of the measurements."""
        return [key[1:] for key in self.found if key[0] == part and len(key) == 4]


def ratio(part, whole):
    """part / whole; None if either is unknown."""
    return part / whole if part is not None and whole else None


def spell(value):
    """A number as text, or a dash."""
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}"


def comparison(value, before, has_before):
    """A cell of a table: the value, or "before > value" with --before."""
    return f"{spell(before)} > {spell(value)}" if has_before else spell(value)
