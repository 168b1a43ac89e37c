/* SPDX-License-Identifier: GPL-2.0 */
/* Tables that netlink changes (table.c), in links.c and policy.c. */
#ifndef _HPCC_NETNS_TABLE_H
#define _HPCC_NETNS_TABLE_H

#include <linux/hpcc_netlink.h>
#include <net/genetlink.h>

#include "netns/net.h"

/* A table of a network namespace; constant once it is published. */
struct hpcc_table {
	struct rcu_head rcu;
	u32 nr;				/* number of entries, at least one */
	u8 entries[] __aligned(8);	/* sorted by struct hpcc_table_type.cmp, all different */
};

/* Type of the entries of a table. */
struct hpcc_table_type {
	enum hpcc_table_id id;
	u32 max;	/* maximum number of entries */
	u32 size;	/* bytes of an entry */
	int nest;	/* attribute of a message that holds an entry */
	int key_max;	/* last attribute of an entry's key; later attributes are values */
	int attr_max;	/* last attribute of an entry */
	const struct nla_policy *policy;		/* of the attributes of an entry */
	int (*cmp)(const void *a, const void *b);	/* compares keys, like memcmp() */
	/* Fills in a zeroed entry from its attributes. */
	int (*parse)(void *entry, struct nlattr * const *attrs, bool del,
		     struct netlink_ext_ack *extack);
	int (*put)(struct sk_buff *skb, const void *entry);
	/* If not NULL: called before new entries apply. An error rejects them. May sleep. */
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
