// SPDX-License-Identifier: GPL-2.0
/*
 * CSIG (<hpcc/carrier/csig.h>): any frame, any option, any signals. A tag that is found is
 * inside the frame. A port changes only S and LM, and only to a worse value. The checksum stays
 * correct when the tag is popped into the option. A sender derives a record from signals.
 *
 * Input: units, a port's fields, then bytes, which are used as a frame, a packet, and signals.
 */
#include "fuzz.h"
#include <hpcc/carrier/csig.h>

#define FIELDS	24

static void write_tag(u8 *p, const struct hpcc_csig_hop *hop, const struct hpcc_csig_units *units)
{
	u16 before = get_unaligned_be16(p + 2);
	int ret = hpcc_csig_write(p, hop, units);
	u16 after = get_unaligned_be16(p + 2);

	expect(ret == HPCC_STAMP_WRITTEN || after == before);
	expect((before & HPCC_CSIG_KEEP) == (after & HPCC_CSIG_KEEP));
	if (ret != HPCC_STAMP_WRITTEN)
		return;
	expect(HPCC_CSIG_LM(after) == hop->locator);
	if (HPCC_CSIG_LM(before) && HPCC_CSIG_T(before) == HPCC_CSIG_ABW_C)
		expect(HPCC_CSIG_S(after) < HPCC_CSIG_S(before));
	else if (HPCC_CSIG_LM(before))
		expect(HPCC_CSIG_S(after) > HPCC_CSIG_S(before));
	expect(hpcc_csig_write(p, hop, units) == HPCC_STAMP_QUIET);
}

static void pop(const u8 *data, size_t size, u16 tag)
{
	u8 *p = fuzz_copy(data, size);
	struct hpcc_frame frame = {
		.p = p, .have = size, .len = size, .proto = ETH_P_IP,
	};
	struct hpcc_opt_location place;

	if (hpcc_walk(&frame, HPCC_OPT_KIND_DEFAULT, &place) == HPCC_WALK_FOUND) {
		u32 n = (place.end - place.tcp) & ~1U;
		u16 sum = csum_fold(csum_partial(p + place.tcp, n, 0));
		bool done = hpcc_csig_pop(p, &place, tag, true);

		if (done)
			expect(get_unaligned_be64(p + place.opt + HPCC_OPT_HEAD_LEN) ==
			       hpcc_csig_record(tag, true));
		else
			expect(!memcmp(p, data, size));
		/* In ones' complement 0 and 0xffff are the same sum. */
		expect((u16)(csum_fold(csum_partial(p + place.tcp, n, 0)) % 0xffff) ==
		       (u16)(sum % 0xffff));
		expect(hpcc_csig_pop(p, &place, tag, false) == done);
	}
	free(p);
}

static void follow(const u8 *p, size_t size, const struct hpcc_csig_units *units, u8 scale)
{
	struct hpcc_opt opt = { .type = HPCC_OPT_REPORT, .nr = 1 };
	struct hpcc_csig_path path = { .ask = HPCC_CSIG_QLEN };
	u64 now_ns = 1;
	u8 record[8];

	for (; size >= 4; p += 4, size -= 4) {
		u16 tag = get_unaligned_be16(p);
		struct hpcc_record r;
		u64 tx_ns = path.tx_ns;
		u64 step = 1 + ((u64)p[2] << (p[3] & 31));
		int ret;

		put_unaligned_be64(hpcc_csig_report(tag), record);
		expect(hpcc_csig_reported(&opt, record) == tag);
		now_ns += step;
		ret = hpcc_csig_take(&path, tag, units, now_ns, scale, &r);
		expect(ret <= 1 && path.tx_ns - tx_ns <= HPCC_INT_SPAN_NS);
		expect(path.ask == HPCC_CSIG_ABW_C || path.ask == HPCC_CSIG_QLEN);
		expect(ret <= 0 || (r.hop == 1 && r.ts <= HPCC_COUNTER_MASK &&
				    r.tx <= HPCC_COUNTER_MASK));
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct hpcc_csig_units units;
	struct hpcc_csig_hop hop;
	size_t have;
	int at;
	u8 *p;

	if (size < FIELDS)
		return 0;
	units = hpcc_csig_units(1 + get_unaligned_be16(data) % HPCC_CSIG_ABW_MAX,
				1 + (get_unaligned_be32(data + 2) >> 12) % HPCC_CSIG_TIME_MAX_NS);
	hop = (struct hpcc_csig_hop){
		.abw_q30 = get_unaligned_be32(data + 6) & HPCC_INT_UTIL_ONE ? HPCC_INT_UTIL_ONE :
			   get_unaligned_be32(data + 6) & (HPCC_INT_UTIL_ONE - 1),
		.pd_ns = get_unaligned_be32(data + 10), .qlen_ns = get_unaligned_be64(data + 14),
		.has_pd = data[22] & 1, .locator = hpcc_csig_locator(data[23], data[22]),
	};
	expect(hop.locator && hop.locator <= HPCC_CSIG_LOCATORS);
	expect(HPCC_CSIG_LM(hpcc_csig_ask(data[22] & 7)) == 0);
	data += FIELDS;
	size -= FIELDS;
	have = min_t(size_t, size, HPCC_CSIG_WALK);
	p = fuzz_copy(data, have);
	at = hpcc_csig_find(p, have, HPCC_CSIG_TPID_DEFAULT);
	if (at >= 0) {
		expect((size_t)at + HPCC_CSIG_LEN + 2 <= have);
		write_tag(p + at, &hop, &units);
		expect(!memcmp(p, data, at + 2) &&
		       !memcmp(p + at + 4, data + at + 4, have - at - 4));
	} else {
		expect(at == -ENOENT);
	}
	free(p);
	pop(data, size, hop.qlen_ns);
	follow(data, size, &units, hop.pd_ns & 31);
	return 0;
}
