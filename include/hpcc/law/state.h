/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parameters and state of the window law (hpcc/law/algo.h), and changes of W because of events that
 * are not records: a restart, CE, losses, slow start.
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

/* d(tx) may exceed d(ts) by this factor: a clock is rounded, a burst was counted before it left, or
 * the link became faster.
 */
#define HPCC_TX_EXCESS		4

/* Minimum number of additive increases after CE: the draft's maxStage. */
#define HPCC_CE_STAGES		5U

/* W stays if a recovery has lost less than 1 / 2^3 of the packets in flight, or, except in slow
 * start, fewer packets than this.
 */
#define HPCC_LOST_SHIFT		3
#define HPCC_LOST_LEAST		3U

/* hpcc_most_wind(): W may exceed the measured bytes in flight by 1 / 2^2 of them, if they are at
 * least 1 / 2^2 of Wc.
 */
#define HPCC_OWN_SHIFT		2
#define HPCC_OWN_UNKNOWN	(~0U)

/* A link without a record for this many round trips counts as idle. A path of 15 hops that is read
 * one record per round trip stays within this limit.
 */
#define HPCC_LINK_ROUNDS	16

/* u' of a quiet link falls by eta/64, at most 32 times. Steps of eta/16 after maxStage round trips
 * gave queues twice as long and a lower utilization when two flows shared a link.
 */
#define HPCC_QUIET_SHIFT	6
#define HPCC_QUIET_STEPS	32

/* Results of MeasureInflight and NewAck. */
enum hpcc_ack_bits {
	HPCC_ACK_FIRST		= 1U << 0,	/* first telemetry: stored, W unchanged */
	HPCC_ACK_PATH		= 1U << 1,	/* the tag of a hop changed: baseline replaced */
	HPCC_ACK_TS_BACK	= 1U << 2,	/* d(ts) <= 0 at a hop: ignored, baseline kept */
	HPCC_ACK_TX_BACK	= 1U << 3,	/* d(tx) < 0, as after a restart: replaced */
	HPCC_ACK_TX_EXCESS	= 1U << 4,	/* d(tx) > 4 d(ts) + T: ignored, baseline kept */
	HPCC_ACK_BAD_HOP	= 1U << 5,	/* hop 0, or beyond the existing links: ignored */
	HPCC_ACK_REPEAT		= 1U << 6,	/* second record of a hop in this ACK: ignored */
	HPCC_ACK_NO_SAMPLE	= 1U << 7,	/* no link measured: W, Wc, U unchanged */
	HPCC_ACK_UPDATE		= 1U << 8,	/* Wc was synchronised to W, once per RTT */
	HPCC_ACK_NEW		= 1U << 9,	/* first record of a hop, or first quiet */
};

/* The draft's parameters (section 4.1, figure 3). */
struct hpcc_params {
	u64	T;		/* base RTT, time units, 1 .. HPCC_T_MAX */
	u64	W_max_q16;	/* W_init, the upper clamp, bytes */
	u64	W_min_q16;	/* lower clamp, bytes */
	u64	W_ai_q16;	/* additive increase per update, bytes */
	u32	eta_q24;	/* target utilisation */
	u8	max_stage;	/* additive increases before a multiplicative one */
	u16	mss;		/* set by the caller: W can always grow to this, bytes */
	u64	inv_T_q63;	/* 1 / T */
};

/* One link's record in an ACK, ack.L[i]. */
struct hpcc_sample {
	u8	hop;	/* 1 .. HPCC_HOPS_MAX */
	u8	tag;	/* distinguishes links at the same hop */
	u64	ts;	/* timestamp, time units, unwrapped */
	u64	tx;	/* txBytes / B, time units, unwrapped */
	u64	qlen;	/* queue / B, time units */
};

/* State of a link, L[i]: one cache line. */
struct hpcc_link {
	u64	ts;		/* ts of the last record */
	u64	tx;		/* txBytes of the last record */
	u64	qlen;		/* qlen of the last record */
	u64	u_q24;		/* u' of the last record or quiet report; 0: not measured yet */
	u64	began_tx;	/* tx when the round trip of <hpcc/law/fallback.h> began */
	u64	seen_us;	/* set by the caller: arrival of the last record */
	u32	rtt_us;		/* set by the caller: age of the segment with that record */
	/* Since when it is the bottleneck, by the clock of hpcc_find_bottleneck(); 0: it is not. */
	u32	bottleneck_since;
	u32	delivered;	/* packets of the connection that had arrived at the last report */
	u8	tag;		/* tag of the last record */
	u8	rounds;		/* round trips since the last report, at most HPCC_LINK_ROUNDS */
	u8	quiet;		/* 1 + RTTs of quiet, at most 1 + HPCC_QUIET_STEPS; 0: a record */
	u8	scale : 6;	/* set by the caller: exponent of the unit of the counters */
	bool	valid : 1;	/* ts, tx and qlen are a baseline for the next record */
	bool	began_valid : 1;	/* valid when the round trip of fallback.h began */
};

/* State of one connection. */
struct hpcc_algo {
	u64	W_q16;		/* window, bytes */
	u64	Wc_q16;		/* reference window, bytes */
	u64	slow_start_limit_q16;	/* of W and Wc, bytes; W_max or more: slow start is over */
	u64	U_q24;		/* normalised inflight bytes, averaged */
	u32	U_low;		/* the HPCC_U_LOW_BITS bits of U below U_q24 */
	u32	own;		/* bytes of this connection in flight, averaged like U */
	u32	last_update_seq;	/* snd_nxt when the last round trip ended */
	u8	inc_stage;	/* additive increases since the last multiplicative change */
	bool	started : 1;	/* last_update_seq is set */
	bool	moved : 1;	/* U changed since Wc was last synchronised */
	bool	resync : 1;	/* the next measured ACK synchronises Wc, at any ACK number */
	bool	quiet : 1;	/* bottleneck was quiet for an RTT: multiply W, if not reduced */
	bool	per_rtt : 1;	/* W changes only with Wc (section 6.1); hpcc_algo_init(): 0 */
	bool	reduced : 1;	/* CE reduced Wc: HPCC_CE_STAGES additive increases follow */
	u8	end : 4;	/* links from this index on are not valid; at most nr */
	u8	nr : 4;		/* number of links in L */
	struct hpcc_link *L;	/* hop h in L[h - 1]; memory of the caller */
};

/* a * b / 2^shift, to nearest; U64_MAX if it exceeds 2^63. @shift: 1 .. 64. */
static inline u64 hpcc_mul_shr(u64 a, u64 b, unsigned int shift)
{
	u64 twice;

	if (mul_u64_u64_shr(a, b, 64) >> (shift - 1))
		return ~0ULL;
	twice = mul_u64_u64_shr(a, b, shift - 1);
	return (twice >> 1) + (twice & 1);
}

/* a / b, to nearest. @a is below 2^64 - b / 2. */
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
 * @max_stage: maxStage, 0 .. 255; 0 makes every update multiplicative
 */
static inline void hpcc_params_init(struct hpcc_params *p, u64 T, u64 W_init_q16, u64 W_min_q16,
				    u64 W_ai_q16, u32 eta_q24, u32 max_stage)
{
	p->T = clamp_t(u64, T, 1, HPCC_T_MAX);
	p->W_max_q16 = clamp_t(u64, W_init_q16, 1, HPCC_W_MAX_Q16);
	p->W_min_q16 = clamp_t(u64, W_min_q16, 1, p->W_max_q16);
	p->W_ai_q16 = min_t(u64, W_ai_q16, p->W_max_q16);
	p->eta_q24 = clamp_t(u32, eta_q24, 1, HPCC_ONE_Q24);
	p->max_stage = max_stage;
	p->mss = 0;
	p->inv_T_q63 = hpcc_div_nearest(BIT_ULL(HPCC_INV_T_BITS), p->T);
}

/* Reset the state of one link. A @hop outside 1 .. a->nr has no effect. */
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

/* Reset the links beyond the end of a path of @hops: their last u' could dominate u. */
static inline void hpcc_algo_trim(struct hpcc_algo *a, u32 hops)
{
	for (; a->end > hops; a->end--)
		hpcc_algo_forget_hop(a, a->end);
}

/* Reset every link: the path changed, or was idle for too long. The next record counts as the first
 * record of the connection. W, Wc, U and incStage stay.
 */
static inline void hpcc_algo_forget(struct hpcc_algo *a)
{
	hpcc_algo_trim(a, 0);
	a->started = false;
}

/* A new connection: W = Wc = W_init and U = 1. It has no links: until hpcc_algo_links() every
 * record is HPCC_ACK_BAD_HOP.
 */
static inline void hpcc_algo_init(struct hpcc_algo *a, const struct hpcc_params *p)
{
	a->W_q16 = p->W_max_q16;
	a->Wc_q16 = p->W_max_q16;
	a->slow_start_limit_q16 = ~0ULL;
	a->U_q24 = HPCC_ONE_Q24;
	a->U_low = 0;
	a->own = HPCC_OWN_UNKNOWN;
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

/* The path became longer. @L: first the @a->nr old links, then new links, all 0. @nr: @a->nr ..
 * HPCC_HOPS_MAX.
 */
static inline void hpcc_algo_links(struct hpcc_algo *a, struct hpcc_link *L, u8 nr)
{
	a->L = L;
	a->nr = nr;
}

static inline u64 hpcc_clamp_wind(const struct hpcc_params *p, u64 W_q16)
{
	return clamp_t(u64, W_q16, p->W_min_q16, p->W_max_q16);
}

/* Restart from a given window, clamped to W_min .. W_max, for example after an RTO. Links keep
 * their state. Set incStage to maxStage and synchronise Wc at the next measured ACK, so that W
 * recovers immediately and by multiplication.
 */
static inline void hpcc_algo_restart(struct hpcc_algo *a, const struct hpcc_params *p, u64 W_q16)
{
	a->W_q16 = hpcc_clamp_wind(p, W_q16);
	a->Wc_q16 = a->W_q16;
	a->own = HPCC_OWN_UNKNOWN;
	a->slow_start_limit_q16 = max(a->slow_start_limit_q16, a->W_q16);
	a->inc_stage = p->max_stage;
	a->reduced = false;
	a->resync = true;
}

/* Whether slow start limits W. */
static inline bool hpcc_algo_is_slow(const struct hpcc_algo *a, const struct hpcc_params *p)
{
	return a->slow_start_limit_q16 < p->W_max_q16;
}

/* Reduce Wc by Wc / 2^@shift because of CE. In slow start Wc may be far below W: reduce W. A link
 * without telemetry may have set CE. So incStage restarts at 0, and HPCC_CE_STAGES or more additive
 * increases follow: otherwise an idle or quiet link would restore the W that was too large.
 */
static inline void hpcc_algo_reduce(struct hpcc_algo *a, const struct hpcc_params *p, u32 shift)
{
	if (hpcc_algo_is_slow(a, p))
		a->Wc_q16 = max(a->Wc_q16, a->W_q16);
	a->Wc_q16 = hpcc_clamp_wind(p, a->Wc_q16 - (a->Wc_q16 >> shift));
	a->W_q16 = min(a->W_q16, a->Wc_q16);
	a->inc_stage = 0;
	a->reduced = true;
}

/* When a recovery began, @sent packets of @mss bytes were in flight. In its first round trip, in
 * which the sender conserved packets, @lost were lost. If this is a large part, the path does not
 * carry W: W is at most @kept packets, the number in flight now, or half of W if @kept is 0 because
 * TCP has nothing to send. The next records show the load of the bytes that were in flight in that
 * round trip, not of an older and larger Wc.
 */
static inline void hpcc_algo_lost(struct hpcc_algo *a, const struct hpcc_params *p, u32 sent,
				  u32 lost, u32 kept, u32 mss)
{
	u32 least = max(sent >> HPCC_LOST_SHIFT, hpcc_algo_is_slow(a, p) ? 1U : HPCC_LOST_LEAST);
	u64 limit_q16 = kept ? (u64)kept * mss << HPCC_W_BITS : a->W_q16 / 2;

	if (lost < least)
		return;
	a->W_q16 = min(a->W_q16, hpcc_clamp_wind(p, limit_q16));
	a->Wc_q16 = min(a->Wc_q16, a->W_q16);
}

/* Begin slow start after a restart: W grows at most by the bytes that are acknowledged, until its
 * limit reaches W_max. If the capacity of the path is unknown, W would otherwise jump to W_max
 * after one record of an idle link, and a later link that does not stamp would drop most of these
 * packets.
 */
static inline void hpcc_algo_slow(struct hpcc_algo *a)
{
	a->slow_start_limit_q16 = a->W_q16;
}

/**
 * hpcc_algo_acked() - limit W and Wc in slow start
 * @a: connection, after the ACK's records were processed
 * @p: parameters
 * @packets: number of packets that the ACK newly acknowledges
 * @mss: bytes of each packet; @packets * @mss is less than 2^40
 * @before_q16: W before the ACK
 *
 * Keep incStage at maxStage, so that W is multiplied in each round trip, except after CE. While W
 * doubles in each round trip, Wc is older than the inflight bytes that U measures, and
 * W = Wc / (U / eta) would fall. So W does not fall while U is below eta.
 */
static inline void hpcc_algo_acked(struct hpcc_algo *a, const struct hpcc_params *p, u32 packets,
				   u32 mss, u64 before_q16)
{
	if (!hpcc_algo_is_slow(a, p))
		return;
	a->slow_start_limit_q16 += (u64)packets * mss << HPCC_W_BITS;
	/* W_max changes with T: a larger W_max does not restart slow start. */
	if (!hpcc_algo_is_slow(a, p))
		a->slow_start_limit_q16 = ~0ULL;
	if (!a->reduced)
		a->inc_stage = p->max_stage;
	if (a->U_q24 < p->eta_q24 && a->W_q16 < before_q16) {
		/* Wc follows if this ACK has synchronised it: U divides W once per round trip. */
		if (a->Wc_q16 == a->W_q16)
			a->Wc_q16 = before_q16;
		a->W_q16 = before_q16;
	}
	if (a->W_q16 > a->slow_start_limit_q16) {
		a->W_q16 = a->slow_start_limit_q16;
		a->Wc_q16 = min(a->Wc_q16, a->slow_start_limit_q16);
	}
}

#endif /* _HPCC_LAW_STATE_H */
