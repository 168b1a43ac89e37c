#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# One port whose packets wait in several queues (qdisc/core/port.c). Two cases: a device
# with four transmit queues, each with a qdisc "hpcc" below mq; and two HTB classes of one
# link, each with a qdisc "hpcc". frames/mq.py sends frames, receives them and checks them.

# shellcheck source=selftests/lib/port.sh
. "$(dirname "$(readlink -f "$0")")/../lib/port.sh"

# cable: connect tx and rx by a device with four queues.
cable()
{
	ns_add_quiet
	ip link add v0 netns tx numtxqueues 4 type veth peer name v0 netns rx numrxqueues 4
	ip -n tx link set v0 up arp off
	ip -n rx link set v0 up
}

# queues OPTION...: create a cable, and add a qdisc "hpcc" to each queue.
queues()
{
	local i

	cable
	tc -n tx qdisc add dev v0 root handle 1: mq
	for i in {1..4}; do
		tc -n tx qdisc replace dev v0 parent "1:$i" handle "1$i:" hpcc "$@"
	done
}

# classes RATE OPTION...: create a cable, and two HTB classes, slow enough for packets to wait,
# each with a qdisc "hpcc".
classes()
{
	local rate=$1 i
	shift

	cable
	tc -n tx qdisc add dev v0 root handle 1: htb
	for i in 1 2; do
		tc -n tx class add dev v0 parent 1: classid "1:$i" htb rate "$rate" burst 1 cburst 1 quantum 1514
		tc -n tx qdisc add dev v0 parent "1:$i" handle "1$i:" hpcc "$@"
	done
}

judge() { "$(dirname "$0")/frames/mq.py" tx:v0 rx:v0 "$@" || fail "see the output above"; }

# of_each NAME: print a statistic of each qdisc, in the order of their handles.
of_each() { json "[qs[h].get('$1') for h in sorted(qs)]"; }

# marks GROUP: let classes mark, and run GROUP.
marks()
{
	classes 8kbit bandwidth 1gbit node 7 port 2 marking ldcp kmin 600 kmax 600 knonect 64kb
	judge "$1"
}

test_marks_by_all_queues() { marks marks_by_all; }
test_marks_less_as_packets_leave() { marks marks_less_as_packets_leave; }
# A class marks by its own queue, and with "qlen port" by all queues of the port.
test_marks_of_a_class()
{
	classes 8kbit bandwidth 1gbit node 7 port 2 class 1mbit marking ldcp kmin 600 kmax 600 knonect 64kb
	judge marks_by_each
}
test_marks_of_a_class_by_all()
{
	classes 8kbit bandwidth 1gbit node 7 port 2 class 1mbit qlen port marking ldcp kmin 600 kmax 600 knonect 64kb
	judge marks_by_all
}
test_shaping_queues_are_apart() { queues rate 1gbit node 7 port 2; judge tx_of_each; }
test_qlen_is_of_all_queues() { classes 8kbit bandwidth 1gbit node 7 port 2; judge qlen_of_all; }

# tx is the sum of all queues, also after a change or a replacement of one qdisc.
test_tx_goes_on_after_a_change()
{
	queues bandwidth 1gbit node 7 port 2
	judge tx_of_all
	tc -n tx qdisc change dev v0 parent 1:2 hpcc limit 2mb
	tc -n tx qdisc replace dev v0 parent 1:3 handle 33: hpcc bandwidth 1gbit node 7 port 2
	judge tx_goes_on
}

test_ports_of_other_names_are_apart()
{
	local i

	queues bandwidth 1gbit node 7
	for i in 1 2 3 4; do
		tc -n tx qdisc change dev v0 parent "1:$i" hpcc port "$i"
	done
	judge tx_of_each
	expect "ports" "$(json '"port_queues" in qs["12:"]')" False
}

test_qlen_of_other_names_is_apart()
{
	classes 8kbit bandwidth 1gbit node 7 port 2
	tc -n tx qdisc change dev v0 parent 1:2 hpcc port 3
	judge qlen_of_each
}

test_statistics()
{
	queues
	expect "queues" "$(of_each port_queues)" "[4, 4, 4, 4]"
	tc -n tx qdisc change dev v0 parent 1:2 hpcc rate 1gbit
	tc -n tx qdisc change dev v0 parent 1:3 hpcc node 1
	expect "queues after two left the port" "$(of_each port_queues)" "[2, None, None, 2]"
	tc -n tx qdisc change dev v0 parent 1:2 hpcc rate 0
	expect "queues after one came back" "$(of_each port_queues)" "[3, 3, None, 3]"
	tc -n tx qdisc replace dev v0 parent 1:1 pfifo
	expect "queues after one was replaced" "$(of_each port_queues)" "[2, None, 2]"
	tc -n tx -s qdisc show dev v0 | grep -q 'port of 2 queues 0b' || fail "text"
	tc -n tx qdisc replace dev v0 root hpcc
	expect "queues of a single qdisc" "$(json 'list(qs.values())[0].get("port_queues")')" None
}

test_moves_with_what_waits()
{
	classes 100bit bandwidth 1gbit node 7 port 2
	judge fill
	expect "qlen of one port" "$(of_each port_qlen)" "[512, 512]"
	tc -n tx qdisc change dev v0 parent 1:1 hpcc port 3
	expect "qlen of two ports" "$(of_each port_qlen)" "[None, None]"
	tc -n tx qdisc change dev v0 parent 1:1 hpcc port 2
	expect "qlen of one port again" "$(of_each port_qlen)" "[512, 512]"
	tc -n tx qdisc replace dev v0 parent 1:1 handle 21: hpcc bandwidth 1gbit node 7 port 2
	expect "qlen after one qdisc was replaced" "$(of_each port_qlen)" "[256, 256]"
	tc -n tx qdisc del dev v0 root
}

test_speed_follows_the_device()
{
	queues
	ip -n tx link set v0 mtu 9000
	ip -n tx link set v0 down
	ip -n tx link set v0 up
	expect "queues" "$(of_each port_queues)" "[4, 4, 4, 4]"
}

ktap_main
