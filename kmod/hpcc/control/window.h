/* SPDX-License-Identifier: GPL-2.0 */
/* Cwnd, pacing rate and bursts from W (window.c). */
#ifndef _HPCC_CONTROL_WINDOW_H
#define _HPCC_CONTROL_WINDOW_H

#include "flow/flow.h"

/* All functions run under the socket lock. */

/* W, T or cwnd changed without a record: let the next ACK apply W. */
static inline void hpcc_window_changed(struct hpcc_flow *flow)
{
	flow->dirty = true;
}

/* Whether W is converging: each segment carries a request, and bursts are short. */
static inline void hpcc_set_searching(struct hpcc_flow *flow, bool searching)
{
	WRITE_ONCE(flow->searching, searching);
}

/* Start the first round trips, in which W is converging. @now_us: tcp_mstamp. */
static inline void hpcc_search_since(struct hpcc_flow *flow, u64 now_us)
{
	flow->began_us = now_us;
}

/* Start packet conservation for the first round trip of a recovery. */
static inline void hpcc_conserve_begin(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	flow->conserving = true;
	flow->conserve_delivered = tp->delivered;
	flow->conserve_sent = tp->packets_out;
	/* TCP has marked these losses, but has not retransmitted them yet: hpcc_lost() has them. */
	flow->conserve_lost = tp->total_retrans - flow->loss.dsacked;
}

static inline void hpcc_conserve_end(struct hpcc_flow *flow)
{
	flow->conserving = false;
}

void hpcc_burst_follow_T(struct sock *sk, struct hpcc_flow *flow, u32 T_ns, u64 B_host);
u64 hpcc_W_min(const struct sock *sk, u64 W_init_q16, u32 T_ns, u32 rtt_ns, u32 base_rtt_ns,
	       u32 start_rtt_ns);
u32 hpcc_cwnd(struct sock *sk, struct hpcc_flow *flow);
void hpcc_set_rate(struct sock *sk, const struct hpcc_flow *flow, bool clocked);
void hpcc_apply(struct sock *sk, struct hpcc_flow *flow, const struct rate_sample *rs);

#endif /* _HPCC_CONTROL_WINDOW_H */
