# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For KTAP scripts that test the qdisc hpcc on v0 in the namespace tx, which "links" of net.sh creates.

# shellcheck source=selftests/lib/net.sh
. "$(dirname "${BASH_SOURCE[0]}")/net.sh"

need_root
need_command python3 ip tc
need_module sch_hpcc

add() { tc -n tx qdisc add dev v0 root handle 1: hpcc "$@"; }
# port [OPTION...]: create the links and the qdisc.
port() { links; add "$@"; }
change() { tc -n tx qdisc change dev v0 root handle 1: hpcc "$@"; }
# Remove refcnt, which depends on the number of CPUs: it is one more than the number of the
# device's queues, and a veth has a queue for each CPU.
show() { tc -n tx qdisc show dev v0 root | sed 's/ refcnt [0-9]*//'; }

# add_again: tc accepts the options that it shows.
add_again()
{
	local first words

	first=$(show)
	read -r -a words <<<"${first#* root }"
	tc -n tx qdisc del dev v0 root
	add "${words[@]}"
	expect again "$(show)" "$first"
}

# json EXPRESSION: print a Python expression of q, the first qdisc hpcc in the output of tc -s -j, and of qs, the
# statistics of all qdiscs hpcc by handle.
json()
{
	tc -n tx -s -j qdisc show dev v0 | python3 -c '
import json, sys
found = [q for q in json.load(sys.stdin) if q["kind"] == "hpcc"]
q, qs = found[0], {q["handle"]: q["hpcc"] for q in found}
print(eval(sys.argv[1]))' "$1"
}

# Frames of 1000 bytes have 1024 bytes with the default overhead: 8192 ns at 1 Gb/s.
SIZE=1000
# shellcheck disable=SC2034 # used by the scripts that source this
WIRE=1024

queue_frames() { "$HPCC_TOP/selftests/net/frames/queue.py" tx:v0 rx:v0 "$@"; }

# frames_of GROUP ARG...: let queue.py send frames. Set TIME and SEQ to the arrival times and the
# numbers or sources of the frames, in the order of their arrival.
frames_of()
{
	local out time seq

	out=$(queue_frames "$@") || fail "$out"
	TIME=()
	SEQ=()
	while read -r time seq; do
		TIME+=("$time")
		SEQ+=("$seq")
	done <<<"$out"
}

# burst COUNT: send frames back to back.
burst() { frames_of burst "$1" "$SIZE"; }

in_order()
{
	local i

	for ((i = 1; i < ${#SEQ[@]}; i++)); do
		[ "${SEQ[i]}" -gt "${SEQ[i - 1]}" ] || fail "reordered: ${SEQ[*]}"
	done
}

# arrived COUNT [WHAT]: COUNT frames arrived, in order.
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
	# The start and the end of the first frame may also be fractions of a nanosecond.
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

	out=$(queue_frames during "$1" "$SIZE" "${@:2}") || fail "$out"
	mapfile -t SEQ <<<"$out"
}

# changes OPTION...: change each option while 60 frames are queued: all arrive.
changes()
{
	local option

	for option; do
		# shellcheck disable=SC2086
		while_queued 60 tc qdisc change dev v0 root hpcc $option
		arrived 60 "$option: arrived"
		case "$option" in limit*) change limit 1mb ;; esac
	done
}

# No packet waits, according to the counters of hpcc.
no_backlog() { expect backlog "$(json 'q["backlog"], q["qlen"], q["hpcc"]["qlen"]')" "(0, 0, 0)"; }

MEMORY=/sys/module/sch_hpcc/parameters/memory_max_mb

memory_max() { echo "$1" 2>/dev/null >"$MEMORY"; }
# Limit the memory of all ports to 1 MB, until the test ends.
small_memory()
{
	defer memory_max "$(cat "$MEMORY")"
	memory_max 1
}
