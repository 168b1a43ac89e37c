// SPDX-License-Identifier: GPL-2.0
/*
 * Use of receiver mode, the module of receiver.c. SYN and SYN-ACK offer it only while it is loaded.
 * A flow whose two ends offered it holds the module until the flow is freed.
 */
#include "control/cc.h"
#include "control/receiver_ops.h"

const struct hpcc_receiver_ops __rcu *hpcc_receiver __read_mostly;
EXPORT_SYMBOL_GPL(hpcc_receiver);

/* Let a new flow hold the module of receiver mode, if both ends offered this mode. Without the
 * module each end computes its own W. The flow is not published yet.
 */
void hpcc_receiver_get(struct hpcc_flow *flow)
{
	const struct hpcc_receiver_ops *ops;

	rcu_read_lock();
	ops = rcu_dereference(hpcc_receiver);
	flow->rx_window_agreed = flow->caps & HPCC_CAP_WINDOW && ops && try_module_get(ops->owner);
	rcu_read_unlock();
}

/* Free the memory of receiver mode of a flow without users, and release the module. */
void hpcc_receiver_put(struct hpcc_flow *flow)
{
	const struct hpcc_receiver_ops *ops = hpcc_receiver_of(flow);

	if (!ops)
		return;
	ops->free(flow);
	module_put(ops->owner);
}

void hpcc_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	const struct hpcc_receiver_ops *ops;
	struct hpcc_flow *flow;

	if (event != CA_EVENT_ECN_NO_CE && event != CA_EVENT_ECN_IS_CE)
		return;
	flow = hpcc_flow_of(sk);
	if (!flow)
		return;
	ops = hpcc_receiver_of(flow);
	if (ops && rcu_access_pointer(flow->rx))
		ops->data_in(sk, flow, event == CA_EVENT_ECN_IS_CE);
}
