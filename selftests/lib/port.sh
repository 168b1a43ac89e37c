# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For scripts that test the qdisc hpcc at tx's end of the cable that "links" of
# net.sh makes; sourced after net.sh.

add() { tc -n tx qdisc add dev v0 root handle 1: hpcc "$@"; }
change() { tc -n tx qdisc change dev v0 root handle 1: hpcc "$@"; }
# refcnt is one more than the device has queues: those of a veth are as many as CPUs.
show() { tc -n tx qdisc show dev v0 root | sed 's/ refcnt [0-9]*//'; }

# json EXPRESSION: of q, the qdisc hpcc as tc -s -j shows it.
json()
{
	tc -n tx -s -j qdisc show dev v0 | python3 -c '
import json, sys
q = [q for q in json.load(sys.stdin) if q["kind"] == "hpcc"][0]
print(eval(sys.argv[1]))' "$1"
}
