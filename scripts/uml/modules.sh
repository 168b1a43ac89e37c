#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# modules.sh [--tree DIR] [--make ARG]...: build tcp_hpcc.ko and sch_hpcc.ko for
# the guest's kernel and print the directory that holds them.
#
# Sources are copied into the cache first, so that modules for the running
# kernel, built in the source tree, stay apart. Only what changed is compiled
# again. --tree is a tree of build.sh (default: build.sh says); --make passes
# one argument on to make, such as W=1.
set -euo pipefail

HERE=$(dirname "$(readlink -f "$0")")
TOP=$(readlink -f "$HERE/../..")
CACHE=${HPCC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hpcc}

die()
{
	echo "modules: $*" >&2
	exit 1
}

sources()
{
	cd "$TOP"
	printf '%s\n' Kbuild dkms.conf scripts/kbuild/probe.sh
	find include kmod qdisc -type f \( -name '*.[ch]' -o -name '*.probes' \
		-o -name Kbuild \) ! -name '*.mod.c'
}

# One copy for each source tree, kernel and set of arguments.
copy_dir()
{
	local key

	key=$(echo "$TOP" "$@" | sha256sum)
	echo "$CACHE/modules/${key:0:12}"
}

sync_sources()
{
	local dir=$1 file

	while read -r file; do
		cmp -s "$TOP/$file" "$dir/$file" || install -D -m 644 "$TOP/$file" "$dir/$file"
	done
	cd "$dir"
	while read -r file; do
		[ -e "$TOP/$file" ] || rm -f "$file"
	done < <(find include kmod qdisc -type f \( -name '*.[ch]' -o -name Kbuild \) ! -name '*.mod.c')
}

main()
{
	local tree='' dir log module
	local -a args=()

	while [ $# -gt 0 ]; do
		case $1 in
		--tree) tree=${2:?--tree needs a value}; shift 2 ;;
		--make) args+=("${2:?--make needs a value}"); shift 2 ;;
		*) die "unknown argument $1 (--tree DIR, --make ARG)" ;;
		esac
	done
	[ -n "$tree" ] || tree=$("$HERE/build.sh")
	dir=$(copy_dir "$tree" "${args[@]}")
	log=$dir/build.log
	mkdir -p "$dir"
	exec 9> "$dir/.lock"
	flock 9
	sources | sync_sources "$dir"
	make -C "$tree" ARCH=um M="$dir" -j "$(nproc)" "${args[@]}" modules > "$log" 2>&1 < /dev/null || {
		cat "$log" >&2
		die "the modules do not build; this is also in $log"
	}
	mkdir -p "$dir/ko"
	for module in kmod/tcp_hpcc.ko qdisc/sch_hpcc.ko; do
		[ -e "$dir/$module" ] || die "$module was not built"
		cmp -s "$dir/$module" "$dir/ko/${module##*/}" || cp "$dir/$module" "$dir/ko/"
	done
	grep -E 'warning:|error:|WARNING:' "$log" >&2 || true
	echo "$dir/ko"
}

main "$@"
