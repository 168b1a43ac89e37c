#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Documentation/install.rst: the examples for boot, and the commands that find each kind of user of a module.

# shellcheck source=selftests/lib/net.sh
. "$(dirname "$(readlink -f "$0")")/../lib/net.sh"

need_root
need_command python3 ip tc ss sysctl rmmod
need_module tcp_hpcc tcp_ldcp sch_hpcc

BOOT=$HPCC_TOP/Documentation/boot

# users MODULE: print the number of its users
users() { awk -v module="$1" '$1 == module { print $3 }' /proc/modules; }
# unused MODULE BEFORE: MODULE has only BEFORE users again
unused() { busywait 10 eval "[ \$(users $1) = $2 ]" || fail "$1 is still in use"; }

# listen CC [BOUND]: create a socket in namespace a until the test ends; with BOUND it listens
listen()
{
	ip netns exec a python3 -B -c '
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
if len(sys.argv) > 2:
    s.bind(("127.0.0.1", 5001))
    s.listen()
time.sleep(60)' "$@" &
	defer eval "kill $! 2> /dev/null"
}

# value NAME: print a sysctl of namespace a
value() { ip netns exec a sysctl -n "$1"; }

test_sysctl_d()
{
	ns_add a
	ip netns exec a sysctl -qp "$BOOT/sysctl.d/hpcc.conf"
	expect "default" "$(value net.ipv4.tcp_congestion_control)" hpcc
}

# The settings that are comments in the file also work.
test_sysctl_d_comments()
{
	ns_add a
	sed -n 's/^#\(net\.\)/\1/p' "$BOOT/sysctl.d/hpcc.conf" > "/run/hpcc.$$"
	defer rm "/run/hpcc.$$"
	ip netns exec a sysctl -qp "/run/hpcc.$$"
	expect "default" "$(value net.ipv4.tcp_congestion_control)" ldcp
	expect "base_rtt_ns" "$(value net.hpcc.base_rtt_ns)" 13000
}

test_modules_load_d()
{
	local name

	grep -o 'tcp_[a-z]*' "$BOOT/modules-load.d/hpcc.conf" | while read -r name; do
		[ -d "/sys/module/$name" ] || fail "no module $name"
	done
}

# in_use MODULE BEFORE: MODULE has one user more than BEFORE, and cannot be unloaded
in_use()
{
	expect "users of $1" "$(users "$1")" $(($2 + 1))
	refused "Module $1 is in use" rmmod "$1"
}

test_default()
{
	local before name

	for name in hpcc ldcp; do
		before=$(users "tcp_$name")
		ns_add "$name"
		ip netns exec "$name" sysctl -qw "net.ipv4.tcp_congestion_control=$name"
		in_use "tcp_$name" "$before"
		ip netns exec "$name" sysctl -qw net.ipv4.tcp_congestion_control=cubic
		expect "users after" "$(users "tcp_$name")" "$before"
	done
}

test_listener()
{
	local before

	before=$(users tcp_hpcc)
	ns_add a
	listen hpcc bound
	busywait 10 eval "ip netns exec a ss -Htln | grep -q 5001"
	in_use tcp_hpcc "$before"
	ip netns exec a ss -tain | grep -B1 -E '\b(hpcc|ldcp|power)' | grep -q 127.0.0.1:5001 ||
		fail "ss does not show it"
	kill $!
	unused tcp_hpcc "$before"
}

test_unbound()
{
	local before

	before=$(users tcp_ldcp)
	ns_add a
	listen ldcp
	busywait 10 eval "[ \$(users tcp_ldcp) != $before ]"
	in_use tcp_ldcp "$before"
	expect "shown by ss" "$(ip netns exec a ss -Htain)" ""
	kill $!
	unused tcp_ldcp "$before"
}

test_qdisc()
{
	local before

	before=$(users sch_hpcc)
	ns_add a
	tc -n a qdisc add dev lo root hpcc
	in_use sch_hpcc "$before"
	tc -n a qdisc show | grep -q hpcc || fail "tc does not show it"
	tc -n a qdisc del dev lo root
	expect "users after" "$(users sch_hpcc)" "$before"
}

test_default_qdisc()
{
	local before old

	before=$(users sch_hpcc)
	old=$(sysctl -n net.core.default_qdisc)
	defer sysctl -qw "net.core.default_qdisc=$old"
	sysctl -qw net.core.default_qdisc=hpcc
	in_use sch_hpcc "$before"
	sysctl -qw "net.core.default_qdisc=$old"
	expect "users after" "$(users sch_hpcc)" "$before"
}

test_route()
{
	local before

	before=$(users tcp_hpcc)
	ns_add a
	ip -n a route add 192.0.2.0/24 dev lo congctl hpcc
	expect "users" "$(users tcp_hpcc)" "$before"
}

test_modules() { refused "Module hpcc_common is in use by: tcp_" rmmod hpcc_common; }

ktap_main
