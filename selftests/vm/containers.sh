#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Test the recipes of Documentation/containers.rst with Podman, Docker and the CNI plugin
# "bandwidth", in a virtual machine. This script runs on the host: it downloads the packages, and
# starts containers/containers.py in the guest. "make check-containers" calls it.
set -euo pipefail

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")

main()
{
	local tree tools packages

	tree=$("$TOP/scripts/vm/kernel.sh" ${HPCC_KERNEL:+--kernel-version "$HPCC_KERNEL"})
	tools=$("$TOP/scripts/uml/modules.sh" "$(readlink -f "$tree/build")")
	packages=$("$TOP/scripts/vm/packages.sh" containers \
		podman crun netavark iptables docker.io containernetworking-plugins)
	HPCC_MODDIR=$tools TC_LIB_DIR=$tools "$TOP/scripts/vm/run.sh" --tree "$tree" \
		--ro "$packages" --at /tmp/packages --timeout 1800 -- "$TOP/selftests/vm/containers/containers.py"
}

main
