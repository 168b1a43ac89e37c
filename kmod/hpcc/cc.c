// SPDX-License-Identifier: GPL-2.0
/*
 * Congestion control "hpcc": from telemetry to window and pacing rate.
 *
 * For each ACK, hpcc_cong_control() takes the newest records out of the flow's
 * mailbox, unwraps their counters, runs NewAck of <hpcc/algo.h>, and has
 * window.c tell TCP about the W and R that come out.
 *
 * Two sets of callbacks share the state. "hpcc" is the algorithm. Where the
 * peer did not agree, where memory was short, while no telemetry arrives,
 * or where packets are lost that no link with telemetry explains, the socket
 * runs "hpcc-classic": Reno's response, as tcp_dctcp falls back, which ss and
 * getsockopt then show. It returns with a record that arrives after some round
 * trips: <hpcc/fallback.h> has the rules.
 *
 * Loss: recovery conserves packets for one round, then W rules again, since
 * telemetry and not loss tells the load. After an RTO W restarts from one
 * segment, after a return from classic's window, and grows as in slow start. CE: Wc
 * is reduced by 1/8, so that a queue that does not stamp is heard as well.
 */
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "../common/device.h"
#include "cc.h"
#include "handshake.h"
#include "mailbox.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* Telemetry has stopped after this many ACKs of new data, and RTTs, without. */
static const u32 hpcc_silent_acks = 8;
static const u32 hpcc_silent_rtts = 4;

/* IDENTIFY for each option's worth of hops: twice, as one may be lost. Then, for
 * each hop that did not answer, some more; a switch may not know the answer.
 */
static const u8 hpcc_identify_tries = 2;
static const u8 hpcc_identify_again = 64;

static const u32 hpcc_ecn_shift = 3;

/* W_min = W_init / 1024: the authors' simulator has 1/1000 of the line rate. */
static const u32 hpcc_W_min_shift = 10;

/* And a packet in 16 T at least: a record more than 64 T behind the last one, of a path
 * that is read in up to four turns, measures nothing, and W would never come back.
 */
static const u32 hpcc_W_min_mss_shift = 4;

static struct hpcc_flow *hpcc_flow_of(const struct sock *sk)
{
	const struct hpcc_ca *ca = inet_csk_ca(sk);

	return ca->flow;
}

/* ---- Parameters of a connection -------------------------------------- */

/* (Re)compute what follows from T: W_init = B_host * T,
 * W_ai = W_init * (1 - eta) / N, and the units of FORWARD.
 *
 * Range: B_host * T up to 1 Tbit/s * 1 s is 2^37 bytes, so Q16 has 2^53.
 */
static void hpcc_set_T(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;
	u32 eta_permille = READ_ONCE(sysctls->eta_permille);
	u32 w_ai_bytes = READ_ONCE(sysctls->w_ai_bytes);
	u64 W_init_q16;
	u64 W_ai_q16;
	u64 B_host;
	u8 scale;

	flow->min_rtt_us = tcp_min_rtt(tcp_sk(sk));
	WRITE_ONCE(flow->T_ns, hpcc_base_rtt_ns(sk, READ_ONCE(sysctls->base_rtt_ns)));
	B_host = hpcc_host_rate(sk, READ_ONCE(sysctls->host_mbps));
	W_init_q16 = mul_u64_u64_div_u64(B_host, (u64)flow->T_ns << 16,
					 NSEC_PER_SEC);
	W_init_q16 = max_t(u64, W_init_q16, (u64)tcp_sk(sk)->mss_cache << 16);
	flow->fallback.window = div_u64(W_init_q16 >> 16,
					max(tcp_sk(sk)->mss_cache, 1U));
	W_ai_q16 = w_ai_bytes ? (u64)w_ai_bytes << 16 :
		   div_u64(div_u64(W_init_q16 * (1000 - eta_permille), 1000),
			   READ_ONCE(sysctls->n_flows));
	hpcc_params_init(&flow->params, flow->T_ns, W_init_q16,
			 max_t(u64, W_init_q16 >> hpcc_W_min_shift,
			       (u64)tcp_sk(sk)->mss_cache << 16 >>
			       hpcc_W_min_mss_shift), W_ai_q16,
			 div_u64((u64)eta_permille << 24, 1000),
			 READ_ONCE(sysctls->max_stage));

	scale = hpcc_scale_for(flow->T_ns);
	spin_lock_bh(&flow->lock);
	flow->scale = scale;
	WRITE_ONCE(flow->scales, flow->scales | BIT(scale));
	spin_unlock_bh(&flow->lock);
}

/* T changed, and W_init with it: W has to stay within, or R = W/T would exceed
 * the host's rate until telemetry comes.
 */
static void hpcc_change_T(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_algo *algo = &flow->algo;

	hpcc_set_T(sk, flow);
	algo->W_q16 = hpcc_clamp_wind(&flow->params, algo->W_q16);
	algo->Wc_q16 = hpcc_clamp_wind(&flow->params, algo->Wc_q16);
}

/* ---- What ACKs tell ---------------------------------------------------- */

/* RTT of an ACK, or TCP's average where it has none (-1). */
static u32 hpcc_rtt_us(const struct tcp_sock *tp, long rtt_us)
{
	return rtt_us < 0 ? tp->srtt_us >> 3 : rtt_us;
}

/* Ask the switches who they are. */
static void hpcc_identify(struct hpcc_flow *flow)
{
	spin_lock_bh(&flow->lock);
	memset(flow->identity, 0, sizeof(flow->identity));
	flow->identify_left = hpcc_identify_tries *
			      DIV_ROUND_UP(flow->hops, flow->slots);
	flow->identify_again = hpcc_identify_again;
	spin_unlock_bh(&flow->lock);
}

static void hpcc_count_ack(const struct sock *sk, u32 bits)
{
	struct net *net = sock_net(sk);

	if (bits & HPCC_ACK_TS_BACK)
		hpcc_count(net, HPCC_C_TS_BACK_IGNORED);
	if (bits & (HPCC_ACK_TX_EXCESS | HPCC_ACK_TX_BACK))
		hpcc_count(net, HPCC_C_TX_EXCESS_IGNORED);
	if (bits & HPCC_ACK_PATH)
		hpcc_count(net, HPCC_C_PATH_CHANGES);
}

/* Count the packets that the peer got twice, as its DSACKs say: they were only late. The
 * peer cannot have got more packets twice than TCP has sent twice so far; a larger number is
 * forgotten, so that it hides no later loss. Called for each ACK, before hpcc_probe_ack().
 */
static void hpcc_note_late(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	u32 dsacks = tp->dsack_dups - flow->probe.dsacks;

	/* More came twice than were sent twice: the path duplicates packets. */
	if (dsacks && tp->dsack_dups > tp->total_retrans)
		flow->duplicates = true;
	if (dsacks && !flow->duplicates)
		flow->late = min(flow->late + dsacks, tp->total_retrans);
}

/* Packets lost: sent again or about to be, less those that were only late. */
static u32 hpcc_lost(const struct tcp_sock *tp, const struct hpcc_flow *flow)
{
	u32 marked = tp->lost_out - min(tp->retrans_out, tp->lost_out);

	return tp->total_retrans + marked - flow->late;
}

/* Count losses from now on. */
static void hpcc_watch_loss(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	hpcc_fallback_start(&flow->fallback, &flow->algo,
			    tp->tcp_mstamp * NSEC_PER_USEC, tp->delivered,
			    hpcc_lost(tp, flow));
}

/* ---- From hpcc to classic and back ----------------------------------- */

static void hpcc_run_classic(struct sock *sk, enum hpcc_counter why)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &hpcc_classic_ops);
	hpcc_count(sock_net(sk), why);
}

static void hpcc_take_over(struct sock *sk, struct hpcc_flow *flow)
{
	hpcc_pacing_begin(sk, &flow->burst);
	tcp_snd_cwnd_set(tcp_sk(sk), hpcc_cwnd(sk, flow));
	hpcc_cap_bursts(sk, &flow->burst, tcp_snd_cwnd(tcp_sk(sk)));
	hpcc_set_rate(sk, flow);
}

static void hpcc_to_classic(struct sock *sk, struct hpcc_flow *flow,
			    enum hpcc_counter why, u32 least, u32 ssthresh)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_ssthresh = max(ssthresh, 2U);
	/* In recovery as well: W would let TCP send again at once all that was lost. */
	tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp), tp->snd_ssthresh));
	hpcc_algo_forget(&flow->algo);
	hpcc_fallback_leave(&flow->fallback, least, hpcc_lost(tp, flow));
	flow->classic_seq = tp->snd_nxt;
	hpcc_hand_over(sk, &flow->burst);
	hpcc_run_classic(sk, why);
}

static void hpcc_to_telemetry(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	flow->silent_acks = 0;
	flow->doubt = false;
	flow->conserving = false;
	hpcc_algo_forget(&flow->algo);
	hpcc_watch_loss(tp, flow);
	hpcc_algo_restart(&flow->algo, &flow->params,
			  (u64)tcp_snd_cwnd(tp) * tp->mss_cache << 16);
	hpcc_algo_slow(&flow->algo);
	flow->classic_cwnd = tcp_snd_cwnd(tp);
	/* Where nothing is in flight TCP does not call hpcc_cong_control(). */
	hpcc_take_over(sk, flow);
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &hpcc_ops);
	hpcc_count(sock_net(sk), HPCC_C_RETURNS);
}

/* Whether an ACK tells of losses that no link with telemetry explains. */
static bool hpcc_unseen_loss(const struct tcp_sock *tp, struct hpcc_flow *flow,
			     const struct rate_sample *rs)
{
	return rs->prior_mstamp &&
	       hpcc_fallback_ack(&flow->fallback, &flow->algo,
				 tp->tcp_mstamp * NSEC_PER_USEC,
				 rs->prior_delivered, tp->delivered,
				 hpcc_lost(tp, flow), tp->snd_una);
}

/* Whether data have been acknowledged for a while without telemetry of use. */
static bool hpcc_silent(const struct tcp_sock *tp, struct hpcc_flow *flow,
			const struct rate_sample *rs)
{
	if (!rs->acked_sacked)
		return false;
	if (!flow->silent_acks++)
		flow->silent_since_us = tp->tcp_mstamp;
	return flow->silent_acks > hpcc_silent_acks &&
	       tp->tcp_mstamp - flow->silent_since_us >
	       hpcc_silent_rtts * (u64)(tp->srtt_us >> 3);
}

/* ---- Callbacks of hpcc ----------------------------------------------- */

static void hpcc_cong_control(struct sock *sk, HPCC_CONG_CONTROL_ACK
			      const struct rate_sample *rs)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	bool told;
	u64 before_q16;
	u32 bits = HPCC_ACK_NO_SAMPLE;
	u32 rtt_us;
	u32 n;

	/* TCP may ask before init() was called. */
	if (unlikely(!flow))
		return;
	hpcc_reserve_again(sk, flow);
	hpcc_deny_credit(tp, &flow->burst, rs);
	if (unlikely(tcp_min_rtt(tp) != flow->min_rtt_us))
		hpcc_change_T(sk, flow);

	before_q16 = flow->algo.W_q16;
	told = READ_ONCE(flow->mail_fresh);
	rtt_us = hpcc_rtt_us(tp, rs->rtt_us);
	n = hpcc_take_mail(sk, flow, rtt_us);
	if (n) {
		bits = hpcc_new_ack(&flow->algo, &flow->params,
				    flow->sample, n, tp->snd_una, tp->snd_nxt);
		hpcc_note_seen(flow, tp->tcp_mstamp, rtt_us, n);
		if (unlikely(bits & ~(u32)HPCC_ACK_UPDATE)) {
			hpcc_count_ack(sk, bits);
			if (bits & (HPCC_ACK_FIRST | HPCC_ACK_PATH))
				hpcc_identify(flow);
		}
	}
	/* Where all records are ignored, or each is of another link than the one
	 * before, W would stay as it is for as long as that goes on. The first record of
	 * a link measures nothing, but it is not silence: the next one can be measured
	 * against it.
	 */
	if (likely(!(bits & HPCC_ACK_NO_SAMPLE)) || flow->skipped) {
		flow->doubt = false;
		flow->silent_acks = 0;
	} else if (!(bits & HPCC_ACK_NEW)) {
		flow->doubt |= n > 0;
		if (unlikely(hpcc_silent(tp, flow, rs))) {
			flow->doubt |= told;
			/* Nothing told that the path takes less. */
			hpcc_to_classic(sk, flow, HPCC_C_FALLBACKS,
					HPCC_HOLD_SILENCE, tcp_snd_cwnd(tp));
			return;
		}
	}
	if (unlikely(hpcc_unseen_loss(tp, flow, rs))) {
		/* Half of what got through, as Reno answers a loss; after a return that
		 * failed no more than classic had before, so that a try takes nothing from others.
		 */
		u32 window = max(hpcc_fallback_got(&flow->fallback,
						   tp->delivered) / 2, 2U);

		if (hpcc_algo_is_slow(&flow->algo, &flow->params))
			window = min(window, flow->classic_cwnd);
		hpcc_to_classic(sk, flow, HPCC_C_UNSEEN_LOSS,
				hpcc_fallback_cost(&flow->fallback,
						   hpcc_lost(tp, flow), window),
				window);
		return;
	}
	hpcc_algo_acked(&flow->algo, &flow->params,
			flow->conserving ? 0 : rs->acked_sacked, tp->mss_cache,
			before_q16);
	hpcc_apply(sk, flow, rs);
	if (n) {
		if (tcp_snd_cwnd(tp) < HPCC_PROMPT_CWND)
			hpcc_pace_again(tp, before_q16, flow->algo.W_q16);
		trace_hpcc_ack(sk, flow);
	}
}

/* Every segment that carries our option takes TCP's slow path, which calls
 * this before it decides whether to delay the ACK.
 */
static void hpcc_in_ack_event(struct sock *sk, u32 flags)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	if (!flow)
		return;
	hpcc_note_late(tcp_sk(sk), flow);
	hpcc_probe_ack(&flow->probe, tcp_sk(sk));
	if (READ_ONCE(flow->prompt)) {
		WRITE_ONCE(flow->prompt, false);
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
}

static void hpcc_set_state(struct sock *sk, u8 new_state)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!flow)
		return;
	switch (new_state) {
	case TCP_CA_CWR:
		/* What a probe repaired needs no round of its own. */
		if (hpcc_probe_repaired(&flow->probe, tp))
			break;
		hpcc_algo_restart(&flow->algo, &flow->params,
				  flow->algo.Wc_q16 -
				  (flow->algo.Wc_q16 >> hpcc_ecn_shift));
		hpcc_count(sock_net(sk), HPCC_C_ECN_RESPONSES);
		break;
	case TCP_CA_Recovery:
		flow->conserving = true;
		flow->conserve_delivered = tp->delivered;
		break;
	case TCP_CA_Loss:
		flow->conserving = false;
		/* As TCP does for prior_cwnd, not for each RTO in a row. */
		if (icsk->icsk_ca_state != TCP_CA_Loss || !icsk->icsk_retransmits) {
			flow->undo_W_q16 = flow->algo.W_q16;
			flow->undo_most_q16 = flow->algo.most_q16;
		}
		if (!hpcc_algo_is_slow(&flow->algo, &flow->params))
			flow->classic_cwnd = ~0U;
		hpcc_fallback_rto(&flow->fallback, tp->snd_nxt);
		hpcc_algo_restart(&flow->algo, &flow->params,
				  (u64)tp->mss_cache << 16);
		hpcc_algo_slow(&flow->algo);
		hpcc_count(sock_net(sk), HPCC_C_TIMEOUTS);
		break;
	}
}

static u32 hpcc_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)), 2U);
}

/* Nothing was lost: what recovery and RTO did is taken back. */
static u32 hpcc_undo_cwnd(struct sock *sk)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);

	if (!flow)
		return tcp_snd_cwnd(tcp_sk(sk));
	flow->conserving = false;
	hpcc_fallback_undo(&flow->fallback, hpcc_lost(tcp_sk(sk), flow));
	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Loss &&
	    flow->algo.W_q16 < flow->undo_W_q16) {
		hpcc_algo_restart(&flow->algo, &flow->params, flow->undo_W_q16);
		flow->algo.most_q16 = flow->undo_most_q16;
	}
	return hpcc_cwnd(sk, flow);
}

/* Not TCP's own minimum of two segments: where an MTU is 64 KB they would have
 * no length that an option could be added to.
 */
static u32 hpcc_min_tso_segs(struct sock *sk)
{
	return 1;
}

static u32 hpcc_sndbuf_expand(struct sock *sk)
{
	/* As BBR: room for the window, and for its double while it grows. */
	return 3;
}

/* setsockopt() chose hpcc again: begin with the current window. A connection that has fallen
 * back before (@hold is not 0) runs classic for @hold round trips first.
 */
static void hpcc_begin_again(struct sock *sk, struct hpcc_flow *flow, u32 hold)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	hpcc_algo_restart(&flow->algo, &flow->params,
			  (u64)tcp_snd_cwnd(tp) * tp->mss_cache << 16);
	hpcc_algo_slow(&flow->algo);
	if (!hold) {
		hpcc_take_over(sk, flow);
		return;
	}
	flow->fallback.hold = hold;
	flow->classic_seq = tp->snd_nxt;
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &hpcc_classic_ops);
}

/* Start with W = W_init where both ends agreed (draft section 5: flows start
 * at line rate), else classic.
 */
static void hpcc_begin(struct sock *sk)
{
	struct net *net = sock_net(sk);
	struct hpcc_ca *ca = inet_csk_ca(sk);
	struct hpcc_flow *flow;
	u32 past;

	ca->flow = NULL;
	if (!hpcc_agreed(sk, &past)) {
		hpcc_run_classic(sk, HPCC_C_NOT_AGREED);
		return;
	}
	flow = hpcc_flow_create(sk);
	if (!flow) {
		/* setsockopt() may find memory later. */
		hpcc_agreed_before(sk, past);
		hpcc_run_classic(sk, HPCC_C_NO_MEMORY);
		return;
	}
	hpcc_set_T(sk, flow);
	hpcc_algo_init(&flow->algo, &flow->params);
	flow->classic_cwnd = ~0U;
	flow->probe.dsacks = tcp_sk(sk)->dsack_dups;
	hpcc_watch_loss(tcp_sk(sk), flow);
	hpcc_reserve(sk, flow, hpcc_room(flow));
	if (past)
		hpcc_begin_again(sk, flow, past - 1);
	else
		hpcc_take_over(sk, flow);
	ca->flow = flow;
	hpcc_count(net, HPCC_C_AGREED);
}

/* Leave a note for setsockopt(): the connection agreed, and how long classic is to run. */
static void hpcc_release(struct sock *sk)
{
	struct hpcc_ca *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hpcc_flow *flow = ca->flow;
	u32 hold;

	/* For a socket that connects once more: its SYN has to ask for ECN. */
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &hpcc_ops);
	if (!flow)
		return;
	ca->flow = NULL;
	/* setsockopt() may have taken the room back since the last ACK. */
	hpcc_reserve_again(sk, flow);
	hpcc_reserve(sk, flow, 0);
	hpcc_hand_over(sk, &flow->burst);
	if ((1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT |
				   TCPF_FIN_WAIT1 | TCPF_FIN_WAIT2)) {
		hold = hpcc_fallback_hold(&flow->fallback, hpcc_lost(tp, flow));
		hpcc_agreed_before(sk, 1 + hold);
	}
	hpcc_flow_destroy(flow);
}

/* After this TCP sets ECT for what has TCP_CONG_NEEDS_ECN. But a sender may set it only where
 * ECN was negotiated, which is not known before the SYN-ACK. Later TCP asks what was
 * negotiated, so that a fallback or a return need not look.
 */
static void hpcc_init(struct sock *sk)
{
	hpcc_begin(sk);
	if (sk->sk_state != TCP_SYN_SENT && hpcc_ecn_is_negotiated(tcp_sk(sk)))
		return;
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, hpcc_is_telemetry(sk) ?
		   &hpcc_no_ecn_ops : &hpcc_classic_no_ecn_ops);
}

struct tcp_congestion_ops hpcc_ops __read_mostly = {
	.init		= hpcc_init,
	.release	= hpcc_release,
	.cong_control	= hpcc_cong_control,
	.in_ack_event	= hpcc_in_ack_event,
	.set_state	= hpcc_set_state,
	.ssthresh	= hpcc_ssthresh,
	.undo_cwnd	= hpcc_undo_cwnd,
	.min_tso_segs	= hpcc_min_tso_segs,
	.sndbuf_expand	= hpcc_sndbuf_expand,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "hpcc",
};

/* ---- Callbacks of hpcc-classic --------------------------------------- */

/* Take records in that W does not follow. Return: whether a link was measured. */
static bool hpcc_listen(struct sock *sk, struct hpcc_flow *flow)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_us = hpcc_rtt_us(tp, -1);
	u32 n = hpcc_take_mail(sk, flow, rtt_us);
	u32 bits;

	if (!n)
		return false;
	bits = hpcc_measure_inflight(&flow->algo, &flow->params,
				     flow->sample, n);
	hpcc_note_seen(flow, tp->tcp_mstamp, rtt_us, n);
	hpcc_count_ack(sk, bits);
	return !(bits & HPCC_ACK_NO_SAMPLE);
}

/* After records that were all ignored a link has to be measured again. */
static void hpcc_classic_in_ack_event(struct sock *sk, u32 flags)
{
	struct hpcc_flow *flow = hpcc_flow_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	hpcc_in_ack_event(sk, flags);
	if (!flow)
		return;
	hpcc_reserve_again(sk, flow);
	if (after(tp->snd_una, flow->classic_seq)) {
		flow->classic_seq = tp->snd_nxt;
		hpcc_fallback_round(&flow->fallback);
	}
	hpcc_fallback_late(&flow->fallback, hpcc_lost(tp, flow));
	if (READ_ONCE(flow->mail_fresh) && hpcc_fallback_over(&flow->fallback) &&
	    (!flow->doubt || hpcc_listen(sk, flow)))
		hpcc_to_telemetry(sk, flow);
}

/* Not registered: sockets get here by falling back only. Retransmissions are ECN-capable, as
 * hpcc's are: a receiver acknowledges a packet that is not ECN-capable at once.
 */
struct tcp_congestion_ops hpcc_classic_ops __read_mostly = {
	.release	= hpcc_release,
	.in_ack_event	= hpcc_classic_in_ack_event,
	.ssthresh	= tcp_reno_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.flags		= TCP_CONG_NEEDS_ECN,
	.owner		= THIS_MODULE,
	.name		= "hpcc-classic",
};

/* The same without TCP_CONG_NEEDS_ECN. */
struct tcp_congestion_ops hpcc_no_ecn_ops __read_mostly;
struct tcp_congestion_ops hpcc_classic_no_ecn_ops __read_mostly;

/**
 * hpcc_cc_init() - make the callbacks for connections without ECN
 */
void __init hpcc_cc_init(void)
{
	hpcc_no_ecn_ops = hpcc_ops;
	hpcc_no_ecn_ops.flags &= ~TCP_CONG_NEEDS_ECN;
	hpcc_classic_no_ecn_ops = hpcc_classic_ops;
	hpcc_classic_no_ecn_ops.flags &= ~TCP_CONG_NEEDS_ECN;
}
