/* SPDX-License-Identifier: GPL-2.0 */
/* Parameters that depend on the peer's address (policy.c). */
#ifndef _HPCC_NETNS_POLICY_H
#define _HPCC_NETNS_POLICY_H

#include <net/sock.h>

#include "netns/net.h"
#include "netns/table.h"

#define HPCC_PEER_VALUES	(sizeof(struct hpcc_peer_policy) / sizeof(u32))

/* The route does not set the parameter. */
#define HPCC_ROUTE_OPEN	U32_MAX

struct hpcc_route {
	struct hpcc_prefix prefix;
	u32 values[HPCC_PEER_VALUES];	/* as struct hpcc_peer_policy, or HPCC_ROUTE_OPEN */
};

struct hpcc_peer_policy hpcc_peer_policy_for(const struct net *net, const struct in6_addr *peer);
struct hpcc_peer_policy hpcc_peer_policy_of(const struct sock *sk);

#endif /* _HPCC_NETNS_POLICY_H */
