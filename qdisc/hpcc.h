/* SPDX-License-Identifier: GPL-2.0 */
/* The qdisc "hpcc": what its parts share. */
#ifndef _HPCC_QDISC_H
#define _HPCC_QDISC_H

#include <linux/list.h>
#include <linux/skbuff.h>
#include <linux/hpcc.h>
#include <net/pkt_sched.h>
#include <hpcc/clock.h>

/**
 * struct hpcc_config - what the user asked for; names and units as TCA_HPCC_*
 * @rate: bytes/s, 0: does not shape
 * @bandwidth: bytes/s, 0: the device's
 * @limit: bytes
 * @node: switch_ID
 * @port: port_ID
 * @overhead: bytes
 * @delay_ns: propagation behind the queue
 * @kind: TCP option kind
 * @stamp: write telemetry
 * @split: split GSO packets
 */
struct hpcc_config {
	u64	rate;
	u64	bandwidth;
	u32	limit;
	u32	node;
	u32	port;
	u32	overhead;
	u32	delay_ns;
	u8	kind;
	bool	stamp;
	bool	split;
};

/**
 * struct hpcc_sched - one port
 * @cfg: configuration
 * @b: B in bytes/s: of @cfg.rate, @cfg.bandwidth and the device's speed the
 *	first that is known
 * @byte_time: ns per byte at B, Q32
 * @waiting: packets that have not begun to leave
 * @line: packets that have: the one being serialised, those on the emulated
 *	delay, and those the device has yet to fetch
 * @waiting_bytes: in @waiting, overhead included
 * @line_bytes: in @line, overhead included
 * @free: when the link is done with all it has begun
 * @busy: time it has spent so far, which is what telemetry calls tx
 * @stats: counters; qlen_bytes and bandwidth are filled in when dumped
 * @watchdog: wakes the device when there is something to do
 * @ports: in the list of all ports, under RTNL
 *
 * Everything but @ports is under the qdisc's lock; @cfg, @b and @byte_time
 * change under RTNL as well.
 */
struct hpcc_sched {
	struct hpcc_config	cfg;
	u64			b;
	u64			byte_time;
	struct sk_buff_head	waiting;
	struct sk_buff_head	line;
	u32			waiting_bytes;
	u32			line_bytes;
	struct hpcc_clock	free;
	struct hpcc_clock	busy;
	struct tc_hpcc_xstats	stats;
	struct qdisc_watchdog	watchdog;
	struct list_head	ports;
};

/**
 * struct hpcc_skb_cb - what the qdisc notes on a packet
 * @time_ns: while it waits, when it came; on the line, when it is due
 * @bytes: what it takes on the link, by the overhead that held when it came
 */
struct hpcc_skb_cb {
	u64	time_ns;
	u32	bytes;
};

static inline struct hpcc_skb_cb *hpcc_skb_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct hpcc_skb_cb));
	return (struct hpcc_skb_cb *)qdisc_skb_cb(skb)->data;
}

/* queue.c */
void hpcc_queue_init(struct Qdisc *sch);
void hpcc_queue_reset(struct Qdisc *sch);
int hpcc_enqueue(struct sk_buff *skb, struct Qdisc *sch,
		 struct sk_buff **to_free);
struct sk_buff *hpcc_dequeue(struct Qdisc *sch);

/* stamp.c */
void hpcc_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns);

#endif /* _HPCC_QDISC_H */
