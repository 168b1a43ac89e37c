#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# In a virtual machine whose kernel takes signed modules only: by module.sig_enforce=1,
# or as it was booted by Secure Boot. OWN is a directory with the modules of
# hpcc-dkms signed by a key that this machine's firmware knows, UNSIGNED one with
# such that have no signature. For test_deb.sh, which boots it.

# shellcheck source=selftests/net/lib.sh
. "$(dirname "$(readlink -f "$0")")/../net/lib.sh"

need_root

secure_boot()
{
	grep -q 'secureboot: Secure boot enabled' "$DMESG"
}

# refuses WHAT LOG CMD...: the kernel does so, and says why
refuses()
{
	local log=$2

	dmesg -c > /dev/null
	refused "$1" "${@:3}"
	dmesg | grep -q "$log" || fail "dmesg: $(dmesg)"
}

# What is refused is so for its signature: one of the kernel's own is not.
test_signed_by_debian()
{
	modprobe dummy numdummies=0
	defer rmmod dummy
	[ -d /sys/module/dummy ] || fail "dummy was not loaded"
}

test_unsigned()
{
	refuses "Key was rejected by service" "Loading of unsigned module is rejected" \
		insmod "$UNSIGNED/hpcc_common.ko"
}

# dkms signs by a key of this machine, which nobody has told the firmware of.
test_unknown_key()
{
	expect "signer" "$(modinfo -F signer hpcc_common)" "DKMS module signing key"
	refuses "Key was rejected by service" "Loading of module with unavailable key is rejected" \
		modprobe tcp_hpcc
	refused "No such file" sysctl -w net.ipv4.tcp_congestion_control=hpcc
	tc qdisc add dev lo root hpcc 2> /dev/null && fail "tc has it"
	! grep -E "hpcc|ldcp" /proc/modules || fail "something was loaded"
}

test_known_key()
{
	local name

	secure_boot || skip "the firmware knows keys under Secure Boot only"
	modprobe -a nf_socket_ipv4 nf_socket_ipv6
	for name in hpcc_common tcp_hpcc tcp_ldcp sch_hpcc; do
		insmod "$OWN/$name.ko"
		[ -d "/sys/module/$name" ] || fail "$name was not loaded"
	done
	rmmod sch_hpcc tcp_ldcp tcp_hpcc hpcc_common
}

# A bit that changed after it was signed.
test_changed()
{
	secure_boot || skip "the firmware knows keys under Secure Boot only"
	cp "$OWN/hpcc_common.ko" /run/changed.ko
	defer rm /run/changed.ko
	sed -i 's/What tcp_hpcc and tcp_ldcp share/What tcp_hpcc and tcp_ldcp shaRe/' /run/changed.ko
	! cmp -s "$OWN/hpcc_common.ko" /run/changed.ko || fail "nothing to change"
	refused "Key was rejected by service" insmod /run/changed.ko
}

DMESG=/run/dmesg
dmesg > "$DMESG"
ktap_main test_signed_by_debian test_unsigned test_unknown_key test_known_key test_changed
