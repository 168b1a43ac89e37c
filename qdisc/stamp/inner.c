// SPDX-License-Identifier: GPL-2.0
/*
 * The TCP option of packets in tunnels (hpcc/wire/tunnel.h). Where hpcc_parse() finds no TCP, the
 * search goes on inside the tunnels. Marks and all other carriers use the outer headers.
 *
 * hpcc_stamp_packet() keeps the sum of the TCP segment constant, so it keeps all checksums right:
 *
 *	all are complete		the TCP checksum is updated
 *	UDP's or GRE's comes later	the same: the later one covers the updated segment
 *	the inner TCP's comes later	it is not updated. The outer ones were computed for the
 *					complete segment (local checksum offload).
 */
#include <hpcc/wire/tunnel.h>

#include "parse/frame.h"
#include "stamp/snapshot.h"
#include "stamp/stamp_ops.h"

#define HPCC_GSO_TUNNELS (SKB_GSO_UDP_TUNNEL | SKB_GSO_UDP_TUNNEL_CSUM | SKB_GSO_GRE |	\
			  SKB_GSO_GRE_CSUM | SKB_GSO_IPXIP4 | SKB_GSO_IPXIP6)

/* Whether the kernel has built a GSO packet as TCP in a tunnel. Otherwise it splits UDP, and the
 * headers that we find are payload of one datagram.
 */
static bool hpcc_inner_is_tcp(const struct sk_buff *skb)
{
	u32 type = skb_shinfo(skb)->gso_type;

	return skb->encapsulation && type & HPCC_GSO_TUNNELS &&
	       type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6) && !(type & SKB_GSO_FRAGLIST);
}

static u32 hpcc_inner_hint(struct sk_buff *skb, const struct hpcc_config *cfg,
			   struct hpcc_headers *headers)
{
	struct hpcc_opt_location place = {};
	struct hpcc_frame frame;
	int ret;

	if (headers->hint != HPCC_UNSTAMPED_NOT_TCP ||
	    (skb_is_gso(skb) && !hpcc_inner_is_tcp(skb)))
		return 0;
	do {
		if (!hpcc_frame_of(skb, &frame))
			return HPCC_UNSTAMPED_MALFORMED;
		ret = hpcc_walk_inner(&frame, cfg->kind, &place);
	} while (ret == HPCC_WALK_MORE && pskb_may_pull(skb, place.need));
	if (ret == HPCC_WALK_MORE)
		return HPCC_UNSTAMPED_NO_MEMORY;
	if (ret == HPCC_WALK_FOUND && skb_is_gso(skb) && !hpcc_check_is_partial(skb, place.tcp))
		return 0;
	return hpcc_option_hint(ret, &place);
}

static const struct hpcc_stamp_ops hpcc_inner_ops = {
	.row		= HPCC_ROW_INNER,
	.owner		= THIS_MODULE,
	.hint		= hpcc_inner_hint,
	.write		= hpcc_stamp_option_of,
};

module_driver(hpcc_inner_ops, hpcc_stamp_register, hpcc_stamp_unregister);

MODULE_AUTHOR("The HPCC++ for Linux authors");
MODULE_DESCRIPTION("The TCP option in tunnels for the qdisc hpcc");
MODULE_LICENSE("GPL");
MODULE_VERSION(HPCC_VERSION);
