/* SPDX-License-Identifier: GPL-2.0 */
/* IOAM as the carrier of requests (ioam.c). */
#ifndef _HPCC_HPCC_IOAM_H
#define _HPCC_HPCC_IOAM_H

#include <hpcc/record.h>

#include "flow.h"
#include "segment.h"

u8 hpcc_ioam_nodes_for(const struct sock *sk, u8 caps);
bool hpcc_ioam_out(struct hpcc_segment *seg, u32 nodes);
u32 hpcc_ioam_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		 const struct hpcc_opt *opt, const u8 *records);
void hpcc_ioam_stop(struct sock *sk, struct hpcc_flow *flow);
void hpcc_ioam_rto(struct sock *sk, struct hpcc_flow *flow);
void hpcc_ioam_ack(const struct tcp_sock *tp, struct hpcc_flow *flow, bool told);
bool hpcc_links_known(const struct net *net);
int hpcc_links_register(struct net *net);
void hpcc_links_unregister(struct net *net);

/**
 * hpcc_may_be_ioam() - whether a request may have a trace beside its option
 * @in: the segment
 * @opt: head of its option
 */
static inline bool hpcc_may_be_ioam(const struct hpcc_arrival *in, const struct hpcc_opt *opt)
{
	return in->state->pf == NFPROTO_IPV6 && opt->type == HPCC_OPT_FORWARD &&
	       ipv6_hdr(in->skb)->nexthdr == NEXTHDR_HOP;
}

#endif /* _HPCC_HPCC_IOAM_H */
