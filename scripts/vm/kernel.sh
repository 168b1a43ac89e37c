#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel.sh [--kernel-version X.Y]: print the directory of Debian's kernel X.Y, as
# packaged by Debian: vmlinuz, initrd (which mounts the host's file system, see
# initrd.sh), lib/modules, and build (the headers against which modules are built).
# Default X.Y: $HPCC_KERNEL, else the kernel version of the distribution.
#
# Exit status 4: there is no such kernel for this machine; this is not an error.
#
# The packages are downloaded once, and unpacked in
# ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}/vm-X.Y, but not installed. Remove this
# directory to get a newer build of the same X.Y. With HPCC_SMP_DEBUG=kasan or kcsan
# print the directory of a debug kernel from build.sh instead.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
# shellcheck source=scripts/debian.sh
. "$HERE/../debian.sh"
# shellcheck source=scripts/uml/suites.sh
. "$HERE/../uml/suites.sh"
# Modules that a guest may load. All modules of the packages need 300 MB.
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
	debian_kernel | grep . || not_here "no kernel version: set --kernel-version X.Y or HPCC_KERNEL=X.Y"
}

# release_of X.Y: print the newest build that apt knows, such as 6.1.0-56. A build for
# this machine's release of Debian is preferred, because its compiler is installed.
# Print nothing if there is no build.
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

# Search the machine's own apt sources, which include the security archive, and then all
# suites. Sets RELEASE.
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

# needed_by PACKAGE PATTERN: print the dependencies of PACKAGE that match PATTERN.
needed_by()
{
	apt-cache depends --important "$1" | sed -nE "s/^ *\|?Depends: ($2)\$/\1/p"
}

# Print the packages. From 7.x on, image and modules are separate packages.
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

# Move the files to their final paths. The Makefile of the headers contains the path that
# it has on an installed system, so change this path.
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
		die "$version is not a kernel version X.Y, such as 6.1"
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
