/* SPDX-License-Identifier: GPL-2.0 */
/*
 * IOAM (RFC 9197): the pre-allocated trace option of an IPv6 hop-by-hop header (RFC 9486) as
 * draft-miao-tsv-hpcc-info-02 uses it. Incremental traces are ignored. The functions use no skb,
 * and read no byte beyond the caller's length.
 *
 * Format of a trace, 4 octets in each line:
 *	Namespace-ID:16  NodeLen:5  Flags:4  RemainingLen:7
 *	IOAM-Trace-Type:24  reserved:8
 *	space for the nodes' data; the first RemainingLen words of this space are free
 * Each node writes at the end of the free space, so the data of the last hop come first. Fields
 * have the order of their bits in IOAM-Trace-Type; bit 0 is the most significant bit.
 *
 * Our trace type is bits 0, 1, 3, 6 and 12 (draft-gafni-ippm-ioam-additional-data-fields-00):
 *	Hop_Lim:8  node_id:24
 *	ingress_if_id:16  egress_if_id:16
 *	timestamp fraction of the packet's departure, ns, 0 .. 999,999,999
 *	queue depth, bytes
 *	tx_bytes, modulo 2^32
 */
#ifndef _HPCC_CARRIER_IOAM_H
#define _HPCC_CARRIER_IOAM_H

#include <linux/errno.h>
#include <linux/hpcc.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#include <hpcc/carrier/link.h>
#include <hpcc/wire/clock.h>
#include <hpcc/wire/record.h>

#define HPCC_IOAM_PAD1		0
#define HPCC_IOAM_PADN		1
#define HPCC_IOAM_OPTION	0x31	/* RFC 9486: skip if unknown, may change */
#define HPCC_IOAM_PREALLOCATED	0	/* IOAM-Option-Type, the byte before a trace */

#define HPCC_IOAM_OPTION_LEN	4	/* type, length, reserved, IOAM-Option-Type */
#define HPCC_IOAM_HEAD_LEN	8	/* head of a trace */
#define HPCC_IOAM_TRACE_TYPE	0xd20800U
#define HPCC_IOAM_NODE_WORDS	5
#define HPCC_IOAM_NODE_LEN	20
#define HPCC_IOAM_NODES_MAX	12	/* limit of the option's length */

#define HPCC_IOAM_F_OVERFLOW	0x8	/* the first of 4 flags */

/* Bits of IOAM-Trace-Type: opaque state, which has its own length, and a reserved bit. */
#define HPCC_IOAM_ODD_TYPES	0x3U

#define HPCC_IOAM_U32_NONE	0xffffffffU
#define HPCC_IOAM_U24_NONE	0xffffffU
#define HPCC_IOAM_U16_NONE	0xffffU

/* Head of a trace. */
struct hpcc_ioam {
	u16	ns;		/* Namespace-ID */
	u32	type;		/* IOAM-Trace-Type */
	u8	node_words;	/* NodeLen, 4-octet words of a node */
	u8	flags;		/* 4 bits */
	u8	left;		/* RemainingLen, number of free words */
	u8	words;		/* total number of words for nodes */
};

/* Data of a node, of our trace type. */
struct hpcc_ioam_node {
	u8	hop_lim;	/* hop limit of the packet at departure */
	u32	node;		/* node_id, 24 bits */
	u16	port;		/* egress_if_id */
	u32	ts_ns;		/* timestamp fraction */
	u32	qlen_bytes;	/* queue depth */
	u32	tx_bytes;	/* modulo 2^32 */
};

/* Unwrapped counters start at multiples of their wrap period, large enough for a counter that
 * decreases.
 */
#define HPCC_IOAM_SECOND_NS	1000000000ULL
#define HPCC_IOAM_TS_BASE	(HPCC_IOAM_SECOND_NS * HPCC_IOAM_SECOND_NS)
#define HPCC_IOAM_TX_BASE	0x1000000000000ULL

/* Maximum time between two traces: half of the range that can be unwrapped. */
#define HPCC_IOAM_SPAN_NS	(HPCC_IOAM_SECOND_NS / 4)
#define HPCC_IOAM_SPAN_SHIFT	2	/* time of 2^30 bytes, from byte_time in Q32 */

/* Find the first pre-allocated trace in a hop-by-hop header of @len bytes, from its Next Header
 * field on. @at: set to the offset of the trace's head.
 * Return: length of the trace with its head, a multiple of 4; -ENOENT: no trace; -EINVAL: the
 * lengths are inconsistent.
 */
static inline int hpcc_ioam_find(const u8 *p, u32 len, u32 *at)
{
	u32 pos = 2;

	while (pos < len) {
		u32 optlen;

		if (p[pos] == HPCC_IOAM_PAD1) {
			pos++;
			continue;
		}
		if (len - pos < 2 || p[pos + 1] > len - pos - 2)
			return -EINVAL;
		optlen = p[pos + 1] + 2;
		if (p[pos] == HPCC_IOAM_OPTION && optlen >= HPCC_IOAM_OPTION_LEN &&
		    p[pos + 3] == HPCC_IOAM_PREALLOCATED) {
			if (optlen < HPCC_IOAM_OPTION_LEN + HPCC_IOAM_HEAD_LEN || optlen % 4)
				return -EINVAL;
			*at = pos + HPCC_IOAM_OPTION_LEN;
			return optlen - HPCC_IOAM_OPTION_LEN;
		}
		pos += optlen;
	}
	return -ENOENT;
}

/* Whether a trace carries a request. If the namespace or the fields are not ours, ports and
 * receivers use the TCP option of the packet, if it has this option.
 */
static inline bool hpcc_ioam_is_ours(const u8 *p)
{
	return get_unaligned_be16(p) == HPCC_IOAM_NAMESPACE &&
	       get_unaligned_be32(p + 4) >> 8 == HPCC_IOAM_TRACE_TYPE;
}

/* Words of a node's data; 0: @type does not define the length. Fields that no RFC defines yet take
 * one word (RFC 9197, section 4.4.1).
 */
static inline u32 hpcc_ioam_words(u32 type)
{
	u32 words = 0;
	u32 bit;

	if (type == HPCC_IOAM_TRACE_TYPE)
		return HPCC_IOAM_NODE_WORDS;
	if (type & HPCC_IOAM_ODD_TYPES)
		return 0;
	for (bit = 0; bit < 22; bit++)
		if (type & 1U << (23 - bit))
			words += bit >= 8 && bit <= 10 ? 2 : 1;
	return words;
}

/* Read the head of a trace. @len: length of the trace with its head, HPCC_IOAM_HEAD_LEN .. 252.
 * Return: 0; -EINVAL: RemainingLen exceeds the trace, or NodeLen does not match the trace type.
 */
static inline int hpcc_ioam_read(const u8 *p, u32 len, struct hpcc_ioam *t)
{
	u32 head = get_unaligned_be16(p + 2);
	u32 words;

	t->ns = get_unaligned_be16(p);
	t->node_words = head >> 11;
	t->flags = head >> 7 & 0xf;
	t->left = head & 0x7f;
	t->type = get_unaligned_be32(p + 4) >> 8;
	t->words = (len - HPCC_IOAM_HEAD_LEN) / 4;
	words = hpcc_ioam_words(t->type);
	if (t->left > t->words || !t->node_words || (words && words != t->node_words))
		return -EINVAL;
	return 0;
}

/* Change flags and RemainingLen. */
static inline void hpcc_ioam_set(u8 *p, const struct hpcc_ioam *t)
{
	put_unaligned_be16(t->node_words << 11 | t->flags << 7 | t->left, p + 2);
}

/* Write a node's fields for any trace type; unsupported fields are "not available". */
static inline void hpcc_ioam_fields(u8 *p, u32 type, const struct hpcc_ioam_node *n)
{
	u32 bit;

	if (type == HPCC_IOAM_TRACE_TYPE) {
		put_unaligned_be32((u32)n->hop_lim << 24 | n->node, p);
		put_unaligned_be32(HPCC_IOAM_U16_NONE << 16 | n->port, p + 4);
		put_unaligned_be32(n->ts_ns, p + 8);
		put_unaligned_be32(n->qlen_bytes, p + 12);
		put_unaligned_be32(n->tx_bytes, p + 16);
		return;
	}
	for (bit = 0; bit < 22; bit++) {
		u32 value = HPCC_IOAM_U32_NONE;

		if (!(type & 1U << (23 - bit)))
			continue;
		switch (bit) {
		case 0:
			value = (u32)n->hop_lim << 24 | n->node;
			break;
		case 1:
			value = HPCC_IOAM_U16_NONE << 16 | n->port;
			break;
		case 3:
			value = n->ts_ns;
			break;
		case 6:
			value = n->qlen_bytes;
			break;
		case 8:
			put_unaligned_be32((u32)n->hop_lim << 24, p);
			p += 4;
			value = n->node;
			break;
		case 9:
		case 10:
			put_unaligned_be32(value, p);
			p += 4;
			if (bit == 9)
				value = n->port;
			break;
		case 12:
			value = n->tx_bytes;
			break;
		}
		put_unaligned_be32(value, p);
		p += 4;
	}
}

/* Set the overflow flag: a node had no room. */
static inline void hpcc_ioam_overflow(u8 *p)
{
	p[2] |= HPCC_IOAM_F_OVERFLOW >> 1;
}

/* Write a node's data into a pre-allocated trace; if it has no room, set the overflow flag. @len:
 * as for hpcc_ioam_read().
 * Return: 0, or the reason why no data were written (enum hpcc_unstamped): MALFORMED; NO_OPTION if
 * the namespace is not ours or the trace type does not define the length; FULL.
 */
static inline int hpcc_ioam_write(u8 *p, u32 len, const struct hpcc_ioam_node *n)
{
	struct hpcc_ioam t;

	if (hpcc_ioam_read(p, len, &t))
		return HPCC_UNSTAMPED_MALFORMED;
	if (t.ns != HPCC_IOAM_NAMESPACE || !hpcc_ioam_words(t.type))
		return HPCC_UNSTAMPED_NO_OPTION;
	if (t.flags & HPCC_IOAM_F_OVERFLOW || t.left < t.node_words) {
		hpcc_ioam_overflow(p);
		return HPCC_UNSTAMPED_FULL;
	}
	t.left -= t.node_words;
	hpcc_ioam_set(p, &t);
	hpcc_ioam_fields(p + HPCC_IOAM_HEAD_LEN + t.left * 4, t.type, n);
	return 0;
}

/* Number of nodes in a trace. -EINVAL: namespace or trace type are not ours, or the trace
 * overflowed: a missing hop may be the loaded hop.
 */
static inline int hpcc_ioam_nodes(const struct hpcc_ioam *t)
{
	u32 used = t->words - t->left;

	if (t->ns != HPCC_IOAM_NAMESPACE || t->type != HPCC_IOAM_TRACE_TYPE ||
	    t->flags & HPCC_IOAM_F_OVERFLOW || used % HPCC_IOAM_NODE_WORDS)
		return -EINVAL;
	return used / HPCC_IOAM_NODE_WORDS;
}

/* Read the data of a node of the path from a trace. @hop: 1 .. hpcc_ioam_nodes().
 * Return: 0, or -EINVAL if a field that the window law needs is not available.
 */
static inline int hpcc_ioam_node(const u8 *p, const struct hpcc_ioam *t, u32 hop,
				 struct hpcc_ioam_node *n)
{
	p += HPCC_IOAM_HEAD_LEN + (t->words - hop * HPCC_IOAM_NODE_WORDS) * 4;
	n->hop_lim = p[0];
	n->node = get_unaligned_be32(p) & HPCC_IOAM_U24_NONE;
	n->port = get_unaligned_be16(p + 6);
	n->ts_ns = get_unaligned_be32(p + 8);
	n->qlen_bytes = get_unaligned_be32(p + 12);
	n->tx_bytes = get_unaligned_be32(p + 16);
	return n->node == HPCC_IOAM_U24_NONE || n->port == HPCC_IOAM_U16_NONE ||
	       n->ts_ns >= HPCC_IOAM_SECOND_NS || n->qlen_bytes == HPCC_IOAM_U32_NONE ||
	       n->tx_bytes == HPCC_IOAM_U32_NONE ? -EINVAL : 0;
}

/* Unwrap the counters to the values nearest to their last values: at most half a second and 2^31
 * bytes ahead or behind.
 */
static inline void hpcc_ioam_extend(struct hpcc_trace_link *link, const struct hpcc_ioam_node *n)
{
	s64 step;
	u64 last;

	div64_u64_rem(link->ts_ns, HPCC_IOAM_SECOND_NS, &last);
	step = (s64)n->ts_ns - (s64)last;
	if (step < -(s64)(HPCC_IOAM_SECOND_NS / 2))
		step += HPCC_IOAM_SECOND_NS;
	else if (step >= (s64)(HPCC_IOAM_SECOND_NS / 2))
		step -= HPCC_IOAM_SECOND_NS;
	link->ts_ns += step;
	link->tx_bytes += (s32)(n->tx_bytes - (u32)link->tx_bytes);
}

/* Restart a link if its counters may have wrapped. @age_ns: time since the last trace. */
static inline void hpcc_ioam_age(struct hpcc_trace_link *link, u64 age_ns)
{
	if (age_ns > min_t(u64, link->byte_time >> HPCC_IOAM_SPAN_SHIFT, HPCC_IOAM_SPAN_NS))
		link->bps = 0;
}

/**
 * hpcc_ioam_record() - turn a node's data into a load record
 * @link: the link of that hop; it restarts if node, port or B changed
 * @n: the node's data
 * @bps: B in bit/s, 8 or more
 * @hop: hop of the record
 * @scale: scale of the record
 *
 * The tag differs from the link's tag in the TCP option, where the counters have other offsets:
 * records of the two carriers must not be compared. The tag also changes when the link restarts,
 * because the counters then jump. This function divides only when the link restarts.
 * Return: the record.
 */
static inline struct hpcc_record hpcc_ioam_record(struct hpcc_trace_link *link,
						  const struct hpcc_ioam_node *n, u64 bps, u8 hop,
						  u8 scale)
{
	if (link->bps != bps || link->node != n->node || link->port != n->port) {
		link->node = n->node;
		link->port = n->port;
		link->turn = (link->turn + 1) % 4;
		link->bps = bps;
		link->byte_time = hpcc_byte_time(bps / 8);
		link->ts_ns = HPCC_IOAM_TS_BASE;
		link->tx_bytes = HPCC_IOAM_TX_BASE;
	}
	hpcc_ioam_extend(link, n);
	return hpcc_record_of(hop, ~(hpcc_link_tag(n->node, n->port) ^ link->turn), link->ts_ns,
			      mul_u64_u64_shr(link->tx_bytes, link->byte_time, 32),
			      hpcc_link_time(link->byte_time, n->qlen_bytes).ns, scale);
}

/* Bytes of a hop-by-hop header with room for @nodes, a multiple of 8. */
static inline u32 hpcc_ioam_header_len(u32 nodes)
{
	return (4 + HPCC_IOAM_OPTION_LEN + HPCC_IOAM_HEAD_LEN + nodes * HPCC_IOAM_NODE_LEN + 7) &
	       ~7U;
}

/* Write a hop-by-hop header with room for @nodes: 1 .. HPCC_IOAM_NODES_MAX. @next: Next Header. */
static inline void hpcc_ioam_header(u8 *p, u32 nodes, u8 next)
{
	u32 len = hpcc_ioam_header_len(nodes);
	u32 data = nodes * HPCC_IOAM_NODE_LEN;
	struct hpcc_ioam t = {
		.node_words = HPCC_IOAM_NODE_WORDS,
		.left = nodes * HPCC_IOAM_NODE_WORDS,
	};
	u8 *trace = p + 4 + HPCC_IOAM_OPTION_LEN;

	memset(p, 0, len);
	p[0] = next;
	p[1] = len / 8 - 1;
	p[2] = HPCC_IOAM_PADN;
	p[4] = HPCC_IOAM_OPTION;
	p[5] = HPCC_IOAM_OPTION_LEN - 2 + HPCC_IOAM_HEAD_LEN + data;
	p[7] = HPCC_IOAM_PREALLOCATED;
	put_unaligned_be16(HPCC_IOAM_NAMESPACE, trace);
	hpcc_ioam_set(trace, &t);
	put_unaligned_be32(HPCC_IOAM_TRACE_TYPE << 8, trace + 4);
	p = trace + HPCC_IOAM_HEAD_LEN + data;
	if (nodes % 2) {
		p[0] = HPCC_IOAM_PADN;
		p[1] = 2;
	}
}

#endif /* _HPCC_CARRIER_IOAM_H */
