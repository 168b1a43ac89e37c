#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# test.sh SCRIPT [ARG]...: run a KTAP script of selftests/ in a guest, with
# tcp_hpcc and sch_hpcc at hand (HPCC_MODDIR, TC_LIB_DIR), and hand on its
# status. Kernel warnings are printed, so that scripts/check sees them.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")

main()
{
	local tree

	[ $# -gt 0 ] || { echo "usage: test.sh SCRIPT [ARG]..." >&2; exit 2; }
	tree=$("$HERE/build.sh")
	HPCC_MODDIR=$("$HERE/modules.sh" "$tree")
	export HPCC_MODDIR TC_LIB_DIR=$HPCC_MODDIR
	# 5: warnings and worse.
	exec "$HERE/run.sh" --tree "$tree" --kernel loglevel=5 -- "$@"
}

main "$@"
