/* SPDX-License-Identifier: GPL-2.0 */
/* Agreement of both ends (handshake.c), and what a listener's child will run (listener.c). */
#ifndef _HPCC_HOOK_HANDSHAKE_H
#define _HPCC_HOOK_HANDSHAKE_H

#include <linux/in6.h>
#include <net/tcp.h>

#include "packet/segment.h"

/**
 * struct hpcc_tuple - a connection as this host sees it
 * @laddr: local address, IPv4 as its mapped IPv6 form
 * @raddr: remote address
 * @lport: local port
 * @rport: remote port
 */
struct hpcc_tuple {
	struct in6_addr laddr;
	struct in6_addr raddr;
	__be16 lport;
	__be16 rport;
};

void hpcc_tuple_of_sock(const struct sock *sk, struct hpcc_tuple *tuple);

void hpcc_handshake_init(void);
void hpcc_syn_out(struct hpcc_segment *seg, struct sock *sk);
void hpcc_synack_out(struct hpcc_segment *seg, struct sock *sk);
void hpcc_syn_in(const struct hpcc_arrival *in);
u16 hpcc_agreed(const struct sock *sk, u32 *prior_hold, u8 *kind);
void hpcc_agreement_save(const struct sock *sk, u32 prior_hold, u16 caps, u8 kind);

u32 hpcc_route_cc(struct net *net, u8 family, const struct hpcc_tuple *tuple,
		  int oif, u32 mark, const struct sock *listener);
bool hpcc_child_runs_hpcc(const struct sock *listener, u32 route_key);
const struct sock *hpcc_syn_acceptable(struct sk_buff *skb, const struct nf_hook_state *state,
				       const struct tcphdr *th, const struct hpcc_tuple *tuple);

#endif /* _HPCC_HOOK_HANDSHAKE_H */
