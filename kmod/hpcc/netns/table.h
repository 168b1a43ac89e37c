/* SPDX-License-Identifier: GPL-2.0 */
/* Tables that netlink changes (observe/tables.c), and links.c, policy.c and integrity.c read. */
#ifndef _HPCC_NETNS_TABLE_H
#define _HPCC_NETNS_TABLE_H

#include <net/ipv6.h>

/* A table of a network namespace; constant once it is published. */
struct hpcc_table {
	struct rcu_head rcu;
	size_t size;			/* bytes of the table */
	u32 id;				/* differs between the tables of a namespace */
	u32 nr;				/* number of entries, at least one */
	u8 entries[] __aligned(8);	/* sorted by struct hpcc_table_type, all different */
};

/* The addresses to which a route or a key applies; first member of these entries, whose tables have
 * the longest prefixes first.
 */
struct hpcc_prefix {
	struct in6_addr addr;	/* all bits after the first @len are 0 */
	u8 len;			/* bits */
};

/* The entry with the longest prefix of an address, or NULL. @table: NULL if it is empty. @size:
 * bytes of an entry.
 */
static inline const void *hpcc_table_match(const struct hpcc_table *table, size_t size,
					   const struct in6_addr *addr)
{
	const struct hpcc_prefix *prefix;
	u32 i;

	for (i = 0; table && i < table->nr; i++) {
		prefix = (const void *)(table->entries + i * size);
		if (ipv6_prefix_equal(addr, &prefix->addr, prefix->len))
			return prefix;
	}
	return NULL;
}

#endif /* _HPCC_NETNS_TABLE_H */
