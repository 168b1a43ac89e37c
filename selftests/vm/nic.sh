#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Ports whose device has a driver of a real card, or of a virtual one, with rings,
# interrupts, TSO and byte queue limits: pairs of devices that QEMU emulates, each pair
# joined by a cable. Runs on the host; card/card.py judges in the guest.
# "make check-nic" calls it.
set -euo pipefail

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
# One TX queue and byte queue limits; a TX queue for each CPU; no limits before 6.10.
DRIVERS=(e1000e vmxnet3 virtio-net-pci)

main()
{
	local tree tools driver hub=0 end
	local -a nics=()

	tree=$("$TOP/scripts/vm/kernel.sh" ${HPCC_KERNEL:+--kernel-version "$HPCC_KERNEL"})
	tools=$("$TOP/scripts/uml/modules.sh" "$(readlink -f "$tree/build")")
	for driver in "${DRIVERS[@]}"; do
		hub=$((hub + 1))
		for end in a b; do
			nics+=(--qemu -netdev --qemu "hubport,id=$driver-$end,hubid=$hub"
				--qemu -device --qemu "$driver,netdev=$driver-$end")
		done
	done
	HPCC_MODDIR=$tools TC_LIB_DIR=$tools "$TOP/scripts/vm/run.sh" --tree "$tree" \
		--timeout 500 "${nics[@]}" --env "KTAP_ONLY=${KTAP_ONLY:-}" -- \
		"$TOP/selftests/vm/card/card.sh"
}

main
