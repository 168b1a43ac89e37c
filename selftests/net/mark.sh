#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# LDCP's marking (qdisc/core/mark.c): the packets that are marked and dropped at each queue length,
# their fraction and their bytes; thresholds derived from B; values that are refused; counters.

# shellcheck source=selftests/lib/port.sh
. "$(dirname "$(readlink -f "$0")")/../lib/port.sh"

# Thresholds that qdisc/core/mark.c derives from B: ns, and minimum number of packets.
# in_force reads them by name.
# shellcheck disable=SC2034
{
	KMIN=(1000 4)
	KMAX=(5000 16)
	KNONECT=(8000 24)
}
# Bytes of a packet of the links' MTU, with header and overhead.
PACKET=$((1500 + 14 + 24))

# setup [OPTION...]: create links for frames of any size, and a qdisc of 8 MB.
setup()
{
	need_virtual_time
	links
	ip -n tx link set v0 mtu 65000 arp off
	ip -n rx link set v0 mtu 65000 arp off
	add limit 8000000b node 7 port 2 "$@"
}

mark() { "$(dirname "$0")/frames/mark.py" tx:v0 rx:v0 "$@" || fail "see the output above"; }

test_traced() { setup; mark traced; }
test_chance() { setup nostamp; mark chance 1; }
test_chance_pmax() { setup nostamp; mark chance 0.3; }
test_edges() { setup nostamp; mark edges; }
test_headers() { setup nostamp; mark headers; }
test_odd_packets() { setup nostamp; mark odd; }
test_mark_and_stamp() { setup; mark stamped; }
test_gso_split() { setup; mark gso split; }
test_gso_whole() { setup no-split-gso; mark gso whole; }
test_off() { setup nostamp; mark off; }
test_change_under_traffic() { setup; mark change; }

test_clones()
{
	setup
	tc -n tx qdisc del dev v0 root
	tc -n tx qdisc add dev v0 root handle 9: netem duplicate 100% || skip "needs netem"
	# The copy of the first frame is queued and counts as 84 bytes.
	tc -n tx qdisc add dev v0 parent 9:1 hpcc rate 1kbit nostamp \
		marking ldcp kmin 0 kmax 85b pmax 0
	mark clones
}

# ---- options ----

# in_force RATE_BYTES LIMIT: print the effective thresholds of a link.
in_force()
{
	local name bytes out=()

	for name in KMIN KMAX KNONECT; do
		local -n spec=$name
		bytes=$(($1 * spec[0] / 1000000000))
		((bytes > spec[1] * PACKET)) || bytes=$((spec[1] * PACKET))
		((bytes < $2)) || bytes=$2
		out+=("$bytes")
	done
	echo "(${out[0]}, ${out[1]}, ${out[2]})"
}

# thresholds WHAT RATE_BYTES LIMIT: compare the thresholds in force with a link's thresholds.
thresholds()
{
	expect "$1" "$(json 'q["options"]["kmin"], q["options"]["kmax"], q["options"]["knonect"]')" "$(in_force "$2" "$3")"
}

test_derived()
{
	local rate limit

	port marking ldcp
	thresholds "of the device" 1250000000 1048576
	for rate in 1 25 100 400 1000 10000; do
		for limit in 1048576 30000 2000; do
			change rate "${rate}gbit" limit "${limit}b"
			thresholds "rate $rate limit $limit" "${rate}000000000/8" "$limit"
		done
	done
	change rate 0 bandwidth 100gbit limit 1mb
	thresholds "of bandwidth" 12500000000 1048576
	# A change without thresholds keeps explicit thresholds.
	change bandwidth 0 rate 100gbit kmax 70000b
	change rate 200gbit
	expect "explicit kmax" "$(json 'q["options"]["kmax"]')" 70000
	change kmax 0
	thresholds "derived again" 25000000000 1048576
	# A low kmax is accepted, and reduces a derived kmin.
	change kmax 1000b
	expect "kmin, limited by kmax" "$(json 'q["options"]["kmin"]')" 1000
}

# The minimum thresholds follow the MTU, without a change of the qdisc.
test_derived_from_mtu()
{
	port rate 1gbit marking ldcp
	ip -n tx link set v0 mtu 9000
	PACKET=9038
	thresholds "thresholds" 125000000 1048576
}

# If the device becomes slower, configured thresholds stay.
test_derived_from_device()
{
	command -v ethtool >/dev/null || skip "needs ethtool"
	ns_add tx
	ip -n tx tuntap add v0 mode tap || skip "needs tun"
	ip netns exec tx ethtool -s v0 speed 100000 duplex full autoneg off
	add marking ldcp
	thresholds "100 Gb/s" 12500000000 1048576
	change kmin 60000b
	ip netns exec tx ethtool -s v0 speed 1000 duplex full autoneg off
	ip -n tx link set v0 up
	expect "kmin, kmax" "$(json 'q["options"]["kmin"], q["options"]["kmax"]')" "(60000, 60000)"
	change node 3
}

test_show()
{
	port rate 10gbit marking ldcp kmin 20000b kmax 80000b pmax 0.123456 knonect 90kb
	[[ $(show) == *" marking ldcp kmin 20000b kmax 80000b pmax 0.123456 knonect 92160b " ]] || fail "$(show)"
	expect json "$(json '[q["options"][k] for k in ("marking", "kmin", "kmax", "pmax", "knonect")]')" \
		"['ldcp', 20000, 80000, 0.123456, 92160]"
	add_again
	change pmax 0.000001
	expect "smallest" "$(json 'q["options"]["pmax"]')" 1e-06
	change marking off
	expect off "$(json 'q["options"]["marking"], q["options"].keys() & {"kmin", "kmax", "pmax", "knonect"}')" \
		"('off', set())"
	change marking ldcp
	thresholds "after marking was off" 1250000000 1048576
	expect "pmax after marking was off" "$(json 'q["options"]["pmax"]')" 1
}

# The kernel checks the values of a change together with the existing values.
test_refused_change()
{
	local before

	links
	refused "need marking ldcp" add kmin 1kb
	add rate 100gbit limit 200000b marking ldcp kmin 40000b kmax 90000b pmax 0.5 knonect 95000b
	before=$(show)
	refused "kmin: has to be at most kmax" change kmin 90001b
	refused "kmin: has to be at most kmax" change kmax 39999b
	refused "kmin: has to be at most kmax, which follows" change kmax 0 kmin 62501b
	refused "kmin: has to be at most kmax, which follows" change kmax 0 rate 1gbit
	refused "kmax: has to be at most limit" change kmax 200001b
	refused "kmax: has to be at most limit" change limit 89999b
	refused "knonect: has to be at most limit" change knonect 200001b
	refused "knonect: has to be at most limit" change limit 94999b
	refused "need marking ldcp" change marking off pmax 0.1
	refused "kmax: has to be at most limit" change node 9 port 9 marking ldcp limit 60000b
	expect unchanged "$(show)" "$before"
	# Values of the same change are checked together.
	change limit 3000b kmin 1000b kmax 3000b knonect 3000b
	change limit 1mb kmin 500kb kmax 600kb
}

# The counters of dropped and marked packets, as text and as JSON.
test_statistics()
{
	local text

	setup nostamp
	mark edges
	text=$(tc -n tx -s qdisc show dev v0 root | tr '\n' ' ')
	expect json "$(json '[q["hpcc"][k] for k in ("drop_limit", "drop_limit_ect", "drop_knonect", "marked",
		"marked_p", "marked_kmax", "mark_failed")], q["drops"]')" "([2, 1, 2, 3, 0, 3, 0], 4)"
	[[ $text == *" dropped limit 2 (ect 1) knonect 2 gso 0 resyncs "* ]] || fail "$text"
	[[ $text == *" marked 3 p 0 kmax 3 failed 0"* ]] || fail "$text"
	# The port parsed the packets only to mark them.
	expect "reasons without a record" "$(json '[name for name, n in q["hpcc"]["unstamped"].items() if n]')" "['off']"
}

ktap_main
