#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Allocations that fail, one by one, in a guest that can make them fail. Not in
# selftests/net/, since only the debug kernel has what this needs.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/../net/lib.sh"

[ -d /sys/kernel/debug/failslab ] || ktap_skip_all "needs FAILSLAB"
need_module sch_hpcc tcp_ldcp
export PYTHONPATH=$HPCC_TOP/selftests/net
ktap_python "$0" "$@"
