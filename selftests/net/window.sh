#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmod/hpcc/window.c: from W to cwnd, pacing, bursts, and room for options.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc
ktap_python "$0" "$@"
