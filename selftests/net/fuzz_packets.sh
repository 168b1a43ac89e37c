#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Random packets through ports, and to hosts with connections in progress.
# HPCC_FUZZ_PACKETS=10000000 makes it as many, HPCC_FUZZ_SEED=2 others.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc tcp_ldcp
need_command cc ethtool
HPCC_FUZZ=$(mktemp -d)
export HPCC_FUZZ
cc -O1 -o "$HPCC_FUZZ/fuzz-packets" "$(dirname "$(readlink -f "$0")")"/packets/*.c ||
	ktap_skip_all "cannot compile"
ktap_python "$0" "$@"
