// SPDX-License-Identifier: GPL-2.0
/*
 * The table of routes: parameters by the peer's address.
 *
 * A kernel route can name a congestion control, but has no field for other parameters. So each
 * network namespace has a short table of prefixes. An entry sets some parameters of struct
 * hpcc_peer_policy for the peers in a prefix. The longest prefix applies. The sysctls apply to
 * other peers, and to a parameter that the entry does not set.
 *
 * A connection reads the table only at its SYN or SYN-ACK, when it is established, and when its T
 * changes. So a linear search is enough: the table (observe/tables.c) has the longest prefixes
 * first.
 *
 * IPv4 addresses are IPv4-mapped IPv6 addresses, as in all of this module.
 */
#include <linux/export.h>
#include <hpcc/compat.h>

#include "netns/table.h"

/**
 * hpcc_peer_policy_for() - parameters of connections with an address
 * @net: network namespace
 * @peer: the address
 */
struct hpcc_peer_policy __cold
hpcc_peer_policy_for(const struct net *net, const struct in6_addr *peer)
{
	const struct hpcc_net *hn = hpcc_pernet(net);
	struct hpcc_peer_policy policy;
	const struct hpcc_route *route;
	u32 i;

	/* Each word is valid alone; readers need no consistent set. */
	policy = data_race(hn->sysctls.peer);
	rcu_read_lock();
	route = hpcc_table_match(rcu_dereference(hn->tables[HPCC_TABLE_ROUTES]), sizeof(*route),
				 peer);
	for (i = 0; route && i < HPCC_PEER_VALUES; i++)
		if (route->values[i] != HPCC_ROUTE_OPEN)
			((u32 *)&policy)[i] = route->values[i];
	rcu_read_unlock();
	return policy;
}
EXPORT_SYMBOL_GPL(hpcc_peer_policy_for);

/**
 * hpcc_peer_policy_of() - parameters of a connection, by the address of its peer
 * @sk: full or request socket
 */
struct hpcc_peer_policy __cold hpcc_peer_policy_of(const struct sock *sk)
{
	struct in6_addr laddr, raddr;

	hpcc_sock_addrs(sk, &laddr, &raddr);
	return hpcc_peer_policy_for(sock_net(sk), &raddr);
}
