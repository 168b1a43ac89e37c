# SPDX-License-Identifier: GPL-2.0
"""Python's unittest cases as KTAP. Arguments of a test program are parts of the names of tests that it runs."""

import contextlib
import inspect
import io
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from . import ktap

TOP = Path(__file__).resolve().parents[2]
LAB = str(TOP / "scripts/hpcc-lab")


class Ktap(unittest.TestResult):
    """Prints results as they arrive."""

    def __init__(self, plan):
        super().__init__()
        self.results = ktap.Results(plan)

    def _add(self, good, test, **more):
        name = test.id().rsplit(".", 1)[-1].removeprefix("test_")
        self.results.add(good, f"{type(test).__name__}__{name}", **more)

    def _not_ok(self, test, err):
        self._add(False, test, notes=self._exc_info_to_string(err, test))

    def addSuccess(self, test):
        if not getattr(test, "sub_failed", False):
            self._add(True, test)

    def addFailure(self, test, err):
        self._not_ok(test, err)

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err and not getattr(test, "sub_failed", False):
            test.sub_failed = True
            self._not_ok(test, err)

    def addSkip(self, test, reason):
        self._add(True, test, skip=reason)


def allow_interrupts():
    """For setUpModule: make Ctrl-C work in processes that tests start, even if a shell ignores it for them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _cases(module):
    """Return the module's test cases in the order of its source."""
    found = [thing for thing in vars(module).values() if inspect.isclass(thing) and
             issubclass(thing, unittest.TestCase) and thing.__module__ == module.__name__]
    return sorted(found, key=lambda case: inspect.getsourcelines(case)[1])


def run(*argv, **how):
    return subprocess.run(argv, capture_output=True, text=True, check=False, **how)


def ran(test, *argv, status=0, **how):
    """Run a program, which has to end with this status."""
    done = run(*argv, **how)
    test.assertEqual(done.returncode, status, done.stdout + done.stderr)
    return done


class Case(unittest.TestCase):
    """Each test has its own directory."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = Path(made.name)


class SharedCase(unittest.TestCase):
    """All tests have the same directory."""

    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory(prefix="hpcc-test-")
        cls.addClassCleanup(made.cleanup)
        cls.directory = Path(made.name)


def main():
    """Run all cases, or the cases whose names contain an argument. The exit status is 1 if a case failed."""
    wanted, suite, known = sys.argv[1:], unittest.TestSuite(), []
    for case in _cases(sys.modules["__main__"]):
        for name in unittest.defaultTestLoader.getTestCaseNames(case):
            known.append(f"{case.__name__}__{name.removeprefix('test_')}")
            if not wanted or any(word in known[-1] for word in wanted):
                suite.addTest(case(name))
    for word in wanted:
        if not any(word in name for name in known):
            ktap.no_test(word, known)
    result = Ktap(suite.countTestCases())
    with contextlib.redirect_stderr(io.StringIO()):
        suite.run(result)
    sys.exit(result.results.failed)
