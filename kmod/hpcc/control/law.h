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

/* Update W_ai if N has changed. @now_us: tcp_mstamp. */
static inline void hpcc_law_follow_N(struct hpcc_flow *flow, u64 now_us)
{
	flow->params.W_ai_q16 = hpcc_follow_N(flow, now_us);
}

#endif /* _HPCC_CONTROL_LAW_H */
