// SPDX-License-Identifier: GPL-2.0
/*
 * Congestion control "hpcc": for each ACK, hpcc_cong_control() takes the newest records out of the
 * flow's mailbox, unwraps their counters and runs NewAck of <hpcc/law/algo.h>. window.c then sets
 * cwnd and pacing rate.
 *
 * Loss: recovery conserves packets for one round trip. Then W controls the window again: telemetry
 * measures the load. If 1/8 of the packets was lost, W is at most the bytes in flight. After an RTO
 * W restarts from one segment, after classic from classic's window, as in slow start. CE: Wc falls
 * by 1/8 and incStage restarts. So the flow also reacts to the queue of a link without telemetry
 * while all links with telemetry are idle.
 */
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "control/cc.h"
#include "control/law.h"
#include "control/loss.h"
#include "control/probe.h"
#include "control/receiver_ops.h"
#include "control/silence.h"
#include "control/switch_response.h"
#include "control/window.h"
#include "telemetry/identify.h"
#include "telemetry/mailbox.h"

#define CREATE_TRACE_POINTS
#include "control/trace.h"

/* Number of round trips at the start of a flow in which each segment carries a request. */
static const u32 hpcc_begin_rtts = 4;

static const u32 hpcc_ecn_shift = 3;

/* Whether W is converging. Then bursts are short: a device without telemetry may drop long ones. */
static bool hpcc_is_searching(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	const struct hpcc_algo *algo = &flow->algo;

	return !algo->started || algo->resync || algo->U_q24 > HPCC_ONE_Q24 ||
	       flow->mode == HPCC_MODE_STALE || hpcc_algo_is_slow(algo, &flow->params) ||
	       tp->tcp_mstamp - flow->began_us <
	       hpcc_begin_rtts * (u64)max_t(u32, tp->srtt_us >> 3,
					    (u32)flow->params.T / (u32)NSEC_PER_USEC);
}

/* RTT of an ACK, or TCP's average if the ACK has none (-1). */
static u32 hpcc_rtt_us(const struct tcp_sock *tp, long rtt_us)
{
	return rtt_us < 0 ? tp->srtt_us >> 3 : rtt_us;
}

/* Process the records of an audit, and a W that the receiver sent. Only W counts as telemetry. */
static void hpcc_update_remote(struct sock *sk, struct hpcc_flow *flow,
			       const struct rate_sample *rs, struct hpcc_ack *ack)
{
	u32 bits;

	if (hpcc_mailbox_drain(sk, flow, hpcc_rtt_us(tcp_sk(sk), rs->rtt_us), &bits)) {
		hpcc_law_count(sk, flow, bits);
		hpcc_find_bottleneck(&flow->algo, tcp_sk(sk)->tcp_mstamp >> HPCC_BOTTLENECK_SHIFT);
		if (bits & HPCC_ACK_PATH)
			hpcc_path_ask(flow);
	}
	hpcc_skipped_ignore(flow);
	ack->n = hpcc_receiver_take(sk, flow);
	if (ack->n)
		ack->bits = 0;
}

/* hpcc_update_fn of hpcc. */
static inline u32 hpcc_law_update(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us, u32 *bits)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 n = hpcc_mailbox_drain(sk, flow, rtt_us, bits);

	if (n)
		*bits = hpcc_follow(&flow->algo, &flow->params, *bits,
				    hpcc_round_seq(tp, flow), tp->snd_nxt, hpcc_compute_wind);
	return n;
}

static void hpcc_update_model(struct sock *sk, struct hpcc_flow *flow,
			      const struct rate_sample *rs, struct hpcc_ack *ack)
{
	const struct hpcc_ca *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us;

	ack->before_q16 = flow->algo.W_q16;
	ack->bits = HPCC_ACK_NO_SAMPLE;
	ack->informed = hpcc_mail_pending(flow);
	if (unlikely(flow->rx_window_active || READ_ONCE(flow->rx_window_new))) {
		hpcc_update_remote(sk, flow, rs, ack);
		return;
	}
	rtt_us = hpcc_rtt_us(tp, rs->rtt_us);
	ack->n = unlikely(ca->update) ? ca->update(sk, flow, rtt_us, &ack->bits) :
					hpcc_law_update(sk, flow, rtt_us, &ack->bits);
	if (!ack->n)
		return;
	if (ack->bits & HPCC_ACK_UPDATE) {
		flow->full_us = tp->tcp_mstamp;
		hpcc_law_follow_N(flow, tp->tcp_mstamp);
		hpcc_find_bottleneck(&flow->algo, tp->tcp_mstamp >> HPCC_BOTTLENECK_SHIFT);
	}
	if (likely(!(ack->bits & ~(u32)HPCC_ACK_UPDATE)))
		return;
	hpcc_law_count(sk, flow, ack->bits);
	/* The first round trips begin here: the connection may have been idle until now. */
	if (ack->bits & HPCC_ACK_FIRST)
		hpcc_search_since(flow, tp->tcp_mstamp);
	if (ack->bits & (HPCC_ACK_FIRST | HPCC_ACK_PATH))
		hpcc_path_ask(flow);
}

/* Whether an ACK is only counted, as most ACKs without a record. The next record, or the end of a
 * round trip, updates flow->searching.
 */
static bool hpcc_is_plain(const struct sock *sk, struct hpcc_flow *flow,
			  const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (hpcc_mail_pending(flow) || READ_ONCE(flow->rx_window_new) ||
	    flow->dirty || flow->conserving || hpcc_algo_is_slow(&flow->algo, &flow->params) ||
	    inet_csk(sk)->icsk_ext_hdr_len != flow->ext_hdr_len ||
	    tcp_min_rtt(tp) != flow->min_rtt_us || hpcc_loss_ends(tp, flow, rs))
		return false;
	return !rs->acked_sacked || !hpcc_count_silent(tp, flow);
}

static noinline void hpcc_take_ack(struct sock *sk, struct hpcc_flow *flow,
				   const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	unsigned long R_before = sk->sk_pacing_rate;
	u64 T_before = flow->params.T;
	enum hpcc_records usable;
	struct hpcc_ack ack;
	bool searching;

	hpcc_reserve_restore(sk, flow);
	if (unlikely(tcp_min_rtt(tp) != flow->min_rtt_us))
		hpcc_law_new_T(sk, flow);
	hpcc_update_model(sk, flow, rs, &ack);
	hpcc_receiver_tick(sk, flow);
	hpcc_carrier_acked(tp, flow, ack.n);
	usable = hpcc_judge_records(tp, flow, rs, &ack);
	if (unlikely(usable != HPCC_RECORDS_USABLE || flow->mode != HPCC_MODE_TELEMETRY) &&
	    hpcc_follow_records(sk, flow, usable, &ack))
		return;
	if (unlikely(hpcc_unseen_loss(tp, flow, rs))) {
		hpcc_answer_loss(sk, flow);
		return;
	}
	hpcc_algo_acked(&flow->algo, &flow->params,
			flow->conserving ? 0 : rs->acked_sacked, tp->mss_cache, ack.before_q16);
	if (!ack.n && !flow->dirty && !flow->searching && !flow->conserving)
		return;
	searching = hpcc_is_searching(tp, flow);
	if (flow->searching != searching)
		hpcc_set_searching(flow, searching);
	hpcc_apply(sk, flow, rs);
	/* T was too large if the handshake waited for ARP: do not wait for the old rate. */
	if (unlikely(T_before / 2 > flow->params.T))
		hpcc_pacing_reschedule(tp, &flow->stamped, R_before, sk->sk_pacing_rate);
	else if (ack.n && tcp_snd_cwnd(tp) < HPCC_PROMPT_CWND)
		hpcc_pacing_reschedule(tp, &flow->stamped, ack.before_q16, flow->algo.W_q16);
	if (ack.n)
		trace_hpcc_ack(sk, flow);
}

static void hpcc_cong_control(struct sock *sk, HPCC_CONG_CONTROL_ACK const struct rate_sample *rs)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	/* TCP may call this before init(). */
	if (unlikely(!flow))
		return;
	hpcc_pacing_no_credit(tcp_sk(sk), &flow->burst, rs);
	if (!hpcc_is_plain(sk, flow, rs))
		hpcc_take_ack(sk, flow, rs);
	if (unlikely(flow->probes))
		hpcc_probe_send(sk, flow);
}

/* TCP does not call cong_control() for the answer to a probe when no data are in flight. */
static noinline void hpcc_answer_in(struct sock *sk, struct hpcc_flow *flow)
{
	struct rate_sample rs = { .rtt_us = -1 };

	hpcc_take_ack(sk, flow, &rs);
	if (flow->probes)
		hpcc_probe_send(sk, flow);
}

static void hpcc_in_ack_event(struct sock *sk, u32 flags)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!flow)
		return;
	hpcc_loss_ack(tp, flow);
	if (unlikely(flow->probes)) {
		/* TCP calls cong_control() for an ACK of data. */
		if (!tp->packets_out && tp->snd_una == flow->una && hpcc_mail_pending(flow))
			hpcc_answer_in(sk, flow);
		flow->una = tp->snd_una;
	}
	hpcc_answer_ack(sk, flow);
}

static void hpcc_set_state(struct sock *sk, u8 new_state)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!flow)
		return;
	hpcc_window_changed(flow);
	switch (new_state) {
	case TCP_CA_CWR:
		/* If a tail loss probe has repaired a loss, W stays. */
		if (hpcc_tlp_repaired(&flow->tlp, tp))
			break;
		hpcc_algo_reduce(&flow->algo, &flow->params, hpcc_ecn_shift);
		hpcc_count(sock_net(sk), HPCC_C_ECN_RESPONSES);
		break;
	case TCP_CA_Recovery:
		hpcc_conserve_begin(tp, flow);
		break;
	case TCP_CA_Loss:
		hpcc_conserve_end(flow);
		hpcc_loss_rto(tp, flow);
		/* TCP does not pace the retransmission. */
		hpcc_stamped_add(tp, &flow->stamped);
		hpcc_law_rto(sk, flow);
		hpcc_count(sock_net(sk), HPCC_C_TIMEOUTS);
		hpcc_rto(sk, flow);
		break;
	}
}

static u32 hpcc_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)), 2U);
}

static u32 hpcc_undo_cwnd(struct sock *sk)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	if (!flow)
		return tcp_snd_cwnd(tcp_sk(sk));
	hpcc_conserve_end(flow);
	hpcc_window_changed(flow);
	hpcc_fallback_undo(&flow->fallback, hpcc_lost(tcp_sk(sk), flow));
	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Loss)
		hpcc_law_undo(flow);
	return hpcc_cwnd(sk, flow);
}

/* The minimum is one segment, not two as in TCP: two segments at an MTU of 64 KB have no space for
 * an option. TCP calls this before it sends, also after a pause: then pace the window, send a probe
 * first, and apply a response of a switch.
 */
static u32 hpcc_tso_segs(HPCC_TSO_SEGS_ARGS)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	if (flow && unlikely(hpcc_response_pending(flow)))
		hpcc_response_take(sk, flow);
	if (!flow || tcp_sk(sk)->packets_out)
		return hpcc_burst_segs(sk, 1);
	if (unlikely(!tcp_sk(sk)->data_segs_out))
		hpcc_stamped_follow(tcp_sk(sk), &flow->stamped);
	if (flow->unpaced)
		hpcc_set_rate(sk, flow, false);
	if (flow->probes)
		hpcc_probe_send(sk, flow);
	return hpcc_burst_segs(sk, 1);
}

static u32 hpcc_sndbuf_expand(struct sock *sk)
{
	/* As in BBR: the send buffer has space for two windows while the window grows. */
	return 3;
}

static void hpcc_init_socket(struct sock *sk)
{
	hpcc_begin(sk, &hpcc_law);
}

struct tcp_congestion_ops hpcc_ops __read_mostly = {
	.init		= hpcc_init_socket,
	.release	= hpcc_release,
	.cong_control	= hpcc_cong_control,
	.in_ack_event	= hpcc_in_ack_event,
	.cwnd_event	= hpcc_cwnd_event,
	.set_state	= hpcc_set_state,
	.ssthresh	= hpcc_ssthresh,
	.undo_cwnd	= hpcc_undo_cwnd,
	.HPCC_TSO_SEGS	= hpcc_tso_segs,
	.sndbuf_expand	= hpcc_sndbuf_expand,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "hpcc",
};
