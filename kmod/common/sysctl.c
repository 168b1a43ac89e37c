// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters below net/ of each network namespace. A value outside its range is rejected with
 * EINVAL. Only the initial namespace logs the range: tenants must not fill the host's log.
 */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/slab.h>
#include <hpcc/compat.h>

#include "sysctl.h"

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

/**
 * hpcc_sysctl_dir_register() - set the defaults and create the files
 * @dir: filled in
 * @net: network namespace
 * @path: directory below /proc/sys, constant
 * @list: the parameters, constant
 * @nr: number of parameters
 * @values: structure with the values of the parameters
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int hpcc_sysctl_dir_register(struct hpcc_sysctl_dir *dir, struct net *net, const char *path,
			     const struct hpcc_sysctl_desc *list, u32 nr, void *values)
{
	struct ctl_table *table;
	u32 i;

	table = kcalloc(nr + HPCC_SYSCTL_SENTINEL, sizeof(*table), GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		unsigned int *value = values + list[i].offset;

		*value = list[i].init;
		table[i].procname = list[i].name;
		table[i].data = value;
		table[i].maxlen = sizeof(*value);
		table[i].mode = 0644;
		table[i].proc_handler = hpcc_sysctl_handle;
		table[i].extra1 = (void *)&list[i];
		/* The name in the log, for the initial namespace only. */
		table[i].extra2 = net_eq(net, &init_net) ? (void *)path : NULL;
	}
	dir->header = hpcc_register_net_sysctl(net, path, table, nr);
	if (!dir->header) {
		kfree(table);
		return -ENOMEM;
	}
	dir->table = table;
	return 0;
}
EXPORT_SYMBOL_GPL(hpcc_sysctl_dir_register);

/**
 * hpcc_sysctl_dir_unregister() - remove the files
 * @dir: set by hpcc_sysctl_dir_register()
 * Context: may sleep.
 */
void hpcc_sysctl_dir_unregister(struct hpcc_sysctl_dir *dir)
{
	unregister_net_sysctl_table(dir->header);
	kfree(dir->table);
}
EXPORT_SYMBOL_GPL(hpcc_sysctl_dir_unregister);
