#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmod/hpcc/option_rx.c: options that arrive, hostile ones included.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc
ktap_python "$0" "$@"
