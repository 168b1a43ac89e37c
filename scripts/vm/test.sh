#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# test.sh [--kernel-version X.Y] SCRIPT...: run tests of selftests/net in a virtual
# machine with Debian's own kernel. All scripts run in one boot. The output of each
# script is between "# script PATH" and "# status N". If the machine dies during a script,
# the remaining scripts run in a new machine. If a machine ends before the first script,
# it is booted once more, because an emulated machine may fail to boot on a busy host.
# KTAP_ONLY="test_a test_b" selects tests; other variables of tests (job.sh) set the number of
# repetitions.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
# Time limit of each script in seconds; the boot has 60 more.
SCRIPT_S=${SCRIPT_S:-1200}
LOG=

# shellcheck disable=SC2317 # called by trap
cleanup()
{
	[ -z "$LOG" ] || rm -f "$LOG"
}

# The directory of the kernel's source that tests need. The guest sees only this part of the source.
TDC=tools/testing/selftests/tc-testing

# boot SCRIPT...: boot a machine and run the scripts in it, until it has run all or dies.
boot()
{
	local dir
	local -a show=()

	while read -r dir; do
		show+=(--ro "$dir")
	done < <(dirname -- "$@" | sort -u)
	[ ! -d "$source/$TDC" ] || show+=(--ro "$source/$TDC" --env "HPCC_TREE=$source")
	HPCC_MODDIR=$tools TC_LIB_DIR=$tools "$HERE/run.sh" --tree "$tree" "${show[@]}" \
		--timeout $((60 + $# * SCRIPT_S)) --env "SCRIPT_S=$SCRIPT_S" -- "$HERE/suite.sh" "$@" | tee "$LOG"
}

# If the machine died during a script, print the status line that this script lacks.
close_last()
{
	local begun ended

	begun=$(grep -c '^# script ' "$LOG" || true)
	ended=$(grep -c '^# status ' "$LOG" || true)
	[ "$begun" = "$ended" ] || echo "# status 125"
}

main()
{
	local tree tools source begun script status=0 failed=0 again=1
	local -a build=()

	if [ "${1:-}" = --kernel-version ]; then
		build=(--kernel-version "${2:?--kernel-version needs a value}")
		shift 2
	fi
	if [ $# = 0 ] || [[ $1 == -* ]]; then
		echo "usage: test.sh [--kernel-version X.Y] SCRIPT..." >&2
		exit 2
	fi
	for script; do
		if [[ $script == */* ]] && [ ! -x "$script" ]; then
			echo "test.sh: $script: no such program, or not executable" >&2
			exit 2
		fi
	done
	tree=$("$HERE/kernel.sh" "${build[@]}")
	tools=$("$HERE/../uml/modules.sh" "$(readlink -f "$tree/build")")
	# The kernel's source, if the guest of User Mode Linux has been built.
	source=$("$HERE/../uml/build.sh" "${build[@]}" --where)
	LOG=$(mktemp)
	trap cleanup EXIT
	while [ $# -gt 0 ]; do
		status=0
		boot "$@" || status=$?
		begun=$(grep -c '^# script ' "$LOG" || true)
		if [ "$begun" = 0 ] && [ "$again" = 1 ]; then
			echo "test.sh: the machine ended before the first script; trying again" >&2
			again=0
			continue
		fi
		close_last
		! grep -q '^# status [^0]' "$LOG" || failed=1
		[ "$status" = 0 ] || failed=1
		if [ "$begun" = 0 ]; then
			echo "test.sh: the machine ended before the first script" >&2
			exit 125
		fi
		shift "$begun"
	done
	exit "$failed"
}

main "$@"
