// SPDX-License-Identifier: GPL-2.0
/*
 * Congestion control "hpcc": telemetry to window and pacing rate.
 *
 * For each ACK, hpcc_cong_control() takes the newest records out of the flow's mailbox, unwraps
 * their counters and runs NewAck of <hpcc/law/algo.h>. window.c then sets cwnd and pacing rate in
 * TCP from W and R.
 *
 * Two sets of callbacks share the state. "hpcc" is the algorithm. "hpcc-classic" is Reno's
 * response, the fallback that tcp_dctcp also uses; ss and getsockopt show this name. A socket runs
 * "hpcc-classic" if the peer did not agree or if memory was short. classic.c lists the other
 * reasons, and describes the return to "hpcc".
 *
 * Loss: recovery conserves packets for one round trip. Then W controls the window again, because
 * the load is measured by telemetry and not by loss. After an RTO W restarts from one segment;
 * after classic it restarts from classic's window. In both cases W grows as in slow start.
 *
 * CE: Wc is reduced by 1/8 and incStage restarts. So the flow also reacts to the queue of a link
 * without telemetry while all links with telemetry are idle.
 */
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "common/device.h"
#include "control/cc.h"
#include "control/census.h"
#include "control/classic.h"
#include "control/loss.h"
#include "control/probe.h"
#include "control/receiver_ops.h"
#include "control/reserve.h"
#include "control/silence.h"
#include "control/switch_response.h"
#include "control/window.h"
#include "flow/notify.h"
#include "netns/net.h"
#include "telemetry/identify.h"
#include "telemetry/mailbox.h"

#define CREATE_TRACE_POINTS
#include "control/trace.h"

/* Round trips at the start of a flow in which each segment carries a request. */
static const u32 hpcc_begin_rtts = 4;

static const u32 hpcc_ecn_shift = 3;

/* ---- Parameters of a connection -------------------------------------- */

/* With one record per T, U is measured in the last T only, so W alternates around the fair window:
 * W is too large after a small U, and too small after a large U. If Wc were updated after an even
 * number of records, it would always take a W on the same side. So Wc follows each record, as in
 * the draft.
 */
static u32 hpcc_settle(u32 settle, u32 sample)
{
	return sample == 1 ? min(settle, 1U) : settle;
}

/* Compute the values that depend on T: W_init = B_host * T, W_ai = W_init * (1 - eta) / N, and the
 * units of FORWARD.
 *
 * Range: B_host * T at 1 Tbit/s and 1 s is 2^37 bytes, in Q16 2^53.
 */
static void hpcc_set_T(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;
	u32 eta_permille = READ_ONCE(sysctls->eta_permille);
	u32 base_rtt_ns = READ_ONCE(sysctls->base_rtt_ns);
	u32 w_ai_bytes = READ_ONCE(sysctls->w_ai_bytes);
	u64 was_q16 = flow->params.W_ai_q16;
	u64 W_init_q16;
	u64 W_ai_q16;
	u64 B_host;
	u32 sample;
	u32 rtt_ns;
	u32 T_ns;

	hpcc_window_changed(flow);
	flow->min_rtt_us = tcp_min_rtt(tcp_sk(sk));
	rtt_ns = hpcc_base_rtt_ns(sk, base_rtt_ns);
	T_ns = rtt_ns;
	B_host = hpcc_host_rate(sk, READ_ONCE(sysctls->host_mbps));
	/* T includes a full segment. The minimum RTT is from the short segments of the handshake:
	 * add the time of a full segment at the host's rate.
	 */
	if (!base_rtt_ns)
		T_ns = min_t(u64, HPCC_T_MAX_NS, rtt_ns +
			     div64_u64((u64)tcp_sk(sk)->mss_cache * NSEC_PER_SEC, B_host));
	W_init_q16 = mul_u64_u64_div_u64(B_host, (u64)T_ns << 16, NSEC_PER_SEC);
	W_init_q16 = max_t(u64, W_init_q16, (u64)tcp_sk(sk)->mss_cache << 16);
	hpcc_loss_follow_T(tcp_sk(sk), flow, W_init_q16);
	W_ai_q16 = w_ai_bytes ? 0 : div_u64(W_init_q16 * (1000 - eta_permille), 1000);
	hpcc_params_init(&flow->params, T_ns, W_init_q16,
			 hpcc_W_min(sk, W_init_q16, T_ns, rtt_ns, base_rtt_ns,
				    READ_ONCE(sysctls->start_rtt_ns)), (u64)w_ai_bytes << 16,
			 div_u64((u64)eta_permille << 24, 1000),
			 READ_ONCE(sysctls->max_stage));
	flow->params.W_ai_q16 = hpcc_set_N(flow, min(W_ai_q16, flow->params.W_max_q16),
					   READ_ONCE(sysctls->n_flows), was_q16);

	hpcc_burst_follow_T(sk, flow, T_ns, B_host);
	flow->unpaced = !READ_ONCE(sysctls->pace);
	sample = READ_ONCE(sysctls->sample);
	flow->settle = hpcc_settle(READ_ONCE(sysctls->settle), sample);
	WRITE_ONCE(flow->sample_ns, sample ? T_ns / sample : 0);
	hpcc_set_scale(flow, hpcc_scale_for(T_ns));
	hpcc_receiver_follow_T(sk, flow);
}

/**
 * hpcc_law_begin() - set the parameters and W of a new flow
 * @sk: socket
 * @flow: its flow
 */
void hpcc_law_begin(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;

	hpcc_set_T(sk, flow);
	hpcc_algo_init(&flow->algo, &flow->params);
	flow->algo.per_rtt = READ_ONCE(sysctls->per_rtt);
	flow->tlp.dsacks = tcp_sk(sk)->dsack_dups;
}

/**
 * hpcc_law_slow() - begin slow start with TCP's own window
 * @sk: socket
 * @flow: its flow
 */
void hpcc_law_slow(const struct sock *sk, struct hpcc_flow *flow)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	hpcc_algo_restart(&flow->algo, &flow->params, (u64)tcp_snd_cwnd(tp) * tp->mss_cache << 16);
	hpcc_algo_slow(&flow->algo);
}

/* If T has changed, W_init has changed, too. Limit W to the new range: otherwise R = W/T would be
 * above the host's rate until telemetry arrives.
 */
static void hpcc_follow_T(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_algo *algo = &flow->algo;

	if (likely(tcp_min_rtt(tcp_sk(sk)) == flow->min_rtt_us))
		return;
	hpcc_set_T(sk, flow);
	algo->W_q16 = hpcc_clamp_wind(&flow->params, algo->W_q16);
	algo->Wc_q16 = hpcc_clamp_wind(&flow->params, algo->Wc_q16);
}

/* Whether W is converging: in the first round trips, in slow start, after a restart, if no record
 * is usable, and on congestion. During this time each segment carries a request. Bursts are short,
 * because the path may end in a small buffer of a device without telemetry.
 */
static bool hpcc_is_searching(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	const struct hpcc_algo *algo = &flow->algo;

	return !algo->started || algo->resync || algo->U_q24 > HPCC_ONE_Q24 ||
	       flow->mode == HPCC_MODE_STALE ||
	       hpcc_algo_is_slow(algo, &flow->params) ||
	       tp->tcp_mstamp - flow->began_us <
	       hpcc_begin_rtts * (u64)max_t(u32, tp->srtt_us >> 3,
					    (u32)flow->params.T / (u32)NSEC_PER_USEC);
}

/* ---- Records of an ACK ------------------------------------------------- */

/* RTT of an ACK, or TCP's average if the ACK has none (-1). */
static u32 hpcc_rtt_us(const struct tcp_sock *tp, long rtt_us)
{
	return rtt_us < 0 ? tp->srtt_us >> 3 : rtt_us;
}

static void hpcc_count_ack(struct sock *sk, struct hpcc_flow *flow, u32 bits)
{
	struct net *net = sock_net(sk);

	if (bits & HPCC_ACK_TS_BACK) {
		hpcc_count(net, HPCC_C_TS_BACK_IGNORED);
		hpcc_ignored_count(flow, HPCC_IGNORED_TS_BACK, 1);
	}
	if (bits & (HPCC_ACK_TX_EXCESS | HPCC_ACK_TX_BACK)) {
		hpcc_count(net, HPCC_C_TX_EXCESS_IGNORED);
		hpcc_ignored_count(flow, HPCC_IGNORED_TX_EXCESS, 1);
	}
	if (bits & HPCC_ACK_PATH) {
		hpcc_count(net, HPCC_C_PATH_CHANGES);
		hpcc_notify(sk, flow, HPCC_EVENT_PATH);
	}
}

/* Process the records of an audit, and a W that the receiver sent. Only W counts as telemetry. */
static void hpcc_update_remote(struct sock *sk, struct hpcc_flow *flow,
			       const struct rate_sample *rs, struct hpcc_ack *ack)
{
	u32 bits;

	if (hpcc_mailbox_drain(sk, flow, hpcc_rtt_us(tcp_sk(sk), rs->rtt_us), &bits)) {
		hpcc_count_ack(sk, flow, bits);
		hpcc_find_bottleneck(&flow->algo, tcp_sk(sk)->tcp_mstamp >> HPCC_BOTTLENECK_SHIFT);
		if (bits & HPCC_ACK_PATH)
			hpcc_path_ask(flow);
	}
	hpcc_skipped_ignore(flow);
	ack->n = hpcc_receiver_take(sk, flow);
	if (ack->n)
		ack->bits = 0;
}

/* Process the records in the mailbox and update W. */
static void hpcc_update_model(struct sock *sk, struct hpcc_flow *flow,
			      const struct rate_sample *rs, struct hpcc_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 ack_seq;

	ack->before_q16 = flow->algo.W_q16;
	ack->bits = HPCC_ACK_NO_SAMPLE;
	ack->informed = hpcc_mail_pending(flow);
	if (unlikely(flow->rx_window_active || READ_ONCE(flow->rx_window_new))) {
		hpcc_update_remote(sk, flow, rs, ack);
		return;
	}
	ack->n = hpcc_mailbox_drain(sk, flow, hpcc_rtt_us(tp, rs->rtt_us), &ack->bits);
	if (!ack->n)
		return;
	/* If no data are in flight, the answer to a probe ends a round trip. */
	ack_seq = tp->snd_una + (flow->probes && !tp->packets_out);
	if (!hpcc_wc_update_allowed(&flow->params, ((u32)tp->tcp_mstamp - flow->full_us) *
				    (u64)NSEC_PER_USEC, flow->settle))
		ack_seq = flow->algo.last_update_seq;
	ack->bits = hpcc_follow(&flow->algo, &flow->params, ack->bits, ack_seq, tp->snd_nxt);
	if (ack->bits & HPCC_ACK_UPDATE) {
		flow->full_us = tp->tcp_mstamp;
		flow->params.W_ai_q16 = hpcc_follow_N(flow, tp->tcp_mstamp);
		hpcc_find_bottleneck(&flow->algo, tp->tcp_mstamp >> HPCC_BOTTLENECK_SHIFT);
	}
	if (likely(!(ack->bits & ~(u32)HPCC_ACK_UPDATE)))
		return;
	hpcc_count_ack(sk, flow, ack->bits);
	/* The first round trips begin here: the connection may have been idle until now. */
	if (ack->bits & HPCC_ACK_FIRST)
		hpcc_search_since(flow, tp->tcp_mstamp);
	if (ack->bits & (HPCC_ACK_FIRST | HPCC_ACK_PATH))
		hpcc_path_ask(flow);
}

/**
 * hpcc_measure_only() - process records without a change of W
 * @sk: socket that runs classic
 * @flow: its flow
 *
 * Return: whether a link was measured.
 */
bool hpcc_measure_only(struct sock *sk, struct hpcc_flow *flow)
{
	u32 bits;

	if (!hpcc_mailbox_drain(sk, flow, hpcc_rtt_us(tcp_sk(sk), -1), &bits))
		return false;
	hpcc_count_ack(sk, flow, bits);
	return !(bits & HPCC_ACK_NO_SAMPLE);
}

/* ---- Callbacks --------------------------------------------------------- */

/* Whether an ACK is only counted and changes nothing else, as most ACKs without a record.
 * The next record, or the end of a round trip, updates flow->searching.
 */
static bool hpcc_is_plain(const struct sock *sk, struct hpcc_flow *flow,
			  const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (hpcc_mail_pending(flow) || READ_ONCE(flow->rx_window_new) ||
	    flow->dirty || flow->conserving ||
	    hpcc_algo_is_slow(&flow->algo, &flow->params) ||
	    inet_csk(sk)->icsk_ext_hdr_len != flow->ext_hdr_len ||
	    tcp_min_rtt(tp) != flow->min_rtt_us ||
	    hpcc_loss_ends(tp, flow, rs))
		return false;
	return !rs->acked_sacked || !hpcc_count_silent(tp, flow);
}

/* Process an ACK that may change W. */
static noinline void hpcc_take_ack(struct sock *sk, struct hpcc_flow *flow,
				   const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	unsigned long R_before = sk->sk_pacing_rate;
	u64 T_before = flow->params.T;
	struct hpcc_ack ack;
	bool searching;

	hpcc_reserve_restore(sk, flow);
	hpcc_follow_T(sk, flow);
	hpcc_update_model(sk, flow, rs, &ack);
	hpcc_receiver_tick(sk, flow);
	hpcc_carrier_acked(tp, flow, ack.n);
	if (unlikely(hpcc_is_silent(tp, flow, rs, &ack)) && hpcc_answer_silence(sk, flow, &ack))
		return;
	if (unlikely(hpcc_unseen_loss(tp, flow, rs))) {
		hpcc_answer_loss(sk, flow);
		return;
	}
	hpcc_algo_acked(&flow->algo, &flow->params,
			flow->conserving ? 0 : rs->acked_sacked, tp->mss_cache,
			ack.before_q16);
	/* Most ACKs without a record change nothing. */
	if (!ack.n && !flow->dirty && !flow->searching && !flow->conserving)
		return;
	searching = hpcc_is_searching(tp, flow);
	if (flow->searching != searching)
		hpcc_set_searching(flow, searching);
	hpcc_apply(sk, flow, rs);
	/* T was too large if the handshake waited for an ARP reply, or for the peer. The next
	 * packet does not wait for the old rate, unless fq paces.
	 */
	if (unlikely(T_before / 2 > flow->params.T))
		hpcc_pacing_reschedule(tp, &flow->stamped, R_before, sk->sk_pacing_rate);
	else if (ack.n && tcp_snd_cwnd(tp) < HPCC_PROMPT_CWND)
		hpcc_pacing_reschedule(tp, &flow->stamped, ack.before_q16, flow->algo.W_q16);
	if (ack.n)
		trace_hpcc_ack(sk, flow);
}

static void hpcc_cong_control(struct sock *sk, HPCC_CONG_CONTROL_ACK
			      const struct rate_sample *rs)
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

/* Process the answer to a probe when no data are in flight, because the window is below one
 * segment. TCP does not call cong_control() for such an answer.
 */
static noinline void hpcc_answer_in(struct sock *sk, struct hpcc_flow *flow)
{
	struct rate_sample rs = { .rtt_us = -1 };

	hpcc_take_ack(sk, flow, &rs);
	if (flow->probes)
		hpcc_probe_send(sk, flow);
}

/**
 * hpcc_in_ack_event() - an ACK arrived; TCP may call cong_control() later
 * @sk: socket that runs hpcc or classic
 * @flags: CA_ACK_*
 *
 * LOCAL_IN keeps the option in a segment that requests a prompt ACK. The option puts this segment
 * on TCP's slow path. That path calls this function before TCP decides whether to delay the ACK.
 */
void hpcc_in_ack_event(struct sock *sk, u32 flags)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!flow)
		return;
	if (unlikely(tp->dsack_dups != flow->tlp.dsacks))
		hpcc_count_dsack(tp, flow);
	hpcc_tlp_ack(&flow->tlp, tp);
	if (unlikely(flow->probes)) {
		/* TCP calls cong_control() for an ACK of data. */
		if (!tp->packets_out && tp->snd_una == flow->una && hpcc_mail_pending(flow))
			hpcc_answer_in(sk, flow);
		flow->una = tp->snd_una;
	}
	/* The ACK that this call sends clears icsk_ack.pending. */
	if (READ_ONCE(flow->answer))
		hpcc_probe_answer(sk, flow);
	if (hpcc_prompt_take(flow))
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
}

static void hpcc_set_state(struct sock *sk, u8 new_state)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
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
		/* Only at the first of consecutive RTOs, as TCP does for prior_cwnd. */
		if (icsk->icsk_ca_state != TCP_CA_Loss || !icsk->icsk_retransmits) {
			flow->prior.W_q16 = flow->algo.W_q16;
			flow->prior.slow_start_limit_q16 = flow->algo.slow_start_limit_q16;
		}
		hpcc_loss_rto(tp, flow);
		/* TCP does not pace the retransmission. */
		hpcc_stamped_add(tp, &flow->stamped);
		hpcc_receiver_stop(sk, flow);
		hpcc_algo_restart(&flow->algo, &flow->params, (u64)tp->mss_cache << 16);
		hpcc_algo_slow(&flow->algo);
		hpcc_count(sock_net(sk), HPCC_C_TIMEOUTS);
		hpcc_rto(sk, flow);
		break;
	}
}

static u32 hpcc_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)), 2U);
}

/* No packet was lost: restore the state from before recovery or RTO. */
static u32 hpcc_undo_cwnd(struct sock *sk)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	if (!flow)
		return tcp_snd_cwnd(tcp_sk(sk));
	hpcc_conserve_end(flow);
	hpcc_window_changed(flow);
	hpcc_loss_undone(tcp_sk(sk), flow);
	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Loss && flow->algo.W_q16 < flow->prior.W_q16) {
		hpcc_algo_restart(&flow->algo, &flow->params, flow->prior.W_q16);
		flow->algo.slow_start_limit_q16 = flow->prior.slow_start_limit_q16;
	}
	return hpcc_cwnd(sk, flow);
}

/* The minimum is one segment, and not two as in TCP: two segments at an MTU of 64 KB are too long
 * to add an option.
 *
 * TCP calls this before it sends, also if no ACKs arrive. After a pause a window leaves before the
 * first ACK arrives: pace it, and send a probe in front of it. A response of a switch may have
 * arrived while a process owned the socket.
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
	/* As in BBR, the send buffer has space for the window, and for twice the window while it
	 * grows.
	 */
	return 3;
}

struct tcp_congestion_ops hpcc_ops __read_mostly = {
	.init		= hpcc_begin,
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
