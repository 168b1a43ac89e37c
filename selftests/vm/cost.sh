#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Count the instructions for a packet in the qdisc hpcc, and in fq_codel for comparison.
# cost/hpcc_cost.c measures the instructions in a guest whose CPU takes a nanosecond for each
# instruction (scripts/vm/run.sh --icount). This script runs on the host;
# "make check-cost" calls it.
set -uo pipefail

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
WORK=$(mktemp -d /var/tmp/hpcc-cost.XXXXXX)
trap 'rm -rf "$WORK"' EXIT

# Write the script for the guest. It prints a line for each kind of packet and each number
# of waiting packets.
write_job()
{
	cat > "$WORK/job" <<- 'END'
		cd "$1" || exit 1
		modprobe -a sch_fq_codel dummy 2> /dev/null
		insmod ./sch_hpcc.ko
		ip link add d0 numtxqueues 2 type dummy
		ip link set d0 up
		measure()
		{
			local batch

			for batch in 1 8; do
				dmesg -c > /dev/null
				insmod ./hpcc_cost.ko dev=d0 batch="$batch" 2> /dev/null
				dmesg | sed -n "s/.*hpcc_cost: [a-z_]*/$1/p"
			done
		}
		while read -r name qdisc; do
			tc qdisc add dev d0 root handle 1: $qdisc && measure "$name"
			tc qdisc del dev d0 root
		done <<- 'QDISCS'
			pfifo pfifo
			fq_codel fq_codel
			hpcc hpcc
			hpcc-stats-off hpcc stats off
			hpcc-nostamp hpcc nostamp
			hpcc-marking hpcc marking ldcp
			hpcc-ioam hpcc stamp tcp,ioam
			hpcc-int hpcc stamp tcp,int
			hpcc-ifa hpcc stamp tcp,ifa
			hpcc-csig hpcc stamp tcp,csig
		QDISCS
		tc qdisc add dev d0 root handle 1: mq
		tc qdisc add dev d0 parent 1:1 handle 11: hpcc
		tc qdisc add dev d0 parent 1:2 handle 12: hpcc
		measure hpcc-mq
	END
}

# cost QDISC PACKET BATCH: print the number of instructions, rounded down.
cost()
{
	sed -n "s/^$1 $2 batch $3: \([0-9]*\)\..* lost 0$/\1/p" "$WORK/out"
}

# A packet without a request needs at most as many instructions as in fq_codel.
costs_at_most_fq_codel()
{
	local packet batch ours theirs

	for packet in tcp4 tcp6 udp4; do
		for batch in 1 8; do
			ours=$(cost hpcc "$packet" "$batch")
			theirs=$(cost fq_codel "$packet" "$batch")
			[ -n "$ours" ] && [ -n "$theirs" ] && [ "$ours" -le "$theirs" ] || return
		done
	done
}

main()
{
	local tree tools

	ktap_plan 2
	tree=$("$TOP/scripts/vm/kernel.sh") || { echo "Bail out! no kernel"; exit 1; }
	tools=$("$TOP/scripts/uml/modules.sh" "$(readlink -f "$tree/build")") ||
		{ echo "Bail out! no modules"; exit 1; }
	cp "$TOP"/selftests/vm/cost/* "$tools"/* "$WORK"
	make -C "$tree/build" M="$WORK" CONFIG_DEBUG_INFO_BTF_MODULES= modules > "$WORK/log" 2>&1 ||
		{ tail -n 20 "$WORK/log"; echo "Bail out! no hpcc_cost"; exit 1; }
	write_job
	HPCC_MODDIR=$WORK TC_LIB_DIR=$WORK "$TOP/scripts/vm/run.sh" --icount --tree "$tree" --ro "$WORK" \
		--timeout 500 -- bash "$WORK/job" "$WORK" > "$WORK/out" 2>&1 < /dev/null
	ktap_result "$(($? != 0))" "the guest measures the costs"
	grep ' batch ' "$WORK/out" | sed 's/^/# /'
	ok "a packet without a request costs at most as much as in fq_codel" costs_at_most_fq_codel
	ktap_exit
}

main "$@"
