// SPDX-License-Identifier: GPL-2.0
/*
 * Which congestion response a connection runs: "hpcc" with telemetry, or "hpcc-classic", Reno. ss
 * and getsockopt() show these names. enum hpcc_mode describes the modes.
 *
 *	TELEMETRY -> CLASSIC		no usable record for 8 requests, 8 ACKs and 4 RTTs
 *	STALE -> CLASSIC_VERIFY		no usable record for 8 requests, 8 ACKs and 4 RTTs
 *
 * Losses that no link with telemetry explains also lead to CLASSIC or CLASSIC_VERIFY, for some
 * round trips (<hpcc/law/fallback.h>). A connection runs hpcc-classic without a flow if the peer
 * did not agree or memory was short. Both responses reserve space for options, because classic also
 * requests telemetry. All functions run under the socket lock.
 */
#include <linux/module.h>
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "control/cc.h"
#include "control/law.h"
#include "control/loss.h"
#include "control/mute.h"
#include "control/probe.h"
#include "control/receiver_ops.h"
#include "control/silence.h"
#include "control/window.h"
#include "telemetry/mailbox.h"

/* A fallback for loss stops a carrier that data use, if more requests than this had no answer. */
static const u32 hpcc_unanswered = 2;

/* Let W control the window, beginning with its current value. */
void __cold hpcc_enter_telemetry(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	hpcc_watch_loss(tp, flow);
	hpcc_silence_reset(flow);
	hpcc_search_since(flow, tp->tcp_mstamp);
	hpcc_set_searching(flow, true);
	hpcc_conserve_end(flow);
	WRITE_ONCE(flow->mode, HPCC_MODE_TELEMETRY);
	hpcc_pacing_begin(sk, &flow->burst);
	tcp_snd_cwnd_set(tp, hpcc_cwnd(sk, flow));
	hpcc_cap_bursts(sk, &flow->burst, tcp_snd_cwnd(tp), true);
	hpcc_set_rate(sk, flow, false);
	hpcc_run(sk, false, true);
}

static void __cold hpcc_enter_classic(struct sock *sk, struct hpcc_flow *flow, enum hpcc_mode mode)
{
	flow->classic_seq = tcp_sk(sk)->snd_nxt;
	hpcc_probes_set(sk, flow, false);
	hpcc_receiver_stop(sk, flow);
	hpcc_set_searching(flow, false);
	WRITE_ONCE(flow->mode, mode);
	hpcc_pacing_restore(sk, &flow->burst, &flow->stamped);
	hpcc_run(sk, true, true);
}

/* Start a new flow with Reno. @hold: minimum number of round trips of classic. */
void hpcc_begin_classic(struct sock *sk, struct hpcc_flow *flow, u32 hold)
{
	hpcc_watch_loss(tcp_sk(sk), flow);
	hpcc_loss_hold(flow, hold);
	hpcc_enter_classic(sk, flow, HPCC_MODE_CLASSIC);
}

/* Continue with classic and @ssthresh, for @least round trips or more. */
static void __cold hpcc_fall_back(struct sock *sk, struct hpcc_flow *flow, enum hpcc_flow_why why,
				  enum hpcc_mode mode, u32 least, u32 ssthresh)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_ssthresh = max(ssthresh, 2U);
	/* Also in recovery: with W TCP would retransmit all lost packets at once. */
	tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), tp->snd_ssthresh));
	/* The peer may delay the ACK of a single segment, and classic requests no prompt ACKs.
	 * After an RTO keep TCP's one segment. For HPCC_WHY_MUTED TCP has not set TCP_CA_Loss yet.
	 */
	if (why != HPCC_WHY_MUTED && inet_csk(sk)->icsk_ca_state != TCP_CA_Loss)
		tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), 2U));
	hpcc_algo_forget(&flow->algo);
	hpcc_fallback_leave(&flow->fallback, least, hpcc_lost(tp, flow));
	hpcc_enter_classic(sk, flow, mode);
	flow->why = why;
	hpcc_notify(sk, flow, HPCC_EVENT_FALLBACK);
}

static void __cold hpcc_return(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	hpcc_algo_forget(&flow->algo);
	hpcc_law_slow(sk, flow);
	hpcc_loss_cap(flow, tcp_snd_cwnd(tp));
	hpcc_enter_telemetry(sk, flow);
	hpcc_count(sock_net(sk), HPCC_C_RETURNS);
	hpcc_notify(sk, flow, HPCC_EVENT_RETURN);
}

/* The path may drop this carrier's packets: try another. Return: whether there was another. */
static bool __cold hpcc_try_next_carrier(struct sock *sk, struct hpcc_flow *flow)
{
	if (hpcc_carrier_of(flow)->probes_only) {
		hpcc_carrier_stop(sk, flow);
	} else if (flow->probes) {
		hpcc_probes_set(sk, flow, false);
		hpcc_count(sock_net(sk), HPCC_C_PROBES_STOPPED);
	} else if (flow->carrier) {
		hpcc_carrier_stop(sk, flow);
	} else {
		return false;
	}
	hpcc_silence_end(flow);
	return true;
}

/* Classic's ssthresh after telemetry has stopped. Usually it is cwnd: no measurement shows that the
 * capacity of the path is below W. During slow start W may still be far below the capacity of the
 * path. Then classic continues slow start, after an RTO up to half of the previous W.
 */
static u32 hpcc_silent_ssthresh(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	if (!hpcc_algo_is_slow(&flow->algo, &flow->params))
		return tcp_snd_cwnd(tp);
	if (tcp_in_initial_slowstart(tp))
		return TCP_INFINITE_SSTHRESH;
	return max(tcp_snd_cwnd(tp), tp->snd_ssthresh / 2);
}

/* Select the response of hpcc after the records of an ACK. @usable: result of hpcc_judge_records().
 * Return: whether the connection runs classic now.
 */
bool hpcc_follow_records(struct sock *sk, struct hpcc_flow *flow, enum hpcc_records usable,
			 const struct hpcc_ack *ack)
{
	if (usable == HPCC_RECORDS_USABLE)
		WRITE_ONCE(flow->mode, HPCC_MODE_TELEMETRY);
	else if (usable != HPCC_RECORDS_UNDECIDED && ack->n)
		WRITE_ONCE(flow->mode, HPCC_MODE_STALE);
	if (usable != HPCC_RECORDS_SILENCE)
		return false;
	if (unlikely(flow->rx_window_active)) {
		hpcc_receiver_of(flow)->silent(sk, flow);
		hpcc_silence_end(flow);
		return false;
	}
	if (unlikely(hpcc_try_next_carrier(sk, flow)))
		return false;
	hpcc_count(sock_net(sk), HPCC_C_FALLBACKS);
	hpcc_fall_back(sk, flow, READ_ONCE(flow->untrusted_why) ?: HPCC_WHY_SILENCE,
		       flow->mode == HPCC_MODE_STALE || ack->informed ?
		       HPCC_MODE_CLASSIC_VERIFY : HPCC_MODE_CLASSIC,
		       HPCC_HOLD_SILENCE, hpcc_silent_ssthresh(tcp_sk(sk), flow));
	return true;
}

/* Fall back: no link with telemetry explains the losses. */
void __cold hpcc_answer_loss(struct sock *sk, struct hpcc_flow *flow)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 window;

	if (unlikely(flow->carrier) && !hpcc_carrier_of(flow)->probes_only && flow->silent_acks &&
	    READ_ONCE(flow->requests) - flow->silence.requests > hpcc_unanswered)
		hpcc_carrier_stop(sk, flow);
	window = hpcc_loss_window(tp, flow);
	hpcc_count(sock_net(sk), HPCC_C_UNSEEN_LOSS);
	hpcc_fall_back(sk, flow, HPCC_WHY_UNSEEN_LOSS,
		       flow->mode == HPCC_MODE_STALE ? HPCC_MODE_CLASSIC_VERIFY : HPCC_MODE_CLASSIC,
		       hpcc_fallback_cost(&flow->fallback, hpcc_lost(tp, flow), window), window);
}

/* An RTO fired: the path may drop segments with our option. */
void hpcc_rto(struct sock *sk, struct hpcc_flow *flow)
{
	bool muted = hpcc_mute_rto(sk, flow);

	if (hpcc_carrier_rto(tcp_sk(sk), flow))
		hpcc_carrier_stop(sk, flow);
	if (likely(!muted))
		return;
	/* Data carry the trial. */
	hpcc_probes_set(sk, flow, false);
	hpcc_notify(sk, flow, HPCC_EVENT_MUTED);
	if (hpcc_runs_telemetry(flow))
		hpcc_fall_back(sk, flow, HPCC_WHY_MUTED, HPCC_MODE_CLASSIC, HPCC_HOLD_SILENCE,
			       tcp_sk(sk)->prior_cwnd / 2);
}

/* In classic, detect silence of the carrier: losses may have caused the fallback before. Without a
 * carrier, try that of the route again from time to time: the path may have changed. While the flow
 * is muted, do not: the only request is the trial of the TCP option.
 */
static void __cold hpcc_classic_round(struct sock *sk, struct hpcc_flow *flow)
{
	if (likely(!flow->carrier && !flow->probes)) {
		if (READ_ONCE(flow->mute.state) || !hpcc_carrier_is_due(flow))
			return;
		hpcc_carrier_begin(sk, flow);
		hpcc_probes_set(sk, flow, hpcc_carrier_of(flow)->probes_only);
		hpcc_silence_end(flow);
		return;
	}
	if (hpcc_mail_pending(flow))
		hpcc_silence_end(flow);
	else if (hpcc_count_silent(tcp_sk(sk), flow))
		hpcc_try_next_carrier(sk, flow);
}

static void hpcc_classic_in_ack_event(struct sock *sk, u32 flags)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!flow)
		return;
	hpcc_loss_ack(tp, flow);
	hpcc_answer_ack(sk, flow);
	hpcc_reserve_restore(sk, flow);
	hpcc_carrier_acked(tp, flow, false);
	if (after(tp->snd_una, flow->classic_seq)) {
		flow->classic_seq = tp->snd_nxt;
		hpcc_fallback_round(&flow->fallback);
		hpcc_classic_round(sk, flow);
	}
	if (unlikely(flow->probes))
		hpcc_probe_send(sk, flow);
	if (unlikely(READ_ONCE(flow->mute.state)))
		hpcc_mute_ack(sk, flow);
	hpcc_loss_late(tp, flow);
	/* While the flow is muted, pending records are from before the RTO. */
	if (!hpcc_mail_pending(flow) || !hpcc_fallback_over(&flow->fallback) ||
	    READ_ONCE(flow->mute.state))
		return;
	if (flow->mode == HPCC_MODE_CLASSIC || hpcc_measure_only(sk, flow))
		hpcc_return(sk, flow);
}

static void hpcc_classic_set_state(struct sock *sk, u8 new_state)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	if (flow && new_state == TCP_CA_Loss)
		hpcc_rto(sk, flow);
}

/* Not registered: hpcc_run() selects it. ECT as in hpcc: a Not-ECT packet gets an immediate ACK. */
static struct tcp_congestion_ops hpcc_classic_ops __read_mostly = {
	.release	= hpcc_release,
	.in_ack_event	= hpcc_classic_in_ack_event,
	.set_state	= hpcc_classic_set_state,
	.cwnd_event	= hpcc_cwnd_event,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "hpcc-classic",
};

/* The callbacks without TCP_CONG_NEEDS_ECN. */
static struct tcp_congestion_ops hpcc_no_ecn_ops __read_mostly;
static struct tcp_congestion_ops hpcc_classic_no_ecn_ops __read_mostly;

struct hpcc_law hpcc_law __read_mostly = {
	.cc = { &hpcc_ops, &hpcc_no_ecn_ops, &hpcc_classic_ops, &hpcc_classic_no_ecn_ops },
};
EXPORT_SYMBOL_GPL(hpcc_law);

/* Create the callbacks for connections without ECN: copies, so set hpcc_ops.get_info before. */
void __init hpcc_cc_init(void)
{
	hpcc_no_ecn_ops = hpcc_ops;
	hpcc_no_ecn_ops.flags &= ~TCP_CONG_NEEDS_ECN;
	hpcc_classic_no_ecn_ops = hpcc_classic_ops;
	hpcc_classic_no_ecn_ops.flags &= ~TCP_CONG_NEEDS_ECN;
}

/* Select a connection's callbacks. TCP_CONG_NEEDS_ECN also sets ECT in retransmissions and pure
 * ACKs; without agreement or ECN this violates RFC 3168, sections 6.1.4 and 6.1.5. Nothing is
 * negotiated before the SYN-ACK. @classic: true: Reno's response; false: the response of hpcc.
 * @agreed: the peer agreed to telemetry.
 */
void hpcc_run(struct sock *sk, bool classic, bool agreed)
{
	bool ecn = agreed && sk->sk_state != TCP_SYN_SENT && tcp_ecn_mode_any(tcp_sk(sk));
	const struct hpcc_ca *ca = inet_csk_ca(sk);

	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, ca->law->cc[2 * classic + !ecn]);
}
