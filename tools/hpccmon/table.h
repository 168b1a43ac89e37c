/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon top: flows as a table. */
#ifndef HPCCMON_TABLE_H
#define HPCCMON_TABLE_H

#include "hpccmon.h"

#define TABLE_COLUMNS	12
#define TEXT_FILTER_MAX	64
/* No terminal is wider. */
#define LINE_MAX_CHARS	512

/**
 * struct table - a sorted list of flows
 * @flow: flows that pass the filter
 * @nr: number of flows in @flow
 * @room: allocated size of @flow
 * @total: total number of flows
 * @classic: number of flows without telemetry
 * @filter: selected flows
 * @text_filter: text that a flow's ends, mode or reason must contain
 * @sort: column to sort by
 * @reverse: smallest first
 */
struct table {
	struct flow		*flow;
	size_t			nr;
	size_t			room;
	size_t			total;
	size_t			classic;
	struct filter		filter;
	char			text_filter[TEXT_FILTER_MAX];
	unsigned int		sort;
	bool			reverse;
};

/* Columns' widths, 0: not shown. */
struct layout {
	int	width[TABLE_COLUMNS];
};

int table_fill(struct table *table, struct monitor *mon, const char **why);
void table_sort(struct table *table);
bool table_sort_by(struct table *table, const char *name);
const char *table_column(unsigned int column);
const char *table_columns(char text[128]);
void table_layout(const struct table *table, int width, struct layout *layout);
void table_head(const struct table *table, const struct layout *layout, char line[LINE_MAX_CHARS]);
void table_row(const struct flow *flow, const struct layout *layout, char line[LINE_MAX_CHARS]);

#endif /* HPCCMON_TABLE_H */
