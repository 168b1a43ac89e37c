// SPDX-License-Identifier: GPL-2.0
/*
 * A class of a port as a link by itself (draft-miao-iccrg-hpccplus section 9.4).
 *
 * A link is busy while it sends. A class is busy while it has a packet: the link sends the packet,
 * or the packet waits because the parent serves other classes or limits the rate of the class.
 * tx of a class is its busy time. So u' is 1 if the class always has a packet: it uses all that the
 * parent gives it at present. This code does not know the parent's weights.
 *
 * Terms:
 *	RATE		rate that the parent guarantees to the class
 *	LINK		rate of the link
 *	idle		a class is idle while it has no packet
 *	own time	time that the link needs for a packet of the class
 *	wait		time for which a packet is the first of its class and does not start:
 *			from its arrival, or from the end of the class's previous packet if that is
 *			later, to its start
 *	busy time	own time + wait of a packet, within the limits below
 *	owed time	what exceeds the upper limit; it is added to the class's next packet
 *	stretch		(own time + wait) / own time, an average over about 8 packets,
 *			from the scale to LINK / RATE
 *	scale		1 / (part of the link that the port's other queues leave unused),
 *			measured over a window of at least 8 full packets; at most LINK / RATE
 *	pause		longest wait since the class was last idle
 *
 * The busy time of a packet is at least own time * scale: a class that sends little beside a full
 * class waits for less time than its weight suggests, so its waits alone would show too low a use.
 *
 * The busy time is at most own time * LINK / RATE: a class that sends less than RATE is not fully
 * used, even if its packets wait. The scale and owed time do not make it longer than twice the time
 * since the previous packet started, so tx grows at most twice as fast as time. A packet that
 * arrives while the class is idle cancels the owed time.
 *
 * qlen is the class's own queue * stretch, less the pause. So a class whose share of the link falls
 * reports this before its packets have waited for long. The pause is subtracted because a class
 * that is not fully used has a queue, too, while the link sends the packets of the other classes'
 * turns. At most the longest turn is subtracted: a full packet's time * LINK / RATE. Each packet
 * reduces the pause by 1/16 of its own time.
 *
 * Below strict priorities (qlen sojourn) a class gets nothing during a burst of higher classes, and
 * the whole link after the burst. There the busy time has no limits, so u' is 1 while a packet
 * waits. qlen is the time that the packet waited in the queue, less the pause. So a queue that
 * arrived during the burst does not count, but a queue that was there before the burst does.
 */
#include <linux/device/driver.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "core/load.h"

/* Longer times count as this time, so that no sum or product overflows. ns. */
static const u64 hpcc_class_time_max = 1ULL << 34;

/* A device may fetch packets before the link has sent the previous ones. It is assumed to be ahead
 * of the link by at most this time.
 */
static const u64 hpcc_class_lead_ns = NSEC_PER_MSEC;

/* Each packet reduces the pause by 2^-4 of its own time. */
static const u32 hpcc_class_pause_shift = 4;

/* The stretch is an average over 2^3 packets, and a window is 2^3 full packets long. */
static const u32 hpcc_class_packets_shift = 3;

/* State of a class, under the qdisc's lock. class.c defines the terms. */
struct hpcc_class {
	struct hpcc_clock	busy;		/* tx: busy time of all packets */
	u64			until_ns;	/* when the link has sent the last packet */
	u64			owed_ns;	/* owed time: later packets add it to busy */
	u64			last_ns;	/* start of the last packet */
	u64			pause_ns;	/* longest wait since it was idle; shrinks */
	u64			own;		/* own time of the last packets, Q8 */
	u64			all;		/* own time + wait of the last packets, Q8 */
	u64			window_ns;	/* shortest window of scale_q16 */
	u64			from_ns;	/* start of the window */
	u64			from_others_ns;	/* busy time of other queues then */
	u32			stretch_q16;	/* all / own, within limits */
	u32			scale_q16;	/* 1 / part of the link that others leave */
	u32			stretch_max_q16;	/* LINK / RATE */
};

/* Times of a packet that starts, and the class's new owed time and pause. */
struct hpcc_class_step {
	u64	wait_ns;
	u64	own_ns;
	u64	busy_ns;
	u64	owed_ns;
	u64	pause_ns;
};

/* Return the pause, reduced by a packet. */
static u64 hpcc_class_pause(u64 pause_ns, u64 own_ns)
{
	return pause_ns - min(pause_ns, own_ns >> hpcc_class_pause_shift);
}

/* Compute the times of @skb, which starts at @now. If its time of arrival is unknown (0), because
 * it arrived before the queue was a class, it counts as a packet that arrives now.
 */
static struct hpcc_class_step hpcc_class_step(const struct hpcc_sched *q,
					      const struct sk_buff *skb, u64 own_ns, u64 now)
{
	const struct hpcc_class *c = q->part[HPCC_PART_CLASS];
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

/* A packet starts. If the window has ended, update the scale and begin the next window. */
static void hpcc_class_window(const struct hpcc_sched *q, u64 now)
{
	struct hpcc_class *c = q->part[HPCC_PART_CLASS];
	u64 ns = now - c->from_ns;
	u64 others_ns, free_ns;

	if (ns < c->window_ns)
		return;
	others_ns = hpcc_port_load(q->shared).busy_ns - q->busy.ns;
	/* A window that long began before the class was idle: assume that the link was free. */
	if (ns > hpcc_class_time_max)
		free_ns = ns;
	else
		free_ns = ns - clamp_t(s64, others_ns - c->from_others_ns, 0, ns);
	c->scale_q16 = clamp_t(u64, div64_u64(ns << 16, max(free_ns, 1ULL)), 1 << 16,
			       c->stretch_max_q16);
	c->from_ns = now;
	c->from_others_ns = others_ns;
}

/* Add a packet to the averages of the stretch. */
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
	struct hpcc_class *c = q->part[HPCC_PART_CLASS];
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

/* The bytes that the link sends in a time. */
static u64 hpcc_class_bytes(const struct hpcc_sched *q, u64 ns)
{
	return div64_u64(min_t(u64, ns, U32_MAX) << 32, q->byte_time);
}

static u32 hpcc_class_qlen(const struct hpcc_sched *q, const struct sk_buff *skb, u64 ts_ns,
			   u64 pause_ns)
{
	const struct hpcc_class *c = q->part[HPCC_PART_CLASS];
	u64 turn_ns = mul_u64_u32_shr(c->window_ns >> hpcc_class_packets_shift, c->stretch_max_q16,
				      16);
	u64 bytes = (u64)q->backlog_bytes * c->stretch_q16 >> 16;
	u64 ns;

	if (q->cfg.qlen == HPCC_QLEN_PORT)
		return hpcc_port_load(q->shared).backlog_bytes;
	if (q->cfg.qlen == HPCC_QLEN_SOJOURN && skb && hpcc_sojourn_ns(q, skb, ts_ns, &ns))
		bytes = hpcc_class_bytes(q, ns - min(ns, pause_ns));
	else
		bytes -= min(bytes, hpcc_class_bytes(q, min(pause_ns, turn_ns)));
	return min_t(u64, bytes, U32_MAX);
}

static struct hpcc_load hpcc_class_load(const struct hpcc_sched *q, const struct sk_buff *skb,
					u64 ts_ns)
{
	const struct sk_buff *first = skb ?: q->backlog.head;
	const struct hpcc_class *c = q->part[HPCC_PART_CLASS];
	struct hpcc_load load = { .busy_ns = c->busy.ns };
	struct hpcc_class_step step = {};

	if (first) {
		u64 own_ns = hpcc_link_time(q->byte_time, hpcc_skb_cb(first)->bytes).ns;

		step = hpcc_class_step(q, first, own_ns, ts_ns);
		load.busy_ns += step.busy_ns - step.own_ns;
	}
	load.backlog_bytes = hpcc_class_qlen(q, first, ts_ns, step.pause_ns);
	return load;
}

/* The configuration or the rate of the link changed. If the device became slower than RATE,
 * LINK / RATE counts as 1: the class may use the whole link.
 */
static void hpcc_class_commit(struct hpcc_sched *q)
{
	struct hpcc_class *c = q->part[HPCC_PART_CLASS];
	u64 bytes;

	c->stretch_max_q16 = clamp_t(u64, div64_u64(q->b << 16, q->cfg.class), 1 << 16, U32_MAX);
	c->stretch_q16 = clamp_t(u32, c->stretch_q16, 1 << 16, c->stretch_max_q16);
	c->scale_q16 = clamp_t(u32, c->scale_q16, 1 << 16, c->stretch_max_q16);
	bytes = (u64)psched_mtu(q->shared->key.dev) + q->cfg.overhead;
	bytes = min_t(u64, bytes << hpcc_class_packets_shift, U32_MAX);
	c->window_ns = min(hpcc_link_time(q->byte_time, bytes).ns, hpcc_class_time_max);
	/* The queue may have moved to another port, which has other counters: restart. */
	c->from_ns = ktime_get_ns();
	c->from_others_ns = hpcc_port_load(q->shared).busy_ns - q->busy.ns;
}

static void *hpcc_class_create(struct net_device *dev)
{
	return kzalloc(sizeof(struct hpcc_class), GFP_KERNEL_ACCOUNT);
}

static void hpcc_class_destroy(void *state)
{
	kfree(state);
}

static const struct hpcc_part_ops hpcc_class_ops = {
	.owner	= THIS_MODULE,
	.part	= HPCC_PART_CLASS,
	.create	= hpcc_class_create,
	.destroy = hpcc_class_destroy,
	.commit	= hpcc_class_commit,
	.sent	= hpcc_class_sent,
	.load	= hpcc_class_load,
};

module_driver(hpcc_class_ops, hpcc_part_register, hpcc_part_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("Classes of a port for the qdisc hpcc");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
