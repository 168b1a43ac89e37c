// SPDX-License-Identifier: GPL-2.0
/*
 * <hpcc/wire/stamp.h>: walk any packet, with a few readable bytes at a time, and compare the result
 * with a second walk that is written differently. Then several switches stamp the packet one after
 * the other, and only the necessary bytes may change. <hpcc/wire/respond.h>: the response of a
 * switch to the packet.
 *
 * Input: struct setup, byte by byte, then the packet.
 */
#include "fuzz.h"
#include "walk.h"
#include <hpcc/law/phase.h>
#include <hpcc/wire/respond.h>

/* Parameters of the run. */
struct setup {
	u8 flags;		/* SETUP_*; the bits above: number of switches minus 1 */
	u16 have;		/* number of bytes that are readable at first */
	struct hpcc_stamp s;	/* values that the first port writes */
};

#define SETUP_FIX_CHECK		0x01
#define SETUP_OTHER_KIND	0x02	/* 254 */
#define SETUP_NO_ETH		0x04	/* begins with an IP header */
#define SETUP_SWITCHES(flags)	(((flags) >> 3) + 1U)

static struct setup take_setup(struct fuzz_input *in)
{
	struct setup setup = { .flags = fuzz_take(in, 1) };

	setup.have = fuzz_take(in, 2);
	setup.s.node = fuzz_take(in, 3) & HPCC_NODE_MAX;
	setup.s.port = fuzz_take(in, 2);
	setup.s.bps = fuzz_take(in, 8);
	setup.s.ts_ns = fuzz_take(in, 8);
	setup.s.tx_ns = fuzz_take(in, 8);
	setup.s.qlen_ns = fuzz_take(in, 8);
	setup.s.quiet = setup.s.qlen_ns & 1;
	setup.s.anonymous = setup.s.qlen_ns & 2;
	return setup;
}

/* ---- The second walk (walk.h) ---- */

static bool to_ip(struct view *v, u32 *proto)
{
	if (!there(v, 14))
		return false;
	*proto = be16(v->p + 12);
	v->p += 14;
	for (int tags = 0; *proto == 0x8100 || *proto == 0x88a8; tags++) {
		if (tags == HPCC_VLAN_TAGS_MAX || !there(v, 4))
			return false;
		*proto = be16(v->p + 2);
		v->p += 4;
	}
	return true;
}

static bool ipv4_to_tcp(struct view *v)
{
	long hlen, total;

	if (!there(v, 20))
		return false;
	hlen = v->p[0] % 16 * 4;
	total = be16(v->p + 2);
	if (v->p[0] / 16 != 4 || hlen < 20 || total < hlen || total > v->end - v->p)
		return false;
	if (v->p[9] != 6 || v->p[7] || v->p[6] & 0x3f)
		return false;
	v->end = v->p + total;
	v->p += hlen;
	return true;
}

static bool ipv6_to_tcp(struct view *v)
{
	u8 next;

	if (!there(v, 40) || v->p[0] / 16 != 6)
		return false;
	next = v->p[6];
	if (be16(v->p + 4) > v->end - v->p - 40)
		return false;
	v->end = v->p + 40 + be16(v->p + 4);
	v->p += 40;
	while (next == 0 || next == 43 || next == 60) {
		if (!there(v, 2))
			return false;
		next = v->p[0];
		/* the next header may begin beyond the end: there() checks this */
		v->p += 8 * (1 + v->p[1]);
	}
	return next == 6;
}

/* Whether the option is a FORWARD, an IDENTIFY or an ANSWERED. */
static bool asks_of(const u8 *opt)
{
	return opt[2] / 32 == 1 || opt[2] / 32 == 3 || opt[2] / 32 == 6;
}

/* The request for records in a TCP header, or NULL. */
static const u8 *request(struct view *v, u8 kind)
{
	const u8 *opt;

	if (!there(v, 20) || v->p[12] / 16 < 5 || !there(v, v->p[12] / 16 * 4) || v->p[13] & 0x02)
		return NULL;
	v->end = v->p + v->p[12] / 16 * 4;
	for (opt = v->p + 20; opt < v->end && *opt;) {
		if (*opt == 1) {
			opt++;
			continue;
		}
		if (v->end - opt < 2 || opt[1] < 2 || opt[1] > v->end - opt)
			return NULL;
		if (*opt == kind && opt[1] >= 4 && opt[1] <= 36 && opt[1] % 8 == 4 && asks_of(opt))
			return opt;
		opt += opt[1];
	}
	return NULL;
}

static bool find(const u8 *p, u32 len, const struct setup *setup, u32 proto,
		 u8 kind, struct hpcc_opt_location *place)
{
	struct view v = { p, p, p + len };
	const u8 *opt;

	if (!(setup->flags & SETUP_NO_ETH) && !to_ip(&v, &proto))
		return false;
	if (!(proto == 0x0800 && ipv4_to_tcp(&v)) && !(proto == 0x86dd && ipv6_to_tcp(&v)))
		return false;
	opt = request(&v, kind);
	if (!opt)
		return false;
	*place = (struct hpcc_opt_location){ .tcp = v.p - p, .opt = opt - p, .len = opt[1],
					     .end = v.end - p };
	return true;
}

/* ---- The walk ----------------------------------------------------------------- */

static int walk_once(const u8 *p, u32 have, u32 len, const struct setup *setup,
		     u32 proto, u8 kind, struct hpcc_opt_location *place)
{
	u8 *readable = fuzz_copy(p, have);
	struct hpcc_frame f = {
		.p = readable, .have = have, .len = len,
		.proto = setup->flags & SETUP_NO_ETH ? proto : HPCC_PROTO_ETHERNET,
	};
	int ret = hpcc_walk(&f, kind, place);

	free(readable);
	return ret;
}

/* Walk as a caller does: make the requested bytes readable, and call hpcc_walk() again. */
static int walk(const u8 *p, u32 len, const struct setup *setup, u32 proto,
		u8 kind, struct hpcc_opt_location *place)
{
	u32 have = min_t(u32, setup->have, len);
	struct hpcc_opt_location at_once;
	int ret;

	for (;;) {
		ret = walk_once(p, have, len, setup, proto, kind, place);
		if (ret != HPCC_WALK_MORE)
			break;
		expect(place->need > have && place->need <= len);
		expect(place->need <= HPCC_WALK_MAX_BYTES);
		have = place->need;
	}
	if (kind == HPCC_WALK_IP_ONLY)
		expect(ret == HPCC_UNSTAMPED_OFF || ret == HPCC_UNSTAMPED_NOT_TCP ||
		       ret == HPCC_UNSTAMPED_MALFORMED);
	else
		expect(ret == HPCC_WALK_FOUND ||
		       (ret >= HPCC_UNSTAMPED_NOT_TCP && ret <= HPCC_UNSTAMPED_MALFORMED));
	expect(walk_once(p, len, len, setup, proto, kind, &at_once) == ret);
	expect(at_once.version == place->version);
	if (place->version)
		expect(at_once.ip == place->ip);
	if (ret == HPCC_WALK_FOUND) {
		expect(at_once.tcp == place->tcp && at_once.opt == place->opt);
		expect(at_once.len == place->len && at_once.end == place->end);
	}
	return ret;
}

/* Test the walk for marking, which reads only the IP header. */
static void walk_ip(const u8 *p, u32 len, const struct setup *setup, u32 proto)
{
	struct view v = { p, p, p + len };
	bool there_is = setup->flags & SETUP_NO_ETH || to_ip(&v, &proto);
	struct hpcc_opt_location place;
	int ret = walk(p, len, setup, proto, HPCC_WALK_IP_ONLY, &place);
	u32 want = 0;

	if (there_is && proto == 0x0800 && there(&v, 20) && *v.p / 16 == 4 && *v.p % 16 >= 5)
		want = 4;
	if (there_is && proto == 0x86dd && there(&v, 40) && *v.p / 16 == 6)
		want = 6;
	expect(place.version == want);
	expect((ret == HPCC_UNSTAMPED_OFF) == !!want);
	if (want)
		expect((long)place.ip == v.p - p);
}

/* ---- The stamp ------------------------------------------------------------------ */

/* Sum of the bytes as in an Internet checksum: bytes at even offsets are the high bytes. */
static u32 sum_of(const u8 *p, u32 len)
{
	u64 sum = 0;

	for (u32 i = 0; i < len; i++)
		sum += i % 2 ? p[i] : p[i] * 256;
	return sum % 0xffff;
}

/* Index of the first free slot, which the switch must use; -1: none. */
static int due(const u8 *slots, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (slots[8 * i] < 0x10)
			return i;
	return -1;
}

static void expect_load(const u8 *slot, u8 hop, u8 scale, const struct hpcc_stamp *s)
{
	struct hpcc_record r;

	hpcc_record_decode(slot, &r);
	expect(r.hop == hop && r.tag == hpcc_link_tag(s->node, s->port));
	expect(r.ts == (s->ts_ns >> scale & HPCC_COUNTER_MASK));
	expect(r.tx == (s->tx_ns >> scale & HPCC_COUNTER_MASK));
	expect((be16(slot + 6) & 0xfff) == hpcc_qlen_encode(s->qlen_ns >> scale));
}

static void expect_identity(const u8 *slot, u8 hop, const struct hpcc_stamp *s)
{
	struct hpcc_identity id;

	hpcc_identity_unpack(get_unaligned_be64(slot), &id);
	expect(id.hop == hop && id.node == s->node && id.port == s->port);
	expect(!s->bps == !id.bps || s->bps < 500);
}

/* Check an option before (@was) and after (@is) stamping, and the result of hpcc_stamp_packet(). */
static void expect_option(const u8 *was, const u8 *is, u32 len, int ret, const struct hpcc_stamp *s)
{
	u32 nr = len / 8, hop = is[3] / 16;
	bool load = was[2] / 32 != 3;
	u8 scale = was[2] % 32;
	int slot;

	if (was[3] / 16 == HPCC_HOPS_MAX) {
		expect(ret == HPCC_UNSTAMPED_FULL && !memcmp(was, is, len));
		return;
	}
	expect(!memcmp(was, is, 3) && is[3] == was[3] + 16);
	slot = due(was + 4, nr);
	if (hop <= (is[3] & HPCC_OPT_F_PHASE) * nr || (load ? s->quiet : s->anonymous))
		slot = -1;
	for (u32 i = 0; i < nr; i++)
		expect((int)i == slot || !memcmp(was + 4 + 8 * i, is + 4 + 8 * i, 8));
	if (slot < 0) {
		expect(ret == HPCC_UNSTAMPED_FULL || ret == HPCC_UNSTAMPED_PHASE ||
		       (ret == HPCC_STAMP_QUIET && load && s->quiet) ||
		       (ret == HPCC_UNSTAMPED_OFF && !load && s->anonymous));
		expect(ret != HPCC_UNSTAMPED_FULL || !(load ? s->quiet : s->anonymous));
		expect((ret == HPCC_UNSTAMPED_PHASE) == (hop <= (is[3] & HPCC_OPT_F_PHASE) * nr));
		return;
	}
	expect(ret == HPCC_STAMP_WRITTEN);
	if (load)
		expect_load(is + 4 + 8 * slot, hop, scale, s);
	else
		expect_identity(is + 4 + 8 * slot, hop, s);
}

/* Check the quiet hops that a receiver finds in an option that has passed all switches. */
static void expect_quiet(const u8 *p, u32 len)
{
	u32 reported = 0, last = 0, hop, quiet;
	struct hpcc_opt opt;
	bool full = true;

	expect(!hpcc_opt_decode(p, len, &opt));
	for (u32 i = 0; i < opt.nr; i++) {
		hop = p[4 + 8 * i] / 16;
		full &= hop > 0;
		if (!hop || hop > opt.hops)
			continue;
		reported |= 1U << (hop - 1);
		last = max(last, hop);
	}
	quiet = hpcc_phase_quiet(&opt, reported, full);
	for (hop = 1; hop <= 32; hop++)
		expect((quiet >> (hop - 1) & 1) ==
		       (hop > (opt.flags & HPCC_OPT_F_PHASE) * opt.nr &&
			hop <= (full ? last : opt.hops) && !(reported >> (hop - 1) & 1)));
}

/* Stamp the packet as one switch does, and check the change. */
static void stamp(u8 *p, u32 len, const struct hpcc_opt_location *place,
		  const struct hpcc_stamp *s, bool fix_check)
{
	u32 check = place->tcp + 16;
	u8 *was = fuzz_copy(p, len);
	int ret = hpcc_stamp_packet(p, place, s, fix_check);

	expect(!memcmp(was, p, check));
	expect(!memcmp(was + check + 2, p + check + 2, place->opt - check - 2));
	expect(!memcmp(was + place->opt + place->len, p + place->opt + place->len,
		       len - place->opt - place->len));
	expect_option(was + place->opt, p + place->opt, place->len, ret, s);
	/* A correct checksum stays correct, and a wrong checksum keeps its error. */
	if (fix_check)
		expect(sum_of(was + place->tcp, len - place->tcp) ==
		       sum_of(p + place->tcp, len - place->tcp));
	else
		expect(!memcmp(was + check, p + check, 2));
	free(was);
}

/* The response goes to the sender of the request, has correct checksums, and has no request. */
static void expect_response(const u8 *p, u32 len, const u8 *was,
			    const struct hpcc_opt_location *place, const struct setup *setup,
			    u8 kind)
{
	u32 at = setup->flags & SETUP_NO_ETH ? 0 : place->ip;
	u32 addr_len = place->version == 4 ? 4 : 16;
	u32 tcp = at + (place->version == 4 ? 20 : 40);
	u32 addrs = tcp - 2 * addr_len;
	u8 scale = was[place->opt + 2] & 31;
	struct hpcc_frame f = {
		.p = p, .have = len, .len = len,
		.proto = at ? HPCC_PROTO_ETHERNET : place->version == 4 ? ETH_P_IP : ETH_P_IPV6,
	};
	struct hpcc_opt_location found;

	expect(len == tcp + 32);
	if (at)
		expect(!memcmp(p, was + 6, 6) && !memcmp(p + 6, was, 6) &&
		       !memcmp(p + 12, was + 12, at - 12));
	if (place->version == 4)
		expect(!sum_of(p + at, 20));
	expect(!memcmp(p + addrs, was + place->ip + addrs - at + addr_len, addr_len));
	expect(!((sum_of(p + addrs, 2 * addr_len) + 6 + 32 + sum_of(p + tcp, 32)) % 0xffff));
	expect(!memcmp(p + tcp + 4, was + place->tcp + 8, 4) && !p[tcp + 13]);
	expect(!memcmp(p + tcp + 8, was + place->tcp + 4, 4));
	expect(p[tcp + 22] == (7 << 5 | scale));
	expect_load(p + tcp + 24, was[place->opt + 3] / 16 + 1, scale, &setup->s);
	expect(hpcc_walk(&f, kind, &found) == HPCC_UNSTAMPED_NO_OPTION);
}

/* The next ports stamp an answered request, but do not respond to it. */
static void expect_answered(u8 *p, u32 len, const struct hpcc_opt_location *place,
			    const struct setup *setup, u8 kind)
{
	u8 *was = fuzz_copy(p, len), *type = p + place->opt + 2;
	struct hpcc_opt_location found;
	struct hpcc_trigger c;
	u32 proto = place->version == 4 ? 0x0800 : 0x86dd;

	hpcc_answered_write(p, place, setup->flags & SETUP_FIX_CHECK);
	expect(*type == (was[place->opt + 2] & 31) + 6 * 32);
	if (setup->flags & SETUP_FIX_CHECK)
		expect(sum_of(was + place->tcp, len - place->tcp) ==
		       sum_of(p + place->tcp, len - place->tcp));
	expect(walk(p, len, setup, proto, kind, &found) == HPCC_WALK_FOUND);
	expect(found.opt == place->opt && found.len == place->len);
	expect(!hpcc_trigger_read(p, place, kind, !(setup->flags & SETUP_NO_ETH), &c));
	memcpy(was + place->tcp + 16, p + place->tcp + 16, 2);
	was[place->opt + 2] = *type;
	expect(!memcmp(was, p, len));
	free(was);
}

static bool is_host(const u8 *addr, u32 len)
{
	static const u8 unspecified[16];

	if (len == 4)
		return addr[0] >= 1 && addr[0] <= 223;
	return addr[0] < 255 && memcmp(addr, unspecified, 16);
}

static void respond(const u8 *p, u32 size, const struct hpcc_opt_location *place,
		    const struct setup *setup, u8 kind)
{
	bool due = p[place->opt + 2] / 32 == 1 && p[place->opt + 3] / 16 < 15 &&
		   (p[place->tcp + 13] & 0x14) == 0x10 &&
		   (place->len < 12 || p[place->opt + 4] / 16 <= p[place->opt + 3] / 16);
	u8 *exact = fuzz_copy(p, size);
	struct hpcc_stamp s = setup->s;
	struct hpcc_trigger c;
	u32 addr_len = place->version == 4 ? 4 : 16;
	const u8 *addrs = p + place->ip + (place->version == 4 ? 12 : 8);
	u8 *out;

	memset(&c, 0xa5, sizeof(c));
	if (!(setup->flags & SETUP_NO_ETH))
		due &= !(p[0] & 1) && !(p[6] & 1);
	due &= is_host(addrs, addr_len) && is_host(addrs + addr_len, addr_len);
	expect(hpcc_trigger_read(exact, place, kind, !(setup->flags & SETUP_NO_ETH), &c) == due);
	if (due) {
		s.quiet = false;
		hpcc_trigger_stamp(&c, &s);
		out = malloc(hpcc_response_len(&c));
		hpcc_response_write(out, &c);
		expect_response(out, hpcc_response_len(&c), p, place, setup, kind);
		free(out);
		expect_answered(exact, size, place, setup, kind);
	}
	free(exact);
}

/* Stamp any bytes as an option, without a packet and without a walk that checks the bytes. */
static void stamp_any(struct fuzz_input in, const struct hpcc_stamp *s)
{
	u8 *p = fuzz_copy(in.p, in.size), *was = fuzz_copy(in.p, in.size);
	bool right = in.size >= 4 && in.size <= 36 && in.size % 8 == 4 && p[2] >= 0x20;
	bool asks = right && asks_of(p);
	int ret = hpcc_stamp_option(p, in.size, s);

	expect((ret == HPCC_UNSTAMPED_MALFORMED) == !right);
	expect((ret == HPCC_UNSTAMPED_NO_OPTION) == (right && !asks));
	if (asks)
		expect_option(was, p, in.size, ret, s);
	else
		expect(!memcmp(was, p, in.size));
	free(was);
	free(p);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct setup setup = take_setup(&in);
	u8 kind = setup.flags & SETUP_OTHER_KIND ? 254 : 253;
	u32 proto = in.size && *in.p / 16 == 6 ? 0x86dd :
		    in.size && *in.p / 16 == 4 ? 0x0800 : 0x0806;
	struct hpcc_opt_location place, wanted;
	u8 *p = fuzz_copy(in.p, in.size);
	bool there;

	stamp_any(in, &setup.s);
	walk_ip(p, in.size, &setup, proto);
	there = walk(p, in.size, &setup, proto, kind, &place) == HPCC_WALK_FOUND;
	expect(there == find(p, in.size, &setup, proto, kind, &wanted));
	if (there) {
		expect(place.tcp == wanted.tcp && place.opt == wanted.opt);
		expect(place.len == wanted.len && place.end == wanted.end);
		respond(p, in.size, &place, &setup, kind);
		for (u32 i = 0; i < SETUP_SWITCHES(setup.flags); i++) {
			stamp(p, in.size, &place, &setup.s, setup.flags & SETUP_FIX_CHECK);
			/* the next port has another queue */
			setup.s.qlen_ns = setup.s.qlen_ns << 7 | setup.s.qlen_ns >> 57;
			setup.s.quiet = setup.s.qlen_ns & 1;
			setup.s.anonymous = setup.s.qlen_ns & 2;
			setup.s.port = (setup.s.port + 1) & HPCC_PORT_MAX;
		}
		expect_quiet(p + place.opt, place.len);
	}
	free(p);
	return 0;
}
