/* SPDX-License-Identifier: GPL-2.0 */
/* Direct responses of switches (switch_response.c). */
#ifndef _HPCC_CONTROL_SWITCH_RESPONSE_H
#define _HPCC_CONTROL_SWITCH_RESPONSE_H

#include <hpcc/law/response.h>

#include "control/cc.h"
#include "packet/arrival.h"

static inline bool hpcc_has_no_tcp_flags(const struct tcphdr *th)
{
	return !tcp_flag_byte(th);
}

static inline bool hpcc_response_pending(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->response) & HPCC_RESPONSE_PENDING;
}

bool hpcc_response_ok(const struct hpcc_flow *flow, const struct tcp_sock *tp,
		      const struct hpcc_arrival *in);
void hpcc_response_in(struct sock *sk, struct hpcc_flow *flow, const struct hpcc_arrival *in,
		      int at, u32 pos);
bool hpcc_response_stray(const struct hpcc_arrival *in, int at, u32 pos);
void hpcc_response_take(struct sock *sk, struct hpcc_flow *flow);

#endif /* _HPCC_CONTROL_SWITCH_RESPONSE_H */
