// SPDX-License-Identifier: GPL-2.0
/* Unit tests of <hpcc/wire/histogram.h>, in its order. */
#include "test.h"
#include <hpcc/wire/histogram.h>

/* First length in a bucket, as the uapi header defines it. */
static u64 hist_begin(u32 bucket)
{
	u32 octave = bucket / HPCC_HIST_SUB, m = bucket % HPCC_HIST_SUB;

	if (!octave)
		return (u64)bucket * HPCC_HIST_UNIT;
	return ((u64)(HPCC_HIST_SUB + m) << (octave - 1)) * HPCC_HIST_UNIT;
}

static void hist_bucket__begins_and_ends_as_defined(void **state)
{
	u32 b;

	for (b = 0; b < HPCC_HIST_BUCKETS; b++) {
		assert_int_equal(hpcc_hist_bucket(hist_begin(b)), b);
		assert_int_equal(hpcc_hist_bucket(hist_begin(b + 1) - 1), b);
	}
}

static void hist_bucket__never_falls(void **state)
{
	u32 bytes = 0, before = 0;

	for (;;) {
		u32 bucket = hpcc_hist_bucket(bytes);

		assert_true(bucket < HPCC_HIST_BUCKETS);
		assert_true(bucket == before || bucket == before + 1);
		before = bucket;
		if (bytes > ~0U - 61 - bytes / 1000)
			break;
		bytes += 61 + bytes / 1000;
	}
	assert_int_equal(before, HPCC_HIST_BUCKETS - 1);
}

static void hist_bucket__last_holds_whatever_is_longer(void **state)
{
	assert_int_equal(hpcc_hist_bucket(hist_begin(HPCC_HIST_BUCKETS)),
			 HPCC_HIST_BUCKETS - 1);
	assert_int_equal(hpcc_hist_bucket(~0U), HPCC_HIST_BUCKETS - 1);
}

static void hist_value__largest_of_its_bucket(void **state)
{
	u32 b;

	for (b = 0; b < HPCC_HIST_BUCKETS; b++) {
		u64 value = hpcc_hist_value(b);

		assert_true(value == hist_begin(b + 1) - 1);
		assert_int_equal(hpcc_hist_bucket(value), b);
	}
}

static void hist_value__within_an_eighth(void **state)
{
	u32 b;

	for (b = HPCC_HIST_SUB; b < HPCC_HIST_BUCKETS; b++)
		assert_true((hpcc_hist_value(b) - hist_begin(b)) * HPCC_HIST_SUB <
			    hist_begin(b));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(hist_bucket__begins_and_ends_as_defined),
		cmocka_unit_test(hist_bucket__never_falls),
		cmocka_unit_test(hist_bucket__last_holds_whatever_is_longer),
		cmocka_unit_test(hist_value__largest_of_its_bucket),
		cmocka_unit_test(hist_value__within_an_eighth),
	};

	return hpcc_run_tests(tests);
}
