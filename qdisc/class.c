// SPDX-License-Identifier: GPL-2.0
/*
 * A class of a port as a link by itself (draft-miao-iccrg-hpccplus section 9.4).
 *
 * A link is busy while it sends. A class is busy while it has a packet: it sends this packet, or it
 * waits because its parent serves other classes or limits its rate. So u' is 1 if the class uses
 * all that it may have now, whatever the parent's weights and the other classes are.
 *
 * A class that sends less waits less than its weight tells. So a packet counts as its time on the
 * link / share at least, with share = 1 - use of the link by the port's other queues, over a window
 * of 8 full packets.
 *
 * A packet counts as its time * LINK / RATE at most: a class that sends less than its guaranteed
 * RATE is not fully used, even if its packets wait. What exceeds this is owed to the next packets:
 * then tx grows at most twice as fast as time. An idle class owes nothing.
 *
 * qlen is the own queue times the stretch: the inverse of the share that the last 8 packets had, or
 * of the share above, at most LINK / RATE. So a class whose share falls reports this before its
 * packets have waited for long.
 *
 * Below strict priorities (qlen sojourn) the share is 0 in a burst, and 1 after it. Such a class
 * owes nothing: while it waits u' is 1. qlen is the time that the packet waited, less the longest
 * pause since the class was idle. So a queue that a burst leaves behind does not count; a queue
 * that was there before the burst does. After a pause the class may forget 1/16 of its own time.
 */
#include <linux/device/driver.h>
#include <linux/math64.h>
#include <linux/module.h>

#include "core/load.h"

/* Longest time that sums and products can hold, ns. */
static const u64 hpcc_class_time_max = 1ULL << 34;

/* Maximum time by which a device may fetch packets in advance. */
static const u64 hpcc_class_lead_ns = NSEC_PER_MSEC;

/* Part of a pause that is forgotten, per time that the class sends. */
static const u32 hpcc_class_pause_shift = 4;

/* Packets in the sums of the stretch, and in a window. */
static const u32 hpcc_class_packets_shift = 3;

/* What a starting packet changes. */
struct hpcc_class_step {
	u64	wait_ns;	/* pause before the packet */
	u64	own_ns;		/* time of the packet on the link */
	u64	busy_ns;	/* time that busy gets */
	u64	owed_ns;
	u64	pause_ns;
};

static u64 hpcc_class_pause(u64 pause_ns, u64 own_ns)
{
	return pause_ns - min(pause_ns, own_ns >> hpcc_class_pause_shift);
}

/* @skb starts at @now. Arrival 0: the packet arrived before the queue was a class. */
static struct hpcc_class_step hpcc_class_step(const struct hpcc_sched *q,
					      const struct sk_buff *skb, u64 own_ns, u64 now)
{
	const struct hpcc_class *c = q->class;
	u64 came_ns = hpcc_skb_cb(skb)->time_ns ?: now;
	bool was_idle = (s64)(came_ns - c->until_ns) > 0;
	s64 wait_ns = now - (was_idle ? came_ns : c->until_ns);
	struct hpcc_class_step step = {
		.wait_ns = clamp_t(s64, wait_ns, 0, hpcc_class_time_max),
		.own_ns = min(own_ns, hpcc_class_time_max),
	};
	u64 all, least, most;

	if (!was_idle) {
		step.owed_ns = c->owed_ns;
		step.pause_ns = hpcc_class_pause(c->pause_ns, step.own_ns);
	}
	step.pause_ns = max(step.pause_ns, step.wait_ns);
	step.busy_ns = step.wait_ns + step.own_ns;
	if (q->cfg.qlen == HPCC_QLEN_SOJOURN) {
		step.owed_ns = 0;
		return step;
	}
	all = step.busy_ns + step.owed_ns;
	least = mul_u64_u32_shr(step.own_ns, c->scale_q16, 16);
	most = min(mul_u64_u32_shr(step.own_ns, c->stretch_max_q16, 16),
		   max(step.busy_ns, 2 * min(now - c->last_ns, hpcc_class_time_max)));
	step.busy_ns = max(min(max(all, least), most), step.own_ns);
	step.owed_ns = min(all - min(all, step.busy_ns), hpcc_class_time_max);
	return step;
}

/* The use of the link by other queues: at the end of each window, after at least one own packet. */
static void hpcc_class_window(const struct hpcc_sched *q, u64 now)
{
	struct hpcc_class *c = q->class;
	u64 ns = now - c->from_ns;
	u64 others_ns, free_ns;

	if (ns < c->window_ns)
		return;
	others_ns = hpcc_port_load(q->shared).busy_ns - q->busy.ns;
	/* A window that long began before the class was idle: assume that the link was free. */
	if (ns > hpcc_class_time_max)
		ns = free_ns = 1;
	else
		free_ns = ns - clamp_t(s64, others_ns - c->from_others_ns, 0, ns);
	c->scale_q16 = clamp_t(u64, div64_u64(ns << 16, max(free_ns, 1ULL)), 1 << 16,
			       c->stretch_max_q16);
	c->from_ns = now;
	c->from_others_ns = others_ns;
}

static void hpcc_class_stretch(struct hpcc_class *c, const struct hpcc_class_step *step)
{
	c->own += (step->own_ns << 8 | 1) - (c->own >> hpcc_class_packets_shift);
	c->all += ((step->own_ns + step->wait_ns) << 8 | 1) - (c->all >> hpcc_class_packets_shift);
	c->stretch_q16 = clamp_t(u64, div64_u64(c->all << 16, c->own), c->scale_q16,
				 c->stretch_max_q16);
}

static void hpcc_class_sent(struct hpcc_sched *q, const struct sk_buff *skb,
			    struct hpcc_clock time, u64 now)
{
	struct hpcc_class *c = q->class;
	struct hpcc_class_step step = hpcc_class_step(q, skb, time.ns, now);

	c->busy = hpcc_clock_add(c->busy, time);
	c->busy.ns += step.busy_ns - step.own_ns;
	c->owed_ns = step.owed_ns;
	c->pause_ns = step.pause_ns;
	if ((s64)(c->until_ns - now) < 0)
		c->until_ns = now;
	else
		c->until_ns = min(c->until_ns, now + hpcc_class_lead_ns);
	c->until_ns += step.own_ns;
	c->last_ns = now;
	hpcc_class_window(q, now);
	hpcc_class_stretch(c, &step);
}

static u32 hpcc_class_qlen(const struct hpcc_sched *q, const struct sk_buff *skb, u64 ts_ns,
			   u64 pause_ns)
{
	u64 bytes = (u64)q->backlog_bytes * q->class->stretch_q16 >> 16;
	u64 ns;

	if (q->cfg.qlen == HPCC_QLEN_PORT)
		return hpcc_port_load(q->shared).backlog_bytes;
	if (q->cfg.qlen == HPCC_QLEN_SOJOURN && skb && hpcc_sojourn_ns(q, skb, ts_ns, &ns)) {
		ns = min_t(u64, ns - min(ns, pause_ns), U32_MAX);
		bytes = div64_u64(ns << 32, q->byte_time);
	}
	return min_t(u64, bytes, U32_MAX);
}

static struct hpcc_load hpcc_class_load(const struct hpcc_sched *q, const struct sk_buff *skb,
					u64 ts_ns)
{
	const struct sk_buff *first = skb ?: q->backlog.head;
	struct hpcc_load load = { .busy_ns = q->class->busy.ns };
	struct hpcc_class_step step = {};

	if (first) {
		u64 own_ns = hpcc_link_time(q->byte_time, hpcc_skb_cb(first)->bytes).ns;

		step = hpcc_class_step(q, first, own_ns, ts_ns);
		load.busy_ns += step.busy_ns - step.own_ns;
	}
	load.backlog_bytes = hpcc_class_qlen(q, first, ts_ns, step.pause_ns);
	return load;
}

/* A link slower than the class, because its device became slower, is all the class's. */
static void hpcc_class_commit(struct hpcc_sched *q)
{
	struct hpcc_class *c = q->class;
	u64 bytes;

	c->stretch_max_q16 = clamp_t(u64, div64_u64(q->b << 16, q->cfg.class), 1 << 16, U32_MAX);
	c->stretch_q16 = clamp_t(u32, c->stretch_q16, 1 << 16, c->stretch_max_q16);
	c->scale_q16 = clamp_t(u32, c->scale_q16, 1 << 16, c->stretch_max_q16);
	bytes = (u64)psched_mtu(q->shared->key.dev) + q->cfg.overhead;
	bytes = min_t(u64, bytes << hpcc_class_packets_shift, U32_MAX);
	c->window_ns = min(hpcc_link_time(q->byte_time, bytes).ns, hpcc_class_time_max);
	/* Its port may be another one, with other counters. */
	c->from_ns = ktime_get_ns();
	c->from_others_ns = hpcc_port_load(q->shared).busy_ns - q->busy.ns;
}

static const struct hpcc_class_ops hpcc_class_functions = {
	.owner	= THIS_MODULE,
	.commit	= hpcc_class_commit,
	.sent	= hpcc_class_sent,
	.load	= hpcc_class_load,
};

module_driver(hpcc_class_functions, hpcc_class_register, hpcc_class_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Classes of a port for the qdisc hpcc");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
