// SPDX-License-Identifier: GPL-2.0
/*
 * Compare a frame that left a port with the same frame that left a path without the port. This file
 * parses the option according to protocol.rst, and does not use the headers of the modules.
 */
#include <string.h>

#include "packets.h"

/* Maximum length of headers that a switch parses (tc-hpcc(8)), and maximum number of tags. */
#define LOOK_MAX	512
#define TAGS_MAX	4

/* The headers of a frame. */
struct view {
	bool none;		/* no IP header */
	uint32_t look;		/* number of bytes that the switch parses */
	uint32_t ip;		/* offset of the IP header */
	bool is_ipv4;
	uint32_t tcp, opts, end;	/* end 0: no complete TCP header */
	uint32_t total;		/* offset of the end of the packet */
	uint32_t opt, optlen;	/* optlen 0: no option to fill in */
};

static void view_options(struct view *v, const uint8_t *p, uint8_t kind)
{
	uint32_t at, len;

	for (at = v->opts; at < v->end && p[at] && (len = option_len(p, at, v->end)); at += len) {
		uint32_t type = p[at] == kind && len >= 4 ? p[at + 2] >> 5 : 0;

		if ((type == 1 || type == 3 || type == 6) && len <= 36 && len % 8 == 4) {
			v->opt = at;
			v->optlen = len;
			return;
		}
	}
}

static void view_tcp(struct view *v, const uint8_t *p, uint8_t kind)
{
	uint32_t hlen;

	if (v->tcp + 20 > v->total || v->tcp + 20 > v->look)
		return;
	hlen = (p[v->tcp + 12] >> 4) * 4;
	if (hlen < 20 || v->tcp + hlen > v->total || v->tcp + hlen > v->look)
		return;
	v->opts = v->tcp + 20;
	v->end = v->tcp + hlen;
	if (!(p[v->tcp + 13] & 2))
		view_options(v, p, kind);
}

static void view_ipv4(struct view *v, const uint8_t *p, uint32_t len, uint8_t kind)
{
	const uint8_t *ip = p + v->ip;
	uint32_t hlen, total;

	v->is_ipv4 = true;
	if (v->ip + 20 > len)
		return;
	hlen = (ip[0] & 15) * 4;
	total = get16(ip + 2);
	if (ip[0] >> 4 != 4 || hlen < 20 || total < hlen || v->ip + total > len)
		return;
	if ((get16(ip + 6) & 0x3fff) || ip[9] != 6)
		return;
	v->tcp = v->ip + hlen;
	v->total = v->ip + total;
	view_tcp(v, p, kind);
}

static void view_ipv6(struct view *v, const uint8_t *p, uint32_t len, uint8_t kind)
{
	uint32_t at = v->ip + 40;
	uint8_t next;

	if (at > len || p[v->ip] >> 4 != 6 || at + get16(p + v->ip + 4) > len)
		return;
	v->total = at + get16(p + v->ip + 4);
	for (next = p[v->ip + 6]; next == 0 || next == 43 || next == 60;) {
		if (at + 2 > v->total || at + 2 > v->look)
			return;
		next = p[at];
		at += 8 * (p[at + 1] + 1);
	}
	if (next != 6)
		return;
	v->tcp = at;
	view_tcp(v, p, kind);
}

static void view_frame(struct view *v, const struct rules *rules, const uint8_t *p, uint32_t len)
{
	uint32_t at = rules->bare ? 0 : 14, tags = 0;
	uint32_t proto;

	memset(v, 0, sizeof(*v));
	v->none = true;
	if (len < (rules->bare ? 1 : 14))
		return;
	/* On a device without an Ethernet header the version determines the protocol. */
	proto = !rules->bare ? get16(p + 12) : *p >> 4 == 4 ? 0x0800 : *p >> 4 == 6 ? 0x86dd : 0;
	for (; proto == 0x8100 || proto == 0x88a8; tags++) {
		if (tags == rules->tags_max || at + 4 > len)
			return;
		proto = get16(p + at + 2);
		at += 4;
	}
	if (proto != 0x0800 && proto != 0x86dd)
		return;
	v->none = false;
	/* A bridge has removed the outermost tag, and stores it outside of the frame. */
	v->look = LOOK_MAX + (tags && rules->tags_max > TAGS_MAX ? 4 : 0);
	v->ip = at;
	if (proto == 0x0800)
		view_ipv4(v, p, len, rules->kind);
	else
		view_ipv6(v, p, len, rules->kind);
}

/* A ones' complement sum has two values for 0. */
static bool sums_equal(uint32_t a, uint32_t b)
{
	return a % 0xffff == b % 0xffff;
}

/* ECN field of a packet that can be marked, or 0. */
static uint32_t ecn(const struct view *v, const uint8_t *p, uint32_t len)
{
	const uint8_t *ip = p + v->ip;

	if (v->none || v->ip + (v->is_ipv4 ? 20 : 40) > len)
		return 0;
	if (v->is_ipv4)
		return ip[0] >> 4 == 4 && (ip[0] & 15) >= 5 ? ip[1] & 3 : 0;
	return ip[0] >> 4 == 6 ? ip[1] >> 4 & 3 : 0;
}

/* Remove a mark, and count it. The sum of the IP header must be unchanged. */
static const char *unmark(const struct view *v, const uint8_t *want, uint8_t *got,
			  uint32_t len, struct tally *tally)
{
	uint32_t before = ecn(v, want, len);
	const uint8_t *was = want + v->ip;
	uint8_t *ip = got + v->ip;

	if (!before || before == 3 || ecn(v, got, len) != 3)
		return NULL;
	tally->marked++;
	if (v->is_ipv4) {
		if (!sums_equal(sum16(ip, 20), sum16(was, 20)))
			return "the IP checksum is wrong after a mark";
		ip[1] = (ip[1] & ~3) | before;
		memcpy(ip + 10, was + 10, 2);
	} else {
		ip[1] = (ip[1] & ~0x30) | before << 4;
	}
	return NULL;
}

/* Check an option after one more hop: which slots have changed, and how. */
static const char *judge_option(const uint8_t *was, const uint8_t *is, uint32_t len,
				struct tally *tally)
{
	uint32_t hops = was[3] >> 4, phase = was[3] & 7, nr = (len - 4) / 8;
	uint32_t changed = 0, place = 0, i;
	bool has_free = false;

	if (memcmp(was, is, 3))
		return "the first bytes of the option changed";
	if ((was[3] & 15) != (is[3] & 15))
		return "the flags of the option changed";
	if (is[3] >> 4 != (hops < 15 ? hops + 1 : 15))
		return "the number of hops is wrong";
	for (i = 0; i < nr; i++) {
		has_free |= !(was[4 + 8 * i] >> 4);
		if (!memcmp(was + 4 + 8 * i, is + 4 + 8 * i, 8))
			continue;
		changed++;
		place = 4 + 8 * i;
	}
	if (changed > 1)
		return "the port wrote more than one record";
	if (!changed) {
		if (hops < 15 && has_free && hops + 1 > phase * nr)
			return "the port left a free slot empty";
		tally->counted++;
		return NULL;
	}
	if (hops >= 15 || hops + 1 <= phase * nr)
		return "the port wrote a record that was not requested";
	if (was[place] >> 4)
		return "the port replaced a record";
	if (is[place] >> 4 != hops + 1)
		return "the record has a wrong hop";
	tally->stamped++;
	return NULL;
}

static const char *judge_stamped(const struct view *v, const uint8_t *want,
				 const uint8_t *got, uint32_t len, uint32_t partial,
				 struct tally *tally)
{
	uint32_t check = v->tcp + 16;

	if (memcmp(want, got, check) || memcmp(want + check + 2, got + check + 2,
					       v->opt - check - 2) ||
	    memcmp(want + v->opt + v->optlen, got + v->opt + v->optlen, len - v->opt - v->optlen))
		return "bytes outside the option changed";
	if (partial == check ? memcmp(want + check, got + check, 2) :
	    !sums_equal(sum16(want + v->tcp, v->end - v->tcp),
			sum16(got + v->tcp, v->end - v->tcp)))
		return "the TCP checksum is wrong";
	return judge_option(want + v->opt, got + v->opt, v->optlen, tally);
}

/*
 * judge() - check one frame of a port
 * @want: the frame that left the other path
 * @got: the frame that left the port; changed
 * @partial: offset of a checksum that is computed later, or 0
 *
 * Return: a description of the error, or NULL.
 */
const char *judge(const struct rules *rules, const uint8_t *want, const uint8_t *got,
		  uint32_t len, uint32_t partial, struct tally *tally)
{
	uint8_t copy[FRAME_MAX];
	const char *wrong;
	struct view v;

	tally->arrived++;
	if (len > FRAME_MAX)
		return "the frame is longer than all frames that were sent";
	view_frame(&v, rules, want, len);
	if (!memcmp(want, got, len)) {
		tally->same++;
		/* A switch changes each option, unless the hop count is 15. */
		if (rules->stamp && v.optlen && want[v.opt + 3] >> 4 != 15)
			return "the port did not stamp";
		return NULL;
	}
	memcpy(copy, got, len);
	wrong = rules->mark ? unmark(&v, want, copy, len, tally) : NULL;
	if (wrong)
		return wrong;
	if (rules->stamp && v.optlen)
		return judge_stamped(&v, want, copy, len, partial, tally);
	return memcmp(want, copy, len) ? "the port changed a frame that it must not change" : NULL;
}
