// SPDX-License-Identifier: GPL-2.0
/*
 * The table of links. Most carriers report bytes, and the window law needs times. So a receiver
 * needs B and the unit of the queue depth of each link. The administrator sets these values by
 * netlink (observe/tables.c).
 */
#include <linux/bsearch.h>
#include <linux/export.h>

#include "netns/table.h"

/**
 * hpcc_link_find() - look up a link
 * @net: network namespace
 * @node: switch_ID
 * @port: port_ID
 *
 * Context: RCU read side.
 * Return: NULL if the table does not have the link.
 */
const struct hpcc_known_link *hpcc_link_find(const struct net *net, u32 node, u16 port)
{
	const struct hpcc_known_link key = { .node = node, .port = port };
	const struct hpcc_table *table;

	table = rcu_dereference(hpcc_pernet_rcu(net)->tables[HPCC_TABLE_LINKS]);
	return table ? __inline_bsearch(&key, table->entries, table->nr, sizeof(key),
					hpcc_link_cmp) : NULL;
}
EXPORT_SYMBOL_GPL(hpcc_link_find);

/**
 * hpcc_links_known() - whether the table of links has any entry
 * @net: network namespace
 */
bool hpcc_links_known(const struct net *net)
{
	return rcu_access_pointer(hpcc_pernet(net)->tables[HPCC_TABLE_LINKS]);
}
EXPORT_SYMBOL_GPL(hpcc_links_known);
