#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of scripts/deb, debian/, dkms.conf and "make dkms". An ordinary user builds the
# packages. They are installed in a Debian without our files, used, and purged.
# A virtual machine with the same kernel loads the modules that dkms has built.
#
# SUITE is the suite of that Debian: bookworm, trixie, trixie-backports; default: the
# suite of this machine. The root is created once (scripts/root.sh); tests write to a
# layer above it, and have no network.

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
# shellcheck source=scripts/root.sh
. "$TOP/scripts/root.sh"
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
# shellcheck source=selftests/deb/machine.sh
. "$TOP/selftests/deb/machine.sh"
mapfile -t NAMES < <(our_modules)
WORK=
KVER=
VERSION=

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

# The mount namespace is our own: no other process sees these mounts.
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

# List all files, except files of no package: logs, caches (also of a user), and the key of dkms.
all_files()
{
	(cd "$ROOT" && find . -xdev \( -path ./proc -o -path ./var/log -o -path ./var/cache \
		-o -path ./root/.cache -o -path ./var/lib/apt -o -path ./tmp -o -path ./debs -o -path ./tree \) -prune \
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

as_user()
{
	as_nobody env HOME="$WORK/nobody" "$@"
}

make_tree()
{
	copy_tree "$WORK/tree"
	chown -R 65534:65534 "$WORK/tree" "$WORK/nobody"
	cd "$WORK/tree" || return 1
	as_user git init -q . && as_user git add . &&
		as_user git -c user.name=Author -c user.email=author@a.example commit -q -m "As it is"
}

# maintainer PACKAGE...: print the maintainers of the packages
maintainer()
{
	local file

	for file; do
		dpkg-deb -f "$file" Maintainer
	done | sort -u
}

build()
{
	local before after

	cd "$WORK/tree" || return 1
	before=$(find . -type f | sort | xargs sha256sum)
	as_user scripts/deb "$WORK/nobody/deb" || return 1
	after=$(find . -type f | sort | xargs sha256sum)
	diff <(echo "$before") <(echo "$after") &&
		[ "$(maintainer "$WORK"/nobody/deb/*.deb)" = "Author <author@a.example>" ] &&
		cp "$WORK"/nobody/deb/*.deb "$ROOT/debs" &&
		[ "$(ls "$ROOT/debs")" = "hpcc-dkms_${VERSION}_all.deb
hpcc-tools_${VERSION}_$(dpkg --print-architecture).deb" ]
}

# Two builds of the same sources create the same files. One build uses the list of sources in git,
# the other build uses all files.
reproducible()
{
	local -a deb=(env SOURCE_DATE_EPOCH=1 DEBFULLNAME=Builder DEBEMAIL=builder@b.example scripts/deb)
	local rc=0

	cd "$WORK/tree" || return 1
	as_user "${deb[@]}" "$WORK/nobody/one" || return 1
	mv .git "$WORK/git"
	as_user "${deb[@]}" "$WORK/nobody/two" || rc=1
	mv "$WORK/git" .git
	[ "$rc" = 0 ] && [ "$(maintainer "$WORK"/nobody/one/*.deb)" = "Builder <builder@b.example>" ] &&
		(cd "$WORK/nobody/one" && sha256sum -- *.deb) | (cd "$WORK/nobody/two" && sha256sum -c)
}

lint()
{
	local out

	out=$(as_user lintian --fail-on none "$ROOT"/debs/*.deb 2>&1)
	echo "$out"
	[ -z "$out" ]
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

# depends_on MODULE NAME...: MODULE depends on exactly these modules (sorted), and has no softdep
depends_on()
{
	[ "$(field "$1" depends | tr ',' '\n' | sort | xargs)" = "${*:2}" ] &&
		[ -z "$(field "$1" softdep)" ]
}

metadata()
{
	local name

	for name in "${NAMES[@]}"; do
		in_root modinfo -k "$KVER" "$name"
		[ "$(field "$name" version)" = "$VERSION" ] || return 1
		[ "$(field "$name" license)" = GPL ] || return 1
		[ -n "$(field "$name" description)" ] || return 1
		[ -n "$(field "$name" author)" ] || return 1
		[ "$(field "$name" name)" = "$name" ] || return 1
		[[ $(field "$name" vermagic) == "$KVER "* ]] || return 1
		[ "$name" = sch_hpcc ] || [ -z "$(field "$name" alias)" ] || return 1
	done
	for name in "${NAMES[@]}"; do
		case $name in
		hpcc_common|sch_hpcc) depends_on "$name" ;;
		sch_hpcc_*) depends_on "$name" sch_hpcc ;;
		tcp_*) depends_on "$name" hpcc_common ;;
		hpcc_*) depends_on "$name" tcp_hpcc ;;
		esac || return 1
	done
}

# verified FILE CERTIFICATE: the signature at the end of FILE fits CERTIFICATE. The 40 bytes
# after the signature contain its length.
verified()
{
	local length

	length=$(tail -c 32 "$1" | head -c 4 | od -An -tu4 --endian=big)
	head -c -$((length + 40)) "$1" > "$WORK/body"
	tail -c $((length + 40)) "$1" | head -c "$length" > "$WORK/signature"
	openssl cms -verify -binary -inform DER -in "$WORK/signature" -content "$WORK/body" \
		-certfile "$2" -noverify -out /dev/null
}

# The verification fails with another certificate, and for a changed file.
signed()
{
	local name file=$WORK/file

	openssl x509 -in "$ROOT/var/lib/dkms/mok.pub" -out "$WORK/mok.pem" || return
	openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN=other -out "$WORK/other.pem" || return
	for name in "${NAMES[@]}"; do
		[ "$(field "$name" signer)" = "DKMS module signing key" ] || return 1
		xz -dcf "$(module "$name")" > "$file"
		verified "$file" "$WORK/mok.pem" || return 1
		! verified "$file" "$WORK/other.pem" || return 1
		sed -i 's/HPCC/HPCX/; s/LDCP/LDCX/; s/tcp_/tcx_/' "$file"
		! verified "$file" "$WORK/mok.pem" || return 1
	done
}

# The kernel requests the modules of congestion controls and qdiscs by these names; newer
# kernels request a qdisc by an alias.
found_by_name()
{
	local name=sch_hpcc

	grep -q '^#define MODULE_ALIAS_NET_SCH' \
		"$ROOT/usr/src/linux-headers-${KVER%-*}-common/include/net/pkt_sched.h" &&
		name=net-sch-hpcc
	[ "$(in_root modprobe -S "$KVER" -R $name)" = sch_hpcc ] &&
		[ "$(field sch_hpcc alias)" = "$([ $name = sch_hpcc ] || echo $name)" ] &&
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
		in_root sh -c 'hpcc-lab new /tmp/mine && rm /tmp/mine.toml' &&
		in_root sh -c 'hpcc-lab run demo --set link.rat=1 2>&1' | grep 'did you mean rate' &&
		in_root hpcc-replay --help | grep '^usage: hpcc-replay' &&
		in_root hpccmon --help | grep '^usage: hpccmon'
}

purge()
{
	in_root apt-get purge -y hpcc-dkms hpcc-tools && nothing_left
}

# ---- make dkms

# make_dkms [NAME=VALUE]...: run make in the root, in a copy of the tree
make_dkms()
{
	in_root make -C /tree "KVER=$KVER" "$@"
}

dkms_from_tree()
{
	make_dkms dkms && built && metadata
}

dkms_again()
{
	sed -i 's/Code that tcp_hpcc and tcp_ldcp share/Other sources/' "$ROOT/tree/kmod/common/main.c"
	make_dkms dkms && built && [ "$(field hpcc_common description)" = "Other sources" ]
}

# dkms_step STATUS COMMAND [ARG]...: after the COMMAND of dkms the modules have this status
dkms_step()
{
	local status=$1

	shift
	in_root dkms "$1" "hpcc/$VERSION" "${@:2}" || return 1
	in_root dkms status "hpcc/$VERSION" | grep ": $status" && return
	echo "not $status"
	return 1
}

# The steps that "make dkms" and the package run together.
dkms_steps()
{
	make_dkms dkms-source && dkms_step added add && dkms_step built build -k "$KVER" || return 1
	! field hpcc_common version 2> /dev/null || return 1
	dkms_step installed install -k "$KVER" && built && metadata || return 1
	in_root dkms remove "hpcc/$VERSION" --all || return 1
	[ -z "$(in_root dkms status "hpcc/$VERSION")" ] && rm -r "$ROOT/usr/src/hpcc-$VERSION" && nothing_left
}

# other_kernel NAME [OPTION]: create headers of a kernel that our modules do not support:
# because of the version in NAME, or because its configuration lacks OPTION.
other_kernel()
{
	local build=$ROOT/lib/modules/$1/build

	mkdir -p "${build%/build}"
	in_root cp -rL "/lib/modules/$KVER/build" "/lib/modules/$1/build"
	[ $# = 1 ] || sed -i "/^$2=/d" "$build/.config" "$build/include/config/auto.conf"
}

# skipped_by_dkms NAME: dkms builds nothing for this kernel, and reports BUILD_EXCLUSIVE.
skipped_by_dkms()
{
	local out

	out=$(in_root dkms install "hpcc/$VERSION" -k "$1" 2>&1) && return 1
	echo "$out"
	grep -q 'BUILD_EXCLUSIVE directive' <<< "$out" && [ ! -e "$ROOT/lib/modules/$1/updates" ]
}

unsupported()
{
	local rc=0

	other_kernel "$@"
	skipped_by_dkms "$1" || rc=1
	rm -r "$ROOT/lib/modules/$1"
	return "$rc"
}

# No headers are installed.
no_headers()
{
	local out

	out=$(make_dkms KVER=6.1.0-0-none modules 2>&1) && return 1
	echo "$out"
	grep -q 'install them with: apt-get install linux-headers-6\.1\.0-0-none' <<< "$out"
}

dkms_uninstall()
{
	make_dkms uninstall && nothing_left
}

tests()
{
	enter_root "$1"
	VERSION=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$TOP/dkms.conf")
	ktap_plan "$((22 + LOAD_TESTS + $(wc -w <<< "$ENFORCED $SECURE_BOOT")))"
	make_tree
	ok "deb: both packages, as an ordinary user, beside the tree" build
	ok "deb: the same sources give the same packages" reproducible
	ok "deb: lintian reports nothing" lint
	ok "install: needs only packages of Debian" \
		in_root sh -c 'apt-get install -y --no-install-recommends /debs/*.deb'
	ok "install: dkms has built all modules for $KVER" built
	ok "modinfo: names, version, license, only the expected dependencies" metadata
	ok "dkms: signs with its key" signed
	ok "modprobe: finds the modules by the names that the kernel requests" found_by_name
	ok "tc: finds its plugin" plugin
	ok "man: finds the manual pages" manuals
	ok "hpcc-lab, hpcc-replay, hpccmon: start" tools
	load_modules
	load_signed
	ok "purge: leaves nothing" purge
	cp -r "$WORK/tree" "$ROOT/tree"
	ok "dkms: adds, builds, installs, removes" dkms_steps
	ok "make dkms: adds, builds, installs" dkms_from_tree
	ok "make dkms: replaces the same version" dkms_again
	ok "kernel without NETFILTER: dkms skips it" unsupported "$KVER-other" CONFIG_NETFILTER
	ok "kernel without NET_SCHED: dkms skips it" unsupported "$KVER-other" CONFIG_NET_SCHED
	ok "kernel 5.10: dkms skips it" unsupported 5.10.0-9-amd64
	ok "kernel 7.3: dkms skips it" unsupported 7.3.4-amd64
	ok "kernel without headers: make names the package" no_headers
	ok "make uninstall: removes all files of dkms" dkms_uninstall
	ok "deb: reports the error of a broken tree" broken
	ktap_exit
}

# If a build fails, there is no package, and the output contains the error.
broken()
{
	local out

	echo '#error "broken on purpose"' >> "$WORK/tree/qdisc/tc/q_hpcc.c"
	cd "$WORK/tree" || return 1
	out=$(as_user scripts/deb "$WORK/nobody/broken" 2>&1) && return 1
	echo "$out"
	grep 'broken on purpose' <<< "$out" && [ -z "$(find "$WORK/nobody/broken" -name '*.deb')" ]
}

main()
{
	local suite=${SUITE:-} root cmd

	if [ "${1:-}" = --in ]; then
		tests "$2"
	fi
	[ "$(id -u)" = 0 ] || ktap_skip_all "needs root"
	# shellcheck source=/dev/null
	[ -n "$suite" ] || suite=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}")
	[ -n "$suite" ] || ktap_skip_all "needs Debian, or SUITE"
	for cmd in debootstrap lintian dh dh_dkms; do
		command -v "$cmd" > /dev/null || ktap_skip_all "needs $cmd; scripts/install-deps deb installs it"
	done
	root=$(root_dir "$suite") || { echo "Bail out! cannot make a Debian $suite"; exit 1; }
	exec unshare -m -n "$0" --in "$root"
}

main "$@"
