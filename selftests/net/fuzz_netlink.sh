#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Whatever a user may say to the qdisc, to parameters and sockets, at random.
# HPCC_FUZZ_MESSAGES=100000 makes it as many, HPCC_FUZZ_SEED=2 others.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_module sch_hpcc tcp_ldcp
ktap_python "$0" "$@"
