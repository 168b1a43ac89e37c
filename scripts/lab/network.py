# SPDX-License-Identifier: GPL-2.0
"""The network of a scenario as batches for ip, bridge and tc: nodes, links, addresses,
forwarding, qdiscs. Hardware addresses, neighbours and forwarding entries are static.
"""

PREFIX = "hpcc-"
# The host's own queue: TCP's small queues keep it short.
HOST_LIMIT = 64 * 10**6
# netem's queue is no part of the model; it must not drop.
NETEM_LIMIT = 1000000
# Entries in a table of delays (16384 at most), and the value that is one jitter.
NETEM_TABLE = 10000
NETEM_SCALE = 8192
# tc accepts a table with no less; it is taken from the link's own delay.
NETEM_DELAY_NS = 1000


class Network:
    """Text of every file, by name, that makes the network of one scenario."""

    def __init__(self, scenario, topology):
        self.scenario = scenario
        self.topology = topology
        self.files = {"links.ip": self._links(), "clean.ip": "".join(
            f"netns del {PREFIX}{node}\n" for node in topology.peers)}
        for node in topology.peers:
            self.files[f"{node}.ip"] = self._addresses(node)
            self.files[f"{node}.tc"] = self._qdiscs(node)
        for switch in topology.switches:
            self.files[f"{switch}.bridge"] = self._forwarding(switch)
        if scenario.impair["reorder"]:
            self.files["late.dist"] = self._late()

    def _links(self):
        mtu = self.scenario.link["mtu"]
        lines = [f"netns add {PREFIX}{node}" for node in self.topology.peers]
        for a, b in self.topology.links:
            name_a = "eth0" if a.startswith("h") else b
            mac = f" address {self.topology.mac(a)}" if a.startswith("h") else ""
            lines.append(f"link add name {name_a} netns {PREFIX}{a} mtu {mtu}{mac} type veth "
                         f"peer name {a} netns {PREFIX}{b} mtu {mtu}")
        return "\n".join(lines) + "\n"

    def _addresses(self, node):
        if node.startswith("s"):
            lines = ["link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0"]
            for peer in self.topology.peers[node]:
                lines += [f"link set {peer} master br0", f"link set {peer} up"]
            lines.append("link set br0 up")
            return "\n".join(lines) + "\n"
        plen = 64 if self.scenario.ip == 6 else 16
        flags = " nodad" if self.scenario.ip == 6 else ""
        lines = [f"addr add {self.topology.address(node)}/{plen} dev eth0{flags}",
                 "link set eth0 up"]
        for peer in self._partners(node):
            lines.append(f"neigh add {self.topology.address(peer)} "
                         f"lladdr {self.topology.mac(peer)} dev eth0 nud permanent")
        lines += [f"route add {self.topology.address(peer)} dev eth0 quickack 1"
                  for peer in self._ldcp_senders(node)]
        return "\n".join(lines) + "\n"

    def _partners(self, host):
        """Hosts that it exchanges packets with."""
        partners = {}
        for flow in self.scenario.flows:
            if flow.src == host:
                partners[flow.dst] = True
            elif flow.dst == host:
                partners[flow.src] = True
        return list(partners)

    def _ldcp_senders(self, host):
        """Hosts whose packets it acknowledges one by one."""
        return list(dict.fromkeys(flow.src for flow in self.scenario.flows
                                  if flow.dst == host and flow.cc == "ldcp"))

    def _forwarding(self, switch):
        hosts = {h: True for flow in self.scenario.flows for h in (flow.src, flow.dst)}
        return "".join(
            f"fdb add {self.topology.mac(host)} "
            f"dev {self.topology.path(switch, host)[1]} master static\n" for host in hosts)

    # ---- qdiscs

    def _qdiscs(self, node):
        if node.startswith("h"):
            link = self.topology.access(node)
            return self._qdisc("eth0", "root", link | {"buffer": HOST_LIMIT}, "nostamp")
        lines = []
        for index, port in enumerate(p for p in self.topology.ports if p.node == node):
            parent = "root"
            netem = self._netem(port)
            link = self.topology.link_of(port.node, port.peer)
            if " delay " in netem:
                link |= {"delay": link["delay"] - NETEM_DELAY_NS}
            if netem:
                lines.append(f"qdisc add dev {port.ifname} root handle 1: netem "
                             f"limit {NETEM_LIMIT}{netem}\n")
                parent = "parent 1:1"
            above = self.scenario.qdisc["above"]
            stamp = "stamp" + (f" above {above}b" if above else "")
            if "hpcc" not in self.scenario.cc_names():
                stamp = "nostamp"
            names = f"node {int(node[1:]) + 1} port {index + 1} {stamp}{self._marking()}"
            lines.append(self._qdisc(port.ifname, parent, link, names))
        return "".join(lines)

    def _marking(self):
        """Thresholds that are not given are derived from the rate."""
        qdisc = self.scenario.qdisc
        if qdisc["marking"] == "off":
            return ""
        text = f" marking {qdisc['marking']}"
        for key in ("kmin", "kmax", "knonect"):
            if qdisc[key] is not None:
                text += f" {key} {qdisc[key]}b"
        return text + (f" pmax {qdisc['pmax']:g}" if qdisc["pmax"] is not None else "")

    @staticmethod
    def _qdisc(ifname, parent, link, more):
        return (f"qdisc add dev {ifname} {parent} handle 10: hpcc rate {link['rate']}bit "
                f"limit {link['buffer']}b overhead {link['overhead']} delay {link['delay']}ns "
                f"{more}\n")

    def _netem(self, port):
        """Impairments: data at their last switch port, ACKs at theirs."""
        impair, text = self.scenario.impair, ""
        sinks = {flow.dst for flow in self.scenario.flows}
        sources = {flow.src for flow in self.scenario.flows}
        loss = max(impair["data_loss"] if port.peer in sinks else 0,
                   impair["ack_loss"] if port.peer in sources else 0)
        if loss:
            text += f" loss {100 * loss:g}%"
        if impair["reorder"] and port.peer in sinks:
            text += (f" delay {NETEM_DELAY_NS // 1000}us {impair['reorder_delay'] // 1000}us "
                     "distribution late")
        return text

    def _late(self):
        """netem's table of delays: one jitter for a few packets, else nothing.

        Its option "reorder" would send the others past the child qdisc.
        """
        late = round(self.scenario.impair["reorder"] * NETEM_TABLE)
        return "\n".join([str(NETEM_SCALE)] * late + ["0"] * (NETEM_TABLE - late)) + "\n"
