#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Does a host with the modules take packets as one without them does?
# HPCC_FUZZ_PACKETS=1000000 sends as many, HPCC_FUZZ_SEED=2 others.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_root
need_command cc nft
HPCC_FUZZ=$(mktemp -d)
export HPCC_FUZZ
cc -O1 -o "$HPCC_FUZZ/fuzz-packets" "$(dirname "$(readlink -f "$0")")"/packets/*.c ||
	ktap_skip_all "cannot compile"
ktap_python "$0" "$@"
