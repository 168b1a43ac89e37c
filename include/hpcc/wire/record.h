/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Telemetry option and hop records; include/uapi/linux/hpcc.h defines the layout. The functions
 * convert bytes to numbers and back: they use no skb, policy or clock, and read no byte beyond the
 * caller's length. Functions that take or return a record as u64 use its 8 bytes as a big endian
 * number.
 */
#ifndef _HPCC_WIRE_RECORD_H
#define _HPCC_WIRE_RECORD_H

#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/hpcc.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#define HPCC_COUNTER_BITS	20
#define HPCC_COUNTER_MASK	((1U << HPCC_COUNTER_BITS) - 1)
#define HPCC_QLEN_BITS		12
#define HPCC_QLEN_MANT_BITS	8
#define HPCC_QLEN_MAX		(511U << 14)
#define HPCC_SCALE_MAX		31

/* T is 4096 to 8191 units long, so one unit is at most 0.025 % of T, the 20-bit counters wrap after
 * more than 128 T, and qlen can exceed 1000 T.
 */
#define HPCC_T_UNITS_MAX	8192

/* Head of a telemetry option. */
struct hpcc_opt {
	u8	type;	/* enum hpcc_opt_type */
	u8	scale;	/* times in the records are in 2^scale ns, 0 .. HPCC_SCALE_MAX */
	u8	hops;	/* switches that the packet has passed, 0 .. HPCC_HOPS_MAX (saturated) */
	u8	flags;	/* HPCC_OPT_F_* */
	u8	nr;	/* slots, 0 .. HPCC_OPT_RECORDS_MAX */
};

/* Load record. Times are in units of 2^scale ns. */
struct hpcc_record {
	u8	hop;	/* 1 .. HPCC_HOPS_MAX; 0 in a free slot */
	u8	tag;	/* hash of switch_ID and port_ID */
	u32	ts;	/* timestamp, modulo 2^20 */
	u32	tx;	/* txBytes as transmission time, modulo 2^20 */
	u32	qlen;	/* queue as transmission time */
};

/* Load record from times in ns; qlen saturates. */
static inline struct hpcc_record hpcc_record_of(u8 hop, u8 tag, u64 ts_ns, u64 tx_ns, u64 qlen_ns,
						u8 scale)
{
	return (struct hpcc_record){
		.hop = hop,
		.tag = tag,
		.ts = ts_ns >> scale & HPCC_COUNTER_MASK,
		.tx = tx_ns >> scale & HPCC_COUNTER_MASK,
		.qlen = min_t(u64, qlen_ns >> scale, ~0U),
	};
}

/* Identity record. */
struct hpcc_identity {
	u8	hop;	/* 1 .. HPCC_HOPS_MAX; 0 in a free slot */
	u32	node;	/* switch_ID */
	u32	port;	/* port_ID */
	u64	bps;	/* B in bit/s */
};

/* The scale that a sender requests for its base RTT T: the smallest one for which T is below
 * HPCC_T_UNITS_MAX units.
 */
static inline u8 hpcc_scale_for(u64 t_ns)
{
	return min_t(u32, fls64(t_ns / HPCC_T_UNITS_MAX), HPCC_SCALE_MAX);
}

/* 8 bits that distinguish the links of a hop. */
static inline u8 hpcc_link_tag(u32 node, u32 port)
{
	/* Multiplicative hash: the constant is an odd number near 2^32 / golden ratio. */
	return ((node << 16 ^ node >> 4 ^ port) * 0x9e3779b1U) >> 24;
}

/* Convert a queue length in units of 2^scale ns to a 12-bit float: exponent << 8 | mantissa. Values
 * below 512 are exact. Larger values are rounded to 9 significant bits: the error is at most 0.2 %.
 * The result saturates at HPCC_QLEN_MAX.
 */
static inline u32 hpcc_qlen_encode(u64 units)
{
	u32 exp;

	if (units < 1U << HPCC_QLEN_MANT_BITS)
		return units;
	units = min_t(u64, units, HPCC_QLEN_MAX);
	exp = fls64(units) - HPCC_QLEN_MANT_BITS;
	if (exp > 1)
		units += 1ULL << (exp - 2);
	if (units >> (exp - 1) >= 512)
		exp++;
	return exp << HPCC_QLEN_MANT_BITS |
	       (units >> (exp - 1) & ((1U << HPCC_QLEN_MANT_BITS) - 1));
}

/* Inverse of hpcc_qlen_encode(), 0 .. HPCC_QLEN_MAX. Bits of @code above 12 are ignored. */
static inline u32 hpcc_qlen_decode(u32 code)
{
	u32 exp = code >> HPCC_QLEN_MANT_BITS & 0xf;
	u32 mant = code & ((1U << HPCC_QLEN_MANT_BITS) - 1);

	return exp ? (mant | 1U << HPCC_QLEN_MANT_BITS) << (exp - 1) : mant;
}

/* Unwrap a 20-bit counter @raw to the value nearest to @last: 2^19 - 1 ahead to 2^19 behind. */
static inline u64 hpcc_counter_extend(u64 last, u32 raw)
{
	u32 ahead = (raw - (u32)last) & HPCC_COUNTER_MASK;

	if (ahead < 1U << (HPCC_COUNTER_BITS - 1))
		return last + ahead;
	return last + ahead - (1U << HPCC_COUNTER_BITS);
}

/* Write a load record; qlen saturates, and the counters wrap. */
static inline void hpcc_record_encode(u8 *p, const struct hpcc_record *r)
{
	put_unaligned_be64((u64)(r->hop & 0xf) << 60 | (u64)r->tag << 52 |
			   (u64)(r->ts & HPCC_COUNTER_MASK) << 32 |
			   (u64)(r->tx & HPCC_COUNTER_MASK) << 12 | hpcc_qlen_encode(r->qlen), p);
}

/* Read a load record. Every bit pattern is a record. */
static inline void hpcc_record_unpack(u64 v, struct hpcc_record *r)
{
	r->hop = v >> 60;
	r->tag = v >> 52;
	r->ts = v >> 32 & HPCC_COUNTER_MASK;
	r->tx = v >> 12 & HPCC_COUNTER_MASK;
	r->qlen = hpcc_qlen_decode(v & ((1U << HPCC_QLEN_BITS) - 1));
}

static inline void hpcc_record_decode(const u8 *p, struct hpcc_record *r)
{
	hpcc_record_unpack(get_unaligned_be64(p), r);
}

/* Hop of a load record or an identity record: 1 .. HPCC_HOPS_MAX; 0: the slot is free. */
static inline u8 hpcc_slot_hop(const u8 *p)
{
	return p[0] >> 4;
}

/* Unit of the mantissa of B for each exponent. */
static const u64 hpcc_identity_unit_bps[4] = { 1000, 1000000, 1000000000, 1000000000000ULL };

#define HPCC_IDENTITY_MANT_MAX	((1U << 22) - 1)

/* Write an identity record. bps is rounded to a mantissa of 22 bits (exact for whole kbit/s up to
 * 4.19 Gbit/s, for whole Mbit/s up to 4.19 Tbit/s), and saturates at 4.19 Pbit/s.
 */
static inline void hpcc_identity_encode(u8 *p, const struct hpcc_identity *id)
{
	u64 mant, rem;
	u32 exp = 0;

	for (;; exp++) {
		u64 unit_bps = hpcc_identity_unit_bps[exp];

		mant = div64_u64_rem(id->bps, unit_bps, &rem);
		mant += rem >= unit_bps / 2;
		if (mant <= HPCC_IDENTITY_MANT_MAX || exp == 3)
			break;
	}
	mant = min_t(u64, mant, HPCC_IDENTITY_MANT_MAX);
	put_unaligned_be64((u64)(id->hop & 0xf) << 60 | (u64)(id->node & HPCC_NODE_MAX) << 40 |
			   (u64)(id->port & HPCC_PORT_MAX) << 24 | (u64)exp << 22 | mant, p);
}

static inline void hpcc_identity_unpack(u64 v, struct hpcc_identity *id)
{
	id->hop = v >> 60;
	id->node = v >> 40 & HPCC_NODE_MAX;
	id->port = v >> 24 & HPCC_PORT_MAX;
	id->bps = (v & HPCC_IDENTITY_MANT_MAX) * hpcc_identity_unit_bps[v >> 22 & 3];
}

/* Make a report record with @N flows, 1 .. HPCC_REPORT_N_MAX. @kind: enum hpcc_report. */
static inline u64 hpcc_report_pack(u8 kind, u16 N)
{
	return (u64)kind << 60 | N;
}

/* N of a report record; 0: the record is of another kind, or N is out of range. */
static inline u16 hpcc_report_flows(u64 v)
{
	u64 flows = v ^ (u64)HPCC_REPORT_FLOWS << 60;

	return flows <= HPCC_REPORT_N_MAX ? flows : 0;
}

/* Bytes of an option, kind and length included. */
static inline u32 hpcc_opt_len(u32 nr)
{
	return HPCC_OPT_HEAD_LEN + nr * HPCC_RECORD_LEN;
}

/* Write HPCC_OPT_HEAD_LEN bytes, a telemetry option's head. */
static inline void hpcc_opt_encode(u8 *p, u8 kind, const struct hpcc_opt *opt)
{
	p[0] = kind;
	p[1] = hpcc_opt_len(opt->nr);
	p[2] = opt->type << 5 | (opt->scale & 0x1f);
	p[3] = opt->hops << 4 | (opt->flags & 0xf);
}

/* Read a telemetry option's head. @len: value of the option's length byte; the caller checked that
 * the whole option is readable.
 * Return: 0; -EINVAL if no number of records from 0 to HPCC_OPT_RECORDS_MAX has this length, or if
 * the type is 0.
 */
static inline int hpcc_opt_decode(const u8 *p, u32 len, struct hpcc_opt *opt)
{
	if (len < HPCC_OPT_HEAD_LEN || len > hpcc_opt_len(HPCC_OPT_RECORDS_MAX) ||
	    (len - HPCC_OPT_HEAD_LEN) % HPCC_RECORD_LEN)
		return -EINVAL;
	opt->type = p[2] >> 5;
	opt->scale = p[2] & 0x1f;
	opt->hops = p[3] >> 4;
	opt->flags = p[3] & 0xf;
	opt->nr = (len - HPCC_OPT_HEAD_LEN) / HPCC_RECORD_LEN;
	return opt->type ? 0 : -EINVAL;
}

/* Whether an option of @len bytes is an ECHO, an IDENTIFY_ECHO or a REPORT. */
static inline bool hpcc_opt_is_feedback(const u8 *p, u32 len)
{
	u8 type = len >= HPCC_OPT_HEAD_LEN ? p[2] >> 5 : 0;

	return type == HPCC_OPT_ECHO || type == HPCC_OPT_IDENTIFY_ECHO || type == HPCC_OPT_REPORT;
}

/* Whether feedback of @len bytes ends with a tag. */
static inline bool hpcc_opt_has_tag(u32 len)
{
	return len >= hpcc_opt_len(1) + HPCC_TAG_LEN && len % HPCC_RECORD_LEN == 0;
}

/* Count the invalid records of a FORWARD, an ECHO, an IDENTIFY or an IDENTIFY_ECHO. Each record
 * belongs to a different hop of the path, 1 .. @opt->hops. Requests may have free slots, and an
 * ECHO may have the map of quiet hops. If the number is not 0, the option may belong to another
 * experiment.
 */
static inline u32 hpcc_opt_misfits(const struct hpcc_opt *opt, const u8 *records)
{
	bool echo = opt->type == HPCC_OPT_ECHO || opt->type == HPCC_OPT_IDENTIFY_ECHO;
	u32 bad = 0, seen = 0;
	u32 i, hop, map;
	u64 v;

	for (i = 0; i < opt->nr; i++) {
		v = get_unaligned_be64(records + i * HPCC_RECORD_LEN);
		if (!v && !echo)
			continue;
		hop = v >> 60;
		map = hop ? 1U << (hop - 1) : opt->type == HPCC_OPT_ECHO ? v >> 45 : 0;
		bad += !map || map >> opt->hops || seen & map;
		seen |= map;
	}
	return bad;
}

#define HPCC_TCPOPT_EOL		0
#define HPCC_TCPOPT_NOP		1

/* Signature options, which cover the TCP header. */
#define HPCC_TCPOPT_MD5		19
#define HPCC_TCPOPT_AO		29

/* Most headers begin with these options: NOP, NOP, timestamps. */
#define HPCC_TCPOPTS_USUAL	0x0101080aU
#define HPCC_TCPOPTS_USUAL_LEN	12

/* Length of the usual options at the start, which a search can skip. */
static inline u32 hpcc_opts_usual(const u8 *opts, u32 len)
{
	return len >= HPCC_TCPOPTS_USUAL_LEN && get_unaligned_be32(opts) == HPCC_TCPOPTS_USUAL ?
	       HPCC_TCPOPTS_USUAL_LEN : 0;
}

/* Find the next option at or after *@end, except NOP: set *@start to its offset, and *@end to the
 * byte after it. Return: 0; -ENOENT: no option follows; -EINVAL: the length of the option is below
 * 2 or exceeds @len. An error leaves *@start and *@end unchanged.
 */
static inline int hpcc_opt_step(const u8 *opts, u32 len, u32 *start, u32 *end)
{
	u32 at;

	for (at = *end; at < len && opts[at] != HPCC_TCPOPT_EOL; at++) {
		if (opts[at] == HPCC_TCPOPT_NOP)
			continue;
		if (len - at < 2 || opts[at + 1] < 2 || opts[at + 1] > len - at)
			return -EINVAL;
		*start = at;
		*end = at + opts[at + 1];
		return 0;
	}
	return -ENOENT;
}

/* Find the next option of two kinds in the @len (0 .. 40) option bytes of a TCP header. @pos: in:
 * offset at which the search starts, 0 for the first call; out: offset after the option. @kind,
 * @other: not EOL, NOP or timestamps.
 * Return: offset of the option, which is completely within @len; -ENOENT: no such option; -EINVAL:
 * the length of an option is below 2 or exceeds @len.
 */
static inline int hpcc_opt_next_of(const u8 *opts, u32 len, u32 *pos, u8 kind, u8 other)
{
	u32 end = *pos ?: hpcc_opts_usual(opts, len);
	u32 start;
	int err;

	while (!(err = hpcc_opt_step(opts, len, &start, &end))) {
		if (opts[start] == kind || opts[start] == other) {
			*pos = end;
			return start;
		}
	}
	if (err == -ENOENT)
		*pos = len;
	return err;
}

/* Find an option of one kind, as hpcc_opt_next_of(). */
static inline int hpcc_opt_next(const u8 *opts, u32 len, u32 *pos, u8 kind)
{
	return hpcc_opt_next_of(opts, len, pos, kind, kind);
}

/* Write the option of a SYN or SYN-ACK. @exid: RFC 6994. @caps: HPCC_CAP_*. */
static inline void hpcc_syn_opt_encode(u8 *p, u8 kind, u16 exid, u16 caps)
{
	p[0] = kind;
	p[1] = HPCC_SYN_OPT_LEN;
	put_unaligned_be16(exid, p + 2);
	p[4] = HPCC_OPT_VERSION << 4 | caps >> 8;
	p[5] = caps;
}

/* Find and read our option in a SYN or SYN-ACK: the first option of kind @kind with our ExID. @len:
 * number of option bytes, 0 .. 40. Options of other experiments (TCP Fast Open, SMC) may have the
 * same kind.
 * Return: HPCC_CAP_*; -ENOENT: no such option; -EINVAL: the option's length or version is not ours,
 * or an option before it is malformed.
 */
static inline int hpcc_syn_opt_find(const u8 *opts, u32 len, u8 kind, u16 exid)
{
	u32 pos = 0;
	int at;

	while ((at = hpcc_opt_next(opts, len, &pos, kind)) >= 0) {
		const u8 *p = opts + at;
		u32 optlen = pos - at;

		if (optlen < 4 || get_unaligned_be16(p + 2) != exid)
			continue;
		if (optlen != HPCC_SYN_OPT_LEN || p[4] >> 4 != HPCC_OPT_VERSION)
			return -EINVAL;
		return (p[4] & 0xf) << 8 | p[5];
	}
	return at;
}

#endif /* _HPCC_WIRE_RECORD_H */
