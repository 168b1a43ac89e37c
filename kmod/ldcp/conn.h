/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the parts of tcp_ldcp share.
 *
 * The state of a connection is struct ldcp_ca in icsk_ca_priv, under the socket lock, as are the
 * callbacks of TCP. The LOCAL_OUT hook may run without that lock, so it uses only TCP's own fields.
 */
#ifndef _HPCC_LDCP_CONN_H
#define _HPCC_LDCP_CONN_H

#include <linux/netfilter.h>
#include <linux/tcp.h>
#include <net/netns/generic.h>
#include <net/tcp.h>
#include <hpcc/law/ldcp.h>

#include "../common/counters.h"
#include "../common/device.h"
#include "../common/pace.h"
#include "../common/peek.h"
#include "../common/setup.h"
#include "../common/tlp.h"
#include "../common/sysctl.h"

/* ---- Counters of a network namespace (/proc/net/ldcp) ---------------------- */

/* What /proc/net/ldcp counts. */
enum ldcp_counter {
#define COUNTER(id, name, meaning)	LDCP_C_##id
#include "ldcp_counters.h"
	__LDCP_C_MAX,
};

/* ---- Network namespace (main.c) ----------------------------------------- */

/**
 * struct ldcp_sysctls - parameters under net/ldcp/, read locklessly
 * @alpha_permille: increase, 1/1000 segment per round trip
 * @beta_permille: decrease, 1/1000 segment per marked segment
 * @gamma_permille: step of windows below one, 1/1000 segment
 * @cw_min_permille: minimum window, 1/1000 segment; gamma if that is less
 * @fast_start: whether a flow starts with IW and sends it as Not-ECT
 * @iw_segs: IW in segments; 0: B_host * T
 * @base_rtt_ns: T; 0: the minimum RTT
 * @start_rtt_ns: maximum T from a handshake that IW is derived from
 * @host_mbps: B of the host; 0: the speed of the egress device
 * @burst_segs: maximum number of segments in a TSO burst
 */
struct ldcp_sysctls {
	unsigned int alpha_permille;
	unsigned int beta_permille;
	unsigned int gamma_permille;
	unsigned int cw_min_permille;
	unsigned int fast_start;
	unsigned int iw_segs;
	unsigned int base_rtt_ns;
	unsigned int start_rtt_ns;
	unsigned int host_mbps;
	unsigned int burst_segs;
};

/**
 * struct ldcp_net - state of one network namespace
 * @sysctls: parameters
 * @sysctl_dir: their registration
 * @counters: counters, indexed by enum ldcp_counter
 */
struct ldcp_net {
	struct ldcp_sysctls sysctls;
	struct hpcc_sysctl_dir sysctl_dir;
	struct hpcc_counters counters;
};

extern struct hpcc_setup ldcp_setup;
extern unsigned int ldcp_net_id;

/**
 * ldcp_is_up() - whether the state of network namespaces exists
 *
 * Context: any.
 */
static inline bool ldcp_is_up(void)
{
	return hpcc_setup_is_up(&ldcp_setup);
}

/**
 * ldcp_pernet() - our state in a network namespace
 * @net: the namespace
 */
static inline struct ldcp_net *ldcp_pernet(const struct net *net)
{
	return net_generic(net, ldcp_net_id);
}

/**
 * ldcp_count() - add to a counter
 * @sk: the socket concerned
 * @what: the counter
 * @n: number to add
 *
 * Context: any.
 */
static inline void ldcp_count(const struct sock *sk, enum ldcp_counter what,
			      u32 n)
{
	rcu_read_lock();
	hpcc_counters_add(&ldcp_pernet(sock_net(sk))->counters, what, n);
	rcu_read_unlock();
}

/* ---- Connections (cc.c) --------------------------------------------------- */

/* TCP computes the send buffer for a window in an int: three times the memory of each segment,
 * which is 2 KB or more.
 */
#define LDCP_IW_MAX_SEGS	131072U

/**
 * enum ldcp_stage - stage of a flow
 * @LDCP_OFF: not initialised; a zeroed structure
 * @LDCP_START: zero-RTT bandwidth acquisition (draft section 2.3)
 * @LDCP_STABLE: window law (section 2.2)
 */
enum ldcp_stage {
	LDCP_OFF,
	LDCP_START,
	LDCP_STABLE,
};

/**
 * struct ldcp_ca - state of a connection, in icsk_ca_priv
 * @cw_q24: congestion window, segments
 * @cw_undo_q24: cw before the last loss, restored if the loss was spurious
 * @params: alpha, beta, gamma, cw_min
 * @IW: initial window, bytes
 * @start_seq: first byte of the flow
 * @prior_delivered: tp->delivered as of the last ACK
 * @prior_delivered_ce: tp->delivered_ce as of the last ACK
 * @prior_rcv_nxt: tp->rcv_nxt as of the last data (receiver)
 * @prior_segs_out: tp->segs_out when those data arrived; later segments acknowledge these data
 * @burst: limits of TSO bursts
 * @stamped: for hpcc_pace_at()
 * @tlp: tail loss probe
 * @rtt_us: RTT of the last packet that was delivered; 0: none yet
 * @blind_losses: number of losses in a row without a mark between them
 * @stage: enum ldcp_stage
 * @ticking: ldcp_tick() sets the departure time of the next packet
 * @ce: CE state of the last data (receiver)
 */
struct ldcp_ca {
	u64 cw_q24;
	u64 cw_undo_q24;
	struct ldcp_params params;
	u32 IW;
	u32 start_seq;
	u32 prior_delivered;
	u32 prior_delivered_ce;
	u32 prior_rcv_nxt;
	u32 prior_segs_out;
	struct hpcc_burst burst;
	struct hpcc_stamped stamped;
	struct hpcc_tlp tlp;
	u32 rtt_us;
	u8 blind_losses;
	u8 stage;
	bool ticking;
	bool ce;
};

extern struct tcp_congestion_ops ldcp_ops;
extern struct tcp_congestion_ops ldcp_classic_ops;
extern struct tcp_congestion_ops ldcp_no_ecn_ops;

void ldcp_cc_init(void);

/* ---- Fast start (start.c) -------------------------------------------------- */

void ldcp_start_init(struct sock *sk, struct ldcp_ca *ca);
void ldcp_start_allow_reordering(struct sock *sk);
void ldcp_start_end(struct sock *sk, struct ldcp_ca *ca, u64 cw_q24,
		    enum ldcp_counter why);
void ldcp_start_ack(struct sock *sk, struct ldcp_ca *ca, u32 marked);
u64 ldcp_start_acked_q24(const struct sock *sk, const struct ldcp_ca *ca);
unsigned int ldcp_local_out(void *priv, struct sk_buff *skb,
			    const struct nf_hook_state *state);

/* ---- Echo of CE (echo.c) ------------------------------------------------------ */

void ldcp_echo(struct sock *sk, struct ldcp_ca *ca, bool ce);

#endif /* _HPCC_LDCP_CONN_H */
