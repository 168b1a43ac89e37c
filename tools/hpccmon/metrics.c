// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon export: data of the kernel in Prometheus' text format, version 0.0.4: counters of the
 * namespace, distributions over its flows, and series of single flows. The number of series
 * does not grow without limit with the number of flows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "observe.h"

#define NR(array)	(sizeof(array) / sizeof(*(array)))
#define BOUNDS_MAX	12
#define LABELS_MAX	(2 * ENDPOINT_MAX + 64)

/* Distribution of a value over flows that send and use telemetry. */
struct spread {
	const char	*name;	/* of the metric */
	const char	*help;	/* of the metric */
	struct member	member;
	double		bound[BOUNDS_MAX];	/* upper bounds of buckets, then 0 */
};

/* A flow with its own series. */
struct shown {
	struct flow	flow;
	char		labels[LABELS_MAX];
};

static const struct spread spreads[] = {
	{ "hpcc_flows_window_bytes", "W", FLOW(W, NUMBER64),
	  { 1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6, 64e6 } },
	{ "hpcc_flows_rate_bytes_per_second", "R = W/T", FLOW(R, NUMBER64),
	  { 1e5, 1e6, 1e7, 3e7, 1e8, 3e8, 1e9, 3e9, 1e10, 3e10 } },
	{ "hpcc_flows_utilization_ratio", "U", FLOW(U, SHARE),
	  { 0.25, 0.5, 0.75, 0.9, 0.95, 1, 1.05, 1.25, 1.5, 2, 4 } },
};

/* Metrics at one moment. */
struct snapshot {
	uint64_t	nr;			/* flows */
	uint64_t	mode[NR_FLOW_MODES];	/* number of flows by mode */
	uint64_t	fell_back[HPCC_WHY_UNTRUSTED + 1];	/* by mode and last reason */
	uint64_t	ruled;			/* number of flows that send and use telemetry */
	uint64_t	bucket[NR(spreads)][BOUNDS_MAX];	/* flows by spread and bucket */
	double		sum[NR(spreads)];	/* sum over these flows */
	struct shown	*shown;			/* flows with their own series */
	unsigned int	nr_shown;
	unsigned int	max_shown;		/* maximum of nr_shown */
	unsigned int	worst;			/* index in shown: a better flow replaces it */
};

/* Flows that fell back come first, then the oldest flows: so each scrape selects the same flows. */
static bool is_better(const struct flow *a, const struct flow *b)
{
	if (flow_is_classic(a) != flow_is_classic(b))
		return flow_is_classic(a);
	return a->cookie < b->cookie;
}

/* The values of a flow that is idle or only receives are old. A quiet hop has no records; if the
 * flow is observed, it has an age.
 */
static bool is_ruled(const struct flow *flow)
{
	uint32_t i;

	for (i = 0; i < flow->nr_hops; i++)
		if (flow->hop[i].quiet && flow->mode != FLOW_OBSERVED)
			return !flow_is_classic(flow);
	return !flow_is_classic(flow) && flow_is_measured(flow) &&
	       (flow->receiver || flow->busy || !flow_is_idle(flow));
}

static void show_flow(struct snapshot *snap, const struct flow *flow)
{
	unsigned int i;

	if (snap->nr_shown < snap->max_shown) {
		snap->shown[snap->nr_shown++].flow = *flow;
		if (snap->nr_shown < snap->max_shown)
			return;
	} else if (snap->max_shown && is_better(flow, &snap->shown[snap->worst].flow)) {
		snap->shown[snap->worst].flow = *flow;
	} else {
		return;
	}
	for (snap->worst = 0, i = 1; i < snap->nr_shown; i++)
		if (is_better(&snap->shown[snap->worst].flow, &snap->shown[i].flow))
			snap->worst = i;
}

static void spread_take(struct snapshot *snap, size_t at, const struct flow *flow)
{
	double value = member_value(flow, spreads[at].member);
	size_t i;

	for (i = 0; spreads[at].bound[i] && value > spreads[at].bound[i]; i++)
		;
	snap->bucket[at][i]++;
	snap->sum[at] += value;
}

static void flow_take(const struct flow *flow, void *data)
{
	struct snapshot *snap = data;
	size_t i;

	snap->nr++;
	if (flow->mode < NR(snap->mode))
		snap->mode[flow->mode]++;
	if (flow->fell_back < NR(snap->fell_back))
		snap->fell_back[flow->fell_back]++;
	show_flow(snap, flow);
	if (!is_ruled(flow))
		return;
	snap->ruled++;
	for (i = 0; i < NR(spreads); i++)
		spread_take(snap, i, flow);
}

static void head(FILE *to, const char *name, const char *type, const char *help)
{
	fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The kernel gives the names of counters; only tcp_hpcc(7) describes them. */
static void put_counter(const char *name, uint64_t value, void *data)
{
	char metric[64], help[96];

	if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] ||
	    strlen(name) > 48)
		return;
	snprintf(metric, sizeof(metric), "hpcc_%s_total", name);
	snprintf(help, sizeof(help), "Counter %s of the namespace, tcp_hpcc(7).", name);
	head(data, metric, "counter", help);
	fprintf(data, "%s %" PRIu64 "\n", metric, value);
}

static void put_numbers(FILE *to, const struct snapshot *snap)
{
	uint32_t i;

	head(to, "hpcc_flows", "gauge", "Flows that agreed on telemetry, by mode.");
	for (i = 0; i < NR(snap->mode); i++)
		fprintf(to, "hpcc_flows{mode=\"%s\"} %" PRIu64 "\n", mode_text(i), snap->mode[i]);
	head(to, "hpcc_flows_fell_back", "gauge", "Flows by the reason of their last fallback.");
	for (i = 0; i < NR(snap->fell_back); i++)
		fprintf(to, "hpcc_flows_fell_back{reason=\"%s\"} %" PRIu64 "\n", fell_back_text(i),
			snap->fell_back[i]);
	head(to, "hpcc_flows_omitted", "gauge",
	     "Flows without series of their own, because --flows limits their number.");
	fprintf(to, "hpcc_flows_omitted %" PRIu64 "\n", snap->nr - snap->nr_shown);
}

static void put_spread(FILE *to, const struct snapshot *snap, size_t at)
{
	const struct spread *spread = &spreads[at];
	uint64_t below = 0;
	char help[128];
	size_t i;

	snprintf(help, sizeof(help),
		 "%s of flows that send and use telemetry, at this moment: do not use rate().",
		 spread->help);
	head(to, spread->name, "histogram", help);
	for (i = 0; spread->bound[i]; i++) {
		below += snap->bucket[at][i];
		fprintf(to, "%s_bucket{le=\"%.10g\"} %" PRIu64 "\n", spread->name, spread->bound[i],
			below);
	}
	fprintf(to, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", spread->name, snap->ruled);
	fprintf(to, "%s_sum %.10g\n%s_count %" PRIu64 "\n", spread->name, snap->sum[at],
		spread->name, snap->ruled);
}

/* While Reno controls W, these values are old. */
static void put_flow_value(FILE *to, const struct snapshot *snap, const char *name,
			   const char *help, struct member member, double unit)
{
	unsigned int i;

	head(to, name, "gauge", help);
	for (i = 0; i < snap->nr_shown; i++)
		if (!flow_is_classic(&snap->shown[i].flow) &&
		    (member.offset != offsetof(struct flow, U) ||
		     flow_is_measured(&snap->shown[i].flow)))
			fprintf(to, "%s{%s} %.10g\n", name, snap->shown[i].labels,
				member_value(&snap->shown[i].flow, member) / unit);
}

static void put_flow_modes(FILE *to, const struct snapshot *snap)
{
	const struct flow *flow;
	unsigned int i;

	head(to, "hpcc_flow_info", "gauge",
	     "Always 1. The labels are the response that the flow runs, and the reason of its last fallback.");
	for (i = 0; i < snap->nr_shown; i++) {
		flow = &snap->shown[i].flow;
		fprintf(to, "hpcc_flow_info{%s,mode=\"%s\",fell_back=\"%s\"} 1\n",
			snap->shown[i].labels, mode_text(flow->mode),
			fell_back_text(flow->fell_back));
	}
}

static void put_flow_came(FILE *to, const struct snapshot *snap)
{
	static const char lost[] = "hpcc_flow_telemetry_ignored_total";
	static const char came[] = "hpcc_flow_telemetry_received_total";
	unsigned int i, n;

	head(to, came, "counter", "Received options with telemetry.");
	for (i = 0; i < snap->nr_shown; i++)
		fprintf(to, "%s{%s} %u\n", came, snap->shown[i].labels,
			snap->shown[i].flow.received);
	head(to, lost, "counter", "Options (malformed) and records that were ignored.");
	for (i = 0; i < snap->nr_shown; i++)
		for (n = 0; n < NR_IGNORED; n++)
			fprintf(to, "%s{%s,reason=\"%s\"} %.0f\n", lost, snap->shown[i].labels,
				ignored[n].reason,
				member_value(&snap->shown[i].flow, ignored[n].nr));
}

/* Without a member, the value is 1 for the hop that limits the flow, and 0 for all others. */
static void put_hops(FILE *to, const struct snapshot *snap, const char *name, const char *help,
		     struct member member, double unit)
{
	const struct flow *flow;
	const struct hop *hop;
	unsigned int i;

	head(to, name, "gauge", help);
	for (i = 0; i < snap->nr_shown; i++) {
		flow = &snap->shown[i].flow;
		for (hop = flow->hop; hop < flow->hop + flow->nr_hops; hop++) {
			if (!hop->known)
				continue;
			fprintf(to, "%s{%s,hop=\"%u\"", name, snap->shown[i].labels, hop->nr);
			if (hop->named)
				fprintf(to, ",node=\"%u\",port=\"%u\"", hop->node, hop->port);
			fprintf(to, "} %.10g\n", member.kind ? member_value(hop, member) / unit :
				hop == flow_holder(flow));
		}
	}
}

static int by_labels(const void *a, const void *b)
{
	return strcmp(((const struct shown *)a)->labels, ((const struct shown *)b)->labels);
}

/* Series with equal labels make the whole text invalid. Two flows have equal ends if one of them
 * ended and the other one started during the dump.
 */
static void label_flows(struct snapshot *snap)
{
	char local[ENDPOINT_MAX], peer[ENDPOINT_MAX], bound[32] = "";
	unsigned int i, kept = 0;
	struct shown *shown;

	for (i = 0; i < snap->nr_shown; i++) {
		shown = &snap->shown[i];
		*bound = 0;
		if (shown->flow.ifindex)
			snprintf(bound, sizeof(bound), ",ifindex=\"%u\"", shown->flow.ifindex);
		snprintf(shown->labels, sizeof(shown->labels), "local=\"%s\",peer=\"%s\"%s",
			 endpoint_text(&shown->flow.local, local),
			 endpoint_text(&shown->flow.peer, peer), bound);
	}
	qsort(snap->shown, snap->nr_shown, sizeof(*snap->shown), by_labels);
	for (i = 0; i < snap->nr_shown; i++)
		if (!kept || by_labels(&snap->shown[kept - 1], &snap->shown[i]))
			snap->shown[kept++] = snap->shown[i];
	snap->nr_shown = kept;
}

static void put_flows(FILE *to, struct snapshot *snap)
{
	put_flow_modes(to, snap);
	put_flow_value(to, snap, "hpcc_flow_window_bytes", "W.", FLOW(W, NUMBER64), 1);
	put_flow_value(to, snap, "hpcc_flow_rate_bytes_per_second", "R = W/T.", FLOW(R, NUMBER64),
		       1);
	put_flow_value(to, snap, "hpcc_flow_utilization_ratio",
		       "U, the measured inflight; 1 is a full link.", FLOW(U, SHARE), 1);
	put_flow_value(to, snap, "hpcc_flow_eta_ratio", "eta, the target of U.", FLOW(eta, SHARE),
		       1);
	put_flow_value(to, snap, "hpcc_flow_base_rtt_seconds", "T.", FLOW(T_ns, NUMBER64), 1e9);
	put_flow_came(to, snap);
	put_hops(to, snap, "hpcc_flow_hop_utilization_ratio",
		 "u' of the hop's last record: queue divided by T, plus load.", HOP(u, SHARE), 1);
	put_hops(to, snap, "hpcc_flow_hop_queue_seconds", "Queue in the hop's last record.",
		 HOP(qlen_ns, NUMBER64), 1e9);
	put_hops(to, snap, "hpcc_flow_hop_record_age_seconds",
		 "Time since the hop's last record arrived.", HOP(age_us, NUMBER64), 1e6);
	put_hops(to, snap, "hpcc_flow_hop_bottleneck",
		 "1 for the hop with the largest u', which limits the flow; otherwise 0.",
		 (struct member){}, 1);
}

static bool look(struct export *export, struct snapshot *snap, FILE *counters, const char **why)
{
	struct filter all;

	filter_parse(&all, 0, NULL);
	if (export->names && !identify_request(export->mon, &all, why) && !export->complained) {
		fprintf(stderr, "without names of links: %s\n", *why);
		export->complained = true;
	}
	/* Without the module there are no counters, but there may be observed flows. */
	return (!monitor_counters(export->mon, put_counter, counters, why) || observed_any()) &&
	       !monitor_dump(export->mon, &all, flow_take, snap, why);
}

static FILE *memory(char **text, size_t *length)
{
	return allocated(open_memstream(text, length));
}

static void end_memory(FILE *file)
{
	if (fclose(file))
		die("out of memory");
}

/* The current values of all metrics, which the caller frees. After an error, @why is the message,
 * and the text contains only hpcc_up.
 */
char *metrics_text(struct export *export, size_t *length, const char **why)
{
	struct snapshot snap = { .max_shown = export->flows };
	char *text, *counted;
	size_t i, size;
	FILE *to, *counters = memory(&counted, &size);
	bool up;

	snap.shown = allocated(calloc(snap.max_shown + 1, sizeof(*snap.shown)));
	up = look(export, &snap, counters, why);
	if (up)
		*why = NULL;
	end_memory(counters);
	to = memory(&text, length);
	head(to, "hpcc_up", "gauge", "Whether tcp_hpcc is loaded, or an observer runs.");
	fprintf(to, "hpcc_up %d\n", up);
	if (up) {
		fwrite(counted, 1, size, to);
		label_flows(&snap);
		put_numbers(to, &snap);
		for (i = 0; i < NR(spreads); i++)
			put_spread(to, &snap, i);
		if (snap.max_shown)
			put_flows(to, &snap);
	}
	end_memory(to);
	free(counted);
	free(snap.shown);
	return text;
}
