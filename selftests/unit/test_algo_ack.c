// SPDX-License-Identifier: GPL-2.0
/* <hpcc/law/algo.h>, in the order of its functions: quiet links, ComputeWind, NewAck, pacing. */
#include "connection.h"

/* Process an ACK that reports hop @hop as quiet, @tau after the previous ACK. */
static u32 quiet_ack(u32 hop, u64 tau, u32 ack_seq)
{
	struct hpcc_measure m = {};

	hpcc_measure_quiet(&a, &p, hop, tau, &m);
	return hpcc_follow(&a, &p, hpcc_measure_end(&a, &p, &m), ack_seq, ack_seq + 1000,
			   hpcc_compute_wind);
}

TEST(measure_quiet__first_is_stored_only)
{
	a = begun(&p);
	assert_int_equal(quiet_ack(1, T_NS, 1000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW | HPCC_ACK_FIRST);
	assert_true(a.W_q16 == p.W_max_q16 && a.U_q24 == ONE);
	assert_int_equal(a.end, 1);
}

/* At first a quiet link counts as U = eta, a full link without a queue: W grows by W_ai. */
TEST(measure_quiet__adds_at_first)
{
	hpcc_algo_restart(&a, &p, BYTES(50000));
	set_U(&a, p.eta_q24);
	assert_int_equal(quiet_ack(1, T_NS / 8, 200000), HPCC_ACK_UPDATE);
	assert_int_equal(a.U_q24, p.eta_q24);
	assert_near(a.W_q16, BYTES(50000) + p.W_ai_q16, 16);
}

/* In later round trips W is multiplied by 64/63, 64/62 .. 2, until W is W_init. */
TEST(measure_quiet__multiplies_later)
{
	u64 before;

	hpcc_algo_restart(&a, &p, BYTES(2000));
	set_U(&a, p.eta_q24);
	for (u32 i = 1; i <= 40; i++) {
		u32 steps = min(i - 1, 32U);

		before = a.W_q16;
		quiet_ack(1, T_NS, 200000 * i);
		assert_int_equal(a.U_q24, p.eta_q24 - steps * (p.eta_q24 / 64));
		assert_near(a.W_q16, min(before * 64.0L / (64 - steps) + p.W_ai_q16,
					 (long double)p.W_max_q16), 16 + before * 4e-6L);
	}
	assert_true(a.W_q16 == p.W_max_q16);
}

/* A queue that marks but does not stamp limits W, even if the stamped link is quiet. */
TEST(measure_quiet__marks_reduce)
{
	u64 before;
	u32 i;

	set_U(&a, p.eta_q24);
	for (i = 1; i <= 40; i++)
		quiet_ack(1, T_NS, 200000 * i);
	assert_true(a.W_q16 == p.W_max_q16);
	for (; i <= 50; i++) {
		before = a.Wc_q16;
		hpcc_algo_reduce(&a, &p, 3);
		quiet_ack(1, T_NS, 200000 * i);
		assert_near(a.W_q16, before * 7.0L / 8 + p.W_ai_q16, 16);
	}
	/* The marks end: after HPCC_CE_STAGES additive increases in total W is multiplied again. */
	for (; i <= 54; i++) {
		before = a.W_q16;
		quiet_ack(1, T_NS, 200000 * i);
		assert_near(a.W_q16, before + p.W_ai_q16, 16);
	}
	before = a.W_q16;
	quiet_ack(1, T_NS, 200000 * i);
	assert_near(a.W_q16, 2.0L * before + p.W_ai_q16, 16 + before * 8e-6L);
}

/* The first record after the quiet time is measured at once, without an earlier record: the link
 * has a queue, so its rate counts as 1.
 */
TEST(measure_quiet__first_record_measures)
{
	*s = next(&a, 1, 40 * T_NS, 0, T_NS / 4);
	for (u32 i = 1; i <= 10; i++)
		quiet_ack(1, T_NS, 200000 * i);
	assert_int_equal(hpcc_new_ack(&a, &p, s, 1, 3000000, 4000000), HPCC_ACK_UPDATE);
	assert_int_equal(a.U_q24, ONE + ONE / 4);
	assert_int_equal(a.L[0].quiet, 0);
	/* the next record is compared with this record */
	assert_int_equal(ack(T_NS, T_NS / 2, 0, 5000000, 6000000), HPCC_ACK_UPDATE);
	assert_int_equal(a.U_q24, ONE / 2);
	/* when the hop becomes quiet again, its u' starts at eta */
	quiet_ack(1, T_NS, 7000000);
	assert_int_equal(a.U_q24, p.eta_q24);
}

/* The hop has another link after the quiet time: its first record is a baseline. */
TEST(measure_quiet__other_link_meanwhile)
{
	*s = next(&a, 1, 40 * T_NS, 0, T_NS);
	quiet_ack(1, T_NS, 200000);
	s->tag++;
	assert_int_equal(hpcc_new_ack(&a, &p, s, 1, 3000000, 4000000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_PATH);
	/* if the tag of a quiet link was unknown, its first record is no path change */
	quiet_ack(2, T_NS, 200000);
	s->hop = 2;
	assert_int_equal(hpcc_new_ack(&a, &p, s, 1, 5000000, 6000000), HPCC_ACK_UPDATE);
}

/* The most loaded link determines U, whether it is quiet or not. */
TEST(measure_quiet__beside_a_measured_link)
{
	static const u64 dtx[] = { 4000, 9900 };

	for (u32 i = 0; i < 2; i++) {
		begin(5);
		quiet_ack(2, T_NS, 200000);
		quiet_ack(2, T_NS, 200000);
		assert_int_equal(a.U_q24, p.eta_q24);
		ack(T_NS, dtx[i], 0, 400000, 500000);
		assert_near(U_of(&a), max(0.95L, dtx[i] / 10000.0L), 1e-6);
		set_U(&a, ONE);
		quiet_ack(2, T_NS, 200000);
		/* two round trips have passed */
		assert_near(U_of(&a), i ? 1 : 0.95L * 62 / 64, 1e-6);
	}
}

/* A quiet link whose reports stop counts as idle after a time, like any other link. */
TEST(measure_quiet__ends_without_reports)
{
	quiet_ack(2, T_NS, 200000);
	for (u32 i = 1; i <= HPCC_LINK_ROUNDS + 2; i++)
		ack(T_NS, T_NS / 2, 0, 300000 * i, 300000 * i + 1000);
	assert_near(U_of(&a), 0.5L, 1e-6);
	hpcc_algo_forget_hop(&a, 2);
	assert_int_equal(a.L[1].quiet, 0);
}

/* In slow start the first quiet report sets u' to its minimum, so only slow start limits W. */
TEST(measure_quiet__slow_start_doubles)
{
	u64 before;

	hpcc_algo_restart(&a, &p, BYTES(1000));
	hpcc_algo_slow(&a);
	for (u32 i = 1; i <= 5; i++) {
		before = a.W_q16;
		quiet_ack(1, T_NS, 200000 * i);
		hpcc_algo_acked(&a, &p, 1 << (i - 1), 1000, before);
		assert_near(a.W_q16, BYTES(1000) << i, p.W_ai_q16 * (2 << i));
	}
}

/* Compute W from this Wc and U. */
static u64 wind(u64 Wc_q16, u64 U_q24, bool update_wc)
{
	a.Wc_q16 = Wc_q16;
	set_U(&a, U_q24);
	return hpcc_compute_wind(&a, &p, update_wc);
}

TEST(compute_wind__multiplicative_from_eta_on)
{
	u64 W;

	assert_near(ldexpl(wind(BYTES(50000), 2 * ETA, false), -16), 25062.5L, 1e-4);
	/* with U = eta both branches give the same W; incStage shows which branch was taken */
	a.inc_stage = 3;
	wind(BYTES(50000), ETA, true);
	assert_int_equal(a.inc_stage, 0);
	assert_near(ldexpl(a.Wc_q16, -16), 50062.5L, 1e-4);
	/* below eta it is multiplicative after max_stage, with max_stage 0 always */
	a.inc_stage = 5;
	W = wind(BYTES(10000), ETA / 4, true);
	assert_near(ldexpl(W, -16), 40062.5L, 1e-2);
	assert_int_equal(a.Wc_q16, W);
	assert_int_equal(a.inc_stage, 0);
	begin(0);
	assert_near(ldexpl(wind(BYTES(10000), ETA / 2, true), -16), 20062.5L, 1e-2);
	assert_int_equal(a.inc_stage, 0);
}

TEST(compute_wind__additive_below_eta)
{
	a.Wc_q16 = BYTES(50000);
	set_U(&a, ETA - 1);
	a.U_low = (1U << HPCC_U_LOW_BITS) - 1;
	a.inc_stage = 4;
	assert_true(hpcc_compute_wind(&a, &p, true) == BYTES(50000) + BYTES(125) / 2);
	assert_int_equal(a.inc_stage, 5);
	assert_true(a.Wc_q16 == BYTES(50000) + BYTES(125) / 2);
}

TEST(compute_wind__without_update_keeps_Wc)
{
	struct hpcc_algo before;

	a.Wc_q16 = BYTES(50000);
	set_U(&a, 2 * ONE);
	a.inc_stage = 2;
	before = copy_of(&a);
	assert_true(hpcc_compute_wind(&a, &p, false) < BYTES(25000));
	assert_equal(&a, &before);
	set_U(&a, ONE / 2);
	before = copy_of(&a);
	assert_true(hpcc_compute_wind(&a, &p, false) == BYTES(50000) + BYTES(125) / 2);
	assert_equal(&a, &before);
}

TEST(compute_wind__clamps_Wc)
{
	for (u32 stage = 0; stage <= 5; stage += 5) {
		a.inc_stage = stage;
		assert_int_equal(wind(BYTES(W_INIT), ONE / 2, true), BYTES(W_INIT));
		assert_int_equal(a.Wc_q16, BYTES(W_INIT));
	}
	/* W_ai is added before W is clamped: 19 + 62.5 is below W_min, 119 + 62.5 is not */
	assert_int_equal(wind(BYTES(20000), 1000 * ONE, true), BYTES(W_MIN));
	assert_int_equal(a.Wc_q16, BYTES(W_MIN));
	assert_near(ldexpl(wind(BYTES(W_INIT), 1000 * ONE, true), -16), 181.25L, 0.01);
}

TEST(compute_wind__U_of_0)
{
	begin(0);
	for (u64 U = 0; U < 1ULL << 40; U = 2 * U + 1) {
		a.Wc_q16 = BYTES(W_MIN);
		a.U_q24 = U >> HPCC_U_LOW_BITS;
		a.U_low = U & ((1U << HPCC_U_LOW_BITS) - 1);
		if (U < 1ULL << 33)
			assert_true(hpcc_compute_wind(&a, &p, false) == BYTES(W_INIT));
		else
			assert_near(ldexpl(hpcc_compute_wind(&a, &p, false), -16),
				    fminl(62.5L + W_MIN * 0.95L / U_of(&a), W_INIT),
				    W_INIT * 1e-6L);
	}
}

TEST(compute_wind__largest_numbers)
{
	hpcc_params_init(&p, HPCC_T_MAX, ~0ULL, 0, ~0ULL, ~0U, 0);
	hpcc_algo_init(&a, &p);
	set_U(&a, 1);
	assert_true(hpcc_compute_wind(&a, &p, true) == HPCC_W_MAX_Q16);
	p.W_ai_q16 = 0;
	set_U(&a, HPCC_U_MAX_Q24);
	assert_true(hpcc_compute_wind(&a, &p, true) == HPCC_W_MAX_Q16 >> 16);
}

TEST(new_ack__first_is_stored_only)
{
	const struct hpcc_sample bad = { .hop = 0 };

	begin(0);
	assert_true(a.W_q16 == BYTES(W_INIT) && a.Wc_q16 == BYTES(W_INIT));
	assert_true(a.U_q24 == ONE);
	assert_int_equal(a.inc_stage, 0);
	assert_int_equal(a.last_update_seq, 100000);
	assert_true(a.L[0].valid && a.L[0].ts == 1000000 && a.L[0].tx == 500000);
	assert_int_equal(a.L[0].tag, 7);
	/* an ACK without a usable record is not the first */
	a = begun(&p);
	assert_int_equal(hpcc_new_ack(&a, &p, NULL, 0, 1000, 5000), HPCC_ACK_NO_SAMPLE);
	assert_int_equal(hpcc_new_ack(&a, &p, &bad, 1, 1000, 5000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_BAD_HOP);
	assert_false(a.started);
}

TEST(new_ack__once_in_a_round_trip)
{
	const long double want = W_INIT * 0.475L + 62.5;

	/* with per_rtt, W changes only together with Wc */
	for (u32 per_rtt = 0; per_rtt < 2; per_rtt++) {
		begin(5);
		a.per_rtt = per_rtt;
		assert_int_equal(ack(T_NS, T_NS * 2, 0, 100000, 150000), 0);
		assert_near(ldexpl(a.W_q16, -16), per_rtt ? W_INIT : want, per_rtt ? 0 : 0.05);
		assert_true(a.Wc_q16 == BYTES(W_INIT));
		assert_int_equal(a.last_update_seq, 100000);
		assert_int_equal(ack(T_NS, T_NS * 2, 0, 100001, 150000), HPCC_ACK_UPDATE);
		assert_near(ldexpl(a.W_q16, -16), want, 0.05);
		assert_near(ldexpl(a.Wc_q16, -16), want, 0.05);
		assert_true(a.Wc_q16 == a.W_q16);
		assert_int_equal(a.last_update_seq, 150000);
	}
}

TEST(new_ack__five_additive_steps_then_a_jump)
{
	a.Wc_q16 = BYTES(10000);
	for (u32 i = 1; i <= 5; i++) {
		assert_int_equal(update(T_NS, T_NS / 2, 0), HPCC_ACK_UPDATE);
		assert_true(a.W_q16 == BYTES(10000) + i * BYTES(125) / 2);
		assert_int_equal(a.inc_stage, i);
	}
	update(T_NS, T_NS / 2, 0);
	assert_near(ldexpl(a.W_q16, -16), 10312.5L * 1.9L + 62.5L, 0.01);
	assert_int_equal(a.inc_stage, 0);
}

TEST(new_ack__sequence_numbers_wrap)
{
	static const struct { u32 ack_seq, snd_nxt, want, last; } cases[] = {
		{ 0xffffff00, 0x10, 0, 0xfffffff0 }, { 0x8, 0x20, HPCC_ACK_UPDATE, 0x20 },
		{ 0xfffffff8, 0x20, 0, 0x20 },
	};

	a.last_update_seq = 0xfffffff0;
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(ack(T_NS, T_NS, 0, cases[i].ack_seq, cases[i].snd_nxt),
				 cases[i].want);
		assert_int_equal(a.last_update_seq, cases[i].last);
	}
	/* last_update_seq only moves forward */
	begin(5);
	assert_int_equal(ack(T_NS, T_NS, 0, 100001, 90000), HPCC_ACK_UPDATE);
	assert_int_equal(a.last_update_seq, 100000);
}

/* Run round trips in which link 3 reports 1/4, and link 2, the most loaded link, nothing. */
static u32 rounds_without(u32 rounds)
{
	u32 bits = 0;

	while (rounds--)
		bits |= update_hop(3, T_NS, T_NS / 4);
	return bits;
}

TEST(new_ack__one_U_is_answered_once)
{
	u64 W_q16;

	three(0);
	update_hop(2, T_NS, 2 * T_NS);
	assert_true(a.U_q24 == 2 * ONE);
	W_q16 = a.W_q16;
	assert_near(W_q16, BYTES(W_INIT) * 0.475 + BYTES(125) / 2, BYTES(1));
	assert_int_equal(rounds_without(HPCC_LINK_ROUNDS - 2), 0);
	assert_true(a.U_q24 == 2 * ONE && a.W_q16 == W_q16);
	assert_int_equal(update_hop(2, T_NS, T_NS), HPCC_ACK_UPDATE);
}

TEST(new_ack__forgets_a_link_without_records)
{
	three(0);
	update_hop(2, T_NS, 2 * T_NS);
	assert_int_equal(rounds_without(HPCC_LINK_ROUNDS), 0);
	assert_true(a.U_q24 == 2 * ONE);
	assert_int_equal(rounds_without(1), HPCC_ACK_UPDATE);
	assert_true(a.U_q24 == ONE / 4);
	/* The next record of link 2 covers the whole time since the previous record. */
	assert_int_equal(measure_hop(2, 20 * T_NS, 10 * T_NS), 0);
	assert_true(a.L[1].u_q24 == ONE / 2 && a.U_q24 == ONE / 2);
}

TEST(new_ack__without_measurement_changes_nothing)
{
	struct hpcc_algo before;

	begin(0);
	*s = next(&a, 1, 0, 0, 0);
	a.W_q16 = BYTES(3000);
	hpcc_algo_restart(&a, &p, BYTES(2000));
	before = copy_of(&a);
	assert_int_equal(hpcc_new_ack(&a, &p, s, 1, 200000, 300000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_TS_BACK);
	assert_equal(&a, &before);
	assert_int_equal(hpcc_new_ack(&a, &p, NULL, 0, 200000, 300000), HPCC_ACK_NO_SAMPLE);
	assert_equal(&a, &before);
	/* the first measurement after a restart sets last_update_seq */
	ack(T_NS, T_NS, 0, 2000, 90000);
	assert_int_equal(a.last_update_seq, 90000);
	assert_false(a.resync);
}

TEST(wc_update_allowed__twice_in_T)
{
	static const struct { u32 max_stage, settle, halves; } cases[] = {
		{ 5, 3, 1 }, { 0, 0, 1 }, { 0, 3, 6 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		u64 since = cases[i].halves * T_NS / 2;

		p = params(cases[i].max_stage);
		assert_false(hpcc_wc_update_allowed(&p, since - 1, cases[i].settle));
		assert_true(hpcc_wc_update_allowed(&p, since, cases[i].settle));
	}
	p.T = HPCC_T_MAX;
	assert_false(hpcc_wc_update_allowed(&p, 64 * p.T - 1, 64));
	assert_true(hpcc_wc_update_allowed(&p, 64 * p.T, 64));
}

TEST(pacing_rate__is_W_over_T)
{
	static const long double bps[] = { 1e7, 1e9, 1e11, 8e11 };
	static const u64 T_ns[] = { 1000, 4160, 1000000, 1000000000 };

	assert_near(hpcc_pacing_rate(&a, &p, 1000000000), 12.5e9L, 1);
	a.W_q16 = BYTES(1000);
	assert_near(hpcc_pacing_rate(&a, &p, 1000000000), 1e8L, 1);
	for (unsigned int i = 0; i < 4; i++)
		for (unsigned int k = 0; k < 4; k++) {
			u64 W = bps[i] / 8 * T_ns[k] / 1e9L * 65536;

			hpcc_params_init(&p, T_ns[k], W, W / 1024, 0, ETA, 5);
			hpcc_algo_init(&a, &p);
			assert_near(hpcc_pacing_rate(&a, &p, 1000000000),
				    bps[i] / 8, 1 + bps[i] * 1e-6L + 1e9L / T_ns[k] / 65536);
		}
	hpcc_params_init(&p, 1, ~0ULL, 0, 0, ETA, 5);
	hpcc_algo_init(&a, &p);
	assert_true(hpcc_pacing_rate(&a, &p, 1000000000) == 65536000000000ULL);
}
