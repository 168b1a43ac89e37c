/* SPDX-License-Identifier: GPL-2.0 */
/* Which congestion response a connection runs (classic.c). */
#ifndef _HPCC_CONTROL_CLASSIC_H
#define _HPCC_CONTROL_CLASSIC_H

#include <net/tcp.h>

#include "control/silence.h"
#include "flow/flow.h"

void hpcc_enter_telemetry(struct sock *sk, struct hpcc_flow *flow);
void hpcc_begin_classic(struct sock *sk, struct hpcc_flow *flow, u32 hold);
bool hpcc_follow_records(struct sock *sk, struct hpcc_flow *flow, enum hpcc_records usable,
			 const struct hpcc_ack *ack);
void hpcc_answer_loss(struct sock *sk, struct hpcc_flow *flow);
void hpcc_rto(struct sock *sk, struct hpcc_flow *flow);

#endif /* _HPCC_CONTROL_CLASSIC_H */
