# SPDX-License-Identifier: GPL-2.0
"""The fields that tshark reads in packets."""

import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from .ktap import Skip

ETHERNET, RAW_IP = 1, 101
WIRESHARK = Path(__file__).resolve().parents[2] / "tools/wireshark"
OURS = [word for script in ("hpcc", "hpcc-carriers") for word in ("-X", f"lua_script:{WIRESHARK}/{script}.lua")]
# tshark 4.4 loads no scripts for root. So another user runs tshark, with the right to read all files.
USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search"] if os.geteuid() == 0 else []
# tshark 4.4 writes flags as words.
FLAGS = {"False": "0", "True": "1"}
CAPTURES = Path(__file__).resolve().parents[1] / "captures"


def pcap(packets, link):
    """Return the bytes of a capture file, with one microsecond between packets."""
    return struct.pack("=IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, link) + \
        b"".join(struct.pack("=IIII", i // 1000000, i % 1000000, len(packet), len(packet)) + packet
                 for i, packet in enumerate(packets))


def read_file(name, names, *options):
    """Return for each packet of a capture file the values of each field by name, as text."""
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    done = subprocess.run(
        [*USER, "tshark", "-r", name, "-T", "fields", "-E", "separator=;", *options,
         *(word for field in names for word in ("-e", field))],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, env=dict(os.environ, HOME="/run"))
    if "aren't valid" in done.stderr and not any("lua_script" in word for word in options):
        raise Skip("this tshark does not know these fields")
    if done.returncode or "rror" in done.stderr:
        raise AssertionError(f"tshark: {done.stderr}")
    return [dict(zip(names, ([FLAGS.get(value, value) for value in field.split(",") if value]
                             for field in line.split(";")))) for line in done.stdout.splitlines()]


def read(packets, names, *options, link=RAW_IP):
    """Return the values of fields for packets."""
    with tempfile.NamedTemporaryFile(suffix=".pcap", dir="/run") as file:
        file.write(pcap(packets, link))
        file.flush()
        found = read_file(file.name, names, *options)
    if "-Y" not in options and len(found) != len(packets):
        raise AssertionError(f"tshark reads {len(found)} of {len(packets)} packets")
    return found


def read_ours(packets, names, *options):
    """Return the values of fields for packets, with our dissector."""
    return read(packets, names, *OURS, *options)


def capture(name, names):
    """Return the values of fields for a file of captures/, which unit/test_captures.c makes; checksums are verified."""
    return read_file(CAPTURES / f"{name}.pcap", names, *OURS, "-o", "tcp.check_checksum:TRUE")
