/* SPDX-License-Identifier: GPL-2.0 */
/* Receiver mode: its module hpcc_receiver (receiver.c, remote.c), and its use (receiver_ops.c). */
#ifndef _HPCC_CONTROL_RECEIVER_OPS_H
#define _HPCC_CONTROL_RECEIVER_OPS_H

#include <linux/module.h>
#include <hpcc/law/newint.h>

#include "flow/flow.h"

/* A receiver that computes W may hold this many segments without an ACK, and one more if a window
 * has HPCC_RX_MANY segments or more. The sender adds this number to W.
 */
#define HPCC_RX_HELD		2
#define HPCC_RX_MANY		8
/* The sender requests prompt ACKs if cwnd is below this. */
#define HPCC_PROMPT_CWND_RX	(HPCC_RX_HELD + 2)

/**
 * struct hpcc_receiver_ops - receiver mode
 * @owner: its module
 * @begin: let the receiver compute W of a new flow whose parameters are set
 * @follow_T: send changed parameters again; windows of older parameters are ignored from now on
 * @tick: start or stop sending parameters, if this is due; called after each ACK's update of W
 * @take: set W from the newest window. Return: whether there was a new window
 * @stop: let the sender compute W from now on
 * @silent: the receiver's reports of W have stopped: let the sender compute W
 * @data_in: process the records of a data segment for the peer's W; ce: the segment is marked
 * @end: restore normal echoes and ACKs: the receiver does not compute W any more
 * @window_pending: whether a report of W is pending
 * @window_write: write a REPORT with W, hpcc_opt_len(1) bytes. Return: its length
 * @params_due: whether to send parameters in place of a request
 * @params_write: write a REPORT with parameters, hpcc_opt_len(2) bytes. Return: its length
 * @report_in: process a REPORT with a window or parameters. Return: 0; -ENOENT if this REPORT was
 *	not agreed upon; -EINVAL if it is malformed
 * @free: free the memory of a flow without users
 * Context: socket lock from @begin to @end; LOCAL_OUT or LOCAL_IN from @window_pending to
 * @report_in.
 */
struct hpcc_receiver_ops {
	struct module *owner;

	void (*begin)(struct sock *sk, struct hpcc_flow *flow);
	void (*follow_T)(struct sock *sk, struct hpcc_flow *flow);
	void (*tick)(struct sock *sk, struct hpcc_flow *flow);
	bool (*take)(struct sock *sk, struct hpcc_flow *flow);
	void (*stop)(struct sock *sk, struct hpcc_flow *flow);
	void (*silent)(struct sock *sk, struct hpcc_flow *flow);
	void (*data_in)(struct sock *sk, struct hpcc_flow *flow, bool ce);
	void (*end)(struct sock *sk, struct hpcc_flow *flow);

	bool (*window_pending)(const struct hpcc_flow *flow);
	u32 (*window_write)(struct hpcc_flow *flow, u8 *p);
	bool (*params_due)(const struct hpcc_flow *flow, const struct tcp_sock *tp);
	u32 (*params_write)(struct hpcc_flow *flow, const struct tcp_sock *tp, u8 *p);
	int (*report_in)(struct hpcc_flow *flow, const struct net *net, const struct hpcc_opt *opt,
			 const u8 *records);

	void (*free)(struct hpcc_flow *flow);
};

/* NULL while the module is not loaded. Constant while a flow holds the module. */
extern const struct hpcc_receiver_ops __rcu *hpcc_receiver;

void hpcc_receiver_get(struct hpcc_flow *flow);
void hpcc_receiver_put(struct hpcc_flow *flow);

/* The functions of receiver mode; NULL if the flow does not hold the module. */
static inline const struct hpcc_receiver_ops *hpcc_receiver_of(const struct hpcc_flow *flow)
{
	return unlikely(flow->rx_window_agreed) ? rcu_dereference_raw(hpcc_receiver) : NULL;
}

/* Whether SYN and SYN-ACK may offer receiver mode. */
static inline bool hpcc_receiver_is_loaded(void)
{
	return test_bit(HPCC_MODULE_RECEIVER, &hpcc_modules_loaded);
}

/* Functions of struct hpcc_receiver_ops, without an indirect call if there is nothing to do. */
static inline void hpcc_receiver_tick(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_receiver_ops *ops = hpcc_receiver_of(flow);

	if (ops && rcu_access_pointer(flow->remote) && !flow->rx_window_active)
		ops->tick(sk, flow);
}

static inline bool hpcc_receiver_take(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_receiver_ops *ops = hpcc_receiver_of(flow);

	return ops && READ_ONCE(flow->rx_window_new) && ops->take(sk, flow);
}

static inline void hpcc_receiver_stop(struct sock *sk, struct hpcc_flow *flow)
{
	const struct hpcc_receiver_ops *ops = hpcc_receiver_of(flow);

	if (ops && rcu_access_pointer(flow->remote))
		ops->stop(sk, flow);
}

static inline bool hpcc_receiver_window_pending(const struct hpcc_flow *flow)
{
	const struct hpcc_receiver_ops *ops = hpcc_receiver_of(flow);

	return ops && rcu_access_pointer(flow->rx) && ops->window_pending(flow);
}

static inline bool hpcc_receiver_params_due(const struct hpcc_flow *flow, const struct tcp_sock *tp)
{
	const struct hpcc_receiver_ops *ops = hpcc_receiver_of(flow);

	return ops && rcu_access_pointer(flow->remote) && ops->params_due(flow, tp);
}

/* Whether receiver mode processes a REPORT with the head @opt. */
static inline bool hpcc_is_receivers(const struct hpcc_opt *opt, const u8 *records)
{
	u8 kind = opt->nr ? hpcc_slot_hop(records) : 0;

	return kind == HPCC_REPORT_WINDOW || kind == HPCC_REPORT_PARAMETERS;
}

/* TCP's notification that data arrived. @event: CA_EVENT_ECN_*; others are ignored. */
void hpcc_cwnd_event(struct sock *sk, enum tcp_ca_event event);

#endif /* _HPCC_CONTROL_RECEIVER_OPS_H */
