/* SPDX-License-Identifier: GPL-2.0 */
/*
 * LDCP (draft-dai-tsvwg-pfc-free-congestion-control): the marking curve of a switch and the window
 * law of a sender. The functions use no skb, socket, clock or lock.
 *
 *	p = 0						q < K_min
 *	p = (q - K_min) / (K_max - K_min) * P_max	K_min <= q < K_max
 *	p = 1						K_max <= q
 *
 * For an ACK of n segments:
 *	ECN-Echo = 0	cw += n * alpha / cw		1 <= cw	 (2)
 *			cw += gamma			cw < 1
 *	ECN-Echo = 1	cw -= n * beta			1 < cw, down to 1
 *			cw = max(cw_min, eta * cw)	cw <= 1, eta = 1/2
 *
 * The draft lets cw fall "beneath one packet", but its first law needs cw >= 1. So the first law
 * stops at 1, and the second law handles the next mark. The draft sets cw_min = gamma: N flows at
 * gamma keep N * gamma packets on the path and in its queue.
 *
 * If cw is below 1, one packet leaves per RTT / cw on average, at random times.
 *
 * Fixed point:
 *
 *	value			format	range		rounding
 *	p, P_max		Q32	0 .. 2^32 (1)	down
 *	P_max per byte		Q63	0 .. 2^63	down
 *	cw			Q24	cw_min .. 2^24	segments
 *	n * alpha / cw		Q24	0 .. 2^15	nearest
 *	eta * cw		Q24	0 .. 1/2	down
 *	alpha, beta, gamma	Q24	(0, 1]		the caller's
 *	cw_min			Q24	(0, gamma]	the caller's
 *	ticks until a packet	Q28	0 .. 6		down
 *
 * Errors: p is too small by less than 2^-31 plus 2^-63 for each byte above K_min, in total 2^-30.
 * The error of n * alpha / cw is at most 2^-25 of a segment. For n = 1 and alpha = 1 this is 0.1 %
 * of the step below 2^15 segments, and 6 % for the largest window that TCP can have (2^30 bytes in
 * segments of 536). A step below 2^-25 is rounded to 0: cw then does not change.
 */
#ifndef _HPCC_LAW_LDCP_H
#define _HPCC_LAW_LDCP_H

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* Switch: marking (section 2.1), dropping (section 2.3) */

#define LDCP_P_BITS		32
#define LDCP_P_ONE		BIT_ULL(LDCP_P_BITS)
#define LDCP_PPM		1000000U

/* Marking curve for ECN-capable packets. */
struct ldcp_curve {
	u32	K_min;	/* bytes; a shorter queue marks no packet */
	u32	K_max;	/* bytes; from this length on every packet is marked */
	u64	slope;	/* P_max / (K_max - K_min), Q63 */
};

/* Compute a curve, so that packets need no division. @K_max >= @K_min, @P_max_ppm <= LDCP_PPM. */
static inline void ldcp_curve_init(struct ldcp_curve *c, u32 K_min, u32 K_max, u32 P_max_ppm)
{
	u64 P_max_q32 = div64_u64((u64)P_max_ppm << LDCP_P_BITS, LDCP_PPM);

	c->K_min = K_min;
	c->K_max = K_max;
	c->slope = K_max > K_min ? div64_u64(P_max_q32 << 31, K_max - K_min) : 0;
}

/* Probability, Q32, that a packet is marked when it meets a queue of @q bytes. */
static inline u64 ldcp_mark_p(const struct ldcp_curve *c, u64 q)
{
	if (q < c->K_min)
		return 0;
	if (q >= c->K_max)
		return LDCP_P_ONE;
	return (q - c->K_min) * c->slope >> 31;
}

/* Sender: window (section 2.2) */

#define LDCP_CW_BITS		24
#define LDCP_ONE_Q24		BIT_ULL(LDCP_CW_BITS)
#define LDCP_CW_MAX_Q24		BIT_ULL(2 * LDCP_CW_BITS)

/* Maximum number of segments that count for one ACK, so that n * alpha fits 64 bits in Q48. An ACK
 * for more than these 17 MB is rare; the window then grows by less than the law requires.
 */
#define LDCP_ACKED_MAX		BIT(15)

/* Constants of the window law. */
struct ldcp_params {
	u32	alpha_q24;	/* increase, segments per round trip, (0, 1] */
	u32	beta_q24;	/* decrease per marked segment, (0, 1] */
	u32	gamma_q24;	/* step of windows below one segment, (0, 1] */
	u32	cw_min_q24;	/* minimum window, (0, gamma] */
};

/* cw after an ACK without ECN-Echo, at most LDCP_CW_MAX_Q24. @cw_q24: congestion window, segments,
 * not 0. @n: number of segments that the ACK covers, 1 or more; those beyond LDCP_ACKED_MAX do not
 * count. If cw is below 1, each ACK counts once, as in the draft. A stored reciprocal would not
 * save the 64-bit division, because the divisor cw changes with each ACK.
 */
static inline u64 ldcp_grant(const struct ldcp_params *p, u64 cw_q24, u32 n)
{
	u64 credit;

	if (cw_q24 < LDCP_ONE_Q24)
		return cw_q24 + p->gamma_q24;
	credit = (u64)min_t(u32, n, LDCP_ACKED_MAX) * p->alpha_q24;
	cw_q24 += div64_u64((credit << LDCP_CW_BITS) + cw_q24 / 2, cw_q24);
	return min_t(u64, cw_q24, LDCP_CW_MAX_Q24);
}

/* cw, at least cw_min, after an ACK of @n segments with ECN-Echo. */
static inline u64 ldcp_revoke(const struct ldcp_params *p, u64 cw_q24, u32 n)
{
	u64 debit = (u64)n * p->beta_q24;

	if (cw_q24 <= LDCP_ONE_Q24)
		return max_t(u64, cw_q24 / 2, p->cw_min_q24);
	return cw_q24 > LDCP_ONE_Q24 + debit ? cw_q24 - debit : LDCP_ONE_Q24;
}

/* Sender: ticks of a window below one segment (section 2.2) */

/* Maximum RTT for ticks, in units of T. A queue that marks packets delays a packet for less than
 * this maximum. A longer RTT is caused by a delayed ACK or a busy host.
 */
#define LDCP_RTT_MAX_T		8
#define LDCP_RANDOM_BITS	24

/* RTT for a tick, ns: T .. LDCP_RTT_MAX_T * T. @rtt_us: RTT of the last packet; 0: none yet. */
static inline u64 ldcp_tick_rtt_ns(u32 T_ns, u32 rtt_us)
{
	return clamp_t(u64, (u64)rtt_us * 1000, T_ns, (u64)T_ns * LDCP_RTT_MAX_T);
}

/**
 * ldcp_tick_ns() - time from one packet to the next
 * @rtt_ns: RTT, below 2^40
 * @cw_q24: congestion window, segments, cw_min or more and below 1
 * @random: evenly distributed over all values
 *
 * A flow learns about the queue only once per tick. With equal ticks all flows would react to the
 * same queue simultaneously, and the queue would oscillate. So ticks are nearly exponentially
 * distributed with the average RTT / cw: toss a coin until the first tail, add 2/3 of RTT / cw for
 * each head, and add a uniformly distributed part of another 2/3. The maximum is 6 RTT / cw.
 *
 * The 64-bit division is cheap enough: with a window below one segment less than one ACK arrives
 * per RTT.
 * Return: ns.
 */
static inline u64 ldcp_tick_ns(u64 rtt_ns, u64 cw_q24, u32 random)
{
	u32 heads, rest, parts_q28;

	random >>= 32 - LDCP_RANDOM_BITS;
	/* 0 .. 8: the rest has at least 15 random bits. */
	heads = LDCP_RANDOM_BITS - fls(random | BIT(LDCP_RANDOM_BITS - 9));
	rest = random << (heads + 1) & (BIT(LDCP_RANDOM_BITS) - 1);
	parts_q28 = heads << 28 | rest << (28 - LDCP_RANDOM_BITS);
	return mul_u64_u32_shr(div64_u64(rtt_ns << LDCP_CW_BITS, cw_q24), parts_q28 / 3 * 2, 28);
}

/* Sender: zero-RTT bandwidth acquisition (sections 2.3 and 3) */

/* Whether a first-RTT packet leaves as Not-ECT. @sent: bytes since the start of the flow, this
 * packet included. @IW: initial window, bytes. @last: the packet is the last one of the message.
 * The packet that completes IW and the last packet of a message stay ECT: a switch that drops
 * Not-ECT packets forwards these packets, and they show the receiver which packets are missing.
 */
static inline bool ldcp_is_low_priority(u64 sent, u64 IW, bool last)
{
	return sent < IW && !last;
}

#endif /* _HPCC_LAW_LDCP_H */
