// SPDX-License-Identifier: GPL-2.0
/*
 * IFA 2.0 as the carrier of requests (net.hpcc.carrier = 3), for IPv4 and IPv6. protocol.rst has
 * the format.
 *
 *	sender		LOCAL_OUT turns a probe (probe.c) into a packet of IP protocol
 *			HPCC_IFA_PROTOCOL: IFA header, TCP header, metadata header. The TCP header
 *			has a FORWARD without slots, which states the scale.
 *	switches	Each switch that supports IFA pushes its metadata.
 *	receiver	LOCAL_IN turns the metadata into load records, as if they had arrived in the
 *			FORWARD, and consumes the packet.
 *
 * A packet filter sees no TCP header in an IFA packet. So no byte of the packet may reach TCP: an
 * attacker can pass only telemetry through a filter this way. And the hook, which runs after all
 * packet filters, accepts telemetry only for a connection that already passed the filter, with
 * numbers, timestamp and checksum that TCP would accept.
 *
 * For the same reason a probe acknowledges nothing: probe.c sends ACKs. The receiver answers in
 * LOCAL_IN. If a process owns the socket at that time, the next segment carries the answer.
 *
 * While the table of links is empty, the receiver does not announce HPCC_CAP_IFA, and ignores IFA.
 * So an administrator who permits IFA adds a link.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/ip6_checksum.h>
#include <hpcc/carrier/ifa.h>
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "netns/table.h"

static const struct hpcc_carrier_ops hpcc_ifa;

/* Both IFA headers, a TCP header, and the longest metadata stack that Current Length can state. */
#define HPCC_IFA_PACKET_MAX	(HPCC_IFA_LEN + HPCC_TCP_HEADER_MAX + 255 * 4)

/* The checksum of a TCP header without data, including the pseudo header. */
static __sum16 hpcc_ifa_sum(const struct sk_buff *skb, u8 pf, const struct tcphdr *th)
{
	u32 hlen = __tcp_hdrlen(th);
	__wsum sum = csum_partial(th, hlen, 0);

	if (pf == NFPROTO_IPV4)
		return tcp_v4_check(hlen, ip_hdr(skb)->saddr, ip_hdr(skb)->daddr, sum);
	return tcp_v6_check(hlen, &ipv6_hdr(skb)->saddr, &ipv6_hdr(skb)->daddr, sum);
}

static bool hpcc_ifa_fits(const struct hpcc_segment *seg, const struct sock *sk,
			  const struct hpcc_flow *flow, u32 *room)
{
	return (seg->state->pf == NFPROTO_IPV4 || seg->thoff == sizeof(struct ipv6hdr)) &&
	       hpcc_carrier_fits(seg, sk, HPCC_IFA_LEN + flow->carrier_state.nodes *
					  HPCC_IFA_HOP_LEN, room);
}

static bool hpcc_ifa_out(struct hpcc_segment *seg, const struct sock *sk,
			 const struct hpcc_flow *flow, const u8 *options, u32 len)
{
	struct sk_buff *skb = seg->skb;
	struct tcphdr *th;
	u8 *p;

	if (!hpcc_segment_put(seg, options, len, HPCC_IFA_LEN))
		return false;
	th = hpcc_segment_th(seg);
	p = (u8 *)th;
	th->check = 0;
	th->check = hpcc_ifa_sum(skb, seg->state->pf, th);
	skb->ip_summed = CHECKSUM_NONE;
	memmove(p + HPCC_IFA_HEAD_LEN, p, seg->thlen);
	hpcc_ifa_header(p, p + HPCC_IFA_HEAD_LEN + seg->thlen, flow->carrier_state.nodes);
	if (seg->state->pf == NFPROTO_IPV4) {
		ip_hdr(skb)->protocol = HPCC_IFA_PROTOCOL;
		ip_send_check(ip_hdr(skb));
	} else {
		ipv6_hdr(skb)->nexthdr = HPCC_IFA_PROTOCOL;
	}
	return true;
}

static int hpcc_ifa_take_hop(const struct hpcc_trace *t, int nr, struct hpcc_trace_link *link,
			     struct hpcc_record *r)
{
	const struct hpcc_known_link *known;
	struct hpcc_ifa_hop hop;
	u64 bps;
	u32 unit;

	if (hpcc_ifa_hop(t->p, t->hops, nr, &hop))
		return -EINVAL;
	known = hpcc_link_find(t->net, hop.node, hop.port);
	bps = known ? known->bps : hpcc_ifa_bps(hop.speed);
	unit = hop.lns == HPCC_IFA_LNS ? HPCC_IFA_UNIT : known ? known->unit : 0;
	if (!bps || !unit)
		return -ENOENT;
	hpcc_ioam_age(link, t->age_ns);
	*r = hpcc_ifa_record(link, &hop, bps, unit, nr, t->scale);
	return 0;
}

static void hpcc_ifa_pull(struct hpcc_flow *flow, const struct hpcc_arrival *in,
			  const struct hpcc_opt *opt, const u8 *records)
{
	struct hpcc_trace t = { .ops = &hpcc_ifa, .hops = -EINVAL };
	struct hpcc_ifa head;

	if (opt->type == HPCC_OPT_FORWARD && !opt->nr &&
	    hpcc_ifa_find(in->stack, in->stack_len, in->stack_len, &head) == (int)in->stack_len) {
		t.p = in->stack + head.md;
		t.hops = hpcc_ifa_hops(&head);
	}
	hpcc_stack_pull(flow, in, opt, &t);
}

/* Offset of our IFA header after an IP header, or 0. */
static u32 hpcc_ifa_at(struct sk_buff *skb, u8 pf)
{
	u32 at = pf == NFPROTO_IPV4 ? ip_hdrlen(skb) : sizeof(struct ipv6hdr);

	if ((pf == NFPROTO_IPV4 && ip_is_fragment(ip_hdr(skb))) || skb->sk ||
	    !pskb_may_pull(skb, at + HPCC_IFA_HEAD_LEN + sizeof(struct tcphdr)))
		return 0;
	return hpcc_ifa_is_ours(skb->data + at) ? at : 0;
}

/* Linearize a packet with our IFA header, and find its parts. Return: false if it is not ours. */
static bool hpcc_ifa_parse(struct hpcc_arrival *in)
{
	struct sk_buff *skb = in->skb;
	u32 at = hpcc_ifa_at(skb, in->state->pf);
	u32 md;

	if (!at)
		return false;
	md = hpcc_ifa_md(skb->data + at);
	if (!md || skb->len - at < md + HPCC_IFA_MD_LEN || skb->len - at > HPCC_IFA_PACKET_MAX ||
	    skb_linearize(skb))
		return false;
	in->carrier = &hpcc_ifa;
	in->stack = skb->data + at;
	in->stack_len = skb->len - at;
	in->thoff = at + HPCC_IFA_HEAD_LEN;
	in->th = (struct tcphdr *)(skb->data + in->thoff);
	in->opts = (u8 *)(in->th + 1);
	in->optlen = __tcp_hdrlen(in->th) - sizeof(*in->th);
	return true;
}

/* Whether the TCP timestamp shows that the segment is not old (RFC 7323, section 5). */
static bool hpcc_ifa_is_new(const struct tcp_sock *tp, const struct hpcc_arrival *in)
{
	u32 pos = 0;
	int at;

	/* Constant once the connection is established. */
	if (!tp->rx_opt.tstamp_ok)
		return true;
	if (hpcc_opts_usual(in->opts, in->optlen)) {
		at = TCPOLEN_TSTAMP_ALIGNED - TCPOLEN_TIMESTAMP;
		pos = TCPOLEN_TSTAMP_ALIGNED;
	} else {
		at = hpcc_opt_next(in->opts, in->optlen, &pos, TCPOPT_TIMESTAMP);
	}
	return at >= 0 && pos - at == TCPOLEN_TIMESTAMP &&
	       (s32)(hpcc_peek(tp->rx_opt.ts_recent) - get_unaligned_be32(in->opts + at + 2)) <=
	       TCP_PAWS_WINDOW;
}

/* Whether TCP would accept the segment as a current ACK. */
static bool hpcc_ifa_is_current(const struct sock *sk, const struct hpcc_flow *flow,
				const struct hpcc_arrival *in)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rcv_wup = hpcc_peek(tp->rcv_wup);
	u32 seq = ntohl(in->th->seq);

	return in->th->ack && !(in->th->syn | in->th->fin | in->th->rst | in->th->urg) &&
	       !before(seq, rcv_wup) && !after(seq, rcv_wup + hpcc_peek(tp->rcv_wnd)) &&
	       hpcc_ack_ok(flow, tp, in) && hpcc_ttl_ok(sk, in) && hpcc_ifa_is_new(tp, in);
}

static void hpcc_ifa_take(struct sock *sk, struct hpcc_flow *flow, struct hpcc_arrival *in)
{
	const struct net *net = in->state->net;
	u32 pos = 0;
	int at;

	/* An IPsec policy for TCP ports does not match this protocol. And switches cannot write
	 * into packets that IPsec protects.
	 */
	if (!hpcc_no_policy_in(net, sk)) {
		hpcc_count_rcu(net, HPCC_C_POLICY_IGNORED);
	} else if (hpcc_ifa_sum(in->skb, in->state->pf, in->th)) {
		hpcc_count_rcu(net, HPCC_C_CHECKSUM_IGNORED);
	} else if (!hpcc_ifa_is_current(sk, flow, in)) {
		hpcc_count_rcu(net, HPCC_C_WINDOW_IGNORED);
	} else {
		at = hpcc_opt_next(in->opts, in->optlen, &pos, flow->kind);
		if (at >= 0)
			hpcc_stack_in(sk, flow, in, at, pos);
		else
			hpcc_count_rcu(net, HPCC_C_IFA_IGNORED);
	}
}

static bool hpcc_ifa_arrived(struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct hpcc_arrival in = { .skb = skb, .state = state };
	struct hpcc_flow *flow;
	struct sock *sk;
	bool put;

	if (!hpcc_links_known(state->net) || !hpcc_ifa_parse(&in))
		return false;
	sk = hpcc_arrival_sock(&in, &put);
	if (!sk)
		return false;
	flow = hpcc_flow_find(sk);
	if (flow)
		hpcc_ifa_take(sk, flow, &in);
	if (put)
		sock_put(sk);
	if (flow)
		consume_skb(skb);
	return flow;
}

static const struct hpcc_carrier_ops hpcc_ifa = {
	.owner		= THIS_MODULE,
	.id		= HPCC_CARRIER_IFA,
	.cap		= HPCC_CAP_IFA,
	.probes_only	= true,
	.apart		= true,
	.protocol	= HPCC_IFA_PROTOCOL,
	.needs_links	= true,
	HPCC_CARRIER_COUNTERS(IFA),
	.unknown_link	= HPCC_C_IFA_UNKNOWN_LINK,
	.fits		= hpcc_ifa_fits,
	.push		= hpcc_ifa_out,
	.packet_in	= hpcc_ifa_arrived,
	.pull		= hpcc_ifa_pull,
	.hop		= hpcc_ifa_take_hop,
};

module_driver(hpcc_ifa, hpcc_carrier_register, hpcc_carrier_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("IFA 2.0 as a carrier of HPCC++ telemetry");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
