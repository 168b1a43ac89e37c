/* SPDX-License-Identifier: GPL-2.0 */
/* Carriers of requests other than the TCP option: operations, and the choice (carrier.c). */
#ifndef _HPCC_CARRIER_CARRIER_H
#define _HPCC_CARRIER_CARRIER_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <hpcc/carrier/ioam.h>

#include "packet/arrival.h"
#include "packet/segment.h"

/* Capabilities of carriers with hpcc_carrier_ops.reflects. */
#define HPCC_CAP_REFLECTS	HPCC_CAP_CSIG

/* Hops of a received trace or stack. */
struct hpcc_trace {
	const struct hpcc_carrier_ops *ops;	/* carrier of the trace */
	const u8 *p;		/* data of the hops */
	const void *head;	/* values that the carrier read from the header of the trace */
	const struct net *net;
	int hops;		/* negative: invalid */
	u8 before;		/* number of earlier hops, which wrote into the option */
	u8 scale;		/* scale of the records */
	u64 now_ns;		/* arrival time */
	u64 age_ns;		/* time since the last trace */
};

/* A carrier. All members of the TCP option are 0. @pull is set if the carrier announces @cap, @hop
 * if it calls hpcc_trace_in(), @report if it @reflects, and @packet_in if it has its own @protocol.
 * All other functions may be NULL.
 */
struct hpcc_carrier_ops {
	struct module *owner;
	u8 id;			/* enum hpcc_carrier */
	u8 protocol;		/* IP protocol of the packets for @packet_in */
	u16 cap;		/* HPCC_CAP_* that the peer needs */
	bool probes_only;	/* only probes use it; their FORWARD has a record if @fill is set */
	bool apart;		/* the peer's TCP does not receive probes of the carrier */
	bool ipv6_only;
	/* If set, a receiver announces @cap if its table of links has entries. Otherwise it
	 * announces @cap if its route to the sender selects the carrier.
	 */
	bool needs_links;
	bool reflects;		/* requests have a signal instead of load records, for @pull */
	/* Counters: requests that left; telemetry that was accepted, ignored, or of a link that is
	 * not in the table; changes back to the TCP option.
	 */
	enum hpcc_counter sent, received, ignored, unknown_link, stopped;

	/* Sender, under the socket lock. */
	void (*begin)(const struct tcp_sock *tp, struct hpcc_flow *flow);
	/* An ACK arrived; @informed: it carried telemetry. */
	void (*acked)(const struct tcp_sock *tp, struct hpcc_flow *flow, bool informed);
	/* An RTO fired. Return: whether the caller must stop the carrier. */
	bool (*rto)(const struct tcp_sock *tp, struct hpcc_flow *flow);
	/* Return: number of bytes to keep free in each data segment. */
	u16 (*reserve)(const struct hpcc_flow *flow);

	/* Sender, in LOCAL_OUT and LOCAL_IN. */
	/* Limits *@room for options. Return: whether the carrier fits into a segment. */
	bool (*fits)(const struct hpcc_segment *seg, const struct sock *sk,
		     const struct hpcc_flow *flow, u32 *room);
	/* Writes the record of a FORWARD, HPCC_RECORD_LEN bytes. */
	void (*fill)(const struct hpcc_flow *flow, u8 *record);
	/* Writes options and carrier into a segment. Return: false if there is no memory. */
	bool (*push)(struct hpcc_segment *seg, const struct sock *sk, const struct hpcc_flow *flow,
		     const u8 *options, u32 len);
	/* Processes a REPORT. Return: whether the REPORT is of this carrier, valid or not. */
	bool (*report_in)(struct hpcc_flow *flow, const struct net *net, const struct hpcc_opt *opt,
			  const u8 *records);

	/* Receiver, in LOCAL_IN. */
	/* Return: whether the packet belonged to a connection that runs hpcc, and was freed. */
	bool (*packet_in)(struct sk_buff *skb, const struct nf_hook_state *state);
	/* Processes a segment with unacceptable sequence number, but acceptable ACK number and TTL.
	 * Return: 1: consumed; 0: to be counted as invalid; -ENOENT: the carrier does not use it.
	 */
	int (*outside_in)(struct sock *sk, struct hpcc_flow *flow, struct hpcc_arrival *in,
			  const struct hpcc_opt *opt, int at, u32 pos);
	/* Return: whether the records of a request are in the carrier, not in the option. */
	bool (*carries)(const struct hpcc_flow *flow, const struct hpcc_arrival *in,
			const struct hpcc_opt *opt, const u8 *records);
	/* Stores the carrier's records. Unless @reflects, @records fit (hpcc_opt_misfits()). */
	void (*pull)(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		     const struct hpcc_opt *opt, const u8 *records);
	/* Makes a load record of hop @nr. Return: 0, -EINVAL, or -ENOENT if its link is unknown. */
	int (*hop)(const struct hpcc_trace *t, int nr, struct hpcc_trace_link *link,
		   struct hpcc_record *r);
	/* In LOCAL_OUT. Return: the record of a REPORT that reflects @signal. */
	u64 (*report)(u16 signal);
};

#define HPCC_CARRIER_COUNTERS(id)		\
	.sent = HPCC_C_##id##_SENT,		\
	.received = HPCC_C_##id##_RECEIVED,	\
	.ignored = HPCC_C_##id##_IGNORED,	\
	.stopped = HPCC_C_##id##_STOPPED

extern const struct hpcc_carrier_ops __rcu *hpcc_carriers[HPCC_CARRIER_MAX + 1];
extern const struct hpcc_carrier_ops hpcc_tcp_option;
extern u8 hpcc_carrier_protocols[256];

/* Processes the options of a probe that TCP will not receive, and answers it; main.c sets this.
 * Context: LOCAL_IN; @at and @pos as in hpcc_options_in().
 */
extern void (*hpcc_stack_in)(struct sock *sk, struct hpcc_flow *flow, const struct hpcc_arrival *in,
			     int at, u32 pos);

/* Operations of a carrier, or of the TCP option if the carrier's module is not loaded. Context: RCU
 * read side; or socket lock, if the socket's flow uses the carrier: the flow holds the module.
 */
static inline const struct hpcc_carrier_ops *hpcc_carrier_at(u8 carrier)
{
	return rcu_dereference_raw(hpcc_carriers[carrier]);
}

/* Operations of the carrier of a flow's requests. Context: as hpcc_carrier_at(). */
static inline const struct hpcc_carrier_ops *hpcc_carrier_of(const struct hpcc_flow *flow)
{
	return hpcc_carrier_at(READ_ONCE(flow->carrier));
}

/* Whether data carry requests, but not in the TCP option. Context: socket lock. */
static inline bool hpcc_carrier_in_data(const struct hpcc_flow *flow)
{
	return unlikely(flow->carrier) && !hpcc_carrier_of(flow)->probes_only &&
	       !flow->carrier_state.paused && !flow->probes;
}

/* Whether to try the carrier of the route again: the TCP option brings no telemetry either. A trace
 * that the path drops costs an RTO, so the tries are 1, 2, 4 .. 64 s apart. Context: socket lock.
 */
static inline bool hpcc_carrier_is_due(const struct hpcc_flow *flow)
{
	return (u32)jiffies - flow->carrier_private.tried > HZ / 2 << flow->carrier_private.tries;
}

/* acked() and rto() of struct hpcc_carrier_ops. Context: socket lock. */
static inline void hpcc_carrier_acked(const struct tcp_sock *tp, struct hpcc_flow *flow,
				      bool informed)
{
	if (unlikely(flow->carrier) && hpcc_carrier_of(flow)->acked)
		hpcc_carrier_of(flow)->acked(tp, flow, informed);
}

static inline bool hpcc_carrier_rto(const struct tcp_sock *tp, struct hpcc_flow *flow)
{
	return unlikely(flow->carrier) && hpcc_carrier_of(flow)->rto &&
	       hpcc_carrier_of(flow)->rto(tp, flow);
}

/* While a carrier is paused, the TCP option carries requests. Context: socket lock. */
static inline void hpcc_carrier_pause(struct hpcc_flow *flow, bool paused)
{
	WRITE_ONCE(flow->carrier_state.paused, paused);
}

/* Store whether some ports write into the TCP option, others into a trace. Context: LOCAL_IN. */
static inline void hpcc_carrier_mix(struct hpcc_flow *flow, bool mixed)
{
	if (READ_ONCE(flow->carrier_state.mixed) != mixed)
		WRITE_ONCE(flow->carrier_state.mixed, mixed);
}

/* Store a signal that the next ACK reflects. @carrier: enum hpcc_carrier. Context: LOCAL_IN. */
static inline void hpcc_signal_in(struct hpcc_flow *flow, u8 carrier, u16 signal)
{
	WRITE_ONCE(flow->carrier_state.signal, carrier << 16 | signal);
}

/* Whether a signal is to be reflected. */
static inline bool hpcc_signal_pending(const struct hpcc_flow *flow)
{
	return READ_ONCE(flow->carrier_state.signal);
}

/* Return: the carrier with the IP protocol of a packet, enum hpcc_carrier; 0: none. */
static inline u8 hpcc_carrier_of_packet(const struct sk_buff *skb, u8 pf)
{
	u8 protocol = pf == NFPROTO_IPV4 ? ip_hdr(skb)->protocol : ipv6_hdr(skb)->nexthdr;

	return likely(protocol == IPPROTO_TCP) ? HPCC_CARRIER_TCP :
						 READ_ONCE(hpcc_carrier_protocols[protocol]);
}

/* packet_in() of struct hpcc_carrier_ops. Context: LOCAL_IN. */
static inline bool hpcc_carrier_packet_in(u8 carrier, struct sk_buff *skb,
					  const struct nf_hook_state *state)
{
	const struct hpcc_carrier_ops *ops = hpcc_carrier_at(carrier);

	/* The carrier may have been unregistered meanwhile. */
	return ops->packet_in && ops->packet_in(skb, state);
}

/* Whether hpcc_carrier_of_request() must look for a carrier beside the option of a request. */
static inline bool hpcc_may_be_carried(const struct hpcc_flow *flow, const struct hpcc_arrival *in)
{
	return in->carrier || flow->caps & HPCC_CAP_REFLECTS ||
	       (in->state->pf == NFPROTO_IPV6 && in->thoff != sizeof(struct ipv6hdr));
}

const struct hpcc_carrier_ops *hpcc_carrier_of_request(const struct hpcc_flow *flow,
						       const struct hpcc_arrival *in,
						       const struct hpcc_opt *opt,
						       const u8 *records);
int hpcc_carrier_register(const struct hpcc_carrier_ops *ops);
void hpcc_carrier_unregister(const struct hpcc_carrier_ops *ops);
void hpcc_carrier_begin(const struct sock *sk, struct hpcc_flow *flow);
bool hpcc_carrier_end(const struct sock *sk, struct hpcc_flow *flow);
u16 hpcc_carrier_caps(const struct net *net, u8 carrier);
bool hpcc_carrier_fits(const struct hpcc_segment *seg, const struct sock *sk, u32 n, u32 *room);
u32 hpcc_signal_write(struct hpcc_flow *flow, u8 *p);

bool hpcc_trace_in(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		   const struct hpcc_opt *opt, struct hpcc_trace *t, u8 *records);
void hpcc_stack_pull(struct hpcc_flow *flow, const struct hpcc_arrival *in,
		     const struct hpcc_opt *opt, struct hpcc_trace *t);

#endif /* _HPCC_CARRIER_CARRIER_H */
