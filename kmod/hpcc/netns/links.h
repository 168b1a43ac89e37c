/* SPDX-License-Identifier: GPL-2.0 */
/* Links in the receivers' table, for carriers that report bytes (links.c). */
#ifndef _HPCC_NETNS_LINKS_H
#define _HPCC_NETNS_LINKS_H

#include <net/net_namespace.h>

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

#endif /* _HPCC_NETNS_LINKS_H */
