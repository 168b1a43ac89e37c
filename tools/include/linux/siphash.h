/* SPDX-License-Identifier: GPL-2.0 */
/* SipHash-2-4 (Aumasson, Bernstein 2012) as in the kernel. */
#ifndef _HPCC_TOOLS_SIPHASH_H
#define _HPCC_TOOLS_SIPHASH_H

#include <linux/types.h>

typedef struct {
	u64 key[2];
} siphash_key_t;

static inline u64 siphash_rotate(u64 x, int n)
{
	return x << n | x >> (64 - n);
}

static inline void siphash_rounds(u64 v[4], int rounds)
{
	while (rounds--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = siphash_rotate(v[1], 13) ^ v[0];
		v[3] = siphash_rotate(v[3], 16) ^ v[2];
		v[0] = siphash_rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = siphash_rotate(v[1], 17) ^ v[2];
		v[3] = siphash_rotate(v[3], 21) ^ v[0];
		v[2] = siphash_rotate(v[2], 32);
	}
}

static inline u64 siphash(const void *data, size_t len, const siphash_key_t *key)
{
	u64 v[4] = {
		key->key[0] ^ 0x736f6d6570736575ULL, key->key[1] ^ 0x646f72616e646f6dULL,
		key->key[0] ^ 0x6c7967656e657261ULL, key->key[1] ^ 0x7465646279746573ULL,
	};
	const u8 *p = data;
	u64 word = 0;
	size_t i;

	for (i = 0; i <= len; i++) {
		if (i == len)
			word |= (u64)len << 56;
		else
			word |= (u64)p[i] << i % 8 * 8;
		if (i % 8 != 7 && i != len)
			continue;
		v[3] ^= word;
		siphash_rounds(v, 2);
		v[0] ^= word;
		word = 0;
	}
	v[2] ^= 0xff;
	siphash_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif /* _HPCC_TOOLS_SIPHASH_H */
