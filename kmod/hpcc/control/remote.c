// SPDX-License-Identifier: GPL-2.0
/*
 * Receiver-based HPCC++ (receiver.c): a sender whose receiver may compute W.
 *
 *	OFF -> OFFERED	slow start is over, and the last attempt did not just fail
 *	OFFERED -> ON	a window with the id of our parameters arrived
 *	OFFERED -> OFF	parameters were sent 32 times, twice per T
 *	ON -> OFF	RTO; fallback; no window for 8 requests, 8 ACKs and 8 RTTs
 *
 * In ON -> OFF the sender sends parameters with T = 0, and repeats them while windows arrive. If
 * the receiver did not answer, or its windows stopped, the sender offers parameters again 256 T
 * later. Socket lock for all functions except those for LOCAL_IN and LOCAL_OUT.
 */
#include <hpcc/compat.h>
#include <hpcc/law/response.h>

#include "common/peek.h"
#include "control/receiver_ops.h"
#include "control/remote.h"
#include "control/window.h"
#include "telemetry/mailbox.h"

/* Whether a sender's W comes from its receiver. */
enum hpcc_remote_state {
	HPCC_REMOTE_OFF,	/* the sender computes W */
	HPCC_REMOTE_OFFERED,	/* parameters are being sent, the receiver has not answered yet */
	HPCC_REMOTE_ON,		/* the receiver computes W */
};

/* A sender whose receiver may compute W. Socket lock, except for members that the hooks write. */
struct hpcc_remote {
	u64 params[2];		/* parameters to send; LOCAL_OUT reads them */
	u64 window;		/* newest record of a window; LOCAL_IN writes */
	u64 taken;		/* record that last set W */
	u64 params_sent_ns;	/* tcp_clock_cache when LOCAL_OUT last sent parameters */
	u64 since_us;		/* start time of @state */
	u64 wait_us;		/* minimum duration of HPCC_REMOTE_OFF */
	u8 id;			/* id of @params */
	u8 state;
	bool due;		/* LOCAL_OUT must send @params; the hooks also change this flag */
	u8 tries;		/* how often LOCAL_OUT sent @params in this state; hooks write */
};

/* Parameters are sent twice per T until a window answers them, at most this many times. */
static const u8 hpcc_params_tries = 32;
static const u32 hpcc_retry_T = 256;

static struct hpcc_remote *hpcc_remote_of(const struct sock *sk, const struct hpcc_flow *flow)
{
	return rcu_dereference_protected(flow->remote, lockdep_sock_is_held(sk));
}

static u64 hpcc_T_in_us(const struct hpcc_flow *flow, u32 T)
{
	return div_u64(flow->params.T * T, NSEC_PER_USEC);
}

static void hpcc_remote_set(struct sock *sk, struct hpcc_flow *flow, struct hpcc_remote *remote,
			    enum hpcc_remote_state state)
{
	remote->since_us = tcp_sk(sk)->tcp_mstamp;
	WRITE_ONCE(remote->tries, 0);
	WRITE_ONCE(remote->state, state);
	WRITE_ONCE(flow->rx_window_active, state == HPCC_REMOTE_ON);
}

static void hpcc_remote_params(const struct hpcc_flow *flow, u8 id, bool on, u64 words[2])
{
	const struct hpcc_params *p = &flow->params;
	bool alone = flow->census.wants_N;
	struct hpcc_newint_params q = {
		.id = id,
		.T_ns = on ? clamp_t(u64, p->T, HPCC_NEWINT_T_MIN_NS, HPCC_NEWINT_T_MAX_NS) : 0,
		.eta_permille = (p->eta_q24 * 1000ULL + HPCC_ONE_Q24 / 2) >> 24,
		.max_stage = p->max_stage,
		.settle = flow->settle,
		.per_rtt = flow->algo.per_rtt,
		.W_min = clamp(hpcc_newint_part(p, p->W_min_q16, HPCC_NEWINT_W_MIN_BITS),
			       1U, 2047U),
		.W = max(hpcc_newint_part(p, flow->algo.W_q16, HPCC_NEWINT_W_BITS), 1U),
		.W_ai = min(hpcc_newint_part(p, alone ? flow->census.W_ai_one_q16 : p->W_ai_q16,
					     HPCC_NEWINT_W_AI_BITS),
			    BIT(HPCC_NEWINT_W_AI_BITS) - 1),
		.alone = alone,
	};

	hpcc_newint_params_pack(&q, words);
}

/* Let LOCAL_OUT send parameters with a new id. */
static void hpcc_remote_send(struct sock *sk, struct hpcc_flow *flow, struct hpcc_remote *remote,
			     bool on)
{
	u8 id = (remote->id + 1) % HPCC_NEWINT_IDS;
	u64 words[2];

	hpcc_remote_params(flow, id, on, words);
	WRITE_ONCE(remote->params[0], words[0]);
	WRITE_ONCE(remote->params[1], words[1]);
	WRITE_ONCE(remote->id, id);
	WRITE_ONCE(remote->params_sent_ns, tcp_sk(sk)->tcp_clock_cache - flow->params.T);
	WRITE_ONCE(remote->due, true);
}

/* Let the sender compute W from now on. */
void hpcc_remote_stop(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote = hpcc_remote_of(sk, flow);

	if (remote->state == HPCC_REMOTE_OFF)
		return;
	/* A smaller window would get no ACK while the receiver holds its segments. */
	if (remote->state == HPCC_REMOTE_ON)
		hpcc_algo_restart(&flow->algo, &flow->params,
				  max_t(u64, flow->algo.W_q16,
					(u64)(HPCC_RX_HELD + 1) * tcp_sk(sk)->mss_cache << 16));
	/* A peer that did not answer may never answer. */
	remote->wait_us = remote->state == HPCC_REMOTE_OFFERED ?
			  hpcc_T_in_us(flow, hpcc_retry_T) : 0;
	hpcc_remote_set(sk, flow, remote, HPCC_REMOTE_OFF);
	hpcc_remote_send(sk, flow, remote, false);
}

/* Start or stop sending parameters while the sender computes W, if this is due. Call it after the
 * ACK's update of W.
 */
void hpcc_remote_tick(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote = hpcc_remote_of(sk, flow);
	u64 words[2];

	if (remote->state == HPCC_REMOTE_OFFERED) {
		/* The receiver starts with the W of the parameters, and its answer sets our W. So
		 * repeated parameters contain the current W.
		 */
		hpcc_remote_params(flow, remote->id, true, words);
		WRITE_ONCE(remote->params[1], words[1]);
		if (READ_ONCE(remote->tries) > hpcc_params_tries)
			hpcc_remote_stop(sk, flow);
	} else if (tcp_sk(sk)->tcp_mstamp - remote->since_us >= remote->wait_us &&
		   !hpcc_algo_is_slow(&flow->algo, &flow->params)) {
		hpcc_remote_set(sk, flow, remote, HPCC_REMOTE_OFFERED);
		hpcc_remote_send(sk, flow, remote, true);
	}
}

/* Let the receiver compute W of a new flow, unless probes carry requests or there is no ECN. Both
 * ends agreed, and the parameters are set. Signed parameters need timestamps: if data leave in one
 * direction only, all parameters have the same ACK number, and only 16 of them have a place.
 */
void hpcc_remote_begin(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote;

	if (flow->probes || !tcp_ecn_mode_any(tcp_sk(sk)) ||
	    (flow->caps & HPCC_CAP_SIGNED && !tcp_sk(sk)->rx_opt.tstamp_ok))
		return;
	remote = hpcc_flow_zalloc(sk, sizeof(*remote));
	if (!remote)
		return;
	/* Parameters with T = 0 make the receiver stop sending W. The socket may have requested W
	 * before it left hpcc.
	 */
	hpcc_remote_params(flow, 0, false, remote->params);
	rcu_assign_pointer(flow->remote, remote);
	hpcc_remote_tick(sk, flow);
}

/* Send changed parameters again, and ignore windows of older parameters. */
void hpcc_remote_follow_T(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote = hpcc_remote_of(sk, flow);
	u64 words[2];

	if (remote->state == HPCC_REMOTE_OFF)
		return;
	hpcc_remote_params(flow, remote->id, true, words);
	if (!hpcc_newint_params_same(words, remote->params))
		hpcc_remote_send(sk, flow, remote, true);
}

/* Set W from the newest window of the receiver, if it is new. Return: whether there was a new
 * window.
 */
bool hpcc_remote_take(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote = hpcc_remote_of(sk, flow);
	struct hpcc_window w;
	u64 word;

	/* Clear rx_window_new before the window is read: a later window sets it again. */
	smp_store_mb(flow->rx_window_new, false);
	word = READ_ONCE(remote->window);
	if (word == remote->taken || remote->state == HPCC_REMOTE_OFF)
		return false;
	remote->taken = word;
	if (!hpcc_window_unpack(word, &w) || w.id != remote->id)
		return false;
	WRITE_ONCE(remote->due, false);
	if (remote->state != HPCC_REMOTE_ON) {
		hpcc_remote_set(sk, flow, remote, HPCC_REMOTE_ON);
		hpcc_audit_begin(flow);
	}
	hpcc_algo_follow_receiver(&flow->algo, hpcc_window_bytes(&w, &flow->params),
				  READ_ONCE(flow->response), tcp_sk(sk)->snd_una,
				  tcp_sk(sk)->snd_nxt);
	hpcc_window_changed(flow);
	return true;
}

/* The receiver's reports of W have stopped: let the sender compute W. */
void hpcc_remote_silent(struct sock *sk, struct hpcc_flow *flow)
{
	hpcc_remote_stop(sk, flow);
	hpcc_remote_of(sk, flow)->wait_us = hpcc_T_in_us(flow, hpcc_retry_T);
	hpcc_count(sock_net(sk), HPCC_C_WINDOWS_STOPPED);
}

/* Whether to send parameters in place of a request. @flow: a flow; if it is muted, its only request
 * is the trial that may end the muting. Context: LOCAL_OUT.
 */
bool hpcc_params_due(const struct hpcc_flow *flow, const struct tcp_sock *tp)
{
	const struct hpcc_remote *remote = rcu_dereference(flow->remote);

	return READ_ONCE(remote->due) && !READ_ONCE(flow->mute.state) &&
	       hpcc_peek(tp->tcp_clock_cache) - READ_ONCE(remote->params_sent_ns) >=
	       hpcc_peek(flow->params.T) / 2;
}

/* Write a REPORT with parameters. @flow: a flow with parameters due. @p: hpcc_opt_len(2) bytes.
 * Context: LOCAL_OUT. Return: length of the REPORT, bytes.
 */
u32 hpcc_params_write(struct hpcc_flow *flow, const struct tcp_sock *tp, u8 *p)
{
	struct hpcc_remote *remote = rcu_dereference(flow->remote);
	u64 words[2];

	WRITE_ONCE(remote->params_sent_ns, hpcc_peek(tp->tcp_clock_cache));
	WRITE_ONCE(remote->tries, min(READ_ONCE(remote->tries) + 1, U8_MAX));
	/* Parameters with T = 0 get no answer. */
	if (READ_ONCE(remote->state) == HPCC_REMOTE_OFF)
		WRITE_ONCE(remote->due, false);
	words[0] = READ_ONCE(remote->params[0]);
	words[1] = READ_ONCE(remote->params[1]);
	return hpcc_report_write(flow, p, words, 2);
}

/* Store a window that arrived, if it is newer than the stored window. @word: the record of the
 * window. Context: LOCAL_IN. Return: 0; -ENOENT if the ends did not agree on windows; -EINVAL if
 * the window is malformed.
 */
int hpcc_window_in(struct hpcc_flow *flow, const struct net *net, u64 word)
{
	struct hpcc_remote *remote = rcu_dereference(flow->remote);
	struct hpcc_window w;

	if (!remote)
		return -ENOENT;
	if (!hpcc_window_unpack(word, &w))
		return -EINVAL;
	if (w.id != READ_ONCE(remote->id) || READ_ONCE(remote->state) == HPCC_REMOTE_OFF) {
		WRITE_ONCE(remote->due, true);
		hpcc_count(net, HPCC_C_WINDOW_OLD_IGNORED);
		return 0;
	}
	if (!hpcc_window_newer(word, READ_ONCE(remote->window))) {
		hpcc_count(net, HPCC_C_WINDOW_OLD_IGNORED);
		return 0;
	}
	WRITE_ONCE(remote->window, word);
	/* If hpcc_remote_take() sees this flag, it also sees the window. */
	smp_store_release(&flow->rx_window_new, true);
	return 0;
}
