#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""conformance.py [FILE]: print the names in Documentation/conformance.rst (or FILE) that do not exist. A row must name a file
or function if it names a test, and rows are numbered.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
NAME = re.compile(r"``(.+?)``", re.DOTALL)
# A function or an array of the code.
SYMBOL = re.compile(r"(\w+)(\(\)|\[\])")
# "SCRIPT: TEST", "SCRIPT", or another test of the last script.
NET = re.compile(r"(?:([\w-]+\.(?:py|sh))(?:: )?)?([\w*]*)")


def code():
    """Return the text of all sources of the modules, the qdisc and the tools."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "include", "kmod", "qdisc", "tools"],
                           cwd=TOP, check=True, capture_output=True, text=True).stdout.split()
    return "\n".join((TOP / name).read_text(encoding="utf-8") for name in names if name.endswith((".c", ".h")))


def rows(text):
    """Return the cells of each row of the tables: number, requirement, where, differences, tests."""
    for row in re.split(r"^   \* - ", text, flags=re.MULTILINE)[1:]:
        row = re.split(r"\n(?=\S)", row, maxsplit=1)[0]
        cells = [re.sub(r"\s+", " ", cell).strip() for cell in re.split(r"^     - ", row, flags=re.MULTILINE)]
        if cells[0] != "no.":
            yield cells


class Checker:
    def __init__(self):
        # Functions and arrays: lines of definitions begin in the first column.
        self.symbols = set(re.findall(r"^(?:[a-z][\w *]*?[ *])?(\w+)(?:\(|\[[^;=\n]*\] )", code(), re.MULTILINE))
        self.sysctls = (TOP / "kmod/hpcc/netns/sysctl.c").read_text(encoding="ascii")
        self.unit = {name for path in (TOP / "selftests/unit").glob("*.c")
                     for name in re.findall(r"^TEST\((\w+)", path.read_text(encoding="ascii"), re.MULTILINE)}

    def place(self, name):
        """Whether a literal of the columns "where" and "differences" exists, if it names a file, function or sysctl."""
        if SYMBOL.fullmatch(name):
            return SYMBOL.fullmatch(name)[1] in self.symbols
        if name.startswith("net.hpcc."):
            return f'"{name.removeprefix("net.hpcc.")}"' in self.sysctls
        if re.fullmatch(r"[\w./-]+\.(c|h|rst|sh|py)", name):
            return any((TOP / folder / name).is_file() for folder in ("", "include", "Documentation"))
        return True

    def net(self, script, test):
        path = TOP / "selftests/net" / script
        if not path.is_file():
            return False
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"^(?:def )?test_(\w+)\(", text, re.MULTILINE)
        for parameters, name in re.findall(r"^@(?:each|cases)\(([^@]*?)^def (\w+)\(", text, re.MULTILINE):
            found += [name, *re.findall(r"\b(\w+)=", parameters)]
        return not test or bool(fnmatch.filter(found, test))

    def tests(self, cell):
        """Yield the tests of a cell that do not exist."""
        for part in re.split(r"; ", cell):
            layer = part.split(" ", 1)[0]
            script = ""
            for name in NAME.findall(part):
                if layer == "unit":
                    good = name in self.unit
                elif layer == "fuzz":
                    good = (TOP / f"selftests/fuzz/fuzz_{name}.c").is_file()
                else:
                    match = NET.fullmatch(name)
                    script = match and match[1] or script
                    good = match and script and self.net(script, match[2])
                if not good:
                    yield name

    def check(self, text):
        """Yield what is wrong."""
        number = 0
        for cells in rows(text):
            number += 1
            if len(cells) != 5 or cells[0] != str(number):
                yield f"row {number}: {' | '.join(cells)}"
                continue
            missing = [name for cell in cells[1:4] for name in NAME.findall(cell) if not self.place(name)]
            for name in missing + list(self.tests(cells[4])):
                yield f"row {number}: {name} does not exist"
            if cells[4] != r"\-" and not NAME.search(cells[4]):
                yield f"row {number}: no name of a test"
        if not number:
            yield "no rows"


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else TOP / "Documentation/conformance.rst"
    wrong = list(Checker().check(path.read_text(encoding="utf-8")))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
