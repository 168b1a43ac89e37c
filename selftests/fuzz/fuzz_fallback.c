// SPDX-License-Identifier: GPL-2.0
/*
 * Compare <hpcc/law/fallback.h> with a model of the rules in its first comment, which computes in
 * 128 bits, for any series of ACKs, fallbacks and returns.
 *
 * Input: a series of events. One byte selects the event, and the event's arguments follow it.
 */
#include "fuzz.h"
#include <hpcc/law/fallback.h>

typedef __int128 s128;

#define LINKS	4
#define TIME_MASK ((1ULL << 56) - 1)

/* State of the connection, and the values that the rules derive from it. */
struct model {
	struct hpcc_algo a;
	struct hpcc_link L[LINKS];
	u64 now;
	u32 delivered, lost;
	/* values at the start of the round trip */
	struct hpcc_link L0[LINKS];
	u32 end0;
	u64 now0;
	u32 delivered0, lost0;
	s128 total, excess;
	u32 window, snd_una, rto_seq, got;
	u64 rto_left, hold, rounds;
	bool rto, busy;
};

static void begin(struct model *m)
{
	memcpy(m->L0, m->L, sizeof(m->L));
	m->end0 = m->a.end;
	m->now0 = m->now;
	m->delivered0 = m->delivered;
	m->lost0 = m->lost;
}

static bool busy(const struct model *m)
{
	s128 dt = m->now - m->now0;

	for (u32 i = 0; i < m->a.end; i++) {
		s128 dtx = (s128)m->L[i].tx - m->L0[i].tx;

		if (i < m->end0 && m->L0[i].valid && m->L[i].valid &&
		    8 * dtx >= 7 * dt && dtx <= HPCC_TX_EXCESS * dt)
			return true;
	}
	return false;
}

static bool judge(struct model *m)
{
	bool now_busy = busy(m);

	s128 most = 4 * 32 * (s128)m->window;
	s32 lost = m->lost - m->lost0;
	s128 excess;

	if (m->rto) {
		lost = min_t(s64, lost, m->rto_left);
		m->rto_left -= lost > 0 ? lost : 0;
		m->rto = (s32)(m->snd_una - m->rto_seq) < 0;
	}
	excess = 32 * (s128)lost - (u32)(m->delivered - m->delivered0);
	m->total = m->total + excess > 0 ? m->total + excess : 0;
	m->excess = m->excess + excess > 0 ? m->excess + excess : 0;
	if (m->total > (most > 8 * 32 ? most : 8 * 32))
		m->excess = m->total;
	else if (now_busy || m->busy)
		m->excess = 0;
	m->busy = now_busy;
	if (m->excess > 8 * 32)
		return true;
	m->got = m->delivered - m->delivered0;
	if (++m->rounds >= (m->hold > 64 ? m->hold : 64)) {
		m->hold /= 2;
		m->rounds = 0;
	}
	begin(m);
	return false;
}

static void take_time(struct fuzz_input *in, struct model *m, u8 what)
{
	u32 at = what % LINKS;

	m->now += fuzz_take_any(in) & (TIME_MASK >> 16);
	/* Times are multiples of 8, so 7/8 of a time needs no rounding. */
	m->now &= ~7ULL;
	m->L[at].tx = what & 8 ? fuzz_take_any(in) & TIME_MASK :
			m->L[at].tx + (fuzz_take_any(in) & (TIME_MASK >> 16));
	m->L[at].valid = what & 16;
	m->a.end = max_t(u8, m->a.end, at + 1);
	if (what & 32)
		m->a.end = at;
	m->delivered += fuzz_take(in, 2);
	m->snd_una += fuzz_take(in, 1);
	m->lost += fuzz_take(in, 2);
}

static void take_ack(struct hpcc_fallback *f, struct model *m)
{
	u32 prior = m->delivered0;
	bool left;

	expect(!hpcc_fallback_ack(f, &m->a, m->now, prior - 1, m->delivered, m->lost, m->snd_una));
	left = hpcc_fallback_ack(f, &m->a, m->now, prior, m->delivered, m->lost, m->snd_una);
	expect(left == judge(m));
	expect(f->hold == m->hold);
	expect(f->excess == m->excess);
	expect(f->rounds == m->rounds);
}

/* @packets of the lost packets were only late. Return whether this ends the fallback. */
static bool late(struct hpcc_fallback *f, struct model *m, u32 packets, u32 least, u64 hold)
{
	bool ask = m->excess > 0 && least != HPCC_HOLD_SILENCE &&
		   2 * 32 * (s128)(s32)packets >= m->excess;

	m->lost -= packets;
	expect(hpcc_fallback_late(f, m->lost) == ask);
	if (ask) {
		m->hold = hold;
		expect(f->hold == m->hold);
		expect(hpcc_fallback_over(f));
	}
	return ask;
}

/* Fall back to classic, run the required number of round trips, then return to telemetry. */
static void take_classic(struct hpcc_fallback *f, struct model *m, u32 least, u32 packets)
{
	u64 hold = m->hold;
	u32 n = 0;

	expect(hpcc_fallback_got(f, m->delivered) == max(m->delivered - m->delivered0, m->got));
	if (m->excess > 0 || (s32)(m->lost - m->lost0) > 0)
		expect(hpcc_fallback_hold(f, m->lost) == max_t(u64, hold, 64));
	else
		expect(hpcc_fallback_hold(f, m->lost) == hold);
	hpcc_fallback_leave(f, least, m->lost);
	if (least != HPCC_HOLD_SILENCE)
		m->hold *= 2;
	m->hold = min_t(u64, max_t(u64, m->hold, least), 1 << 16);
	expect(f->hold == m->hold);
	if (late(f, m, packets, least, hold))
		n = m->hold;
	while (!hpcc_fallback_over(f)) {
		hpcc_fallback_round(f);
		n++;
	}
	expect(n == m->hold);
	hpcc_fallback_round(f);
	expect(hpcc_fallback_over(f));
	hpcc_fallback_start(f, &m->a, m->now, m->delivered, m->lost);
	m->total = 0;
	m->excess = 0;
	m->rto = false;
	m->got = 0;
	m->busy = false;
	m->rounds = 0;
	begin(m);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct model m = { .now = 1 << 20 };
	struct fuzz_input in = { data, size };
	struct hpcc_fallback f = {};
	u32 nr = 0;

	hpcc_algo_links(&m.a, m.L, LINKS);
	hpcc_fallback_start(&f, &m.a, m.now, 0, 0);
	begin(&m);
	while (in.size && nr++ < 1000) {
		u8 what = fuzz_take(&in, 1);

		if (what < 0xc0) {
			take_time(&in, &m, what);
			if (what & 64)
				take_ack(&f, &m);
		} else if (what < 0xd0) {
			m.rto_seq = m.snd_una + fuzz_take(&in, 2);
			m.rto_left = m.rto ? m.rto_left + 1 : 4;
			m.rto = true;
			hpcc_fallback_rto(&f, m.rto_seq);
		} else if (what < 0xd8) {
			hpcc_fallback_undo(&f, m.lost);
			m.lost0 = m.lost;
		} else if (what < 0xe0) {
			m.window = fuzz_take(&in, 4);
			f.window = m.window;
		} else {
			take_classic(&f, &m, what & 1 ? HPCC_HOLD_LOSS : HPCC_HOLD_SILENCE,
				     fuzz_take(&in, 2) - (what & 2 ? 1 << 15 : 0));
		}
	}
	return 0;
}
