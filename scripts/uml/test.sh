#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# test.sh SCRIPT [ARG]...: run a KTAP script of selftests/ in a guest, with
# tcp_hpcc and sch_hpcc at hand (HPCC_MODDIR, TC_LIB_DIR), and hand on its
# status. Kernel warnings are printed, so that scripts/check sees them.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
TOP=$(readlink -f "$HERE/../..")

main()
{
	[ $# -gt 0 ] || { echo "usage: test.sh SCRIPT [ARG]..." >&2; exit 2; }
	HPCC_MODDIR=$("$HERE/modules.sh")
	export HPCC_MODDIR TC_LIB_DIR=$TOP/qdisc
	# 5: warnings and worse.
	exec "$HERE/run.sh" --kernel loglevel=5 -- "$@"
}

main "$@"
