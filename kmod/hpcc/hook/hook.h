/* SPDX-License-Identifier: GPL-2.0 */
/* The netfilter hooks, and their functions. */
#ifndef _HPCC_HOOK_HOOK_H
#define _HPCC_HOOK_HOOK_H

#include "control/agreement.h"

unsigned int hpcc_local_out(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);
unsigned int hpcc_local_in(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);

/* The options of a segment (option_in.c). */
u32 hpcc_options_in(struct hpcc_flow *flow, const struct hpcc_arrival *in, int at, u32 pos);
void hpcc_unseen_in(struct sock *sk, struct hpcc_flow *flow, const struct hpcc_arrival *in, int at,
		    u32 pos);

/* SYN and SYN-ACK (syn.c). */
void hpcc_syn_out(struct hpcc_segment *seg, struct sock *sk);
void hpcc_synack_out(struct hpcc_segment *seg, struct sock *sk);
void hpcc_syn_in(const struct hpcc_arrival *in);

/* The congestion control of a listener's child (listener.c). */
u32 hpcc_route_cc(struct net *net, u8 family, const struct hpcc_tuple *tuple,
		  int oif, u32 mark, const struct sock *listener);
bool hpcc_child_runs_hpcc(const struct sock *listener, u32 route_key);
const struct sock *hpcc_syn_acceptable(struct sk_buff *skb, const struct nf_hook_state *state,
				       const struct tcphdr *th, const struct hpcc_tuple *tuple);

#endif /* _HPCC_HOOK_HOOK_H */
