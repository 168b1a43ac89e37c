#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# hpcc-replay with golden traces, and with traces that it must reject.
#
# usage: run.sh [TRACE.csv|TRACE.csv.xz]...	default: all files in traces/
#
# The tests also edit row 40 or line 7 of the first trace, so this trace must have one hop.
#
# shellcheck disable=SC2016	# sed and awk programs, nothing to expand

HERE=$(dirname "$(readlink -f "$0")")
readonly HERE
readonly REPLAY=${HPCC_REPLAY:-$HERE/../../tools/hpcc-replay}

# shellcheck source=selftests/lib/ktap.sh
. "$HERE/../lib/ktap.sh"

# expect NAME STATUS PATTERN ARG...: run hpcc-replay, and compare its exit status and output.
expect()
{
	local name=$1 status=$2 pattern=$3 out got
	shift 3

	out=$("$REPLAY" "$@" 2>&1)
	got=$?
	((got == status)) && grep -Eq -- "$pattern" <<< "$out"
	ktap_result $? "$name" "exit $got, not $status, or no match of $pattern:"$'\n'"$out"
}

# rejects NAME PATTERN SED: hpcc-replay rejects the edited trace, with one line of output.
rejects()
{
	local name=$1 pattern=$2 edit=$3 out got

	sed "$edit" "$GOOD" > "$TMP/bad.csv"
	out=$("$REPLAY" "$TMP/bad.csv" 2>&1)
	got=$?
	((got == 2)) && [[ $(wc -l <<< "$out") == 1 ]] && grep -Eq -- "$pattern" <<< "$out"
	ktap_result $? "rejects: $name" "exit $got: $out"
}

# differs NAME AWK: change a field in row 40 of the trace; hpcc-replay must find a difference.
differs()
{
	local name=$1 edit=$2

	awk -F, -v OFS=, "NR == 40 { $edit } { print }" "$GOOD" > "$TMP/off.csv"
	if cmp -s "$GOOD" "$TMP/off.csv"; then
		ktap_result 1 "finds: $name" "the edit changed nothing"
	else
		expect "finds: $name" 1 "^off dU=" "$TMP/off.csv"
	fi
}

rejections()
{
	rejects "empty file" ':?.*does not begin with' 'd'
	rejects "wrong first line" 'bad.csv:1: does not begin' '1s/1$/2/'
	rejects "no line after the first line" 'no line of parameters' '2,$d'
	rejects "no parameters" 'bad.csv:2: no line of parameters' '2d'
	rejects "parameter missing" 'bad.csv:2: parameter w_ai is missing' '2s/ w_ai=[^ ]*//'
	rejects "parameter not a number" 'bad.csv:2: eta is "x"' '2s/eta=[^ ]*/eta=x/'
	rejects "eta above 1" 'bad.csv:2: eta is "1.5"' '2s/eta=[^ ]*/eta=1.5/'
	rejects "T of 0" 'bad.csv:2: T_ns is "0"' '2s/T_ns=[^ ]*/T_ns=0/'
	rejects "w_min above w_max" 'bad.csv:2: w_min is' '2s/w_min=[^ ]*/w_min=1e9/'
	rejects "no line after the parameters" 'no line of column names' '3,$d'
	rejects "column missing" 'bad.csv:3: column 5 is not h0_ts_ns' '3s/h0_ts_ns,//'
	rejects "last column missing" 'bad.csv:3: column 12 is not last_' \
		'3s/,last_update_seq//'
	rejects "column too many" 'bad.csv:3: 13 columns, not 12' '3s/$/,more/'
	rejects "columns of no hop" 'bad.csv:3: columns for 0 hops' '3s/h0/g0/g'
	rejects "no rows" 'no rows' '4,$d'
	rejects "field missing" 'bad.csv:7: 11 columns, not 12' '7s/,[^,]*$//'
	rejects "field too many" 'bad.csv:7: 13 columns, not 12' '7s/$/,1/'
	rejects "more fields than the maximum" 'bad.csv:7: more than' \
		'7s/$/,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,/'
	rejects "more hops than columns" 'bad.csv:7: nhop is 2' '7s/^\([^,]*,[^,]*\),1,/\1,2,/'
	rejects "not a number" 'bad.csv:7: ack_seq is "x"' '7s/^[^,]*/x/'
	rejects "negative number" 'bad.csv:7: ack_seq is "-4"' '7s/^[^,]*/-4/'
	rejects "number beyond 32 bits" 'bad.csv:7: ack_seq is "4294967296"' '7s/^[^,]*/4294967296/'
	rejects "B of 0" 'bad.csv:7: h0_bps is 0' '7s/,1,100000000000,/,1,0,/'
	rejects "empty field" 'bad.csv:7: last_update_seq is ""' '7s/[^,]*$//'
	rejects "U not a number" 'bad.csv:7: U is "nan"' '7s/,[^,]*\(\(,[^,]*\)\{4\}\)$/,nan\1/'
	rejects "binary data" 'bad.csv:7: binary data' '7s/,/\x00/'
	expect "rejects: missing file" 2 'not-there.csv: No such' "$TMP/not-there.csv"
	expect "rejects: directory" 2 "$TMP: " "$TMP"
	expect "rejects: no file given" 2 'no FILE given'
	expect "rejects: unknown option" 2 'unrecognized option' --nonsense "$GOOD"
	expect "rejects: limit not a number" 2 '--max-du is "x"' --max-du x "$GOOD"
	expect "rejects: negative limit" 2 '--max-dw is "-1"' --max-dw=-1 "$GOOD"
}

differences()
{
	differs "W off by 60 bytes" '$9 -= 60'
	differs "Wc off by 60 bytes" '$10 -= 60'
	differs "another inc_stage" '$11 = ($11 + 1) % 5'
	differs "another last_update_seq" '$12 += 1'
	differs "other txBytes" '$6 += 2000'
	differs "U off by 2e-4" '$8 += 0.0002'
	mv "$TMP/off.csv" "$TMP/u.csv"
	expect "limit: U off by 2e-4 within --max-du 1e-3" 0 "^u dU=2.0e-04" \
		--max-du 1e-3 "$TMP/u.csv"
	expect "one trace beyond the limits, one good trace" 1 "^u dU=" "$GOOD" "$TMP/u.csv"
	expect "an unusable trace, and a trace beyond the limits" 2 "^u dU=" "$TMP/not-there.csv" "$TMP/u.csv"
}

# The limits of the precision test are much stricter than the default limits of hpcc-replay. The
# integer arithmetic meets them, so the test detects a loss of precision.
all()
{
	local trace name

	for trace in "$@"; do
		name=$(basename "$trace" .csv)
		expect "trace: $name" 0 "^$name dU=[0-9.]+e[-+][0-9]+ dW=[0-9.]+e[-+][0-9]+\$" "$trace"
	done
	expect "precision: dU <= 1e-7, dW <= 1e-6" 0 "" --max-du 1e-7 --max-dw 1e-6 "$@"
	differences
	rejections
}

main()
{
	local traces=("$@") trace plain=()

	[[ -x $REPLAY ]] || ktap_skip_all "$REPLAY is not built"
	TMP=$(mktemp -d) || exit 1
	trap 'rm -rf "$TMP"' EXIT

	((${#traces[@]})) || traces=("$HERE"/traces/*.csv.xz)
	for trace in "${traces[@]}"; do
		if [[ $trace == *.xz ]]; then
			plain+=("$TMP/$(basename "$trace" .xz)")
			xz -dc "$trace" > "${plain[-1]}" || exit 1
		else
			plain+=("$trace")
		fi
	done
	GOOD=${plain[0]}

	all "${plain[@]}" > "$TMP/results"
	ktap_plan "$KTAP_NR"
	cat "$TMP/results"
	ktap_exit
}

main "$@"
