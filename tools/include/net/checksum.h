/* SPDX-License-Identifier: GPL-2.0 */
/* The Internet checksum with the kernel's contracts: a sum is in host byte order, and is folded
 * only for the final checksum.
 */
#ifndef _SHIM_NET_CHECKSUM_H
#define _SHIM_NET_CHECKSUM_H

#include <linux/types.h>
#include <linux/unaligned.h>

static inline __wsum csum_add(__wsum a, __wsum b)
{
	u32 sum = a + b;

	return sum + (sum < b);
}

static inline __wsum csum_sub(__wsum a, __wsum b)
{
	return csum_add(a, ~b);
}

/* Only an even number of bytes is supported. */
static inline __wsum csum_partial(const void *buff, int len, __wsum sum)
{
	const u8 *p = buff;
	int i;

	for (i = 0; i + 1 < len; i += 2)
		sum = csum_add(sum, get_unaligned((const u16 *)(p + i)));
	return sum;
}

static inline __sum16 csum_fold(__wsum sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static inline void csum_replace_by_diff(__sum16 *sum, __wsum diff)
{
	*sum = csum_fold(csum_add(diff, ~(__wsum)*sum));
}

#endif /* _SHIM_NET_CHECKSUM_H */
