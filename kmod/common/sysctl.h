/* SPDX-License-Identifier: GPL-2.0 */
/* Parameters below net/ of each network namespace (sysctl.c). */
#ifndef _HPCC_COMMON_SYSCTL_H
#define _HPCC_COMMON_SYSCTL_H

#include <linux/sysctl.h>
#include <net/net_namespace.h>

/* One parameter. @accept gets an allowed value before it applies; an error rejects the value. */
struct hpcc_sysctl_desc {
	const char *name;
	int (*accept)(unsigned int value);	/* may sleep; NULL: none */
	bool zero;				/* 0 is allowed as well, and means "automatic" */
	u16 offset;				/* of the value, unsigned int */
	unsigned int init;			/* default */
	unsigned int min;			/* smallest value allowed */
	unsigned int max;			/* largest value allowed */
};

struct hpcc_sysctl_dir {
	struct ctl_table *table;
	struct ctl_table_header *header;
};

int hpcc_sysctl_dir_register(struct hpcc_sysctl_dir *dir, struct net *net, const char *path,
			     const struct hpcc_sysctl_desc *list, u32 nr, void *values);
void hpcc_sysctl_dir_unregister(struct hpcc_sysctl_dir *dir);

#endif /* _HPCC_COMMON_SYSCTL_H */
