// SPDX-License-Identifier: GPL-2.0
/*
 * <hpcc/law/newint.h>: any two words as parameters and any word as a window, and NewINT with
 * parameters that were accepted, under any series of samples.
 *
 * Input: three words; then samples, each a byte (bits 0-1: hop, 2: CE, 3: report if due) and
 * d(now), d(ts), d(tx), qlen.
 */
#include "fuzz.h"
#include <draft.h>
#include <hpcc/law/newint.h>

#define LINKS 4

static void window(u64 word, const struct hpcc_params *p)
{
	struct hpcc_window w;
	u64 W_q16;

	if (!hpcc_window_unpack(word, &w))
		return;
	expect(hpcc_window_pack(&w) == word);
	expect(w.W && w.W <= HPCC_WINDOW_ONE && w.id < HPCC_NEWINT_IDS);
	W_q16 = hpcc_window_bytes(&w, p);
	expect(W_q16 >= p->W_min_q16 && W_q16 <= p->W_max_q16);
	expect(!hpcc_window_newer(word, word));
	expect(hpcc_window_newer(word, 0));
}

static void parameters(const u64 words[2], struct hpcc_newint_params *q)
{
	u64 again[2];

	if (!hpcc_newint_params_unpack(words, q)) {
		*q = (struct hpcc_newint_params){ .T_ns = 1000, .eta_permille = 950, .W_min = 16,
						  .W = 65536, .max_stage = words[0] };
		return;
	}
	hpcc_newint_params_pack(q, again);
	expect(!memcmp(words, again, sizeof(again)));
	expect(!q->T_ns || (q->T_ns >= HPCC_NEWINT_T_MIN_NS && q->T_ns <= HPCC_NEWINT_T_MAX_NS));
	expect(q->W && q->W <= 65536 && q->settle <= HPCC_NEWINT_SETTLE_MAX);
}

static void parts(u64 W_init_q16, u64 W_q16)
{
	struct hpcc_params p;

	hpcc_params_init(&p, 1, W_init_q16, 1, 0, 1, 0);
	for (u32 bits = 1; bits <= 30; bits++)
		expect(hpcc_newint_part(&p, min(W_q16, p.W_max_q16), bits) <= 1U << bits);
	expect(hpcc_newint_part(&p, p.W_max_q16, 16) == 1U << 16);
}

static void report_if_due(struct hpcc_newint *r, u64 now)
{
	u32 W;

	if (!hpcc_newint_due(r, now))
		return;
	W = hpcc_newint_report(r, now);
	expect(W && W <= HPCC_WINDOW_ONE);
	expect(!hpcc_newint_due(r, now));
}

static void series(struct hpcc_newint *r, struct fuzz_input *in)
{
	const struct hpcc_params *p = &r->params;
	u64 now = fuzz_take(in, 4), before;

	report_if_due(r, now);
	while (in->size) {
		u8 how = fuzz_take(in, 1);
		struct hpcc_sample s = { .hop = 1 + how % LINKS, .tag = how >> 4 };
		const struct hpcc_link *l = &r->algo.L[s.hop - 1];
		u32 bits;

		now += fuzz_take_any(in);
		s.ts = l->ts + fuzz_take_any(in);
		s.tx = l->tx + fuzz_take_any(in);
		s.qlen = fuzz_take_any(in);
		before = r->last_update;
		bits = hpcc_measure_inflight(&r->algo, &r->params, &s, 1);
		bits = hpcc_newint_follow(r, bits, now);
		expect(!(bits & HPCC_ACK_UPDATE) || r->last_update == now);
		expect(r->last_update == before || r->last_update == now);
		if (how & 4)
			hpcc_newint_reduce(r, 3, now);
		expect(r->algo.W_q16 >= p->W_min_q16 && r->algo.W_q16 <= p->W_max_q16);
		expect(r->algo.Wc_q16 >= p->W_min_q16 && r->algo.Wc_q16 <= p->W_max_q16);
		expect(r->queue <= HPCC_NEWINT_QUEUE_T * p->T);
		if (how & 8)
			report_if_due(r, now);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct hpcc_link L[LINKS] = {};
	struct hpcc_newint r = { .algo = { .L = L, .nr = LINKS } };
	struct hpcc_newint_params q;
	u64 words[3];

	for (u32 i = 0; i < 3; i++)
		words[i] = __builtin_bswap64(fuzz_take(&in, 8));
	parameters(words, &q);
	hpcc_newint_begin(&r, &q, 0);
	expect(r.algo.W_q16 >= r.params.W_min_q16 && r.algo.W_q16 <= r.params.W_max_q16);
	window(words[2], &r.params);
	parts(words[2], words[0]);
	series(&r, &in);
	return 0;
}
