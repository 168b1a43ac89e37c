// SPDX-License-Identifier: GPL-2.0
/* <hpcc/law/algo.h>: properties that hold for any samples, and the law in long double. */
#include "algo.h"

static const u64 rates_bps[] = { 10000000, 1000000000, 100000000000, 800000000000 };
static const u64 Ts_ns[] = { 1000, 10000, 1000000, 1000000000 };

/* Parameters of a sender at this rate and T, with times in units of 2^-frac ns. */
static struct hpcc_params params_for(u64 bps, u64 T_ns, u32 frac, u32 max_stage)
{
	long double W = (long double)bps / 8 * T_ns / 1e9L * 65536;
	struct hpcc_params p;

	hpcc_params_init(&p, T_ns << frac, W, W / 1000, W * 0.05L / 100, ETA, max_stage);
	return p;
}

TEST(any__average_stays_between_U_and_u)
{
	for (int i = 0; i < 100000; i++) {
		struct hpcc_params p;
		struct hpcc_algo a;
		u64 before, u, tau;

		hpcc_params_init(&p, random_magnitude(), BYTES(1), 1, 0, ETA, 5);
		hpcc_algo_init(&a, &p);
		a.U_q24 = random_below(HPCC_U_MAX_Q24);
		a.U_low = random_below(1 << HPCC_U_LOW_BITS);
		u = random_magnitude() % (HPCC_U_MAX_Q24 + 1);
		tau = 1 + random_below(p.T);
		before = U_q44(&a);
		hpcc_average(&a, &p, u, tau);
		u <<= HPCC_U_LOW_BITS;
		if (u > before)
			assert_true(U_q44(&a) >= before && U_q44(&a) <= u);
		else
			assert_true(U_q44(&a) <= before && U_q44(&a) >= u);
	}
}

TEST(any__more_queue_never_gives_a_larger_window)
{
	for (u32 run = 0; run < 20000; run++) {
		struct hpcc_params p = params_for(rates_bps[run % 4], Ts_ns[run / 4 % 4], 4,
						  run / 16 % 3);
		struct hpcc_algo a = started(&p), b;
		u64 dts = 1 + random_below(2 * p.T);
		u64 dtx = random_below(dts + 1);
		u64 qlen = random_below(2 * p.T);
		struct hpcc_sample s;

		set_U(&a, random_below(2 * ONE));
		a.Wc_q16 = p.W_min_q16 + random_below(p.W_max_q16 - p.W_min_q16);
		a.inc_stage = random_below(p.max_stage + 1);
		a.L[0].qlen = 4 * p.T;
		b = copy_of(&a);
		s = next(&a, 1, dts, dtx, qlen);
		hpcc_new_ack(&a, &p, &s, 1, 200000, 300000);
		s.qlen += random_below(run & 1 ? p.T : 1 + p.T / 1000);
		hpcc_new_ack(&b, &p, &s, 1, 200000, 300000);
		assert_true(U_q44(&b) >= U_q44(&a));
		assert_true(b.W_q16 <= a.W_q16);
	}
}

struct model {
	long double T, eta, W_max, W_min, W_ai;
	long double U, W, Wc;
	u32 max_stage, inc_stage;
	bool tie;	/* Q24 cannot distinguish the u' of two links */
};

static void model_init(struct model *m, const struct hpcc_params *p, const struct hpcc_algo *a)
{
	m->T = p->T;
	m->eta = ldexpl(p->eta_q24, -24);
	m->W_max = ldexpl(p->W_max_q16, -16);
	m->W_min = ldexpl(p->W_min_q16, -16);
	m->W_ai = ldexpl(p->W_ai_q16, -16);
	m->max_stage = p->max_stage;
	m->U = U_of(a);
	m->W = ldexpl(a->W_q16, -16);
	m->Wc = ldexpl(a->Wc_q16, -16);
	m->inc_stage = a->inc_stage;
}

static void model_measure(struct model *m, const struct hpcc_link *L,
			  const struct hpcc_sample *s, u32 n)
{
	long double u = 0, tau = 0;

	m->tie = false;
	for (u32 i = 0; i < n; i++) {
		const struct hpcc_link *l = &L[s[i].hop - 1];
		long double dts = s[i].ts - l->ts;
		long double qlen = fminl(s[i].qlen, l->qlen);
		long double u1 = qlen / m->T + (s[i].tx - l->tx) / dts;

		if (fabsl(u1 - u) < 1e-6L)
			m->tie = true;
		else if (u1 > u)
			m->tie = false;
		if (u1 > u) {
			u = u1;
			tau = fminl(dts, m->T);
		}
	}
	m->U = (1 - tau / m->T) * m->U + tau / m->T * u;
}

static void model_wind(struct model *m, bool update_wc)
{
	bool scale = m->U >= m->eta || m->inc_stage >= m->max_stage;

	m->W = (scale ? m->Wc / (m->U / m->eta) : m->Wc) + m->W_ai;
	m->W = fminl(fmaxl(m->W, m->W_min), m->W_max);
	if (update_wc) {
		m->inc_stage = scale ? 0 : m->inc_stage + 1;
		m->Wc = m->W;
	}
}

/* Advance a link by at most T / 50, with about this utilization, and a queue up to @qlen. */
static void walk(struct hpcc_sample *s, u64 T, u32 load_permille, u64 qlen)
{
	u64 dts = 1 + random_below(T / 50 + 2);

	s->ts += dts;
	s->tx += dts * (load_permille + random_below(100)) / 1000;
	s->qlen = random_below(qlen + 1);
}

/*
 * For each ACK the model starts from the state of the integer code. So if the two decide
 * differently at U = eta, or between two links, the difference does not affect later ACKs. U is
 * also compared with a model that has continued since the last tie.
 */
static void reference(u64 bps, u64 T_ns, u32 frac, u64 seed)
{
	struct hpcc_params p = params_for(bps, T_ns, frac, seed % 3 * 2);
	struct hpcc_sample s[3] = { { .hop = 1 }, { .hop = 2 }, { .hop = 3 } };
	long double U_run, W_err = ldexpl(1, -15);
	u32 n = 1 + seed % 3, seq = 0;
	struct hpcc_algo a = begun(&p);

	random_state = seed;
	hpcc_new_ack(&a, &p, s, n, 0, 10);
	U_run = U_of(&a);
	for (u32 i = 0; i < 1500; i++) {
		struct model m, drift;
		u32 load = i / 300 % 2 ? 900 : 300;
		bool full;

		for (u32 k = 0; k < n; k++)
			walk(&s[k], p.T, load, i / 200 % 2 ? p.T : 0);
		seq += 3;
		full = (s32)(seq - a.last_update_seq) > 0;

		model_init(&m, &p, &a);
		drift = m;
		drift.U = U_run;
		model_measure(&m, a.L, s, n);
		model_measure(&drift, a.L, s, n);
		U_run = drift.U;
		hpcc_new_ack(&a, &p, s, n, seq, seq + 30);

		if (m.tie) {
			U_run = U_of(&a);
			continue;
		}
		assert_near(U_of(&a), m.U, 1.3e-7L);
		assert_near(U_of(&a), U_run, 1.3e-7L + 3e-10L * i);
		if (fabsl(m.U - m.eta) < 1e-6L)
			continue;
		model_wind(&m, full);
		assert_near(ldexpl(a.W_q16, -16), m.W, W_err + m.W * 2e-7L / fminl(m.U, 1));
		assert_near(ldexpl(a.Wc_q16, -16), m.Wc, W_err + m.Wc * 2e-7L / fminl(m.U, 1));
		assert_int_equal(a.inc_stage, m.inc_stage);
	}
}

TEST(reference__in_ns_and_in_fractions_of_ns)
{
	for (u32 i = 0; i < 4; i++)
		for (u32 k = 0; k < 4; k++) {
			for (u32 seed = 1; seed <= 9; seed++)
				reference(rates_bps[i], Ts_ns[k], 0, seed);
			for (u32 seed = 1; seed <= 3; seed++)
				reference(rates_bps[i], Ts_ns[k], 8, seed);
		}
}
