/* SPDX-License-Identifier: GPL-2.0 */
/* State of a network namespace: counters (info.c) and parameters (sysctl.c). */
#ifndef _HPCC_NETNS_NET_H
#define _HPCC_NETNS_NET_H

#include <linux/mutex.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "common/counters.h"
#include "common/sysctl.h"

/* Counters of /proc/net/hpcc. */
enum hpcc_counter {
#define COUNTER(id, name, meaning)	HPCC_C_##id
#include "netns/hpcc_counters.h"
	__HPCC_C_MAX,
};

/**
 * enum hpcc_carrier - the format into which switches write
 * @HPCC_CARRIER_TCP: the TCP option
 * @HPCC_CARRIER_IOAM: IOAM traces, over IPv6
 * @HPCC_CARRIER_INT: INT-MD headers in probes
 * @HPCC_CARRIER_IFA: IFA 2.0 headers before and after the TCP header of probes
 * @HPCC_CARRIER_CSIG: CSIG tags in the Ethernet header of probes
 */
enum hpcc_carrier {
	HPCC_CARRIER_TCP,
	HPCC_CARRIER_IOAM,
	HPCC_CARRIER_INT,
	HPCC_CARRIER_IFA,
	HPCC_CARRIER_CSIG,
};

struct hpcc_agreements;
struct hpcc_setup;
struct hpcc_table;
struct netlink_ext_ack;
struct nlattr;

/* Maximum values in sysctls and routes. */
#define HPCC_WHERE_MAX		1
#define HPCC_CARRIER_MAX	HPCC_CARRIER_CSIG

/**
 * enum hpcc_table_id - tables that netlink changes (table.c)
 * @HPCC_TABLE_LINKS: known links (links.c)
 * @HPCC_TABLE_ROUTES: parameters by the peer's address (policy.c)
 * @HPCC_TABLES: number of tables
 */
enum hpcc_table_id {
	HPCC_TABLE_LINKS,
	HPCC_TABLE_ROUTES,
	HPCC_TABLES,
};

#define HPCC_CENSUS_SLOTS	16

/**
 * struct hpcc_census - count of the flows that arrive by a device (census.c)
 *
 * No lock: LOCAL_OUT of any CPU reads and writes single words. The CPU whose cmpxchg of @began_us
 * succeeds ends the period; a flow that another CPU counts at the same time may be missed once.
 *
 * @began_us: start of the period, tcp_mstamp
 * @epoch: number of the period
 * @period_us: minimum length of the period
 * @next_period_us: minimum length of the next period
 * @last: flows of the last period
 * @now: flows of this period so far
 */
struct hpcc_census {
	atomic64_t began_us;
	u32 epoch;
	u32 period_us;
	u32 next_period_us;
	u32 last;
	atomic_t now;
};

/**
 * struct hpcc_sysctls - parameters in net/hpcc/, read locklessly
 * @eta_permille: target utilization, 1/1000
 * @max_stage: number of additive increases before a multiplicative increase is allowed
 * @settle: with @max_stage 0, minimum number of T between two updates of Wc
 * @per_rtt: 1: W changes with Wc, once in a round trip; 0: W follows each record
 * @n_flows: N, for W_ai = W_init * (1 - eta) / N; 0: the N that the receiver reports
 * @w_ai_bytes: W_ai; 0: derived from N
 * @base_rtt_ns: T; 0: the minimum RTT of the connection
 * @start_rtt_ns: longest handshake RTT after which the first window is W_init
 * @host_mbps: B of the host, for W_init; 0: the speed of the egress device
 * @burst_segs: maximum number of segments in a TSO burst
 * @pace: pace at R; 0: only if ACKs do not clock the data
 * @slots: number of records that an option requests
 * @sample: number of requests in a T; 0: a request with each segment
 * @probes: 0: data carry requests; 1: probes carry requests
 * @where: 1: receivers compute W, if the peer agrees
 * @carrier: enum hpcc_carrier
 * @ioam_nodes: number of nodes that a trace has space for, or that may write into an INT stack
 * @int_dscp: DSCP of packets with INT
 * @csig_abw: unit of CSIG's buckets of ABW/C, 1/10000
 * @csig_time: unit of CSIG's buckets of times, ns
 * @max_flows: maximum number of connections with telemetry; 0: derived from the machine's memory
 * @option_kind: TCP option kind
 * @option_exid: experiment identifier in SYN and SYN-ACK
 */
struct hpcc_sysctls {
	unsigned int eta_permille;
	unsigned int max_stage;
	unsigned int settle;
	unsigned int per_rtt;
	unsigned int n_flows;
	unsigned int w_ai_bytes;
	unsigned int base_rtt_ns;
	unsigned int start_rtt_ns;
	unsigned int host_mbps;
	unsigned int burst_segs;
	unsigned int pace;
	unsigned int slots;
	unsigned int sample;
	unsigned int probes;
	unsigned int where;
	unsigned int carrier;
	unsigned int ioam_nodes;
	unsigned int int_dscp;
	unsigned int csig_abw;
	unsigned int csig_time;
	unsigned int max_flows;
	unsigned int option_kind;
	unsigned int option_exid;
};

/**
 * struct hpcc_net - state of one network namespace
 * @sysctls: parameters
 * @sysctl_dir: registration of @sysctls
 * @counters: counters, indexed by enum hpcc_counter
 * @flows: connections with an agreement, by number; written under the xarray's lock, read under
 *	RCU
 * @nr_flows: number of flows; the memory of an ended flow is free a grace period later
 * @path_lock: serializes requests for the names of links (identify.c), and the writers of @tables
 * @identify_active: names are requested; written under @path_lock, new flows read it unlocked
 * @path_until: end of the last request for names, jiffies; under @path_lock
 * @path_end: clears @identify_active
 * @tables: tables by enum hpcc_table_id, NULL: empty; RCU; written under @path_lock
 * @census: flows by the device through which they arrive
 * @agreements: notes about handshakes, NULL before the first note; RCU (agreement.c)
 * @retired_agreements: former value of @agreements, after the exit of the namespace until the
 *	memory can be freed
 */
struct hpcc_net {
	struct hpcc_sysctls sysctls;
	struct hpcc_sysctl_dir sysctl_dir;
	struct hpcc_counters counters;
	struct xarray flows;
	atomic_t nr_flows;
	struct mutex path_lock;		/* serializes requests for names, and table writers */
	bool identify_active;
	unsigned long path_until;
	struct delayed_work path_end;
	struct hpcc_table __rcu *tables[HPCC_TABLES];
	struct hpcc_census census[HPCC_CENSUS_SLOTS];
	struct hpcc_agreements __rcu *agreements;
	struct hpcc_agreements *retired_agreements;
};

/* Number of the module of receiver mode, after the numbers of enum hpcc_carrier. */
#define HPCC_MODULE_RECEIVER	(HPCC_CARRIER_MAX + 1)

/* Bit mask of loaded modules, see hpcc_module_load(); set_bit() and clear_bit() write it. */
extern unsigned long hpcc_modules_loaded;
extern unsigned int hpcc_net_id;
extern const char * const hpcc_counter_names[__HPCC_C_MAX];

/**
 * hpcc_pernet() - our state in a network namespace
 * @net: the namespace
 */
static inline struct hpcc_net *hpcc_pernet(const struct net *net)
{
	return net_generic(net, hpcc_net_id);
}

/**
 * hpcc_pernet_rcu() - our state in a network namespace, for the fast path
 * @net: the namespace
 *
 * net_generic() enters its own RCU read side, which costs two calls in preemptible kernels.
 *
 * Context: RCU read side.
 */
static inline struct hpcc_net *hpcc_pernet_rcu(const struct net *net)
{
	return rcu_dereference(net->gen)->ptr[hpcc_net_id];
}

/**
 * hpcc_count_rcu() - count an event in the fast path
 * @net: network namespace of the event
 * @what: counter
 *
 * Context: RCU read side, like netfilter hooks.
 */
static inline void hpcc_count_rcu(const struct net *net, enum hpcc_counter what)
{
	hpcc_counters_add(&hpcc_pernet_rcu(net)->counters, what, 1);
}

/**
 * hpcc_count_add() - count several events
 * @net: network namespace of the events
 * @what: counter
 * @n: number of events
 *
 * Context: any.
 */
static inline void hpcc_count_add(const struct net *net, enum hpcc_counter what,
				  u32 n)
{
	rcu_read_lock();
	hpcc_counters_add(&hpcc_pernet_rcu(net)->counters, what, n);
	rcu_read_unlock();
}

/**
 * hpcc_count() - count an event
 * @net: network namespace of the event
 * @what: counter
 *
 * Context: any.
 */
static inline void hpcc_count(const struct net *net, enum hpcc_counter what)
{
	hpcc_count_add(net, what, 1);
}

extern struct hpcc_setup hpcc_setup;
bool hpcc_is_up(void);
int hpcc_module_load(unsigned int id);
int hpcc_module_need(unsigned int id, const struct nlattr *attr, struct netlink_ext_ack *extack);
int hpcc_where_load(unsigned int where);
int hpcc_carriers_load_links(void);
int hpcc_sysctl_register(struct net *net);
void hpcc_sysctl_unregister(struct net *net);

#endif /* _HPCC_NETNS_NET_H */
