// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters, counters and hooks of a module in each network namespace.
 *
 * A parameter outside its range is rejected with EINVAL. Only the initial namespace logs the range:
 * tenants must not fill the host's log.
 */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/seq_file_net.h>
#include <linux/slab.h>
#include <net/netns/generic.h>
#include <hpcc/compat.h>

#include "netns.h"

/* Counters that sockets use after the exit of their namespace. */
static DEFINE_PER_CPU(u64[HPCC_COUNTERS_MAX], hpcc_spare_counters);

static int hpcc_sysctl_handle(HPCC_CTL_TABLE_CONST struct ctl_table *table, int write, void *buffer,
			      size_t *lenp, loff_t *ppos)
{
	const struct hpcc_sysctl_desc *desc = table->extra1;
	unsigned int value = READ_ONCE(*(unsigned int *)table->data);
	struct ctl_table shadow = {
		.procname = table->procname,
		.data = &value,
		.maxlen = sizeof(value),
		.mode = table->mode,
	};
	int err;

	err = proc_douintvec(&shadow, write, buffer, lenp, ppos);
	if (err || !write)
		return err;
	if ((value < desc->min || value > desc->max) && !(desc->zero && !value)) {
		if (table->extra2)
			pr_notice_ratelimited("%s/%s = %u refused, allowed: %s%u to %u\n",
					      (const char *)table->extra2,
					      desc->name, value,
					      desc->zero ? "0 (automatic), " : "",
					      desc->min, desc->max);
		return -EINVAL;
	}
	err = desc->accept ? desc->accept(value) : 0;
	if (!err)
		WRITE_ONCE(*(unsigned int *)table->data, value);
	else if (table->extra2)
		pr_notice_ratelimited("%s/%s = %u refused: %pe\n", (const char *)table->extra2,
				      desc->name, value, ERR_PTR(err));
	return err;
}

/* Set the defaults and create the files. */
static int hpcc_sysctl_register(struct net *net, struct hpcc_netns *ns,
				const struct hpcc_netns_desc *desc)
{
	const struct hpcc_sysctl_desc *list = desc->sysctls;
	struct ctl_table *table;
	u32 nr = 0, i;

	while (list[nr].name)
		nr++;
	table = kcalloc(nr + HPCC_SYSCTL_SENTINEL, sizeof(*table), GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		unsigned int *value = (void *)ns + list[i].offset;

		*value = list[i].init;
		table[i].procname = list[i].name;
		table[i].data = value;
		table[i].maxlen = sizeof(*value);
		table[i].mode = 0644;
		table[i].proc_handler = hpcc_sysctl_handle;
		table[i].extra1 = (void *)&list[i];
		/* The name in the log, for the initial namespace only. */
		table[i].extra2 = net_eq(net, &init_net) ? (void *)desc->path : NULL;
	}
	ns->table = table;
	ns->header = hpcc_register_net_sysctl(net, desc->path, table, nr);
	if (ns->header)
		return 0;
	kfree(table);
	return -ENOMEM;
}

static void hpcc_sysctl_unregister(struct hpcc_netns *ns)
{
	unregister_net_sysctl_table(ns->header);
	kfree(ns->table);
}

/**
 * hpcc_counter_read() - sum of a counter over all CPUs
 * @ns: state in a namespace
 * @what: index
 */
u64 hpcc_counter_read(const struct hpcc_netns *ns, u32 what)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(ns->counters, cpu)[what]);
	return sum;
}
EXPORT_SYMBOL_GPL(hpcc_counter_read);

/* One "name value" per line. */
static int hpcc_counters_show(struct seq_file *seq, void *v)
{
	const struct hpcc_netns_desc *desc = pde_data(file_inode(seq->file));
	const struct hpcc_netns *ns = net_generic(seq_file_single_net(seq), *desc->id);
	u32 i;

	for (i = 0; desc->counters[i]; i++)
		seq_printf(seq, "%s %llu\n", desc->counters[i], hpcc_counter_read(ns, i));
	return 0;
}

/**
 * hpcc_netns_init() - set up a module in a new namespace; the hooks are last
 * @net: network namespace
 * @desc: what the module has there
 * Context: may sleep.
 * Return: 0; or a negative error, after all hooks that may have run.
 */
int hpcc_netns_init(struct net *net, const struct hpcc_netns_desc *desc)
{
	struct hpcc_netns *ns = net_generic(net, *desc->id);
	int err = -ENOMEM;

	ns->counters = __alloc_percpu(sizeof(u64) * HPCC_COUNTERS_MAX, __alignof__(u64));
	if (!ns->counters)
		return err;
	if (hpcc_sysctl_register(net, ns, desc))
		goto err_counters;
	if (!proc_create_net_single(desc->name, 0444, net->proc_net, hpcc_counters_show,
				    (void *)desc))
		goto err_sysctl;
	err = nf_register_net_hooks(net, desc->hooks, desc->nr_hooks);
	if (!err)
		return 0;
	synchronize_rcu();
	remove_proc_entry(desc->name, net->proc_net);
err_sysctl:
	hpcc_sysctl_unregister(ns);
err_counters:
	free_percpu(ns->counters);
	return err;
}
EXPORT_SYMBOL_GPL(hpcc_netns_init);

/* The core waits for an RCU grace period before hpcc_netns_exit(), so no hook is running then. */
void hpcc_netns_pre_exit(struct net *net, const struct hpcc_netns_desc *desc)
{
	nf_unregister_net_hooks(net, desc->hooks, desc->nr_hooks);
}
EXPORT_SYMBOL_GPL(hpcc_netns_pre_exit);

/* Remove the files, after hpcc_netns_pre_exit(). May sleep. */
void hpcc_netns_exit(struct net *net, const struct hpcc_netns_desc *desc)
{
	remove_proc_entry(desc->name, net->proc_net);
	hpcc_sysctl_unregister(net_generic(net, *desc->id));
}
EXPORT_SYMBOL_GPL(hpcc_netns_exit);

/* Remove the counters, after hpcc_netns_exit(), with an RCU grace period between the two steps. May
 * sleep.
 */
void hpcc_netns_exit_batch(struct list_head *nets, const struct hpcc_netns_desc *desc)
{
	struct hpcc_netns *ns;
	struct net *net;

	list_for_each_entry(net, nets, exit_list) {
		ns = net_generic(net, *desc->id);
		ns->retired = ns->counters;
		WRITE_ONCE(ns->counters, &hpcc_spare_counters[0]);
	}
	synchronize_rcu();
	list_for_each_entry(net, nets, exit_list) {
		ns = net_generic(net, *desc->id);
		free_percpu(ns->retired);
	}
}
EXPORT_SYMBOL_GPL(hpcc_netns_exit_batch);
