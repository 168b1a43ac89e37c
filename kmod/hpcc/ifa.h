/* SPDX-License-Identifier: GPL-2.0 */
/* IFA 2.0 as the carrier of requests (ifa.c). */
#ifndef _HPCC_HPCC_IFA_H
#define _HPCC_HPCC_IFA_H

#include <hpcc/ifa.h>
#include <hpcc/record.h>

#include "flow.h"
#include "segment.h"

/* Both headers of IFA, a TCP header and what Current Length can state. */
#define HPCC_IFA_PACKET_MAX	(HPCC_IFA_LEN + HPCC_TCP_HEADER_MAX + 255 * 4)

void hpcc_ifa_out(const struct hpcc_segment *seg, u8 nodes);
void hpcc_ifa_in(struct hpcc_flow *flow, const struct hpcc_arrival *in, const struct hpcc_opt *opt);
bool hpcc_ifa_arrived(struct sk_buff *skb, const struct nf_hook_state *state);

/**
 * hpcc_is_ifa() - whether an IP header says that IFA follows
 * @skb: a packet
 * @pf: NFPROTO_IPV4 or NFPROTO_IPV6
 */
static inline bool hpcc_is_ifa(const struct sk_buff *skb, u8 pf)
{
	return (pf == NFPROTO_IPV4 ? ip_hdr(skb)->protocol : ipv6_hdr(skb)->nexthdr) ==
	       HPCC_IFA_PROTOCOL;
}

#endif /* _HPCC_HPCC_IFA_H */
