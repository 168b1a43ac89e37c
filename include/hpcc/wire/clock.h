/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transmission time of bytes on a link, without a division per packet and
 * without rounding errors that add up.
 *
 * A link of r bytes/s needs 10^9 / r ns per byte. This time is stored as Q32
 * (u64, range 2^-32 .. 10^9 ns), rounded to the nearest value: the error is at
 * most 2^-33 ns per byte, which is 1.5e-9 of the rate at 100 Gb/s. Times have
 * the same 32 bits of fraction, so sums of packet times are exact.
 */
#ifndef _HPCC_WIRE_CLOCK_H
#define _HPCC_WIRE_CLOCK_H

#include <linux/types.h>
#include <linux/math64.h>

/**
 * struct hpcc_clock - a point in time or a duration
 * @ns: whole nanoseconds; wraps after 584 years
 * @frac: 2^-32 ns
 */
struct hpcc_clock {
	u64	ns;
	u32	frac;
};

/**
 * hpcc_byte_time() - transmission time of a byte
 * @rate: link rate in bytes/s, 1 or more
 *
 * Return: ns per byte, Q32.
 */
static inline u64 hpcc_byte_time(u64 rate)
{
	/* 10^9 * 2^32 < 2^62, and rate / 2 < 2^63. */
	return div64_u64((1000000000ULL << 32) + rate / 2, rate);
}

/**
 * hpcc_link_time() - transmission time of several bytes
 * @byte_time: from hpcc_byte_time(), under 2^62
 * @bytes: number of bytes
 *
 * Return: exact product; at most 2^62 ns.
 */
static inline struct hpcc_clock hpcc_link_time(u64 byte_time, u32 bytes)
{
	u64 low = (byte_time & 0xffffffffU) * bytes;
	struct hpcc_clock t = {
		.ns = (byte_time >> 32) * bytes + (low >> 32),
		.frac = (u32)low,
	};

	return t;
}

/**
 * hpcc_clock_add() - add a duration to a point in time
 * @a: point in time
 * @b: duration
 */
static inline struct hpcc_clock hpcc_clock_add(struct hpcc_clock a,
					       struct hpcc_clock b)
{
	u64 frac = (u64)a.frac + b.frac;
	struct hpcc_clock t = {
		.ns = a.ns + b.ns + (frac >> 32),
		.frac = (u32)frac,
	};

	return t;
}

/**
 * hpcc_clock_ceil() - round a point in time up to whole nanoseconds
 * @t: point in time
 */
static inline u64 hpcc_clock_ceil(struct hpcc_clock t)
{
	return t.ns + (t.frac ? 1 : 0);
}

#endif /* _HPCC_WIRE_CLOCK_H */
