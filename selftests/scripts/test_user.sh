#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# "make demo" as an ordinary user of Debian runs it: not as root, with a separate home and copy of
# the tree, and without sbin in PATH. The guests use the kernels of the user who runs this test; all
# other programs are built.

TOP=$(dirname "$(readlink -f "$0")")/../..
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
WORK=$(mktemp -d)
chmod 755 "$WORK"
KERNELS=()
trap cleanup EXIT

SCENARIO='[topology]
kind = "star"
hosts = 2
[[flow]]
from = "h0"
to = "h1"
bytes = "300KB"'

# shellcheck disable=SC2317 # called by trap
cleanup()
{
	# The mounted kernels belong to the user who runs this test: do not delete them.
	[ ${#KERNELS[@]} = 0 ] || umount "${KERNELS[@]}" || return
	rm -rf "$WORK"
}

# as_user [NAME=VALUE]... COMMAND...: run COMMAND as that user in the copy of the tree
as_user()
{
	(cd "$WORK/home/tree" &&
	 as_nobody env -i HOME="$WORK/home" PATH=/usr/local/bin:/usr/bin:/bin "$@" < /dev/null)
}

# make_home KERNEL...: create a home, a tree, and a cache with the kernels
make_home()
{
	local cache=$WORK/home/.cache/hpcc kernel

	mkdir -p "$cache" "$WORK/bin"
	copy_tree "$WORK/home/tree"
	echo "$SCENARIO" > "$WORK/home/small.toml"
	[ "$(id -u)" != 0 ] || chown -R 65534:65534 "$WORK/home"
	for kernel; do
		if [ "$(id -u)" != 0 ]; then
			ln -s "$kernel" "$cache"
			continue
		fi
		KERNELS+=("$cache/${kernel##*/}")
		mkdir "${KERNELS[-1]}"
		mount --bind "$kernel" "${KERNELS[-1]}"
		mount -o remount,bind,ro "${KERNELS[-1]}"
	done
}

demo()
{
	as_user make demo DEMO="$WORK/home/small.toml" DEMO_CC=hpcc &&
		grep -q 'utilization' "$WORK/home/tree/out/demo/report.html"
}

same_results()
{
	"$TOP/scripts/hpcc-lab" compare "$WORK/home/small.toml" --cc hpcc --out "$WORK/mine" &&
		diff <(grep -v '"finished"\|"seconds"\|"commit"' "$WORK/mine/results.json") \
		     <(grep -v '"finished"\|"seconds"\|"commit"' "$WORK/home/tree/out/demo/results.json")
}

# The guest does not show directories that the user may not read, and prints no error.
guest()
{
	local out

	out=$(as_user scripts/uml/run.sh bash -c 'id -u; ls -d /usr' 2>&1)
	echo "$out"
	[ "$out" = $'0\n/usr' ]
}

# With an empty cache: run until the source of the kernel is unpacked.
empty_cache()
{
	local out

	printf '#!/bin/sh\necho no tar today >&2\nexit 1\n' > "$WORK/bin/tar"
	chmod 755 "$WORK/bin/tar"
	out=$(as_user PATH="$WORK/bin:/usr/local/bin:/usr/bin:/bin" HPCC_CACHE="$WORK/home/new" make demo 2>&1) &&
		return 1
	echo "$out"
	grep -q '^uml: unpacking linux-source-' <<< "$out" && grep -q '^no tar today' <<< "$out" &&
		! grep -q 'not found\|denied' <<< "$out"
}

# Run the tests of features that depend on the user: the cache, captures, namespaces.
tests_of_lab()
{
	as_user selftests/lab/test_commands.py CommandLine && as_user selftests/lab/test_traffic.py iperf3 &&
		as_user selftests/lab/test_walls.py
}

main()
{
	local tree lab

	# As root: the mounts disappear when this script ends.
	if [ "$(id -u)" = 0 ] && [ -z "${TEST_USER_MOUNTS:-}" ]; then
		rmdir "$WORK"
		TEST_USER_MOUNTS=1 exec unshare -m "$0"
	fi
	tree=$("$TOP/scripts/uml/build.sh") && lab=$("$TOP/scripts/uml/build.sh" --lab) || exit 1
	make_home "$tree" "$lab"
	ktap_plan 5
	ok "make demo: as an ordinary user" demo
	ok "make demo: results do not depend on the user or the directory" same_results
	ok "hpcc-lab: tests of the lab, as an ordinary user" tests_of_lab
	ok "run.sh: a guest sees the files of the host" guest
	ok "make demo: with an empty cache, until the kernel source is unpacked" empty_cache
	ktap_exit
}

main
