#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Run fuzz targets: each target has two results, whether an error was found, and
whether the inputs reached enough of the code for the first result. KTAP.

An input that causes an error is kept in out/check/fuzz/TARGET/ or, with --keep, in
out/fuzz/TARGET/. build/TARGET FILE reproduces the error.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lib.ktap import Results

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"
OUT = Path(os.environ.get("OUT", HERE.parent.parent / "out")).absolute()

# For each target: the headers that it tests, and a regular expression for the start of the names of
# the tested functions.
CODE = {
    "option": (("/record.h",), r"hpcc_(syn_)?opts?_"),
    "record": (("/record.h", "/histogram.h", "/response.h"), r"hpcc_(?!(syn_)?opts?_|algo_)"),
    "stamp": (("/stamp.h", "/respond.h"), ""),
    "algo": (("/algo.h", "/measure.h", "/state.h", "/response.h"), r"hpcc_(?!response_)"),
    "receiver": (("/newint.h",), ""),
} | {name: ((f"/{name}.h",), "") for name in ("ldcp", "fallback", "ioam", "int", "ifa", "csig", "border", "tunnel")}

# Minimum percentage of the code's regions (of the compiler's coverage) that the seeds alone reach.
REACH_MIN = 95

# A single input takes microseconds.
TIMEOUT_S = 10
ENV = dict(os.environ, ASAN_OPTIONS="quarantine_size_mb=16:detect_leaks=0")

class Target:
    """One libFuzzer program."""

    def __init__(self, name, keep):
        self.name = name
        self.folder = OUT / ("fuzz" if keep else "check/fuzz") / name
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.corpus = self.folder / "corpus"
        self.inputs = [self.corpus, BUILD / "seeds" / name]
        self.executions = 0
        self.corpus.mkdir(parents=True, exist_ok=True)

    def fuzz(self, seconds, seed):
        """Return a description of the error that was found, or an empty string."""
        command = [*fixed_addresses(), BUILD / self.name, f"-seed={seed}", f"-max_total_time={seconds}",
                   f"-timeout={TIMEOUT_S}", f"-artifact_prefix={self.folder}/",
                   "-use_value_profile=1", "-print_final_stats=1", *self.inputs]
        done = subprocess.run(command, cwd=self.folder, env=ENV, text=True, errors="replace", check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        (self.folder / "log").write_text(done.stdout, encoding="utf-8")
        stat = re.search(r"^stat::number_of_executed_units: *(\d+)$", done.stdout, re.M)
        self.executions = int(stat.group(1)) if stat else 0
        if done.returncode:
            # the lines that show the fault
            found = [line for line in done.stdout.splitlines()
                    if re.search(r"wrong: |runtime error: |^SUMMARY: |Test unit written to", line)]
            return "\n".join(dict.fromkeys(found)) or f"exit status {done.returncode}"
        return "" if self.executions else "nothing was executed"

    def reach(self):
        """Return the numbers of regions and branches that the corpus reaches, and their totals."""
        raw = self.folder / "profile"
        run(BUILD / f"{self.name}.cov", "-runs=0", f"-artifact_prefix={raw}-", *self.inputs,
            env=dict(ENV, LLVM_PROFILE_FILE=f"{raw}.raw"))
        run("llvm-profdata", "merge", "-o", raw, f"{raw}.raw")
        report = run("llvm-cov", "export", BUILD / f"{self.name}.cov", f"-instr-profile={raw}")
        headers, names = CODE[self.name]
        regions, branches = [], []
        for function in json.loads(report)["data"][0]["functions"]:
            if not (function["filenames"][0].endswith(headers) and re.match(names, function["name"].split(":")[-1])):
                continue
            # Only regions of code in this file count: no gaps and no macros.
            regions += [region[4] > 0 for region in function["regions"] if region[5] == 0 and region[7] == 0]
            branches += [count > 0 for branch in function["branches"] for count in branch[4:6] if branch[6] == 0]
        return regions, branches

def fixed_addresses():
    """Return a command prefix: older ASan does not work if a kernel randomises 32 address bits."""
    prefix = ["setarch", "-R"]
    tried = subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=False)
    return [] if tried.returncode else prefix

def run(*command, env=None):
    """Run a tool. Return its output. Fail if the tool fails."""
    done = subprocess.run([str(word) for word in command], env=env, text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        sys.exit(f"Bail out! {command[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout

def fuzz(target, results, options):
    """Print both results of a target."""
    found = target.fuzz(options.seconds, options.seed)
    results.add(not found, f"{target.name}: finds nothing", found)
    reaches = f"{target.name}: reaches {REACH_MIN} % of its code"
    if found:
        results.add(False, reaches, "not measured: the error also ends that run")
        return
    regions, branches = target.reach()
    reached = 100 * sum(regions) / max(len(regions), 1)
    print(f"# {target.name}: {target.executions} executions in {options.seconds} s; of "
          f"{' '.join(CODE[target.name][0])} {sum(regions)} of {len(regions)} regions and "
          f"{sum(branches)} of {len(branches)} branches")
    results.add(reached >= REACH_MIN, reaches)

def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target; default 60")
    parser.add_argument("--seed", type=int, default=1, help="of libFuzzer; default 1")
    parser.add_argument("--keep", action="store_true", help="continue with the inputs of an earlier run")
    parser.add_argument("target", nargs="*", help=f"default: {', '.join(CODE)}")
    options = parser.parse_args()
    for name in options.target:
        if name not in CODE:
            parser.error(f"no target {name}; there are {', '.join(CODE)}")
    if options.seconds < 1:
        parser.error("--seconds: 1 or more")
    names = options.target or list(CODE)
    results = Results(2 * len(names))
    for name in names:
        fuzz(Target(name, options.keep), results, options)
    sys.exit(results.failed)

main()
