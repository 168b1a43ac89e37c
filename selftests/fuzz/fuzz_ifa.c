// SPDX-License-Identifier: GPL-2.0
/*
 * IFA 2.0 (<hpcc/carrier/ifa.h>): any bytes after an IP header. Headers are found only within these
 * bytes. The metadata of a hop are inserted after the metadata header, and change no other bytes.
 * The metadata that a hop pushed can be read again.
 *
 * Input: FIELDS bytes with B, the number of bytes by which the packet may grow and the fields of a
 * hop, then the bytes after the IP header.
 */
#include "fuzz.h"
#include <hpcc/carrier/ifa.h>

#define FIELDS	32

static void decode(const u8 *md, const struct hpcc_ifa *t, u64 bps, u8 scale)
{
	struct hpcc_trace_link link = { .bps = 0 };
	int hops = hpcc_ifa_hops(t);
	struct hpcc_ifa_hop hop;

	expect(hops <= HPCC_IFA_NODES_MAX);
	for (int nr = 1; nr <= hops; nr++) {
		struct hpcc_record r;

		if (hpcc_ifa_hop(md, hops, nr, &hop))
			continue;
		expect(hpcc_ifa_egress_ns(&hop) < HPCC_IOAM_SECOND_NS);
		r = hpcc_ifa_record(&link, &hop, hpcc_ifa_bps(hop.speed) ?: bps, HPCC_IFA_UNIT, nr,
				    scale);
		expect(r.hop == nr);
		expect(r.ts <= HPCC_COUNTER_MASK && r.tx <= HPCC_COUNTER_MASK);
	}
}

/* @new contains the bytes of @old, and the metadata of @hop at the top of the stack. */
static void pushed(const u8 *new, const u8 *old, u32 total, const struct hpcc_ifa *t,
		   const struct hpcc_ifa_hop *hop)
{
	u32 at = t->md + HPCC_IFA_MD_LEN;
	struct hpcc_ifa_hop got;
	struct hpcc_ifa after;
	int hops;

	expect(hpcc_ifa_find(new, at, total + HPCC_IFA_HOP_LEN, &after) ==
	       (int)(total + HPCC_IFA_HOP_LEN));
	expect(after.words == t->words + HPCC_IFA_HOP_WORDS && after.max == t->max);
	expect(after.limit == t->limit - (t->limit != HPCC_IFA_UNLIMITED));
	expect(!memcmp(new, old, t->md + 2));
	expect(!memcmp(new + at + HPCC_IFA_HOP_LEN, old + at, total - at));
	hops = hpcc_ifa_hops(&after);
	if (hops > 0 && !hpcc_ifa_hop(new + t->md, hops, hops, &got))
		expect(got.lns == hop->lns && got.node == hop->node && got.speed == hop->speed &&
		       got.port == hop->port && got.sec == hop->sec && got.ns == hop->ns &&
		       got.residence_ns == hop->residence_ns && got.tx_bytes == hop->tx_bytes &&
		       got.qlen == hop->qlen);
}

static void push(const u8 *old, u32 total, const struct hpcc_ifa *t, const struct hpcc_ifa_hop *hop)
{
	u32 at = t->md + HPCC_IFA_MD_LEN;
	u8 *new = malloc(total + HPCC_IFA_HOP_LEN);

	memcpy(new, old, at);
	memcpy(new + at + HPCC_IFA_HOP_LEN, old + at, total - at);
	hpcc_ifa_push(new + t->md, t, hop);
	pushed(new, old, total, t, hop);
	free(new);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct hpcc_ifa_hop hop;
	struct hpcc_ifa t;
	u32 have, need;
	int total;
	u64 bps;
	u8 *p;

	if (size < FIELDS)
		return 0;
	bps = (get_unaligned_be64(data) >> 16) + 8;
	hop = (struct hpcc_ifa_hop){
		.lns = data[8] >> 4, .node = get_unaligned_be32(data + 8) & 0xfffff,
		.speed = hpcc_ifa_speed(bps), .port = get_unaligned_be16(data + 12),
		.qlen = get_unaligned_be16(data + 14),
		.sec = get_unaligned_be32(data + 16) & 0xfffff, .ns = get_unaligned_be32(data + 20),
		.residence_ns = get_unaligned_be32(data + 24),
		.tx_bytes = get_unaligned_be32(data + 28),
	};
	data += FIELDS;
	size -= FIELDS;
	/* This copy contains only the headers, so ASan reports any read after them. */
	need = HPCC_IFA_HEAD_LEN + HPCC_IFA_TCP_MIN;
	if (size >= need)
		need = hpcc_ifa_md(data) + HPCC_IFA_MD_LEN;
	have = min_t(size_t, size, need);
	p = fuzz_copy(data, have);
	total = hpcc_ifa_find(p, have, size, &t);
	free(p);
	if (total < 0) {
		expect(total == -ENOENT || total == -EINVAL);
		return 0;
	}
	expect((u32)total >= t.md + HPCC_IFA_MD_LEN && (u32)total <= size);
	p = fuzz_copy(data, total);
	decode(p + t.md, &t, bps, data[0] & 31);
	if (hpcc_ifa_room(&t, data[-FIELDS + 7]))
		push(p, total, &t, &hop);
	hpcc_ifa_header(p, p + t.md, hop.port % (HPCC_IFA_NODES_MAX + 1));
	expect(hpcc_ifa_find(p, t.md + HPCC_IFA_MD_LEN, t.md + HPCC_IFA_MD_LEN, &t) ==
	       (int)(t.md + HPCC_IFA_MD_LEN));
	expect(!hpcc_ifa_hops(&t));
	free(p);
	return 0;
}
