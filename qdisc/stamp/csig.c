// SPDX-License-Identifier: GPL-2.0
/*
 * CSIG (hpcc/carrier/csig.h): a port compares the tag of a departing packet with its own state, and
 * replaces the value if its own is worse. A host's port pushes the tag before the IP header of a
 * segment that requests a signal; the receiver pops it.
 *
 * A pushed tag makes the packet longer on departure. The link is charged for the tag; the backlog
 * does not include it. GSO packets get no tag: each segment needs its own tag, and the kernel
 * cannot split packets of an unknown EtherType.
 *
 * The device type can change after configuration (TUNSETLINK, a bond's first slave), so the
 * Ethernet header is checked for each packet.
 *
 * ABW/C is measured over int.c's window. Tags are searched for only on ports that stamp CSIG.
 */
#include <hpcc/carrier/csig.h>
#include <hpcc/wire/stamp.h>

#include "core/sched.h"

/* Find the IP header after a tag; the EtherType at @network is readable. This is not in headers.c:
 * with only one caller there, the compiler inlines hpcc_walk(), which saves 44 instructions for
 * other packets.
 */
static struct hpcc_headers hpcc_behind(struct sk_buff *skb, u32 network)
{
	struct hpcc_frame frame = {
		.len = skb->len,
		.network = network + sizeof(u16),
		.proto = get_unaligned_be16(skb->data + network),
	};
	struct hpcc_headers headers = {};
	struct hpcc_opt_location place;

	do {
		frame.p = skb->data;
		frame.have = skb_headlen(skb);
	} while (hpcc_walk(&frame, HPCC_WALK_IP_ONLY, &place) == HPCC_WALK_MORE &&
		 pskb_may_pull(skb, place.need));
	headers.version = place.version;
	headers.ip = place.ip;
	return headers;
}

/**
 * hpcc_csig_parse() - find the tag of an arriving packet, and the headers after it
 * @skb: the packet
 * @cfg: the port's configuration
 * @headers: result, if there is a tag
 *
 * Return: whether there is a tag.
 */
bool hpcc_csig_parse(struct sk_buff *skb, const struct hpcc_config *cfg,
		     struct hpcc_headers *headers)
{
	u32 have = min_t(u32, skb->len, HPCC_CSIG_WALK + sizeof(u16));
	int at;

	BUILD_BUG_ON(FIELD_MAX(HPCC_HINT_TCP) < HPCC_CSIG_WALK);
	if (skb_is_gso(skb) || !hpcc_is_ethernet(skb->dev) || !pskb_may_pull(skb, have))
		return false;
	at = hpcc_csig_find(skb->data, have, cfg->csig_tpid);
	if (at < 0)
		return false;
	*headers = hpcc_behind(skb, at + HPCC_CSIG_LEN);
	headers->hint = FIELD_PREP(HPCC_HINT_TCP, at) | FIELD_PREP(HPCC_HINT_LEN, HPCC_HINT_CSIG);
	return true;
}

/**
 * hpcc_csig_push_hint() - whether an arriving packet requests a tag
 * @skb: the packet
 * @headers: its headers
 *
 * Return: HPCC_HINT_*; 0: no request.
 */
u32 hpcc_csig_push_hint(const struct sk_buff *skb, struct hpcc_headers headers)
{
	u32 len = FIELD_GET(HPCC_HINT_LEN, headers.hint);
	const u8 *p = skb->data + FIELD_GET(HPCC_HINT_TCP, headers.hint) +
		      FIELD_GET(HPCC_HINT_OPT, headers.hint);
	struct hpcc_opt opt;

	if (!len || skb_is_gso(skb) || !hpcc_is_ethernet(skb->dev) ||
	    hpcc_opt_decode(p, len, &opt) || !hpcc_csig_is(&opt, p + HPCC_OPT_HEAD_LEN))
		return 0;
	return FIELD_PREP(HPCC_HINT_TCP, headers.ip - sizeof(u16)) |
	       FIELD_PREP(HPCC_HINT_OPT,
			  HPCC_CSIG_T(get_unaligned_be16(p + hpcc_opt_len(1) - sizeof(u16)))) |
	       FIELD_PREP(HPCC_HINT_LEN, HPCC_HINT_CSIG_PUSH);
}

/**
 * hpcc_try_csig() - compare a packet's tag with the port
 * @q: the port
 * @skb: the packet
 * @at: offset of the tag
 * @ts_ns: departure time of its first bit
 *
 * Only a shaping port without a child knows the waiting time of a packet.
 *
 * Return: as hpcc_csig_write(), or the reason why no tag was written (enum hpcc_unstamped).
 */
int hpcc_try_csig(struct hpcc_sched *q, struct sk_buff *skb, u32 at, u64 ts_ns)
{
	struct hpcc_load load = hpcc_load(q);
	struct hpcc_csig_hop hop = {
		.abw_q30 = HPCC_INT_UTIL_ONE - hpcc_util_now(q, load, ts_ns),
		.qlen_ns = hpcc_link_time(q->byte_time, load.backlog_bytes).ns,
		.locator = hpcc_csig_locator(q->cfg.identify ? q->cfg.node : q->offset.alias,
					     q->cfg.port),
	};

	hop.has_pd = hpcc_sojourn_ns(q, skb, ts_ns, &hop.pd_ns);
	if (skb_ensure_writable(skb, at + HPCC_CSIG_LEN))
		return HPCC_UNSTAMPED_NO_MEMORY;
	if (get_unaligned_be16(skb->data + at) != q->cfg.csig_tpid)
		return HPCC_UNSTAMPED_NO_OPTION;
	/* Only the checksum of the whole packet covers a tag. */
	skb_forward_csum(skb);
	return hpcc_csig_write(skb->data + at, &hop, &q->csig);
}

/**
 * hpcc_try_push() - push a tag, and write to it if the port stamps CSIG
 * @q: the port
 * @skb: the packet, whose hint is from hpcc_csig_push_hint()
 * @ts_ns: departure time of its first bit
 *
 * From here on the packet has the tag's EtherType for the kernel, so a device that computes
 * checksums only for IP does not get this task.
 *
 * Return: HPCC_STAMP_WRITTEN, or the reason why there is no tag (enum hpcc_unstamped).
 */
int hpcc_try_push(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	u32 hint = hpcc_skb_cb(skb)->hint;
	u32 at = FIELD_GET(HPCC_HINT_TCP, hint);
	u8 *p;

	if (hpcc_ip_room(skb, skb->len - at - sizeof(u16)) < HPCC_CSIG_LEN)
		return HPCC_UNSTAMPED_FULL;
	if (skb_ensure_writable(skb, at) || hpcc_open(skb, at, HPCC_CSIG_LEN))
		return HPCC_UNSTAMPED_NO_MEMORY;
	p = skb->data + at;
	put_unaligned_be16(q->cfg.csig_tpid, p);
	put_unaligned_be16(hpcc_csig_ask(FIELD_GET(HPCC_HINT_OPT, hint)), p + sizeof(u16));
	skb->protocol = htons(q->cfg.csig_tpid);
	hpcc_skb_cb(skb)->bytes += HPCC_CSIG_LEN;
	if (q->cfg.stamp & HPCC_STAMP_CSIG)
		hpcc_try_csig(q, skb, at, ts_ns);
	return HPCC_STAMP_WRITTEN;
}
