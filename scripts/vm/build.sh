#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh --kasan|--kcsan [--kernel-version X.Y] [--jobs N] [--where]: build a small
# debug kernel for several CPUs from Debian's linux-source, once, and print its
# directory. The directory contains the same files as that of kernel.sh: vmlinuz,
# initrd, lib/modules, build, release. Default X.Y: $HPCC_KERNEL, else the kernel
# version of the distribution.
#
#   --kasan  check memory, locks, contexts and objects; a test can make allocations fail
#   --kcsan  detect data races
#
# --where prints the path and builds nothing.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
WATCH=
# Variables that scripts/uml/tree.sh reads.
TREE_NAME=vm
MAKE_ARCH=x86_64
OBJECTS=1800
# shellcheck source=scripts/uml/tree.sh
. "$HERE/../uml/tree.sh"

configuration()
{
	grep -hvE '^CONFIG_(UML_|HOSTFS|STDERR_CONSOLE|NULL_CHAN)' "$HERE"/../uml/kernel{,.test}.config
	cat "$HERE/kernel.config"
	# kmemleak is used in User Mode Linux instead, where it takes a tenth of the time.
	[ "$WATCH" != kasan ] ||
		grep -vE '^CONFIG_(DEBUG_KMEMLEAK|KASAN_OUTLINE)' "$HERE/../uml/kernel.debug.config"
	cat "$HERE/kernel.$WATCH.config"
}

# Create the files that kernel.sh creates beside the headers. All modules are built in.
arrange()
{
	local into=$1 tree=$1/build release modules

	release=$(cat "$tree/include/config/kernel.release")
	modules=$into/lib/modules/$release
	mkdir -p "$modules"
	cp "$tree/arch/x86/boot/bzImage" "$into/vmlinuz"
	cp "$tree"/modules.builtin* "$modules"
	touch "$modules/modules.order"
	depmod -b "$into" "$release"
	echo "$release" > "$into/release"
}

build()
{
	local package=$1 final=$2 jobs=$3 tree

	BUILDING=$(mktemp -d "$final.XXXXXX")
	chmod 755 "$BUILDING"
	tree=$BUILDING/build
	mkdir "$tree"
	unpack "$package" "$tree"
	"$HERE/patch.sh" "$tree"
	configure "$tree"
	grep -q "^CONFIG_${WATCH^^}=y" "$tree/.config" || die "${WATCH^^} is off"
	run_make "$tree" -j "$jobs" bzImage modules_prepare
	symbol_versions "$tree"
	arrange "$BUILDING"
	slim "$tree"
	rm -rf "$tree/arch/x86/boot/compressed"
	mv -T "$BUILDING" "$final"
	BUILDING=
}

# Create the initrd if it does not exist, or is older than initrd.sh.
initrd()
{
	[ ! "$1/initrd" -nt "$HERE/initrd.sh" ] || return 0
	"$HERE/initrd.sh" "$1" > "$1/initrd.$$"
	mv "$1/initrd.$$" "$1/initrd"
}

main()
{
	local version=${HPCC_KERNEL:-} jobs where=0 final

	jobs=$(nproc)
	while [ $# -gt 0 ]; do
		case $1 in
		--kernel-version) version=${2:?--kernel-version needs a value}; shift 2 ;;
		--kasan|--kcsan) WATCH=${1#--}; shift ;;
		--jobs) jobs=${2:?--jobs needs a value}; shift 2 ;;
		--where) where=1; shift ;;
		*) die "unknown argument $1 (--kasan, --kcsan, --kernel-version X.Y, --jobs N, --where)" ;;
		esac
	done
	[ -n "$WATCH" ] || die "no kernel selected: use --kasan or --kcsan"
	[ -n "$version" ] || version=$(default_version)
	want_source "$version" "$where"
	final=$CACHE/$(tree_key "$version" "$WATCH-" "$HERE/patch.sh")
	if [ "$where" = 0 ]; then
		build_once "vm-$WATCH.lock" "$final/release" \
			build "linux-source-$version" "$final" "$jobs"
		initrd "$final"
	fi
	echo "$final"
}

main "$@"
