// SPDX-License-Identifier: GPL-2.0
/*
 * selftests/captures/: packets as hosts and switches create them with the shared code of the
 * modules. The test compares them with the files in the tree. If the environment contains
 * HPCC_CAPTURES_WRITE ("make captures"), it writes these files instead.
 */
#include <stdio.h>
#define TEST_SETUP begin
#include "test.h"
#include <hpcc/carrier/csig.h>
#include <hpcc/carrier/ifa.h>
#include <hpcc/carrier/int.h>
#include <hpcc/carrier/ioam.h>
#include <hpcc/wire/respond.h>

#define IP_AT		ETH_HLEN
#define HOP_AT		(IP_AT + 40)
#define PAYLOAD		8

/* The content of a file so far, little endian. Each test writes one file. */
static struct pcap {
	u8 bytes[4096];
	u32 len, nr;
} c;

/* The current frame. @hlen is the length of its hop-by-hop header. */
static struct frame {
	u8 p[512];
	u32 len, hlen;
} f;

/* The parts of a segment that differ between segments. A segment has one or two of our options. */
struct segment {
	bool back;	/* from host 2 to host 1 */
	u8 flags;
	u32 seq, ack;
	u8 opts[40];
	u32 opts_len;
	u8 data[64];
	u32 len;
};

static void put_le32(u32 value)
{
	for (u32 i = 0; i < 4; i++)
		c.bytes[c.len++] = value >> (8 * i);
}

static void begin(void)
{
	static const u32 head[] = { 0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1 /* Ethernet */ };

	memset(&c, 0, sizeof(c));
	for (u32 i = 0; i < ARRAY_SIZE(head); i++)
		put_le32(head[i]);
}

/* Add a frame, with a time of one millisecond after the last frame. */
static void add(void)
{
	put_le32(0);
	put_le32(1000 * c.nr++);
	put_le32(f.len);
	put_le32(f.len);
	assert_true(c.len + f.len <= sizeof(c.bytes));
	memcpy(c.bytes + c.len, f.p, f.len);
	c.len += f.len;
}

static void checksum(void)
{
	u8 *ip = f.p + IP_AT, *th = ip + 40 + f.hlen;
	u32 len = f.len - HOP_AT - f.hlen;

	put_unaligned_be16(0, th + 16);
	put_unaligned_be16(~sum_words(sum_words(NEXTHDR_TCP + len, ip + 8, 32), th, len), th + 16);
}

/* Build a frame with a segment, but leave the hop-by-hop header of @hlen bytes empty. */
static void build(u32 hlen, const struct segment *s)
{
	u32 from = s->back, to = !s->back;
	static const u16 ports[] = { 40000, 5000 };
	const u8 head[HOP_AT] = {
		[0] = 2, [5] = to + 1, [6] = 2, [11] = from + 1, [12] = 0x86, [13] = 0xdd,
		[IP_AT] = 0x60, [IP_AT + 7] = 64, [IP_AT + 8] = 0xfd, [IP_AT + 23] = from + 1,
		[IP_AT + 24] = 0xfd, [IP_AT + 39] = to + 1,
	};
	u8 *ip = f.p + IP_AT, *th = ip + 40 + hlen;

	memset(&f, 0, sizeof(f));
	f.hlen = hlen;
	f.len = HOP_AT + hlen + 20 + s->opts_len + s->len;
	memcpy(f.p, head, sizeof(head));
	put_unaligned_be16(f.len - HOP_AT, ip + 4);
	ip[6] = hlen ? NEXTHDR_HOP : NEXTHDR_TCP;
	put_unaligned_be16(ports[from], th);
	put_unaligned_be16(ports[to], th + 2);
	put_unaligned_be32(s->seq, th + 4);
	put_unaligned_be32(s->ack, th + 8);
	th[12] = (20 + s->opts_len) / 4 << 4;
	th[13] = s->flags;
	put_unaligned_be16(1000, th + 14);
	memcpy(th + 20, s->opts, s->opts_len);
	memcpy(th + 20 + s->opts_len, s->data, s->len);
	checksum();
}

/* Put an option's head into a segment; its records are free slots. */
static void ask(struct segment *s, u8 type, u8 hops, u8 nr)
{
	struct hpcc_opt opt = { .type = type, .scale = 7, .hops = hops, .nr = nr };

	s->opts_len = hpcc_opt_len(nr);
	hpcc_opt_encode(s->opts, 253, &opt);
}

/* A request from host 1 to host 2. */
static void request(u32 hlen)
{
	struct segment s = { .flags = 0x18, .seq = 1, .ack = 1, .len = PAYLOAD };

	ask(&s, HPCC_OPT_FORWARD, 0, 3);
	memcpy(s.data, "telemetr", PAYLOAD);
	build(hlen, &s);
}

static const struct hpcc_ioam_node nodes[] = {
	{ .hop_lim = 64, .node = 1, .port = 2, .ts_ns = 999999000, .tx_bytes = 0xfffffff0 },
	{ .hop_lim = 64, .node = 2, .port = 1, .ts_ns = 500, .qlen_bytes = 12500,
	  .tx_bytes = 1000000 },
};

/* A switch writes its node data into the trace. */
static void fill(const struct hpcc_ioam_node *n)
{
	u8 *hop = f.p + HOP_AT;
	u32 at;
	int len = hpcc_ioam_find(hop, f.hlen, &at);

	assert_true(len > 0);
	hpcc_ioam_write(hop + at, len, n);
}

/* Find the option in a packet that begins at @at. */
static struct hpcc_opt_location option_of(u32 at, u32 proto)
{
	struct hpcc_frame frame = { f.p + at, f.len - at, f.len - at, .proto = proto };
	struct hpcc_opt_location place;

	assert_int_equal(hpcc_walk(&frame, 253, &place), HPCC_WALK_FOUND);
	return place;
}

/* Switch @node (3, then 4) writes a record into the option. */
static void stamp_of(u32 node)
{
	struct hpcc_stamp s = { .node = node, .port = 1, .bps = GBIT_100, .ts_ns = 1 << 20,
				.tx_ns = 1 << 19, .qlen_ns = 1 << (node + 7) };
	struct hpcc_opt_location place = option_of(0, HPCC_PROTO_ETHERNET);

	assert_int_equal(hpcc_stamp_packet(f.p, &place, &s, true), HPCC_STAMP_WRITTEN);
}

/* Mark the request as answered, as a switch does when it responds. */
static void answer(void)
{
	struct hpcc_opt_location place = option_of(0, HPCC_PROTO_ETHERNET);

	hpcc_answered_write(f.p, &place, true);
}

/* Insert @n zero bytes at offset @at, and add them to the length in the IPv6 header. */
static u8 *open_at(u32 at, u32 n)
{
	memmove(f.p + at + n, f.p + at, f.len - at);
	memset(f.p + at, 0, n);
	f.len += n;
	put_unaligned_be16(f.len - HOP_AT, f.p + IP_AT + 4);
	return f.p + at;
}

/* A switch pushes metadata onto an INT stack, if it may. Add the frame. */
static void push(const struct hpcc_int_hop *hop)
{
	u8 *th = f.p + HOP_AT, *p = th + (th[12] >> 4) * 4;
	u32 len = f.p + f.len - p, n;
	struct hpcc_int_md t;

	assert_int_equal(hpcc_int_find(p, len, len, &t), len);
	n = hpcc_int_room(p, &t, 1000);
	if (n) {
		open_at(p + HPCC_INT_LEN - f.p, n);
		hpcc_int_push(p, &t, hop);
	}
	checksum();
	add();
}

/* A host sends a request by IFA. */
static void wrap(u8 nodes)
{
	u32 hlen = (f.p[HOP_AT + 12] >> 4) * 4;
	u8 *md = open_at(HOP_AT + hlen, HPCC_IFA_MD_LEN) + HPCC_IFA_HEAD_LEN;

	hpcc_ifa_header(open_at(HOP_AT, HPCC_IFA_HEAD_LEN), md, nodes);
	f.p[IP_AT + 6] = HPCC_IFA_PROTOCOL;
}

/* A switch pushes metadata onto an IFA stack, if it may. Add the frame. */
static void push_ifa(const struct hpcc_ifa_hop *hop)
{
	u8 *p = f.p + HOP_AT;
	struct hpcc_ifa t;

	assert_true(hpcc_ifa_find(p, f.len - HOP_AT, f.len - HOP_AT, &t) > 0);
	if (hpcc_ifa_room(&t, 1000)) {
		open_at(HOP_AT + t.md + HPCC_IFA_MD_LEN, HPCC_IFA_HOP_LEN);
		hpcc_ifa_push(p + t.md, &t, hop);
	}
	add();
}

/* A host's port pushes a CSIG tag onto a frame that requests a signal. */
static void push_tag(u8 type)
{
	u8 *tag = f.p + IP_AT - sizeof(u16);

	memmove(tag + HPCC_CSIG_LEN, tag, f.len - IP_AT + sizeof(u16));
	f.len += HPCC_CSIG_LEN;
	put_unaligned_be16(HPCC_CSIG_TPID_DEFAULT, tag);
	put_unaligned_be16(hpcc_csig_ask(type), tag + 2);
}

/* A switch compares a tag with the value of the switch's port. */
static void compare(const struct hpcc_csig_hop *hop, int want)
{
	const struct hpcc_csig_units units = hpcc_csig_units(HPCC_CSIG_ABW_DEFAULT,
							      HPCC_CSIG_TIME_DEFAULT);
	int at = hpcc_csig_find(f.p, f.len, HPCC_CSIG_TPID_DEFAULT);

	assert_true(at > 0);
	assert_int_equal(hpcc_csig_write(f.p + at, hop, &units), want);
}

/* The receiver removes the tag, and writes its content into the request. */
static void pop_tag(void)
{
	u8 *tag = f.p + IP_AT - sizeof(u16);
	u16 content = get_unaligned_be16(tag + 2);
	struct hpcc_opt_location place;

	memmove(tag, tag + HPCC_CSIG_LEN, f.len - IP_AT - sizeof(u16));
	f.len -= HPCC_CSIG_LEN;
	place = option_of(IP_AT, ETH_P_IPV6);
	assert_true(hpcc_csig_pop(f.p + IP_AT, &place, content, true));
}

static void preallocated(u32 room)
{
	request(hpcc_ioam_header_len(room));
	hpcc_ioam_header(f.p + HOP_AT, room, NEXTHDR_TCP);
}

static void judge(const char *name)
{
	bool write = getenv("HPCC_CAPTURES_WRITE");
	static u8 there[sizeof(c.bytes)];
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), HPCC_CAPTURES "/%s", name);
	file = fopen(path, write ? "wb" : "rb");
	assert_non_null(file);
	if (write)
		assert_int_equal(fwrite(c.bytes, 1, c.len, file), c.len);
	else
		assert_int_equal(fread(there, 1, sizeof(there), file), c.len);
	assert_int_equal(fclose(file), 0);
	if (!write)
		assert_memory_equal(there, c.bytes, c.len);
}

/* net/ioam.py reads this file with tshark, and checks its fields. */
TEST(captures__ioam)
{
	preallocated(3);
	add();			/* as it leaves the host */
	fill(&nodes[0]);
	add();			/* after one switch */
	stamp_of(3);
	fill(&nodes[1]);
	add();			/* after a switch that stamps, and a second switch */
	preallocated(1);
	fill(&nodes[0]);
	fill(&nodes[1]);
	add();			/* no space for the second switch */
	judge("ioam.pcap");
}

/* net/dissector.py reads this file with tshark and tools/wireshark/hpcc.lua. */
TEST(captures__tcp)
{
	struct segment s = { .flags = 2, .opts_len = 8 };
	u8 loads[2 * HPCC_RECORD_LEN];

	hpcc_syn_opt_encode(s.opts, 253, HPCC_OPT_EXID_DEFAULT,
			    HPCC_CAP_TELEMETRY | HPCC_CAP_QUIET);
	memset(s.opts + HPCC_SYN_OPT_LEN, HPCC_TCPOPT_NOP, 8 - HPCC_SYN_OPT_LEN);
	build(0, &s);
	add();
	s.back = true;
	s.flags = 0x12;
	s.ack = 1;
	build(0, &s);
	add();
	request(0);
	add();			/* as it leaves the host */
	stamp_of(3);
	add();			/* after switch 3 */
	stamp_of(4);
	add();			/* after switch 4 */
	memcpy(loads, f.p + HOP_AT + 20 + HPCC_OPT_HEAD_LEN, sizeof(loads));
	s = (struct segment){ .back = true, .flags = 0x10, .seq = 1, .ack = 1 + PAYLOAD };
	ask(&s, HPCC_OPT_ECHO, 2, 2);
	memcpy(s.opts + HPCC_OPT_HEAD_LEN, loads, sizeof(loads));
	build(0, &s);
	add();
	s = (struct segment){ .flags = 0x10, .seq = 1 + PAYLOAD, .ack = 1 };
	ask(&s, HPCC_OPT_IDENTIFY, 0, 2);
	build(0, &s);
	stamp_of(3);
	stamp_of(4);
	add();
	request(0);
	answer();
	stamp_of(3);
	stamp_of(4);
	add();			/* switch 3 has responded */
	judge("tcp.pcap");
}

/* net/int.py reads this file. */
TEST(captures__int)
{
	static const struct hpcc_int_hop hops[] = {
		{ .node = 1, .port = 2, .ts_ns = 1000, .util = HPCC_INT_UTIL_ONE / 2 },
		{ .node = 2, .port = 1, .ts_ns = 3000, .qlen_bytes = 12500,
		  .util = HPCC_INT_UTIL_ONE },
	};
	struct segment s = { .flags = 0x10, .seq = 0xfffffc00, .ack = 1, .len = HPCC_INT_LEN };

	ask(&s, HPCC_OPT_FORWARD, 0, 0);
	hpcc_int_header(s.data, 2, 0);
	build(0, &s);
	f.p[IP_AT] |= 0x5;		/* DSCP 23 */
	f.p[IP_AT + 1] = 0xc0;
	add();			/* as it leaves the host */
	for (u32 i = 0; i < 3; i++)
		push(&hops[i % 2]);	/* the header has room for two hops, not for the third */
	judge("int.pcap");
}

/* net/ifa.py reads this file with tshark and tools/wireshark/hpcc-carriers.lua. */
TEST(captures__ifa)
{
	static const struct hpcc_ifa_hop hops[] = {
		{ .lns = HPCC_IFA_LNS, .node = 1, .speed = 4, .port = 2, .sec = 7, .ns = 1000,
		  .tx_bytes = 0xfffffff0 },
		{ .lns = 3, .node = 2, .speed = HPCC_IFA_SPEED_OTHER, .port = 1, .sec = 7,
		  .ns = 999999999, .residence_ns = 2000, .tx_bytes = 1000000, .qlen = 195 },
	};
	struct segment s = { .flags = 0x10, .seq = 1, .ack = 1 };

	ask(&s, HPCC_OPT_FORWARD, 0, 0);
	build(0, &s);
	wrap(1);
	add();			/* as it leaves the host */
	for (u32 i = 0; i < 3; i++)
		push_ifa(&hops[i % 2]);	/* the header has room for two hops, not for the third */
	judge("ifa.pcap");
}

/* net/csig.py reads this file with tshark and tools/wireshark/hpcc-carriers.lua. */
TEST(captures__csig)
{
	static const struct hpcc_csig_hop hops[] = {
		{ .abw_q30 = HPCC_INT_UTIL_ONE / 2, .qlen_ns = 20000, .locator = 1 },
		{ .abw_q30 = HPCC_INT_UTIL_ONE / 16, .qlen_ns = 90000, .locator = 2 },
		{ .abw_q30 = HPCC_INT_UTIL_ONE / 4, .qlen_ns = 50000, .locator = 3 },
	};
	static const u8 types[] = { HPCC_CSIG_ABW_C, HPCC_CSIG_QLEN };

	for (u32 i = 0; i < sizeof(types); i++) {
		struct segment s = { .flags = 0x10, .seq = 1, .ack = 1 };

		ask(&s, HPCC_OPT_FORWARD, 0, 1);
		put_unaligned_be64(hpcc_csig_record(hpcc_csig_ask(types[i]), false),
				   s.opts + HPCC_OPT_HEAD_LEN);
		build(0, &s);
		push_tag(types[i]);
		add();			/* as it leaves the host */
		compare(&hops[0], HPCC_STAMP_WRITTEN);
		add();			/* after one switch */
		compare(&hops[1], HPCC_STAMP_WRITTEN);
		add();			/* after a switch with a worse value */
		compare(&hops[2], HPCC_STAMP_QUIET);
		pop_tag();
		add();			/* in the receiver's LOCAL_IN */
	}
	judge("csig.pcap");
}
