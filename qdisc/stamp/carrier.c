// SPDX-License-Identifier: GPL-2.0
/* The carriers that a port can stamp: which one a packet uses, and their configuration. */
#include <net/netlink.h>

#include "stamp/stamp_ops.h"

/* A carrier's name in tc, and the end of its module's name. */
#define HPCC_CARRIER_IN(carrier, end)	\
	.module = { .name = end, .missing = carrier ": carrier not loaded" }

/* The TCP option has no ops: hpcc_parse() and hpcc_stamp() make no indirect call for it. */
struct hpcc_stamp_carrier hpcc_stamp_carriers[HPCC_ROWS] __read_mostly = {
	[HPCC_ROW_OPTION] = { .stamp_bit = HPCC_STAMP_TCP },
	[HPCC_ROW_CSIG_PUSH] = { HPCC_CARRIER_IN("csig_push", "csig"),
				 .stamp_bit = HPCC_STAMP_CSIG_PUSH },
	[HPCC_ROW_INNER] = { .module = { .name = "inner",
					 .missing = "inner: module sch_hpcc_inner not loaded" },
			     .stamp_bit = HPCC_STAMP_INNER },
	[HPCC_ROW_IOAM] = { HPCC_CARRIER_IN("ioam", "ioam"), .stamp_bit = HPCC_STAMP_IOAM },
	[HPCC_ROW_IFA] = { HPCC_CARRIER_IN("ifa", "ifa"), .stamp_bit = HPCC_STAMP_IFA },
	[HPCC_ROW_INT] = { HPCC_CARRIER_IN("int", "int"), .stamp_bit = HPCC_STAMP_INT },
	[HPCC_ROW_CSIG] = { HPCC_CARRIER_IN("csig", "csig"), .stamp_bit = HPCC_STAMP_CSIG },
};
EXPORT_SYMBOL_GPL(hpcc_stamp_carriers);

/* Let ports use the carriers of a module. @ops: the first one. Return: 0, for module_driver(). */
int hpcc_stamp_register(const struct hpcc_stamp_ops *ops)
{
	const struct hpcc_stamp_ops *at;

	/* The mutex of hpcc_module_set() publishes all ops. */
	for (at = ops; at; at = at->next)
		hpcc_stamp_carriers[at->row].ops = at;
	for (at = ops; at; at = at->next)
		hpcc_module_set(&hpcc_stamp_carriers[at->row].module, at->owner);
	return 0;
}
EXPORT_SYMBOL_GPL(hpcc_stamp_register);

/* Remove the carriers of a module; no port stamps them. */
void hpcc_stamp_unregister(const struct hpcc_stamp_ops *ops)
{
	for (; ops; ops = ops->next) {
		hpcc_module_set(&hpcc_stamp_carriers[ops->row].module, NULL);
		hpcc_stamp_carriers[ops->row].ops = NULL;
	}
}
EXPORT_SYMBOL_GPL(hpcc_stamp_unregister);

/* Release the modules that hpcc_get_carriers() holds. @stamp: HPCC_STAMP_*, the carriers. */
void hpcc_put_carriers(u8 stamp)
{
	const struct hpcc_stamp_carrier *c;

	for (c = &hpcc_stamp_carriers[1]; c < hpcc_stamp_carriers + HPCC_ROWS; c++)
		if (stamp & c->stamp_bit)
			module_put(c->module.owner);
}

/* Hold the modules of carriers; load those that are missing. @stamp: HPCC_STAMP_*, the carriers.
 * Return: 0, or -ENOENT if a module cannot be loaded; then no module is held.
 */
int hpcc_get_carriers(struct nlattr **tb, u8 stamp, struct netlink_ext_ack *extack)
{
	const struct nlattr *attr = tb[TCA_HPCC_STAMP] ?: tb[TCA_HPCC_STRIP] ?:
				    tb[TCA_HPCC_INNER];
	const struct hpcc_stamp_carrier *c;
	u8 held = 0;
	int err;

	for (c = &hpcc_stamp_carriers[1]; c < hpcc_stamp_carriers + HPCC_ROWS; c++) {
		if (!(stamp & c->stamp_bit))
			continue;
		err = hpcc_module_get(&c->module, attr, extack);
		if (err) {
			hpcc_put_carriers(held);
			return err;
		}
		held |= c->stamp_bit;
	}
	return 0;
}

/* Find a packet's headers and its carrier, for a port with any HPCC_STAMP_*. @cfg: configuration of
 * the port.
 */
struct hpcc_headers hpcc_parse_any(struct sk_buff *skb, const struct hpcc_config *cfg)
{
	struct hpcc_headers headers = hpcc_parse(skb, cfg->walk);
	const struct hpcc_stamp_carrier *c;
	u32 row, hint;

	BUILD_BUG_ON(FIELD_MAX(HPCC_HINT_CARRIER) + 1 < HPCC_ROWS);
	if (cfg->stamp == HPCC_STAMP_TCP)
		return headers;
	for (row = 1; row < HPCC_ROWS; row++) {
		c = &hpcc_stamp_carriers[row];
		hint = cfg->stamp & c->stamp_bit ? c->ops->hint(skb, cfg, &headers) : 0;
		if (hint & HPCC_HINT_FOUND)
			hint |= FIELD_PREP(HPCC_HINT_CARRIER, row);
		headers.hint = hint ?: headers.hint;
	}
	return headers;
}
EXPORT_SYMBOL_GPL(hpcc_parse_any);

/* Make the first @need bytes of an arriving packet readable. @end: length of the packet by its IP
 * header.
 * Return: 0, or the reason why they are not readable (enum hpcc_unstamped).
 */
u32 hpcc_hint_need(struct sk_buff *skb, u32 need, u32 end)
{
	if (need > end)
		return HPCC_UNSTAMPED_MALFORMED;
	return pskb_may_pull(skb, need) ? 0 : HPCC_UNSTAMPED_NO_MEMORY;
}
EXPORT_SYMBOL_GPL(hpcc_hint_need);

/* Reject port_ID 65535, which means "unknown port" in IOAM and INT. Return: 0 or -ERANGE. */
int hpcc_validate_port(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
		       struct netlink_ext_ack *extack)
{
	return cfg->port != HPCC_PORT_MAX ? 0 :
	       hpcc_reject(extack, tb[TCA_HPCC_PORT] ?: tb[TCA_HPCC_STAMP], -ERANGE,
			   "port: 0 .. 65534 with stamp ioam or int, where 65535 means unknown");
}
EXPORT_SYMBOL_GPL(hpcc_validate_port);

/* Check the configuration for each carrier. Return: 0, -EINVAL or -ERANGE. */
int hpcc_validate_carriers(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			   struct netlink_ext_ack *extack)
{
	const struct hpcc_stamp_carrier *c;
	int err = 0;

	for (c = &hpcc_stamp_carriers[1]; c < hpcc_stamp_carriers + HPCC_ROWS && !err; c++)
		if (cfg->stamp & c->stamp_bit && c->ops->validate)
			err = c->ops->validate(sch, tb, cfg, extack);
	return err;
}

/* The port has a new configuration. @q: the port, locked, under RTNL. @new_link: its link has
 * changed, so its utilization is not known.
 */
void hpcc_commit_carriers(struct hpcc_sched *q, bool new_link)
{
	const struct hpcc_stamp_carrier *c;

	if (new_link)
		hpcc_stamp_port(q)->util = (struct hpcc_util){};
	for (c = &hpcc_stamp_carriers[1]; c < hpcc_stamp_carriers + HPCC_ROWS; c++)
		if (q->cfg.stamp & c->stamp_bit && c->ops->commit)
			c->ops->commit(q);
}
