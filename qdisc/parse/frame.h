/* SPDX-License-Identifier: GPL-2.0 */
/* Between an skb and the functions of hpcc/wire/stamp.h, which use no skb. */
#ifndef _HPCC_QDISC_PARSE_FRAME_H
#define _HPCC_QDISC_PARSE_FRAME_H

#include <hpcc/wire/stamp.h>

#include "core/sched.h"

/* The readable bytes of an skb. Return: false if its headers have no known start. */
static inline bool hpcc_frame_of(const struct sk_buff *skb, struct hpcc_frame *frame)
{
	*frame = (struct hpcc_frame){
		.p = skb->data,
		.have = skb_headlen(skb),
		.len = skb->len,
		.proto = HPCC_PROTO_ETHERNET,
	};
	if (!hpcc_is_ethernet(skb->dev)) {
		if (skb_network_offset(skb) < 0)
			return false;
		frame->network = skb_network_offset(skb);
		frame->proto = ntohs(skb->protocol);
	}
	return true;
}

/* The hint for the result of a walk. */
static inline u32 hpcc_option_hint(int ret, const struct hpcc_opt_location *place)
{
	BUILD_BUG_ON(FIELD_MAX(HPCC_HINT_TCP) < HPCC_WALK_MAX_BYTES);
	if (ret != HPCC_WALK_FOUND)
		return ret;
	return HPCC_HINT_FOUND | FIELD_PREP(HPCC_HINT_TCP, place->tcp) |
	       FIELD_PREP(HPCC_HINT_OPT, place->opt - place->tcp) |
	       FIELD_PREP(HPCC_HINT_LEN, place->len) |
	       FIELD_PREP(HPCC_HINT_END, place->end - place->tcp);
}

#endif /* _HPCC_QDISC_PARSE_FRAME_H */
