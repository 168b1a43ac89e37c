#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Connections of which one end, or one direction, has no telemetry.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc
ktap_python "$0" "$@"
