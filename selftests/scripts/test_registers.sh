#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# scripts/uml/patches: a process of the guest keeps its registers over system calls,
# signals, forks, page faults and switches between its threads.

TOP=$(dirname "$(readlink -f "$0")")/../..
# shellcheck source=selftests/lib/ktap.sh
. "$TOP/selftests/lib/ktap.sh"
ktap_whole "$@"
work_dir

registers()
{
	cc -Wall -Werror -O2 -static -pthread -o "$WORK/registers" "$TOP/selftests/scripts/registers.c" &&
		"$TOP/scripts/uml/run.sh" --bare --ro "$WORK" --at /tmp/test --dir /tmp/test ./registers
}

main()
{
	ktap_plan 1
	ok "registers" registers
	ktap_exit
}

main
