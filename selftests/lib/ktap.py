# SPDX-License-Identifier: GPL-2.0
"""Tests that print KTAP: a script defines functions test_*, and ends with main()."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

from . import kernel


class Skip(Exception):
    """Raised by a test that cannot run here."""


def expect(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, wanted {want!r}")


def expect_in(what, got, low, high):
    if not low <= got <= high:
        raise AssertionError(f"{what}: got {got!r}, wanted {low!r} to {high!r}")


def expect_rate(what, got, low, high):
    """Fail if a rate exceeds the link's rate, or in virtual time if the rate is too low."""
    expect_in(what, got, low if kernel.virtual_time() else 0, high)


def need_virtual_time():
    """Skip a test that only makes sense with exact times."""
    if not kernel.virtual_time():
        raise Skip("times are exact in virtual time only")


_deferred = []


def defer(function, *args):
    """Call a function when the test ends. The last deferred function is called first."""
    _deferred.append((function, args))


def run_deferred():
    while _deferred:
        function, args = _deferred.pop()
        try:
            function(*args)
        except OSError as error:
            print(f"# at the end: {error}")


class Results:
    """Prints KTAP: the plan, then each result at once."""

    def __init__(self, plan):
        self.number = 0
        self.failed = False
        print(f"KTAP version 1\n1..{plan}", flush=True)

    def add(self, good, name, notes="", skip=None):
        """Print one result, after its notes; skip is the reason why the test did not run."""
        self.number += 1
        self.failed |= not good
        for line in notes.splitlines():
            print(f"# {line}")
        why = "" if skip is None else f" # SKIP {skip}"
        print(f"{'' if good else 'not '}ok {self.number} - {name}{why}", flush=True)


def skip_all(why):
    """End a program that cannot run here."""
    print(f"KTAP version 1\n1..0 # SKIP {why}")
    sys.exit(4)


def no_test(name, known):
    """End the program, because @name is not one of its tests, @known."""
    print(f"KTAP version 1\nBail out! no test {name}; there are {' '.join(known)}")
    sys.exit(2)


def need_commands(*names):
    """End the program unless it runs as root and these commands exist."""
    if os.geteuid():
        skip_all("needs root")
    for name in names:
        if not shutil.which(name):
            skip_all(f"needs {name}")


def compiled(folder):
    """Compile the C sources in a folder beside the test. Return the path of the program."""
    need_commands("cc")
    program = tempfile.mkdtemp() + "/program"
    sources = glob.glob(os.path.dirname(os.path.abspath(sys.argv[0])) + f"/{folder}/*.c")
    if subprocess.run(["cc", "-O1", "-o", program, *sources], check=False).returncode:
        skip_all("cannot compile")
    return program


def prepare(modules, commands):
    """Load tcp_hpcc and other modules; check for the programs that all tests call, and for others."""
    need_commands("ip", "tc", "ethtool", *commands)
    os.environ.setdefault("TC_LIB_DIR", kernel.TOP + "/qdisc")
    for module in ("tcp_hpcc", *modules):
        if not kernel.need(module):
            skip_all(f"needs module {module}")


def run(tests):
    """Run test functions. Exit with the status of a KTAP program."""
    log = kernel.KernelLog()
    # As in ktap_main() of ktap.sh: timers are exact only after the first tick.
    time.sleep(0.05)
    results = Results(len(tests))
    for test in tests:
        name = test.__name__.removeprefix("test_")
        try:
            try:
                test()
            finally:
                run_deferred()
            expect("kernel log", log.complaints(), [])
            results.add(True, name)
        except Skip as why:
            results.add(True, name, skip=why)
        except Exception:
            results.add(False, name, traceback.format_exc())
    sys.exit(results.failed)


def cases(**named):
    """Create one test for each name. The test calls the function with these arguments."""
    def make(function):
        for name, args in named.items():
            def test(args=args):
                function(*args)
            test.__name__ = f"test_{name}"
            function.__globals__[test.__name__] = test
        return function
    return make


def each(*values):
    """Create one test for each string. The string is the function's argument and the end of the test's name."""
    return lambda function: cases(**{f"{function.__name__}_{value}": (value,) for value in values})(function)


def main(module=None, modules=(), commands=()):
    """Run all test_* of a script in their order, or only the tests named as arguments or in KTAP_ONLY, as often as they
    are named. Load tcp_hpcc and the given modules. If a command is missing, no test runs.
    """
    tests = {name.removeprefix("test_"): value
             for name, value in vars(module or sys.modules["__main__"]).items() if name.startswith("test_")}
    only = [name.removeprefix("test_") for name in sys.argv[1:] or os.environ.get("KTAP_ONLY", "").split()]
    for name in only:
        if name not in tests:
            no_test(name, tests)
    prepare(modules, commands)
    run([tests[name] for name in only or tests])
