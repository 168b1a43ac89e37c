#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# gcov.sh DIR COMMAND [ARG]...: run COMMAND in a guest whose modules count the lines of their
# code that run (kernel.gcov.config). Then save the counters of each object that was loaded, for
# example as DIR/kmod/hpcc/main.gcda; the kernel keeps those of unloaded modules. The exit
# status is that of COMMAND.
set -u

dir=$1
shift
"$@"
status=$?
find /sys/kernel/debug/gcov -name '*.gcda' | while read -r file; do
	to=$dir/${file##*/src/}
	mkdir -p "${to%/*}"
	cat "$file" > "$to"
done
exit "$status"
