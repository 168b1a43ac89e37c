#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Does the debug kernel see bugs? One guest for each, since a first report turns
# some checks off. Runs on the host; "make check-debug" calls it.
set -uo pipefail

HERE=$(dirname "$(readlink -f "$0")")
UML=$HERE/../../scripts/uml
WORK=$(mktemp -d /var/tmp/hpcc-bugs.XXXXXX)
trap 'rm -rf "$WORK"' EXIT

# bug, and what the kernel has to print
BUGS='
bounds	KASAN: slab-out-of-bounds
freed	KASAN: slab-use-after-free
locks	possible circular locking dependency
sleep	BUG: (sleeping function called from invalid context|scheduling while atomic)
leak	unreferenced object 0x
timer	ODEBUG: free active
shift	UBSAN: shift-out-of-bounds
'

build()
{
	cp "$HERE"/Kbuild "$HERE"/hpcc_bugs.c "$WORK"
	make -C "$1" ARCH=um M="$WORK" modules > "$WORK/log" 2>&1
}

main()
{
	local tree bug want nr=0 failed=0 out

	echo "KTAP version 1"
	echo "1..$(grep -c . <<< "$BUGS")"
	export HPCC_KERNEL=${HPCC_KERNEL:-7.2}
	tree=$(HPCC_DEBUG=1 "$UML/build.sh") || { echo "Bail out! no debug kernel"; exit 1; }
	build "$tree" || { sed 's/^/# /' "$WORK/log"; echo "Bail out! hpcc_bugs does not build"; exit 1; }
	while IFS=$'\t' read -r bug want; do
		[ -n "$bug" ] || continue
		nr=$((nr + 1))
		out=$("$UML/run.sh" --tree "$tree" --ro "$WORK" --kernel loglevel=5 -- \
			insmod "$WORK/hpcc_bugs.ko" "bug=$bug" 2>&1 < /dev/null)
		if grep -qE "$want" <<< "$out"; then
			echo "ok $nr - $bug"
		else
			# What it did print must not be taken for a complaint of
			# this test's own guest.
			tail -n 20 <<< "$out" | tr -d : | sed 's/^/# /'
			echo "not ok $nr - $bug: not seen"
			failed=1
		fi
	done <<< "$BUGS"
	exit "$failed"
}

main "$@"
