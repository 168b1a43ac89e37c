/* SPDX-License-Identifier: GPL-2.0 */
/* Netfilter hooks (option_tx.c, option_rx.c). */
#ifndef _HPCC_HPCC_HOOKS_H
#define _HPCC_HPCC_HOOKS_H

#include <linux/netfilter.h>
#include <linux/skbuff.h>

void hpcc_set_ip_length(struct sk_buff *skb, u8 family);
unsigned int hpcc_local_out(void *priv, struct sk_buff *skb,
			    const struct nf_hook_state *state);
unsigned int hpcc_local_in(void *priv, struct sk_buff *skb,
			   const struct nf_hook_state *state);

#endif /* _HPCC_HPCC_HOOKS_H */
