// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon record: what flows do over time, in a file. It asks the kernel every now and then; what
 * happens in between shows in the counters only.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "record.h"

struct recorder {
	struct wanted	wanted;
	struct writer	*writer;
	bool		json;
	double		delay;		/* s */
	double		end;		/* monotonic time, s; 0: none */
	double		now;		/* of this look, since 1970 */
	uint64_t	lines;
	uint64_t	looks;
	uint64_t	late;		/* looks that came too late, and were left out */
};

static double seconds(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void put(const struct flow *flow, void *data)
{
	struct recorder *recorder = data;
	struct json_object *object;
	char line[CSV_LINE_MAX], time[32];

	if (recorder->json) {
		object = flow_json(flow);
		snprintf(time, sizeof(time), "%.6f", recorder->now);
		json_object_object_add(object, "time",
				       json_object_new_double_s(recorder->now, time));
		writer_line(recorder->writer,
			    json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(object);
	} else {
		csv_line(flow, recorder->now, line);
		writer_line(recorder->writer, line);
	}
	recorder->lines++;
}

/* Sleep until a monotonic time, or until a signal. */
static void sleep_until(double when)
{
	double left = when - seconds(CLOCK_MONOTONIC);
	struct timespec ts;

	if (left <= 0)
		return;
	ts.tv_sec = left;
	ts.tv_nsec = (left - ts.tv_sec) * 1e9;
	nanosleep(&ts, NULL);
}

static bool is_over(const struct recorder *recorder)
{
	return interrupted() || (recorder->end && seconds(CLOCK_MONOTONIC) >= recorder->end);
}

static void record(struct recorder *recorder, struct monitor *mon)
{
	double next = seconds(CLOCK_MONOTONIC), now;
	const char *why;

	while (!is_over(recorder)) {
		recorder->now = seconds(CLOCK_REALTIME);
		if (monitor_dump(mon, &recorder->wanted, put, recorder, &why) && !interrupted()) {
			writer_close(recorder->writer);
			die("%s; what was recorded is whole", why);
		}
		writer_flush(recorder->writer);
		recorder->looks++;
		next += recorder->delay;
		for (now = seconds(CLOCK_MONOTONIC); next < now; next += recorder->delay)
			recorder->late++;
		sleep_until(recorder->end && recorder->end < next ? recorder->end : next);
	}
}

int cmd_record(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "output", required_argument, NULL, 'o' },
		{ "time", required_argument, NULL, 't' },
		{ "delay", required_argument, NULL, 'd' },
		{ }
	};
	struct recorder recorder = { .delay = 0.1 };
	const char *output = NULL;
	struct monitor *mon;
	double time = 0;
	int option;

	while ((option = next_option(argc, argv, "jo:t:d:", options)) != -1) {
		if (option == 'j')
			recorder.json = true;
		else if (option == 'o')
			output = optarg;
		else if (option == 't')
			time = number_option("--time", 0.001, 1e9);
		else
			recorder.delay = number_option("--delay", 0.001, 3600);
	}
	if (!output)
		usage("where to? --output=FILE, or - for standard output");
	wanted_parse(&recorder.wanted, argc - optind, argv + optind);
	catch_interrupts();
	mon = monitor_open();
	recorder.writer = writer_open(output);
	if (!recorder.json)
		writer_line(recorder.writer, csv_head);
	if (time)
		recorder.end = seconds(CLOCK_MONOTONIC) + time;
	record(&recorder, mon);
	writer_close(recorder.writer);
	monitor_close(mon);
	fprintf(stderr, "%" PRIu64 " lines of %" PRIu64 " looks; %" PRIu64 " looks were left out, "
		"as others took longer than %g s\n", recorder.lines, recorder.looks, recorder.late,
		recorder.delay);
	return 0;
}
