// SPDX-License-Identifier: GPL-2.0
/*
 * Use of receiver mode, the module of receiver.c. SYN and SYN-ACK offer it only while it is loaded.
 * A flow whose two ends offered it holds the module until the flow is freed.
 */
#include "control/cc.h"
#include "control/receiver_ops.h"

const struct hpcc_receiver_ops __rcu *hpcc_receiver __read_mostly;

/**
 * hpcc_receiver_register() - let connections use receiver mode from now on
 * @ops: its functions
 * Context: last step of the module's init. Takes no lock: see common/setup.c.
 * Return: always 0.
 */
int __cold hpcc_receiver_register(const struct hpcc_receiver_ops *ops)
{
	rcu_assign_pointer(hpcc_receiver, ops);
	set_bit(HPCC_MODULE_RECEIVER, &hpcc_modules_loaded);
	return 0;
}
EXPORT_SYMBOL_GPL(hpcc_receiver_register);

/**
 * hpcc_receiver_unregister() - stop the use of receiver mode
 * @ops: its functions; no flow uses them
 * Context: the module's exit; waits until no hpcc_receiver_get() still reads the operations.
 */
void __cold hpcc_receiver_unregister(const struct hpcc_receiver_ops *ops)
{
	clear_bit(HPCC_MODULE_RECEIVER, &hpcc_modules_loaded);
	rcu_assign_pointer(hpcc_receiver, NULL);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(hpcc_receiver_unregister);

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
