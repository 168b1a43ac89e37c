// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_ldcp: LDCP congestion control for TCP (draft-dai-tsvwg-pfc-free-congestion-control). Init
 * registers only the congestion control, setup.c the rest; until then connections run classic.
 */
#include <linux/module.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/proc_fs.h>
#include <linux/seq_file_net.h>

#include "conn.h"

unsigned int ldcp_net_id __read_mostly;

#define LDCP_SYSCTL(field) .offset = offsetof(struct ldcp_sysctls, field)

/* A connection reads the parameters when it is established. */
static const struct hpcc_sysctl_desc ldcp_sysctl_descs[] = {
	/* The draft leaves alpha and beta open, 0 < alpha, beta <= 1, and calls a gamma of 1/4, 1/8
	 * or 1/16 typical (section 2.2). Flows above and below cw = 1 converge only if both laws
	 * need the same fraction of marks at cw = 1: alpha / beta = gamma / eta.
	 */
	{ "alpha_permille", LDCP_SYSCTL(alpha_permille), 250, 1, 1000 },
	{ "beta_permille", LDCP_SYSCTL(beta_permille), 500, 1, 1000 },
	{ "gamma_permille", LDCP_SYSCTL(gamma_permille), 250, 1, 1000 },
	/* The draft uses gamma. But 1,024 flows with windows of 1/4 keep 256 packets in flight, and
	 * a path of 10 us at 100 Gb/s holds only 81. With a gamma of 1/8 windows grow too slowly.
	 */
	{ "cw_min_permille", LDCP_SYSCTL(cw_min_permille), 100, 1, 1000 },
	{ "fast_start", LDCP_SYSCTL(fast_start), 1, 0, 1 },
	/* draft section 2.3: BDP */
	{ "iw", LDCP_SYSCTL(iw_segs), 0, 2, LDCP_IW_MAX_SEGS, .zero = true },
	/* 1 us to 1 s, as for hpcc */
	{ "base_rtt_ns", LDCP_SYSCTL(base_rtt_ns), 0, 1000, 1000000000, .zero = true },
	/* The peer may delay its part of the handshake. A handshake longer than this is not from a
	 * data center.
	 */
	{ "start_rtt_ns", LDCP_SYSCTL(start_rtt_ns), HPCC_START_RTT_NS, 1000, 1000000000 },
	/* up to 1 Tbit/s */
	{ "host_mbps", LDCP_SYSCTL(host_mbps), 0, 1, 1000000, .zero = true },
	/* Longer bursts queue in the sender's own NIC and count as RTT. */
	{ "burst", LDCP_SYSCTL(burst_segs), 4, 1, 64 },
};

static const char * const ldcp_counter_names[__LDCP_C_MAX] = {
#define COUNTER(id, name, meaning)	#name
#include "ldcp_counters.h"
};

/* This hook runs first: the segment is as TCP created it. */
static const struct nf_hook_ops ldcp_hooks[] = {
	{
		.hook		= ldcp_local_out,
		.pf		= NFPROTO_IPV4,
		.hooknum	= NF_INET_LOCAL_OUT,
		.priority	= NF_IP_PRI_FIRST,
	},
	{
		.hook		= ldcp_local_out,
		.pf		= NFPROTO_IPV6,
		.hooknum	= NF_INET_LOCAL_OUT,
		.priority	= NF_IP6_PRI_FIRST,
	},
};

static int ldcp_counters_show(struct seq_file *seq, void *v)
{
	const struct ldcp_net *ln = ldcp_pernet(seq_file_single_net(seq));

	hpcc_counters_print(seq, ldcp_counter_names, __LDCP_C_MAX, &ln->counters);
	return 0;
}

static int __net_init ldcp_net_init(struct net *net)
{
	struct ldcp_net *ln = ldcp_pernet(net);
	int err;

	err = hpcc_counters_init(&ln->counters);
	if (err)
		return err;
	err = hpcc_sysctl_dir_register(&ln->sysctl_dir, net, "net/ldcp", ldcp_sysctl_descs,
				       ARRAY_SIZE(ldcp_sysctl_descs), &ln->sysctls);
	if (err)
		goto err_counters;
	err = -ENOMEM;
	if (!proc_create_net_single("ldcp", 0444, net->proc_net, ldcp_counters_show, NULL))
		goto err_sysctl_dir;
	err = nf_register_net_hooks(net, ldcp_hooks, ARRAY_SIZE(ldcp_hooks));
	if (err)
		goto err_proc;
	return 0;

err_proc:
	remove_proc_entry("ldcp", net->proc_net);
err_sysctl_dir:
	hpcc_sysctl_dir_unregister(&ln->sysctl_dir);
err_counters:
	hpcc_counters_retire(&ln->counters);
	hpcc_counters_free(&ln->counters);
	return err;
}

/* The core waits for an RCU grace period before ldcp_net_exit(), so no hook is running then. */
static void __net_exit ldcp_net_pre_exit(struct net *net)
{
	nf_unregister_net_hooks(net, ldcp_hooks, ARRAY_SIZE(ldcp_hooks));
}

static void __net_exit ldcp_net_exit(struct net *net)
{
	struct ldcp_net *ln = ldcp_pernet(net);

	remove_proc_entry("ldcp", net->proc_net);
	hpcc_sysctl_dir_unregister(&ln->sysctl_dir);
}

static void __net_exit ldcp_net_exit_batch(struct list_head *nets)
{
	struct net *net;

	list_for_each_entry(net, nets, exit_list)
		hpcc_counters_retire(&ldcp_pernet(net)->counters);
	synchronize_rcu();
	list_for_each_entry(net, nets, exit_list)
		hpcc_counters_free(&ldcp_pernet(net)->counters);
}

static struct pernet_operations ldcp_net_ops = {
	.init		= ldcp_net_init,
	.pre_exit	= ldcp_net_pre_exit,
	.exit		= ldcp_net_exit,
	.exit_batch	= ldcp_net_exit_batch,
	.id		= &ldcp_net_id,
	.size		= sizeof(struct ldcp_net),
};

static int ldcp_up(void)
{
	return register_pernet_subsys(&ldcp_net_ops);
}

static void ldcp_down(void)
{
	unregister_pernet_subsys(&ldcp_net_ops);
}

struct hpcc_setup ldcp_setup = {
	.name	= "tcp_ldcp",
	.up	= ldcp_up,
	.down	= ldcp_down,
};

static int __init ldcp_module_init(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct ldcp_ca) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(__LDCP_C_MAX > HPCC_COUNTERS_MAX);

	ldcp_cc_init();
	err = tcp_register_congestion_control(&ldcp_ops);
	if (err)
		return err;
	hpcc_setup_begin(&ldcp_setup);
	hpcc_setup_wait(&ldcp_setup);
	return 0;
}

static void __exit ldcp_module_exit(void)
{
	tcp_unregister_congestion_control(&ldcp_ops);
	hpcc_setup_end(&ldcp_setup);
}

module_init(ldcp_module_init);
module_exit(ldcp_module_exit);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("LDCP: TCP congestion control by per-packet ECN");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
