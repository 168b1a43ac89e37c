/* SPDX-License-Identifier: GPL-2.0 */
/* Parameters that depend on the peer's address (policy.c). */
#ifndef _HPCC_NETNS_POLICY_H
#define _HPCC_NETNS_POLICY_H

#include <net/sock.h>

#include "netns/net.h"

/* Parameters of a connection, with values as in struct hpcc_sysctls. */
struct hpcc_peer_policy {
	u8 where;
	u8 carrier;
};

/* The route does not set the parameter. */
#define HPCC_ROUTE_OPEN	-1

/* A route. @where and @carrier: value as in the sysctl, or HPCC_ROUTE_OPEN. */
struct hpcc_route {
	struct in6_addr prefix;	/* all bits after the first @len are 0 */
	u8 len;			/* bits */
	s8 where;
	s8 carrier;
};

struct hpcc_peer_policy hpcc_peer_policy_for(const struct net *net, const struct in6_addr *peer);
struct hpcc_peer_policy hpcc_peer_policy_of(const struct sock *sk);

#endif /* _HPCC_NETNS_POLICY_H */
