// SPDX-License-Identifier: GPL-2.0
/*
 * Begin and end of a flow: each owner initializes and frees its members of struct hpcc_flow. Socket
 * lock for all functions except hpcc_flow_free_parts().
 */
#include <linux/slab.h>

#include "carrier/carrier.h"
#include "common/device.h"
#include "control/agreement.h"
#include "control/cc.h"
#include "control/integrity_ops.h"
#include "control/law.h"
#include "control/loss.h"
#include "control/probe.h"
#include "control/receiver_ops.h"
#include "control/window.h"
#include "flow/charge.h"
#include "netns/table.h"
#include "telemetry/identify.h"

/* The flow is complete before the hooks can find it. */
static struct hpcc_flow *hpcc_flow_make(struct sock *sk, struct hpcc_note note,
					enum hpcc_counter *why)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;
	struct hpcc_charge charge = hpcc_charge_begin(sk);
	struct hpcc_flow *flow = hpcc_flow_alloc(sk, note.caps, hpcc_note_kind(note), why);

	if (flow) {
		hpcc_carrier_begin(sk, flow);
		hpcc_receiver_get(flow);
		hpcc_integrity_get(sk, flow, !note.prior_hold);
		hpcc_pacing_init(sk, &flow->burst, READ_ONCE(sysctls->burst_segs), &flow->stamped);
		if (!hpcc_flow_publish(flow))
			flow = NULL;
	}
	if (flow)
		hpcc_path_flow_added(sock_net(sk), flow);
	hpcc_charge_end(charge);
	return flow;
}

/* Free the memory that a flow without users points to. */
void hpcc_flow_free_parts(struct hpcc_flow *flow)
{
	module_put(hpcc_carrier_of(flow)->owner);
	hpcc_receiver_put(flow);
	hpcc_integrity_put(flow);
	kfree(flow->algo.L);
	kfree(rcu_access_pointer(flow->path));
	kfree(rcu_access_pointer(flow->carrier_private.trace_rx));
}

/* Begin with classic if the connection had fallen back before it left hpcc (@prior_hold > 1). A
 * connection that returns, or whose handshake took too long, begins with slow start from TCP's
 * window.
 */
static void hpcc_begin_flow(struct sock *sk, struct hpcc_flow *flow, u32 prior_hold,
			    u32 base_rtt_ns)
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;
	const struct hpcc_receiver_ops *receiver = hpcc_receiver_of(flow);
	const struct hpcc_ca *ca = inet_csk_ca(sk);

	hpcc_loss_begin(tcp_sk(sk), flow);
	hpcc_law_begin(sk, flow);
	hpcc_probes_set(sk, flow, READ_ONCE(sysctls->probes) || hpcc_carrier_of(flow)->probes_only);
	if (prior_hold || !hpcc_starts_at_line_rate(sk, base_rtt_ns,
						    READ_ONCE(sysctls->start_rtt_ns)))
		hpcc_law_slow(sk, flow);
	else
		hpcc_open_window(sk, flow->params.W_max_q16 >> 16);
	if (receiver && !ca->update)
		receiver->begin(sk, flow);
	if (prior_hold > 1)
		hpcc_begin_classic(sk, flow, prior_hold - 1);
	else
		hpcc_enter_telemetry(sk, flow);
}

static noinline void __cold hpcc_begin_without(struct sock *sk, enum hpcc_counter why)
{
	hpcc_run(sk, true, false);
	hpcc_count(sock_net(sk), why);
}

/* A socket begins to run hpcc with a law. If both ends agreed, start with W = W_init (draft section
 * 5), else run classic. Until the module is set up (main.c), run classic without a flow; the note
 * stays for a later setsockopt().
 */
void __cold hpcc_begin(struct sock *sk, const struct hpcc_law *law)
{
	struct hpcc_ca *ca = inet_csk_ca(sk);
	struct hpcc_peer_policy policy;
	struct hpcc_note note;
	enum hpcc_counter why;
	struct hpcc_flow *flow;

	ca->flow = NULL;
	ca->law = law;
	ca->update = law->update;
	if (unlikely(!hpcc_is_up())) {
		hpcc_run(sk, true, false);
		return;
	}
	note = hpcc_agreed(sk);
	why = HPCC_C_NOT_AGREED;
	if (!(note.caps & HPCC_CAP_SIGNED) && hpcc_key_caps(sk) & HPCC_KEY_REQUIRED) {
		why = HPCC_C_KEY_REQUIRED;
		note.caps = 0;
	}
	if (!note.caps) {
		hpcc_begin_without(sk, why);
		return;
	}
	/* A socket that returns by setsockopt() keeps its agreement: the peer may compute W. */
	policy = hpcc_peer_policy_of(sk);
	if (!note.prior_hold && !(policy.where && hpcc_receiver_is_loaded()))
		note.caps &= ~HPCC_CAP_WINDOW;
	flow = hpcc_flow_make(sk, note, &why);
	/* Only receiver mode can stop a peer that still computes W, and it has hpcc's law only. */
	if (flow && note.prior_hold && note.caps & HPCC_CAP_WINDOW &&
	    !(flow->rx_window_agreed && !law->update)) {
		hpcc_flow_destroy(flow);
		flow = NULL;
		why = HPCC_C_NOT_AGREED;
	}
	if (!flow) {
		/* A later setsockopt() may succeed. */
		hpcc_agreement_save(sk, note);
		hpcc_begin_without(sk, why);
		return;
	}
	hpcc_begin_flow(sk, flow, note.prior_hold, policy.base_rtt_ns);
	ca->flow = flow;
	hpcc_count(sock_net(sk), HPCC_C_AGREED);
}
EXPORT_SYMBOL_GPL(hpcc_begin);

/* A socket leaves hpcc, or ends; save a note for hpcc_begin(). */
void __cold hpcc_release(struct sock *sk)
{
	struct hpcc_ca *ca = inet_csk_ca(sk);
	const struct hpcc_receiver_ops *receiver;
	struct hpcc_flow *flow = ca->flow;

	/* The socket may connect again: its SYN must then request ECN. */
	if (ca->law)
		WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, ca->law->cc[0]);
	if (!flow)
		return;
	ca->flow = NULL;
	/* setsockopt() may have overwritten the reserve since the last ACK. */
	hpcc_reserve_restore(sk, flow);
	hpcc_reserve(sk, flow, 0);
	hpcc_pacing_restore(sk, &flow->burst, &flow->stamped);
	receiver = hpcc_receiver_of(flow);
	if (receiver && rcu_access_pointer(flow->rx))
		receiver->end(sk, flow);
	if ((1 << sk->sk_state) & (TCPF_ESTABLISHED | TCPF_CLOSE_WAIT |
				   TCPF_FIN_WAIT1 | TCPF_FIN_WAIT2))
		hpcc_agreement_save(sk, (struct hpcc_note){
			.prior_hold = 1 + hpcc_fallback_hold(&flow->fallback,
							     hpcc_lost(tcp_sk(sk), flow)),
			.other = flow->kind == HPCC_OPT_KIND_OTHER,
			.caps = ca->update ? flow->caps & ~HPCC_CAP_WINDOW : flow->caps,
		});
	hpcc_flow_destroy(flow);
}
