/* SPDX-License-Identifier: GPL-2.0 */
/* Bursts and pacing (pace.c). */
#ifndef _HPCC_COMMON_PACE_H
#define _HPCC_COMMON_PACE_H

#include <net/tcp.h>

/* Limits of bursts; socket lock. */
struct hpcc_burst {
	u16 segs;		/* maximum; also cwnd >> HPCC_BURST_SHIFT, but >= @least */
	u16 saved_gso_segs;	/* sk_gso_max_segs from the route */
	u16 least;		/* allowed for a small cwnd, see HPCC_BURST_PART_SHIFT */
	bool paced;		/* hpcc_pacing_begin() enabled pacing in TCP */
};

/* Departure times of segments that are not paced; socket lock. */
struct hpcc_stamped {
	u64 ns;		/* latest departure time in their TSval */
	u32 pure;	/* number of segments without data sent so far */
};

#define HPCC_BURST_SHIFT	5

/* struct hpcc_burst.least cannot make a burst longer than cwnd >> HPCC_BURST_PART_SHIFT, or 1. */
#define HPCC_BURST_PART_SHIFT	3

void hpcc_pacing_init(struct sock *sk, struct hpcc_burst *burst, u32 segs,
		      struct hpcc_stamped *stamped);
void hpcc_stamped_follow(const struct tcp_sock *tp, struct hpcc_stamped *stamped);

/* A segment leaves with the TSval of tcp_wstamp_ns. The latest time counts: hpcc_pace_at() may move
 * tcp_wstamp_ns back by a tick.
 */
static inline void hpcc_stamped_add(const struct tcp_sock *tp, struct hpcc_stamped *stamped)
{
	stamped->ns = max(stamped->ns, tp->tcp_wstamp_ns);
}

void hpcc_pacing_begin(struct sock *sk, struct hpcc_burst *burst);
void hpcc_pacing_restore(struct sock *sk, struct hpcc_burst *burst, struct hpcc_stamped *stamped);
void hpcc_cap_bursts(struct sock *sk, struct hpcc_burst *burst, u32 cwnd, bool tight);
void hpcc_pace_at(struct tcp_sock *tp, struct hpcc_stamped *stamped, u64 ns);
void hpcc_pacing_reschedule(struct tcp_sock *tp, struct hpcc_stamped *stamped, u64 R_before, u64 R);

/* TCP does not pace a connection's first segments: tcp_update_skb_after_send(). */
#define HPCC_UNPACED_SEGS	10

void __hpcc_pace_first(struct sock *sk, u32 bytes);

/* Also pace the first segments: otherwise a window at the host's rate would keep HPCC_UNPACED_SEGS
 * segments in the host's own queue, where a new W has no effect on them. Context: LOCAL_OUT.
 * Without the socket lock (packets queued before this hook) two callers may count only one packet.
 */
static inline void hpcc_pace_first(struct sock *sk, u32 bytes)
{
	if (unlikely(READ_ONCE(tcp_sk(sk)->data_segs_out) < HPCC_UNPACED_SEGS))
		__hpcc_pace_first(sk, bytes);
}

/* Time of a segment at SO_MAX_PACING_RATE, or 0. As in TCP, only the payload counts. */
static inline u64 hpcc_app_gap_ns(const struct sock *sk)
{
	unsigned long max_rate = READ_ONCE(sk->sk_max_pacing_rate);

	if (max_rate == ~0UL || !max_rate)
		return 0;
	return div64_ul((u64)tcp_sk(sk)->mss_cache * NSEC_PER_SEC, max_rate);
}

/* Pace the packets that this ACK releases; snd_cwnd is not updated yet. If a packet leaves after
 * its pacing time, TCP shortens the next gap by up to half, to compensate for late timers. If the
 * packet waited for an ACK, this credit would keep the shape of packet trains, and the pauses
 * between them would reduce the throughput. TCP sends whole bursts, so a packet has waited for an
 * ACK if the window had no space for a burst.
 */
static inline void hpcc_pacing_no_credit(struct tcp_sock *tp, const struct hpcc_burst *burst,
					 const struct rate_sample *rs)
{
	u32 segs = min_t(u32, ((const struct sock *)tp)->sk_gso_max_segs, burst->segs);

	if (rs->prior_in_flight + segs > tcp_snd_cwnd(tp))
		tp->tcp_wstamp_ns = max(tp->tcp_wstamp_ns, tp->tcp_clock_cache);
}

#endif /* _HPCC_COMMON_PACE_H */
