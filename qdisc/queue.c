// SPDX-License-Identifier: GPL-2.0
/*
 * The queue, the link behind it, and the way to the other end.
 *
 *	enqueue -> waiting -> [start] line (serialised, then delayed) -> dequeue
 *
 * The link is virtual: it is free at a time that is computed, never observed,
 *
 *	start = max(free, arrival)
 *	free  = start + (length + overhead) / B
 *
 * so that a late timer costs neither capacity nor accuracy. A packet is
 * stamped as it starts, which is when its first bit leaves: ts = start, tx =
 * the time spent on all packets before, qlen = what waits behind it. While
 * packets wait, d(tx) / d(ts) is 1 exactly. It is due at free + delay, and
 * goes to the device then.
 *
 * Starts that lie in the past are made up for whenever something happens, and
 * always before a packet is added: so qlen holds what had come by the start,
 * and not what came after it, however late the timer was.
 *
 * Without rate the device is the link: a packet starts when the device fetches
 * it (with delay: as soon as the device runs the qdisc), and ts is that time.
 */
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <hpcc/compat.h>
#include <hpcc/histogram.h>

#include "sched.h"

/* How far in the past a packet may start. What a timer is later than this, or
 * a device refuses packets for longer, is capacity lost: giving it back would
 * send a burst that no such link could.
 */
static const u64 hpcc_catch_up_ns = NSEC_PER_MSEC;

/* Memory of packets that a qdisc may hold. A link that is fast and long holds what
 * has begun to leave beside what waits, and a small packet takes ten times its
 * length. The default has room for 10 ms at 100 Gb/s. Root of a network namespace
 * chooses rate, delay and limit; this is for root of the machine.
 */
static unsigned int hpcc_memory_max_mb = 256;

static int hpcc_set_memory_max_mb(const char *value,
				  const struct kernel_param *param)
{
	return param_set_uint_minmax(value, param, 1, 65536);
}

static const struct kernel_param_ops hpcc_memory_max_mb_ops = {
	.set = hpcc_set_memory_max_mb,
	.get = param_get_uint,
};

module_param_cb(memory_max_mb, &hpcc_memory_max_mb_ops, &hpcc_memory_max_mb,
		0644);
MODULE_PARM_DESC(memory_max_mb,
		 "MB of memory that the packets of a qdisc may take, 1 .. 65536 (256)");

static u64 hpcc_time_ns(const struct sk_buff *skb)
{
	return hpcc_skb_cb(skb)->time_ns;
}

/* Does the device not fetch what is due? */
static bool hpcc_is_blocked(const struct hpcc_sched *q, u64 now)
{
	const struct sk_buff *skb = skb_peek(&q->line);

	return skb && hpcc_time_ns(skb) + hpcc_catch_up_ns < now;
}

/* May the first waiting packet start? A shaped link decides by its clock. An
 * unshaped one is the device, which takes a packet at a time; with delay it
 * has no part in when they leave.
 */
static bool hpcc_may_start(const struct hpcc_sched *q, u64 now)
{
	if (q->cfg.rate)
		return q->free.ns <= now && !hpcc_is_blocked(q, now);
	return q->cfg.delay_ns || skb_queue_empty(&q->line);
}

/* When a packet starts that came at @arrival_ns. */
static struct hpcc_clock hpcc_start_time(struct hpcc_sched *q, u64 arrival_ns,
					 u64 now)
{
	struct hpcc_clock start = q->free;

	if (!q->cfg.rate)
		return (struct hpcc_clock){ .ns = now };
	if (start.ns < arrival_ns)
		start = (struct hpcc_clock){ .ns = arrival_ns };
	if (start.ns + hpcc_catch_up_ns < now) {
		start = (struct hpcc_clock){ .ns = now - hpcc_catch_up_ns };
		q->stats.resyncs++;
	}
	return start;
}

static void hpcc_count_departure(struct hpcc_sched *q, u32 bytes)
{
	q->stats.tx_packets++;
	q->stats.tx_bytes += bytes;
	q->stats.hist[hpcc_hist_bucket(q->waiting_bytes)]++;
	if (q->stats.qlen_max_bytes < q->waiting_bytes)
		q->stats.qlen_max_bytes = q->waiting_bytes;
}

/* The link spends so long on a packet. Returns what it had spent before. */
static u64 hpcc_spend(struct hpcc_sched *q, struct hpcc_clock time)
{
	u64 before = q->busy.ns;
	u64 q13;

	if (q->shared) {
		q13 = (time.ns << HPCC_PORT_BUSY_SHIFT) +
		      (((u64)time.frac + (1U << 18)) >> 19);
		return (u64)atomic64_fetch_add(q13, &q->shared->busy) >>
		       HPCC_PORT_BUSY_SHIFT;
	}
	q->busy = hpcc_clock_add(q->busy, time);
	return before;
}

/* The first bit of a packet leaves. */
static void hpcc_leave(struct hpcc_sched *q, struct sk_buff *skb, u64 start_ns,
		       struct hpcc_clock time)
{
	u32 bytes = hpcc_skb_cb(skb)->bytes;

	__skb_unlink(skb, &q->waiting);
	hpcc_waiting_add(q, -(s64)bytes);
	hpcc_count_departure(q, bytes);
	hpcc_stamp(q, skb, start_ns, hpcc_spend(q, time));
}

static void hpcc_start(struct hpcc_sched *q, struct sk_buff *skb, u64 now)
{
	u32 bytes = hpcc_skb_cb(skb)->bytes;
	struct hpcc_clock start = hpcc_start_time(q, hpcc_time_ns(skb), now);
	struct hpcc_clock time = hpcc_link_time(q->byte_time, bytes);
	u64 due_ns = now;

	hpcc_leave(q, skb, start.ns, time);
	if (q->cfg.rate) {
		q->free = hpcc_clock_add(start, time);
		due_ns = hpcc_clock_ceil(q->free);
	}
	if (q->cfg.delay_ns) {
		/* A NIC would now report it sent. Its socket need not wait
		 * for the propagation, or TSQ would throttle the sender.
		 */
		skb_orphan(skb);
		due_ns += q->cfg.delay_ns;
	}
	/* When the delay is lowered, packets become due before others in front
	 * of them; they wait for those.
	 */
	hpcc_skb_cb(skb)->time_ns = due_ns;
	__skb_queue_tail(&q->line, skb);
	q->line_bytes += bytes;
}

/* Start every packet whose time has come. */
static void hpcc_serve(struct hpcc_sched *q, u64 now)
{
	struct sk_buff *skb;

	while ((skb = skb_peek(&q->waiting)) && hpcc_may_start(q, now))
		hpcc_start(q, skb, now);
}

static bool hpcc_fits(const struct hpcc_sched *q, u32 bytes, u32 memory)
{
	u64 memory_max = (u64)READ_ONCE(hpcc_memory_max_mb) << 20;
	u64 held = q->waiting_bytes;

	/* No link limits what is on the delay. */
	if (!q->cfg.rate)
		held += q->line_bytes;
	return held + bytes <= q->cfg.limit &&
	       q->memory + memory <= memory_max;
}

static bool hpcc_is_marking(const struct hpcc_sched *q)
{
	return q->cfg.marking != HPCC_MARKING_OFF;
}

static struct hpcc_headers hpcc_look(const struct hpcc_sched *q,
				     struct sk_buff *skb)
{
	struct hpcc_headers none = { .note.unstamped = HPCC_UNSTAMPED_OFF };

	return q->cfg.stamp || hpcc_is_marking(q) ? hpcc_parse(q, skb) : none;
}

/* May a packet that arrives enter the queue? */
static bool hpcc_admit(struct hpcc_sched *q, struct sk_buff *skb, bool fits,
		       struct hpcc_headers headers)
{
	if (hpcc_is_marking(q))
		return hpcc_mark(q, skb, fits, headers);
	if (!fits)
		q->stats.drop_limit++;
	return fits;
}

static int hpcc_enqueue_one(struct sk_buff *skb, struct Qdisc *sch, u64 now,
			    struct hpcc_headers headers,
			    struct sk_buff **to_free)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	u32 bytes = qdisc_pkt_len(skb) + q->cfg.overhead;
	bool fits = hpcc_fits(q, bytes, skb->truesize);

	if (!hpcc_admit(q, skb, fits, headers))
		return qdisc_drop(skb, sch, to_free);
	hpcc_skb_cb(skb)->time_ns = now;
	hpcc_skb_cb(skb)->bytes = bytes;
	hpcc_skb_cb(skb)->memory = skb->truesize;
	hpcc_skb_cb(skb)->note = headers.note;
	q->memory += skb->truesize;
	__skb_queue_tail(&q->waiting, skb);
	hpcc_waiting_add(q, bytes);
	qdisc_qstats_backlog_inc(sch, skb);
	qdisc_qlen_inc(sch);
	if (q->cfg.rate)
		hpcc_serve(q, now);
	return NET_XMIT_SUCCESS;
}

/* A record per packet needs packets. Our parents will count the one packet
 * they gave us: they are told of the difference.
 */
static int hpcc_enqueue_split(struct sk_buff *skb, struct Qdisc *sch, u64 now,
			      struct sk_buff **to_free)
{
	netdev_features_t features = netif_skb_features(skb);
	struct hpcc_sched *q = qdisc_priv(sch);
	unsigned int gso_len = qdisc_pkt_len(skb);
	unsigned int len = 0;
	struct sk_buff *segs, *next;
	struct hpcc_headers headers;
	int nr = 0;

	segs = skb_gso_segment(skb, features & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segs)) {
		q->stats.drop_gso++;
		return qdisc_drop(skb, sch, to_free);
	}
	/* The headers of the others are as long. */
	headers = hpcc_look(q, segs);
	skb_list_walk_safe(segs, segs, next) {
		unsigned int seg_len = segs->len;

		skb_mark_not_on_list(segs);
		qdisc_skb_cb(segs)->pkt_len = seg_len;
		hpcc_set_pkt_segs(segs, 1);
		if (hpcc_enqueue_one(segs, sch, now, headers, to_free))
			continue;
		len += seg_len;
		nr++;
	}
	consume_skb(skb);
	if (!nr)
		return NET_XMIT_DROP;
	qdisc_tree_reduce_backlog(sch, 1 - nr, gso_len - len);
	return NET_XMIT_SUCCESS;
}

/**
 * hpcc_enqueue() - Qdisc_ops::enqueue
 * @skb: packet
 * @sch: the qdisc
 * @to_free: list of packets that the caller frees
 */
int hpcc_enqueue(struct sk_buff *skb, struct Qdisc *sch,
		 struct sk_buff **to_free)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	u64 now = 0;

	/* Only the virtual link asks when a packet came. */
	if (q->cfg.rate) {
		now = ktime_get_ns();
		hpcc_serve(q, now);
	}
	if (q->cfg.split && skb_is_gso(skb))
		return hpcc_enqueue_split(skb, sch, now, to_free);
	return hpcc_enqueue_one(skb, sch, now, hpcc_look(q, skb), to_free);
}

/* Wake up for what happens next: a packet is due, or the next one starts. */
static void hpcc_schedule(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	const struct sk_buff *skb = skb_peek(&q->line);
	u64 next_ns = U64_MAX;

	if (skb)
		next_ns = hpcc_time_ns(skb);
	if (q->cfg.rate && !skb_queue_empty(&q->waiting))
		next_ns = min(next_ns, hpcc_clock_ceil(q->free));
	if (next_ns != U64_MAX)
		qdisc_watchdog_schedule_ns(&q->watchdog, next_ns);
}

/* Does a packet go to the device as it starts? The line would hold it for the
 * time of this call only.
 */
static bool hpcc_is_direct(const struct hpcc_sched *q)
{
	return !q->cfg.rate && !q->cfg.delay_ns && skb_queue_empty(&q->line);
}

/* The device fetches a packet, of which there is one. */
static struct sk_buff *hpcc_fetch(struct hpcc_sched *q, u64 now)
{
	struct sk_buff *skb = skb_peek(&q->waiting);

	hpcc_leave(q, skb, now,
		   hpcc_link_time(q->byte_time, hpcc_skb_cb(skb)->bytes));
	return skb;
}

/* The first packet on the line, if it is due. */
static struct sk_buff *hpcc_take_due(struct Qdisc *sch, u64 now)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;

	hpcc_serve(q, now);
	skb = skb_peek(&q->line);
	if (!skb || hpcc_time_ns(skb) > now) {
		if (skb)
			qdisc_qstats_overlimit(sch);
		hpcc_schedule(sch);
		return NULL;
	}
	__skb_unlink(skb, &q->line);
	q->line_bytes -= hpcc_skb_cb(skb)->bytes;
	return skb;
}

/**
 * hpcc_dequeue() - Qdisc_ops::dequeue
 * @sch: the qdisc
 */
struct sk_buff *hpcc_dequeue(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;
	u64 now;

	/* Asked again behind each last packet: no clock is read for that. */
	if (skb_queue_empty(&q->waiting) && skb_queue_empty(&q->line))
		return NULL;
	now = ktime_get_ns();
	skb = hpcc_is_direct(q) ? hpcc_fetch(q, now) : hpcc_take_due(sch, now);
	if (!skb)
		return NULL;
	q->memory -= hpcc_skb_cb(skb)->memory;
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_qlen_dec(sch);
	qdisc_bstats_update(sch, skb);
	return skb;
}

/**
 * hpcc_queue_shape() - the link becomes a virtual one
 * @q: the port, locked
 *
 * It is free from now on: of packets that wait nobody knows when they came.
 */
void hpcc_queue_shape(struct hpcc_sched *q)
{
	q->free = (struct hpcc_clock){ .ns = ktime_get_ns() };
}

/**
 * hpcc_queue_reset() - Qdisc_ops::reset; counters stay
 * @sch: the qdisc
 */
void hpcc_queue_reset(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	__skb_queue_purge(&q->waiting);
	__skb_queue_purge(&q->line);
	hpcc_waiting_add(q, -(s64)q->waiting_bytes);
	q->line_bytes = 0;
	q->memory = 0;
	q->free = (struct hpcc_clock){};
}

/**
 * hpcc_queue_init() - make an empty queue
 * @sch: the qdisc
 */
void hpcc_queue_init(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	__skb_queue_head_init(&q->waiting);
	__skb_queue_head_init(&q->line);
	qdisc_watchdog_init(&q->watchdog, sch);
}
