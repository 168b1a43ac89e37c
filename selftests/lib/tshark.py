# SPDX-License-Identifier: GPL-2.0
"""What tshark reads in packets."""

import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from .ktap import Skip

ETHERNET, RAW_IP = 1, 101
DISSECTOR = Path(__file__).resolve().parents[2] / "tools/wireshark/hpcc.lua"


def pcap(packets, link):
    """A capture file's bytes, a microsecond from one packet to the next."""
    return struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, link) + \
        b"".join(struct.pack("=IIII", i // 1000000, i % 1000000, len(packet), len(packet)) + packet
                 for i, packet in enumerate(packets))


def read(packets, names, *options, link=RAW_IP):
    """For each packet the values of each field by name, as text."""
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    with tempfile.NamedTemporaryFile(suffix=".pcap", dir="/run") as file:
        file.write(pcap(packets, link))
        file.flush()
        done = subprocess.run(
            ["tshark", "-r", file.name, "-T", "fields", "-E", "separator=;", *options,
             *(word for name in names for word in ("-e", name))],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
            env=dict(os.environ, HOME="/run"))
    if done.returncode or "rror" in done.stderr:
        raise AssertionError(f"tshark: {done.stderr}")
    lines = done.stdout.splitlines()
    if "-Y" not in options and len(lines) != len(packets):
        raise AssertionError(f"tshark reads {len(lines)} of {len(packets)} packets: {done.stderr}")
    return [dict(zip(names, ([value for value in field.split(",") if value]
                             for field in line.split(";")))) for line in lines]


def read_ours(packets, names, *options):
    """The same, with our dissector."""
    return read(packets, names, "-X", f"lua_script:{DISSECTOR}", *options)
