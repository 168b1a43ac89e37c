/* SPDX-License-Identifier: GPL-2.0 */
/* The qdisc "hpcc": declarations that its parts share. */
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
#include <hpcc/law/ldcp.h>
#include <hpcc/wire/clock.h>

/* Number of parameters of carriers. */
#define HPCC_STAMP_PARAMS	5

/**
 * struct hpcc_config - requested configuration; names and units as TCA_HPCC_*
 * @rate: bytes/s, 0: no shaping
 * @bandwidth: bytes/s, 0: speed of the device
 * @limit: maximum backlog, bytes
 * @node: switch_ID
 * @port: port_ID
 * @overhead: bytes that the link adds to each packet
 * @delay_ns: propagation delay after the queue
 * @above: packets get a record if the queue is longer than this, bytes; 0: each packet gets a
 *	record
 * @respond: the port sends responses if the queue is longer than this, bytes; 0: no responses
 * @every_ns: minimum time between two responses to a flow
 * @kmin: bytes; for @kmin, @kmax and @knonect, 0 means: computed from B
 * @kmax: bytes
 * @knonect: bytes
 * @pmax_ppm: P_max in millionths
 * @marking: enum hpcc_marking
 * @kind: TCP option kind
 * @stamp: HPCC_STAMP_*, the carriers into which the port writes; 0: no carrier
 * @walk: option kind that hpcc_parse_any() looks for, or HPCC_WALK_IP_ONLY
 * @split: split GSO packets for which hpcc_must_split() is true
 * @identify: answer requests for node, port and B
 * @stats: fill in the histogram and qlen_max_bytes
 * @param: parameters of carriers (carrier.c)
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
	u32	kmin;
	u32	kmax;
	u32	knonect;
	u32	pmax_ppm;
	u8	marking;
	u8	kind;
	u8	stamp;
	u8	walk;
	bool	split;
	bool	identify;
	bool	stats;
	u32	param[HPCC_STAMP_PARAMS];
};

/**
 * struct hpcc_marks - effective thresholds
 * @curve: curve for ECN-capable packets
 * @knonect: queue in bytes; Not-ECT packets are dropped from this length on
 */
struct hpcc_marks {
	struct ldcp_curve	curve;
	u32			knonect;
};

/* Decision on an arriving packet. */
enum hpcc_verdict {
	HPCC_ADMIT,
	HPCC_MARK,
	HPCC_MARK_FAILED,
	HPCC_DROP_KNONECT,
	HPCC_DROP_LIMIT,
};

/**
 * struct hpcc_port_key - identity of a port
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
 * struct hpcc_load - load of a link
 * @busy_ns: time that the link has spent on packets so far
 * @backlog_bytes: bytes that wait for the link, overhead included
 */
struct hpcc_load {
	u64	busy_ns;
	u32	backlog_bytes;
};

/**
 * struct hpcc_port_cpu - counters of one CPU for a port
 * @busy_ns: time that the link has spent on packets; wraps after 584 years. It must not wrap
 *	earlier: some carriers count bytes modulo 2^32, and at most rates the bytes of 2^n ns are
 *	not a multiple of 2^32
 * @backlog_bytes: bytes added to the backlog on this CPU minus bytes removed on it, overhead
 *	included; negative if packets leave on a different CPU than they arrived on
 * @used: the CPU is in hpcc_port.used
 * @sum_ns: hpcc_port.sum_ns that this CPU used last
 * @sum_backlog_bytes: @backlog_bytes when this CPU first used that sum
 *
 * @busy_ns and @backlog_bytes are written by their CPU with this_cpu_add(), and read by all CPUs.
 * The modules need a 64-bit kernel, so that no value is torn.
 */
struct hpcc_port_cpu {
	u64			busy_ns;
	s64			backlog_bytes;
	bool			used;
	u64			sum_ns;
	s64			sum_backlog_bytes;
};

/**
 * struct hpcc_port - state that the queues of a port share (port.c)
 * @hash: entry in the table of ports
 * @key: identity of the port
 * @rcu: frees the port
 * @queues: number of queues that belong to the port
 * @cpu: counters; a record uses their sum
 * @used: CPUs whose counters were used; read without a lock
 * @sum_ns: time of @sum_bytes; read without a lock
 * @sum_bytes: bytes that waited at @sum_ns; read without a lock
 * @summing: bit 0: a CPU is computing a new sum for @sum_bytes and @sum_ns
 *
 * Other members, except the counters at @cpu, are under RTNL or do not change while a queue belongs
 * to the port.
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
 * struct hpcc_offset - offsets added to a port's records (stamp.c)
 * @ts_ns: added to ts
 * @tx_ns: added to tx
 * @alias: substitute for switch_ID in the tag of an anonymous port
 */
struct hpcc_offset {
	u64	ts_ns;
	u64	tx_ns;
	u32	alias;
};

/**
 * struct hpcc_sched - one port, or one of its queues; the first member of struct hpcc_stamp_port
 * @cfg: configuration
 * @b: B in bytes/s: the first known value of @cfg.rate, @cfg.bandwidth and the device's speed
 * @byte_time: ns per byte at B, Q32
 * @marks: thresholds from @cfg and @b
 * @offset: added to records
 * @seen_ns: if the link is virtual: last time read from the clock
 * @arrived: @seen_ns is the time of an arrival that was just handled
 * @backlog: packets that have not started
 * @in_flight: packets that have started: the packet being serialised, the packets in the emulated
 *	delay, and the packets that the device has not fetched yet
 * @backlog_bytes: bytes in @backlog and @child, overhead included
 * @in_flight_bytes: bytes in @in_flight, overhead included
 * @memory: memory of the packets in @backlog, @in_flight and @child, bytes
 * @child: qdisc that replaces @backlog (child.c), or NULL
 * @child_idle_ns: end of the child's last idle period on a virtual link
 * @child_refused: @child gave no packet at the last dequeue
 * @child_bytes: bytes in @child, overhead included
 * @child_memory: upper bound of the memory of the packets in @child; part of @memory
 * @child_packets: number of packets in @child at the last count
 * @child_least: truesize of the smallest packet that @child got since it was last empty
 * @link_free: time at which the link has sent all packets in progress
 * @busy: time that the link has spent on packets of this queue so far: tx of telemetry
 * @shared: state shared with other queues of the port, or NULL
 * @responder: sends responses (respond.c); NULL if responses were never enabled. Otherwise the port
 *	holds sch_hpcc_respond
 * @stats: counters; qlen_bytes and bandwidth are filled in when dumped
 * @unstamped: packets without our record, by enum hpcc_unstamped
 * @hist: queue length histogram
 * @watchdog: timer of the next event: a packet is due, or the next packet starts
 *
 * Everything is under the qdisc's lock; @cfg, @b, @byte_time, @marks, @offset and @shared change
 * under RTNL as well. @responder is set under RTNL, before @cfg enables responses.
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
	struct tc_hpcc_xstats	stats;
	u64			unstamped[__HPCC_UNSTAMPED_MAX];
	u64			hist[HPCC_HIST_BUCKETS];
	struct qdisc_watchdog	watchdog;
};

/* Result of parsing a packet's headers on arrival, in 32 bits. If HPCC_HINT_FOUND is not set, the
 * hint is the reason why the port cannot write into the packet (enum hpcc_unstamped). Otherwise
 * HPCC_HINT_CARRIER is the carrier, which defines the other bits (stamp_ops.h). The bits below are
 * the bits of the TCP option.
 */
#define HPCC_HINT_TCP		GENMASK(9, 0)	/* offset of the TCP header */
#define HPCC_HINT_OPT		GENMASK(15, 10)	/* offset of the option from there */
#define HPCC_HINT_LEN		GENMASK(21, 16)	/* length of the option */
#define HPCC_HINT_END		GENMASK(27, 22)	/* length of the TCP header */
#define HPCC_HINT_FOUND		BIT(28)
#define HPCC_HINT_CARRIER	GENMASK(31, 29)	/* enum hpcc_stamp_row; 0: TCP option */

/* Whether the hint is for a TCP option. */
static inline bool hpcc_hint_is_option(u32 hint)
{
	return (hint & (HPCC_HINT_CARRIER | HPCC_HINT_FOUND)) == HPCC_HINT_FOUND;
}

/**
 * struct hpcc_headers - headers of an arriving packet (headers.c)
 * @hint: HPCC_HINT_*, used on departure
 * @ip: offset of the IP header
 * @version: 4 or 6 if the IP header is valid; otherwise 0
 *
 * The structure fits in one register.
 */
struct hpcc_headers {
	u32	hint;
	u16	ip;
	u16	version;
};

/**
 * struct hpcc_skb_cb - the qdisc's data of a packet
 * @time_ns: while the packet waits for a virtual link: arrival time; in flight: time at which the
 *	packet is due
 * @bytes: length of the packet on the link, with the overhead at its arrival
 * @memory: truesize of the packet at its arrival
 * @hint: HPCC_HINT_*, with the configuration at its arrival
 *
 * With a child, "arrival" is the time at which the port got the packet from the child.
 *
 * The structure is packed, because a qdisc has 20 bytes per packet.
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

/* Whether skb->data is at an Ethernet header on this device. */
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

/**
 * hpcc_sojourn_ns() - time that a packet has spent in this port
 * @q: the port
 * @skb: the packet
 * @ts_ns: departure time of its first bit
 * @ns: result
 *
 * Return: whether the time is known. Only a virtual link without a child stores arrival times.
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
int hpcc_enqueue(struct sk_buff *skb, struct Qdisc *sch,
		 struct sk_buff **to_free);
struct hpcc_headers hpcc_arrival(struct hpcc_sched *q, struct sk_buff *skb);
struct sk_buff *hpcc_dequeue(struct Qdisc *sch);

/* child.c */
extern const struct Qdisc_class_ops hpcc_class_ops;
int hpcc_child_enqueue(struct sk_buff *skb, struct Qdisc *sch, u64 now,
		       u32 bytes, struct sk_buff **to_free);
struct sk_buff *hpcc_child_dequeue(struct hpcc_sched *q, u64 now);
void hpcc_child_recount(struct hpcc_sched *q);
void hpcc_child_reset(struct hpcc_sched *q);

/* Bytes on the link of a packet with @segs segments. Each segment has headers, which
 * qdisc_pkt_len() includes, overhead, and a VLAN tag if a tag will be inserted.
 */
static inline u32 hpcc_link_bytes(const struct hpcc_sched *q, const struct sk_buff *skb, u32 segs)
{
	u32 bytes = qdisc_pkt_len(skb) + q->cfg.overhead * segs;

	if (unlikely(skb_vlan_tag_present(skb)))
		bytes += VLAN_HLEN * segs;
	return bytes;
}

/* Whether packets wait in a child. */
static inline bool hpcc_child_has(const struct hpcc_sched *q)
{
	return q->child && q->child->q.qlen;
}

/* headers.c */
struct hpcc_headers hpcc_parse(struct sk_buff *skb, u8 kind);

/* grow.c */
u32 hpcc_ip_len(const struct sk_buff *skb, u32 ip);
u32 hpcc_ip_room(const struct sk_buff *skb, u32 len);
int hpcc_open(struct sk_buff *skb, u32 at, u32 n);
void hpcc_ip_grow(struct sk_buff *skb, u32 ip, u32 n);

/* Report an error in an attribute. The value of the expression is @err. */
#define hpcc_reject(extack, attr, err, message) ({			\
	NL_SET_ERR_MSG_ATTR(extack, attr, message);			\
	(err);								\
})

/* carrier.c */
struct hpcc_headers hpcc_parse_any(struct sk_buff *skb, const struct hpcc_config *cfg);
int hpcc_get_carriers(struct nlattr **tb, u8 stamp, struct netlink_ext_ack *extack);
void hpcc_put_carriers(u8 stamp);
void hpcc_parse_carriers(struct nlattr **tb, struct hpcc_config *cfg);
int hpcc_validate_carriers(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			   struct netlink_ext_ack *extack);
int hpcc_dump_carriers(struct sk_buff *skb, const struct hpcc_config *cfg);
void hpcc_commit_carriers(struct hpcc_sched *q, bool new_link);

/* Whether the TCP checksum is not computed yet, and will cover the bytes that we write. */
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

/**
 * struct hpcc_module - a module that only some ports need (module.c)
 * @name: end of the module's name, after "sch_hpcc_"
 * @missing: error message if the module cannot be loaded
 * @owner: the module, or NULL while it is not loaded
 */
struct hpcc_module {
	const char	*name;
	const char	*missing;
	struct module	*owner;
};

/**
 * struct hpcc_respond_ops - functions of sch_hpcc_respond
 * @owner: the module
 * @create: create the responder of an egress device, under RTNL; NULL: no memory
 * @destroy: free a responder after its last packet; may sleep
 * @enqueue: Qdisc_ops::enqueue of a port that responds
 * @recount: copy the counters of the responder of a locked port
 */
struct hpcc_respond_ops {
	struct module *owner;
	struct hpcc_responder *(*create)(struct net_device *dev);
	void	(*destroy)(struct hpcc_responder *r);
	int	(*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	void	(*recount)(const struct hpcc_responder *r, struct tc_hpcc_xstats *stats);
};

/* module.c; NULL while sch_hpcc_respond is not loaded. It does not change while a port has a
 * responder.
 */
extern const struct hpcc_respond_ops *hpcc_respond_ops;

void hpcc_module_set(struct hpcc_module *m, struct module *owner);
int hpcc_module_get(const struct hpcc_module *m, const struct nlattr *attr,
		    struct netlink_ext_ack *extack);
int hpcc_respond_register(const struct hpcc_respond_ops *ops);
void hpcc_respond_unregister(const struct hpcc_respond_ops *ops);
int hpcc_responder_get(struct Qdisc *sch, const struct hpcc_config *cfg, const struct nlattr *attr,
		       struct netlink_ext_ack *extack);
void hpcc_responder_put(struct hpcc_sched *q);

/* stats.c */
int hpcc_dump_stats(struct Qdisc *sch, struct gnet_dump *d);

/* stamp.c */
void hpcc_offset_init_key(void);
struct hpcc_offset hpcc_offset_of(struct Qdisc *sch,
				  const struct hpcc_config *cfg);
void hpcc_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns);

#endif /* _HPCC_QDISC_CORE_SCHED_H */
