#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What is read, or written, while connections and ports change it.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc tcp_hpcc tcp_ldcp
ktap_python "$0" "$@"
