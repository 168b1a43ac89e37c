// SPDX-License-Identifier: GPL-2.0
/* Unit tests of tools/hpccmon/csv.c: it writes numbers as printf() would. */
#define _GNU_SOURCE
#include <stdio.h>
#include "test.h"
#include "../../tools/hpccmon/csv.c"

/* No test depends on the endpoints and the mode in a line. */
bool endpoint_read(struct endpoint *endpoint, const char *word) { return *word; }
const char *mode_text(uint32_t mode) { return ""; }
static const struct known known = {
	.W_init = 212000, .who = ",10.0.0.1:5000,10.0.0.2:80,7,telemetry,", .who_length = 39,
	.eta_text = ",0.950000,", .eta_length = 10,
};

/* Check a line with a number, U and a time. The other numbers have one digit. */
static void check_ack(u64 number, u64 U_q24, u64 time_us)
{
	const struct ack ack = { .time_us = time_us, .W = number, .Wc = 1, .U_q24 = U_q24,
				 .R = 1, .T_ns = (u32)number };
	u64 millionths = (U_q24 * 1000000 + (1 << 23)) >> 24;
	char line[CSV_LINE_MAX], want[CSV_LINE_MAX];

	snprintf(want, sizeof(want), "%llu.%06llu%s%llu,1,212000,%llu.%06llu,0.950000,8,%u,0,,",
		 time_us / 1000000, time_us % 1000000, known.who, number, millionths / 1000000,
		 millionths % 1000000, (u32)number);
	*csv_ack(&ack, &known, line) = 0;
	assert_string_equal(line, want);
}

TEST(csv_ack__powers_of_ten_and_any_number)
{
	u64 power = 1;

	for (int i = 0; i < 20; i++, power *= 10) {
		check_ack(power - 1, 0, power - 1);
		check_ack(power, 1 << 24, power);
		check_ack(power + 1, 1, power + 1);
	}
	check_ack(UINT64_MAX, (1ULL << 40) - 1, UINT64_MAX);
	for (int i = 0; i < 200000; i++)
		check_ack(random_magnitude(), random_magnitude() >> 24, random_magnitude());
}

TEST(csv_ack__json)
{
	const struct ack ack = { .time_us = 1764112345000007, .cookie = UINT64_MAX, .W = 10,
				 .Wc = 1234567890, .U_q24 = 15938355, .R = 125000000,
				 .T_ns = 20000 };
	char line[CSV_LINE_MAX];

	*json_ack(&ack, line) = 0;
	assert_string_equal(line, "{\"time\":1764112345.000007,\"cookie\":18446744073709551615,"
			    "\"W\":10,\"Wc\":1234567890,\"U\":0.950000,\"R_bps\":1000000000,"
			    "\"T_ns\":20000,\"incStage\":0}");
}

/* csv_parse() reads the hops that csv_line() writes. */
TEST(csv_line__can_be_parsed)
{
	struct flow flow = { .W = 5849, .Wc = 5970, .U = 0.99, .R = 34000000, .T_ns = 170000,
			     .inc_stage = 3, .nr_hops = HPCC_HOPS_MAX }, again;
	char line[CSV_LINE_MAX];
	double time;

	for (u32 i = 0; i < flow.nr_hops; i++) {
		flow.hop[i].known = i != 2;
		flow.hop[i].u = i / 8.0;
		flow.hop[i].qlen_ns = i == 3 ? UINT64_MAX >> 1 : i;
	}
	*csv_line(&flow, 1764112345000007, &known, line) = 0;
	assert_true(csv_parse(line, &again, &time));
	assert_true(fabs(time - 1764112345.000007) < 1e-6);
	assert_true(again.W == flow.W && again.Wc == flow.Wc && again.R == flow.R);
	assert_true(fabs(again.U - flow.U) < 1e-6 && again.T_ns == flow.T_ns);
	assert_int_equal(again.nr_hops, flow.nr_hops);
	for (u32 i = 0; i < flow.nr_hops; i++) {
		assert_int_equal(again.hop[i].known, flow.hop[i].known);
		if (flow.hop[i].known)
			assert_true(fabs(again.hop[i].u - flow.hop[i].u) < 1e-6 &&
				    again.hop[i].qlen_ns == flow.hop[i].qlen_ns);
	}
}
