/* SPDX-License-Identifier: GPL-2.0 */
/*
 * 64-bit arithmetic functions with the names, arguments and results of the kernel. Unlike the
 * kernel's functions, they abort if an argument is outside the range that all architectures
 * support.
 */
#ifndef _SHIM_LINUX_MATH64_H
#define _SHIM_LINUX_MATH64_H

#include <assert.h>
#include <linux/types.h>

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	assert(divisor);
	return dividend / divisor;
}

static inline u64 div64_u64_rem(u64 dividend, u64 divisor, u64 *remainder)
{
	assert(divisor);
	*remainder = dividend % divisor;
	return dividend / divisor;
}

typedef unsigned __int128 u128;

static inline u64 mul_u64_u64_shr(u64 a, u64 mul, unsigned int shift)
{
	assert(shift <= 64);
	return (u128)a * mul >> shift;
}

static inline u64 mul_u64_u32_shr(u64 a, u32 mul, unsigned int shift)
{
	assert(shift <= 32);
	return (u128)a * mul >> shift;
}

#endif /* _SHIM_LINUX_MATH64_H */
