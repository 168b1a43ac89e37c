// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon record: one line for each sample of a flow, and for each ACK. The last two columns have
 * one word for each hop, or - if the hop is unknown, so the number of columns is the same for all
 * paths. The line of an ACK has no hops.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "acks.h"
#include "record.h"

const char csv_head[] =
	"time,local,peer,cookie,mode,W,Wc,W_init,U,eta,R_bps,T_ns,incStage,u,qlen_ns";

#define NR_COLUMNS	15
/* Limit for times that put_time() writes; localtime_r() does not support much later dates. */
#define TIME_MAX	(UINT64_MAX / 1e6)

/* Writing. There may be a million ACKs in a second, and printf() is too slow for them. */

/* Copy the whole array, but advance by @length: a copy of constant size is three times as fast. */
#define put_array(at, text, length)	((char *)memcpy(at, text, sizeof(text)) + (length))
#define put_text(at, text)		put_array(at, text, sizeof(text) - 1)

/* Eight digits; the first digit is in the lowest byte. Each step splits all parts of the word: two
 * groups of four digits, four groups of two, then single digits. For numbers this small, 10486 /
 * 2^20 is a precise 1 / 100, and 103 / 2^10 a precise 1 / 10.
 */
static inline uint64_t eight_digits(uint32_t number)
{
	uint64_t digits = number / 10000 | (uint64_t)(number % 10000) << 32, tops;

	tops = digits * 10486 >> 20 & 0x0000007f0000007f;
	digits = tops | (digits - 100 * tops) << 16;
	tops = digits * 103 >> 10 & 0x000f000f000f000f;
	return tops | (digits - 10 * tops) << 8;
}

/* Write eight digits, but not the first @skip digits. This overwrites 8 bytes at @at. */
static char *put_digits(char *at, uint64_t digits, unsigned int skip)
{
	digits = htole64((digits | 0x3030303030303030) >> 8 * skip);
	memcpy(at, &digits, sizeof(digits));
	return at + sizeof(digits) - skip;
}

static char *put_number(char *at, uint64_t number)
{
	uint64_t digits;

	if (number < 10) {
		*at = '0' + number;
		return at + 1;
	}
	if (number >= 100000000) {
		at = put_number(at, number / 100000000);
		return put_digits(at, eight_digits(number % 100000000), 0);
	}
	digits = eight_digits(number);
	return put_digits(at, digits, __builtin_ctzll(digits) / 8);
}

static char *put_column(char *at, uint64_t number)
{
	at = put_number(at, number);
	*at++ = ',';
	return at;
}

static char *put_millionths(char *at, uint64_t millionths)
{
	at = put_number(at, millionths / 1000000);
	*at++ = '.';
	return put_digits(at, eight_digits(millionths % 1000000), 2);
}

static char *put_q24(char *at, uint64_t value)
{
	/* U is at most 2^40. */
	return put_millionths(at, (value * 1000000 + (1 << 23)) >> 24);
}

static uint64_t q24_of(double value)
{
	return value * (1 << 24) + 0.5;
}

static char *put_hops(const struct flow *flow, bool queue, char *at)
{
	const struct hop *hop;
	uint32_t i;

	for (i = 0; i < flow->nr_hops; i++) {
		hop = &flow->hop[i];
		if (i)
			*at++ = ' ';
		if (!hop->known)
			*at++ = '-';
		else if (queue)
			at = put_number(at, hop->qlen_ns);
		else
			at = put_q24(at, q24_of(hop->u));
	}
	return at;
}

/* Most lines have the same second as the previous line. */
static char *put_time(char *at, uint64_t time_us)
{
	static uint64_t second;
	static char text[24] = "0.";
	static size_t length = 2;

	if (time_us / 1000000 != second) {
		second = time_us / 1000000;
		length = put_number(text, second) - text;
		text[length++] = '.';
	}
	return put_digits(put_array(at, text, length), eight_digits(time_us % 1000000), 2);
}

/* Write all columns except those of hops. */
static char *put_columns(char *at, const struct ack *ack, const struct known *known)
{
	at = put_time(at, ack->time_us);
	at = put_array(at, known->who, known->who_length);
	at = put_column(at, ack->W);
	at = put_column(at, ack->Wc);
	at = put_column(at, known->W_init);
	at = put_q24(at, ack->U_q24);
	at = put_array(at, known->eta_text, known->eta_length);
	at = put_column(at, 8 * ack->R);
	at = put_column(at, ack->T_ns);
	return put_column(at, ack->inc_stage);
}

/* Return: the end of the line. */
char *csv_line(const struct flow *flow, uint64_t time_us, const struct known *known,
	       char line[CSV_LINE_MAX])
{
	const struct ack ack = {
		.time_us = time_us,
		.W = flow->W,
		.Wc = flow->Wc,
		.U_q24 = q24_of(flow->U),
		.R = flow->R,
		.T_ns = flow->T_ns,
		.inc_stage = flow->inc_stage,
	};
	char *at = put_columns(line, &ack, known);

	at = put_hops(flow, false, at);
	*at++ = ',';
	return put_hops(flow, true, at);
}

/* Return: the end of the line. */
char *csv_ack(const struct ack *ack, const struct known *known, char line[CSV_LINE_MAX])
{
	return put_text(put_columns(line, ack, known), ",");
}

/* Return: the end of the line. */
char *json_ack(const struct ack *ack, char line[CSV_LINE_MAX])
{
	char *at = put_time(put_text(line, "{\"time\":"), ack->time_us);

	at = put_number(put_text(at, ",\"cookie\":"), ack->cookie);
	at = put_number(put_text(at, ",\"W\":"), ack->W);
	at = put_number(put_text(at, ",\"Wc\":"), ack->Wc);
	at = put_q24(put_text(at, ",\"U\":"), ack->U_q24);
	at = put_number(put_text(at, ",\"R_bps\":"), 8 * ack->R);
	at = put_number(put_text(at, ",\"T_ns\":"), ack->T_ns);
	at = put_number(put_text(at, ",\"incStage\":"), ack->inc_stage);
	return put_text(at, "}");
}

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

	for (mode = HPCC_FLOW_TELEMETRY; mode < FLOW_OBSERVED; mode++)
		if (!strcmp(text, mode_text(mode)))
			break;
	return mode;
}

/* Parse a line of a file, and split it in place. Return: false if hpccmon did not write the line.
 */
bool csv_parse(char *line, struct flow *flow, double *time)
{
	char *column[NR_COLUMNS], *end;
	int i;

	memset(flow, 0, sizeof(*flow));
	for (i = 0; i < NR_COLUMNS; i++)
		column[i] = strsep(&line, ",\n");
	if (!column[NR_COLUMNS - 1] || !endpoint_read(&flow->local, column[1]) ||
	    !endpoint_read(&flow->peer, column[2]))
		return false;
	*time = strtod(column[0], &end);
	if (end == column[0] || *end || !(*time >= 0 && *time <= TIME_MAX))
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
