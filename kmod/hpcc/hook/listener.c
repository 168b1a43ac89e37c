// SPDX-License-Identifier: GPL-2.0
/* Predict the congestion control of a listener's child, before the child exists. */
#include <linux/ipv6.h>
#include <net/ip6_route.h>
#include <net/route.h>
#include <hpcc/compat.h>

#include "control/cc.h"
#include "hook/hook.h"

static struct dst_entry * __cold hpcc_route(struct net *net, u8 family,
					    const struct hpcc_tuple *tuple,
					    int oif, u32 mark, kuid_t uid)
{
	struct flowi4 fl4 = {
		.flowi4_oif = oif,
		.flowi4_mark = mark,
		.flowi4_proto = IPPROTO_TCP,
		.flowi4_flags = FLOWI_FLAG_ANYSRC,
		.flowi4_uid = uid,
		.daddr = tuple->raddr.s6_addr32[3],
		.saddr = tuple->laddr.s6_addr32[3],
		.fl4_dport = tuple->rport,
		.fl4_sport = tuple->lport,
	};
	struct rtable *rt;

	if (IS_ENABLED(CONFIG_IPV6) && family == NFPROTO_IPV6) {
		struct flowi6 fl6 = {
			.flowi6_oif = oif,
			.flowi6_mark = mark,
			.flowi6_proto = IPPROTO_TCP,
			.flowi6_uid = uid,
			.daddr = tuple->raddr,
			.saddr = tuple->laddr,
			.fl6_dport = tuple->rport,
			.fl6_sport = tuple->lport,
		};

		return ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	}
	rt = ip_route_output_flow(net, &fl4, NULL);
	return IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
}

/**
 * hpcc_route_cc() - the congestion control in the route to a peer
 * @net: network namespace
 * @family: NFPROTO_IPV4 or NFPROTO_IPV6
 * @tuple: the connection
 * @oif: device or VRF to which the connection is bound, or 0
 * @mark: mark of its packets
 * @listener: the listener, for routing rules by user; may be NULL
 * Context: RCU read side.
 * Return: its key, or TCP_CA_UNSPEC.
 */
u32 __cold hpcc_route_cc(struct net *net, u8 family, const struct hpcc_tuple *tuple,
			 int oif, u32 mark, const struct sock *listener)
{
	struct dst_entry *dst = hpcc_route(net, family, tuple, oif, mark,
					   sock_net_uid(net, listener));
	u32 key;

	if (IS_ERR(dst))
		return TCP_CA_UNSPEC;
	key = dst_metric(dst, RTAX_CC_ALGO);
	dst_release(dst);
	return key;
}

/* As in tcp_conn_request() and tcp_v6_init_req(): a link-local peer is on the SYN's link. */
static int hpcc_request_oif(const struct sock *listener, struct sk_buff *skb, u8 family)
{
	if (IS_ENABLED(CONFIG_IPV6) && family == NFPROTO_IPV6 &&
	    ipv6_addr_type(&ipv6_hdr(skb)->saddr) & IPV6_ADDR_LINKLOCAL)
		return inet6_iif(skb);
	return inet_request_bound_dev_if(listener, skb);
}

/* setsockopt() may change neighbouring bits concurrently. */
static __no_kcsan bool hpcc_ca_chosen(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_setsockopt;
}

/* Whether a child will run hpcc: precedence as in tcp_ca_openreq_child(). @listener: the listener;
 * may be NULL. @route_key: congestion control in the route to the peer, or TCP_CA_UNSPEC. Context:
 * RCU read side.
 */
bool __cold hpcc_child_runs_hpcc(const struct sock *listener, u32 route_key)
{
	if (route_key != TCP_CA_UNSPEC)
		return route_key == hpcc_ops.key || route_key == READ_ONCE(hpcc_law.other_key);
	if (!listener)
		return false;
	if (hpcc_ca_chosen(listener))
		return hpcc_is_ours(listener);
	return hpcc_ops_are_ours(rcu_dereference(sock_net(listener)->ipv4.tcp_congestion_control));
}

/* Whether a SYN at LOCAL_IN may begin a connection with hpcc. @th: TCP header of the packet.
 * Context: RCU read side. Return: the listener, or NULL.
 */
const struct sock __cold *
hpcc_syn_acceptable(struct sk_buff *skb, const struct nf_hook_state *state,
		    const struct tcphdr *th, const struct hpcc_tuple *tuple)
{
	const struct sock *listener = skb->sk;
	u32 route_key;

	if (!listener || READ_ONCE(listener->sk_state) != TCP_LISTEN)
		listener = hpcc_lookup_listener(state->net, state->pf, skb, th);
	if (!listener)
		return NULL;
	route_key = hpcc_route_cc(state->net, state->pf, tuple,
				  hpcc_request_oif(listener, skb, state->pf),
				  inet_request_mark(listener, skb), listener);
	return hpcc_child_runs_hpcc(listener, route_key) ? listener : NULL;
}
