// SPDX-License-Identifier: GPL-2.0
/* INT-MD (hpcc/carrier/int.h): bytes as in the figures of the specification 2.1. */
#define TEST_SETUP begin
#include "test.h"
#include <hpcc/carrier/int.h>

#define TS		0x0123456789abcdefULL

static const struct hpcc_int_hop first = {
	.node = 0x01234567, .port = 7, .qlen_bytes = 12500, .ts_ns = TS,
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
		0x01, 0x23, 0x45, 0x67, 0xff, 0xff, 0, 7, 0, 0, 0x30, 0xd4,
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
		0x01234567, 0xffff0007, ~0U, 12500, ~0U, ~0U, TS >> 32, (u32)TS, ~0U, ~0U,
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

static int found(u32 at, u8 value)
{
	struct hpcc_int_md t;

	packet(2);
	push(&first, 24);
	k.p[at] = value;
	return hpcc_int_find(k.p, HPCC_INT_LEN, k.len, &t);
}

TEST(find__refused)
{
	struct hpcc_int_md t;

	assert_int_equal(found(2, 0xff), 40);		/* reserved bits are ignored */
	assert_int_equal(found(0, 0x13), 40);
	assert_int_equal(found(5, 0xff), 40);
	assert_int_equal(found(0, 0x20), -ENOENT);	/* destination type */
	assert_int_equal(found(0, 0x18), -ENOENT);	/* another L4 header follows */
	assert_int_equal(found(4, 0x10), -ENOENT);	/* version 1 */
	assert_int_equal(found(11, 1), -ENOENT);	/* domains */
	assert_int_equal(found(12, 1), -ENOENT);
	assert_int_equal(found(1, 2), -EINVAL);
	assert_int_equal(found(1, 8), -EINVAL);
	assert_int_equal(found(1, 15), -EINVAL);	/* more than there is */
	assert_int_equal(found(6, 0), -EINVAL);
	assert_int_equal(found(6, 7), -EINVAL);
	assert_int_equal(found(8, 0xd7), -EINVAL);
	packet(2);
	for (u32 i = 0; i < HPCC_INT_LEN; i++)
		assert_int_equal(hpcc_int_find(k.p, i, i, &t), -EINVAL);
}

TEST(hops__refused)
{
	static const struct { struct hpcc_int_md t; int want; } cases[] = {
		{ { .words = 15, .hop_words = 6, .instructions = 0xd500 }, 2 },
		{ { .words = 15, .hop_words = 6, .instructions = 0xd500,
		    .flags = HPCC_INT_F_EXCEEDED }, -EINVAL },
		{ { .words = 15, .hop_words = 6, .instructions = 0xd500,
		    .flags = HPCC_INT_F_MTU }, -EINVAL },
		{ { .words = 15, .hop_words = 6, .instructions = 0xd400 }, -EINVAL },
		{ { .words = 3 + 12 * 6, .hop_words = 6, .instructions = 0xd500 }, 12 },
		{ { .words = 3 + 13 * 6, .hop_words = 6, .instructions = 0xd500 }, -EINVAL },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_int_hops(&cases[i].t), cases[i].want);
}

TEST(hop__read_back)
{
	struct hpcc_int_hop got;

	packet(3);
	for (hop.node = 1; hop.node <= 3; hop.node++)
		push(&hop, 24);
	for (u32 nr = 1; nr <= 3; nr++) {
		assert_int_equal(hpcc_int_hop(k.p, 3, nr, 5, &got), 0);
		assert_true(got.node == nr && got.port == first.port && got.ts_ns == first.ts_ns &&
			    got.qlen_bytes == first.qlen_bytes && got.util == first.util);
	}
}

TEST(hop__not_available)
{
	static const struct hpcc_int_hop bad[] = {
		{ .node = HPCC_INT_NONE }, { .port = 0xffff }, { .qlen_bytes = HPCC_INT_NONE },
		{ .util = HPCC_INT_NONE }, { .util = HPCC_INT_UTIL_ONE + 1 },
	};
	struct hpcc_int_hop got;

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		packet(1);
		push(&bad[i], 24);
		assert_int_equal(hpcc_int_hop(k.p, 1, 1, 5, &got), -EINVAL);
	}
}

/* The draft, 2.3: "the Egress timestamp is not mandatory but optional". */
TEST(hop__without_timestamp)
{
	struct hpcc_int_hop got;

	packet(1);
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

TEST(record__begins_anew)
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

TEST(util__of_a_window)
{
	assert_int_equal(hpcc_int_util(0, 1), 0);
	assert_int_equal(hpcc_int_util(950, 1000), 1020054732);
	assert_int_equal(hpcc_int_util(1000, 1000), HPCC_INT_UTIL_ONE);
	assert_int_equal(hpcc_int_util(1500, 1000), HPCC_INT_UTIL_ONE);
	assert_in_range(hpcc_int_util(1ULL << 62, 1ULL << 63), (HPCC_INT_UTIL_ONE >> 1) - 1,
			HPCC_INT_UTIL_ONE >> 1);
}
