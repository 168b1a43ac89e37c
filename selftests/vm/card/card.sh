#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# In a guest that has pairs of cards, as nic.sh makes them.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/../../net/lib.sh"

need_module sch_hpcc
for driver in e1000e vmxnet3 virtio_net; do
	modprobe -q "$driver" || true
done
ktap_python "$0" "$@"
