// SPDX-License-Identifier: GPL-2.0
/*
 * CSIG (hpcc/carrier/csig.h): a port writes its own value into the tag of a departing packet if its
 * value is worse. A host's port pushes the tag before the IP header of a segment that requests a
 * signal; the receiver pops it. Such segments get no record.
 *
 * A pushed tag makes the packet longer on departure. The link is charged for the tag; the backlog
 * does not include it. GSO packets get no tag: each segment needs its own tag, and the kernel
 * cannot split packets of an unknown EtherType.
 *
 * The device type can change after configuration (TUNSETLINK, a bond's first slave), so the port
 * checks for an Ethernet header in each packet.
 */
#include "stamp/stamp_ops.h"

/* Find the IP header after a tag; the EtherType at @network is readable. Do not call hpcc_walk() in
 * headers.c a second time: the compiler would no longer inline it, and each packet without a tag
 * would need 44 instructions more.
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

static u32 hpcc_csig_hint(struct sk_buff *skb, const struct hpcc_config *cfg,
			  struct hpcc_headers *headers)
{
	u32 have = min_t(u32, skb->len, HPCC_CSIG_WALK + sizeof(u16));
	int at;

	BUILD_BUG_ON(FIELD_MAX(HPCC_HINT_AT) < HPCC_CSIG_WALK);
	if (skb_is_gso(skb) || !hpcc_is_ethernet(skb->dev) || !pskb_may_pull(skb, have))
		return 0;
	at = hpcc_csig_find(skb->data, have, cfg->tpid);
	if (at < 0)
		return 0;
	*headers = hpcc_behind(skb, at + HPCC_CSIG_LEN);
	return hpcc_hint_found(at, 0, 0);
}

/* Find an option that requests a tag; HPCC_HINT_BACK of the hint is the type of the tag. */
static u32 hpcc_push_hint(struct sk_buff *skb, const struct hpcc_config *cfg,
			  struct hpcc_headers *headers)
{
	u32 len = FIELD_GET(HPCC_HINT_LEN, headers->hint);
	const u8 *p = skb->data + FIELD_GET(HPCC_HINT_TCP, headers->hint) +
		      FIELD_GET(HPCC_HINT_OPT, headers->hint);
	struct hpcc_opt opt;

	if (!hpcc_hint_is_option(headers->hint))
		return 0;
	if (!skb_is_gso(skb) && hpcc_is_ethernet(skb->dev) && !hpcc_opt_decode(p, len, &opt) &&
	    hpcc_csig_is(&opt, p + HPCC_OPT_HEAD_LEN))
		return hpcc_hint_found(headers->ip - sizeof(u16),
				       HPCC_CSIG_T(get_unaligned_be16(p + hpcc_opt_len(1) -
								      sizeof(u16))), 0);
	if (!(cfg->stamp & HPCC_STAMP_TCP))
		headers->hint = HPCC_UNSTAMPED_OFF;
	return 0;
}

static int hpcc_csig_compare(struct hpcc_sched *q, struct sk_buff *skb, u32 at, u64 ts_ns)
{
	struct hpcc_load load = hpcc_load(q, skb, ts_ns);
	struct hpcc_csig_hop hop = {
		.abw_q30 = HPCC_INT_UTIL_ONE - hpcc_util_now(q, load, ts_ns),
		.qlen_ns = hpcc_link_time(q->byte_time, load.backlog_bytes).ns,
		.locator = hpcc_csig_locator(q->cfg.identify ? q->cfg.node : q->offset.alias,
					     q->cfg.port),
	};

	hop.has_pd = hpcc_sojourn_ns(q, skb, ts_ns, &hop.pd_ns);
	if (skb_ensure_writable(skb, at + HPCC_CSIG_LEN))
		return HPCC_UNSTAMPED_NO_MEMORY;
	if (get_unaligned_be16(skb->data + at) != q->cfg.tpid)
		return HPCC_UNSTAMPED_NO_OPTION;
	/* Only the checksum of the whole packet covers a tag. */
	skb_forward_csum(skb);
	return hpcc_csig_write(skb->data + at, &hop, &hpcc_stamp_port(q)->csig);
}

static int hpcc_csig_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	return hpcc_csig_compare(q, skb, FIELD_GET(HPCC_HINT_AT, hpcc_skb_cb(skb)->hint), ts_ns);
}

/* Push a tag, and write to it if the port stamps CSIG. For the kernel the packet then has the tag's
 * EtherType, so a device that computes checksums only for IP does not get this task.
 */
static int hpcc_push_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	u32 hint = hpcc_skb_cb(skb)->hint;
	u32 at = FIELD_GET(HPCC_HINT_AT, hint);
	u16 tpid = q->cfg.tpid;
	u8 *p;

	if (hpcc_ip_room(skb, skb->len - at - sizeof(u16)) < HPCC_CSIG_LEN)
		return HPCC_UNSTAMPED_FULL;
	if (skb_ensure_writable(skb, at) || hpcc_open(skb, at, HPCC_CSIG_LEN))
		return HPCC_UNSTAMPED_NO_MEMORY;
	p = skb->data + at;
	put_unaligned_be16(tpid, p);
	put_unaligned_be16(hpcc_csig_ask(FIELD_GET(HPCC_HINT_BACK, hint)), p + sizeof(u16));
	skb->protocol = htons(tpid);
	hpcc_skb_cb(skb)->bytes += HPCC_CSIG_LEN;
	if (q->cfg.stamp & HPCC_STAMP_CSIG)
		hpcc_csig_compare(q, skb, at, ts_ns);
	return HPCC_STAMP_WRITTEN;
}

static int hpcc_csig_strip(struct sk_buff *skb, u32 hint)
{
	u32 at = FIELD_GET(HPCC_HINT_AT, hint);
	int err = skb_ensure_writable(skb, at + HPCC_CSIG_LEN + sizeof(u16));

	if (err)
		return err;
	if (skb->protocol == get_unaligned((__be16 *)(skb->data + at)))
		skb->protocol = get_unaligned((__be16 *)(skb->data + at + HPCC_CSIG_LEN));
	hpcc_close(skb, at, HPCC_CSIG_LEN);
	return 0;
}

static int hpcc_csig_validate(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			      struct netlink_ext_ack *extack)
{
	if (!hpcc_is_ethernet(qdisc_dev(sch)))
		return hpcc_reject(extack, tb[TCA_HPCC_STAMP], -EINVAL,
				   "stamp csig, csig_push: need a device with Ethernet headers");
	return 0;
}

static void hpcc_csig_commit(struct hpcc_sched *q)
{
	hpcc_stamp_port(q)->csig = hpcc_csig_units(q->cfg.abw_unit, q->cfg.time_unit_ns);
}

static const struct hpcc_stamp_ops hpcc_csig_push_ops = {
	.row		= HPCC_ROW_CSIG_PUSH,
	.owner		= THIS_MODULE,
	.hint		= hpcc_push_hint,
	.write		= hpcc_push_stamp,
	.validate	= hpcc_csig_validate,
};

static const struct hpcc_stamp_ops hpcc_csig_ops = {
	.row		= HPCC_ROW_CSIG,
	.owner		= THIS_MODULE,
	.next		= &hpcc_csig_push_ops,
	.hint		= hpcc_csig_hint,
	.write		= hpcc_csig_stamp,
	.strip		= hpcc_csig_strip,
	.validate	= hpcc_csig_validate,
	.commit		= hpcc_csig_commit,
};

module_driver(hpcc_csig_ops, hpcc_stamp_register, hpcc_stamp_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("CSIG for the qdisc hpcc");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
