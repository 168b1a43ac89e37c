/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Receiver-based HPCC++: NewINT of draft-miao-iccrg-hpccplus section 6.2, and its records in a
 * REPORT. The functions use no skb, socket, clock or lock.
 *
 *	sender to receiver	parameters for W (struct hpcc_newint_params)
 *	receiver to sender	W (struct hpcc_window)
 *
 * All windows are fractions of W_init, so neither record reveals the capacity of the path. The
 * receiver runs the law of <hpcc/law/algo.h> with W_init = HPCC_WINDOW_ONE bytes.
 *
 * The draft's condition is "now > lastUpdateTime + T". This code adds the delay of the path's
 * queues to T, because data that the sender transmits with a new W wait in these queues. With T
 * alone, Wc would be divided once per T by a U that is one round trip old: sixteen flows that meet
 * at an empty port would all have W_min when the queue has drained.
 */
#ifndef _HPCC_LAW_NEWINT_H
#define _HPCC_LAW_NEWINT_H

#include <linux/hpcc.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <hpcc/law/algo.h>

#define HPCC_NEWINT_W_INIT_Q16	((u64)HPCC_WINDOW_ONE << HPCC_W_BITS)
#define HPCC_NEWINT_T_MIN_NS	1000U
#define HPCC_NEWINT_T_MAX_NS	1000000000U
#define HPCC_NEWINT_SETTLE_MAX	64U
#define HPCC_NEWINT_IDS		16

/* W is reported immediately if it is lower than the last reported W by more than 2^-3. */
#define HPCC_NEWINT_FALL_SHIFT	3
/* A W that was computed without an update of Wc is reported once per this number of T. */
#define HPCC_NEWINT_SAME_T	4
/* A longer queue counts as a queue of this number of T. */
#define HPCC_NEWINT_QUEUE_T	64
/* N until the receiver has counted the flows, as in the HPCC paper. */
#define HPCC_N_DEFAULT		100

/* Parameters of a sender for the computation of W. */
struct hpcc_newint_params {
	u8	id;		/* number of this set, 0 .. HPCC_NEWINT_IDS - 1 */
	u32	T_ns;		/* base RTT; 0: compute nothing */
	u16	eta_permille;	/* target utilization, 1 .. 1000 */
	u8	max_stage;
	u8	settle;		/* for hpcc_wc_update_allowed(), at most HPCC_NEWINT_SETTLE_MAX */
	bool	per_rtt;	/* W changes only when Wc changes */
	u16	W_min;		/* in W_init / 2^14, 1 .. 2047 */
	u32	W;		/* initial W, in W_init / 2^16, 1 .. 65536 */
	u32	W_ai;		/* in W_init / 2^28, below 2^28 */
	bool	alone;		/* W_ai is for a single flow: the receiver divides it by N */
};

#define HPCC_NEWINT_W_MIN_BITS	14
#define HPCC_NEWINT_W_BITS	16
#define HPCC_NEWINT_W_AI_BITS	28

/* Write the two records of valid parameters, as numbers. */
static inline void hpcc_newint_params_pack(const struct hpcc_newint_params *q, u64 words[2])
{
	u64 head = (u64)HPCC_REPORT_PARAMETERS << 60 | (u64)q->id << 56;

	words[0] = head | (u64)q->max_stage << 48 | (u64)q->settle << 41 |
		   (u64)q->per_rtt << 40 | (u64)q->eta_permille << 30 | q->T_ns;
	words[1] = head | (u64)q->alone << 55 | (u64)q->W_min << 44 |
		   (u64)(q->W - 1) << 28 | q->W_ai;
}

/* Returns false if the records are not parameters, belong to two sets, or are out of range. */
static inline bool hpcc_newint_params_unpack(const u64 words[2], struct hpcc_newint_params *q)
{
	q->id = words[0] >> 56 & 0xf;
	q->max_stage = words[0] >> 48;
	q->settle = words[0] >> 41 & 0x7f;
	q->per_rtt = words[0] >> 40 & 1;
	q->eta_permille = words[0] >> 30 & 0x3ff;
	q->T_ns = words[0] & 0x3fffffff;
	q->alone = words[1] >> 55 & 1;
	q->W_min = words[1] >> 44 & 0x7ff;
	q->W = (words[1] >> 28 & 0xffff) + 1;
	q->W_ai = words[1] & 0xfffffff;
	if (words[0] >> 60 != HPCC_REPORT_PARAMETERS || (words[0] ^ words[1]) >> 56)
		return false;
	return q->settle <= HPCC_NEWINT_SETTLE_MAX && q->W_min && q->eta_permille &&
	       q->eta_permille <= 1000 &&
	       (!q->T_ns || (q->T_ns >= HPCC_NEWINT_T_MIN_NS && q->T_ns <= HPCC_NEWINT_T_MAX_NS));
}

/* W_ai of a single flow, in the receiver's bytes, Q16; 0: do not divide W_ai by N. */
static inline u64 hpcc_newint_W_ai_alone(const u64 words[2])
{
	if (!(words[1] >> 55 & 1))
		return 0;
	return (HPCC_NEWINT_W_INIT_Q16 >> HPCC_NEWINT_W_AI_BITS) * (words[1] & 0xfffffff);
}

/* Whether two sets of parameters are equal except for W. */
static inline bool hpcc_newint_params_same(const u64 a[2], const u64 b[2])
{
	return a[0] == b[0] && !((a[1] ^ b[1]) & ~(0xffffULL << 28));
}

/* @W_q16, limited to W_init, in units of W_init / 2^@bits, rounded down. @bits: 1 .. 30. */
static inline u32 hpcc_newint_part(const struct hpcc_params *p, u64 W_q16, u32 bits)
{
	u32 shift = 0;

	W_q16 = min(W_q16, p->W_max_q16);
	/* 2^56 << 30 does not fit in 64 bits; at least 26 bits of W_init are used. */
	while (p->W_max_q16 >> shift >> (64 - bits))
		shift++;
	return min_t(u64, div64_u64((W_q16 >> shift) << bits, max_t(u64, p->W_max_q16 >> shift, 1)),
		     1ULL << bits);
}

/* The record of a window. */
struct hpcc_window {
	u8	id;	/* of the parameters from which W was computed */
	u16	seq;	/* sequence number of windows, modulo 2^16 */
	u32	W;	/* in W_init / HPCC_WINDOW_ONE, 1 .. HPCC_WINDOW_ONE */
};

static inline u64 hpcc_window_pack(const struct hpcc_window *w)
{
	return (u64)HPCC_REPORT_WINDOW << 60 | (u64)w->id << 56 | (u64)w->seq << 32 | w->W;
}

/* Returns false if @v is not the record of a window, or if W is 0 or above W_init. */
static inline bool hpcc_window_unpack(u64 v, struct hpcc_window *w)
{
	w->id = v >> 56 & 0xf;
	w->seq = v >> 32;
	w->W = v;
	return v >> 60 == HPCC_REPORT_WINDOW && !(v >> 48 & 0xff) && w->W &&
	       w->W <= HPCC_WINDOW_ONE;
}

/* Whether a window record is newer than @old, or has another id. @old is 0 if there is none. */
static inline bool hpcc_window_newer(u64 v, u64 old)
{
	u16 ahead = (v >> 32) - (old >> 32);

	return (v ^ old) >> 56 || (ahead && ahead < 0x8000);
}

/* The W of a record: bytes, Q16, W_min .. W_max. */
static inline u64 hpcc_window_bytes(const struct hpcc_window *w, const struct hpcc_params *p)
{
	return hpcc_clamp_wind(p, hpcc_mul_shr(p->W_max_q16, w->W, 30));
}

/* State of a connection at the receiver. Times are in time units. */
struct hpcc_newint {
	struct hpcc_algo	algo;		/* W, Wc, U, L */
	struct hpcc_params	params;		/* with W_init of HPCC_WINDOW_ONE bytes */
	u64			last_update;	/* lastUpdateTime */
	u64			queue;		/* queues of the path at last_update */
	u64			reduced;	/* time when CE last reduced W */
	u64			reported;	/* time of the last report of W */
	u64			reported_q16;	/* the last reported W; 0: none */
	u8			settle;		/* of the parameters */
	bool			measured;	/* a link was measured since the last report */
	bool			updated;	/* CE or a round trip changed Wc since then */
};

/* Restart the computation of W with valid new parameters, T not 0. Links keep their state. Here the
 * time unit is ns.
 */
static inline void hpcc_newint_begin(struct hpcc_newint *r, const struct hpcc_newint_params *q,
				     u64 now)
{
	struct hpcc_algo *a = &r->algo;
	struct hpcc_link *L = a->L;
	u8 nr = a->nr;
	u8 end = a->end;

	hpcc_params_init(&r->params, q->T_ns, HPCC_NEWINT_W_INIT_Q16,
			 (HPCC_NEWINT_W_INIT_Q16 >> HPCC_NEWINT_W_MIN_BITS) * q->W_min,
			 div64_u64((HPCC_NEWINT_W_INIT_Q16 >> HPCC_NEWINT_W_AI_BITS) * q->W_ai,
				   q->alone ? HPCC_N_DEFAULT : 1),
			 div64_u64((u64)q->eta_permille << HPCC_FRAC_BITS, 1000), q->max_stage);
	hpcc_algo_init(a, &r->params);
	hpcc_algo_links(a, L, nr);
	a->end = end;
	a->W_q16 = hpcc_clamp_wind(&r->params,
				   (HPCC_NEWINT_W_INIT_Q16 >> HPCC_NEWINT_W_BITS) * q->W);
	a->Wc_q16 = a->W_q16;
	a->per_rtt = q->per_rtt;
	r->settle = q->settle;
	r->last_update = now;
	r->queue = 0;
	r->reduced = now - r->params.T;
	r->reported_q16 = 0;
	r->measured = false;
	r->updated = false;
}

/* The sum of the queues of the path in the newest records. */
static inline u64 hpcc_newint_queue(const struct hpcc_newint *r)
{
	const struct hpcc_algo *a = &r->algo;
	u64 most = HPCC_NEWINT_QUEUE_T * r->params.T;
	const struct hpcc_link *l;
	u64 sum = 0;

	for (l = a->L; l < a->L + a->end; l++)
		if (l->valid)
			sum += min(l->qlen, most);
	return min(sum, most);
}

/* Second part of NewINT: update W from U (draft section 6.2, lines 28-34). @bits: result of
 * MeasureInflight. Returns enum hpcc_ack_bits.
 */
static inline u32 hpcc_newint_follow(struct hpcc_newint *r, u32 bits, u64 now)
{
	u64 since = now - r->last_update;
	struct hpcc_algo *a = &r->algo;
	bool full;

	if (bits & HPCC_ACK_NO_SAMPLE) {
		if (a->started || !(bits & HPCC_ACK_NEW))
			return bits;
		a->started = true;
		r->last_update = now;
		r->queue = hpcc_newint_queue(r);
		return bits | HPCC_ACK_FIRST;
	}
	r->measured = true;
	full = a->resync || (since > r->params.T + r->queue &&
			     hpcc_wc_update_allowed(&r->params, since, r->settle));
	bits = hpcc_follow_U(a, &r->params, bits, full, hpcc_compute_wind);
	if (full) {
		r->last_update = now;
		r->queue = hpcc_newint_queue(r);
		if (bits & HPCC_ACK_UPDATE)
			r->updated = true;
	}
	return bits;
}

/* Reduce W because of CE, at most once per round trip. @shift: as for hpcc_algo_reduce(). */
static inline void hpcc_newint_reduce(struct hpcc_newint *r, u32 shift, u64 now)
{
	if (now - r->reduced <= r->params.T + r->queue)
		return;
	r->reduced = now;
	r->updated = true;
	hpcc_algo_reduce(&r->algo, &r->params, shift);
}

/* Whether to report W immediately: for the first report, or if W fell by more than 1/8. */
static inline bool hpcc_newint_fell(const struct hpcc_newint *r)
{
	u64 reported_q16 = r->reported_q16;

	return !reported_q16 ||
	       r->algo.W_q16 < reported_q16 - (reported_q16 >> HPCC_NEWINT_FALL_SHIFT);
}

/* Whether to report W: if hpcc_newint_fell(), or, at most once per T, if a link was measured since
 * the last report, and either Wc was synchronised or 4 T have passed.
 */
static inline bool hpcc_newint_due(const struct hpcc_newint *r, u64 now)
{
	u64 since = now - r->reported;

	if (hpcc_newint_fell(r))
		return true;
	if (!r->measured || since < r->params.T)
		return false;
	return r->updated || since >= HPCC_NEWINT_SAME_T * r->params.T;
}

/* Report W. Return: W in units of W_init / HPCC_WINDOW_ONE, from 1 to HPCC_WINDOW_ONE. */
static inline u32 hpcc_newint_report(struct hpcc_newint *r, u64 now)
{
	r->reported = now;
	r->reported_q16 = r->algo.W_q16;
	r->measured = false;
	r->updated = false;
	return clamp_t(u64, r->algo.W_q16 >> HPCC_W_BITS, 1, HPCC_WINDOW_ONE);
}

#endif /* _HPCC_LAW_NEWINT_H */
