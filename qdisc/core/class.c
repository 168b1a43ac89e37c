// SPDX-License-Identifier: GPL-2.0
/*
 * Configuration of the classes of a port. An hpcc qdisc that is a leaf of a classful qdisc may be a
 * class: a link by itself for the window law. The module sch_hpcc_class (class.c) computes
 * the load.
 *
 * A class has no pointers to the other classes of its port. When the configuration changes, this
 * code searches for them in the device's table of qdiscs, under RTNL.
 */
#include <linux/hashtable.h>
#include <linux/rtnetlink.h>
#include <hpcc/compat.h>

#include "core/sched.h"

/* Number that a class got last. RTNL protects it. */
static u8 hpcc_class_number;

/* Return the parent of a qdisc, or NULL. Under RTNL. */
static struct Qdisc *hpcc_parent(const struct Qdisc *sch)
{
	struct net_device *dev = qdisc_dev(sch);
	u32 handle = TC_H_MAJ(sch->parent);
	struct Qdisc *parent = rtnl_dereference(dev->qdisc);
	int bucket;

	if (parent->handle == handle)
		return parent;
	hash_for_each(dev->qdisc_hash, bucket, parent, hash)
		if (parent->handle == handle)
			return parent;
	return NULL;
}

/* Set the default of qlen. Below prio (strict priorities) a class waits as long as higher classes
 * send, so the default of a new class there is the sojourn time. @cfg: configuration with the
 * values of @tb.
 */
void hpcc_parse_class(const struct Qdisc *sch, struct nlattr **tb, struct hpcc_config *cfg)
{
	const struct hpcc_sched *q = qdisc_priv(((struct Qdisc *)sch));
	const struct Qdisc *parent;

	if (!cfg->class) {
		cfg->number = 0;
	} else if (!q->cfg.class && !tb[TCA_HPCC_QLEN]) {
		parent = hpcc_parent(sch);
		cfg->qlen = parent && !strcmp(parent->ops->id, "prio") ? HPCC_QLEN_SOJOURN :
									 HPCC_QLEN_CLASS;
	}
}

/* Whether @other is a class of the port to which @sch will belong. While a new qdisc replaces an
 * old one, both have the same parent: @other does not count then.
 */
static bool hpcc_is_other_class(const struct Qdisc *sch, const struct hpcc_config *cfg,
				const struct Qdisc *other)
{
	const struct hpcc_sched *q = qdisc_priv(((struct Qdisc *)other));

	return other->ops == sch->ops && other->parent != sch->parent &&
	       q->cfg.class && q->cfg.node == cfg->node && q->cfg.port == cfg->port;
}

/* Give a number to a class that has none, or whose number belongs to a class of its new port: the
 * next free number after the last one. So flows that move to a new class detect a new link.
 */
static void hpcc_number_class(struct hpcc_config *cfg, const unsigned long *used)
{
	u32 number = cfg->number;

	if (number && !test_bit(number, used))
		return;
	number = find_next_zero_bit(used, HPCC_CLASSES_MAX + 1, hpcc_class_number + 1);
	if (number > HPCC_CLASSES_MAX)
		number = find_next_zero_bit(used, HPCC_CLASSES_MAX + 1, 1);
	cfg->number = number;
	hpcc_class_number = number;
}

/* Check the limits of all classes of the port: equal bandwidth, their count, and the sum of their
 * rates. Then give the class a number. @b: rate of the link.
 */
static int hpcc_validate_classes(const struct Qdisc *sch, struct hpcc_config *cfg, u64 b,
				 const struct nlattr *attr, struct netlink_ext_ack *extack)
{
	DECLARE_BITMAP(used, HPCC_CLASSES_MAX + 1) = {};
	u64 sum = cfg->class;
	struct Qdisc *other;
	int bucket, nr = 1;

	hash_for_each(qdisc_dev(sch)->qdisc_hash, bucket, other, hash) {
		const struct hpcc_sched *q = qdisc_priv(other);

		if (!hpcc_is_other_class(sch, cfg, other))
			continue;
		if (q->cfg.bandwidth != cfg->bandwidth)
			return hpcc_reject(extack, attr, -EINVAL,
					   "class: all classes of a port need the same bandwidth");
		sum += q->cfg.class;
		__set_bit(q->cfg.number, used);
		nr++;
	}
	if (nr > HPCC_CLASSES_MAX)
		return hpcc_reject(extack, attr, -ERANGE, "class: at most 255 for a port");
	if (sum > b)
		return hpcc_reject(extack, attr, -ERANGE,
				   "class: 1 kbit/s .. bandwidth less the port's other classes");
	hpcc_number_class(cfg, used);
	return 0;
}

/* Check the options of a class, and give it a number. @b: rate of the link, if @cfg has a class.
 * The limits of all classes of the port are checked only if the request changes the rate,
 * bandwidth, node or port of this class: if the device has become slower, the sum of the rates may
 * already be too large.
 * Return: 0, -EINVAL or -ERANGE.
 */
int hpcc_validate_class(struct Qdisc *sch, struct nlattr **tb, struct hpcc_config *cfg, u64 b,
			struct netlink_ext_ack *extack)
{
	const struct hpcc_sched *q = qdisc_priv(sch);
	const struct nlattr *attr = tb[TCA_HPCC_CLASS64];

	if (!cfg->class)
		return 0;
	if (cfg->class < HPCC_RATE_MIN)
		return hpcc_reject(extack, attr, -ERANGE, "class: 1 kbit/s or more, or 0 for none");
	if (sch->parent == TC_H_ROOT || cfg->rate || cfg->delay_ns)
		return hpcc_reject(extack,
				   attr ?: tb[TCA_HPCC_RATE64] ?: tb[TCA_HPCC_DELAY], -EINVAL,
				   "class: needs a classful parent, and neither rate nor delay");
	if (cfg->class == q->cfg.class && cfg->bandwidth == q->cfg.bandwidth &&
	    cfg->node == q->cfg.node && cfg->port == q->cfg.port)
		return 0;
	return hpcc_validate_classes(sch, cfg, b, attr ?: tb[TCA_HPCC_BANDWIDTH64] ?:
				     tb[TCA_HPCC_NODE] ?: tb[TCA_HPCC_PORT], extack);
}
