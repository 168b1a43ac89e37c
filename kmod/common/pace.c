// SPDX-License-Identifier: GPL-2.0
/* Length of bursts, and departure time of the next packet. Under the socket lock, except for
 * hpcc_pace_first().
 */
#include <linux/export.h>
#include <linux/hrtimer.h>
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "pace.h"

/**
 * hpcc_pacing_init() - start to limit bursts, and to track departure times of segments without data
 * @sk: socket
 * @burst: filled in
 * @segs: maximum length of a burst, 1 or more
 * @stamped: filled in
 */
void hpcc_pacing_init(struct sock *sk, struct hpcc_burst *burst, u32 segs,
		      struct hpcc_stamped *stamped)
{
	burst->segs = segs;
	burst->least = 1;
	burst->saved_gso_segs = sk->sk_gso_max_segs;
	stamped->pure = tcp_sk(sk)->segs_out - tcp_sk(sk)->data_segs_out;
	stamped->ns = 0;
}
EXPORT_SYMBOL_GPL(hpcc_pacing_init);

/**
 * hpcc_pacing_begin() - enable pacing in TCP
 * @sk: socket
 * @burst: @burst->paced is set if TCP did not pace before
 */
void hpcc_pacing_begin(struct sock *sk, struct hpcc_burst *burst)
{
	burst->paced |= cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE,
				SK_PACING_NEEDED) == SK_PACING_NONE;
}
EXPORT_SYMBOL_GPL(hpcc_pacing_begin);

/**
 * hpcc_stamped_follow() - record segments without data that were sent since the last call
 * @tp: socket
 * @stamped: departure times
 *
 * Their TSval is assumed to be tcp_wstamp_ns. Call this also before the first data, which move
 * tcp_wstamp_ns into the future: the ACK of the handshake has already left.
 */
void hpcc_stamped_follow(const struct tcp_sock *tp, struct hpcc_stamped *stamped)
{
	u32 pure = tp->segs_out - tp->data_segs_out;

	if (pure == stamped->pure)
		return;
	stamped->pure = pure;
	hpcc_stamped_add(tp, stamped);
}
EXPORT_SYMBOL_GPL(hpcc_stamped_follow);

/* The earliest departure time at which PAWS accepts the next data packet. TCP sends a segment
 * without data immediately, but with the TSval that the next data packet will have. If that packet
 * then left earlier than planned, its TSval would be older. PAWS drops a segment whose TSval is two
 * or more ticks older than that of an earlier segment.
 */
static u64 hpcc_paws_ns(const struct tcp_sock *tp, struct hpcc_stamped *stamped)
{
	if (!tp->rx_opt.tstamp_ok)
		return 0;
	hpcc_stamped_follow(tp, stamped);
	return stamped->ns - min_t(u64, stamped->ns, hpcc_ts_tick_ns(tp));
}

/**
 * hpcc_pace_at() - set the departure time of the next packet
 * @tp: socket, its ACK being processed
 * @stamped: departure times of segments without data
 * @ns: time, ns of CLOCK_MONOTONIC; the next packet leaves later if PAWS would drop it
 *
 * fq sorts the packets of a flow by departure times. With an earlier time the next packet would
 * overtake packets in fq, so with fq tcp_wstamp_ns only increases.
 */
void hpcc_pace_at(struct tcp_sock *tp, struct hpcc_stamped *stamped, u64 ns)
{
	if (ns < tp->tcp_wstamp_ns &&
	    READ_ONCE(((const struct sock *)tp)->sk_pacing_status) == SK_PACING_FQ)
		return;
	ns = max(ns, hpcc_paws_ns(tp, stamped));
	tp->tcp_wstamp_ns = ns;
	/* A queued timer holds a reference to the socket; the restarted timer takes it over. */
	if (hrtimer_try_to_cancel(&tp->pacing_timer) == 1)
		hrtimer_start(&tp->pacing_timer, ns_to_ktime(ns), HRTIMER_MODE_ABS_PINNED_SOFT);
}
EXPORT_SYMBOL_GPL(hpcc_pace_at);

/**
 * hpcc_pacing_restore() - undo hpcc_cap_bursts() and hpcc_pacing_begin()
 * @sk: socket; a packet that waits in TCP leaves now, or when SO_MAX_PACING_RATE allows it
 * @burst: its limits
 * @stamped: for hpcc_pace_at()
 *
 * A packet that waits in fq keeps its departure time.
 */
void hpcc_pacing_restore(struct sock *sk, struct hpcc_burst *burst, struct hpcc_stamped *stamped)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 latest_ns = tp->tcp_clock_cache + hpcc_app_gap_ns(sk);

	if (tp->tcp_wstamp_ns > latest_ns)
		hpcc_pace_at(tp, stamped, latest_ns);
	if (sk->sk_gso_max_segs <= burst->segs)
		sk->sk_gso_max_segs = burst->saved_gso_segs;
	/* SO_MAX_PACING_RATE also needs pacing. */
	if (burst->paced && READ_ONCE(sk->sk_max_pacing_rate) == ~0UL)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_NONE);
	burst->paced = false;
}
EXPORT_SYMBOL_GPL(hpcc_pacing_restore);

/**
 * hpcc_cap_bursts() - limit the length of bursts: a burst queues in the NIC, and adds to the RTT
 * @sk: socket; a route change resets its sk_gso_max_segs
 * @burst: its limits
 * @cwnd: window, segments
 * @tight: limit a burst to @cwnd >> HPCC_BURST_SHIFT, and ignore @burst->least
 */
void hpcc_cap_bursts(struct sock *sk, struct hpcc_burst *burst, u32 cwnd, bool tight)
{
	u32 part = cwnd >> HPCC_BURST_SHIFT;
	u32 segs;

	if (!tight)
		part = max(part, min_t(u32, cwnd >> HPCC_BURST_PART_SHIFT, burst->least));
	segs = clamp_t(u32, part, 1, burst->segs);

	if (sk->sk_gso_max_segs == segs)
		return;
	if (sk->sk_gso_max_segs > burst->segs)
		burst->saved_gso_segs = sk->sk_gso_max_segs;
	sk->sk_gso_max_segs = min_t(u32, segs, burst->saved_gso_segs);
}
EXPORT_SYMBOL_GPL(hpcc_cap_bursts);

/* Slow path of hpcc_pace_first(), perhaps without the socket lock. */
void __hpcc_pace_first(struct sock *sk, u32 bytes)
{
	unsigned long rate = READ_ONCE(sk->sk_pacing_rate);
	u64 *wstamp_ns = &tcp_sk(sk)->tcp_wstamp_ns;

	if (READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE && rate && rate != ~0UL)
		WRITE_ONCE(*wstamp_ns, READ_ONCE(*wstamp_ns) +
				       div64_ul((u64)bytes * NSEC_PER_SEC, rate));
}
EXPORT_SYMBOL_GPL(__hpcc_pace_first);

/* The maximum wait of a packet: the time of two bursts, because the last one may have been
 * longer.
 */
static u64 hpcc_burst_ns(const struct tcp_sock *tp)
{
	const struct sock *sk = (const struct sock *)tp;
	u64 bytes = 2ULL * (tp->mss_cache + MAX_TCP_HEADER) * sk->sk_gso_max_segs;

	return div64_ul(bytes * NSEC_PER_SEC, max(sk->sk_pacing_rate, 1UL));
}

/**
 * hpcc_pacing_reschedule() - apply a new rate to the rest of the packet interval
 * @tp: socket, its ACK being processed, its pacing rate set
 * @stamped: for hpcc_pace_at()
 * @R_before: rate from which the interval was computed, in any unit
 * @R: rate now, in the same unit, not 0
 *
 * TCP computed the next departure time from R when the last packet left. With few packets per T
 * this causes a large delay in the control loop, and many flows with small windows would oscillate
 * together. A peer can reduce R often, and by a large factor. So the interval is at most the time
 * of two bursts at the new rate, also if its rest times @R_before / @R exceeds 64 bits. An interval
 * from SO_MAX_PACING_RATE does not change.
 */
void hpcc_pacing_reschedule(struct tcp_sock *tp, struct hpcc_stamped *stamped, u64 R_before, u64 R)
{
	const struct sock *sk = (const struct sock *)tp;
	unsigned long max_rate = READ_ONCE(sk->sk_max_pacing_rate);
	u64 now_ns = tp->tcp_clock_cache;
	u64 wait_ns = tp->tcp_wstamp_ns - now_ns;

	if (tp->tcp_wstamp_ns <= now_ns || R_before == R ||
	    (max_rate != ~0UL && sk->sk_pacing_rate == max_rate))
		return;
	wait_ns = mul_u64_u64_shr(wait_ns, R_before, 64) < R ?
		  mul_u64_u64_div_u64(wait_ns, R_before, R) : U64_MAX;
	hpcc_pace_at(tp, stamped, now_ns + min(wait_ns, hpcc_burst_ns(tp)));
}
EXPORT_SYMBOL_GPL(hpcc_pacing_reschedule);
