// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of <hpcc/law/algo.h>, in its order. test_algo_law.c has what holds for any
 * samples.
 */
#include "algo.h"

/* ---- Arithmetic --------------------------------------------------------- */

TEST(mul_shr__rounds_half_up)
{
	assert_true(hpcc_mul_shr(5, 1, 1) == 3);
	assert_true(hpcc_mul_shr(5, 1, 2) == 1);
	assert_true(hpcc_mul_shr(6, 1, 2) == 2);
	assert_true(hpcc_mul_shr(7, 1, 2) == 2);
	assert_true(hpcc_mul_shr(0, ~0ULL, 1) == 0);
}

TEST(mul_shr__wide)
{
	assert_true(hpcc_mul_shr(1ULL << 63, 1ULL << 63, 64) == 1ULL << 62);
	assert_true(hpcc_mul_shr(~0ULL, ~0ULL, 64) == ~0ULL);
	assert_true(hpcc_mul_shr(1ULL << 60, 3ULL << 60, 63) == 3ULL << 57);
}

TEST(mul_shr__saturates)
{
	assert_true(hpcc_mul_shr(1ULL << 63, 2, 1) == ~0ULL);
	assert_true(hpcc_mul_shr(1ULL << 62, 2, 1) == 1ULL << 62);
	assert_true(hpcc_mul_shr(~0ULL, ~0ULL, 31) == ~0ULL);
	assert_true(hpcc_mul_shr(1ULL << 40, 1ULL << 55, 31) == ~0ULL);
	assert_true(hpcc_mul_shr(1ULL << 40, 1ULL << 53, 31) == 1ULL << 62);
}

TEST(mul_shr__any)
{
	u64 seed = 11;
	int i;

	for (i = 0; i < 100000; i++) {
		u64 a = random_magnitude(&seed), b = random_magnitude(&seed);
		unsigned int shift = 1 + random_below(&seed, 64);
		unsigned __int128 product = (unsigned __int128)a * b;
		unsigned __int128 want = (product >> shift) +
					 (product >> (shift - 1) & 1);
		u64 got = hpcc_mul_shr(a, b, shift);

		if (product >> (shift - 1) >> 64)
			assert_true(got == ~0ULL);
		else
			assert_true(got == want);
	}
}

TEST(div_nearest__rounds_half_up)
{
	assert_true(hpcc_div_nearest(7, 2) == 4);
	assert_true(hpcc_div_nearest(4, 3) == 1);
	assert_true(hpcc_div_nearest(5, 3) == 2);
	assert_true(hpcc_div_nearest(0, 9) == 0);
}

/* ---- Parameters and state ----------------------------------------------- */

TEST(params_init__takes_what_is_in_range)
{
	struct hpcc_params p;

	hpcc_params_init(&p, 8, BYTES(1000), BYTES(10), BYTES(3), ETA, 5);
	assert_true(p.T == 8);
	assert_true(p.W_max_q16 == BYTES(1000));
	assert_true(p.W_min_q16 == BYTES(10));
	assert_true(p.W_ai_q16 == BYTES(3));
	assert_int_equal(p.eta_q24, ETA);
	assert_int_equal(p.max_stage, 5);
	assert_true(p.inv_T_q63 == 1ULL << 60);
}

TEST(params_init__reciprocal_to_nearest)
{
	struct hpcc_params p;

	/* 2^63 = 3 * 3074457345618258602 + 2 */
	hpcc_params_init(&p, 3, 1, 1, 0, ETA, 5);
	assert_true(p.inv_T_q63 == 3074457345618258603ULL);
}

TEST(params_init__clamps)
{
	struct hpcc_params p;

	hpcc_params_init(&p, 0, 0, 0, ~0ULL, 0, ~0U);
	assert_true(p.T == 1 && p.inv_T_q63 == 1ULL << 63);
	assert_true(p.W_max_q16 == 1 && p.W_min_q16 == 1 && p.W_ai_q16 == 1);
	assert_int_equal(p.eta_q24, 1);
	assert_int_equal(p.max_stage, ~0U);

	hpcc_params_init(&p, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0U, 0);
	assert_true(p.T == HPCC_T_MAX && p.inv_T_q63 == 1ULL << 23);
	assert_true(p.W_max_q16 == HPCC_W_MAX_Q16);
	assert_true(p.W_min_q16 == HPCC_W_MAX_Q16);
	assert_true(p.W_ai_q16 == HPCC_W_MAX_Q16);
	assert_int_equal(p.eta_q24, HPCC_ONE_Q24);
}

TEST(algo_forget_hop__that_one)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);

	a.L[0].u_q24 = ONE;
	a.L[1] = a.L[0];
	hpcc_algo_forget_hop(&a, 1);
	assert_false(a.L[0].valid);
	assert_true(a.L[0].u_q24 == 0);
	assert_true(a.L[1].valid && a.L[1].u_q24 == ONE);
	assert_true(a.started);
}

TEST(algo_forget_hop__out_of_range)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p), before = copy_of(&a);

	hpcc_algo_forget_hop(&a, 0);
	hpcc_algo_forget_hop(&a, HPCC_HOPS_MAX + 1);
	hpcc_algo_forget_hop(&a, ~0U);
	assert_equal(&a, &before);
}

TEST(algo_trim__keeps_the_hops_given)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	u32 i;

	for (i = 0; i < HPCC_HOPS_MAX; i++)
		a.L[i] = a.L[0];
	a.end = HPCC_HOPS_MAX;
	hpcc_algo_trim(&a, HPCC_HOPS_MAX);
	assert_true(a.L[14].valid);
	hpcc_algo_trim(&a, ~0U);
	assert_true(a.L[14].valid);
	hpcc_algo_trim(&a, 3);
	for (i = 0; i < HPCC_HOPS_MAX; i++)
		assert_int_equal(a.L[i].valid, i < 3);
}

TEST(algo_trim__a_lost_link_no_longer_rules)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS, T_NS / 2, 0);

	a.L[1] = (struct hpcc_link){ .valid = true, .u_q24 = 3 * ONE };
	a.end = 2;
	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_true(a.U_q24 == ONE);
	hpcc_algo_trim(&a, 1);
	s = next(&a, T_NS, T_NS / 2, 0);
	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_true(a.U_q24 == ONE / 2);
}

TEST(find_bottleneck__since_it_is_the_most_loaded)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s;

	a.L[0].u_q24 = ONE / 2;
	a.L[1] = a.L[0];
	a.L[1].u_q24 = ONE;
	a.L[2] = (struct hpcc_link){ .u_q24 = 2 * ONE };
	a.end = 3;
	hpcc_find_bottleneck(&a, 7);
	assert_true(a.L[0].bottleneck_since == 0 && a.L[1].bottleneck_since == 7 &&
		    a.L[2].bottleneck_since == 0);
	hpcc_find_bottleneck(&a, 9);
	assert_int_equal(a.L[1].bottleneck_since, 7);
	/* of two alike the first */
	a.L[0].u_q24 = ONE;
	hpcc_find_bottleneck(&a, 11);
	assert_true(a.L[0].bottleneck_since == 11 && a.L[1].bottleneck_since == 0);
	/* a quiet one by what it counts as, then another link at a hop, then none */
	hpcc_link_quiet(&a.L[0], &p, false);
	a.L[1].u_q24 = ONE / 2;
	hpcc_find_bottleneck(&a, 12);
	assert_true(a.L[0].bottleneck_since == 11 && a.L[1].bottleneck_since == 0);
	a.L[1].u_q24 = ONE;
	hpcc_find_bottleneck(&a, 13);
	assert_true(a.L[0].bottleneck_since == 0 && a.L[1].bottleneck_since == 13);
	hpcc_algo_forget_hop(&a, 1);
	s = (struct hpcc_sample){ .hop = 2, .tag = a.L[1].tag + 1, .ts = a.L[1].ts + 1 };
	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_int_equal(a.L[1].bottleneck_since, 0);
	hpcc_find_bottleneck(&a, 15);
	assert_int_equal(a.L[1].bottleneck_since, 15);
	hpcc_algo_forget(&a);
	assert_int_equal(a.L[1].bottleneck_since, 0);
	hpcc_find_bottleneck(&a, 17);
	assert_int_equal(a.L[1].bottleneck_since, 0);
}

TEST(algo_forget__next_record_is_the_first)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, 1000, 3000, 0);

	a.W_q16 = BYTES(5000);
	a.inc_stage = 3;
	hpcc_algo_forget(&a);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 50, 0x80000000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW | HPCC_ACK_FIRST);
	assert_int_equal(a.last_update_seq, 0x80000000);
	assert_true(a.W_q16 == BYTES(5000) && a.U_q24 == ONE);
	assert_int_equal(a.inc_stage, 3);
}

TEST(algo_init__begins_at_line_rate)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a;

	memset(&a, 0xff, sizeof(a));
	hpcc_algo_init(&a, &p);
	assert_true(a.W_q16 == BYTES(W_INIT) && a.Wc_q16 == BYTES(W_INIT));
	assert_true(U_q44(&a) == ONE << HPCC_U_LOW_BITS);
	assert_int_equal(a.inc_stage, 0);
	assert_false(a.started);
	assert_false(a.resync);
	assert_int_equal(a.nr, 0);
	assert_null(a.L);
}

/* There may be no memory for links. */
TEST(algo_init__without_links)
{
	const struct hpcc_sample s = { .hop = 1, .ts = 5 };
	struct hpcc_params p = params(5);
	struct hpcc_algo a;

	hpcc_algo_init(&a, &p);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 1000, 5000),
			 HPCC_ACK_BAD_HOP | HPCC_ACK_NO_SAMPLE);
	hpcc_algo_forget_hop(&a, 1);
	hpcc_algo_trim(&a, HPCC_HOPS_MAX);
	hpcc_algo_forget(&a);
	assert_int_equal(a.end, 0);
	assert_false(a.started);
}

/* A path that gets longer keeps what is known of its first links. */
TEST(algo_links__more_of_them)
{
	struct hpcc_params p = params(5);
	struct hpcc_sample s[2];
	struct hpcc_algo a;
	struct hpcc_link *L;

	hpcc_algo_init(&a, &p);
	hpcc_algo_links(&a, new_links(1), 1);
	s[0] = (struct hpcc_sample){ .hop = 1, .ts = 1000, .tx = 1000 };
	s[1] = (struct hpcc_sample){ .hop = 2, .ts = 1000, .tx = 1000 };
	assert_int_equal(hpcc_new_ack(&a, &p, s, 2, 0, 10),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW | HPCC_ACK_BAD_HOP |
			 HPCC_ACK_FIRST);
	assert_int_equal(a.end, 1);

	L = new_links(2);
	L[0] = a.L[0];
	hpcc_algo_links(&a, L, 2);
	assert_int_equal(hpcc_new_ack(&a, &p, s + 1, 1, 0, 10),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW);
	assert_int_equal(a.end, 2);
	s[0].ts += T_NS;
	s[0].tx += T_NS / 4;
	s[1].ts += T_NS;
	s[1].tx += T_NS / 2;
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 2), 0);
	assert_true(a.L[0].u_q24 == ONE / 4 && a.L[1].u_q24 == ONE / 2);
	assert_true(a.U_q24 == ONE / 2);
}

TEST(algo_restart__clamps)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);

	hpcc_algo_restart(&a, &p, BYTES(1000));
	assert_true(a.W_q16 == BYTES(1000) && a.Wc_q16 == BYTES(1000));
	assert_int_equal(a.inc_stage, 5);
	hpcc_algo_restart(&a, &p, 0);
	assert_true(a.W_q16 == BYTES(W_MIN) && a.Wc_q16 == BYTES(W_MIN));
	hpcc_algo_restart(&a, &p, ~0ULL);
	assert_true(a.W_q16 == BYTES(W_INIT) && a.Wc_q16 == BYTES(W_INIT));
}

TEST(algo_restart__returns_at_once)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s;

	hpcc_algo_restart(&a, &p, BYTES(1000));
	/* Far below last_update_seq; a link at 1 % gives 95 times the window. */
	s = next(&a, T_NS, T_NS / 100, 0);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 2000, 90000),
			 HPCC_ACK_UPDATE);
	assert_near(ldexpl(a.Wc_q16, -16), 95000 + 62.5, 1);
	assert_int_equal(a.inc_stage, 0);
	/* the ACK after it waits for what was sent since, as ever */
	assert_int_equal(a.last_update_seq, 90000);
	s = next(&a, T_NS, T_NS / 100, 0);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 90000, 91000), 0);
}

static void reduce_holds_beside_an_idle_link(u32 max_stage)
{
	struct hpcc_params p = params(max_stage);
	struct hpcc_algo a = started(&p);
	long double want = W_INIT;
	struct hpcc_sample s;
	u32 i;

	set_U(&a, ONE / 100);
	/* Marks in each round trip, and an idle link. */
	for (i = 0; i < 10; i++) {
		hpcc_algo_reduce(&a, &p, 3);
		want *= 7.0L / 8;
		assert_near(ldexpl(a.Wc_q16, -16), want, 1);
		assert_true(a.W_q16 <= a.Wc_q16);
		s = next(&a, T_NS, T_NS / 100, 0);
		assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, a.last_update_seq + 1,
					      a.last_update_seq + 2),
				 HPCC_ACK_UPDATE);
		want += 62.5L;
		assert_near(ldexpl(a.W_q16, -16), want, 1);
	}
	/* They end: five steps, and all at once. */
	for (i = 0; i < 5; i++) {
		assert_true(a.W_q16 < BYTES(W_INIT) / 2);
		s = next(&a, T_NS, T_NS / 100, 0);
		hpcc_new_ack(&a, &p, &s, 1, a.last_update_seq + 1, a.last_update_seq + 2);
	}
	assert_true(a.W_q16 == BYTES(W_INIT));
}

TEST(algo_reduce__holds_beside_an_idle_link)
{
	reduce_holds_beside_an_idle_link(0);
	reduce_holds_beside_an_idle_link(1);
	reduce_holds_beside_an_idle_link(5);
}

TEST(algo_reduce__not_below_W_min)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);

	a.W_q16 = BYTES(W_MIN);
	a.Wc_q16 = BYTES(W_MIN);
	hpcc_algo_reduce(&a, &p, 3);
	assert_true(a.W_q16 == BYTES(W_MIN) && a.Wc_q16 == BYTES(W_MIN));
	/* W below Wc stays where it is. */
	a.Wc_q16 = BYTES(1000);
	hpcc_algo_reduce(&a, &p, 3);
	assert_true(a.W_q16 == BYTES(W_MIN) && a.Wc_q16 == BYTES(875));
}

TEST(algo_slow__doubles)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s;
	u32 want;

	hpcc_algo_restart(&a, &p, BYTES(1000));
	hpcc_algo_slow(&a);
	/* An idle link gives W_init at once. */
	for (want = 1000; 2 * want < W_INIT / 2; want *= 2) {
		s = next(&a, T_NS, T_NS / 1000, 0);
		hpcc_new_ack(&a, &p, &s, 1, a.last_update_seq + 1,
			     a.last_update_seq + 2);
		assert_true(a.W_q16 > BYTES(2 * want));
		hpcc_algo_acked(&a, &p, want / 500, 500, a.W_q16);
		assert_true(a.W_q16 == BYTES(2 * want));
		assert_true(a.Wc_q16 == BYTES(2 * want));
		assert_int_equal(a.inc_stage, 5);
		/* U measures what is in flight now, Wc is older: W does not fall. */
		a.W_q16 = BYTES(10);
		a.Wc_q16 = BYTES(10);
		a.inc_stage = 3;
		a.U_q24 = p.eta_q24 - 1;
		hpcc_algo_acked(&a, &p, 0, 500, BYTES(2 * want));
		assert_true(a.W_q16 == BYTES(2 * want));
		assert_true(a.Wc_q16 == BYTES(2 * want));
		assert_int_equal(a.inc_stage, 5);
		/* But it does where a link is busy. */
		a.W_q16 = BYTES(10);
		a.U_q24 = p.eta_q24;
		hpcc_algo_acked(&a, &p, 0, 500, BYTES(2 * want));
		assert_true(a.W_q16 == BYTES(10));
		hpcc_algo_restart(&a, &p, BYTES(2 * want));
	}
	/* Once it could have been W_init that is over. */
	hpcc_algo_acked(&a, &p, want, 500, a.W_q16);
	hpcc_algo_restart(&a, &p, BYTES(W_INIT));
	hpcc_algo_acked(&a, &p, 0, 500, a.W_q16);
	assert_true(a.W_q16 == BYTES(W_INIT));
	a.slow_start_limit_q16 = BYTES(W_INIT);
	hpcc_algo_acked(&a, &p, 1, 500, a.W_q16);
	assert_true(a.slow_start_limit_q16 == BYTES(W_INIT));
}

/* W_max grows with T. */
TEST(algo_slow__stays_over)
{
	struct hpcc_params p = params(5), larger = p;
	struct hpcc_algo a = started(&p);

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

/* A timeout that was none: what it was is not too much. */
TEST(algo_slow__undone)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);

	hpcc_algo_acked(&a, &p, 1, 500, a.W_q16);
	assert_true(a.W_q16 == BYTES(W_INIT));
	hpcc_algo_restart(&a, &p, BYTES(1000));
	hpcc_algo_slow(&a);
	hpcc_algo_restart(&a, &p, BYTES(5000));
	hpcc_algo_acked(&a, &p, 1, 500, a.W_q16);
	assert_true(a.W_q16 == BYTES(5000));
	assert_true(a.slow_start_limit_q16 == BYTES(5500));
	/* Less than that, as for ECN, allows no less. */
	hpcc_algo_restart(&a, &p, BYTES(4000));
	assert_true(a.slow_start_limit_q16 == BYTES(5500));
}

/* ---- MeasureInflight ---------------------------------------------------- */

TEST(link_u__adds_queue_and_rate)
{
	struct hpcc_params p = params(5);

	assert_true(hpcc_link_u(&p, 0, 0, 1) == 0);
	assert_true(hpcc_link_u(&p, 0, 500, 1000) == ONE / 2);
	assert_true(hpcc_link_u(&p, T_NS, 0, 1000) == ONE);
	assert_true(hpcc_link_u(&p, 3 * T_NS, 1500, 1000) == 4 * ONE + ONE / 2);
}

TEST(link_u__each_term_to_nearest)
{
	struct hpcc_params p = params(5);

	/* 2^24 / 3 = 5592405.33, 2^25 / 3 = 11184810.67 */
	assert_true(hpcc_link_u(&p, 0, 1, 3) == 5592405);
	assert_true(hpcc_link_u(&p, 0, 2, 3) == 11184811);
	/* 2^24 / 10000 = 1677.72, and 4 of them 6710.89, 2 of them 3355.44 */
	assert_true(hpcc_link_u(&p, 1, 0, 1) == 1678);
	assert_true(hpcc_link_u(&p, 2, 0, 1) == 3355);
}

TEST(link_u__saturates)
{
	struct hpcc_params p = params(5);

	assert_true(hpcc_link_u(&p, ~0ULL, 0, 1) == HPCC_U_MAX_Q24);
	assert_true(hpcc_link_u(&p, ~0ULL, 1, 1) == HPCC_U_MAX_Q24);
	assert_true(hpcc_link_u(&p, T_NS << 16, 0, 1) == HPCC_U_MAX_Q24);
	assert_true(hpcc_link_u(&p, (T_NS << 16) - 1, 0, 1) < HPCC_U_MAX_Q24);
	assert_true(hpcc_link_u(&p, (T_NS << 16) - 1, 1, 1) == HPCC_U_MAX_Q24);
	assert_true(hpcc_link_u(&p, 0, 65536, 1) == HPCC_U_MAX_Q24);
	assert_true(hpcc_link_u(&p, 0, 65535, 1) == 65535 * ONE);
	assert_true(hpcc_link_u(&p, 0, ~0ULL, 1) == HPCC_U_MAX_Q24);
}

TEST(link_u__long_intervals)
{
	struct hpcc_params p = params(5);
	const u64 max = ~0ULL >> 1;

	assert_true(hpcc_link_u(&p, 0, max, max) == ONE);
	assert_true(hpcc_link_u(&p, 0, 0, max) == 0);
	assert_near(hpcc_link_u(&p, 0, max / 3, max), ONE / 3.0L, 1);
	assert_near(hpcc_link_u(&p, 0, max, max / 60000), 60000.0L * ONE,
		    60000.0L * ONE / (1 << 22));
	/* either side of where the two begin to be halved */
	assert_true(hpcc_link_u(&p, 0, (1ULL << 38) - 1, 1ULL << 39) ==
		    ONE / 2);
	assert_true(hpcc_link_u(&p, 0, (1ULL << 39) - 1, (1ULL << 39) - 1) ==
		    ONE);
	assert_true(hpcc_link_u(&p, 0, 1ULL << 39, 1ULL << 39) == ONE);
	assert_true(hpcc_link_u(&p, 0, 1ULL << 40, 1ULL << 39) == 2 * ONE);
}

TEST(measure_inflight__smaller_queue_counts)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS, 0, 5 * T_NS);

	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_true(a.L[0].u_q24 == 0);
	s = next(&a, T_NS, 0, 3 * T_NS);
	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_true(a.L[0].u_q24 == 3 * ONE);
	s = next(&a, T_NS, 0, 4 * T_NS);
	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_true(a.L[0].u_q24 == 3 * ONE);
	s = next(&a, T_NS, 0, 9 * T_NS);
	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_true(a.L[0].u_q24 == 4 * ONE);
}

TEST(measure_inflight__rate_from_last_record)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, 1000, 250, 0);

	assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1), 0);
	assert_true(a.L[0].u_q24 == ONE / 4);
	s = next(&a, 2000, 1500, 0);
	assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1), 0);
	assert_true(a.L[0].u_q24 == ONE * 3 / 4);
	assert_true(a.L[0].ts == s.ts && a.L[0].tx == s.tx);
}

TEST(measure_inflight__weight_is_tau_over_T)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS / 4, T_NS / 8, 0);

	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_near(U_of(&a), 1 - 0.5L / 4, 1e-12);
	s = next(&a, T_NS / 5, T_NS * 2 / 5, 0);
	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_near(U_of(&a), 0.875L + (2 - 0.875L) / 5, 1e-12);
}

TEST(measure_inflight__tau_is_at_most_T)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, 10 * T_NS, 5 * T_NS, 0);

	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_true(a.U_q24 == ONE / 2 && !a.U_low);
	s = next(&a, T_NS, 3 * T_NS, 0);
	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_true(a.U_q24 == 3 * ONE && !a.U_low);
}

TEST(measure_inflight__moves_by_the_least_weight)
{
	struct hpcc_params p;
	struct hpcc_algo a;
	struct hpcc_sample s;
	int i;

	/* 1 s in ns, one ns at a time */
	hpcc_params_init(&p, 1000000000, BYTES(1000), BYTES(1), 0, ETA, 5);
	a = started(&p);
	for (i = 0; i < 1000; i++) {
		s = next(&a, 1, 0, 1000000000);
		hpcc_measure_inflight(&a, &p, &s, 1);
		s = next(&a, 1, 0, 0);
		hpcc_measure_inflight(&a, &p, &s, 1);
	}
	assert_near(U_of(&a), powl(1 - 1e-9L, 2000), 1e-10L);
	for (i = 0; i < 1000; i++) {
		s = next(&a, 2, 1, 0);
		hpcc_measure_inflight(&a, &p, &s, 1);
	}
	assert_near(U_of(&a), 0.5L + (powl(1 - 1e-9L, 2000) - 0.5L) *
		    powl(1 - 2e-9L, 1000), 1e-10L);
}

/* Three links that ended at the same time, with everything known. */
static struct hpcc_algo three(const struct hpcc_params *p)
{
	struct hpcc_sample s[3];
	struct hpcc_algo a = begun(p);
	int i;

	for (i = 0; i < 3; i++)
		s[i] = (struct hpcc_sample){ .hop = i + 1, .tag = i,
					     .ts = 1000000, .tx = 1000000 };
	hpcc_new_ack(&a, p, s, 3, 0, 1000);
	return a;
}

static struct hpcc_sample hop_next(const struct hpcc_algo *a, u8 hop, u64 dts,
				   u64 dtx)
{
	const struct hpcc_link *l = &a->L[hop - 1];

	return (struct hpcc_sample){ .hop = hop, .tag = l->tag,
				     .ts = l->ts + dts, .tx = l->tx + dtx };
}

TEST(measure_inflight__largest_link_counts)
{
	static const u64 dtx[3][3] = { { 5, 2, 1 }, { 2, 5, 1 }, { 1, 2, 5 } };
	struct hpcc_params p = params(5);
	int i, k;

	for (i = 0; i < 3; i++) {
		struct hpcc_algo a = three(&p);
		struct hpcc_sample s[3];

		for (k = 0; k < 3; k++)
			s[k] = hop_next(&a, k + 1, T_NS,
					dtx[i][k] * T_NS / 10);
		assert_int_equal(hpcc_measure_inflight(&a, &p, s, 3), 0);
		assert_true(a.U_q24 == ONE / 2);
	}
}

TEST(measure_inflight__order_of_records_is_no_matter)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = three(&p), b = copy_of(&a);
	struct hpcc_sample s[3], r[3];
	int k;

	for (k = 0; k < 3; k++) {
		s[k] = hop_next(&a, k + 1, 1000 + k, 500 - k);
		r[2 - k] = s[k];
	}
	hpcc_measure_inflight(&a, &p, s, 3);
	hpcc_measure_inflight(&b, &p, r, 3);
	assert_equal(&a, &b);
}

TEST(measure_inflight__tau_of_the_largest_link)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = three(&p);
	struct hpcc_sample s[3];

	s[0] = hop_next(&a, 1, T_NS, T_NS / 10);
	s[1] = hop_next(&a, 2, T_NS / 2, T_NS / 4);
	s[2] = hop_next(&a, 3, T_NS, T_NS / 5);
	hpcc_measure_inflight(&a, &p, s, 3);
	assert_near(U_of(&a), 0.75L, 1e-12);
}

TEST(measure_inflight__first_of_equal_links)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = three(&p);
	struct hpcc_sample s[2];

	s[0] = hop_next(&a, 1, T_NS / 2, T_NS / 4);
	s[1] = hop_next(&a, 2, T_NS, T_NS / 2);
	hpcc_measure_inflight(&a, &p, s, 2);
	assert_near(U_of(&a), 0.75L, 1e-12);
}

/* A packet that a fast link sends in less than a unit of time. */
TEST(measure_inflight__no_load_counts)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS / 4, 0, 0);

	assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1), 0);
	assert_near(U_of(&a), 0.75L, 1e-12);
	s = next(&a, T_NS, 0, 0);
	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_true(U_q44(&a) == 0);
}

/* Several links without load: one of those that were measured. */
TEST(measure_inflight__no_load_anywhere)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = three(&p);
	struct hpcc_sample s = hop_next(&a, 2, T_NS / 4, 0);

	hpcc_measure_inflight(&a, &p, &s, 1);
	assert_near(U_of(&a), 0.75L, 1e-12);
}

TEST(measure_inflight__missing_link_is_remembered)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = three(&p);
	struct hpcc_sample s[3];

	s[0] = hop_next(&a, 1, T_NS, T_NS / 4);
	s[1] = hop_next(&a, 2, T_NS, T_NS / 2);
	hpcc_measure_inflight(&a, &p, s, 2);
	assert_true(a.U_q24 == ONE / 2);
	/* below link 2: U stays */
	s[0] = hop_next(&a, 1, T_NS, T_NS * 3 / 8);
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 1), 0);
	assert_true(a.U_q24 == ONE / 2);
	assert_true(a.L[0].u_q24 == ONE * 3 / 8);
	/* above it: U moves */
	s[0] = hop_next(&a, 1, T_NS, T_NS * 3 / 4);
	hpcc_measure_inflight(&a, &p, s, 1);
	assert_true(a.U_q24 == ONE * 3 / 4);
	/* link 2's interval is as long as it was not heard of */
	s[1] = hop_next(&a, 2, 4 * T_NS, 4 * T_NS);
	hpcc_measure_inflight(&a, &p, s + 1, 1);
	assert_true(a.U_q24 == ONE);
}

TEST(measure_inflight__later_link_has_no_rate_yet)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s[2];

	s[0] = next(&a, T_NS, T_NS / 2, 0);
	s[1] = (struct hpcc_sample){ .hop = 15, .ts = 77, .tx = 1ULL << 50,
				     .qlen = 1ULL << 50 };
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 2), HPCC_ACK_NEW);
	assert_true(a.U_q24 == ONE / 2);
	assert_true(a.L[14].valid && a.L[14].u_q24 == 0);
}

TEST(measure_inflight__no_records)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p), before = copy_of(&a);

	assert_int_equal(hpcc_measure_inflight(&a, &p, NULL, 0),
			 HPCC_ACK_NO_SAMPLE);
	assert_equal(&a, &before);
}

TEST(measure_inflight__ts_does_not_go_back)
{
	static const s64 dts[] = { 0, -1, -1000000, -(1LL << 62) };
	struct hpcc_params p = params(5);
	unsigned int i;

	for (i = 0; i < sizeof(dts) / sizeof(dts[0]); i++) {
		struct hpcc_algo a = started(&p), before = copy_of(&a);
		struct hpcc_sample s = next(&a, dts[i], 100, 9 * T_NS);

		assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1),
				 HPCC_ACK_TS_BACK | HPCC_ACK_NO_SAMPLE);
		assert_equal(&a, &before);
	}
}

TEST(measure_inflight__unusable_record_takes_its_link_out)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = three(&p);
	struct hpcc_sample s[2];

	s[0] = hop_next(&a, 1, T_NS, T_NS);
	s[1] = hop_next(&a, 2, T_NS, T_NS / 2);
	hpcc_measure_inflight(&a, &p, s, 2);
	assert_true(a.U_q24 == ONE);
	s[0] = hop_next(&a, 1, 0, 0);
	s[1] = hop_next(&a, 2, T_NS, T_NS / 2);
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 2), HPCC_ACK_TS_BACK);
	assert_true(a.U_q24 == ONE / 2);
	/* with its next record it is back */
	s[0] = hop_next(&a, 1, T_NS, T_NS * 3 / 4);
	hpcc_measure_inflight(&a, &p, s, 1);
	assert_true(a.U_q24 == ONE * 3 / 4);
}

TEST(measure_inflight__tx_back_starts_the_link_anew)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS, T_NS, 0);

	hpcc_measure_inflight(&a, &p, &s, 1);
	s = next(&a, 100, -1, 9 * T_NS);
	assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1),
			 HPCC_ACK_TX_BACK | HPCC_ACK_NO_SAMPLE);
	assert_true(a.L[0].tx == s.tx && a.L[0].ts == s.ts);
	assert_true(a.L[0].u_q24 == 0 && a.U_q24 == ONE);
	s = next(&a, T_NS, T_NS / 2, 0);
	assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1), 0);
	assert_true(a.U_q24 == ONE / 2);
}

TEST(measure_inflight__tx_excess_beyond_4_dts_and_T)
{
	static const u64 dts[] = { 1, 999, 10000, 1ULL << 61 };
	struct hpcc_params p = params(5);
	unsigned int i;

	for (i = 0; i < sizeof(dts) / sizeof(dts[0]); i++) {
		struct hpcc_algo a = started(&p), before = copy_of(&a);
		u64 most = 4 * dts[i] + T_NS;
		struct hpcc_sample s;

		if (most >> 63)		/* that far ahead is behind */
			most = ~0ULL >> 1;
		s = next(&a, dts[i], most + 1, 0);
		assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1),
				 HPCC_ACK_NO_SAMPLE |
				 (most == ~0ULL >> 1 ? HPCC_ACK_TX_BACK :
						       HPCC_ACK_TX_EXCESS));
		if (most != ~0ULL >> 1)
			assert_equal(&a, &before);
		a = copy_of(&before);
		s = next(&a, dts[i], most, 0);
		assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1), 0);
	}
}

TEST(measure_inflight__tag_changed)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = three(&p);
	struct hpcc_sample s[2];

	a.L[0].u_q24 = 3 * ONE;
	s[0] = hop_next(&a, 1, T_NS, T_NS);
	s[0].tag++;
	s[1] = hop_next(&a, 2, T_NS, T_NS / 2);
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 2), HPCC_ACK_PATH);
	assert_true(a.U_q24 == ONE / 2);
	assert_true(a.L[0].u_q24 == 0 && a.L[0].ts == s[0].ts);
	assert_int_equal(a.L[0].tag, s[0].tag);
	/* known by its new tag from then on */
	s[0] = hop_next(&a, 1, T_NS, T_NS);
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 1), 0);
	assert_true(a.U_q24 == ONE);
	/* alone in its ACK it is no measurement, nor is the old link's u' */
	s[0] = hop_next(&a, 1, T_NS, T_NS);
	s[0].tag++;
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 1),
			 HPCC_ACK_PATH | HPCC_ACK_NO_SAMPLE);
	s[1] = hop_next(&a, 2, T_NS, T_NS / 4);
	hpcc_measure_inflight(&a, &p, s + 1, 1);
	assert_true(a.U_q24 == ONE / 4);
}

TEST(measure_inflight__repeated_hop)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s[2];

	s[0] = next(&a, T_NS, T_NS / 2, 0);
	s[1] = next(&a, 2 * T_NS, 5 * T_NS, 9 * T_NS);
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 2), HPCC_ACK_REPEAT);
	assert_true(a.U_q24 == ONE / 2 && a.L[0].ts == s[0].ts);
	/* also where the first one was not usable */
	s[0] = next(&a, 0, 0, 0);
	s[1] = next(&a, T_NS, T_NS, 0);
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 2),
			 HPCC_ACK_REPEAT | HPCC_ACK_TS_BACK |
			 HPCC_ACK_NO_SAMPLE);
}

TEST(measure_inflight__hop_out_of_range)
{
	static const u8 bad[] = { 0, 16, 128, 255 };
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	unsigned int i;

	for (i = 0; i < sizeof(bad); i++) {
		struct hpcc_algo before = copy_of(&a);
		struct hpcc_sample s = { .hop = bad[i], .ts = 5 };

		assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1),
				 HPCC_ACK_BAD_HOP | HPCC_ACK_NO_SAMPLE);
		assert_equal(&a, &before);
	}
}

TEST(measure_inflight__bad_record_beside_good_ones)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s[3] = { { .hop = 0 }, { }, { .hop = 77 } };

	s[1] = next(&a, T_NS, T_NS / 2, 0);
	assert_int_equal(hpcc_measure_inflight(&a, &p, s, 3), HPCC_ACK_BAD_HOP);
	assert_true(a.U_q24 == ONE / 2);
}

/* ---- Quiet links ---------------------------------------------------------- */

/* An ACK that says that hop @hop is quiet, @tau behind the last one. */
static u32 quiet_ack(struct hpcc_algo *a, const struct hpcc_params *p, u32 hop, u64 tau,
		     u32 ack_seq)
{
	struct hpcc_measure m = {};

	hpcc_measure_quiet(a, p, hop, tau, &m);
	return hpcc_follow(a, p, hpcc_measure_end(a, p, &m), ack_seq, ack_seq + 1000);
}

TEST(measure_quiet__first_is_stored_only)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = begun(&p);

	assert_int_equal(quiet_ack(&a, &p, 1, T_NS, 1000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW | HPCC_ACK_FIRST);
	assert_true(a.W_q16 == p.W_max_q16 && a.U_q24 == ONE);
	assert_int_equal(a.end, 1);
}

/* W is what it is where the link is full without a queue, and W_ai more. */
TEST(measure_quiet__adds_at_first)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);

	hpcc_algo_restart(&a, &p, BYTES(50000));
	set_U(&a, p.eta_q24);
	assert_int_equal(quiet_ack(&a, &p, 1, T_NS / 8, 200000), HPCC_ACK_UPDATE);
	assert_int_equal(a.U_q24, p.eta_q24);
	assert_near(a.W_q16, BYTES(50000) + p.W_ai_q16, 16);
}

/* Then by 64/63, 64/62 .. 2 in each round trip, until W is at W_init. */
TEST(measure_quiet__then_multiplies)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	u64 before;
	u32 i;

	hpcc_algo_restart(&a, &p, BYTES(2000));
	set_U(&a, p.eta_q24);
	for (i = 1; i <= 40; i++) {
		u32 steps = min(i - 1, 32U);

		before = a.W_q16;
		quiet_ack(&a, &p, 1, T_NS, 200000 * i);
		assert_int_equal(a.U_q24, p.eta_q24 - steps * (p.eta_q24 / 64));
		assert_near(a.W_q16, min(before * 64.0L / (64 - steps) + p.W_ai_q16,
					 (long double)p.W_max_q16), 16 + before * 4e-6L);
	}
	assert_true(a.W_q16 == p.W_max_q16);
}

/* A record ends it, and says at once what waits: the link was busy meanwhile. */
/* A queue that marks and does not stamp limits W beside a quiet link as well. */
TEST(measure_quiet__marks_reduce)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	u64 before;
	u32 i;

	set_U(&a, p.eta_q24);
	for (i = 1; i <= 40; i++)
		quiet_ack(&a, &p, 1, T_NS, 200000 * i);
	assert_true(a.W_q16 == p.W_max_q16);
	for (; i <= 50; i++) {
		before = a.Wc_q16;
		hpcc_algo_reduce(&a, &p, 3);
		quiet_ack(&a, &p, 1, T_NS, 200000 * i);
		assert_near(a.W_q16, before * 7.0L / 8 + p.W_ai_q16, 16);
	}
	/* They end: HPCC_CE_STAGES additive increases in all, and W multiplies again. */
	for (; i <= 54; i++) {
		before = a.W_q16;
		quiet_ack(&a, &p, 1, T_NS, 200000 * i);
		assert_near(a.W_q16, before + p.W_ai_q16, 16);
	}
	before = a.W_q16;
	quiet_ack(&a, &p, 1, T_NS, 200000 * i);
	assert_near(a.W_q16, 2.0L * before + p.W_ai_q16, 16 + before * 8e-6L);
}

TEST(measure_quiet__first_record_measures)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, 40 * T_NS, 0, T_NS / 4);
	u32 i;

	for (i = 1; i <= 10; i++)
		quiet_ack(&a, &p, 1, T_NS, 200000 * i);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 3000000, 4000000), HPCC_ACK_UPDATE);
	assert_int_equal(a.U_q24, ONE + ONE / 4);
	assert_int_equal(a.L[0].quiet, 0);
	/* the next one measures, from there */
	s = next(&a, T_NS, T_NS / 2, 0);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 5000000, 6000000), HPCC_ACK_UPDATE);
	assert_int_equal(a.U_q24, ONE / 2);
	/* and quiet begins anew, at eta */
	quiet_ack(&a, &p, 1, T_NS, 7000000);
	assert_int_equal(a.U_q24, p.eta_q24);
}

/* Another link at that hop: its first record is a baseline. */
TEST(measure_quiet__other_link_meanwhile)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, 40 * T_NS, 0, T_NS);

	quiet_ack(&a, &p, 1, T_NS, 200000);
	s.tag++;
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 3000000, 4000000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_PATH);
	/* one that never told its tag has not changed it */
	quiet_ack(&a, &p, 2, T_NS, 200000);
	s.hop = 2;
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 5000000, 6000000), HPCC_ACK_UPDATE);
}

/* The busiest link rules, whether it is quiet or not. */
TEST(measure_quiet__beside_a_measured_link)
{
	static const u64 dtx[] = { 4000, 9900 };
	u32 i;

	for (i = 0; i < 2; i++) {
		struct hpcc_params p = params(5);
		struct hpcc_algo a = started(&p);
		struct hpcc_sample s;

		quiet_ack(&a, &p, 2, T_NS, 200000);
		quiet_ack(&a, &p, 2, T_NS, 200000);
		assert_int_equal(a.U_q24, p.eta_q24);
		s = next(&a, T_NS, dtx[i], 0);
		hpcc_new_ack(&a, &p, &s, 1, 400000, 500000);
		assert_near(U_of(&a), max(0.95L, dtx[i] / 10000.0L), 1e-6);
		set_U(&a, ONE);
		quiet_ack(&a, &p, 2, T_NS, 200000);
		/* two round trips have passed */
		assert_near(U_of(&a), i ? 1 : 0.95L * 62 / 64, 1e-6);
	}
}

/* Who is quiet and then says nothing has no load, as others. */
TEST(measure_quiet__silence)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	u32 i;

	quiet_ack(&a, &p, 2, T_NS, 200000);
	for (i = 1; i <= HPCC_LINK_ROUNDS + 2; i++) {
		struct hpcc_sample s = next(&a, T_NS, T_NS / 2, 0);

		hpcc_new_ack(&a, &p, &s, 1, 300000 * i, 300000 * i + 1000);
	}
	assert_near(U_of(&a), 0.5L, 1e-6);
	hpcc_algo_forget_hop(&a, 2);
	assert_int_equal(a.L[1].quiet, 0);
}

/* Slow start looks for the window and limits it, so a quiet link does not. */
TEST(measure_quiet__slow_start_doubles)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	u64 before;
	u32 i;

	hpcc_algo_restart(&a, &p, BYTES(1000));
	hpcc_algo_slow(&a);
	for (i = 1; i <= 5; i++) {
		before = a.W_q16;
		quiet_ack(&a, &p, 1, T_NS, 200000 * i);
		hpcc_algo_acked(&a, &p, 1 << (i - 1), 1000, before);
		assert_near(a.W_q16, BYTES(1000) << i, p.W_ai_q16 * (2 << i));
	}
}

/* Any series of records and quiet: W and U keep their bounds. */
TEST(measure_quiet__bounds)
{
	u64 seed = 12;
	u32 run, i;

	for (run = 0; run < 300; run++) {
		struct hpcc_params p = params(random_below(&seed, 8));
		struct hpcc_algo a = started(&p);

		for (i = 1; i <= 100; i++) {
			u64 dts = random_below(&seed, 3 * T_NS);
			struct hpcc_sample s = next(&a, dts, random_below(&seed, dts + 1),
						    random_below(&seed, 3 * T_NS));

			if (random_below(&seed, 4))
				quiet_ack(&a, &p, 1, dts, 200000 * i);
			else
				hpcc_new_ack(&a, &p, &s, 1, 200000 * i, 200000 * i + 1000);
			assert_in_range(a.W_q16, p.W_min_q16, p.W_max_q16);
			assert_in_range(a.Wc_q16, p.W_min_q16, p.W_max_q16);
			assert_true(U_of(&a) <= 4.001L);
			assert_in_range(a.inc_stage, 0, p.max_stage);
		}
	}
}

/* ---- ComputeWind -------------------------------------------------------- */

TEST(compute_wind__multiplicative_from_eta_on)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	u64 W;

	a.Wc_q16 = BYTES(50000);
	set_U(&a, 2 * ETA);
	W = hpcc_compute_wind(&a, &p, false);
	assert_near(ldexpl(W, -16), 25062.5L, 1e-4);
	/* U = eta: the same by either branch, but incStage tells */
	set_U(&a, ETA);
	a.inc_stage = 3;
	hpcc_compute_wind(&a, &p, true);
	assert_int_equal(a.inc_stage, 0);
	assert_near(ldexpl(a.Wc_q16, -16), 50062.5L, 1e-4);
}

TEST(compute_wind__additive_below_eta)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);

	a.Wc_q16 = BYTES(50000);
	set_U(&a, ETA - 1);
	a.U_low = (1U << HPCC_U_LOW_BITS) - 1;
	a.inc_stage = 4;
	assert_true(hpcc_compute_wind(&a, &p, true) == BYTES(50000) + BYTES(125) / 2);
	assert_int_equal(a.inc_stage, 5);
	assert_true(a.Wc_q16 == BYTES(50000) + BYTES(125) / 2);
}

TEST(compute_wind__multiplicative_after_max_stage)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	u64 W;

	a.Wc_q16 = BYTES(10000);
	set_U(&a, ETA / 4);
	a.inc_stage = 5;
	W = hpcc_compute_wind(&a, &p, true);
	assert_near(ldexpl(W, -16), 40062.5L, 1e-2);
	assert_true(a.Wc_q16 == W);
	assert_int_equal(a.inc_stage, 0);
}

TEST(compute_wind__max_stage_0_never_adds_only)
{
	struct hpcc_params p = params(0);
	struct hpcc_algo a = started(&p);

	a.Wc_q16 = BYTES(10000);
	set_U(&a, ETA / 2);
	assert_near(ldexpl(hpcc_compute_wind(&a, &p, true), -16), 20062.5L,
		    1e-2);
	assert_int_equal(a.inc_stage, 0);
}

TEST(compute_wind__without_update_keeps_Wc)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p), before;

	a.Wc_q16 = BYTES(50000);
	set_U(&a, 2 * ONE);
	a.inc_stage = 2;
	before = copy_of(&a);
	assert_true(hpcc_compute_wind(&a, &p, false) < BYTES(25000));
	assert_equal(&a, &before);
	set_U(&a, ONE / 2);
	before = copy_of(&a);
	assert_true(hpcc_compute_wind(&a, &p, false) ==
		    BYTES(50000) + BYTES(125) / 2);
	assert_equal(&a, &before);
}

TEST(compute_wind__clamps_what_Wc_stores)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);

	set_U(&a, ONE / 2);
	assert_true(hpcc_compute_wind(&a, &p, true) == BYTES(W_INIT));
	assert_true(a.Wc_q16 == BYTES(W_INIT));
	a.inc_stage = 5;
	assert_true(hpcc_compute_wind(&a, &p, true) == BYTES(W_INIT));
	assert_true(a.Wc_q16 == BYTES(W_INIT));
	/* W_ai comes before the clamp: 19 + 62.5 is under W_min, 119 + 62.5 not */
	a.Wc_q16 = BYTES(20000);
	set_U(&a, 1000 * ONE);
	assert_true(hpcc_compute_wind(&a, &p, true) == BYTES(W_MIN));
	assert_true(a.Wc_q16 == BYTES(W_MIN));
	a.Wc_q16 = BYTES(W_INIT);
	set_U(&a, 1000 * ONE);
	assert_near(ldexpl(hpcc_compute_wind(&a, &p, true), -16), 181.25L, 0.01);
}

TEST(compute_wind__U_of_0)
{
	struct hpcc_params p = params(0);
	struct hpcc_algo a = started(&p);
	u64 U;

	for (U = 0; U < 1ULL << 40; U = 2 * U + 1) {
		a.Wc_q16 = BYTES(W_MIN);
		a.U_q24 = U >> HPCC_U_LOW_BITS;
		a.U_low = U & ((1U << HPCC_U_LOW_BITS) - 1);
		if (U < 1ULL << 33)
			assert_true(hpcc_compute_wind(&a, &p, false) ==
				    BYTES(W_INIT));
		else
			assert_near(ldexpl(hpcc_compute_wind(&a, &p, false), -16),
				    fminl(62.5L + W_MIN * 0.95L / U_of(&a), W_INIT),
				    W_INIT * 1e-6L);
	}
}

TEST(compute_wind__largest_numbers)
{
	struct hpcc_params p;
	struct hpcc_algo a;

	hpcc_params_init(&p, HPCC_T_MAX, ~0ULL, 0, ~0ULL, ~0U, 0);
	hpcc_algo_init(&a, &p);
	set_U(&a, 1);
	assert_true(hpcc_compute_wind(&a, &p, true) == HPCC_W_MAX_Q16);
	p.W_ai_q16 = 0;
	set_U(&a, HPCC_U_MAX_Q24);
	assert_true(hpcc_compute_wind(&a, &p, true) == HPCC_W_MAX_Q16 >> 16);
}

/* ---- NewAck ------------------------------------------------------------- */

TEST(new_ack__first_is_stored_only)
{
	struct hpcc_params p = params(0);
	struct hpcc_algo a = started(&p);

	assert_true(a.W_q16 == BYTES(W_INIT) && a.Wc_q16 == BYTES(W_INIT));
	assert_true(a.U_q24 == ONE);
	assert_int_equal(a.inc_stage, 0);
	assert_int_equal(a.last_update_seq, 100000);
	assert_true(a.L[0].valid && a.L[0].ts == 1000000 && a.L[0].tx == 500000);
	assert_int_equal(a.L[0].tag, 7);
}

TEST(new_ack__first_needs_a_record)
{
	const struct hpcc_sample bad = { .hop = 0 };
	struct hpcc_params p = params(5);
	struct hpcc_algo a = begun(&p);

	assert_int_equal(hpcc_new_ack(&a, &p, NULL, 0, 1000, 5000),
			 HPCC_ACK_NO_SAMPLE);
	assert_int_equal(hpcc_new_ack(&a, &p, &bad, 1, 1000, 5000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_BAD_HOP);
	assert_false(a.started);
}

TEST(new_ack__once_in_a_round_trip)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS, T_NS * 2, 0);

	a.per_rtt = true;
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 100000, 150000), 0);
	assert_true(a.W_q16 == BYTES(W_INIT));
	s = next(&a, T_NS, T_NS * 2, 0);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 100001, 150000),
			 HPCC_ACK_UPDATE);
	assert_near(ldexpl(a.W_q16, -16), W_INIT * 0.475L + 62.5, 0.05);
	assert_true(a.Wc_q16 == a.W_q16);
}

TEST(new_ack__synchronises_beyond_last_update_seq)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS, T_NS * 2, 0);

	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 100000, 150000), 0);
	assert_near(ldexpl(a.W_q16, -16), W_INIT * 0.475L + 62.5, 0.05);
	assert_true(a.Wc_q16 == BYTES(W_INIT));
	assert_int_equal(a.last_update_seq, 100000);
	s = next(&a, T_NS, T_NS * 2, 0);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 100001, 150000),
			 HPCC_ACK_UPDATE);
	assert_near(ldexpl(a.Wc_q16, -16), W_INIT * 0.475L + 62.5, 0.05);
	assert_true(a.Wc_q16 == a.W_q16);
	assert_int_equal(a.last_update_seq, 150000);
}

TEST(new_ack__five_additive_steps_then_a_jump)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	u32 i;

	a.Wc_q16 = BYTES(10000);
	for (i = 1; i <= 5; i++) {
		struct hpcc_sample s = next(&a, T_NS, T_NS / 2, 0);

		assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, a.last_update_seq + 1,
					      a.last_update_seq + 1000),
				 HPCC_ACK_UPDATE);
		assert_true(a.W_q16 == BYTES(10000) + i * BYTES(125) / 2);
		assert_int_equal(a.inc_stage, i);
	}
	{
		struct hpcc_sample s = next(&a, T_NS, T_NS / 2, 0);

		hpcc_new_ack(&a, &p, &s, 1, a.last_update_seq + 1,
			     a.last_update_seq + 1000);
	}
	assert_near(ldexpl(a.W_q16, -16), 10312.5L * 1.9L + 62.5L, 0.01);
	assert_int_equal(a.inc_stage, 0);
}

TEST(new_ack__sequence_numbers_wrap)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS, T_NS, 0);

	a.last_update_seq = 0xfffffff0;
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 0xffffff00, 0x10), 0);
	s = next(&a, T_NS, T_NS, 0);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 0x8, 0x20),
			 HPCC_ACK_UPDATE);
	assert_int_equal(a.last_update_seq, 0x20);
	s = next(&a, T_NS, T_NS, 0);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 0xfffffff8, 0x20), 0);
}

TEST(new_ack__last_update_seq_moves_forward_only)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS, T_NS, 0);

	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 100001, 90000),
			 HPCC_ACK_UPDATE);
	assert_int_equal(a.last_update_seq, 100000);
}

/* Round trips in which link 3 tells 1/4, and 2, the most loaded one, nothing. */
static u32 rounds_without(struct hpcc_algo *a, const struct hpcc_params *p, u32 rounds)
{
	u32 bits = 0;

	while (rounds--) {
		struct hpcc_sample s = hop_next(a, 3, T_NS, T_NS / 4);

		bits |= hpcc_new_ack(a, p, &s, 1, a->last_update_seq + 1,
				     a->last_update_seq + 1000);
	}
	return bits;
}

TEST(new_ack__one_U_is_answered_once)
{
	struct hpcc_params p = params(0);
	struct hpcc_algo a = three(&p);
	struct hpcc_sample s = hop_next(&a, 2, T_NS, 2 * T_NS);
	u64 W_q16;

	hpcc_new_ack(&a, &p, &s, 1, a.last_update_seq + 1,
		     a.last_update_seq + 1000);
	assert_true(a.U_q24 == 2 * ONE);
	W_q16 = a.W_q16;
	assert_near(W_q16, BYTES(W_INIT) * 0.475 + BYTES(125) / 2, BYTES(1));
	assert_int_equal(rounds_without(&a, &p, HPCC_LINK_ROUNDS - 2), 0);
	assert_true(a.U_q24 == 2 * ONE && a.W_q16 == W_q16);
	s = hop_next(&a, 2, T_NS, T_NS);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, a.last_update_seq + 1,
				      a.last_update_seq + 1000),
			 HPCC_ACK_UPDATE);
}

TEST(new_ack__what_is_not_heard_of_is_forgotten)
{
	struct hpcc_params p = params(0);
	struct hpcc_algo a = three(&p);
	struct hpcc_sample s = hop_next(&a, 2, T_NS, 2 * T_NS);

	hpcc_new_ack(&a, &p, &s, 1, a.last_update_seq + 1,
		     a.last_update_seq + 1000);
	assert_int_equal(rounds_without(&a, &p, HPCC_LINK_ROUNDS), 0);
	assert_true(a.U_q24 == 2 * ONE);
	assert_int_equal(rounds_without(&a, &p, 1), HPCC_ACK_UPDATE);
	assert_true(a.U_q24 == ONE / 4);
	/* Its next record tells of all the time since. */
	s = hop_next(&a, 2, 20 * T_NS, 10 * T_NS);
	assert_int_equal(hpcc_measure_inflight(&a, &p, &s, 1), 0);
	assert_true(a.L[1].u_q24 == ONE / 2 && a.U_q24 == ONE / 2);
}

TEST(new_ack__restart_sets_last_update_seq_anew)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);
	struct hpcc_sample s = next(&a, T_NS, T_NS, 0);

	hpcc_algo_restart(&a, &p, BYTES(1000));
	hpcc_new_ack(&a, &p, &s, 1, 2000, 90000);
	assert_int_equal(a.last_update_seq, 90000);
	assert_false(a.resync);
}

TEST(new_ack__without_measurement_changes_nothing)
{
	struct hpcc_params p = params(0);
	struct hpcc_algo a = started(&p), before;
	struct hpcc_sample s = next(&a, 0, 0, 0);

	a.W_q16 = BYTES(3000);
	hpcc_algo_restart(&a, &p, BYTES(2000));
	before = copy_of(&a);
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 200000, 300000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_TS_BACK);
	assert_equal(&a, &before);
	assert_int_equal(hpcc_new_ack(&a, &p, NULL, 0, 200000, 300000),
			 HPCC_ACK_NO_SAMPLE);
	assert_equal(&a, &before);
}

TEST(wc_update_allowed__twice_in_T)
{
	struct hpcc_params p = params(5);

	assert_false(hpcc_wc_update_allowed(&p, p.T / 2 - 1, 3));
	assert_true(hpcc_wc_update_allowed(&p, (p.T + 1) / 2, 3));
	p = params(0);
	assert_false(hpcc_wc_update_allowed(&p, p.T / 2 - 1, 0));
	assert_true(hpcc_wc_update_allowed(&p, (p.T + 1) / 2, 0));
}

TEST(wc_update_allowed__max_stage_0_settles)
{
	struct hpcc_params p = params(0);

	assert_false(hpcc_wc_update_allowed(&p, 3 * p.T - 1, 3));
	assert_true(hpcc_wc_update_allowed(&p, 3 * p.T, 3));
	p.T = HPCC_T_MAX;
	assert_false(hpcc_wc_update_allowed(&p, 64 * p.T - 1, 64));
	assert_true(hpcc_wc_update_allowed(&p, 64 * p.T, 64));
}

TEST(pacing_rate__is_W_over_T)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);

	assert_near(hpcc_pacing_rate(&a, &p, 1000000000), 12.5e9L, 1);
	a.W_q16 = BYTES(1000);
	assert_near(hpcc_pacing_rate(&a, &p, 1000000000), 1e8L, 1);
}

TEST(pacing_rate__whole_range)
{
	static const long double bps[] = { 1e7, 1e9, 1e11, 8e11 };
	static const u64 T_ns[] = { 1000, 4160, 1000000, 1000000000 };
	unsigned int i, k;

	for (i = 0; i < 4; i++)
		for (k = 0; k < 4; k++) {
			struct hpcc_params p;
			struct hpcc_algo a;
			u64 W = bps[i] / 8 * T_ns[k] / 1e9L * 65536;

			hpcc_params_init(&p, T_ns[k], W, W / 1024, 0, ETA, 5);
			hpcc_algo_init(&a, &p);
			assert_near(hpcc_pacing_rate(&a, &p, 1000000000),
				    bps[i] / 8, 1 + bps[i] * 1e-6L +
				    1e9L / T_ns[k] / 65536);
		}
}

TEST(pacing_rate__saturates)
{
	struct hpcc_params p;
	struct hpcc_algo a;

	hpcc_params_init(&p, 1, ~0ULL, 0, 0, ETA, 5);
	hpcc_algo_init(&a, &p);
	assert_true(hpcc_pacing_rate(&a, &p, 1000000000) == 65536000000000ULL);
}
