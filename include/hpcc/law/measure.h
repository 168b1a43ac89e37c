/* SPDX-License-Identifier: GPL-2.0 */
/*
 * MeasureInflight of draft-miao-iccrg-hpccplus section 4.2: u' of each link and U, from the records
 * of an ACK. hpcc/law/algo.h contains the formulas.
 */
#ifndef _HPCC_LAW_MEASURE_H
#define _HPCC_LAW_MEASURE_H

#include <hpcc/law/state.h>

/* u', Q24 (draft lines 4 and 5). @qlen: the smaller queue length of two successive records. @dtx
 * and @dts: between the records; @dtx is at most HPCC_TX_EXCESS @dts + T, @dts is not 0.
 */
static inline u64 hpcc_link_u(const struct hpcc_params *p, u64 qlen, u64 dtx, u64 dts)
{
	u64 u_q24;

	if (qlen >> 16 >= p->T || dtx >> 16 >= dts)
		return HPCC_U_MAX_Q24;
	/* Keep dtx << 24 within 64 bits. dtx is less than 2^16 dts, so dts stays above 2^22 and has
	 * 22 significant bits.
	 */
	while ((dtx | dts) >> 39) {
		dtx >>= 1;
		dts >>= 1;
	}
	u_q24 = hpcc_mul_shr(qlen, p->inv_T_q63,
			     HPCC_INV_T_BITS - HPCC_FRAC_BITS) +
		hpcc_div_nearest(dtx << HPCC_FRAC_BITS, dts);
	return min_t(u64, u_q24, HPCC_U_MAX_Q24);
}

/* Process a link's record: u' and L[i] = ack.L[i]. Returns 0 if u' was measured; otherwise the
 * reason why not, one of enum hpcc_ack_bits.
 */
static inline u32 hpcc_link_update(struct hpcc_link *l, const struct hpcc_params *p,
				   const struct hpcc_sample *s)
{
	u64 dtx = s->tx - l->tx;
	u64 dts = s->ts - l->ts;
	u32 why = 0;

	if (!l->valid && !l->quiet)
		why = HPCC_ACK_NEW;
	else if (s->tag != l->tag && (l->valid || l->ts))
		why = HPCC_ACK_PATH;
	else if (!l->valid)
		why = 0;
	else if ((s64)dts <= 0)
		return HPCC_ACK_TS_BACK;
	else if ((s64)dtx < 0)
		why = HPCC_ACK_TX_BACK;
	else if (dtx > p->T && (dtx - p->T - 1) / HPCC_TX_EXCESS >= dts)
		return HPCC_ACK_TX_EXCESS;

	if (why)
		l->u_q24 = 0;
	else if (l->valid)
		l->u_q24 = hpcc_link_u(p, min(s->qlen, l->qlen), dtx, dts);
	else	/* the link has a queue now, so it sends without a pause */
		l->u_q24 = hpcc_link_u(p, s->qlen, 1, 1);
	l->ts = s->ts;
	l->tx = s->tx;
	l->qlen = s->qlen;
	l->tag = s->tag;
	l->bottleneck_since = why ? 0 : l->bottleneck_since;
	l->rounds = 0;
	l->quiet = 0;
	l->valid = true;
	return why;
}

/* Process a report that a link is quiet: its last record is no longer a valid baseline. @slow: slow
 * start limits W, so u' may get its minimum immediately. Returns HPCC_ACK_NEW if the link had no
 * baseline and was not quiet, otherwise 0.
 */
static inline u32 hpcc_link_quiet(struct hpcc_link *l, const struct hpcc_params *p, bool slow)
{
	u32 why = l->valid || l->quiet ? 0 : HPCC_ACK_NEW;

	l->quiet = slow ? 1 + HPCC_QUIET_STEPS : max_t(u8, l->quiet, 1);
	l->u_q24 = p->eta_q24 - (l->quiet - 1) * (p->eta_q24 >> HPCC_QUIET_SHIFT);
	l->rounds = 0;
	l->valid = false;
	return why;
}

/* A round trip ended. A link without a report for too long counts as idle, and keeps its baseline.
 * While a link with records limits W, a quiet link does not show how much more traffic it could
 * carry: its u' restarts at eta.
 */
static inline void hpcc_links_round(struct hpcc_algo *a)
{
	struct hpcc_link *l;
	u64 most_q24 = 0;

	for (l = a->L; l < a->L + a->end; l++)
		if (!l->quiet)
			most_q24 = max(most_q24, l->u_q24);
	for (l = a->L; l < a->L + a->end; l++) {
		if (l->quiet && l->u_q24 < most_q24)
			l->quiet = 1;
		else
			l->quiet += l->quiet && l->quiet <= HPCC_QUIET_STEPS;
		if (l->rounds < HPCC_LINK_ROUNDS)
			l->rounds++;
		else
			l->u_q24 = 0;
	}
}

/* Record which link is the bottleneck (largest u', also of quiet links), and since when. Call this
 * once per round trip: within a round trip the order of two equally loaded links changes often.
 * @now: time of any clock; 0 counts as 1.
 */
static inline void hpcc_find_bottleneck(struct hpcc_algo *a, u32 now)
{
	struct hpcc_link *l, *most = NULL;

	for (l = a->L; l < a->L + a->end; l++)
		if ((l->valid || l->quiet) && (!most || l->u_q24 > most->u_q24))
			most = l;
	for (l = a->L; l < a->L + a->end; l++)
		l->bottleneck_since = l != most ? 0 : l->bottleneck_since ?: now ?: 1;
}

/* U = (1 - tau/T) U + tau/T u (draft line 9). @tau: time units, at most T. */
static inline void hpcc_average(struct hpcc_algo *a, const struct hpcc_params *p, u64 u_q24,
				u64 tau)
{
	u64 weight_q63 = min_t(u64, tau * p->inv_T_q63, BIT_ULL(HPCC_INV_T_BITS));
	u64 U_q44 = a->U_q24 << HPCC_U_LOW_BITS | a->U_low;
	u64 u_q44 = u_q24 << HPCC_U_LOW_BITS;

	if (u_q44 >= U_q44)
		U_q44 += hpcc_mul_shr(u_q44 - U_q44, weight_q63, HPCC_INV_T_BITS);
	else
		U_q44 -= hpcc_mul_shr(U_q44 - u_q44, weight_q63, HPCC_INV_T_BITS);
	a->U_q24 = U_q44 >> HPCC_U_LOW_BITS;
	a->U_low = U_q44 & ((1U << HPCC_U_LOW_BITS) - 1);
	a->moved = true;
}

/* State of MeasureInflight while the records of an ACK are processed: at first all 0, except @rtt,
 * @delivered and @mss. If @mss is 0, the connection's own bytes in flight are not measured.
 */
struct hpcc_measure {
	u64	rtt;	/* set by the caller: RTT of the ACK, time units */
	u32	delivered;	/* set by the caller: packets of the connection that have arrived */
	u32	mss;	/* set by the caller: bytes of each packet */
	u32	own;	/* packets that arrived in @dts */
	u64	u_q24;	/* largest u' of these records */
	u64	dts;	/* d(ts) of the link with this u' */
	u32	at;	/* index of the link with this u' */
	u32	seen;	/* bit mask of links that have a record in the ACK */
	u32	fresh;	/* bit mask of the links in seen that were measured */
	u32	bits;	/* enum hpcc_ack_bits */
};

/* Use the u' of a measured link if it is the largest one in this ACK. @dts: time units since the
 * link's last report; @own: packets of the connection that arrived in this time.
 */
static inline void hpcc_measure_max(const struct hpcc_algo *a, u32 at, u64 dts, u32 own,
				    struct hpcc_measure *m)
{
	u64 u_q24 = a->L[at].u_q24;

	if (!m->fresh || u_q24 > m->u_q24 || (u_q24 == m->u_q24 && at < m->at)) {
		m->u_q24 = u_q24;
		m->dts = dts;
		m->own = own;
		m->at = at;
	}
	m->fresh |= 1U << at;
}

/* Average the connection's own bytes in flight as hpcc_average() averages U: bytes per d(ts) times
 * the RTT, at least T. The first time, start with W.
 */
static inline void hpcc_average_own(struct hpcc_algo *a, const struct hpcc_params *p,
				    const struct hpcc_measure *m)
{
	u64 own = a->own == HPCC_OWN_UNKNOWN ? a->W_q16 >> HPCC_W_BITS : a->own;
	u64 bytes = (u64)m->own * m->mss;
	u64 rtts_q24;

	if (m->rtt > p->T) {
		rtts_q24 = hpcc_mul_shr(min(m->rtt, p->T << 16), p->inv_T_q63,
					HPCC_INV_T_BITS - HPCC_FRAC_BITS);
		bytes = hpcc_mul_shr(bytes, rtts_q24, HPCC_FRAC_BITS);
	}
	if (m->dts < p->T) {	/* bytes T / d(ts), with the weight d(ts) / T */
		bytes = min_t(u64, bytes, HPCC_OWN_UNKNOWN);
		bytes += own - hpcc_mul_shr(own, m->dts * p->inv_T_q63, HPCC_INV_T_BITS);
	} else if (m->dts > p->T) {
		bytes = hpcc_mul_shr(bytes, hpcc_div_nearest(p->T << 23, m->dts), 23);
	}
	a->own = min_t(u64, bytes, HPCC_OWN_UNKNOWN - 1);
}

/* Process the record of a hop, 1 .. @a->nr (draft section 4.2, lines 3-8). @m: all 0 before the
 * first record of an ACK.
 * Return: 0 if u' was measured; otherwise the reason why not, one of enum hpcc_ack_bits.
 */
static inline u32 hpcc_measure_link(struct hpcc_algo *a, const struct hpcc_params *p,
				    const struct hpcc_sample *s, struct hpcc_measure *m)
{
	u32 at = s->hop - 1U;
	struct hpcc_link *l;
	bool quiet;
	u64 last;
	u32 own;
	u32 why;

	if (at >= a->nr) {
		m->bits |= HPCC_ACK_BAD_HOP;
		return HPCC_ACK_BAD_HOP;
	}
	if (m->seen & 1U << at) {
		m->bits |= HPCC_ACK_REPEAT;
		return HPCC_ACK_REPEAT;
	}
	m->seen |= 1U << at;
	l = &a->L[at];
	last = l->ts;
	quiet = l->quiet;
	why = hpcc_link_update(l, p, s);
	a->end = max_t(u8, a->end, at + 1);
	m->bits |= why;
	if (why & (HPCC_ACK_TS_BACK | HPCC_ACK_TX_EXCESS))
		return why;
	own = m->delivered - l->delivered;
	l->delivered = m->delivered;
	if (!why)
		hpcc_measure_max(a, at, quiet ? p->T : l->ts - last, own, m);
	return why;
}

/* Process a report that the link of @hop (1 .. @a->nr, not in @m->seen) is quiet. @tau: time since
 * the last report of the link, time units. @m: as for hpcc_measure_link().
 */
static inline void hpcc_measure_quiet(struct hpcc_algo *a, const struct hpcc_params *p, u32 hop,
				      u64 tau, struct hpcc_measure *m)
{
	u32 at = hop - 1;
	struct hpcc_link *l = &a->L[at];
	u32 why = hpcc_link_quiet(l, p, hpcc_algo_is_slow(a, p));
	u32 own = m->delivered - l->delivered;

	l->delivered = m->delivered;
	m->seen |= 1U << at;
	a->end = max_t(u8, a->end, hop);
	m->bits |= why;
	if (!why)
		hpcc_measure_max(a, at, tau, own, m);
}

/**
 * hpcc_measure_end() - update U from an ACK's records (draft section 4.2, lines 6-10)
 * @a: connection; U is updated
 * @p: parameters
 * @m: result of hpcc_measure_link() for the records
 *
 * u is the maximum over all links of the path. A link without a record in this ACK counts with its
 * last u', a link with an unusable record as idle. U changes only if this ACK measured the link
 * with the maximum; with records of all links this equals the draft's loop. u' = 0 for all links is
 * valid: a link that is much faster than the host sends a packet in less than one time unit. If
 * u' = 0 were ignored, U would stay at 1 forever.
 * Return: enum hpcc_ack_bits; HPCC_ACK_NO_SAMPLE if no link was measured.
 */
static inline u32 hpcc_measure_end(struct hpcc_algo *a, const struct hpcc_params *p,
				   const struct hpcc_measure *m)
{
	u32 i;

	if (!m->fresh)
		return m->bits | HPCC_ACK_NO_SAMPLE;
	for (i = 0; i < a->end; i++) {
		if (m->seen & 1U << i)
			continue;
		if (a->L[i].u_q24 > m->u_q24 ||
		    (a->L[i].u_q24 == m->u_q24 && m->u_q24 && i < m->at))
			return m->bits;
	}
	hpcc_average(a, p, m->u_q24, min(m->dts, p->T));
	if (m->mss)
		hpcc_average_own(a, p, m);
	a->quiet = a->L[m->at].quiet > 1;
	return m->bits;
}

#endif /* _HPCC_LAW_MEASURE_H */
