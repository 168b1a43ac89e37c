# SPDX-License-Identifier: GPL-2.0
"""Common parts of all commands: error messages of one line, JSON files, and exit statuses."""

import argparse
import json
import os
import signal
import sys

from ..model.keys import ScenarioError
from .foreign import RunError


class Parser(argparse.ArgumentParser):
    """Errors are one line."""

    def error(self, message):
        self.exit(2, f"{self.prog.split()[0]}: {ScenarioError(message)} (see --help)\n")


def read_json(path):
    """The contents of a JSON file; raises ScenarioError."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as err:
        raise ScenarioError(f"{path}: {err.strerror}") from None
    except (ValueError, RecursionError):
        raise ScenarioError(f"{path}: is not JSON") from None


def _status(main, name):
    try:
        status = main(sys.argv[1:])
    except (ScenarioError, RunError) as err:
        print(f"{name}: {err}", file=sys.stderr)
        status = 2 if isinstance(err, ScenarioError) else 1
    if sys.stdout:
        sys.stdout.flush()
    return status


def run(main, name):
    """Return the exit status of main(argv): 2 after a ScenarioError, 1 after a RunError, 130 after Ctrl-C. stdout may
    have any encoding, be closed or full, or have no reader.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if sys.stdout:
            sys.stdout.reconfigure(errors="backslashreplace")
        return _status(main, name)
    except KeyboardInterrupt:
        return 130
    except OSError as err:
        # Python flushes stdout again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(err, BrokenPipeError):
            print(f"{name}: {err.filename or 'standard output'}: {err.strerror}", file=sys.stderr)
        return 1
