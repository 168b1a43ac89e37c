/* SPDX-License-Identifier: GPL-2.0 */
/*
 * State of a connection that agreed (flow.c), and the locks of tcp_hpcc:
 *
 *	- The socket lock covers all members of struct hpcc_flow that are not listed below. The
 *	  callbacks of TCP run under it. The hooks run under RCU; local_out.c describes which
 *	  segments also have the socket lock.
 *	- No lock covers the members that the hooks and the callbacks share. They are single words,
 *	  and each word is valid alone. mailbox.c describes the transfer of records.
 *	- The hooks find flows under RCU in a hash table keyed by the socket. They never use
 *	  icsk_ca_priv: setsockopt(TCP_CONGESTION) may replace its content at any moment.
 */
#ifndef _HPCC_FLOW_FLOW_H
#define _HPCC_FLOW_FLOW_H

#include <linux/reciprocal_div.h>
#include <linux/rhashtable-types.h>
#include <linux/spinlock.h>
#include <net/tcp.h>
#include <hpcc/law/algo.h>
#include <hpcc/law/fallback.h>
#include <hpcc/law/phase.h>
#include <hpcc/wire/record.h>

#include "common/pace.h"
#include "common/tlp.h"
#include "netns/net.h"

/* Below this many segments in flight hpcc requests prompt ACKs; classic does not. A receiver that
 * acknowledges every second segment, or delays an ACK for 40 ms, would return too little telemetry
 * in a round trip, or would stop the sender.
 */
#define HPCC_PROMPT_CWND	32

struct hpcc_trace_rx;
struct hpcc_path;
struct hpcc_remote;
struct hpcc_rx;

/**
 * struct hpcc_carrier_state - state of carriers other than the TCP option (carrier/)
 * @signal: the peer's signal to reflect, enum hpcc_carrier << 16 | 16 bits of the signal; 0: no
 *	signal; no lock: LOCAL_OUT takes the signal with xchg()
 * @nodes: maximum number of hops in a trace or in a stack; constant
 * @paused: the carrier is paused after an RTO, and requests use the TCP option; written under the
 *	socket lock, read by LOCAL_OUT without this lock
 * @mixed: one request had hops in the option and nodes in a trace, so the last hop is unknown; no
 *	lock: LOCAL_IN writes it, LOCAL_OUT and the socket's ACKs read it with READ_ONCE()
 */
struct hpcc_carrier_state {
	u32 signal;
	u8 nodes;
	bool paused;
	bool mixed;
};

/**
 * struct hpcc_carrier_private - state that only carriers access (carrier/)
 * @own: private data of the flow's carrier; its file defines the type and states the lock
 * @trace_rx: counters of the links in the peer's traces; NULL until a trace arrives; RCU, constant
 *	afterwards
 */
struct hpcc_carrier_private {
	u64 own[3];
	struct hpcc_trace_rx __rcu *trace_rx;
};

/**
 * enum hpcc_mode - congestion response of a connection (classic.c)
 * @HPCC_MODE_TELEMETRY: W controls the window, records are usable
 * @HPCC_MODE_STALE: W controls the window; all records after the last usable one are unusable
 * @HPCC_MODE_CLASSIC: Reno controls the window until a record arrives
 * @HPCC_MODE_CLASSIC_VERIFY: Reno controls the window until a link is measured
 */
enum hpcc_mode {
	HPCC_MODE_TELEMETRY,
	HPCC_MODE_STALE,
	HPCC_MODE_CLASSIC,
	HPCC_MODE_CLASSIC_VERIFY,
};

/**
 * enum hpcc_muted - whether segments carry our option, which the path may drop (mute.c)
 * @HPCC_MUTED_NOT: segments carry the option
 * @HPCC_MUTED: no segment carries the option now
 * @HPCC_MUTED_TRIES: the next suitable data segment carries a request, as a trial
 * @HPCC_MUTED_TRIED: the trial segment was sent
 */
enum hpcc_muted {
	HPCC_MUTED_NOT,
	HPCC_MUTED,
	HPCC_MUTED_TRIES,
	HPCC_MUTED_TRIED,
};

/**
 * enum hpcc_ignored - reason why telemetry of a connection was ignored
 * @HPCC_IGNORED_MALFORMED: an option was malformed
 * @HPCC_IGNORED_BAD_HOP: a record belonged to no hop of the path
 * @HPCC_IGNORED_TS_BACK: ts of a record did not advance
 * @HPCC_IGNORED_TX_EXCESS: tx of a record grew faster than ts
 * @HPCC_IGNORED_MAX: number of reasons
 */
enum hpcc_ignored {
	HPCC_IGNORED_MALFORMED,
	HPCC_IGNORED_BAD_HOP,
	HPCC_IGNORED_TS_BACK,
	HPCC_IGNORED_TX_EXCESS,
	HPCC_IGNORED_MAX,
};

/**
 * struct hpcc_flow_echo - records to be echoed (mailbox.c owns it)
 * @head: values that all records in @records share
 * @next: index of the first record to echo
 * @reserved: receiver.c processes @records; no echo takes records from it
 * @records: by hop - 1
 *
 * No lock: the hooks and receiver.c use READ_ONCE(), WRITE_ONCE(), xchg() and cmpxchg().
 */
struct hpcc_flow_echo {
	u32 head;
	u8 next;
	bool reserved;
	u64 records[HPCC_HOPS_MAX];
};

/**
 * struct hpcc_flow_mute - segments without our option (mute.c owns it)
 * @state: enum hpcc_muted; LOCAL_OUT writes HPCC_MUTED_TRIED, mute.c all others under the socket
 *	lock
 * @paused: HPCC_EVENT_MUTED must be sent
 * @pause: number of ACKs without data still to send without our option, because the peer did not
 *	receive one with it
 * @next_pause: @pause after the next such ACK; 0: HPCC_PAUSE
 *
 * No lock, but for @state.
 */
struct hpcc_flow_mute {
	u8 state;
	bool paused;
	u16 pause;
	u16 next_pause;
};

/**
 * struct hpcc_flow_mute_past - values at the last RTO, trial and pause (mute.c owns it)
 * @paused_at: tcp_jiffies32 when hpcc_flow_mute.pause began
 * @since: tcp_jiffies32 when the flow was muted, the last trial failed, or the next one was due
 * @trial_end: end of the last trial segment
 * @trial_retrans: number of segments that TCP had retransmitted when the trial left
 * @rto_received: the flow's received at the last RTO, or at the end of the muting; socket lock
 * @rto_requests: the flow's requests at the same time; socket lock
 * @trials: number of trials since telemetry last arrived
 *
 * No lock, except for @rto_received and @rto_requests.
 */
struct hpcc_flow_mute_past {
	u32 paused_at;
	u32 since;
	u32 trial_end;
	u32 trial_retrans;
	u32 rto_received;
	u32 rto_requests;
	u8 trials;
};

/**
 * struct hpcc_flow_sent - the last segments that LOCAL_OUT passed (local_out.c owns it)
 * @prompt_end: end of the last data segment that requested a prompt ACK
 * @echo_ack: acknowledgment number of the last ACK without data that had our option
 * @echo_at: tcp_jiffies32 when that ACK was sent
 *
 * No lock: LOCAL_OUT writes, window.c reads @prompt_end.
 */
struct hpcc_flow_sent {
	u32 prompt_end;
	u32 echo_ack;
	u32 echo_at;
};

/**
 * struct hpcc_flow_census - N, measured by receivers (census.c owns it)
 * @period: the last period that counted the flow
 * @N_sent_us: time when N was last sent
 * @N_sent: the last N that was sent
 * @N_arrived: N of a report that arrived; taken with xchg() at the end of the round trip
 * @index: index in hpcc_net.census of the census that counts the flow
 * @wants_N: W_ai depends on reports
 * @N_reported_us: arrival time of @N_reported
 * @N: N from which @W_ai_goal_q16 was computed
 * @N_reported: N of the last report; 0: there is no valid report
 * @W_ai_one_q16: W_ai of a single flow, bytes; 0: W_ai does not depend on N
 * @W_ai_goal_q16: target of W_ai
 *
 * LOCAL_OUT writes @period, @index, @N_sent and @N_sent_us, and LOCAL_IN writes @N_arrived, without
 * a lock. Writers of the other members hold the socket lock; LOCAL_IN reads @wants_N without this
 * lock.
 */
struct hpcc_flow_census {
	u32 period;
	u32 N_sent_us;
	u32 N_arrived;
	u16 N_sent;
	u8 index;
	bool wants_N;
	u32 N_reported_us;
	u32 N;
	u32 N_reported;
	u64 W_ai_one_q16;
	u64 W_ai_goal_q16;
};

/**
 * struct hpcc_flow_probe - when to send and to answer a probe (probe.c owns it)
 * @delivered: packets delivered when the last probe was sent
 * @segs: data segments sent before the last probe, minus 1 if data were in flight
 * @answered_ns: tcp_clock_cache at the last answer to a probe, modulo 2^32
 *
 * Socket lock.
 */
struct hpcc_flow_probe {
	u32 delivered;
	u32 segs;
	u32 answered_ns;
};

/**
 * struct hpcc_flow_silence - ACKs without telemetry (silence.c owns it)
 * @since_us: tcp_mstamp of the first of the flow's silent_acks
 * @requests: number of the flow's requests at @since_us
 *
 * Socket lock.
 */
struct hpcc_flow_silence {
	u64 since_us;
	u32 requests;
};

/**
 * struct hpcc_flow_prior - values before an RTO (law.c owns it)
 * @W_q16: W
 * @slow_start_limit_q16: limit of slow start
 *
 * Socket lock.
 */
struct hpcc_flow_prior {
	u64 W_q16;
	u64 slow_start_limit_q16;
};

/**
 * struct hpcc_flow_loss - duplicates and late packets (loss.c owns it)
 * @dsack_excess: packets in @dsacked beyond 1/32 of the delivered packets, in units of
 *	2^-HPCC_LOSS_SHIFT
 * @dsack_delivered: packets delivered when @dsack_excess was updated
 * @dsacked: packets that the peer received twice, from its DSACKs; at most total_retrans
 * @classic_cwnd: cwnd at the last return from classic; ~0: there was none
 * @duplicates: the path duplicates packets
 *
 * Socket lock.
 */
struct hpcc_flow_loss {
	s64 dsack_excess;
	u32 dsack_delivered;
	u32 dsacked;
	u32 classic_cwnd;
	bool duplicates;
};

/**
 * struct hpcc_flow_reserve - space for options (reserve.c owns it)
 * @bytes: bytes of MSS reserved for options
 * @ip_optlen: length of the IPv4 options that are part of the flow's ext_hdr_len
 *
 * Socket lock.
 */
struct hpcc_flow_reserve {
	u16 bytes;
	u16 ip_optlen;
};

/**
 * struct hpcc_flow_event - rate limit of events (netlink.c owns it)
 * @count: number of events sent since @since
 * @since: jiffies when a second of events began
 * @missed: number of events suppressed by the rate limit since the last event sent
 *
 * Socket lock.
 */
struct hpcc_flow_event {
	u32 since;
	u32 missed;
	u8 count;
};

/**
 * struct hpcc_flow - a connection with an agreement: SYN and SYN-ACK carried our option
 * @algo: W, Wc, U, L; info.c (ss) and netlink.c read W, Wc and U of the latest ACK without the
 *	socket lock. L is separate memory, sized for the longest path so far (mailbox.c)
 * @fallback: decides when to leave telemetry, and when to return
 * @params: parameters of the algorithm; info.c, netlink.c and census.c read T without the socket
 *	lock
 * @mss_recip: reciprocal of @mss
 * @min_rtt_us: minimum RTT from which T was computed, if T is measured
 * @mss: MSS of @mss_recip; an MSS has at most 16 bits
 * @ext_hdr_len: icsk_ext_hdr_len after our last change
 * @rx_window_new: a new W arrived from the receiver; LOCAL_IN sets it, without the socket lock
 * @rx_window_active: W comes from the receiver (remote.c); LOCAL_OUT and netlink.c read it
 *	without the socket lock
 * @tlp: tail loss probe
 * @silent_acks: number of ACKs of new data since a link was last measured, at most
 *	HPCC_SILENT_ACKS + 1; in classic, number of round trips
 * @new_links: number of ACKs with the first record of a link, counted since a link was last
 *	measured; at most @hops
 * @burst: limits of a TSO burst
 * @searching: W is converging; LOCAL_OUT reads it without the socket lock
 * @unpaced: ACKs alone clock the packets, if the window is large enough
 * @dirty: W, T or cwnd changed without a record since the last hpcc_apply()
 * @skipped: the current ACK brought a record too soon after the previous record of the hop
 * @conserving: packet conservation is active
 * @probes: probes carry requests, data do not (probe.c); LOCAL_OUT and netlink.c read it without
 *	the socket lock
 * @mode: enum hpcc_mode; read without the socket lock
 * @kind: TCP option kind; constant
 * @slots: number of records that a FORWARD requests; constant
 * @caps: HPCC_CAP_* of the peer; constant
 * @rx_window_agreed: both ends agreed on receiver mode, and the flow holds its module; constant
 * @carrier: enum hpcc_carrier, into which switches write records; LOCAL_OUT reads it without the
 *	socket lock
 * @carrier_state: state of @carrier, and of the peer's carrier
 * @carrier_private: state of both carriers that only carrier/ uses
 * @rx: state for the computation of the peer's W; NULL until the peer requests W; RCU, constant
 *	afterwards
 * @node: entry in the hash table
 * @sk: the socket, for lookup by address; constant. Only a caller with a reference to the socket
 *	may dereference it
 *
 * Members that the hooks and the callbacks share, with READ_ONCE() and WRITE_ONCE() and no lock:
 *
 * @hops: number of hops of the path, from the newest echo
 * @scale: scale that FORWARD requests
 * @next_hop: next hop to request in this round of phases, from 0 on
 * @prompt: the peer requested a prompt ACK
 * @answer: hpcc_probe_answer() must run, because of a probe or a pause of mute.c
 * @identify_active: @path is not NULL
 * @scales: bit mask of all scales that FORWARD requested: T may fall several times while an echo is
 *	in flight
 * @snd_end: end of the data that LOCAL_OUT has passed
 * @mail: newest load record of each hop, index hop - 1 (mailbox.c)
 * @probing: the segment that leaves now is a probe; set under the socket lock
 * @requests: number of requests sent, and of parameters sent in place of a request
 * @received: number of options with telemetry received; LOCAL_IN writes it without a lock
 * @sample_ns: minimum time between two requests, unless @searching
 * @last_request_ns: tcp_clock_cache at the last request
 * @stamped: for hpcc_pace_at()
 * @response: the last response of a switch (switch_response.c); 0: no response yet
 * @device: index in hpcc_net.census for the device of the last request
 *
 * Members that few ACKs use; socket lock, except for @path, @lock and @dead:
 *
 * @una: if @probes: snd_una at the last ACK
 * @began_us: tcp_mstamp when W began to control the window, or when the first telemetry arrived
 * @full_us: tcp_mstamp when Wc was last synchronised, modulo 2^32
 * @audit_seen: bit mask of hops whose records were processed since losses were last judged; if
 *	@rx_window_active
 * @classic_seq: a round trip of classic ends when this byte is acknowledged
 * @conserve_delivered: packets delivered when packet conservation began; conservation ends with the
 *	ACK of a packet that was sent later
 * @remote: state of a sender whose peer may compute W; NULL if the peer may not; RCU, constant
 * @path: identity of the links, while an observer requests it (identify.c); RCU
 * @settle: net.hpcc.settle
 * @why: reason of the last fallback, enum hpcc_flow_why
 * @ignored: counters of ignored telemetry, by enum hpcc_ignored; LOCAL_IN writes them without a
 *	lock, law.c under the socket lock
 * @dead: set by release(); no code may dereference @sk afterwards
 * @lock: covers @dead, and writers of @path
 * @id: number of the flow in its network namespace; constant
 * @rcu: frees the flow
 *
 * Structures with one owner each, which the comment of the structure names:
 *
 * @echo: records to be echoed
 * @mute: segments without our option
 * @mute_past: values at the last RTO, trial and pause
 * @sent: the last segments that LOCAL_OUT passed
 * @census: N, measured by receivers
 * @probe: when to send and to answer a probe
 * @silence: ACKs without telemetry
 * @prior: values before an RTO
 * @loss: duplicates and late packets
 * @reserve: space for options
 * @event: rate limit of events
 *
 * Members are ordered by their users. On a path of one hop, an ACK with an echo needs four cache
 * lines: those of @algo, @params and @node, and that of the link. At the end of a round trip it
 * also needs the cache line of @fallback. A segment in LOCAL_OUT needs the cache lines of @node and
 * @last_request_ns; if the segment is an ACK to a peer that accepts N, it also needs the cache line
 * of @census. hpcc_flow_check() verifies these cache lines at compile time.
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

	struct hpcc_rx __rcu *rx;
	u64 response;

	u64 last_request_ns;
	struct hpcc_flow_sent sent;
	u32 requests;
	u32 sample_ns;
	struct hpcc_carrier_state carrier_state;
	struct hpcc_flow_mute mute;
	u16 caps;
	bool probing;
	bool rx_window_agreed;
	u8 carrier;
	u8 device;
	struct hpcc_flow_echo echo;

	u32 received;
	struct hpcc_flow_mute_past mute_past;
	struct hpcc_flow_census census;

	struct hpcc_stamped stamped;
	struct hpcc_carrier_private carrier_private;
	struct hpcc_flow_probe probe;
	u32 una;
	u64 began_us;
	struct hpcc_flow_silence silence;
	u32 full_us;
	u16 audit_seen;
	struct hpcc_flow_prior prior;
	struct hpcc_path __rcu *path;
	struct hpcc_remote __rcu *remote;
	struct hpcc_flow_loss loss;
	u32 classic_seq;
	u32 conserve_delivered;
	struct hpcc_flow_reserve reserve;
	u8 settle;
	u8 why;
	struct hpcc_flow_event event;
	u32 ignored[HPCC_IGNORED_MAX];

	bool dead;
	spinlock_t lock;	/* covers @dead, and writers of @path */
	u32 id;
	struct rcu_head rcu;
};

/**
 * hpcc_runs_telemetry() - whether W controls the window
 * @flow: a flow
 *
 * Context: any; without the socket lock the result may be outdated.
 */
static inline bool hpcc_runs_telemetry(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->mode) <= HPCC_MODE_STALE;
}

/* Add @n to a counter. If two CPUs do this at the same time, one of the additions may be lost. */
static inline void hpcc_flow_count(u32 *count, u32 n)
{
	WRITE_ONCE(*count, READ_ONCE(*count) + n);
}

/**
 * hpcc_ignored_count() - count ignored telemetry of a flow
 * @flow: the flow
 * @why: reason
 * @n: number of options or records
 *
 * Context: any.
 */
static inline void hpcc_ignored_count(struct hpcc_flow *flow, enum hpcc_ignored why, u32 n)
{
	hpcc_flow_count(&flow->ignored[why], n);
}

/**
 * hpcc_snd_end_advance() - record the end of the data sent
 * @flow: a flow
 * @end: end of the data that LOCAL_OUT passes now
 *
 * An ACK may arrive before TCP advances snd_nxt.
 *
 * Return: whether the data are new.
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

int hpcc_flow_init(void (*free_parts)(struct hpcc_flow *flow));
void hpcc_flow_exit(void);
struct hpcc_flow *hpcc_flow_alloc(struct sock *sk, u16 caps, u8 kind, enum hpcc_counter *why);
bool hpcc_flow_publish(struct hpcc_flow *flow);
void *hpcc_flow_zalloc(const struct sock *sk, size_t size);
void hpcc_flow_destroy(struct hpcc_flow *flow);
struct hpcc_flow *hpcc_flow_find(const struct sock *sk);
struct hpcc_flow *hpcc_flow_from(struct hpcc_net *hn, unsigned long *id);

#endif /* _HPCC_FLOW_FLOW_H */
