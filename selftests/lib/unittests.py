# SPDX-License-Identifier: GPL-2.0
"""Python's unittest cases as KTAP."""

import contextlib
import inspect
import io
import signal
import sys
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


def main(module, wanted):
    """Run the cases, or those whose names contain one of wanted. Exit with status 1 if one failed."""
    suite, known = unittest.TestSuite(), []
    for case in _cases(module):
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
