// SPDX-License-Identifier: GPL-2.0
/*
 * hpcc_common: what the congestion controls of this project share. It does
 * nothing by itself; modprobe loads it with tcp_hpcc or tcp_ldcp.
 */
#include <linux/module.h>

#include "common.h"

/* Where sockets count that outlive their namespace's exit. */
static DEFINE_PER_CPU(u64[HPCC_COUNTERS_MAX], hpcc_spare_counters);

/**
 * hpcc_counters_init() - counters of a new namespace, all 0
 * @counters: filled in
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int hpcc_counters_init(struct hpcc_counters *counters)
{
	counters->retired = NULL;
	counters->value = __alloc_percpu(sizeof(u64) * HPCC_COUNTERS_MAX,
					 __alignof__(u64));
	return counters->value ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_GPL(hpcc_counters_init);

/**
 * hpcc_counters_retire() - the first step of the end
 * @counters: nobody shows them any more
 */
void hpcc_counters_retire(struct hpcc_counters *counters)
{
	counters->retired = counters->value;
	WRITE_ONCE(counters->value, &hpcc_spare_counters[0]);
}
EXPORT_SYMBOL_GPL(hpcc_counters_retire);

/**
 * hpcc_counters_print() - print counters, "name value" a line
 * @seq: file
 * @names: of the counters
 * @nr: how many
 * @counters: the namespace's
 */
void hpcc_counters_print(struct seq_file *seq, const char * const *names,
			 u32 nr, const struct hpcc_counters *counters)
{
	int cpu;
	u32 i;

	for (i = 0; i < nr; i++) {
		u64 sum = 0;

		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu_ptr(counters->value, cpu)[i]);
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
