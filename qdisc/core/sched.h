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

/* Requested configuration; names and units as TCA_HPCC_*. */
struct hpcc_config {
	u64	rate;		/* bytes/s; 0: no shaping */
	u64	bandwidth;	/* bytes/s; 0: speed of the device */
	u64	class;		/* bytes/s that the parent guarantees; 0: no class */
	u32	limit;		/* maximum backlog, bytes */
	u32	node;		/* switch_ID */
	u32	port;		/* port_ID */
	u32	overhead;	/* bytes that the link adds to each packet */
	u32	delay_ns;	/* propagation delay after the queue */
	u32	above;		/* bytes: records only if the queue is longer; 0: always */
	u32	respond;	/* bytes: respond if the queue is longer; 0: never */
	u32	every_ns;	/* minimum time between two responses to a flow */
	u32	kmin;		/* bytes; 0: derived from B */
	u32	kmax;		/* bytes; 0: derived from B */
	u32	knonect;	/* bytes; 0: derived from B */
	u32	pmax_ppm;	/* P_max in millionths */
	u32	util_window_ns;	/* interval of a link's utilization */
	u32	tpid;		/* EtherType of a carrier's tag */
	u32	abw_unit;	/* width of its buckets of available bandwidth, 1/10000 of B */
	u32	time_unit_ns;	/* width of its buckets of time */
	u8	marking;	/* enum hpcc_marking */
	u8	kind;		/* TCP option kind */
	u8	stamp;		/* HPCC_STAMP_*, carriers that the port writes; 0: none */
	u8	walk;		/* option kind for hpcc_parse_any(), or HPCC_WALK_IP_ONLY */
	u8	dscp;		/* of packets with a carrier */
	u8	qlen;		/* enum hpcc_qlen */
	u8	number;		/* of the class, unique on its port; 0: no class */
	u8	quantize;	/* steps of u' in records that leave; 0: off */
	u8	strip;		/* HPCC_STAMP_*, carriers to remove */
	bool	split;		/* split GSO packets (hpcc_must_split()) */
	bool	identify;	/* answer requests for node, port and B */
	bool	stats;		/* fill in the histogram and qlen_max_bytes */
	bool	inner;		/* fill in the TCP option in tunnels; stamp has HPCC_STAMP_INNER */
};

/* Like a carrier of hpcc_config.stamp, but not in TCA_HPCC_STAMP: set by TCA_HPCC_INNER. */
#define HPCC_STAMP_INNER	0x40

struct hpcc_marks {
	struct ldcp_curve	curve;		/* for ECN-capable packets */
	u32			knonect;	/* drop Not-ECT packets from here on, bytes */
};

enum hpcc_verdict {
	HPCC_ADMIT,
	HPCC_MARK,
	HPCC_MARK_FAILED,
	HPCC_DROP_KNONECT,
	HPCC_DROP_LIMIT,
};

struct hpcc_port_key {
	struct net_device	*dev;
	u32			node;	/* switch_ID */
	u32			id;	/* port_ID */
};

struct hpcc_load {
	u64	busy_ns;	/* time that the link has spent on packets so far */
	u32	backlog_bytes;	/* bytes that wait for the link, overhead included */
};

/* Counters of one CPU for a port. The CPU adds to busy_ns and backlog_bytes with this_cpu_add(),
 * and all CPUs read them. The modules need a 64-bit kernel, so no value is torn.
 *
 * busy_ns wraps after 584 years. It must not wrap earlier, at 2^n ns: some carriers convert it to
 * bytes modulo 2^32. For most rates the bytes of 2^n ns are not a multiple of 2^32, so these
 * counters would jump.
 */
struct hpcc_port_cpu {
	u64			busy_ns;	/* time spent on packets */
	s64			backlog_bytes;	/* added minus removed on this CPU */
	bool			used;		/* this CPU is in hpcc_port.used */
	u64			sum_ns;		/* hpcc_port.sum_ns that this CPU used last */
	s64			sum_backlog_bytes;	/* backlog_bytes at first use of sum_ns */
};

/* State that the queues of a port share (port.c). CPUs access used, sum_ns, sum_bytes, summing and
 * the counters without a lock. The other members are under RTNL, or constant.
 */
struct hpcc_port {
	struct rhash_head	hash;
	struct hpcc_port_key	key;
	struct rcu_head		rcu;
	u32			queues;		/* number of queues that belong to the port */
	struct hpcc_port_cpu __percpu *cpu;	/* records use their sum */
	cpumask_var_t		used;		/* CPUs whose counters were used */
	u64			sum_ns;		/* time of sum_bytes */
	u32			sum_bytes;	/* bytes that waited at sum_ns */
	unsigned long		summing;	/* bit 0: a CPU is computing a new sum */
};

/* Added to a port's records (stamp.c). */
struct hpcc_offset {
	u64	ts_ns;
	u64	tx_ns;
	u32	alias;	/* replaces switch_ID in the tag of an anonymous port */
	u32	port;	/* port_ID; bits 24 .. 31: number of a class, which changes the tag */
};

/* Parts of a port that have a module each. */
enum hpcc_part {
	HPCC_PART_RESPOND,	/* sends responses (respond.c) */
	HPCC_PART_BORDER,	/* border of a domain (border.c) */
	HPCC_PART_CLASS,	/* load of a class (class.c) */
	HPCC_PARTS,
};

/* One port, or one of its queues; the first member of struct hpcc_stamp_port. The qdisc's lock
 * protects all members; cfg, b, byte_time, marks, offset, shared and timed change under RTNL as
 * well.
 * part is set under RTNL, before cfg enables the part, and cleared under RTNL, after cfg has
 * disabled the part. In between the port holds the part's module.
 */
struct hpcc_sched {
	struct hpcc_config	cfg;
	u64			b;		/* bytes/s: rate, else bandwidth, else speed */
	u64			byte_time;	/* ns per byte at B, Q32 */
	struct hpcc_marks	marks;		/* thresholds from cfg and b */
	struct hpcc_offset	offset;		/* added to records */
	u64			seen_ns;	/* virtual link: last time read from the clock */
	bool			arrived;	/* an arrival has just read seen_ns */
	bool			timed;		/* packets contain their arrival times */
	struct qdisc_skb_head	backlog;	/* packets that have not started */
	struct qdisc_skb_head	in_flight;	/* packets that have started */
	u32			backlog_bytes;	/* bytes in backlog and child, with overhead */
	u32			in_flight_bytes;	/* bytes in in_flight, with overhead */
	u64			memory;		/* truesize of all packets, with child_memory */
	struct Qdisc		*child;		/* replaces backlog (child.c), or NULL */
	u64			child_idle_ns;	/* virtual link: when child was last idle */
	bool			child_refused;	/* child had no packet at the last dequeue */
	u32			child_bytes;	/* bytes in child, with overhead */
	u64			child_memory;	/* upper bound of child's truesize */
	u32			child_packets;	/* packets in child at the last count */
	u32			child_least;	/* smallest truesize since child was empty */
	struct hpcc_clock	link_free;	/* when the link has sent all started packets */
	struct hpcc_clock	busy;		/* time spent on packets: tx of telemetry */
	struct hpcc_port	*shared;	/* port of several queues (port.c), or NULL */
	void			*part[HPCC_PARTS];	/* state of enum hpcc_part, or NULL */
	struct tc_hpcc_xstats	stats;		/* the dump fills in qlen_bytes and bandwidth */
	u64			unstamped[__HPCC_UNSTAMPED_MAX]; /* enum hpcc_unstamped */
	u64			hist[HPCC_HIST_BUCKETS];	/* of queue lengths (histogram.h) */
	struct qdisc_watchdog	watchdog;	/* next start, or next due packet */
	struct list_head	stale;		/* in hpcc_stale, under RTNL (main.c) */
};

/* Result of parsing an arriving packet. Without HPCC_HINT_FOUND the hint is the reason why the port
 * cannot write into the packet (enum hpcc_unstamped). These bits are for the TCP option;
 * stamp_ops.h defines bits 0 .. 21 for other carriers.
 */
#define HPCC_HINT_TCP		GENMASK(9, 0)	/* offset of the TCP header */
#define HPCC_HINT_OPT		GENMASK(15, 10)	/* offset of the option from there */
#define HPCC_HINT_LEN		GENMASK(21, 16)	/* length of the option */
#define HPCC_HINT_END		GENMASK(27, 22)	/* length of the TCP header */
#define HPCC_HINT_FOUND		BIT(28)
#define HPCC_HINT_CARRIER	GENMASK(31, 29)	/* enum hpcc_stamp_row; 0: TCP option */

static inline bool hpcc_hint_is_option(u32 hint)
{
	return (hint & (HPCC_HINT_CARRIER | HPCC_HINT_FOUND)) == HPCC_HINT_FOUND;
}

/* Headers of an arriving packet (headers.c). The structure fits in one register. */
struct hpcc_headers {
	u32	hint;		/* HPCC_HINT_*, used on departure */
	u16	ip;		/* offset of the IP header */
	u16	version;	/* 4 or 6; 0: no valid IP header */
};

/* The qdisc's data of a packet, packed because a qdisc has 20 bytes per packet. With a child,
 * "arrival" is the time at which the port got the packet from the child.
 */
struct hpcc_skb_cb {
	u64			time_ns;	/* arrival, if timed; in flight: when due */
	u32			bytes;		/* on the link, overhead included, at arrival */
	u32			memory;		/* truesize at arrival */
	u32			hint;		/* HPCC_HINT_*, as configured at arrival */
} __packed __aligned(4);

static inline struct hpcc_skb_cb *hpcc_skb_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct hpcc_skb_cb));
	return (struct hpcc_skb_cb *)qdisc_skb_cb(skb)->data;
}

/* Whether skb->data is at an Ethernet header on this device. */
static inline bool hpcc_is_ethernet(const struct net_device *dev)
{
	return likely(dev->type == ARPHRD_ETHER) || dev->type == ARPHRD_LOOPBACK;
}

/* port.c */
void hpcc_port_add_backlog(struct hpcc_port *port, s64 bytes);
void hpcc_port_add_busy(struct hpcc_port *port, u64 ns);
struct hpcc_load hpcc_port_load(const struct hpcc_port *port);
u32 hpcc_shared_backlog(const struct hpcc_sched *q);
int hpcc_ports_init(void);
void hpcc_ports_exit(void);
struct hpcc_port *hpcc_port_get(struct Qdisc *sch, const struct hpcc_config *cfg);
void hpcc_port_put(struct hpcc_port *port);
struct hpcc_port *hpcc_port_move(struct hpcc_sched *q, struct hpcc_port *port);

/* Time from arrival to @ts_ns; false: unknown. Only a virtual link and a class store arrivals, and
 * only without a child.
 */
static inline bool hpcc_sojourn_ns(const struct hpcc_sched *q, const struct sk_buff *skb, u64 ts_ns,
				   u64 *ns)
{
	u64 came_ns = hpcc_skb_cb(skb)->time_ns;

	if (!q->timed || q->child || !came_ns || came_ns > ts_ns)
		return false;
	*ns = ts_ns - came_ns;
	return true;
}

/* queue.c */
void hpcc_queue_reset(struct Qdisc *sch);
int hpcc_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
struct sk_buff *hpcc_peek_next(struct Qdisc *sch);
struct hpcc_headers hpcc_arrival(struct hpcc_sched *q, struct sk_buff *skb);
struct sk_buff *hpcc_dequeue(struct Qdisc *sch);

/* child.c */
extern const struct Qdisc_class_ops hpcc_child_ops;
int hpcc_child_enqueue(struct sk_buff *skb, struct Qdisc *sch, u64 now,
		       u32 bytes, struct sk_buff **to_free);
struct sk_buff *hpcc_child_dequeue(struct hpcc_sched *q, u64 now);
void hpcc_child_recount(struct hpcc_sched *q);
void hpcc_child_reset(struct hpcc_sched *q);

/* qdisc_pkt_len() has all segments' headers, but no overhead and no tag to be inserted. */
static inline u32 hpcc_link_bytes(const struct hpcc_sched *q, const struct sk_buff *skb, u32 segs)
{
	u32 bytes = qdisc_pkt_len(skb) + q->cfg.overhead * segs;

	if (unlikely(skb_vlan_tag_present(skb)))
		bytes += VLAN_HLEN * segs;
	return bytes;
}

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
void hpcc_close(struct sk_buff *skb, u32 at, u32 n);
void hpcc_ip_grow(struct sk_buff *skb, u32 ip, u32 n);

/* carrier.c */
struct hpcc_headers hpcc_parse_any(struct sk_buff *skb, const struct hpcc_config *cfg);
int hpcc_get_carriers(struct nlattr **tb, u8 stamp, struct netlink_ext_ack *extack);
void hpcc_put_carriers(u8 stamp);
int hpcc_validate_carriers(struct Qdisc *sch, struct nlattr **tb, const struct hpcc_config *cfg,
			   struct netlink_ext_ack *extack);
void hpcc_commit_carriers(struct hpcc_sched *q, bool new_link);

/* Whether the TCP checksum is computed later, and will cover the bytes that we write. */
static inline bool hpcc_check_is_partial(const struct sk_buff *skb, u32 tcp)
{
	return skb->ip_summed == CHECKSUM_PARTIAL &&
	       skb_checksum_start_offset(skb) == (int)tcp &&
	       skb->csum_offset == offsetof(struct tcphdr, check);
}

/* mark.c */
u32 hpcc_kmax_derived(const struct hpcc_config *cfg, u64 b, u32 mtu);
void hpcc_marks_init(struct hpcc_marks *marks, const struct hpcc_config *cfg, u64 b, u32 mtu);
bool hpcc_mark(struct hpcc_sched *q, struct sk_buff *skb, bool fits, struct hpcc_headers headers);

/* A module that only some ports need (module.c). */
struct hpcc_module {
	const char	*name;		/* end of the module's name, after "sch_hpcc_" */
	const char	*missing;	/* error message if the module cannot be loaded */
	struct module	*owner;		/* NULL while the module is not loaded */
};

/* Functions of a part's module. create() runs under RTNL and returns the part's state; NULL: no
 * memory. destroy() runs after the last packet that uses the part, and may sleep. enqueue() is
 * Qdisc_ops::enqueue of a port that responds, and dequeue() is Qdisc_ops::dequeue of a border.
 * recount() copies counters of the responder of a locked port.
 *
 * The others are for a class, under the qdisc's lock. commit() follows a change of cfg or b. sent()
 * adds a packet that starts at @now and that the link sends for @time. load() returns the load as
 * if @skb started at @ts_ns, without changing the state; if @skb is NULL, the first packet of the
 * queue.
 */
struct hpcc_part_ops {
	struct module *owner;
	enum hpcc_part part;
	void	*(*create)(struct net_device *dev);
	void	(*destroy)(void *state);
	int	(*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	void	(*recount)(const void *state, struct tc_hpcc_xstats *stats);
	void	(*commit)(struct hpcc_sched *q);
	void	(*sent)(struct hpcc_sched *q, const struct sk_buff *skb, struct hpcc_clock time,
			u64 now);
	struct hpcc_load (*load)(const struct hpcc_sched *q, const struct sk_buff *skb, u64 ts_ns);
};

/* module.c; NULL while the module is not loaded; constant while a port has the part. */
extern const struct hpcc_part_ops *hpcc_parts[HPCC_PARTS];

void hpcc_module_set(struct hpcc_module *m, struct module *owner);
int hpcc_reject(struct netlink_ext_ack *extack, const struct nlattr *attr, int err,
		const char *message);
int hpcc_module_get(const struct hpcc_module *m, const struct nlattr *attr,
		    struct netlink_ext_ack *extack);
int hpcc_part_register(const struct hpcc_part_ops *ops);
void hpcc_part_unregister(const struct hpcc_part_ops *ops);
int hpcc_part_get(struct Qdisc *sch, enum hpcc_part part, bool needed, const struct nlattr *attr,
		  struct netlink_ext_ack *extack);
void hpcc_part_put(struct hpcc_sched *q, enum hpcc_part part);

static inline bool hpcc_is_border(const struct hpcc_config *cfg)
{
	return cfg->quantize || cfg->strip;
}

/* device.c */
u64 hpcc_bandwidth(struct net_device *dev, const struct hpcc_config *cfg);
void hpcc_warn_unequal(struct net_device *dev, const struct hpcc_config *cfg,
		       struct netlink_ext_ack *extack);

/* core/class.c */
void hpcc_parse_class(const struct Qdisc *sch, struct nlattr **tb, struct hpcc_config *cfg);
int hpcc_validate_class(struct Qdisc *sch, struct nlattr **tb, struct hpcc_config *cfg, u64 b,
			struct netlink_ext_ack *extack);

/* The rate that the thresholds of marking are derived from. */
static inline u64 hpcc_marks_rate(const struct hpcc_config *cfg, u64 b)
{
	return cfg->class && cfg->qlen != HPCC_QLEN_PORT ? cfg->class : b;
}

/* stats.c */
int hpcc_dump_stats(struct Qdisc *sch, struct gnet_dump *d);

/* stamp.c */
void hpcc_offset_init_key(void);
struct hpcc_offset hpcc_offset_of(struct Qdisc *sch, const struct hpcc_config *cfg);
void hpcc_stamp(struct hpcc_sched *q, struct sk_buff *skb, u64 ts_ns);

#endif /* _HPCC_QDISC_CORE_SCHED_H */
