// SPDX-License-Identifier: GPL-2.0
/*
 * What a user would otherwise need a sniffer for: counters in /proc/net/hpcc, "name value" a line,
 * and what ss and getsockopt(TCP_CC_INFO) show.
 */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/seq_file_net.h>

#include "common/info.h"
#include "control/cc.h"
#include "flow/flow.h"
#include "netns/net.h"

const char * const hpcc_counter_names[__HPCC_C_MAX] = {
	[HPCC_C_SYN_SENT] = "syn_sent",
	[HPCC_C_SYN_NO_ROOM] = "syn_no_room",
	[HPCC_C_SYN_INVALID] = "syn_invalid",
	[HPCC_C_AGREED] = "agreed",
	[HPCC_C_NOT_AGREED] = "not_agreed",
	[HPCC_C_NO_MEMORY] = "no_memory",
	[HPCC_C_FLOW_LIMIT] = "flow_limit",
	[HPCC_C_FORWARD_SENT] = "forward_sent",
	[HPCC_C_IDENTIFY_SENT] = "identify_sent",
	[HPCC_C_ECHO_SENT] = "echo_sent",
	[HPCC_C_NO_ROOM] = "no_room",
	[HPCC_C_FORWARD_RECEIVED] = "forward_received",
	[HPCC_C_ECHO_RECEIVED] = "echo_received",
	[HPCC_C_REPORT_SENT] = "report_sent",
	[HPCC_C_REPORT_RECEIVED] = "report_received",
	[HPCC_C_WINDOWS_STOPPED] = "windows_stopped",
	[HPCC_C_WINDOW_OLD_IGNORED] = "window_old_ignored",
	[HPCC_C_RESPONSE_RECEIVED] = "response_received",
	[HPCC_C_RESPONSE_IGNORED] = "response_ignored",
	[HPCC_C_UNAGREED_IGNORED] = "unagreed_ignored",
	[HPCC_C_MALFORMED_IGNORED] = "malformed_ignored",
	[HPCC_C_CHECKSUM_IGNORED] = "checksum_ignored",
	[HPCC_C_POLICY_IGNORED] = "policy_ignored",
	[HPCC_C_WINDOW_IGNORED] = "window_ignored",
	[HPCC_C_BAD_HOP_IGNORED] = "bad_hop_ignored",
	[HPCC_C_TS_BACK_IGNORED] = "ts_back_ignored",
	[HPCC_C_TX_EXCESS_IGNORED] = "tx_excess_ignored",
	[HPCC_C_PATH_CHANGES] = "path_changes",
	[HPCC_C_PROBES_STOPPED] = "probes_stopped",
	[HPCC_C_MUTED] = "muted",
	[HPCC_C_FALLBACKS] = "fallbacks",
	[HPCC_C_UNSEEN_LOSS] = "unseen_loss",
	[HPCC_C_RETURNS] = "returns",
	[HPCC_C_ECN_RESPONSES] = "ecn_responses",
	[HPCC_C_TIMEOUTS] = "timeouts",
	[HPCC_C_IOAM_SENT] = "ioam_sent",
	[HPCC_C_IOAM_RECEIVED] = "ioam_received",
	[HPCC_C_IOAM_IGNORED] = "ioam_ignored",
	[HPCC_C_IOAM_UNKNOWN_LINK] = "ioam_unknown_link",
	[HPCC_C_IOAM_STOPPED] = "ioam_stopped",
	[HPCC_C_INT_SENT] = "int_sent",
	[HPCC_C_INT_RECEIVED] = "int_received",
	[HPCC_C_INT_IGNORED] = "int_ignored",
	[HPCC_C_INT_UNKNOWN_LINK] = "int_unknown_link",
	[HPCC_C_INT_STOPPED] = "int_stopped",
	[HPCC_C_IFA_SENT] = "ifa_sent",
	[HPCC_C_IFA_RECEIVED] = "ifa_received",
	[HPCC_C_IFA_IGNORED] = "ifa_ignored",
	[HPCC_C_IFA_UNKNOWN_LINK] = "ifa_unknown_link",
	[HPCC_C_IFA_STOPPED] = "ifa_stopped",
	[HPCC_C_CSIG_SENT] = "csig_sent",
	[HPCC_C_CSIG_RECEIVED] = "csig_received",
	[HPCC_C_CSIG_IGNORED] = "csig_ignored",
	[HPCC_C_CSIG_STOPPED] = "csig_stopped",
};

static int hpcc_counters_show(struct seq_file *seq, void *v)
{
	const struct hpcc_net *hn = hpcc_pernet(seq_file_single_net(seq));

	hpcc_counters_print(seq, hpcc_counter_names, __HPCC_C_MAX,
			    &hn->counters);
	return 0;
}

/* ---- ss, getsockopt(TCP_CC_INFO) -------------------------------------------- */

/**
 * hpcc_get_info() - bw is W/T, min_rtt is T, pacing_gain is U, cwnd_gain is eta
 * @sk: full TCP socket
 * @ext: what who asks wants
 * @attr: type of what he gets
 * @info: that
 *
 * Context: without the socket lock: icsk_ca_priv may be another congestion control's by now, so the
 * flow comes from the table.
 * Return: length of @info; 0: nothing of it was wanted, or the connection did not agree.
 */
size_t hpcc_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
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
 * hpcc_proc_register() - show counters
 * @net: network namespace
 *
 * Return: 0 or -ENOMEM.
 */
int hpcc_proc_register(struct net *net)
{
	return proc_create_net_single("hpcc", 0444, net->proc_net, hpcc_counters_show, NULL) ?
	       0 : -ENOMEM;
}

/**
 * hpcc_proc_unregister() - take the file back
 * @net: network namespace
 */
void hpcc_proc_unregister(struct net *net)
{
	remove_proc_entry("hpcc", net->proc_net);
}
