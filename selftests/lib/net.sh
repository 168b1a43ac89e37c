# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For KTAP scripts (ktap.sh) that test in network namespaces:
#
#	need_module NAME...	load modules
#	ns_add NS...		create namespaces with lo up, and delete them at the end
#	veth_add NS DEV NS DEV	connect two namespaces, with both ends up
#	links			create namespaces tx and rx, connected by v0 and v0, on
#				which only the test sends packets
#
# TC_LIB_DIR and HPCC_MODDIR (directories of q_hpcc.so and of modules)
# are found in the tree unless set.

# shellcheck source=selftests/lib/ktap.sh
. "$(dirname "${BASH_SOURCE[0]}")/ktap.sh"
HPCC_TOP=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
export TC_LIB_DIR=${TC_LIB_DIR:-$HPCC_TOP/qdisc}

# load_file FILE: load a module, after the modules that it needs, ours and the kernel's.
load_file()
{
	local name

	for name in $(modinfo -F depends "$1" | tr ',' ' '); do
		need_module "$name"
	done
	insmod "$1"
}

# load_module NAME: load a module from HPCC_MODDIR, from the tree, or by modprobe, unless
# it is already loaded.
load_module()
{
	local name=$1 file

	[ ! -d "/sys/module/$name" ] || return 0
	for file in ${HPCC_MODDIR:+"$HPCC_MODDIR/$name.ko"} "$HPCC_TOP"/{kmod/*,qdisc}/"$name.ko"; do
		[ -f "$file" ] || continue
		load_file "$file" && return
	done
	modprobe -q "$name" || ktap_skip_all "needs module $name"
}

# need_module NAME...: load modules. Allow their congestion controls in the initial
# namespace: otherwise a test cannot make a congestion control the default of its own namespace.
need_module()
{
	local name allowed=/proc/sys/net/ipv4/tcp_allowed_congestion_control

	for name; do
		load_module "$name"
		case $name in
		tcp_*) echo "$(cat "$allowed") ${name#tcp_}" > "$allowed" ;;
		esac
	done
}

ns_add()
{
	local ns

	for ns; do
		ip netns add "$ns"
		defer ip netns del "$ns"
		ip -n "$ns" link set lo up
	done
}

veth_add()
{
	ip link add "$2" netns "$1" type veth peer name "$4" netns "$3"
	ip -n "$1" link set "$2" up
	ip -n "$3" link set "$4" up
}

# ns_add_quiet: create the namespaces tx and rx, whose devices send no packets of IPv6.
ns_add_quiet()
{
	local ns

	ns_add tx rx
	for ns in tx rx; do
		ip netns exec "$ns" sysctl -qw net.ipv6.conf.default.disable_ipv6=1
	done
}

links()
{
	ns_add_quiet
	veth_add tx v0 rx v0
	one_receiver rx v0
}

# one_receiver NS DEV: let CPU 0 receive all packets of a device. Otherwise the sending CPU
# receives the packets of a veth, and packets of different CPUs overtake each other.
one_receiver()
{
	# shellcheck disable=SC2016 # expanded in the namespace
	ip netns exec "$1" bash -c 'map=/sys/class/net/$0/queues/rx-0/rps_cpus
		[ ! -e "$map" ] || echo 1 > "$map"' "$2"
}
