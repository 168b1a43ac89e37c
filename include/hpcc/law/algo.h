/* SPDX-License-Identifier: GPL-2.0 */
/*
 * HPCC++ window law: MeasureInflight, ComputeWind and NewAck of
 * draft-miao-iccrg-hpccplus section 4.2.
 *
 *	u' = min(qlen, L.qlen) / T + d(tx) / d(ts)		per link
 *	u  = max u', tau = min(d(ts) of that link, T)
 *	U  = (1 - tau/T) U + tau/T u
 *	W  = Wc / (U/eta) + W_ai   when U >= eta or incStage >= maxStage
 *	W  = Wc + W_ai             otherwise
 *
 * A quiet link, which says only that its queue is short, counts as full at first: u' = eta. In
 * each round trip of that u' falls by eta/64, to eta/2, and each one multiplies W. The first
 * record behind a quiet time has u' = 1 + qlen/T.
 *
 * The draft's qlen / (B T) and txRate / B need no B here: records state qlen
 * and txBytes as the time the link needs to send them. No skb, no socket, no
 * clock, no lock, no memory of its own: the caller owns a struct hpcc_algo and the links
 * that it points to, and hands in numbers.
 *
 * Time (T, ts, tx, qlen) is in one unit that the caller chooses: ns in the
 * kernel, fractions of it in the replay. Nothing below depends on it, save
 * that T is 1 .. 2^40 units (1 s in units of 2^-10 ns).
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
 * U has more bits than u' because one step changes it by (u - U) tau/T only:
 * at 800 Gb/s and T = 1 s a packet's weight is 1e-8, and Q24 would stand still
 * for any |u - U| below 3. In Q44 it stands still below 3e-6.
 *
 * Errors: u' is off by 2^-24 (half from each term); U by that plus at most
 * 2^-45 T/tau; W by 2^-16 byte plus W (2^-32 / U + 2^-32 U / eta).
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

/* Larger than a queue of 1000 T, and so far from eta that W is at W_min. */
#define HPCC_U_MAX		65536ULL
#define HPCC_U_MAX_Q24		(HPCC_U_MAX << HPCC_FRAC_BITS)

/* d(tx) may exceed d(ts) by what a clock's rounding, a burst that was counted
 * before it left, or a link that got faster explain; not by more.
 */
#define HPCC_TX_EXCESS		4

/* Additive increases after CE, at least: the draft's maxStage. */
#define HPCC_CE_STAGES		5U

/* Round trips after which a link without a record counts no more: enough for
 * a path of 15 hops that is read one record, and one segment, at a time.
 */
#define HPCC_LINK_ROUNDS	16

/* u' of a quiet link falls by eta/64, so many times. Steps of eta/16 after maxStage round trips
 * had queues twice as long where two flows share a link, and less of it in use.
 */
#define HPCC_QUIET_SHIFT	6
#define HPCC_QUIET_STEPS	32

/**
 * enum hpcc_ack_bits - what hpcc_new_ack() met, and whether W moved
 * @HPCC_ACK_FIRST: first telemetry of the connection: stored, W unchanged
 * @HPCC_ACK_PATH: a hop's tag changed: baseline of that link replaced
 * @HPCC_ACK_TS_BACK: d(ts) <= 0 at a hop: ignored, baseline kept
 * @HPCC_ACK_TX_BACK: d(tx) < 0 at a hop, as after a counter's restart:
 *	baseline of that link replaced
 * @HPCC_ACK_TX_EXCESS: d(tx) > 4 d(ts) + T at a hop: ignored, baseline kept
 * @HPCC_ACK_BAD_HOP: hop 0, or beyond the links that there are: ignored
 * @HPCC_ACK_REPEAT: a hop that this ACK had before: ignored
 * @HPCC_ACK_NO_SAMPLE: no link could be measured: W, Wc, U and last_update_seq
 *	unchanged
 * @HPCC_ACK_UPDATE: Wc was synchronised to W (once per round trip)
 * @HPCC_ACK_NEW: a hop's first record, stored as its baseline, or the first that is heard
 *	of a quiet one
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
 * @tag: tells one link from another at the same hop
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
 * struct hpcc_link - what is remembered of a link, L[i]: one cache line
 * @ts: of its last record
 * @tx: of its last record
 * @qlen: of its last record
 * @u_q24: u' of its last record, or of a quiet link; 0 where it could not be measured yet
 * @began_tx: @tx when the round trip of <hpcc/law/fallback.h> began
 * @seen_us: the caller's: when its last record came
 * @rtt_us: the caller's: how long before that the record's segment was sent
 * @scale: the caller's: exponent of the unit that its counters had
 * @tag: of its last record
 * @rounds: round trips that ended since something was heard, at most HPCC_LINK_ROUNDS
 * @quiet: 1 + round trips that it has been quiet for, at most 1 + HPCC_QUIET_STEPS; 0: a
 *	record was the last to be heard
 * @bottleneck_since: when it became the most loaded one, by the clock of hpcc_find_bottleneck(); 0:
 *	it is not
 * @valid: the next record is measured against this one
 * @began_valid: there was one when the round trip of <hpcc/law/fallback.h> began
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
 * @slow_start_limit_q16: upper limit of W and Wc, bytes, in slow start; W_max or more: slow start
 *	is over
 * @U_q24: normalised inflight, averaged
 * @U_low: the HPCC_U_LOW_BITS bits of U below U_q24
 * @inc_stage: additive increases since the last multiplicative change
 * @last_update_seq: snd_nxt when the last round trip ended
 * @started: last_update_seq is set
 * @moved: U moved since Wc was last synchronised
 * @resync: the next measured ACK synchronises Wc, whatever its number
 * @quiet: the most loaded link is quiet, for a round trip or more: each one multiplies, unless
 *	@reduced
 * @per_rtt: W moves only when Wc does (section 6.1); hpcc_algo_init() clears it
 * @reduced: CE reduced Wc: at least HPCC_CE_STAGES additive increases come first
 * @end: links from here on are not valid; at most @nr
 * @nr: links that there are
 * @L: links, hop h in L[h - 1]; the caller's memory
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
 * Return: the quotient; U64_MAX where it exceeds 2^63.
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
 * hpcc_algo_forget_hop() - drop what is remembered of one link
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
 * hpcc_algo_trim() - drop the links behind a path's end
 * @a: connection
 * @hops: length of the path, 0 .. HPCC_HOPS_MAX
 *
 * A link that records stopped coming from keeps its last u', and would
 * dominate u if the path got shorter.
 */
static inline void hpcc_algo_trim(struct hpcc_algo *a, u32 hops)
{
	for (; a->end > hops; a->end--)
		hpcc_algo_forget_hop(a, a->end);
}

/**
 * hpcc_algo_forget() - drop every link: path changed, or idle for too long
 * @a: connection; W, Wc, U and incStage stay
 *
 * The next record starts anew, as the connection's first one did.
 */
static inline void hpcc_algo_forget(struct hpcc_algo *a)
{
	hpcc_algo_trim(a, 0);
	a->started = false;
}

/**
 * hpcc_algo_init() - state of a new connection
 * @a: result: W = Wc = W_init, U = 1, and no links: until hpcc_algo_links() all records are
 *	of a bad hop
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
 * hpcc_algo_links() - say where links are, of a path that got longer
 * @a: connection
 * @L: the @a->nr links that there were, and behind these new ones, all 0
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
 * hpcc_algo_restart() - begin again from a given window, as after an RTO
 * @a: connection
 * @p: parameters
 * @W_q16: window, bytes; clamped to W_min .. W_max
 *
 * incStage is at its limit and the next measured ACK synchronises Wc, so that
 * telemetry brings W back multiplicatively and at once. Links stay.
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
 * hpcc_algo_reduce() - reduce W because of CE, which a link without telemetry may have set
 * @a: connection
 * @p: parameters
 * @shift: Wc becomes Wc - Wc / 2^@shift
 *
 * incStage starts at 0 again, and W is not multiplied before HPCC_CE_STAGES, even if maxStage is
 * smaller or the most loaded link is quiet: the record of an idle link, or a quiet one, would bring
 * back the W that was too large.
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
 * hpcc_algo_slow() - begin slow start: W grows by no more than what is acknowledged
 * @a: connection, restarted
 *
 * Slow start is over when it would allow W_max. It is for a path whose capacity is not known:
 * after one record of an idle link W would jump to W_max, and a link behind that one which
 * does not stamp would drop most of W_max.
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
 * Return: true until slow start would allow W_max.
 */
static inline bool hpcc_algo_is_slow(const struct hpcc_algo *a,
				     const struct hpcc_params *p)
{
	return a->slow_start_limit_q16 < p->W_max_q16;
}

/**
 * hpcc_algo_acked() - limit W and Wc in slow start
 * @a: connection, which has taken in an ACK's records
 * @p: parameters
 * @packets: number of packets that the ACK newly acknowledges
 * @mss: bytes of each; @packets * @mss is less than 2^40
 * @before_q16: W before the ACK
 *
 * Keep incStage at maxStage, so that each round trip multiplies. U measures what is in
 * flight now, and Wc is older: W = Wc / (U / eta) would fall while W doubles in each round
 * trip. So W does not fall while U is below eta.
 */
static inline void hpcc_algo_acked(struct hpcc_algo *a,
				   const struct hpcc_params *p, u32 packets,
				   u32 mss, u64 before_q16)
{
	if (!hpcc_algo_is_slow(a, p))
		return;
	a->slow_start_limit_q16 += (u64)packets * mss << HPCC_W_BITS;
	/* W_max follows T: a larger one does not bring slow start back. */
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
 * @qlen: the smaller one of two successive queues, time units
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
	/* Keep dtx << 24 within 64 bits. dts stays above 2^22 here, as dtx is
	 * less than 2^16 times as large, so that 22 bits are significant.
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
 * hpcc_link_update() - take a link's record in: u' and L[i] = ack.L[i]
 * @l: the link
 * @p: parameters
 * @s: its record
 *
 * Return: 0 where u' was measured, otherwise why not: one of
 * enum hpcc_ack_bits.
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
	else	/* it has a queue now, so it sends all the time */
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
 * hpcc_link_quiet() - take in that a link is quiet
 * @l: the link
 * @p: parameters
 * @slow: slow start limits W, so that u' may be as low as it gets
 *
 * Its last record is too old to measure the next one against.
 *
 * Return: 0, or HPCC_ACK_NEW where nothing was known of it.
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

/* A round trip ended. A link that nothing was heard of for too long has no load
 * from then on; what it said last stays, for its next record to go on from. While
 * a link with records limits W, a quiet link does not tell how much more it could carry: its
 * u' starts at eta again.
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
 * hpcc_find_bottleneck() - note which link is the bottleneck, and since when
 * @a: connection
 * @now: of any clock; 0 counts as 1
 *
 * The one with the largest u' does, as long as it is that whenever this is called: once in a round
 * trip, as u' of two links that are loaded alike takes turns within one. A quiet link counts as W
 * takes it to be loaded.
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
 * @tau: time that u stands for, time units, at most T
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
 * struct hpcc_measure - MeasureInflight, while an ACK's records are taken in
 * @u_q24: largest u' of those
 * @tau: time that it stands for, d(ts) of that link, at most T
 * @at: index of that link
 * @seen: links that the ACK has records of, by bit
 * @fresh: those of @seen that were measured
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

/* A link was measured: its u' counts if it is the largest of the ACK. */
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
 * hpcc_measure_link() - take a link's record in (draft section 4.2, lines 3-8)
 * @a: connection; L is updated
 * @p: parameters
 * @s: the record, of hop 1 .. @a->nr
 * @m: all 0 in front of an ACK's first record
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
 * hpcc_measure_quiet() - take in that a link is quiet
 * @a: connection; L is updated
 * @p: parameters
 * @hop: 1 .. @a->nr, of which @m has seen nothing
 * @tau: time since something was heard of the link, time units
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
 * hpcc_measure_end() - U of an ACK's records (draft section 4.2, lines 6-10)
 * @a: connection; U is updated
 * @p: parameters
 * @m: what hpcc_measure_link() made of the records
 *
 * u is the maximum over all links of the path, with the last u' of those that
 * this ACK brings no record of. U moves when the ACK measured the link that
 * has the maximum: with records of all links this is the draft's loop. A link
 * whose record is there but not usable is left out, as if it had no load.
 * Where all have u' = 0 that counts: a link that is much faster than the host
 * sends a packet in less than a unit of time, and U would stay at 1 for ever.
 *
 * Return: enum hpcc_ack_bits; HPCC_ACK_NO_SAMPLE where no link was measured.
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
 * @s: records of an ACK, in any order, of all links or of some
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
	/* U in Q32; 0 stands for anything below 2^-32: W is at W_max. */
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
 * Where the draft is silent: the clamp comes after the additive term and
 * before Wc takes W over.
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
 * hpcc_wc_update_allowed() - whether Wc may follow W again
 * @p: parameters
 * @since: time since it did so last, time units, below 2^62
 * @settle: with maxStage 0, no earlier than after so many T; 0 .. 64
 *
 * U is an average over T. In round trips that are shorter it hardly changes, and Wc must not be
 * divided by it in each of them: at most twice in T.
 *
 * What a new W does shows a round trip later, and in U by T later still. With maxStage 0 each
 * update multiplies: where Wc is divided once per round trip by a U that lags by two, all
 * flows swing together, with a period of 7 round trips.
 *
 * Return: true if so.
 */
static inline bool hpcc_wc_update_allowed(const struct hpcc_params *p, u64 since, u32 settle)
{
	return 2 * since >= p->T * (p->max_stage ? 1 : max(2 * settle, 1U));
}

/**
 * hpcc_follow_U() - have W follow U, and Wc if a round trip ended
 * @a: connection
 * @p: parameters
 * @bits: what MeasureInflight returned, not HPCC_ACK_NO_SAMPLE
 * @full: a round trip ended
 *
 * If no new record of the most loaded link arrived, U is unchanged: Wc has already reacted to
 * that U and must not be divided by it twice.
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
 * hpcc_follow() - what NewAck does with U (draft section 4.2, lines 21-27)
 * @a: connection
 * @p: parameters
 * @bits: what MeasureInflight returned
 * @ack_seq: the ACK's cumulative acknowledgment, bytes modulo 2^32
 * @snd_nxt: next byte to be sent, modulo 2^32
 *
 * Where the draft is silent: the first telemetry is stored only; an ACK that
 * measures no link changes no window; lastUpdateSeq only moves forward.
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
 * @snd_nxt: as well
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
 * hpcc_pacing_rate() - R = W/T (draft line 27)
 * @a: connection
 * @p: parameters
 * @units_per_s: time units in a second
 *
 * Return: bytes per second, to nearest, at most 65536 per time unit.
 */
static inline u64 hpcc_pacing_rate(const struct hpcc_algo *a,
				   const struct hpcc_params *p, u64 units_per_s)
{
	/* bytes per unit: Q16 * Q63 >> 31 = Q48 */
	return hpcc_mul_shr(hpcc_mul_shr(a->W_q16, p->inv_T_q63, 31),
			    units_per_s, 48);
}

#endif /* _HPCC_LAW_ALGO_H */
