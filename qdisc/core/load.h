/* SPDX-License-Identifier: GPL-2.0 */
/* Backlog and load of a queue, or of the port that it belongs to, and the limits of a queue. */
#ifndef _HPCC_QDISC_CORE_LOAD_H
#define _HPCC_QDISC_CORE_LOAD_H

#include "core/sched.h"

/* Limit of packet memory of a qdisc, bytes. */
extern u64 hpcc_memory_max;

/* Add bytes to the backlog; negative: remove bytes. */
static inline void hpcc_backlog_add(struct hpcc_sched *q, s64 bytes)
{
	q->backlog_bytes += bytes;
	if (q->shared)
		hpcc_port_add_backlog(q->shared, bytes);
}

/* Load at @ts_ns, when @skb starts. NULL: no packet starts. */
static inline struct hpcc_load hpcc_load(const struct hpcc_sched *q, const struct sk_buff *skb,
					 u64 ts_ns)
{
	struct hpcc_load own = {
		.busy_ns = q->busy.ns,
		.backlog_bytes = q->backlog_bytes,
	};

	if (!q->shared)
		return own;
	return unlikely(q->cfg.class) ? hpcc_parts[HPCC_PART_CLASS]->load(q, skb, ts_ns) :
					hpcc_port_load(q->shared);
}

/* Bytes that wait for the link. Cheap enough for each packet: see hpcc_shared_backlog(). */
static inline u32 hpcc_backlog(const struct hpcc_sched *q)
{
	return q->shared ? hpcc_shared_backlog(q) : q->backlog_bytes;
}

/* Whether a packet of truesize @memory fits. @q is locked, and the bytes of its child were just
 * counted.
 */
static inline bool hpcc_fits(const struct hpcc_sched *q, u32 bytes, u32 memory)
{
	u64 held = q->backlog_bytes;

	/* Without a rate nothing limits the bytes in flight. */
	if (!q->cfg.rate)
		held += q->in_flight_bytes;
	return held + bytes <= q->cfg.limit && q->memory + memory <= READ_ONCE(hpcc_memory_max);
}

#endif /* _HPCC_QDISC_CORE_LOAD_H */
