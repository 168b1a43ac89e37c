/* SPDX-License-Identifier: GPL-2.0 */
/* Carriers of requests other than the TCP option. */
#ifndef _HPCC_CARRIER_CARRIER_H
#define _HPCC_CARRIER_CARRIER_H

#include <hpcc/carrier/csig.h>
#include <hpcc/carrier/ifa.h>
#include <hpcc/carrier/ioam.h>
#include <hpcc/wire/record.h>

#include "flow/flow.h"
#include "packet/segment.h"

/* ---- The choice (carrier.c) ---- */

bool hpcc_carrier_is_probed(u8 carrier);
void hpcc_carrier_begin(const struct sock *sk, struct hpcc_flow *flow);
bool hpcc_carrier_end(const struct sock *sk, struct hpcc_flow *flow);

/* ---- Traces and stacks at a receiver (trace.c) ---- */

/**
 * struct hpcc_trace_rx - state of a receiver for a path with traces or stacks
 * @lock: covers all but @rcu
 * @seen_ns: when the last valid trace arrived
 * @hops: number of nodes in that trace
 * @carrier: carrier that filled @link
 * @link: links by hop - 1; from @hops on bps is 0: no history
 * @rcu: for kfree_rcu()
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
void hpcc_hops_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		  const struct hpcc_opt *opt);

/* ---- IOAM (ioam.c) ---- */

bool hpcc_ioam_out(struct hpcc_segment *seg, u32 nodes);
void hpcc_ioam_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		  const struct hpcc_opt *opt, const u8 *records);
void hpcc_ioam_begin(const struct tcp_sock *tp, struct hpcc_flow *flow);
bool hpcc_ioam_rto(const struct tcp_sock *tp, struct hpcc_flow *flow);
void hpcc_ioam_ack(const struct tcp_sock *tp, struct hpcc_flow *flow, bool informed);

/**
 * hpcc_may_be_ioam() - whether a request may have an IOAM trace beside its option
 * @in: the segment
 * @opt: head of its option
 */
static inline bool hpcc_may_be_ioam(const struct hpcc_arrival *in, const struct hpcc_opt *opt)
{
	return in->state->pf == NFPROTO_IPV6 && opt->type == HPCC_OPT_FORWARD &&
	       ipv6_hdr(in->skb)->nexthdr == NEXTHDR_HOP;
}

/* ---- INT-MD (int.c) ---- */

void hpcc_int_out(const struct hpcc_segment *seg, const struct tcp_sock *tp, u8 nodes);
bool hpcc_int_comes(const struct tcp_sock *tp, const struct hpcc_arrival *in,
		    const struct hpcc_opt *opt);
bool hpcc_int_read(struct hpcc_arrival *in, u8 *buf);
int hpcc_int_records(struct hpcc_trace_rx *rx, const struct hpcc_arrival *in,
		     const struct hpcc_opt *opt, u8 *records, enum hpcc_counter *why);

/* ---- IFA 2.0 (ifa.c) ---- */

/* Both IFA headers, a TCP header, and the longest metadata stack that Current Length can state. */
#define HPCC_IFA_PACKET_MAX	(HPCC_IFA_LEN + HPCC_TCP_HEADER_MAX + 255 * 4)

void hpcc_ifa_out(const struct hpcc_segment *seg, u8 nodes);
int hpcc_ifa_records(struct hpcc_trace_rx *rx, const struct hpcc_arrival *in,
		     const struct hpcc_opt *opt, u8 *records, enum hpcc_counter *why);
bool hpcc_ifa_arrived(struct sk_buff *skb, const struct nf_hook_state *state);

/**
 * hpcc_is_ifa() - whether an IFA header follows an IP header
 * @skb: a packet
 * @pf: NFPROTO_IPV4 or NFPROTO_IPV6
 */
static inline bool hpcc_is_ifa(const struct sk_buff *skb, u8 pf)
{
	return (pf == NFPROTO_IPV4 ? ip_hdr(skb)->protocol : ipv6_hdr(skb)->nexthdr) ==
	       HPCC_IFA_PROTOCOL;
}

/* ---- CSIG (csig.c) ---- */

/**
 * hpcc_signal_pending() - whether a signal is to be reflected
 * @flow: a flow
 */
static inline bool hpcc_signal_pending(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->signal);
}

void hpcc_csig_out(const struct hpcc_flow *flow, u8 *record);
void hpcc_csig_in(struct hpcc_flow *flow, const struct net *net, const struct hpcc_opt *opt,
		  const u8 *record);
u32 hpcc_signal_write(struct hpcc_flow *flow, u8 *p);
bool hpcc_signal_in(struct hpcc_flow *flow, const struct net *net, const struct hpcc_opt *opt,
		    const u8 *records);
int hpcc_csig_check(void);
void hpcc_csig_init(void);
void hpcc_csig_exit(void);

#endif /* _HPCC_CARRIER_CARRIER_H */
