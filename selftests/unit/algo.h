/* SPDX-License-Identifier: GPL-2.0 */
/* Common part of the tests of <hpcc/law/algo.h>: a connection and its samples. */
#ifndef HPCC_TEST_ALGO_H
#define HPCC_TEST_ALGO_H

#include "test.h"
#include <draft.h>

#define ONE	((u64)HPCC_ONE_Q24)
#define ETA	((u32)(0.95 * HPCC_ONE_Q24))
#define BYTES(n) ((u64)(n) << HPCC_W_BITS)

/* 100 Gbit/s and 10 us, in ns; W_ai = 62.5 bytes. */
static const u64 T_NS = 10000;
static const u32 W_INIT = 125000;
static const u32 W_MIN = 125;

static inline struct hpcc_params params(u32 max_stage)
{
	struct hpcc_params p;

	hpcc_params_init(&p, T_NS, BYTES(W_INIT), BYTES(W_MIN), BYTES(125) / 2, ETA, max_stage);
	return p;
}

/* Return an array of links, all 0, on the heap for ASan. It is freed after 8 more calls. */
static inline struct hpcc_link *new_links(u32 nr)
{
	static struct hpcc_link *links[8];
	static u32 at;
	struct hpcc_link **L = &links[at++ % 8];

	free(*L);
	*L = calloc(nr, sizeof(**L));
	assert_non_null(*L);
	return *L;
}

/* Return a new connection, with links for the longest path. */
static inline struct hpcc_algo begun(const struct hpcc_params *p)
{
	struct hpcc_algo a;

	memset(&a, 0xff, sizeof(a));
	hpcc_algo_init(&a, p);
	hpcc_algo_links(&a, new_links(HPCC_HOPS_MAX), HPCC_HOPS_MAX);
	return a;
}

/* Return a copy of a connection, with a copy of its links. */
static inline struct hpcc_algo copy_of(const struct hpcc_algo *a)
{
	struct hpcc_algo copy = *a;

	copy.L = new_links(a->nr);
	memcpy(copy.L, a->L, a->nr * sizeof(*a->L));
	return copy;
}

/* Check that both connections and their links are equal, and in different arrays. */
static inline void assert_equal(const struct hpcc_algo *a, const struct hpcc_algo *b)
{
	struct hpcc_algo copy = *a;

	assert_ptr_not_equal(a->L, b->L);
	assert_int_equal(a->nr, b->nr);
	assert_memory_equal(a->L, b->L, a->nr * sizeof(*a->L));
	copy.L = b->L;
	assert_memory_equal(&copy, b, sizeof(copy));
}

/* Return a connection that has processed its first ACK, of bytes 0 .. 999. */
static inline struct hpcc_algo started(const struct hpcc_params *p)
{
	const struct hpcc_sample s = { .hop = 1, .tag = 7, .ts = 1000000, .tx = 500000 };
	struct hpcc_algo a = begun(p);

	assert_int_equal(hpcc_new_ack(&a, p, &s, 1, 1000, 100000),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW | HPCC_ACK_FIRST);
	return a;
}

/* Return the next sample of this hop. */
static inline struct hpcc_sample next(const struct hpcc_algo *a, u8 hop, u64 dts, u64 dtx, u64 qlen)
{
	const struct hpcc_link *l = &a->L[hop - 1];

	return (struct hpcc_sample){ hop, l->tag, l->ts + dts, l->tx + dtx, qlen };
}

static inline u64 U_q44(const struct hpcc_algo *a)
{
	return a->U_q24 << HPCC_U_LOW_BITS | a->U_low;
}

static inline long double U_of(const struct hpcc_algo *a)
{
	return ldexpl(U_q44(a), -HPCC_FRAC_BITS - HPCC_U_LOW_BITS);
}

static inline void set_U(struct hpcc_algo *a, u64 U_q24)
{
	a->U_q24 = U_q24;
	a->U_low = 0;
}

#endif /* HPCC_TEST_ALGO_H */
