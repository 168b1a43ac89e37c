/* SPDX-License-Identifier: GPL-2.0 */
/*
 * State of a connection with a telemetry agreement (flow.c), and the locks of tcp_hpcc:
 *
 *	- The callbacks of TCP run under the socket lock. The hooks run under RCU; local_out.c
 *	  describes which segments also have the socket lock.
 *	- No lock covers the members that the hooks and the callbacks share. They are single words,
 *	  and each word is valid alone. mailbox.c describes the transfer of records.
 *	- The hooks find flows under RCU in a hash table keyed by the socket. They never use
 *	  icsk_ca_priv: setsockopt(TCP_CONGESTION) may replace its content at any moment.
 */
#ifndef _HPCC_FLOW_FLOW_H
#define _HPCC_FLOW_FLOW_H

#include <linux/hpcc_netlink.h>
#include <linux/reciprocal_div.h>
#include <linux/rhashtable-types.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <hpcc/law/algo.h>
#include <hpcc/law/fallback.h>
#include <hpcc/law/phase.h>
#include <hpcc/wire/spare.h>
#include <hpcc/wire/record.h>

#include "common/pace.h"
#include "common/tlp.h"
#include "netns/net.h"

/* If cwnd is below this, hpcc requests prompt ACKs; the classic response requests none. A receiver
 * that acknowledges every second segment, or delays an ACK for 40 ms, would return too little
 * telemetry in a round trip, or would stop the sender.
 */
#define HPCC_PROMPT_CWND	32

struct hpcc_integrity;
struct hpcc_trace_rx;
struct hpcc_path;
struct hpcc_remote;
struct hpcc_rx;

/* State of carriers other than the TCP option (carrier/). The hooks use it without a lock. */
struct hpcc_carrier_state {
	/* Signal to reflect: enum hpcc_carrier << 16 | signal; 0: none. Taken with xchg(). */
	u32 signal;
	u8 nodes;	/* maximum number of hops in a trace or in a stack; socket lock to write */
	bool paused;	/* after an RTO: the TCP option carries requests; socket lock to write */
	bool mixed;	/* a request had hops in the option and in a trace: last hop unknown */
};

/* State that only carriers access (carrier/). @trace_rx is set once (RCU). */
struct hpcc_carrier_private {
	u64 own[3];	/* private data of the flow's carrier, whose file defines type and lock */
	struct hpcc_trace_rx __rcu *trace_rx;	/* links in the peer's traces; NULL: no trace yet */
	u32 tried;	/* jiffies of the last try of the route's carrier */
	u8 tries;	/* number of tries; the next one is 2^(tries - 1) seconds after @tried */
};

/* Congestion response of a connection (classic.c). */
enum hpcc_mode {
	HPCC_MODE_TELEMETRY,		/* W controls the window, records are usable */
	HPCC_MODE_STALE,		/* W controls the window, the latest records are unusable */
	HPCC_MODE_CLASSIC,		/* Reno controls the window until a record arrives */
	HPCC_MODE_CLASSIC_VERIFY,	/* Reno controls the window until a link is measured */
};

/* Whether segments carry our option, which the path may drop (mute.c). */
enum hpcc_muted {
	HPCC_MUTED_NOT,		/* segments carry the option */
	HPCC_MUTED,		/* no segment carries the option */
	HPCC_MUTED_TRIES,	/* the next suitable data segment carries a request, as a trial */
	HPCC_MUTED_TRIED,	/* the trial segment was sent */
};

/* Reason why telemetry of a connection was ignored. */
enum hpcc_ignored {
	HPCC_IGNORED_MALFORMED,		/* an option was malformed */
	HPCC_IGNORED_BAD_HOP,		/* a record belonged to no hop of the path */
	HPCC_IGNORED_TS_BACK,		/* ts of a record did not advance */
	HPCC_IGNORED_TX_EXCESS,		/* tx of a record grew faster than ts */
	HPCC_IGNORED_UNSIGNED,		/* feedback had no tag; in the order of enum hpcc_counter */
	HPCC_IGNORED_WRONG_TAG,		/* the tag of feedback was wrong */
	HPCC_IGNORED_REPLAYED,		/* feedback was older than earlier feedback */
	HPCC_IGNORED_MAX,
};

/* Records to be echoed (mailbox.c owns them). No lock: the hooks and receiver.c use READ_ONCE(),
 * WRITE_ONCE(), xchg() and cmpxchg().
 */
struct hpcc_flow_echo {
	u32 head;		/* values that all @records share */
	u8 next;		/* index of the first record to echo */
	bool reserved;		/* receiver.c processes @records, LOCAL_OUT does not echo them */
	u64 records[HPCC_HOPS_MAX];	/* by hop - 1 */
};

/* State of muting: segments without our option (mute.c owns it). No lock, except for @state. */
struct hpcc_flow_mute {
	union {
		struct {
			/* LOCAL_OUT writes HPCC_MUTED_TRIED, mute.c the others (socket lock) */
			u8 state;
			u8 is_signed;	/* feedback is signed; constant */
			/* Number of ACKs without data that will still be sent without our option,
			 * because the peer did not receive an ACK with the option.
			 */
			u16 pause;
		};
		u32 unusual;	/* all of these: LOCAL_OUT has more to check */
	};
};

/* Values at the last RTO, trial and pause (mute.c). No lock, except for @rto_*: socket lock. */
struct hpcc_flow_mute_past {
	u32 paused_at;		/* tcp_jiffies32 when hpcc_flow_mute.pause began */
	u32 since;		/* tcp_jiffies32 when muting began, a trial failed or was due */
	u32 trial_end;		/* end of the last trial segment */
	u32 trial_retrans;	/* TCP's count of retransmissions when the trial was sent */
	u32 rto_received;	/* @received of the flow at the last RTO or end of muting */
	u32 rto_requests;	/* @requests of the flow at the time of @rto_received */
	u8 trials;		/* number of trials since telemetry last arrived */
	bool paused;		/* HPCC_EVENT_MUTED must be sent */
	u16 next_pause;		/* hpcc_flow_mute.pause after the next lost ACK; 0: HPCC_PAUSE */
};

/* Numbers and times of the last segments that LOCAL_OUT has processed (local_out.c owns them). No
 * lock: only LOCAL_OUT writes them.
 */
struct hpcc_flow_sent {
	u32 prompt_end;	/* end of the last data segment that requested a prompt ACK */
	u32 echo_ack;	/* number of the last ACK without data that had our option */
	u32 echo_at;	/* tcp_jiffies32 when the ACK of @echo_ack was sent */
};

/* N, measured by receivers (census.c owns it). Without a lock, LOCAL_OUT writes @period, @index,
 * @N_sent and @N_sent_us, LOCAL_IN writes @N_arrived and reads @wants_N. Writers of the other
 * members hold the socket lock.
 */
struct hpcc_flow_census {
	u32 period;		/* the last period that counted the flow */
	u32 N_sent_us;		/* time when N was last sent */
	u32 N_arrived;		/* N of a report; taken with xchg() at the end of the round trip */
	u16 N_sent;
	u8 index;		/* index in hpcc_net.census of the census that counts the flow */
	bool wants_N;		/* W_ai depends on reports */
	u32 N_reported_us;	/* arrival time of @N_reported */
	u32 N;			/* N from which @W_ai_goal_q16 was computed */
	u32 N_reported;		/* N of the last report; 0: there is no valid report */
	u64 W_ai_one_q16;	/* W_ai of a single flow, bytes; 0: W_ai does not depend on N */
	u64 W_ai_goal_q16;	/* target of W_ai */
};

/* Values that determine when to send and answer probes (probe.c owns them). Socket lock. */
struct hpcc_flow_probe {
	u32 delivered;		/* packets delivered when the last probe was sent */
	u32 segs;		/* data segments at the last probe, less 1 if data were in flight */
	u32 answered_ns;	/* tcp_clock_cache at the last answer to a probe, modulo 2^32 */
};

/* ACKs without telemetry (silence.c owns it). Socket lock. */
struct hpcc_flow_silence {
	u64 since_us;	/* tcp_mstamp of the first of the flow's silent_acks */
	u32 requests;	/* the flow's requests at @since_us */
};

/* Values before an RTO (law.c owns them). Socket lock. */
struct hpcc_flow_prior {
	u64 W_q16;
	u64 slow_start_limit_q16;
};

/* Duplicates and late packets (loss.c owns it). Socket lock. */
struct hpcc_flow_loss {
	s64 dsack_excess;	/* @dsacked beyond 1/32 of deliveries, in 2^-HPCC_LOSS_SHIFT */
	u32 dsack_delivered;	/* packets delivered when @dsack_excess was updated */
	u32 dsacked;		/* packets received twice, by DSACKs; at most total_retrans */
	u32 classic_cwnd;	/* cwnd at the last return from classic; ~0: there was none */
	bool duplicates;	/* the path duplicates packets */
};

/* Space for options (reserve.c owns it). Socket lock. */
struct hpcc_flow_reserve {
	u16 bytes;	/* bytes of MSS reserved for options */
	u16 ip_optlen;	/* length of the IPv4 options in the flow's ext_hdr_len */
};

/* Rate limit of events (netlink.c owns it). Socket lock. */
struct hpcc_flow_event {
	u32 since;	/* jiffies when the current second began */
	u32 missed;	/* events suppressed by the limit since the last event was sent */
	u8 count;	/* events sent since @since */
};

/*
 * A connection with an agreement: SYN and SYN-ACK carried our option. Comments of structures with
 * one owner name the owner and the lock. Locks of the other members:
 *
 *	- Constant: @kind, @slots, @caps, @unverified, @rx_window_agreed, @sk, @id, and the pointer
 *	  @integrity to memory with its own lock. @rx and @remote are set once (RCU).
 *	- READ_ONCE() and WRITE_ONCE() without a lock: @rx_window_new, @hops, @scale, @next_hop,
 *	  @prompt, @answer, @identify_active, @scales, @snd_end, @mail, @response, @last_request_ns,
 *	  @requests, @sample_ns, @probing, @device, @received, @untrusted_why; and @ignored, which
 *	  LOCAL_IN writes without a lock, and law.c under the socket lock.
 *	- Socket lock to write, no lock to read: W, Wc and U in @algo, T in @params, @searching,
 *	  @probes, @mode, @rx_window_active, @carrier.
 *	- Socket lock: all others, except @path, @dead and @lock.
 *
 * Members are ordered by their users. On a path of one hop, an ACK with an echo needs four cache
 * lines: those of @algo, @params and @node, and that of the link. At the end of a round trip it
 * also needs the cache line of @fallback. A segment in LOCAL_OUT needs the cache lines of @node and
 * @last_request_ns; if the segment is an ACK to a peer that accepts N, it also needs the cache line
 * of @census. hpcc_flow_check() verifies these cache lines at compile time.
 */
struct hpcc_flow {
	struct hpcc_algo algo;		/* W, Wc, U. L is allocated for the longest path so far */
	struct hpcc_fallback fallback;	/* decides when to leave telemetry, and when to return */

	struct hpcc_params params;
	struct reciprocal_value mss_recip;	/* reciprocal of @mss */
	u32 min_rtt_us;		/* minimum RTT from which T was computed, if T is measured */
	u16 mss;		/* MSS of @mss_recip, at most 16 bits */
	u16 ext_hdr_len;	/* icsk_ext_hdr_len after our last change */

	struct hpcc_tlp tlp;	/* tail loss probe */
	/* Number of ACKs of new data since a link was last measured, at most HPCC_SILENT_ACKS + 1.
	 * In classic: number of round trips.
	 */
	u8 silent_acks : 4;
	u8 new_links : 4;	/* ACKs with a link's first record, since a measured one */
	bool rx_window_new;	/* LOCAL_IN: a new W arrived from the receiver */
	struct hpcc_burst burst;	/* limits of a TSO burst */
	bool searching;		/* W is converging */
	bool probes;		/* probes carry requests, data do not (probe.c) */
	bool unpaced : 1;	/* ACKs alone clock the packets, if the window is large enough */
	bool dirty : 1;		/* W, T or cwnd changed without a record since hpcc_apply() */
	bool skipped : 1;	/* the ACK brought a record too soon after the hop's last record */
	bool conserving : 1;	/* packet conservation is active */
	u8 mode;		/* enum hpcc_mode */
	u8 kind;		/* TCP option kind */
	u8 unverified;		/* HPCC_UNVERIFIED if feedback is signed, else 0 */
	u8 slots;		/* number of records that a FORWARD requests */
	u8 hops;		/* number of hops of the path, from the newest echo */
	u8 scale;		/* scale that FORWARD requests */
	u8 next_hop;		/* next hop to request in this round of phases, from 0 on */
	bool prompt;		/* the peer requested a prompt ACK */
	bool answer;		/* a probe or a pause of mute.c: run hpcc_probe_answer() */
	bool identify_active;	/* @path is not NULL */
	bool rx_window_active;	/* W comes from the receiver (remote.c) */
	struct rhash_head node;	/* entry in the hash table */
	const struct sock *sk;	/* key of the hash table. To dereference it, hold a reference */
	u32 scales;		/* requested scales, bit mask: T may fall before an echo arrives */
	u32 snd_end;		/* end of the data that LOCAL_OUT has processed */
	u64 mail[HPCC_HOPS_MAX];	/* newest load record by hop - 1 (mailbox.c) */

	struct hpcc_rx __rcu *rx;	/* computes the peer's W, NULL until the peer requests W */
	u64 response;		/* the last response of a switch (switch_response.c), 0: none */

	u64 last_request_ns;	/* tcp_clock_cache at the last request */
	struct hpcc_flow_sent sent;
	u32 requests;		/* requests sent, and parameters sent in place of a request */
	u32 sample_ns;		/* minimum time between two requests, unless @searching */
	struct hpcc_carrier_state carrier_state;	/* of @carrier and of the peer's carrier */
	struct hpcc_flow_mute mute;
	u16 caps;		/* HPCC_CAP_* of the peer */
	bool probing;		/* the segment that is sent now is a probe (socket lock to set) */
	bool rx_window_agreed;	/* both ends agreed on receiver mode: the flow holds its module */
	u8 carrier;		/* enum hpcc_carrier: switches write records into it */
	u8 device;		/* index in hpcc_net.census, for the device of the last request */
	u16 audit_seen;		/* bit mask of hops with records since losses were last judged */
	struct hpcc_flow_echo echo;

	u32 received;		/* number of options with telemetry received */
	struct hpcc_flow_mute_past mute_past;
	struct hpcc_flow_census census;

	struct hpcc_stamped stamped;	/* for hpcc_pace_at() */
	struct hpcc_carrier_private carrier_private;
	struct hpcc_flow_probe probe;
	u32 una;		/* if @probes: snd_una at the last ACK */
	u64 began_us;		/* tcp_mstamp when W began to control, or telemetry first arrived */
	struct hpcc_flow_silence silence;
	u32 full_us;		/* tcp_mstamp when Wc was last synchronised, modulo 2^32 */
	u32 id;			/* number of the flow in its network namespace */
	struct hpcc_flow_prior prior;
	struct hpcc_path __rcu *path;	/* names of links, while an observer requests them */
	struct hpcc_remote __rcu *remote;	/* NULL unless the peer may compute W */
	struct hpcc_integrity *integrity;	/* signs and verifies feedback, or NULL */
	struct hpcc_flow_loss loss;
	u32 classic_seq;	/* a round trip of classic ends when this byte is acknowledged */
	u32 conserve_delivered;	/* packets delivered when packet conservation began */
	u32 conserve_sent;	/* packets in flight before that */
	u32 conserve_lost;	/* hpcc_lost() before that */
	struct hpcc_flow_reserve reserve;
	u8 settle;		/* from net.hpcc.settle (law.c) */
	u8 why;			/* reason of the last fallback, enum hpcc_flow_why */
	u8 untrusted_why;	/* HPCC_WHY_UNTRUSTED: the last feedback had no right tag */
	bool dead;		/* set by release(): do not dereference @sk */
	struct hpcc_flow_event event;
	u32 ignored[HPCC_IGNORED_MAX];	/* by enum hpcc_ignored */

	spinlock_t lock;	/* covers @dead, and writers of @path */
	union hpcc_spare spare;	/* written by LOCAL_OUT without a lock (local_out.c) */
	struct rcu_head rcu;
};

/* Publish @new, from kmalloc(), in the RCU pointer *@place. If another CPU was first, free @new.
 * Return: the object in *@place.
 */
#define hpcc_publish_once(place, new) ({						\
	typeof(new) _new = (new);							\
	typeof(new) _old = unrcu_pointer(cmpxchg(place, NULL, RCU_INITIALIZER(_new)));	\
											\
	if (_old)									\
		kfree(_new);								\
	_old ?: _new;									\
})

/* Whether W controls the window. Without the socket lock, the result may be outdated. */
static inline bool hpcc_runs_telemetry(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->mode) <= HPCC_MODE_STALE;
}

/* Add @n to a counter. If two CPUs do this at the same time, one of the additions may be lost. */
static inline void hpcc_flow_count(u32 *count, u32 n)
{
	WRITE_ONCE(*count, READ_ONCE(*count) + n);
}

static inline void hpcc_ignored_count(struct hpcc_flow *flow, enum hpcc_ignored why, u32 n)
{
	hpcc_flow_count(&flow->ignored[why], n);
}

/* Update the end of the data sent: an ACK may arrive before TCP advances snd_nxt. Return: whether
 * the data up to @end are new.
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

/* Sends an event of a flow to its observers; main.c sets it. Context: socket lock. */
extern void (*hpcc_notify)(struct sock *sk, struct hpcc_flow *flow, enum hpcc_event event);

int hpcc_flow_init(void (*free_parts)(struct hpcc_flow *flow));
void hpcc_flow_exit(void);
struct hpcc_flow *hpcc_flow_alloc(struct sock *sk, u16 caps, u8 kind, enum hpcc_counter *why);
bool hpcc_flow_publish(struct hpcc_flow *flow);
void *hpcc_flow_zalloc(const struct sock *sk, size_t size);
void hpcc_flow_destroy(struct hpcc_flow *flow);
struct hpcc_flow *hpcc_flow_find(const struct sock *sk);

/* The first flow whose number is at least @id, or NULL; sets @id. Context: RCU read side, during
 * which the flow is valid. Its socket is valid under the flow's lock, if the flow is not dead.
 */
static inline struct hpcc_flow *hpcc_flow_from(struct hpcc_net *hn, unsigned long *id)
{
	return xa_find(&hn->flows, id, ULONG_MAX, XA_PRESENT);
}

#endif /* _HPCC_FLOW_FLOW_H */
