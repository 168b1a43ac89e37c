#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of scripts/check: it counts results, and detects missing results. Each case runs
# it with programs that print fixed output, and compares its last line and its status.
# Tests of scripts/check-all and scripts/coverage do the same, with a fake scripts/check.

CHECK=$(dirname "$(readlink -f "$0")")/../../scripts/check
# shellcheck source=selftests/lib/ktap.sh
. "$(dirname "$CHECK")/../selftests/lib/ktap.sh"
ktap_whole "$@"
work_dir

# producer NAME SCRIPT: create a test program
producer()
{
	printf '#!/bin/bash\n%s\n' "$2" > "$WORK/$1"
	chmod +x "$WORK/$1"
}

# verdict NAME WANT GOT: print the result of a test. WANT and GOT have one line each.
verdict()
{
	if [ "$2" = "$3" ]; then
		ktap_result 0 "$1"
	else
		ktap_result 1 "$1" "wanted $2"$'\n'"got $3"
	fi
}

# expect NAME STATUS LAST-LINE PRODUCER...: run scripts/check with these programs
expect()
{
	local name=$1 status=$2 line=$3 rc=0 last
	local -a programs=()

	shift 3
	for last in "$@"; do
		programs+=("$WORK/$last")
	done
	OUT=$WORK/out HPCC_CHECK_TIMEOUT=${LIMIT_S:-60} "$CHECK" "${programs[@]}" > "$WORK/log" 2>&1 || rc=$?
	last=$(tail -n 1 "$WORK/log")
	verdict "$name" "status $status and \"$line\"" "status $rc and \"$last\""
}

# shown NAME LINES: compare the lines below the program's line on the screen of the last expect
shown()
{
	local name=$1 want=$2 got

	got=$(sed -n '2,/complete output/p' "$WORK/log" | sed '$d;s/^ *//' | paste -sd '|')
	verdict "$name" "$want" "$got"
}

# ended NAME WHY: compare the limit that ended the program of the last expect
ended()
{
	verdict "$1" "timed out after $2" "$(grep -o -m 1 'timed out after.*' "$WORK/log")"
}

# all NAME STATUS TABLE ROW...: run scripts/check-all. TABLE has no head, and a space
# between columns.
all()
{
	local name=$1 status=$2 table=$3 rc=0 got

	shift 3
	mkdir -p "$WORK/scripts"
	cp "$(dirname "$CHECK")/check-all" "$WORK/scripts"
	cat > "$WORK/scripts/check" <<- 'END'
		#!/bin/bash
		case "$* $HPCC_KERNEL" in
		"vm proc sysctl 7.2") echo "4 passed, 0 failed" ;;
		"vm 6.12") echo "3 passed, 1 failed"; exit 1 ;;
		"net 6.12") echo "Segmentation fault"; exit 139 ;;
		*) echo "5 passed, 0 failed, 2 skipped" ;;
		esac
	END
	chmod 755 "$WORK/scripts/check"
	OUT=$WORK/out "$WORK/scripts/check-all" "$@" > "$WORK/log" 2>&1 || rc=$?
	got=$(sed -n '/^row /,$p' "$WORK/log" | tail -n +2 | tr -s ' ')
	verdict "check-all: $name" "status $status and: ${table//$'\n'/, }" "status $rc and: ${got//$'\n'/, }"
}

# machine NAME STATUS LAST-LINE SCRIPT...: run "check vm SCRIPT..." with a fake machine
machine()
{
	local name=$1 status=$2 line=$3 rc=0 last tree=$WORK/tree

	shift 3
	rm -rf "$tree"
	mkdir -p "$tree"/scripts/{vm,uml} "$tree/selftests/net"
	cp "$CHECK" "$(dirname "$CHECK")/limit.py" "$tree/scripts"
	printf '#!/bin/sh\necho %s\n' "$tree" | tee "$tree/scripts/vm/kernel.sh" > "$tree/scripts/uml/modules.sh"
	cat > "$tree/scripts/vm/test.sh" <<- 'END'
		#!/bin/bash
		for script; do
			echo "# script $script"
			name=${script##*/}
			set -- ${KTAP_ONLY:-test_a test_b}
			printf '%s\n' "KTAP version 1" "1..$#"
			nr=0
			for test; do
				nr=$((nr + 1))
				case $name$test$KTAP_ONLY in
				flaky.shtest_b|broken.shtest_b*) echo "not ok $nr - ${test#test_}" ;;
				*) echo "ok $nr - ${test#test_}" ;;
				esac
			done
			[ "$name" != splat.sh ] || echo "WARNING: CPU: 0 PID: 1 at net/x.c:1"
			echo "# status 0"
		done
	END
	for last; do
		: > "$tree/selftests/net/$last.sh"
	done
	chmod 755 "$tree"/scripts/*/*.sh "$tree"/selftests/net/*.sh
	OUT=$WORK/out "$tree/scripts/check" vm "$@" > "$WORK/log" 2>&1 || rc=$?
	last=$(tail -n 2 "$WORK/log" | grep -v '^ ' | paste -sd '|')
	verdict "machine: $name" "status $status and \"$line\"" "status $rc and \"$last\""
}

# coverage NAME STATUS ROW: run "coverage STATUS" with a fake check, which has two scripts and exits
# with STATUS. Each script runs one of the two branches of kmod/x.c. ROW is its row of the table. The
# fake gcovr reports a file only if all of its lines ran.
coverage()
{
	local tree=$WORK/coverage rc=0 got

	rm -rf "$tree"
	mkdir -p "$tree"/{bin,scripts/uml,src/kmod}
	cp "$(dirname "$CHECK")/coverage" "$tree/scripts"
	printf '%s\n' 'int main(int n, char **v)' '{' 'if (n > 1)' 'return 0;' 'return n == 3;' '}' > "$tree/src/kmod/x.c"
	(cd "$tree/src/kmod" && gcc --coverage -c x.c && gcc --coverage -o x x.o)
	printf '#!/bin/sh\necho %s\n' "$tree" | tee "$tree/scripts/uml/build.sh" > "$tree/scripts/uml/modules.sh"
	cat > "$tree/scripts/check" <<- 'END'
		#!/bin/bash
		export GCOV_PREFIX GCOV_PREFIX_STRIP
		GCOV_PREFIX_STRIP=$(tr -cd / <<< "$PWD/src" | wc -c)
		for GCOV_PREFIX in "$HPCC_GCOV"/{a,b}.sh; do src/kmod/x ${arg:-}; arg=1; done
		exit "$2"
	END
	cat > "$tree/bin/gcovr" <<- 'END'
		#!/bin/bash
		echo filename,line_total,line_covered,line_percent
		gcov -n "${!#}/kmod/x.gcda" | sed -n '2s/^Lines executed:100.00% of \(.*\)/kmod\/x.c,\1,\1/p'
	END
	chmod 755 "$tree"/bin/* "$tree"/scripts/{check,uml/*}
	OUT=$tree/out PATH=$tree/bin:$PATH "$tree/scripts/coverage" "$2" > "$WORK/log" 2>&1 || rc=$?
	got=$(sed -n 's,^kmod/x.c *,,p' "$WORK/log" | tr -s ' ')
	verdict "coverage: $1" "status $2 and: $3" "status $rc and: $got"
}

HEAD2='echo "KTAP version 1"; echo 1..2;'

main()
{
	ktap_plan 41
	producer good "$HEAD2"'echo "ok 1 - a"; echo "# note"; echo "ok 2 - b"'
	expect "all pass" 0 "2 passed, 0 failed" good
	expect "programs add up" 0 "4 passed, 0 failed" good good
	producer bad "$HEAD2"'echo "ok 1 - a"; echo "not ok 2 - b"; exit 1'
	expect "a failure counts" 1 "1 passed, 1 failed" bad
	expect "a failure after a pass" 1 "3 passed, 1 failed" good bad
	producer notes 'echo "KTAP version 1"; echo 1..3; echo "# of a"; echo "ok 1 - a"; seq -f "# b%g" 9; echo "not ok 2 - b"; echo "not ok 3 - c"; exit 1'
	expect "failures with and without notes" 1 "1 passed, 2 failed" notes
	shown "each failure is shown with its last notes" \
		"not ok 2 - b|# b4|# b5|# b6|# b7|# b8|# b9|not ok 3 - c"
	producer quiet_bad "$HEAD2"'echo "ok 1 - a"; echo "not ok 2 - b"; exit 0'
	expect "a failure with exit status 0" 1 "1 passed, 1 failed" quiet_bad
	producer skip "$HEAD2"'echo "ok 1 - a"; echo "ok 2 - b # SKIP no reason"'
	expect "a skipped test has not passed" 0 "1 passed, 0 failed, 1 skipped" skip
	producer short "$HEAD2"'echo "ok 1 - a"'
	expect "a result is missing" 1 "1 passed, 1 failed" short
	producer crash "$HEAD2"'echo "ok 1 - a"; kill -SEGV $$'
	expect "a crash" 1 "1 passed, 1 failed" crash
	producer late_crash "$HEAD2"'echo "ok 1 - a"; echo "ok 2 - b"; kill -SEGV $$'
	expect "a crash after the last result" 1 "2 passed, 1 failed" late_crash
	producer silent 'exit 0'
	expect "no output" 1 "0 passed, 1 failed" silent
	producer noplan 'echo "KTAP version 1"; echo "ok 1 - a"'
	expect "no plan" 1 "1 passed, 1 failed" noplan
	producer beyond "$HEAD2"'seq -f "ok %g - x" 3'
	expect "more than planned" 1 "2 passed, 1 failed" beyond
	producer gap 'echo "KTAP version 1"; echo 1..3; echo "ok 1 - a"; echo "ok 3 - c"'
	expect "a missing number" 1 "1 passed, 1 failed" gap
	producer bail "$HEAD2"'echo "ok 1 - a"; echo "Bail out! no network"'
	expect "bail out" 1 "1 passed, 2 failed" bail
	producer all_skipped 'echo "KTAP version 1"; echo "1..0 # SKIP no such kernel"; exit 4'
	expect "all tests are skipped" 1 "0 passed, 0 failed, 1 skipped" all_skipped
	expect "all tests of one program are skipped" 0 "2 passed, 0 failed, 1 skipped" all_skipped good
	producer splat "$HEAD2"'echo "ok 1 - a"; echo "WARNING: CPU: 0 PID: 1 at net/x.c:1"; echo "ok 2 - b"'
	expect "an error report of the kernel" 1 "2 passed, 1 failed" splat
	producer two 'for i in 1 2; do echo "KTAP version 1"; echo 1..1; echo "ok 1 - a"; done'
	expect "two documents" 0 "2 passed, 0 failed" two
	producer nested "$HEAD2"'echo "    KTAP version 1"; echo "    1..1"; echo "    not ok 1 - in"; echo "not ok 1 - a"; echo "ok 2 - b"; exit 1'
	expect "nested results count once" 1 "1 passed, 1 failed" nested
	producer hangs "$HEAD2"'echo "ok 1 - a"; sleep 60'
	LIMIT_S=1 expect "a hang" 1 "1 passed, 2 failed" hangs
	ended "a hang ends by real time" "6 s, of which less than 1 s CPU time"

	HPCC_HANG_S=2 expect "a hang far from the limit" 1 "1 passed, 2 failed" hangs
	ended "a hang ends when no CPU time is used" "2 s with less than 0.0033 s of CPU time: it hangs"
	producer slow "$HEAD2"'echo "ok 1 - a"; timeout 4 bash -c "while :; do :; done"; echo "ok 2 - b"'
	HPCC_HANG_S=3 expect "a program that uses CPU time does not hang" 0 "2 passed, 0 failed" slow
	HPCC_HANG_S=1 "$(dirname "$CHECK")/limit.py" 60 sleep 60 2> "$WORK/log"
	verdict "limit.py ends a hang" "124 limit: timed out after 1 s with less than 0.0017 s of CPU time: it hangs" "$? $(cat "$WORK/log")"
	producer burns "$HEAD2"'echo "ok 1 - a"; bash -c "while :; do :; done"'
	LIMIT_S=2 expect "too much CPU time" 1 "1 passed, 2 failed" burns
	ended "CPU time of a child counts" "2 s of CPU time"
	producer waits "$HEAD2"'echo "ok 1 - a"; sleep 3; echo "ok 2 - b"'
	LIMIT_S=1 expect "the limit does not limit real time" 0 "2 passed, 0 failed" waits

	all "rows that pass" 0 $'debug 5 0 2 0\nvm-7.2 5 0 2 0' debug vm-7.2
	all "a row that fails, one that crashes" 1 \
		$'vm-6.12 3 1 0 0\numl-6.12 0 1 0 0\nicount 5 0 2 0' vm-6.12 uml-6.12 icount
	ONLY="proc sysctl" all "some scripts of a row" 0 $'vm-7.2 4 0 0 0\nicount 5 0 2 0' vm-7.2 icount
	all "an unknown row" 2 "" debug vm-6.2

	machine "all pass" 0 "4 passed, 0 failed" good fine
	machine "a second attempt is reported" 0 \
		"passed at the second attempt only: vm/flaky: b|4 passed, 0 failed" good flaky
	machine "a test that fails twice has failed" 1 "3 passed, 1 failed" good broken
	machine "no second attempt after an error report of the kernel" 1 "5 passed, 2 failed" good flaky splat

	coverage "the counters of two scripts" 0 "4 4 100.0"
	coverage "a script that fails" 1 "4 4 100.0"
	coverage "an unknown script" 2 ""

	ktap_exit
}

main
