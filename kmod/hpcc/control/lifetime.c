// SPDX-License-Identifier: GPL-2.0
/*
 * The begin and the end of a flow: what its owners do about their members of struct hpcc_flow.
 *
 * All of this is under the socket lock, but for hpcc_flow_free_parts().
 */
#include <linux/slab.h>
#include <net/tcp.h>
#include <hpcc/compat.h>

#include "carrier/carrier.h"
#include "common/device.h"
#include "common/receive.h"
#include "control/agreement.h"
#include "control/cc.h"
#include "control/classic.h"
#include "control/loss.h"
#include "control/probe.h"
#include "control/receiver.h"
#include "control/window.h"
#include "flow/charge.h"
#include "netns/policy.h"
#include "telemetry/identify.h"

/* The flow is complete when the hooks may find it. */
static struct hpcc_flow *hpcc_flow_make(struct sock *sk, u16 caps, u8 kind,
					enum hpcc_counter *why)
{
	struct hpcc_charge charge = hpcc_charge_begin(sk);
	struct hpcc_flow *flow = hpcc_flow_alloc(sk, caps, kind, why);

	if (flow) {
		hpcc_carrier_begin(sk, flow);
		hpcc_window_begin(sk, flow);
		if (!hpcc_flow_publish(flow))
			flow = NULL;
	}
	if (flow)
		hpcc_path_flow_added(sock_net(sk), flow);
	hpcc_charge_end(charge);
	return flow;
}

/**
 * hpcc_flow_free_parts() - free what a flow points to
 * @flow: a flow that nobody uses any more
 */
void hpcc_flow_free_parts(struct hpcc_flow *flow)
{
	struct hpcc_rx *rx = rcu_access_pointer(flow->rx);

	kfree(flow->algo.L);
	kfree(rcu_access_pointer(flow->path));
	kfree(rcu_access_pointer(flow->remote));
	kfree(rcu_access_pointer(flow->trace_rx));
	if (rx)
		kfree(rx->state.algo.L);
	kfree(rx);
}

/* Begin by telemetry; or, where setsockopt() brings a connection back that has fallen back
 * before (@prior_hold > 1), with classic. A connection that comes back, or whose handshake took too
 * long, starts slowly from TCP's own window.
 */
static void hpcc_begin_flow(struct sock *sk, struct hpcc_flow *flow, u32 prior_hold)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;

	hpcc_law_begin(sk, flow);
	hpcc_loss_cap(flow, ~0U);
	hpcc_probes_set(sk, flow, READ_ONCE(sysctls->probes) ||
			hpcc_carrier_is_probed(flow->carrier));
	if (prior_hold || !hpcc_starts_at_line_rate(sk, READ_ONCE(sysctls->base_rtt_ns),
						    READ_ONCE(sysctls->start_rtt_ns)))
		hpcc_law_slow(sk, flow);
	else
		hpcc_open_window(sk, flow->params.W_max_q16 >> 16);
	hpcc_remote_begin(sk, flow);
	if (prior_hold > 1)
		hpcc_begin_classic(sk, flow, prior_hold - 1);
	else
		hpcc_enter_telemetry(sk, flow);
}

static void hpcc_begin_without(struct sock *sk, enum hpcc_counter why)
{
	hpcc_run(sk, true, false);
	hpcc_count(sock_net(sk), why);
}

/**
 * hpcc_begin() - a socket begins to run hpcc
 * @sk: the socket
 *
 * Start with W = W_init where both ends agreed (draft section 5: flows start
 * at line rate), else classic. A socket that comes before the module is set up (main.c) runs
 * classic without a flow; its note stays, so that setsockopt() may begin again.
 */
void hpcc_begin(struct sock *sk)
{
	struct hpcc_ca *ca = inet_csk_ca(sk);
	enum hpcc_counter why;
	struct hpcc_flow *flow;
	u32 prior_hold;
	u16 caps;
	u8 kind;

	ca->flow = NULL;
	if (unlikely(!hpcc_is_up())) {
		hpcc_run(sk, true, false);
		return;
	}
	caps = hpcc_agreed(sk, &prior_hold, &kind);
	if (!caps) {
		hpcc_begin_without(sk, HPCC_C_NOT_AGREED);
		return;
	}
	/* Who comes back by setsockopt() has agreed: the peer may still compute W. */
	if (!prior_hold && !hpcc_peer_policy_of(sk).where)
		caps &= ~HPCC_CAP_WINDOW;
	flow = hpcc_flow_make(sk, caps, kind, &why);
	if (!flow) {
		/* setsockopt() may find room later. */
		hpcc_agreement_save(sk, prior_hold, caps, kind);
		hpcc_begin_without(sk, why);
		return;
	}
	hpcc_begin_flow(sk, flow, prior_hold);
	ca->flow = flow;
	hpcc_count(sock_net(sk), HPCC_C_AGREED);
}

/**
 * hpcc_release() - a socket leaves hpcc, or ends
 * @sk: socket that runs hpcc or classic
 *
 * Leaves a note for setsockopt(): the connection agreed, and how long classic is to run.
 */
void hpcc_release(struct sock *sk)
{
	struct hpcc_ca *ca = inet_csk_ca(sk);
	struct hpcc_flow *flow = ca->flow;

	/* For a socket that connects once more: its SYN has to ask for ECN. */
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &hpcc_ops);
	if (!flow)
		return;
	ca->flow = NULL;
	/* setsockopt() may have taken the reserve back since the last ACK. */
	hpcc_reserve_restore(sk, flow);
	hpcc_reserve(sk, flow, 0);
	hpcc_pacing_restore(sk, &flow->burst, &flow->stamped);
	hpcc_rx_end(sk, flow);
	if ((1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT |
				   TCPF_FIN_WAIT1 | TCPF_FIN_WAIT2))
		hpcc_agreement_save(sk, 1 + hpcc_classic_hold(tcp_sk(sk), flow),
				    flow->caps, flow->kind);
	hpcc_flow_destroy(flow);
}
