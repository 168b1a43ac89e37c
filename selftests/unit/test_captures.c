// SPDX-License-Identifier: GPL-2.0
/*
 * selftests/captures/: packets as hosts and switches make them, by the code that the modules
 * share. They are compared with what is in the tree; with HPCC_CAPTURES_WRITE in the environment
 * ("make captures") they are written there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "test.h"
#include <hpcc/ioam.h>
#include <hpcc/stamp.h>

#define TEST(name)	static void name(void **state __attribute__((unused)))

#define IP_AT		ETH_HLEN
#define HOP_AT		(IP_AT + 40)
#define SLOTS		3
#define PAYLOAD		8
#define GBIT_100	100000000000ULL

/* A file, little endian, as it grows. */
struct pcap {
	u8 bytes[4096];
	u32 len;
	u32 nr;
};

struct frame {
	u8 p[512];
	u32 len;
	u32 hlen;	/* of the hop-by-hop header */
};

static void put_le32(struct pcap *c, u32 value)
{
	u32 i;

	for (i = 0; i < 4; i++)
		c->bytes[c->len++] = value >> (8 * i);
}

static void begin(struct pcap *c)
{
	memset(c, 0, sizeof(*c));
	put_le32(c, 0xa1b2c3d4);
	put_le32(c, 4 << 16 | 2);
	put_le32(c, 0);
	put_le32(c, 0);
	put_le32(c, 65535);
	put_le32(c, 1);		/* Ethernet */
}

/* The next frame, a millisecond behind the last one. */
static void add(struct pcap *c, const struct frame *f)
{
	put_le32(c, 0);
	put_le32(c, 1000 * c->nr++);
	put_le32(c, f->len);
	put_le32(c, f->len);
	assert_true(c->len + f->len <= sizeof(c->bytes));
	memcpy(c->bytes + c->len, f->p, f->len);
	c->len += f->len;
}

static u32 sum(const u8 *p, u32 len, u32 from)
{
	for (; len > 1; len -= 2, p += 2)
		from += p[0] << 8 | p[1];
	return from + (len ? *p << 8 : 0);
}

/* A request from host 1 to host 2 behind a hop-by-hop header of @hlen bytes, all of it but that. */
static void request(struct frame *f, u32 hlen)
{
	static const u8 ends[32] = { 0xfd, [15] = 1, [16] = 0xfd, [31] = 2 };
	struct hpcc_opt opt = { .type = HPCC_OPT_FORWARD, .scale = 7, .nr = SLOTS };
	u32 tcp_len = 20 + hpcc_opt_len(SLOTS) + PAYLOAD;
	u8 *ip = f->p + IP_AT, *th = ip + 40 + hlen;
	u32 check;

	memset(f, 0, sizeof(*f));
	f->hlen = hlen;
	f->len = HOP_AT + hlen + tcp_len;
	f->p[0] = 2;
	f->p[5] = 2;
	f->p[6] = 2;
	f->p[11] = 1;
	put_unaligned_be16(ETH_P_IPV6, f->p + 12);
	ip[0] = 0x60;
	put_unaligned_be16(hlen + tcp_len, ip + 4);
	ip[6] = NEXTHDR_HOP;
	ip[7] = 64;
	memcpy(ip + 8, ends, 32);
	put_unaligned_be16(40000, th);
	put_unaligned_be16(5000, th + 2);
	put_unaligned_be32(1, th + 4);
	put_unaligned_be32(1, th + 8);
	th[12] = (20 + hpcc_opt_len(SLOTS)) / 4 << 4;
	th[13] = 0x18;
	put_unaligned_be16(1000, th + 14);
	hpcc_opt_encode(th + 20, 253, &opt);
	memcpy(th + tcp_len - PAYLOAD, "telemetr", PAYLOAD);
	check = sum(th, tcp_len, sum(ends, 32, NEXTHDR_TCP + tcp_len));
	check = (check & 0xffff) + (check >> 16);
	put_unaligned_be16(~(check + (check >> 16)), th + 16);
}

static const struct hpcc_ioam_node nodes[] = {
	{ .hop_lim = 64, .node = 1, .port = 2, .ts_ns = 999999000, .tx_bytes = 0xfffffff0 },
	{ .hop_lim = 64, .node = 2, .port = 1, .ts_ns = 500, .qlen_bytes = 12500,
	  .tx_bytes = 1000000 },
};

/* A node of a switch goes into the trace. */
static void fill(struct frame *f, const struct hpcc_ioam_node *n)
{
	u8 *hop = f->p + HOP_AT;
	int len, grow;
	u32 at;

	len = hpcc_ioam_find(hop, f->hlen, &at);
	assert_true(len > 0);
	if (hop[at - 1] == HPCC_IOAM_PREALLOCATED) {
		hpcc_ioam_write(hop + at, len, n);
		return;
	}
	grow = hpcc_ioam_growth(hop, f->hlen, at, len);
	assert_true(grow > 0);
	memmove(f->p + grow, f->p, f->len);
	memmove(f->p, f->p + grow, HOP_AT);
	hpcc_ioam_grow(hop, grow, f->hlen, at, len, n);
	f->len += grow;
	f->hlen += grow;
	put_unaligned_be16(f->len - HOP_AT, f->p + IP_AT + 4);
}

/* A switch writes into the option. */
static void stamp(struct frame *f)
{
	struct hpcc_frame frame = { .p = f->p, .have = f->len, .len = f->len,
				    .proto = HPCC_PROTO_ETHERNET };
	struct hpcc_stamp s = { .node = 3, .port = 1, .bps = GBIT_100, .ts_ns = 1 << 20,
				.tx_ns = 1 << 19, .qlen_ns = 1 << 10 };
	struct hpcc_place place;

	assert_int_equal(hpcc_walk(&frame, 253, &place), HPCC_WALK_FOUND);
	assert_int_equal(hpcc_stamp_packet(f->p, &place, &s, true), HPCC_STAMP_WRITTEN);
}

static void preallocated(struct frame *f, u32 room)
{
	request(f, hpcc_ioam_header_len(room));
	hpcc_ioam_header(f->p + HOP_AT, room, NEXTHDR_TCP);
}

static void incremental(struct frame *f)
{
	static const u8 hop[16] = {
		NEXTHDR_TCP, 1, 1, 0, 0x31, 10, 0, 1, 0, 0, 5 << 3, 10, 0xd2, 0x08, 0x00, 0,
	};

	request(f, sizeof(hop));
	memcpy(f->p + HOP_AT, hop, sizeof(hop));
}

static void judge(const struct pcap *c, const char *name)
{
	static u8 there[4096];
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), HPCC_CAPTURES "/%s", name);
	if (getenv("HPCC_CAPTURES_WRITE")) {
		file = fopen(path, "wb");
		assert_non_null(file);
		assert_int_equal(fwrite(c->bytes, 1, c->len, file), c->len);
		assert_int_equal(fclose(file), 0);
		return;
	}
	file = fopen(path, "rb");
	assert_non_null(file);
	assert_int_equal(fread(there, 1, sizeof(there), file), c->len);
	fclose(file);
	assert_memory_equal(there, c->bytes, c->len);
}

/* net/ioam.py has tshark read this file, and says what is in it. */
TEST(captures__ioam)
{
	static struct pcap c;
	struct frame f;

	begin(&c);
	preallocated(&f, 3);
	add(&c, &f);			/* as it leaves the host */
	fill(&f, &nodes[0]);
	add(&c, &f);			/* behind one switch */
	stamp(&f);
	fill(&f, &nodes[1]);
	add(&c, &f);			/* behind one that stamps, and one more */
	preallocated(&f, 1);
	fill(&f, &nodes[0]);
	fill(&f, &nodes[1]);
	add(&c, &f);			/* no room for the second */
	incremental(&f);
	add(&c, &f);
	fill(&f, &nodes[0]);
	add(&c, &f);
	fill(&f, &nodes[1]);
	add(&c, &f);
	judge(&c, "ioam.pcap");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(captures__ioam),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
