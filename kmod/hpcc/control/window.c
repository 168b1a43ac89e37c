// SPDX-License-Identifier: GPL-2.0
/*
 * From W to what TCP does:
 *
 *	snd_cwnd = W / MSS, rounded up	(at least 1)
 *	sk_pacing_rate = R = W / T
 *
 * A window below one segment is thus cwnd = 1, paced at R. Besides: room for
 * our options in each segment.
 */
#include <net/tcp.h>
#include <hpcc/carrier/ioam.h>

#include "control/cc.h"
#include "control/receiver.h"
#include "control/window.h"
#include "netns/net.h"

/* From this many segments on ACKs can clock what leaves. */
static const u32 hpcc_clocked_cwnd = 8;

/* W_min = W_init / 1024: the authors' simulator has 1/1000 of the line rate. */
static const u32 hpcc_W_min_shift = 10;

/* And a packet in 16 RTTs at least: a record more than 64 T behind the last one, of a path
 * that is read in up to four turns, measures nothing, and W would never come back.
 */
static const u32 hpcc_W_min_mss_shift = 4;

/* A burst's length by default, from which T on. */
static const u32 hpcc_burst_ns = 8 * NSEC_PER_USEC;
static const u32 hpcc_burst_T_ns = 32 * NSEC_PER_USEC;

/**
 * hpcc_window_begin() - set the bursts of a new flow
 * @sk: socket
 * @flow: its flow
 *
 * Context: socket lock, as all of this file.
 */
void hpcc_window_begin(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;

	hpcc_burst_init(sk, &flow->burst, READ_ONCE(sysctls->burst_segs),
			READ_ONCE(sysctls->burst_shift));
	hpcc_stamped_begin(tcp_sk(sk), &flow->stamped);
}

/**
 * hpcc_burst_follow_T() - set how many segments a burst may always have
 * @sk: socket
 * @flow: its flow
 * @T_ns: T
 * @B_host: bytes/s that the host sends
 *
 * This is what the host sends in net.hpcc.burst_ns. Each burst costs a timer and a way through the
 * stack, and adds its own length to queues. By default that is some us, which is little of a T of
 * 32 us and more; below that bursts have their part of the window only.
 */
void hpcc_burst_follow_T(struct sock *sk, struct hpcc_flow *flow, u32 T_ns, u64 B_host)
{
	u32 burst_ns = READ_ONCE(hpcc_pernet(sock_net(sk))->sysctls.burst_ns);
	u64 bytes;

	if (!burst_ns)
		burst_ns = T_ns < hpcc_burst_T_ns ? 0 : hpcc_burst_ns;
	bytes = mul_u64_u64_div_u64(B_host, burst_ns, NSEC_PER_SEC);
	flow->burst.least = clamp_t(u64, div_u64(bytes, max(tcp_sk(sk)->mss_cache, 1U)), 1,
				    U16_MAX);
}

/* Length of the IPv4 options that setsockopt() set. */
static u16 hpcc_ip_optlen(const struct sock *sk)
{
	const struct ip_options_rcu *opt =
		rcu_dereference_protected(inet_sk(sk)->inet_opt,
					  lockdep_sock_is_held(sk));

	return opt ? opt->opt.optlen : 0;
}

/**
 * hpcc_option_reserve() - how much room options need
 * @flow: a flow
 *
 * Return: bytes, for what FORWARD asks or for one record each way, and for an IOAM trace. No
 * multiple of 8, see hpcc_reserve_restore().
 */
u16 hpcc_option_reserve(const struct hpcc_flow *flow)
{
	u16 bytes = max(hpcc_opt_len(flow->slots), 2 * hpcc_opt_len(1));

	if (unlikely(flow->carrier == HPCC_CARRIER_IOAM))
		bytes += hpcc_ioam_header_len(flow->nodes);
	return bytes % 8 ? bytes : bytes + 4;
}

/**
 * hpcc_reserve() - keep room for options in each segment
 * @sk: socket
 * @flow: its flow
 * @bytes: how much; replaces what was kept before
 *
 * TCP takes icsk_ext_hdr_len off the MSS when it derives that from the path MTU. The path MTU
 * itself, icsk_pmtu_cookie, is TCP's: we only have TCP derive the MSS again.
 */
void hpcc_reserve(struct sock *sk, struct hpcc_flow *flow, u16 bytes)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	u16 old = flow->reserved;

	icsk->icsk_ext_hdr_len += bytes - old;
	flow->reserved = bytes;
	flow->ext_hdr_len = icsk->icsk_ext_hdr_len;
	flow->ip_optlen = hpcc_ip_optlen(sk);
	if (bytes != old)
		icsk->icsk_sync_mss(sk, icsk->icsk_pmtu_cookie);
}

/**
 * hpcc_reserve_restore() - keep the room where setsockopt() took it back
 * @sk: socket
 * @flow: its flow
 *
 * setsockopt() of IPv4 options adds to icsk_ext_hdr_len by how much longer they
 * became; that of IPv6 extension headers overwrites it with their length,
 * also where an AF_INET6 socket talks IPv4. Their lengths are multiples of 8
 * and hpcc_option_reserve() is none, so that one is not taken for the other.
 */
void hpcc_reserve_restore(struct sock *sk, struct hpcc_flow *flow)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	u16 bytes;

	if (likely(icsk->icsk_ext_hdr_len == flow->ext_hdr_len))
		return;
	bytes = flow->reserved;
	if (icsk->icsk_ext_hdr_len !=
	    (u16)(flow->ext_hdr_len + hpcc_ip_optlen(sk) - flow->ip_optlen))
		flow->reserved = 0;
	hpcc_reserve(sk, flow, bytes);
}

/**
 * hpcc_W_min() - the least W
 * @sk: socket
 * @W_init_q16: W_init, bytes, Q16
 * @T_ns: T
 * @rtt_ns: smallest RTT, or T as configured
 * @base_rtt_ns: T as configured; 0: measured
 * @start_rtt_ns: the peer sets a measured T: one beyond this does not raise W_min further
 *
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

/* Segments of a window with probes whose ACKs a delayed ACK can hold up: those of three leave
 * two in flight while the peer delays the third.
 */
static const u32 hpcc_probed_cwnd = 3;

/* How many segments may wait for a delayed ACK. The peer may delay the ACK of one segment for
 * 40 ms; that of two it does not. A segment that carries a request asks for an ACK at once;
 * probes ask for none of data.
 */
static u32 hpcc_unprompted(const struct hpcc_flow *flow, const struct tcp_sock *tp, u32 segs)
{
	if (flow->probes)
		return segs < hpcc_probed_cwnd;
	if (segs < 2)
		return READ_ONCE(flow->prompt_end) != tp->snd_nxt;
	/* Not each segment of a window of this size carries a request. */
	return (u64)READ_ONCE(flow->sample_ns) * segs > flow->params.T;
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
	u32 W_bytes, segs;

	if (unlikely(mss != flow->mss)) {
		flow->mss = mss;
		flow->mss_recip = reciprocal_value(mss);
	}
	/* TCP cannot have more than 2^30 bytes in flight. */
	W_bytes = min_t(u64, (flow->algo.W_q16 + 0xffff) >> 16, 1 << 30);
	segs = reciprocal_divide(W_bytes + mss - 1, flow->mss_recip);
	/* What the receiver got and did not acknowledge yet is not in the network. */
	if (unlikely(flow->rx_window_active))
		segs += HPCC_RX_HELD + (segs >= HPCC_RX_MANY);
	if (segs < hpcc_clocked_cwnd)
		segs += hpcc_unprompted(flow, tp, segs);
	return clamp(segs, 1U, tp->snd_cwnd_clamp);
}

/* Flows that send a packet each in equal gaps stay in step for ever, and those that are in step
 * keep a queue: have gaps differ by up to 1/8. Nobody waits for longer than with W_min.
 */
static u64 hpcc_dither(const struct hpcc_flow *flow, u64 R)
{
	s32 part = (s32)(get_random_u32() & 511) - 256;

	if (flow->algo.W_q16 - (flow->algo.W_q16 >> 3) < flow->params.W_min_q16)
		part = abs(part);
	return R + (s64)(R >> 11) * part;
}

/**
 * hpcc_set_rate() - pace at R = W / T
 * @sk: socket
 * @flow: its flow
 * @clocked: ACKs come for what is in flight
 *
 * While W grows in slow start R is twice that, so that W can double in a round trip; but not more
 * than W_init / T, the host's rate.
 * Without pacing (net.hpcc.pace = 0) ACKs clock the packets, where W has found its place
 * and has some segments. With less than half a segment R differs from W / T by 1/8 at most.
 */
void hpcc_set_rate(struct sock *sk, const struct hpcc_flow *flow, bool clocked)
{
	const struct hpcc_params *p = &flow->params;
	u64 R = hpcc_pacing_rate(&flow->algo, p, NSEC_PER_SEC);

	/* As TCP does: at W / T, the window that an ACK allows leaves a round trip later. At eta
	 * and above W does not grow: a window below one segment would only take twice its share.
	 */
	if (hpcc_algo_is_slow(&flow->algo, p) && flow->algo.U_q24 < p->eta_q24)
		R = min(2 * R, hpcc_rate_of(p, p->W_max_q16, NSEC_PER_SEC));
	if (flow->unpaced && clocked && !flow->searching &&
	    tcp_snd_cwnd(tcp_sk(sk)) >= hpcc_clocked_cwnd)
		R = ~0UL;
	if (unlikely(flow->algo.W_q16 < (u64)flow->mss << 15))
		R = hpcc_dither(flow, R);

	WRITE_ONCE(sk->sk_pacing_rate,
		   clamp_t(u64, R, 1, READ_ONCE(sk->sk_max_pacing_rate)));
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
		if (rs->prior_mstamp &&
		    (s32)(rs->prior_delivered - flow->conserve_delivered) >= 0)
			hpcc_conserve_end(flow);
		else
			cwnd = min(cwnd, max(tcp_packets_in_flight(tp) +
					     rs->acked_sacked, 1U));
	}
	tcp_snd_cwnd_set(tp, cwnd);
	hpcc_cap_bursts(sk, &flow->burst, cwnd, flow->searching);
	hpcc_set_rate(sk, flow, true);
	flow->dirty = false;
}
