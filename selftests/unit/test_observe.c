// SPDX-License-Identifier: GPL-2.0
/* Unit tests of hpccmon observe: what the BPF program sends and keeps, and what hpccmon computes
 * from it. The other end of the flow is here.
 */
#define TEST_SETUP clear
#include "test.h"
#include "../../tools/hpccmon/observed.c"
#include "../../tools/hpccmon/units.c"
#include "../../tools/hpccmon/why.c"
#undef SOL_TCP
#undef AF_INET
#include "../../tools/hpccmon/bpf/observe.bpf.c"

#define US		1000ULL
#define MS		1000000ULL
#define SECOND		1000000000ULL
#define QUIET		-1	/* as the load of a hop */
/* After so many requests hpccmon knows all hops of a path. */
#define BEGINNING	60

bool filter_matches(const struct filter *filter, const struct flow *flow) { return true; }
void *allocated(void *memory) { return memory; }
bool flow_is_classic(const struct flow *flow) { return false; }

static struct observed_flow observed;
static struct bpf_sock_ops ctx;
static struct flow shown;

/* The links of the path: their load, transmission time in ns, and queue. */
static struct {
	double	load;
	double	tx;
	u64	qlen_ns;
} link_at[HPCC_HOPS_MAX + 1];

static void clear(void)
{
	memset(&observed, 0, sizeof(observed));
	memset(&link_at, 0, sizeof(link_at));
	memset(&ctx, 0, sizeof(ctx));
	bpf_flow = &observed;
	bpf_now = SECOND;
}

/* A flow begins. */
static void begin(u32 T_us, u32 hops)
{
	observed.T_us = T_us;
	observed.hops = hops;
	observed.request_ns = bpf_now;
	ctx.rtt_min = T_us;
	for (u32 i = 1; i <= hops; i++)
		link_at[i].tx = random_below(SECOND);
}

static void pass(u64 ns)
{
	bpf_now += ns;
	for (u32 i = 1; i <= HPCC_HOPS_MAX; i++)
		link_at[i].tx += link_at[i].load > 0 ? link_at[i].load * ns : 0;
}

/* Write the records that a request collects now. Return: their number. */
static u32 collect(u8 *to, u32 slots, u32 phase, u8 scale)
{
	u32 hop, nr = 0, still = 0;

	for (hop = phase * slots + 1; hop <= observed.hops && hop <= (phase + 1) * slots; hop++) {
		struct hpcc_record record = hpcc_record_of(hop, hop, bpf_now, link_at[hop].tx,
							   link_at[hop].qlen_ns, scale);

		if (link_at[hop].load == QUIET)
			still |= 1U << (hop - 1);
		else
			hpcc_record_encode(to + 8 * nr++, &record);
	}
	if (still)
		put_unaligned_be64((u64)still << 45, to + 8 * nr++);
	return nr;
}

/* After @gap_ns the flow sends a request, whose echo arrives after T. */
static void request(u64 gap_ns, u32 slots)
{
	u8 segment[sizeof(struct tcphdr) + 40] = {}, *option = segment + sizeof(struct tcphdr);
	u8 scale;
	u32 nr;

	pass(gap_ns);
	observed.type = HPCC_OPT_FORWARD;
	observed.slots = slots;
	write_option(&ctx);
	if (bpf_sent[2] >> 5 != HPCC_OPT_FORWARD)
		return;
	scale = bpf_sent[2] & 31;
	nr = collect(option + 4, slots, bpf_sent[3] & HPCC_OPT_F_PHASE, scale);
	option[0] = kind;
	option[1] = 4 + 8 * nr;
	option[2] = HPCC_OPT_ECHO << 5 | scale;
	option[3] = observed.hops << 4;
	ctx.skb_data = segment;
	ctx.skb_data_end = option + option[1];
	read_options(&ctx);
}

static void requests(u32 nr, u64 gap_ns)
{
	while (nr--)
		request(gap_ns, 3);
}

static void show(const struct flow *flow, void *data)
{
	shown = *flow;
}

/* hpccmon looks at the flow. Return: the number of hops whose u' is known. */
static u32 look(void)
{
	struct reader reader = { .fn = show, .now = bpf_now };
	u32 known = 0;

	take(&reader, 1, &observed);
	for (u32 i = 0; i < shown.nr_hops; i++)
		known += shown.hop[i].known;
	return known;
}

static const char *why(void)
{
	static char text[512];

	look();
	snprintf(shown.cc, sizeof(shown.cc), "cubic");
	return why_text(&shown, text, sizeof(text));
}

/* ---- The unit of time ---- */

/* Hop 3 has a load of 0.93, the others 0.88: at each look U is 0.93, and hop 3 is the busiest. */
static void check_loads(u32 T_us, u64 gap_ns, u64 pause_ns)
{
	clear();
	begin(T_us, 5);
	for (u32 i = 1; i <= 5; i++)
		link_at[i].load = i == 3 ? 0.93 : 0.88;
	for (u32 i = 0; i < 2000; i++) {
		request(i % 100 ? gap_ns : pause_ns, 3);
		if (i < BEGINNING)
			continue;
		assert_int_equal(look(), 5);
		assert_near(shown.U, 0.93, 0.002);
		assert_int_equal(flow_holder(&shown)->nr, 3);
	}
	assert_int_equal(observed.malformed, 0);
}

TEST(scale__loads_are_exact_at_any_distance_of_requests)
{
	check_loads(10, 10 * US, 10 * US);
	check_loads(10, 27400, 27400);
	check_loads(170, 3 * MS, 3 * MS);
	check_loads(170, 200 * MS, 200 * MS);
	check_loads(100000, 100 * MS, 100 * MS);
}

TEST(scale__a_pause_or_a_burst_changes_nothing)
{
	u8 scale;

	check_loads(10, 30 * US, SECOND);
	check_loads(10, 30 * US, 36000 * SECOND);
	check_loads(170, 200 * MS, 10 * MS);
	scale = observed.scale;
	request(SECOND, 3);
	assert_int_equal(observed.scale, scale);
}

TEST(scale__follows_the_flow)
{
	static const u64 gaps_ns[] = { 200 * MS, 20 * US, 3 * SECOND, 10 * US, 20 * MS };

	begin(10, 3);
	for (u32 i = 1; i <= 3; i++)
		link_at[i].load = 0.5;
	for (u32 i = 0; i < ARRAY_SIZE(gaps_ns); i++) {
		for (u32 j = 0; j < BEGINNING; j++)
			request(gaps_ns[i], 3);
		assert_int_equal(look(), 3);
		assert_near(shown.U, 0.5, 0.001);
	}
}

TEST(scale__all_hops_of_rare_requests_are_measured)
{
	static const struct { u32 hops, slots; u64 gap_ns; } paths[] = {
		{ 3, 3, 1100 * MS }, { 3, 3, 10 * SECOND }, { 6, 3, 400 * MS }, { 7, 3, 400 * MS },
		{ 15, 3, 200 * MS }, { 15, 3, 3 * SECOND }, { 5, 1, 200 * MS }, { 8, 1, 400 * MS },
	};

	for (u32 i = 0; i < ARRAY_SIZE(paths); i++) {
		clear();
		begin(168, paths[i].hops);
		for (u32 j = 0; j < 300; j++) {
			request(paths[i].gap_ns, paths[i].slots);
			if (j >= BEGINNING)
				assert_int_equal(look(), paths[i].hops);
		}
	}
}

/* ---- Quiet hops ---- */

TEST(quiet__the_hop_with_a_record_is_the_busiest)
{
	begin(168, 2);
	link_at[1].load = QUIET;
	link_at[2].load = 0.2;
	link_at[2].qlen_ns = 5 * US;
	requests(10, 11 * MS);
	assert_string_equal(why(), "cubic sets the window; hop 2 (u' 0.23) is the busiest; U 0.48, "
			    "eta 0.95: hpcc would increase W");
}

TEST(quiet__a_record_after_it_shows_a_busy_link)
{
	begin(168, 2);
	link_at[1].load = QUIET;
	link_at[2].load = 0.6;
	requests(10, 11 * MS);
	link_at[2].load = QUIET;
	requests(10, 11 * MS);
	assert_string_equal(why(), "cubic sets the window; all queues are too short for records; "
			    "U 0.48, eta 0.95: hpcc would increase W");
	link_at[2].load = 0.3;
	link_at[2].qlen_ns = 84 * US;
	request(11 * MS, 3);
	look();
	assert_near(shown.hop[1].u, 1.5, 0.01);
	assert_near(shown.U, 1.5, 0.01);
	assert_int_equal(flow_holder(&shown)->nr, 2);
	request(11 * MS, 3);
	look();
	assert_near(shown.hop[1].u, 0.8, 0.01);
}

TEST(quiet__a_hop_that_is_not_measured_yet_may_be_the_busiest)
{
	begin(168, 2);
	link_at[1].load = QUIET;
	link_at[2].load = 1;
	link_at[2].qlen_ns = 800 * US;
	request(200 * MS, 3);
	assert_string_equal(why(), "cubic sets the window; no link has been measured yet");
	requests(3, 200 * MS);
	look();
	assert_int_equal(flow_holder(&shown)->nr, 2);
}

/* ---- Other rules ---- */

TEST(echo__a_hop_with_a_record_and_quiet_hops_take_turns)
{
	u32 records = 0;

	observed.peer_quiet = 1;
	observed.got.scale = 5;
	observed.got.hops = 2;
	for (u32 i = 0; i < 100; i++) {
		memset(observed.in, 0, sizeof(observed.in));
		observed.in[0] = 2ULL << 60 | (1000ULL + i) << 32;
		take_request(&observed, 3, 0);
		observed.slots = 1;
		fill_echo(&observed);
		assert_int_equal(observed.slots, 1);
		records += be64toh(observed.out[0]) >> 60 == 2;
	}
	assert_int_equal(records, 50);
}

TEST(ack__is_at_most_a_window_below_snd_una)
{
	ctx.snd_una = 2000000;
	ctx.snd_nxt = 2100000;
	ctx.bytes_acked = 1000000;
	ctx.snd_cwnd = 100;
	ctx.mss_cache = 1000;
	assert_true(is_acceptable(&ctx, 2100000));
	assert_true(is_acceptable(&ctx, 1900000));
	assert_false(is_acceptable(&ctx, 2100001));
	assert_false(is_acceptable(&ctx, 1899999));
	ctx.bytes_acked = 50000;
	assert_false(is_acceptable(&ctx, 1949999));
}

TEST(idle__the_text_is_in_the_past_tense)
{
	begin(168, 1);
	link_at[1].load = 1;
	link_at[1].qlen_ns = 84 * US;
	requests(10, 11 * MS);
	assert_string_equal(why(), "cubic sets the window; hop 1 (u' 1.50, queue 84.0 us) is the "
			    "busiest; U 1.50, eta 0.95: hpcc would reduce W");
	pass(3600 * SECOND);
	assert_string_equal(why(), "cubic sets the window; 3600 s ago "
			    "hop 1 (u' 1.50, queue 84.0 us) was the busiest; U 1.50, eta 0.95");
}

TEST(idle__the_age_is_that_of_the_hop_that_is_shown)
{
	begin(168, 2);
	link_at[1].load = 0.3;
	link_at[2].load = 1;
	link_at[2].qlen_ns = 84 * US;
	requests(10, 200 * MS);
	pass(3600 * SECOND);
	link_at[1].load = QUIET;
	link_at[2].load = 0.1;
	link_at[2].qlen_ns = 0;
	request(MS, 3);
	assert_string_equal(why(), "cubic sets the window; 3600 s ago "
			    "hop 2 (u' 1.50, queue 84.0 us) was the busiest; U 1.50, eta 0.95");
}
