/* SPDX-License-Identifier: GPL-2.0 */
/* Losses that no link with telemetry explains (loss.c). */
#ifndef _HPCC_CONTROL_LOSS_H
#define _HPCC_CONTROL_LOSS_H

#include "flow/flow.h"

/* If the receiver computes W, few records arrive: the judgment of losses waits for the load of all
 * hops, at most this many T.
 */
#define HPCC_AUDIT_AGE_T	128

/* Whether an ACK ends a round trip for the judgment of losses. */
static inline bool hpcc_loss_ends(const struct tcp_sock *tp, struct hpcc_flow *flow,
				  const struct rate_sample *rs)
{
	if (!rs->prior_mstamp ||
	    !hpcc_fallback_ends(&flow->fallback, &flow->algo, rs->prior_delivered))
		return false;
	return likely(!flow->rx_window_active) ||
	       !((BIT(READ_ONCE(flow->hops)) - 1) & ~flow->audit_seen) ||
	       tp->tcp_mstamp * NSEC_PER_USEC - flow->fallback.round_start >
	       flow->params.T * HPCC_AUDIT_AGE_T;
}

/* Start to count DSACKs. Classic's window has no limit yet. */
static inline void hpcc_loss_begin(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	flow->tlp.dsacks = tp->dsack_dups;
	flow->loss.classic_cwnd = ~0U;
}

/* If the return to telemetry fails, classic's window is at most @cwnd; ~0: no limit. */
static inline void hpcc_loss_cap(struct hpcc_flow *flow, u32 cwnd)
{
	flow->loss.classic_cwnd = cwnd;
}

/* Set the minimum duration of classic, in round trips. Call after hpcc_watch_loss(). */
static inline void hpcc_loss_hold(struct hpcc_flow *flow, u32 hold)
{
	flow->fallback.hold = hold;
}

void hpcc_count_dsack(const struct tcp_sock *tp, struct hpcc_flow *flow);

/* An ACK arrived: count its DSACKs, and track the tail loss probe. */
static inline void hpcc_loss_ack(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	if (unlikely(tp->dsack_dups != flow->tlp.dsacks))
		hpcc_count_dsack(tp, flow);
	hpcc_tlp_ack(&flow->tlp, tp);
}

u32 hpcc_lost(const struct tcp_sock *tp, const struct hpcc_flow *flow);
void hpcc_watch_loss(const struct tcp_sock *tp, struct hpcc_flow *flow);
void hpcc_loss_follow_T(const struct tcp_sock *tp, struct hpcc_flow *flow, u64 W_init_q16);
void hpcc_loss_rto(const struct tcp_sock *tp, struct hpcc_flow *flow);
bool hpcc_unseen_loss(const struct tcp_sock *tp, struct hpcc_flow *flow,
		      const struct rate_sample *rs);
u32 hpcc_loss_window(const struct tcp_sock *tp, const struct hpcc_flow *flow);
void hpcc_loss_late(const struct tcp_sock *tp, struct hpcc_flow *flow);

#endif /* _HPCC_CONTROL_LOSS_H */
