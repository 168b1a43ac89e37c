// SPDX-License-Identifier: GPL-2.0
/*
 * From W to what TCP does:
 *
 *	snd_cwnd = W / MSS, rounded up	(at least 1)
 *	sk_pacing_rate = R = W / T
 *
 * A window below one segment is thus cwnd = 1, paced at R. Besides: room for
 * our options in each segment, and the size of bursts.
 */
#include <linux/hrtimer.h>
#include <net/tcp.h>

#include "hpcc.h"

static const u32 hpcc_burst_shift = 5;

/**
 * hpcc_reserve() - keep room for options in each segment
 * @sk: socket
 * @flow: its flow
 * @bytes: how much; replaces what was kept before
 *
 * icsk_ext_hdr_len is taken off the MSS; a wrong pmtu_cookie makes
 * tcp_current_mss() compute that anew.
 *
 * Context: socket lock, as all of this file.
 */
void hpcc_reserve(struct sock *sk, struct hpcc_flow *flow, u16 bytes)
{
	struct inet_connection_sock *icsk = inet_csk(sk);

	icsk->icsk_ext_hdr_len += bytes - flow->reserved;
	icsk->icsk_pmtu_cookie = 0;
	flow->reserved = bytes;
	flow->ext_hdr_len = icsk->icsk_ext_hdr_len;
}

/**
 * hpcc_reserve_again() - keep the room where setsockopt() took it back
 * @sk: socket
 * @flow: its flow
 *
 * setsockopt() of IPv6 extension headers overwrites icsk_ext_hdr_len with
 * their length; that of IPv4 options adds the difference.
 */
void hpcc_reserve_again(struct sock *sk, struct hpcc_flow *flow)
{
	struct inet_connection_sock *icsk = inet_csk(sk);

	if (likely(icsk->icsk_ext_hdr_len == flow->ext_hdr_len))
		return;
	if (hpcc_ext_hdr_is_absolute(sk)) {
		u16 bytes = flow->reserved;

		flow->reserved = 0;
		hpcc_reserve(sk, flow, bytes);
	}
	flow->ext_hdr_len = icsk->icsk_ext_hdr_len;
}

/**
 * hpcc_cap_bursts() - bound what leaves at once
 * @sk: socket
 * @flow: its flow
 * @cwnd: window, segments
 *
 * A burst waits in the sender's own NIC while it leaves, which counts as RTT:
 * no more than 1/32 of the window at once. Routes set sk_gso_max_segs anew
 * when they change.
 */
void hpcc_cap_bursts(struct sock *sk, struct hpcc_flow *flow, u32 cwnd)
{
	u32 segs = clamp_t(u32, cwnd >> hpcc_burst_shift, 1, flow->burst_segs);

	if (sk->sk_gso_max_segs == segs)
		return;
	if (sk->sk_gso_max_segs > flow->burst_segs)
		flow->saved_gso_segs = sk->sk_gso_max_segs;
	sk->sk_gso_max_segs = min_t(u32, segs, flow->saved_gso_segs);
}

/**
 * hpcc_cwnd() - W in segments
 * @sk: socket
 * @flow: its flow
 *
 * Return: W / MSS, rounded up, at least 1, at most the socket's clamp.
 */
u32 hpcc_cwnd(struct sock *sk, struct hpcc_flow *flow)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 mss = max_t(u32, tp->mss_cache, 1);
	u32 W_bytes;

	if (unlikely(mss != flow->mss)) {
		flow->mss = mss;
		flow->mss_recip = reciprocal_value(mss);
	}
	/* TCP cannot have more than 2^30 bytes in flight. */
	W_bytes = min_t(u64, (flow->algo.W_q16 + 0xffff) >> 16, 1 << 30);
	return clamp(reciprocal_divide(W_bytes + mss - 1, flow->mss_recip), 1U,
		     tp->snd_cwnd_clamp);
}

/**
 * hpcc_set_rate() - pace at R = W / T
 * @sk: socket
 * @flow: its flow
 */
void hpcc_set_rate(struct sock *sk, const struct hpcc_flow *flow)
{
	u64 R = hpcc_pacing_rate(&flow->algo, &flow->params, NSEC_PER_SEC);

	WRITE_ONCE(sk->sk_pacing_rate,
		   clamp_t(u64, R, 1, READ_ONCE(sk->sk_max_pacing_rate)));
}

/**
 * hpcc_deny_credit() - pace what this ACK lets go
 * @tp: socket
 * @flow: its flow
 * @rs: what the ACK told; snd_cwnd is still that of before
 *
 * TCP lets a packet that leaves later than its pacing time shorten the gap to
 * the next one by up to half, to make up for late timers. Time spent waiting
 * for an ACK is no such thing: with that credit the trains that a window makes
 * keep their shape, and the pause between them costs throughput for good. TCP
 * holds back what is less than a burst: a window is used up when none fits.
 */
void hpcc_deny_credit(struct tcp_sock *tp, const struct hpcc_flow *flow,
		      const struct rate_sample *rs)
{
	if (rs->prior_in_flight + flow->burst_segs > tcp_snd_cwnd(tp))
		tp->tcp_wstamp_ns = max(tp->tcp_wstamp_ns, tp->tcp_clock_cache);
}

/**
 * hpcc_pace_again() - let a new R drain what is left of the packet interval
 * @tp: socket, its ACK being processed
 * @W_before_q16: W that the interval was paced by
 * @W_q16: W now
 *
 * The next packet's time was set when the last one left, by the R of then.
 * Where packets are few and far between that is a lag of a good part of T, and
 * many small windows together would swing.
 */
void hpcc_pace_again(struct tcp_sock *tp, u64 W_before_q16, u64 W_q16)
{
	u64 left_ns;

	if (tp->tcp_wstamp_ns <= tp->tcp_clock_cache || W_before_q16 == W_q16)
		return;
	left_ns = mul_u64_u64_div_u64(tp->tcp_wstamp_ns - tp->tcp_clock_cache,
				      W_before_q16, W_q16);
	tp->tcp_wstamp_ns = tp->tcp_clock_cache + left_ns;
	/* A queued timer holds a reference to the socket, which moves along. */
	if (hrtimer_try_to_cancel(&tp->pacing_timer) == 1)
		hrtimer_start(&tp->pacing_timer, ns_to_ktime(tp->tcp_wstamp_ns),
			      HRTIMER_MODE_ABS_PINNED_SOFT);
}

/**
 * hpcc_apply() - set what W asks for
 * @sk: socket
 * @flow: its flow
 * @rs: what the ACK told
 *
 * During the first round of a recovery no more leaves than what left the
 * network.
 */
void hpcc_apply(struct sock *sk, struct hpcc_flow *flow,
		const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = hpcc_cwnd(sk, flow);

	if (flow->conserving) {
		if (after(tp->snd_una, flow->conserve_seq))
			flow->conserving = false;
		else
			cwnd = min(cwnd, max(tcp_packets_in_flight(tp) +
					     rs->acked_sacked, 1U));
	}
	tcp_snd_cwnd_set(tp, cwnd);
	hpcc_cap_bursts(sk, flow, cwnd);
	hpcc_set_rate(sk, flow);
}
