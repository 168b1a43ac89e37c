// SPDX-License-Identifier: GPL-2.0
/* The output of ss and getsockopt(TCP_CC_INFO). */
#include "common/info.h"
#include "control/cc.h"
#include "observe/netlink.h"

/**
 * hpcc_get_info() - bw is W/T, min_rtt is T, pacing_gain is U, cwnd_gain is eta
 * @sk: full TCP socket
 * @ext: extensions that the caller requests
 * @attr: set to the type of @info
 * @info: filled in
 * Context: without the socket lock. icsk_ca_priv may belong to another congestion control by now,
 * so the flow comes from the table.
 * Return: length of @info; 0: no requested extension is ours, or the socket has no flow.
 */
size_t __cold hpcc_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct hpcc_flow *flow;
	size_t len = 0;

	if (!hpcc_info_is_wanted(ext) || !hpcc_is_up())
		return 0;
	rcu_read_lock();
	flow = hpcc_flow_find(sk);
	if (flow) {
		len = hpcc_info_put(info, attr, hpcc_peek_rate(flow),
				    hpcc_peek(flow->params.T), hpcc_peek(flow->algo.U_q24) >> 16,
				    READ_ONCE(flow->params.eta_q24) >> 16);
	}
	rcu_read_unlock();
	return len;
}
