/* SPDX-License-Identifier: GPL-2.0 */
/* The congestion control of a listener's child (listener.c). */
#ifndef _HPCC_HOOK_LISTENER_H
#define _HPCC_HOOK_LISTENER_H

#include <net/tcp.h>

#include "control/agreement.h"

u32 hpcc_route_cc(struct net *net, u8 family, const struct hpcc_tuple *tuple,
		  int oif, u32 mark, const struct sock *listener);
bool hpcc_child_runs_hpcc(const struct sock *listener, u32 route_key);
const struct sock *hpcc_syn_acceptable(struct sk_buff *skb, const struct nf_hook_state *state,
				       const struct tcphdr *th, const struct hpcc_tuple *tuple);

#endif /* _HPCC_HOOK_LISTENER_H */
