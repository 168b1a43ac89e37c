#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmod/hpcc/cc.c: from telemetry to window.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

ktap_python "$0" "$@"
