// SPDX-License-Identifier: GPL-2.0
/* Unit tests of qdisc/tc/q_stats.c: a module that is older or newer than the plugin. */
#define _GNU_SOURCE
#include "test.h"
#include "../../qdisc/tc/q_stats.c"

/* Functions that tc exports. They add each name and value to a list instead of printing them. */
static struct {
	const char	*key;
	uint64_t	value;
} printed[400];

static unsigned int nr_printed;

int print_color_u64(enum output_type t, enum color_attr color, const char *key, const char *fmt,
		    uint64_t value)
{
	assert_true(nr_printed < ARRAY_SIZE(printed));
	printed[nr_printed].key = key;
	printed[nr_printed++].value = value;
	return 0;
}

int print_color_string(enum output_type t, enum color_attr color, const char *key,
		       const char *fmt, const char *value)
{
	return 0;
}

void tc_print_rate(enum output_type t, const char *key, const char *fmt, unsigned long long rate)
{
	print_color_u64(t, COLOR_NONE, key, fmt, rate);
}

bool is_json_context(void) { return true; }
void open_json_object(const char *str) { }
void close_json_object(void) { }
void open_json_array(enum output_type type, const char *str) { }
void close_json_array(enum output_type type, const char *delim) { }

int parse_rtattr_flags(struct rtattr *tb[], int max, struct rtattr *rta, int len,
		       unsigned short flags)
{
	memset(tb, 0, sizeof(*tb) * (max + 1));
	for (; RTA_OK(rta, len); rta = RTA_NEXT(rta, len))
		if (rta->rta_type <= max && !tb[rta->rta_type])
			tb[rta->rta_type] = rta;
	return 0;
}

/* Return the value that was printed with this name; ~0: none. */
static uint64_t value_of(const char *key)
{
	for (unsigned int i = 0; i < nr_printed; i++)
		if (printed[i].key && !strcmp(printed[i].key, key))
			return printed[i].value;
	return UINT64_MAX;
}

static union {
	struct rtattr	rta;
	char		bytes[8192];
} message;

static void put(int type, const void *data, size_t len)
{
	struct rtattr *rta = (void *)(message.bytes + RTA_ALIGN(message.rta.rta_len));

	rta->rta_type = type;
	rta->rta_len = RTA_LENGTH(len);
	memcpy(RTA_DATA(rta), data, len);
	message.rta.rta_len = RTA_ALIGN(message.rta.rta_len) + RTA_ALIGN(rta->rta_len);
}

static void begin(void)
{
	nr_printed = 0;
	memset(&message, 0, sizeof(message));
	message.rta.rta_len = RTA_LENGTH(0);
}

/* Fill an array with consecutive numbers. */
static void fill(__u64 *values, unsigned int nr, __u64 first)
{
	while (nr--)
		values[nr] = first + nr;
}

/* Print the statistics of a module with @more members and counters; negative: with fewer. */
static int print_of(int more)
{
	struct {
		struct tc_hpcc_xstats	port;
		__u64			more[4];
	} of;
	__u64 unstamped[__HPCC_UNSTAMPED_MAX + 4], hist[HPCC_HIST_BUCKETS + 4];

	begin();
	fill((__u64 *)&of, sizeof(of) / sizeof(__u64), 1);
	fill(unstamped, ARRAY_SIZE(unstamped), 100);
	fill(hist, ARRAY_SIZE(hist), 1000);
	put(TCA_HPCC_XSTATS_MAX + 1, "later", 5);
	put(TCA_HPCC_XSTATS_HIST, hist, (HPCC_HIST_BUCKETS + more) * sizeof(__u64));
	put(TCA_HPCC_XSTATS_PORT, &of, sizeof(of.port) + more * (int)sizeof(__u64));
	put(TCA_HPCC_XSTATS_UNSTAMPED, unstamped, (__HPCC_UNSTAMPED_MAX + more) * sizeof(__u64));
	return hpcc_print_xstats(NULL, NULL, &message.rta);
}

#define MEMBER(name)	(offsetof(struct tc_hpcc_xstats, name) / 8 + 1)

/* Print the statistics of a module with @more members, and check this value. */
static void check_value(int more, const char *key, uint64_t want)
{
	assert_int_equal(print_of(more), 0);
	assert_int_equal(value_of(key), want);
}

TEST(hpcc_print_xstats__versions)
{
	check_value(0, "tx_bytes", 1);
	check_value(0, "off", 100);
	check_value(0, "no_memory", 100 + HPCC_UNSTAMPED_NO_MEMORY);
	check_value(0, "other", UINT64_MAX);
	check_value(0, "packets", 1000);
	check_value(0, "responses_failed", MEMBER(responses_failed));
	/* a newer module */
	check_value(2, "off", 100);
	check_value(2, "other", 2 * (100 + __HPCC_UNSTAMPED_MAX) + 1);
	check_value(2, "drop_limit", MEMBER(drop_limit));
	/* an older module */
	check_value(-1, "tx_bytes", 1);
	check_value(-1, "off", 100);
	check_value(-1, reasons[__HPCC_UNSTAMPED_MAX - 1], 0);
	check_value(-1, "packets", 1000);
}

/* A structure without attributes, which the first modules sent, and data without any attribute. */
TEST(hpcc_print_xstats__no_attributes)
{
	__u64 flat[186];

	begin();
	fill(flat, ARRAY_SIZE(flat), 1);
	memcpy(RTA_DATA(&message.rta), flat, sizeof(flat));
	message.rta.rta_len = RTA_LENGTH(sizeof(flat));
	assert_int_equal(hpcc_print_xstats(NULL, NULL, &message.rta), -1);
	begin();
	assert_int_equal(hpcc_print_xstats(NULL, NULL, &message.rta), -1);
	assert_int_equal(nr_printed, 0);
	assert_int_equal(hpcc_print_xstats(NULL, NULL, NULL), 0);
}
