/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parameters and state of the window law (hpcc/law/algo.h), and changes of W because of events that
 * are not records: a restart, CE, slow start.
 */
#ifndef _HPCC_LAW_STATE_H
#define _HPCC_LAW_STATE_H

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

/* Maximum of u' and U, larger than u' of a queue of 1000 T. At this U the window is W_min. */
#define HPCC_U_MAX		65536ULL
#define HPCC_U_MAX_Q24		(HPCC_U_MAX << HPCC_FRAC_BITS)

/* d(tx) may exceed d(ts) by this factor, for three reasons: a clock is rounded, a burst was counted
 * before it left, or the link became faster.
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
 * @ts: ts of the link's last record
 * @tx: txBytes of the link's last record
 * @qlen: qlen of the link's last record
 * @u_q24: u' of the link's last record, or of a quiet link; 0 if u' was not measured yet
 * @began_tx: @tx when the round trip of <hpcc/law/fallback.h> began
 * @seen_us: set by the caller: arrival time of the link's last record
 * @rtt_us: set by the caller: age of the segment with the last record at @seen_us
 * @scale: set by the caller: exponent of the unit of the record's counters
 * @tag: tag of the link's last record
 * @rounds: round trips that ended since the last report of this link, at most HPCC_LINK_ROUNDS
 * @quiet: 1 + number of round trips of quiet, at most 1 + HPCC_QUIET_STEPS; 0: the last report was
 *	a record
 * @bottleneck_since: time at which this link became the most loaded link, by the clock of
 *	hpcc_find_bottleneck(); 0: this link is not the most loaded link
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
 * @quiet: the most loaded link has been quiet for a round trip or more: W changes by multiplication
 *	in each round trip, unless @reduced
 * @per_rtt: W changes only when Wc changes (section 6.1); hpcc_algo_init() clears it
 * @reduced: CE reduced Wc: the next increases are additive, at least HPCC_CE_STAGES of them
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
 * @hop: 1 .. a->nr; other values have no effect
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
 * The next record counts as the first record of the connection.
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
 * Slow start ends when its limit reaches W_max. It is necessary if the capacity of the path is
 * unknown: without it, W would jump to W_max after one record of an idle link, and a later link
 * that does not stamp would drop most of this window.
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
 * @mss: bytes of each packet; @packets * @mss is less than 2^40
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

#endif /* _HPCC_LAW_STATE_H */
