#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmod/ldcp/echo.c: what a receiver tells.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_root
need_module tcp_ldcp sch_hpcc
ktap_python "$0" "$@"
