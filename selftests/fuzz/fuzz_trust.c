// SPDX-License-Identifier: GPL-2.0
/*
 * <hpcc/trust.h>: any series of records, RTTs and round trips, next to the
 * rules in words: what was heard in a round is kept, and judged in 128 bits.
 *
 * Input: T, the smallest RTT, then operations, each a byte and what it takes.
 */
#include "fuzz.h"
#include <hpcc/trust.h>

#define HEARD_MAX	1024
#define LINKS		3
/* A stamp has 20 bits, in units of up to 2^31 ns. */
#define STEP_MASK	((1ULL << 51) - 1)
/* TCP's RTTs are 32 bits of microseconds. */
#define RTT_MASK	((1ULL << 42) - 1)

typedef __int128 s128;

/**
 * struct heard - a record of the link that is watched; ns, queues as ns of B
 * @dts: since the one before; 0: there is none to compare with
 * @dtx: likewise
 * @q_before: queue then
 * @q: queue now
 * @ahead: what waits behind the stamp
 */
struct heard {
	s128	dts;
	s128	dtx;
	s128	q_before;
	s128	q;
	s128	ahead;
};

struct round {
	struct heard heard[HEARD_MAX];
	u32	n;
	u64	rtt_max;
};

/**
 * struct model - what a connection should think
 * @now: this round
 * @before: the one before
 * @at: the link that is watched, hop - 1
 * @last: its last record; not @valid: none
 * @valid: see @last
 * @ahead: see struct heard
 * @speaks: score
 * @good: rounds in a row, while lost
 * @losses: so far
 * @lost: not believed
 */
struct model {
	struct round *now;
	struct round *before;
	u32	at;
	struct hpcc_link last;
	bool	valid;
	s128	ahead;
	int	speaks;
	u64	good;
	u32	losses;
	bool	lost;
};

static void forget(struct model *m)
{
	m->now->n = 0;
	m->now->rtt_max = 0;
	m->before->n = 0;
	m->before->rtt_max = 0;
	m->valid = false;
	m->ahead = 0;
}

static void hear(struct model *m, const struct hpcc_algo *a, u64 rtt)
{
	const struct hpcc_link *l = &a->L[m->at];
	struct round *now = m->now;
	struct heard h = { .q = l->qlen };

	now->rtt_max = max(now->rtt_max, rtt);
	if (!l->valid || (m->valid && l->ts == m->last.ts))
		return;
	if (m->valid && l->tag == m->last.tag && l->u_q24) {
		h.dts = l->ts - m->last.ts;
		h.dtx = l->tx - m->last.tx;
		h.q_before = m->last.qlen;
		m->ahead += h.dtx - (h.dts + h.dts / 8);
		m->ahead = m->ahead > 0 ? m->ahead : 0;
	} else {
		m->ahead = 0;
	}
	h.ahead = m->ahead;
	now->heard[now->n++] = h;
	m->last = *l;
	m->valid = true;
}

/* What the head of trust.h says, of the round before. */
static int judge(const struct model *m, u64 T, u64 min_rtt)
{
	const struct round *r = m->before;
	s128 rtt = max(r->rtt_max, m->now->rtt_max);
	s128 late = rtt > min_rtt ? rtt - min_rtt : 0;
	s128 idle = 0, q_min = -1, ahead_min = -1, wait_min = -1;
	u32 i;

	if (!r->n || !m->now->rtt_max)
		return -1;
	for (i = 0; i < r->n; i++) {
		const struct heard *h = &r->heard[i];
		s128 owed = min(h->dts, h->q_before);

		idle += owed - owed / 8 - h->dtx;
		if (!i || h->q < q_min)
			q_min = h->q;
		if (!i || h->ahead < ahead_min)
			ahead_min = h->ahead;
		if (!i || h->q + h->ahead < wait_min)
			wait_min = h->q + h->ahead;
	}
	if (ahead_min > 2 * rtt || (idle > 0 && q_min > 2 * late + T / 8))
		return HPCC_TRUST_PROOF;
	return wait_min > 2 * rtt ? HPCC_TRUST_HINT : 0;
}

/* Return: whether it changes what is believed. */
static bool score(struct model *m, int weight, bool backlog)
{
	if (weight < 0)
		return false;
	if (m->lost) {
		m->good = weight ? 0 : m->good + 1;
		m->lost = m->good < 64ULL << min(m->losses - 1, 10U);
		return !m->lost;
	}
	if (!weight)
		m->speaks -= m->speaks > 0;
	else if (backlog)
		m->speaks += weight;
	if (m->speaks < 32)
		return false;
	m->speaks = 0;
	m->good = 0;
	m->losses++;
	m->lost = true;
	return true;
}

/* The link whose u' is more than twice that of the one that was watched. */
static void watch(struct model *m, const struct hpcc_algo *a)
{
	u64 most = 2 * a->L[m->at].u_q24;
	u32 at = m->at, i;

	for (i = 0; i < LINKS; i++) {
		if (i < a->end && a->L[i].valid && a->L[i].u_q24 > most) {
			most = a->L[i].u_q24;
			at = i;
		}
	}
	if (at == m->at)
		return;
	m->at = at;
	forget(m);
}

static void expect_equal(const struct hpcc_trust *t, const struct model *m)
{
	expect(t->lost == m->lost);
	expect(t->at == m->at);
	expect(t->valid == m->valid);
	expect(t->score == m->speaks);
	expect(t->ahead == (u64)m->ahead);
	expect(hpcc_trust_doubtful(t) == (m->speaks >= HPCC_TRUST_PROOF));
	expect(t->losses <= HPCC_TRUST_DOUBLINGS + 1);
}

static void take_ack(struct fuzz_input *in, struct hpcc_trust *t,
		     struct model *m, struct hpcc_algo *a,
		     const struct hpcc_params *p, u8 what)
{
	struct hpcc_sample s = { .hop = 1 + what % LINKS, .tag = what >> 6 & 1 };
	u64 rtt;

	s.ts = a->L[s.hop - 1].ts + (fuzz_take_any(in) & STEP_MASK);
	s.tx = a->L[s.hop - 1].tx + (fuzz_take_any(in) & STEP_MASK);
	s.qlen = fuzz_take_any(in) & STEP_MASK;
	rtt = fuzz_take_any(in) & RTT_MASK;
	hpcc_measure_inflight(a, p, &s, 1);
	hpcc_trust_ack(t, a, rtt);
	hear(m, a, rtt);
}

/* A round trip ends: what was sent before it is acknowledged. */
static void take_round(struct hpcc_trust *t, struct model *m,
		       const struct hpcc_algo *a, u64 T, u64 min_rtt,
		       bool backlog)
{
	u32 next = t->end_seq + 1000;
	int weight = judge(m, T, min_rtt);
	struct round *old;
	bool changes;

	expect(!hpcc_trust_round(t, a, T, min_rtt, t->end_seq, next, backlog));
	expect(hpcc_trust_weigh(t, T, min_rtt) == weight);
	changes = score(m, weight, backlog);
	expect(hpcc_trust_round(t, a, T, min_rtt, t->end_seq + 1, next,
				backlog) == changes);
	expect(t->end_seq == next);
	old = m->before;
	m->before = m->now;
	m->now = old;
	m->now->n = 0;
	m->now->rtt_max = 0;
	if (changes)
		forget(m);
	else
		watch(m, a);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	static struct round rounds[2];
	struct model m = { .now = &rounds[0], .before = &rounds[1] };
	struct fuzz_input in = { data, size };
	u64 T = 1 + fuzz_take_any(&in) % HPCC_T_MAX;
	u64 min_rtt = fuzz_take_any(&in) & RTT_MASK;
	struct hpcc_params p;
	struct hpcc_algo a;
	struct hpcc_trust t;
	u32 i, nr = 0;

	hpcc_params_init(&p, T, 1ULL << 32, 1 << 16, 1 << 16, HPCC_ONE_Q24, 5);
	hpcc_algo_init(&a, &p);
	memset(&t, 0xa5, sizeof(t));
	hpcc_trust_init(&t, 0xffffff00);
	forget(&m);
	while (in.size && nr++ < HEARD_MAX) {
		u8 what = fuzz_take(&in, 1);

		if (what < 0x80) {
			take_ack(&in, &t, &m, &a, &p, what);
		} else if (what < 0xf0) {
			/* several in a row, with nothing said between them */
			for (i = 0; i <= (what & 7); i++)
				take_round(&t, &m, &a, T, min_rtt, what & 8);
		} else if (what < 0xf8) {
			hpcc_algo_trim(&a, what & 3);
		} else {
			hpcc_trust_restart(&t, 7);
			forget(&m);
		}
		expect_equal(&t, &m);
	}
	return 0;
}
