# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For scripts that print KTAP; to be sourced without arguments. There are two kinds of scripts. A
# script of the first kind defines functions test_*, and ends with
#
#	ktap_main [test_one test_two ...]	run the named tests; without names, all tests
#
# Each function runs in a subshell under "set -eu": if a command fails, the test fails,
# unless the command is part of a condition. The output of a failed test is printed as
# diagnostic lines. The script's arguments, or else KTAP_ONLY="two ...", name the
# tests to run. The script's status: 0 all tests passed or were skipped, 1 a test failed,
# 2 a named test does not exist, 4 the script could not start.
#
# A script of the second kind runs as a whole:
#
#	ktap_whole "$@"		refuse names of tests; the script parses its own options
#	ktap_plan N		print the plan: N results follow
#	ok NAME CMD [ARG]...	the result of a command: passed if it succeeds, skipped
#				if its status is 4
#	ktap_result STATUS NAME [OUTPUT]	the result of a command that has ended
#	ktap_skipped N "NAME: WHY"		N tests are skipped
#	ktap_exit		end with the script's status
#
# In functions of both kinds:
#
#	skip WHY		end as skipped
#	fail WHY		end as failed
#	expect WHAT GOT WANT	fail unless GOT is WANT
#	refused WANT CMD...	fail unless CMD fails and prints WANT (a substring)
#	busywait S CMD...	run CMD until it succeeds, at most S seconds
#	defer CMD...		with ktap_main: run CMD when the test ends, last one first
#	our_modules		print the names of our modules, each after the modules that it needs
#	work_dir		set WORK to a directory, which is removed at the end of the script

# Because this file is sourced without arguments, "$*" has the arguments of the script.
# shellcheck disable=SC2206 # a list
KTAP_NAMES=(${*:-${KTAP_ONLY:-}})
KTAP_NR=0
KTAP_FAILED=0

ktap_plan()
{
	echo "KTAP version 1"
	echo "1..$1"
}

# End the script because of a wrong name of a test.
ktap_bail()
{
	printf '%s\n' "KTAP version 1" "Bail out! $*"
	exit 2
}

ktap_skip_all()
{
	ktap_plan "0 # SKIP $*"
	exit 4
}

ktap_result()
{
	local status=$1 name=$2 out=${3:-}

	KTAP_NR=$((KTAP_NR + 1))
	case $status in
	0) echo "ok $KTAP_NR - $name" ;;
	4)
		out=${out##*SKIP }
		echo "ok $KTAP_NR - $name # SKIP ${out%%$'\n'*}"
		;;
	*)
		[ -z "$out" ] || echo "# ${out//$'\n'/$'\n'# }"
		echo "not ok $KTAP_NR - $name"
		KTAP_FAILED=1
		;;
	esac
}

ktap_skipped()
{
	local i

	for ((i = 0; i < $1; i++)); do
		ktap_result 4 "${2%%:*}" "${2#*: }"
	done
}

ok()
{
	local name=$1 out rc=0

	shift
	out=$("$@" 2>&1) || rc=$?
	ktap_result "$rc" "$name" "${out:-exit status $rc}"
}

ktap_exit()
{
	exit "$KTAP_FAILED"
}

# Refuse names of tests: otherwise a user may think that only these tests ran.
ktap_whole()
{
	case ${1:-} in
	''|-*) return ;;
	esac
	ktap_bail "${0##*/} takes no names of tests, but was given \"$*\""
}

need_root()
{
	[ "$(id -u)" -eq 0 ] || ktap_skip_all "needs root"
}

need_command()
{
	local cmd

	for cmd; do
		command -v "$cmd" >/dev/null || ktap_skip_all "needs $cmd"
	done
}

# Whether time is virtual: virtual time stops while programs run. Times are exact only in virtual time.
virtual_time()
{
	grep -q 'time-travel=inf-cpu' /proc/cmdline
}

need_virtual_time()
{
	virtual_time || skip "times are exact in virtual time only"
}

skip()
{
	echo "SKIP $*"
	exit 4
}

fail()
{
	echo "FAIL $*"
	exit 1
}

expect()
{
	[ "$2" = "$3" ] || fail "$1: got \"$2\", wanted \"$3\""
}

refused()
{
	local want=$1 out
	shift

	if out=$("$@" 2>&1); then
		fail "accepted: $*"
	fi
	case "$out" in
	*"$want"*) ;;
	*) fail "$*: printed \"$out\", wanted \"$want\"" ;;
	esac
}

# Poll once per millisecond. In virtual time this costs almost nothing.
busywait()
{
	local deadline=$(($(date +%s%N) + $1 * 1000000000))
	shift

	until "$@"; do
		[ "$(date +%s%N)" -lt "$deadline" ] || return 1
		sleep 0.001
	done
}

# copy_tree DIR: copy all tracked and new files of the tree to DIR
copy_tree()
{
	local top file

	top=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../..")
	mkdir -p "$1"
	(cd "$top" && git -c safe.directory="$top" ls-files -co --exclude-standard) | while read -r file; do
		[ ! -e "$top/$file" ] || echo "$file"
	done | tar -C "$top" -cf - -T - | tar -C "$1" --no-same-owner -xf -
}

# as_nobody COMMAND...: run COMMAND without privileges
as_nobody()
{
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
	else
		"$@"
	fi
}

our_modules()
(
	set +u
	# shellcheck source=dkms.conf
	. "$(dirname "${BASH_SOURCE[0]}")/../../dkms.conf"
	printf '%s\n' "${BUILT_MODULE_NAME[@]}"
)

work_dir()
{
	WORK=$(mktemp -d)
	trap 'rm -rf "$WORK"' EXIT
}

_deferred=()

defer()
{
	_deferred+=("$(printf '%q ' "$@")")
}

_run_deferred()
{
	local i

	for ((i = ${#_deferred[@]} - 1; i >= 0; i--)); do
		eval "${_deferred[i]}" || true
	done
}

_run_test()
{
	trap _run_deferred EXIT
	set -eu
	"$1"
}

# The functions test_*, in the order in which the script defines them.
ktap_tests()
{
	shopt -s extdebug
	compgen -A function test_ | while read -r name; do declare -F "$name"; done | sort -n -k 2 | cut -d ' ' -f 1
}

ktap_main()
{
	local test out rc

	# shellcheck disable=SC2046 # a list
	[ $# -gt 0 ] || set -- $(ktap_tests)
	KTAP_NAMES=("${KTAP_NAMES[@]/#test_/}")
	KTAP_NAMES=("${KTAP_NAMES[@]/#/test_}")
	for test in "${KTAP_NAMES[@]}"; do
		[[ " $* " == *" $test "* ]] || ktap_bail "no test ${test#test_}; there are ${*#test_}"
	done
	[ "${#KTAP_NAMES[@]}" = 0 ] || set -- "${KTAP_NAMES[@]}"
	# Virtual time stops while programs run, so a guest reaches this line before the first tick.
	# The first tick switches the timers to high resolution: wait for this tick.
	! virtual_time || sleep 0.05
	ktap_plan "$#"
	for test; do
		out=$(_run_test "$test" 2>&1)
		rc=$?
		ktap_result "$rc" "${test#test_}" "$out"
	done
	return "$KTAP_FAILED"
}
