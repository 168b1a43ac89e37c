#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Paths that lose, repeat, reorder and spoil packets.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc tcp_ldcp
ktap_python "$0" "$@"
