// SPDX-License-Identifier: GPL-2.0
/* <hpcc/law/algo.h>: the connection's own bytes in flight, and the W that they allow. */
#include "connection.h"

static const u32 MSS = 1000;

/* Process an ACK that ends a round trip, with the next record, after @packets were delivered. */
static void own_ack(u64 rtt, u32 packets, u64 dts, u64 dtx)
{
	struct hpcc_measure m = { .rtt = rtt, .mss = MSS };

	*s = next(&a, 1, dts, dtx, 0);
	m.delivered = a.L[0].delivered + packets;
	hpcc_measure_link(&a, &p, s, &m);
	hpcc_follow(&a, &p, hpcc_measure_end(&a, &p, &m), a.last_update_seq + 1,
		    a.last_update_seq + 1000, hpcc_compute_wind);
}

/* hpcc_most_wind() in bytes. */
static u64 most(u32 own, u32 Wc, u32 ratio)
{
	a.own = own;
	a.Wc_q16 = BYTES(Wc);
	return hpcc_most_wind(&a, &p, (u64)ratio << 31) >> HPCC_W_BITS;
}

TEST(most_wind__bounds)
{
	assert_int_equal(most(HPCC_OWN_UNKNOWN, 1000, 1), W_INIT);
	assert_int_equal(most(1000, 1000, 1), 1250);
	assert_int_equal(most(1000, 1000, 2), 2500);
	assert_int_equal(most(1000, 2000, 1), 2000);	/* never below Wc */
	assert_int_equal(most(1000, 4000, 40), 50000);
	assert_int_equal(most(1000, 4001, 40), 4001);	/* less than Wc / 4 was used */
	assert_int_equal(most(0, 1000, 100), 1000);
	assert_int_equal(most(50000, 1000, 100), W_INIT);
	assert_int_equal(most(HPCC_OWN_UNKNOWN - 1, 1000, ~0U), W_INIT);
}

TEST(average_own__first_starts_at_W)
{
	a.W_q16 = BYTES(8000);
	own_ack(T_NS, 2, T_NS / 2, 0);
	assert_int_equal(a.own, 6000);			/* 8000 / 2 + 2 MSS */
	own_ack(T_NS, 2, T_NS / 2, 0);
	assert_int_equal(a.own, 5000);
	own_ack(T_NS, 0, 0, 0);				/* not measured: d(ts) is 0 */
	assert_int_equal(a.own, 5000);
	hpcc_algo_restart(&a, &p, BYTES(2000));
	assert_true(a.own == HPCC_OWN_UNKNOWN);
}

/* An interval longer than T replaces own; its packets are spread over it. */
TEST(average_own__long_intervals)
{
	own_ack(T_NS, 30, 10 * T_NS, 0);
	assert_near(a.own, 3000, 1);
	own_ack(T_NS, 1, 64 * T_NS, 0);			/* a window below one packet */
	assert_near(a.own, MSS / 64.0, 1);
	own_ack(T_NS, 0, 64 * T_NS, 0);
	assert_int_equal(a.own, 0);
}

/* With a round trip of k T, k times the packets that arrive in T are in flight. */
TEST(average_own__rtt_above_T)
{
	own_ack(3 * T_NS, 4, T_NS, 0);
	assert_near(a.own, 12000, 1);
	own_ack(T_NS / 3, 4, T_NS, 0);
	assert_int_equal(a.own, 4000);
	own_ack(0, 4, T_NS, 0);
	assert_int_equal(a.own, 4000);
	own_ack(~0ULL, 4, T_NS, 0);			/* at most 2^16 T */
	assert_near(a.own, 4000 * 65536.0, 1);
}

TEST(average_own__delivered_wraps)
{
	a.L[0].delivered = 0xfffffffe;
	own_ack(T_NS, 5, T_NS, 0);
	assert_int_equal(a.own, 5000);
	assert_int_equal(a.L[0].delivered, 3);
}

/* Records that are ignored keep the baseline of the packets too. */
TEST(average_own__ignored_records)
{
	own_ack(T_NS, 4, T_NS, T_NS / 2);
	own_ack(T_NS, 4, -1ULL, 0);			/* TS_BACK */
	a.L[0].delivered -= 4;
	own_ack(T_NS, 8, 2 * T_NS, T_NS);
	assert_int_equal(a.own, 4000);
}

TEST(average_own__largest_numbers)
{
	static const u64 rtts[] = { 0, 1, ~0ULL };

	for (u64 T = 1; T <= HPCC_T_MAX; T <<= 4)
		for (u32 i = 0; i < ARRAY_SIZE(rtts); i++) {
			struct hpcc_measure m = { .rtt = rtts[i], .own = ~0U, .mss = ~0U };

			hpcc_params_init(&p, T, ~0ULL, 0, 0, ETA, 0);
			for (m.dts = 0; m.dts < T; m.dts += T / 4 + 1) {
				a.own = HPCC_OWN_UNKNOWN - 1;
				hpcc_average_own(&a, &p, &m);
				assert_true(a.own == HPCC_OWN_UNKNOWN - 1);
			}
		}
}

/* The link is idle because the application pauses: W stays. */
TEST(own__pause)
{
	p.max_stage = 0;
	p.W_ai_q16 = 0;
	hpcc_algo_restart(&a, &p, BYTES(10000));
	own_ack(T_NS, 10, T_NS, T_NS * 0.95);
	assert_near(a.W_q16, BYTES(10000), BYTES(1));
	for (u32 i = 0; i < 20; i++)
		own_ack(T_NS, 1, 20 * T_NS, T_NS / 10);
	assert_near(a.W_q16, BYTES(10000), BYTES(2));
}

/* Competition ends while W is 1/40 of the link: W takes the link in one round trip. */
TEST(own__capacity_becomes_free)
{
	p.max_stage = 0;
	hpcc_algo_restart(&a, &p, BYTES(W_INIT / 40));
	own_ack(T_NS, 3, T_NS, T_NS / 40);
	assert_near(a.W_q16, BYTES(W_INIT * 0.95), BYTES(3000));
}

/* One packet per round trip on an idle link: W stays, also after many round trips. */
TEST(own__drip)
{
	static const u32 stages[] = { 0, 5 };

	for (u32 k = 0; k < ARRAY_SIZE(stages); k++) {
		begin(stages[k]);
		hpcc_algo_restart(&a, &p, BYTES(10000));
		for (u32 i = 0; i < 5000; i++)
			own_ack(T_NS, 1, T_NS, MSS * T_NS / W_INIT);
		assert_true(a.W_q16 >= BYTES(10000) && a.W_q16 <= BYTES(11000));
	}
}
