# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For KTAP scripts that test in network namespaces. A script sources this file,
# defines functions, and ends with
#
#	ktap_main test_one test_two ...
#
# Each function runs in a subshell under "set -eu": a command that fails fails
# the test, unless it is part of a condition. What a test prints becomes
# diagnostic lines. Inside a test:
#
#	skip WHY		end it as skipped
#	fail WHY		end it as failed
#	expect WHAT GOT WANT	fail unless GOT is WANT
#	refused WANT CMD...	fail unless CMD fails and says WANT (a substring)
#	defer CMD...		run CMD when the test ends, last one first
#	busywait S CMD...	run CMD until it succeeds, at most S seconds
#	ns_add NS...		make namespaces with lo up, deleted at the end
#	veth_add NS DEV NS DEV	connect two namespaces, both ends up
#	links			namespaces tx and rx connected by v0 and v0; nobody sends
#				anything but the test
#
# Its status is the script's: 0 all passed or were skipped, 1 one failed; 2 says
# that there is no test of a name, 4 that the script could not start. The script's
# arguments, or else KTAP_ONLY="two ...", name the tests to run.
# TC_LIB_DIR and HPCC_MODDIR (directories of q_hpcc.so and of modules)
# are found in the tree unless set.

# Sourced without arguments, this has the script's.
# shellcheck disable=SC2206 # a list
KTAP_NAMES=(${*:-${KTAP_ONLY:-}})
HPCC_TOP=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
export TC_LIB_DIR=${TC_LIB_DIR:-$HPCC_TOP/qdisc}

ktap_skip_all()
{
	echo "KTAP version 1"
	echo "1..0 # SKIP $*"
	exit 4
}

need_root()
{
	[ "$(id -u)" -eq 0 ] || ktap_skip_all "needs root"
}

need_command()
{
	local cmd

	for cmd; do
		command -v "$cmd" >/dev/null || ktap_skip_all "needs $cmd"
	done
}

# load_file FILE: insmod it, after what it needs of ours and of the kernel's own.
load_file()
{
	local name

	for name in $(modinfo -F depends "$1" | tr ',' ' '); do
		need_module "$name"
	done
	insmod "$1"
}

# load_module NAME: load it from HPCC_MODDIR, from the tree, or from where modprobe
# looks, unless it is there already.
load_module()
{
	local name=$1 file

	[ ! -d "/sys/module/$name" ] || return 0
	for file in ${HPCC_MODDIR:+"$HPCC_MODDIR/$name.ko"} "$HPCC_TOP"/*/"$name.ko"; do
		[ -f "$file" ] || continue
		load_file "$file" && return
	done
	modprobe -q "$name" || ktap_skip_all "needs module $name"
}

# need_module NAME...: load each. Tests make a congestion control the default of
# their namespaces, which takes one that the first namespace allows.
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

# ktap_python SCRIPT.sh [TEST...]: become SCRIPT.py beside it, which prints the
# KTAP. Modules that it needs besides tcp_hpcc are loaded before.
ktap_python()
{
	local script

	script=$(readlink -f "$1")
	shift
	need_root
	need_command python3 ip tc ethtool
	need_module tcp_hpcc
	export HPCC_TOP
	exec python3 -B "${script%.sh}.py" "$@"
}

# Does time stand still while programs run? Only then are times exact.
virtual_time()
{
	grep -q 'time-travel=inf-cpu' /proc/cmdline
}

need_virtual_time()
{
	virtual_time || skip "times are exact in virtual time only"
}

skip()
{
	echo "SKIP $*"
	exit 4
}

fail()
{
	echo "FAIL $*"
	exit 1
}

expect()
{
	[ "$2" = "$3" ] || fail "$1: got \"$2\", wanted \"$3\""
}

refused()
{
	local want=$1 out
	shift

	if out=$("$@" 2>&1); then
		fail "accepted: $*"
	fi
	case "$out" in
	*"$want"*) ;;
	*) fail "$*: said \"$out\", wanted \"$want\"" ;;
	esac
}

_deferred=()

defer()
{
	_deferred+=("$(printf '%q ' "$@")")
}

_run_deferred()
{
	local i

	for ((i = ${#_deferred[@]} - 1; i >= 0; i--)); do
		eval "${_deferred[i]}" || true
	done
}

# Polls each millisecond: nothing in virtual time.
busywait()
{
	local deadline=$(($(date +%s%N) + $1 * 1000000000))
	shift

	until "$@"; do
		[ "$(date +%s%N)" -lt "$deadline" ] || return 1
		sleep 0.001
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

links()
{
	local ns

	ns_add tx rx
	for ns in tx rx; do
		ip netns exec "$ns" sysctl -qw net.ipv6.conf.default.disable_ipv6=1
	done
	veth_add tx v0 rx v0
	one_receiver rx v0
}

# one_receiver NS DEV: CPU 0 takes in all that comes. Else the CPU that sent does it
# for a veth, and packets of different CPUs overtake each other behind the port.
one_receiver()
{
	# shellcheck disable=SC2016 # expanded in the namespace
	ip netns exec "$1" bash -c 'map=/sys/class/net/$0/queues/rx-0/rps_cpus
		[ ! -e "$map" ] || echo 1 > "$map"' "$2"
}

_run_test()
{
	trap _run_deferred EXIT
	set -eu
	"$1"
}

# _known NAME TEST...: is it one of them?
_known()
{
	local name=$1 test
	shift

	for test; do
		[ "$test" != "$name" ] || return 0
	done
	echo "KTAP version 1"
	echo "Bail out! no test ${name#test_}; there are ${*#test_}"
	return 1
}

ktap_main()
{
	local nr=0 failed=0 test out rc

	KTAP_NAMES=("${KTAP_NAMES[@]/#test_/}")
	KTAP_NAMES=("${KTAP_NAMES[@]/#/test_}")
	for test in "${KTAP_NAMES[@]}"; do
		_known "$test" "$@" || return 2
	done
	[ "${#KTAP_NAMES[@]}" = 0 ] || set -- "${KTAP_NAMES[@]}"
	# Where programs take no time a guest is here before the first tick,
	# which is what switches its timers to high resolution.
	! virtual_time || sleep 0.05
	echo "KTAP version 1"
	echo "1..$#"
	for test; do
		nr=$((nr + 1))
		out=$(_run_test "$test" 2>&1)
		rc=$?
		case $rc in
		0)
			echo "ok $nr - ${test#test_}" ;;
		4)
			echo "ok $nr - ${test#test_} # SKIP ${out##*SKIP }" ;;
		*)
			[ -z "$out" ] || echo "# ${out//$'\n'/$'\n# '}"
			echo "not ok $nr - ${test#test_}"
			failed=1 ;;
		esac
	done
	return "$failed"
}
