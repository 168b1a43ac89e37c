/* SPDX-License-Identifier: GPL-2.0 */
/* N, the number of flows that a receiver counts (census.c). */
#ifndef _HPCC_CONTROL_CENSUS_H
#define _HPCC_CONTROL_CENSUS_H

#include "flow/flow.h"

bool hpcc_report_due(struct hpcc_flow *flow, const struct tcp_sock *tp, const struct net *net);
int hpcc_report_in(struct hpcc_flow *flow, const struct hpcc_opt *opt, const u8 *records);
u64 hpcc_set_N(struct hpcc_flow *flow, u64 W_ai_one_q16, u32 n_flows, u64 was_q16);
u64 hpcc_follow_N(struct hpcc_flow *flow, u32 now_us);
void hpcc_count_N(struct hpcc_flow *flow, const struct sock *sk, const struct hpcc_algo *a,
		  struct hpcc_params *p, u64 W_ai_one_q16);

#endif /* _HPCC_CONTROL_CENSUS_H */
