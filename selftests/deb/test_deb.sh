#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# scripts/deb, debian/, dkms.conf, "make dkms": the packages built as an ordinary
# user, installed in a Debian that has nothing of ours, used, and purged. What dkms
# has built there is loaded in a virtual machine with the kernel that it is for.
#
# SUITE is that Debian: bookworm, trixie, trixie-backports; by default this
# machine's own. It is made once (scripts/root.sh); tests write to a layer above
# it, and have no network.

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
# shellcheck source=scripts/root.sh
. "$TOP/scripts/root.sh"
# shellcheck source=selftests/scripts/ktap.sh
. "$TOP/selftests/scripts/ktap.sh"
NAMES=(hpcc_common tcp_hpcc tcp_ldcp sch_hpcc)
WORK=
KVER=
VERSION=
# As many as load.sh and signature.sh have.
LOAD_TESTS=9
SIGNATURE_TESTS=5

skip_all()
{
	echo "KTAP version 1"
	echo "1..0 # SKIP $*"
	exit 4
}

say()
{
	echo "# $*" >&2
}

die()
{
	say "$*"
	exit 1
}

# ---- the root

# Here and now mounts are nobody else's.
enter_root()
{
	WORK=$(mktemp -d)
	trap 'cd /; umount -l "$WORK"; rmdir "$WORK"' EXIT
	root_layer "$1" "$WORK"
	mkdir "$WORK/nobody"
	ip link set lo up
	KVER=$(cat "$ROOT/release")
	in_root mandb -q
	mkdir "$ROOT/debs"
	all_files > "$WORK/before"
}

# What no package is to blame for: logs, caches, and dkms' own key.
all_files()
{
	(cd "$ROOT" && find . -xdev \( -path ./proc -o -path ./var/log -o -path ./var/cache \
		-o -path ./var/lib/apt -o -path ./tmp -o -path ./debs -o -path ./tree \) -prune \
		-o ! -path './var/lib/dkms/mok.*' ! -path './var/lib/dpkg/*' -print | sort)
}

nothing_left()
{
	local left

	left=$(all_files | diff "$WORK/before" -)
	echo "$left"
	[ -z "$left" ]
}

# ---- tests

as_nobody()
{
	setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$WORK/nobody" "$@"
}

copy_tree()
{
	mkdir "$WORK/tree"
	(cd "$TOP" && git -c safe.directory="$TOP" ls-files -co --exclude-standard) |
		while read -r file; do
			[ ! -e "$TOP/$file" ] || echo "$file"
		done | tar -C "$TOP" -cf - -T - | tar -C "$WORK/tree" --no-same-owner -xf -
	chown -R 65534:65534 "$WORK/tree" "$WORK/nobody"
}

build()
{
	local before after

	cd "$WORK/tree" || return 1
	before=$(find . -type f | sort | xargs sha256sum)
	as_nobody scripts/deb "$WORK/nobody/deb" || return 1
	after=$(find . -type f | sort | xargs sha256sum)
	diff <(echo "$before") <(echo "$after") &&
		cp "$WORK"/nobody/deb/*.deb "$ROOT/debs" &&
		[ "$(ls "$ROOT/debs")" = "hpcc-dkms_${VERSION}_all.deb
hpcc-tools_${VERSION}_$(dpkg --print-architecture).deb" ]
}

# Files that two builds of the same sources differ in would be built by chance.
reproducible()
{
	cd "$WORK/tree" || return 1
	as_nobody env SOURCE_DATE_EPOCH=1 scripts/deb "$WORK/nobody/one" &&
		as_nobody env SOURCE_DATE_EPOCH=1 scripts/deb "$WORK/nobody/two" &&
		(cd "$WORK/nobody/one" && sha256sum -- *.deb) | (cd "$WORK/nobody/two" && sha256sum -c)
}

lint()
{
	local said

	said=$(as_nobody lintian --fail-on none "$ROOT"/debs/*.deb 2>&1)
	echo "$said"
	[ -z "$said" ]
}

# shellcheck disable=SC2016 # the root's shell shall expand it
install()
{
	in_root sh -c 'apt-get install -y --no-install-recommends /debs/*.deb'
}

built()
{
	local name

	in_root dkms status | grep -F "hpcc/$VERSION, $KVER" | grep ': installed' || return 1
	for name in "${NAMES[@]}"; do
		[ -n "$(find "$ROOT/lib/modules/$KVER/updates/dkms" -name "$name.ko*")" ] || {
			echo "no $name"
			return 1
		}
	done
}

# field NAME FIELD
field()
{
	in_root modinfo -k "$KVER" -F "$2" "$1"
}

metadata()
{
	local name

	for name in "${NAMES[@]}"; do
		in_root modinfo -k "$KVER" "$name"
		[ "$(field "$name" version)" = "$VERSION" ] || return 1
		[ "$(field "$name" license)" = GPL ] || return 1
		[ -n "$(field "$name" description)" ] || return 1
		[ "$(field "$name" name)" = "$name" ] || return 1
		[[ $(field "$name" vermagic) == "$KVER "* ]] || return 1
	done
	[[ $(field tcp_hpcc depends) == *hpcc_common* && $(field tcp_ldcp depends) == *hpcc_common* ]]
}

signed()
{
	local name

	for name in "${NAMES[@]}"; do
		[ "$(field "$name" signer)" = "DKMS module signing key" ] || return 1
	done
}

# By these the kernel asks for a congestion control, and for a qdisc: newer ones
# by an alias.
found_by_name()
{
	local name=sch_hpcc

	grep -q '^#define MODULE_ALIAS_NET_SCH' \
		"$ROOT/usr/src/linux-headers-${KVER%-*}-common/include/net/pkt_sched.h" &&
		name=net-sch-hpcc
	[ "$(in_root modprobe -S "$KVER" -R $name)" = sch_hpcc ] &&
		[ "$(in_root modprobe -S "$KVER" -R tcp_hpcc)" = tcp_hpcc ] &&
		[ "$(in_root modprobe -S "$KVER" -R tcp_ldcp)" = tcp_ldcp ] &&
		in_root modprobe -S "$KVER" --show-depends tcp_ldcp | grep hpcc_common.ko
}

plugin()
{
	in_root tc qdisc add dev lo root hpcc help 2>&1 | grep '^Usage: \.\.\. hpcc'
}

manuals()
{
	local page

	for page in "$TOP"/Documentation/*.[178]; do
		page=$(basename "$page")
		in_root man -w "${page##*.}" "${page%.*}" || return 1
	done
}

tools()
{
	in_root hpcc-lab --help | grep '^usage: hpcc-lab' &&
		in_root hpcc-replay --help | grep '^usage: hpcc-replay'
}

# ---- on the kernel that the modules were built for

# machine ARG...: of run.sh; TC_LIB_DIR has the package's plugin.
machine()
{
	TC_LIB_DIR=$(dirname "$(find "$ROOT/usr/lib" -name q_hpcc.so)") \
		"$TOP/scripts/vm/run.sh" --tree "$ROOT" --timeout 300 "$@"
}

# Results of a script that was run there, as our own.
retell()
{
	local line

	while read -r line; do
		case $line in
		"ok "*|"not ok "*)
			NR=$((NR + 1))
			echo "${line%%ok *}ok $NR - $1: ${line#*ok *- }"
			[ "${line#not}" = "$line" ] || FAILED=1
			;;
		"#"*) echo "$line" ;;
		esac
	done
}

boots()
{
	[ "$(dpkg --print-architecture)" = amd64 ] && command -v qemu-system-x86_64 > /dev/null
}

# Results that do not come are missing in the plan.
load_modules()
{
	boots || { skip "$LOAD_TESTS" "load: needs qemu-system-x86_64; scripts/install-deps vm"; return; }
	machine --env "BOOT=/mnt/host$ROOT/usr/share/doc/hpcc-dkms/examples" \
		-- "$TOP/selftests/deb/load.sh" > "$WORK/load.log" 2>&1
	grep -q '^1\.\.' "$WORK/load.log" || sed 's/^/# /' "$WORK/load.log"
	retell load < "$WORK/load.log"
}

# The firmware of this package knows a key whose other half comes along: who
# boots by it trusts that one, and none of Microsoft's.
OVMF=/usr/share/OVMF
OWN_KEY=/usr/share/ovmf/PkKek-1-snakeoil

# Our modules without a signature, and with one of OWN_KEY's.
sign_modules()
{
	local name file sign

	sign=$(cd "$ROOT" && echo usr/lib/linux-kbuild-*/scripts/sign-file)
	mkdir "$WORK/unsigned" "$ROOT/debs/own"
	openssl rsa -passin pass:snakeoil -in "$OWN_KEY.key" -out "$ROOT/debs/own/key" || return
	cp "$OWN_KEY.pem" "$ROOT/debs/own/certificate"
	for name in "${NAMES[@]}"; do
		file=$(find "$ROOT/lib/modules/$KVER/updates/dkms" -name "$name.ko*")
		cp "$file" "$WORK/unsigned"
		[ "${file%.xz}" = "$file" ] || xz -d "$WORK/unsigned/$name.ko.xz"
		# The signature is no part of the object, and goes.
		strip -g "$WORK/unsigned/$name.ko"
		cp "$WORK/unsigned/$name.ko" "$ROOT/debs/own"
		in_root "/$sign" sha256 /debs/own/key /debs/own/certificate "/debs/own/$name.ko" || return
	done
}

# A kernel's tree as ROOT is one, but for who signed the kernel.
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

# signatures NAME ARG...: the same tests on a kernel that is started otherwise
signatures()
{
	local name=$1

	shift
	machine --env "OWN=/mnt/host$ROOT/debs/own" --env "UNSIGNED=/mnt/host$WORK/unsigned" "$@" \
		-- "$TOP/selftests/deb/signature.sh" > "$WORK/$name.log" 2>&1
	grep -q '^1\.\.' "$WORK/$name.log" || sed 's/^/# /' "$WORK/$name.log"
	retell "$name" < "$WORK/$name.log"
}

secure_boot()
{
	cp "$OVMF/OVMF_VARS_4M.snakeoil.fd" "$WORK/vars"
	signatures "Secure Boot" --tree "$WORK/signed" --qemu -machine --qemu smm=on \
		--qemu -global --qemu driver=cfi.pflash01,property=secure,value=on \
		--qemu -drive --qemu "if=pflash,format=raw,unit=0,readonly=on,file=$OVMF/OVMF_CODE_4M.secboot.fd" \
		--qemu -drive --qemu "if=pflash,format=raw,unit=1,file=$WORK/vars"
}

load_signed()
{
	local missing=''

	boots || missing="qemu-system-x86_64; scripts/install-deps vm"
	[ -e "$OWN_KEY.key" ] && command -v sbsign > /dev/null || missing="ovmf and sbsigntool"
	if [ -n "$missing" ]; then
		skip $((2 * SIGNATURE_TESTS)) "signatures: needs $missing"
		return
	fi
	if ! { sign_modules && sign_kernel; } > "$WORK/sign.log" 2>&1; then
		sed 's/^/# /' "$WORK/sign.log"
		return
	fi
	signatures "sig_enforce" --kernel module.sig_enforce=1
	secure_boot
	rm -r "$ROOT/debs/own"
}

purge()
{
	in_root apt-get purge -y hpcc-dkms hpcc-tools && nothing_left
}

# make_dkms [NAME=VALUE]...: in the root, from a tree
make_dkms()
{
	in_root make -C /tree "KVER=$KVER" "$@"
}

dkms_from_tree()
{
	cp -r "$WORK/tree" "$ROOT/tree" && make_dkms dkms && built && metadata
}

dkms_again()
{
	sed -i 's/What tcp_hpcc and tcp_ldcp share/Other sources/' "$ROOT/tree/kmod/common.c"
	make_dkms dkms && built && [ "$(field hpcc_common description)" = "Other sources" ]
}

# other_kernel NAME [OPTION]: headers of a kernel that is not for us: by its name, or
# as it was configured without OPTION.
other_kernel()
{
	local build=$ROOT/lib/modules/$1/build

	mkdir -p "${build%/build}"
	in_root cp -rL "/lib/modules/$KVER/build" "/lib/modules/$1/build"
	[ $# = 1 ] || sed -i "/^$2=/d" "$build/.config" "$build/include/config/auto.conf"
}

# passed_over NAME: dkms builds nothing for it, and says that it should not.
passed_over()
{
	local said

	said=$(in_root dkms install "hpcc/$VERSION" -k "$1" 2>&1) && return 1
	echo "$said"
	grep -q 'BUILD_EXCLUSIVE directive' <<< "$said" && [ ! -e "$ROOT/lib/modules/$1/updates" ]
}

lacks()
{
	local name=$KVER-other rc=0

	other_kernel "$name" "$1"
	passed_over "$name" || rc=1
	rm -r "$ROOT/lib/modules/$name"
	return "$rc"
}

outside()
{
	local rc=0

	other_kernel "$1"
	passed_over "$1" || rc=1
	rm -r "$ROOT/lib/modules/$1"
	return "$rc"
}

# Where there are no headers at all.
no_headers()
{
	local said

	said=$(make_dkms KVER=6.1.0-0-none modules 2>&1) && return 1
	echo "$said"
	grep -q 'install them with: apt-get install linux-headers-6\.1\.0-0-none' <<< "$said"
}

dkms_uninstall()
{
	make_dkms uninstall && nothing_left
}

tests()
{
	enter_root "$1"
	VERSION=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$TOP/dkms.conf")
	echo "KTAP version 1"
	echo "1..$((21 + LOAD_TESTS + 2 * SIGNATURE_TESTS))"
	copy_tree
	ok "deb: both packages, as an ordinary user, beside the tree" build
	ok "deb: the same sources give the same packages" reproducible
	ok "deb: nothing for lintian to say" lint
	ok "install: needs no more than packages of Debian" install
	ok "install: dkms has built four modules for $KVER" built
	ok "modinfo: names, version, license, dependencies" metadata
	ok "modinfo: signed by dkms' key" signed
	ok "modprobe: finds them by the names that the kernel asks for" found_by_name
	ok "tc: finds its plugin" plugin
	ok "man: finds the manual pages" manuals
	ok "hpcc-lab, hpcc-replay: start" tools
	load_modules
	load_signed
	ok "purge: leaves nothing" purge
	ok "make dkms: adds, builds, installs" dkms_from_tree
	ok "make dkms: replaces the same version" dkms_again
	ok "kernel without NETFILTER: passed over by dkms" lacks CONFIG_NETFILTER
	ok "kernel without NET_SCHED: passed over by dkms" lacks CONFIG_NET_SCHED
	ok "kernel 5.10: passed over by dkms" outside 5.10.0-9-amd64
	ok "kernel 7.3: passed over by dkms" outside 7.3.4-amd64
	ok "kernel without headers: make names the package" no_headers
	ok "make uninstall: leaves nothing of dkms" dkms_uninstall
	ok "deb: names what a broken tree fails at" broken
	exit "$FAILED"
}

# What cannot be built is no package, and is told.
broken()
{
	local said

	echo '#error "broken on purpose"' >> "$WORK/tree/qdisc/q_hpcc.c"
	cd "$WORK/tree" || return 1
	said=$(as_nobody scripts/deb "$WORK/nobody/broken" 2>&1) && return 1
	echo "$said"
	grep 'broken on purpose' <<< "$said" && [ -z "$(find "$WORK/nobody/broken" -name '*.deb')" ]
}

main()
{
	local suite=${SUITE:-} root cmd

	if [ "${1:-}" = --in ]; then
		tests "$2"
	fi
	[ "$(id -u)" = 0 ] || skip_all "needs root"
	# shellcheck source=/dev/null
	[ -n "$suite" ] || suite=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}")
	[ -n "$suite" ] || skip_all "needs Debian, or SUITE"
	for cmd in debootstrap lintian dh dh_dkms; do
		command -v "$cmd" > /dev/null || skip_all "needs $cmd; scripts/install-deps deb installs it"
	done
	root=$(root_dir "$suite") || { echo "Bail out! cannot make a Debian $suite"; exit 1; }
	exec unshare -m -n "$0" --in "$root"
}

main "$@"
