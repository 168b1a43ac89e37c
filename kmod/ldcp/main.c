// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_ldcp: LDCP congestion control for TCP (draft-dai-tsvwg-pfc-free-congestion-control). Init
 * registers only the congestion control, setup.c the rest; until then connections run classic.
 */
#include <linux/module.h>
#include <linux/netfilter_ipv4.h>

#include "conn.h"

unsigned int ldcp_net_id __read_mostly;

#define LDCP_SYSCTL(field) .offset = offsetof(struct ldcp_net, sysctls.field)

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
	{}
};

static const char * const ldcp_counter_names[] = {
#define COUNTER(id, name, meaning)	#name
#include "ldcp_counters.h"
	NULL
};

/* This hook runs first: the segment is as TCP created it. */
static const struct nf_hook_ops ldcp_hook = {
	.hook		= ldcp_local_out,
	.pf		= NFPROTO_INET,
	.hooknum	= NF_INET_LOCAL_OUT,
	.priority	= NF_IP_PRI_FIRST,
};

static const struct hpcc_netns_desc ldcp_netns = {
	.name		= "ldcp",
	.path		= "net/ldcp",
	.id		= &ldcp_net_id,
	.sysctls	= ldcp_sysctl_descs,
	.counters	= ldcp_counter_names,
	.hooks		= &ldcp_hook,
	.nr_hooks	= 1,
};

static int __net_init ldcp_net_init(struct net *net)
{
	return hpcc_netns_init(net, &ldcp_netns);
}

static void __net_exit ldcp_net_pre_exit(struct net *net)
{
	hpcc_netns_pre_exit(net, &ldcp_netns);
}

static void __net_exit ldcp_net_exit(struct net *net)
{
	hpcc_netns_exit(net, &ldcp_netns);
}

static void __net_exit ldcp_net_exit_batch(struct list_head *nets)
{
	hpcc_netns_exit_batch(nets, &ldcp_netns);
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
	BUILD_BUG_ON(offsetof(struct ldcp_net, ns));

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
