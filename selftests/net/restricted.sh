#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmod/hpcc/cc.c, kmod/ldcp/cc.c: who may choose them.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_root
need_module tcp_ldcp
ktap_python "$0" "$@"
