/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Load records that leave a domain (draft-miao-iccrg-hpccplus section 9.1). The border replaces the
 * record of each link by the record of a virtual link, which shows only u' of the link, rounded up
 * to steps, and at least 3/4. The functions use no skb and no clock.
 *
 *	ts	the border's clock, which advances by windows of T/4 or more
 *	tx	grows by min(u', 1) * time, from a random value
 *	qlen	max(u' - 1, 0) * T
 *	tag	random, the same for all scales until a link of the set is replaced
 *
 * The scale S of an option shows T: it is 4096 .. 8191 units of 2^S ns. If u' is above 1, the
 * sender computes 1 + qlen/T.
 */
#ifndef _HPCC_WIRE_BORDER_H
#define _HPCC_WIRE_BORDER_H

#include <hpcc/wire/stamp.h>

#define HPCC_BORDER_T		6144U	/* T, units */
#define HPCC_BORDER_WINDOW	2048U	/* minimum length of a window, units */
#define HPCC_BORDER_AGE		(1U << (HPCC_COUNTER_BITS - 1))	/* counters may have wrapped */
#define HPCC_BORDER_JITTER	65536U		/* a link's clock against the border's, units */

/* A link inside the domain, as one host and one scale see it. Times are in units of the scale. */
struct hpcc_border_link {
	u64	key;		/* hash of host, type, scale, hop and tag; 0: free */
	u64	seen_ns;	/* time of the last record */
	u64	from;		/* start of the window: ts of the virtual link */
	u64	tx;		/* tx of the virtual link at the start */
	struct hpcc_record last;	/* the link's record at the start */
	u32	level;		/* u' of the last window, in steps */
	u8	tag;		/* of the virtual link */
};

/* Begin with a link's first record. @tag tells the sender not to compare it with an older one. */
static inline void hpcc_border_begin(struct hpcc_border_link *l, const struct hpcc_record *r,
				     u64 now, u32 random, u8 tag, u32 steps)
{
	l->from = now;
	l->tx = random >> 8;
	l->last = *r;
	l->level = steps;
	l->tag = tag;
}

/* Whether a record may be of the link: its clock has advanced as the border's has. */
static inline bool hpcc_border_fits(const struct hpcc_border_link *l, const struct hpcc_record *r,
				    u64 now)
{
	u32 ahead = r->ts - l->last.ts - (u32)(now - l->from) + HPCC_BORDER_JITTER;

	return now - l->from >= HPCC_BORDER_AGE ||
	       (ahead & HPCC_COUNTER_MASK) < 2 * HPCC_BORDER_JITTER;
}

/* The smallest u' in steps. With 1/2, W would double when the link is idle for one window. */
static inline u32 hpcc_border_min(u32 steps)
{
	return steps - steps / 4;
}

/* u' in steps, rounded up; above 1 to a multiple of 1/2, because a short queue is one packet, whose
 * time shows the rate of the link. @dts is not 0.
 */
static inline u32 hpcc_border_level(u32 dts, u32 dtx, u32 qlen, u32 steps)
{
	u64 one = (u64)dts * HPCC_BORDER_T;
	u64 u = (u64)min(dtx, dts) * HPCC_BORDER_T + (u64)qlen * dts;
	u32 level = div64_u64(u * steps + one - 1, one), half = steps / 2;

	if (level > steps)
		return steps + (level - steps + half - 1) / half * half;
	return max(level, hpcc_border_min(steps));
}

static inline u32 hpcc_border_qlen(u32 level, u32 steps)
{
	return level > steps ? div64_u64((u64)(level - steps) * HPCC_BORDER_T, steps) : 0;
}

/**
 * hpcc_border_update() - replace a link's record by the record of its virtual link
 * @l: the link
 * @r: the record; hop stays
 * @now: the border's clock, not before @l->from
 * @steps: HPCC_QUANTIZE_MIN .. HPCC_QUANTIZE_MAX
 *
 * The result changes once in a window, so it does not show the times of single packets.
 */
static inline void hpcc_border_update(struct hpcc_border_link *l, struct hpcc_record *r, u64 now,
				      u32 steps)
{
	u32 dts = (r->ts - l->last.ts) & HPCC_COUNTER_MASK;
	u32 dtx = (r->tx - l->last.tx) & HPCC_COUNTER_MASK;
	bool old = now - l->from >= HPCC_BORDER_AGE;

	if (old || (dts >= HPCC_BORDER_WINDOW && dts < HPCC_BORDER_AGE)) {
		l->level = old ? hpcc_border_min(steps) :
			   hpcc_border_level(dts, dtx, min(r->qlen, l->last.qlen), steps);
		l->tx += div64_u64((now - l->from) * min(l->level, steps), steps);
		l->from = now;
		l->last = *r;
	}
	r->tag = l->tag;
	r->ts = l->from & HPCC_COUNTER_MASK;
	r->tx = l->tx & HPCC_COUNTER_MASK;
	r->qlen = hpcc_border_qlen(l->level, steps);
}

/* Replace the record of a response: only its queue stays, in steps of T/2. */
static inline void hpcc_border_response(u8 *p, u32 steps)
{
	struct hpcc_record r;

	hpcc_record_decode(p, &r);
	r = (struct hpcc_record){
		.hop = r.hop,
		.qlen = hpcc_border_qlen(hpcc_border_level(1, 1, r.qlen, steps), steps),
	};
	hpcc_record_encode(p, &r);
}

/* Whether NOPs replace an option: names of links, the number of flows, or a signal. A REPORT of W
 * stays: W is a fraction of W_init.
 */
static inline bool hpcc_border_removes(const struct hpcc_opt *opt, const u8 *p)
{
	u8 kind = opt->nr ? hpcc_slot_hop(p + HPCC_OPT_HEAD_LEN) : 0;

	return opt->type == HPCC_OPT_IDENTIFY_ECHO ||
	       (opt->type == HPCC_OPT_REPORT && (kind == HPCC_REPORT_FLOWS ||
						 kind == HPCC_REPORT_SIGNAL));
}

#endif /* _HPCC_WIRE_BORDER_H */
