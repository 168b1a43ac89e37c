// SPDX-License-Identifier: GPL-2.0
/* Counters in /proc/net/hpcc, and the output of ss and getsockopt(TCP_CC_INFO). */
#include <linux/export.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/seq_file_net.h>

#include "common/info.h"
#include "control/cc.h"
#include "flow/flow.h"
#include "netns/net.h"
#include "observe/proc.h"

const char * const hpcc_counter_names[__HPCC_C_MAX] = {
#define COUNTER(id, name, meaning)	#name
#include "netns/hpcc_counters.h"
};
EXPORT_SYMBOL_GPL(hpcc_counter_names);

static int hpcc_counters_show(struct seq_file *seq, void *v)
{
	const struct hpcc_net *hn = hpcc_pernet(seq_file_single_net(seq));

	hpcc_counters_print(seq, hpcc_counter_names, __HPCC_C_MAX, &hn->counters);
	return 0;
}

/* R = W/T in bytes/s. Without the socket lock W and T may belong to two consecutive ACKs. */
u64 __cold hpcc_peek_rate(const struct hpcc_flow *flow)
{
	const struct hpcc_params params = { .inv_T_q63 = hpcc_peek(flow->params.inv_T_q63) };
	const struct hpcc_algo algo = { .W_q16 = hpcc_peek(flow->algo.W_q16) };

	return hpcc_pacing_rate(&algo, &params, NSEC_PER_SEC);
}

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

/**
 * hpcc_proc_register() - create /proc/net/hpcc
 * @net: network namespace
 * Return: 0 or -ENOMEM.
 */
int hpcc_proc_register(struct net *net)
{
	return proc_create_net_single("hpcc", 0444, net->proc_net, hpcc_counters_show, NULL) ?
	       0 : -ENOMEM;
}

/* Remove /proc/net/hpcc. */
void hpcc_proc_unregister(struct net *net)
{
	remove_proc_entry("hpcc", net->proc_net);
}
