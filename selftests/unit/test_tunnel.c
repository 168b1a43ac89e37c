// SPDX-License-Identifier: GPL-2.0
/*
 * The TCP option in tunnels (hpcc/wire/tunnel.h). Packets are built from the inside to the outside,
 * and each is a heap block of its exact size, so that ASan detects an access outside of the packet.
 */
#include "test.h"
#include <hpcc/wire/tunnel.h>

#define KIND	253

enum layer { END, IP4, IP6, IP6_EXT, ETHER, TAG, VX, VX_LINUX, GENEVE, GENEVE_OPT, GRE, GRE_CKS };

/* A packet from its outermost header on: buf[at .. sizeof(buf)]. */
static u8 buf[1024];
static u32 at;
static u32 type;	/* EtherType of the headers so far, or HPCC_PROTO_ETHERNET */
static u32 proto;	/* their IP protocol number */

static u8 *push(u32 len)
{
	at -= len;
	return memset(buf + at, 0, len);
}

static void push_udp(u32 port)
{
	u32 len = sizeof(buf) - at + 8;
	u8 *p = push(8);

	put_unaligned_be16(port, p + 2);
	put_unaligned_be16(len, p + 4);
	proto = IPPROTO_UDP;
}

static void push_layer(enum layer layer)
{
	u32 inside = type == HPCC_PROTO_ETHERNET ? HPCC_PROTO_TEB : type;
	u32 len = sizeof(buf) - at;
	u8 *p;

	switch (layer) {
	case IP4:
		p = push(20);
		p[0] = 0x45;
		p[9] = proto;
		put_unaligned_be16(len + 20, p + 2);
		break;
	case IP6:
	case IP6_EXT:
		if (layer == IP6_EXT)
			push(8)[0] = proto;
		len = sizeof(buf) - at;
		p = push(40);
		p[0] = 0x60;
		p[6] = layer == IP6 ? proto : 60;
		put_unaligned_be16(len, p + 4);
		break;
	case ETHER:
		put_unaligned_be16(type, push(14) + 12);
		break;
	case TAG:
		put_unaligned_be16(type, push(4) + 2);
		break;
	case VX:
	case VX_LINUX:
		push(8)[0] = 0x08;
		push_udp(layer == VX ? 4789 : 8472);
		return;
	case GENEVE:
	case GENEVE_OPT:
		p = push(layer == GENEVE ? 8 : 8 + 252);
		p[0] = layer == GENEVE ? 0 : 63;
		put_unaligned_be16(inside, p + 2);
		push_udp(6081);
		return;
	case GRE:
	case GRE_CKS:
		p = push(layer == GRE ? 4 : 16);
		p[0] = layer == GRE ? 0 : 0xb0;
		put_unaligned_be16(inside, p + 2);
		proto = IPPROTO_GRE;
		return;
	default:
		fail();
	}
	type = layer == IP4 ? ETH_P_IP : layer == ETHER ? HPCC_PROTO_ETHERNET :
	       layer == TAG ? ETH_P_8021Q : ETH_P_IPV6;
	proto = layer == IP4 ? IPPROTO_IPIP : IPPROTO_IPV6;
}

/* Build a segment with a request of two slots in these layers, from the inside to the outside. */
static void build(const enum layer *layers)
{
	struct hpcc_opt opt = { .type = HPCC_OPT_FORWARD, .nr = 2 };
	u8 *tcp;

	at = sizeof(buf) - 7;
	tcp = push(20 + 20);
	tcp[12] = 10 << 4;
	hpcc_opt_encode(tcp + 20, KIND, &opt);
	proto = IPPROTO_TCP;
	for (; *layers; layers++)
		push_layer(*layers);
}

static struct hpcc_opt_location place;

static int walk(const u8 *p, u32 have, u32 len)
{
	struct hpcc_frame f = { p, .have = have, .len = len, .proto = type };

	return hpcc_walk_inner(&f, KIND, &place);
}

/* Walk the first @len bytes of the packet, of which only those that the walk requests exist. */
static int walk_pieces(u32 len)
{
	u32 have = 0, rounds = 0;
	u8 *p = malloc(1);
	int ret;

	while ((ret = walk(p, have, len)) == HPCC_WALK_MORE) {
		assert_true(place.need > have && place.need <= len);
		assert_true(++rounds < 64);
		have = place.need;
		free(p);
		p = malloc(have);
		memcpy(p, buf + at, have);
	}
	free(p);
	return ret;
}

static const struct {
	enum layer layers[16];
	int want;
} packets[] = {
	{ { IP4, ETHER }, HPCC_UNSTAMPED_NOT_TCP },
	{ { IP4, ETHER, VX, IP4, ETHER }, HPCC_WALK_FOUND },
	{ { IP6, TAG, ETHER, VX_LINUX, IP6_EXT, ETHER }, HPCC_WALK_FOUND },
	{ { IP6, GENEVE_OPT, IP4, TAG, TAG, ETHER }, HPCC_WALK_FOUND },
	{ { IP4, ETHER, GENEVE, IP6 }, HPCC_WALK_FOUND },
	{ { IP4, GRE, IP4 }, HPCC_WALK_FOUND },
	{ { IP6, ETHER, GRE_CKS, IP6 }, HPCC_WALK_FOUND },
	{ { IP4, IP4 }, HPCC_WALK_FOUND },
	{ { IP6, IP4, ETHER }, HPCC_WALK_FOUND },
	{ { IP4, IP6_EXT }, HPCC_WALK_FOUND },
	{ { IP6, IP6, IP6, IP6, IP6, ETHER }, HPCC_WALK_FOUND },
	{ { IP4, ETHER, VX, IP6, GENEVE, IP4, GRE_CKS, IP6, IP4, ETHER }, HPCC_WALK_FOUND },
	{ { IP4, IP4, IP4, IP4, IP4, IP4 }, HPCC_UNSTAMPED_NESTED },
	{ { IP4, IP4, IP6, ETHER, VX, IP4, GRE, IP4, IP4, ETHER }, HPCC_UNSTAMPED_NESTED },
	{ { IP4, GENEVE_OPT, IP4, GENEVE_OPT, IP4 }, HPCC_UNSTAMPED_NOT_TCP },
};

TEST(tunnel__each_kind)
{
	for (u32 i = 0; i < ARRAY_SIZE(packets); i++) {
		build(packets[i].layers);
		assert_int_equal(walk_pieces(sizeof(buf) - at), packets[i].want);
		if (packets[i].want != HPCC_WALK_FOUND)
			continue;
		assert_int_equal(place.tcp, sizeof(buf) - 7 - 40 - at);
		assert_int_equal(place.opt, place.tcp + 20);
		assert_int_equal(place.end, place.tcp + 40);
	}
}

/* A packet that is cut anywhere contradicts the lengths in its headers. */
TEST(tunnel__every_truncation)
{
	for (u32 i = 0; i < ARRAY_SIZE(packets); i++) {
		build(packets[i].layers);
		for (u32 len = 0; len < sizeof(buf) - at; len++)
			if (packets[i].want == HPCC_WALK_FOUND)
				assert_int_equal(walk_pieces(len), HPCC_UNSTAMPED_MALFORMED);
			else
				assert_int_not_equal(walk_pieces(len), HPCC_WALK_FOUND);
	}
}

/* No change of any byte lets the walk read or find anything outside of the packet. */
TEST(tunnel__every_change)
{
	for (u32 i = 0; i < ARRAY_SIZE(packets); i++) {
		build(packets[i].layers);
		for (u32 n = at; n < sizeof(buf); n++) {
			u8 was = buf[n];

			for (u32 bit = 0; bit < 9; bit++) {
				buf[n] = bit < 8 ? was ^ 1U << bit : (u8)random_u64();
				if (walk_pieces(sizeof(buf) - at) == HPCC_WALK_FOUND)
					assert_true(place.end <= sizeof(buf) - at &&
						    place.opt + place.len <= place.end);
			}
			buf[n] = was;
		}
	}
}

/* A record changes neither the sum of the TCP segment nor that of anything around it. */
TEST(tunnel__stamp_keeps_the_sum)
{
	const struct hpcc_stamp s = { .node = 7, .port = 2, .ts_ns = 1234567, .tx_ns = 4567 };
	u32 before, len;

	build(packets[11].layers);
	len = sizeof(buf) - at;
	assert_int_equal(walk(buf + at, len, len), HPCC_WALK_FOUND);
	before = sum_words(0, buf + at + (place.tcp & 1), len - (place.tcp & 1));
	assert_int_equal(hpcc_stamp_packet(buf + at, &place, &s, true), HPCC_STAMP_WRITTEN);
	assert_int_not_equal(buf[at + place.opt + 3], 0);
	assert_int_equal(sum_words(0, buf + at + (place.tcp & 1), len - (place.tcp & 1)) % 0xffff,
			 before % 0xffff);
}

/* A byte of a packet, its new value, and the result. */
TEST(tunnel__results)
{
	enum { FOUND = HPCC_WALK_FOUND, NOT_TCP = HPCC_UNSTAMPED_NOT_TCP,
	       MALFORMED = HPCC_UNSTAMPED_MALFORMED, ENCRYPTED = HPCC_UNSTAMPED_ENCRYPTED };
	static const struct {
		enum layer layers[8];
		u32 at;
		u8 value;
		int want;
	} changes[] = {
		/* VXLAN: the I flag, group policies, GPE, Linux's remote checksums, the rest */
		{ { IP4, ETHER, VX, IP4 }, 28, 0, NOT_TCP },
		{ { IP4, ETHER, VX, IP4 }, 28, 0x88, FOUND },
		{ { IP4, ETHER, VX, IP4 }, 28, 0x0c, NOT_TCP },
		{ { IP4, ETHER, VX, IP4 }, 28, 0x09, NOT_TCP },
		{ { IP4, ETHER, VX, IP4 }, 28, 0x28, NOT_TCP },
		{ { IP4, ETHER, VX, IP4 }, 29, 0x20, NOT_TCP },
		{ { IP4, ETHER, VX, IP4 }, 29, 0xdf, FOUND },
		{ { IP4, ETHER, VX, IP4 }, 31, 0xff, FOUND },
		{ { IP4, ETHER, VX, IP4 }, 35, 0xff, FOUND },
		/* UDP */
		{ { IP4, ETHER, VX, IP4 }, 25, 7, MALFORMED },
		{ { IP4, ETHER, VX, IP4 }, 24, 1, MALFORMED },
		{ { IP4, ETHER, VX, IP4 }, 23, 0xb4, NOT_TCP },
		/* Geneve: version, length, O, C, type */
		{ { IP4, GENEVE, IP4 }, 28, 0x40, NOT_TCP },
		{ { IP4, GENEVE, IP4 }, 28, 63, MALFORMED },
		{ { IP4, GENEVE, IP4 }, 29, 0x80, NOT_TCP },
		{ { IP4, GENEVE, IP4 }, 29, 0x40, FOUND },
		{ { IP4, GENEVE, IP4 }, 31, 6, NOT_TCP },
		/* GRE */
		{ { IP4, GRE, IP4 }, 20, 0x40, NOT_TCP },
		{ { IP4, GRE, IP4 }, 20, 0x08, NOT_TCP },
		{ { IP4, GRE, IP4 }, 21, 1, NOT_TCP },
		{ { IP4, GRE, IP4 }, 21, 0x80, NOT_TCP },
		{ { IP4, GRE, IP4 }, 20, 0x80, MALFORMED },
		/* IP: ESP, AH, a fragment */
		{ { IP4, IP4 }, 9, 50, ENCRYPTED },
		{ { IP4, IP4 }, 29, 50, ENCRYPTED },
		{ { IP4, IP6 }, 6, 51, NOT_TCP },
		{ { IP4, IP4 }, 26, 0x20, HPCC_UNSTAMPED_FRAGMENT },
	};
	u32 len;

	for (u32 i = 0; i < ARRAY_SIZE(changes); i++) {
		build(changes[i].layers);
		len = sizeof(buf) - at;
		buf[at + changes[i].at] = changes[i].value;
		assert_int_equal(walk_pieces(len), changes[i].want);
	}
	build((const enum layer[]){ IP4, ETHER, VX, IP4, ETHER, END });
	len = sizeof(buf) - at;
	put_unaligned_be16(HPCC_PROTO_MACSEC, buf + at + 12);
	assert_int_equal(walk_pieces(len), ENCRYPTED);
	/* ESP in UDP; with an SPI of 0 it is IKE */
	build((const enum layer[]){ IP4, ETHER, VX, IP4, END });
	len = sizeof(buf) - at;
	put_unaligned_be16(4500, buf + at + 22);
	assert_int_equal(walk_pieces(len), ENCRYPTED);
	buf[at + 28] = 0;
	assert_int_equal(walk_pieces(len), NOT_TCP);
	/* a keepalive */
	put_unaligned_be16(9, buf + at + 24);
	assert_int_equal(walk_pieces(len), NOT_TCP);
}
