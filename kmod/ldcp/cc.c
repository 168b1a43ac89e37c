// SPDX-License-Identifier: GPL-2.0
/*
 * Congestion control "ldcp": per-ACK window adjustment (PAWA, draft section 2.2) from the ECN-Echo
 * of each packet.
 *
 *	snd_cwnd = cw, rounded down	(at least 1)
 *	cw < 1: one packet each RTT / cw, at random
 *
 * Without ECN, or if losses occur without a mark between them (ECT bleached, CE cleared, a switch
 * that only drops), the socket runs "ldcp-classic", Reno's response; ss and getsockopt() show this
 * name. If ECN was negotiated, the socket returns to ldcp at the next ACK that reports a mark. The
 * receiver's part is the same in ldcp and ldcp-classic.
 */
#include <linux/module.h>
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "../common/info.h"
#include "../common/peek.h"
#include "conn.h"

#define CREATE_TRACE_POINTS
#include "events.h"

/* Number of losses in a row without a mark that cause the change to classic. */
static const u8 ldcp_blind_losses_max = 2;

static u32 ldcp_cwnd(const struct tcp_sock *tp, const struct ldcp_ca *ca)
{
	return clamp_t(u64, ca->cw_q24 >> LDCP_CW_BITS, 1, tp->snd_cwnd_clamp);
}

/* In recovery one retransmission may leave regardless of the window: TCP counts the packets after
 * the lost one as in flight until the ACK of this retransmission, but they may be lost, too.
 */
static u32 ldcp_repair_cwnd(const struct sock *sk, u32 cwnd)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (likely(!tp->lost_out) || tp->retrans_out)
		return cwnd;
	return max(cwnd, tcp_packets_in_flight(tp) + 1);
}

/* RTT from the last transmission of the packet. (rs->rtt_us may come from a timestamp in ms.)
 * During overload most packets are retransmissions, and give the only samples of the current RTT.
 */
static void ldcp_sample_rtt(const struct tcp_sock *tp, struct ldcp_ca *ca,
			    const struct rate_sample *rs)
{
	if (rs->prior_mstamp)
		ca->rtt_us = min_t(u64, tp->tcp_mstamp - tp->first_tx_mstamp, U32_MAX);
}

/* Send the next packet RTT / cw after the last packet, on average. cwnd is 1, so TCP paces at the
 * application's rate.
 */
static void ldcp_tick(struct sock *sk, struct ldcp_ca *ca)
{
	const struct ldcp_sysctls *sysctls = &ldcp_pernet(sock_net(sk))->sysctls;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 T_ns = hpcc_base_rtt_ns(sk, READ_ONCE(sysctls->base_rtt_ns));
	u64 sent_ns = tp->tcp_clock_cache - (tp->tcp_mstamp - tp->first_tx_mstamp) * NSEC_PER_USEC;
	u64 tick_ns = ldcp_tick_ns(ldcp_tick_rtt_ns(T_ns, ca->rtt_us),
				   ca->cw_q24, get_random_u32());

	ca->ticking = true;
	tick_ns = max(tick_ns, hpcc_app_gap_ns(sk));
	hpcc_pace_at(tp, &ca->stamped, max(sent_ns + tick_ns, tp->tcp_clock_cache));
}

/* With a window of one segment or more, ACKs release segments. Only SO_MAX_PACING_RATE can still
 * delay segments.
 */
static void ldcp_stop_ticking(struct sock *sk, struct ldcp_ca *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!ca->ticking)
		return;
	ca->ticking = false;
	hpcc_pace_at(tp, &ca->stamped,
		     min(tp->tcp_wstamp_ns, tp->tcp_clock_cache + hpcc_app_gap_ns(sk)));
}

static void ldcp_apply(struct sock *sk, struct ldcp_ca *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	unsigned long max_rate = READ_ONCE(sk->sk_max_pacing_rate);
	u32 cwnd = ldcp_cwnd(tp, ca);

	if (sk->sk_pacing_rate != max_rate)
		WRITE_ONCE(sk->sk_pacing_rate, max_rate);
	tcp_snd_cwnd_set(tp, ldcp_repair_cwnd(sk, cwnd));
	/* In the start phase each packet needs its own ECN field. */
	hpcc_cap_bursts(sk, &ca->burst, ca->stage == LDCP_START ? 1 : cwnd, true);
	if (ca->cw_q24 < LDCP_ONE_Q24)
		ldcp_tick(sk, ca);
	else
		ldcp_stop_ticking(sk, ca);
}

/* Before the SYN-ACK the result of the negotiation is unknown. */
static bool ldcp_has_ecn(const struct sock *sk)
{
	return sk->sk_state != TCP_SYN_SENT && tcp_ecn_mode_any(tcp_sk(sk));
}

/* If TCP_CONG_NEEDS_ECN is set, TCP reports the CE bit of each arriving segment, and sets ECT. */
static void ldcp_run(struct sock *sk, bool classic, enum ldcp_counter why)
{
	const struct tcp_congestion_ops *ops = &ldcp_ops;

	if (classic)
		ops = ldcp_has_ecn(sk) ? &ldcp_classic_ops : &ldcp_no_ecn_ops;
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, ops);
	ldcp_count(sk, why, 1);
}

static void ldcp_to_classic(struct sock *sk, struct ldcp_ca *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->blind_losses = 0;
	/* Classic's response to the last loss: half of the window. */
	tp->snd_ssthresh = max_t(u64, ca->cw_undo_q24 >> (LDCP_CW_BITS + 1), 2);
	hpcc_pacing_restore(sk, &ca->burst, &ca->stamped);
	ldcp_run(sk, true, LDCP_C_FALLBACKS);
}

static void ldcp_to_marks(struct sock *sk, struct ldcp_ca *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->cw_q24 = (u64)tcp_snd_cwnd(tp) << LDCP_CW_BITS;
	ca->prior_delivered = tp->delivered;
	ca->prior_delivered_ce = tp->delivered_ce;
	hpcc_pacing_begin(sk, &ca->burst);
	ldcp_run(sk, false, LDCP_C_RETURNS);
}

/* cw grows only if the connection has used the whole window. */
static void ldcp_adjust(struct sock *sk, struct ldcp_ca *ca, u32 clean, u32 marked)
{
	bool was_one = ca->cw_q24 >= LDCP_ONE_Q24;

	if (clean && tcp_is_cwnd_limited(sk))
		ca->cw_q24 = ldcp_grant(&ca->params, ca->cw_q24, clean);
	if (marked)
		ca->cw_q24 = ldcp_revoke(&ca->params, ca->cw_q24, marked);
	if (was_one && ca->cw_q24 < LDCP_ONE_Q24)
		ldcp_count(sk, LDCP_C_BELOW_ONE, 1);
}

static void ldcp_cong_control(struct sock *sk, HPCC_CONG_CONTROL_ACK const struct rate_sample *rs)
{
	struct ldcp_ca *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 delivered = tp->delivered - ca->prior_delivered;
	u32 marked = tp->delivered_ce - ca->prior_delivered_ce;

	/* TCP may call this before init(). */
	if (unlikely(ca->stage == LDCP_OFF))
		return;
	ca->prior_delivered = tp->delivered;
	ca->prior_delivered_ce = tp->delivered_ce;
	ldcp_sample_rtt(tp, ca, rs);
	marked = min(marked, delivered);
	if (marked) {
		ca->blind_losses = 0;
		ldcp_count(sk, LDCP_C_MARKED, marked);
	}
	if (unlikely(ca->blind_losses >= ldcp_blind_losses_max)) {
		ldcp_to_classic(sk, ca);
		return;
	}
	if (unlikely(ca->stage == LDCP_START))
		ldcp_start_ack(sk, ca, marked);
	if (ca->stage == LDCP_STABLE)
		ldcp_adjust(sk, ca, delivered - marked, marked);
	ldcp_apply(sk, ca);
	trace_ldcp_ack(sk, ca, delivered, marked);
}

static void ldcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct ldcp_ca *ca = inet_csk_ca(sk);

	if (event != CA_EVENT_ECN_IS_CE && event != CA_EVENT_ECN_NO_CE)
		return;
	if (tcp_ecn_mode_rfc3168(tcp_sk(sk)))
		ldcp_echo(sk, ca, event == CA_EVENT_ECN_IS_CE);
	/* With AccECN TCP counts marks itself; we only send the ACK immediately. */
	else if (event == CA_EVENT_ECN_IS_CE)
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
}

static void ldcp_lost(struct sock *sk, struct ldcp_ca *ca)
{
	ca->cw_undo_q24 = ca->cw_q24;
	if (ca->stage == LDCP_START) {
		ldcp_start_lost(sk, ca);
		return;
	}
	ca->cw_q24 = max_t(u64, ca->cw_q24 / 2, ca->params.cw_min_q24);
	ca->blind_losses++;
	ldcp_count(sk, LDCP_C_LOSSES, 1);
}

static void ldcp_set_state(struct sock *sk, u8 new_state)
{
	struct ldcp_ca *ca = inet_csk_ca(sk);

	if (ca->stage == LDCP_OFF)
		return;
	if (new_state == TCP_CA_Recovery) {
		ldcp_lost(sk, ca);
	} else if (new_state == TCP_CA_Loss) {
		if (inet_csk(sk)->icsk_ca_state < TCP_CA_Recovery)
			ldcp_lost(sk, ca);
		ca->cw_q24 = min_t(u64, ca->cw_q24, LDCP_ONE_Q24);
		ldcp_count(sk, LDCP_C_TIMEOUTS, 1);
	} else if (new_state == TCP_CA_CWR && hpcc_tlp_repaired(&ca->tlp, tcp_sk(sk))) {
		ldcp_lost(sk, ca);
	}
}

static void ldcp_in_ack_event(struct sock *sk, u32 flags)
{
	struct ldcp_ca *ca = inet_csk_ca(sk);

	hpcc_tlp_ack(&ca->tlp, tcp_sk(sk));
}

/* 2 prevents slow start, in which TCP counts a window as used up when half of it is in flight. */
static u32 ldcp_ssthresh(struct sock *sk)
{
	return 2;
}

static u32 ldcp_undo_cwnd(struct sock *sk)
{
	struct ldcp_ca *ca = inet_csk_ca(sk);

	if (ca->stage == LDCP_OFF)
		return tcp_snd_cwnd(tcp_sk(sk));
	ca->cw_q24 = max(ca->cw_q24, ca->cw_undo_q24);
	ca->blind_losses = 0;
	return ldcp_cwnd(tcp_sk(sk), ca);
}

static u32 ldcp_tso_segs(HPCC_TSO_SEGS_ARGS)
{
	return hpcc_burst_segs(sk, 1);
}

static u32 ldcp_sndbuf_expand(struct sock *sk)
{
	/* As in BBR: the send buffer has space for two windows while the window grows. */
	return 3;
}

static u32 ldcp_q24(unsigned int permille)
{
	return div_u64((u64)permille << LDCP_CW_BITS, 1000);
}

/* In LDCP_OFF, before the module is set up (main.c), a mark does not end ldcp-classic. */
static void ldcp_init(struct sock *sk)
{
	const struct ldcp_sysctls *sysctls;
	struct ldcp_ca *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	*ca = (struct ldcp_ca){
		.prior_rcv_nxt = tp->rcv_nxt,
		/* no ACK is delayed for earlier data */
		.prior_segs_out = tp->segs_out - 1,
	};
	if (unlikely(!ldcp_is_up())) {
		WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &ldcp_no_ecn_ops);
		return;
	}
	sysctls = &ldcp_pernet(sock_net(sk))->sysctls;
	hpcc_pacing_init(sk, &ca->burst, READ_ONCE(sysctls->burst_segs), &ca->stamped);
	if (!ldcp_has_ecn(sk)) {
		ldcp_run(sk, true, LDCP_C_NO_ECN);
		return;
	}
	ca->params = (struct ldcp_params){
		.alpha_q24 = ldcp_q24(READ_ONCE(sysctls->alpha_permille)),
		.beta_q24 = ldcp_q24(READ_ONCE(sysctls->beta_permille)),
		.gamma_q24 = ldcp_q24(READ_ONCE(sysctls->gamma_permille)),
	};
	ca->params.cw_min_q24 =
		min(ldcp_q24(READ_ONCE(sysctls->cw_min_permille)), ca->params.gamma_q24);
	ca->prior_delivered = tp->delivered;
	ca->prior_delivered_ce = tp->delivered_ce;
	ca->cw_q24 = (u64)tcp_snd_cwnd(tp) << LDCP_CW_BITS;
	ca->stage = LDCP_STABLE;
	/* The first RTT may be over (setsockopt()). If T and IW are not configured, they depend on
	 * the duration of the handshake, which the peer controls.
	 */
	if (READ_ONCE(sysctls->fast_start) && !tp->data_segs_out &&
	    (READ_ONCE(sysctls->iw_segs) ||
	     hpcc_starts_at_line_rate(sk, READ_ONCE(sysctls->base_rtt_ns),
				      READ_ONCE(sysctls->start_rtt_ns))))
		ldcp_start_init(sk, ca);
	tp->snd_ssthresh = ldcp_ssthresh(sk);
	tcp_snd_cwnd_set(tp, ldcp_cwnd(tp, ca));
	hpcc_cap_bursts(sk, &ca->burst, ca->stage == LDCP_START ? 1 : tcp_snd_cwnd(tp), true);
	hpcc_pacing_begin(sk, &ca->burst);
	WRITE_ONCE(sk->sk_pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));
	ldcp_count(sk, LDCP_C_FLOWS, 1);
}

static void ldcp_release(struct sock *sk)
{
	struct ldcp_ca *ca = inet_csk_ca(sk);

	if (ca->stage == LDCP_START)
		ldcp_start_allow_reordering(sk);
	if (ca->burst.segs)
		hpcc_pacing_restore(sk, &ca->burst, &ca->stamped);
	ca->stage = LDCP_OFF;
	/* The socket may connect again: its SYN must then request ECN. */
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &ldcp_ops);
}

/* Called without the socket lock. bw is cw in an RTT, min_rtt is the RTT for the ticks of windows
 * below one segment, pacing_gain is cw, cwnd_gain is cw_min.
 */
static size_t ldcp_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct ldcp_ca *ca = inet_csk_ca(sk);
	const struct ldcp_sysctls *sysctls;
	u64 cw_q24, bytes, rtt_ns;

	if (!hpcc_info_is_wanted(ext) || !ldcp_is_up() || READ_ONCE(ca->stage) == LDCP_OFF)
		return 0;
	sysctls = &ldcp_pernet(sock_net(sk))->sysctls;
	/* icsk_ca_priv may belong to another congestion control: do not reveal its pointers. */
	cw_q24 = min_t(u64, hpcc_peek(ca->cw_q24), LDCP_CW_MAX_Q24);
	bytes = mul_u64_u32_shr(cw_q24, tcp_sk(sk)->mss_cache, LDCP_CW_BITS);
	rtt_ns = ldcp_tick_rtt_ns(hpcc_base_rtt_ns(sk, READ_ONCE(sysctls->base_rtt_ns)),
				  hpcc_peek(ca->rtt_us));
	return hpcc_info_put(info, attr,
			     div64_u64(min_t(u64, bytes, U32_MAX) * NSEC_PER_SEC, rtt_ns),
			     rtt_ns, cw_q24 >> (LDCP_CW_BITS - 8),
			     hpcc_peek(ca->params.cw_min_q24) >> (LDCP_CW_BITS - 8));
}

struct tcp_congestion_ops ldcp_ops __read_mostly = {
	.init		= ldcp_init,
	.release	= ldcp_release,
	.cong_control	= ldcp_cong_control,
	.in_ack_event	= ldcp_in_ack_event,
	.cwnd_event	= ldcp_cwnd_event,
	.set_state	= ldcp_set_state,
	.ssthresh	= ldcp_ssthresh,
	.undo_cwnd	= ldcp_undo_cwnd,
	.HPCC_TSO_SEGS	= ldcp_tso_segs,
	.sndbuf_expand	= ldcp_sndbuf_expand,
	.get_info	= ldcp_get_info,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "ldcp",
};

static void ldcp_classic_in_ack_event(struct sock *sk, u32 flags)
{
	struct ldcp_ca *ca = inet_csk_ca(sk);

	if (ca->stage == LDCP_STABLE && flags & CA_ACK_ECE)
		ldcp_to_marks(sk, ca);
}

/* Not registered: ldcp_run() selects it. */
struct tcp_congestion_ops ldcp_classic_ops __read_mostly = {
	.release	= ldcp_release,
	.in_ack_event	= ldcp_classic_in_ack_event,
	.cwnd_event	= ldcp_cwnd_event,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "ldcp-classic",
};

/* As ldcp_classic_ops, but without TCP_CONG_NEEDS_ECN. */
struct tcp_congestion_ops ldcp_no_ecn_ops __read_mostly;

/* Set up the callbacks for connections without ECN. */
void __init ldcp_cc_init(void)
{
	ldcp_no_ecn_ops = ldcp_classic_ops;
	ldcp_no_ecn_ops.flags &= ~TCP_CONG_NEEDS_ECN;
}
