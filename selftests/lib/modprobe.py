# SPDX-License-Identifier: GPL-2.0
"""The program that the kernel runs to load a module."""

import os
import tempfile

from .kernel import module_file
from .ktap import defer

MODPROBE = "/proc/sys/kernel/modprobe"


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def modprobe(*lines):
    """Let the kernel run these shell commands instead of modprobe."""
    program = tempfile.mkdtemp() + "/modprobe"
    write(program, "\n".join(["#!/bin/sh", *lines, ""]))
    os.chmod(program, 0o755)
    with open(MODPROBE, encoding="ascii") as file:
        defer(write, MODPROBE, file.read())
    write(MODPROBE, program)


def insmod(name):
    file = module_file(name)
    return f"/sbin/insmod {file}" if file else f"/sbin/modprobe {name}"
