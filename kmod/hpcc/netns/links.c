// SPDX-License-Identifier: GPL-2.0
/*
 * The table of links. Most carriers report bytes, and the window law needs times. So a receiver
 * needs B and the unit of the queue depth of each link. The administrator sets these values by
 * netlink (table.c).
 */
#include <linux/bsearch.h>
#include <linux/export.h>
#include <linux/hpcc.h>
#include <linux/sizes.h>

#include "netns/links.h"
#include "netns/table.h"

#define HPCC_LINKS_MAX	65000

static_assert(sizeof(struct hpcc_table) + HPCC_LINKS_MAX * sizeof(struct hpcc_known_link) <= SZ_1M);

static int hpcc_link_cmp(const void *a, const void *b)
{
	const struct hpcc_known_link *p = a, *q = b;
	u64 x = (u64)p->node << 16 | p->port, y = (u64)q->node << 16 | q->port;

	return x < y ? -1 : x > y;
}

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

/* Before Linux 6.7 a policy cannot point to const ranges. */
static struct netlink_range_validation
	hpcc_link_node = { .max = HPCC_LINK_NODE_MAX },
	hpcc_link_port = { .max = HPCC_LINK_PORT_MAX },
	hpcc_link_rate = { .min = HPCC_RATE_MIN * 8, .max = HPCC_RATE_MAX * 8 },
	hpcc_link_unit = { .min = 1, .max = U16_MAX };

static const struct nla_policy hpcc_link_policy[HPCC_A_LINK_MAX + 1] = {
	[HPCC_A_LINK_NODE]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_link_node),
	[HPCC_A_LINK_PORT]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_link_port),
	[HPCC_A_LINK_RATE]	= NLA_POLICY_FULL_RANGE(NLA_U64, &hpcc_link_rate),
	[HPCC_A_LINK_UNIT]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_link_unit),
};

static int hpcc_link_parse(void *entry, struct nlattr * const *attrs, bool del,
			   struct netlink_ext_ack *extack)
{
	struct hpcc_known_link *link = entry;

	if (!attrs[HPCC_A_LINK_NODE] || !attrs[HPCC_A_LINK_PORT] ||
	    (!del && !attrs[HPCC_A_LINK_RATE])) {
		NL_SET_ERR_MSG(extack, "a link needs node, port and, unless it is deleted, rate");
		return -EINVAL;
	}
	link->node = nla_get_u32(attrs[HPCC_A_LINK_NODE]);
	link->port = nla_get_u32(attrs[HPCC_A_LINK_PORT]);
	if (del)
		return 0;
	link->bps = nla_get_u64(attrs[HPCC_A_LINK_RATE]);
	link->unit = attrs[HPCC_A_LINK_UNIT] ? nla_get_u32(attrs[HPCC_A_LINK_UNIT]) : 1;
	return 0;
}

static int hpcc_link_put(struct sk_buff *skb, const void *entry)
{
	const struct hpcc_known_link *link = entry;

	return nla_put_u32(skb, HPCC_A_LINK_NODE, link->node) ?:
	       nla_put_u32(skb, HPCC_A_LINK_PORT, link->port) ?:
	       nla_put_u64_64bit(skb, HPCC_A_LINK_RATE, link->bps, HPCC_A_LINK_PAD) ?:
	       nla_put_u32(skb, HPCC_A_LINK_UNIT, link->unit);
}

static int hpcc_links_accept(struct netlink_ext_ack *extack)
{
	int err = hpcc_carriers_load_links();

	if (err)
		NL_SET_ERR_MSG(extack, "no module of a carrier that uses links is loaded");
	return err;
}

const struct hpcc_table_type hpcc_links = {
	.id		= HPCC_TABLE_LINKS,
	.max		= HPCC_LINKS_MAX,
	.size		= sizeof(struct hpcc_known_link),
	.nest		= HPCC_A_TABLE_LINK,
	.key_max	= HPCC_A_LINK_PORT,
	.attr_max	= HPCC_A_LINK_MAX,
	.policy		= hpcc_link_policy,
	.cmp		= hpcc_link_cmp,
	.parse		= hpcc_link_parse,
	.put		= hpcc_link_put,
	.accept		= hpcc_links_accept,
};
