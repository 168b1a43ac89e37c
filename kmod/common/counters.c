// SPDX-License-Identifier: GPL-2.0
/* Counters of a network namespace. */
#include <linux/export.h>
#include <linux/percpu.h>

#include "counters.h"

/* Counters that sockets use after the exit of their namespace. */
static DEFINE_PER_CPU(u64[HPCC_COUNTERS_MAX], hpcc_spare_counters);

/**
 * hpcc_counters_init() - counters of a new namespace, all 0
 * @counters: filled in
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int hpcc_counters_init(struct hpcc_counters *counters)
{
	counters->retired = NULL;
	counters->value = __alloc_percpu(sizeof(u64) * HPCC_COUNTERS_MAX, __alignof__(u64));
	return counters->value ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_GPL(hpcc_counters_init);

/**
 * hpcc_counters_retire() - first step of the removal
 * @counters: the counters, no longer visible to users
 */
void hpcc_counters_retire(struct hpcc_counters *counters)
{
	counters->retired = counters->value;
	WRITE_ONCE(counters->value, &hpcc_spare_counters[0]);
}
EXPORT_SYMBOL_GPL(hpcc_counters_retire);

/**
 * hpcc_counters_read() - sum of a counter over all CPUs
 * @counters: the namespace's
 * @what: index
 */
u64 hpcc_counters_read(const struct hpcc_counters *counters, u32 what)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(counters->value, cpu)[what]);
	return sum;
}
EXPORT_SYMBOL_GPL(hpcc_counters_read);

/**
 * hpcc_counters_print() - print counters, one "name value" per line
 * @seq: file
 * @names: names of the counters
 * @nr: number of counters
 * @counters: the namespace's
 */
void hpcc_counters_print(struct seq_file *seq, const char * const *names,
			 u32 nr, const struct hpcc_counters *counters)
{
	u32 i;

	for (i = 0; i < nr; i++)
		seq_printf(seq, "%s %llu\n", names[i], hpcc_counters_read(counters, i));
}
EXPORT_SYMBOL_GPL(hpcc_counters_print);
