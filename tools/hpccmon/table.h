/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon top: flows as a table. */
#ifndef HPCCMON_TABLE_H
#define HPCCMON_TABLE_H

#include "hpccmon.h"

#define TABLE_COLUMNS	12
#define TEXT_FILTER_MAX	64
/* No terminal has longer lines. */
#define LINE_MAX_CHARS	512

/* A sorted list of flows. */
struct table {
	struct flow		*flow;		/* flows that pass the filter */
	size_t			nr;		/* number of flows in flow */
	size_t			room;		/* allocated size of flow */
	size_t			total;		/* total number of flows */
	size_t			classic;	/* number of flows without telemetry */
	struct filter		filter;		/* selected flows */
	char			text_filter[TEXT_FILTER_MAX];	/* part of ends, mode or reason */
	unsigned int		sort;		/* column to sort by */
	bool			reverse;	/* smallest first */
};

/* Widths of the columns; 0: not shown. */
struct layout {
	int	width[TABLE_COLUMNS];
};

int table_fill(struct table *table, struct monitor *mon, const char **why);
void table_sort(struct table *table);
bool table_sort_by(struct table *table, const char *name);
const char *table_columns(char text[128]);
void table_layout(const struct table *table, int width, struct layout *layout);
void table_line(const struct table *table, const struct flow *flow, const struct layout *layout,
		char line[LINE_MAX_CHARS]);

#endif /* HPCCMON_TABLE_H */
