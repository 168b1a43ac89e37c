// SPDX-License-Identifier: GPL-2.0
/*
 * How much leaves at once, and when the next packet does.
 *
 * Context: socket lock, all of this file but hpcc_pace_first().
 */
#include <linux/export.h>
#include <linux/hrtimer.h>
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "pace.h"

/**
 * hpcc_burst_init() - begin to bound what leaves at once
 * @sk: socket
 * @burst: filled in
 * @segs: the most, 1 or more
 * @shift: the most of a window of cwnd segments: cwnd >> shift, but at least
 *	1; 0 to 31
 */
void hpcc_burst_init(struct sock *sk, struct hpcc_burst *burst, u32 segs,
		     u32 shift)
{
	burst->segs = segs;
	burst->shift = shift;
	burst->least = 1;
	burst->saved_gso_segs = sk->sk_gso_max_segs;
}
EXPORT_SYMBOL_GPL(hpcc_burst_init);

/**
 * hpcc_pacing_begin() - make TCP pace
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
 * hpcc_stamped_begin() - begin to keep departure times of segments without data
 * @tp: socket
 * @stamped: filled in
 */
void hpcc_stamped_begin(const struct tcp_sock *tp, struct hpcc_stamped *stamped)
{
	stamped->pure = tp->segs_out - tp->data_segs_out;
	stamped->ns = 0;
}
EXPORT_SYMBOL_GPL(hpcc_stamped_begin);

/* The earliest departure time that PAWS allows the next packet. A segment without data leaves at
 * once, but its TSval is of the time at which the next data may leave. PAWS drops a segment whose
 * TSval is two ticks or more before that of an earlier one.
 */
static u64 hpcc_paws_ns(const struct tcp_sock *tp, struct hpcc_stamped *stamped)
{
	u32 pure = tp->segs_out - tp->data_segs_out;

	if (!tp->rx_opt.tstamp_ok)
		return 0;
	if (pure != stamped->pure) {
		stamped->pure = pure;
		stamped->ns = tp->tcp_wstamp_ns;
	}
	return stamped->ns - min_t(u64, stamped->ns, hpcc_ts_tick_ns(tp));
}

/**
 * hpcc_pace_at() - set when the next packet may leave
 * @tp: socket, its ACK being processed
 * @stamped: departure times of segments without data
 * @ns: time, ns of CLOCK_MONOTONIC; the next packet leaves later where PAWS would drop it
 *
 * Where fq paces, it sorts the packets of a flow by the departure times that TCP took from
 * tcp_wstamp_ns. An earlier time would let the next packet overtake those that fq holds, so
 * that clock only moves forward there.
 */
void hpcc_pace_at(struct tcp_sock *tp, struct hpcc_stamped *stamped, u64 ns)
{
	if (ns < tp->tcp_wstamp_ns &&
	    READ_ONCE(((const struct sock *)tp)->sk_pacing_status) == SK_PACING_FQ)
		return;
	ns = max(ns, hpcc_paws_ns(tp, stamped));
	tp->tcp_wstamp_ns = ns;
	/* A queued timer holds a reference to the socket, which moves along. */
	if (hrtimer_try_to_cancel(&tp->pacing_timer) == 1)
		hrtimer_start(&tp->pacing_timer, ns_to_ktime(ns),
			      HRTIMER_MODE_ABS_PINNED_SOFT);
}
EXPORT_SYMBOL_GPL(hpcc_pace_at);

/**
 * hpcc_pacing_restore() - end what hpcc_cap_bursts() and hpcc_pacing_begin() did
 * @sk: socket
 * @burst: its bound
 * @stamped: for hpcc_pace_at()
 *
 * Reno does not pace, and the route bounds its bursts. A packet that waits in TCP leaves now, or
 * when the application's rate lets it. A packet that waits in fq keeps its departure time.
 */
void hpcc_pacing_restore(struct sock *sk, struct hpcc_burst *burst,
			 struct hpcc_stamped *stamped)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 latest_ns = tp->tcp_clock_cache + hpcc_app_gap_ns(sk);

	if (tp->tcp_wstamp_ns > latest_ns)
		hpcc_pace_at(tp, stamped, latest_ns);
	if (sk->sk_gso_max_segs <= burst->segs)
		sk->sk_gso_max_segs = burst->saved_gso_segs;
	/* SO_MAX_PACING_RATE needs pacing as well. */
	if (burst->paced && READ_ONCE(sk->sk_max_pacing_rate) == ~0UL)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_NONE);
	burst->paced = false;
}
EXPORT_SYMBOL_GPL(hpcc_pacing_restore);

/**
 * hpcc_cap_bursts() - bound what leaves at once
 * @sk: socket
 * @burst: its bound
 * @cwnd: window, segments
 * @tight: by the part of the window alone, whatever @burst->least is
 *
 * A burst waits in the sender's own NIC while it leaves, which counts as RTT:
 * no more than a small part of the window at once. Routes set sk_gso_max_segs anew
 * when they change.
 */
void hpcc_cap_bursts(struct sock *sk, struct hpcc_burst *burst, u32 cwnd,
		     bool tight)
{
	u32 part = cwnd >> burst->shift;
	u32 segs;

	if (!tight)
		part = max(part, min_t(u32, cwnd >> HPCC_BURST_PART_SHIFT,
				       burst->least));
	segs = clamp_t(u32, part, 1, burst->segs);

	if (sk->sk_gso_max_segs == segs)
		return;
	if (sk->sk_gso_max_segs > burst->segs)
		burst->saved_gso_segs = sk->sk_gso_max_segs;
	sk->sk_gso_max_segs = min_t(u32, segs, burst->saved_gso_segs);
}
EXPORT_SYMBOL_GPL(hpcc_cap_bursts);

/* hpcc_pace_first(), the first times. */
void __hpcc_pace_first(struct sock *sk, u32 bytes)
{
	unsigned long rate = READ_ONCE(sk->sk_pacing_rate);
	u64 *wstamp_ns = &tcp_sk(sk)->tcp_wstamp_ns;

	if (READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE && rate && rate != ~0UL)
		WRITE_ONCE(*wstamp_ns, READ_ONCE(*wstamp_ns) +
				       div64_ul((u64)bytes * NSEC_PER_SEC, rate));
}
EXPORT_SYMBOL_GPL(__hpcc_pace_first);

/* The time that two bursts take at the socket's pacing rate: nothing waits for longer. (The
 * one that left may have been twice as long as those from now on.)
 */
static u64 hpcc_burst_ns(const struct tcp_sock *tp)
{
	const struct sock *sk = (const struct sock *)tp;
	u64 bytes = 2ULL * (tp->mss_cache + MAX_TCP_HEADER) *
		    sk->sk_gso_max_segs;

	return div64_ul(bytes * NSEC_PER_SEC, max(sk->sk_pacing_rate, 1UL));
}

/**
 * hpcc_pacing_reschedule() - let a new rate drain what is left of the packet interval
 * @tp: socket, its ACK being processed, its pacing rate set
 * @stamped: for hpcc_pace_at()
 * @R_before: rate that the interval was paced by, in any unit
 * @R: rate now, in the same unit, not 0
 *
 * The next packet's time was set when the last one left, by the R of then.
 * Where packets are few and far between that is a lag of a good part of T, and
 * many small windows together would swing.
 *
 * R may fall by far and often, as a peer says. So the interval is bounded by what two
 * bursts take at the new rate; the quotient may not fit 64 bits before that. What the
 * application has set the rate of (SO_MAX_PACING_RATE) stays.
 */
void hpcc_pacing_reschedule(struct tcp_sock *tp, struct hpcc_stamped *stamped, u64 R_before,
			    u64 R)
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
