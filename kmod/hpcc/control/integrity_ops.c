// SPDX-License-Identifier: GPL-2.0
/*
 * Use of signed feedback, the module of integrity.c. SYN and SYN-ACK announce it if the module is
 * loaded and has a key for the peer. A flow whose two ends announced it holds the module until the
 * flow is freed. If such a flow has no state, it ignores all feedback and sends none.
 */
#include <linux/export.h>

#include "control/agreement.h"
#include "control/integrity_ops.h"
#include "control/mute.h"
#include "netns/net.h"

const struct hpcc_integrity_ops __rcu *hpcc_integrity __read_mostly;
EXPORT_SYMBOL_GPL(hpcc_integrity);

/* What the keys for a peer demand: HPCC_CAP_SIGNED, HPCC_KEY_REQUIRED. If there are keys, but their
 * module was removed, no peer gets telemetry.
 */
u16 __cold hpcc_key_caps(const struct sock *sk)
{
	const struct hpcc_integrity_ops *ops;
	u16 caps = 0;

	rcu_read_lock();
	ops = rcu_dereference(hpcc_integrity);
	if (ops)
		caps = ops->caps(sk);
	else if (rcu_access_pointer(hpcc_pernet_rcu(sock_net(sk))->tables[HPCC_TABLE_KEYS]))
		caps = HPCC_KEY_REQUIRED;
	rcu_read_unlock();
	return caps;
}

/* Let a new flow sign and verify, if both ends announced this. The flow is not published yet. */
void __cold hpcc_integrity_get(const struct sock *sk, struct hpcc_flow *flow, bool fresh)
{
	const struct hpcc_integrity_ops *ops;

	if (!(flow->caps & HPCC_CAP_SIGNED))
		return;
	flow->unverified = HPCC_UNVERIFIED;
	hpcc_mute_sign(flow);
	rcu_read_lock();
	ops = rcu_dereference(hpcc_integrity);
	if (ops)
		flow->integrity = ops->begin(sk, flow->caps & HPCC_NOTE_ACTIVE, fresh);
	rcu_read_unlock();
}

/* Free the state of a flow without users, and release the module. */
void __cold hpcc_integrity_put(struct hpcc_flow *flow)
{
	const struct hpcc_integrity_ops *ops = hpcc_integrity_of(flow);

	if (!ops)
		return;
	ops->free(flow->integrity);
	module_put(ops->owner);
}
