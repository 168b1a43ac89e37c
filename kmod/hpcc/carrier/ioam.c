// SPDX-License-Identifier: GPL-2.0
/*
 * IOAM as the carrier of requests (net.hpcc.carrier = 1), for IPv6.
 *
 *	sender		LOCAL_OUT puts a hop-by-hop header with a trace and room for
 *			net.hpcc.ioam_nodes nodes into a segment that asks, and a FORWARD into its
 *			TCP header as ever: that tells the scale.
 *	switches	each that speaks IOAM fills in a node; others fill in the FORWARD.
 *	receiver	LOCAL_IN makes load records of the nodes, as if they had come in the
 *			FORWARD behind those of its hops. From there on nothing is different:
 *			echo, mailbox, law. The header stays.
 *
 * A trace counts bytes and the law counts time: links.c has B of each (node_id, egress_if_id), and
 * the unit of its queue depth. A receiver announces HPCC_CAP_IOAM while that table is not empty,
 * and gets no trace otherwise.
 *
 * A path may drop packets with extension headers, or fill in what is of no use. An RTO before
 * traces have brought telemetry, or again before they bring some after it, or silence, and the TCP
 * option carries requests from then on.
 */
#include <linux/ipv6.h>
#include <linux/slab.h>
#include <hpcc/carrier/ioam.h>

#include "carrier/carrier.h"
#include "netns/links.h"
#include "telemetry/mailbox.h"

/* ---- Sender ---------------------------------------------------------------- */

/**
 * hpcc_ioam_out() - put a trace into a segment that asks
 * @seg: the segment, of which only its IPv6 header is in front of TCP's, with room for the trace
 * @nodes: how many nodes it has room for
 *
 * A GSO packet gets one, of which each of its segments has a copy, as of TCP options: what splits
 * it in front of the link fills in each by itself.
 *
 * Return: whether there was memory.
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
 * hpcc_ioam_begin() - traces have yet to show that the path delivers them
 * @tp: socket, under its lock
 * @flow: its new flow
 */
void hpcc_ioam_begin(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	flow->ioam_seq = tp->snd_una;
}

/**
 * hpcc_ioam_rto() - an RTO: something on the path may drop packets with extension headers
 * @tp: socket, under its lock
 * @flow: its flow, of which traces carry requests
 *
 * Where traces brought telemetry since the last RTO, the TCP option carries requests until what
 * was lost first has come, and traces get another try; else they end. While the TCP option
 * carries requests, or probes do, no trace was the reason.
 *
 * Return: whether traces end: the caller stops the carrier.
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
 * hpcc_ioam_ack() - an ACK came: traces get another try, or have brought telemetry
 * @tp: socket, under its lock
 * @flow: its flow, of which traces carry requests
 * @informed: telemetry came with it
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

/**
 * hpcc_trace_rx() - what a receiver keeps of a path
 * @flow: a flow
 * @net: its network namespace
 *
 * Context: RCU read side, with a reference to the socket.
 * Return: it, made when first asked for; NULL where there is no memory.
 */
struct hpcc_trace_rx *hpcc_trace_rx(struct hpcc_flow *flow, const struct net *net)
{
	struct hpcc_trace_rx *rx = rcu_dereference(flow->trace_rx);
	struct hpcc_trace_rx *old;

	if (likely(rx))
		return rx;
	rx = hpcc_flow_zalloc(flow->sk, sizeof(*rx));
	if (!rx) {
		hpcc_count(net, HPCC_C_NO_MEMORY);
		return NULL;
	}
	spin_lock_init(&rx->lock);
	old = unrcu_pointer(cmpxchg(&flow->trace_rx, NULL, RCU_INITIALIZER(rx)));
	if (!old)
		return rx;
	kfree(rx);
	return old;
}

/**
 * hpcc_trace_begin() - before the links of a trace are followed
 * @rx: of the path, locked
 * @carrier: what tells of it
 *
 * With another carrier than before all links begin anew.
 */
void hpcc_trace_begin(struct hpcc_trace_rx *rx, enum hpcc_carrier carrier)
{
	int hop;

	if (rx->carrier == carrier)
		return;
	rx->carrier = carrier;
	for (hop = 0; hop < rx->hops; hop++)
		rx->link[hop].bps = 0;
}

/**
 * hpcc_trace_end() - when a trace was taken in
 * @rx: of the path, locked
 * @hops: how many nodes it had
 * @now_ns: when it came
 */
void hpcc_trace_end(struct hpcc_trace_rx *rx, int hops, u64 now_ns)
{
	int hop;

	/* The age of what this trace leaves out is not known any more. */
	for (hop = hops; hop < rx->hops; hop++)
		rx->link[hop].bps = 0;
	rx->hops = hops;
	rx->seen_ns = now_ns;
}

/* Make load records of a trace's nodes, behind the hops of @opt. Return: whether they are good;
 * @why: the counter that tells.
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

/* Take in a trace of ours: all nodes or none. Of a path that is not known in full, the rest may be
 * the loaded part. A trace that nobody filled tells nothing.
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
 * hpcc_ioam_in() - keep what a request tells until it can be echoed
 * @flow: a flow
 * @in: the segment, for which hpcc_may_be_ioam() holds
 * @opt: head of its FORWARD
 * @records: its records, all of which fit (hpcc_opt_misfits())
 *
 * Beside a trace of another namespace or type, which is somebody else's, ports fill in the FORWARD,
 * and that counts.
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
	/* All of it is in front of the TCP header, and so in one piece. */
	len = hpcc_ioam_find(hop, (hop[1] + 1) * 8, &at);
	ours = len > 0 && hpcc_ioam_is_ours(hop + at);
	if (ours && !hpcc_ioam_read(hop + at, len, &t)) {
		hpcc_ioam_take(flow, net, hop + at, &t, opt, records);
		return;
	}
	if (len != -ENOENT || !opt->nr)
		hpcc_count_rcu(net, HPCC_C_IOAM_IGNORED);
	/* Where one of ours is malformed, ports write nothing, not in the FORWARD either. */
	if (!ours)
		hpcc_forward_in(flow, opt, records, NULL, 0);
}
