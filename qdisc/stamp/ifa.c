// SPDX-License-Identifier: GPL-2.0
/*
 * IFA 2.0 (hpcc/carrier/ifa.h): a port pushes its metadata onto the stack after the TCP header of a
 * departing packet of IP protocol HPCC_IFA_PROTOCOL. The packet becomes longer, as with INT
 * (int.c). No checksum except that of the whole packet covers the metadata.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/ip.h>
#include <hpcc/carrier/ifa.h>
#include <hpcc/wire/stamp.h>

#include "stamp/stamp_ops.h"

/* Offset of IFA after an IP header without extension headers; 0: the packet has no IFA. */
static u32 hpcc_ifa_at(const struct sk_buff *skb, struct hpcc_headers headers)
{
	const struct iphdr *iph = (const struct iphdr *)(skb->data + headers.ip);
	const struct ipv6hdr *ip6h = (const struct ipv6hdr *)iph;

	if (headers.version == 4)
		return iph->protocol == HPCC_IFA_PROTOCOL && !ip_is_fragment(iph) ?
		       headers.ip + iph->ihl * 4 : 0;
	return headers.version == 6 && ip6h->nexthdr == HPCC_IFA_PROTOCOL ?
	       headers.ip + sizeof(*ip6h) : 0;
}

static u32 hpcc_ifa_hint(struct sk_buff *skb, const struct hpcc_config *cfg,
			 struct hpcc_headers *headers)
{
	u32 at = hpcc_ifa_at(skb, *headers);
	u32 end, md, why;

	if (!at)
		return 0;
	end = headers->ip + hpcc_ip_len(skb, headers->ip);
	if (at > FIELD_MAX(HPCC_HINT_AT))
		return HPCC_UNSTAMPED_MALFORMED;
	why = hpcc_hint_need(skb, at + HPCC_IFA_HEAD_LEN, end);
	if (why)
		return why;
	if (!hpcc_ifa_is_ours(skb->data + at))
		return HPCC_UNSTAMPED_NO_OPTION;
	why = hpcc_hint_need(skb, at + HPCC_IFA_HEAD_LEN + HPCC_IFA_TCP_MIN, end);
	if (why)
		return why;
	md = hpcc_ifa_md(skb->data + at);
	if (!md)
		return HPCC_UNSTAMPED_MALFORMED;
	return hpcc_hint_need(skb, at + md + HPCC_IFA_MD_LEN, end) ?:
	       hpcc_hint_found(at, (at - headers->ip) / 4, md - HPCC_IFA_HEAD_LEN);
}

static struct hpcc_ifa_hop hpcc_ifa_of(const struct hpcc_sched *q, const struct sk_buff *skb,
				       u64 ts_ns)
{
	struct hpcc_load load = hpcc_load(q, skb, ts_ns);
	u64 residence_ns, sec, ns;

	/* If the time is unknown, use 0, as for a packet that just arrived. */
	if (!hpcc_sojourn_ns(q, skb, ts_ns, &residence_ns))
		residence_ns = 0;
	residence_ns = min_t(u64, residence_ns, U32_MAX);
	sec = div64_u64_rem(ts_ns - residence_ns + q->offset.ts_ns, NSEC_PER_SEC, &ns);
	return (struct hpcc_ifa_hop){
		.lns = HPCC_IFA_LNS,
		.node = q->cfg.node,
		.speed = hpcc_ifa_speed(q->b * 8),
		.port = q->cfg.port,
		.sec = sec & 0xfffff,
		.ns = ns,
		.residence_ns = residence_ns,
		.tx_bytes = hpcc_tx_bytes(q->b, load.busy_ns + q->offset.tx_ns),
		.qlen = min_t(u32, (u64)load.backlog_bytes + HPCC_IFA_UNIT - 1,
			      U16_MAX * HPCC_IFA_UNIT) / HPCC_IFA_UNIT,
	};
}

static int hpcc_ifa_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	u32 hint = hpcc_skb_cb(skb)->hint;
	u32 at = FIELD_GET(HPCC_HINT_AT, hint);
	u32 ip = at - FIELD_GET(HPCC_HINT_BACK, hint) * 4;
	u32 have = HPCC_IFA_LEN + FIELD_GET(HPCC_HINT_SIZE, hint);
	struct hpcc_ifa_hop hop;
	struct hpcc_ifa t;
	u32 len;
	int ret;

	if (skb_ensure_writable(skb, at + have))
		return HPCC_UNSTAMPED_NO_MEMORY;
	len = hpcc_ip_len(skb, ip);
	if (ip + len < at + have)
		return HPCC_UNSTAMPED_MALFORMED;
	ret = hpcc_ifa_find(skb->data + at, have, ip + len - at, &t);
	if (ret < 0)
		return ret == -ENOENT ? HPCC_UNSTAMPED_NO_OPTION : HPCC_UNSTAMPED_MALFORMED;
	if (!hpcc_ifa_room(&t, hpcc_ip_room(skb, len)))
		return HPCC_UNSTAMPED_FULL;
	ret = hpcc_open(skb, at + have, HPCC_IFA_HOP_LEN);
	if (ret)
		return ret;
	hop = hpcc_ifa_of(q, skb, ts_ns);
	hpcc_ifa_push(skb->data + at + t.md, &t, &hop);
	hpcc_ip_grow(skb, ip, HPCC_IFA_HOP_LEN);
	hpcc_skb_cb(skb)->bytes += HPCC_IFA_HOP_LEN;
	return HPCC_STAMP_WRITTEN;
}

/* The metadata are removed first, then the header; TCP follows IP again. */
static int hpcc_ifa_strip(struct sk_buff *skb, u32 hint)
{
	u32 at = FIELD_GET(HPCC_HINT_AT, hint);
	u32 ip = at - FIELD_GET(HPCC_HINT_BACK, hint) * 4;
	u32 end = ip + hpcc_ip_len(skb, ip);
	struct iphdr *iph;
	struct hpcc_ifa t;
	int len;

	len = hpcc_ifa_find(skb->data + at, HPCC_IFA_LEN + FIELD_GET(HPCC_HINT_SIZE, hint),
			    end - at, &t);
	if (len < 0 || skb_is_gso(skb) || skb_ensure_writable(skb, at + len))
		return -EINVAL;
	hpcc_close(skb, at + t.md, len - t.md);
	hpcc_close(skb, at, HPCC_IFA_HEAD_LEN);
	hpcc_ip_grow(skb, ip, t.md - len - HPCC_IFA_HEAD_LEN);
	iph = (struct iphdr *)(skb->data + ip);
	if (iph->version == 4) {
		csum_replace2(&iph->check, htons(HPCC_IFA_PROTOCOL), htons(IPPROTO_TCP));
		iph->protocol = IPPROTO_TCP;
	} else {
		((struct ipv6hdr *)iph)->nexthdr = IPPROTO_TCP;
	}
	return 0;
}

/* IFA has no flag for a missing hop, so a port with identify off cannot push metadata. */
static int hpcc_ifa_validate(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			     struct netlink_ext_ack *extack)
{
	return cfg->identify ? 0 :
	       hpcc_reject(extack, tb[TCA_HPCC_IDENTIFY] ?: tb[TCA_HPCC_STAMP], -EINVAL,
			   "stamp ifa: needs identify on");
}

static const struct hpcc_stamp_ops hpcc_ifa_ops = {
	.row		= HPCC_ROW_IFA,
	.owner		= THIS_MODULE,
	.hint		= hpcc_ifa_hint,
	.write		= hpcc_ifa_stamp,
	.strip		= hpcc_ifa_strip,
	.validate	= hpcc_ifa_validate,
};

module_driver(hpcc_ifa_ops, hpcc_stamp_register, hpcc_stamp_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("IFA 2.0 for the qdisc hpcc");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
