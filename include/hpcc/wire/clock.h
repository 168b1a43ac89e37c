/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transmission time of bytes on a link, without a division per packet and without rounding errors
 * that add up. The error of a byte's time is at most 2^-33 ns: 1.5e-9 of the rate at 100 Gb/s. Sums
 * of packet times are exact, because times have the same 32 bits of fraction.
 */
#ifndef _HPCC_WIRE_CLOCK_H
#define _HPCC_WIRE_CLOCK_H

#include <linux/types.h>
#include <linux/math64.h>

/* A point in time or a duration. */
struct hpcc_clock {
	u64	ns;	/* wraps after 584 years */
	u32	frac;	/* 2^-32 ns */
};

/* ns per byte, Q32 (2^-32 .. 10^9 ns), for @rate bytes/s, 1 or more. */
static inline u64 hpcc_byte_time(u64 rate)
{
	/* 10^9 * 2^32 < 2^62, and rate / 2 < 2^63. */
	return div64_u64((1000000000ULL << 32) + rate / 2, rate);
}

/* Exact product, at most 2^62 ns. @byte_time: from hpcc_byte_time(). */
static inline struct hpcc_clock hpcc_link_time(u64 byte_time, u32 bytes)
{
	u64 low = (byte_time & 0xffffffffU) * bytes;
	struct hpcc_clock t = {
		.ns = (byte_time >> 32) * bytes + (low >> 32),
		.frac = (u32)low,
	};

	return t;
}

static inline struct hpcc_clock hpcc_clock_add(struct hpcc_clock a, struct hpcc_clock b)
{
	u64 frac = (u64)a.frac + b.frac;
	struct hpcc_clock t = {
		.ns = a.ns + b.ns + (frac >> 32),
		.frac = (u32)frac,
	};

	return t;
}

/* Round up to whole nanoseconds. */
static inline u64 hpcc_clock_ceil(struct hpcc_clock t)
{
	return t.ns + (t.frac ? 1 : 0);
}

#endif /* _HPCC_WIRE_CLOCK_H */
