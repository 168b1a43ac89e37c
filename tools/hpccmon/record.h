/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon record and plot: the file that one writes and the other reads. */
#ifndef HPCCMON_RECORD_H
#define HPCCMON_RECORD_H

#include "hpccmon.h"

#define CSV_LINE_MAX	1024

/* writer.c */
struct writer;
struct writer *writer_open(const char *name);
void writer_line(struct writer *writer, const char *line);
void writer_flush(struct writer *writer);
void writer_close(struct writer *writer);

/* csv.c */
extern const char csv_head[];
void csv_line(const struct flow *flow, double time, char line[CSV_LINE_MAX]);
bool csv_parse(char *line, struct flow *flow, double *time);

#endif /* HPCCMON_RECORD_H */
