/* SPDX-License-Identifier: GPL-2.0 */
/* Bursts and pacing (pace.c). */
#ifndef _HPCC_COMMON_PACE_H
#define _HPCC_COMMON_PACE_H

#include <net/tcp.h>

/**
 * struct hpcc_burst - how much may leave at once; socket lock
 * @segs: the most, segments
 * @saved_gso_segs: sk_gso_max_segs as the route set it
 * @least: segments that a burst may have, as far as HPCC_BURST_PART_SHIFT allows
 * @shift: the most of a window of cwnd segments: cwnd >> shift, but at least @least
 * @paced: hpcc_pacing_begin() made TCP pace
 */
struct hpcc_burst {
	u16 segs;
	u16 saved_gso_segs;
	u16 least;
	u8 shift;
	bool paced;
};

/**
 * struct hpcc_stamped - departure times of segments without data; socket lock
 * @ns: the latest one that TCP may have stamped on those that had left
 * @pure: how many had left
 */
struct hpcc_stamped {
	u64 ns;
	u32 pure;
};

/* No burst is longer than cwnd >> HPCC_BURST_PART_SHIFT, or 1, for @least's sake. */
#define HPCC_BURST_PART_SHIFT	3

void hpcc_burst_init(struct sock *sk, struct hpcc_burst *burst, u32 segs,
		     u32 shift);
void hpcc_stamped_begin(const struct tcp_sock *tp, struct hpcc_stamped *stamped);
void hpcc_pacing_begin(struct sock *sk, struct hpcc_burst *burst);
void hpcc_pacing_restore(struct sock *sk, struct hpcc_burst *burst,
			 struct hpcc_stamped *stamped);
void hpcc_cap_bursts(struct sock *sk, struct hpcc_burst *burst, u32 cwnd,
		     bool tight);
void hpcc_pace_at(struct tcp_sock *tp, struct hpcc_stamped *stamped, u64 ns);
void hpcc_pacing_reschedule(struct tcp_sock *tp, struct hpcc_stamped *stamped, u64 R_before,
			    u64 R);

/* TCP does not pace a connection's first segments: tcp_update_skb_after_send(). */
#define HPCC_UNPACED_SEGS	10

void __hpcc_pace_first(struct sock *sk, u32 bytes);

/**
 * hpcc_pace_first() - pace a connection's first segments as well
 * @sk: socket
 * @bytes: length of the packet that leaves
 *
 * A window that leaves at the host's rate would otherwise have that many segments too many in the
 * host's own queue for a round trip, where no new W reaches them.
 *
 * Context: LOCAL_OUT; without the socket lock where packets are queued on their way
 * there, when two callers may count one of their packets.
 */
static inline void hpcc_pace_first(struct sock *sk, u32 bytes)
{
	if (unlikely(READ_ONCE(tcp_sk(sk)->data_segs_out) < HPCC_UNPACED_SEGS))
		__hpcc_pace_first(sk, bytes);
}

/**
 * hpcc_app_gap_ns() - the time that SO_MAX_PACING_RATE gives a segment
 * @sk: socket
 *
 * TCP reckons with the payload, too.
 *
 * Return: ns; 0 where the application has set no rate.
 */
static inline u64 hpcc_app_gap_ns(const struct sock *sk)
{
	unsigned long max_rate = READ_ONCE(sk->sk_max_pacing_rate);

	if (max_rate == ~0UL || !max_rate)
		return 0;
	return div64_ul((u64)tcp_sk(sk)->mss_cache * NSEC_PER_SEC, max_rate);
}

/**
 * hpcc_pacing_no_credit() - pace what this ACK lets go
 * @tp: socket
 * @burst: its bound
 * @rs: what the ACK told; snd_cwnd is still that of before
 *
 * TCP lets a packet that leaves later than its pacing time shorten the gap to
 * the next one by up to half, to make up for late timers. Time spent waiting
 * for an ACK is no such thing: with that credit the trains that a window makes
 * keep their shape, and the pause between them costs throughput for good. TCP
 * holds back what is less than a burst: a window is used up when none fits.
 */
static inline void hpcc_pacing_no_credit(struct tcp_sock *tp,
					 const struct hpcc_burst *burst,
					 const struct rate_sample *rs)
{
	u32 segs = min_t(u32, ((const struct sock *)tp)->sk_gso_max_segs,
			 burst->segs);

	if (rs->prior_in_flight + segs > tcp_snd_cwnd(tp))
		tp->tcp_wstamp_ns = max(tp->tcp_wstamp_ns, tp->tcp_clock_cache);
}

#endif /* _HPCC_COMMON_PACE_H */
