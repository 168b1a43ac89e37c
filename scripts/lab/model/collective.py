# SPDX-License-Identifier: GPL-2.0
"""Collectives: their connections, which messages wait for which, and the shortest possible time of a step."""

from dataclasses import dataclass
from functools import cached_property


@dataclass
class Edge:
    """The messages from one rank to another. In each step, message m is sent when message m - free has arrived on
    all edges of after (indices in the collective); the first free messages wait for nothing.
    """
    src: str
    dst: str
    bytes: int      # of each message
    count: int      # messages of a step
    free: int
    after: list


def connections(kind, ranks):
    """The number of connections of a collective."""
    return {"all-reduce-ring": ranks, "all-to-all": ranks * (ranks - 1)}.get(kind, 2 * (ranks - 1))


def _ring(ranks, size):
    """In round k each rank sends to the next rank what it received in round k - 1."""
    return [Edge(src, ranks[(i + 1) % len(ranks)], -(-size // len(ranks)), 2 * (len(ranks) - 1), 1,
                 [(i - 1) % len(ranks)]) for i, src in enumerate(ranks)]


def _tree(ranks, size):
    """A binary tree, from the leaves to the first rank and back, in as many chunks as there are ranks."""
    n, edges, up = len(ranks), [], {}
    for i in reversed(range(1, n)):
        below = [up[child] for child in (2 * i + 1, 2 * i + 2) if child < n]
        up[i] = len(edges)
        edges.append(Edge(ranks[i], ranks[(i - 1) // 2], -(-size // n), n, 0 if below else n, below))
    down = [[up[child] for child in (1, 2) if child < n]]
    for i in range(1, n):
        edges.append(Edge(ranks[(i - 1) // 2], ranks[i], -(-size // n), n, 0, down[(i - 1) // 2]))
        down.append([len(edges) - 1])
    return edges


def _all_to_all(ranks, size):
    n = len(ranks)
    return [Edge(src, ranks[(i + shift) % n], -(-size // n), 1, 1, [])
            for shift in range(1, n) for i, src in enumerate(ranks)]


def _parameter_server(ranks, size):
    """All others send to the first rank, which replies to all of them when it has everything."""
    server, *workers = ranks
    pushed = list(range(len(workers)))
    return [Edge(worker, server, size, 1, 1, []) for worker in workers] + [
        Edge(server, worker, size, 1, 0, pushed) for worker in workers]


_EDGES = {"all-reduce-ring": _ring, "all-reduce-tree": _tree, "all-to-all": _all_to_all,
          "parameter-server": _parameter_server}


@dataclass
class Collective:
    """Steps of a collective. Each step begins when the previous step has ended on all ranks."""
    id: int
    kind: str
    ranks: list
    bytes: int
    steps: int
    start_ns: int
    cc: str

    @cached_property
    def edges(self):
        """An edge comes after the edges whose messages it waits for, except in a ring."""
        return _EDGES[self.kind](self.ranks, self.bytes)

    def bound_ns(self, topology):
        """A lower bound of the time of a step: the longer of the longest chain of messages that wait for each
        other, each with the time that it needs on idle links, and of the time of the busiest link, with the
        shortest times of messages before and after. Packets are those of Topology.alone_ns(), and messages of an
        edge that are ready at the same time share them.
        """
        edges = self.edges
        alone = [topology.alone_ns(edge.src, edge.dst, edge.bytes) for edge in edges]
        begin, end = self._schedule(topology, alone)
        after = [0] * len(edges)        # shortest time from the last message of an edge to the end of the step
        for i, edge in reversed(list(enumerate(edges))):
            for p in () if edge.free else edge.after:
                after[p] = max(after[p], alone[i] + after[i])
        users = {}
        for i, edge in enumerate(edges):
            for hop in topology.only_hops(edge.src, edge.dst):
                users.setdefault(hop, []).append(i)
        busy = (min(begin[i] for i in found) + min(after[i] for i in found)
                + self._passed(topology, hop, found, sum(
                    topology.wire_bits(edges[i].bytes * edges[i].count) for i in found))
                for hop, found in users.items())
        return max(max(end), *busy)

    def _passed(self, topology, hop, users, bits):
        """The shortest time in which these bits pass a link, with the rest of the shortest path."""
        rate, one = topology.link_of(*hop)["rate"], topology.wire_bits(1)
        pairs = {(self.edges[i].src, self.edges[i].dst) for i in users}
        return min(topology.alone_ns(*pair, 1) for pair in pairs) + (bits - one) * 10**9 // rate

    def _schedule(self, topology, alone):
        """The earliest times at which each edge begins its first message and ends its last one. If a rank waits for
        several others, all their messages pass its link.
        """
        edges, begin, ends = self.edges, [], [[] for _ in self.edges]
        wire = [8 * edge.bytes * 10**9 // topology.rate(edge.src, edge.dst) for edge in edges]
        gathers = {}
        for i, edge in enumerate(edges):
            if edge.after:
                key = tuple(edge.after)
                gathers.setdefault(key, (key, topology.path(edges[key[0]].src, edge.src)[-2:]))
        for m in range(max(edge.count for edge in edges)):
            ready = {}
            for i, edge in enumerate(edges):
                start, waits, key = 0, m - edge.free, tuple(edge.after)
                if waits >= 0:
                    if key not in ready:
                        ready[key] = max(ends[p][waits] for p in key)
                        if len(key) > 1:
                            ready[key] = max(ready[key], min(begin[p] for p in key) + self._passed(
                                topology, gathers[key][1], key, sum(
                                    topology.wire_bits((waits + 1) * edges[p].bytes) for p in key)))
                    start = ready[key]
                if m == 0:
                    begin.append(start)
                ends[i].append(max(start + alone[i], ends[i][-1] + wire[i] if m else 0))
        return begin, [found[-1] for found in ends]
