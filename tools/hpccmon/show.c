// SPDX-License-Identifier: GPL-2.0
/* hpccmon flow: all data of each selected flow. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "hpccmon.h"

struct show {
	bool		json;
	unsigned int	found;
};

static void show_hop(const struct hop *hop, bool holds)
{
	char queue[16] = "", age[16] = "", rate[16], node[32] = "-", u[16] = "-";

	if (hop->known) {
		snprintf(u, sizeof(u), "%.3f", hop->u);
		time_text(hop->qlen_ns, queue);
		time_text(hop->age_us * 1e3, age);
	} else if (hop->quiet) {
		snprintf(u, sizeof(u), "quiet");
	}
	if (hop->named)
		snprintf(node, sizeof(node), "%u.%u", hop->node, hop->port);
	printf("  %c %3u %8s %10s %10s   %-12s %s\n", holds ? '*' : ' ', hop->nr, u, queue, age,
	       node, hop->named ? rate_text(hop->bps, rate) : "-");
}

/* A table of the hops of a flow; * marks the bottleneck. */
void show_hops(const struct flow *flow)
{
	const struct hop *holder = flow_holder(flow);
	uint32_t i;

	if (!flow->nr_hops)
		return;
	printf("    hop       u'      queue        age   node.port    B\n");
	for (i = 0; i < flow->nr_hops; i++)
		show_hop(&flow->hop[i], holder == &flow->hop[i]);
}

static void show_how(const struct flow *flow)
{
	char every[16];

	printf("  %s computes W; ", flow->receiver ? "the receiver" : "the sender");
	if (flow->sample_ns)
		printf("a request every %s", time_text(flow->sample_ns, every));
	else
		printf("a request in each segment");
	printf(", by %s", flow->probes ? "probes" : "data");
	if (flow->powertcp)
		printf("; PowerTCP");
	if (flow->is_signed)
		printf("; signed");
	if (flow->N)
		printf("; N %u, measured", flow->N);
	if (flow->fell_back != HPCC_WHY_NONE)
		printf("; last fallback: %s", fell_back_text(flow->fell_back));
	printf("\n");
}

/* Received and ignored telemetry. */
static void show_came(const struct flow *flow)
{
	const char *before = "; ignored: ";
	uint32_t nr;
	size_t i;

	printf("  telemetry: %u options", flow->received);
	for (i = 0; i < NR_IGNORED; i++) {
		nr = member_value(flow, ignored[i].nr);
		if (!nr)
			continue;
		printf("%s%u %s", before, nr, ignored[i].words);
		before = ", ";
	}
	printf("\n");
}

static void show_text(const struct flow *flow)
{
	char local[ENDPOINT_MAX], peer[ENDPOINT_MAX], a[16], b[16], c[16], text[256];

	printf("%s -> %s  cookie %" PRIu64, endpoint_text(&flow->local, local),
	       endpoint_text(&flow->peer, peer), flow->cookie);
	if (flow->ifindex)
		printf("  ifindex %u", flow->ifindex);
	printf("\n  %s: %s\n", mode_text(flow->mode), why_text(flow, text, sizeof(text)));
	if (flow->mode == FLOW_OBSERVED)
		printf("  cwnd %s", bytes_text(flow->W, a));
	else
		printf("  W %s  Wc %s  W_init %s", bytes_text(flow->W, a), bytes_text(flow->Wc, b),
		       bytes_text(flow->W_init, c));
	printf("  R %s  T %s\n", rate_text(8.0 * flow->R, text), time_text(flow->T_ns, a));
	snprintf(text, sizeof(text), flow_is_measured(flow) ? "%.3f" : "-", flow->U);
	printf("  U %s  eta %.3f  incStage %u\n", text, flow->eta, flow->inc_stage);
	if (flow->mode != FLOW_OBSERVED)
		show_how(flow);
	show_came(flow);
	show_hops(flow);
}

static void show(const struct flow *flow, void *data)
{
	struct show *how = data;

	if (how->json) {
		fputs(how->found ? "," : "[", stdout);
		json_line(flow_json(flow));
	} else {
		fputs(how->found ? "\n" : "", stdout);
		show_text(flow);
	}
	how->found++;
}

int cmd_flow(int argc, char **argv)
{
	struct show how = {};
	bool names = false;
	const struct option_spec options[] = {
		{ "json", 'j', OPTION_FLAG, .to = &how.json },
		{ "names", 'n', OPTION_FLAG, .to = &names },
		{ }
	};
	struct filter filter;
	struct monitor *mon;
	const char *why;

	take_options(argc, argv, options);
	filter_parse(&filter, argc - optind, argv + optind);
	mon = monitor_open_flows();
	if (names && !identify_request(mon, &filter, &why))
		fprintf(stderr, "without names of links: %s\n", why);
	monitor_flows(mon, &filter, show, &how);
	monitor_close(mon);
	if (how.json)
		puts(how.found ? "]" : "[]");
	if (how.found)
		return 0;
	end_output();
	if (*filter.text)
		die("no flow of %s runs hpcc or is observed here", filter.text);
	die("no flow runs hpcc or is observed here");
}
