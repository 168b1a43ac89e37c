// SPDX-License-Identifier: GPL-2.0
/*
 * Find the headers of an arriving packet, once, for mark.c (ECN field) and stamp.c (telemetry).
 * hpcc/wire/stamp.h interprets the bytes; this file makes them readable, so it may pull data into
 * the linear part.
 *
 * Offsets found on arrival are valid on departure, because no other code pulls from or pushes to a
 * waiting packet. But its bytes may change. So a user of an offset makes the bytes writable, which
 * checks the length, and parses them again.
 */
#include <hpcc/wire/stamp.h>

#include "core/sched.h"

static int hpcc_find(const struct sk_buff *skb, u8 kind, struct hpcc_opt_location *place)
{
	struct hpcc_frame frame = {
		.p = skb->data,
		.have = skb_headlen(skb),
		.len = skb->len,
		.proto = HPCC_PROTO_ETHERNET,
	};

	if (!hpcc_is_ethernet(skb->dev)) {
		place->version = 0;
		place->ip = 0;
		if (skb_network_offset(skb) < 0)
			return HPCC_UNSTAMPED_MALFORMED;
		frame.network = skb_network_offset(skb);
		frame.proto = ntohs(skb->protocol);
	}
	return hpcc_walk(&frame, kind, place);
}

static u32 hpcc_hint(int ret, const struct hpcc_opt_location *place)
{
	BUILD_BUG_ON(FIELD_MAX(HPCC_HINT_TCP) < HPCC_WALK_MAX_BYTES);
	if (ret != HPCC_WALK_FOUND)
		return ret;
	return HPCC_HINT_FOUND | FIELD_PREP(HPCC_HINT_TCP, place->tcp) |
	       FIELD_PREP(HPCC_HINT_OPT, place->opt - place->tcp) |
	       FIELD_PREP(HPCC_HINT_LEN, place->len) |
	       FIELD_PREP(HPCC_HINT_END, place->end - place->tcp);
}

/* Find a packet's headers. The walk returns HPCC_WALK_MORE at most once per header, each time with
 * a larger number. @kind: TCP option kind, or HPCC_WALK_IP_ONLY.
 */
struct hpcc_headers hpcc_parse(struct sk_buff *skb, u8 kind)
{
	struct hpcc_headers headers = {};
	struct hpcc_opt_location place;
	int ret;

	while ((ret = hpcc_find(skb, kind, &place)) == HPCC_WALK_MORE) {
		if (!pskb_may_pull(skb, place.need)) {
			ret = HPCC_UNSTAMPED_NO_MEMORY;
			break;
		}
	}
	headers.hint = hpcc_hint(ret, &place);
	headers.version = place.version;
	headers.ip = place.ip;
	return headers;
}
