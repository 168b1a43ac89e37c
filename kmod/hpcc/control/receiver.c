// SPDX-License-Identifier: GPL-2.0
/*
 * Receiver-based HPCC++ (net.hpcc.where = 1 at both ends; draft-miao section 6.2): the receiver.
 * remote.c is the sender; both are the module hpcc_receiver.
 *
 *	sender		sends parameters in a REPORT in place of a request, until it receives a
 *			window that was computed from these parameters
 *	receiver	runs NewINT of <hpcc/law/newint.h> on the records of each data segment that
 *			TCP processes; reports W with an ACK, once per T and when W falls by more
 *			than 1/8
 *	sender		sets W = Wc = the reported window, R = W/T
 *
 * TCP calls the receiver with an ECN event for each data segment, before it decides on an ACK, as
 * for tcp_dctcp. Without ECN there are no such events, so the sender computes W. The sender also
 * computes W if probes carry its requests.
 *
 * The receiver sends one ACK per four segments if many arrive per T. For this it raises rcv_mss,
 * TCP's estimate of the segment size; TCP measures rcv_mss again with each segment.
 *
 * Every few T a receiver also echoes records (an audit): fallback.h needs the load of the links,
 * info.c shows U, and the sender continues with these records after a return.
 */
#include <linux/device/driver.h>
#include <linux/slab.h>
#include <linux/unaligned.h>

#include "control/cc.h"
#include "control/receiver_ops.h"
#include "control/remote.h"
#include "telemetry/mailbox.h"

/* The hooks share @params_new, @arrived, @window and @due as single words. The socket lock protects
 * the other members.
 */
struct hpcc_rx {
	struct hpcc_newint state;	/* state of the algorithm */
	u64 params_new[2];		/* newest parameters from the peer; LOCAL_IN writes */
	u64 params_active[2];		/* parameters from which W is computed */
	u64 window;			/* record of W for the next report; data_in() writes */
	u64 audited_ns;			/* time of the last echo of load records */
	u64 record_ns;			/* time when a record was last processed */
	u64 began_ns;			/* start of the current T */
	u32 began_seq;			/* rcv_nxt at @began_ns */
	u16 seq;			/* sequence number of reports */
	u16 mss;			/* value of rcv_mss that TCP last measured */
	u16 raised;			/* value to which rcv_mss was raised */
	u8 more;			/* segments that an ACK may wait for after the first one */
	bool thin;			/* ACKs wait for more segments */
	u8 id;				/* id of the parameters in use */
	bool on;			/* parameters are in use */
	bool arrived;			/* new parameters are in @params_new */
	bool due;			/* LOCAL_OUT must send @window */
};

static const u32 hpcc_audit_T = 4;

/* Number of T without a record after which TCP alone decides on ACKs: the sender may have
 * changed to another congestion control.
 */
static const u32 hpcc_thin_T = 4;

/* Minimum number of segments per T for which an ACK waits for HPCC_RX_HELD more segments. */
static const u32 hpcc_thin_some = 2;

static const u32 hpcc_ce_shift = 3;

static void hpcc_rx_end(struct sock *sk, struct hpcc_flow *flow)
{
	struct hpcc_rx *rx = rcu_dereference_protected(flow->rx, lockdep_sock_is_held(sk));

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

	/* Clear @arrived before the words are read: newer words set it again. */
	smp_store_mb(rx->arrived, false);
	words[0] = READ_ONCE(rx->params_new[0]);
	words[1] = READ_ONCE(rx->params_new[1]);
	/* The words may be from two sets of parameters. The sender repeats its parameters. */
	if (!hpcc_newint_params_unpack(words, &q))
		return;
	rx->state.reported_q16 = 0;
	if (rx->on && hpcc_newint_params_same(words, rx->params_active))
		return;
	memcpy(rx->params_active, words, sizeof(rx->params_active));
	rx->id = q.id;
	rx->on = q.T_ns;
	rx->record_ns = now_ns;
	WRITE_ONCE(rx->due, false);
	if (q.T_ns) {
		hpcc_newint_begin(&rx->state, &q, now_ns);
		return;
	}
	hpcc_rx_end(sk, flow);
	/* The parameters replaced a request, which may have had PROMPT. */
	inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
}

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
		     hpcc_newint_W_ai_alone(rx->params_active));
}

/* Let the next ACK report W, with an echo beside it if @audit; immediately if W has fallen. */
static void hpcc_rx_report(struct sock *sk, struct hpcc_flow *flow, struct hpcc_rx *rx, bool audit)
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
	/* If hpcc_window_write() reads true from @due, it also reads the new window. */
	smp_store_release(&rx->due, true);
	if (audit) {
		rx->audited_ns = now_ns;
		hpcc_echo_reserve(flow, false);
	}
}

/* At most every fourth segment gets an ACK. While the window grows, TCP acknowledges each segment,
 * but not in pingpong mode (interactive sessions).
 */
static void hpcc_rx_thin(struct sock *sk, struct hpcc_rx *rx)
{
	const struct sk_buff *last = skb_peek_tail(&sk->sk_receive_queue);
	struct inet_connection_sock *icsk = inet_csk(sk);
	/* The last segment ends a write, or was merged with a segment that ends a write. */
	bool pushed = !last || TCP_SKB_CB(last)->tcp_flags & TCPHDR_PSH;
	bool thin = !pushed && rx->more && tcp_sk(sk)->tcp_clock_cache - rx->record_ns <
					   hpcc_thin_T * rx->state.params.T;

	/* If rcv_mss is not the value that we set, TCP has measured it again. */
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

static void hpcc_rx_data(struct sock *sk, struct hpcc_flow *flow, bool ce)
{
	struct hpcc_rx *rx = rcu_dereference_protected(flow->rx, lockdep_sock_is_held(sk));
	u64 now_ns = tcp_sk(sk)->tcp_clock_cache;
	struct hpcc_intake in = {
		.algo = &rx->state.algo,
		.params = &rx->state.params,
		.now_us = tcp_sk(sk)->tcp_mstamp,
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
		rx->record_ns = now_ns;
		hpcc_newint_follow(&rx->state, bits, now_ns);
	}
	hpcc_rx_each_T(sk, flow, rx);
	if (hpcc_newint_due(&rx->state, now_ns))
		hpcc_rx_report(sk, flow, rx, audit);
	hpcc_rx_thin(sk, rx);
}

static bool hpcc_window_pending(const struct hpcc_flow *flow)
{
	return READ_ONCE(rcu_dereference(flow->rx)->due);
}

static u32 hpcc_window_write(struct hpcc_flow *flow, u8 *p)
{
	struct hpcc_rx *rx = rcu_dereference(flow->rx);
	u64 window;

	/* Clear @due before the window is read: a newer window sets it again. */
	smp_store_mb(rx->due, false);
	window = READ_ONCE(rx->window);
	return hpcc_report_write(flow, p, &window, 1);
}

/* Return: the receiver's state, allocated if needed, or NULL. The caller has a reference to the
 * socket.
 */
static struct hpcc_rx *hpcc_rx_get(struct hpcc_flow *flow)
{
	struct hpcc_rx *rx = rcu_dereference(flow->rx);

	if (rx)
		return rx;
	rx = hpcc_flow_zalloc(flow->sk, sizeof(*rx));
	return rx ? hpcc_publish_once(&flow->rx, rx) : NULL;
}

/* Store parameters until TCP processes the data of the same segment. */
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
	WRITE_ONCE(rx->params_new[0], words[0]);
	WRITE_ONCE(rx->params_new[1], words[1]);
	/* If hpcc_rx_begin() reads true from @arrived, it also reads both new words. */
	smp_store_release(&rx->arrived, true);
	return 0;
}

static int hpcc_receiver_in(struct hpcc_flow *flow, const struct net *net,
			    const struct hpcc_opt *opt, const u8 *records)
{
	u64 words[2] = { get_unaligned_be64(records) };

	if (words[0] >> 60 == HPCC_REPORT_WINDOW && opt->nr == 1)
		return hpcc_window_in(flow, net, words[0]);
	if (words[0] >> 60 != HPCC_REPORT_PARAMETERS || opt->nr != 2)
		return -EINVAL;
	words[1] = get_unaligned_be64(records + HPCC_RECORD_LEN);
	return hpcc_params_in(flow, net, words);
}

static void hpcc_receiver_free(struct hpcc_flow *flow)
{
	struct hpcc_rx *rx = rcu_access_pointer(flow->rx);

	kfree(rcu_access_pointer(flow->remote));
	if (rx)
		kfree(rx->state.algo.L);
	kfree(rx);
}

static const struct hpcc_receiver_ops hpcc_ops_of_receiver = {
	.owner		= THIS_MODULE,
	.begin		= hpcc_remote_begin,
	.follow_T	= hpcc_remote_follow_T,
	.tick		= hpcc_remote_tick,
	.take		= hpcc_remote_take,
	.stop		= hpcc_remote_stop,
	.silent		= hpcc_remote_silent,
	.data_in	= hpcc_rx_data,
	.end		= hpcc_rx_end,
	.window_pending	= hpcc_window_pending,
	.window_write	= hpcc_window_write,
	.params_due	= hpcc_params_due,
	.params_write	= hpcc_params_write,
	.report_in	= hpcc_receiver_in,
	.free		= hpcc_receiver_free,
};

/* Last step of the module's init. Takes no lock: see common/setup.c. */
static int hpcc_receiver_register(const struct hpcc_receiver_ops *ops)
{
	rcu_assign_pointer(hpcc_receiver, ops);
	set_bit(HPCC_MODULE_RECEIVER, &hpcc_modules_loaded);
	return 0;
}

/* The module's exit: no flow uses it. Waits until no hpcc_receiver_get() still reads @ops. */
static void hpcc_receiver_unregister(const struct hpcc_receiver_ops *ops)
{
	clear_bit(HPCC_MODULE_RECEIVER, &hpcc_modules_loaded);
	rcu_assign_pointer(hpcc_receiver, NULL);
	synchronize_rcu();
}

module_driver(hpcc_ops_of_receiver, hpcc_receiver_register, hpcc_receiver_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("HPCC++: receivers compute W");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
