#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""The kernel's tc-testing runs the cases of lib/tc_cases.py: each option has to be accepted and refused once.

HPCC_TREE is the kernel's source. Arguments, or KTAP_ONLY, select cases by their id. With --json the
script prints the cases as tdc.py reads them.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lib import kernel, ktap
from lib.tc_cases import cases

RESULT = re.compile(r"(not )?ok \d+ (\S+) - (.*?)(\s*# skipped.*)?$")
# tdc.py runs its commands with this environment, and no other variables.
LOCAL = "import os\nENVIR = dict(os.environ)\nEXTRA_NAMES = {'TC': '%s', 'IP': '%s'}\n"


def tdc(work, chosen):
    """Run cases in a copy of tc-testing. Return what tdc.py printed, and its results."""
    source = Path(os.environ.get("HPCC_TREE") or "/nonexistent", "tools/testing/selftests/tc-testing")
    if not (source / "tdc.py").exists():
        ktap.skip_all("needs tc-testing of the kernel's source, HPCC_TREE; scripts/uml/build.sh unpacks it")
    if "pyroute2" in (source / "plugin-lib/nsPlugin.py").read_text(encoding="utf-8") and \
            not importlib.util.find_spec("pyroute2"):
        ktap.skip_all("needs python3-pyroute2, without which this kernel's tdc.py does not wait "
                      "for its namespaces")
    shutil.copytree(source, work / "tdc", ignore=shutil.ignore_patterns("tc-tests"))
    (work / "tdc/tdc_config_local.py").write_text(LOCAL % (shutil.which("tc"), shutil.which("ip")), encoding="utf-8")
    # Newer versions run cases in separate processes, which use semaphores.
    if not os.path.ismount("/dev/shm"):
        os.makedirs("/dev/shm", exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    (work / "hpcc.json").write_text(json.dumps(chosen), encoding="utf-8")
    output = subprocess.run([sys.executable, "-B", "tdc.py", "-f", work / "hpcc.json", "--outfile", "results"],
                            cwd=work / "tdc", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False).stdout
    results = work / "tdc/results"
    return output, results.read_text(encoding="utf-8") if results.exists() else ""


def by_case(text):
    """Return {id: (passed, skipped, notes)} from the TAP output of tdc.py."""
    found, notes = {}, []
    for line in text.splitlines():
        result = RESULT.match(line)
        if result:
            notes = []
            found[result[2]] = not result[1], result[4], notes
        elif line.strip():
            notes.append(line.strip())
    return found


def uncovered(found):
    """Return the options in tc's usage that no case has accepted, or that no case has refused."""
    usage = subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "hpcc", "help"],
                           stderr=subprocess.PIPE, text=True, check=False).stderr.split("\n\n")[0]
    options = set(re.findall(r"[\[|] ([a-z][a-z_-]+)", usage))
    missing = [] if len(options) > 20 else [f"usage: {usage}"]
    for accept in True, False:
        words = set(" ".join(case["cmdUnderTest"] for case in found
                             if (case["expExitCode"] == "0") == accept).split())
        missing += [f"{option}: not {'accepted' if accept else 'refused'} by any case"
                    for option in sorted(options - words)]
    return missing


def main():
    if sys.argv[1:] == ["--json"]:
        print(json.dumps(cases(), indent=4))
        return
    known = [case["id"] for case in cases()]
    only = [name.removeprefix("test_") for name in sys.argv[1:] or os.environ.get("KTAP_ONLY", "").split()]
    for name in only:
        if name not in known:
            ktap.no_test(name, known)
    ktap.need_commands("ip", "tc", "mount")
    os.environ.setdefault("TC_LIB_DIR", kernel.TOP + "/qdisc")
    if not kernel.need("sch_hpcc"):
        ktap.skip_all("needs module sch_hpcc")
    chosen = [case for case in cases() if not only or case["id"] in only]
    log = kernel.KernelLog()
    with tempfile.TemporaryDirectory() as work:
        output, text = tdc(Path(work), chosen)
    found = by_case(text)
    results = ktap.Results(len(chosen) + 2)
    for case in chosen:
        passed, skipped, notes = found.get(case["id"], (False, None, ["tdc.py tells no result"]))
        results.add(passed and not skipped, f"{case['id']} {case['name']}", "\n".join(notes))
    missing = uncovered(cases())
    results.add(not missing, "each option is accepted and refused", "\n".join(missing))
    complaints = log.complaints()
    results.add(not complaints, "kernel log", "\n".join(complaints))
    if results.failed:
        print("\n".join("# " + line for line in output.splitlines()))
    sys.exit(results.failed)


main()
