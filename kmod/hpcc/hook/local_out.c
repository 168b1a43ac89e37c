// SPDX-License-Identifier: GPL-2.0
/*
 * LOCAL_OUT: put our options into outgoing segments.
 *
 * The hook never drops or delays a segment because telemetry does not fit. A segment stays
 * unchanged if it has no room, a TCP-MD5 or TCP-AO option, which signs the header, or an MPTCP
 * option, which needs the option space. Rules for this hook:
 *
 *	context	It runs under RCU. Most segments come under their socket's lock, in process context
 *		or softirq. The exceptions are SYN-ACKs, which belong to a request socket, segments
 *		that a qdisc on a VRF device delayed, and segments that another hook passed to user
 *		space before ours (NFQUEUE). So the hook reads and writes single words of a flow,
 *		each valid alone. It never follows icsk_ca_priv. It reads TCP's own fields, but two
 *		of them need not be consistent.
 *	passes	VRF and IPVS send a segment through LOCAL_OUT again. The hook inserts and counts on
 *		the first pass, as the segment may have no socket on the second. It does not change
 *		a segment that already has our option.
 *	change	The hook may write the headers after skb_cow_head(): TCP keeps the payload of a
 *		segment that it sends, not the headers.
 *	spare	A segment may lose TCP's AccECN option, or SACK blocks, to make space for our
 *		option; <hpcc/wire/spare.h> has the rules. TCP's own state counts them as sent.
 *	headers	The network header and the transport header keep their offsets from skb->data;
 *		csum_start stays at the TCP header.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>

#include "carrier/carrier.h"
#include "control/cc.h"
#include "control/integrity_ops.h"
#include "control/mute.h"
#include "control/receiver_ops.h"
#include "hook/hook.h"
#include "telemetry/identify.h"
#include "telemetry/mailbox.h"
#include "telemetry/request.h"

/* Requests from one IDENTIFY to the next. A receiver stores one answer until its next ACK. If that
 * ACK is lost, or covers more segments, some links have no name. IDENTIFY then leaves less often,
 * as it takes the place of a FORWARD.
 */
#define HPCC_IDENTIFY_SPACING	4
#define HPCC_IDENTIFY_AGAIN	251

/* Option space beside timestamps. */
#define HPCC_ROOM_USUAL	(HPCC_TCP_HEADER_MAX - sizeof(struct tcphdr) - HPCC_TCPOPTS_USUAL_LEN)

/* Whether @skb is a TCP segment as TCP creates it, without a checksum yet, and not in a tunnel. */
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

		off = ipv6_skip_exthdr(skb, sizeof(struct ipv6hdr), &nexthdr, &frag_off);
		if (off < 0 || nexthdr != IPPROTO_TCP || frag_off)
			return false;
		seg->thoff = off;
	}
	if (seg->thoff != skb_transport_offset(skb) || seg->thoff + sizeof(*th) > skb_headlen(skb))
		return false;
	th = hpcc_segment_th(seg);
	seg->thlen = __tcp_hdrlen(th);
	return seg->thlen >= sizeof(*th) && seg->thoff + seg->thlen <= skb_headlen(skb);
}

/* The first phase, from @phase on, with a hop that has no name yet; @phases if all have names. */
static u32 __cold hpcc_identify_phase(const struct hpcc_path *path, u32 hops, u32 phase,
				      u32 phases, u32 slots)
{
	u32 i, hop;

	for (i = 0; i < phases; i++, phase++) {
		phase %= phases;
		for (hop = phase * slots; hop < min_t(u32, (phase + 1) * slots, hops); hop++) {
			if (!READ_ONCE(path->identity[hop]))
				return phase;
		}
	}
	return phases;
}

/* Whether to send an IDENTIFY, and its phase: each phase in turn, then phases with a
 * missing name.
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

/* Write a FORWARD or IDENTIFY of at most @room bytes to @p; @carrier: carrier of the request. */
static u32 hpcc_forward_write(struct hpcc_flow *flow, const struct tcp_sock *tp,
			      const struct hpcc_carrier_ops *carrier, u8 *p, u32 room)
{
	struct hpcc_opt opt = { .type = HPCC_OPT_FORWARD };
	u32 phase;
	u8 next_hop;

	if (room < hpcc_opt_len(1))
		return 0;
	opt.nr = min_t(u32, flow->slots, (room - HPCC_OPT_HEAD_LEN) / HPCC_RECORD_LEN);
	opt.scale = READ_ONCE(flow->scale);
	/* Classic requests no prompt ACKs. A probe requests them for the next data. */
	if (hpcc_peek(tp->snd_cwnd) < (READ_ONCE(flow->rx_window_active) ? HPCC_PROMPT_CWND_RX :
									   HPCC_PROMPT_CWND) &&
	    hpcc_runs_telemetry(flow))
		opt.flags = HPCC_OPT_F_PROMPT;

	hpcc_request_count(flow, hpcc_peek(tp->tcp_clock_cache), READ_ONCE(flow->requests));
	if (hpcc_identify_next(flow, opt.nr, &phase)) {
		opt.type = HPCC_OPT_IDENTIFY;
	} else if (unlikely(carrier != &hpcc_tcp_option && carrier->probes_only)) {
		opt.nr = !!carrier->fill;
		phase = 0;
	} else {
		next_hop = READ_ONCE(flow->next_hop);
		phase = hpcc_phase_next(&next_hop, READ_ONCE(flow->hops), opt.nr);
		WRITE_ONCE(flow->next_hop, next_hop);
	}
	opt.flags |= phase;
	if (opt.flags & HPCC_OPT_F_PROMPT)
		WRITE_ONCE(flow->sent.prompt_end, READ_ONCE(flow->snd_end));
	hpcc_opt_encode(p, flow->kind, &opt);
	memset(p + HPCC_OPT_HEAD_LEN, 0, opt.nr * HPCC_RECORD_LEN);
	if (unlikely(carrier != &hpcc_tcp_option && carrier->fill) && opt.type == HPCC_OPT_FORWARD)
		carrier->fill(flow, p + HPCC_OPT_HEAD_LEN);
	return hpcc_opt_len(opt.nr);
}

/* Whether W fits into @room, together with the @request. */
static bool hpcc_window_fits(const struct hpcc_flow *flow, bool request, u32 room)
{
	if (!request)
		return room >= hpcc_opt_len(1);
	return room >= 2 * hpcc_opt_len(1) && !hpcc_phase_needs_slots(READ_ONCE(flow->next_hop));
}

/* Like hpcc_options_write(), and also write W: after a request of one record, or before an echo. */
static u32 hpcc_window_and(struct hpcc_flow *flow, const struct tcp_sock *tp,
			   const struct hpcc_carrier_ops *carrier, u32 room, u8 *out,
			   u32 *forward, u32 *echo)
{
	u32 len;

	if (carrier)
		*forward = hpcc_forward_write(flow, tp, carrier, out, hpcc_opt_len(1));
	len = *forward + hpcc_receiver_of(flow)->window_write(flow, out + *forward);
	if (!carrier && hpcc_echo_pending(flow))
		*echo = hpcc_echo_write(flow, out + len, room - len);
	return len + *echo;
}

/* Write the options of a segment to @out: a request if there is a @carrier, and stored records. If
 * a request and an echo are due, each has one record. FORWARD comes first, because switches read
 * only the first option of our kind. If the request needs more slots, the next segment gets the
 * echo. N follows an echo, W precedes it; parameters replace a request. Return: their length.
 * *@forward and *@echo are the lengths of request and echo.
 */
static u32 hpcc_options_write(struct hpcc_flow *flow, const struct tcp_sock *tp,
			      const struct hpcc_carrier_ops *carrier, u32 room, u8 *out,
			      u32 *forward, u32 *echo)
{
	const struct net *net = sock_net((const struct sock *)tp);
	u64 N;

	if (unlikely(hpcc_receiver_window_pending(flow)) && hpcc_window_fits(flow, carrier, room))
		return hpcc_window_and(flow, tp, carrier, room, out, forward, echo);
	if (carrier && room >= hpcc_opt_len(2) && hpcc_receiver_params_due(flow, tp)) {
		/* The path may drop this segment because of its option, see hpcc_mute_rto(). */
		hpcc_request_params(flow);
		return hpcc_receiver_of(flow)->params_write(flow, tp, out);
	}
	if (carrier && hpcc_echo_pending(flow) &&
	    !hpcc_phase_needs_slots(READ_ONCE(flow->next_hop))) {
		*forward = hpcc_forward_write(flow, tp, carrier, out, hpcc_opt_len(1));
		*echo = hpcc_echo_write(flow, out + *forward,
					min(room - *forward, hpcc_opt_len(1)));
	} else if (carrier) {
		*forward = hpcc_forward_write(flow, tp, carrier, out, room);
	} else if (room >= 2 * hpcc_opt_len(1) && hpcc_report_due(flow, tp, net)) {
		*echo = hpcc_echo_write(flow, out, room - hpcc_opt_len(1));
		N = hpcc_report_pack(HPCC_REPORT_FLOWS, READ_ONCE(flow->census.N_sent));
		*echo += hpcc_report_write(flow, out + *echo, &N, 1);
	} else {
		*echo = hpcc_echo_write(flow, out, room);
	}
	return *forward + *echo;
}

/* Like hpcc_options_write(), and also write a stored signal: after a request, or alone. */
static noinline u32 __cold hpcc_signal_and(struct hpcc_flow *flow, const struct tcp_sock *tp,
					   const struct hpcc_carrier_ops *carrier, u32 room,
					   u8 *out, u32 *forward, u32 *echo)
{
	if (hpcc_signal_pending(flow) && carrier && room >= 2 * hpcc_opt_len(1))
		*forward = hpcc_forward_write(flow, tp, carrier, out, hpcc_opt_len(1));
	else if (carrier || !hpcc_signal_pending(flow))
		return hpcc_options_write(flow, tp, carrier, room, out, forward, echo);
	return *forward + hpcc_signal_write(flow, out + *forward);
}

static u32 hpcc_with_signal(struct hpcc_flow *flow, const struct tcp_sock *tp,
			    const struct hpcc_carrier_ops *carrier, u32 room, u8 *out,
			    u32 *forward, u32 *echo)
{
	if (likely(!hpcc_signal_pending(flow)))
		return hpcc_options_write(flow, tp, carrier, room, out, forward, echo);
	return hpcc_signal_and(flow, tp, carrier, room, out, forward, echo);
}

/* Like hpcc_with_signal(), if feedback is signed. A request alone needs no tag, and one with
 * feedback has one record of each. Feedback that must wait stays stored. @room: at least
 * hpcc_opt_len(1).
 */
static noinline u32 __cold hpcc_signed_out(const struct hpcc_segment *seg, struct hpcc_flow *flow,
					   const struct hpcc_carrier_ops *carrier, u32 room,
					   u8 *out, u32 *forward, u32 *echo)
{
	const struct hpcc_integrity_ops *ops = hpcc_integrity_of(flow);
	const struct tcp_sock *tp = tcp_sk(flow->sk);
	struct hpcc_moment m;
	u32 len;

	if (!ops || room < hpcc_opt_len(1) + HPCC_TAG_LEN || !ops->moment(flow, seg, &m)) {
		if (carrier)
			*forward = hpcc_forward_write(flow, tp, carrier, out, room);
		return *forward;
	}
	if (!carrier || room < 2 * hpcc_opt_len(1) + HPCC_TAG_LEN)
		room -= HPCC_TAG_LEN;
	len = hpcc_signal_and(flow, tp, carrier, room, out, forward, echo);
	if (len == *forward)
		return len;
	ops->sign(flow, &m, out + *forward, len - *forward);
	return len + HPCC_TAG_LEN;
}

/* The carrier of a segment's request. Reduces @room to the option space that the carrier leaves. */
static const struct hpcc_carrier_ops *hpcc_request_by(const struct hpcc_segment *seg,
						      const struct sock *sk,
						      const struct hpcc_flow *flow, u32 *room)
{
	const struct hpcc_carrier_ops *by;

	/* Do not load the operations of the TCP option: it has none. */
	if (likely(!READ_ONCE(flow->carrier)))
		return &hpcc_tcp_option;
	by = hpcc_carrier_of(flow);
	if ((by->probes_only && !hpcc_is_pure(seg)) || (by->fits && !by->fits(seg, sk, flow, room)))
		return &hpcc_tcp_option;
	return by;
}

/* Bytes of options that @seg may lose if it has @room bytes, a multiple of 4. @at: their offset;
 * @sack: offset of the SACK option that they belong to, 0: of another option.
 */
static noinline u32 __cold hpcc_spare_find(const struct hpcc_segment *seg, struct hpcc_flow *flow,
					   u32 room, u32 *at, u32 *sack)
{
	const u8 *opts = seg->skb->data + seg->thoff + sizeof(struct tcphdr);
	const struct tcp_sock *tp = tcp_sk(flow->sk);
	u32 len = seg->thlen - sizeof(struct tcphdr);
	u32 after = hpcc_peek(tp->segs_out);
	u32 before = after - skb_shinfo(seg->skb)->gso_segs;
	union hpcc_spare last = { .word = READ_ONCE(flow->spare.word) };
	int accecn = hpcc_accecn_find(opts, len);
	bool may;
	u32 more;

	*sack = 0;
	/* A segment that stayed whole on its first pass stays whole. */
	if (hpcc_segment_is_again(seg))
		return 0;
	if (accecn >= 0 && hpcc_accecn_is_usual(seg->state->net)) {
		*at = accecn;
		if (hpcc_accecn_may_drop(&last, opts + accecn, before, after,
					 hpcc_peek(tp->tcp_mstamp), hpcc_peek(tp->bytes_received) ?
					 hpcc_peek(tp->srtt_us) >> 3 : ~0U))
			return HPCC_ACCECN_PADDED;
		WRITE_ONCE(flow->spare.word, last.word);
		return 0;
	}
	if (room >= hpcc_opt_len(1))
		return 0;
	more = hpcc_sack_more(opts, len, sack);
	len = round_up(hpcc_opt_len(1) - room, HPCC_SACK_BLOCK);
	if (len > more)
		return 0;
	*at = *sack + HPCC_SACK_HEAD + HPCC_SACK_BLOCK + more - len;
	may = hpcc_sack_may_drop(&last, opts + *at);
	WRITE_ONCE(flow->spare.word, last.word);
	return may ? len : 0;
}

static noinline bool __cold hpcc_spare_drop(struct hpcc_segment *seg, struct hpcc_flow *flow,
					    u32 at, u32 len, u32 sack)
{
	union hpcc_spare last = { .word = READ_ONCE(flow->spare.word) };

	last.segs = hpcc_peek(tcp_sk(flow->sk)->segs_out);
	WRITE_ONCE(flow->spare.word, last.word);
	if (!hpcc_segment_cut(seg, at, len))
		return false;
	if (sack)
		seg->skb->data[seg->thoff + sizeof(struct tcphdr) + sack + 1] -= len;
	return true;
}

static void hpcc_data_out(struct hpcc_segment *seg, struct sock *sk)
{
	bool data = !hpcc_is_pure(seg), new_data;
	struct hpcc_flow *flow = hpcc_flow_find(sk);
	const struct net *net = seg->state->net;
	enum hpcc_presence presence;
	u8 out[HPCC_TCP_HEADER_MAX];
	u32 signed_room = 0;
	const struct hpcc_carrier_ops *carrier = NULL;
	u32 forward = 0;
	u32 echo = 0;
	u32 room, beside, len;
	u32 spare = 0, at, sack;

	if (!flow)
		return;
	/* A second pass, as with a VRF, is not paced again. */
	new_data = data && hpcc_snd_end_advance(flow, hpcc_segment_end(seg));
	if (new_data)
		hpcc_pace_first(sk, seg->skb->len);
	if (READ_ONCE(flow->probes) ? READ_ONCE(flow->probing) :
				      data && hpcc_request_due(flow, tcp_sk(sk)))
		carrier = &hpcc_tcp_option;
	if (!carrier && !hpcc_echo_pending(flow) && !hpcc_receiver_window_pending(flow) &&
	    !hpcc_signal_pending(flow))
		return;
	presence = hpcc_segment_presence(seg, flow->kind);
	if (presence == HPCC_PRESENT)
		return;
	room = presence == HPCC_INCOMPATIBLE ? 0 : hpcc_segment_room(seg, sk);
	beside = room;
	/* A request alone needs one slot, unless the path has several hops. */
	if (unlikely(room < HPCC_ROOM_USUAL) && presence == HPCC_ABSENT &&
	    (!carrier || room < hpcc_opt_len(1) || hpcc_echo_pending(flow) ||
	     READ_ONCE(flow->hops) > 1)) {
		spare = hpcc_spare_find(seg, flow, room, &at, &sack);
		room += spare;
	}
	if (carrier)
		carrier = hpcc_request_by(seg, sk, flow, &room);
	if (unlikely(hpcc_is_unusual(flow, presence))) {
		if (!hpcc_mute_out(seg, tcp_sk(sk), flow, presence,
				   new_data && carrier && room >= hpcc_opt_len(1)))
			return;
		/* Let hpcc_signed_out() write, so that other flows need no check. */
		if (flow->mute.is_signed)
			swap(room, signed_room);
	}

	if (room >= hpcc_opt_len(1)) {
		len = hpcc_with_signal(flow, tcp_sk(sk), carrier, room, out, &forward, &echo);
	} else if (signed_room >= hpcc_opt_len(1)) {
		len = hpcc_signed_out(seg, flow, carrier, signed_room, out, &forward, &echo);
	} else {
		len = 0;
		if (!(data && READ_ONCE(flow->probes)))
			hpcc_segment_no_room(seg, HPCC_C_NO_ROOM);
	}
	if (!len)
		return;

	/* Only FORWARD has another carrier; IDENTIFY and parameters do not. */
	if (!forward || out[2] >> 5 != HPCC_OPT_FORWARD)
		carrier = &hpcc_tcp_option;
	if ((unlikely(len > beside) && !hpcc_spare_drop(seg, flow, at, spare, sack)) ||
	    (unlikely(carrier != &hpcc_tcp_option && carrier->push) ?
	     !carrier->push(seg, sk, flow, out, len) : !hpcc_segment_put(seg, out, len, 0))) {
		hpcc_count(net, HPCC_C_NO_MEMORY);
		return;
	}
	/* The peer's TCP does not receive a probe of a carrier that is @apart. */
	if (!data && (likely(carrier == &hpcc_tcp_option) || !carrier->apart)) {
		WRITE_ONCE(flow->sent.echo_ack, ntohl(hpcc_segment_th(seg)->ack_seq));
		WRITE_ONCE(flow->sent.echo_at, tcp_jiffies32);
	}
	if (echo)
		hpcc_count_rcu(net, HPCC_C_ECHO_SENT);
	if (forward && out[2] >> 5 == HPCC_OPT_IDENTIFY)
		hpcc_count(net, HPCC_C_IDENTIFY_SENT);
	else if (forward)
		hpcc_count_rcu(net, HPCC_C_FORWARD_SENT);
	if (unlikely(carrier != &hpcc_tcp_option))
		hpcc_count_rcu(net, carrier->sent);
}

/* Netfilter hook of outgoing packets. Return: always NF_ACCEPT. */
unsigned int hpcc_local_out(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct sock *sk = skb->sk;
	struct hpcc_segment seg = { .skb = skb, .state = state };
	const struct tcphdr *th;

	if (!sk)
		return NF_ACCEPT;
	/* A request socket is no full socket: only its sock_common may be read. */
	if (sk->sk_state == TCP_NEW_SYN_RECV) {
		if (hpcc_segment_parse(&seg) && hpcc_segment_th(&seg)->syn)
			hpcc_synack_out(&seg, sk);
		return NF_ACCEPT;
	}
	if (!sk_fullsock(sk) || sk->sk_protocol != IPPROTO_TCP || sk->sk_type != SOCK_STREAM)
		return NF_ACCEPT;
	/* This compares the callbacks only, and does not read icsk_ca_priv. */
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
