// SPDX-License-Identifier: GPL-2.0
/*
 * Direct responses of switches (draft-miao section 6.3). A response is a segment without any flag
 * whose only option of ours is a RESPONSE with the queue length that our data found at the switch.
 *
 * LOCAL_IN checks it as an echo, stores it in one word of the flow, and applies it to W
 * immediately, under the socket's spinlock. If a process owns the socket, tso_segs() applies it
 * before TCP sends. TCP, and a host without this module, discards the segment: it has no ACK.
 */
#include <linux/unaligned.h>

#include "control/integrity_ops.h"
#include "control/switch_response.h"
#include "control/window.h"

static bool hpcc_response_put(struct hpcc_flow *flow, const struct tcp_sock *tp, u64 word)
{
	u64 last = READ_ONCE(flow->response);

	do {
		if (!hpcc_response_is_new(last, word, hpcc_peek(tp->snd_una),
					  hpcc_peek(tp->snd_nxt)))
			return false;
	} while (!try_cmpxchg(&flow->response, &last, word));
	return true;
}

/* Whether both numbers of a response fit the connection now. The data that triggered the response
 * were sent and are not acknowledged. Their ACK number was the end of the data received until then.
 * Later data may have moved this end, by one window at most. Context: LOCAL_IN.
 */
bool hpcc_response_ok(const struct hpcc_flow *flow, const struct tcp_sock *tp,
		      const struct hpcc_arrival *in)
{
	u32 data = ntohl(in->th->ack_seq);
	u32 ack = ntohl(in->th->seq);
	u32 rcv_wup = hpcc_peek(tp->rcv_wup);
	u32 rcv_wnd = hpcc_peek(tp->rcv_wnd);
	u32 old = min_t(u64, rcv_wnd, hpcc_peek(tp->bytes_received));

	return !before(data, hpcc_peek(tp->snd_una)) && !after(data, hpcc_peek(tp->write_seq)) &&
	       (!after(data, hpcc_peek(tp->snd_nxt)) || !after(data, READ_ONCE(flow->snd_end))) &&
	       !before(ack, rcv_wup - old) && !after(ack, rcv_wup + rcv_wnd);
}

/* Apply the response to W, unless a process owns the socket. */
static void hpcc_response_now(struct sock *sk, struct hpcc_flow *flow)
{
	/* After an NFQUEUE verdict this runs in process context. */
	local_bh_disable();
	bh_lock_sock(sk);
	if (!sock_owned_by_user(sk) && hpcc_is_ours(sk) && hpcc_flow_of(sk) == flow)
		hpcc_response_take(sk, flow);
	bh_unlock_sock(sk);
	local_bh_enable();
}

/**
 * hpcc_response_in() - process a response
 * @sk: socket
 * @flow: its flow; hpcc_response_ok() returned true
 * @in: segment without flags, with a correct checksum
 * @at: offset of its first option of either kind, or a negative error
 * @pos: offset of the byte after this option
 * Context: LOCAL_IN.
 */
void __cold hpcc_response_in(struct sock *sk, struct hpcc_flow *flow,
			     const struct hpcc_arrival *in, int at, u32 pos)
{
	const struct net *net = in->state->net;
	struct hpcc_opt opt;
	u64 record;
	u8 hop;

	/* A switch has no key. */
	if (flow->caps & HPCC_CAP_SIGNED) {
		hpcc_untrusted(flow, net, HPCC_IGNORED_UNSIGNED);
		return;
	}
	if (at < 0 || in->opts[at] != flow->kind ||
	    hpcc_opt_decode(in->opts + at, pos - at, &opt) ||
	    opt.type != HPCC_OPT_RESPONSE || opt.nr != 1 ||
	    !(READ_ONCE(flow->scales) & BIT(opt.scale)) ||
	    hpcc_opt_next(in->opts, in->optlen, &pos, flow->kind) != -ENOENT ||
	    in->skb->len != in->thoff + __tcp_hdrlen(in->th)) {
		hpcc_count(net, HPCC_C_MALFORMED_IGNORED);
		return;
	}
	record = get_unaligned_be64(in->opts + at + HPCC_OPT_HEAD_LEN);
	hop = hpcc_slot_hop(in->opts + at + HPCC_OPT_HEAD_LEN);
	if (!hop || hop != opt.hops) {
		hpcc_count(net, HPCC_C_BAD_HOP_IGNORED);
		return;
	}
	hpcc_count_rcu(net, HPCC_C_RESPONSE_RECEIVED);
	if (hpcc_response_put(flow, tcp_sk(sk), hpcc_response_pack(ntohl(in->th->ack_seq),
								   opt.scale, record)))
		hpcc_response_now(sk, flow);
	else
		hpcc_count(net, HPCC_C_RESPONSE_IGNORED);
}

/**
 * hpcc_response_stray() - whether a segment is a response that belongs to no connection
 * @in: segment without flags
 * @at: offset of its first option of either kind, or a negative error
 * @pos: offset of the byte after this option
 *
 * LOCAL_IN drops it. TCP would send an RST, or an ACK in TIME-WAIT, although the connection may
 * just have closed, or the data were forged.
 * Context: LOCAL_IN.
 */
bool hpcc_response_stray(const struct hpcc_arrival *in, int at, u32 pos)
{
	struct hpcc_opt opt;

	if (at < 0 || hpcc_opt_decode(in->opts + at, pos - at, &opt) ||
	    opt.type != HPCC_OPT_RESPONSE)
		return false;
	hpcc_count(in->state->net, HPCC_C_RESPONSE_IGNORED);
	return true;
}

/* Apply a pending response to W, unless its data are acknowledged by now. Context: socket lock; a
 * process may own the socket.
 */
void __cold hpcc_response_take(struct sock *sk, struct hpcc_flow *flow)
{
	u64 word = READ_ONCE(flow->response);
	u32 seq = hpcc_response_seq(word);
	struct rate_sample rs = { .rtt_us = -1 };
	struct tcp_sock *tp = tcp_sk(sk);
	u64 before_q16 = flow->algo.W_q16;

	/* If a new response has arrived since then, it stays pending for the next call. */
	cmpxchg(&flow->response, word, word & ~HPCC_RESPONSE_PENDING);
	if (!hpcc_runs_telemetry(flow) || before(seq, tp->snd_una) ||
	    !hpcc_algo_respond(&flow->algo, &flow->params, seq, hpcc_response_qlen_ns(word),
			       flow->rx_window_active)) {
		hpcc_count(sock_net(sk), HPCC_C_RESPONSE_IGNORED);
		return;
	}
	hpcc_set_searching(flow, true);
	hpcc_apply(sk, flow, &rs);
	if (tcp_snd_cwnd(tp) < HPCC_PROMPT_CWND)
		hpcc_pacing_reschedule(tp, &flow->stamped, before_q16, flow->algo.W_q16);
}
