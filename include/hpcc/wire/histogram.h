/* SPDX-License-Identifier: GPL-2.0 */
/* Buckets of the queue length histogram; HPCC_HIST_* of include/uapi/linux/hpcc.h defines them. */
#ifndef _HPCC_WIRE_HISTOGRAM_H
#define _HPCC_WIRE_HISTOGRAM_H

#include <linux/bitops.h>
#include <linux/hpcc.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* The bucket, 0 .. HPCC_HIST_BUCKETS - 1, of a queue of @bytes. */
static inline u32 hpcc_hist_bucket(u32 bytes)
{
	u32 v = bytes / HPCC_HIST_UNIT;
	u32 shift = fls(v / (2 * HPCC_HIST_SUB));

	/* From octave 1 on, v >> shift is at least HPCC_HIST_SUB; shift is octave - 1. */
	return min_t(u32, shift * HPCC_HIST_SUB + (v >> shift), HPCC_HIST_BUCKETS - 1);
}

/* Largest queue length in a bucket, bytes. The last bucket also contains all longer queues. */
static inline u64 hpcc_hist_value(u32 bucket)
{
	u32 octave = bucket / HPCC_HIST_SUB;
	u64 m = bucket % HPCC_HIST_SUB;

	if (!octave)
		return (m + 1) * HPCC_HIST_UNIT - 1;
	return ((HPCC_HIST_SUB + m + 1) << (octave - 1)) * HPCC_HIST_UNIT - 1;
}

#endif /* _HPCC_WIRE_HISTOGRAM_H */
