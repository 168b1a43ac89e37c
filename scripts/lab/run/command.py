# SPDX-License-Identifier: GPL-2.0
"""What all commands do alike: errors in one line, files that are JSON, how they end."""

import argparse
import json
import os
import signal
import sys

from ..model.keys import ScenarioError


class Parser(argparse.ArgumentParser):
    """Errors are one line."""

    def error(self, message):
        self.exit(2, f"{self.prog.split()[0]}: {ScenarioError(message)} (--help tells more)\n")


def read_json(path):
    """Raises ScenarioError."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as err:
        raise ScenarioError(f"{path}: {err.strerror}") from None
    except (ValueError, RecursionError):
        raise ScenarioError(f"{path}: is not JSON") from None


def _flush(main):
    status = main(sys.argv[1:])
    if sys.stdout:
        sys.stdout.flush()
    return status


def run(main, name):
    """Exit status of main(argv). stdout may have any encoding, be closed, full, or without a reader."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if sys.stdout:
            sys.stdout.reconfigure(errors="backslashreplace")
        return _flush(main)
    except KeyboardInterrupt:
        return 130
    except OSError as err:
        # Python flushes stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(err, BrokenPipeError):
            print(f"{name}: {err.filename or 'standard output'}: {err.strerror}", file=sys.stderr)
        return 1
