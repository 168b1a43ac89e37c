#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The modules of hpcc-dkms load when their names are used. test_deb.sh runs this script
# in a virtual machine with the kernel for which dkms has built the modules. None of our
# modules is loaded at first. BOOT is the directory of the package's examples.

# shellcheck source=selftests/lib/net.sh
. "$(dirname "$(readlink -f "$0")")/../lib/net.sh"

BOOT=${BOOT:-$HPCC_TOP/Documentation/boot}

need_root

loaded()
{
	[ -d "/sys/module/$1" ]
}

# Unload all of our modules.
fresh()
{
	local name

	for name in $(our_modules | tac); do
		! loaded "$name" || busywait 20 rmmod "$name" 2> /dev/null || fail "$name stays"
		! loaded "$name" || fail "$name is still loaded"
	done
}

# The loaded module was built by dkms, and is not from the tree.
from_dkms()
{
	local file

	file=$(modprobe --show-depends "$1" | awk '$1 == "insmod" { print $2 }' | tail -n 1)
	[[ $file == */updates/dkms/$1.ko* ]] || fail "$1 is $file"
	expect "srcversion of $1" "$(cat "/sys/module/$1/srcversion")" "$(modinfo -F srcversion "$file")"
	expect "version of $1" "$(cat "/sys/module/$1/version")" "$(modinfo -F version "$file")"
}

# congestion_control MODULE: MODULE and its dependency are loaded
congestion_control()
{
	loaded "$1" || fail "$1 was not loaded"
	loaded hpcc_common || fail "hpcc_common was not loaded"
	from_dkms "$1"
	from_dkms hpcc_common
}

test_no_module_yet()
{
	local name

	for name in $(our_modules); do
		! loaded "$name" || fail "$name is loaded already"
	done
	! grep -qw hpcc /proc/sys/net/ipv4/tcp_available_congestion_control || fail "hpcc is there"
}

test_by_sysctl()
{
	local name

	for name in hpcc ldcp; do
		fresh
		sysctl -qw "net.ipv4.tcp_congestion_control=$name"
		defer sysctl -qw net.ipv4.tcp_congestion_control=cubic
		congestion_control "tcp_$name"
		sysctl -qw net.ipv4.tcp_congestion_control=cubic
	done
}

test_by_socket()
{
	local name

	for name in hpcc ldcp; do
		fresh
		python3 -c '
import socket, sys
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())' "$name"
		congestion_control "tcp_$name"
	done
}

# The kernel requests the module under RTNL.
test_by_route()
{
	local name

	for name in hpcc ldcp; do
		fresh
		ip link set lo up
		ip route add 10.9.0.0/16 dev lo congctl "$name"
		defer ip route del 10.9.0.0/16 dev lo
		congestion_control "tcp_$name"
		ip route del 10.9.0.0/16 dev lo
	done
}

# A user without the right to load modules cannot make the kernel load a module.
test_not_by_anybody()
{
	fresh
	refused "No such file" setpriv --reuid=65534 --clear-groups python3 -c '
import socket
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"hpcc")'
	! loaded tcp_hpcc || fail "tcp_hpcc was loaded"
}

test_by_qdisc()
{
	fresh
	ns_add a
	tc -n a qdisc add dev lo root hpcc rate 1gbit
	loaded sch_hpcc || fail "sch_hpcc was not loaded"
	from_dkms sch_hpcc
	! loaded hpcc_common || fail "a qdisc needs no hpcc_common"
	tc -n a -s qdisc show dev lo | grep -q '^qdisc hpcc .* rate 1Gbit' || fail "tc does not show it"
	! loaded sch_hpcc_ioam || fail "a port without IOAM needs no sch_hpcc_ioam"
	tc -n a qdisc change dev lo root hpcc stamp ioam
	loaded sch_hpcc_ioam || fail "sch_hpcc_ioam was not loaded"
	from_dkms sch_hpcc_ioam
	tc -n a qdisc del dev lo root
}

test_by_default_qdisc()
{
	local old

	fresh
	old=$(sysctl -n net.core.default_qdisc)
	defer sysctl -qw "net.core.default_qdisc=$old"
	sysctl -qw net.core.default_qdisc=hpcc
	loaded sch_hpcc || fail "sch_hpcc was not loaded"
}

test_modules_load_d()
{
	local name

	fresh
	grep -v '^ *\([#;]\|$\)' "$BOOT/modules-load.d/hpcc.conf" | while read -r name; do
		modprobe "$name"
	done
	congestion_control tcp_hpcc
	[ -d /proc/sys/net/hpcc ] || fail "no parameters"
}

# Without the file in modules-load.d, the setting loads the module.
test_sysctl_d()
{
	fresh
	defer sysctl -qw net.ipv4.tcp_congestion_control=cubic
	sysctl -qp "$BOOT/sysctl.d/hpcc.conf"
	congestion_control tcp_hpcc
}

test_unload_all()
{
	our_modules | xargs modprobe -a
	our_modules | tac | xargs modprobe -r
	expect "left" "$(grep -E 'hpcc|ldcp' /proc/modules)" ""
}

ktap_main test_no_module_yet test_by_sysctl test_by_socket test_by_route test_not_by_anybody \
	test_by_qdisc test_by_default_qdisc test_modules_load_d test_sysctl_d test_unload_all
