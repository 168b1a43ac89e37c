#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# modules.sh TREE: build what a guest needs of this project (modules,
# q_hpcc.so, hpcc-network, hpcc-traffic) against the kernel TREE, and print the
# directory that holds it. Built out of a copy, so that a build for the host
# beside it is not disturbed, and kept in the cache until the sources change.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
TOP=$(readlink -f "$HERE/../..")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
BUILDING=
# Leads the process group that compiles.
COMPILING=

# shellcheck disable=SC2317 # called by trap
cleanup()
{
	trap '' INT TERM
	if [ -n "$COMPILING" ]; then
		# Its programs write to the directory until they end.
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

# suite_of TREE: the suite of Debian that has the compiler a distribution's kernel
# was built by; nothing if that is ours. Its headers' tools are linked with that
# suite's libraries.
suite_of()
{
	local theirs ours

	theirs=$(sed -n 's/^CONFIG_GCC_VERSION=\([0-9]*\)[0-9]\{4\}$/\1/p' "$1/.config")
	ours=$(gcc -dumpversion)
	[ "$theirs" != "${ours%%.*}" ] || return 0
	case $theirs in
	12) echo bookworm ;;
	14) echo trixie ;;
	*) echo "lab: no suite is known to have the compiler of $1, gcc $theirs" >&2; return 1 ;;
	esac
}

# Type information of the distribution's kernels takes a vmlinux to make.
compile_modules()
{
	local tree=$1 copy=$2 suite
	local -a how=(make -C "$tree" M="$copy" -j "$(nproc)" modules)

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
	rm -rf "$copy"
	chmod 755 "$BUILDING"
	# Somebody else may have been faster; both results are the same.
	if mv -T "$BUILDING" "$final" 2>/dev/null; then
		BUILDING=
	fi
	[ -e "$final/tcp_hpcc.ko" ]
}

# Every change of the sources leaves a directory; a dozen is enough, and those that
# a guest may be using, as they were asked for in the last hours.
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
		echo "usage: modules.sh TREE, a kernel's that build.sh printed${tree:+; $tree is none}" >&2
		exit 2
	fi
	cd "$TOP"
	# Wherever the cache lies, the tree's name says what it is.
	hash=$({ basename "$(readlink -f "$tree")"; sources | xargs sha256sum; } | sha256sum)
	final=$CACHE/modules-${hash:0:12}
	if [ ! -e "$final/tcp_hpcc.ko" ]; then
		trap cleanup EXIT
		trap 'exit 130' INT TERM
		mkdir -p "$CACHE"
		build "$tree" "$final"
		prune
	fi
	# Somebody else's cache will do, too.
	touch "$final" 2> /dev/null || true
	echo "$final"
}

main "$@"
