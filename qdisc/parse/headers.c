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
#include "parse/frame.h"

static int hpcc_find(const struct sk_buff *skb, u8 kind, struct hpcc_opt_location *place)
{
	struct hpcc_frame frame;

	if (!hpcc_frame_of(skb, &frame)) {
		place->version = 0;
		place->ip = 0;
		return HPCC_UNSTAMPED_MALFORMED;
	}
	return hpcc_walk(&frame, kind, place);
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
	headers.hint = hpcc_option_hint(ret, &place);
	headers.version = place.version;
	headers.ip = place.ip;
	return headers;
}
