/* SPDX-License-Identifier: GPL-2.0 */
/* The qdisc "hpcc": what its parts share. */
#ifndef _HPCC_QDISC_CORE_SCHED_H
#define _HPCC_QDISC_CORE_SCHED_H

#include <linux/bitfield.h>
#include <linux/cpumask.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/rhashtable.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/hpcc.h>
#include <net/pkt_sched.h>
#include <hpcc/carrier/csig.h>
#include <hpcc/law/ldcp.h>
#include <hpcc/wire/clock.h>

/**
 * struct hpcc_config - what the user asked for; names and units as TCA_HPCC_*
 * @rate: bytes/s, 0: does not shape
 * @bandwidth: bytes/s, 0: the device's
 * @limit: bytes
 * @node: switch_ID
 * @port: port_ID
 * @overhead: bytes
 * @delay_ns: propagation behind the queue
 * @above: bytes of queue, 0: each packet gets a record
 * @respond: bytes of queue, 0: no responses
 * @every_ns: time between two responses to a flow, at least
 * @int_window_ns: time that the utilization in INT and CSIG is of
 * @csig_abw: unit of CSIG's buckets of ABW/C, 1/10000
 * @csig_time_ns: unit of its buckets of times
 * @csig_tpid: marks CSIG tags
 * @kmin: bytes, 0: derived from B; so are @kmax and @knonect
 * @kmax: bytes
 * @knonect: bytes
 * @pmax_ppm: P_max in millionths
 * @marking: enum hpcc_marking
 * @kind: TCP option kind
 * @stamp: HPCC_STAMP_*, where telemetry is written; 0: nowhere
 * @int_dscp: marks packets with INT-MD
 * @split: split GSO packets, where hpcc_must_split() says so
 * @identify: tell node, port and B to who asks
 * @stats: fill in the histogram and qlen_max_bytes
 */
struct hpcc_config {
	u64	rate;
	u64	bandwidth;
	u32	limit;
	u32	node;
	u32	port;
	u32	overhead;
	u32	delay_ns;
	u32	above;
	u32	respond;
	u32	every_ns;
	u32	int_window_ns;
	u32	csig_abw;
	u32	csig_time_ns;
	u32	kmin;
	u32	kmax;
	u32	knonect;
	u32	pmax_ppm;
	u16	csig_tpid;
	u8	marking;
	u8	kind;
	u8	stamp;
	u8	int_dscp;
	bool	split;
	bool	identify;
	bool	stats;
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
	HPCC_DROP_LIMIT,
};

/**
 * struct hpcc_port_key - what tells ports apart
 * @dev: the device
 * @node: switch_ID
 * @id: port_ID
 */
struct hpcc_port_key {
	struct net_device	*dev;
	u32			node;
	u32			id;
};

/**
 * struct hpcc_load - what a link has done, and has yet to do
 * @busy_ns: time that it has spent on packets
 * @backlog_bytes: bytes that wait for it, overhead included
 */
struct hpcc_load {
	u64	busy_ns;
	u32	backlog_bytes;
};

/**
 * struct hpcc_port_cpu - what one CPU has counted for a port
 * @busy_ns: time that the link has spent on packets; wraps after 584 years. IOAM and IFA count
 *	bytes modulo 2^32, and 2^n ns are 2^32 bytes at few rates: an earlier wrap is a jump
 * @backlog_bytes: packets that came to wait here less those that ceased to, overhead
 *	included; below zero where packets leave on another CPU than they came
 * @used: the CPU is in hpcc_port.used
 * @sum_ns: hpcc_port.sum_ns that this CPU has used last
 * @sum_backlog_bytes: @backlog_bytes when it used that first
 *
 * @busy_ns and @backlog_bytes are written by their CPU with this_cpu_add(), and read by all: the
 * modules need 64 bits, so that no value is torn.
 */
struct hpcc_port_cpu {
	u64			busy_ns;
	s64			backlog_bytes;
	bool			used;
	u64			sum_ns;
	s64			sum_backlog_bytes;
};

/**
 * struct hpcc_port - what the queues of a port share (port.c)
 * @hash: in the table of all of them
 * @key: its name
 * @rcu: frees it
 * @queues: how many belong to it
 * @cpu: counters, which a record needs the sum of
 * @used: CPUs that have counted something; read without a lock
 * @sum_ns: when @sum_bytes was true; read without a lock
 * @sum_bytes: bytes that waited then; the same
 * @summing: bit 0: a CPU makes a new sum, and writes it to @sum_bytes and @sum_ns
 *
 * All else but what @cpu points to is under RTNL, or does not change while a queue
 * belongs to the port.
 */
struct hpcc_port {
	struct rhash_head	hash;
	struct hpcc_port_key	key;
	struct rcu_head		rcu;
	u32			queues;
	struct hpcc_port_cpu __percpu *cpu;
	cpumask_var_t		used;
	u64			sum_ns;
	u32			sum_bytes;
	unsigned long		summing;
};

/**
 * struct hpcc_offset - what a port's records have added (stamp.c)
 * @ts_ns: to ts
 * @tx_ns: to tx
 * @alias: what stands for switch_ID in the tag of a port that does not tell its name
 */
struct hpcc_offset {
	u64	ts_ns;
	u64	tx_ns;
	u32	alias;
};

/**
 * struct hpcc_util - how busy a link is (int.c)
 * @from_ns: when the window began; 0: none did yet
 * @busy_ns: hpcc_load.busy_ns then
 * @last: utilization of the window before, in units of 1 / HPCC_INT_UTIL_ONE
 */
struct hpcc_util {
	u64	from_ns;
	u64	busy_ns;
	u32	last;
};

/**
 * struct hpcc_sched - one port, or one of its queues
 * @cfg: configuration
 * @b: B in bytes/s: of @cfg.rate, @cfg.bandwidth and the device's speed the
 *	first that is known
 * @byte_time: ns per byte at B, Q32
 * @marks: thresholds that @cfg and @b result in
 * @offset: of records
 * @seen_ns: a time that has passed, where the link is a virtual one
 * @arrived: @seen_ns is when a packet has just come
 * @backlog: packets that have not begun to leave
 * @in_flight: packets that have: the one being serialised, those on the emulated
 *	delay, and those the device has yet to fetch
 * @backlog_bytes: in @backlog and @child, overhead included
 * @in_flight_bytes: in @in_flight, overhead included
 * @memory: bytes of memory that packets in @backlog, @in_flight and @child take
 * @child: holds packets in the place of @backlog (child.c), or NULL
 * @child_idle_ns: until when it has left a virtual link free that asked for a packet
 * @child_refused: it gave none when it was last asked
 * @child_bytes: in @child, overhead included
 * @child_memory: part of @memory for @child, at least what its packets take
 * @child_packets: in @child, when they were last counted
 * @child_least: truesize of the smallest packet that it got since it was last empty
 * @link_free: when the link is done with all it has begun
 * @busy: time it has spent on packets of this queue so far, which is what telemetry calls tx
 * @shared: what it has in common with other queues, or NULL
 * @responder: makes responses (respond.c); NULL where none were ever wanted
 * @util: for INT and CSIG
 * @csig: units that @cfg results in
 * @stats: counters; qlen_bytes and bandwidth are filled in when dumped
 * @unstamped: packets without our record, by enum hpcc_unstamped
 * @hist: queue length histogram
 * @watchdog: wakes the device when there is something to do
 *
 * Everything is under the qdisc's lock; @cfg, @b, @byte_time, @marks, @offset and
 * @shared change under RTNL as well. @responder is set under RTNL, before @cfg wants it.
 */
struct hpcc_sched {
	struct hpcc_config	cfg;
	u64			b;
	u64			byte_time;
	struct hpcc_marks	marks;
	struct hpcc_offset	offset;
	u64			seen_ns;
	bool			arrived;
	struct qdisc_skb_head	backlog;
	struct qdisc_skb_head	in_flight;
	u32			backlog_bytes;
	u32			in_flight_bytes;
	u64			memory;
	struct Qdisc		*child;
	u64			child_idle_ns;
	bool			child_refused;
	u32			child_bytes;
	u64			child_memory;
	u32			child_packets;
	u32			child_least;
	struct hpcc_clock	link_free;
	struct hpcc_clock	busy;
	struct hpcc_port	*shared;
	struct hpcc_responder	*responder;
	struct hpcc_util	util;
	struct hpcc_csig_units	csig;
	struct tc_hpcc_xstats	stats;
	u64			unstamped[__HPCC_UNSTAMPED_MAX];
	u64			hist[HPCC_HIST_BUCKETS];
	struct qdisc_watchdog	watchdog;
};

/* What was found in a packet's TCP header when it came: 32 bits. Of an IOAM trace the first
 * three tell its offset, that from the hop-by-hop header on, in words, and HPCC_HINT_IOAM, and
 * the fourth its length in words. Of INT-MD they tell the offset of the TCP header, that from the
 * IP header on, in words, HPCC_HINT_INT, and the length of the TCP header; of IFA the same with
 * HPCC_HINT_IFA, but for the first, which is the offset of the IFA header. Of CSIG the first tells
 * the offset of the tag, and the third HPCC_HINT_CSIG; where it is to be pushed, the second tells
 * its type, and the third HPCC_HINT_CSIG_PUSH. An option's length is a multiple of 4.
 */
#define HPCC_HINT_TCP		GENMASK(9, 0)	/* offset of the TCP header */
#define HPCC_HINT_OPT		GENMASK(15, 10)	/* of the option from there */
#define HPCC_HINT_LEN		GENMASK(21, 16)	/* of the option; 0: none to write to */
#define HPCC_HINT_END		GENMASK(27, 22)	/* length of the TCP header */
#define HPCC_HINT_UNSTAMPED	GENMASK(31, 28)	/* enum hpcc_unstamped, if no option */
#define HPCC_HINT_IOAM		1		/* no TCP option is that short */
#define HPCC_HINT_INT		2
#define HPCC_HINT_IFA		3
#define HPCC_HINT_CSIG		5
#define HPCC_HINT_CSIG_PUSH	6

/* Is it a TCP option that was found? */
static inline bool hpcc_hint_is_option(u32 hint)
{
	return FIELD_GET(HPCC_HINT_LEN, hint) && !(FIELD_GET(HPCC_HINT_LEN, hint) & 3);
}

/**
 * struct hpcc_headers - the headers of a packet that arrives (headers.c)
 * @hint: HPCC_HINT_*, which departure needs
 * @ip: offset of the IP header
 * @version: 4 or 6 where that header can be used; else 0
 *
 * As long as a register.
 */
struct hpcc_headers {
	u32	hint;
	u16	ip;
	u16	version;
};

/**
 * struct hpcc_skb_cb - what the qdisc notes on a packet
 * @time_ns: while it waits for a virtual link, when it came; on the line, when
 *	it is due
 * @bytes: what it takes on the link, by the overhead that held when it came
 * @memory: its truesize when it came
 * @hint: HPCC_HINT_*, by the configuration that held when it came
 *
 * "When it came" is when the child gave it, if there is one.
 *
 * Packed, as a qdisc has 20 bytes.
 */
struct hpcc_skb_cb {
	u64			time_ns;
	u32			bytes;
	u32			memory;
	u32			hint;
} __packed __aligned(4);

static inline struct hpcc_skb_cb *hpcc_skb_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct hpcc_skb_cb));
	return (struct hpcc_skb_cb *)qdisc_skb_cb(skb)->data;
}

static inline u32 hpcc_hint_unstamped(u32 hint)
{
	return FIELD_GET(HPCC_HINT_UNSTAMPED, hint);
}

/* Does the device transmit Ethernet headers, so that skb->data is at one? */
static inline bool hpcc_is_ethernet(const struct net_device *dev)
{
	return likely(dev->type == ARPHRD_ETHER) ||
	       dev->type == ARPHRD_LOOPBACK;
}

/* port.c */
void hpcc_port_add_backlog(struct hpcc_port *port, s64 bytes);
void hpcc_port_add_busy(struct hpcc_port *port, u64 ns);
struct hpcc_load hpcc_port_load(const struct hpcc_port *port);
u32 hpcc_port_backlog(struct hpcc_port *port);
int hpcc_ports_init(void);
void hpcc_ports_exit(void);
struct hpcc_port *hpcc_port_get(struct Qdisc *sch,
				const struct hpcc_config *cfg);
void hpcc_port_put(struct hpcc_port *port);
struct hpcc_port *hpcc_port_move(struct hpcc_sched *q, struct hpcc_port *port);

/* Packets come to wait, or do no more (negative). */
static inline void hpcc_backlog_add(struct hpcc_sched *q, s64 bytes)
{
	q->backlog_bytes += bytes;
	if (q->shared)
		hpcc_port_add_backlog(q->shared, bytes);
}

/* The load of this queue, and of the others of its port. */
static inline struct hpcc_load hpcc_load(const struct hpcc_sched *q)
{
	struct hpcc_load own = {
		.busy_ns = q->busy.ns,
		.backlog_bytes = q->backlog_bytes,
	};

	return q->shared ? hpcc_port_load(q->shared) : own;
}

/* Bytes that wait for the link. Cheap enough for each packet that arrives: see
 * hpcc_port_backlog().
 */
static inline u32 hpcc_backlog(const struct hpcc_sched *q)
{
	return q->shared ? hpcc_port_backlog(q->shared) : q->backlog_bytes;
}

/**
 * hpcc_sojourn_ns() - how long a packet was here
 * @q: the port
 * @skb: the packet
 * @ts_ns: when its first bit leaves
 * @ns: result
 *
 * Return: whether that is known. Only a virtual link notes when packets come, and no child tells.
 */
static inline bool hpcc_sojourn_ns(const struct hpcc_sched *q, const struct sk_buff *skb, u64 ts_ns,
				   u64 *ns)
{
	u64 came_ns = hpcc_skb_cb(skb)->time_ns;

	if (!q->cfg.rate || q->child || !came_ns || came_ns > ts_ns)
		return false;
	*ns = ts_ns - came_ns;
	return true;
}

/* queue.c */
void hpcc_queue_init(struct Qdisc *sch);
void hpcc_queue_shape(struct hpcc_sched *q);
void hpcc_queue_reset(struct Qdisc *sch);
bool hpcc_fits(const struct hpcc_sched *q, u32 bytes, u32 memory);
int hpcc_enqueue(struct sk_buff *skb, struct Qdisc *sch,
		 struct sk_buff **to_free);
int hpcc_enqueue_responding(struct sk_buff *skb, struct Qdisc *sch,
			    struct sk_buff **to_free);
struct sk_buff *hpcc_dequeue(struct Qdisc *sch);

/* child.c */
extern const struct Qdisc_class_ops hpcc_class_ops;
int hpcc_child_enqueue(struct sk_buff *skb, struct Qdisc *sch, u64 now,
		       u32 bytes, struct sk_buff **to_free);
struct sk_buff *hpcc_child_dequeue(struct hpcc_sched *q, u64 now);
void hpcc_child_recount(struct hpcc_sched *q);
void hpcc_child_reset(struct hpcc_sched *q);

/* Bytes that a packet takes on the link, as @segs packets: each has headers, which qdisc_pkt_len()
 * counts, overhead, and the VLAN tag that is yet to be inserted.
 */
static inline u32 hpcc_link_bytes(const struct hpcc_sched *q, const struct sk_buff *skb, u32 segs)
{
	u32 bytes = qdisc_pkt_len(skb) + q->cfg.overhead * segs;

	if (unlikely(skb_vlan_tag_present(skb)))
		bytes += VLAN_HLEN * segs;
	return bytes;
}

/* Do packets wait in a child? */
static inline bool hpcc_child_has(const struct hpcc_sched *q)
{
	return q->child && q->child->q.qlen;
}

/* headers.c */
struct hpcc_headers hpcc_parse(struct sk_buff *skb, u8 kind);
struct hpcc_headers hpcc_parse_any(struct sk_buff *skb, const struct hpcc_config *cfg);

/* grow.c */
u32 hpcc_ip_len(const struct sk_buff *skb, u32 ip);
u32 hpcc_ip_room(const struct sk_buff *skb, u32 len);
int hpcc_open(struct sk_buff *skb, u32 at, u32 n);
void hpcc_ip_grow(struct sk_buff *skb, u32 ip, u32 n);

/* ifa.c */
bool hpcc_is_ifa(const struct sk_buff *skb, struct hpcc_headers headers);
u32 hpcc_ifa_hint(struct sk_buff *skb, struct hpcc_headers headers);
int hpcc_try_ifa(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns);
/* carrier.c */
void hpcc_parse_carriers(struct nlattr **tb, struct hpcc_config *cfg);
int hpcc_validate_carriers(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			   struct netlink_ext_ack *extack);
int hpcc_dump_carriers(struct sk_buff *skb, const struct hpcc_config *cfg);

/* csig.c */
bool hpcc_csig_parse(struct sk_buff *skb, const struct hpcc_config *cfg,
		     struct hpcc_headers *headers);
u32 hpcc_csig_push_hint(const struct sk_buff *skb, struct hpcc_headers headers);
int hpcc_try_csig(struct hpcc_sched *q, struct sk_buff *skb, u32 at, u64 ts_ns);
int hpcc_try_push(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns);

/* int.c */
u32 hpcc_int_hint(struct sk_buff *skb, struct hpcc_headers headers, u8 dscp);
int hpcc_try_int(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns);
u32 hpcc_util_now(struct hpcc_sched *q, struct hpcc_load load, u64 ts_ns);

/* Is the TCP checksum yet to be computed, over what we write as well? */
static inline bool hpcc_check_is_partial(const struct sk_buff *skb, u32 tcp)
{
	return skb->ip_summed == CHECKSUM_PARTIAL &&
	       skb_checksum_start_offset(skb) == (int)tcp &&
	       skb->csum_offset == offsetof(struct tcphdr, check);
}

/* mark.c */
u32 hpcc_kmax_derived(const struct hpcc_config *cfg, u64 b, u32 mtu);
void hpcc_marks_init(struct hpcc_marks *marks, const struct hpcc_config *cfg,
		     u64 b, u32 mtu);
bool hpcc_mark(struct hpcc_sched *q, struct sk_buff *skb, bool fits,
	       struct hpcc_headers headers);

/* respond.c */
int hpcc_respond_init(struct Qdisc *sch);
void hpcc_respond_destroy(struct hpcc_sched *q);
void hpcc_respond_recount(const struct hpcc_sched *q, struct tc_hpcc_xstats *stats);
void hpcc_respond(struct hpcc_sched *q, struct sk_buff *skb, struct hpcc_headers headers);

/* stats.c */
int hpcc_dump_stats(struct Qdisc *sch, struct gnet_dump *d);

/* stamp.c */
void hpcc_offset_init_key(void);
struct hpcc_offset hpcc_offset_of(struct Qdisc *sch,
				  const struct hpcc_config *cfg);
u32 hpcc_tx_bytes(u64 bytes_per_s, u64 tx_ns);
void hpcc_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns);

#endif /* _HPCC_QDISC_CORE_SCHED_H */
