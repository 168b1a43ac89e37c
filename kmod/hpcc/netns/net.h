/* SPDX-License-Identifier: GPL-2.0 */
/* State of a network namespace: counters (net.c) and parameters (sysctl.c). */
#ifndef _HPCC_NETNS_NET_H
#define _HPCC_NETNS_NET_H

#include <linux/mutex.h>
#include <linux/xarray.h>
#include <net/netns/generic.h>

#include "common/netns.h"
#include "common/setup.h"

enum hpcc_counter {
#define COUNTER(id, name, meaning)	HPCC_C_##id
#include "netns/hpcc_counters.h"
	__HPCC_C_MAX,
};

/* The format into which switches write. */
enum hpcc_carrier {
	HPCC_CARRIER_TCP,	/* the TCP option */
	HPCC_CARRIER_IOAM,	/* IOAM traces, over IPv6 */
	HPCC_CARRIER_INT,	/* INT-MD headers in probes */
	HPCC_CARRIER_IFA,	/* IFA 2.0 headers before and after the TCP header of probes */
	HPCC_CARRIER_CSIG,	/* CSIG tags in the Ethernet header of probes */
};

struct hpcc_agreements;
struct hpcc_table;
struct netlink_ext_ack;
struct nlattr;

#define HPCC_WHERE_MAX		1
#define HPCC_CARRIER_MAX	HPCC_CARRIER_CSIG
#define HPCC_N_MAX		1000000
#define HPCC_SAMPLE_MAX		64

/* Tables that netlink changes (observe/tables.c). */
enum hpcc_table_id {
	HPCC_TABLE_LINKS,	/* known links (links.c) */
	HPCC_TABLE_ROUTES,	/* parameters by the peer's address (policy.c) */
	HPCC_TABLE_KEYS,	/* keys by the peer's address (keys.h) */
	HPCC_TABLES,
};

#define HPCC_CENSUS_SLOTS	16

/* Number of the flows that arrive by a device (census.c). No lock: LOCAL_OUT of any CPU reads and
 * writes single words. The CPU whose cmpxchg of @began_us succeeds ends the period. A flow that
 * another CPU counts at the same time may be missed once.
 */
struct hpcc_census {
	atomic64_t began_us;	/* start of the period, tcp_mstamp */
	u32 epoch;		/* number of the period */
	u32 period_us;		/* minimum length of the period */
	u32 next_period_us;	/* minimum length of the next period */
	u32 last;		/* flows of the last period */
	atomic_t now;		/* flows of this period so far */
};

/* Parameters that a route may set (policy.c), in the order of HPCC_A_ROUTE_*, all of one type. */
struct hpcc_peer_policy {
	unsigned int where;		/* 1: receivers compute W, if the peer agrees */
	unsigned int carrier;		/* enum hpcc_carrier */
	unsigned int base_rtt_ns;	/* T; 0: the minimum RTT of the connection */
	unsigned int eta_permille;	/* target utilization, 1/1000 */
	unsigned int n_flows;		/* N, for W_ai = W_init * (1 - eta) / N; 0: reported N */
	unsigned int sample;		/* number of requests in a T; 0: one with each segment */
};

/* Parameters in net/hpcc/, read locklessly. */
struct hpcc_sysctls {
	struct hpcc_peer_policy peer;	/* of peers without a route */
	unsigned int max_stage;		/* additive increases before a multiplicative one */
	unsigned int settle;		/* if @max_stage is 0: minimum of T between updates of Wc */
	unsigned int per_rtt;		/* 1: W changes once in a round trip; 0: with each record */
	unsigned int w_ai_bytes;	/* W_ai; 0: derived from N */
	unsigned int start_rtt_ns;	/* longest handshake RTT with W_init as the first window */
	unsigned int host_mbps;		/* B of the host, for W_init; 0: speed of the device */
	unsigned int burst_segs;	/* maximum number of segments in a TSO burst */
	unsigned int pace;		/* 1: pace at R; 0: only if ACKs do not clock the data */
	unsigned int slots;		/* number of records that an option requests */
	unsigned int probes;		/* 1: probes carry requests; 0: data do */
	unsigned int ioam_nodes;	/* maximum number of nodes in a trace or in a stack */
	unsigned int int_dscp;		/* DSCP of packets with INT */
	unsigned int csig_abw;		/* unit of CSIG's buckets of ABW/C, 1/10000 */
	unsigned int csig_time;		/* unit of CSIG's buckets of times, ns */
	unsigned int max_flows;		/* connections with telemetry; 0: by the machine's memory */
	unsigned int option_kind;	/* TCP option kind */
	unsigned int option_exid;	/* experiment identifier in SYN and SYN-ACK */
};

/* State of one network namespace. */
struct hpcc_net {
	struct hpcc_netns ns;	/* counters by enum hpcc_counter */
	struct hpcc_sysctls sysctls;
	struct xarray flows;	/* by number; written under the xarray's lock, read under RCU */
	atomic_t nr_flows;	/* the memory of an ended flow is freed a grace period later */
	struct mutex path_lock;		/* serializes requests for names, and table writers */
	bool identify_active;	/* names of links are requested; @path_lock to write */
	unsigned long path_until;	/* end of the last request for names, jiffies; @path_lock */
	struct delayed_work path_end;	/* clears @identify_active */
	struct hpcc_table __rcu *tables[HPCC_TABLES];	/* NULL: empty; @path_lock to write */
	u32 tables_made;		/* number of the newest table; @path_lock */
	struct hpcc_census census[HPCC_CENSUS_SLOTS];	/* by the device of arrival */
	struct hpcc_agreements __rcu *agreements;	/* of past handshakes (agreement.c) */
};

/* Numbers of the modules of receiver mode and signed feedback, after those of enum hpcc_carrier. */
#define HPCC_MODULE_RECEIVER	(HPCC_CARRIER_MAX + 1)
#define HPCC_MODULE_INTEGRITY	(HPCC_CARRIER_MAX + 2)

/* Bit mask of loaded modules, for set_bit() and clear_bit(): see hpcc_module_load(). */
extern unsigned long hpcc_modules_loaded;
extern unsigned int hpcc_net_id;
extern const char * const hpcc_counter_names[];
extern const struct hpcc_sysctl_desc hpcc_sysctl_descs[];

static inline struct hpcc_net *hpcc_pernet(const struct net *net)
{
	return net_generic(net, hpcc_net_id);
}

/* The state of a network namespace, for the fast path. Context: RCU read side. net_generic() enters
 * its own RCU read side, which costs two calls in preemptible kernels.
 */
static inline struct hpcc_net *hpcc_pernet_rcu(const struct net *net)
{
	return rcu_dereference(net->gen)->ptr[hpcc_net_id];
}

/* Count an event in the fast path. Context: RCU read side, like netfilter hooks. */
static inline void hpcc_count_rcu(const struct net *net, enum hpcc_counter what)
{
	hpcc_counter_add(&hpcc_pernet_rcu(net)->ns, what, 1);
}

void hpcc_count_add(const struct net *net, enum hpcc_counter what, u32 n);

static inline void hpcc_count(const struct net *net, enum hpcc_counter what)
{
	hpcc_count_add(net, what, 1);
}

extern struct hpcc_setup hpcc_setup;

/* Whether flows and the state of network namespaces are initialized. */
static inline bool hpcc_is_up(void)
{
	return hpcc_setup_is_up(&hpcc_setup);
}

void hpcc_module_request(const char *name);
int hpcc_module_load(unsigned int id);
int hpcc_module_need(unsigned int id, const struct nlattr *attr, struct netlink_ext_ack *extack);
int hpcc_where_load(unsigned int where);
int hpcc_carriers_load_links(void);

#endif /* _HPCC_NETNS_NET_H */
