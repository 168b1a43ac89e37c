// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon record: record flows over time in a file. It reads flows and their hops from the kernel
 * at intervals. If it may attach BPF programs to tracepoints, it also records how each ACK changed
 * W.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "acks.h"
#include "record.h"

/* Time between two reads of the ring of ACKs, s. The default size is enough for ten times the ACKs
 * of this time, at 10^6 ACKs per second.
 */
#define ACKS_DELAY	0.02
#define BUFFER_KB	(16 << 10)
/* Number of ACKs in ACKS_DELAY at 5 * 10^6 ACKs per second. */
#define ACKS_MOST	100000
/* Limits of requests for unknown flows: at most one in UNKNOWN_DELAY seconds, and at most
 * 1/UNKNOWN_PART of the time.
 */
#define UNKNOWN_DELAY	0.01
#define UNKNOWN_PART	10
/* Maximum number of stored cookies of flows that are not selected. */
#define OTHERS		4096
/* We remove all stored flows if there are more than twice the live flows plus this number. */
#define KNOWN_SPARE	4096

struct recorder {
	struct filter	filter;
	struct writer	*writer;
	bool		json;
	double		delay;		/* s */
	double		end;		/* monotonic time, s; 0: none */
	double		now;		/* time of this read, since 1970 */
	struct monitor	*mon;
	struct acks	*acks;		/* NULL: ACKs are not recorded */
	struct known_flows	*known;
	double		ask;		/* time of the next request for an unknown flow, s */
	uint64_t	others[OTHERS];	/* cookies of flows that are not selected */
	uint64_t	acks_told;
	uint64_t	acks_others;	/* number of ACKs of other flows */
	uint64_t	lines;
	uint64_t	live;		/* number of flows in the last read */
	uint64_t	looks;
	uint64_t	late;		/* skipped reads: an earlier read took too long */
};

static void put_json(struct recorder *recorder, const struct flow *flow)
{
	struct json_object *object = flow_json(flow);
	char time[32];

	snprintf(time, sizeof(time), "%.6f", recorder->now);
	json_object_object_add(object, "time", json_object_new_double_s(recorder->now, time));
	writer_line(recorder->writer,
		    json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}

static void put(const struct flow *flow, void *data)
{
	struct recorder *recorder = data;
	const struct known *known = known_put(recorder->known, flow);

	if (recorder->json)
		put_json(recorder, flow);
	else
		writer_take(recorder->writer, csv_line(flow, 1e6 * recorder->now, known,
						       writer_room(recorder->writer)));
	recorder->lines++;
	recorder->live++;
}

static void look(struct recorder *recorder)
{
	const char *why;

	if (known_number(recorder->known) > 2 * recorder->live + KNOWN_SPARE) {
		known_free(recorder->known);
		recorder->known = known_new();
	}
	recorder->live = 0;
	recorder->now = seconds(CLOCK_REALTIME);
	if (monitor_dump(recorder->mon, &recorder->filter, put, recorder, &why) && !interrupted()) {
		writer_close(recorder->writer);
		die("%s; the recording is complete up to this time", why);
	}
	writer_flush(recorder->writer);
	recorder->looks++;
}

static void meet(const struct flow *flow, void *data)
{
	struct recorder *recorder = data;

	known_put(recorder->known, flow);
}

/* Find the flow of an ACK. The flow may have started after the last read. The tracepoint includes
 * the ACKs of all namespaces, so a flow of another namespace may cause a request.
 */
static const struct known *flow_of(struct recorder *recorder, uint64_t cookie)
{
	const struct known *known = known_find(recorder->known, cookie);
	uint64_t *other = &recorder->others[cookie % OTHERS];
	double now, end;
	const char *why;
	int err;

	if (known || *other == cookie)
		return known;
	now = seconds(CLOCK_MONOTONIC);
	if (now < recorder->ask)
		return NULL;
	err = monitor_dump(recorder->mon, &recorder->filter, meet, recorder, &why);
	end = seconds(CLOCK_MONOTONIC);
	recorder->ask = now + UNKNOWN_DELAY + UNKNOWN_PART * (end - now);
	if (err)
		return NULL;
	known = known_find(recorder->known, cookie);
	if (!known)
		*other = cookie;
	return known;
}

static void put_ack(const struct ack *ack, void *data)
{
	struct recorder *recorder = data;
	const struct known *known = flow_of(recorder, ack->cookie);
	char *line;

	if (!known) {
		recorder->acks_others++;
		return;
	}
	line = writer_room(recorder->writer);
	line = recorder->json ? json_ack(ack, line) : csv_ack(ack, known, line);
	writer_take(recorder->writer, line);
	recorder->acks_told++;
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

/* Process ACKs until a monotonic time. */
static void wait_until(struct recorder *recorder, double when)
{
	double now = seconds(CLOCK_MONOTONIC);

	while (recorder->acks && now < when && !interrupted()) {
		sleep_until(now + ACKS_DELAY < when ? now + ACKS_DELAY : when);
		acks_take(recorder->acks, put_ack, recorder, ACKS_MOST);
		now = seconds(CLOCK_MONOTONIC);
	}
	sleep_until(when);
}

static void record(struct recorder *recorder)
{
	double next = seconds(CLOCK_MONOTONIC), now;

	while (!is_over(recorder)) {
		look(recorder);
		next += recorder->delay;
		for (now = seconds(CLOCK_MONOTONIC); next < now; next += recorder->delay)
			recorder->late++;
		wait_until(recorder, recorder->end && recorder->end < next ? recorder->end : next);
	}
}

static void tell_end(const struct recorder *recorder, uint64_t lost)
{
	fprintf(stderr, "%" PRIu64 " lines of %" PRIu64 " scans; %" PRIu64 " scans were skipped, "
		"because earlier scans took longer than %g s\n", recorder->lines, recorder->looks,
		recorder->late, recorder->delay);
	if (recorder->acks)
		fprintf(stderr, "%" PRIu64 " lines of ACKs; %" PRIu64 " ACKs lost, %" PRIu64
			" of other flows\n", recorder->acks_told, lost, recorder->acks_others);
}

int cmd_record(int argc, char **argv)
{
	static struct recorder recorder = { .delay = 0.1 };
	const char *output = NULL, *why;
	uint32_t buffer_kb = BUFFER_KB;
	bool no_acks = false;
	uint64_t lost = 0;
	double time = 0;
	const struct option_spec options[] = {
		{ "json", 'j', OPTION_FLAG, .to = &recorder.json },
		{ "output", 'o', OPTION_TEXT, .to = &output },
		{ "time", 't', OPTION_NUMBER, &time, .min = 0.001, .max = 1e9 },
		{ "delay", 'd', OPTION_NUMBER, &recorder.delay, .min = 0.001, .max = 3600 },
		{ "no-acks", 'n', OPTION_FLAG, .to = &no_acks },
		{ "buffer", 'b', OPTION_WHOLE, &buffer_kb, .min = 4, .max = 1 << 20 },
		{ }
	};

	take_options(argc, argv, options);
	if (!output)
		usage("no output file given; --output=FILE, or - for standard output");
	filter_parse(&recorder.filter, argc - optind, argv + optind);
	catch_interrupts();
	recorder.mon = monitor_open_flows();
	recorder.known = known_new();
	recorder.acks = no_acks ? NULL : acks_open(buffer_kb, &why);
	if (!no_acks && !recorder.acks)
		fprintf(stderr, "without ACKs: %s\n", why);
	recorder.writer = writer_open(output);
	if (!recorder.json)
		writer_line(recorder.writer, csv_head);
	if (time)
		recorder.end = seconds(CLOCK_MONOTONIC) + time;
	record(&recorder);
	if (recorder.acks)
		lost = acks_lost(recorder.acks);
	writer_close(recorder.writer);
	tell_end(&recorder, lost);
	if (recorder.acks)
		acks_close(recorder.acks);
	known_free(recorder.known);
	monitor_close(recorder.mon);
	return 0;
}
