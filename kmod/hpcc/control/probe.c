// SPDX-License-Identifier: GPL-2.0
/*
 * Requests in data or in probes (net.hpcc.carry).
 *
 * A probe is a pure ACK from TCP; LOCAL_OUT adds a request to it. So a probe has the addresses,
 * ports, flow label, DSCP and ECN field of the data, and takes the same path and queues. Data keep
 * their full MSS and an unchanged header.
 *
 *	sender		Each ACK of data or of a probe allows the next probe. The first probe leaves
 *			before the first data.
 *	receiver	hpcc_answer_ack() answers with a pure ACK that carries the echo. Probes of
 *			some carriers do not reach TCP: LOCAL_IN answers.
 *
 * With SACK, TCP does not count a probe or its answer as a duplicate ACK. Data carry requests
 * without SACK, after probes brought no telemetry, and in classic, unless classic tries a carrier
 * again that uses probes. An ACK that acknowledges no data ends F-RTO, so no probe is sent during
 * F-RTO.
 */
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "control/cc.h"
#include "control/mute.h"
#include "control/probe.h"
#include "telemetry/request.h"

/* Send a probe after this many delivered segments, or after T. If W_init has fewer segments, wait
 * for the time of this many segments instead of T. So probes take 1 % of the link at an MTU of
 * 1500, and 2 % at 576.
 */
static const u32 hpcc_probe_segs = 8;

/* If a round over all hops needs several probes, send them earlier: mailbox.c discards a record
 * after 64 T, and small windows get few ACKs, which trigger probes.
 */
static const u32 hpcc_probe_round_segs = 16;

/* Limit of answers: 2^6 per T, the maximum number of requests that net.hpcc.sample allows. One per
 * request would be too few: the sender's T may be half of our T, and probes arrive in bursts.
 */
static const u32 hpcc_answer_shift = 6;

/* Stop the flow's carrier: from now on the TCP option carries the requests. Context:
 * socket lock.
 */
void __cold hpcc_carrier_stop(struct sock *sk, struct hpcc_flow *flow)
{
	bool probes = hpcc_carrier_end(sk, flow);

	hpcc_probes_set(sk, flow, flow->probes && probes);
}

/* Let probes or data carry requests, and reserve space in data. @probes: use probes, if the
 * connection negotiated SACK. Context: socket lock.
 */
void __cold hpcc_probes_set(struct sock *sk, struct hpcc_flow *flow, bool probes)
{
	probes = probes && tcp_is_sack(tcp_sk(sk));
	WRITE_ONCE(flow->probes, probes);
	flow->probe.segs = tcp_sk(sk)->data_segs_out - 1;
	hpcc_reserve(sk, flow, probes ? 0 : hpcc_option_reserve(flow));
}

static void hpcc_probe_send_now(struct sock *sk, struct hpcc_flow *flow)
{
	WRITE_ONCE(flow->probing, true);
	hpcc_send_ack(sk, tcp_sk(sk)->rcv_nxt);
	WRITE_ONCE(flow->probing, false);
}

/* Whether an ACK would report new data to the peer, not only a new window. */
static bool hpcc_ack_pending(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return inet_csk_ack_scheduled(sk) || tp->rcv_nxt != tp->rcv_wup || tp->rx_opt.dsack ||
	       tp->compressed_ack;
}

/* Our TCP treats a probe as a sent ACK, but the peer's TCP does not receive this probe. So send a
 * pending ACK first, and an ACK afterwards if the probe advanced the receive window.
 */
static noinline void hpcc_probe_send_apart(struct sock *sk, struct hpcc_flow *flow)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 edge;

	if (hpcc_ack_pending(sk))
		hpcc_send_ack(sk, tp->rcv_nxt);
	edge = tp->rcv_wup + tp->rcv_wnd;
	hpcc_probe_send_now(sk, flow);
	if (tp->rcv_wup + tp->rcv_wnd != edge)
		hpcc_send_ack(sk, tp->rcv_nxt);
}

/* The minimum interval is the larger one of T and the time that the link needs for hpcc_probe_segs
 * segments, or for fewer if one probe does not reach all hops. The link sends W_init in a T;
 * fallback.window is W_init in segments.
 */
static bool hpcc_probe_is_early(const struct hpcc_flow *flow, u64 now_ns)
{
	u64 waited_ns = now_ns - READ_ONCE(flow->last_request_ns);
	u32 probes, segs;

	if (waited_ns < flow->params.T || flow->fallback.window >= hpcc_probe_segs)
		return waited_ns < flow->params.T;
	probes = DIV_ROUND_UP(READ_ONCE(flow->hops), flow->slots);
	segs = min(hpcc_probe_segs, hpcc_probe_round_segs / max(probes, 1U));
	return waited_ns * min(flow->fallback.window, segs) < flow->params.T * segs;
}

/* Send a probe, if one is due. A probe needs data in flight for which no RTO has fired, or queued
 * data. Without data in flight send only one probe, unless pacing delays the data: behind a closed
 * window or TCP_CORK each answer would trigger the next probe, and each probe would postpone TCP's
 * timers. Context: socket lock; TCP has just read its clock. The flow uses probes.
 */
void __cold hpcc_probe_send(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 now_ns = tp->tcp_clock_cache;
	u64 wstamp_ns = tp->tcp_wstamp_ns;
	u32 requests = READ_ONCE(flow->requests);
	bool due;

	/* TCP does not clear frto when recovery ends, and also sets frto for a lost SYN. */
	if ((tp->frto && inet_csk(sk)->icsk_ca_state == TCP_CA_Loss) || tp->repair ||
	    (tp->packets_out ? inet_csk(sk)->icsk_retransmits :
	     !tcp_send_head(sk) ||
	     (tp->data_segs_out == flow->probe.segs && wstamp_ns <= now_ns)) ||
	    (tp->delivered - flow->probe.delivered < hpcc_probe_segs &&
	     hpcc_probe_is_early(flow, now_ns)))
		return;
	rcu_read_lock();
	due = hpcc_request_due(flow, tp);
	rcu_read_unlock();
	if (!due)
		return;
	if (unlikely(hpcc_carrier_of(flow)->apart))
		hpcc_probe_send_apart(sk, flow);
	else
		hpcc_probe_send_now(sk, flow);
	/* The probe must not use the pacing credit of the data. */
	tp->tcp_wstamp_ns = wstamp_ns;
	flow->probe.delivered = tp->delivered;
	flow->probe.segs = tp->data_segs_out - !!tp->packets_out;
	/* Count the request even if the probe had no space for it. */
	hpcc_request_count(flow, now_ns, requests);
}

/* Answer a probe, unless the last answer was just now. Without an answer, the next segment carries
 * the echo. The limit depends on our own T, which the peer cannot influence. Context: socket lock.
 */
void hpcc_probe_answer(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now_ns = tp->tcp_clock_cache;

	hpcc_answer_begin(flow);
	if (unlikely(hpcc_mute_paused(flow))) {
		/* ACKs carry no option now, so an answer would contain no echo. */
		hpcc_notify(sk, flow, HPCC_EVENT_MUTED);
		return;
	}
	if ((!hpcc_echo_pending(flow) && !hpcc_signal_pending(flow)) ||
	    now_ns - flow->probe.answered_ns < flow->params.T >> hpcc_answer_shift)
		return;
	flow->probe.answered_ns = now_ns;
	hpcc_send_ack(sk, tp->rcv_nxt);
}

/* Answer a probe that does not reach TCP; its records are ready for the echo. If a process owns the
 * socket, the next segment that TCP processes sends the answer. Context: LOCAL_IN.
 */
void __cold hpcc_probe_arrived(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!(flow->caps & HPCC_CAP_PROBES))
		return;
	hpcc_answer_later(flow);
	/* After an NFQUEUE verdict this runs in process context. */
	local_bh_disable();
	bh_lock_sock(sk);
	if (!sock_owned_by_user(sk) && hpcc_is_ours(sk) && hpcc_flow_of(sk) == flow &&
	    !((1 << sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN | TCPF_TIME_WAIT))) {
		tp->tcp_clock_cache = tcp_clock_ns();
		tp->tcp_mstamp = div_u64(tp->tcp_clock_cache, NSEC_PER_USEC);
		hpcc_probe_answer(sk, flow);
	}
	bh_unlock_sock(sk);
	local_bh_enable();
}
