/* SPDX-License-Identifier: GPL-2.0 */
/* Agreement of both ends (agree.c), and what a listener's child will run (listener.c). */
#ifndef _HPCC_HPCC_AGREE_H
#define _HPCC_HPCC_AGREE_H

#include <linux/in6.h>
#include <linux/netfilter.h>
#include <net/tcp.h>

#include "net.h"

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

/**
 * hpcc_agree_ready() - whether a network namespace has a table for notes
 * @net: the namespace
 *
 * Return: true if it has.
 */
static inline bool hpcc_agree_ready(const struct net *net)
{
	return rcu_access_pointer(hpcc_pernet(net)->agreements);
}

void hpcc_agree_init(void);
void hpcc_agree_offer(const struct net *net, const struct hpcc_tuple *tuple,
		      u32 irs);
bool hpcc_agree_offered(const struct net *net, const struct hpcc_tuple *tuple,
			u32 irs);
void hpcc_agree_done(const struct net *net, const struct hpcc_tuple *tuple,
		     u32 irs, u32 past, bool alloc);
bool hpcc_agree_take(const struct net *net, const struct hpcc_tuple *tuple,
		     u32 irs, u32 *past);
void hpcc_tuple_of_sock(const struct sock *sk, struct hpcc_tuple *tuple);

/**
 * hpcc_irs() - the peer's initial sequence number
 * @tp: connected socket, under its lock
 *
 * TCP does not keep it, but counts all that it has received since, a FIN included.
 */
static inline u32 hpcc_irs(const struct tcp_sock *tp)
{
	return tp->rcv_nxt - 1 - (u32)tp->bytes_received;
}

u32 hpcc_route_cc(struct net *net, u8 family, const struct hpcc_tuple *tuple,
		  int oif, u32 mark, const struct sock *listener);
bool hpcc_child_runs_hpcc(const struct sock *listener, u32 route_key);
bool hpcc_syn_welcome(struct sk_buff *skb,
		      const struct nf_hook_state *state,
		      const struct tcphdr *th, const struct hpcc_tuple *tuple);

#endif /* _HPCC_HPCC_AGREE_H */
