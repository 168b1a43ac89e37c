/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common code of the fuzz targets. A target is one function, which libFuzzer calls with an input
 * of any bytes. The function takes numbers from the start of the input, and aborts if the code
 * under test does not give the expected result.
 */
#ifndef _HPCC_FUZZ_H
#define _HPCC_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/types.h>
#include <linux/minmax.h>

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

#define expect(condition) do {						\
	if (!(condition))						\
		fuzz_failed(#condition, __FILE__, __LINE__);		\
} while (0)

static inline void fuzz_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: wrong: %s\n", file, line, condition);
	abort();
}

struct fuzz_input {
	const u8 *p;
	size_t size;
};

/* The next bytes as a little endian number; 0 after the end. */
static inline u64 fuzz_take(struct fuzz_input *in, unsigned int bytes)
{
	unsigned int i, n = min_t(size_t, bytes, in->size);
	u64 v = 0;

	for (i = 0; i < n; i++)
		v |= (u64)in->p[i] << 8 * i;
	in->p += n;
	in->size -= n;
	return v;
}

/* A number of 1 to 8 bytes. The byte in front of the number contains its length. */
static inline u64 fuzz_take_any(struct fuzz_input *in)
{
	return fuzz_take(in, 1 + fuzz_take(in, 1) % 8);
}

/* A copy of exactly @n bytes, so that ASan detects reads beyond the end. */
static inline u8 *fuzz_copy(const u8 *p, size_t n)
{
	u8 *copy = malloc(n);

	if (!copy)
		abort();
	if (n)
		memcpy(copy, p, n);
	return copy;
}

#endif /* _HPCC_FUZZ_H */
