#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# selftests/Makefile, selftests/kselftest.sh: the scripts of selftests/net run as
# kernel selftests, in a guest. run_kselftest.sh is from the source of its kernel.
#
# KSELFTEST_GUEST=vm: the guest is QEMU with Debian's kernel, not User Mode Linux.

TOP=$(readlink -f "$(dirname "$(readlink -f "$0")")/../..")
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
work_dir
LIST=$WORK/ksft/kselftest-list.txt
GUEST=${KSELFTEST_GUEST:-uml}

guest()
{
	HPCC_MODDIR=$TOOLS "$TOP/scripts/$GUEST/run.sh" --tree "$TREE" --ro "$WORK" --ro "$TOOLS" -- "$@"
}

# Install twice, into a directory with a collection of another project.
install()
{
	mkdir -p "$WORK/ksft"
	echo "timers:posix_timers" > "$LIST"
	make -C "$TOP/selftests" install INSTALL_PATH="$WORK/ksft" &&
		make -C "$TOP/selftests" install INSTALL_PATH="$WORK/ksft" \
			KSFT="$SOURCE/tools/testing/selftests" || return 1
	[ "$(sort "$LIST" | uniq -d)" = "" ] && grep -qx timers:posix_timers "$LIST" &&
		grep -qx hpcc/selftests/net:sch_hpcc.sh "$LIST" && grep -qx hpcc/selftests/net:handshake.py "$LIST" &&
		! grep -E 'lib|frames' "$LIST"
}

install_nowhere()
{
	! make -C "$TOP/selftests" install INSTALL_PATH="$WORK/other" KSFT="$WORK/none" > "$WORK/log" 2>&1 &&
		grep "no run_kselftest.sh in $WORK/none" "$WORK/log"
}

# One test that passes, one that fails, one that is skipped.
run_kselftest()
{
	local net=$WORK/ksft/hpcc/selftests/net name status=1

	for name in breaks skips; do
		printf '#!/bin/bash\nexit %s\n' "$status" > "$net/$name.sh"
		chmod +x "$net/$name.sh"
		echo "hpcc/selftests/net:$name.sh" >> "$LIST"
		status=4
	done
	guest "$WORK/ksft/run_kselftest.sh" -t hpcc/selftests/net:install.sh \
		-t hpcc/selftests/net:breaks.sh -t hpcc/selftests/net:skips.sh > "$WORK/log" 2>&1
	cat "$WORK/log"
	grep -q '^ok 1 selftests: hpcc/selftests/net: install\.sh' "$WORK/log" &&
		grep -q '^not ok 2 selftests: hpcc/selftests/net: breaks\.sh' "$WORK/log" &&
		grep -q '^ok 3 selftests: hpcc/selftests/net: skips\.sh # SKIP' "$WORK/log"
}

run_tests()
{
	guest make -s -C "$TOP/selftests" run_tests T=install > "$WORK/log" 2>&1 || return 1
	cat "$WORK/log"
	grep -qx '1\.\.1' "$WORK/log" && grep -q '^# ok 1 - sysctl_d' "$WORK/log" &&
		grep -qx 'ok 1 selftests: hpcc: install\.sh' "$WORK/log"
}

run_tests_unknown()
{
	! make -s -C "$TOP/selftests" run_tests T=nonsense > "$WORK/log" 2>&1 &&
		grep 'no test nonsense' "$WORK/log"
}

# Without root all scripts are skipped, which is not a failure.
run_tests_nobody()
{
	[ "$(id -u)" = 0 ] || { make -s -C "$TOP/selftests" run_tests T=install | grep -q '^ok 1 .*# SKIP'; return; }
	# The user "nobody" cannot read a tree below /root.
	mkdir -p "$WORK/tree/selftests"
	cp -r "$TOP/selftests/kselftest.sh" "$TOP"/selftests/{lib,net} "$WORK/tree/selftests" && chmod -R go+rX "$WORK" &&
		as_nobody "$WORK/tree/selftests/kselftest.sh" run install | grep -q '^ok 1 .*# SKIP'
}

main()
{
	local headers

	SOURCE=$("$TOP/scripts/uml/build.sh") || { echo "Bail out! no kernel"; exit 1; }
	TREE=$SOURCE
	headers=$SOURCE
	if [ "$GUEST" = vm ]; then
		TREE=$("$TOP/scripts/vm/kernel.sh") || { echo "Bail out! no kernel"; exit 1; }
		headers=$(readlink -f "$TREE/build")
	fi
	TOOLS=$("$TOP/scripts/uml/modules.sh" "$headers") || { echo "Bail out! no modules"; exit 1; }
	# The virtual machine cannot write to the tree.
	make -s -C "$TOP/selftests" all
	ktap_plan 6
	ok "install: adds a collection" install
	ok "install: reports a missing run_kselftest.sh" install_nowhere
	ok "run_kselftest.sh: distinguishes passed, failed and skipped tests" run_kselftest
	ok "run_tests: in the tree" run_tests
	ok "run_tests: names an unknown test" run_tests_unknown
	ok "run_tests: skips without root" run_tests_nobody
	ktap_exit
}

main
