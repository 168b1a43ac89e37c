// SPDX-License-Identifier: GPL-2.0
/*
 * <hpcc/law/algo.h>: any parameters, any series of ACKs with any records, and responses of
 * switches between the ACKs, <hpcc/law/response.h>.
 *
 * Input: parameters, then operations: a byte that selects the operation, and its
 * arguments. Operations are ACKs with up to 31 records, for which there may be too
 * few links, and the other events of a connection.
 */
#include <math.h>

#include "fuzz.h"
#include <draft.h>
#include <hpcc/law/response.h>

#define RECORDS_MAX	31

static struct hpcc_params take_params(struct fuzz_input *in)
{
	struct hpcc_params p;
	u64 T = fuzz_take_any(in), W_init = fuzz_take_any(in);
	u64 W_min = fuzz_take_any(in), W_ai = fuzz_take_any(in);
	u32 eta = fuzz_take(in, 4);

	hpcc_params_init(&p, T, W_init, W_min, W_ai, eta, fuzz_take(in, 1));
	expect(p.T >= 1 && p.T <= HPCC_T_MAX);
	expect(p.W_min_q16 >= 1 && p.W_min_q16 <= p.W_max_q16);
	expect(p.W_max_q16 <= HPCC_W_MAX_Q16 && p.W_ai_q16 <= p.W_max_q16);
	expect(p.eta_q24 >= 1 && p.eta_q24 <= HPCC_ONE_Q24);
	return p;
}

/* Allocate exactly @nr links, so that ASan detects accesses beyond them. */
static void grow(struct hpcc_algo *a, u32 nr)
{
	struct hpcc_link *L = calloc(nr, sizeof(*L));

	if (!L)
		abort();
	if (a->nr)
		memcpy(L, a->L, a->nr * sizeof(*L));
	free(a->L);
	hpcc_algo_links(a, L, nr);
}

/* A copy whose links are at @L. */
static struct hpcc_algo copy_of(const struct hpcc_algo *a, struct hpcc_link *L)
{
	struct hpcc_algo copy = *a;

	if (a->nr)
		memcpy(L, a->L, a->nr * sizeof(*L));
	copy.L = L;
	return copy;
}

static void expect_same(struct hpcc_algo was, const struct hpcc_algo *now)
{
	expect(was.nr == now->nr && was.L != now->L);
	expect(!now->nr || !memcmp(was.L, now->L, now->nr * sizeof(*now->L)));
	was.L = now->L;
	expect(!memcmp(&was, now, sizeof(was)));
}

/* Counters are absolute, or relative to the link's last record: a byte selects this. */
static struct hpcc_sample take_sample(struct fuzz_input *in, const struct hpcc_algo *a)
{
	u8 how = fuzz_take(in, 1);
	struct hpcc_sample s;

	s.hop = how & 0x10 ? fuzz_take(in, 1) : how & 0xf;
	s.tag = how >> 7;
	s.ts = fuzz_take_any(in);
	s.tx = fuzz_take_any(in);
	s.qlen = fuzz_take_any(in);
	if (how & 0x20 && s.hop >= 1 && s.hop <= a->nr) {
		s.ts += a->L[s.hop - 1].ts;
		s.tx += a->L[s.hop - 1].tx;
	}
	return s;
}

/* Number of additive increases before a multiplicative one. */
static u32 max_stage_of(const struct hpcc_algo *a, const struct hpcc_params *p)
{
	return a->reduced ? max_t(u32, p->max_stage, HPCC_CE_STAGES) : p->max_stage;
}

static void expect_bounds(const struct hpcc_algo *a, const struct hpcc_params *p)
{
	expect(a->W_q16 >= p->W_min_q16 && a->W_q16 <= p->W_max_q16);
	expect(a->Wc_q16 >= p->W_min_q16 && a->Wc_q16 <= p->W_max_q16);
	expect(a->U_q24 <= HPCC_U_MAX_Q24);
	expect(a->U_low < 1U << HPCC_U_LOW_BITS);
	expect(a->inc_stage <= max_stage_of(a, p));
	expect(a->end <= a->nr);
	for (u32 i = 0; i < a->nr; i++) {
		expect(a->L[i].u_q24 <= HPCC_U_MAX_Q24);
		expect(!a->L[i].valid || a->L[i].rounds <= HPCC_LINK_ROUNDS);
		expect(!a->L[i].valid || !a->L[i].quiet);
	}
}

static long double U_of(const struct hpcc_algo *a)
{
	return ldexpl(a->U_q24, -24) + ldexpl(a->U_low, -44);
}

/* The largest W while U is below eta, in long double. */
static long double most_wind(const struct hpcc_algo *was, const struct hpcc_algo *now,
			     const struct hpcc_params *p, long double ratio)
{
	long double own = ldexpl(now->own, HPCC_W_BITS);

	if (now->own == HPCC_OWN_UNKNOWN || ratio < 1)
		return p->W_max_q16;
	if ((u64)now->own << HPCC_W_BITS < was->Wc_q16 / 4)
		return was->Wc_q16;
	return fmaxl(own * 5 / 4 * ratio, was->Wc_q16);
}

/* Compare the window in @now with ComputeWind in long double from the previous state @was. */
static void expect_window(const struct hpcc_algo *was, const struct hpcc_algo *now,
			  const struct hpcc_params *p)
{
	long double U = fmaxl(U_of(now), 0x1p-32L), eta = ldexpl(p->eta_q24, -24);
	bool unused = now->own != HPCC_OWN_UNKNOWN &&
		      (u64)now->own << HPCC_W_BITS < was->Wc_q16 / 4;
	long double W_ai = now->U_q24 < p->eta_q24 && unused ? 0 : p->W_ai_q16;
	long double W = was->Wc_q16 + W_ai;
	long double error = 2;

	if (now->U_q24 >= p->eta_q24 || was->inc_stage >= max_stage_of(was, p) ||
	    (now->quiet && !was->reduced)) {
		/* the rounding errors of U in Q32 and of eta / U in Q31 */
		W = fminl(was->Wc_q16 * (eta / U), most_wind(was, now, p, eta / U));
		W = fminl(W, p->W_max_q16) + W_ai;
		error += W * (0x1p-31L / U + 0x1p-31L * U / eta);
	}
	W = fminl(fmaxl(W, p->W_min_q16), p->W_max_q16);
	expect(fabsl(now->W_q16 - W) <= error);
}

/* u' in long double; 1/T and a shifted d(tx) have 22 significant bits or more. */
static void expect_u(const struct hpcc_link *was, const struct hpcc_link *now,
		     const struct hpcc_params *p)
{
	long double u = min(was->qlen, now->qlen) / (long double)p->T +
			(now->tx - was->tx) / (long double)(now->ts - was->ts);

	if (was->quiet)
		u = 1 + now->qlen / (long double)p->T;
	u = fminl(u, HPCC_U_MAX);
	expect(fabsl(ldexpl(now->u_q24, -24) - u) <= 0x1p-23L + u * 0x1p-21L);
}

/* MeasureInflight in long double, with the u' that were measured. */
static void expect_average(const struct hpcc_algo *was, const struct hpcc_algo *now,
			   const struct hpcc_params *p, const struct hpcc_sample *s, u32 n)
{
	long double u = 0, tau = 0, U = U_of(was), error;
	char state[HPCC_HOPS_MAX] = { 0 };	/* 'f'resh, or 'u'nusable */
	u32 at;

	for (u32 i = 0; i < n; i++) {
		struct hpcc_link l;

		at = s[i].hop - 1;
		if (at >= was->nr || state[at])
			continue;
		l = was->L[at];
		state[at] = hpcc_link_update(&l, p, &s[i]) ? 'u' : 'f';
		if (state[at] == 'f')
			expect_u(&was->L[at], &now->L[at], p);
	}
	for (at = 0; at < was->nr; at++) {
		const struct hpcc_algo *a = state[at] == 'f' ? now : was;
		long double u_at = ldexpl(a->L[at].u_q24, -24);

		if (state[at] == 'u')
			continue;
		/* If no link has load, a measured link is used. */
		if (u_at <= u && u + tau > 0)
			continue;
		u = u_at;
		tau = state[at] == 'f' ? min(now->L[at].ts - was->L[at].ts, p->T) : 0;
		if (state[at] == 'f' && was->L[at].quiet)
			tau = p->T;
	}
	error = fabsl(u - U) * tau * 0x1p-64L + 0x1p-44L;
	if (tau)
		U += (u - U) * tau / p->T;
	expect(fabsl(U_of(now) - U) <= error);
}

static void expect_ack(const struct hpcc_algo *was, const struct hpcc_algo *now,
		       const struct hpcc_params *p, u32 bits)
{
	if (bits & HPCC_ACK_NO_SAMPLE) {
		expect(now->W_q16 == was->W_q16 && now->Wc_q16 == was->Wc_q16);
		expect(now->U_q24 == was->U_q24 && now->U_low == was->U_low);
		expect(now->own == was->own);
		expect(now->inc_stage == was->inc_stage);
		expect(now->last_update_seq == was->last_update_seq || bits & HPCC_ACK_FIRST);
		expect(!(bits & HPCC_ACK_UPDATE));
		return;
	}
	expect(!(bits & HPCC_ACK_FIRST));
	if (bits & HPCC_ACK_UPDATE || now->moved)
		expect_window(was, now, p);
	else
		expect(now->W_q16 == was->W_q16 && U_of(now) == U_of(was));
	if (bits & HPCC_ACK_UPDATE) {
		expect(now->Wc_q16 == now->W_q16 && !now->resync);
		return;
	}
	expect(now->Wc_q16 == was->Wc_q16 && now->inc_stage == was->inc_stage);
	if (now->last_update_seq != was->last_update_seq)
		expect(!was->resync && !was->moved && !now->moved);
}

/* The order of an ACK's records makes no difference. */
static void expect_any_order(const struct hpcc_algo *was, const struct hpcc_algo *now,
			     const struct hpcc_params *p, const struct hpcc_sample *s, u32 n)
{
	struct hpcc_sample reverse[RECORDS_MAX];
	struct hpcc_link L[HPCC_HOPS_MAX];
	struct hpcc_algo a = copy_of(was, L);

	for (u32 i = 0; i < n; i++)
		reverse[n - 1 - i] = s[i];
	hpcc_measure_inflight(&a, p, reverse, n);
	expect(a.U_q24 == now->U_q24 && a.U_low == now->U_low);
	for (u32 i = 0; i < a.nr; i++) {
		/* At the end of a round trip a link without records counts as idle. */
		bool idle = a.L[i].rounds >= HPCC_LINK_ROUNDS && !now->L[i].u_q24;

		expect(a.L[i].u_q24 == now->L[i].u_q24 || idle);
		expect(a.L[i].valid == now->L[i].valid);
	}
}

/* The own bytes of @m, averaged as U, in long double. 1/T and T/d(ts) have 22 significant bits. */
static void expect_own(const struct hpcc_algo *was, const struct hpcc_algo *now,
		       const struct hpcc_params *p, const struct hpcc_measure *m)
{
	long double own = was->own == HPCC_OWN_UNKNOWN ? was->W_q16 >> HPCC_W_BITS : was->own;
	long double bytes = (long double)m->own * m->mss, T = p->T;
	long double error;

	if (!m->mss) {
		expect(now->own == was->own);
		return;
	}
	bytes *= fminl(fmaxl(m->rtt / T, 1), 65536);
	error = 2 + (bytes + own) * 0x1p-22L;
	if (m->dts < p->T)
		bytes += own * (1 - m->dts / T);
	else
		bytes *= T / m->dts;
	expect(fabsl(now->own - fminl(bytes, HPCC_OWN_UNKNOWN - 1)) <= error);
}

/* hpcc_new_ack() of a connection that measures its own bytes. @m: rtt, delivered, mss. */
static u32 own_ack(struct hpcc_algo *a, const struct hpcc_params *p, const struct hpcc_sample *s,
		   u32 n, struct hpcc_measure m, u32 ack_seq, u32 snd_nxt)
{
	const struct hpcc_algo was = *a;
	u32 bits;

	for (u32 i = 0; i < n; i++)
		hpcc_measure_link(a, p, &s[i], &m);
	a->moved = false;
	bits = hpcc_measure_end(a, p, &m);
	if (!a->moved)
		m.mss = 0;
	a->moved |= was.moved;
	expect_own(&was, a, p, &m);
	return hpcc_follow(a, p, bits, ack_seq, snd_nxt, hpcc_compute_wind);
}

static void take_ack(struct fuzz_input *in, struct hpcc_algo *a,
		     const struct hpcc_params *p, u32 n, bool memory)
{
	struct hpcc_link L[HPCC_HOPS_MAX];
	struct hpcc_sample s[RECORDS_MAX];
	struct hpcc_sample *exact;
	struct hpcc_algo was;
	u32 ack_seq = fuzz_take_any(in), snd_nxt = fuzz_take_any(in);
	struct hpcc_measure m = {};
	u32 bits;

	m.rtt = fuzz_take_any(in);
	m.delivered = fuzz_take_any(in);
	m.mss = fuzz_take(in, 2);
	for (u32 i = 0; i < n; i++) {
		s[i] = take_sample(in, a);
		if (memory && s[i].hop > a->nr && s[i].hop <= HPCC_HOPS_MAX)
			grow(a, s[i].hop);
	}
	was = copy_of(a, L);
	exact = (struct hpcc_sample *)fuzz_copy((u8 *)s, n * sizeof(*s));
	bits = own_ack(a, p, exact, n, m, ack_seq, snd_nxt);
	free(exact);
	expect_ack(&was, a, p, bits);
	if (!(bits & HPCC_ACK_NO_SAMPLE))
		expect_average(&was, a, p, s, n);
	if (!(bits & HPCC_ACK_REPEAT))
		expect_any_order(&was, a, p, s, n);
}

/* An ACK reports a link as quiet: u' is in eta / 2 .. eta, and falls while all links are quiet. */
static void take_quiet(struct fuzz_input *in, struct hpcc_algo *a, const struct hpcc_params *p)
{
	u32 ack_seq = fuzz_take_any(in), snd_nxt = fuzz_take_any(in);
	u64 tau = fuzz_take_any(in);
	u32 hop = 1 + fuzz_take(in, 1) % HPCC_HOPS_MAX;
	struct hpcc_link L[HPCC_HOPS_MAX];
	struct hpcc_measure m = { .seen = 0 };
	struct hpcc_algo was;
	u64 u_q24;
	u32 bits;

	if (hop > a->nr)
		grow(a, hop);
	was = copy_of(a, L);
	hpcc_measure_quiet(a, p, hop, tau, &m);
	bits = hpcc_follow(a, p, hpcc_measure_end(a, p, &m), ack_seq, snd_nxt, hpcc_compute_wind);
	u_q24 = a->L[hop - 1].u_q24;
	expect(u_q24 <= p->eta_q24 && u_q24 >= p->eta_q24 / 2);
	expect(!a->L[hop - 1].valid && a->L[hop - 1].quiet);
	if (was.L[hop - 1].quiet > 1)
		expect(u_q24 < p->eta_q24 || p->eta_q24 < 1U << HPCC_QUIET_SHIFT);
	expect(!(bits & HPCC_ACK_NO_SAMPLE) == (was.L[hop - 1].valid || was.L[hop - 1].quiet));
	if (a->U_q24 > was.U_q24)
		expect(a->U_q24 <= u_q24);
	if (a->U_q24 < was.U_q24)
		expect(a->U_q24 >= u_q24);
}

/* Slow start only limits W. */
static void take_slow(struct fuzz_input *in, struct hpcc_algo *a,
		      const struct hpcc_params *p, bool begin)
{
	u32 packets = fuzz_take(in, 2), mss = fuzz_take(in, 2);
	struct hpcc_link L[HPCC_HOPS_MAX];
	u64 before_q16;
	struct hpcc_algo was;
	u64 most;

	if (begin) {
		hpcc_algo_restart(a, p, fuzz_take_any(in));
		hpcc_algo_slow(a);
	}
	was = copy_of(a, L);
	before_q16 = clamp_t(u64, fuzz_take_any(in), p->W_min_q16, p->W_max_q16);
	most = was.slow_start_limit_q16 + ((u64)packets * mss << HPCC_W_BITS);
	hpcc_algo_acked(a, p, packets, mss, before_q16);
	if (was.slow_start_limit_q16 >= p->W_max_q16) {
		expect_same(was, a);
		return;
	}
	if (most >= p->W_max_q16)
		most = ~0ULL;
	expect(a->slow_start_limit_q16 == most);
	if (was.U_q24 < p->eta_q24 && was.W_q16 < before_q16) {
		if (was.Wc_q16 == was.W_q16)
			was.Wc_q16 = before_q16;
		was.W_q16 = before_q16;
	}
	expect(a->W_q16 == min(was.W_q16, most));
	expect(a->Wc_q16 == (was.W_q16 > most ? min(was.Wc_q16, most) : was.Wc_q16));
	expect(a->inc_stage == (was.reduced ? was.inc_stage : p->max_stage));
}

/* CE and losses reduce W; losses not below the packets in flight. */
static void take_fall(struct fuzz_input *in, struct hpcc_algo *a, const struct hpcc_params *p,
		      bool ce)
{
	u32 sent = fuzz_take(in, 2), lost = fuzz_take(in, 2), kept = fuzz_take(in, 2);
	u32 mss = fuzz_take(in, 2);
	u64 was_q16 = a->W_q16;

	if (ce)
		hpcc_algo_reduce(a, p, 3);
	else
		hpcc_algo_lost(a, p, sent, lost, kept, mss);
	expect(a->W_q16 <= was_q16);
	expect(ce || !kept || a->W_q16 >= min(was_q16, (u64)kept * mss << HPCC_W_BITS));
}

/* A response reduces W and leaves Wc as it is, or has no effect. */
static void take_response(struct fuzz_input *in, struct hpcc_algo *a, const struct hpcc_params *p)
{
	u32 seq = fuzz_take_any(in);
	u64 qlen = fuzz_take_any(in);
	long double u = fminl(1 + qlen / (long double)p->T, HPCC_U_MAX);
	long double eta = ldexpl(p->eta_q24, -24), U, W;
	struct hpcc_link L[HPCC_HOPS_MAX];
	struct hpcc_algo was = copy_of(a, L);

	if (!hpcc_algo_respond(a, p, seq, qlen, false)) {
		expect_same(was, a);
		return;
	}
	U = U_of(a);
	expect(!was.started || (s32)(seq - was.last_update_seq) >= 0);
	expect(a->U_q24 > was.U_q24 && !a->U_low && a->moved);
	expect(fabsl(U - u) <= 0x1p-23L + u * 0x1p-21L);
	W = fminl(fmaxl(was.Wc_q16 * eta / U, p->W_min_q16), was.W_q16);
	expect(fabsl(a->W_q16 - W) <= 2 + W * (0x1p-31L / U + 0x1p-31L * U / eta));
	expect(a->W_q16 <= was.W_q16);
	expect(!hpcc_algo_respond(a, p, seq, qlen, false));
	was.W_q16 = a->W_q16;
	was.U_q24 = a->U_q24;
	was.U_low = 0;
	was.moved = true;
	expect_same(was, a);
}

static void take_operation(struct fuzz_input *in, struct hpcc_algo *a, const struct hpcc_params *p)
{
	u8 what = fuzz_take(in, 1);

	switch (what >> 5) {
	case 0:
		if (what & 16) {
			take_fall(in, a, p, what & 8);
			break;
		}
		hpcc_algo_restart(a, p, fuzz_take_any(in));
		expect(a->W_q16 == a->Wc_q16);
		break;
	case 1:
		hpcc_algo_forget_hop(a, fuzz_take(in, 1));
		break;
	case 2:
		hpcc_algo_trim(a, fuzz_take(in, 1));
		break;
	case 3:
		hpcc_algo_forget(a);
		break;
	case 4:
		if (what & 4)
			take_response(in, a, p);
		else if (what & 2)
			take_quiet(in, a, p);
		else
			take_slow(in, a, p, what & 1);
		break;
	default:
		take_ack(in, a, p, what % (RECORDS_MAX + 1), what >> 5 < 7);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct hpcc_params p = take_params(&in);
	struct hpcc_algo a, fastest;

	/* The previous content must have no effect. */
	memset(&a, 0xa5, sizeof(a));
	hpcc_algo_init(&a, &p);
	expect_bounds(&a, &p);
	fastest = a;
	while (in.size) {
		take_operation(&in, &a, &p);
		expect_bounds(&a, &p);
		expect(hpcc_pacing_rate(&a, &p, 1000000000) <=
		       hpcc_pacing_rate(&fastest, &p, 1000000000));
	}
	free(a.L);
	return 0;
}
