// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters of the window law, which depend on T, and changes of W that do not follow from the
 * records of an ACK (<hpcc/law/state.h>). All functions run under the socket lock.
 */
#include "common/device.h"
#include "control/law.h"
#include "control/loss.h"
#include "control/receiver_ops.h"
#include "control/window.h"
#include "netns/table.h"
#include "telemetry/mailbox.h"

/* With one record per T, U is measured in the last T only, so W alternates around the fair window.
 * After an even number of records Wc would always take a W on the same side. So Wc follows each
 * record, as in the draft.
 */
static u32 hpcc_settle(u32 settle, u32 sample)
{
	return sample == 1 ? min(settle, 1U) : settle;
}

/* Range: B_host * T at 1 Tbit/s and 1 s is 2^37 bytes, in Q16 2^53. */
static void __cold hpcc_set_T(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;
	const struct hpcc_receiver_ops *receiver = hpcc_receiver_of(flow);
	struct hpcc_peer_policy policy = hpcc_peer_policy_of(sk);
	u32 w_ai_bytes = READ_ONCE(sysctls->w_ai_bytes);
	u64 was_q16 = flow->params.W_ai_q16;
	u64 W_init_q16, W_ai_q16, B_host;
	u32 rtt_ns, T_ns;

	hpcc_window_changed(flow);
	flow->min_rtt_us = tcp_min_rtt(tcp_sk(sk));
	rtt_ns = hpcc_base_rtt_ns(sk, policy.base_rtt_ns);
	T_ns = rtt_ns;
	B_host = hpcc_host_rate(sk, READ_ONCE(sysctls->host_mbps));
	/* The minimum RTT is that of short segments: add the time of a full segment. */
	if (!policy.base_rtt_ns)
		T_ns = min_t(u64, HPCC_T_MAX_NS, rtt_ns +
			     div64_u64((u64)tcp_sk(sk)->mss_cache * NSEC_PER_SEC, B_host));
	W_init_q16 = mul_u64_u64_div_u64(B_host, (u64)T_ns << 16, NSEC_PER_SEC);
	W_init_q16 = max_t(u64, W_init_q16, (u64)tcp_sk(sk)->mss_cache << 16);
	hpcc_loss_follow_T(tcp_sk(sk), flow, W_init_q16);
	W_ai_q16 = w_ai_bytes ? 0 : div_u64(W_init_q16 * (1000 - policy.eta_permille), 1000);
	hpcc_params_init(&flow->params, T_ns, W_init_q16,
			 hpcc_W_min(sk, W_init_q16, T_ns, rtt_ns, policy.base_rtt_ns,
				    READ_ONCE(sysctls->start_rtt_ns)), (u64)w_ai_bytes << 16,
			 div_u64((u64)policy.eta_permille << 24, 1000),
			 READ_ONCE(sysctls->max_stage));
	flow->params.mss = min_t(u32, tcp_sk(sk)->mss_cache, U16_MAX);
	flow->params.W_ai_q16 = hpcc_set_N(flow, min(W_ai_q16, flow->params.W_max_q16),
					   policy.n_flows, was_q16);

	hpcc_burst_follow_T(sk, flow, T_ns, B_host);
	flow->unpaced = !READ_ONCE(sysctls->pace);
	flow->settle = hpcc_settle(READ_ONCE(sysctls->settle), policy.sample);
	WRITE_ONCE(flow->sample_ns, policy.sample ? T_ns / policy.sample : 0);
	hpcc_set_scale(flow, hpcc_scale_for(T_ns));
	if (receiver && rcu_access_pointer(flow->remote))
		receiver->follow_T(sk, flow);
}

/* Set the parameters and W of a new flow. */
void hpcc_law_begin(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;

	hpcc_set_T(sk, flow);
	hpcc_algo_init(&flow->algo, &flow->params);
	flow->algo.per_rtt = READ_ONCE(sysctls->per_rtt);
}

/* Begin slow start with TCP's own window. */
void hpcc_law_slow(const struct sock *sk, struct hpcc_flow *flow)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	hpcc_algo_restart(&flow->algo, &flow->params, (u64)tcp_snd_cwnd(tp) * tp->mss_cache << 16);
	hpcc_algo_slow(&flow->algo);
}

/* Update T and all that depends on it, also W: R = W/T must not exceed B_host. */
void hpcc_law_new_T(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_algo *algo = &flow->algo;

	hpcc_set_T(sk, flow);
	algo->W_q16 = hpcc_clamp_wind(&flow->params, algo->W_q16);
	algo->Wc_q16 = hpcc_clamp_wind(&flow->params, algo->Wc_q16);
}

/* An RTO fired: the sender computes W, from one segment, as in slow start. */
void __cold hpcc_law_rto(struct sock *sk, struct hpcc_flow *flow)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	/* Only at the first of consecutive RTOs, as TCP does for prior_cwnd. */
	if (icsk->icsk_ca_state != TCP_CA_Loss || !icsk->icsk_retransmits) {
		flow->prior.W_q16 = flow->algo.W_q16;
		flow->prior.slow_start_limit_q16 = flow->algo.slow_start_limit_q16;
	}
	hpcc_receiver_stop(sk, flow);
	hpcc_algo_restart(&flow->algo, &flow->params, (u64)tcp_sk(sk)->mss_cache << 16);
	hpcc_algo_slow(&flow->algo);
}

/* The last RTO was spurious: restore W. */
void __cold hpcc_law_undo(struct hpcc_flow *flow)
{
	if (flow->algo.W_q16 >= flow->prior.W_q16)
		return;
	hpcc_algo_restart(&flow->algo, &flow->params, flow->prior.W_q16);
	flow->algo.slow_start_limit_q16 = flow->prior.slow_start_limit_q16;
}

/* Count records of an ACK that the law ignored, and changes of the path. @bits: enum
 * hpcc_ack_bits.
 */
void hpcc_law_count(struct sock *sk, struct hpcc_flow *flow, u32 bits)
{
	struct net *net = sock_net(sk);

	if (bits & HPCC_ACK_TS_BACK) {
		hpcc_count(net, HPCC_C_TS_BACK_IGNORED);
		hpcc_ignored_count(flow, HPCC_IGNORED_TS_BACK, 1);
	}
	if (bits & (HPCC_ACK_TX_EXCESS | HPCC_ACK_TX_BACK)) {
		hpcc_count(net, HPCC_C_TX_EXCESS_IGNORED);
		hpcc_ignored_count(flow, HPCC_IGNORED_TX_EXCESS, 1);
	}
	if (bits & HPCC_ACK_PATH) {
		hpcc_count(net, HPCC_C_PATH_CHANGES);
		hpcc_notify(sk, flow, HPCC_EVENT_PATH);
	}
}

/* Process records in classic, without a change of W. Return: whether a link was measured. */
bool hpcc_measure_only(struct sock *sk, struct hpcc_flow *flow)
{
	u32 bits;

	if (!hpcc_mailbox_drain(sk, flow, tcp_sk(sk)->srtt_us >> 3, &bits))
		return false;
	hpcc_law_count(sk, flow, bits);
	return !(bits & HPCC_ACK_NO_SAMPLE);
}
