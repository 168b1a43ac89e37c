/* SPDX-License-Identifier: GPL-2.0 */
/* Generic netlink family "hpcc" (netlink.c), its module hpcc_netlink (requests.c, tables.c), and
 * the output of ss and getsockopt(TCP_CC_INFO) (info.c).
 */
#ifndef _HPCC_OBSERVE_NETLINK_H
#define _HPCC_OBSERVE_NETLINK_H

#include <linux/hpcc_netlink.h>
#include <linux/sock_diag.h>
#include <net/genetlink.h>
#include <net/ipv6.h>

#include "flow/flow.h"

/* Index in netlink_callback.args: the functions, while a dump holds their module. */
#define HPCC_NL_HELD	5

/* The functions that handle requests, as in struct genl_ops; @dumpit does not use HPCC_NL_HELD. */
struct hpcc_nl_requests {
	struct module *owner;
	int (*doit)(struct sk_buff *skb, struct genl_info *info);
	int (*dumpit)(struct sk_buff *skb, struct netlink_callback *cb);
};

extern struct genl_family hpcc_family;

int hpcc_nl_register(const struct hpcc_nl_requests *to);
void hpcc_nl_unregister(const struct hpcc_nl_requests *to);
void hpcc_nl_notify(struct sock *sk, struct hpcc_flow *flow, enum hpcc_event event);
int hpcc_nl_put_tuple(struct sk_buff *skb, struct sock *sk);
int hpcc_nl_put_mode(struct sk_buff *skb, const struct hpcc_flow *flow);
int hpcc_nl_set_table(struct sk_buff *skb, struct genl_info *info);
int hpcc_nl_dump_table(struct sk_buff *skb, struct netlink_callback *cb);
int hpcc_nl_addr_validate(const struct nlattr *attr, struct netlink_ext_ack *extack);
u64 hpcc_peek_rate(const struct hpcc_flow *flow);
size_t hpcc_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);

/* Put an address into a message. An IPv4-mapped address gets 4 bytes. */
static inline int hpcc_nl_put_addr(struct sk_buff *skb, int type, const struct in6_addr *addr)
{
	if (ipv6_addr_v4mapped(addr))
		return nla_put_in_addr(skb, type, addr->s6_addr32[3]);
	return nla_put_in6_addr(skb, type, addr);
}

/* Read the address of an attribute that hpcc_nl_addr_validate() accepts. IPv4 becomes IPv4-mapped.
 */
static inline struct in6_addr hpcc_nl_get_addr(const struct nlattr *attr)
{
	struct in6_addr addr;

	if (nla_len(attr) == sizeof(addr))
		return nla_get_in6_addr(attr);
	ipv6_addr_set_v4mapped(nla_get_in_addr(attr), &addr);
	return addr;
}

static inline int hpcc_nl_put_u64(struct sk_buff *skb, int type, u64 value)
{
	return nla_put_u64_64bit(skb, type, value, HPCC_A_FLOW_PAD);
}

/* Modules cannot call sock_gen_cookie(). */
static inline u64 hpcc_nl_cookie(struct sock *sk)
{
	u32 halves[2];

	sock_diag_save_cookie(sk, halves);
	return (u64)halves[1] << 32 | halves[0];
}

#endif /* _HPCC_OBSERVE_NETLINK_H */
