// SPDX-License-Identifier: GPL-2.0
/* INT-MD (hpcc/carrier/int.h): bytes as in the figures of the specification 2.1. */
#define TEST_SETUP begin
#include "test.h"
#include <hpcc/carrier/int.h>

#define TS		0x0123456789abcdefULL

static const struct hpcc_int_hop first = {
	.node = 0x01234567, .port = 7, .queue = 9, .qlen_bytes = 12500, .ts_ns = TS,
	.util = HPCC_INT_UTIL_ONE / 2,
};

static struct packet {
	u8 p[1100];
	u32 len;
} k;

/* Each test begins with a new link, and with these metadata of a hop. */
static struct hpcc_trace_link link;
static struct hpcc_int_hop hop;

static void begin(void)
{
	memset(&link, 0, sizeof(link));
	hop = first;
}

/* The next record of hop 1, in units of 1 ns. */
static struct hpcc_record record(u64 bps)
{
	return hpcc_int_record(&link, &hop, bps, 1, 0);
}

static void packet(u8 nodes)
{
	memset(&k, 0xaa, sizeof(k));
	hpcc_int_header(k.p, nodes, 0x2e);
	k.len = HPCC_INT_LEN;
}

/* Push metadata as a switch does, if the packet may grow by @room bytes. */
static u32 push(const struct hpcc_int_hop *hop, u32 room)
{
	struct hpcc_int_md t;
	u32 n;

	assert_int_equal(hpcc_int_find(k.p, HPCC_INT_LEN, k.len, &t), k.len);
	n = hpcc_int_room(k.p, &t, room);
	if (!n)
		return 0;
	memmove(k.p + HPCC_INT_LEN + n, k.p + HPCC_INT_LEN, k.len - HPCC_INT_LEN);
	hpcc_int_push(k.p, &t, hop);
	k.len += n;
	return n;
}

TEST(header__bytes)
{
	static const u8 expected[17] = {
		0x10, 3, 0, 0x2e << 2, 0x20, 0, 6, 5, 0xd5, 0, 0, 0, 0, 0, 0, 0, 0xaa,
	};

	packet(5);
	assert_memory_equal(k.p, expected, sizeof(expected));
}

TEST(push__bytes)
{
	static const u8 expected[24] = {
		0x01, 0x23, 0x45, 0x67, 0xff, 0xff, 0, 7, 9, 0, 0x30, 0xd4,
		0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x20, 0, 0, 0,
	};

	packet(5);
	assert_int_equal(push(&first, 24), 24);
	assert_memory_equal(k.p + HPCC_INT_LEN, expected, 24);
	assert_int_equal(k.p[1], 9);
	assert_int_equal(k.p[7], 4);
	assert_int_equal(k.p[4], 0x20);
	assert_int_equal(k.p[40], 0xaa);
}

/* In all other requested fields all bits are 1, also fields of reserved instructions. */
TEST(push__other_instructions)
{
	static const u32 expected[19] = {
		0x01234567, 0xffff0007, ~0U, 9 << 24 | 12500, ~0U, ~0U, TS >> 32, (u32)TS, ~0U, ~0U,
		HPCC_INT_UTIL_ONE / 2, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U,
	};

	packet(1);
	k.p[6] = 19;
	k.p[8] = 0xff;
	k.p[9] = 0xff;
	assert_int_equal(push(&first, 200), 76);
	for (u32 i = 0; i < 19; i++)
		assert_int_equal(get_unaligned_be32(k.p + HPCC_INT_LEN + 4 * i), expected[i]);
}

static void full(u32 room, u8 flag)
{
	u8 before[1100];

	memcpy(before, k.p, sizeof(before));
	before[4] |= flag;
	assert_int_equal(push(&first, room), 0);
	assert_memory_equal(k.p, before, sizeof(before));
}

TEST(push__no_room)
{
	packet(1);
	full(23, HPCC_INT_F_MTU);
	/* A later hop with enough space pushes nevertheless. */
	assert_int_equal(push(&first, 24), 24);
	full(1000, HPCC_INT_F_EXCEEDED);
	assert_int_equal(k.p[4], 0x26);
	packet(255);
	while (push(&first, 24))
		;
	assert_int_equal(k.p[1], 3 + 42 * 6);
	assert_int_equal(k.p[4], 0x24);
}

TEST(find__refused)
{
	static const struct { u8 at, value; int want; } cases[] = {
		/* reserved bits are ignored */
		{ 2, 0xff, 40 }, { 0, 0x13, 40 }, { 5, 0xff, 40 },
		/* destination type; another L4 header follows; version 1; domains */
		{ 0, 0x20, -ENOENT }, { 0, 0x18, -ENOENT }, { 4, 0x10, -ENOENT },
		{ 11, 1, -ENOENT }, { 12, 1, -ENOENT },
		/* lengths, the last one longer than the packet; words of a hop; instructions */
		{ 1, 2, -EINVAL }, { 1, 8, -EINVAL }, { 1, 15, -EINVAL },
		{ 6, 0, -EINVAL }, { 6, 7, -EINVAL }, { 8, 0xd7, -EINVAL },
	};
	struct hpcc_int_md t;

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		packet(2);
		push(&first, 24);
		k.p[cases[i].at] = cases[i].value;
		assert_int_equal(hpcc_int_find(k.p, HPCC_INT_LEN, k.len, &t), cases[i].want);
	}
	packet(2);
	for (u32 i = 0; i < HPCC_INT_LEN; i++)
		assert_int_equal(hpcc_int_find(k.p, i, i, &t), -EINVAL);
}

TEST(hops__refused)
{
	static const struct { u16 words, instructions; u8 flags; int want; } cases[] = {
		{ 15, 0xd500, 0, 2 }, { 15, 0xd500, HPCC_INT_F_EXCEEDED, -EINVAL },
		{ 15, 0xd500, HPCC_INT_F_MTU, -EINVAL }, { 15, 0xd400, 0, -EINVAL },
		{ 3 + 12 * 6, 0xd500, 0, 12 }, { 3 + 13 * 6, 0xd500, 0, -EINVAL },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct hpcc_int_md t = { .words = cases[i].words, .hop_words = 6,
			.instructions = cases[i].instructions, .flags = cases[i].flags };

		assert_int_equal(hpcc_int_hops(&t), cases[i].want);
	}
}

TEST(hop__read_back)
{
	static const struct hpcc_int_hop bad[] = {
		{ .node = HPCC_INT_NONE }, { .port = 0xffff }, { .qlen_bytes = HPCC_INT_NONE },
		{ .util = HPCC_INT_NONE }, { .util = HPCC_INT_UTIL_ONE + 1 },
	};
	struct hpcc_int_hop got;

	packet(3);
	for (hop.node = 1; hop.node <= 3; hop.node++)
		push(&hop, 24);
	for (u32 nr = 1; nr <= 3; nr++) {
		assert_int_equal(hpcc_int_hop(k.p, 3, nr, 5, &got), 0);
		assert_true(got.node == nr && got.port == first.port && got.ts_ns == first.ts_ns &&
			    got.qlen_bytes == first.qlen_bytes && got.util == first.util);
	}
	/* values that are not available or not possible */
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		packet(1);
		push(&bad[i], 24);
		assert_int_equal(hpcc_int_hop(k.p, 1, 1, 5, &got), -EINVAL);
	}
	/* The draft, 2.3: "the Egress timestamp is not mandatory but optional". */
	packet(1);
	hop = first;
	hop.ts_ns = HPCC_INT_TS_NONE;
	push(&hop, 24);
	assert_int_equal(hpcc_int_hop(k.p, 1, 1, TS + 5, &got), 0);
	assert_true(got.ts_ns == TS + 5);
	assert_int_equal(got.util, first.util);
}

/* txBytes grows by utilization x the time since the last record. */
TEST(record__integrates)
{
	struct hpcc_record a, b;

	a = hpcc_int_record(&link, &hop, GBIT_100, 2, 1);
	hop.ts_ns += 2000;
	b = hpcc_int_record(&link, &hop, GBIT_100, 2, 1);
	assert_int_equal(b.hop, 2);
	assert_int_equal(b.tag, (u8)~(hpcc_link_tag(first.node, first.port) ^ 1 ^ 0x40));
	assert_int_equal(b.qlen, 500);
	assert_int_equal((b.ts - a.ts) & HPCC_COUNTER_MASK, 1000);
	assert_int_equal((b.tx - a.tx) & HPCC_COUNTER_MASK, 500);
	/* A reordered packet has an earlier ts, and adds nothing. */
	a = b;
	hop.ts_ns -= 1000;
	b = hpcc_int_record(&link, &hop, GBIT_100, 2, 1);
	assert_int_equal(b.tag, a.tag);
	assert_int_equal(b.tx, a.tx);
	assert_int_equal((a.ts - b.ts) & HPCC_COUNTER_MASK, 500);
	hop.ts_ns += 1000 + 4000;
	hop.util = HPCC_INT_UTIL_ONE;
	b = hpcc_int_record(&link, &hop, GBIT_100, 2, 1);
	assert_int_equal((b.tx - a.tx) & HPCC_COUNTER_MASK, 2000);
}

TEST(record__restarts)
{
	u8 tag = record(GBIT_100).tag, last;

	hop.ts_ns += HPCC_INT_SPAN_NS;
	assert_int_equal(record(GBIT_100).tag, tag);
	hop.ts_ns += HPCC_INT_SPAN_NS + 1;
	last = record(GBIT_100).tag;
	assert_int_not_equal(last, tag);
	hop.ts_ns -= HPCC_INT_SPAN_NS + 1;
	tag = record(GBIT_100).tag;
	assert_int_not_equal(last, tag);
	/* Another B, another port; a queue that no record can express. */
	assert_int_equal(record(GBIT_100 / 10).qlen, 10000);
	hop.port++;
	last = record(GBIT_100).tag;
	assert_int_equal(last, (u8)~(hpcc_link_tag(hop.node, hop.port) ^ 1 ^ 0x40));
	hop.qlen_bytes = 0xffffff;
	assert_int_equal(record(8).qlen, ~0U);
}

TEST(util__in_a_window)
{
	static const struct { u32 tx, window; u32 want; } cases[] = {
		{ 0, 1, 0 }, { 950, 1000, 1020054732 }, { 1000, 1000, HPCC_INT_UTIL_ONE },
		{ 1500, 1000, HPCC_INT_UTIL_ONE },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_int_util(cases[i].tx, cases[i].window), cases[i].want);
	assert_in_range(hpcc_int_util(1ULL << 62, 1ULL << 63), (HPCC_INT_UTIL_ONE >> 1) - 1,
			HPCC_INT_UTIL_ONE >> 1);
}
