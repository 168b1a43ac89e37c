/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection that agreed (flow.c), and the locks of all of tcp_hpcc:
 *
 * - The socket lock covers everything in struct hpcc_flow that is not named
 *   below. ack.c runs under it. The hooks do not: local_out.c tells when.
 * - No lock covers what the hooks share with ack.c: single words, each of which is good by
 *   itself. mailbox.c says how records move.
 * - The hooks find flows by RCU in a hash table keyed by their socket. They never
 *   follow icsk_ca_priv: setsockopt(TCP_CONGESTION) may replace its contents at any
 *   moment.
 */
#ifndef _HPCC_FLOW_FLOW_H
#define _HPCC_FLOW_FLOW_H

#include <linux/reciprocal_div.h>
#include <linux/rhashtable-types.h>
#include <linux/spinlock.h>
#include <net/tcp.h>
#include <hpcc/carrier/csig.h>
#include <hpcc/law/algo.h>
#include <hpcc/law/fallback.h>
#include <hpcc/law/phase.h>
#include <hpcc/wire/record.h>

#include "common/pace.h"
#include "common/tlp.h"
#include "netns/net.h"

/* Below this many segments in flight hpcc, not classic, asks for prompt ACKs: a
 * receiver that acknowledges every second segment, or waits 40 ms for it, would
 * leave too little telemetry in a round trip, or no credit.
 */
#define HPCC_PROMPT_CWND	32

struct hpcc_trace_rx;
struct hpcc_path;
struct hpcc_remote;
struct hpcc_rx;

/**
 * enum hpcc_mode - which response a connection runs (classic.c)
 * @HPCC_MODE_TELEMETRY: W rules, records are of use
 * @HPCC_MODE_STALE: W rules; since the last record of use others came
 * @HPCC_MODE_CLASSIC: Reno rules, until a record comes
 * @HPCC_MODE_CLASSIC_VERIFY: Reno rules, until a link is measured
 */
enum hpcc_mode {
	HPCC_MODE_TELEMETRY,
	HPCC_MODE_STALE,
	HPCC_MODE_CLASSIC,
	HPCC_MODE_CLASSIC_VERIFY,
};

/**
 * enum hpcc_muted - whether data go without our option, as the path may drop them (mute.c)
 * @HPCC_MUTED_NOT: segments carry it
 * @HPCC_MUTED: none carries it, for now
 * @HPCC_MUTED_TRIES: one data segment is to carry a request
 * @HPCC_MUTED_TRIED: it left
 * @HPCC_MUTED_FOR_GOOD: none carries it, unless the peer sends one
 */
enum hpcc_muted {
	HPCC_MUTED_NOT,
	HPCC_MUTED,
	HPCC_MUTED_TRIES,
	HPCC_MUTED_TRIED,
	HPCC_MUTED_FOR_GOOD,
};

/**
 * enum hpcc_ignored - why telemetry of a connection was ignored
 * @HPCC_IGNORED_MALFORMED: an option
 * @HPCC_IGNORED_BAD_HOP: a record, of no hop of the path
 * @HPCC_IGNORED_TS_BACK: a record whose ts did not advance
 * @HPCC_IGNORED_TX_EXCESS: a record whose tx grew faster than its ts
 * @HPCC_IGNORED_MAX: how many there are
 */
enum hpcc_ignored {
	HPCC_IGNORED_MALFORMED,
	HPCC_IGNORED_BAD_HOP,
	HPCC_IGNORED_TS_BACK,
	HPCC_IGNORED_TX_EXCESS,
	HPCC_IGNORED_MAX,
};

/**
 * struct hpcc_flow - a connection that agreed
 * @algo: W, Wc, U, L; proc.c (ss) and netlink.c read W, Wc and U without the socket lock, of
 *	whichever ACK was the last. L is memory of its own, by the longest that the
 *	path was (mailbox.c)
 * @fallback: when to leave telemetry, and when to return
 * @params: parameters of the algorithm; proc.c, netlink.c and census.c read T without the socket
 *	lock
 * @mss_recip: reciprocal of @mss
 * @min_rtt_us: minimum RTT that T was taken from, where it was
 * @mss: MSS that @mss_recip is of; no MSS has more than 16 bits
 * @ext_hdr_len: icsk_ext_hdr_len as we left it
 * @rx_window_new: the receiver sent a new W; LOCAL_IN sets it, without the socket lock
 * @rx_window_active: W comes from the receiver (receiver.c); LOCAL_OUT and netlink.c read it
 *	without the socket lock
 * @tlp: tail loss probe
 * @silent_acks: ACKs of new data since a link was measured last, at most HPCC_SILENT_ACKS + 1;
 *	round trips, where classic rules
 * @new_links: ACKs since then that brought the first record of a link; at most @hops
 * @burst: cap of a TSO burst
 * @searching: W looks for its place; LOCAL_OUT reads it without the socket lock
 * @unpaced: ACKs alone decide when packets leave, where there are enough of them
 * @dirty: W, T or cwnd changed without a record since hpcc_apply()
 * @skipped: the ACK at hand brought a record that came too soon after the last one
 * @conserving: packet conservation is going on
 * @probes: probes carry requests, not data (probe.c); LOCAL_OUT and netlink.c read it without the
 *	socket lock
 * @mode: enum hpcc_mode; read without the socket lock
 * @kind: TCP option kind; constant
 * @slots: records FORWARD asks for; constant
 * @hop_records: net.hpcc.hop_records
 * @caps: HPCC_CAP_* of the peer; constant
 * @rx_window_agreed: both ends would have the receiver compute W; constant
 * @carrier: what switches fill in, enum hpcc_carrier; LOCAL_OUT reads it without the socket lock
 * @ioam_paused: IOAM is paused after an RTO, requests use the TCP option; read as @carrier is
 * @nodes: hops that an IOAM trace has room for, or that may write into a stack; constant
 * @signal: what waits to be reflected, the 16 bits of a CSIG tag; 0: nothing; no lock: LOCAL_OUT
 *	takes it out with xchg()
 * @rx: we compute the peer's W; NULL until it asks; RCU, constant from then on
 * @node: in the hash table
 * @sk: the socket, for look-up by address; constant. Only a caller that has a reference to it
 *	may follow it
 *
 * What the hooks and ack.c share, with READ_ONCE() and WRITE_ONCE() and no lock:
 *
 * @hops: hops of the path, as the newest echo says
 * @scale: scale that FORWARD asks for
 * @next_hop: next hop to ask in this round of phases, from 0 on
 * @prompt: the peer asked for a prompt ACK
 * @answer: the peer sent a probe
 * @identify_active: there is a @path
 * @scales: all scales that FORWARD asked for, by bit: T may fall several times while an
 *	echo is on its way
 * @snd_end: end of the data that LOCAL_OUT has let go
 * @mail: newest load record by hop - 1 (mailbox.c)
 * @echo: records by hop - 1 that wait to be echoed (mailbox.c)
 * @echo_head: what the records in @echo have in common
 * @echo_next: hop - 1 to echo first
 * @echo_reserved: @echo is for receiver.c, and waits for no echo
 * @probing: what leaves now is a probe; set under the socket lock
 * @requests: counts requests, and parameters in a request's place
 * @received: options with telemetry that came; LOCAL_IN writes it without a lock
 * @sample_ns: time from one request to the next at least, unless @searching
 * @last_request_ns: tcp_clock_cache at the last request
 * @stamped: for hpcc_pace_at()
 * @muted: enum hpcc_muted; LOCAL_OUT writes HPCC_MUTED_TRIED, ack.c all others under the
 *	socket lock
 * @pause: ACKs without data that go without our option, as one with it did not arrive
 * @next_pause: @pause after the next such ACK; 0: HPCC_PAUSE
 * @prompt_end: end of the last data segment that asked for a prompt ACK
 * @echo_ack: acknowledgment number of the last ACK without data that had our option
 * @echo_at: tcp_jiffies32 when it left
 * @paused: HPCC_EVENT_MUTED is to be sent
 * @paused_at: tcp_jiffies32 when @pause began
 * @response: the last response of a switch (switch_response.c); 0: there was none
 *
 * @csig: the path as CSIG tells of it; LOCAL_IN writes it without a lock, so that two CPUs may
 *	spoil a sample; LOCAL_OUT reads its ask alone
 * @counted: the period in which census.c counted it last
 * @N_sent_us: when N was sent last
 * @N_sent: that N
 * @N_arrived: a report came; taken with xchg() at the end of the round trip
 * @census: index in hpcc_net.census of what counts it
 * @device: the same, of the device that its last request came in by
 * @wants_N: W_ai follows reports
 *
 * What an ACK seldom needs; socket lock, but for @path, @lock and @dead:
 *
 * @mixed: hops of the option and nodes of a trace came in one request: which is last nobody knows
 * @W_ai_one_q16: W_ai of a flow alone, bytes; 0: W_ai does not follow N (census.c)
 * @W_ai_goal_q16: where W_ai goes
 * @N_reported_us: when @N_reported came
 * @N: what @W_ai_goal_q16 is for
 * @N_reported: N of the last report; 0: there is none that holds
 * @last_request_delivered: packets delivered when the last probe left
 * @last_request_segs: data segments that had left then, less 1 while some were on their way
 * @una: snd_una at the last ACK, where @probes
 * @answered_ns: tcp_clock_cache at the last answer to a probe, modulo 2^32
 * @began_us: tcp_mstamp when W began to rule, or telemetry came first
 * @silent_since_us: tcp_mstamp of the first of @silent_acks
 * @silent_requests: @requests then
 * @full_us: tcp_mstamp when W became Wc last, modulo 2^32
 * @audit_seen: hops that records were taken in of since losses were judged, by bit; if
 *	@rx_window_active
 * @rto_received: @received at the last RTO
 * @rto_requests: @requests then
 * @prior_W_q16: W before an RTO
 * @prior_slow_start_limit_q16: slow start's limit before it
 * @dsacked: packets that the peer got twice, as its DSACKs say; at most total_retrans
 * @dsack_excess: packets in @dsacked beyond 1/32 of what was delivered, in units of
 *	2^-HPCC_LOSS_SHIFT
 * @dsack_delivered: packets delivered then
 * @dsacks_base: dsack_dups less those that hpcc_judge_dsacks() counts
 * @retrans_base: total_retrans, the same
 * @classic_seq: a round trip of classic ends when this is acknowledged
 * @classic_cwnd: cwnd at the last return from classic; ~0: there was none
 * @conserve_delivered: packet conservation until a packet is acknowledged that was sent
 *	when so many, or more, had been delivered
 * @trace_rx: what the links of the peer's traces counted; NULL until one comes; RCU, constant from
 *	then on
 * @ioam_seq: snd_una at the last RTO, or when @ioam_paused ended
 * @ioam_confirmed: since then a trace brought telemetry
 * @remote: the peer may compute W; NULL where it may not; RCU, constant
 * @path: who the links are, while somebody wants to know (identify.c); RCU
 * @reserved: bytes of MSS kept free for options
 * @ip_optlen: length of the IPv4 options that are part of @ext_hdr_len
 * @duplicates: the path delivers packets twice that were sent once
 * @dup_score: suspicion that the path makes copies, 0 .. 6
 * @settle: net.hpcc.settle
 * @why: why it fell back last, enum hpcc_flow_why
 * @events: told since @events_since (netlink.c)
 * @events_since: jiffies when a second of events began
 * @missed: events since the last one that was told that were too many
 * @ignored: what was ignored, by enum hpcc_ignored; written in LOCAL_IN without a lock, and under
 *	the socket lock in ack.c
 * @dead: set by release(); after that nobody may dereference @sk
 * @lock: covers @dead, and who writes @path
 * @id: its number in its network namespace; constant
 * @rcu: frees the flow
 *
 * The members are in the order of who needs them. On a path of one hop, an ACK with an
 * echo needs four cache lines: three here, of @algo, of @params and of @node, and the
 * link. At the end of a round trip it needs that of @fallback as well. A data segment in
 * LOCAL_OUT needs those of @node and of @last_request_ns. hpcc_flow_init() has the compiler check
 * the first four.
 */
struct hpcc_flow {
	struct hpcc_algo algo;
	struct hpcc_fallback fallback;

	struct hpcc_params params;
	struct reciprocal_value mss_recip;
	u32 min_rtt_us;
	u16 mss;
	u16 ext_hdr_len;

	struct hpcc_tlp tlp;
	u8 silent_acks : 4;
	u8 new_links : 4;
	bool rx_window_new;
	struct hpcc_burst burst;
	bool searching;
	bool probes;
	bool unpaced : 1;
	bool dirty : 1;
	bool skipped : 1;
	bool conserving : 1;
	u8 mode;
	u8 kind;
	u8 slots;
	u8 hop_records;
	u8 hops;
	u8 scale;
	u8 next_hop;
	bool prompt;
	bool answer;
	bool identify_active;
	bool rx_window_active;
	struct rhash_head node;
	const struct sock *sk;
	u32 scales;
	u32 snd_end;
	u64 mail[HPCC_HOPS_MAX];

	u64 echo[HPCC_HOPS_MAX];
	u32 echo_head;
	u8 echo_next;
	bool probing;
	u16 caps;
	bool echo_reserved;
	bool rx_window_agreed;
	u8 carrier;
	bool ioam_paused;
	u8 nodes;
	u8 muted;
	u32 signal;
	struct hpcc_rx __rcu *rx;
	u32 requests;
	u32 received;
	u32 sample_ns;
	u16 pause;
	u16 next_pause;
	u64 last_request_ns;
	struct hpcc_stamped stamped;
	u32 prompt_end;
	u32 echo_ack;
	u32 echo_at;
	bool paused;
	u32 paused_at;
	u64 response;

	struct hpcc_csig_path csig;
	u32 counted;
	u32 N_sent_us;
	u16 N_sent;
	u32 N_arrived;
	u8 census;
	u8 device;
	bool wants_N;
	bool mixed;

	u64 W_ai_one_q16;
	u64 W_ai_goal_q16;
	u32 N_reported_us;
	u32 N;
	u32 N_reported;
	u32 last_request_delivered;
	u32 last_request_segs;
	u32 una;
	u32 answered_ns;
	u64 began_us;
	u64 silent_since_us;
	u32 silent_requests;
	u32 full_us;
	u16 audit_seen;
	u32 rto_received;
	u32 rto_requests;
	u64 prior_W_q16;
	u64 prior_slow_start_limit_q16;
	struct hpcc_path __rcu *path;
	struct hpcc_remote __rcu *remote;
	struct hpcc_trace_rx __rcu *trace_rx;
	s64 dsack_excess;
	u32 dsack_delivered;
	u32 dsacked;
	u32 dsacks_base;
	u32 retrans_base;
	u32 classic_seq;
	u32 classic_cwnd;
	u32 conserve_delivered;
	u32 ioam_seq;
	u16 reserved;
	u16 ip_optlen;
	bool ioam_confirmed;
	bool duplicates;
	u8 dup_score;
	u8 settle;
	u8 why;
	u8 events;
	u32 events_since;
	u32 missed;
	u32 ignored[HPCC_IGNORED_MAX];

	bool dead;
	spinlock_t lock;	/* covers @dead, and who writes @path */
	u32 id;
	struct rcu_head rcu;
};

/**
 * hpcc_runs_telemetry() - whether W rules
 * @flow: a flow
 *
 * Context: any; without the socket lock the answer may be old.
 */
static inline bool hpcc_runs_telemetry(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->mode) <= HPCC_MODE_STALE;
}

/* Count something, where two CPUs that do so at once may count one too few. */
static inline void hpcc_flow_count(u32 *count, u32 n)
{
	WRITE_ONCE(*count, READ_ONCE(*count) + n);
}

/**
 * hpcc_ignored_count() - count telemetry of a flow that is ignored
 * @flow: the flow
 * @why: why it is
 * @n: how many
 *
 * Context: any.
 */
static inline void hpcc_ignored_count(struct hpcc_flow *flow, enum hpcc_ignored why, u32 n)
{
	hpcc_flow_count(&flow->ignored[why], n);
}

/**
 * hpcc_snd_end_advance() - note what has left, for the ACK that is here before snd_nxt has moved
 * @flow: a flow
 * @end: end of the data that LOCAL_OUT lets go
 *
 * Return: whether it is new.
 */
static inline bool hpcc_snd_end_advance(struct hpcc_flow *flow, u32 end)
{
	if (!after(end, READ_ONCE(flow->snd_end)))
		return false;
	WRITE_ONCE(flow->snd_end, end);
	return true;
}

/* The unit of struct hpcc_link's bottleneck_since is 2^10 us. */
#define HPCC_BOTTLENECK_SHIFT	10

int hpcc_flow_init(void);
void hpcc_flow_exit(void);
struct hpcc_flow *hpcc_flow_alloc(struct sock *sk, u16 caps, u8 kind,
				  enum hpcc_counter *why);
bool hpcc_flow_publish(struct hpcc_flow *flow);
void *hpcc_flow_zalloc(const struct sock *sk, size_t size);
void hpcc_flow_destroy(struct hpcc_flow *flow);
/* The room control/ defines this (lifetime.c): it knows what the pointers of a flow are. */
void hpcc_flow_free_parts(struct hpcc_flow *flow);
struct hpcc_flow *hpcc_flow_find(const struct sock *sk);
struct hpcc_flow *hpcc_flow_from(struct hpcc_net *hn, unsigned long *id);

#endif /* _HPCC_FLOW_FLOW_H */
