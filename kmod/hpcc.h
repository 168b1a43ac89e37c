/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of tcp_hpcc share.
 *
 * Locking, once for all files:
 *
 * - The socket lock covers everything in struct hpcc_flow that is not named
 *   below. cc.c runs under it. The hooks do not: option_tx.c tells when.
 * - hpcc_flow.lock (taken with bottom halves off) covers what the hooks share with
 *   cc.c: the mailbox, the records that wait to be echoed, and what a segment is to
 *   ask for.
 * - The hooks find flows by RCU in a hash table keyed by their socket. They never
 *   follow icsk_ca_priv: setsockopt(TCP_CONGESTION) may replace its contents at any
 *   moment.
 */
#ifndef _HPCC_KMOD_H
#define _HPCC_KMOD_H

#include <linux/netfilter.h>
#include <linux/reciprocal_div.h>
#include <linux/rhashtable-types.h>
#include <linux/spinlock.h>
#include <linux/tcp.h>
#include <linux/xarray.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#include <hpcc/algo.h>
#include <hpcc/fallback.h>
#include <hpcc/phase.h>
#include <hpcc/record.h>

#include "common.h"

/* ---- Counters of a network namespace (/proc/net/hpcc) -------------------- */

/**
 * enum hpcc_counter - what /proc/net/hpcc counts; names in proc.c
 * @HPCC_C_SYN_SENT: SYN or SYN-ACK left with our option
 * @HPCC_C_SYN_NO_ROOM: SYN or SYN-ACK left without, for want of room
 * @HPCC_C_SYN_INVALID: SYN option of another version, ExID, length
 * @HPCC_C_AGREED: connections that agreed
 * @HPCC_C_NOT_AGREED: connections that run classic from the start
 * @HPCC_C_NO_MEMORY: flow state could not be allocated
 * @HPCC_C_FORWARD_SENT: segments that left with FORWARD
 * @HPCC_C_IDENTIFY_SENT: segments that left with IDENTIFY
 * @HPCC_C_ECHO_SENT: segments that left with an echo
 * @HPCC_C_NO_ROOM: segments that left without, for want of room
 * @HPCC_C_FORWARD_RECEIVED: FORWARD or IDENTIFY taken in
 * @HPCC_C_ECHO_RECEIVED: echoes taken in
 * @HPCC_C_UNAGREED_IGNORED: options on connections that did not agree
 * @HPCC_C_MALFORMED_IGNORED: wrong length, type, scale, or twice
 * @HPCC_C_CHECKSUM_IGNORED: options in segments with a bad checksum
 * @HPCC_C_WINDOW_IGNORED: options in segments outside the window
 * @HPCC_C_BAD_HOP_IGNORED: records with hop 0 or a hop repeated
 * @HPCC_C_TS_BACK_IGNORED: records whose ts did not advance
 * @HPCC_C_TX_EXCESS_IGNORED: records whose txBytes B cannot have sent
 * @HPCC_C_PATH_CHANGES: another link at a known hop
 * @HPCC_C_FALLBACKS: telemetry stopped: to the classic response
 * @HPCC_C_UNSEEN_LOSS: a link that does not stamp drops: to the classic response
 * @HPCC_C_RETURNS: back from the classic response to telemetry
 * @HPCC_C_ECN_RESPONSES: windows reduced for CE
 * @HPCC_C_TIMEOUTS: windows restarted after an RTO
 * @__HPCC_C_MAX: number of counters
 */
enum hpcc_counter {
	HPCC_C_SYN_SENT,
	HPCC_C_SYN_NO_ROOM,
	HPCC_C_SYN_INVALID,
	HPCC_C_AGREED,
	HPCC_C_NOT_AGREED,
	HPCC_C_NO_MEMORY,
	HPCC_C_FORWARD_SENT,
	HPCC_C_IDENTIFY_SENT,
	HPCC_C_ECHO_SENT,
	HPCC_C_NO_ROOM,
	HPCC_C_FORWARD_RECEIVED,
	HPCC_C_ECHO_RECEIVED,
	HPCC_C_UNAGREED_IGNORED,
	HPCC_C_MALFORMED_IGNORED,
	HPCC_C_CHECKSUM_IGNORED,
	HPCC_C_WINDOW_IGNORED,
	HPCC_C_BAD_HOP_IGNORED,
	HPCC_C_TS_BACK_IGNORED,
	HPCC_C_TX_EXCESS_IGNORED,
	HPCC_C_PATH_CHANGES,
	HPCC_C_FALLBACKS,
	HPCC_C_UNSEEN_LOSS,
	HPCC_C_RETURNS,
	HPCC_C_ECN_RESPONSES,
	HPCC_C_TIMEOUTS,
	__HPCC_C_MAX,
};

struct hpcc_agreements;

/* ---- Network namespace ----------------------------------------------------- */

/**
 * struct hpcc_sysctls - parameters under net/hpcc/, read locklessly
 * @eta_permille: target utilization, 1/1000
 * @max_stage: additive increases before a multiplicative one is allowed
 * @n_flows: N, for W_ai = W_init * (1 - eta) / N
 * @w_ai_bytes: W_ai; 0 takes it from N
 * @base_rtt_ns: T; 0 takes the connection's minimum RTT
 * @host_mbps: B of the host, for W_init; 0 takes the egress device's speed
 * @burst_segs: segments of one TSO burst
 * @burst_shift: and cwnd >> burst_shift, if that is less
 * @slots: records that an option asks for
 * @option_kind: TCP option kind
 * @option_exid: experiment identifier in SYN and SYN-ACK
 */
struct hpcc_sysctls {
	unsigned int eta_permille;
	unsigned int max_stage;
	unsigned int n_flows;
	unsigned int w_ai_bytes;
	unsigned int base_rtt_ns;
	unsigned int host_mbps;
	unsigned int burst_segs;
	unsigned int burst_shift;
	unsigned int slots;
	unsigned int option_kind;
	unsigned int option_exid;
};

/**
 * struct hpcc_net - state of one network namespace
 * @sysctls: parameters
 * @knobs: their registration
 * @counters: counters, indexed by enum hpcc_counter
 * @flows: connections that agreed, by number; written under the xarray's lock, read under
 *	RCU
 * @agreements: notes about handshakes, NULL before the first; RCU (agree.c)
 * @retired_agreements: what @agreements was, while the namespace goes
 */
struct hpcc_net {
	struct hpcc_sysctls sysctls;
	struct hpcc_knobs knobs;
	struct hpcc_counters counters;
	struct xarray flows;
	struct hpcc_agreements __rcu *agreements;
	struct hpcc_agreements *retired_agreements;
};

extern unsigned int hpcc_net_id;

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

int hpcc_sysctl_register(struct net *net);
void hpcc_sysctl_unregister(struct net *net);
int hpcc_proc_register(struct net *net);
void hpcc_proc_unregister(struct net *net);

/* ---- Agreement of both ends (agree.c) ---------------------------------------- */

/**
 * struct hpcc_tuple - a connection as this host sees it
 * @laddr: local address, IPv4 as its mapped IPv6 form
 * @raddr: remote address
 * @lport: local port
 * @rport: remote port
 */
struct hpcc_tuple {
	struct in6_addr laddr;
	struct in6_addr raddr;
	__be16 lport;
	__be16 rport;
};

/**
 * hpcc_agree_ready() - whether a network namespace has a table for notes
 * @net: the namespace
 *
 * Return: true if it has.
 */
static inline bool hpcc_agree_ready(const struct net *net)
{
	return rcu_access_pointer(hpcc_pernet(net)->agreements);
}

void hpcc_agree_init(void);
void hpcc_agree_offer(const struct net *net, const struct hpcc_tuple *tuple,
		      u32 irs);
bool hpcc_agree_offered(const struct net *net, const struct hpcc_tuple *tuple,
			u32 irs);
void hpcc_agree_done(const struct net *net, const struct hpcc_tuple *tuple,
		     u32 irs, u32 past, bool alloc);
bool hpcc_agree_take(const struct net *net, const struct hpcc_tuple *tuple,
		     u32 irs, u32 *past);
void hpcc_tuple_of_sock(const struct sock *sk, struct hpcc_tuple *tuple);

/**
 * hpcc_irs() - the peer's initial sequence number
 * @tp: connected socket, under its lock
 *
 * TCP does not keep it, but counts all that it has received since, a FIN included.
 */
static inline u32 hpcc_irs(const struct tcp_sock *tp)
{
	return tp->rcv_nxt - 1 - (u32)tp->bytes_received;
}

/* ---- Listeners (listener.c) --------------------------------------------------- */

u32 hpcc_route_cc(struct net *net, u8 family, const struct hpcc_tuple *tuple,
		  int oif, u32 mark, const struct sock *listener);
bool hpcc_child_runs_hpcc(const struct sock *listener, u32 route_key);
bool hpcc_syn_welcome(struct sk_buff *skb,
		      const struct nf_hook_state *state,
		      const struct tcphdr *th, const struct hpcc_tuple *tuple);

/* ---- Flows (flow.c) ------------------------------------------------------------ */

/**
 * struct hpcc_mail - the newest load record of one hop, as echoed
 * @ts: units of 2^scale ns, modulo 2^20
 * @tx: as @ts
 * @qlen: units of 2^scale ns
 * @tag: link
 * @scale: exponent of the unit
 */
struct hpcc_mail {
	u32 ts;
	u32 tx;
	u32 qlen;
	u8 tag;
	u8 scale;
};

/**
 * struct hpcc_pending - records received, to be echoed
 * @opt: head of the option they came in; nr is how many are left
 * @last: hop of the last one that was echoed
 * @record: their bytes
 */
struct hpcc_pending {
	struct hpcc_opt opt;
	u8 last;
	u8 record[HPCC_OPT_RECORDS_MAX][HPCC_RECORD_LEN];
};

/* Below this many segments in flight hpcc, not classic, asks for prompt ACKs: a
 * receiver that acknowledges every second segment, or waits 40 ms for it, would
 * leave too little telemetry in a round trip, or no credit.
 */
#define HPCC_PROMPT_CWND	32

/**
 * struct hpcc_base - what the algorithm does not know of its L[i]
 * @seen_us: tcp_mstamp when the record came
 * @scale: exponent of the unit that its counters had
 */
struct hpcc_base {
	u64 seen_us : 56;
	u64 scale : 8;
};

/**
 * struct hpcc_flow - a connection that agreed
 * @node: in the hash table
 * @rcu: frees the flow
 * @sk: the socket, for look-up by address only; constant
 * @id: its number in its network namespace; constant
 * @kind: TCP option kind; constant
 * @slots: records FORWARD asks for; constant
 * @reserved: bytes of MSS kept free for options
 * @ext_hdr_len: icsk_ext_hdr_len as we left it
 * @ip_optlen: length of the IPv4 options that are part of it
 * @params: parameters of the algorithm
 * @algo: W, Wc, U, L; proc.c shows W, Wc and U without the socket lock, of
 *	whichever ACK was the last
 * @fallback: when to leave telemetry, and when to return
 * @base: age and unit of @algo's L, by hop - 1
 * @base_rtt_us: how long before that their segments were sent
 * @sample: what the ACK at hand tells; not on the stack, which some kernels clear
 * @T_ns: T in force; read by proc.c without the socket lock
 * @min_rtt_us: minimum RTT that @T_ns was taken from, where it was
 * @mss_recip: reciprocal of @mss
 * @mss: MSS that @mss_recip is of
 * @burst: cap of a TSO burst
 * @probe: tail loss probe
 * @late: packets that the peer got twice, as its DSACKs say; at most total_retrans
 * @silent_acks: ACKs of new data since a link was measured last
 * @silent_since_us: tcp_mstamp of the first of them
 * @doubt: there was telemetry in that time, all of it ignored or the same again
 * @skipped: the ACK at hand brought a record that came too soon after the last one
 * @classic_seq: a round trip of classic ends when this is acknowledged
 * @classic_cwnd: cwnd at the last return from classic; ~0: there was none
 * @undo_W_q16: W before an RTO
 * @undo_most_q16: slow start's limit before it
 * @conserve_delivered: packet conservation until a packet is acknowledged that was sent
 *	when so many, or more, had been delivered
 * @conserving: ... is going on
 * @duplicates: the path delivers packets twice that were sent once
 * @lock: covers the rest
 * @turn: counts segments, for IDENTIFY among them
 * @identify_left: IDENTIFY segments still to be sent, whatever is known
 * @identify_again: and after these, as long as a link has not answered
 * @snd_end: end of the data that LOCAL_OUT has let go; read without @lock
 * @dead: set by release(); after that nobody may dereference @sk
 * @identity: links by hop - 1, as IDENTIFY told
 * @mail: newest record by hop - 1
 * @mail_fresh: which of @mail wait for cong_control, bit hop - 1; looked at
 *	without @lock first, as are @hops, @scales, @pending_mask
 *	and the nr of @pending_identity
 * @hops: hops of the path, as the newest echo says
 * @scale: scale that FORWARD asks for
 * @scales: all that it asked for, by bit: T may fall several times while an
 *	echo is on its way
 * @pending: load records to be echoed, by phase
 * @pending_mask: which of @pending hold something
 * @pending_next: phase to look at first
 * @asked: hops that this round of phases has asked already
 * @pending_identity: identity records to be echoed; nr 0: none
 * @prompt: the peer asked for a prompt ACK; set and cleared without @lock,
 *	by READ_ONCE and WRITE_ONCE
 */
struct hpcc_flow {
	struct rhash_head node;
	struct rcu_head rcu;
	const struct sock *sk;
	u32 id;
	u8 kind;
	u8 slots;

	u16 reserved;
	u16 ext_hdr_len;
	u16 ip_optlen;
	struct hpcc_params params;
	struct hpcc_algo algo;
	struct hpcc_fallback fallback;
	struct hpcc_base base[HPCC_HOPS_MAX];
	u32 base_rtt_us[HPCC_HOPS_MAX];
	struct hpcc_sample sample[HPCC_HOPS_MAX];
	u32 T_ns;
	u32 min_rtt_us;
	struct reciprocal_value mss_recip;
	u32 mss;
	struct hpcc_burst burst;
	struct hpcc_probe probe;
	u32 late;
	u32 silent_acks;
	u64 silent_since_us;
	bool doubt;
	bool skipped;
	u32 classic_seq;
	u32 classic_cwnd;
	u64 undo_W_q16;
	u64 undo_most_q16;
	u32 conserve_delivered;
	bool conserving;
	bool duplicates;

	spinlock_t lock;	/* covers the rest */
	u32 turn;
	u8 identify_left;
	u8 identify_again;
	u32 snd_end;
	bool dead;
	struct hpcc_identity identity[HPCC_HOPS_MAX];
	struct hpcc_mail mail[HPCC_HOPS_MAX];
	u16 mail_fresh;
	u8 hops;
	u8 scale;
	u32 scales;
	struct hpcc_pending pending[HPCC_PHASES];
	u8 pending_mask;
	u8 pending_next;
	u8 asked;
	struct hpcc_pending pending_identity;
	bool prompt;
};

int hpcc_flow_init(void);
void hpcc_flow_exit(void);
struct hpcc_flow *hpcc_flow_create(struct sock *sk);
void hpcc_flow_destroy(struct hpcc_flow *flow);
struct hpcc_flow *hpcc_flow_find(const struct sock *sk);
struct hpcc_flow *hpcc_flow_from(const struct net *net, unsigned long *id);

/* ---- W and R (window.c) ----------------------------------------------------- */

u16 hpcc_room(const struct hpcc_flow *flow);
void hpcc_reserve(struct sock *sk, struct hpcc_flow *flow, u16 bytes);
void hpcc_reserve_again(struct sock *sk, struct hpcc_flow *flow);
u32 hpcc_cwnd(struct sock *sk, struct hpcc_flow *flow);
void hpcc_set_rate(struct sock *sk, const struct hpcc_flow *flow);
void hpcc_apply(struct sock *sk, struct hpcc_flow *flow,
		const struct rate_sample *rs);

/* ---- Congestion control (cc.c) --------------------------------------------------- */

/**
 * struct hpcc_ca - what lives in icsk_ca_priv; socket lock
 * @flow: flow state; NULL where the connection did not agree
 */
struct hpcc_ca {
	struct hpcc_flow *flow;
};

extern struct tcp_congestion_ops hpcc_ops;
extern struct tcp_congestion_ops hpcc_classic_ops;
extern struct tcp_congestion_ops hpcc_no_ecn_ops;
extern struct tcp_congestion_ops hpcc_classic_no_ecn_ops;

void hpcc_cc_init(void);

/**
 * hpcc_is_telemetry() - whether a socket runs hpcc, and not classic
 * @sk: full TCP socket
 */
static inline bool hpcc_is_telemetry(const struct sock *sk)
{
	const struct tcp_congestion_ops *ops =
		hpcc_peek(inet_csk(sk)->icsk_ca_ops);

	return ops == &hpcc_ops || ops == &hpcc_no_ecn_ops;
}

/**
 * hpcc_is_ours() - whether a socket runs hpcc, in any of its modes
 * @sk: full TCP socket
 */
static inline bool hpcc_is_ours(const struct sock *sk)
{
	const struct tcp_congestion_ops *ops =
		READ_ONCE(inet_csk(sk)->icsk_ca_ops);

	return ops == &hpcc_ops || ops == &hpcc_classic_ops ||
	       ops == &hpcc_no_ecn_ops || ops == &hpcc_classic_no_ecn_ops;
}

/* ---- Mailbox (mailbox.c) -------------------------------------------------------- */

u32 hpcc_echo_write(struct hpcc_flow *flow, u8 *p, u32 room);
u32 hpcc_echo_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		 const u8 *records);
u32 hpcc_identity_in(struct hpcc_flow *flow, const struct hpcc_opt *opt,
		     const u8 *records);
u32 hpcc_take_mail(struct sock *sk, struct hpcc_flow *flow, u32 rtt_us);
void hpcc_note_seen(struct hpcc_flow *flow, u64 now_us, u32 rtt_us, u32 n);

/* ---- Netfilter hooks (option_tx.c, option_rx.c) ------------------------------------- */

void hpcc_set_ip_length(struct sk_buff *skb, u8 family);
unsigned int hpcc_local_out(void *priv, struct sk_buff *skb,
			    const struct nf_hook_state *state);
unsigned int hpcc_local_in(void *priv, struct sk_buff *skb,
			   const struct nf_hook_state *state);

#endif /* _HPCC_KMOD_H */
