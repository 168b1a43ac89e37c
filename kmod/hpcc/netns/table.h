/* SPDX-License-Identifier: GPL-2.0 */
/* Tables that netlink changes (observe/tables.c), and links.c, policy.c and integrity.c read. */
#ifndef _HPCC_NETNS_TABLE_H
#define _HPCC_NETNS_TABLE_H

#include <net/ipv6.h>

#include "netns/net.h"

/* A table of a network namespace; constant once it is published. */
struct hpcc_table {
	struct rcu_head rcu;
	size_t size;			/* bytes of the table */
	u32 id;				/* differs between the tables of a namespace */
	u32 nr;				/* number of entries, at least one */
	u8 entries[] __aligned(8);	/* sorted by struct hpcc_table_type, all different */
};

/* The addresses to which a route or a key applies; first member of these entries, whose tables have
 * the longest prefixes first.
 */
struct hpcc_prefix {
	struct in6_addr addr;	/* all bits after the first @len are 0 */
	u8 len;			/* bits */
};

/* The entry with the longest prefix of an address, or NULL. @table: NULL if it is empty. @size:
 * bytes of an entry.
 */
static inline const void *hpcc_table_match(const struct hpcc_table *table, size_t size,
					   const struct in6_addr *addr)
{
	const struct hpcc_prefix *prefix;
	u32 i;

	for (i = 0; table && i < table->nr; i++) {
		prefix = (const void *)(table->entries + i * size);
		if (ipv6_prefix_equal(addr, &prefix->addr, prefix->len))
			return prefix;
	}
	return NULL;
}

/* Links in the receivers' table, for carriers that report bytes (links.c). */

/* Some carriers use larger numbers for an unknown node or port. */
#define HPCC_LINK_NODE_MAX	0xfffffe
#define HPCC_LINK_PORT_MAX	0xfffe

/* A link that the administrator describes. */
struct hpcc_known_link {
	u64 bps;	/* B in bit/s */
	u32 node;	/* switch_ID */
	u16 port;	/* port_ID */
	u16 unit;	/* bytes per unit of queue depth */
};

/* Order of the table: by node, then by port. */
static inline int hpcc_link_cmp(const void *a, const void *b)
{
	const struct hpcc_known_link *p = a, *q = b;
	u64 x = (u64)p->node << 16 | p->port, y = (u64)q->node << 16 | q->port;

	return x < y ? -1 : x > y;
}

const struct hpcc_known_link *hpcc_link_find(const struct net *net, u32 node, u16 port);
bool hpcc_links_known(const struct net *net);

/* Parameters that depend on the peer's address (policy.c). */
#define HPCC_PEER_VALUES	(sizeof(struct hpcc_peer_policy) / sizeof(u32))

/* The route does not set the parameter. */
#define HPCC_ROUTE_OPEN	U32_MAX

struct hpcc_route {
	struct hpcc_prefix prefix;
	u32 values[HPCC_PEER_VALUES];	/* as struct hpcc_peer_policy, or HPCC_ROUTE_OPEN */
};

struct hpcc_peer_policy hpcc_peer_policy_for(const struct net *net, const struct in6_addr *peer);
struct hpcc_peer_policy hpcc_peer_policy_of(const struct sock *sk);

#endif /* _HPCC_NETNS_TABLE_H */
