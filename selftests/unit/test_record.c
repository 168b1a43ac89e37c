// SPDX-License-Identifier: GPL-2.0
/* Unit tests of <hpcc/wire/record.h>, in the order of its functions. */
#include <errno.h>

#include "test.h"
#include <hpcc/wire/record.h>

enum { KIND = HPCC_OPT_KIND_DEFAULT, EXID = HPCC_OPT_EXID_DEFAULT };

/* Copy to the heap, so that ASan detects a read beyond the end. */
static u8 *heap_copy(const u8 *bytes, u32 len)
{
	u8 *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, bytes, len);
	return copy;
}

TEST(scale_for__edges)
{
	static const struct { u64 ns; u32 want; } cases[] = {
		{ 0, 0 }, { 1000, 0 }, { 8191, 0 }, { 8192, 1 }, { 16383, 1 }, { 16384, 2 },
		{ 1000000000, 17 }, { ~0ULL, HPCC_SCALE_MAX },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_scale_for(cases[i].ns), cases[i].want);
}

TEST(link_tag__differs_between_ports_and_nodes)
{
	u8 used[256] = { 0 };
	u32 same = 0, n = 0;

	for (u32 port = 1; port < 64; port++)
		same += hpcc_link_tag(7, port) == hpcc_link_tag(7, 0);
	for (u32 node = 1; node < 64; node++)
		same += hpcc_link_tag(node, 3) == hpcc_link_tag(0, 3);
	/* 126 pairs, each equal by chance with a probability of 1/256 */
	assert_in_range(same, 0, 4);
	for (u32 i = 0; i < 4096; i++)
		used[hpcc_link_tag(i / 16, i % 16)] = 1;
	for (u32 i = 0; i < 256; i++)
		n += used[i];
	assert_in_range(n, 230, 256);
}

TEST(qlen_encode__nearest)
{
	u32 before = 0;

	for (u32 units = 0; units <= HPCC_QLEN_MAX; units++) {
		u32 code = hpcc_qlen_encode(units);
		u32 got = hpcc_qlen_decode(code);
		u32 error = got > units ? got - units : units - got;

		assert_true(code < 1U << HPCC_QLEN_BITS);
		assert_true(code >= before);
		/* a step is at most 1/256 of the value; below 512 there is no error */
		assert_true((u64)error * 512 <= units);
		before = code;
	}
}

TEST(qlen_encode__saturates)
{
	static const struct { u64 units; u32 code; } cases[] = {
		{ HPCC_QLEN_MAX, 0xfff }, { HPCC_QLEN_MAX + 1ULL, 0xfff }, { ~0ULL, 0xfff },
		/* a carry into the exponent */
		{ 1021, 0x2ff }, { 1022, 0x2ff }, { 1023, 0x300 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_qlen_encode(cases[i].units), cases[i].code);
	assert_int_equal(hpcc_qlen_decode(0x300), 1024);
	for (int i = 0; i < 10000; i++) {
		u64 units = random_magnitude();

		if (units > HPCC_QLEN_MAX)
			assert_int_equal(hpcc_qlen_encode(units), 0xfff);
	}
}

TEST(qlen_decode__every_code_encodes_to_itself)
{
	for (u32 code = 0; code < 1U << HPCC_QLEN_BITS; code++)
		assert_int_equal(hpcc_qlen_encode(hpcc_qlen_decode(code)), code);
	/* higher bits are ignored */
	assert_int_equal(hpcc_qlen_decode(0xfffff123), hpcc_qlen_decode(0x123));
	assert_int_equal(hpcc_qlen_decode(~0U), HPCC_QLEN_MAX);
}

TEST(counter_extend__ahead_behind_and_across_the_wrap)
{
	const u64 last = 5ULL << HPCC_COUNTER_BITS | 1000, wrap = 7ULL << HPCC_COUNTER_BITS;
	const struct { u64 last; u32 now; u64 want; } cases[] = {
		{ last, 1000, last }, { last, 1001, last + 1 }, { last, 999, last - 1 },
		{ last, 1000 + (1 << 19) - 1, last + (1 << 19) - 1 },
		{ last, 1000 + (1 << 19), last - (1 << 19) },
		{ wrap - 1, 0, wrap }, { wrap - 1, 5, wrap + 5 },
		{ wrap, HPCC_COUNTER_MASK, wrap - 1 },
		{ wrap + 3, HPCC_COUNTER_MASK - 1, wrap - 2 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_counter_extend(cases[i].last, cases[i].now), cases[i].want);
}

TEST(record_encode__layout)
{
	const struct hpcc_record r = { 0xa, 0xbc, .ts = 0x12345, .tx = 0x6789a, .qlen = 0xde };
	static const u8 want[] = { 0xab, 0xc1, 0x23, 0x45, 0x67, 0x89, 0xa0, 0xde };
	u8 got[HPCC_RECORD_LEN];

	hpcc_record_encode(got, &r);
	assert_memory_equal(got, want, sizeof(want));
}

TEST(record_encode__truncates_counters_to_20_bits)
{
	const struct hpcc_record wide = { .hop = 0x1f, .ts = ~0U, .tx = 1U << 20, .qlen = ~0U };
	u8 p[HPCC_RECORD_LEN] = {};
	struct hpcc_record r;

	hpcc_record_decode(p, &r);
	assert_int_equal(r.hop, 0);		/* zeroes are a free slot */
	hpcc_record_encode(p, &wide);
	hpcc_record_decode(p, &r);
	assert_int_equal(r.hop, 15);
	assert_int_equal(r.tag, 0);
	assert_int_equal(r.ts, HPCC_COUNTER_MASK);
	assert_int_equal(r.tx, 0);
	assert_int_equal(r.qlen, HPCC_QLEN_MAX);
}

static u64 identity_bps(u64 bps)
{
	struct hpcc_identity id = { .hop = 1, .bps = bps };
	u8 p[HPCC_RECORD_LEN];

	hpcc_identity_encode(p, &id);
	hpcc_identity_unpack(get_unaligned_be64(p), &id);
	return id.bps;
}

TEST(identity_encode__layout)
{
	const struct hpcc_identity id = { 3, .node = 0x12345, .port = 0x6789, .bps = GBIT_100 };
	/* 100 Gbit/s = 100,000 x 10^6: exponent 1, mantissa 0x186a0 */
	static const u8 want[] = { 0x31, 0x23, 0x45, 0x67, 0x89, 0x41, 0x86, 0xa0 };
	u8 got[HPCC_RECORD_LEN];

	hpcc_identity_encode(got, &id);
	assert_memory_equal(got, want, sizeof(want));
}

TEST(identity_encode__rounds_once_to_nearest)
{
	static const struct { u64 bps, want; } cases[] = {
		{ 0, 0 }, { 499, 0 }, { 500, 1000 }, { 4194303499, 4194303000 },
		{ 4194303500, 4194000000 }, { 5000499999, 5000000000 }, { 5000500000, 5001000000 },
		/* rounded to kbit/s first it would end in 500, which would round up */
		{ 5000000499600, 5000000000000 },
		{ ~0ULL, 4194303000000000000ULL },
		{ 5000000000000000000ULL, 4194303000000000000ULL },
	};
	static const u64 exact[] = {
		1000, 10000000, 100000000, 1000000000, 2500000000, 10000000000, 25000000000,
		40000000000, 100000000000, 400000000000, 800000000000, 1600000000000,
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(identity_bps(cases[i].bps), cases[i].want);
	for (u32 i = 0; i < ARRAY_SIZE(exact); i++)
		assert_int_equal(identity_bps(exact[i]), exact[i]);
}

TEST(identity_encode__relative_error)
{
	for (int i = 0; i < 100000; i++) {
		u64 bps = random_below(4194303499999999ULL >> random_below(40));
		u64 got = identity_bps(bps);
		u64 error = got > bps ? got - bps : bps - got;

		/* half a unit; the mantissa is at least 4194 if the unit is above 1000 */
		assert_true(error <= 500 || error <= bps / (2 * 4193));
	}
}

TEST(identity_encode__truncates_large_numbers)
{
	struct hpcc_identity id = { .hop = 0xff, .node = ~0U, .port = ~0U };
	u8 p[HPCC_RECORD_LEN];

	hpcc_identity_encode(p, &id);
	hpcc_identity_unpack(get_unaligned_be64(p), &id);
	assert_int_equal(id.hop, 15);
	assert_int_equal(id.node, HPCC_NODE_MAX);
	assert_int_equal(id.port, HPCC_PORT_MAX);
	assert_true(id.bps == 0);
}

TEST(report_flows__takes_N_only)
{
	for (u32 N = 1; N <= HPCC_REPORT_N_MAX; N++)
		assert_int_equal(hpcc_report_flows(hpcc_report_pack(HPCC_REPORT_FLOWS, N)), N);
	assert_int_equal(hpcc_report_flows(hpcc_report_pack(HPCC_REPORT_FLOWS, 0)), 0);
	assert_int_equal(hpcc_report_flows(hpcc_report_pack(HPCC_REPORT_FLOWS, 0xffff)), 0);
	for (u32 bit = 16; bit < 64; bit++)
		assert_int_equal(hpcc_report_flows(hpcc_report_pack(HPCC_REPORT_FLOWS, 7) ^
						   1ULL << bit), 0);
}

TEST(opt_encode__layout)
{
	const struct hpcc_opt opt = { HPCC_OPT_ECHO, 17, .hops = 5, .flags = 0xb, .nr = 2 };
	static const u8 want[] = { KIND, 20, 0x51, 0x5b, 0xee };
	u8 got[5] = { 0, 0, 0, 0, 0xee };

	hpcc_opt_encode(got, KIND, &opt);
	assert_memory_equal(got, want, sizeof(want));
	assert_int_equal(hpcc_opt_len(0), 4);
	assert_int_equal(hpcc_opt_len(3), 28);
	assert_int_equal(hpcc_opt_len(HPCC_OPT_RECORDS_MAX), 36);
}

TEST(opt_decode__every_length)
{
	static const u8 type_0[HPCC_OPT_HEAD_LEN] = { KIND, 4, 0x1f, 0xff };
	const struct hpcc_opt opt = { .type = HPCC_OPT_FORWARD };
	u8 head[HPCC_OPT_HEAD_LEN];
	struct hpcc_opt got;

	hpcc_opt_encode(head, KIND, &opt);
	for (u32 len = 0; len < 256; len++) {
		bool good = len <= 36 && len % 8 == 4;
		u8 *p = heap_copy(head, min_t(u32, len, sizeof(head)));

		assert_int_equal(hpcc_opt_decode(p, len, &got), good ? 0 : -EINVAL);
		if (good)
			assert_int_equal(got.nr, (len - 4) / 8);
		free(p);
	}
	assert_int_equal(hpcc_opt_decode(type_0, 4, &got), -EINVAL);
}

/* Linux's options of a data segment, our first option, another option, our second option. */
static const u8 walk[] = {
	1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2,
	KIND, 4, 0x20, 0,
	1, 5, 10, 9, 9, 9, 9, 9, 9, 9, 9,
	KIND, 4, 0x40, 0,
	0, KIND, 4,
};

/* End of the option that was found last. */
static u32 pos;

static int first_opt(const u8 *opts, u32 len, u8 kind)
{
	pos = 0;
	return hpcc_opt_next(opts, len, &pos, kind);
}

/* Return the result for an option with these words. */
static u32 misfits(u8 type, u8 hops, const u64 *words, u8 nr)
{
	const struct hpcc_opt opt = { .type = type, .hops = hops, .nr = nr };
	u8 records[HPCC_OPT_RECORDS_MAX * HPCC_RECORD_LEN];

	for (u8 i = 0; i < nr; i++)
		put_unaligned_be64(words[i], records + i * HPCC_RECORD_LEN);
	return hpcc_opt_misfits(&opt, records);
}

#define HOP(n)		((u64)(n) << 60 | 5)
#define QUIET(map)	((u64)(map) << 45)

TEST(opt_misfits__numbers_of_hops)
{
	/* Each hop once; free slots; quiet hops. A slot of a request is all zeroes, or a record. */
	static const u64 lists[][4] = {
		{ HOP(1), HOP(15), HOP(7), HOP(1) }, { HOP(1), 0, 0, 1 },
		{ HOP(1), QUIET(6), HOP(3), QUIET(8) },
	};
	static const struct { u8 list, type, hops, nr, want; } cases[] = {
		{ 1, HPCC_OPT_FORWARD, 1, 3, 0 }, { 1, HPCC_OPT_IDENTIFY, 1, 3, 0 },
		{ 1, HPCC_OPT_ECHO, 1, 3, 2 }, { 1, HPCC_OPT_IDENTIFY_ECHO, 1, 3, 2 },
		{ 1, HPCC_OPT_FORWARD, 1, 4, 1 },
		{ 2, HPCC_OPT_ECHO, 3, 2, 0 }, { 2, HPCC_OPT_ECHO, 2, 2, 1 },
		{ 2, HPCC_OPT_ECHO, 3, 3, 1 }, { 2, HPCC_OPT_ECHO, 4, 4, 1 },
		{ 2, HPCC_OPT_FORWARD, 3, 2, 1 }, { 2, HPCC_OPT_IDENTIFY_ECHO, 3, 2, 1 },
	};
	/* for each type and the first list: the number of hops, the number of slots, the result */
	static const u8 any_type[][3] = {
		{ 15, 0, 0 }, { 15, 3, 0 }, { 15, 4, 1 }, { 14, 3, 1 }, { 6, 3, 2 }, { 0, 3, 3 },
	};

	for (u8 type = HPCC_OPT_FORWARD; type <= HPCC_OPT_IDENTIFY_ECHO; type++)
		for (u32 i = 0; i < ARRAY_SIZE(any_type); i++)
			assert_int_equal(misfits(type, any_type[i][0], lists[0], any_type[i][1]),
					 any_type[i][2]);
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(misfits(cases[i].type, cases[i].hops, lists[cases[i].list],
					 cases[i].nr), cases[i].want);
}

TEST(opt_next__finds_each)
{
	assert_int_equal(first_opt(walk, sizeof(walk), KIND), 12);
	assert_int_equal(pos, 16);
	assert_int_equal(hpcc_opt_next(walk, sizeof(walk), &pos, KIND), 27);
	assert_int_equal(pos, 31);
	/* bytes after the end of the list are not an option */
	for (u32 i = 0; i < 2; i++) {
		assert_int_equal(hpcc_opt_next(walk, sizeof(walk), &pos, KIND), -ENOENT);
		assert_int_equal(pos, sizeof(walk));
	}
	assert_int_equal(first_opt(walk, sizeof(walk), 5), 17);
	assert_int_equal(pos, 27);
	assert_int_equal(first_opt(walk, sizeof(walk), 254), -ENOENT);
}

TEST(opt_next_of__either_kind)
{
	pos = 0;
	assert_int_equal(hpcc_opt_next_of(walk, sizeof(walk), &pos, 254, 5), 17);
	pos = 0;
	assert_int_equal(hpcc_opt_next_of(walk, sizeof(walk), &pos, KIND, 5), 12);
	assert_int_equal(hpcc_opt_next_of(walk, sizeof(walk), &pos, KIND, 5), 17);
	assert_int_equal(pos, 27);
}

TEST(opt_next__lengths)
{
	/* The usual first options (NOP, NOP, timestamps) are skipped at once, within the end. */
	static const struct { u8 opts[20], len; int want; u32 pos; } cases[] = {
		{ { 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2 }, 12, -ENOENT, 12 },
		{ { 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2 }, 11, -EINVAL, 0 },
		{ { 1, 1, 8, 11, KIND, 4, 1, 1, 1, 1, 1, 1, 1 }, 13, -ENOENT, 13 },
		{ { 9, 4, 0, 0, 1, 1, 8, 10, KIND, 4, 1, 1, 1, 1, 1, 1, KIND, 4, 0, 0 },
		  20, 16, 20 },
		/* no options, only NOPs, a length below 2, and the smallest length */
		{ {}, 0, -ENOENT, 0 }, { { 1, 1, 1, 1 }, 4, -ENOENT, 4 },
		{ { 8, 0, 1, 1 }, 4, -EINVAL, 0 }, { { KIND, 1, 1, 1 }, 4, -EINVAL, 0 },
		{ { KIND, 2, 1, 1 }, 4, 0, 2 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		u8 *opts = heap_copy(cases[i].opts, cases[i].len);

		assert_int_equal(first_opt(opts, cases[i].len, KIND), cases[i].want);
		assert_int_equal(pos, cases[i].pos);
		free(opts);
	}
}

TEST(syn_opt_encode__layout)
{
	static const u8 want[] = { KIND, 6, 0x48, 0x43, 0x10, 1, 0xee };
	u8 got[] = { 0, 0, 0, 0, 0, 0, 0xee };

	hpcc_syn_opt_encode(got, KIND, EXID, HPCC_CAP_TELEMETRY);
	assert_memory_equal(got, want, sizeof(want));
	for (u32 exid = 0; exid <= 0xffff; exid += 251)
		for (u32 caps = 0; caps < 256; caps++) {
			hpcc_syn_opt_encode(got, KIND, exid, caps);
			assert_int_equal(hpcc_syn_opt_find(got, 6, KIND, exid), caps);
		}
}

/* Call hpcc_syn_opt_find() with a buffer that ends at the end of the options. */
static int syn_find(const u8 *opts, u32 len)
{
	u8 *p = heap_copy(opts, len);
	int caps = hpcc_syn_opt_find(p, len, KIND, EXID);

	free(p);
	return caps;
}

TEST(syn_opt_find__not_ours)
{
	u8 p[HPCC_SYN_OPT_LEN];

	hpcc_syn_opt_encode(p, KIND, EXID, 1);
	assert_int_equal(syn_find(p, 6), 1);
	assert_int_equal(hpcc_syn_opt_find(p, 6, KIND, EXID ^ 1), -ENOENT);
	assert_int_equal(hpcc_syn_opt_find(p, 6, KIND, EXID ^ 0x100), -ENOENT);
	assert_int_equal(hpcc_syn_opt_find(p, 6, KIND ^ 1, EXID), -ENOENT);
	p[4] = (HPCC_OPT_VERSION + 1) << 4;
	assert_int_equal(syn_find(p, 6), -EINVAL);
	/* the low half of this byte contains more capabilities */
	p[4] = HPCC_OPT_VERSION << 4 | 0xf;
	assert_int_equal(syn_find(p, 6), 0xf01);
	hpcc_syn_opt_encode(p, KIND, EXID, HPCC_CAP_CSIG | 1);
	assert_int_equal(p[4], HPCC_OPT_VERSION << 4 | 1);
	assert_int_equal(syn_find(p, 6), HPCC_CAP_CSIG | 1);
}

TEST(syn_opt_find__every_length)
{
	u8 opts[40] = {};

	for (u32 len = 2; len <= 40; len++) {
		hpcc_syn_opt_encode(opts, KIND, EXID, 1);
		opts[1] = len;
		assert_int_equal(syn_find(opts, len), len < 4 ? -ENOENT : len == 6 ? 1 : -EINVAL);
		/* truncated */
		assert_int_equal(syn_find(opts, len - 1), -EINVAL);
	}
	assert_int_equal(syn_find(opts, 0), -ENOENT);
}

/* TCP Fast Open and SMC have used the same kind. */
TEST(syn_opt_find__beside_others)
{
	static const u8 others[] = {
		KIND, 4, 0xf9, 0x89, KIND, 6, 0xe2, 0xd4, 0xc3, 0xd9, KIND, 2,
		2, 4, 5, 0xb4,
	};
	u8 opts[sizeof(others) + HPCC_SYN_OPT_LEN];

	memcpy(opts, others, sizeof(others));
	hpcc_syn_opt_encode(opts + sizeof(others), KIND, EXID, 7);
	assert_int_equal(syn_find(opts, sizeof(others)), -ENOENT);
	assert_int_equal(syn_find(opts, sizeof(opts)), 7);
	hpcc_syn_opt_encode(opts, KIND, EXID, 9);
	memcpy(opts + HPCC_SYN_OPT_LEN, others, sizeof(others));
	assert_int_equal(syn_find(opts, sizeof(opts)), 9);
	/* If an option exceeds the header, the options after it are not found. */
	opts[1] = 250;
	assert_int_equal(syn_find(opts, sizeof(opts)), -EINVAL);
}
