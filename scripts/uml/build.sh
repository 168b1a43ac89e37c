#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh [--kernel-version X.Y] [--lab | --observe] [--where]: build a User Mode Linux kernel
# from Debian's linux-source package, once, and print the path of its tree. Modules are built
# against this tree. Default X.Y: $HPCC_KERNEL, else the kernel version of the distribution;
# source.sh gets other versions. The kernel has the features that tests need
# (kernel.test.config). --lab builds the small kernel of hpcc-lab (kernel.lab.config), in half
# the time, and --observe the same with BPF for cc.observe (kernel.observe.config).
# HPCC_DEBUG=1 selects a kernel with debug checks (kernel.debug.config), and HPCC_GCOV=DIR
# (see test.sh) one for the coverage of modules (kernel.gcov.config).
#
# The trees are in ${HPCC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/hpcc}. Their names depend on
# package version, configuration and patches. --where prints the path and builds nothing.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
FLAVOUR=
# Variables that scripts/uml/tree.sh reads.
# shellcheck disable=SC2034
TREE_NAME=uml
# shellcheck disable=SC2034
MAKE_ARCH=um
OBJECTS=1350
# The kernel mixes the output of "uname -v", which contains the date of the build, into
# its random numbers. So this date must be the same in all builds. It is the date of the
# kernel that was used for the table in README.
BUILT=(
	KBUILD_BUILD_VERSION=1
	'KBUILD_BUILD_TIMESTAMP=Mon Nov 23 11:46:14 UTC 2026'
	KBUILD_BUILD_USER=hpcc
	KBUILD_BUILD_HOST=hpcc
)
# shellcheck source=scripts/uml/tree.sh
. "$HERE/tree.sh"

# Print the configuration. It contains BUILT as comments, because the tree's key must
# depend on BUILT.
configuration()
{
	cat "$HERE/kernel.config"
	if [[ $FLAVOUR == lab-* ]]; then cat "$HERE/kernel.lab.config"; else cat "$HERE/kernel.test.config"; fi
	[ "$FLAVOUR" != lab-observe- ] || cat "$HERE/kernel.observe.config"
	[ "$FLAVOUR" != debug- ] || cat "$HERE/kernel.debug.config"
	[ "$FLAVOUR" != gcov- ] || cat "$HERE/kernel.gcov.config"
	printf '# %s\n' "${BUILT[@]}"
}

build()
{
	local package=$1 final=$2 jobs

	jobs=$(nproc)
	BUILDING=$(mktemp -d "$final.XXXXXX")
	chmod 755 "$BUILDING"
	unpack "$package" "$BUILDING"
	"$HERE/patch.sh" "$BUILDING"
	configure "$BUILDING"
	grep -q '^CONFIG_UML_TIME_TRAVEL_SUPPORT=y' "$BUILDING/.config" ||
		die "UML_TIME_TRAVEL_SUPPORT is off: virtual time is not possible"
	precompile "$BUILDING" -mcmodel=large -j "$jobs" "${BUILT[@]}"
	run_make "$BUILDING" -j "$jobs" "${BUILT[@]}" linux modules_prepare
	symbol_versions "$BUILDING"
	slim "$BUILDING"
	mv "$BUILDING" "$final"
	BUILDING=
}

main()
{
	local version=${HPCC_KERNEL:-} where=0 final
	local -a inputs

	[ "${HPCC_DEBUG:-0}" = 0 ] || FLAVOUR=debug-
	[ -z "${HPCC_GCOV:-}" ] || FLAVOUR=gcov-
	while [ $# -gt 0 ]; do
		case $1 in
		--kernel-version)
			[[ ${2:-} =~ ^[0-9]+\.[0-9]+$ ]] ||
				die "--kernel-version: ${2:-nothing} is not a version X.Y, such as 6.1"
			version=$2
			shift 2
			;;
		--lab) FLAVOUR=lab-; shift ;;
		--observe) FLAVOUR=lab-observe-; shift ;;
		--where) where=1; shift ;;
		*) die "unknown argument $1 (--kernel-version X.Y, --lab, --observe, --where)" ;;
		esac
	done
	# tree.sh reads OBJECTS.
	# shellcheck disable=SC2034
	[[ $FLAVOUR != lab-* ]] || OBJECTS=975
	[ -n "$version" ] || version=$(default_version)
	want_source "$version" "$where"
	inputs=("$HERE"/{patch.sh,patches/*.patch})
	# hpcc-lab repeats results to the byte; the build of other trees rarely depends on these files.
	[[ $FLAVOUR != lab-* ]] || inputs+=("$HERE"/{tree.sh,precompiled.h})
	final=$CACHE/$(tree_key "$version" "$FLAVOUR" "${inputs[@]}")
	[ "$where" = 1 ] || build_once build.lock "$final/linux" \
		build "linux-source-$version" "$final"
	echo "$final"
}

main "$@"
