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
#include <hpcc/wire/clock.h>

#include "stamp/stamp_ops.h"

/* 680 full Ethernet packets, 84 us at 100 Gb/s. */
static const u32 hpcc_limit_default = 1 << 20;

static const u32 hpcc_pmax_default = HPCC_PMAX_MAX;

/* Time between two responses to a flow: the T of a rack at 100 Gb/s. */
static const u32 hpcc_every_default = 10 * NSEC_PER_USEC;

/* Preamble, frame check sequence and gap of Ethernet. */
static const u32 hpcc_overhead_default = 24;

/* Speed of a device that does not know it, in Mb/s: the same as veth. */
static const u32 hpcc_mbps_fallback = SPEED_10000;

/* MAX_TCP_HEADER of a kernel without tunnels: maximum headers before a GSO packet's payload. */
static const u32 hpcc_gso_headers = 160;

static struct netlink_range_validation hpcc_rate_range = { .max = HPCC_RATE_MAX };
static struct netlink_range_validation hpcc_node_range = { .max = HPCC_NODE_MAX };
static struct netlink_range_validation hpcc_port_range = { .max = HPCC_PORT_MAX };
static struct netlink_range_validation hpcc_delay_range = { .max = HPCC_DELAY_MAX_NS };
static struct netlink_range_validation hpcc_pmax_range = { .max = HPCC_PMAX_MAX };
static struct netlink_range_validation hpcc_every_range = {
	.min = HPCC_EVERY_MIN_NS, .max = HPCC_EVERY_MAX_NS,
};

static struct netlink_range_validation hpcc_tpid_range = {
	.min = HPCC_CSIG_TPID_MIN, .max = U16_MAX,
};

static struct netlink_range_validation hpcc_csig_time_range = {
	.min = 1, .max = HPCC_CSIG_TIME_MAX_NS,
};

static const struct nla_policy hpcc_policy[TCA_HPCC_MAX + 1] = {
	[TCA_HPCC_RATE64]	= NLA_POLICY_FULL_RANGE(NLA_U64, &hpcc_rate_range),
	[TCA_HPCC_BANDWIDTH64]	= NLA_POLICY_FULL_RANGE(NLA_U64, &hpcc_rate_range),
	[TCA_HPCC_LIMIT]	= NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_HPCC_NODE]		= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_node_range),
	[TCA_HPCC_PORT]		= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_port_range),
	[TCA_HPCC_OVERHEAD]	= NLA_POLICY_MAX(NLA_U32, HPCC_OVERHEAD_MAX),
	[TCA_HPCC_DELAY]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_delay_range),
	[TCA_HPCC_KIND]		= NLA_POLICY_RANGE(NLA_U8, 253, 254),
	[TCA_HPCC_STAMP]	= NLA_POLICY_MASK(NLA_U8, HPCC_STAMP_TCP | HPCC_STAMP_IOAM |
							   HPCC_STAMP_INT | HPCC_STAMP_IFA |
							   HPCC_STAMP_CSIG | HPCC_STAMP_CSIG_PUSH),
	[TCA_HPCC_SPLIT]	= NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_HPCC_MARKING]	= NLA_POLICY_MAX(NLA_U8, HPCC_MARKING_LDCP),
	[TCA_HPCC_KMIN]		= { .type = NLA_U32 },
	[TCA_HPCC_KMAX]		= { .type = NLA_U32 },
	[TCA_HPCC_PMAX]		= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_pmax_range),
	[TCA_HPCC_KNONECT]	= { .type = NLA_U32 },
	[TCA_HPCC_STATS]	= NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_HPCC_ABOVE]	= { .type = NLA_U32 },
	[TCA_HPCC_IDENTIFY]	= NLA_POLICY_MAX(NLA_U8, 1),
	[TCA_HPCC_RESPOND]	= { .type = NLA_U32 },
	[TCA_HPCC_EVERY]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_every_range),
	[TCA_HPCC_INT_DSCP]	= NLA_POLICY_RANGE(NLA_U8, 1, HPCC_INT_DSCP_MAX),
	[TCA_HPCC_INT_WINDOW]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_every_range),
	[TCA_HPCC_CSIG_TPID]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_tpid_range),
	[TCA_HPCC_CSIG_ABW]	= NLA_POLICY_RANGE(NLA_U32, 1, HPCC_CSIG_ABW_MAX),
	[TCA_HPCC_CSIG_TIME]	= NLA_POLICY_FULL_RANGE(NLA_U32, &hpcc_csig_time_range),
	[TCA_HPCC_CLASS64]	= NLA_POLICY_FULL_RANGE(NLA_U64, &hpcc_rate_range),
	[TCA_HPCC_QLEN]		= NLA_POLICY_MAX(NLA_U8, HPCC_QLEN_SOJOURN),
	[TCA_HPCC_QUANTIZE]	= NLA_POLICY_MAX(NLA_U8, HPCC_QUANTIZE_MAX),
	[TCA_HPCC_STRIP]	= NLA_POLICY_MASK(NLA_U8, HPCC_STAMP_TCP | HPCC_STRIP_ALL |
							   HPCC_STAMP_CSIG_PUSH),
};

/* Bytes/s. Under RTNL. */
static u64 hpcc_device_bandwidth(struct net_device *dev)
{
	struct ethtool_link_ksettings settings;
	u32 mbps = hpcc_mbps_fallback;

	if (!netif_get_link_ksettings(dev, &settings) &&
	    settings.base.speed && settings.base.speed != (u32)SPEED_UNKNOWN)
		mbps = settings.base.speed;
	return mbps * (1000000ULL / 8);
}

static u64 hpcc_bandwidth(struct net_device *dev, const struct hpcc_config *cfg)
{
	return cfg->rate ?: cfg->bandwidth ?: hpcc_device_bandwidth(dev);
}

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

#define HPCC_MEMBER(attr, type, member)						\
	[attr] = { offsetof(struct hpcc_config, member), sizeof(type) }

static const struct {
	u8 at;
	u8 size;
} hpcc_members[TCA_HPCC_MAX + 1] = {
	HPCC_MEMBER(TCA_HPCC_RATE64, u64, rate),
	HPCC_MEMBER(TCA_HPCC_BANDWIDTH64, u64, bandwidth),
	HPCC_MEMBER(TCA_HPCC_LIMIT, u32, limit),
	HPCC_MEMBER(TCA_HPCC_NODE, u32, node),
	HPCC_MEMBER(TCA_HPCC_PORT, u32, port),
	HPCC_MEMBER(TCA_HPCC_OVERHEAD, u32, overhead),
	HPCC_MEMBER(TCA_HPCC_DELAY, u32, delay_ns),
	HPCC_MEMBER(TCA_HPCC_KIND, u8, kind),
	HPCC_MEMBER(TCA_HPCC_STAMP, u8, stamp),
	HPCC_MEMBER(TCA_HPCC_SPLIT, bool, split),
	HPCC_MEMBER(TCA_HPCC_MARKING, u8, marking),
	HPCC_MEMBER(TCA_HPCC_KMIN, u32, kmin),
	HPCC_MEMBER(TCA_HPCC_KMAX, u32, kmax),
	HPCC_MEMBER(TCA_HPCC_PMAX, u32, pmax_ppm),
	HPCC_MEMBER(TCA_HPCC_KNONECT, u32, knonect),
	HPCC_MEMBER(TCA_HPCC_STATS, bool, stats),
	HPCC_MEMBER(TCA_HPCC_ABOVE, u32, above),
	HPCC_MEMBER(TCA_HPCC_IDENTIFY, bool, identify),
	HPCC_MEMBER(TCA_HPCC_RESPOND, u32, respond),
	HPCC_MEMBER(TCA_HPCC_EVERY, u32, every_ns),
	HPCC_MEMBER(TCA_HPCC_CLASS64, u64, class),
	HPCC_MEMBER(TCA_HPCC_QLEN, u8, qlen),
	HPCC_MEMBER(TCA_HPCC_QUANTIZE, u8, quantize),
	HPCC_MEMBER(TCA_HPCC_STRIP, u8, strip),
};

/* Reset what a dump would not show: options without the stamp, respond or marking that they need.
 * Attributes of this change are parsed later, so hpcc_validate() rejects them.
 */
static void hpcc_parse_options(struct nlattr **tb, struct hpcc_config *cfg)
{
	u32 i;

	if (tb[TCA_HPCC_STAMP])
		cfg->stamp = nla_get_u8(tb[TCA_HPCC_STAMP]);
	if (tb[TCA_HPCC_MARKING])
		cfg->marking = nla_get_u8(tb[TCA_HPCC_MARKING]);
	if (!cfg->stamp) {
		cfg->above = 0;
		cfg->respond = 0;
	}
	if (cfg->marking == HPCC_MARKING_OFF) {
		cfg->kmin = 0;
		cfg->kmax = 0;
		cfg->knonect = 0;
		cfg->pmax_ppm = hpcc_pmax_default;
	}
	for (i = 0; i <= TCA_HPCC_MAX; i++)
		if (tb[i])
			nla_memcpy((u8 *)cfg + hpcc_members[i].at, tb[i], hpcc_members[i].size);
	if (!cfg->respond)
		cfg->every_ns = hpcc_every_default;
	hpcc_parse_carriers(tb, cfg);
}

static int hpcc_validate_unmarked(struct nlattr **tb, struct netlink_ext_ack *extack)
{
	const struct nlattr *attr = tb[TCA_HPCC_KMIN] ?: tb[TCA_HPCC_KMAX] ?:
				    tb[TCA_HPCC_PMAX] ?: tb[TCA_HPCC_KNONECT];

	return !attr ? 0 : hpcc_reject(extack, attr, -EINVAL,
				       "kmin, kmax, pmax, knonect: need marking ldcp");
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
		return hpcc_validate_unmarked(tb, extack);
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

static int hpcc_validate_respond(struct nlattr **tb, const struct hpcc_config *cfg,
				 struct netlink_ext_ack *extack)
{
	if (tb[TCA_HPCC_EVERY] && !cfg->respond)
		return hpcc_reject(extack, tb[TCA_HPCC_EVERY], -EINVAL, "every: needs respond");
	if (cfg->respond && !cfg->stamp)
		return hpcc_reject(extack, tb[TCA_HPCC_RESPOND], -EINVAL, "respond: needs stamp");
	if (cfg->respond > cfg->limit)
		return hpcc_reject(extack, tb[TCA_HPCC_RESPOND] ?: tb[TCA_HPCC_LIMIT], -ERANGE,
				   "respond: has to be at most limit");
	return 0;
}

static int hpcc_validate_border(struct nlattr **tb, const struct hpcc_config *cfg,
				struct netlink_ext_ack *extack)
{
	const struct nlattr *attr = tb[TCA_HPCC_QUANTIZE] ?: tb[TCA_HPCC_STAMP];

	if (cfg->quantize && cfg->quantize < HPCC_QUANTIZE_MIN)
		return hpcc_reject(extack, attr, -ERANGE, "quantize: 4 .. 16 steps, or 0 for off");
	if (cfg->quantize && !(cfg->stamp & HPCC_STAMP_TCP))
		return hpcc_reject(extack, attr, -EINVAL, "quantize: needs stamp tcp");
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
	if (cfg->above && !cfg->stamp)
		return hpcc_reject(extack, tb[TCA_HPCC_ABOVE], -EINVAL, "above: needs stamp");
	if (cfg->above > cfg->limit)
		return hpcc_reject(extack, tb[TCA_HPCC_ABOVE] ?: tb[TCA_HPCC_LIMIT], -ERANGE,
				   "above: has to be at most limit");
	if (cfg->class)
		b = hpcc_bandwidth(qdisc_dev(sch), cfg);
	return hpcc_validate_border(tb, cfg, extack) ?:
	       hpcc_validate_class(sch, tb, cfg, b, extack) ?:
	       hpcc_validate_carriers(sch, tb, cfg, extack) ?:
	       hpcc_validate_respond(tb, cfg, extack) ?:
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
	return err;
}

static int hpcc_qdisc_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct nlattr *none[TCA_HPCC_MAX + 1] = {};
	struct hpcc_sched *q = qdisc_priv(sch);

	q->cfg = (struct hpcc_config){
		.limit		= hpcc_limit_default,
		.overhead	= hpcc_overhead_default,
		.every_ns	= hpcc_every_default,
		.pmax_ppm	= hpcc_pmax_default,
		.kind		= HPCC_OPT_KIND_DEFAULT,
		.stamp		= HPCC_STAMP_TCP,
		.split		= true,
		.identify	= true,
		.stats		= true,
	};
	hpcc_parse_carriers(none, &q->cfg);
	qdisc_watchdog_init(&q->watchdog, sch);
	if (opt)
		return hpcc_change(sch, opt, extack);
	return hpcc_commit(sch, &q->cfg);
}

/* Also called after hpcc_qdisc_init() failed. */
static void hpcc_destroy(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	u32 part;

	qdisc_watchdog_cancel(&q->watchdog);
	for (part = 0; part < HPCC_PARTS; part++)
		hpcc_part_put(q, part);
	qdisc_put(q->child);
	hpcc_port_put(q->shared);
	hpcc_put_carriers(q->cfg.stamp | q->cfg.strip);
}

/* Dump the effective values, not the configured ones. */
static int hpcc_dump_marking(struct sk_buff *skb, const struct hpcc_config *cfg,
			     const struct hpcc_marks *marks)
{
	if (nla_put_u8(skb, TCA_HPCC_MARKING, cfg->marking))
		return -EMSGSIZE;
	if (cfg->marking == HPCC_MARKING_OFF)
		return 0;
	if (nla_put_u32(skb, TCA_HPCC_KMIN, marks->curve.K_min) ||
	    nla_put_u32(skb, TCA_HPCC_KMAX, marks->curve.K_max) ||
	    nla_put_u32(skb, TCA_HPCC_PMAX, cfg->pmax_ppm) ||
	    nla_put_u32(skb, TCA_HPCC_KNONECT, marks->knonect))
		return -EMSGSIZE;
	return 0;
}

static int hpcc_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct hpcc_config cfg;
	struct hpcc_marks marks;
	struct nlattr *opts;

	sch_tree_lock(sch);
	cfg = q->cfg;
	marks = q->marks;
	sch_tree_unlock(sch);

	opts = nla_nest_start_noflag(skb, TCA_OPTIONS);
	if (!opts)
		return -EMSGSIZE;
	if (nla_put_u64_64bit(skb, TCA_HPCC_RATE64, cfg.rate, TCA_HPCC_PAD) ||
	    nla_put_u64_64bit(skb, TCA_HPCC_BANDWIDTH64, cfg.bandwidth, TCA_HPCC_PAD) ||
	    nla_put_u32(skb, TCA_HPCC_LIMIT, cfg.limit) ||
	    nla_put_u32(skb, TCA_HPCC_NODE, cfg.node) ||
	    nla_put_u32(skb, TCA_HPCC_PORT, cfg.port) ||
	    nla_put_u32(skb, TCA_HPCC_OVERHEAD, cfg.overhead) ||
	    nla_put_u32(skb, TCA_HPCC_DELAY, cfg.delay_ns) ||
	    nla_put_u8(skb, TCA_HPCC_KIND, cfg.kind) ||
	    nla_put_u8(skb, TCA_HPCC_STAMP, cfg.stamp) ||
	    (cfg.above && nla_put_u32(skb, TCA_HPCC_ABOVE, cfg.above)) ||
	    (cfg.respond && (nla_put_u32(skb, TCA_HPCC_RESPOND, cfg.respond) ||
			     nla_put_u32(skb, TCA_HPCC_EVERY, cfg.every_ns))) ||
	    (cfg.class && (nla_put_u64_64bit(skb, TCA_HPCC_CLASS64, cfg.class, TCA_HPCC_PAD) ||
			   nla_put_u8(skb, TCA_HPCC_QLEN, cfg.qlen))) ||
	    (cfg.quantize && nla_put_u8(skb, TCA_HPCC_QUANTIZE, cfg.quantize)) ||
	    (cfg.strip && nla_put_u8(skb, TCA_HPCC_STRIP, cfg.strip)) ||
	    hpcc_dump_carriers(skb, &cfg) ||
	    nla_put_u8(skb, TCA_HPCC_SPLIT, cfg.split) ||
	    nla_put_u8(skb, TCA_HPCC_IDENTIFY, cfg.identify) ||
	    nla_put_u8(skb, TCA_HPCC_STATS, cfg.stats) ||
	    hpcc_dump_marking(skb, &cfg, &marks)) {
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

	if (sch->ops == &hpcc_qdisc_ops)
		hpcc_commit(sch, &q->cfg);
}

/* The device may have a new speed, and the thresholds of slow links depend on the MTU. */
static int hpcc_device_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);
	struct Qdisc *sch;
	int bucket;

	ASSERT_RTNL();
	if (event != NETDEV_UP && event != NETDEV_CHANGE && event != NETDEV_CHANGEMTU)
		return NOTIFY_DONE;
	hpcc_follow(rtnl_dereference(dev->qdisc));
	hash_for_each(dev->qdisc_hash, bucket, sch, hash)
		hpcc_follow(sch);
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
	hpcc_ports_exit();
}

module_init(hpcc_module_init);
module_exit(hpcc_module_exit);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Switch port with HPCC++ in-band telemetry and LDCP marking");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
