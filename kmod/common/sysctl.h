/* SPDX-License-Identifier: GPL-2.0 */
/* Parameters below net/ of each network namespace (sysctl.c). */
#ifndef _HPCC_COMMON_SYSCTL_H
#define _HPCC_COMMON_SYSCTL_H

#include <linux/sysctl.h>
#include <net/net_namespace.h>

/**
 * struct hpcc_sysctl_desc - one parameter
 * @name: file name
 * @offset: offset of its value, an unsigned int, in the caller's structure
 * @init: default
 * @min: smallest value allowed
 * @max: largest value allowed
 * @zero: 0 is allowed as well, and means "automatic"
 * @accept: called with an allowed value before it applies, may sleep; NULL: none. Return: 0 or a
 *	negative error, which rejects the value
 */
struct hpcc_sysctl_desc {
	const char *name;
	size_t offset;
	unsigned int init;
	unsigned int min;
	unsigned int max;
	bool zero;
	int (*accept)(unsigned int value);
};

/**
 * struct hpcc_sysctl_dir - a directory of parameters in one network namespace
 * @table: its own copy of the table
 * @header: its registration
 */
struct hpcc_sysctl_dir {
	struct ctl_table *table;
	struct ctl_table_header *header;
};

int hpcc_sysctl_dir_register(struct hpcc_sysctl_dir *dir, struct net *net,
			     const char *path, const struct hpcc_sysctl_desc *list,
			     u32 nr, void *values);
void hpcc_sysctl_dir_unregister(struct hpcc_sysctl_dir *dir);

#endif /* _HPCC_COMMON_SYSCTL_H */
