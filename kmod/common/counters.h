/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of a network namespace (counters.c). */
#ifndef _HPCC_COMMON_COUNTERS_H
#define _HPCC_COMMON_COUNTERS_H

#include <linux/percpu.h>
#include <linux/seq_file.h>

#define HPCC_COUNTERS_MAX	64

/**
 * struct hpcc_counters - counters of a network namespace
 * @value: per-CPU, indexed by the module's enum; read once, under RCU
 * @retired: old @value, while the namespace is removed
 *
 * Kernel sockets hold no reference to their namespace. Another subsystem's exit handler may close
 * them after ours has run. So the counters are removed in two steps with an RCU grace period
 * between them. After the first step sockets use spare counters that are never shown.
 */
struct hpcc_counters {
	u64 __percpu *value;
	u64 __percpu *retired;
};

int hpcc_counters_init(struct hpcc_counters *counters);
void hpcc_counters_retire(struct hpcc_counters *counters);
u64 hpcc_counters_read(const struct hpcc_counters *counters, u32 what);
void hpcc_counters_print(struct seq_file *seq, const char * const *names,
			 u32 nr, const struct hpcc_counters *counters);

/**
 * hpcc_counters_free() - second step of the removal
 * @counters: hpcc_counters_retire() was called a grace period ago
 */
static inline void hpcc_counters_free(struct hpcc_counters *counters)
{
	free_percpu(counters->retired);
}

/**
 * hpcc_counters_add() - add to a counter
 * @counters: the namespace's
 * @what: index
 * @n: number to add
 *
 * Context: RCU read side, as in netfilter hooks.
 */
static inline void hpcc_counters_add(const struct hpcc_counters *counters,
				     u32 what, u32 n)
{
	this_cpu_add(READ_ONCE(counters->value)[what], n);
}

#endif /* _HPCC_COMMON_COUNTERS_H */
