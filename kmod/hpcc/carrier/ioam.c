// SPDX-License-Identifier: GPL-2.0
/*
 * IOAM as the carrier of requests (net.hpcc.carrier = 1), for IPv6. protocol.rst has the format.
 *
 *	sender		LOCAL_OUT adds a hop-by-hop header to a segment with a request. The header
 *			has a trace with room for net.hpcc.ioam_nodes nodes. The TCP header has a
 *			FORWARD as usual, which states the scale.
 *	switches	A switch that supports IOAM fills in a node; another one fills in the
 *			FORWARD.
 *	receiver	LOCAL_IN turns the nodes into load records, as if they had arrived in the
 *			FORWARD after the records of its hops. The hop-by-hop header stays.
 */
#include <linux/ipv6.h>
#include <hpcc/carrier/ioam.h>

#include "carrier/carrier.h"
#include "netns/table.h"
#include "telemetry/mailbox.h"

static const struct hpcc_carrier_ops hpcc_ioam;

static_assert(HPCC_LINK_NODE_MAX < HPCC_IOAM_U24_NONE);
static_assert(HPCC_LINK_PORT_MAX < HPCC_IOAM_U16_NONE);

/* State of the sender. Socket lock. */
struct hpcc_ioam_flow {
	u32 seq;	/* snd_una at the last RTO, or when the last pause ended */
	bool confirmed;	/* a trace brought telemetry after @seq */
};

static struct hpcc_ioam_flow *hpcc_ioam_flow(struct hpcc_flow *flow)
{
	BUILD_BUG_ON(sizeof(struct hpcc_ioam_flow) > sizeof(flow->carrier_private.own));
	return (struct hpcc_ioam_flow *)flow->carrier_private.own;
}

static u16 hpcc_ioam_reserve(const struct hpcc_flow *flow)
{
	return hpcc_ioam_header_len(flow->carrier_state.nodes);
}

static bool hpcc_ioam_fits(const struct hpcc_segment *seg, const struct sock *sk,
			   const struct hpcc_flow *flow, u32 *room)
{
	/* The trial of a muted flow uses the TCP option. */
	return !READ_ONCE(flow->carrier_state.paused) && !READ_ONCE(flow->mute.state) &&
	       seg->state->pf == NFPROTO_IPV6 &&
	       seg->thoff == sizeof(struct ipv6hdr) &&
	       hpcc_carrier_fits(seg, sk, hpcc_ioam_reserve(flow), room);
}

/* Add a trace to a segment with a request. If the segment is a GSO packet, each of its parts gets a
 * copy, as with TCP options. A qdisc that splits the packet in front of its link fills in each copy
 * separately.
 */
static bool hpcc_ioam_out(struct hpcc_segment *seg, const struct sock *sk,
			  const struct hpcc_flow *flow, const u8 *options, u32 len)
{
	u32 n = hpcc_ioam_reserve(flow);
	struct sk_buff *skb = seg->skb;

	if (skb_cow_head(skb, n + len))
		return false;
	skb_push(skb, n);
	memmove(skb->data, skb->data + n, sizeof(struct ipv6hdr));
	skb_reset_network_header(skb);
	hpcc_ioam_header(skb->data + sizeof(struct ipv6hdr), flow->carrier_state.nodes,
			 IPPROTO_TCP);
	ipv6_hdr(skb)->nexthdr = NEXTHDR_HOP;
	hpcc_set_ip_length(skb, NFPROTO_IPV6);
	seg->thoff += n;
	return hpcc_segment_put(seg, options, len, 0);
}

/* Start to test whether the path delivers traces. */
static void hpcc_ioam_begin(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	*hpcc_ioam_flow(flow) = (struct hpcc_ioam_flow){ .seq = tp->snd_una };
}

/* On an RTO, pause or end traces: the path may drop extension headers. If traces brought telemetry
 * since the last RTO, they pause until the first lost segment is acknowledged. Otherwise traces
 * end. While traces are paused, or probes carry requests, a trace cannot be the cause of the RTO.
 */
static bool hpcc_ioam_rto(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	struct hpcc_ioam_flow *own = hpcc_ioam_flow(flow);

	if (flow->carrier_state.paused || flow->probes)
		return false;
	if (!own->confirmed)
		return true;
	own->confirmed = false;
	own->seq = tp->snd_una;
	hpcc_carrier_pause(flow, true);
	return false;
}

/* On an ACK, resume paused traces, or note that they work. */
static void hpcc_ioam_acked(const struct tcp_sock *tp, struct hpcc_flow *flow, bool informed)
{
	struct hpcc_ioam_flow *own = hpcc_ioam_flow(flow);

	if (likely(own->confirmed) || !after(tp->snd_una, own->seq))
		return;
	if (!flow->carrier_state.paused) {
		own->confirmed = informed;
		return;
	}
	own->seq = tp->snd_una;
	hpcc_carrier_pause(flow, false);
}

static bool hpcc_ioam_carries(const struct hpcc_flow *flow, const struct hpcc_arrival *in,
			      const struct hpcc_opt *opt, const u8 *records)
{
	return !in->carrier && in->state->pf == NFPROTO_IPV6 && opt->type == HPCC_OPT_FORWARD &&
	       ipv6_hdr(in->skb)->nexthdr == NEXTHDR_HOP;
}

static int hpcc_ioam_hop(const struct hpcc_trace *t, int nr, struct hpcc_trace_link *link,
			 struct hpcc_record *r)
{
	const struct hpcc_known_link *known;
	struct hpcc_ioam_node node;

	if (hpcc_ioam_node(t->p, t->head, nr, &node))
		return -EINVAL;
	known = hpcc_link_find(t->net, node.node, node.port);
	if (!known)
		return -ENOENT;
	node.qlen_bytes = min_t(u64, (u64)known->unit * node.qlen_bytes, U32_MAX);
	hpcc_ioam_age(link, t->age_ns);
	*r = hpcc_ioam_record(link, &node, known->bps, t->before + nr, t->scale);
	return 0;
}

static void hpcc_ioam_take(struct hpcc_flow *flow, const struct hpcc_arrival *in, const u8 *p,
			   const struct hpcc_ioam *head, const struct hpcc_opt *opt,
			   const u8 *records)
{
	struct hpcc_trace t = {
		.ops = &hpcc_ioam, .p = p, .head = head, .hops = hpcc_ioam_nodes(head),
		.before = opt->hops,
	};
	u8 nodes[HPCC_IOAM_NODES_MAX * HPCC_RECORD_LEN];
	bool good = hpcc_trace_in(flow, in, opt, &t, nodes);

	hpcc_carrier_mix(flow, opt->hops && t.hops > 0);
	if (good)
		hpcc_forward_in(flow, opt, records, nodes, t.hops);
}

/* With a trace of another namespace or type, ports fill in the FORWARD: use its records. */
static void hpcc_ioam_pull(struct hpcc_flow *flow, const struct hpcc_arrival *in,
			   const struct hpcc_opt *opt, const u8 *records)
{
	const u8 *hop = in->skb->data + sizeof(struct ipv6hdr);
	struct hpcc_ioam t;
	bool ours;
	u32 at;
	int len;

	hpcc_prompt_in(flow, opt);
	/* The whole header is in front of the TCP header, and so in the linear part. */
	len = hpcc_ioam_find(hop, (hop[1] + 1) * 8, &at);
	ours = len > 0 && hpcc_ioam_is_ours(hop + at);
	if (ours && !hpcc_ioam_read(hop + at, len, &t)) {
		hpcc_ioam_take(flow, in, hop + at, &t, opt, records);
		return;
	}
	if (len != -ENOENT || !opt->nr)
		hpcc_count_rcu(in->state->net, HPCC_C_IOAM_IGNORED);
	/* With our trace, even a malformed one, ports do not fill in the FORWARD. */
	if (!ours)
		hpcc_forward_in(flow, opt, records, NULL, 0);
}

static const struct hpcc_carrier_ops hpcc_ioam = {
	.owner		= THIS_MODULE,
	.id		= HPCC_CARRIER_IOAM,
	.cap		= HPCC_CAP_IOAM,
	.ipv6_only	= true,
	.needs_links	= true,
	HPCC_CARRIER_COUNTERS(IOAM),
	.unknown_link	= HPCC_C_IOAM_UNKNOWN_LINK,
	.begin		= hpcc_ioam_begin,
	.acked		= hpcc_ioam_acked,
	.rto		= hpcc_ioam_rto,
	.reserve	= hpcc_ioam_reserve,
	.fits		= hpcc_ioam_fits,
	.push		= hpcc_ioam_out,
	.carries	= hpcc_ioam_carries,
	.pull		= hpcc_ioam_pull,
	.hop		= hpcc_ioam_hop,
};

module_driver(hpcc_ioam, hpcc_carrier_register, hpcc_carrier_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("IOAM as a carrier of HPCC++ telemetry");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
