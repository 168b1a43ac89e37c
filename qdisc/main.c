// SPDX-License-Identifier: GPL-2.0
/*
 * Qdisc "hpcc": an egress port of a switch that takes part in HPCC++. This file is the user
 * interface: netlink, and the speed of the device. See queue.c (FIFO, virtual link, delay), child.c
 * (child qdisc), mark.c (LDCP marks on arrival), stamp.c (telemetry on departure) and respond.c
 * (responses to senders).
 */
#include <linux/ethtool.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <hpcc/compat.h>
#include <hpcc/stacked.h>
#include <hpcc/wire/clock.h>

#include "stamp/stamp_ops.h"

/* Speed of a device that does not know it, in Mb/s: the same as veth. */
/* MAX_TCP_HEADER of a kernel without tunnels: maximum headers before a GSO packet's payload. */
static const u32 hpcc_gso_headers = 160;

#define HPCC_RANGE(type, least, most)						\
	NLA_POLICY_FULL_RANGE(type, &((struct netlink_range_validation){	\
		.min = least, .max = most }))

static const struct nla_policy hpcc_policy[TCA_HPCC_MAX + 1] = {
	[TCA_HPCC_RATE64]	= HPCC_RANGE(NLA_U64, 0, HPCC_RATE_MAX),
	[TCA_HPCC_BANDWIDTH64]	= HPCC_RANGE(NLA_U64, 0, HPCC_RATE_MAX),
	[TCA_HPCC_LIMIT]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_HPCC_NODE]		= HPCC_RANGE(NLA_U32, 0, HPCC_NODE_MAX),
	[TCA_HPCC_PORT]		= HPCC_RANGE(NLA_U32, 0, HPCC_PORT_MAX),
	[TCA_HPCC_OVERHEAD]	= NLA_POLICY_MAX(NLA_U32, HPCC_OVERHEAD_MAX),
	[TCA_HPCC_DELAY]	= HPCC_RANGE(NLA_U32, 0, HPCC_DELAY_MAX_NS),
	[TCA_HPCC_KIND]		= NLA_POLICY_RANGE(NLA_U8, 253, 254),
	[TCA_HPCC_STAMP]	= NLA_POLICY_MASK(NLA_U8, HPCC_STAMP_TCP | HPCC_STAMP_IOAM |
							   HPCC_STAMP_INT | HPCC_STAMP_IFA |
							   HPCC_STAMP_CSIG | HPCC_STAMP_CSIG_PUSH),
	[TCA_HPCC_SPLIT]	= NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_HPCC_MARKING]	= NLA_POLICY_MAX(NLA_U8, HPCC_MARKING_LDCP),
	[TCA_HPCC_KMIN]		= { .type = NLA_U32 },
	[TCA_HPCC_KMAX]		= { .type = NLA_U32 },
	[TCA_HPCC_PMAX]		= HPCC_RANGE(NLA_U32, 0, HPCC_PMAX_MAX),
	[TCA_HPCC_KNONECT]	= { .type = NLA_U32 },
	[TCA_HPCC_STATS]	= NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_HPCC_ABOVE]	= { .type = NLA_U32 },
	[TCA_HPCC_IDENTIFY]	= NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_HPCC_RESPOND]	= { .type = NLA_U32 },
	[TCA_HPCC_EVERY]	= HPCC_RANGE(NLA_U32, HPCC_EVERY_MIN_NS, HPCC_EVERY_MAX_NS),
	[TCA_HPCC_INT_DSCP]	= NLA_POLICY_RANGE(NLA_U8, 1, HPCC_INT_DSCP_MAX),
	[TCA_HPCC_INT_WINDOW]	= HPCC_RANGE(NLA_U32, HPCC_EVERY_MIN_NS, HPCC_EVERY_MAX_NS),
	[TCA_HPCC_CSIG_TPID]	= HPCC_RANGE(NLA_U32, HPCC_CSIG_TPID_MIN, U16_MAX),
	[TCA_HPCC_CSIG_ABW]	= NLA_POLICY_RANGE(NLA_U32, 1, HPCC_CSIG_ABW_MAX),
	[TCA_HPCC_CSIG_TIME]	= HPCC_RANGE(NLA_U32, 1, HPCC_CSIG_TIME_MAX_NS),
	[TCA_HPCC_CLASS64]	= HPCC_RANGE(NLA_U64, 0, HPCC_RATE_MAX),
	[TCA_HPCC_QLEN]		= NLA_POLICY_MAX(NLA_U8, HPCC_QLEN_SOJOURN),
	[TCA_HPCC_QUANTIZE]	= NLA_POLICY_MAX(NLA_U8, HPCC_QUANTIZE_MAX),
	[TCA_HPCC_STRIP]	= NLA_POLICY_MASK(NLA_U8, HPCC_STAMP_TCP | HPCC_STRIP_ALL |
							   HPCC_STAMP_CSIG_PUSH),
	[TCA_HPCC_INNER]	= NLA_POLICY_MAX(NLA_U8, 1),
};

/* Make a configuration active, under RTNL. Fails only if the port changes. */
static int hpcc_commit(struct Qdisc *sch, const struct hpcc_config *cfg)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	u64 b = hpcc_bandwidth(qdisc_dev(sch), cfg);
	u64 byte_time = hpcc_byte_time(b);
	struct hpcc_offset offset = hpcc_offset_of(sch, cfg);
	struct hpcc_marks marks;
	struct hpcc_port *port;
	bool new_link;

	port = hpcc_port_get(sch, cfg);
	if (IS_ERR(port))
		return PTR_ERR(port);
	hpcc_marks_init(&marks, cfg, hpcc_marks_rate(cfg, b), psched_mtu(qdisc_dev(sch)));
	sch_tree_lock(sch);
	/* The link becomes virtual, and free from now on: arrival times are unknown. */
	if (cfg->rate && !q->cfg.rate)
		q->link_free = (struct hpcc_clock){ .ns = ktime_get_ns() };
	new_link = q->b != b || q->shared != port || !q->cfg.class != !cfg->class;
	q->cfg = *cfg;
	WRITE_ONCE(sch->enqueue, cfg->respond ? hpcc_parts[HPCC_PART_RESPOND]->enqueue :
						hpcc_enqueue);
	WRITE_ONCE(sch->dequeue, hpcc_is_border(cfg) ? hpcc_parts[HPCC_PART_BORDER]->dequeue :
							hpcc_dequeue);
	q->marks = marks;
	q->offset = offset;
	q->arrived = false;
	q->b = b;
	q->byte_time = byte_time;
	q->timed = cfg->rate || cfg->class;
	port = hpcc_port_move(q, port);
	if (cfg->class)
		hpcc_parts[HPCC_PART_CLASS]->commit(q);
	hpcc_commit_carriers(q, new_link);
	sch_tree_unlock(sch);
	hpcc_port_put(port);
	return 0;
}

static const struct hpcc_config hpcc_defaults = {
	.limit		= 1 << 20,		/* 680 full Ethernet packets, 84 us at 100 Gb/s */
	.overhead	= 24,			/* Ethernet: preamble, check sequence and gap */
	.every_ns	= 10 * NSEC_PER_USEC,	/* T of a rack at 100 Gb/s */
	.pmax_ppm	= HPCC_PMAX_MAX,
	.kind		= HPCC_OPT_KIND_DEFAULT,
	.walk		= HPCC_OPT_KIND_DEFAULT,
	.stamp		= HPCC_STAMP_TCP,
	.split		= true,
	.identify	= true,
	.stats		= true,
	.dscp		= HPCC_INT_DSCP_DEFAULT,
	.util_window_ns	= 10 * NSEC_PER_USEC,	/* about two T in a rack at 100 Gb/s */
	.tpid		= HPCC_CSIG_TPID_DEFAULT,
	.abw_unit	= HPCC_CSIG_ABW_DEFAULT,
	.time_unit_ns	= HPCC_CSIG_TIME_DEFAULT,
};

#define HPCC_MEMBER(type, member)						\
	.at = offsetof(struct hpcc_config, member), .size = sizeof(type)

#define HPCC_NEEDS_MARKING							\
	.needs = TCA_HPCC_MARKING,						\
	.missing = "kmin, kmax, pmax, knonect: need marking ldcp"

#define HPCC_NEEDS_INT								\
	.missing = "int_dscp, int_window: need stamp int, strip int (int_dscp) or csig (int_window)"

#define HPCC_NEEDS_CSIG								\
	.stamp = HPCC_STAMP_CSIG | HPCC_STAMP_CSIG_PUSH,			\
	.missing = "csig_tpid, csig_abw, csig_time: need stamp csig, csig_push or strip csig (tpid)"

/* Options without what they need would have no effect. */
static const struct hpcc_option {
	u8 at;			/* member of struct hpcc_config, of the attribute's size */
	u8 size;
	u8 needs;		/* another attribute, with a smaller number; 0: none */
	u8 stamp;		/* stamped carriers that have the option; 0: any */
	u8 strip;		/* stripped carriers that have the option, too */
	bool hides_0;		/* 0 means off: it needs nothing, and a dump does not show it */
	const char *missing;	/* error message: what it needs is missing */
} hpcc_options[TCA_HPCC_MAX + 1] = {
	[TCA_HPCC_RATE64]	= { HPCC_MEMBER(u64, rate) },
	[TCA_HPCC_BANDWIDTH64]	= { HPCC_MEMBER(u64, bandwidth) },
	[TCA_HPCC_LIMIT]	= { HPCC_MEMBER(u32, limit) },
	[TCA_HPCC_NODE]		= { HPCC_MEMBER(u32, node) },
	[TCA_HPCC_PORT]		= { HPCC_MEMBER(u32, port) },
	[TCA_HPCC_OVERHEAD]	= { HPCC_MEMBER(u32, overhead) },
	[TCA_HPCC_DELAY]	= { HPCC_MEMBER(u32, delay_ns) },
	[TCA_HPCC_KIND]		= { HPCC_MEMBER(u8, kind) },
	[TCA_HPCC_STAMP]	= { HPCC_MEMBER(u8, stamp) },
	[TCA_HPCC_SPLIT]	= { HPCC_MEMBER(bool, split) },
	[TCA_HPCC_MARKING]	= { HPCC_MEMBER(u8, marking) },
	[TCA_HPCC_KMIN]		= { HPCC_MEMBER(u32, kmin), HPCC_NEEDS_MARKING },
	[TCA_HPCC_KMAX]		= { HPCC_MEMBER(u32, kmax), HPCC_NEEDS_MARKING },
	[TCA_HPCC_PMAX]		= { HPCC_MEMBER(u32, pmax_ppm), HPCC_NEEDS_MARKING },
	[TCA_HPCC_KNONECT]	= { HPCC_MEMBER(u32, knonect), HPCC_NEEDS_MARKING },
	[TCA_HPCC_STATS]	= { HPCC_MEMBER(bool, stats) },
	[TCA_HPCC_ABOVE]	= { HPCC_MEMBER(u32, above), .hides_0 = true,
				    .needs = TCA_HPCC_STAMP, .missing = "above: needs stamp" },
	[TCA_HPCC_IDENTIFY]	= { HPCC_MEMBER(bool, identify) },
	[TCA_HPCC_RESPOND]	= { HPCC_MEMBER(u32, respond), .hides_0 = true,
				    .needs = TCA_HPCC_STAMP, .missing = "respond: needs stamp" },
	[TCA_HPCC_EVERY]	= { HPCC_MEMBER(u32, every_ns), .needs = TCA_HPCC_RESPOND,
				    .missing = "every: needs respond" },
	[TCA_HPCC_INT_DSCP]	= { HPCC_MEMBER(u8, dscp),
				    .stamp = HPCC_STAMP_INT, .strip = HPCC_STAMP_INT,
				    HPCC_NEEDS_INT },
	[TCA_HPCC_INT_WINDOW]	= { HPCC_MEMBER(u32, util_window_ns),
				    .stamp = HPCC_STAMP_INT | HPCC_STAMP_CSIG, HPCC_NEEDS_INT },
	[TCA_HPCC_CSIG_TPID]	= { HPCC_MEMBER(u32, tpid), .strip = HPCC_STAMP_CSIG,
				    HPCC_NEEDS_CSIG },
	[TCA_HPCC_CSIG_ABW]	= { HPCC_MEMBER(u32, abw_unit), HPCC_NEEDS_CSIG },
	[TCA_HPCC_CSIG_TIME]	= { HPCC_MEMBER(u32, time_unit_ns), HPCC_NEEDS_CSIG },
	[TCA_HPCC_CLASS64]	= { HPCC_MEMBER(u64, class), .hides_0 = true },
	[TCA_HPCC_QLEN]		= { HPCC_MEMBER(u8, qlen), .needs = TCA_HPCC_CLASS64,
				    .missing = "qlen: needs class" },
	[TCA_HPCC_QUANTIZE]	= { HPCC_MEMBER(u8, quantize), .hides_0 = true },
	[TCA_HPCC_STRIP]	= { HPCC_MEMBER(u8, strip), .hides_0 = true },
	[TCA_HPCC_INNER]	= { HPCC_MEMBER(bool, inner), .hides_0 = true,
				    .stamp = HPCC_STAMP_TCP, .missing = "inner: needs stamp tcp" },
};

static bool hpcc_option_is_0(const struct hpcc_config *cfg, const struct hpcc_option *o)
{
	return !memchr_inv((const u8 *)cfg + o->at, 0, o->size);
}

/* Whether the configuration has what an option needs. */
static bool hpcc_option_applies(const struct hpcc_config *cfg, const struct hpcc_option *o)
{
	if (o->needs && hpcc_option_is_0(cfg, &hpcc_options[o->needs]))
		return false;
	return !o->stamp || cfg->stamp & o->stamp || cfg->strip & o->strip;
}

/* An option that no longer applies gets its default, because a dump would not show another value.
 * If the request has it, hpcc_validate() rejects it.
 */
static void hpcc_parse_options(struct nlattr **tb, struct hpcc_config *cfg)
{
	const struct hpcc_option *o;
	u32 i;

	for (i = 1; i <= TCA_HPCC_MAX; i++)
		if (tb[i])
			nla_memcpy((u8 *)cfg + hpcc_options[i].at, tb[i], hpcc_options[i].size);
	for (i = 1; i <= TCA_HPCC_MAX; i++) {
		o = &hpcc_options[i];
		if (!tb[i] && !hpcc_option_applies(cfg, o))
			memcpy((u8 *)cfg + o->at, (const u8 *)&hpcc_defaults + o->at, o->size);
	}
	cfg->stamp &= ~HPCC_STAMP_INNER;
	cfg->stamp |= cfg->inner ? HPCC_STAMP_INNER : 0;
	/* Only these carriers need the TCP option at arrival. */
	cfg->walk = cfg->stamp & (HPCC_STAMP_TCP | HPCC_STAMP_CSIG_PUSH) ? cfg->kind :
									    HPCC_WALK_IP_ONLY;
}

static int hpcc_validate_needs(struct nlattr **tb, const struct hpcc_config *cfg,
			       struct netlink_ext_ack *extack)
{
	const struct hpcc_option *o;
	u32 i;

	for (i = 1; i <= TCA_HPCC_MAX; i++) {
		o = &hpcc_options[i];
		if (tb[i] && !hpcc_option_applies(cfg, o) &&
		    !(o->hides_0 && hpcc_option_is_0(cfg, o)))
			return hpcc_reject(extack, tb[i], -EINVAL, o->missing);
	}
	return 0;
}

/* An unrelated request must not fail because the device's speed, and so kmax, has changed. */
static int hpcc_validate_kmin(struct net_device *dev, struct nlattr **tb,
			      const struct hpcc_config *cfg, struct netlink_ext_ack *extack)
{
	const struct nlattr *attr = tb[TCA_HPCC_KMIN] ?: tb[TCA_HPCC_KMAX] ?: tb[TCA_HPCC_LIMIT] ?:
				    tb[TCA_HPCC_RATE64] ?: tb[TCA_HPCC_BANDWIDTH64] ?:
				    tb[TCA_HPCC_OVERHEAD] ?: tb[TCA_HPCC_CLASS64] ?:
				    tb[TCA_HPCC_QLEN];
	u64 b;

	if (cfg->kmax && cfg->kmin > cfg->kmax)
		return hpcc_reject(extack, attr, -ERANGE, "kmin: has to be at most kmax");
	if (cfg->kmax || !cfg->kmin || !attr)
		return 0;
	b = hpcc_marks_rate(cfg, hpcc_bandwidth(dev, cfg));
	if (cfg->kmin > hpcc_kmax_derived(cfg, b, psched_mtu(dev)))
		return hpcc_reject(extack, attr, -ERANGE,
				   "kmin: has to be at most kmax, which follows from B and limit unless given");
	return 0;
}

/* Check the resulting configuration, not only the attributes of the change. */
static int hpcc_validate_marking(struct Qdisc *sch, struct nlattr **tb,
				 const struct hpcc_config *cfg, struct netlink_ext_ack *extack)
{
	const struct hpcc_sched *q = qdisc_priv(sch);

	if (cfg->marking == HPCC_MARKING_OFF)
		return 0;
	if (q->child)
		return hpcc_reject(extack, tb[TCA_HPCC_MARKING], -EINVAL,
				   "marking: a child qdisc decides about marks itself");
	if (cfg->kmax > cfg->limit)
		return hpcc_reject(extack, tb[TCA_HPCC_KMAX] ?: tb[TCA_HPCC_LIMIT], -ERANGE,
				   "kmax: has to be at most limit");
	if (cfg->knonect > cfg->limit)
		return hpcc_reject(extack, tb[TCA_HPCC_KNONECT] ?: tb[TCA_HPCC_LIMIT], -ERANGE,
				   "knonect: has to be at most limit");
	return hpcc_validate_kmin(qdisc_dev(sch), tb, cfg, extack);
}

static int hpcc_validate_border(struct nlattr **tb, const struct hpcc_config *cfg,
				struct netlink_ext_ack *extack)
{
	const struct nlattr *attr = tb[TCA_HPCC_QUANTIZE] ?: tb[TCA_HPCC_STAMP];

	if (cfg->quantize && cfg->quantize < HPCC_QUANTIZE_MIN)
		return hpcc_reject(extack, attr, -ERANGE, "quantize: 4 .. 16 steps, or 0 for off");
	if (cfg->quantize && !(cfg->stamp & HPCC_STAMP_TCP))
		return hpcc_reject(extack, attr, -EINVAL, "quantize: needs stamp tcp");
	if (cfg->quantize && cfg->inner)
		return hpcc_reject(extack, tb[TCA_HPCC_INNER] ?: attr, -EINVAL,
				   "quantize: does not reach into tunnels, so not with inner on");
	if (cfg->strip & ~HPCC_STRIP_ALL)
		return hpcc_reject(extack, tb[TCA_HPCC_STRIP], -EINVAL,
				   "strip: has to be ioam, int, ifa, csig, or several");
	return 0;
}

/* Checks that a netlink policy cannot express: gaps in a range, and combinations of attributes. */
static int hpcc_validate(struct Qdisc *sch, struct nlattr **tb, struct hpcc_config *cfg,
			 struct netlink_ext_ack *extack)
{
	u64 b = 0;

	if (cfg->rate && cfg->rate < HPCC_RATE_MIN)
		return hpcc_reject(extack, tb[TCA_HPCC_RATE64], -ERANGE,
				   "rate: 1 kbit/s or more, or 0 for none");
	if (cfg->bandwidth && cfg->bandwidth < HPCC_RATE_MIN)
		return hpcc_reject(extack, tb[TCA_HPCC_BANDWIDTH64], -ERANGE,
				   "bandwidth: 1 kbit/s or more, or 0 for the device's");
	if (cfg->limit < psched_mtu(qdisc_dev(sch)) + cfg->overhead)
		return hpcc_reject(extack, tb[TCA_HPCC_LIMIT], -ERANGE,
				   "limit: has to hold a packet of the device's MTU, header and overhead included");
	if (!cfg->split && cfg->limit < GSO_LEGACY_MAX_SIZE + hpcc_gso_headers + cfg->overhead)
		return hpcc_reject(extack, tb[TCA_HPCC_LIMIT] ?: tb[TCA_HPCC_SPLIT], -ERANGE,
				   "limit: without split it has to hold a GSO packet of 64 KB, headers and overhead included");
	if (cfg->above > cfg->limit)
		return hpcc_reject(extack, tb[TCA_HPCC_ABOVE] ?: tb[TCA_HPCC_LIMIT], -ERANGE,
				   "above: has to be at most limit");
	if (cfg->respond > cfg->limit)
		return hpcc_reject(extack, tb[TCA_HPCC_RESPOND] ?: tb[TCA_HPCC_LIMIT], -ERANGE,
				   "respond: has to be at most limit");
	if (eth_type_vlan(htons(cfg->tpid)) || cfg->tpid == ETH_P_IP || cfg->tpid == ETH_P_IPV6)
		return hpcc_reject(extack, tb[TCA_HPCC_CSIG_TPID], -EINVAL,
				   "csig_tpid: is the EtherType of IP or of VLAN tags");
	if (cfg->class)
		b = hpcc_bandwidth(qdisc_dev(sch), cfg);
	return hpcc_validate_needs(tb, cfg, extack) ?:
	       hpcc_validate_border(tb, cfg, extack) ?:
	       hpcc_validate_class(sch, tb, cfg, b, extack) ?:
	       hpcc_validate_carriers(sch, tb, cfg, extack) ?:
	       hpcc_validate_marking(sch, tb, cfg, extack);
}

static int hpcc_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_HPCC_MAX + 1];
	struct hpcc_config cfg = q->cfg;
	u8 old = cfg.stamp | cfg.strip;
	int err;

	err = nla_parse_nested(tb, TCA_HPCC_MAX, opt, hpcc_policy, extack);
	if (err)
		return err;
	hpcc_parse_options(tb, &cfg);
	hpcc_parse_class(sch, tb, &cfg);
	err = hpcc_get_carriers(tb, cfg.stamp | cfg.strip, extack);
	if (err)
		return err;
	err = hpcc_validate(sch, tb, &cfg, extack) ?:
	      hpcc_part_get(sch, HPCC_PART_RESPOND, cfg.respond, tb[TCA_HPCC_RESPOND], extack) ?:
	      hpcc_part_get(sch, HPCC_PART_BORDER, hpcc_is_border(&cfg),
			    tb[TCA_HPCC_QUANTIZE] ?: tb[TCA_HPCC_STRIP], extack) ?:
	      hpcc_part_get(sch, HPCC_PART_CLASS, cfg.class, tb[TCA_HPCC_CLASS64], extack) ?:
	      hpcc_commit(sch, &cfg);
	/* The active configuration changed under the qdisc's lock, so no packet uses the class. */
	if (!q->cfg.class)
		hpcc_part_put(q, HPCC_PART_CLASS);
	hpcc_put_carriers(err ? cfg.stamp | cfg.strip : old);
	if (!err)
		hpcc_warn_unequal(qdisc_dev(sch), &cfg, extack);
	return err;
}

static int hpcc_qdisc_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	q->cfg = hpcc_defaults;
	INIT_LIST_HEAD(&q->stale);
	qdisc_watchdog_init(&q->watchdog, sch);
	if (opt)
		return hpcc_change(sch, opt, extack);
	hpcc_warn_unequal(qdisc_dev(sch), &q->cfg, extack);
	return hpcc_commit(sch, &q->cfg);
}

/* Also called after hpcc_qdisc_init() failed. */
static void hpcc_destroy(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	u32 part;

	list_del(&q->stale);
	qdisc_watchdog_cancel(&q->watchdog);
	for (part = 0; part < HPCC_PARTS; part++)
		hpcc_part_put(q, part);
	qdisc_put(q->child);
	hpcc_port_put(q->shared);
	hpcc_put_carriers(q->cfg.stamp | q->cfg.strip);
}

static int hpcc_dump_options(struct sk_buff *skb, const struct hpcc_config *cfg)
{
	const struct hpcc_option *o;
	const u8 *p;
	u32 i;
	int err;

	for (i = 1; i <= TCA_HPCC_MAX; i++) {
		o = &hpcc_options[i];
		p = (const u8 *)cfg + o->at;
		if (!o->size || !hpcc_option_applies(cfg, o) ||
		    (o->hides_0 && hpcc_option_is_0(cfg, o)))
			continue;
		err = o->size == sizeof(u64) ? nla_put_64bit(skb, i, o->size, p, TCA_HPCC_PAD) :
					       nla_put(skb, i, o->size, p);
		if (err)
			return err;
	}
	return 0;
}

static int hpcc_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct hpcc_config cfg;
	struct nlattr *opts;

	sch_tree_lock(sch);
	cfg = q->cfg;
	/* Thresholds are effective values, not configured ones. */
	cfg.kmin = q->marks.curve.K_min;
	cfg.kmax = q->marks.curve.K_max;
	cfg.knonect = q->marks.knonect;
	sch_tree_unlock(sch);
	cfg.stamp &= ~HPCC_STAMP_INNER;

	opts = nla_nest_start_noflag(skb, TCA_OPTIONS);
	if (!opts)
		return -EMSGSIZE;
	if (hpcc_dump_options(skb, &cfg)) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

static struct Qdisc_ops hpcc_qdisc_ops __read_mostly = {
	.id		= "hpcc",
	.cl_ops		= &hpcc_child_ops,
	.priv_size	= sizeof(struct hpcc_stamp_port),
	.enqueue	= hpcc_enqueue,
	.dequeue	= hpcc_dequeue,
	.peek		= hpcc_peek_next,
	.init		= hpcc_qdisc_init,
	.reset		= hpcc_queue_reset,
	.destroy	= hpcc_destroy,
	.change		= hpcc_change,
	.dump		= hpcc_dump,
	.dump_stats	= hpcc_dump_stats,
	.owner		= THIS_MODULE,
};
MODULE_ALIAS_NET_SCH("hpcc");

static void hpcc_follow(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	hpcc_commit(sch, &q->cfg);
}

/* Ports of stacked devices whose speed may have changed, in hpcc_sched.stale; under RTNL. */
static LIST_HEAD(hpcc_stale);

static void hpcc_stale_work(struct work_struct *unused)
{
	struct hpcc_sched *q;

	rtnl_lock();
	while ((q = list_first_entry_or_null(&hpcc_stale, struct hpcc_sched, stale))) {
		list_del_init(&q->stale);
		hpcc_follow(q->watchdog.qdisc);
	}
	rtnl_unlock();
}

static DECLARE_WORK(hpcc_stale_task, hpcc_stale_work);

static void hpcc_follow_later(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	list_move(&q->stale, &hpcc_stale);
	schedule_work(&hpcc_stale_task);
}

static void hpcc_each_port(struct net_device *dev, void (*fn)(struct Qdisc *sch))
{
	struct Qdisc *sch = rtnl_dereference(dev->qdisc);
	int bucket;

	if (sch->ops == &hpcc_qdisc_ops)
		fn(sch);
	hash_for_each(dev->qdisc_hash, bucket, sch, hash)
		if (sch->ops == &hpcc_qdisc_ops)
			fn(sch);
}

static int hpcc_stacked_changed(struct net_device *dev, struct netdev_nested_priv *unused)
{
	hpcc_each_port(dev, hpcc_follow_later);
	return 0;
}

/* The device may have a new speed, and the thresholds of slow links depend on the MTU. */
static int hpcc_device_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);

	ASSERT_RTNL();
	hpcc_each_stacked(event, ptr, hpcc_stacked_changed);
	if (event != NETDEV_UP && event != NETDEV_CHANGE && event != NETDEV_CHANGEMTU)
		return NOTIFY_DONE;
	hpcc_each_port(dev, hpcc_is_stacked(dev) ? hpcc_follow_later : hpcc_follow);
	return NOTIFY_DONE;
}

static struct notifier_block hpcc_device_notifier = {
	.notifier_call = hpcc_device_event,
};

static int __init hpcc_module_init(void)
{
	int err;

	hpcc_offset_init_key();
	err = hpcc_ports_init();
	if (err)
		return err;
	err = register_netdevice_notifier(&hpcc_device_notifier);
	if (err)
		goto no_notifier;
	err = register_qdisc(&hpcc_qdisc_ops);
	if (err)
		goto no_qdisc;
	return 0;

no_qdisc:
	unregister_netdevice_notifier(&hpcc_device_notifier);
no_notifier:
	hpcc_ports_exit();
	return err;
}

static void __exit hpcc_module_exit(void)
{
	unregister_qdisc(&hpcc_qdisc_ops);
	unregister_netdevice_notifier(&hpcc_device_notifier);
	/* No port is left to follow, but the work may still wait for RTNL. */
	cancel_work_sync(&hpcc_stale_task);
	hpcc_ports_exit();
}

module_init(hpcc_module_init);
module_exit(hpcc_module_exit);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Switch port with HPCC++ in-band telemetry and LDCP marking");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
