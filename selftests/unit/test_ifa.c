// SPDX-License-Identifier: GPL-2.0
/* IFA 2.0 (hpcc/carrier/ifa.h): the bytes that the drafts define, and the decoded values. */
#define TEST_SETUP begin
#include "test.h"
#include <hpcc/carrier/ifa.h>

#define HEAD		(HPCC_IFA_HEAD_LEN + 32)	/* a TCP header with 12 bytes of options */

static const struct hpcc_ifa_hop first = {
	.lns = 1, .node = 0x12345, .speed = 4, .port = 7, .sec = 0xabcde, .ns = 999999000,
	.residence_ns = 2500, .tx_bytes = 0xfedcba98, .qlen = 200,
};

static struct packet {
	u8 p[1200];
	u32 len;
} k;

/* Each test begins with a new link, and with these metadata of a hop. */
static struct hpcc_trace_link link;
static struct hpcc_ifa_hop hop;

static void begin(void)
{
	memset(&link, 0, sizeof(link));
	hop = first;
}

static void packet(u8 nodes)
{
	memset(&k, 0xaa, sizeof(k));
	k.p[HPCC_IFA_HEAD_LEN + 12] = 8 << 4;
	hpcc_ifa_header(k.p, k.p + HEAD, nodes);
	k.len = HEAD + HPCC_IFA_MD_LEN;
}

/* Push the metadata of a hop as a switch does. Return false if the packet has no @room bytes. */
static bool push(const struct hpcc_ifa_hop *hop, u32 room)
{
	u8 *stack = k.p + HEAD + HPCC_IFA_MD_LEN;
	struct hpcc_ifa t;

	assert_int_equal(hpcc_ifa_find(k.p, HEAD + HPCC_IFA_MD_LEN, k.len, &t), k.len);
	if (!hpcc_ifa_room(&t, room))
		return false;
	memmove(stack + 32, stack, k.len - HEAD - HPCC_IFA_MD_LEN);
	hpcc_ifa_push(k.p + HEAD, &t, hop);
	k.len += 32;
	return true;
}

TEST(push__bytes)
{
	static const u8 head[4] = { 0x2f, 6, 0x04, 48 };
	static const u8 expected[33] = {
		0x11, 0x23, 0x45, 0, 0x40, 0x0a, 0xbc, 0xde, 0, 7, 0, 0,
		0x3b, 0x9a, 0xc6, 0x18, 0, 0, 0x09, 0xc4, 0xfe, 0xdc, 0xba, 0x98,
		0, 0, 0, 200, 0, 0, 0, 0, 0xaa,
	};
	static const u8 before[5] = { 0, 0, 6, 0, 0xaa }, after[4] = { 0, 0, 5, 8 };

	packet(5);
	assert_memory_equal(k.p, head, 4);
	assert_memory_equal(k.p + HEAD, before, 5);
	assert_true(push(&first, 32));
	assert_memory_equal(k.p + HEAD, after, 4);
	assert_memory_equal(k.p + HEAD + 4, expected, 33);
}

TEST(push__no_room)
{
	packet(12);
	assert_false(push(&first, 31));
	for (u32 i = 0; i < 13; i++)
		assert_true(push(&first, 32));
	assert_int_equal(k.p[HEAD + 2], 0);
	assert_false(push(&first, 1000));
	/* Max Length limits the stack; a Hop Limit of 0xff is not decremented. */
	k.p[HEAD + 2] = 0xff;
	assert_false(push(&first, 1000));
	k.p[3] = 112;
	assert_true(push(&first, 32));
	assert_int_equal(k.p[HEAD + 2], 0xff);
	assert_int_equal(k.p[HEAD + 3], 112);
}

TEST(find__refused)
{
	static const struct { u8 at, value; int want; } cases[] = {
		/* reserved bits and the turn-around bit are ignored */
		{ 2, 0xe2, HEAD + 36 },
		/* version; global name space; UDP; fragment; tail stamp; checksum */
		{ 0, 0x1f, -ENOENT }, { 0, 0x21, -ENOENT }, { 1, 17, -ENOENT },
		{ 2, 0x14, -ENOENT }, { 2, 0x0c, -ENOENT }, { 2, 0x05, -ENOENT },
		/* a stack above Max Length, or above the packet; the length of the TCP header */
		{ 3, 7, -EINVAL }, { HEAD + 3, 9, -EINVAL }, { HEAD + 3, 7, HEAD + 32 },
		{ HPCC_IFA_HEAD_LEN + 12, 0x40, -EINVAL },
		{ HPCC_IFA_HEAD_LEN + 12, 0x90, -EINVAL },
	};
	struct hpcc_ifa t;

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		packet(2);
		push(&first, 32);
		k.p[cases[i].at] = cases[i].value;
		assert_int_equal(hpcc_ifa_find(k.p, HEAD + HPCC_IFA_MD_LEN, k.len, &t),
				 cases[i].want);
	}
	packet(2);
	for (u32 i = 0; i < HEAD + HPCC_IFA_MD_LEN; i++)
		assert_int_equal(hpcc_ifa_find(k.p, i, i, &t), -EINVAL);
}

TEST(hops__refused)
{
	static const struct { struct hpcc_ifa t; int want; } cases[] = {
		{ { .md = HEAD, .max = 24, .limit = 1, .words = 16 }, 2 },
		/* because of the limit another hop may have written nothing */
		{ { .md = HEAD, .max = 24, .limit = 0, .words = 16 }, -EINVAL },
		{ { .md = HEAD, .max = 23, .limit = 1, .words = 16 }, -EINVAL },
		{ { .md = HEAD, .max = 24, .limit = 1, .words = 15 }, -EINVAL },
		{ { .md = HEAD, .max = 255, .limit = 1, .words = 12 * 8 }, 12 },
		{ { .md = HEAD, .max = 255, .limit = 1, .words = 13 * 8 }, -EINVAL },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_ifa_hops(&cases[i].t), cases[i].want);
}

TEST(hop__read_back)
{
	struct hpcc_ifa_hop got;

	packet(3);
	for (hop.node = 1; hop.node <= 3; hop.node++)
		push(&hop, 32);
	for (u32 nr = 1; nr <= 3; nr++) {
		assert_int_equal(hpcc_ifa_hop(k.p + HEAD, 3, nr, &got), 0);
		assert_true(got.lns == 1 && got.node == nr && got.speed == 4 && got.port == 7 &&
			    got.sec == 0xabcde && got.ns == 999999000 && got.qlen == 200 &&
			    got.residence_ns == 2500 && got.tx_bytes == 0xfedcba98);
		assert_int_equal(hpcc_ifa_egress_ns(&got), 1500);
	}
	hop.ns = 1000000000;
	packet(1);
	push(&hop, 32);
	assert_int_equal(hpcc_ifa_hop(k.p + HEAD, 1, 1, &got), -EINVAL);
	got.ns = 999999999;
	got.residence_ns = ~0U;
	assert_int_equal(hpcc_ifa_egress_ns(&got), 294967294);
}

TEST(speed__codes)
{
	static const u16 gbps[] = { 10, 25, 40, 50, 100, 200, 400 };

	for (u8 code = 0; code < 7; code++) {
		assert_int_equal(hpcc_ifa_bps(code), gbps[code] * 1000000000ULL);
		assert_int_equal(hpcc_ifa_speed(gbps[code] * 1000000000ULL), code);
	}
	assert_int_equal(hpcc_ifa_bps(7), 0);
	assert_int_equal(hpcc_ifa_bps(15), 0);
	assert_int_equal(hpcc_ifa_speed(1000000000), 15);
	assert_int_equal(hpcc_ifa_speed(0), 15);
}

TEST(record__continues_when_counters_wrap)
{
	struct hpcc_record a, b;

	a = hpcc_ifa_record(&link, &hop, GBIT_100, 64, 2, 1);
	hop.ns = 500;			/* the next second, and counters wrap */
	hop.residence_ns = 3000;
	hop.tx_bytes += 25000;
	b = hpcc_ifa_record(&link, &hop, GBIT_100, 64, 2, 1);
	assert_int_equal(b.hop, 2);
	assert_int_equal(b.tag, (u8)~(hpcc_link_tag(first.node, first.port) ^ 1 ^ 0x20));
	assert_int_equal(b.qlen, 512);			/* 12,800 bytes, 1024 ns */
	assert_int_equal((b.ts - a.ts) & HPCC_COUNTER_MASK, 1000);
	assert_int_equal((b.tx - a.tx) & HPCC_COUNTER_MASK, 1000);
	assert_int_equal(hpcc_ifa_record(&link, &hop, GBIT_100, 128, 2, 1).qlen, 1024);
	/* Another link has another tag. */
	hop.port++;
	assert_int_not_equal(hpcc_ifa_record(&link, &hop, GBIT_100, 64, 2, 1).tag, b.tag);
}
