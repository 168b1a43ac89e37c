// SPDX-License-Identifier: GPL-2.0
/*
 * A child qdisc replaces our queue: the child is our class 1, as with TBF and netem.
 *
 *	enqueue -> child -> [start] in flight (serialised, then delayed) -> dequeue
 *
 * The child orders, drops and marks. Everything else is the same as in queue.c: a packet is stamped
 * when it starts, with the queue of the child at that time. The port parses headers at that time
 * too, because the child has used our part of skb->cb.
 *
 * Parents expect a qdisc to drop accepted packets only in dequeue, so the child is dequeued only
 * from our dequeue. The arrival times of its packets are unknown. But if the link is free and the
 * child gave it no packet, the next packet starts no earlier than now. A pacing child delays
 * packets even if the link is free, and wakes the device itself when a packet is ready.
 */
#include <net/pkt_sched.h>
#include <hpcc/compat.h>

#include "core/load.h"

static void hpcc_child_forget(struct hpcc_sched *q, u32 truesize)
{
	u64 memory = min_t(u64, truesize, q->child_memory);

	q->child_memory -= memory;
	q->memory -= memory;
	q->child_packets -= q->child_packets > 0;
}

/* Estimate the memory of the child's packets. A packet that the child dropped without a call to us
 * counts as the smallest packet since the child was last empty; a packet that the child created by
 * splitting counts as one buffer.
 */
static void hpcc_child_count(struct hpcc_sched *q, u32 qlen)
{
	u64 memory = q->child_memory;

	if (likely(qlen && qlen == q->child_packets))
		return;
	if (!qlen) {
		memory = 0;
		q->child_least = U32_MAX;
	} else if (qlen < q->child_packets) {
		memory -= min_t(u64, memory, (u64)(q->child_packets - qlen) * q->child_least);
	} else {
		memory += (u64)(qlen - q->child_packets) * SKB_TRUESIZE(0);
		q->child_least = SKB_TRUESIZE(0);
	}
	q->memory += memory - q->child_memory;
	q->child_memory = memory;
	q->child_packets = qlen;
}

/* Pass a packet to the child. The child may drop other packets, which it adds to @to_free. */
static int hpcc_child_give(struct hpcc_sched *q, struct sk_buff *skb, struct sk_buff **to_free)
{
	const struct sk_buff *before = *to_free;
	u32 truesize = skb->truesize;
	const struct sk_buff *dropped;
	int ret;

	q->child_memory += truesize;
	q->memory += truesize;
	q->child_packets++;
	q->child_least = min(q->child_least, truesize);
	ret = qdisc_enqueue(skb, q->child, to_free);
	for (dropped = *to_free; dropped != before; dropped = dropped->next)
		hpcc_child_forget(q, dropped->truesize);
	return ret;
}

/* Update the backlog of the child and of the port. A child drops packets without a call to us if
 * its limit is lowered or a qdisc below it is replaced. A GSO packet that is not split counts one
 * overhead until it starts.
 */
void hpcc_child_recount(struct hpcc_sched *q)
{
	u64 bytes = 0;

	if (q->child)
		bytes = q->child->qstats.backlog + (u64)q->child->q.qlen * q->cfg.overhead;
	bytes = min_t(u64, bytes, U32_MAX);
	hpcc_backlog_add(q, (s64)bytes - q->child_bytes);
	q->child_bytes = bytes;
	hpcc_child_count(q, q->child ? q->child->q.qlen : 0);
}

/* Whether the child left the link free until now. */
static bool hpcc_child_was_idle(const struct hpcc_sched *q)
{
	return !hpcc_child_has(q) || q->child_refused;
}

/* Pass an arriving packet to the child of a port that has one. @now: current time, or 0 if the port
 * is not timed. @bytes: length of the packet on the link.
 */
int hpcc_child_enqueue(struct sk_buff *skb, struct Qdisc *sch, u64 now,
		       u32 bytes, struct sk_buff **to_free)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	unsigned int len = qdisc_pkt_len(skb);
	int ret;

	hpcc_child_recount(q);
	if (!hpcc_fits(q, bytes, skb->truesize)) {
		q->stats.drop_limit++;
		return qdisc_drop(skb, sch, to_free);
	}
	if (hpcc_child_was_idle(q))
		q->child_idle_ns = now;
	ret = hpcc_child_give(q, skb, to_free);
	hpcc_child_recount(q);
	if (ret != NET_XMIT_SUCCESS) {
		if (net_xmit_drop_count(ret))
			qdisc_qstats_drop(sch);
		return ret;
	}
	sch->qstats.backlog += len;
	qdisc_qlen_inc(sch);
	return NET_XMIT_SUCCESS;
}

/* Get the next packet from the child. @q: the port, which has a child. @now: current time; used
 * only if the link is virtual.
 * Return: a packet, prepared as in our own queue; NULL: the child gave no packet.
 */
struct sk_buff *hpcc_child_dequeue(struct hpcc_sched *q, u64 now)
{
	struct sk_buff *skb;

	if (hpcc_child_was_idle(q))
		q->child_idle_ns = now;
	skb = hpcc_child_has(q) ? q->child->dequeue(q->child) : NULL;
	q->child_refused = !skb;
	if (skb)
		hpcc_child_forget(q, skb->truesize);
	hpcc_child_recount(q);
	if (!skb)
		return NULL;
	*hpcc_skb_cb(skb) = (struct hpcc_skb_cb){
		.time_ns = q->child_idle_ns,
		.bytes = hpcc_link_bytes(q, skb, hpcc_pkt_segs(skb)),
		.memory = skb->truesize,
	};
	if (q->cfg.stamp)
		hpcc_skb_cb(skb)->hint = hpcc_parse_any(skb, &q->cfg).hint;
	/* Parsing may have given the packet a larger buffer. */
	q->memory += hpcc_skb_cb(skb)->memory;
	return skb;
}

/* Empty the child, if there is one. */
void hpcc_child_reset(struct hpcc_sched *q)
{
	if (q->child)
		qdisc_reset(q->child);
	hpcc_child_recount(q);
	q->child_idle_ns = 0;
	q->child_refused = false;
}

/* There is one class, with or without a child. */
static unsigned long hpcc_child_find(struct Qdisc *sch, u32 classid)
{
	return TC_H_MIN(classid) == 1;
}

static struct Qdisc *hpcc_child_leaf(struct Qdisc *sch, unsigned long cl)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	return q->child;
}

/* Packets of the old child are dropped. Packets of our own queue stay and are sent first. */
static int hpcc_child_graft(struct Qdisc *sch, unsigned long cl, struct Qdisc *new,
			    struct Qdisc **old, struct netlink_ext_ack *extack)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	if (new && q->cfg.marking != HPCC_MARKING_OFF) {
		NL_SET_ERR_MSG(extack,
			       "hpcc: set marking off first: a child qdisc marks packets itself");
		return -EINVAL;
	}
	sch_tree_lock(sch);
	*old = q->child;
	q->child = new;
	if (*old)
		qdisc_purge_queue(*old);
	q->child_refused = false;
	hpcc_child_recount(q);
	sch_tree_unlock(sch);
	return 0;
}

static void hpcc_child_emptied(struct Qdisc *sch, unsigned long cl)
{
	hpcc_child_recount(qdisc_priv(sch));
}

static void hpcc_child_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	if (!walker->stop)
		tc_qdisc_stats_dump(sch, 1, walker);
}

static int hpcc_child_dump(struct Qdisc *sch, unsigned long cl,
			   struct sk_buff *skb, struct tcmsg *tcm)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	tcm->tcm_handle |= TC_H_MIN(1);
	tcm->tcm_info = q->child ? q->child->handle : 0;
	return 0;
}

const struct Qdisc_class_ops hpcc_child_ops = {
	.graft	= hpcc_child_graft,
	.leaf	= hpcc_child_leaf,
	.find	= hpcc_child_find,
	.qlen_notify = hpcc_child_emptied,
	.walk	= hpcc_child_walk,
	.dump	= hpcc_child_dump,
};
