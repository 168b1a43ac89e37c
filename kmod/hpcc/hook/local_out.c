// SPDX-License-Identifier: GPL-2.0
/*
 * LOCAL_OUT: put our options into outgoing segments.
 *
 * Nothing is ever dropped or delayed because telemetry did not fit: a segment
 * that has no room, or carries an option that covers the header (TCP-MD5,
 * TCP-AO) or owns the space (MPTCP), goes as it is.
 *
 * What this hook may assume of a packet:
 *
 *	who	It runs under RCU. Most segments come under their socket's lock, in
 *		process context or softirq. Not so SYN-ACKs, which belong to a
 *		request; what a qdisc on a VRF device held back; and what somebody
 *		else's hook in front of ours gave to user space (NFQUEUE). So the hook
 *		reads and writes single words of a flow, each of which is good by
 *		itself; it never follows icsk_ca_priv, and it reads TCP's own fields
 *		without expecting two of them to be of one moment.
 *	twice	VRF and IPVS send a segment through LOCAL_OUT again. The hook inserts and
 *		counts on the first pass, as the segment may have no socket on the
 *		second. It does not change a segment that has our option already.
 *	whose	The headers are ours to write after skb_cow_head(): TCP keeps the
 *		payload of what it sends, not the headers.
 *	how	Network and transport header stay where they are from skb->data;
 *		csum_start stays at the TCP header.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/dst.h>
#include <net/ip6_checksum.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include <hpcc/carrier/int.h>
#include <hpcc/carrier/ioam.h>
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "control/cc.h"
#include "control/census.h"
#include "control/mute.h"
#include "control/receiver.h"
#include "hook/handshake.h"
#include "packet/segment.h"
#include "telemetry/identify.h"
#include "telemetry/mailbox.h"
#include "telemetry/request.h"

/* Requests from one IDENTIFY to the next: a receiver keeps one until its next
 * ACK. Where ACKs are for more segments than that, or were lost, links remain
 * that did not tell who they are; they are asked again less often, as each
 * IDENTIFY is a FORWARD less.
 */
#define HPCC_IDENTIFY_SPACING	4
#define HPCC_IDENTIFY_AGAIN	251

/* Whether @skb is a TCP segment as TCP makes them: with its headers in the linear
 * part, and a checksum that is still to be computed.
 * Tunnels send packets through this hook again, with the inner socket still
 * attached: those have another protocol.
 */
static bool hpcc_segment_parse(struct hpcc_segment *seg)
{
	const struct sk_buff *skb = seg->skb;
	const struct tcphdr *th;

	if (unlikely(skb->ip_summed != CHECKSUM_PARTIAL))
		return false;
	if (seg->state->pf == NFPROTO_IPV4) {
		if (ip_hdr(skb)->protocol != IPPROTO_TCP)
			return false;
		seg->thoff = ip_hdrlen(skb);
	} else {
		u8 nexthdr = ipv6_hdr(skb)->nexthdr;
		__be16 frag_off;
		int off;

		off = ipv6_skip_exthdr(skb, sizeof(struct ipv6hdr), &nexthdr,
				       &frag_off);
		if (off < 0 || nexthdr != IPPROTO_TCP || frag_off)
			return false;
		seg->thoff = off;
	}
	if (seg->thoff != skb_transport_offset(skb) ||
	    seg->thoff + sizeof(*th) > skb_headlen(skb))
		return false;
	th = hpcc_segment_th(seg);
	seg->thlen = __tcp_hdrlen(th);
	return seg->thlen >= sizeof(*th) &&
	       seg->thoff + seg->thlen <= skb_headlen(skb);
}

/* ---- Segments of a connection that agreed -------------------------------------- */

/* The first phase from @phase on, of @phases, whose @slots hops have not all told
 * who they are; @phases: all have.
 */
static u32 hpcc_identify_phase(const struct hpcc_path *path, u32 hops, u32 phase,
			       u32 phases, u32 slots)
{
	u32 i, hop;

	for (i = 0; i < phases; i++, phase++) {
		phase %= phases;
		for (hop = phase * slots;
		     hop < min_t(u32, (phase + 1) * slots, hops); hop++) {
			if (!READ_ONCE(path->identity[hop]))
				return phase;
		}
	}
	return phases;
}

/* Whether the next segment is to be an IDENTIFY, and of which phase: of each in
 * turn at first, then of those that some link has not answered.
 */
static bool hpcc_identify_next(struct hpcc_flow *flow, u32 slots, u32 *phase)
{
	u32 hops = READ_ONCE(flow->hops);
	struct hpcc_path *path;
	u32 phases = 1;
	u8 left, again;
	u32 turn;

	if (likely(!READ_ONCE(flow->identify_active)))
		return false;
	path = rcu_dereference(flow->path);
	if (!path)
		return false;
	turn = READ_ONCE(path->turn) + 1;
	left = READ_ONCE(path->left);
	again = READ_ONCE(path->again);
	WRITE_ONCE(path->turn, turn);
	if (!left && !again)
		return false;
	if (hops > slots)
		phases = min_t(u32, DIV_ROUND_UP(hops, slots), HPCC_PHASES);
	if (left) {
		if (turn % HPCC_IDENTIFY_SPACING)
			return false;
		left--;
		WRITE_ONCE(path->left, left);
		*phase = left % phases;
		return true;
	}
	if (turn % HPCC_IDENTIFY_AGAIN)
		return false;
	again--;
	*phase = hpcc_identify_phase(path, hops, again % phases, phases, slots);
	WRITE_ONCE(path->again, *phase < phases ? again : 0);
	return *phase < phases;
}

/* Whether a segment asks, and what the switches are to fill in; from INT on, no slots. */
enum hpcc_request {
	HPCC_REQUEST_NONE,
	HPCC_REQUEST_TCP,
	HPCC_REQUEST_IOAM,
	HPCC_REQUEST_INT,
	HPCC_REQUEST_IFA,
	HPCC_REQUEST_CSIG,
};

/* Write a FORWARD or IDENTIFY option of at most @room bytes at @p. */
static u32 hpcc_forward_write(struct hpcc_flow *flow, const struct tcp_sock *tp,
			      enum hpcc_request asks, u8 *p, u32 room)
{
	struct hpcc_opt opt = { .type = HPCC_OPT_FORWARD };
	u32 phase;
	u8 next_hop;

	if (room < hpcc_opt_len(1))
		return 0;
	opt.nr = min_t(u32, flow->slots,
		       (room - HPCC_OPT_HEAD_LEN) / HPCC_RECORD_LEN);
	opt.scale = READ_ONCE(flow->scale);
	/* What classic sends is acknowledged as what Reno sends. A probe speaks for the data
	 * behind it.
	 */
	if (hpcc_peek(tp->snd_cwnd) < (READ_ONCE(flow->rx_window_active) ? HPCC_PROMPT_CWND_RX :
									   HPCC_PROMPT_CWND) &&
	    hpcc_runs_telemetry(flow))
		opt.flags = HPCC_OPT_F_PROMPT;

	hpcc_request_count(flow, hpcc_peek(tp->tcp_clock_cache), READ_ONCE(flow->requests));
	if (hpcc_identify_next(flow, opt.nr, &phase)) {
		opt.type = HPCC_OPT_IDENTIFY;
	} else if (unlikely(asks >= HPCC_REQUEST_INT)) {
		opt.nr = asks == HPCC_REQUEST_CSIG;
		phase = 0;
	} else {
		next_hop = READ_ONCE(flow->next_hop);
		phase = hpcc_phase_next(&next_hop, READ_ONCE(flow->hops), opt.nr);
		WRITE_ONCE(flow->next_hop, next_hop);
	}
	opt.flags |= phase;
	if (opt.flags & HPCC_OPT_F_PROMPT)
		WRITE_ONCE(flow->prompt_end, READ_ONCE(flow->snd_end));
	hpcc_opt_encode(p, flow->kind, &opt);
	memset(p + HPCC_OPT_HEAD_LEN, 0, opt.nr * HPCC_RECORD_LEN);
	if (unlikely(asks == HPCC_REQUEST_CSIG) && opt.type == HPCC_OPT_FORWARD)
		hpcc_csig_out(flow, p + HPCC_OPT_HEAD_LEN);
	return hpcc_opt_len(opt.nr);
}

/* Whether a segment that has @room has it for W, and for a request if it @asks. */
static bool hpcc_window_fits(const struct hpcc_flow *flow, bool asks, u32 room)
{
	if (!asks)
		return room >= hpcc_opt_len(1);
	return room >= 2 * hpcc_opt_len(1) && !hpcc_phase_needs_slots(READ_ONCE(flow->next_hop));
}

/* As hpcc_options_write(), with W: behind a request of one record, or in front of an echo. */
static u32 hpcc_window_and(struct hpcc_flow *flow, const struct tcp_sock *tp,
			   enum hpcc_request asks, u32 room, u8 *out, u32 *forward, u32 *echo)
{
	u32 len;

	if (asks)
		*forward = hpcc_forward_write(flow, tp, asks, out, hpcc_opt_len(1));
	len = *forward + hpcc_window_write(flow, out + *forward);
	if (!asks && hpcc_echo_pending(flow))
		*echo = hpcc_echo_write(flow, out + len, room - len);
	hpcc_count_rcu(sock_net((const struct sock *)tp), HPCC_C_REPORT_SENT);
	return len + *echo;
}

/* Write what a segment is to carry at @out: a request if it @asks, and what waits to be
 * echoed. With both, each gets one record, FORWARD first: switches look at the first
 * option of our kind. Where the request has to have more slots the echo waits for the next
 * segment. N goes beside an echo, W in front of it; parameters take a request's place.
 *
 * Return: its length. *@forward and *@echo say how much of it is for either.
 */
static u32 hpcc_options_write(struct hpcc_flow *flow, const struct tcp_sock *tp,
			      enum hpcc_request asks, u32 room, u8 *out, u32 *forward,
			      u32 *echo)
{
	const struct net *net = sock_net((const struct sock *)tp);

	if (unlikely(hpcc_window_pending(flow)) && hpcc_window_fits(flow, asks, room))
		return hpcc_window_and(flow, tp, asks, room, out, forward, echo);
	if (asks && room >= hpcc_opt_len(2) && hpcc_params_due(flow, tp)) {
		hpcc_count_rcu(net, HPCC_C_REPORT_SENT);
		/* The path may drop this segment for its option, see hpcc_mute_rto(). */
		hpcc_request_params(flow);
		return hpcc_params_write(flow, tp, out);
	}
	if (asks && hpcc_echo_pending(flow) &&
	    !hpcc_phase_needs_slots(READ_ONCE(flow->next_hop))) {
		*forward = hpcc_forward_write(flow, tp, asks, out, hpcc_opt_len(1));
		*echo = hpcc_echo_write(flow, out + *forward,
					min(room - *forward, hpcc_opt_len(1)));
	} else if (asks) {
		*forward = hpcc_forward_write(flow, tp, asks, out, room);
	} else if (room >= 2 * hpcc_opt_len(1) &&
		   hpcc_report_due(flow, tp, net)) {
		*echo = hpcc_echo_write(flow, out, room - hpcc_opt_len(1));
		*echo += hpcc_report_write(flow, out + *echo);
		hpcc_count_rcu(net, HPCC_C_REPORT_SENT);
	} else {
		*echo = hpcc_echo_write(flow, out, room);
	}
	return *forward + *echo;
}

/* As hpcc_options_write(), with the signal that waits: behind a request, or alone. */
static u32 hpcc_with_signal(struct hpcc_flow *flow, const struct tcp_sock *tp,
			    enum hpcc_request asks, u32 room, u8 *out, u32 *forward, u32 *echo)
{
	if (likely(!hpcc_signal_pending(flow)))
		return hpcc_options_write(flow, tp, asks, room, out, forward, echo);
	if (asks && room >= 2 * hpcc_opt_len(1))
		*forward = hpcc_forward_write(flow, tp, asks, out, hpcc_opt_len(1));
	else if (asks)
		return hpcc_options_write(flow, tp, asks, room, out, forward, echo);
	hpcc_count_rcu(sock_net((const struct sock *)tp), HPCC_C_REPORT_SENT);
	return *forward + hpcc_signal_write(flow, out + *forward);
}

/* Whether a segment that asks has room for a trace beside its options, which @room is left for. */
static bool hpcc_request_fits_ioam(const struct hpcc_segment *seg, const struct sock *sk, u32 nodes,
				   u32 *room)
{
	u32 n = hpcc_ioam_header_len(nodes);
	u32 space;

	if (seg->state->pf != NFPROTO_IPV6 || seg->thoff != sizeof(struct ipv6hdr))
		return false;
	space = hpcc_segment_space(seg, sk);
	if (*room < hpcc_opt_len(1) || space < n + hpcc_opt_len(1))
		return false;
	*room = min(*room, space - n) & ~3U;
	return true;
}

/* The same for a probe and a stack that takes @n bytes. */
static bool hpcc_request_fits_stack(const struct hpcc_segment *seg, const struct sock *sk, u32 n,
				    u32 *room)
{
	u32 space = hpcc_segment_space(seg, sk);

	if (!hpcc_is_pure(seg) || *room < hpcc_opt_len(1) || space < n + hpcc_opt_len(1))
		return false;
	*room = min(*room, space - n) & ~3U;
	return true;
}

/* What carries a request of a segment that asks, and has @room for options. */
static enum hpcc_request hpcc_request_by(const struct hpcc_segment *seg, const struct sock *sk,
					 const struct hpcc_flow *flow, u32 *room)
{
	switch (READ_ONCE(flow->carrier)) {
	case HPCC_CARRIER_IOAM:
		if (!READ_ONCE(flow->ioam_paused) &&
		    hpcc_request_fits_ioam(seg, sk, flow->nodes, room))
			return HPCC_REQUEST_IOAM;
		break;
	case HPCC_CARRIER_CSIG:
		/* Receivers drop data with a tag. The MTU does not count the tag, and a probe is
		 * far shorter.
		 */
		if (hpcc_is_pure(seg))
			return HPCC_REQUEST_CSIG;
		break;
	case HPCC_CARRIER_INT:
		if (hpcc_request_fits_stack(seg, sk, HPCC_INT_LEN + flow->nodes * HPCC_INT_HOP_LEN,
					    room))
			return HPCC_REQUEST_INT;
		break;
	case HPCC_CARRIER_IFA:
		if (!(seg->state->pf == NFPROTO_IPV6 && seg->thoff != sizeof(struct ipv6hdr)) &&
		    hpcc_request_fits_stack(seg, sk, HPCC_IFA_LEN + flow->nodes * HPCC_IFA_HOP_LEN,
					    room))
			return HPCC_REQUEST_IFA;
		break;
	}
	return HPCC_REQUEST_TCP;
}

/* Put @len bytes of options at @out into a segment, and what carries its request. Whether there
 * was memory.
 */
static bool hpcc_options_out(struct hpcc_segment *seg, const struct sock *sk,
			     const struct hpcc_flow *flow, enum hpcc_request by, const u8 *out,
			     u32 len)
{
	u32 behind = by == HPCC_REQUEST_INT ? HPCC_INT_LEN :
		     by == HPCC_REQUEST_IFA ? HPCC_IFA_LEN : 0;
	u8 *p;

	if (by == HPCC_REQUEST_IOAM && !hpcc_ioam_out(seg, flow->nodes))
		return false;
	p = hpcc_segment_open(seg, len + behind);
	if (!p)
		return false;
	memcpy(p, out, len);
	hpcc_segment_close(seg, len);
	if (by == HPCC_REQUEST_IFA) {
		hpcc_ifa_out(seg, flow->nodes);
	} else if (behind) {
		hpcc_segment_checksum(seg, behind);
		hpcc_int_out(seg, tcp_sk(sk), flow->nodes);
	}
	return true;
}

static void hpcc_data_out(struct hpcc_segment *seg, struct sock *sk)
{
	bool data = !hpcc_is_pure(seg);
	struct hpcc_flow *flow = hpcc_flow_find(sk);
	const struct net *net = seg->state->net;
	enum hpcc_presence presence;
	u8 out[HPCC_TCP_HEADER_MAX];
	enum hpcc_request asks;
	u32 forward = 0;
	u32 echo = 0;
	u32 room;
	u32 len;

	if (!flow)
		return;
	/* What comes by again, as a VRF's does, has been paced. */
	if (data && hpcc_snd_end_advance(flow, hpcc_segment_end(seg)))
		hpcc_pace_first(sk, seg->skb->len);
	asks = (READ_ONCE(flow->probes) ? READ_ONCE(flow->probing) :
		data && hpcc_request_due(flow, tcp_sk(sk))) ? HPCC_REQUEST_TCP : HPCC_REQUEST_NONE;
	if (!asks && !hpcc_echo_pending(flow) && !hpcc_window_pending(flow) &&
	    !hpcc_signal_pending(flow))
		return;
	presence = hpcc_segment_presence(seg, flow->kind);
	if (presence == HPCC_PRESENT)
		return;
	room = presence == HPCC_INCOMPATIBLE ? 0 : hpcc_segment_room(seg, sk);
	if (unlikely(hpcc_may_be_mute(flow, presence)) &&
	    !hpcc_mute_out(seg, tcp_sk(sk), flow, presence,
			   data && asks && room >= hpcc_opt_len(1)))
		return;
	if (asks)
		asks = hpcc_request_by(seg, sk, flow, &room);

	len = room < hpcc_opt_len(1) ? 0 :
	      hpcc_with_signal(flow, tcp_sk(sk), asks, room, out, &forward, &echo);
	if (room < hpcc_opt_len(1) && !(data && READ_ONCE(flow->probes)))
		hpcc_segment_no_room(seg, HPCC_C_NO_ROOM);
	if (!len)
		return;

	/* Nothing goes beside IDENTIFY, nor beside parameters in a request's place. */
	if (!forward || out[2] >> 5 != HPCC_OPT_FORWARD)
		asks = HPCC_REQUEST_TCP;
	if (!hpcc_options_out(seg, sk, flow, asks, out, len)) {
		hpcc_count(net, HPCC_C_NO_MEMORY);
		return;
	}
	if (!data) {
		WRITE_ONCE(flow->echo_ack, ntohl(hpcc_segment_th(seg)->ack_seq));
		WRITE_ONCE(flow->echo_at, tcp_jiffies32);
	}
	if (echo)
		hpcc_count_rcu(net, HPCC_C_ECHO_SENT);
	if (forward && out[2] >> 5 == HPCC_OPT_IDENTIFY)
		hpcc_count(net, HPCC_C_IDENTIFY_SENT);
	else if (forward)
		hpcc_count_rcu(net, HPCC_C_FORWARD_SENT);
	if (unlikely(asks == HPCC_REQUEST_CSIG))
		hpcc_count_rcu(net, HPCC_C_CSIG_SENT);
}

/**
 * hpcc_local_out() - netfilter hook of outgoing packets
 * @priv: unused
 * @skb: packet
 * @state: where the hook is
 *
 * Return: NF_ACCEPT, always.
 */
unsigned int hpcc_local_out(void *priv, struct sk_buff *skb,
			    const struct nf_hook_state *state)
{
	struct sock *sk = skb->sk;
	struct hpcc_segment seg = { .skb = skb, .state = state };
	const struct tcphdr *th;

	if (!sk)
		return NF_ACCEPT;
	/* A request is no full socket: only its sock_common may be read. */
	if (sk->sk_state == TCP_NEW_SYN_RECV) {
		if (hpcc_segment_parse(&seg) &&
		    hpcc_segment_th(&seg)->syn)
			hpcc_synack_out(&seg, sk);
		return NF_ACCEPT;
	}
	if (!sk_fullsock(sk) || sk->sk_protocol != IPPROTO_TCP ||
	    sk->sk_type != SOCK_STREAM)
		return NF_ACCEPT;
	/* A look at which callbacks there are, not at what they keep. */
	if (!hpcc_is_ours(sk))
		return NF_ACCEPT;
	if (!hpcc_segment_parse(&seg))
		return NF_ACCEPT;
	th = hpcc_segment_th(&seg);
	if (th->rst)
		return NF_ACCEPT;
	if (!th->syn)
		hpcc_data_out(&seg, sk);
	else if (!th->ack)
		hpcc_syn_out(&seg, sk);
	return NF_ACCEPT;
}
