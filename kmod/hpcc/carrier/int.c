// SPDX-License-Identifier: GPL-2.0
/*
 * INT-MD as the carrier of requests (net.hpcc.carrier = 2), for IPv4 and IPv6.
 *
 *	sender		LOCAL_OUT puts shim and metadata header after the TCP header of a probe
 *			(probe.c), and sets its DSCP to net.hpcc.int_dscp. The TCP header has a
 *			FORWARD without slots, which states the scale.
 *	switches	Each switch that supports INT pushes its metadata.
 *	receiver	LOCAL_IN turns the metadata into load records, as if they had arrived in the
 *			FORWARD, and consumes the packet. Echo, mailbox and window law are the same
 *			as for the TCP option.
 *
 * TCP would take the metadata for data, and the socket must never get them. Marks do not ensure
 * that: a path may clear the DSCP or remove the option, and the receiver may leave hpcc by
 * setsockopt() or unload the module. So a probe with INT has a sequence number HPCC_INT_SEQ_BACK
 * below the number that the peer has acknowledged. All that switches can push ends below that
 * number. A TCP that gets such a segment already has these sequence numbers: it discards the bytes
 * and sends an ACK. For the same reason LOCAL_IN consumes only bytes that TCP would discard: false
 * INT cannot change the data.
 *
 * TCP gets no part of such a probe. LOCAL_IN does not hold the socket lock, so it cannot write
 * numbers that are still right when TCP processes the segment: TCP processes the backlog first,
 * which may change the next sequence number and the window. So a probe acknowledges nothing, as
 * with IFA (ifa.c): the sender sends a separate ACK if its TCP has something to acknowledge, and
 * the receiver answers in LOCAL_IN.
 *
 * Only probes carry INT. Data would need a stack in each segment of a GSO packet, and reserved
 * room; a probe can use all of the MTU. A lost probe is not retransmitted, so an RTO gives no
 * information about INT. But if telemetry stops, the TCP option carries requests from then on.
 *
 * INT has no txBytes. The utilization that a link reports is assumed to hold since its last report.
 * B and the unit of queue occupancy come from the table of links, as with IOAM (links.c).
 */
#include <linux/bitfield.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/dsfield.h>
#include <net/tcp.h>
#include <hpcc/carrier/int.h>
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "common/peek.h"
#include "netns/links.h"
#include "telemetry/mailbox.h"

/* The largest window that TCP can state, 65535 << 14. Applications may set a larger clamp. */
#define HPCC_WINDOW_MAX		(65535U << TCP_MAX_WSCALE)

/* More than the shim and the length that it can state. */
#define HPCC_INT_SEQ_BACK	(HPCC_INT_SHIM_LEN + HPCC_INT_WORDS_MAX * 4 + 4)

/* ---- Sender ---------------------------------------------------------------- */

/**
 * hpcc_int_out() - write shim and metadata header after a probe's TCP header
 * @seg: the probe, which has HPCC_INT_LEN bytes there
 * @tp: its socket
 * @nodes: Remaining Hop Count
 *
 * The caller computes the checksum later; it includes these bytes and the sequence number.
 */
void hpcc_int_out(const struct hpcc_segment *seg, const struct tcp_sock *tp, u8 nodes)
{
	const struct net *net = seg->state->net;
	u8 dscp = READ_ONCE(hpcc_pernet_rcu(net)->sysctls.int_dscp);
	struct sk_buff *skb = seg->skb;
	u8 old;

	if (seg->state->pf == NFPROTO_IPV4) {
		old = ipv4_get_dsfield(ip_hdr(skb)) >> 2;
		ipv4_change_dsfield(ip_hdr(skb), INET_ECN_MASK, dscp << 2);
	} else {
		old = ipv6_get_dsfield(ipv6_hdr(skb)) >> 2;
		ipv6_change_dsfield(ipv6_hdr(skb), INET_ECN_MASK, dscp << 2);
	}
	hpcc_int_header(skb->data + seg->thoff + seg->thlen, nodes, old);
	hpcc_segment_th(seg)->seq = htonl(hpcc_peek(tp->snd_una) - HPCC_INT_SEQ_BACK);
	hpcc_count_rcu(net, HPCC_C_INT_SENT);
}

/* ---- Receiver -------------------------------------------------------------- */

/* Bytes after the TCP header; if GRO has merged probes with consecutive numbers, the bytes of the
 * first one. One sample of the load is enough.
 */
static u32 hpcc_int_behind(const struct hpcc_arrival *in)
{
	if (skb_is_gso(in->skb))
		return skb_shinfo(in->skb)->gso_size;
	return in->skb->len - in->thoff - __tcp_hdrlen(in->th);
}

/**
 * hpcc_int_comes() - whether the sequence number shows that INT follows the TCP header
 * @tp: its socket
 * @in: the segment
 * @opt: head of its first option of ours
 *
 * While our ACKs are on their way, the peer may be behind rcv_nxt by a window, and the window may
 * have been larger then: accept up to two windows. So this number is about as hard to guess as that
 * of data.
 *
 * Return: true if TCP would discard these bytes.
 */
bool hpcc_int_comes(const struct tcp_sock *tp, const struct hpcc_arrival *in,
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

/**
 * hpcc_int_read() - copy INT
 * @in: the segment, for which hpcc_int_comes() holds; its stack is set
 * @buf: HPCC_INT_MAX bytes
 *
 * Return: false if it is no INT, or has a wrong length: old data, which TCP must acknowledge.
 */
bool hpcc_int_read(struct hpcc_arrival *in, u8 *buf)
{
	u32 len = hpcc_int_behind(in);
	u32 have = min_t(u32, len, HPCC_INT_MAX);
	struct hpcc_int_md t;

	if (skb_copy_bits(in->skb, in->thoff + __tcp_hdrlen(in->th), buf, have) ||
	    hpcc_int_find(buf, have, len, &t) != (int)len)
		return false;
	in->carrier = HPCC_CARRIER_INT;
	in->stack = buf;
	in->stack_len = len;
	return true;
}

/**
 * hpcc_int_records() - make load records of the hops of a stack
 * @rx: state of the path, locked
 * @in: the segment, with the stack
 * @opt: head of its FORWARD
 * @records: filled in, with room for HPCC_INT_NODES_MAX records
 * @why: set to the counter of the result
 *
 * Return: the number of records, or a negative number.
 */
int hpcc_int_records(struct hpcc_trace_rx *rx, const struct hpcc_arrival *in,
		     const struct hpcc_opt *opt, u8 *records, enum hpcc_counter *why)
{
	u64 now_ns = ktime_get_ns();
	const struct hpcc_known_link *link;
	struct hpcc_int_hop hop;
	struct hpcc_int_md t;
	struct hpcc_record r;
	int hops = -EINVAL;
	int nr;

	if (hpcc_int_find(in->stack, HPCC_INT_LEN, in->stack_len, &t) > 0)
		hops = hpcc_int_hops(&t);
	*why = HPCC_C_INT_IGNORED;
	if (hops < 0)
		return hops;
	hpcc_trace_begin(rx, HPCC_CARRIER_INT);
	for (nr = 1; nr <= hops; nr++) {
		*why = HPCC_C_INT_IGNORED;
		if (hpcc_int_hop(in->stack, hops, nr, now_ns, &hop))
			return -EINVAL;
		*why = HPCC_C_INT_UNKNOWN_LINK;
		link = hpcc_link_find(in->state->net, hop.node, hop.port);
		if (!link)
			return -EINVAL;
		hop.qlen_bytes = min_t(u64, (u64)link->unit * hop.qlen_bytes, U32_MAX);
		r = hpcc_int_record(&rx->link[nr - 1], &hop, link->bps, nr, opt->scale);
		hpcc_record_encode(records + (nr - 1) * HPCC_RECORD_LEN, &r);
	}
	*why = HPCC_C_INT_RECEIVED;
	if (hops)
		hpcc_trace_end(rx, hops, 0);
	return hops;
}
