// SPDX-License-Identifier: GPL-2.0
/*
 * IOAM traces (<hpcc/carrier/ioam.h>): a hop-by-hop header of any bytes. A trace that is found is
 * inside the header, a node writes its data only into the free space, and the data are read back
 * unchanged.
 *
 * Input: B, scale, a node's fields, then the header.
 */
#include "fuzz.h"
#include <hpcc/carrier/ioam.h>

#define FIELDS	24

static void decode(const u8 *trace, const struct hpcc_ioam *t, u64 bps, u8 scale)
{
	int nodes = hpcc_ioam_nodes(t);
	struct hpcc_trace_link link = { .bps = 0 };
	struct hpcc_ioam_node n;

	expect(nodes <= HPCC_IOAM_NODES_MAX);
	for (int hop = 1; hop <= nodes; hop++) {
		struct hpcc_record r;

		if (hpcc_ioam_node(trace, t, hop, &n))
			continue;
		hpcc_ioam_age(&link, bps);
		r = hpcc_ioam_record(&link, &n, bps, hop, scale);
		expect(r.hop == hop);
		expect(r.ts <= HPCC_COUNTER_MASK && r.tx <= HPCC_COUNTER_MASK);
		expect(link.ts_ns % HPCC_IOAM_SECOND_NS == n.ts_ns);
		expect((u32)link.tx_bytes == n.tx_bytes);
	}
}

/* Only the flags, RemainingLen and the last free words may have changed. */
static void changes(const u8 *p, const u8 *before, u32 len, const struct hpcc_ioam *t, bool wrote)
{
	u32 to = HPCC_IOAM_HEAD_LEN + t->left * 4;
	u32 from = wrote ? to - t->node_words * 4 : to;

	for (u32 i = 0; i < len; i++)
		expect(p[i] == before[i] || i == 2 || i == 3 || (i >= from && i < to));
	expect(!((p[2] ^ before[2]) & ~0x04));
	expect(!((p[3] ^ before[3]) & 0x80));
}

static void same(const struct hpcc_ioam_node *got, const struct hpcc_ioam_node *n)
{
	expect(got->node == n->node && got->port == n->port && got->ts_ns == n->ts_ns &&
	       got->qlen_bytes == n->qlen_bytes && got->tx_bytes == n->tx_bytes &&
	       got->hop_lim == n->hop_lim);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct hpcc_ioam_node n, got;
	struct hpcc_ioam t, after;
	u8 *p, *before;
	u32 at = 0, nodes;
	int len, ret;
	u64 bps;

	if (size < FIELDS + 2)
		return 0;
	bps = (get_unaligned_be64(data) >> 16) + 8;
	n = (struct hpcc_ioam_node){
		.hop_lim = data[7], .node = get_unaligned_be32(data + 8) & HPCC_IOAM_U24_NONE,
		.port = get_unaligned_be16(data + 10), .ts_ns = get_unaligned_be32(data + 12),
		.qlen_bytes = get_unaligned_be32(data + 16),
		.tx_bytes = get_unaligned_be32(data + 20),
	};
	size -= FIELDS;
	p = fuzz_copy(data + FIELDS, size);
	len = hpcc_ioam_find(p, size, &at);
	if (len < 0) {
		expect(len == -ENOENT || len == -EINVAL);
		free(p);
		return 0;
	}
	expect(len >= HPCC_IOAM_HEAD_LEN && len % 4 == 0 && at + len <= size);
	expect(p[at - 1] == HPCC_IOAM_PREALLOCATED);
	/* No byte around the trace is accessed: ASan checks this copy. */
	before = fuzz_copy(p + at, len);
	free(p);
	p = fuzz_copy(before, len);
	ret = hpcc_ioam_read(p, len, &t);
	if (!ret)
		decode(p, &t, bps, data[0] & 31);
	if (!ret && t.left >= t.node_words && !hpcc_ioam_words(t.type))
		expect(hpcc_ioam_write(p, len, &n) == HPCC_UNSTAMPED_NO_OPTION);
	ret = hpcc_ioam_write(p, len, &n);
	if (ret == HPCC_UNSTAMPED_MALFORMED || ret == HPCC_UNSTAMPED_NO_OPTION)
		expect(!memcmp(p, before, len));
	else
		changes(p, before, len, &t, !ret);
	if (!ret) {
		expect(!hpcc_ioam_read(p, len, &after));
		expect(after.left == t.left - t.node_words);
		if (hpcc_ioam_nodes(&after) > 0 &&
		    !hpcc_ioam_node(p, &after, hpcc_ioam_nodes(&after), &got))
			same(&got, &n);
	}
	free(before);
	free(p);
	nodes = n.hop_lim % HPCC_IOAM_NODES_MAX;
	if (nodes) {
		p = malloc(hpcc_ioam_header_len(nodes));
		hpcc_ioam_header(p, nodes, 6);
		expect(hpcc_ioam_find(p, hpcc_ioam_header_len(nodes), &at) ==
		       (int)(8 + nodes * HPCC_IOAM_NODE_LEN));
		free(p);
	}
	return 0;
}
