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

/* known.c */
struct known_flows;

/**
 * struct known - of a flow, what an ACK does not tell
 * @cookie: its number
 * @W_init: bytes
 * @eta: its aim
 * @mode: enum hpcc_flow_mode
 * @who: columns from local to mode
 */
struct known {
	uint64_t	cookie;
	uint64_t	W_init;
	double		eta;
	uint32_t	mode;
	char		who[2 * END_MAX + 40];
};

struct known_flows *known_new(void);
struct known *known_find(const struct known_flows *flows, uint64_t cookie);
const struct known *known_put(struct known_flows *flows, const struct flow *flow);
size_t known_number(const struct known_flows *flows);
void known_free(struct known_flows *flows);

/* csv.c */
struct ack;
void csv_ack(const struct ack *ack, const struct known *known, char line[CSV_LINE_MAX]);
void json_ack(const struct ack *ack, char line[CSV_LINE_MAX]);
extern const char csv_head[];
void csv_line(const struct flow *flow, double time, const struct known *known,
	      char line[CSV_LINE_MAX]);
bool csv_parse(char *line, struct flow *flow, double *time);

#endif /* HPCCMON_RECORD_H */
