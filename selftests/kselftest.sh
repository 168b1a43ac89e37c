#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kselftest.sh run [NAME...]: run all scripts of selftests/net, or the named scripts, on this
# kernel, and print TAP as the kernel's "make run_tests" does.
#
# kselftest.sh install DIR [KSFT]: install the scripts in DIR as the collection
# hpcc/selftests/net, so that run_kselftest.sh in DIR finds them. Copy
# run_kselftest.sh and the files that it needs from KSFT (tools/testing/selftests of a
# kernel's source), if KSFT is given. Other collections in DIR stay.
set -euo pipefail

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/..")
COLLECTION=hpcc/selftests/net
# Limit of the real time of one script in seconds; the default limit of scripts/check, for CPU time, is equal.
TIMEOUT_S=900

die()
{
	echo "kselftest.sh: $*" >&2
	exit 1
}

programs()
{
	find "$TOP/selftests/net" -maxdepth 1 -type f -perm -u+x -printf '%f\n' | sort
}

# result NR NAME STATUS
result()
{
	case $3 in
	0) echo "ok $1 selftests: hpcc: $2" ;;
	4) echo "ok $1 selftests: hpcc: $2 # SKIP" ;;
	124) echo "not ok $1 selftests: hpcc: $2 # TIMEOUT $TIMEOUT_S seconds" ;;
	*) echo "not ok $1 selftests: hpcc: $2 # exit=$3" ;;
	esac
}

run()
{
	local name nr=0 status failed=0
	local -a names=()

	for name; do
		names+=("$(programs | grep -xE "$name\.(sh|py)")") || die "no test $name in selftests/net"
	done
	[ $# -gt 0 ] || mapfile -t names < <(programs)
	echo "TAP version 13"
	echo "1..${#names[@]}"
	for name in "${names[@]}"; do
		nr=$((nr + 1))
		status=0
		echo "# selftests: hpcc: $name"
		timeout --foreground "$TIMEOUT_S" "$TOP/selftests/net/$name" 2>&1 < /dev/null |
			sed -u 's/^/# /' || status=$?
		result "$nr" "$name" "$status"
		[ "$status" = 0 ] || [ "$status" = 4 ] || failed=1
	done
	return "$failed"
}

# Install the files of the tree that the scripts need, and the modules if they were built here.
install()
{
	local dir=$1 ksft=$2 list

	mkdir -p "$dir/hpcc"
	list=$dir/kselftest-list.txt
	(cd "$TOP" && find selftests/net selftests/lib Documentation/boot Documentation/netlink tools/wireshark \
		qdisc/q_hpcc.so kmod qdisc -type f,l \
		\( -path 'selftests/*' -o -path 'Documentation/*' -o -name '*.lua' -o -name '*.so' -o -name '*.ko' \) \
		! -path '*/__pycache__/*' -print | sort -u | tar -cf - -T -) |
		tar -C "$dir/hpcc" --no-same-owner -xf -
	echo "timeout=$TIMEOUT_S" > "$dir/$COLLECTION/settings"
	touch "$list"
	sed -i "\,^$COLLECTION:,d" "$list"
	programs | sed "s,^,$COLLECTION:," >> "$list"
	if [ -n "$ksft" ]; then
		[ -e "$ksft/run_kselftest.sh" ] || die "no run_kselftest.sh in $ksft"
		cp -r "$ksft/run_kselftest.sh" "$ksft/kselftest" "$dir"
	elif [ ! -e "$dir/run_kselftest.sh" ]; then
		echo "kselftest.sh: $dir has no run_kselftest.sh; install with KSFT=LINUX/tools/testing/selftests to copy it" >&2
	fi
}

case ${1:-} in
run)
	shift
	run "$@"
	;;
install) install "${2:?usage: kselftest.sh install DIR [KSFT]}" "${3:-}" ;;
*) die "usage: kselftest.sh run [NAME...] | install DIR [KSFT]" ;;
esac
