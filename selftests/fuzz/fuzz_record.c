// SPDX-License-Identifier: GPL-2.0
/*
 * The codecs of <hpcc/wire/record.h> and <hpcc/wire/histogram.h>: decoding and encoding gives the
 * same bytes, and encoding and decoding gives the same numbers, with the precision that the header
 * states.
 *
 * Input: 8 bytes of a record, then numbers.
 */
#include "fuzz.h"
#include <hpcc/law/response.h>
#include <hpcc/wire/histogram.h>

#define HOP(v) ((v) & 0xf)

/* Every bit pattern is a record. */
static void record_bytes(const u8 *p)
{
	struct hpcc_record r;
	u8 again[HPCC_RECORD_LEN];

	hpcc_record_decode(p, &r);
	expect(r.hop <= HPCC_HOPS_MAX);
	expect(r.ts <= HPCC_COUNTER_MASK && r.tx <= HPCC_COUNTER_MASK);
	expect(r.qlen <= HPCC_QLEN_MAX);
	expect(hpcc_slot_hop(p) == r.hop);
	hpcc_record_encode(again, &r);
	expect(!memcmp(p, again, sizeof(again)));
}

/* B has more than one code; hop, node and port have one. */
static void identity_bytes(const u8 *p)
{
	struct hpcc_identity id, id2;
	u8 again[HPCC_RECORD_LEN], third[HPCC_RECORD_LEN];

	hpcc_identity_unpack(get_unaligned_be64(p), &id);
	hpcc_identity_encode(again, &id);
	expect(!memcmp(p, again, 5));
	expect(hpcc_slot_hop(p) == id.hop);
	hpcc_identity_unpack(get_unaligned_be64(again), &id2);
	expect(id.hop == id2.hop && id.node == id2.node &&
	       id.port == id2.port && id.bps == id2.bps);
	hpcc_identity_encode(third, &id2);
	expect(!memcmp(again, third, sizeof(third)));
}

static void record_numbers(struct fuzz_input *in)
{
	u8 p[HPCC_RECORD_LEN];
	struct hpcc_record r, got;
	u64 qlen, error;

	r.hop = fuzz_take(in, 1);
	r.tag = fuzz_take(in, 1);
	r.ts = fuzz_take(in, 4);
	r.tx = fuzz_take(in, 4);
	r.qlen = fuzz_take_any(in);
	hpcc_record_encode(p, &r);
	hpcc_record_decode(p, &got);
	expect(got.hop == HOP(r.hop) && got.tag == r.tag);
	expect(got.ts == (r.ts & HPCC_COUNTER_MASK));
	expect(got.tx == (r.tx & HPCC_COUNTER_MASK));
	qlen = min_t(u64, r.qlen, HPCC_QLEN_MAX);
	error = got.qlen > qlen ? got.qlen - qlen : qlen - got.qlen;
	expect(error * 512 <= qlen);
	expect(qlen >= 512 || !error);
}

static void identity_numbers(struct fuzz_input *in)
{
	const u64 most = HPCC_IDENTITY_MANT_MAX * 1000000000000ULL;
	u8 p[HPCC_RECORD_LEN];
	struct hpcc_identity id, got;
	u64 error;

	id.hop = fuzz_take(in, 1);
	id.node = fuzz_take(in, 4);
	id.port = fuzz_take(in, 4);
	id.bps = fuzz_take_any(in);
	hpcc_identity_encode(p, &id);
	hpcc_identity_unpack(get_unaligned_be64(p), &got);
	expect(got.hop == HOP(id.hop));
	expect(got.node == (id.node & HPCC_NODE_MAX));
	expect(got.port == (id.port & HPCC_PORT_MAX));
	if (id.bps > most) {
		expect(got.bps == most);
		return;
	}
	/* half of the last digit: 1 kbit/s, or 3 decimal digits less than a mantissa of 22 bits */
	error = got.bps > id.bps ? got.bps - id.bps : id.bps - got.bps;
	expect(error <= max_t(u64, 500, id.bps / 4194304 * 500 + 500));
	if (id.bps % 1000 == 0 && id.bps / 1000 <= HPCC_IDENTITY_MANT_MAX)
		expect(!error);
	if (id.bps % 1000000 == 0 && id.bps / 1000000 <= HPCC_IDENTITY_MANT_MAX)
		expect(!error);
}

static void qlen_order(u64 a, u64 b)
{
	if (a <= b)
		expect(hpcc_qlen_encode(a) <= hpcc_qlen_encode(b));
	expect(hpcc_qlen_decode(a) == hpcc_qlen_decode(a & 0xfff));
}

static void counter(u64 last, u32 raw)
{
	u64 value = hpcc_counter_extend(last, raw);
	s64 ahead = value - last;

	expect((value & HPCC_COUNTER_MASK) == (raw & HPCC_COUNTER_MASK));
	expect(ahead >= -(1 << 19) && ahead < 1 << 19);
}

static void scale(u64 t_ns)
{
	u8 s = hpcc_scale_for(t_ns);

	expect(s <= HPCC_SCALE_MAX);
	expect(s == HPCC_SCALE_MAX || t_ns >> s < HPCC_T_UNITS_MAX);
	expect(!s || t_ns >> (s - 1) >= HPCC_T_UNITS_MAX);
}

static void report(u64 word, u16 N)
{
	u16 got = hpcc_report_flows(word);

	expect(!got || word == hpcc_report_pack(HPCC_REPORT_FLOWS, got));
	got = hpcc_report_flows(hpcc_report_pack(HPCC_REPORT_FLOWS, N));
	expect(got == (N <= HPCC_REPORT_N_MAX ? N : 0));
}

static void response(u64 a, u64 b)
{
	u64 word = hpcc_response_pack(a, b >> 12, b), last = hpcc_response_pack(b, a, a >> 7);

	expect(hpcc_response_seq(word) == (u32)a);
	expect(hpcc_response_qlen_ns(word) == (u64)hpcc_qlen_decode(b & 0xfff) << (b >> 12 & 31));
	expect(word & HPCC_RESPONSE_KNOWN && word & HPCC_RESPONSE_PENDING);
	expect(hpcc_response_is_new(0, word, a, a));
	expect(!hpcc_response_is_new(word, word, (u32)a - (u32)(b >> 32), a));
	if ((u32)a != (u32)b) {
		expect(hpcc_response_is_new(last, word, b, a));
		expect(hpcc_response_is_new(last, word, b + 1, a));
	}
}

static void histogram(u32 bytes)
{
	u32 b = hpcc_hist_bucket(bytes);

	expect(b < HPCC_HIST_BUCKETS);
	expect(b == HPCC_HIST_BUCKETS - 1 || bytes <= hpcc_hist_value(b));
	expect(!b || bytes > hpcc_hist_value(b - 1));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { data, size };
	u64 a, b;
	u8 p[HPCC_RECORD_LEN];

	put_unaligned_be64(fuzz_take(&in, 8), p);
	record_bytes(p);
	identity_bytes(p);
	record_numbers(&in);
	identity_numbers(&in);
	a = fuzz_take_any(&in);
	b = fuzz_take_any(&in);
	qlen_order(a, b);
	counter(a, b);
	scale(a);
	report(a, b);
	response(a, b);
	histogram(b);
	expect(hpcc_link_tag(a, b) == hpcc_link_tag(a & ~0U, b & ~0U));
	return 0;
}
