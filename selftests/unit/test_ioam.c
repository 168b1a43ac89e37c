// SPDX-License-Identifier: GPL-2.0
/* IOAM traces (hpcc/carrier/ioam.h): bytes as in the figures of RFC 9197 and RFC 9486. */
#define TEST_SETUP begin
#include "test.h"
#include <hpcc/carrier/ioam.h>

static const struct hpcc_ioam_node first = {
	.hop_lim = 63, .node = 0x012345, .port = 7, .ts_ns = 999999000,
	.qlen_bytes = 12500, .tx_bytes = 0xfffffff0,
};

/* Header, trace and its length. */
static struct packet {
	u8 p[264], *trace;
	u32 len, trace_len;
} k;

/* Each test begins with a new link, and with these metadata of a hop. */
static struct hpcc_trace_link link;
static struct hpcc_ioam_node n;

static void begin(void)
{
	memset(&link, 0, sizeof(link));
	n = first;
}

/* The next record of hop 1, in units of 1 ns. */
static struct hpcc_record record(u64 bps)
{
	return hpcc_ioam_record(&link, &n, bps, 1, 0);
}

static void packet(u32 nodes)
{
	u32 at = 0;

	memset(&k, 0xaa, sizeof(k));
	k.len = hpcc_ioam_header_len(nodes);
	hpcc_ioam_header(k.p, nodes, 6);
	k.trace_len = hpcc_ioam_find(k.p, k.len, &at);
	assert_in_range(k.trace_len, 1, k.len);
	k.trace = k.p + at;
}

TEST(header__bytes)
{
	static const u8 expected[40] = {
		6, 4, 1, 0, 0x31, 30, 0, 0, 0, 0, 5 << 3, 5, 0xd2, 0x08, 0x00, 0, [36] = 1, 2, 0, 0,
	};

	packet(1);
	assert_int_equal(k.len, 40);
	assert_memory_equal(k.p, expected, 40);
	assert_int_equal(k.trace - k.p, 8);
	assert_int_equal(k.trace_len, 28);
	for (u32 nodes = 1; nodes <= HPCC_IOAM_NODES_MAX; nodes++) {
		struct hpcc_ioam t;

		packet(nodes);
		assert_int_equal(k.len % 8, 0);
		assert_int_equal(k.len, (k.p[1] + 1) * 8);
		assert_int_equal(k.p[k.len], 0xaa);
		assert_int_equal(hpcc_ioam_read(k.trace, k.trace_len, &t), 0);
		assert_int_equal(t.left, 5 * nodes);
		assert_int_equal(t.words, 5 * nodes);
		assert_int_equal(hpcc_ioam_nodes(&t), 0);
	}
}

TEST(find__skips_other_options)
{
	u8 p[24] = { 6, 2, 0, 0, 5, 2, 0, 0, 0x31, 2, 0, 2, 0x31, 10, 0, 0 };
	u32 at;

	/* Pad1s, a router alert, IOAM of another option type, then a trace without space. */
	assert_int_equal(hpcc_ioam_find(p, 24, &at), 8);
	assert_int_equal(at, 16);
	assert_int_equal(hpcc_ioam_find(p, 12, &at), -ENOENT);
	/* An incremental trace is ignored. */
	p[15] = 1;
	assert_int_equal(hpcc_ioam_find(p, 24, &at), -ENOENT);
}

TEST(find__refuses_lengths)
{
	static const struct { u8 type, len, last; int want; } cases[] = {
		{ 5, 12, 0, -ENOENT }, { 5, 13, 0, -EINVAL }, { 5, 11, 0x31, -EINVAL },
	};
	u8 p[16] = { 6, 1, 0x31, 12 };
	u32 at;

	for (u32 optlen = 2; optlen < 256; optlen++) {
		p[3] = optlen;
		/* 12 bytes of data fill the header; the minimum is 10. */
		assert_int_equal(hpcc_ioam_find(p, 16, &at), optlen == 10 ? 8 : -EINVAL);
	}
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		p[2] = cases[i].type;
		p[3] = cases[i].len;
		p[15] = cases[i].last;
		assert_int_equal(hpcc_ioam_find(p, 16, &at), cases[i].want);
	}
}

TEST(is_ours__by_namespace_and_type)
{
	packet(1);
	assert_true(hpcc_ioam_is_ours(k.trace));
	k.trace[1] = 1;
	assert_false(hpcc_ioam_is_ours(k.trace));
	k.trace[1] = 0;
	k.trace[5] = 0;
	assert_false(hpcc_ioam_is_ours(k.trace));
}

TEST(words__by_type)
{
	static const struct { u32 type, want; } cases[] = {
		{ HPCC_IOAM_TRACE_TYPE, 5 }, { 0, 0 }, { 0x800000, 1 }, { 0x00e000, 6 },
		{ 0xfffffc, 25 }, { 0x800002, 0 }, { 0x800001, 0 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_ioam_words(cases[i].type), cases[i].want);
}

TEST(write__bytes)
{
	static const u8 expected[20] = {
		63, 0x01, 0x23, 0x45, 0xff, 0xff, 0, 7, 0x3b, 0x9a, 0xc6, 0x18,
		0, 0, 0x30, 0xd4, 0xff, 0xff, 0xff, 0xf0,
	};

	packet(2);
	assert_int_equal(hpcc_ioam_write(k.trace, k.trace_len, &first), 0);
	assert_int_equal(k.trace[2], 5 << 3);
	assert_int_equal(k.trace[3], 5);
	assert_memory_equal(k.trace + 28, expected, 20);
	assert_int_equal(k.trace[8], 0);
}

TEST(write__other_fields_are_not_available)
{
	static const u32 expected[25] = {
		0x3f012345, 0xffff0007, ~0U, 999999000, ~0U, ~0U, 12500, ~0U, 0x3f000000,
		0x012345, ~0U, 7, ~0U, ~0U, ~0U, 0xfffffff0, ~0U, ~0U, ~0U, ~0U, ~0U, ~0U,
		~0U, ~0U, ~0U,
	};
	u8 p[8 + 100] = { 0, 0, 25 << 3, 25, 0xff, 0xff, 0xfc, 0 };

	assert_int_equal(hpcc_ioam_write(p, sizeof(p), &first), 0);
	for (u32 i = 0; i < 25; i++)
		assert_int_equal(get_unaligned_be32(p + 8 + 4 * i), expected[i]);
}

TEST(write__overflow)
{
	u8 before[264];

	packet(1);
	/* The loopback and active flags stay. */
	k.trace[2] |= 0x3;
	assert_int_equal(hpcc_ioam_write(k.trace, k.trace_len, &first), 0);
	assert_int_equal(k.trace[2], 5 << 3 | 3);
	assert_int_equal(k.trace[3], 0);
	memcpy(before, k.p, sizeof(before));
	before[10] |= 4;
	assert_int_equal(hpcc_ioam_write(k.trace, k.trace_len, &first), HPCC_UNSTAMPED_FULL);
	assert_memory_equal(k.p, before, sizeof(before));
	/* If the overflow flag is set, a node writes nothing, even if there is space. */
	k.trace[3] = 5;
	before[11] = 5;
	assert_int_equal(hpcc_ioam_write(k.trace, k.trace_len, &first), HPCC_UNSTAMPED_FULL);
	assert_memory_equal(k.p, before, sizeof(before));
}

TEST(write__refused)
{
	static const struct { u8 at, value; int why; } cases[] = {
		/* type, namespace, opaque state, reserved */
		{ 0, 1, HPCC_UNSTAMPED_NO_OPTION }, { 1, 123, HPCC_UNSTAMPED_NO_OPTION },
		{ 6, 0x02, HPCC_UNSTAMPED_NO_OPTION }, { 6, 0x01, HPCC_UNSTAMPED_NO_OPTION },
		{ 2, 4 << 3, HPCC_UNSTAMPED_MALFORMED }, { 2, 0, HPCC_UNSTAMPED_MALFORMED },
		{ 3, 11, HPCC_UNSTAMPED_MALFORMED }, { 4, 0xd3, HPCC_UNSTAMPED_MALFORMED },
	};
	u8 before[264];

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		packet(2);
		k.trace[cases[i].at] = cases[i].value;
		memcpy(before, k.p, sizeof(before));
		assert_int_equal(hpcc_ioam_write(k.trace, k.trace_len, &first), cases[i].why);
		assert_memory_equal(k.p, before, sizeof(before));
	}
}

TEST(node__read_back)
{
	static const struct hpcc_ioam_node bad[] = {
		{ .node = HPCC_IOAM_U24_NONE }, { .port = HPCC_IOAM_U16_NONE },
		{ .ts_ns = 1000000000 }, { .qlen_bytes = HPCC_IOAM_U32_NONE },
		{ .tx_bytes = HPCC_IOAM_U32_NONE },
	};
	struct hpcc_ioam_node got;
	struct hpcc_ioam t;

	packet(3);
	for (n.node = 1; n.node <= 3; n.node++) {
		assert_int_equal(hpcc_ioam_write(k.trace, k.trace_len, &n), 0);
		assert_int_equal(hpcc_ioam_read(k.trace, k.trace_len, &t), 0);
		assert_int_equal(hpcc_ioam_nodes(&t), n.node);
	}
	for (u32 hop = 1; hop <= 3; hop++) {
		assert_int_equal(hpcc_ioam_node(k.trace, &t, hop, &got), 0);
		assert_true(got.node == hop && got.hop_lim == n.hop_lim && got.port == n.port &&
			    got.ts_ns == n.ts_ns && got.qlen_bytes == n.qlen_bytes &&
			    got.tx_bytes == n.tx_bytes);
	}
	/* values that are not available or not possible */
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		packet(1);
		assert_int_equal(hpcc_ioam_write(k.trace, k.trace_len, &bad[i]), 0);
		assert_int_equal(hpcc_ioam_read(k.trace, k.trace_len, &t), 0);
		assert_int_equal(hpcc_ioam_node(k.trace, &t, 1, &got), -EINVAL);
	}
}

TEST(nodes__refused)
{
	static const struct { struct hpcc_ioam t; int want; } cases[] = {
		{ { .type = 0xd20800, .node_words = 5, .words = 10, .left = 5 }, 1 },
		{ { .type = 0xd20800, .node_words = 5, .words = 10, .left = 5, .ns = 1 }, -EINVAL },
		{ { .type = 0xd20000, .node_words = 5, .words = 10, .left = 5 }, -EINVAL },
		{ { .type = 0xd20800, .node_words = 5, .words = 10, .left = 5,
		    .flags = HPCC_IOAM_F_OVERFLOW }, -EINVAL },
		{ { .type = 0xd20800, .node_words = 5, .words = 10, .left = 6 }, -EINVAL },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_ioam_nodes(&cases[i].t), cases[i].want);
}

/* Both counters wrap between two records: the record's differences equal the link's differences. */
TEST(record__wraps)
{
	struct hpcc_record a, b;

	a = hpcc_ioam_record(&link, &n, GBIT_100, 2, 1);
	n.ts_ns = 1000;			/* 2000 ns later */
	n.tx_bytes = 12500 - 16;	/* 12500 bytes: 1000 ns */
	b = hpcc_ioam_record(&link, &n, GBIT_100, 2, 1);
	assert_int_equal(b.hop, 2);
	assert_int_equal(b.tag, (u8)~(hpcc_link_tag(first.node, first.port) ^ 1));
	assert_int_equal(b.qlen, 500);
	assert_int_equal((b.ts - a.ts) & HPCC_COUNTER_MASK, 1000);
	assert_in_range((b.tx - a.tx) & HPCC_COUNTER_MASK, 499, 501);
	/* The counters of a reordered packet are lower. */
	n = first;
	b = hpcc_ioam_record(&link, &n, GBIT_100, 2, 1);
	assert_int_equal(b.ts, a.ts);
	assert_int_equal(b.tx, a.tx);
}

/* Differences of any size add up to the totals of the link. */
TEST(record__sums)
{
	u64 ts = 0, tx = 0;
	struct hpcc_record r;

	record(GBIT_100);
	for (u32 i = 0; i < 100000; i++) {
		u64 dt = random_below(400000000), dx = random_below(0x7fffffff);

		ts += dt;
		tx += dx;
		n.ts_ns = (first.ts_ns + ts) % 1000000000;
		n.tx_bytes = first.tx_bytes + tx;
		r = record(GBIT_100);
	}
	assert_int_equal(link.ts_ns - HPCC_IOAM_TS_BASE, ts - 1000);
	assert_int_equal(link.tx_bytes - HPCC_IOAM_TX_BASE, tx - 16);
	assert_int_equal(r.ts, link.ts_ns & HPCC_COUNTER_MASK);
}

TEST(record__another_link)
{
	u8 tag = record(GBIT_100).tag;

	n.port++;
	n.ts_ns = 5;
	record(GBIT_100);
	assert_int_equal(link.port, n.port);
	assert_int_equal(link.ts_ns, HPCC_IOAM_TS_BASE + 5);
	/* A path that changes and changes back between two ACKs has another tag. */
	n = first;
	assert_int_not_equal(record(GBIT_100).tag, tag);
	/* On a slower link the same bytes take longer. */
	assert_int_equal(record(GBIT_100 / 10).qlen, 10000);
	n.qlen_bytes = ~1U;
	assert_int_equal(record(8).qlen, ~0U);
}

/* In 250 ms a link of 100 Gb/s sends more bytes than the counter holds: a new baseline begins. */
TEST(record__too_old)
{
	u8 tag = record(GBIT_100).tag;

	hpcc_ioam_age(&link, 85000000);		/* 1.06 GB, less than 2^30 */
	assert_int_equal(record(GBIT_100).tag, tag);
	hpcc_ioam_age(&link, 86000000);
	assert_int_not_equal(record(GBIT_100).tag, tag);
	assert_int_not_equal(record(GBIT_100).tag, tag);
	/* On a slower link the maximum age is 250 ms. */
	tag = record(GBIT_100 / 100).tag;
	hpcc_ioam_age(&link, 250000000);
	assert_int_equal(record(GBIT_100 / 100).tag, tag);
	hpcc_ioam_age(&link, 250000001);
	assert_int_not_equal(record(GBIT_100 / 100).tag, tag);
}
