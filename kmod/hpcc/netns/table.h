/* SPDX-License-Identifier: GPL-2.0 */
/* Tables that netlink changes (observe/tables.c), and links.c, policy.c and integrity.c read. */
#ifndef _HPCC_NETNS_TABLE_H
#define _HPCC_NETNS_TABLE_H

#include <linux/types.h>

/* A table of a network namespace; constant once it is published. */
struct hpcc_table {
	struct rcu_head rcu;
	size_t size;			/* bytes of the table */
	u32 id;				/* differs between the tables of a namespace */
	u32 nr;				/* number of entries, at least one */
	u8 entries[] __aligned(8);	/* sorted by struct hpcc_table_type, all different */
};

#endif /* _HPCC_NETNS_TABLE_H */
