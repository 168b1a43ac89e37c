# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For scripts that test the qdisc hpcc at tx's end of the cable that "links" of
# net.sh makes; sourced after net.sh.

add() { tc -n tx qdisc add dev v0 root handle 1: hpcc "$@"; }
change() { tc -n tx qdisc change dev v0 root handle 1: hpcc "$@"; }
# refcnt is one more than the device has queues: those of a veth are as many as CPUs.
show() { tc -n tx qdisc show dev v0 root | sed 's/ refcnt [0-9]*//'; }

# json EXPRESSION: of q, the qdisc hpcc as tc -s -j shows it.
json()
{
	tc -n tx -s -j qdisc show dev v0 | python3 -c '
import json, sys
q = [q for q in json.load(sys.stdin) if q["kind"] == "hpcc"][0]
print(eval(sys.argv[1]))' "$1"
}

# Frames of 1000 bytes take 1024 with the default overhead: 8192 ns at 1 Gb/s.
SIZE=1000
# shellcheck disable=SC2034 # used by whom sources this
WIRE=1024

queue_frames() { "$HPCC_TOP/selftests/net/frames/queue.py" tx:v0 rx:v0 "$@"; }

# burst COUNT: send frames back to back; fills TIME and SEQ with when which of
# them arrived.
burst()
{
	local out time seq

	out=$(queue_frames burst "$1" "$SIZE") || fail "$out"
	TIME=()
	SEQ=()
	while read -r time seq; do
		TIME+=("$time")
		SEQ+=("$seq")
	done <<<"$out"
}

in_order()
{
	local i

	for ((i = 1; i < ${#SEQ[@]}; i++)); do
		[ "${SEQ[i]}" -gt "${SEQ[i - 1]}" ] || fail "reordered: ${SEQ[*]}"
	done
}

# spaced WIRE_BYTES RATE_BYTES_PER_S: frames arrived at the whole nanoseconds
# after the exact times.
spaced()
{
	python3 - "$1" "$2" "${TIME[@]}" <<-'E' || fail "spacing"
	import sys
	from fractions import Fraction
	step = Fraction(int(sys.argv[1]) * 10 ** 9, int(sys.argv[2]))
	times = [int(t) for t in sys.argv[3:]]
	got = [t - times[0] for t in times]
	# The first starts and ends at times that need not be whole, either.
	for phase in (Fraction(0), step - int(step)):
	    want = [-int(-(k * step + phase) // 1) + int(-phase // 1) for k in range(len(got))]
	    if all(abs(g - w) <= 1 for g, w in zip(got, want)):
	        sys.exit(0)
	print("got ", got, "\nwant", want)
	sys.exit(1)
	E
}

# while_queued COUNT CMD...: COUNT frames are queued, then CMD is run, then all
# arrive; fills SEQ.
while_queued()
{
	local out

	out=$(queue_frames during "$1" "$SIZE" "${@:2}") ||
		fail "$out"
	mapfile -t SEQ <<<"$out"
}
