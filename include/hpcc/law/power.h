/* SPDX-License-Identifier: GPL-2.0 */
/*
 * PowerTCP (Addanki, Michel, Schmid: "PowerTCP: Pushing the Performance Limits of Datacenter
 * Networks", NSDI 2022) on the records, the links and the window of hpcc/law/algo.h.
 *
 *	current	= (d(qlen) + d(tx)) / d(ts)			what arrived at the link
 *	voltage	= 1 + qlen / T					what the link has to send
 *	G	= current x voltage				per link: normalised power
 *	u'	= eta G, U = (1 - tau/T) U + tau/T max u'	as in HPCC++
 *	W	= gamma (Wc / (U/eta) + W_ai) + (1 - gamma) W
 *
 * The paper's qlen / (B T) and d(tx) / (B d(ts)) need no B here, as in algo.h. Wc is the paper's
 * window of a round trip ago, W_ai its beta. U contains the factor eta, so that U = eta means in
 * both laws that W neither grows nor falls: quiet links, slow start and observers need no change.
 *
 * hpcc_mailbox_drain() measures u' of HPCC++ and overwrites the last record of each link. So
 * hpcc_power_begin() copies what it overwrites, and hpcc_power_measure() repeats the measurement.
 * The functions use no skb, socket, clock, lock or allocation. Times, formats, bounds and rounding
 * are those of algo.h; u' has three roundings, and so an error of 2^-23 (1 + u').
 */
#ifndef _HPCC_LAW_POWER_H
#define _HPCC_LAW_POWER_H

#include <hpcc/law/algo.h>

/* 1 - gamma, in 1/128: gamma is 0.898. The paper recommends 0.9. */
#define HPCC_POWER_KEEP		13
#define HPCC_POWER_SHIFT	7

/* Above a queue of T / 2^3 power is at least 1. */
#define HPCC_POWER_QUEUE_SHIFT	3

/* State of a connection before the records of an ACK. */
struct hpcc_power_prior {
	u64	U_q24;
	u32	U_low;
	bool	moved;
	u8	end;	/* number of valid elements of L */
	struct {
		u64	ts;		/* time units; 0: not a baseline */
		u64	tx;		/* time units */
		u64	qlen;		/* time units */
		u64	seen_us;	/* the caller's clock */
	} L[HPCC_HOPS_MAX];
};

/**
 * hpcc_power_begin() - copy the state before the records of an ACK
 * @a: connection
 * @prior: result
 */
static inline void hpcc_power_begin(const struct hpcc_algo *a, struct hpcc_power_prior *prior)
{
	u32 i;

	prior->U_q24 = a->U_q24;
	prior->U_low = a->U_low;
	prior->moved = a->moved;
	prior->end = a->end;
	for (i = 0; i < a->end; i++) {
		prior->L[i].ts = a->L[i].valid ? a->L[i].ts : 0;
		prior->L[i].tx = a->L[i].tx;
		prior->L[i].qlen = a->L[i].qlen;
		prior->L[i].seen_us = a->L[i].seen_us;
	}
}

/**
 * hpcc_power_u() - u' of a link
 * @p: parameters
 * @dqlen: change of the queue since the last record, time units
 * @qlen: queue, time units
 * @dtx: sent since the last record, time units
 * @dts: time since the last record, time units, not 0
 *
 * Less than nothing cannot arrive: current is at least 0. Not in the paper: power is at least 1
 * while the queue is longer than T / 8. After an incast all windows are full, so nothing arrives
 * until the queue has drained. With a power of 0, W would grow to W_max and cause the next incast.
 * Return: eta x current x voltage, Q24.
 */
static inline u64 hpcc_power_u(const struct hpcc_params *p, s64 dqlen, u64 qlen, u64 dtx, u64 dts)
{
	u64 current_q24 = hpcc_link_u(p, 0, max_t(s64, dtx + dqlen, 0), dts);
	u64 power_q24 = hpcc_mul_shr(current_q24, hpcc_link_u(p, qlen, 1, 1), HPCC_FRAC_BITS);

	if (qlen > p->T >> HPCC_POWER_QUEUE_SHIFT)
		power_q24 = max_t(u64, power_q24, HPCC_ONE_Q24);
	return min_t(u64, hpcc_mul_shr(power_q24, p->eta_q24, HPCC_FRAC_BITS), HPCC_U_MAX_Q24);
}

/**
 * hpcc_power_measure() - repeat MeasureInflight with the power of each link
 * @a: connection, after MeasureInflight of HPCC++; u' of the links and U are updated
 * @p: parameters
 * @prior: result of hpcc_power_begin() before that
 * @bits: result of MeasureInflight
 * @now_us: the clock of seen_us
 * @us: time units in 1 us
 *
 * A link whose first record after a quiet period arrived sends without a pause, so its current is
 * 1. A quiet link keeps its u': it has no queue, and HPCC++ reduces u' step by step from eta.
 * Return: enum hpcc_ack_bits.
 */
static inline u32 hpcc_power_measure(struct hpcc_algo *a, const struct hpcc_params *p,
				     const struct hpcc_power_prior *prior, u32 bits, u64 now_us,
				     u32 us)
{
	const u32 unusable = HPCC_ACK_NEW | HPCC_ACK_PATH | HPCC_ACK_TX_BACK;
	struct hpcc_measure m = { .bits = bits };
	u64 tau;
	u32 i;

	if (bits & HPCC_ACK_NO_SAMPLE)
		return bits;
	a->U_q24 = prior->U_q24;
	a->U_low = prior->U_low;
	a->moved = prior->moved;
	for (i = 0; i < prior->end && i < a->end; i++) {
		struct hpcc_link *l = &a->L[i];

		if (l->quiet) {
			tau = (now_us - prior->L[i].seen_us) * us;
			if (l->seen_us == prior->L[i].seen_us)
				continue;
		} else {
			/* HPCC++ sets u' to 0 if the record measures nothing. */
			if (!l->valid || l->ts == prior->L[i].ts ||
			    (!l->u_q24 && bits & unusable))
				continue;
			tau = p->T;
			if (prior->L[i].ts) {
				tau = l->ts - prior->L[i].ts;
				l->u_q24 = hpcc_power_u(p, l->qlen - prior->L[i].qlen, l->qlen,
							l->tx - prior->L[i].tx, tau);
			} else {
				l->u_q24 = hpcc_power_u(p, 0, l->qlen, 1, 1);
			}
		}
		m.seen |= 1U << i;
		hpcc_measure_max(a, i, tau, 0, &m);
	}
	return hpcc_measure_end(a, p, &m);
}

/**
 * hpcc_power_wind() - W from U
 * @a: connection; Wc is updated
 * @p: parameters
 * @update_wc: synchronise Wc with W
 *
 * After CE, as in HPCC++, W grows only by W_ai for some round trips: the link that marked may send
 * no records, and an idle link with records would restore W.
 * Return: W, bytes, Q16, W_min .. W_max.
 */
static inline u64 hpcc_power_wind(struct hpcc_algo *a, const struct hpcc_params *p, bool update_wc)
{
	u64 W_q16 = hpcc_scale_wind(a, p);

	if (a->reduced)
		W_q16 = min(W_q16, a->Wc_q16);
	W_q16 = hpcc_clamp_wind(p, W_q16 + hpcc_W_ai(a, p));
	W_q16 += ((s64)(a->W_q16 - W_q16) * HPCC_POWER_KEEP) >> HPCC_POWER_SHIFT;
	if (update_wc) {
		a->Wc_q16 = W_q16;
		a->inc_stage = a->reduced ? a->inc_stage + 1 : 0;
		a->reduced = a->reduced && a->inc_stage < HPCC_CE_STAGES;
	}
	return W_q16;
}

#endif /* _HPCC_LAW_POWER_H */
