/* SPDX-License-Identifier: GPL-2.0 */
/* State of a network namespace: counters (proc.c) and parameters (sysctl.c). */
#ifndef _HPCC_NETNS_NET_H
#define _HPCC_NETNS_NET_H

#include <linux/mutex.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "common/counters.h"
#include "common/sysctl.h"

/* What /proc/net/hpcc counts. */
enum hpcc_counter {
#define COUNTER(id, name, meaning)	HPCC_C_##id
#include "netns/hpcc_counters.h"
	__HPCC_C_MAX,
};

/**
 * enum hpcc_carrier - what switches fill in
 * @HPCC_CARRIER_TCP: the TCP option
 * @HPCC_CARRIER_IOAM: IOAM traces, over IPv6
 * @HPCC_CARRIER_INT: INT-MD, in probes
 * @HPCC_CARRIER_IFA: IFA 2.0, around probes
 * @HPCC_CARRIER_CSIG: CSIG tags, on probes
 */
enum hpcc_carrier {
	HPCC_CARRIER_TCP,
	HPCC_CARRIER_IOAM,
	HPCC_CARRIER_INT,
	HPCC_CARRIER_IFA,
	HPCC_CARRIER_CSIG,
};

struct hpcc_agreements;
struct hpcc_table;

/* Of sysctls and routes. */
#define HPCC_WHERE_MAX		1
#define HPCC_CARRIER_MAX	HPCC_CARRIER_CSIG

/**
 * enum hpcc_table_id - tables that netlink changes (table.c)
 * @HPCC_TABLE_LINKS: what is known of links (links.c)
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
 * struct hpcc_census - flows that come in by a device (census.c)
 *
 * No lock: LOCAL_OUT of any CPU reads and writes single words. The cmpxchg of @began_us elects
 * who ends a period; a flow that counts meanwhile may be missed once.
 *
 * @began_us: when the period began, tcp_mstamp
 * @epoch: its number
 * @period_us: its length at least
 * @next_period_us: of the next one
 * @last: flows of the one before
 * @now: flows of this one
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
 * struct hpcc_sysctls - parameters under net/hpcc/, read locklessly
 * @eta_permille: target utilization, 1/1000
 * @max_stage: additive increases before a multiplicative one is allowed
 * @settle: with @max_stage 0, T between two updates of Wc at least
 * @per_rtt: W follows records once in a round trip
 * @hop_records: records of a hop in a T that paths of several hops are measured by at
 *	most; 0: all
 * @n_flows: N, for W_ai = W_init * (1 - eta) / N; 0: what the receiver reports
 * @w_ai_bytes: W_ai; 0 takes it from N
 * @base_rtt_ns: T; 0 takes the connection's minimum RTT
 * @start_rtt_ns: the longest T from a handshake that W_init is sent by before the first ACK
 * @host_mbps: B of the host, for W_init; 0 takes the egress device's speed
 * @burst_segs: segments of one TSO burst
 * @burst_shift: and cwnd >> burst_shift, if that is less
 * @burst_ns: but not less than the host sends in this time; 0: chosen by T
 * @pace: pace at R; 0: only where ACKs do not clock
 * @slots: records that an option asks for
 * @sample: requests in a T; 0: with each segment
 * @probes: 0: data carry requests; 1: probes do
 * @where: 1: receivers compute W, for those that agree
 * @carrier: enum hpcc_carrier
 * @ioam_nodes: nodes that a trace has room for, or that may write into an INT stack
 * @int_dscp: marks packets with INT
 * @csig_abw: unit of CSIG's buckets of ABW/C, 1/10000
 * @csig_time: unit of its buckets of times, ns
 * @max_flows: connections with telemetry at most; 0: by the memory of the machine
 * @option_kind: TCP option kind
 * @option_exid: experiment identifier in SYN and SYN-ACK
 */
struct hpcc_sysctls {
	unsigned int eta_permille;
	unsigned int max_stage;
	unsigned int settle;
	unsigned int per_rtt;
	unsigned int hop_records;
	unsigned int n_flows;
	unsigned int w_ai_bytes;
	unsigned int base_rtt_ns;
	unsigned int start_rtt_ns;
	unsigned int host_mbps;
	unsigned int burst_segs;
	unsigned int burst_shift;
	unsigned int burst_ns;
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
 * @sysctl_dir: their registration
 * @counters: counters, indexed by enum hpcc_counter
 * @flows: connections that agreed, by number; written under the xarray's lock, read under
 *	RCU
 * @nr_flows: how many; memory of those that ended is free a grace period later
 * @path_lock: orders who asks for the names of links (identify.c), and the writers of @tables
 * @identify_active: somebody asks; written under @path_lock, read without it by flows that are born
 * @path_until: for how long, jiffies; under @path_lock
 * @path_end: clears @identify_active
 * @tables: by enum hpcc_table_id, NULL: empty; RCU; written under @path_lock
 * @census: flows by the device that they come in by
 * @agreements: notes about handshakes, NULL before the first; RCU (agreement.c)
 * @retired_agreements: what @agreements was, while the namespace goes
 */
struct hpcc_net {
	struct hpcc_sysctls sysctls;
	struct hpcc_sysctl_dir sysctl_dir;
	struct hpcc_counters counters;
	struct xarray flows;
	atomic_t nr_flows;
	struct mutex path_lock;		/* orders who asks, and who writes tables */
	bool identify_active;
	unsigned long path_until;
	struct delayed_work path_end;
	struct hpcc_table __rcu *tables[HPCC_TABLES];
	struct hpcc_census census[HPCC_CENSUS_SLOTS];
	struct hpcc_agreements __rcu *agreements;
	struct hpcc_agreements *retired_agreements;
};

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
 * hpcc_pernet_rcu() - our state in a network namespace, for each packet
 * @net: the namespace
 *
 * net_generic() enters an RCU read side of its own, by two calls where kernels are
 * preemptible.
 *
 * Context: RCU read side.
 */
static inline struct hpcc_net *hpcc_pernet_rcu(const struct net *net)
{
	return rcu_dereference(net->gen)->ptr[hpcc_net_id];
}

/**
 * hpcc_count_rcu() - count something, for each packet
 * @net: network namespace it happened in
 * @what: what
 *
 * Context: RCU read side, as netfilter hooks are.
 */
static inline void hpcc_count_rcu(const struct net *net, enum hpcc_counter what)
{
	hpcc_counters_add(&hpcc_pernet_rcu(net)->counters, what, 1);
}

/**
 * hpcc_count_add() - count several
 * @net: network namespace it happened in
 * @what: what
 * @n: how many
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
 * hpcc_count() - count something
 * @net: network namespace it happened in
 * @what: what
 *
 * Context: any.
 */
static inline void hpcc_count(const struct net *net, enum hpcc_counter what)
{
	hpcc_count_add(net, what, 1);
}

bool hpcc_is_up(void);
int hpcc_sysctl_register(struct net *net);
void hpcc_sysctl_unregister(struct net *net);
int hpcc_proc_register(struct net *net);
void hpcc_proc_unregister(struct net *net);

#endif /* _HPCC_NETNS_NET_H */
