// SPDX-License-Identifier: GPL-2.0
/*
 * What carries requests (net.hpcc.carry): data, or packets of their own.
 *
 * A probe is a pure ACK that TCP makes and LOCAL_OUT adds a request to. So it has
 * addresses, ports, flow label, DSCP and ECN field of the data, and takes their path and
 * their queues. Data keep their whole MSS, and their header is not touched.
 *
 *	sender		An ACK of data, or of a probe, lets the next probe go. The first one
 *			leaves in front of the first data.
 *	receiver	LOCAL_IN takes the records in; then TCP processes the ACK, and
 *			hpcc_in_ack_event() answers with a pure ACK that carries the echo. Probes
 *			of INT and IFA do not reach TCP: LOCAL_IN answers.
 *
 * Neither is a duplicate ACK where SACK was agreed: then only SACK blocks tell of losses.
 * Without SACK, data carry requests. After an RTO an ACK without news would end F-RTO, so
 * there is no probe as long as F-RTO goes on.
 *
 * When a connection leaves telemetry, or probes bring no telemetry, data carry requests from
 * then on.
 */
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "control/cc.h"
#include "control/mute.h"
#include "control/probe.h"
#include "control/window.h"
#include "flow/notify.h"
#include "telemetry/mailbox.h"
#include "telemetry/request.h"

/* Send a probe for this many segments delivered. Where W_init has fewer segments, send one
 * in the time that the link takes for this many. Otherwise send one in a T. So probes take
 * 1 % of the link with an MTU of 1500, 2 % with 576.
 */
static const u32 hpcc_probe_segs = 8;

/* Where several probes are needed to ask all hops, they may leave sooner: mailbox.c forgets a
 * record after 64 T, and a probe waits for an ACK besides, of which small windows have few.
 */
static const u32 hpcc_probe_round_segs = 16;

/* A sender's T may be twice the receiver's, and ACKs bunch: the receiver answers twice as
 * often as a sender asks.
 */
static const u32 hpcc_answer_shift = 6;

/**
 * hpcc_carrier_stop() - have the TCP option carry requests from now on
 * @sk: socket, under its lock
 * @flow: its flow, of another carrier
 */
void hpcc_carrier_stop(struct sock *sk, struct hpcc_flow *flow)
{
	bool probes = hpcc_carrier_end(sk, flow);

	hpcc_probes_set(sk, flow, flow->probes && probes);
}

/**
 * hpcc_probes_set() - choose what carries requests, and reserve what that needs
 * @sk: socket
 * @flow: its flow
 * @probes: probes, if the connection can have them
 *
 * Context: socket lock, as all below.
 */
void hpcc_probes_set(struct sock *sk, struct hpcc_flow *flow, bool probes)
{
	probes = probes && tcp_is_sack(tcp_sk(sk));
	WRITE_ONCE(flow->probes, probes);
	flow->last_request_segs = tcp_sk(sk)->data_segs_out - 1;
	hpcc_reserve(sk, flow, probes ? 0 : hpcc_option_reserve(flow));
}

static void hpcc_probe_send_now(struct sock *sk, struct hpcc_flow *flow)
{
	WRITE_ONCE(flow->probing, true);
	hpcc_send_ack(sk, tcp_sk(sk)->rcv_nxt);
	WRITE_ONCE(flow->probing, false);
}

/* Whether an ACK would tell the peer something new, besides the window. */
static bool hpcc_ack_pending(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return inet_csk_ack_scheduled(sk) || tp->rcv_nxt != tp->rcv_wup || tp->rx_opt.dsack ||
	       tp->compressed_ack;
}

/* A probe of INT or IFA. The peer's TCP does not get it, though ours takes it for an ACK: what it
 * would have acknowledged goes in front of it, and a window that it has moved behind it.
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

/* Whether it is too early for the next probe: the last one left less than a T ago, or less than the
 * time of hpcc_probe_segs segments, or of fewer segments if one probe does not ask all hops. In a T
 * the link takes W_init, which is fallback.window in segments.
 */
static bool hpcc_probe_is_early(const struct hpcc_flow *flow, u64 now_ns)
{
	u64 waited_ns = now_ns - READ_ONCE(flow->last_request_ns);
	u32 probes = DIV_ROUND_UP(READ_ONCE(flow->hops), flow->slots);
	u32 segs = min(hpcc_probe_segs, hpcc_probe_round_segs / max(probes, 1U));

	return waited_ns * min(flow->fallback.window, segs) < flow->params.T * segs;
}

/**
 * hpcc_probe_send() - send a probe, if one is due
 * @sk: socket, its clock read just now
 * @flow: its flow, of which probes carry requests
 *
 * Send one only while data are in flight and no RTO has fired for them, or while data wait to
 * leave. While data wait, and not because of pacing, send one only: behind a closed window or
 * TCP_CORK each answer would trigger the next probe without end, and each probe would put off
 * TCP's own timers.
 */
void hpcc_probe_send(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 now_ns = tp->tcp_clock_cache;
	u64 wstamp_ns = tp->tcp_wstamp_ns;
	u32 requests = READ_ONCE(flow->requests);
	bool due;

	/* frto stays when its recovery has ended, and counts for a lost SYN, too. */
	if ((tp->frto && inet_csk(sk)->icsk_ca_state == TCP_CA_Loss) || tp->repair ||
	    (tp->packets_out ? inet_csk(sk)->icsk_retransmits :
	     !tcp_send_head(sk) ||
	     (tp->data_segs_out == flow->last_request_segs && wstamp_ns <= now_ns)) ||
	    (tp->delivered - flow->last_request_delivered < hpcc_probe_segs &&
	     hpcc_probe_is_early(flow, now_ns)))
		return;
	rcu_read_lock();
	due = hpcc_request_due(flow, tp);
	rcu_read_unlock();
	if (!due)
		return;
	if (unlikely(flow->carrier == HPCC_CARRIER_IFA || flow->carrier == HPCC_CARRIER_INT))
		hpcc_probe_send_apart(sk, flow);
	else
		hpcc_probe_send_now(sk, flow);
	/* Data keep the pacing credit that they had. */
	tp->tcp_wstamp_ns = wstamp_ns;
	flow->last_request_delivered = tp->delivered;
	flow->last_request_segs = tp->data_segs_out - !!tp->packets_out;
	/* Also where there was no room for the request. */
	hpcc_request_count(flow, now_ns, requests);
}

/**
 * hpcc_probe_answer() - answer a probe, unless the last answer was just now
 * @sk: socket
 * @flow: its flow
 *
 * What is not answered waits for the next segment. The limit follows our own T, which the
 * peer has no say in.
 */
void hpcc_probe_answer(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now_ns = tp->tcp_clock_cache;

	/* Before the records are read: a probe that comes meanwhile is answered next time. */
	smp_store_mb(flow->answer, false);
	if (unlikely(hpcc_mute_paused(flow))) {
		/* An answer would carry no option now. */
		hpcc_notify(sk, flow, HPCC_EVENT_MUTED);
		return;
	}
	if ((!hpcc_echo_pending(flow) && !hpcc_signal_pending(flow)) ||
	    now_ns - flow->answered_ns < flow->params.T >> hpcc_answer_shift)
		return;
	flow->answered_ns = now_ns;
	hpcc_send_ack(sk, tp->rcv_nxt);
}

/**
 * hpcc_probe_arrived() - answer a probe that does not reach TCP
 * @sk: socket
 * @flow: its flow, whose records of the probe wait to be echoed
 *
 * While a process owns the socket, the next segment that TCP processes has the answer.
 *
 * Context: LOCAL_IN.
 */
void hpcc_probe_arrived(struct sock *sk, struct hpcc_flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!(flow->caps & HPCC_CAP_PROBES))
		return;
	hpcc_answer_later(flow);
	/* After an NFQUEUE verdict this is a process. */
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
