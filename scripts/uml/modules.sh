#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# modules.sh TREE: build the files of this project that a guest needs (modules,
# q_hpcc.so, hpcc-network, hpcc-traffic) against the kernel TREE, and print the
# directory that contains them. The script builds a copy of the sources, so that it does
# not disturb a build for the host. The result stays in the cache until the sources change.
#
# modules.sh TREE SOURCE...: the same for other modules: one .c file for each, or one
# directory with a Kbuild. The file "digest" is a hash of the sources. If a source does
# not compile, print the messages of the compiler, with the names of the user's files.
# make runs in namespaces (bubblewrap) where it can write only to the copy. If namespaces
# cannot be created, a directory is refused, unless HPCC_CONFINE=off.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
TOP=$(readlink -f "$HERE/../..")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}
BUILDING=
# Process ID of the leader of the process group that compiles.
COMPILING=
# The command that confines make, or nothing.
BOX=()
# Arguments of find: files that a build does not write
SOURCES=(-type f ! -name '*.o' ! -name '*.ko' ! -name '*.so' ! -name '*.mod*'
	! -path '*/.*' ! -name '*.order' ! -name '*.symvers')

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
		tools/Makefile tools/include tools/network tools/traffic "${SOURCES[@]}" | LC_ALL=C sort
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
	local -a how=(make -C "$tree" M="$copy" -j "$(nproc)" "${@:3}" cmd_check_local_export= modules)

	# The directory of the copy loses its random suffix when the build is complete.
	! profiled "$tree" ||
		how+=(GCOV_PROFILE=y "KCFLAGS=-fprofile-prefix-map=$copy=${copy%.*}/src")
	if grep -q '^CONFIG_UML=y' "$tree/.config"; then
		"${BOX[@]}" "${how[@]}" ARCH=um
		return
	fi
	how+=(CONFIG_DEBUG_INFO_BTF_MODULES=)
	suite=$(suite_of "$tree") || return 1
	if [ -n "$suite" ]; then
		how=("$HERE/../root.sh" "$suite" --ro "${tree%/usr/src/*}" --rw "$copy" "${how[@]}")
	else
		how=("${BOX[@]}" "${how[@]}")
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
	local pid=$1 what=$2 started=$SECONDS next=30

	echo "lab: $what" >&2
	while kill -0 "$pid" 2>/dev/null; do
		if [ $((SECONDS - started)) -ge "$next" ]; then
			echo "lab: $what, $((SECONDS - started)) s" >&2
			next=$((SECONDS - started + 30))
		fi
		sleep 0.2
	done
}

# logged WHAT COMMAND...: run COMMAND with its output in $BUILDING/log, and show progress.
logged()
{
	set -m
	"${@:2}" > "$BUILDING/log" 2>&1 < /dev/null &
	COMPILING=$!
	set +m
	progress "$COMPILING" "$1"
	wait "$COMPILING" || return 1
	COMPILING=
}

build()
{
	local tree=$1 final=$2 copy

	BUILDING=$(mktemp -d "$final.XXXXXX")
	copy=$BUILDING/src
	mkdir "$copy"
	sources | tar -cf - -T - | tar -C "$copy" -xf -
	if ! logged "building modules and tools" compile "$tree" "$copy"; then
		tail -n 40 "$BUILDING/log" >&2
		echo "lab: building against $tree failed" >&2
		exit 1
	fi
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

# copy_sources COPY SOURCE...: copy regular files, without build products. Files get a Kbuild, with which
# the kernel's own sources also find their headers.
copy_sources()
{
	local copy=$1 path

	mkdir "$copy"
	if [ -d "$2" ]; then
		(CDPATH='' cd -- "$2" && find -L . "${SOURCES[@]}" -print0 | tar --null -hcf - -T -) | tar -C "$copy" -xf -
		return
	fi
	for path in "${@:2}"; do
		cp -- "$path" "$copy"
		path=${path##*/}
		echo "obj-m += ${path%.c}.o"
	done > "$copy/Kbuild"
	# shellcheck disable=SC2016 # make expands it
	echo 'ccflags-y += -I$(srctree)/net/ipv4 -I$(srctree)/net/sched' >> "$copy/Kbuild"
}

# box TREE COPY SOURCE: set BOX. Only a directory has a Kbuild, whose commands make runs. /run has
# sockets of this host.
box()
{
	local why tree

	[ "${HPCC_CONFINE:-}" != off ] || return 0
	tree=$(readlink -f "$1")		# bwrap mounts nothing on a link
	BOX=(bwrap --unshare-all --unshare-user --cap-drop ALL --new-session --die-with-parent
		--ro-bind / / --dev /dev --proc /proc --tmpfs /run --ro-bind "$tree" "$tree" --bind "$2" "$2" --setenv TMPDIR "$2")
	! why=$("${BOX[@]}" true 2>&1) || return 0
	BOX=()
	if [ -d "$3" ]; then
		echo "no namespaces can be made here (${why##*$'\n'}), so its Kbuild could write your files; HPCC_CONFINE=off" \
			"runs it nevertheless"
		exit 1
	fi
}

# build_sources TREE SOURCE...: gcc does not use the precompiled headers (tree.sh) if a macro has a name that occurs
# in them. A source may define macros, such as DEBUG, for the headers that it includes.
build_sources()
{
	local tree=$1 shown=$2 copy digest hash final log
	local -a more=(LC_MESSAGES=C)

	mkdir -p "$CACHE"
	BUILDING=$(mktemp -d "$CACHE/modules-new.XXXXXX")
	copy=$BUILDING/src
	copy_sources "$copy" "${@:2}"
	digest=$(cd "$copy" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
	echo "${digest%% *}" > "$BUILDING/digest"
	hash=$({ basename "$(readlink -f "$tree")"; echo "$digest"; cat "$HERE/modules.sh"; } | sha256sum)
	final=$CACHE/modules-${hash:0:12}
	if [ ! -e "$final/digest" ]; then
		profiled "$tree" || more+=("KCFLAGS=-Dtcp_sock=tcp_sock -fmacro-prefix-map=$copy/=")
		if [ -d "$shown" ]; then shown=${shown%/}/; else shown=${shown%"${shown##*/}"}; fi
		box "$tree" "$copy" "$2"
		if ! logged "compiling ${2##*/}" compile_modules "$tree" "$copy" "${more[@]}"; then
			log=$(grep -avE '^(make|  [A-Z]+ |In file included from \./| +from |warning: the compiler differs)' "$BUILDING/log")
			echo "${log//"$copy/"/"$shown"}"
			exit 1
		fi
		find "$copy" -type f -name '*.ko' -exec mv -t "$BUILDING" {} +
		rm -rf "$copy"
		chmod 755 "$BUILDING"
		if mv -T "$BUILDING" "$final" 2>/dev/null; then
			BUILDING=
		fi
		prune
	fi
	touch "$final" 2> /dev/null || true
	echo "$final"
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
	trap cleanup EXIT
	trap 'exit 130' INT TERM
	if [ $# -gt 1 ]; then
		build_sources "$@"
		return
	fi
	cd "$TOP"
	# The name of the tree identifies it; the path of the cache does not matter.
	hash=$({ basename "$(readlink -f "$tree")"; sources | xargs sha256sum; } | sha256sum)
	final=$CACHE/modules-${hash:0:12}
	if [ ! -e "$final/tcp_hpcc.ko" ]; then
		mkdir -p "$CACHE"
		build "$tree" "$final"
		prune
	fi
	# The cache may belong to another user.
	touch "$final" 2> /dev/null || true
	echo "$final"
}

main "$@"
