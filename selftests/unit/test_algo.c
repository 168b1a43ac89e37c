// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of <hpcc/law/algo.h>, in the order of its functions: arithmetic, parameters, state and
 * MeasureInflight. test_algo_ack.c tests the later functions, and test_algo_law.c properties
 * that hold for any samples.
 */
#include "connection.h"

TEST(mul_shr__rounds_and_saturates)
{
	static const struct { u64 a, b; u32 shift; u64 want; } cases[] = {
		{ 5, 1, 1, 3 }, { 5, 1, 2, 1 }, { 6, 1, 2, 2 }, { 7, 1, 2, 2 }, { 0, ~0ULL, 1, 0 },
		{ 1ULL << 63, 1ULL << 63, 64, 1ULL << 62 }, { ~0ULL, ~0ULL, 64, ~0ULL },
		{ 1ULL << 60, 3ULL << 60, 63, 3ULL << 57 },
		{ 1ULL << 63, 2, 1, ~0ULL }, { 1ULL << 62, 2, 1, 1ULL << 62 },
		{ ~0ULL, ~0ULL, 31, ~0ULL }, { 1ULL << 40, 1ULL << 55, 31, ~0ULL },
		{ 1ULL << 40, 1ULL << 53, 31, 1ULL << 62 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_mul_shr(cases[i].a, cases[i].b, cases[i].shift),
				 cases[i].want);
}

TEST(mul_shr__any)
{
	for (int i = 0; i < 100000; i++) {
		u64 a = random_magnitude(), b = random_magnitude();
		unsigned int shift = 1 + random_below(64);
		unsigned __int128 product = (unsigned __int128)a * b;
		unsigned __int128 want = (product >> shift) + (product >> (shift - 1) & 1);
		u64 got = hpcc_mul_shr(a, b, shift);

		if (product >> (shift - 1) >> 64)
			assert_true(got == ~0ULL);
		else
			assert_true(got == want);
	}
}

TEST(div_nearest__rounds_half_up)
{
	assert_int_equal(hpcc_div_nearest(7, 2), 4);
	assert_int_equal(hpcc_div_nearest(4, 3), 1);
	assert_int_equal(hpcc_div_nearest(5, 3), 2);
	assert_int_equal(hpcc_div_nearest(0, 9), 0);
}

TEST(params_init__rounds_and_clamps)
{
	const u64 most = HPCC_W_MAX_Q16;
	const struct {
		u64 T, W_max, W_min, W_ai;
		u32 eta, max_stage;
		struct { u64 T, inv_T, W_max, W_min, W_ai; u32 eta; } want;
	} cases[] = {
		{ 8, BYTES(1000), BYTES(10), BYTES(3), ETA, 5,
		  { 8, 1ULL << 60, BYTES(1000), BYTES(10), BYTES(3), ETA } },
		/* 2^63 = 3 * 3074457345618258602 + 2 */
		{ 3, 1, 1, 0, ETA, 5, { 3, 3074457345618258603ULL, 1, 1, 0, ETA } },
		{ 0, 0, 0, ~0ULL, 0, 255, { 1, 1ULL << 63, 1, 1, 1, 1 } },
		{ ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0U, 0,
		  { HPCC_T_MAX, 1ULL << 23, most, most, most, HPCC_ONE_Q24 } },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		hpcc_params_init(&p, cases[i].T, cases[i].W_max, cases[i].W_min, cases[i].W_ai,
				 cases[i].eta, cases[i].max_stage);
		assert_int_equal(p.T, cases[i].want.T);
		assert_int_equal(p.inv_T_q63, cases[i].want.inv_T);
		assert_int_equal(p.W_max_q16, cases[i].want.W_max);
		assert_int_equal(p.W_min_q16, cases[i].want.W_min);
		assert_int_equal(p.W_ai_q16, cases[i].want.W_ai);
		assert_int_equal(p.eta_q24, cases[i].want.eta);
		assert_int_equal(p.max_stage, cases[i].max_stage);
	}
}

TEST(algo_forget_hop__only_this_hop)
{
	struct hpcc_algo before;

	a.L[0].u_q24 = ONE;
	a.L[1] = a.L[0];
	before = copy_of(&a);
	hpcc_algo_forget_hop(&a, 0);
	hpcc_algo_forget_hop(&a, HPCC_HOPS_MAX + 1);
	hpcc_algo_forget_hop(&a, ~0U);
	assert_equal(&a, &before);
	hpcc_algo_forget_hop(&a, 1);
	assert_false(a.L[0].valid);
	assert_true(a.L[0].u_q24 == 0);
	assert_true(a.L[1].valid && a.L[1].u_q24 == ONE);
	assert_true(a.started);
}

TEST(algo_trim__keeps_the_hops_given)
{
	for (u32 i = 0; i < HPCC_HOPS_MAX; i++)
		a.L[i] = a.L[0];
	a.end = HPCC_HOPS_MAX;
	hpcc_algo_trim(&a, HPCC_HOPS_MAX);
	assert_true(a.L[14].valid);
	hpcc_algo_trim(&a, ~0U);
	assert_true(a.L[14].valid);
	hpcc_algo_trim(&a, 3);
	for (u32 i = 0; i < HPCC_HOPS_MAX; i++)
		assert_int_equal(a.L[i].valid, i < 3);
}

TEST(algo_trim__ignores_a_lost_link)
{
	*s = next(&a, 1, T_NS, T_NS / 2, 0);
	a.L[1] = (struct hpcc_link){ .valid = true, .u_q24 = 3 * ONE };
	a.end = 2;
	measure_all(1);
	assert_true(a.U_q24 == ONE);
	hpcc_algo_trim(&a, 1);
	measure(T_NS, T_NS / 2, 0);
	assert_true(a.U_q24 == ONE / 2);
}

/* Find the bottleneck at this time, and check since when each link is the bottleneck. */
static void check_bottleneck(u64 now, u64 first, u64 second)
{
	hpcc_find_bottleneck(&a, now);
	assert_int_equal(a.L[0].bottleneck_since, first);
	assert_int_equal(a.L[1].bottleneck_since, second);
}

TEST(find_bottleneck__since_it_is_the_most_loaded)
{
	a.L[0].u_q24 = ONE / 2;
	a.L[1] = a.L[0];
	a.L[1].u_q24 = ONE;
	a.L[2] = (struct hpcc_link){ .u_q24 = 2 * ONE };
	a.end = 3;
	check_bottleneck(7, 0, 7);
	assert_int_equal(a.L[2].bottleneck_since, 0);
	check_bottleneck(9, 0, 7);
	/* if two links have the same u', the first link is the bottleneck */
	a.L[0].u_q24 = ONE;
	check_bottleneck(11, 11, 0);
	/* a quiet link with its assumed u'; another link at the same hop; no link */
	hpcc_link_quiet(&a.L[0], &p, false);
	a.L[1].u_q24 = ONE / 2;
	check_bottleneck(12, 11, 0);
	a.L[1].u_q24 = ONE;
	check_bottleneck(13, 0, 13);
	hpcc_algo_forget_hop(&a, 1);
	*s = (struct hpcc_sample){ .hop = 2, .tag = a.L[1].tag + 1, .ts = a.L[1].ts + 1 };
	measure_all(1);
	assert_int_equal(a.L[1].bottleneck_since, 0);
	check_bottleneck(15, 0, 15);
	hpcc_algo_forget(&a);
	assert_int_equal(a.L[1].bottleneck_since, 0);
	check_bottleneck(17, 0, 0);
}

TEST(algo_forget__next_record_is_the_first)
{
	*s = next(&a, 1, 1000, 3000, 0);
	a.W_q16 = BYTES(5000);
	a.inc_stage = 3;
	hpcc_algo_forget(&a);
	assert_int_equal(hpcc_new_ack(&a, &p, s, 1, 50, 0x80000000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW | HPCC_ACK_FIRST);
	assert_int_equal(a.last_update_seq, 0x80000000);
	assert_true(a.W_q16 == BYTES(5000) && a.U_q24 == ONE);
	assert_int_equal(a.inc_stage, 3);
}

TEST(algo_init__begins_at_line_rate)
{
	memset(&a, 0xff, sizeof(a));
	hpcc_algo_init(&a, &p);
	assert_true(a.W_q16 == BYTES(W_INIT) && a.Wc_q16 == BYTES(W_INIT));
	assert_true(U_q44(&a) == ONE << HPCC_U_LOW_BITS);
	assert_int_equal(a.inc_stage, 0);
	assert_false(a.started);
	assert_false(a.resync);
	assert_int_equal(a.nr, 0);
	assert_null(a.L);
	/* There may be no memory for links. */
	*s = (struct hpcc_sample){ .hop = 1, .ts = 5 };
	assert_int_equal(hpcc_new_ack(&a, &p, s, 1, 1000, 5000),
			 HPCC_ACK_BAD_HOP | HPCC_ACK_NO_SAMPLE);
	hpcc_algo_forget_hop(&a, 1);
	hpcc_algo_trim(&a, HPCC_HOPS_MAX);
	hpcc_algo_forget(&a);
	assert_int_equal(a.end, 0);
	assert_false(a.started);
}

/* When a path becomes longer, the state of its first links is kept. */
TEST(algo_links__keeps_links_of_a_longer_path)
{
	struct hpcc_link *L;

	hpcc_algo_init(&a, &p);
	hpcc_algo_links(&a, new_links(1), 1);
	s[0] = (struct hpcc_sample){ .hop = 1, .ts = 1000, .tx = 1000 };
	s[1] = (struct hpcc_sample){ .hop = 2, .ts = 1000, .tx = 1000 };
	assert_int_equal(hpcc_new_ack(&a, &p, s, 2, 0, 10),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW | HPCC_ACK_BAD_HOP | HPCC_ACK_FIRST);
	assert_int_equal(a.end, 1);
	L = new_links(2);
	L[0] = a.L[0];
	hpcc_algo_links(&a, L, 2);
	assert_int_equal(hpcc_new_ack(&a, &p, s + 1, 1, 0, 10), HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW);
	assert_int_equal(a.end, 2);
	s[0].ts += T_NS;
	s[0].tx += T_NS / 4;
	s[1].ts += T_NS;
	s[1].tx += T_NS / 2;
	assert_int_equal(measure_all(2), 0);
	assert_true(a.L[0].u_q24 == ONE / 4 && a.L[1].u_q24 == ONE / 2);
	assert_true(a.U_q24 == ONE / 2);
}

TEST(algo_restart__clamps)
{
	const struct { u64 W_q16, want; } cases[] = {
		{ BYTES(1000), BYTES(1000) }, { 0, BYTES(W_MIN) }, { ~0ULL, BYTES(W_INIT) },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		hpcc_algo_restart(&a, &p, cases[i].W_q16);
		assert_true(a.W_q16 == cases[i].want && a.Wc_q16 == cases[i].want);
		assert_int_equal(a.inc_stage, 5);
	}
}

TEST(algo_restart__first_update_needs_no_round_trip)
{
	hpcc_algo_restart(&a, &p, BYTES(1000));
	/* This ACK number is far below last_update_seq. A load of 1 % multiplies W by 95. */
	assert_int_equal(ack(T_NS, T_NS / 100, 0, 2000, 90000), HPCC_ACK_UPDATE);
	assert_near(ldexpl(a.Wc_q16, -16), 95000 + 62.5, 1);
	assert_int_equal(a.inc_stage, 0);
	/* the next update needs an ACK of data that are sent after this ACK, as always */
	assert_int_equal(a.last_update_seq, 90000);
	assert_int_equal(ack(T_NS, T_NS / 100, 0, 90000, 91000), 0);
}

TEST(algo_reduce__holds_beside_an_idle_link)
{
	static const u32 max_stages[] = { 0, 1, 5 };

	for (u32 k = 0; k < ARRAY_SIZE(max_stages); k++) {
		long double want = W_INIT;

		begin(max_stages[k]);
		set_U(&a, ONE / 100);
		/* CE reduces Wc in each round trip, and the measured link is idle. */
		for (u32 i = 0; i < 10; i++) {
			hpcc_algo_reduce(&a, &p, 3);
			want *= 7.0L / 8;
			assert_near(ldexpl(a.Wc_q16, -16), want, 1);
			assert_true(a.W_q16 <= a.Wc_q16);
			assert_int_equal(update(T_NS, T_NS / 100, 0), HPCC_ACK_UPDATE);
			want += 62.5L;
			assert_near(ldexpl(a.W_q16, -16), want, 1);
		}
		/* The marks end: five additive increases, then W jumps to W_init. */
		for (u32 i = 0; i < 5; i++) {
			assert_true(a.W_q16 < BYTES(W_INIT) / 2);
			update(T_NS, T_NS / 100, 0);
		}
		assert_true(a.W_q16 == BYTES(W_INIT));
	}
}

TEST(algo_reduce__not_below_W_min)
{
	a.W_q16 = BYTES(W_MIN);
	a.Wc_q16 = BYTES(W_MIN);
	hpcc_algo_reduce(&a, &p, 3);
	assert_true(a.W_q16 == BYTES(W_MIN) && a.Wc_q16 == BYTES(W_MIN));
	/* If W is below the new Wc, W does not change. */
	a.Wc_q16 = BYTES(1000);
	hpcc_algo_reduce(&a, &p, 3);
	assert_true(a.W_q16 == BYTES(W_MIN) && a.Wc_q16 == BYTES(875));
}

TEST(algo_slow__doubles)
{
	u32 want;

	hpcc_algo_restart(&a, &p, BYTES(1000));
	hpcc_algo_slow(&a);
	/* Without slow start, an idle link would set W to W_init at once. */
	for (want = 1000; 2 * want < W_INIT / 2; want *= 2) {
		update(T_NS, T_NS / 1000, 0);
		assert_true(a.W_q16 > BYTES(2 * want));
		hpcc_algo_acked(&a, &p, want / 500, 500, a.W_q16);
		assert_true(a.W_q16 == BYTES(2 * want));
		assert_true(a.Wc_q16 == BYTES(2 * want));
		assert_int_equal(a.inc_stage, 5);
		/* U measures the bytes in flight now, but Wc is older: W does not fall. */
		a.W_q16 = BYTES(10);
		a.Wc_q16 = BYTES(10);
		a.inc_stage = 3;
		a.U_q24 = p.eta_q24 - 1;
		hpcc_algo_acked(&a, &p, 0, 500, BYTES(2 * want));
		assert_true(a.W_q16 == BYTES(2 * want));
		assert_true(a.Wc_q16 == BYTES(2 * want));
		assert_int_equal(a.inc_stage, 5);
		/* W falls if a link is busy. */
		a.W_q16 = BYTES(10);
		a.U_q24 = p.eta_q24;
		hpcc_algo_acked(&a, &p, 0, 500, BYTES(2 * want));
		assert_true(a.W_q16 == BYTES(10));
		hpcc_algo_restart(&a, &p, BYTES(2 * want));
	}
	/* When the limit has reached W_init, slow start is over. */
	hpcc_algo_acked(&a, &p, want, 500, a.W_q16);
	hpcc_algo_restart(&a, &p, BYTES(W_INIT));
	hpcc_algo_acked(&a, &p, 0, 500, a.W_q16);
	assert_true(a.W_q16 == BYTES(W_INIT));
	a.slow_start_limit_q16 = BYTES(W_INIT);
	hpcc_algo_acked(&a, &p, 1, 500, a.W_q16);
	assert_true(a.slow_start_limit_q16 == BYTES(W_INIT));
}

/* W does not fall while U is below eta, but Wc follows W only when both are synchronised. Otherwise
 * each ACK would divide the same W by U again.
 */
TEST(algo_slow__Wc_follows_once_per_round_trip)
{
	u32 i;

	hpcc_algo_restart(&a, &p, BYTES(1000));
	a.slow_start_limit_q16 = BYTES(5000);
	a.U_q24 = p.eta_q24 / 2;
	for (i = 0; i < 10; i++) {
		a.W_q16 = hpcc_compute_wind(&a, &p, false) - BYTES(i * 100);
		hpcc_algo_acked(&a, &p, 0, 500, BYTES(3000));
		assert_true(a.W_q16 == BYTES(3000));
		assert_true(a.Wc_q16 == BYTES(1000));
	}
	a.W_q16 = hpcc_compute_wind(&a, &p, true);
	assert_true(a.W_q16 < BYTES(3000));
	hpcc_algo_acked(&a, &p, 0, 500, BYTES(3000));
	assert_true(a.W_q16 == BYTES(3000));
	assert_true(a.Wc_q16 == BYTES(3000));
}

/* Few losses, or less than 1/8 of the packets in flight, change nothing. */
TEST(algo_lost__keeps_the_rest)
{
	a.W_q16 = BYTES(40000);
	a.Wc_q16 = BYTES(50000);
	hpcc_algo_lost(&a, &p, 16, 2, 14, 500);
	hpcc_algo_lost(&a, &p, 32, 3, 29, 500);
	assert_true(a.W_q16 == BYTES(40000));
	assert_true(a.Wc_q16 == BYTES(50000));
	/* The path carries more than W, which has fallen since then. */
	hpcc_algo_lost(&a, &p, 108, 14, 94, 500);
	assert_true(a.W_q16 == BYTES(40000));
	assert_true(a.Wc_q16 == BYTES(40000));
	hpcc_algo_lost(&a, &p, 31, 3, 28, 500);
	assert_true(a.W_q16 == BYTES(14000));
	assert_true(a.Wc_q16 == BYTES(14000));
	/* TCP had nothing to send. */
	hpcc_algo_lost(&a, &p, 4, 3, 0, 500);
	assert_true(a.W_q16 == BYTES(7000));
	a.Wc_q16 = BYTES(3000);
	a.slow_start_limit_q16 = BYTES(4000);
	hpcc_algo_lost(&a, &p, 8, 1, 4, 500);
	assert_true(a.W_q16 == BYTES(2000));
	assert_true(a.Wc_q16 == BYTES(2000));
	hpcc_algo_lost(&a, &p, 8, 8, 1, 1);
	assert_true(a.W_q16 == p.W_min_q16);
}

/* In slow start Wc may be older than W: CE reduces W by 1/8, and additive increases follow. */
TEST(algo_slow__CE_reduces_W)
{
	u32 i;

	hpcc_algo_restart(&a, &p, BYTES(1000));
	a.slow_start_limit_q16 = BYTES(4000);
	a.U_q24 = p.eta_q24 / 2;
	a.W_q16 = BYTES(4000);
	hpcc_algo_reduce(&a, &p, 3);
	assert_true(a.W_q16 == BYTES(3500));
	assert_true(a.Wc_q16 == BYTES(3500));
	p.max_stage = 0;
	for (i = 0; i < HPCC_CE_STAGES; i++) {
		assert_true(a.reduced);
		a.W_q16 = hpcc_compute_wind(&a, &p, true);
		hpcc_algo_acked(&a, &p, 0, 500, a.W_q16);
		assert_true(a.W_q16 < BYTES(4000));
	}
	a.W_q16 = hpcc_compute_wind(&a, &p, true);
	assert_false(a.reduced);
}

/* W_max grows with T: this does not restart slow start. */
TEST(algo_slow__does_not_begin_again)
{
	struct hpcc_params larger = p;

	larger.W_max_q16 = BYTES(2 * W_INIT);
	hpcc_algo_restart(&a, &p, BYTES(W_INIT - 1000));
	hpcc_algo_slow(&a);
	hpcc_algo_acked(&a, &p, 1, 500, a.W_q16);
	assert_true(hpcc_algo_is_slow(&a, &p));
	hpcc_algo_acked(&a, &p, 1, 500, a.W_q16);
	assert_false(hpcc_algo_is_slow(&a, &p));
	assert_false(hpcc_algo_is_slow(&a, &larger));
	a.W_q16 = larger.W_max_q16;
	hpcc_algo_acked(&a, &larger, 1, 500, a.W_q16);
	assert_true(a.W_q16 == larger.W_max_q16);
}

/* After a spurious timeout W returns to its old value, and slow start does not limit that value. */
TEST(algo_slow__undone)
{
	hpcc_algo_acked(&a, &p, 1, 500, a.W_q16);
	assert_true(a.W_q16 == BYTES(W_INIT));
	hpcc_algo_restart(&a, &p, BYTES(1000));
	hpcc_algo_slow(&a);
	hpcc_algo_restart(&a, &p, BYTES(5000));
	hpcc_algo_acked(&a, &p, 1, 500, a.W_q16);
	assert_true(a.W_q16 == BYTES(5000));
	assert_true(a.slow_start_limit_q16 == BYTES(5500));
	/* A restart with a smaller W, as for ECN, does not lower the limit. */
	hpcc_algo_restart(&a, &p, BYTES(4000));
	assert_true(a.slow_start_limit_q16 == BYTES(5500));
}

TEST(link_u__queue_and_rate)
{
	const u64 max = ~0ULL >> 1, half = 1ULL << 39;
	const struct { u64 qlen, dtx, dts, want; } cases[] = {
		{ 0, 0, 1, 0 }, { 0, 500, 1000, ONE / 2 }, { T_NS, 0, 1000, ONE },
		{ 3 * T_NS, 1500, 1000, 4 * ONE + ONE / 2 },
		/* each term is rounded to nearest: 2^24 / 3 = 5592405.33, 2^25 / 3 = 11184810.67 */
		{ 0, 1, 3, 5592405 }, { 0, 2, 3, 11184811 },
		/* 2^24 / 10000 = 1677.72, and 4 of them 6710.89, 2 of them 3355.44 */
		{ 1, 0, 1, 1678 }, { 2, 0, 1, 3355 },
		/* saturates */
		{ ~0ULL, 0, 1, HPCC_U_MAX_Q24 }, { ~0ULL, 1, 1, HPCC_U_MAX_Q24 },
		{ T_NS << 16, 0, 1, HPCC_U_MAX_Q24 }, { (T_NS << 16) - 1, 1, 1, HPCC_U_MAX_Q24 },
		{ 0, 65536, 1, HPCC_U_MAX_Q24 }, { 0, 65535, 1, 65535 * ONE },
		{ 0, ~0ULL, 1, HPCC_U_MAX_Q24 },
		/* long intervals, below and above the size from which both numbers are halved */
		{ 0, max, max, ONE }, { 0, 0, max, 0 },
		{ 0, half / 2 - 1, half, ONE / 2 }, { 0, half - 1, half - 1, ONE },
		{ 0, half, half, ONE }, { 0, 2 * half, half, 2 * ONE },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_link_u(&p, cases[i].qlen, cases[i].dtx, cases[i].dts),
				 cases[i].want);
	assert_true(hpcc_link_u(&p, (T_NS << 16) - 1, 0, 1) < HPCC_U_MAX_Q24);
	assert_near(hpcc_link_u(&p, 0, max / 3, max), ONE / 3.0L, 1);
	assert_near(hpcc_link_u(&p, 0, max, max / 60000), 60000.0L * ONE,
		    60000.0L * ONE / (1 << 22));
}

TEST(measure_inflight__smaller_queue_and_rate)
{
	static const u8 qlen_and_u[][2] = { { 5, 0 }, { 3, 3 }, { 4, 3 }, { 9, 4 } };

	for (u32 i = 0; i < ARRAY_SIZE(qlen_and_u); i++) {
		measure(T_NS, 0, qlen_and_u[i][0] * T_NS);
		assert_true(a.L[0].u_q24 == qlen_and_u[i][1] * ONE);
	}
	/* the rate since the last record */
	begin(5);
	assert_int_equal(measure(1000, 250, 0), 0);
	assert_true(a.L[0].u_q24 == ONE / 4);
	assert_int_equal(measure(2000, 1500, 0), 0);
	assert_true(a.L[0].u_q24 == ONE * 3 / 4);
	assert_true(a.L[0].ts == s->ts && a.L[0].tx == s->tx);
}

TEST(measure_inflight__weight_is_tau_over_T)
{
	measure(T_NS / 4, T_NS / 8, 0);
	assert_near(U_of(&a), 1 - 0.5L / 4, 1e-12);
	measure(T_NS / 5, T_NS * 2 / 5, 0);
	assert_near(U_of(&a), 0.875L + (2 - 0.875L) / 5, 1e-12);
	/* tau is at most T */
	measure(10 * T_NS, 5 * T_NS, 0);
	assert_true(a.U_q24 == ONE / 2 && !a.U_low);
	measure(T_NS, 3 * T_NS, 0);
	assert_true(a.U_q24 == 3 * ONE && !a.U_low);
}

TEST(measure_inflight__moves_by_the_least_weight)
{
	/* T is 1 s, and records are 1 ns apart */
	hpcc_params_init(&p, 1000000000, BYTES(1000), BYTES(1), 0, ETA, 5);
	a = started(&p);
	for (int i = 0; i < 1000; i++) {
		measure(1, 0, 1000000000);
		measure(1, 0, 0);
	}
	assert_near(U_of(&a), powl(1 - 1e-9L, 2000), 1e-10L);
	for (int i = 0; i < 1000; i++)
		measure(2, 1, 0);
	assert_near(U_of(&a), 0.5L + (powl(1 - 1e-9L, 2000) - 0.5L) *
		    powl(1 - 2e-9L, 1000), 1e-10L);
}

TEST(measure_inflight__largest_link_counts)
{
	static const u64 dtx[3][3] = { { 5, 2, 1 }, { 2, 5, 1 }, { 1, 2, 5 } };

	for (int i = 0; i < 3; i++) {
		three(5);
		for (int k = 0; k < 3; k++)
			s[k] = next(&a, k + 1, T_NS, dtx[i][k] * T_NS / 10, 0);
		assert_int_equal(measure_all(3), 0);
		assert_true(a.U_q24 == ONE / 2);
	}
}

TEST(measure_inflight__any_order_of_records)
{
	struct hpcc_algo b;
	struct hpcc_sample r[3];

	three(5);
	b = copy_of(&a);
	for (int k = 0; k < 3; k++) {
		s[k] = next(&a, k + 1, 1000 + k, 500 - k, 0);
		r[2 - k] = s[k];
	}
	measure_all(3);
	hpcc_measure_inflight(&b, &p, r, 3);
	assert_equal(&a, &b);
}

TEST(measure_inflight__tau_of_the_largest_link)
{
	three(5);
	s[0] = next(&a, 1, T_NS, T_NS / 10, 0);
	s[1] = next(&a, 2, T_NS / 2, T_NS / 4, 0);
	s[2] = next(&a, 3, T_NS, T_NS / 5, 0);
	measure_all(3);
	assert_near(U_of(&a), 0.75L, 1e-12);
	/* the first of equal links */
	for (int i = 0; i < 2; i++) {
		three(5);
		s[i] = next(&a, 1, T_NS / 2, T_NS / 4, 0);
		s[!i] = next(&a, 2, T_NS, T_NS / 2, 0);
		measure_all(2);
		assert_near(U_of(&a), 0.75L, 1e-12);
	}
}

TEST(measure_inflight__no_load_counts)
{
	/* A fast link sends a packet in less than one time unit: d(tx) is 0. */
	assert_int_equal(measure(T_NS / 4, 0, 0), 0);
	assert_near(U_of(&a), 0.75L, 1e-12);
	measure(T_NS, 0, 0);
	assert_true(U_q44(&a) == 0);
	/* If no link has load, U follows a link that was measured. */
	three(5);
	measure_hop(2, T_NS / 4, 0);
	assert_near(U_of(&a), 0.75L, 1e-12);
}

TEST(measure_inflight__missing_link_is_remembered)
{
	three(5);
	s[0] = next(&a, 1, T_NS, T_NS / 4, 0);
	s[1] = next(&a, 2, T_NS, T_NS / 2, 0);
	measure_all(2);
	assert_true(a.U_q24 == ONE / 2);
	/* u' of link 1 is below u' of link 2: U stays */
	assert_int_equal(measure_hop(1, T_NS, T_NS * 3 / 8), 0);
	assert_true(a.U_q24 == ONE / 2);
	assert_true(a.L[0].u_q24 == ONE * 3 / 8);
	/* u' of link 1 is above u' of link 2: U changes */
	measure_hop(1, T_NS, T_NS * 3 / 4);
	assert_true(a.U_q24 == ONE * 3 / 4);
	/* the interval of link 2 is the whole time since its last record */
	measure_hop(2, 4 * T_NS, 4 * T_NS);
	assert_true(a.U_q24 == ONE);
}

TEST(measure_inflight__bad_and_new_links_beside_a_good_one)
{
	s[0] = next(&a, 1, T_NS, T_NS / 2, 0);
	s[1] = (struct hpcc_sample){ .hop = 15, .ts = 77, .tx = 1ULL << 50, .qlen = 1ULL << 50 };
	assert_int_equal(measure_all(2), HPCC_ACK_NEW);
	assert_true(a.U_q24 == ONE / 2);
	assert_true(a.L[14].valid && a.L[14].u_q24 == 0);
	begin(5);
	s[0] = (struct hpcc_sample){ .hop = 0 };
	s[2] = (struct hpcc_sample){ .hop = 77 };
	s[1] = next(&a, 1, T_NS, T_NS / 2, 0);
	assert_int_equal(measure_all(3), HPCC_ACK_BAD_HOP);
	assert_true(a.U_q24 == ONE / 2);
}

TEST(measure_inflight__without_a_usable_record)
{
	static const s64 dts[] = { 0, -1, -1000000, -(1LL << 62) };
	static const u8 bad_hops[] = { 0, 16, 128, 255 };
	struct hpcc_algo before = copy_of(&a);

	assert_int_equal(hpcc_measure_inflight(&a, &p, NULL, 0), HPCC_ACK_NO_SAMPLE);
	assert_equal(&a, &before);
	for (u32 i = 0; i < ARRAY_SIZE(dts); i++) {
		assert_int_equal(measure(dts[i], 100, 9 * T_NS),
				 HPCC_ACK_TS_BACK | HPCC_ACK_NO_SAMPLE);
		assert_equal(&a, &before);
	}
	for (u32 i = 0; i < ARRAY_SIZE(bad_hops); i++) {
		*s = (struct hpcc_sample){ .hop = bad_hops[i], .ts = 5 };
		assert_int_equal(measure_all(1), HPCC_ACK_BAD_HOP | HPCC_ACK_NO_SAMPLE);
		assert_equal(&a, &before);
	}
}

TEST(measure_inflight__ignores_the_link_of_an_unusable_record)
{
	three(5);
	s[0] = next(&a, 1, T_NS, T_NS, 0);
	s[1] = next(&a, 2, T_NS, T_NS / 2, 0);
	measure_all(2);
	assert_true(a.U_q24 == ONE);
	s[0] = next(&a, 1, 0, 0, 0);
	s[1] = next(&a, 2, T_NS, T_NS / 2, 0);
	assert_int_equal(measure_all(2), HPCC_ACK_TS_BACK);
	assert_true(a.U_q24 == ONE / 2);
	/* the next record of link 1 counts again */
	measure_hop(1, T_NS, T_NS * 3 / 4);
	assert_true(a.U_q24 == ONE * 3 / 4);
}

TEST(measure_inflight__tx_back_restarts_the_link)
{
	measure(T_NS, T_NS, 0);
	assert_int_equal(measure(100, -1, 9 * T_NS), HPCC_ACK_TX_BACK | HPCC_ACK_NO_SAMPLE);
	assert_true(a.L[0].tx == s->tx && a.L[0].ts == s->ts);
	assert_true(a.L[0].u_q24 == 0 && a.U_q24 == ONE);
	assert_int_equal(measure(T_NS, T_NS / 2, 0), 0);
	assert_true(a.U_q24 == ONE / 2);
}

TEST(measure_inflight__tx_excess_beyond_4_dts_and_T)
{
	static const u64 dts[] = { 1, 999, 10000, 1ULL << 61 };

	for (unsigned int i = 0; i < ARRAY_SIZE(dts); i++) {
		u64 most = 4 * dts[i] + T_NS;
		struct hpcc_algo before;

		begin(5);
		before = copy_of(&a);
		if (most >> 63)		/* modulo 2^64 such a step is negative */
			most = ~0ULL >> 1;
		assert_int_equal(measure(dts[i], most + 1, 0), HPCC_ACK_NO_SAMPLE |
				 (most == ~0ULL >> 1 ? HPCC_ACK_TX_BACK : HPCC_ACK_TX_EXCESS));
		if (most != ~0ULL >> 1)
			assert_equal(&a, &before);
		a = copy_of(&before);
		assert_int_equal(measure(dts[i], most, 0), 0);
	}
}

TEST(measure_inflight__tag_changed)
{
	three(5);
	a.L[0].u_q24 = 3 * ONE;
	s[0] = next(&a, 1, T_NS, T_NS, 0);
	s[0].tag++;
	s[1] = next(&a, 2, T_NS, T_NS / 2, 0);
	assert_int_equal(measure_all(2), HPCC_ACK_PATH);
	assert_true(a.U_q24 == ONE / 2);
	assert_true(a.L[0].u_q24 == 0 && a.L[0].ts == s[0].ts);
	assert_int_equal(a.L[0].tag, s[0].tag);
	/* from then on records with the new tag count */
	assert_int_equal(measure_hop(1, T_NS, T_NS), 0);
	assert_true(a.U_q24 == ONE);
	/* if no other link is in the ACK, nothing is measured; u' of the old link is dropped */
	s[0] = next(&a, 1, T_NS, T_NS, 0);
	s[0].tag++;
	assert_int_equal(measure_all(1), HPCC_ACK_PATH | HPCC_ACK_NO_SAMPLE);
	measure_hop(2, T_NS, T_NS / 4);
	assert_true(a.U_q24 == ONE / 4);
}

TEST(measure_inflight__repeated_hop)
{
	s[0] = next(&a, 1, T_NS, T_NS / 2, 0);
	s[1] = next(&a, 1, 2 * T_NS, 5 * T_NS, 9 * T_NS);
	assert_int_equal(measure_all(2), HPCC_ACK_REPEAT);
	assert_true(a.U_q24 == ONE / 2 && a.L[0].ts == s[0].ts);
	/* also if the first record of the hop was not usable */
	s[0] = next(&a, 1, 0, 0, 0);
	s[1] = next(&a, 1, T_NS, T_NS, 0);
	assert_int_equal(measure_all(2), HPCC_ACK_REPEAT | HPCC_ACK_TS_BACK | HPCC_ACK_NO_SAMPLE);
}
