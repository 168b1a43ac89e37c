# SPDX-License-Identifier: GPL-2.0
"""Our tracepoints."""

import contextlib
import os

from .ktap import Skip, defer


class Tracepoint:
    """One of our tracepoints, enabled until the test ends. A line is read by one object of this class only."""

    pipe = None

    def __init__(self, name):
        self.name = name.rpartition(":")[2]
        folder = "events/" + name.replace(":", "/")
        self.top = next((top for top in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
                         if os.path.exists(f"{top}/{folder}")), None)
        if not self.top:
            raise Skip("no tracefs")
        # Clearing "trace" takes the kernel 20 ms; the pipe is empty after it was read.
        if Tracepoint.pipe is None:
            Tracepoint.pipe = os.open(self.top + "/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.lines()
        # With record-cmd, the kernel patches its scheduler each time that a tracepoint is enabled:
        # see QEMU in testing.rst.
        self.write("options/record-cmd", "0")
        self.write(folder + "/enable", "1")
        defer(self.write, folder + "/enable", "0")

    def write(self, name, text):
        with open(f"{self.top}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    def lines(self):
        """Return the events since the last call, as dicts of words."""
        text = b""
        with contextlib.suppress(BlockingIOError):
            while (some := os.read(self.pipe, 1 << 16)):
                text += some
        found = [line.split(self.name + ":")[1] for line in text.decode("ascii").splitlines()
                 if self.name + ":" in line]
        return [dict(word.split("=") for word in line.split()) for line in found]
