// SPDX-License-Identifier: GPL-2.0
/* How a sender reacts to a direct response of a switch (hpcc/law/response.h). */
#define TEST_SETUP begin
#include "test.h"
#include <draft.h>
#include <hpcc/law/response.h>

#define T	10000
#define W_INIT	(125000ULL << 16)
#define W_MIN	(122ULL << 16)
#define ETA_Q24	15938355		/* 0.95 */

static struct hpcc_params p;
static struct hpcc_algo a;

static void begin(void)
{
	hpcc_params_init(&p, T, W_INIT, W_MIN, 62 << 16, ETA_Q24, 5);
	hpcc_algo_init(&a, &p);
}

TEST(respond__divides_Wc_once)
{
	u64 W_q16;

	/* W = Wc eta / (1 + qlen/T), U = u', Wc and L as before. */
	assert_true(hpcc_algo_respond(&a, &p, 5, 3 * T, false));
	assert_int_equal(a.U_q24, 4 << 24);
	assert_int_equal(a.U_low, 0);
	assert_near(a.W_q16, W_INIT * 0.95L / 4, 0x1p-20L * W_INIT);
	assert_int_equal(a.Wc_q16, W_INIT);
	assert_int_equal(a.inc_stage, 0);
	assert_int_equal(a.end, 0);
	assert_true(a.moved);
	assert_false(a.started);
	W_q16 = a.W_q16;
	assert_false(hpcc_algo_respond(&a, &p, 5, 3 * T, false));
	assert_false(hpcc_algo_respond(&a, &p, 6, 2 * T, false));
	assert_false(hpcc_algo_respond(&a, &p, 6, 0, false));
	assert_int_equal(a.W_q16, W_q16);
	/* W is computed from the same Wc, not from the reduced W */
	assert_true(hpcc_algo_respond(&a, &p, 6, 7 * T, false));
	assert_near(a.W_q16, W_INIT * 0.95L / 8, 0x1p-20L * W_INIT);
}

TEST(respond__never_raises_W)
{
	a.W_q16 = W_INIT / 10;
	assert_true(hpcc_algo_respond(&a, &p, 5, T, false));
	assert_int_equal(a.W_q16, W_INIT / 10);
	assert_int_equal(a.U_q24, 2 << 24);
	begin();
	assert_true(hpcc_algo_respond(&a, &p, 5, ~0ULL, false));
	assert_int_equal(a.W_q16, W_MIN);
	assert_int_equal(a.U_q24, HPCC_U_MAX_Q24);
}

/* If the receiver computes W, a second response counts even if its u' is below U. */
TEST(respond__receiver_computes_W)
{
	assert_true(hpcc_algo_respond(&a, &p, 5, 3 * T, true));
	a.W_q16 = W_INIT;
	assert_false(hpcc_algo_respond(&a, &p, 6, T, false));
	assert_int_equal(a.U_q24, 4 << 24);
	assert_true(hpcc_algo_respond(&a, &p, 6, T, true));
	assert_near(a.W_q16, W_INIT * 0.95L / 2, 0x1p-20L * W_INIT);
	a.started = true;
	a.last_update_seq = 100;
	assert_false(hpcc_algo_respond(&a, &p, 99, 7 * T, true));
	assert_int_equal(a.U_q24, 2 << 24);
}

TEST(response__holds)
{
	u64 word = hpcc_response_pack(~0U, 0, 0);

	assert_false(hpcc_response_holds(0, ~0U, 10));
	assert_true(hpcc_response_holds(word, ~0U - 5, 10));
	assert_true(hpcc_response_holds(word, ~0U, 10));
	assert_false(hpcc_response_holds(word, 0, 10));
	assert_false(hpcc_response_holds(word, 1U << 31, (1U << 31) + 10));
}

/* A response to data sent before Wc was synchronised is ignored: W has reacted to these data. */
TEST(respond__sequence_numbers)
{
	static const u32 ends[] = { 1000, 3, 0xfffffff0 };

	for (u32 i = 0; i < 3; i++) {
		begin();
		a.started = true;
		a.last_update_seq = ends[i];
		assert_false(hpcc_algo_respond(&a, &p, ends[i] - 1, T, false));
		assert_false(hpcc_algo_respond(&a, &p, ends[i] - 100000, T, false));
		assert_int_equal(a.W_q16, W_INIT);
		assert_true(hpcc_algo_respond(&a, &p, ends[i], T, false));
		assert_true(hpcc_algo_respond(&a, &p, ends[i] + 100000, 2 * T, false));
	}
}

/* When the round trip ends, Wc is divided once, by the U that the response has set. */
TEST(respond__at_the_end_of_a_round_trip)
{
	struct hpcc_link links[1] = { { .ts = 0 } };
	struct hpcc_sample s = { .hop = 1, .ts = 1000, .tx = 1000, .qlen = 3 * T };
	u64 W_q16;

	hpcc_algo_links(&a, links, 1);
	assert_true(hpcc_algo_respond(&a, &p, 100, 3 * T, false));
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 50, 1000) & HPCC_ACK_FIRST, HPCC_ACK_FIRST);
	W_q16 = a.W_q16;
	s.ts += T / 100;
	s.tx += T / 100;
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 60, 1000), 0);
	assert_true(fabsl((long double)a.W_q16 - W_q16 - p.W_ai_q16) < 0x1p-18L * W_INIT);
	assert_int_equal(a.Wc_q16, W_INIT);
	s.ts += T / 100;
	s.tx += T / 100;
	assert_int_equal(hpcc_new_ack(&a, &p, &s, 1, 1001, 2000), HPCC_ACK_UPDATE);
	assert_true(fabsl((long double)a.Wc_q16 - W_q16 - p.W_ai_q16) < 0x1p-18L * W_INIT);
	assert_false(hpcc_algo_respond(&a, &p, 1999, 5 * T, false));
	assert_true(hpcc_algo_respond(&a, &p, 2000, 5 * T, false));
}

/* W is set to the receiver's value. If W falls, responses to earlier data are ignored. */
TEST(follow_receiver__W)
{
	hpcc_algo_follow_receiver(&a, W_INIT / 2, 0, 100, 200);
	assert_true(a.started);
	assert_int_equal(a.W_q16, W_INIT / 2);
	assert_int_equal(a.Wc_q16, W_INIT / 2);
	assert_int_equal(a.last_update_seq, 200);
	assert_false(hpcc_algo_respond(&a, &p, 199, 3 * T, true));
	hpcc_algo_follow_receiver(&a, W_INIT, 0, 150, 300);
	assert_int_equal(a.W_q16, W_INIT);
	assert_int_equal(a.last_update_seq, 200);
	/* the data of the last update are acknowledged */
	hpcc_algo_follow_receiver(&a, W_INIT, 0, 201, 300);
	assert_int_equal(a.last_update_seq, 201);
	assert_true(hpcc_algo_respond(&a, &p, 201, 3 * T, true));
}

/* W does not grow while the data that triggered a response are in flight. */
TEST(follow_receiver__response_holds)
{
	u64 word = hpcc_response_pack(150, 3, 100);

	hpcc_algo_respond(&a, &p, 150, 3 * T, false);
	hpcc_algo_follow_receiver(&a, W_INIT, word, 100, 200);
	assert_true(a.W_q16 < W_INIT / 4);
	assert_int_equal(a.Wc_q16, W_INIT);
	hpcc_algo_follow_receiver(&a, W_MIN, word, 100, 200);
	assert_int_equal(a.W_q16, W_MIN);
	hpcc_algo_follow_receiver(&a, W_INIT, word, 151, 200);
	assert_int_equal(a.W_q16, W_INIT);
}

TEST(word__pack_and_unpack)
{
	u64 word = hpcc_response_pack(0xfedcba98, 31, 0x1234567890abc123ULL);

	assert_int_equal(hpcc_response_seq(word), 0xfedcba98);
	assert_int_equal(hpcc_response_qlen_ns(word), (u64)hpcc_qlen_decode(0x123) << 31);
	assert_true(word & HPCC_RESPONSE_KNOWN);
	assert_true(word & HPCC_RESPONSE_PENDING);
	/* the pending flag does not change the other fields */
	assert_int_equal(hpcc_response_seq(word & ~HPCC_RESPONSE_PENDING), 0xfedcba98);
	assert_int_equal(hpcc_response_qlen_ns(word & ~HPCC_RESPONSE_PENDING),
			 hpcc_response_qlen_ns(word));
	assert_true(hpcc_response_pack(0, 0, 0) != 0);
}

TEST(word__is_new)
{
	const u64 last = hpcc_response_pack(10, 3, 100);
	const struct { u64 last, word; u32 una, nxt; bool want; } cases[] = {
		{ 0, last, 5, 20, true }, { last, last, 5, 20, false },
		{ last, last, 10, 10, false },
		{ last & ~HPCC_RESPONSE_PENDING, last, 5, 20, false },
		{ last, hpcc_response_pack(9, 3, 100), 5, 20, false },
		{ last, hpcc_response_pack(9, 3, 101), 5, 20, true },
		{ last, hpcc_response_pack(9, 4, 100), 5, 20, true },
		{ last, hpcc_response_pack(11, 3, 0), 5, 20, true },
		{ hpcc_response_pack(~0U, 3, 100), hpcc_response_pack(0, 3, 1), -16, 20, true },
		{ hpcc_response_pack(0, 3, 100), hpcc_response_pack(~0U, 3, 1), -16, 20, false },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(hpcc_response_is_new(cases[i].last, cases[i].word, cases[i].una,
						      cases[i].nxt), cases[i].want);
	/* The data that triggered the last response were acknowledged recently, or long ago. */
	for (u32 una = 11; una < 0xfff00000; una += 0x00fffff1)
		assert_true(hpcc_response_is_new(last, hpcc_response_pack(una, 3, 1), una,
						 una + 100000));
}
