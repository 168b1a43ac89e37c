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
	assert_int_equal(hpcc_scale_for(0), 0);
	assert_int_equal(hpcc_scale_for(1000), 0);
	assert_int_equal(hpcc_scale_for(8191), 0);
	assert_int_equal(hpcc_scale_for(8192), 1);
	assert_int_equal(hpcc_scale_for(16383), 1);
	assert_int_equal(hpcc_scale_for(16384), 2);
	assert_int_equal(hpcc_scale_for(1000000000), 17);
	assert_int_equal(hpcc_scale_for(~0ULL), HPCC_SCALE_MAX);
}

TEST(link_tag__tells_ports_and_nodes_apart)
{
	u32 same = 0;

	for (u32 port = 1; port < 64; port++)
		same += hpcc_link_tag(7, port) == hpcc_link_tag(7, 0);
	for (u32 node = 1; node < 64; node++)
		same += hpcc_link_tag(node, 3) == hpcc_link_tag(0, 3);
	/* 126 pairs, each equal by chance with a probability of 1/256 */
	assert_in_range(same, 0, 4);
}

TEST(link_tag__uses_all_256)
{
	u8 used[256] = { 0 };
	u32 n = 0;

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
	assert_int_equal(hpcc_qlen_encode(HPCC_QLEN_MAX), 0xfff);
	assert_int_equal(hpcc_qlen_encode(HPCC_QLEN_MAX + 1ULL), 0xfff);
	assert_int_equal(hpcc_qlen_encode(~0ULL), 0xfff);
	for (int i = 0; i < 10000; i++) {
		u64 units = random_magnitude();

		if (units > HPCC_QLEN_MAX)
			assert_int_equal(hpcc_qlen_encode(units), 0xfff);
	}
}

TEST(qlen_encode__carries_into_the_exponent)
{
	assert_int_equal(hpcc_qlen_encode(1021), 0x2ff);
	assert_int_equal(hpcc_qlen_encode(1022), 0x2ff);
	assert_int_equal(hpcc_qlen_encode(1023), 0x300);
	assert_int_equal(hpcc_qlen_decode(0x300), 1024);
}

TEST(qlen_decode__every_code_encodes_to_itself)
{
	for (u32 code = 0; code < 1U << HPCC_QLEN_BITS; code++)
		assert_int_equal(hpcc_qlen_encode(hpcc_qlen_decode(code)), code);
}

TEST(qlen_decode__ignores_higher_bits)
{
	assert_int_equal(hpcc_qlen_decode(0xfffff123), hpcc_qlen_decode(0x123));
	assert_int_equal(hpcc_qlen_decode(~0U), HPCC_QLEN_MAX);
}

TEST(counter_extend__ahead_and_behind)
{
	const u64 last = 5ULL << HPCC_COUNTER_BITS | 1000;

	assert_true(hpcc_counter_extend(last, 1000) == last);
	assert_true(hpcc_counter_extend(last, 1001) == last + 1);
	assert_true(hpcc_counter_extend(last, 999) == last - 1);
	assert_true(hpcc_counter_extend(last, 1000 + (1 << 19) - 1) == last + (1 << 19) - 1);
	assert_true(hpcc_counter_extend(last, 1000 + (1 << 19)) == last - (1 << 19));
}

TEST(counter_extend__across_the_wrap)
{
	const u64 wrap = 7ULL << HPCC_COUNTER_BITS;

	assert_true(hpcc_counter_extend(wrap - 1, 0) == wrap);
	assert_true(hpcc_counter_extend(wrap - 1, 5) == wrap + 5);
	assert_true(hpcc_counter_extend(wrap, HPCC_COUNTER_MASK) == wrap - 1);
	assert_true(hpcc_counter_extend(wrap + 3, HPCC_COUNTER_MASK - 1) == wrap - 2);
}

TEST(record_encode__layout)
{
	const struct hpcc_record r = { 0xa, 0xbc, .ts = 0x12345, .tx = 0x6789a, .qlen = 0xde };
	static const u8 want[] = { 0xab, 0xc1, 0x23, 0x45, 0x67, 0x89, 0xa0, 0xde };
	u8 got[HPCC_RECORD_LEN];

	hpcc_record_encode(got, &r);
	assert_memory_equal(got, want, sizeof(want));
}

TEST(record_encode__cuts_counters_off_at_20_bits)
{
	const struct hpcc_record wide = { .hop = 0x1f, .ts = ~0U, .tx = 1U << 20, .qlen = ~0U };
	u8 p[HPCC_RECORD_LEN];
	struct hpcc_record r;

	hpcc_record_encode(p, &wide);
	hpcc_record_decode(p, &r);
	assert_int_equal(r.hop, 15);
	assert_int_equal(r.tag, 0);
	assert_int_equal(r.ts, HPCC_COUNTER_MASK);
	assert_int_equal(r.tx, 0);
	assert_int_equal(r.qlen, HPCC_QLEN_MAX);
}

TEST(record_decode__zero_is_a_free_slot)
{
	static const u8 zero[HPCC_RECORD_LEN];
	struct hpcc_record r;

	hpcc_record_decode(zero, &r);
	assert_int_equal(r.hop, 0);
}

static u64 identity_bps(u64 bps)
{
	struct hpcc_identity id = { .hop = 1, .bps = bps };
	u8 p[HPCC_RECORD_LEN];

	hpcc_identity_encode(p, &id);
	hpcc_identity_decode(p, &id);
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

TEST(identity_encode__real_rates_are_exact)
{
	static const u64 rates[] = {
		1000, 10000000, 100000000, 1000000000, 2500000000, 10000000000, 25000000000,
		40000000000, 100000000000, 400000000000, 800000000000, 1600000000000,
	};

	for (u32 i = 0; i < ARRAY_SIZE(rates); i++)
		assert_true(identity_bps(rates[i]) == rates[i]);
}

TEST(identity_encode__rounds_once_to_nearest)
{
	assert_true(identity_bps(0) == 0);
	assert_true(identity_bps(499) == 0);
	assert_true(identity_bps(500) == 1000);
	assert_true(identity_bps(4194303499) == 4194303000);
	assert_true(identity_bps(4194303500) == 4194000000);
	assert_true(identity_bps(5000499999) == 5000000000);
	assert_true(identity_bps(5000500000) == 5001000000);
	/* rounded to kbit/s first it would end in 500, which would round up */
	assert_true(identity_bps(5000000499600) == 5000000000000);
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

TEST(identity_encode__saturates)
{
	assert_true(identity_bps(~0ULL) == 4194303000000000000ULL);
	assert_true(identity_bps(5000000000000000000ULL) == 4194303000000000000ULL);
}

TEST(identity_encode__cuts_off_what_does_not_fit)
{
	struct hpcc_identity id = { .hop = 0xff, .node = ~0U, .port = ~0U };
	u8 p[HPCC_RECORD_LEN];

	hpcc_identity_encode(p, &id);
	hpcc_identity_decode(p, &id);
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

TEST(opt_len__per_slot)
{
	assert_int_equal(hpcc_opt_len(0), 4);
	assert_int_equal(hpcc_opt_len(3), 28);
	assert_int_equal(hpcc_opt_len(HPCC_OPT_RECORDS_MAX), 36);
}

TEST(opt_encode__layout)
{
	const struct hpcc_opt opt = { HPCC_OPT_ECHO, 17, .hops = 5, .flags = 0xb, .nr = 2 };
	static const u8 want[] = { KIND, 20, 0x51, 0x5b, 0xee };
	u8 got[5] = { 0, 0, 0, 0, 0xee };

	hpcc_opt_encode(got, KIND, &opt);
	assert_memory_equal(got, want, sizeof(want));
}

TEST(opt_decode__every_length)
{
	for (u32 len = 0; len < 256; len++) {
		const struct hpcc_opt opt = { .type = HPCC_OPT_FORWARD };
		u8 head[HPCC_OPT_HEAD_LEN];
		struct hpcc_opt got;
		bool good = len <= 36 && len % 8 == 4;
		u8 *p;

		hpcc_opt_encode(head, KIND, &opt);
		p = heap_copy(head, len < sizeof(head) ? len : sizeof(head));
		assert_int_equal(hpcc_opt_decode(p, len, &got), good ? 0 : -EINVAL);
		if (good)
			assert_int_equal(got.nr, (len - 4) / 8);
		free(p);
	}
}

TEST(opt_decode__type_0)
{
	static const u8 p[HPCC_OPT_HEAD_LEN] = { KIND, 4, 0x1f, 0xff };
	struct hpcc_opt opt;

	assert_int_equal(hpcc_opt_decode(p, 4, &opt), -EINVAL);
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

TEST(opt_misfits__each_hop_once)
{
	static const u64 words[] = { HOP(1), HOP(15), HOP(7), HOP(1) };

	for (u8 type = HPCC_OPT_FORWARD; type <= HPCC_OPT_IDENTIFY_ECHO; type++) {
		assert_int_equal(misfits(type, 15, words, 0), 0);
		assert_int_equal(misfits(type, 15, words, 3), 0);
		assert_int_equal(misfits(type, 15, words, 4), 1);
		assert_int_equal(misfits(type, 14, words, 3), 1);
		assert_int_equal(misfits(type, 6, words, 3), 2);
		assert_int_equal(misfits(type, 0, words, 3), 3);
	}
}

TEST(opt_misfits__free_slots_of_requests)
{
	static const u64 words[] = { HOP(1), 0, 0, 1 };

	assert_int_equal(misfits(HPCC_OPT_FORWARD, 1, words, 3), 0);
	assert_int_equal(misfits(HPCC_OPT_IDENTIFY, 1, words, 3), 0);
	assert_int_equal(misfits(HPCC_OPT_ECHO, 1, words, 3), 2);
	assert_int_equal(misfits(HPCC_OPT_IDENTIFY_ECHO, 1, words, 3), 2);
	/* A slot is all zeroes, or a record. */
	assert_int_equal(misfits(HPCC_OPT_FORWARD, 1, words, 4), 1);
}

TEST(opt_misfits__quiet_hops_of_echoes)
{
	static const u64 words[] = { HOP(1), QUIET(6), HOP(3), QUIET(8) };

	assert_int_equal(misfits(HPCC_OPT_ECHO, 3, words, 2), 0);
	assert_int_equal(misfits(HPCC_OPT_ECHO, 2, words, 2), 1);
	assert_int_equal(misfits(HPCC_OPT_ECHO, 3, words, 3), 1);
	assert_int_equal(misfits(HPCC_OPT_ECHO, 4, words, 4), 1);
	assert_int_equal(misfits(HPCC_OPT_FORWARD, 3, words, 2), 1);
	assert_int_equal(misfits(HPCC_OPT_IDENTIFY_ECHO, 3, words, 2), 1);
}

TEST(opt_next__finds_each)
{
	assert_int_equal(first_opt(walk, sizeof(walk), KIND), 12);
	assert_int_equal(pos, 16);
	assert_int_equal(hpcc_opt_next(walk, sizeof(walk), &pos, KIND), 27);
	assert_int_equal(pos, 31);
	/* bytes after the end of the list are not an option */
	assert_int_equal(hpcc_opt_next(walk, sizeof(walk), &pos, KIND), -ENOENT);
	assert_int_equal(pos, sizeof(walk));
	assert_int_equal(hpcc_opt_next(walk, sizeof(walk), &pos, KIND), -ENOENT);
}

TEST(opt_next__other_kinds)
{
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

/* The usual first options (NOP, NOP, timestamps) are skipped as a whole, and not beyond the end. */
TEST(opt_next__timestamps)
{
	static const u8 alone[] = { 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2 };
	static const u8 longer[] = { 1, 1, 8, 11, KIND, 4, 1, 1, 1, 1, 1, 1, 1 };
	static const u8 at_8[] = {
		9, 4, 0, 0, 1, 1, 8, 10, KIND, 4, 1, 1, 1, 1, 1, 1, KIND, 4, 0, 0,
	};

	assert_int_equal(first_opt(alone, sizeof(alone), KIND), -ENOENT);
	assert_int_equal(pos, 12);
	assert_int_equal(first_opt(alone, 11, KIND), -EINVAL);
	assert_int_equal(first_opt(longer, sizeof(longer), KIND), -ENOENT);
	assert_int_equal(first_opt(at_8, sizeof(at_8), KIND), 16);
}

TEST(opt_next__no_options)
{
	static const u8 nops[] = { 1, 1, 1, 1 };
	u8 *none = heap_copy(nops, 0);

	assert_int_equal(first_opt(none, 0, KIND), -ENOENT);
	free(none);
	assert_int_equal(first_opt(nops, sizeof(nops), KIND), -ENOENT);
}

TEST(opt_next__length_under_2)
{
	static const u8 len0[] = { 8, 0, 1, 1 };
	static const u8 len1[] = { KIND, 1, 1, 1 };
	static const u8 len2[] = { KIND, 2, 1, 1 };

	assert_int_equal(first_opt(len0, 4, KIND), -EINVAL);
	assert_int_equal(hpcc_opt_next(len1, 4, &pos, KIND), -EINVAL);
	assert_int_equal(pos, 0);
	assert_int_equal(hpcc_opt_next(len2, 4, &pos, KIND), 0);
	assert_int_equal(pos, 2);
}

TEST(syn_opt_encode__layout)
{
	static const u8 want[] = { KIND, 6, 0x48, 0x43, 0x10, 1, 0xee };
	u8 got[] = { 0, 0, 0, 0, 0, 0, 0xee };

	hpcc_syn_opt_encode(got, KIND, EXID, HPCC_CAP_TELEMETRY);
	assert_memory_equal(got, want, sizeof(want));
}

/* Call hpcc_syn_opt_find() with a buffer that ends at the end of the options. */
static int syn_find(const u8 *opts, u32 len)
{
	u8 *p = heap_copy(opts, len);
	int caps = hpcc_syn_opt_find(p, len, KIND, EXID);

	free(p);
	return caps;
}

TEST(syn_opt_find__round_trip)
{
	for (u32 exid = 0; exid <= 0xffff; exid += 251)
		for (u32 caps = 0; caps < 256; caps++) {
			u8 p[HPCC_SYN_OPT_LEN];

			hpcc_syn_opt_encode(p, KIND, exid, caps);
			assert_int_equal(hpcc_syn_opt_find(p, sizeof(p), KIND, exid), caps);
		}
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
		/* cut short */
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
