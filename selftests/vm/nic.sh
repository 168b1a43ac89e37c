#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Test ports on devices with drivers of real or virtual network cards, which have rings, interrupts,
# TSO and byte queue limits. QEMU emulates pairs of cards, and a cable connects the cards of each
# pair. If root may create TAP devices, in a network namespace of this script, there is one more
# pair: virtio with several queues and TSO, which the cables of QEMU do not support. This script
# runs on the host and starts card/card.py in the guest. "make check-nic" calls it.
set -euo pipefail

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
# e1000e has one TX queue, with byte queue limits; vmxnet3 has a TX queue for each CPU; virtio-net has
# no byte queue limits before 6.11.
DRIVERS=(e1000e vmxnet3 virtio-net-pci)
QUEUES=2

# Create a bridge and two TAP devices in the namespace of this script.
tap_pair()
{
	local end

	ip link add taps type bridge && ip link set taps up || return
	for end in a b; do
		ip tuntap add dev "tap-$end" mode tap multi_queue vnet_hdr &&
			ip link set "tap-$end" mtu 9000 master taps up || return
	done
}

tap_options()
{
	local end

	for end in a b; do
		nics+=(--qemu -netdev
			--qemu "tap,id=tap-$end,ifname=tap-$end,script=no,downscript=no,queues=$QUEUES"
			--qemu -device
			--qemu "virtio-net-pci,netdev=tap-$end,mq=on,vectors=$((2 * QUEUES + 2))")
	done
}

# guest TREE TOOLS: run the tests in a guest.
guest()
{
	local tree=$1 tools=$2 driver hub=0 end taps=0
	local -a nics=()

	if [ "${HPCC_TAPS:-0}" = 1 ] && tap_pair > /dev/null 2>&1; then
		tap_options
		taps=1
	fi
	for driver in "${DRIVERS[@]}"; do
		hub=$((hub + 1))
		for end in a b; do
			nics+=(--qemu -netdev --qemu "hubport,id=$driver-$end,hubid=$hub"
				--qemu -device --qemu "$driver,netdev=$driver-$end")
		done
	done
	HPCC_MODDIR=$tools TC_LIB_DIR=$tools "$TOP/scripts/vm/run.sh" --tree "$tree" \
		--timeout 500 "${nics[@]}" --env "KTAP_ONLY=${KTAP_ONLY:-}" \
		--env "HPCC_TAPS=$taps" -- "$TOP/selftests/vm/card/card.py"
}

main()
{
	local tree tools

	if [ $# -gt 0 ]; then
		guest "$@"
		return
	fi
	tree=$("$TOP/scripts/vm/kernel.sh" ${HPCC_KERNEL:+--kernel-version "$HPCC_KERNEL"})
	tools=$("$TOP/scripts/uml/modules.sh" "$(readlink -f "$tree/build")")
	if unshare -n true 2> /dev/null; then
		HPCC_TAPS=1 exec unshare -n "$0" "$tree" "$tools"
	fi
	guest "$tree" "$tools"
}

main "$@"
