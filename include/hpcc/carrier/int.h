/* SPDX-License-Identifier: GPL-2.0 */
/*
 * INT-MD (In-band Network Telemetry Dataplane Specification 2.1, P4.org) as
 * draft-miao-ccwg-hpcc-info-03 uses it. The functions use no skb, and read no byte beyond the
 * caller's length.
 *
 * Bytes after the TCP header, 4 octets in each line:
 *	Type:4  NPT:2  reserved:2  Length:8  reserved:8  DSCP:6  reserved:2	the shim
 *	Ver:4  D:1  E:1  M:1  reserved:12  Hop ML:5  Remaining Hop Count:8
 *	Instruction Bitmap:16  Domain Specific ID:16
 *	DS Instruction:16  DS Flags:16
 *	a stack of metadata, Hop ML words for each hop; the metadata of the last hop come first
 * Length is the number of words after the shim. The fields of a hop have the order of their bits in
 * the bitmap; bit 0 is the most significant bit.
 *
 * Our instructions are bits 0, 1, 3, 5 and 7. The operator of a network chooses the units of the
 * last three fields; we use:
 *	node ID
 *	ingress interface:16  egress interface:16
 *	queue ID:8  queue occupancy:24, bytes
 *	egress timestamp, ns, 8 octets
 *	egress interface Tx utilization; HPCC_INT_UTIL_ONE is 100 % of B
 */
#ifndef _HPCC_CARRIER_INT_H
#define _HPCC_CARRIER_INT_H

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

#define HPCC_INT_SHIM_LEN	4
#define HPCC_INT_LEN		16	/* shim and metadata header */
#define HPCC_INT_MD		1	/* Type in the shim: INT-MD */
#define HPCC_INT_VERSION	2
#define HPCC_INT_INSTRUCTIONS	0xd500U
#define HPCC_INT_HOP_WORDS	6
#define HPCC_INT_HOP_LEN	24
#define HPCC_INT_HOP_MAX	124	/* maximum of Hop ML, bytes */
#define HPCC_INT_NODES_MAX	12	/* the same as for an IOAM trace */
#define HPCC_INT_MAX		(HPCC_INT_LEN + HPCC_INT_NODES_MAX * HPCC_INT_HOP_LEN)
#define HPCC_INT_HEADER_WORDS	3	/* metadata header, in the shim's Length */
#define HPCC_INT_WORDS_MAX	255	/* maximum of Length */

/* Flags of the metadata header's first octet. */
#define HPCC_INT_F_EXCEEDED	0x04	/* Remaining Hop Count was 0 */
#define HPCC_INT_F_MTU		0x02	/* a hop had no room */

/* Instructions with 8 octets of metadata: bits 4, 5 and 6. */
#define HPCC_INT_LONG		0x0e00U

#define HPCC_INT_NONE		0xffffffffU	/* not available */
#define HPCC_INT_TS_NONE	(~0ULL)
#define HPCC_INT_UTIL_ONE	0x40000000U
#define HPCC_INT_UTIL_SHIFT	30
#define HPCC_INT_QLEN_MAX	0xfffffeU

/* Maximum time between two packets with metadata of a link. After a longer time the number of bytes
 * sent in between is unknown.
 */
#define HPCC_INT_SPAN_NS	250000000ULL
#define HPCC_INT_TX_BASE	0x1000000000000ULL

/* Bit in a record's tag that distinguishes a link of INT from a link of IOAM. */
#define HPCC_INT_TAG		0x40

/* Fields of the shim and the metadata header. */
struct hpcc_int_md {
	u8	words;		/* Length */
	u8	flags;		/* HPCC_INT_F_* */
	u8	hop_words;	/* Hop ML */
	u8	left;		/* Remaining Hop Count */
	u16	instructions;	/* Instruction Bitmap */
	u16	domain;		/* Domain Specific ID */
};

/* Metadata of a hop. */
struct hpcc_int_hop {
	u32	node;		/* node ID */
	u16	port;		/* egress interface */
	u32	qlen_bytes;	/* queue occupancy, 24 bits */
	u64	ts_ns;		/* egress timestamp */
	u32	util;		/* egress interface Tx utilization */
	u8	queue;		/* queue ID of hpcc_int_push(): number of a class; 0: no class */
};

/* Words of metadata for the instructions. A reserved instruction takes one word. */
static inline u32 hpcc_int_words(u16 instructions)
{
	u32 words = 0;
	u32 bit;

	for (bit = 0x8000; bit; bit >>= 1)
		if (instructions & bit)
			words += bit & HPCC_INT_LONG ? 2 : 1;
	return words;
}

/* Read the INT-MD header after a TCP header. @have: readable bytes at @p, HPCC_INT_LEN or more.
 * @len: bytes from @p to the end of the packet, @have or more.
 * Return: length of shim, header and stack in bytes; -ENOENT: type, version or domain are not
 * supported; -EINVAL: the lengths are inconsistent.
 */
static inline int hpcc_int_find(const u8 *p, u32 have, u32 len, struct hpcc_int_md *t)
{
	u32 total;

	if (have < HPCC_INT_LEN || len < have)
		return -EINVAL;
	t->words = p[1];
	t->flags = p[4] & 0xe;
	t->hop_words = p[6] & 0x1f;
	t->left = p[7];
	t->instructions = get_unaligned_be16(p + 8);
	t->domain = get_unaligned_be16(p + 10);
	if (p[0] >> 4 != HPCC_INT_MD || p[0] & 0xc || p[4] >> 4 != HPCC_INT_VERSION ||
	    t->domain || get_unaligned_be16(p + 12))
		return -ENOENT;
	total = HPCC_INT_SHIM_LEN + t->words * 4;
	if (t->words < HPCC_INT_HEADER_WORDS || total > len || !t->hop_words ||
	    t->hop_words != hpcc_int_words(t->instructions) ||
	    (t->words - HPCC_INT_HEADER_WORDS) % t->hop_words)
		return -EINVAL;
	return total;
}

/* Return the number of bytes that a hop may push, at most HPCC_INT_HOP_MAX. If it may not push (0),
 * the E or M flag of the metadata header is set: @p is writable. @room: number of bytes by which
 * the packet may grow.
 */
static inline u32 hpcc_int_room(u8 *p, const struct hpcc_int_md *t, u32 room)
{
	if (!t->left || t->words + t->hop_words > HPCC_INT_WORDS_MAX)
		p[4] |= HPCC_INT_F_EXCEEDED;
	else if (room < t->hop_words * 4U)
		p[4] |= HPCC_INT_F_MTU;
	else
		return t->hop_words * 4;
	return 0;
}

/* Write a hop's metadata into the gap of hpcc_int_room() bytes after the headers at @p. Requested
 * fields that @hop lacks are set to "not available".
 */
static inline void hpcc_int_push(u8 *p, const struct hpcc_int_md *t, const struct hpcc_int_hop *hop)
{
	u32 bit;

	p[1] = t->words + t->hop_words;
	p[7] = t->left - 1;
	p += HPCC_INT_LEN;
	memset(p, 0xff, t->hop_words * 4);
	for (bit = 0; bit < 16; bit++) {
		u32 mask = 0x8000U >> bit;

		if (!(t->instructions & mask))
			continue;
		switch (bit) {
		case 0:
			put_unaligned_be32(hop->node, p);
			break;
		case 1:
			put_unaligned_be16(hop->port, p + 2);
			break;
		case 3:
			put_unaligned_be32((u32)hop->queue << 24 | hop->qlen_bytes, p);
			break;
		case 5:
			put_unaligned_be64(hop->ts_ns, p);
			break;
		case 7:
			put_unaligned_be32(hop->util, p);
			break;
		}
		p += mask & HPCC_INT_LONG ? 8 : 4;
	}
}

/* Number of hops. -EINVAL: the instructions are not ours, or a hop is missing, which may be the
 * loaded hop.
 */
static inline int hpcc_int_hops(const struct hpcc_int_md *t)
{
	u32 words = t->words - HPCC_INT_HEADER_WORDS;

	if (t->instructions != HPCC_INT_INSTRUCTIONS || t->flags ||
	    words > HPCC_INT_NODES_MAX * HPCC_INT_HOP_WORDS)
		return -EINVAL;
	return words / HPCC_INT_HOP_WORDS;
}

/* Read the metadata of hop @nr of the path, 1 .. @hops, from the shim at @p and its stack. @hops:
 * hpcc_int_hops(). @now_ns: replaces a missing egress timestamp; any clock fits, because the
 * timestamp only determines for how long the utilization applies.
 * Return: 0, or -EINVAL if a field that the window law needs is not available.
 */
static inline int hpcc_int_hop(const u8 *p, u32 hops, u32 nr, u64 now_ns, struct hpcc_int_hop *hop)
{
	u32 queue;

	p += HPCC_INT_LEN + (hops - nr) * HPCC_INT_HOP_LEN;
	hop->node = get_unaligned_be32(p);
	hop->port = get_unaligned_be16(p + 6);
	queue = get_unaligned_be32(p + 8);
	hop->qlen_bytes = queue & 0xffffff;
	hop->ts_ns = get_unaligned_be64(p + 12);
	hop->util = get_unaligned_be32(p + 20);
	if (hop->ts_ns == HPCC_INT_TS_NONE)
		hop->ts_ns = now_ns;
	return hop->node == HPCC_INT_NONE || hop->port == 0xffff || queue == HPCC_INT_NONE ||
	       hop->util > HPCC_INT_UTIL_ONE ? -EINVAL : 0;
}

/* Add the time spent on packets since the link's last metadata. Ignore older metadata. */
static inline void hpcc_int_add(struct hpcc_trace_link *link, const struct hpcc_int_hop *hop)
{
	u64 step = hop->ts_ns - link->ts_ns;

	if (step > HPCC_INT_SPAN_NS)
		return;
	link->tx_ns += step * hop->util >> HPCC_INT_UTIL_SHIFT;
	link->ts_ns = hop->ts_ns;
}

/* Whether the timestamp is too far from the link's last timestamp. */
static inline bool hpcc_int_jumps(const struct hpcc_trace_link *link, u64 ts_ns)
{
	return ts_ns - link->ts_ns + HPCC_INT_SPAN_NS > 2 * HPCC_INT_SPAN_NS;
}

/**
 * hpcc_int_record() - turn a hop's metadata into a load record
 * @link: the link of that hop; it restarts if node, port or B changed, or if its timestamp jumped
 * @hop: the metadata; hpcc_int_hop() returned 0 for them
 * @bps: B in bit/s, 8 or more
 * @nr: hop of the record
 * @scale: scale of the record
 *
 * The utilization applies to the time since the link's last metadata: txBytes is the sum of
 * utilization times time. The tag differs from the link's tag in other carriers, and changes when
 * the link restarts. This function divides only when the link restarts.
 * Return: the record.
 */
static inline struct hpcc_record hpcc_int_record(struct hpcc_trace_link *link,
						 const struct hpcc_int_hop *hop, u64 bps, u8 nr,
						 u8 scale)
{
	if (link->bps != bps || link->node != hop->node || link->port != hop->port ||
	    hpcc_int_jumps(link, hop->ts_ns)) {
		link->node = hop->node;
		link->port = hop->port;
		link->turn = (link->turn + 1) % 4;
		link->bps = bps;
		link->byte_time = hpcc_byte_time(bps / 8);
		link->ts_ns = hop->ts_ns;
		link->tx_ns = HPCC_INT_TX_BASE;
	}
	hpcc_int_add(link, hop);
	return hpcc_record_of(nr,
			      ~(hpcc_link_tag(hop->node, hop->port) ^ link->turn ^ HPCC_INT_TAG),
			      hop->ts_ns, link->tx_ns,
			      hpcc_link_time(link->byte_time, hop->qlen_bytes).ns, scale);
}

/* Utilization in an interval of @ns (not 0) in which the link spent @busy_ns on packets: 0 ..
 * HPCC_INT_UTIL_ONE. This function divides once.
 */
static inline u32 hpcc_int_util(u64 busy_ns, u64 ns)
{
	if (busy_ns >= ns)
		return HPCC_INT_UTIL_ONE;
	/* Keep the product within 64 bits. */
	while (ns >> 32) {
		busy_ns >>= 1;
		ns >>= 1;
	}
	return div64_u64(busy_ns << HPCC_INT_UTIL_SHIFT, ns);
}

/* Write shim and metadata header (HPCC_INT_LEN bytes) with an empty stack. @nodes: Remaining Hop
 * Count. @dscp: DSCP of the packet before it was set to the DSCP of INT.
 */
static inline void hpcc_int_header(u8 *p, u8 nodes, u8 dscp)
{
	memset(p, 0, HPCC_INT_LEN);
	p[0] = HPCC_INT_MD << 4;
	p[1] = HPCC_INT_HEADER_WORDS;
	p[3] = dscp << 2;
	p[4] = HPCC_INT_VERSION << 4;
	p[6] = HPCC_INT_HOP_WORDS;
	p[7] = nodes;
	put_unaligned_be16(HPCC_INT_INSTRUCTIONS, p + 8);
}

#endif /* _HPCC_CARRIER_INT_H */
