#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# modules.sh TREE: build the files of this project that a guest needs (modules,
# q_hpcc.so, hpcc-network, hpcc-traffic) against the kernel TREE, and print the
# directory that contains them. The script builds a copy of the sources, so that it does
# not disturb a build for the host. The result stays in the cache until the sources change.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
TOP=$(readlink -f "$HERE/../..")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
BUILDING=
# Process ID of the leader of the process group that compiles.
COMPILING=

# shellcheck disable=SC2317 # called by trap
cleanup()
{
	trap '' INT TERM
	if [ -n "$COMPILING" ]; then
		# The programs of the process group write to the directory until they end.
		for _ in {1..20}; do
			kill -- -"$COMPILING" 2> /dev/null || break
			sleep 0.1
		done
		for _ in {1..50}; do
			kill -KILL -- -"$COMPILING" 2> /dev/null || break
			sleep 0.1
		done
	fi
	[ -z "$BUILDING" ] || rm -rf "$BUILDING"
}

sources()
{
	find Kbuild dkms.conf include kmod qdisc scripts/kbuild \
		tools/Makefile tools/include tools/network tools/traffic -type f \
		! -name '*.o' ! -name '*.ko' ! -name '*.so' ! -name '*.mod*' \
		! -name '.*' ! -name '*.order' ! -name '*.symvers' | LC_ALL=C sort
}

# suite_of TREE: print the Debian suite whose compiler built a distribution's kernel; print
# nothing if this machine has the same compiler. The tools of the kernel's headers are linked
# with libraries of that suite.
suite_of()
{
	local theirs ours

	theirs=$(sed -n 's/^CONFIG_GCC_VERSION=\([0-9]*\)[0-9]\{4\}$/\1/p' "$1/.config")
	ours=$(gcc -dumpversion)
	[ "$theirs" != "${ours%%.*}" ] || return 0
	case $theirs in
	12) echo bookworm ;;
	14) echo trixie ;;
	*) echo "lab: the compiler of $1, gcc $theirs, is in no suite that this script knows" >&2; return 1 ;;
	esac
}

profiled()
{
	grep -q '^CONFIG_GCOV_KERNEL=y' "$1/.config"
}

# Building type information for a distribution's kernel requires a vmlinux.
compile_modules()
{
	local tree=$1 copy=$2 suite
	local -a how=(make -C "$tree" M="$copy" -j "$(nproc)" modules)

	# The directory of the copy loses its random suffix when the build is complete.
	! profiled "$tree" ||
		how+=(GCOV_PROFILE=y "KCFLAGS=-fprofile-prefix-map=$copy=${copy%.*}/src")
	if grep -q '^CONFIG_UML=y' "$tree/.config"; then
		"${how[@]}" ARCH=um
		return
	fi
	how+=(CONFIG_DEBUG_INFO_BTF_MODULES=)
	suite=$(suite_of "$tree") || return 1
	if [ -n "$suite" ]; then
		how=("$HERE/../root.sh" "$suite" --ro "${tree%/usr/src/*}" --rw "$copy" "${how[@]}")
	fi
	"${how[@]}"
}

compile()
{
	local tree=$1 copy=$2

	compile_modules "$tree" "$copy" &&
	make -C "$copy/qdisc" -f Makefile q_hpcc.so &&
	make -C "$copy/tools" hpcc-network hpcc-traffic
}

progress()
{
	local pid=$1 started=$SECONDS next=30

	echo "lab: building modules and tools" >&2
	while kill -0 "$pid" 2>/dev/null; do
		if [ $((SECONDS - started)) -ge "$next" ]; then
			echo "lab: building modules and tools, $((SECONDS - started)) s" >&2
			next=$((SECONDS - started + 30))
		fi
		sleep 0.2
	done
}

build()
{
	local tree=$1 final=$2 copy

	BUILDING=$(mktemp -d "$final.XXXXXX")
	copy=$BUILDING/src
	mkdir "$copy"
	sources | tar -cf - -T - | tar -C "$copy" -xf -
	set -m
	compile "$tree" "$copy" > "$BUILDING/log" 2>&1 < /dev/null &
	COMPILING=$!
	set +m
	progress "$COMPILING"
	if ! wait "$COMPILING"; then
		tail -n 40 "$BUILDING/log" >&2
		echo "lab: building against $tree failed" >&2
		exit 1
	fi
	COMPILING=
	mv "$copy"/kmod/*/*.ko "$copy"/qdisc/*.ko "$copy"/qdisc/q_hpcc.so \
		"$copy"/tools/hpcc-network "$copy"/tools/hpcc-traffic "$BUILDING"
	profiled "$tree" || rm -rf "$copy"
	chmod 755 "$BUILDING"
	# Another instance of this script may have finished first; both results are the same.
	if mv -T "$BUILDING" "$final" 2>/dev/null; then
		BUILDING=
	fi
	[ -e "$final/tcp_hpcc.ko" ]
}

# Each change of the sources leaves a directory. Keep the twelve newest directories, and directories
# that were used in the last 4 hours, because a guest may still use them.
prune()
{
	local old

	while read -r old; do
		rm -rf "${CACHE:?}/$old"
	done < <(cd "$CACHE" && find . -maxdepth 1 -name 'modules-*' -mmin +240 -printf '%T@ %f\n' |
		 sort -rn | tail -n +13 | cut -d' ' -f2)
}

main()
{
	local tree=${1:-} hash final

	if [ ! -e "$tree/Module.symvers" ]; then
		echo "usage: modules.sh TREE, the directory that build.sh prints${tree:+; $tree is not one}" >&2
		exit 2
	fi
	cd "$TOP"
	# The name of the tree identifies it; the path of the cache does not matter.
	hash=$({ basename "$(readlink -f "$tree")"; sources | xargs sha256sum; } | sha256sum)
	final=$CACHE/modules-${hash:0:12}
	if [ ! -e "$final/tcp_hpcc.ko" ]; then
		trap cleanup EXIT
		trap 'exit 130' INT TERM
		mkdir -p "$CACHE"
		build "$tree" "$final"
		prune
	fi
	# The cache may belong to another user.
	touch "$final" 2> /dev/null || true
	echo "$final"
}

main "$@"
