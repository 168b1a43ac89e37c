#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# scripts/vm/races.awk: the kernel messages that it prints.

HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=selftests/lib/ktap.sh
. "$HERE/../lib/ktap.sh"

LINE='[   12.345678] =================================================================='

# Print the messages that races.awk prints, without times. Change "BUG: " and "WARNING: ",
# because scripts/check would report these words as messages of this test's own kernel.
kept()
{
	awk -f "$HERE/../../scripts/vm/races.awk" | sed -E 's/^\[[^]]*\] //; s/BUG: /bug /; s/WARNING: /warning /'
}

# report WHAT LINE...: print a report in the format of the kernel
report()
{
	echo "$LINE"
	printf '[   12.345678] %s\n' "$@"
	echo "$LINE"
}

test_counts_races_of_the_kernel()
{
	expect output "$({
		echo "[    1.0] before"
		report "BUG: KCSAN: data-race in a / b" " a+0x1/0x2" " b+0x1/0x2"
		report "BUG: KCSAN: data-race in c / d" " c+0x1/0x2 [nft_ct]"
		echo "[    2.0] after"
	} | kept | paste -sd '|')" "before|after|# 2 data races in code of the kernel"
}

test_prints_races_of_our_modules()
{
	local module

	for module in $(our_modules) hpcc_bugs; do
		expect "of $module" "$(report "BUG: KCSAN: data-race in a / b" " a+0x1/0x2" \
			" b+0x1/0x2 [$module]" | kept | paste -sd '|')" \
			"bug KCSAN: data-race in a / b| a+0x1/0x2| b+0x1/0x2 [$module]"
	done
}

test_ignores_code_below_an_interrupt()
{
	local -a ours=(" d+0x1/0x2 [sch_hpcc]" " e+0x1/0x2") entry
	local irq

	for irq in asm_sysvec_apic_timer_interrupt asm_common_interrupt asm_exc_nmi; do
		entry=(" c+0x1/0x2" " $irq+0x1/0x2")
		expect "below $irq" "$(report "BUG: KCSAN: data-race in a / b" \
			"read to 0x1 of 8 bytes by task 1 on cpu 0:" " a+0x1/0x2" "${entry[@]}" \
			"${ours[@]}" "" "write to 0x1 of 8 bytes by interrupt on cpu 1:" \
			" b+0x1/0x2" "${entry[@]}" "${ours[@]}" | kept)" \
			"# 1 data races in code of the kernel"
		expect "above $irq" "$(report "BUG: KCSAN: data-race in a / b" \
			"read to 0x1 of 8 bytes by interrupt on cpu 0:" "${ours[@]}" "${entry[@]}" |
			kept | wc -l)" 6
		expect "the other stack" "$(report "BUG: KCSAN: data-race in a / b" \
			"read to 0x1 of 8 bytes by interrupt on cpu 0:" " a+0x1/0x2" "${entry[@]}" "" \
			"write to 0x1 of 8 bytes by task 1 on cpu 1:" "${ours[@]}" | kept | wc -l)" 9
	done
}

test_one_report_does_not_hide_the_next()
{
	expect output "$({
		report "BUG: KCSAN: data-race in a / b" " a+0x1/0x2"
		report "BUG: KCSAN: data-race in c / d" " c+0x1/0x2 [tcp_hpcc]"
		report "BUG: KCSAN: data-race in e / f" " e+0x1/0x2"
	} | kept | grep -c 'c / d')" 1
}

test_prints_other_reports()
{
	expect "KASAN" "$(report "BUG: KASAN: use-after-free in a" " a+0x1/0x2" | kept | wc -l)" 2
	expect "within a report" "$(report "BUG: KCSAN: data-race in a / b" \
		"WARNING: CPU: 0 PID: 1 at a" | kept | grep -c warning)" 1
}

test_end_within_a_report()
{
	expect "lines" "$(report "BUG: KCSAN: data-race in a / b" " a+0x1/0x2" | head -n 3 |
		kept | wc -l)" 2
}

ktap_main
