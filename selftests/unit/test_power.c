// SPDX-License-Identifier: GPL-2.0
/* <hpcc/law/power.h>: the vectors of power.py, and properties that hold for any samples. */
#include <stdio.h>

#include "algo.h"
#include <hpcc/law/power.h>

/* Process the reports of an ACK as power_update() of kmod/hpcc/control/power.c. @quiet: bit mask of
 * hops - 1.
 */
static u32 ack_in(struct hpcc_algo *a, const struct hpcc_params *p, const struct hpcc_sample *s,
		  u32 n, u32 quiet, u64 now_us, u32 ack_seq, u32 snd_nxt)
{
	struct hpcc_power_prior prior;
	struct hpcc_measure m = {};
	u32 bits;

	hpcc_power_begin(a, &prior);
	for (u32 i = 0; i < n; i++)
		if (!(hpcc_measure_link(a, p, &s[i], &m) &
		      (HPCC_ACK_TS_BACK | HPCC_ACK_TX_EXCESS | HPCC_ACK_BAD_HOP)))
			a->L[s[i].hop - 1].seen_us = now_us;
	for (u32 i = 0; quiet >> i; i++) {
		if (!(quiet >> i & 1))
			continue;
		hpcc_measure_quiet(a, p, i + 1, (now_us - a->L[i].seen_us) * 1000, &m);
		a->L[i].seen_us = now_us;
	}
	bits = hpcc_power_measure(a, p, &prior, hpcc_measure_end(a, p, &m), now_us, 1000);
	return hpcc_follow(a, p, bits, ack_seq, snd_nxt, hpcc_power_wind);
}

static void check_ack(struct hpcc_algo *a, const struct hpcc_params *p, const char *line)
{
	unsigned long long now_us, r[2][3], U, W, Wc;
	u32 number, next, quiet = 0, n = 0;
	struct hpcc_sample s[2];

	assert_true(sscanf(line, "%u %u %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu",
			   &number, &next, &now_us, &r[0][0], &r[0][1], &r[0][2],
			   &r[1][0], &r[1][1], &r[1][2], &U, &W, &Wc) == 12);
	for (u32 i = 0; i < 2; i++) {
		if (r[i][0] > 1)
			s[n++] = (struct hpcc_sample){ i + 1, 7, r[i][0], r[i][1], r[i][2] };
		quiet |= (r[i][0] == 1) << i;
	}
	if (n || quiet)
		ack_in(a, p, s, n, quiet, now_us, number, next);
	assert_near(U_of(a), U / 1e9L, 5e-7L);
	assert_near(ldexpl(a->W_q16, -16), W / 1e3L, 0.1L);
	assert_near(ldexpl(a->Wc_q16, -16), Wc / 1e3L, 0.1L);
}

TEST(vectors_of_the_model_in_fractions)
{
	FILE *vectors = popen(HPCC_CAPTURES "/../unit/power.py", "r");
	struct hpcc_params p;
	struct hpcc_algo a;
	u32 T, W_init, W_min, W_ai, eta, acks = 0;
	char line[256];

	while (fgets(line, sizeof(line), vectors)) {
		if (sscanf(line, "law %u %u %u %u %u", &T, &W_init, &W_min, &W_ai, &eta) == 5) {
			hpcc_params_init(&p, T, BYTES(W_init), BYTES(W_min), BYTES(W_ai),
					 ((u64)eta << 24) / 1000, 0);
			a = begun(&p);
			continue;
		}
		check_ack(&a, &p, line);
		acks++;
	}
	assert_int_equal(pclose(vectors), 0);
	assert_int_equal(acks, 144);
}

/* Return W after round trips with records that are T apart. */
static u64 W_after(struct hpcc_algo *a, const struct hpcc_params *p, u32 rtts, u64 dtx, u64 qlen)
{
	for (u32 i = 0; i < rtts; i++) {
		struct hpcc_sample s = next(a, 1, T_NS, dtx, qlen);

		ack_in(a, p, &s, 1, 0, 100 * i, 200000 + 1000 * i, 200001 + 1000 * i);
	}
	return a->W_q16;
}

TEST(standing_queue_of_beta_keeps_the_window)
{
	struct hpcc_params p = params(0);
	struct hpcc_algo a = started(&p);

	/* G = W / (W - W_ai), as W = W / G + W_ai. */
	p.W_ai_q16 = BYTES(5000);
	hpcc_algo_restart(&a, &p, BYTES(55000));
	a.L[0].qlen = T_NS / 10;
	assert_near(ldexpl(W_after(&a, &p, 50, T_NS, T_NS / 10), -16), 55000, 5);
}

TEST(growing_queue_counts_before_it_is_long)
{
	struct hpcc_params p = params(0);
	struct hpcc_algo a = started(&p);

	/* Twice the rate of the link arrives, the queue is T: current 2, voltage 2. */
	W_after(&a, &p, 1, T_NS, T_NS);
	assert_near(U_of(&a), 4 * 0.95L, 1e-5);
	/* It drains completely: no current. */
	W_after(&a, &p, 1, T_NS, 0);
	assert_near(U_of(&a), 0, 1e-9);
	assert_true(a.W_q16 <= p.W_max_q16);
}

TEST(after_CE_W_grows_only_by_beta_for_five_round_trips)
{
	struct hpcc_params p = params(5);
	struct hpcc_algo a = started(&p);

	hpcc_algo_restart(&a, &p, BYTES(16000));
	W_after(&a, &p, 1, 0, 0);
	hpcc_algo_restart(&a, &p, BYTES(16000));
	hpcc_algo_reduce(&a, &p, 3);
	W_after(&a, &p, HPCC_CE_STAGES, T_NS / 100, 0);
	assert_near(ldexpl(a.Wc_q16, -16), 14000 + HPCC_CE_STAGES * 62.5, 40);
	assert_true(W_after(&a, &p, 1, T_NS / 100, 0) > BYTES(100000));
}

TEST(any__windows_stay_within_their_bounds)
{
	for (u32 run = 0; run < 2000; run++) {
		struct hpcc_params p;
		struct hpcc_algo a;

		hpcc_params_init(&p, random_magnitude(), random_magnitude(), random_magnitude(),
				 random_magnitude(), random_u64(), 0);
		a = begun(&p);
		for (u32 i = 0; i < 50; i++) {
			struct hpcc_sample s[2] = {
				{ 1 + random_below(3), random_below(8) / 7, random_magnitude(),
				  random_magnitude(), random_magnitude() },
				next(&a, 1 + random_below(3), random_magnitude() >> 24,
				     random_magnitude() >> 24, random_magnitude() >> 24),
			};

			ack_in(&a, &p, s, 1 + random_below(2), random_below(4) ? 0 : 8, i,
			       random_u64(), random_u64());
			assert_true(a.W_q16 >= p.W_min_q16 && a.W_q16 <= p.W_max_q16);
			assert_true(a.Wc_q16 >= p.W_min_q16 && a.Wc_q16 <= p.W_max_q16);
			assert_true(a.U_q24 <= HPCC_U_MAX_Q24);
			if (!random_below(8))
				hpcc_algo_reduce(&a, &p, 3);
		}
	}
}
