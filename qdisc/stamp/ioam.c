// SPDX-License-Identifier: GPL-2.0
/*
 * IOAM (hpcc/carrier/ioam.h): a port writes the data of its node into the trace of a departing
 * packet, in the IPv6 hop-by-hop header. A trace of our type has priority over a TCP option, except
 * on an anonymous port: it has no node_id for a trace, and the TCP option needs none.
 */
#include <linux/ipv6.h>
#include <hpcc/carrier/ioam.h>

#include "stamp/stamp_ops.h"

/* Ignores a trace at too large an offset, and a foreign trace if the packet has another carrier. */
static u32 hpcc_ioam_hint(struct sk_buff *skb, const struct hpcc_config *cfg,
			  struct hpcc_headers *headers)
{
	u32 at = headers->ip + sizeof(struct ipv6hdr);
	u32 trace, hlen;
	int len;

	if (headers->version != 6 || (!cfg->identify && headers->hint & HPCC_HINT_FOUND) ||
	    skb->data[headers->ip + offsetof(struct ipv6hdr, nexthdr)] != NEXTHDR_HOP ||
	    !pskb_may_pull(skb, at + sizeof(struct ipv6_opt_hdr)))
		return 0;
	hlen = (skb->data[at + 1] + 1) * 8;
	if (at + hlen > HPCC_WALK_MAX_BYTES || !pskb_may_pull(skb, at + hlen))
		return 0;
	len = hpcc_ioam_find(skb->data + at, hlen, &trace);
	if (len < 0 || trace % 4 || trace / 4 > FIELD_MAX(HPCC_HINT_BACK))
		return 0;
	if (headers->hint & HPCC_HINT_FOUND && !hpcc_ioam_is_ours(skb->data + at + trace))
		return 0;
	return hpcc_hint_found(at + trace, trace / 4, len / 4);
}

/* An anonymous port writes no node, so it sets the overflow flag. */
static int hpcc_lack_node(struct sk_buff *skb, u32 at)
{
	if (!hpcc_ioam_is_ours(skb->data + at))
		return HPCC_UNSTAMPED_OFF;
	skb_forward_csum(skb);
	hpcc_ioam_overflow(skb->data + at);
	return HPCC_UNSTAMPED_OFF;
}

static int hpcc_ioam_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	u32 hint = hpcc_skb_cb(skb)->hint;
	u32 at = FIELD_GET(HPCC_HINT_AT, hint);
	u32 len = FIELD_GET(HPCC_HINT_SIZE, hint) * 4;
	u32 hop = at - FIELD_GET(HPCC_HINT_BACK, hint) * 4;
	u32 ip = hop - sizeof(struct ipv6hdr);
	struct hpcc_load load = hpcc_load(q, skb, ts_ns);
	struct hpcc_ioam_node node;
	u64 fraction;

	if (skb_ensure_writable(skb, at + len))
		return HPCC_UNSTAMPED_NO_MEMORY;
	if (!q->cfg.identify)
		return hpcc_lack_node(skb, at);
	/* Only CHECKSUM_COMPLETE covers a trace; a packet from ifb may have it. */
	skb_forward_csum(skb);
	div64_u64_rem(ts_ns + q->offset.ts_ns, NSEC_PER_SEC, &fraction);
	node = (struct hpcc_ioam_node){
		.hop_lim = skb->data[ip + offsetof(struct ipv6hdr, hop_limit)],
		.node = q->cfg.node,
		.port = q->cfg.port,
		.ts_ns = fraction,
		.qlen_bytes = min(load.backlog_bytes, HPCC_IOAM_U32_NONE - 1),
		.tx_bytes = hpcc_tx_bytes(q->b, load.busy_ns + q->offset.tx_ns),
	};
	return hpcc_ioam_write(skb->data + at, len, &node) ?: HPCC_STAMP_WRITTEN;
}

/* Overwrite the trace with zeros, which is a trace without fields. To remove it would need padding,
 * and hosts drop packets with so much padding.
 */
static int hpcc_ioam_strip(struct sk_buff *skb, u32 hint)
{
	u32 at = FIELD_GET(HPCC_HINT_AT, hint);
	u32 len = FIELD_GET(HPCC_HINT_SIZE, hint) * 4;
	int err = skb_ensure_writable(skb, at + len);

	if (err)
		return err;
	skb_forward_csum(skb);
	memset(skb->data + at, 0, len);
	return 0;
}

static const struct hpcc_stamp_ops hpcc_ioam_ops = {
	.row		= HPCC_ROW_IOAM,
	.owner		= THIS_MODULE,
	.hint		= hpcc_ioam_hint,
	.write		= hpcc_ioam_stamp,
	.strip		= hpcc_ioam_strip,
	.validate	= hpcc_validate_port,
};

module_driver(hpcc_ioam_ops, hpcc_stamp_register, hpcc_stamp_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("IOAM (RFC 9197) for the qdisc hpcc");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
