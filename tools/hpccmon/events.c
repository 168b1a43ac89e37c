// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon events: print events of flows immediately.
 *
 * The output shows two kinds of missing events. Events are "missed" because the kernel reports only
 * a few events per flow and second; the next event of the flow contains their number. Events are
 * "lost" if we read slowly: the kernel drops events while our socket is full.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hpccmon.h"

struct listener {
	const struct filter	*filter;
	bool			json;
	uint64_t		events;
	uint64_t		missed;
	uint64_t		lost;
	uint32_t		most;	/* end after this many events, 0: never */
};

static const char *clock_text(char text[32])
{
	struct timespec ts;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &ts);
	strftime(text, 32, "%H:%M:%S", localtime_r(&ts.tv_sec, &tm));
	snprintf(text + strlen(text), 32 - strlen(text), ".%06ld", ts.tv_nsec / 1000);
	return text;
}

static void tell_json(const struct flow *flow)
{
	struct json_object *object = event_json(flow);

	json_object_object_add(object, "time", json_object_new_double(seconds(CLOCK_REALTIME)));
	json_line(object);
}

static void tell_text(const struct flow *flow)
{
	char local[ENDPOINT_MAX], peer[ENDPOINT_MAX], clock[32], W[16];

	printf("%s %-8s %s -> %s  %s", clock_text(clock), event_text(flow->event),
	       endpoint_text(&flow->local, local), endpoint_text(&flow->peer, peer),
	       mode_text(flow->mode));
	if (flow->event == HPCC_EVENT_FALLBACK)
		printf(" (%s)", fell_back_text(flow->fell_back));
	printf("  W %s  U %.2f", bytes_text(flow->W, W), flow->U);
	if (flow->missed)
		printf("  %u events before it were not reported", flow->missed);
	printf("\n");
}

static void tell(const struct flow *flow, void *data)
{
	struct listener *listener = data;

	if (!filter_matches(listener->filter, flow) ||
	    (listener->most && listener->events == listener->most))
		return;
	listener->events++;
	listener->missed += flow->missed;
	if (listener->json)
		tell_json(flow);
	else
		tell_text(flow);
	end_output();
}

static void tell_lost(struct listener *listener, uint64_t lost)
{
	struct json_object *object;

	if (!lost)
		return;
	listener->lost += lost;
	if (listener->json) {
		object = json_object_new_object();
		json_object_object_add(object, "lost", json_object_new_uint64(lost));
		json_line(object);
	} else {
		printf("%" PRIu64 " events lost, because hpccmon reads too slowly\n", lost);
	}
	end_output();
}

static void listen_on(struct monitor *mon, struct listener *listener)
{
	struct pollfd fd = { .fd = monitor_fd(mon), .events = POLLIN };
	uint64_t lost;
	bool more;

	while (!interrupted() && (!listener->most || listener->events < listener->most)) {
		more = monitor_recv(mon, tell, listener, &lost);
		tell_lost(listener, lost);
		/* A signal just before poll() does not end it, so poll() has a timeout. */
		if (!more && poll(&fd, 1, 1000) < 0 && errno != EINTR)
			die("poll: %s", strerror(errno));
	}
	/* monitor_recv() reports lost events only after it has returned all other events. After
	 * Ctrl-C some events may be unread, so report the lost events here.
	 */
	if (interrupted())
		tell_lost(listener, monitor_lost(mon));
}

int cmd_events(int argc, char **argv)
{
	struct listener listener = {};
	const struct option_spec options[] = {
		{ "json", 'j', OPTION_FLAG, .to = &listener.json },
		{ "count", 'c', OPTION_WHOLE, &listener.most, .min = 1, .max = 1000000000 },
		{ }
	};
	struct filter filter;
	struct monitor *mon;

	take_options(argc, argv, options);
	filter_parse(&filter, argc - optind, argv + optind);
	listener.filter = &filter;
	catch_interrupts();
	mon = monitor_open();
	monitor_listen(mon);
	fprintf(stderr, "listening; Ctrl-C ends\n");
	listen_on(mon, &listener);
	monitor_close(mon);
	fprintf(stderr, "%" PRIu64 " events shown, %" PRIu64 " not reported by the kernel, %" PRIu64
		" lost\n", listener.events, listener.missed, listener.lost);
	return 0;
}
