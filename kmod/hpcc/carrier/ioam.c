// SPDX-License-Identifier: GPL-2.0
/*
 * IOAM as the carrier of requests (net.hpcc.carrier = 1), for IPv6.
 *
 *	sender		LOCAL_OUT adds a hop-by-hop header to a segment with a request. It has a
 *			trace with room for net.hpcc.ioam_nodes nodes. The TCP header has a FORWARD
 *			as usual, which states the scale.
 *	switches	A switch that supports IOAM fills in a node; another one fills in the
 *			FORWARD.
 *	receiver	LOCAL_IN turns the nodes into load records, as if they had arrived in the
 *			FORWARD after the records of its hops. Echo, mailbox and window law are the
 *			same as for the TCP option. The hop-by-hop header stays.
 *
 * A trace reports bytes, and the window law needs times. links.c has B of each (node_id,
 * egress_if_id), and the unit of its queue depth. A receiver announces HPCC_CAP_IOAM only if that
 * table has entries; without HPCC_CAP_IOAM it gets no trace.
 *
 * A path may drop packets with extension headers, or fill in unusable values. The TCP option
 * carries requests for the rest of the connection after an RTO before the first telemetry from
 * traces, after a second RTO before new telemetry from traces, or if telemetry stops.
 */
#include <linux/ipv6.h>
#include <linux/slab.h>
#include <hpcc/carrier/ioam.h>

#include "carrier/carrier.h"
#include "netns/links.h"
#include "telemetry/mailbox.h"

/* ---- Sender ---------------------------------------------------------------- */

/**
 * hpcc_ioam_out() - add a trace to a segment with a request
 * @seg: the segment: IPv6 header, then TCP header; it has room for the trace
 * @nodes: number of nodes for which the trace has room
 *
 * A GSO packet gets one trace. When the packet is split, each segment gets a copy, as with TCP
 * options. A qdisc that splits the packet in front of its link fills in each copy separately.
 *
 * Return: false if there is no memory.
 */
bool hpcc_ioam_out(struct hpcc_segment *seg, u32 nodes)
{
	u32 n = hpcc_ioam_header_len(nodes);
	struct sk_buff *skb = seg->skb;

	if (skb_cow_head(skb, n))
		return false;
	skb_push(skb, n);
	memmove(skb->data, skb->data + n, sizeof(struct ipv6hdr));
	skb_reset_network_header(skb);
	hpcc_ioam_header(skb->data + sizeof(struct ipv6hdr), nodes, IPPROTO_TCP);
	ipv6_hdr(skb)->nexthdr = NEXTHDR_HOP;
	hpcc_set_ip_length(skb, NFPROTO_IPV6);
	seg->thoff += n;
	hpcc_count_rcu(seg->state->net, HPCC_C_IOAM_SENT);
	return true;
}

/**
 * hpcc_ioam_begin() - start to test whether the path delivers traces
 * @tp: socket, under its lock
 * @flow: its new flow
 */
void hpcc_ioam_begin(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	flow->ioam_seq = tp->snd_una;
}

/**
 * hpcc_ioam_rto() - on an RTO, pause or end traces: the path may drop extension headers
 * @tp: socket, under its lock
 * @flow: its flow, with IOAM as its carrier
 *
 * If traces brought telemetry since the last RTO, they pause: the TCP option carries requests until
 * the first lost segment is acknowledged, and then traces get another try. Otherwise traces end.
 * While traces are paused, or probes carry requests, a trace cannot be the cause of the RTO.
 *
 * Return: whether traces end: the caller then ends the carrier.
 */
bool hpcc_ioam_rto(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	if (flow->ioam_paused || flow->probes)
		return false;
	if (!flow->ioam_confirmed)
		return true;
	flow->ioam_confirmed = false;
	flow->ioam_seq = tp->snd_una;
	WRITE_ONCE(flow->ioam_paused, true);
	return false;
}

/**
 * hpcc_ioam_ack() - on an ACK, resume paused traces, or note that they work
 * @tp: socket, under its lock
 * @flow: its flow, with IOAM as its carrier
 * @informed: the ACK brought telemetry
 */
void hpcc_ioam_ack(const struct tcp_sock *tp, struct hpcc_flow *flow, bool informed)
{
	if (likely(flow->ioam_confirmed) || !after(tp->snd_una, flow->ioam_seq))
		return;
	if (!flow->ioam_paused) {
		flow->ioam_confirmed = informed;
		return;
	}
	flow->ioam_seq = tp->snd_una;
	WRITE_ONCE(flow->ioam_paused, false);
}

/* ---- Receiver -------------------------------------------------------------- */

/* Make load records of a trace's nodes, after the hops of @opt. Return: whether all are valid;
 * @why: the counter.
 */
static bool hpcc_ioam_records(struct hpcc_trace_rx *rx, const struct net *net, const u8 *trace,
			      const struct hpcc_ioam *t, const struct hpcc_opt *opt, u8 *records,
			      enum hpcc_counter *why)
{
	int nodes = hpcc_ioam_nodes(t);
	u64 now_ns = ktime_get_ns();
	const struct hpcc_known_link *link;
	struct hpcc_ioam_node node;
	struct hpcc_record r;
	int hop;

	hpcc_trace_begin(rx, HPCC_CARRIER_IOAM);
	for (hop = 1; hop <= nodes; hop++) {
		*why = HPCC_C_IOAM_IGNORED;
		if (hpcc_ioam_node(trace, t, hop, &node))
			return false;
		*why = HPCC_C_IOAM_UNKNOWN_LINK;
		link = hpcc_link_find(net, node.node, node.port);
		if (!link)
			return false;
		node.qlen_bytes = min_t(u64, (u64)link->unit * node.qlen_bytes, U32_MAX);
		hpcc_ioam_age(&rx->link[hop - 1], now_ns - rx->seen_ns);
		r = hpcc_ioam_record(&rx->link[hop - 1], &node, link->bps, opt->hops + hop,
				     opt->scale);
		hpcc_record_encode(records + (hop - 1) * HPCC_RECORD_LEN, &r);
	}
	*why = HPCC_C_IOAM_RECEIVED;
	hpcc_trace_end(rx, nodes, now_ns);
	return true;
}

/* Take in all nodes of our trace, or none: if some nodes are unknown, one of them may be the loaded
 * one. A trace without nodes gives no information.
 */
static void hpcc_ioam_take(struct hpcc_flow *flow, const struct net *net, const u8 *trace,
			   const struct hpcc_ioam *t, const struct hpcc_opt *opt,
			   const u8 *records)
{
	enum hpcc_counter why = HPCC_C_IOAM_IGNORED;
	u8 told[HPCC_IOAM_NODES_MAX * HPCC_RECORD_LEN];
	int nodes = hpcc_ioam_nodes(t);
	struct hpcc_trace_rx *rx;
	bool good = false;

	if (!nodes) {
		why = HPCC_C_IOAM_RECEIVED;
	} else if (nodes > 0 && opt->hops + nodes <= HPCC_HOPS_MAX) {
		rx = hpcc_trace_rx(flow, net);
		if (!rx)
			return;
		spin_lock_bh(&rx->lock);
		good = hpcc_ioam_records(rx, net, trace, t, opt, told, &why);
		spin_unlock_bh(&rx->lock);
	}
	hpcc_count_rcu(net, why);
	if (READ_ONCE(flow->mixed) != (opt->hops && nodes > 0))
		WRITE_ONCE(flow->mixed, opt->hops && nodes > 0);
	if (good)
		hpcc_forward_in(flow, opt, records, told, nodes);
}

/**
 * hpcc_ioam_in() - store the records of a request until they can be echoed
 * @flow: a flow
 * @in: the segment, for which hpcc_may_be_ioam() holds
 * @opt: head of its FORWARD
 * @records: its records, all of which fit (hpcc_opt_misfits())
 *
 * A trace of another namespace or type is not ours. Ports then fill in the FORWARD, so the records
 * of the FORWARD are used.
 *
 * Context: LOCAL_IN.
 */
void hpcc_ioam_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		  const struct hpcc_opt *opt, const u8 *records)
{
	const u8 *hop = in->skb->data + sizeof(struct ipv6hdr);
	const struct net *net = in->state->net;
	struct hpcc_ioam t;
	bool ours;
	u32 at;
	int len;

	hpcc_prompt_in(flow, opt);
	/* The whole header is in front of the TCP header, and so in the linear part. */
	len = hpcc_ioam_find(hop, (hop[1] + 1) * 8, &at);
	ours = len > 0 && hpcc_ioam_is_ours(hop + at);
	if (ours && !hpcc_ioam_read(hop + at, len, &t)) {
		hpcc_ioam_take(flow, net, hop + at, &t, opt, records);
		return;
	}
	if (len != -ENOENT || !opt->nr)
		hpcc_count_rcu(net, HPCC_C_IOAM_IGNORED);
	/* Beside a malformed trace of ours, ports do not fill in the FORWARD either. */
	if (!ours)
		hpcc_forward_in(flow, opt, records, NULL, 0);
}
