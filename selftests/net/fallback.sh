#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# include/hpcc/fallback.h in kmod/hpcc/cc.c: when telemetry is left, and used again.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc
ktap_python "$0" "$@"
