// SPDX-License-Identifier: GPL-2.0
/* Losses that no link with telemetry explains (<hpcc/law/fallback.h>). Under the socket lock. */
#include "control/loss.h"
#include "telemetry/mailbox.h"

/* Maximum of hpcc_flow.dsack_excess: late packets above this number still count as lost. */
static const s64 hpcc_dsack_excess_max = 64 << HPCC_LOSS_SHIFT;

/* For each ACK with a DSACK: count the packets that the peer received twice. These packets were
 * only late. The count is at most the number of packets that TCP has sent twice: a larger count
 * would hide later losses. hpcc_dsack_excess_max limits a peer that hides load and reports every
 * retransmission as a duplicate. Call this before hpcc_tlp_ack().
 */
void hpcc_count_dsack(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	u32 dsacks = tp->dsack_dups - flow->tlp.dsacks;

	/* The peer received more packets twice than TCP sent twice: the path duplicates packets. */
	if (tp->dsack_dups > tp->total_retrans)
		flow->loss.duplicates = true;
	flow->loss.dsack_excess = max_t(s64, flow->loss.dsack_excess -
					(tp->delivered - flow->loss.dsack_delivered), 0);
	flow->loss.dsack_delivered = tp->delivered;
	if (flow->loss.duplicates || flow->loss.dsack_excess > hpcc_dsack_excess_max)
		return;
	/* One DSACK block may cover a whole window: count only up to the limit. */
	dsacks = min_t(s64, dsacks,
		       1 + ((hpcc_dsack_excess_max - flow->loss.dsack_excess) >> HPCC_LOSS_SHIFT));
	flow->loss.dsack_excess += (s64)dsacks << HPCC_LOSS_SHIFT;
	flow->loss.dsacked = min(flow->loss.dsacked + dsacks, tp->total_retrans);
}

/* Packets retransmitted or marked as lost, minus late packets. */
u32 hpcc_lost(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	u32 marked = tp->lost_out - min(tp->retrans_out, tp->lost_out);

	return tp->total_retrans + marked - flow->loss.dsacked;
}

/* Count losses from now on. */
void hpcc_watch_loss(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	hpcc_fallback_start(&flow->fallback, &flow->algo, tp->tcp_mstamp * NSEC_PER_USEC,
			    tp->delivered, hpcc_lost(tp, flow));
}

/* Update the limit of losses on busy links, which depends on W_init. @W_init_q16: bytes, Q16. */
void hpcc_loss_follow_T(const struct tcp_sock *tp, struct hpcc_flow *flow, u64 W_init_q16)
{
	flow->fallback.window = div_u64(W_init_q16 >> 16, max(tp->mss_cache, 1U));
}

/* An RTO fired: limit the losses that count until the data in flight are acknowledged. */
void __cold hpcc_loss_rto(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	if (!hpcc_algo_is_slow(&flow->algo, &flow->params))
		flow->loss.classic_cwnd = ~0U;
	hpcc_fallback_rto(&flow->fallback, tp->snd_nxt);
}

/* For an ACK in hpcc: whether there are losses that no link with telemetry explains. */
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

/* Classic's window, in segments, after losses that no link with telemetry explains: half of the
 * packets delivered in a round trip, as in Reno. If a busy link explained windows of losses before,
 * it is halved once for each, because Reno would have done so. After a failed return it is at most
 * classic's previous window, so that a return takes no bandwidth from other flows.
 */
u32 hpcc_loss_window(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	u32 halvings = hpcc_fallback_beyond(&flow->fallback) ? HPCC_LOSS_WINDOWS : 1;
	u32 window = max(hpcc_fallback_got(&flow->fallback, tp->delivered) >> halvings, 2U);

	if (hpcc_algo_is_slow(&flow->algo, &flow->params))
		window = min(window, flow->loss.classic_cwnd);
	return window;
}

/* For an ACK in classic: end the fallback if its losses were late packets. */
void hpcc_loss_late(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	if (!flow->loss.duplicates)
		hpcc_fallback_late(&flow->fallback, hpcc_lost(tp, flow));
}
