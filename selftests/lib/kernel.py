# SPDX-License-Identifier: GPL-2.0
"""The kernel: its time, its log, and our modules."""

import errno
import glob
import os
import re
import subprocess
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"


def release():
    """Return the (major, minor) version of the running kernel."""
    return tuple(map(int, os.uname().release.split(".")[:2]))


def virtual_time():
    """Return whether time is virtual: virtual time stops while programs run, so times are exact."""
    with open("/proc/cmdline", encoding="ascii") as file:
        return "time-travel=inf-cpu" in file.read()


def watches_itself():
    """Return whether this is a debug kernel. In an emulator it is several times slower."""
    return os.path.exists("/proc/lockdep") or os.path.exists("/sys/kernel/debug/kcsan")


class KernelLog:
    """The kernel's messages from now on."""

    # Most reports of KCSAN are about the kernel's own code: scripts/vm/races.awk finds the others.
    SPLAT = re.compile(r"BUG:(?! KCSAN)|WARNING:|Oops|Call Trace|refcount_t:|UBSAN|KASAN|"
                       r"unregister_netdevice|scheduling while atomic")
    # A message that is followed by a stack trace but reports no fault. A script may set it.
    EXPLAINED = None

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        """Return the lines since the last call."""
        lines = []
        while True:
            try:
                lines.append(os.read(self.fd, 8192).decode("utf-8", "replace").split(";", 1)[-1].split("\n")[0])
            except BlockingIOError:
                return lines
            except OSError as error:    # overwritten before it was read
                if error.errno != errno.EPIPE:
                    raise

    def complaints(self):
        """Return the lines since the last call that report a fault."""
        found, explained = [], 0
        for line in self.lines():
            if self.EXPLAINED and self.EXPLAINED.search(line):
                explained += 1
            elif explained and "Call Trace" in line:
                explained -= 1
            elif self.SPLAT.search(line):
                found.append(line)
        return found


def meminfo_kb(*names):
    """Return the sum of these entries of /proc/meminfo."""
    with open("/proc/meminfo", encoding="ascii") as file:
        lines = dict(line.split(":") for line in file)
    return sum(int(lines[name].split()[0]) for name in names)


def module_file(name):
    """Return the path of NAME.ko in HPCC_MODDIR or the tree; or None if the installed module is to be used."""
    given = os.environ.get("HPCC_MODDIR")
    found = ([f"{given}/{name}.ko"] if given else []) + glob.glob(f"{TOP}/kmod/*/{name}.ko") + \
        [f"{TOP}/qdisc/{name}.ko"]
    return next((file for file in found if os.path.exists(file)), None)


def modules():
    """Return the names of all modules of the tree, each after the modules that it needs."""
    return subprocess.check_output(["bash", "-c", f". '{TOP}/dkms.conf'; echo ${{BUILT_MODULE_NAME[@]}}"],
                                   text=True).split()


def need(name):
    """Load a module and the modules that it needs, and allow all users to select it. Return whether it is loaded."""
    if not os.path.isdir("/sys/module/" + name):
        file = module_file(name)
        if file:
            others = subprocess.run(["modinfo", "-F", "depends", file], check=False, text=True,
                                    stdout=subprocess.PIPE).stdout.strip()
            for other in filter(None, others.split(",")):
                need(other)
        if subprocess.run(["insmod", file] if file else ["modprobe", "-q", name], check=False).returncode:
            return False
    if name.startswith("tcp_"):
        allow(f"{allowed()} {name.removeprefix('tcp_')}")
    return True


def insert(ns, name="tcp_hpcc"):
    """Load a module: with insmod, or with modprobe if it is installed."""
    file = module_file(name)
    ns.run(*(["insmod", file] if file else ["modprobe", name]))


def load(ns, name="tcp_hpcc"):
    """Load a module, and allow all users to select it, as need() does."""
    insert(ns, name)
    if name.startswith("tcp_"):
        allow(f"{allowed()} {name.removeprefix('tcp_')}")


def allowed():
    """Return the congestion controls that all users may select."""
    with open(ALLOWED, encoding="ascii") as file:
        return file.read().strip()


def allow(names):
    fd = os.open(ALLOWED, os.O_WRONLY)
    try:
        os.write(fd, names.encode())
    finally:
        os.close(fd)


def unload(ns, wait_s=0, name="tcp_hpcc"):
    """Unload a module with its carriers, after wait_s seconds at most. Return whether it was unloaded."""
    # A netlink request may load hpcc_netlink again in between.
    for _ in range(10):
        for carrier in carriers(name):
            unload(ns, wait_s, carrier)
        for _ in range(wait_s):
            if not users(name):
                break
            time.sleep(1)
        output = ns.run("rmmod", name, check=False)
        if output and "in use" not in output:
            raise AssertionError(output)
        if not output or users(name):
            break
    return not output


def carriers(module):
    """Return the names of the loaded modules that depend on this module: carriers, hpcc_netlink, sch_hpcc_respond."""
    holders = f"/sys/module/{module}/holders"
    return os.listdir(holders) if module != "hpcc_common" and os.path.isdir(holders) else []


def users(module="tcp_hpcc"):
    """Return the reference count of a module without its carriers' references, or None if it is not loaded."""
    with open("/proc/modules", encoding="ascii") as file:
        return next((int(line.split()[2]) - len(carriers(module)) for line in file if line.split()[0] == module), None)
