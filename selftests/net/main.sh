#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmod/hpcc/main.c: loading and unloading.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc
ktap_python "$0" "$@"
