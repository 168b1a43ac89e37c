/* SPDX-License-Identifier: GPL-2.0 */
/* Parameters, counters and hooks of a module in each network namespace (netns.c). */
#ifndef _HPCC_COMMON_NETNS_H
#define _HPCC_COMMON_NETNS_H

#include <linux/netfilter.h>
#include <linux/percpu.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>

#define HPCC_COUNTERS_MAX	64

/* One parameter. @accept gets an allowed value before it applies; an error rejects the value. */
struct hpcc_sysctl_desc {
	const char *name;
	int (*accept)(unsigned int value);	/* may sleep; NULL: none */
	bool zero;				/* 0 is allowed as well, and means "automatic" */
	u16 offset;				/* of the value, in the module's structure */
	unsigned int init;			/* default */
	unsigned int min;			/* smallest value allowed */
	unsigned int max;			/* largest value allowed */
};

/* State in a namespace; first member of the module's own structure. Kernel sockets hold no
 * reference to their namespace, and may be closed after our exit handler. So the counters are
 * removed in two steps with an RCU grace period between them. After the first step sockets use
 * spare counters.
 */
struct hpcc_netns {
	u64 __percpu *counters;	/* per-CPU, indexed by the module's enum; read once, under RCU */
	u64 __percpu *retired;	/* old @counters, while the namespace is removed */
	struct ctl_table *table;
	struct ctl_table_header *header;
};

/* What a module has in each namespace. Constant; at most HPCC_COUNTERS_MAX names of counters. */
struct hpcc_netns_desc {
	const char *name;			/* of the file with its counters in /proc/net */
	const char *path;			/* directory of its parameters below /proc/sys */
	const unsigned int *id;			/* for net_generic() */
	const struct hpcc_sysctl_desc *sysctls;	/* the last one has no name */
	const char * const *counters;		/* names; the last one is NULL */
	const struct nf_hook_ops *hooks;
	u32 nr_hooks;
};

int hpcc_netns_init(struct net *net, const struct hpcc_netns_desc *desc);
void hpcc_netns_pre_exit(struct net *net, const struct hpcc_netns_desc *desc);
void hpcc_netns_exit(struct net *net, const struct hpcc_netns_desc *desc);
void hpcc_netns_exit_batch(struct list_head *nets, const struct hpcc_netns_desc *desc);
u64 hpcc_counter_read(const struct hpcc_netns *ns, u32 what);

/* Add to a counter. RCU read side, as in netfilter hooks. */
static inline void hpcc_counter_add(const struct hpcc_netns *ns, u32 what, u32 n)
{
	this_cpu_add(READ_ONCE(ns->counters)[what], n);
}

#endif /* _HPCC_COMMON_NETNS_H */
