/* SPDX-License-Identifier: GPL-2.0 */
/*
 * IFA 2.0 (Inband Flow Analyzer, draft-kumar-ippm-ifa) as draft-miao-tsv-hpcc-info-02 uses it. The
 * functions use no skb, and read no byte beyond the caller's length.
 *
 * Bytes after an IP header of protocol HPCC_IFA_PROTOCOL, 4 octets in each line:
 *	Ver:4  GNS:4  Next Header:8  reserved:3  MF:1  TS:1  I:1  TA:1  C:1  Max Length:8
 *	the TCP header
 *	Request Vector:8  Action Vector:8  Hop Limit:8  Current Length:8
 *	a stack of metadata; the metadata of the last hop come first
 * Max Length and Current Length count words of the stack. The TCP checksum and the TCP header's
 * length do not include the bytes of IFA.
 *
 * GNS is 15: the local name space (LNS) of each hop defines the format of the hop's metadata. Our
 * format is that of figure 1 in the draft:
 *	LNS:4  deviceID:20  reserved:8
 *	Speed:4  reserved:8  rxTimestampSec:20
 *	egressPort:16  ingressPort:16
 *	rxTimestampNs:32
 *	residenceTime:32, ns from the receipt of the packet to its departure
 *	txBytes:32, modulo 2^32
 *	reserved:16  Queue Length:16, in a unit that the name space defines
 *	reserved:32
 */
#ifndef _HPCC_CARRIER_IFA_H
#define _HPCC_CARRIER_IFA_H

#include <linux/errno.h>
#include <linux/hpcc.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#include <hpcc/carrier/ioam.h>

#define HPCC_IFA_PROTOCOL	131	/* in the IP header */
#define HPCC_IFA_VERSION	2
#define HPCC_IFA_GNS		0xf	/* each hop has a local name space */
#define HPCC_IFA_LNS		1	/* our local name space */
#define HPCC_IFA_UNIT		64	/* unit of Queue Length in our name space, bytes */

#define HPCC_IFA_HEAD_LEN	4	/* before the TCP header */
#define HPCC_IFA_MD_LEN		4	/* metadata header, after the TCP header */
#define HPCC_IFA_LEN		(HPCC_IFA_HEAD_LEN + HPCC_IFA_MD_LEN)
#define HPCC_IFA_HOP_LEN	32
#define HPCC_IFA_HOP_WORDS	8
#define HPCC_IFA_NODES_MAX	12	/* the same as for an IOAM trace */
#define HPCC_IFA_UNLIMITED	0xff	/* a Hop Limit that hops do not decrement */

/* Flags of the IFA header's third octet. */
#define HPCC_IFA_F_FRAGMENT	0x10
#define HPCC_IFA_F_TAIL		0x08	/* metadata are at the end of the packet */
#define HPCC_IFA_F_INBAND	0x04	/* not a clone: the zone's last node forwards it */
#define HPCC_IFA_F_CHECKSUM	0x01
#define HPCC_IFA_F_OTHER	(HPCC_IFA_F_FRAGMENT | HPCC_IFA_F_TAIL | HPCC_IFA_F_CHECKSUM)

#define HPCC_IFA_TCP		6
#define HPCC_IFA_TCP_MIN	20
#define HPCC_IFA_TCP_DOFF	12	/* offset of the octet with the data offset */

/* Number of codes with a defined speed, and the code for any other speed. */
#define HPCC_IFA_SPEEDS		7
#define HPCC_IFA_SPEED_OTHER	15

/* Bit in a record's tag that distinguishes a link of IFA from a link of IOAM or INT. */
#define HPCC_IFA_TAG		0x20

/* Fields of the IFA header and the metadata header. */
struct hpcc_ifa {
	u32	md;	/* offset of the metadata header from the IFA header */
	u8	max;	/* Max Length */
	u8	limit;	/* Hop Limit */
	u8	words;	/* Current Length */
};

/* Metadata of a hop. */
struct hpcc_ifa_hop {
	u8	lns;
	u32	node;		/* deviceID, 20 bits */
	u8	speed;		/* code of B */
	u16	port;		/* egressPort */
	u32	sec;		/* rxTimestampSec, modulo 2^20 */
	u32	ns;		/* rxTimestampNs, below 1e9 */
	u32	residence_ns;
	u32	tx_bytes;	/* modulo 2^32 */
	u16	qlen;		/* in units of the name space */
};

static const u16 hpcc_ifa_gbps[HPCC_IFA_SPEEDS] = { 10, 25, 40, 50, 100, 200, 400 };

/* B in bit/s; 0: the code has no defined speed. */
static inline u64 hpcc_ifa_bps(u8 speed)
{
	return speed < HPCC_IFA_SPEEDS ? hpcc_ifa_gbps[speed] * 1000000000ULL : 0;
}

static inline u8 hpcc_ifa_speed(u64 bps)
{
	u8 code;

	for (code = 0; code < HPCC_IFA_SPEEDS; code++)
		if (hpcc_ifa_bps(code) == bps)
			return code;
	return HPCC_IFA_SPEED_OTHER;
}

/* Whether version, GNS, next header and flags are supported. */
static inline bool hpcc_ifa_is_ours(const u8 *p)
{
	return p[0] == (HPCC_IFA_VERSION << 4 | HPCC_IFA_GNS) && p[1] == HPCC_IFA_TCP &&
	       !(p[2] & HPCC_IFA_F_OTHER);
}

/* Offset of the metadata header from the IFA header @p; 0: the TCP header's length is invalid. */
static inline u32 hpcc_ifa_md(const u8 *p)
{
	u32 hlen = (p[HPCC_IFA_HEAD_LEN + HPCC_IFA_TCP_DOFF] >> 4) * 4;

	return hlen < HPCC_IFA_TCP_MIN ? 0 : HPCC_IFA_HEAD_LEN + hlen;
}

/* Read both headers of IFA after an IP header. @have: readable bytes at @p, up to the end of the
 * metadata header, or @len if that is less. @len: bytes from @p to the end of the packet,
 * at least @have.
 * Return: length from @p to the end of the stack; -ENOENT: the header is not supported; -EINVAL:
 * the lengths are inconsistent.
 */
static inline int hpcc_ifa_find(const u8 *p, u32 have, u32 len, struct hpcc_ifa *t)
{
	u32 total;

	if (have < HPCC_IFA_HEAD_LEN || len < have)
		return -EINVAL;
	if (!hpcc_ifa_is_ours(p))
		return -ENOENT;
	if (have < HPCC_IFA_HEAD_LEN + HPCC_IFA_TCP_MIN)
		return -EINVAL;
	t->md = hpcc_ifa_md(p);
	if (!t->md || have < t->md + HPCC_IFA_MD_LEN)
		return -EINVAL;
	t->max = p[3];
	t->limit = p[t->md + 2];
	t->words = p[t->md + 3];
	total = t->md + HPCC_IFA_MD_LEN + t->words * 4;
	return total > len || t->words > t->max ? -EINVAL : (int)total;
}

/* Whether a hop may push its metadata. @room: number of bytes by which the packet may grow. */
static inline bool hpcc_ifa_room(const struct hpcc_ifa *t, u32 room)
{
	return t->limit && t->words + HPCC_IFA_HOP_WORDS <= t->max && room >= HPCC_IFA_HOP_LEN;
}

/* Write a hop's metadata into the gap of HPCC_IFA_HOP_LEN bytes after the metadata header @md. */
static inline void hpcc_ifa_push(u8 *md, const struct hpcc_ifa *t, const struct hpcc_ifa_hop *hop)
{
	if (t->limit != HPCC_IFA_UNLIMITED)
		md[2] = t->limit - 1;
	md[3] = t->words + HPCC_IFA_HOP_WORDS;
	md += HPCC_IFA_MD_LEN;
	put_unaligned_be32((u32)hop->lns << 28 | (hop->node & 0xfffff) << 8, md);
	put_unaligned_be32((u32)hop->speed << 28 | (hop->sec & 0xfffff), md + 4);
	put_unaligned_be16(hop->port, md + 8);
	put_unaligned_be16(0, md + 10);
	put_unaligned_be32(hop->ns, md + 12);
	put_unaligned_be32(hop->residence_ns, md + 16);
	put_unaligned_be32(hop->tx_bytes, md + 20);
	put_unaligned_be32(hop->qlen, md + 24);
	put_unaligned_be32(0, md + 28);
}

/* Number of hops in the metadata stack; -EINVAL: their metadata have another length, there are too
 * many hops, or no room is left for another hop: the metadata of the loaded hop may then be
 * missing.
 */
static inline int hpcc_ifa_hops(const struct hpcc_ifa *t)
{
	if (t->words % HPCC_IFA_HOP_WORDS || t->words > HPCC_IFA_NODES_MAX * HPCC_IFA_HOP_WORDS ||
	    !hpcc_ifa_room(t, HPCC_IFA_HOP_LEN))
		return -EINVAL;
	return t->words / HPCC_IFA_HOP_WORDS;
}

/* Read the metadata of hop @nr of the path, 1 .. @hops, from the metadata header @md and its stack.
 * @hops: hpcc_ifa_hops().
 * Return: 0, or -EINVAL if the metadata are inconsistent.
 */
static inline int hpcc_ifa_hop(const u8 *md, u32 hops, u32 nr, struct hpcc_ifa_hop *hop)
{
	md += HPCC_IFA_MD_LEN + (hops - nr) * HPCC_IFA_HOP_LEN;
	hop->lns = md[0] >> 4;
	hop->node = get_unaligned_be32(md) >> 8 & 0xfffff;
	hop->speed = md[4] >> 4;
	hop->sec = get_unaligned_be32(md + 4) & 0xfffff;
	hop->port = get_unaligned_be16(md + 8);
	hop->ns = get_unaligned_be32(md + 12);
	hop->residence_ns = get_unaligned_be32(md + 16);
	hop->tx_bytes = get_unaligned_be32(md + 20);
	hop->qlen = get_unaligned_be16(md + 26);
	return hop->ns >= HPCC_IOAM_SECOND_NS ? -EINVAL : 0;
}

/* Departure time of the packet, ns within a second. */
static inline u32 hpcc_ifa_egress_ns(const struct hpcc_ifa_hop *hop)
{
	u64 ns = (u64)hop->ns + hop->residence_ns;

	/* At most five iterations: a residence time is below 2^32 ns. */
	while (ns >= HPCC_IOAM_SECOND_NS)
		ns -= HPCC_IOAM_SECOND_NS;
	return ns;
}

/**
 * hpcc_ifa_record() - turn a hop's metadata into a load record
 * @link: the link of that hop; it restarts if node, port or B changed
 * @hop: the metadata; hpcc_ifa_hop() returned 0 for them
 * @bps: B in bit/s, 8 or more
 * @unit: unit of Queue Length in bytes, below 2^16
 * @nr: hop of the record
 * @scale: scale of the record
 *
 * The counters wrap as in IOAM: call hpcc_ioam_age() first. The tag differs from the link's tag in
 * other carriers, so that their records are not compared.
 * Return: the record.
 */
static inline struct hpcc_record hpcc_ifa_record(struct hpcc_trace_link *link,
						 const struct hpcc_ifa_hop *hop, u64 bps, u32 unit,
						 u8 nr, u8 scale)
{
	struct hpcc_ioam_node node = {
		.node = hop->node,
		.port = hop->port,
		.ts_ns = hpcc_ifa_egress_ns(hop),
		.qlen_bytes = hop->qlen * unit,
		.tx_bytes = hop->tx_bytes,
	};
	struct hpcc_record r = hpcc_ioam_record(link, &node, bps, nr, scale);

	r.tag ^= HPCC_IFA_TAG;
	return r;
}

/* Write both headers without metadata: @p precedes the TCP header, and @md follows it. @nodes: 1 ..
 * HPCC_IFA_NODES_MAX. Max Length and Hop Limit allow one more hop: if this hop has pushed metadata,
 * hops may be missing.
 */
static inline void hpcc_ifa_header(u8 *p, u8 *md, u8 nodes)
{
	p[0] = HPCC_IFA_VERSION << 4 | HPCC_IFA_GNS;
	p[1] = HPCC_IFA_TCP;
	p[2] = HPCC_IFA_F_INBAND;
	p[3] = (nodes + 1) * HPCC_IFA_HOP_WORDS;
	md[0] = 0;
	md[1] = 0;
	md[2] = nodes + 1;
	md[3] = 0;
}

#endif /* _HPCC_CARRIER_IFA_H */
