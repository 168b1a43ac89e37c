/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of "hpccmon export" share; its head comment is in export.c. */
#ifndef HPCCMON_EXPORT_H
#define HPCCMON_EXPORT_H

#include "hpccmon.h"

/* Flows with series of their own, at most. */
#define FLOWS_MAX	1000

/**
 * struct export - what is told, and how
 * @mon: asks the kernel
 * @flows: flows that get series of their own; 0: none
 * @names: have links asked who they are
 * @hosts: further names of this host, with commas between them, or NULL
 * @complained: somebody was told why that fails
 */
struct export {
	struct monitor	*mon;
	unsigned int	flows;
	bool		names;
	const char	*hosts;
	bool		complained;
};

/* metrics.c */
char *metrics_text(struct export *export, size_t *length, const char **why);

/* serve.c */
int serve_metrics(struct export *export, const char *where);

#endif /* HPCCMON_EXPORT_H */
