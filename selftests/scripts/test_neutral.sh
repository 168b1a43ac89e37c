#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Modules that are loaded but not used do not change TCP. Connections of cubic, reno and dctcp send
# the same packets at the same times with and without our modules: a single connection, and four
# connections at a bottleneck that drops or marks packets. The test does the same with a single bbr
# connection, with and without a bottleneck; neutral.py describes the method. Four bbr connections
# at a bottleneck are not compared, because runs without our modules already differ: four of them,
# two with the same seed, took 257, 239, 44 and 100 ms.
set -uo pipefail

TOP=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
work_dir

# segments ARG...: run neutral.py with these arguments in a guest, and print its scenarios
segments()
{
	"$TOP/scripts/uml/run.sh" --tree "$TREE" --seed 5 --ro "$TOOLS" --ro "$WORK" -- \
		python3 -B "$TOP/selftests/scripts/neutral.py" "$@" 2>> "$WORK/log" |
		sed -n '/^scenario /,$p'
}

# scenario NAME FILE: print the lines of a scenario in FILE
scenario()
{
	awk -v name="scenario $1" '/^scenario / { on = $0 == name } on' "$2"
}

# Check that a scenario contains data segments, losses at a bottleneck, and marks for dctcp.
has_the_events()
{
	local name=$1 lines

	lines=$(scenario "$name" "$WORK/without")
	[ "$(grep -c ' len [0-9]\{4,\} ' <<< "$lines")" -gt 5 ] || { echo "no data"; return 1; }
	case $name in
	*bottleneck) grep -q ' sack:' <<< "$lines" || { echo "no losses"; return 1; } ;;
	esac
	case $name in
	dctcp*bottleneck) grep -q ' ecn 3 ' <<< "$lines" || { echo "no marks"; return 1; } ;;
	esac
}

# Two durations may differ by 2 ns, because the clock rounds both of its readings.
same_duration()
{
	local before after

	before=$(scenario "$1" "$WORK/without" | sed -n 's/^took \(.*\) ns$/\1/p')
	after=$(scenario "$1" "$WORK/with" | sed -n 's/^took \(.*\) ns$/\1/p')
	[ $((before - after)) -le 2 ] && [ $((after - before)) -le 2 ] && return
	echo "took $after ns, without the modules $before ns"
	return 1
}

compare()
{
	has_the_events "$1" || return 1
	diff <(scenario "$1" "$WORK/without" | grep -v '^took ') \
		<(scenario "$1" "$WORK/with" | grep -v '^took ') > "$WORK/diff" && same_duration "$1" && return
	head -n 10 "$WORK/diff"
	return 1
}

main()
{
	local name
	local -a names=()

	for name in IPv4 IPv6; do
		names+=({cubic,reno,dctcp}", $name, "{alone,"four at a bottleneck"} "bbr, $name, alone")
	done
	names+=("bbr, IPv4, one at a bottleneck")
	ktap_plan "${#names[@]}"
	if ! TREE=$("$TOP/scripts/uml/build.sh") ||
	   ! TOOLS=$("$TOP/scripts/uml/modules.sh" "$TREE"); then
		echo "Bail out! nothing to run"
		exit 1
	fi
	# shellcheck disable=SC2046 # a list
	segments $(our_modules | sed "s,.*,$TOOLS/&.ko,") > "$WORK/with"
	segments --like "$WORK/with" > "$WORK/without"
	grep -q '^Traceback' "$WORK/log" && sed 's/^/# /' "$WORK/log"
	for name in "${names[@]}"; do
		ok "$name: the same packets with all modules loaded" compare "$name"
	done
	ktap_exit
}

main "$@"
