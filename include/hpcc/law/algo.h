/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HPCC++ window law: MeasureInflight, ComputeWind and NewAck of draft-miao-iccrg-hpccplus section
 * 4.2.
 *
 *	u' = min(qlen, L.qlen) / T + d(tx) / d(ts)		per link
 *	u  = max u', tau = min(d(ts) of that link, T)
 *	U  = (1 - tau/T) U + tau/T u
 *	W  = Wc / (U/eta) + W_ai   when U >= eta or incStage >= maxStage
 *	W  = Wc + W_ai             otherwise
 *
 * A quiet link reports only that its queue is short. At first it counts as full: u' = eta. Its u'
 * falls by eta/64 in each further round trip, down to eta/2, and W is multiplied in each of them.
 * The first record after a quiet period has u' = 1 + qlen/T.
 *
 * The draft's qlen / (B T) and txRate / B need no B here: records state qlen and txBytes as the
 * time that the link needs to send them. No skb, no socket, no clock, no lock, no allocation: the
 * caller owns a struct hpcc_algo and its links, and passes numbers.
 *
 * Time (T, ts, tx, qlen) is in one unit that the caller chooses: ns in the kernel, fractions of it
 * in the replay. The only limit is that T is 1 .. 2^40 units (1 s in units of 2^-10 ns).
 *
 * Fixed point; "nearest" is half up:
 *
 *	value		format	bound		rounding
 *	W, Wc, W_ai	Q16	2^56 (1 TB)	nearest; bytes
 *	eta		Q24	2^24 (1)	the caller's
 *	u'		Q24	2^40 (65536)	nearest; saturates
 *	U		Q44	2^60 (65536)	nearest; kept as U_q24 and the 20
 *						bits below it, U_low
 *	1/T		Q63	2^63 (T = 1)	nearest; for T = 2^40 still 23
 *						significant bits
 *	tau/T		Q63	2^63 (1)	that of 1/T, relative
 *	eta/U		Q31	2^63		nearest; from U in Q32
 *
 * U has more bits than u' because one update changes it by (u - U) tau/T only. At 800 Gb/s and T =
 * 1 s the weight tau/T of a packet is 1e-8: in Q24, U would not change if |u - U| is below 3. In
 * Q44 this limit is 3e-6.
 *
 * Errors: u' is off by 2^-24 (half from each term); U by the same plus at most 2^-45 T/tau; W by
 * 2^-16 byte plus W (2^-32 / U + 2^-32 U / eta).
 */
#ifndef _HPCC_LAW_ALGO_H
#define _HPCC_LAW_ALGO_H

#include <linux/bits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <linux/hpcc.h>

#define HPCC_T_MAX		BIT_ULL(40)
#define HPCC_W_BITS		16
#define HPCC_W_MAX_Q16		BIT_ULL(56)
#define HPCC_FRAC_BITS		24
#define HPCC_ONE_Q24		0x1000000U
#define HPCC_U_LOW_BITS		20
#define HPCC_INV_T_BITS		63

/* Larger than u' of a queue of 1000 T. At this U the window is W_min. */
#define HPCC_U_MAX		65536ULL
#define HPCC_U_MAX_Q24		(HPCC_U_MAX << HPCC_FRAC_BITS)

/* d(tx) may exceed d(ts) by this factor. Reasons: rounding of a clock, a burst that was counted
 * before it left, or a link that became faster.
 */
#define HPCC_TX_EXCESS		4

/* Minimum number of additive increases after CE: the draft's maxStage. */
#define HPCC_CE_STAGES		5U

/* A link without a record for this many round trips counts as idle. A path of 15 hops that is read
 * one record per round trip stays within this limit.
 */
#define HPCC_LINK_ROUNDS	16

/* u' of a quiet link falls by eta/64, at most 32 times. Steps of eta/16 after maxStage round trips
 * gave queues twice as long and a lower utilization when two flows shared a link.
 */
#define HPCC_QUIET_SHIFT	6
#define HPCC_QUIET_STEPS	32

/**
 * enum hpcc_ack_bits - result of hpcc_new_ack()
 * @HPCC_ACK_FIRST: first telemetry of the connection: stored, W unchanged
 * @HPCC_ACK_PATH: the tag of a hop changed: baseline of that link replaced
 * @HPCC_ACK_TS_BACK: d(ts) <= 0 at a hop: ignored, baseline kept
 * @HPCC_ACK_TX_BACK: d(tx) < 0 at a hop, as after a counter's restart: baseline of that link
 *	replaced
 * @HPCC_ACK_TX_EXCESS: d(tx) > 4 d(ts) + T at a hop: ignored, baseline kept
 * @HPCC_ACK_BAD_HOP: hop 0, or beyond the existing links: ignored
 * @HPCC_ACK_REPEAT: second record of a hop in this ACK: ignored
 * @HPCC_ACK_NO_SAMPLE: no link could be measured: W, Wc, U and last_update_seq unchanged
 * @HPCC_ACK_UPDATE: Wc was synchronised to W (once per round trip)
 * @HPCC_ACK_NEW: first record of a hop, stored as its baseline, or first report of a quiet link
 */
enum hpcc_ack_bits {
	HPCC_ACK_FIRST		= 1U << 0,
	HPCC_ACK_PATH		= 1U << 1,
	HPCC_ACK_TS_BACK	= 1U << 2,
	HPCC_ACK_TX_BACK	= 1U << 3,
	HPCC_ACK_TX_EXCESS	= 1U << 4,
	HPCC_ACK_BAD_HOP	= 1U << 5,
	HPCC_ACK_REPEAT		= 1U << 6,
	HPCC_ACK_NO_SAMPLE	= 1U << 7,
	HPCC_ACK_UPDATE		= 1U << 8,
	HPCC_ACK_NEW		= 1U << 9,
};

/**
 * struct hpcc_params - the draft's parameters (section 4.1, figure 3)
 * @T: base RTT, time units, 1 .. HPCC_T_MAX
 * @W_max_q16: W_init, the upper clamp, bytes
 * @W_min_q16: lower clamp, bytes
 * @W_ai_q16: additive increase per update, bytes
 * @eta_q24: target utilisation
 * @max_stage: additive increases before a multiplicative one
 * @inv_T_q63: 1 / T
 */
struct hpcc_params {
	u64	T;
	u64	W_max_q16;
	u64	W_min_q16;
	u64	W_ai_q16;
	u32	eta_q24;
	u32	max_stage;
	u64	inv_T_q63;
};

/**
 * struct hpcc_sample - one link's record in an ACK, ack.L[i]
 * @hop: 1 .. HPCC_HOPS_MAX
 * @tag: distinguishes links at the same hop
 * @ts: timestamp, time units, unwrapped
 * @tx: txBytes / B, time units, unwrapped
 * @qlen: queue / B, time units
 */
struct hpcc_sample {
	u8	hop;
	u8	tag;
	u64	ts;
	u64	tx;
	u64	qlen;
};

/**
 * struct hpcc_link - state of a link, L[i]: one cache line
 * @ts: of its last record
 * @tx: of its last record
 * @qlen: of its last record
 * @u_q24: u' of its last record, or of a quiet link; 0 if it was not measured yet
 * @began_tx: @tx when the round trip of <hpcc/law/fallback.h> began
 * @seen_us: set by the caller: arrival time of its last record
 * @rtt_us: set by the caller: age of the record's segment at that time
 * @scale: set by the caller: exponent of the unit of its counters
 * @tag: of its last record
 * @rounds: round trips that ended since the last report of this link, at most HPCC_LINK_ROUNDS
 * @quiet: 1 + number of round trips of quiet, at most 1 + HPCC_QUIET_STEPS; 0: the last report was
 *	a record
 * @bottleneck_since: time at which it became the most loaded link, by the clock of
 *	hpcc_find_bottleneck(); 0: it is not the most loaded link
 * @valid: @ts, @tx and @qlen are a baseline for the next record
 * @began_valid: @valid when the round trip of <hpcc/law/fallback.h> began
 */
struct hpcc_link {
	u64	ts;
	u64	tx;
	u64	qlen;
	u64	u_q24;
	u64	began_tx;
	u64	seen_us;
	u32	rtt_us;
	u32	bottleneck_since;
	u8	scale;
	u8	tag;
	u8	rounds;
	u8	quiet;
	bool	valid;
	bool	began_valid;
};

/**
 * struct hpcc_algo - state of one connection
 * @W_q16: window, bytes
 * @Wc_q16: reference window, bytes
 * @slow_start_limit_q16: upper limit of W and Wc in slow start, bytes; W_max or more: slow start is
 *	over
 * @U_q24: normalised inflight bytes, averaged
 * @U_low: the HPCC_U_LOW_BITS bits of U below @U_q24
 * @inc_stage: additive increases since the last multiplicative change
 * @last_update_seq: snd_nxt when the last round trip ended
 * @started: last_update_seq is set
 * @moved: U changed since Wc was last synchronised
 * @resync: the next measured ACK synchronises Wc, at any ACK number
 * @quiet: the most loaded link has been quiet for a round trip or more: W is multiplied in each
 *	round trip, unless @reduced
 * @per_rtt: W changes only when Wc does (section 6.1); hpcc_algo_init() clears it
 * @reduced: CE reduced Wc: at least HPCC_CE_STAGES additive increases come first
 * @end: links from this index on are not valid; at most @nr
 * @nr: number of links in @L
 * @L: links, hop h in L[h - 1]; memory of the caller
 */
struct hpcc_algo {
	u64	W_q16;
	u64	Wc_q16;
	u64	slow_start_limit_q16;
	u64	U_q24;
	u32	U_low;
	u32	inc_stage;
	u32	last_update_seq;
	bool	started;
	bool	moved;
	bool	resync : 1;
	bool	quiet : 1;
	bool	per_rtt : 1;
	bool	reduced : 1;
	u8	end : 4;
	u8	nr : 4;
	struct hpcc_link *L;
};

/**
 * hpcc_mul_shr() - a * b / 2^shift, to nearest
 * @a: factor
 * @b: factor
 * @shift: 1 .. 64
 *
 * Return: the result; U64_MAX if it exceeds 2^63.
 */
static inline u64 hpcc_mul_shr(u64 a, u64 b, unsigned int shift)
{
	u64 twice;

	if (mul_u64_u64_shr(a, b, 64) >> (shift - 1))
		return ~0ULL;
	twice = mul_u64_u64_shr(a, b, shift - 1);
	return (twice >> 1) + (twice & 1);
}

/**
 * hpcc_div_nearest() - a / b, to nearest
 * @a: dividend, below 2^64 - b / 2
 * @b: divisor, not 0
 *
 * Return: the quotient.
 */
static inline u64 hpcc_div_nearest(u64 a, u64 b)
{
	return div64_u64(a + b / 2, b);
}

/**
 * hpcc_params_init() - set the parameters and their reciprocals
 * @p: result
 * @T: base RTT, time units; taken as 1 .. HPCC_T_MAX
 * @W_init_q16: W_init = B x T, bytes; taken as 1 .. HPCC_W_MAX_Q16
 * @W_min_q16: lower clamp of W, bytes; taken as 1 .. @W_init_q16
 * @W_ai_q16: additive increase, bytes; taken as 0 .. @W_init_q16
 * @eta_q24: target utilisation; taken as 1 .. HPCC_ONE_Q24
 * @max_stage: maxStage; 0 makes every update multiplicative
 */
static inline void hpcc_params_init(struct hpcc_params *p, u64 T,
				    u64 W_init_q16, u64 W_min_q16,
				    u64 W_ai_q16, u32 eta_q24, u32 max_stage)
{
	p->T = clamp_t(u64, T, 1, HPCC_T_MAX);
	p->W_max_q16 = clamp_t(u64, W_init_q16, 1, HPCC_W_MAX_Q16);
	p->W_min_q16 = clamp_t(u64, W_min_q16, 1, p->W_max_q16);
	p->W_ai_q16 = min_t(u64, W_ai_q16, p->W_max_q16);
	p->eta_q24 = clamp_t(u32, eta_q24, 1, HPCC_ONE_Q24);
	p->max_stage = max_stage;
	p->inv_T_q63 = hpcc_div_nearest(BIT_ULL(HPCC_INV_T_BITS), p->T);
}

/**
 * hpcc_algo_forget_hop() - reset the state of one link
 * @a: connection
 * @hop: 1 .. a->nr; others have no effect
 */
static inline void hpcc_algo_forget_hop(struct hpcc_algo *a, u32 hop)
{
	struct hpcc_link *l;

	if (hop < 1 || hop > a->nr)
		return;
	l = &a->L[hop - 1];
	l->valid = false;
	l->quiet = 0;
	l->ts = 0;
	l->u_q24 = 0;
	l->bottleneck_since = 0;
}

/**
 * hpcc_algo_trim() - reset the links beyond the end of the path
 * @a: connection
 * @hops: length of the path, 0 .. HPCC_HOPS_MAX
 *
 * A link without new records keeps its last u'. After the path became shorter, such a link could
 * dominate u.
 */
static inline void hpcc_algo_trim(struct hpcc_algo *a, u32 hops)
{
	for (; a->end > hops; a->end--)
		hpcc_algo_forget_hop(a, a->end);
}

/**
 * hpcc_algo_forget() - reset every link: the path changed, or was idle for too long
 * @a: connection; W, Wc, U and incStage stay
 *
 * The next record counts as the first one of the connection.
 */
static inline void hpcc_algo_forget(struct hpcc_algo *a)
{
	hpcc_algo_trim(a, 0);
	a->started = false;
}

/**
 * hpcc_algo_init() - state of a new connection
 * @a: result: W = Wc = W_init, U = 1, no links: before hpcc_algo_links() every record is
 *	HPCC_ACK_BAD_HOP
 * @p: parameters
 */
static inline void hpcc_algo_init(struct hpcc_algo *a,
				  const struct hpcc_params *p)
{
	a->W_q16 = p->W_max_q16;
	a->Wc_q16 = p->W_max_q16;
	a->slow_start_limit_q16 = ~0ULL;
	a->U_q24 = HPCC_ONE_Q24;
	a->U_low = 0;
	a->inc_stage = 0;
	a->last_update_seq = 0;
	a->moved = false;
	a->resync = false;
	a->quiet = false;
	a->per_rtt = false;
	a->reduced = false;
	a->end = 0;
	a->nr = 0;
	a->L = NULL;
	hpcc_algo_forget(a);
}

/**
 * hpcc_algo_links() - set the array of links of a path that became longer
 * @a: connection
 * @L: the new array: first the @a->nr old links, then new links, all 0
 * @nr: @a->nr .. HPCC_HOPS_MAX
 */
static inline void hpcc_algo_links(struct hpcc_algo *a, struct hpcc_link *L, u8 nr)
{
	a->L = L;
	a->nr = nr;
}

/**
 * hpcc_clamp_wind() - a window within W_min .. W_max
 * @p: parameters
 * @W_q16: window, bytes
 *
 * Return: bytes, Q16.
 */
static inline u64 hpcc_clamp_wind(const struct hpcc_params *p, u64 W_q16)
{
	return clamp_t(u64, W_q16, p->W_min_q16, p->W_max_q16);
}

/**
 * hpcc_algo_restart() - restart from a given window, for example after an RTO
 * @a: connection
 * @p: parameters
 * @W_q16: window, bytes; clamped to W_min .. W_max
 *
 * Set incStage to maxStage and synchronise Wc at the next measured ACK, so that W recovers
 * immediately and by multiplication. Links keep their state.
 */
static inline void hpcc_algo_restart(struct hpcc_algo *a,
				     const struct hpcc_params *p, u64 W_q16)
{
	a->W_q16 = hpcc_clamp_wind(p, W_q16);
	a->Wc_q16 = a->W_q16;
	a->slow_start_limit_q16 = max(a->slow_start_limit_q16, a->W_q16);
	a->inc_stage = p->max_stage;
	a->reduced = false;
	a->resync = true;
}

/**
 * hpcc_algo_reduce() - reduce W because of CE
 * @a: connection
 * @p: parameters
 * @shift: Wc becomes Wc - Wc / 2^@shift
 *
 * A link without telemetry may have set CE. So incStage restarts at 0, and W is not multiplied
 * before HPCC_CE_STAGES additive increases, even if maxStage is smaller or the most loaded link is
 * quiet: otherwise an idle or quiet link would restore the W that was too large.
 */
static inline void hpcc_algo_reduce(struct hpcc_algo *a, const struct hpcc_params *p,
				    u32 shift)
{
	a->Wc_q16 = hpcc_clamp_wind(p, a->Wc_q16 - (a->Wc_q16 >> shift));
	a->W_q16 = min(a->W_q16, a->Wc_q16);
	a->inc_stage = 0;
	a->reduced = true;
}

/**
 * hpcc_algo_slow() - begin slow start: W grows at most by the bytes that are acknowledged
 * @a: connection, restarted
 *
 * Slow start ends when its limit reaches W_max. It is for a path of unknown capacity: after one
 * record of an idle link W would jump to W_max, and a later link that does not stamp would drop
 * most of that window.
 */
static inline void hpcc_algo_slow(struct hpcc_algo *a)
{
	a->slow_start_limit_q16 = a->W_q16;
}

/**
 * hpcc_algo_is_slow() - whether slow start limits W
 * @a: connection
 * @p: parameters
 *
 * Return: true until the limit reaches W_max.
 */
static inline bool hpcc_algo_is_slow(const struct hpcc_algo *a,
				     const struct hpcc_params *p)
{
	return a->slow_start_limit_q16 < p->W_max_q16;
}

/**
 * hpcc_algo_acked() - limit W and Wc in slow start
 * @a: connection, after the ACK's records were processed
 * @p: parameters
 * @packets: number of packets that the ACK newly acknowledges
 * @mss: bytes of each; @packets * @mss is less than 2^40
 * @before_q16: W before the ACK
 *
 * Keep incStage at maxStage, so that W is multiplied in each round trip. While W doubles in each
 * round trip, Wc is older than the inflight bytes that U measures, and W = Wc / (U / eta) would
 * fall. So W does not fall while U is below eta.
 */
static inline void hpcc_algo_acked(struct hpcc_algo *a,
				   const struct hpcc_params *p, u32 packets,
				   u32 mss, u64 before_q16)
{
	if (!hpcc_algo_is_slow(a, p))
		return;
	a->slow_start_limit_q16 += (u64)packets * mss << HPCC_W_BITS;
	/* W_max changes with T: a larger W_max does not restart slow start. */
	if (!hpcc_algo_is_slow(a, p))
		a->slow_start_limit_q16 = ~0ULL;
	a->inc_stage = p->max_stage;
	if (a->U_q24 < p->eta_q24 && a->W_q16 < before_q16) {
		a->W_q16 = before_q16;
		a->Wc_q16 = max(a->Wc_q16, before_q16);
	}
	if (a->W_q16 > a->slow_start_limit_q16) {
		a->W_q16 = a->slow_start_limit_q16;
		a->Wc_q16 = min(a->Wc_q16, a->slow_start_limit_q16);
	}
}

/**
 * hpcc_link_u() - u' of a link (draft lines 4 and 5)
 * @p: parameters
 * @qlen: the smaller one of two successive queue lengths, time units
 * @dtx: d(tx) between them, time units, at most HPCC_TX_EXCESS @dts + T
 * @dts: d(ts) between them, time units, not 0
 *
 * Return: u', Q24, at most HPCC_U_MAX_Q24.
 */
static inline u64 hpcc_link_u(const struct hpcc_params *p, u64 qlen, u64 dtx,
			      u64 dts)
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

/**
 * hpcc_link_update() - process a link's record: u' and L[i] = ack.L[i]
 * @l: the link
 * @p: parameters
 * @s: its record
 *
 * Return: 0 where u' was measured, otherwise why not: one of enum hpcc_ack_bits.
 */
static inline u32 hpcc_link_update(struct hpcc_link *l,
				   const struct hpcc_params *p,
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
	else	/* it has a queue now, so it sends without a pause */
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

/**
 * hpcc_link_quiet() - process a report that a link is quiet
 * @l: the link
 * @p: parameters
 * @slow: slow start limits W, so u' may have its minimum at once
 *
 * The last record of the link is no longer a valid baseline.
 *
 * Return: 0, or HPCC_ACK_NEW if the link had no baseline and was not quiet.
 */
static inline u32 hpcc_link_quiet(struct hpcc_link *l,
				  const struct hpcc_params *p, bool slow)
{
	u32 why = l->valid || l->quiet ? 0 : HPCC_ACK_NEW;

	l->quiet = slow ? 1 + HPCC_QUIET_STEPS : max_t(u8, l->quiet, 1);
	l->u_q24 = p->eta_q24 - (l->quiet - 1) * (p->eta_q24 >> HPCC_QUIET_SHIFT);
	l->rounds = 0;
	l->valid = false;
	return why;
}

/* A round trip ended. A link without a report for too long counts as idle; its last record stays as
 * the baseline. While a link with records limits W, the state of a quiet link does not show how
 * much more it could carry: its u' restarts at eta.
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

/**
 * hpcc_find_bottleneck() - record which link is the bottleneck, and since when
 * @a: connection
 * @now: time of any clock; 0 counts as 1
 *
 * The bottleneck is the link with the largest u'. Call this once per round trip: within a round
 * trip the order of two equally loaded links changes often. A quiet link counts with the u' that
 * the window law uses for it.
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

/**
 * hpcc_average() - U = (1 - tau/T) U + tau/T u (draft line 9)
 * @a: connection
 * @p: parameters
 * @u_q24: u
 * @tau: time over which u was measured, time units, at most T
 */
static inline void hpcc_average(struct hpcc_algo *a,
				const struct hpcc_params *p, u64 u_q24, u64 tau)
{
	u64 weight_q63 = min_t(u64, tau * p->inv_T_q63,
			       BIT_ULL(HPCC_INV_T_BITS));
	u64 U_q44 = a->U_q24 << HPCC_U_LOW_BITS | a->U_low;
	u64 u_q44 = u_q24 << HPCC_U_LOW_BITS;

	if (u_q44 >= U_q44)
		U_q44 += hpcc_mul_shr(u_q44 - U_q44, weight_q63,
				      HPCC_INV_T_BITS);
	else
		U_q44 -= hpcc_mul_shr(U_q44 - u_q44, weight_q63,
				      HPCC_INV_T_BITS);
	a->U_q24 = U_q44 >> HPCC_U_LOW_BITS;
	a->U_low = U_q44 & ((1U << HPCC_U_LOW_BITS) - 1);
	a->moved = true;
}

/**
 * struct hpcc_measure - MeasureInflight, while an ACK's records are processed
 * @u_q24: largest u' of these records
 * @tau: d(ts) of that link, at most T
 * @at: index of that link
 * @seen: bit mask of links that have a record in the ACK
 * @fresh: bit mask of the links in @seen that were measured
 * @bits: enum hpcc_ack_bits
 */
struct hpcc_measure {
	u64	u_q24;
	u64	tau;
	u32	at;
	u32	seen;
	u32	fresh;
	u32	bits;
};

/* Use the u' of a measured link if it is the largest one in this ACK. */
static inline void hpcc_measure_max(const struct hpcc_algo *a,
				    const struct hpcc_params *p, u32 at, u64 tau,
				    struct hpcc_measure *m)
{
	u64 u_q24 = a->L[at].u_q24;

	if (!m->fresh || u_q24 > m->u_q24 || (u_q24 == m->u_q24 && at < m->at)) {
		m->u_q24 = u_q24;
		m->tau = min(tau, p->T);
		m->at = at;
	}
	m->fresh |= 1U << at;
}

/**
 * hpcc_measure_link() - process a link's record (draft section 4.2, lines 3-8)
 * @a: connection; L is updated
 * @p: parameters
 * @s: the record, of hop 1 .. @a->nr
 * @m: all 0 before the first record of an ACK
 *
 * Return: 0 where u' was measured, otherwise why not: one of enum hpcc_ack_bits.
 */
static inline u32 hpcc_measure_link(struct hpcc_algo *a,
				    const struct hpcc_params *p,
				    const struct hpcc_sample *s,
				    struct hpcc_measure *m)
{
	u32 at = s->hop - 1U;
	struct hpcc_link *l;
	bool quiet;
	u64 last;
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
	if (!why)
		hpcc_measure_max(a, p, at, quiet ? p->T : l->ts - last, m);
	return why;
}

/**
 * hpcc_measure_quiet() - process a report that a link is quiet
 * @a: connection; L is updated
 * @p: parameters
 * @hop: 1 .. @a->nr, not in @m->seen
 * @tau: time since the last report of the link, time units
 * @m: as for hpcc_measure_link()
 */
static inline void hpcc_measure_quiet(struct hpcc_algo *a,
				      const struct hpcc_params *p, u32 hop,
				      u64 tau, struct hpcc_measure *m)
{
	u32 at = hop - 1;
	u32 why = hpcc_link_quiet(&a->L[at], p, hpcc_algo_is_slow(a, p));

	m->seen |= 1U << at;
	a->end = max_t(u8, a->end, hop);
	m->bits |= why;
	if (!why)
		hpcc_measure_max(a, p, at, tau, m);
}

/**
 * hpcc_measure_end() - update U from an ACK's records (draft section 4.2, lines 6-10)
 * @a: connection; U is updated
 * @p: parameters
 * @m: result of hpcc_measure_link() for the records
 *
 * u is the maximum over all links of the path. A link without a record in this ACK counts with its
 * last u'. A link with an unusable record counts as idle. U changes only if this ACK measured the
 * link with the maximum; with records of all links this equals the loop in the draft. u' = 0 for
 * all links is valid: a link that is much faster than the host sends a packet in less than one time
 * unit, and otherwise U would stay at 1 for ever.
 *
 * Return: enum hpcc_ack_bits; HPCC_ACK_NO_SAMPLE if no link was measured.
 */
static inline u32 hpcc_measure_end(struct hpcc_algo *a,
				   const struct hpcc_params *p,
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
	hpcc_average(a, p, m->u_q24, m->tau);
	a->quiet = a->L[m->at].quiet > 1;
	return m->bits;
}

/**
 * hpcc_measure_inflight() - MeasureInflight (draft section 4.2, lines 1-10)
 * @a: connection; L and U are updated
 * @p: parameters
 * @s: records of an ACK, in any order, of all or some links
 * @n: how many
 *
 * Return: as hpcc_measure_end().
 */
static inline u32 hpcc_measure_inflight(struct hpcc_algo *a,
					const struct hpcc_params *p,
					const struct hpcc_sample *s, u32 n)
{
	struct hpcc_measure m = {};
	u32 i;

	for (i = 0; i < n; i++)
		hpcc_measure_link(a, p, &s[i], &m);
	return hpcc_measure_end(a, p, &m);
}

/**
 * hpcc_scale_wind() - Wc / (U/eta) (draft line 13)
 * @a: connection
 * @p: parameters
 *
 * Return: bytes, Q16, at most W_max.
 */
static inline u64 hpcc_scale_wind(const struct hpcc_algo *a,
				  const struct hpcc_params *p)
{
	/* U in Q32; 0 means U < 2^-32: then W is W_max. */
	u64 U_q32 = a->U_q24 << 8 | a->U_low >> (HPCC_U_LOW_BITS - 8);
	u64 ratio_q31 = hpcc_div_nearest((u64)p->eta_q24 << 39,
					 max_t(u64, U_q32, 1));

	return min_t(u64, hpcc_mul_shr(a->Wc_q16, ratio_q31, 31),
		     p->W_max_q16);
}

/**
 * hpcc_compute_wind() - ComputeWind (draft section 4.2, lines 11-20)
 * @a: connection; incStage and Wc are updated
 * @p: parameters
 * @update_wc: synchronise Wc with W
 *
 * The draft does not specify the order of clamping: here W is clamped after the additive term and
 * before it is copied to Wc.
 *
 * Return: W, bytes, Q16, W_min .. W_max.
 */
static inline u64 hpcc_compute_wind(struct hpcc_algo *a,
				    const struct hpcc_params *p, bool update_wc)
{
	u32 max_stage = p->max_stage;
	u64 W_q16;

	if (a->reduced)
		max_stage = max(max_stage, HPCC_CE_STAGES);
	if (a->U_q24 >= p->eta_q24 || a->inc_stage >= max_stage || (a->quiet && !a->reduced)) {
		W_q16 = hpcc_clamp_wind(p, hpcc_scale_wind(a, p) + p->W_ai_q16);
		if (update_wc) {
			a->inc_stage = 0;
			a->reduced = false;
			a->Wc_q16 = W_q16;
		}
	} else {
		W_q16 = hpcc_clamp_wind(p, a->Wc_q16 + p->W_ai_q16);
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
 * U is an average over T. It hardly changes in a shorter round trip, so Wc may be divided by U at
 * most twice per T.
 *
 * Records show the effect of a new W one round trip later, and U shows it another T later. With
 * maxStage 0 every update is multiplicative: if Wc is divided once per round trip by a U that is
 * two round trips old, all flows oscillate together with a period of 7 round trips.
 *
 * Return: true if it may.
 */
static inline bool hpcc_wc_update_allowed(const struct hpcc_params *p, u64 since, u32 settle)
{
	return 2 * since >= p->T * (p->max_stage ? 1 : max(2 * settle, 1U));
}

/**
 * hpcc_follow_U() - update W from U, and Wc if a round trip ended
 * @a: connection
 * @p: parameters
 * @bits: result of MeasureInflight, not HPCC_ACK_NO_SAMPLE
 * @full: a round trip ended
 *
 * If no new record of the most loaded link arrived, U is unchanged: Wc has already reacted to that
 * U and must not be divided by it twice.
 *
 * Return: enum hpcc_ack_bits.
 */
static inline u32 hpcc_follow_U(struct hpcc_algo *a, const struct hpcc_params *p, u32 bits,
				bool full)
{
	bool answer = a->resync || a->moved;

	if (answer && (full || !a->per_rtt))
		a->W_q16 = hpcc_compute_wind(a, p, full);
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
 *
 * Not specified in the draft: the first telemetry is only stored; an ACK that measures no link
 * changes no window; lastUpdateSeq only increases.
 *
 * Return: enum hpcc_ack_bits.
 */
static inline u32 hpcc_follow(struct hpcc_algo *a, const struct hpcc_params *p,
			      u32 bits, u32 ack_seq, u32 snd_nxt)
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
	return hpcc_follow_U(a, p, bits, full);
}

/**
 * hpcc_new_ack() - NewAck (draft section 4.2, lines 21-27)
 * @a: connection
 * @p: parameters
 * @s: records that the ACK carries
 * @n: how many
 * @ack_seq: as for hpcc_follow()
 * @snd_nxt: as for hpcc_follow()
 *
 * Return: enum hpcc_ack_bits.
 */
static inline u32 hpcc_new_ack(struct hpcc_algo *a, const struct hpcc_params *p,
			       const struct hpcc_sample *s, u32 n, u32 ack_seq,
			       u32 snd_nxt)
{
	return hpcc_follow(a, p, hpcc_measure_inflight(a, p, s, n), ack_seq,
			   snd_nxt);
}

/**
 * hpcc_rate_of() - the rate of a window: W/T
 * @p: parameters
 * @W_q16: window, bytes
 * @units_per_s: time units in a second
 *
 * Return: bytes per second, to nearest, at most 65536 per time unit.
 */
static inline u64 hpcc_rate_of(const struct hpcc_params *p, u64 W_q16, u64 units_per_s)
{
	/* bytes per unit: Q16 * Q63 >> 31 = Q48 */
	return hpcc_mul_shr(hpcc_mul_shr(W_q16, p->inv_T_q63, 31), units_per_s, 48);
}

/**
 * hpcc_pacing_rate() - R = W/T (draft line 27)
 * @a: connection
 * @p: parameters
 * @units_per_s: time units in a second
 *
 * Return: as hpcc_rate_of().
 */
static inline u64 hpcc_pacing_rate(const struct hpcc_algo *a,
				   const struct hpcc_params *p, u64 units_per_s)
{
	return hpcc_rate_of(p, a->W_q16, units_per_s);
}

#endif /* _HPCC_LAW_ALGO_H */
