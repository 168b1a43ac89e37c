#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# suite.sh SCRIPT...: run test scripts of selftests/net one after the other, in a
# virtual machine. Print the output of each script, and the kernel's messages of that
# time, between "# script PATH" and "# status N". Exit status 3: a script did not end
# within SCRIPT_S seconds; do not use this virtual machine any more.
#
# After each script, suite.sh unloads our modules. This shows whether something still
# uses the modules, and the next script starts with a kernel without our state.
set -u

HERE=$(dirname "$(readlink -f "$0")")
SCRIPT_S=${SCRIPT_S:-1200}
# Connections of a test that has ended use their module until they time out.
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

# Run a script. Do not wait longer than SCRIPT_S seconds: the kernel may block a process for ever.
run_script()
{
	local script=$1 pid status=0

	"$script" < /dev/null &
	pid=$!
	if ! wait_for "$SCRIPT_S" gone "$pid"; then
		echo "Bail out! the script did not end within $SCRIPT_S s"
		ps -eo pid,stat,wchan:32,args | tail -n 20 | sed 's/^/# /'
		echo "# status 124"
		dmesg
		exit 3
	fi
	wait "$pid" || status=$?
	return "$status"
}

# Unload our modules. While tcp_max_orphans is 0, TCP closes each orphaned connection when its next
# timer expires, so that the connection no longer uses our module.
clean_up()
{
	local name room began=$SECONDS

	read -r room < /proc/sys/net/ipv4/tcp_max_orphans
	echo 0 > /proc/sys/net/ipv4/tcp_max_orphans
	ip -all netns del
	# /proc/modules lists the newest module first. No module depends on a newer module.
	sed -nE 's/^(((tcp|sch)_)?(hpcc|ldcp|powertcp)[^ ]*) .*/\1/p' /proc/modules | while read -r name; do
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

# Print the counters of KCSAN, which show how much it has checked.
watched()
{
	[ ! -e "$KCSAN" ] ||
		sed -n 's/^\(setup_watchpoints\|data_races\|races_unknown_origin\): /# KCSAN, since the boot: &/p' "$KCSAN"
}

main()
{
	local script status

	# Only a kernel with KCSAN has this file. KCSAN is off from boot until this command.
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
