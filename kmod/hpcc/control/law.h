/* SPDX-License-Identifier: GPL-2.0 */
/* Parameters and W of a connection (law.c). */
#ifndef _HPCC_CONTROL_LAW_H
#define _HPCC_CONTROL_LAW_H

#include "control/cc.h"

void hpcc_law_begin(struct sock *sk, struct hpcc_flow *flow);
void hpcc_law_slow(const struct sock *sk, struct hpcc_flow *flow);
void hpcc_law_new_T(struct sock *sk, struct hpcc_flow *flow);
void hpcc_law_rto(struct sock *sk, struct hpcc_flow *flow);
void hpcc_law_undo(struct hpcc_flow *flow);
void hpcc_law_count(struct sock *sk, struct hpcc_flow *flow, u32 bits);
bool hpcc_measure_only(struct sock *sk, struct hpcc_flow *flow);

/* The ACK number that ends a round trip, if it is above last_update_seq. If no data are in flight,
 * the answer to a probe ends a round trip.
 */
static inline u32 hpcc_round_seq(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	u64 since_ns = ((u32)tp->tcp_mstamp - flow->full_us) * (u64)NSEC_PER_USEC;

	if (!hpcc_wc_update_allowed(&flow->params, since_ns, flow->settle))
		return flow->algo.last_update_seq;
	return tp->snd_una + (flow->probes && !tp->packets_out);
}

/* Update W_ai if N has changed. @now_us: tcp_mstamp. */
static inline void hpcc_law_follow_N(struct hpcc_flow *flow, u64 now_us)
{
	flow->params.W_ai_q16 = hpcc_follow_N(flow, now_us);
}

#endif /* _HPCC_CONTROL_LAW_H */
