// SPDX-License-Identifier: GPL-2.0
/*
 * Losses that no link with telemetry explains: <hpcc/law/fallback.h> says which these are. ack.c
 * asks with each ACK, and classic.c acts on the answer.
 *
 * All of this is under the socket lock.
 */
#include <net/tcp.h>

#include "control/loss.h"
#include "telemetry/mailbox.h"

/* Fallbacks that are fewer round trips apart have one reason. */
static const u32 hpcc_far_rounds = 32;

/* Suspicion from which on nothing is late: 2 for each of them after which too little came
 * twice, as copies may still be on their way; less 1 for each other.
 */
static const int hpcc_dup_score_max = 6;

/* Late packets beyond 1/32 of what is delivered that excuse losses. */
static const s64 hpcc_dsack_excess_max = 64 << HPCC_LOSS_SHIFT;

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

/**
 * hpcc_lost() - packets lost: sent again or about to be, less those that were only late
 * @tp: socket
 * @flow: its flow
 */
u32 hpcc_lost(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	u32 marked = tp->lost_out - min(tp->retrans_out, tp->lost_out);

	return tp->total_retrans + marked - flow->dsacked;
}

/**
 * hpcc_watch_loss() - count losses from now on
 * @tp: socket
 * @flow: its flow
 */
void hpcc_watch_loss(const struct tcp_sock *tp, struct hpcc_flow *flow)
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

/**
 * hpcc_loss_follow_T() - how many packets may be lost on a busy link depends on W_init
 * @tp: socket
 * @flow: its flow
 * @W_init_q16: bytes, Q16
 */
void hpcc_loss_follow_T(const struct tcp_sock *tp, struct hpcc_flow *flow, u64 W_init_q16)
{
	flow->fallback.window = div_u64(W_init_q16 >> 16, max(tp->mss_cache, 1U));
}

/**
 * hpcc_loss_rto() - an RTO
 * @tp: socket
 * @flow: its flow
 */
void hpcc_loss_rto(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	if (!hpcc_algo_is_slow(&flow->algo, &flow->params))
		flow->classic_cwnd = ~0U;
	hpcc_fallback_rto(&flow->fallback, tp->snd_nxt);
}

/**
 * hpcc_unseen_loss() - whether no link with telemetry explains losses
 * @tp: socket that runs hpcc
 * @flow: its flow
 * @rs: what the ACK told
 *
 * What was lost may have been the segments with a trace.
 *
 * While the receiver computes W, few records come: a round trip of <hpcc/law/fallback.h> then lasts
 * until each hop has told whether it was busy.
 */
bool hpcc_unseen_loss(const struct tcp_sock *tp, struct hpcc_flow *flow,
		      const struct rate_sample *rs)
{
	if (likely(!hpcc_loss_ends(tp, flow, rs)))
		return false;
	hpcc_audit_begin(flow);
	return hpcc_fallback_ack(&flow->fallback, &flow->algo, tp->tcp_mstamp * NSEC_PER_USEC,
				 rs->prior_delivered, tp->delivered, hpcc_lost(tp, flow),
				 tp->snd_una);
}

/**
 * hpcc_loss_window() - the window of classic after losses that nothing explains
 * @tp: socket
 * @flow: its flow
 *
 * Half of what got through, as Reno answers a loss; after a return that failed no more than classic
 * had before, so that a try takes nothing from others.
 *
 * Return: segments.
 */
u32 hpcc_loss_window(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	u32 window = max(hpcc_fallback_got(&flow->fallback, tp->delivered) / 2, 2U);

	if (hpcc_algo_is_slow(&flow->algo, &flow->params))
		window = min(window, flow->classic_cwnd);
	return window;
}

/**
 * hpcc_judge_dsacks() - judge whether the path duplicates packets, at a fallback
 * @tp: socket
 * @flow: its flow
 *
 * A path that duplicates packets makes losses look late, for TCP as well; then late packets
 * may not end a fallback. Such a path is known by more copies than were sent twice; or, where
 * some fallbacks follow each other closely, by packets that were sent twice and did not come
 * twice: on a path where packets are late nearly all do. Of each number the last fallback's
 * counts half as much as what came since.
 */
void hpcc_judge_dsacks(const struct tcp_sock *tp, struct hpcc_flow *flow)
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

/**
 * hpcc_loss_leave() - the connection falls back
 * @tp: socket
 * @flow: its flow
 * @least: round trips of classic, at least
 */
void hpcc_loss_leave(const struct tcp_sock *tp, struct hpcc_flow *flow, u32 least)
{
	hpcc_fallback_leave(&flow->fallback, least, hpcc_lost(tp, flow));
}

/**
 * hpcc_loss_late() - an ACK came in classic: losses that were only late may end the fallback
 * @tp: socket
 * @flow: its flow
 */
void hpcc_loss_late(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	if (!flow->duplicates && flow->dup_score < hpcc_dup_score_max)
		hpcc_fallback_late(&flow->fallback, hpcc_lost(tp, flow));
}
