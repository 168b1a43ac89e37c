// SPDX-License-Identifier: GPL-2.0
/* Unit tests of <hpcc/law/fallback.h>, in the order of its functions. */
#define TEST_SETUP start_one_link
#include "test.h"
#include <hpcc/law/fallback.h>

#define T	10000ULL	/* ns */

/* A connection, its links and its counters. */
static struct flow {
	struct hpcc_algo a;
	struct hpcc_link L[HPCC_HOPS_MAX];
	struct hpcc_fallback f;
	u64 now;
	u32 delivered, lost, snd_una;
} w;

static void start(u32 links)
{
	memset(&w, 0, sizeof(w));
	w.now = 1 << 20;
	/* The counters wrap at 2^32. */
	w.delivered = -50;
	w.lost = -5;
	w.f.window = 1000;
	w.a.end = links;
	hpcc_algo_links(&w.a, w.L, links);
	for (u32 i = 0; i < links; i++)
		w.a.L[i] = (struct hpcc_link) { .tx = 1 << 30, .valid = true };
	hpcc_fallback_start(&w.f, &w.a, w.now, w.delivered, w.lost);
}

/* Each test begins with one link. */
static void start_one_link(void)
{
	start(1);
}

/* A round trip of T in which the link @at is busy for @percent of the time. */
static bool round_trip(u32 delivered, u32 lost, u32 at, u32 percent)
{
	u32 sent_at = w.delivered;

	/* ACKs of earlier packets do not end the round trip. */
	assert_false(hpcc_fallback_ack(&w.f, &w.a, w.now, sent_at - 1, sent_at, w.lost + lost,
				       w.snd_una));
	w.now += T;
	w.a.L[at].tx += T * percent / 100;
	w.delivered += delivered;
	w.lost += lost;
	return hpcc_fallback_ack(&w.f, &w.a, w.now, sent_at, w.delivered, w.lost, w.snd_una);
}

TEST(ack__losses_add_up)
{
	assert_false(round_trip(32, 9, 0, 10));
	assert_int_equal(w.f.excess, 8 << HPCC_LOSS_SHIFT);
	assert_false(round_trip(64, 2, 0, 10));
	assert_int_equal(w.f.excess, 8 << HPCC_LOSS_SHIFT);
	assert_true(round_trip(31, 1, 0, 10));
	start(1);
	assert_true(round_trip(100, 115, 0, 2));
	/* little loss */
	start(1);
	for (u32 i = 0; i < 1000; i++)
		assert_false(round_trip(40, i % 2, 0, 10));
	start(1);
	for (u32 i = 0; i < 100000; i++)
		assert_false(round_trip(100, 3, 0, 10));
}

/* Return the losses among 20 packets, of which each is lost with this probability. */
static u32 random_losses(u32 percent)
{
	u32 lost = 0;

	for (u32 i = 0; i < 20; i++)
		lost += random_below(100) < percent;
	return lost;
}

/* Independent random losses: 1 % never causes a fallback, 8 % causes a fallback soon. */
TEST(ack__random_loss)
{
	u32 i;

	for (i = 0; i < 100000; i++)
		assert_false(round_trip(20, random_losses(1), 0, 10));
	for (i = 0; i < 100 && !round_trip(20, random_losses(8), 0, 10); i++)
		;
	assert_in_range(i, 2, 30);
}

TEST(ack__busy_link_explains)
{
	start(3);
	assert_false(round_trip(100, 50, 2, 88));
	/* The next round trip may have no space for records. */
	assert_false(round_trip(100, 50, 2, 0));
	assert_true(round_trip(100, 50, 2, 0));
	start(3);
	assert_true(round_trip(100, 50, 1, 87));
}

/* A burst fills a buffer. W falls, so the link is idle before the round trip ends. */
TEST(ack__overload_explains)
{
	u32 sent_at = w.delivered;

	w.a.U_q24 = HPCC_LOSS_U_Q24 + 1;
	assert_false(hpcc_fallback_ack(&w.f, &w.a, w.now, sent_at - 1, sent_at, w.lost, w.snd_una));
	w.a.U_q24 = HPCC_ONE_Q24 / 2;
	assert_false(round_trip(100, 50, 0, 40));
	assert_false(round_trip(100, 50, 0, 40));
	assert_true(round_trip(100, 50, 0, 40));
	start(1);
	w.a.U_q24 = HPCC_LOSS_U_Q24;
	assert_true(round_trip(100, 50, 0, 40));
	/* A fast link that sent one burst is not busy if the ACKs took a long time. */
	start(1);
	w.now += 9 * T;
	assert_true(round_trip(20, 50, 0, 100));
}

TEST(ack__restarted_counters)
{
	start(2);
	w.a.L[0].tx += 1ULL << 40;
	w.a.L[1].tx -= 1 << 20;
	assert_true(round_trip(100, 50, 0, 100));
	start(2);
	w.a.L[0].valid = false;
	assert_true(round_trip(100, 50, 0, 100));
	/* The link became valid within the round trip, so it has no earlier value. */
	start(1);
	w.a.L[0].valid = false;
	hpcc_fallback_start(&w.f, &w.a, w.now, w.delivered, w.lost);
	w.a.L[0].valid = true;
	assert_true(round_trip(100, 50, 0, 100));
	/* The path was shorter when the round trip began. */
	start(2);
	w.a.end = 1;
	assert_false(round_trip(100, 0, 0, 10));
	w.a.end = 2;
	assert_true(round_trip(100, 50, 1, 100));
}

TEST(ack__busy_link_explains_four_windows)
{
	/* In each round trip 20 packets are lost, and the link is always busy. */
	start(1);
	w.f.window = 40;
	for (u32 i = 1; i < 10; i++)
		assert_false(round_trip(96, 20, 0, 100));
	assert_int_equal(w.f.excess, 0);
	assert_int_equal(w.f.total, 9 * 17 << HPCC_LOSS_SHIFT);
	assert_true(round_trip(96, 20, 0, 100));
	/* Round trips without losses reduce the sum. */
	start(1);
	w.f.window = 40;
	for (u32 i = 0; i < 1000; i++) {
		assert_false(round_trip(96, 20, 0, 100));
		assert_false(round_trip(17 * 32, 0, 0, 10));
	}
	assert_int_equal(w.f.total, 0);
	/* With a small window the usual limit of losses applies. */
	start(1);
	w.f.window = 1;
	assert_false(round_trip(0, 8, 0, 100));
	assert_true(round_trip(0, 1, 0, 100));
}

TEST(rto__counts_as_few_losses)
{
	/* Losses of packets in flight at an RTO count up to 4, until all these are acknowledged. */
	start(1);
	w.snd_una = 1000;
	hpcc_fallback_rto(&w.f, 2000);
	for (u32 i = 0; i < 3; i++) {
		w.snd_una = 1000 + 400 * i;
		assert_false(round_trip(1, 100, 0, 0));
		assert_int_equal(w.f.excess, (4 << HPCC_LOSS_SHIFT) - 1 - i);
	}
	w.snd_una = 2000;
	assert_false(round_trip(1, 100, 0, 0));
	assert_true(round_trip(1, 100, 0, 0));
	/* The limit grows by one for each further RTO, and is 4 again for the next series. */
	start(1);
	w.snd_una = -5;
	for (u32 i = 0; i < 4; i++)
		hpcc_fallback_rto(&w.f, 5);
	w.snd_una = 5;
	assert_false(round_trip(0, 100, 0, 0));
	assert_int_equal(w.f.excess, 7 << HPCC_LOSS_SHIFT);
	hpcc_fallback_rto(&w.f, 10);
	assert_true(round_trip(0, 100, 0, 0));
	assert_int_equal(w.f.excess, 11 << HPCC_LOSS_SHIFT);
	/* Fewer losses than the limit count in full. */
	start(1);
	hpcc_fallback_rto(&w.f, 10);
	assert_false(round_trip(0, 3, 0, 0));
	assert_int_equal(w.f.excess, 3 << HPCC_LOSS_SHIFT);
	assert_int_equal(w.f.rto_left, 1);
}

TEST(undo__forgets_losses)
{
	w.lost += 100;
	hpcc_fallback_undo(&w.f, w.lost);
	assert_false(round_trip(1, 0, 0, 0));
	assert_int_equal(w.f.excess, 0);
}

TEST(got__larger_of_two)
{
	assert_int_equal(hpcc_fallback_got(&w.f, w.delivered + 7), 7);
	assert_false(round_trip(30, 0, 0, 0));
	assert_int_equal(hpcc_fallback_got(&w.f, w.delivered + 7), 30);
	assert_int_equal(hpcc_fallback_got(&w.f, w.delivered + 31), 31);
	assert_false(round_trip(5, 0, 0, 0));
	assert_int_equal(hpcc_fallback_got(&w.f, w.delivered), 5);
}

TEST(hold__after_unexplained_losses)
{
	assert_int_equal(hpcc_fallback_hold(&w.f, w.lost), 0);
	assert_int_equal(hpcc_fallback_hold(&w.f, w.lost + 1), HPCC_HOLD_LOSS);
	assert_int_equal(hpcc_fallback_hold(&w.f, w.lost - 1), 0);
	assert_false(round_trip(0, 1, 0, 0));
	assert_int_equal(hpcc_fallback_hold(&w.f, w.lost), HPCC_HOLD_LOSS);
	w.f.hold = 200;
	assert_int_equal(hpcc_fallback_hold(&w.f, w.lost), 200);
}

static u32 classic(struct hpcc_fallback *f)
{
	u32 n;

	for (n = 0; !hpcc_fallback_over(f); n++)
		hpcc_fallback_round(f);
	return n;
}

TEST(leave__doubles)
{
	assert_true(hpcc_fallback_over(&w.f));
	for (u32 n = 1; n <= 1U << 20; n *= 2) {
		hpcc_fallback_leave(&w.f, HPCC_HOLD_SILENCE, w.lost);
		assert_int_equal(classic(&w.f), 1);
		hpcc_fallback_start(&w.f, &w.a, w.now, w.delivered, w.lost);
	}
	start(1);
	hpcc_fallback_leave(&w.f, HPCC_HOLD_SILENCE, w.lost);
	hpcc_fallback_leave(&w.f, HPCC_HOLD_LOSS, w.lost);
	assert_int_equal(classic(&w.f), 64);
	hpcc_fallback_leave(&w.f, HPCC_HOLD_SILENCE, w.lost);
	assert_int_equal(classic(&w.f), 64);
	hpcc_fallback_leave(&w.f, HPCC_HOLD_LOSS, w.lost);
	assert_int_equal(classic(&w.f), 128);
}

TEST(ack__good_time_halves)
{
	for (u32 i = 0; i < 3; i++)
		hpcc_fallback_leave(&w.f, HPCC_HOLD_LOSS, w.lost);
	assert_int_equal(w.f.hold, 256);
	hpcc_fallback_start(&w.f, &w.a, w.now, w.delivered, w.lost);
	for (u32 n = 256; n; n /= 2) {
		u32 rounds = n > 64 ? n : 64;

		for (u32 i = 1; i < rounds; i++)
			assert_false(round_trip(10, 0, 0, 90));
		assert_int_equal(w.f.hold, n);
		assert_false(round_trip(10, 0, 0, 90));
		assert_int_equal(w.f.hold, n / 2);
	}
}

TEST(cost__in_proportion)
{
	assert_int_equal(hpcc_fallback_cost(&w.f, w.lost, 10), HPCC_HOLD_LOSS);
	assert_int_equal(hpcc_fallback_cost(&w.f, w.lost - 1, 10), HPCC_HOLD_LOSS);
	assert_int_equal(hpcc_fallback_cost(&w.f, w.lost + 79, 10), HPCC_HOLD_LOSS);
	assert_int_equal(hpcc_fallback_cost(&w.f, w.lost + 1000, 10), 800);
	assert_int_equal(hpcc_fallback_cost(&w.f, w.lost + (1U << 31) - 1, 2), HPCC_HOLD_MAX);
}

TEST(late__undoes_a_fallback)
{
	hpcc_fallback_leave(&w.f, HPCC_HOLD_LOSS, w.lost);
	assert_int_equal(classic(&w.f), 64);
	hpcc_fallback_start(&w.f, &w.a, w.now, w.delivered, w.lost);
	assert_true(round_trip(0, 20, 0, 10));
	hpcc_fallback_leave(&w.f, 2 * HPCC_HOLD_LOSS, w.lost);
	assert_false(hpcc_fallback_late(&w.f, w.lost));
	assert_false(hpcc_fallback_late(&w.f, w.lost + 20));
	assert_false(hpcc_fallback_late(&w.f, w.lost - 9));
	assert_false(hpcc_fallback_over(&w.f));
	assert_true(hpcc_fallback_late(&w.f, w.lost - 10));
	assert_true(hpcc_fallback_over(&w.f));
	assert_int_equal(w.f.hold, 64);
	assert_false(hpcc_fallback_late(&w.f, w.lost - 20));
	/* A fallback because of silence is not undone. */
	start(1);
	assert_false(round_trip(0, 8, 0, 10));
	hpcc_fallback_leave(&w.f, HPCC_HOLD_SILENCE, w.lost);
	assert_false(hpcc_fallback_late(&w.f, w.lost - 8));
	assert_int_equal(classic(&w.f), 1);
}
