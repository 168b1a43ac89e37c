/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations of tcp_ldcp. LOCAL_OUT may run without the socket lock: it does not use ldcp_ca. */
#ifndef _HPCC_LDCP_CONN_H
#define _HPCC_LDCP_CONN_H

#include <linux/netfilter.h>
#include <linux/tcp.h>
#include <net/netns/generic.h>
#include <net/tcp.h>
#include <hpcc/law/ldcp.h>

#include "../common/device.h"
#include "../common/netns.h"
#include "../common/pace.h"
#include "../common/peek.h"
#include "../common/setup.h"
#include "../common/tlp.h"

/* Counters in /proc/net/ldcp. */
enum ldcp_counter {
#define COUNTER(id, name, meaning)	LDCP_C_##id
#include "ldcp_counters.h"
	__LDCP_C_MAX,
};

/* Parameters under net/ldcp/, read locklessly. */
struct ldcp_sysctls {
	unsigned int alpha_permille;	/* increase, 1/1000 segment per round trip */
	unsigned int beta_permille;	/* decrease, 1/1000 segment per marked segment */
	unsigned int gamma_permille;	/* step of windows below one, 1/1000 segment */
	unsigned int cw_min_permille;	/* minimum window, 1/1000 segment; gamma if that is less */
	unsigned int fast_start;	/* whether a flow starts with IW and sends it as Not-ECT */
	unsigned int iw_segs;		/* IW in segments; 0: B_host * T */
	unsigned int base_rtt_ns;	/* T; 0: the minimum RTT */
	unsigned int start_rtt_ns;	/* maximum T from a handshake that IW is derived from */
	unsigned int host_mbps;		/* B of the host; 0: the speed of the egress device */
	unsigned int burst_segs;	/* maximum number of segments in a TSO burst */
};

struct ldcp_net {
	struct hpcc_netns ns;
	struct ldcp_sysctls sysctls;
};

extern struct hpcc_setup ldcp_setup;
extern unsigned int ldcp_net_id;

/* Whether the state of network namespaces exists. */
static inline bool ldcp_is_up(void)
{
	return hpcc_setup_is_up(&ldcp_setup);
}

static inline struct ldcp_net *ldcp_pernet(const struct net *net)
{
	return net_generic(net, ldcp_net_id);
}

static inline void ldcp_count(const struct sock *sk, enum ldcp_counter what, u32 n)
{
	rcu_read_lock();
	hpcc_counter_add(&ldcp_pernet(sock_net(sk))->ns, what, n);
	rcu_read_unlock();
}

/* TCP computes the send buffer in an int: three times the memory (2 KB or more) of each segment. */
#define LDCP_IW_MAX_SEGS	131072U

/* Stage of a flow. */
enum ldcp_stage {
	LDCP_OFF,	/* not initialised; a zeroed structure */
	LDCP_START,	/* zero-RTT bandwidth acquisition (draft section 2.3) */
	LDCP_STABLE,	/* window law (section 2.2) */
};

/* State of a connection, in icsk_ca_priv. Socket lock. */
struct ldcp_ca {
	u64 cw_q24;			/* congestion window, segments */
	u64 cw_undo_q24;		/* cw before the last loss, for a spurious loss */
	struct ldcp_params params;	/* alpha, beta, gamma, cw_min */
	u32 IW;				/* initial window, bytes */
	u32 start_seq;			/* first byte of the flow */
	u32 prior_delivered;		/* tp->delivered as of the last ACK */
	u32 prior_delivered_ce;		/* tp->delivered_ce as of the last ACK */
	u32 prior_rcv_nxt;		/* tp->rcv_nxt as of the last data (receiver) */
	u32 prior_segs_out;		/* tp->segs_out at that time; later segments ACK the data */
	struct hpcc_burst burst;	/* limits of TSO bursts */
	struct hpcc_stamped stamped;	/* for hpcc_pace_at() */
	struct hpcc_tlp tlp;		/* tail loss probe */
	u32 rtt_us;			/* RTT of the last packet that was delivered; 0: none yet */
	u8 blind_losses;		/* number of losses in a row without a mark between them */
	u8 stage;			/* enum ldcp_stage */
	bool ticking;			/* ldcp_tick() sets the departure time of the next packet */
	bool ce;			/* CE state of the last data (receiver) */
};

extern struct tcp_congestion_ops ldcp_ops;
extern struct tcp_congestion_ops ldcp_classic_ops;
extern struct tcp_congestion_ops ldcp_no_ecn_ops;

void ldcp_cc_init(void);

void ldcp_start_init(struct sock *sk, struct ldcp_ca *ca);
void ldcp_start_allow_reordering(struct sock *sk);
void ldcp_start_ack(struct sock *sk, struct ldcp_ca *ca, u32 marked);
void ldcp_start_lost(struct sock *sk, struct ldcp_ca *ca);
unsigned int ldcp_local_out(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);

void ldcp_echo(struct sock *sk, struct ldcp_ca *ca, bool ce);

#endif /* _HPCC_LDCP_CONN_H */
