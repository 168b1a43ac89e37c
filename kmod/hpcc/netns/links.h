/* SPDX-License-Identifier: GPL-2.0 */
/* Links in the receivers' table, for carriers that report bytes (links.c). */
#ifndef _HPCC_NETNS_LINKS_H
#define _HPCC_NETNS_LINKS_H

#include <net/net_namespace.h>

/* Some carriers use larger numbers for a node or a port that the switch does not know. */
#define HPCC_LINK_NODE_MAX	0xfffffe
#define HPCC_LINK_PORT_MAX	0xfffe

/**
 * struct hpcc_known_link - a link that the administrator describes
 * @bps: B in bit/s
 * @node: switch_ID
 * @port: port_ID
 * @unit: bytes per unit of queue depth
 */
struct hpcc_known_link {
	u64 bps;
	u32 node;
	u16 port;
	u16 unit;
};

const struct hpcc_known_link *hpcc_link_find(const struct net *net, u32 node, u16 port);
bool hpcc_links_known(const struct net *net);

#endif /* _HPCC_NETNS_LINKS_H */
