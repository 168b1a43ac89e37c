#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Test the signatures of the modules of hpcc-dkms. test_deb.sh runs this script in a virtual machine
# whose kernel accepts only signed modules: because of module.sig_enforce=1, or because of Secure
# Boot. With Secure Boot the firmware trusts a key, whose certificate has the serial number SERIAL.
# Three directories contain the modules: unsigned (UNSIGNED), signed with an unknown key (UNKNOWN),
# and signed with the trusted key by sign-file (OWN). dkms has signed the modules that modprobe
# finds: with the trusted key under Secure Boot, otherwise with its own key.

# shellcheck source=selftests/lib/net.sh
. "$(dirname "$(readlink -f "$0")")/../lib/net.sh"

need_root

secure_boot()
{
	grep -q 'secureboot: Secure boot enabled' "$DMESG"
}

# refuses WHAT LOG CMD...: CMD fails with the error WHAT, and the kernel log contains LOG
refuses()
{
	local log=$2

	dmesg -c > /dev/null
	refused "$1" "${@:3}"
	dmesg | grep -q "$log" || fail "dmesg: $(dmesg)"
}

# The kernel accepts one of Debian's modules, so it rejects our modules because of their signature.
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

# signature FIELD MODULE: print a field of the signature of the module that modprobe finds
signature()
{
	modinfo -F "$1" "$(modprobe --show-depends "$2" | awk '$1 == "insmod" { print $2 }' | tail -n 1)"
}

nothing_loaded()
{
	! grep -E "hpcc|ldcp" /proc/modules || fail "something is loaded"
}

# dkms signs with a key of this machine, which the firmware does not trust.
test_unknown_key()
{
	expect "signer" "$(modinfo -F signer "$UNKNOWN/hpcc_common.ko")" "DKMS module signing key"
	refuses "Key was rejected by service" "Loading of module with unavailable key is rejected" \
		insmod "$UNKNOWN/hpcc_common.ko"
}

# The kernel does not load these modules by their names either.
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
	for name in hpcc powertcp ldcp; do
		sysctl -qw "net.ipv4.tcp_congestion_control=$name"
	done
	ip link set lo up
	tc qdisc add dev lo root hpcc rate 1gbit
	tc qdisc del dev lo root
	sysctl -qw net.ipv4.tcp_congestion_control=cubic
	modprobe -r sch_hpcc tcp_ldcp tcp_powertcp tcp_hpcc
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

# A bit of the module changed after the module was signed.
test_changed()
{
	secure_boot || fail "this is no Secure Boot"
	cp "$OWN/hpcc_common.ko" /run/changed.ko
	defer rm /run/changed.ko
	sed -i 's/Code that tcp_hpcc and tcp_ldcp share/Code that tcp_hpcc and tcp_ldcp shaRe/' /run/changed.ko
	! cmp -s "$OWN/hpcc_common.ko" /run/changed.ko || fail "nothing to change"
	refused "Key was rejected by service" insmod /run/changed.ko
}

DMESG=/run/dmesg
dmesg > "$DMESG"
ktap_main test_signed_by_debian test_unsigned test_unknown_key test_unknown_by_name \
	test_known_key test_known_key_by_hand test_changed
