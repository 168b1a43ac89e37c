# SPDX-License-Identifier: GPL-2.0
"""Tracepoints of ours."""

import os

from .ktap import Skip, defer


class Tracepoint:
    """A tracepoint of ours, on until the test ends. All read from the one pipe
    that there is: what it told is gone for the others.
    """

    pipe = None

    def __init__(self, name):
        self.name = name.rpartition(":")[2]
        folder = "events/" + name.replace(":", "/")
        self.top = next((top for top in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
                         if os.path.exists(f"{top}/{folder}")), None)
        if not self.top:
            raise Skip("no tracefs")
        # To empty "trace" takes the kernel 20 ms; this is empty once it was read.
        if Tracepoint.pipe is None:
            Tracepoint.pipe = os.open(self.top + "/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.lines()
        # Else the kernel patches its scheduler for each: see testing.rst, of QEMU.
        self.write("options/record-cmd", "0")
        self.write(folder + "/enable", "1")
        defer(self.write, folder + "/enable", "0")

    def write(self, name, text):
        """Write a file of tracefs."""
        with open(f"{self.top}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    def lines(self):
        """What it told since the last call, as dicts of words."""
        text = b""
        try:
            while (some := os.read(self.pipe, 1 << 16)):
                text += some
        except BlockingIOError:
            pass
        found = [line.split(self.name + ":")[1] for line in text.decode("ascii").splitlines()
                 if self.name + ":" in line]
        return [dict(word.split("=") for word in line.split()) for line in found]
