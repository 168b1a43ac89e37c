#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh [--kernel-version X.Y] [--lab | --debug] [--jobs N] [--where]: build a User
# Mode Linux kernel out of Debian's linux-source package, once, and print the
# path of its tree, against which modules are built too. Default X.Y:
# $HPCC_KERNEL, else the distribution's own kernel version; source.sh finds
# others. The kernel has what tests need (kernel.test.config). --lab builds the small one
# of hpcc-lab (kernel.config alone), in half the time. --debug, or HPCC_DEBUG=1, builds
# one that watches itself (kernel.debug.config).
#
# Trees live in ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}, keyed by
# package version, configuration and patches; --where prints the path without
# building anything.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
FLAVOUR=
# What scripts/uml/tree.sh wants to know.
# shellcheck disable=SC2034
TREE_NAME=uml
# shellcheck disable=SC2034
MAKE_ARCH=um
OBJECTS=1300
# The kernel mixes what "uname -v" prints, its build's date, into its random numbers,
# so it has to be the same for all. The date is that of the kernel that README's
# table was measured with.
BUILT=(
	KBUILD_BUILD_VERSION=1
	'KBUILD_BUILD_TIMESTAMP=Mon Nov 23 11:46:14 UTC 2026'
	KBUILD_BUILD_USER=hpcc
	KBUILD_BUILD_HOST=hpcc
)
# shellcheck source=scripts/uml/tree.sh
. "$HERE/tree.sh"

# BUILT as comments, for the tree's key.
configuration()
{
	cat "$HERE/kernel.config"
	[ "$FLAVOUR" = lab- ] || cat "$HERE/kernel.test.config"
	[ "$FLAVOUR" != debug- ] || cat "$HERE/kernel.debug.config"
	printf '# %s\n' "${BUILT[@]}"
}

build()
{
	local package=$1 final=$2 jobs=$3

	BUILDING=$(mktemp -d "$final.XXXXXX")
	chmod 755 "$BUILDING"
	unpack "$package" "$BUILDING"
	"$HERE/patch.sh" "$BUILDING"
	configure "$BUILDING"
	grep -q '^CONFIG_UML_TIME_TRAVEL_SUPPORT=y' "$BUILDING/.config" ||
		die "UML_TIME_TRAVEL_SUPPORT is off: virtual time is not possible"
	run_make "$BUILDING" -j "$jobs" "${BUILT[@]}" linux modules_prepare
	symbol_versions "$BUILDING"
	slim "$BUILDING"
	mv "$BUILDING" "$final"
	BUILDING=
}

main()
{
	local version=${HPCC_KERNEL:-} jobs where=0 final

	jobs=$(nproc)
	[ "${HPCC_DEBUG:-0}" = 0 ] || FLAVOUR=debug-
	while [ $# -gt 0 ]; do
		case $1 in
		--kernel-version)
			[[ ${2:-} =~ ^[0-9]+\.[0-9]+$ ]] ||
				die "--kernel-version: ${2:-nothing} is no X.Y, such as 6.1"
			version=$2
			shift 2
			;;
		--lab) FLAVOUR=lab-; shift ;;
		--debug) FLAVOUR=debug-; shift ;;
		--jobs) jobs=${2:?--jobs needs a value}; shift 2 ;;
		--where) where=1; shift ;;
		*) die "unknown argument $1 (--kernel-version X.Y, --lab, --debug, --jobs N, --where)" ;;
		esac
	done
	# What scripts/uml/tree.sh wants to know.
	# shellcheck disable=SC2034
	[ "$FLAVOUR" != lab- ] || OBJECTS=975
	[ -n "$version" ] || version=$(default_version)
	want_source "$version" "$where"
	final=$CACHE/$(tree_key "$version" "$FLAVOUR" "$HERE"/{patch.sh,patches/*.patch})
	[ "$where" = 1 ] || build_once build.lock "$final/linux" \
		build "linux-source-$version" "$final" "$jobs"
	echo "$final"
}

main "$@"
