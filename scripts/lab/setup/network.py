# SPDX-License-Identifier: GPL-2.0
"""The network of a scenario as the plan of hpcc-network: nodes, links, addresses, forwarding,
qdiscs. tools/network/ documents its lines. tc configures netem and classes, from batch files.

Hardware addresses, neighbours, forwarding entries and routes are static.
"""

import re

from ..model.keys import CARRIERS, STAMPS, TELEMETRY
from ..model.topology import ETHERNET_BYTES, ifname, is_host
from .sysctls import Sysctls

PREFIX = "hpcc-"
# Limit of a host's own queue, which TCP Small Queues keep much shorter.
HOST_LIMIT = 64 * 10**6
# Limit of netem's queue in packets. This queue is not part of the model, so netem must not drop packets there.
NETEM_LIMIT = 1000000
# Entries in a table of delays (at most 16384), and the value that stands for one jitter.
NETEM_TABLE = 10000
NETEM_SCALE = 8192
# Smallest delay with which tc accepts a table; it is subtracted from the delay of the link.
NETEM_DELAY_NS = 1000
# Address of the neighbour behind each interface of a router or a host in a tree.
NEXT_HOP = {4: "169.254.0.1", 6: "fe80::1"}
DEFAULT = {4: "0.0.0.0/0", 6: "::/0"}
# switch_ID of h0; the first switch has the switch_ID 1.
HOST_NODE = 1000
# HPCC_STAMP_* by name.
STAMP = {carriers: bits for bits, carriers in enumerate(STAMPS, 1)} | {"mixed": 3, "csig": 16}
CSIG_PUSH = 32
# Arguments of tc for the values of STAMP.
TC_STAMPS = {0: "nostamp", 1: "stamp", 16: "stamp csig", CSIG_PUSH: "stamp csig_push"} | \
    {bits: f"stamp {carriers}" for bits, carriers in enumerate(STAMPS[1:], 2)}
# TOS field without ECN, in the syntax of flower.
DSCP_MASK = "0xfc"
# Links in one line of the plan.
LINKS_OF_LINE = 100
# Packets that a child qdisc may hold: the number of smallest packets that fill a buffer.
CHILD_PACKETS = 1000000
FQ = f"fq limit {CHILD_PACKETS} flow_limit {CHILD_PACKETS} quantum {{frame}} initial_quantum {{frame}} "
CHILDREN = {
    "fq": FQ + "pacing 0",
    "fq_paced": FQ + "pacing 1 timer_slack 1",
    "fq_codel": f"fq_codel limit {CHILD_PACKETS} quantum {{frame}} memory_limit {{buffer}}",
    "dualpi2": f"dualpi2 limit {CHILD_PACKETS} memory_limit {{buffer}}",
}


class Network:
    """The files that create the network of one scenario; files is {name: text}."""

    def __init__(self, scenario, topology):
        self.scenario = scenario
        self.topology = topology
        carriers = scenario.qdisc["stamp"] or scenario.cc["carrier"] or "tcp"
        self.stamp = STAMP[carriers] if scenario.cc["observe"] or TELEMETRY & set(scenario.cc_names()) else 0
        self.pairs = scenario.pairs()
        self.sources, self.sinks = {src for src, _ in self.pairs}, {dst for _, dst in self.pairs}
        self.partners = {}
        for src, dst in self.pairs:
            self.partners.setdefault(src, {})[dst] = True
            self.partners.setdefault(dst, {})[src] = True
        self.macs = {}
        for n, (a, b) in enumerate(topology.links):
            for side, ends in enumerate(((a, b), (b, a))):
                self.macs[ends] = topology.mac(ends[0]) if is_host(ends[0]) else \
                    f"02:00:00:{1 + side:02x}:{n >> 8:02x}:{n & 255:02x}"
        self.files = {}
        self.lines = self._plan()
        self._add("network", self.lines)
        self.changes = self._changes()
        if scenario.impair["reorder"]:
            self.files["late.dist"] = self._late()

    def _add(self, name, lines):
        self.files[name] = "".join(f"{line}\n" for line in lines)

    def _plan(self):
        nodes, mtu = self.topology.peers, self.scenario.link["mtu"]
        sysctls = Sysctls(self.scenario, self.topology)
        known = self._links() if self.scenario.cc["carrier"] in CARRIERS[1:4] else []
        lines = [f"node {node}" for node in nodes]
        lines += [f"sysctl {node} {path} {value}" for node in nodes
                  for path, value in sysctls.of(node).items()]
        lines += [f"know {host} {' '.join(known[at:at + LINKS_OF_LINE])}" for host in self.topology.hosts
                  for at in range(0, len(known), LINKS_OF_LINE)]
        lines += [f"link {a} {ifname(a, b)} {self.macs[a, b]} {b} {ifname(b, a)} {self.macs[b, a]} {mtu}"
                  for a, b in self.topology.links]
        for node in nodes:
            lines += self._qdiscs(node)
            if self.topology.routed:
                lines += self._routing(node)
            elif is_host(node):
                lines += self._bridged_host(node)
            else:
                lines += self._bridge(node)
        return lines

    # ---- forwarding

    def _bridged_host(self, host):
        topology = self.topology
        plen = 64 if self.scenario.ip == 6 else 16
        lines = [f"address {host} eth0 {topology.address(host)}/{plen}", f"up {host} eth0"]
        lines += [f"neigh {host} eth0 {topology.address(peer)} {topology.mac(peer)}"
                  for peer in self.partners.get(host, ())]
        return lines + [f"route {host} eth0 {topology.address(peer)} - 1"
                        for peer in self._ldcp_senders(host)]

    def _ldcp_senders(self, host):
        """Hosts whose packets this host acknowledges one by one."""
        return [src for src in self.partners.get(host, ()) if "ldcp" in self.pairs.get((src, host), ())]

    def _bridge(self, switch):
        lines = [f"bridge {switch} br0"]
        for peer in self.topology.peers[switch]:
            lines += [f"member {switch} {peer} br0", f"up {switch} {peer}"]
        lines.append(f"up {switch} br0")
        return lines + [f"fdb {switch} {self.topology.path(switch, host)[1]} {self.topology.mac(host)}"
                        for host in self.topology.hosts if host in self.partners]

    def _routing(self, node):
        """Each interface has one neighbour. All neighbours have the same link-local address."""
        ip, topology = self.scenario.ip, self.topology
        lines = []
        if is_host(node):
            lines.append(f"address {node} eth0 {topology.address(node)}/{128 if ip == 6 else 32}")
        else:
            # The first address creates IPv4's table of local addresses, which the checks of new routes read.
            lines.append(f"up {node} lo")
        for peer in topology.peers[node]:
            name = ifname(node, peer)
            lines += [f"up {node} {name}", f"neigh {node} {name} {NEXT_HOP[ip]} {self.macs[peer, node]}"]
        lines += [f"route {node} {','.join(names)} {to} {NEXT_HOP[ip]} 0"
                  for to, names in self.routes(node).items()]
        if is_host(node):
            lines += [f"route {node} eth0 {topology.address(peer)} {NEXT_HOP[ip]} 1"
                      for peer in self._ldcp_senders(node)]
        return lines

    def routes(self, node, dead=frozenset()):
        """Return {prefix: interfaces} of a node of a tree. dead: links that are not used."""
        topology = self.topology
        if is_host(node):
            return {DEFAULT[self.scenario.ip]: ["eth0"]}
        found = {topology.address(peer): [peer] for peer in topology.peers[node]
                 if is_host(peer) and (node, peer) not in dead}
        for tor in topology.tors:
            hops = topology.toward(tor, dead).get(node)
            if hops:
                found[topology.rack(tor)] = hops
        return found

    # ---- events

    def _changes(self):
        """Add a file for each change of the network. Return them as (ns, name), in the order of their times."""
        dead, found = frozenset(), []
        for i, event in enumerate(self.scenario.events):
            a, b = event["link"].split("-")
            ends = frozenset([(a, b), (b, a)])
            self._add(f"event-{i}", [line for end in sorted(ends) for line in self._change(event, *end)])
            found.append((event["at"], f"event-{i}"))
            if event["rate"] is not None or not self.topology.routed or is_host(a) or is_host(b):
                continue
            before, dead = dead, dead | ends if event["down"] else dead - ends
            self._add(f"reroute-{i}", self._reroute(before, dead, (a, b)))
            found.append((event["at"] + self.scenario.topology["reroute"], f"reroute-{i}"))
        return sorted(found, key=lambda change: change[0])

    def _change(self, event, node, peer):
        """The change at one end of the link. "up" also restores the entries that the kernel removed when the link failed."""
        name = ifname(node, peer)
        if event["rate"] is not None:
            parent = "1:1" if not is_host(node) and self._netem(peer) else "root"
            return [f"change {node} {name} {parent} 10: hpcc rate {event['rate']}"]
        if event["down"]:
            return [f"down {node} {name}"]
        kinds = ("up", "address", "neigh") + (("route",) if is_host(node) else ())
        again = [line for line in self.lines
                 if line.split(" ", 3)[:3] in [[kind, node, name] for kind in kinds]]
        if is_host(peer) and self.topology.routed:
            again.append(f"route {node} {name} {self.topology.address(peer)} "
                         f"{NEXT_HOP[self.scenario.ip]} 0")
        return again

    def _reroute(self, before, dead, ends):
        """The new routes after a change of a link. For the two switches of the link these are all routes, because
        their kernels noticed the change of the link; for other switches only the routes that change.
        """
        lines = []
        for switch in self.topology.switches:
            old, new = self.routes(switch, before), self.routes(switch, dead)
            lines += [f"route {switch} {','.join(names)} {to} {NEXT_HOP[self.scenario.ip]} 0"
                      for to, names in new.items() if switch in ends or old.get(to) != names]
        return lines

    # ---- qdiscs

    def _links(self):
        """Return the links for the link table of IOAM and INT receivers: node, port, bit/s."""
        topology = self.topology
        found = [f"{self._number(switch)} {number} {topology.link_of(switch, port)['rate']}"
                 for switch in topology.switches for index, port in enumerate(topology.peers[switch])
                 for number in self._port_numbers(index)]
        if self.scenario.host["stamp"]:
            found += [f"{HOST_NODE + int(host[1:])} 0 {topology.access(host)['rate']}"
                      for host in topology.hosts]
        return found

    def _port_numbers(self, index):
        """The numbers of a switch port in telemetry: one, or one for each class."""
        return list(dict.fromkeys(one.port(index + 1) for one in self.scenario.classes)) or [index + 1]

    def _qdiscs(self, node):
        """Lines of the plan for the qdiscs of a node. Netem, its child and classes are in a batch for tc instead."""
        if is_host(node):
            link = self.topology.access(node)
            link |= {"buffer": HOST_LIMIT, "delay": link["delay"] + self.topology.host_delay[0]}
            stamp = self.stamp and self.scenario.host["stamp"]
            more = f"node {HOST_NODE + int(node[1:])} stamp {self.stamp}" if stamp else "stamp 0"
            if self.scenario.cc["carrier"] == "csig":
                more = f"stamp {CSIG_PUSH}"
            return [self._qdisc(f"{node} eth0", "root", link, more),
                    *self._child(f"{node} eth0", self.scenario.host["queue"], HOST_LIMIT)]
        lines = []
        for index, port in enumerate(self.topology.peers[node]):
            link = self.topology.link_of(node, port)
            if is_host(port):
                link |= {"delay": link["delay"] + self.topology.host_delay[1]}
            more = f"node {self._number(node)} port {index + 1} stamp {self._stamp(node)}"
            if self.stamp:
                more += "".join(f" {key} {self.scenario.qdisc[key]}" for key in ("above", "respond", "every", "int_window")
                                if self.scenario.qdisc[key])
                more += "".join(f" {key} {self.scenario.cc[key]}" for key in ("csig_abw", "csig_time")
                                if self.scenario.cc[key] and self.stamp & STAMP["csig"])
            more += self._marking(link)
            classes = self._class_batch(port, link, more, index + 1) if self.scenario.classes else ""
            if classes:
                more = "stamp 0"
            netem = self._netem(port)
            if netem:
                self._netem_batch(node, port, netem, link, more)
            else:
                lines.append(self._qdisc(f"{node} {port}", "root", link, more))
            if classes:
                self._batch(node, classes)
            if self.scenario.qdisc["kind"]:
                self._batch(node, f"qdisc add dev {port} parent 10:1 handle 20: {self.scenario.qdisc['kind']}\n")
            lines += self._child(f"{node} {port}", self.scenario.qdisc["queue"], link["buffer"])
        return lines

    def _stamp(self, switch):
        """The carriers that a switch fills in. With "mixed", TCP option and IOAM alternate between switches."""
        if self.scenario.qdisc["stamp"] == "mixed" and self.stamp:
            return STAMP["tcp"] if self._number(switch) % 2 else STAMP["ioam"]
        return self.stamp

    def _number(self, switch):
        """The number of a switch in telemetry."""
        return self.topology.switches.index(switch) + 1

    @staticmethod
    def _qdisc(where, parent, link, more):
        return (f"qdisc {where} {parent} 10: hpcc rate {link['rate']} limit {link['buffer']} "
                f"overhead {link['overhead']} delay {link['delay']} {more}")

    @staticmethod
    def _marking(link):
        """The given thresholds; the qdisc derives the others from the rate."""
        if link["marking"] == "off":
            return ""
        given = {key: link[key] for key in ("kmin", "kmax", "knonect") if link[key] is not None}
        if link["pmax"] is not None:
            given["pmax"] = round(link["pmax"] * 10**6)
        return "".join([" marking 1", *(f" {key} {value}" for key, value in given.items())])

    def _child(self, where, queue, buffer):
        """A qdisc that replaces hpcc's own queue. Only the buffer limits it, not a number of packets or flows."""
        if queue == "fifo":
            return []
        frame = self.scenario.link["mtu"] + ETHERNET_BYTES
        return [f"qdisc {where} 10:1 20: {CHILDREN[queue].format(frame=frame, buffer=buffer)}"]

    def _batch(self, node, lines):
        """Add lines to the batch of tc of a node."""
        self.files[f"{node}.tc"] = self.files.get(f"{node}.tc", "") + lines

    @staticmethod
    def _for_tc(options):
        """Convert options of hpcc from the syntax of the plan to the syntax of tc."""
        options = re.sub(r"\bstamp (\d+)", lambda match: TC_STAMPS[int(match[1])], options)
        options = re.sub(r"\bpmax (\d+)", lambda match: f"pmax {int(match[1]) / 10**6:g}", options)
        return options.replace("marking 1", "marking ldcp")

    def _netem_batch(self, node, port, netem, link, more):
        """Add hpcc as the child of netem, in the syntax of tc, with bytes and nanoseconds."""
        if " delay " in netem:
            link = link | {"delay": link["delay"] - NETEM_DELAY_NS}
        self._batch(node, f"qdisc add dev {port} root handle 1: netem limit {NETEM_LIMIT}{netem}\n"
                          f"qdisc add dev {port} parent 1:1 handle 10: hpcc rate {link['rate']}bit "
                          f"limit {link['buffer']}b overhead {link['overhead']} delay {link['delay']}ns "
                          f"{self._for_tc(more)}\n")

    def _class_batch(self, port, link, more, number):
        """Return the lines for tc that replace the queue of hpcc by classes. The link's hpcc, 10:, shapes; below it
        are drr or prio, 20:, and one hpcc for each class, 21:, 22: and so on, which writes telemetry. number: number
        of the port.
        """
        classes, frame = self.scenario.classes, self.scenario.link["mtu"] + ETHERNET_BYTES
        order = sorted(classes, key=lambda one: one.priority or 0)
        class_ids = {one.number: f"20:{order.index(one) + 1}" for one in classes}
        lightest = min(one.weight or 1 for one in classes)
        if classes[0].weight:
            lines = ["qdisc add dev {port} parent 10:1 handle 20: drr"]
            lines += [f"class add dev {{port}} parent 20: classid {class_ids[one.number]} drr "
                      f"quantum {frame * one.weight // lightest}" for one in classes]
        else:
            bands = [str(order.index(classes[0]))] * 16
            lines = [f"qdisc add dev {{port}} parent 10:1 handle 20: prio bands {max(len(classes), 2)} "
                     f"priomap {' '.join(bands)}"]
        lines += [f"qdisc add dev {{port}} parent {class_ids[one.number]} handle {0x21 + one.number:x}: hpcc "
                  f"bandwidth {link['rate']}bit class {int(link['rate'] * one.share)}bit "
                  f"limit {link['buffer']}b overhead {link['overhead']} "
                  + re.sub(r"\bport \d+", f"port {one.port(number)}", self._for_tc(more)) for one in classes]
        protocol = "ipv6" if self.scenario.ip == 6 else "ip"
        lines += [f"filter add dev {{port}} parent 20: protocol {protocol} prio {one.number} flower "
                  f"ip_tos {one.dscp << 2:#x}/{DSCP_MASK} classid {class_ids[one.number]}" for one in classes[1:]]
        lines.append(f"filter add dev {{port}} parent 20: protocol all prio {len(classes)} matchall "
                     f"classid {class_ids[0]}")
        return "".join(f"{line}\n" for line in lines).format(port=port)

    def _netem(self, peer):
        """The impairments of a port. Data and ACKs are impaired at the last switch port of their path."""
        impair, text = self.scenario.impair, ""
        loss = max(impair["data_loss"] if peer in self.sinks else 0,
                   impair["ack_loss"] if peer in self.sources else 0)
        if loss:
            text += f" loss {100 * loss:g}%"
        if impair["reorder"] and peer in self.sinks:
            text += (f" delay {NETEM_DELAY_NS // 1000}us {impair['reorder_delay'] // 1000}us "
                     "distribution late")
        return text

    def _late(self):
        """netem's table of delays: a few packets get the jitter as an additional delay, all others get none.

        With the option "reorder" the other packets would bypass the child qdisc.
        """
        late = round(self.scenario.impair["reorder"] * NETEM_TABLE)
        return "\n".join([str(NETEM_SCALE)] * late + ["0"] * (NETEM_TABLE - late)) + "\n"
