/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HPCC++ window law: ComputeWind and NewAck of draft-miao-iccrg-hpccplus section 4.2.
 *
 *	u' = min(qlen, L.qlen) / T + d(tx) / d(ts)		per link
 *	u  = max u', tau = min(d(ts) of the link with this u', T)
 *	U  = (1 - tau/T) U + tau/T u
 *	W  = Wc / (U/eta) + W_ai   when U >= eta or incStage >= maxStage
 *	W  = Wc + W_ai             otherwise
 *
 * A quiet link reports only that its queue is short. In the first quiet round trip the law uses
 * u' = eta, as for a fully used link. In each further round trip u' falls by eta/64, down to eta/2,
 * and the change of W is multiplicative. In slow start u' is eta/2 immediately. The first record
 * after a quiet period gives u' = 1 + qlen/T.
 *
 * The draft's qlen / (B T) and txRate / B need no B here: records contain qlen and txBytes as the
 * time that the link needs to send these bytes. The functions use no skb, socket, clock, lock or
 * allocation.
 *
 * Times (T, ts, tx, qlen) are in a unit that the caller chooses, with T of 1 .. 2^40 units: ns in
 * the kernel, a fraction of a ns in the replay.
 *
 * Fixed point; "nearest" is half up:
 *
 *	value		format	bound		rounding
 *	W, Wc, W_ai	Q16	2^56 (1 TB)	nearest; bytes
 *	eta		Q24	2^24 (1)	the caller's
 *	u'		Q24	2^40 (65536)	nearest; saturates
 *	U		Q44	2^60 (65536)	nearest; U_q24 and the 20 bits below it, U_low
 *	1/T		Q63	2^63 (T = 1)	nearest; 23 significant bits for T = 2^40
 *	tau/T		Q63	2^63 (1)	that of 1/T, relative
 *	eta/U		Q31	2^63		nearest; from U in Q32
 *
 * One update changes U only by (u - U) tau/T. At 800 Gb/s and T = 1 s the weight tau/T of a packet
 * is 1e-8: in Q24, U would not change if |u - U| is below 3. In Q44 this limit is 3e-6.
 *
 * Maximum errors: of u' 2^-24 (half from each term); of U 2^-24 + 2^-45 T/tau; of W 2^-16 byte +
 * W (2^-32 / U + 2^-32 U / eta).
 */
#ifndef _HPCC_LAW_ALGO_H
#define _HPCC_LAW_ALGO_H

#include <hpcc/law/measure.h>

/* Whether the connection had less than 1/4 of Wc in flight. If Wc is less than a segment, most
 * intervals contain no segment and show nothing.
 */
static inline bool hpcc_wind_unused(const struct hpcc_algo *a, const struct hpcc_params *p)
{
	return a->own != HPCC_OWN_UNKNOWN && a->Wc_q16 > (u64)p->mss << HPCC_W_BITS &&
	       (u64)a->own << HPCC_W_BITS < a->Wc_q16 >> HPCC_OWN_SHIFT;
}

/* W_ai, or 0 if W is not used and U is below eta: otherwise a connection of one packet per round
 * trip would reach W_max, one W_ai after the other.
 */
static inline u64 hpcc_W_ai(const struct hpcc_algo *a, const struct hpcc_params *p)
{
	return a->U_q24 < p->eta_q24 && hpcc_wind_unused(a, p) ? 0 : p->W_ai_q16;
}

/* The largest W if U is below eta: bytes, Q16, at least Wc. @ratio_q31: eta/U. A link can be idle
 * only because the connection itself had nothing to send, or waited until W was in flight. So W
 * grows to what the connection had in flight, times eta/U, and 1/4 of that for the errors of the
 * measurement. If the connection used less than 1/4 of Wc, the measurement covers too few packets.
 * W can always grow to one segment.
 */
static inline u64 hpcc_most_wind(const struct hpcc_algo *a, const struct hpcc_params *p,
				 u64 ratio_q31)
{
	u64 least_q16 = max(a->Wc_q16, (u64)p->mss << HPCC_W_BITS);
	u64 own_q16 = (u64)a->own << HPCC_W_BITS;

	if (a->own == HPCC_OWN_UNKNOWN)
		return p->W_max_q16;
	if (hpcc_wind_unused(a, p))
		return a->Wc_q16;
	own_q16 = hpcc_mul_shr(own_q16 + (own_q16 >> HPCC_OWN_SHIFT), ratio_q31, 31);
	return min(max(own_q16, least_q16), p->W_max_q16);
}

/* Wc / (U/eta) (draft line 13): bytes, Q16, at most W_max. Not in the draft: hpcc_most_wind(). */
static inline u64 hpcc_scale_wind(const struct hpcc_algo *a, const struct hpcc_params *p)
{
	/* U in Q32. If U < 2^-32, it is 0, and W is W_max. */
	u64 U_q32 = a->U_q24 << 8 | a->U_low >> (HPCC_U_LOW_BITS - 8);
	u64 ratio_q31 = hpcc_div_nearest((u64)p->eta_q24 << 39, max_t(u64, U_q32, 1));

	return min(hpcc_mul_shr(a->Wc_q16, ratio_q31, 31),
		   ratio_q31 >> 31 ? hpcc_most_wind(a, p, ratio_q31) : p->W_max_q16);
}

/**
 * hpcc_compute_wind() - ComputeWind (draft section 4.2, lines 11-20)
 * @a: connection; incStage and Wc are updated
 * @p: parameters
 * @update_wc: synchronise Wc with W
 *
 * The draft does not specify the order of clamping: here W is clamped after the additive term and
 * before it is copied to Wc.
 * Return: W, bytes, Q16, W_min .. W_max.
 */
static inline u64 hpcc_compute_wind(struct hpcc_algo *a, const struct hpcc_params *p,
				    bool update_wc)
{
	u32 max_stage = p->max_stage;
	u64 W_q16;

	if (a->reduced)
		max_stage = max(max_stage, HPCC_CE_STAGES);
	if (a->U_q24 >= p->eta_q24 || a->inc_stage >= max_stage || (a->quiet && !a->reduced)) {
		W_q16 = hpcc_clamp_wind(p, hpcc_scale_wind(a, p) + hpcc_W_ai(a, p));
		if (update_wc) {
			a->inc_stage = 0;
			a->reduced = false;
			a->Wc_q16 = W_q16;
		}
	} else {
		W_q16 = hpcc_clamp_wind(p, a->Wc_q16 + hpcc_W_ai(a, p));
		if (update_wc) {
			a->inc_stage++;
			a->Wc_q16 = W_q16;
		}
	}
	return W_q16;
}

/**
 * hpcc_wc_update_allowed() - whether Wc may be synchronised to W again
 * @p: parameters
 * @since: time since Wc was last synchronised, time units, below 2^62
 * @settle: minimum time between two updates with maxStage 0, in T; 0 .. 64
 *
 * U is an average over T and hardly changes in a shorter round trip, so Wc may be divided by U at
 * most twice per T. With maxStage 0 every update is multiplicative, and U shows the effect of a new
 * W a round trip plus T later. If Wc is divided once per round trip by a U that is two round trips
 * old, all flows oscillate together with a period of 7 round trips.
 * Return: true if it may.
 */
static inline bool hpcc_wc_update_allowed(const struct hpcc_params *p, u64 since, u32 settle)
{
	return 2 * since >= p->T * (p->max_stage ? 1 : max(2 * settle, 1U));
}

/* hpcc_compute_wind(), or that function of another law. */
typedef u64 hpcc_wind_fn(struct hpcc_algo *a, const struct hpcc_params *p, bool update_wc);

/* Update W from U by @wind, and Wc if a round trip ended (@full). @bits: from MeasureInflight,
 * without HPCC_ACK_NO_SAMPLE. Without a new record of the most loaded link U is unchanged: Wc was
 * already divided by this U and must not be divided by it again.
 */
static __always_inline u32 hpcc_follow_U(struct hpcc_algo *a, const struct hpcc_params *p, u32 bits,
					 bool full, hpcc_wind_fn *wind)
{
	bool answer = a->resync || a->moved;

	if (answer && (full || !a->per_rtt))
		a->W_q16 = wind(a, p, full);
	if (!full)
		return bits;
	hpcc_links_round(a);
	a->moved = false;
	a->resync = false;
	return answer ? bits | HPCC_ACK_UPDATE : bits;
}

/**
 * hpcc_follow() - second part of NewAck: update W from U (draft section 4.2, lines 21-27)
 * @a: connection
 * @p: parameters
 * @bits: result of MeasureInflight
 * @ack_seq: the ACK's cumulative acknowledgment, bytes modulo 2^32
 * @snd_nxt: next byte to be sent, modulo 2^32
 * @wind: ComputeWind
 *
 * Not specified in the draft: the first telemetry is only stored; an ACK that measures no link
 * changes no window; lastUpdateSeq only increases.
 * Return: enum hpcc_ack_bits.
 */
static __always_inline u32 hpcc_follow(struct hpcc_algo *a, const struct hpcc_params *p, u32 bits,
				       u32 ack_seq, u32 snd_nxt, hpcc_wind_fn *wind)
{
	bool full;

	if (bits & HPCC_ACK_NO_SAMPLE) {
		if (a->started || !(bits & HPCC_ACK_NEW))
			return bits;
		a->started = true;
		a->last_update_seq = snd_nxt;
		return bits | HPCC_ACK_FIRST;
	}

	full = a->resync || (s32)(ack_seq - a->last_update_seq) > 0;
	if (full && (a->resync || (s32)(snd_nxt - a->last_update_seq) > 0))
		a->last_update_seq = snd_nxt;
	return hpcc_follow_U(a, p, bits, full, wind);
}

/* W/T, bytes per second, nearest, at most 65536 bytes per time unit. */
static inline u64 hpcc_rate_of(const struct hpcc_params *p, u64 W_q16, u64 units_per_s)
{
	/* bytes per unit: Q16 * Q63 >> 31 = Q48 */
	return hpcc_mul_shr(hpcc_mul_shr(W_q16, p->inv_T_q63, 31), units_per_s, 48);
}

/* R = W/T (draft line 27), as hpcc_rate_of(). */
static inline u64 hpcc_pacing_rate(const struct hpcc_algo *a, const struct hpcc_params *p,
				   u64 units_per_s)
{
	return hpcc_rate_of(p, a->W_q16, units_per_s);
}

#endif /* _HPCC_LAW_ALGO_H */
