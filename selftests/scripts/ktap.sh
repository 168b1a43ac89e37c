# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For scripts that print a KTAP result for each function that they call:
#
#	ok NAME FUNCTION [ARG]...	passed if it succeeds, skipped if its
#				status is 4; else what it printed
#	skip N "NAME: WHY"		N results that there are none of
#	exit "$FAILED"
#
# The plan is the script's. Such a script runs as a whole, and takes no names.

NR=0
FAILED=0

# shellcheck source=selftests/scripts/whole.sh
. "$(dirname "${BASH_SOURCE[0]}")/whole.sh"

ok()
{
	local name=$1 out rc=0

	shift
	out=$("$@" 2>&1) || rc=$?
	NR=$((NR + 1))
	case $rc in
	0) echo "ok $NR - $name" ;;
	4) echo "ok $NR - $name # SKIP ${out##*$'\n'}" ;;
	*)
		echo "# exit status $rc: ${out//$'\n'/$'\n'# }"
		echo "not ok $NR - $name"
		# shellcheck disable=SC2034 # for the script
		FAILED=1
		;;
	esac
}

skip()
{
	local i

	for ((i = 0; i < $1; i++)); do
		NR=$((NR + 1))
		echo "ok $NR - ${2%%:*} # SKIP ${2#*: }"
	done
}
