// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of packets by a switch (hpcc/wire/stamp.h): frames that are built here, checksums over
 * the whole segment. Each frame has a heap block of its exact size, so that ASan detects an access
 * outside of the frame.
 */
#include "test.h"
#include <hpcc/wire/clock.h>
#include <hpcc/wire/stamp.h>

#define KIND	253

static const struct hpcc_stamp port = {
	.node = 7, .port = 2, .bps = GBIT_100, .ts_ns = 123456789, .tx_ns = 12345678,
	.qlen_ns = 1000,
};

/* A frame, and the offsets of its parts. */
static struct built {
	u8 *p;
	u32 len, ip, tcp, opt;
	int version;
} b;

/* The option that the last walk has found. */
static struct hpcc_opt_location place;

/* Parameters of a frame to be built. */
struct shape {
	int	tags, version;	/* VLAN tags; 4 or 6 */
	u32	extra;		/* bytes of IPv4 options or IPv6 headers: 8 n */
	u32	nops;		/* number of NOPs before the option */
	int	slots;		/* slots of the option; -1: no option */
	u32	payload, padding;	/* @padding: after the IP packet */
};

static u32 rnd(void)
{
	return random_u64();
}

/* The TCP checksum's sum over pseudo-header and segment: 0xffff if right. */
static u32 tcp_sum(void)
{
	bool v4 = b.version == 4;
	u32 end = b.ip + (v4 ? 0 : 40) + get_unaligned_be16(b.p + b.ip + (v4 ? 2 : 4));
	u32 sum = sum_words(6 + end - b.tcp, b.p + b.ip + (v4 ? 12 : 8), v4 ? 8 : 32);

	return sum_words(sum, b.p + b.tcp, end - b.tcp);
}

/* Whether switches write records into this type of option. */
static bool asks(u32 type)
{
	return type == HPCC_OPT_FORWARD || type == HPCC_OPT_IDENTIFY || type == HPCC_OPT_ANSWERED;
}

static void fix_check(void)
{
	put_unaligned_be16(0, b.p + b.tcp + 16);
	put_unaligned_be16(~tcp_sum(), b.p + b.tcp + 16);
}

static void build(const struct shape *s)
{
	u32 optlen = s->slots < 0 ? 0 : 4 + 8 * s->slots;
	u32 opts = (s->nops + optlen + 3) & ~3U;
	u32 iplen = (s->version == 4 ? 20 : 40) + s->extra;
	u32 l3 = iplen + 20 + opts + s->payload;
	static const u8 ext[] = { 0, 60, 43 };

	free(b.p);
	b.version = s->version;
	b.ip = 14 + 4 * s->tags;
	b.tcp = b.ip + iplen;
	b.opt = b.tcp + 20 + s->nops;
	b.len = b.ip + l3 + s->padding;
	b.p = malloc(b.len);
	for (u32 i = 0; i < b.len; i++)
		b.p[i] = rnd();
	for (int i = 0; i < s->tags; i++)
		put_unaligned_be16(s->tags - i > 1 ? 0x88a8 : 0x8100, b.p + 12 + 4 * i);
	put_unaligned_be16(s->version == 4 ? 0x0800 : 0x86dd, b.p + b.ip - 2);
	if (s->version == 4) {
		b.p[b.ip] = 0x40 | iplen / 4;
		put_unaligned_be16(l3, b.p + b.ip + 2);
		put_unaligned_be16(0x4000, b.p + b.ip + 6);
		b.p[b.ip + 9] = 6;
	} else {
		u8 *next = b.p + b.ip + 6, *hdr = b.p + b.ip + 40;

		b.p[b.ip] = 0x60;
		put_unaligned_be16(l3 - 40, b.p + b.ip + 4);
		/* Each header has 8 bytes; the last header also has all remaining bytes. */
		for (u32 i = 0; i < s->extra / 8 && i < ARRAY_SIZE(ext); i++, hdr += 8) {
			*next = ext[i];
			next = hdr;
			hdr[1] = i + 1 < ARRAY_SIZE(ext) ? 0 : s->extra / 8 - ARRAY_SIZE(ext);
		}
		*next = 6;
	}
	b.p[b.tcp + 12] = (20 + opts) / 4 << 4;
	b.p[b.tcp + 13] = 0x10;
	memset(b.p + b.tcp + 20, 1, opts);
	if (s->slots >= 0) {
		struct hpcc_opt opt = { .type = HPCC_OPT_FORWARD, .scale = 3, .nr = s->slots };

		memset(b.p + b.opt, 0, optlen);
		hpcc_opt_encode(b.p + b.opt, KIND, &opt);
	}
	fix_check();
}

static int walk(const u8 *p, u32 have, u32 len)
{
	struct hpcc_frame f = { p, .have = have, .len = len, .proto = HPCC_PROTO_ETHERNET };

	return hpcc_walk(&f, KIND, &place);
}

static int walk_built(void)
{
	return walk(b.p, b.len, b.len);
}

/* Call @f with frames of @s->slots slots at different offsets. Most offsets are small. */
static void for_all_nops(struct shape *s, void (*f)(const struct shape *s))
{
	for (s->nops = 0; s->nops + 4 + 8 * s->slots <= 40; s->nops += 1 + s->nops / 4) {
		s->payload = rnd() % 20;
		s->padding = rnd() % 10;
		build(s);
		f(s);
	}
}

/* TEST_SHAPES(name) { ... } adds a test that runs for each shape @s of a frame. */
#define TEST_SHAPES(test)						\
	static void check_##test(const struct shape *s);		\
	TEST(test)							\
	{								\
		for_all_shapes(check_##test);				\
	}								\
	static void check_##test(const struct shape *s)

static void for_all_shapes(void (*f)(const struct shape *s))
{
	struct shape s;

	for (s.tags = 0; s.tags <= 4; s.tags++)
		for (s.version = 4; s.version <= 6; s.version += 2)
			for (s.extra = 0; s.extra <= 40; s.extra += 8)
				for (s.slots = 0; s.slots <= 4; s.slots++)
					for_all_nops(&s, f);
}

TEST_SHAPES(walk__finds_option)
{
	assert_int_equal(walk_built(), HPCC_WALK_FOUND);
	assert_int_equal(place.tcp, b.tcp);
	assert_int_equal(place.opt, b.opt);
	assert_int_equal(place.len, 4 + 8 * s->slots);
	assert_int_equal(place.end, b.tcp + (b.p[b.tcp + 12] >> 4) * 4);
}

/* Each call of the walk requests more bytes, and the final result is the same. */
TEST_SHAPES(walk__requests_missing_bytes)
{
	u32 have = 0, rounds = 0;
	u8 *p = malloc(1);
	int ret;

	while ((ret = walk(p, have, b.len)) == HPCC_WALK_MORE) {
		assert_true(place.need > have);
		assert_true(place.need <= b.len);
		assert_true(++rounds < 16);
		have = place.need;
		free(p);
		p = malloc(have);
		memcpy(p, b.p, have);
	}
	assert_int_equal(ret, HPCC_WALK_FOUND);
	assert_int_equal(place.opt, b.opt);
	assert_true(place.end <= have);
	free(p);
}

/* A frame that ends within its IP packet is malformed. If the length fields fit this end, the
 * frame is malformed only if the TCP header is incomplete. No byte beyond the end is read.
 */
TEST_SHAPES(walk__every_truncation)
{
	u32 end = b.len - s->padding;
	u32 tcp_end = b.tcp + (b.p[b.tcp + 12] >> 4) * 4;

	for (u32 len = 0; len < end; len++) {
		u8 *p = malloc(len ? len : 1);
		int ret;

		memcpy(p, b.p, len);
		assert_int_equal(walk(p, len, len), HPCC_UNSTAMPED_MALFORMED);
		if (b.version == 4 && len >= b.ip + 20)
			put_unaligned_be16(len - b.ip, p + b.ip + 2);
		else if (b.version == 6 && len >= b.ip + 40)
			put_unaligned_be16(len - b.ip - 40, p + b.ip + 4);
		ret = walk(p, len, len);
		assert_int_equal(ret, len < tcp_end ? HPCC_UNSTAMPED_MALFORMED : HPCC_WALK_FOUND);
		free(p);
	}
}

/* The walk for marking requests only the IP header, and finds the IP header of any packet. */
TEST_SHAPES(walk__ip_only)
{
	struct hpcc_frame f = { b.p, .len = b.len, .proto = HPCC_PROTO_ETHERNET };
	u32 hlen = b.version == 4 ? 20 : 40;

	b.p[b.ip + 3] ^= 0xff;	/* total length, or flow label */
	for (f.have = 0; f.have < b.ip + hlen; f.have = place.need) {
		assert_int_equal(hpcc_walk(&f, HPCC_WALK_IP_ONLY, &place), HPCC_WALK_MORE);
		assert_int_equal(place.version, 0);
		assert_true(place.need > f.have && place.need <= b.ip + hlen);
	}
	assert_int_equal(hpcc_walk(&f, HPCC_WALK_IP_ONLY, &place), HPCC_UNSTAMPED_OFF);
	assert_int_equal(place.version, b.version);
	assert_int_equal(place.ip, b.ip);
	f.have = b.len;
	hpcc_walk(&f, KIND, &place);
	assert_int_equal(place.version, b.version);
	assert_int_equal(place.ip, b.ip);
	b.p[b.ip] ^= 0x80;
	assert_int_equal(hpcc_walk(&f, HPCC_WALK_IP_ONLY, &place), HPCC_UNSTAMPED_MALFORMED);
	assert_int_equal(place.version, 0);
}

/* A change of a plain frame, and the result of the walk that it must cause. */
struct change {
	int version;
	enum { FRAME, IP, TCP, OPT } part;
	u32 at;
	u32 bytes;
	u32 value;
	int want;
};

TEST(walk__results)
{
	enum {
		FOUND = HPCC_WALK_FOUND, NO_OPTION = HPCC_UNSTAMPED_NO_OPTION,
		NOT_TCP = HPCC_UNSTAMPED_NOT_TCP, FRAGMENT = HPCC_UNSTAMPED_FRAGMENT,
		MALFORMED = HPCC_UNSTAMPED_MALFORMED,
	};
	/* The IPv4 packet has 77 bytes; the IPv6 packet has 57 bytes after its IP header. */
	static const struct change changes[] = {
		{ 4, IP, 9, 1, 17, NOT_TCP }, { 4, FRAME, 12, 2, 0x0806, NOT_TCP },
		{ 4, FRAME, 12, 2, 77, NOT_TCP }, /* IEEE 802.3 */
		{ 4, TCP, 13, 1, 0x02, NO_OPTION }, { 4, OPT, 0, 1, 254, NO_OPTION },
		{ 6, IP, 6, 1, 17, NOT_TCP },
		/* fragments */
		{ 4, IP, 6, 2, 0x2000, FRAGMENT }, { 4, IP, 6, 2, 0x2010, FRAGMENT },
		{ 4, IP, 6, 2, 0x0001, FRAGMENT }, { 4, IP, 6, 2, 0x1fff, FRAGMENT },
		{ 4, IP, 6, 2, 0x4000, FOUND },
		/* contradicting lengths */
		{ 4, IP, 2, 2, 77, FOUND }, { 4, IP, 0, 1, 0x44, MALFORMED },
		{ 4, IP, 0, 1, 0x65, MALFORMED }, { 4, IP, 2, 2, 19, MALFORMED },
		{ 4, IP, 2, 2, 78, MALFORMED }, { 4, IP, 2, 2, 0, MALFORMED },
		{ 4, TCP, 12, 1, 0x40, MALFORMED }, { 4, TCP, 12, 1, 0xf0, MALFORMED },
		{ 6, IP, 4, 2, 57, FOUND }, { 6, IP, 4, 2, 58, MALFORMED },
		{ 6, IP, 4, 2, 0, MALFORMED }, { 6, IP, 0, 1, 0x45, MALFORMED },
	};

	for (const struct change *c = changes; c < changes + ARRAY_SIZE(changes); c++) {
		u8 *p;

		build(&(const struct shape){ .version = c->version, .slots = 3, .payload = 9 });
		p = b.p + (const u32[]){ 0, b.ip, b.tcp, b.opt }[c->part] + c->at;
		if (c->bytes == 1)
			*p = c->value;
		else
			put_unaligned_be16(c->value, p);
		assert_int_equal(walk_built(), c->want);
	}
	build(&(const struct shape){ .version = 4, .slots = -1 });
	assert_int_equal(walk_built(), HPCC_UNSTAMPED_NO_OPTION);
	build(&(const struct shape){ .tags = 5, .version = 4 });
	assert_int_equal(walk_built(), HPCC_UNSTAMPED_NOT_TCP);
	build(&(const struct shape){ .version = 6, .extra = 8, .slots = 3 });
	b.p[b.ip + 6] = 44;
	assert_int_equal(walk_built(), HPCC_UNSTAMPED_FRAGMENT);
}

/* In GSO packets above 64 KB the length field is 0. */
TEST(walk__no_length_stated)
{
	for (int version = 4; version <= 6; version += 2) {
		struct shape s = { .version = version, .slots = 3, .payload = 70000 };

		s.extra = version == 4 ? 0 : 8;
		build(&s);
		put_unaligned_be16(0, b.p + b.ip + (version == 4 ? 2 : 4));
		assert_int_equal(walk_built(), HPCC_WALK_FOUND);
	}
}

TEST(walk__every_option_length)
{
	const struct shape s = { .version = 4, .nops = 4, .slots = 4 };

	build(&s);
	for (u32 len = 0; len < 256; len++) {
		bool good = len <= 36 && len % 8 == 4;

		b.p[b.opt + 1] = len;
		/* The remaining bytes of the slots are 0, which means the end of options. */
		assert_int_equal(walk_built(), good ? HPCC_WALK_FOUND : HPCC_UNSTAMPED_MALFORMED);
	}
}

/* A switch has nothing to write into signed feedback. A request has no tag. */
TEST(walk__signed_feedback)
{
	const struct shape s = { .version = 4, .slots = 2 };

	for (u32 type = 0; type < 8; type++) {
		bool feedback = type == HPCC_OPT_ECHO || type == HPCC_OPT_IDENTIFY_ECHO ||
				type == HPCC_OPT_REPORT;

		build(&s);
		b.p[b.opt + 1] = hpcc_opt_len(1) + HPCC_TAG_LEN;
		b.p[b.opt + 2] = type << 5;
		assert_int_equal(walk_built(), feedback ? HPCC_UNSTAMPED_NO_OPTION :
							  HPCC_UNSTAMPED_MALFORMED);
	}
}

/* If an option of another type, such as an echo, precedes the request, the request is found. */
TEST(walk__skips_other_types)
{
	const struct shape s = { .version = 4, .nops = 12 };
	struct hpcc_opt other = { .nr = 1 };
	u8 request[4];

	build(&s);
	memcpy(request, b.p + b.opt, 4);
	memset(b.p + b.tcp + 20, 0, 12);
	for (other.type = 0; other.type < 8; other.type++) {
		hpcc_opt_encode(b.p + b.tcp + 20, KIND, &other);
		assert_int_equal(walk_built(), HPCC_WALK_FOUND);
		assert_int_equal(place.opt, asks(other.type) ? b.tcp + 20 : b.opt);
		memset(b.p + b.opt, 1, 4);
		if (!asks(other.type))
			assert_int_equal(walk_built(), other.type ? HPCC_UNSTAMPED_NO_OPTION :
						HPCC_UNSTAMPED_MALFORMED);
		memcpy(b.p + b.opt, request, 4);
	}
}

TEST(walk__far_headers)
{
	const struct shape s = { .version = 6, .extra = 600, .slots = 3 };

	build(&s);
	assert_int_equal(walk(b.p, 100, b.len), HPCC_UNSTAMPED_NOT_TCP);
	assert_int_equal(walk_built(), HPCC_UNSTAMPED_NOT_TCP);
}

TEST(walk__without_ethernet)
{
	static const struct { u16 proto; u32 behind; int want; } cases[] = {
		{ 0x0800, 0, HPCC_WALK_FOUND }, { 0x86dd, 0, HPCC_UNSTAMPED_MALFORMED },
		{ 0x8100, 0, HPCC_UNSTAMPED_NOT_TCP }, { 0x0800, 9, HPCC_UNSTAMPED_MALFORMED },
	};

	build(&(const struct shape){ .version = 4, .slots = 3, .payload = 9 });
	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		u32 at = cases[i].behind ? b.len + cases[i].behind : b.ip;
		struct hpcc_frame f = { b.p, .have = b.len, .len = b.len, .network = at };

		f.proto = cases[i].proto;
		assert_int_equal(hpcc_walk(&f, KIND, &place), cases[i].want);
	}
}

/* The option that make_option() writes. */
static u8 p[36];

static void make_option(u32 type, u32 hops, u32 flags, u32 nr)
{
	struct hpcc_opt opt = { .type = type, .scale = 4, .hops = hops, .flags = flags, .nr = nr };

	memset(p, 0, 36);
	hpcc_opt_encode(p, KIND, &opt);
}

static int stamp_as(const struct hpcc_stamp *s)
{
	return hpcc_stamp_option(p, p[1], s);
}

/* Stamp an option. The result must be @want, and only the hop count may change, by @hops. */
static void check_count(const struct hpcc_stamp *s, int want, u32 hops)
{
	u8 before[36];

	memcpy(before, p, sizeof(before));
	before[3] += hops << 4;
	assert_int_equal(stamp_as(s), want);
	assert_memory_equal(p, before, sizeof(before));
}

TEST(option__first_free_slot)
{
	struct hpcc_stamp s = port;
	struct hpcc_record r;

	make_option(HPCC_OPT_FORWARD, 0, 0, 3);
	for (u32 hop = 1; hop <= 3; hop++) {
		assert_int_equal(stamp_as(&port), HPCC_STAMP_WRITTEN);
		assert_int_equal(p[3], hop << 4);
		hpcc_record_decode(p + 4 + 8 * (hop - 1), &r);
		assert_int_equal(r.hop, hop);
		assert_int_equal(r.tag, hpcc_link_tag(7, 2));
		assert_int_equal(r.ts, (port.ts_ns >> 4) & 0xfffff);
		assert_int_equal(r.tx, (port.tx_ns >> 4) & 0xfffff);
		assert_int_equal(r.qlen, port.qlen_ns >> 4);
	}
	/* the largest queue that a record can express */
	make_option(HPCC_OPT_FORWARD, 0, 0, 1);
	s.qlen_ns = ~0ULL;
	assert_int_equal(stamp_as(&s), HPCC_STAMP_WRITTEN);
	hpcc_record_decode(p + 4, &r);
	assert_int_equal(r.qlen, 511 << 14);
}

/* A switch does not replace existing records, even if its own queue is longer. */
TEST(option__keeps_existing_records)
{
	static const u32 types[] = { HPCC_OPT_FORWARD, HPCC_OPT_IDENTIFY, HPCC_OPT_ANSWERED };
	struct hpcc_record r = { .hop = 1, .tag = 9 };
	struct hpcc_stamp s = port;

	s.qlen_ns = ~0ULL;
	for (u32 i = 0; i < ARRAY_SIZE(types); i++) {
		make_option(types[i], 3, 0, 3);
		for (u32 k = 0; k < 3; k++)
			hpcc_record_encode(p + 4 + 8 * k, &r);
		check_count(&s, HPCC_UNSTAMPED_FULL, 1);
	}
}

TEST(option__phase)
{
	for (u32 phase = 0; phase < 8; phase++)
		for (u32 nr = 1; nr <= 3; nr++)
			for (u32 hop = 1; hop <= 15; hop++) {
				make_option(HPCC_OPT_FORWARD, hop - 1, phase, nr);
				assert_int_equal(stamp_as(&port), hop <= phase * nr ?
						 HPCC_UNSTAMPED_PHASE : HPCC_STAMP_WRITTEN);
				assert_int_equal(p[3], hop << 4 | phase);
			}
}

TEST(option__hops_saturate)
{
	make_option(HPCC_OPT_FORWARD, 14, 0, 1);
	assert_int_equal(stamp_as(&port), HPCC_STAMP_WRITTEN);
	assert_int_equal(p[3] >> 4, 15);
	make_option(HPCC_OPT_FORWARD, 15, HPCC_OPT_F_PROMPT, 1);
	check_count(&port, HPCC_UNSTAMPED_FULL, 0);
	/* no slots */
	make_option(HPCC_OPT_FORWARD, 2, HPCC_OPT_F_PROMPT, 0);
	check_count(&port, HPCC_UNSTAMPED_FULL, 1);
}

TEST(option__identify)
{
	struct hpcc_identity id;

	make_option(HPCC_OPT_IDENTIFY, 4, 0, 1);
	assert_int_equal(stamp_as(&port), HPCC_STAMP_WRITTEN);
	hpcc_identity_unpack(get_unaligned_be64(p + 4), &id);
	assert_int_equal(id.hop, 5);
	assert_int_equal(id.node, 7);
	assert_int_equal(id.port, 2);
	assert_int_equal(id.bps, 100000000000ULL);
}

/* A quiet port writes only its identity on request, an anonymous port writes only records. */
TEST(option__quiet_or_anonymous)
{
	struct hpcc_stamp quiet = port, anonymous = port;

	quiet.quiet = true;
	for (u32 nr = 0; nr <= 4; nr++) {
		make_option(HPCC_OPT_FORWARD, 1, HPCC_OPT_F_PROMPT, nr);
		check_count(&quiet, HPCC_STAMP_QUIET, 1);
	}
	make_option(HPCC_OPT_FORWARD, 0, 1, 3);
	assert_int_equal(stamp_as(&quiet), HPCC_UNSTAMPED_PHASE);
	make_option(HPCC_OPT_FORWARD, 15, 0, 3);
	assert_int_equal(stamp_as(&quiet), HPCC_UNSTAMPED_FULL);
	make_option(HPCC_OPT_IDENTIFY, 0, 0, 3);
	assert_int_equal(stamp_as(&quiet), HPCC_STAMP_WRITTEN);
	anonymous.anonymous = true;
	make_option(HPCC_OPT_IDENTIFY, 1, 0, 3);
	check_count(&anonymous, HPCC_UNSTAMPED_OFF, 1);
	make_option(HPCC_OPT_FORWARD, 0, 0, 3);
	assert_int_equal(stamp_as(&anonymous), HPCC_STAMP_WRITTEN);
}

/* All ports, also quiet and anonymous ports, stamp an ANSWERED like a FORWARD. */
TEST(option__answered)
{
	struct hpcc_stamp s = port;
	u8 forward[36];
	int ret;

	for (u32 i = 0; i < 4; i++) {
		s.quiet = i & 1;
		s.anonymous = i & 2;
		make_option(HPCC_OPT_FORWARD, 3, 1, 3);
		ret = stamp_as(&s);
		memcpy(forward, p, sizeof(p));
		make_option(HPCC_OPT_ANSWERED, 3, 1, 3);
		assert_int_equal(stamp_as(&s), ret);
		assert_int_equal(p[2] >> 5, HPCC_OPT_ANSWERED);
		p[2] ^= (HPCC_OPT_ANSWERED ^ HPCC_OPT_FORWARD) << 5;
		assert_memory_equal(p, forward, p[1]);
	}
}

TEST(option__other_types_untouched)
{
	for (u32 type = 0; type < 8; type++) {
		if (asks(type))
			continue;
		make_option(type, 1, 0, 3);
		check_count(&port, type ? HPCC_UNSTAMPED_NO_OPTION : HPCC_UNSTAMPED_MALFORMED, 0);
	}
}

TEST_SHAPES(checksum__stays_correct)
{
	for (int round = 0; round < 20; round++) {
		struct hpcc_stamp st = {
			.node = rnd(), .port = rnd(), .bps = rnd(), .ts_ns = (u64)rnd() << 20,
			.tx_ns = (u64)rnd() << 20, .qlen_ns = rnd(),
		};

		build(s);
		if (rnd() % 2)
			b.p[b.opt + 2] = HPCC_OPT_IDENTIFY << 5;
		fix_check();
		for (int i = 0; i <= s->slots; i++) {
			assert_int_equal(walk_built(), HPCC_WALK_FOUND);
			hpcc_stamp_packet(b.p, &place, &st, true);
			assert_int_equal(tcp_sum(), 0xffff);
		}
		/* If the TCP checksum has not been computed yet, the switch does not change it. */
		put_unaligned_be16(0x1234, b.p + b.tcp + 16);
		hpcc_stamp_packet(b.p, &place, &st, false);
		assert_int_equal(get_unaligned_be16(b.p + b.tcp + 16), 0x1234);
	}
}

/* ---- the clock (hpcc/wire/clock.h) ---- */

static bool is_near(struct hpcc_clock t, long double ns, long double off)
{
	return fabsl(t.ns + t.frac * 0x1p-32L - ns) <= off;
}

TEST(clock__adds_up)
{
	static const u64 rates[] = {
		125, 1250000, 125000000, 12500000000ULL, 50000000000ULL,
		100000000000ULL, HPCC_RATE_MAX,
	};

	for (u32 i = 0; i < ARRAY_SIZE(rates); i++) {
		u64 byte_time = hpcc_byte_time(rates[i]);
		struct hpcc_clock sum = { .ns = 0 };

		for (u32 n = 0; n < 100000; n++)
			sum = hpcc_clock_add(sum, hpcc_link_time(byte_time, 1538));
		/* The only error is the rounding of byte_time, 2^-33 ns per byte. */
		assert_true(is_near(sum, 1538e14L / rates[i], 153800000 * 0x1p-33L));
		assert_int_equal(hpcc_clock_ceil(sum), sum.ns + (sum.frac != 0));
	}
}

TEST(clock__extremes)
{
	struct hpcc_clock t = hpcc_link_time(hpcc_byte_time(1), ~0U);

	assert_true(t.ns == 0xffffffffULL * 1000000000);
	assert_int_equal(t.frac, 0);
	assert_int_equal(hpcc_byte_time(HPCC_RATE_MAX), 3435974);
}
