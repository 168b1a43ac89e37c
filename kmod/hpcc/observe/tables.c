// SPDX-License-Identifier: GPL-2.0
/*
 * Module hpcc_netlink: netlink requests that read or change the tables of a network namespace.
 * links.c, policy.c and integrity.c look up entries in these tables.
 *
 * A table is a sorted array. A request publishes a new array, or changes nothing. Readers hold only
 * the RCU read lock, and see all changes of a request or none. An entry takes no memory beyond its
 * own size, so the maximum number of entries bounds the memory of a namespace.
 */
#include <linux/hpcc.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/unaligned.h>

#include "common/device.h"
#include "netns/keys.h"
#include "netns/table.h"
#include "observe/netlink.h"

/* Type of the entries of a table. */
struct hpcc_table_type {
	enum hpcc_table_id id;
	u32 max;	/* maximum number of entries */
	u32 size;	/* bytes of an entry */
	u32 key_size;	/* bytes of an entry that @cmp reads, at its start */
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

/* ---- Links ---- */

#define HPCC_LINKS_MAX	65000

static_assert(sizeof(struct hpcc_table) + HPCC_LINKS_MAX * sizeof(struct hpcc_known_link) <= SZ_1M);

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

static const struct hpcc_table_type hpcc_links = {
	.id		= HPCC_TABLE_LINKS,
	.max		= HPCC_LINKS_MAX,
	.size		= sizeof(struct hpcc_known_link),
	.key_size	= sizeof(struct hpcc_known_link),
	.nest		= HPCC_A_TABLE_LINK,
	.key_max	= HPCC_A_LINK_PORT,
	.attr_max	= HPCC_A_LINK_MAX,
	.policy		= hpcc_link_policy,
	.cmp		= hpcc_link_cmp,
	.parse		= hpcc_link_parse,
	.put		= hpcc_link_put,
	.accept		= hpcc_links_accept,
};

/* ---- Routes ---- */

/* Bounds the time of a search. */
#define HPCC_ROUTES_MAX	200

#define HPCC_MAPPED_LEN	96

static struct netlink_range_validation
	hpcc_route_T = { .max = HPCC_T_MAX_NS },
	hpcc_route_N = { .max = HPCC_N_MAX };

static const struct nla_policy hpcc_route_policy[HPCC_A_ROUTE_MAX + 1] = {
	[HPCC_A_ROUTE_PREFIX]	= NLA_POLICY_VALIDATE_FN(NLA_BINARY, hpcc_nl_addr_validate),
	[HPCC_A_ROUTE_LEN]	= NLA_POLICY_MAX(NLA_U32, 128),
	[HPCC_A_ROUTE_WHERE]	= NLA_POLICY_MAX(NLA_U32, HPCC_WHERE_MAX),
	[HPCC_A_ROUTE_CARRIER]	= NLA_POLICY_MAX(NLA_U32, HPCC_CARRIER_MAX),
	[HPCC_A_ROUTE_BASE_RTT_NS]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_route_T),
	[HPCC_A_ROUTE_ETA_PERMILLE]	= NLA_POLICY_RANGE(NLA_U32, 1, 1000),
	[HPCC_A_ROUTE_N_FLOWS]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_route_N),
	[HPCC_A_ROUTE_SAMPLE]	= NLA_POLICY_MAX(NLA_U32, HPCC_SAMPLE_MAX),
};

/* Compare the prefixes with which routes and keys begin. */
static int hpcc_prefix_cmp(const void *a, const void *b)
{
	const struct hpcc_prefix *p = a, *q = b;

	return q->len - p->len ?: memcmp(&p->addr, &q->addr, sizeof(p->addr));
}

/* Read a prefix and its length, whose attributes have the same numbers for routes and keys. */
static int hpcc_prefix_parse(struct hpcc_prefix *prefix, struct nlattr * const *attrs,
			     struct netlink_ext_ack *extack)
{
	const struct nlattr *attr = attrs[HPCC_A_ROUTE_PREFIX], *len = attrs[HPCC_A_ROUTE_LEN];
	struct in6_addr addr;

	BUILD_BUG_ON(HPCC_A_KEY_PREFIX != (int)HPCC_A_ROUTE_PREFIX ||
		     HPCC_A_KEY_LEN != (int)HPCC_A_ROUTE_LEN);
	if (!attr || !len) {
		NL_SET_ERR_MSG(extack, "an entry needs a prefix and its length");
		return -EINVAL;
	}
	if (nla_get_u32(len) > 8 * nla_len(attr)) {
		NL_SET_ERR_MSG_ATTR(extack, len, "the prefix is longer than an address");
		return -EINVAL;
	}
	addr = hpcc_nl_get_addr(attr);
	prefix->len = nla_get_u32(len) + (nla_len(attr) == sizeof(addr) ? 0 : HPCC_MAPPED_LEN);
	ipv6_addr_prefix(&prefix->addr, &addr, prefix->len);
	if (!ipv6_addr_equal(&prefix->addr, &addr)) {
		NL_SET_ERR_MSG_ATTR(extack, attr, "the address has bits set after the prefix");
		return -EINVAL;
	}
	return 0;
}

static int hpcc_prefix_put(struct sk_buff *skb, const struct hpcc_prefix *prefix)
{
	bool v4 = prefix->len >= HPCC_MAPPED_LEN && ipv6_addr_v4mapped(&prefix->addr);

	return (v4 ? nla_put_in_addr(skb, HPCC_A_ROUTE_PREFIX, prefix->addr.s6_addr32[3]) :
		nla_put_in6_addr(skb, HPCC_A_ROUTE_PREFIX, &prefix->addr)) ?:
	       nla_put_u32(skb, HPCC_A_ROUTE_LEN, prefix->len - (v4 ? HPCC_MAPPED_LEN : 0));
}

static int hpcc_route_parse(void *entry, struct nlattr * const *attrs, bool del,
			    struct netlink_ext_ack *extack)
{
	const struct nlattr *where = attrs[HPCC_A_ROUTE_WHERE];
	const struct nlattr *carrier = attrs[HPCC_A_ROUTE_CARRIER];
	const struct nlattr *value, *T = attrs[HPCC_A_ROUTE_BASE_RTT_NS];
	struct hpcc_route *route = entry;
	int err = hpcc_prefix_parse(&route->prefix, attrs, extack);
	u32 i;

	if (err)
		return err;
	if (T && nla_get_u32(T) && nla_get_u32(T) < HPCC_T_MIN_NS) {
		NL_SET_ERR_MSG_ATTR(extack, T, "base_rtt_ns is 0, or 1000 to 1000000000");
		return -ERANGE;
	}
	for (i = 0; i < HPCC_PEER_VALUES; i++) {
		value = attrs[HPCC_A_ROUTE_WHERE + i];
		route->values[i] = value ? nla_get_u32(value) : HPCC_ROUTE_OPEN;
	}
	if (carrier && hpcc_module_need(nla_get_u32(carrier), carrier, extack))
		return -ENOENT;
	if (where && nla_get_u32(where))
		return hpcc_module_need(HPCC_MODULE_RECEIVER, where, extack);
	return 0;
}

static int hpcc_route_put(struct sk_buff *skb, const void *entry)
{
	const struct hpcc_route *route = entry;
	int err = hpcc_prefix_put(skb, &route->prefix);
	u32 i;

	for (i = 0; i < HPCC_PEER_VALUES && !err; i++)
		if (route->values[i] != HPCC_ROUTE_OPEN)
			err = nla_put_u32(skb, HPCC_A_ROUTE_WHERE + i, route->values[i]);
	return err;
}

static const struct hpcc_table_type hpcc_routes = {
	.id		= HPCC_TABLE_ROUTES,
	.max		= HPCC_ROUTES_MAX,
	.size		= sizeof(struct hpcc_route),
	.key_size	= sizeof(struct hpcc_prefix),
	.nest		= HPCC_A_TABLE_ROUTE,
	.key_max	= HPCC_A_ROUTE_LEN,
	.attr_max	= HPCC_A_ROUTE_MAX,
	.policy		= hpcc_route_policy,
	.cmp		= hpcc_prefix_cmp,
	.parse		= hpcc_route_parse,
	.put		= hpcc_route_put,
};

/* ---- Keys ---- */

/* Bounds the time of a search. */
#define HPCC_KEYS_MAX	200

static int hpcc_key_validate(const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	if (nla_len(attr) == HPCC_KEY_LEN)
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, attr, "a key has 16 bytes");
	return -EINVAL;
}

static const struct nla_policy hpcc_key_policy[HPCC_A_KEY_MAX + 1] = {
	[HPCC_A_KEY_PREFIX]	= NLA_POLICY_VALIDATE_FN(NLA_BINARY, hpcc_nl_addr_validate),
	[HPCC_A_KEY_LEN]	= NLA_POLICY_MAX(NLA_U32, 128),
	[HPCC_A_KEY_SEND]	= NLA_POLICY_VALIDATE_FN(NLA_BINARY, hpcc_key_validate),
	[HPCC_A_KEY_ACCEPT]	= NLA_POLICY_VALIDATE_FN(NLA_BINARY, hpcc_key_validate),
	[HPCC_A_KEY_REQUIRE]	= { .type = NLA_FLAG },
};

/* Take a key out of the request. */
static void hpcc_key_take(siphash_key_t *key, struct nlattr *attr)
{
	key->key[0] = get_unaligned_le64(nla_data(attr));
	key->key[1] = get_unaligned_le64(nla_data(attr) + sizeof(u64));
	memzero_explicit(nla_data(attr), HPCC_KEY_LEN);
}

static int hpcc_key_parse(void *entry, struct nlattr * const *attrs, bool del,
			  struct netlink_ext_ack *extack)
{
	struct hpcc_key *key = entry;
	int err = hpcc_prefix_parse(&key->prefix, attrs, extack);

	if (err || del)
		return err;
	if (!attrs[HPCC_A_KEY_SEND]) {
		NL_SET_ERR_MSG(extack, "an entry needs a key to send");
		return -EINVAL;
	}
	hpcc_key_take(&key->send, attrs[HPCC_A_KEY_SEND]);
	key->two = attrs[HPCC_A_KEY_ACCEPT];
	if (key->two)
		hpcc_key_take(&key->accept, attrs[HPCC_A_KEY_ACCEPT]);
	key->required = attrs[HPCC_A_KEY_REQUIRE];
	return hpcc_module_need(HPCC_MODULE_INTEGRITY, attrs[HPCC_A_KEY_SEND], extack);
}

/* Keys are write-only. */
static int hpcc_key_put(struct sk_buff *skb, const void *entry)
{
	const struct hpcc_key *key = entry;

	return hpcc_prefix_put(skb, &key->prefix) ?:
	       (key->two ? nla_put_flag(skb, HPCC_A_KEY_HAS_ACCEPT) : 0) ?:
	       (key->required ? nla_put_flag(skb, HPCC_A_KEY_REQUIRE) : 0);
}

static const struct hpcc_table_type hpcc_keys = {
	.id		= HPCC_TABLE_KEYS,
	.max		= HPCC_KEYS_MAX,
	.size		= sizeof(struct hpcc_key),
	.key_size	= sizeof(struct hpcc_prefix),
	.nest		= HPCC_A_TABLE_KEY,
	.key_max	= HPCC_A_KEY_LEN,
	.attr_max	= HPCC_A_KEY_MAX,
	.policy		= hpcc_key_policy,
	.cmp		= hpcc_prefix_cmp,
	.parse		= hpcc_key_parse,
	.put		= hpcc_key_put,
};

/* ---- Requests ---- */

static const struct hpcc_table_type *hpcc_table_type_of(u8 cmd)
{
	if (cmd >= HPCC_CMD_KEY_GET)
		return &hpcc_keys;
	return cmd < HPCC_CMD_ROUTE_GET ? &hpcc_links : &hpcc_routes;
}

static void *hpcc_table_at(const struct hpcc_table_type *type, const struct hpcc_table *table,
			   u32 i)
{
	return (void *)table->entries + i * type->size;
}

static struct hpcc_table *hpcc_table_alloc(const struct hpcc_table_type *type, u32 nr)
{
	size_t size = sizeof(struct hpcc_table) + (size_t)nr * type->size;
	struct hpcc_table *table;

	table = kvzalloc(size, GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!table)
		return ERR_PTR(-ENOMEM);
	table->size = size;
	table->nr = nr;
	return table;
}

static int hpcc_table_parse(const struct hpcc_table_type *type, void *entry,
			    const struct nlattr *nest, bool del, struct netlink_ext_ack *extack)
{
	struct nlattr *attrs[HPCC_A_ROUTE_MAX + 1] = {};

	BUILD_BUG_ON(HPCC_A_KEY_MAX > HPCC_A_ROUTE_MAX || HPCC_A_LINK_MAX > HPCC_A_ROUTE_MAX);
	return nla_parse_nested(attrs, del ? type->key_max : type->attr_max, nest, type->policy,
				extack) ?:
	       type->parse(entry, attrs, del, extack);
}

/* Reject a request with the same key twice: the entries may have different values. */
static int hpcc_table_sort(const struct hpcc_table_type *type, struct hpcc_table *table,
			   struct netlink_ext_ack *extack)
{
	u32 i;

	sort(table->entries, table->nr, type->size, type->cmp, NULL);
	for (i = 1; i < table->nr; i++) {
		if (type->cmp(hpcc_table_at(type, table, i - 1), hpcc_table_at(type, table, i)))
			continue;
		NL_SET_ERR_MSG(extack, "the request contains an entry twice");
		return -EINVAL;
	}
	return 0;
}

/* The entries of a request, sorted. */
static struct hpcc_table *hpcc_table_of_request(const struct hpcc_table_type *type,
						struct genl_info *info, bool del)
{
	const struct nlattr *attr;
	struct hpcc_table *table;
	int err = 0, rem;
	u32 nr = 0;

	nlmsg_for_each_attr(attr, info->nlhdr, GENL_HDRLEN, rem) {
		nr += nla_type(attr) == type->nest;
		if (nla_type(attr) == type->nest || nla_type(attr) == HPCC_A_TABLE_REPLACE)
			continue;
		NL_SET_ERR_MSG_ATTR(info->extack, attr, "the entry belongs to another table");
		return ERR_PTR(-EINVAL);
	}
	if (nr > type->max) {
		NL_SET_ERR_MSG(info->extack, "the request has more entries than a table may have");
		return ERR_PTR(-ENOSPC);
	}
	table = hpcc_table_alloc(type, nr);
	if (IS_ERR(table))
		return table;
	nr = 0;
	nlmsg_for_each_attr(attr, info->nlhdr, GENL_HDRLEN, rem) {
		if (nla_type(attr) != type->nest)
			continue;
		err = hpcc_table_parse(type, hpcc_table_at(type, table, nr++), attr, del,
				       info->extack);
		if (err)
			break;
	}
	err = err ?: hpcc_table_sort(type, table, info->extack);
	if (!err && nr && !del && type->accept)
		err = type->accept(info->extack);
	if (!err)
		return table;
	kvfree_sensitive(table, table->size);
	return ERR_PTR(err);
}

/* Merge @change into @old, or remove its entries from @old (@del). Write the result to @to, unless
 * @to is NULL. Return: the number of entries, or -ENOENT.
 */
static int hpcc_table_merge(const struct hpcc_table_type *type, const struct hpcc_table *old,
			    const struct hpcc_table *change, bool del, struct hpcc_table *to)
{
	u32 i = 0, j = 0, n = 0, nr_old = old ? old->nr : 0;
	const void *a, *b;
	int diff;

	while (i < nr_old || j < change->nr) {
		a = i < nr_old ? hpcc_table_at(type, old, i) : NULL;
		b = j < change->nr ? hpcc_table_at(type, change, j) : NULL;
		diff = !b ? -1 : !a ? 1 : type->cmp(a, b);
		if (diff > 0 && del)
			return -ENOENT;
		if (diff < 0 || !del) {
			if (to)
				memcpy(hpcc_table_at(type, to, n), diff < 0 ? a : b, type->size);
			n++;
		}
		i += diff <= 0;
		j += diff >= 0;
	}
	return n;
}

/* The table after a request; NULL if it is empty. */
static struct hpcc_table *hpcc_table_after(const struct hpcc_table_type *type,
					   const struct hpcc_table *old,
					   const struct hpcc_table *change, bool del,
					   struct netlink_ext_ack *extack)
{
	int nr = hpcc_table_merge(type, old, change, del, NULL);
	struct hpcc_table *new;

	if (nr < 0) {
		NL_SET_ERR_MSG(extack, "the table has no such entry");
		return ERR_PTR(nr);
	}
	if (nr > type->max) {
		NL_SET_ERR_MSG(extack, "the table is full");
		return ERR_PTR(-ENOSPC);
	}
	new = nr ? hpcc_table_alloc(type, nr) : NULL;
	if (!IS_ERR_OR_NULL(new))
		hpcc_table_merge(type, old, change, del, new);
	return new;
}

/* Free a table that readers may still use. If the table is large, wait for the grace period, so
 * that many requests do not fill memory with tables that wait for RCU. Also wait if it has keys,
 * which must not stay in free memory.
 */
static void hpcc_table_retire(const struct hpcc_table_type *type, struct hpcc_table *old)
{
	if (!old || (type != &hpcc_keys && old->nr * type->size <= PAGE_SIZE)) {
		kvfree_rcu(old, rcu);
		return;
	}
	synchronize_rcu();
	kvfree_sensitive(old, old->size);
}

/**
 * hpcc_nl_set_table() - handle HPCC_CMD_LINK_SET, _LINK_DEL and those of other tables
 * @skb: the request
 * @info: the parsed request
 *
 * Return: 0 or a negative error. An error leaves the table unchanged.
 */
int hpcc_nl_set_table(struct sk_buff *skb, struct genl_info *info)
{
	u8 cmd = info->genlhdr->cmd;
	const struct hpcc_table_type *type = hpcc_table_type_of(cmd);
	bool del = cmd == HPCC_CMD_LINK_DEL || cmd == HPCC_CMD_ROUTE_DEL ||
		   cmd == HPCC_CMD_KEY_DEL;
	struct hpcc_net *hn = hpcc_pernet(genl_info_net(info));
	struct hpcc_table *change, *old, *new;
	bool replace = info->attrs[HPCC_A_TABLE_REPLACE];

	if (replace && del) {
		NL_SET_ERR_MSG_ATTR(info->extack, info->attrs[HPCC_A_TABLE_REPLACE],
				    "a request cannot both delete and replace entries");
		return -EINVAL;
	}
	change = hpcc_table_of_request(type, info, del);
	if (IS_ERR(change))
		return PTR_ERR(change);
	mutex_lock(&hn->path_lock);
	old = rcu_dereference_protected(hn->tables[type->id], lockdep_is_held(&hn->path_lock));
	new = hpcc_table_after(type, replace ? NULL : old, change, del, info->extack);
	if (!IS_ERR_OR_NULL(new))
		new->id = ++hn->tables_made;
	if (!IS_ERR(new))
		rcu_assign_pointer(hn->tables[type->id], new);
	mutex_unlock(&hn->path_lock);
	kvfree_sensitive(change, change->size);
	if (!IS_ERR(new))
		hpcc_table_retire(type, old);
	return PTR_ERR_OR_ZERO(new);
}

static int hpcc_put_entry(struct sk_buff *skb, const struct hpcc_table_type *type,
			  const void *entry)
{
	struct nlattr *nest = nla_nest_start(skb, type->nest);

	if (!nest || type->put(skb, entry)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}

/* A dump keeps the start of the last entry of a part in args[1] and later. */
#define HPCC_DUMP_KEPT	((HPCC_NL_HELD - 1) * sizeof(long))
static_assert(sizeof(struct hpcc_known_link) <= HPCC_DUMP_KEPT);
static_assert(sizeof(struct hpcc_prefix) <= HPCC_DUMP_KEPT);

/**
 * hpcc_nl_dump_table() - handle HPCC_CMD_LINK_GET and those of other tables
 * @skb: gets a message with as many entries as fit
 * @cb: the request; args[0]: a part of the answer was sent, args[1] on: its last entry
 *
 * Each part continues after the key of the last entry. So each entry that exists during the whole
 * dump appears exactly once, even if the table changes meanwhile.
 *
 * Return: bytes of this part; 0: the answer is complete.
 */
int hpcc_nl_dump_table(struct sk_buff *skb, struct netlink_callback *cb)
{
	u8 cmd = ((const struct genlmsghdr *)nlmsg_data(cb->nlh))->cmd;
	const struct hpcc_table_type *type = hpcc_table_type_of(cmd);
	const struct hpcc_table *table;
	u32 i = 0, first;
	void *head;

	head = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, &hpcc_family,
			   NLM_F_MULTI, cmd);
	if (!head)
		return -EMSGSIZE;
	rcu_read_lock();
	table = rcu_dereference(hpcc_pernet_rcu(sock_net(skb->sk))->tables[type->id]);
	while (table && cb->args[0] && i < table->nr &&
	       type->cmp(hpcc_table_at(type, table, i), &cb->args[1]) <= 0)
		i++;
	for (first = i; table && i < table->nr; i++)
		if (hpcc_put_entry(skb, type, hpcc_table_at(type, table, i)))
			break;
	if (i > first) {
		cb->args[0] = true;
		memcpy(&cb->args[1], hpcc_table_at(type, table, i - 1), type->key_size);
		genlmsg_end(skb, head);
	} else {
		genlmsg_cancel(skb, head);
	}
	rcu_read_unlock();
	return skb->len;
}
