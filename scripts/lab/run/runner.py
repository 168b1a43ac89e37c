# SPDX-License-Identifier: GPL-2.0
"""Execute a plan in a guest or on the host, and collect its measurements."""

import atexit
import collections
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

from ..model import files, topology, units
from ..model.keys import ScenarioError, is_source
from ..model.scenario import GUEST_PATH, Flows
from ..setup import plan as planning
from ..setup.traffic import FILES
from . import foreign, results
from .foreign import RunError

UML = Path(__file__).resolve().parents[2] / "uml"
VM = UML.parent / "vm"
# Paths in a guest: the directory of the plan, of our modules and tools, and of unpacked packages.
JOB, TOOLS, PROGRAMS, MONITOR = "/tmp/lab", "/tmp/tools", "/tmp/programs", "/tmp/hpccmon"
# CPU time after which a guest is killed, in seconds: of any run, and more for this number of flows.
PATIENCE_S, PATIENCE_FLOWS = 1800, 100
# Lines of a run's output that are kept for errors, and characters per line.
KEPT_LINES, LINE_MAX = 30, 10000
LATER_MAX = 65536
AVAILABLE = "/proc/sys/net/ipv4/tcp_available_congestion_control"


# Processes that are running, such as guests, for stop_all().
RUNNING = set()


def stop_all():
    """Terminate all running processes, which then remove their temporary files."""
    for process in list(RUNNING):
        process.terminate()


@dataclasses.dataclass
class Run:
    """The results of one run: results.json, the series of the plots, the summary."""
    scenario: object
    topology: object
    plan: object
    result: dict
    series: dict
    summary: dict
    files: Path = None      # directory of the programs' output, which exists until this process ends


class Progress:
    """A progress line, which is updated in place on a terminal. Without a terminal print a new line every 30 s."""

    def __init__(self):
        self.lock = threading.Lock()
        self.parts = {}
        self.started = time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.end = threading.Event()
        self.ticker = threading.Thread(target=self._tick, daemon=True)
        self.ticker.start()

    def update(self, name, text):
        """Set the progress of the part with this name."""
        with self.lock:
            self.parts[name] = text

    def _tick(self):
        while not self.end.wait(0.2 if self.terminal else 30):
            with self.lock:
                line = "lab: " + ", ".join(f"{n} {t}" for n, t in self.parts.items())
            line += f", {time.monotonic() - self.started:.0f} s"
            print(f"\r\033[K{line}" if self.terminal else line, file=sys.stderr,
                  end="" if self.terminal else "\n", flush=True)

    def done(self):
        """Stop the display, and clear the line."""
        self.end.set()
        self.ticker.join()
        if self.terminal:
            print("\r\033[K", file=sys.stderr, end="", flush=True)


class Part:
    """Progress under a different name, for several runs of one congestion control.

    A part that is done disappears from the line.
    """

    def __init__(self, progress, name):
        self.progress, self.name = progress, name

    def update(self, _name, text):
        """Like Progress.update()."""
        self.progress.update(self.name, text)
        if text == "done":
            with self.progress.lock:
                self.progress.parts.pop(self.name, None)


def _output(argv, what):
    """Return the stdout of a helper script. Its stderr shows the progress to the user."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        RUNNING.add(process)
        try:
            text, _ = process.communicate()
        except KeyboardInterrupt:
            process.wait()      # the process also received the signal, and removes incomplete files
            raise
        finally:
            RUNNING.discard(process)
    if process.returncode:
        raise RunError(text.strip() or f"{what} failed")
    return text.strip()


def unpacked(scenario):
    """The directory with the unpacked packages of a scenario's programs; "" if the scenario names none."""
    names = sorted({run.package for run in scenario.runs if run.package}
                   | {"bpftool" for part in scenario.parts or () if part.bpf()})
    return _output([str(UML / "programs.sh"), *names], "unpacking " + ", ".join(names)) if names else ""


def _libraries(place):
    return f"{place}/usr/lib/{sysconfig.get_config_var('MULTIARCH')}:{place}/lib/{sysconfig.get_config_var('MULTIARCH')}"


def monitor():
    """The hpccmon of these sources, or the installed one; RunError if it cannot observe."""
    own = UML.parents[1] / "tools/hpccmon/hpccmon"
    path = str(own) if own.exists() else shutil.which("hpccmon", path=GUEST_PATH)
    if path is None:
        raise RunError("cc.observe: there is no hpccmon; make tools builds it")
    # With BPF it refuses this directory, without BPF any.
    done = subprocess.run([path, "observe", "--cgroup=/proc"], capture_output=True, text=True, check=False)
    if "--cgroup /proc" not in done.stderr:
        raise RunError(f"cc.observe: {done.stderr.strip()}")
    return path


def memory_mb(scenario):
    """Memory of a guest: for the buffers of active flows, and for the sockets of connections, of which at most LATER_MAX
    that are made later exist at once. The host gives only the memory that the guest uses.
    """
    flows = scenario.flows
    drawn = len(flows) - len(flows.given)
    early = {"start": 0, "pool": len(flows.planned) * (scenario.workload.get("pool") or 0)}.get(flows.connect, drawn)
    later = max(drawn - early, 0)
    early = len(flows) - later + sum(len(one.edges) for one in scenario.collectives)
    return 768 + 24 * min(early + later, 64) + (early + min(later, LATER_MAX)) // 32


class Uml:
    """Guests with a kernel built by scripts/uml/build.sh."""

    name = "uml"
    workers = len(os.sched_getaffinity(0))      # a guest is a process with one thread
    kernel, run = [UML / "build.sh", "--lab"], UML / "run.sh"

    def __init__(self, version=None, observe=False):
        self.monitor = monitor() if observe else ""
        argv = [*map(str, [UML / "build.sh", "--observe"] if observe else self.kernel)] + (
            ["--kernel-version", version] if version else [])
        self.lock = threading.Lock()
        self.tree = _output(argv, "making the guest's kernel")
        build = os.path.realpath(Path(self.tree, "build"))
        self.tools = _output([str(UML / "modules.sh"), build if os.path.exists(build) else self.tree],
                             "building the modules")
        self.foreign = foreign.Finder(self.tree, self.name, self._make, self._probe)

    def check(self, scenario):
        """Raise ScenarioError if the kernel lacks what the scenario needs."""
        if scenario.cc["observe"] and not self.monitor:
            raise ScenarioError("cc.observe: only run, compare and rerun of hpcc-lab have it")
        self.foreign.check(scenario)

    @staticmethod
    def _make(tree, *sources):
        return _output([str(UML / "modules.sh"), os.path.realpath(tree), *map(str, sources)], "compiling")

    def _probe(self, scenario, part):
        known = part.directory / "names"
        if known.exists() and not part.bpf():
            return known.read_text(encoding="utf-8").split()
        with _job() as directory:
            empty = dataclasses.replace(scenario, flows=Flows(), rpcs=[], collectives=[], runs=[], parts=[part])
            done = subprocess.run(self._guest_command(directory, empty, 1, ["cat", AVAILABLE]), cwd=directory,
                                  env=self.environment(), stdin=subprocess.DEVNULL, text=True, errors="replace",
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise RunError("\n".join(done.stdout.splitlines()[-KEPT_LINES:]))
        names = done.stdout.splitlines()[-1]
        if not part.bpf():
            new = known.with_name(f"names.{os.getpid()}")
            with contextlib.suppress(OSError):      # the cache may belong to another user
                new.write_text(names, encoding="utf-8")
                os.replace(new, known)
        return names.split()

    def prepare(self, scenario):
        """Make the modules that the scenario needs; raises RunError."""
        try:
            with self.lock:
                if scenario.parts is None:
                    self.foreign.prepare(scenario)
        except OSError as err:
            raise RunError(f"{err.filename}: {err.strerror}") from None

    @staticmethod
    def isolated(scenario, seed):
        """Options that make runs repeatable and safe. A run depends on the seed, but not on the state of this
        host. Commands and sources of a scenario are not trusted, and must not read or write files of this host: the
        guest's kernel, with its modules, is an ordinary process.
        """
        foreigners = scenario.runs or any(part.digest for part in scenario.parts or ())
        return ["--bare", "--seed", str(seed), "--confine" if foreigners else "--confine-if-possible"]

    def command(self, directory, scenario, seed):
        """The command that runs the plan in directory."""
        return self._guest_command(directory, scenario, seed, ["sh", "main.sh", "keep"])

    def _guest_command(self, directory, scenario, seed, command):
        megabytes, patience = memory_mb(scenario), PATIENCE_S + len(scenario.flows) // PATIENCE_FLOWS
        argv = [str(self.run), "--tree", self.tree, *self.isolated(scenario, seed),
                "--mem", f"{megabytes}M", "--rw", directory, "--at", JOB, "--dir", JOB,
                "--ro", self.tools, "--at", TOOLS, "--timeout", str(patience), "--module", f"{self.tools}/sch_hpcc.ko"]
        for cc in scenario.cc_names():
            if cc in foreign.OURS:
                argv += ["--module", f"{self.tools}/tcp_{cc}.ko"]
        objects = []
        for i, part in enumerate(scenario.parts or ()):
            argv += part.options(i)
            objects += [f"/tmp/cc{i}/{file}" for file in part.bpf()]
        if objects:
            command = ["sh", "-c", f'{foreign.REGISTER}; exec {" ".join(command)}', "sh", *objects]
        programs = unpacked(scenario)
        if programs:
            argv += ["--ro", programs, "--at", PROGRAMS, "--env", f"LD_LIBRARY_PATH={_libraries(PROGRAMS)}",
                     "--env", f"PATH={GUEST_PATH}:{PROGRAMS}/usr/sbin:{PROGRAMS}/usr/bin"]
        if scenario.cc["observe"]:
            argv += ["--ro", os.path.dirname(self.monitor), "--at", MONITOR, "--env", f"HPCCMON={MONITOR}/hpccmon"]
        return argv + ["--env", f"HPCC_TRAFFIC={TOOLS}/hpcc-traffic",
                       "--env", f"HPCC_NETWORK={TOOLS}/hpcc-network",
                       "--env", f"TC_LIB_DIR={TOOLS}", "--", *command]

    @staticmethod
    def environment():
        """The environment without variables that would override arguments of run.sh."""
        return {k: v for k, v in os.environ.items() if k not in ("HPCC_MODDIR", "TC_LIB_DIR")}


class Vm(Uml):
    """Virtual machines with a kernel built by scripts/vm/kernel.sh, in real time."""

    name = "vm"
    workers = 1
    kernel, run = [VM / "kernel.sh"], VM / "run.sh"

    def command(self, directory, scenario, seed):
        """The root file system of the machine contains only files that the testbed itself needs."""
        if scenario.runs or scenario.measure["pcap"] or scenario.measure["qlog"]:
            raise RunError("run, measure.pcap, measure.qlog: a virtual machine has no programs; use --kernel uml or host")
        return super().command(directory, scenario, seed)

    @staticmethod
    def isolated(_scenario, _seed):
        """No options: in real time, runs are not repeatable."""
        return []


class Host:
    """Namespaces of the running kernel, with modules installed."""

    name = "host"
    workers = 1

    def __init__(self):
        if os.geteuid() != 0:
            raise RunError("--kernel host has to run as root: sudo hpcc-lab ...")
        given = {name: os.environ.get(name) for name in ("HPCC_NETWORK", "HPCC_TRAFFIC")}
        self.tools = given if all(given.values()) else self._compile()

    @staticmethod
    def _compile():
        """Compile the tools into a directory that exists until this process ends."""
        directory = tempfile.mkdtemp(prefix="hpcc-lab-tools-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        tools = {}
        for name, libraries in ("network", ["-lmnl"]), ("traffic", []):
            tools[f"HPCC_{name.upper()}"] = str(Path(directory, f"hpcc-{name}"))
            sources = sorted((UML.parents[1] / "tools" / name).glob("*.c"))
            _output([os.environ.get("CC", "cc"), "-O2", "-o", tools[f"HPCC_{name.upper()}"],
                     *map(str, sources), *libraries], f"compiling hpcc-{name}")
        return tools

    @staticmethod
    def check(scenario):
        """Raise ScenarioError if the scenario needs a guest."""
        for cc in filter(is_source, scenario.cc_names()):
            raise ScenarioError(f"cc {cc}: --kernel host runs only names; load the module yourself and give its name")
        if any(scenario.parameters(cc) for cc in scenario.cc_names()):
            raise ScenarioError("cc.parameters: with --kernel host set the parameters of modules yourself")

    @staticmethod
    def prepare(_scenario):
        """Nothing: modprobe loads the kernel's own modules."""

    def _modprobe(self, module):
        done = subprocess.run(["modprobe", module], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunError(f"modprobe {module} failed on kernel {os.uname().release}: "
                           f"{done.stderr.strip() or 'no message'}\n"
                           "Run \"make && sudo make install\" first, or use --kernel uml.")

    def command(self, _directory, scenario, _seed):
        """The command that runs the plan in directory."""
        if unpacked(scenario):
            raise RunError("run.package: --kernel host runs installed programs only")
        self._load(scenario.cc_names())
        return ["sh", "main.sh"]

    def _load(self, names):
        """Load the modules that are not loaded. A guest that tests this class has loaded all modules."""
        if not Path("/sys/module/sch_hpcc").exists():
            self._modprobe("sch_hpcc")
        for cc in set(names) - set(Path(AVAILABLE).read_text(encoding="ascii").split()):
            self._modprobe(f"tcp_{cc}")

    def environment(self):
        """The environment with the paths of the tools, for main.sh."""
        return os.environ | self.tools


def _watch(process, name, progress):
    """Read the output of a run and show its progress. Return the last lines without progress, for errors; a
    guest may print any number of lines.
    """
    kept = collections.deque(maxlen=KEPT_LINES)
    for line in iter(lambda: process.stdout.readline(LINE_MAX), ""):
        match = re.fullmatch(r"progress (network )?(\d+)\s*", line)
        if match:
            progress.update(name, f"{match[1] or ''}{match[2]} %")
        else:
            kept.append(line.rstrip())
    process.wait()
    return kept


def _kept(directory, scenario):
    """Copy the output of programs to a directory that exists until this process ends."""
    if not (scenario.runs or scenario.measure["pcap"] or scenario.measure["qlog"]):
        return None
    place = tempfile.mkdtemp(prefix="hpcc-lab-files-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    files.copy_tree(directory, Path(place))
    if not scenario.measure["pcap"]:
        with contextlib.suppress(OSError):      # a program may have put files there
            Path(place, "pcap").rmdir()
    return Path(place)


def execute(kernel, scenario, seed, progress):
    """Run one scenario and return a Run; raises RunError, also if a disk is full."""
    try:
        return _execute(kernel, scenario, seed, progress)
    except OSError as err:
        raise RunError(f"{scenario.cc_label()}: {err.filename or tempfile.gettempdir()}: {err.strerror}") \
            from None
    except RecursionError:
        raise RunError(f"{scenario.cc_label()}: the guest left directories that are too deep") from None


def in_parallel(kernel, work, items):
    """Return work(item, progress) of all items, of which kernel.workers run at a time."""
    progress = Progress()
    try:
        with concurrent.futures.ThreadPoolExecutor(kernel.workers) as pool:
            jobs = [pool.submit(work, item, progress) for item in items]
            try:
                return [job.result() for job in jobs]
            finally:
                pool.shutdown(cancel_futures=True)
    finally:
        progress.done()


@contextlib.contextmanager
def _job():
    """A temporary directory. rm removes a guest's files, because Python cannot remove deeply nested directories."""
    with tempfile.TemporaryDirectory(prefix="hpcc-lab-") as directory:
        try:
            yield directory
        finally:
            subprocess.run(["rm", "-rf", "--", directory], stderr=subprocess.DEVNULL, check=False)


def _check_sent(scenario, shape, records, name):
    """A source that hardly sends has no results. TCP itself sends a segment every 200 ms, as a probe."""
    end_ns = scenario.measure["deadline"]
    for cc in scenario.sources:
        got = most = 0
        for flow in scenario.flows:
            if flow.cc == cc and flow.bytes:
                got += records.received[flow.id]
                most = max(most, min(flow.bytes, shape.rate(flow.src, flow.dst) * (end_ns - flow.start_ns) // (8 * 10**9)))
                if records.done_ns[flow.id] >= 0:
                    break
        else:
            if 100 * got >= most:
                continue
            raise RunError(f"the run with {name} failed: {cc} hardly sends until measure.deadline, "
                           f"{units.show_time(end_ns)}: no flow ended, and all delivered {units.show_bytes(got)}")


def _check_kind(scenario, plan, output):
    """Raise ScenarioError if tc refused the line of qdisc.kind. tc prints its reason first, and then its usage."""
    kind, text = scenario.qdisc["kind"], "\n".join(output)
    lines = {f"{file}:{i}": line for file, text in plan.files.items() for i, line in enumerate(text.splitlines(), 1)}
    if kind and any(lines.get(place, "").endswith(kind) for place in re.findall(r"(?m)^Command failed (\w+\.tc:\d+)$", text)):
        raise ScenarioError(f'qdisc.kind = "{kind}": tc: {output[0]}')


@contextlib.contextmanager
def _left_no_results(name):
    """An error in the files of a guest, which is not trusted, is an error of the run."""
    try:
        yield
    except results.EmptyWindow as err:
        raise RunError(f"{name}: {err}") from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as err:
        raise RunError(f"{name}: the guest left no results: {err!r}") from None


def _execute(kernel, scenario, seed, progress):
    kernel.prepare(scenario)
    shape = topology.Topology(scenario)
    plan = planning.Plan(scenario, shape)
    name = scenario.cc_label()
    with _job() as directory:
        for file, text in plan.files.items():
            Path(directory, file).write_text(text, encoding="utf-8")
        with open(Path(directory, "plan"), "w", encoding="utf-8") as file:
            file.writelines(plan.lines())
        Path(directory, FILES, "pcap").mkdir(parents=True)
        argv = kernel.command(directory, scenario, seed)
        progress.update(name, "starting")
        with subprocess.Popen(argv, cwd=directory, env=kernel.environment(), text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as process:
            RUNNING.add(process)
            kept = _watch(process, name, progress)
            RUNNING.discard(process)
        if process.returncode:
            _check_kind(scenario, plan, kept)
            memory = any(re.search("[Oo]ut of memory|deadlocked on memory", line) for line in kept)
            raise RunError("\n".join([f"the run with {name} failed (exit status {process.returncode})", *kept]
                                     + [f"the guest ran out of memory, it has {memory_mb(scenario)} MB: too many "
                                        "connections exist at once, or a program needs more"] * memory))
        progress.update(name, "reading the results")
        with files.open_regular(Path(directory, "result")) as file, _left_no_results(name):
            records = results.Records(files.lines(file), scenario)
            if scenario.cc["observe"]:
                records.observed = [end for host in shape.hosts
                                    for end in json.loads(files.read_text(Path(directory, f"{host}.observed")) or "[]")]
        release = files.printable(files.read_text(Path(directory, "kernel")).strip())
        saved = _kept(Path(directory, FILES), scenario)
    progress.update(name, "done")
    with _left_no_results(name):
        _check_sent(scenario, shape, records, name)
        result = results.build(scenario, shape, records, f"{kernel.name} {release}", seed)
        return Run(scenario, shape, plan, result, results.series(scenario, shape, plan, records),
                   results.summary(result), saved)
