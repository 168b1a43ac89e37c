// SPDX-License-Identifier: GPL-2.0
/*
 * The queue of a port, its link, and the propagation delay.
 *
 *	enqueue -> backlog -> [start] in flight (serialised, then delayed) -> dequeue
 *
 * The link is virtual. The time at which it is free is computed, not observed, so a late timer
 * costs neither capacity nor accuracy:
 *
 *	start     = max(link_free, arrival)
 *	link_free = start + (length + overhead) / B
 *
 * A packet is stamped when it starts, that is, when its first bit leaves: ts = start, tx = time
 * spent on all earlier packets, qlen = the queue after the packet. While packets wait, d(tx) /
 * d(ts) is exactly 1. A packet is due at link_free + delay; the device then fetches it. Each event
 * first processes the starts that are in the past, so qlen contains only packets that arrived
 * before the start.
 *
 * Without rate the device is the link: a packet starts when the device fetches it (with delay: as
 * soon as the device runs the qdisc), and ts is the time of this start.
 */
#include <linux/ktime.h>
#include <linux/moduleparam.h>
#include <hpcc/compat.h>
#include <hpcc/wire/histogram.h>
#include <hpcc/wire/stamp.h>

#include "core/load.h"

/* The start of a packet may be this far in the past. Older capacity is lost, because a real link
 * could not send such a burst.
 */
static const u64 hpcc_catch_up_ns = NSEC_PER_MSEC;

/* QDISC_PKT_LEN_MAX of newer kernels. */
static const u32 hpcc_table_len_max = 1 << 20;

/* Limit of packet memory of a qdisc: enough for 10 ms at 100 Gb/s. Packets in flight use memory in
 * addition to limit, and a small packet uses ten times its length. Root of a network namespace sets
 * rate, delay and limit; only root of the machine sets this parameter.
 */
static unsigned int hpcc_memory_max_mb = 256;
u64 hpcc_memory_max = 256 << 20;

static int hpcc_set_memory_max_mb(const char *value, const struct kernel_param *param)
{
	int err = param_set_uint_minmax(value, param, 1, 65536);

	if (!err)
		WRITE_ONCE(hpcc_memory_max, (u64)hpcc_memory_max_mb << 20);
	return err;
}

static const struct kernel_param_ops hpcc_memory_max_mb_ops = {
	.set = hpcc_set_memory_max_mb,
	.get = param_get_uint,
};

module_param_cb(memory_max_mb, &hpcc_memory_max_mb_ops, &hpcc_memory_max_mb, 0644);
MODULE_PARM_DESC(memory_max_mb,
		 "MB of memory that the packets of a qdisc may take, 1 .. 65536 (256)");

/* Whether the device is blocked: it has not fetched a packet that was due hpcc_catch_up_ns ago. */
static bool hpcc_is_blocked(const struct hpcc_sched *q, u64 now)
{
	const struct sk_buff *skb = q->in_flight.head;

	return skb && hpcc_skb_cb(skb)->time_ns + hpcc_catch_up_ns < now;
}

/* Without rate the device fetches packets one by one; with delay packets do not wait for it. */
static bool hpcc_may_start(const struct hpcc_sched *q, u64 now)
{
	if (q->cfg.rate)
		return q->link_free.ns <= now && !hpcc_is_blocked(q, now);
	return q->cfg.delay_ns || !q->in_flight.head;
}

static struct hpcc_clock hpcc_start_time(struct hpcc_sched *q, u64 arrival_ns, u64 now)
{
	struct hpcc_clock start = q->link_free;

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
	if (!q->cfg.stats)
		return;
	q->hist[hpcc_hist_bucket(q->backlog_bytes)]++;
	if (q->stats.qlen_max_bytes < q->backlog_bytes)
		q->stats.qlen_max_bytes = q->backlog_bytes;
}

/* noinline keeps the fast path of queues that are no class short. */
static noinline void hpcc_spend_class(struct hpcc_sched *q, const struct sk_buff *skb,
				      u64 start_ns)
{
	struct hpcc_clock time = hpcc_link_time(q->byte_time, hpcc_skb_cb(skb)->bytes);

	hpcc_parts[HPCC_PART_CLASS]->sent(q, skb, time, start_ns ?: ktime_get_ns());
}

static __always_inline void hpcc_spend(struct hpcc_sched *q, const struct sk_buff *skb,
				       u64 start_ns, struct hpcc_clock time)
{
	u64 was_ns = q->busy.ns;

	q->busy = hpcc_clock_add(q->busy, time);
	if (unlikely(q->shared)) {
		hpcc_port_add_busy(q->shared, q->busy.ns - was_ns);
		if (unlikely(q->cfg.class))
			hpcc_spend_class(q, skb, start_ns);
	}
}

static __always_inline struct sk_buff *hpcc_next(struct hpcc_sched *q, u64 now)
{
	struct sk_buff *skb = __qdisc_dequeue_head(&q->backlog);

	if (skb)
		hpcc_backlog_add(q, -(s64)hpcc_skb_cb(skb)->bytes);
	else if (q->child)
		skb = hpcc_child_dequeue(q, now);
	return skb;
}

/* Start a packet at @start_ns; 0: now. Return: the time that the link needs for the packet, which a
 * carrier may lengthen. Inlined: hot path.
 */
static __always_inline struct hpcc_clock hpcc_start_tx(struct hpcc_sched *q,
						       struct sk_buff *skb, u64 start_ns)
{
	struct hpcc_clock time;

	if (!(hpcc_skb_cb(skb)->hint & HPCC_HINT_FOUND))
		q->unstamped[hpcc_skb_cb(skb)->hint]++;
	else if (q->cfg.stamp)
		hpcc_stamp(q, skb, start_ns ?: ktime_get_ns());
	else
		q->unstamped[HPCC_UNSTAMPED_OFF]++;
	hpcc_count_departure(q, hpcc_skb_cb(skb)->bytes);
	time = hpcc_link_time(q->byte_time, hpcc_skb_cb(skb)->bytes);
	hpcc_spend(q, skb, start_ns, time);
	return time;
}

static void hpcc_start(struct hpcc_sched *q, struct sk_buff *skb, u64 now)
{
	struct hpcc_clock start = hpcc_start_time(q, hpcc_skb_cb(skb)->time_ns, now);
	struct hpcc_clock time = hpcc_start_tx(q, skb, start.ns);
	u64 due_ns = now;

	if (q->cfg.rate) {
		q->link_free = hpcc_clock_add(start, time);
		due_ns = hpcc_clock_ceil(q->link_free);
	}
	if (q->cfg.delay_ns) {
		/* As a NIC does on completion: otherwise TSQ would throttle the sender. */
		skb_orphan(skb);
		due_ns += q->cfg.delay_ns;
	}
	/* After delay was lowered, an earlier packet may be due later; the order stays. */
	hpcc_skb_cb(skb)->time_ns = due_ns;
	__qdisc_enqueue_tail(skb, &q->in_flight);
	q->in_flight_bytes += hpcc_skb_cb(skb)->bytes;
}

static void hpcc_serve(struct hpcc_sched *q, u64 now)
{
	while (q->backlog.head && hpcc_may_start(q, now))
		hpcc_start(q, hpcc_next(q, now), now);
}

/* Packets of our own queue start before packets of the child. */
static noinline void hpcc_serve_child(struct hpcc_sched *q, u64 now)
{
	struct sk_buff *skb;

	while (!q->backlog.head && hpcc_may_start(q, now)) {
		skb = hpcc_next(q, now);
		if (!skb)
			break;
		hpcc_start(q, skb, now);
	}
}

static struct hpcc_headers hpcc_classify(const struct hpcc_sched *q, struct sk_buff *skb)
{
	if (likely(q->cfg.stamp == HPCC_STAMP_TCP))
		return hpcc_parse(skb, q->cfg.kind);
	if (q->cfg.stamp)
		return hpcc_parse_any(skb, &q->cfg);
	if (q->cfg.marking != HPCC_MARKING_OFF)
		return hpcc_parse(skb, HPCC_WALK_IP_ONLY);
	/* HPCC_UNSTAMPED_OFF is 0. */
	return (struct hpcc_headers){};
}

static bool hpcc_admit(struct hpcc_sched *q, struct sk_buff *skb, bool fits,
		       struct hpcc_headers *headers)
{
	if (q->cfg.marking != HPCC_MARKING_OFF) {
		fits = hpcc_mark(q, skb, fits, *headers);
		/* The port parsed the packet only for the marks. */
		if (!q->cfg.stamp)
			headers->hint = HPCC_UNSTAMPED_OFF;
		return fits;
	}
	if (!fits)
		q->stats.drop_limit++;
	return fits;
}

/* Inlined into the caller that runs for each packet. */
static __always_inline int __hpcc_enqueue_one(struct sk_buff *skb, struct Qdisc *sch, u64 now,
					      u32 bytes, struct hpcc_headers headers,
					      struct sk_buff **to_free)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	if (q->child)
		return hpcc_child_enqueue(skb, sch, now, bytes, to_free);
	if (!hpcc_admit(q, skb, hpcc_fits(q, bytes, skb->truesize), &headers))
		return qdisc_drop(skb, sch, to_free);
	hpcc_skb_cb(skb)->time_ns = now;
	hpcc_skb_cb(skb)->bytes = bytes;
	hpcc_skb_cb(skb)->memory = skb->truesize;
	hpcc_skb_cb(skb)->hint = headers.hint;
	q->memory += skb->truesize;
	__qdisc_enqueue_tail(skb, &q->backlog);
	hpcc_backlog_add(q, bytes);
	qdisc_qstats_backlog_inc(sch, skb);
	qdisc_qlen_inc(sch);
	if (q->cfg.rate)
		hpcc_serve(q, now);
	return NET_XMIT_SUCCESS;
}

static noinline int hpcc_enqueue_one(struct sk_buff *skb, struct Qdisc *sch, u64 now, u32 bytes,
				     struct hpcc_headers headers, struct sk_buff **to_free)
{
	return __hpcc_enqueue_one(skb, sch, now, bytes, headers, to_free);
}

/* A virtual link sends segments one by one, and marking decides on each of them. Segments in a
 * frag_list have their own headers. A packet that did not parse may hold a request. Other GSO
 * packets stay whole if they fit, and get one record. Without @split only a packet is split that is
 * longer than the limit, and so never fits.
 */
static bool hpcc_must_split(const struct hpcc_sched *q, const struct sk_buff *skb, u32 bytes,
			    u32 hint)
{
	if (!q->cfg.split)
		return bytes > q->cfg.limit;
	return q->cfg.rate || q->cfg.marking != HPCC_MARKING_OFF ||
	       skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST ||
	       hint == HPCC_UNSTAMPED_MALFORMED || hint == HPCC_UNSTAMPED_NO_MEMORY ||
	       !hpcc_fits(q, bytes, skb->truesize);
}

/* A copy of __qdisc_calculate_pkt_len(), which is not exported. Only the table of the root qdisc is
 * used.
 */
static u32 hpcc_table_len(const struct Qdisc *sch, u32 bytes)
{
	const struct qdisc_size_table *stab = rcu_dereference_bh(qdisc_root_bh(sch)->stab);
	const struct tc_sizespec *spec;
	s64 len, slot;

	if (!stab)
		return bytes;
	spec = &stab->szopts;
	len = (s64)bytes + spec->overhead;
	if (spec->tsize) {
		slot = max_t(s64, len + spec->cell_align, 0) >> spec->cell_log;
		len = (u64)stab->data[spec->tsize - 1] * ((u32)slot / spec->tsize) +
		      stab->data[(u32)slot % spec->tsize];
		if (slot < spec->tsize)
			len = stab->data[slot];
		len <<= spec->size_log;
	}
	return clamp_t(s64, len, 1, hpcc_table_len_max);
}

/* The parents have counted one packet: report the difference in packets and bytes to them. */
static int hpcc_enqueue_split(struct sk_buff *skb, struct Qdisc *sch, u64 now,
			      struct hpcc_headers headers, struct sk_buff **to_free)
{
	netdev_features_t features = netif_skb_features(skb);
	struct hpcc_sched *q = qdisc_priv(sch);
	unsigned int gso_len = qdisc_pkt_len(skb);
	unsigned int len = 0;
	struct sk_buff *segs, *next;
	int nr = 0;

	segs = skb_gso_segment(skb, features & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segs)) {
		q->stats.drop_gso++;
		return qdisc_drop(skb, sch, to_free);
	}
	/* All segments have the same headers at the same offsets, except tunnels in the payload of
	 * UDP that the kernel splits.
	 */
	if (!(headers.hint & HPCC_HINT_FOUND) && headers.hint != HPCC_UNSTAMPED_NOT_TCP &&
	    !(skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4))
		headers = hpcc_classify(q, segs);
	skb_list_walk_safe(segs, segs, next) {
		unsigned int seg_len = hpcc_table_len(sch, segs->len);

		skb_mark_not_on_list(segs);
		qdisc_skb_cb(segs)->pkt_len = seg_len;
		hpcc_set_pkt_segs(segs, 1);
		if (hpcc_enqueue_one(segs, sch, now, hpcc_link_bytes(q, segs, 1), headers, to_free))
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

static noinline int hpcc_enqueue_gso(struct sk_buff *skb, struct Qdisc *sch, u64 now,
				     struct hpcc_headers headers, struct sk_buff **to_free)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	u32 bytes = hpcc_link_bytes(q, skb, hpcc_pkt_segs(skb));

	if (q->child)
		hpcc_child_recount(q);
	if (hpcc_must_split(q, skb, bytes, headers.hint))
		return hpcc_enqueue_split(skb, sch, now, headers, to_free);
	return hpcc_enqueue_one(skb, sch, now, bytes, headers, to_free);
}

/* Qdisc_ops::enqueue */
int hpcc_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct hpcc_headers headers;
	u64 now = 0;

	/* Only a virtual link and a class need the arrival time. */
	if (q->timed) {
		now = ktime_get_ns();
		if (q->cfg.rate) {
			q->seen_ns = now;
			q->arrived = true;
			hpcc_serve(q, now);
		}
	}
	headers = hpcc_classify(q, skb);
	if (skb_is_gso(skb))
		return hpcc_enqueue_gso(skb, sch, now, headers, to_free);
	return __hpcc_enqueue_one(skb, sch, now, hpcc_link_bytes(q, skb, 1), headers, to_free);
}
EXPORT_SYMBOL_GPL(hpcc_enqueue);

/* Parse a packet before hpcc_enqueue(), for sch_hpcc_respond. @q: the port, locked. If the packet
 * has a TCP option, waiting packets whose start is in the past start first, so that they are not in
 * the queue that the packet meets. The option of a packet with another carrier counts if it has
 * slots: then the packet has data, and their sequence number.
 */
struct hpcc_headers hpcc_arrival(struct hpcc_sched *q, struct sk_buff *skb)
{
	struct hpcc_headers headers = hpcc_classify(q, skb);

	if (headers.hint & HPCC_HINT_CARRIER && headers.hint & HPCC_HINT_FOUND) {
		headers = hpcc_parse(skb, q->cfg.kind);
		if (FIELD_GET(HPCC_HINT_LEN, headers.hint) <= HPCC_OPT_HEAD_LEN)
			headers.hint = HPCC_UNSTAMPED_NO_OPTION;
	}
	if (q->cfg.rate && hpcc_hint_is_option(headers.hint))
		hpcc_serve(q, ktime_get_ns());
	return headers;
}
EXPORT_SYMBOL_GPL(hpcc_arrival);

/* Set the timer for the next event: the first packet in flight is due, or the first waiting packet
 * starts.
 */
static void hpcc_schedule(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	const struct sk_buff *skb = q->in_flight.head;
	u64 next_ns = U64_MAX;

	if (skb)
		next_ns = hpcc_skb_cb(skb)->time_ns;
	if (q->cfg.rate && q->backlog.head)
		next_ns = min(next_ns, hpcc_clock_ceil(q->link_free));
	else if (hpcc_child_has(q) && q->link_free.ns > q->seen_ns)
		next_ns = min(next_ns, hpcc_clock_ceil(q->link_free));
	if (next_ns != U64_MAX)
		qdisc_watchdog_schedule_ns(&q->watchdog, next_ns);
}

/* Whether a packet goes directly to the device when it starts, without in_flight. */
static bool hpcc_is_direct(const struct hpcc_sched *q)
{
	return !q->cfg.rate && !q->cfg.delay_ns && !q->in_flight.head;
}

/* Only a record needs the time, so the clock is not read here. */
static struct sk_buff *hpcc_fetch(struct hpcc_sched *q)
{
	struct sk_buff *skb = hpcc_next(q, 0);

	if (skb)
		hpcc_start_tx(q, skb, 0);
	return skb;
}

/* A packet that was due at the last reading of the clock is still due. If a packet has just
 * arrived, its enqueue has read the clock.
 */
static bool hpcc_is_due(struct hpcc_sched *q)
{
	const struct sk_buff *skb = q->in_flight.head;

	if (skb && hpcc_skb_cb(skb)->time_ns <= q->seen_ns)
		return true;
	if (!q->arrived)
		q->seen_ns = ktime_get_ns();
	q->arrived = false;
	hpcc_serve(q, q->seen_ns);
	if (q->child)
		hpcc_serve_child(q, q->seen_ns);
	skb = q->in_flight.head;
	return skb && hpcc_skb_cb(skb)->time_ns <= q->seen_ns;
}

static struct sk_buff *hpcc_take_due(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;

	if (!hpcc_is_due(q)) {
		if (q->in_flight.head)
			qdisc_qstats_overlimit(sch);
		hpcc_schedule(sch);
		return NULL;
	}
	skb = __qdisc_dequeue_head(&q->in_flight);
	q->in_flight_bytes -= hpcc_skb_cb(skb)->bytes;
	return skb;
}

/* Qdisc_ops::dequeue */
struct sk_buff *hpcc_dequeue(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;

	/* Skip the clock read when the queue is empty. */
	if (!q->backlog.head && !q->in_flight.head && !hpcc_child_has(q))
		return NULL;
	skb = hpcc_is_direct(q) ? hpcc_fetch(q) : hpcc_take_due(sch);
	if (!skb)
		return NULL;
	q->memory -= hpcc_skb_cb(skb)->memory;
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_qlen_dec(sch);
	qdisc_bstats_update(sch, skb);
	return skb;
}
EXPORT_SYMBOL_GPL(hpcc_dequeue);

/* Qdisc_ops::peek. A packet that a parent only looks at has not started: hpcc_dequeue() stamps it.
 */
struct sk_buff *hpcc_peek_next(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	if (q->backlog.head && hpcc_is_direct(q) && skb_queue_empty(&sch->gso_skb))
		return q->backlog.head;
	return qdisc_peek_dequeued(sch);
}

/* Qdisc_ops::reset; counters stay. */
void hpcc_queue_reset(struct Qdisc *sch)
{
	struct hpcc_sched *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	hpcc_child_reset(q);
	__qdisc_reset_queue(&q->backlog);
	__qdisc_reset_queue(&q->in_flight);
	hpcc_backlog_add(q, -(s64)q->backlog_bytes);
	q->in_flight_bytes = 0;
	q->memory = 0;
	q->link_free = (struct hpcc_clock){};
}
