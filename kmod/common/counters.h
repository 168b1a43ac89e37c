/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of a network namespace (counters.c). */
#ifndef _HPCC_COMMON_COUNTERS_H
#define _HPCC_COMMON_COUNTERS_H

#include <linux/percpu.h>
#include <linux/seq_file.h>

#define HPCC_COUNTERS_MAX	64

/* Counters of a network namespace. Kernel sockets hold no reference to their namespace, and may be
 * closed after our exit handler. So the counters are removed in two steps with an RCU grace period
 * between them. After the first step sockets use spare counters.
 */
struct hpcc_counters {
	u64 __percpu *value;	/* per-CPU, indexed by the module's enum; read once, under RCU */
	u64 __percpu *retired;	/* old @value, while the namespace is removed */
};

int hpcc_counters_init(struct hpcc_counters *counters);
void hpcc_counters_retire(struct hpcc_counters *counters);
u64 hpcc_counters_read(const struct hpcc_counters *counters, u32 what);
void hpcc_counters_print(struct seq_file *seq, const char * const *names,
			 u32 nr, const struct hpcc_counters *counters);

/* Second step of the removal, a grace period after hpcc_counters_retire(). */
static inline void hpcc_counters_free(struct hpcc_counters *counters)
{
	free_percpu(counters->retired);
}

/* Add to a counter. RCU read side, as in netfilter hooks. */
static inline void hpcc_counters_add(const struct hpcc_counters *counters, u32 what, u32 n)
{
	this_cpu_add(READ_ONCE(counters->value)[what], n);
}

#endif /* _HPCC_COMMON_COUNTERS_H */
