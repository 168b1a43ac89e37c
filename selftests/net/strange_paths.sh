#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Segments that pass LOCAL_OUT or LOCAL_IN twice, without the socket lock, as copies,
# or behind extension headers. HPCC_STRANGE_S: seconds of the test "flips".

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

[[ ${HPCC_STRANGE_S:-4} =~ ^[1-9][0-9]{0,5}$ ]] || {
	echo "HPCC_STRANGE_S is $HPCC_STRANGE_S; it may be 1 to 999999" >&2
	exit 2
}
need_command nft
need_module sch_hpcc tcp_ldcp
# That test is part of the plan only where the kernel has it.
modprobe -q br_netfilter || true
ktap_python "$0" "$@"
