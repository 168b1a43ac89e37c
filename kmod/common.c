// SPDX-License-Identifier: GPL-2.0
/*
 * hpcc_common: what the congestion controls of this project share. It does
 * nothing by itself; modprobe loads it with tcp_hpcc or tcp_ldcp.
 */
#include <linux/module.h>

#include "common.h"

/**
 * hpcc_counters_print() - print per-CPU counters, "name value" a line
 * @seq: file
 * @names: of the counters
 * @nr: how many
 * @counters: an array of @nr for each CPU
 */
void hpcc_counters_print(struct seq_file *seq, const char * const *names,
			 u32 nr, const u64 __percpu *counters)
{
	int cpu;
	u32 i;

	for (i = 0; i < nr; i++) {
		u64 sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu_ptr(counters, cpu)[i]);
		seq_printf(seq, "%s %llu\n", names[i], sum);
	}
}
EXPORT_SYMBOL_GPL(hpcc_counters_print);

static int __init hpcc_common_init(void)
{
	return hpcc_device_init();
}

static void __exit hpcc_common_exit(void)
{
	hpcc_device_exit();
}

module_init(hpcc_common_init);
module_exit(hpcc_common_exit);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("What tcp_hpcc and tcp_ldcp share");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
