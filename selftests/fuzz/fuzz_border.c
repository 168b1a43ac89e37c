// SPDX-License-Identifier: GPL-2.0
/*
 * <hpcc/wire/border.h>: compare a series of records with a model that computes in 128 bits, and
 * check what may leave: ts and tx never go back, tx grows by 3/4 of the time to all of it, and in
 * whole steps of the time; qlen is a whole number of steps.
 *
 * Input: steps, a random number of 4 bytes, then events: a byte that selects one, and arguments.
 */
#include "fuzz.h"
#include <hpcc/wire/border.h>

typedef unsigned __int128 u128;

#define EVENT_RESPONSE	0x80
#define EVENT_OPTION	0x40
#define TIME_MAX	(1ULL << 57)

struct model {
	struct hpcc_record last;	/* at the start of the window */
	u64 from, tx;
	u32 steps, level;
};

static u32 model_level(const struct hpcc_record *a, const struct hpcc_record *b, u32 steps)
{
	u64 dts = (b->ts - a->ts) & 0xfffff, dtx = (b->tx - a->tx) & 0xfffff;
	u128 one = (u128)dts * 6144, u;
	u32 level = 0;

	u = (u128)(dtx < dts ? dtx : dts) * 6144;
	u += (u128)(a->qlen < b->qlen ? a->qlen : b->qlen) * dts;
	u *= steps;
	level = u / one;
	level += u % one != 0;
	while (level > steps && (level - steps) % (steps / 2))
		level++;
	return level < (3 * steps + 3) / 4 ? (3 * steps + 3) / 4 : level;
}

static void record(struct fuzz_input *in, struct hpcc_border_link *l, struct model *m, u64 *now,
		   u32 random)
{
	u64 word = fuzz_take(in, 8), was_ts = l->from, was_tx = l->tx, dts;
	struct hpcc_record r, is;
	u32 ahead;

	*now = (*now + fuzz_take_any(in)) % TIME_MAX;
	*now = *now < m->from ? m->from : *now;
	hpcc_record_unpack(word, &r);
	is = r;
	dts = (r.ts - m->last.ts) & 0xfffff;
	ahead = (dts - (*now - m->from)) & 0xfffff;
	expect(hpcc_border_fits(l, &r, *now) ==
	       (*now - m->from >= 1 << 19 || ahead < 1 << 16 || ahead >= (1 << 20) - (1 << 16)));
	hpcc_border_update(l, &is, *now, m->steps);
	if (*now - m->from >= 1 << 19 || (dts >= 2048 && dts < 1 << 19)) {
		m->level = *now - m->from >= 1 << 19 ? (3 * m->steps + 3) / 4 :
						       model_level(&m->last, &r, m->steps);
		m->tx += (u128)(*now - m->from) * (m->level < m->steps ? m->level : m->steps) /
			 m->steps;
		m->from = *now;
		m->last = r;
	}
	expect(is.hop == r.hop && is.tag == (u8)random);
	expect(is.ts == (m->from & 0xfffff) && is.tx == (m->tx & 0xfffff));
	expect(is.qlen == (m->level > m->steps ? (m->level - m->steps) * 6144ULL / m->steps : 0));
	expect(l->from >= was_ts && l->tx >= was_tx);
	expect(l->tx - was_tx <= l->from - was_ts && l->tx - was_tx >= (l->from - was_ts) / 2);
}

static void response(struct fuzz_input *in, u32 steps)
{
	u8 p[8];
	u64 was = fuzz_take(in, 8), is;
	u32 units, out;

	put_unaligned_be64(was, p);
	hpcc_border_response(p, steps);
	is = get_unaligned_be64(p);
	expect(is >> 60 == was >> 60 && !(is << 4 >> 16));
	units = hpcc_qlen_decode(was);
	out = hpcc_qlen_decode(is);
	/* rounded up, less than a step and the error of the float */
	expect(out + out / 256 + 2 >= min(units, HPCC_QLEN_MAX - HPCC_QLEN_MAX / 256));
	expect(out <= units + 6144 / 2 + units / 128 + 2);
	expect(!out == !units);
}

static void option(struct fuzz_input *in)
{
	u8 bytes[12];
	struct hpcc_opt opt;
	u32 i;

	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = fuzz_take(in, 1);
	opt.type = bytes[0] & 7;
	opt.nr = bytes[1] & 1;
	expect(hpcc_border_removes(&opt, bytes) ==
	       (opt.type == HPCC_OPT_IDENTIFY_ECHO ||
		(opt.type == HPCC_OPT_REPORT && opt.nr &&
		 (bytes[4] >> 4 == 2 || bytes[4] >> 4 == 4))));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { data, size };
	u32 steps = HPCC_QUANTIZE_MIN +
		    fuzz_take(&in, 1) % (HPCC_QUANTIZE_MAX - HPCC_QUANTIZE_MIN + 1);
	u32 random = fuzz_take(&in, 4);
	struct model m = { .steps = steps, .level = steps, .tx = random >> 8 };
	struct hpcc_border_link l = {};
	struct hpcc_record first = {};
	u64 now = 0;

	hpcc_border_begin(&l, &first, 0, random, random, steps);
	while (in.size) {
		u8 event = fuzz_take(&in, 1);

		if (event & EVENT_RESPONSE)
			response(&in, steps);
		else if (event & EVENT_OPTION)
			option(&in);
		else
			record(&in, &l, &m, &now, random);
	}
	return 0;
}
