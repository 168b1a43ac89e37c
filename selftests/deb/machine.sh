# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# To be sourced by test_deb.sh: test the modules that dkms has built in ROOT for the
# kernel KVER, in a virtual machine with that kernel. load.sh runs there, and
# signature.sh runs on a kernel that accepts only signed modules. Results of these
# scripts become results of test_deb.sh; a missing result is missing in its plan, too.

# tests_of SCRIPT: print the number of its tests, from its last command
tests_of()
{
	sed -n '/^ktap_main /,$p' "$TOP/selftests/deb/$1" | grep -ow 'test_[a-z_]*' | wc -l
}

LOAD_TESTS=$(tests_of load.sh)
# The tests of signature.sh without a key in the firmware, and with one.
ENFORCED='test_signed_by_debian test_unsigned test_unknown_key test_unknown_by_name'
SECURE_BOOT='test_signed_by_debian test_unsigned test_unknown_key test_known_key
	test_known_key_by_hand test_changed'

# machine ARG...: call run.sh with these arguments. TC_LIB_DIR has the package's plugin.
machine()
{
	TC_LIB_DIR=$(dirname "$(find "$ROOT/usr/lib" -name q_hpcc.so)") \
		"$TOP/scripts/vm/run.sh" --tree "$ROOT" --timeout 600 "$@"
}

# repeat_results NAME: print the results of a script in the virtual machine as results of this test.
repeat_results()
{
	local line

	while read -r line; do
		case $line in
		"ok "*) ktap_result 0 "$1: ${line#* - }" ;;
		"not ok "*) ktap_result 1 "$1: ${line#* - }" ;;
		"#"*) echo "$line" ;;
		esac
	done
}

boots()
{
	[ "$(dpkg --print-architecture)" = amd64 ] && command -v qemu-system-x86_64 > /dev/null
}

load_modules()
{
	boots || { ktap_skipped "$LOAD_TESTS" "load: needs qemu-system-x86_64; scripts/install-deps vm"; return; }
	machine --env "BOOT=/mnt/host$ROOT/usr/share/doc/hpcc-dkms/examples" \
		-- "$TOP/selftests/deb/load.sh" > "$WORK/load.log" 2>&1
	grep -q '^1\.\.' "$WORK/load.log" || sed 's/^/# /' "$WORK/load.log"
	repeat_results load < "$WORK/load.log"
}

# The firmware of the package ovmf trusts this key, and no key of Microsoft. The package
# also contains the private key.
OVMF=/usr/share/OVMF
OWN_KEY=/usr/share/ovmf/PkKek-1-snakeoil

# module NAME: print the file that dkms has installed
module()
{
	find "$ROOT/lib/modules/$KVER/updates/dkms" -name "$1.ko*"
}

# serial_of CERTIFICATE: print the serial number in the format in which modinfo prints it
# for a module that was signed with this key. The certificate of OWN_KEY has no name.
serial_of()
{
	openssl x509 -in "$1" -noout -serial | sed -E 's/^serial=//; s/(..)/\1:/g; s/:$//'
}

# Create copies of our modules: unsigned, signed with the dkms key, and signed with OWN_KEY.
sign_modules()
{
	local name file sign

	sign=$(cd "$ROOT" && echo usr/lib/linux-kbuild-*/scripts/sign-file)
	mkdir "$WORK/unsigned" "$WORK/unknown" "$ROOT/debs/own"
	openssl rsa -passin pass:snakeoil -in "$OWN_KEY.key" -out "$ROOT/debs/own/key" || return
	cp "$OWN_KEY.pem" "$ROOT/debs/own/certificate"
	for name in "${NAMES[@]}"; do
		file=$(module "$name")
		cp "$file" "$WORK/unknown"
		[ "${file%.xz}" = "$file" ] || xz -d "$WORK/unknown/$name.ko.xz"
		# strip removes the signature, because the signature is not part of the object.
		strip -g -o "$WORK/unsigned/$name.ko" "$WORK/unknown/$name.ko"
		cp "$WORK/unsigned/$name.ko" "$ROOT/debs/own"
		in_root "/$sign" sha256 /debs/own/key /debs/own/certificate "/debs/own/$name.ko" || return
	done
}

# Configure dkms to sign with OWN_KEY, as in Documentation/install.rst.
dkms_own_key()
{
	local name

	printf '%s="/debs/own/%s"\n' mok_signing_key key mok_certificate certificate \
		>> "$ROOT/etc/dkms/framework.conf"
	in_root dkms build --force "hpcc/$VERSION" -k "$KVER" &&
		in_root dkms install --force "hpcc/$VERSION" -k "$KVER" || return
	sed -i '/^mok_/d' "$ROOT/etc/dkms/framework.conf"
	for name in "${NAMES[@]}"; do
		[ "$(field "$name" sig_key)" = "$(serial_of "$OWN_KEY.pem")" ] || return
	done
}

# Create a kernel tree like ROOT, with a kernel that is signed with OWN_KEY.
sign_kernel()
{
	local name

	mkdir "$WORK/signed"
	for name in initrd release lib; do
		ln -s "../root/$name" "$WORK/signed/$name"
	done
	sbsign --key "$ROOT/debs/own/key" --cert "$ROOT/debs/own/certificate" \
		--output "$WORK/signed/vmlinuz" "$ROOT/vmlinuz"
}

# signatures NAME ARG...: run signature.sh on a kernel that run.sh starts with ARG
signatures()
{
	local name=$1

	shift
	machine --env "OWN=/mnt/host$ROOT/debs/own" --env "UNSIGNED=/mnt/host$WORK/unsigned" \
		--env "UNKNOWN=/mnt/host$WORK/unknown" --env "SERIAL=$(serial_of "$OWN_KEY.pem")" "$@" \
		-- "$TOP/selftests/deb/signature.sh" > "$WORK/$name.log" 2>&1
	grep -q '^1\.\.' "$WORK/$name.log" || sed 's/^/# /' "$WORK/$name.log"
	repeat_results "$name" < "$WORK/$name.log"
}

secure_boot()
{
	cp "$OVMF/OVMF_VARS_4M.snakeoil.fd" "$WORK/vars"
	signatures "Secure Boot" --env "KTAP_ONLY=$SECURE_BOOT" --tree "$WORK/signed" --qemu -machine --qemu smm=on \
		--qemu -global --qemu driver=cfi.pflash01,property=secure,value=on \
		--qemu -drive --qemu "if=pflash,format=raw,unit=0,readonly=on,file=$OVMF/OVMF_CODE_4M.secboot.fd" \
		--qemu -drive --qemu "if=pflash,format=raw,unit=1,file=$WORK/vars"
}

# prepared FUNCTION: run FUNCTION, and print its output if it fails
prepared()
{
	"$1" > "$WORK/$1.log" 2>&1 && return
	sed 's/^/# /' "$WORK/$1.log"
	return 1
}

load_signed()
{
	local missing=''

	boots || missing="qemu-system-x86_64; scripts/install-deps vm"
	[ -e "$OWN_KEY.key" ] && command -v sbsign > /dev/null || missing="ovmf and sbsigntool"
	if [ -n "$missing" ]; then
		ktap_skipped "$(wc -w <<< "$ENFORCED $SECURE_BOOT")" "signatures: needs $missing"
		return
	fi
	prepared sign_modules || return
	signatures "sig_enforce" --kernel module.sig_enforce=1 --env "KTAP_ONLY=$ENFORCED"
	prepared sign_kernel && prepared dkms_own_key && secure_boot
	rm -r "$ROOT/debs/own"
}
