#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Names of tests as arguments of a test program: the program runs the named tests in this
# order. If a test does not exist, it prints a list of all tests and ends with status 2.

TOP=$(dirname "$(readlink -f "$0")")/../..
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
work_dir

# expect_output STATUS WORDS COMMAND...: compare the status of COMMAND, and the lines of its
# output joined by "|"
expect_output()
{
	local status=$1 words=$2 out rc=0

	shift 2
	out=$("$@" 2>&1) || rc=$?
	out=${out//$'\n'/|}
	echo "$rc: $out"
	[ "$rc" = "$status" ] && [ "$out" = "$words" ]
}

shell()
{
	local none="KTAP version 1|Bail out! no test c; there are a b"

	printf '. "%s/selftests/lib/ktap.sh"\ntest_b() { :; }\ntest_a() { :; }\nktap_main\n' "$TOP" > "$WORK/shell.sh"
	expect_output 0 "KTAP version 1|1..2|ok 1 - b|ok 2 - a" bash "$WORK/shell.sh" || return
	printf '. "%s/selftests/lib/ktap.sh"\ntest_a() { :; }\ntest_b() { :; }\nktap_main test_a test_b\n' \
		"$TOP" > "$WORK/shell.sh"
	expect_output 0 "KTAP version 1|1..2|ok 1 - a|ok 2 - b" bash "$WORK/shell.sh" &&
		expect_output 0 "KTAP version 1|1..1|ok 1 - b" bash "$WORK/shell.sh" b &&
		expect_output 0 "KTAP version 1|1..2|ok 1 - b|ok 2 - a" bash "$WORK/shell.sh" test_b a &&
		expect_output 0 "KTAP version 1|1..2|ok 1 - a|ok 2 - b" env KTAP_ONLY=$'a\n  test_b' bash "$WORK/shell.sh" &&
		expect_output 2 "$none" bash "$WORK/shell.sh" a c &&
		expect_output 2 "$none" env KTAP_ONLY=c bash "$WORK/shell.sh"
}

# Print the tests that main() of ktap.py would run.
python()
{
	local none="KTAP version 1|Bail out! no test c; there are a b"
	local -x PYTHONPATH=$TOP/selftests

	cat > "$WORK/python.py" <<- END
		import sys
		from lib import ktap

		def test_a(): pass
		def test_b(): pass

		ktap.prepare = lambda modules, commands: None
		ktap.run = lambda tests: print(*(test.__name__ for test in tests))
		ktap.main(sys.modules["__main__"])
	END
	expect_output 0 "test_a test_b" python3 -B "$WORK/python.py" &&
		expect_output 0 "test_b" python3 -B "$WORK/python.py" b &&
		expect_output 0 "test_b test_a" env KTAP_ONLY="test_b a" python3 -B "$WORK/python.py" &&
		expect_output 2 "$none" python3 -B "$WORK/python.py" b c &&
		expect_output 2 "$none" env KTAP_ONLY=c python3 -B "$WORK/python.py"
}

lab()
{
	local out rc=0

	out=$("$TOP/selftests/lab/test_scenario.py" nonsense) || rc=$?
	echo "$rc: $out"
	[ "$rc" = 2 ] && grep -q '^Bail out! no test nonsense; there are .*Units__values' <<< "$out" &&
		expect_output 0 "KTAP version 1|1..1|ok 1 - Units__values" "$TOP/selftests/lab/test_scenario.py" Units__values
}

check()
{
	export OUT=$WORK
	expect_output 2 "check: no layer nonsense; there are unit, replay, fuzz, scripts, lab, net, style, vm, debug" \
		"$TOP/scripts/check" nonsense &&
		expect_output 2 "style: The style check that Documentation/testing.rst describes.|check: style has no test nonsense; there are style" \
			"$TOP/scripts/check" style nonsense
}

# Programs that cannot run single tests refuse names of tests.
whole()
{
	local file

	for file in scripts/test_{build,check,kselftest,names,neutral,style,user,vm} debug/bugs vm/icount; do
		expect_output 2 "KTAP version 1|Bail out! ${file##*/}.sh takes no names of tests, but was given \"a b\"" \
			"$TOP/selftests/$file.sh" a b || return 1
	done
}

main()
{
	ktap_plan 5
	ok "shell" shell
	ok "python" python
	ok "test_scenario.py" lab
	ok "scripts/check" check
	ok "tests that run as a whole" whole
	ktap_exit
}

main
