// SPDX-License-Identifier: GPL-2.0
/*
 * Unit tests of <hpcc/law/ldcp.h>, in the order of its functions: the curve is compared with exact
 * fractions, and the window law with the draft's equations in long double.
 */
#include "test.h"
#include <hpcc/law/ldcp.h>

#define ONE	LDCP_ONE_Q24
#define P_ONE	LDCP_P_ONE
#define Q24(x)	((u64)((x) * 0x1p24))

typedef unsigned __int128 u128;

#define ALL	LDCP_PPM

static struct ldcp_curve curve(u32 K_min, u32 K_max, u32 P_max_ppm)
{
	struct ldcp_curve c;

	/* ldcp_curve_init() must set all members. */
	memset(&c, 0xff, sizeof(c));
	ldcp_curve_init(&c, K_min, K_max, P_max_ppm);
	return c;
}

TEST(mark_p__exact_values)
{
	static const struct { u32 K_min, K_max, P_max_ppm; u64 q, want; } cases[] = {
		/* the draft's equation */
		{ 1000, 5096, ALL / 2, 0, 0 }, { 1000, 5096, ALL / 2, 999, 0 },
		{ 1000, 5096, ALL / 2, 1000, 0 }, { 1000, 5096, ALL / 2, 2024, P_ONE / 8 },
		{ 1000, 5096, ALL / 2, 3048, P_ONE / 4 },
		{ 1000, 5096, ALL / 2, 4072, P_ONE * 3 / 8 }, { 1000, 5096, ALL / 2, 5096, P_ONE },
		{ 1000, 5096, ALL / 2, 1ULL << 32, P_ONE }, { 1000, 5096, ALL / 2, ~0ULL, P_ONE },
		/* a jump at K_max */
		{ 0, 1U << 20, ALL / 10, 1U << 20, P_ONE }, { 10, 5000, 0, 5000, P_ONE },
		/* thresholds of 0 */
		{ 0, 1, ALL, 0, 0 }, { 0, 1, ALL, 1, P_ONE }, { 0, 4, ALL, 0, 0 },
		{ 0, 4, ALL, 1, P_ONE / 4 }, { 0, 4, ALL, 3, P_ONE * 3 / 4 },
	};
	struct ldcp_curve c;

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		c = curve(cases[i].K_min, cases[i].K_max, cases[i].P_max_ppm);
		assert_int_equal(ldcp_mark_p(&c, cases[i].q), cases[i].want);
	}
	c = curve(0, 1U << 20, ALL / 10);
	assert_near(ldcp_mark_p(&c, (1U << 20) - 1), 0.1 * P_ONE, 0.1 * P_ONE / (1 << 20) + 2);
	c = curve(10, 5000, 0);
	for (u64 q = 0; q < 5000; q++)
		assert_true(ldcp_mark_p(&c, q) == 0);
}

TEST(mark_p__K_min_is_K_max)
{
	static const u32 K[] = { 0, 1, 1500, 1U << 31, ~0U }, P_max_ppm[] = { 0, 1, ALL };

	for (u32 i = 0; i < 3 * ARRAY_SIZE(K); i++) {
		u64 k = K[i / 3];
		struct ldcp_curve c = curve(k, k, P_max_ppm[i % 3]);

		if (k)
			assert_int_equal(ldcp_mark_p(&c, k - 1), 0);
		assert_int_equal(ldcp_mark_p(&c, k), P_ONE);
		assert_int_equal(ldcp_mark_p(&c, k + 1), P_ONE);
	}
}

/* Compare p with the exact fraction. The bound is 2 + 2^-31 x (q - K_min), in units of 2^-32. */
static void check_p(u32 K_min, u32 K_max, u32 P_max_ppm, const struct ldcp_curve *c, u64 q)
{
	u64 p = ldcp_mark_p(c, q);
	u128 above = q - K_min, num = above * P_max_ppm << 32, error;
	u128 den = (u128)(K_max - K_min) * LDCP_PPM;

	if (q < K_min || q >= K_max) {
		assert_int_equal(p, q < K_min ? 0 : P_ONE);
		return;
	}
	assert_true(p * den <= num);
	error = num - p * den;
	assert_true(error << 31 < (((u128)2 << 31) + above) * den);
	assert_true(error < 4 * den);
}

TEST(mark_p__every_q_of_small_curves)
{
	for (int i = 0; i < 400; i++) {
		u32 K_min = random_below(3000);
		u32 K_max = K_min + random_below(3000);
		u32 P_max_ppm = i % 4 ? random_below(ALL + 1) : ALL;
		struct ldcp_curve c = curve(K_min, K_max, P_max_ppm);
		u64 p, before = 0;

		for (u64 q = 0; q < K_max + 10; q++) {
			check_p(K_min, K_max, P_max_ppm, &c, q);
			p = ldcp_mark_p(&c, q);
			assert_true(p >= before && p <= P_ONE);
			before = p;
		}
	}
}

static u32 random_u32(void)
{
	return random_magnitude() >> 32;
}

TEST(mark_p__any_curve)
{
	for (int i = 0; i < 20000; i++) {
		u32 a = random_u32(), b = random_u32();
		u32 K_min = i % 5 ? min(a, b) : 0;
		u32 K_max = i % 7 ? max(a, b) : ~0U;
		u32 P_max_ppm = i % 3 ? random_below(ALL + 1) : ALL;
		struct ldcp_curve c = curve(K_min, K_max, P_max_ppm);

		check_p(K_min, K_max, P_max_ppm, &c, 0);
		for (int j = -2; j <= 2; j++) {
			check_p(K_min, K_max, P_max_ppm, &c, (u64)K_min + j);
			check_p(K_min, K_max, P_max_ppm, &c, (u64)K_max + j);
		}
		for (int j = 0; j < 20 && K_max > K_min; j++)
			check_p(K_min, K_max, P_max_ppm, &c, K_min + random_below(K_max - K_min));
		check_p(K_min, K_max, P_max_ppm, &c, random_magnitude());
	}
}

static struct ldcp_params params(double alpha, double beta, double gamma)
{
	return (struct ldcp_params){ Q24(alpha), Q24(beta), Q24(gamma), Q24(gamma) };
}

/* One step of the window law with these parameters. */
struct step {
	double alpha, beta, gamma, cw_min;
	u64 cw;
	u32 n;
	u64 want;
};

static void check_steps(u64 (*law)(const struct ldcp_params *p, u64 cw, u32 n),
			const struct step *s, u32 nr)
{
	for (; nr--; s++) {
		const struct ldcp_params p = {
			Q24(s->alpha), Q24(s->beta), Q24(s->gamma), Q24(s->cw_min)
		};
		u64 got = law(&p, s->cw, s->n);

		if (got != s->want)
			print_error("cw of %llu / 2^24, n of %u: ", s->cw, s->n);
		assert_int_equal(got, s->want);
	}
}

#define MAX	LDCP_CW_MAX_Q24
#define N_MAX	LDCP_ACKED_MAX

TEST(grant__steps)
{
	static const struct step steps[] = {
		/* alpha / cw */
		{ 1, 0.5, 0.25, 0.25, 4 * ONE, 1, 4 * ONE + ONE / 4 },
		{ 1, 0.5, 0.25, 0.25, 4 * ONE, 3, 4 * ONE + ONE * 3 / 4 },
		{ 1, 0.5, 0.25, 0.25, ONE, 1, 2 * ONE },
		{ 0.125, 0.5, 0.25, 0.25, 4 * ONE, 1, 4 * ONE + ONE / 32 },
		/* to nearest: 2^24 / 3 = 5592405.33, 2^25 / 3 = 11184810.67 */
		{ 1, 0.5, 0.25, 0.25, 3 * ONE, 1, 3 * ONE + 5592405 },
		{ 1, 0.5, 0.25, 0.25, 3 * ONE, 2, 3 * ONE + 11184811 },
		/* 2^24 / 2^24 = 1; one half is rounded up, and less is rounded down */
		{ 0.5, 0.5, 0.25, 0.25, ONE << 23, 1, (ONE << 23) + 1 },
		{ 0.25, 0.5, 0.25, 0.25, ONE << 23, 1, (ONE << 23) + 1 },
		{ 0.25 - 0x1p-24, 0.5, 0.25, 0.25, ONE << 23, 1, ONE << 23 },
		{ 0.25 - 0x1p-24, 0.5, 0.25, 0.25, ONE << 23, 2, (ONE << 23) + 1 },
		{ 1, 1, 1, 1, ONE, 0, ONE },
		/* below 1 the law adds gamma for any n */
		{ 0.5, 0.5, 0.125, 0.125, ONE / 8, 1, ONE / 4 },
		{ 0.5, 0.5, 0.125, 0.125, ONE / 8, 9, ONE / 4 },
		{ 0.5, 0.5, 0.125, 0.125, ONE / 8, ~0U, ONE / 4 },
		{ 0.5, 0.5, 0.125, 0.125, ONE - 1, 1, ONE - 1 + ONE / 8 },
		/* n is limited */
		{ 1, 1, 1, 1, 2 * ONE, N_MAX, 2 * ONE + N_MAX / 2 * ONE },
		{ 1, 1, 1, 1, 2 * ONE, N_MAX - 1, 2 * ONE + N_MAX / 2 * ONE - ONE / 2 },
		{ 1, 1, 1, 1, 2 * ONE, N_MAX + 1, 2 * ONE + N_MAX / 2 * ONE },
		{ 1, 1, 1, 1, 2 * ONE, ~0U, 2 * ONE + N_MAX / 2 * ONE },
		/* the largest window */
		{ 1, 1, 1, 1, MAX, 1, MAX },
		{ 1, 1, 1, 1, MAX - 1, N_MAX, MAX },
		{ 1, 1, 1, 1, MAX - 1, 1, MAX },
		{ 1, 1, 1, 1, MAX - 2, 1, MAX - 1 },
		/* a caller may set a window that the law never reaches */
		{ 1, 1, 0.25, 0.25, 1ULL << 63, ~0U, MAX },
		{ 1, 1, 0.25, 0.25, 0, 1, ONE / 4 },
		{ 1, 1, 0.25, 0.25, ONE / 8, 1, ONE * 3 / 8 },
		{ 0.5, 0.25, 0.25, 0.1, Q24(0.1), 1, Q24(0.1) + ONE / 4 },
	};

	check_steps(ldcp_grant, steps, ARRAY_SIZE(steps));
}

TEST(revoke__steps)
{
	static const struct step steps[] = {
		/* n beta */
		{ 0.5, 0.25, 0.125, 0.125, 4 * ONE, 1, 4 * ONE - ONE / 4 },
		{ 0.5, 0.25, 0.125, 0.125, 4 * ONE, 3, 4 * ONE - ONE * 3 / 4 },
		{ 0.5, 0.25, 0.125, 0.125, 40000 * ONE, 80000, 20000 * ONE },
		{ 0.5, 1, 0.125, 0.125, 4 * ONE, 1, 3 * ONE },
		/* this law ends at 1 */
		{ 0.5, 0.25, 0.125, 0.125, ONE + 1, 1, ONE },
		{ 0.5, 0.25, 0.125, 0.125, ONE + ONE / 4 - 1, 1, ONE },
		{ 0.5, 0.25, 0.125, 0.125, ONE + ONE / 4, 1, ONE },
		{ 0.5, 0.25, 0.125, 0.125, ONE + ONE / 4 + 1, 1, ONE + 1 },
		{ 0.5, 0.25, 0.125, 0.125, 2 * ONE, 100, ONE },
		{ 0.5, 0.25, 0.125, 0.125, MAX, ~0U, ONE },
		/* from 1 on it halves */
		{ 0.5, 0.25, 0.0625, 0.0625, ONE, 1, ONE / 2 },
		{ 0.5, 0.25, 0.0625, 0.0625, ONE - 1, 1, ONE / 2 - 1 },
		{ 0.5, 0.25, 0.0625, 0.0625, ONE, 7, ONE / 2 },
		{ 0.5, 0.25, 0.0625, 0.0625, ONE / 4, ~0U, ONE / 8 },
		/* down to cw_min */
		{ 0.5, 0.25, 0.3, 0.3, 2 * Q24(0.3) + 2, 1, Q24(0.3) + 1 },
		{ 0.5, 0.25, 0.3, 0.3, 2 * Q24(0.3), 1, Q24(0.3) },
		{ 0.5, 0.25, 0.3, 0.3, Q24(0.31), 1, Q24(0.3) },
		{ 0.5, 0.25, 0.3, 0.3, Q24(0.3), 1, Q24(0.3) },
		{ 0.5, 0.25, 1, 1, ONE, 1, ONE },
		{ 0.5, 0.25, 1, 1, 2 * ONE, 9, ONE },
		/* cw_min below gamma */
		{ 0.5, 0.25, 0.25, 0.1, ONE / 4, 1, ONE / 8 },
		{ 0.5, 0.25, 0.25, 0.1, ONE / 8, 1, Q24(0.1) },
		{ 0.5, 0.25, 0.25, 0.1, Q24(0.1), 1, Q24(0.1) },
		/* windows out of range */
		{ 1, 1, 0.25, 0.25, 0, 1, ONE / 4 },
		{ 1, 1, 0.25, 0.25, ONE / 8, 1, ONE / 4 },
		{ 1, 1, 0.25, 0.25, 1ULL << 63, ~0U, (1ULL << 63) - (u64)~0U * ONE },
	};

	check_steps(ldcp_revoke, steps, ARRAY_SIZE(steps));
}

TEST(any__zero_segments_change_nothing)
{
	struct ldcp_params p = params(1, 1, 1);

	for (int i = 0; i < 1000; i++) {
		u64 cw = ONE + random_below(LDCP_CW_MAX_Q24 - ONE);

		assert_true(ldcp_grant(&p, cw, 0) == cw);
		assert_true(ldcp_revoke(&p, cw, 0) == cw);
	}
}

static u32 some_constant(void)
{
	static const u32 constants_q24[] = {
		1, 16777 /* 0.001 */, 1U << 20, 1U << 21, 1U << 22, 1U << 23,
		15099494 /* 0.9 */, (1U << 24) - 1, 1U << 24
	};

	return constants_q24[random_below(ARRAY_SIZE(constants_q24))];
}

static struct ldcp_params some_params(void)
{
	u32 gamma_q24 = some_constant();

	return (struct ldcp_params){ some_constant(), some_constant(), gamma_q24,
				     min(some_constant(), gamma_q24) };
}

/* A random window from cw_min to the maximum; values next to 1 are more frequent. */
static u64 some_cw(const struct ldcp_params *p)
{
	u64 cw = random_magnitude() >> 15;

	if (random_below(8) == 0)
		cw = ONE - 2 + random_below(5);
	return clamp_t(u64, cw, p->cw_min_q24, LDCP_CW_MAX_Q24);
}

static u32 some_n(void)
{
	u32 n = random_u32();

	return max(random_below(4) ? n >> 16 : n, 1U);
}

static long double seg(u64 q24)
{
	return ldexpl(q24, -24);
}

static long double draft_grant(const struct ldcp_params *p, long double cw, u32 n)
{
	if (cw < 1)
		return cw + seg(p->gamma_q24);
	return fminl(cw + n * seg(p->alpha_q24) / cw, 1 << 24);
}

static long double draft_revoke(const struct ldcp_params *p, long double cw, u32 n)
{
	if (cw <= 1)
		return fmaxl(seg(p->cw_min_q24), cw / 2);
	return fmaxl(cw - n * seg(p->beta_q24), 1);
}

TEST(any__equals_the_draft)
{
	for (int i = 0; i < 1000000; i++) {
		struct ldcp_params p = some_params();
		u64 cw = some_cw(&p);
		u32 n = some_n(), most = min(n, 32768U);

		/* the error is at most half of the last bit */
		assert_near(seg(ldcp_grant(&p, cw, n)), draft_grant(&p, seg(cw), most), 0x1p-25L);
		assert_near(seg(ldcp_revoke(&p, cw, n)), draft_revoke(&p, seg(cw), n), 0x1p-25L);
	}
}

/* Return the window after one ACK, with or without a mark. */
static u64 ack(const struct ldcp_params *p, u64 cw, bool mark)
{
	return mark ? ldcp_revoke(p, cw, 1) : ldcp_grant(p, cw, 1);
}

/* The window to which the law converges: alpha (1 - p) / (beta p) */
static double settled(const struct ldcp_params *l, double p)
{
	return (double)l->alpha_q24 * (1 - p) / (l->beta_q24 * p);
}

/* In the steady state each mark reduces cw by its growth since the previous mark. */
TEST(any__settles_with_regular_marks)
{
	static const u32 periods[] = { 5, 10, 100 };
	struct ldcp_params p = params(1, 0.5, 0.25);

	for (u32 i = 0; i < ARRAY_SIZE(periods); i++) {
		u32 period = periods[i], begin = 4000 * period;
		double want = settled(&p, 1.0 / period), sum = 0;
		u64 cw = ONE;

		for (u32 k = 0; k < begin + period; k++) {
			cw = ack(&p, cw, k % period == 0);
			sum += k < begin ? 0 : seg(cw);
		}
		assert_near(sum / period, want, 0.1 + want * 0.002);
	}
}

/* Return the mean of cw or 1 / cw over 2,000,000 ACKs, which are marked at random. */
static double mean(const struct ldcp_params *l, double marked, double cw_begin, bool inverse)
{
	u64 cw = Q24(cw_begin);
	double sum = 0;
	int k;

	for (k = 0; k < 2000000; k++) {
		cw = ack(l, cw, random_u64() < marked * 0x1p64);
		sum += inverse ? 1 / seg(cw) : seg(cw);
	}
	return sum / k;
}

/* E[alpha / cw] (1 - p) = beta p: the harmonic mean of cw converges to settled(). */
TEST(any__settles_with_random_marks)
{
	static const double marked[] = { 0.1, 0.02, 0.002 };
	struct ldcp_params laws[] = { params(1, 0.5, 0.25), params(0.25, 0.125, 0.25) };

	random_state = 11;
	for (u32 i = 0; i < 6; i++) {
		double p = marked[i / 2], want = settled(&laws[i % 2], p);

		assert_near(1 / mean(&laws[i % 2], p, want, true), want, want * 0.01);
	}
}

/* E[cw] p / 2 = gamma (1 - p), if cw reaches neither 1 nor gamma. */
TEST(any__settles_below_1)
{
	static const double marked[] = { 1.0 / 64, 1.0 / 128, 1.0 / 200 };
	struct ldcp_params l = params(1, 0.5, 1.0 / 4096);

	random_state = 12;
	for (u32 i = 0; i < ARRAY_SIZE(marked); i++) {
		double want = 2.0 / 4096 * (1 - marked[i]) / marked[i];

		assert_near(mean(&l, marked[i], want, false), want, want * 0.02);
	}
}

/* Every 5th ACK is marked: the largest window is 2 gamma (1 - p) / p, the smallest half of it. */
TEST(any__settles_below_1_with_regular_marks)
{
	struct ldcp_params l = params(1, 0.5, 1.0 / 16);
	u64 cw = ONE / 16;
	int k;

	for (k = 0; k < 500; k++)
		cw = ack(&l, cw, k % 5 == 4);
	assert_near(seg(cw), 0.25, 1e-5);
	for (k = 0; k < 4; k++)
		cw = ack(&l, cw, false);
	assert_near(seg(cw), 2.0 / 16 * 4, 1e-5);
}

TEST(tick_rtt__between_T_and_8_T)
{
	static const struct { u64 T_ns; u32 rtt_us; u64 want; } cases[] = {
		{ 10000, 0, 10000 }, { 10000, 9, 10000 }, { 10000, 10, 10000 },
		{ 10000, 11, 11000 }, { 10000, 79, 79000 }, { 10000, 81, 80000 },
		{ 10000, 40000, 80000 }, { 1000000000, ~0U, 8000000000ULL },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(ldcp_tick_rtt_ns(cases[i].T_ns, cases[i].rtt_us), cases[i].want);
}

/* A random number: @n zero bits, a one bit, and the upper bits of @rest. */
static u32 heads(u32 n, u32 rest)
{
	return (1U << 31 | rest >> 1) >> n;
}

TEST(tick__parts_of_two_thirds)
{
	const u64 tick = 300000;

	for (u32 n = 0; n < 8; n++) {
		u64 from = tick * 2 * n / 3, to = tick * 2 * (n + 1) / 3;

		assert_near(ldcp_tick_ns(tick / 4, ONE / 4, heads(n, 0)), from, 1);
		assert_near(ldcp_tick_ns(tick / 4, ONE / 4, heads(n, 1U << 31)),
			    (from + to) / 2, 1);
		assert_near(ldcp_tick_ns(tick / 4, ONE / 4, heads(n, ~0U)), to, tick / 10000.0);
	}
	assert_near(ldcp_tick_ns(tick / 4, ONE / 4, 0), tick * 16 / 3, 1);
	assert_near(ldcp_tick_ns(tick / 4, ONE / 4, 0xffff00U >> 1), tick * 6, tick / 10000.0);
}

/* The mean, the deviation, and the share of long ticks agree with an exponential distribution. */
TEST(tick__mean_is_rtt_over_cw)
{
	static const double cw[] = { 0.001, 0.1, 0.25, 0.999 };
	const int times = 1000000;

	for (size_t i = 0; i < 4; i++) {
		double want = 10000 / cw[i], sum = 0, squares = 0;
		u32 longer = 0;

		for (int k = 0; k < times; k++) {
			double ns = ldcp_tick_ns(10000, Q24(cw[i]), random_u64() >> 32);

			assert_true(ns < 6.001 * want);
			sum += ns;
			squares += ns * ns;
			longer += ns > 2 * want;
		}
		assert_near(sum / times, want, want * 0.02);
		assert_near(sqrt(squares / times - want * want), want, want * 0.08);
		assert_near((double)longer / times, exp(-2), 0.015);
	}
}

/* The longest RTT with the smallest window causes no overflow. */
TEST(tick__largest)
{
	u64 rtt_ns = ldcp_tick_rtt_ns(1000000000, ~0U);
	u32 random = 0xffff00U >> 1;
	double want = 6.0 * rtt_ns * 1000;

	assert_near(ldcp_tick_ns(rtt_ns, Q24(0.001), random), want, want * 0.0002);
	assert_true(ldcp_tick_ns((1ULL << 40) - 1, ONE - 1, random) > 5 * (1ULL << 40));
}

#define FLOWS	8
#define TRIP	64	/* packet times from the switch to the sender and back to the switch */
#define SIZE	1500U
#define QUEUE	1024	/* packets; more than the sum of all windows */
#define NOBODY	(-1)

/* A switch that sends one packet in each packet time, and its senders. */
struct loop {
	struct ldcp_params law;
	struct ldcp_curve curve;
	u64 cw[FLOWS];
	u32 flying[FLOWS];
	struct packet {
		int flow;
		bool mark;
	} queue[QUEUE], back[TRIP];
	u32 head, tail;
	/* sums over packet times, and over ACKs */
	double bytes, idle, acks[FLOWS], marks, inverse;
};

static void loop_send(struct loop *l, int flow)
{
	u32 waiting = l->tail - l->head;
	u64 p = ldcp_mark_p(&l->curve, waiting * SIZE);

	assert_true(waiting < QUEUE);
	l->queue[l->tail++ % QUEUE] = (struct packet){
		.flow = flow, .mark = random_u64() >> 32 < p
	};
	l->flying[flow]++;
}

static void loop_ack(struct loop *l, const struct packet *packet)
{
	u64 *cw = &l->cw[packet->flow];

	l->flying[packet->flow]--;
	*cw = ack(&l->law, *cw, packet->mark);
	l->acks[packet->flow]++;
	l->marks += packet->mark;
	l->inverse += 1 / seg(*cw);
}

static void loop_run(struct loop *l, u32 times)
{
	u32 t;
	int i;

	for (t = 0; t < times; t++) {
		struct packet *back = &l->back[t % TRIP];

		if (back->flow != NOBODY)
			loop_ack(l, back);
		/* no window stays below one segment, so no flow needs a timer */
		for (i = 0; i < FLOWS; i++)
			while (l->flying[i] < max(l->cw[i] / ONE, 1ULL))
				loop_send(l, i);
		l->bytes += (l->tail - l->head) * SIZE;
		if (l->head == l->tail) {
			back->flow = NOBODY;
			l->idle++;
		} else {
			*back = l->queue[l->head++ % QUEUE];
		}
	}
}

TEST(any__flows_share_a_switch)
{
	static struct loop l;
	const double times = 2000000;
	double p, want, acks = 0;
	int i;

	memset(&l, 0, sizeof(l));
	l.law = params(1, 0.5, 0.25);
	l.curve = curve(5 * SIZE, 25 * SIZE, ALL);
	random_state = 13;
	for (i = 0; i < TRIP; i++)
		l.back[i].flow = NOBODY;
	/* at first one flow has the whole capacity */
	for (i = 0; i < FLOWS; i++)
		l.cw[i] = i ? ONE : 100 * ONE;
	loop_run(&l, times / 20);
	memset(&l.bytes, 0, sizeof(l) - offsetof(struct loop, bytes));
	loop_run(&l, times);

	for (i = 0; i < FLOWS; i++)
		acks += l.acks[i];
	for (i = 0; i < FLOWS; i++)
		assert_near(l.acks[i] / acks, 1.0 / FLOWS, 0.01);
	p = l.marks / acks;
	want = settled(&l.law, p);
	assert_near(acks / l.inverse, want, 0.02 * want);
	/* at the mean queue the curve gives the measured p */
	assert_near(l.bytes / times, (5 + p * 20) * SIZE, SIZE);
	assert_true(l.idle / times < 0.02);
}

TEST(is_low_priority__until_IW_is_complete_or_the_last)
{
	static const struct { u64 sent, IW; bool last, want; } cases[] = {
		{ 1500, 15000, false, true }, { 14999, 15000, false, true },
		{ 15000, 15000, false, false }, { 15001, 15000, false, false },
		{ ~0ULL, 15000, false, false }, { ~0ULL - 1, ~0ULL, false, true },
		{ 1, 15000, true, false }, { 14999, 15000, true, false },
		{ 15000, 15000, true, false },
		{ 0, 0, false, false }, { 1, 0, false, false },		/* no window */
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(ldcp_is_low_priority(cases[i].sent, cases[i].IW, cases[i].last),
				 cases[i].want);
}

/* In the first RTT only the packet that completes IW is ECT, for any packet sizes. */
TEST(is_low_priority__one_of_the_first_rtt)
{
	for (int i = 0; i < 1000; i++) {
		u64 IW = 1 + random_below(1000000), sent = 0;
		u32 high = 0;

		while (sent < IW) {
			sent += 1 + random_below(9000);
			high += !ldcp_is_low_priority(sent, IW, false);
		}
		assert_int_equal(high, 1);
	}
}
