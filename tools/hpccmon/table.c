// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon top: flows as a table that fits the width of the terminal. Each column has a rank. The
 * columns with the first ranks that fit at minimum width are shown, and long texts get the
 * remaining width.
 */
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* The end of a text that is removed if the text is too long. */
enum cut { RIGHT, LEFT };

/* A column of the table. text() is NULL if the column shows one number, in the format of show().
 * key() is NULL if this number sorts the flows.
 */
struct column {
	const char	*name;
	int		rank;	/* 0 comes first */
	int		least;	/* minimum width; negative: numbers, aligned right */
	int		most;	/* maximum width */
	enum cut	cut;
	struct member	number;
	bool		of_hop;	/* number is a member of the hop that limits the flow */
	bool		measured;	/* number needs records */
	const char	*(*show)(double number, char text[16]);
	const char	*(*text)(const struct flow *flow, char *text, size_t size);
	double		(*key)(const struct flow *flow);
};

static const char *text_local(const struct flow *flow, char *text, size_t size)
{
	(void)size;
	return endpoint_text(&flow->local, text);
}

static const char *text_peer(const struct flow *flow, char *text, size_t size)
{
	(void)size;
	return endpoint_text(&flow->peer, text);
}

static double key_endpoint(const struct endpoint *endpoint)
{
	const unsigned char *addr = endpoint->addr.s6_addr;
	double key = 0;
	int i;

	/* The 53 bits of a double hold the last 4 bytes of the address and the port. */
	for (i = 12; i < 16; i++)
		key = key * 256 + addr[i];
	return key * 65536 + endpoint->port;
}

static double key_local(const struct flow *flow)
{
	return key_endpoint(&flow->local);
}

static double key_peer(const struct flow *flow)
{
	return key_endpoint(&flow->peer);
}

static const char *text_mode(const struct flow *flow, char *text, size_t size)
{
	snprintf(text, size, "%s", mode_text(flow->mode));
	return text;
}

static const char *show_rate(double bytes, char text[16])
{
	return rate_text(8 * bytes, text);
}

static const char *show_ratio(double ratio, char text[16])
{
	snprintf(text, 16, ratio < 99.995 ? "%.2f" : "%.4g", ratio);
	return text;
}

static const char *show_count(double count, char text[16])
{
	snprintf(text, 16, "%.0f", count);
	return text;
}

static const char *text_hop(const struct flow *flow, char *text, size_t size)
{
	const struct hop *hop = flow_holder(flow);

	if (hop)
		snprintf(text, size, "%u/%u", hop->nr, flow->nr_hops);
	else
		snprintf(text, size, "-/%u", flow->nr_hops);
	return text;
}

static const struct column columns[TABLE_COLUMNS] = {
	{ "LOCAL", 5, 12, 47, LEFT, .text = text_local, .key = key_local },
	{ "PEER", 0, 12, 47, LEFT, .text = text_peer, .key = key_peer },
	{ "MODE", 8, 9, 9, RIGHT, FLOW(mode, NUMBER32), .text = text_mode },
	{ "W", 2, -7, 7, RIGHT, FLOW(W, NUMBER64), .show = bytes_text },
	{ "R", 3, -11, 11, RIGHT, FLOW(R, NUMBER64), .show = show_rate },
	{ "T", 9, -7, 7, RIGHT, FLOW(T_ns, NUMBER64), .show = time_text },
	{ "U", 1, -5, 5, RIGHT, FLOW(U, SHARE), .measured = true, .show = show_ratio },
	{ "HOP", 4, -5, 5, RIGHT, HOP(nr, NUMBER32), true, .text = text_hop },
	{ "u'", 6, -5, 5, RIGHT, HOP(u, SHARE), true, .show = show_ratio },
	{ "QUEUE", 7, -7, 7, RIGHT, HOP(qlen_ns, NUMBER64), true, .show = time_text },
	{ "STAGE", 11, -5, 5, RIGHT, FLOW(inc_stage, NUMBER32), .show = show_count },
	{ "WHY", 10, 16, 160, RIGHT, FLOW(mode, NUMBER32), .text = why_text },
};

/* The struct that has the number of a column. Return: NULL if the number is not known. */
static const void *base_of(const struct column *column, const struct flow *flow)
{
	if (column->measured && !flow_is_measured(flow))
		return NULL;
	return column->of_hop ? (const void *)flow_holder(flow) : flow;
}

static const char *text_of(const struct column *column, const struct flow *flow,
			   char text[LINE_MAX_CHARS])
{
	const void *base = base_of(column, flow);

	if (column->text)
		return column->text(flow, text, LINE_MAX_CHARS);
	return base ? column->show(member_value(base, column->number), text) : "-";
}

static double key_of(const struct column *column, const struct flow *flow)
{
	const void *base = base_of(column, flow);

	if (column->key)
		return column->key(flow);
	return base ? member_value(base, column->number) : -1;
}

/* The names of all columns. */
const char *table_columns(char text[128])
{
	unsigned int i;

	*text = 0;
	for (i = 0; i < TABLE_COLUMNS; i++)
		strcat(strcat(text, i ? ", " : ""), columns[i].name);
	return text;
}

/* Return: false if there is no such column. Names are case-sensitive, because u' and U differ. */
bool table_sort_by(struct table *table, const char *name)
{
	unsigned int pass, i;

	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < TABLE_COLUMNS; i++)
			if (!(pass ? strcasecmp : strcmp)(name, columns[i].name)) {
				table->sort = i;
				return true;
			}
	return false;
}

static bool passes(const struct table *table, const struct flow *flow)
{
	char all[512], local[ENDPOINT_MAX], peer[ENDPOINT_MAX], why[256];

	if (!*table->text_filter)
		return true;
	snprintf(all, sizeof(all), "%s %s %s %s", endpoint_text(&flow->local, local),
		 endpoint_text(&flow->peer, peer), mode_text(flow->mode),
		 why_text(flow, why, sizeof(why)));
	return strcasestr(all, table->text_filter);
}

static void add(const struct flow *flow, void *data)
{
	struct table *table = data;

	table->total++;
	table->classic += flow_is_classic(flow);
	if (!passes(table, flow))
		return;
	if (table->nr == table->room) {
		table->room = table->room ? 2 * table->room : 64;
		table->flow = allocated(realloc(table->flow, table->room * sizeof(*flow)));
	}
	table->flow[table->nr++] = *flow;
}

static unsigned int sort_column;
static int sort_sign;

static int compare(const void *one, const void *other)
{
	const struct flow *a = one, *b = other;
	double x = key_of(&columns[sort_column], a), y = key_of(&columns[sort_column], b);

	if (x != y)
		return x < y ? sort_sign : -sort_sign;
	/* Flows with equal values keep a fixed order. */
	return a->cookie < b->cookie ? -1 : a->cookie > b->cookie;
}

void table_sort(struct table *table)
{
	sort_column = table->sort;
	sort_sign = table->reverse ? -1 : 1;
	if (table->nr)
		qsort(table->flow, table->nr, sizeof(*table->flow), compare);
}

/* Remove the old flows, and read the flows again. Return: 0 or an error. */
int table_fill(struct table *table, struct monitor *mon, const char **why)
{
	int err;

	table->nr = 0;
	table->total = 0;
	table->classic = 0;
	err = monitor_dump(mon, &table->filter, add, table, why);
	table_sort(table);
	return err;
}

static int least(const struct column *column)
{
	return abs(column->least);
}

/* The width that the texts of a column need, up to its maximum. */
static int wish(const struct table *table, const struct column *column)
{
	char text[LINE_MAX_CHARS];
	int length, longest = 0;
	size_t i;

	for (i = 0; i < table->nr; i++) {
		length = strlen(text_of(column, &table->flow[i], text));
		if (length > longest)
			longest = length;
	}
	return longest < column->most ? longest : column->most;
}

/* Select the columns that fit in lines of @width characters. */
void table_layout(const struct table *table, int width, struct layout *layout)
{
	int rank, more, left = width < LINE_MAX_CHARS ? width : LINE_MAX_CHARS - 1;
	unsigned int i;

	memset(layout, 0, sizeof(*layout));
	for (rank = 0; rank < TABLE_COLUMNS; rank++)
		for (i = 0; i < TABLE_COLUMNS; i++)
			if (columns[i].rank == rank && least(&columns[i]) + !!rank <= left) {
				layout->width[i] = least(&columns[i]);
				left -= least(&columns[i]) + !!rank;
			}
	/* If even the first column does not fit, it gets the whole width. */
	for (i = 0; i < TABLE_COLUMNS; i++)
		if (!columns[i].rank && !layout->width[i]) {
			layout->width[i] = left;
			left = 0;
		}
	for (i = 0; i < TABLE_COLUMNS; i++) {
		if (!layout->width[i] || columns[i].most <= layout->width[i])
			continue;
		more = wish(table, &columns[i]) - layout->width[i];
		if (more > left)
			more = left;
		if (more > 0) {
			layout->width[i] += more;
			left -= more;
		}
	}
}

/* Write a text in a column; ~ marks a truncated text. */
static char *put(char *at, const struct column *column, int width, const char *text)
{
	int length = strlen(text);

	if (length <= width)
		return at + sprintf(at, column->least < 0 ? "%*s" : "%-*s", width, text);
	if (column->cut == LEFT)
		return at + sprintf(at, "~%.*s", width - 1, text + length - (width - 1));
	return at + sprintf(at, "%.*s~", width - 1, text);
}

/* Write a line: the texts of all columns for a flow, or without a flow the names of the columns. */
void table_line(const struct table *table, const struct flow *flow, const struct layout *layout,
		char line[LINE_MAX_CHARS])
{
	char name[32], text[LINE_MAX_CHARS], *at = line;
	unsigned int i;

	*line = 0;
	for (i = 0; i < TABLE_COLUMNS; i++) {
		if (!layout->width[i])
			continue;
		if (at != line)
			*at++ = ' ';
		if (!flow)
			snprintf(name, sizeof(name), "%s%s", columns[i].name,
				 i == table->sort && (int)strlen(columns[i].name) <
				 layout->width[i] ? table->reverse ? "^" : "v" : "");
		at = put(at, &columns[i], layout->width[i],
			 flow ? text_of(&columns[i], flow, text) : name);
	}
}
