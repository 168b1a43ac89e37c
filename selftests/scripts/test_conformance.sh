#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Documentation/conformance.rst: each file, function, parameter and test in its rows exists, and
# conformance.py finds those that do not.

TOP=$(dirname "$(readlink -f "$0")")/../..
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
work_dir

RST=$TOP/Documentation/conformance.rst
CHECK=$TOP/selftests/scripts/conformance.py

names_exist()
{
	"$CHECK" "$RST"
}

# Each change of one name, and a row that is missing, is found.
wrong_names()
{
	local change out

	for change in 's/hpcc_link_u()/hpcc_link_v()/' 's/hpcc_carriers\[\]/hpcc_carrier[]/' \
		's#hpcc/law/measure.h#hpcc/law/measures.h#' 's#kmod/hpcc/control/ack.c#kmod/hpcc/ack.c#' \
		's/net\.hpcc\.sample/net.hpcc.samples/' 's/link_u__queue_and_rate/link_u__queue/' \
		's/cc\.py: T_from_rtt/cc.py: T_from/' 's/stamp\.sh: stamped/stamp.sh: stampd/' \
		's/carrier\.py: end_to_end/carriers.py: end_to_end/' 's/fuzz \(..\)algo\b/fuzz \1algos/' \
		's/first_rtt_ipv4/first_rtt_ipv5/' 's/^   \* - 7$/   * - 8/'; do
		sed "$change" "$RST" > "$WORK/wrong.rst"
		if cmp -s "$RST" "$WORK/wrong.rst"; then
			echo "$change: changes nothing"
			return 1
		fi
		if out=$("$CHECK" "$WORK/wrong.rst"); then
			echo "$change: not found"
			return 1
		fi
		[[ $out == "row "* ]] || return 1
	done
	echo > "$WORK/empty.rst"
	! "$CHECK" "$WORK/empty.rst"
}

main()
{
	ktap_plan 2
	ok "names_exist" names_exist
	ok "wrong_names" wrong_names
	ktap_exit
}

main
