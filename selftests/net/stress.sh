#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Everything at once, and often. HPCC_STRESS=10 makes it ten times as often.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc tcp_ldcp
ktap_python "$0" "$@"
