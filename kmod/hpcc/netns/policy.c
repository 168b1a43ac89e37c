// SPDX-License-Identifier: GPL-2.0
/*
 * The table of routes: parameters by the peer's address.
 *
 * A kernel route can name a congestion control, but has no field for other parameters. So each
 * network namespace has a short table of prefixes. An entry sets net.hpcc.where, net.hpcc.carrier
 * or both for the peers in a prefix. The longest prefix applies. The sysctls apply to other peers,
 * and to a parameter that the entry does not set.
 *
 * A connection reads the table only at its SYN or SYN-ACK, and when it is established. So a linear
 * search is enough: the table (table.c) has the longest prefixes first.
 *
 * IPv4 addresses are IPv4-mapped IPv6 addresses, as in all of this module.
 */
#include <linux/export.h>
#include <net/ipv6.h>
#include <hpcc/compat.h>

#include "netns/addr.h"
#include "netns/policy.h"
#include "netns/table.h"

/* Bounds the time of a search. */
#define HPCC_ROUTES_MAX	200

#define HPCC_MAPPED_LEN	96

/* The route does not set the parameter. */
#define HPCC_ROUTE_OPEN	-1

/* A route. @where and @carrier: value as in the sysctl, or HPCC_ROUTE_OPEN. */
struct hpcc_route {
	struct in6_addr prefix;	/* all bits after the first @len are 0 */
	u8 len;			/* bits */
	s8 where;
	s8 carrier;
};

/**
 * hpcc_peer_policy_for() - parameters of connections with an address
 * @net: network namespace
 * @peer: the address
 */
struct hpcc_peer_policy hpcc_peer_policy_for(const struct net *net, const struct in6_addr *peer)
{
	const struct hpcc_net *hn = hpcc_pernet(net);
	struct hpcc_peer_policy policy = {
		.where = READ_ONCE(hn->sysctls.where),
		.carrier = READ_ONCE(hn->sysctls.carrier),
	};
	const struct hpcc_route *route;
	const struct hpcc_table *table;
	u32 i;

	rcu_read_lock();
	table = rcu_dereference(hn->tables[HPCC_TABLE_ROUTES]);
	route = table ? (const void *)table->entries : NULL;
	for (i = 0; table && i < table->nr; i++, route++) {
		if (!ipv6_prefix_equal(peer, &route->prefix, route->len))
			continue;
		if (route->where != HPCC_ROUTE_OPEN)
			policy.where = route->where;
		if (route->carrier != HPCC_ROUTE_OPEN)
			policy.carrier = route->carrier;
		break;
	}
	rcu_read_unlock();
	return policy;
}
EXPORT_SYMBOL_GPL(hpcc_peer_policy_for);

/**
 * hpcc_peer_policy_of() - parameters of a connection, by the address of its peer
 * @sk: full or request socket
 */
struct hpcc_peer_policy hpcc_peer_policy_of(const struct sock *sk)
{
	struct in6_addr laddr, raddr;

	hpcc_sock_addrs(sk, &laddr, &raddr);
	return hpcc_peer_policy_for(sock_net(sk), &raddr);
}

/**
 * hpcc_addr_validate() - check an IPv4 or IPv6 address
 * @attr: attribute with the address
 * @extack: for the error message
 */
int hpcc_addr_validate(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	if (nla_len(attr) == sizeof(struct in_addr) || nla_len(attr) == sizeof(struct in6_addr))
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, attr, "an address has 4 or 16 bytes");
	return -EINVAL;
}

static const struct nla_policy hpcc_route_policy[HPCC_A_ROUTE_MAX + 1] = {
	[HPCC_A_ROUTE_PREFIX]	= NLA_POLICY_VALIDATE_FN(NLA_BINARY, hpcc_addr_validate),
	[HPCC_A_ROUTE_LEN]	= NLA_POLICY_MAX(NLA_U32, 128),
	[HPCC_A_ROUTE_WHERE]	= NLA_POLICY_MAX(NLA_U32, HPCC_WHERE_MAX),
	[HPCC_A_ROUTE_CARRIER]	= NLA_POLICY_MAX(NLA_U32, HPCC_CARRIER_MAX),
};

static int hpcc_route_cmp(const void *a, const void *b)
{
	const struct hpcc_route *p = a, *q = b;

	return q->len - p->len ?: memcmp(&p->prefix, &q->prefix, sizeof(p->prefix));
}

static int hpcc_route_parse(void *entry, struct nlattr * const *attrs, bool del,
			    struct netlink_ext_ack *extack)
{
	const struct nlattr *prefix = attrs[HPCC_A_ROUTE_PREFIX], *len = attrs[HPCC_A_ROUTE_LEN];
	const struct nlattr *where = attrs[HPCC_A_ROUTE_WHERE];
	const struct nlattr *carrier = attrs[HPCC_A_ROUTE_CARRIER];
	struct hpcc_route *route = entry;
	struct in6_addr addr;

	if (!prefix || !len) {
		NL_SET_ERR_MSG(extack, "a route needs a prefix and its length");
		return -EINVAL;
	}
	if (nla_get_u32(len) > 8 * nla_len(prefix)) {
		NL_SET_ERR_MSG_ATTR(extack, len, "the prefix is longer than an address");
		return -EINVAL;
	}
	addr = hpcc_get_addr(prefix);
	route->len = nla_get_u32(len) + (nla_len(prefix) == sizeof(addr) ? 0 : HPCC_MAPPED_LEN);
	ipv6_addr_prefix(&route->prefix, &addr, route->len);
	if (!ipv6_addr_equal(&route->prefix, &addr)) {
		NL_SET_ERR_MSG_ATTR(extack, prefix, "the address has bits set after the prefix");
		return -EINVAL;
	}
	route->where = where ? nla_get_u32(where) : HPCC_ROUTE_OPEN;
	route->carrier = carrier ? nla_get_u32(carrier) : HPCC_ROUTE_OPEN;
	if (carrier && hpcc_module_need(nla_get_u32(carrier), carrier, extack))
		return -ENOENT;
	if (where && nla_get_u32(where))
		return hpcc_module_need(HPCC_MODULE_RECEIVER, where, extack);
	return 0;
}

static int hpcc_route_put(struct sk_buff *skb, const void *entry)
{
	const struct hpcc_route *route = entry;
	bool v4 = route->len >= HPCC_MAPPED_LEN && ipv6_addr_v4mapped(&route->prefix);
	const struct in6_addr *addr = &route->prefix;

	return (v4 ? nla_put_in_addr(skb, HPCC_A_ROUTE_PREFIX, addr->s6_addr32[3]) :
		nla_put_in6_addr(skb, HPCC_A_ROUTE_PREFIX, addr)) ?:
	       nla_put_u32(skb, HPCC_A_ROUTE_LEN, route->len - (v4 ? HPCC_MAPPED_LEN : 0)) ?:
	       (route->where == HPCC_ROUTE_OPEN ? 0 :
		nla_put_u32(skb, HPCC_A_ROUTE_WHERE, route->where)) ?:
	       (route->carrier == HPCC_ROUTE_OPEN ? 0 :
		nla_put_u32(skb, HPCC_A_ROUTE_CARRIER, route->carrier));
}

const struct hpcc_table_type hpcc_routes = {
	.id		= HPCC_TABLE_ROUTES,
	.max		= HPCC_ROUTES_MAX,
	.size		= sizeof(struct hpcc_route),
	.nest		= HPCC_A_TABLE_ROUTE,
	.key_max	= HPCC_A_ROUTE_LEN,
	.attr_max	= HPCC_A_ROUTE_MAX,
	.policy		= hpcc_route_policy,
	.cmp		= hpcc_route_cmp,
	.parse		= hpcc_route_parse,
	.put		= hpcc_route_put,
};
