// SPDX-License-Identifier: GPL-2.0
/*
 * The packet with which a switch reports its queue to a sender (hpcc/wire/respond.h): each byte,
 * and the requests that get no such packet. The test computes checksums in full.
 */
#define TEST_SETUP begin
#include "test.h"
#include <hpcc/wire/respond.h>

#define KIND	253

static const struct hpcc_stamp port = {
	.node = 7, .port = 2, .ts_ns = 0x12345 << 3, .tx_ns = 0x6789a << 3, .qlen_ns = 300 << 3,
};

/* Properties of a request: Ethernet header and VLAN tag, IP version, TCP flags, type and hops. */
struct shape {
	bool ethernet, tagged;
	u8 version, flags, type, hops;
};

static const struct shape plain = {
	.ethernet = true, .version = 4, .flags = 0x18, .type = HPCC_OPT_FORWARD, .hops = 2,
};

/* Each test begins with this shape. request() builds the request, respond() the response. */
static struct shape s;
static struct hpcc_opt_location place;
static struct hpcc_trigger a, b;
static u8 p[200], *response;

static void begin(void)
{
	s = plain;
}

static u32 put(u32 at, const char *bytes, u32 n)
{
	memcpy(p + at, bytes, n);
	return at + n;
}

/* A request: a segment with timestamps, an option with two slots, and 5 bytes of data. */
static u32 request(void)
{
	struct hpcc_frame f = { .p = p, .proto = HPCC_PROTO_ETHERNET };
	char opt[20] = { (char)KIND, 20, s.type << 5 | 3, s.hops << 4 | HPCC_OPT_F_PROMPT };
	char tcp[20] = "\x27\x10\x13\x89\xa1\xa2\xa3\xa4\xb1\xb2\xb3\xb4\xd0\x18\x01\x02\xcc\xcc";
	u32 at = 0;

	if (s.ethernet)
		at = put(at, "\x02\x22\x22\x22\x22\x22\x02\x11\x11\x11\x11\x11", 12);
	if (s.tagged)
		at = put(at, "\x81\x00\x60\x64", 4);
	if (s.ethernet)
		at = put(at, s.version == 4 ? "\x08\x00" : "\x86\xdd", 2);
	else
		f.proto = s.version == 4 ? ETH_P_IP : ETH_P_IPV6;
	if (s.version == 4)
		at = put(at, "\x45\x2a\x00\x4d\x12\x34\x40\x00\x40\x06\xcc\xcc"
			 "\x0a\x00\x00\x01\x0a\x00\x00\x02", 20);
	else
		at = put(at, "\x62\xab\xcd\xef\x00\x39\x06\x40"
			 "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"
			 "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02", 40);
	tcp[13] = s.flags;
	at = put(at, tcp, 20);
	at = put(at, "\1\1\x08\x0a\0\0\0\1\0\0\0\2", 12);
	at = put(at, opt, sizeof(opt));
	at = put(at, "hello", 5);
	f.len = at;
	f.have = at;
	assert_int_equal(hpcc_walk(&f, KIND, &place), HPCC_WALK_FOUND);
	return at;
}

/* Write the response to a request, and return its length. */
static u32 respond(void)
{
	u32 len;

	request();
	/* The previous content must have no effect. */
	memset(&a, 0xa5, sizeof(a));
	assert_true(hpcc_trigger_read(p, &place, KIND, s.ethernet, &a));
	hpcc_trigger_stamp(&a, &port);
	len = hpcc_response_len(&a);
	assert_true(len <= HPCC_RESPONSE_LEN_MAX);
	free(response);
	response = malloc(len);
	hpcc_response_write(response, &a);
	return len;
}

/* TCP header and option of the response, without the checksum at offset 16. */
static void expect_tcp(const u8 *tcp)
{
	static const u8 head[] = {
		0x13, 0x89, 0x27, 0x10,			/* ports swapped */
		0xb1, 0xb2, 0xb3, 0xb4,			/* the data's ACK number */
		0xa1, 0xa2, 0xa3, 0xa4,			/* the data's sequence number */
		0x80, 0, 0, 0,				/* 32 bytes, no flags, no window */
	};
	static const u8 opt[] = { KIND, 12, 7 << 5 | 3, 3 << 4 };
	struct hpcc_record r;

	assert_memory_equal(tcp, head, sizeof(head));
	assert_memory_equal(tcp + 18, "\0\0", 2);
	assert_memory_equal(tcp + 20, opt, sizeof(opt));
	hpcc_record_decode(tcp + 24, &r);
	assert_int_equal(r.hop, 3);
	assert_int_equal(r.tag, hpcc_link_tag(7, 2));
	assert_int_equal(r.ts, 0x12345);
	assert_int_equal(r.tx, 0x6789a);
	assert_int_equal(r.qlen, 300);
}

TEST(response__ipv4)
{
	static const u8 eth[] = "\x02\x11\x11\x11\x11\x11\x02\x22\x22\x22\x22\x22\x08";
	static const u8 ip[] = { 0x45, 0x28, 0, 52, 0, 0, 0x40, 0, 64, 6 };
	const u8 *p;

	assert_int_equal(respond(), 14 + 20 + 32);
	p = response;
	assert_memory_equal(p, eth, 14);
	assert_memory_equal(p + 14, ip, sizeof(ip));
	assert_memory_equal(p + 26, "\x0a\0\0\x02\x0a\0\0\x01", 8);
	assert_int_equal(sum_words(0, p + 14, 20), 0xffff);
	expect_tcp(p + 34);
	assert_int_equal(sum_words(sum_words(6 + 32, p + 26, 8), p + 34, 32), 0xffff);
}

TEST(response__ipv6_tagged)
{
	const u8 *p;

	s.version = 6;
	s.tagged = true;
	assert_int_equal(respond(), 18 + 40 + 32);
	p = response;
	assert_memory_equal(p, "\x02\x11\x11\x11\x11\x11\x02\x22\x22\x22\x22\x22", 12);
	assert_memory_equal(p + 12, "\x81\0\x60\x64\x86\xdd", 6);
	assert_memory_equal(p + 18, "\x62\x80\0\0\0\x20\x06\x40", 8);
	assert_memory_equal(p + 26, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02", 16);
	assert_memory_equal(p + 42, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", 16);
	expect_tcp(p + 58);
	assert_int_equal(sum_words(sum_words(6 + 32, p + 26, 32), p + 58, 32), 0xffff);
}

TEST(response__without_ethernet)
{
	s.ethernet = false;
	assert_int_equal(respond(), 20 + 32);
	assert_int_equal(sum_words(0, response, 20), 0xffff);
	expect_tcp(response + 20);
}

/* A response is no request, so no switch stamps it or responds to it. */
TEST(response__is_no_request)
{
	u32 len = respond();
	struct hpcc_frame f = { response, .have = len, .len = len, .proto = HPCC_PROTO_ETHERNET };

	assert_int_equal(hpcc_walk(&f, KIND, &place), HPCC_UNSTAMPED_NO_OPTION);
}

TEST(trigger__only_some_requests)
{
	enum { ACK = 0x18, NO_ACK = 0x08, RST = 0x14, FORWARD = HPCC_OPT_FORWARD };
	static const struct { u8 kind, source, type, hops, flags; bool want; } cases[] = {
		{ KIND, 0, FORWARD, 2, ACK, true }, { 254, 0, FORWARD, 2, ACK, false },
		{ KIND, 1, FORWARD, 2, ACK, false },	/* from a group address */
		{ KIND, 0, HPCC_OPT_IDENTIFY, 2, ACK, false },
		{ KIND, 0, HPCC_OPT_ANSWERED, 2, ACK, false },
		{ KIND, 0, FORWARD, 14, ACK, true }, { KIND, 0, FORWARD, 15, ACK, false },
		{ KIND, 0, FORWARD, 2, NO_ACK, false }, { KIND, 0, FORWARD, 2, RST, false },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		s.type = cases[i].type;
		s.hops = cases[i].hops;
		s.flags = cases[i].flags;
		request();
		p[6] |= cases[i].source;
		assert_int_equal(hpcc_trigger_read(p, &place, cases[i].kind, s.ethernet, &a),
				 cases[i].want);
	}
}

/* Read the trigger in p, which must be in the same flow as a, and from the same sender, or not. */
static void check_flow(bool same_flow, bool same_sender)
{
	assert_true(hpcc_trigger_read(p, &place, KIND, true, &b));
	assert_int_equal(!memcmp(&a, &b, HPCC_TRIGGER_FLOW_LEN), same_flow);
	assert_int_equal(!memcmp(&a, &b, hpcc_trigger_sender_len(&a)), same_sender);
}

/* Only addresses, ports and VLANs distinguish flows. */
TEST(trigger__flow)
{
	memset(&a, 0xa5, sizeof(a));
	memset(&b, 0x5a, sizeof(b));
	request();
	assert_true(hpcc_trigger_read(p, &place, KIND, true, &a));
	p[14 + 20 + 4] ^= 1;				/* sequence number */
	check_flow(true, true);
	p[14 + 20 + 1] ^= 1;				/* port */
	check_flow(false, true);
	p[14 + 15] ^= 1;				/* source address */
	check_flow(false, false);
	s.tagged = true;
	request();
	assert_true(hpcc_trigger_read(p, &place, KIND, true, &a));
	assert_int_equal(a.vlans[0], 0);
	assert_int_equal(a.vlans[1], 0x64);
	assert_int_equal(a.vlans[2], 0);
	p[14] ^= 0xe0;					/* priority */
	check_flow(true, true);
	p[15] ^= 1;					/* VLAN */
	check_flow(false, false);
}

/* Only the type and the checksum change, at any position of the option. */
TEST(answered__type_and_checksum)
{
	u32 len, before;
	u8 was[200];

	for (u32 odd = 0; odd < 2; odd++) {
		memset(p, 0, sizeof(p));
		len = request();
		memcpy(was, p, sizeof(p));
		if (odd) {
			/* A NOP after the option instead of before the option. */
			memmove(was + place.opt - 1, was + place.opt, place.len);
			was[place.opt + place.len - 1] = 1;
			place.opt--;
		}
		before = sum_words(0, was + place.tcp, len - place.tcp + (len & 1));
		memcpy(p, was, sizeof(p));
		hpcc_answered_write(p, &place, true);
		assert_int_equal(p[place.opt + 2], HPCC_OPT_ANSWERED << 5 | 3);
		assert_int_equal(sum_words(0, p + place.tcp, len - place.tcp + (len & 1)), before);
		for (u32 i = 0; i < len; i++)
			if (i != place.opt + 2 && i / 2 != (place.tcp + 16) / 2)
				assert_int_equal(p[i], was[i]);
		memcpy(p, was, sizeof(p));
		hpcc_answered_write(p, &place, false);
		was[place.opt + 2] = HPCC_OPT_ANSWERED << 5 | 3;
		assert_memory_equal(p, was, sizeof(p));
	}
}

#define EVERY	1000

/* Request a turn, and use it. */
static enum hpcc_turn_kind turn(struct hpcc_turn *set, u32 key, u32 seq, u64 now)
{
	struct hpcc_turn *at;
	enum hpcc_turn_kind kind = hpcc_turn_find(set, key, seq, now, EVERY, &at);

	if (kind != HPCC_TURN_HELD)
		*at = (struct hpcc_turn){ .ns = now, .key = key, .seq = seq };
	return kind;
}

TEST(turn__of_a_flow)
{
	static const struct { u32 key, seq; u64 now; enum hpcc_turn_kind want; } cases[] = {
		{ 7, 0xffffff00, 1, HPCC_TURN_NEW }, { 7, 0xffffff01, EVERY, HPCC_TURN_HELD },
		{ 7, 0x10, EVERY + 1, HPCC_TURN_NEXT },
		/* A retransmission has no turn until the flow's entry is free, 2 x EVERY later. */
		{ 7, 0xf, 3 * EVERY, HPCC_TURN_HELD }, { 7, 0xf, 3 * EVERY + 1, HPCC_TURN_NEW },
		/* An existing flow continues if its sequence number is near the last number. */
		{ 7, 0xf + HPCC_TURN_NEAR - 1, 4 * EVERY + 1, HPCC_TURN_NEXT },
		{ 7, 0xf, 6 * EVERY, HPCC_TURN_HELD }, { 7, 0xe, 6 * EVERY, HPCC_TURN_HELD },
		{ 7, 0xd, 6 * EVERY, HPCC_TURN_NEW },
		/* Another flow. */
		{ 8, 0x10, 6 * EVERY, HPCC_TURN_NEW },
	};
	struct hpcc_turn set[HPCC_TURN_WAYS] = {};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(turn(set, cases[i].key, cases[i].seq, cases[i].now),
				 cases[i].want);
}

/* A continuous flow gets its turns, even if an attacker forges sequence numbers for this flow. */
TEST(turn__forged_numbers)
{
	struct hpcc_turn set[HPCC_TURN_WAYS] = {};
	u32 taken = 0, near = 0;
	u32 seq = 0x12345678;
	u64 rnd = 1;

	for (u32 i = 0; i < 10000; i++) {
		u64 now = 1 + (u64)i * EVERY / 10;

		taken += turn(set, 7, seq, now) != HPCC_TURN_HELD;
		for (u32 k = 0; k < 2; k++) {
			u32 number = rnd >> 32;

			rnd = rnd * 6364136223846793005ULL + 1442695040888963407ULL;
			near += number - seq + HPCC_TURN_NEAR < 2 * HPCC_TURN_NEAR;
			turn(set, 7, number, now);
		}
		seq += 1000;
	}
	/* Each random number that is near by chance costs two turns at most. */
	assert_in_range(taken, 1000 - 2 * near, 1000 + near);
	assert_in_range(near, 0, 100);
}

/* If more flows have the same hash than the set has entries, they share the turns. */
TEST(turn__of_many_flows)
{
	struct hpcc_turn set[HPCC_TURN_WAYS] = {};
	u32 had[HPCC_TURN_WAYS + 1] = {};
	u32 key;

	for (u32 i = 0; i < 10000; i++) {
		/* Each flow has a request every 5 x EVERY: its entry is free earlier. */
		key = i % (HPCC_TURN_WAYS + 1);
		had[key] += turn(set, key, i, 1 + (u64)i * EVERY) != HPCC_TURN_HELD;
	}
	for (key = 0; key <= HPCC_TURN_WAYS; key++)
		assert_in_range(had[key], 1000, 2000);
}

/* Return the number of responses that a budget allows in an interval with many requests. */
static u32 granted(const struct hpcc_budget *b, u64 *full, u64 from, u64 to, u32 every,
		   enum hpcc_turn_kind kind)
{
	u64 next;
	u32 nr = 0;

	for (u64 now = from; now < to; now += every / 8)
		while ((next = hpcc_budget_after(b, *full, now, every, kind))) {
			*full = next;
			nr++;
		}
	return nr;
}

TEST(budget__burst_and_rate)
{
	const struct hpcc_budget *b = &hpcc_sender_budget;
	u64 full = 0;

	assert_int_equal(granted(b, &full, 1000000, 1000001, 1024, HPCC_TURN_NEXT), b->burst);
	assert_in_range(granted(b, &full, 1000001, 1000001 + 100 * 1024, 1024, HPCC_TURN_NEXT),
			100 * 4 - 4, 100 * 4);
	/* New flows get half of the burst, and leave the other half. */
	full = 0;
	assert_int_equal(granted(b, &full, 5000000, 5000001, 1024, HPCC_TURN_NEW), b->burst / 2);
	assert_int_equal(granted(b, &full, 5000001, 5000002, 1024, HPCC_TURN_NEXT), b->burst / 2);
	/* Responses that were sent while @every_ns was longer do not count. */
	full = 5000000 + 4000000000ULL;
	assert_int_equal(granted(b, &full, 6000000, 6000001, 1024, HPCC_TURN_NEXT), b->burst);
}
