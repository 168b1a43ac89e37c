#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmod/hpcc/handshake.c: negotiation.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

ktap_python "$0" "$@"
