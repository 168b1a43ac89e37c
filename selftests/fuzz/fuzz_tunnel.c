// SPDX-License-Identifier: GPL-2.0
/*
 * <hpcc/wire/tunnel.h>: walk into the tunnels of any packet, with a few readable bytes at a time,
 * and compare the result with a second walk that is written differently. Then a switch stamps the
 * packet: bytes change only within the TCP options and the checksum, and the sum stays the same.
 *
 * Input: flags, the number of bytes that are readable at first (2 bytes), then the packet.
 */
#include "fuzz.h"
#include "walk.h"
#include <hpcc/wire/tunnel.h>

#define FIELDS	3
#define NO_ETH	1	/* the packet begins with an IP header */

/* ---- The second walk (walk.h) ---- */

static bool inside(struct view v, u32 proto, int tunnels);

static bool in_ethernet(struct view v, int tunnels)
{
	u32 proto, tags = 0;

	if (!there(&v, 14))
		return false;
	proto = be16(v.p + 12);
	v.p += 14;
	while ((proto == 0x8100 || proto == 0x88a8) && there(&v, 4) &&
	       tags++ < HPCC_VLAN_TAGS_MAX) {
		proto = be16(v.p + 2);
		v.p += 4;
	}
	return inside(v, proto, tunnels);
}

static bool in_type(struct view v, u32 proto, int tunnels)
{
	return proto == 0x6558 ? in_ethernet(v, tunnels) : inside(v, proto, tunnels);
}

static bool in_udp(struct view v, int tunnels)
{
	u32 len, port;

	if (!there(&v, 8))
		return false;
	len = be16(v.p + 4);
	port = be16(v.p + 2);
	if (!len && v.end - v.p > 0xffff)
		len = v.end - v.p;
	if (len < 8 || v.end - v.p < len)
		return false;
	v.end = v.p + len;
	v.p += 8;
	if (!there(&v, 8))
		return false;
	if (port == 4789 || port == 8472) {
		if ((v.p[0] != 0x08 && v.p[0] != 0x88) || v.p[1] & 0x20)
			return false;
		v.p += 8;
		return in_ethernet(v, tunnels);
	}
	if (port != 6081 || v.p[0] >= 0x40 || v.p[1] >= 0x80)
		return false;
	len = be16(v.p + 2);
	v.p += 8 + v.p[0] * 4;
	return in_type(v, len, tunnels);
}

static bool in_gre(struct view v, int tunnels)
{
	const u8 *gre = v.p;

	if (!there(&v, 4) || gre[1] || gre[0] & 0x4f)
		return false;
	v.p += 4 + 4 * (gre[0] / 128 + gre[0] / 32 % 2 + gre[0] / 16 % 2);
	return in_type(v, be16(gre + 2), tunnels);
}

static bool in_tcp(struct view v)
{
	const u8 *opt;

	if (!there(&v, 20) || v.p[12] / 16 < 5 || !there(&v, v.p[12] / 16 * 4) || v.p[13] & 2)
		return false;
	v.end = v.p + v.p[12] / 16 * 4;
	for (opt = v.p + 20; opt < v.end && *opt; opt += *opt == 1 ? 1 : opt[1]) {
		if (*opt == 1)
			continue;
		if (v.end - opt < 2 || opt[1] < 2 || opt[1] > v.end - opt)
			return false;
		if (*opt == HPCC_OPT_KIND_DEFAULT && opt[1] >= 4 && opt[1] <= 36 &&
		    opt[1] % 8 == 4 && (0x4a >> opt[2] / 32 & 1))
			return true;
	}
	return false;
}

static bool inside(struct view v, u32 proto, int tunnels)
{
	u32 len;
	u8 next;

	if (proto == 0x0800) {
		if (!there(&v, 20) || v.p[0] / 16 != 4 || v.p[0] % 16 < 5 ||
		    v.p[6] & 0x3f || v.p[7])
			return false;
		len = be16(v.p + 2);
		if (!len && v.end - v.p > 0xffff)
			len = v.end - v.p;
		if (len < v.p[0] % 16 * 4U || len > v.end - v.p)
			return false;
		next = v.p[9];
		v.end = v.p + len;
		v.p += v.p[0] % 16 * 4;
	} else {
		if (proto != 0x86dd || !there(&v, 40) || v.p[0] / 16 != 6)
			return false;
		len = be16(v.p + 4);
		if (!len && v.end - v.p - 40 > 0xffff)
			len = v.end - v.p - 40;
		if (len > v.end - v.p - 40)
			return false;
		next = v.p[6];
		v.p += 40;
		v.end = v.p + len;
		for (; next == 0 || next == 43 || next == 60; v.p += 8 * (1 + v.p[1])) {
			if (!there(&v, 2))
				return false;
			next = v.p[0];
		}
	}
	if (next == 6)
		return tunnels && in_tcp(v);
	if (tunnels == HPCC_TUNNELS_MAX)
		return false;
	return next == 17 ? in_udp(v, tunnels + 1) : next == 47 ? in_gre(v, tunnels + 1) :
	       next == 4 ? inside(v, 0x0800, tunnels + 1) :
	       next == 41 && inside(v, 0x86dd, tunnels + 1);
}

/* ---- The target ----------------------------------------------------------------- */

static int walk(const u8 *data, u32 size, u32 have, u32 proto, struct hpcc_opt_location *place)
{
	u32 rounds = 0;
	int ret;

	for (have = min(have, size);; have = place->need) {
		u8 *p = fuzz_copy(data, have);
		struct hpcc_frame f = { .p = p, .have = have, .len = size, .proto = proto };

		ret = hpcc_walk_inner(&f, HPCC_OPT_KIND_DEFAULT, place);
		free(p);
		if (ret != HPCC_WALK_MORE)
			return ret;
		expect(place->need > have && place->need <= size && ++rounds < 600);
	}
}

static void stamp(const u8 *data, u32 size, const struct hpcc_opt_location *place)
{
	const struct hpcc_stamp s = { .node = 1, .port = 2, .ts_ns = 12345, .tx_ns = 9999 };
	u32 n = (place->end - place->tcp) & ~1U, i;
	u8 *p = fuzz_copy(data, size);
	u16 sum = csum_fold(csum_partial(p + place->tcp, n, 0));

	hpcc_stamp_packet(p, place, &s, true);
	for (i = 0; i < size; i++)
		expect(p[i] == data[i] || i / 2 == (place->tcp + 16) / 2 ||
		       i / 2 == (place->tcp + 17) / 2 ||
		       (i >= place->opt && i < place->opt + place->len));
	/* In ones' complement 0 and 0xffff are the same sum. */
	expect((u16)(csum_fold(csum_partial(p + place->tcp, n, 0)) % 0xffff) ==
	       (u16)(sum % 0xffff));
	free(p);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct hpcc_opt_location place = {}, other = {};
	u32 have, proto;
	struct view v;
	int ret;

	if (size < FIELDS + 1)
		return 0;
	proto = !(data[0] & NO_ETH) ? HPCC_PROTO_ETHERNET :
		data[FIELDS] >> 4 == 4 ? ETH_P_IP : ETH_P_IPV6;
	have = data[1] | data[2] << 8;
	data += FIELDS;
	size -= FIELDS;
	v = (struct view){ data, data, data + size };
	ret = walk(data, size, have, proto, &place);
	expect((ret == HPCC_WALK_FOUND) ==
	       (proto == HPCC_PROTO_ETHERNET ? in_ethernet(v, 0) : inside(v, proto, 0)));
	expect(ret == walk(data, size, size, proto, &other));
	if (ret != HPCC_WALK_FOUND) {
		expect(ret > 0 && ret < __HPCC_UNSTAMPED_MAX);
		return 0;
	}
	expect(!memcmp(&place.l4, &other.l4,
		       sizeof(place) - offsetof(struct hpcc_opt_location, l4)));
	expect(place.end <= size && place.opt + place.len <= place.end);
	stamp(data, size, &place);
	return 0;
}
