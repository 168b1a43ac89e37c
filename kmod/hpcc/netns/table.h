/* SPDX-License-Identifier: GPL-2.0 */
/* Tables of a network namespace that netlink changes (table.c): links.c and policy.c. */
#ifndef _HPCC_NETNS_TABLE_H
#define _HPCC_NETNS_TABLE_H

#include <linux/hpcc_netlink.h>
#include <net/genetlink.h>

#include "netns/net.h"

/**
 * struct hpcc_table - a table of a network namespace; constant once readers see it
 * @rcu: frees it
 * @nr: entries, at least one
 * @entries: the entries, in the order of struct hpcc_table_type.cmp, no two of them equal
 */
struct hpcc_table {
	struct rcu_head rcu;
	u32 nr;
	u8 entries[] __aligned(8);
};

/**
 * struct hpcc_table_type - what the entries of a table are
 * @id: which table of a namespace
 * @max: entries that a table may have
 * @size: bytes of an entry
 * @nest: the attribute of a message that holds an entry
 * @key_max: the last attribute of an entry's key; the attributes behind it are its values
 * @attr_max: the last attribute of an entry
 * @policy: of these attributes
 * @cmp: compare the keys of two entries, as memcmp()
 * @parse: fill in an entry, whose bytes are 0, from its attributes
 * @put: the reverse
 */
struct hpcc_table_type {
	enum hpcc_table_id id;
	u32 max;
	u32 size;
	int nest;
	int key_max;
	int attr_max;
	const struct nla_policy *policy;
	int (*cmp)(const void *a, const void *b);
	int (*parse)(void *entry, struct nlattr * const *attrs, bool del,
		     struct netlink_ext_ack *extack);
	int (*put)(struct sk_buff *skb, const void *entry);
};

/* Messages with entries are of this family, which the room observe/ defines (netlink.c). */
extern struct genl_family hpcc_family;

extern const struct hpcc_table_type hpcc_links;
extern const struct hpcc_table_type hpcc_routes;
extern const struct nla_policy hpcc_links_policy[HPCC_A_TABLE_LINK + 1];
extern const struct nla_policy hpcc_routes_policy[HPCC_A_TABLE_ROUTE + 1];

int hpcc_nl_set_table(struct sk_buff *skb, struct genl_info *info);
int hpcc_nl_dump_table(struct sk_buff *skb, struct netlink_callback *cb);
void hpcc_tables_free(struct hpcc_net *hn);

#endif /* _HPCC_NETNS_TABLE_H */
