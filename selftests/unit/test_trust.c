// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of <hpcc/trust.h>, in its order: each rule at its boundary, then a
 * link that is simulated, with all that the truth can look like, and liars who
 * stand behind it.
 */
#include <string.h>

#include "test.h"
#include <hpcc/trust.h>

#define T	10000ULL	/* ns */
#define NEVER	(~0ULL)

#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))

/* ---- Rules --------------------------------------------------------------- */

/* One round of two records, after one that sets the baseline. */
static struct hpcc_trust heard(u64 dts, u64 dtx, u64 q, u64 rtt)
{
	struct hpcc_algo a = {};
	struct hpcc_trust t;
	u32 i;

	hpcc_trust_init(&t, 0);
	a.L[0] = (struct hpcc_link) {
		.ts = 1 << 20, .tx = 1 << 20, .qlen = q, .valid = true,
	};
	hpcc_trust_ack(&t, &a, rtt);
	for (i = 0; i < 2; i++) {
		a.L[0].ts += dts;
		a.L[0].tx += dtx;
		a.L[0].u_q24 = HPCC_ONE_Q24;
		hpcc_trust_ack(&t, &a, rtt);
	}
	t.before = t.now;
	return t;
}

static int weigh(u64 dts, u64 dtx, u64 q, u64 rtt)
{
	struct hpcc_trust t = heard(dts, dtx, q, rtt);

	return hpcc_trust_weigh(&t, T, T);
}

static void ack__sums(void **state)
{
	struct hpcc_trust t = heard(1000, 3000, 400, T);

	assert_int_equal(t.now.idle, 700 - 6000);
	assert_int_equal(t.now.q_min, 400);
	assert_int_equal(t.ahead, 2 * (3000 - 1125));
	assert_int_equal(t.now.ahead_min, 0);
	assert_int_equal(t.now.wait_min, 400);
	assert_int_equal(t.now.rtt_max, T);

	t = heard(1000, 500, 7000, T);
	assert_int_equal(t.now.idle, 1750 - 1000);
	assert_int_equal(t.ahead, 0);
}

/* Another link, or counters that began anew: nothing to compare with, but the
 * queue counts.
 */
static void ack__another_link(void **state)
{
	struct hpcc_trust t = heard(1000, 3000, 400, T);
	struct hpcc_algo a = {};

	a.L[0] = (struct hpcc_link) {
		.ts = 5, .tx = 5, .qlen = 3, .tag = 9, .valid = true,
	};
	hpcc_trust_ack(&t, &a, 0);
	assert_int_equal(t.now.idle, 700 - 6000);
	assert_int_equal(t.now.q_min, 3);
	assert_int_equal(t.ahead, 0);
	assert_int_equal(t.ts, 5);
	a.L[0].ts = 1 << 30;
	a.L[0].u_q24 = 0;
	hpcc_trust_ack(&t, &a, 0);
	assert_int_equal(t.now.idle, 700 - 6000);
	a.L[0].valid = false;
	a.L[0].qlen = 0;
	hpcc_trust_ack(&t, &a, 0);
	assert_int_equal(t.now.q_min, 3);
}

static void weigh__idle(void **state)
{
	/* 7/8 of what the queue takes */
	assert_int_equal(weigh(1000, 875, 5000, T), 0);
	assert_int_equal(weigh(1000, 874, 5000, T), HPCC_TRUST_PROOF);
	/* a queue that may be gone before the next record */
	assert_int_equal(weigh(10000, 1750, 2000, T), 0);
	assert_int_equal(weigh(10000, 1749, 2000, T), HPCC_TRUST_PROOF);
	/* too short to tell */
	assert_int_equal(weigh(1000, 0, T / 8, T), 0);
	assert_int_equal(weigh(1000, 0, T / 8 + 1, T), HPCC_TRUST_PROOF);
	/* the link is slow, and the queue shows */
	assert_int_equal(weigh(1000, 0, 5000, T + 5000), 0);
	assert_int_equal(weigh(1000, 0, 5000, T + 1800), HPCC_TRUST_PROOF);
}

static void weigh__too_fast(void **state)
{
	struct hpcc_trust t = heard(1000, 1000, 0, T);

	t.before.ahead_min = 2 * T;
	t.before.wait_min = 2 * T;
	assert_int_equal(hpcc_trust_weigh(&t, T, T), 0);
	t.before.ahead_min++;
	t.before.wait_min++;
	assert_int_equal(hpcc_trust_weigh(&t, T, T), HPCC_TRUST_PROOF);
	/* the round after shows it */
	t.now.rtt_max = T + 1;
	assert_int_equal(hpcc_trust_weigh(&t, T, T), 0);
}

static void weigh__unseen(void **state)
{
	assert_int_equal(weigh(1000, 1000, 2 * T, T), 0);
	assert_int_equal(weigh(1000, 1000, 2 * T + 1, T), HPCC_TRUST_HINT);
	assert_int_equal(weigh(1000, 1000, 2 * T + 1, T + 1), 0);
}

static void weigh__nothing_to_say(void **state)
{
	struct hpcc_trust t;

	hpcc_trust_init(&t, 0);
	assert_true(hpcc_trust_weigh(&t, T, T) < 0);
	t = heard(1000, 0, 5000, T);
	t.now.rtt_max = 0;
	assert_true(hpcc_trust_weigh(&t, T, T) < 0);
	/* an RTT that is not known yet is U32_MAX us */
	t = heard(1000, 0, 5000, T);
	assert_int_equal(hpcc_trust_weigh(&t, T, NEVER), HPCC_TRUST_PROOF);
}

static void watch__most_loaded(void **state)
{
	struct hpcc_algo a = { .end = 4 };
	struct hpcc_trust t;

	hpcc_trust_init(&t, 0);
	a.L[0] = (struct hpcc_link) { .u_q24 = 100, .valid = true };
	a.L[3] = (struct hpcc_link) { .u_q24 = 200, .valid = true };
	t.valid = true;
	hpcc_trust_watch(&t, &a);
	assert_int_equal(t.at, 0);
	assert_true(t.valid);
	a.L[3].u_q24++;
	hpcc_trust_watch(&t, &a);
	assert_int_equal(t.at, 3);
	assert_false(t.valid);
	/* the path got shorter */
	hpcc_algo_trim(&a, 1);
	hpcc_trust_watch(&t, &a);
	assert_int_equal(t.at, 0);
}

/* ---- Score --------------------------------------------------------------- */

/* Rounds until hpcc_trust_score() says that something changed. */
static u32 rounds(struct hpcc_trust *t, int weight, u32 most)
{
	u32 n;

	for (n = 1; n <= most; n++) {
		if (hpcc_trust_score(t, weight, true))
			return n;
	}
	return 0;
}

static void score__lost_after(void **state)
{
	struct hpcc_trust t;

	hpcc_trust_init(&t, 0);
	assert_false(hpcc_trust_doubtful(&t));
	assert_int_equal(rounds(&t, HPCC_TRUST_PROOF, 99), 8);
	assert_true(t.lost);
	hpcc_trust_init(&t, 0);
	assert_int_equal(rounds(&t, HPCC_TRUST_HINT, 99), 32);
	hpcc_trust_init(&t, 0);
	assert_int_equal(rounds(&t, -1, 99), 0);
	assert_int_equal(rounds(&t, 0, 99), 0);
	assert_int_equal(t.score, 0);
}

/* A round in five that cannot be true is none too many. */
static void score__now_and_then(void **state)
{
	struct hpcc_trust t;
	u32 i;

	hpcc_trust_init(&t, 0);
	for (i = 0; i < 1000; i++)
		assert_false(hpcc_trust_score(&t, i % 5 ? 0 : HPCC_TRUST_PROOF,
					      true));
	for (i = 0; i < 99; i++)
		assert_false(hpcc_trust_score(&t, i % 2 ? 0 : HPCC_TRUST_HINT,
					      true));
}

static void score__without_backlog(void **state)
{
	struct hpcc_trust t;
	u32 i;

	hpcc_trust_init(&t, 0);
	for (i = 0; i < 99; i++)
		assert_false(hpcc_trust_score(&t, HPCC_TRUST_PROOF, false));
}

static void score__comes_back(void **state)
{
	struct hpcc_trust t;
	u32 want = HPCC_TRUST_BACK;
	u32 i;

	hpcc_trust_init(&t, 0);
	for (i = 0; i < 300; i++) {
		assert_int_equal(rounds(&t, HPCC_TRUST_PROOF, 99), 8);
		assert_int_equal(rounds(&t, 0, 5), 0);
		assert_int_equal(rounds(&t, HPCC_TRUST_PROOF, 99), 0);
		assert_int_equal(rounds(&t, -1, 99), 0);
		assert_int_equal(rounds(&t, 0, want), want);
		assert_false(t.lost);
		if (i < HPCC_TRUST_DOUBLINGS)
			want *= 2;
	}
	assert_int_equal(want, 65536);
}

static void round__ends_with_what_was_in_flight(void **state)
{
	struct hpcc_algo a = {};
	struct hpcc_trust t;

	hpcc_trust_init(&t, 0xfffffff0);
	t.now.q_min = 7;
	hpcc_trust_round(&t, &a, T, T, 0xfffffff0, 0x20, true);
	assert_int_equal(t.now.q_min, 7);
	hpcc_trust_round(&t, &a, T, T, 0x10, 0x20, true);
	assert_int_equal(t.end_seq, 0x20);
	assert_int_equal(t.before.q_min, 7);
	assert_true(t.now.q_min == NEVER);
}

/* ---- A link, its users, and one of them ------------------------------------- */

#define PACKET	1000ULL		/* ns of B */
#define FLIGHT	64

/**
 * struct sent - a packet of the flow that waits
 * @start: when it begins to leave
 * @tx: ns of B before it
 * @rtt: that it will measure
 */
struct sent {
	u64	start;
	u64	tx;
	u64	rtt;
};

/**
 * struct port - a FIFO link with others on it, and one flow that is looked at
 * @seed: of random numbers
 * @slow: it sends at B / this
 * @fan_in: others send a burst at this times B
 * @burst: at most so much at once, ns of B
 * @load_percent: of the others
 * @window: the flow's packets in flight
 * @gap: ns between them, at least
 * @lie: what the receiver makes of a record
 *
 * @free: when it has sent what came
 * @came: ns of B that came
 * @other: when the next packet of others comes
 * @left: ns of B that the burst has left
 * @waits: the flow's packets that wait, from @first
 * @a: the flow
 * @t: its trust
 */
struct port {
	u64	seed;
	u64	slow;
	u64	fan_in;
	u64	burst;
	u64	load_percent;
	u64	window;
	u64	gap;
	void	(*lie)(struct hpcc_sample *s, u64 *seed);

	u64	free;
	u64	came;
	u64	other;
	u64	left;
	struct sent waits[FLIGHT];
	u32	first;
	u32	end;
	u64	min_rtt;
	u32	most;
	struct hpcc_params params;
	struct hpcc_algo a;
	struct hpcc_trust t;
};

/* The flow's next packet leaves, and its ACK comes. */
static void leave(struct port *p)
{
	const struct sent *sent = &p->waits[p->first++ % FLIGHT];
	struct hpcc_sample s = {
		.hop = 1,
		.ts = sent->start,
		.tx = sent->tx,
		.qlen = p->came - sent->tx - PACKET,
	};

	if (p->lie)
		p->lie(&s, &p->seed);
	p->min_rtt = min(p->min_rtt, sent->rtt);
	hpcc_measure_inflight(&p->a, &p->params, &s, 1);
	hpcc_trust_ack(&p->t, &p->a, sent->rtt);
	hpcc_trust_round(&p->t, &p->a, T, p->min_rtt, p->first,
			 p->first + p->window, true);
	p->most = max_t(u32, p->most,
			p->t.lost ? HPCC_TRUST_LOST : p->t.score);
}

/* A packet comes. Return: when it begins to leave. */
static u64 arrive(struct port *p, u64 now)
{
	u64 start = max(now, p->free);

	while (p->first != p->end && p->waits[p->first % FLIGHT].start < now)
		leave(p);
	p->free = start + PACKET * p->slow;
	p->came += PACKET;
	return start;
}

/* All packets of others that come until a time. */
static void others_until(struct port *p, u64 now)
{
	while (p->load_percent && p->other <= now) {
		/* they lose what would wait for longer */
		if (p->free < p->other + 30 * T)
			arrive(p, p->other);
		if (p->left) {
			p->left -= PACKET;
			p->other += PACKET / p->fan_in;
			continue;
		}
		p->left = PACKET * random_below(&p->seed, p->burst / PACKET + 1);
		p->other += random_below(&p->seed, 2 * (p->left + PACKET) * 100 /
					 p->load_percent * p->slow);
	}
}

/* Packets of the flow, each with its record and RTT. Return: the highest score,
 * or HPCC_TRUST_LOST.
 */
static u32 run_flow(struct port p, u32 packets)
{
	u64 acked[FLIGHT] = {};
	u64 now = 0;
	u32 i;

	p.min_rtt = NEVER;
	hpcc_params_init(&p.params, T, 1 << 20, 1, 0, HPCC_ONE_Q24, 5);
	hpcc_algo_init(&p.a, &p.params);
	hpcc_trust_init(&p.t, 0);
	for (i = 0; i < packets; i++) {
		struct sent sent;

		now = max(now + p.gap, acked[i % p.window]);
		others_until(&p, now);
		sent.start = arrive(&p, now);
		sent.tx = p.came - PACKET;
		sent.rtt = sent.start + PACKET * p.slow - now + T - PACKET;
		acked[i % p.window] = now + sent.rtt;
		p.waits[p.end++ % FLIGHT] = sent;
	}
	return p.most;
}

/* Every kind of load that others can be, seen by a window or by a packet now and
 * then: nothing of it adds up.
 */
static void flow__truth(void **state)
{
	static const u64 loads[] = { 0, 30, 60, 90, 100, 120 };
	static const u64 fans[] = { 1, 2, 16, 100 };
	static const u64 windows[] = { 1, 2, 5, 20, 60 };
	static const u64 gaps[] = { 0, PACKET, T, 7 * T, 38 * T };
	u64 seed;
	u32 most = 0;

	for (seed = 0; seed < 6000; seed++) {
		u64 pick = seed;
		struct port p = {
			.seed = random_u64(&pick),
			.slow = 1 + random_below(&pick, 4) / 3 * 2,
			.fan_in = fans[random_below(&pick, 4)],
			.burst = random_below(&pick, 30 * T),
			.load_percent = loads[random_below(&pick, 6)],
			.window = windows[random_below(&pick, 5)],
			.gap = gaps[random_below(&pick, 5)],
		};

		/* A queue that has always been there; a port that is slower
		 * than it says is taken for a liar then.
		 */
		if (p.slow == 1)
			p.free = random_below(&pick, 2) * 5 * T;

		most = max(most, run_flow(p, 800));
	}
	print_message("# the truth scores %u of %u\n", most, HPCC_TRUST_LOST);
	assert_in_range(most, 0, HPCC_TRUST_LOST / 2 - 1);
}

static void lie_queue(struct hpcc_sample *s, u64 *seed)
{
	s->qlen = T * 6 / 10;
}

static void lie_long_queue(struct hpcc_sample *s, u64 *seed)
{
	s->qlen = 1000 * T;
}

static void lie_any_queue(struct hpcc_sample *s, u64 *seed)
{
	s->qlen = random_u64(seed) >> 40;
}

static void lie_busy_queue(struct hpcc_sample *s, u64 *seed)
{
	s->qlen = 3 * T;
	s->tx = s->ts;
}

static void lie_fast(struct hpcc_sample *s, u64 *seed)
{
	s->tx = 2 * s->ts;
}

/* What a flow alone on a link is told. */
static void flow__lies(void **state)
{
	static void (* const lies[])(struct hpcc_sample *s, u64 *seed) = {
		lie_queue, lie_long_queue, lie_any_queue, lie_busy_queue,
		lie_fast,
	};
	static const u64 windows[] = { 1, 3, 9 };
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(lies); i++) {
		for (k = 0; k < ARRAY_SIZE(windows); k++) {
			struct port p = {
				.seed = i,
				.slow = 1,
				.window = windows[k],
				.gap = T / windows[k] / 2 * 3,
				.lie = lies[i],
			};

			assert_int_equal(run_flow(p, 400), HPCC_TRUST_LOST);
		}
	}
}

/* What cannot be told from a link that is full. */
static void lie_full(struct hpcc_sample *s, u64 *seed)
{
	s->tx = s->ts;
	s->qlen = T;
}

static void flow__a_full_link(void **state)
{
	struct port p = { .slow = 1, .window = 3, .gap = T, .lie = lie_full };

	assert_int_equal(run_flow(p, 4000), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(ack__sums),
		cmocka_unit_test(ack__another_link),
		cmocka_unit_test(weigh__idle),
		cmocka_unit_test(weigh__too_fast),
		cmocka_unit_test(weigh__unseen),
		cmocka_unit_test(weigh__nothing_to_say),
		cmocka_unit_test(watch__most_loaded),
		cmocka_unit_test(score__lost_after),
		cmocka_unit_test(score__now_and_then),
		cmocka_unit_test(score__without_backlog),
		cmocka_unit_test(score__comes_back),
		cmocka_unit_test(round__ends_with_what_was_in_flight),
		cmocka_unit_test(flow__truth),
		cmocka_unit_test(flow__lies),
		cmocka_unit_test(flow__a_full_link),
	};

	return hpcc_run_tests(tests);
}
