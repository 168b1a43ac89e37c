// SPDX-License-Identifier: GPL-2.0
/*
 * INT-MD (hpcc/carrier/int.h): a port pushes its metadata onto the stack after the TCP header of a
 * departing packet with DSCP int_dscp.
 *
 * The packet becomes longer on departure. The link is charged for the metadata; the backlog does
 * not include them. Parent qdiscs and qdisc_pkt_len() use the length at arrival.
 *
 * The utilization is that of the last complete window of int_window, or of a longer time since INT
 * was last written. This costs one division per window, and nothing for packets without INT.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <net/dsfield.h>
#include <net/ip.h>
#include <hpcc/carrier/int.h>
#include <hpcc/wire/stamp.h>

#include "core/sched.h"

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

/**
 * hpcc_int_hint() - find INT-MD in an arriving packet
 * @skb: the packet
 * @headers: its headers
 * @dscp: DSCP of packets with INT
 *
 * GSO packets are ignored: each segment would need its own INT header.
 *
 * Return: HPCC_HINT_*; 0 without the DSCP.
 */
u32 hpcc_int_hint(struct sk_buff *skb, struct hpcc_headers headers, u8 dscp)
{
	u32 tcp = headers.version && !skb_is_gso(skb) ? hpcc_int_tcp(skb, headers, dscp) : 0;
	u32 hlen, end;

	BUILD_BUG_ON(HPCC_HINT_INT >= HPCC_OPT_HEAD_LEN);
	if (!tcp)
		return 0;
	end = headers.ip + hpcc_ip_len(skb, headers.ip);
	if (tcp + sizeof(struct tcphdr) > end)
		goto malformed;
	if (!pskb_may_pull(skb, tcp + sizeof(struct tcphdr)))
		goto no_memory;
	hlen = (skb->data[tcp + HPCC_TCP_DOFF] >> 4) * 4;
	if (hlen < sizeof(struct tcphdr) || tcp + hlen + HPCC_INT_LEN > end ||
	    tcp > FIELD_MAX(HPCC_HINT_TCP))
		goto malformed;
	if (!pskb_may_pull(skb, tcp + hlen + HPCC_INT_LEN))
		goto no_memory;
	return FIELD_PREP(HPCC_HINT_TCP, tcp) | FIELD_PREP(HPCC_HINT_OPT, (tcp - headers.ip) / 4) |
	       FIELD_PREP(HPCC_HINT_LEN, HPCC_HINT_INT) | FIELD_PREP(HPCC_HINT_END, hlen);

malformed:
	return FIELD_PREP(HPCC_HINT_UNSTAMPED, HPCC_UNSTAMPED_MALFORMED);
no_memory:
	return FIELD_PREP(HPCC_HINT_UNSTAMPED, HPCC_UNSTAMPED_NO_MEMORY);
}

/**
 * hpcc_util_now() - utilization of a link
 * @q: the port
 * @load: its load
 * @ts_ns: now
 *
 * Return: utilization of the last complete window, in units of 1 / HPCC_INT_UTIL_ONE.
 */
u32 hpcc_util_now(struct hpcc_sched *q, struct hpcc_load load, u64 ts_ns)
{
	struct hpcc_util *util = &q->util;
	u64 ns = ts_ns - util->from_ns;

	if (ns < q->cfg.int_window_ns)
		return util->last;
	if (util->from_ns)
		util->last = hpcc_int_util(load.busy_ns - util->busy_ns, ns);
	util->from_ns = ts_ns;
	util->busy_ns = load.busy_ns;
	return util->last;
}

/* Update the TCP checksum at @tcp: @diff for changed bytes, and @n more bytes of length. If it is
 * not computed yet, only the length is added.
 */
static void hpcc_int_check(struct sk_buff *skb, u32 tcp, __wsum diff, u32 n)
{
	struct tcphdr *th = (struct tcphdr *)(skb->data + tcp);
	__wsum len = (__force __wsum)htonl(n);

	if (hpcc_check_is_partial(skb, tcp))
		th->check = ~csum_fold(csum_add(csum_unfold(th->check), len));
	else
		csum_replace_by_diff(&th->check, csum_add(diff, len));
}

static struct hpcc_int_hop hpcc_int_of(struct hpcc_sched *q, u64 ts_ns)
{
	struct hpcc_load load = hpcc_load(q);

	return (struct hpcc_int_hop){
		.node = q->cfg.node,
		.port = q->cfg.port,
		.qlen_bytes = min(load.backlog_bytes, HPCC_INT_QLEN_MAX),
		.ts_ns = ts_ns + q->offset.ts_ns,
		.util = hpcc_util_now(q, load, ts_ns),
	};
}

/**
 * hpcc_try_int() - push our metadata onto a packet's stack
 * @q: the port
 * @skb: the packet, whose hint is from hpcc_int_hint()
 * @ts_ns: departure time of its first bit
 *
 * An anonymous port has nothing to push: it sets the M or E flag for the missing metadata.
 *
 * Return: HPCC_STAMP_WRITTEN, or the reason why no metadata were written (enum hpcc_unstamped).
 */
int hpcc_try_int(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	u32 hint = hpcc_skb_cb(skb)->hint;
	u32 tcp = FIELD_GET(HPCC_HINT_TCP, hint);
	u32 ip = tcp - FIELD_GET(HPCC_HINT_OPT, hint) * 4;
	u32 at = tcp + FIELD_GET(HPCC_HINT_END, hint);
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
		hop = hpcc_int_of(q, ts_ns);
		hpcc_int_push(p, &t, &hop);
		hpcc_ip_grow(skb, ip, n);
		hpcc_skb_cb(skb)->bytes += n;
	}
	skb_forward_csum(skb);
	hpcc_int_check(skb, tcp,
		       csum_sub(csum_partial(p, HPCC_INT_LEN + n, 0), before), n);
	return ret;
}
