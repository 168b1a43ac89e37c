// SPDX-License-Identifier: GPL-2.0
/*
 * What a user would otherwise need a sniffer for:
 *
 * /proc/net/hpcc		counters, "name value" a line
 * /proc/net/hpcc_flows		connections that agreed, one a line, with W, R,
 *				U, T and the links of their path
 */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/seq_file_net.h>

#include "hpcc.h"

static const char * const hpcc_counter_names[__HPCC_C_MAX] = {
	[HPCC_C_SYN_SENT] = "syn_sent",
	[HPCC_C_SYN_NO_ROOM] = "syn_no_room",
	[HPCC_C_SYN_INVALID] = "syn_invalid",
	[HPCC_C_AGREED] = "agreed",
	[HPCC_C_NOT_AGREED] = "not_agreed",
	[HPCC_C_NO_MEMORY] = "no_memory",
	[HPCC_C_FORWARD_SENT] = "forward_sent",
	[HPCC_C_IDENTIFY_SENT] = "identify_sent",
	[HPCC_C_ECHO_SENT] = "echo_sent",
	[HPCC_C_NO_ROOM] = "no_room",
	[HPCC_C_FORWARD_RECEIVED] = "forward_received",
	[HPCC_C_ECHO_RECEIVED] = "echo_received",
	[HPCC_C_UNAGREED_IGNORED] = "unagreed_ignored",
	[HPCC_C_MALFORMED_IGNORED] = "malformed_ignored",
	[HPCC_C_CHECKSUM_IGNORED] = "checksum_ignored",
	[HPCC_C_WINDOW_IGNORED] = "window_ignored",
	[HPCC_C_BAD_HOP_IGNORED] = "bad_hop_ignored",
	[HPCC_C_TS_BACK_IGNORED] = "ts_back_ignored",
	[HPCC_C_TX_EXCESS_IGNORED] = "tx_excess_ignored",
	[HPCC_C_PATH_CHANGES] = "path_changes",
	[HPCC_C_FALLBACKS] = "fallbacks",
	[HPCC_C_UNSEEN_LOSS] = "unseen_loss",
	[HPCC_C_RETURNS] = "returns",
	[HPCC_C_ECN_RESPONSES] = "ecn_responses",
	[HPCC_C_TIMEOUTS] = "timeouts",
};

static int hpcc_counters_show(struct seq_file *seq, void *v)
{
	const struct hpcc_net *hn = hpcc_pernet(seq_file_single_net(seq));

	hpcc_counters_print(seq, hpcc_counter_names, __HPCC_C_MAX,
			    &hn->counters);
	return 0;
}

/* Without the socket lock: each number is whole, together they may be of two
 * neighbouring ACKs.
 */
static void hpcc_flow_show(const struct sock *sk, struct hpcc_flow *flow,
			   void *arg)
{
	struct seq_file *seq = arg;
	struct hpcc_tuple t;
	u32 i;

	hpcc_tuple_of_sock(sk, &t);
	seq_printf(seq, "%pI6c.%u %pI6c.%u %s W %llu Wc %llu U_permille %llu T_ns %u R %lu hops %u",
		   &t.laddr, ntohs(t.lport), &t.raddr, ntohs(t.rport),
		   READ_ONCE(inet_csk(sk)->icsk_ca_ops) == &hpcc_ops ?
		   "telemetry" : "classic",
		   hpcc_peek(flow->algo.W_q16) >> 16,
		   hpcc_peek(flow->algo.Wc_q16) >> 16,
		   hpcc_peek(flow->algo.U_q24) * 1000 >> 24,
		   READ_ONCE(flow->T_ns), READ_ONCE(sk->sk_pacing_rate),
		   READ_ONCE(flow->hops));
	for (i = 0; i < HPCC_HOPS_MAX; i++) {
		const struct hpcc_identity *id = &flow->identity[i];

		if (id->hop)
			seq_printf(seq, " %u:%u.%u@%llu", id->hop, id->node,
				   id->port, id->bps);
	}
	seq_putc(seq, '\n');
}

static int hpcc_flows_show(struct seq_file *seq, void *v)
{
	size_t begin = seq->count;
	int tries = 3;

	/* Begin again where the table was resized, so that each flow is shown once. */
	while (hpcc_flow_each(seq_file_single_net(seq), hpcc_flow_show, seq) &&
	       --tries)
		seq->count = begin;
	return 0;
}

/**
 * hpcc_proc_register() - show counters and flows
 * @net: network namespace
 *
 * Return: 0 or -ENOMEM.
 */
int hpcc_proc_register(struct net *net)
{
	if (!proc_create_net_single("hpcc", 0444, net->proc_net,
				    hpcc_counters_show, NULL))
		return -ENOMEM;
	if (!proc_create_net_single("hpcc_flows", 0440, net->proc_net,
				    hpcc_flows_show, NULL)) {
		remove_proc_entry("hpcc", net->proc_net);
		return -ENOMEM;
	}
	return 0;
}

/**
 * hpcc_proc_unregister() - take both files back
 * @net: network namespace
 */
void hpcc_proc_unregister(struct net *net)
{
	remove_proc_entry("hpcc_flows", net->proc_net);
	remove_proc_entry("hpcc", net->proc_net);
}
