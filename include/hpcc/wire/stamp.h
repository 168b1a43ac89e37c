/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stamping of a packet by a switch: find the telemetry option, count the hop, write a record, and
 * update the TCP checksum.
 *
 * The functions use no skb. If only the first bytes of a packet are readable, hpcc_walk() returns
 * the number of bytes that it needs, and the caller calls it again. A length field is used only
 * after a comparison with the enclosing length.
 */
#ifndef _HPCC_WIRE_STAMP_H
#define _HPCC_WIRE_STAMP_H

#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#include <net/checksum.h>
#include <net/ipv6.h>
#include <hpcc/wire/record.h>

/* Packets with longer headers get no record. */
#define HPCC_WALK_MAX_BYTES	512

/* Results of hpcc_walk() besides enum hpcc_unstamped. */
#define HPCC_WALK_FOUND		(-1)	/* an option was found, and place is set */
#define HPCC_WALK_MORE		(-2)	/* the walk needs place->need readable bytes */
#define HPCC_WALK_L4		(-3)	/* internal: place->l4, proto and end are set */

/* Instead of an option kind: stop after the IP header. No option has the kind EOL. */
#define HPCC_WALK_IP_ONLY	HPCC_TCPOPT_EOL

/* Offsets of a packet's headers and its telemetry option. */
struct hpcc_opt_location {
	u32	need;		/* after HPCC_WALK_MORE: number of bytes that must be readable */
	u32	version;	/* 4 or 6 if the IP header is valid, for any result; or 0 */
	u32	ip;		/* offset of the IP header, if version is not 0; or 0 */
	u32	l4;		/* offset of the bytes after the IP header and its extensions */
	u32	proto;		/* their protocol number */
	u32	tcp;		/* offset of the TCP header */
	u32	opt;		/* offset of the option */
	u32	len;		/* length of the option */
	u32	end;		/* offset of the first byte after the TCP header */
};

/* A packet for hpcc_walk(). */
struct hpcc_frame {
	const u8	*p;
	u32		have;		/* number of readable bytes, at most len */
	u32		len;		/* length of the packet */
	u32		proto;		/* EtherType at network, or HPCC_PROTO_ETHERNET */
	u32		network;	/* offset, at most len; 0 with HPCC_PROTO_ETHERNET */
};

#define HPCC_PROTO_ETHERNET	0x10000	/* not an EtherType */

/* Maximum number of VLAN tags before the IP header. */
#define HPCC_VLAN_TAGS_MAX	4

/* IP_MF | IP_OFFSET of <net/ip.h>. */
#define HPCC_IP_FRAGMENT	0x3fff

/* Offsets of the bytes of struct tcphdr that are bit fields. */
#define HPCC_TCP_DOFF		12
#define HPCC_TCP_FLAGS		13
#define HPCC_TCP_SYN		0x02

/* Check that bytes [off, off + n) are readable. Returns 0 if so; HPCC_WALK_MORE if the caller must
 * make them readable; HPCC_UNSTAMPED_MALFORMED if they exceed @end; HPCC_UNSTAMPED_NOT_TCP if they
 * exceed HPCC_WALK_MAX_BYTES. @off is at most the length of a packet plus the length of an IPv6
 * extension header.
 */
static inline int hpcc_walk_need(const struct hpcc_frame *f, u32 end, u32 off, u32 n,
				 struct hpcc_opt_location *place)
{
	u32 need = off + n;

	/* All readable bytes belong to the packet. */
	if (need <= f->have && (end == f->len || need <= end))
		return 0;
	if (need > end)
		return HPCC_UNSTAMPED_MALFORMED;
	if (need > HPCC_WALK_MAX_BYTES)
		return HPCC_UNSTAMPED_NOT_TCP;
	place->need = need;
	return HPCC_WALK_MORE;
}

/* Whether switches write records into this option (not into an echo). Most are FORWARDs. */
static inline bool hpcc_is_request(const struct hpcc_opt *opt)
{
	return opt->type == HPCC_OPT_FORWARD ||
	       1U << opt->type & (1U << HPCC_OPT_ANSWERED | 1U << HPCC_OPT_IDENTIFY);
}

/* Walk the TCP header at place->tcp of a packet that ends at place->end. */
static inline int hpcc_walk_tcp(const struct hpcc_frame *f, u8 kind,
				struct hpcc_opt_location *place)
{
	const u8 *tcp = f->p + place->tcp;
	const u8 *opts = tcp + sizeof(struct tcphdr);
	struct hpcc_opt opt;
	bool odd = false;
	u32 pos = 0;
	u32 hlen;
	int ret;

	ret = hpcc_walk_need(f, place->end, place->tcp, sizeof(struct tcphdr), place);
	if (ret)
		return ret;
	hlen = (tcp[HPCC_TCP_DOFF] >> 4) * 4;
	if (hlen < sizeof(struct tcphdr))
		return HPCC_UNSTAMPED_MALFORMED;
	ret = hpcc_walk_need(f, place->end, place->tcp, hlen, place);
	if (ret)
		return ret;
	if (tcp[HPCC_TCP_FLAGS] & HPCC_TCP_SYN)
		return HPCC_UNSTAMPED_NO_OPTION;
	place->end = place->tcp + hlen;
	hlen -= sizeof(struct tcphdr);
	while ((ret = hpcc_opt_next(opts, hlen, &pos, kind)) >= 0) {
		place->opt = opts - f->p + ret;
		place->len = pos - ret;
		if (hpcc_opt_decode(opts + ret, place->len, &opt))
			odd |= !hpcc_opt_is_feedback(opts + ret, place->len) ||
			       !hpcc_opt_has_tag(place->len);
		else if (hpcc_is_request(&opt))
			return HPCC_WALK_FOUND;
	}
	return odd || ret != -ENOENT ? HPCC_UNSTAMPED_MALFORMED : HPCC_UNSTAMPED_NO_OPTION;
}

/* Maximum length in an IP header, bytes. */
#define HPCC_LENGTH_MAX	0xffff

/* Packets above 64 KB (BIG TCP) have a length field of 0, and no padding follows them. */
static inline bool hpcc_is_super(u32 stated, u32 there)
{
	return !stated && there > HPCC_LENGTH_MAX;
}

static inline int hpcc_walk_ipv4(const struct hpcc_frame *f, u32 off, u8 kind,
				 struct hpcc_opt_location *place)
{
	const u8 *ip = f->p + off;
	u32 hlen, total, frag;
	int ret;

	ret = hpcc_walk_need(f, f->len, off, sizeof(struct iphdr), place);
	if (ret)
		return ret;
	hlen = (ip[0] & 0xf) * 4;
	if (ip[0] >> 4 != 4 || hlen < sizeof(struct iphdr))
		return HPCC_UNSTAMPED_MALFORMED;
	place->version = 4;
	place->ip = off;
	if (kind == HPCC_WALK_IP_ONLY)
		return HPCC_UNSTAMPED_OFF;
	total = get_unaligned_be16(ip + offsetof(struct iphdr, tot_len));
	if (total < hlen) {
		if (!hpcc_is_super(total, f->len - off))
			return HPCC_UNSTAMPED_MALFORMED;
		total = f->len - off;
	}
	if (total > f->len - off)
		return HPCC_UNSTAMPED_MALFORMED;
	frag = get_unaligned_be16(ip + offsetof(struct iphdr, frag_off));
	if (frag & HPCC_IP_FRAGMENT)
		return HPCC_UNSTAMPED_FRAGMENT;
	place->proto = ip[offsetof(struct iphdr, protocol)];
	place->l4 = off + hlen;
	place->end = off + total;
	return HPCC_WALK_L4;
}

static inline int hpcc_walk_ipv6(const struct hpcc_frame *f, u32 off, u8 kind,
				 struct hpcc_opt_location *place)
{
	const u8 *ip = f->p + off;
	u32 at = off + sizeof(struct ipv6hdr);
	u32 payload, end;
	u8 next;
	int ret;

	ret = hpcc_walk_need(f, f->len, off, sizeof(struct ipv6hdr), place);
	if (ret)
		return ret;
	if (ip[0] >> 4 != 6)
		return HPCC_UNSTAMPED_MALFORMED;
	place->version = 6;
	place->ip = off;
	if (kind == HPCC_WALK_IP_ONLY)
		return HPCC_UNSTAMPED_OFF;
	payload = get_unaligned_be16(ip + offsetof(struct ipv6hdr, payload_len));
	if (hpcc_is_super(payload, f->len - at))
		payload = f->len - at;
	if (payload > f->len - at)
		return HPCC_UNSTAMPED_MALFORMED;
	end = at + payload;
	next = ip[offsetof(struct ipv6hdr, nexthdr)];
	while (next == NEXTHDR_HOP || next == NEXTHDR_ROUTING || next == NEXTHDR_DEST) {
		ret = hpcc_walk_need(f, end, at, sizeof(struct ipv6_opt_hdr), place);
		if (ret)
			return ret;
		next = f->p[at];
		at += (f->p[at + 1] + 1) * 8;
	}
	if (next == NEXTHDR_FRAGMENT)
		return HPCC_UNSTAMPED_FRAGMENT;
	place->proto = next;
	place->l4 = at;
	place->end = end;
	return HPCC_WALK_L4;
}

/* Find the network header after the Ethernet header at @start, and VLAN tags. Returns as
 * hpcc_walk_need().
 */
static inline int hpcc_walk_eth(const struct hpcc_frame *f, u32 start, u32 *off, u32 *proto,
				struct hpcc_opt_location *place)
{
	u32 tags;
	int ret;

	ret = hpcc_walk_need(f, f->len, start, ETH_HLEN, place);
	if (ret)
		return ret;
	*off = start + ETH_HLEN;
	*proto = get_unaligned_be16(f->p + start + offsetof(struct ethhdr, h_proto));
	for (tags = 0; *proto == ETH_P_8021Q || *proto == ETH_P_8021AD; tags++) {
		const u8 *tag = f->p + *off;

		if (tags == HPCC_VLAN_TAGS_MAX)
			return HPCC_UNSTAMPED_NOT_TCP;
		ret = hpcc_walk_need(f, f->len, *off, VLAN_HLEN, place);
		if (ret)
			return ret;
		*proto = get_unaligned_be16(tag + offsetof(struct vlan_hdr,
							   h_vlan_encapsulated_proto));
		*off += VLAN_HLEN;
	}
	return 0;
}

/* Find a packet's headers and its first option that requests records from switches. @kind: TCP
 * option kind, or HPCC_WALK_IP_ONLY.
 * Return: HPCC_WALK_FOUND; HPCC_WALK_MORE; or the reason why no option was found (enum
 * hpcc_unstamped), which is HPCC_UNSTAMPED_OFF for HPCC_WALK_IP_ONLY.
 */
static inline int hpcc_walk(const struct hpcc_frame *f, u8 kind, struct hpcc_opt_location *place)
{
	struct hpcc_frame within = *f;
	u32 off = f->network, proto = f->proto;
	int ret;

	within.have = min_t(u32, f->have, HPCC_WALK_MAX_BYTES);
	place->version = 0;
	place->ip = 0;
	if (proto == HPCC_PROTO_ETHERNET) {
		ret = hpcc_walk_eth(&within, 0, &off, &proto, place);
		if (ret)
			return ret;
	}
	switch (proto) {
	case ETH_P_IP:
		ret = hpcc_walk_ipv4(&within, off, kind, place);
		break;
	case ETH_P_IPV6:
		ret = hpcc_walk_ipv6(&within, off, kind, place);
		break;
	default:
		return HPCC_UNSTAMPED_NOT_TCP;
	}
	if (ret != HPCC_WALK_L4)
		return ret;
	if (place->proto != IPPROTO_TCP)
		return HPCC_UNSTAMPED_NOT_TCP;
	place->tcp = place->l4;
	return hpcc_walk_tcp(&within, kind, place);
}

/* Snapshot of a port at the departure of a packet. */
struct hpcc_stamp {
	u32	node;		/* switch_ID */
	u32	port;		/* port_ID */
	u64	bps;		/* B in bit/s */
	u64	ts_ns;		/* time at which the packet's first bit leaves */
	u64	tx_ns;		/* total time that the link has spent on earlier packets */
	u64	qlen_ns;	/* time that the link needs for the queue after the packet */
	bool	quiet;		/* the queue after the packet is too short for a load record */
	bool	anonymous;	/* do not write a record into IDENTIFY */
};

/* Results of stamping, besides enum hpcc_unstamped. */
#define HPCC_STAMP_WRITTEN	(-1)
#define HPCC_STAMP_QUIET	(-2)	/* hop counted; no record, as the port is quiet */

/* Index of the first free slot; @nr if no slot is free. */
static inline u32 hpcc_slot_free(const u8 *slots, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++)
		if (!hpcc_slot_hop(slots + i * HPCC_RECORD_LEN))
			break;
	return i;
}

/* Count the hop and, if a slot is free, write a record. The option @p is changed only if it is a
 * well-formed FORWARD, ANSWERED or IDENTIFY; its length never changes. A port never replaces the
 * record of another port: a sender reads a path with more hops than slots in phases, and would keep
 * an old record of the replaced hop.
 * Return: HPCC_STAMP_WRITTEN, HPCC_STAMP_QUIET, or the reason why no record was written (enum
 * hpcc_unstamped).
 */
static inline int hpcc_stamp_option(u8 *p, u32 len, const struct hpcc_stamp *s)
{
	struct hpcc_opt opt;
	u32 hop, slot;

	if (hpcc_opt_decode(p, len, &opt))
		return HPCC_UNSTAMPED_MALFORMED;
	if (!hpcc_is_request(&opt))
		return HPCC_UNSTAMPED_NO_OPTION;
	if (opt.hops >= HPCC_HOPS_MAX)
		return HPCC_UNSTAMPED_FULL;

	hop = ++opt.hops;
	p[3] = opt.hops << 4 | opt.flags;
	if (hop <= (opt.flags & HPCC_OPT_F_PHASE) * opt.nr)
		return HPCC_UNSTAMPED_PHASE;
	if (s->quiet && opt.type != HPCC_OPT_IDENTIFY)
		return HPCC_STAMP_QUIET;
	if (s->anonymous && opt.type == HPCC_OPT_IDENTIFY)
		return HPCC_UNSTAMPED_OFF;
	slot = hpcc_slot_free(p + HPCC_OPT_HEAD_LEN, opt.nr);
	if (slot == opt.nr)
		return HPCC_UNSTAMPED_FULL;
	p += HPCC_OPT_HEAD_LEN + slot * HPCC_RECORD_LEN;
	if (opt.type != HPCC_OPT_IDENTIFY) {
		struct hpcc_record r = hpcc_record_of(hop, hpcc_link_tag(s->node, s->port),
						      s->ts_ns, s->tx_ns, s->qlen_ns, opt.scale);

		hpcc_record_encode(p, &r);
	} else {
		struct hpcc_identity id = {
			.hop = hop,
			.node = s->node,
			.port = s->port,
			.bps = s->bps,
		};

		hpcc_identity_encode(p, &id);
	}
	return HPCC_STAMP_WRITTEN;
}

/* Checksum of all options: the telemetry option alone may not be aligned to 16-bit words. */
static inline __wsum hpcc_opts_sum(const u8 *p, const struct hpcc_opt_location *place)
{
	u32 opts = place->tcp + sizeof(struct tcphdr);

	return csum_partial(p + opts, place->end - opts, 0);
}

/* Update the TCP checksum after a change of the options. @before: hpcc_opts_sum() before it. */
static inline void hpcc_opts_fix_check(u8 *p, const struct hpcc_opt_location *place, __wsum before)
{
	u8 *at = p + place->tcp + offsetof(struct tcphdr, check);
	__sum16 check = get_unaligned((__sum16 *)at);

	csum_replace_by_diff(&check, csum_sub(hpcc_opts_sum(p, place), before));
	put_unaligned(check, (__sum16 *)at);
}

/* Stamp a packet whose option was found; @p is writable up to @place->end. @fix_check: true: update
 * the TCP checksum; false: it is not computed yet. The update adds the difference to the checksum,
 * so a wrong checksum stays wrong.
 * Return: as hpcc_stamp_option().
 */
static inline int hpcc_stamp_packet(u8 *p, const struct hpcc_opt_location *place,
				    const struct hpcc_stamp *s, bool fix_check)
{
	__wsum before;
	int ret;

	if (!fix_check)
		return hpcc_stamp_option(p + place->opt, place->len, s);
	before = hpcc_opts_sum(p, place);
	ret = hpcc_stamp_option(p + place->opt, place->len, s);
	hpcc_opts_fix_check(p, place, before);
	return ret;
}

#endif /* _HPCC_WIRE_STAMP_H */
