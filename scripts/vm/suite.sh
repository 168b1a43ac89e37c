#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# suite.sh SCRIPT...: inside a virtual machine, run one test of selftests/net
# after the other. Each one's output stands between "# script PATH" and "# status
# N", with what the kernel had to say meanwhile. Exit status 3: a script did not
# end in SCRIPT_S seconds, and this machine should not be used any more.
#
# Modules of ours are unloaded after each script, which says whether anything
# still holds them, and gives the next one a kernel without our state.
set -u

HERE=$(dirname "$(readlink -f "$0")")
SCRIPT_S=${SCRIPT_S:-400}
# Connections whose test has ended hold their module until they time out.
UNLOAD_S=100
KCSAN=/sys/kernel/debug/kcsan

# wait_for S CMD...: run CMD until it succeeds, at most S seconds.
wait_for()
{
	local deadline=$((SECONDS + $1))
	shift

	until "$@"; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.2
	done
}

gone()
{
	! kill -0 "$1" 2> /dev/null
}

# A process that the kernel does not let go of is not waited for.
run_script()
{
	local script=$1 pid status=0

	"$script" < /dev/null &
	pid=$!
	if ! wait_for "$SCRIPT_S" gone "$pid"; then
		echo "Bail out! no end after $SCRIPT_S s"
		ps -eo pid,stat,wchan:32,args | tail -n 20 | sed 's/^/# /'
		echo "# status 124"
		dmesg
		exit 3
	fi
	wait "$pid" || status=$?
	return "$status"
}

# Without room for orphans they go with their next timer.
clean_up()
{
	local name room began=$SECONDS

	read -r room < /proc/sys/net/ipv4/tcp_max_orphans
	echo 0 > /proc/sys/net/ipv4/tcp_max_orphans
	ip -all netns del
	# The latest first: none of them needs one that was loaded after it.
	sed -nE 's/^(((tcp|sch)_)?(hpcc|ldcp)[^ ]*) .*/\1/p' /proc/modules | while read -r name; do
		wait_for "$UNLOAD_S" rmmod "$name" 2> /dev/null ||
			echo "Bail out! $name is still in use: $(cat "/sys/module/$name/refcnt")"
	done
	[ $((SECONDS - began)) -lt 5 ] || echo "# unloaded after $((SECONDS - began)) s"
	echo "$room" > /proc/sys/net/ipv4/tcp_max_orphans
}

complaints()
{
	dmesg -c -l emerg,alert,crit,err,warn | awk -f "$HERE/races.awk"
}

# How hard a kernel that looks for data races has looked.
watched()
{
	[ ! -e "$KCSAN" ] ||
		sed -n 's/^\(setup_watchpoints\|data_races\|races_unknown_origin\): /# KCSAN, since the boot: &/p' "$KCSAN"
}

main()
{
	local script status

	# Only a kernel that looks for data races has it, and sleeps until now.
	[ ! -e "$KCSAN" ] || echo on > "$KCSAN"
	dmesg -c > /dev/null
	for script; do
		echo "# script $script"
		status=0
		run_script "$script" || status=$?
		clean_up
		complaints
		watched
		echo "# status $status"
	done
}

main "$@"
