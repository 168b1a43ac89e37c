# SPDX-License-Identifier: GPL-2.0
"""Ethernet frames through a port with the qdisc "hpcc".

A script has functions group_*, and ends with main(), which takes

	[--pcap FILE] TX RX GROUP [ARG...]   TX and RX are NAMESPACE:DEVICE

A group sends frames out of TX through its qdisc, and compares the frames that arrive
at RX with the expected frames. It prints a line for each difference; if there is a
difference, the exit status is 1. The expected frame is computed here from the layout
in Documentation/protocol.rst, with checksums in full.
"""
import argparse
import array
import ctypes
import errno
import fcntl
import json
import select
import socket
import struct
import subprocess
import sys
import time
from functools import partial

from .ktap import defer
from .packet import (FORWARD, FREE, Segment, Telemetry, addresses, eth, ip_offset, ipv4, ipv6, option, tcp)

ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA, PACKET_VNET_HDR = 263, 8, 15
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 32, 33, 35
PACKET_OUTGOING = 4
VLAN_VALID = 0x10
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17
CLONE_NEWNET = 0x40000000

NODE, PORT, OVERHEAD = 7, 2, 24
PATIENCE_S = 2		# maximum time to wait for a frame

ENDS4 = addresses("192.0.2.1", "192.0.2.2")
ENDS6 = addresses("2001:db8::1", "2001:db8::2")
TIMESTAMPS = bytes([1, 1, 8, 10]) + bytes(8)
HOPOPTS = (0, bytes([0, 1, 4]) + bytes(4))
ROUTING = (43, bytes([0, 4, 0]) + bytes(4))
DSTOPTS = (60, bytes([1, 1, 12]) + bytes(12))
FRAGMENT6 = (44, struct.pack(">BHI", 0, 1, 99))
FRAGMENT6_LATER = (44, struct.pack(">BHI", 0, 8 << 3, 99))


def request(slots=(), kind_of=FORWARD, hops=0, **how):
    """Return a telemetry option; slots are 8 bytes each."""
    return option(kind_of, slots, hops=hops, **how)


THREE = request([FREE] * 3)
ip4 = partial(ipv4, ENDS4, ident=7)
ip6 = partial(ipv6, ENDS6)
seg4 = partial(tcp, ENDS4, options=THREE, payload=b"x" * 100)
seg6 = partial(tcp, ENDS6, options=THREE, payload=b"x" * 100)


def from_host(host, **how):
    """Return a frame with a TCP segment from one of 256 hosts."""
    ends = addresses(f"192.0.2.{host}", "192.0.2.2")
    tos = how.pop("tos", 0)
    return eth(ipv4(ends, tcp(ends, **{"options": THREE} | how), ident=7, tos=tos))


def tcp_offset(frame):
    at = ip_offset(frame)
    return at + Segment(frame[at:]).at


def tcp_is_right(frame):
    """Return whether the TCP checksum is correct."""
    return Segment(frame[ip_offset(frame):]).csum_ok


def link_tag():
    """Return the 8-bit tag for NODE and PORT."""
    return ((NODE << 16 ^ NODE >> 4 ^ PORT) * 0x9e3779b1 & 0xffffffff) >> 24


# ---- sockets ----

def enter(namespace):
    """Move this process into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}", "rb") as ns:
        if libc.setns(ns.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


class Wire:
    """A transmitting device and a receiving device."""

    def __init__(self, tx, rx):
        self.tx_ns, self.tx_dev = tx.split(":")
        rx_ns, rx_dev = rx.split(":")
        enter(rx_ns)
        self.rx = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.rx.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.rx.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        self.rx.bind((rx_dev, ETH_P_ALL))
        enter(self.tx_ns)
        self.tx = self.open_tx()
        self.tx_gso = self.open_tx(gso=True)
        self.pcap = []

    def open_tx(self, dev=None, gso=False):
        """Return a socket that sends out of the transmitting device, or of another device."""
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 24)
        sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, int(gso))
        sock.bind((dev or self.tx_dev, 0))
        return sock

    def checksum_offload(self, on):
        """Set whether the device or software in front of it completes CHECKSUM_PARTIAL."""
        value = array.array("I", [ETHTOOL_STXCSUM, on])
        request = struct.pack("16sP", self.tx_dev.encode(), value.buffer_info()[0]).ljust(40, b"\0")
        fcntl.ioctl(self.tx, SIOCETHTOOL, request)

    def send(self, frame):
        try:
            self.tx.send(frame)
        except OSError as error:
            # The qdisc dropped the frame: the receiver reports the loss.
            if error.errno not in (errno.ENOBUFS, errno.ENETDOWN):
                raise

    def send_gso(self, frame, gso_size, sock=None):
        """Send a frame as one packet that the kernel has to segment. sock: a socket of open_tx()."""
        pos = tcp_offset(frame)
        head_len = pos + (frame[pos + 12] >> 4) * 4
        gso_type = (1 if frame[14] >> 4 == 4 else 4) if gso_size else 0
        head = struct.pack("=BBHHHH", 1, gso_type, head_len, gso_size, pos, 16)
        (sock or self.tx_gso).send(head + frame)

    def receive(self, patience_s=PATIENCE_S):
        """Return the next frame as (time in ns, bytes), or None."""
        while select.select([self.rx], [], [], patience_s)[0]:
            frame, aux, _, address = self.rx.recvmsg(1 << 17, 256)
            if address[2] == PACKET_OUTGOING:
                continue
            when = 0
            for level, kind, data in aux:
                if level == SOL_PACKET and kind == PACKET_AUXDATA:
                    status, tci, tpid = struct.unpack_from("=I12xHH", data)
                    if status & VLAN_VALID:
                        frame = (frame[:12] + struct.pack(">HH", tpid, tci) + frame[12:])
                elif level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                    sec, nsec = struct.unpack("=qq", data)
                    when = sec * 10 ** 9 + nsec
            self.pcap.append(frame)
            return when, frame
        return None

    def through(self, frame):
        self.send(frame)
        got = self.receive()
        return got and got[1]

    def qdiscs(self):
        """Return the qdiscs "hpcc" of the transmitting device."""
        out = subprocess.check_output(["tc", "-s", "-j", "qdisc", "show", "dev", self.tx_dev])
        return [q for q in json.loads(out) if q["kind"] == "hpcc"]

    def stats(self):
        """Return the statistics of the first qdisc "hpcc"."""
        return self.qdiscs()[0]["hpcc"]

    def write_pcap(self, path):
        with open(path, "wb") as file:
            file.write(struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
            for frame in self.pcap:
                file.write(struct.pack("=IIII", 0, 0, len(frame), len(frame)))
                file.write(frame)


def cable():
    """Create the connected namespaces tx and rx, for a KTAP script. Afterwards this process is in tx."""
    for ns in "tx", "rx":
        subprocess.run(["ip", "netns", "add", ns], check=True)
        defer(subprocess.run, ["ip", "netns", "del", ns])
        subprocess.run(f"ip netns exec {ns} sysctl -qw net.ipv6.conf.default.disable_ipv6=1".split(), check=True)
    subprocess.run("ip link add v0 netns tx numtxqueues 2 type veth peer name v0 netns rx;"
                   "ip -n tx link set v0 up arp off; ip -n rx link set v0 up", shell=True, check=True)
    return Wire("tx:v0", "rx:v0")


WRONG = []


def expect(what, got, want):
    """Record a difference."""
    if got != want:
        WRONG.append(f"{what}: got {got}, wanted {want}")


def check_stamped(what, sent, got, opt, right=True):
    """Check that a stamped frame matches the sent frame. Return its option."""
    if got is None:
        WRONG.append(f"{what}: lost")
        return None
    pos = tcp_offset(sent)
    at = sent.index(opt, pos + 20)
    expect(f"{what}: length", len(got), len(sent))
    for i, (a, b) in enumerate(zip(sent, got)):
        if a != b and i not in (pos + 16, pos + 17) and not at + 3 <= i < at + len(opt):
            WRONG.append(f"{what}: byte {i} changed")
    expect(f"{what}: checksum is right", tcp_is_right(got), right)
    stamped = Telemetry(got[at:at + len(opt)])
    expect(f"{what}: hops", stamped.hops, (opt[3] >> 4) + 1)
    expect(f"{what}: flags", stamped.flags, opt[3] & 15)
    return stamped


def receive_all(wire, count):
    frames = []
    while len(frames) < count:
        got = wire.receive()
        if not got:
            WRONG.append(f"{len(frames)} of {count} arrived")
            break
        frames.append(got)
    return frames


def warm_up(wire):
    """Wait for timestamps: the kernel enables them some time after a socket requests them."""
    for _ in range(100):
        wire.send(eth(bytes(46), 46))
        got = wire.receive()
        if got and abs(got[0] - time.time_ns()) < 10 ** 8:
            time.sleep(0.01)
            return
        time.sleep(0.001)
    WRONG.append("no timestamps")


def gso_frame(version, size, opt=None):
    """Return a GSO packet with an option, by default with two slots."""
    opt = request([FREE, FREE]) if opt is None else opt
    seg = dict(options=opt, partial=True, payload=bytes(size))
    return opt, eth(ip4(seg4(**seg)) if version == 4 else ip6(seg6(**seg)))


def main():
    """Run one of the functions group_* of a script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pcap")
    for name in "tx", "rx", "group":
        parser.add_argument(name)
    parser.add_argument("args", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    wire = Wire(args.tx, args.rx)
    vars(sys.modules["__main__"])["group_" + args.group](wire, *args.args)
    if args.pcap:
        wire.write_pcap(args.pcap)
    for line in WRONG:
        print(line)
    sys.exit(bool(WRONG))
