#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Another qdisc replaces hpcc's own queue (qdisc/core/child.c): the child decides the order of packets, and hpcc keeps
# the state of the link and stamps.

# shellcheck source=selftests/lib/port.sh
. "$(dirname "$(readlink -f "$0")")/../lib/port.sh"

# child KIND [OPTION...]: add a qdisc KIND as the child of hpcc, in place of its queue.
child()
{
	tc -n tx qdisc add dev v0 parent 1:1 handle 2: "$@" 2>/dev/null || skip "needs $1"
}

# setup KIND [OPTION...]: create a link of 1 Gb/s, and a child KIND in front of it.
setup()
{
	links
	ip -n tx link set v0 arp off
	add rate 1gbit limit 1mb node 7 port 2
	child "$@"
}

frames() { "$(dirname "$0")/frames/stamp.py" tx:v0 rx:v0 "$@" || fail "see above"; }

# No packet waits, according to the counters of hpcc and of the child.
empty()
{
	no_backlog
	expect "backlog, qlen of all qdiscs" "$(tc -n tx -s -j qdisc show dev v0 | python3 -c '
import json, sys
print({(q["backlog"], q["qlen"]) for q in json.load(sys.stdin)})')" "{(0, 0)}"
}

# between WHAT GOT LEAST MOST
between() { (($2 >= $3 && $2 <= $4)) || fail "$1: $2, not $3 to $4"; }

# ---- what tc shows, and refuses ----

test_shown()
{
	port
	expect "class without child" "$(tc -n tx class show dev v0)" "class hpcc 1:1 parent 1: "
	child pfifo limit 50
	expect class "$(tc -n tx class show dev v0)" "class hpcc 1:1 parent 1: leaf 2: "
	expect child "$(tc -n tx qdisc show dev v0 | grep -c 'qdisc pfifo 2: parent 1:1 limit 50p')" 1
	tc -n tx qdisc del dev v0 parent 1:1
	expect "no child" "$(tc -n tx class show dev v0)" "class hpcc 1:1 parent 1: "
	expect "one qdisc" "$(tc -n tx qdisc show dev v0 | wc -l)" 1
}

test_refused()
{
	port
	refused "class not found" tc -n tx qdisc add dev v0 parent 1:2 pfifo
	refused classless tc -n tx class add dev v0 parent 1: classid 1:2 hpcc
	refused "not supported" tc -n tx class del dev v0 classid 1:1
	change marking ldcp
	refused "set marking off first" tc -n tx qdisc add dev v0 parent 1:1 pfifo
	expect "class after the refusal" "$(tc -n tx class show dev v0)" "class hpcc 1:1 parent 1: "
	change marking off
	child pfifo
	refused "marking: a child qdisc decides" change marking ldcp
	refused "marking: a child qdisc decides" change marking ldcp kmin 10kb
	expect marking "$(json 'q["options"]["marking"]')" off
	tc -n tx qdisc del dev v0 parent 1:1
	change marking ldcp
}

# ---- the link, and records ----

# Frames are spaced as exactly as with hpcc's own queue.
test_spacing()
{
	need_virtual_time
	setup pfifo limit 1000
	pass 40
	spaced $WIRE 125000000
	expect resyncs "$(json 'q["hpcc"]["resyncs"]')" 0
	empty
}

# latency: print the times from the first frame's ts to the arrival of each of two frames,
# minus the offset that this port adds to ts, modulo 2^20.
latency() { queue_frames latency || fail "no latency"; }

# On an idle link a packet starts when it arrives, and the next packet directly after the first one.
test_latency()
{
	local own

	need_virtual_time
	links
	ip -n tx link set v0 arp off
	add rate 1gbit delay 30us
	own=$(latency)
	child pfifo limit 1000
	for _ in 1 2; do
		expect "latency with a child" "$(latency)" "$own"
	done
}

# stamped KIND [OPTION...]: a port with this child stamps, with and without a rate.
stamped()
{
	setup "$@"
	frames stamped
	change rate 0
	frames stamped
}

test_stamped() { stamped pfifo limit 1000; frames untouched; }
test_stamped_by_fq() { stamped fq; }

test_qlen_is_what_waits_in_the_child() { need_virtual_time; setup pfifo limit 1000; frames backlog; }

test_segments()
{
	setup pfifo limit 1000
	frames gso split
	change rate 0
	frames gso whole
	change no-split-gso
	frames gso whole
	empty
}

test_device_is_the_link()
{
	setup pfifo limit 1000
	change rate 0
	pass 40
	change delay 1ms
	pass 40
	empty
}

# ---- the child decides ----

# The first frame has started before the frames of higher priority arrive.
test_priorities()
{
	need_virtual_time
	port rate 10mbit limit 1mb
	child prio
	frames_of priorities 3 "$SIZE"
	expect order "${SEQ[*]}" "1 2 2 2 1 1"
	spaced $WIRE 1250000
	empty
}

# turns ORDER KIND [OPTION...]: check the order in which a child sends the first 11 frames of two sources. The second
# source sends after the first source has sent all of its frames.
turns()
{
	need_virtual_time
	setup "${@:2}"
	change rate 10mbit
	frames_of sources 6 "$SIZE" 1 2
	expect arrived "${#SEQ[@]}" 12
	expect order "${SEQ[*]:0:11}" "$1"
	empty
}

test_fair_fq_codel() { turns "1 2 1 2 1 2 1 2 1 2 1" fq_codel quantum 1000; }
test_fair_sfq() { turns "1 1 2 1 2 1 2 1 2 1 2" sfq quantum 1000; }

# 10 frames are 10 times the burst that tbf sends at once. So the child delays packets while the link is free.
test_child_that_paces()
{
	local i

	need_virtual_time
	setup tbf rate 8mbit burst 1000b limit 1mb
	pass 10
	for ((i = 2; i < 10; i++)); do
		between "ns before frame $i" $((TIME[i] - TIME[i - 1])) 999000 1001000
	done
	expect resyncs "$(json 'q["hpcc"]["resyncs"]')" 0
	empty
}

# A record's ts is the time at which the child dequeued the packet, not the time at which the link became free.
test_latency_of_a_child_that_paces()
{
	local own first second

	need_virtual_time
	links
	ip -n tx link set v0 arp off
	add rate 1gbit delay 30us
	read -r own _ <<<"$(latency)"
	child tbf rate 8mbit burst 1000b limit 1mb
	read -r first second <<<"$(latency)"
	expect "latency of the first frame" "$first" "$own"
	between "ns between the frames" $(((second - first) & 1048575)) 999000 1001000
}

# ---- drops ----

# too_many LIMIT OPTIONS COUNT OURS: of 20 frames COUNT arrive; OURS are dropped by the limit of hpcc.
too_many()
{
	need_virtual_time
	setup pfifo limit "$1"
	# shellcheck disable=SC2086 # a list
	change rate 1mbit $2
	burst 20
	arrived "$3"
	expect "drops, by the limit of hpcc" "$(json 'q["drops"], q["hpcc"]["drop_limit"]')" "($((20 - $3)), $4)"
	empty
}

test_child_drops_on_arrival() { too_many 4 "" 5 0; }
test_limit() { too_many 1000 "limit 4000b" 4 16; }

# fq_codel drops from the head of its queue, at dequeue.
test_child_drops_on_departure()
{
	need_virtual_time
	setup fq_codel target 100us interval 1ms noecn
	change rate 1mbit
	burst 60
	between arrived "${#SEQ[@]}" 5 59
	in_order
	expect drops "$(json 'q["drops"]')" $((60 - ${#SEQ[@]}))
	empty
}

# Packets in the child count with the least memory that they can use: at least 512 bytes each.
test_memory()
{
	links
	small_memory
	add rate 10kbit limit 100mb
	child pfifo limit 100000
	SIZE=60 while_queued 3000 tc qdisc change dev v0 root hpcc rate 0
	in_order
	between held "${#SEQ[@]}" $(((1 << 20) / 4096)) $(((1 << 20) / 512))
	expect "drops by hpcc" "$(json 'q["hpcc"]["drop_limit"]')" $((3000 - ${#SEQ[@]}))
	empty
	SIZE=60 burst 100
	expect "arrived later" "${#SEQ[@]}" 100
}

# queue_is OVERHEAD FILE: in the output of tc the queue of hpcc equals the queue of the child.
queue_is()
{
	expect "queue" "$(python3 -c '
import json, sys
(port, child) = json.load(open(sys.argv[2]))
print(port["hpcc"]["qlen"] - child["backlog"] - int(sys.argv[1]) * child["qlen"], child["qlen"])' \
		"$@")" "0 5"
}

# A child may drop packets while hpcc does not call the child. A new overhead applies to waiting packets.
test_shown_queue_is_what_the_child_has()
{
	local out

	links
	out=$(mktemp)
	defer rm -f "$out"
	add rate 20kbit limit 1mb
	child fq_codel limit 100
	while_queued 20 bash -c "tc qdisc change dev v0 parent 1:1 fq_codel limit 5 &&
		tc -s -j qdisc show dev v0 >$out"
	queue_is 24 "$out"
	tc -n tx qdisc change dev v0 parent 1:1 fq_codel limit 100
	while_queued 20 bash -c "tc qdisc change dev v0 parent 1:1 fq_codel limit 5 &&
		tc qdisc change dev v0 root hpcc overhead 100 && tc -s -j qdisc show dev v0 >$out"
	queue_is 100 "$out"
}

# ---- under traffic ----

test_graft_under_traffic()
{
	port rate 10mbit limit 1mb
	while_queued 60 tc qdisc add dev v0 parent 1:1 handle 2: pfifo limit 1000
	arrived 60
	pass 10
	empty
}

# freed KIND RATE LIMIT MOST COMMAND...: run a command that frees the packets in a child KIND, except packets that
# have started: at most MOST frames arrive, and then all frames that are sent later.
freed()
{
	# shellcheck disable=SC2086 # a list
	{ port rate "$2" limit "$3"; child $1; }
	while_queued 60 "${@:5}"
	between arrived "${#SEQ[@]}" 1 "$4"
	in_order
	empty
	pass 10
	empty
}

test_ungraft_under_traffic() { freed "pfifo limit 1000" 1mbit 1mb 59 tc qdisc del dev v0 parent 1:1; }
test_replace_under_traffic()
{
	freed "pfifo limit 1000" 1mbit 1mb 59 tc qdisc replace dev v0 parent 1:1 handle 3: bfifo
}
# A full port accepts packets again.
test_replace_below_the_child() { freed prio 1mbit 20kb 19 tc qdisc replace dev v0 parent 2:2 handle 3: bfifo; }

test_change_under_traffic()
{
	port rate 10mbit limit 1mb delay 5ms
	child pfifo limit 1000
	changes "rate 20mbit" "rate 0" "rate 10mbit" "delay 0" "delay 20ms" "overhead 256" "overhead 0" \
		"limit 2kb" "limit 1mb" nostamp stamp
	empty
}

test_down_under_traffic()
{
	port rate 1mbit limit 1mb
	child fq_codel
	while_queued 20 bash -c "ip link set v0 down; ip link set v0 up"
	empty
	pass 10
	empty
}

test_del_under_traffic()
{
	port rate 1mbit limit 1mb
	child fq_codel
	while_queued 20 tc qdisc del dev v0 root
	expect "qdiscs" "$(tc -n tx qdisc show dev v0 | grep -cE 'hpcc|fq_codel')" 0
}

# ---- below others ----

# A class of htb becomes inactive when its qdisc is empty, also if drops emptied it.
test_below_htb()
{
	need_virtual_time
	links
	tc -n tx qdisc add dev v0 root handle 9: htb default 1
	tc -n tx class add dev v0 parent 9: classid 9:1 htb rate 1mbit burst 1 cburst 1 \
		quantum 1514
	tc -n tx qdisc add dev v0 parent 9:1 handle 1: hpcc limit 1mb
	child fq_codel target 100us interval 1ms noecn
	burst 60
	between arrived "${#SEQ[@]}" 5 59
	in_order
	empty
	burst 5
	between "arrived later" "${#SEQ[@]}" 2 5
	empty
}

# tbf peeks at the next packet.
test_below_tbf()
{
	links
	tc -n tx qdisc add dev v0 root handle 9: tbf rate 10mbit burst 2kb limit 1mb
	tc -n tx qdisc add dev v0 parent 9:1 handle 1: hpcc rate 1gbit limit 1mb
	child pfifo limit 1000
	pass 40
	empty
}

ktap_main
