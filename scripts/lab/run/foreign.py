# SPDX-License-Identifier: GPL-2.0
"""Congestion controls and queue disciplines beside ours: those of the guest's kernel (built in, a module, or a source in
its tree), and sources and BPF objects of the user.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

from ..model import files
from ..model.keys import CC_NAME, ScenarioError, is_source, nearest

OURS = ("hpcc", "powertcp", "ldcp")
# Directory of the kernel's modules of a kind, the call that registers one, what every kernel has, and its name.
KINDS = {"tcp": ("ipv4", "tcp_register_congestion_control(", ("reno",), "congestion control"),
         "sch": ("sched", "register_qdisc(", ("pfifo", "bfifo"), "queue discipline")}
# Modules with these prefixes that are something else, or not for a port.
OTHERS = {"tcp_diag", "tcp_probe", "tcp_cong", "sch_api", "sch_generic", "sch_ingress", "sch_mq", "sch_mqprio", "sch_taprio",
          "sch_blackhole"}
# What the compiler says if a kernel lacks something. Patches of TCP extend these structures.
LACKS = (r"struct (tcp_congestion_ops|rate_sample|tcp_sock|inet_connection_sock|tcp_skb_cb|sk_buff|sock|netns_ipv4)"
         r"\W has no member named \W(\w+)", r"implicit declaration of (function) \W(\w+)", r"\W(\w+)\W undeclared",
         r'modpost: "(\w+)" \S+ undefined')
# Sources with functions that others call: tcp_yeah.c, sch_fq_pie.c
SHARED = {'"tcp_vegas.h"': "net/ipv4/tcp_vegas.c", "<net/pie.h>": "net/sched/sch_pie.c"}
LINES = 40      # of the compiler's messages
# Only new objects need, and only new versions of bpftool know, the directory of links.
REGISTER = ("mount -t bpf bpf /sys/fs/bpf; for file; do bpftool struct_ops register $file /sys/fs/bpf/cc 2> /dev/null || "
            "bpftool struct_ops register $file || exit; done")


class RunError(Exception):
    """An error message of one or more lines, which may contain output of a guest."""

    def __str__(self):
        return files.printable(super().__str__())


@dataclass
class Part:
    """What a guest loads: files in a directory, or nothing if the module is built in. digest: a hash of a source."""
    name: str
    module: str
    directory: Path = None
    files: list = field(default_factory=list)
    digest: str = ""
    parameters: dict = field(default_factory=dict)

    def bpf(self):
        """The BPF objects, which are no modules."""
        return [file for file in self.files if file.endswith(".o")]

    def options(self, number):
        """Options of run.sh."""
        place = ["--ro", str(self.directory), "--at", f"/tmp/cc{number}"] if self.directory else []
        modules = [word for file in self.files if not self.bpf() for word in ("--module", str(self.directory / file))]
        return place + modules + [word for key, value in self.parameters.items() for word in
                                  (("--param", f"{key}={value}") if place else ("--kernel", f"{self.module}.{key}={value}"))]

    def check(self, kernel):
        """The kernel ignores parameters that a module does not have."""
        data = (self.directory / self.files[-1] if self.directory else kernel.base / "modules.builtin.modinfo").read_bytes()
        known = {name.decode() for module, name in re.findall(rb"\0(?:(\w+)\.)?parmtype=(\w+):", b"\0" + data)
                 if module.decode() in ("", self.module)}
        for key in sorted(set(self.parameters) - known):
            raise RunError(f"cc.parameters.{key}: {self.name} has no such parameter; it has " +
                           (", ".join(sorted(known)) or "none"))


class Kernel:
    """The modules of a kernel: a tree of uml/build.sh, or the directory that vm/kernel.sh prints."""

    def __init__(self, tree):
        self.base = next(Path(tree).glob("lib/modules/*"), Path(tree))
        self.build = Path(tree, "build") if Path(tree, "build").exists() else Path(tree)
        self.built_in = set(re.findall(r"/(\w+)\.ko", (self.base / "modules.builtin").read_text(encoding="utf-8"))) - OTHERS
        self.version = "Linux " + re.search(r"\d+\.\d+", self.base.name)[0]

    def find(self, kind, name):
        """A file, or "" if the module is built in, or None if the kernel has no such thing."""
        folder, register, core, _ = KINDS[kind]
        module = f"{kind}_{name}"
        if name in core or module in self.built_in:
            return ""
        for path in self.base / f"kernel/net/{folder}/{module}.ko", self.build / f"net/{folder}/{module}.c":
            if module not in OTHERS and path.exists() and (path.suffix == ".ko" or
                                                           register in path.read_text(encoding="utf-8")):
                return path
        return None

    def names(self, kind):
        """All names that find() finds."""
        known = self.built_in | {path.stem for place in (self.base / "kernel", self.build)
                                 for path in place.glob(f"net/{KINDS[kind][0]}/{kind}_*")}
        names = {module[4:] for module in known if module.startswith(f"{kind}_")} | set(KINDS[kind][2])
        return sorted(name for name in names if self.find(kind, name) is not None)


def missing(text, version):
    """One line about what a kernel lacks, from messages of the compiler; "" if it lacks nothing."""
    found = [match for pattern in LACKS for match in re.findall(pattern, text)]
    names = [f"{m[1]}()" if m[0] == "function" else f"{m[1]} of struct {m[0]}" if isinstance(m, tuple) else m for m in found]
    return f"\n{version} has no {', '.join(dict.fromkeys(names))}. If this is no typing error, the source is for another " \
        "kernel, or for one whose TCP is patched, as for BBRv3 and TCP Prague" if names and "error: expected" not in text else ""


def _wanted(scenario):
    """The (kind, name, key) that are not ours."""
    found = [("tcp", cc, "cc") for cc in scenario.cc_names() if cc not in OURS]
    if scenario.queue() != "fifo":
        found.append(("sch", scenario.queue().split()[0], "qdisc.kind" if scenario.qdisc["kind"] else "qdisc.queue"))
    return found


class Finder:
    """Finds and makes what scenarios need, for the kernel in a tree. make(tree, *paths) makes modules, and returns their
    directory; probe(scenario, part) returns the congestion controls of a guest with this part.
    """

    def __init__(self, tree, name, make, probe):
        self.kernel, self.name, self.make, self.probe = Kernel(tree), name, make, probe
        self.named = {}     # names of congestion controls by path

    def check(self, scenario):
        """Raise ScenarioError if the kernel does not have what a scenario names."""
        kernel = self.kernel
        for kind, name, key in _wanted(scenario):
            if name.endswith(".o") and self.name != "vm":
                raise ScenarioError(f"cc {name}: User Mode Linux has no JIT and no trampolines for BPF, which struct_ops "
                                    "needs; use --kernel vm")
            if not is_source(name) and kernel.find(kind, name) is None:
                known = (*OURS * (kind == "tcp"), *kernel.names(kind))
                raise ScenarioError(f'{key} = "{name}": {kernel.version} has no such {KINDS[kind][3]}; it has '
                                    + ", ".join(known) + nearest(name, known))
        for name in OURS:
            if name in scenario.cc_names() and scenario.parameters(name):
                raise ScenarioError(f"cc.parameters: {name} has none; its parameters are keys of [cc]")

    def prepare(self, scenario):
        """Make what the scenario needs, and give its sources their names. Raises RunError."""
        kernel, parts = self.kernel, []
        for kind, name, _ in _wanted(scenario):
            if is_source(name):
                parts.append(self._source(kernel, scenario, name))
                scenario.name_source(name, parts[-1].name)
            else:
                parts.append(self._module(kernel, kind, name))
            parts[-1].parameters = scenario.parameters(parts[-1].name) if kind == "tcp" else {}
            if parts[-1].parameters:
                parts[-1].check(kernel)
        scenario.parts = [part for part in parts if part.directory or part.parameters]

    def _compile(self, kernel, shown, path):
        """Return the directory of the modules, and the names of those that belong to the source."""
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        more = [kernel.build / file for header, file in SHARED.items() if header in text and (kernel.build / file).exists()
                and Path(file).stem not in kernel.built_in | {path.stem}]
        try:
            directory = Path(self.make(kernel.build, shown, *more))
        except RunError as err:
            lines = str(err).splitlines()
            raise RunError("\n".join([f"{shown}: does not compile for {kernel.version}", *lines[:LINES]])
                           + missing(str(err), kernel.version)) from None
        found = sorted(file.name for file in directory.glob("*.ko") if file.stem not in {one.stem for one in more})
        if not found:
            raise RunError(f"{shown}: its Kbuild makes no module")
        return directory, found

    def _module(self, kernel, kind, name):
        path, module = kernel.find(kind, name), f"{kind}_{name}"
        if path and path.suffix == ".c":
            return Part(name, module, *self._compile(kernel, path, path))
        return Part(name, module, path.parent, [path.name]) if path else Part(name, module)

    def _source(self, kernel, scenario, path):
        if path.endswith(".o"):
            source = Path(path).resolve()
            part = Part("", source.stem, source.parent, [source.name], hashlib.sha256(source.read_bytes()).hexdigest())
        else:
            directory, found = self._compile(kernel, path, Path(path))
            part = Part("", found[-1].removesuffix(".ko"), directory, found, (directory / "digest").read_text().strip())
        if path not in self.named:
            self.named[path] = self._name(kernel, scenario, path, part)
        part.name = self.named[path]
        return part

    def _name(self, kernel, scenario, path, part):
        """The name that a part registers in a guest."""
        before = {"reno", *(module[4:] for module in kernel.built_in if module.startswith("tcp_"))}
        try:
            new = sorted(set(self.probe(scenario, part)) - before - ({"vegas"} if (part.directory / "tcp_vegas.ko").exists()
                                                                      and "tcp_vegas.ko" not in part.files else set()))
        except RunError as err:
            raise RunError(f"{path}: the kernel has a congestion control of this name already; change .name in the source; "
                           f"the kernel has {', '.join(sorted(before))}" if "File exists" in str(err) else
                           f"{path}: a guest does not load it\n{err}") from None
        if len(new) != 1 or not re.fullmatch(CC_NAME, new[0]):
            raise RunError(f"{path}: has to register one congestion control, with a name of at most 15 letters, digits, - and _; it "
                           f"registers {files.printable(', '.join(new)) or 'none'}")
        if kernel.find("tcp", new[0]) is not None:
            raise RunError(f'{path}: the kernel has a congestion control of this name already, "{new[0]}"; give '
                           "the source another name")
        taken = {name: other for other, name in self.named.items()} | dict.fromkeys(OURS, "this project")
        if taken.get(new[0], path) != path:
            raise RunError(f'{path}: its congestion control has the name "{new[0]}", as that of {taken[new[0]]}')
        return new[0]
