// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon record: a line for each look at a flow, and for each ACK. The last two columns have a
 * word for each hop, - where nothing is known of it: so a path may have any length, and all lines
 * as many columns. An ACK does not tell of hops.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "acks.h"
#include "record.h"

const char csv_head[] =
	"time,local,peer,cookie,mode,W,Wc,W_init,U,eta,R_bps,T_ns,incStage,u,qlen_ns";

#define NR_COLUMNS	15

/* At most 15 hops of 21 characters. */
static void put_hops(const struct flow *flow, bool queue, char *at)
{
	const struct hop *hop;
	uint32_t i;

	*at = 0;
	for (i = 0; i < flow->nr_hops; i++) {
		hop = &flow->hop[i];
		at += sprintf(at, "%s", i ? " " : "");
		if (!hop->known)
			at += sprintf(at, "-");
		else if (queue)
			at += sprintf(at, "%" PRIu64, hop->qlen_ns);
		else
			at += sprintf(at, "%.6g", hop->u);
	}
}

void csv_line(const struct flow *flow, double time, char line[CSV_LINE_MAX])
{
	char local[END_MAX], peer[END_MAX], u[21 * HPCC_HOPS_MAX + 1], qlen[21 * HPCC_HOPS_MAX + 1];

	put_hops(flow, false, u);
	put_hops(flow, true, qlen);
	snprintf(line, CSV_LINE_MAX, "%.6f,%s,%s,%" PRIu64 ",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64
		 ",%.6g,%.6g,%" PRIu64 ",%" PRIu64 ",%u,%s,%s", time,
		 end_text(&flow->local, local), end_text(&flow->peer, peer), flow->cookie,
		 mode_text(flow->mode), flow->W, flow->Wc, flow->W_init, flow->U, flow->eta,
		 8 * flow->R, flow->T_ns, flow->inc_stage, u, qlen);
}

/* ---- ACKs: there may be a million in a second, and printf() takes too long -------------- */

static char *put_text(char *at, const char *text)
{
	size_t length = strlen(text);

	memcpy(at, text, length);
	return at + length;
}

static char *put_number(char *at, uint64_t number)
{
	char digits[20];
	int n = 0;

	do {
		digits[n++] = '0' + number % 10;
		number /= 10;
	} while (number);
	while (n)
		*at++ = digits[--n];
	return at;
}

/* @millionths: digits behind the point */
static char *put_decimal(char *at, uint64_t whole, uint32_t millionths)
{
	int n;

	at = put_number(at, whole);
	*at = '.';
	for (n = 6; n; n--, millionths /= 10)
		at[n] = '0' + millionths % 10;
	return at + 7;
}

static char *put_time(char *at, double time)
{
	return put_decimal(at, time, (time - (uint64_t)time) * 1e6);
}

static char *put_q24(char *at, uint64_t value)
{
	/* U is 2^40 at most. */
	uint64_t millionths = (value * 1000000 + (1 << 23)) >> 24;

	return put_decimal(at, millionths / 1000000, millionths % 1000000);
}

void csv_ack(const struct ack *ack, const struct known *known, char line[CSV_LINE_MAX])
{
	char *at = put_time(line, ack->time);

	at = put_text(put_text(at, ","), known->who);
	at = put_number(put_text(at, ","), ack->W);
	at = put_number(put_text(at, ","), ack->Wc);
	at = put_number(put_text(at, ","), known->W_init);
	at = put_q24(put_text(at, ","), ack->U_q24);
	at = put_q24(put_text(at, ","), known->eta * (1 << 24) + 0.5);
	at = put_number(put_text(at, ","), 8 * ack->R);
	at = put_number(put_text(at, ","), ack->T_ns);
	at = put_number(put_text(at, ","), ack->inc_stage);
	strcpy(at, ",,");
}

void json_ack(const struct ack *ack, char line[CSV_LINE_MAX])
{
	char *at = put_time(put_text(line, "{\"time\":"), ack->time);

	at = put_number(put_text(at, ",\"cookie\":"), ack->cookie);
	at = put_number(put_text(at, ",\"W\":"), ack->W);
	at = put_number(put_text(at, ",\"Wc\":"), ack->Wc);
	at = put_q24(put_text(at, ",\"U\":"), ack->U_q24);
	at = put_number(put_text(at, ",\"R_bps\":"), 8 * ack->R);
	at = put_number(put_text(at, ",\"T_ns\":"), ack->T_ns);
	at = put_number(put_text(at, ",\"incStage\":"), ack->inc_stage);
	strcpy(at, "}");
}

/* ---- Reading ---------------------------------------------------------------------------- */

static void take_hops(char *words, bool queue, struct flow *flow)
{
	char *save, *word = strtok_r(words, " ", &save);
	struct hop *hop;
	uint32_t i;

	for (i = 0; word && i < HPCC_HOPS_MAX; i++, word = strtok_r(NULL, " ", &save)) {
		hop = &flow->hop[i];
		hop->nr = i + 1;
		hop->known = *word != '-';
		if (queue)
			hop->qlen_ns = strtoull(word, NULL, 10);
		else
			hop->u = strtod(word, NULL);
	}
	if (i > flow->nr_hops)
		flow->nr_hops = i;
}

static uint32_t mode_of(const char *text)
{
	uint32_t mode;

	for (mode = HPCC_FLOW_TELEMETRY; mode < HPCC_FLOW_DOUBTING; mode++)
		if (!strcmp(text, mode_text(mode)))
			break;
	return mode;
}

/* A line of a file; it is cut in pieces. Return: false if it is none of ours. */
bool csv_parse(char *line, struct flow *flow, double *time)
{
	char *column[NR_COLUMNS], *end;
	int i;

	memset(flow, 0, sizeof(*flow));
	for (i = 0; i < NR_COLUMNS; i++)
		column[i] = strsep(&line, ",\n");
	if (!column[NR_COLUMNS - 1] || !end_read(&flow->local, column[1]) ||
	    !end_read(&flow->peer, column[2]))
		return false;
	*time = strtod(column[0], &end);
	if (end == column[0] || *end)
		return false;
	flow->cookie = strtoull(column[3], NULL, 10);
	flow->mode = mode_of(column[4]);
	flow->W = strtoull(column[5], NULL, 10);
	flow->Wc = strtoull(column[6], NULL, 10);
	flow->W_init = strtoull(column[7], NULL, 10);
	flow->U = strtod(column[8], NULL);
	flow->eta = strtod(column[9], NULL);
	flow->R = strtoull(column[10], NULL, 10) / 8;
	flow->T_ns = strtoull(column[11], NULL, 10);
	flow->inc_stage = strtoul(column[12], NULL, 10);
	take_hops(column[13], false, flow);
	take_hops(column[14], true, flow);
	return true;
}
