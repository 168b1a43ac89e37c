// SPDX-License-Identifier: GPL-2.0
/*
 * A path of more hops than a request has slots: the sender's choice of phases
 * (<hpcc/law/phase.h>), the records of switches (<hpcc/wire/stamp.h>) and the window law
 * (<hpcc/law/algo.h>), connected by fluid models of links. With any queues of the other links, a
 * new record of each hop arrives within a stated number of requests, and W follows the load of any
 * link within a stated number of round trips.
 */
#include "algo.h"
#include <hpcc/law/phase.h>
#include <hpcc/wire/stamp.h>

#define MSS		1000

/* The longest interval between two requests that address the same hop, in requests. */
static u32 longest_wait(u32 hops, const u32 *nr, u32 period, u32 requests)
{
	u32 asked_at[HPCC_HOPS_MAX + 1] = { 0 };
	u32 longest = 0;
	u8 asked = 0;

	for (u32 i = 1; i <= requests; i++) {
		u32 n = nr[i % period];
		u32 phase;

		/* as in the sender, the next segment gets the echo */
		if (n == 1 && hpcc_phase_needs_slots(asked))
			n = 3;
		phase = hpcc_phase_next(&asked, hops, n);
		assert_true(phase < HPCC_PHASES);
		for (u32 hop = phase * n + 1; hop <= min(hops, (phase + 1) * n); hop++) {
			longest = max(longest, i - asked_at[hop]);
			asked_at[hop] = i;
		}
	}
	for (u32 hop = 1; hop <= hops; hop++)
		longest = max(longest, requests - asked_at[hop]);
	return longest;
}

TEST(phase_next__each_hop_once_in_a_round)
{
	u32 hops, n;

	for (hops = 1; hops <= HPCC_HOPS_MAX; hops++)
		for (n = 2; n <= 4; n++)
			assert_int_equal(longest_wait(hops, &n, 1, 1000), (hops + n - 1) / n);
	for (hops = 1, n = 1; hops <= HPCC_PHASES; hops++)
		assert_int_equal(longest_wait(hops, &n, 1, 1000), hops);
	/* hops 1 .. 8 one by one, then 7 .. 9, 10 .. 12, 13 .. 15 */
	assert_int_equal(longest_wait(HPCC_HOPS_MAX, &n, 1, 1000), 11);
}

/* Some requests share their header with an echo, in any order. */
TEST(phase_next__any_mixture_reaches_every_hop)
{
	for (u32 run = 0; run < 20000; run++) {
		u32 hops = 1 + random_below(HPCC_HOPS_MAX);
		u32 period = 1 + random_below(16);
		u32 nr[16];

		for (u32 i = 0; i < period; i++)
			nr[i] = 1 + random_below(3);
		assert_true(longest_wait(hops, nr, period, 500) <= hops);
	}
}

/* The path became shorter, or no phase addresses the next hop. */
TEST(phase_next__begins_again)
{
	static const struct { u8 asked, hops, n, phase, now_asked; } cases[] = {
		{ 9, 4, 3, 3, 0 }, { 8, 15, 1, 0, 1 }, { 5, 0, 3, 1, 0 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		u8 asked = cases[i].asked, phase;

		phase = hpcc_phase_next(&asked, cases[i].hops, cases[i].n);
		assert_int_equal(phase, cases[i].phase);
		assert_int_equal(asked, cases[i].now_asked);
	}
}

static u32 quiet_of(u32 hops, u32 phase, u32 nr, u32 reported, bool full)
{
	struct hpcc_opt opt = {
		.type = HPCC_OPT_FORWARD, .hops = hops, .nr = nr,
		.flags = phase | HPCC_OPT_F_PROMPT,
	};

	return hpcc_phase_quiet(&opt, reported, full);
}

TEST(phase_quiet__addressed_hops)
{
	static const struct { u32 hops, phase, nr, reported; bool full; u32 quiet; } cases[] = {
		/* all hops addressed, some wrote a record */
		{ 5, 0, 3, 0, false, 0x1f }, { 5, 0, 3, 0x12, false, 0x0d },
		{ 3, 0, 3, 0x07, true, 0 },
		/* hops after the last record of a full request are unknown */
		{ 9, 0, 2, 0x12, true, 0x0d }, { 9, 0, 1, 0x01, true, 0 },
		/* phase 1 of 3 slots: hops 4 and later; phase 2 of 2 slots: hops 5 and later */
		{ 6, 1, 3, 0x10, false, 0x28 }, { 6, 2, 2, 0, false, 0x30 },
		{ 15, 7, 2, 0, false, 0x4000 }, { 15, 0, 4, 0, false, 0x7fff },
		{ 0, 0, 3, 0, false, 0 },
		/* No switch writes these: a record of a hop before the phase, a full request
		 * without records. In the last two cases the phase begins after the last hop.
		 */
		{ 6, 1, 3, 0x01, false, 0x38 }, { 6, 1, 3, 0x03, true, 0 }, { 6, 0, 3, 0, true, 0 },
		{ 15, 7, 4, 0, false, 0 }, { 2, 1, 3, 0, false, 0 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(quiet_of(cases[i].hops, cases[i].phase, cases[i].nr,
					  cases[i].reported, cases[i].full), cases[i].quiet);
	/* A request without slots requests no records, so no hop is reported as quiet. */
	for (u32 phase = 0; phase < HPCC_PHASES; phase++)
		assert_int_equal(quiet_of(15, phase, 0, 0, true), 0);
}

/* A link. Rates are fractions of B, times are in ns. */
struct hop {
	double others;	/* rate of other senders */
	double burst;	/* queue from bursts of other senders; @tx does not include these bytes */
	double queue;	/* time that the link needs for all other waiting bytes */
	double tx;	/* time that the link has spent transmitting */
	bool replaces;	/* if no slot is free, replace the record with the shortest queue */
};

/* A sender, and the links up to its receiver. */
struct path {
	struct hop hop[HPCC_HOPS_MAX];
	u32 hops;
	bool mixed;	/* every second request shares its header with an echo */
	double now, credit;	/* @credit: bytes that may be sent now */
	u32 sent, requests;	/* bytes; number of requests */
	u8 asked;	/* see hpcc_phase_next() */
	struct hpcc_params p;
	struct hpcc_algo a;
	/* Requests in flight, in the order of sending: @first is the oldest, @last the next one. */
	struct request {
		double due;
		u32 end_seq;
		u8 option[36];
	} way[1024];
	u32 first, last;
};

static void path_init(struct path *path, u32 hops)
{
	*path = (struct path){ .hops = hops, .now = T_NS, .p = params(5) };
	hpcc_algo_init(&path->a, &path->p);
	hpcc_algo_links(&path->a, new_links(hops), hops);
}

/* Links transmit for @ns, while the sender sends at the rate @sends * B. */
static void path_work(struct path *path, double ns, double sends)
{
	for (struct hop *h = path->hop; h < path->hop + path->hops; h++) {
		double rate = h->others + sends;
		double did = min(h->queue + rate * ns, ns);

		h->queue += rate * ns - did;
		h->tx += did;
	}
	path->now += ns;
}

static u32 qlen_bits(const u8 *slot)
{
	return get_unaligned_be16(slot + 6) & ((1U << HPCC_QLEN_BITS) - 1);
}

/* No slot is free: replace the record with the shortest queue, if this queue is longer. */
static void replace(u8 *p, const struct hpcc_stamp *s)
{
	u32 qlen = hpcc_qlen_encode(s->qlen_ns);
	u8 one[36] = {}, *best = NULL;

	for (u8 *slot = p + HPCC_OPT_HEAD_LEN; slot < p + p[1]; slot += HPCC_RECORD_LEN)
		if (qlen_bits(slot) < qlen) {
			qlen = qlen_bits(slot);
			best = slot;
		}
	if (!best)
		return;
	memcpy(one, p, HPCC_OPT_HEAD_LEN);
	one[1] = hpcc_opt_len(1);
	one[3] = ((p[3] >> 4) - 1) << 4;
	assert_int_equal(hpcc_stamp_option(one, one[1], s), HPCC_STAMP_WRITTEN);
	memcpy(best, one + HPCC_OPT_HEAD_LEN, HPCC_RECORD_LEN);
}

static void path_stamp(struct path *path, u8 *option)
{
	for (u32 i = 0; i < path->hops; i++) {
		const struct hop *h = &path->hop[i];
		struct hpcc_stamp s = {
			.node = i + 1, .ts_ns = path->now, .tx_ns = h->tx,
			.qlen_ns = h->queue + h->burst,
		};

		if (hpcc_stamp_option(option, option[1], &s) == HPCC_UNSTAMPED_FULL && h->replaces)
			replace(option, &s);
	}
}

/* Send a segment with a request. Its records return in an ACK after T and the time in queues. */
static void path_send(struct path *path)
{
	struct hpcc_opt opt = { .type = HPCC_OPT_FORWARD, .nr = 3 };
	struct request *r = &path->way[path->last++ % ARRAY_SIZE(path->way)];

	assert_true(path->last - path->first < ARRAY_SIZE(path->way));
	if (path->mixed && path->requests % 2 && !hpcc_phase_needs_slots(path->asked))
		opt.nr = 1;
	path->requests++;
	opt.flags = hpcc_phase_next(&path->asked, path->hops, opt.nr);
	memset(r->option, 0, sizeof(r->option));
	hpcc_opt_encode(r->option, 253, &opt);
	path_stamp(path, r->option);
	path->sent += MSS;
	r->end_seq = path->sent;
	r->due = path->now + T_NS;
	for (u32 i = 0; i < path->hops; i++)
		r->due += path->hop[i].queue;
}

static void path_ack(struct path *path, const u8 *option, u32 end_seq)
{
	struct hpcc_sample s[4];
	struct hpcc_opt opt;
	u32 n = 0;

	assert_int_equal(hpcc_opt_decode(option, option[1], &opt), 0);
	for (u32 i = 0; i < opt.nr; i++) {
		struct hpcc_record r;
		const struct hpcc_link *l;

		hpcc_record_decode(option + hpcc_opt_len(i), &r);
		if (!r.hop)
			continue;
		l = &path->a.L[r.hop - 1];
		s[n++] = (struct hpcc_sample){
			.hop = r.hop, .tag = r.tag,
			.ts = hpcc_counter_extend(l->valid ? l->ts : 1 << 30 | r.ts, r.ts),
			.tx = hpcc_counter_extend(l->valid ? l->tx : 1 << 30 | r.tx, r.tx),
			.qlen = r.qlen,
		};
	}
	if (n)
		hpcc_new_ack(&path->a, &path->p, s, n, end_seq, path->sent);
}

static double share(const struct path *path)
{
	return (double)path->a.W_q16 / path->p.W_max_q16;
}

/* Run for this number of round trips: ACKs arrive, and segments leave at the rate W / T. */
static void path_run(struct path *path, u32 rtts)
{
	double end = path->now + (double)rtts * T_NS;
	const double step = T_NS / 250.;

	while (path->now < end) {
		while (path->first != path->last) {
			struct request *r = &path->way[path->first % ARRAY_SIZE(path->way)];

			if (r->due > path->now)
				break;
			path->first++;
			path_ack(path, r->option, r->end_seq);
		}
		path_work(path, step, share(path));
		path->credit += share(path) * W_INIT / T_NS * step;
		for (; path->credit >= MSS; path->credit -= MSS)
			path_send(path);
	}
}

/* Check that W fits the free capacity of the busiest link; @others is the load of other senders. */
static void expect_share(const struct path *path, double others)
{
	double want = 0.95 - others;

	if (share(path) >= want * 0.85 && share(path) <= want * 1.1)
		return;
	print_error("W is %.4f of W_init, not %.2f\n", share(path), want);
	fail();
}

/* Round trips that the law itself needs, with one link whose record is in every ACK. W falls below
 * its final value, because a queue has to drain, and rises again in steps of maxStage + 1 round
 * trips. After the load has ended, W needs two steps of maxStage + 1 round trips.
 */
#define SETTLES_RTTS	80
#define RISES_RTTS	30

/* The load moves from link to link. The last two links always have a short queue. */
static void load_wanders(u32 hops, bool mixed)
{
	struct path path;

	path_init(&path, hops);
	path.mixed = mixed;
	path.hop[hops - 1].burst = T_NS / 50;
	if (hops > 1)
		path.hop[hops - 2].burst = T_NS / 50;
	path_run(&path, RISES_RTTS);
	for (u32 i = 0; i < hops; i++) {
		struct hop *h = &path.hop[i * 4 % hops];

		h->others = 0.6;
		path_run(&path, SETTLES_RTTS);
		expect_share(&path, 0.6);
		h->others = 0;
		path_run(&path, RISES_RTTS);
		expect_share(&path, 0);
	}
}

TEST(path__W_follows_the_fullest_link)
{
	static const u32 hops[] = { 1, 2, 3, 4, 5, 7, 9, 11, 15 };

	for (u32 i = 0; i < ARRAY_SIZE(hops); i++) {
		load_wanders(hops[i], false);
		load_wanders(hops[i], true);
	}
}

/* The load of hop 1 has ended. Switches replace its record while its queue is the shortest. */
static void load_left(struct path *path, bool mixed)
{
	path_init(path, 5);
	path->mixed = mixed;
	path->hop[3].burst = T_NS / 50;
	path->hop[4].burst = T_NS / 50;
	for (u32 i = 0; i < path->hops; i++)
		path->hop[i].replaces = true;
	path_run(path, RISES_RTTS);
	path->hop[0].others = 0.6;
	path_run(path, SETTLES_RTTS);
	path->hop[0].others = 0;
}

/* The last record of hop 1 counts for HPCC_LINK_ROUNDS round trips. */
TEST(path__W_rises_behind_switches_that_replace)
{
	for (u32 mixed = 0; mixed < 2; mixed++) {
		struct path path;

		load_left(&path, mixed);
		path_run(&path, HPCC_LINK_ROUNDS + RISES_RTTS);
		expect_share(&path, 0);
	}
}

/* W reacts to the last record of hop 1 only once. */
TEST(path__one_record_is_answered_once)
{
	struct path path;
	double before;

	load_left(&path, false);
	path_run(&path, 1);
	before = share(&path);
	path_run(&path, HPCC_LINK_ROUNDS / 2);
	assert_near(share(&path), before, 0.0001);
}
