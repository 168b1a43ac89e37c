#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Random requests to the generic netlink family "hpcc": valid requests get the named flows, invalid ones an error."""

import errno
import os
import random
import struct

from lib.genl import NLM_F_DUMP, NLMSG_DONE, Family, Refused, as_nobody, attr, cookie, error_of, name_of
from lib.ktap import expect, expect_in, main
from lib.net import Netns, Pair
from lib.packet import addresses
from lib.qdisc import NLM_F_ACK, NLMSG_ERROR
from lib.tcp import pattern, set_cc, transfer

MESSAGES = int(os.environ.get("HPCC_FUZZ_MESSAGES") or 3000)
SEED = int(os.environ.get("HPCC_FUZZ_SEED") or 1)
ENDS = "laddr", "raddr", "lport", "rport"


class Fuzzer:
    """Flows that stay, and a socket that sends requests about these flows."""

    def __init__(self):
        self.rng = random.Random(SEED)
        self.pair = Pair(6)
        self.listener = self.pair.listen()
        self.staying = [self.pair.connect(self.listener) for _ in range(20)]
        self.fleeting = []
        self.names = {cookie(client): name_of(client) | {"cookie": cookie(client)} for client, _ in self.staying}
        self.family = Family(self.pair.c, "hpcc")
        self.family.sock.settimeout(5)
        self.answered = self.refused = 0

    def churn(self):
        """End some connections and begin others; let one leave hpcc."""
        for client, server in self.fleeting:
            client.close()
            server.close()
        self.fleeting = [self.pair.connect(self.listener) for _ in range(4)]
        set_cc(self.fleeting[0][0], "reno")

    def answer(self, raw):
        """Send a request. Return the error number, and the cookies of the flows in the answer."""
        family = self.family
        if self.rng.random() < 0.5:
            family.sock.send(raw)
        else:
            as_nobody(lambda: family.sock.send(raw))
        found = []
        while True:
            for kind, message in family.messages():
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    error = error_of(message)
                    return (error.number if error else 0), found
                found.append(family.decode("flow", message[20:])["cookie"])

    def right(self):
        """Return a valid request: (flags, attributes, staying flows that it names, or None if it is refused)."""
        of = dict(self.rng.choice(list(self.names.values())))
        dump = self.rng.random() < 0.5
        if dump:
            chosen = {name: value for name, value in of.items() if self.rng.random() < 0.4}
        else:
            chosen = {"cookie": of["cookie"]} if self.rng.random() < 0.5 else {name: of[name] for name in ENDS}
        if self.rng.random() < 0.1 and "rport" in chosen:
            chosen["rport"] ^= 1
        want = [number for number, one in self.names.items() if chosen.items() <= one.items()]
        order = list(chosen.items())
        self.rng.shuffle(order)
        return NLM_F_DUMP if dump else NLM_F_ACK, self.family.encode("flow", dict(order)), want if want or dump else None

    def fault(self, body):
        """Return attributes that the kernel has to refuse."""
        number = 1 + self.rng.randrange(len(self.family.sets["flow"]))
        wrong = (attr(self.rng.randrange(40, 9999), bytes(4)),          # unknown
                 attr(self.rng.choice((2, 3)), bytes(self.rng.choice((0, 3, 5, 15, 17)))),
                 attr(self.rng.choice((4, 5)), bytes(self.rng.choice((0, 1)))),
                 attr(6, bytes(self.rng.choice((0, 4, 7)))),
                 attr(number | 0x8000, bytes(4)),                       # a nest: no attribute is one
                 struct.pack("=HH", 200, 4),                            # longer than the message
                 attr(self.rng.randrange(10, 20), bytes(8)))            # in answers only
        return body + self.rng.choice(wrong) if self.rng.random() < 0.5 else self.rng.choice(wrong)

    def step(self, turn):
        """Send one request, and check its answer."""
        flags, body, want = self.right()
        kind = self.rng.random()
        if kind < 0.4:
            body, want = self.fault(body), None
        elif kind < 0.5:
            body, want = self.rng.randbytes(self.rng.randrange(60)), ...
        raw = struct.pack("=IHHII", 20 + len(body), self.family.id, 1 | flags, turn, 0) + self.family.genl(1) + body
        what = f"seed {SEED}, {turn}: {raw.hex()}"
        try:
            number, found = self.answer(raw)
        except TimeoutError as error:
            raise AssertionError(f"{what}: no answer") from error
        self.answered += not number
        self.refused += bool(number)
        if want is None:
            expect(f"{what}: refused", number in (errno.EINVAL, errno.ERANGE, errno.ENOENT), True)
        elif want is not ...:
            expect(f"{what}: error, answered once", (number, len(set(found))), (0, len(found)))
            expect(f"{what}: flows that stay", sorted(set(found) & set(self.names)), sorted(want))


def test_flows():
    """Send random requests for flows."""
    fuzzer = Fuzzer()
    for turn in range(MESSAGES):
        if not turn % 50:
            fuzzer.churn()
        fuzzer.step(turn)
    print(f"# {fuzzer.answered} answered, {fuzzer.refused} refused")
    for what in fuzzer.answered, fuzzer.refused:
        expect(f"{what} of {MESSAGES}", what >= MESSAGES // 5, True)
    missing = set(fuzzer.names) - {flow["cookie"] for flow in fuzzer.family.dump("flow-get")}
    expect("flows that are missing afterwards", missing, set())
    transfer((*fuzzer.staying[0], pattern(10000)))


class Tables:
    """The tables of a namespace, and their expected content."""

    # Limits of the values, and of the lengths of keys.
    VALUES = {"link": {"rate": (1000, 10**13), "unit": (1, 65535)}, "route": {"where": (0, 1), "carrier": (0, 4)},
              "key": {"send": (16, 16), "accept": (16, 16), "require": (1, 1)}}
    NEEDED = "node", "port", "prefix", "len", "rate", "send"

    def __init__(self, rng):
        self.rng, self.ns = rng, Netns()
        self.want = {table: {} for table in self.VALUES}

    def key(self, table):
        """Return a random key, in most cases from a small set."""
        if table == "link":
            return {"node": self.rng.choice((0, 1, 2, 77, (1 << 24) - 2)), "port": self.rng.choice((0, 1, 65534))}
        bits = self.rng.randrange(33) if self.rng.random() < 0.5 else self.rng.randrange(4)
        return {"prefix": struct.pack("!I", self.rng.getrandbits(bits) << 32 - bits if bits else 0), "len": bits}

    def entry(self, table, values):
        """Return an entry, and whether it is valid."""
        entry, right = self.key(table), True
        for name, (low, high) in self.VALUES[table].items() if values else ():
            if name not in self.NEEDED and self.rng.random() < 0.4:
                continue
            entry[name] = self.rng.choice((low, high, self.rng.randint(low, high)) if self.rng.random() < 0.97 else
                                          (low - 1 & 0xffffffff, high + 1 & 0xffffffff, 1 << 31))
            right &= name == "require" or low <= entry[name] <= high
            if table == "key":
                entry[name] = name == "require" or self.rng.randbytes(min(entry[name], 20))
        if self.rng.random() < 0.03:
            name = self.rng.choice(list(entry))
            right &= name not in self.NEEDED
            del entry[name]
        return entry, right

    @staticmethod
    def shown(table, entry):
        """Return an entry as answers show it: without keys."""
        if table == "key":
            return {name.replace("accept", "has-accept"): value if name in ("prefix", "len") else True
                    for name, value in entry.items() if name != "send"}
        return ({"unit": 1} if table == "link" else {}) | entry

    @staticmethod
    def name(entry):
        """Return the key of an entry, as a tuple."""
        return tuple(entry.get(name) for name in ("node", "port", "prefix", "len") if name in entry)

    def step(self, turn):
        """Send a request. The kernel accepts a valid request; any other request changes nothing."""
        table, how = self.rng.choice(list(self.want)), self.rng.choice(("set", "set", "del"))
        made = [self.entry(table, how == "set") for _ in range(self.rng.randrange(5))]
        entries, replace = [entry for entry, _ in made], self.rng.random() < 0.2
        after = {} if replace else dict(self.want[table])
        right = all(good for _, good in made) and not (replace and how == "del") and \
            len({self.name(entry) for entry in entries}) == len(entries)
        for entry in entries:
            if how == "set":
                after[self.name(entry)] = self.shown(table, entry)
            else:
                right &= after.pop(self.name(entry), None) is not None
        family = self.ns.hpcc()
        body = family.encode("table", ({"replace": True} if replace else {}) | {table: entries})
        if self.rng.random() < 0.1:
            body, right = body + self.rng.randbytes(4 * self.rng.randrange(1, 9)), None
        try:
            family.request(f"{table}-{how}", body, NLM_F_ACK)
            taken = True
        except Refused as error:
            taken = False
            expect(f"{turn}: {error}", error.number in (errno.EINVAL, errno.ERANGE, errno.ENOENT, errno.ENOSPC), True)
        if right is not None:
            expect(f"seed {SEED}, {turn}: {table}-{how} {entries} accepted", taken, right)
            self.want[table] = after if right else self.want[table]
        answered = [one for part in family.dump(f"{table}-get") for one in part[table]]
        for one in answered if table != "link" else ():
            one["prefix"] = addresses(one["prefix"])
        if right is None:           # the random bytes may be a valid attribute
            self.want[table] = {self.name(one): one for one in answered}
        expect(f"seed {SEED}, {turn}: {table}s", {self.name(one): one for one in answered}, self.want[table])
        return taken


def test_tables():
    """Send random requests for tables. A model predicts the content of the tables; invalid requests change nothing."""
    tables = Tables(random.Random(SEED + 1))
    taken = sum(tables.step(turn) for turn in range(MESSAGES))
    print(f"# {taken} of {MESSAGES} accepted")
    expect_in("accepted", taken, MESSAGES // 4, 3 * MESSAGES // 4)


main()
