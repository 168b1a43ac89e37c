// SPDX-License-Identifier: GPL-2.0
/* The tc plugin: statistics of the qdisc "hpcc". */
#include <string.h>
#include <hpcc/wire/histogram.h>

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
	[HPCC_UNSTAMPED_ENCRYPTED]	= "encrypted",
	[HPCC_UNSTAMPED_NESTED]		= "nested",
};

/* Statistics of a module, perhaps of another version: missing counters are 0. */
struct stats {
	struct tc_hpcc_xstats	port;
	__u64			unstamped[__HPCC_UNSTAMPED_MAX];
	__u64			other;	/* reasons without a name here */
	__u64			hist[HPCC_HIST_BUCKETS];
};

/* The queue length that @permille of all packets did not exceed at departure: the upper end of a
 * bucket. The first bucket is narrower than any packet, so it means an empty queue.
 */
static __u64 percentile(const struct stats *st, unsigned int permille)
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
	return value < st->port.qlen_max_bytes ? value : st->port.qlen_max_bytes;
}

static void print_unstamped(const struct stats *st)
{
	__u64 total = st->port.quiet + st->other;
	int i;

	for (i = 0; i < __HPCC_UNSTAMPED_MAX; i++)
		total += st->unstamped[i];
	if (is_json_context()) {
		open_json_object("unstamped");
		for (i = 0; i < __HPCC_UNSTAMPED_MAX; i++)
			print_u64(reasons[i], NULL, st->unstamped[i]);
		if (st->other)
			print_u64("other", NULL, st->other);
		print_u64("quiet", NULL, st->port.quiet);
		close_json_object();
		return;
	}
	print_u64(NULL, " unstamped %llu", total);
	if (st->port.quiet)
		print_u64(NULL, " quiet %llu", st->port.quiet);
	for (i = 0; i < __HPCC_UNSTAMPED_MAX; i++) {
		if (!st->unstamped[i])
			continue;
		print_text(" %s", reasons[i]);
		print_u64(NULL, " %llu", st->unstamped[i]);
	}
	if (st->other)
		print_u64(NULL, " other %llu", st->other);
}

static void print_histogram(const struct stats *st)
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

/* Copy the part of an attribute that both versions have. */
static void take(void *to, size_t size, struct rtattr *attr)
{
	if (attr && RTA_PAYLOAD(attr) < size)
		size = RTA_PAYLOAD(attr);
	if (attr)
		memcpy(to, RTA_DATA(attr), size);
}

/* The sum of counters that a later version has after ours. */
static __u64 sum_behind(struct rtattr *attr, size_t size)
{
	__u64 sum = 0, one;

	for (; attr && size + sizeof(one) <= RTA_PAYLOAD(attr); size += sizeof(one)) {
		memcpy(&one, (char *)RTA_DATA(attr) + size, sizeof(one));
		sum += one;
	}
	return sum;
}

/* Returns false if a required attribute is missing: the module has another version. */
static bool parse_stats(struct rtattr *xstats, struct stats *st)
{
	struct rtattr *tb[TCA_HPCC_XSTATS_MAX + 1];

	parse_rtattr_flags(tb, TCA_HPCC_XSTATS_MAX, RTA_DATA(xstats), RTA_PAYLOAD(xstats), 0);
	take(&st->port, sizeof(st->port), tb[TCA_HPCC_XSTATS_PORT]);
	take(st->unstamped, sizeof(st->unstamped), tb[TCA_HPCC_XSTATS_UNSTAMPED]);
	st->other = sum_behind(tb[TCA_HPCC_XSTATS_UNSTAMPED], sizeof(st->unstamped));
	take(st->hist, sizeof(st->hist), tb[TCA_HPCC_XSTATS_HIST]);
	return tb[TCA_HPCC_XSTATS_PORT] && tb[TCA_HPCC_XSTATS_UNSTAMPED];
}

int hpcc_print_xstats(struct qdisc_util *qu, FILE *f, struct rtattr *xstats)
{
	struct stats all = {};
	const struct tc_hpcc_xstats *st = &all.port;

	if (!xstats)
		return 0;
	if (!parse_stats(xstats, &all)) {
		fprintf(stderr, "hpcc: module and tc plugin are of different versions\n");
		return -1;
	}

	open_json_object("hpcc");
	tc_print_rate(PRINT_ANY, "bandwidth", "  link %s", st->bandwidth);
	print_u64("tx_bytes", " sent %llu wire bytes", st->tx_bytes);
	print_u64("tx_packets", " %llu pkt\n", st->tx_packets);
	print_u64("stamped", "  stamped %llu", st->stamped);
	print_unstamped(&all);
	/* If the port has one queue, these values would repeat the values below. */
	if (st->port_queues > 1) {
		print_u64("port_queues", "\n  port of %llu queues", st->port_queues);
		print_u64("port_qlen", " %llub", st->port_qlen_bytes);
	}
	print_u64("qlen", "\n  queue %llub", st->qlen_bytes);
	print_u64("qlen_p50", " p50 %llub", percentile(&all, 500));
	print_u64("qlen_p95", " p95 %llub", percentile(&all, 950));
	print_u64("qlen_p99", " p99 %llub", percentile(&all, 990));
	print_u64("qlen_p999", " p99.9 %llub", percentile(&all, 999));
	print_u64("qlen_max", " max %llub", st->qlen_max_bytes);
	print_u64("drop_limit", "\n  dropped limit %llu", st->drop_limit);
	print_u64("drop_limit_ect", " (ect %llu)", st->drop_limit_ect);
	print_u64("drop_knonect", " knonect %llu", st->drop_knonect);
	print_u64("drop_gso", " gso %llu", st->drop_gso);
	print_u64("resyncs", " resyncs %llu", st->resyncs);
	print_u64("marked", "\n  marked %llu", st->marked);
	print_u64("marked_p", " p %llu", st->marked - st->marked_kmax);
	print_u64("marked_kmax", " kmax %llu", st->marked_kmax);
	print_u64("mark_failed", " failed %llu", st->mark_failed);
	print_u64("responses", "\n  responses %llu", st->responses);
	print_u64("responses_held", " held %llu", st->responses_held);
	print_u64("responses_lost", " lost %llu", st->responses_lost);
	print_u64("responses_failed", " failed %llu", st->responses_failed);
	if (is_json_context() || st->quantized || st->stripped || st->border_failed) {
		print_u64("quantized", "\n  border quantized %llu", st->quantized);
		print_u64("stripped", " stripped %llu", st->stripped);
		print_u64("border_failed", " failed %llu", st->border_failed);
	}
	if (is_json_context())
		print_histogram(&all);
	close_json_object();
	return 0;
}
