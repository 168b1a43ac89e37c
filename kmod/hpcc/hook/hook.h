/* SPDX-License-Identifier: GPL-2.0 */
/* The netfilter hooks (local_in.c, local_out.c), and the options of a segment (option_in.c). */
#ifndef _HPCC_HOOK_HOOK_H
#define _HPCC_HOOK_HOOK_H

#include "packet/arrival.h"

u32 hpcc_options_in(struct hpcc_flow *flow, const struct hpcc_arrival *in, int at, u32 pos);
void hpcc_unseen_in(struct sock *sk, struct hpcc_flow *flow, const struct hpcc_arrival *in, int at,
		    u32 pos);
unsigned int hpcc_local_out(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);
unsigned int hpcc_local_in(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);

#endif /* _HPCC_HOOK_HOOK_H */
