/* SPDX-License-Identifier: GPL-2.0 */
/* hpccmon record and plot: the file that record writes and plot reads. */
#ifndef HPCCMON_RECORD_H
#define HPCCMON_RECORD_H

#include "hpccmon.h"

#define CSV_LINE_MAX	1024

/* writer.c */
struct writer;
struct writer *writer_open(const char *name);
void writer_line(struct writer *writer, const char *line);
char *writer_room(struct writer *writer);
void writer_take(struct writer *writer, char *end);
void writer_flush(struct writer *writer);
void writer_close(struct writer *writer);

/* known.c */
struct known_flows;

/* Data of a flow that are not in the record of an ACK. */
struct known {
	uint64_t	cookie;		/* SO_COOKIE */
	uint64_t	W_init;		/* bytes */
	uint32_t	mode;		/* enum hpcc_flow_mode */
	uint8_t		who_length;
	uint8_t		eta_length;
	double		eta;		/* target utilization */
	char		who[2 * ENDPOINT_MAX + 40];	/* columns local to mode, with commas */
	char		eta_text[32];	/* column eta, with commas */
};

struct known_flows *known_new(void);
struct known *known_find(const struct known_flows *flows, uint64_t cookie);
const struct known *known_put(struct known_flows *flows, const struct flow *flow);
size_t known_number(const struct known_flows *flows);
void known_free(struct known_flows *flows);

/* csv.c */
struct ack;
char *csv_ack(const struct ack *ack, const struct known *known, char line[CSV_LINE_MAX]);
char *json_ack(const struct ack *ack, char line[CSV_LINE_MAX]);
extern const char csv_head[];
char *csv_line(const struct flow *flow, uint64_t time_us, const struct known *known,
	       char line[CSV_LINE_MAX]);
bool csv_parse(char *line, struct flow *flow, double *time);

#endif /* HPCCMON_RECORD_H */
