// SPDX-License-Identifier: GPL-2.0
/*
 * <hpcc/law/ldcp.h>: compare any curve at any queue length with the exact fraction, and any
 * series of ACKs with the draft's equations in long double.
 *
 * Input: bytes sent, IW; K_min, K_max, P_max, a queue; T, RTT, a random number, cw; alpha, beta,
 * gamma, cw; then ACKs, each a byte (bit 0: marked) and its number of segments.
 */
#include <math.h>

#include "fuzz.h"
#include <hpcc/law/ldcp.h>

static void curve(struct fuzz_input *in)
{
	u32 K_min = fuzz_take_any(in), K_max = fuzz_take_any(in);
	u32 P_max_ppm = fuzz_take(in, 3) % (LDCP_PPM + 1);
	u64 q = fuzz_take_any(in), p;
	struct ldcp_curve c;

	K_max = max(K_min, K_max);
	ldcp_curve_init(&c, K_min, K_max, P_max_ppm);
	p = ldcp_mark_p(&c, q);
	expect(p <= LDCP_P_ONE);
	expect(!q || ldcp_mark_p(&c, q - 1) <= p);
	if (q < K_min) {
		expect(!p);
	} else if (q >= K_max) {
		expect(p == LDCP_P_ONE);
	} else {
		u128 want = (u128)(q - K_min) * P_max_ppm << 32;
		u128 unit = (u128)(K_max - K_min) * LDCP_PPM;

		expect(p * unit <= want && want < (p + 4) * unit);
	}
}

static long double seg(u64 q24)
{
	return ldexpl(q24, -24);
}

static long double granted(const struct ldcp_params *p, long double cw, u32 n)
{
	n = min_t(u32, n, LDCP_ACKED_MAX);
	return cw < 1 ? cw + seg(p->gamma_q24) : fminl(cw + n * seg(p->alpha_q24) / cw, 1 << 24);
}

static long double revoked(const struct ldcp_params *p, long double cw, u32 n)
{
	return cw <= 1 ? fmaxl(cw / 2, seg(p->cw_min_q24)) : fmaxl(cw - n * seg(p->beta_q24), 1);
}

static u32 take_constant(struct fuzz_input *in)
{
	return 1 + fuzz_take(in, 3);
}

static void window(struct fuzz_input *in)
{
	struct ldcp_params p = { .alpha_q24 = take_constant(in) };
	u64 cw;

	p.beta_q24 = take_constant(in);
	p.gamma_q24 = take_constant(in);
	p.cw_min_q24 = min(take_constant(in), p.gamma_q24);
	cw = clamp_t(u64, fuzz_take_any(in), p.cw_min_q24, LDCP_CW_MAX_Q24);
	while (in->size) {
		bool mark = fuzz_take(in, 1) & 1;
		u32 n = fuzz_take_any(in);
		u64 before = cw;
		long double want = mark ? revoked(&p, seg(cw), n) : granted(&p, seg(cw), n);

		cw = mark ? ldcp_revoke(&p, cw, n) : ldcp_grant(&p, cw, n);
		expect(mark ? cw <= before : cw >= before);
		expect(cw >= p.cw_min_q24 && cw <= LDCP_CW_MAX_Q24);
		expect(fabsl(seg(cw) - want) <= 0x1p-25L);
	}
}

/* A tick is at most 6 times RTT / cw, of an RTT between T and 8 T. */
static void tick(struct fuzz_input *in)
{
	u32 T_ns = 1 + fuzz_take(in, 3), rtt_us = fuzz_take_any(in), random = fuzz_take_any(in);
	u64 rtt_ns = ldcp_tick_rtt_ns(T_ns, rtt_us);
	u32 cw_q24 = take_constant(in);

	expect(rtt_ns >= T_ns && rtt_ns <= (u64)T_ns * LDCP_RTT_MAX_T);
	expect(seg(ldcp_tick_ns(rtt_ns, cw_q24, random) * cw_q24) <= 6.0L * rtt_ns);
}

/* A packet after the end of IW never has low priority, nor does the last packet of a message. */
static void first_rtt(struct fuzz_input *in)
{
	u64 sent = fuzz_take_any(in), IW = fuzz_take_any(in);
	bool low = ldcp_is_low_priority(sent, IW, false);

	expect(low || !ldcp_is_low_priority(sent + 1, IW, false) || !~sent);
	expect(!low || ldcp_is_low_priority(sent - !!sent, IW, false));
	expect(!ldcp_is_low_priority(IW, IW, false));
	expect(!ldcp_is_low_priority(sent, IW, true));
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { data, size };

	first_rtt(&in);
	curve(&in);
	tick(&in);
	window(&in);
	return 0;
}
