// SPDX-License-Identifier: GPL-2.0
/*
 * tcp_hpcc: HPCC++ congestion control for TCP (draft-miao-iccrg-hpccplus).
 *
 * The path of telemetry through this module:
 *
 *	local_out.c	adds an empty telemetry option to each data segment of a connection that
 *			agreed (syn.c)
 *	switches	write records into the option
 *	local_in.c	of the peer stores the records until the peer's local_out.c can echo them
 *	local_in.c	of the sender writes the echo into the flow's mailbox (mailbox.c)
 *	ack.c		computes a window from the records
 *
 * Init registers only the congestion control. A work item does the rest (setup.c); until then
 * connections run classic.
 */
#include <linux/module.h>
#include <linux/netfilter_ipv4.h>

#include "carrier/carrier.h"
#include "control/agreement.h"
#include "control/cc.h"
#include "hook/hook.h"
#include "netns/table.h"
#include "observe/netlink.h"
#include "telemetry/identify.h"

/* LOCAL_OUT: the segment is as TCP built it. LOCAL_IN: the segment is as TCP will receive it. */
static const struct nf_hook_ops hpcc_hooks[] = {
	{
		.hook		= hpcc_local_out,
		.pf		= NFPROTO_INET,
		.hooknum	= NF_INET_LOCAL_OUT,
		.priority	= NF_IP_PRI_FIRST,
	},
	{
		.hook		= hpcc_local_in,
		.pf		= NFPROTO_INET,
		.hooknum	= NF_INET_LOCAL_IN,
		.priority	= NF_IP_PRI_LAST,
	},
};

static const struct hpcc_netns_desc hpcc_netns = {
	.name		= "hpcc",
	.path		= "net/hpcc",
	.id		= &hpcc_net_id,
	.sysctls	= hpcc_sysctl_descs,
	.counters	= hpcc_counter_names,
	.hooks		= hpcc_hooks,
	.nr_hooks	= ARRAY_SIZE(hpcc_hooks),
};

/* A table may contain keys. */
static void __cold hpcc_table_free(struct rcu_head *rcu)
{
	struct hpcc_table *table = container_of(rcu, struct hpcc_table, rcu);

	kvfree_sensitive(table, table->size);
}

static int __net_init __cold hpcc_net_init(struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet(net);
	int err;

	xa_init_flags(&hn->flows, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	hpcc_paths_init(hn);
	err = hpcc_netns_init(net, &hpcc_netns);
	if (err)
		hpcc_agreement_exit(hn);
	return err;
}

static void __net_exit hpcc_net_pre_exit(struct net *net)
{
	hpcc_netns_pre_exit(net, &hpcc_netns);
}

/* Kernel sockets may still count events, write notes and read tables: see struct hpcc_netns. The
 * core frees struct hpcc_net after all exit handlers. No hook and no request can allocate a table.
 */
static void __net_exit __cold hpcc_net_exit(struct net *net)
{
	struct hpcc_net *hn = hpcc_pernet(net);
	struct hpcc_table *table;
	u32 i;

	hpcc_netns_exit(net, &hpcc_netns);
	cancel_delayed_work_sync(&hn->path_end);
	hpcc_agreement_exit(hn);
	for (i = 0; i < HPCC_TABLES; i++) {
		table = rcu_replace_pointer(hn->tables[i], NULL, true);
		if (table)
			call_rcu(&table->rcu, hpcc_table_free);
	}
}

static void __net_exit hpcc_net_exit_batch(struct list_head *nets)
{
	hpcc_netns_exit_batch(nets, &hpcc_netns);
}

static struct pernet_operations hpcc_net_ops = {
	.init		= hpcc_net_init,
	.pre_exit	= hpcc_net_pre_exit,
	.exit		= hpcc_net_exit,
	.exit_batch	= hpcc_net_exit_batch,
	.id		= &hpcc_net_id,
	.size		= sizeof(struct hpcc_net),
};

static int hpcc_up(void)
{
	int err;

	err = hpcc_flow_init(hpcc_flow_free_parts);
	if (err)
		return err;
	err = register_pernet_subsys(&hpcc_net_ops);
	if (err)
		goto err_flow;
	err = genl_register_family(&hpcc_family);
	if (!err)
		return 0;
	unregister_pernet_subsys(&hpcc_net_ops);
err_flow:
	hpcc_flow_exit();
	return err;
}

static void hpcc_down(void)
{
	genl_unregister_family(&hpcc_family);
	unregister_pernet_subsys(&hpcc_net_ops);
	hpcc_flow_exit();
}

static int __init hpcc_init(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct hpcc_ca) > ICSK_CA_PRIV_SIZE);
	BUILD_BUG_ON(__HPCC_C_MAX > HPCC_COUNTERS_MAX);
	BUILD_BUG_ON(offsetof(struct hpcc_net, ns));

	hpcc_agreement_init();
	hpcc_ops.get_info = hpcc_get_info;
	hpcc_cc_init();
	hpcc_notify = hpcc_nl_notify;
	hpcc_stack_in = hpcc_unseen_in;
	/* From here on sockets may run hpcc, so no later step may fail. */
	err = tcp_register_congestion_control(&hpcc_ops);
	if (err)
		return err;
	hpcc_setup.up = hpcc_up;
	hpcc_setup.down = hpcc_down;
	hpcc_setup_begin(&hpcc_setup);
	hpcc_setup_wait(&hpcc_setup);
	return 0;
}

static void __exit hpcc_exit(void)
{
	tcp_unregister_congestion_control(&hpcc_ops);
	hpcc_setup_end(&hpcc_setup);
}

module_init(hpcc_init);
module_exit(hpcc_exit);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("HPCC++: TCP congestion control by in-band telemetry");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
