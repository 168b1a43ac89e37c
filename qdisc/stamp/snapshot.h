/* SPDX-License-Identifier: GPL-2.0 */
/* Content and position of a record, for stamp.c and respond.c. */
#ifndef _HPCC_QDISC_STAMP_SNAPSHOT_H
#define _HPCC_QDISC_STAMP_SNAPSHOT_H

#include <hpcc/wire/stamp.h>

#include "core/load.h"

static inline struct hpcc_opt_location hpcc_hint_location(u32 hint)
{
	u32 tcp = FIELD_GET(HPCC_HINT_TCP, hint);

	return (struct hpcc_opt_location){
		.tcp = tcp,
		.opt = tcp + FIELD_GET(HPCC_HINT_OPT, hint),
		.len = FIELD_GET(HPCC_HINT_LEN, hint),
		.end = tcp + FIELD_GET(HPCC_HINT_END, hint),
	};
}

/* The bytes that "above" refers to. As all thresholds of a class, it does not refer to qlen. */
static inline u32 hpcc_queue_of(const struct hpcc_sched *q, const struct hpcc_load *load)
{
	return unlikely(q->cfg.class) ? hpcc_backlog(q) : load->backlog_bytes;
}

/* A snapshot of a locked port, with its load at this time. */
static inline struct hpcc_stamp hpcc_snapshot(const struct hpcc_sched *q, struct hpcc_load load,
					      u64 ts_ns)
{
	return (struct hpcc_stamp){
		.node = q->cfg.identify ? q->cfg.node : q->offset.alias,
		.port = q->offset.port,
		.bps = q->b * 8,
		.ts_ns = ts_ns + q->offset.ts_ns,
		.tx_ns = load.busy_ns + q->offset.tx_ns,
		.qlen_ns = hpcc_link_time(q->byte_time, load.backlog_bytes).ns,
		.quiet = q->cfg.above && hpcc_queue_of(q, &load) <= q->cfg.above,
		.anonymous = !q->cfg.identify,
	};
}

/* Write our record into the option that was found at the arrival of a departing packet. Returns as
 * hpcc_stamp_packet().
 */
static inline int hpcc_stamp_option_of(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns)
{
	struct hpcc_opt_location place = hpcc_hint_location(hpcc_skb_cb(skb)->hint);
	struct hpcc_stamp stamp;
	const u8 *opt;

	if (skb_ensure_writable(skb, place.end))
		return HPCC_UNSTAMPED_NO_MEMORY;
	opt = skb->data + place.opt;
	if (opt[0] != q->cfg.kind || opt[1] != place.len)
		return HPCC_UNSTAMPED_NO_OPTION;
	stamp = hpcc_snapshot(q, hpcc_load(q, skb, ts_ns), ts_ns);
	return hpcc_stamp_packet(skb->data, &place, &stamp, !hpcc_check_is_partial(skb, place.tcp));
}

#endif /* _HPCC_QDISC_STAMP_SNAPSHOT_H */
