// SPDX-License-Identifier: GPL-2.0
/* Statistics of a port, in the format of <linux/hpcc.h>. */
#include <net/gen_stats.h>
#include <net/netlink.h>

#include "core/load.h"

static u32 hpcc_hist_used(const struct hpcc_sched *q)
{
	u32 nr = HPCC_HIST_BUCKETS;

	while (nr && !q->hist[nr - 1])
		nr--;
	return nr;
}

static int hpcc_put_stats(struct sk_buff *skb, const struct hpcc_sched *q)
{
	struct nlattr *nest = nla_nest_start_noflag(skb, TCA_STATS_APP);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put(skb, TCA_HPCC_XSTATS_PORT, sizeof(q->stats), &q->stats) ||
	    nla_put(skb, TCA_HPCC_XSTATS_UNSTAMPED, sizeof(q->unstamped), q->unstamped) ||
	    nla_put(skb, TCA_HPCC_XSTATS_HIST, hpcc_hist_used(q) * sizeof(q->hist[0]), q->hist)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(skb, nest);
	return 0;
}

/* Qdisc_ops::dump_stats. Writes only TCA_STATS2: if one hpcc qdisc replaces another, the
 * notification holds two dumps, which would not fit with copies in TCA_XSTATS.
 * Return: 0 or a negative error.
 */
int hpcc_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	int ret;

	sch_tree_lock(sch);
	hpcc_child_recount(q);
	if (q->part[HPCC_PART_RESPOND])
		hpcc_parts[HPCC_PART_RESPOND]->recount(q->part[HPCC_PART_RESPOND], &q->stats);
	q->stats.bandwidth = q->b;
	q->stats.qlen_bytes = q->backlog_bytes;
	q->stats.port_queues = q->shared ? q->shared->queues : 1;
	q->stats.port_qlen_bytes = q->shared ? hpcc_port_load(q->shared).backlog_bytes :
					       q->backlog_bytes;
	ret = hpcc_put_stats(d->skb, q);
	sch_tree_unlock(sch);
	return ret;
}
