#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Packets as large as can be, and as small.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_command nft
need_module sch_hpcc tcp_ldcp
ktap_python "$0" "$@"
