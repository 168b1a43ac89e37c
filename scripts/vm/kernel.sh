#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel.sh [--kernel-version X.Y]: print the directory that holds Debian's own
# kernel X.Y, as its packages ship it: vmlinuz, initrd (which mounts the host's
# file system, see initrd.sh), lib/modules, and build, the headers to build modules
# against. Default X.Y: $HPCC_KERNEL, else the distribution's.
#
# Exit status 4: there is none for this machine, which is no fault of ours.
#
# Packages are fetched, not installed, into
# ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}/vm-X.Y, once: remove that to get
# a newer build of the same X.Y. With HPCC_SMP_DEBUG=kasan or kcsan the directory is
# build.sh's: a kernel that watches itself.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
# shellcheck source=scripts/debian.sh
. "$HERE/../debian.sh"
# shellcheck source=scripts/uml/suites.sh
. "$HERE/../uml/suites.sh"
# What a guest may load, of 300 MB.
SUBSYSTEMS='arch crypto lib net fs/9p fs/netfs fs/fscache drivers/net drivers/virtio
	drivers/char/virtio_console.ko* drivers/char/hw_random'
BUILDING=

say()
{
	echo "vm: $*" >&2
}

die()
{
	say "$*"
	exit 1
}

not_here()
{
	say "$*"
	exit 4
}

# shellcheck disable=SC2317 # called by trap
cleanup()
{
	[ -z "$BUILDING" ] || rm -rf "$BUILDING"
}

default_version()
{
	debian_kernel | grep . || not_here "which kernel? say --kernel-version X.Y or HPCC_KERNEL=X.Y"
}

# release_of X.Y: the newest build of it that apt knows, as in 6.1.0-56; one for
# this machine's own release of Debian, whose compiler is here, goes before others.
# Nothing where there is none.
release_of()
{
	local all own

	all=$(apt-cache pkgnames "linux-image-${1//+/}" 2>/dev/null |
		sed -nE "s/^linux-image-(${1//./\\.}[.-].*)-amd64\$/\1/p" |
		{ grep -vE 'cloud|rt|unsigned|dbg' || true; } | sort -V)
	# shellcheck source=/dev/null
	own=$(. /etc/os-release; grep "+deb${VERSION_ID:-}\b" <<< "$all" || true)
	tail -n 1 <<< "${own:-$all}"
}

# The machine's own sources, which have the security archive; else all suites.
# Sets RELEASE.
find_release()
{
	local version=$1

	RELEASE=$(release_of "$version")
	[ -n "$RELEASE" ] && [ -n "$(apt-cache policy "linux-headers-$RELEASE-amd64")" ] && return
	suites_apt "$BUILDING/apt"
	export APT_CONFIG=$BUILDING/apt/apt.conf
	RELEASE=$(release_of "$version")
	[ -n "$RELEASE" ] || die "no kernel $version in: $SUITES"
}

# needed_by PACKAGE PATTERN: those of its dependencies that match.
needed_by()
{
	apt-cache depends --important "$1" | sed -nE "s/^ *\|?Depends: ($2)\$/\1/p"
}

# From 7.x on, image and modules are packages of their own.
packages()
{
	local image=linux-image-$RELEASE-amd64 headers=linux-headers-$RELEASE-amd64

	echo "$image"
	needed_by "$image" 'linux-(base|binary|modules)-.*'
	echo "$headers"
	needed_by "$headers" 'linux-(headers|kbuild)-.*'
}

unpack()
{
	local into=$1 package path
	local -a keep=()

	for path in $SUBSYSTEMS; do
		keep+=("*/kernel/$path")
	done
	for package in "$into"/debs/linux-{image,base,binary,modules}-*.deb; do
		[ -e "$package" ] || continue
		dpkg-deb --fsys-tarfile "$package" |
			tar -C "$into" -xf - --wildcards "${keep[@]}" '*/vmlinuz*' \
				'*/modules.builtin*' '*/modules.order' 2> "$into/tar.log" || true
	done
	for package in "$into"/debs/linux-{headers,kbuild}-*.deb; do
		dpkg-deb --fsys-tarfile "$package" |
			tar -C "$into" -xf - --exclude='./usr/share/*'
	done
}

# The headers' Makefile names its place on an installed system.
arrange()
{
	local into=$1 final=$2 name=$RELEASE-amd64

	mkdir -p "$into/lib"
	[ ! -d "$into/usr/lib/modules" ] || mv "$into/usr/lib/modules" "$into/lib/"
	mv "$(find "$into" -name "vmlinuz*" | head -n 1)" "$into/vmlinuz"
	ln -s "usr/src/linux-headers-$name" "$into/build"
	sed -i "s,/usr/src,$final/usr/src,g" "$into/build/Makefile"
	find "$into/lib/modules" -name '*.ko.xz' -exec xz -d {} +
	depmod -b "$into" "$name"
	echo "$name" > "$into/release"
}

build()
{
	local version=$1 final=$2 RELEASE=''
	local -a list

	BUILDING=$(mktemp -d "$final.XXXXXX")
	chmod 755 "$BUILDING"
	find_release "$version"
	mapfile -t list < <(packages)
	say "fetching about 85 MB: ${list[*]}"
	mkdir "$BUILDING/debs"
	(cd "$BUILDING/debs" && apt-get download -qq -o APT::Sandbox::User= "${list[@]}") >&2 ||
		die "apt-get download failed"
	unpack "$BUILDING"
	arrange "$BUILDING" "$final"
	rm -rf "$BUILDING/debs" "$BUILDING/apt"
	mv -T "$BUILDING" "$final"
	BUILDING=
}

main()
{
	local version=${HPCC_KERNEL:-} final

	[ -z "${HPCC_SMP_DEBUG:-}" ] || exec "$HERE/build.sh" "--$HPCC_SMP_DEBUG" "$@"
	while [ $# -gt 0 ]; do
		case $1 in
		--kernel-version) version=${2:?--kernel-version needs a value}; shift 2 ;;
		*) die "unknown argument $1 (--kernel-version X.Y)" ;;
		esac
	done
	[ "$(dpkg --print-architecture)" = amd64 ] || not_here "runs on amd64 only"
	[ -n "$version" ] || version=$(default_version) || exit
	[[ $version =~ ^[0-9]+\.[0-9]+$ ]] ||
		die "$version is no kernel version; it is X.Y, as in 6.1"
	final=$CACHE/vm-$version
	if [ ! "$final/initrd" -nt "$HERE/initrd.sh" ]; then
		mkdir -p "$CACHE"
		trap cleanup EXIT
		trap 'exit 130' INT TERM
		exec 9> "$CACHE/vm.lock"
		flock 9
		[ -e "$final" ] || build "$version" "$final"
		"$HERE/initrd.sh" "$final" > "$final/initrd.new"
		mv "$final/initrd.new" "$final/initrd"
		exec 9>&-
	fi
	echo "$final"
}

main "$@"
