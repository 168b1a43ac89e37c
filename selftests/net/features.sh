#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What else lies on a path or hangs on a socket: NAT, IPsec, MPTCP, signatures,
# offloads, cookies.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

need_command nft
need_module sch_hpcc tcp_ldcp
ktap_python "$0" "$@"
