#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Cause one bug of each class, and check that the debug kernel reports it. This script
# runs on the host. "make check-debug" calls it for User Mode Linux; "make check-smp" and
# "make check-kcsan", which set HPCC_SMP_DEBUG, call it for kernels with several CPUs.
set -uo pipefail

HERE=$(dirname "$(readlink -f "$0")")
SCRIPTS=$(readlink -f "$HERE/../../scripts")
SMP=${HPCC_SMP_DEBUG:-}
# shellcheck source=selftests/lib/ktap.sh
. "$HERE/../lib/ktap.sh"
ktap_whole "$@"
WORK=$(mktemp -d /var/tmp/hpcc-bugs.XXXXXX)
trap 'rm -rf "$WORK"' EXIT

# The kernels that detect a bug, the bug, and the message that they must print. The order
# matters in one guest: lockdep turns itself off after its first report, and after some
# reports of other checks.
BUGS='
uml,kasan	locks	possible circular locking dependency
uml,kasan	sleep	BUG: (sleeping function called from invalid context|scheduling while atomic)
uml,kasan	timer	ODEBUG: free active
uml,kasan	shift	UBSAN: shift-out-of-bounds
uml	leak	unreferenced object 0x
uml,kasan	bounds	KASAN: slab-out-of-bounds
uml,kasan	freed	KASAN: (slab-)?use-after-free
kcsan	race	BUG: KCSAN: data-race in (bug_race|hpcc_bugs)
'

build()
{
	local -a how=(ARCH=um)

	[ -z "$SMP" ] || how=()
	cp "$HERE"/Kbuild "$HERE"/hpcc_bugs.c "$WORK"
	make -C "$1" "${how[@]}" M="$WORK" modules > "$WORK/log" 2>&1
}

# Cause each bug in a separate guest, because such a guest boots very fast.
make_bugs_uml()
{
	local tree=$1 bug

	shift
	for bug; do
		"$SCRIPTS/uml/run.sh" --tree "$tree" --ro "$WORK" --kernel loglevel=5 -- \
			insmod "$WORK/hpcc_bugs.ko" "bug=$bug" > "$WORK/$bug" 2>&1 < /dev/null
	done
}

# Cause all bugs in one guest.
make_bugs_smp()
{
	local tree=$1 bug

	shift
	# shellcheck disable=SC2016 # expanded in the guest
	"$SCRIPTS/vm/run.sh" --tree "$tree" --ro "$WORK" --kernel kasan_multi_shot \
		--env "SCRIPTS=$SCRIPTS" -- bash -c '
		[ ! -e /sys/kernel/debug/kcsan ] || echo on > /sys/kernel/debug/kcsan
		for bug; do
			dmesg -c > /dev/null
			insmod "$0/hpcc_bugs.ko" "bug=$bug"
			rmmod hpcc_bugs
			dmesg | awk -v bug="$bug" -f "$SCRIPTS/vm/races.awk" | sed "s/^/$bug: /"
		done' "$WORK" "$@" > "$WORK/all" 2>&1 < /dev/null
	for bug; do
		sed -n "s/^$bug: //p" "$WORK/all" > "$WORK/$bug"
	done
}

# make_bugs TREE BUG...: cause each BUG, and write the kernel's messages to WORK/BUG.
make_bugs()
{
	if [ -n "$SMP" ]; then
		make_bugs_smp "$@"
	else
		make_bugs_uml "$@"
	fi
}

debug_tree()
{
	if [ -n "$SMP" ]; then
		"$SCRIPTS/vm/kernel.sh"
	else
		HPCC_KERNEL=${HPCC_KERNEL:-7.2} HPCC_DEBUG=1 "$SCRIPTS/uml/build.sh"
	fi
}

main()
{
	local tree list bug want

	list=$(grep -E "^[a-z,]*${SMP:-uml}" <<< "$BUGS")
	ktap_plan "$(wc -l <<< "$list")"
	tree=$(debug_tree) || { echo "Bail out! no debug kernel"; exit 1; }
	build "$(readlink -f "$tree${SMP:+/build}")" ||
		{ sed 's/^/# /' "$WORK/log"; echo "Bail out! hpcc_bugs does not build"; exit 1; }
	# shellcheck disable=SC2046 # words
	make_bugs "$tree" $(cut -f 2 <<< "$list")
	while IFS=$'\t' read -r _ bug want; do
		if grep -qE "$want" "$WORK/$bug"; then
			ktap_result 0 "$bug"
		else
			# Without colons, scripts/check does not report the output as an error of
			# this test's own guest.
			ktap_result 1 "$bug: not seen" "$(tail -n 20 "$WORK/$bug" | tr -d :)"
		fi
	done <<< "$list"
	ktap_exit
}

main "$@"
