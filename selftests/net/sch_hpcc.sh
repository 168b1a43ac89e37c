#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The user interface of the qdisc "hpcc" (qdisc/main.c, queue.c, q_hpcc.c): options and defaults, text
# and JSON output, the emulated link, statistics, and hpcc as a child of other qdiscs. tdc.py tests
# the values of options that tc refuses.

# shellcheck source=selftests/lib/port.sh
. "$(dirname "$(readlink -f "$0")")/../lib/port.sh"

HERE=$(dirname "$0")

# ---- options ----

# shows OPTIONS...: compare the options that tc shows.
shows() { expect show "$(show)" "qdisc hpcc 1: root $* "; }
# stamps LIMIT NODE WORDS...: compare the options that tc shows; all other options have their defaults.
stamps()
{
	shows limit "$1" node "$2" port 0 overhead 24 delay 0ns kind 253 "${@:3}" \
	      split-gso identify on stats on marking off
}

# after CHANGE NAMES VALUES: change options, and compare options of the JSON output; - is a missing option.
after()
{
	# shellcheck disable=SC2086 # a list
	change $1
	expect "$1: $2" "$(json "' '.join(str(q['options'].get(name, '-')) for name in '$2'.split())")" "$3"
}

test_every_option()
{
	port rate 10gbit bandwidth 40gbit limit 200kb node 1048575 port 65535 \
	    overhead 38 delay 1500ns kind 254 nostamp no-split-gso identify off stats off
	shows rate 10Gbit bandwidth 40Gbit limit 204800b node 1048575 port 65535 overhead 38 delay 1500ns \
	      kind 254 nostamp no-split-gso identify off stats off marking off
	expect json "$(json 'q["options"]')" \
		"{'rate': 1250000000, 'bandwidth': 5000000000, 'limit': 204800, 'node': 1048575, 'port': 65535, 'overhead': 38, 'delay': 1500, 'kind': 254, 'stamp': False, 'split_gso': False, 'identify': False, 'stats': False, 'marking': 'off'}"
	change rate 0 bandwidth 0 node 0x10 port 0 overhead 0 delay 0 kind 253 \
	       stamp split-gso identify on stats on
	shows limit 204800b node 16 port 0 overhead 0 delay 0ns kind 253 stamp split-gso identify on stats on \
	      marking off
}

# The option "above" keeps its value if "stamp" changes; "above 0" or "nostamp" removes it.
test_above()
{
	port limit 200kb stamp above 20kb
	stamps 204800b 0 stamp above 20480b
	expect json "$(json 'q["options"]["above"], q["hpcc"]["unstamped"]["quiet"]')" "(20480, 0)"
	after "node 1" above 20480
	after "above 1b" above 1
	change above 200kb
	refused "above: has to be at most limit" change above 204801b
	refused "above: has to be at most limit" change limit 100kb
	for p in "node 1" stamp "stamp ioam" "stamp tcp,int"; do
		after "$p" above 204800
	done
	after "above 0" above -
	change above 1kb
	after nostamp above -
	change stamp above 1kb
	after nostamp "stamp above" "False -"
}

# The carriers that a port stamps: only the TCP option, unless the user selects other carriers.
test_carriers()
{
	port stamp tcp,ioam above 20kb
	stamps 1048576b 0 stamp tcp,ioam above 20480b
	after "node 1" "stamp carriers" "True ['tcp', 'ioam']"
	after "stamp ioam" "stamp carriers" "True ['ioam']"
	after "stamp tcp" "stamp carriers" "True -"
	change stamp tcp,int above 0 int_dscp 9 int_window 20us
	stamps 1048576b 1 stamp tcp,int int_dscp 9 int_window 20us
	after "node 1" "int_dscp int_window" "9 20000"
	after "stamp tcp" "int_dscp int_window" "- -"
	after "stamp int" "int_dscp int_window" "23 10000"
	change stamp tcp port 65535
	for p in ioam int tcp,int; do
		refused "port: 0 .. 65534 with stamp ioam or int" change stamp "$p"
	done
	change stamp ifa
	refused "stamp ifa: needs identify on" change identify off
	change stamp int port 65534 identify off
	refused "stamp ifa: needs identify on" change stamp tcp,ifa
	after "stamp tcp,ifa identify on" "carriers identify" "['tcp', 'ifa'] True"
	change stamp int
	refused "port: 0 .. 65534 with stamp ioam or int" change port 65535
	after "stamp int,int" carriers "['int']"
	for p in tcp,csug itn "tcp," ",tcp" tcp,,int TCP ""; do
		refused "stamp \"$p\": has to be tcp, ioam, int, ifa, csig, csig_push, or several" change stamp "$p"
	done
}

test_csig()
{
	local names="csig_tpid csig_abw csig_time int_window"

	port stamp csig,csig_push int_window 20us csig_tpid 0x9999 csig_abw 100 csig_time 1us
	stamps 1048576b 0 stamp csig,csig_push int_window 20us csig_tpid 0x9999 csig_abw 100 csig_time 1us
	after "stamp csig_push" "$names" "39321 100 1000 -"
	refused "int_window: need stamp int, strip int" change int_window 9us
	after "stamp tcp" csig_tpid -
	after "stamp csig" "$names" "34997 50 64 10000"
	ip -n tx tuntap add t0 mode tun || skip "needs tun"
	expect "no Ethernet" "$(tc -n tx qdisc add dev t0 root hpcc stamp csig 2>&1 | grep -c 'need a device with Ethernet headers')" 1
}

# A change of stamp keeps respond and every; respond 0 and nostamp end responses and reset every.
test_respond()
{
	port limit 200kb respond 20kb
	stamps 204800b 0 stamp respond 20480b every 10us
	expect statistics "$(json '[q["hpcc"]["responses" + name] for name in ("", "_held", "_lost", "_failed")]')" \
		"[0, 0, 0, 0]"
	expect every "$(json 'q["options"]["every"]')" 10000
	after "every 1500ns" "respond every" "20480 1500"
	after "node 1" "respond every" "20480 1500"
	change respond 200kb
	refused "respond: has to be at most limit" change respond 204801b
	refused "respond: has to be at most limit" change limit 100kb
	after "node 1" respond 204800
	after "respond 0" "respond every" "- -"
	after "stamp respond 1b" every 10000
	change every 1s
	for p in stamp "stamp tcp,ioam" "stamp tcp"; do
		after "$p" "respond every" "1 1000000000"
	done
	after nostamp "stamp respond" "False -"
}

# tc accepts the options that it shows.
test_show_is_input()
{
	port rate 25gbit limit 300000b node 3 port 4 delay 20us stamp above 3000b respond 5000b every 7us
	add_again
}

test_kernel_refuses()
{
	local cases got i

	links
	# Each case: attributes by their numbers (TCA_HPCC_*), the error, and the number of the
	# attribute that the error names.
	cases=("1=u64:1250000000001 ERANGE 1" "1=u64:124 ERANGE 1 rate: 1 kbit/s" "1=u32:125000 EINVAL 1"
	       "1=raw: EINVAL 1" "2=u64:1250000000001 ERANGE 2" "2=u64:124 ERANGE 2"
	       "2=u16:1 EINVAL 2" "3=u32:0 ERANGE 3" "3=u32:1537 ERANGE 3" "3=u16:9999 EINVAL 3"
	       "10=u8:0,3=u32:65719 ERANGE 3" "4=u32:1048576 ERANGE 4" "4=u16:1 EINVAL 4"
	       "5=u32:65536 ERANGE 5" "5=u64:1 EINVAL 5" "6=u32:257 ERANGE 6" "6=u8:1 EINVAL 6"
	       "7=u32:1000000001 ERANGE 7" "7=u64:1 EINVAL 7" "8=u8:252 ERANGE 8"
	       "8=u8:255 ERANGE 8" "8=u32:253 EINVAL 8" "9=u8:64 EINVAL 9" "9=u32:1 EINVAL 9"
	       "22=u8:9 EINVAL 22" "23=u32:5000 EINVAL 23" "9=u8:4,22=u8:0 ERANGE 22"
	       "9=u8:4,22=u8:64 ERANGE 22" "9=u8:4,23=u32:999 ERANGE 23" "9=u8:4,23=u8:1 EINVAL 23"
	       "10=u8:2 ERANGE 10" "10=raw: EINVAL 10" "11=u32:0 EINVAL 11" "19=u32:0 EINVAL 19"
	       "18=u8:1 EINVAL 18" "18=u32:1048577 ERANGE 18" "9=u8:0,18=u32:1 EINVAL 18"
	       "3=u32:5000,18=u32:5001 ERANGE 18" "20=u8:1 EINVAL 20" "20=u32:1048577 ERANGE 20"
	       "9=u8:0,20=u32:1 EINVAL 20" "3=u32:5000,20=u32:5001 ERANGE 20"
	       "20=u32:1,21=u32:999 ERANGE 21" "20=u32:1,21=u32:1000000001 ERANGE 21"
	       "20=u32:1,21=u8:1 EINVAL 21" "21=u32:5000 EINVAL 21"
	       "20=u32:0,21=u32:5000 EINVAL 21" "17=u8:2 ERANGE 17" "17=u32:1 EINVAL 17"
	       "17=raw: EINVAL 17" "12=u8:2 ERANGE 12" "12=u32:1 EINVAL 12"
	       "12=u8:1,13=u8:1 EINVAL 13" "12=u8:1,14=u64:1 EINVAL 14"
	       "12=u8:1,15=u32:1000001 ERANGE 15" "12=u8:1,15=u8:1 EINVAL 15"
	       "12=u8:1,16=u16:1 EINVAL 16" "13=u32:1 EINVAL 13" "14=u32:1 EINVAL 14"
	       "15=u32:1 EINVAL 15" "12=u8:0,16=u32:1 EINVAL 16"
	       "12=u8:1,13=u32:50001,14=u32:50000 ERANGE 13" "12=u8:1,14=u32:1048577 ERANGE 14"
	       "3=u32:5000,12=u8:1,14=u32:5001 ERANGE 14" "12=u8:1,16=u32:1048577 ERANGE 16"
	       "12=u8:1,13=u32:1048577 ERANGE 13" "1=u64:125000,12=u8:1,13=u32:24609 ERANGE 13"
	       "4=u32:5,5=u32:65536 ERANGE 5")
	mapfile -t got <<<"$(ip netns exec tx "$HERE/../lib/qdisc.py" v0 "${cases[@]%% *}")"
	for i in "${!cases[@]}"; do
		[[ ${got[i]:-nothing} == "${cases[i]#* } "?* ]] || fail "${cases[i]}: got ${got[i]:-nothing}"
	done
	expect "qdiscs left" "$(tc -n tx qdisc show dev v0 | grep -c hpcc)" 0
}

test_kernel_accepts_edges()
{
	local got

	links
	got=$(ip netns exec tx "$HERE/../lib/qdisc.py" v0 1=u64:1250000000000 1=u64:125 \
		1=u64:0 2=u64:1250000000000 2=u64:0 3=u32:4294967295 3=u32:1538 \
		10=u8:0,3=u32:65720 10=u8:1 4=u32:0 4=u32:1048575 5=u32:65535 5=u32:65534 \
		6=u32:0 6=u32:256 7=u32:1000000000 7=u32:0 8=u8:254 9=u8:0 9=u8:3 \
		12=u8:0 12=u8:1,13=u32:4000,14=u32:4000 \
		14=u32:4294967295,3=u32:4294967295 16=u32:4294967295 \
		13=u32:4294967295 15=u32:1000000 15=u32:0 13=u32:0,14=u32:0,16=u32:0 \
		17=u8:0 17=u8:1 9=u8:1,18=u32:1 18=u32:4294967295 18=u32:0 \
		20=u32:4294967295 21=u32:1000 21=u32:1000000000 20=u32:0)
	expect "accepted" "$(grep -c '^ok$' <<<"$got")" 37
}

# ---- the link ----

test_rate()
{
	local rate

	need_virtual_time
	port limit 1mb
	for rate in 125000000 12500000000 50000000000 33333333; do
		change rate "$((rate * 8))bit"
		pass 60
		spaced "$WIRE" "$rate"
	done
	expect resyncs "$(json 'q["hpcc"]["resyncs"]')" 0
}

test_overhead() { need_virtual_time; port rate 1gbit overhead 200; burst 20; spaced "$((SIZE + 200))" 125000000; }

# Timers of a real host fire late, but the average rate is correct.
test_rate_on_average()
{
	local took want

	port rate 100mbit
	pass 600
	took=$((TIME[599] - TIME[0]))
	want=$((599 * WIRE * 80))
	# A busy machine may send late, but never early.
	((took >= want * 99 / 100 - 1000000)) || fail "took $took ns, wanted $want"
	! virtual_time || ((took <= want * 105 / 100 + 1000000)) || fail "took $took ns, wanted $want"
}

# arrivals: set FIRST and SECOND to the times from the ts of the first of two frames to
# the arrivals of both. They contain the constant that the port adds to ts, which a
# change of the qdisc does not change.
arrivals()
{
	local out

	out=$("$HERE/frames/queue.py" tx:v0 rx:v0 latency) || fail "$out"
	read -r FIRST SECOND <<<"$out"
}

# since FROM TO: print the time from FROM to TO, both modulo 2^20.
since() { echo $((($2 - $1) & 1048575)); }

test_delay()
{
	local first second

	need_virtual_time
	port rate 1gbit
	arrivals
	expect "second" "$(since "$FIRST" "$SECOND")" $((1024 * 8))
	first=$FIRST second=$SECOND
	change delay 123456ns
	arrivals
	expect "delay of the first frame" "$(since "$first" "$FIRST")" 123456
	expect "delay of the second frame" "$(since "$second" "$SECOND")" 123456
	change delay 0 rate 500mbit
	arrivals
	expect "first frame at half the rate" "$(since "$first" "$FIRST")" $((1024 * 8))
}

test_delay_without_rate()
{
	local first arrival

	need_virtual_time
	port
	arrivals
	first=$FIRST
	change delay 1ms
	arrivals
	# Without delay the sender's process has read the clock, which takes 1 ns.
	for arrival in "$FIRST" "$SECOND"; do
		[ $(($(since "$first" "$arrival") / 10)) = 100000 ] || fail "$arrival"
	done
}

test_limit()
{
	links
	# One packet starts at once, ten packets wait.
	add rate 1mbit limit "$((10 * WIRE))b"
	burst 30
	in_order
	expect arrived "${#SEQ[@]}" 11
	expect last "${SEQ[10]}" 10
	expect drop_limit "$(json 'q["hpcc"]["drop_limit"]')" 19
	expect drops "$(json 'q["drops"]')" 19
}

# Without a rate the limit applies to the packets in the propagation delay.
test_limit_without_rate()
{
	port delay 20ms limit "$((10 * WIRE + 1023))b"
	burst 30
	expect arrived "${#SEQ[@]}" 10
	expect drop_limit "$(json 'q["hpcc"]["drop_limit"]')" 20
}

# Packets in flight are not part of the queue, but a fast link with a long delay holds many packets,
# and a small packet uses more memory than its length.
test_memory()
{
	local size held

	links
	small_memory
	for size in 60 1000; do
		add rate 10tbit delay 300ms limit 2mb
		SIZE=$size burst 1500
		in_order
		held=$((1500 - $(json 'q["hpcc"]["drop_limit"]')))
		# A packet uses at least 512 bytes in addition to its data.
		((held <= (1 << 20) / (512 + size))) || fail "held $held packets of $size bytes in 1 MB"
		((held >= (1 << 20) / 4096)) || fail "held $held only"
		tc -n tx qdisc del dev v0 root
	done
	memory_max 2
	add rate 10tbit delay 300ms limit 2mb
	burst 600
	expect "dropped of 600 in 2 MB" "$(json 'q["hpcc"]["drop_limit"]')" 0
}

test_memory_is_given_back()
{
	local i

	links
	add rate 1gbit limit 1mb
	small_memory
	for i in 1 2; do
		pass 300
	done
	change rate 10kbit
	while_queued 300 bash -c "ip link set v0 down; ip link set v0 up"
	change rate 0
	pass 300
	"$HERE/frames/stamp.py" tx:v0 rx:v0 gso whole || fail "GSO"
}

test_memory_range()
{
	local value

	small_memory
	for value in 0 65537 -1 much ""; do
		! memory_max "$value" || fail "accepted $value MB"
	done
	memory_max 65536
	expect "memory_max_mb" "$(cat "$MEMORY")" 65536
}

test_histogram()
{
	local out p50

	need_virtual_time
	port rate 1gbit
	# The queue is empty after each packet of the warm-up and after the first packet of
	# the burst. After the other packets it contains 98 .. 0 packets.
	burst 100
	out=$(json '(lambda h, n: [
		sum(b["packets"] for b in h["hist"]) == n,
		h["tx_bytes"] - 84 * (n - 100),
		h["qlen_max"],
		48 * 1024 <= h["qlen_p50"] <= 50 * 1024 * 9 // 8,
		97 * 1024 <= h["qlen_p99"] <= 98 * 1024,
		[b["packets"] for b in h["hist"] if b["bytes"] == 63] == [n - 98],
		])(q["hpcc"], q["hpcc"]["tx_packets"])')
	expect "packets, bytes, max, p50, p99, empty" "$out" \
		"[True, $((100 * WIRE)), $((98 * WIRE)), True, True, True]"
	# The text output has the same value.
	p50=$(json 'q["hpcc"]["qlen_p50"]')
	tc -n tx -s qdisc show dev v0 root | grep -q " p50 ${p50}b " || fail "text differs"
}

# known PACKETS BURST PERCENT...: print the upper bound of the histogram bucket that contains each
# percentile of the queue length. The percentiles exclude the first PACKETS packets. BURST packets
# arrived as one burst. After the departure of a packet that was not in the burst, the queue was empty.
known()
{
	json 'q["hpcc"]["tx_packets"]' | python3 -c '
import sys
before, burst = map(int, sys.argv[1:3])
count = int(sys.stdin.read()) - before
left = [0] * (count - burst + 1) + [1024 * k for k in range(burst - 1)]
ranks = [-(-count * round(10 * float(percent)) // 1000) for percent in sys.argv[3:]]
units = [left[rank - 1] // 64 for rank in ranks]
shifts = [max(v.bit_length() - 4, 0) for v in units]
print(*[((v >> shift) + 1 << shift) * 64 - 1 for v, shift in zip(units, shifts)])' "$@"
}

# A few of many packets leave a long queue.
test_percentiles()
{
	local names='"p50", "p95", "p99", "p999", "max"'

	need_virtual_time
	port rate 1gbit
	queue_frames apart 1000 "$SIZE"
	burst 32
	# A bucket's bound is reduced to the longest queue, and the bound of the empty bucket is 0.
	expect percentiles "$(json "[q['hpcc']['qlen_' + name] for name in ($names)]")" \
		"$(known 0 32 50 95 99 99.9 | python3 -c '
print([min(int(v), 30720) if v != "63" else 0 for v in input().split()] + [30720])')"
	expect "p99 < p99.9 < maximum" "$(json 'q["hpcc"]["qlen_p99"] < q["hpcc"]["qlen_p999"] < q["hpcc"]["qlen_max"]')" True
	expect text "$(tc -n tx -s qdisc show dev v0 | grep -o ' p50 .*')" \
		"$(json '" p50 %db p95 %db p99 %db p99.9 %db max %db" % tuple(q["hpcc"]["qlen_" + name] for name in ('"$names"'))')"
	change limit 2mb
	expect "maximum after a change" "$(json 'q["hpcc"]["qlen_max"]')" 30720
	tc -n tx qdisc replace dev v0 root handle 2: hpcc
	expect "statistics of a replacement" "$(json 'q["hpcc"]["tx_packets"], q["hpcc"]["qlen_max"], q["hpcc"]["hist"]')" "(0, 0, [])"
}

# Percentiles of the packets between two dumps, computed as in tc-hpcc(8).
test_interval()
{
	local dir before

	need_virtual_time
	command -v jq >/dev/null || skip "needs jq"
	links
	dir=$(mktemp -d)
	defer rm -rf "$dir"
	add rate 1gbit
	burst 100
	tc -n tx -s -j qdisc show dev v0 root >"$dir/a"
	before=$(json 'q["hpcc"]["tx_packets"]')
	burst 60
	tc -n tx -s -j qdisc show dev v0 root >"$dir/b"
	sed -n "/^\\$ jq /,/'\$/p" "$HPCC_TOP/Documentation/tc-hpcc.8" |
		sed 's/^\$ //; s/\\-/-/g' >"$dir/jq"
	expect interval "$(cd "$dir" && bash jq | jq -r 'map(tostring) | join(" ")')" \
		"$(known "$before" 60 50 99 99.9)"
}

# With stats off packets are still counted, but no queue length is added to the histogram.
test_stats_off()
{
	local before

	port rate 100mbit
	burst 20
	before=$(json '[q["hpcc"][k] for k in ("hist", "qlen_max")]')
	change stats off
	burst 40
	expect "histogram, maximum" "$(json '[q["hpcc"][k] for k in ("hist", "qlen_max")]')" "$before"
	expect "packets" "$(json 'q["hpcc"]["tx_packets"] >= 60')" True
	change stats on
	burst 40
	expect "histogram or maximum changed" "$(json "[q['hpcc'][k] for k in ('hist', 'qlen_max')] != $before")" True
}

# ---- under traffic ----

test_change_under_traffic()
{
	port rate 10mbit limit 1mb delay 5ms
	changes "rate 20mbit" "rate 0" "rate 10mbit" "delay 0" "delay 20ms" "delay 1ms" "overhead 256" "overhead 0" \
		"limit 2kb" "limit 1mb" nostamp stamp no-split-gso "kind 254" "identify off" "stats off"
	expect counted "$(json 'q["hpcc"]["tx_packets"]')" 960
	! virtual_time || expect resyncs "$(json 'q["hpcc"]["resyncs"]')" 0
	expect drops "$(json 'q["drops"]')" 0
	no_backlog
}

# The parent dequeues a packet every 8 ms from a port that can send one every 8 us, so the parent
# blocks the port. The port must not make up for the blocked time. Each time it detects the block,
# it makes up for at most 1 ms, which is 123 packets.
test_catch_up()
{
	local out

	need_virtual_time
	links
	out=$(mktemp)
	defer rm -f "$out"
	tc -n tx qdisc add dev v0 root handle 9: tbf rate 1mbit burst 2kb limit 1mb
	tc -n tx qdisc add dev v0 parent 9:1 handle 1: hpcc rate 1gbit limit 1mb
	while_queued 400 bash -c "sleep 0.1; tc -s qdisc show dev v0 >$out"
	arrived 400
	expect resyncs "$(json 'q["hpcc"]["resyncs"]')" 4
	# After 100 ms the port has made up for blocked time once, not at each of a dozen dequeues.
	expect "queue after 100 ms" "$(grep -o 'queue [0-9]*b' "$out")" \
		"queue $(((400 - 4 - 123) * WIRE))b"
}

test_replace_under_traffic()
{
	port rate 10mbit limit 1mb
	while_queued 60 tc qdisc replace dev v0 root handle 1: hpcc rate 40mbit node 9
	arrived 60
	expect node "$(json 'q["options"]["node"]')" 9
}

test_del_under_traffic()
{
	links
	# A packet takes 0.4 s, because tc may be slow in real time.
	add rate 20kbit limit 1mb delay 1ms
	while_queued 60 tc qdisc del dev v0 root
	[ "${#SEQ[@]}" -lt 30 ] || fail "waiting packets were not dropped"
	add rate 1gbit
	pass 10
}

test_down_under_traffic()
{
	port rate 1mbit limit 1mb
	while_queued 60 ip link set v0 down
	ip -n tx link set v0 up
	no_backlog
	change rate 1gbit
	pass 10
}

# ---- with other qdiscs ----

# below PARENT...: send a burst and a GSO packet through hpcc as a child of PARENT.
# Afterwards the backlog of both qdiscs is 0.
below()
{
	local kind

	tc -n tx qdisc add dev v0 root handle 9: "$@"
	[ "$1" != htb ] || tc -n tx class add dev v0 parent 9: classid 9:1 htb rate 900mbit
	tc -n tx qdisc add dev v0 parent 9:1 handle 1: hpcc rate 1gbit node 7 port 2
	pass 50
	"$HERE/frames/stamp.py" tx:v0 rx:v0 gso split || fail "$1: GSO"
	for kind in "$1" hpcc; do
		expect "$1: backlog of $kind" "$(tc -n tx -s qdisc show dev v0 |
			grep -A2 "^qdisc $kind " | grep -o 'backlog .*p ')" "backlog 0b 0p "
	done
	tc -n tx qdisc del dev v0 root
}

test_child_of_netem() { links; below netem delay 1ms limit 1000; }
test_child_of_prio() { links; below prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0; }
test_child_of_tbf() { links; below tbf rate 900mbit burst 10kb limit 1mb; }
test_child_of_htb() { links; below htb default 1; }

expect_bandwidth() { expect "bandwidth, $1" "$(json 'q["hpcc"]["bandwidth"]')" "$2"; }

test_device_speed()
{
	port
	expect_bandwidth veth 1250000000
	change bandwidth 25gbit
	expect_bandwidth configured 3125000000
	change rate 1gbit
	expect_bandwidth shaped 125000000
}

# The speed of a device changes before the device is up.
test_device_changes_speed()
{
	command -v ethtool >/dev/null || skip "needs ethtool"
	ns_add tx
	ip -n tx tuntap add v0 mode tap || skip "needs tun"
	ip netns exec tx ethtool -s v0 speed 25000 duplex full autoneg off
	add
	expect_bandwidth "before the device is up" 3125000000
	ip netns exec tx ethtool -s v0 speed 40000 duplex full autoneg off
	ip -n tx link set v0 up
	expect_bandwidth up 5000000000
	change bandwidth 1gbit
	expect_bandwidth configured 125000000
}

# A device event updates all hpcc qdiscs of that device, also children, and no other qdisc.
test_device_event_is_of_its_device()
{
	local ns

	command -v ethtool >/dev/null || skip "needs ethtool"
	ns_add tx rx
	for ns in tx rx; do
		ip -n "$ns" tuntap add v0 mode tap || skip "needs tun"
		ip netns exec "$ns" ethtool -s v0 speed 25000 duplex full autoneg off
		tc -n "$ns" qdisc add dev v0 root handle 9: prio
		tc -n "$ns" qdisc add dev v0 parent 9:1 handle 1: hpcc
		tc -n "$ns" qdisc add dev v0 parent 9:2 handle 2: tbf rate 1gbit burst 9kb limit 1mb
		tc -n "$ns" qdisc add dev v0 parent 2:1 handle 3: hpcc
		ip netns exec "$ns" ethtool -s v0 speed 40000 duplex full autoneg off
	done
	speeds()
	{
		tc -n "$1" -s -j qdisc show dev v0 | python3 -c '
import json, sys
print([q["hpcc"]["bandwidth"] for q in json.load(sys.stdin) if q["kind"] == "hpcc"])'
	}
	ip -n tx link set v0 up
	expect "speeds of the device" "$(speeds tx)" "[5000000000, 5000000000]"
	expect "speeds of another device" "$(speeds rx)" "[3125000000, 3125000000]"
}

# If one hpcc qdisc replaces another, the notification has space for both, with all attributes.
test_fits_a_notification()
{
	local out

	links
	out=$(mktemp)
	defer rm -f "$out"
	ip netns exec tx tc -s monitor >"$out" &
	defer kill $!
	busywait 5 monitor_is_open $! || fail "tc monitor does not listen"
	add rate 1gbit marking ldcp
	busywait 5 grep -q '^qdisc hpcc 1:' "$out" || fail "no notification of the first qdisc"
	tc -n tx qdisc replace dev v0 root handle 2: hpcc rate 1gbit marking ldcp
	busywait 5 grep -q '^qdisc hpcc 2:' "$out" || fail "no notification of the second qdisc"
	grep -q '^deleted qdisc hpcc 1:' "$out" || fail "no notification of the deleted qdisc"
	grep -A9 '^qdisc hpcc 2:' "$out" | grep -q 'stamped 0' || fail "no statistics: $(cat "$out")"
}

monitor_is_open() { find "/proc/$1/fd" -lname 'socket:*' 2>/dev/null | grep -q .; }

test_module_in_use() { port; refused "in use" rmmod sch_hpcc; }

ktap_main
