// SPDX-License-Identifier: GPL-2.0
/* Unit tests of <hpcc/wire/histogram.h>, in the order of its functions. */
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

TEST(hist_bucket__begins_and_ends_as_defined)
{
	for (u32 b = 0; b < HPCC_HIST_BUCKETS; b++) {
		assert_int_equal(hpcc_hist_bucket(hist_begin(b)), b);
		assert_int_equal(hpcc_hist_bucket(hist_begin(b + 1) - 1), b);
		assert_int_equal(hpcc_hist_value(b), hist_begin(b + 1) - 1);
	}
	/* the last bucket contains all longer queues */
	assert_int_equal(hpcc_hist_bucket(hist_begin(HPCC_HIST_BUCKETS)), HPCC_HIST_BUCKETS - 1);
	assert_int_equal(hpcc_hist_bucket(~0U), HPCC_HIST_BUCKETS - 1);
}
