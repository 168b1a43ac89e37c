/* SPDX-License-Identifier: GPL-2.0 */
/* Addresses in netlink messages (policy.c). */
#ifndef _HPCC_NETNS_ADDR_H
#define _HPCC_NETNS_ADDR_H

#include <net/ipv6.h>
#include <net/netlink.h>

int hpcc_addr_validate(const struct nlattr *attr, struct netlink_ext_ack *extack);

/* Put an address into a message. An IPv4-mapped address gets 4 bytes. */
static inline int hpcc_put_addr(struct sk_buff *skb, int type, const struct in6_addr *addr)
{
	if (ipv6_addr_v4mapped(addr))
		return nla_put_in_addr(skb, type, addr->s6_addr32[3]);
	return nla_put_in6_addr(skb, type, addr);
}

/* Read the address of an attribute that hpcc_addr_validate() accepts. IPv4 becomes IPv4-mapped. */
static inline struct in6_addr hpcc_get_addr(const struct nlattr *attr)
{
	struct in6_addr addr;

	if (nla_len(attr) == sizeof(addr))
		return nla_get_in6_addr(attr);
	ipv6_addr_set_v4mapped(nla_get_in_addr(attr), &addr);
	return addr;
}

#endif /* _HPCC_NETNS_ADDR_H */
