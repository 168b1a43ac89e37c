#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Telemetry on crafted frames (qdisc/stamp/stamp.c): frames without a request leave unchanged, and
# stamped frames have the record that protocol.rst describes and a correct checksum. frames/stamp.py
# builds, sends, receives and checks the frames; tshark also checks the checksums.

# shellcheck source=selftests/lib/port.sh
. "$(dirname "$(readlink -f "$0")")/../lib/port.sh"

# setup [OPTION...]: connect tx and rx, with the qdisc on the device of tx.
setup()
{
	links
	ip -n tx link set v0 arp off
	add node 7 port 2 "$@"
}

frames() { "$(dirname "$0")/frames/stamp.py" tx:v0 rx:v0 "$@" || fail "see the output above"; }

test_untouched() { setup; frames untouched; }
test_untouched_while_shaping() { setup rate 1gbit delay 10us; frames untouched; }
test_traced() { setup; frames traced; }
test_stamped() { setup; frames stamped; }
test_wrong_checksum_stays_wrong() { setup; frames wrong_checksum; }
test_checksum_computed_later() { setup; frames partial; }
test_identity_phase_full() { setup; frames slots; }
test_backlog() { need_virtual_time; setup rate 1gbit; frames backlog; }
test_gso_split() { setup rate 1gbit; frames gso split; }
test_other_kind() { setup kind 254; frames ignored no_option; }
test_nostamp() { setup nostamp; frames ignored off; }

# offset TX RX: set TS and BUSY to the offsets that a port adds to ts and tx.
offset()
{
	local out

	out=$("$(dirname "$0")/frames/stamp.py" "$1" "$2" offset) || fail "$out"
	read -r TS BUSY <<<"$out"
	[[ $TS$BUSY =~ ^[0-9]+$ ]] || fail "offset: $out"
}

# near A B: whether two numbers are equal modulo 2^20. Allow some ns, because clocks are read
# shortly before a frame starts.
near() { ((($1 - $2 + 100 & 1048575) <= 200)); }
same() { near "$1" "$2" || fail "the offsets $1 and $2 of one port differ"; }
other() { ! near "$1" "$2" || fail "the offsets $1 and $2 are related"; }

# The offsets are not derived from the host's clock, from earlier traffic, or from another
# port. A qdisc that replaces another qdisc of the same port has the same offsets.
test_offsets()
{
	local ts busy

	need_virtual_time
	different() { offset "$@"; other "$TS" "$ts"; other "$BUSY" "$busy"; }
	setup rate 1gbit
	offset tx:v0 rx:v0
	ts=$TS busy=$BUSY
	other "$ts" 0
	other "$busy" 0
	other "$ts" "$busy"
	change rate 0 limit 2mb delay 3us
	offset tx:v0 rx:v0
	same "$TS" "$ts"
	tc -n tx qdisc replace dev v0 root handle 9: hpcc node 7 port 2
	offset tx:v0 rx:v0
	same "$TS" "$ts"
	expect "tx of an idle port" "$BUSY" "$busy"
	tc -n tx qdisc replace dev v0 root handle 8: hpcc node 7 port 3
	different tx:v0 rx:v0
	ip -n rx link set v0 arp off
	tc -n rx qdisc add dev v0 root hpcc node 7 port 2
	different rx:v0 tx:v0
}

test_accelerated_vlan()
{
	setup
	ip -n tx link add link v0 name v0.5 type vlan id 5 || skip "needs vlan"
	ip -n tx link set v0.5 up
	frames vlan
}

# below PARENT...: set up hpcc as a child of another qdisc.
below()
{
	setup
	tc -n tx qdisc replace dev v0 root handle 9: "$@" || return
	tc -n tx qdisc add dev v0 parent 9:1 hpcc node 7 port 2 rate 1gbit || fail "cannot add hpcc"
}

test_clones()
{
	below netem duplicate 100% || skip "needs netem"
	frames clones
}

test_late_timer()
{
	need_virtual_time
	below tbf rate 1mbit burst 2kb limit 1mb
	frames late
}

test_gso_whole()
{
	setup
	frames gso whole
	change rate 1gbit no-split-gso
	frames gso whole
}

# A port splits a GSO packet only if it shapes or marks, or if the packet does not fit.
test_gso_without_request()
{
	setup rate 0
	frames gso_plain 1
	change nostamp
	frames gso_plain 1
	change limit 4000b stamp
	frames gso_plain 3
	change limit 1mb marking ldcp knonect 1mb
	frames gso_plain 5
	change marking off rate 1gbit
	frames gso_plain 5
	change no-split-gso
	frames gso_plain 1
	change rate 0
	frames gso_plain 1
}

test_tshark()
{
	local pcap bad total

	command -v tshark >/dev/null || skip "needs tshark"
	setup
	pcap=$(mktemp)
	defer rm -f "$pcap"
	frames --pcap "$pcap" stamped
	checksums()
	{
		tshark -r "$pcap" -o tcp.check_checksum:TRUE -Y "$1" \
		       -T fields -e frame.number 2>/dev/null | wc -l
	}
	total=$(checksums tcp)
	[ "$total" -ge 20 ] || fail "tshark saw $total TCP packets"
	bad=$(checksums 'tcp && !(tcp.checksum.status == 1)')
	expect "wrong checksums of $total" "$bad" 0
}

ktap_main
