// SPDX-License-Identifier: GPL-2.0
/* <hpcc/law/newint.h>: the records of a REPORT, NewINT, and when W is reported. */
#define TEST_SETUP begin_with_defaults
#include "algo.h"
#include <hpcc/law/newint.h>

static const struct hpcc_newint_params TOLD = {
	.id = 5, .T_ns = 10000, .eta_permille = 950, .max_stage = 5, .settle = 3,
	.W_min = 16, .W = 65536, .W_ai = 134218,	/* W_init / 2000 */
};

/* A receiver that computes W with parameters q. */
static struct hpcc_newint_params q;
static struct hpcc_newint r;

/* The records of a data segment. */
static u32 newint_sample(const struct hpcc_sample *s, u32 n, u64 now)
{
	return hpcc_newint_follow(&r, hpcc_measure_inflight(&r.algo, &r.params, s, n), now);
}

/* Begin at time @now, after the first record of one link. */
static void begin(u64 now)
{
	const struct hpcc_sample s = { .hop = 1, .tag = 7, .ts = 1000000, .tx = 500000 };

	memset(&r, 0xff, sizeof(r));
	r.algo.L = new_links(HPCC_HOPS_MAX);
	r.algo.nr = HPCC_HOPS_MAX;
	r.algo.end = 0;
	hpcc_newint_begin(&r, &q, now);
	assert_int_equal(newint_sample(&s, 1, now),
			 HPCC_ACK_NO_SAMPLE | HPCC_ACK_NEW | HPCC_ACK_FIRST);
}

static void begin_with_defaults(void)
{
	q = TOLD;
	begin(0);
}

static u32 step(u64 now, u64 dts, u64 dtx, u64 qlen)
{
	const struct hpcc_sample s = next(&r.algo, 1, dts, dtx, qlen);

	return newint_sample(&s, 1, now);
}

/* The next records of two links. */
static struct hpcc_sample s[2];

static void two_links(void)
{
	s[0] = (struct hpcc_sample){ .hop = 1, .tag = 7, .ts = 1005000, .tx = 502500 };
	s[1] = (struct hpcc_sample){ .hop = 2, .tag = 8, .ts = 2005000, .tx = 600000 };
	newint_sample(s, 2, 5000);
}

/* Change the next record of this link. */
static void advance(u32 link, u64 dts, u64 dtx)
{
	s[link].ts += dts;
	s[link].tx += dtx;
}

static double part(void)
{
	return (double)r.algo.W_q16 / HPCC_NEWINT_W_INIT_Q16;
}

TEST(params__bytes)
{
	u64 words[2];

	hpcc_newint_params_pack(&TOLD, words);
	assert_int_equal(words[0], 0x3505ULL << 48 | 3ULL << 41 | 950ULL << 30 | 10000);
	assert_int_equal(words[1], 0x35ULL << 56 | 16ULL << 44 | 0xffffULL << 28 | 134218);
}

TEST(params__pack_and_unpack)
{
	struct hpcc_newint_params got;
	u64 words[2];

	for (u32 i = 0; i < 100000; i++) {
		q = (struct hpcc_newint_params){
			.id = random_below(16),
			.T_ns = random_below(4) ? 1000 + random_below(999999001) : 0,
			.eta_permille = 1 + random_below(1000),
			.max_stage = random_u64(), .settle = random_below(65),
			.per_rtt = random_below(2), .W_min = 1 + random_below(2047),
			.W = 1 + random_below(65536), .W_ai = random_below(1 << 28),
			.alone = random_below(2),
		};
		hpcc_newint_params_pack(&q, words);
		assert_true(hpcc_newint_params_unpack(words, &got));
		assert_true(got.id == q.id && got.T_ns == q.T_ns && got.max_stage == q.max_stage &&
			    got.eta_permille == q.eta_permille && got.settle == q.settle &&
			    got.per_rtt == q.per_rtt && got.W_min == q.W_min && got.W == q.W &&
			    got.W_ai == q.W_ai && got.alone == q.alone);
		assert_int_equal(hpcc_newint_W_ai_alone(words), q.alone ? (u64)q.W_ai << 18 : 0);
	}
}

TEST(params__out_of_range)
{
	struct hpcc_newint_params got;
	u64 words[2];
	static const u64 changes[][2] = {
		{ 2ULL << 60, 0 }, { 2ULL << 60, 2ULL << 60 },	/* another kind */
		{ 0, 1ULL << 56 },				/* another id */
		{ 10000 ^ 999, 0 }, { 10000 ^ 1000000001, 0 },
		{ 950ULL << 30, 0 }, { (950ULL ^ 1001) << 30, 0 },	/* eta of 0 and 1001 */
		{ (3ULL ^ 65) << 41, 0 },
		{ 0, 16ULL << 44 },				/* W_min of 0 */
	};

	hpcc_newint_params_pack(&TOLD, words);
	assert_true(hpcc_newint_params_unpack(words, &got));
	for (u32 i = 0; i < ARRAY_SIZE(changes); i++) {
		const u64 bad[] = { words[0] ^ changes[i][0], words[1] ^ changes[i][1] };

		assert_false(hpcc_newint_params_unpack(bad, &got));
	}
}

TEST(newint_part__nearest_below)
{
	struct hpcc_params p = params(5);
	u32 bits;

	assert_int_equal(hpcc_newint_part(&p, p.W_max_q16, 16), 65536);
	assert_int_equal(hpcc_newint_part(&p, 0, 16), 0);
	/* T has decreased, and W still has the value for the old T. */
	assert_int_equal(hpcc_newint_part(&p, p.W_max_q16 + 1, 16), 65536);
	assert_int_equal(hpcc_newint_part(&p, p.W_max_q16 * 3 / 2, 30), 1 << 30);
	assert_int_equal(hpcc_newint_part(&p, 1ULL << 48, 16), 65536);
	for (u32 i = 0; i < 100000; i++) {
		hpcc_params_init(&p, 1000, 1 + random_below(HPCC_W_MAX_Q16) %
				 (1ULL << (1 + random_below(56))), 1, 1, ETA, 5);
		bits = 1 + random_below(30);
		assert_near(hpcc_newint_part(&p, p.W_max_q16 / 3, bits),
			    (double)(p.W_max_q16 / 3) / p.W_max_q16 * (1 << bits), 1.001);
	}
}

TEST(window__pack_and_unpack)
{
	static const u64 bad[] = {
		0x1900123440000001ULL, 0x1900123400000000ULL, 0x1901123400000001ULL,
		0x2900123400000001ULL,
	};
	struct hpcc_window w = { .id = 9, .seq = 0x1234, .W = 0x3fffffff }, got;

	assert_int_equal(hpcc_window_pack(&w), 0x190012343fffffffULL);
	assert_true(hpcc_window_unpack(hpcc_window_pack(&w), &got));
	assert_true(got.id == 9 && got.seq == 0x1234 && got.W == 0x3fffffff);
	assert_true(hpcc_window_unpack(0x1900123400000000ULL | HPCC_WINDOW_ONE, &got));
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(hpcc_window_unpack(bad[i], &got));
}

TEST(window__newer)
{
	const u64 word = 0x1900000000000001ULL;

	assert_true(hpcc_window_newer(word, 0));
	assert_true(hpcc_window_newer(word, 0x1800ffff00000001ULL));
	for (u64 seq = 0; seq < 65536; seq++) {
		bool ahead = (seq - 0x8000) % 65536 && (u16)(0x8000 - seq) < 0x8000;

		assert_int_equal(hpcc_window_newer(word | 0x8000ULL << 32, word | seq << 32),
				 ahead);
	}
}

TEST(window__bytes)
{
	const struct { u32 W; u64 want; } cases[] = {
		{ HPCC_WINDOW_ONE, BYTES(W_INIT) }, { HPCC_WINDOW_ONE / 4, BYTES(W_INIT) / 4 },
		{ 1, BYTES(W_MIN) },
	};
	struct hpcc_params p = params(5);

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_window_bytes(&(struct hpcc_window){ .W = cases[i].W }, &p),
				 cases[i].want);
}

TEST(newint_begin__sets_W)
{
	q.W = 32768;
	begin(77);
	assert_near(part(), 0.5, 1e-9);
	assert_int_equal(r.algo.Wc_q16, r.algo.W_q16);
	assert_near((double)r.params.W_min_q16 / HPCC_NEWINT_W_INIT_Q16, 1.0 / 1024, 1e-9);
	assert_near((double)r.params.W_ai_q16 / HPCC_NEWINT_W_INIT_Q16, 0.0005, 1e-8);
	q.W = 1;
	begin(77);
	assert_int_equal(r.algo.W_q16, r.params.W_min_q16);
}

/* New parameters: the state of links is kept, and a new round trip begins. */
TEST(newint_begin__again)
{
	two_links();
	advance(0, 5000, 2500);
	advance(1, 5000, 6000);
	s[1].qlen = 7000;
	newint_sample(s, 2, 10000);
	hpcc_newint_report(&r, 10000);
	r.queue = 7000;
	q.T_ns = 20000;
	q.W = 32768;
	hpcc_newint_begin(&r, &q, 11000);
	assert_true(hpcc_newint_fell(&r));
	assert_int_equal(r.queue, 0);
	/* Only the link with less load has a new record: U does not follow this record. */
	advance(0, 5000, 2500);
	assert_false(newint_sample(s, 1, 31000) & (HPCC_ACK_NO_SAMPLE | HPCC_ACK_UPDATE));
	assert_int_equal(r.algo.U_q24, HPCC_ONE_Q24);
	advance(0, 1, 1);
	advance(1, 5000, 5000);
	assert_true(newint_sample(s, 2, 31001) & HPCC_ACK_UPDATE);
	assert_int_equal(r.algo.W_q16, r.algo.Wc_q16);
	assert_in_range(part() * 1000, 400, 480);
}

/* W and Wc equal those of NewAck if its round trips last for T and the queueing time. */
TEST(newint_sample__as_new_ack)
{
	struct hpcc_algo a = copy_of(&r.algo);
	u64 now = 0, ended = 0, queue = 0;
	u32 fulls = 0;

	for (u32 i = 0; i < 20000; i++) {
		u64 dts = 100 + random_below(3000);
		struct hpcc_sample s = next(&a, 1, dts, dts * random_below(1001) / 1000,
					    random_below(4) ? 0 : random_below(9999));
		bool full = now + dts > ended + 10000 + queue;

		now += dts;
		assert_int_equal(hpcc_new_ack(&a, &r.params, &s, 1,
					      a.last_update_seq + (full ? 1 : 0),
					      a.last_update_seq + (full ? 1 : 0)),
				 newint_sample(&s, 1, now));
		if (full) {
			ended = now;
			queue = s.qlen;
			fulls++;
		}
		assert_int_equal(a.W_q16, r.algo.W_q16);
		assert_int_equal(a.Wc_q16, r.algo.Wc_q16);
		assert_int_equal(a.inc_stage, r.algo.inc_stage);
		assert_int_equal(U_q44(&a), U_q44(&r.algo));
	}
	assert_in_range(fulls, 500, 4000);
}

/* Data that the sender transmits with a new W wait until the queue of that time has drained. */
TEST(newint_sample__T_and_queue)
{
	assert_false(step(10000, 10000, 9000, 0) & HPCC_ACK_UPDATE);
	assert_true(step(10001, 1, 1, 0) & HPCC_ACK_UPDATE);
	assert_int_equal(r.last_update, 10001);
	begin(0);
	step(6000, 6000, 6000, 50000);
	assert_true(step(12000, 6000, 6000, 50000) & HPCC_ACK_UPDATE);
	assert_int_equal(r.queue, 50000);
	assert_false(step(72000, 60000, 60000, 40000) & HPCC_ACK_UPDATE);
	assert_true(step(72001, 1, 1, 40000) & HPCC_ACK_UPDATE);
	assert_int_equal(r.queue, 40000);
}

TEST(newint_sample__queue_is_bounded)
{
	step(6000, 6000, 6000, ~0ULL >> 8);
	assert_true(step(12000, 6000, 6000, ~0ULL >> 8) & HPCC_ACK_UPDATE);
	assert_int_equal(r.queue, HPCC_NEWINT_QUEUE_T * 10000);
	assert_int_equal(r.queue, 640000);
	r.algo.L[1] = r.algo.L[0];
	r.algo.L[0].qlen = 600000;
	r.algo.L[1].qlen = 40000;
	r.algo.end = 2;
	assert_int_equal(hpcc_newint_queue(&r), 640000);
	r.algo.L[1].qlen++;
	assert_int_equal(hpcc_newint_queue(&r), 640000);
	r.algo.L[0].valid = false;
	assert_int_equal(hpcc_newint_queue(&r), 40001);
}

TEST(newint_sample__settle_and_per_rtt)
{
	q.max_stage = 0;
	begin(0);
	assert_false(step(29999, 29999, 20000, 0) & HPCC_ACK_UPDATE);
	assert_true(step(30000, 1, 1, 0) & HPCC_ACK_UPDATE);
	q = TOLD;
	q.per_rtt = true;
	begin(0);
	step(5000, 5000, 5000, 50000);
	step(10000, 5000, 5000, 50000);
	assert_near(part(), 1, 1e-9);
	step(10001, 1, 1, 50000);
	assert_in_range(part() * 1000, 100, 500);
}

TEST(newint_reduce__once_in_a_round_trip)
{
	static const struct { u64 queue, now; double want; } cases[] = {
		{ 0, 1, 0.875 }, { 0, 10001, 0.875 }, { 5000, 15001, 0.875 },
		{ 5000, 15002, 0.875 * 0.875 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		r.queue = cases[i].queue;
		hpcc_newint_reduce(&r, 3, cases[i].now);
		assert_near(part(), cases[i].want, 1e-9);
	}
}

TEST(newint_due__first)
{
	assert_true(hpcc_newint_due(&r, 0) && hpcc_newint_fell(&r));
	assert_int_equal(hpcc_newint_report(&r, 0), HPCC_WINDOW_ONE);
	assert_false(hpcc_newint_due(&r, 1000000));
	r.algo.W_q16 = 1;
	assert_int_equal(hpcc_newint_report(&r, 0), 1);
}

TEST(newint_due__once_in_T)
{
	hpcc_newint_report(&r, 5000);
	assert_true(step(10001, 10001, 9000, 0) & HPCC_ACK_UPDATE);
	assert_false(hpcc_newint_due(&r, 14999));
	assert_true(hpcc_newint_due(&r, 15000));
	assert_false(hpcc_newint_fell(&r));
	hpcc_newint_report(&r, 15000);
	/* Wc was not synchronised since the last report: the next report is due after 4 T. */
	step(16000, 6000, 5000, 0);
	assert_false(hpcc_newint_due(&r, 54999));
	assert_true(hpcc_newint_due(&r, 55000));
}

/* If no more records arrive, W is not reported again. */
TEST(newint_due__measured)
{
	step(10001, 10001, 9000, 0);
	hpcc_newint_report(&r, 20000);
	assert_false(hpcc_newint_due(&r, 1000000));
	step(990000, 989999, 900000, 0);
	assert_true(hpcc_newint_due(&r, 1000000));
}

/* T has passed without a record of the link that limits W, so Wc was not synchronised. */
TEST(newint_due__another_link)
{
	two_links();
	advance(0, 6000, 3000);
	advance(1, 6000, 5400);
	assert_true(newint_sample(s, 2, 11000) & HPCC_ACK_UPDATE);
	hpcc_newint_report(&r, 11000);
	advance(0, 11000, 3000);
	assert_int_equal(newint_sample(s, 1, 22000), 0);
	assert_false(hpcc_newint_due(&r, 22000));
	assert_true(hpcc_newint_due(&r, 51000));
}

TEST(newint_due__a_fall_or_CE)
{
	hpcc_newint_report(&r, 0);
	r.algo.W_q16 = HPCC_NEWINT_W_INIT_Q16 - HPCC_NEWINT_W_INIT_Q16 / 8;
	assert_false(hpcc_newint_fell(&r) || hpcc_newint_due(&r, 1));
	r.algo.W_q16--;
	assert_true(hpcc_newint_fell(&r) && hpcc_newint_due(&r, 1));
	begin(0);
	hpcc_newint_report(&r, 0);
	step(500, 500, 400, 0);
	hpcc_newint_reduce(&r, 3, 1000);
	assert_false(hpcc_newint_due(&r, 9999));
	assert_true(hpcc_newint_due(&r, 10000));
}
