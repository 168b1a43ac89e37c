# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For scripts that test the qdisc hpcc on v0 in the namespace tx, which "links" of net.sh
# creates. To be sourced after net.sh.

add() { tc -n tx qdisc add dev v0 root handle 1: hpcc "$@"; }
# port [OPTION...]: create the links and the qdisc.
port() { links; add "$@"; }
change() { tc -n tx qdisc change dev v0 root handle 1: hpcc "$@"; }
# Remove refcnt, which depends on the number of CPUs: it is one more than the number of the
# device's queues, and a veth has a queue for each CPU.
show() { tc -n tx qdisc show dev v0 root | sed 's/ refcnt [0-9]*//'; }

# json EXPRESSION: print a Python expression of q, the qdisc hpcc in the output of tc -s -j.
json()
{
	tc -n tx -s -j qdisc show dev v0 | python3 -c '
import json, sys
q = [q for q in json.load(sys.stdin) if q["kind"] == "hpcc"][0]
print(eval(sys.argv[1]))' "$1"
}

# Frames of 1000 bytes have 1024 bytes with the default overhead: 8192 ns at 1 Gb/s.
SIZE=1000
# shellcheck disable=SC2034 # used by the scripts that source this
WIRE=1024

queue_frames() { "$HPCC_TOP/selftests/net/frames/queue.py" tx:v0 rx:v0 "$@"; }

# burst COUNT: send frames back to back. Set TIME and SEQ to the arrival times and the
# numbers of the frames, in the order of their arrival.
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

# arrived COUNT [WHAT]: so many frames arrived, in order.
arrived() { expect "${2:-arrived}" "${#SEQ[@]}" "$1"; in_order; }
# pass COUNT: send frames back to back: all arrive.
pass() { burst "$1"; arrived "$1"; }

# spaced WIRE_BYTES RATE_BYTES_PER_S: fail unless the frames arrived at the exact times,
# rounded up to whole nanoseconds.
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

# while_queued COUNT CMD...: run CMD while COUNT frames are queued, and wait until all have
# arrived. Set SEQ to their numbers in the order of their arrival.
while_queued()
{
	local out

	out=$(queue_frames during "$1" "$SIZE" "${@:2}") ||
		fail "$out"
	mapfile -t SEQ <<<"$out"
}
