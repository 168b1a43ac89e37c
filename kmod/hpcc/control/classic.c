// SPDX-License-Identifier: GPL-2.0
/*
 * Which response a connection runs: hpcc's, by telemetry, or "hpcc-classic", Reno's.
 *
 *	TELEMETRY	W rules, records are of use
 *	IGNORING	W rules; since the last one of use others came, none of use
 *	CLASSIC		Reno rules
 *	DOUBTING	Reno rules; one record is not enough to return
 *
 *	TELEMETRY -> IGNORING	records came, and none is of use
 *	IGNORING -> TELEMETRY	a record is of use
 *	TELEMETRY -> CLASSIC	no record of use for 8 requests, 8 ACKs and 4 RTTs
 *	IGNORING -> DOUBTING	the same
 *	CLASSIC -> TELEMETRY	a record came
 *	DOUBTING -> TELEMETRY	a link was measured
 *
 * Losses that no link with telemetry explains lead to CLASSIC or DOUBTING, too.
 * <hpcc/law/fallback.h> says which losses those are, and after how many round trips the
 * connection returns.
 *
 * Who enters a response also takes over what the other one set: pacing, the cap of a burst,
 * cwnd. Options keep their reserve in both: classic asks for telemetry as well.
 *
 * All of this is under the socket lock.
 */
#include <linux/module.h>
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "control/cc.h"
#include "control/mute.h"
#include "control/probe.h"
#include "control/receiver.h"
#include "control/window.h"
#include "netns/net.h"
#include "observe/netlink.h"
#include "telemetry/mailbox.h"

/* Of so many requests since the last record of use one should have been answered. */
static const u32 hpcc_unanswered = 2;

/* Telemetry has stopped after this many RTTs without a record of use, and HPCC_SILENT_ACKS. */
static const u32 hpcc_silent_rtts = 4;

/* The same without W from the receiver, which tells it once in 4 T where it does not change. */
static const u32 hpcc_silent_window_rtts = 8;

/* Fallbacks that are fewer round trips apart have one reason. */
static const u32 hpcc_far_rounds = 32;

/* Suspicion from which on nothing is late: 2 for each of them after which too little came
 * twice, as copies may still be on their way; less 1 for each other.
 */
static const int hpcc_dup_score_max = 6;

/* Late packets beyond 1/32 of what is delivered that excuse losses. */
static const s64 hpcc_dsack_excess_max = 64 << HPCC_LOSS_SHIFT;

/* ---- Losses ------------------------------------------------------------ */

/**
 * hpcc_count_dsack() - count the packets that the peer got twice, as its DSACKs say
 * @tp: socket
 * @flow: its flow
 *
 * These packets were only late. The peer cannot have got more packets twice than TCP has sent
 * twice so far; a larger number is forgotten, so that it hides no later loss. And a peer that
 * hides load may claim that nothing was lost: so no more than hpcc_dsack_excess_max count. To be
 * called for each ACK with a DSACK, before hpcc_tlp_ack().
 */
void hpcc_count_dsack(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	u32 dsacks = tp->dsack_dups - flow->tlp.dsacks;

	/* More came twice than were sent twice: the path duplicates packets. */
	if (tp->dsack_dups > tp->total_retrans)
		flow->duplicates = true;
	flow->dsack_excess = max_t(s64, flow->dsack_excess -
					(tp->delivered - flow->dsack_delivered), 0);
	flow->dsack_delivered = tp->delivered;
	if (flow->duplicates || flow->dsack_excess > hpcc_dsack_excess_max)
		return;
	/* One DSACK block may cover a whole window: count up to the limit, not beyond. */
	dsacks = min_t(s64, dsacks,
		       1 + ((hpcc_dsack_excess_max - flow->dsack_excess) >> HPCC_LOSS_SHIFT));
	flow->dsack_excess += (s64)dsacks << HPCC_LOSS_SHIFT;
	flow->dsacked = min(flow->dsacked + dsacks, tp->total_retrans);
}

/* Packets lost: sent again or about to be, less those that were only late. */
static u32 hpcc_lost(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	u32 marked = tp->lost_out - min(tp->retrans_out, tp->lost_out);

	return tp->total_retrans + marked - flow->dsacked;
}

/* Count losses from now on. */
static void hpcc_watch_loss(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	hpcc_fallback_start(&flow->fallback, &flow->algo,
			    tp->tcp_mstamp * NSEC_PER_USEC, tp->delivered,
			    hpcc_lost(tp, flow));
}

/**
 * hpcc_loss_undone() - TCP found that nothing was lost
 * @tp: socket
 * @flow: its flow
 */
void hpcc_loss_undone(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	hpcc_fallback_undo(&flow->fallback, hpcc_lost(tp, flow));
}

/**
 * hpcc_classic_hold() - how long classic is to run if the socket comes back to hpcc
 * @tp: socket
 * @flow: its flow
 *
 * Return: round trips; 0: not at all.
 */
u32 hpcc_classic_hold(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	return hpcc_fallback_hold(&flow->fallback, hpcc_lost(tp, flow));
}

/* ---- Enter and leave --------------------------------------------------- */

static void hpcc_set_mode(struct hpcc_flow *flow, enum hpcc_mode mode)
{
	WRITE_ONCE(flow->mode, mode);
}

/**
 * hpcc_enter_telemetry() - have W rule
 * @sk: socket
 * @flow: its flow, whose W is what it begins with
 */
void hpcc_enter_telemetry(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	hpcc_watch_loss(tp, flow);
	flow->silent_acks = 0;
	flow->new_links = 0;
	hpcc_search_since(flow, tp->tcp_mstamp);
	hpcc_set_searching(flow, true);
	hpcc_conserve_end(flow);
	hpcc_set_mode(flow, HPCC_MODE_TELEMETRY);
	hpcc_pacing_begin(sk, &flow->burst);
	tcp_snd_cwnd_set(tp, hpcc_cwnd(sk, flow));
	hpcc_cap_bursts(sk, &flow->burst, tcp_snd_cwnd(tp), true);
	hpcc_set_rate(sk, flow, false);
	hpcc_run(sk, false, true);
}

/* @mode: HPCC_MODE_CLASSIC or HPCC_MODE_CLASSIC_VERIFY. */
static void hpcc_enter_classic(struct sock *sk, struct hpcc_flow *flow,
			       enum hpcc_mode mode)
{
	flow->classic_seq = tcp_sk(sk)->snd_nxt;
	hpcc_probes_set(sk, flow, false);
	hpcc_remote_stop(sk, flow);
	hpcc_set_searching(flow, false);
	hpcc_set_mode(flow, mode);
	hpcc_pacing_restore(sk, &flow->burst, &flow->stamped);
	hpcc_run(sk, true, true);
}

/**
 * hpcc_begin_classic() - have a new flow begin with Reno
 * @sk: socket
 * @flow: its flow
 * @hold: round trips of that
 */
void hpcc_begin_classic(struct sock *sk, struct hpcc_flow *flow, u32 hold)
{
	hpcc_watch_loss(tcp_sk(sk), flow);
	flow->fallback.hold = hold;
	hpcc_enter_classic(sk, flow, HPCC_MODE_CLASSIC);
}

/* A path that duplicates packets makes losses look late, for TCP as well; then late packets
 * may not end a fallback. Such a path is known by more copies than were sent twice; or, where
 * some fallbacks follow each other closely, by packets that were sent twice and did not come
 * twice: on a path where packets are late nearly all do. Of each number the last fallback's
 * counts half as much as what came since.
 */
static void hpcc_judge_dsacks(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	u32 copies = tp->dsack_dups - flow->dsacks_base;
	u32 retrans = tp->total_retrans - flow->retrans_base;

	if (flow->fallback.rounds >= hpcc_far_rounds)
		flow->dup_score = 0;
	else if (copies + 2 < retrans - (retrans >> 2))
		flow->dup_score = min(flow->dup_score + 2, hpcc_dup_score_max);
	else
		flow->dup_score -= flow->dup_score > 0;
	flow->dsacks_base = tp->dsack_dups - (copies >> 1);
	flow->retrans_base = tp->total_retrans - (retrans >> 1);
}

/* Telemetry is of no use: let classic go on with @ssthresh, for @least round trips at
 * least.
 */
static void hpcc_fall_back(struct sock *sk, struct hpcc_flow *flow,
			   enum hpcc_flow_why why, enum hpcc_mode mode,
			   u32 least, u32 ssthresh)
{
	struct tcp_sock *tp = tcp_sk(sk);

	hpcc_judge_dsacks(tp, flow);
	tp->snd_ssthresh = max(ssthresh, 2U);
	/* In recovery as well: W would let TCP send again at once all that was lost. */
	tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), tp->snd_ssthresh));
	/* Classic asks for no prompt ACK, and the peer may delay that of one segment. After an RTO,
	 * which sets TCP_CA_Loss behind us, one segment is TCP's choice.
	 */
	if (why != HPCC_WHY_MUTED && inet_csk(sk)->icsk_ca_state != TCP_CA_Loss)
		tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), 2U));
	hpcc_algo_forget(&flow->algo);
	hpcc_fallback_leave(&flow->fallback, least, hpcc_lost(tp, flow));
	hpcc_enter_classic(sk, flow, mode);
	flow->why = why;
	hpcc_notify(sk, flow, HPCC_EVENT_FALLBACK);
}

static void hpcc_return(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	hpcc_algo_forget(&flow->algo);
	hpcc_algo_restart(&flow->algo, &flow->params,
			  (u64)tcp_snd_cwnd(tp) * tp->mss_cache << 16);
	hpcc_algo_slow(&flow->algo);
	flow->classic_cwnd = tcp_snd_cwnd(tp);
	hpcc_enter_telemetry(sk, flow);
	hpcc_count(sock_net(sk), HPCC_C_RETURNS);
	hpcc_notify(sk, flow, HPCC_EVENT_RETURN);
}

/* Have requests go another way. Something on the path may drop packets without data, or those that
 * are not TCP with options. Return: whether there was another way.
 */
static bool hpcc_try_next_carrier(struct sock *sk, struct hpcc_flow *flow)
{
	if (hpcc_carrier_is_probed(flow->carrier)) {
		hpcc_carrier_stop(sk, flow);
	} else if (flow->probes) {
		hpcc_probes_set(sk, flow, false);
		hpcc_count(sock_net(sk), HPCC_C_PROBES_STOPPED);
	} else if (flow->carrier) {
		hpcc_carrier_stop(sk, flow);
	} else {
		return false;
	}
	flow->silent_acks = 0;
	return true;
}

/* Where classic ends its slow start when telemetry has stopped: nothing told that the path takes
 * less than W. While W itself grows as in slow start, it does not tell what the path takes: classic
 * goes on with that, after an RTO up to half of what W was.
 */
static u32 hpcc_silent_ssthresh(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	if (!hpcc_algo_is_slow(&flow->algo, &flow->params))
		return tcp_snd_cwnd(tp);
	if (tcp_in_initial_slowstart(tp))
		return TCP_INFINITE_SSTHRESH;
	return max(tcp_snd_cwnd(tp), tp->snd_ssthresh / 2);
}

/**
 * hpcc_silent() - fall back where telemetry of use has stopped
 * @sk: socket that runs hpcc
 * @flow: its flow
 * @rs: what the ACK told
 * @ack: what its records told
 *
 * Where all records are ignored, or each is of another link than the one before, W would
 * stay as it is for as long as that goes on. The first record of a link measures nothing
 * either, but it is not silence, as the next one can be measured against it; unless there
 * are more of them than links before one is measured, though there were data to send. (Of
 * who sends now and then, each record may come too long after the last one.)
 *
 * Return: whether the connection runs classic now.
 */
bool hpcc_silent(struct sock *sk, struct hpcc_flow *flow,
		 const struct rate_sample *rs, const struct hpcc_ack *ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (likely(!(ack->bits & HPCC_ACK_NO_SAMPLE)) || flow->skipped) {
		if (flow->mode != HPCC_MODE_TELEMETRY)
			hpcc_set_mode(flow, HPCC_MODE_TELEMETRY);
		flow->silent_acks = 0;
		flow->new_links = 0;
		return false;
	}
	if (ack->bits & HPCC_ACK_NEW && (rs->is_app_limited || tp->app_limited)) {
		flow->silent_acks = 0;
		return false;
	}
	if (ack->bits & HPCC_ACK_NEW && flow->new_links < READ_ONCE(flow->hops)) {
		flow->new_links++;
		return false;
	}
	if (ack->n)
		hpcc_set_mode(flow, HPCC_MODE_STALE);
	if (!rs->acked_sacked)
		return false;
	if (!hpcc_count_silent(tp, flow) ||
	    tp->tcp_mstamp - flow->silent_since_us <=
	    (flow->rx_window_active ? hpcc_silent_window_rtts : hpcc_silent_rtts) *
	    (u64)(tp->srtt_us >> 3))
		return false;
	if (hpcc_remote_silent(sk, flow)) {
		flow->silent_acks = 0;
		return false;
	}
	if (unlikely(hpcc_try_next_carrier(sk, flow)))
		return false;
	hpcc_count(sock_net(sk), HPCC_C_FALLBACKS);
	hpcc_fall_back(sk, flow, HPCC_WHY_SILENCE,
		       flow->mode == HPCC_MODE_STALE || ack->informed ?
		       HPCC_MODE_CLASSIC_VERIFY : HPCC_MODE_CLASSIC,
		       HPCC_HOLD_SILENCE, hpcc_silent_ssthresh(tp, flow));
	return true;
}

/**
 * hpcc_unseen_loss() - fall back where no link with telemetry explains losses
 * @sk: socket that runs hpcc
 * @flow: its flow
 * @rs: what the ACK told
 *
 * What was lost may have been the segments with a trace.
 *
 * While the receiver computes W, few records come: a round trip of <hpcc/law/fallback.h> then lasts
 * until each hop has told whether it was busy.
 *
 * Return: whether the connection runs classic now.
 */
bool hpcc_unseen_loss(struct sock *sk, struct hpcc_flow *flow,
		      const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 window;

	if (likely(!hpcc_loss_ends(tp, flow, rs)))
		return false;
	hpcc_audit_begin(flow);
	if (likely(!hpcc_fallback_ack(&flow->fallback, &flow->algo,
				      tp->tcp_mstamp * NSEC_PER_USEC,
				      rs->prior_delivered, tp->delivered,
				      hpcc_lost(tp, flow), tp->snd_una)))
		return false;
	/* Half of what got through, as Reno answers a loss; after a return that failed no
	 * more than classic had before, so that a try takes nothing from others.
	 */
	if (unlikely(flow->carrier == HPCC_CARRIER_IOAM) && flow->silent_acks &&
	    READ_ONCE(flow->requests) - flow->silent_requests > hpcc_unanswered)
		hpcc_carrier_stop(sk, flow);
	window = max(hpcc_fallback_got(&flow->fallback, tp->delivered) / 2, 2U);
	if (hpcc_algo_is_slow(&flow->algo, &flow->params))
		window = min(window, flow->classic_cwnd);
	hpcc_count(sock_net(sk), HPCC_C_UNSEEN_LOSS);
	hpcc_fall_back(sk, flow, HPCC_WHY_UNSEEN_LOSS,
		       flow->mode == HPCC_MODE_STALE ? HPCC_MODE_CLASSIC_VERIFY :
						       HPCC_MODE_CLASSIC,
		       hpcc_fallback_cost(&flow->fallback, hpcc_lost(tp, flow),
					  window), window);
	return true;
}

/**
 * hpcc_rto() - an RTO: may be the path drops segments with our option
 * @sk: socket
 * @flow: its flow
 */
void hpcc_rto(struct sock *sk, struct hpcc_flow *flow)
{
	bool muted = hpcc_mute_rto(sk, flow);

	if (unlikely(flow->carrier == HPCC_CARRIER_IOAM))
		hpcc_ioam_rto(sk, flow);
	if (likely(!muted))
		return;
	hpcc_notify(sk, flow, HPCC_EVENT_MUTED);
	if (hpcc_runs_telemetry(flow))
		hpcc_fall_back(sk, flow, HPCC_WHY_MUTED, HPCC_MODE_CLASSIC, HPCC_HOLD_SILENCE,
			       tcp_sk(sk)->prior_cwnd / 2);
}

/* ---- Callbacks --------------------------------------------------------- */

/* Losses may have come before silence was noticed: then nothing else would bring records. */
static void hpcc_classic_round(struct sock *sk, struct hpcc_flow *flow)
{
	if (likely(!flow->carrier && !flow->probes))
		return;
	if (hpcc_mail_pending(flow))
		flow->silent_acks = 0;
	else if (hpcc_count_silent(tcp_sk(sk), flow))
		hpcc_try_next_carrier(sk, flow);
}

static void hpcc_classic_in_ack_event(struct sock *sk, u32 flags)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	hpcc_in_ack_event(sk, flags);
	if (!flow)
		return;
	hpcc_reserve_restore(sk, flow);
	if (unlikely(flow->carrier == HPCC_CARRIER_IOAM))
		hpcc_ioam_ack(tp, flow, false);
	if (after(tp->snd_una, flow->classic_seq)) {
		flow->classic_seq = tp->snd_nxt;
		hpcc_fallback_round(&flow->fallback);
		hpcc_classic_round(sk, flow);
	}
	if (unlikely(READ_ONCE(flow->muted)))
		hpcc_mute_ack(sk, flow);
	if (!flow->duplicates && flow->dup_score < hpcc_dup_score_max)
		hpcc_fallback_late(&flow->fallback, hpcc_lost(tp, flow));
	/* A record that waits while the flow is muted came before the RTO. */
	if (!hpcc_mail_pending(flow) || !hpcc_fallback_over(&flow->fallback) ||
	    READ_ONCE(flow->muted))
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

/* Not registered: hpcc_run() chooses it. Where the peer agreed, retransmissions are ECN-capable,
 * as hpcc's are: a receiver acknowledges a packet that is not ECN-capable at once.
 */
struct tcp_congestion_ops hpcc_classic_ops __read_mostly = {
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

/* Without TCP_CONG_NEEDS_ECN. */
struct tcp_congestion_ops hpcc_no_ecn_ops __read_mostly;
struct tcp_congestion_ops hpcc_classic_no_ecn_ops __read_mostly;

/**
 * hpcc_cc_init() - make the callbacks for connections without ECN
 */
void __init hpcc_cc_init(void)
{
	hpcc_no_ecn_ops = hpcc_ops;
	hpcc_no_ecn_ops.flags &= ~TCP_CONG_NEEDS_ECN;
	hpcc_classic_no_ecn_ops = hpcc_classic_ops;
	hpcc_classic_no_ecn_ops.flags &= ~TCP_CONG_NEEDS_ECN;
}

/**
 * hpcc_run() - choose a connection's callbacks
 * @sk: socket
 * @classic: Reno's response, not hpcc's
 * @agreed: the peer agreed to telemetry
 *
 * With TCP_CONG_NEEDS_ECN, TCP sets ECT in retransmissions and pure ACKs as well. Only a
 * connection that agreed and negotiated ECN has that; any other one follows RFC 3168, sections
 * 6.1.4 and 6.1.5. Before the SYN-ACK nothing is negotiated.
 *
 * Context: socket lock.
 */
void hpcc_run(struct sock *sk, bool classic, bool agreed)
{
	bool ecn = agreed && sk->sk_state != TCP_SYN_SENT && hpcc_ecn_is_negotiated(tcp_sk(sk));
	const struct tcp_congestion_ops *ops = ecn ? &hpcc_ops : &hpcc_no_ecn_ops;

	if (classic)
		ops = ecn ? &hpcc_classic_ops : &hpcc_classic_no_ecn_ops;
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, ops);
}
