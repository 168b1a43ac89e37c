#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# In a virtual machine whose kernel takes signed modules only: by module.sig_enforce=1,
# or as it was booted by Secure Boot, where the firmware knows a key, whose certificate
# has the number SERIAL. Directories with the modules of hpcc-dkms: in UNSIGNED they
# have no signature, in UNKNOWN that of a key that nobody knows, in OWN one by the
# known key, which sign-file made. Where modprobe looks, dkms has signed them: by a key of
# its own, or under Secure Boot by the known one. For test_deb.sh, which boots it.

# shellcheck source=selftests/lib/net.sh
. "$(dirname "$(readlink -f "$0")")/../lib/net.sh"

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

# signature FIELD MODULE: what the signature of that module says, which modprobe finds
signature()
{
	modinfo -F "$1" "$(modprobe --show-depends "$2" | awk '$1 == "insmod" { print $2 }' | tail -n 1)"
}

nothing_loaded()
{
	! grep -E "hpcc|ldcp" /proc/modules || fail "something is loaded"
}

# dkms signs by a key of this machine, which nobody has told the firmware of.
test_unknown_key()
{
	expect "signer" "$(modinfo -F signer "$UNKNOWN/hpcc_common.ko")" "DKMS module signing key"
	refuses "Key was rejected by service" "Loading of module with unavailable key is rejected" \
		insmod "$UNKNOWN/hpcc_common.ko"
}

# Nor do they come by name.
test_unknown_by_name()
{
	expect "signer" "$(signature signer hpcc_common)" "DKMS module signing key"
	refused "Key was rejected by service" modprobe tcp_hpcc
	refused "No such file" sysctl -w net.ipv4.tcp_congestion_control=hpcc
	tc qdisc add dev lo root hpcc 2> /dev/null && fail "tc has it"
	nothing_loaded
}

test_known_key()
{
	local name

	secure_boot || fail "this is no Secure Boot"
	for name in $(our_modules); do
		expect "key of $name" "$(signature sig_key "$name")" "$SERIAL"
	done
	nothing_loaded
	defer sysctl -qw net.ipv4.tcp_congestion_control=cubic
	for name in hpcc ldcp; do
		sysctl -qw "net.ipv4.tcp_congestion_control=$name"
	done
	ip link set lo up
	tc qdisc add dev lo root hpcc rate 1gbit
	tc qdisc del dev lo root
	sysctl -qw net.ipv4.tcp_congestion_control=cubic
	modprobe -r sch_hpcc tcp_ldcp tcp_hpcc
	nothing_loaded
}

test_known_key_by_hand()
{
	local name

	secure_boot || fail "this is no Secure Boot"
	for name in $(our_modules); do
		insmod "$OWN/$name.ko"
		[ -d "/sys/module/$name" ] || fail "$name was not loaded"
	done
	our_modules | tac | xargs rmmod
}

# A bit that changed after it was signed.
test_changed()
{
	secure_boot || fail "this is no Secure Boot"
	cp "$OWN/hpcc_common.ko" /run/changed.ko
	defer rm /run/changed.ko
	sed -i 's/What tcp_hpcc and tcp_ldcp share/What tcp_hpcc and tcp_ldcp shaRe/' /run/changed.ko
	! cmp -s "$OWN/hpcc_common.ko" /run/changed.ko || fail "nothing to change"
	refused "Key was rejected by service" insmod /run/changed.ko
}

DMESG=/run/dmesg
dmesg > "$DMESG"
ktap_main test_signed_by_debian test_unsigned test_unknown_key test_unknown_by_name \
	test_known_key test_known_key_by_hand test_changed
