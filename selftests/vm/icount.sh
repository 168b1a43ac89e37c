#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run one script of selftests/net in two guests whose CPU takes one nanosecond per
# instruction (scripts/vm/run.sh --icount). The outputs are identical, including all
# times in ns. This script runs on the host; "make check-icount" calls it.
set -uo pipefail

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
WORK=$(mktemp -d /var/tmp/hpcc-icount.XXXXXX)
trap 'rm -rf "$WORK"' EXIT
# Tests of the handshake: which connections agree, and the counters of both ends.
SCRIPT=selftests/net/handshake.py

# guest NAME: run SCRIPT in a guest; write its output and the kernel log to WORK/NAME.
guest()
{
	# shellcheck disable=SC2016 # expanded in the guest
	scripts/vm/run.sh --icount --tree "$tree" --timeout 400 -- \
		bash -c '"$0"; rc=$?; cat /proc/net/snmp /proc/uptime; dmesg; exit $rc' \
		./$SCRIPT > "$WORK/$1" 2>&1 < /dev/null
}

# The archive for a guest does not depend on when its files and directories were created.
same_archive()
{
	mkdir "$WORK/job" && echo true > "$WORK/job/main" &&
		scripts/vm/alone.sh "$tree" "$WORK/job" "$WORK/tree" > "$WORK/first" &&
		mkdir "$WORK/tree/later" && touch -d '1 hour ago' "$WORK/tree" $SCRIPT &&
		scripts/vm/alone.sh "$tree" "$WORK/job" "$WORK/tree" > "$WORK/second" &&
		cmp "$WORK/first" "$WORK/second"
}

# result NAME WHY: print a result by the status of the last command; the file WHY has its output.
result()
{
	local status=$?

	ktap_result "$((status != 0))" "$1" "$(tail -n 20 "$2")"
}

main()
{
	local tree tools

	ktap_plan 4
	tree=$("$TOP/scripts/vm/kernel.sh") || { echo "Bail out! no kernel"; exit 1; }
	tools=$("$TOP/scripts/uml/modules.sh" "$(readlink -f "$tree/build")") ||
		{ echo "Bail out! no modules"; exit 1; }
	# Use a copy of the files: an edit between the two runs would change the second run.
	mkdir "$WORK/tree"
	cp -r "$TOP/scripts" "$TOP/selftests" "$WORK/tree"
	cd "$WORK/tree" || exit 1
	export HPCC_MODDIR=$tools TC_LIB_DIR=$tools
	same_archive > "$WORK/why" 2>&1
	result "equal files make equal archives" "$WORK/why"
	guest one
	result "the script passes" "$WORK/one"
	guest two
	result "the script passes again" "$WORK/two"
	diff -U 0 "$WORK/one" "$WORK/two" > "$WORK/why" 2>&1
	result "both outputs are equal" "$WORK/why"
	ktap_exit
}

main "$@"
