/* SPDX-License-Identifier: GPL-2.0 */
/* The tc plugin: declarations that its files share. */
#ifndef _HPCC_QDISC_TC_Q_HPCC_H
#define _HPCC_QDISC_TC_Q_HPCC_H

#include <stdbool.h>
#include <stdio.h>
#include <linux/types.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/hpcc.h>

#include "tc_util.h"

static inline void print_u64(const char *key, const char *fmt, __u64 value)
{
	print_color_u64(PRINT_ANY, COLOR_NONE, key, fmt, value);
}

static inline void print_text(const char *fmt, const char *value)
{
	print_color_string(PRINT_FP, COLOR_NONE, NULL, fmt, value);
}

int hpcc_print_xstats(struct qdisc_util *qu, FILE *f, struct rtattr *xstats);

#endif /* _HPCC_QDISC_TC_Q_HPCC_H */
