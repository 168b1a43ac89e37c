// SPDX-License-Identifier: GPL-2.0
/*
 * What a user would otherwise need a sniffer for:
 *
 * /proc/net/hpcc		counters, "name value" a line
 * /proc/net/hpcc_flows		connections that agreed, one a line, with W, R,
 *				U and T
 * /proc/net/hpcc_links		ioam.c
 * /proc/net/hpcc_routes	routes.c
 * /proc/net/hpcc_paths		the same connections, with the links of their path, which
 *				are asked while this file is open
 *
 * and what ss and getsockopt(TCP_CC_INFO) show.
 */
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/seq_file_net.h>

#include "../common/info.h"
#include "cc.h"
#include "flow.h"
#include "handshake.h"
#include "ioam.h"
#include "net.h"
#include "path.h"
#include "routes.h"

/* Most links answer within a few segments. Idle connections do not ask. */
#define HPCC_PATHS_WAIT_MS	200
#define HPCC_PATHS_POLL_MS	10

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

static void hpcc_tuple_print(struct seq_file *seq, const struct sock *sk)
{
	struct hpcc_tuple t;

	hpcc_tuple_of_sock(sk, &t);
	seq_printf(seq, "%pI6c.%u %pI6c.%u", &t.laddr, ntohs(t.lport), &t.raddr,
		   ntohs(t.rport));
}

/* Without the socket lock: each number is whole, together they may be of two
 * neighbouring ACKs.
 */
static void hpcc_flow_print(struct seq_file *seq, const struct hpcc_flow *flow)
{
	const struct sock *sk = flow->sk;

	lockdep_assert_held(&flow->lock);
	hpcc_tuple_print(seq, sk);
	seq_printf(seq, " %s W %llu Wc %llu U_permille %llu T_ns %llu R %lu hops %u probes %u receiver %u\n",
		   hpcc_runs_telemetry(flow) ? "telemetry" : "classic",
		   hpcc_peek(flow->algo.W_q16) >> 16,
		   hpcc_peek(flow->algo.Wc_q16) >> 16,
		   hpcc_peek(flow->algo.U_q24) * 1000 >> 24,
		   hpcc_peek(flow->params.T), READ_ONCE(sk->sk_pacing_rate),
		   READ_ONCE(flow->hops), READ_ONCE(flow->probes),
		   READ_ONCE(flow->reported));
}

static void hpcc_path_print(struct seq_file *seq, const struct hpcc_flow *flow)
{
	const struct hpcc_path *path = rcu_dereference(flow->path);
	struct hpcc_identity id;
	u32 i;

	lockdep_assert_held(&flow->lock);
	hpcc_tuple_print(seq, flow->sk);
	for (i = 0; path && i < READ_ONCE(flow->hops); i++) {
		hpcc_identity_unpack(READ_ONCE(path->identity[i]), &id);
		if (id.hop)
			seq_printf(seq, " %u:%u.%u@%llu", id.hop, id.node,
				   id.port, id.bps);
	}
	seq_putc(seq, '\n');
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

	if (!hpcc_info_is_wanted(ext))
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

/* ---- /proc/net/hpcc_flows ---------------------------------------------------- */

static struct hpcc_flow *hpcc_flow_at(const struct net *net, loff_t *pos)
{
	unsigned long id = *pos;
	struct hpcc_flow *flow = hpcc_flow_from(net, &id);

	*pos = id;
	return flow;
}

/* seq_file calls stop() each time that its buffer is full, and start() for the next read. */
static void *hpcc_flows_start(struct seq_file *seq, loff_t *pos)
	__acquires(RCU)
{
	rcu_read_lock();
	return hpcc_flow_at(seq_file_net(seq), pos);
}

static void *hpcc_flows_next(struct seq_file *seq, void *v, loff_t *pos)
{
	++*pos;
	return hpcc_flow_at(seq_file_net(seq), pos);
}

static void hpcc_flows_stop(struct seq_file *seq, void *v)
	__releases(RCU)
{
	rcu_read_unlock();
}

static int hpcc_flows_show(struct seq_file *seq, void *v)
{
	struct hpcc_flow *flow = v;

	spin_lock_bh(&flow->lock);
	/* The socket cannot go away: release() waits for the lock. */
	if (!flow->dead)
		hpcc_flow_print(seq, flow);
	spin_unlock_bh(&flow->lock);
	return 0;
}

static const struct seq_operations hpcc_flows_ops = {
	.start	= hpcc_flows_start,
	.next	= hpcc_flows_next,
	.stop	= hpcc_flows_stop,
	.show	= hpcc_flows_show,
};

/* ---- /proc/net/hpcc_paths ---------------------------------------------- */

/**
 * struct hpcc_paths_reader - an open /proc/net/hpcc_paths
 * @net: its network namespace
 * @until: when it stops waiting for answers, jiffies
 */
struct hpcc_paths_reader {
	struct net *net;
	unsigned long until;
};

static int hpcc_paths_await(const struct hpcc_paths_reader *reader)
{
	while (time_before(jiffies, reader->until) &&
	       hpcc_paths_wait(reader->net)) {
		schedule_timeout_interruptible(msecs_to_jiffies(HPCC_PATHS_POLL_MS));
		if (signal_pending(current))
			return -ERESTARTSYS;
	}
	return 0;
}

static void *hpcc_paths_start(struct seq_file *seq, loff_t *pos)
	__acquires(RCU)
{
	const struct hpcc_paths_reader *reader = seq->private;
	int err = *pos ? 0 : hpcc_paths_await(reader);

	/* stop() is called in any case. */
	rcu_read_lock();
	return err ? ERR_PTR(err) : hpcc_flow_at(reader->net, pos);
}

static void *hpcc_paths_next(struct seq_file *seq, void *v, loff_t *pos)
{
	const struct hpcc_paths_reader *reader = seq->private;

	++*pos;
	return hpcc_flow_at(reader->net, pos);
}

static int hpcc_paths_show(struct seq_file *seq, void *v)
{
	struct hpcc_flow *flow = v;

	spin_lock_bh(&flow->lock);
	if (!flow->dead)
		hpcc_path_print(seq, flow);
	spin_unlock_bh(&flow->lock);
	return 0;
}

static const struct seq_operations hpcc_paths_ops = {
	.start	= hpcc_paths_start,
	.next	= hpcc_paths_next,
	.stop	= hpcc_flows_stop,
	.show	= hpcc_paths_show,
};

static int hpcc_paths_proc_open(struct inode *inode, struct file *file)
{
	struct net *net = maybe_get_net(pde_data(inode));
	struct hpcc_paths_reader *reader;

	if (!net)
		return -ENXIO;
	reader = __seq_open_private(file, &hpcc_paths_ops, sizeof(*reader));
	if (!reader) {
		put_net(net);
		return -ENOMEM;
	}
	reader->net = net;
	hpcc_paths_open(net);
	reader->until = jiffies + msecs_to_jiffies(HPCC_PATHS_WAIT_MS);
	return 0;
}

static int hpcc_paths_proc_release(struct inode *inode, struct file *file)
{
	const struct seq_file *seq = file->private_data;
	const struct hpcc_paths_reader *reader = seq->private;
	struct net *net = reader->net;

	hpcc_paths_release(net);
	seq_release_private(inode, file);
	put_net(net);
	return 0;
}

static const struct proc_ops hpcc_paths_proc_ops = {
	.proc_open	= hpcc_paths_proc_open,
	.proc_read	= seq_read,
	.proc_lseek	= seq_lseek,
	.proc_release	= hpcc_paths_proc_release,
};

/**
 * hpcc_words() - split a line of a table
 * @line: the line; its blanks become ends of words
 * @words: where they begin
 * @max: how many there may be
 *
 * Return: how many there are, or -EINVAL.
 */
int hpcc_words(char *line, char **words, u32 max)
{
	u32 nr = 0;
	char *word;

	while ((word = strsep(&line, " \t"))) {
		if (!*word)
			continue;
		if (nr == max)
			return -EINVAL;
		words[nr++] = word;
	}
	return nr;
}

/**
 * hpcc_proc_register() - show counters, flows and paths
 * @net: network namespace
 *
 * Return: 0 or -ENOMEM.
 */
int hpcc_proc_register(struct net *net)
{
	if (!proc_create_net_single("hpcc", 0444, net->proc_net,
				    hpcc_counters_show, NULL))
		return -ENOMEM;
	if (!proc_create_net("hpcc_flows", 0440, net->proc_net, &hpcc_flows_ops,
			     sizeof(struct seq_net_private)))
		goto err_counters;
	if (!proc_create_data("hpcc_paths", 0440, net->proc_net,
			      &hpcc_paths_proc_ops, net))
		goto err_flows;
	if (hpcc_links_register(net))
		goto err_paths;
	if (hpcc_routes_register(net))
		goto err_links;
	return 0;

err_links:
	hpcc_links_unregister(net);
err_paths:
	remove_proc_entry("hpcc_paths", net->proc_net);
err_flows:
	remove_proc_entry("hpcc_flows", net->proc_net);
err_counters:
	remove_proc_entry("hpcc", net->proc_net);
	return -ENOMEM;
}

/**
 * hpcc_proc_unregister() - take the files back
 * @net: network namespace
 */
void hpcc_proc_unregister(struct net *net)
{
	hpcc_routes_unregister(net);
	hpcc_links_unregister(net);
	remove_proc_entry("hpcc_paths", net->proc_net);
	remove_proc_entry("hpcc_flows", net->proc_net);
	remove_proc_entry("hpcc", net->proc_net);
}
