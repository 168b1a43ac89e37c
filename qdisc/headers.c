// SPDX-License-Identifier: GPL-2.0
/*
 * Find the headers of a packet that arrives, once: mark.c reads and writes the ECN
 * field of the IP header, stamp.c writes into the telemetry option when the packet
 * departs.
 *
 * What bytes mean is decided in hpcc/stamp.h; here they are made readable. That may
 * pull data into the packet's linear part, and changes no byte.
 *
 * Offsets that were found on arrival hold on departure, as nobody else pulls from or
 * pushes to a packet that waits. Bytes may be others by then: whoever uses an
 * offset makes the bytes writable, which checks the length, and looks at them again.
 */
#include <hpcc/stamp.h>

#include "sched.h"

/* Of a device without Ethernet headers. */
static bool hpcc_find_network(const struct sk_buff *skb, struct hpcc_frame *f)
{
	if (skb_network_offset(skb) < 0)
		return false;
	f->network = skb_network_offset(skb);
	f->proto = ntohs(skb->protocol);
	return true;
}

/* The walk asks for more at most once per header, each time for more than before. */
static int hpcc_find(struct sk_buff *skb, u8 kind, struct hpcc_place *place)
{
	struct hpcc_frame frame = {
		.len = skb->len,
		.proto = HPCC_PROTO_ETHERNET,
	};
	int ret;

	place->version = 0;
	if (!hpcc_is_ethernet(skb->dev) && !hpcc_find_network(skb, &frame))
		return HPCC_UNSTAMPED_MALFORMED;
	for (;;) {
		frame.p = skb->data;
		frame.have = skb_headlen(skb);
		ret = hpcc_walk(&frame, kind, place);
		if (ret != HPCC_WALK_MORE)
			return ret;
		if (!pskb_may_pull(skb, place->need))
			return HPCC_UNSTAMPED_NO_MEMORY;
	}
}

/**
 * hpcc_parse() - find a packet's headers, as far as the configuration needs them
 * @q: the port
 * @skb: the packet
 *
 * Return: where they are.
 */
struct hpcc_headers hpcc_parse(const struct hpcc_sched *q, struct sk_buff *skb)
{
	u8 kind = q->cfg.stamp ? q->cfg.kind : HPCC_WALK_IP_ONLY;
	struct hpcc_headers headers = {};
	struct hpcc_place place;
	int ret = hpcc_find(skb, kind, &place);

	/* What the fields take. */
	BUILD_BUG_ON(HPCC_WALK_MAX_BYTES > 1 << 10);
	BUILD_BUG_ON(__HPCC_UNSTAMPED_MAX > 1 << 4);
	if (place.version) {
		headers.version = place.version;
		headers.ip = place.ip;
	}
	if (ret != HPCC_WALK_FOUND) {
		headers.note.unstamped = ret;
		return headers;
	}
	headers.note = (struct hpcc_note){
		.tcp = place.tcp,
		.opt = place.opt - place.tcp,
		.len = place.len,
		.end = place.end - place.tcp,
	};
	return headers;
}
