// SPDX-License-Identifier: GPL-2.0
/*
 * INT-MD as the carrier of requests (net.hpcc.carrier = 2), for IPv4 and IPv6. protocol.rst has the
 * format.
 *
 *	sender		LOCAL_OUT puts shim and metadata header after the TCP header of a probe
 *			(probe.c), and sets its DSCP to net.hpcc.int_dscp. The TCP header has a
 *			FORWARD without slots, which states the scale.
 *	switches	Each switch that supports INT pushes its metadata.
 *	receiver	LOCAL_IN turns the metadata into load records, as if they had arrived in the
 *			FORWARD, and consumes the packet.
 *
 * TCP would process the metadata as data, and the socket must never get them. A mark cannot ensure
 * this: the path may change the packet, and the receiver may leave hpcc. So a probe with INT has a
 * sequence number HPCC_INT_SEQ_BACK below the number that the peer has acknowledged. All that
 * switches can push ends below that number. A TCP that gets such a segment discards the bytes and
 * sends an ACK. For the same reason LOCAL_IN consumes only bytes that TCP would discard: false INT
 * cannot change the data.
 *
 * LOCAL_IN does not hold the socket lock, so it cannot write numbers that are still right when TCP
 * processes the segment: TCP processes the backlog first, which may change the next sequence number
 * and the window. So TCP gets no part of a probe with INT, and the probe acknowledges nothing, as
 * with IFA (ifa.c).
 *
 * A lost probe is not retransmitted, so an RTO gives no information about INT: there is no rto().
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/dsfield.h>
#include <hpcc/carrier/int.h>

#include "carrier/carrier.h"
#include "netns/table.h"

static const struct hpcc_carrier_ops hpcc_int_md;

/* The largest window that TCP can advertise. Applications may set a larger clamp. */
#define HPCC_WINDOW_MAX		(65535U << TCP_MAX_WSCALE)

/* More than the length of the shim and of the longest stack that it can state. */
#define HPCC_INT_SEQ_BACK	(HPCC_INT_SHIM_LEN + HPCC_INT_WORDS_MAX * 4 + 4)

static bool hpcc_int_fits(const struct hpcc_segment *seg, const struct sock *sk,
			  const struct hpcc_flow *flow, u32 *room)
{
	return hpcc_carrier_fits(seg, sk, HPCC_INT_LEN + flow->carrier_state.nodes *
					  HPCC_INT_HOP_LEN, room);
}

/* The checksum is computed later; it includes the metadata and the sequence number. */
static bool hpcc_int_out(struct hpcc_segment *seg, const struct sock *sk,
			 const struct hpcc_flow *flow, const u8 *options, u32 len)
{
	u8 dscp = READ_ONCE(hpcc_pernet_rcu(seg->state->net)->sysctls.int_dscp);
	struct sk_buff *skb = seg->skb;
	u8 old;

	if (!hpcc_segment_put(seg, options, len, HPCC_INT_LEN))
		return false;
	hpcc_segment_checksum(seg, HPCC_INT_LEN);
	if (seg->state->pf == NFPROTO_IPV4) {
		old = ipv4_get_dsfield(ip_hdr(skb)) >> 2;
		ipv4_change_dsfield(ip_hdr(skb), INET_ECN_MASK, dscp << 2);
	} else {
		old = ipv6_get_dsfield(ipv6_hdr(skb)) >> 2;
		ipv6_change_dsfield(ipv6_hdr(skb), INET_ECN_MASK, dscp << 2);
	}
	hpcc_int_header(skb->data + seg->thoff + seg->thlen, flow->carrier_state.nodes, old);
	hpcc_segment_th(seg)->seq = htonl(hpcc_peek(tcp_sk(sk)->snd_una) - HPCC_INT_SEQ_BACK);
	return true;
}

/* Bytes after the TCP header. If GRO has merged several probes, those of the first one. */
static u32 hpcc_int_behind(const struct hpcc_arrival *in)
{
	if (skb_is_gso(in->skb))
		return skb_shinfo(in->skb)->gso_size;
	return in->skb->len - in->thoff - __tcp_hdrlen(in->th);
}

/* Whether the sequence number shows that INT follows the TCP header: TCP would discard these bytes.
 * The peer may not have our last ACKs yet. So its number may be a window below rcv_nxt, and the
 * window may have been larger before: accept up to two windows. So an attacker must guess this
 * number about as exactly as the number of data.
 */
static bool hpcc_int_comes(const struct tcp_sock *tp, const struct hpcc_arrival *in,
			   const struct hpcc_opt *opt)
{
	u32 una = ntohl(in->th->seq) + HPCC_INT_SEQ_BACK;
	u32 window = min_t(u32, max(hpcc_peek(tp->window_clamp), hpcc_peek(tp->rcv_wnd)),
			   HPCC_WINDOW_MAX);
	u32 rcv_nxt = hpcc_peek(tp->rcv_nxt);
	u32 len = hpcc_int_behind(in);

	/* A switch without INT may have answered the FORWARD. */
	return (opt->type == HPCC_OPT_FORWARD || opt->type == HPCC_OPT_ANSWERED) && !opt->nr &&
	       len && len < HPCC_INT_SEQ_BACK &&
	       !after(una, rcv_nxt) && !before(una, rcv_nxt - 2 * window) &&
	       !(in->th->syn | in->th->fin | in->th->urg);
}

/* Copy INT to @buf, HPCC_INT_MAX bytes, and set the segment's stack. Return: false if the bytes are
 * no INT, or have a wrong length: old data, which TCP must acknowledge.
 */
static bool hpcc_int_read(struct hpcc_arrival *in, u8 *buf)
{
	u32 len = hpcc_int_behind(in);
	u32 have = min_t(u32, len, HPCC_INT_MAX);
	struct hpcc_int_md t;

	if (skb_copy_bits(in->skb, in->thoff + __tcp_hdrlen(in->th), buf, have) ||
	    hpcc_int_find(buf, have, len, &t) != (int)len)
		return false;
	in->carrier = &hpcc_int_md;
	in->stack = buf;
	in->stack_len = len;
	return true;
}

static int hpcc_int_outside_in(struct sock *sk, struct hpcc_flow *flow, struct hpcc_arrival *in,
			       const struct hpcc_opt *opt, int at, u32 pos)
{
	u8 stack[HPCC_INT_MAX];

	if (!hpcc_int_comes(tcp_sk(sk), in, opt))
		return -ENOENT;
	if (!hpcc_int_read(in, stack)) {
		hpcc_count_rcu(in->state->net, HPCC_C_INT_IGNORED);
		return 0;
	}
	hpcc_stack_in(sk, flow, in, at, pos);
	return 1;
}

static int hpcc_int_take(const struct hpcc_trace *t, int nr, struct hpcc_trace_link *link,
			 struct hpcc_record *r)
{
	const struct hpcc_known_link *known;
	struct hpcc_int_hop hop;

	if (hpcc_int_hop(t->p, t->hops, nr, t->now_ns, &hop))
		return -EINVAL;
	known = hpcc_link_find(t->net, hop.node, hop.port);
	if (!known)
		return -ENOENT;
	hop.qlen_bytes = min_t(u64, (u64)known->unit * hop.qlen_bytes, U32_MAX);
	*r = hpcc_int_record(link, &hop, known->bps, nr, t->scale);
	return 0;
}

static void hpcc_int_pull(struct hpcc_flow *flow, const struct hpcc_arrival *in,
			  const struct hpcc_opt *opt, const u8 *records)
{
	struct hpcc_trace t = { .ops = &hpcc_int_md, .p = in->stack, .hops = -EINVAL };
	struct hpcc_int_md md;

	if (hpcc_int_find(in->stack, HPCC_INT_LEN, in->stack_len, &md) > 0)
		t.hops = hpcc_int_hops(&md);
	hpcc_stack_pull(flow, in, opt, &t);
}

static const struct hpcc_carrier_ops hpcc_int_md = {
	.owner		= THIS_MODULE,
	.id		= HPCC_CARRIER_INT,
	.cap		= HPCC_CAP_INT,
	.probes_only	= true,
	.apart		= true,
	.needs_links	= true,
	HPCC_CARRIER_COUNTERS(INT),
	.unknown_link	= HPCC_C_INT_UNKNOWN_LINK,
	.fits		= hpcc_int_fits,
	.push		= hpcc_int_out,
	.outside_in	= hpcc_int_outside_in,
	.pull		= hpcc_int_pull,
	.hop		= hpcc_int_take,
};

module_driver(hpcc_int_md, hpcc_carrier_register, hpcc_carrier_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("INT-MD as a carrier of HPCC++ telemetry");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
