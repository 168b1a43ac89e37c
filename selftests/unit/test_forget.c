// SPDX-License-Identifier: GPL-2.0
/* Unit tests of tools/hpccmon/record.c: it forgets flows that ended, and no other flows. */
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>
#include "test.h"
#include "../../tools/hpccmon/csv.c"
#include "../../tools/hpccmon/known.c"
#include "../../tools/hpccmon/noacks.c"
#include "../../tools/hpccmon/options.c"
#include "../../tools/hpccmon/record.c"
#include "../../tools/hpccmon/units.c"

#define LIVE	1000

/* The kernel reports LIVE flows, with cookies from this number on. */
static u64 first_cookie;
static u32 dumps, dump_us;	/* number of these reports, and time of one report */

int monitor_dump(struct monitor *mon, const struct filter *filter, flow_fn fn, void *data,
		 const char **why)
{
	struct flow flow = {};

	dumps++;
	usleep(dump_us);
	for (u32 i = 0; i < LIVE; i++) {
		flow.cookie = first_cookie + i;
		fn(&flow, data);
	}
	return 0;
}

/* ---- Other functions that these files call; no test depends on them ---- */

static char line[CSV_LINE_MAX];

const char *endpoint_text(const struct endpoint *endpoint, char text[ENDPOINT_MAX]) { return ""; }
bool endpoint_read(struct endpoint *endpoint, const char *word) { return false; }
const char *mode_text(uint32_t mode) { return ""; }
struct json_object *flow_json(const struct flow *flow) { return NULL; }
struct writer *writer_open(const char *name) { return NULL; }
void writer_close(struct writer *writer) { }
void writer_flush(struct writer *writer) { }
void writer_line(struct writer *writer, const char *text) { }
void writer_take(struct writer *writer, char *end) { }
char *writer_room(struct writer *writer) { return line; }
struct monitor *monitor_open_flows(void) { return NULL; }
void monitor_close(struct monitor *mon) { }
void filter_parse(struct filter *filter, int nr, char **args) { }
void catch_interrupts(void) { }
bool interrupted(void) { return false; }
void die(const char *format, ...) { abort(); }
void usage(const char *format, ...) { abort(); }

void *allocated(void *memory)
{
	assert_non_null(memory);
	return memory;
}

static void check_lives(const struct recorder *recorder)
{
	for (u32 i = 0; i < LIVE; i++)
		assert_non_null(known_find(recorder->known, first_cookie + i));
}

/* All flows end between two scans, and others begin. */
TEST(look__forgets_flows_that_ended)
{
	struct recorder recorder = { .known = known_new() };
	u32 i;

	for (i = 0, first_cookie = 1; i < 100; i++, first_cookie += LIVE) {
		look(&recorder);
		assert_true(known_number(recorder.known) <= 3 * LIVE + KNOWN_SPARE);
		check_lives(&recorder);
	}
	known_free(recorder.known);
}

/* All flows end between two scans. ACKs of unknown flows cause these scans. */
TEST(flow_of__is_forgotten_by_the_next_look)
{
	struct recorder recorder = { .known = known_new() };
	u32 i;

	for (i = 0, first_cookie = 1; i < 10; i++, first_cookie += LIVE) {
		recorder.ask = 0;
		assert_non_null(flow_of(&recorder, first_cookie));
		assert_null(flow_of(&recorder, 1ULL << 60));
	}
	assert_int_equal(known_number(recorder.known), 10 * LIVE);
	look(&recorder);
	assert_int_equal(known_number(recorder.known), LIVE);
	check_lives(&recorder);
	known_free(recorder.known);
}

/* Any number of flows of other namespaces causes scans for at most a tenth of the time. */
TEST(flow_of__scans_for_a_tenth_of_the_time)
{
	struct recorder recorder = { .known = known_new() };
	double begin = seconds(CLOCK_MONOTONIC);
	u64 cookie = 1ULL << 60;

	dumps = 0;
	dump_us = 10000;
	while (seconds(CLOCK_MONOTONIC) < begin + 0.25)
		assert_null(flow_of(&recorder, cookie++));
	assert_in_range(dumps, 1, 3);
	dump_us = 0;
	known_free(recorder.known);
}
