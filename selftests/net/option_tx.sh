#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kmod/hpcc/option_tx.c: options in outgoing segments, and what they leave alone.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

ktap_python "$0" "$@"
