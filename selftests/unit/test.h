/* SPDX-License-Identifier: GPL-2.0 */
/* Common part of all unit tests: cmocka, reproducible random numbers, checksums. */
#ifndef _HPCC_TEST_H
#define _HPCC_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <linux/types.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define GBIT_100	100000000000ULL

/* State of the random numbers. Each test begins with the same numbers. */
static u64 random_state;

/* splitmix64 (Steele, Lea, Flood 2014) */
static inline u64 random_u64(void)
{
	u64 z = random_state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* 0 .. limit - 1 */
static inline u64 random_below(u64 limit)
{
	return random_u64() % limit;
}

/* Return a random number of random length: each length from 0 to 64 bits is equally likely. */
static inline u64 random_magnitude(void)
{
	u32 bits = random_below(65);

	return bits ? random_u64() >> (64 - bits) : 0;
}

static inline void assert_near(long double got, long double want, long double error)
{
	if (fabsl(got - want) <= error)
		return;
	print_error("%.12Lg is not %.12Lg +- %.3Lg\n", got, want, error);
	fail();
}

/* Add the bytes to an Internet checksum's sum, which is 0xffff over a correct checksum. */
static inline u32 sum_words(u32 sum, const u8 *p, u32 len)
{
	for (u32 i = 0; i < len; i++)
		sum += i & 1 ? p[i] : p[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static struct CMUnitTest all_tests[128];
static size_t nr_tests;

#ifdef TEST_SETUP
static void TEST_SETUP(void);
#else
#define TEST_SETUP()	((void)0)
#endif

static int set_up(void **state)
{
	random_state = 2;
	TEST_SETUP();
	return 0;
}

/* TEST(name) { ... } adds a test. Tests run in the order of the file, each after TEST_SETUP. */
#define TEST(test)								\
	static void test_##test(void **state);					\
	static void __attribute__((constructor(1000 + __LINE__))) add_##test(void) \
	{									\
		all_tests[nr_tests++] = (struct CMUnitTest){			\
			.name = #test,						\
			.test_func = test_##test,				\
			.setup_func = set_up,					\
		};								\
	}									\
	static void test_##test(void **state)

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("tests", all_tests, nr_tests, NULL, NULL) ? 1 : 0;
}

#endif /* _HPCC_TEST_H */
