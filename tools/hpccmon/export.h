/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the parts of "hpccmon export" share; the main comment is in export.c. */
#ifndef HPCCMON_EXPORT_H
#define HPCCMON_EXPORT_H

#include "hpccmon.h"

/* Maximum number of flows with their own series. */
#define FLOWS_MAX	1000

/* Options of the export. */
struct export {
	struct monitor	*mon;
	uint32_t	flows;		/* number of flows with their own series */
	bool		names;		/* request the names of links */
	const char	*hosts;		/* more names of this host, separated by commas, or NULL */
	bool		complained;	/* the failure of names was already reported */
};

/* metrics.c */
char *metrics_text(struct export *export, size_t *length, const char **why);

/* serve.c */
int serve_metrics(struct export *export, const char *where);

#endif /* HPCCMON_EXPORT_H */
