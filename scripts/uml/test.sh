#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# test.sh SCRIPT [ARG]...: run a test of selftests/net in a guest of its own, which finds our
# modules in HPCC_MODDIR and the tc plugin in TC_LIB_DIR. HPCC_KERNEL: version of its kernel. The
# exit status is that of the script. The output contains the kernel's warnings, so that
# scripts/check detects them. HPCC_TIMEOUT: limit of the CPU time in seconds (default: 600, or
# 1800 if HPCC_DEBUG selects a debug kernel). HPCC_SEED: seed of the guest's random numbers
# (default: 1).
# HPCC_GCOV=DIR, an absolute path: the modules count the lines of their code that run
# (gcov.sh), and their counters are stored in DIR/SCRIPT.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")

main()
{
	local -a save=() rw=()
	local tree tools limit=600

	if [ $# = 0 ] || [[ $1 == -* ]]; then
		echo "usage: test.sh SCRIPT [ARG]..." >&2
		exit 2
	fi
	if [[ $1 == */* ]] && [ ! -x "$1" ]; then
		echo "test.sh: $1: no such program, or not executable" >&2
		exit 2
	fi
	tree=$("$HERE/build.sh")
	tools=$("$HERE/modules.sh" "$tree")
	[ "${HPCC_DEBUG:-0}" = 0 ] || limit=1800
	if [ -n "${HPCC_GCOV:-}" ]; then
		rw=(--rw "$HPCC_GCOV")
		save=("$HERE/gcov.sh" "$HPCC_GCOV/${1##*/}")
	fi
	HPCC_MODDIR=$tools TC_LIB_DIR=$tools exec "$HERE/run.sh" --tree "$tree" \
		--kernel loglevel=5 --env "HPCC_TREE=$tree" \
		--seed "${HPCC_SEED:-1}" --timeout "${HPCC_TIMEOUT:-$limit}" "${rw[@]}" -- "${save[@]}" "$@"
}

main "$@"
