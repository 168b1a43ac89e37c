# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# To be sourced without arguments, by tests that run as a whole: nobody shall take
# them for having run the tests that he named. Options are the test's own.
case ${1:-} in
''|-*) ;;
*)
	printf '%s\n' "KTAP version 1" "Bail out! ${0##*/} takes no names of tests, but was given \"$*\""
	exit 2
	;;
esac
