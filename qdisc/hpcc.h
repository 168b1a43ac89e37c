/* SPDX-License-Identifier: GPL-2.0 */
/* The qdisc "hpcc": what its parts share. */
#ifndef _HPCC_QDISC_H
#define _HPCC_QDISC_H

#include <linux/if_arp.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/hpcc.h>
#include <net/pkt_sched.h>
#include <hpcc/clock.h>
#include <hpcc/ldcp.h>

/**
 * struct hpcc_config - what the user asked for; names and units as TCA_HPCC_*
 * @rate: bytes/s, 0: does not shape
 * @bandwidth: bytes/s, 0: the device's
 * @limit: bytes
 * @node: switch_ID
 * @port: port_ID
 * @overhead: bytes
 * @delay_ns: propagation behind the queue
 * @kmin: bytes, 0: derived from B; so are @kmax and @knonect
 * @kmax: bytes
 * @knonect: bytes
 * @pmax_ppm: P_max in millionths
 * @marking: enum hpcc_marking
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
	u32	kmin;
	u32	kmax;
	u32	knonect;
	u32	pmax_ppm;
	u8	marking;
	u8	kind;
	bool	stamp;
	bool	split;
};

/**
 * struct hpcc_marks - thresholds in force
 * @curve: of ECN-capable packets
 * @knonect: queue in bytes from which on Not-ECT packets are dropped
 */
struct hpcc_marks {
	struct ldcp_curve	curve;
	u32			knonect;
};

/* What becomes of a packet that arrives. */
enum hpcc_verdict {
	HPCC_ADMIT,
	HPCC_MARK,
	HPCC_MARK_FAILED,
	HPCC_DROP_KNONECT,
};

/**
 * struct hpcc_sched - one port
 * @cfg: configuration
 * @b: B in bytes/s: of @cfg.rate, @cfg.bandwidth and the device's speed the
 *	first that is known
 * @byte_time: ns per byte at B, Q32
 * @marks: thresholds that @cfg and @b result in
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
 * Everything but @ports is under the qdisc's lock; @cfg, @b, @byte_time and
 * @marks change under RTNL as well.
 */
struct hpcc_sched {
	struct hpcc_config	cfg;
	u64			b;
	u64			byte_time;
	struct hpcc_marks	marks;
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

/* Does the device transmit Ethernet headers, so that skb->data is at one? */
static inline bool hpcc_is_ethernet(const struct net_device *dev)
{
	return dev->type == ARPHRD_ETHER || dev->type == ARPHRD_LOOPBACK;
}

/* queue.c */
void hpcc_queue_init(struct Qdisc *sch);
void hpcc_queue_reset(struct Qdisc *sch);
int hpcc_enqueue(struct sk_buff *skb, struct Qdisc *sch,
		 struct sk_buff **to_free);
struct sk_buff *hpcc_dequeue(struct Qdisc *sch);

/* mark.c */
u32 hpcc_kmax_derived(const struct hpcc_config *cfg, u64 b, u32 mtu);
void hpcc_marks_init(struct hpcc_marks *marks, const struct hpcc_config *cfg,
		     u64 b, u32 mtu);
bool hpcc_mark(struct hpcc_sched *q, struct sk_buff *skb, bool fits);

/* stamp.c */
void hpcc_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns);

#endif /* _HPCC_QDISC_H */
