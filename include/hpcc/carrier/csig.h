/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Congestion signals in a tag of 4 bytes (CSIG, compact format; draft-miao-ccwg-hpcc-info-03,
 * section 3). The functions use no skb, and read no byte beyond the caller's length.
 *
 * The tag follows the Ethernet header and its VLAN tags:
 *	TPID:16  T:3  R:1  S:5  LM:7	then the EtherType of the next header
 * T is the type of the signal, S its bucket, and LM the locator of the port that wrote the signal
 * (0: no port wrote).
 *
 * Buckets are floats: with m bits of mantissa, bucket S begins at value(S) units,
 *	value(S) = S for S < 2^m, else (2^m + S mod 2^m) 2^(S/2^m - 1)
 * ABW/C has m = 3, up to 60 units. Times have m = 2, up to 448 units.
 *
 * A sender treats the path as one link, with u' = u1 + u2: u1 comes from max(qlen/B), and u2 from
 * min(ABW/C). The sender requests u1 while there is a queue, and u2 while there is none.
 */
#ifndef _HPCC_CARRIER_CSIG_H
#define _HPCC_CARRIER_CSIG_H

#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/hpcc.h>
#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#include <hpcc/carrier/int.h>
#include <hpcc/wire/record.h>
#include <hpcc/wire/stamp.h>

#define HPCC_CSIG_LEN		4
#define HPCC_CSIG_T(tag)	((tag) >> 13)
#define HPCC_CSIG_S(tag)	((tag) >> 7 & 31)
#define HPCC_CSIG_LM(tag)	((tag) & 127)
#define HPCC_CSIG_KEEP		0xf000U		/* T and R */
#define HPCC_CSIG_S_MAX		31
#define HPCC_CSIG_LOCATORS	127

#define HPCC_CSIG_ABW_BITS	3
#define HPCC_CSIG_TIME_BITS	2

/* Longer times are in the last bucket. */
#define HPCC_CSIG_TIME_TOP	0x7fffffffULL

/* Maximum number of bytes before an IP header. */
#define HPCC_CSIG_WALK		(ETH_HLEN + HPCC_VLAN_TAGS_MAX * VLAN_HLEN + HPCC_CSIG_LEN)

/* T of a tag. */
enum hpcc_csig_type {
	HPCC_CSIG_ABW	= 0,	/* min(ABW); not used here */
	HPCC_CSIG_ABW_C	= 1,	/* min(ABW/C) */
	HPCC_CSIG_PD	= 2,	/* max(PD), the waiting time of a packet */
	HPCC_CSIG_QLEN	= 3,	/* max(qlen/B); the draft assigns no number */
};

/* Units of buckets, the same in the whole network. */
struct hpcc_csig_units {
	u32	abw;		/* of ABW/C, 1/10000, 1 .. HPCC_CSIG_ABW_MAX */
	u32	time_ns;	/* of PD and qlen/B, 1 .. HPCC_CSIG_TIME_MAX_NS */
	u64	abw_inv;	/* 1 / abw, Q62 */
	u64	time_inv;	/* 1 / time_ns, Q62 */
};

/* Reciprocals are rounded up, so that a bucket starts at whole units. */
static inline struct hpcc_csig_units hpcc_csig_units(u32 abw, u32 time_ns)
{
	return (struct hpcc_csig_units){
		.abw = abw,
		.time_ns = time_ns,
		.abw_inv = div64_u64((1ULL << 62) + abw - 1, abw),
		.time_inv = div64_u64((1ULL << 62) + time_ns - 1, time_ns),
	};
}

/* Values that a port reports. */
struct hpcc_csig_hop {
	u32	abw_q30;	/* ABW/C, in units of 2^-30 */
	u64	pd_ns;		/* waiting time of the packet */
	u64	qlen_ns;	/* time that the link needs for the queue after the packet */
	bool	has_pd;		/* pd_ns is valid */
	u8	locator;	/* 1 .. HPCC_CSIG_LOCATORS */
};

/* Start of bucket @s, in units. */
static inline u32 hpcc_csig_value(u32 s, u32 bits)
{
	u32 one = 1U << bits;

	return s < one ? s : (one + (s & (one - 1))) << ((s >> bits) - 1);
}

/* The bucket that contains @v units. */
static inline u32 hpcc_csig_bucket(u32 v, u32 bits)
{
	u32 one = 1U << bits;
	u32 e;

	if (v < one)
		return v;
	e = fls(v) - bits;
	return min_t(u32, e << bits | (v >> (e - 1) & (one - 1)), HPCC_CSIG_S_MAX);
}

/* @abw_q30 is at most HPCC_INT_UTIL_ONE. */
static inline u32 hpcc_csig_abw_bucket(u32 abw_q30, const struct hpcc_csig_units *units)
{
	u32 parts = (u64)abw_q30 * 10000 >> HPCC_INT_UTIL_SHIFT;

	return hpcc_csig_bucket(mul_u64_u64_shr(parts, units->abw_inv, 62), HPCC_CSIG_ABW_BITS);
}

static inline u32 hpcc_csig_time_bucket(u64 ns, const struct hpcc_csig_units *units)
{
	return hpcc_csig_bucket(mul_u64_u64_shr(min_t(u64, ns, HPCC_CSIG_TIME_TOP),
						units->time_inv, 62), HPCC_CSIG_TIME_BITS);
}

/* Utilization in the middle of bucket @s; 100 % for bucket 0. Unit: 1 / HPCC_INT_UTIL_ONE. */
static inline u32 hpcc_csig_util(u32 s, const struct hpcc_csig_units *units)
{
	u32 low = hpcc_csig_value(s, HPCC_CSIG_ABW_BITS);
	u32 next = s < HPCC_CSIG_S_MAX ? hpcc_csig_value(s + 1, HPCC_CSIG_ABW_BITS) : low;
	u64 parts = min_t(u64, (u64)(low + next) * units->abw, 20000);

	return s ? HPCC_INT_UTIL_ONE - (u32)((parts << HPCC_INT_UTIL_SHIFT) / 20000) :
		   HPCC_INT_UTIL_ONE;
}

/* Returns 1 .. HPCC_CSIG_LOCATORS. A port without a switch_ID passes a substitute as @node. */
static inline u8 hpcc_csig_locator(u32 node, u32 port)
{
	return 1 + hpcc_link_tag(node, port) % HPCC_CSIG_LOCATORS;
}

/* The 16 bits after TPID in a new request for @type. */
static inline u16 hpcc_csig_ask(u8 type)
{
	return type << 13 | (type <= HPCC_CSIG_ABW_C ? HPCC_CSIG_S_MAX << 7 : 0);
}

/* Find the tag of a frame. @have: number of readable bytes; HPCC_CSIG_WALK is sufficient.
 * Return: offset of the tag, which is readable with the EtherType after it; -ENOENT: no tag.
 */
static inline int hpcc_csig_find(const u8 *p, u32 have, u16 tpid)
{
	u32 at = offsetof(struct ethhdr, h_proto);
	u32 tags = 0;
	u16 proto;

	for (;; at += VLAN_HLEN) {
		if (at + HPCC_CSIG_LEN + sizeof(u16) > have)
			return -ENOENT;
		proto = get_unaligned_be16(p + at);
		if (proto == tpid)
			return at;
		if ((proto != ETH_P_8021Q && proto != ETH_P_8021AD) || tags++ == HPCC_VLAN_TAGS_MAX)
			return -ENOENT;
	}
}

/* The bucket of the port's signal, or -ENOENT if the port does not support the type. */
static inline int hpcc_csig_of(u8 type, const struct hpcc_csig_hop *hop,
			       const struct hpcc_csig_units *units)
{
	switch (type) {
	case HPCC_CSIG_ABW_C:
		return hpcc_csig_abw_bucket(hop->abw_q30, units);
	case HPCC_CSIG_PD:
		return hop->has_pd ? (int)hpcc_csig_time_bucket(hop->pd_ns, units) : -ENOENT;
	case HPCC_CSIG_QLEN:
		return hpcc_csig_time_bucket(hop->qlen_ns, units);
	default:
		return -ENOENT;
	}
}

/* Replace the value of a tag, HPCC_CSIG_LEN bytes at @p, if the port is more congested. The first
 * port that supports the type always writes: the tag's locator is still 0.
 * Return: HPCC_STAMP_WRITTEN; HPCC_STAMP_QUIET: the tag is unchanged; HPCC_UNSTAMPED_NO_OPTION: the
 * port does not support the type.
 */
static inline int hpcc_csig_write(u8 *p, const struct hpcc_csig_hop *hop,
				  const struct hpcc_csig_units *units)
{
	u16 tag = get_unaligned_be16(p + 2);
	u32 there = HPCC_CSIG_S(tag);
	int own = hpcc_csig_of(HPCC_CSIG_T(tag), hop, units);

	if (own < 0)
		return HPCC_UNSTAMPED_NO_OPTION;
	if (HPCC_CSIG_LM(tag) && (HPCC_CSIG_T(tag) == HPCC_CSIG_ABW_C ? (u32)own >= there :
								     (u32)own <= there))
		return HPCC_STAMP_QUIET;
	put_unaligned_be16((tag & HPCC_CSIG_KEEP) | own << 7 | hop->locator, p + 2);
	return HPCC_STAMP_WRITTEN;
}

/* A signal record occupies the only slot of a FORWARD. Its hop number is not 0, so ports that write
 * into TCP options do not use this slot.
 */
#define HPCC_CSIG_RECORD	(15ULL << 60 | (u64)HPCC_REPORT_SIGNAL << 56)
#define HPCC_CSIG_POPPED	0x10000ULL

/* @tag: the 16 bits after TPID. @popped: false: the tag is not pushed yet; true: it was popped. */
static inline u64 hpcc_csig_record(u16 tag, bool popped)
{
	return HPCC_CSIG_RECORD | (popped ? HPCC_CSIG_POPPED : 0) | tag;
}

/* Whether the option is a FORWARD or ANSWERED that requests a signal. */
static inline bool hpcc_csig_is(const struct hpcc_opt *opt, const u8 *records)
{
	return (opt->type == HPCC_OPT_FORWARD || opt->type == HPCC_OPT_ANSWERED) && opt->nr == 1 &&
	       (get_unaligned_be64(records) & ~(HPCC_CSIG_POPPED | 0xffff)) == HPCC_CSIG_RECORD;
}

/* Copy a received tag into the FORWARD of a packet. @place: from hpcc_walk(); @p is writable up to
 * its end. @tag: the 16 bits after TPID. @fix_check: as for hpcc_stamp_packet().
 * Return: false: the option does not request a signal, and the packet is unchanged.
 */
static inline bool hpcc_csig_pop(u8 *p, const struct hpcc_opt_location *place, u16 tag,
				 bool fix_check)
{
	u8 *record = p + place->opt + HPCC_OPT_HEAD_LEN;
	struct hpcc_opt opt;
	__wsum before;

	if (hpcc_opt_decode(p + place->opt, place->len, &opt) || !hpcc_csig_is(&opt, record))
		return false;
	before = hpcc_opts_sum(p, place);
	put_unaligned_be64(hpcc_csig_record(tag, true), record);
	if (fix_check)
		hpcc_opts_fix_check(p, place, before);
	return true;
}

/* The REPORT record that reflects a signal. */
static inline u64 hpcc_csig_report(u16 tag)
{
	return (u64)HPCC_REPORT_SIGNAL << 60 | tag;
}

/* The signal of a REPORT. 0: the REPORT is of another kind or malformed. A signal is never 0. */
static inline u16 hpcc_csig_reported(const struct hpcc_opt *opt, const u8 *records)
{
	u64 v = opt->nr == 1 ? get_unaligned_be64(records) : 0;

	return v >> 16 == (u64)HPCC_REPORT_SIGNAL << 44 ? (u16)v : 0;
}

/* State of a path, which signals describe as one link. */
struct hpcc_csig_path {
	u64	ts_ns;		/* arrival of the last signal; 0: none arrived yet */
	u64	tx_ns;		/* time that the link has spent on packets, from all signals */
	u32	qlen_ns;	/* u1 of the last signal, times T */
	u8	ask;		/* enum hpcc_csig_type of the next signal; 0: no request */
	u8	locator;	/* of the port that reported the last queue */
	u8	turn : 7;	/* changes when the baseline becomes invalid */
	u8	turned : 1;	/* turn changed when the last queue was reported */
};

/* A queue of one port is no baseline for min(qlen, L.qlen) of another port: invalidate the baseline
 * if the port changes. Do not do this twice in a row: otherwise two alternating bottlenecks would
 * never be measured.
 */
static inline void hpcc_csig_follow(struct hpcc_csig_path *path, u8 locator)
{
	path->turned = path->qlen_ns && path->locator != locator && !path->turned;
	path->turn += path->turned;
	path->locator = locator;
}

/**
 * hpcc_csig_take() - process a signal
 * @path: the path; @path->ask is set to the type to request next
 * @tag: the signal
 * @units: units
 * @now_ns: arrival time by a monotonic clock, not 0
 * @scale: scale of the record
 * @r: set to a load record of hop 1
 *
 * Each signal adds u2 times the time since the last signal to txBytes, so d(tx) / d(ts) in the
 * window law is u2. After HPCC_INT_SPAN_NS without a signal the baseline is invalid. The draft adds
 * u1 to u2; if a signal does not contain u2, u2 is 1. After a queue has drained, u2 is unknown
 * until the sender requests it.
 * Return: 1: @r is set; 0: no record yet; -EINVAL: no port wrote, or the sender does not request
 * this type.
 */
static inline int hpcc_csig_take(struct hpcc_csig_path *path, u16 tag,
				 const struct hpcc_csig_units *units, u64 now_ns, u8 scale,
				 struct hpcc_record *r)
{
	u32 s = HPCC_CSIG_S(tag);
	u32 util = HPCC_INT_UTIL_ONE;
	u64 step = path->ts_ns ? now_ns - path->ts_ns : 0;
	bool queue;

	if (!HPCC_CSIG_LM(tag) || (HPCC_CSIG_T(tag) != HPCC_CSIG_ABW_C &&
				   HPCC_CSIG_T(tag) != HPCC_CSIG_QLEN))
		return -EINVAL;
	queue = HPCC_CSIG_T(tag) == HPCC_CSIG_QLEN;
	if (queue && s)
		hpcc_csig_follow(path, HPCC_CSIG_LM(tag));
	if (queue)
		path->qlen_ns = hpcc_csig_value(s, HPCC_CSIG_TIME_BITS) * units->time_ns;
	path->ask = path->qlen_ns || (!queue && !s) ? HPCC_CSIG_QLEN : HPCC_CSIG_ABW_C;
	if (queue && !s)
		return 0;
	if (!queue)
		util = hpcc_csig_util(s, units);
	if (step > HPCC_INT_SPAN_NS) {
		step = 0;
		path->turn++;
	}
	path->tx_ns += step * util >> HPCC_INT_UTIL_SHIFT;
	path->ts_ns = now_ns;
	*r = hpcc_record_of(1, path->turn, now_ns, path->tx_ns, path->qlen_ns, scale);
	return 1;
}

#endif /* _HPCC_CARRIER_CSIG_H */
