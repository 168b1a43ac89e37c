// SPDX-License-Identifier: GPL-2.0
/*
 * INT-MD (hpcc/carrier/int.h): a port pushes its metadata onto the stack after the TCP header of a
 * departing packet with DSCP int_dscp. The packet becomes longer: the link is charged for the
 * metadata, but the backlog does not include them. Parent qdiscs and qdisc_pkt_len() use the length
 * at arrival.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <hpcc/carrier/int.h>
#include <hpcc/wire/stamp.h>

#include "stamp/stamp_ops.h"

/* Offset of the TCP header of a packet with the DSCP and without extension headers; otherwise 0. */
static u32 hpcc_int_tcp(const struct sk_buff *skb, struct hpcc_headers headers, u8 dscp)
{
	const struct iphdr *iph = (const struct iphdr *)(skb->data + headers.ip);
	const struct ipv6hdr *ip6h = (const struct ipv6hdr *)iph;

	if (headers.version == 4)
		return ipv4_get_dsfield(iph) >> 2 == dscp && iph->protocol == IPPROTO_TCP &&
		       !ip_is_fragment(iph) ? headers.ip + iph->ihl * 4 : 0;
	return headers.version == 6 && ipv6_get_dsfield(ip6h) >> 2 == dscp &&
	       ip6h->nexthdr == IPPROTO_TCP ? headers.ip + sizeof(*ip6h) : 0;
}

/* GSO packets are ignored: each segment would need its own INT header. */
static u32 hpcc_int_hint(struct sk_buff *skb, const struct hpcc_config *cfg,
			 struct hpcc_headers *headers)
{
	u32 tcp = skb_is_gso(skb) ? 0 :
		  hpcc_int_tcp(skb, *headers, cfg->dscp);
	u32 hlen, end, why;

	if (!tcp)
		return 0;
	end = headers->ip + hpcc_ip_len(skb, headers->ip);
	why = hpcc_hint_need(skb, tcp + sizeof(struct tcphdr), end);
	if (why)
		return why;
	hlen = (skb->data[tcp + HPCC_TCP_DOFF] >> 4) * 4;
	if (hlen < sizeof(struct tcphdr) || tcp > FIELD_MAX(HPCC_HINT_AT))
		return HPCC_UNSTAMPED_MALFORMED;
	return hpcc_hint_need(skb, tcp + hlen + HPCC_INT_LEN, end) ?:
	       hpcc_hint_found(tcp, (tcp - headers->ip) / 4, hlen);
}

/* Update the TCP checksum by @diff and @n more bytes; with CHECKSUM_PARTIAL only by the length. */
static void hpcc_int_check(struct sk_buff *skb, u32 tcp, __wsum diff, u32 n)
{
	struct tcphdr *th = (struct tcphdr *)(skb->data + tcp);
	__wsum len = (__force __wsum)htonl(n);

	if (hpcc_check_is_partial(skb, tcp))
		th->check = ~csum_fold(csum_add(csum_unfold(th->check), len));
	else
		csum_replace_by_diff(&th->check, csum_add(diff, len));
}

static struct hpcc_int_hop hpcc_int_of(struct hpcc_sched *q, const struct sk_buff *skb, u64 ts_ns)
{
	struct hpcc_load load = hpcc_load(q, skb, ts_ns);

	return (struct hpcc_int_hop){
		.node = q->cfg.node,
		.port = q->cfg.port,
		.qlen_bytes = min(load.backlog_bytes, HPCC_INT_QLEN_MAX),
		.ts_ns = ts_ns + q->offset.ts_ns,
		.util = hpcc_util_now(q, load, ts_ns),
		.queue = q->cfg.number,
	};
}

/* An anonymous port has nothing to push: it sets the M or E flag for the missing metadata. */
static int hpcc_int_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	u32 hint = hpcc_skb_cb(skb)->hint;
	u32 tcp = FIELD_GET(HPCC_HINT_AT, hint);
	u32 ip = tcp - FIELD_GET(HPCC_HINT_BACK, hint) * 4;
	u32 at = tcp + FIELD_GET(HPCC_HINT_SIZE, hint);
	struct hpcc_int_hop hop;
	struct hpcc_int_md t;
	__wsum before;
	u32 len, n;
	int ret;
	u8 *p;

	if (skb_ensure_writable(skb, at + HPCC_INT_LEN))
		return HPCC_UNSTAMPED_NO_MEMORY;
	len = hpcc_ip_len(skb, ip);
	if (ip + len < at + HPCC_INT_LEN)
		return HPCC_UNSTAMPED_MALFORMED;
	p = skb->data + at;
	ret = hpcc_int_find(p, HPCC_INT_LEN, ip + len - at, &t);
	if (ret < 0)
		return ret == -ENOENT ? HPCC_UNSTAMPED_NO_OPTION : HPCC_UNSTAMPED_MALFORMED;
	before = csum_partial(p, HPCC_INT_LEN, 0);
	n = hpcc_int_room(p, &t, q->cfg.identify ? hpcc_ip_room(skb, len) : 0);
	ret = q->cfg.identify ? HPCC_UNSTAMPED_FULL : HPCC_UNSTAMPED_OFF;
	if (n && hpcc_open(skb, at + HPCC_INT_LEN, n)) {
		ret = HPCC_UNSTAMPED_NO_MEMORY;
		n = 0;
	}
	p = skb->data + at;
	if (n) {
		ret = HPCC_STAMP_WRITTEN;
		hop = hpcc_int_of(q, skb, ts_ns);
		hpcc_int_push(p, &t, &hop);
		hpcc_ip_grow(skb, ip, n);
		hpcc_skb_cb(skb)->bytes += n;
	}
	skb_forward_csum(skb);
	hpcc_int_check(skb, tcp, csum_sub(csum_partial(p, HPCC_INT_LEN + n, 0), before), n);
	return ret;
}

/* Remove shim, header and stack, and restore the DSCP. */
static int hpcc_int_strip(struct sk_buff *skb, u32 hint)
{
	u32 tcp = FIELD_GET(HPCC_HINT_AT, hint);
	u32 ip = tcp - FIELD_GET(HPCC_HINT_BACK, hint) * 4;
	u32 at = tcp + FIELD_GET(HPCC_HINT_SIZE, hint);
	struct hpcc_int_md t;
	__wsum sum;
	int err, n;
	u8 *p, dscp;

	n = hpcc_int_find(skb->data + at, HPCC_INT_LEN, ip + hpcc_ip_len(skb, ip) - at, &t);
	err = n < 0 ? n : skb_ensure_writable(skb, at + n);
	if (err)
		return err;
	p = skb->data + ip;
	/* The lower bits of the shim are reserved. */
	dscp = skb->data[at + 3] & ~INET_ECN_MASK;
	if (p[0] >> 4 == 4)
		ipv4_change_dsfield((struct iphdr *)p, INET_ECN_MASK, dscp);
	else
		ipv6_change_dsfield((struct ipv6hdr *)p, INET_ECN_MASK, dscp);
	sum = csum_partial(skb->data + at, n, 0);
	hpcc_close(skb, at, n);
	hpcc_ip_grow(skb, ip, -n);
	hpcc_int_check(skb, tcp, ~sum, ~n);
	return 0;
}

static const struct hpcc_stamp_ops hpcc_int_ops = {
	.row		= HPCC_ROW_INT,
	.owner		= THIS_MODULE,
	.hint		= hpcc_int_hint,
	.write		= hpcc_int_stamp,
	.strip		= hpcc_int_strip,
	.validate	= hpcc_validate_port,
};

module_driver(hpcc_int_ops, hpcc_stamp_register, hpcc_stamp_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("INT-MD for the qdisc hpcc");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
