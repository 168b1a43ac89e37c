// SPDX-License-Identifier: GPL-2.0
/* Unit tests of <hpcc/wire/sign.h>, in the order of its functions. */
#include <errno.h>

#include "test.h"
#include <hpcc/wire/sign.h>

enum { KIND = HPCC_OPT_KIND_DEFAULT, OPTS_MAX = 40 };

static const siphash_key_t KEY = { { 0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL } };

/* Write an option with @nr random records. Return: its length. */
static u32 put_option(u8 *p, u8 type, u8 nr)
{
	const struct hpcc_opt opt = { .type = type, .nr = nr, .hops = nr };

	hpcc_opt_encode(p, KIND, &opt);
	for (u32 i = 0; i < nr; i++)
		put_unaligned_be64(random_u64(), p + hpcc_opt_len(i));
	return hpcc_opt_len(nr);
}

/* Sign the feedback of a segment at @at. Return: the new length of its options. */
static u32 sign(u8 *opts, u32 at, u32 len, const struct hpcc_moment *m, const siphash_key_t *key)
{
	struct hpcc_signed s;

	hpcc_signed_begin(&s, m);
	hpcc_signed_write(&s, opts + at, len - at, m->count, key);
	return len + HPCC_TAG_LEN;
}

/* Whether the tag of the options is right for a position and TSval. */
static bool is_right(const u8 *opts, u32 at, u32 len, const struct hpcc_moment *m,
		     const siphash_key_t *key)
{
	u8 *copy = malloc(len), count;
	struct hpcc_signed s;
	bool right;
	int tag;

	/* On the heap, so that ASan detects a read beyond the end. */
	memcpy(copy, opts, len);
	hpcc_signed_begin(&s, m);
	tag = hpcc_signed_collect(&s, copy, len, at, KIND, &count);
	right = tag >= 0 && count == m->count &&
		hpcc_signed_tag(&s, key) == get_unaligned_be32(copy + tag);
	free(copy);
	return right;
}

/* The first values of the reference's vectors. */
TEST(siphash__reference)
{
	static const u64 want[] = {
		0x726fdb47dd0e0e31ULL, 0x74f839c593dc67fdULL, 0x0d6c8009d9a94f5aULL,
		0x85676696d7fb7e2dULL, 0xcf2794e0277187b7ULL, 0x18765564cd99a68dULL,
		0xcbc9466e58fee3ceULL, 0xab0200f58b01d137ULL, 0x93f5f5799a932462ULL,
	};
	u8 in[ARRAY_SIZE(want)];

	for (u32 i = 0; i < ARRAY_SIZE(want); i++) {
		in[i] = i;
		assert_int_equal(siphash(in, i, &KEY), want[i]);
	}
}

TEST(opt_has_tag__lengths)
{
	for (u32 len = 0; len < 256; len++)
		assert_int_equal(hpcc_opt_has_tag(len), len >= 16 && len % 8 == 0);
}

TEST(opt_is_feedback__types)
{
	u8 p[12];

	for (u32 type = 0; type < 8; type++) {
		p[2] = type << 5;
		assert_int_equal(hpcc_opt_is_feedback(p, 12), type == HPCC_OPT_ECHO ||
				 type == HPCC_OPT_IDENTIFY_ECHO || type == HPCC_OPT_REPORT);
		assert_false(hpcc_opt_is_feedback(p, 3));
	}
}

/* A segment with a tag of known bytes: other implementations compare with it. */
TEST(signed_write__known)
{
	const struct hpcc_moment m = { .pos = 0x123456789ULL, .tsval = 77, .count = 5 };
	u8 opts[OPTS_MAX] = { KIND, 12, HPCC_OPT_ECHO << 5 | 7, 1 << 4, 0x10, 1, 2, 3, 4, 5, 6, 7 };

	assert_int_equal(sign(opts, 0, 12, &m, &KEY), 16);
	assert_int_equal(opts[1], 16);
	assert_int_equal(opts[3], 0x15);
	assert_int_equal(get_unaligned_be32(opts + 12), 0x57a24461);
	assert_true(is_right(opts, 0, 16, &m, &KEY));
}

/* Every layout that fits: each bit that is covered matters, and none of the others. */
TEST(signed_collect__each_bit)
{
	static const struct { u8 request, echo, report; } layouts[] = {
		{ 0, 1, 0 }, { 0, 2, 0 }, { 0, 4, 0 }, { 1, 1, 0 }, { 0, 1, 1 }, { 0, 2, 1 },
		{ 1, 0, 1 }, { 0, 0, 2 }, { 1, 1, 1 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(layouts); i++) {
		struct hpcc_moment m = { random_u64(), random_u64(), i }, wrong = m;
		u32 at, len = 0;
		u8 opts[OPTS_MAX + HPCC_TAG_LEN];

		if (layouts[i].request)
			len += put_option(opts, HPCC_OPT_FORWARD, layouts[i].request);
		at = len;
		if (layouts[i].echo)
			len += put_option(opts + len, HPCC_OPT_ECHO, layouts[i].echo);
		if (layouts[i].report)
			len += put_option(opts + len, HPCC_OPT_REPORT, layouts[i].report);
		if (len > OPTS_MAX - HPCC_TAG_LEN)
			continue;
		len = sign(opts, at, len, &m, &KEY);
		assert_true(is_right(opts, at, len, &m, &KEY));
		for (u32 bit = 0; bit < 8 * len; bit++) {
			opts[bit / 8] ^= 1 << bit % 8;
			/* Switches change requests. */
			if (bit / 8 >= at || bit / 8 > 1)
				assert_int_equal(is_right(opts, at, len, &m, &KEY), bit / 8 < at);
			opts[bit / 8] ^= 1 << bit % 8;
		}
		wrong.pos ^= 1ULL << 32;
		assert_false(is_right(opts, at, len, &wrong, &KEY));
		wrong = m;
		wrong.tsval++;
		assert_false(is_right(opts, at, len, &wrong, &KEY));
	}
}

/* No tag, a tag that is not the last one, malformed options. */
TEST(signed_collect__errors)
{
	const struct hpcc_moment m = {};
	u8 opts[OPTS_MAX];
	struct hpcc_signed s;
	u8 count;
	u32 len;

	hpcc_signed_begin(&s, &m);
	len = put_option(opts, HPCC_OPT_ECHO, 1);
	assert_int_equal(hpcc_signed_collect(&s, opts, len, 0, KIND, &count), -ENOENT);
	len = sign(opts, 0, len, &m, &KEY);
	len += put_option(opts + len, HPCC_OPT_REPORT, 1);
	hpcc_signed_begin(&s, &m);
	assert_int_equal(hpcc_signed_collect(&s, opts, len, 0, KIND, &count), -EINVAL);
	opts[1] = 1;
	hpcc_signed_begin(&s, &m);
	assert_int_equal(hpcc_signed_collect(&s, opts, len, 0, KIND, &count), -EINVAL);
}

/* 10^6 random tags, options and positions: 2^-32 for each try, so none is right. */
TEST(signed_collect__forged)
{
	const struct hpcc_moment m = { .pos = 1000000, .tsval = 5 };
	u8 opts[OPTS_MAX];
	u32 right = 0;

	for (u32 i = 0; i < 1000000; i++) {
		u32 len = sign(opts, 0, put_option(opts, HPCC_OPT_ECHO, 1), &m, &KEY);

		put_unaligned_be32(random_u64(), opts + len - HPCC_TAG_LEN);
		right += is_right(opts, 0, len, &m, &KEY);
	}
	assert_int_equal(right, 0);
}

/* Keys differ by each ISN, the direction and the role. */
TEST(sign_key__differs)
{
	static const struct { u32 isn[2]; bool active; } cases[] = {
		{ { 1, 2 }, false }, { { 1, 2 }, true }, { { 2, 1 }, false }, { { 2, 1 }, true },
		{ { 1, 1 }, false }, { { 1, 1 }, true }, { { 0, 2 }, false }, { { 1, 0 }, true },
	};
	siphash_key_t keys[ARRAY_SIZE(cases)];

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		keys[i] = hpcc_sign_key(&KEY, cases[i].isn, cases[i].active);
		assert_true(keys[i].key[0] != keys[i].key[1]);
		for (u32 j = 0; j < i; j++)
			assert_true(keys[i].key[0] != keys[j].key[0] &&
				    keys[i].key[1] != keys[j].key[1]);
	}
}

/* The position comes first and never wraps; TSval wraps. */
TEST(moment_cmp__order)
{
	static const struct hpcc_moment ordered[] = {
		{ 5, 0x90000000, 3 }, { 5, 0xffffffff, 15 }, { 5, 3, 0 }, { 5, 3, 1 }, { 6, 2, 0 },
		{ 0xffffffff, 0, 0 }, { 0x100000000ULL, 0, 0 }, { 0x200000000ULL, 0, 0 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(ordered); i++)
		for (u32 j = 0; j < ARRAY_SIZE(ordered); j++) {
			int cmp = hpcc_moment_cmp(&ordered[i], &ordered[j]);

			assert_int_equal((cmp > 0) - (cmp < 0), (i > j) - (i < j));
		}
}

TEST(tsval__places)
{
	static const u8 usual[] = { 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8 };
	static const u8 other[] = { 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1 };
	static const u8 shorter[] = { 8, 9, 1, 2, 3, 4, 5, 6, 7, 1, 1, 1 };

	assert_int_equal(hpcc_tsval(usual, sizeof(usual)), 0x01020304);
	assert_int_equal(hpcc_tsval(other, sizeof(other)), 0x01020304);
	assert_int_equal(hpcc_tsval(shorter, sizeof(shorter)), 0);
	assert_int_equal(hpcc_tsval(other, 0), 0);
	assert_int_equal(hpcc_tsval(other, 10), 0);
}
