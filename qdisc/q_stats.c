// SPDX-License-Identifier: GPL-2.0
/* The tc plugin: statistics of the qdisc "hpcc". */
#include <string.h>
#include <hpcc/histogram.h>

#include "q_hpcc.h"

static const char * const reasons[__HPCC_UNSTAMPED_MAX] = {
	[HPCC_UNSTAMPED_OFF]		= "off",
	[HPCC_UNSTAMPED_NOT_TCP]	= "not_tcp",
	[HPCC_UNSTAMPED_FRAGMENT]	= "fragment",
	[HPCC_UNSTAMPED_NO_OPTION]	= "no_option",
	[HPCC_UNSTAMPED_MALFORMED]	= "malformed",
	[HPCC_UNSTAMPED_FULL]		= "full",
	[HPCC_UNSTAMPED_PHASE]		= "phase",
	[HPCC_UNSTAMPED_NO_MEMORY]	= "no_memory",
};

/* The queue length that @permille of all departing packets left or were under:
 * the upper end of the histogram's bucket. No packet is as short as what the
 * first bucket spans, so that means an empty queue.
 */
static __u64 percentile(const struct tc_hpcc_xstats *st, unsigned int permille)
{
	__u64 total = 0, sum = 0, rank, value;
	__u32 b;

	for (b = 0; b < HPCC_HIST_BUCKETS; b++)
		total += st->hist[b];
	rank = total / 1000 * permille + (total % 1000 * permille + 999) / 1000;
	for (b = 0; b < HPCC_HIST_BUCKETS - 1; b++) {
		sum += st->hist[b];
		if (sum >= rank)
			break;
	}
	value = b ? hpcc_hist_value(b) : 0;
	return value < st->qlen_max_bytes ? value : st->qlen_max_bytes;
}

static void print_unstamped(const struct tc_hpcc_xstats *st)
{
	__u64 total = st->quiet;
	int i;

	for (i = 0; i < __HPCC_UNSTAMPED_MAX; i++)
		total += st->unstamped[i];
	if (is_json_context()) {
		open_json_object("unstamped");
		for (i = 0; i < __HPCC_UNSTAMPED_MAX; i++)
			print_u64(reasons[i], NULL, st->unstamped[i]);
		print_u64("quiet", NULL, st->quiet);
		close_json_object();
		return;
	}
	print_u64(NULL, " unstamped %llu", total);
	if (st->quiet)
		print_u64(NULL, " quiet %llu", st->quiet);
	for (i = 0; i < __HPCC_UNSTAMPED_MAX; i++) {
		if (!st->unstamped[i])
			continue;
		print_text(" %s", reasons[i]);
		print_u64(NULL, " %llu", st->unstamped[i]);
	}
}

/* Buckets that are not empty, by the longest queue each holds. */
static void print_histogram(const struct tc_hpcc_xstats *st)
{
	__u32 b;

	open_json_array(PRINT_JSON, "hist");
	for (b = 0; b < HPCC_HIST_BUCKETS; b++) {
		if (!st->hist[b])
			continue;
		open_json_object(NULL);
		print_u64("bytes", NULL, hpcc_hist_value(b));
		print_u64("packets", NULL, st->hist[b]);
		close_json_object();
	}
	close_json_array(PRINT_JSON, NULL);
}

/* Print TCA_STATS_APP. Returns 0 or -1. */
int hpcc_print_xstats(struct qdisc_util *qu, FILE *f, struct rtattr *xstats)
{
	struct tc_hpcc_xstats st;

	if (!xstats)
		return 0;
	if (RTA_PAYLOAD(xstats) < sizeof(st)) {
		fprintf(stderr, "hpcc: module and tc plugin are of different versions\n");
		return -1;
	}
	memcpy(&st, RTA_DATA(xstats), sizeof(st));

	open_json_object("hpcc");
	tc_print_rate(PRINT_ANY, "bandwidth", "  link %s", st.bandwidth);
	print_u64("tx_bytes", " sent %llu wire bytes", st.tx_bytes);
	print_u64("tx_packets", " %llu pkt\n", st.tx_packets);
	print_u64("stamped", "  stamped %llu", st.stamped);
	print_unstamped(&st);
	/* Of a port by itself it would repeat what stands below. */
	if (st.port_queues > 1) {
		print_u64("port_queues", "\n  port of %llu queues", st.port_queues);
		print_u64("port_qlen", " %llub", st.port_qlen_bytes);
	}
	print_u64("qlen", "\n  queue %llub", st.qlen_bytes);
	print_u64("qlen_p50", " p50 %llub", percentile(&st, 500));
	print_u64("qlen_p95", " p95 %llub", percentile(&st, 950));
	print_u64("qlen_p99", " p99 %llub", percentile(&st, 990));
	print_u64("qlen_p999", " p99.9 %llub", percentile(&st, 999));
	print_u64("qlen_max", " max %llub", st.qlen_max_bytes);
	print_u64("drop_limit", "\n  dropped limit %llu", st.drop_limit);
	print_u64("drop_limit_ect", " (ect %llu)", st.drop_limit_ect);
	print_u64("drop_knonect", " knonect %llu", st.drop_knonect);
	print_u64("drop_gso", " gso %llu", st.drop_gso);
	print_u64("resyncs", " resyncs %llu", st.resyncs);
	print_u64("marked", "\n  marked %llu", st.marked);
	print_u64("marked_p", " p %llu", st.marked - st.marked_kmax);
	print_u64("marked_kmax", " kmax %llu", st.marked_kmax);
	print_u64("mark_failed", " failed %llu", st.mark_failed);
	print_u64("responses", "\n  responses %llu", st.responses);
	print_u64("responses_held", " held %llu", st.responses_held);
	print_u64("responses_lost", " lost %llu", st.responses_lost);
	print_u64("responses_failed", " failed %llu", st.responses_failed);
	if (is_json_context())
		print_histogram(&st);
	close_json_object();
	return 0;
}
