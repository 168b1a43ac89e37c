// SPDX-License-Identifier: GPL-2.0
/*
 * INT-MD (<hpcc/carrier/int.h>): any bytes after a TCP header. Headers are found only within these
 * bytes. The metadata of a hop are inserted after the INT header, and change no other bytes. The
 * metadata that a hop pushed can be read again.
 *
 * Input: B, scale, room and the fields of a hop, then the bytes.
 */
#include "fuzz.h"
#include <hpcc/carrier/int.h>

#define FIELDS	32

static void decode(const u8 *p, const struct hpcc_int_md *t, u64 bps, u8 scale)
{
	struct hpcc_trace_link link = { .bps = 0 };
	int hops = hpcc_int_hops(t);
	struct hpcc_int_hop hop;

	expect(hops <= HPCC_INT_NODES_MAX);
	for (int nr = 1; nr <= hops; nr++) {
		u64 tx_ns = link.tx_ns;
		struct hpcc_record r;

		if (hpcc_int_hop(p, hops, nr, bps, &hop))
			continue;
		r = hpcc_int_record(&link, &hop, bps, nr, scale);
		expect(r.hop == nr);
		expect(r.ts <= HPCC_COUNTER_MASK && r.tx <= HPCC_COUNTER_MASK);
		expect(link.tx_ns - tx_ns <= HPCC_INT_SPAN_NS || link.tx_ns == HPCC_INT_TX_BASE);
		expect(!hpcc_int_jumps(&link, hop.ts_ns));
	}
}

static void pushed(const u8 *p, u32 total, const struct hpcc_int_md *t,
		   const struct hpcc_int_hop *hop)
{
	struct hpcc_int_md after;
	struct hpcc_int_hop got;
	int hops;

	expect(hpcc_int_find(p, HPCC_INT_LEN, total, &after) == (int)total);
	expect(after.words == t->words + t->hop_words && after.left == t->left - 1);
	expect(after.flags == t->flags && after.instructions == t->instructions);
	hops = hpcc_int_hops(&after);
	if (hops > 0 && !hpcc_int_hop(p, hops, hops, hop->ts_ns, &got))
		expect(got.node == hop->node && got.port == hop->port &&
		       got.qlen_bytes == hop->qlen_bytes && got.ts_ns == hop->ts_ns &&
		       got.util == hop->util);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct hpcc_int_hop hop;
	struct hpcc_int_md t;
	u32 have, n;
	u8 *p, *grown;
	int total;
	u64 bps;

	if (size < FIELDS)
		return 0;
	bps = (get_unaligned_be64(data) >> 16) + 8;
	hop = (struct hpcc_int_hop){
		.node = get_unaligned_be32(data + 8), .port = get_unaligned_be16(data + 12),
		.qlen_bytes = get_unaligned_be32(data + 16) & 0xffffff,
		.ts_ns = get_unaligned_be64(data + 20), .util = get_unaligned_be32(data + 28),
	};
	expect(hpcc_int_util(hop.ts_ns, bps) <= HPCC_INT_UTIL_ONE);
	size -= FIELDS;
	/* This copy contains only the header, so ASan reports any read after it. */
	have = min_t(size_t, size, HPCC_INT_LEN);
	p = fuzz_copy(data + FIELDS, have);
	total = hpcc_int_find(p, have, size, &t);
	if (total < 0) {
		expect(total == -ENOENT || total == -EINVAL);
		free(p);
		return 0;
	}
	expect(total >= HPCC_INT_LEN && total % 4 == 0 && (u32)total <= size);
	n = hpcc_int_room(p, &t, data[7]);
	expect(n <= data[7] && n <= HPCC_INT_HOP_MAX);
	expect(n || p[4] & (HPCC_INT_F_EXCEEDED | HPCC_INT_F_MTU));
	expect(!((p[4] ^ data[FIELDS + 4]) & ~(HPCC_INT_F_EXCEEDED | HPCC_INT_F_MTU)));
	grown = malloc(total + n);
	memcpy(grown, p, HPCC_INT_LEN);
	memcpy(grown + HPCC_INT_LEN + n, data + FIELDS + HPCC_INT_LEN, total - HPCC_INT_LEN);
	free(p);
	p = fuzz_copy(data + FIELDS, total);
	decode(p, &t, bps, data[0] & 31);
	free(p);
	if (n) {
		hpcc_int_push(grown, &t, &hop);
		pushed(grown, total + n, &t, &hop);
		expect(!memcmp(grown + HPCC_INT_LEN + n, data + FIELDS + HPCC_INT_LEN,
			       total - HPCC_INT_LEN));
	}
	hpcc_int_header(grown, data[7], data[0] & 31);
	expect(hpcc_int_find(grown, HPCC_INT_LEN, HPCC_INT_LEN, &t) == HPCC_INT_LEN);
	expect(!hpcc_int_hops(&t) && t.left == data[7]);
	free(grown);
	return 0;
}
