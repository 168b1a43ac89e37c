/* SPDX-License-Identifier: GPL-2.0 */
/* Parameters below net/ of each network namespace (sysctl.c). */
#ifndef _HPCC_COMMON_SYSCTL_H
#define _HPCC_COMMON_SYSCTL_H

#include <linux/sysctl.h>
#include <net/net_namespace.h>

/**
 * struct hpcc_knob - one parameter
 * @name: file name
 * @offset: of its value, an unsigned int, in the caller's structure
 * @init: default
 * @min: smallest value allowed
 * @max: largest value allowed
 * @zero: 0 is allowed as well, and means "automatic"
 */
struct hpcc_knob {
	const char *name;
	size_t offset;
	unsigned int init;
	unsigned int min;
	unsigned int max;
	bool zero;
};

/**
 * struct hpcc_knobs - a directory of parameters in one network namespace
 * @table: its table, a copy of its own
 * @header: its registration
 */
struct hpcc_knobs {
	struct ctl_table *table;
	struct ctl_table_header *header;
};

int hpcc_knobs_register(struct hpcc_knobs *knobs, struct net *net,
			const char *path, const struct hpcc_knob *list,
			u32 nr, void *values);
void hpcc_knobs_unregister(struct hpcc_knobs *knobs);

#endif /* _HPCC_COMMON_SYSCTL_H */
