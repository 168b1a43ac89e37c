/* SPDX-License-Identifier: GPL-2.0 */
/* Functions of struct hpcc_receiver_ops for senders (remote.c). */
#ifndef _HPCC_CONTROL_REMOTE_H
#define _HPCC_CONTROL_REMOTE_H

#include "flow/flow.h"

void hpcc_remote_begin(struct sock *sk, struct hpcc_flow *flow);
void hpcc_remote_follow_T(struct sock *sk, struct hpcc_flow *flow);
void hpcc_remote_tick(struct sock *sk, struct hpcc_flow *flow);
bool hpcc_remote_take(struct sock *sk, struct hpcc_flow *flow);
void hpcc_remote_stop(struct sock *sk, struct hpcc_flow *flow);
void hpcc_remote_silent(struct sock *sk, struct hpcc_flow *flow);
bool hpcc_params_due(const struct hpcc_flow *flow, const struct tcp_sock *tp);
u32 hpcc_params_write(struct hpcc_flow *flow, const struct tcp_sock *tp, u8 *p);
int hpcc_window_in(struct hpcc_flow *flow, const struct net *net, u64 word);

#endif /* _HPCC_CONTROL_REMOTE_H */
