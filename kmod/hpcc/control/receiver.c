// SPDX-License-Identifier: GPL-2.0
/*
 * Receiver-based HPCC++ (net.hpcc.where = 1 at both ends; draft-miao section 6.2).
 *
 *	sender		sends parameters in a REPORT in place of a request, until it receives a
 *			window that was computed with them
 *	receiver	runs NewINT of <hpcc/law/newint.h> on the records of each data segment that
 *			TCP processes; reports W with an ACK, once per T and when W falls by more
 *			than 1/8
 *	sender		sets W = Wc = the reported window, R = W/T
 *
 * TCP calls the receiver with an ECN event for each data segment, before it decides on an ACK;
 * tcp_dctcp uses these events, too. Without ECN there are no such events, so the sender computes W.
 * The sender also computes W if probes carry its requests.
 *
 * ACKs carry no telemetry if the receiver computes W, so the receiver sends fewer ACKs: one per
 * four segments if many arrive per T. For this it raises rcv_mss, TCP's estimate of the segment
 * size; TCP measures it again with each segment. The end of a write (PSH) is acknowledged as usual.
 *
 * Every few T a receiver also echoes records (an audit): fallback.h needs the load of the links,
 * info.c shows U, and the sender continues with these records after a return.
 *
 *	OFF -> ASKING	slow start is over, and the last attempt did not just fail
 *	ASKING -> ON	a window with the id of our parameters arrived
 *	ASKING -> OFF	parameters were sent 32 times, twice per T
 *	ON -> OFF	RTO; fallback; no window for 8 requests, 8 ACKs and 8 RTTs
 *
 * In ON -> OFF the sender sends parameters with T = 0, and repeats them while windows arrive. After
 * silence it tries again 256 T later.
 */
#include <linux/slab.h>
#include <linux/unaligned.h>
#include <net/tcp.h>
#include <hpcc/compat.h>
#include <hpcc/law/response.h>

#include "common/peek.h"
#include "control/cc.h"
#include "control/census.h"
#include "control/receiver.h"
#include "control/window.h"
#include "netns/net.h"
#include "telemetry/mailbox.h"

static const u32 hpcc_audit_T = 4;

/* After this many T without a record ACKs are TCP's own: the sender may have left hpcc. */
static const u32 hpcc_thin_T = 4;

/* With this many segments per T, ACKs wait for HPCC_RX_HELD more segments. With HPCC_RX_MANY they
 * wait for one more.
 */
static const u32 hpcc_thin_some = 2;

static const u32 hpcc_ce_shift = 3;

/* Parameters are sent twice per T until they are answered, at most this many times. */
static const u8 hpcc_ask_tries = 32;
static const u32 hpcc_ask_again_T = 256;

/* ---- Receiver ---------------------------------------------------------- */

/**
 * hpcc_rx_end() - restore normal echoes and ACKs: the receiver does not compute W any more
 * @sk: socket
 * @flow: its flow
 */
void hpcc_rx_end(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_rx *rx = rcu_dereference_protected(flow->rx, lockdep_sock_is_held(sk));

	if (!rx)
		return;
	rx->on = false;
	WRITE_ONCE(rx->due, false);
	hpcc_echo_reserve(flow, false);
	if (rx->thin)
		inet_csk_exit_pingpong_mode(sk);
	rx->thin = false;
	rx->more = 0;
	if (inet_csk(sk)->icsk_ack.rcv_mss == rx->raised)
		inet_csk(sk)->icsk_ack.rcv_mss = rx->mss;
	rx->raised = 0;
}

/* Start to use the parameters that arrived. Repeated parameters only trigger a new answer. */
static void hpcc_rx_begin(struct sock *sk, struct hpcc_flow *flow, struct hpcc_rx *rx)
{
	u64 now_ns = tcp_sk(sk)->tcp_clock_cache;
	struct hpcc_newint_params q;
	u64 words[2];

	/* Clear arrived before the words are read: later words set it again. */
	smp_store_mb(rx->arrived, false);
	words[0] = READ_ONCE(rx->wants[0]);
	words[1] = READ_ONCE(rx->wants[1]);
	/* The words may be from two sets. The sender repeats them. */
	if (!hpcc_newint_params_unpack(words, &q))
		return;
	rx->state.reported_q16 = 0;
	if (rx->on && hpcc_newint_params_same(words, rx->uses))
		return;
	memcpy(rx->uses, words, sizeof(rx->uses));
	rx->id = q.id;
	rx->on = q.T_ns;
	rx->heard_ns = now_ns;
	WRITE_ONCE(rx->due, false);
	if (q.T_ns) {
		hpcc_newint_begin(&rx->state, &q, now_ns);
		return;
	}
	hpcc_rx_end(sk, flow);
	/* The parameters replaced a request, which may have had PROMPT. */
	inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
}

/* Once per T, set the number of segments that ACKs may wait for, and update N. */
static void hpcc_rx_each_T(const struct sock *sk, struct hpcc_flow *flow, struct hpcc_rx *rx)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 T = rx->state.params.T;
	u64 elapsed = tp->tcp_clock_cache - rx->began_ns;
	u32 bytes = tp->rcv_nxt - rx->began_seq;

	if (elapsed < T)
		return;
	rx->began_ns = tp->tcp_clock_cache;
	rx->began_seq = tp->rcv_nxt;
	rx->more = 0;
	if (elapsed < 2 * T)
		rx->more = HPCC_RX_HELD * (bytes >= hpcc_thin_some * rx->mss) +
			   (bytes >= HPCC_RX_MANY * rx->mss);
	hpcc_count_N(flow, sk, &rx->state.algo, &rx->state.params,
		     hpcc_newint_W_ai_alone(rx->uses));
}

/* Let the next ACK report W, with an echo beside it if @audit. Send this ACK immediately if W has
 * fallen.
 */
static void hpcc_rx_tell(struct sock *sk, struct hpcc_flow *flow, struct hpcc_rx *rx, bool audit)
{
	u64 now_ns = tcp_sk(sk)->tcp_clock_cache;
	struct hpcc_window w = { .id = rx->id, .seq = ++rx->seq };

	if (hpcc_newint_fell(&rx->state)) {
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
		/* The sender's window may be small now. */
		rx->more = min_t(u8, rx->more, HPCC_RX_HELD);
	}
	w.W = hpcc_newint_report(&rx->state, now_ns);
	WRITE_ONCE(rx->window, hpcc_window_pack(&w));
	/* If hpcc_window_write() sees this flag, it also sees the window. */
	smp_store_release(&rx->due, true);
	if (audit) {
		rx->audited_ns = now_ns;
		hpcc_echo_reserve(flow, false);
	}
}

/* Let TCP acknowledge at most every fourth segment. To help slow start, TCP acknowledges each
 * segment while the window grows, but not in pingpong mode (interactive sessions).
 */
static void hpcc_rx_thin(struct sock *sk, struct hpcc_rx *rx)
{
	const struct sk_buff *last = skb_peek_tail(&sk->sk_receive_queue);
	struct inet_connection_sock *icsk = inet_csk(sk);
	/* The last segment ends a write, or was merged with one that does. */
	bool pushed = !last || TCP_SKB_CB(last)->tcp_flags & TCPHDR_PSH;
	bool thin = !pushed && rx->more && tcp_sk(sk)->tcp_clock_cache - rx->heard_ns <
					   hpcc_thin_T * rx->state.params.T;

	/* TCP has measured again if rcv_mss is not the value that we set. */
	if (icsk->icsk_ack.rcv_mss != rx->raised)
		rx->mss = icsk->icsk_ack.rcv_mss;
	rx->raised = rx->mss;
	if (thin) {
		rx->raised = min_t(u32, rx->more * rx->mss, U16_MAX);
		icsk->icsk_ack.pending &= ~(ICSK_ACK_PUSHED | ICSK_ACK_PUSHED2);
		inet_csk_enter_pingpong_mode(sk);
	} else if (rx->thin) {
		inet_csk_exit_pingpong_mode(sk);
	}
	/* TCP ignores PSH of a segment that is shorter than the raised rcv_mss. */
	if (pushed)
		icsk->icsk_ack.pending |= ICSK_ACK_PUSHED;
	rx->thin = thin;
	icsk->icsk_ack.rcv_mss = rx->raised;
}

/* Process the records of a data segment for the peer's W. */
static void hpcc_rx_data(struct sock *sk, struct hpcc_flow *flow, struct hpcc_rx *rx, bool ce)
{
	u64 now_ns = tcp_sk(sk)->tcp_clock_cache;
	struct hpcc_intake in = {
		.algo = &rx->state.algo,
		.params = &rx->state.params,
		.now_us = tcp_sk(sk)->tcp_mstamp,
		.hop_records = flow->hop_records,
	};
	bool open, audit;
	u32 bits;

	if (READ_ONCE(rx->arrived))
		hpcc_rx_begin(sk, flow, rx);
	if (!rx->on)
		return;
	if (unlikely(ce))
		hpcc_newint_reduce(&rx->state, hpcc_ce_shift, now_ns);
	/* The echo of an audit leaves together with W. */
	open = !READ_ONCE(flow->echo.reserved) && READ_ONCE(rx->due);
	audit = open || now_ns - rx->audited_ns >= hpcc_audit_T * rx->state.params.T;
	if (!open && !READ_ONCE(flow->echo.reserved) && hpcc_echo_is_load(flow))
		hpcc_echo_reserve(flow, true);
	if (hpcc_echo_drain(sk, flow, &in, audit, &bits)) {
		rx->heard_ns = now_ns;
		hpcc_newint_follow(&rx->state, bits, now_ns);
	}
	hpcc_rx_each_T(sk, flow, rx);
	if (hpcc_newint_due(&rx->state, now_ns))
		hpcc_rx_tell(sk, flow, rx, audit);
	hpcc_rx_thin(sk, rx);
}

void hpcc_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct hpcc_flow *flow;
	struct hpcc_rx *rx;

	if (event != CA_EVENT_ECN_NO_CE && event != CA_EVENT_ECN_IS_CE)
		return;
	flow = hpcc_flow_of(sk);
	if (!flow)
		return;
	rx = rcu_dereference_protected(flow->rx, lockdep_sock_is_held(sk));
	if (unlikely(rx))
		hpcc_rx_data(sk, flow, rx, event == CA_EVENT_ECN_IS_CE);
}

/**
 * hpcc_window_write() - write a REPORT with W
 * @flow: a flow for which hpcc_window_pending() is true
 * @p: hpcc_opt_len(1) bytes
 *
 * Context: LOCAL_OUT.
 * Return: length of the REPORT, bytes.
 */
u32 hpcc_window_write(struct hpcc_flow *flow, u8 *p)
{
	const struct hpcc_opt opt = { .type = HPCC_OPT_REPORT, .nr = 1 };
	struct hpcc_rx *rx = rcu_dereference(flow->rx);

	/* Clear due before the window is read: a later window sets it again. */
	smp_store_mb(rx->due, false);
	hpcc_opt_encode(p, flow->kind, &opt);
	put_unaligned_be64(READ_ONCE(rx->window), p + HPCC_OPT_HEAD_LEN);
	return hpcc_opt_len(1);
}

/* Return: the receiver's state, allocated if needed, or NULL. The caller holds the socket. */
static struct hpcc_rx *hpcc_rx_get(struct hpcc_flow *flow)
{
	struct hpcc_rx *rx = rcu_dereference(flow->rx);
	struct hpcc_rx *new;

	if (rx)
		return rx;
	new = hpcc_flow_zalloc(flow->sk, sizeof(*new));
	if (!new)
		return NULL;
	rx = unrcu_pointer(cmpxchg(&flow->rx, NULL, RCU_INITIALIZER(new)));
	if (rx)
		kfree(new);
	return rx ?: new;
}

/* Store parameters until TCP processes the data that they arrived with. */
static int hpcc_params_in(struct hpcc_flow *flow, const struct net *net, const u64 words[2])
{
	struct hpcc_newint_params q;
	struct hpcc_rx *rx;

	if (!hpcc_newint_params_unpack(words, &q))
		return -EINVAL;
	rx = hpcc_rx_get(flow);
	if (!rx) {
		hpcc_count(net, HPCC_C_NO_MEMORY);
		return 0;
	}
	WRITE_ONCE(rx->wants[0], words[0]);
	WRITE_ONCE(rx->wants[1], words[1]);
	/* If hpcc_rx_begin() sees this flag, it also sees the words. */
	smp_store_release(&rx->arrived, true);
	return 0;
}

/* ---- Sender ------------------------------------------------------------ */

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

/* The parameters for the receiver, as two words. */
static void hpcc_remote_params(const struct sock *sk, const struct hpcc_flow *flow, u8 id,
			       bool on, u64 words[2])
{
	const struct hpcc_sysctls *sysctls = &hpcc_pernet(sock_net(sk))->sysctls;
	const struct hpcc_params *p = &flow->params;
	bool alone = flow->census.wants_N;
	struct hpcc_newint_params q = {
		.id = id,
		.T_ns = on ? clamp_t(u64, p->T, HPCC_NEWINT_T_MIN_NS, HPCC_NEWINT_T_MAX_NS) : 0,
		.eta_permille = READ_ONCE(sysctls->eta_permille),
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
static void hpcc_remote_tell(struct sock *sk, struct hpcc_flow *flow, struct hpcc_remote *remote,
			     bool on)
{
	u8 id = (remote->id + 1) % HPCC_NEWINT_IDS;
	u64 words[2];

	hpcc_remote_params(sk, flow, id, on, words);
	WRITE_ONCE(remote->tell[0], words[0]);
	WRITE_ONCE(remote->tell[1], words[1]);
	WRITE_ONCE(remote->id, id);
	WRITE_ONCE(remote->params_sent_ns, tcp_sk(sk)->tcp_clock_cache - flow->params.T);
	WRITE_ONCE(remote->telling, true);
}

/**
 * hpcc_remote_begin() - let the receiver compute W, if both ends agreed to that
 * @sk: socket
 * @flow: its new flow, whose parameters are set
 *
 * Context: socket lock, as all functions of the sender except those in LOCAL_IN and LOCAL_OUT.
 */
void hpcc_remote_begin(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote;

	if (!flow->rx_window_agreed || flow->probes || !hpcc_ecn_is_negotiated(tcp_sk(sk)))
		return;
	remote = hpcc_flow_zalloc(sk, sizeof(*remote));
	if (!remote)
		return;
	/* Parameters with T = 0: stop windows that the socket requested before it left hpcc. */
	hpcc_remote_params(sk, flow, 0, false, remote->tell);
	rcu_assign_pointer(flow->remote, remote);
	hpcc_remote_tick(sk, flow);
}

/**
 * hpcc_remote_tick() - start or stop sending parameters, if it is time for that
 * @sk: socket that runs hpcc
 * @flow: its flow, after this ACK's update of W
 */
void hpcc_remote_tick(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote = hpcc_remote_of(sk, flow);
	u64 words[2];

	if (likely(!remote) || remote->state == HPCC_REMOTE_ON)
		return;
	if (remote->state == HPCC_REMOTE_ASKING) {
		/* The answer sets W: repeated parameters contain the current W. */
		hpcc_remote_params(sk, flow, remote->id, true, words);
		WRITE_ONCE(remote->tell[1], words[1]);
		if (READ_ONCE(remote->tries) > hpcc_ask_tries) {
			hpcc_remote_stop(sk, flow);
			remote->wait_us = hpcc_T_in_us(flow, hpcc_ask_again_T);
		}
	} else if (tcp_sk(sk)->tcp_mstamp - remote->since_us >= remote->wait_us &&
		   !hpcc_algo_is_slow(&flow->algo, &flow->params)) {
		hpcc_remote_set(sk, flow, remote, HPCC_REMOTE_ASKING);
		hpcc_remote_tell(sk, flow, remote, true);
	}
}

/**
 * hpcc_remote_follow_T() - send parameters again if they changed
 * @sk: socket
 * @flow: its flow
 *
 * Windows that were computed with older parameters are ignored from now on.
 */
void hpcc_remote_follow_T(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote = hpcc_remote_of(sk, flow);
	u64 words[2];

	if (!remote || remote->state == HPCC_REMOTE_OFF)
		return;
	hpcc_remote_params(sk, flow, remote->id, true, words);
	if (!hpcc_newint_params_same(words, remote->tell))
		hpcc_remote_tell(sk, flow, remote, true);
}

/**
 * hpcc_remote_take() - set W from the newest window, if there is one
 * @sk: socket that runs hpcc
 * @flow: its flow
 *
 * Return: whether there was a new window.
 */
bool hpcc_remote_take(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote = hpcc_remote_of(sk, flow);
	struct hpcc_window w;
	u64 word;

	if (likely(!READ_ONCE(flow->rx_window_new)))
		return false;
	/* Clear rx_window_new before the window is read: a later window sets it again. */
	smp_store_mb(flow->rx_window_new, false);
	word = READ_ONCE(remote->window);
	if (word == remote->taken || remote->state == HPCC_REMOTE_OFF)
		return false;
	remote->taken = word;
	if (!hpcc_window_unpack(word, &w) || w.id != remote->id)
		return false;
	WRITE_ONCE(remote->telling, false);
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

/**
 * hpcc_remote_stop() - let the sender compute W from now on
 * @sk: socket
 * @flow: its flow
 */
void hpcc_remote_stop(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_remote *remote = hpcc_remote_of(sk, flow);

	if (likely(!remote) || remote->state == HPCC_REMOTE_OFF)
		return;
	/* The receiver may leave HPCC_RX_HELD segments without an ACK: a smaller window would get
	 * no ACK.
	 */
	if (remote->state == HPCC_REMOTE_ON)
		hpcc_algo_restart(&flow->algo, &flow->params,
				  max_t(u64, flow->algo.W_q16,
					(u64)(HPCC_RX_HELD + 1) * tcp_sk(sk)->mss_cache << 16));
	hpcc_remote_set(sk, flow, remote, HPCC_REMOTE_OFF);
	remote->wait_us = 0;
	hpcc_remote_tell(sk, flow, remote, false);
}

/**
 * hpcc_remote_silent() - the receiver's reports of W have stopped
 * @sk: socket that runs hpcc
 * @flow: its flow
 *
 * Return: whether the receiver computed W until now.
 */
bool hpcc_remote_silent(struct sock *sk, struct hpcc_flow *flow)
{
	if (likely(!flow->rx_window_active))
		return false;
	hpcc_remote_stop(sk, flow);
	hpcc_remote_of(sk, flow)->wait_us = hpcc_T_in_us(flow, hpcc_ask_again_T);
	hpcc_count(sock_net(sk), HPCC_C_WINDOWS_STOPPED);
	return true;
}

/**
 * hpcc_params_due() - whether to send parameters in place of a request
 * @flow: a flow
 * @tp: its socket
 *
 * Not while the flow is muted: its only request is the trial that may end the muting.
 *
 * Context: LOCAL_OUT.
 */
bool hpcc_params_due(const struct hpcc_flow *flow, const struct tcp_sock *tp)
{
	const struct hpcc_remote *remote;

	if (likely(!flow->rx_window_agreed))
		return false;
	remote = rcu_dereference(flow->remote);
	return remote && READ_ONCE(remote->telling) && !READ_ONCE(flow->mute.state) &&
	       hpcc_peek(tp->tcp_clock_cache) - READ_ONCE(remote->params_sent_ns) >=
	       hpcc_peek(flow->params.T) / 2;
}

/**
 * hpcc_params_write() - write a REPORT with parameters
 * @flow: a flow with parameters due
 * @tp: its socket
 * @p: hpcc_opt_len(2) bytes
 *
 * Context: LOCAL_OUT.
 * Return: length of the REPORT, bytes.
 */
u32 hpcc_params_write(struct hpcc_flow *flow, const struct tcp_sock *tp, u8 *p)
{
	const struct hpcc_opt opt = { .type = HPCC_OPT_REPORT, .nr = 2 };
	struct hpcc_remote *remote = rcu_dereference(flow->remote);

	WRITE_ONCE(remote->params_sent_ns, hpcc_peek(tp->tcp_clock_cache));
	WRITE_ONCE(remote->tries, min(READ_ONCE(remote->tries) + 1, U8_MAX));
	/* Parameters with T = 0 get no answer. */
	if (READ_ONCE(remote->state) == HPCC_REMOTE_OFF)
		WRITE_ONCE(remote->telling, false);
	hpcc_opt_encode(p, flow->kind, &opt);
	put_unaligned_be64(READ_ONCE(remote->tell[0]), p + hpcc_opt_len(0));
	put_unaligned_be64(READ_ONCE(remote->tell[1]), p + hpcc_opt_len(1));
	return hpcc_opt_len(2);
}

/* Store a window that arrived, if it is newer than the stored one. */
static int hpcc_window_in(struct hpcc_flow *flow, const struct net *net, u64 word)
{
	struct hpcc_remote *remote = rcu_dereference(flow->remote);
	struct hpcc_window w;

	if (!hpcc_window_unpack(word, &w))
		return -EINVAL;
	if (w.id != READ_ONCE(remote->id) || READ_ONCE(remote->state) == HPCC_REMOTE_OFF) {
		WRITE_ONCE(remote->telling, true);
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

/* ---- Both -------------------------------------------------------------- */

/**
 * hpcc_receiver_in() - process a REPORT with a window or parameters
 * @flow: a flow
 * @net: its network namespace
 * @opt: head of the option, with at least one record
 * @records: its records
 *
 * Context: LOCAL_IN.
 * Return: 0; -ENOENT if this REPORT was not agreed upon; -EINVAL if it is malformed.
 */
int hpcc_receiver_in(struct hpcc_flow *flow, const struct net *net, const struct hpcc_opt *opt,
		     const u8 *records)
{
	u64 words[2] = { get_unaligned_be64(records) };

	if (words[0] >> 60 == HPCC_REPORT_WINDOW ? !rcu_access_pointer(flow->remote) :
						   !flow->rx_window_agreed)
		return -ENOENT;
	if (words[0] >> 60 == HPCC_REPORT_WINDOW && opt->nr == 1)
		return hpcc_window_in(flow, net, words[0]);
	if (words[0] >> 60 != HPCC_REPORT_PARAMETERS || opt->nr != 2)
		return -EINVAL;
	words[1] = get_unaligned_be64(records + HPCC_RECORD_LEN);
	return hpcc_params_in(flow, net, words);
}
