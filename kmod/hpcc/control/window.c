// SPDX-License-Identifier: GPL-2.0
/*
 * W, and the settings of TCP that follow from it. Socket lock for all functions.
 *
 *	snd_cwnd = W / MSS, rounded up	(at least 1, paced at R)
 *	sk_pacing_rate = R = W / T
 */
#include "control/loss.h"
#include "control/receiver_ops.h"
#include "control/window.h"

/* With this many segments or more, ACKs can clock the packets. */
static const u32 hpcc_clocked_cwnd = 8;

/* W_min = W_init / 1024. The simulator of the draft's authors uses 1/1000 of the line rate. */
static const u32 hpcc_W_min_shift = 10;

/* W_min is also at least one packet per 16 RTTs. A path may need four requests until each hop has
 * written a record. With fewer packets, records of a link would be more than 64 T apart and measure
 * nothing, and W would never grow.
 */
static const u32 hpcc_W_min_mss_shift = 4;

/* A burst may always have the bytes that the host sends in this time, if T has this minimum. */
static const u32 hpcc_burst_host_ns = 8 * NSEC_PER_USEC;
static const u32 hpcc_burst_T_ns = 32 * NSEC_PER_USEC;

/* Set the burst length that is allowed even if the window is small. Short bursts cost timers and
 * passes through the stack, long bursts make queues longer. 8 us are a small part of a T of 32 us
 * or more. With a smaller T the window alone sets the length. @B_host: rate of the host, bytes/s.
 */
void hpcc_burst_follow_T(struct sock *sk, struct hpcc_flow *flow, u32 T_ns, u64 B_host)
{
	u64 bytes = T_ns < hpcc_burst_T_ns ? 0 :
		    mul_u64_u64_div_u64(B_host, hpcc_burst_host_ns, NSEC_PER_SEC);

	flow->burst.least = clamp_t(u64, div_u64(bytes, max(tcp_sk(sk)->mss_cache, 1U)), 1,
				    U16_MAX);
}

/**
 * hpcc_W_min() - the minimum of W
 * @sk: socket
 * @W_init_q16: W_init, bytes, Q16
 * @T_ns: T
 * @rtt_ns: minimum RTT, or the configured T
 * @base_rtt_ns: configured T; 0: T is measured
 * @start_rtt_ns: maximum of a measured T that raises W_min, because the peer can increase T
 * Return: bytes, Q16.
 */
u64 hpcc_W_min(const struct sock *sk, u64 W_init_q16, u32 T_ns, u32 rtt_ns, u32 base_rtt_ns,
	       u32 start_rtt_ns)
{
	u64 mss_q16;

	if (!base_rtt_ns && T_ns > start_rtt_ns)
		W_init_q16 = mul_u64_u64_div_u64(W_init_q16, start_rtt_ns, T_ns);
	mss_q16 = mul_u64_u64_div_u64((u64)tcp_sk(sk)->mss_cache << 16, T_ns, rtt_ns);
	return max(W_init_q16 >> hpcc_W_min_shift, mss_q16 >> hpcc_W_min_mss_shift);
}

/* With three segments and probes, two are in flight while the peer delays the ACK of the third. */
static const u32 hpcc_probed_cwnd = 3;

/* Number of segments to add for a delayed ACK. The peer may delay the ACK of one segment for 40 ms,
 * but not the ACK of two. A segment with a request also requests a prompt ACK; a probe does not.
 */
static u32 hpcc_unprompted(const struct hpcc_flow *flow, const struct tcp_sock *tp, u32 segs)
{
	if (flow->probes)
		return segs < hpcc_probed_cwnd;
	if (segs < 2)
		return READ_ONCE(flow->sent.prompt_end) != tp->snd_nxt;
	/* A window of this size may contain segments without a request. */
	return (u64)READ_ONCE(flow->sample_ns) * segs > flow->params.T;
}

/* W in segments. Return: W / MSS, rounded up, at least 1, at most the socket's snd_cwnd_clamp. */
u32 hpcc_cwnd(struct sock *sk, struct hpcc_flow *flow)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 mss = max_t(u32, tp->mss_cache, 1);
	u32 W_bytes, segs;

	if (unlikely(mss != flow->mss)) {
		flow->mss = mss;
		flow->mss_recip = reciprocal_value(mss);
	}
	/* TCP cannot have more than 2^30 bytes in flight. */
	W_bytes = min_t(u64, (flow->algo.W_q16 + 0xffff) >> 16, 1 << 30);
	segs = reciprocal_divide(W_bytes + mss - 1, flow->mss_recip);
	/* The receiver holds these segments without an ACK: they have left the network. */
	if (unlikely(flow->rx_window_active))
		segs += HPCC_RX_HELD + (segs >= HPCC_RX_MANY);
	if (segs < hpcc_clocked_cwnd)
		segs += hpcc_unprompted(flow, tp, segs);
	return clamp(segs, 1U, tp->snd_cwnd_clamp);
}

/* Flows with equal intervals stay synchronised, and keep a queue. So vary the intervals by up to
 * 1/8, but not above the interval of W_min.
 */
static u64 hpcc_dither(const struct hpcc_flow *flow, u64 R)
{
	s32 part = (s32)(get_random_u32() & 511) - 256;

	if (flow->algo.W_q16 - (flow->algo.W_q16 >> 3) < flow->params.W_min_q16)
		part = abs(part);
	return R + (s64)(R >> 11) * part;
}

/* Pace at R = W / T, or let ACKs clock a large window (net.hpcc.pace = 0). @clocked: ACKs arrive
 * for data in flight.
 */
void hpcc_set_rate(struct sock *sk, const struct hpcc_flow *flow, bool clocked)
{
	const struct hpcc_params *p = &flow->params;
	u64 R = hpcc_pacing_rate(&flow->algo, p, NSEC_PER_SEC);

	/* In slow start twice W / T, as in TCP: at W / T, a window that an ACK opens leaves one
	 * round trip later. If U is eta or more, W does not grow: a window below one segment would
	 * only get twice its share.
	 */
	if (hpcc_algo_is_slow(&flow->algo, p) && flow->algo.U_q24 < p->eta_q24)
		R = min(2 * R, hpcc_rate_of(p, p->W_max_q16, NSEC_PER_SEC));
	if (flow->unpaced && clocked && !flow->searching &&
	    tcp_snd_cwnd(tcp_sk(sk)) >= hpcc_clocked_cwnd)
		R = ~0UL;
	if (unlikely(flow->algo.W_q16 < (u64)flow->mss << 15))
		R = hpcc_dither(flow, R);

	WRITE_ONCE(sk->sk_pacing_rate, clamp_t(u64, R, 1, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* Whether TCP has packets to send that only cwnd holds back. */
static bool hpcc_holds_back(const struct tcp_sock *tp)
{
	u32 end = before(tp->write_seq, tcp_wnd_end(tp)) ? tp->write_seq : tcp_wnd_end(tp);

	return tp->lost_out > tp->retrans_out ||
	       (s32)(end - tp->snd_nxt) >= (s32)tp->mss_cache;
}

/* The cwnd during packet conservation: one packet may leave for each packet that has left the
 * network. The first ACK of a packet that was sent since then ends conservation, and W follows the
 * losses. In receiver mode the receiver computes W.
 */
static u32 hpcc_conserve(struct sock *sk, struct hpcc_flow *flow, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 kept = max(tcp_packets_in_flight(tp) + rs->acked_sacked, 1U);

	if (!rs->prior_mstamp || (s32)(rs->prior_delivered - flow->conserve_delivered) < 0)
		return min(hpcc_cwnd(sk, flow), kept);
	hpcc_conserve_end(flow);
	if (!flow->rx_window_active)
		hpcc_algo_lost(&flow->algo, &flow->params, flow->conserve_sent,
			       max_t(s32, hpcc_lost(tp, flow) - flow->conserve_lost, 0),
			       hpcc_holds_back(tp) ? kept : 0, tp->mss_cache);
	return hpcc_cwnd(sk, flow);
}

/* Whether to send a packet although W or more is in flight: no packet has left for 7/8 of a round
 * trip, so most of the last burst has arrived. If the path dropped the end of the burst, the ACK of
 * this packet shows the loss; otherwise only the timer of TCP's tail loss probe would, which is far
 * longer than the round trip of a data centre.
 */
static bool hpcc_is_silent(const struct sock *sk, u32 cwnd, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct sk_buff *last;

	if (tcp_packets_in_flight(tp) < cwnd || inet_csk(sk)->icsk_ca_state >= TCP_CA_Recovery)
		return false;
	last = tcp_rtx_queue_tail(sk);
	/* If fq still holds the packet, its time is in the future. */
	return last && rs->rtt_us > 0 &&
	       8 * (s64)(tp->tcp_mstamp - tcp_skb_timestamp_us(last)) > 7 * (s64)rs->rtt_us;
}

/* Set cwnd, burst limit and pacing rate from W. */
void hpcc_apply(struct sock *sk, struct hpcc_flow *flow, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = flow->conserving ? hpcc_conserve(sk, flow, rs) : hpcc_cwnd(sk, flow);

	tcp_snd_cwnd_set(tp, cwnd);
	hpcc_cap_bursts(sk, &flow->burst, cwnd, flow->searching);
	hpcc_set_rate(sk, flow, true);
	flow->dirty = !flow->conserving && hpcc_is_silent(sk, cwnd, rs);
	if (unlikely(flow->dirty))
		tcp_snd_cwnd_set(tp, tcp_packets_in_flight(tp) + 1);
}
