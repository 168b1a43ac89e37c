#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmod/hpcc/proc.c: counters and connections.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc
ktap_python "$0" "$@"
