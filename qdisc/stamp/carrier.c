// SPDX-License-Identifier: GPL-2.0
/* The carriers that a port can stamp: which one a packet uses, and their configuration. */
#include <net/netlink.h>

#include "stamp/stamp_ops.h"

static const struct hpcc_stamp_ops hpcc_option_ops = {
	.stamp_bit	= HPCC_STAMP_TCP,
	.reads_option	= true,
};

/* Lowest precedence first: a carrier replaces the hint of those before it. The TCP option has no
 * functions here: hpcc_parse() finds it, and hpcc_stamp() writes it without an indirect call.
 */
const struct hpcc_stamp_ops *const hpcc_stamp_carriers[] = {
	&hpcc_option_ops,
	&hpcc_csig_push_ops,
	&hpcc_ioam_ops,
	&hpcc_ifa_ops,
	&hpcc_int_ops,
	&hpcc_csig_ops,
};

#define HPCC_STAMP_ANY_CSIG	(HPCC_STAMP_CSIG | HPCC_STAMP_CSIG_PUSH)

/* The parameters, in their order in a dump; @stamp: carriers that have the parameter. */
static const struct hpcc_param_desc {
	u32	preset;
	u8	attr;
	u8	stamp;
	bool	is_u8;
} hpcc_params[HPCC_STAMP_PARAMS] = {
	[HPCC_PARAM_INT_DSCP] = {
		HPCC_INT_DSCP_DEFAULT, TCA_HPCC_INT_DSCP, HPCC_STAMP_INT, true,
	},
	/* Two T of a rack at 100 Gb/s. */
	[HPCC_PARAM_UTIL_WINDOW] = {
		10 * NSEC_PER_USEC, TCA_HPCC_INT_WINDOW, HPCC_STAMP_INT | HPCC_STAMP_CSIG,
	},
	[HPCC_PARAM_CSIG_TPID] = {
		HPCC_CSIG_TPID_DEFAULT, TCA_HPCC_CSIG_TPID, HPCC_STAMP_ANY_CSIG,
	},
	[HPCC_PARAM_CSIG_ABW] = {
		HPCC_CSIG_ABW_DEFAULT, TCA_HPCC_CSIG_ABW, HPCC_STAMP_ANY_CSIG,
	},
	[HPCC_PARAM_CSIG_TIME] = {
		HPCC_CSIG_TIME_DEFAULT, TCA_HPCC_CSIG_TIME, HPCC_STAMP_ANY_CSIG,
	},
};

/**
 * hpcc_parse_any() - find a packet's headers and its carrier, for a port with any HPCC_STAMP_*
 * @skb: the packet
 * @cfg: configuration of the port
 *
 * Return: the headers.
 */
struct hpcc_headers hpcc_parse_any(struct sk_buff *skb, const struct hpcc_config *cfg)
{
	struct hpcc_headers headers = hpcc_parse(skb, cfg->walk);
	const struct hpcc_stamp_ops *ops;
	u32 row, hint;

	BUILD_BUG_ON(ARRAY_SIZE(hpcc_stamp_carriers) > FIELD_MAX(HPCC_HINT_CARRIER) + 1);
	if (cfg->stamp == HPCC_STAMP_TCP)
		return headers;
	for (row = 1; row < ARRAY_SIZE(hpcc_stamp_carriers); row++) {
		ops = hpcc_stamp_carriers[row];
		hint = cfg->stamp & ops->stamp_bit ? ops->hint(skb, cfg, &headers) : 0;
		if (hint & HPCC_HINT_FOUND)
			hint |= FIELD_PREP(HPCC_HINT_CARRIER, row);
		headers.hint = hint ?: headers.hint;
	}
	return headers;
}

/**
 * hpcc_hint_need() - make the first bytes of an arriving packet readable
 * @skb: the packet
 * @need: bytes
 * @end: length of the packet by its IP header
 *
 * Return: 0 or the reason why they are not (enum hpcc_unstamped).
 */
u32 hpcc_hint_need(struct sk_buff *skb, u32 need, u32 end)
{
	if (need > end)
		return HPCC_UNSTAMPED_MALFORMED;
	return pskb_may_pull(skb, need) ? 0 : HPCC_UNSTAMPED_NO_MEMORY;
}

/**
 * hpcc_parse_carriers() - parse the parameters of carriers
 * @tb: attributes of a change; a missing attribute of a new carrier gets its default
 * @cfg: configuration, with stamp and kind already set
 *
 * Reset the parameters of a disabled carrier, because a dump would not show them.
 */
void hpcc_parse_carriers(struct nlattr **tb, struct hpcc_config *cfg)
{
	const struct hpcc_param_desc *p;
	const struct nlattr *attr;
	u32 i;

	for (i = 0; i < HPCC_STAMP_PARAMS; i++) {
		p = &hpcc_params[i];
		attr = tb[p->attr];
		if (!(cfg->stamp & p->stamp))
			cfg->param[i] = p->preset;
		else if (attr)
			cfg->param[i] = p->is_u8 ? nla_get_u8(attr) : nla_get_u32(attr);
	}
	cfg->walk = HPCC_WALK_IP_ONLY;
	for (i = 0; i < ARRAY_SIZE(hpcc_stamp_carriers); i++)
		if (cfg->stamp & hpcc_stamp_carriers[i]->stamp_bit &&
		    hpcc_stamp_carriers[i]->reads_option)
			cfg->walk = cfg->kind;
}

/* A parameter without its carrier would have no effect. */
static int hpcc_validate_params(struct nlattr **tb, const struct hpcc_config *cfg,
				struct netlink_ext_ack *extack)
{
	const struct hpcc_param_desc *p;

	for (p = hpcc_params; p < hpcc_params + HPCC_STAMP_PARAMS; p++) {
		if (!tb[p->attr] || cfg->stamp & p->stamp)
			continue;
		if (p->stamp & HPCC_STAMP_INT)
			return hpcc_reject(extack, tb[p->attr], -EINVAL,
					   "int_dscp, int_window: need stamp int, or csig for int_window");
		return hpcc_reject(extack, tb[p->attr], -EINVAL,
				   "csig_tpid, csig_abw, csig_time: need stamp csig or csig_push");
	}
	return 0;
}

/**
 * hpcc_validate_port() - reject port_ID 65535, which means "unknown port" in IOAM and INT
 * @sch: the qdisc
 * @tb: attributes of a change
 * @cfg: resulting configuration
 * @extack: error message
 *
 * Return: 0 or -ERANGE.
 */
int hpcc_validate_port(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
		       struct netlink_ext_ack *extack)
{
	return cfg->port != HPCC_PORT_MAX ? 0 :
	       hpcc_reject(extack, tb[TCA_HPCC_PORT] ?: tb[TCA_HPCC_STAMP], -ERANGE,
			   "port: 0 .. 65534 with stamp ioam or int, where 65535 means unknown");
}

/**
 * hpcc_validate_carriers() - check the combination of carrier parameters
 * @sch: the qdisc
 * @tb: attributes of a change
 * @cfg: resulting configuration
 * @extack: error message
 *
 * Return: 0, -EINVAL or -ERANGE.
 */
int hpcc_validate_carriers(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			   struct netlink_ext_ack *extack)
{
	int err = hpcc_validate_params(tb, cfg, extack);
	u32 row;

	for (row = 1; row < ARRAY_SIZE(hpcc_stamp_carriers) && !err; row++)
		if (cfg->stamp & hpcc_stamp_carriers[row]->stamp_bit)
			err = hpcc_stamp_carriers[row]->validate(sch, tb, cfg, extack);
	return err;
}

/**
 * hpcc_dump_carriers() - write the parameters of carriers
 * @skb: dump
 * @cfg: configuration
 *
 * Return: 0 or -EMSGSIZE.
 */
int hpcc_dump_carriers(struct sk_buff *skb, const struct hpcc_config *cfg)
{
	const struct hpcc_param_desc *p;
	int err = 0;
	u32 i;

	for (i = 0; i < HPCC_STAMP_PARAMS && !err; i++) {
		p = &hpcc_params[i];
		if (cfg->stamp & p->stamp)
			err = p->is_u8 ? nla_put_u8(skb, p->attr, cfg->param[i]) :
					 nla_put_u32(skb, p->attr, cfg->param[i]);
	}
	return err;
}

/**
 * hpcc_commit_carriers() - the port has a new configuration
 * @q: the port, locked, under RTNL
 * @new_link: its link has changed, so its utilization is not known
 */
void hpcc_commit_carriers(struct hpcc_sched *q, bool new_link)
{
	u32 row;

	if (new_link)
		hpcc_stamp_port(q)->util = (struct hpcc_util){};
	for (row = 0; row < ARRAY_SIZE(hpcc_stamp_carriers); row++)
		if (hpcc_stamp_carriers[row]->commit)
			hpcc_stamp_carriers[row]->commit(q);
}
