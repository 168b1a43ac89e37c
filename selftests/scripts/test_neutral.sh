#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# With our modules loaded and unused, TCP is what it was: a connection of cubic
# sends the same segments at the same times as without them.
set -uo pipefail

TOP=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# segments MODULE...: of a guest with these modules
segments()
{
	"$TOP/scripts/uml/run.sh" --tree "$TREE" --seed 5 --ro "$TOOLS" -- \
		python3 -B "$TOP/selftests/scripts/neutral.py" "$@" 2> "$WORK/log" |
		sed -n '/^took /,$p'
}

main()
{
	local name

	echo "KTAP version 1"
	echo "1..2"
	if ! TREE=$("$TOP/scripts/uml/build.sh") ||
	   ! TOOLS=$("$TOP/scripts/uml/modules.sh" "$TREE"); then
		echo "Bail out! nothing to run"
		exit 1
	fi
	segments > "$WORK/without"
	segments "$TOOLS"/{hpcc_common,tcp_hpcc,tcp_ldcp,sch_hpcc}.ko > "$WORK/with"
	if [ "$(grep -c ' len [0-9]\{4,\} ' "$WORK/without")" -gt 5 ]; then
		echo "ok 1 - data"
	else
		sed 's/^/# /' "$WORK/log"
		echo "not ok 1 - data"
	fi
	name="the same segments with all modules loaded"
	if cmp -s "$WORK/without" "$WORK/with"; then
		echo "ok 2 - $name"
	else
		diff "$WORK/without" "$WORK/with" | head -n 20 | sed 's/^/# /'
		echo "not ok 2 - $name"
		exit 1
	fi
}

main "$@"
