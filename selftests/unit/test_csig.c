// SPDX-License-Identifier: GPL-2.0
/* CSIG (hpcc/carrier/csig.h): bytes of the tag, buckets, and records that a sender derives. */
#define TEST_SETUP begin
#include "test.h"
#include <hpcc/carrier/csig.h>

#define TPID		HPCC_CSIG_TPID_DEFAULT
#define ONE		HPCC_INT_UTIL_ONE
#define TAG(t, s, lm)	((t) << 13 | (s) << 7 | (lm))

/* Each test begins with these units and the path of a sender without any signal. */
static struct hpcc_csig_units u;
static struct hpcc_csig_path path;

static void begin(void)
{
	u = hpcc_csig_units(50, 64);
	path = (struct hpcc_csig_path){ .ask = HPCC_CSIG_QLEN };
}

/* Derive a record from a signal at this time. */
static struct hpcc_record r;

static int take(u16 tag, u64 now_ns)
{
	return hpcc_csig_take(&path, tag, &u, now_ns, 0, &r);
}

TEST(find__behind_vlan_tags)
{
	static const u8 vlan[4] = { 0x81, 0, 0, 5 };
	u8 p[HPCC_CSIG_WALK + 2] = {};
	u32 at;

	for (u32 tags = 0; tags <= HPCC_VLAN_TAGS_MAX; tags++) {
		at = 12 + 4 * tags;
		put_unaligned_be16(TPID, p + at);
		assert_int_equal(hpcc_csig_find(p, sizeof(p), TPID), at);
		assert_int_equal(hpcc_csig_find(p, at + 6, TPID), at);
		assert_int_equal(hpcc_csig_find(p, at + 5, TPID), -ENOENT);
		assert_int_equal(hpcc_csig_find(p, sizeof(p), TPID + 1), -ENOENT);
		memcpy(p + at, vlan, sizeof(vlan));
	}
	assert_int_equal(hpcc_csig_find(p, sizeof(p), TPID), -ENOENT);
	assert_int_equal(hpcc_csig_find(p, 0, TPID), -ENOENT);
}

TEST(bucket__bounds)
{
	static const struct { u32 bits, values[32]; } cases[] = {
		{ HPCC_CSIG_ABW_BITS, {
			0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
			16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60 } },
		{ HPCC_CSIG_TIME_BITS, {
			0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28,
			32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448 } },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		const u32 *values = cases[i].values, bits = cases[i].bits;

		for (u32 s = 0; s < 32; s++) {
			assert_int_equal(hpcc_csig_value(s, bits), values[s]);
			assert_int_equal(hpcc_csig_bucket(values[s], bits), s);
			if (s)
				assert_int_equal(hpcc_csig_bucket(values[s] - 1, bits), s - 1);
		}
		assert_int_equal(hpcc_csig_bucket(~0U, bits), 31);
	}
}

/* With all units: the value that a bucket represents is within the bucket. */
TEST(bucket__read_back)
{
	static const u32 abws[] = { 1, 7, 50, 167, 312, 1000 };
	u32 s, util;

	for (u32 i = 0; i < ARRAY_SIZE(abws); i++) {
		u32 wide = 4 * abws[i] * (ONE / 10000 + 1);

		u = hpcc_csig_units(abws[i], 1 + i * 199999);
		for (u32 permille = 0; permille <= 1000; permille++) {
			u32 abw_q30 = (u64)ONE * permille / 1000;

			s = hpcc_csig_abw_bucket(abw_q30, &u);
			util = hpcc_csig_util(s, &u);
			assert_true(util <= ONE);
			if (s < HPCC_CSIG_S_MAX)
				assert_in_range(util, ONE - min(abw_q30 + wide, ONE),
						min(ONE - abw_q30 + wide, ONE));
		}
		for (s = 0; s < 32; s++) {
			u64 ns = (u64)hpcc_csig_value(s, HPCC_CSIG_TIME_BITS) * u.time_ns;

			assert_int_equal(hpcc_csig_time_bucket(ns, &u), s);
			if (s)
				assert_int_equal(hpcc_csig_time_bucket(ns - 1, &u), s - 1);
		}
		assert_int_equal(hpcc_csig_time_bucket(~0ULL, &u), 31);
	}
}

TEST(util__buckets)
{
	assert_int_equal(hpcc_csig_util(0, &u), ONE);
	assert_int_equal(hpcc_csig_util(9, &u), ONE - (u64)ONE * 475 / 10000);
	assert_int_equal(hpcc_csig_util(31, &u), ONE - (u64)ONE * 30 / 100);
	u = hpcc_csig_units(1000, 1);
	assert_int_equal(hpcc_csig_util(31, &u), 0);
}

TEST(write__compares)
{
	static const struct {
		u16 before, after;
		int ret;
	} cases[] = {
		{ TAG(1, 31, 0), TAG(1, 10, 9), HPCC_STAMP_WRITTEN },
		{ TAG(1, 31, 5), TAG(1, 10, 9), HPCC_STAMP_WRITTEN },
		{ TAG(1, 10, 5), TAG(1, 10, 5), HPCC_STAMP_QUIET },
		{ TAG(1, 3, 5), TAG(1, 3, 5), HPCC_STAMP_QUIET },
		{ TAG(1, 3, 0), TAG(1, 10, 9), HPCC_STAMP_WRITTEN },
		{ TAG(2, 0, 0), TAG(2, 3, 9), HPCC_STAMP_WRITTEN },
		{ TAG(2, 4, 1), TAG(2, 4, 1), HPCC_STAMP_QUIET },
		{ TAG(3, 0, 1), TAG(3, 8, 9), HPCC_STAMP_WRITTEN },
		{ TAG(3, 8, 1), TAG(3, 8, 1), HPCC_STAMP_QUIET },
		{ TAG(3, 9, 1), TAG(3, 9, 1), HPCC_STAMP_QUIET },
		{ TAG(3, 0, 0) | 0x1000, TAG(3, 8, 9) | 0x1000, HPCC_STAMP_WRITTEN },
		{ TAG(0, 31, 0), TAG(0, 31, 0), HPCC_UNSTAMPED_NO_OPTION },
		{ TAG(4, 31, 0), TAG(4, 31, 0), HPCC_UNSTAMPED_NO_OPTION },
		{ TAG(7, 31, 127), TAG(7, 31, 127), HPCC_UNSTAMPED_NO_OPTION },
	};
	struct hpcc_csig_hop hop = {
		.abw_q30 = ONE / 20 + 1000, .pd_ns = 200, .qlen_ns = 600, .has_pd = true,
		.locator = 9,
	};
	u8 p[HPCC_CSIG_LEN];

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		put_unaligned_be16(TPID, p);
		put_unaligned_be16(cases[i].before, p + 2);
		assert_int_equal(hpcc_csig_write(p, &hop, &u), cases[i].ret);
		assert_int_equal(get_unaligned_be16(p), TPID);
		assert_int_equal(get_unaligned_be16(p + 2), cases[i].after);
	}
	hop.has_pd = false;
	put_unaligned_be16(TAG(2, 0, 0), p + 2);
	assert_int_equal(hpcc_csig_write(p, &hop, &u), HPCC_UNSTAMPED_NO_OPTION);
}

TEST(locator__never_0)
{
	u32 seen = 0;

	for (u32 port = 0; port < 300; port++) {
		u8 locator = hpcc_csig_locator(7, port);

		assert_in_range(locator, 1, HPCC_CSIG_LOCATORS);
		seen += locator != hpcc_csig_locator(8, port);
	}
	assert_true(seen > 250);
}

TEST(ask__best_value)
{
	assert_int_equal(hpcc_csig_ask(HPCC_CSIG_ABW_C), TAG(1, 31, 0));
	assert_int_equal(hpcc_csig_ask(HPCC_CSIG_PD), TAG(2, 0, 0));
	assert_int_equal(hpcc_csig_ask(HPCC_CSIG_QLEN), TAG(3, 0, 0));
}

TEST(pop__option_and_checksum)
{
	struct hpcc_opt opt = { .type = HPCC_OPT_FORWARD, .nr = 1, .scale = 3 };
	struct hpcc_opt_location place = { .tcp = 20, .opt = 41, .len = 12, .end = 56 };
	u8 p[60] = {}, was[60];

	for (u32 odd = 0; odd < 2; odd++) {
		place.opt = 40 + odd;
		memset(p, 0x5a, sizeof(p));
		hpcc_opt_encode(p + place.opt, 253, &opt);
		put_unaligned_be64(hpcc_csig_record(TAG(3, 0, 0), false), p + place.opt + 4);
		memset(p + 36, 0, 2);
		put_unaligned((__sum16)csum_fold(csum_partial(p + 20, 36, 0)), (__sum16 *)(p + 36));
		assert_int_equal(csum_fold(csum_partial(p + 20, 36, 0)), 0);
		assert_true(hpcc_csig_pop(p, &place, TAG(3, 9, 7), true));
		assert_int_equal(csum_fold(csum_partial(p + 20, 36, 0)), 0);
		assert_int_equal(get_unaligned_be64(p + place.opt + 4),
				 hpcc_csig_record(TAG(3, 9, 7), true));
		memcpy(was, p, sizeof(p));
		assert_true(hpcc_csig_pop(p, &place, TAG(3, 9, 7), false));
		assert_memory_equal(p, was, sizeof(p));
		/* another port has responded to the request */
		p[place.opt + 2] = HPCC_OPT_ANSWERED << 5 | 3;
		assert_true(hpcc_csig_pop(p, &place, TAG(3, 9, 7), false));
		/* a load record: csig must not change it */
		p[place.opt + 4] = 0x14;
		memcpy(was, p, sizeof(p));
		assert_false(hpcc_csig_pop(p, &place, TAG(3, 9, 7), true));
		assert_memory_equal(p, was, sizeof(p));
		p[place.opt + 2] = 0;
		assert_false(hpcc_csig_pop(p, &place, TAG(3, 9, 7), true));
	}
}

TEST(report__read_back)
{
	struct hpcc_opt opt = { .type = HPCC_OPT_REPORT, .nr = 1 };
	u8 p[8];

	put_unaligned_be64(hpcc_csig_report(TAG(1, 9, 7)), p);
	assert_int_equal(p[0], 0x40);
	assert_int_equal(hpcc_csig_reported(&opt, p), TAG(1, 9, 7));
	opt.nr = 2;
	assert_int_equal(hpcc_csig_reported(&opt, p), 0);
	opt.nr = 1;
	p[3] = 1;
	assert_int_equal(hpcc_csig_reported(&opt, p), 0);
	put_unaligned_be64(hpcc_report_pack(HPCC_REPORT_FLOWS, 9), p);
	assert_int_equal(hpcc_csig_reported(&opt, p), 0);
}

TEST(take__refused)
{
	static const u16 tags[] = { TAG(1, 9, 0), TAG(0, 9, 1), TAG(2, 9, 1), TAG(7, 31, 127), 0 };
	struct hpcc_csig_path was = path;

	for (u32 i = 0; i < ARRAY_SIZE(tags); i++)
		assert_int_equal(take(tags[i], 1000), -EINVAL);
	assert_memory_equal(&path, &was, sizeof(path));
}

/*
 * Request u2 while there is no queue, u1 when u2 is full, and u2 again after the queue has
 * drained. A u2 has no queue: the record keeps the queue of the last u1. This is also true for a u2
 * below full load that was requested before that u1.
 */
TEST(take__chooses)
{
	/* @dtx: the record's growth of tx; NONE: no record, or the first record */
	enum { NONE = ~0U, UP = HPCC_CSIG_ABW_C, QUEUE = HPCC_CSIG_QLEN };
	static const struct { u16 tag; u64 now_ns; int ret; u8 ask; u32 dtx, qlen; } cases[] = {
		{ TAG(3, 0, 5), 1000, 0, UP, NONE, 0 },
		{ TAG(1, 9, 5), 2000, 1, UP, NONE, 0 },
		{ TAG(1, 9, 6), 12000, 1, UP, 9524, 0 },
		{ TAG(1, 0, 6), 13000, 1, QUEUE, 1000, 0 },
		{ TAG(3, 8, 6), 14000, 1, QUEUE, 1000, 8 * 64 },
		{ TAG(1, 0, 6), 15000, 1, QUEUE, 1000, 8 * 64 },
		{ TAG(1, 31, 6), 16000, 1, QUEUE, 700, 8 * 64 },
		{ TAG(3, 0, 6), 16000, 0, UP, NONE, 0 },
		{ TAG(1, 31, 6), 26000, 1, UP, 7000, 0 },
	};
	struct hpcc_record last = { 0 };

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++, last = r) {
		assert_int_equal(take(cases[i].tag, cases[i].now_ns), cases[i].ret);
		assert_int_equal(path.ask, cases[i].ask);
		if (i == 2) {
			assert_int_equal(r.hop, 1);
			assert_int_equal(r.tag, last.tag);
			assert_int_equal(r.ts - last.ts, 10000);
		}
		if (cases[i].dtx != NONE) {
			assert_in_range(r.tx - last.tx, cases[i].dtx, cases[i].dtx + (i == 2));
			assert_int_equal(r.qlen, cases[i].qlen);
		}
	}
	/* after a long pause tx does not grow by the whole pause */
	assert_int_equal(take(TAG(1, 0, 6), ~0ULL), 1);
	assert_int_equal(path.tx_ns >> 28, 0);
}

/* A record is no baseline after a long pause, or if its time, from another CPU, is later. */
TEST(take__gap)
{
	static const struct { u64 ns; bool begins; } cases[] = {
		{ 1000, false }, { 250000000, false }, { 250000001, true }, { 10000000000, true },
		{ 1000, false }, { -1000, true }, { 1000, false },
	};
	struct hpcc_record last;
	u64 now_ns = 1000, tx_ns;

	assert_int_equal(hpcc_csig_take(&path, TAG(1, 0, 5), &u, now_ns, 0, &last), 1);
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++, last = r) {
		now_ns += cases[i].ns;
		tx_ns = path.tx_ns;
		assert_int_equal(take(TAG(1, 0, 5), now_ns), 1);
		assert_int_equal(r.tag != last.tag, cases[i].begins);
		assert_int_equal(path.tx_ns - tx_ns, cases[i].begins ? 0 : cases[i].ns);
	}
}

/* The queue of another bottleneck is no baseline: if two alternate, every second signal counts. */
TEST(take__other_bottleneck)
{
	u32 changes = 0;
	u8 tag = 0;

	for (u64 now_ns = 1000; now_ns <= 2000; now_ns += 1000) {
		assert_int_equal(take(TAG(3, 8, 6), now_ns), 1);
		assert_int_equal(r.tag, tag);
	}
	for (u32 i = 0; i < 10; i++) {
		assert_int_equal(take(TAG(3, 8, 7 + i), 3000 + i), 1);
		changes += r.tag != tag;
		tag = r.tag;
	}
	assert_int_equal(changes, 5);
	assert_int_equal(take(TAG(1, 9, 99), 4000), 1);
	assert_int_equal(r.tag, tag);
}
