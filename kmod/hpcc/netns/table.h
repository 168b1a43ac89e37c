/* SPDX-License-Identifier: GPL-2.0 */
/* Tables that netlink changes (table.c), in links.c and policy.c. */
#ifndef _HPCC_NETNS_TABLE_H
#define _HPCC_NETNS_TABLE_H

#include <linux/hpcc_netlink.h>
#include <net/genetlink.h>

#include "netns/net.h"

/**
 * struct hpcc_table - a table of a network namespace; constant once it is published
 * @rcu: for kfree_rcu()
 * @nr: number of entries, at least one
 * @entries: sorted by struct hpcc_table_type.cmp, all different
 */
struct hpcc_table {
	struct rcu_head rcu;
	u32 nr;
	u8 entries[] __aligned(8);
};

/**
 * struct hpcc_table_type - type of the entries of a table
 * @id: index of the table in struct hpcc_net
 * @max: maximum number of entries
 * @size: bytes of an entry
 * @nest: the attribute of a message that holds an entry
 * @key_max: last attribute of an entry's key; the attributes after it are values
 * @attr_max: last attribute of an entry
 * @policy: policy for the attributes of an entry
 * @cmp: compare the keys of two entries, like memcmp()
 * @parse: fill in a zeroed entry from its attributes
 * @put: write the attributes of an entry into a message
 * @accept: called before new entries apply, may sleep; NULL: none. Return: 0 or a negative error,
 *	which rejects them
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
	int (*accept)(struct netlink_ext_ack *extack);
};

extern const struct hpcc_table_type hpcc_links;
extern const struct hpcc_table_type hpcc_routes;
extern const struct nla_policy hpcc_links_policy[HPCC_A_TABLE_LINK + 1];
extern const struct nla_policy hpcc_routes_policy[HPCC_A_TABLE_ROUTE + 1];

int hpcc_nl_set_table(struct sk_buff *skb, struct genl_info *info);
int hpcc_table_dump(struct sk_buff *skb, struct netlink_callback *cb,
		    const struct genl_family *family);
void hpcc_tables_free(struct hpcc_net *hn);

#endif /* _HPCC_NETNS_TABLE_H */
