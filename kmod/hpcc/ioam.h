/* SPDX-License-Identifier: GPL-2.0 */
/* IOAM as the carrier of requests (ioam.c). */
#ifndef _HPCC_HPCC_IOAM_H
#define _HPCC_HPCC_IOAM_H

#include <hpcc/ioam.h>
#include <hpcc/record.h>

#include "flow.h"
#include "segment.h"

/**
 * struct hpcc_trace_rx - what a receiver keeps of a path that traces or stacks tell of
 * @lock: covers all but @rcu
 * @seen_ns: when the last trace came, that was taken in
 * @hops: how many nodes it had
 * @carrier: the links are as it tells of them
 * @link: by hop - 1; those from @hops on begin anew
 * @rcu: frees it
 */
struct hpcc_trace_rx {
	spinlock_t lock;	/* covers all but @rcu */
	u64 seen_ns;
	int hops;
	enum hpcc_carrier carrier;
	struct hpcc_trace_link link[HPCC_IOAM_NODES_MAX];
	struct rcu_head rcu;
};

struct hpcc_trace_rx *hpcc_trace_rx(struct hpcc_flow *flow, const struct net *net);
void hpcc_trace_begin(struct hpcc_trace_rx *rx, enum hpcc_carrier carrier);
void hpcc_trace_end(struct hpcc_trace_rx *rx, int hops, u64 now_ns);

bool hpcc_ioam_out(struct hpcc_segment *seg, u32 nodes);
void hpcc_ioam_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		  const struct hpcc_opt *opt, const u8 *records);
void hpcc_ioam_rto(struct sock *sk, struct hpcc_flow *flow);
void hpcc_ioam_ack(const struct tcp_sock *tp, struct hpcc_flow *flow, bool told);

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
